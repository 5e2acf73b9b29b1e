//! The public JSON form: the report itself, with a line break at the end.

use serde::Serialize;
use std::io::{self, Write};

/// Writes pretty JSON of anything that is made to be serialised.
///
/// # Errors
/// When `out` cannot be written.
pub fn write<W: Write, T: Serialize>(out: &mut W, value: &T) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    out.write_all(b"\n")
}
