use crate::check;
use crate::checks::WorkerScope;
use crate::checks::declare::{Draft, Outcome};
use crate::manifest::workload::EnvValue;
use crate::observed::Skip;
use crate::report::SkipReason;

check! {
    /// A variable names NICs, GID indexes or GPUDirect RDMA that the node must have.
    ///
    /// UCX_IB_GPU_DIRECT_RDMA counts where it is `y`, which makes GPUDirect RDMA mandatory. A manifest cannot see a node, so here the question is put and left open; `node` answers it.
    ///
    /// ## Why it matters
    /// UCX drops a device that is missing or not ACTIVE with one warning. When none is left, backend creation fails; when
    /// one is left of eight, all GPUs share it. Where GPUDirect RDMA is mandatory and neither nvidia_peermem nor dmabuf is
    /// there, UCX drops the NIC.
    ///
    /// ## Fix
    /// Compare the names with `/sys/class/infiniband` on the nodes that run the workers. The default of
    /// UCX_IB_GPU_DIRECT_RDMA, `try`, needs nothing of the node.
    ///
    /// ## Sources
    /// UCX v1.20.0 `src/ucp/core/ucp_context.c`; NCCL v2.28.9-1 `src/transport/net_ib.cc`.
    "ENV010" "selected-nics" on Worker {
        subsystem: Env, kv_path: Required, worst: Skipped, causes: &[], since: "0.1.0",
    }
}

/// Variables that name something of the node.
const NAMING: &[&str] = &[
    "UCX_NET_DEVICES",
    "NCCL_IB_HCA",
    "UCX_IB_GID_INDEX",
    GPU_DIRECT,
];

/// Asks for something of the node only where it is on.
const GPU_DIRECT: &str = "UCX_IB_GPU_DIRECT_RDMA";

/// The value asks for nothing that a node may lack.
fn asks_nothing(name: &str, value: &str) -> bool {
    match name {
        GPU_DIRECT => !["y", "yes", "1", "on"]
            .iter()
            .any(|on| value.eq_ignore_ascii_case(on)),
        _ => matches!(value, "all" | "auto" | ""),
    }
}

fn run(scope: &WorkerScope<'_>) -> Outcome {
    scope.require_kv()?;
    let named: Vec<_> = NAMING
        .iter()
        .filter_map(|name| scope.worker.env.get(name).map(|entry| (name, entry)))
        .filter(|(name, e)| !matches!(&e.value, EnvValue::Literal(v) if asks_nothing(name, v)))
        .collect();
    if named.is_empty() {
        return Err(Skip::not_applicable());
    }
    let names: Vec<&str> = named.iter().map(|(name, _)| **name).collect();
    let detail = format!(
        "{} {} things of the node; whether they exist and work there is not in a manifest: run `node` on the pod",
        names.join(", "),
        if names.len() == 1 {
            "demands"
        } else {
            "demand"
        }
    );
    let evidence = named.iter().map(|(_, entry)| entry.spot.evidence());
    let mut draft = Draft::skipped(Skip::new(SkipReason::NotCollected, detail)).with(evidence);
    // The running workers answer it, where they are looked at.
    draft.follows = names.iter().map(|name| format!("env:{name}")).collect();
    Ok(vec![draft])
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::{Pod, alone, env, graph, table, unread};
    use crate::report::Status::Skipped;

    #[test]
    fn table_of_statuses() {
        let set = |name: &str, value: &str| graph(&env(&[(name, value)]));
        table(
            "selected-nics",
            &[
                (
                    "devices",
                    set("UCX_NET_DEVICES", "mlx5_0:1"),
                    &[Skipped, Skipped],
                ),
                ("adapters", set("NCCL_IB_HCA", "mlx5"), &[Skipped, Skipped]),
                (
                    "a GID index",
                    set("UCX_IB_GID_INDEX", "3"),
                    &[Skipped, Skipped],
                ),
                (
                    "devices from a field",
                    graph(&unread("UCX_NET_DEVICES")),
                    &[Skipped, Skipped],
                ),
                (
                    "mandatory GPUDirect RDMA",
                    set("UCX_IB_GPU_DIRECT_RDMA", "yes"),
                    &[Skipped, Skipped],
                ),
                (
                    "GPUDirect RDMA where it is",
                    set("UCX_IB_GPU_DIRECT_RDMA", "try"),
                    &[],
                ),
                ("all devices", set("UCX_NET_DEVICES", "all"), &[]),
                (
                    "the automatic GID index",
                    set("UCX_IB_GID_INDEX", "auto"),
                    &[],
                ),
                ("nothing named", graph("env: []"), &[]),
                (
                    "aggregated",
                    alone(Pod::of(&env(&[("UCX_NET_DEVICES", "mlx5_0:1")]))),
                    &[],
                ),
            ],
        );
    }
}
