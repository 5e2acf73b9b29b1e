//! The log of NCCL at `NCCL_DEBUG=INFO`: which network was chosen, and what the channels use.
//!
//! The chosen network is not the one that carries: within a node channels go over P2P or shared memory whatever
//! `Using network` says, and a log that ends before the channel lines does not show the transport at all. Lines of
//! several ranks are mixed and may carry the prefixes of mpirun, Ray or a container runtime, so the text behind
//! `NCCL INFO` counts. Lines: <https://github.com/NVIDIA/nccl/tree/v2.28.9-1/src>

use super::tally::Tally;
use super::transcript::{self, excerpt};
use super::work_completion;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What PyTorch says when a collective did not end in time.
/// <https://github.com/pytorch/pytorch/blob/v2.6.0/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp>
const WATCHDOG: &str = "Watchdog caught collective operation timeout";

/// Distinct values kept at most in one list.
const DISTINCT: usize = 1024;

/// What the log says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NcclLog {
    /// Lines of NCCL. Zero: the text is no log of NCCL.
    pub lines: u64,
    /// Versions, `2.21.5+cuda12.4`. More than one where several communicators logged.
    pub versions: BTreeSet<String>,
    /// `Using network X`: chosen for traffic between nodes.
    pub networks: BTreeSet<Network>,
    /// RDMA ports of the `NET/IB : Using` line.
    pub rdma_ports: BTreeSet<RdmaPort>,
    /// Adapters merged to one virtual device: `mlx5_0+mlx5_1`.
    pub merged_adapters: BTreeSet<String>,
    /// `NET/IB : No device found.`
    pub has_no_rdma_device: bool,
    /// libibverbs could not be loaded.
    pub has_no_verbs_library: bool,
    /// Interfaces of the `NET/Socket : Using` line.
    pub socket_interfaces: BTreeSet<String>,
    /// Providers of libfabric that the OFI plugin selected: `efa`, `tcp;ofi_rxm`. More than one where ranks differ.
    pub ofi_providers: BTreeSet<String>,
    /// Channels by what carries them. Empty: the transport in use is not shown.
    pub channels: BTreeMap<Via, u64>,
    /// Decisions on GPUDirect RDMA.
    pub gpu_direct: BTreeSet<GpuDirect>,
    /// `DMA-BUF is available on GPU device`.
    pub has_dmabuf: bool,
    /// `MNNVL 1` or `MNNVL 0` of a communicator; the probe line `MNNVL busId .. state 3` says neither.
    pub mnnvl: Option<bool>,
    /// Largest `nNodes` of a communicator.
    pub nodes: Option<u32>,
    /// Some pair of GPUs has peer-to-peer disabled.
    pub has_p2p_disabled: bool,
    /// A communicator was initialised.
    pub has_init_complete: bool,
    /// Known faults.
    pub faults: BTreeSet<Fault>,
    /// All `NCCL WARN` lines.
    pub warnings: Tally,
    /// Those that are no known fault, and collectives that the watchdog of PyTorch gave up.
    pub unknown: Tally,
    /// `NCCL_IB_DISABLE` is set and not 0: NCCL does not look for RDMA devices.
    pub is_ib_disabled: bool,
}

/// A network transport.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Network {
    /// Verbs, InfiniBand or RoCE: that of NCCL (`IB`), and the plugins that do the same (`IBext_v8`, `gIB`).
    Ib,
    /// TCP.
    Socket,
    /// The OFI plugin; older ones call it `AWS Libfabric`.
    Libfabric,
    /// GPUDirect over TCP and no RDMA: `GPUDirectTCPX_v7` (GPUDirect-TCPX) and `FasTrak` (GPUDirect-TCPXO), sanitised.
    /// <https://cloud.google.com/cluster-toolkit/docs/machine-learning/a3-mega-enable-gpudirect-tcpxo>
    GpuDirectTcp(String),
    /// A plugin of another name, sanitised.
    Other(String),
}

