use crate::check;
use crate::checks::WorkerScope;
use crate::checks::declare::{Draft, Outcome};
use crate::observed::Skip;
use crate::report::SkipReason;

check! {
    /// A resource claim refers to a template that the input does not hold.
    ///
    /// ## Why it matters
    /// The template says whether the claim is an RDMA device, a ComputeDomain channel or something else. Without it the
    /// reach of the pod is not known. Running containers that can open RDMA devices or an IMEX channel show it.
    ///
    /// ## Fix
    /// Name the directory that also holds the ResourceClaimTemplate or the ComputeDomain, and replace placeholders.
    "K8S015" "claim-unresolved" on Worker {
        subsystem: Kubernetes, kv_path: Required, worst: Skipped, causes: &[], since: "0.1.0",
    }
}

fn run(scope: &WorkerScope<'_>) -> Outcome {
    scope.require_kv()?;
    match scope.worker.unresolved_claims.as_slice() {
        // What the claims give is there to be seen.
        _ if scope.running.opens_devices || scope.running.holds_channel => {
            Err(Skip::not_applicable())
        }
        [] => Err(Skip::not_applicable()),
        claims => {
            let detail = format!("the template of {} is not in this input", claims.join(", "));
            let skip = Skip::new(SkipReason::Unresolved, detail);
            Ok(vec![
                Draft::skipped(skip)
                    .with([scope.worker.resources_spot.evidence()])
                    .fix(
                        "add the ResourceClaimTemplate, or the ComputeDomain that makes it, to the input; in a cluster let this tool get \
                         it (docs/rbac.yaml)",
                    ),
            ])
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::{
        CLAIM, GPU, Pod, alone, both, channel, claim_template, claims, graph, table,
    };
    use crate::report::Status::Skipped;

    #[test]
    fn table_of_statuses() {
        let declared = claims("chan");
        let pod = Pod::of(CLAIM).spec(&declared);
        table(
            "claim-unresolved",
            &[
                ("no template", both(pod), &[Skipped, Skipped]),
                ("not even declared", graph(CLAIM), &[Skipped, Skipped]),
                ("a channel", both(pod) + &channel("chan"), &[]),
                (
                    "a template",
                    both(pod) + &claim_template("chan", "gpu.nvidia.com"),
                    &[],
                ),
                ("no claim", graph(GPU), &[]),
                ("aggregated", alone(pod), &[]),
            ],
        );
    }
}
