//! What no look from a pod can show, said beside what was looked at.

use serde::Serialize;

/// Something that decides whether KV travels well and that no container can see. No check is ok because of it, and none fails.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NotSeen {
    /// What `explain` knows it as: how it shows itself, and how to look.
    pub topic: &'static str,
    /// What it is.
    pub what: &'static str,
}
