//! The command line: parse, call the library, map to an exit code.

use dynamo_interconnect_check::cli::Cli;
use dynamo_interconnect_check::report::ExitCode;
use std::io::Write;

fn main() -> std::process::ExitCode {
    let code = Cli::of_process().run().unwrap_or_else(|error| {
        // The one place that prints an error chain. A broken stderr leaves nothing to be done.
        let _ = writeln!(anstream::stderr(), "error: {error:#}");
        ExitCode::CouldNotRun
    });
    std::process::ExitCode::from(code as u8)
}
