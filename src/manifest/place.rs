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

    /// A key and its value; only the key where the value is a map or a list, whose text nobody has vouched for, or
    /// where something else is written with them: a comment, an anchor, a tag.
    pub fn pair(key: Node<'_>, value: Node<'_>) -> Self {
        let whole = value.line() == key.line() && value.end() > key.end() && adjoins(key, value);
        if !(whole && key.holds_only_content()) {
            return Self::key(key);
        }
        Self {
            end: value.end(),
            ..Self::of(key)
        }
    }

    /// A key alone.
    pub fn key(key: Node<'_>) -> Self {
        if key.holds_only_content() {
            Self::of(key)
        } else {
            Self::before(key)
        }
    }

    /// The place in front of a node: points, and shows nothing.
    pub fn before(node: Node<'_>) -> Self {
        Self {
            end: node.start(),
            ..Self::of(node)
        }
    }

    /// A part of the text that stands in this range.
    pub fn within(self, text: &str, at: usize, length: usize) -> Self {
        let lines = text.get(..at).unwrap_or_default().matches('\n').count();
        let start = self.start + at;
        Self {
            start,
            end: start + length,
            line: self
                .line
                .saturating_add(u32::try_from(lines).unwrap_or(u32::MAX)),
        }
    }

    /// The spot in its file. Trailing blanks are left out.
    pub fn spot(self, file: &Arc<SourceFile>) -> Spot {
        let text = &file.text;
        let end = self.end.min(text.len()).max(self.start);
        let shown = text.get(self.start..end).unwrap_or_default().trim_end();
        let column = column(text, self.start);
        Spot {
            file: Arc::clone(file),
            start: self.start,
            end: self.start + shown.len(),
            line: self.line,
            column: u32::try_from(column).unwrap_or(u32::MAX),
        }
    }
}

/// Columns are counted so far back; no line that a person writes is longer.
const LONG_LINE: usize = 64 << 10;

/// Column of a byte in characters, from 1; behind that many bytes of one line, in bytes.
fn column(text: &str, at: usize) -> usize {
    let from = at.saturating_sub(LONG_LINE);
    let window = text.as_bytes().get(from..at).unwrap_or_default();
    match window.iter().rposition(|&b| b == b'\n') {
        Some(end) => {
            text.get(from + end + 1..at)
                .unwrap_or_default()
                .chars()
                .count()
                + 1
        }
        None if from == 0 => text.get(..at).unwrap_or_default().chars().count() + 1,
        None => LONG_LINE,
    }
}

/// The value is a scalar, and nothing stands between it and its key: neither a comment nor an anchor nor a tag.
fn adjoins(key: Node<'_>, value: Node<'_>) -> bool {
    value.holds_only_content() && key.gap_to(value).is_some_and(|gap| is_bare(gap, ":|>-+"))
}

/// Only blanks and these characters. A `-` that ends a gap belongs to it as little as a `#` would.
fn is_bare(gap: &str, marks: &str) -> bool {
    gap.chars().all(|c| c.is_whitespace() || marks.contains(c))
}

/// Where an entry of a list with `name` and `value` is written: from the one that stands first to the end of the
/// other, when both are written out and nothing but blanks and punctuation stands around them, else the value alone,
/// else the name. So the range never holds the text of another setting, a comment, or the name of an anchor.
pub(super) fn named(entry: Node<'_>) -> Option<Range> {
    let name = entry.pair("name")?;
    let name_alone = || {
        let (key, value) = name;
        if key.holds_only_content() && adjoins(key, value) {
            return Range {
                end: value.end(),
                ..Range::of(key)
            };
        }
        if value.holds_only_content() {
            Range::of(value)
        } else {
            Range::before(value)
        }
    };
    let Some(value) = entry.pair("value") else {
        return Some(name_alone());
    };
    if !value.0.holds_only_content() || !value.1.holds_only_content() {
        return Some(name_alone());
    }
    if !adjoins(value.0, value.1) {
        return Some(Range::of(value.1));
    }
    let (first, second) = if name.0.start() < value.0.start() {
        (name, value)
    } else {
        (value, name)
    };
    let clean = name.0.holds_only_content() && adjoins(name.0, name.1);
    let beside = first
        .1
        .gap_to(second.0)
        .is_some_and(|gap| gap.matches('\n').count() <= 1 && is_bare(gap, ","));
    let (from, to) = if clean && beside {
        (first.0, second.1)
    } else {
        value
    };
    Some(Range {
        end: to.end(),
        ..Range::of(from)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::yaml::Tree;

    fn shown(text: &str) -> String {
        let tree = Tree::parse(text, 0, 1).unwrap();
        let entry = tree.roots().next().unwrap().items().next().unwrap();
        let range = named(entry).unwrap();
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

    #[test]
    fn comments_anchors_and_tags_are_never_shown() {
        for (text, expected) in [
            ("- name: A\n  value: # token\n    x\n", "x"),
            ("- name: A\n  value:\n    # token\n    x\n", "x"),
            ("- name: # token\n    A\n  value: x\n", "value: x"),
            ("- {name: A, value: # token\n x}\n", "x"),
            ("- {name: A, # token\n value: x}\n", "value: x"),
            ("- name: A\n  value: &token x\n", "x"),
            ("- name: &token A\n  value: x\n", "value: x"),
            ("- name: A\n  value: !token x\n", "x"),
            ("- name: A\n  value: >- # token\n    x\n", "x"),
            (
                "- name: A\n  value: |\n    x\n  # token\n",
                "name: A\n  value: |\n    x",
            ),
            ("- &token {name: A, value: x}\n", "name: A, value: x"),
            ("- !token {&token name: A, value: x}\n", "name: A, value: x"),
        ] {
            let shown = shown(text);
            assert!(!shown.contains("token"), "{text:?} shows {shown:?}");
            assert_eq!(shown.trim_end(), expected, "{text:?}");
        }
        let aliased = "x: &token y\nl:\n- {name: A, value: *token}\n- {name: *token, value: z}\n";
        let tree = Tree::parse(aliased, 0, 1).unwrap();
        let list = tree.roots().next().unwrap().get("l").unwrap();
        let shown: Vec<&str> = list
            .items()
            .map(|e| named(e).unwrap())
            .map(|r| &aliased[r.start..r.end])
            .collect();
        assert_eq!(shown, ["name: A", "value: z"]);
    }
}
