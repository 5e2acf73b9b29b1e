//! Which nodes of the cluster could host a worker, and whether its KV would have a fast path there: what the pod asks for
//! against what the node offers. What other pods hold, taints and selectors are not looked at.

use crate::facts::container::Facts;
use crate::manifest::workload::{Reach, Worker, Workload};
use crate::manifest::{is_gpu, is_rdma, quantity};
use crate::report::{DomainReport, Fast, HostReport, NodeReport, NodesReport};
use crate::snapshot::{Deployment, Domain, Domains, Folded, Node, Nodes};
use std::collections::{BTreeMap, BTreeSet};

const CLIQUE: &str = "nvidia.com/gpu.clique";
/// Labels by which node feature discovery and the operators say that a node has RDMA NICs.
const RDMA: &[&str] = &[
    "feature.node.kubernetes.io/rdma.available",
    "feature.node.kubernetes.io/rdma.capable",
    "feature.node.kubernetes.io/pci-15b3.present",
    "nvidia.com/rdma.present",
];
/// Labels that say in which rack, or next to which other nodes, a node stands; the first that is there counts.
const RACKS: &[&str] = &[
    "topology.kubernetes.io/rack",
    "topology.k8s.aws/network-node-layer-3",
    "cloud.google.com/gce-topology-subblock",
    "cloud.google.com/gce-topology-block",
];

/// The nodes of a cluster and what is known beside them.
pub struct Cluster<'a> {
    nodes: &'a BTreeMap<String, Node>,
    domains: Option<&'a BTreeMap<String, Domain>>,
}

impl<'a> Cluster<'a> {
    /// Of a record in which nodes were read.
    pub fn of(record: &'a Deployment) -> Option<Self> {
        let Some(Nodes::Known(nodes)) = &record.nodes else {
            return None;
        };
        let domains = match &record.domains {
            Some(Domains::Known(domains)) => Some(domains),
            _ => None,
        };
        Some(Self { nodes, domains })
    }

    /// Some node carries one of these labels, so that their absence elsewhere says something.
    fn is_labelled(&self, labels: &[&str]) -> bool {
        let mut all = self.nodes.values();
        all.any(|node| labels.iter().any(|label| node.labels.contains_key(*label)))
    }

    /// The pods of this worker join a ComputeDomain.
    fn joins_domain(&self, worker: &Worker) -> bool {
        worker.compute_domain() || domain_of(worker, self.domains).is_some()
    }

    /// Whether the worker could run on this node, and fast.
    pub fn judge(&self, worker: &Worker, node: &Node) -> (Fast, String) {
        if let Some(lack) = lack(worker, node) {
            return (Fast::No, lack);
        }
        if worker.lacks("resources") {
            let reason = "a placeholder stands for what the pod asks for";
            return (Fast::Unknown, reason.to_owned());
        }
        if !worker.rdma_resources.is_empty() {
            let has: Vec<String> = worker
                .rdma_resources
                .keys()
                .map(|r| {
                    format!(
                        "{} {r}",
                        node.allocatable.get(r).map_or("0", String::as_str)
                    )
                })
                .collect();
            return (Fast::Yes, format!("has {}", has.join(", ")));
        }
        if self.joins_domain(worker) {
            return match node.labels.get(CLIQUE) {
                Some(clique) => (Fast::Yes, format!("is in NVLink clique {clique}")),
                None if self.is_labelled(&[CLIQUE]) => (
                    Fast::No,
                    "is in no NVLink clique, as other nodes are".to_owned(),
                ),
                None => (
                    Fast::Unknown,
                    format!("no node is labelled with its NVLink clique ({CLIQUE})"),
                ),
            };
        }
        if worker.reach.contains(&Reach::DraRdma) || !worker.unresolved_claims.is_empty() {
            let reason = "the pod claims devices, and nodes do not list those";
            return (Fast::Unknown, reason.to_owned());
        }
        if worker.reach.is_empty() {
            let offer = rdma(node);
            let offers = match offer.is_empty() {
                true => String::new(),
                false => format!("; the node offers {}", amounts(&offer)),
            };
            return (
                Fast::No,
                format!("the pod asks for no RDMA device and no NVLink domain{offers}"),
            );
        }
        // The host's own devices: by mount, or by its network.
        match RDMA.iter().find(|label| is_true(node, label)) {
            Some(label) => (Fast::Yes, format!("has RDMA NICs (label {label})")),
            None if !rdma(node).is_empty() => (
                Fast::Yes,
                format!("has RDMA NICs ({})", amounts(&rdma(node))),
            ),
            None if self.is_labelled(RDMA) => (
                Fast::No,
                "has no RDMA NIC by its labels, as other nodes have".to_owned(),
            ),
            None => (
                Fast::Unknown,
                "no node is labelled with its NICs (node feature discovery)".to_owned(),
            ),
        }
    }

    /// Nodes on which a pod of this worker could be placed at all.
    pub fn places(&self, worker: &Worker) -> usize {
        let fits = |node: &&Node| lack(worker, node).is_none();
        self.nodes.values().filter(fits).count()
    }

