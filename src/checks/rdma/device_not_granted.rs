use crate::check;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::words::{counted, span};
use crate::checks::{Container, asked};
use crate::observed::Skip;

check! {
    /// The node has RDMA devices, and the container was given none of them, or may not open what it was given.
    ///
    /// ## Why it matters
    /// The kernel lists the node's devices to every container, so tools that only list them report success. UCX must open
    /// `/dev/infiniband/uverbsN`; without it KV travels over TCP.
    ///
    /// ## Fix
    /// Request the RDMA resource in this container; where the pod asks for it already, the device plugin or the container runtime
    /// of the node lost it. A node that is there and answers EPERM is closed by the device cgroup:
    /// it was mounted (hostPath) instead of granted. EACCES is its mode: the process is not root and not in its group.
    ///
    /// ## False alarms
    /// A pod that was given some of the node's devices is fine; that the others are listed means nothing. Of workers whose KV stays
    /// on NVLink of one node, and that ask for no RDMA, none is demanded.
    ///
    /// ## Sources
    /// rdma-system(8); NVIDIA/nccl#451, #1925; Mellanox/k8s-rdma-shared-dev-plugin#93; vllm-project/vllm#42075.
    "RDMA003" "device-not-granted" on Container {
        subsystem: Rdma, kv_path: Required, worst: Fail,
        causes: &["RDMA001", "RDMA004", "K8S001", "ENV006"], since: "0.1.0",
    }
}

fn run(container: &Container<'_>) -> Outcome {
    if container.needs_no_rdma() {
        return Err(Skip::not_applicable());
    }
    let rdma = &container.facts.rdma;
    let devices = rdma.devices.get()?;
    if devices.is_empty() {
        return Err(Skip::not_applicable());
    }
    let granted = rdma.granted.get()?;
    let refusals: Vec<String> = granted
        .refused
        .iter()
        .map(|(device, words)| format!("{device}: {words}"))
        .collect();
    let names: Vec<&str> = devices.iter().map(|d| d.hca.name.as_str()).collect();
    let seen = devices.evidence([names.join(" ").as_str()]);
    if !granted.devices.is_empty() {
        let held = granted.devices.iter().map(String::as_str);
        let ok = granted.evidence(held.chain(refusals.iter().map(String::as_str)));
        if refusals.is_empty() {
            let detail = format!(
                "every device that {} was given opens ({})",
                container.called(),
                granted.devices.len()
            );
            return Ok(vec![Draft::ok(detail).with([ok])]);
        }
        let detail = format!(
            "{} of the devices that were mounted into the container do not open ({})",
            refusals.len(),
            refusals.join(", ")
        );
        let fix =
            "request these devices as a resource instead of mounting them, or do not mount them";
        let draft = Draft::warn(detail).headline_of_detail();
        return Ok(vec![draft.with([ok]).fix(fix)]);
    }
    if !refusals.is_empty() {
        let shown = granted.evidence(refusals.iter().map(String::as_str));
        let detail = format!(
            "device nodes are in the container and none of them opens ({}), so KV travels over TCP",
            refusals.join(", ")
        );
        let fix = asked::rdma(
            container,
            "request the RDMA resource in this container, so that its device cgroup allows the nodes",
        );
        let fix = format!("{fix}; for EACCES run as root or give the group of the nodes");
        let headline = format!(
            "{} may open none of the RDMA devices that it was given",
            container.called()
        );
        let draft = container.broken(detail).headline(headline);
        return Ok(vec![draft.with([seen, shown]).fix(fix)]);
    }
    let nodes: Vec<&str> = granted.nodes.iter().map(String::as_str).collect();
    let holds = if nodes.is_empty() {
        "no uverbs node".to_owned()
    } else {
        format!("no uverbs node, only {}", nodes.join(" "))
    };
    let shown = granted.evidence([holds.as_str()]);
    let detail = format!(
        "the node has {} ({}), but /dev/infiniband of {} holds {holds} of any of them, so between nodes KV travels over TCP",
        counted(names.len(), "RDMA device"),
        span(&names),
        container.called()
    );
    let fix = asked::rdma(
        container,
        "request the RDMA resource of the node in this worker's container (for example `rdma/ib`)",
    );
    let headline = format!(
        "the node has RDMA devices, and {} was given none of them",
        container.called()
    );
    let draft = container.broken(detail).headline(headline);
    Ok(vec![draft.with([seen, shown]).fix(fix)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::{Answers, changed, container, hca, outcome, verdict};
    use crate::report::Status;

    #[test]
    fn a_node_must_be_there_and_open() {
        for (answer, role, status) in [
            ("open", "decode", Status::Ok),
            ("EPERM", "decode", Status::Fail),
            ("EACCES", "prefill", Status::Fail),
            ("EPERM", "agg", Status::Warn),
        ] {
            let answers = hca("mlx5_0", "4: ACTIVE", answer);
            assert_eq!(verdict(run, role, &answers), Ok(status), "{answer} {role}");
        }
        let healthy = hca("mlx5_0", "4: ACTIVE", "open");
        let hidden = changed(&healthy, &[(&ask::DEV_INFINIBAND, "rdma_cm")]);
        assert_eq!(verdict(run, "decode", &hidden), Ok(Status::Fail));
        // The verdict says which of the two it is.
        let said = |answers: &Answers| {
            let drafts = outcome(run, &container("decode", answers)).unwrap();
            drafts[0].headline.clone().unwrap()
        };
        assert!(said(&hidden).ends_with("was given none of them"));
        let closed = hca("mlx5_0", "4: ACTIVE", "EPERM");
        assert!(said(&closed).contains("may open none"), "{}", said(&closed));
        let two = [
            (&ask::DEV_INFINIBAND, "uverbs0\nuverbs1"),
            (&ask::DEV_INFINIBAND_OPEN, "uverbs0: open\nuverbs1: EPERM"),
            (
                &ask::RDMA_UVERBS,
                "/sys/class/infiniband_verbs/uverbs0/ibdev: mlx5_0\n/sys/class/infiniband_verbs/uverbs1/ibdev: mlx5_1",
            ),
        ];
        let partial = changed(&healthy, &two);
        assert_eq!(verdict(run, "decode", &partial), Ok(Status::Warn));
        // Some of the node's devices are all that this pod was to have.
        let more = "/sys/class/infiniband/mlx5_0/ports/1/state: 4: ACTIVE\n/sys/class/infiniband/mlx5_1/ports/1/state: 4: ACTIVE";
        let some = changed(&healthy, &[(&ask::RDMA_PORTS, more)]);
        assert_eq!(verdict(run, "decode", &some), Ok(Status::Ok));
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
        let none = [(&ask::RDMA_PORTS, "")];
        assert_eq!(verdict(run, "decode", &none), Err(Skip::not_applicable()));
    }
}
