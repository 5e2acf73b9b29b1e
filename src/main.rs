//! The command line: parse, call the library, map to an exit code.

fn main() {}
