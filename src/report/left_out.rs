//! What a person chose not to judge, and why: left out visibly, never without a trace.

use super::Status;
use serde::Serialize;

/// From which status on a finding fails the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FailOn {
    /// A fail.
    #[default]
    Fail,
    /// A warn as well.
    Warn,
    /// No finding does.
    Never,
}

impl FailOn {
    /// Does a finding of this status fail the run?
    pub fn fails(self, status: Status) -> bool {
        match self {
            Self::Fail => status == Status::Fail,
            Self::Warn => status >= Status::Warn,
            Self::Never => false,
        }
    }
}

/// What a finding was before it was left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LeftOut {
    /// What the check found.
    pub was: Status,
    /// Where that was asked for: `--ignore`, `--only`, or file and line.
    pub by: String,
    /// Why, in the words of whoever asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What a rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum RuleKind {
    /// Findings that it names do not count.
    Ignore,
    /// Findings that no such rule names do not count.
    Only,
}

/// A rule that ignores or selects checks, and what it did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RuleReport {
    /// What it does.
    pub kind: RuleKind,
    /// Id or name of the check or finding.
    pub rule: String,
    /// Where it stands: `--ignore`, `--only`, or file and line.
    pub by: String,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Objects that it is about, as a pattern; all when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Last day on which it counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// That day is over, so it no longer counts.
    pub expired: bool,
    /// Findings that it names.
    pub findings: usize,
    /// The gravest of them; null where there is none.
    pub worst: Option<Status>,
}
