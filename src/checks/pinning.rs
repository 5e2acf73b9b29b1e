//! Which RDMA ports of a container are next to its GPUs: what UCX_NET_DEVICES may name.

use crate::checks::Container;
use crate::facts::container::rdma::Device;
use crate::facts::hca::{LinkLayer, Port};
use crate::facts::nvidia_smi_topo::Path;
use crate::judge;
use crate::report::Status;
use std::collections::{BTreeMap, BTreeSet};

/// Rates that differ by this factor are taken for different networks.
const FACTOR: f64 = 2.0;

/// The ports next to the GPUs as UCX_NET_DEVICES names them, among all that are ACTIVE and may be opened.
pub(super) fn ports(container: &Container<'_>) -> Option<String> {
    let ports = container.facts.rdma.usable_ports().ok()?;
    let known = |(_, port): &(&Device, &Port)| port.link_layer.is_some() && port.rate.is_some();
    let all: Vec<_> = ports.iter().collect();
    ports.iter().all(known).then(|| among(container, &all))?
}

/// The same among these ports, where those next to the GPUs are of one fabric. None where the topology does not tell: not read,
/// made up by a hypervisor, of Grace, or with a GPU that no port is next to.
pub(super) fn among(container: &Container<'_>, ports: &[&(&Device, &Port)]) -> Option<String> {
    let facts = &container.facts;
    let virtual_machine = facts.host.cpu.known().and_then(|cpu| cpu.hypervisor) == Some(true);
    if virtual_machine || facts.is_grace() == Some(true) {
        return None;
    }
    let matrix = facts.gpu.topology.known()?;
    let column = |device: &str| matrix.nics.iter().position(|nic| nic.label() == device);
    let mut near: BTreeSet<&str> = BTreeSet::new();
    for gpu in &matrix.gpus {
        let paths = ports.iter().filter_map(|(device, _)| {
            let name = device.hca.name.as_str();
            Some((name, (*gpu.to_nics.get(column(name)?)?)?))
        });
        let paths: Vec<_> = paths.filter(|(_, path)| *path <= Path::Pxb).collect();
        let best = paths.iter().map(|(_, path)| *path).min()?;
        near.extend(
            paths
                .iter()
                .filter(|(_, p)| *p == best)
                .map(|(name, _)| *name),
        );
    }
    let near: Vec<_> = ports
        .iter()
        .copied()
        .filter(|(device, _)| near.contains(device.hca.name.as_str()))
        .collect();
    if near.is_empty() || mixture(&near, true).is_some() {
        return None;
    }
    let names: Vec<String> = near
        .iter()
        .map(|(device, port)| format!("{}:{}", device.hca.name, port.number))
        .collect();
    let list = names.join(",");
    let verdict = judge::judge("UCX_NET_DEVICES", Some(&list), &container.context);
    (verdict.status == Status::Ok).then_some(list)
}

/// What tells that ports are of several fabrics: their kind, their subnet managers, and where `by_rate` their rates.
pub(super) fn mixture(ports: &[&(&Device, &Port)], by_rate: bool) -> Option<String> {
    let links = |link: LinkLayer| {
        ports
            .iter()
            .any(|(_, port)| port.link_layer == Some(link.clone()))
    };
    if links(LinkLayer::InfiniBand) && links(LinkLayer::Ethernet) {
        return Some("InfiniBand and Ethernet ports are ACTIVE".to_owned());
    }
    // A subnet has one master subnet manager, and its local id is unique there.
    let managers: BTreeMap<u32, &str> = ports
        .iter()
        .filter(|(_, port)| port.link_layer == Some(LinkLayer::InfiniBand))
        .filter_map(|(device, port)| Some((port.sm_lid?, device.hca.name.as_str())))
        .filter(|(sm_lid, _)| *sm_lid != 0)
        .collect();
    if managers.len() > 1 {
        let all: Vec<String> = managers
            .iter()
            .map(|(sm_lid, device)| format!("sm_lid {sm_lid} on {device}"))
            .collect();
        return Some(format!(
            "InfiniBand ports of {} subnets are ACTIVE ({})",
            managers.len(),
            all.join(", ")
        ));
    }
    let rates = ports.iter().filter_map(|(_, port)| port.rate_gbps());
    let (slowest, fastest) = rates.fold((f64::MAX, 0.0_f64), |(low, high), rate| {
        (low.min(rate), high.max(rate))
    });
    (by_rate && fastest >= slowest * FACTOR)
        .then(|| format!("ports of {slowest} and of {fastest} Gb/s are ACTIVE"))
}
