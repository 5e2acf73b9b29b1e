//! A pod as this tool sees it. The API object is reduced to these fields the moment it arrives and then dropped:
//! annotations (`last-applied-configuration` holds whole manifests), arguments and foreign variables go no further.

use super::call::said;
use crate::manifest::workload::Role;
use crate::snapshot::over;
use k8s_openapi::api::core::v1 as api;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use std::collections::BTreeMap;
use std::fmt;

/// One pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Identity: a pod of the same name with another uid is another pod.
    pub uid: String,
    /// Node it was scheduled to.
    pub node: Option<String>,
    /// Its own address.
    pub pod_ip: Option<String>,
    /// Its node's address.
    pub host_ip: Option<String>,
    /// Phase of its life.
    pub phase: Phase,
    /// It is being deleted.
    pub deleting: bool,
    /// Why it is not scheduled, or why it failed, in the cluster's words.
    pub reason: Option<String>,
    /// The labels of the Dynamo operator.
    pub labels: Labels,
    /// Containers, and init containers that stay (native sidecars).
    pub containers: Vec<Container>,
    /// Container that the pod itself names as the one to exec into (`kubectl.kubernetes.io/default-container`).
    pub default_container: Option<String>,
    /// Shares the node's network namespace.
    pub host_network: bool,
    /// Shares the node's IPC namespace.
    pub host_ipc: bool,
    /// Shares the node's PID namespace.
    pub host_pid: bool,
    /// Runtime class, as named.
    pub runtime_class: Option<String>,
    /// DRA claims.
    pub claims: Vec<Claim>,
    /// Keys of annotations that attach secondary networks; their values are dropped.
    pub network_annotations: Vec<&'static str>,
    /// Name of the object that made it, without the part that changes with every version of a Deployment.
    pub owner: Option<String>,
    /// Moment of its making, as the API writes it: later ones are larger.
    pub created: String,
}

/// Phase of a pod's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Not all containers were started.
    Pending,
    /// On a node, at least one container was started.
    Running,
    /// All containers ended well.
    Succeeded,
    /// All containers ended, at least one badly.
    Failed,
    /// The node does not report.
    Unknown,
}

/// Labels that the Dynamo operator sets, in both styles that are live.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    /// `nvidia.com/dynamo-graph-deployment-name`.
    pub graph: Option<String>,
    /// `nvidia.com/dynamo-component`.
    pub component: Option<String>,
    /// `nvidia.com/dynamo-component-type`.
    pub component_type: Option<String>,
    /// `nvidia.com/dynamo-sub-component-type`; only on pods of the older style.
    pub sub_component_type: Option<String>,
    /// `nvidia.com/dynamo-worker-hash`: generation of the worker, for rolling updates.
    pub worker_hash: Option<String>,
    /// `llm-d.ai/role`, by which llm-d tells prefill from decode.
    pub llm_d_role: Option<String>,
}

/// One container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// Name.
    pub name: String,
    /// Image as asked for.
    pub image: Option<String>,
    /// Image as pulled, with its digest.
    pub image_id: Option<String>,
    /// An init container that stays.
    pub native_sidecar: bool,
    /// What it does now.
    pub state: State,
    /// Passes its readiness probe.
    pub ready: bool,
    /// How often it was started again.
    pub restarts: i32,
    /// `resources.limits`, quantities as written.
    pub limits: BTreeMap<String, String>,
    /// Names of the pod's DRA claims it uses.
    pub claims: Vec<String>,
    /// Catalogued variables of the worker container; empty for every other container.
    pub env: BTreeMap<String, EnvValue>,
    /// ConfigMaps and Secrets whose every key becomes a variable: named, never read.
    pub env_from: Vec<Reference>,
    /// Privileges.
    pub security: Security,
    /// What is mounted where RDMA and shared memory look.
    pub mounts: Vec<Mount>,
}

/// What a container does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It runs.
    Running,
    /// It was not started, or waits to be started again: `CrashLoopBackOff: back-off 5m0s ...`.
    Waiting(String),
    /// It ended.
    Ended {
        /// Exit code.
        code: i32,
        /// `Completed`, `Error`, `OOMKilled`.
        reason: String,
    },
    /// The node reported nothing yet.
    Unknown,
}

/// Value of a variable in the pod spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnvValue {
    /// Written out. Built only for names that the catalogue allows.
    Literal(String),
    /// Taken from elsewhere at start. Never resolved.
    Reference(Reference),
}

