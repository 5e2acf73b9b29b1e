//! What comes up: events of an agent, plain facts.

use super::{Kind, Words};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What an agent says.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    missing_docs,
    reason = "each is the answer to the command of the same name"
)]
pub enum Event {
    /// Unasked: the interpreter runs the program.
    Hello,
    Ready(Box<Ready>),
    Connected(Connected),
    Xfer(Box<Xfer>),
    Filled(Region),
    Cleared(Region),
    Checked(Checked),
    Counters(CounterSet),
    Pong,
    Bye(Bye),
    Fatal(Box<Fatal>),
}

impl Event {
    /// The word that names it in the protocol.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Hello => "hello",
            Self::Ready(_) => "ready",
            Self::Connected(_) => "connected",
            Self::Xfer(_) => "xfer",
            Self::Filled(_) => "filled",
            Self::Cleared(_) => "cleared",
            Self::Checked(_) => "checked",
            Self::Counters(_) => "counters",
            Self::Pong => "pong",
            Self::Bye(_) => "bye",
            Self::Fatal(_) => "fatal",
        }
    }
}

/// An agent is up: its memory is registered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "plain facts; the names say what they are")]
pub struct Ready {
    pub proto: u32,
    pub python: Words,
    pub executable: Words,
    pub nixl_module: Words,
    /// File of that module.
    pub nixl_file: Option<Words>,
    /// Modules of NIXL that stand before it, are there, and could not be imported, with why.
    pub passed_over: Vec<Words>,
    pub torch: Words,
    pub dist: BTreeMap<Words, Words>,
    pub backend: Words,
    pub import_s: f64,
    pub create_s: f64,
    pub plugins: Vec<Words>,
    /// Soft and hard RLIMIT_MEMLOCK; -1 is unlimited.
    pub memlock: [i64; 2],
    pub mem: MemoryFacts,
    /// Why GPU memory was not used, where it was asked for with `auto`.
    pub host_memory_because: Option<Words>,
    pub libs: Vec<Words>,
    pub cgroup: Cgroup,
    pub cpu: Cpu,
    pub ports: Vec<PortFacts>,
    /// Whose counters can be read: `net/eth0`, `ib/mlx5_0:1`, `hw/rxe0:1`. Of a device that does not count both ways each counter
    /// that it has: `ib/mlx5_0:1/rx_bytes`.
    pub counted: Vec<Words>,
    pub env: BTreeMap<Words, Words>,
    #[serde(skip_serializing)]
    pub md: String,
    #[serde(skip_serializing)]
    pub addr: u64,
    pub bytes: u64,
    pub dev: u64,
    pub seg: Words,
}

/// The memory that was taken.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "plain facts; the names say what they are")]
pub struct MemoryFacts {
    /// `DRAM` or `VRAM`.
    pub seg: Words,
    pub gpu: Option<Words>,
    pub pci: Option<Words>,
    pub free: Option<u64>,
    pub total: Option<u64>,
    pub gpu_direct_rdma: Option<bool>,
    pub dma_buf: Option<bool>,
    pub fabric_handle: Option<bool>,
    pub imex: Option<bool>,
}

/// Memory limit of the container.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "plain facts; the names say what they are")]
pub struct Cgroup {
    pub limit: Option<u64>,
    pub used: Option<u64>,
    /// How often the kernel has killed a process here for want of memory.
    pub oom_kill: Option<u64>,
}

/// Load and quota beside a measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "plain facts; the names say what they are")]
pub struct Cpu {
    pub load1: f64,
    pub cpus: u32,
    /// CPUs that the quota allows; none = no quota.
    pub quota: Option<f64>,
    /// Periods in which the quota stopped us.
    pub throttled: Option<i64>,
}

/// One RDMA port as the container sees it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "plain facts; the names say what they are")]
pub struct PortFacts {
    pub device: Words,
    pub port: u32,
    pub state: Option<Words>,
    pub rate: Option<Words>,
    pub link_layer: Option<Words>,
    /// The device hangs on a bus. Soft-RoCE and soft-iWARP do not.
    pub hardware: bool,
    /// Its device node is in the container.
    pub granted: bool,
    pub driver: Option<Words>,
}

/// The initiator knows its peer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[expect(missing_docs, reason = "plain facts; the names say what they are")]
pub struct Connected {
    pub s: f64,
}

/// A region was written.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[expect(missing_docs, reason = "plain facts; the names say what they are")]
pub struct Region {
    /// Of the pattern; none where it was cleared.
    #[serde(default)]
    pub seed: Option<u32>,
    pub bytes: u64,
}

/// A region was compared.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[expect(missing_docs, reason = "plain facts; the names say what they are")]
pub struct Checked {
    pub seed: u32,
    pub bytes: u64,
    #[serde(flatten)]
    pub verify: Verify,
}

/// Counters by name.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[expect(missing_docs, reason = "plain facts; the names say what they are")]
pub struct CounterSet {
    pub counters: Counters,
}

/// `net/eth0/tx_bytes`, `ib/mlx5_0:1/rx_bytes`, `hw/rxe0:1/sent_pkts`, `nvlink/<pci>/tx_bytes` to values, in bytes or
/// packets.
pub type Counters = BTreeMap<Words, i64>;

/// One step is done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "plain facts; the names say what they are")]
pub struct Xfer {
    pub kind: Kind,
    /// Of the pattern; it says whose answer this is.
    #[serde(default, skip_serializing)]
    pub seed: Option<u32>,
    pub bytes: u64,
    pub descs: u64,
    pub iters: u64,
    /// The first operation sets the path up and is not among the others.
    pub first_us: f64,
    pub moved: u64,
    pub gbps: f64,
    pub lat_us: Latency,
    #[serde(default)]
    pub delta: Counters,
    #[serde(default)]
    pub cpu: Cpu,
    /// Backend that NIXL says it used.
    #[serde(default)]
    pub backend: Option<Words>,
    /// The initiator's own comparison, after a READ.
    #[serde(default)]
    pub verify: Option<Verify>,
}

/// Latency of single operations, in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "plain facts; the names say what they are")]
pub struct Latency {
    pub min: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub max: f64,
}

/// What a comparison of every byte gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "plain facts; the names say what they are")]
pub struct Verify {
    pub ok: bool,
    pub compared: u64,
    #[serde(default)]
    pub bad_at: Option<u64>,
    /// The block with the first difference held only zeros: nothing arrived there.
    #[serde(default)]
    pub zeros: Option<bool>,
    /// It held what an earlier operation of the same step had written: the last one moved nothing there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<bool>,
    #[serde(default)]
    pub bad_blocks: Option<u64>,
}

/// An agent leaves in good order.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[expect(missing_docs, reason = "plain facts; the names say what they are")]
pub struct Bye {
    pub maxrss_kb: u64,
}

/// An agent cannot go on, and says why.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "plain facts; the names say what they are")]
pub struct Fatal {
    pub code: i32,
    pub why: Words,
    pub detail: Words,
    /// Of a transfer: `post`, `poll`, `stall`, `status`.
    pub phase: Option<Words>,
    pub memlock: Option<[i64; 2]>,
    pub moved: Option<u64>,
}
