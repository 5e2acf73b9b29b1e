//! UCX variables other than the lists of transports and devices.

use super::context::{Tri, Vendor};
use super::setting::{Rule, Setting, Verdict};
use super::ucx_values::{refuse, seconds, switch, thresholds, unreadable};
use super::{net_devices, ucx_roce, ucx_tls};
use crate::report::Status;

/// The rule of a UCX variable; those without one of their own are checked for a readable value.
pub(super) fn rule(name: &str) -> Rule {
    match name {
        "UCX_TLS" => ucx_tls::judge,
        "UCX_NET_DEVICES" => net_devices::judge,
        "UCX_RNDV_THRESH" => rndv_thresh,
        "UCX_PROTO_INFO" => proto_info,
        "UCX_SHM_DEVICES" => shm_devices,
        "UCX_ACC_DEVICES" => acc_devices,
        "UCX_IB_GPU_DIRECT_RDMA" => |s| readable(s, gpu_direct),
        "UCX_RNDV_SCHEME" => |s| readable(s, rndv_scheme),
        "UCX_IB_GID_INDEX" => |s| readable(s, ucx_roce::gid_index),
        "UCX_IB_ROCE_REACHABILITY_MODE" => |s| readable(s, ucx_roce::roce_reachability),
        "UCX_IB_ROCE_LOCAL_SUBNET" => |s| readable(s, ucx_roce::roce_local_subnet),
        "UCX_IB_ADDR_TYPE" => |s| readable(s, ucx_roce::addr_type),
        "UCX_CUDA_IPC_ENABLE_MNNVL" => |s| readable(s, mnnvl),
        "UCX_CUDA_IPC_ENABLE_GET_ZCOPY" => get_zcopy,
        "UCX_CUDA_COPY_DMABUF" => |s| readable(s, dmabuf),
        "UCX_MEMTYPE_CACHE" => |s| readable(s, memtype_cache),
        "UCX_IB_PCI_RELAXED_ORDERING" => |s| readable(s, relaxed_ordering),
        "UCX_RCACHE_ENABLE" => |s| readable(s, rcache),
        "UCX_MAX_RMA_RAILS" => |s| readable(s, rma_rails),
        "UCX_MAX_RNDV_RAILS" | "UCX_MAX_EAGER_RAILS" => |s| readable(s, other_rails),
        "UCX_KEEPALIVE_INTERVAL" => |s| readable(s, keepalive),
        "UCX_RC_TIMEOUT" => |s| readable(s, rc_timeout),
        "UCX_LOG_LEVEL" => |s| readable(s, log_level),
        "UCX_LOG_LEVEL_TRIGGER" => |s| readable(s, log_level_trigger),
        "UCX_PROTO_ENABLE" => |s| readable(s, proto_enable),
        "UCX_WARN_INVALID_CONFIG" | "UCX_WARN_UNUSED_ENV_VARS" => |s| readable(s, warnings),
        _ => |s| readable(s, plain),
    }
}

/// Unset is the default of every one of these, and an unreadable value has its own verdict (V1).
fn readable(s: &Setting<'_>, rule: fn(&Setting<'_>, &str) -> Verdict) -> Verdict {
    match s.value {
        None => unset(s),
        Some(value) => unreadable(s).unwrap_or_else(|| rule(s, value)),
    }
}

fn unset(s: &Setting<'_>) -> Verdict {
    Verdict::ok(
        "3.2",
        format!("unset: the default is in force ({})", s.variable.default),
    )
}

fn plain(s: &Setting<'_>, value: &str) -> Verdict {
    Verdict::ok(
        "3.2",
        format!("{value:?} is a value UCX can read: {}", s.what_it_does()),
    )
}

pub(super) fn is(value: &str, words: &[&str]) -> bool {
    words.iter().any(|w| w.eq_ignore_ascii_case(value))
}

