use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::roce::{self, Reach};
use crate::judge::selection::Selection;
use crate::observed::Skip;
use crate::report::Status;

check! {
    /// A RoCE port has no address by which another node can reach it.
    ///
    /// RoCE needs a GID of type RoCE v2 that is made from an IP address of this network namespace. In a container without
    /// the adapter's interface the table is empty, or holds addresses that are not here.
    ///
    /// ## Why it matters
    /// The port is ACTIVE and nothing arrives: time-outs at connect (`ibv_modify_qp`, RTR), or UCX leaves the port out.
    ///
    /// ## Fix
    /// Give the pod the adapter's interface (a secondary network by Multus, `networking.gke.io/interfaces`, or hostNetwork)
    /// and the interface an IP address.
    ///
    /// ## False alarms
    /// On InfiniBand a single GID `fe80:...` is normal; those ports are not looked at here.
    ///
    /// ## Sources
    /// Linux `drivers/infiniband/core/cache.c`; UCX v1.20.0 `uct_ib_device_select_gid`; NVIDIA/nccl#769, #1796;
    /// kvcache-ai/Mooncake#946, #1593; llm-d-incubation/llm-d-modelservice#180.
    "RDMA009" "roce-address-missing" on Container {
        subsystem: Rdma, kv_path: Required, worst: Fail, causes: &["RDMA010"], since: "0.1.0",
    }
}

/// The container's RoCE ports were looked at, and other nodes reach them.
pub(crate) fn is_routed(container: &Container<'_>) -> bool {
    run(container).is_ok_and(|drafts| drafts.iter().all(|draft| draft.status == Status::Ok))
}

