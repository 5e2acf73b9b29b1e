//! Integers as NCCL reads them (rule N0).

use super::nccl::unset;
use super::nccl_gids;
use super::setting::{Setting, Verdict};
use crate::report::Status;

/// `strtoll` of the C library: leading blanks, sign, base by prefix when `base` is 0, junk behind ignored, 0 without
/// digits, saturating.
pub(super) fn strtoll(text: &str, base: u32) -> i64 {
    let text = text.trim_start_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
    let (negative, text) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (radix, digits) = match (base, hex) {
        (0, Some(rest)) if rest.starts_with(|c: char| c.is_ascii_hexdigit()) => (16, rest),
        (0, _) if text.starts_with('0') => (8, text),
        (0, _) => (10, text),
        (base, _) => (base, text),
    };
    let value = digits
        .chars()
        .map_while(|c| c.to_digit(radix))
        .fold(0i64, |n, d| {
            n.saturating_mul(i64::from(radix))
                .saturating_add(i64::from(d))
        });
    if negative { -value } else { value }
}

/// N0 first, then the rule of the number that NCCL uses. An empty value is the default.
pub(super) fn integer(s: &Setting<'_>, rule: fn(&Setting<'_>, i64) -> Verdict) -> Verdict {
    let value = match s.value {
        Some(value) if !value.is_empty() => value,
        _ if s.variable.name == "NCCL_IB_GID_INDEX" => return nccl_gids::gid_index_unset(s),
        _ => return unset(s),
    };
    let number = strtoll(value, 0);
    if value.trim().parse::<i64>() == Ok(number) {
        return rule(s, number);
    }
    if is_hex(value) {
        return rule(s, number);
    }
    let verdict = rule(s, number);
    let consequence = if verdict.status == Status::Ok {
        String::new()
    } else {
        format!("; {}", verdict.reason)
    };
    Verdict::bad(
        verdict.status.max(Status::Warn),
        "N0",
        format!(
            "{value:?} is read as {number}: NCCL takes the digits in front, none count as 0, and a leading 0 is octal{consequence}"
        ),
        format!("write a plain number for {}", s.variable.name),
    )
}

fn is_hex(value: &str) -> bool {
    value
        .trim()
        .strip_prefix("0x")
        .is_some_and(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_the_c_library_does() {
        for (text, expected) in [
            ("1", 1),
            (" -1", -1),
            ("+7", 7),
            ("true", 0),
            ("", 0),
            ("1abc", 1),
            ("010", 8),
            ("0x10", 16),
            ("0x", 0),
            ("09", 0),
            ("99999999999999999999", i64::MAX),
            ("-99999999999999999999", -i64::MAX),
        ] {
            assert_eq!(strtoll(text, 0), expected, "{text:?}");
        }
        assert_eq!(strtoll("010", 10), 10);
    }
}
