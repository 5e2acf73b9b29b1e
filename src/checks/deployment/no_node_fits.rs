use crate::check;
use crate::checks::DeploymentScope;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::words::{counted, part};
use crate::hosting::Cluster;
use crate::manifest::workload::Worker;
use crate::observed::Skip;
use crate::snapshot::Nodes;

check! {
    /// No node of the cluster offers what the pods of a worker ask for.
    ///
    /// ## Why it matters
    /// A pod that asks for a device-plugin resource which no node has stays Pending for ever: the plugin is not installed on
    /// these nodes, publishes the resource under another name, or has fewer devices than are asked for. Where such pods run
    /// all the same, they were placed before the node changed, and will not come back after a restart. Seen with `--nodes`:
    /// the allocatable GPUs and RDMA resources of nodes that take pods. What other pods hold, taints, selectors and nodes
    /// that an autoscaler could add are not looked at.
    ///
    /// ## Fix
    /// Ask for a resource that the nodes have (`check --nodes` lists them), or install the RDMA device plugin on the nodes
    /// that are meant: `kubectl get nodes -o json` shows `status.allocatable`.
    "DEP050" "no-node-fits" on Deployment {
        subsystem: Deployment, kv_path: Off, worst: Fail, causes: &["DEP002"], since: "0.1.0",
    }
}

fn run(scope: &DeploymentScope<'_>) -> Outcome {
    let nodes = match &scope.record.nodes {
        // Nobody asked.
        None => return Err(Skip::not_applicable()),
        Some(Nodes::Missing { reason, detail }) => return Err(Skip::new(*reason, detail.clone())),
        Some(Nodes::Known(nodes)) => nodes,
    };
    let Some(cluster) = Cluster::of(scope.record) else {
        return Err(Skip::not_applicable());
    };
    let asks = |w: &&Worker| w.gpus.is_some() || !w.rdma_resources.is_empty();
    let workers: Vec<&Worker> = scope.workload.workers.iter().filter(asks).collect();
    if workers.is_empty() {
        return Err(Skip::not_applicable());
    }
    let without: Vec<&&Worker> = workers.iter().filter(|w| cluster.places(w) == 0).collect();
    if without.is_empty() {
        let each: Vec<String> = workers
            .iter()
            .map(|w| {
                let could = ("could take", "could take");
                let who = part(cluster.places(w), nodes.len(), "node", could);
                format!("{who} {}", w.called())
            })
            .collect();
        return Ok(vec![Draft::ok(each.join(", "))]);
    }
    Ok(without
        .into_iter()
        .map(|worker| draft(scope, &cluster, worker, nodes.len()))
        .collect())
}

fn draft(
    scope: &DeploymentScope<'_>,
    cluster: &Cluster<'_>,
    worker: &Worker,
    nodes: usize,
) -> Draft {
    const REASONS: usize = 3;
    let lacks = cluster.lacks(worker);
    let mut reasons: Vec<String> = lacks
        .iter()
        .take(REASONS)
        .map(|(lack, n)| match n {
            1 => format!("1 node {lack}"),
            _ => format!("{n} nodes: each {lack}"),
        })
        .collect();
    if lacks.len() > REASONS {
        reasons.push(counted(lacks.len() - REASONS, "more reason"));
    }
    let runs = scope.containers.iter().any(|c| {
        let component = c.facts.pod.known().and_then(|pod| pod.component.as_deref());
        c.place.node.is_some() && component == Some(worker.name.as_str())
    });
    let (mut detail, called) = (String::new(), worker.called());
    if nodes == 0 {
        detail.push_str("the cluster shows no node at all");
    } else {
        detail.push_str(&match nodes {
            1 => format!("the only node could not take a pod of {called}: "),
            _ => format!("none of {nodes} nodes could take a pod of {called}: "),
        });
        detail.push_str(&reasons.join("; "));
    }
    let draft = if runs {
        detail.push_str(
            ". Pods of it run, so the nodes changed since, and a restarted pod would stay Pending",
        );
        Draft::warn(detail)
    } else {
        Draft::fail(detail)
    };
    draft
        .headline(format!("no node offers what {called} asks for"))
        .fix("ask for resources that the nodes have, or install the device plugin that publishes these")
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::{Fleet, NOTHING};
    use crate::report::SkipReason;
    use crate::report::Status::{self, Fail, Ok, Skipped, Warn};
    use crate::snapshot::{Node, Nodes};

    const POD: &str = "command: [python3, -m, dynamo.vllm]\nresources: {limits: {nvidia.com/gpu: \"8\", rdma/ib: \"8\"}}";

    fn node(allocatable: &[(&str, &str)], schedulable: bool) -> Node {
        Node {
            schedulable,
            allocatable: allocatable
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
            ..Node::default()
        }
    }

    fn known(nodes: &[Node]) -> Option<Nodes> {
        let named = nodes.iter().enumerate();
        Some(Nodes::Known(
            named
                .map(|(n, node)| (format!("n{n}"), node.clone()))
                .collect(),
        ))
    }

    #[test]
    fn table_of_statuses() {
        let good = node(&[("nvidia.com/gpu", "8"), ("rdma/ib", "8")], true);
        let cordoned = node(&[("nvidia.com/gpu", "8"), ("rdma/ib", "8")], false);
        let other_name = node(&[("nvidia.com/gpu", "8"), ("rdma/hca_a", "1k")], true);
        let few = node(&[("nvidia.com/gpu", "8"), ("rdma/ib", "4")], true);
        let denied = Some(Nodes::Missing {
            reason: SkipReason::Denied,
            detail: "no".to_owned(),
        });
        let rows: Vec<(&str, Option<Nodes>, Vec<Status>)> = vec![
            ("one fits", known(&[few.clone(), good]), vec![Ok]),
            ("cordoned", known(&[cordoned]), vec![Warn, Warn]),
            ("another name", known(&[other_name]), vec![Warn, Warn]),
            ("too few", known(&[few]), vec![Warn, Warn]),
            ("no node", known(&[]), vec![Warn, Warn]),
            ("not allowed", denied, vec![Skipped]),
            ("nobody asked", None, vec![]),
        ];
        for (what, nodes, wanted) in rows {
            let pods = [("prefill", NOTHING), ("decode", NOTHING)];
            let component = |role: &str| (&crate::ask::POD_SPEC, format!("component: {role}\n"));
            let (p, d) = ([component("prefill")], [component("decode")]);
            let running = Fleet::of(&[("prefill", p.as_slice()), ("decode", d.as_slice())]);
            let with = |fleet: Fleet| {
                fleet
                    .body("prefill", POD)
                    .body("decode", POD)
                    .record(|record| record.nodes = nodes.clone())
                    .statuses("no-node-fits")
            };
            assert_eq!(with(running), wanted, "{what}");
            // Without a pod of these components in place it is a fail.
            let graver = wanted.iter().map(|s| if *s == Warn { Fail } else { *s });
            assert_eq!(
                with(Fleet::of(&pods)),
                graver.collect::<Vec<_>>(),
                "{what}, pending"
            );
        }
    }
}
