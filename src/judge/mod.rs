//! What the value of a transport variable does in a given context, and the status it earns.
//!
//! Pure: a value and a [`context::Context`] in, a [`Judgement`] out. `explain`, the manifest checks and the checks on a
//! live environment all ask here, so a value never has two verdicts. One file per subject; [`judge`] finds the subject.

pub mod context;
mod dispatch;
mod engines;
pub mod explain;
mod libfabric;
mod nccl;
mod nccl_gids;
mod nccl_gpudirect;
mod nccl_integers;
mod nccl_levels;
mod nccl_lists;
mod nccl_network;
mod nccl_nvlink;
mod net_devices;
mod nixl;
mod other;
mod remedy;
pub mod rules;
pub mod selection;
mod setting;
mod transports;
mod ucx;
mod ucx_roce;
mod ucx_tls;
mod ucx_tls_cures;
mod ucx_values;

pub use dispatch::{judge, may_move_kv};
pub use engines::is_loopback;
pub use remedy::{Remedy, remedy};
pub use transports::TransportList;

use crate::report::Status;

/// The verdict on one value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// The status it earns.
    pub status: Status,
    /// What the value really does here, as one sentence fragment.
    pub reason: String,
    /// The rule or section of `docs/rules.md` that decides (`R1`, `D6`, `V1`, `5.3`).
    pub rule: &'static str,
    /// What to write instead, when the status is warn or fail.
    pub fix: Option<String>,
    /// Part in trust; false for what only collectives or logs use.
    pub carries_kv: bool,
}