fn gpu_direct(s: &Setting<'_>, value: &str) -> Verdict {
    let cx = s.cx;
    match switch(value) {
        Some(false) if cx.host_buffers => Verdict::ok(
            "3.2",
            "no GPU memory on the NIC, which KV buffers in host memory do not need",
        ),
        Some(false) => Verdict::bad(
            if cx.on_mnnvl() || !cx.kv_crosses_nodes() {
                Status::Warn
            } else {
                Status::Fail
            },
            "3.2",
            format!(
                "{value:?}: GPU memory is never registered on the NIC, so KV that takes it is copied through the CPU"
            ),
            "remove UCX_IB_GPU_DIRECT_RDMA; the default try uses GPUDirect RDMA where it is there",
        ),
        Some(true) => match cx.gpudirect() {
            Tri::Yes => Verdict::ok(
                "3.2",
                format!("{value:?} makes GPUDirect RDMA mandatory, and it is available"),
            ),
            Tri::No => Verdict::fail(
                "3.2",
                format!(
                    "{value:?} makes GPUDirect RDMA mandatory, and neither peermem nor dmabuf is there: UCX drops the NIC"
                ),
                "load nvidia_peermem or use the open driver modules (dmabuf), or remove UCX_IB_GPU_DIRECT_RDMA",
            ),
            Tri::Unknown if cx.node_unseen() && cx.peermem == cx.dmabuf => Verdict::ok(
                "3.2",
                format!(
                    "{value:?} makes GPUDirect RDMA mandatory: a node without peermem and dmabuf loses its NIC, which is for the node to say"
                ),
            ),
            Tri::Unknown => Verdict::warn(
                "3.2",
                format!(
                    "{value:?} makes GPUDirect RDMA mandatory, and it is not known whether peermem or dmabuf is there; without either UCX drops the NIC"
                ),
                "remove UCX_IB_GPU_DIRECT_RDMA (the default try takes it where it is), or check peermem and dmabuf on the node",
            ),
        },
        None => Verdict::ok(
            "3.2",
            format!("{value:?} is the default: GPUDirect RDMA where peermem or dmabuf is there"),
        ),
    }
}

fn rndv_scheme(_: &Setting<'_>, value: &str) -> Verdict {
    if is(value, &["am"]) {
        return Verdict::warn(
            "3.2",
            "\"am\" sends what other users of UCX exchange in copied pieces; NIXL's put and get are not touched",
            "remove UCX_RNDV_SCHEME",
        );
    }
    Verdict::ok(
        "3.2",
        format!(
            "{value:?} governs rendezvous messages; NIXL moves KV with put and get, so it has no effect on KV"
        ),
    )
}

fn rndv_thresh(s: &Setting<'_>) -> Verdict {
    let Some(value) = s.value else {
        return Verdict::ok(
            "3.2",
            "unset: NIXL sets inf itself, as KV by put and get needs",
        );
    };
    if let Some(verdict) = unreadable(s) {
        return verdict;
    }
    let parts = thresholds(value, s.cx);
    if parts.iter().all(|p| is(p, &["inf"])) {
        return Verdict::ok("3.2", format!("{value:?} is what NIXL sets itself"));
    }
    let cannot_invalidate = s.cx.vendors().is_some_and(|v| {
        !v.is_empty()
            && v.iter()
                .all(|v| matches!(v, Vendor::Efa | Vendor::OtherVerbs))
    });
    Verdict::bad(
        if cannot_invalidate && !s.cx.on_mnnvl() {
            Status::Fail
        } else {
            Status::Warn
        },
        "3.2",
        if cannot_invalidate {
            format!(
                "{value:?} overrides the inf that NIXL sets, and these NICs cannot invalidate memory: they lose the RMA lanes that carry KV"
            )
        } else {
            format!(
                "{value:?} overrides the inf that NIXL sets; it gains nothing for put and get, and costs the RMA lanes on NICs that cannot invalidate memory"
            )
        },
        "remove UCX_RNDV_THRESH",
    )
}

