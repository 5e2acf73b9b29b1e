//! NCCL_IB_GID_INDEX: addresses on RoCE.

use super::context::{Context, Link, Tri, Version};
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

/// What the index does where no RoCE port is ACTIVE.
fn without_roce(cx: &Context) -> &'static str {
    let all = cx.nics.as_deref().unwrap_or_default();
    if all.iter().any(|n| n.active && n.link == Link::InfiniBand) {
        "is ignored on InfiniBand"
    } else if all.iter().any(|n| n.link == Link::Ethernet) {
        "acts on RoCE, and no RoCE port of the pod is ACTIVE"
    } else if all.is_empty() {
        "acts on RoCE, and the pod can open no RDMA port"
    } else {
        "acts on RoCE only, and the pod has no such port"
    }
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
        (Some(false), _) => Verdict::ok("5.3", format!("{number} {}", without_roce(cx))),
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

#[cfg(test)]
mod tests {
    use crate::judge::context::Context;
    use crate::judge::judge;

    #[test]
    fn infiniband_is_named_only_where_it_is() {
        for (nics, words) in [
            ("mlx5_0:1/IB/ACTIVE", "is ignored on InfiniBand"),
            (
                "mlx5_0:1/IB/ACTIVE,mlx5_1:1/Ethernet/DOWN",
                "is ignored on InfiniBand",
            ),
            (
                "mlx5_0:1/Ethernet/DOWN",
                "no RoCE port of the pod is ACTIVE",
            ),
            ("mlx5_0:1/IB/DOWN", "has no such port"),
            ("none", "can open no RDMA port"),
        ] {
            let cx = Context::for_explain(&format!("nics={nics}")).expect("a place");
            let got = judge("NCCL_IB_GID_INDEX", Some("3"), &cx);
            assert!(got.reason.contains(words), "{nics}: {got:?}");
        }
    }
}
