//! Renders a kustomization with the tool the user has. Reads only; needs the network only for a remote base.

use crate::sanitise;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};
use thiserror::Error;

/// The tool has this long. Rendering a local tree takes well under a second.
const DEADLINE: Duration = Duration::from_secs(30);
/// Between two looks at the tool.
const PAUSE: Duration = Duration::from_millis(10);
/// More output than this is refused.
const OUTPUT_LIMIT: u64 = 16 << 20;
/// This much of an error message is looked at.
const ERROR_LIMIT: u64 = 64 << 10;
/// Names that make a directory a kustomization.
/// <https://kubectl.docs.kubernetes.io/references/kustomize/glossary/#kustomization>
pub const FILE_NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// Tools in order of preference, with the arguments that render the current directory to standard output.
const TOOLS: [(&str, &[&str]); 2] = [
    ("kustomize", &["build", "."]),
    ("kubectl", &["kustomize", "."]),
];

/// Why a kustomization was not rendered.
#[derive(Debug, Error)]
pub enum KustomizeError {
    /// Neither tool is there.
    #[error("neither kustomize nor kubectl is on PATH")]
    NoTool,
    /// A base is not on this machine.
    #[error("remote base, not rendered")]
    RemoteBase,
    /// The tool said no.
    #[error("{tool} failed: {message}")]
    Failed {
        /// The tool.
        tool: String,
        /// Its last word.
        message: String,
    },
    /// The tool did not end.
    #[error("{0} did not end within {limit} s", limit = DEADLINE.as_secs())]
    Timeout(String),
    /// The tool wrote too much.
    #[error("{0} wrote more than {limit} MiB", limit = OUTPUT_LIMIT >> 20)]
    TooLarge(String),
    /// The tool could not be run.
    #[error("cannot run {tool}: {source}")]
    Spawn {
        /// The tool.
        tool: String,
        /// Why.
        source: io::Error,
    },
}

/// Renders the kustomization in `directory`.
pub fn render(directory: &Path) -> Result<String, KustomizeError> {
    render_with(&TOOLS, directory, DEADLINE)
}

fn render_with(
    tools: &[(&str, &[&str])],
    directory: &Path,
    deadline: Duration,
) -> Result<String, KustomizeError> {
    for (tool, arguments) in tools {
        let spawned = Command::new(tool)
            .args(*arguments)
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        return match spawned {
            Ok(child) => output(child, tool, deadline),
            Err(e) if e.kind() == io::ErrorKind::NotFound && directory.is_dir() => continue,
            Err(source) => Err(KustomizeError::Spawn {
                tool: (*tool).to_owned(),
                source,
            }),
        };
    }
    Err(KustomizeError::NoTool)
}

fn output(mut child: Child, tool: &str, deadline: Duration) -> Result<String, KustomizeError> {
    let out = drain(child.stdout.take(), OUTPUT_LIMIT + 1);
    let err = drain(child.stderr.take(), ERROR_LIMIT);
    let end = Instant::now() + deadline;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < end => std::thread::sleep(PAUSE),
            _ => {
                // Both may fail only because the child is gone already.
                let _ = child.kill();
                let _ = child.wait();
                return Err(KustomizeError::Timeout(tool.to_owned()));
            }
        }
    };
    // A grandchild may hold the pipe open; its output is not waited for.
    let rest =
        Duration::from_secs(1).max(end.saturating_duration_since(Instant::now()).min(deadline));
    let collect = |pipe: Receiver<Vec<u8>>| pipe.recv_timeout(rest).unwrap_or_default();
    let out = collect(out);
    if !status.success() {
        return Err(failure(tool, &String::from_utf8_lossy(&collect(err))));
    }
    if out.len() as u64 > OUTPUT_LIMIT {
        return Err(KustomizeError::TooLarge(tool.to_owned()));
    }
    String::from_utf8(out).map_err(|_| KustomizeError::Failed {
        tool: tool.to_owned(),
        message: "its output is not UTF-8".into(),
    })
}

/// Reads a pipe to its end in the background, keeps at most `limit` bytes, and lets the tool write on.
fn drain(pipe: Option<impl Read + Send + 'static>, limit: u64) -> Receiver<Vec<u8>> {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        if let Some(mut pipe) = pipe {
            // An error ends the output like the end of the file does; the exit status says what it was worth.
            let _ = pipe.by_ref().take(limit).read_to_end(&mut kept);
            let _ = io::copy(&mut pipe, &mut io::sink());
        }
        // Nobody listens any more after a timeout.
        let _ = send.send(kept);
    });
    receive
}

/// What kustomize writes when a base is a URL that it cannot fetch: the words of git, of its own loader and of the
/// resolver. <https://github.com/kubernetes-sigs/kustomize/blob/kustomize/v5.5.0/api/internal/git/cloner.go>
const REMOTE: [&str; 9] = [
    "git fetch",
    "git init",
    "git cmd",
    "unable to find git",
    "hit 30s timeout",
    "could not resolve",
    "no such host",
    "dial tcp",
    "https://",
];

fn failure(tool: &str, stderr: &str) -> KustomizeError {
    let lower = stderr.to_lowercase();
    if REMOTE.iter().any(|mark| lower.contains(mark)) {
        return KustomizeError::RemoteBase;
    }
    let last = stderr
        .lines()
        .map(str::trim)
        .rfind(|l| !l.is_empty())
        .unwrap_or("no message");
    KustomizeError::Failed {
        tool: tool.to_owned(),
        message: sanitise::line(last, 400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, deadline: Duration) -> Result<String, KustomizeError> {
        let arguments = ["-c", script];
        let tools: [(&str, &[&str]); 2] = [("no-such-tool-here", &[]), ("sh", &arguments)];
        render_with(&tools, Path::new("."), deadline)
    }

    #[test]
    fn output_and_failures() {
        assert_eq!(run("echo kind: X", DEADLINE).unwrap(), "kind: X\n");
        let e = run(
            "echo a >&2; printf 'Error: b\\033[2J\\n' >&2; exit 1",
            DEADLINE,
        )
        .unwrap_err();
        assert_eq!(e.to_string(), "sh failed: Error: b\\u{1b}[2J");
        let e = run(
            "echo 'evalsymlink failure on https://x: git fetch failed' >&2; exit 1",
            DEADLINE,
        )
        .unwrap_err();
        assert_eq!(e.to_string(), "remote base, not rendered");
        assert!(matches!(
            run("exec sleep 5", Duration::from_millis(50)),
            Err(KustomizeError::Timeout(_))
        ));
        assert!(matches!(
            run("head -c 17000000 /dev/zero", DEADLINE),
            Err(KustomizeError::TooLarge(_))
        ));
        assert!(matches!(
            render_with(&[("no-such-tool-here", &[])], Path::new("."), DEADLINE),
            Err(KustomizeError::NoTool)
        ));
    }
}
