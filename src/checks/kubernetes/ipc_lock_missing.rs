use crate::check;
use crate::checks::WorkerScope;
use crate::checks::declare::{Draft, Outcome};
use crate::observed::Skip;

check! {
    /// RDMA is requested, and the container may not lock memory.
    ///
    /// ## Why it matters
    /// Registering a buffer with an RDMA device pins it. Without `IPC_LOCK` the limit of the container runtime applies, by
    /// default 8 MiB, and registration fails or UCX drops its RDMA transports.
    ///
    /// ## Fix
    /// Add `IPC_LOCK` to the container's capabilities.
    ///
    /// ## False alarms
    /// Nodes whose kubelet and containerd run with LimitMEMLOCK=infinity (AKS): `node` reads the real limit.
    ///
    /// ## Sources
    /// Dynamo guide "disaggregated communication"; NVIDIA/nvidia-container-toolkit#2037.
    "K8S007" "ipc-lock-missing" on Worker {
        subsystem: Kubernetes, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

fn run(scope: &WorkerScope<'_>) -> Outcome {
    scope.require_kv()?;
    let worker = scope.worker;
    // EFA pods answer to efa-not-privileged, whose cure covers this one.
    if !worker.rdma_requested() || worker.efa() {
        return Err(Skip::not_applicable());
    }
    let seen = [worker.resources_spot.evidence()];
    if worker.ipc_lock || worker.privileged {
        return Ok(vec![Draft::ok("the container may lock memory").with(seen)]);
    }
    let detail = "RDMA is requested without IPC_LOCK: the runtime's limit on locked memory applies (8 MiB by default)";
    let paste = "securityContext:\n  capabilities:\n    add: [IPC_LOCK]";
    Ok(vec![
        Draft::warn(detail)
            .with(seen)
            .fix("add IPC_LOCK to the container's capabilities")
            .paste(paste),
    ])
}
