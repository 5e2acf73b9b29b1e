use crate::check;
use crate::checks::WorkerScope;
use crate::checks::declare::{Draft, Outcome};
use crate::judge::context::Backend;
use crate::manifest::workload::Engine;
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
        subsystem: Kubernetes, kv_path: Required, worst: Fail, causes: &[], since: "0.1.0",
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
    let (draft, fix) = match worker.engine {
        Some(Engine::Trtllm) => {
            let note = "; the guides conflict for TensorRT-LLM, which also names UCX over SRD";
            (
                Draft::warn(format!("{detail}{note}")),
                "set TRTLLM_NIXL_KVCACHE_BACKEND=LIBFABRIC, or measure both",
            )
        }
        Some(Engine::Sglang) => (
            Draft::fail(detail),
            "set SGLANG_DISAGGREGATION_NIXL_BACKEND=LIBFABRIC",
        ),
        _ => (
            Draft::fail(detail),
            "add \"kv_connector_extra_config\": {\"backends\": [\"LIBFABRIC\"]} to --kv-transfer-config",
        ),
    };
    Ok(vec![draft.with(seen).fix(fix)])
}
