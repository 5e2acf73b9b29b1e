//! Nodes of the cluster and ComputeDomains of a namespace, reduced to what matters for a fabric the moment they arrive. Both
//! are read for `check --nodes` only.

use super::call::{CallError, Cause, check_names, pages, said};
use super::connect::Cluster;
use crate::manifest::{is_gpu, is_rdma};
use crate::sanitise;
use crate::snapshot::{Domain, Domains, Member, Node, Nodes};
use k8s_openapi::api::core::v1 as api;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, ListParams};
use serde_json::Value;
use std::collections::BTreeMap;

/// Nodes of one page. One lists every image it holds, so pages are smaller than those of pods.
const PAGE: u32 = 100;

/// Longest label that is kept.
const LABEL: usize = 100;

/// Labels that say something about GPUs, NICs, cliques and where a node stands. Those that end in `.` or `/` are beginnings.
///
/// GPU feature discovery: <https://github.com/NVIDIA/k8s-device-plugin/blob/main/docs/gpu-feature-discovery/README.md>; node
/// feature discovery: <https://kubernetes-sigs.github.io/node-feature-discovery/stable/usage/features.html>; zones:
/// <https://kubernetes.io/docs/reference/labels-annotations-taints/>; racks: topology labels of AWS and Google Cloud.
const LABELS: &[&str] = &[
    "nvidia.com/gpu.product",
    "nvidia.com/gpu.count",
    "nvidia.com/gpu.clique",
    "nvidia.com/gpu.machine",
    "nvidia.com/cuda.driver-version.full",
    "nvidia.com/rdma.present",
    "feature.node.kubernetes.io/pci-15b3.",
    "feature.node.kubernetes.io/rdma.",
    "feature.node.kubernetes.io/network-sriov.",
    "network.nvidia.com/operator.",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/rack",
    "topology.k8s.aws/",
    "cloud.google.com/gce-topology-",
    "cloud.google.com/gke-accelerator",
    "node.kubernetes.io/instance-type",
    "node.openshift.io/os_id",
    "kubernetes.io/arch",
];

fn is_kept(label: &str) -> bool {
    LABELS.iter().any(|known| {
        label == *known || known.ends_with(['.', '/', '-']) && label.starts_with(known)
    })
}

/// All nodes of the cluster, or why they cannot be seen.
pub async fn list_nodes(cluster: &Cluster) -> Nodes {
    let api: Api<api::Node> = Api::all(cluster.client.clone());
    let first = ListParams::default().limit(PAGE);
    let listed = pages("list nodes", cluster.patience, &api, first, &mut node).await;
    match listed.and_then(|all| all.whole("list nodes")) {
        Ok(nodes) => Nodes::Known(nodes.into_iter().flatten().collect()),
        Err(error) => Nodes::Missing {
            reason: error.cause.reason(),
            detail: match error.cause {
                Cause::Forbidden { .. } => {
                    "this user may not list nodes, which belong to no namespace: the second part of docs/rbac.yaml grants \
                     it (ClusterRole dynamo-interconnect-check-nodes)"
                        .to_owned()
                }
                _ => error.to_string(),
            },
        },
    }
}

fn node(node: api::Node) -> Option<(String, Node)> {
    let name = sanitise::line(&node.metadata.name?, 253);
    let status = node.status.unwrap_or_default();
    let ready = status
        .conditions
        .iter()
        .flatten()
        .any(|c| c.type_ == "Ready" && c.status == "True");
    let cordoned = node.spec.and_then(|spec| spec.unschedulable) == Some(true);
    let allocatable = status
        .allocatable
        .unwrap_or_default()
        .into_iter()
        .filter(|(resource, _)| is_gpu(resource) || is_rdma(resource))
        .map(|(resource, amount)| (said(&resource), said(&amount.0)))
        .collect();
    let labels = node
        .metadata
        .labels
        .unwrap_or_default()
        .into_iter()
        .filter(|(label, _)| is_kept(label))
        .map(|(label, value)| (said(&label), sanitise::line(&value, LABEL)))
        .collect();
    let node = Node {
        schedulable: ready && !cordoned,
        allocatable,
        labels,
    };
    Some((name, node))
}

/// The ComputeDomains of a namespace, or why they cannot be seen. A cluster without the kind has none.
pub async fn list_domains(cluster: &Cluster, namespace: &str) -> Domains {
    match domains(cluster, namespace).await {
        Ok(found) => Domains::Known(found),
        Err(CallError {
            cause: Cause::NotFound,
            ..
        }) => Domains::Known(BTreeMap::new()),
        Err(error) => Domains::Missing {
            reason: error.cause.reason(),
            detail: error.to_string(),
        },
    }
}

