use crate::check;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::mover::{self, Mover, WRAPPERS};
use crate::checks::{WorkerScope, WorkloadScope};
use crate::judge::context::Backend;
use crate::manifest::workload::{Role, Worker};
use crate::observed::Skip;

check! {
    /// Prefill and decode move KV by different connectors or backends.
    ///
    /// ## Why it matters
    /// The two ends shake hands on how KV is laid out and moved. Different connectors, NIXL backends or block layouts end in a
    /// refused handshake, and decode computes everything again.
    ///
    /// ## Fix
    /// Give both roles the same connector configuration; only the role in it may differ. TensorRT-LLM transfers no KV at all where
    /// its engine configuration has no `cache_transceiver_config.backend`.
    ///
    /// ## False alarms
    /// A connector that holds others (`MultiConnector`, `PdConnector`) may meet what it holds, so its name is not compared.
    ///
    /// ## Sources
    /// ai-dynamo/dynamo#10027; vllm-project/vllm#29503.
    "DEP004" "kv-connector-differs" on Workload {
        subsystem: Deployment, kv_path: Supporting, worst: Fail, causes: &[], since: "0.1.0",
    }
}

fn run(scope: &WorkloadScope<'_>) -> Outcome {
    scope.over_pairs(|left, right| pair(scope, left, right))
}

/// One pair of ends.
fn pair(scope: &WorkloadScope<'_>, left: &Worker, right: &Worker) -> Outcome {
    // What an encode worker hands on is no KV.
    if left.role == Role::Encode {
        return Err(Skip::not_applicable());
    }
    let stated = |w: &Worker| {
        let kv = &w.kv_transfer;
        kv.connector.is_some() || kv.backend.is_some() || kv.unresolved.is_some() || kv.off
    };
    if !stated(left) && !stated(right) {
        return Err(Skip::not_applicable());
    }
    let off: Vec<&Worker> = [left, right]
        .into_iter()
        .filter(|w| w.kv_transfer.off)
        .collect();
    if !off.is_empty() {
        let called: Vec<String> = off.iter().map(|w| w.called()).collect();
        let detail = format!(
            "the engine configuration of {} has no cache_transceiver_config.backend, and without it TensorRT-LLM transfers no KV",
            called.join(" and ")
        );
        return Ok(vec![
            Draft::fail(detail)
                .headline("KV transfer is off in the engine configuration")
                .with(off.iter().map(|w| w.spot.evidence()))
                .fix("add `cache_transceiver_config: {backend: DEFAULT}` to the engine configuration of both roles"),
        ]);
    }
    let workload = scope.workload;
    let backend = |worker: &Worker| {
        WorkerScope {
            worker,
            workload,
            on_one_node: false,
            running: scope.engines.running(workload, worker.role),
            written: None,
        }
        .backend()
    };
    let (a, b) = (backend(left), backend(right));
    let (a, b) = (*a.get()?, *b.get()?);
    let differs = |what: &str, x: &str, y: &str| {
        let detail = format!(
            "{what} is {x} on {} and {y} on {}",
            left.called(),
            right.called()
        );
        Ok(vec![
            Draft::fail(detail)
                .headline("the ends of the KV path move KV in different ways")
                .with([left.spot.evidence(), right.spot.evidence()])
                .fix("give both roles the same connector, backend and layout"),
        ])
    };
    let mover = |worker| match mover::of(None, Some((worker, workload))) {
        Some(Mover::Other(other)) => other.name,
        _ => "another mover than NIXL",
    };
    let both_other = a == Backend::Other && b == Backend::Other;
    let (own, peer) = (mover(left), mover(right));
    if both_other && own != peer {
        return differs("what moves KV", own, peer);
    }
    let unknown = a == Backend::Unknown || b == Backend::Unknown;
    if a != b && !unknown {
        // On EFA one of the two is wrong in itself, which says what to do.
        return differs("the backend that moves KV", word(a), word(b)).map(|drafts| {
            let follow = |draft: Draft| draft.follows("efa-backend");
            drafts.into_iter().map(follow).collect()
        });
    }
    let (kv, peer) = (&left.kv_transfer, &right.kv_transfer);
    if let (Some(x), Some(y)) = (
        family(kv.connector.as_deref()),
        family(peer.connector.as_deref()),
    ) && x != y
    {
        return differs("kv_connector", x, y);
    }
    let layers = |on: Option<bool>| if on == Some(true) { "on" } else { "off" };
    let (x, y) = (layers(kv.cross_layers), layers(peer.cross_layers));
    if x != y {
        return differs("enable_cross_layers_blocks", x, y);
    }
    if unknown {
        return Err(Skip::not_applicable());
    }
    let by = if both_other { own } else { word(a) };
    Ok(vec![Draft::ok(format!("both roles move KV by {by}"))])
}

