use crate::check;
use crate::checks::WorkerScope;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::pasting;
use crate::judge::context::Backend;
use crate::manifest::workload::{Engine, UNRECOGNISED, Worker};
use crate::observed::Skip;
use crate::report::SkipReason;

check! {
    /// The pod has EFA devices, and the engine moves KV with another NIXL backend than LIBFABRIC.
    ///
    /// ## Why it matters
    /// UCX has no RC transport on EFA and emulates remote writes: about 1 GB/s was measured, against 9.6 GB/s with LIBFABRIC
    /// on four devices. `DYN_KVBM_NIXL_BACKEND_*` selects the backend of the block manager, not of the engine.
    ///
    /// ## Fix
    /// vLLM: `"kv_connector_extra_config": {"backends": ["LIBFABRIC"]}` in `--kv-transfer-config`. SGLang:
    /// SGLANG_DISAGGREGATION_NIXL_BACKEND=LIBFABRIC. TensorRT-LLM: TRTLLM_NIXL_KVCACHE_BACKEND=LIBFABRIC; its own guide
    /// recommends UCX over SRD, so there it is a warning.
    ///
    /// ## Sources
    /// Dynamo guide "EFA on AWS"; ai-dynamo/nixl#909; vllm-project/vllm#41814.
    "K8S003" "efa-backend" on Worker {
        subsystem: Kubernetes, kv_path: Required, worst: Fail, causes: &["NIXL001"], since: "0.1.0",
    }
}

fn run(scope: &WorkerScope<'_>) -> Outcome {
    scope.require_kv()?;
    let worker = scope.worker;
    if !worker.efa() {
        return Err(Skip::not_applicable());
    }
    let seen = [worker.resources_spot.evidence()];
    let named = match scope.backend().get()? {
        Backend::Libfabric => {
            return Ok(vec![Draft::ok("EFA with the LIBFABRIC backend").with(seen)]);
        }
        Backend::Ucx => "UCX",
        Backend::Other => "another backend",
        Backend::Unknown => {
            let detail =
                "the pod has EFA devices, and nothing in the input names the engine's KV backend";
            return Err(Skip::new(SkipReason::Unresolved, detail));
        }
    };
    let detail = format!(
        "the pod requests EFA devices, and its engine moves KV with {named} instead of LIBFABRIC"
    );
    let (draft, fix, lines) = match worker.engine {
        Some(Engine::Trtllm) => {
            let note = "; the guides conflict for TensorRT-LLM, which also names UCX over SRD";
            (
                Draft::warn(format!("{detail}{note}")),
                "set TRTLLM_NIXL_KVCACHE_BACKEND=LIBFABRIC, or measure both",
                // Which of the two is right is for a measurement to say.
                None,
            )
        }
        Some(Engine::Sglang) => (
            Draft::fail(detail),
            "set SGLANG_DISAGGREGATION_NIXL_BACKEND=LIBFABRIC",
            // Mooncake does not read it.
            (named == "UCX")
                .then(|| pasting::entry("SGLANG_DISAGGREGATION_NIXL_BACKEND", "LIBFABRIC")),
        ),
        _ => (
            Draft::fail(detail),
            "add \"kv_connector_extra_config\": {\"backends\": [\"LIBFABRIC\"]} to --kv-transfer-config",
            connector(worker),
        ),
    };
    let mut draft = draft.with(seen).fix(fix);
    draft.paste = lines.map(|lines| scope.for_container(&lines));
    Ok(vec![draft])
}

