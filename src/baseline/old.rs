//! The report of an earlier run, as far as it is compared.

use crate::report::Fingerprint;
use serde::Deserialize;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Old {
    pub(super) tool: OldTool,
    pub(super) trust: String,
    pub(super) workloads: Vec<OldWorkload>,
    pub(super) fingerprint: Vec<Fingerprint>,
    pub(super) pairs: OldPairs,
    pub(super) checks: Vec<OldFinding>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OldTool {
    pub(super) version: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OldWorkload {
    pub(super) name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OldPairs {
    pub(super) made: Vec<Pair>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Pair {
    pub(super) initiator: String,
    pub(super) target: String,
    pub(super) lane: String,
    pub(super) write_gbytes: Option<f64>,
    pub(super) read_gbytes: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OldFinding {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) status: String,
    pub(super) target: OldTarget,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OldTarget {
    pub(super) kind: String,
    pub(super) name: String,
}
