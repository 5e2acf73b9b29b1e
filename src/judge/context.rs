//! What is known about the place in which a variable takes effect.
//!
//! Three sources fill a [`Context`]: the words of `explain --context`, a manifest (which leaves most of it unknown), and
//! a live pod. Unknown stays unknown: nothing here invents a default for a manifest or a pod.

use std::fmt;

/// A yes or no that may not be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tri {
    /// Yes.
    Yes,
    /// No.
    No,
    /// Not looked at, or no answer.
    #[default]
    Unknown,
}

impl From<bool> for Tri {
    fn from(value: bool) -> Self {
        if value { Self::Yes } else { Self::No }
    }
}

/// A library version, compared by its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// First number.
    pub major: u32,
    /// Second number.
    pub minor: u32,
}

impl Version {
    /// A version from its two numbers.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// Reads `1.20` or `1.20.1`; None for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('.');
        let major = parts.next()?.parse().ok()?;
        let minor = parts.next()?.parse().ok()?;
        parts
            .all(|p| p.parse::<u32>().is_ok())
            .then_some(Self { major, minor })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Link layer of an RDMA port, as sysfs names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// InfiniBand.
    InfiniBand,
    /// Ethernet: RoCE or iWARP.
    Ethernet,
    /// Unspecified, as EFA shows.
    Unknown,
}

/// Who made an RDMA device, as far as its name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vendor {
    /// NVIDIA/Mellanox ConnectX and BlueField (`mlx5*`).
    Mlx5,
    /// Amazon EFA (`rdmap*`, `efa*`).
    Efa,
    /// A known verbs device that is neither (`bnxt_re*`, `irdma*`).
    OtherVerbs,
    /// The name does not say.
    Unknown,
}

/// One RDMA port that the pod can open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nic {
    /// Device name, `mlx5_0`.
    pub device: String,
    /// Port, from 1.
    pub port: u32,
    /// Link layer.
    pub link: Link,
    /// State is ACTIVE.
    pub active: bool,
    /// State as written.
    pub state: String,
    /// The vendor by more than the name: its driver, or its vendor id. A device may be renamed.
    pub maker: Option<Vendor>,
}

impl Nic {
    /// The vendor, by the name of the device where nothing else tells it.
    pub fn vendor(&self) -> Vendor {
        if let Some(maker) = self.maker {
            return maker;
        }
        let name = self.device.as_str();
        if name.starts_with("mlx5") {
            Vendor::Mlx5
        } else if name.starts_with("rdmap") || name.starts_with("efa") {
            Vendor::Efa
        } else if name.starts_with("bnxt_re") || name.starts_with("irdma") {
            Vendor::OtherVerbs
        } else {
            Vendor::Unknown
        }
    }
}

/// GPUs of one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpus {
    /// How many.
    pub count: u32,
    /// Model as written (`H100`, `GB200-NVL72`); empty when not known.
    pub model: String,
    /// Every pair is joined by NVLink.
    pub nvswitch: Tri,
}

/// A filled entry of the GID table, the same on every port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gid {
    /// Index.
    pub index: u32,
    /// RoCE version: 1 or 2; None on InfiniBand.
    pub roce_version: Option<u8>,
}

/// The NIXL backend that the engine selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Backend {
    /// UCX, also the default of the engines.
    Ucx,
    /// libfabric, for EFA.
    Libfabric,
    /// Another mover (Mooncake, MPI): neither UCX_* nor FI_* carry KV.
    Other,
    /// Not known.
    #[default]
    Unknown,
}

impl Backend {
    /// By its name, as engines spell it in any case. Who names another one means another one.
    pub fn named(name: &str) -> Self {
        match name.to_ascii_uppercase().as_str() {
            "UCX" => Self::Ucx,
            "LIBFABRIC" => Self::Libfabric,
            _ => Self::Other,
        }
    }
}

/// The kind of accelerator whose memory holds the KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Accelerator {
    /// CUDA: needs `cuda_copy`.
    Nvidia,
    /// Level Zero: needs `ze_copy`.
    Intel,
    /// ROCm: needs `rocm_copy`.
    Amd,
    /// Not known: any of them will do.
    #[default]
    Unknown,
}

/// Everything a judgement may depend on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Context {
    /// NIXL version.
    pub nixl: Option<Version>,
    /// UCX version really loaded.
    pub ucx: Option<Version>,
    /// NCCL version.
    pub nccl: Option<Version>,
    /// KV crosses nodes. Unknown is judged like yes: a deployment must not depend on luck in placement.
    pub internode: Tri,
    /// Prefill and decode may share a node.
    pub may_share_node: Tri,
    /// The ranks of one worker are on several nodes (what NCCL variables act on).
    pub ranks_internode: Tri,
    /// GPUs of the pod.
    pub gpus: Option<Gpus>,
    /// Both ends are in one multi-node NVLink domain and may use it. In a manifest: a ComputeDomain is claimed.
    pub mnnvl: Tri,
    /// RDMA ports that the pod can open; None when not known, empty when there are none.
    pub nics: Option<Vec<Nic>>,
    /// The pod can reach an RDMA device at all. Follows from `nics` where that is known; in a manifest: requested.
    pub rdma: Tri,
    /// Interfaces that are up with an address, besides `lo`.
    pub net: Option<Vec<String>>,
    /// Filled GID indexes.
    pub gids: Option<Vec<Gid>>,
    /// A peermem path exists.
    pub peermem: Tri,
    /// dmabuf is usable on GPU and NIC.
    pub dmabuf: Tri,
    /// The pod has EFA devices.
    pub efa: Tri,
    /// NIXL backend of the engine.
    pub backend: Backend,
    /// NCCL net plugin that carries collectives; `Some("none")` for the built-in transports.
    pub netplugin: Option<String>,
    /// KV buffers are in host memory by intent (`kv_buffer_device: cpu`).
    pub host_buffers: bool,
    /// Whose memory holds the KV cache.
    pub accelerator: Accelerator,
    /// Anti-affinity (or placement) keeps prefill and decode on different nodes.
    pub roles_separated: Tri,
}