fn run(container: &Container<'_>) -> Outcome {
    let facts = &container.facts;
    let ports = roce::ports(facts)?;
    if ports.is_empty() {
        return Err(Skip::not_applicable());
    }
    let gids = facts.rdma.gids.get()?;
    let (mut good, mut only_v6, mut bad) = (Vec::new(), Vec::new(), Vec::new());
    let mut unknown = None;
    for (device, port) in &ports {
        let name = format!("{}:{}", device.hca.name, port.number);
        let table = facts.rdma.gids_of(&device.hca.name, port.number)?;
        let reach: Vec<_> = table
            .iter()
            .map(|gid| (gid, roce::reach(gid, facts)))
            .collect();
        let best = reach.iter().min_by_key(|(_, reach)| reach.rank());
        let line = match best {
            Some((gid, reach)) => {
                format!("{name} gid {} {} {}", gid.index, gid.text, reach.words())
            }
            None => format!("{name} has no GID in this network namespace"),
        };
        match best.map(|(gid, reach)| (gid.ipv4().is_some(), reach)) {
            Some((_, Reach::Unknown(skip))) => {
                unknown.get_or_insert_with(|| Skip {
                    detail: format!("{line}: {}", skip.detail),
                    ..skip.clone()
                });
            }
            Some((true, Reach::Routable)) => good.push((device, port, line)),
            Some((false, Reach::Routable)) => only_v6.push((device, port, line)),
            _ => bad.push((device, port, line)),
        }
    }
    // Ports that nobody chose may be without an address.
    let value = facts.process.value("UCX_NET_DEVICES");
    let chosen = value
        .as_ref()
        .ok()
        .and_then(|value| Selection::ucx(*value, &container.context));
    bad.retain(|(device, port, _)| {
        chosen
            .as_ref()
            .is_none_or(|s| s.selects(&device.hca.name, port.number))
    });
    let lines = |ports: &[(_, _, String)]| -> Vec<String> {
        ports.iter().map(|(_, _, line)| line.clone()).collect()
    };
    if let Some((_, _, first)) = bad.first() {
        let seen = lines(&bad);
        let seen = gids.evidence(seen.iter().map(String::as_str));
        let fix = "give the container the adapter's network interface with an IP address (secondary network or hostNetwork)";
        let usable = good.len() + only_v6.len() + usize::from(unknown.is_some());
        let detail = format!(
            "{} of {} RoCE ports have no RoCE v2 GID with a local address: {first}",
            bad.len(),
            ports.len()
        );
        let state_seen = bad.iter().all(|(_, port, _)| port.state.is_some());
        let draft = if usable == 0 && state_seen {
            container.broken(detail)
        } else {
            Draft::warn(detail)
        };
        return Ok(vec![draft.with([seen]).fix(fix)]);
    }
    if let Some(skip) = unknown {
        return Err(skip);
    }
    if let Some((_, _, first)) = only_v6.first() {
        let seen = lines(&only_v6);
        let seen = gids.evidence(seen.iter().map(String::as_str));
        let detail = format!(
            "{} of {} RoCE ports have IPv6 addresses only ({first}); UCX takes them, NCCL and Mooncake look for IPv4",
            only_v6.len(),
            ports.len()
        );
        let fix = "give the interfaces IPv4 addresses, or set NCCL_IB_ADDR_FAMILY=AF_INET6 for collectives";
        return Ok(vec![Draft::warn(detail).with([seen]).fix(fix)]);
    }
    let seen = lines(&good);
    let detail = format!(
        "every RoCE port that is used ({}) has a RoCE v2 GID with a local address",
        good.len()
    );
    if good.is_empty() {
        return Err(Skip::not_applicable());
    }
    Ok(vec![
        Draft::ok(detail).with([gids.evidence(seen.iter().map(String::as_str))]),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::{NOTHING, changed, roce, verdict};

    #[test]
    fn a_routable_local_address_is_needed() {
        let healthy = roce(2);
        assert_eq!(verdict(run, "decode", &healthy), Ok(Status::Ok));
        let gids = |text: &str| {
            verdict(
                run,
                "decode",
                &changed(&healthy, &[(&ask::RDMA_GIDS, text)]),
            )
        };
        // No interface of the adapters in this namespace.
        assert_eq!(gids(""), Ok(Status::Fail));
        let at = |port: &str, index: u32, kind: &str, gid: &str| {
            let port = format!("/sys/class/infiniband/{port}/ports/1");
            format!("{port}/gid_attrs/types/{index}: {kind}\n{port}/gids/{index}: {gid}\n")
        };
        let local = "0000:0000:0000:0000:0000:ffff:0a00:0001";
        let foreign = "0000:0000:0000:0000:0000:ffff:0b00:0001";
        let link_local = "fe80:0000:0000:0000:5450:ccff:fe8e:4652";
        let v6 = "fd00:0000:0000:0000:0000:0000:0000:0001";
        let both = |kind: &str, gid: &str| at("mlx5_0", 3, kind, gid) + &at("mlx5_1", 3, kind, gid);
        assert_eq!(gids(&both("RoCE v2", local)), Ok(Status::Ok));
        assert_eq!(gids(&both("IB/RoCE v1", local)), Ok(Status::Fail));
        assert_eq!(gids(&both("RoCE v2", foreign)), Ok(Status::Fail));
        assert_eq!(gids(&both("RoCE v2", link_local)), Ok(Status::Fail));
        assert_eq!(gids(&both("RoCE v2", v6)), Ok(Status::Warn));
        let one = at("mlx5_0", 3, "RoCE v2", local);
        assert_eq!(gids(&one), Ok(Status::Warn));
        // The other port is not chosen.
        let chosen = [
            (&ask::RDMA_GIDS, one.as_str()),
            (
                &ask::ENVIRONMENT,
                "# process 1 vllm\nUCX_NET_DEVICES=mlx5_0:1",
            ),
        ];
        assert_eq!(
            verdict(run, "decode", &changed(&healthy, &chosen)),
            Ok(Status::Ok)
        );
        assert_eq!(
            verdict(run, "agg", &changed(&healthy, &[(&ask::RDMA_GIDS, "")])),
            Ok(Status::Warn)
        );
    }

    #[test]
    fn what_was_not_read_is_not_judged() {
        assert!(verdict(run, "decode", NOTHING).is_err());
        for ask in [&ask::RDMA_GIDS, &ask::IP_ADDR, &ask::RDMA_PORTS] {
            let mut rest = roce(1);
            rest.retain(|(a, _)| a.id != ask.id);
            assert!(verdict(run, "decode", &rest).is_err(), "{}", ask.id);
        }
    }
}
