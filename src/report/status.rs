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
    /// All of them, by gravity.
    pub const ALL: [Self; 4] = [Self::Ok, Self::Skipped, Self::Warn, Self::Fail];

    /// What it says of a finding, for who asks.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Ok => "It was looked at, and it is harmless.",
            Self::Skipped => {
                "It could not be looked at, and the reason says why. It is inconclusive and never a pass: where the check is \
                 required, trust cannot be `trusted`. Reasons: not-collected, not-found, denied, no-shell, timeout, \
                 connection-lost, unreachable, unparsable, unresolved, \
                 not-selected; `explain REASON` says what to do about each."
            }
            Self::Warn => {
                "It works, and is degraded, ignored or fragile, or right only under facts that are not known. The exit code stays \
                 0, unless `--fail-on warn` (or `--strict`) is given."
            }
            Self::Fail => {
                "The KV path, or that of collectives, cannot use RDMA or NVLink as it stands. The exit code is 1."
            }
        }
    }

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

impl KvPath {
    /// The word that JSON uses.
    pub fn word(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::Supporting => "supporting",
            Self::Off => "off",
        }
    }

    /// What it says of a check, for who asks.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Required => {
                "The check is about the KV path itself: its fail makes a deployment untrusted, and without its answer nothing is \
                 trusted."
            }
            Self::Supporting => {
                "Its fail makes a deployment untrusted; where it is skipped another check covers the same fact."
            }
            Self::Off => {
                "It is about collectives or logs, which carry no KV: its fail prevents trusted and no more."
            }
        }
    }
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
    /// The Kubernetes API, or what lies between it and the container, did not let anybody look.
    Unreachable,
    /// There was an answer, and it could not be understood.
    Unparsable,
    /// A placeholder, reference or computed value stands where the value should be.
    Unresolved,
}

impl SkipReason {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::NotApplicable,
        Self::NotSelected,
        Self::NotCollected,
        Self::NotFound,
        Self::Denied,
        Self::NoShell,
        Self::Timeout,
        Self::RunDeadline,
        Self::Interrupted,
        Self::ConnectionLost,
        Self::Unreachable,
        Self::Unparsable,
        Self::Unresolved,
    ];

    /// Why something was skipped and what gets further, for who asks.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::NotApplicable => {
                "The question does not arise here, such as a GID index on a node without RoCE. The only reason that costs nothing."
            }
            Self::NotSelected => {
                "It was left out on request (`--ignore`, `--only`, or the file of choices). The finding says what it was before."
            }
            Self::NotCollected => {
                "This command does not look there, or the output that would tell was not pasted. The detail says which command or \
                 which `--input` does: `env` reads manifests only, `node` one place at a time, `check --nodes` nodes as well."
            }
            Self::NotFound => {
                "The file, tool or object that would tell is not there, such as an image without `ucx_info`."
            }
            Self::Denied => {
                "No permission: of the kernel inside the container, or of the cluster (docs/rbac.yaml holds the rights that are \
                 needed). Grant it, or let somebody with the right run it."
            }
            Self::NoShell => {
                "The container has no shell to ask in. Run the tool in the pod itself, or use an image with a shell."
            }
            Self::Timeout => {
                "No answer within the deadline. Give more time (`--timeout`, `--deadline`); where it happens again, look at the \
                 pod and the node: a driver that hangs answers nothing."
            }
            Self::RunDeadline => {
                "The time of the whole run was over before it was looked at, which says nothing about it. Give more time \
                 (`--deadline`), or look at more containers at once (`--parallel`)."
            }
            Self::Interrupted => {
                "Somebody stopped the run before it was looked at, which says nothing about it. Run again."
            }
            Self::ConnectionLost => {
                "The connection broke before the answer was complete, often because the pod was replaced. Run again."
            }
            Self::Unreachable => {
                "The Kubernetes API, a proxy before it or the kubelet behind it turned the request away or failed, which says \
                 nothing about the container. The detail holds its words; mend that and run again."
            }
            Self::Unparsable => {
                "There was an answer, and it could not be understood: cut, of an unknown version, or contradicted by another one."
            }
            Self::Unresolved => {
                "A placeholder, a reference or a computed value stands where the value should be, or nothing does and the engine \
                 chooses it. Render the manifest first, add the file that holds the value, state it, or look at the running worker \
                 (`check`, `node`)."
            }
        }
    }

    /// What lets a look come to an end that did not, as an action; none where looking again changes nothing by itself.
    pub fn look_again(self) -> Option<&'static str> {
        Some(match self {
            Self::Timeout => "look again with more time (--timeout)",
            Self::RunDeadline => "look again with more time (--deadline)",
            Self::Interrupted | Self::ConnectionLost | Self::Unreachable => "look again",
            _ => return None,
        })
    }

    /// The value is not where it was looked for: looking was no trouble.
    pub fn is_of_value(self) -> bool {
        matches!(self, Self::NotCollected | Self::Unresolved)
    }

    /// This tool stopped looking: that says nothing about what it looked at.
    pub fn is_ours(self) -> bool {
        matches!(self, Self::RunDeadline | Self::Interrupted)
    }

    /// It says something about the pod or machine that was to be looked at. Any other reason is about the way to it, or about
    /// us, and nothing is known of it.
    pub fn is_of_target(self) -> bool {
        matches!(self, Self::NotFound | Self::NoShell | Self::Timeout)
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
            Self::Unreachable => "API error",
            Self::Unparsable => "not understood",
            Self::Unresolved => "not stated, or not in the input",
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
            Self::Unreachable => "unreachable",
            Self::Unparsable => "unparsable",
            Self::Unresolved => "unresolved",
        }
    }
}