impl Network {
    fn parse(name: &str) -> Self {
        match name.trim() {
            "Socket" => Self::Socket,
            "Libfabric" | "AWS Libfabric" => Self::Libfabric,
            // https://github.com/Mellanox/nccl-rdma-sharp-plugins and Google's NCCL/gIB.
            "IB" | "IBext" | "gIB" => Self::Ib,
            name if name.starts_with("IBext_v") => Self::Ib,
            name if name.starts_with("GPUDirectTCPX") || name.starts_with("FasTrak") => {
                Self::GpuDirectTcp(excerpt(name))
            }
            other => Self::Other(excerpt(other)),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ib => "IB",
            Self::Socket => "Socket",
            Self::Libfabric => "Libfabric",
            Self::GpuDirectTcp(name) | Self::Other(name) => name,
        })
    }
}

/// A port that NCCL uses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RdmaPort {
    /// Device.
    pub device: String,
    /// Port of the device.
    pub port: u32,
    /// RoCE, else InfiniBand.
    pub is_roce: bool,
}

/// What carries a channel.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Via {
    /// From GPU to GPU.
    P2p(P2p),
    /// Host shared memory: no peer-to-peer between these GPUs.
    SharedMemory,
    /// A network.
    Net {
        /// Which.
        network: Network,
        /// GPUDirect RDMA; without it the data are staged in host memory.
        gpu_direct: bool,
    },
    /// A word that no known version prints, sanitised.
    Other(String),
}

/// Kinds of peer-to-peer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum P2p {
    /// Multi-node NVLink.
    Mnnvl,
    /// CUDA IPC, cuMem or direct pointers.
    Direct,
    /// Through another GPU.
    Indirect,
}

impl Via {
    /// From the text behind `via`: `P2P/CUMEM`, `SHM/direct/direct`, `NET/IB/0(8)/GDRDMA/Shared`. A plugin name may hold
    /// a blank: `NET/AWS Libfabric/0/GDRDMA`.
    fn parse(text: &str) -> Self {
        let mut parts = text.trim().split('/');
        match (parts.next(), parts.next()) {
            (Some("P2P"), kind) => Self::P2p(match kind {
                Some("MNNVL") => P2p::Mnnvl,
                Some("indirect") => P2p::Indirect,
                _ => P2p::Direct,
            }),
            (Some("SHM"), _) => Self::SharedMemory,
            (Some("NET"), Some(network)) => Self::Net {
                network: Network::parse(network),
                gpu_direct: parts.any(|part| part.starts_with("GDRDMA")),
            },
            _ => Self::Other(transcript::message(text)),
        }
    }
}

/// As the log writes it, without the number of the device.
impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::P2p(P2p::Mnnvl) => f.write_str("P2P/MNNVL"),
            Self::P2p(P2p::Direct) => f.write_str("P2P"),
            Self::P2p(P2p::Indirect) => f.write_str("P2P/indirect"),
            Self::SharedMemory => f.write_str("SHM"),
            Self::Net {
                network,
                gpu_direct,
            } => write!(
                f,
                "NET/{network}{}",
                if *gpu_direct { "/GDRDMA" } else { "" }
            ),
            Self::Other(words) => f.write_str(words),
        }
    }
}

/// A decision on GPUDirect RDMA for one adapter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GpuDirect {
    /// Adapter, by name where the line has it (`mlx5_0`), else by number.
    pub adapter: String,
    /// GPU, where the decision is about one.
    pub gpu: Option<String>,
    /// On or off.
    pub is_enabled: bool,
    /// Topological distance, where it decided. Numbers grow with distance; PIX is 4, SYS is 9 in NCCL 2.28.
    pub distance: Option<u32>,
}

