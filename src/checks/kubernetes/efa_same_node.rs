use crate::check;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::{WorkloadScope, pod_place};
use crate::manifest::workload::Worker;
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
    scope.over_pairs(|left, right| pair(scope, left, right))
}

/// One pair of ends.
fn pair(scope: &WorkloadScope<'_>, left: &Worker, right: &Worker) -> Outcome {
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
    let place = pod_place(&scope.workload.api_version, left);
    let paste = format!(
        "# under {place}\naffinity:\n  podAntiAffinity:\n    requiredDuringSchedulingIgnoredDuringExecution:\n      - labelSelector:\n          \
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

#[cfg(test)]
mod tests {
    use crate::checks::testing::{
        APART, EFA, MOCKER, Pod, RDMA, alone, both, graph, lines, pair, table,
    };
    use crate::report::Status::{Ok, Warn};

    #[test]
    fn table_of_statuses() {
        let preferred = APART
            .replace("required", "preferred")
            .replace("{labelSelector: {}, topologyKey: kubernetes.io/hostname}", "{weight: 1, podAffinityTerm: {labelSelector: {}, topologyKey: kubernetes.io/hostname}}");
        let zones = APART.replace("kubernetes.io/hostname", "topology.kubernetes.io/zone");
        let itself = APART.replace(
            "labelSelector: {}",
            "labelSelector: {matchLabels: {nvidia.com/dynamo-component: p}}",
        );
        let efa = Pod::of(EFA);
        table(
            "efa-same-node",
            &[
                ("one side keeps away", pair(efa.spec(APART), efa), &[Ok]),
                (
                    "the other side keeps away",
                    pair(efa, efa.spec(APART)),
                    &[Ok],
                ),
                ("nothing keeps them apart", graph(EFA), &[Warn]),
                ("EFA on one side", pair(efa, Pod::of(RDMA)), &[Warn]),
                ("only preferred", both(efa.spec(&preferred)), &[Warn]),
                ("zones are not nodes", both(efa.spec(&zones)), &[Warn]),
                (
                    "only from its own replicas",
                    pair(efa.spec(&itself), efa),
                    &[Warn],
                ),
                ("another fabric", graph(RDMA), &[]),
                ("a mocker moves nothing", graph(&lines(&[EFA, MOCKER])), &[]),
                ("aggregated", alone(efa), &[]),
            ],
        );
    }
}
