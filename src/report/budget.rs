//! The part of a report about how long a KV transfer takes.

use serde::Serialize;

/// The time that KV transfer adds to the first token of one request. Only with `--isl`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct KvBudget {
    /// Tokens of the prompt.
    pub isl: u64,
    /// Bytes of KV cache per token, over all layers and ranks; null when not known.
    pub kv_bytes_per_token: Option<u64>,
    /// Where that comes from.
    pub bytes_source: String,
    /// Bytes of the whole prompt.
    pub bytes: Option<u64>,
    /// Parts that travel side by side, each over a lane of its own.
    pub parts: u64,
    /// Where that comes from.
    pub parts_source: String,
    /// What was taken for granted, in plain sentences.
    pub assumed: Vec<String>,
    /// The element size was taken for granted, and half of it is possible.
    #[serde(skip)]
    pub may_be_half: bool,
    /// The number of parts was taken for granted.
    #[serde(skip)]
    pub parts_assumed: bool,
    /// The slowest lane.
    pub slowest: Option<LaneTime>,
    /// The fastest lane, where it differs.
    pub fastest: Option<LaneTime>,
    /// What the time to the first token may be, in milliseconds.
    pub slo_ms: Option<u64>,
    /// The formula.
    pub formula: &'static str,
    /// What is not known, and how to give it.
    pub missing: Vec<String>,
}

/// The time over one lane.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LaneTime {
    /// Bandwidth in GB/s (10^9 bytes).
    pub gbytes: f64,
    /// By a transfer; otherwise nominal, by the rate of the ports.
    pub measured: bool,
    /// Which lane.
    pub of: String,
    /// Milliseconds that the prompt's KV takes over it.
    pub added_ms: f64,
}