fn word(backend: Backend) -> &'static str {
    match backend {
        Backend::Ucx => "UCX",
        Backend::Libfabric => "LIBFABRIC",
        Backend::Other => "another mover than NIXL",
        Backend::Unknown => "unknown",
    }
}

/// The name by which connectors that meet are equal; None for one that holds others.
fn family(connector: Option<&str>) -> Option<&str> {
    let name = connector?;
    match name {
        _ if WRAPPERS.contains(&name) => None,
        // Who pulls and who pushes is decided per side.
        "NixlPullConnector" | "NixlPushConnector" => Some("NixlConnector"),
        _ => Some(name),
    }
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::{
        EFA, Pod, alone, graph, lines, report, sglang, table, trtllm, two_sided, vllm,
    };
    use crate::report::Status::{Fail, Ok, Skipped};

    fn connector(json: &str) -> String {
        format!("command: [python3, -m, dynamo.vllm]\nargs: [--kv-transfer-config, '{json}']")
    }

    #[test]
    fn table_of_statuses() {
        let nixl = connector(r#"{"kv_connector":"NixlConnector","kv_role":"kv_producer"}"#);
        let consumer = nixl.replace("producer", "consumer");
        let mooncake = connector(r#"{"kv_connector":"MooncakeConnector"}"#);
        let flex = connector(r#"{"kv_connector":"FlexKVConnectorV1"}"#);
        let lm = connector(r#"{"kv_connector":"LMCacheConnectorV1"}"#);
        let multi = connector(
            r#"{"kv_connector":"MultiConnector","kv_connector_extra_config":{"connectors":[{"kv_connector":"NixlConnector"}]}}"#,
        );
        let layers = connector(
            r#"{"kv_connector":"NixlConnector","kv_connector_extra_config":{"enable_cross_layers_blocks":"True"}}"#,
        );
        let of = |backend: &str| sglang(&format!("--disaggregation-transfer-backend, {backend}"));
        let open = "command: [python3, -m, dynamo.vllm]\nargs: [--kv-transfer-config, $(CONFIG)]";
        table(
            "kv-connector-differs",
            &[
                ("only the role differs", two_sided(&nixl, &consumer), &[Ok]),
                ("another mover", two_sided(&nixl, &mooncake), &[Fail]),
                ("another connector", two_sided(&flex, &lm), &[Fail]),
                (
                    "another NIXL backend",
                    two_sided(&vllm(r#"["UCX"]"#), &vllm(r#"["LIBFABRIC"]"#)),
                    &[Fail],
                ),
                ("one that holds it", two_sided(&multi, &nixl), &[Ok]),
                ("another layout", two_sided(&layers, &nixl), &[Fail]),
                ("the same layout", two_sided(&layers, &layers), &[Ok]),
                ("SGLang", two_sided(&of("nixl"), &of("nixl")), &[Ok]),
                (
                    "SGLang, two other movers",
                    two_sided(&of("mori"), &of("mooncake")),
                    &[Fail],
                ),
                (
                    "SGLang, the same other mover",
                    two_sided(&of("mooncake"), &of("mooncake")),
                    &[Ok],
                ),
                (
                    "TensorRT-LLM, transfer is off",
                    trtllm("tensor_parallel_size: 4", "tensor_parallel_size: 4"),
                    &[Fail],
                ),
                (
                    "TensorRT-LLM, transfer is on",
                    trtllm(
                        "cache_transceiver_config: {backend: DEFAULT}",
                        "cache_transceiver_config: {backend: NIXL}",
                    ),
                    &[Ok],
                ),
                (
                    "SGLang, another mover",
                    two_sided(&of("nixl"), &of("mooncake")),
                    &[Fail],
                ),
                ("known only at run time", two_sided(&nixl, open), &[Skipped]),
                ("stated by none", graph("env: []"), &[]),
                ("aggregated", alone(Pod::of(&nixl)), &[]),
            ],
        );
    }

    #[test]
    fn what_is_wrong_on_efa_by_itself_comes_first() {
        let side = |backend: &str| lines(&[EFA, &vllm(backend)]);
        let both = report(&two_sided(&side("[\"LIBFABRIC\"]"), &side("[\"UCX\"]")));
        let fails: Vec<&str> = both
            .fix_first
            .iter()
            .filter(|fix| fix.status == Fail)
            .map(|fix| fix.id)
            .collect();
        assert_eq!(fails, ["K8S003"]);
        let below = &both.fix_first[0].consequences;
        assert!(below.iter().any(|c| c.id == "DEP004"), "{below:?}");
    }
}
