//! Which variables are kept: a stand-in for the catalogue, the only place that decides it.

use std::collections::BTreeSet;
use std::sync::Mutex;

/// A variable that is kept.
pub(super) struct Variable {
    /// Its name.
    pub name: &'static str,
}

const PREFIXES: [&str; 13] = [
    "UCX_",
    "NIXL_",
    "NCCL_",
    "FI_",
    "GLOO_",
    "MC_",
    "NVSHMEM_",
    "OMPI_MCA_",
    "SGLANG_DISAGGREGATION_",
    "VLLM_NIXL_",
    "VLLM_GPU_NIC_",
    "VLLM_NIC_",
    "DYN_KVBM_NIXL_",
];
const NAMES: [&str; 10] = [
    "NVIDIA_GDRCOPY",
    "KV_TRANSFER_CONFIG",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "DYN_VLLM_DISAGGREGATION_MODE",
    "DYN_TRTLLM_DISAGGREGATION_MODE",
    "DYN_SGLANG_DISAGGREGATION_MODE",
    "VLLM_SSM_CONV_STATE_LAYOUT",
    "TRTLLM_FORCE_COMM_METHOD",
    "DYN_SGLANG_DISAGGREGATION_TRANSFER_BACKEND",
];

/// The catalogued variable of that name.
pub(super) fn find(name: &str) -> Option<&'static Variable> {
    let kept = PREFIXES.iter().any(|p| name.starts_with(p))
        || NAMES.contains(&name)
        || name.starts_with("TORCH_NCCL_")
        || (name.starts_with("TRTLLM_") && name.contains("KVCACHE"));
    kept.then(|| intern(name))
}

/// UCX knows the name in some version.
pub(super) fn ucx_name_known(_name: &str) -> bool {
    true
}

/// The value may carry credentials.
pub(super) fn withheld(_name: &str, value: &str) -> bool {
    value.contains("://") && value.contains('@')
}

fn intern(name: &str) -> &'static Variable {
    static SEEN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut seen = SEEN
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let name = seen.get(name).copied().unwrap_or_else(|| {
        let leaked: &'static str = Box::leak(name.to_owned().into_boxed_str());
        seen.insert(leaked);
        leaked
    });
    Box::leak(Box::new(Variable { name }))
}
