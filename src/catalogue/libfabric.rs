//! libfabric variables. They carry KV where NIXL's backend is LIBFABRIC.

use super::variable::ValueKind::{Choice, FiBool, Form, Number};
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
        Owner::Libfabric,
        Scope::Kv,
        kind,
        default,
        meaning,
        source,
    )
}

pub(super) static TABLE: &[Variable] = &[
    kv(
        "FI_PROVIDER",
        Form("providers with commas (efa, tcp, verbs), or ^ and the providers to leave out"),
        "all",
        "Providers that libfabric offers; `^` at the front forbids the listed ones. NIXL takes the first of cxi, efa, \
         tcp, sockets, so hiding efa means TCP.",
        "libfabric fabric(7); nixl v1.4.0 src/plugins/libfabric",
    )
    .critical(),
    kv(
        "FI_EFA_USE_DEVICE_RDMA",
        FiBool,
        "1 with NIXL",
        "Read and write by the EFA device itself. NIXL asks for an API version in which it is on, so 1 is redundant; 0 \
         falls back to emulation through the CPU.",
        "libfabric v2.4.0 prov/efa/src/efa_env.c, man/fi_efa.7.md",
    )
    .critical(),
    kv(
        "FI_EFA_ENABLE_SHM_TRANSFER",
        FiBool,
        "1",
        "Shared memory instead of EFA between processes of one node. It does not serve GPU buffers of another pod: \
         set it to 0.",
        "libfabric v2.4.0 man/fi_efa.7.md; Dynamo guide to EFA on AWS",
    )
    .critical(),
    kv(
        "FI_EFA_ENABLE_SHM",
        FiBool,
        "-",
        "Named by guides beside FI_EFA_ENABLE_SHM_TRANSFER, which is the name in libfabric's manual.",
        "Dynamo guide to EFA on AWS",
    ),
    kv(
        "FI_EFA_FORK_SAFE",
        FiBool,
        "0",
        "Protects registered memory across fork. Kernels from 5.13 do that themselves.",
        "libfabric v2.4.0 man/fi_efa.7.md",
    ),
    kv(
        "FI_EFA_USE_HUGE_PAGE",
        FiBool,
        "1",
        "Huge pages for EFA's own buffers. A pod that uses them needs a hugepages-2Mi limit.",
        "libfabric v2.4.0 man/fi_efa.7.md",
    ),
    kv(
        "FI_EFA_MR_MAX_CACHED_COUNT",
        Number,
        "-",
        "Memory registrations kept in the cache.",
        "libfabric v2.4.0 man/fi_efa.7.md",
    ),
    kv(
        "FI_EFA_MR_MAX_CACHED_SIZE",
        Number,
        "-",
        "Bytes of memory registrations kept in the cache; 0 means no limit by size.",
        "libfabric v2.4.0 man/fi_efa.7.md",
    ),
    kv(
        "FI_EFA_IFACE",
        Form("names of EFA devices with commas, or all"),
        "all",
        "EFA devices that libfabric may use, as names with commas.",
        "libfabric main man/fi_efa.7.md",
    ),
    kv(
        "FI_HMEM",
        Form("kinds of memory with commas (cuda, rocr, ze, neuron, synapseai, system)"),
        "all",
        "Kinds of accelerator memory that libfabric supports. A list without cuda takes GPU memory away.",
        "libfabric v2.4.0 src/hmem.c",
    )
    .critical(),
    kv(
        "FI_HMEM_CUDA_USE_DMABUF",
        FiBool,
        "1",
        "Hands GPU memory to EFA as a dmabuf. Without it the module efa_nv_peermem must be loaded.",
        "libfabric v2.4.0 src/hmem_cuda.c",
    )
    .critical(),
    kv(
        "FI_HMEM_CUDA_USE_GDRCOPY",
        FiBool,
        "1",
        "GDRCopy for small copies from GPU memory. It is not GPUDirect RDMA.",
        "libfabric v2.4.0 src/hmem_cuda_gdrcopy.c",
    ),
    kv(
        "FI_HMEM_CUDA_ENABLE_XFER",
        FiBool,
        "-",
        "Deprecated since libfabric 1.19 and ignored.",
        "libfabric v2.4.0 src/hmem_cuda.c",
    ),
    kv(
        "FI_HMEM_DISABLE_P2P",
        FiBool,
        "0",
        "Forbids the NIC to touch GPU memory.",
        "libfabric v2.4.0 src/hmem.c",
    )
    .critical(),
    Variable::new(
        "FI_LOG_LEVEL",
        Owner::Libfabric,
        Scope::Logging,
        Choice(&["warn", "trace", "info", "debug"]),
        "-",
        "What libfabric prints. `warn` names the reason when registration of GPU memory fails.",
        "libfabric fabric(7)",
    ),
];