/// Where a variable comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// A field of the pod: `status.podIP`.
    Field(String),
    /// A resource of a container: `limits.cpu`.
    Resource(String),
    /// A ConfigMap; without a key, all of it.
    ConfigMap {
        /// Its name.
        name: String,
        /// The key.
        key: Option<String>,
    },
    /// A Secret; without a key, all of it.
    Secret {
        /// Its name.
        name: String,
        /// The key.
        key: Option<String>,
    },
    /// A kind this version does not know.
    Unknown,
}

/// Privileges of a container, its own over the pod's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Security {
    /// Privileged.
    pub privileged: bool,
    /// Capabilities that are added.
    pub capabilities: Vec<String>,
    /// User it runs as.
    pub run_as_user: Option<i64>,
}

/// A mount at `/dev` or below.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Path in the container.
    pub path: String,
    /// What is mounted.
    pub source: MountSource,
}

/// What is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MountSource {
    /// An emptyDir.
    EmptyDir {
        /// `Memory` for a tmpfs.
        medium: Option<String>,
        /// Its limit as written.
        size_limit: Option<String>,
    },
    /// A path of the node.
    HostPath(String),
    /// Anything else.
    Other,
}

/// One DRA claim of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Name within the pod.
    pub name: String,
    /// Template it is made from.
    pub template: Option<String>,
    /// The claim itself: named in the spec, or made from the template.
    pub claim: Option<String>,
}

/// Variable that names the deployment on every worker of the operator, also where the label is absent.
const PARENT: &str = "DYN_PARENT_DGD_K8S_NAME";

/// Annotations that attach secondary networks.
const NETWORKS: [&str; 2] = [
    "k8s.v1.cni.cncf.io/networks",
    "networking.gke.io/interfaces",
];

impl Pod {
    /// The deployment this pod belongs to: by label, else by the variable the operator sets.
    pub fn deployment(&self) -> Option<&str> {
        let by_env = || {
            self.containers
                .iter()
                .find_map(|c| match c.env.get(PARENT) {
                    Some(EnvValue::Literal(name)) => Some(name.as_str()),
                    _ => None,
                })
        };
        self.labels.graph.as_deref().or_else(by_env)
    }

    /// What it does in its deployment, as far as the labels say. The newer style names the role as the component type;
    /// the older one says `worker` there and the role beside it. None for a worker whose labels do not say.
    pub fn role(&self) -> Option<Role> {
        let labels = [
            &self.labels.component_type,
            &self.labels.sub_component_type,
            &self.labels.llm_d_role,
        ];
        labels
            .into_iter()
            .flatten()
            .find_map(|word| match word.to_ascii_lowercase().as_str() {
                "prefill" => Some(Role::Prefill),
                "decode" => Some(Role::Decode),
                "encode" => Some(Role::Encode),
                _ => None,
            })
    }

    /// The labels call it a worker, of either style. None where the operator's labels are absent.
    pub fn is_worker(&self) -> Option<bool> {
        let kind = self.labels.component_type.as_deref()?;
        Some(self.role().is_some() || kind.eq_ignore_ascii_case("worker"))
    }

    /// It has failed, has completed or is being deleted: it will not run again.
    pub fn is_over(&self) -> bool {
        self.deleting || matches!(self.phase, Phase::Failed | Phase::Succeeded)
    }

    /// Its containers that count pass their readiness probes, and it is not over.
    pub fn is_ready(&self) -> bool {
        let found = self.container(None);
        !self.is_over() && found.is_ok_and(|container| container.ready)
    }

    /// Why nothing can run in this container now; None when it runs.
    pub fn why_not_running(&self, container: &str) -> Option<String> {
        let tail = |words: &str| match &self.reason {
            Some(reason) => format!("{words}: {reason}"),
            None => words.to_owned(),
        };
        match (self.phase, &self.node) {
            _ if self.deleting => return Some(over::DELETED.to_owned()),
            (Phase::Pending, None) => return Some(tail("the pod is not scheduled to a node")),
            (Phase::Succeeded, _) => return Some(over::COMPLETED.to_owned()),
            (Phase::Failed, _) => return Some(tail(over::FAILED)),
            (Phase::Pending | Phase::Running | Phase::Unknown, _) => {}
        }
        let found = self.containers.iter().find(|c| c.name == container);
        match found.map(|c| &c.state) {
            Some(State::Running) => None,
            Some(State::Waiting(reason)) => Some(format!("container {container} waits: {reason}")),
            Some(State::Ended { code, reason }) => Some(format!(
                "container {container} has ended with code {code} ({reason})"
            )),
            Some(State::Unknown) => Some(format!("container {container} has not been started")),
            None => Some(format!("the pod has no container {container}")),
        }
    }