/// Faults with known words.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// `/dev/shm` is too small.
    SharedMemoryTooSmall,
    /// Memory could not be registered with an adapter, for this reason: `Cannot allocate memory`; empty where none is said.
    Registration(String),
    /// A work request failed with this status: `IBV_WC_RETRY_EXC_ERR`.
    Completion(String),
    /// A network plugin could not be initialised.
    PluginFailed(String),
    /// NCCL stopped for this reason.
    Stopped(Stop),
}

/// Why NCCL stops, by the words with which it says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// No interface matches `NCCL_SOCKET_IFNAME`, or none is up.
    NoSocketInterface,
    /// An InfiniBand port was to talk to a RoCE port.
    IncompatibleDevices,
    /// Multi-node NVLink is there and importing memory over it fails.
    MnnvlNotWorking,
    /// None of the networks could be initialised.
    NoNetwork,
    /// A queue pair could not reach its peer: `ibv_modify_qp`, errno 110.
    QueuePairTimeout,
    /// Memory of another process could not be imported.
    HandleImport,
}

/// Words of NCCL 2.18 to 2.28; <https://github.com/NVIDIA/nccl/tree/v2.28.9-1/src>, NVIDIA/nccl#1647, #1664, #2013.
const STOPS: &[(&str, Stop)] = &[
    ("no socket interface found", Stop::NoSocketInterface),
    (
        "Attempted to connect incompatible devices",
        Stop::IncompatibleDevices,
    ),
    (
        "is available but not working on this system",
        Stop::MnnvlNotWorking,
    ),
    ("Failed to initialize any NET plugin", Stop::NoNetwork),
    ("cuMemImportFromShareableHandle", Stop::HandleImport),
];

/// The reason for which NCCL stops, where the message says one.
fn stop(message: &str) -> Option<Stop> {
    let is_timeout = message.contains("ibv_modify_qp failed")
        && ["110", "timed out"]
            .iter()
            .any(|word| message.contains(word));
    if is_timeout {
        return Some(Stop::QueuePairTimeout);
    }
    let known = STOPS.iter().find(|(words, _)| message.contains(words));
    known.map(|(_, stop)| *stop)
}

impl NcclLog {
    /// The log shows what carries the channels.
    pub fn shows_transport(&self) -> bool {
        !self.channels.is_empty()
    }

    /// Channels that leave the node.
    pub fn network_channels(&self) -> impl Iterator<Item = (&Network, bool, u64)> {
        self.channels.iter().filter_map(|(via, count)| match via {
            Via::Net {
                network,
                gpu_direct,
            } => Some((network, *gpu_direct, *count)),
            Via::P2p(_) | Via::SharedMemory | Via::Other(_) => None,
        })
    }
}

/// Reads a log. Total: a text without a line of NCCL gives [`NcclLog::lines`] zero.
pub fn parse(text: &str) -> NcclLog {
    let mut log = NcclLog::default();
    for line in transcript::lines(text) {
        if let Some((_, message)) = line.split_once("NCCL WARN ") {
            log.lines += 1;
            log.warnings.add(message);
            if !warning(&mut log, message.trim()) {
                log.unknown.add(message);
            }
        } else if let Some((_, message)) = line.split_once("NCCL INFO ") {
            log.lines += 1;
            info(&mut log, message.trim());
        } else if let Some(version) = line.trim().strip_prefix("NCCL version ") {
            log.lines += 1;
            keep(&mut log.versions, excerpt(version));
        } else if let Some(at) = line.find(WATCHDOG) {
            log.unknown.add(&line[at..]);
        }
    }
    log
}

fn keep<T: Ord>(set: &mut BTreeSet<T>, value: T) {
    if set.len() < DISTINCT {
        set.insert(value);
    }
}

