use crate::check;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::env::mnnvl_without_domain::switched_on;
use crate::checks::{WorkloadScope, container_place, pod_place};
use crate::manifest::workload::Worker;
use crate::observed::Skip;
use crate::report::SkipReason;

check! {
    /// One role claims a ComputeDomain channel and the other does not.
    ///
    /// ## Why it matters
    /// Multi-node NVLink needs an IMEX channel at both ends. With one end outside, KV takes the NIC, or TCP where there is
    /// none: the transport list `cuda_copy,cuda_ipc,tcp` that is right inside a domain is a TCP list outside of it.
    ///
    /// ## Fix
    /// Claim the same ComputeDomain channel in prefill and decode, and size `numNodes` for both.
    ///
    /// ## Sources
    /// Dynamo guide on TensorRT-LLM KV transfer; NVIDIA IMEX guide.
    "K8S002" "compute-domain-differs" on Workload {
        subsystem: Kubernetes, kv_path: Required, worst: Fail, causes: &["ENV008", "K8S001"], since: "0.1.0",
    }
}

fn run(scope: &WorkloadScope<'_>) -> Outcome {
    scope.over_pairs(|left, right| pair(scope, left, right))
}

/// One pair of ends.
fn pair(scope: &WorkloadScope<'_>, left: &Worker, right: &Worker) -> Outcome {
    let (with, without) = match (left.compute_domain(), right.compute_domain()) {
        (false, false) => return Err(Skip::not_applicable()),
        (true, true) => return Ok(vec![both(left, right)?]),
        (true, false) => (left, right),
        (false, true) => (right, left),
    };
    if let Some(claim) = without.unresolved_claims.first() {
        let detail = format!(
            "{} claims {claim}, whose template is not in this input",
            without.name
        );
        return Err(Skip::new(SkipReason::Unresolved, detail));
    }
    let detail = format!(
        "{} claims a ComputeDomain channel and {} does not: multi-node NVLink is impossible between them",
        with.called(),
        without.called()
    );
    let meant = [left, right].into_iter().find_map(switched_on);
    let rdma = left.rdma_requested() && right.rdma_requested();
    let draft = match meant {
        Some((name, _)) if !rdma => Draft::fail(format!(
            "{detail}; {name} is on and there is no RDMA to fall back to, so KV travels over TCP"
        )),
        _ => Draft::warn(detail),
    };
    let evidence = meant.map(|(_, entry)| entry.spot.evidence());
    Ok(vec![
        draft
            .with([without.spot.evidence()])
            .with(evidence)
            .fix(format!(
                "claim the same ComputeDomain channel in {}",
                without.name
            ))
            .paste(lines(&scope.workload.api_version, with, without)),
    ])
}

/// Both claim: the same domain is right, two domains are two islands.
fn both(left: &Worker, right: &Worker) -> Result<Draft, Skip> {
    if let (Some(a), Some(b)) = (domain_of(left), domain_of(right)) {
        if a == b {
            return Ok(Draft::ok(
                "both roles claim a channel of the same ComputeDomain",
            ));
        }
        let detail = format!(
            "{} claims a channel of {a}, and {} one of {b}: NVLink does not reach from one to the other",
            left.called(),
            right.called()
        );
        return Ok(Draft::warn(detail)
            .with([left.spot.evidence(), right.spot.evidence()])
            .fix("claim a channel of one ComputeDomain in both roles"));
    }
    if left
        .claims
        .values()
        .any(|t| right.claims.values().any(|o| o == t))
    {
        return Ok(Draft::ok(
            "both roles claim a ComputeDomain channel by the same template",
        ));
    }
    let detail = "both roles claim a ComputeDomain channel; the templates that say of which domain are not in this input";
    Err(Skip::new(SkipReason::Unresolved, detail))
}

