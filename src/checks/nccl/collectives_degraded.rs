use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::registration;
use crate::checks::shm;
use crate::checks::words::counted;
use crate::facts::nccl_log::{Fault, NcclLog, Network, Stop, Via};
use crate::facts::work_completion;
use crate::judge::context::Tri;
use crate::observed::Skip;
use crate::report::SkipReason;

check! {
    /// A log of NCCL shows collectives on sockets, on staged copies, off NVLink, or a known fault.
    ///
    /// Only for a log that a person hands in (`NCCL_DEBUG=INFO`). It is about the ranks of one worker, not about KV.
    ///
    /// ## Why it matters
    /// NCCL falls back silently: no adapter means sockets, no GPUDirect means copies through host memory.
    ///
    /// ## Fix
    /// Each finding says what to look at.
    ///
    /// ## False alarms
    /// Within a node channels go over P2P or shared memory whatever `Using network` says; only channels `via NET` are between
    /// nodes. `MNNVL busId .. state 3` is a probe and says nothing. A network plugin that is not known here is named and not judged;
    /// GPUDirect-TCPX and -TCPXO (`NET/GPUDirectTCPX`, `NET/FasTrak`) move GPU memory over TCP, which is no RDMA and on their
    /// machines no fault.
    ///
    /// ## Sources
    /// NCCL v2.28.9-1 `src`; NVIDIA/nccl#451, #952, #1537, #1647, #1781, #2013, #324 (ranks of one node over NET or SHM);
    /// vllm-project/vllm#42075; aws-ofi-nccl `src` (selected provider).
    "NCCL001" "collectives-degraded" on Container {
        subsystem: Nccl, kv_path: Off, worst: Fail, causes: &[], since: "0.1.0",
    }
}

