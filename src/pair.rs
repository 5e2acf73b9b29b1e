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

/// What cannot carry KV fast, by the first word of a lane: no transfer over it proves anything.
const SLOW: [&str; 7] = ["tcp", "sysv", "posix", "cma", "knem", "xpmem", "self"];

impl PairFacts {
    /// What is wrong with a transfer that cannot have been as it is recorded; `namespace` is that of its deployment.
    fn contradiction(&self, namespace: Option<&str>) -> Option<&'static str> {
        let rates = [self.write_gbytes, self.read_gbytes];
        let sound = |rate: &f64| rate.is_finite() && *rate > 0.0;
        let first = self.lane.split(['/', ' ', ':']).next().unwrap_or_default();
        // `unknown: why`, `nothing was moved: why`.
        let none = ["", "unknown", "nothing"].contains(&first);
        if self.wrong_bytes && (self.proven || self.status != Status::Fail) {
            Some("its bytes were wrong, and it is not a fail")
        } else if self.proven && !matches!(self.status, Status::Ok | Status::Warn) {
            Some("it was proven, and it did not succeed")
        } else if self.proven && none {
            Some("it was proven, and no lane is named")
        } else if self.proven && SLOW.contains(&first) {
            Some("it was proven, over a lane that proves nothing")
        } else if rates.iter().flatten().any(|rate| !sound(rate)) {
            Some("its bandwidth is no bandwidth")
        } else if self
            .of_line_rate
            .is_some_and(|share| !share.is_finite() || share < 0.0)
        {
            Some("its share of the line rate is none")
        } else if self.proven && rates == [None, None] {
            Some("it was proven, and no bandwidth was measured")
        } else if let (Some(own), Some(of)) = (self.namespace.as_deref(), namespace)
            && own != of
        {
            Some("it is of another namespace than its deployment")
        } else {
            None
        }
    }

    /// Takes from a transfer that contradicts itself what could be taken for a proof: a recording may come from anybody.
    pub fn doubt(&mut self, namespace: Option<&str>) {
        let Some(why) = self.contradiction(namespace) else {
            return;
        };
        self.proven = false;
        (self.write_gbytes, self.read_gbytes, self.of_line_rate) = (None, None, None);
        let says = format!("the recording of this transfer contradicts itself ({why})");
        let was = std::mem::take(&mut self.detail);
        if self.wrong_bytes || self.status == Status::Fail {
            self.status = Status::Fail;
            self.reason = None;
            let what = if self.wrong_bytes {
                WRONG_BYTES
            } else {
                "Failed"
            };
            self.detail = format!("{what}: {says}; it says: {was}");
        } else {
            self.status = Status::Skipped;
            self.reason = Some(SkipReason::Unparsable);
            self.detail = format!("{says}, so nothing is concluded; it says: {was}");
        }
        self.fix = Some("make the transfer again".to_owned());
    }

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
