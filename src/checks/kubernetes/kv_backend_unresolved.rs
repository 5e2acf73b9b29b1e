use crate::check;
use crate::checks::WorkerScope;
use crate::checks::declare::Outcome;
use crate::observed::Skip;

check! {
    /// What decides the engine's KV backend is not in the input.
    ///
    /// ## Why it matters
    /// The backend (UCX, LIBFABRIC, Mooncake) decides which variables act at all.
    ///
    /// ## Fix
    /// Name the directory that also holds the ConfigMap with the engine's configuration, and replace placeholders.
    "K8S016" "kv-backend-unresolved" on Worker {
        subsystem: Kubernetes, kv_path: Required, worst: Skipped, causes: &[], since: "0.1.0",
    }
}

fn run(scope: &WorkerScope<'_>) -> Outcome {
    scope.require_kv()?;
    scope.backend().get()?;
    Err(Skip::not_applicable())
}
