//! The most likely cause, from facts that the transfer itself brought along. Pure.
//!
//! Text of foreign tools is matched only here, each row with its source.

use super::protocol::{Ready, Role};
use super::record::{Failure, TransferRecord, What};
use super::ucx_text::UcxText;
use crate::judge::TransportList;

/// UCX leaves InfiniBand out below this (ucx#8085).
const MEMLOCK_FLOOR: i64 = 512 << 20;

/// Why UCX took TCP, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cause {
    /// In words.
    pub(super) why: String,
    /// An action.
    pub(super) fix: String,
}

impl Cause {
    fn new(why: impl Into<String>, fix: &str) -> Self {
        Self {
            why: why.into(),
            fix: fix.to_owned(),
        }
    }
}

/// The first cause that the transfer's own facts name.
pub(super) fn of_wrong_lane(record: &TransferRecord, text: &UcxText) -> Option<Cause> {
    if let Some(line) = text.warnings.iter().find(|w| w.contains(IGNORED)) {
        return Some(Cause::new(
            format!("UCX ignored what it was told to use: {line}"),
            IGNORED_FIX,
        ));
    }
    [Role::Target, Role::Initiator]
        .into_iter()
        .find_map(|role| {
            let end = record.end(role);
            let ready = end.ready.as_ref()?;
            let cause = if record.same_container {
                of_local_lane(ready, &record.backend)?
            } else {
                of_end(ready, &record.backend)?
            };
            Some(Cause {
                why: format!("on {}, {}", end.label, cause.why),
                ..cause
            })
        })
}

fn variable<'a>(ready: &'a Ready, name: &str) -> Option<&'a str> {
    let mut env = ready.env.iter();
    env.find(|(n, _)| &***n == name).map(|(_, v)| &**v)
}

/// Between two processes of one container memory is shared, so what keeps TCP is another question than between pods.
fn of_local_lane(ready: &Ready, backend: &str) -> Option<Cause> {
    let tls = variable(ready, "UCX_TLS").filter(|_| backend == "UCX")?;
    match (leaves_out(tls, RDMA), leaves_out(tls, SHARED)) {
        (true, true) => Some(Cause::new(
            format!("UCX_TLS={tls} leaves out RDMA, and the shared memory that moves blocks (cma)"),
            "Remove UCX_TLS, or name RDMA in it (UCX_TLS=rc,sm,cuda_copy,cuda_ipc), on both roles.",
        )),
        (false, _) if !TransportList::parse(tls).allows("cma") => Some(Cause::new(
            format!("UCX_TLS={tls} leaves out the shared memory that moves blocks (cma)"),
            "Allow sm in UCX_TLS to see the local lane. Between pods it plays no part.",
        )),
        _ => None,
    }
}

/// Nothing but UCX_TLS can take RDMA away from every transfer of this container, and it does.
pub(super) fn no_peer_gets_rdma(record: &TransferRecord) -> bool {
    let ends = [Role::Target, Role::Initiator].into_iter();
    &*record.backend == "UCX"
        && ends
            .filter_map(|role| record.end(role).ready.as_ref())
            .filter_map(|ready| variable(ready, "UCX_TLS"))
            .any(|tls| leaves_out(tls, RDMA))
}

fn of_end(ready: &Ready, backend: &str) -> Option<Cause> {
    let tls = variable(ready, "UCX_TLS");
    if let Some(tls) = tls.filter(|tls| backend == "UCX" && leaves_out(tls, RDMA)) {
        let fix =
            "Remove UCX_TLS, or name RDMA in it (UCX_TLS=rc,cuda_copy,cuda_ipc), on both roles.";
        return Some(Cause::new(format!("UCX_TLS={tls} leaves RDMA out"), fix));
    }
    let hardware = || ready.ports.iter().filter(|p| p.hardware);
    let active =
        |p: &&super::protocol::PortFacts| p.state.as_deref().is_some_and(|s| s.starts_with("4:"));
    if hardware().next().is_none() {
        return Some(Cause::new(
            "no RDMA device is visible in the container",
            "Request the RDMA resource of the cluster for the worker (rdma/ib, rdma/shared_ib, vpc.amazonaws.com/efa or a \
             claim), and run it on a node that has one.",
        ));
    }
    if !hardware().any(|p| p.granted) {
        return Some(Cause::new(
            "RDMA devices are visible, but their device nodes are not in the container",
            "Request the RDMA resource of the cluster for the worker; without it /dev/infiniband stays empty.",
        ));
    }
    if !hardware().filter(|p| p.granted).any(|p| active(&p)) {
        let fix = "Look at the port with `dynamo-interconnect-check node`: cable, subnet manager, or administrative state.";
        return Some(Cause::new(
            "no RDMA port that the container may use is ACTIVE",
            fix,
        ));
    }
    let [soft, _] = ready.memlock;
    if (0..MEMLOCK_FLOOR).contains(&soft) {
        return Some(Cause::new(
            format!(
                "RLIMIT_MEMLOCK is {soft} bytes, and UCX leaves InfiniBand out below 512 MB (ucx#8085)"
            ),
            "Give the container IPC_LOCK, or an unlimited memlock limit in the container runtime; then restart the worker.",
        ));
    }
    let loaded = |name: &str| ready.libs.iter().any(|l| l.contains(name));
    if backend == "UCX" && loaded("libucp") && !loaded("libuct_ib") {
        return Some(Cause::new(
            "the UCX that was loaded has no verbs module (libuct_ib)",
            "Let NIXL load the UCX of its own wheel (LD_LIBRARY_PATH, NIXL_PLUGIN_DIR), or build UCX with verbs.",
        ));
    }
    None
}

