//! Runs a probe's script on this machine, and ends it whatever it does.
//!
//! Both pipes are drained all the time and kept only up to a limit, the deadline is kept on this side too, and what
//! the script started goes with it.

use super::frames;
use super::script::Script;
use crate::observed::Skip;
use crate::report::SkipReason;
use crate::sanitise;
use crate::snapshot::{Place, Snapshot};
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// At most this much of what the script says on its error stream is kept: the end of it.
const STDERR_TAIL: usize = 4096;

/// How long output may still arrive after the shell ended, and how long the shell may take to end when asked.
const GRACE: Duration = Duration::from_millis(500);

/// The answers of this machine. Never an error: what could not be read says so.
pub fn collect(script: &Script, place: Place, deadline: Duration) -> Snapshot {
    let mut shell = Command::new("sh");
    shell.arg("-s");
    collect_with(shell, script, place, deadline)
}

/// The same through a given shell, which reads the script from its standard input.
pub fn collect_with(shell: Command, script: &Script, place: Place, deadline: Duration) -> Snapshot {
    let run = run(shell, &script.text, deadline);
    Snapshot {
        place,
        answers: frames::read(script, &run.stdout, &run.lost),
    }
}

/// What came out of a shell.
#[derive(Debug)]
pub struct Run {
    /// Its output, up to [`frames::MAX_OUTPUT`] bytes.
    pub stdout: Vec<u8>,
    /// The end of its error stream, safe to show.
    pub stderr: String,
    /// Why something may be missing from the output.
    pub lost: Skip,
}

/// Feeds a script to a shell and waits for its end, but no longer than the deadline.
pub fn run(shell: Command, script: &str, deadline: Duration) -> Run {
    run_until(shell, script, deadline, &AtomicBool::new(false))
}

/// The same, and ended as soon as `stop` is set; what was read until then is kept.
pub fn run_until(mut shell: Command, script: &str, deadline: Duration, stop: &AtomicBool) -> Run {
    let began = Instant::now();
    shell
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let mut child = match shell.spawn() {
        Ok(child) => child,
        Err(error) => {
            return Run {
                stdout: Vec::new(),
                stderr: String::new(),
                lost: not_started(&shell, &error),
            };
        }
    };
    let (ended, end) = channel();
    let (silent, silence) = channel();
    let mut threads = feed(&mut child, script);
    let keep = Keep::First(frames::MAX_OUTPUT);
    let stdout = drain(child.stdout.take(), keep, ended, &mut threads);
    let keep = Keep::Last(STDERR_TAIL);
    let stderr = drain(child.stderr.take(), keep, silent, &mut threads);
    let finish = wait(&mut child, &end, began, deadline, stop);
    // What was said is there by now, unless somebody goes on talking.
    drop(silence.recv_timeout(GRACE));
    let stdout = std::mem::take(&mut *lock(&stdout));
    let stderr = said(&lock(&stderr));
    let lost = match finish {
        // A stream without a thread is closed, and what the shell does then says nothing.
        _ if threads.is_err() => no_thread(threads),
        Finish::Deadline => {
            let detail = format!("the probe did not end within {} s", deadline.as_secs_f32());
            Skip::new(SkipReason::Timeout, detail)
        }
        Finish::Interrupted => {
            let detail = "it was not read before the run was interrupted";
            Skip::new(SkipReason::Interrupted, detail)
        }
        Finish::Flood => {
            let detail = format!(
                "the probe printed more than {} MB",
                frames::MAX_OUTPUT / 1_000_000
            );
            Skip::new(SkipReason::Unparsable, detail)
        }
        Finish::Ended(status) => {
            Skip::new(SkipReason::ConnectionLost, ended_early(status, &stderr))
        }
    };
    Run {
        stdout,
        stderr,
        lost,
    }
}

fn not_started(shell: &Command, error: &std::io::Error) -> Skip {
    let program = Path::new(shell.get_program());
    // Only a bare name is looked for on PATH.
    let is_searched = program.components().count() == 1;
    let program = program.display();
    // What kept us from looking says nothing about the machine; only that there is no shell does.
    let (reason, remedy) = match error.kind() {
        ErrorKind::PermissionDenied => (SkipReason::Denied, ""),
        ErrorKind::WouldBlock | ErrorKind::OutOfMemory => (
            SkipReason::Denied,
            "; raise the limit on processes (ulimit -u, or the pod's pids limit)",
        ),
        ErrorKind::NotFound if is_searched && Path::new("/bin/sh").exists() => (
            SkipReason::Denied,
            "; let PATH name the directory that holds it (/bin)",
        ),
        _ => (SkipReason::NoShell, ""),
    };
    Skip::new(
        reason,
        format!("{program} could not be started: {error}{remedy}"),
    )
}

fn no_thread(threads: io::Result<()>) -> Skip {
    let why = threads.map_or_else(|error| error.to_string(), |()| String::new());
    let detail = format!(
        "this system gives no further thread ({why}); raise its limit on processes (ulimit -u, or the pod's pids limit)"
    );
    Skip::new(SkipReason::Denied, detail)
}

