//! Addressing on RoCE and InfiniBand: GID index, subnets, address type.

use super::context::Link;
use super::setting::{Setting, Verdict};
use super::ucx::is;
use super::ucx_values::switch;

pub(super) fn gid_index(s: &Setting<'_>, value: &str) -> Verdict {
    const FIX: &str = "remove UCX_IB_GID_INDEX; UCX finds the RoCE v2 entry of each port alone";
    let Ok(index) = value.parse::<u32>() else {
        return Verdict::ok(
            "3.2",
            format!("{value:?}: UCX picks the entry of each port"),
        );
    };
    let Some(ports) = s.cx.active_ports() else {
        return Verdict::ok(
            "3.2",
            format!(
                "GID index {index} is forced on every port; whether it is a RoCE v2 entry everywhere is for the node to say"
            ),
        );
    };
    let links: Vec<Link> = ports.map(|n| n.link).collect();
    let entry =
        s.cx.gids
            .as_ref()
            .map(|g| g.iter().find(|g| g.index == index));
    match entry {
        Some(None) => Verdict::fail(
            "3.2",
            format!(
                "no GID is filled at index {index}: UCX rejects the port (invalid gid[{index}])"
            ),
            FIX,
        ),
        Some(Some(gid)) if links.contains(&Link::Ethernet) && gid.roce_version != Some(2) => {
            Verdict::fail(
                "3.2",
                format!("GID {index} is a RoCE v1 entry, which does not cross routers"),
                FIX,
            )
        }
        Some(Some(_)) => Verdict::ok(
            "3.2",
            format!("GID {index} is filled and usable on every port"),
        ),
        None if links.contains(&Link::Ethernet) || index != 0 => Verdict::warn(
            "3.2",
            format!(
                "GID index {index} is forced on every port and the GID table is not known: right only where that entry is a routable RoCE v2 address"
            ),
            FIX,
        ),
        None => Verdict::ok("3.2", "index 0 is what InfiniBand ports use anyway"),
    }
}

pub(super) fn roce_reachability(s: &Setting<'_>, value: &str) -> Verdict {
    if !is(value, &["local_subnet"]) {
        return Verdict::ok(
            "3.2",
            format!("{value:?}: RoCE peers in other subnets count as reachable"),
        );
    }
    subnet_only(s, value, "UCX_IB_ROCE_REACHABILITY_MODE")
}

pub(super) fn roce_local_subnet(s: &Setting<'_>, value: &str) -> Verdict {
    if switch(value) != Some(true) {
        return Verdict::ok("3.2", format!("{value:?} is the default"));
    }
    subnet_only(s, value, "UCX_IB_ROCE_LOCAL_SUBNET")
}

/// Routed RoCE is not visible from one node, so this is a warning wherever RoCE may be in use.
fn subnet_only(s: &Setting<'_>, value: &str, name: &str) -> Verdict {
    let no_roce =
        s.cx.active_ports()
            .is_some_and(|mut ports| ports.all(|n| n.link != Link::Ethernet));
    if no_roce {
        return Verdict::ok(
            "3.2",
            format!("{value:?} has no effect: no port here is RoCE"),
        );
    }
    Verdict::warn(
        "3.2",
        format!(
            "{value:?} refuses RoCE peers in another subnet, so KV between routed nodes finds no path"
        ),
        format!("remove {name}"),
    )
}

pub(super) fn addr_type(_: &Setting<'_>, value: &str) -> Verdict {
    if is(value, &["ib_global", "ib_site_local"]) {
        return Verdict::ok(
            "3.2",
            format!(
                "{value:?} forces a global route header; UCX_IB_IS_GLOBAL=y is the name that is not deprecated"
            ),
        );
    }
    Verdict::ok("3.2", format!("{value:?} is accepted and has no effect"))
}
