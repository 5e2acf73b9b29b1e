//! NCCL variables: collectives between the ranks of one worker.

use super::context::{Context, Link, Tri, Version};
use super::setting::{Rule, Setting, Verdict};
use super::{nccl_levels, nccl_lists};
use crate::catalogue::ValueKind;
use crate::report::Status;

/// The rule of a NCCL variable; those without one of their own are checked for a readable value.
pub(super) fn rule(name: &str) -> Rule {
    match name {
        "NCCL_IB_HCA" => nccl_lists::ib_hca,
        "NCCL_SOCKET_IFNAME" => nccl_lists::socket_ifname,
        "NCCL_IB_DISABLE" => |s| integer(s, ib_disable),
        "NCCL_IB_GID_INDEX" => |s| integer(s, gid_index),
        "NCCL_P2P_DISABLE" => |s| integer(s, p2p_disable),
        "NCCL_SHM_DISABLE" => |s| integer(s, shm_disable),
        "NCCL_NET_GDR_READ" => |s| integer(s, gdr_read),
        "NCCL_NET_GDR_C2C" => |s| integer(s, gdr_c2c),
        "NCCL_DMABUF_ENABLE" => |s| integer(s, dmabuf),
        "NCCL_MNNVL_ENABLE" => |s| integer(s, mnnvl),
        "NCCL_CUMEM_ENABLE" => |s| integer(s, cumem),
        "NCCL_NVLS_ENABLE" => |s| integer(s, nvls),
        "NCCL_IB_TIMEOUT" => |s| integer(s, ib_timeout),
        "NCCL_CROSS_NIC" => |s| integer(s, cross_nic),
        "NCCL_NET_GDR_LEVEL" => nccl_levels::gdr_level,
        "NCCL_P2P_LEVEL" => nccl_levels::p2p_level,
        "NCCL_NET" => net,
        "NCCL_NET_PLUGIN" => net_plugin,
        _ => plain,
    }
}

/// Fails count where ranks are known to be on several nodes; where that is not known, or NVLink joins the nodes, they
/// are warnings.
pub(super) fn soften(status: Status, cx: &Context) -> Status {
    if status == Status::Fail && (cx.ranks_internode != Tri::Yes || cx.on_mnnvl()) {
        return Status::Warn;
    }
    status
}

/// What acts between nodes only does no harm to a worker inside one node.
pub(super) fn between_nodes(s: &Setting<'_>) -> Option<Verdict> {
    (s.cx.ranks_internode == Tri::No).then(|| {
        Verdict::ok(
            "5.3",
            format!(
                "{:?} acts between nodes only, and the ranks of this worker are on one node",
                s.value.unwrap_or_default()
            ),
        )
    })
}

/// `strtoll` of the C library: leading blanks, sign, base by prefix when `base` is 0, junk behind ignored, 0 without
/// digits, saturating.
pub(super) fn strtoll(text: &str, base: u32) -> i64 {
    let text = text.trim_start_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
    let (negative, text) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (radix, digits) = match (base, hex) {
        (0, Some(rest)) if rest.starts_with(|c: char| c.is_ascii_hexdigit()) => (16, rest),
        (0, _) if text.starts_with('0') => (8, text),
        (0, _) => (10, text),
        (base, _) => (base, text),
    };
    let value = digits
        .chars()
        .map_while(|c| c.to_digit(radix))
        .fold(0i64, |n, d| {
            n.saturating_mul(i64::from(radix))
                .saturating_add(i64::from(d))
        });
    if negative { -value } else { value }
}

/// N0 first, then the rule of the number that NCCL uses. An empty value is the default.
fn integer(s: &Setting<'_>, rule: fn(&Setting<'_>, i64) -> Verdict) -> Verdict {
    let value = match s.value {
        Some(value) if !value.is_empty() => value,
        _ if s.variable.name == "NCCL_IB_GID_INDEX" => return gid_index_unset(s),
        _ => return unset(s),
    };
    let number = strtoll(value, 0);
    if value.trim().parse::<i64>() == Ok(number) {
        return rule(s, number);
    }
    if is_hex(value) {
        return rule(s, number);
    }
    let verdict = rule(s, number);
    let consequence = if verdict.status == Status::Ok {
        String::new()
    } else {
        format!("; {}", verdict.reason)
    };
    Verdict::bad(
        verdict.status.max(Status::Warn),
        "N0",
        format!(
            "{value:?} is read as {number}: NCCL takes the digits in front, none count as 0, and a leading 0 is octal{consequence}"
        ),
        format!("write a plain number for {}", s.variable.name),
    )
}

fn is_hex(value: &str) -> bool {
    value
        .trim()
        .strip_prefix("0x")
        .is_some_and(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_hexdigit()))
}

