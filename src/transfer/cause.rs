//! The most likely cause, from facts that the transfer itself brought along. Pure.
//!
//! Text of foreign tools is matched only here, each row with its source.

use super::protocol::{Ready, Role};
use super::record::{Failure, TransferRecord, What};
use super::ucx_text::UcxText;

/// UCX leaves InfiniBand out below this (ucx#8085).
const MEMLOCK_FLOOR: i64 = 512 << 20;

/// Why UCX took TCP.
pub(super) fn of_wrong_lane(record: &TransferRecord, text: &UcxText) -> Option<String> {
    if let Some(line) = text
        .warnings
        .iter()
        .find(|w| w.contains("is not available, please use"))
    {
        return Some(format!("UCX ignored what it was told to use: {line}"));
    }
    [Role::Target, Role::Initiator]
        .into_iter()
        .find_map(|role| {
            let end = record.end(role);
            let why = of_end(end.ready.as_ref()?, &record.backend)?;
            Some(format!("on {}, {why}", end.label))
        })
}

fn of_end(ready: &Ready, backend: &str) -> Option<String> {
    let variable = |name: &str| {
        ready
            .env
            .iter()
            .find(|(n, _)| &***n == name)
            .map(|(_, v)| &**v)
    };
    if let Some(tls) = variable("UCX_TLS").filter(|_| backend == "UCX") {
        let rdma = ["all", "rc", "dc", "ud", "ib", "srd"];
        let named = |word: &str| {
            rdma.iter().any(|r| {
                word == *r
                    || word
                        .strip_prefix(r)
                        .is_some_and(|w| w.starts_with(['_', 'x', ':']))
            })
        };
        let words: Vec<&str> = tls
            .trim_start_matches('^')
            .split(',')
            .map(str::trim)
            .collect();
        let negated = tls.starts_with('^');
        if negated && words.iter().any(|w| named(w)) || !negated && !words.iter().any(|w| named(w))
        {
            return Some(format!("UCX_TLS={tls} leaves RDMA out"));
        }
    }
    let hardware = || ready.ports.iter().filter(|p| p.hardware);
    if hardware().next().is_none() {
        return Some("no RDMA device is visible in the container: it requests no RDMA resource, or the node has none".to_owned());
    }
    if !hardware().any(|p| p.granted) {
        return Some(
            "RDMA devices are visible, but their device nodes are not in the container".to_owned(),
        );
    }
    if !hardware().any(|p| p.granted && p.state.as_deref().is_some_and(|s| s.starts_with("4:"))) {
        return Some("no RDMA port that the container may use is ACTIVE".to_owned());
    }
    let [soft, _] = ready.memlock;
    if (0..MEMLOCK_FLOOR).contains(&soft) {
        return Some(format!(
            "RLIMIT_MEMLOCK is {soft} bytes, and UCX leaves InfiniBand out below 512 MB (ucx#8085)"
        ));
    }
    let loaded = |name: &str| ready.libs.iter().any(|l| l.contains(name));
    if backend == "UCX" && loaded("libucp") && !loaded("libuct_ib") {
        return Some("the UCX that was loaded has no verbs module (libuct_ib)".to_owned());
    }
    None
}

/// A line of a log, and what it means. UCX 1.19 to 1.23, NIXL 1.0 to 1.5; sources in the third column.
const KNOWN: &[(&str, &str, &str)] = &[
    (
        "max locked memory",
        "The memlock limit is too small: give the container IPC_LOCK, or an unlimited memlock limit in the container \
         runtime; then restart the worker.",
        "https://github.com/openucx/ucx/blob/v1.19.0/src/uct/ib/base/ib_md.c",
    ),
    (
        "ibv_reg_dmabuf_mr",
        "The NIC cannot register GPU memory through DMA-BUF: check the driver, the IOMMU group and the GPU's direct NIC.",
        "https://github.com/ai-dynamo/nixl/pull/1694",
    ),
    (
        "no usable transports/devices",
        "UCX_TLS or UCX_NET_DEVICES allows nothing that this container has: correct it, or give the container the device.",
        "https://github.com/openucx/ucx/blob/v1.23.0/src/ucp/core/ucp_context.c",
    ),
    (
        "is not available, please use",
        "UCX_TLS or UCX_NET_DEVICES names something that is not in the container: correct it, or request the RDMA \
         resource for the container.",
        "https://github.com/openucx/ucx/blob/v1.23.0/src/ucp/core/ucp_context.c",
    ),
    (
        "API version is incompatible",
        "A UCX of the system stands in front of the one that NIXL brings: remove it from LD_LIBRARY_PATH.",
        "https://github.com/ai-dynamo/nixl/issues/386",
    ),
    (
        "local loopback remote non-loopback",
        "One end has no network device that the other can reach: check UCX_NET_DEVICES and the pod's interfaces.",
        "https://github.com/openucx/ucx/blob/v1.23.0/src/uct/tcp/tcp_iface.c",
    ),
    (
        "no active messages transport",
        "The two ends have no transport in common: check UCX_TLS and UCX_NET_DEVICES at both, and that each pod has an \
         interface that is up. The log gives the reason for each device.",
        "https://github.com/openucx/ucx/blob/v1.23.0/src/ucp/wireup/select.c",
    ),
    (
        "Transport retry count exceeded",
        "Packets do not arrive: check the GID index and RoCE version at both ends, the MTU, and PFC/ECN on the path.",
        "https://github.com/openucx/ucx/issues/2434",
    ),
];

/// The fix that a known line names, for failures whose cause stands in a log.
pub(super) fn of_failure(
    failure: &Failure,
    record: &TransferRecord,
    text: &UcxText,
) -> Option<String> {
    let in_a_log = matches!(
        failure.what,
        What::AgentCreate
            | What::Register
            | What::Connect
            | What::Prepare
            | What::Transfer
            | What::Stall
    );
    if !in_a_log {
        return None;
    }
    let end = record.end(failure.side);
    let lines = || {
        end.log
            .tail
            .iter()
            .chain(&text.errors)
            .chain(&text.warnings)
            .map(String::as_str)
    };
    let said = || lines().chain([&*failure.detail]);
    KNOWN
        .iter()
        .find(|(part, _, _)| said().any(|l| l.contains(part)))
        .map(|(_, fix, _)| (*fix).to_owned())
}
