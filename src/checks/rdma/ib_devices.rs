use crate::check;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::words::{counted, span};
use crate::checks::{Container, asked};
use crate::facts::sysfs::Backing;
use crate::observed::Skip;
use crate::report::SkipReason;

check! {
    /// The container can open no RDMA device.
    ///
    /// `/sys/class/infiniband` shows the HCAs of the node, also to containers that may not use them. What counts is a device
    /// node `/dev/infiniband/uverbsN` inside the container that opens, and hardware behind it: `rxe` and `siw` put verbs
    /// over an ordinary interface.
    ///
    /// ## Why it matters
    /// Without a device UCX and NIXL fall back to TCP without a word in the engine's log: the deployment answers, and
    /// the first token takes minutes instead of half a second.
    ///
    /// ## Fix
    /// Request the RDMA resource of your device plugin in the worker's container (`rdma/ib`, `rdma/shared_ib`,
    /// `vpc.amazonaws.com/efa`), or claim the device through DRA, and add `IPC_LOCK`.
    ///
    /// ## False alarms
    /// Workers of one node that share its PID and IPC namespaces move KV over its NVLink: where all of a deployment do, and ask
    /// for no RDMA, none is demanded.
    ///
    /// ## Sources
    /// Linux `drivers/infiniband/core/sysfs.c`; rdma-system(8); NVIDIA/nccl#451; LMCache/LMCache#2593.
    "RDMA001" "ib-devices" on Container {
        subsystem: Rdma, kv_path: Required, worst: Fail, causes: &["RDMA002", "K8S001"], since: "0.1.0",
    }
}

