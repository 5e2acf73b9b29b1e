use crate::check;
use crate::checks::WorkerScope;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::scope::known;
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
    /// Nodes whose kubelet and containerd run with LimitMEMLOCK=infinity (AKS): `node` and `check` read the real limit, and
    /// where all running containers may lock memory this is no finding.
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
    if worker.efa() {
        return Err(Skip::not_applicable());
    }
    if !worker.rdma_requested() {
        known(worker, "resources")?;
        return Err(Skip::not_applicable());
    }
    let seen = [worker.resources_spot.evidence()];
    if worker.ipc_lock || worker.privileged {
        return Ok(vec![Draft::ok("the container may lock memory").with(seen)]);
    }
    known(worker, "securityContext")?;
    if scope.running.locks_memory {
        let detail = "RDMA is requested without IPC_LOCK, and the containers that run may lock memory all the same";
        return Ok(vec![Draft::ok(detail).with(seen)]);
    }
    let detail = "RDMA is requested without IPC_LOCK: the runtime's limit on locked memory applies (8 MiB by default)";
    let paste = "securityContext:\n  capabilities:\n    add: [IPC_LOCK]";
    Ok(vec![
        Draft::warn(detail)
            .with(seen)
            .fix("add IPC_LOCK to the container's capabilities")
            .paste(scope.for_container(paste)),
    ])
}

#[cfg(test)]
mod tests {
    use crate::ask;
    use crate::checks::testing::{
        CLAIM, EFA, Fleet, GPU, Pod, RDMA, UNFILLED, alone, alpha, both, changed, claim_template,
        claims, deployment, graph, hcas, lines, table, vllm,
    };
    use crate::report::Status::{Ok, Skipped, Warn};

    #[test]
    fn table_of_statuses() {
        let with = |rights: &str| graph(&lines(&[RDMA, &format!("securityContext: {rights}")]));
        let old = "resources: {limits: {gpu: '1', custom: {rdma/ib: '1'}}}";
        let allowed =
            "extraPodSpec: {mainContainer: {securityContext: {capabilities: {add: [IPC_LOCK]}}}}";
        table(
            "ipc-lock-missing",
            &[
                (
                    "IPC_LOCK",
                    with("{capabilities: {add: [IPC_LOCK]}}"),
                    &[Ok, Ok],
                ),
                ("privileged", with("{privileged: true}"), &[Ok, Ok]),
                (
                    "v1alpha1, IPC_LOCK",
                    alpha(&lines(&[old, allowed])),
                    &[Ok, Ok],
                ),
                ("no rights", graph(RDMA), &[Warn, Warn]),
                (
                    "another capability",
                    with("{capabilities: {add: [SYS_PTRACE]}}"),
                    &[Warn, Warn],
                ),
                ("v1alpha1, no rights", alpha(old), &[Warn, Warn]),
                (
                    "a device by claim",
                    both(Pod::of(CLAIM).spec(&claims("nic")))
                        + &claim_template("nic", "rdma-dranet"),
                    &[Warn, Warn],
                ),
                (
                    "without the operator",
                    deployment(&lines(&[RDMA, &vllm("[\"UCX\"]")]), ""),
                    &[Warn],
                ),
                ("a placeholder", graph(UNFILLED), &[Skipped, Skipped]),
                (
                    "rights to be filled in",
                    with("${RIGHTS}"),
                    &[Skipped, Skipped],
                ),
                ("EFA answers elsewhere", graph(EFA), &[]),
                ("no RDMA", graph(GPU), &[]),
                ("aggregated", alone(Pod::of(RDMA)), &[]),
            ],
        );
    }

    #[test]
    fn the_limit_of_every_running_container_decides() {
        let pod = |soft: &str| {
            let limits =
                format!("Max locked memory         {soft}            {soft}            bytes");
            changed(&hcas(&["4: ACTIVE"]), &[(&ask::LIMITS, &limits)])
        };
        let of = |prefill: &str, decode: &str, more: &str| {
            let pods = [("prefill", &pod(prefill)[..]), ("decode", &pod(decode)[..])];
            let body = lines(&["image: i", RDMA, more]);
            let fleet = Fleet::of(&pods)
                .body("prefill", &body)
                .body("decode", &body);
            [
                fleet.statuses("ipc-lock-missing"),
                fleet.statuses("ipc-lock-inert"),
            ]
        };
        let user = "securityContext: {runAsUser: 1000, capabilities: {add: [IPC_LOCK]}}";
        assert_eq!(of("unlimited", "unlimited", ""), [vec![Ok, Ok], vec![]]);
        let [missing, _] = of("unlimited", "8388608", "");
        assert!(
            missing.contains(&Ok) && missing.contains(&Warn),
            "{missing:?}"
        );
        assert_eq!(of("unlimited", "unlimited", user)[1], [Ok, Ok]);
        let inert = &of("unlimited", "8388608", user)[1];
        assert!(inert.contains(&Ok) && inert.contains(&Warn), "{inert:?}");
    }
}
