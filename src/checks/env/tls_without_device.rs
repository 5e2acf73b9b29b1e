use crate::check;
use crate::checks::WorkerScope;
use crate::checks::declare::{Draft, Outcome};
use crate::judge::TransportList;
use crate::judge::context::Tri;
use crate::observed::Skip;

check! {
    /// UCX_TLS relies on RDMA, and the pod asks for no RDMA device.
    ///
    /// ## Why it matters
    /// An allow-list of RDMA transports without a device leaves UCX nothing to cross nodes with, or only the TCP that is
    /// listed beside them. A list that excludes `cuda_ipc` takes away NVLink as well.
    ///
    /// ## Fix
    /// Request the RDMA resource on every prefill and decode worker. Cluster-specific resources may come from an overlay:
    /// check the rendered manifest.
    "ENV006" "tls-without-device" on Worker {
        subsystem: Env, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

fn run(scope: &WorkerScope<'_>) -> Outcome {
    scope.require_kv()?;
    let worker = scope.worker;
    let value = worker.literal("UCX_TLS").ok_or_else(Skip::not_applicable)?;
    if scope.context().rdma != Tri::No || worker.compute_domain() {
        return Err(Skip::not_applicable());
    }
    let list = TransportList::parse(value);
    let shown = crate::sanitise::line(value, 80);
    let detail = if list.negated() && !list.allows("cuda_ipc") {
        format!(
            "UCX_TLS={shown} excludes cuda_ipc, and the pod asks for no RDMA device: only TCP is left between pods"
        )
    } else if !list.negated() && list.names_rdma() {
        format!("UCX_TLS={shown} lists RDMA transports, and the pod asks for no RDMA device")
    } else {
        return Err(Skip::not_applicable());
    };
    let entry = worker.env.get("UCX_TLS").map(|e| e.spot.evidence());
    Ok(vec![Draft::warn(detail).with(entry).fix(
        "request the RDMA resource in the pod, or render the overlay that adds it",
    )])
}