async fn domains(
    cluster: &Cluster,
    namespace: &str,
) -> Result<BTreeMap<String, Domain>, CallError> {
    let resource = ApiResource {
        group: "resource.nvidia.com".to_owned(),
        version: "v1beta1".to_owned(),
        api_version: "resource.nvidia.com/v1beta1".to_owned(),
        kind: "ComputeDomain".to_owned(),
        plural: "computedomains".to_owned(),
    };
    let doing = format!("list ComputeDomains in namespace {}", said(namespace));
    check_names(&[namespace]).map_err(|cause| CallError {
        doing: doing.clone(),
        cause,
    })?;
    let api: Api<DynamicObject> =
        Api::namespaced_with(cluster.client.clone(), namespace, &resource);
    let first = ListParams::default().limit(PAGE);
    let mut reduce = |object: DynamicObject| {
        let name = said(&object.metadata.name.unwrap_or_default());
        (name, domain(&object.data))
    };
    let found = pages(&doing, cluster.patience, &api, first, &mut reduce).await?;
    Ok(found.whole(&doing)?.into_iter().collect())
}

/// <https://github.com/NVIDIA/k8s-dra-driver-gpu/blob/main/api/nvidia.com/resource/v1beta1/computedomain.go>
fn domain(object: &Value) -> Domain {
    let text = |value: &Value| said(value.as_str().unwrap_or_default());
    let status = &object["status"];
    let nodes = status["nodes"].as_array();
    Domain {
        status: text(&status["status"]),
        wanted: object["spec"]["numNodes"].as_u64().unwrap_or_default(),
        template: text(&object["spec"]["channel"]["resourceClaimTemplate"]["name"]),
        nodes: nodes
            .into_iter()
            .flatten()
            .map(|node| {
                let member = Member {
                    status: text(&node["status"]),
                    clique: text(&node["cliqueID"]),
                };
                (text(&node["name"]), member)
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn of_a_node_only_what_matters_for_a_fabric_is_kept() {
        let whole = json!({
            "metadata": {"name": "a", "labels": {
                "nvidia.com/gpu.product": "NVIDIA-H100", "nvidia.com/gpu.clique": "c.1", "team": "x",
                "feature.node.kubernetes.io/pci-15b3.present": "true", "topology.k8s.aws/network-node-layer-1": "n",
            }, "annotations": {"secret": "x"}},
            "spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}],
                "allocatable": {"cpu": "8", "nvidia.com/gpu": "8", "rdma/ib": "1k", "vpc.amazonaws.com/efa": "32",
                    "networking.gke.io.networks/rdma-0": "1", "networking.gke.io.networks/gpu0": "1"}},
        });
        let (name, node) = node(serde_json::from_value(whole.clone()).unwrap()).unwrap();
        assert_eq!((name.as_str(), node.schedulable), ("a", true));
        let keys = |map: &BTreeMap<String, String>| map.keys().cloned().collect::<Vec<_>>();
        assert_eq!(
            keys(&node.allocatable),
            [
                "networking.gke.io.networks/rdma-0",
                "nvidia.com/gpu",
                "rdma/ib",
                "vpc.amazonaws.com/efa"
            ]
        );
        assert_eq!(
            keys(&node.labels),
            [
                "feature.node.kubernetes.io/pci-15b3.present",
                "nvidia.com/gpu.clique",
                "nvidia.com/gpu.product",
                "topology.k8s.aws/network-node-layer-1"
            ]
        );
        for (path, value) in [
            ("/spec/unschedulable", json!(true)),
            ("/status/conditions", json!([])),
        ] {
            let mut other = whole.clone();
            let (parent, key) = path.rsplit_once('/').unwrap();
            other.pointer_mut(parent).unwrap()[key] = value;
            let (_, node) = super::node(serde_json::from_value(other).unwrap()).unwrap();
            assert!(!node.schedulable, "{path}");
        }
    }

    #[test]
    fn a_domain_and_its_members() {
        let found = domain(&json!({
            "spec": {"numNodes": 2, "channel": {"resourceClaimTemplate": {"name": "ch"}}},
            "status": {"status": "NotReady", "nodes": [{"name": "n", "cliqueID": "u.3", "status": "Ready", "ipAddress": "x"}]},
        }));
        assert_eq!(
            (found.status.as_str(), found.wanted, found.template.as_str()),
            ("NotReady", 2, "ch")
        );
        assert_eq!(found.nodes["n"].clique, "u.3");
        assert_eq!(domain(&json!({})), Domain::default());
    }
}