/// The argument of vLLM as it is to be, where all of it is known and stands among the arguments of the container.
fn connector(worker: &Worker) -> Option<String> {
    let kv = &worker.kv_transfer;
    let nixl = kv.connector.as_deref() == Some("NixlConnector");
    let role = kv.kv_role.as_deref().filter(|word| *word != UNRECOGNISED)?;
    if !kv.is_plain || !nixl {
        return None;
    }
    let mut config = format!("\"kv_connector\":\"NixlConnector\",\"kv_role\":\"{role}\"");
    if let Some(device) = kv.buffer_device.as_deref() {
        config.push_str(&format!(",\"kv_buffer_device\":\"{device}\""));
    }
    Some(format!(
        "# in place of --kv-transfer-config and its value\nargs:\n  - '--kv-transfer-config={{{config},\"kv_connector_extra_config\":{{\"backends\":[\"LIBFABRIC\"]}}}}'"
    ))
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::{
        EFA, Pod, RDMA, alone, env, graph, lines, report, sglang, table, unread, vllm,
    };
    use crate::report::Status::{Fail, Ok, Skipped, Warn};

    #[test]
    fn table_of_statuses() {
        let efa = |start: &str| lines(&[EFA, start]);
        let nixl = efa(&sglang("--disaggregation-transfer-backend, nixl"));
        let trtllm = |more: &str| {
            efa(&format!(
                "command: [python3, -m, dynamo.trtllm]\nargs: [--trtllm.cache_transceiver_config.backend, DEFAULT]\n{more}"
            ))
        };
        let by = |name, value| env(&[(name, value)]);
        let sglang_backend = "SGLANG_DISAGGREGATION_NIXL_BACKEND";
        table(
            "efa-backend",
            &[
                (
                    "vLLM with LIBFABRIC",
                    graph(&efa(&vllm("[\"LIBFABRIC\"]"))),
                    &[Ok, Ok],
                ),
                (
                    "vLLM with UCX",
                    graph(&efa(&vllm("[\"UCX\"]"))),
                    &[Fail, Fail],
                ),
                (
                    "vLLM by default",
                    graph(&efa("command: [python3, -m, dynamo.vllm]")),
                    &[Fail, Fail],
                ),
                (
                    "KVBM does not select it",
                    graph(&efa(&lines(&[
                        "command: [python3, -m, dynamo.vllm]",
                        &by("DYN_KVBM_NIXL_BACKEND_LIBFABRIC", "true"),
                    ]))),
                    &[Fail, Fail],
                ),
                (
                    "SGLang with LIBFABRIC",
                    graph(&lines(&[&nixl, &by(sglang_backend, "LIBFABRIC")])),
                    &[Ok, Ok],
                ),
                ("SGLang by default", graph(&nixl), &[Fail, Fail]),
                (
                    "SGLang with mooncake",
                    graph(&efa(&sglang("--disaggregation-transfer-backend, mooncake"))),
                    &[Fail, Fail],
                ),
                (
                    "SGLang, backend from a field",
                    graph(&lines(&[&nixl, &unread(sglang_backend)])),
                    &[Skipped, Skipped],
                ),
                (
                    "TensorRT-LLM with LIBFABRIC",
                    graph(&trtllm(&by("TRTLLM_NIXL_KVCACHE_BACKEND", "LIBFABRIC"))),
                    &[Ok, Ok],
                ),
                (
                    "TensorRT-LLM with LIBFABRIC, its file elsewhere",
                    graph(&efa(&lines(&[
                        "command: [python3, -m, dynamo.trtllm, --extra-engine-args, /x.yaml]",
                        &by("TRTLLM_NIXL_KVCACHE_BACKEND", "LIBFABRIC"),
                    ]))),
                    &[Skipped, Skipped],
                ),
                ("TensorRT-LLM by default", graph(&trtllm("")), &[Warn, Warn]),
                ("no engine is named", graph(EFA), &[Skipped, Skipped]),
                (
                    "another fabric",
                    graph(&lines(&[RDMA, &vllm("[\"UCX\"]")])),
                    &[],
                ),
                ("aggregated", alone(Pod::of(&efa(&vllm("[\"UCX\"]")))), &[]),
            ],
        );
    }

    /// What is pasted holds all that was written; where more was written than is known, nothing is.
    #[test]
    fn the_argument_is_written_as_it_is_to_be() {
        let paste = |start: &str| {
            let report = report(&graph(&lines(&[EFA, start])));
            let fix = report.fix_first.into_iter().find(|f| f.id == "K8S003");
            fix.unwrap().paste
        };
        let with = |config: &str| {
            let config = format!("--kv-transfer-config={config}");
            format!("command: [python3, -m, dynamo.vllm]\nargs: ['{config}']")
        };
        let nixl = r#"{"kv_connector":"NixlConnector","kv_role":"kv_both"}"#;
        let said = paste(&with(nixl)).unwrap();
        assert_eq!(
            said.matches(
                r#""kv_role":"kv_both","kv_connector_extra_config":{"backends":["LIBFABRIC"]}}'"#
            )
            .count(),
            2
        );
        let more = nixl.replace("}", r#","engine_id":"x"}"#);
        assert_eq!(paste(&with(&more)), None);
        assert_eq!(paste("command: [python3, -m, dynamo.vllm]"), None);
        let sglang = paste(&sglang("--disaggregation-transfer-backend, nixl")).unwrap();
        assert!(
            sglang.contains("- name: SGLANG_DISAGGREGATION_NIXL_BACKEND\n    value: LIBFABRIC"),
            "{sglang}"
        );
    }
}