fn info(log: &mut NcclLog, message: &str) {
    if let Some(rest) = message.strip_prefix("Channel ") {
        if let Some((_, via)) = rest.split_once(" via ") {
            let via = Via::parse(via);
            if log.channels.len() < DISTINCT || log.channels.contains_key(&via) {
                *log.channels.entry(via).or_default() += 1;
            }
        }
    } else if let Some(name) = message.strip_prefix("Using network ") {
        keep(&mut log.networks, Network::parse(name));
    } else if let Some(rest) = after(message, "NET/IB") {
        rdma(log, rest);
    } else if let Some(rest) = after(message, "NET/Socket") {
        if let Some(list) = rest.strip_prefix("Using ") {
            for (interface, _) in indexed(list) {
                keep(&mut log.socket_interfaces, interface);
            }
        }
    } else if let Some(provider) = ofi_provider(message) {
        keep(&mut log.ofi_providers, provider);
    } else if message.starts_with("Failed to open libibverbs.so") {
        log.has_no_verbs_library = true;
    } else if let Some(rest) = message.strip_prefix("Failed to initialize NET plugin ") {
        keep(
            &mut log.faults,
            Fault::PluginFailed(transcript::message(rest)),
        );
    } else if let Some(version) = message.strip_prefix("NCCL version ") {
        keep(&mut log.versions, excerpt(version));
    } else if let Some(value) = message.strip_prefix("NCCL_IB_DISABLE set by environment to ") {
        log.is_ib_disabled |= transcript::integer(value).is_some_and(|value| value != 0);
    } else {
        communicator(log, message);
    }
}

/// `NET/OFI Selected provider is tcp;ofi_rxm, fabric is .. (found 1 nics)`; `Provider` before 1.8 of the plugin. Where no other
/// is eligible it comes as a warning.
fn ofi_provider(message: &str) -> Option<String> {
    let provider = message
        .strip_prefix("NET/OFI Selected Provider is ")
        .or_else(|| message.strip_prefix("NET/OFI Selected provider is "))?;
    let provider = provider.split([',', ' ']).next().unwrap_or_default();
    Some(excerpt(provider))
}

fn communicator(log: &mut NcclLog, message: &str) {
    if let Some(decision) = gpu_direct(message) {
        keep(&mut log.gpu_direct, decision);
    } else if message.starts_with("DMA-BUF is available") {
        log.has_dmabuf = true;
    } else if message.starts_with("P2P is disabled between") {
        log.has_p2p_disabled = true;
    } else if message.contains("Init COMPLETE") {
        log.has_init_complete = true;
    }
    if let Some((_, rest)) = message.split_once("nNodes ") {
        log.nodes = log.nodes.max(transcript::small(rest));
    }
    // `MNNVL 1 cliqueId ..` of the decision and `.. localRank 0 MNNVL 1` of the communicator.
    let words = message.strip_prefix("MNNVL ").or_else(|| {
        let (_, tail) = message.rsplit_once(" MNNVL ")?;
        Some(tail)
    });
    match words.and_then(|words| words.split_whitespace().next()) {
        Some("1") => log.mnnvl = Some(true),
        Some("0") => log.mnnvl = log.mnnvl.or(Some(false)),
        _ => {}
    }
}

/// The text behind `NET/IB :` or `NET/IB:`.
fn after<'a>(message: &'a str, subject: &str) -> Option<&'a str> {
    let rest = message.strip_prefix(subject)?.trim_start();
    rest.strip_prefix(':').map(str::trim)
}

fn rdma(log: &mut NcclLog, message: &str) {
    if message.starts_with("No device found") {
        log.has_no_rdma_device = true;
    } else if let Some(list) = message.strip_prefix("Using ") {
        for (device, rest) in indexed(list) {
            // `mlx5_0:1/IB`, `mlx5_1:1/RoCE`, with SHARP `mlx5_0:1/IB/SHARP`.
            let (port, link) = rest.split_once('/').unwrap_or((rest, ""));
            if let Some(port) = transcript::small(port) {
                let is_roce = link.starts_with("RoCE");
                keep(
                    &mut log.rdma_ports,
                    RdmaPort {
                        device,
                        port,
                        is_roce,
                    },
                );
            }
        }
    } else if message.starts_with("Made virtual device") {
        let name = message
            .split_once("name=")
            .and_then(|(_, tail)| tail.split_whitespace().next())
            .filter(|name| name.contains('+'));
        if let Some(name) = name {
            keep(&mut log.merged_adapters, excerpt(name));
        }
    } else if let Some(decision) = gpu_direct(message) {
        keep(&mut log.gpu_direct, decision);
    } else {
        completion(log, message);
    }
}

