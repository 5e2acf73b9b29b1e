//! What goes over the two streams: JSON lines, commands down and events up.
//!
//! `agent.py` is the other half. What comes up is data from a foreign machine: it is bounded before it is parsed,
//! checked against what was asked, and its text is made safe here, once.

mod command;
mod event;
mod text;

pub use command::{Command, Start};
pub use event::{
    Bye, Cgroup, Checked, Connected, CounterSet, Counters, Cpu, Event, Fatal, Latency, MemoryFacts,
    PortFacts, Ready, Region, Verify, Xfer,
};
pub use text::Words;

use crate::{catalogue, sanitise};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Version of the protocol. Both halves are in one binary, so a difference means that something else answered.
pub const PROTO: u32 = 1;

/// Longest line that is accepted from an agent. Metadata of a UCX agent is a few hundred bytes; LIBFABRIC adds an
/// address per rail.
pub const MAX_LINE: usize = 256 << 10;

/// Most bytes that are accepted on the protocol stream of one agent.
pub const MAX_BYTES: usize = 8 << 20;

/// Bytes of one block of the pattern.
pub const BLOCK: u64 = 1 << 20;

/// Most lines beside the protocol that are put up with: a `sitecustomize` may print before the agent runs.
pub const MAX_JUNK: usize = 64;

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

