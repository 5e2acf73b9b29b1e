//! Variables of Dynamo itself.

use super::variable::ValueKind::{Choice, Form, Switch};
use super::variable::{Owner, Scope, ValueKind, Variable};

const fn kv(
    name: &'static str,
    kind: ValueKind,
    default: &'static str,
    meaning: &'static str,
    source: &'static str,
) -> Variable {
    Variable::new(
        name,
        Owner::Dynamo,
        Scope::Kv,
        kind,
        default,
        meaning,
        source,
    )
}

pub(super) static TABLE: &[Variable] = &[
    kv(
        "DYN_VLLM_DISAGGREGATION_MODE",
        Choice(&["prefill", "decode", "agg", "encode", "prefill_and_decode"]),
        "agg",
        "Role of a vLLM worker, the twin of `--disaggregation-mode`.",
        "dynamo components/src/dynamo/vllm/args.py",
    ),
    kv(
        "DYN_TRTLLM_DISAGGREGATION_MODE",
        Choice(&["prefill", "decode", "agg", "encode", "prefill_and_decode"]),
        "prefill_and_decode",
        "Role of a TensorRT-LLM worker, the twin of `--disaggregation-mode`.",
        "dynamo components/src/dynamo/trtllm",
    ),
    kv(
        "DYN_SGLANG_DISAGGREGATION_TRANSFER_BACKEND",
        Form("the name of a mover (nixl, mooncake)"),
        "-",
        "Mover of the KV cache of an SGLang worker, the twin of `--disaggregation-transfer-backend`.",
        "dynamo components/src/dynamo/sglang",
    ),
    kv(
        "DYN_VLLM_EMBEDDING_TRANSFER_MODE",
        Choice(&["local", "nixl-write", "nixl-read"]),
        "-",
        "How embeddings go from the encode worker to the next.",
        "dynamo components/src/dynamo/vllm",
    ),
    kv(
        "DYN_KVBM_NIXL_BACKEND_UCX",
        Switch,
        "-",
        "Backend of Dynamo's own block manager. It does not select the backend of the engine.",
        "dynamo lib/llm/src/block_manager",
    ),
    kv(
        "DYN_KVBM_NIXL_BACKEND_LIBFABRIC",
        Switch,
        "-",
        "Backend of Dynamo's own block manager. It does not select the backend of the engine, which is what EFA needs.",
        "dynamo lib/llm/src/block_manager",
    ),
];
