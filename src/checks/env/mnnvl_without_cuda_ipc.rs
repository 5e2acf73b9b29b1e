use crate::check;
use crate::checks::WorkerScope;
use crate::checks::declare::{Draft, Outcome};
use crate::judge::TransportList;
use crate::observed::Skip;

check! {
    /// Multi-node NVLink is switched on, and UCX_TLS excludes the transport that uses it.
    ///
    /// ## Why it matters
    /// UCX reaches other nodes over NVLink through `cuda_ipc`. Excluding it makes UCX_CUDA_IPC_ENABLE_MNNVL a dead switch,
    /// and KV goes to the NIC or to TCP.
    ///
    /// ## Fix
    /// Remove `^cuda_ipc` from UCX_TLS, or remove UCX_CUDA_IPC_ENABLE_MNNVL.
    ///
    /// ## Sources
    /// UCX v1.20.0 `src/uct/cuda/cuda_ipc`; ai-dynamo/nixl#1110.
    "ENV007" "mnnvl-without-cuda-ipc" on Worker {
        subsystem: Env, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

fn run(scope: &WorkerScope<'_>) -> Outcome {
    scope.require_kv()?;
    let worker = scope.worker;
    let switch = super::mnnvl_without_domain::switched_on(worker)
        .filter(|(name, _)| *name == "UCX_CUDA_IPC_ENABLE_MNNVL")
        .map(|(_, entry)| entry)
        .ok_or_else(Skip::not_applicable)?;
    let tls = worker.literal("UCX_TLS").ok_or_else(Skip::not_applicable)?;
    let list = TransportList::parse(tls);
    if !list.negated() || list.allows("cuda_ipc") {
        return Err(Skip::not_applicable());
    }
    let detail = format!(
        "UCX_CUDA_IPC_ENABLE_MNNVL is on, and UCX_TLS={} excludes cuda_ipc, which is the transport it acts on",
        crate::sanitise::line(tls, 80)
    );
    let tls = worker.env.get("UCX_TLS").map(|e| e.spot.evidence());
    Ok(vec![
        Draft::warn(detail)
            .with(tls)
            .with([switch.spot.evidence()])
            .fix("remove one of the two settings, on both roles"),
    ])
}