fn run(container: &Container<'_>) -> Outcome {
    let log = match container.facts.logs.nccl.get() {
        Err(skip) if skip.reason == SkipReason::NotCollected => return Err(Skip::not_applicable()),
        log => log?,
    };
    let mut drafts: Vec<Draft> = Vec::new();
    let mut add = |draft: Draft, line: &str, fix: &str| {
        let words = draft.detail.clone();
        drafts.push(draft.headline(words).with([log.evidence([line])]).fix(fix));
    };
    let over = |wanted: fn(&Via) -> bool| log.channels.keys().any(wanted);
    // Ranks of one node need no network; what it is matters less than that it is one.
    let networked = log
        .channels
        .keys()
        .find(|via| matches!(via, Via::Net { .. }));
    let within = networked.filter(|_| log.nodes == Some(1));
    let on_socket = within.is_none()
        && over(|via| {
            matches!(
                via,
                Via::Net {
                    network: Network::Socket,
                    ..
                }
            )
        });
    let on_libfabric = over(|via| {
        matches!(
            via,
            Via::Net {
                network: Network::Libfabric,
                ..
            }
        )
    });
    // Sockets all the same: `Using network AWS Libfabric` names the plugin, and not what it carries over.
    let tcp_provider = log.ofi_providers.iter().find(|provider| {
        let is_chosen =
            log.networks.contains(&Network::Libfabric) && log.nodes.is_some_and(|nodes| nodes > 1);
        within.is_none() && provides(provider, TCP_PROVIDERS) && (on_libfabric || is_chosen)
    });
    let staged = within.is_none()
        && log.channels.keys().any(|via| match via {
            Via::Net {
                network,
                gpu_direct: false,
            } => {
                *network == Network::Ib || *network == Network::Libfabric && tcp_provider.is_none()
            }
            _ => false,
        });
    let joined = container.context.gpus.as_ref().map(|gpus| gpus.nvswitch) == Some(Tri::Yes);
    if let Some(via) = within {
        add(
            Draft::warn(
                "channels between GPUs of one node go over the network, so neither NVLink nor peer-to-peer is used between them",
            ),
            &format!("via {via}"),
            "give the container all GPUs of the worker, and remove NCCL_P2P_DISABLE and NCCL_SHM_DISABLE",
        );
    }
    if joined && over(|via| matches!(via, Via::SharedMemory)) {
        add(
            Draft::warn(
                "channels between GPUs of one node copy through host memory, although every pair of GPUs has NVLink",
            ),
            "via SHM",
            "remove NCCL_P2P_DISABLE and NCCL_P2P_LEVEL, and let one container hold the GPUs of the worker",
        );
    }
    if let Some(provider) = tcp_provider {
        add(
            Draft::fail(format!(
                "channels between nodes go over sockets: the OFI plugin selected the provider {provider}"
            )),
            &format!("NET/OFI Selected provider is {provider}"),
            "give the container its RDMA devices (EFA: vpc.amazonaws.com/efa); FI_PROVIDER must not exclude their provider",
        );
    }
    if on_socket {
        add(
            Draft::fail("channels between nodes go over sockets"),
            "via NET/Socket",
            "give the container its RDMA devices; NCCL_IB_DISABLE, NCCL_NET and NCCL_IB_HCA must not exclude them",
        );
    } else if log.networks.contains(&Network::Socket) && log.nodes.is_some_and(|nodes| nodes > 1) {
        add(
            Draft::fail("the network that was chosen for several nodes is sockets"),
            "Using network Socket",
            "give the container its RDMA devices; NCCL_IB_DISABLE, NCCL_NET and NCCL_IB_HCA must not exclude them",
        );
    } else if log.is_ib_disabled && log.networks.contains(&Network::Socket) {
        add(
            Draft::warn(
                "NCCL_IB_DISABLE keeps NCCL off RDMA, and the network that was chosen is sockets",
            ),
            "Using network Socket",
            "remove NCCL_IB_DISABLE, if ranks are on several nodes",
        );
    } else if log.has_no_rdma_device && !log.networks.contains(&Network::Libfabric) {
        add(
            Draft::warn("NCCL finds no RDMA device"),
            "NET/IB : No device found.",
            "grant the container its RDMA devices, if ranks are on several nodes",
        );
    }
    if log.has_no_verbs_library {
        add(
            Draft::warn("NCCL could not load libibverbs"),
            "Failed to open libibverbs.so",
            "install libibverbs in the image",
        );
    }
    if staged {
        add(
            Draft::warn("channels between nodes copy through host memory: no GPUDirect RDMA"),
            "via NET/IB without GDRDMA",
            "load nvidia_peermem or use dmabuf; NCCL_NET_GDR_LEVEL=SYS where GPU and adapter are on different sides",
        );
    }
    let off = || {
        log.gpu_direct
            .iter()
            .filter(|decision| !decision.is_enabled)
    };
    if let Some(decision) = off().next()
        && !staged
        && off().count() == log.gpu_direct.len()
    {
        let distance = decision
            .distance
            .map_or(String::new(), |d| format!(" (distance {d})"));
        let line = format!(
            "GPU Direct RDMA Disabled for {}{distance}",
            decision.adapter
        );
        add(
            Draft::warn("GPUDirect RDMA is off for every adapter"),
            &line,
            "load nvidia_peermem or use dmabuf; NCCL_NET_GDR_LEVEL=SYS where GPU and adapter are on different sides",
        );
    }
    for fault in &log.faults {
        match fault {
            Fault::SharedMemoryTooSmall => add(
                Draft::fail("/dev/shm is too small for NCCL"),
                "Error while creating shared memory segment",
                &format!(
                    "set the shared memory size of the component to {}",
                    shm::asked(shm::engine_of(container.facts.process.worker_word())).size
                ),
            ),
            Fault::Registration(why) => add(
                Draft::fail(registration::detail(why)),
                &format!("Call to ibv_reg_mr failed: {}", registration::said(why)),
                registration::fix(why, false),
            ),
            Fault::Completion(status) => add(
                Draft::fail(format!("a transfer failed with {}", completion(status))),
                status,
                of_completion(status),
            ),
            Fault::Stopped(stop) => {
                let (detail, line, fix) = stopped(*stop);
                add(Draft::fail(detail), line, fix);
            }
            Fault::PluginFailed(name) => add(
                Draft::warn(format!(
                    "the network plugin {name} could not be initialised"
                )),
                name,
                "check the plugin's libraries (LD_LIBRARY_PATH) and its devices",
            ),
        }
    }
    if !drafts.is_empty() {
        return Ok(drafts);
    }
    if let Some(first) = log.unknown.messages().first() {
        let lines = usize::try_from(log.unknown.total()).unwrap_or(usize::MAX);
        let detail = format!(
            "the log holds {} of trouble, and none is one of the faults that are known here, so nothing is said; look at: {}",
            counted(lines, "line"),
            first.first
        );
        return Err(Skip::new(SkipReason::NotFound, detail));
    }
    if !log.shows_transport() {
        let detail = "the log ends before the channels, so it does not show what carries them";
        return Err(Skip::new(SkipReason::NotFound, detail));
    }
    if let Some(skip) = not_rdma(log) {
        return Err(skip);
    }
    let shown: Vec<String> = log
        .channels
        .keys()
        .map(|via| format!("via {via}"))
        .collect();
    let seen = [log.evidence(shown.iter().map(String::as_str))];
    Ok(vec![
        Draft::ok("the channels of the log use peer-to-peer, shared memory or RDMA").with(seen),
    ])
}

