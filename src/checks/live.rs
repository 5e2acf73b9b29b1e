//! What a live container says about the place in which its variables take effect.

use super::Container;
use super::mover::{self, Mover};
use crate::ask;
use crate::facts::container::Facts;
use crate::facts::container::rdma::{Device, state_word};
use crate::facts::container::software::Version as Found;
use crate::facts::hca::{GidKind, Hca, LinkLayer, Port, PortState};
use crate::facts::nvidia_smi_q::FabricState;
use crate::facts::nvidia_smi_topo::NvlinkReach;
use crate::facts::sysfs::Backing;
use crate::facts::vendor::Vendor;
use crate::judge;
use crate::judge::context::{
    Accelerator, Backend, Context, Gid, Gpus, Link, Nic, Tri, Vendor as Kind, Version,
};
use crate::report::SkipReason;
use crate::snapshot::Place;
use std::collections::BTreeSet;

/// The context of a container. What was not read stays unknown.
pub(super) fn context(place: &Place, facts: &Facts) -> Context {
    let own = facts.rdma.own_ports().ok();
    // That pasted outputs show ports does not say that they are the worker's; that they show none does, and that none of
    // them is of the kind that a setting needs.
    let pasted = facts.rdma.judges_all();
    let foreign = own
        .as_ref()
        .filter(|ports| pasted && none_is_mlx5(facts, ports));
    let foreign = foreign.cloned().map(|ports| {
        let mut nics = nics(ports, true);
        nics.iter_mut().for_each(|nic| nic.active = true);
        nics
    });
    let own = own.filter(|ports| ports.is_empty() || !pasted);
    let nics = own.clone().map(|ports| nics(ports, true)).or(foreign);
    let gpus = gpus(facts);
    Context {
        nixl: facts.software.nixl().as_ref().and_then(version),
        ucx: facts.software.ucx_version().as_ref().and_then(version),
        nccl: facts.software.nccl().as_ref().and_then(version),
        accelerator: match &gpus {
            Some(gpus) if gpus.count > 0 => Accelerator::Nvidia,
            _ => Accelerator::Unknown,
        },
        gpus,
        mnnvl: mnnvl(facts),
        rdma: match &nics {
            Some(nics) => Tri::from(!nics.is_empty()),
            None => Tri::Unknown,
        },
        nics,
        net: facts
            .network
            .usable()
            .ok()
            .map(|names| names.into_iter().collect()),
        gids: own.and_then(|ports| gids(facts, carrying(&ports, true))),
        peermem: match facts.host.peer_memory() {
            Ok((found, _)) => Tri::from(!found.is_empty()),
            Err(_) => Tri::Unknown,
        },
        dmabuf: dmabuf(facts).0,
        efa: efa(facts),
        backend: backend(facts),
        host_buffers: facts
            .process
            .kv_transfer
            .known()
            .is_some_and(|config| config.host_memory == Some(true)),
        netplugin: netplugin(facts),
        // An aggregated worker sends no KV to another node.
        internode: match place.role.as_deref() {
            Some("agg") => Tri::No,
            _ => Tri::Unknown,
        },
        ..Context::default()
    }
}

fn version(found: &Found) -> Option<Version> {
    found
        .numbers()
        .map(|(major, minor)| Version::new(major, minor))
}

/// Contexts that the facts leave open where somebody looked and could not see which ports the container may open: none of
/// them, or all that are visible; or in which state one of them is. What is right in the one and wrong in the other is not
/// known.
pub(super) fn open_contexts(facts: &Facts, context: &Context) -> Vec<Context> {
    let why = match facts.rdma.own_ports() {
        Ok(ports) if ports.iter().all(|(_, port)| port.state.is_some()) => return vec![],
        // The context leaves the ports of pasted outputs out.
        Ok(_) if facts.rdma.judges_all() => return vec![],
        // The context takes them for ACTIVE.
        Ok(ports) => {
            return vec![Context {
                gids: gids(facts, carrying(&ports, false)),
                nics: Some(nics(ports, false)),
                ..context.clone()
            }];
        }
        Err(skip) => skip.reason,
    };
    // A person pasted what they had: there a value is judged as it is written.
    if why == SkipReason::NotCollected {
        return vec![];
    }
    let with = |ports: Ports<'_>| -> Context {
        Context {
            gids: gids(facts, carrying(&ports, true)),
            rdma: Tri::from(!ports.is_empty()),
            nics: Some(nics(ports, true)),
            ..context.clone()
        }
    };
    let mut open = vec![with(vec![])];
    if facts.rdma.devices.known().is_none() {
        // Nor is it known which ports there are: one that no list names.
        let mut device = Hca::named("other0");
        device.ports.push(Port {
            state: Some(PortState::Active),
            link_layer: Some(LinkLayer::InfiniBand),
            ..Port::numbered(1)
        });
        let device = Device::of(device);
        open.push(with(
            device
                .hca
                .ports
                .iter()
                .map(|port| (&device, port))
                .collect(),
        ));
    }
    if let Some(devices) = facts.rdma.devices.known() {
        let visible = devices
            .iter()
            .flat_map(|device| device.hca.ports.iter().map(move |port| (device, port)));
        open.push(with(visible.collect()));
    }
    open
}