    /// Why no node takes this worker: each reason with how many nodes it keeps away.
    pub fn lacks(&self, worker: &Worker) -> Vec<(String, usize)> {
        let mut all: BTreeMap<String, usize> = BTreeMap::new();
        for lack in self.nodes.values().filter_map(|node| lack(worker, node)) {
            *all.entry(lack).or_default() += 1;
        }
        let mut all: Vec<(String, usize)> = all.into_iter().collect();
        all.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        all
    }
}

/// The ComputeDomain that the pods of a worker join: the one that makes the template of one of their claims.
pub fn domain_of<'a>(
    worker: &Worker,
    domains: Option<&'a BTreeMap<String, Domain>>,
) -> Option<(&'a String, &'a Domain)> {
    let mut all = domains?.iter();
    all.find(|(_, d)| !d.template.is_empty() && worker.claims.values().any(|t| *t == d.template))
}

fn amount(map: &BTreeMap<String, String>, resource: &str) -> Option<u64> {
    map.get(resource)
        .map_or(Some(0), |text| quantity::bytes(text))
}

fn gpus(node: &Node) -> u64 {
    let all = node.allocatable.iter().filter(|(name, _)| is_gpu(name));
    all.filter_map(|(_, text)| quantity::bytes(text)).sum()
}

fn rdma(node: &Node) -> BTreeMap<String, String> {
    let all = node.allocatable.iter();
    all.filter(|(name, text)| is_rdma(name) && quantity::bytes(text) != Some(0))
        .map(|(name, text)| (name.clone(), text.clone()))
        .collect()
}

fn amounts(resources: &BTreeMap<String, String>) -> String {
    let all: Vec<String> = resources.iter().map(|(r, n)| format!("{n} {r}")).collect();
    all.join(", ")
}

fn is_true(node: &Node, label: &str) -> bool {
    node.labels.get(label).is_some_and(|value| value == "true")
}

/// What keeps a pod of this worker from this node; None where nothing does that a node's own numbers tell.
fn lack(worker: &Worker, node: &Node) -> Option<String> {
    if !node.schedulable {
        return Some("takes no pods now (not ready, or cordoned)".to_owned());
    }
    if let Some(wanted) = worker.gpus
        && gpus(node) < wanted
    {
        return Some(match gpus(node) {
            0 => format!("has no GPU, and the pod asks for {wanted}"),
            n => format!("has {n} GPUs, and the pod asks for {wanted}"),
        });
    }
    worker.rdma_resources.iter().find_map(|(resource, wanted)| {
        let (have, want) = (
            amount(&node.allocatable, resource)?,
            quantity::bytes(wanted)?,
        );
        (have < want).then(|| match have {
            0 => format!("has no {resource}, and the pod asks for {wanted}"),
            _ => format!("has {have} {resource}, and the pod asks for {wanted}"),
        })
    })
}

/// The part of the report about nodes; None where nobody asked.
pub fn report(
    record: &Deployment,
    workload: Option<&Workload>,
    snapshots: &[Folded],
) -> Option<NodesReport> {
    let mut report = NodesReport::default();
    match record.nodes.as_ref()? {
        Nodes::Known(_) => {}
        Nodes::Missing { detail, .. } => report.missing.push(detail.clone()),
    }
    match &record.domains {
        Some(Domains::Known(domains)) => {
            report.compute_domains = domains.iter().map(domain).collect();
        }
        Some(Domains::Missing { detail, .. }) => report.missing.push(detail.clone()),
        None => {}
    }
    let Some(cluster) = Cluster::of(record) else {
        return Some(report);
    };
    let mut runs: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for snapshot in snapshots {
        let pod = Facts::pod(snapshot.near());
        if let (Some(node), Ok(pod)) = (&snapshot.place().node, pod.get())
            && let Some(component) = &pod.component
        {
            runs.entry(node).or_default().insert(component.clone());
        }
    }
    let workers = workload.map_or(&[][..], |w| &w.workers);
    for (name, node) in cluster.nodes {
        let label = |key: &str| node.labels.get(key).cloned();
        let used = runs.get(name.as_str());
        let matters =
            gpus(node) > 0 || !rdma(node).is_empty() || label(CLIQUE).is_some() || used.is_some();
        if !matters {
            report.others += 1;
            continue;
        }
        let hosts = workers.iter().map(|worker| {
            let (fast, reason) = cluster.judge(worker, node);
            HostReport {
                component: worker.name.clone(),
                role: worker.role.word().to_owned(),
                fast,
                reason,
            }
        });
        report.nodes.push(NodeReport {
            name: name.clone(),
            schedulable: node.schedulable,
            gpus: gpus(node),
            product: label("nvidia.com/gpu.product")
                .or_else(|| label("cloud.google.com/gke-accelerator")),
            rdma: rdma(node),
            clique: label(CLIQUE),
            zone: label("topology.kubernetes.io/zone"),
            rack: RACKS.iter().find_map(|key| label(key)),
            instance_type: label("node.kubernetes.io/instance-type"),
            runs: used.into_iter().flatten().cloned().collect(),
            hosts: hosts.collect(),
        });
    }
    Some(report)
}

fn domain((name, domain): (&String, &Domain)) -> DomainReport {
    DomainReport {
        name: name.clone(),
        status: domain.status.clone(),
        wanted: domain.wanted,
        nodes: domain
            .nodes
            .iter()
            .map(|(name, member)| (name.clone(), member.status.clone()))
            .collect(),
    }
}
