//! The typed view of a deployment as its manifest describes it: what every manifest check judges.
//!
//! One shape for all sources (DynamoGraphDeployment of both API versions, DynamoComponentDeployment, plain pod
//! templates), so that no check knows where a setting was written. Meaning of the words: `docs/manifests.md`.

use crate::source::Spot;
use std::collections::BTreeMap;
use std::fmt;

/// One deployment that is judged alone.
#[derive(Debug)]
pub struct Workload {
    /// Where the object begins.
    pub source: Spot,
    /// apiVersion as written.
    pub api_version: String,
    /// kind as written.
    pub kind: String,
    /// metadata.name; `(unnamed)` where the manifest has none.
    pub name: String,
    /// metadata.namespace.
    pub namespace: Option<String>,
    /// `spec.backendFramework` as written.
    pub framework: Option<String>,
    /// (prefill and decode), or (encode and one of pd, decode, agg). A single pod template is disaggregated when its
    /// own engine flags say prefill, decode or encode, or hand its KV to another process.
    pub disaggregated: bool,
    /// A worker spans several nodes.
    pub multinode: bool,
    /// Runs on `dynamo.mocker`: declares roles and moves no KV. Never judged as disaggregated.
    pub mocker: bool,
    /// GPU workers, in the order of the manifest.
    pub workers: Vec<Worker>,
    /// Pod affinity pulls prefill and decode onto one node (`podAffinity` on `kubernetes.io/hostname`, preferred or
    /// required, on any worker).
    pub colocates_roles: bool,
    /// Pod anti-affinity on `kubernetes.io/hostname` keeps pods on different nodes (on any worker of a KV role).
    pub separates_roles: bool,
}

/// What a worker does in its graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Computes the prompt and hands its KV cache on.
    Prefill,
    /// Receives KV cache and generates.
    Decode,
    /// Encodes images or audio and hands embeddings on.
    Encode,
    /// Prefill and decode in one worker, fed by an encode worker.
    Pd,
    /// Aggregated: everything in one worker; also when nothing says otherwise.
    Agg,
    /// One side of disaggregated serving that does not say which: its connector moves KV between processes (vLLM's `kv_role:
    /// kv_both`), and its peer is another object.
    Either,
}

impl Role {
    /// The word that JSON, text and the engines use.
    pub fn word(self) -> &'static str {
        match self {
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Encode => "encode",
            Self::Pd => "pd",
            Self::Agg => "agg",
            Self::Either => "kv_both",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// The serving engine of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Engine {
    /// vLLM (`dynamo.vllm`).
    Vllm,
    /// SGLang (`dynamo.sglang`).
    Sglang,
    /// TensorRT-LLM (`dynamo.trtllm`).
    Trtllm,
}

impl Engine {
    /// The word that JSON, text and `spec.backendFramework` use.
    pub fn word(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
            Self::Trtllm => "trtllm",
        }
    }
}

/// The value of one variable, as far as a manifest can say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnvValue {
    /// Written out (also through a ConfigMap in the same input). As written: whoever shows it sanitises it.
    Literal(String),
    /// Taken from a field, Secret or ConfigMap that is not in the input. Never resolved further.
    ValueFrom,
    /// Computed at start by the shell (`$(nvidia-smi ...)`), or holding a placeholder nobody filled in.
    Dynamic,
    /// Written out, and may carry credentials: judged by nobody, shown to nobody.
    Withheld,
}

/// One variable of a worker's effective environment. Only catalogued names get here, except for [`Worker::unknown`].
#[derive(Debug, Clone)]
pub struct EnvEntry {
    /// What the variable will be.
    pub value: EnvValue,
    /// Level that set it last: `spec.envs`, `service.envs`, `mainContainer.env`, `spec.env`, `container.env`, each with
    /// `<-configMap` when resolved from one; `export`, `inline`.
    pub from: String,
    /// Name and value as written, for the excerpt.
    pub spot: Spot,
}

impl EnvEntry {
    /// A manifest sets it, and not a script that runs when the container starts.
    pub fn is_of_manifest(&self) -> bool {
        !matches!(self.from.as_str(), "export" | "inline")
    }
}

/// A variable whose name carries a transport prefix that its library reserves (`UCX_`), and that no version knows.
/// Its value is not kept.
#[derive(Debug, Clone)]
pub struct UnknownVariable {
    /// The name.
    pub name: String,
    /// The name as written, for the excerpt.
    pub spot: Spot,
}

/// What stands for a word that nobody knows. It may be anything, so it is not shown.
pub const UNRECOGNISED: &str = "(unrecognised)";