type Ports<'a> = Vec<(&'a Device, &'a Port)>;

/// The port carries data. `unseen`: so does one whose state nobody told.
fn carries(port: &Port, unseen: bool) -> bool {
    port.state
        .as_ref()
        .map_or(unseen, |state| *state == PortState::Active)
}

fn carrying<'a>(ports: &Ports<'a>, unseen: bool) -> Ports<'a> {
    let all = ports.iter().copied();
    all.filter(|(_, port)| carries(port, unseen)).collect()
}

fn nics(ports: Ports<'_>, unseen: bool) -> Vec<Nic> {
    let nics = ports.into_iter().map(|(device, port)| Nic {
        device: device.hca.name.clone(),
        port: port.number,
        link: match port.link_layer {
            Some(LinkLayer::InfiniBand) => Link::InfiniBand,
            Some(LinkLayer::Ethernet) => Link::Ethernet,
            _ => Link::Unknown,
        },
        active: carries(port, unseen),
        state: port
            .state
            .as_ref()
            .map_or_else(String::new, |state| state_word(state).to_owned()),
        maker: maker(device),
    });
    nics.collect()
}

/// The vendor of a device by its driver, its vendor id, or what it is made of. An id of NVIDIA is that of `mlx4` too, which has
/// no transport of mlx5: there the name decides.
fn maker(device: &Device) -> Option<Kind> {
    use Vendor::{Alibaba, Amazon, Broadcom, Intel, Microsoft, Nvidia, Other, Pensando, Software};
    if device.backing == Backing::Software {
        return Some(Kind::OtherVerbs);
    }
    match device.driver.as_deref() {
        Some("mlx5_core") => return Some(Kind::Mlx5),
        Some("mlx4_core") => return Some(Kind::OtherVerbs),
        Some("efa") => return Some(Kind::Efa),
        _ => {}
    }
    match device.hca.vendor? {
        Amazon => Some(Kind::Efa),
        Broadcom | Intel | Pensando | Microsoft | Alibaba | Software => Some(Kind::OtherVerbs),
        Nvidia | Other(_) => None,
    }
}

/// Every device of a pasted list is known to be no mlx5, so none that the worker was given is one. What names devices by the
/// way need not name all.
fn none_is_mlx5(facts: &Facts, ports: &Ports<'_>) -> bool {
    let by_the_way = [ask::SHOW_GIDS.id, ask::IBDEV2NETDEV.id];
    let is_list = facts
        .rdma
        .devices
        .known()
        .is_some_and(|devices| !by_the_way.contains(&devices.ask.id));
    let is_other = |nic: &Nic| matches!(nic.vendor(), Kind::OtherVerbs | Kind::Efa);
    is_list && !ports.is_empty() && nics(ports.clone(), true).iter().all(is_other)
}

/// Indexes that are filled, and of one kind, on every port that carries data. On mixed ports those of RoCE count, where
/// a number matters.
fn gids(facts: &Facts, ports: Ports<'_>) -> Option<Vec<Gid>> {
    let any_roce = ports
        .iter()
        .any(|(_, port)| port.link_layer == Some(LinkLayer::Ethernet));
    let mut common: Option<BTreeSet<(u32, Option<u8>)>> = None;
    for (device, port) in ports {
        let is_roce = port.link_layer == Some(LinkLayer::Ethernet);
        if is_roce != any_roce {
            continue;
        }
        let table = facts.rdma.gids_of(&device.hca.name, port.number).ok()?;
        let own: BTreeSet<_> = table
            .iter()
            .map(|gid| {
                let version = match (is_roce, gid.kind) {
                    (false, _) | (_, None) => None,
                    (true, Some(GidKind::IbOrRoceV1)) => Some(1),
                    (true, Some(GidKind::RoceV2)) => Some(2),
                };
                (gid.index, version)
            })
            .collect();
        common = Some(match common {
            None => own,
            Some(common) => common.intersection(&own).copied().collect(),
        });
    }
    common.map(|common| {
        let gid = |(index, roce_version)| Gid {
            index,
            roce_version,
        };
        common.into_iter().map(gid).collect()
    })
}

