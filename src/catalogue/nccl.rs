//! NCCL variables. They act on the collectives between the ranks of one worker, never on the KV cache.

use super::variable::ValueKind::{Address, Choice, Form, Integer, Path, Word};
use super::variable::{Owner, Scope, ValueKind, Variable};

const fn row(
    name: &'static str,
    kind: ValueKind,
    default: &'static str,
    meaning: &'static str,
    source: &'static str,
) -> Variable {
    Variable::new(
        name,
        Owner::Nccl,
        Scope::Collectives,
        kind,
        default,
        meaning,
        source,
    )
}

const fn log(
    name: &'static str,
    kind: ValueKind,
    default: &'static str,
    meaning: &'static str,
    source: &'static str,
) -> Variable {
    Variable::new(
        name,
        Owner::Nccl,
        Scope::Logging,
        kind,
        default,
        meaning,
        source,
    )
}

const IB: &str = "nccl v2.28.9-1 src/transport/net_ib.cc";
const UTILS: &str = "nccl v2.28.9-1 src/misc/utils.cc";
const PATHS: &str = "nccl v2.28.9-1 src/graph/paths.cc";
const TUNING: &str = "nccl v2.28.9-1 src/graph/tuning.cc";
const GUIDE: &str = "NCCL user guide, environment variables";