/// What happened, NCCL's own words, and what to do.
fn stopped(stop: Stop) -> (&'static str, &'static str, &'static str) {
    match stop {
        Stop::NoSocketInterface => (
            "NCCL finds no network interface to start with: NCCL_SOCKET_IFNAME names none that is up here, or none is up",
            "Bootstrap : no socket interface found",
            "remove NCCL_SOCKET_IFNAME, or name an interface that every node has",
        ),
        Stop::IncompatibleDevices => (
            "NCCL tried to connect an InfiniBand port with a RoCE port",
            "Attempted to connect incompatible devices",
            "choose ports of one link layer in NCCL_IB_HCA",
        ),
        Stop::MnnvlNotWorking => (
            "multi-node NVLink is there and does not work, so NCCL stops",
            "MNNVL is available but not working on this system",
            "give the pods their IMEX channel (ComputeDomain) and look at nvidia-imex; NCCL_MNNVL_ENABLE=0 does without NVLink \
             between nodes",
        ),
        Stop::NoNetwork => (
            "NCCL could initialise no network at all",
            "Failed to initialize any NET plugin",
            "NCCL_NET must name a network that is there: remove it, or install the plugin",
        ),
        Stop::QueuePairTimeout => (
            "a RDMA connection of NCCL timed out: the chosen ports do not reach each other",
            "Call to ibv_modify_qp failed: Connection timed out",
            "name ports that reach each other in NCCL_IB_HCA, with a routable GID on RoCE; NCCL_CROSS_NIC=0 where rails are apart",
        ),
        Stop::HandleImport => (
            "GPU memory of another process could not be imported: NCCL takes two containers for one place",
            "cuMemImportFromShareableHandle failed",
            "let ranks of one node share a container, or give the pods their IMEX channel (ComputeDomain)",
        ),
    }
}

/// Providers of libfabric over TCP or UDP, and those over RDMA. <https://ofiwg.github.io/libfabric/v2.1.0/man/fi_provider.7.html>
const TCP_PROVIDERS: &[&str] = &["tcp", "sockets", "net", "udp"];
const RDMA_PROVIDERS: &[&str] = &["efa", "verbs", "cxi", "opx", "psm2", "gni"];

/// The provider is one of these, whatever is layered on it: `tcp;ofi_rxm`.
fn provides(provider: &str, known: &[&str]) -> bool {
    provider.split(';').any(|layer| known.contains(&layer))
}

/// Something that carries channels and is not known to be RDMA, peer-to-peer or shared memory: nothing is said of it.
fn not_rdma(log: &NcclLog) -> Option<Skip> {
    log.channels.keys().find_map(|via| match via {
        Via::P2p(_) | Via::SharedMemory => None,
        Via::Net { network, .. } => match network {
            // Sockets are a fault, which is said before.
            Network::Ib | Network::Socket => None,
            Network::Libfabric => {
                let unknown = log
                    .ofi_providers
                    .iter()
                    .find(|provider| !provides(provider, RDMA_PROVIDERS))?;
                Some(unknown_carrier(&format!("the provider {unknown} of libfabric")))
            }
            Network::GpuDirectTcp(name) => Some(Skip::new(
                SkipReason::NotFound,
                format!(
                    "channels between nodes go over NET/{name}: GPUDirect over TCP, which is no RDMA"
                ),
            )),
            Network::Other(_) => Some(unknown_carrier(&via.to_string())),
        },
        Via::Other(_) => Some(unknown_carrier(&via.to_string())),
    })
}

fn unknown_carrier(via: &str) -> Skip {
    let detail = format!("channels go via {via}, and whether that is RDMA is not known here");
    Skip::new(SkipReason::Unparsable, detail)
}

/// A status with its number and what it means.
fn completion(status: &str) -> String {
    let known = work_completion::number(status).zip(work_completion::meaning(status));
    match known {
        Some((number, meaning)) => format!("{status} ({number}): {meaning}"),
        None if status.is_empty() => "a status that is not shown".to_owned(),
        None => format!("status {status}"),
    }
}