    /// The container to look into: the one asked for; else `main`, which the operator uses; else the one the pod
    /// itself names; else the only one; else the only one with a GPU; else the only one that is not a known sidecar.
    pub fn container(&self, wanted: Option<&str>) -> Result<&Container, NoContainer> {
        let named = |name: &str| self.containers.iter().find(|c| c.name == name);
        if let Some(wanted) = wanted {
            return named(wanted).ok_or_else(|| self.no_container(Some(wanted)));
        }
        let only = |fits: fn(&Container) -> bool| {
            let mut fitting = self.containers.iter().filter(|c| fits(c));
            fitting.next().filter(|_| fitting.next().is_none())
        };
        named(MAIN)
            .or_else(|| self.default_container.as_deref().and_then(named))
            .or_else(|| only(|_| true))
            .or_else(|| only(Container::has_gpu))
            .or_else(|| only(|c| !c.is_sidecar()))
            .ok_or_else(|| self.no_container(None))
    }

    fn no_container(&self, wanted: Option<&str>) -> NoContainer {
        NoContainer {
            pod: format!("{}/{}", self.namespace, self.name),
            wanted: wanted.map(said),
            choices: self.containers.iter().map(|c| said(&c.name)).collect(),
        }
    }
}

/// Name of the worker container in every pod of the operator.
pub const MAIN: &str = "main";

/// Sidecars by name: the operator's own, service meshes, log and secret agents.
const SIDECARS: &[&str] = &[
    "sidecar-frontend",
    "gms",
    "istio-proxy",
    "istio-validation",
    "linkerd-proxy",
    "envoy",
    "vault-agent",
    "fluent-bit",
    "fluentd",
    "otel-collector",
    "cloudsql-proxy",
    "gke-gcsfuse-sidecar",
];

impl Container {
    /// Asks for a GPU.
    pub fn has_gpu(&self) -> bool {
        self.limits.iter().any(|(name, n)| {
            (name == "nvidia.com/gpu" || name.starts_with("nvidia.com/mig-")) && n != "0"
        })
    }

    /// A helper beside the worker.
    pub fn is_sidecar(&self) -> bool {
        self.native_sidecar || SIDECARS.contains(&self.name.as_str())
    }
}

/// The pod has no container that could be meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoContainer {
    /// The pod, with its namespace.
    pub pod: String,
    /// The name that was asked for.
    pub wanted: Option<String>,
    /// Names that would do.
    pub choices: Vec<String>,
}

impl std::error::Error for NoContainer {}

impl fmt::Display for NoContainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.wanted {
            Some(wanted) => write!(
                f,
                "pod {} has no container {}",
                said(&self.pod),
                said(wanted)
            )?,
            None => write!(
                f,
                "pod {} has several containers and none is main",
                said(&self.pod)
            )?,
        }
        write!(f, "; give -c NAME, one of: {}", self.choices.join(", "))
    }
}