fn mnnvl(s: &Setting<'_>, value: &str) -> Verdict {
    let cx = s.cx;
    match (switch(value), cx.mnnvl) {
        (Some(true), Tri::Yes) => Verdict::ok(
            "3.2",
            format!("{value:?}: KV may go over NVLink between nodes"),
        ),
        (Some(true), Tri::No) => Verdict::warn(
            "3.2",
            format!(
                "{value:?} asks for NVLink between nodes, which is not there: UCX logs an error and goes on without"
            ),
            "claim a ComputeDomain on both roles, or remove UCX_CUDA_IPC_ENABLE_MNNVL",
        ),
        (Some(true), Tri::Unknown) => Verdict::ok(
            "3.2",
            format!(
                "{value:?} asks for NVLink between nodes; whether the fabric is ready is for the node to say"
            ),
        ),
        (Some(false), Tri::Yes) => Verdict::bad(
            if cx.rdma_present() == Tri::No {
                Status::Fail
            } else {
                Status::Warn
            },
            "3.2",
            format!(
                "{value:?} turns NVLink between nodes off although the pods share a domain: KV falls to {}",
                match cx.rdma_present() {
                    Tri::No => "TCP, since there is no RDMA device",
                    Tri::Yes | Tri::Unknown => "the NIC",
                }
            ),
            "remove UCX_CUDA_IPC_ENABLE_MNNVL",
        ),
        (Some(false), _) => Verdict::ok(
            "3.2",
            format!("{value:?} turns NVLink between nodes off, which nothing here uses"),
        ),
        (None, _) => Verdict::ok(
            "3.2",
            format!("{value:?} is the default: NVLink between nodes where the fabric is ready"),
        ),
    }
}

/// The default decides by NVLink, so that it is wrong where there is none.
fn get_zcopy(s: &Setting<'_>) -> Verdict {
    if let Some(verdict) = unreadable(s) {
        return verdict;
    }
    let shown = s.value.map_or("unset".to_owned(), |v| format!("{v:?}"));
    match s.value.and_then(switch) {
        Some(true) => Verdict::ok("1.4", format!("{shown}: one GPU may read from another")),
        Some(false) if s.cx.kv_may_stay_in_node() || s.cx.on_mnnvl() => Verdict::warn(
            "1.4",
            format!(
                "{shown}: reads from another GPU go through active messages, and vLLM moves KV by reads"
            ),
            "remove UCX_CUDA_IPC_ENABLE_GET_ZCOPY; y is right on GPUs joined by PCIe only",
        ),
        None if ucx_tls::reads_crawl(s.cx) => Verdict::warn(
            "1.4",
            format!(
                "{shown}: no NVLink is known between the GPUs, and without it reads from another GPU go through active messages, and vLLM moves KV by reads"
            ),
            "write UCX_CUDA_IPC_ENABLE_GET_ZCOPY=y",
        ),
        _ => Verdict::ok("1.4", format!("{shown}: it does no harm to KV here")),
    }
}

fn dmabuf(s: &Setting<'_>, value: &str) -> Verdict {
    let cx = s.cx;
    match switch(value) {
        Some(false) => match cx.peermem {
            Tri::Yes => Verdict::ok(
                "3.2",
                format!("{value:?}: peermem serves GPUDirect RDMA instead"),
            ),
            Tri::No => Verdict::fail(
                "3.2",
                format!(
                    "{value:?} switches dmabuf off and peermem is not there: KV is copied through the CPU"
                ),
                "remove UCX_CUDA_COPY_DMABUF",
            ),
            Tri::Unknown => Verdict::warn(
                "3.2",
                format!(
                    "{value:?} switches dmabuf off, so GPUDirect RDMA needs nvidia_peermem on every node"
                ),
                "remove UCX_CUDA_COPY_DMABUF",
            ),
        },
        Some(true) => match cx.dmabuf {
            Tri::No => Verdict::fail(
                "3.2",
                format!(
                    "{value:?} makes dmabuf mandatory and it is not there: UCX drops cuda_copy and takes GPU memory for host memory"
                ),
                "remove UCX_CUDA_COPY_DMABUF",
            ),
            Tri::Unknown if !cx.node_unseen() => Verdict::warn(
                "3.2",
                format!(
                    "{value:?} makes dmabuf mandatory, and it is not known whether it is there"
                ),
                "remove UCX_CUDA_COPY_DMABUF; the default try takes it where it is",
            ),
            _ => Verdict::ok("3.2", format!("{value:?} makes dmabuf mandatory")),
        },
        None => Verdict::ok("3.2", format!("{value:?} is the default")),
    }
}

