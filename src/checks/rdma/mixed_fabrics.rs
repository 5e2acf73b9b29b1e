use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::pasting;
use crate::checks::pinning::{self, mixture};
use crate::facts::container::rdma::port_line;
use crate::judge::selection::Selection;
use crate::observed::Skip;
use crate::report::SkipReason;

check! {
    /// The container has ACTIVE ports of several fabrics, and nothing chooses between them.
    ///
    /// ## Why it matters
    /// UCX takes the ports with the best estimate next to each GPU. A port of the storage or management fabric that is just as
    /// near may be taken, and the peer is not on it: NIXL_ERR_REMOTE_DISCONNECT at the first transfer. NCCL connects
    /// InfiniBand with RoCE and gives up.
    ///
    /// ## Fix
    /// Name the ports of the KV fabric in UCX_NET_DEVICES (and NCCL_IB_HCA), or grant the container only those.
    ///
    /// ## False alarms
    /// Ports of one kind, rate and subnet manager are one fabric as far as one node can see; unset is then the best setting.
    ///
    /// ## Sources
    /// ai-dynamo/dynamo#10852 (B200/B300 with BlueField ports), #10202; NCCL v2.28.9-1 `net_ib.cc` ("Try selecting NICs of
    /// only one link type").
    "RDMA013" "mixed-fabrics" on Container {
        subsystem: Rdma, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

fn run(container: &Container<'_>) -> Outcome {
    let facts = &container.facts;
    let ports = facts.rdma.usable_ports()?;
    if ports.len() < 2 {
        return Err(Skip::not_applicable());
    }
    let ucx_value = match facts.process.value("UCX_NET_DEVICES") {
        Err(skip) if container.is_pasted() && skip.reason == SkipReason::NotCollected => {
            return without_environment(container, skip);
        }
        value => value?,
    };
    let ucx = Selection::ucx(ucx_value, &container.context);
    let nccl = Selection::nccl(facts.process.value("NCCL_IB_HCA")?);
    let devices = facts.rdma.devices.get()?;
    let mut drafts = Vec::new();
    for (variable, selection) in [("UCX_NET_DEVICES", ucx), ("NCCL_IB_HCA", nccl)] {
        let chosen: Vec<_> = ports
            .iter()
            .filter(|(device, port)| {
                selection
                    .as_ref()
                    .is_none_or(|s| s.selects(&device.hca.name, port.number))
            })
            .collect();
        if chosen
            .iter()
            .any(|(_, port)| port.link_layer.is_none() || port.rate.is_none())
        {
            return Err(
                container.not_shown("link layer or rate of some ports was not seen", "ibstat")
            );
        }
        let Some(what) = mixture(&chosen, variable == "UCX_NET_DEVICES") else {
            continue;
        };
        let said = match &selection {
            None => format!("{variable} is unset or all"),
            Some(_) => format!("{variable} selects both"),
        };
        let lines: Vec<String> = chosen.iter().map(|(d, p)| port_line(d, p)).collect();
        let seen = devices.evidence(lines.iter().map(String::as_str));
        let fix = format!("name the ports of one fabric in {variable}, those next to the GPUs");
        let mut draft = Draft::warn(format!("{what}, and {said}"))
            .with([seen])
            .fix(fix);
        if variable == "UCX_NET_DEVICES" {
            let ports = pinning::among(container, &chosen);
            let lines = ports.map(|ports| pasting::entry(variable, &ports));
            draft.paste = lines.map(|lines| container.for_container(&lines));
        }
        drafts.push(draft);
    }
    if drafts.is_empty() {
        let lines: Vec<String> = ports.iter().map(|(d, p)| port_line(d, p)).collect();
        let seen = devices.evidence(lines.iter().map(String::as_str));
        drafts.push(Draft::ok("the ports that are used are of one kind and rate").with([seen]));
    }
    Ok(drafts)
}

/// Ports of one kind are fine whatever the variables say; of several it depends on them.
fn without_environment(container: &Container<'_>, skip: Skip) -> Outcome {
    let rdma = &container.facts.rdma;
    let ports = rdma.usable_ports()?;
    let all: Vec<_> = ports.iter().collect();
    if let Some(what) = mixture(&all, true) {
        let detail = format!(
            "{what}, and whether UCX_NET_DEVICES names the right ones is not known: {}",
            skip.detail
        );
        return Err(Skip { detail, ..skip });
    }
    if all
        .iter()
        .any(|(_, port)| port.link_layer.is_none() || port.rate.is_none())
    {
        return Err(container.not_shown("link layer or rate of some ports was not seen", "ibstat"));
    }
    let lines: Vec<String> = ports.iter().map(|(d, p)| port_line(d, p)).collect();
    let seen = rdma
        .devices
        .get()?
        .evidence(lines.iter().map(String::as_str));
    let detail = "the ports that are shown are of one kind and rate";
    Ok(vec![Draft::ok(detail).with([seen])])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::{NOTHING, SHELL, changed, container, hcas, outcome, verdict};
    use crate::report::Status;

    #[test]
    fn two_fabrics_need_a_choice() {
        let with = |from: &str, to: &str, environment: &str| {
            let mut answers = hcas(&["4: ACTIVE", "4: ACTIVE"]);
            for (_, text) in &mut answers {
                *text = text.replacen(from, to, 1);
            }
            let answers = changed(&answers, &[(&ask::ENVIRONMENT, environment)]);
            verdict(run, "decode", &answers)
        };
        let ethernet = "link_layer: Ethernet";
        let infiniband = "link_layer: InfiniBand";
        assert_eq!(with("", "", SHELL), Ok(Status::Ok));
        assert_eq!(with(infiniband, ethernet, SHELL), Ok(Status::Warn));
        assert_eq!(
            with(infiniband, ethernet, "UCX_NET_DEVICES=mlx5_1:1"),
            Ok(Status::Warn)
        );
        let both = "UCX_NET_DEVICES=mlx5_1:1\nNCCL_IB_HCA==mlx5_1";
        assert_eq!(with(infiniband, ethernet, both), Ok(Status::Ok));
        assert_eq!(
            with("400 Gb/sec (4X NDR)", "100 Gb/sec (4X EDR)", SHELL),
            Ok(Status::Warn)
        );
        assert_eq!(with("sm_lid: 0x1", "sm_lid: 0x12", SHELL), Ok(Status::Warn));
        assert!(with(infiniband, "other: x", SHELL).is_err());
    }

    #[test]
    fn the_ports_behind_the_switches_of_the_gpus_are_named_to_paste() {
        let paste = |rate: &str, second: &str, virtual_machine: bool, more: &str| {
            let mut answers = hcas(&["4: ACTIVE", "4: ACTIVE"]);
            answers.push((&ask::ENVIRONMENT, SHELL.to_owned()));
            for (ask, text) in &mut answers {
                if ask.id == ask::RDMA_PORTS.id {
                    *text = text.replacen("400 Gb/sec (4X NDR)", rate, 1);
                }
            }
            let topo = format!(
                "\tGPU0\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n\
                 GPU0\t X \tSYS\t{second}\t0-55\t0\tN/A\n\
                 NIC0\tSYS\t X \tSYS\n\
                 NIC1\t{second}\tSYS\t X \n\n\
                 NIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_1\n"
            );
            let topo = match more {
                "" => topo,
                // A second GPU, which no port is next to.
                far => format!(
                    "\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n\
                     GPU0\t X \tNV18\tSYS\t{second}\t0-55\t0\tN/A\n\
                     GPU1\tNV18\t X \tSYS\t{far}\t0-55\t0\tN/A\n\
                     NIC0\tSYS\tSYS\t X \tSYS\n\
                     NIC1\t{second}\t{far}\tSYS\t X \n\n\
                     NIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_1\n"
                ),
            };
            if virtual_machine {
                answers.push((&ask::CPU, "hypervisor: yes".to_owned()));
            }
            answers.push((&ask::NVIDIA_SMI_TOPO, topo));
            let drafts = outcome(run, &container("decode", &answers)).unwrap();
            let draft = drafts.into_iter().find(|d| d.status == Status::Warn);
            draft.and_then(|d| d.paste)
        };
        let slow = "100 Gb/sec (4X EDR)";
        let lines = paste(slow, "PIX", false, "").unwrap();
        assert!(lines.ends_with("value: \"mlx5_1:1\""), "{lines}");
        assert!(
            lines.starts_with("# under the container of decode\nenv:\n"),
            "{lines}"
        );
        assert_eq!(paste(slow, "SYS", false, ""), None);
        // A topology that a hypervisor made up, and a GPU that would be left without a port.
        assert_eq!(paste(slow, "PIX", true, ""), None);
        assert_eq!(paste(slow, "PIX", false, "SYS"), None);
    }

    #[test]
    fn what_was_not_read_is_not_judged() {
        assert!(verdict(run, "decode", NOTHING).is_err());
        let answers = hcas(&["4: ACTIVE", "4: ACTIVE"]);
        assert!(verdict(run, "decode", &answers).is_err());
        assert_eq!(
            verdict(run, "decode", &hcas(&["4: ACTIVE"])),
            Err(Skip::not_applicable())
        );
    }
}