/// Transports of RDMA devices.
const RDMA: &[&str] = &[
    "rc_verbs", "rc_mlx5", "dc_mlx5", "ud_verbs", "ud_mlx5", "srd",
];
/// Those that move a block between two processes of one machine without copying it through a ring.
const SHARED: &[&str] = &["cma", "xpmem", "knem"];

/// The list allows none of these.
fn leaves_out(tls: &str, transports: &[&str]) -> bool {
    let list = TransportList::parse(tls);
    !transports.iter().any(|name| list.allows(name))
}

const IGNORED: &str = "is not available, please use";
const IGNORED_FIX: &str = "UCX_TLS or UCX_NET_DEVICES names something that is not in the container: correct it, or request the \
RDMA resource for the container.";

/// UCX_PROTO_ENABLE is off at an end: UCX prints no table then, and from 1.22 on it has no put and get of the old protocols
/// (<https://github.com/openucx/ucx/blob/v1.22.0/NEWS>).
pub(super) fn old_protocols(record: &TransferRecord) -> Option<Cause> {
    let off = |value: &str| {
        let off = ["n", "no", "off", "0"];
        off.iter()
            .any(|word| word.eq_ignore_ascii_case(value.trim()))
    };
    // The initiator's UCX moves the bytes and prints the table.
    let value =
        variable(record.initiator.ready.as_ref()?, "UCX_PROTO_ENABLE").filter(|v| off(v))?;
    Some(Cause::new(
        format!(
            "UCX_PROTO_ENABLE={value} on {} returns to old protocols, of which UCX prints no table",
            record.initiator.label
        ),
        "Remove UCX_PROTO_ENABLE: without the new protocols UCX prints no table that names the lane, and put and get, which NIXL \
         uses, have no old ones from UCX 1.22 on.",
    ))
    .filter(|_| &*record.backend == "UCX")
}

/// The library for want of which the plugin of the backend does not load, as NIXL's own line names it:
/// `Failed to load plugin from /x/libplugin_LIBFABRIC.so: libfabric.so.1: cannot open shared object file: ...`
/// (<https://github.com/ai-dynamo/nixl/blob/1.5.1/src/core/nixl_plugin_manager.cpp>).
pub(super) fn missing_library(failure: &Failure, record: &TransferRecord) -> Option<Cause> {
    if !matches!(failure.what, What::NoBackend | What::NoPlugin) {
        return None;
    }
    let plugin = format!("libplugin_{}.so", record.backend);
    let log = &record.end(failure.side).log;
    let mut lines = log.lane.lines().chain(log.tail.iter().map(String::as_str));
    let why = lines.find_map(|line| {
        let (_, why) = line.split_once(&plugin)?;
        let why = why.trim_start_matches([':', ' ']);
        why.contains(": cannot open shared object file")
            .then_some(why)
    })?;
    let library = why.split(':').next()?;
    Some(Cause {
        why: why.to_owned(),
        fix: format!(
            "Give the container {library}, which NIXL's {plugin} needs and does not find: install the package that brings it, \
             or put its directory on LD_LIBRARY_PATH before the worker starts."
        ),
    })
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
        "No plugins available",
        "NIXL finds no plugin at all: remove NIXL_PLUGIN_DIR, or name in it the directory that holds libplugin_UCX.so; where it is \
         not set, install the nixl wheel anew.",
        "NIXL 1.5.1: src/api/python/_api.py",
    ),
    (
        IGNORED,
        IGNORED_FIX,
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
    let old = matches!(failure.what, What::Prepare | What::Transfer).then(|| old_protocols(record));
    if let Some(cause) = old.flatten() {
        return Some(cause.fix);
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
