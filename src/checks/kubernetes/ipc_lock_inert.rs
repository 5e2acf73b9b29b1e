use crate::check;
use crate::checks::WorkerScope;
use crate::checks::declare::{Draft, Outcome};
use crate::observed::Skip;
use crate::source::Spot;

check! {
    /// IPC_LOCK is added to a container that does not run as root.
    ///
    /// ## Why it matters
    /// Kubernetes adds capabilities to the bounding set; a process that is not root has none of them in effect, so the limit
    /// on locked memory still applies.
    ///
    /// ## Fix
    /// Run the container as root (`runAsUser: 0`), or raise the runtime's LimitMEMLOCK on the nodes.
    ///
    /// ## Sources
    /// NVIDIA/nvidia-container-toolkit#2037 (measured: CapEff 0); NVIDIA/nvcf PR#1353.
    "K8S008" "ipc-lock-inert" on Worker {
        subsystem: Kubernetes, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

fn run(scope: &WorkerScope<'_>) -> Outcome {
    scope.require_kv()?;
    let worker = scope.worker;
    match worker.run_as_user {
        Some(user)
            if user != 0 && worker.ipc_lock && !worker.privileged && worker.rdma_requested() =>
        {
            let seen = [&worker.ipc_lock_spot, &worker.run_as_user_spot];
            let seen = seen.into_iter().flatten().map(Spot::evidence);
            if scope.running.locks_memory {
                let detail = format!(
                    "IPC_LOCK is not in effect for user {user}, and the containers that run may lock memory all the same"
                );
                return Ok(vec![Draft::ok(detail).with(seen)]);
            }
            let detail = format!(
                "IPC_LOCK is added, but the container runs as user {user}: the capability is not in effect"
            );
            let fix = "set runAsUser: 0, or raise LimitMEMLOCK of the container runtime";
            Ok(vec![Draft::warn(detail).with(seen).fix(fix)])
        }
        _ => Err(Skip::not_applicable()),
    }
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::{GPU, Pod, RDMA, alone, both, graph, lines, report, table};
    use crate::report::Status::Warn;

    #[test]
    fn table_of_statuses() {
        let lock = |container: &str, more: &str| {
            lines(&[
                container,
                &format!("securityContext: {{capabilities: {{add: [IPC_LOCK]}}{more}}}"),
            ])
        };
        let user = lock(RDMA, ", runAsUser: 1000");
        let pod_user = "securityContext: {runAsUser: 1000}";
        table(
            "ipc-lock-inert",
            &[
                ("a user", graph(&user), &[Warn, Warn]),
                (
                    "a user of the pod",
                    both(Pod::of(&lock(RDMA, "")).spec(pod_user)),
                    &[Warn, Warn],
                ),
                (
                    "root in the pod of a user",
                    both(Pod::of(&lock(RDMA, ", runAsUser: 0")).spec(pod_user)),
                    &[],
                ),
                ("root", graph(&lock(RDMA, ", runAsUser: 0")), &[]),
                ("nothing says who", graph(&lock(RDMA, "")), &[]),
                (
                    "privileged",
                    graph(&lock(RDMA, ", runAsUser: 1000, privileged: true")),
                    &[],
                ),
                (
                    "no IPC_LOCK",
                    graph(&lines(&[RDMA, "securityContext: {runAsUser: 1000}"])),
                    &[],
                ),
                ("no RDMA", graph(&lock(GPU, ", runAsUser: 1000")), &[]),
                ("aggregated", alone(Pod::of(&user)), &[]),
            ],
        );
    }

    #[test]
    fn it_points_at_the_capability_and_at_the_user() {
        let locked = lines(&[
            RDMA,
            "securityContext: {capabilities: {add: [NET_RAW, IPC_LOCK]}}",
        ]);
        let text = both(Pod::of(&locked).spec("securityContext: {runAsUser: 1000}"));
        let report = report(&text);
        let finding = report.checks.iter().find(|f| f.id == "K8S008").unwrap();
        let shown: Vec<&str> = finding.evidence.iter().map(|e| e.excerpt.trim()).collect();
        assert!(shown[0].ends_with("IPC_LOCK]}}"), "{shown:?}");
        assert!(!shown[0].contains("NET_RAW"), "{shown:?}");
        assert!(shown[1].contains("runAsUser: 1000"), "{shown:?}");
    }
}
