//! Where in the file the assignments of a script stand.
//!
//! Indentation, folding and escapes part a scalar's content from its source, but an assignment in one is an assignment
//! in the other: the n-th `NAME=` here is the n-th `NAME=` there. Both are indexed once for a script.

use super::place::Range;
use super::yaml::Node;
use std::collections::HashMap;

/// The assignments of a scalar, by name, in its content and in its source.
pub(super) struct Places<'s> {
    source: &'s str,
    /// First byte of the source in the file, and its line.
    start: usize,
    line: u32,
    in_content: HashMap<&'s str, Vec<usize>>,
    in_source: HashMap<&'s str, Vec<usize>>,
    /// Where the lines of the source end.
    breaks: Vec<usize>,
}

impl<'s> Places<'s> {
    /// Indexes a scalar.
    pub fn of(node: Node<'s>) -> Self {
        let source = node.written_to(node);
        Self {
            source,
            start: node.start(),
            line: node.line(),
            in_content: assignments(node.text().unwrap_or_default(), false),
            in_source: assignments(source, source.starts_with('"')),
            breaks: source.match_indices('\n').map(|(at, _)| at).collect(),
        }
    }

    /// Where the assignment of `name` that begins at byte `at` of the content is written. The range holds the value
    /// only where it is written exactly as `verbatim`. None where content and source do not match.
    pub fn find(&self, name: &str, at: usize, verbatim: Option<&str>) -> Option<Range> {
        let (content, source) = (self.in_content.get(name)?, self.in_source.get(name)?);
        if content.len() != source.len() {
            return None;
        }
        let at = source[content.binary_search(&at).ok()?];
        let whole = verbatim.filter(|v| self.source[at..].starts_with(v) && !v.contains('\n'));
        let lines = self.breaks.partition_point(|end| *end < at);
        let start = self.start + at;
        Some(Range {
            start,
            end: start + whole.map_or(name.len(), str::len),
            line: self
                .line
                .saturating_add(u32::try_from(lines).unwrap_or(u32::MAX)),
        })
    }
}

/// Names in front of `=` and `+=`, and where they begin.
fn assignments(text: &str, escapes: bool) -> HashMap<&str, Vec<usize>> {
    let mut out: HashMap<&str, Vec<usize>> = HashMap::new();
    for (name, at) in names(text, escapes) {
        out.entry(name).or_default().push(at);
    }
    out
}

/// All `NAME=` of a text. With `escapes`, a letter behind an odd number of backslashes belongs to them.
pub(super) fn names(text: &str, escapes: bool) -> impl Iterator<Item = (&str, usize)> {
    let bytes = text.as_bytes();
    text.match_indices('=').filter_map(move |(sign, _)| {
        let end = sign - usize::from(sign > 0 && bytes[sign - 1] == b'+');
        let is_word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
        let length = bytes[..end].iter().rev().take_while(|b| is_word(b)).count();
        let mut start = end - length;
        let slashes = bytes[..start]
            .iter()
            .rev()
            .take_while(|b| **b == b'\\')
            .count();
        start += usize::from(escapes && slashes % 2 == 1);
        let name = text.get(start..end)?;
        let named = !name.is_empty() && !name.as_bytes()[0].is_ascii_digit();
        named.then_some((name, start))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::yaml::Tree;

    #[test]
    fn the_same_assignment_in_content_and_source() {
        let text = "a: \"x\\nA=1; \\\"A\\\"\\n\\\\n; B+=2\\n  XA=3 A=4\\\n   A=5\"\n";
        let tree = Tree::parse(text, 0, 1).unwrap();
        let node = tree.roots().next().unwrap().get("a").unwrap();
        let places = Places::of(node);
        let content = node.text().unwrap();
        for (name, written, line) in [
            ("A", "A=1", 1),
            ("B", "B+=2", 1),
            ("XA", "XA=3", 1),
            ("A", "A=4", 1),
        ] {
            let at = content.find(written).unwrap();
            let at = if written == "A=4" {
                content.find(" A=4").unwrap() + 1
            } else {
                at
            };
            let range = places.find(name, at, Some(written));
            if name == "A" {
                // The last one is glued to the one before it by a line that goes on.
                assert!(range.is_none() || text[range.unwrap().start..].starts_with("A="));
            } else {
                let range = range.unwrap();
                assert_eq!((&text[range.start..range.end], range.line), (written, line));
            }
        }
        assert!(places.find("NONE", 0, None).is_none());
    }

    #[test]
    fn names_stand_before_their_sign() {
        let found: Vec<_> = names("A=1 --b-C=2 =x 1D=3 E+=4 \u{e9}F==5", false)
            .map(|(n, _)| n)
            .collect();
        assert_eq!(found, ["A", "C", "E", "F"]);
    }
}
