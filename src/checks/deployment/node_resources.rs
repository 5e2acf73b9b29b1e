use crate::ask;
use crate::check;
use crate::checks::compare::settle;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::{Container, DeploymentScope};
use crate::facts::container::pod::Pod;
use crate::judge::context::Tri;
use crate::manifest::is_rdma;
use crate::observed::Skip;
use crate::report::{Evidence, EvidenceSource};
use crate::snapshot::{Node, Nodes};
use std::collections::BTreeMap;

check! {
    /// What a worker asks for and what its node offers do not fit.
    ///
    /// ## Why it matters
    /// A node may offer RDMA devices to whoever asks, and a pod that does not ask gets none: KV travels over TCP beside idle
    /// adapters. A node that lost its device plugin takes no further worker, and one that runs there does not come back.
    ///
    /// ## Fix
    /// Ask for the resource that the nodes offer, by its very name. Where nodes should offer it and do not, look at the pods of
    /// the device plugin on them.
    ///
    /// ## False alarms
    /// Workers that reach their devices in another way (DRA, host devices, multi-node NVLink) need no such resource.
    ///
    /// ## Sources
    /// Kubernetes, `status.allocatable` of a node; device plugins.
    "DEP011" "node-resources" on Deployment {
        subsystem: Deployment, kv_path: Supporting, worst: Fail,
        causes: &["RDMA001", "RDMA002", "RDMA003", "K8S001", "K8S005"], since: "0.1.0",
    }
}

fn run(scope: &DeploymentScope<'_>) -> Outcome {
    scope.require_kv()?;
    let (mut drafts, mut unseen, mut fits) = (Vec::new(), None, None);
    for container in scope.containers.iter().filter(|c| c.moves_kv()) {
        match judged(scope, container) {
            Ok(Some(draft)) => drafts.push(draft.about(container.place)),
            Ok(None) => fits = fits.or(Some(*container)),
            Err(skip) if skip == Skip::not_applicable() => {}
            Err(skip) => unseen = unseen.or(Some(skip)),
        }
    }
    let fine = fits.map(|container| {
        let asked = container.facts.pod.known().map(asked).unwrap_or_default();
        Draft::ok("the nodes offer what the workers ask for").with([crate::snapshot::evidence(
            &ask::POD_SPEC,
            [words(&asked).as_str()],
        )])
    });
    settle(drafts, unseen, fine)
}

fn judged(scope: &DeploymentScope<'_>, container: &Container<'_>) -> Result<Option<Draft>, Skip> {
    let pod = container.facts.pod.get()?;
    let asked = asked(pod);
    // What keeps a pod from every node is seen over all nodes together.
    if container.place.node.is_none() {
        return Err(Skip::not_applicable());
    }
    let node = scope.node(container)?;
    let offered = offered(node);
    for (name, amount) in &asked {
        let has = offered.get(name).copied().unwrap_or_default();
        if has >= *amount {
            continue;
        }
        // What no node offers is told of the whole cluster.
        if !offered_anywhere(scope, name, *amount) {
            return Err(Skip::not_applicable());
        }
        let offers = if has == 0 {
            format!("its node offers no {name}")
        } else {
            format!("its node offers {has} of it")
        };
        let detail = format!("the pod asks for {name} ({amount}), and {offers}");
        return Ok(Some(
            Draft::fail(detail)
                .headline(format!("a node has no {name} for its worker"))
                .with([told(container, &offered)])
                .fix(format!(
                    "look at the device plugin that offers {name} on the node (its pods, its log), or ask for what the nodes offer"
                )),
        ));
    }
    let idle = !offered.is_empty() && asked.is_empty();
    if !idle || container.context.mnnvl == Tri::Yes {
        return Ok(None);
    }
    // The devices may have come in another way.
    if !container.facts.rdma.own()?.is_empty() {
        return Ok(None);
    }
    if container.context.mnnvl == Tri::Unknown && !pod.claims.is_empty() {
        container.facts.gpu.fabric.get()?;
        container.facts.gpu.imex_channels()?;
    }
    let name = offered.keys().next().map_or("rdma/ib", String::as_str);
    let count = match (name.contains("shared"), offered.get(name)) {
        (false, Some(count)) => *count,
        _ => 1,
    };
    let detail = format!(
        "the node offers {}, and the pod asks for none of it and may open no RDMA device",
        words(&offered)
    );
    let lines = format!(
        "resources:\n  limits:\n    {name}: \"{count}\"\nsecurityContext:\n  capabilities:\n    add: [IPC_LOCK]"
    );
    Ok(Some(
        Draft::fail(detail)
            .headline("the node offers RDMA devices and the worker does not ask for them")
            .with([told(container, &offered)])
            .fix(format!("request {name} for the worker, and add IPC_LOCK"))
            .paste(scope.for_container(container, &lines)),
    ))
}

/// Some node offers as much.
fn offered_anywhere(scope: &DeploymentScope<'_>, name: &str, amount: u64) -> bool {
    let Some(Nodes::Known(nodes)) = &scope.record.nodes else {
        return false;
    };
    let of = |node: &Node| offered(node).get(name).copied().unwrap_or_default();
    nodes.values().any(|node| of(node) >= amount)
}

fn asked(pod: &Pod) -> BTreeMap<String, u64> {
    counted(&pod.limits)
}

fn offered(node: &Node) -> BTreeMap<String, u64> {
    counted(&node.allocatable)
}