/// How the engine moves KV, as far as the manifest states it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KvTransfer {
    /// vLLM `kv_connector`.
    pub connector: Option<String>,
    /// Connectors that this one holds (`kv_connector_extra_config.connectors`).
    pub held: Vec<String>,
    /// vLLM `kv_role`.
    pub kv_role: Option<String>,
    /// vLLM `kv_connector_extra_config.backends`.
    pub backends: Vec<String>,
    /// vLLM `kv_buffer_device`.
    pub buffer_device: Option<String>,
    /// vLLM `kv_connector_extra_config.enable_cross_layers_blocks`.
    pub cross_layers: Option<bool>,
    /// vLLM `--kv-transfer-config` is an argument that says nothing beyond `kv_connector`, `kv_role`, `kv_buffer_device` and
    /// `backends`, all of them known words: who writes these writes all of it.
    pub is_plain: bool,
    /// SGLang `--disaggregation-transfer-backend`, TensorRT-LLM `cache_transceiver_config.backend`.
    pub backend: Option<String>,
    /// TensorRT-LLM's configuration was read, and it has no `cache_transceiver_config.backend`: KV transfer is off.
    pub off: bool,
    /// The engine's configuration file is named and was not read: what no flag says may stand there.
    pub unread: bool,
    /// What is laid over TensorRT-LLM's configuration and was not read, so that it may say anything: the flag or variable.
    pub laid_over: Option<String>,
    /// A flag or file that decides the backend could not be read (unresolved `$(VAR)`, ConfigMap not in the input): what, and why,
    /// as a clause.
    pub unresolved: Option<String>,
}

impl KvTransfer {
    /// One of its words is none that the engine knows.
    pub fn says_unrecognised(&self) -> bool {
        let words = [&self.connector, &self.kv_role, &self.buffer_device];
        let all = words.into_iter().flatten().chain(&self.backends);
        all.into_iter().any(|word| word == UNRECOGNISED)
    }

    /// The connector and those that it holds.
    pub fn connectors(&self) -> impl Iterator<Item = &str> {
        let own = self.connector.iter().chain(&self.held);
        own.map(String::as_str)
    }
}

/// What in a pod spec can give a fast KV path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reach {
    /// A device-plugin resource: `rdma/*`, `vpc.amazonaws.com/efa`, `networking.gke.io.networks/rdma-*`.
    DevicePlugin,
    /// A DRA claim on an RDMA device class.
    DraRdma,
    /// A ComputeDomain channel: multi-node NVLink.
    ComputeDomain,
    /// The host's `/dev/infiniband` mounted in.
    HostPathInfiniband,
    /// The host's network namespace.
    HostNetwork,
}

impl Reach {
    /// The word that JSON and text use.
    pub fn word(self) -> &'static str {
        match self {
            Self::DevicePlugin => "device-plugin",
            Self::DraRdma => "dra-rdma",
            Self::ComputeDomain => "compute-domain",
            Self::HostPathInfiniband => "hostpath-infiniband",
            Self::HostNetwork => "host-network",
        }
    }
}

/// One GPU worker.
#[derive(Debug)]
pub struct Worker {
    /// Component or service name.
    pub name: String,
    /// Where its entry begins.
    pub spot: Spot,
    /// What it does.
    pub role: Role,
    /// What the role rests on: `type`, `subComponentType`, `flag`, `env`, `config`, `kv_role`, `name`,
    /// `connector`, `default`.
    pub role_source: &'static str,
    /// The serving engine; None when nothing says.
    pub engine: Option<Engine>,
    /// Replicas; 1 when not stated.
    pub replicas: u64,
    /// Nodes of one replica; 1 when not stated.
    pub nodes: u64,
    /// GPUs of one pod; None when not stated.
    pub gpus: Option<u64>,
    /// Effective catalogued environment.
    pub env: BTreeMap<&'static str, EnvEntry>,
    /// Variables with a reserved prefix that no version knows.
    pub unknown: Vec<UnknownVariable>,
    /// Requested RDMA resources as written: `rdma/*`, `vpc.amazonaws.com/efa`, `networking.gke.io.networks/rdma-*`.
    pub rdma_resources: BTreeMap<String, String>,
    /// Where the resources (or the container, when it has none) are written, for the excerpt.
    pub resources_spot: Spot,
    /// Resource claims: name in the pod, and its template or claim.
    pub claims: BTreeMap<String, String>,
    /// Device classes behind the claims; a claim whose template is not in the input has none.
    pub claim_classes: BTreeMap<String, String>,
    /// Claims whose template is not in the input and that may be a ComputeDomain or an RDMA device.
    pub unresolved_claims: Vec<String>,
    /// `IPC_LOCK` is added.
    pub ipc_lock: bool,
    /// Where it is added, for the excerpt.
    pub ipc_lock_spot: Option<Spot>,
    /// All added capabilities.
    pub caps_add: Vec<String>,
    /// The container is privileged.
    pub privileged: bool,
    /// `runAsUser` of the container, else of the pod.
    pub run_as_user: Option<i64>,
    /// Where it is written, for the excerpt.
    pub run_as_user_spot: Option<Spot>,
    /// The start script raises the limit itself (`ulimit -l unlimited`).
    pub ulimit_memlock_in_script: bool,
    /// The pod uses the host's network namespace.
    pub host_network: bool,
    /// The pod uses the host's IPC namespace.
    pub host_ipc: bool,
    /// Shared memory as written; None = the operator's default of 8Gi.
    pub shm: Option<String>,
    /// A volume the user mounts on `/dev/shm`, with its size limit as written (`no sizeLimit` without one).
    pub shm_user_mount: Option<String>,
    /// Where shared memory is set or mounted, for the excerpt.
    pub shm_spot: Option<Spot>,
    /// The object is run by the Dynamo operator, which mounts its own `/dev/shm`.
    pub by_operator: bool,
    /// Where the host's `/dev/infiniband` is named, where it is mounted.
    pub infiniband_hostpath: Option<Spot>,
    /// Annotation keys that attach secondary networks (`networking.gke.io/interfaces`, `k8s.v1.cni.cncf.io/networks`).
    pub net_annotations: Vec<String>,
    /// Parts of the entry that are placeholders, so that nothing is known of them: `env`, `resources` (with claims and
    /// volumes), `securityContext`.
    pub unknown_parts: Vec<&'static str>,
    /// How the engine moves KV.
    pub kv_transfer: KvTransfer,
    /// What can give a fast KV path, in the order of [`Reach`].
    pub reach: Vec<Reach>,
    /// Engine flags that both roles must agree on or that name addresses, as far as stated: `tensor-parallel-size`,
    /// `block-size`, `disaggregation-ib-device`, `disaggregation-bootstrap-port`, `host` ...
    pub flags: BTreeMap<&'static str, String>,
    /// What TensorRT-LLM's file says of such flags, numbers alone, where other keys are laid over the map that holds it: it depends on
    /// the release whether it holds.
    pub may_be_dropped: BTreeMap<&'static str, String>,
    /// Where those flags are written, for the excerpt; of some it is not known.
    pub flag_spots: BTreeMap<&'static str, Spot>,
    /// The port on which vLLM publishes KV events, where it does.
    pub kv_events_port: Option<u16>,
    /// The engine is started by vLLM's own server (`vllm serve`), which unlike `dynamo.vllm` sets no address of its pod for
    /// peers. False where the launcher is not known.
    pub vllm_server: bool,
    /// The environment may hold variables that this input does not show: an object of `envFrom`, a file that the start script
    /// reads.
    pub env_unread: bool,
}

