//! UCX variables that choose the path: transports, devices, GPUDirect, NVLink, RoCE addressing.

use super::variable::ValueKind::{
    Bool, DeviceList, Enum, Form, OnOffAuto, Ternary, TernaryAuto, Threshold, TransportList, Uint,
    UintAuto, Unread,
};
use super::variable::{Owner, Scope, ValueKind, Variable};

const fn kv(
    name: &'static str,
    kind: ValueKind,
    default: &'static str,
    meaning: &'static str,
    source: &'static str,
) -> Variable {
    Variable::new(name, Owner::Ucx, Scope::Kv, kind, default, meaning, source)
}

pub(super) static TABLE: &[Variable] = &[
    kv(
        "UCX_TLS",
        TransportList,
        "all",
        "Transports that UCX may use; `^` at the very front forbids the listed ones instead. The order has no meaning. \
         Unset is the best default. A list for GPU memory needs `cuda_copy` (nothing else recognises GPU pointers) and, \
         between nodes, an RDMA transport such as `rc`; `cuda_ipc` is no substitute for either.",
        "ucx v1.20.0 src/ucp/core/ucp_context.c, src/ucs/config/parser.c",
    )
    .original()
    .critical(),
    kv(
        "UCX_NET_DEVICES",
        DeviceList,
        "all",
        "Network devices that UCX may use: RDMA ports as `mlx5_0:1`, TCP interfaces as `eth0`. Unset means all, chosen \
         by bandwidth and distance to the GPU; it does not fall back to a management NIC. A name that does not exist is \
         dropped, and when none is left both RDMA and TCP are off.",
        "ucx v1.20.0 src/ucp/core/ucp_context.c",
    )
    .original()
    .critical(),
    kv(
        "UCX_IB_GPU_DIRECT_RDMA",
        Ternary,
        "try",
        "Whether the NIC may read and write GPU memory. `try` uses it where peermem or dmabuf is there, so unset is \
         right. `yes` makes it mandatory: a NIC that cannot is dropped. `n` forces a bounce through the CPU, and `true` \
         is no value UCX knows: it loses every InfiniBand device.",
        "ucx v1.20.0 src/uct/ib/base/ib_md.c",
    )
    .original()
    .critical(),
    kv(
        "UCX_RNDV_SCHEME",
        Enum(&["auto", "get_zcopy", "put_zcopy", "get_ppln", "put_ppln", "rkey_ptr", "am"]),
        "auto",
        "Protocol of tag and active-message rendezvous. NIXL moves KV with put and get, which this does not govern: a \
         valid value has no effect on KV, an invalid one stops UCX from starting.",
        "ucx v1.20.0 src/ucp/core/ucp_context.c",
    )
    .original(),
    kv(
        "UCX_RNDV_THRESH",
        Threshold,
        "auto (NIXL sets inf)",
        "Size from which tag and active messages use rendezvous. NIXL sets `inf` itself; any other value undoes that, \
         and without invalidation support in the NIC it costs the RMA lanes that carry KV.",
        "ucx v1.20.0 src/ucp/wireup/select.c; nixl v1.4.0 src/utils/ucx/ucx_utils.cpp",
    ),
    kv(
        "UCX_SHM_DEVICES",
        DeviceList,
        "all",
        "Devices of the transports that stay in one node. `cuda_ipc` is among them under the name `cuda`.",
        "ucx v1.20.0 src/ucp/core/ucp_context.c",
    ),
    kv(
        "UCX_ACC_DEVICES",
        DeviceList,
        "all",
        "Accelerator devices. `cuda_copy` is among them under the name `cuda`; without it GPU memory is taken for host \
         memory.",
        "ucx v1.20.0 src/ucp/core/ucp_context.c",
    ),
    kv(
        "UCX_IB_GID_INDEX",
        UintAuto,
        "auto",
        "Entry of the GID table that every port uses. `auto` takes 0 on InfiniBand and the best RoCE v2 entry on \
         Ethernet. A number is right only where that entry is a routable RoCE v2 address on every port of every node.",
        "ucx v1.20.0 src/uct/ib/base/ib_device.c",
    ),
    kv(
        "UCX_IB_ROCE_REACHABILITY_MODE",
        Enum(&["route", "local_subnet", "all"]),
        "route",
        "Which RoCE peers count as reachable. `all` skips the subnet check, the cure where the subnets of the leaves \
         differ; `local_subnet` refuses routed peers.",
        "ucx v1.19.0 src/uct/ib/base/ib_iface.c",
    )
    .since("1.19"),
    kv(
        "UCX_IB_ROCE_LOCAL_SUBNET",
        Bool,
        "n",
        "With `y` only RoCE peers in the same subnet count as reachable.",
        "ucx v1.20.0 src/uct/ib/base/ib_iface.c",
    ),
    kv(
        "UCX_IB_ROCE_SUBNETS",
        Form("subnets with commas, or ^ and the subnets to leave out, or all"),
        "all",
        "RoCE subnets that UCX may use. It excludes UCX_IB_GID_INDEX: with both set the device does not open.",
        "ucx v1.20.0 src/uct/ib/base/ib_iface.c",
    )
    .since("1.18"),
    kv(
        "UCX_IB_ADDR_TYPE",
        Enum(&["ib_local", "ib_site_local", "ib_global", "eth", "auto"]),
        "auto",
        "Deprecated. Only `ib_global` and `ib_site_local` do anything (they force a global route header). `eth` is \
         accepted and has no effect, whatever guides say.",
        "ucx v1.20.0 src/uct/ib/base/ib_iface.c",
    ),
    kv(
        "UCX_IB_IS_GLOBAL",
        Bool,
        "n",
        "Forces a global route header, which InfiniBand between subnets needs.",
        "ucx v1.20.0 src/uct/ib/base/ib_iface.c",
    ),
    kv(
        "UCX_IB_TRAFFIC_CLASS",
        UintAuto,
        "auto",
        "Traffic class of RoCE packets. It must match the lossless class of the switches.",
        "ucx v1.20.0 src/uct/ib/base/ib_iface.c",
    ),
    kv(
        "UCX_IB_SL",
        UintAuto,
        "auto",
        "InfiniBand service level.",
        "ucx v1.20.0 src/uct/ib/base/ib_iface.c",
    ),
    kv(
        "UCX_IB_DIRECT_NIC",
        Bool,
        "y",
        "Lets ConnectX-8 reach GPU memory past the CPU (Data Direct) on Grace systems.",
        "ucx 1.23.0 option table",
    ),
    kv(
        "UCX_IB_REG_METHODS",
        Unread,
        "-",
        "Gone since UCX 1.16. Setting it does nothing but draw a warning about unused variables.",
        "ucx v1.16.0 src/uct/ib/base/ib_md.c",
    )
    .removed_in("1.16"),
    kv(
        "UCX_IB_PCI_RELAXED_ORDERING",
        TernaryAuto,
        "auto (NIXL sets try)",
        "Lets the NIC reorder its PCIe writes. AMD processors and virtual machines need it for full bandwidth.",
        "ucx v1.20.0 src/uct/ib/base/ib_md.c; nixl v1.4.0 src/utils/ucx/ucx_utils.cpp",
    ),
    kv(
        "UCX_CUDA_IPC_ENABLE_MNNVL",
        Ternary,
        "try",
        "NVLink between nodes (GB200, GB300). `try` uses it where the fabric is ready. `y` without a ready fabric logs \
         an error and goes on without.",
        "ucx v1.20.0 src/uct/cuda/cuda_ipc/cuda_ipc_md.c",
    )
    .critical()
    .since("1.18"),
    kv(
        "UCX_CUDA_IPC_ENABLE_GET_ZCOPY",
        OnOffAuto,
        "auto",
        "Whether one GPU may read another's memory directly. `auto` says no where NVML reports no NVLink, and vLLM's \
         reads then crawl through active messages.",
        "ucx v1.20.0 src/uct/cuda/cuda_ipc/cuda_ipc_iface.c",
    ),
    kv(
        "UCX_CUDA_COPY_DMABUF",
        Ternary,
        "try",
        "Whether GPU memory is handed to the NIC as a dmabuf, which is what replaces the module nvidia_peermem.",
        "ucx v1.20.0 src/uct/cuda/cuda_copy/cuda_copy_md.c",
    )
    .critical()
    .since("1.16"),
    kv(
        "UCX_MEMTYPE_REG_WHOLE",
        Unread,
        "-",
        "An old name. UCX now reads UCX_MEMTYPE_REG_WHOLE_ALLOC_TYPES and ignores this one.",
        "ucx v1.13.1 src/ucp/core/ucp_context.c",
    )
    .removed_in("1.13"),
    kv(
        "UCX_MEMTYPE_REG_WHOLE_ALLOC_TYPES",
        Form("memory types with commas (cuda, cuda-managed, rocm, host)"),
        "cuda",
        "Memory types whose whole allocation is registered instead of the part in use.",
        "ucx v1.20.0 src/ucp/core/ucp_context.c",
    ),
    kv(
        "UCX_MAX_RMA_RAILS",
        Uint,
        "1 (NIXL sets 2)",
        "NICs that one put or get is spread over. This is the rails setting that governs KV over NIXL.",
        "ucx v1.20.0 src/ucp/core/ucp_context.c; nixl v1.4.0 src/utils/ucx/ucx_utils.cpp",
    ),
    kv(
        "UCX_MAX_RNDV_RAILS",
        Uint,
        "2",
        "NICs of one rendezvous message. NIXL uses put and get, so it has no effect on KV; UCX_MAX_RMA_RAILS has.",
        "ucx v1.20.0 src/ucp/core/ucp_context.c",
    ),
    kv(
        "UCX_MAX_EAGER_RAILS",
        Uint,
        "1",
        "NICs of one eager message. NIXL uses put and get, so it has no effect on KV; UCX_MAX_RMA_RAILS has.",
        "ucx v1.20.0 src/ucp/core/ucp_context.c",
    ),
    kv(
        "UCX_MAX_HCA_PER_GPU",
        UintAuto,
        "inf (NIXL sets auto)",
        "NICs on which a GPU buffer is registered. `auto` takes the closest ones.",
        "ucx 1.23.0 option table; nixl v1.4.0 src/utils/ucx/ucx_utils.cpp",
    )
    .since("1.21"),
];
