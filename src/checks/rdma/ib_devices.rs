use crate::ask;
use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::snapshot::evidence;

check! {
    /// The container can open no RDMA device.
    ///
    /// `/sys/class/infiniband` shows the HCAs of the node, also to containers that may not use them. What counts is the
    /// device node `/dev/infiniband/uverbsN` inside the container.
    ///
    /// ## Why it matters
    /// Without a device UCX and NIXL fall back to TCP without a word in the engine's log: the deployment answers, and
    /// the first token takes minutes instead of half a second.
    ///
    /// ## Fix
    /// Request the RDMA resource of your device plugin in the worker's container (`rdma/ib`, `rdma/shared_ib`,
    /// `vpc.amazonaws.com/efa`), or claim the device through DRA, and add `IPC_LOCK`.
    ///
    /// ## Sources
    /// Linux `drivers/infiniband/core/sysfs.c`; rdma-system(8); NVIDIA/nccl#451.
    "RDMA001" "ib-devices" on Container {
        subsystem: Rdma, kv_path: Required, worst: Fail, causes: &["RDMA002", "K8S001"], since: "0.1.0",
    }
}

fn run(container: &Container<'_>) -> Outcome {
    let ports = container.rdma.ports.get()?;
    let granted = container.rdma.granted.get()?;
    let mut seen: Vec<&str> = ports.iter().map(|p| p.device.as_str()).collect();
    seen.dedup();
    let sysfs = evidence(&ask::RDMA_PORTS, [seen.join(" ").as_str()]);
    let held = granted
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(" ");
    let nodes = evidence(
        &ask::DEV_INFINIBAND,
        [if held.is_empty() {
            "no uverbs node"
        } else {
            held.as_str()
        }],
    );
    if !granted.is_empty() {
        let detail = format!(
            "{} of the node's {} RDMA devices can be opened",
            granted.len(),
            seen.len()
        );
        return Ok(vec![Draft::ok(detail).with([sysfs, nodes])]);
    }
    let (detail, fix) = if seen.is_empty() {
        (
            "the node shows no RDMA device, so KV can only travel over TCP".to_owned(),
            "schedule the worker on a node with RDMA devices, and request them",
        )
    } else {
        (
            format!(
                "the node has {} RDMA devices ({} to {}), but /dev/infiniband in the container holds no uverbs node \
                 of any of them, so KV travels over TCP",
                seen.len(),
                seen[0],
                seen[seen.len() - 1]
            ),
            "request the RDMA resource in this worker's container (for example `rdma/ib`), as its peer does",
        )
    };
    let draft = if container.moves_kv() {
        Draft::fail(detail)
    } else {
        Draft::warn(detail)
    };
    Ok(vec![draft.with([sysfs, nodes]).fix(fix)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::testing::{container, outcome};
    use crate::report::{SkipReason, Status};

    const PORT: &str = "/sys/class/infiniband/mlx5_0/ports/1/state: 4: ACTIVE";
    const OWNER: &str = "/sys/class/infiniband_verbs/uverbs0/ibdev: mlx5_0";

    #[test]
    fn listing_is_not_access() {
        let cases = [
            ("decode", PORT, "uverbs0\nrdma_cm", Status::Ok),
            ("decode", PORT, "rdma_cm", Status::Fail),
            ("decode", "", "", Status::Fail),
            // A bare host or an aggregated worker moves no KV.
            ("agg", PORT, "", Status::Warn),
        ];
        for (role, ports, nodes, status) in cases {
            let snapshot = container(
                role,
                &[
                    (&ask::RDMA_PORTS, ports),
                    (&ask::DEV_INFINIBAND, nodes),
                    (&ask::RDMA_UVERBS, OWNER),
                ],
            );
            let drafts = outcome(run, &snapshot).unwrap();
            assert_eq!(drafts[0].status, status, "{role} {ports:?} {nodes:?}");
        }
    }

    #[test]
    fn an_unread_answer_is_never_ok() {
        for left_out in 0..3 {
            let mut answers = vec![
                (&ask::RDMA_PORTS, PORT),
                (&ask::DEV_INFINIBAND, "uverbs0"),
                (&ask::RDMA_UVERBS, OWNER),
            ];
            answers.remove(left_out);
            let skip = outcome(run, &container("decode", &answers)).unwrap_err();
            assert_eq!(skip.reason, SkipReason::NotCollected);
        }
    }
}
