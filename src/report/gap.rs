//! Why a transfer whose bytes arrived right proves no lane.

use serde::{Deserialize, Serialize};

/// What kept a transfer of right bytes from proving the lane that is meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Gap {
    /// Which kind of reason.
    pub kind: GapKind,
    /// In words, without the names of the two ends.
    pub why: String,
}

/// Kinds of [`Gap`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum GapKind {
    /// Both ends ran in one container.
    OneContainer,
    /// The bytes did not leave the node.
    OneNode,
    /// Verbs in software, without RDMA hardware.
    SoftwareVerbs,
    /// Another lane than the one that is meant.
    OtherLane,
    /// Another backend of NIXL than the worker uses.
    OtherBackend,
    /// Something else than NIXL moves the KV of the workers, or it is not known what does.
    OtherMover,
    /// Host memory, where KV lies in GPU memory.
    HostMemory,
    /// Counters of one end, or a rate that cannot be or is that of TCP, contradict the lane.
    Contradicted,
}

impl GapKind {
    /// In a few words, behind `because`.
    pub fn words(self) -> &'static str {
        match self {
            Self::OneContainer => "both ends ran in one container",
            Self::OneNode => "the bytes never left the node",
            Self::SoftwareVerbs => "no RDMA hardware took part",
            Self::OtherLane => "another lane than the intended one carried the bytes",
            Self::OtherBackend => "it used another NIXL backend than the worker",
            Self::OtherMover => "NIXL is not known to move the KV cache",
            Self::HostMemory => "the bytes lay in host memory",
            Self::Contradicted => "counters or rates contradict the lane",
        }
    }
}