/// RDMA resources of which there are some. GKE counts addresses beside its networks.
fn counted(all: &BTreeMap<String, String>) -> BTreeMap<String, u64> {
    all.iter()
        .filter(|(name, _)| is_rdma(name) && !name.ends_with(".IP"))
        .filter_map(|(name, amount)| {
            let amount = crate::manifest::quantity::bytes(amount)?;
            (amount > 0).then(|| (name.clone(), amount))
        })
        .collect()
}

fn words(all: &BTreeMap<String, u64>) -> String {
    let all: Vec<String> = all
        .iter()
        .map(|(name, n)| format!("{name} ({n})"))
        .collect();
    match all.is_empty() {
        true => "no RDMA resource".to_owned(),
        false => all.join(", "),
    }
}

fn told(container: &Container<'_>, what: &BTreeMap<String, u64>) -> Evidence {
    let node = container.place.node.as_deref().unwrap_or("no node");
    Evidence {
        source: EvidenceSource::Snapshot,
        path: None,
        line: None,
        column: None,
        ask: Some(format!("status.allocatable of {node}").into()),
        excerpt: words(what),
    }
}

#[cfg(test)]
mod tests {
    use crate::ask;
    use crate::checks::testing::{Answers, Fleet, changed, hcas};
    use crate::report::SkipReason;
    use crate::report::Status::{self, Fail, Ok, Skipped};
    use crate::snapshot::{Node, Nodes};

    fn node(name: &str, offers: &[(&str, &str)]) -> (String, Node) {
        let allocatable = offers
            .iter()
            .map(|(n, q)| ((*n).to_owned(), (*q).to_owned()));
        let node = Node {
            schedulable: true,
            allocatable: allocatable.collect(),
            ..Node::default()
        };
        (name.to_owned(), node)
    }

    fn fleet(answers: &Answers, spec: &str, offers: &[(&str, &str)]) -> Fleet {
        let pod = changed(answers, &[(&ask::POD_SPEC, spec)]);
        let spare = [("rdma/ib", "8")];
        let nodes = [
            node("node-0", offers),
            node("node-1", offers),
            node("spare", &spare),
        ];
        Fleet::of(&[("prefill", pod.as_slice()), ("decode", pod.as_slice())])
            .record(|record| record.nodes = Some(Nodes::Known(nodes.into())))
    }

    const ASKS: &str = "limit: nvidia.com/gpu=8\nlimit: rdma/ib=8\nready: true\n";
    const ASKS_NONE: &str = "limit: nvidia.com/gpu=8\nready: true\n";

    fn none() -> Answers {
        vec![
            (&ask::RDMA_PORTS, String::new()),
            (&ask::DEV_INFINIBAND, String::new()),
        ]
    }

    #[test]
    fn table_of_statuses() {
        let ib = hcas(&["4: ACTIVE"]);
        let offers = [("nvidia.com/gpu", "8"), ("rdma/ib", "8")];
        let cases: Vec<(&str, Fleet, Vec<Status>)> = vec![
            ("fits", fleet(&ib, ASKS, &offers), vec![Ok]),
            (
                "not offered",
                fleet(&ib, ASKS, &offers[..1]),
                vec![Fail, Fail],
            ),
            (
                "too few",
                fleet(&ib, ASKS, &[("rdma/ib", "4")]),
                vec![Fail, Fail],
            ),
            (
                "none left",
                fleet(&ib, ASKS, &[("rdma/ib", "0")]),
                vec![Fail, Fail],
            ),
            (
                "not asked for",
                fleet(&none(), ASKS_NONE, &offers),
                vec![Fail, Fail],
            ),
            (
                "has it in another way",
                fleet(&ib, ASKS_NONE, &offers),
                vec![Ok],
            ),
            (
                "nothing on either side",
                fleet(&none(), ASKS_NONE, &[]),
                vec![Ok],
            ),
            (
                "devices not read",
                fleet(&vec![], ASKS_NONE, &offers),
                vec![Skipped],
            ),
            (
                "no node offers it, which is told of the cluster",
                fleet(&ib, &ASKS.replace("rdma/ib", "rdma/other"), &offers),
                vec![],
            ),
            (
                "nodes not read",
                fleet(&ib, ASKS, &offers).record(|record| record.nodes = None),
                vec![Skipped],
            ),
            (
                "nodes closed",
                fleet(&ib, ASKS, &offers).record(|record| {
                    record.nodes = Some(Nodes::Missing {
                        reason: SkipReason::Denied,
                        detail: "forbidden".to_owned(),
                    });
                }),
                vec![Skipped],
            ),
        ];
        for (what, fleet, wanted) in cases {
            assert_eq!(fleet.statuses("node-resources"), wanted, "{what}");
        }
        let unread = Fleet::of(&[("prefill", ib.as_slice()), ("decode", ib.as_slice())]);
        assert_eq!(unread.statuses("node-resources"), [Skipped]);
    }

    #[test]
    fn adapters_beside_a_pod_that_does_not_ask_are_one_cause() {
        let offers = [("rdma/ib", "8")];
        let fixes = fleet(&none(), ASKS_NONE, &offers).fix_first();
        let cause = fixes.iter().find(|fix| fix.id == "DEP011").unwrap();
        assert_eq!(cause.also.len(), 1, "prefill and decode together");
        for id in ["RDMA001", "K8S001"] {
            assert!(cause.consequences.iter().any(|c| c.id == id), "{id}");
            assert!(fixes.iter().all(|fix| fix.id != id), "{id}");
        }
    }
}
