//! What goes down: commands to an agent.

use super::{Kind, Memory, Role};
use serde::Serialize;
use std::collections::BTreeMap;

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
    /// [`super::PROTO`].
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