impl Worker {
    /// The literal value of a variable; None when it is unset or not known.
    pub fn literal(&self, name: &str) -> Option<&str> {
        match self.env.get(name).map(|e| &e.value) {
            Some(EnvValue::Literal(value)) => Some(value),
            _ => None,
        }
    }

    /// Where a flag is written; the worker's entry where that is not known.
    pub fn flag_spot(&self, name: &str) -> &Spot {
        self.flag_spots.get(name).unwrap_or(&self.spot)
    }

    /// What a reported flag is called where the worker's engine takes it: its flag, or the setting of TensorRT-LLM.
    pub fn calls(&self, flag: &'static str) -> String {
        match (self.engine, flag) {
            (Some(Engine::Trtllm), "block-size") => "kv_cache_config.tokens_per_block".to_owned(),
            (Some(Engine::Trtllm), "kv-cache-dtype") => "kv_cache_config.dtype".to_owned(),
            (Some(Engine::Sglang), "block-size") => "--page-size".to_owned(),
            _ => format!("--{flag}"),
        }
    }

    /// A placeholder stands where this part would be.
    pub fn lacks(&self, part: &str) -> bool {
        self.unknown_parts.contains(&part)
    }

    /// The worker as a sentence calls it: its name, and its role where the name does not say it already.
    pub fn called(&self) -> String {
        if self.name.to_lowercase().contains(self.role.word()) {
            self.name.clone()
        } else {
            format!("{} ({})", self.name, self.role)
        }
    }

    /// The pod asks for EFA devices.
    pub fn efa(&self) -> bool {
        self.rdma_resources
            .keys()
            .any(|k| k == "vpc.amazonaws.com/efa")
    }

    /// The pod claims a ComputeDomain channel.
    pub fn compute_domain(&self) -> bool {
        self.reach.contains(&Reach::ComputeDomain)
    }

    /// The pod asks for RDMA devices by resource, claim or mount.
    pub fn rdma_requested(&self) -> bool {
        self.reach.iter().any(|r| {
            matches!(
                r,
                Reach::DevicePlugin | Reach::DraRdma | Reach::HostPathInfiniband
            )
        })
    }

    /// The pod may open RDMA devices that it does not ask for: the host's network brings the host's devices with the right
    /// permissions, a privileged container sees all of them, and a claim whose template is not at hand may be one.
    pub fn may_reach_unasked(&self) -> bool {
        self.reach.contains(&Reach::HostNetwork)
            || self.privileged
            || self.lacks("securityContext")
            || !self.unresolved_claims.is_empty()
    }

    /// KV buffers are in host memory (`kv_buffer_device: cpu`).
    pub fn kv_in_host_memory(&self) -> bool {
        self.kv_transfer.buffer_device.as_deref() == Some("cpu")
    }
}
