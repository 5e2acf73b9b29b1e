use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::words::part;
use crate::facts::container::rdma::port_line;
use crate::facts::hca::PortState;
use crate::observed::Skip;

check! {
    /// A port has a link and is not ACTIVE, while others of the container are.
    ///
    /// ## Why it matters
    /// INIT and ARMED mean that something is cabled and the subnet manager has not configured it. UCX leaves the port out
    /// without a word, so GPUs next to it send through an adapter further away.
    ///
    /// ## Fix
    /// Look at the subnet manager of that fabric (`sminfo`, its log, its partition keys).
    ///
    /// ## False alarms
    /// A port that is DOWN beside ACTIVE ones may be unused and is not named here.
    ///
    /// ## Sources
    /// Linux `include/rdma/ib_verbs.h`, `enum ib_port_state`; openucx/ucx#5970.
    "RDMA005" "port-not-ready" on Container {
        subsystem: Rdma, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

fn run(container: &Container<'_>) -> Outcome {
    let rdma = &container.facts.rdma;
    let ports = rdma.own_ports()?;
    if rdma.usable_ports()?.is_empty() {
        return Err(Skip::not_applicable());
    }
    if ports.iter().any(|(_, port)| port.state.is_none()) {
        return Err(container.state_not_seen());
    }
    let waiting: Vec<String> = ports
        .iter()
        .filter(|(_, port)| {
            matches!(
                port.state,
                Some(PortState::Init | PortState::Armed | PortState::ActiveDefer)
            )
        })
        .map(|(device, port)| port_line(device, port))
        .collect();
    let devices = rdma.devices.get()?;
    if waiting.is_empty() {
        let lines: Vec<String> = ports.iter().map(|(d, p)| port_line(d, p)).collect();
        let detail = "no port waits for a subnet manager";
        let seen = devices.evidence(lines.iter().map(String::as_str));
        return Ok(vec![Draft::ok(detail).with([seen])]);
    }
    let detail = format!(
        "{} not ACTIVE: {}",
        part(
            waiting.len(),
            ports.len(),
            "port",
            ("has a link and is", "have a link and are")
        ),
        waiting.join(", ")
    );
    let seen = devices.evidence(waiting.iter().map(String::as_str));
    let fix = "start or repair the subnet manager of the fabric of this port";
    Ok(vec![Draft::warn(detail).with([seen]).fix(fix)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::testing::{NOTHING, hcas, verdict};
    use crate::report::SkipReason;
    use crate::report::Status;

    #[test]
    fn only_a_port_with_a_link_is_waited_for() {
        let with = |states: &[&str]| verdict(run, "decode", &hcas(states));
        assert_eq!(with(&["4: ACTIVE", "4: ACTIVE"]), Ok(Status::Ok));
        assert_eq!(with(&["4: ACTIVE", "1: DOWN"]), Ok(Status::Ok));
        assert_eq!(with(&["4: ACTIVE", "2: INIT"]), Ok(Status::Warn));
        assert_eq!(with(&["4: ACTIVE", "3: ARMED"]), Ok(Status::Warn));
        assert_eq!(with(&["2: INIT", "2: INIT"]), Err(Skip::not_applicable()));
        assert!(verdict(run, "decode", NOTHING).is_err());
        let mut stateless = hcas(&["4: ACTIVE"; 4]);
        for (_, text) in &mut stateless {
            *text = text.replacen("/state: ", "/status: ", 1);
        }
        let skip = verdict(run, "decode", &stateless).unwrap_err();
        assert_eq!(skip.reason, SkipReason::NotCollected);
    }
}
