//! The reads the tool may make inside a container or on a host: a closed static table.
//!
//! No command or path comes from a user or from a cluster. Whoever wants to know what the tool looks at reads this
//! file; the page of reads is generated from it, and `probe::script` turns it into the one script that is sent.
//!
//! What an answer means: **text** says that we looked; an empty text says that the place was readable and held
//! nothing. A missing answer says that the place itself is not there, is closed to us, or gave nothing in time.

/// One read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// Stable id, used in recordings and in evidence.
    pub id: &'static str,
    /// What is read, as a person would write it.
    pub shown_as: &'static str,
    /// How it is read, and so the form of the answer.
    pub kind: Kind,
    /// At most this many bytes of an answer are kept; what is cut says so.
    pub max_bytes: u32,
    /// What must be there for the question to arise.
    pub needs: Needs,
    /// What the answer is good for.
    pub why: &'static str,
}

impl Ask {
    /// What is read, in a few words: as a person would write it, or the id where that is long.
    pub fn short(&self) -> &'static str {
        if self.shown_as.len() <= 32 {
            self.shown_as
        } else {
            self.id
        }
    }
}

/// How an ask is read. All of it is constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One file of the kernel, as it is.
    File(&'static str),
    /// The lines of one file that match an extended regular expression. The others stay in the container.
    Lines {
        /// The file.
        file: &'static str,
        /// The expression, as `grep -E` takes it.
        matching: &'static str,
    },
    /// The first line of several small files, as `path: value`. What is not there or cannot be read is left out.
    Fields {
        /// The directory that must be there for the answer to mean anything.
        place: &'static str,
        /// Directories, as shell patterns.
        dirs: &'static [&'static str],
        /// Names in each of them.
        names: &'static [&'static str],
    },
    /// Last components of the matching paths, one per line.
    Entries {
        /// The directory that must be there.
        place: &'static str,
        /// Shell patterns.
        globs: &'static [&'static str],
    },
    /// `path: type access` of the matching paths: char, block, dir or file; r, w, rw or - of access(2).
    Nodes {
        /// The directory that must be there.
        place: &'static str,
        /// Shell patterns.
        globs: &'static [&'static str],
    },
    /// The output of a tool that is on `PATH`, errors included; its exit status where it was not 0.
    Tool {
        /// The program and its arguments.
        argv: &'static [&'static str],
        /// The tool is killed after this time; 0 for one that asks the kernel for what it has at hand.
        seconds: u32,
        /// A filter (`sed`) that leaves in the container what is not needed, or nothing.
        filter: &'static str,
    },
    /// A function of the script's own prelude, which says what it reads.
    Function {
        /// The directory that must be there, or nothing.
        place: &'static str,
        /// The call.
        call: &'static str,
    },
    /// A function of the prelude that frames its answer itself, because it has more ways to fail.
    Framed(&'static str),
    /// Never read by the probe: what a person may paste, in the words of the tool that printed it.
    Pasted,
    /// What the Kubernetes API, or this tool, says of the target. Never part of a script.
    Told,
}

