//! Values of several lines, as one line shows them.

use serde::de::IgnoredAny;
use std::borrow::Cow;

/// JSON that is written over several lines.
pub fn is_json(value: &str) -> bool {
    let value = value.trim();
    value.starts_with(['{', '[']) && serde_json::from_str::<IgnoredAny>(value).is_ok()
}

/// The value on one line. Between the parts of JSON a line break is a blank, and means no more in any place that the value is
/// read in; anywhere else it is part of the value, and shows as `\n`.
pub fn one_line(value: &str) -> Cow<'_, str> {
    if !value.contains('\n') {
        return Cow::Borrowed(value);
    }
    Cow::Owned(match is_json(value) {
        true => value.replace('\n', " ").trim().to_owned(),
        false => value.replace('\n', "\\n"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_breaks_of_json_are_blanks() {
        for (value, line) in [
            ("rc,cuda_copy", "rc,cuda_copy"),
            ("{\n \"a\": 1\n}\n", "{  \"a\": 1 }"),
            ("{\n \"a\": 1", "{\\n \"a\": 1"),
            ("a\nb", "a\\nb"),
        ] {
            assert_eq!(one_line(value), line, "{value}");
        }
    }
}
