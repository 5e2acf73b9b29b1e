use crate::check;
use crate::checks::WorkerScope;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::shm;
use crate::manifest::quantity;
use crate::observed::Skip;
use crate::report::SkipReason;

check! {
    /// Shared memory of a disaggregated worker is smaller than the guide asks for its engine.
    ///
    /// The Dynamo operator mounts its own `/dev/shm` (8Gi unless told otherwise) and removes a volume that the user mounts
    /// there, so an emptyDir of 64Gi on `/dev/shm` ends up as 8Gi.
    ///
    /// ## Why it matters
    /// Engines and NIXL exchange buffers through `/dev/shm`. When it fills up the worker dies with a bus error.
    ///
    /// ## Fix
    /// v1alpha1: `sharedMemory: {size: 16Gi}`; v1beta1: `sharedMemorySize: 16Gi`. TensorRT-LLM: 80Gi.
    ///
    /// ## Sources
    /// Dynamo operator `shared_memory.go`; Dynamo guides (16Gi for vLLM and NIXL, 80Gi for TensorRT-LLM).
    "K8S013" "shm-small" on Worker {
        subsystem: Kubernetes, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

fn run(scope: &WorkerScope<'_>) -> Outcome {
    scope.require_kv()?;
    let worker = scope.worker;
    match (&worker.shm, &worker.shm_user_mount) {
        (Some(size), _) => sized(scope, size),
        (None, Some(mount)) if worker.by_operator => {
            let detail = format!(
                "a volume ({mount}) is mounted on /dev/shm; the operator replaces it by its own 8Gi because no shared memory \
                 size is set"
            );
            let fix = "set the operator's shared memory size instead of mounting a volume";
            let at = [worker.shm_spot.as_ref().unwrap_or(&worker.spot).evidence()];
            Ok(vec![
                Draft::warn(detail).with(at).fix(fix).paste(lines(scope)),
            ])
        }
        // Without a limit, and with a limit of nothing, the memory of the container is the limit.
        (None, Some(mount)) if matches!(mount.as_str(), "hostPath" | "no sizeLimit" | "0") => {
            Ok(vec![Draft::ok("a volume is mounted on /dev/shm")])
        }
        (None, Some(mount)) => sized(scope, mount),
        (None, None) if worker.by_operator => Ok(vec![Draft::ok(
            "shared memory is the operator's default of 8Gi",
        )]),
        (None, None) => Err(Skip::not_applicable()),
    }
}

/// A size that somebody wrote down.
fn sized(scope: &WorkerScope<'_>, size: &str) -> Outcome {
    let worker = scope.worker;
    let asked = shm::asked(worker.engine);
    let (detail, or_more) = match quantity::bytes(size) {
        Some(0) => (
            format!(
                "the operator's shared memory is switched off: /dev/shm is the runtime's 64 MiB; {}",
                asked.words
            ),
            "",
        ),
        Some(bytes) if bytes < shm::SMALL => (
            format!("shared memory is set to {size}; {}", asked.words),
            " or more",
        ),
        Some(_) => return Ok(vec![Draft::ok(format!("shared memory is set to {size}"))]),
        None => {
            let detail = format!("shared memory is set to {size}, which is no size");
            return Err(Skip::new(SkipReason::Unresolved, detail));
        }
    };
    let at = [worker.shm_spot.as_ref().unwrap_or(&worker.spot).evidence()];
    let fix = format!("set the shared memory size to {}{or_more}", asked.size);
    Ok(vec![
        Draft::warn(detail).with(at).fix(fix).paste(lines(scope)),
    ])
}

/// The size that the guides ask for, where this API version keeps it.
fn lines(scope: &WorkerScope<'_>) -> String {
    let asked = shm::asked(scope.worker.engine).size;
    // Who wrote down enough keeps it.
    let own = scope.worker.shm_user_mount.as_deref();
    let enough = |own: &&str| quantity::bytes(own).is_some_and(|bytes| bytes >= shm::SMALL);
    let size = own.filter(enough).unwrap_or(asked);
    shm::lines(scope.workload, scope.worker, size)
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::{
        GPU, Pod, alone, alpha, both, deployment, graph, lines, report, table, vllm,
    };
    use crate::report::Status::{Ok, Skipped, Warn};

    #[test]
    fn table_of_statuses() {
        const MOUNT: &str = "volumeMounts: [{name: m, mountPath: /dev/shm}]";
        let volume =
            |size: &str| format!("volumes: [{{name: m, emptyDir: {{medium: Memory{size}}}}}]");
        let size = |size: &str| both(Pod::of(GPU).component(&format!("sharedMemorySize: {size}")));
        let started = lines(&[MOUNT, &vllm("[\"UCX\"]")]);
        table(
            "shm-small",
            &[
                ("as the guides ask", size("16Gi"), &[Ok, Ok]),
                ("the operator's default", graph(GPU), &[Ok, Ok]),
                ("v1alpha1", alpha("sharedMemory: {size: 80Gi}"), &[Ok, Ok]),
                ("too small", size("8Gi"), &[Warn, Warn]),
                ("switched off", size("\"0\""), &[Warn, Warn]),
                (
                    "v1alpha1, switched off",
                    alpha("sharedMemory: {disabled: true}"),
                    &[Warn, Warn],
                ),
                (
                    "a mount that the operator replaces",
                    both(Pod::of(MOUNT).spec(&volume(", sizeLimit: 64Gi"))),
                    &[Warn, Warn],
                ),
                (
                    "a mount and a size",
                    both(
                        Pod::of(MOUNT)
                            .spec(&volume(""))
                            .component("sharedMemorySize: 32Gi"),
                    ),
                    &[Ok, Ok],
                ),
                ("a placeholder", size("\"${SHM}\""), &[Skipped, Skipped]),
                (
                    "without the operator, a mount",
                    deployment(&started, &volume(", sizeLimit: 64Gi")),
                    &[Ok],
                ),
                (
                    "without the operator, a mount without limit",
                    deployment(&started, &volume("")),
                    &[Ok],
                ),
                (
                    "without the operator, a small mount",
                    deployment(&started, &volume(", sizeLimit: 1Gi")),
                    &[Warn],
                ),
                (
                    "without the operator, a placeholder",
                    deployment(&started, &volume(", sizeLimit: \"${SHM}\"")),
                    &[Skipped],
                ),
                (
                    "without the operator, nothing",
                    deployment(&vllm("[\"UCX\"]"), ""),
                    &[],
                ),
                (
                    "aggregated",
                    alone(Pod::of(GPU).component("sharedMemorySize: 1Gi")),
                    &[],
                ),
            ],
        );
    }

    #[test]
    fn one_report_says_one_number() {
        for (engine, asked, other) in [
            ("dynamo.trtllm", "80Gi", "16Gi"),
            ("dynamo.vllm", "16Gi", "80Gi"),
            ("dynamo.sglang", "16Gi", "80Gi"),
        ] {
            let started = lines(&[GPU, &format!("command: [python3, -m, {engine}]")]);
            let report = report(&both(Pod::of(&started).component("sharedMemorySize: 8Gi")));
            let entry = report.fix_first.iter().find(|f| f.id == "K8S013").unwrap();
            let parts = [
                Some(&entry.detail),
                entry.fix.as_ref(),
                entry.paste.as_ref(),
            ];
            for said in parts.into_iter().flatten() {
                assert!(said.contains(asked), "{engine}: {said}");
                assert!(!said.contains(other), "{engine}: {said}");
            }
            assert!(entry.detail.contains("guide"), "{}", entry.detail);
        }
    }

    #[test]
    fn who_wrote_enough_keeps_it() {
        for (written, pasted) in [("64Gi", "64Gi"), ("1Gi", "16Gi")] {
            let mount = "volumeMounts: [{name: m, mountPath: /dev/shm}]";
            let volume = format!(
                "volumes: [{{name: m, emptyDir: {{medium: Memory, sizeLimit: {written}}}}}]"
            );
            let report = report(&both(Pod::of(mount).spec(&volume)));
            let found = report.fix_first.iter().find(|f| f.id == "K8S013").unwrap();
            let paste = found.paste.as_deref().unwrap();
            assert!(
                paste.ends_with(&format!("sharedMemorySize: {pasted}")),
                "{paste}"
            );
        }
    }
}
