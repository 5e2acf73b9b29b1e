use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::words::listed;
use crate::facts::container::rdma::port_line;
use crate::facts::hca::{LinkLayer, PhysState, Port, PortState};
use crate::observed::Skip;

check! {
    /// No RDMA port that the container may open is ACTIVE.
    ///
    /// Only port state 4 carries traffic. `Physical state: LinkUp` beside INIT means that no subnet manager configured
    /// the port; ARMED means that it has not finished. Ports that are down beside ACTIVE ones may be unused and are no fault.
    ///
    /// ## Why it matters
    /// UCX offers a port only in state ACTIVE. With none, KV travels over TCP.
    ///
    /// ## Fix
    /// DOWN or Polling: cable or switch port. INIT or ARMED on InfiniBand: start or repair the subnet manager.
    ///
    /// ## False alarms
    /// The EFA driver always says ACTIVE; there the state proves nothing, and counters do.
    ///
    /// ## Sources
    /// Linux `drivers/infiniband/core/sysfs.c`; UCX v1.20.0 `uct_ib_device_port_check`; openucx/ucx#5970.
    "RDMA002" "ib-link" on Container {
        subsystem: Rdma, kv_path: Required, worst: Fail, causes: &[], since: "0.1.0",
    }
}

fn run(container: &Container<'_>) -> Outcome {
    let rdma = &container.facts.rdma;
    let ports = rdma.own_ports()?;
    if ports.is_empty() {
        // `ib-devices` says that there is nothing to judge.
        return Err(Skip::not_applicable());
    }
    let lines: Vec<String> = ports.iter().map(|(d, p)| port_line(d, p)).collect();
    let seen = [rdma
        .devices
        .get()?
        .evidence(lines.iter().map(String::as_str))];
    let active = rdma.usable_ports()?.len();
    let question = container.ports_in_question();
    let detail = match (active, ports.len()) {
        (0, 1) => format!("the only port {question} is not ACTIVE"),
        (_, 1) => format!("the only port {question} is ACTIVE"),
        (_, all) => format!("{active} of {all} ports {question} are ACTIVE"),
    };
    if active > 0 {
        let all_efa = ports.iter().all(|(device, _)| device.is_efa());
        let note = if all_efa {
            ", which the EFA driver always says"
        } else {
            ""
        };
        let detail = format!("{detail}{note}");
        return Ok(vec![Draft::ok(detail).with(seen)]);
    }
    if ports.iter().any(|(_, port)| port.state.is_none()) {
        return Err(container.state_not_seen());
    }
    // Each cause once, with all ports that it holds back.
    let mut causes: Vec<((&str, &str), Vec<&str>)> = Vec::new();
    for ((_, port), line) in ports.iter().zip(&lines) {
        let cause = cause(port);
        match causes.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, held)) => held.push(line),
            None => causes.push((cause, vec![line])),
        }
    }
    let whys: Vec<String> = causes
        .iter()
        .map(|((why, _), held)| {
            let each = if held.len() > 1 { " each" } else { "" };
            format!("{}{each} {why}", listed(held))
        })
        .collect();
    let fixes: Vec<&str> = causes.iter().map(|((_, fix), _)| *fix).collect();
    let draft = container.broken(format!("{detail}; {}", whys.join("; ")));
    let headline = format!("no RDMA port {} is ACTIVE", container.ports_in_question());
    Ok(vec![
        draft.with(seen).fix(fixes.join("; ")).headline(headline),
    ])
}

/// What a port lacks, and what to do about it.
fn cause(port: &Port) -> (&'static str, &'static str) {
    let ethernet = port.link_layer == Some(LinkLayer::Ethernet);
    let orphan = port.sm_lid == Some(0) && !ethernet;
    match (&port.state, &port.phys_state) {
        (Some(PortState::Down), Some(PhysState::LinkUp)) if orphan => (
            "has a link, and no subnet manager brings it up",
            "start or repair the subnet manager of this fabric",
        ),
        (Some(PortState::Init | PortState::Armed), _) => (
            "has a link, and no subnet manager has finished configuring it",
            "start or repair the subnet manager of this fabric",
        ),
        (_, Some(PhysState::Polling)) => (
            "looks for the other end: no cable, a dead transceiver, or a switch port that is off",
            "check the cable and the switch port",
        ),
        (_, Some(PhysState::Disabled)) if ethernet => (
            "is switched off: its network interface is down",
            "bring the network interface of the port up",
        ),
        (_, Some(PhysState::Disabled)) => ("is switched off", "enable the port"),
        _ => (
            "is not ACTIVE",
            "bring a port up: cable and switch for DOWN, subnet manager for INIT or ARMED",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::{changed, hca, verdict};
    use crate::report::Status;

    #[test]
    fn link_up_is_not_active() {
        let with = |state, role| verdict(run, role, &hca("mlx5_0", state, "open"));
        assert_eq!(with("4: ACTIVE", "decode"), Ok(Status::Ok));
        for state in ["1: DOWN", "2: INIT", "3: ARMED", "5: ACTIVE_DEFER"] {
            assert_eq!(with(state, "decode"), Ok(Status::Fail), "{state}");
            assert_eq!(with(state, "agg"), Ok(Status::Warn), "{state}");
        }
        let nothing = hca("mlx5_0", "4: ACTIVE", "EPERM");
        assert_eq!(
            verdict(run, "decode", &nothing),
            Err(Skip::not_applicable())
        );
    }

    #[test]
    fn what_was_not_read_is_not_judged() {
        let healthy = hca("mlx5_0", "4: ACTIVE", "open");
        for ask in [
            &ask::RDMA_PORTS,
            &ask::DEV_INFINIBAND,
            &ask::DEV_INFINIBAND_OPEN,
        ] {
            let rest: Vec<_> = healthy
                .iter()
                .filter(|(a, _)| a.id != ask.id)
                .cloned()
                .collect();
            assert!(verdict(run, "decode", &rest).is_err(), "{}", ask.id);
        }
        let rate = "/sys/class/infiniband/mlx5_0/ports/1/rate: 400 Gb/sec (4X NDR)";
        let stateless = changed(&healthy, &[(&ask::RDMA_PORTS, rate)]);
        assert!(verdict(run, "decode", &stateless).is_err());
    }
}
