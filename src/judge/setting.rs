//! One variable with its value in its place, and the verdict that a subject gives on it.

use super::context::{Accelerator, Context, Link, Nic, Tri, Vendor, Version};
use crate::catalogue::Variable;
use crate::report::Status;

/// What a subject judges.
#[derive(Clone, Copy)]
pub(super) struct Setting<'a> {
    pub(super) variable: &'static Variable,
    /// None when the variable is unset.
    pub(super) value: Option<&'a str>,
    pub(super) cx: &'a Context,
}

impl Setting<'_> {
    /// The first sentence of the variable's meaning, for values about which there is nothing else to say.
    pub(super) fn what_it_does(&self) -> &'static str {
        let meaning = self.variable.meaning;
        meaning
            .split_once(". ")
            .map_or(meaning, |(first, _)| first)
            .trim_end_matches('.')
    }
}

/// The function of a subject.
pub(super) type Rule = fn(&Setting<'_>) -> Verdict;

/// A judgement before it knows whether the variable carries KV.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) status: Status,
    pub(super) rule: &'static str,
    pub(super) reason: String,
    pub(super) fix: Option<String>,
}

impl Verdict {
    pub(super) fn ok(rule: &'static str, reason: impl Into<String>) -> Self {
        Self {
            status: Status::Ok,
            rule,
            reason: reason.into(),
            fix: None,
        }
    }

    pub(super) fn warn(
        rule: &'static str,
        reason: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self::bad(Status::Warn, rule, reason, fix)
    }

    pub(super) fn fail(
        rule: &'static str,
        reason: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self::bad(Status::Fail, rule, reason, fix)
    }

    /// A verdict whose gravity was computed; the fix is kept only where there is something to fix.
    pub(super) fn bad(
        status: Status,
        rule: &'static str,
        reason: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            status,
            rule,
            reason: reason.into(),
            fix: (status >= Status::Warn).then(|| fix.into()),
        }
    }
}

impl Context {
    /// KV crosses nodes, or may: an unknown placement is no promise.
    pub(super) fn kv_crosses_nodes(&self) -> bool {
        self.internode != Tri::No
    }

    /// Prefill and decode are on one node, or may be.
    pub(super) fn kv_may_stay_in_node(&self) -> bool {
        self.may_share_node == Tri::Yes || self.internode == Tri::No
    }

    /// Multi-node NVLink can carry what crosses nodes.
    pub(super) fn on_mnnvl(&self) -> bool {
        self.mnnvl == Tri::Yes
    }

    /// RDMA by what is really there where a probe looked, else by what was requested.
    pub(super) fn rdma_present(&self) -> Tri {
        match &self.nics {
            Some(nics) => nics.iter().any(|n| n.active).into(),
            None if self.efa == Tri::Yes => Tri::Yes,
            None => self.rdma,
        }
    }

    /// A plugin carries the collectives, so NCCL's own transports do not matter.
    pub(super) fn net_plugin(&self) -> Option<&str> {
        self.netplugin
            .as_deref()
            .filter(|p| !p.eq_ignore_ascii_case("none"))
    }

    /// ACTIVE ports, where they are known.
    pub(super) fn active_ports(&self) -> Option<impl Iterator<Item = &Nic>> {
        self.nics.as_ref().map(|n| n.iter().filter(|n| n.active))
    }

    /// Vendors of the ports that UCX can use; None when the ports are not known.
    pub(super) fn vendors(&self) -> Option<Vec<Vendor>> {
        match self.active_ports() {
            Some(ports) => Some(ports.map(vendor_of).collect()),
            None if self.efa == Tri::Yes => Some(vec![Vendor::Efa]),
            // Who claims a ComputeDomain and asks for no device relies on NVLink alone.
            None if self.rdma == Tri::No && self.on_mnnvl() => Some(vec![]),
            None => None,
        }
    }

    /// GPUDirect RDMA: there when either way is, missing when both are.
    pub(super) fn gpudirect(&self) -> Tri {
        match (self.peermem, self.dmabuf) {
            (Tri::Yes, _) | (_, Tri::Yes) => Tri::Yes,
            (Tri::No, Tri::No) => Tri::No,
            _ => Tri::Unknown,
        }
    }

    /// Nobody looked at the node: a value can only be judged as it is written.
    pub(super) fn node_unseen(&self) -> bool {
        self.nics.is_none()
    }

    /// Number of GPUs of the pod.
    pub(super) fn gpu_count(&self) -> Option<u32> {
        self.gpus.as_ref().map(|g| g.count)
    }

    /// Every pair of GPUs has NVLink.
    pub(super) fn nvswitch(&self) -> Tri {
        self.gpus.as_ref().map_or(Tri::Unknown, |g| g.nvswitch)
    }

    /// The UCX is at least this one; an unknown UCX is judged as the oldest that current NIXL bundles.
    pub(super) fn ucx_at_least(&self, major: u32, minor: u32) -> bool {
        self.ucx.unwrap_or(STRICTEST_UCX) >= Version::new(major, minor)
    }

    /// The transport that recognises GPU memory, by accelerator.
    pub(super) fn detectors(&self) -> &'static [&'static str] {
        match self.accelerator {
            Accelerator::Nvidia => &["cuda_copy"],
            Accelerator::Intel => &["ze_copy"],
            Accelerator::Amd => &["rocm_copy"],
            Accelerator::Unknown => &["cuda_copy", "ze_copy", "rocm_copy"],
        }
    }
}

/// The UCX that an unknown one is judged as: the last before device names, negation and ranges were extended.
pub(super) const STRICTEST_UCX: Version = Version::new(1, 20);

/// The newest UCX whose behaviour was read.
pub(super) const NEWEST_UCX: Version = Version::new(1, 23);

/// A device without a telling name is EFA when its link layer is unspecified.
fn vendor_of(nic: &Nic) -> Vendor {
    match (nic.vendor(), nic.link) {
        (Vendor::Unknown, Link::Unknown) => Vendor::Efa,
        (vendor, _) => vendor,
    }
}

/// Judges with the strictest UCX when the version is unknown, and softens a fail that a newer one would not give.
pub(super) fn by_version(
    cx: &Context,
    newer: &str,
    judge: impl Fn(&Context) -> Verdict,
) -> Verdict {
    if cx.ucx.is_some() {
        return judge(cx);
    }
    let at = |version| {
        judge(&Context {
            ucx: Some(version),
            ..cx.clone()
        })
    };
    let (strict, newest) = (at(STRICTEST_UCX), at(NEWEST_UCX));
    match (strict.status, newest.status) {
        (Status::Fail, Status::Ok | Status::Warn) => Verdict::warn(
            strict.rule,
            format!(
                "{} (UCX up to 1.20; the version here is not known, and {newer} accepts it)",
                strict.reason
            ),
            strict.fix.unwrap_or_default(),
        ),
        // What only a newer version complains about is said too: the unknown version may be that one.
        (Status::Ok, Status::Warn | Status::Fail) => Verdict {
            status: Status::Warn,
            ..newest
        },
        _ => strict,
    }
}