/// What must be there for a question to arise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing.
    Nothing,
    /// A device in `/sys/class/infiniband`: the tools of RDMA make the kernel load its RDMA core, and we change nothing.
    RdmaDevice,
    /// A device in `/sys/class/infiniband`, and none of these files (a glob) can be read, which answer the same without
    /// starting a program.
    RdmaDeviceWithout(&'static str),
    /// The named program is not there, so that the kernel's own files must answer.
    NoProgram(&'static str),
    /// The processes were searched for the worker.
    Worker,
}

const KB: u32 = 1024;

const fn ask(
    id: &'static str,
    shown_as: &'static str,
    kind: Kind,
    max_bytes: u32,
    needs: Needs,
    why: &'static str,
) -> Ask {
    Ask {
        id,
        shown_as,
        kind,
        max_bytes,
        needs,
        why,
    }
}

macro_rules! asks {
    ($($(#[$doc:meta])* $name:ident = $id:literal, $shown:literal, $kind:expr, $max:expr, $needs:expr, $why:literal;)*) => {
        $($(#[$doc])* pub static $name: Ask = ask($id, $shown, $kind, $max, $needs, $why);)*

        /// Every read, in the order of the script: files of the kernel first, tools last, since a tool may hang.
        pub static ALL: &[&Ask] = &[$(&$name),*];
    };
}

use Kind::{Entries, Fields, File, Framed, Function, Lines, Nodes, Tool};
use Needs::{NoProgram, Nothing, RdmaDevice, RdmaDeviceWithout, Worker};

const RDMA_DEVICE: &[&str] = &["/sys/class/infiniband/*"];
const RDMA_PORT: &[&str] = &["/sys/class/infiniband/*/ports/*"];

asks! {
    /// RDMA devices the kernel shows, one name per line; empty where there is none.
    RDMA_DEVICES = "rdma-devices", "/sys/class/infiniband",
        Entries { place: "/sys/class", globs: RDMA_DEVICE }, 8 * KB, Nothing,
        "whether this kernel has RDMA devices at all, granted to the container or not";
    /// What each device is, one `path: value` per line.
    RDMA_ATTRIBUTES = "rdma-attributes",
        "/sys/class/infiniband/*/{node_type,fw_ver,board_id,hca_type,node_guid,parent,device/*}",
        Fields { place: "/sys/class", dirs: RDMA_DEVICE, names: &[
            "node_type", "fw_ver", "board_id", "hca_type", "node_guid", "sys_image_guid", "parent", "device/vendor",
            "device/device", "device/numa_node", "device/local_cpulist", "device/current_link_speed",
            "device/current_link_width", "device/max_link_speed", "device/max_link_width", "device/iommu_group/type",
        ] }, 64 * KB, Nothing,
        "vendor, model, firmware, NUMA node and PCIe link of each device";
    /// Where each device and its driver are, as `.../device: /sys/devices/...` and `.../device/driver: mlx5_core`.
    RDMA_PCI = "rdma-pci", "/sys/class/infiniband/*/device (link) and its driver (link)",
        Function { place: "/sys/class", call: "pci_of_rdma" }, 32 * KB, Nothing,
        "the driver, and the PCI path that tells how far a NIC is from a GPU";
    /// State, physical state, rate and link layer of every port, one `path: value` per line.
    RDMA_PORTS = "rdma-ports", "/sys/class/infiniband/*/ports/*/{state,phys_state,rate,link_layer,lid,sm_lid,cap_mask}",
        Fields { place: "/sys/class", dirs: RDMA_PORT, names: &[
            "state", "phys_state", "rate", "link_layer", "lid", "sm_lid", "cap_mask",
        ] }, 64 * KB, Nothing,
        "only a port in state 4 (ACTIVE) carries traffic";
    /// GIDs in use with their type and network device, one `path: value` per line; empty slots are left out.
    RDMA_GIDS = "rdma-gids", "/sys/class/infiniband/*/ports/*/{gids,gid_attrs/types,gid_attrs/ndevs}/*",
        Function { place: "/sys/class", call: "gids" }, 256 * KB, Nothing,
        "RoCE needs a RoCE v2 GID whose address is in this network namespace";
    /// Network devices of each RDMA device, one `path: type access` per line; the last component is the name.
    RDMA_NETDEVS = "rdma-netdevs", "/sys/class/infiniband/*/device/net/*",
        Nodes { place: "/sys/class", globs: &["/sys/class/infiniband/*/device/net/*"] }, 16 * KB, Nothing,
        "which network interface belongs to which RDMA device";
    /// Port counters, one `path: value` per line.
    RDMA_COUNTERS = "rdma-counters", "/sys/class/infiniband/*/ports/*/counters/{...}",
        Fields { place: "/sys/class", dirs: &["/sys/class/infiniband/*/ports/*/counters"], names: &[
            "symbol_error", "link_downed", "link_error_recovery", "port_rcv_errors", "port_xmit_discards",
            "port_xmit_wait", "local_link_integrity_errors", "excessive_buffer_overrun_errors", "port_xmit_data",
            "port_rcv_data", "port_rcv_remote_physical_errors", "port_rcv_constraint_errors", "VL15_dropped",
        ] }, 128 * KB, Nothing,
        "errors and flaps of the link, and the bytes that went over it";
    /// Counters of the device's own, one `path: value` per line.
    RDMA_HW_COUNTERS = "rdma-hw-counters", "/sys/class/infiniband/*/{,ports/*/}hw_counters/{...}",
        Fields { place: "/sys/class", dirs: &[
            "/sys/class/infiniband/*/ports/*/hw_counters", "/sys/class/infiniband/*/hw_counters",
        ], names: &[
            "out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "rnr_nak_retry_err", "roce_adp_retrans",
            "roce_slow_restart", "implied_nak_seq_err", "req_transport_retries_exceeded", "np_cnp_sent",
            "rp_cnp_handled", "np_ecn_marked_roce_packets", "out_of_buffer", "rx_bytes", "tx_bytes", "rx_drops",
            "cmds_err", "no_completion_cmds", "rdma_read_bytes", "rdma_write_bytes", "rdma_write_recv_bytes",
            "retrans_bytes", "retrans_timeout_events", "unresponsive_remote_events", "impaired_remote_conn_events",
            "sent_pkts", "rcvd_pkts", "retry_exceeded_err", "link_downed",
        ] }, 128 * KB, Nothing,
        "retransmissions, congestion notices and, on EFA, the bytes of RDMA operations";
    /// Which device each uverbs node belongs to, one `path: value` per line.
    RDMA_UVERBS = "rdma-uverbs", "/sys/class/infiniband_verbs/*/ibdev",
        Fields { place: "/sys/class", dirs: &["/sys/class/infiniband_verbs/*"], names: &["ibdev"] }, 16 * KB, Nothing,
        "maps /dev/infiniband/uverbsN to a device";
    /// Device nodes in the container, one name per line.
    DEV_INFINIBAND = "dev-infiniband", "/dev/infiniband",
        Entries { place: "/dev", globs: &["/dev/infiniband/*"] }, 8 * KB, Nothing,
        "a device that is listed by the kernel is usable only with its node in the container";
    /// What opening each node for reading and writing gave: `uverbs0: open`, or EPERM, EACCES, ENODEV, failed.
    DEV_INFINIBAND_OPEN = "dev-infiniband-open", "open(/dev/infiniband/{uverbs*,rdma_cm}, O_RDWR)",
        Function { place: "/dev", call: r#"open_nodes "$ROOT"/dev/infiniband/uverbs* "$ROOT"/dev/infiniband/rdma_cm"# },
        8 * KB, Nothing,
        "a node may be there and still be closed by the device cgroup (EPERM) or by its mode (EACCES)";
    /// Whether network namespaces share RDMA devices: `Y` or `N`, one `path: value`.
    RDMA_NETNS = "rdma-netns", "/sys/module/ib_core/parameters/netns_mode",
        Fields { place: "/sys/module", dirs: &["/sys/module/ib_core/parameters"], names: &["netns_mode"] }, KB, Nothing,
        "in shared mode (Y) a container sees all devices of the host, in exclusive mode its own";
    /// Resource limits of the probe's own process, which exec starts as it starts the container's.
    LIMITS = "limits", "/proc/self/limits", File("/proc/self/limits"), 4 * KB, Nothing,
        "RLIMIT_MEMLOCK decides how much memory can be registered";
    /// Resource limits of the worker process.
    WORKER_LIMITS = "worker-limits", "/proc/<worker>/limits", Framed("worker_lines limits ''"), 4 * KB, Worker,
        "the limit of the process that registers the memory";
    /// User, capabilities and allowed CPUs of the probe's own process.
    STATUS = "status", "/proc/self/status (Uid, Gid, Cap*, NoNewPrivs, Seccomp, *_allowed_list)",
        Lines { file: "/proc/self/status", matching: STATUS_LINES }, 4 * KB, Nothing,
        "CAP_IPC_LOCK lifts the limit on locked memory";
    /// The same of the worker process.
    WORKER_STATUS = "worker-status", "/proc/<worker>/status (Uid, Gid, Cap*, NoNewPrivs, Seccomp, *_allowed_list)",
        Framed("worker_lines status '^(Uid|Gid|Cap[A-Z][a-z]+|NoNewPrivs|Seccomp|Cpus_allowed_list|Mems_allowed_list):'"),
        4 * KB, Worker,
        "the capabilities of the process that registers the memory";
    /// User namespace of the container.
    UID_MAP = "uid-map", "/proc/self/uid_map", File("/proc/self/uid_map"), 4 * KB, Nothing,
        "CAP_IPC_LOCK counts only in the first user namespace";
    /// Mounts that matter, as in mountinfo.
    MOUNTS = "mounts", "/proc/self/mountinfo (/dev/shm, /dev/infiniband, /sys, /proc/driver/nvidia, hugepages)",
        Lines { file: "/proc/self/mountinfo", matching:
            " (/dev/shm|/dev/(infiniband|hugepages)[^ ]*|/sys|/sys/class/infiniband[^ ]*|/proc/driver/nvidia[^ ]*) [a-z]" },
        16 * KB, Nothing,
        "size of /dev/shm, and host directories that were mounted in";
    /// Memory and CPU limits of the cgroup, versions 1 and 2, one `path: value` per line.
    CGROUP = "cgroup", "/sys/fs/cgroup/{memory.*,cpu.*,cpuset.*}",
        Fields { place: "/sys/fs/cgroup", dirs: &[
            "/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpuset",
        ], names: &[
            "memory.max", "memory.high", "memory.current", "cpu.max", "cpuset.cpus.effective", "cpuset.mems.effective",
            "memory.limit_in_bytes", "memory.usage_in_bytes", "cpu.cfs_quota_us", "cpu.cfs_period_us",
            "cpuset.effective_cpus", "cpuset.effective_mems",
        ] }, 8 * KB, Nothing,
        "locked and shared memory count against the container's limit";
    /// Release of the kernel, one line.
    KERNEL = "kernel", "/proc/sys/kernel/osrelease", File("/proc/sys/kernel/osrelease"), KB, Nothing,
        "dmabuf registration depends on it";
    /// Words of the kernel's command line about the IOMMU, one per line.
    CMDLINE = "cmdline", "/proc/cmdline (iommu=, intel_iommu=, amd_iommu=, iommu.passthrough=)",
        Function { place: "/proc", call: "iommu_words" }, 4 * KB, Nothing,
        "a translating IOMMU sends peer-to-peer traffic through the CPU";
    /// First processor: vendor, model, and `hypervisor: yes` or `no` where the architecture says so.
    CPU = "cpu", "/proc/cpuinfo (first processor: vendor, model, hypervisor)",
        Function { place: "/proc", call: "first_cpu" }, 4 * KB, Nothing,
        "a virtual machine shows only its own view of PCI; a Grace CPU has other rules";
    /// Vendor and product of the machine, one `path: value` per line.
    MACHINE = "machine", "/sys/class/dmi/id/{sys_vendor,product_name}",
        Fields { place: "/sys/class", dirs: &["/sys/class/dmi/id"], names: &["sys_vendor", "product_name"] },
        4 * KB, Nothing,
        "which machine this is, for what it should have";
    /// CPUs of each NUMA node, one `path: value` per line.
    NUMA = "numa", "/sys/devices/system/node/node*/cpulist",
        Fields { place: "/sys/devices/system", dirs: &["/sys/devices/system/node/node*"], names: &["cpulist"] },
        16 * KB, Nothing,
        "which CPUs and NICs are near each other";
    /// Loaded modules that matter, as in /proc/modules.
    MODULES = "modules", "/proc/modules (RDMA and NVIDIA modules)",
        Lines { file: "/proc/modules", matching:
            "^(nvidia|nvidia_[a-z]+|nv_peer_mem|gdrdrv|ib_[a-z]+|rdma_[a-z]+|iw_cm|mlx[45]_[a-z]+|mlx_compat|bnxt_re|irdma|ionic_rdma|efa|efa_nv_peermem|mana_ib|erdma|siw|hfi1|knem|xpmem|udmabuf) " },
        32 * KB, Nothing,
        "GPU memory can be registered through nvidia_peermem or through dmabuf";
    /// Modules and built-in parts as sysfs shows them: `/sys/module/X/version: 1.2`, or `/sys/module/X: present`.
    MODULE_VERSIONS = "module-versions", "/sys/module/{nvidia,nvidia_peermem,nv_peer_mem,gdrdrv,ib_core,mlx5_core,...}/version",
        Function { place: "/sys/module", call: "module_versions nvidia nvidia_peermem nv_peer_mem efa_nv_peermem gdrdrv \
nvidia_fs nvidia_uvm nvidia_modeset ib_core ib_uverbs ib_umad rdma_cm rdma_ucm mlx5_core mlx5_ib mlx_compat bnxt_re irdma \
efa mana_ib ionic_rdma erdma rdma_rxe siw xpmem knem udmabuf" }, 8 * KB, Nothing,
        "what UCX and NCCL look at for peer memory, also where /proc/modules is missing";
    /// Peer memory clients, one `path: value` per line.
    MEMORY_PEERS = "memory-peers", "/sys/kernel/mm/memory_peers/*/version",
        Fields { place: "/sys/kernel", dirs: &["/sys/kernel/mm/memory_peers/*"], names: &["version"] }, 4 * KB, Nothing,
        "what older UCX and NCCL look at for peer memory";
    /// IOMMU units, one name per line; empty where there is none.
    IOMMU = "iommu", "/sys/class/iommu",
        Entries { place: "/sys/class", globs: &["/sys/class/iommu/*"] }, 8 * KB, Nothing,
        "whether an IOMMU is in use";
    /// Version of the NVIDIA driver; the first line tells open from proprietary modules.
    NVIDIA_VERSION = "nvidia-version", "/proc/driver/nvidia/version", File("/proc/driver/nvidia/version"), 4 * KB, Nothing,
        "only the open kernel modules export GPU memory as dmabuf";
    /// Parameters of the NVIDIA driver that matter, `Name: value`.
    NVIDIA_PARAMS = "nvidia-params", "/proc/driver/nvidia/params (peer memory, IMEX, registry words)",
        Lines { file: "/proc/driver/nvidia/params", matching:
            "^(GrdmaPciTopoCheckOverride|EnableStreamMemOPs|EnablePCIERelaxedOrderingMode|EnableUserNUMAManagement|DmaRemapPeerMmio|ImexChannelCount|CreateImexChannel0|CoherentGPUMemoryMode|NvLinkDisable|EnableGpuFirmware|OpenRmEnableUnsupportedGpus|RegistryDwords|RegistryDwordsPerDevice|PeerMappingOverride):" },
        8 * KB, Nothing,
        "switches of the driver that decide about GPUDirect and IMEX";
    /// GPUs as the driver shows them, one `path: Name: value` per line.
    GPU_INFORMATION = "gpu-information", "/proc/driver/nvidia/gpus/*/information",
        Function { place: "/proc/driver/nvidia", call: r#"values "$ROOT"/proc/driver/nvidia/gpus/*/information"# },
        32 * KB, Nothing,
        "model and PCI address of each GPU, without a tool";
    /// Where each GPU is: `/sys/bus/pci/devices/<address>: /sys/devices/...`, its NUMA node and IOMMU group type.
    GPU_PCI = "gpu-pci", "/sys/bus/pci/devices/<GPU> (link), its numa_node and iommu_group/type",
        Function { place: "/proc/driver/nvidia", call: "pci_of_gpus" }, 32 * KB, Nothing,
        "the PCI path that tells how far a GPU is from a NIC";
    /// Device nodes of GPUs, gdrcopy and IMEX channels, one `path: type access` per line.
    DEV_GPU = "dev-gpu", "/dev/{nvidia*,gdrdrv,nvidia-caps/*,nvidia-caps-imex-channels/*}",
        Nodes { place: "/dev", globs: &[
            "/dev/nvidia*", "/dev/gdrdrv", "/dev/nvidia-caps/*", "/dev/nvidia-caps-imex-channels/*",
            "/dev/nvidia-fs*", "/dev/knem", "/dev/xpmem",
        ] }, 32 * KB, Nothing,
        "which GPUs, and which IMEX channel, the container was given";
    /// Network interfaces, one `path: value` per line.
    NET_DEVICES = "net-devices", "/sys/class/net/*/{operstate,carrier,carrier_down_count,mtu,type,flags,bonding/*}",
        Fields { place: "/sys/class/net", dirs: &["/sys/class/net/*"], names: &[
            "operstate", "carrier", "carrier_down_count", "mtu", "type", "flags", "bonding/slaves",
            "bonding/mode", "device/numa_node", "device/vendor",
        ] }, 128 * KB, Nothing,
        "which interfaces are up, with which MTU, and how often they lost the carrier";
    /// IPv6 addresses, as in /proc.
    IF_INET6 = "if-inet6", "/proc/net/if_inet6", File("/proc/net/if_inet6"), 64 * KB, Nothing,
        "which interface has an IPv6 address";
    /// IPv4 routes, as in /proc.
    ROUTES = "routes", "/proc/net/route", File("/proc/net/route"), 32 * KB, Nothing,
        "which interface leads to the other workers";
    /// The process that runs the engine, as `pid: word` with a word of a fixed list; empty where none was found.
    WORKER_PROCESS = "worker-process", "/proc/*/cmdline (a word of a fixed list where one matches, nothing else)",
        Function { place: "/proc", call: "list_workers" }, 8 * KB, Worker,
        "whose environment, limits and libraries are read";
    /// Catalogued variables of the worker: `# process PID WORD` (or `self probe`), then `NAME=value` lines.
    ENVIRONMENT = "environment", "/proc/<worker>/environ (catalogued names only)", Framed("environment"), 64 * KB, Worker,
        "the settings that are really in force, whatever the manifest says";
    /// Catalogued variables that the container gives to every process: of the image and the pod spec.
    CONTAINER_ENVIRONMENT = "container-environment", "environment of the container (catalogued names only)",
        Framed("container_environment"), 64 * KB, Worker,
        "whether the image or a start script sets what the worker runs with";
    /// What `--kv-transfer-config` or `--disaggregation-transfer-backend` of the worker says, or the engine configuration of
    /// TensorRT-LLM that its command line names, one `"name": value` per line.
    WORKER_KV_TRANSFER = "worker-kv-transfer",
        "/proc/<worker>/cmdline (kv_connector, kv_role, kv_buffer_device, backends; --disaggregation-transfer-backend), \
         cache_transceiver_config.backend of the file of --extra-engine-args",
        Framed("worker_kv_transfer"), 4 * KB, Worker,
        "what moves KV, where the engine selects it by its command line or a file in its image, which no variable shows";
    /// UCX, NIXL, NCCL, libfabric, CUDA and verbs libraries, and RDMA nodes, mapped by the worker, one path per line.
    WORKER_LIBRARIES = "worker-libraries", "/proc/<worker>/maps (paths of transport libraries)",
        Framed("worker_libraries"), 64 * KB, Worker,
        "which of several installed libraries is really loaded";
    /// Installed packages of interest, one `.../NAME-VERSION.dist-info` per line.
    PYTHON_PACKAGES = "python-packages", "dist-info directories of nixl, vllm, sglang, tensorrt_llm, torch, NCCL, UCX",
        Function { place: "", call: r#"each_line "$site_dirs" packages_here"# }, 32 * KB, Worker,
        "versions of NIXL and of the engine, without running Python";
    /// Plugins of NIXL, one path per line.
    NIXL_PLUGINS = "nixl-plugins", "libplugin_*.so of NIXL in wheels, usual directories and $NIXL_PLUGIN_DIR",
        Function { place: "", call: r#"each_line "$site_dirs" plugins_here; paths "$ROOT"/opt/nvidia/nvda_nixl/lib*/plugins/libplugin_*.so "$ROOT"/opt/nvidia/nvda_nixl/lib*/*/plugins/libplugin_*.so "$ROOT"/usr/local/nixl/lib*/plugins/libplugin_*.so "$ROOT"/usr/local/nixl/lib*/*/plugins/libplugin_*.so; plugins_named"# },
        32 * KB, Worker,
        "which backends NIXL can load";
    /// Tools that test a path, one per line: a name where it is on PATH, else a path.
    TEST_TOOLS = "test-tools", "nixlbench, nixl_test, ucx_perftest (on PATH, or where NIXL installs its own)",
        Function { place: "", call: r#"for t in nixlbench nixl_test ucx_perftest; do if has "$t"; then put "$t"; fi; done
  paths "$ROOT"/usr/local/nixlbench/bin/nixlbench"# }, KB, Nothing,
        "whether the image brings a benchmark of its own; none is run";
    /// Libraries and modules of UCX, one path per line.
    UCX_LIBRARIES = "ucx-libraries", "libucp, libucs, libuct and UCX modules in wheels and usual directories",
        Function { place: "", call: r#"each_line "$site_dirs" ucx_here
  for d in "$ROOT"/usr/local/ucx/lib "$ROOT"/opt/hpcx/ucx/lib "$ROOT"/usr/lib/*-linux-gnu "$ROOT"/usr/lib64 "$ROOT"/opt/ucx/lib; do
    paths "$d"/libuc[pst].so* "$d"/ucx/libuc[tm]_*.so*
  done"# }, 64 * KB, Worker,
        "whether UCX has its CUDA and verbs modules, and whether there are two of it";
    /// Files that set UCX variables: `path: present`, then `path: NAME=value` or `path: [section]`.
    UCX_SETTINGS = "ucx-settings", "ucx.conf in /etc/ucx, the UCX prefixes, the home and working directory (catalogued names)",
        Function { place: "", call: "ucx_settings" }, 32 * KB, Worker,
        "settings that no manifest shows";
    /// Files that set NCCL variables, in the same form.
    NCCL_SETTINGS = "nccl-settings", "/etc/nccl.conf, ~/.nccl.conf, $NCCL_CONF_FILE (catalogued names)",
        Function { place: "", call: "nccl_settings" }, 32 * KB, Worker,
        "settings that no manifest shows";
    /// IPv4 addresses where there is no `ip`, as the two lines around each in fib_trie.
    FIB_LOCAL = "fib-local", "/proc/net/fib_trie (local addresses)",
        Framed("fib_local"), 32 * KB, NoProgram("ip"),
        "addresses of this network namespace without a tool";
    /// Architecture of the kernel, one word.
    ARCHITECTURE = "architecture", "uname -m", Tool { argv: &["uname", "-m"], seconds: 0, filter: "" }, KB, Nothing,
        "Grace (aarch64) has other rules";
    /// Size and use of /dev/shm in kilobytes, as POSIX prints it.
    SHM = "shm", "df -kP /dev/shm", Tool { argv: &["df", "-kP", "/dev/shm"], seconds: 0, filter: "" }, 4 * KB, Nothing,
        "engines exchange data between their processes there";
    /// Addresses, one per line.
    IP_ADDR = "ip-addr", "ip -o addr show",
        Tool { argv: &["ip", "-o", "addr", "show"], seconds: 3, filter: "" }, 64 * KB, Nothing,
        "which interface has which address";
    /// RDMA links as iproute2 shows them.
    RDMA_LINK = "rdma-link", "rdma link show",
        Tool { argv: &["rdma", "link", "show"], seconds: 3, filter: "" }, 32 * KB,
        RdmaDeviceWithout("/sys/class/infiniband/*/device/net/*"),
        "ports with their network devices";
    /// Mode of RDMA and network namespaces.
    RDMA_SYSTEM = "rdma-system", "rdma system show",
        Tool { argv: &["rdma", "system", "show"], seconds: 3, filter: "" }, KB,
        RdmaDeviceWithout("/sys/module/ib_core/parameters/netns_mode"), "shared or exclusive RDMA devices";
    /// Devices as the verbs library opens them, with the active MTU.
    IBV_DEVINFO = "ibv-devinfo", "ibv_devinfo",
        Tool { argv: &["ibv_devinfo"], seconds: 5, filter: "" }, 64 * KB, RdmaDevice,
        "what the verbs library of this image can open, and the active MTU, which sysfs does not show";
    /// Ports as infiniband-diags shows them, which reads them from sysfs too.
    IBSTAT = "ibstat", "ibstat", Tool { argv: &["ibstat"], seconds: 5, filter: "" }, 64 * KB,
        RdmaDeviceWithout("/sys/class/infiniband/*/ports/*/state"), "the ports, where sysfs does not show them";
    /// Version and build options of the UCX on PATH.
    UCX_INFO_VERSION = "ucx-info-version", "ucx_info -v",
        Tool { argv: &["ucx_info", "-v"], seconds: 5, filter: "" }, 8 * KB, Nothing,
        "version and configure line of the UCX on PATH";
    /// EFA as libfabric shows it.
    FI_INFO_EFA = "fi-info-efa", "fi_info -p efa",
        Tool { argv: &["fi_info", "-p", "efa"], seconds: 5, filter: "" }, 32 * KB, RdmaDevice,
        "whether libfabric has a usable EFA provider";
    /// Version of the libfabric that `fi_info` uses.
    FI_INFO_VERSION = "fi-info-version", "fi_info --version",
        Tool { argv: &["fi_info", "--version"], seconds: 5, filter: "" }, KB, RdmaDevice,
        "GPU memory over EFA needs a libfabric that knows DMA-BUF";
    /// GPUs as CSV with a header line.
    NVIDIA_SMI_QUERY = "nvidia-smi-query",
        "nvidia-smi --query-gpu=index,name,uuid,pci.bus_id,driver_version,memory.total,mig.mode.current --format=csv",
        Tool { argv: &[
            "nvidia-smi", "--query-gpu=index,name,uuid,pci.bus_id,driver_version,memory.total,mig.mode.current",
            "--format=csv",
        ], seconds: 15, filter: "" }, 32 * KB, Nothing,
        "the GPUs of this container";
    /// Matrix of GPUs and NICs.
    NVIDIA_SMI_TOPO = "nvidia-smi-topo", "nvidia-smi topo -m",
        Tool { argv: &["nvidia-smi", "topo", "-m"], seconds: 15, filter: "" }, 64 * KB, Nothing,
        "NVLink between GPUs, and which NIC is near which GPU";
    /// NVLink per link.
    NVIDIA_SMI_NVLINK = "nvidia-smi-nvlink", "nvidia-smi nvlink -s",
        Tool { argv: &["nvidia-smi", "nvlink", "-s"], seconds: 15, filter: "" }, 64 * KB, Nothing,
        "speed of each NVLink, and inactive ones";
    /// Fabric block of each GPU, with its name and architecture; all else stays in the container.
    NVIDIA_SMI_FABRIC = "nvidia-smi-fabric", "nvidia-smi -q (GPU, Product Name, Architecture and the Fabric block)",
        Tool { argv: &["nvidia-smi", "-q"], seconds: 20, filter:
            r"| sed -n -e '/^GPU [0-9A-F]/p' -e '/^Driver Version/p' -e '/^CUDA Version/p' -e '/^    Product \(Name\|Architecture\)/p' -e '/^    Addressing Mode/p' -e '/^    Fabric/,/^    [A-EG-Z]/p' -e '/^NVIDIA-SMI/p' -e '/^Failed/p' -e '/^No devices/p' -e '/^\[exit/p'" },
        64 * KB, Nothing,
        "NVSwitch fabric state, clique and cluster of multi-node NVLink";
}

const STATUS_LINES: &str =
    "^(Uid|Gid|Cap[A-Z][a-z]+|NoNewPrivs|Seccomp|Cpus_allowed_list|Mems_allowed_list):";

macro_rules! pasted {
    ($($(#[$doc:meta])* $name:ident = $id:literal, $shown:literal, $max:expr, $why:literal;)*) => {
        $($(#[$doc])* pub static $name: Ask = ask($id, $shown, Kind::Pasted, $max, Nothing, $why);)*

        /// Outputs that only a person hands in. No script contains them.
        pub static PASTED: &[&Ask] = &[$(&$name),*];
    };
}

pasted! {
    /// GID tables of MLNX_OFED.
    SHOW_GIDS = "show-gids", "show_gids", 64 * KB, "which GIDs are RoCE v2, and with which address";
    /// Network interfaces of RDMA ports.
    IBDEV2NETDEV = "ibdev2netdev", "ibdev2netdev", 32 * KB, "which network interface belongs to which RDMA device";
    /// Ports as infiniband-diags shows them from sysfs.
    IBSTATUS = "ibstatus", "ibstatus", 64 * KB, "state, rate and link layer of every port";
    /// Names that libibverbs offers.
    IBV_DEVICES = "ibv-devices", "ibv_devices", 16 * KB, "which devices the verbs library knows";
    /// Limit of a shell on locked memory.
    ULIMIT = "ulimit", "ulimit -l", 8 * KB, "RLIMIT_MEMLOCK decides how much memory can be registered";
    /// Modules of a host.
    LSMOD = "lsmod", "lsmod", 64 * KB, "GPU memory can be registered through nvidia_peermem or through dmabuf";
    /// The whole query of nvidia-smi.
    SMI_Q = "smi-q", "nvidia-smi -q", 1024 * KB, "fabric state of every GPU, and fields that could not be read";
    /// Either output of ucx_info, or both.
    UCX_INFO = "ucx-info", "ucx_info", 256 * KB, "version, build and transports of a UCX";
    /// Transports and devices that a UCX finds. Not part of the script: it makes and removes segments in /dev/shm, and the
    /// probe writes nothing.
    UCX_INFO_DEVICES = "ucx-info-devices", "ucx_info -d", 256 * KB, "transports that UCX finds here";
    /// A log of NCCL.
    NCCL_LOG = "nccl-log", "log of NCCL", 1024 * KB, "which network NCCL chose, and what the channels use";
    /// A log of UCX.
    UCX_LOG = "ucx-log", "log of UCX", 1024 * KB, "what UCX refused, and which lanes it uses";
    /// A log of the kernel.
    DMESG = "dmesg", "dmesg", 1024 * KB, "faults that drivers report";
}

/// What is said of a target beside what is read in it. No script contains these.
pub static TOLD: &[&Ask] = &[&TARGET, &POD_SPEC, &TRANSFER_SOFTWARE];

/// Whether the target was reached, and as what.
pub static TARGET: Ask = ask(
    "target",
    "the target itself",
    Kind::Told,
    KB,
    Nothing,
    "whether there was anything to read",
);

/// What the pod spec says of the container: `limit: NAME=QUANTITY`, `privileged:`, `capabilities:`, `host-network:`, then
/// `NAME=value` or `NAME<-reference` for catalogued variables.
pub static POD_SPEC: Ask = ask(
    "pod-spec",
    "pod spec (catalogued variables, limits, privileges)",
    Kind::Told,
    64 * KB,
    Nothing,
    "drift between what was asked for and what runs",
);

/// What an interpreter of the container took when a transfer was made: `.../NAME-VERSION.dist-info` of NIXL, paths of the
/// libraries that were mapped, and `UCX VERSION` as UCX itself said it. One per line.
pub static TRANSFER_SOFTWARE: Ask = ask(
    "transfer-software",
    "NIXL and UCX that the agent of the transfer loaded",
    Kind::Told,
    64 * KB,
    Nothing,
    "which of several installed libraries an interpreter really loads",
);

/// Words that people use for outputs, beside the ids and the tools' own names.
const PASTE_NAMES: &[(&str, &Ask)] = &[
    ("topo", &NVIDIA_SMI_TOPO),
    ("nvlink", &NVIDIA_SMI_NVLINK),
    ("smi", &SMI_Q),
    ("nvidia-smi", &SMI_Q),
    ("nvidia-smi-q", &SMI_Q),
    ("fabric", &NVIDIA_SMI_FABRIC),
    ("gpus", &NVIDIA_SMI_QUERY),
    ("devinfo", &IBV_DEVINFO),
    ("rdma", &RDMA_LINK),
    ("gids", &SHOW_GIDS),
    ("modules", &LSMOD),
    ("memlock", &ULIMIT),
    ("ucx-info-v", &UCX_INFO_VERSION),
    ("ucx-info-d", &UCX_INFO_DEVICES),
    ("fi-info", &FI_INFO_EFA),
    ("nccl", &NCCL_LOG),
    ("ucx", &UCX_LOG),
    ("df", &SHM),
    ("shm", &SHM),
    ("env", &ENVIRONMENT),
    ("environ", &ENVIRONMENT),
    ("environment", &ENVIRONMENT),
    ("limits", &LIMITS),
    ("status", &STATUS),
    ("uname", &KERNEL),
    ("ip", &IP_ADDR),
    ("addr", &IP_ADDR),
    ("pip", &PYTHON_PACKAGES),
];

/// The ask that a pasted output answers, by the name of the tool, a short word for it, or an id. Underscores, blanks and
/// capitals do not matter: `ibv_devinfo`, `nvidia-smi topo -m`, `show_gids`.
pub fn for_paste(name: &str) -> Option<&'static Ask> {
    let plain = |text: &str| text.trim().to_ascii_lowercase().replace(['_', ' '], "-");
    let name = plain(name);
    PASTE_NAMES
        .iter()
        .find(|(word, _)| *word == name)
        .map(|(_, ask)| *ask)
        .or_else(|| {
            let known = |ask: &&&Ask| ask.id == name || plain(ask.shown_as) == name;
            PASTED.iter().chain(ALL).find(known).copied()
        })
}

/// Whether people paste this in the form that the probe answers in. They do not: of the query of nvidia-smi they paste all.
const NOBODY_PASTES: &[&Ask] = &[&NVIDIA_SMI_FABRIC, &NVIDIA_SMI_QUERY, &STATUS, &LIMITS];

/// The name by which a person hands in what this asks for; `None` where it is no output of a tool.
pub fn paste_word(ask: &Ask) -> Option<&'static str> {
    if NOBODY_PASTES.iter().any(|other| other.id == ask.id) {
        return None;
    }
    PASTED
        .iter()
        .chain([&&IBSTAT, &&IBV_DEVINFO])
        .find(|pasted| pasted.id == ask.id)
        .map(|pasted| pasted.id)
        .or_else(|| {
            let named = PASTE_NAMES.iter().find(|(_, named)| named.id == ask.id);
            named.map(|(word, _)| *word)
        })
}

/// The short words for pasted outputs, for error messages.
pub fn paste_names() -> impl Iterator<Item = &'static str> {
    PASTE_NAMES
        .iter()
        .map(|(word, _)| *word)
        .chain(PASTED.iter().map(|ask| ask.id))
        .chain([IBSTAT.id, IBV_DEVINFO.id])
}

/// The id of the ask that is shown as this; where there is none, the same words.
pub fn id_of(shown_as: &str) -> &str {
    let mut asks = ALL.iter().chain(PASTED).chain(TOLD);
    asks.find(|ask| ask.shown_as == shown_as)
        .map_or(shown_as, |ask| ask.id)
}

/// The ask with this id.
pub fn by_id(id: &str) -> Option<&'static Ask> {
    ALL.iter().copied().find(|ask| ask.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ids_are_unique_words() {
        let ids: BTreeSet<_> = ALL.iter().map(|ask| ask.id).collect();
        assert_eq!(ids.len(), ALL.len());
        for id in ids {
            assert!(
                id.bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'),
                "{id}"
            );
        }
    }

    #[test]
    fn people_find_the_ask_they_mean() {
        for (word, id) in [
            ("topo", "nvidia-smi-topo"),
            ("nvidia-smi topo -m", "nvidia-smi-topo"),
            ("nvlink", "nvidia-smi-nvlink"),
            ("smi-q", "smi-q"),
            ("ibstat", "ibstat"),
            ("ibstatus", "ibstatus"),
            ("ibv_devinfo", "ibv-devinfo"),
            ("ibdev2netdev", "ibdev2netdev"),
            ("show_gids", "show-gids"),
            ("lsmod", "lsmod"),
            ("ulimit", "ulimit"),
            ("ulimit -l", "ulimit"),
            ("ucx_info", "ucx-info"),
            ("ucx_info -d", "ucx-info-devices"),
            ("nccl", "nccl-log"),
            ("UCX", "ucx-log"),
            ("dmesg", "dmesg"),
            ("df", "shm"),
            ("environ", "environment"),
            ("rdma-ports", "rdma-ports"),
        ] {
            assert_eq!(for_paste(word).map(|ask| ask.id), Some(id), "{word}");
        }
        assert_eq!(for_paste("ls"), None);
    }

    #[test]
    fn no_script_holds_what_is_pasted() {
        let read: BTreeSet<_> = ALL.iter().map(|ask| ask.id).collect();
        for ask in PASTED {
            assert_eq!(ask.kind, Kind::Pasted);
            assert!(!read.contains(ask.id), "{}", ask.id);
        }
        assert!(ALL.iter().all(|ask| ask.kind != Kind::Pasted));
    }

    #[test]
    fn tools_that_would_load_a_module_run_only_where_it_is() {
        for ask in ALL {
            if let Tool { argv, .. } = ask.kind
                && matches!(argv[0], "ibv_devinfo" | "ibstat" | "rdma" | "fi_info")
            {
                let needs = matches!(ask.needs, RdmaDevice | RdmaDeviceWithout(_));
                assert!(needs, "{}", ask.id);
            }
        }
    }

    #[test]
    fn every_answer_is_bounded_and_explained() {
        for ask in ALL {
            assert!((1..=256 * KB).contains(&ask.max_bytes), "{}", ask.id);
            assert!(!ask.why.is_empty() && !ask.why.ends_with('.'), "{}", ask.id);
        }
    }
}