/// Reduces an API object. `catalogued` decides which variables of the worker container may be seen at all.
pub(crate) fn project(pod: api::Pod, catalogued: &dyn Fn(&str) -> bool) -> Pod {
    let api::Pod {
        metadata,
        spec,
        status,
    } = pod;
    let (spec, status) = (spec.unwrap_or_default(), status.unwrap_or_default());
    let annotations = metadata.annotations.unwrap_or_default();
    let labels = metadata.labels.unwrap_or_default();
    let label = |key: &str| labels.get(key).map(|v| said(v));
    let pod_user = spec.security_context.as_ref().and_then(|s| s.run_as_user);
    let states = || {
        let groups = [&status.container_statuses, &status.init_container_statuses];
        groups.into_iter().flatten().flatten()
    };
    let volumes: BTreeMap<String, MountSource> = spec
        .volumes
        .unwrap_or_default()
        .into_iter()
        .map(|v| (v.name.clone(), source(v)))
        .collect();
    let staying = spec
        .init_containers
        .unwrap_or_default()
        .into_iter()
        .filter(|c| c.restart_policy.as_deref() == Some("Always"))
        .map(|c| (c, true));
    let containers = spec
        .containers
        .into_iter()
        .map(|c| (c, false))
        .chain(staying)
        .map(|(container, native_sidecar)| {
            let state = states().find(|s| s.name == container.name);
            project_container(container, native_sidecar, state, pod_user, &volumes)
        })
        .collect::<Vec<(Container, Vec<api::EnvVar>)>>();
    let (containers, mut envs): (Vec<_>, Vec<_>) = containers.into_iter().unzip();
    let mut projected = Pod {
        namespace: metadata.namespace.unwrap_or_default(),
        name: metadata.name.unwrap_or_default(),
        uid: metadata.uid.unwrap_or_default(),
        node: spec.node_name,
        pod_ip: status.pod_ip.clone(),
        host_ip: status.host_ip.clone(),
        phase: phase(status.phase.as_deref()),
        deleting: metadata.deletion_timestamp.is_some(),
        reason: reason(&status),
        labels: Labels {
            graph: label("nvidia.com/dynamo-graph-deployment-name"),
            component: label("nvidia.com/dynamo-component"),
            component_type: label("nvidia.com/dynamo-component-type"),
            sub_component_type: label("nvidia.com/dynamo-sub-component-type"),
            worker_hash: label("nvidia.com/dynamo-worker-hash"),
            llm_d_role: label("llm-d.ai/role"),
        },
        containers,
        default_container: annotations
            .get("kubectl.kubernetes.io/default-container")
            .cloned(),
        host_network: spec.host_network.unwrap_or_default(),
        host_ipc: spec.host_ipc.unwrap_or_default(),
        host_pid: spec.host_pid.unwrap_or_default(),
        runtime_class: spec.runtime_class_name,
        claims: claims(spec.resource_claims, &status),
        network_annotations: NETWORKS
            .into_iter()
            .filter(|key| annotations.contains_key(*key))
            .collect(),
        owner: owner(
            metadata.owner_references.unwrap_or_default(),
            labels.get("pod-template-hash"),
        ),
        created: metadata
            .creation_timestamp
            .map(|at| at.0.to_string())
            .unwrap_or_default(),
    };
    // Which container is the worker is known only now; the variables of all others are dropped unseen.
    let worker = projected.container(None).ok().map(|c| c.name.clone());
    for (container, env) in projected.containers.iter_mut().zip(&mut envs) {
        if Some(&container.name) == worker.as_ref() {
            container.env = visible(std::mem::take(env), catalogued);
        }
    }
    projected
}

/// The controller that made a pod: of a ReplicaSet, its Deployment.
fn owner(references: Vec<OwnerReference>, template: Option<&String>) -> Option<String> {
    let controller = references
        .into_iter()
        .find(|r| r.controller == Some(true))?;
    let hashed = template.and_then(|hash| controller.name.strip_suffix(hash)?.strip_suffix('-'));
    Some(said(hashed.unwrap_or(&controller.name)))
}

fn project_container(
    container: api::Container,
    native_sidecar: bool,
    status: Option<&api::ContainerStatus>,
    pod_user: Option<i64>,
    volumes: &BTreeMap<String, MountSource>,
) -> (Container, Vec<api::EnvVar>) {
    let security = container.security_context.unwrap_or_default();
    let resources = container.resources.unwrap_or_default();
    let mounts = container.volume_mounts.unwrap_or_default();
    let projected = Container {
        image: container.image.map(|i| said(&i)),
        image_id: status.map(|s| said(&s.image_id)).filter(|i| !i.is_empty()),
        native_sidecar,
        state: state(status.and_then(|s| s.state.as_ref())),
        ready: status.is_some_and(|s| s.ready),
        restarts: status.map_or(0, |s| s.restart_count),
        limits: resources
            .limits
            .unwrap_or_default()
            .into_iter()
            .map(|(name, quantity)| (name, quantity.0))
            .collect(),
        claims: resources
            .claims
            .unwrap_or_default()
            .into_iter()
            .map(|c| c.name)
            .collect(),
        env: BTreeMap::new(),
        env_from: container
            .env_from
            .unwrap_or_default()
            .into_iter()
            .map(env_from)
            .collect(),
        security: Security {
            privileged: security.privileged.unwrap_or_default(),
            capabilities: security
                .capabilities
                .and_then(|c| c.add)
                .unwrap_or_default(),
            run_as_user: security.run_as_user.or(pod_user),
        },
        mounts: mounts
            .into_iter()
            .filter(|m| m.mount_path == "/dev" || m.mount_path.starts_with("/dev/"))
            .map(|m| Mount {
                source: volumes.get(&m.name).cloned().unwrap_or(MountSource::Other),
                path: m.mount_path,
            })
            .collect(),
        name: container.name,
    };
    (projected, container.env.unwrap_or_default())
}