/// `[0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB ..` as name and the text behind the first colon.
fn indexed(list: &str) -> impl Iterator<Item = (String, &str)> {
    let list = list.split(';').next().unwrap_or_default();
    list.split_whitespace().filter_map(|word| {
        let (index, entry) = word.strip_prefix('[')?.split_once(']')?;
        index.parse::<u32>().ok()?;
        let (name, rest) = entry.split_once(':')?;
        Some((excerpt(name), rest))
    })
}

/// `GPU Direct RDMA Enabled for GPU 0 / HCA 0 (distance 4 <= 5), read 0`, `GPU Direct RDMA Disabled for HCA 0 'mlx5_0'`.
fn gpu_direct(message: &str) -> Option<GpuDirect> {
    let (_, rest) = message.split_once("GPU Direct RDMA ")?;
    let (word, rest) = rest.split_once(" for ")?;
    let is_enabled = match word {
        "Enabled" => true,
        "Disabled" => false,
        _ => return None,
    };
    let gpu = rest
        .strip_prefix("GPU ")
        .and_then(|tail| tail.split_whitespace().next())
        .map(excerpt);
    let (_, tail) = rest.split_once("HCA ")?;
    let named = tail.split('\'').nth(1);
    let number = tail.split_whitespace().next()?;
    let distance = rest
        .split_once("(distance ")
        .and_then(|(_, tail)| transcript::small(tail));
    Some(GpuDirect {
        adapter: excerpt(named.unwrap_or(number)),
        gpu,
        is_enabled,
        distance,
    })
}

/// True for what is known: a fault, or what was selected.
fn warning(log: &mut NcclLog, message: &str) -> bool {
    if let Some(stop) = stop(message) {
        keep(&mut log.faults, Fault::Stopped(stop));
        return true;
    }
    if message.contains("failed to extend /dev/shm")
        || message.contains("Error while creating shared memory segment /dev/shm")
    {
        keep(&mut log.faults, Fault::SharedMemoryTooSmall);
        return true;
    }
    if let Some(why) = registration(message) {
        keep(&mut log.faults, Fault::Registration(why));
        return true;
    }
    if let Some(provider) = ofi_provider(message) {
        keep(&mut log.ofi_providers, provider);
        return true;
    }
    completion(log, message)
}

/// `Call to ibv_reg_mr failed with error Cannot allocate memory`, `Call to ibv_reg_mr_iova2 failed`, and since 2.19
/// `Call to ibv_reg_dmabuf_mr failed with error Bad address errno 14`.
fn registration(message: &str) -> Option<String> {
    let (_, call) = message.split_once("Call to ibv_reg_")?;
    let (name, tail) = call.split_once(" failed")?;
    let is_memory = ["mr", "mr_iova", "mr_iova2", "dmabuf_mr"].contains(&name);
    let why = tail.trim_start().strip_prefix("with error ");
    let why = why.map_or("", |why| why.split(" errno").next().unwrap_or_default());
    is_memory.then(|| transcript::message(why.trim()))
}

