use crate::check;
use crate::checks::WorkerScope;
use crate::checks::declare::{Draft, Outcome};
use crate::observed::Skip;

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
    let (Ok(nics), Some(gpus)) = (count.parse::<u64>(), worker.gpus) else {
        return Err(Skip::not_applicable());
    };
    let seen = [worker.resources_spot.evidence()];
    if nics == gpus {
        return Ok(vec![
            Draft::ok(format!("{nics} rdma/ib for {gpus} GPUs")).with(seen),
        ]);
    }
    let detail = format!("rdma/ib is {nics} for {gpus} GPUs; the guide asks for one per GPU");
    let fix = format!("request rdma/ib: \"{gpus}\", or fewer where the nodes have fewer NICs");
    Ok(vec![Draft::warn(detail).with(seen).fix(fix)])
}