fn run(container: &Container<'_>) -> Outcome {
    if container.needs_no_rdma() {
        return Err(Skip::not_applicable());
    }
    let rdma = &container.facts.rdma;
    let devices = rdma.devices.get()?;
    let names: Vec<&str> = devices.iter().map(|d| d.hca.name.as_str()).collect();
    if devices.is_empty() {
        let who = if container.is_pasted() {
            devices.ask.shown_as
        } else {
            "the node"
        };
        let detail =
            format!("{who} shows no RDMA device, so between nodes KV can only travel over TCP");
        let fix = "schedule the worker on a node with RDMA devices, and request them";
        let seen = devices.evidence(["no device"]);
        let headline = format!("{who} shows no RDMA device");
        return Ok(vec![
            container
                .broken(detail)
                .with([seen])
                .fix(fix)
                .headline(headline),
        ]);
    }
    let granted = rdma.granted.get()?;
    let own = rdma.own()?;
    let held: Vec<&str> = own.iter().map(|d| d.hca.name.as_str()).collect();
    let evidence = [
        devices.evidence([names.join(" ").as_str()]),
        granted.evidence([if held.is_empty() {
            "no uverbs node that opens".to_owned()
        } else {
            held.join(" ")
        }
        .as_str()]),
    ];
    if own.is_empty() {
        let detail = format!(
            "the node has {} ({}), and {} can open none of them, so between nodes KV travels over TCP",
            counted(names.len(), "RDMA device"),
            span(&names),
            container.called()
        );
        let headline = format!("{} can open no RDMA device", container.called());
        let fix = asked::rdma(
            container,
            "request the RDMA resource of the node in this worker's container (for example `rdma/ib`)",
        );
        return Ok(vec![
            container
                .broken(detail)
                .with(evidence)
                .fix(fix)
                .headline(headline),
        ]);
    }
    let of = |backing| own.iter().filter(|d| d.backing == backing).count();
    let (hardware, software) = (of(Backing::Hardware), of(Backing::Software));
    if hardware > 0 {
        let detail = format!(
            "{} of the node's {} can be opened",
            own.len(),
            counted(names.len(), "RDMA device")
        );
        return Ok(vec![Draft::ok(detail).with(evidence)]);
    }
    if software < own.len() {
        let detail = format!(
            "whether {} is hardware or verbs over an ordinary interface was not seen",
            held.join(", ")
        );
        return Err(Skip::new(SkipReason::NotCollected, detail));
    }
    let detail = format!(
        "{} can be opened, which is verbs in software over an ordinary interface: no RDMA hardware",
        held.join(", ")
    );
    let fix = "schedule the worker on a node with RDMA hardware";
    Ok(vec![Draft::warn(detail).with(evidence).fix(fix)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::{self, Ask};
    use crate::checks::testing::{changed, container, hca, outcome, pasted, verdict};
    use crate::report::Status;

    #[test]
    fn listing_is_not_access() {
        let none: &[(&Ask, &str)] = &[(&ask::RDMA_PORTS, "")];
        assert_eq!(verdict(run, "decode", none), Ok(Status::Fail));
        assert_eq!(verdict(run, "kv_both", none), Ok(Status::Fail));
        // A bare host or an aggregated worker moves no KV.
        assert_eq!(verdict(run, "agg", none), Ok(Status::Warn));
        let healthy = hca("mlx5_0", "4: ACTIVE", "open");
        assert_eq!(verdict(run, "decode", &healthy), Ok(Status::Ok));
        for refusal in ["EPERM", "EACCES", "ENODEV", "failed"] {
            let refused = hca("mlx5_0", "4: ACTIVE", refusal);
            assert_eq!(
                verdict(run, "decode", &refused),
                Ok(Status::Fail),
                "{refusal}"
            );
        }
        let hidden = changed(&healthy, &[(&ask::DEV_INFINIBAND, "rdma_cm")]);
        assert_eq!(verdict(run, "decode", &hidden), Ok(Status::Fail));
        assert_eq!(verdict(run, "agg", &hidden), Ok(Status::Warn));
    }

    #[test]
    fn verbs_in_software_are_no_rdma() {
        let ports = "/sys/class/infiniband/mlx5_0/ports/1/state: 4: ACTIVE";
        let parent = "/sys/class/infiniband/mlx5_0/parent: eth0";
        let healthy = hca("mlx5_0", "4: ACTIVE", "open");
        let soft = changed(
            &healthy,
            &[(&ask::RDMA_PORTS, ports), (&ask::RDMA_ATTRIBUTES, parent)],
        );
        assert_eq!(verdict(run, "decode", &soft), Ok(Status::Warn));
    }

    #[test]
    fn an_unread_answer_is_never_ok() {
        let healthy = hca("mlx5_0", "4: ACTIVE", "open");
        for ask in [
            &ask::RDMA_PORTS,
            &ask::DEV_INFINIBAND,
            &ask::DEV_INFINIBAND_OPEN,
            &ask::RDMA_UVERBS,
            &ask::RDMA_ATTRIBUTES,
        ] {
            let rest: Vec<_> = healthy
                .iter()
                .filter(|(a, _)| a.id != ask.id)
                .cloned()
                .collect();
            let skip = outcome(run, &container("decode", &rest)).unwrap_err();
            assert_eq!(skip.reason, SkipReason::NotCollected, "{}", ask.id);
        }
    }

    #[test]
    fn no_pasted_list_vouches_for_itself() {
        let devinfo = "hca_id: mlx5_0\n\ttransport: InfiniBand (0)\n\tvendor_id: 0x02c9\n\t\tport: 1\n\t\t\tstate: PORT_ACTIVE (4)\n";
        let ibstat = "CA 'mlx5_0'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Active\n";
        for (ask, text) in [(&ask::IBV_DEVINFO, devinfo), (&ask::IBSTAT, ibstat)] {
            for snapshot in [pasted(&[(ask, text)]), container("decode", &[(ask, text)])] {
                let skip = outcome(run, &snapshot).unwrap_err();
                assert_eq!(skip.reason, SkipReason::NotCollected, "{}", ask.id);
            }
        }
        // What opens nothing says so itself.
        let none = pasted(&[(&ask::IBV_DEVINFO, "No IB devices found\n")]);
        let drafts = outcome(run, &none).unwrap();
        assert_eq!(drafts[0].status, Status::Fail);
        assert!(
            drafts[0]
                .detail
                .starts_with("ibv_devinfo shows no RDMA device")
        );
    }

    #[test]
    fn a_table_without_a_gid_lists_no_devices() {
        let table = "DEV\tPORT\tINDEX\tGID\nn_gids_found=0\n";
        let said = outcome(run, &pasted(&[(&ask::SHOW_GIDS, table)]));
        assert!(said.is_err());
    }
}