pub(super) static TABLE: &[Variable] = &[
    row(
        "NCCL_IB_HCA",
        Form(
            "beginnings of device names with commas, each with :port if need be; = in front for exact names, ^ for all but these",
        ),
        "all ACTIVE ports",
        "RDMA ports for collectives. Names are prefixes: `mlx5_1` also takes mlx5_10. `=` in front makes them exact, `^` \
         excludes. Unset is fine. When nothing matches, NCCL silently falls back to sockets.",
        UTILS,
    )
    .original()
    .critical(),
    row(
        "NCCL_IB_DISABLE",
        Integer,
        "0",
        "A number other than 0 switches NCCL's own RDMA transport off. It matters only between nodes, and not where a \
         plugin carries the traffic. `true` is read as 0.",
        IB,
    )
    .original()
    .critical(),
    row(
        "NCCL_IB_GID_INDEX",
        Integer,
        "-1",
        "GID table entry for RoCE. NCCL from 2.21 finds it alone. It has no effect on InfiniBand and none on EFA.",
        IB,
    )
    .original(),
    row(
        "NCCL_NET_GDR_LEVEL",
        Word(&["LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS"]),
        "PXB",
        "Largest distance of GPU and NIC at which GPUDirect RDMA is used. A word that is none of NCCL's own (`NODE`, \
         `sys`) is ignored without a word.",
        PATHS,
    )
    .original()
    .critical(),
    row(
        "NCCL_P2P_LEVEL",
        Word(&["LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS"]),
        "PXB",
        "Largest distance at which GPUs talk to each other directly. `NVL` means over NVLink only, `LOC` never.",
        PATHS,
    )
    .original()
    .critical(),
    row(
        "NCCL_SOCKET_IFNAME",
        Form(
            "beginnings of interface names with commas; = in front for exact names, ^ for all but these",
        ),
        "ib*, then any but docker*, lo, virbr*",
        "Interfaces for bootstrap, as prefixes. Unset is fine. A value that matches none is an error at start, not a \
         hang.",
        "nccl v2.28.9-1 src/misc/socket.cc",
    )
    .original()
    .critical(),
    log(
        "NCCL_DEBUG",
        Choice(&["VERSION", "WARN", "INFO", "ABORT", "TRACE"]),
        "-",
        "What NCCL prints. `INFO` shows the transport of every channel.",
        GUIDE,
    ),
    log("NCCL_DEBUG_SUBSYS", Form("parts of NCCL with commas (INIT,NET); ^ in front for all but these"), "INIT,BOOTSTRAP,ENV", "Parts of NCCL that print at INFO.", GUIDE),
    log("NCCL_DEBUG_FILE", Path, "-", "File that NCCL logs to instead of the output of the pod.", GUIDE),
    row(
        "NCCL_NET",
        Form("the name of a network plugin in any case (IB, Socket, Libfabric)"),
        "-",
        "Network plugin by name, in any case: `IB`, `Socket`, `Libfabric`. A name that is not there stops NCCL.",
        "nccl v2.28.9-1 src/plugin/net.cc",
    )
    .critical(),
    row(
        "NCCL_NET_PLUGIN",
        Form("none, or libraries with commas, each as a path or by its suffix (ofi for libnccl-net-ofi.so)"),
        "libnccl-net.so",
        "Library that holds the network plugin; `none` leaves the built-in ones, which cannot use EFA.",
        "nccl v2.28.9-1 src/plugin/net.cc",
    )
    .critical(),
    row(
        "NCCL_P2P_DISABLE",
        Integer,
        "-",
        "Exactly 1 forbids direct GPU-to-GPU traffic, NVLink and multi-node NVLink included.",
        PATHS,
    )
    .critical(),
    row("NCCL_SHM_DISABLE", Integer, "0", "Exactly 1 forbids host shared memory between ranks of one node.", GUIDE),
    row(
        "NCCL_NET_GDR_READ",
        Integer,
        "-2",
        "0 stages what is sent through the CPU; -2 decides by machine.",
        PATHS,
    ),
    row(
        "NCCL_NET_GDR_C2C",
        Integer,
        "1",
        "GPUDirect RDMA through the chip-to-chip link of Grace systems.",
        PATHS,
    ),
    row(
        "NCCL_DMABUF_ENABLE",
        Integer,
        "1",
        "0 leaves only nvidia_peermem for GPUDirect RDMA. `on` is read as 0.",
        "nccl v2.28.9-1 src/transport/net.cc",
    )
    .critical(),
    row("NCCL_GDRCOPY_ENABLE", Integer, "0", "GDRCopy for control flags. It is not GPUDirect RDMA.", GUIDE),
    row(
        "NCCL_MNNVL_ENABLE",
        Integer,
        "2",
        "NVLink between nodes: 2 where it works, 0 never, 1 insists. `yes` is read as 0.",
        "nccl v2.28.9-1 src/mnnvl.cc",
    )
    .critical(),
    row(
        "NCCL_CUMEM_ENABLE",
        Integer,
        "-2",
        "Memory allocation that multi-node NVLink needs; -2 decides by driver.",
        "nccl v2.28.9-1 src/allocator.cc",
    )
    .critical(),
    row("NCCL_CUMEM_HOST_ENABLE", Integer, "-1", "The same allocator for host memory.", GUIDE),
    row(
        "NCCL_NVLS_ENABLE",
        Integer,
        "2",
        "Reductions in the NVSwitch. 1 turns a failed multicast set-up into a fatal error; 2 goes on without.",
        "nccl v2.28.9-1 src/transport/nvls.cc",
    ),
    row("NCCL_CROSS_NIC", Integer, "2", "Whether a ring may change rails between nodes; 0 where rails are separate networks.", GUIDE),
    row("NCCL_IB_TIMEOUT", Integer, "20", "Wait of 4.096 us x 2^n before an RDMA packet is sent again.", IB),
    row("NCCL_IB_RETRY_CNT", Integer, "7", "Retries of an RDMA packet.", IB),
    row("NCCL_IB_TC", Integer, "0", "Traffic class of RDMA packets. It must match the lossless class of the switches.", IB),
    row("NCCL_GIN_IB_TC", Integer, "-", "Traffic class of the RDMA packets that GPUs send themselves.", "NCCL issue 2383"),
    row("NCCL_IB_SL", Integer, "0", "InfiniBand service level.", IB),
    row("NCCL_IB_QPS_PER_CONNECTION", Integer, "1", "Queue pairs of one connection.", IB),
    row("NCCL_IB_ROCE_VERSION_NUM", Integer, "2", "RoCE version of the GID that NCCL looks for.", IB),
    row("NCCL_IB_ADDR_FAMILY", Word(&["AF_INET", "AF_INET6"]), "AF_INET", "Address family of the GID that NCCL looks for.", IB),
    row("NCCL_IB_ADDR_RANGE", Form("a subnet (10.0.0.0/16)"), "-", "Subnet of the GID that NCCL looks for.", IB),
    row("NCCL_IB_MERGE_NICS", Integer, "1", "Uses the ports of a dual-port NIC as one.", IB),
    row("NCCL_IB_MERGE_VFS", Integer, "1", "Merges virtual functions of one NIC.", IB),
    row("NCCL_IB_PCI_RELAXED_ORDERING", Integer, "2", "Lets the NIC reorder its PCIe writes; 2 where it can.", IB),
    row("NCCL_IB_DATA_DIRECT", Integer, "1", "Lets ConnectX-8 reach GPU memory past the CPU.", IB),
    row("NCCL_TOPO_FILE", Path, "-", "XML of the machine's topology, for virtual machines that hide it. The file must be in the pod.", GUIDE),
    row("NCCL_CONF_FILE", Path, "~/.nccl.conf", "File of further NCCL settings, which a pod spec does not show.", GUIDE),
    row("NCCL_COMM_ID", Address, "-", "Address of the bootstrap root.", GUIDE),
    row("NCCL_ALGO", Form("algorithms with commas (Ring, Tree, NVLS); ^ in front for all but these"), "-", "Restricts the algorithms of collectives.", TUNING),
    row("NCCL_PROTO", Form("LL, LL128 and Simple with commas; ^ in front for all but these"), "-", "Restricts the protocols of collectives.", TUNING),
    row("NCCL_BUFFSIZE", Integer, "4194304", "Bytes of the buffer of one channel.", GUIDE),
    row("NCCL_IGNORE_CPU_AFFINITY", Integer, "0", "Ignores the CPU set of the process when threads are bound.", GUIDE),
    row("NCCL_GRAPH_MIXING_SUPPORT", Integer, "1", "0 is faster where CUDA graphs of one communicator never mix with other launches.", GUIDE),
    row("NCCL_GRAPH_REGISTER", Integer, "1", "Registers the buffers of captured collectives.", GUIDE),
    row("NCCL_TIMEOUT", Form("what the launcher that reads it takes; nothing for NCCL"), "-", "No parameter of NCCL itself; some launchers read it.", "NCCL user guide lists no such variable"),
    row("NCCL_STORE_TIMEOUT", Form("what the launcher that reads it takes; nothing for NCCL"), "-", "No parameter of NCCL itself; some launchers read it for their rendezvous store.", "NCCL user guide lists no such variable"),
];
