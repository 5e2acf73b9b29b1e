//! One live end: its streams, read to bounded buffers.

use super::protocol::{
    self, Command, Event, Line, MAX_BYTES, MAX_JUNK, MAX_LINE, ProtocolError, Words,
};
use super::record::LogText;
use super::stream::{Ended, Stream};
use super::{complaints, ucx_text};
use crate::sanitise;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How much of a log is kept: the tables of UCX are printed at first use, the last error at the end.
const LOG_HEAD: usize = 512 << 10;
const LOG_TAIL: usize = 512 << 10;
/// More than this on standard error is a flood.
const LOG_FLOOD: u64 = 64 << 20;
/// A line of a command is small; a peer that does not take it within this time has stopped.
const SEND_LIMIT: Duration = Duration::from_secs(5);
/// What has arrived of a lost connection is read within this time.
const LAG: Duration = Duration::from_millis(200);

/// What comes from an end.
#[derive(Debug)]
pub(super) enum Incoming {
    Event(Event),
    Bad(ProtocolError),
    /// Standard output has ended.
    End,
}

/// One live end. Dropping it drops the stream.
pub(super) struct Side {
    stdin: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    pub(super) incoming: mpsc::Receiver<Incoming>,
    status: JoinSet<Ended>,
    ended: Option<Ended>,
    log: Arc<Mutex<Log>>,
    junk: Arc<Mutex<Vec<Words>>>,
    readers: JoinSet<()>,
    /// Says that a connection was lost; ends with the side.
    _lost: JoinSet<()>,
}

impl Side {
    /// Takes a stream over: from here on all its output is read, whatever it is.
    pub(super) fn new(stream: Stream) -> Self {
        let (sender, incoming) = mpsc::channel(64);
        let (log, junk) = (Arc::new(Mutex::new(Log::default())), Arc::default());
        let mut readers = JoinSet::new();
        readers.spawn(read_log(stream.stderr, Arc::clone(&log), sender.clone()));
        readers.spawn(read_events(
            stream.stdout,
            Arc::clone(&junk),
            sender.clone(),
        ));
        let mut status = JoinSet::new();
        let (tell, told) = oneshot::channel();
        status.spawn(async move {
            let ended = stream.status.await;
            if matches!(ended, Ended::Lost(_)) {
                // Nobody listens any more once the side is gone.
                let _ = tell.send(());
            }
            ended
        });
        // The streams of a lost connection do not end by themselves, and what they still hold is read first.
        let mut lost = JoinSet::new();
        lost.spawn(async move {
            if told.await.is_ok() {
                tokio::time::sleep(LAG).await;
                let _ = sender.send(Incoming::End).await;
            }
        });
        Self {
            stdin: Some(stream.stdin),
            incoming,
            status,
            ended: None,
            log,
            junk,
            readers,
            _lost: lost,
        }
    }

    /// Sends bytes. A broken pipe is no news here: the end of standard output follows.
    pub(super) async fn send(&mut self, bytes: &[u8]) {
        let Some(stdin) = &mut self.stdin else { return };
        let sent = timeout(SEND_LIMIT, async {
            stdin.write_all(bytes).await?;
            stdin.flush().await
        });
        if !matches!(sent.await, Ok(Ok(()))) {
            self.stdin = None;
        }
    }

    pub(super) async fn command(&mut self, command: &Command) {
        self.send(&command.line()).await;
    }

    /// Closes standard input; an agent leaves on that.
    pub(super) fn close(&mut self) {
        self.stdin = None;
    }

    /// Nothing is known yet about an end of the process.
    pub(super) fn running(&self) -> bool {
        self.ended.is_none()
    }

    /// How the process ended, if it ends within the time.
    pub(super) async fn ended(&mut self, within: Duration) -> Option<Ended> {
        if self.ended.is_none()
            && let Ok(Some(ended)) = timeout(within, self.status.join_next()).await
        {
            self.ended = Some(ended.unwrap_or_else(|e| Ended::Lost(e.to_string().into())));
        }
        self.ended.clone()
    }

    /// Waits no longer for the process: one of this machine is ended with its group.
    pub(super) async fn abandon(&mut self) {
        self.status.shutdown().await;
    }

    /// The log, once the readers are done or a short time has passed: standard error may lag behind the exit.
    pub(super) async fn texts(&mut self) -> (LogText, Vec<Words>) {
        self.incoming.close();
        let _ = timeout(Duration::from_millis(500), async {
            while self.readers.join_next().await.is_some() {}
        })
        .await;
        let log = self
            .log
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .text();
        let junk = self
            .junk
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        (log, junk)
    }
}

async fn read_events(
    mut stdout: Box<dyn AsyncRead + Send + Unpin>,
    junk: Arc<Mutex<Vec<Words>>>,
    sender: mpsc::Sender<Incoming>,
) {
    let (mut buffer, mut chunk, mut total) = (Vec::new(), vec![0; 16 << 10], 0);
    loop {
        let n = match stdout.read(&mut chunk).await {
            Ok(0) | Err(_) => break,
            Ok(n) => n,
        };
        total += n;
        buffer.extend_from_slice(&chunk[..n]);
        let mut bad = (total > MAX_BYTES).then(|| {
            ProtocolError::Flood(format!("more than {MAX_BYTES} bytes on standard output"))
        });
        while bad.is_none()
            && let Some(end) = buffer.iter().position(|c| *c == b'\n')
        {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            match protocol::parse(&line) {
                Ok(Line::Event(event)) => {
                    let _ = sender.send(Incoming::Event(event)).await;
                }
                Ok(Line::Junk(text)) => {
                    let mut junk = junk.lock().unwrap_or_else(PoisonError::into_inner);
                    junk.push(text);
                    if junk.len() >= MAX_JUNK {
                        bad = Some(ProtocolError::Flood(format!(
                            "{MAX_JUNK} lines on standard output that are not the probe's"
                        )));
                    }
                }
                Err(e) => bad = Some(e),
            }
        }
        if buffer.len() > MAX_LINE {
            bad = bad.or(Some(ProtocolError::LongLine));
        }
        if let Some(bad) = bad {
            // Nothing after this is read: whoever floods meets a full pipe.
            let _ = sender.send(Incoming::Bad(bad)).await;
            return;
        }
    }
    let _ = sender.send(Incoming::End).await;
}