fn memtype_cache(_: &Setting<'_>, value: &str) -> Verdict {
    match switch(value) {
        Some(true) => Verdict::warn(
            "3.2",
            format!(
                "{value:?} keeps the cache of memory types even where UCX cannot see allocations: stale entries crash or corrupt"
            ),
            "write UCX_MEMTYPE_CACHE=n, or remove it",
        ),
        Some(false) => Verdict::ok("3.2", format!("{value:?} is a little slower and safe")),
        None => Verdict::ok("3.2", format!("{value:?} is the default")),
    }
}

fn relaxed_ordering(_: &Setting<'_>, value: &str) -> Verdict {
    match switch(value) {
        Some(false) => Verdict::warn(
            "3.2",
            format!("{value:?} costs bandwidth on AMD processors and in virtual machines"),
            "remove UCX_IB_PCI_RELAXED_ORDERING; NIXL sets try",
        ),
        _ => Verdict::ok(
            "3.2",
            format!("{value:?} lets the NIC reorder its writes where it can"),
        ),
    }
}

fn rcache(_: &Setting<'_>, value: &str) -> Verdict {
    match switch(value) {
        Some(false) => Verdict::warn(
            "3.2",
            format!("{value:?}: without the cache, memory is registered again and again"),
            "remove UCX_RCACHE_ENABLE",
        ),
        _ => Verdict::ok("3.2", format!("{value:?} keeps the registration cache")),
    }
}

fn rma_rails(_: &Setting<'_>, value: &str) -> Verdict {
    match value.parse::<i64>() {
        Ok(n) if n < 1 => Verdict::warn(
            "2.3",
            format!("{value:?} is no sensible number of NICs; a sign is read as a huge number"),
            "remove UCX_MAX_RMA_RAILS; NIXL sets 2",
        ),
        Ok(1) => Verdict::ok("2.3", "one transfer goes over one NIC; NIXL sets 2 itself"),
        _ => Verdict::ok(
            "2.3",
            format!("one transfer is spread over up to {value} NICs; NIXL sets 2 itself"),
        ),
    }
}

fn other_rails(s: &Setting<'_>, value: &str) -> Verdict {
    Verdict::warn(
        "2.3",
        format!(
            "{value:?} governs messages only; NIXL moves KV with put and get, which UCX_MAX_RMA_RAILS governs"
        ),
        format!(
            "write UCX_MAX_RMA_RAILS={value} if KV is to use more NICs, and remove {}",
            s.variable.name
        ),
    )
}

fn keepalive(_: &Setting<'_>, value: &str) -> Verdict {
    match seconds(value) {
        Some(0.0) => Verdict::fail(
            "3.2",
            format!(
                "{value:?}: UCX stops with \"value must be greater than 0\" and NIXL gets no backend"
            ),
            "remove UCX_KEEPALIVE_INTERVAL; the default is 20s",
        ),
        Some(t) if t.is_infinite() => Verdict::warn(
            "3.2",
            "\"inf\": a dead peer is never noticed",
            "remove UCX_KEEPALIVE_INTERVAL; the default is 20s",
        ),
        _ => Verdict::ok(
            "3.2",
            format!(
                "a silent peer is probed every {value}; longer than 20s means that a dead one is noticed later"
            ),
        ),
    }
}

/// A dead path is declared after about the timeout times the retries (7), so half a minute is already minutes.
const LONG_RC_TIMEOUT_S: f64 = 30.0;

