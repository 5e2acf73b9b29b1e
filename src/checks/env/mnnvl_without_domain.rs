use crate::check;
use crate::checks::WorkerScope;
use crate::checks::declare::{Draft, Outcome};
use crate::manifest::workload::{EnvEntry, Worker};
use crate::observed::Skip;
use crate::report::SkipReason;

check! {
    /// Multi-node NVLink is switched on without a ComputeDomain claim.
    ///
    /// ## Why it matters
    /// NVLink between nodes needs an IMEX channel in the pod, and in Kubernetes a ComputeDomain gives it. Without one UCX
    /// prints an error and goes on without multi-node NVLink, and NCCL stops.
    ///
    /// ## Fix
    /// Create a ComputeDomain over all prefill and decode nodes and claim its channel in both roles, or remove the switch.
    ///
    /// ## Sources
    /// UCX v1.20.0 `src/uct/cuda/cuda_ipc/cuda_ipc_md.c`; Dynamo guide on TensorRT-LLM KV transfer.
    "ENV008" "mnnvl-without-compute-domain" on Worker {
        subsystem: Env, kv_path: Supporting, worst: Warn, causes: &["env:UCX_CUDA_IPC_ENABLE_MNNVL", "env:NCCL_MNNVL_ENABLE", "env:MC_FORCE_MNNVL"], since: "0.1.0",
    }
}

/// The switches, and what counts as on.
const SWITCHES: &[(&str, &[&str])] = &[
    ("UCX_CUDA_IPC_ENABLE_MNNVL", &["y", "yes", "1", "on"]),
    ("NCCL_MNNVL_ENABLE", &["1"]),
    ("MC_FORCE_MNNVL", &["1", "true", "y", "yes", "on"]),
];

/// The first switch of multi-node NVLink that is on.
pub(crate) fn switched_on(worker: &Worker) -> Option<(&'static str, &EnvEntry)> {
    SWITCHES.iter().find_map(|(name, on)| {
        let value = worker.literal(name)?.to_ascii_lowercase();
        on.contains(&value.as_str())
            .then(|| worker.env.get(name).map(|entry| (*name, entry)))?
    })
}

fn run(scope: &WorkerScope<'_>) -> Outcome {
    scope.require_kv()?;
    let (name, entry) = switched_on(scope.worker).ok_or_else(Skip::not_applicable)?;
    if scope.worker.compute_domain() {
        return Ok(vec![Draft::ok(format!(
            "{name} is on and the pod claims a ComputeDomain channel"
        ))]);
    }
    if let Some(claim) = scope.worker.unresolved_claims.first() {
        let detail = format!(
            "{name} is on; whether the claim {claim} is a ComputeDomain channel is not in this input"
        );
        return Err(Skip::new(SkipReason::Unresolved, detail));
    }
    let detail =
        format!("{name} is on, and the pod claims no ComputeDomain: it has no IMEX channel to use");
    Ok(vec![Draft::warn(detail).with([entry.spot.evidence()]).fix(
        "claim a ComputeDomain channel in both roles, or remove the switch",
    )])
}
