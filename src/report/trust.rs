//! May the KV path be trusted?

use super::{Finding, KvPath, SkipReason, Status};
use serde::Serialize;

/// May the KV path of a deployment be trusted? The order is from harmless to worst, so that the maximum over several
/// workloads is the answer for the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum Trust {
    /// Aggregated: no KV cache leaves a worker.
    NotApplicable,
    /// No fail, no required check skipped, none on the KV path left out, and the lane of every pair in question was proven.
    Trusted,
    /// Nothing on the KV path failed, but the lane was not proven.
    Unproven,
    /// Something on the KV path failed.
    Untrusted,
}

impl Trust {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Trusted,
        Self::Unproven,
        Self::Untrusted,
        Self::NotApplicable,
    ];

    /// What it says and what to do, for who asks.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Trusted => {
                "Nothing failed, nothing that trust needs was skipped or left out, and a transfer showed the lane of every \
                 prefill/decode pair: KV travels as it is meant to. Only `check --transfer` and `nixl --transfer` can say it."
            }
            Self::Unproven => {
                "Nothing on the KV path failed, and the lane of some pair was not shown by a transfer, or something that trust \
                 needs could not be looked at. It is no pass: UCX falls back to TCP without an error. `check NAME --transfer` \
                 moves test data and names the lane. Manifests alone (`env`) and one end alone (`node`) never prove one. The \
                 text report calls it NOT PROVEN."
            }
            Self::Untrusted => {
                "Something on the KV path failed. `Fix first` (in JSON: `fix_first`) lists the causes, the gravest first, with \
                 what to do; what only follows from a cause stands beneath it. The text report calls it NOT TRUSTED."
            }
            Self::NotApplicable => {
                "The deployment is aggregated: each worker serves whole requests, no KV cache leaves it, and there is no path to \
                 trust. With `--require-trusted` that is exit code 3."
            }
        }
    }

    /// The word that JSON and text use.
    pub fn word(self) -> &'static str {
        match self {
            Self::NotApplicable => "not-applicable",
            Self::Trusted => "trusted",
            Self::Unproven => "unproven",
            Self::Untrusted => "untrusted",
        }
    }

    /// Trust in one workload. `disaggregated`: KV moves between its workers. `proven`: the lane of every
    /// prefill/decode pair in question was shown by a transfer or by observed traffic.
    pub fn judge<'a>(
        disaggregated: bool,
        proven: bool,
        findings: impl Iterator<Item = &'a Finding>,
    ) -> Self {
        if !disaggregated {
            return Self::NotApplicable;
        }
        let mut held_back = false;
        for finding in findings {
            let counts = matches!(finding.kv_path, KvPath::Required | KvPath::Supporting);
            if finding.status == Status::Fail && counts {
                return Self::Untrusted;
            }
            held_back |= holds_back(finding);
        }
        if proven && !held_back {
            Self::Trusted
        } else {
            Self::Unproven
        }
    }
}

/// Trust needs this finding to be another: where all lanes were proven, it is what keeps the answer from being `trusted`.
pub(super) fn holds_back(finding: &Finding) -> bool {
    match (finding.status, finding.kv_path) {
        (Status::Fail, _) => true,
        (Status::Skipped, KvPath::Required) => finding.reason != Some(SkipReason::NotApplicable),
        // What would have counted had it failed was left out on purpose.
        (Status::Skipped, KvPath::Supporting) => finding.reason == Some(SkipReason::NotSelected),
        _ => false,
    }
}
