use crate::check;
use crate::checks::WorkerScope;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::scope::known;
use crate::observed::Skip;

check! {
    /// A pod with EFA devices is not privileged.
    ///
    /// ## Why it matters
    /// The EFA guide calls `privileged: true` required: registering GPU memory with the device fails without it, and
    /// IPC_LOCK alone is said not to be enough.
    ///
    /// ## Fix
    /// Set `privileged: true` on prefill and decode containers, or prove with a transfer that your nodes do without.
    ///
    /// ## Sources
    /// Dynamo guide "EFA on AWS"; ai-dynamo/dynamo PR#9521.
    "K8S010" "efa-not-privileged" on Worker {
        subsystem: Kubernetes, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

fn run(scope: &WorkerScope<'_>) -> Outcome {
    scope.require_kv()?;
    let worker = scope.worker;
    if !worker.efa() {
        return Err(Skip::not_applicable());
    }
    let seen = [worker.resources_spot.evidence()];
    if worker.privileged {
        return Ok(vec![
            Draft::ok("the EFA container is privileged").with(seen),
        ]);
    }
    known(worker, "securityContext")?;
    let held = if worker.ipc_lock {
        "has IPC_LOCK only"
    } else {
        "has neither privileged nor IPC_LOCK"
    };
    let detail = format!(
        "the EFA container {held}; the guide requires privileged: true to register GPU memory"
    );
    let paste = "securityContext:\n  privileged: true";
    let at = worker.ipc_lock_spot.as_ref();
    let at = at.unwrap_or(&worker.resources_spot).evidence();
    Ok(vec![
        Draft::warn(detail)
            .with([at])
            .fix("set privileged: true on the container")
            .paste(scope.for_container(paste)),
    ])
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_points_at_the_capability_that_is_not_enough() {
        use crate::checks::testing::{EFA, graph, lines, report};
        let lock = "securityContext: {capabilities: {add: [IPC_LOCK]}}";
        let report = report(&graph(&lines(&[EFA, lock])));
        let finding = report.checks.iter().find(|f| f.id == "K8S010").unwrap();
        let shown = &finding.evidence[0].excerpt;
        assert!(shown.trim().ends_with("IPC_LOCK]}}"), "{shown}");
    }

    use crate::checks::testing::{EFA, Pod, RDMA, alone, graph, lines, table};
    use crate::report::Status::{Ok, Warn};

    #[test]
    fn table_of_statuses() {
        let with = |rights: &str| graph(&lines(&[EFA, &format!("securityContext: {rights}")]));
        table(
            "efa-not-privileged",
            &[
                ("privileged", with("{privileged: true}"), &[Ok, Ok]),
                (
                    "IPC_LOCK is not enough",
                    with("{capabilities: {add: [IPC_LOCK]}}"),
                    &[Warn, Warn],
                ),
                ("no rights", graph(EFA), &[Warn, Warn]),
                ("another fabric", graph(RDMA), &[]),
                ("aggregated", alone(Pod::of(EFA)), &[]),
            ],
        );
    }
}
