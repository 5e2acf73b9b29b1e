//! Renders a kustomization with the tool the user has. Reads only; needs the network only for a remote base.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use thiserror::Error;

/// The tool has this long. Rendering a local tree takes well under a second.
const DEADLINE: Duration = Duration::from_secs(30);
/// What the tool wrote is in the pipe when it ends; reading it takes no longer than this.
const GRACE: Duration = Duration::from_secs(1);
/// Between two looks at the tool.
const PAUSE: Duration = Duration::from_millis(10);
/// More output than this is refused.
const OUTPUT_LIMIT: usize = 16 << 20;
/// This much of an error message is looked at.
const ERROR_LIMIT: usize = 64 << 10;
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
    /// The tool said no. Its own words may quote a secret of a generator, so they are not repeated.
    #[error("{tool} {what}; run `{command}` in that directory to see why")]
    Failed {
        /// The tool.
        tool: String,
        /// What became of it.
        what: String,
        /// How to run it by hand.
        command: String,
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
        let mut command = Command::new(tool);
        command
            .args(*arguments)
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let spawned = own_group(&mut command).spawn();
        return match spawned {
            Ok(child) => output(child, (tool, arguments), deadline),
            Err(e) if e.kind() == io::ErrorKind::NotFound && directory.is_dir() => continue,
            Err(source) => Err(KustomizeError::Spawn {
                tool: (*tool).to_owned(),
                source,
            }),
        };
    }
    Err(KustomizeError::NoTool)
}

/// A process group of its own, so that everything the tool starts can be ended with it.
#[cfg(unix)]
fn own_group(command: &mut Command) -> &mut Command {
    use std::os::unix::process::CommandExt;
    command.process_group(0)
}

#[cfg(not(unix))]
fn own_group(command: &mut Command) -> &mut Command {
    command
}

/// Ends the tool and whatever it started. What is gone already needs no ending, so failures say nothing.
fn end(child: &mut Child) {
    #[cfg(unix)]
    if let Some(group) = i32::try_from(child.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw)
    {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

fn output(
    mut child: Child,
    (tool, arguments): (&str, &[&str]),
    deadline: Duration,
) -> Result<String, KustomizeError> {
    let out = Pipe::drain(child.stdout.take(), OUTPUT_LIMIT);
    let err = Pipe::drain(child.stderr.take(), ERROR_LIMIT);
    let last = Instant::now() + deadline;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if out.is_full() => {
                end(&mut child);
                return Err(KustomizeError::TooLarge(tool.to_owned()));
            }
            Ok(None) if Instant::now() < last => std::thread::sleep(PAUSE),
            _ => {
                end(&mut child);
                return Err(KustomizeError::Timeout(tool.to_owned()));
            }
        }
    };
    // A grandchild may hold the pipe open; what the tool itself wrote is there all the same.
    let ended = out.wait(GRACE);
    let failed = (!status.success()).then(|| err.wait(GRACE));
    if !(ended && failed.unwrap_or(true)) {
        end(&mut child);
    }
    // The pipe is closed when it is full, which the tool may call a failure.
    if out.is_full() {
        return Err(KustomizeError::TooLarge(tool.to_owned()));
    }
    let fail = |what: String| KustomizeError::Failed {
        tool: tool.to_owned(),
        what,
        command: format!("{tool} {}", arguments.join(" ")),
    };
    if !status.success() {
        return Err(match failure(&String::from_utf8_lossy(&err.take())) {
            Some(Failure::RemoteBase) => KustomizeError::RemoteBase,
            Some(Failure::MissingFile) => {
                fail("misses a file or directory that it names".to_owned())
            }
            None => fail(format!("failed ({status})")),
        });
    }
    String::from_utf8(out.take()).map_err(|_| fail("wrote something that is not UTF-8".to_owned()))
}

/// What comes out of a pipe, read in the background.
struct Pipe {
    kept: Arc<Mutex<Vec<u8>>>,
    limit: usize,
    /// Hangs up when the pipe is at its end, or full.
    ended: Receiver<()>,
}

