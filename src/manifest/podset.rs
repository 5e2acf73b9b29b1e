//! Pod templates without Dynamo's operator: Pod, Deployment and its like, LeaderWorkerSet, PodCliqueSet.

use super::place::Range;
use super::pod::{NAME_CAP, Pod};
use super::yaml::Node;
use crate::sanitise;

/// The pod templates of an object; none when the kind has none.
pub(super) fn templates<'a>(object: Node<'a>, kind: &str) -> Vec<Pod<'a>> {
    let name = object.word_at(&["metadata", "name"]).unwrap_or("(unnamed)");
    let range = object
        .pair("kind")
        .map_or(Range::of(object), |(k, v)| Range::pair(k, v));
    let mut out = Vec::new();
    let mut add = |name: &str,
                   range: Range,
                   template: Option<Node<'a>>,
                   spec_key: Option<&str>,
                   replicas: u64,
                   nodes: u64| {
        let Some(template) = template else { return };
        let spec = spec_key.map_or(Some(template), |key| template.get(key));
        out.push(pod(name, range, template, spec, replicas, nodes));
    };
    let count = |path: &[&str]| object.at(path).and_then(Node::count);
    match kind {
        "Pod" => add(name, range, Some(object), Some("spec"), 1, 1),
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" => {
            let replicas = count(&["spec", "replicas"]).unwrap_or(1);
            add(
                name,
                range,
                object.at(&["spec", "template"]),
                Some("spec"),
                replicas,
                1,
            );
        }
        "Job" => add(
            name,
            range,
            object.at(&["spec", "template"]),
            Some("spec"),
            count(&["spec", "parallelism"]).unwrap_or(1),
            1,
        ),
        "CronJob" => {
            let template = object.at(&["spec", "jobTemplate", "spec", "template"]);
            add(name, range, template, Some("spec"), 1, 1);
        }
        "LeaderWorkerSet" => {
            let replicas = count(&["spec", "replicas"]).unwrap_or(1);
            let group = object.at(&["spec", "leaderWorkerTemplate"]);
            let size = count(&["spec", "leaderWorkerTemplate", "size"])
                .unwrap_or(1)
                .max(1);
            let leader = group.and_then(|g| g.get("leaderTemplate"));
            let worker = group.and_then(|g| g.get("workerTemplate"));
            // Without a template of its own the leader is a worker.
            let suffix = |part: &str| {
                if leader.is_some() {
                    format!("{name}-{part}")
                } else {
                    name.to_owned()
                }
            };
            add(
                &suffix("leader"),
                range,
                leader,
                Some("spec"),
                replicas,
                size,
            );
            add(
                &suffix("worker"),
                range,
                worker,
                Some("spec"),
                replicas,
                size,
            );
        }
        "PodCliqueSet" => {
            for clique in object
                .at(&["spec", "template", "cliques"])
                .into_iter()
                .flat_map(Node::items)
            {
                let name = clique.word_at(&["name"]).unwrap_or("(unnamed)");
                let range = clique
                    .pair("name")
                    .map_or(range, |(k, v)| Range::pair(k, v));
                let replicas = clique
                    .at(&["spec", "replicas"])
                    .and_then(Node::count)
                    .unwrap_or(1);
                add(
                    name,
                    range,
                    clique.get("spec"),
                    Some("podSpec"),
                    replicas,
                    1,
                );
            }
        }
        // Pods as they run, written down by this tool (`cluster::deployment`): what the operator's labels say comes with them.
        "Pods" => {
            for group in object.get("groups").into_iter().flat_map(Node::items) {
                let name = group.word_at(&["name"]).unwrap_or("(unnamed)");
                let range = group.pair("name").map_or(range, |(k, v)| Range::pair(k, v));
                let nodes = match group.get("multinode").filter(|m| m.is_map()) {
                    Some(multinode) => multinode
                        .get("nodeCount")
                        .and_then(Node::count)
                        .unwrap_or(2),
                    None => 1,
                };
                let replicas = group.get("replicas").and_then(Node::count).unwrap_or(1);
                let Some(template) = group.get("podTemplate") else {
                    continue;
                };
                out.push(Pod {
                    kind: group.word_at(&["type"]),
                    sub_kind: group.word_at(&["subComponentType"]),
                    ..pod(
                        name,
                        range,
                        template,
                        template.get("spec"),
                        (replicas / nodes.max(1)).max(1),
                        nodes.max(1),
                    )
                });
            }
        }
        _ => {}
    }
    out
}

fn pod<'a>(
    name: &str,
    range: Range,
    template: Node<'a>,
    spec: Option<Node<'a>>,
    replicas: u64,
    nodes: u64,
) -> Pod<'a> {
    let container = spec.and_then(serving_container);
    let annotations = [
        template.at(&["metadata", "annotations"]),
        template.get("annotations"),
    ];
    Pod {
        name: sanitise::line(name, NAME_CAP),
        range,
        kind: None,
        component_kind: None,
        sub_kind: None,
        env: container
            .and_then(|c| c.get("env"))
            .map(|list| ("container.env", list))
            .into_iter()
            .collect(),
        env_from: container
            .and_then(|c| c.get("envFrom"))
            .map(|list| ("container.env", list)),
        resources: container
            .and_then(|c| c.get("resources"))
            .into_iter()
            .collect(),
        container,
        spec,
        annotations: annotations.into_iter().flatten().collect(),
        shm: None,
        shm_range: None,
        by_operator: false,
        replicas,
        nodes,
    }
}

/// The container named `main`, else the first that asks for a device, else the first.
fn serving_container(spec: Node<'_>) -> Option<Node<'_>> {
    let containers = spec.get("containers")?;
    let asks = |c: &Node<'_>| {
        ["limits", "requests"]
            .iter()
            .filter_map(|side| c.at(&["resources", side]))
            .any(|side| {
                side.pairs().any(|(k, _)| {
                    k.text().is_some_and(|k| {
                        k.contains("gpu") || k.contains("rdma") || k.contains("efa")
                    })
                })
            })
    };
    let main = containers
        .items()
        .find(|c| c.word_at(&["name"]) == Some("main"));
    main.or_else(|| containers.items().find(asks))
        .or_else(|| containers.items().next())
}
