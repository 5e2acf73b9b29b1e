//! What goes over the two streams: JSON lines, commands down and events up.
//!
//! `agent.py` is the other half. What comes up is data from a foreign machine: it is bounded before it is parsed,
//! checked against what was asked, and its text is made safe here, once.

use crate::sanitise;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Version of the protocol. Both halves are in one binary, so a difference means that something else answered.
pub const PROTO: u32 = 1;

/// Longest line that is accepted from an agent. Metadata of a UCX agent is a few hundred bytes; LIBFABRIC adds an
/// address per rail.
pub const MAX_LINE: usize = 256 << 10;

/// Most bytes that are accepted on the protocol stream of one agent.
pub const MAX_BYTES: usize = 8 << 20;

/// Most lines beside the protocol that are put up with: a `sitecustomize` may print before the agent runs.
pub const MAX_JUNK: usize = 64;

/// Foreign text, safe to show: one line, bounded.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Words(String);

impl Words {
    const MAX: usize = 2048;
}

impl From<String> for Words {
    fn from(text: String) -> Self {
        let safe = sanitise::line(&text, Self::MAX);
        match safe.char_indices().nth(Self::MAX) {
            None => Self(safe),
            Some(_) => Self(
                safe.chars()
                    .take(Self::MAX - 3)
                    .chain("...".chars())
                    .collect(),
            ),
        }
    }
}

impl From<&str> for Words {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<Words> for String {
    fn from(words: Words) -> Self {
        words.0
    }
}

impl std::ops::Deref for Words {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Which way the initiator moves bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Kind {
    /// From the initiator to the target (push).
    Write,
    /// From the target to the initiator (pull): what vLLM's NixlConnector does by default.
    Read,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Write => "WRITE",
            Self::Read => "READ",
        })
    }
}

/// Which of the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Lends its memory and moves nothing itself.
    Target,
    /// Posts the transfers.
    Initiator,
}

impl Role {
    /// The other end.
    pub fn other(self) -> Self {
        match self {
            Self::Target => Self::Initiator,
            Self::Initiator => Self::Target,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Target => "target",
            Self::Initiator => "initiator",
        })
    }
}

/// Where the bytes lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Memory {
    /// GPU memory where there is a GPU and room for it, host memory otherwise.
    Auto,
    /// GPU memory or nothing.
    Gpu,
    /// Host memory.
    Host,
}

/// A command to an agent.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
#[expect(
    missing_docs,
    reason = "the names are those of the protocol; agent.py says what each one does"
)]
pub enum Command {
    Start(Box<Start>),
    Connect {
        md: String,
        addr: u64,
        bytes: u64,
        dev: u64,
        seg: String,
    },
    Xfer {
        kind: Kind,
        bytes: u64,
        descs: u64,
        iters: u64,
        seed: u32,
        op_timeout_s: f64,
        budget_s: f64,
        step_bytes: u64,
    },
    Fill {
        seed: u32,
        bytes: u64,
    },
    Clear {
        bytes: u64,
    },
    Check {
        seed: u32,
        bytes: u64,
    },
    Counters,
    Ping,
    Bye,
}

impl Command {
    /// The line that is sent.
    pub fn line(&self) -> Vec<u8> {
        let mut line =
            serde_json::to_vec(self).expect("a command has only string keys and finite numbers");
        line.push(b'\n');
        line
    }
}

