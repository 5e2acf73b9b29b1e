use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::words::{counted, listed};
use crate::facts::container::rdma::{Device, port_line};
use crate::facts::hca::{LinkLayer, PhysState, Port, PortState};
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
    /// link is named, since only who pastes them knows which are in use; one that is switched off (Disabled) beside a group of
    /// another kind in which all are ACTIVE is normal.
    ///
    /// ## Sources
    /// The share is this project's own judgement; gpud counts ports per GPU model in the same way.
    "RDMA006" "port-without-link" on Container {
        subsystem: Rdma, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
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
            return Ok(vec![unused(container, &idle, false)?]);
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
    let mut complete = false;
    for group in groups.values() {
        let (active, dead): (Vec<_>, Vec<_>) = group
            .iter()
            .copied()
            .partition(|(_, port)| port.state == Some(PortState::Active));
        complete |= dead.is_empty();
        let is_down = |(_, port): &(&Device, &Port)| port.state == Some(PortState::Down);
        let dead: Vec<(&Device, &Port)> = dead.into_iter().filter(is_down).collect();
        let down: Vec<String> = dead
            .iter()
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
        let headline = format!(
            "{} of {} ports of the same kind {} no link",
            down.len(),
            group.len(),
            if down.len() == 1 { "has" } else { "have" }
        );
        let draft = Draft::warn(detail).headline(headline).with([seen]);
        drafts.push(draft.fix(cure(&dead)));
    }
    let others: Vec<(&Device, &Port)> = idle
        .into_iter()
        .filter(|(device, port)| !named.contains(&port_line(device, port)))
        .collect();
    if !others.is_empty() {
        drafts.push(unused(container, &others, complete)?);
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
fn idle<'a>(container: &'a Container<'_>) -> Result<Vec<(&'a Device, &'a Port)>, Skip> {
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
        ports.map(move |port| (device, port))
    });
    Ok(ports.collect())
}

/// Somebody switched the port off: no cable is missing.
fn is_off(port: &Port) -> bool {
    port.phys_state == Some(PhysState::Disabled)
}

/// What to do about ports without a link, by what keeps each from it.
fn cure(dead: &[(&Device, &Port)]) -> String {
    let names = |off: bool| {
        let ports = dead.iter().filter(|(_, port)| is_off(port) == off);
        let names: Vec<&str> = ports.map(|(device, _)| device.hca.name.as_str()).collect();
        (!names.is_empty()).then(|| listed(&names))
    };
    let cable = names(false).map(|names| format!("check the cable and the switch port of {names}"));
    let off = names(true).map(|names| {
        format!("switch {names} on (it is Disabled: bring its interface up, or enable the port) unless it is off on purpose")
    });
    let cures: Vec<String> = cable.into_iter().chain(off).collect();
    cures.join("; ")
}

/// Whether these are in use nobody said. `complete`: all ports of some other kind are ACTIVE.
fn unused(
    container: &Container<'_>,
    ports: &[(&Device, &Port)],
    complete: bool,
) -> Result<Draft, Skip> {
    let devices = container.facts.rdma.devices.get()?;
    let lines: Vec<String> = ports.iter().map(|(d, p)| port_line(d, p)).collect();
    let seen = devices.evidence(lines.iter().map(String::as_str));
    let count = counted(ports.len(), "port");
    if complete && ports.iter().all(|(_, port)| is_off(port)) {
        let detail = format!(
            "{count} switched off on adapters that have no other, beside a group of ports that are all ACTIVE, which is normal: {}",
            lines.join(", ")
        );
        return Ok(Draft::ok(detail).with([seen]));
    }
    let detail = format!(
        "{count} without a link on adapters that have no other, which is right only where they are not used: {}",
        lines.join(", ")
    );
    let headline = format!("{count} without a link, on adapters that have no other");
    let fix = format!("{}; leave them if they are not used", cure(ports));
    Ok(Draft::warn(detail).headline(headline).with([seen]).fix(fix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::{NOTHING, hcas, outcome, pasted, verdict};
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

    /// `ibstat` of ports: link layer and physical state.
    fn ibstat(ports: &[(&str, &str)]) -> String {
        let one = |(n, (link, phys)): (usize, &(&str, &str))| {
            let state = if *phys == "LinkUp" { "Active" } else { "Down" };
            format!(
                "CA 'mlx5_{n}'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: {state}\n\
                 \t\tPhysical state: {phys}\n\t\tRate: 400\n\t\tLink layer: {link}\n"
            )
        };
        ports.iter().enumerate().map(one).collect()
    }

    #[test]
    fn ports_switched_off_beside_a_complete_set_are_normal_and_each_cause_has_its_cure() {
        let with = |ports: &[(&str, &str)]| {
            let snapshot = pasted(&[(&ask::IBSTAT, ibstat(ports))]);
            outcome(run, &snapshot).unwrap().remove(0)
        };
        let rails = [("InfiniBand", "LinkUp"); 8];
        let beside = |more: &[(&str, &str)]| with(&[rails.as_slice(), more].concat());
        let off = beside(&[("Ethernet", "Disabled"); 3]);
        assert_eq!(off.status, Status::Ok, "{}", off.detail);
        let polling = beside(&[("Ethernet", "Disabled"), ("Ethernet", "Polling")]);
        assert_eq!(polling.status, Status::Warn);
        let fix = polling.fix.unwrap();
        assert!(
            fix.contains("cable and the switch port of mlx5_9; switch mlx5_8 on"),
            "{fix}"
        );
        // Of the same kind it is a rail that is missing, whoever switched it off.
        let rail = beside(&[("InfiniBand", "Disabled")]);
        assert_eq!(rail.status, Status::Warn);
        assert_eq!(
            rail.headline.unwrap(),
            "1 of 9 ports of the same kind has no link"
        );
        assert!(!rail.fix.unwrap().contains("cable"));
        // No set is complete.
        assert_eq!(
            with(&[("InfiniBand", "LinkUp"), ("Ethernet", "Disabled")]).status,
            Status::Warn
        );
    }
}
