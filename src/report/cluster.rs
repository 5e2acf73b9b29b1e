//! The part of a report about the nodes of the cluster.

use serde::Serialize;
use std::collections::BTreeMap;

/// What the nodes of the cluster offer, and which of them could host the deployment. Only with `check --nodes`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NodesReport {
    /// Nodes with GPUs, RDMA resources or an NVLink clique, by name.
    pub nodes: Vec<NodeReport>,
    /// How many other nodes there are.
    pub others: usize,
    /// ComputeDomains of the namespace.
    pub compute_domains: Vec<DomainReport>,
    /// What could not be read, and why.
    pub missing: Vec<String>,
}

/// One node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NodeReport {
    /// Its name.
    pub name: String,
    /// It is ready and not cordoned.
    pub schedulable: bool,
    /// Allocatable GPUs, used or not.
    pub gpus: u64,
    /// Product of its GPUs, by label.
    pub product: Option<String>,
    /// Allocatable RDMA resources, used or not: quantities as written.
    pub rdma: BTreeMap<String, String>,
    /// NVLink clique, by label.
    pub clique: Option<String>,
    /// Zone, by label.
    pub zone: Option<String>,
    /// Rack or the like, by label.
    pub rack: Option<String>,
    /// Instance type, by label.
    pub instance_type: Option<String>,
    /// Components of the deployment that run on it.
    pub runs: Vec<String>,
    /// Could each worker of the deployment run here and move KV on a fast path?
    pub hosts: Vec<HostReport>,
}

/// Whether a worker could run on a node and move KV on a fast path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HostReport {
    /// The worker.
    pub component: String,
    /// Its role.
    pub role: String,
    /// The answer.
    pub fast: Fast,
    /// Why.
    pub reason: String,
}

/// Whether something could be fast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum Fast {
    /// The node offers everything that the pod asks for, and that is a fast path.
    Yes,
    /// It lacks something, or the pod asks for no fast path.
    No,
    /// Nothing that was read says it.
    Unknown,
}

/// One ComputeDomain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DomainReport {
    /// Its name.
    pub name: String,
    /// Ready, NotReady, Failed; empty where its status says nothing.
    pub status: String,
    /// Nodes it waits for; 0 where any number may join.
    pub wanted: u64,
    /// Nodes that joined, with their state.
    pub nodes: BTreeMap<String, String>,
}