fn ended_early(status: Option<ExitStatus>, stderr: &str) -> String {
    let status = status.map_or_else(
        || "an unknown status".to_owned(),
        |status| status.to_string(),
    );
    match stderr.lines().last() {
        Some(line) => format!("the shell of the probe ended early with {status}: {line}"),
        None => format!("the shell of the probe ended early with {status}"),
    }
}

fn said(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.lines()
        .map(|line| sanitise::line(line, 200))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Sends the script from a thread, since a shell need not read it.
fn feed(child: &mut Child, script: &str) -> io::Result<()> {
    let Some(mut stdin) = child.stdin.take() else {
        return Ok(());
    };
    let script = script.to_owned();
    // A shell that went away without reading shows in what it did not print.
    let write = move || drop(stdin.write_all(script.as_bytes()));
    thread::Builder::new().spawn(write).map(drop)
}

/// Which part of a stream is kept.
#[derive(Debug, Clone, Copy)]
enum Keep {
    /// The beginning; after it the stream is closed, which ends who writes to it.
    First(usize),
    /// The end; the stream is read for as long as it lasts.
    Last(usize),
}

/// What ended a stream.
enum Drained {
    Closed,
    Full,
}

/// Reads a stream in a thread. The buffer is shared, so that a stream that never ends loses nothing read so far.
fn drain(
    stream: Option<impl Read + Send + 'static>,
    keep: Keep,
    ended: Sender<Drained>,
    threads: &mut io::Result<()>,
) -> Arc<Mutex<Vec<u8>>> {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let Some(mut stream) = stream else {
        return kept;
    };
    let shared = Arc::clone(&kept);
    let spawned = thread::Builder::new().spawn(move || {
        let mut chunk = [0; 16 * 1024];
        let mut end = Drained::Closed;
        loop {
            let read = match stream.read(&mut chunk) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            let mut kept = lock(&shared);
            kept.extend_from_slice(&chunk[..read]);
            match keep {
                Keep::First(max) if kept.len() > max => {
                    kept.truncate(max);
                    end = Drained::Full;
                    break;
                }
                Keep::Last(max) if kept.len() > 2 * max => {
                    let cut = kept.len() - max;
                    kept.drain(..cut);
                }
                Keep::First(_) | Keep::Last(_) => {}
            }
        }
        drop(stream);
        // Nobody listens any more once the deadline has passed.
        drop(ended.send(end));
    });
    if let Err(error) = spawned {
        *threads = Err(error);
    }
    kept
}

fn lock(bytes: &Mutex<Vec<u8>>) -> MutexGuard<'_, Vec<u8>> {
    bytes.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How a run came to its end.
enum Finish {
    Ended(Option<ExitStatus>),
    Deadline,
    Interrupted,
    Flood,
}

/// How often somebody who asks to stop is looked for.
const LOOK: Duration = Duration::from_millis(50);

fn wait(
    child: &mut Child,
    end: &Receiver<Drained>,
    began: Instant,
    deadline: Duration,
    asked: &AtomicBool,
) -> Finish {
    let finish = loop {
        let left = deadline.saturating_sub(began.elapsed());
        match end.recv_timeout(left.min(LOOK)) {
            Ok(Drained::Full) => break Finish::Flood,
            Err(RecvTimeoutError::Timeout) if asked.load(Ordering::Relaxed) => {
                break Finish::Interrupted;
            }
            Err(RecvTimeoutError::Timeout) if left > LOOK => {}
            Err(RecvTimeoutError::Timeout) => break Finish::Deadline,
            Ok(Drained::Closed) | Err(RecvTimeoutError::Disconnected) => {
                break Finish::Ended(exit_within(child, GRACE));
            }
        }
    };
    stop(child);
    finish
}

/// Ends the shell and its group: first so that the script can end the groups of its tools, then for certain.
fn stop(child: &mut Child) {
    let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
        return;
    };
    if exit_within(child, Duration::ZERO).is_some() {
        return;
    }
    // The group may be gone by now, which is what is wanted.
    let _ = kill_process_group(group, Signal::TERM);
    if exit_within(child, GRACE).is_none() {
        let _ = kill_process_group(group, Signal::KILL);
        drop(child.wait());
    }
}

/// The exit status, if it comes within this time.
fn exit_within(child: &mut Child, time: Duration) -> Option<ExitStatus> {
    let began = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if began.elapsed() < time => thread::sleep(Duration::from_millis(2)),
            Ok(None) | Err(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kept_us_from_a_shell_says_nothing_about_the_machine() {
        let of = |kind: ErrorKind| not_started(&Command::new("sh"), &kind.into());
        let few = of(ErrorKind::WouldBlock);
        assert!(!few.reason.is_of_target() && few.detail.contains("ulimit -u"));
        let lost = of(ErrorKind::NotFound);
        assert!(!lost.reason.is_of_target() && lost.detail.contains("PATH"));
        let named = not_started(&Command::new("/no/sh"), &ErrorKind::NotFound.into());
        assert_eq!(named.reason, SkipReason::NoShell);
    }
}
