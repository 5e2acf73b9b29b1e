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
        subsystem: Env, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
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
    SWITCHES.iter().find_map(|(name, _)| {
        is_on(name, worker.literal(name)?)
            .then(|| worker.env.get(name).map(|entry| (*name, entry)))?
    })
}

/// The value switches this variable on.
pub(crate) fn is_on(name: &str, value: &str) -> bool {
    let value = value.to_ascii_lowercase();
    SWITCHES
        .iter()
        .any(|(switch, on)| *switch == name && on.contains(&value.as_str()))
}

fn run(scope: &WorkerScope<'_>) -> Outcome {
    scope.require_kv()?;
    let Some((name, entry)) = switched_on(scope.worker) else {
        if !scope.worker.compute_domain() {
            // A switch whose value is not known may be on.
            for (name, _) in SWITCHES {
                scope.literal(name)?;
            }
        }
        return Err(Skip::not_applicable());
    };
    if let Some(claim) = scope.worker.unresolved_claims.first() {
        let detail = format!(
            "{name} is on; whether the claim {claim} is a ComputeDomain channel is not in this input"
        );
        return Err(Skip::new(SkipReason::Unresolved, detail));
    }
    if scope.worker.compute_domain() {
        return Ok(vec![Draft::ok(format!(
            "{name} is on and the pod claims a ComputeDomain channel"
        ))]);
    }
    let detail =
        format!("{name} is on, and the pod claims no ComputeDomain: it has no IMEX channel to use");
    Ok(vec![Draft::warn(detail).with([entry.spot.evidence()]).fix(
        "claim a ComputeDomain channel in both roles, or remove the switch",
    )])
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::{
        CLAIM, GPU, Pod, alone, both, channel, claims, env, graph, lines, table, unread,
    };
    use crate::report::Status::{Ok, Skipped, Warn};

    #[test]
    fn table_of_statuses() {
        let on = |name: &str, value: &str| graph(&env(&[(name, value)]));
        let claim = lines(&[CLAIM, &env(&[("NCCL_MNNVL_ENABLE", "1")])]);
        let declared = claims("chan");
        let claiming = both(Pod::of(&claim).spec(&declared));
        let dynamic = lines(&[CLAIM, &unread("MC_FORCE_MNNVL")]);
        let covered = both(Pod::of(&dynamic).spec(&declared)) + &channel("chan");
        table(
            "mnnvl-without-compute-domain",
            &[
                (
                    "channel claimed",
                    format!("{claiming}{}", channel("chan")),
                    &[Ok, Ok],
                ),
                (
                    "no claim, UCX",
                    on("UCX_CUDA_IPC_ENABLE_MNNVL", "y"),
                    &[Warn, Warn],
                ),
                (
                    "no claim, NCCL",
                    on("NCCL_MNNVL_ENABLE", "1"),
                    &[Warn, Warn],
                ),
                (
                    "no claim, Mooncake",
                    on("MC_FORCE_MNNVL", "True"),
                    &[Warn, Warn],
                ),
                (
                    "claim without its template",
                    claiming.clone(),
                    &[Skipped, Skipped],
                ),
                (
                    "switch not known",
                    graph(&unread("UCX_CUDA_IPC_ENABLE_MNNVL")),
                    &[Skipped, Skipped],
                ),
                ("switch not known, channel claimed", covered, &[]),
                ("switched off", on("UCX_CUDA_IPC_ENABLE_MNNVL", "n"), &[]),
                ("no number", on("NCCL_MNNVL_ENABLE", "yes"), &[]),
                ("no switch", graph(GPU), &[]),
                (
                    "aggregated",
                    alone(Pod::of(&env(&[("NCCL_MNNVL_ENABLE", "1")]))),
                    &[],
                ),
            ],
        );
    }
}