/// The first command. Limits are enforced by the agent itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Start {
    /// [`PROTO`].
    pub proto: u32,
    /// Which end.
    pub role: Role,
    /// Agent name, unique per run.
    pub name: String,
    /// NIXL backend: `UCX`, `LIBFABRIC`, or another by name.
    pub backend: String,
    /// Where the bytes lie.
    pub mem: Memory,
    /// GPU, as CUDA numbers those that are visible.
    pub gpu: u32,
    /// Free GPU memory that must remain after the buffer: a CUDA context takes hundreds of MB.
    pub gpu_margin: u64,
    /// Size of the buffer.
    pub bytes: u64,
    /// Bytes that all transfers of this run may move together.
    pub run_bytes: u64,
    /// Resident memory allowed beyond the buffer.
    pub rss_bytes: u64,
    /// The process ends itself after this time.
    pub deadline_s: u64,
    /// The process ends itself after this much silence.
    pub idle_s: u64,
    /// Variables to set before NIXL is imported.
    pub env: BTreeMap<String, String>,
    /// Variables to remove.
    pub unset_env: Vec<String>,
    /// Variables whose values may be reported. No other leaves the container.
    pub echo: Vec<String>,
    /// Fixture tree in front of `/sys` and `/dev`; empty outside tests.
    pub root: String,
}

/// What an agent says.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    missing_docs,
    reason = "each is the answer to the command of the same name"
)]
pub enum Event {
    Ready(Box<Ready>),
    Connected(Connected),
    Xfer(Box<Xfer>),
    Filled(Region),
    Cleared(Region),
    Checked(Verify),
    Counters(CounterSet),
    Pong,
    Bye(Bye),
    Fatal(Box<Fatal>),
}

impl Event {
    /// The word that names it in the protocol.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Ready(_) => "ready",
            Self::Connected(_) => "connected",
            Self::Xfer(_) => "xfer",
            Self::Filled(_) => "filled",
            Self::Cleared(_) => "cleared",
            Self::Checked(_) => "checked",
            Self::Counters(_) => "counters",
            Self::Pong => "pong",
            Self::Bye(_) => "bye",
            Self::Fatal(_) => "fatal",
        }
    }
}

/// An agent is up: its memory is registered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "plain facts; the names say what they are")]
pub struct Ready {
    pub proto: u32,
    pub python: Words,
    pub executable: Words,
    pub nixl_module: Words,
    /// File of that module.
    pub nixl_file: Option<Words>,
    pub torch: Words,
    pub dist: BTreeMap<Words, Words>,
    pub backend: Words,
    pub import_s: f64,
    pub create_s: f64,
    pub plugins: Vec<Words>,
    /// Soft and hard RLIMIT_MEMLOCK; -1 is unlimited.
    pub memlock: [i64; 2],
    pub mem: MemoryFacts,
    /// Why GPU memory was not used, where it was asked for with `auto`.
    pub host_memory_because: Option<Words>,
    pub libs: Vec<Words>,
    pub cgroup: Cgroup,
    pub cpu: Cpu,
    pub ports: Vec<PortFacts>,
    /// Whose counters can be read: `net/eth0`, `ib/mlx5_0:1`, `hw/rxe0:1`.
    pub counted: Vec<Words>,
    pub env: BTreeMap<Words, Words>,
    #[serde(skip_serializing)]
    pub md: String,
    #[serde(skip_serializing)]
    pub addr: u64,
    pub bytes: u64,
    pub dev: u64,
    pub seg: Words,
}

/// The memory that was taken.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "plain facts; the names say what they are")]
pub struct MemoryFacts {
    /// `DRAM` or `VRAM`.
    pub seg: Words,
    pub gpu: Option<Words>,
    pub pci: Option<Words>,
    pub free: Option<u64>,
    pub total: Option<u64>,
    pub gpu_direct_rdma: Option<bool>,
    pub dma_buf: Option<bool>,
    pub fabric_handle: Option<bool>,
    pub imex: Option<bool>,
}

/// Memory limit of the container.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "plain facts; the names say what they are")]
pub struct Cgroup {
    pub limit: Option<u64>,
    pub used: Option<u64>,
    /// How often the kernel has killed a process here for want of memory.
    pub oom_kill: Option<u64>,
}

/// Load and quota beside a measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "plain facts; the names say what they are")]
pub struct Cpu {
    pub load1: f64,
    pub cpus: u32,
    /// CPUs that the quota allows; none = no quota.
    pub quota: Option<f64>,
    /// Periods in which the quota stopped us.
    pub throttled: Option<i64>,
}

