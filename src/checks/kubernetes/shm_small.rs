use crate::check;
use crate::checks::WorkerScope;
use crate::checks::declare::{Draft, Outcome};
use crate::manifest::quantity;
use crate::observed::Skip;

check! {
    /// Shared memory of a disaggregated worker is smaller than the guide asks for.
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

/// Bytes that the Dynamo guides ask for: 16Gi.
const WANTED: u64 = 16 << 30;

fn run(scope: &WorkerScope<'_>) -> Outcome {
    scope.require_kv()?;
    let worker = scope.worker;
    let at = [worker.spot.evidence()];
    match (&worker.shm, &worker.shm_user_mount) {
        (Some(size), _) => match quantity::bytes(size) {
            Some(0) => {
                let detail = "the operator's shared memory is switched off: /dev/shm is the runtime's 64 MiB";
                Ok(vec![
                    Draft::warn(detail)
                        .with(at)
                        .fix("set the shared memory size to 16Gi"),
                ])
            }
            Some(bytes) if bytes < WANTED => {
                let detail = format!(
                    "shared memory is set to {size}; the Dynamo guides ask for 16Gi (TensorRT-LLM 80Gi)"
                );
                Ok(vec![
                    Draft::warn(detail)
                        .with(at)
                        .fix("set the shared memory size to 16Gi or more"),
                ])
            }
            Some(_) => Ok(vec![Draft::ok(format!("shared memory is set to {size}"))]),
            None => Err(Skip::not_applicable()),
        },
        (None, Some(mount)) if worker.by_operator => {
            let detail = format!(
                "a volume ({mount}) is mounted on /dev/shm; the operator replaces it by its own 8Gi because no shared memory \
                 size is set"
            );
            let fix = "set sharedMemory.size (v1alpha1) or sharedMemorySize (v1beta1) instead of mounting a volume";
            Ok(vec![Draft::warn(detail).with(at).fix(fix)])
        }
        (None, Some(_)) => Ok(vec![Draft::ok("a volume is mounted on /dev/shm")]),
        (None, None) if worker.by_operator => Ok(vec![Draft::ok(
            "shared memory is the operator's default of 8Gi",
        )]),
        (None, None) => Err(Skip::not_applicable()),
    }
}