/// `Got completion from peer .. status=IBV_WC_RETRY_EXC_ERR(12)`; before 2.24 `.. with status=12`, `.. with error 12, opcode`.
/// True where it is one.
fn completion(log: &mut NcclLog, message: &str) -> bool {
    let Some((_, tail)) = message.split_once("Got completion ") else {
        return false;
    };
    let status = tail
        .split_once("status=")
        .or_else(|| tail.split_once("with error "))
        .and_then(|(_, status)| status.split(['(', ' ', ',']).next())
        .unwrap_or_default();
    let status =
        work_completion::name(status).map_or_else(|| transcript::message(status), str::to_owned);
    keep(&mut log.faults, Fault::Completion(status));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    // Written by hand after the sources of NCCL 2.19 to 2.28.
    const LOG: &str = "n0:1:1 [0] NCCL INFO NCCL version 2.28.9+cuda13.0
n0:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:192.0.2.1<0>
n0:1:2 [0] NCCL INFO NET/IB : Made virtual device [2] name=mlx5_0+mlx5_1 speed=200000 ndevs=2
n0:1:2 [0] NCCL INFO Using network IB
n0:1:2 [0] NCCL INFO GPU Direct RDMA Enabled for GPU 0 / HCA 0 (distance 4 <= 5), read 0 mode Default
n0:1:2 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 1 'mlx5_1'
n0:1:2 [0] NCCL INFO comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0
[1,0]<stdout>:n0:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0(3)/GDRDMA(PCI)/Shared
n0:1:2 [0] NCCL INFO Channel 01/0 : 0[0] -> 8[0] [send] via NET/IB/1
n0:1:2 [0] NCCL INFO Channel 02/0 : 0[0] -> 8[0] [send] via NET/AWS Libfabric/0/GDRDMA
n0:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
n0:1:2 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/MNNVL
n0:1:2 [0] NCCL INFO Channel 00/02 :    0   1
\u{1b}[36m(W pid=1)\u{1b}[0m n0:1:2 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct
n0:1:2 [0] net_ib/p2p.cc:9 NCCL WARN NET/IB: Got completion from peer 192.0.2.2<1> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=0
n0:1:2 [0] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-a to 9637892 bytes
";

    #[test]
    fn networks_channels_and_decisions() {
        let log = parse(LOG);
        assert_eq!(log.versions, BTreeSet::from(["2.28.9+cuda13.0".into()]));
        assert_eq!(log.networks, BTreeSet::from([Network::Ib]));
        let ports: Vec<_> = log
            .rdma_ports
            .iter()
            .map(|p| (p.device.as_str(), p.port, p.is_roce))
            .collect();
        assert_eq!(ports, [("mlx5_0", 1, false), ("mlx5_1", 1, true)]);
        assert_eq!(log.merged_adapters.len(), 1);
        let net = |network, gpu_direct| Via::Net {
            network,
            gpu_direct,
        };
        assert_eq!(
            log.channels,
            BTreeMap::from([
                (net(Network::Ib, true), 1),
                (net(Network::Ib, false), 1),
                (net(Network::Libfabric, true), 1),
                (Via::P2p(P2p::Direct), 1),
                (Via::P2p(P2p::Mnnvl), 1),
                (Via::SharedMemory, 1),
            ])
        );
        assert_eq!((log.mnnvl, log.nodes), (Some(false), Some(2)));
        let decisions: Vec<_> = log
            .gpu_direct
            .iter()
            .map(|d| (d.adapter.as_str(), d.is_enabled, d.distance))
            .collect();
        assert_eq!(decisions, [("0", true, Some(4)), ("mlx5_1", false, None)]);
        assert_eq!(
            log.faults,
            BTreeSet::from([
                Fault::SharedMemoryTooSmall,
                Fault::Completion("IBV_WC_RETRY_EXC_ERR".into()),
            ])
        );
        assert_eq!(log.warnings.total(), 2);
    }

    #[test]
    fn plugins_are_told_apart_by_what_they_carry_over() {
        let via = |text: &str| Via::parse(text).to_string();
        for (name, wanted) in [
            ("IB", Network::Ib),
            ("IBext_v8", Network::Ib),
            ("gIB", Network::Ib),
            ("AWS Libfabric", Network::Libfabric),
            (
                "GPUDirectTCPX_v7",
                Network::GpuDirectTcp("GPUDirectTCPX_v7".into()),
            ),
            ("FasTrak", Network::GpuDirectTcp("FasTrak".into())),
            ("IBM", Network::Other("IBM".into())),
        ] {
            assert_eq!(Network::parse(name), wanted);
        }
        assert_eq!(via("NET/IBext_v8/0(3)/GDRDMA/Shared"), "NET/IB/GDRDMA");
        assert_eq!(via("NET/Foo/0"), "NET/Foo");
        assert_eq!(via("SHM/direct/direct"), "SHM");
        assert_eq!(via("XYZ/9"), "XYZ/9");
        let log = parse(
            "n:1:1 [0] NCCL INFO NET/OFI Selected Provider is efa (found 4 nics)\n\
             n:1:1 [0] ofi.c:1 NCCL WARN NET/OFI Selected provider is tcp;ofi_rxm, fabric is 192.0.2.0/24 (found 1 nics)\n",
        );
        assert_eq!(
            log.ofi_providers,
            BTreeSet::from(["efa".into(), "tcp;ofi_rxm".into()])
        );
        assert!(log.unknown.is_empty());
    }

    #[test]
    fn a_status_is_one_however_it_is_written_and_memory_has_its_own_fault() {
        let warn = |text: &str| format!("n:1:1 [0] net_ib.cc:1 NCCL WARN {text}\n");
        let completion = |status: &str| Fault::Completion(status.to_owned());
        let registration = |why: &str| Fault::Registration(why.to_owned());
        for (text, wanted) in [
            (
                "NET/IB: Got completion from peer 192.0.2.2<1> with status=12 opcode=0",
                completion("IBV_WC_RETRY_EXC_ERR"),
            ),
            (
                "NET/IB : Got completion with error 12, opcode 0, len 0, vendor err 129",
                completion("IBV_WC_RETRY_EXC_ERR"),
            ),
            (
                "NET/IB: Got completion from peer x with status=IBV_WC_LOC_PROT_ERR(4) opcode=0",
                completion("IBV_WC_LOC_PROT_ERR"),
            ),
            (
                "NET/IB: Got completion from peer x with status=77 opcode=0",
                completion("77"),
            ),
            (
                "Call to ibv_reg_mr failed with error Cannot allocate memory",
                registration("Cannot allocate memory"),
            ),
            (
                "Call to ibv_reg_dmabuf_mr failed with error Bad address errno 14",
                registration("Bad address"),
            ),
            ("Call to ibv_reg_mr_iova2 failed", registration("")),
        ] {
            let log = parse(&warn(text));
            assert_eq!(log.faults, BTreeSet::from([wanted]), "{text}");
            assert_eq!(log.unknown.total(), 0, "{text}");
        }
        let log = parse(&warn(
            "Call to ibv_modify_qp failed with error Invalid argument",
        ));
        assert!(log.faults.is_empty() && log.unknown.total() == 1);
    }

    #[test]
    fn the_probe_line_is_no_use_of_multi_node_nvlink() {
        let log = parse(
            "n:1:1 [0] NCCL INFO MNNVL busId 0x801000 fabric UUID 0.0 cliqueId 0x1 state 3\n",
        );
        assert_eq!(log.mnnvl, None);
        let log = parse("n:1:1 [0] NCCL INFO MNNVL 1 cliqueId 2786 cliqueSize 4 cliqueRank 0\n");
        assert_eq!(log.mnnvl, Some(true));
    }

    #[test]
    fn a_log_that_starts_late_shows_no_transport() {
        let log = parse(
            "n:1:1 [1] NCCL INFO ncclCommInitRank comm 0x1 rank 1 nranks 2 - Init COMPLETE\n",
        );
        assert!(log.has_init_complete && !log.shows_transport());
        assert_eq!(parse("nothing of ours\n").lines, 0);
    }
}
