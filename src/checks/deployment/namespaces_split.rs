use crate::ask;
use crate::check;
use crate::checks::compare::{allows_nvlink, both, ends, has_mnnvl, names, visible_gpus};
use crate::checks::declare::{Draft, Outcome};
use crate::checks::{Container, DeploymentScope};
use crate::facts::pair::PairFacts;
use crate::judge::context::Tri;
use crate::observed::Skip;
use crate::report::SkipReason;
use std::collections::BTreeSet;

check! {
    /// Prefill and decode share a node and cannot share its NVLink.
    ///
    /// ## Why it matters
    /// Handles of CUDA IPC do not cross PID and IPC namespaces, and every pod has its own unless it takes the node's; nor do they
    /// reach a GPU that the pod does not see, and the device plugin shows each pod its own. Without
    /// handles of a multi-node fabric (IMEX) KV between two pods of one node goes through the network adapter and back, or,
    /// where UCX counts on `cuda_ipc`, by messages over TCP.
    ///
    /// ## Fix
    /// Place the roles on different nodes, or give both pods the node's namespaces (`hostPID`, `hostIPC`) and all its GPUs; on
    /// multi-node NVLink claim a ComputeDomain in both. A transfer (`--transfer`) tells what the pair uses.
    ///
    /// ## False alarms
    /// A pair that goes through its adapter at full rate is slower than NVLink and not broken. Transfers that are proven to have
    /// gone over `cuda_ipc` answer the question.
    ///
    /// ## Sources
    /// vllm-project/vllm#55906; openucx/ucx#11512, #11513; ai-dynamo/dynamo#622, #1072, #6370.
    "DEP019" "namespaces-split" on Deployment {
        subsystem: Deployment, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct End {
    node: String,
    /// It has the node's PID and IPC namespaces.
    joined: bool,
    /// The GPUs of the node that it sees, where it has the node's namespaces.
    gpus: BTreeSet<u32>,
    mnnvl: bool,
    /// It has an adapter to fall back to.
    rdma: bool,
}

fn run(scope: &DeploymentScope<'_>) -> Outcome {
    let words = |end: &End| {
        let own = if end.joined { "the node's" } else { "its own" };
        let sees = match end.joined {
            true => format!(", sees {}", seen(&end.gpus)),
            false => String::new(),
        };
        format!("node {}, {own} namespaces{sees}", end.node)
    };
    ends(
        scope,
        end,
        |(a, left), (b, right)| {
            if a.node != b.node
                || joined(a, b)
                || a.mnnvl && b.mnnvl
                || met_on_nvlink(scope, left, right)
            {
                return None;
            }
            let apart = match a.joined && b.joined {
                true => format!(
                    "and its PID and IPC namespaces, and do not see each other's GPUs ({} and {}); without",
                    seen(&a.gpus),
                    seen(&b.gpus)
                ),
                false => "with PID and IPC namespaces of their own and no".to_owned(),
            };
            let detail = format!(
                "{} and {} share node {} {apart} handles of a multi-node fabric{} cuda_ipc does not join them: KV {}",
                names(left),
                names(right),
                a.node,
                if a.joined && b.joined { "" } else { ", so" },
                if a.rdma && b.rdma {
                    "goes through the network adapter"
                } else {
                    "travels over TCP"
                }
            );
            Some(
                Draft::warn(detail)
                    .headline("prefill and decode share a node and cannot share its NVLink")
                    .minor(a.rdma && b.rdma)
                    .with([both(&ask::POD_SPEC, (left, &words(a)), (right, &words(b)))])
                    .fix(
                        "place the roles on different nodes, or give both pods hostPID and hostIPC and all GPUs of the node",
                    ),
            )
        },
        |(a, left), (b, right)| {
            let detail = match a.node == b.node {
                false => "the roles run on different nodes, where cuda_ipc is not needed",
                true if !joined(a, b) && met_on_nvlink(scope, left, right) => {
                    "the roles share a node, and their transfers went over cuda_ipc"
                }
                true => "the roles share a node and may share its NVLink",
            };
            Draft::ok(detail).with([both(&ask::POD_SPEC, (left, &words(a)), (right, &words(b)))])
        },
    )
}

/// Handles of CUDA IPC work between them: both have the node's namespaces, and each sees the GPUs of the other.
fn joined(a: &End, b: &End) -> bool {
    a.joined && b.joined && a.gpus == b.gpus
}

/// `GPUs 0, 1, 2, 3`.
fn seen(gpus: &BTreeSet<u32>) -> String {
    let all: Vec<String> = gpus.iter().map(u32::to_string).collect();
    match all.as_slice() {
        [one] => format!("GPU {one}"),
        all => format!("GPUs {}", all.join(", ")),
    }
}

/// Transfers between these were made, and every one of them is proven to have gone over CUDA IPC: what the namespaces say is
/// answered.
fn met_on_nvlink(
    scope: &DeploymentScope<'_>,
    left: &[&Container<'_>],
    right: &[&Container<'_>],
) -> bool {
    let named = |all: &[&Container<'_>], end: &str| all.iter().any(|c| c.place.pod == end);
    let between = |t: &&PairFacts| {
        let [a, b] = [&t.initiator, &t.target];
        named(left, a) && named(right, b) || named(left, b) && named(right, a)
    };
    let mut made = scope.record.transfers.iter().filter(between).peekable();
    made.peek().is_some() && made.all(|t| t.proven && t.lane.starts_with("cuda_ipc/"))
}

fn end(container: &Container<'_>) -> Result<End, Skip> {
    container.require_gpu()?;
    // Where NVLink is not wanted, or EFA has a rule of its own, the question does not arise.
    if container.context.efa == Tri::Yes || !allows_nvlink(container)? {
        return Err(Skip::not_applicable());
    }
    let pod = container.facts.pod.get()?;
    let Some(node) = container.place.node.clone() else {
        let detail = format!("the node of {} was not recorded", container.place.pod);
        return Err(Skip::new(SkipReason::NotCollected, detail));
    };
    let ports = container.facts.rdma.usable_ports();
    let joined = pod.host_pid && pod.host_ipc;
    Ok(End {
        node,
        joined,
        gpus: match joined {
            true => visible_gpus(container)?,
            false => BTreeSet::new(),
        },
        mnnvl: has_mnnvl(container)?,
        rdma: ports.is_ok_and(|ports| !ports.is_empty()),
    })
}

#[cfg(test)]
mod tests {
    use crate::ask;
    use crate::checks::deployment::nvlink_domains_differ::tests::{ONE, RDMA, rack};
    use crate::checks::testing::{Answers, Fleet, changed};
    use crate::checks::transfer::kv_transfer::tests::pair;
    use crate::facts::pair::PairFacts;
    use crate::report::Status::{Ok, Skipped, Warn};

    const BOARD: &str = "00000000-0000-0000-0000-000000000000";

    #[test]
    fn table_of_statuses() {
        let own = "host-ipc: false\nhost-pid: false\n";
        let joined = "host-ipc: true\nhost-pid: true\n";
        let with = |answers: Answers, spec: &str| changed(&answers, &[(&ask::POD_SPEC, spec)]);
        let board = |spec: &str| with(rack(BOARD, RDMA, false), spec);
        let off = with(rack(BOARD, "rc,cuda_copy", false), own);
        let unread: Answers = board(own)
            .into_iter()
            .filter(|(a, _)| a.id != ask::POD_SPEC.id)
            .collect();
        for (what, answers, nodes, wanted) in [
            ("apart", board(own), ["a", "b"], vec![Ok]),
            ("together", board(own), ["a", "a"], vec![Warn]),
            (
                "with the node's namespaces",
                board(joined),
                ["a", "a"],
                vec![Ok],
            ),
            (
                "IPC alone",
                board("host-ipc: true\nhost-pid: false\n"),
                ["a", "a"],
                vec![Warn],
            ),
            (
                "with fabric handles",
                with(rack(ONE, RDMA, true), own),
                ["a", "a"],
                vec![Ok],
            ),
            ("NVLink is not wanted", off, ["a", "a"], vec![]),
            ("not read", unread, ["a", "a"], vec![Skipped]),
        ] {
            let pods = [
                ("prefill", answers.as_slice()),
                ("decode", answers.as_slice()),
            ];
            let fleet = Fleet::of(&pods).on(&nodes);
            assert_eq!(fleet.statuses("namespaces-split"), wanted, "{what}");
        }
    }

    #[test]
    fn each_must_see_the_gpus_of_the_other() {
        let joined = "host-ipc: true\nhost-pid: true\n";
        let sees = |numbers: &[u32]| {
            let nodes: String = numbers
                .iter()
                .map(|n| format!("/dev/nvidia{n}: char rw\n"))
                .chain(["/dev/nvidiactl: char rw\n".to_owned()])
                .collect();
            changed(
                &rack(BOARD, RDMA, false),
                &[(&ask::POD_SPEC, joined), (&ask::DEV_GPU, &nodes)],
            )
        };
        let all: Vec<u32> = (0..8).collect();
        for (one, other, wanted) in [
            (&all[..], &all[..], vec![Ok]),
            (&all[..4], &all[4..], vec![Warn]),
            (&all[..4], &all[..], vec![Warn]),
            (&[], &all[..], vec![Skipped]),
        ] {
            let (one, other) = (sees(one), sees(other));
            let pods = [("prefill", one.as_slice()), ("decode", other.as_slice())];
            let fleet = |nodes: &[&str]| Fleet::of(&pods).on(nodes);
            let found = fleet(&["a", "a"]);
            assert_eq!(found.statuses("namespaces-split"), wanted);
            if wanted == [Warn] {
                let said = found.findings("namespaces-split").remove(0).detail;
                let words = "do not see each other's GPUs (GPUs 0, 1, 2, 3 and GPUs";
                assert!(said.contains(words), "{said}");
                assert_eq!(fleet(&["a", "b"]).statuses("namespaces-split"), [Ok]);
            }
        }
    }

    #[test]
    fn a_transfer_over_cuda_ipc_answers_what_the_namespaces_leave_open() {
        let own = "host-ipc: false\nhost-pid: false\n";
        let answers = changed(&rack(BOARD, RDMA, false), &[(&ask::POD_SPEC, own)]);
        let pods = [
            ("prefill", answers.as_slice()),
            ("decode", answers.as_slice()),
        ];
        for (lane, proven, status) in [
            ("cuda_ipc/cuda zero-copy", true, Ok),
            ("cuda_ipc/cuda zero-copy", false, Warn),
            ("rc_mlx5/mlx5_0:1 zero-copy", true, Warn),
        ] {
            let fleet = Fleet::of(&pods).on(&["a", "a"]).record(|record| {
                record.transfers = vec![PairFacts {
                    proven,
                    initiator: "decode-1".to_owned(),
                    target: "prefill-0".to_owned(),
                    lane: lane.to_owned(),
                    ..pair(Ok, None)
                }];
            });
            assert_eq!(
                fleet.statuses("namespaces-split"),
                [status],
                "{lane} {proven}"
            );
        }
    }
}
