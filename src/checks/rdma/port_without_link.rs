use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::words::{counted, listed};
use crate::facts::container::rdma::{Device, port_line};
use crate::facts::hca::{LinkLayer, Port, PortState};
use crate::observed::Skip;
use std::collections::{BTreeMap, BTreeSet};

check! {
    /// One adapter of many of the same kind has no link.
    ///
    /// ## Why it matters
    /// On a node with one adapter per GPU, the GPU of the dead port sends through a neighbour's: half the bandwidth for both,
    /// and no message.
    ///
    /// ## Fix
    /// Look at the cable and the switch port of that adapter.
    ///
    /// ## False alarms
    /// Ports that are down are often just unused. So only a small minority counts: of at least four ports of the same model,
    /// the same port number and link layer, at least three quarters must be ACTIVE. Of pasted outputs every adapter without any
    /// link is named, since only who pastes them knows which are in use.
    ///
    /// ## Sources
    /// The share is this project's own judgement; gpud counts ports per GPU model in the same way.
    "RDMA006" "port-without-link" on Container {
        subsystem: Rdma, kv_path: Supporting, worst: Warn, causes: &[], since: "0.2.0",
    }
}

/// Fewer ports of a kind do not show what was meant.
const SMALLEST_GROUP: usize = 4;

fn run(container: &Container<'_>) -> Outcome {
    let rdma = &container.facts.rdma;
    let ports = rdma.own_ports()?;
    if ports.iter().any(|(_, port)| port.state.is_none()) {
        return Err(container.state_not_seen());
    }
    let idle = idle(container)?;
    let nameless = |device: &Device| device.hca.part_id.is_none() && device.hca.model.is_none();
    if ports.len() >= SMALLEST_GROUP && ports.iter().any(|(device, _)| nameless(device)) {
        if !idle.is_empty() {
            return Ok(vec![unused(container, &idle)?]);
        }
        return Err(container.not_shown(
            "the model of some adapters was not seen, so that siblings cannot be told",
            "ibstat",
        ));
    }
    let mut groups: BTreeMap<String, Vec<(&Device, &Port)>> = BTreeMap::new();
    for (device, port) in ports {
        let hca = &device.hca;
        let link = match &port.link_layer {
            Some(LinkLayer::InfiniBand) => "InfiniBand",
            Some(LinkLayer::Ethernet) => "Ethernet",
            _ => "other",
        };
        let kind = format!("{:?} {:?} {} {link}", hca.part_id, hca.model, port.number);
        groups.entry(kind).or_default().push((device, port));
    }
    groups.retain(|_, group| group.len() >= SMALLEST_GROUP);
    if groups.is_empty() && idle.is_empty() {
        return Err(Skip::not_applicable());
    }
    let devices = rdma.devices.get()?;
    let mut drafts = Vec::new();
    let mut named: BTreeSet<String> = BTreeSet::new();
    for group in groups.values() {
        let (active, dead): (Vec<_>, Vec<_>) = group
            .iter()
            .partition(|(_, port)| port.state == Some(PortState::Active));
        let down: Vec<String> = dead
            .iter()
            .filter(|(_, port)| port.state == Some(PortState::Down))
            .map(|(device, port)| port_line(device, port))
            .collect();
        if down.is_empty() || active.len() * 4 < group.len() * 3 {
            continue;
        }
        let detail = format!(
            "{} of {} ports of the same kind have no link, the others are ACTIVE: {}",
            down.len(),
            group.len(),
            listed(&down.iter().map(String::as_str).collect::<Vec<_>>())
        );
        named.extend(down.iter().cloned());
        let seen = devices.evidence(down.iter().map(String::as_str));
        let fix = "check the cable and the switch port of this adapter";
        drafts.push(Draft::warn(detail).with([seen]).fix(fix));
    }
    let others: Vec<String> = idle
        .into_iter()
        .filter(|line| !named.contains(line))
        .collect();
    if !others.is_empty() {
        drafts.push(unused(container, &others)?);
    }
    if drafts.is_empty() {
        let lines: Vec<String> = groups
            .values()
            .flatten()
            .map(|(d, p)| port_line(d, p))
            .collect();
        let detail = "no adapter of a group lacks its link alone";
        let seen = devices.evidence(lines.iter().map(String::as_str));
        drafts.push(Draft::ok(detail).with([seen]));
    }
    Ok(drafts)
}

/// Adapters of pasted outputs without any link. Who pastes them asks what is wrong, and only they know which are in use; the
/// second port of an adapter that is ACTIVE is not named.
fn idle(container: &Container<'_>) -> Result<Vec<String>, Skip> {
    let rdma = &container.facts.rdma;
    // Where none is ACTIVE `ib-link` names all of them.
    if !container.is_pasted() || rdma.usable_ports()?.is_empty() {
        return Ok(Vec::new());
    }
    let is_dead = |device: &&Device| {
        let mut ports = device.hca.ports.iter();
        ports.all(|port| port.state == Some(PortState::Down))
    };
    let dead = rdma.own()?.into_iter().filter(is_dead);
    let ports = dead.flat_map(|device| {
        let ports = device.hca.ports.iter();
        ports.map(move |port| port_line(device, port))
    });
    Ok(ports.collect())
}

/// Whether these are in use nobody said.
fn unused(container: &Container<'_>, lines: &[String]) -> Result<Draft, Skip> {
    let detail = format!(
        "{} without a link on adapters that have no other, which is right only where they are not used: {}",
        counted(lines.len(), "port"),
        lines.join(", ")
    );
    let devices = container.facts.rdma.devices.get()?;
    let seen = devices.evidence(lines.iter().map(String::as_str));
    let fix = "check cable, switch port and network interface of these, or leave them if they are not used";
    Ok(Draft::warn(detail).with([seen]).fix(fix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::testing::{NOTHING, hcas, verdict};
    use crate::report::SkipReason;
    use crate::report::Status;

    #[test]
    fn a_minority_without_link_is_a_fault_and_a_majority_is_a_choice() {
        let with = |active: usize, down: usize| {
            let states = [vec!["4: ACTIVE"; active], vec!["1: DOWN"; down]].concat();
            verdict(run, "decode", &hcas(&states))
        };
        assert_eq!(with(8, 0), Ok(Status::Ok));
        assert_eq!(with(7, 1), Ok(Status::Warn));
        assert_eq!(with(6, 2), Ok(Status::Warn));
        assert_eq!(with(4, 4), Ok(Status::Ok));
        assert_eq!(with(1, 1), Err(Skip::not_applicable()));
        assert!(verdict(run, "decode", NOTHING).is_err());
        let mut stateless = hcas(&["4: ACTIVE"; 4]);
        for (_, text) in &mut stateless {
            *text = text.replacen("/state: ", "/status: ", 1);
        }
        let skip = verdict(run, "decode", &stateless).unwrap_err();
        assert_eq!(skip.reason, SkipReason::NotCollected);
    }
}