fn visible(env: Vec<api::EnvVar>, catalogued: &dyn Fn(&str) -> bool) -> BTreeMap<String, EnvValue> {
    env.into_iter()
        .filter(|v| catalogued(&v.name) || v.name == PARENT)
        .map(|v| {
            let value = match v.value_from {
                Some(from) => EnvValue::Reference(reference(from)),
                None => EnvValue::Literal(v.value.unwrap_or_default()),
            };
            (v.name, value)
        })
        .collect()
}

fn reference(from: api::EnvVarSource) -> Reference {
    let api::EnvVarSource {
        config_map_key_ref,
        field_ref,
        resource_field_ref,
        secret_key_ref,
        ..
    } = from;
    let field = field_ref.map(|f| Reference::Field(f.field_path));
    let resource = resource_field_ref.map(|r| Reference::Resource(r.resource));
    let config_map = config_map_key_ref.map(|c| Reference::ConfigMap {
        name: c.name,
        key: Some(c.key),
    });
    let secret = secret_key_ref.map(|s| Reference::Secret {
        name: s.name,
        key: Some(s.key),
    });
    field
        .or(resource)
        .or(config_map)
        .or(secret)
        .unwrap_or(Reference::Unknown)
}

fn env_from(from: api::EnvFromSource) -> Reference {
    let config_map = from.config_map_ref.map(|c| Reference::ConfigMap {
        name: c.name,
        key: None,
    });
    let secret = from.secret_ref.map(|s| Reference::Secret {
        name: s.name,
        key: None,
    });
    config_map.or(secret).unwrap_or(Reference::Unknown)
}

fn source(volume: api::Volume) -> MountSource {
    match (volume.empty_dir, volume.host_path) {
        (Some(dir), _) => MountSource::EmptyDir {
            medium: dir.medium.filter(|m| !m.is_empty()),
            size_limit: dir.size_limit.map(|q| q.0),
        },
        (None, Some(host)) => MountSource::HostPath(host.path),
        (None, None) => MountSource::Other,
    }
}

fn claims(claims: Option<Vec<api::PodResourceClaim>>, status: &api::PodStatus) -> Vec<Claim> {
    let made = status
        .resource_claim_statuses
        .as_deref()
        .unwrap_or_default();
    claims
        .unwrap_or_default()
        .into_iter()
        .map(|c| {
            let from_template = made.iter().find(|m| m.name == c.name);
            let from_template = from_template.and_then(|m| m.resource_claim_name.clone());
            Claim {
                claim: c.resource_claim_name.or(from_template),
                template: c.resource_claim_template_name,
                name: c.name,
            }
        })
        .collect()
}

fn phase(word: Option<&str>) -> Phase {
    match word {
        Some("Pending") => Phase::Pending,
        Some("Running") => Phase::Running,
        Some("Succeeded") => Phase::Succeeded,
        Some("Failed") => Phase::Failed,
        _ => Phase::Unknown,
    }
}

fn state(state: Option<&api::ContainerState>) -> State {
    let Some(state) = state else {
        return State::Unknown;
    };
    if state.running.is_some() {
        return State::Running;
    }
    if let Some(ended) = &state.terminated {
        return State::Ended {
            code: ended.exit_code,
            reason: said(ended.reason.as_deref().unwrap_or("no reason given")),
        };
    }
    match &state.waiting {
        Some(waiting) => State::Waiting(words(&waiting.reason, &waiting.message)),
        None => State::Unknown,
    }
}

/// The pod's own reason, else that of the scheduler.
fn reason(status: &api::PodStatus) -> Option<String> {
    if status.reason.is_some() || status.message.is_some() {
        return Some(words(&status.reason, &status.message));
    }
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let unscheduled = conditions
        .iter()
        .find(|c| c.type_ == "PodScheduled" && c.status == "False");
    unscheduled.map(|c| words(&c.reason, &c.message))
}

fn words(reason: &Option<String>, message: &Option<String>) -> String {
    match (reason, message) {
        (Some(reason), Some(message)) => said(&format!("{reason}: {message}")),
        (Some(one), None) | (None, Some(one)) => said(one),
        (None, None) => "no reason given".to_owned(),
    }
}