fn gpus(facts: &Facts) -> Option<Gpus> {
    let list = facts.gpu.list.known()?;
    let nvswitch = match facts.gpu.topology.known().map(|matrix| matrix.nvlink()) {
        Some(NvlinkReach::EveryPair { .. }) => Tri::Yes,
        Some(NvlinkReach::SomePairs | NvlinkReach::NoPair) => Tri::No,
        Some(NvlinkReach::OneGpu | NvlinkReach::Unknown) | None => Tri::Unknown,
    };
    Some(Gpus {
        count: u32::try_from(list.len()).unwrap_or(u32::MAX),
        model: list
            .first()
            .map_or_else(String::new, |gpu| gpu.name.clone()),
        nvswitch,
    })
}

/// This side of multi-node NVLink: registered with a fabric of several nodes, and an IMEX channel in the container.
/// Whether the peer is in the same clique is for a pair to say.
fn mnnvl(facts: &Facts) -> Tri {
    let Some(query) = facts.gpu.fabric.known() else {
        return Tri::Unknown;
    };
    let fabrics: Vec<_> = query
        .gpus
        .iter()
        .filter_map(|gpu| gpu.fabric.as_ref())
        .collect();
    if fabrics.is_empty() || fabrics.len() != query.gpus.len() {
        return if query.gpus.is_empty() || query.is_cut() {
            Tri::Unknown
        } else {
            Tri::No
        };
    }
    let ready = fabrics.iter().all(|fabric| {
        fabric.is_multi_node()
            && fabric.state == Some(FabricState::Completed)
            && fabric.status.as_deref() == Some("Success")
    });
    if !ready {
        return Tri::No;
    }
    match facts.gpu.imex_channels() {
        Ok(channels) => Tri::from(!channels.is_empty()),
        Err(_) => Tri::Unknown,
    }
}

/// Kernels from which a driver registers dmabuf.
/// <https://github.com/torvalds/linux/blob/v6.12/drivers/infiniband/hw>
const DMABUF_KERNELS: &[(&str, (u32, u32))] = &[
    ("mlx5_core", (5, 12)),
    ("efa", (5, 16)),
    ("ice", (6, 3)),
    ("i40e", (6, 3)),
    ("irdma", (6, 3)),
];

/// CUDA 11.7, the first that exports dmabuf.
/// <https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/>
const DMABUF_DRIVER_BRANCH: u32 = 515;

/// dmabuf is usable by driver and kernel, and in words what decides.
pub(super) fn dmabuf(facts: &Facts) -> (Tri, Vec<String>) {
    let mut words = Vec::new();
    let open = match facts.gpu.driver.known() {
        Some(driver) => {
            let modules = match driver.is_open {
                Some(true) => "open kernel modules",
                Some(false) => "proprietary kernel modules, which export no dmabuf",
                None => "kernel modules not known",
            };
            words.push(format!("NVIDIA driver {}: {modules}", driver.version));
            driver.is_open.map_or(Tri::Unknown, Tri::from)
        }
        None => Tri::Unknown,
    };
    let branch = match facts.gpu.driver.known().and_then(|driver| driver.branch()) {
        Some(branch) if branch < DMABUF_DRIVER_BRANCH => {
            words.push(format!(
                "driver branch {branch}, dmabuf needs {DMABUF_DRIVER_BRANCH}"
            ));
            Tri::No
        }
        Some(_) => Tri::Yes,
        None => Tri::Unknown,
    };
    let kernel = kernel(facts, &mut words);
    let all = [open, branch, kernel];
    let verdict = if all.contains(&Tri::No) {
        Tri::No
    } else if all.contains(&Tri::Unknown) {
        Tri::Unknown
    } else {
        Tri::Yes
    };
    (verdict, words)
}

/// The kernel can register dmabuf on every adapter that the container may open.
fn kernel(facts: &Facts, words: &mut Vec<String>) -> Tri {
    let Some(kernel) = facts.host.kernel.known() else {
        return Tri::Unknown;
    };
    let Ok(devices) = facts.rdma.own() else {
        return Tri::Unknown;
    };
    let drivers: BTreeSet<_> = devices.iter().map(|device| driver(device)).collect();
    let mut verdict = if drivers.is_empty() {
        Tri::Unknown
    } else {
        Tri::Yes
    };
    for driver in drivers {
        let row = DMABUF_KERNELS
            .iter()
            .find(|(name, _)| Some(*name) == driver);
        match row {
            Some((name, since)) if kernel.version < *since => {
                words.push(format!(
                    "kernel {}, {name} registers dmabuf from {}.{} on",
                    kernel.release, since.0, since.1
                ));
                return Tri::No;
            }
            Some((name, _)) => words.push(format!("kernel {} with {name}", kernel.release)),
            None => verdict = Tri::Unknown,
        }
    }
    verdict
}