/// What to do about a transfer that failed with this status.
fn of_completion(status: &str) -> &'static str {
    match status {
        "IBV_WC_WR_FLUSH_ERR" => {
            "it follows from what broke the connection before: look at the first error of this rank and of its peer"
        }
        "IBV_WC_LOC_PROT_ERR"
        | "IBV_WC_LOC_ACCESS_ERR"
        | "IBV_WC_REM_ACCESS_ERR"
        | "IBV_WC_REM_OP_ERR" => {
            "an adapter could not reach the memory: look at GPUDirect RDMA (nvidia_peermem or dmabuf), at the IOMMU and at ACS \
             (`explain acs`)"
        }
        "IBV_WC_RNR_RETRY_EXC_ERR" => {
            "the peer took nothing: look at its log, it may be stopped or gone"
        }
        _ => {
            "look at the path to the peer: GID, addresses, switch, flow control; the peer may also be gone"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::{NOTHING, container, outcome, verdict};
    use crate::report::Status;

    #[test]
    fn a_log_with_unknown_trouble_is_never_ok() {
        let channel =
            "n:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA\n";
        let nvlink = "n:1:1 [0] NCCL INFO Using network Socket\n\
                      n:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n";
        let set = |value: &str| {
            format!("n:1:1 [0] NCCL INFO NCCL_IB_DISABLE set by environment to {value}.\n{nvlink}")
        };
        for (text, status) in [
            (channel.to_owned(), Some(Status::Ok)),
            (
                format!("{channel}n:1:1 [0] transport/net.cc:1 NCCL WARN something new\n"),
                None,
            ),
            (
                format!(
                    "{channel}[rank0]:[E ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective \
                     operation timeout: WorkNCCL(SeqNum=5) ran for 600000 milliseconds\n"
                ),
                None,
            ),
            (set("1"), Some(Status::Warn)),
            (set("0"), Some(Status::Ok)),
        ] {
            let said = verdict(run, "decode", &[(&ask::NCCL_LOG, text.as_str())]);
            match status {
                Some(status) => assert_eq!(said, Ok(status), "{text}"),
                None => {
                    let skip = said.unwrap_err();
                    assert!(skip.detail.contains("known here"), "{}", skip.detail);
                }
            }
        }
    }

    #[test]
    fn what_stops_nccl_is_a_fault() {
        for (words, said) in [
            (
                "Bootstrap : no socket interface found",
                "NCCL_SOCKET_IFNAME",
            ),
            (
                "NET/IB : Attempted to connect incompatible devices mlx5_0 and mlx5_1. Try selecting NICs of only one link type using NCCL_IB_HCA",
                "InfiniBand port with a RoCE port",
            ),
            (
                "MNNVL (cliqueSize 8) is available but not working on this system. Check the IMEX channel configuration (/dev/nvidia-caps-imex-channels). Set NCCL_MNNVL_ENABLE=0 to ignore this issue.",
                "multi-node NVLink",
            ),
            ("Failed to initialize any NET plugin", "no network at all"),
            (
                "Call to ibv_modify_qp failed with error Connection timed out errno 110",
                "timed out",
            ),
            (
                "cuMemImportFromShareableHandle failed : invalid argument",
                "could not be imported",
            ),
        ] {
            let text = format!("n:1:1 [0] x.cc:1 NCCL WARN {words}\n");
            let place = container("decode", &[(&ask::NCCL_LOG, text.as_str())]);
            let draft = outcome(run, &place).unwrap().remove(0);
            assert_eq!(draft.status, Status::Fail, "{words}");
            assert!(draft.detail.contains(said), "{words}: {}", draft.detail);
        }
    }

    #[test]
    fn a_status_is_translated_and_memory_that_is_not_registered_stands_beside_it() {
        let warn = |text: &str| format!("n:1:1 [0] net_ib.cc:1 NCCL WARN {text}\n");
        let text = warn("Call to ibv_reg_mr failed with error Cannot allocate memory")
            + &warn("NET/IB: Got completion from peer 192.0.2.2<1> with status=12 opcode=0 len=0");
        let place = container("decode", &[(&ask::NCCL_LOG, text.as_str())]);
        let drafts = outcome(run, &place).unwrap();
        let said: Vec<&str> = drafts.iter().map(|draft| draft.detail.as_str()).collect();
        assert_eq!(
            said,
            [
                "memory could not be registered for RDMA: Cannot allocate memory",
                "a transfer failed with IBV_WC_RETRY_EXC_ERR (12): transport retry counter exceeded",
            ]
        );
        assert!(drafts.iter().all(|draft| draft.status == Status::Fail));
        assert!(drafts[0].fix.as_deref().unwrap().contains("ulimit -l"));
        assert!(of_completion("IBV_WC_LOC_PROT_ERR").contains("ACS"));
        assert_eq!(completion("77"), "status 77");
    }

    #[test]
    fn ranks_of_one_node_need_nvlink() {
        let matrix = "\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tNV18\t X \n";
        let with = |nodes: u32, via: &str, topology: &str| {
            let text = format!(
                "n:1:1 [0] NCCL INFO comm 0x1 rank 0 nRanks 2 nNodes {nodes} localRanks 2 localRank 0 MNNVL 0\n\
                 n:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via {via}\n"
            );
            let answers = [
                (&ask::NCCL_LOG, text.as_str()),
                (&ask::NVIDIA_SMI_TOPO, topology),
                (
                    &ask::DEV_GPU,
                    "/dev/nvidia0: char rw\n/dev/nvidia1: char rw",
                ),
            ];
            let drafts = outcome(run, &container("decode", &answers)).unwrap();
            let all: Vec<Status> = drafts.iter().map(|draft| draft.status).collect();
            all
        };
        for via in ["NET/IB/0/GDRDMA", "NET/IB/0", "NET/Socket/0"] {
            assert_eq!(with(1, via, matrix), [Status::Warn], "{via}");
        }
        assert_eq!(with(2, "NET/IB/0/GDRDMA", matrix), [Status::Ok]);
        assert_eq!(with(2, "NET/Socket/0", matrix), [Status::Fail]);
        assert_eq!(with(1, "P2P/CUMEM", matrix), [Status::Ok]);
        assert_eq!(with(1, "SHM/direct/direct", matrix), [Status::Warn]);
        // Without NVLink shared memory is how it is.
        let far = matrix.replace("NV18", "SYS");
        assert_eq!(with(1, "SHM/direct/direct", &far), [Status::Ok]);
    }

    #[test]
    fn channels_show_what_carries_and_the_chosen_network_does_not() {
        let with = |lines: &[&str]| {
            let text: String = lines
                .iter()
                .map(|line| format!("host:1:1 [0] NCCL INFO {line}\n"))
                .collect();
            verdict(run, "decode", &[(&ask::NCCL_LOG, text.as_str())])
        };
        let rdma = "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA";
        let staged = "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0";
        let socket = "Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0";
        let nvlink = "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM";
        assert_eq!(with(&[rdma]), Ok(Status::Ok));
        assert_eq!(with(&["Using network Socket", nvlink]), Ok(Status::Ok));
        assert_eq!(with(&[staged]), Ok(Status::Warn));
        assert_eq!(with(&[socket]), Ok(Status::Fail));
        assert_eq!(
            with(&["NET/IB : No device found.", nvlink]),
            Ok(Status::Warn)
        );
        let off = "GPU Direct RDMA Disabled for GPU 0 / HCA 0 (distance 9 > 5)";
        assert_eq!(with(&[off, nvlink]), Ok(Status::Warn));
        assert!(with(&["Using network IB"]).is_err());
        for plugin in ["IBext_v8", "gIB"] {
            assert_eq!(with(&[&rdma.replace("IB", plugin)]), Ok(Status::Ok));
            assert_eq!(with(&[&staged.replace("IB", plugin)]), Ok(Status::Warn));
        }
        let other = |via: &str| format!("Channel 00/0 : 0[0] -> 8[0] [send] via {via}/0");
        for (via, words) in [
            ("NET/GPUDirectTCPX_v7", "GPUDirect over TCP"),
            ("NET/FasTrak", "GPUDirect over TCP"),
            ("NET/Foo", "via NET/Foo"),
            ("XYZ", "via XYZ/0"),
        ] {
            let skip = with(&[rdma, &other(via)]).unwrap_err();
            assert!(skip.detail.contains(words), "{}", skip.detail);
            assert_eq!(with(&[socket, &other(via)]), Ok(Status::Fail));
        }
        let ofi = other("NET/AWS Libfabric");
        let gdr = format!("{ofi}/GDRDMA");
        let selected =
            |provider: &str| format!("NET/OFI Selected provider is {provider}, fabric is x");
        for (provider, channel, status) in [
            ("efa", &gdr, Some(Status::Ok)),
            ("efa", &ofi, Some(Status::Warn)),
            ("tcp;ofi_rxm", &ofi, Some(Status::Fail)),
            ("sockets", &gdr, Some(Status::Fail)),
            ("new", &gdr, None),
        ] {
            let said = with(&[&selected(provider), channel]);
            assert_eq!(said.as_ref().ok().copied(), status, "{provider} {said:?}");
        }
        let chosen = [
            &selected("tcp"),
            "Using network AWS Libfabric",
            "comm 0x1 rank 0 nRanks 16 nNodes 2",
        ];
        assert_eq!(with(&chosen), Ok(Status::Fail));
        assert!(with(&[&selected("tcp"), nvlink]).is_ok());
        assert_eq!(verdict(run, "decode", NOTHING), Err(Skip::not_applicable()));
        assert!(verdict(run, "decode", &[(&ask::NCCL_LOG, "no such log")]).is_err());
    }
}
