//! NCCL variables: collectives between the ranks of one worker.

use super::context::{Context, Tri};
use super::nccl_integers::integer;
use super::setting::{Rule, Setting, Verdict};
use super::{nccl_gids, nccl_gpudirect, nccl_levels, nccl_lists, nccl_network, nccl_nvlink};
use crate::catalogue::ValueKind;
use crate::report::Status;

/// The rule of a NCCL variable; those without one of their own are checked for a readable value.
pub(super) fn rule(name: &str) -> Rule {
    match name {
        "NCCL_IB_HCA" => nccl_lists::ib_hca,
        "NCCL_SOCKET_IFNAME" => nccl_lists::socket_ifname,
        "NCCL_IB_DISABLE" => |s| integer(s, nccl_network::ib_disable),
        "NCCL_IB_GID_INDEX" => |s| integer(s, nccl_gids::gid_index),
        "NCCL_P2P_DISABLE" => |s| integer(s, nccl_nvlink::p2p_disable),
        "NCCL_SHM_DISABLE" => |s| integer(s, nccl_nvlink::shm_disable),
        "NCCL_NET_GDR_READ" => |s| integer(s, nccl_gpudirect::gdr_read),
        "NCCL_NET_GDR_C2C" => |s| integer(s, nccl_gpudirect::gdr_c2c),
        "NCCL_DMABUF_ENABLE" => |s| integer(s, nccl_gpudirect::dmabuf),
        "NCCL_MNNVL_ENABLE" => |s| integer(s, nccl_nvlink::mnnvl),
        "NCCL_CUMEM_ENABLE" => |s| integer(s, nccl_nvlink::cumem),
        "NCCL_NVLS_ENABLE" => |s| integer(s, nccl_nvlink::nvls),
        "NCCL_IB_TIMEOUT" => |s| integer(s, nccl_network::ib_timeout),
        "NCCL_CROSS_NIC" => |s| integer(s, nccl_network::cross_nic),
        "NCCL_NET_GDR_LEVEL" => nccl_levels::gdr_level,
        "NCCL_P2P_LEVEL" => nccl_levels::p2p_level,
        "NCCL_NET" => nccl_network::net,
        "NCCL_NET_PLUGIN" => nccl_network::net_plugin,
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

pub(super) fn unset(s: &Setting<'_>) -> Verdict {
    Verdict::ok(
        "5.3",
        format!("unset: the default is in force ({})", s.variable.default),
    )
}

pub(super) fn plain(s: &Setting<'_>) -> Verdict {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::judge;
    use crate::report::Status::{Fail, Ok, Warn};

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