impl Pipe {
    /// Reads a pipe to its end, or to one byte more than `limit`. Beyond that nothing is read: the tool is in its way.
    fn drain(pipe: Option<impl Read + Send + 'static>, limit: usize) -> Self {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let (send, ended) = mpsc::channel();
        let into = Arc::clone(&kept);
        // Without a thread the pipe closes, and the tool fails over it.
        let _ = std::thread::Builder::new().spawn(move || {
            let _ended_with_this: mpsc::Sender<()> = send;
            let Some(mut pipe) = pipe else { return };
            let mut chunk = [0; 16 << 10];
            // An error ends the output like the end of the file does; the exit status says what it was worth.
            while let Ok(length @ 1..) = pipe.read(&mut chunk) {
                let mut kept = into.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend_from_slice(&chunk[..length]);
                if kept.len() > limit {
                    return;
                }
            }
        });
        Self { kept, limit, ended }
    }

    /// More came than is kept.
    fn is_full(&self) -> bool {
        self.kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
            > self.limit
    }

    /// Waits for the end; false when it did not come in time.
    fn wait(&self, time: Duration) -> bool {
        self.ended.recv_timeout(time) == Err(RecvTimeoutError::Disconnected)
    }

    /// What was read so far.
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
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

/// What kustomize writes when a file or directory that it names is not there.
/// <https://github.com/kubernetes-sigs/kustomize/blob/kustomize/v5.5.0/api/internal/target/kusttarget.go>
const MISSING: [&str; 4] = [
    "no such file or directory",
    "must build at directory",
    "unable to find one of",
    "doesn't exist",
];

/// What a message is about, where it is known.
enum Failure {
    RemoteBase,
    MissingFile,
}

fn failure(stderr: &str) -> Option<Failure> {
    let lower = stderr.to_lowercase();
    let says = |marks: &[&str]| marks.iter().any(|mark| lower.contains(mark));
    if says(&REMOTE) {
        Some(Failure::RemoteBase)
    } else {
        says(&MISSING).then_some(Failure::MissingFile)
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
        for (script, expected) in [
            (
                "echo 'Error: literal password=c4n4ry bad' >&2; exit 3",
                "sh failed (exit status: 3)",
            ),
            (
                "echo 'c4n4ry: no such file or directory' >&2; exit 1",
                "sh misses a file or directory that it names",
            ),
            ("kill -9 $$", "sh failed (signal: 9 (SIGKILL))"),
            ("printf '\\377'", "sh wrote something that is not UTF-8"),
        ] {
            let e = run(script, DEADLINE).unwrap_err().to_string();
            assert!(
                e.starts_with(expected) && e.contains("; run `sh -c "),
                "{e}"
            );
            assert!(!e.split("; run").next().unwrap().contains("c4n4ry"), "{e}");
        }
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

    #[test]
    fn grandchildren_and_floods_cost_no_time_and_no_output() {
        let begun = Instant::now();
        assert_eq!(
            run("sleep 20 & echo kind: X", DEADLINE).unwrap(),
            "kind: X\n"
        );
        assert!(matches!(
            run("yes", DEADLINE),
            Err(KustomizeError::TooLarge(_))
        ));
        assert!(matches!(
            run("sleep 20 & sleep 20", Duration::from_millis(50)),
            Err(KustomizeError::Timeout(_))
        ));
        let all = run("yes | head -c 1000000; echo end", DEADLINE).unwrap();
        assert!(all.ends_with("end\n") && all.len() == 1_000_004);
        assert!(begun.elapsed() < Duration::from_secs(10));
    }

    #[cfg(unix)]
    #[test]
    fn the_whole_group_ends_with_the_tool() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/kustomize-group");
        let script = format!("sh -c 'sleep 1; echo late > {}' & sleep 20", file.display());
        let _ = std::fs::remove_file(&file);
        assert!(run(&script, Duration::from_millis(100)).is_err());
        std::thread::sleep(Duration::from_millis(1500));
        assert!(!file.exists());
    }
}
