//! Variables of the engines and of Mooncake: how they select and tune the mover of the KV cache.

use super::variable::ValueKind::{Address, Choice, Form, Json, Number, Port, Switch, Text};
use super::variable::{Owner, Scope, ValueKind, Variable};

const fn row(
    owner: Owner,
    name: &'static str,
    scope: Scope,
    kind: ValueKind,
    default: &'static str,
    meaning: &'static str,
    source: &'static str,
) -> Variable {
    Variable::new(name, owner, scope, kind, default, meaning, source)
}

const VLLM: &str = "vllm vllm/envs.py";
const SGLANG: &str = "sglang python/sglang/srt/disaggregation";
const TRTLLM: &str = "TensorRT-LLM cpp/tensorrt_llm/common/envUtils.cpp";

pub(super) static TABLE: &[Variable] = &[
    row(
        Owner::Vllm,
        "KV_TRANSFER_CONFIG",
        Scope::Kv,
        Json,
        "-",
        "JSON that start commands hand to `--kv-transfer-config`: connector, role, backends. vLLM itself does not read \
         the variable.",
        "Dynamo recipes; vllm vllm/config/kv_transfer.py",
    )
    .critical()
    .may_hold_credentials(),
    row(
        Owner::Vllm,
        "VLLM_NIXL_SIDE_CHANNEL_HOST",
        Scope::Kv,
        Address,
        "localhost",
        "Address at which a worker offers its NIXL metadata. Peers must reach it, so neither loopback nor 0.0.0.0 will do \
         between pods.",
        VLLM,
    )
    .critical(),
    row(Owner::Vllm, "VLLM_NIXL_SIDE_CHANNEL_PORT", Scope::Kv, Port, "5600", "First port of the NIXL metadata; each rank takes its own.", VLLM),
    row(
        Owner::Vllm,
        "VLLM_GPU_NIC_PCIE_MAPPING",
        Scope::Kv,
        Text,
        "-",
        "NIC of each GPU by PCI address. It works only together with VLLM_NIC_SELECTION_VARS, on both roles.",
        "Dynamo recipes, deepseek-v4",
    ),
    row(
        Owner::Vllm,
        "VLLM_NIC_SELECTION_VARS",
        Scope::Kv,
        Form("VARIABLE:PORT (UCX_NET_DEVICES:1)"),
        "-",
        "Variables that receive the NIC of the rank, `UCX_NET_DEVICES:1` for instance. It works only together with \
         VLLM_GPU_NIC_PCIE_MAPPING.",
        "Dynamo recipes, deepseek-v4",
    ),
    row(
        Owner::Vllm,
        "VLLM_SSM_CONV_STATE_LAYOUT",
        Scope::Kv,
        Form("the name of a layout (DS)"),
        "-",
        "Layout of Mamba states; disaggregation over NIXL needs `DS`.",
        VLLM,
    ),
    row(Owner::Vllm, "VLLM_ALLREDUCE_USE_FLASHINFER", Scope::Collectives, Switch, "0", "All-reduce by FlashInfer instead of NCCL.", VLLM),
    row(
        Owner::Vllm,
        "VLLM_FLASHINFER_ALLREDUCE_BACKEND",
        Scope::Collectives,
        Choice(&["auto", "trtllm", "mnnvl"]),
        "-",
        "Backend of FlashInfer's all-reduce: `mnnvl` over multi-node NVLink, `trtllm` inside a node.",
        VLLM,
    ),
    row(Owner::Vllm, "VLLM_USE_NCCL_SYMM_MEM", Scope::Collectives, Switch, "0", "Symmetric memory of NCCL.", VLLM),
    row(
        Owner::Sglang,
        "SGLANG_DISAGGREGATION_NIXL_BACKEND",
        Scope::Kv,
        Choice(&["UCX", "LIBFABRIC"]),
        "UCX",
        "NIXL backend of SGLang: `UCX` or `LIBFABRIC`.",
        SGLANG,
    )
    .critical(),
    row(
        Owner::Sglang,
        "SGLANG_DISAGGREGATION_NIXL_BACKEND_PARAMS",
        Scope::Kv,
        Json,
        "-",
        "JSON parameters of that backend. `ucx_devices` overrides UCX_NET_DEVICES.",
        SGLANG,
    )
    .may_hold_credentials(),
    row(Owner::Sglang, "SGLANG_DISAGGREGATION_WAITING_TIMEOUT", Scope::ControlPlane, Number, "300", "Seconds that decode waits for KV.", SGLANG),
    row(Owner::Sglang, "SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT", Scope::ControlPlane, Number, "300", "Seconds that prefill waits for the first contact.", SGLANG),
    row(Owner::Sglang, "SGLANG_DISAGGREGATION_HEARTBEAT_MAX_FAILURE", Scope::ControlPlane, Number, "2", "Missed heartbeats after which a prefill worker counts as dead.", SGLANG),
    row(Owner::Sglang, "SGLANG_DISAGGREGATION_NUM_PRE_ALLOCATE_REQS", Scope::ControlPlane, Number, "0", "Requests for which decode allocates memory ahead.", SGLANG),
    row(Owner::Sglang, "SGLANG_HOST_IP", Scope::Kv, Address, "-", "Address that a worker advertises to its peers.", SGLANG),
    row(Owner::Trtllm, "TRTLLM_USE_NIXL_KVCACHE", Scope::Kv, Switch, "-", "1 selects NIXL where the engine configuration says DEFAULT.", TRTLLM),
    row(Owner::Trtllm, "TRTLLM_USE_UCX_KVCACHE", Scope::Kv, Switch, "-", "1 selects UCX where the engine configuration says DEFAULT.", TRTLLM),
    row(Owner::Trtllm, "TRTLLM_USE_MOONCAKE_KVCACHE", Scope::Kv, Switch, "-", "1 selects Mooncake where the engine configuration says DEFAULT.", TRTLLM),
    row(Owner::Trtllm, "TRTLLM_USE_MPI_KVCACHE", Scope::Kv, Switch, "-", "1 selects MPI where the engine configuration says DEFAULT.", TRTLLM),
    row(Owner::Trtllm, "TRTLLM_NIXL_KVCACHE_BACKEND", Scope::Kv, Choice(&["UCX", "LIBFABRIC"]), "UCX", "NIXL backend of TensorRT-LLM: `UCX` or `LIBFABRIC`.", TRTLLM).critical(),
    row(Owner::Trtllm, "TRTLLM_KVCACHE_TRANSFER_BUFFER_SIZE", Scope::Kv, Form("a size with its unit (512MB, 0B)"), "512MB", "Staging buffer of KV transfers; `0B` sends from the cache itself.", TRTLLM),
    row(Owner::Trtllm, "TRTLLM_TRY_ZCOPY_FOR_KVCACHE_TRANSFER", Scope::Kv, Switch, "0", "Sends contiguous KV without a staging copy.", TRTLLM),
    row(Owner::Trtllm, "TRTLLM_FORCE_COMM_METHOD", Scope::Collectives, Form("the name of a method (NVLINK_ONE_SIDED, NVLINK_TWO_SIDED, DEEPEPLOWLATENCY)"), "-", "Forces the all-to-all method of expert parallelism.", TRTLLM),
    row(
        Owner::Mooncake,
        "MC_FORCE_MNNVL",
        Scope::Kv,
        Switch,
        "-",
        "Allocates KV memory for NVLink between nodes. It is right only with a ComputeDomain.",
        "Mooncake transfer engine documentation",
    ),
    row(
        Owner::Mooncake,
        "MC_GID_INDEX",
        Scope::Kv,
        Number,
        "-",
        "GID table entry that Mooncake uses on RoCE. It must be a routable RoCE v2 entry of every port in the pod.",
        "Mooncake transfer engine documentation; sglang PR 30737",
    ),
];

/// What `cache_transceiver_config.backend: DEFAULT` of TensorRT-LLM means by its switches, the first of which wins; none where no
/// switch is on, which means NIXL. `value`: of a variable, where it is set.
/// TensorRT-LLM `cpp/tensorrt_llm/common/envUtils.cpp`.
pub fn switch_of_trtllm<'v>(value: impl Fn(&str) -> Option<&'v str>) -> Option<&'static str> {
    const SWITCHES: [(&str, &str); 4] = [
        ("TRTLLM_USE_NIXL_KVCACHE", "nixl"),
        ("TRTLLM_USE_UCX_KVCACHE", "ucx"),
        ("TRTLLM_USE_MOONCAKE_KVCACHE", "mooncake"),
        ("TRTLLM_USE_MPI_KVCACHE", "mpi"),
    ];
    let mut on = SWITCHES.into_iter();
    on.find(|(name, _)| value(name) == Some("1"))
        .map(|(_, backend)| backend)
}
