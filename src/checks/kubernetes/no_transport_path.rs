use crate::check;
use crate::checks::WorkerScope;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::scope::known;
use crate::manifest::workload::{Reach, Worker};
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
    /// Recipes that pack both roles on one node on purpose (podAffinity) and rely on NVLink between their pods: of running pods
    /// that share a node and its PID and IPC namespaces nothing is asked. A cluster whose admission webhook adds the resource, and privileged
    /// containers, which see the devices of their node: where all running containers can open some this is no finding.
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
    // KV stays on NVLink of the node.
    if scope.on_one_node && worker.reach.is_empty() && worker.unresolved_claims.is_empty() {
        return Err(Skip::not_applicable());
    }
    // A claim whose template is not at hand may have a telling name and is no more than a hint.
    let only_hinted = worker.claim_classes.is_empty()
        && worker
            .reach
            .iter()
            .all(|r| matches!(r, Reach::ComputeDomain | Reach::DraRdma));
    if let Some(claim) = worker.unresolved_claims.first().filter(|_| only_hinted) {
        let shown = match (scope.running.opens_devices, scope.running.holds_channel) {
            (true, _) => Some("can open RDMA devices"),
            (false, true) => Some("have an IMEX channel"),
            (false, false) => None,
        };
        if let Some(shown) = shown {
            let detail = format!(
                "the pod claims {claim}, whose template was not read, and the containers that run {shown}"
            );
            return Ok(vec![
                Draft::ok(detail).with([worker.resources_spot.evidence()]),
            ]);
        }
        let detail = format!(
            "the pod claims {claim}, whose template is not in this input: it may be a fast path"
        );
        return Err(Skip::new(SkipReason::Unresolved, detail));
    }
    if !worker.reach.is_empty() {
        let forms: Vec<&str> = worker.reach.iter().map(|r| r.word()).collect();
        let detail = format!("the pod asks for a fast path: {}", forms.join(", "));
        return Ok(vec![
            Draft::ok(detail).with([worker.resources_spot.evidence()]),
        ]);
    }
    if scope.running.opens_devices {
        let detail = "the pod asks for no RDMA device, and the containers that run can open some all the same";
        return Ok(vec![
            Draft::ok(detail).with([worker.resources_spot.evidence()]),
        ]);
    }
    known(worker, "resources")?;
    let peer = scope
        .workload
        .workers
        .iter()
        .find(|w| !w.rdma_resources.is_empty());
    let mut detail =
        "the pod asks for no RDMA device, no ComputeDomain and no host device, ".to_owned();
    detail.push_str(match worker.privileged {
        // Who is privileged sees the devices of the node, whichever it is.
        true => "so KV travels over TCP unless this privileged container finds devices on its node, which nothing assures",
        false => "so as it is written KV can only travel over TCP",
    });
    if let Some(peer) = peer {
        let names: Vec<&str> = peer.rdma_resources.keys().map(String::as_str).collect();
        detail.push_str(&format!(
            "; {} requests {}",
            peer.called(),
            names.join(", ")
        ));
    }
    let locks = worker.ipc_lock || worker.privileged;
    let lock = if locks { "" } else { " and add IPC_LOCK" };
    let draft = Draft::warn(detail)
        .headline("the pod asks for nothing that could carry KV fast")
        .with([worker.resources_spot.evidence()])
        .fix(format!(
            "request the cluster's RDMA resource{lock}, or render the overlay that does"
        ))
        .paste(scope.for_container(&lines(worker, peer)));
    Ok(vec![draft])
}

/// What to add. The resource is the peer's, else a guess that says so.
fn lines(worker: &Worker, peer: Option<&Worker>) -> String {
    let known = peer.and_then(|p| p.rdma_resources.keys().find(|k| !k.ends_with(".IP")));
    let resource = known.map_or("rdma/ib", String::as_str);
    // A shared device plugin hands out access to all HCAs with one unit; exclusive ones count per device.
    let count = if resource.contains("shared") {
        1
    } else {
        worker.gpus.unwrap_or(1)
    };
    let guess = if known.is_some() {
        ""
    } else {
        "  # or the name that your device plugin offers"
    };
    let mut lines = format!("resources:\n  limits:\n    {resource}: \"{count}\"{guess}");
    if !worker.ipc_lock && !worker.privileged {
        lines.push_str("\nsecurityContext:\n  capabilities:\n    add: [IPC_LOCK]");
    }
    lines
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::{
        Answers, CLAIM, EFA, Fleet, GPU, HOST_DEVICES, HOST_VOLUME, Pod, RDMA, UNFILLED, alone,
        alpha, both, channel, claim_template, claims, deployment, encode_pd, env, graph, hca, hcas,
        lines, report, table, two_sided, vllm,
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
                ("a placeholder", graph(UNFILLED), &[Skipped, Skipped]),
                (
                    "a placeholder beside the host's network",
                    both(Pod::of(UNFILLED).spec("hostNetwork: true")),
                    &[Ok, Ok],
                ),
                (
                    "a placeholder for the volumes",
                    both(Pod::of(GPU).spec("volumes: ${VOLUMES}")),
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

    #[test]
    fn what_every_running_container_can_open_decides() {
        let (opens, none) = (hcas(&["4: ACTIVE"]), hca("mlx5_0", "4: ACTIVE", "EPERM"));
        let of = |decode: &[&Answers], rights: &str| {
            let mut pods = vec![("prefill", &opens[..])];
            pods.extend(decode.iter().map(|answers| ("decode", &answers[..])));
            let body = lines(&[
                "image: i",
                GPU,
                rights,
                &env(&[("UCX_TLS", "rc,cuda_copy")]),
            ]);
            let fleet = Fleet::of(&pods)
                .body("prefill", &body)
                .body("decode", &body);
            let count = |status| {
                let found = fleet.findings("no-transport-path");
                found.iter().filter(|f| f.status == status).count()
            };
            (
                count(Ok),
                count(Warn),
                fleet.statuses("tls-without-device").len(),
            )
        };
        let privileged = "securityContext: {privileged: true}";
        assert_eq!(of(&[&opens, &opens], privileged), (2, 0, 0));
        assert_eq!(of(&[&opens, &none], privileged), (1, 1, 1));
        let as_written = report(&graph(&lines(&[GPU, privileged])));
        let said = as_written.checks.iter().find(|f| f.id == "K8S001").unwrap();
        assert_eq!(said.status, Warn);
        assert!(
            said.detail.contains("privileged container"),
            "{}",
            said.detail
        );
    }
}
