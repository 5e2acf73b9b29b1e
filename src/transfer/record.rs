//! What one transfer reported: plain data, bounded, ready to be recorded and judged again.

use super::protocol::{Counters, Kind, Memory, Ready, Role, Verify, Words, Xfer};
use super::stream::Ended;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Version of the recorded form.
pub const FORMAT: u32 = 1;

/// Everything a judgement needs to know about one transfer between two ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TransferRecord {
    /// [`FORMAT`].
    pub format: u32,
    /// NIXL backend that was asked for.
    pub backend: Words,
    /// Where the bytes were to lie.
    pub memory: Memory,
    /// Both ends ran in one container (`--self`).
    pub same_container: bool,
    /// The end that lent its memory.
    pub target: EndRecord,
    /// The end that moved the bytes.
    pub initiator: EndRecord,
    /// Time to connect, in seconds.
    pub connected_s: Option<f64>,
    /// The steps that were completed, in order.
    pub steps: Vec<StepRecord>,
    /// Why it stopped early.
    pub failure: Option<Failure>,
}

impl TransferRecord {
    /// One of the two ends.
    pub fn end(&self, role: Role) -> &EndRecord {
        match role {
            Role::Target => &self.target,
            Role::Initiator => &self.initiator,
        }
    }
}

/// What is known about one end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EndRecord {
    /// Pod or host, as the report names it.
    pub label: Words,
    /// Interpreters that were tried, with why each was given up. The last one ran the agent.
    pub tried: Vec<Attempt>,
    /// What the agent said when it was up.
    pub ready: Option<Ready>,
    /// Largest resident memory of the agent, in KiB.
    pub maxrss_kb: Option<u64>,
    /// How its process ended.
    pub ended: Option<Ended>,
    /// Text it wrote beside the protocol.
    pub log: LogText,
    /// Lines on standard output that are not of the protocol.
    pub junk: Vec<Words>,
}

/// One interpreter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// As it was called.
    pub python: Words,
    /// Why it was given up; none for the one that ran.
    pub gave_up: Option<Words>,
}

/// Standard error of an agent: UCX and NIXL write there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogText {
    /// Lines from which the lane is read: configurations, protocol tables, warnings, errors.
    pub lane: String,
    /// The last lines.
    pub tail: Vec<String>,
    /// Bytes in the middle that were not kept.
    pub dropped: u64,
}

/// One step: one direction, one shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// What the initiator measured. Its `delta` are the initiator's counters.
    pub xfer: Xfer,
    /// Counters of the target over the same step.
    pub target_delta: Option<Counters>,
    /// The comparison of every byte, by the receiving end.
    pub verify: Verify,
    /// The receiving end.
    pub verified_by: Role,
}

/// The first thing that went wrong, and where.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// The end that caused it.
    pub side: Role,
    /// What was being done.
    pub stage: Stage,
    /// What it was.
    pub what: What,
    /// In words.
    pub detail: Words,
    /// What the other end said meanwhile, and other consequences.
    pub also: Vec<Words>,
}

/// What was being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Opening a stream and starting Python.
    Start,
    /// Importing NIXL, making the agent, registering memory.
    Ready,
    /// The initiator learns of the target and connects.
    Connect,
    /// The target prepares its buffer.
    Fill,
    /// Reading counters.
    Counters,
    /// Moving bytes.
    Xfer {
        /// Direction.
        kind: Kind,
        /// Bytes per descriptor.
        bytes: u64,
        /// Descriptors per operation.
        descs: u64,
    },
    /// The target compares.
    Check,
    /// Leaving.
    Bye,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start => f.write_str("while starting Python"),
            Self::Ready => f.write_str("while making the NIXL agent"),
            Self::Connect => f.write_str("while connecting"),
            Self::Fill => f.write_str("while preparing the buffer"),
            Self::Counters => f.write_str("while reading counters"),
            Self::Xfer { kind, bytes, descs } => {
                write!(f, "during the {kind} of {descs} x {bytes} bytes")
            }
            Self::Check => f.write_str("while comparing bytes"),
            Self::Bye => f.write_str("while leaving"),
        }
    }
}

/// Kinds of failure. Each has its own words and its own fix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// No Python interpreter in the container.
    NoPython,
    /// What is called as the interpreter is none, or ended or broke before it ran the program.
    BadPython,
    /// No interpreter that was tried can import NIXL.
    NoNixl,
    /// NIXL could not make an agent: no usable device, or a library that does not load.
    AgentCreate,
    /// The installed NIXL has no plugin of this name. It raises nothing then.
    NoPlugin,
    /// The plugin of the backend is there and does not load. Some versions of NIXL raise nothing then.
    NoBackend,
    /// The backend reaches files or storage, and no other agent.
    LocalBackend,
    /// Host memory that cannot or must not be taken.
    HostMemory,
    /// GPU memory that cannot or must not be taken.
    GpuMemory,
    /// Memory could not be registered.
    Register,
    /// Resident memory ran away, and the agent ended itself.
    RssLimit,
    /// The initiator could not connect.
    Connect,
    /// NIXL refused to prepare the transfer.
    Prepare,
    /// NIXL reported an error for the transfer.
    Transfer,
    /// The transfer did not complete, and both ends were alive.
    Stall,
    /// Ended by SIGKILL.
    Killed,
    /// Ended by the kernel for want of memory.
    OutOfMemory,
    /// Ended by another signal, or without a word.
    Crashed,
    /// Alive, but does not answer: stopped or frozen.
    Stopped,
    /// A time limit passed.
    Deadline,
    /// The run of which it is a part came to an end first.
    CutShort,
    /// The person who waited stopped the run first.
    Interrupted,
    /// The connection to the container broke.
    StreamLost,
    /// More output than is accepted.
    Flood,
    /// Output that makes no sense or contradicts what was asked.
    Nonsense,
    /// The container takes no commands.
    Refused,
    /// The agent failed in a way of its own.
    AgentError,
}