/// One RDMA port as the container sees it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "plain facts; the names say what they are")]
pub struct PortFacts {
    pub device: Words,
    pub port: u32,
    pub state: Option<Words>,
    pub rate: Option<Words>,
    pub link_layer: Option<Words>,
    /// The device hangs on a bus. Soft-RoCE and soft-iWARP do not.
    pub hardware: bool,
    /// Its device node is in the container.
    pub granted: bool,
    pub driver: Option<Words>,
}

/// The initiator knows its peer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[expect(missing_docs, reason = "plain facts; the names say what they are")]
pub struct Connected {
    pub s: f64,
}

/// A region was written.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[expect(missing_docs, reason = "plain facts; the names say what they are")]
pub struct Region {
    pub bytes: u64,
}

/// Counters by name.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[expect(missing_docs, reason = "plain facts; the names say what they are")]
pub struct CounterSet {
    pub counters: Counters,
}

/// `net/eth0/tx_bytes`, `ib/mlx5_0:1/rx_bytes`, `hw/rxe0:1/sent_pkts`, `nvlink/<pci>/tx_bytes` to values, in bytes or
/// packets.
pub type Counters = BTreeMap<Words, i64>;

/// One step is done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "plain facts; the names say what they are")]
pub struct Xfer {
    pub kind: Kind,
    pub bytes: u64,
    pub descs: u64,
    pub iters: u64,
    /// The first operation sets the path up and is not among the others.
    pub first_us: f64,
    pub moved: u64,
    pub gbps: f64,
    pub lat_us: Latency,
    #[serde(default)]
    pub delta: Counters,
    #[serde(default)]
    pub cpu: Cpu,
    /// The initiator's own comparison, after a READ.
    #[serde(default)]
    pub verify: Option<Verify>,
}

/// Latency of single operations, in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "plain facts; the names say what they are")]
pub struct Latency {
    pub min: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub max: f64,
}

/// What a comparison of every byte gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "plain facts; the names say what they are")]
pub struct Verify {
    pub ok: bool,
    pub compared: u64,
    #[serde(default)]
    pub bad_at: Option<u64>,
    /// The block with the first difference held only zeros: nothing arrived there.
    #[serde(default)]
    pub zeros: Option<bool>,
    #[serde(default)]
    pub bad_blocks: Option<u64>,
}

/// An agent leaves in good order.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[expect(missing_docs, reason = "plain facts; the names say what they are")]
pub struct Bye {
    pub maxrss_kb: u64,
}

/// An agent cannot go on, and says why.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "plain facts; the names say what they are")]
pub struct Fatal {
    pub code: i32,
    pub why: Words,
    pub detail: Words,
    /// Of a transfer: `post`, `poll`, `stall`, `status`.
    pub phase: Option<Words>,
    pub memlock: Option<[i64; 2]>,
    pub moved: Option<u64>,
}

/// Why a line from an agent is not believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// Longer than [`MAX_LINE`].
    #[error("a line of more than {MAX_LINE} bytes")]
    LongLine,
    /// More than [`MAX_BYTES`] or [`MAX_JUNK`] lines beside the protocol.
    #[error("a flood on standard output: {0}")]
    Flood(String),
    /// JSON that is not an event of this protocol.
    #[error("an event that makes no sense: {0}")]
    Malformed(String),
    /// An event that was not asked for.
    #[error("`{got}` where `{wanted}` was due")]
    Unexpected {
        /// What was due.
        wanted: &'static str,
        /// What came.
        got: &'static str,
    },
    /// An answer that contradicts the question.
    #[error("an answer that contradicts the question: {0}")]
    Contradiction(String),
    /// Another protocol version.
    #[error("protocol {0} instead of {PROTO}")]
    Version(u32),
}

/// A line from an agent.
#[derive(Debug, Clone, PartialEq)]
pub enum Line {
    /// An event.
    Event(Event),
    /// Something else that is put up with: text beside the protocol, or an event of a later agent.
    Junk(Words),
}

#[derive(Deserialize)]
struct Envelope {
    ev: String,
}