/// `ComputeDomain:name` of the channel a worker claims, when its template is in the input.
fn domain_of(worker: &Worker) -> Option<&str> {
    let classes = worker
        .claim_classes
        .values()
        .flat_map(|classes| classes.split(','));
    classes
        .into_iter()
        .find(|class| class.starts_with("ComputeDomain:"))
}

/// The claim of the other role, under the places where this API version keeps it.
fn lines(api_version: &str, with: &Worker, without: &Worker) -> String {
    let domain = |(_, classes): &(&String, &String)| classes.contains("ComputeDomain");
    let name = with
        .claim_classes
        .iter()
        .find(domain)
        .map(|(name, _)| name)
        .or_else(|| with.claims.keys().next());
    let name = name.map_or("compute-domain-channel", String::as_str);
    let template = with
        .claims
        .get(name)
        .map_or("your-compute-domain-channel", String::as_str);
    let pod = pod_place(api_version, without);
    // v1alpha1 keeps claims beside the limits of the service, not in the container.
    let container = match api_version {
        "nvidia.com/v1alpha1" => format!("spec.services.{}", without.name),
        _ => container_place(api_version, without),
    };
    format!(
        "# under {container}\nresources:\n  claims:\n    - name: {name}\n# under {pod}\nresourceClaims:\n  - name: \
         {name}\n    resourceClaimTemplateName: {template}"
    )
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::{
        CLAIM, GPU, MOCKER, Pod, RDMA, alone, beta, channel, claims, env, graph, lines, pair, table,
    };
    use crate::report::Status::{Fail, Ok, Skipped, Warn};

    #[test]
    fn table_of_statuses() {
        let declared = claims("chan");
        let on = env(&[("UCX_CUDA_IPC_ENABLE_MNNVL", "y")]);
        let (claim_on, rdma_on) = (lines(&[CLAIM, &on]), lines(&[RDMA, &on]));
        let claim_rdma = "resources: {limits: {rdma/ib: 1}, claims: [{name: c}]}";
        let claim_rdma_on = lines(&[claim_rdma, &on]);
        let inside = |container| Pod::of(container).spec(&declared);
        let elsewhere = claims("elsewhere");
        let known = |text: String| text + &channel("chan");
        table(
            "compute-domain-differs",
            &[
                (
                    "both claim",
                    known(pair(inside(CLAIM), inside(CLAIM))),
                    &[Ok],
                ),
                (
                    "one claims",
                    known(pair(inside(CLAIM), Pod::of(GPU))),
                    &[Warn],
                ),
                (
                    "the other claims",
                    known(pair(Pod::of(GPU), inside(CLAIM))),
                    &[Warn],
                ),
                (
                    "one claims, switched on",
                    known(pair(inside(&claim_on), Pod::of(GPU))),
                    &[Fail],
                ),
                (
                    "one claims, switched on at the other",
                    known(pair(inside(CLAIM), Pod::of(&on))),
                    &[Fail],
                ),
                (
                    "one claims, switched on, RDMA at one",
                    known(pair(inside(&claim_on), Pod::of(&rdma_on))),
                    &[Fail],
                ),
                (
                    "one claims, switched on, RDMA at both",
                    known(pair(inside(&claim_rdma_on), Pod::of(&rdma_on))),
                    &[Warn],
                ),
                (
                    "encode claims, its receiver does not",
                    known(beta(&[
                        ("e", "encode", inside(CLAIM)),
                        ("w", "worker", Pod::of(GPU)),
                    ])),
                    &[Warn],
                ),
                (
                    "the other claim has no template",
                    known(pair(inside(CLAIM), Pod::of(CLAIM).spec(&elsewhere))),
                    &[Skipped],
                ),
                ("neither claims", graph(GPU), &[]),
                (
                    "a mocker moves nothing",
                    known(pair(inside(&lines(&[CLAIM, MOCKER])), Pod::of(MOCKER))),
                    &[],
                ),
                ("aggregated", known(alone(inside(CLAIM))), &[]),
            ],
        );
    }
}
