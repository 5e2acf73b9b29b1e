//! The public JSON form: the report itself, with a line break at the end.

use serde::Serialize;

/// Pretty JSON of anything that is made to be serialised.
pub fn render<T: Serialize>(value: &T) -> String {
    let mut out = serde_json::to_string_pretty(value)
        .expect("reports hold only strings, numbers and maps with string keys");
    out.push('\n');
    out
}
