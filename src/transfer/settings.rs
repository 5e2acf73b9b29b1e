//! What is run: ends, steps and bounds.

use super::protocol::{Kind, Memory};
use std::collections::BTreeMap;
use std::time::Duration;

/// One end, as the caller names it.
pub struct End<'a, O> {
    /// Pod or host, for the report.
    pub label: String,
    /// Where it runs.
    pub place: &'a O,
    /// Interpreters to try in order: `python3`, then the worker's own executable.
    pub pythons: Vec<String>,
    /// `LD_*` variables of the worker process. They act only before a program starts.
    pub ld: BTreeMap<String, String>,
    /// Other variables of the worker process that exec does not see.
    pub env: BTreeMap<String, String>,
}

/// One step: one direction and one shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Direction.
    pub kind: Kind,
    /// Bytes per descriptor.
    pub bytes: u64,
    /// Descriptors per operation.
    pub descs: u64,
    /// Operations, at most.
    pub iters: u64,
}

/// What is run, the same for both ends.
#[derive(Debug, Clone)]
pub struct Settings {
    /// NIXL backend of the deployment.
    pub backend: String,
    /// Where the bytes lie.
    pub memory: Memory,
    /// GPU, as CUDA numbers those that are visible.
    pub gpu: u32,
    /// Both ends are in one container.
    pub same_container: bool,
    /// Steps, in order.
    pub steps: Vec<Step>,
    /// Variables whose values may be reported: the catalogue.
    pub echo: Vec<String>,
    /// Unique per run.
    pub nonce: String,
    /// Seed of the pattern.
    pub seed: u32,
    /// Bounds.
    pub limits: Limits,
    /// Fixture tree in front of `/sys`; empty outside tests.
    pub root: String,
}

/// Bounds of time, bytes and memory. The agents enforce their share themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say what is bounded")]
pub struct Limits {
    pub start: Duration,
    pub connect: Duration,
    pub operation: Duration,
    pub step: Duration,
    pub run: Duration,
    pub step_bytes: u64,
    pub run_bytes: u64,
    pub rss_bytes: u64,
    pub gpu_margin: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(30),
            connect: Duration::from_secs(10),
            operation: Duration::from_secs(10),
            step: Duration::from_secs(3),
            run: Duration::from_secs(100),
            step_bytes: 1 << 30,
            run_bytes: 4 << 30,
            rss_bytes: 2 << 30,
            gpu_margin: 1 << 30,
        }
    }
}

impl Step {
    /// Shapes of KV traffic, both ways: one word for the latency, small and large blocks in scattered lists, and a
    /// block that is large enough to be held against a line rate.
    pub fn usual() -> Vec<Self> {
        both_ways(&[
            (8, 1, 200),
            (16 << 10, 64, 50),
            (64 << 10, 64, 50),
            (1 << 20, 64, 10),
            (64 << 20, 1, 10),
        ])
    }

    /// Enough to compare bytes and to name the lane; too little to be held against a line rate.
    pub fn quick() -> Vec<Self> {
        both_ways(&[(8, 1, 20), (64 << 10, 16, 20), (1 << 20, 8, 5)])
    }
}

/// Each shape as WRITE and as READ: bytes of one descriptor, descriptors, operations.
fn both_ways(shapes: &[(u64, u64, u64)]) -> Vec<Step> {
    let both = |&(bytes, descs, iters)| {
        [Kind::Write, Kind::Read].map(|kind| Step {
            kind,
            bytes,
            descs,
            iters,
        })
    };
    shapes.iter().flat_map(both).collect()
}
