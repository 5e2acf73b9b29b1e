//! Variables of the loader, PyTorch, MPI and the driver stack that reach into the interconnect.

use super::variable::ValueKind::{Choice, Form, Number, Path, Switch};
use super::variable::{Owner, Scope, Variable};

pub(super) static TABLE: &[Variable] = &[
    Variable::new(
        "LD_LIBRARY_PATH",
        Owner::System,
        Scope::Process,
        Path,
        "-",
        "Where the loader looks first. It decides which copy of UCX, NCCL and libfabric is loaded; two copies on the way \
         are a known cause of NIXL_ERR_BACKEND.",
        "ld.so(8); nixl issue 334",
    ),
    Variable::new(
        "LD_PRELOAD",
        Owner::System,
        Scope::Process,
        Path,
        "-",
        "Libraries loaded before all others, for instance another NCCL.",
        "ld.so(8)",
    ),
    Variable::new(
        "PYTORCH_CUDA_ALLOC_CONF",
        Owner::Torch,
        Scope::Kv,
        Form("name:value with commas (expandable_segments:False)"),
        "-",
        "Settings of PyTorch's GPU allocator. `expandable_segments:True` makes memory that UCX cannot register whole, and \
         KV falls to a fraction of a gigabyte per second without a word.",
        "nixl issue 1754",
    ),
    Variable::new(
        "PYTORCH_ALLOC_CONF",
        Owner::Torch,
        Scope::Kv,
        Form("name:value with commas (expandable_segments:False)"),
        "-",
        "The newer name of PYTORCH_CUDA_ALLOC_CONF; `expandable_segments:True` does the same harm.",
        "PyTorch CUDA semantics; nixl issue 1754",
    ),
    Variable::new(
        "GLOO_SOCKET_IFNAME",
        Owner::Torch,
        Scope::ControlPlane,
        Form("interface names with commas"),
        "-",
        "Interface of Gloo's rendezvous between ranks. It carries control messages, no KV.",
        "PyTorch distributed documentation",
    ),
    Variable::new(
        "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC",
        Owner::Torch,
        Scope::ControlPlane,
        Number,
        "480",
        "Seconds without progress after which PyTorch ends a stuck process.",
        "PyTorch ProcessGroupNCCL environment variables",
    ),
    Variable::new(
        "TORCH_SYMMMEM",
        Owner::Torch,
        Scope::Collectives,
        Choice(&["CUDA", "NVSHMEM", "NCCL", "XPU"]),
        "-",
        "Backend of PyTorch's symmetric memory.",
        "PyTorch torch/distributed/_symmetric_memory",
    ),
    Variable::new(
        "NVIDIA_GDRCOPY",
        Owner::System,
        Scope::Process,
        Switch,
        "-",
        "Asks the container toolkit for the GDRCopy device. GDRCopy serves small copies; it is not GPUDirect RDMA, and \
         NIXL wheels from 1.1 do not use it.",
        "NVIDIA container toolkit documentation",
    ),
    Variable::new(
        "RDMAV_FORK_SAFE",
        Owner::System,
        Scope::Kv,
        Switch,
        "-",
        "Fork protection of registered memory by rdma-core. AWS advises against it, and recent kernels do not need it.",
        "rdma-core libibverbs/memory.c; AWS EFA documentation",
    ),
    Variable::new(
        "OMPI_MCA_coll_ucc_enable",
        Owner::System,
        Scope::Collectives,
        Switch,
        "-",
        "Whether Open MPI uses UCC for its collectives.",
        "Open MPI documentation",
    ),
];
