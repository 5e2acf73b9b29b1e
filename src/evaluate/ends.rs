//! The containers at the ends of transfers, from what was read of them.

use super::worker_of;
use crate::checks::{Container, mover};
use crate::facts::container::Facts;
use crate::facts::container::Seen;
use crate::facts::container::rdma::{Device, state_word};
use crate::facts::hca::PortState;
use crate::facts::nvidia_smi_q::{FabricState, Query};
use crate::facts::pair::{End, EndPort, OF_UCX, PairFacts};
use crate::facts::sysfs::Backing;
use crate::judge::TransportList;
use crate::judge::context::Backend;
use crate::judge::selection::Selection;
use crate::manifest::workload::{Role, Worker, Workload};
use crate::report::Note;
use crate::snapshot::{Deployment, Folded, Snapshot};
use std::collections::{BTreeMap, BTreeSet};

/// Takes from transfers that contradict themselves, or the containers that they were made between, what could be taken for a
/// proof. The same for a run and for its recording, which may come from anybody.
/// Says what the transfers that are left do not show. Of a container of which nothing is known its `workload` tells.
pub(super) fn doubt(
    record: &mut Deployment,
    snapshots: &[Folded],
    workload: Option<&Workload>,
) -> Option<Note> {
    let proven = record.transfers.iter().filter(|pair| pair.proven);
    let named: BTreeSet<&str> = proven
        .flat_map(|pair| [pair.initiator.as_str(), pair.target.as_str()])
        .collect();
    let mut ends: BTreeMap<String, End> = BTreeMap::new();
    // Of several containers of a pod the one with a role moves KV.
    let (own, beside): (Vec<&Folded>, Vec<&Folded>) = snapshots
        .iter()
        .partition(|folded| folded.place().role.is_some());
    for folded in own.into_iter().chain(beside) {
        let pod = &folded.place().pod;
        if named.contains(pod.as_str()) && !ends.contains_key(pod) {
            let mut end = end(&folded.open());
            let written = || worker_of(folded, workload?).map(Worker::kv_in_host_memory);
            end.host_memory = end.host_memory.or_else(written);
            if let Some(workload) = workload {
                let written = worker_of(folded, workload).map(|worker| (worker, workload));
                end.other_mover = other_mover(&folded.open(), written);
            }
            ends.insert(pod.clone(), end);
        }
    }
    let namespace = record.namespace.as_deref();
    for pair in &mut record.transfers {
        let of = |name: &str| ends.get(name);
        let both = [of(&pair.initiator), of(&pair.target)];
        pair.doubt(namespace, both);
    }
    let in_host = |name: &str| ends.get(name).is_some_and(End::in_host_memory);
    let other_memory = |pair: &&PairFacts| {
        pair.proven && pair.memory == "gpu" && in_host(&pair.initiator) && in_host(&pair.target)
    };
    let pair = record.transfers.iter().find(other_memory)?;
    Some(Note {
        object: format!("{} -> {}", pair.initiator, pair.target),
        message: "the KV cache of these workers goes through host memory (kv_buffer_device=cpu), and their lane was proven for \
                  GPU memory; --transfer --memory host shows that of host memory"
            .to_owned(),
    })
}

/// Why a transfer of NIXL proves nothing of what moves the KV of a worker; none where it does, and where that is not known. What an
/// encode worker hands on is no KV.
fn other_mover(snapshot: &Snapshot, written: Option<(&Worker, &Workload)>) -> Option<String> {
    let encodes = snapshot.place.role.as_deref() == Some(Role::Encode.word());
    let running = Facts::kv_transfer(snapshot);
    mover::of(
        running.known().map(|seen| &**seen),
        written.filter(|_| !encodes),
    )?
    .beside_nixl()
}

