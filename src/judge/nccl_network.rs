//! What carries collectives between nodes: NCCL's own RDMA transport, a plugin, sockets.

use super::context::{Link, Tri};
use super::nccl::{between_nodes, plain, soften, unset};
use super::setting::{Setting, Verdict};
use crate::report::Status;

/// NCCL's own RDMA transport is off: what is left between nodes, and what that is worth.
fn without_rdma(s: &Setting<'_>, what: &str, fix: &str) -> Verdict {
    if let Some(harmless) = between_nodes(s) {
        return harmless;
    }
    let cx = s.cx;
    if let Some(plugin) = cx.net_plugin() {
        return Verdict::ok(
            "8",
            format!("{what}; the plugin {plugin} carries the traffic between nodes"),
        );
    }
    if cx.efa == Tri::Yes {
        return Verdict::ok(
            "8",
            format!(
                "{what}; on EFA the plugin aws-ofi-nccl carries the traffic, which this does not touch"
            ),
        );
    }
    if cx.on_mnnvl() {
        return Verdict::ok(
            "R6",
            format!("{what}; NVLink carries the traffic between nodes"),
        );
    }
    let status = match cx.rdma_present() {
        Tri::Yes => soften(Status::Fail, cx),
        Tri::No | Tri::Unknown => Status::Warn,
    };
    Verdict::bad(
        status,
        "5.3",
        format!("{what}: collectives between nodes go over sockets"),
        fix,
    )
}

pub(super) fn ib_disable(s: &Setting<'_>, number: i64) -> Verdict {
    if number == 0 {
        return Verdict::ok("5.3", "0 is the default: NCCL uses RDMA where it is there");
    }
    without_rdma(
        s,
        &format!("{number} switches NCCL's own RDMA transport off"),
        "remove NCCL_IB_DISABLE, or write 0",
    )
}

pub(super) fn net(s: &Setting<'_>) -> Verdict {
    let Some(value) = s.value.filter(|v| !v.is_empty()) else {
        return unset(s);
    };
    let is = |name: &str| value.eq_ignore_ascii_case(name);
    if is("Socket") {
        // Forcing sockets takes the plugin out too, so only NVLink between nodes makes it harmless.
        return forced_sockets(s);
    }
    if is("IB") {
        return forced_ib(s, value);
    }
    match s.cx.netplugin.as_deref() {
        Some(plugin) if plugin.eq_ignore_ascii_case("none") => Verdict::fail(
            "5.3",
            format!(
                "{value:?} names a plugin that is not there: NCCL stops with \"Failed to initialize any NET plugin\""
            ),
            "remove NCCL_NET, or install the plugin",
        ),
        _ => Verdict::ok(
            "5.3",
            format!(
                "{value:?} is right where the image holds that plugin; NCCL stops where it does not"
            ),
        ),
    }
}

fn forced_sockets(s: &Setting<'_>) -> Verdict {
    const FIX: &str = "remove NCCL_NET";
    if let Some(harmless) = between_nodes(s) {
        return harmless;
    }
    if s.cx.on_mnnvl() {
        return Verdict::ok(
            "R6",
            "sockets are forced; NVLink carries the traffic between nodes",
        );
    }
    let status = match s.cx.rdma_present() {
        Tri::Yes => soften(Status::Fail, s.cx),
        Tri::No | Tri::Unknown => Status::Warn,
    };
    Verdict::bad(
        status,
        "5.3",
        "sockets are forced: collectives between nodes go over TCP",
        FIX,
    )
}

fn forced_ib(s: &Setting<'_>, value: &str) -> Verdict {
    let usable =
        s.cx.active_ports()
            .map(|mut ports| ports.any(|n| n.link != Link::Unknown));
    let none = match usable {
        Some(usable) => !usable,
        None => s.cx.efa == Tri::Yes,
    };
    if none {
        return Verdict::bad(
            if s.cx.nics.is_some() {
                Status::Fail
            } else {
                Status::Warn
            },
            "5.3",
            format!(
                "{value:?} insists on NCCL's own RDMA transport, which finds no port here: NCCL stops"
            ),
            "remove NCCL_NET",
        );
    }
    Verdict::ok(
        "5.3",
        format!("{value:?} insists on NCCL's own RDMA transport"),
    )
}

pub(super) fn net_plugin(s: &Setting<'_>) -> Verdict {
    match s.value {
        Some(value) if value.eq_ignore_ascii_case("none") && s.cx.efa == Tri::Yes => {
            between_nodes(s).unwrap_or_else(|| {
                Verdict::bad(
                    soften(Status::Fail, s.cx),
                    "5.3",
                    "\"none\" leaves the built-in transports, which cannot use EFA: collectives go over sockets",
                    "remove NCCL_NET_PLUGIN, or write NCCL_NET_PLUGIN=ofi",
                )
            })
        }
        _ => plain(s),
    }
}

/// Above this, a lost path takes NCCL minutes to notice.
const LONG_IB_TIMEOUT: i64 = 22;

pub(super) fn ib_timeout(s: &Setting<'_>, number: i64) -> Verdict {
    if (1..=LONG_IB_TIMEOUT).contains(&number) {
        return Verdict::ok(
            "5.3",
            format!("{number}: a lost packet is sent again after 4.096 us x 2^{number}"),
        );
    }
    between_nodes(s).unwrap_or_else(|| {
        Verdict::warn(
            "5.3",
            format!("{number}: a lost path is noticed only after minutes, with 0 never"),
            "remove NCCL_IB_TIMEOUT",
        )
    })
}

pub(super) fn cross_nic(_: &Setting<'_>, number: i64) -> Verdict {
    if (0..=2).contains(&number) {
        return Verdict::ok("5.3", format!("{number} is one of 0, 1 and 2"));
    }
    Verdict::warn(
        "5.3",
        format!("{number} is none of 0, 1 and 2"),
        "write 0, 1 or 2",
    )
}
