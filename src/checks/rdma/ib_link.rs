use crate::ask;
use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::facts::rdma::Port;
use crate::observed::Skip;
use crate::report::SkipReason;
use crate::snapshot::evidence;

check! {
    /// No RDMA port that the container may open is ACTIVE.
    ///
    /// Only port state 4 carries traffic. `Physical state: LinkUp` beside INIT means that no subnet manager configured
    /// the port; ARMED means that it has not finished.
    ///
    /// ## Why it matters
    /// UCX offers a port only in state ACTIVE. With none, KV travels over TCP.
    ///
    /// ## Fix
    /// DOWN or Polling: cable or switch port. INIT or ARMED on InfiniBand: start or repair the subnet manager.
    ///
    /// ## Sources
    /// Linux `drivers/infiniband/core/sysfs.c`; UCX v1.20.0 `uct_ib_device_port_check`.
    "RDMA002" "ib-link" on Container {
        subsystem: Rdma, kv_path: Required, worst: Fail, causes: &[], since: "0.1.0",
    }
}

fn run(container: &Container<'_>) -> Outcome {
    let ports = container.rdma.ports.get()?;
    let granted = container.rdma.granted.get()?;
    let own: Vec<&Port> = ports
        .iter()
        .filter(|p| granted.contains(&p.device))
        .collect();
    if granted.is_empty() {
        // `ib-devices` says that there is nothing to judge.
        return Err(Skip::not_applicable());
    }
    let stateless = own.iter().all(|p| !p.active()) && own.iter().any(|p| p.state.is_empty());
    if own.is_empty() || stateless {
        let held: Vec<&str> = granted.iter().map(String::as_str).collect();
        let detail = format!(
            "no state of a port of {} is in what was read",
            held.join(", ")
        );
        return Err(Skip::new(SkipReason::Unparsable, detail));
    }
    let lines: Vec<String> = own
        .iter()
        .map(|p| {
            format!(
                "{}:{} {} {} {}",
                p.device, p.port, p.state, p.phys_state, p.rate
            )
        })
        .collect();
    let seen = [evidence(&ask::RDMA_PORTS, lines.iter().map(String::as_str))];
    let active = own.iter().filter(|p| p.active()).count();
    let detail = format!(
        "{active} of {} ports that the container may open are ACTIVE",
        own.len()
    );
    if active == 0 {
        let draft = if container.moves_kv() {
            Draft::fail(detail)
        } else {
            Draft::warn(detail)
        };
        let fix = "bring a port up: cable and switch for DOWN, subnet manager for INIT or ARMED";
        return Ok(vec![draft.with(seen).fix(fix)]);
    }
    Ok(vec![Draft::ok(detail).with(seen)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::testing::{container, outcome};
    use crate::report::Status;

    fn verdict(role: &str, state: &str, nodes: &str) -> Result<Status, Skip> {
        let ports = format!(
            "/sys/class/infiniband/mlx5_0/ports/1/state: {state}\n\
             /sys/class/infiniband/mlx5_0/ports/1/phys_state: 5: LinkUp"
        );
        let owner = "/sys/class/infiniband_verbs/uverbs0/ibdev: mlx5_0";
        let answers = [
            (&ask::RDMA_PORTS, ports.as_str()),
            (&ask::DEV_INFINIBAND, nodes),
            (&ask::RDMA_UVERBS, owner),
        ];
        outcome(run, &container(role, &answers)).map(|d| d[0].status)
    }

    #[test]
    fn link_up_is_not_active() {
        assert_eq!(verdict("decode", "4: ACTIVE", "uverbs0"), Ok(Status::Ok));
        assert_eq!(verdict("decode", "2: INIT", "uverbs0"), Ok(Status::Fail));
        assert_eq!(verdict("agg", "1: DOWN", "uverbs0"), Ok(Status::Warn));
        assert_eq!(
            verdict("decode", "4: ACTIVE", ""),
            Err(Skip::not_applicable())
        );
    }

    #[test]
    fn an_unread_answer_is_never_ok() {
        let state = "/sys/class/infiniband/mlx5_0/ports/1/state: 4: ACTIVE";
        let owner = "/sys/class/infiniband_verbs/uverbs0/ibdev: mlx5_0";
        let all = [
            (&ask::RDMA_PORTS, state),
            (&ask::DEV_INFINIBAND, "uverbs0"),
            (&ask::RDMA_UVERBS, owner),
        ];
        for left_out in 0..all.len() {
            let mut answers = all.to_vec();
            answers.remove(left_out);
            let skip = outcome(run, &container("decode", &answers)).unwrap_err();
            assert_eq!(skip.reason, SkipReason::NotCollected);
        }
        // A device that may be opened and of which no state was read is neither ACTIVE nor down.
        let phys = "/sys/class/infiniband/mlx5_0/ports/1/phys_state: 5: LinkUp";
        for ports in ["", phys, &state.replace("mlx5_0", "mlx5_1")] {
            let mut answers = all;
            answers[0].1 = ports;
            let skip = outcome(run, &container("decode", &answers)).unwrap_err();
            assert_eq!(skip.reason, SkipReason::Unparsable, "{ports:?}");
        }
    }
}