pub(super) fn unset(s: &Setting<'_>) -> Verdict {
    Verdict::ok(
        "5.3",
        format!("unset: the default is in force ({})", s.variable.default),
    )
}

fn plain(s: &Setting<'_>) -> Verdict {
    let Some(value) = s.value.filter(|v| !v.is_empty()) else {
        return unset(s);
    };
    match s.variable.kind {
        ValueKind::Integer => integer(s, |s, n| {
            Verdict::ok(
                "5.3",
                format!("{n} does no harm to the transport: {}", s.what_it_does()),
            )
        }),
        ValueKind::Choice(words) if !words.iter().any(|w| w.eq_ignore_ascii_case(value)) => {
            Verdict::warn(
                "5.1",
                format!(
                    "{value:?} is none of {}, so NCCL behaves as if it were unset",
                    words.join(", ")
                ),
                format!("write one of {}", words.join(", ")),
            )
        }
        ValueKind::Word(words) if !words.contains(&value) => Verdict::warn(
            "5.3",
            format!(
                "{value:?} is none of {} exactly as written, so the default stays",
                words.join(", ")
            ),
            format!("write one of {}", words.join(", ")),
        ),
        _ => Verdict::ok(
            "5.3",
            format!(
                "{value:?} does no harm to the transport: {}",
                s.what_it_does()
            ),
        ),
    }
}

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

fn ib_disable(s: &Setting<'_>, number: i64) -> Verdict {
    if number == 0 {
        return Verdict::ok("5.3", "0 is the default: NCCL uses RDMA where it is there");
    }
    without_rdma(
        s,
        &format!("{number} switches NCCL's own RDMA transport off"),
        "remove NCCL_IB_DISABLE, or write 0",
    )
}

