//! What a transfer proves: a pure function from a record and an intent to a verdict.
//!
//! `proven` is given only for right bytes, over the lane that the deployment intends, named by UCX and not contradicted
//! by counters. Right bytes over the wrong lane are a fail, and wrong bytes are the gravest fail there is.

mod failed;
mod lanes;
mod limits;
mod step;

use super::counted::Agreement;
use super::lane::{Lane, Unknown};
use super::protocol::Role;
use super::record::TransferRecord;
use super::ucx_text::{self, UcxText};
pub use crate::pair::{BULK_BYTES, RATE_OK};
use crate::report::{Gap, SkipReason, Status};
use failed::{failed, last_words, wrong_bytes};
use lanes::lanes;
use limits::{caveats, gaps};
use std::collections::BTreeMap;
use step::step;

/// Which lane a deployment means to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Path {
    /// RDMA, or NVLink where both workers are on one node.
    Rdma,
    /// Multi-node NVLink.
    MultiNodeNvlink,
}

/// What the deployment intends, from its other facts.
#[derive(Debug, Clone)]
pub struct Intent {
    /// The lane.
    pub path: Path,
    /// KV lies in host memory on purpose (`kv_buffer_device=cpu`).
    pub host_memory: bool,
    /// NIXL backend that the worker's own settings name; none: they name none, and UCX is NIXL's default.
    pub backend: Option<String>,
    /// Why a transfer proves nothing of what moves the KV, where that is not NIXL.
    pub other_mover: Option<String>,
    /// Line rate of a port in Gb/s by `device:port`. Empty: the rates that the initiator's own ports show.
    pub line_rates: BTreeMap<String, f64>,
    /// The most likely cause of a wrong lane, where other facts already name it.
    pub likely_cause: Option<String>,
    /// What removes that cause.
    pub likely_fix: Option<String>,
}

impl Intent {
    /// Another backend than the worker's. NIXL tells large and small letters apart, and engines do not.
    fn differs(&self, backend: &str) -> bool {
        let own = self.backend.as_deref().unwrap_or("UCX");
        !own.eq_ignore_ascii_case(backend)
    }
}

impl Default for Intent {
    fn default() -> Self {
        Self {
            path: Path::Rdma,
            host_memory: false,
            backend: None,
            other_mover: None,
            line_rates: BTreeMap::new(),
            likely_cause: None,
            likely_fix: None,
        }
    }
}

/// What a transfer proves.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// How bad it is.
    pub status: Status,
    /// What was seen and what was needed.
    pub detail: String,
    /// What to do.
    pub fix: Option<String>,
    /// The intended lane carried the bytes.
    pub proven: bool,
    /// Why right bytes prove no lane.
    pub unproven: Vec<Gap>,
    /// Bytes differed: graver than any other fail.
    pub wrong_bytes: bool,
    /// Why nothing can be said, where the status is skipped.
    pub reason: Option<SkipReason>,
    /// Each step with its lane.
    pub steps: Vec<StepVerdict>,
    /// What limits the verdict, in plain sentences.
    pub caveats: Vec<String>,
    /// Lines it rests on.
    pub evidence: Vec<String>,
}

/// One step with its lane.
#[derive(Debug, Clone, PartialEq)]
pub struct StepVerdict {
    /// `WRITE 64 x 65536 bytes`.
    pub what: String,
    /// Large enough to tell the lane of KV blocks.
    pub bulk: bool,
    /// Every byte was right.
    pub intact: bool,
    /// The lane, or why it is not known.
    pub lane: Result<Lane, Unknown>,
    /// What counters say about it.
    pub counters: Option<Agreement>,
    /// Bandwidth in Gb/s, while one operation at a time was under way.
    pub gbps: f64,
    /// Share of the line rate of the ports that carried it.
    pub of_line_rate: Option<f64>,
    /// Where no port tells a line rate: the bandwidth is below [`RATE_TCP`].
    pub crawls: bool,
    /// Why the bandwidth cannot be true, where it cannot.
    pub impossible: Option<String>,
    /// One line for a report: lane, bandwidth, latency, load.
    pub line: String,
}

/// Below [`RATE_OK`] of the line rate: warn. Below this share: warn "far below".
pub const RATE_FAR: f64 = 0.7;
/// Below this share a lane looks like TCP or a software bounce, whatever its name is.
pub const RATE_BOUNCE: f64 = 0.05;
/// Below this, in Gb/s, the lane is no faster than TCP or a software bounce, which reach 0.5 to 3 GB/s: for lanes whose line rate no
/// port tells (NVLink, a port of unknown speed).
pub const RATE_TCP: f64 = 4.0;
/// Smaller operations are not held against a line rate: one at a time, latency dominates them.
pub const RATE_BYTES: u64 = 64 << 20;
/// Where the thresholds come from.
pub const RATE_SOURCE: &str = "judgement of this project: large RDMA writes reach 92 to 98 % of line rate, since headers \
take 1 to 3 %; azurehpc-health-checks passes ib_write_bw at 90 to 95 %";

/// Judges one transfer.
pub fn judge(record: &TransferRecord, intent: &Intent) -> Verdict {
    let text = ucx_text::read(&record.initiator.log.lane);
    let steps: Vec<StepVerdict> = record
        .steps
        .iter()
        .map(|s| step(s, record, &text, intent))
        .collect();
    let mut verdict = if let Some(bad) = steps.iter().position(|s| !s.intact) {
        let ends = [Role::Target, Role::Initiator].into_iter();
        let gpu = ends
            .filter_map(|role| record.end(role).ready.as_ref())
            .any(|ready| &*ready.seg == "VRAM");
        wrong_bytes(&record.steps[bad], &steps[bad], gpu)
    } else if let Some(failure) = &record.failure {
        failed(failure, record, &text, intent)
    } else {
        lanes(record, &text, &steps, intent)
    };
    if let (true, Some(failure)) = (verdict.wrong_bytes, &record.failure) {
        verdict.caveats.push(format!(
            "the {} failed afterwards: {}",
            failure.side, failure.detail
        ));
    }
    verdict.caveats.extend(caveats(record, &steps, intent));
    let differs = intent.differs(&record.backend);
    verdict.proven &= verdict.status <= Status::Warn && !verdict.wrong_bytes && !differs;
    if matches!(verdict.status, Status::Ok | Status::Warn) && !verdict.proven {
        verdict.unproven = gaps(record, &steps, intent);
    }
    verdict.evidence.extend(evidence(record, &text, &steps));
    verdict.steps = steps;
    verdict
}

fn verdict(status: Status, detail: impl Into<String>) -> Verdict {
    Verdict {
        status,
        detail: detail.into(),
        fix: None,
        proven: false,
        unproven: Vec::new(),
        wrong_bytes: false,
        reason: None,
        steps: Vec::new(),
        caveats: Vec::new(),
        evidence: Vec::new(),
    }
}

fn evidence(record: &TransferRecord, text: &UcxText, steps: &[StepVerdict]) -> Vec<String> {
    let mut out = last_words(record);
    out.extend(steps.iter().map(|s| s.line.clone()));
    out.extend(text.version.iter().map(|v| format!("UCX {v}")));
    out.extend(
        text.provider
            .iter()
            .map(|p| format!("libfabric provider {p}")),
    );
    out.extend(text.configurations.iter().cloned());
    out.extend(
        text.rows
            .iter()
            .filter(|r| r.to.is_none())
            .map(|r| format!("{} {}: {} {}", r.kind, r.memory, r.how, r.raw)),
    );
    out
}