/// Reads one line. Unknown keys are ignored; a wrong shape is an error, never a default.
pub fn parse(line: &[u8]) -> Result<Line, ProtocolError> {
    if line.len() > MAX_LINE {
        return Err(ProtocolError::LongLine);
    }
    let text = String::from_utf8_lossy(line);
    let text = text.trim();
    if !text.starts_with('{') {
        return Ok(Line::Junk(text.into()));
    }
    let envelope: Envelope = body(text)?;
    Ok(Line::Event(match envelope.ev.as_str() {
        "ready" => Event::Ready(Box::new(checked_ready(body(text)?)?)),
        "connected" => Event::Connected(body(text)?),
        "xfer" => Event::Xfer(body(text)?),
        "filled" => Event::Filled(body(text)?),
        "cleared" => Event::Cleared(body(text)?),
        "checked" => Event::Checked(body(text)?),
        "counters" => Event::Counters(body(text)?),
        "pong" => Event::Pong,
        "bye" => Event::Bye(body(text)?),
        "fatal" => Event::Fatal(body(text)?),
        other => return Ok(Line::Junk(format!("event {other}").into())),
    }))
}

fn body<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, ProtocolError> {
    serde_json::from_str(text)
        .map_err(|e| ProtocolError::Malformed(sanitise::line(&e.to_string(), 200)))
}

/// Metadata goes to the other pod's NIXL, so it must at least be what it claims to be.
fn checked_ready(mut ready: Ready) -> Result<Ready, ProtocolError> {
    if ready.proto != PROTO {
        return Err(ProtocolError::Version(ready.proto));
    }
    let base64 = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'+' | b'/' | b'=');
    if ready.md.is_empty() || !ready.md.bytes().all(base64) {
        return Err(ProtocolError::Malformed(
            "agent metadata is not base64".to_owned(),
        ));
    }
    ready.libs.truncate(64);
    ready.plugins.truncate(64);
    ready.ports.truncate(128);
    ready.counted.truncate(256);
    Ok(ready)
}

impl Xfer {
    /// Compares the answer with the question.
    pub fn answers(
        &self,
        kind: Kind,
        bytes: u64,
        descs: u64,
        iters: u64,
    ) -> Result<(), ProtocolError> {
        let contradiction = |what: String| Err(ProtocolError::Contradiction(what));
        if (self.kind, self.bytes, self.descs) != (kind, bytes, descs) {
            return contradiction(format!(
                "{} x {} bytes by {}",
                self.descs, self.bytes, self.kind
            ));
        }
        if self.iters == 0 || self.iters > iters {
            return contradiction(format!(
                "{} operations where at most {iters} were asked for",
                self.iters
            ));
        }
        if self.moved != bytes * descs * (self.iters + 1) {
            return contradiction(format!(
                "{} bytes moved in {} operations",
                self.moved,
                self.iters + 1
            ));
        }
        let times = [
            self.first_us,
            self.lat_us.min,
            self.lat_us.p50,
            self.lat_us.p90,
            self.lat_us.p99,
            self.lat_us.max,
        ];
        let rising = times[1..].windows(2).all(|w| w[0] <= w[1]);
        if !rising
            || times.iter().any(|t| !t.is_finite() || *t < 0.0)
            || !self.gbps.is_finite()
            || self.gbps < 0.0
        {
            return contradiction("latencies that do not rise, or a negative rate".to_owned());
        }
        match (&self.verify, kind) {
            (None, Kind::Read) => contradiction("a READ without a comparison".to_owned()),
            (Some(verify), _) => verify.answers(bytes * descs),
            (None, Kind::Write) => Ok(()),
        }
    }
}

