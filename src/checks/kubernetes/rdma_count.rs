use crate::check;
use crate::checks::WorkerScope;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::words::counted;
use crate::observed::Skip;
use crate::report::SkipReason;

check! {
    /// The number of exclusive RDMA devices differs from the number of GPUs.
    ///
    /// Only `rdma/ib` counts devices one by one. Shared resources (`rdma/shared_ib`, `rdma/hca_shared_devices_a`) give all
    /// HCAs with one unit, and EFA counts differ by instance type.
    ///
    /// ## Why it matters
    /// With fewer NICs than GPUs several ranks share one: 0.76 GB/s was measured for four ranks on one NIC, against 15 to 17
    /// GB/s with one NIC for each.
    ///
    /// ## Fix
    /// Request one `rdma/ib` per GPU, unless the nodes have fewer NICs.
    ///
    /// ## Sources
    /// Dynamo guide "disaggregated communication" ("match TP size"); deepseek-v4 recipe README (measurements).
    "K8S006" "rdma-count" on Worker {
        subsystem: Kubernetes, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

fn run(scope: &WorkerScope<'_>) -> Outcome {
    scope.require_kv()?;
    let worker = scope.worker;
    let count = worker
        .rdma_resources
        .get("rdma/ib")
        .ok_or_else(Skip::not_applicable)?;
    let unresolved = |detail: String| Skip::new(SkipReason::Unresolved, detail);
    let nics: u64 = count
        .parse()
        .map_err(|_| unresolved(format!("rdma/ib: {count} is no number")))?;
    let gpus = worker.gpus.ok_or_else(|| {
        unresolved(format!(
            "rdma/ib is {nics}, and the number of GPUs is not stated"
        ))
    })?;
    let seen = [worker.resources_spot.evidence()];
    if nics == gpus {
        return Ok(vec![
            Draft::ok(format!("{nics} rdma/ib for {}", counted(gpus, "GPU"))).with(seen),
        ]);
    }
    let detail = format!(
        "rdma/ib is {nics} for {}; the guide asks for one per GPU",
        counted(gpus, "GPU")
    );
    let fix = format!("request rdma/ib: \"{gpus}\", or fewer where the nodes have fewer NICs");
    Ok(vec![Draft::warn(detail).with(seen).fix(fix)])
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::{EFA, Pod, RDMA, alone, graph, table};
    use crate::report::Status::{Ok, Skipped, Warn};

    #[test]
    fn table_of_statuses() {
        let counts = |nics: &str, gpus: &str| {
            graph(&format!(
                "resources: {{limits: {{nvidia.com/gpu: {gpus}, rdma/ib: {nics}}}}}"
            ))
        };
        table(
            "rdma-count",
            &[
                ("one for each", counts("8", "8"), &[Ok, Ok]),
                ("fewer", counts("2", "4"), &[Warn, Warn]),
                ("more", counts("8", "4"), &[Warn, Warn]),
                (
                    "a placeholder",
                    counts("\"${NICS}\"", "4"),
                    &[Skipped, Skipped],
                ),
                (
                    "GPUs not stated",
                    graph("resources: {limits: {rdma/ib: 8}}"),
                    &[Skipped, Skipped],
                ),
                (
                    "a shared resource",
                    graph("resources: {limits: {nvidia.com/gpu: 8, rdma/shared_ib: 1}}"),
                    &[],
                ),
                ("another fabric", graph(EFA), &[]),
                (
                    "aggregated",
                    alone(Pod::of(&RDMA.replace("ib: 1", "ib: 2"))),
                    &[],
                ),
            ],
        );
    }
}
