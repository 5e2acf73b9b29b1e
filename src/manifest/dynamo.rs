//! DynamoGraphDeployment and DynamoComponentDeployment, v1alpha1 and v1beta1, as pod templates.
//!
//! The shape decides, not the version word: `services` is the form of v1alpha1, `components` and `podTemplate` are the
//! form of v1beta1. <https://github.com/wxsms/dynamo/tree/2a6da14/deploy/operator>

use super::place::Range;
use super::pod::{NAME_CAP, Pod};
use super::yaml::Node;
use crate::sanitise;

/// The container that serves.
const MAIN: &str = "main";

/// What a Dynamo object holds.
pub(super) enum Graph<'a> {
    /// Its components, frontends included.
    Components(Vec<Pod<'a>>),
    /// A kustomize patch: no component says what it is or how it starts.
    Fragment,
    /// Neither services nor components.
    Empty,
}

/// The components of a DynamoGraphDeployment.
pub(super) fn graph<'a>(object: Node<'a>) -> Graph<'a> {
    let Some(spec) = object.get("spec") else {
        return Graph::Empty;
    };
    let mut pods = Vec::new();
    let mut whole = false;
    if let Some(services) = spec.get("services") {
        for (key, service) in services.entries() {
            whole |= is_whole(service);
            pods.push(service_pod(
                sanitise_name(key.text()),
                Range::of(key),
                service,
                spec.get("envs"),
            ));
        }
    }
    for component in spec.get("components").into_iter().flat_map(Node::items) {
        whole |= is_whole(component);
        pods.push(component_pod(component, spec.get("env")));
    }
    match (pods.is_empty(), whole) {
        (true, _) => Graph::Empty,
        (false, false) => Graph::Fragment,
        (false, true) => Graph::Components(pods),
    }
}

/// The one component of a DynamoComponentDeployment.
pub(super) fn component<'a>(object: Node<'a>) -> Graph<'a> {
    let Some(spec) = object.get("spec").filter(|s| s.is_map()) else {
        return Graph::Empty;
    };
    if !is_whole(spec) {
        return Graph::Fragment;
    }
    let beta = spec.get("podTemplate").is_some() || spec.get("type").is_some();
    let mut pod = if beta {
        component_pod(spec, None)
    } else {
        service_pod(String::new(), Range::of(spec), spec, None)
    };
    let name = spec
        .word_at(&["name"])
        .or_else(|| spec.word_at(&["serviceName"]));
    pod.name = sanitise_name(name.or_else(|| object.word_at(&["metadata", "name"])));
    if let Some((key, value)) = object.pair("kind") {
        pod.range = Range::pair(key, value);
    }
    Graph::Components(vec![pod])
}

fn sanitise_name(name: Option<&str>) -> String {
    sanitise::line(name.unwrap_or("(unnamed)"), NAME_CAP)
}

/// A component says what it is or how it starts; a patch says neither, and at most which image to run.
fn is_whole(component: Node<'_>) -> bool {
    let container = component
        .at(&["extraPodSpec", "mainContainer"])
        .or_else(|| main_container(component));
    let typed = ["type", "componentType", "subComponentType"];
    typed.iter().any(|key| component.word_at(&[key]).is_some())
        || container.is_some_and(|c| c.get("command").is_some() || c.get("args").is_some())
}

fn main_container(component: Node<'_>) -> Option<Node<'_>> {
    let containers = component.at(&["podTemplate", "spec", "containers"])?;
    containers
        .items()
        .find(|c| c.word_at(&["name"]) == Some(MAIN))
        .or_else(|| containers.items().next())
}

/// v1alpha1: a service with `extraPodSpec`.
fn service_pod<'a>(
    name: String,
    range: Range,
    service: Node<'a>,
    envs: Option<Node<'a>>,
) -> Pod<'a> {
    let container = service.at(&["extraPodSpec", "mainContainer"]);
    let mut env = Vec::new();
    env.extend(envs.map(|list| ("spec.envs", list)));
    env.extend(service.get("envs").map(|list| ("service.envs", list)));
    env.extend(
        container
            .and_then(|c| c.get("env"))
            .map(|list| ("mainContainer.env", list)),
    );
    let memory = service.get("sharedMemory");
    let disabled = memory
        .and_then(|m| m.get("disabled"))
        .is_some_and(Node::is_true);
    let size = memory
        .and_then(|m| m.word_at(&["size"]))
        .map(|s| sanitise::line(s, 60));
    Pod {
        name,
        range,
        kind: service.word_at(&["type"]),
        component_kind: service.word_at(&["componentType"]),
        sub_kind: service.word_at(&["subComponentType"]),
        env,
        env_from: container
            .and_then(|c| c.get("envFrom"))
            .map(|list| ("mainContainer.env", list)),
        resources: [
            service.get("resources"),
            container.and_then(|c| c.get("resources")),
        ]
        .into_iter()
        .flatten()
        .collect(),
        container,
        spec: service.get("extraPodSpec"),
        annotations: [
            service.get("annotations"),
            service.at(&["extraPodMetadata", "annotations"]),
        ]
        .into_iter()
        .flatten()
        .collect(),
        // The operator reads `disabled` as a size of nothing.
        shm: if disabled { Some("0".into()) } else { size },
        shm_range: service.pair("sharedMemory").map(|(k, v)| Range::pair(k, v)),
        by_operator: true,
        replicas: service.get("replicas").and_then(Node::count).unwrap_or(1),
        nodes: nodes(service),
    }
}

/// v1beta1: a component with `podTemplate`.
fn component_pod<'a>(component: Node<'a>, env: Option<Node<'a>>) -> Pod<'a> {
    let container = main_container(component);
    let mut levels = Vec::new();
    levels.extend(env.map(|list| ("spec.env", list)));
    levels.extend(
        container
            .and_then(|c| c.get("env"))
            .map(|list| ("container.env", list)),
    );
    let range = component.pair("name").map_or(
        Range {
            end: component.start(),
            ..Range::of(component)
        },
        |(k, v)| Range::pair(k, v),
    );
    Pod {
        name: sanitise_name(component.word_at(&["name"])),
        range,
        kind: component.word_at(&["type"]),
        component_kind: component.word_at(&["componentType"]),
        sub_kind: component.word_at(&["subComponentType"]),
        env: levels,
        env_from: container
            .and_then(|c| c.get("envFrom"))
            .map(|list| ("container.env", list)),
        resources: container
            .and_then(|c| c.get("resources"))
            .into_iter()
            .collect(),
        container,
        // A placeholder may stand for the whole template.
        spec: component.at(&["podTemplate", "spec"]).or_else(|| {
            component
                .get("podTemplate")
                .filter(|template| template.word().is_some())
        }),
        annotations: component
            .at(&["podTemplate", "metadata", "annotations"])
            .into_iter()
            .collect(),
        shm: component
            .word_at(&["sharedMemorySize"])
            .map(|s| sanitise::line(s, 60)),
        shm_range: component
            .pair("sharedMemorySize")
            .map(|(k, v)| Range::pair(k, v)),
        by_operator: true,
        replicas: component.get("replicas").and_then(Node::count).unwrap_or(1),
        nodes: nodes(component),
    }
}

/// `multinode.nodeCount`, which defaults to 2.
fn nodes(component: Node<'_>) -> u64 {
    match component.get("multinode").filter(|m| m.is_map()) {
        Some(multinode) => multinode
            .get("nodeCount")
            .and_then(Node::count)
            .unwrap_or(2)
            .max(1),
        None => 1,
    }
}
