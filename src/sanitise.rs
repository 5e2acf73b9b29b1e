//! Text from outside becomes safe, bounded text, once, where it is parsed.
//!
//! Manifests, pods and tools are foreign: their text may hold escape sequences that rewrite a terminal, bidirectional
//! controls that reorder a line, or megabytes where a word was expected. Nothing else in the tool has to think of it.
//! Free text of a program may also hold secrets: [`withhold_secrets`] takes them out.

mod secrets;

pub use secrets::{withhold_secrets, without_credentials};

/// One line of foreign text: control characters and bidirectional overrides become `\u{..}` escapes, and the line is
/// cut to at most `max` characters with `...` at the cut.
pub fn line(text: &str, max: usize) -> String {
    // Nearly all of it is plain, and there are millions of lines.
    if text.len() <= max && text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len().min(max * 4));
    for (n, c) in text.chars().enumerate() {
        if n >= max {
            out.push_str("...");
            break;
        }
        match c {
            '\t' => out.push(' '),
            c if is_hostile(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// Foreign text of several lines: as [`line`], but line breaks stay.
pub fn lines(text: &str, max: usize) -> String {
    let mut out = String::with_capacity(text.len().min(max * 4));
    let mut left = max;
    for (n, part) in text.split('\n').enumerate() {
        if n > 0 {
            out.push('\n');
        }
        out.push_str(&line(part, left));
        left = left.saturating_sub(part.chars().count());
        if left == 0 {
            break;
        }
    }
    out
}

/// A whole page of which every part should have been made safe where it was parsed: whatever still acts on a reader is
/// written out. Line breaks stay.
pub fn visible(page: &str) -> String {
    let mut out = String::with_capacity(page.len());
    for c in page.chars() {
        match c {
            '\n' => out.push(c),
            c if is_hostile(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// Characters that act on a terminal or a reader instead of being shown: C0 and C1 controls, and the bidirectional
/// and invisible format characters of <https://www.unicode.org/reports/tr36/>.
fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_cannot_reach_a_terminal() {
        let shown = line("a\x1b[2J\u{202e}b\r\n\0", 100);
        assert!(shown.chars().all(|c| !is_hostile(c)), "{shown:?}");
        assert!(shown.starts_with("a\\u{1b}[2J"));
    }

    #[test]
    fn line_breaks_stay_where_lines_are_wanted() {
        assert_eq!(lines("a\n\tb\x07\n", 100), "a\n b\\u{7}\n");
        assert_eq!(lines("ab\ncd\nef", 3), "ab\nc...");
    }

    #[test]
    fn length_is_bounded_in_characters() {
        assert_eq!(line("ééééé", 3), "ééé...");
        assert_eq!(line("ééé", 3), "ééé");
    }
}
