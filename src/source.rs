//! Text with positions: where in which file something was read, and how to show it without showing its neighbours.
//!
//! A manifest line may hold a token beside the setting that a finding is about (`{name: HF_TOKEN, value: ..}` in flow
//! style, an `export` in the middle of a shell line). So an excerpt never shows a whole line: it shows the span that
//! was judged and masks the rest.

use crate::report::{Evidence, EvidenceSource};
use crate::sanitise;
use std::sync::Arc;

/// One input text and the name it is shown under.
#[derive(Debug)]
pub struct SourceFile {
    /// Path as the user would type it; `<stdin>` for standard input.
    pub path: String,
    /// The whole text. Never shown as such.
    pub text: String,
}

/// A span of a [`SourceFile`] that may be shown to a person.
///
/// Whoever builds a `Spot` vouches that the text between `start` and `end` holds nothing but catalogued settings.
#[derive(Debug, Clone)]
pub struct Spot {
    /// The text the offsets belong to.
    pub file: Arc<SourceFile>,
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    /// Line of `start`, from 1.
    pub line: u32,
    /// Column of `start` in characters, from 1.
    pub column: u32,
}

/// At most this many lines of a span are shown.
const EXCERPT_LINES: usize = 4;
/// At most this many characters of one line are shown.
const EXCERPT_COLUMNS: usize = 200;
/// So many bytes of a line are looked at: more than any excerpt shows.
const LOOKED_AT: usize = 8 * EXCERPT_COLUMNS;

impl Spot {
    /// The evidence for a finding that rests on this span: file, line, column, and the span's own lines with
    /// everything around it masked.
    pub fn evidence(&self) -> Evidence {
        Evidence {
            source: EvidenceSource::Manifest,
            path: Some(self.file.path.clone()),
            line: Some(self.line),
            column: Some(self.column),
            ask: None,
            excerpt: self.excerpt(),
        }
    }

    /// The lines of the span, masked: blanks keep the column of the first line, `...` stands for what is hidden.
    fn excerpt(&self) -> String {
        let text = self.file.text.get(self.start..self.end).unwrap_or_default();
        let mut out = before(&self.file.text, self.start)
            .map_or_else(|| " ".repeat(EXCERPT_COLUMNS + 1), mask_prefix);
        let mut lines = text.lines();
        out.push_str(lines.next().unwrap_or_default().trim_end());
        for line in lines.by_ref().take(EXCERPT_LINES - 1) {
            out.push('\n');
            out.push_str(line.trim_end());
        }
        let rest = behind(&self.file.text, self.end);
        let closes = |c: char| matches!(c, ' ' | '\t' | '"' | '\'' | ',' | '}' | ']');
        if lines.next().is_some() || !rest.chars().all(closes) {
            out.push_str(" ...");
        } else {
            out.push_str(rest.trim_end());
        }
        out.lines()
            .map(|l| sanitise::line(l, EXCERPT_COLUMNS))
            .collect::<Vec<_>>()
            .join("\n")
    }
}

/// What stands before a byte on its line; None for a line that is too long to be shown.
fn before(text: &str, at: usize) -> Option<&str> {
    let from = at.saturating_sub(LOOKED_AT);
    let window = text.as_bytes().get(from..at)?;
    let start = match window.iter().rposition(|&b| b == b'\n') {
        Some(end) => from + end + 1,
        None if from == 0 => 0,
        None => return None,
    };
    text.get(start..at)
}

/// What stands behind a byte on its line, as far as it matters.
fn behind(text: &str, at: usize) -> &str {
    let mut to = at.saturating_add(LOOKED_AT).min(text.len());
    while !text.is_char_boundary(to) {
        to -= 1;
    }
    let window = text.get(at..to).unwrap_or_default();
    window.lines().next().unwrap_or_default()
}

/// Replaces what stands before a span on its line. Indentation, list markers and the keys that open the structure around
/// the span stay (`limits: {`); anything that may be a value becomes blanks, closed by `... ` so that the reader sees that
/// something is hidden. The column of the span does not move.
fn mask_prefix(before: &str) -> String {
    if opens_structure(before) {
        return before.replace('\t', " ");
    }
    let width = before.chars().count();
    let mut masked = " ".repeat(width.saturating_sub(4));
    masked.push_str(&"... "[4 - width.min(4)..]);
    masked
}

/// Only list markers, brackets, quotes, and keys that are followed by an opening bracket: `- `, `limits: {`.
fn opens_structure(before: &str) -> bool {
    let mut rest = before;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '-', '"', '\'', '{', '[']);
        if rest.is_empty() {
            return true;
        }
        let Some((key, after)) = rest.split_once(": ") else {
            return false;
        };
        let word = key
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/'));
        if !word || !after.trim_start().starts_with(['{', '[']) {
            return false;
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot(text: &str, needle: &str) -> Spot {
        let start = text.find(needle).unwrap();
        let line = text[..start].matches('\n').count() + 1;
        let column = text[..start].rsplit('\n').next().unwrap().chars().count() + 1;
        let file = Arc::new(SourceFile {
            path: "x.yaml".into(),
            text: text.into(),
        });
        Spot {
            file,
            start,
            end: start + needle.len(),
            line: line as u32,
            column: column as u32,
        }
    }

    #[test]
    fn neighbours_on_the_line_are_masked_and_the_column_stays() {
        let text = "env: [{name: HF_TOKEN, value: s3cret}, {name: UCX_TLS, value: tcp}, {name: X, value: y}]\n";
        let e = spot(text, "name: UCX_TLS, value: tcp").evidence();
        assert!(
            !e.excerpt.contains("s3cret") && !e.excerpt.contains('y'),
            "{}",
            e.excerpt
        );
        assert_eq!(e.excerpt.find("name: UCX_TLS"), text.find("name: UCX_TLS"));
        assert!(e.excerpt.ends_with(" ..."), "{}", e.excerpt);
    }

    #[test]
    fn keys_that_only_open_a_structure_are_shown() {
        let text = "x:\n  resources: {limits: {rdma/ib: \"8\"}}\n";
        let shown = spot(text, "rdma/ib: \"8\"").evidence().excerpt;
        assert_eq!(shown, "  resources: {limits: {rdma/ib: \"8\"}}");
        // A value before the span is hidden, whatever it is.
        let shown = spot("a: {b: c, rdma/ib: 8}", "rdma/ib: 8")
            .evidence()
            .excerpt;
        assert_eq!(shown, "      ... rdma/ib: 8}");
    }

    #[test]
    fn a_plain_line_is_shown_as_written() {
        let e = spot("  - name: A\n    value: \"tcp\"\n", "value: \"tcp\"").evidence();
        assert_eq!(
            (e.excerpt.as_str(), e.line, e.column),
            ("    value: \"tcp\"", Some(2), Some(5))
        );
    }

    #[test]
    fn a_long_line_costs_no_more_than_a_short_one() {
        let text = format!("a: {{b: {}, name: A}}\n", "\u{e9}".repeat(1 << 20));
        let excerpt = spot(&text, "name: A").evidence().excerpt;
        assert!(
            !excerpt.contains('\u{e9}') && excerpt.len() < 300,
            "{excerpt}"
        );
    }

    #[test]
    fn long_spans_are_cut() {
        let text = format!("a: |\n{}", "  line\n".repeat(50));
        assert!(spot(&text, &text[5..]).evidence().excerpt.lines().count() <= EXCERPT_LINES + 1);
    }
}
