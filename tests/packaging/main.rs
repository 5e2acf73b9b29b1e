//! How the tool is installed: completions, manual pages, the kubectl plugin, packages, the image, and the faces of others'
//! pipelines.
#![expect(
    clippy::unwrap_used,
    reason = "a test may stop where something is not as it should be"
)]

#[path = "../support/skip.rs"]
mod skip;

mod action;
mod release;
mod shell;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const BINARY: &str = env!("CARGO_BIN_EXE_dynamo-interconnect-check");

/// A file of the repository.
fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Whether a program is here. Where it is not, the test that needs it says so.
fn has(program: &str, argument: &str, what: &str) -> bool {
    let found = Command::new(program)
        .arg(argument)
        .stdin(Stdio::null())
        .output();
    if found.is_err() {
        skip::aloud(&format!("{what} needs {program}"));
    }
    found.is_ok()
}

/// Runs the tool and takes what it printed.
fn tool(args: &[&str]) -> String {
    let output = Command::new(BINARY).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    stdout(&output)
}
