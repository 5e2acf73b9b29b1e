//! Deployments as their manifests describe them.

use super::Trust;
use serde::Serialize;
use std::collections::BTreeMap;

/// File and line of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SourceRef {
    /// File, as the user named it.
    pub path: String,
    /// Line, from 1.
    pub line: u32,
}

/// One variable of a worker's effective environment. Exactly one of `value`, `reference` and `withheld` is present.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EnvReport {
    /// The literal value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Where the value comes from when it is no literal: `<valueFrom>`, `<dynamic>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// True when the value is literal and may carry credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withheld: Option<bool>,
    /// Level that sets it: `spec.envs`, `service.envs`, `mainContainer.env`, `spec.env`, `container.env`, each with
    /// `<-configMap` when resolved from one; `export`, `inline`.
    pub from: String,
    /// File.
    pub path: String,
    /// Line, from 1.
    pub line: u32,
}

/// One worker as the manifest describes it.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WorkerReport {
    /// Component or service name.
    pub name: String,
    /// prefill, decode, encode, pd, agg; kv_both is one side that does not say which.
    pub role: String,
    /// vllm, sglang, trtllm; null when nothing says.
    pub engine: Option<String>,
    /// Replicas; 1 when not stated.
    pub replicas: u64,
    /// Nodes of one replica; 1 when not stated.
    pub nodes: u64,
    /// GPUs of one pod; null when not stated.
    pub gpus: Option<u64>,
    /// Effective catalogued environment.
    pub env: BTreeMap<String, EnvReport>,
    /// Requested RDMA resources as written.
    pub rdma_resources: BTreeMap<String, String>,
    /// Resource claims: name in the pod, and its template or claim.
    pub claims: BTreeMap<String, String>,
    /// IPC_LOCK is added.
    pub ipc_lock: bool,
    /// The container is privileged.
    pub privileged: bool,
    /// The pod uses the host's network namespace.
    pub host_network: bool,
    /// The pod uses the host's IPC namespace.
    pub host_ipc: bool,
    /// Shared memory as written; null = the operator's default of 8Gi.
    pub shm: Option<String>,
    /// How the engine moves KV: `connector`, `kv_role`, `backends`, `backend`, `buffer_device`, as far as stated.
    pub kv_transfer: serde_json::Map<String, serde_json::Value>,
    /// What in the pod spec can give a fast KV path: device-plugin, dra-rdma, compute-domain, hostpath-infiniband,
    /// host-network.
    pub reach: Vec<String>,
}

/// One workload and the trust it earned.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WorkloadReport {
    /// Where it is written.
    pub source: SourceRef,
    /// apiVersion of the object.
    pub api_version: String,
    /// kind of the object.
    pub kind: String,
    /// metadata.name.
    pub name: String,
    /// metadata.namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// spec.backendFramework as written.
    pub framework: Option<String>,
    /// KV moves between its workers.
    pub disaggregated: bool,
    /// A worker spans several nodes.
    pub multinode: bool,
    /// May its KV path be trusted?
    pub trust: Trust,
    /// Its GPU workers.
    pub workers: Vec<WorkerReport>,
    /// Position in the run.
    #[serde(skip)]
    pub ordinal: usize,
}