async fn read_log(
    mut stderr: Box<dyn AsyncRead + Send + Unpin>,
    log: Arc<Mutex<Log>>,
    sender: mpsc::Sender<Incoming>,
) {
    let mut chunk = vec![0; 16 << 10];
    while let Ok(n @ 1..) = stderr.read(&mut chunk).await {
        let total = log
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(&chunk[..n]);
        if total > LOG_FLOOD {
            let flood =
                ProtocolError::Flood(format!("more than {LOG_FLOOD} bytes on standard error"));
            let _ = sender.send(Incoming::Bad(flood)).await;
            return;
        }
    }
}

/// The beginning and the end of a log.
#[derive(Debug, Default)]
struct Log {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

impl Log {
    fn push(&mut self, bytes: &[u8]) -> u64 {
        self.total += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(LOG_HEAD - self.head.len()));
        self.head.extend_from_slice(head);
        self.tail.extend(rest);
        let surplus = self.tail.len().saturating_sub(LOG_TAIL);
        self.tail.drain(..surplus);
        self.total
    }

    fn text(&self) -> LogText {
        let dropped = self.total - (self.head.len() + self.tail.len()) as u64;
        let mut bytes = self.head.clone();
        if dropped > 0 {
            bytes.push(b'\n');
        }
        bytes.extend(&self.tail);
        log_text(&String::from_utf8_lossy(&bytes), dropped)
    }
}

/// Bounds of what a record keeps of a log.
const LANE_BYTES: usize = 128 << 10;
const LINE_CHARS: usize = 400;
/// A row of a table is read, so that it is kept whole: thirty rails fit in.
const ROW_CHARS: usize = 2000;
const TAIL_LINES: usize = 30;

/// A line belongs in a record: the lane is read from it, or it complains.
fn says_something(line: &str) -> bool {
    ucx_text::says_something(line) || complaints::complains(line)
}

fn log_text(text: &str, dropped: u64) -> LogText {
    let mut out = LogText {
        dropped,
        ..LogText::default()
    };
    for line in text.lines().filter(|l| says_something(l)) {
        let line = safe(line);
        if out.lane.len() + line.len() >= LANE_BYTES {
            break;
        }
        out.lane.push_str(&line);
        out.lane.push('\n');
    }
    let lines: Vec<&str> = text
        .lines()
        .filter(|l| !l.trim().is_empty() && !ucx_text::is_table(l))
        .collect();
    out.tail = lines[lines.len().saturating_sub(TAIL_LINES)..]
        .iter()
        .map(|l| safe(l))
        .collect();
    out
}

/// A log line without what may be secret: UCX lists every variable it was given, and a URL may carry credentials.
fn safe(line: &str) -> String {
    let line = match line.split_once("env variables:") {
        Some((before, _)) => format!("{before}env variables: (withheld)"),
        None => line.to_owned(),
    };
    let most = match ucx_text::is_table(&line) {
        true => ROW_CHARS,
        false => LINE_CHARS,
    };
    sanitise::line(&sanitise::withhold_secrets(&line), most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_keeps_its_beginning_and_its_end() {
        let mut log = Log::default();
        log.push(b"first UCX  ERROR one\n");
        for _ in 0..40 {
            log.push(&vec![b'x'; 64 << 10]);
        }
        log.push(b"\nlast UCX  ERROR two\n");
        let text = log.text();
        assert!(text.dropped > 1 << 20);
        assert!(
            text.lane.contains("one") && text.lane.contains("two"),
            "{}",
            text.lane.len()
        );
        assert!(text.tail.last().unwrap().contains("two"));
        assert!(log.head.len() + log.tail.len() <= LOG_HEAD + LOG_TAIL);
    }

    /// UCX lists as many rails as a node has.
    #[test]
    fn a_row_of_a_table_is_kept_whole() {
        let rails: Vec<String> = (0..20)
            .map(|n| format!("5% on rc_mlx5/mlx5_{n}:1"))
            .collect();
        let row = format!(
            "[1.0] [h:1:0]   | 0..inf | zero-copy | {} |",
            rails.join(" and ")
        );
        let text = log_text(&format!("{row}\n{}\n", "ERROR x".repeat(200)), 0);
        assert_eq!(text.lane.lines().next(), Some(&*row));
        assert!(text.tail[0].len() < 500);
    }

    #[test]
    fn secrets_in_a_log_do_not_survive() {
        let text = log_text(
            "parser.c:1 UCX  INFO  UCX_* env variables: UCX_FOO=canary-1\nx UCX  ERROR http://me:canary-2@h/ a://b:canary-3@c HF_TOKEN=canary-4 Bearer canary-5\n",
            0,
        );
        let all = format!("{text:?}");
        assert!(!all.contains("canary"), "{all}");
        assert!(
            all.contains("http://***@h/ a://***@c HF_TOKEN=*** Bearer ***"),
            "{all}"
        );
    }
}