/// The driver of a device. No pasted output shows it, and who made the device, with its name, tells it.
fn driver(device: &Device) -> Option<&str> {
    if device.backing == Backing::Software {
        return None;
    }
    let told = device.driver.as_deref();
    told.or(match device.hca.vendor {
        Some(Vendor::Nvidia) | None if device.hca.name.starts_with("mlx5") => Some("mlx5_core"),
        Some(Vendor::Amazon) => Some("efa"),
        _ => None,
    })
}

fn efa(facts: &Facts) -> Tri {
    match facts.rdma.own() {
        Ok(devices) => Tri::from(devices.iter().any(|device| device.is_efa())),
        Err(_) => Tri::Unknown,
    }
}

/// Contexts that the engine's choice of what moves KV leaves open, and what decides it; none where it is known, or where
/// nothing says that there is a choice.
pub(super) fn open_backends(
    facts: &Facts,
    context: &Context,
    variable: &str,
) -> Option<(String, Vec<Context>)> {
    if context.backend != Backend::Unknown {
        return None;
    }
    let config = facts.process.kv_transfer.known();
    let what = match config.and_then(|config| config.not_read.as_ref()) {
        Some(flag) => {
            format!("is decided by {flag} of the worker's command line, which was not read")
        }
        // UCX and LIBFABRIC are both chosen on EFA, and nothing told which. What libfabric reads is judged as if it were: that
        // is what EFA needs.
        None if context.efa == Tri::Yes && variable.starts_with("UCX_") => {
            "was not seen".to_owned()
        }
        None => return None,
    };
    let with = |backend| Context {
        backend,
        ..context.clone()
    };
    let backends = [Backend::Ucx, Backend::Libfabric, Backend::Other];
    Some((what, backends.map(with).to_vec()))
}

/// The variable acts on what moves KV of this container, or may. An engine that names NIXL does not move KV by Mooncake, whichever
/// backend NIXL takes.
pub(super) fn may_move_kv(container: &Container<'_>, variable: &str) -> bool {
    let config = container.facts.process.kv_transfer.known();
    let nixl = config.is_some_and(|config| mover::of(Some(&**config), None) == Some(Mover::Nixl));
    judge::may_move_kv(variable, &container.context) && !(nixl && variable.starts_with("MC_"))
}

/// The backend that the worker's process was started with, where its command line or what that names says what moves KV, and all of
/// it was read.
pub(super) fn started_with(container: &Container<'_>) -> Option<Backend> {
    let config = container.facts.process.kv_transfer.known()?;
    if config.not_read.is_some() {
        return None;
    }
    match mover::of(Some(&**config), None)? {
        // Every engine takes UCX where nothing chooses another one.
        Mover::Nixl => match container.context.backend {
            // A variable may choose another one.
            Backend::Unknown => container
                .facts
                .process
                .environment
                .known()
                .map(|_| Backend::Ucx),
            named => Some(named),
        },
        Mover::Other(other) => other.alone.then_some(Backend::Other),
        Mover::Open(_) => None,
    }
}

/// By the engines' own selectors and command lines, and by what the worker has loaded.
fn backend(facts: &Facts) -> Backend {
    let word = facts.process.worker_word().unwrap_or_default();
    let variable = if word.contains("sglang") {
        "SGLANG_DISAGGREGATION_NIXL_BACKEND"
    } else if word.contains("trtllm") {
        "TRTLLM_NIXL_KVCACHE_BACKEND"
    } else {
        ""
    };
    if let Ok(Some(value)) = facts.process.value(variable) {
        return Backend::named(value);
    }
    if let Some(config) = facts.process.kv_transfer.known() {
        if let Some(backend) = &config.backend {
            return Backend::named(backend);
        }
        // These move KV themselves.
        if let Some(Mover::Other(other)) = mover::of(Some(&**config), None)
            && other.alone
        {
            return Backend::Other;
        }
    }
    let Some(mapped) = facts.software.mapped.known() else {
        return Backend::Unknown;
    };
    let has = |plugin: &str| mapped.iter().any(|path| path.contains(plugin));
    match (has("libplugin_UCX"), has("libplugin_LIBFABRIC")) {
        (true, false) => Backend::Ucx,
        (false, true) => Backend::Libfabric,
        // NIXL may load every plugin it finds.
        (true, true) | (false, false) => Backend::Unknown,
    }
}

fn netplugin(facts: &Facts) -> Option<String> {
    let plugin = facts.software.nccl_plugin()?;
    Some(match plugin {
        None => "none".to_owned(),
        Some(file) if file.contains("ofi") => "aws-ofi-nccl".to_owned(),
        Some(file) => file.to_owned(),
    })
}
