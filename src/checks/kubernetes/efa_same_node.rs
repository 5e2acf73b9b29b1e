use crate::check;
use crate::checks::WorkloadScope;
use crate::checks::declare::{Draft, Outcome};
use crate::observed::Skip;

check! {
    /// Nothing keeps EFA prefill and decode pods on different nodes.
    ///
    /// ## Why it matters
    /// EFA between two pods of one node does not work: the reader loops on `fi_read still retrying EAGAIN`.
    ///
    /// ## Fix
    /// Add a podAntiAffinity on `kubernetes.io/hostname` against the other role; one side is enough.
    ///
    /// ## Sources
    /// Dynamo guide "EFA on AWS".
    "K8S011" "efa-same-node" on Workload {
        subsystem: Kubernetes, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

fn run(scope: &WorkloadScope<'_>) -> Outcome {
    scope.require_kv()?;
    let (left, right) = scope.sides().ok_or_else(Skip::not_applicable)?;
    if !left.efa() && !right.efa() {
        return Err(Skip::not_applicable());
    }
    if scope.workload.separates_roles {
        return Ok(vec![Draft::ok(
            "pod anti-affinity keeps the roles on different nodes",
        )]);
    }
    let detail = format!(
        "no podAntiAffinity on kubernetes.io/hostname keeps {} and {} on different nodes",
        left.name, right.name
    );
    let key = "nvidia.com/dynamo-component";
    let paste = format!(
        "affinity:\n  podAntiAffinity:\n    requiredDuringSchedulingIgnoredDuringExecution:\n      - labelSelector:\n          \
         matchLabels: {{{key}: {}}}\n        topologyKey: kubernetes.io/hostname",
        right.name
    );
    let fix = format!(
        "add the anti-affinity to {} (one side is enough)",
        left.name
    );
    Ok(vec![
        Draft::warn(detail)
            .with([left.spot.evidence()])
            .fix(fix)
            .paste(paste),
    ])
}
