//! How bad a finding is, and why something could not be looked at.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How bad one finding is. The order is the order of gravity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum Status {
    /// Looked at and harmless.
    Ok,
    /// Could not be looked at: inconclusive, never a pass.
    Skipped,
    /// Works but is degraded, ignored or fragile, or right only for facts that are not known.
    Warn,
    /// The KV or collective path cannot use RDMA or NVLink in the stated context.
    Fail,
}

impl Status {
    /// The word that JSON and text use.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Skipped => "skipped",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// Which part a check plays for trust in the KV path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum KvPath {
    /// A fail makes the deployment untrusted, a skip prevents trusted.
    Required,
    /// A fail counts; a skip does not, because another check covers the same fact.
    Supporting,
    /// Does not carry KV (collectives, logging): a fail prevents trusted and no more.
    Off,
}

/// Why something could not be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum SkipReason {
    /// The question does not arise here. The only reason that costs nothing.
    NotApplicable,
    /// The user deselected it.
    NotSelected,
    /// This command does not look there; the detail says which one does.
    NotCollected,
    /// The file, tool or object is not there.
    NotFound,
    /// No permission.
    Denied,
    /// The container has no shell.
    NoShell,
    /// No answer within the deadline.
    Timeout,
    /// The deadline of the whole run came first.
    RunDeadline,
    /// The person who waited stopped the run first.
    Interrupted,
    /// The connection broke before the answer was complete.
    ConnectionLost,
    /// There was an answer, and it could not be understood.
    Unparsable,
    /// A placeholder, reference or computed value stands where the value should be.
    Unresolved,
}

impl SkipReason {
    /// This tool stopped looking: that says nothing about what it looked at.
    pub fn is_ours(self) -> bool {
        matches!(self, Self::RunDeadline | Self::Interrupted)
    }

    /// In plain words, for a sentence.
    pub fn words(self) -> &'static str {
        match self {
            Self::NotApplicable => "does not apply",
            Self::NotSelected => "deselected",
            Self::NotCollected => "not read",
            Self::NotFound => "not there",
            Self::Denied => "no permission",
            Self::NoShell => "no shell",
            Self::Timeout => "no answer in time",
            Self::RunDeadline => "the time of the whole run was over",
            Self::Interrupted => "the run was interrupted",
            Self::ConnectionLost => "connection lost",
            Self::Unparsable => "not understood",
            Self::Unresolved => "value or template not in the input",
        }
    }

    /// The word that JSON and text use.
    pub fn word(self) -> &'static str {
        match self {
            Self::NotApplicable => "not-applicable",
            Self::NotSelected => "not-selected",
            Self::NotCollected => "not-collected",
            Self::NotFound => "not-found",
            Self::Denied => "denied",
            Self::NoShell => "no-shell",
            Self::Timeout => "timeout",
            Self::RunDeadline => "run-deadline",
            Self::Interrupted => "interrupted",
            Self::ConnectionLost => "connection-lost",
            Self::Unparsable => "unparsable",
            Self::Unresolved => "unresolved",
        }
    }
}