fn rc_timeout(_: &Setting<'_>, value: &str) -> Verdict {
    match seconds(value) {
        Some(t) if t > LONG_RC_TIMEOUT_S => Verdict::warn(
            "3.2",
            format!(
                "{value:?}: a dead path is noticed only after minutes, and requests hang until then"
            ),
            "remove UCX_RC_TIMEOUT; the default is 1s",
        ),
        _ => Verdict::ok(
            "3.2",
            format!("{value:?} before an unacknowledged packet is sent again"),
        ),
    }
}

fn log_level(_: &Setting<'_>, value: &str) -> Verdict {
    if is(value, &["fatal", "error"]) {
        return Verdict::warn(
            "3.2",
            format!(
                "{value:?} hides the warnings that a transport or device is not available, often the only sign of a fall to TCP"
            ),
            "write UCX_LOG_LEVEL=warn or remove it",
        );
    }
    if is(value, &["warn", "diag", "info"]) {
        return Verdict::ok("3.2", format!("{value:?} shows what is not available"));
    }
    Verdict::warn(
        "3.2",
        format!("{value:?} prints for every operation, which slows transfers down"),
        "write UCX_LOG_LEVEL=warn, or info to see the lanes",
    )
}

/// Measured with UCX 1.23: the process ends by SIGABRT at the first message of that level or a graver one, where UCX_LOG_LEVEL
/// lets it be printed; a word that is no level changes nothing.
fn log_level_trigger(_: &Setting<'_>, value: &str) -> Verdict {
    if is(value, &["fatal"]) {
        return Verdict::ok("3.2", format!("{value:?} is the default"));
    }
    Verdict::warn(
        "3.2",
        format!(
            "{value:?} makes UCX abort the process (SIGABRT) at the first message of this level or a graver one that it prints, \
             however harmless"
        ),
        "remove UCX_LOG_LEVEL_TRIGGER",
    )
}

fn proto_enable(_: &Setting<'_>, value: &str) -> Verdict {
    match switch(value) {
        Some(false) => Verdict::warn(
            "3.2",
            format!(
                "{value:?} returns to the old protocols, which put and get no longer have from UCX 1.22"
            ),
            "remove UCX_PROTO_ENABLE",
        ),
        _ => Verdict::ok("3.2", format!("{value:?} is the default")),
    }
}

fn proto_info(s: &Setting<'_>) -> Verdict {
    let Some(value) = s.value else {
        return unset(s);
    };
    if is(value, &["used"]) && !s.cx.ucx_at_least(1, 15) {
        return refuse(s.variable.name, value, "y or n");
    }
    Verdict::ok(
        "3.2",
        format!("{value:?} changes what is printed only; the tables show which lanes carry KV"),
    )
}

fn warnings(s: &Setting<'_>, value: &str) -> Verdict {
    match switch(value) {
        Some(false) => Verdict::warn(
            "3.2",
            format!("{value:?} hides the warnings that a setting is wrong or ignored"),
            format!("remove {}", s.variable.name),
        ),
        _ => Verdict::ok("3.2", format!("{value:?} is the default")),
    }
}

fn allows_gpu(value: Option<&str>) -> bool {
    value.is_none_or(|v| {
        let (negated, list) = match v.strip_prefix('^') {
            Some(rest) => (true, rest),
            None => (false, v),
        };
        list == "all" || list.split(',').any(|t| t == "cuda" || t == "all") != negated
    })
}

fn shm_devices(s: &Setting<'_>) -> Verdict {
    if allows_gpu(s.value) || !(s.cx.kv_may_stay_in_node() || s.cx.on_mnnvl()) {
        return Verdict::ok(
            "1.4",
            "the devices of NVLink (cuda_ipc) are not in question here",
        );
    }
    Verdict::warn(
        "1.4",
        "the list leaves the device cuda out, which switches cuda_ipc off: KV falls from NVLink to the NIC",
        "remove UCX_SHM_DEVICES",
    )
}

