use crate::check;
use crate::checks::WorkerScope;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::words;
use crate::manifest::workload::{Engine, Worker};
use crate::observed::{Observed, Skip};

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
    match scope.backend() {
        Observed::Known(_) => Err(Skip::not_applicable()),
        Observed::Missing(skip) => Ok(vec![
            Draft::skipped(skip)
                .with([scope.worker.spot.evidence()])
                .fix(stated(scope.worker)),
        ]),
    }
}

/// How to state the backend where it is read.
fn stated(worker: &Worker) -> String {
    if let Some(what) = &worker.kv_transfer.laid_over {
        return words::write_out(what);
    }
    let over = |what: &String| what.starts_with("cache_transceiver_config.backend");
    if worker.kv_transfer.unresolved.as_ref().is_some_and(over) {
        return "write its backend into --override-engine-args, too".to_owned();
    }
    let flag = match worker.engine {
        Some(Engine::Vllm) | None => "`--kv-transfer-config` with its JSON",
        Some(Engine::Sglang) => "`--disaggregation-transfer-backend nixl`",
        Some(Engine::Trtllm) => "`--trtllm.cache_transceiver_config.backend DEFAULT`",
    };
    format!(
        "state the backend among the arguments of the worker ({flag}), or add what decides it to the input; in a cluster, a ConfigMap \
         that this tool may get (docs/rbac.yaml)"
    )
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::{GPU, Pod, alone, env, graph, lines, sglang, table, unread, vllm};
    use crate::report::Status::Skipped;

    #[test]
    fn table_of_statuses() {
        let nixl = sglang("--disaggregation-transfer-backend, nixl");
        let by_field = lines(&[&nixl, &unread("SGLANG_DISAGGREGATION_NIXL_BACKEND")]);
        let by_reference =
            "command: [python3, -m, dynamo.vllm]\nargs: [--kv-transfer-config, $(KV)]";
        let libfabric = lines(&[
            "command: [python3, -m, dynamo.trtllm, --extra-engine-args, /x.yaml]",
            &env(&[("TRTLLM_NIXL_KVCACHE_BACKEND", "LIBFABRIC")]),
        ]);
        table(
            "kv-backend-unresolved",
            &[
                (
                    "a flag nobody fills in",
                    graph(by_reference),
                    &[Skipped, Skipped],
                ),
                (
                    "a file that is elsewhere",
                    graph(&sglang("--config, /etc/sglang/prefill.yaml")),
                    &[Skipped, Skipped],
                ),
                (
                    "a variable from a field",
                    graph(&by_field),
                    &[Skipped, Skipped],
                ),
                ("by default", graph(&nixl), &[]),
                ("written out", graph(&vllm("[\"UCX\"]")), &[]),
                ("nothing says", graph(GPU), &[]),
                (
                    "variables nobody fills in",
                    graph(&lines(&[&nixl, "env: ${VARIABLES}"])),
                    &[Skipped, Skipped],
                ),
                (
                    "a file that is elsewhere, and TensorRT-LLM's own variable",
                    graph(&libfabric),
                    &[Skipped, Skipped],
                ),
                ("aggregated", alone(Pod::of(by_reference)), &[]),
            ],
        );
    }
}
