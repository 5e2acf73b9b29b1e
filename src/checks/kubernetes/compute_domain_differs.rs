use crate::check;
use crate::checks::WorkloadScope;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::env::mnnvl_without_domain::switched_on;
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
        subsystem: Kubernetes, kv_path: Required, worst: Fail, causes: &["env:UCX_TLS", "ENV008", "K8S001"], since: "0.1.0",
    }
}

fn run(scope: &WorkloadScope<'_>) -> Outcome {
    scope.require_kv()?;
    let (left, right) = scope.sides().ok_or_else(Skip::not_applicable)?;
    let (with, without) = match (left.compute_domain(), right.compute_domain()) {
        (false, false) => return Err(Skip::not_applicable()),
        (true, true) => return Ok(vec![Draft::ok("both roles claim a ComputeDomain channel")]),
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
        "{} ({}) claims a ComputeDomain channel and {} ({}) does not: multi-node NVLink is impossible between them",
        with.name, with.role, without.name, without.role
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
    let (pod, container) = match api_version {
        "nvidia.com/v1alpha1" => (
            format!("spec.services.{}.extraPodSpec", without.name),
            format!("spec.services.{}", without.name),
        ),
        "nvidia.com/v1beta1" => (
            format!("spec.components[{}].podTemplate.spec", without.name),
            format!(
                "spec.components[{}].podTemplate.spec.containers[main]",
                without.name
            ),
        ),
        _ => (
            "the pod's spec".to_owned(),
            "the worker's container".to_owned(),
        ),
    };
    format!(
        "# under {container}\nresources:\n  claims:\n    - name: {name}\n# under {pod}\nresourceClaims:\n  - name: \
         {name}\n    resourceClaimTemplateName: {template}"
    )
}