impl Verify {
    /// Compares the answer with the question.
    pub fn answers(&self, bytes: u64) -> Result<(), ProtocolError> {
        if self.compared == bytes && (self.ok || self.bad_at.is_some_and(|at| at < bytes)) {
            return Ok(());
        }
        let what = format!(
            "{} of {bytes} bytes compared, first difference at {:?}",
            self.compared, self.bad_at
        );
        Err(ProtocolError::Contradiction(what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event(line: &str) -> Event {
        match parse(line.as_bytes()).unwrap() {
            Line::Event(event) => event,
            Line::Junk(junk) => panic!("{junk}"),
        }
    }

    #[test]
    fn unknown_keys_and_events_are_ignored() {
        assert_eq!(event(r#"{"ev":"pong","t":1,"new":{"a":[1]}}"#), Event::Pong);
        assert_eq!(
            parse(br#"{"ev":"novel"}"#),
            Ok(Line::Junk("event novel".into()))
        );
        assert_eq!(parse(b"hello"), Ok(Line::Junk("hello".into())));
    }

    #[test]
    fn absurd_json_is_an_error_and_not_a_default() {
        for line in [
            r#"{"ev":"checked","ok":"yes","compared":1}"#,
            r#"{"ev":"checked","ok":true,"compared":-1}"#,
            r#"{"ev":"connected","s":1e999}"#,
            r#"{"ev":"counters","counters":{"net/lo/tx_bytes":9999999999999999999}}"#,
            r#"{"ev":7}"#,
            r#"{"#,
        ] {
            assert!(
                matches!(parse(line.as_bytes()), Err(ProtocolError::Malformed(_))),
                "{line}"
            );
        }
        let deep = format!("{{\"ev\":\"pong\",\"x\":{}", "[".repeat(50_000));
        assert!(matches!(
            parse(deep.as_bytes()),
            Err(ProtocolError::Malformed(_))
        ));
        assert_eq!(
            parse(&vec![b'a'; MAX_LINE + 1]),
            Err(ProtocolError::LongLine)
        );
    }

    #[test]
    fn text_of_a_pod_cannot_reach_a_terminal() {
        let Event::Fatal(fatal) =
            event(r#"{"ev":"fatal","code":99,"why":"x","detail":"\u001b[2J\u202e"}"#)
        else {
            panic!("not fatal")
        };
        assert_eq!(&*fatal.detail, "\\u{1b}[2J\\u{202e}");
    }

    #[test]
    fn metadata_must_be_base64() {
        let line = r#"{"ev":"ready","proto":1,"md":"a b"}"#;
        assert!(matches!(
            parse(line.as_bytes()),
            Err(ProtocolError::Malformed(_))
        ));
        let line = r#"{"ev":"ready","proto":2,"md":"aGk="}"#;
        assert_eq!(parse(line.as_bytes()), Err(ProtocolError::Version(2)));
    }

    #[test]
    fn an_answer_is_held_against_its_question() {
        let line = r#"{"ev":"xfer","kind":"WRITE","bytes":8,"descs":2,"iters":3,"first_us":1,"moved":64,"gbps":1,
            "lat_us":{"min":1,"p50":2,"p90":3,"p99":4,"max":5}}"#;
        let Event::Xfer(xfer) = event(line) else {
            panic!("not xfer")
        };
        assert_eq!(xfer.answers(Kind::Write, 8, 2, 3), Ok(()));
        assert!(xfer.answers(Kind::Read, 8, 2, 3).is_err());
        assert!(xfer.answers(Kind::Write, 8, 2, 2).is_err());
        let lie = Xfer {
            moved: 1 << 40,
            ..(*xfer).clone()
        };
        assert!(lie.answers(Kind::Write, 8, 2, 3).is_err());
        assert!(
            Verify {
                ok: true,
                compared: 1,
                bad_at: None,
                zeros: None,
                bad_blocks: None
            }
            .answers(16)
            .is_err()
        );
    }

    proptest! {
        #[test]
        fn parsing_never_panics(line in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&line);
            let _ = parse(&[b"{\"ev\":\"xfer\",".as_slice(), &line].concat());
        }

        #[test]
        fn words_survive_a_round_trip(text in ".{0,3000}") {
            let words = Words::from(text);
            let again: Words = serde_json::from_str(&serde_json::to_string(&words).unwrap()).unwrap();
            prop_assert_eq!(words, again);
        }
    }
}
