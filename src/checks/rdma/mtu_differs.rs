use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::observed::Skip;
use crate::report::SkipReason;
use std::collections::BTreeMap;

check! {
    /// ACTIVE ports of the container use different MTUs.
    ///
    /// ## Why it matters
    /// Both ends of a connection must agree on the MTU. Where one port of a node differs, so does, as a rule, one end of some
    /// pairs: local access violation or length errors at the first large message.
    ///
    /// ## Fix
    /// Give the interfaces and switch ports of one fabric the same MTU (RoCE: 9000 on the interface for an RDMA MTU of 4096).
    ///
    /// ## False alarms
    /// InfiniBand and RoCE ports are compared each among themselves. Whether the other node agrees is for a pair to say.
    ///
    /// ## Sources
    /// NVIDIA/nccl#1524, #2135. A small but equal MTU costs little: headers are about 60 of 1024 bytes (UCX computes
    /// wire_speed * mtu / (mtu + headers)).
    "RDMA015" "mtu-differs" on Container {
        subsystem: Rdma, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

fn run(container: &Container<'_>) -> Outcome {
    let rdma = &container.facts.rdma;
    let ports = rdma.usable_ports()?;
    if ports.len() < 2 {
        return Err(Skip::not_applicable());
    }
    if ports
        .iter()
        .any(|(_, port)| port.active_mtu_bytes.is_none())
    {
        let skip = rdma.verbs.get().err();
        let detail = "the active MTU of some ports was not seen; ibv_devinfo shows it";
        return Err(skip.unwrap_or_else(|| Skip::new(SkipReason::NotCollected, detail)));
    }
    let mut by_link: BTreeMap<String, BTreeMap<u32, Vec<String>>> = BTreeMap::new();
    let mut lines = Vec::new();
    for (device, port) in &ports {
        let mtu = port.active_mtu_bytes.unwrap_or_default();
        let name = format!("{}:{}", device.hca.name, port.number);
        lines.push(format!("{name} active_mtu {mtu}"));
        let link = format!("{:?}", port.link_layer);
        by_link
            .entry(link)
            .or_default()
            .entry(mtu)
            .or_default()
            .push(name);
    }
    let verbs = rdma.verbs.get()?;
    let seen = verbs.evidence(lines.iter().map(String::as_str));
    let Some(mixed) = by_link.values().find(|mtus| mtus.len() > 1) else {
        let detail = format!(
            "all {} ACTIVE ports of a kind use the same MTU",
            ports.len()
        );
        return Ok(vec![Draft::ok(detail).with([seen])]);
    };
    let parts: Vec<String> = mixed
        .iter()
        .map(|(mtu, names)| format!("{mtu} bytes on {}", names.join(", ")))
        .collect();
    let detail = format!("the active MTU differs: {}", parts.join("; "));
    let fix = "give the interfaces and switch ports of this fabric the same MTU";
    Ok(vec![Draft::warn(detail).with([seen]).fix(fix)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::{NOTHING, changed, hcas, verdict};
    use crate::report::Status;

    fn devinfo(mtus: [u32; 2]) -> String {
        let one = |n: usize| {
            format!(
                "hca_id: mlx5_{n}\n\ttransport: InfiniBand (0)\n\t\tport: 1\n\t\t\tstate: PORT_ACTIVE (4)\n\
                 \t\t\tactive_mtu: {} (5)\n\t\t\tlink_layer: InfiniBand\n",
                mtus[n]
            )
        };
        one(0) + &one(1)
    }

    #[test]
    fn ports_of_one_fabric_agree() {
        let with = |mtus| {
            let text = devinfo(mtus);
            let answers = hcas(&["4: ACTIVE", "4: ACTIVE"]);
            verdict(
                run,
                "decode",
                &changed(&answers, &[(&ask::IBV_DEVINFO, text.as_str())]),
            )
        };
        assert_eq!(with([4096, 4096]), Ok(Status::Ok));
        assert_eq!(with([4096, 1024]), Ok(Status::Warn));
    }

    #[test]
    fn what_was_not_read_is_not_judged() {
        assert!(verdict(run, "decode", NOTHING).is_err());
        assert!(verdict(run, "decode", &hcas(&["4: ACTIVE", "4: ACTIVE"])).is_err());
    }
}