/// Why a line from an agent is not believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// Longer than [`MAX_LINE`].
    #[error("a line of more than {MAX_LINE} bytes")]
    LongLine,
    /// More than [`MAX_BYTES`] or [`MAX_JUNK`] lines beside the protocol.
    #[error("{0}")]
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
        return Ok(Line::Junk(Words::said(text)));
    }
    let envelope: Envelope = body(text)?;
    Ok(Line::Event(match envelope.ev.as_str() {
        "hello" => Event::Hello,
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
    for said in ready
        .passed_over
        .iter_mut()
        .chain(&mut ready.host_memory_because)
    {
        *said = Words::said(said);
    }
    ready.env.retain(|name, value| {
        catalogue::find(name).is_some() && !catalogue::withheld_of(name, value)
    });
    ready.libs.truncate(64);
    ready.plugins.truncate(64);
    ready.ports.truncate(128);
    ready.counted.truncate(256);
    Ok(ready)
}

/// Part by which a rate may differ from what latencies say that are rounded to a nanosecond, or one clock from another.
const CLOCKS: f64 = 0.1;
/// Time that passes here beside what an agent measures, in seconds.
const SLACK: f64 = 0.05;

/// One step, as it was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the command")]
pub struct Asked {
    pub kind: Kind,
    pub bytes: u64,
    pub descs: u64,
    pub iters: u64,
    pub seed: u32,
}

impl Xfer {
    /// Compares the answer with the question, and with the seconds that passed here until it came.
    ///
    /// # Errors
    /// When it is the answer to another question, or contradicts itself or our clock.
    pub fn answers(&self, asked: &Asked, elapsed_s: f64) -> Result<(), ProtocolError> {
        let &Asked {
            kind, bytes, descs, ..
        } = asked;
        let contradiction = |what: String| Err(ProtocolError::Contradiction(what));
        if (self.kind, self.bytes, self.descs) != (kind, bytes, descs) {
            return contradiction(format!(
                "{} x {} bytes by {}",
                self.descs, self.bytes, self.kind
            ));
        }
        if self.seed != Some(asked.seed) {
            return contradiction("other data than was asked for".to_owned());
        }
        if self.iters == 0 || self.iters > asked.iters {
            return contradiction(format!(
                "{} operations where at most {} were asked for",
                self.iters, asked.iters
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
        self.keeps_time(bytes * descs, elapsed_s)?;
        match (&self.verify, kind) {
            (None, Kind::Read) => contradiction("a READ without a comparison".to_owned()),
            (Some(verify), _) => verify.answers(bytes * descs),
            (None, Kind::Write) => Ok(()),
        }
    }

    /// A rate is what was moved by the time that it took: between the shortest and the longest latency, and no longer than
    /// it took here. Agents round latencies to a nanosecond.
    fn keeps_time(&self, total: u64, elapsed_s: f64) -> Result<(), ProtocolError> {
        let rate = |us: f64| total as f64 * 8.0 / (us * 1e3);
        let (slowest, fastest) = (self.lat_us.max + 1e-3, self.lat_us.min - 1e-3);
        let too_slow = self.gbps < rate(slowest) / (1.0 + CLOCKS);
        let too_fast = fastest > 0.0 && self.gbps > rate(fastest) * (1.0 + CLOCKS);
        if too_slow || too_fast {
            return Err(ProtocolError::Contradiction(format!(
                "{} Gb/s, where {total} bytes took {} to {} us",
                self.gbps, self.lat_us.min, self.lat_us.max
            )));
        }
        let own_s = (self.first_us + self.lat_us.min * self.iters as f64) / 1e6;
        if own_s > elapsed_s * (1.0 + CLOCKS) + SLACK {
            return Err(ProtocolError::Contradiction(format!(
                "operations of {own_s:.1} s together, where {elapsed_s:.1} s passed here"
            )));
        }
        Ok(())
    }
}

impl Checked {
    /// Compares the answer with the question.
    ///
    /// # Errors
    /// When it is the answer to another question, or contradicts itself.
    pub fn answers(&self, seed: u32, bytes: u64) -> Result<(), ProtocolError> {
        if (self.seed, self.bytes) != (seed, bytes) {
            return Err(ProtocolError::Contradiction(
                "a comparison with other data than was asked for".to_owned(),
            ));
        }
        self.verify.answers(bytes)
    }
}

impl Region {
    /// Compares the answer with the question.
    ///
    /// # Errors
    /// When it is the answer to another question.
    pub fn answers(&self, seed: Option<u32>, bytes: u64) -> Result<(), ProtocolError> {
        if (self.seed, self.bytes) == (seed, bytes) {
            return Ok(());
        }
        Err(ProtocolError::Contradiction(format!(
            "{} bytes prepared where {bytes} were asked for, or other data",
            self.bytes
        )))
    }
}

impl Verify {
    /// Compares the answer with the question. What is right has no wrong byte, and what is wrong has one.
    ///
    /// # Errors
    /// When it is the answer to another question, or contradicts itself.
    pub fn answers(&self, bytes: u64) -> Result<(), ProtocolError> {
        let blocks = self.bad_blocks.unwrap_or(u64::from(!self.ok));
        let sound = match (self.ok, self.bad_at) {
            (true, None) => blocks == 0 && self.zeros != Some(true) && self.earlier != Some(true),
            (false, Some(at)) => at < bytes && blocks > 0 && blocks <= bytes.div_ceil(BLOCK),
            _ => false,
        };
        if self.compared == bytes && sound {
            return Ok(());
        }
        let found = match (self.ok, self.bad_at) {
            (true, _) if blocks > 0 => format!("all right, with {blocks} wrong blocks"),
            (true, Some(at)) => format!("all right, with a wrong byte at {at}"),
            (true, None) => "all right".to_owned(),
            (false, Some(at)) => format!("wrong from byte {at} on, in {blocks} blocks"),
            (false, None) => "wrong, without a wrong byte".to_owned(),
        };
        Err(ProtocolError::Contradiction(format!(
            "{} of {bytes} bytes compared: {found}",
            self.compared
        )))
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
        let line = r#"{"ev":"xfer","kind":"WRITE","seed":7,"bytes":8,"descs":2,"iters":3,"first_us":1,"moved":64,"gbps":0.05,
            "lat_us":{"min":1,"p50":2,"p90":3,"p99":4,"max":5}}"#;
        let Event::Xfer(xfer) = event(line) else {
            panic!("not xfer")
        };
        let asked = Asked {
            kind: Kind::Write,
            bytes: 8,
            descs: 2,
            iters: 3,
            seed: 7,
        };
        assert_eq!(xfer.answers(&asked, 1.0), Ok(()));
        for other in [
            Asked {
                kind: Kind::Read,
                ..asked
            },
            Asked { iters: 2, ..asked },
            Asked { seed: 8, ..asked },
        ] {
            assert!(xfer.answers(&other, 1.0).is_err(), "{other:?}");
        }
        let lie = |change: fn(&mut Xfer)| {
            let mut lie = (*xfer).clone();
            change(&mut lie);
            lie.answers(&asked, 1.0)
        };
        assert!(lie(|x| x.moved = 1 << 40).is_err());
        // 128 bits in 1 to 5 us are 0.128 to 0.0256 Gb/s.
        assert_eq!(lie(|x| x.gbps = 0.128), Ok(()));
        assert_eq!(lie(|x| x.gbps = 0.0256), Ok(()));
        assert!(lie(|x| x.gbps = 0.2).is_err(), "faster than its fastest");
        assert!(lie(|x| x.gbps = 0.01).is_err(), "slower than its slowest");
        assert!(lie(|x| x.gbps = 0.0).is_err(), "no rate");
        assert!(lie(|x| x.first_us = 5e6).is_err(), "longer than here");
    }

    #[test]
    fn a_comparison_does_not_contradict_itself() {
        let good = |line: &str| {
            let Event::Checked(checked) = event(line) else {
                panic!("not checked")
            };
            checked.answers(7, 16).is_ok()
        };
        assert!(good(
            r#"{"ev":"checked","seed":7,"bytes":16,"ok":true,"compared":16}"#
        ));
        assert!(good(
            r#"{"ev":"checked","seed":7,"bytes":16,"ok":false,"compared":16,"bad_at":5,"bad_blocks":1,"zeros":true}"#
        ));
        for said in [
            r#""seed":8,"bytes":16,"ok":true,"compared":16"#,
            r#""seed":7,"bytes":8,"ok":true,"compared":16"#,
            r#""seed":7,"bytes":16,"ok":true,"compared":1"#,
            r#""seed":7,"bytes":16,"ok":true,"compared":16,"bad_at":5"#,
            r#""seed":7,"bytes":16,"ok":true,"compared":16,"bad_blocks":3"#,
            r#""seed":7,"bytes":16,"ok":true,"compared":16,"zeros":true"#,
            r#""seed":7,"bytes":16,"ok":false,"compared":16"#,
            r#""seed":7,"bytes":16,"ok":false,"compared":16,"bad_at":16"#,
            r#""seed":7,"bytes":16,"ok":false,"compared":16,"bad_at":1,"bad_blocks":0"#,
            r#""seed":7,"bytes":16,"ok":false,"compared":16,"bad_at":1,"bad_blocks":3"#,
        ] {
            assert!(!good(&format!(r#"{{"ev":"checked",{said}}}"#)), "{said}");
        }
        let region = Region {
            seed: None,
            bytes: 8,
        };
        assert_eq!(region.answers(None, 8), Ok(()));
        assert!(region.answers(Some(7), 8).is_err() && region.answers(None, 9).is_err());
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
