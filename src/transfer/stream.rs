//! How an agent is reached: a command with its three streams, in a container or on this machine.

use super::protocol::Words;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncRead, AsyncWrite};

/// A running command. Dropping it must end the command or at least cut its standard input, which ends an agent.
pub struct Stream {
    /// Its standard input. Dropping it closes it.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// Its standard output.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// Its standard error.
    pub stderr: Box<dyn AsyncRead + Send + Unpin>,
    /// Resolves when the command has ended, or when nothing more can be learned about it.
    pub status: Pin<Box<dyn Future<Output = Ended> + Send>>,
}

/// How a command ended, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// Exit code. A container runtime reports a signal as 128 and its number.
    Code(i32),
    /// Ended by a signal.
    Signal(i32),
    /// The program is not there.
    NoProgram(Words),
    /// The connection broke first.
    Lost(Words),
    /// It did not end in time and was ended or left to its own deadline.
    StillRunning,
}

impl Ended {
    /// The signal, whichever way it was reported.
    pub fn signal(&self) -> Option<i32> {
        match self {
            Self::Signal(n) => Some(*n),
            Self::Code(code) if (129..=192).contains(code) => Some(code - 128),
            _ => None,
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(n) => write!(f, "signal {n}"),
            Self::NoProgram(what) => write!(f, "no such program: {what}"),
            Self::Lost(what) => write!(f, "connection lost: {what}"),
            Self::StillRunning => f.write_str("still running"),
        }
    }
}

/// Why no stream could be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The program is not in the container.
    #[error("no such program: {0}")]
    NoProgram(String),
    /// It may not be run, or the container does not take commands.
    #[error("cannot run a command: {0}")]
    Refused(String),
    /// The way to the container is broken.
    #[error("connection lost: {0}")]
    Lost(String),
}

impl OpenError {
    /// What was said of it, without what kind it is.
    pub fn why(&self) -> String {
        match self {
            Self::NoProgram(_) => self.to_string(),
            Self::Refused(why) | Self::Lost(why) => why.clone(),
        }
    }
}

/// Where commands run: a container through exec, or this machine.
pub trait Open: Sync {
    /// Runs a command with its three streams and no terminal.
    fn open(&self, argv: &[String]) -> impl Future<Output = Result<Stream, OpenError>> + Send;
}

/// This machine.
#[derive(Debug, Clone, Default)]
pub struct Local {
    /// Words in front of every command, for example one that enters a namespace.
    pub wrap: Vec<String>,
    /// Variables in addition to our own.
    pub env: BTreeMap<String, String>,
}

impl Open for Local {
    async fn open(&self, argv: &[String]) -> Result<Stream, OpenError> {
        let mut words = self.wrap.iter().chain(argv);
        let program = words
            .next()
            .ok_or_else(|| OpenError::NoProgram("empty command".to_owned()))?;
        let mut command = tokio::process::Command::new(program);
        command
            .args(words)
            .envs(&self.env)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        // Ctrl-C on a terminal is for us: an agent is told to leave, and says what it has.
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.spawn().map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => OpenError::NoProgram(program.clone()),
            _ => OpenError::Refused(format!("{program}: {e}")),
        })?;
        let group = Group::of(&child);
        let gone = || OpenError::Lost("a stream of the new process is missing".to_owned());
        Ok(Stream {
            stdin: Box::new(child.stdin.take().ok_or_else(gone)?),
            stdout: Box::new(child.stdout.take().ok_or_else(gone)?),
            stderr: Box::new(child.stderr.take().ok_or_else(gone)?),
            status: Box::pin(async move {
                let status = child.wait().await;
                // Its number may be another's from here on.
                group.gone();
                status.map_or_else(lost, ended)
            }),
        })
    }
}

/// Groups of processes of this machine that are running.
static RUNNING: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

fn running() -> MutexGuard<'static, BTreeSet<i32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends every command that runs on this machine, with what it started: for a process that leaves without unwinding.
pub fn end_all() {
    for group in std::mem::take(&mut *running()) {
        end(group);
    }
}

fn end(group: i32) {
    if let Some(group) = Pid::from_raw(group) {
        // It may be gone by now, which is what is wanted.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// The group of a command, ended when nobody waits for the command any more: a wrapper's child is no child of ours.
struct Group(Option<i32>);

impl Group {
    fn of(child: &tokio::process::Child) -> Self {
        let group = child.id().and_then(|id| i32::try_from(id).ok());
        running().extend(group);
        Self(group)
    }

    /// The command has ended by itself.
    fn gone(mut self) {
        if let Some(group) = self.0.take() {
            running().remove(&group);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0.filter(|group| running().remove(group)) {
            end(group);
        }
    }
}

fn lost(e: std::io::Error) -> Ended {
    Ended::Lost(e.to_string().into())
}

fn ended(status: std::process::ExitStatus) -> Ended {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return Ended::Signal(signal);
    }
    Ended::Code(status.code().unwrap_or(-1))
}
