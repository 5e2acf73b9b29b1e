use crate::check;
use crate::checks::WorkerScope;
use crate::checks::declare::{Draft, Outcome};
use crate::manifest::workload::Worker;
use crate::observed::Skip;
use crate::report::SkipReason;

check! {
    /// A prefill or decode worker asks for nothing that could carry KV fast.
    ///
    /// Counted as a path: an RDMA device-plugin resource (`rdma/*`, EFA, GKE networks), a DRA claim on an RDMA device class,
    /// a ComputeDomain channel, the host's `/dev/infiniband`, the host's network.
    ///
    /// ## Why it matters
    /// Without any of them UCX has TCP only, and the first token of a long prompt takes up to 98 s instead of 0.2 to 0.5 s.
    /// Nothing fails, nothing warns.
    ///
    /// ## Fix
    /// Add the cluster's RDMA resource to every prefill and decode worker. Recipes often leave this to an overlay: check
    /// the rendered manifest.
    ///
    /// ## False alarms
    /// Prefill and decode in one pod, or a cluster whose admission webhook adds the resource: `node` on the pod decides.
    ///
    /// ## Sources
    /// Dynamo guide "disaggregated communication" (time to first token); device plugins and DRA drivers for the forms.
    "K8S001" "no-transport-path" on Worker {
        subsystem: Kubernetes, kv_path: Supporting, worst: Warn, causes: &["ENV006", "K8S005"], since: "0.1.0",
    }
}

fn run(scope: &WorkerScope<'_>) -> Outcome {
    scope.require_kv()?;
    let worker = scope.worker;
    if !worker.reach.is_empty() {
        let forms: Vec<&str> = worker.reach.iter().map(|r| r.word()).collect();
        let detail = format!("the pod asks for a fast path: {}", forms.join(", "));
        return Ok(vec![
            Draft::ok(detail).with([worker.resources_spot.evidence()]),
        ]);
    }
    if let Some(claim) = worker.unresolved_claims.first() {
        let detail = format!(
            "the pod claims {claim}, whose template is not in this input: it may be a fast path"
        );
        return Err(Skip::new(SkipReason::Unresolved, detail));
    }
    let peer = scope
        .workload
        .workers
        .iter()
        .find(|w| !w.rdma_resources.is_empty());
    let mut detail =
        "the pod asks for no RDMA device, no ComputeDomain and no host device, so KV can only travel over TCP".to_owned();
    if let Some(peer) = peer {
        let names: Vec<&str> = peer.rdma_resources.keys().map(String::as_str).collect();
        detail.push_str(&format!(
            "; {} ({}) requests {}",
            peer.name,
            peer.role,
            names.join(", ")
        ));
    }
    let draft = Draft::warn(detail)
        .with([worker.resources_spot.evidence()])
        .fix(
            "request the cluster's RDMA resource and add IPC_LOCK, or render the overlay that does",
        )
        .paste(lines(scope.workload.api_version.as_str(), worker, peer));
    Ok(vec![draft])
}

/// The lines to paste, under the place where this API version keeps them. The resource is the peer's, else `rdma/ib`.
fn lines(api_version: &str, worker: &Worker, peer: Option<&Worker>) -> String {
    let resource = peer.and_then(|p| p.rdma_resources.keys().find(|k| !k.ends_with(".IP")));
    let resource = resource.map_or("rdma/ib", String::as_str);
    // A shared device plugin hands out access to all HCAs with one unit; exclusive ones count per device.
    let count = if resource.contains("shared") {
        1
    } else {
        worker.gpus.unwrap_or(1)
    };
    let place = match api_version {
        "nvidia.com/v1alpha1" => {
            format!("spec.services.{}.extraPodSpec.mainContainer", worker.name)
        }
        "nvidia.com/v1beta1" => format!(
            "spec.components[{}].podTemplate.spec.containers[main]",
            worker.name
        ),
        _ => "the worker's container".to_owned(),
    };
    format!(
        "# under {place}\nresources:\n  limits:\n    {resource}: \"{count}\"\nsecurityContext:\n  capabilities:\n    \
         add: [IPC_LOCK]"
    )
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::{
        CLAIM, EFA, GPU, HOST_DEVICES, HOST_VOLUME, Pod, RDMA, alone, alpha, both, channel,
        claim_template, claims, deployment, encode_pd, graph, lines, report, table, two_sided,
        vllm,
    };
    use crate::report::SkipReason;
    use crate::report::Status::{Ok, Skipped, Warn};

    #[test]
    fn every_form_of_reach_counts_and_none_is_a_warning() {
        let declared = claims("chan");
        let claiming = both(Pod::of(CLAIM).spec(&declared));
        let old = "resources: {limits: {gpu: '1', custom: {rdma/ib: '1'}}}";
        table(
            "no-transport-path",
            &[
                ("a device", graph(RDMA), &[Ok, Ok]),
                ("EFA", graph(EFA), &[Ok, Ok]),
                ("v1alpha1, a device", alpha(old), &[Ok, Ok]),
                (
                    "a device by claim",
                    claiming.clone() + &claim_template("chan", "rdma-dranet"),
                    &[Ok, Ok],
                ),
                ("a channel", claiming.clone() + &channel("chan"), &[Ok, Ok]),
                (
                    "the host's devices",
                    both(Pod::of(HOST_DEVICES).spec(HOST_VOLUME)),
                    &[Ok, Ok],
                ),
                (
                    "the host's network",
                    both(Pod::of(GPU).spec("hostNetwork: true")),
                    &[Ok, Ok],
                ),
                ("none", graph(GPU), &[Warn, Warn]),
                ("none on one side", two_sided(RDMA, GPU), &[Ok, Warn]),
                (
                    "none at the receiver of encode",
                    encode_pd(RDMA, GPU),
                    &[Ok, Warn],
                ),
                (
                    "v1alpha1, none",
                    alpha("resources: {limits: {gpu: '1'}}"),
                    &[Warn, Warn],
                ),
                (
                    "without the operator, none",
                    deployment(&lines(&[GPU, &vllm("[\"UCX\"]")]), ""),
                    &[Warn],
                ),
                (
                    "a GPU by claim is no path",
                    claiming.clone() + &claim_template("chan", "gpu.nvidia.com"),
                    &[Warn, Warn],
                ),
                (
                    "a claim without its template",
                    claiming.clone(),
                    &[Skipped, Skipped],
                ),
                ("aggregated", alone(Pod::of(GPU)), &[]),
                (
                    "a mocker moves nothing",
                    graph("command: [python3, -m, dynamo.mocker]"),
                    &[],
                ),
            ],
        );
        let report = report(&claiming);
        let skipped = report.checks.iter().find(|f| f.id == "K8S001").unwrap();
        assert_eq!(skipped.reason, Some(SkipReason::Unresolved));
    }

    #[test]
    fn the_lines_to_paste_are_yaml_for_the_api_version() {
        let report = report(&graph("resources: {limits: {nvidia.com/gpu: 4}}"));
        let fix = report.fix_first.iter().find(|f| f.id == "K8S001").unwrap();
        let paste = fix.paste.as_deref().unwrap();
        assert!(
            paste.contains("spec.components[p].podTemplate") && paste.contains("rdma/ib: \"4\""),
            "{paste}"
        );
        assert_eq!(fix.also.len(), 1, "one cause on two workers is one entry");
    }
}