fn net(s: &Setting<'_>) -> Verdict {
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

fn net_plugin(s: &Setting<'_>) -> Verdict {
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

fn p2p_disable(s: &Setting<'_>, number: i64) -> Verdict {
    if number != 1 {
        return Verdict::ok("5.3", format!("{number} disables nothing; only 1 does"));
    }
    if s.cx.gpu_count() == Some(1) && !s.cx.on_mnnvl() {
        return Verdict::ok("5.3", "1 has nothing to disable: the pod has one GPU");
    }
    Verdict::bad(
        if s.cx.nvswitch() == Tri::Yes || s.cx.on_mnnvl() {
            Status::Fail
        } else {
            Status::Warn
        },
        "5.3",
        "1 forbids direct traffic between GPUs: NVLink, and NVLink between nodes, stay unused",
        "remove NCCL_P2P_DISABLE",
    )
}

fn shm_disable(_: &Setting<'_>, number: i64) -> Verdict {
    if number != 1 {
        return Verdict::ok("5.3", format!("{number} disables nothing; only 1 does"));
    }
    Verdict::warn(
        "5.3",
        "1 forbids host shared memory: ranks of one node without direct traffic go through the network",
        "remove NCCL_SHM_DISABLE, and give the pod enough /dev/shm",
    )
}

fn gdr_read(s: &Setting<'_>, number: i64) -> Verdict {
    if number != 0 {
        return Verdict::ok("5.3", format!("{number} lets the NIC read GPU memory"));
    }
    between_nodes(s).unwrap_or_else(|| {
        Verdict::warn(
            "5.3",
            "0: what is sent to other nodes is first copied to host memory",
            "remove NCCL_NET_GDR_READ",
        )
    })
}

fn gdr_c2c(s: &Setting<'_>, number: i64) -> Verdict {
    let grace =
        s.cx.gpus
            .as_ref()
            .is_some_and(|g| g.model.starts_with("GB") || g.model.starts_with("GH"));
    if number == 0 && grace {
        return Verdict::warn(
            "5.3",
            "0 gives up GPUDirect RDMA through the chip-to-chip link of Grace",
            "remove NCCL_NET_GDR_C2C",
        );
    }
    Verdict::ok("5.3", format!("{number} acts on Grace systems only"))
}

fn dmabuf(s: &Setting<'_>, number: i64) -> Verdict {
    if number != 0 {
        return Verdict::ok(
            "5.3",
            format!("{number} is the default: GPU memory reaches the NIC as a dmabuf"),
        );
    }
    if let Some(harmless) = between_nodes(s) {
        return harmless;
    }
    match s.cx.peermem {
        Tri::Yes => Verdict::ok("5.3", "0 leaves peermem for GPUDirect RDMA, which is there"),
        peermem => Verdict::bad(
            if peermem == Tri::No {
                soften(Status::Fail, s.cx)
            } else {
                Status::Warn
            },
            "4.2",
            "0 switches dmabuf off, so GPUDirect RDMA needs nvidia_peermem on every node",
            "remove NCCL_DMABUF_ENABLE, or load nvidia_peermem",
        ),
    }
}

/// NVLink between nodes is off although the pods share a domain.
fn without_mnnvl(s: &Setting<'_>, what: &str) -> Verdict {
    if !s.cx.on_mnnvl() {
        return Verdict::ok("5.3", format!("{what}, which nothing here uses"));
    }
    between_nodes(s).unwrap_or_else(|| {
        Verdict::bad(
            if s.cx.rdma_present() == Tri::No && s.cx.ranks_internode == Tri::Yes {
                Status::Fail
            } else {
                Status::Warn
            },
            "5.3",
            format!("{what} although the nodes are joined by it: collectives fall to the NIC, or to sockets where there is none"),
            format!("remove {}", s.variable.name),
        )
    })
}

fn mnnvl(s: &Setting<'_>, number: i64) -> Verdict {
    match (number, s.cx.mnnvl) {
        (0, _) => without_mnnvl(s, "0 switches NVLink between nodes off"),
        (1, Tri::No) => Verdict::warn(
            "5.3",
            "1 insists on NVLink between nodes, which is not there",
            "claim a ComputeDomain, or remove NCCL_MNNVL_ENABLE (the default 2 uses it where it works)",
        ),
        _ => Verdict::ok(
            "5.3",
            format!("{number} uses NVLink between nodes where the fabric is ready"),
        ),
    }
}

fn cumem(s: &Setting<'_>, number: i64) -> Verdict {
    if number == 0 {
        return without_mnnvl(
            s,
            "0 takes away the allocator that NVLink between nodes needs",
        );
    }
    Verdict::ok(
        "5.3",
        format!("{number} keeps the allocator that NVLink between nodes needs"),
    )
}

fn nvls(s: &Setting<'_>, number: i64) -> Verdict {
    let switched = s.cx.nvswitch() == Tri::Yes || s.cx.on_mnnvl();
    match number {
        0 if switched => Verdict::warn(
            "5.3",
            "0 gives up reductions in the NVSwitch: all-reduce is slower",
            "remove NCCL_NVLS_ENABLE",
        ),
        1 if s.cx.on_mnnvl() => Verdict::ok(
            "5.3",
            "1 insists on reductions in the NVSwitch, as guides for multi-node NVLink ask",
        ),
        1 => Verdict::warn(
            "5.3",
            "1 insists on reductions in the NVSwitch: where multicast cannot be set up NCCL stops instead of going on without",
            "remove NCCL_NVLS_ENABLE; the default 2 uses them where they work",
        ),
        _ => Verdict::ok("5.3", format!("{number} does no harm here")),
    }
}

/// Above this, a lost path takes NCCL minutes to notice.
const LONG_IB_TIMEOUT: i64 = 22;

fn ib_timeout(s: &Setting<'_>, number: i64) -> Verdict {
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

fn cross_nic(_: &Setting<'_>, number: i64) -> Verdict {
    if (0..=2).contains(&number) {
        return Verdict::ok("5.3", format!("{number} is one of 0, 1 and 2"));
    }
    Verdict::warn(
        "5.3",
        format!("{number} is none of 0, 1 and 2"),
        "write 0, 1 or 2",
    )
}

/// NCCL up to 2.20 takes GID 0 when nothing is set.
fn gid_index_unset(s: &Setting<'_>) -> Verdict {
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

fn gid_index(s: &Setting<'_>, number: i64) -> Verdict {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::judge;
    use crate::report::Status::{Fail, Ok, Warn};

    #[test]
    fn numbers_are_read_as_the_c_library_does() {
        for (text, expected) in [
            ("1", 1),
            (" -1", -1),
            ("+7", 7),
            ("true", 0),
            ("", 0),
            ("1abc", 1),
            ("010", 8),
            ("0x10", 16),
            ("0x", 0),
            ("09", 0),
            ("99999999999999999999", i64::MAX),
            ("-99999999999999999999", -i64::MAX),
        ] {
            assert_eq!(strtoll(text, 0), expected, "{text:?}");
        }
        assert_eq!(strtoll("010", 10), 10);
    }

    #[test]
    fn each_value_earns_its_status_on_a_known_machine() {
        let status = |variable: &str, value: &str, place: &str| {
            judge(
                variable,
                Some(value),
                &Context::for_explain(place).expect("a place"),
            )
            .status
        };
        let roce = "nics=mlx5_0:1/Ethernet/ACTIVE;gids=1:v1,3:v2";
        for (variable, value, place, expected) in [
            ("NCCL_IB_DISABLE", "1", "internode=no", Ok),
            ("NCCL_IB_DISABLE", "1", "mnnvl=yes", Ok),
            ("NCCL_IB_DISABLE", "1", "nics=none", Warn),
            ("NCCL_IB_DISABLE", "2", "", Fail),
            ("NCCL_IB_DISABLE", "", "", Ok),
            ("NCCL_IB_DISABLE", "1 # off", "", Fail),
            ("NCCL_MNNVL_ENABLE", "yes", "mnnvl=yes", Warn),
            ("NCCL_MNNVL_ENABLE", "yes", "", Warn),
            ("NCCL_MNNVL_ENABLE", "0", "mnnvl=yes;nics=none", Fail),
            ("NCCL_MNNVL_ENABLE", "0", "", Ok),
            ("NCCL_MNNVL_ENABLE", "1", "", Warn),
            ("NCCL_MNNVL_ENABLE", "1", "mnnvl=yes", Ok),
            ("NCCL_CUMEM_ENABLE", "0", "", Ok),
            ("NCCL_CUMEM_ENABLE", "0", "mnnvl=yes", Warn),
            ("NCCL_NET", "socket", "internode=no", Ok),
            ("NCCL_NET", "SOCKET", "nics=none", Warn),
            ("NCCL_NET", "ib", "", Ok),
            ("NCCL_NET", "IB", "efa=yes", Fail),
            ("NCCL_NET", "Libfabric", "", Fail),
            (
                "NCCL_NET",
                "Libfabric",
                "efa=yes;netplugin=aws-ofi-nccl",
                Ok,
            ),
            ("NCCL_NET_PLUGIN", "none", "efa=yes", Fail),
            ("NCCL_NET_PLUGIN", "none", "", Ok),
            ("NCCL_NET_GDR_LEVEL", "sys", "", Warn),
            ("NCCL_NET_GDR_LEVEL", "SYS", "", Ok),
            ("NCCL_NET_GDR_LEVEL", "0", "", Fail),
            ("NCCL_NET_GDR_LEVEL", "3", "", Ok),
            ("NCCL_NET_GDR_LEVEL", "6", "", Warn),
            ("NCCL_NET_GDR_LEVEL", "C2C", "nccl=2.26", Warn),
            ("NCCL_P2P_LEVEL", "NVL", "gpu=4xL40S", Warn),
            ("NCCL_P2P_LEVEL", "LOC", "", Fail),
            ("NCCL_P2P_DISABLE", "1", "", Fail),
            ("NCCL_P2P_DISABLE", "2", "", Ok),
            ("NCCL_SHM_DISABLE", "1", "", Warn),
            ("NCCL_NET_GDR_READ", "0", "", Warn),
            ("NCCL_NET_GDR_C2C", "0", "gpu=4xGB200", Warn),
            ("NCCL_DMABUF_ENABLE", "on", "peermem=no", Fail),
            ("NCCL_DMABUF_ENABLE", "0", "", Ok),
            ("NCCL_NVLS_ENABLE", "1", "", Warn),
            ("NCCL_NVLS_ENABLE", "0", "", Warn),
            ("NCCL_NVLS_ENABLE", "2", "", Ok),
            ("NCCL_IB_TIMEOUT", "23", "", Warn),
            ("NCCL_IB_TIMEOUT", "22", "", Ok),
            ("NCCL_CROSS_NIC", "3", "", Warn),
            ("NCCL_IB_GID_INDEX", "3", roce, Ok),
            ("NCCL_IB_GID_INDEX", "1", roce, Fail),
            ("NCCL_IB_GID_INDEX", "7", roce, Fail),
            ("NCCL_IB_GID_INDEX", "3", "", Ok),
            (
                "NCCL_IB_GID_INDEX",
                "",
                "nccl=2.20;nics=mlx5_0:1/Ethernet/ACTIVE",
                Warn,
            ),
            ("NCCL_IB_ADDR_FAMILY", "AF_INET6", "", Ok),
            ("NCCL_IB_ADDR_FAMILY", "inet6", "", Warn),
            ("NCCL_DEBUG", "info", "", Ok),
            ("NCCL_DEBUG", "verbose", "", Warn),
            ("NCCL_BUFFSIZE", "4M", "", Warn),
            ("NCCL_ALGO", "Ring", "", Ok),
        ] {
            assert_eq!(
                status(variable, value, place),
                expected,
                "{variable}={value} at {place:?}"
            );
        }
    }

    #[test]
    fn unknown_placement_of_ranks_only_warns() {
        let requested = Context {
            rdma: Tri::Yes,
            ..Context::default()
        };
        assert_eq!(judge("NCCL_IB_DISABLE", Some("1"), &requested).status, Warn);
        let across = Context {
            ranks_internode: Tri::Yes,
            ..requested
        };
        assert_eq!(judge("NCCL_IB_DISABLE", Some("1"), &across).status, Fail);
        let without = Context {
            rdma: Tri::No,
            ..across
        };
        assert_eq!(judge("NCCL_IB_DISABLE", Some("1"), &without).status, Warn);
    }
}