fn acc_devices(s: &Setting<'_>) -> Verdict {
    if allows_gpu(s.value) || s.cx.host_buffers {
        return Verdict::ok("1.4", "GPU memory stays recognised");
    }
    Verdict::fail(
        "R1",
        "the list leaves the device cuda out, which switches cuda_copy off: UCX takes GPU memory for host memory",
        "remove UCX_ACC_DEVICES",
    )
}

#[cfg(test)]
mod tests {
    use crate::judge::context::Context;
    use crate::judge::judge;
    use crate::report::Status::{self, Fail, Ok, Warn};

    /// Judged on a machine that `place` describes.
    fn status(variable: &str, value: &str, place: &str) -> Status {
        let cx = Context::for_explain(place).expect("a place");
        judge(variable, Some(value), &cx).status
    }

    #[test]
    fn each_value_earns_its_status_on_a_known_machine() {
        let roce = "nics=mlx5_0:1/Ethernet/ACTIVE;";
        let cases: &[(&str, &str, String, Status)] = &[
            ("UCX_IB_GPU_DIRECT_RDMA", "try", String::new(), Ok),
            (
                "UCX_IB_GPU_DIRECT_RDMA",
                "yes",
                "peermem=unknown".into(),
                Warn,
            ),
            (
                "UCX_IB_GPU_DIRECT_RDMA",
                "yes",
                "peermem=no;dmabuf=yes".into(),
                Ok,
            ),
            ("UCX_IB_GPU_DIRECT_RDMA", "off", "internode=no".into(), Warn),
            ("UCX_IB_GID_INDEX", "3", format!("{roce}gids=1:v2,3:v2"), Ok),
            (
                "UCX_IB_GID_INDEX",
                "2",
                format!("{roce}gids=2:v1,3:v2"),
                Fail,
            ),
            ("UCX_IB_GID_INDEX", "5", format!("{roce}gids=3:v2"), Fail),
            ("UCX_IB_GID_INDEX", "3", roce.into(), Warn),
            ("UCX_IB_GID_INDEX", "auto", roce.into(), Ok),
            (
                "UCX_RNDV_THRESH",
                "8192",
                "nics=bnxt_re0:1/Ethernet/ACTIVE".into(),
                Fail,
            ),
            ("UCX_RNDV_THRESH", "8192", "efa=yes".into(), Fail),
            ("UCX_RNDV_THRESH", "intra:inf,inter:inf", String::new(), Ok),
            (
                "UCX_RNDV_THRESH",
                "intra:0,inter:inf",
                "ucx=1.16".into(),
                Fail,
            ),
            ("UCX_RNDV_THRESH", "lots", String::new(), Fail),
            ("UCX_RNDV_THRESH", "1tb", String::new(), Fail),
            ("UCX_RNDV_THRESH", "1gb", String::new(), Warn),
            (
                "UCX_RNDV_THRESH",
                "intra:1tb,inter:inf",
                String::new(),
                Fail,
            ),
            ("UCX_RCACHE_MAX_UNRELEASED", "1tb", String::new(), Fail),
            ("UCX_RCACHE_MAX_UNRELEASED", "1024", String::new(), Ok),
            (
                "UCX_IB_ROCE_REACHABILITY_MODE",
                "local_subnet",
                roce.into(),
                Warn,
            ),
            (
                "UCX_IB_ROCE_REACHABILITY_MODE",
                "local_subnet",
                String::new(),
                Ok,
            ),
            ("UCX_IB_ROCE_REACHABILITY_MODE", "all", roce.into(), Ok),
            (
                "UCX_IB_ROCE_REACHABILITY_MODE",
                "all",
                "ucx=1.18".into(),
                Warn,
            ),
            (
                "UCX_CUDA_IPC_ENABLE_MNNVL",
                "n",
                "mnnvl=yes;nics=none".into(),
                Fail,
            ),
            ("UCX_CUDA_IPC_ENABLE_MNNVL", "n", "mnnvl=yes".into(), Warn),
            ("UCX_CUDA_IPC_ENABLE_MNNVL", "n", String::new(), Ok),
            ("UCX_CUDA_COPY_DMABUF", "n", "peermem=no".into(), Fail),
            ("UCX_CUDA_COPY_DMABUF", "y", "dmabuf=no".into(), Fail),
            ("UCX_MEMTYPE_CACHE", "y", String::new(), Warn),
            ("UCX_MEMTYPE_CACHE", "n", String::new(), Ok),
            ("UCX_MEMTYPE_CACHE", "true", String::new(), Warn),
            ("UCX_KEEPALIVE_INTERVAL", "0", String::new(), Fail),
            ("UCX_KEEPALIVE_INTERVAL", "300s", String::new(), Ok),
            ("UCX_KEEPALIVE_INTERVAL", "inf", String::new(), Warn),
            ("UCX_RC_TIMEOUT", "600s", String::new(), Warn),
            ("UCX_RC_TIMEOUT", "soon", String::new(), Fail),
            ("UCX_LOG_LEVEL", "INFO", String::new(), Ok),
            ("UCX_LOG_LEVEL", "trace", String::new(), Warn),
            ("UCX_LOG_LEVEL_TRIGGER", "INFO", String::new(), Warn),
            ("UCX_LOG_LEVEL_TRIGGER", "error", String::new(), Warn),
            ("UCX_LOG_LEVEL_TRIGGER", "loud", String::new(), Warn),
            ("UCX_LOG_LEVEL_TRIGGER", "FATAL", String::new(), Ok),
            ("UCX_MEMTYPE_REG_WHOLE", "n", String::new(), Warn),
            ("UCX_PROTO_ENABLE", "n", String::new(), Warn),
            ("UCX_ACC_DEVICES", "none", String::new(), Fail),
            ("UCX_ACC_DEVICES", "cuda", String::new(), Ok),
            ("UCX_SHM_DEVICES", "memory", "internode=no".into(), Warn),
            ("UCX_TCP_BRIDGE_ENABLE", "maybe", String::new(), Fail),
            ("UCX_MAX_RMA_RAILS", "4", String::new(), Ok),
            (
                "UCX_CUDA_IPC_ENABLE_GET_ZCOPY",
                "auto",
                "internode=no;gpu=8xL40S".into(),
                Warn,
            ),
            (
                "UCX_CUDA_IPC_ENABLE_GET_ZCOPY",
                "y",
                "internode=no;gpu=8xL40S".into(),
                Ok,
            ),
            (
                "UCX_CUDA_IPC_ENABLE_GET_ZCOPY",
                "auto",
                "internode=no".into(),
                Ok,
            ),
            (
                "UCX_CUDA_IPC_ENABLE_GET_ZCOPY",
                "off",
                "internode=no".into(),
                Warn,
            ),
            ("UCX_CUDA_IPC_ENABLE_GET_ZCOPY", "true", String::new(), Fail),
        ];
        for (variable, value, place, expected) in cases {
            assert_eq!(
                status(variable, value, place),
                *expected,
                "{variable}={value} at {place:?}"
            );
        }
    }

    #[test]
    fn nothing_is_said_against_a_right_value_where_nobody_looked() {
        let nowhere = Context::default();
        for (variable, value, expected) in [
            ("UCX_IB_GPU_DIRECT_RDMA", "yes", Ok),
            ("UCX_IB_GPU_DIRECT_RDMA", "true", Fail),
            ("UCX_IB_GID_INDEX", "3", Ok),
            ("UCX_CUDA_IPC_ENABLE_MNNVL", "y", Ok),
            ("UCX_CUDA_COPY_DMABUF", "y", Ok),
            ("UCX_RNDV_THRESH", "0", Warn),
            ("UCX_RNDV_SCHEME", "get_zcopy", Ok),
            ("UCX_IB_ADDR_TYPE", "eth", Ok),
            ("UCX_IB_REG_METHODS", "odp,rcache", Warn),
            ("UCX_MAX_RNDV_RAILS", "4", Warn),
        ] {
            assert_eq!(
                judge(variable, Some(value), &nowhere).status,
                expected,
                "{variable}={value}"
            );
        }
    }
}