/// What a transfer is held against at one end.
pub fn end(snapshot: &Snapshot) -> End {
    let Container { facts, context, .. } = Container::parse(snapshot);
    let environment = facts.process.environment.known();
    let value = |name: &str| environment?.variables.get(name).map(String::as_str);
    let kv_transfer = facts.process.kv_transfer.known();
    let tls = TransportList::parse(value("UCX_TLS").unwrap_or_default());
    let devices = facts.rdma.devices.known();
    let granted = facts.rdma.granted.known();
    let refused = granted.iter().flat_map(|granted| &granted.refused);
    let absent = granted.iter().flat_map(|granted| &granted.absent);
    let no_node = || "no node in /dev/infiniband".to_owned();
    let named = [
        "SGLANG_DISAGGREGATION_NIXL_BACKEND",
        "TRTLLM_NIXL_KVCACHE_BACKEND",
    ];
    let backend = named.into_iter().find_map(value).map(str::to_owned);
    let in_force = |name: &str| facts.process.value(name).ok().flatten();
    // Of other backends UCX's settings say nothing.
    let chosen = |name: &str| in_force(name).filter(|_| context.backend != Backend::Libfabric);
    let only = TransportList::parse(chosen("UCX_TLS").unwrap_or("all"));
    let barred = OF_UCX
        .into_iter()
        .filter(|transport| !only.allows(transport));
    let picked = Selection::ucx(chosen("UCX_NET_DEVICES"), &context);
    let passed_over = ports_of(devices)
        .filter(|(device, port)| {
            picked
                .as_ref()
                .is_some_and(|all| !all.selects(device, *port))
        })
        .map(|(device, port)| format!("{device}:{port}"));
    End {
        barred: barred.collect(),
        passed_over: passed_over.collect(),
        node: snapshot.place.node.clone(),
        ports: devices.map(|devices| devices.iter().flat_map(ports).collect()),
        closed: refused
            .map(|(device, why)| (device.clone(), why.clone()))
            .chain(absent.map(|device| (device.clone(), no_node())))
            .collect(),
        opens_none: granted
            .is_some_and(|granted| !granted.nodes.iter().any(|node| node.starts_with("uverbs"))),
        spans_nodes: facts.gpu.fabric.known().and_then(|seen| spans_nodes(seen)),
        over_nvlink: value("UCX_TLS").is_some_and(|tls| !tls.is_empty())
            && !tls.negated()
            && !tls.names_rdma()
            && tls.allows("cuda_ipc"),
        host_memory: kv_transfer.and_then(|config| config.host_memory),
        backend: backend.or_else(|| kv_transfer?.backend.clone()),
        other_mover: other_mover(snapshot, None),
    }
}

/// Names and numbers of all ports that were seen.
fn ports_of(devices: Option<&Seen<Vec<Device>>>) -> impl Iterator<Item = (&str, u32)> {
    let devices = devices.into_iter().flat_map(|all| all.iter());
    devices.flat_map(|device| {
        let ports = device.hca.ports.iter();
        ports.map(|port| (device.hca.name.as_str(), port.number))
    })
}

fn ports(device: &Device) -> Vec<EndPort> {
    let unseen = EndPort {
        device: device.hca.name.clone(),
        number: None,
        is_software: device.backing == Backing::Software,
        gbps: None,
        lost: None,
    };
    if device.hca.ports.is_empty() {
        return vec![unseen];
    }
    let all = device.hca.ports.iter();
    all.map(|port| {
        use PortState::{Armed, Down, Init, Nop};
        let lost = port.state.as_ref();
        let lost = lost.filter(|state| matches!(state, Nop | Down | Init | Armed));
        // Older kernels print SDR for a speed that they do not know.
        let rate = port.rate.as_ref();
        let rate = rate.filter(|rate| rate.speed.as_deref() != Some("SDR"));
        EndPort {
            number: Some(port.number),
            gbps: rate.map(|rate| rate.rate_gbps),
            lost: lost.map(|state| state_word(state).to_owned()),
            ..unseen.clone()
        }
    })
    .collect()
}

/// Whether NVLink may leave the node; none where the driver does not say it of each GPU.
fn spans_nodes(query: &Query) -> Option<bool> {
    let fabrics = || query.gpus.iter().map(|gpu| gpu.fabric.as_ref());
    if fabrics().flatten().any(|fabric| fabric.is_multi_node()) {
        return Some(true);
    }
    let ends_here = fabrics().all(|fabric| {
        fabric
            .is_some_and(|f| f.cluster_uuid.is_some() || f.state == Some(FabricState::NotSupported))
    });
    (!query.gpus.is_empty() && ends_here).then_some(false)
}
