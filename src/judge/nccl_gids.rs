//! NCCL_IB_GID_INDEX: addresses on RoCE.

use super::context::{Link, Tri, Version};
use super::nccl::{between_nodes, soften};
use super::setting::{Setting, Verdict};
use crate::report::Status;

/// NCCL up to 2.20 takes GID 0 when nothing is set.
pub(super) fn gid_index_unset(s: &Setting<'_>) -> Verdict {
    let roce =
        s.cx.active_ports()
            .is_some_and(|mut ports| ports.any(|n| n.link == Link::Ethernet));
    if roce && s.cx.nccl.is_some_and(|v| v < Version::new(2, 21)) && s.cx.ranks_internode != Tri::No
    {
        return Verdict::warn(
            "5.3",
            "unset: NCCL up to 2.20 takes GID 0, usually a RoCE v1 or link-local entry",
            "write the index of a RoCE v2 entry, usually NCCL_IB_GID_INDEX=3",
        );
    }
    Verdict::ok("5.3", "unset: NCCL finds the RoCE v2 entry itself")
}

pub(super) fn gid_index(s: &Setting<'_>, number: i64) -> Verdict {
    const FIX: &str = "remove NCCL_IB_GID_INDEX";
    let cx = s.cx;
    if number < 0 {
        return gid_index_unset(s);
    }
    if let Some(harmless) = between_nodes(s) {
        return harmless;
    }
    if cx.efa == Tri::Yes || cx.net_plugin().is_some() {
        return Verdict::warn(
            "8",
            format!(
                "{number} has no effect: EFA and network plugins never use NCCL's own RDMA transport"
            ),
            FIX,
        );
    }
    let roce = cx
        .active_ports()
        .map(|mut ports| ports.any(|n| n.link == Link::Ethernet));
    match (roce, cx.gids.as_ref()) {
        (Some(false), _) => Verdict::ok("5.3", format!("{number} is ignored on InfiniBand")),
        (None, _) => Verdict::ok(
            "5.3",
            format!(
                "{number} acts on RoCE only; whether it is a RoCE v2 entry everywhere is for the node to say"
            ),
        ),
        (Some(true), None) => Verdict::warn(
            "5.3",
            format!(
                "{number} is forced on RoCE ports and the GID table is not known: right only where that entry is a routable RoCE v2 address"
            ),
            FIX,
        ),
        (Some(true), Some(gids)) => match gids.iter().find(|g| i64::from(g.index) == number) {
            Some(gid) if gid.roce_version == Some(2) => {
                Verdict::ok("5.3", format!("GID {number} is a RoCE v2 entry"))
            }
            Some(_) => Verdict::bad(
                soften(Status::Fail, cx),
                "5.3",
                format!(
                    "GID {number} is no RoCE v2 entry, so ranks on other nodes are not reached through routers"
                ),
                FIX,
            ),
            None => Verdict::bad(
                soften(Status::Fail, cx),
                "5.3",
                format!("no GID is filled at index {number}, so NCCL cannot connect"),
                FIX,
            ),
        },
    }
}
