//! From nodes and offsets to spots that may be shown.

use super::yaml::Node;
use crate::source::{SourceFile, Spot};
use std::sync::Arc;

/// A range of a file and the line it begins on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    /// Line of `start`, from 1.
    pub line: u32,
}

impl Range {
    /// One node.
    pub fn of(node: Node<'_>) -> Self {
        Self {
            start: node.start(),
            end: node.end(),
            line: node.line(),
        }
    }

    /// A key and its value; only the key where the value is a map or a list, whose text nobody has vouched for.
    pub fn pair(key: Node<'_>, value: Node<'_>) -> Self {
        let whole = value.text().is_some() && value.line() == key.line() && value.end() > key.end();
        Self {
            end: if whole { value.end() } else { key.end() },
            ..Self::of(key)
        }
    }

    /// The spot in its file. Trailing blanks are left out.
    pub fn spot(self, file: &Arc<SourceFile>) -> Spot {
        let text = &file.text;
        let end = self.end.min(text.len()).max(self.start);
        let shown = text.get(self.start..end).unwrap_or_default().trim_end();
        let head = text.get(..self.start).unwrap_or_default();
        let column = head.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Spot {
            file: Arc::clone(file),
            start: self.start,
            end: self.start + shown.len(),
            line: self.line,
            column: u32::try_from(column).unwrap_or(u32::MAX),
        }
    }
}

/// Where an entry of a list with `name` and `value` is written: from the one that stands first to the end of the
/// other, when nothing but blanks and punctuation stands between them, else the value alone. So the range never holds
/// the text of another setting.
pub(super) fn named(text: &str, entry: Node<'_>) -> Option<Range> {
    let name = entry.pair("name")?;
    let Some(value) = entry.pair("value") else {
        return Some(Range::pair(name.0, name.1));
    };
    let (first, second) = if name.0.start() < value.0.start() {
        (name, value)
    } else {
        (value, name)
    };
    let between = text.get(first.1.end()..second.0.start()).unwrap_or("?");
    let adjacent = between.matches('\n').count() <= 1
        && between
            .chars()
            .all(|c| c.is_whitespace() || matches!(c, ',' | '"' | '\''))
        && first.1.end() > first.0.start();
    let end = |(key, value): (Node<'_>, Node<'_>)| value.end().max(key.end());
    Some(if adjacent {
        Range {
            end: end(second),
            ..Range::of(first.0)
        }
    } else {
        Range {
            end: end(value),
            ..Range::of(value.0)
        }
    })
}

/// Where `NAME=` is written inside the scalar `node`, given its `nth` occurrence (from 0) in the scalar's content.
/// Indentation and folding may part content and source, an occurrence in one is an occurrence in the other. The range
/// holds the value only where it is written exactly as `verbatim`.
pub(super) fn assignment(
    text: &str,
    node: Node<'_>,
    name: &str,
    nth: usize,
    verbatim: Option<&str>,
) -> Range {
    let source = text.get(node.start()..node.end()).unwrap_or_default();
    let key = format!("{name}=");
    let Some((at, _)) = source.match_indices(&key).nth(nth) else {
        return Range {
            end: node.start(),
            ..Range::of(node)
        };
    };
    let start = node.start() + at;
    let whole = verbatim
        .filter(|v| source[at..].starts_with(v) && v.starts_with(&key) && !v.contains('\n'));
    let end = start + whole.map_or(name.len(), str::len);
    let lines = source[..at].bytes().filter(|&b| b == b'\n').count();
    Range {
        start,
        end,
        line: node
            .line()
            .saturating_add(u32::try_from(lines).unwrap_or(u32::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::yaml::Tree;

    fn shown(text: &str) -> String {
        let tree = Tree::parse(text, 0, 1).unwrap();
        let entry = tree.roots().next().unwrap().items().next().unwrap();
        let range = named(text, entry).unwrap();
        text[range.start..range.end].to_owned()
    }

    #[test]
    fn an_entry_never_shows_its_neighbours() {
        assert_eq!(shown("- name: A\n  value: x\n"), "name: A\n  value: x");
        assert_eq!(
            shown("- {name: A, value: \"x\"}\n"),
            "name: A, value: \"x\""
        );
        assert_eq!(shown("- {value: x, name: A}\n"), "value: x, name: A");
        assert_eq!(shown("- name: A # token\n  value: x\n"), "value: x");
        assert_eq!(shown("- name: A\n  # token\n  value: x\n"), "value: x");
        assert_eq!(shown("- {name: A, other: token, value: x}\n"), "value: x");
        assert_eq!(
            shown("- name: A\n  valueFrom: {secretKeyRef: {name: s}}\n"),
            "name: A"
        );
    }
}
