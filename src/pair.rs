//! What a transfer between two ends proved, as plain facts: the bridge from `transfer`, which touches the world, to the
//! checks, which do not.

use crate::report::{Gap, PairReport, SkipReason, Status};
use serde::{Deserialize, Serialize};

/// How the words on a transfer begin that arrived over another lane than was meant.
pub const WRONG_LANE: &str = "Works, wrong lane";
/// How the words on a transfer begin whose bytes differ.
pub const WRONG_BYTES: &str = "WRONG BYTES";

/// One transfer, judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairFacts {
    /// The end that moved the bytes, as the report names it.
    pub initiator: String,
    /// The end that lent its memory.
    pub target: String,
    /// Namespace of both.
    pub namespace: Option<String>,
    /// How bad it is.
    pub status: Status,
    /// What was seen and what was needed.
    pub detail: String,
    /// What to do.
    pub fix: Option<String>,
    /// The intended lane carried the bytes.
    pub proven: bool,
    /// Why right bytes prove no lane.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unproven: Vec<Gap>,
    /// Bytes differed: graver than any other fail, and explained by nothing else.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wrong_bytes: bool,
    /// Why nothing can be said, where the status is skipped.
    pub reason: Option<SkipReason>,
    /// `rc_mlx5/mlx5_0:1 zero-copy`, or why it is not known.
    pub lane: String,
    /// Bandwidth of the largest WRITE in GB/s (10^9 bytes).
    pub write_gbytes: Option<f64>,
    /// Bandwidth of the largest READ in GB/s.
    pub read_gbytes: Option<f64>,
    /// Share of the line rate of the ports that carried it, 0 to 1.
    pub of_line_rate: Option<f64>,
    /// `gpu`; `host` where one end or both lay in host memory; `none` where an end had none yet.
    pub memory: String,
    /// One line per step.
    pub steps: Vec<String>,
    /// What limits the verdict, in plain sentences.
    pub caveats: Vec<String>,
    /// Lines it rests on.
    pub evidence: Vec<String>,
}

impl PairFacts {
    /// The transfer as the report shows it.
    pub fn report(&self) -> PairReport {
        PairReport {
            initiator: self.initiator.clone(),
            target: self.target.clone(),
            status: self.status,
            proven: self.proven,
            unproven: self.unproven.clone(),
            lane: self.lane.clone(),
            memory: self.memory.clone(),
            write_gbytes: self.write_gbytes,
            read_gbytes: self.read_gbytes,
            of_line_rate: self.of_line_rate,
            steps: self.steps.clone(),
        }
    }
}
