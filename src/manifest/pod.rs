//! What a pod spec gives a container: resources, claims, rights, volumes, neighbours.

use super::companion::Companions;
use super::place::Range;
use super::workload::Reach;
use super::yaml::Node;
use crate::sanitise;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Longest name that is kept; Kubernetes allows 253.
pub(super) const NAME_CAP: usize = 300;

/// A pod template, however its kind writes it down.
#[derive(Debug)]
pub(super) struct Pod<'a> {
    /// Component, service or object name.
    pub name: String,
    /// Where its entry begins.
    pub range: Range,
    /// `type` of v1beta1.
    pub kind: Option<&'a str>,
    /// `componentType` of v1alpha1.
    pub component_kind: Option<&'a str>,
    /// `subComponentType` of v1alpha1.
    pub sub_kind: Option<&'a str>,
    /// `env` lists and their level, the later one wins.
    pub env: Vec<(&'static str, Node<'a>)>,
    /// `envFrom` list and its level. Everything in `env` wins over it.
    pub env_from: Option<(&'static str, Node<'a>)>,
    /// `resources` maps, the later one wins.
    pub resources: Vec<Node<'a>>,
    /// The container that serves.
    pub container: Option<Node<'a>>,
    /// The pod spec.
    pub spec: Option<Node<'a>>,
    /// `annotations` maps.
    pub annotations: Vec<Node<'a>>,
    /// Shared memory as written for the operator.
    pub shm: Option<String>,
    /// Where it stands.
    pub shm_range: Option<Range>,
    /// The Dynamo operator runs it.
    pub by_operator: bool,
    /// Replicas; 1 when not stated.
    pub replicas: u64,
    /// Nodes of one replica; 1 when not stated.
    pub nodes: u64,
}

/// Extended resources of a container.
#[derive(Debug, Default)]
pub(super) struct Resources {
    /// GPUs of one pod.
    pub gpus: Option<u64>,
    /// RDMA resources as written.
    pub rdma: BTreeMap<String, String>,
    /// Where they are written.
    pub range: Option<Range>,
    /// Names of the claims that the container uses.
    pub claims: Vec<String>,
}

/// Claims of a container and what is behind them.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// Name in the pod, and its template or claim.
    pub templates: BTreeMap<String, String>,
    /// Name in the pod, and its device classes.
    pub classes: BTreeMap<String, String>,
    /// Claims whose template is not in the input and that may be a ComputeDomain or an RDMA device.
    pub unresolved: Vec<String>,
    /// A ComputeDomain channel is claimed.
    pub compute_domain: bool,
    /// An RDMA device is claimed.
    pub rdma: bool,
}

fn name_of(text: &str) -> String {
    sanitise::line(text, NAME_CAP)
}

impl<'a> Pod<'a> {
    fn in_container(&self, path: &[&str]) -> Option<Node<'a>> {
        self.container?.at(path)
    }

    fn in_spec(&self, path: &[&str]) -> Option<Node<'a>> {
        self.spec?.at(path)
    }

    /// GPUs, RDMA resources and claims: all `resources` maps together, the later one wins.
    pub fn resources(&self) -> Resources {
        let mut out = Resources::default();
        let mut seen = HashSet::new();
        let mut gpu_range = None;
        let mut rdma_range = None;
        for resources in &self.resources {
            for side in ["requests", "limits"] {
                let Some(side) = resources.get(side) else {
                    continue;
                };
                let custom = side.get("custom").map(Node::entries).unwrap_or_default();
                for (key, value) in side.entries().into_iter().chain(custom) {
                    let (Some(name), Some(amount)) = (key.text(), value.word()) else {
                        continue;
                    };
                    if is_gpu(name) {
                        out.gpus = value.count().or(out.gpus);
                        gpu_range = Some(Range::pair(key, value));
                    } else if is_rdma(name) {
                        out.rdma.insert(name_of(name), name_of(amount));
                        rdma_range = Some(Range::pair(key, value));
                    }
                }
            }
            let claims = resources.get("claims").into_iter().flat_map(Node::items);
            for name in claims.filter_map(|claim| claim.word_at(&["name"])) {
                if seen.insert(name) {
                    out.claims.push(name.to_owned());
                }
            }
        }
        out.rdma.retain(|_, amount| amount != "0");
        out.range = rdma_range.or(gpu_range);
        out
    }

    /// The claims that the container uses and the pod declares.
    pub fn claims(&self, used: &[String], home: usize, all: &Companions<'_>) -> Claims {
        let mut out = Claims::default();
        let declared = self.in_spec(&["resourceClaims"]);
        let mut by_name = HashMap::new();
        for entry in declared.into_iter().flat_map(Node::items) {
            if let Some(name) = entry.word_at(&["name"]) {
                by_name.entry(name).or_insert(entry);
            }
        }
        for name in used {
            let entry = by_name.get(name.as_str());
            let template = entry.and_then(|e| {
                e.word_at(&["resourceClaimTemplateName"])
                    .or_else(|| e.word_at(&["resourceClaimName"]))
                    .or_else(|| e.word_at(&["source", "resourceClaimTemplateName"]))
                    .or_else(|| e.word_at(&["source", "resourceClaimName"]))
            });
            let shown = name_of(name);
            let classes = template.and_then(|template| all.device_classes(home, template));
            out.templates.insert(
                shown.clone(),
                name_of(template.unwrap_or("(not declared in resourceClaims)")),
            );
            match classes {
                Some(classes) => {
                    out.compute_domain |= classes.iter().any(|c| is_compute_domain(c));
                    out.rdma |= classes.iter().any(|c| is_rdma_class(c));
                    out.classes.insert(shown, name_of(&classes.join(",")));
                }
                None => {
                    // A name is weak evidence, and the only one there is.
                    let named = |f: fn(&str) -> bool| f(name) || template.is_some_and(f);
                    out.compute_domain |= named(is_compute_domain);
                    out.rdma |= named(is_rdma_class);
                    out.unresolved.push(shown);
                }
            }
        }
        out
    }

    fn added(&self) -> impl Iterator<Item = Node<'a>> {
        let list = self.in_container(&["securityContext", "capabilities", "add"]);
        list.into_iter().flat_map(Node::items)
    }

    /// All added capabilities.
    pub fn capabilities(&self) -> Vec<String> {
        self.added().filter_map(Node::word).map(name_of).collect()
    }

    /// Where the capability to lock memory is added.
    pub fn ipc_lock_range(&self) -> Option<Range> {
        let locks = |node: &Node<'_>| node.word().is_some_and(locks_memory);
        self.added().find(locks).map(Range::of)
    }

    /// The container is privileged.
    pub fn privileged(&self) -> bool {
        self.in_container(&["securityContext", "privileged"])
            .is_some_and(Node::is_true)
    }

    /// `runAsUser` of the container, else of the pod.
    pub fn run_as_user(&self) -> Option<i64> {
        self.user()?.1.word()?.parse().ok()
    }

    /// Where it is written.
    pub fn run_as_user_range(&self) -> Option<Range> {
        self.user().map(|(key, value)| Range::pair(key, value))
    }

    fn user(&self) -> Option<(Node<'a>, Node<'a>)> {
        let context = [
            self.in_container(&["securityContext"]),
            self.in_spec(&["securityContext"]),
        ];
        context
            .into_iter()
            .flatten()
            .find_map(|context| context.pair("runAsUser"))
    }

    /// A switch of the pod spec: `hostNetwork`, `hostIPC`.
    pub fn host(&self, switch: &str) -> bool {
        self.in_spec(&[switch]).is_some_and(Node::is_true)
    }

    /// The volume behind a volume mount.
    fn volume(&self, mount: Node<'_>) -> Option<Node<'a>> {
        let name = mount.word_at(&["name"])?;
        self.in_spec(&["volumes"])?
            .items()
            .find(|v| v.word_at(&["name"]) == Some(name))
    }

    fn mounts(&self) -> impl Iterator<Item = Node<'a>> {
        self.in_container(&["volumeMounts"])
            .into_iter()
            .flat_map(Node::items)
    }

    /// A volume the user mounts on `/dev/shm`.
    pub fn shm_user_mount(&self) -> Option<String> {
        let mount = self.mounts().find(|m| {
            m.word_at(&["mountPath"])
                .is_some_and(|p| p.trim_end_matches('/') == "/dev/shm")
        })?;
        let volume = self.volume(mount)?;
        if volume.get("hostPath").is_some() {
            return Some("hostPath".into());
        }
        let size = volume.word_at(&["emptyDir", "sizeLimit"]);
        Some(name_of(size.unwrap_or("no sizeLimit")))
    }

    /// Where shared memory is set, else where something is mounted on `/dev/shm`.
    pub fn shm_range(&self) -> Option<Range> {
        let mounted = || {
            self.mounts().find_map(|m| {
                let (key, value) = m.pair("mountPath")?;
                let path = value.text()?.trim_end_matches('/');
                (path == "/dev/shm").then(|| Range::pair(key, value))
            })
        };
        self.shm_range.or_else(mounted)
    }

    /// The host's `/dev/infiniband` is mounted in the container: where its volume names it.
    pub fn infiniband_hostpath(&self) -> Option<Range> {
        let volumes = self.in_spec(&["volumes"]).into_iter().flat_map(Node::items);
        let mut found: HashMap<&str, Range> = HashMap::new();
        for volume in volumes {
            let Some((key, value)) = volume.get("hostPath").and_then(|host| host.pair("path"))
            else {
                continue;
            };
            let path = value.word().unwrap_or_default().trim_end_matches('/');
            let holds =
                path == "/dev" || path == "/dev/infiniband" || path.starts_with("/dev/infiniband/");
            if let Some(name) = volume.word_at(&["name"]).filter(|_| holds) {
                found.entry(name).or_insert(Range::pair(key, value));
            }
        }
        if found.is_empty() {
            return None;
        }
        self.mounts()
            .find_map(|m| found.get(m.word_at(&["name"])?).copied())
    }

    /// Annotation keys that attach secondary networks.
    pub fn net_annotations(&self) -> Vec<String> {
        let mut keys: Vec<String> = Vec::new();
        for (key, _) in self.annotations.iter().flat_map(|map| map.entries()) {
            let Some(key) = key.text() else { continue };
            if key.starts_with("networking.gke.io/")
                || key.starts_with("k8s.v1.cni.cncf.io/networks")
                || key == "v1.multus-cni.io/default-network"
            {
                keys.push(name_of(key));
            }
        }
        keys.sort();
        keys.dedup();
        keys
    }

    /// The text of a file in the container that a ConfigMap of the input provides.
    pub fn mounted_file<'b>(
        &self,
        path: &str,
        home: usize,
        all: &'b Companions<'_>,
    ) -> Option<&'b str> {
        let mount = self
            .mounts()
            .filter(|m| {
                m.word_at(&["mountPath"])
                    .is_some_and(|p| under(path, p).is_some())
            })
            .max_by_key(|m| m.word_at(&["mountPath"]).map_or(0, str::len))?;
        let volume = self.volume(mount)?;
        let below = under(path, mount.word_at(&["mountPath"])?)?;
        let wanted = match (mount.word_at(&["subPath"]), below) {
            (Some(sub), "") => sub.to_owned(),
            (Some(sub), below) => format!("{sub}/{below}"),
            (None, below) => below.to_owned(),
        };
        let sources = volume
            .at(&["projected", "sources"])
            .into_iter()
            .flat_map(Node::items);
        for map in volume
            .get("configMap")
            .into_iter()
            .chain(sources.filter_map(|s| s.get("configMap")))
        {
            let Some(name) = map.word_at(&["name"]) else {
                continue;
            };
            let mut items = map.get("items").into_iter().flat_map(Node::items);
            let renamed = items.find(|i| i.word_at(&["path"]) == Some(&wanted));
            let key = renamed.and_then(|i| i.word_at(&["key"])).unwrap_or(&wanted);
            if let Some(text) = all.config_value(home, name, key) {
                return Some(text);
            }
        }
        None
    }

    /// `podAffinity` on the host name, preferred or required.
    pub fn pulls_together(&self) -> bool {
        let Some(affinity) = self.in_spec(&["affinity", "podAffinity"]) else {
            return false;
        };
        terms(affinity, true).any(is_hostname)
    }

    /// Required `podAntiAffinity` on the host name that acts on other workers. A term that names only the component
    /// itself keeps its replicas apart, not the roles.
    pub fn pushes_apart(&self) -> bool {
        let Some(affinity) = self.in_spec(&["affinity", "podAntiAffinity"]) else {
            return false;
        };
        terms(affinity, false)
            .filter(|t| is_hostname(*t))
            .any(|term| !self.selects_only_itself(term))
    }

    fn selects_only_itself(&self, term: Node<'_>) -> bool {
        const KEY: &str = "nvidia.com/dynamo-component";
        let Some(selector) = term.get("labelSelector") else {
            return false;
        };
        let label = selector
            .get("matchLabels")
            .and_then(|m| m.get(KEY))
            .and_then(Node::word);
        let mut expressions = selector
            .get("matchExpressions")
            .into_iter()
            .flat_map(Node::items);
        let values = expressions
            .find(|e| e.word_at(&["key"]) == Some(KEY) && e.word_at(&["operator"]) == Some("In"))
            .and_then(|e| e.get("values"));
        let mut named = label
            .into_iter()
            .chain(
                values
                    .into_iter()
                    .flat_map(Node::items)
                    .filter_map(Node::word),
            )
            .peekable();
        named.peek().is_some() && named.all(|name| name == self.name)
    }
}

fn terms(affinity: Node<'_>, preferred: bool) -> impl Iterator<Item = Node<'_>> {
    let required = affinity
        .get("requiredDuringSchedulingIgnoredDuringExecution")
        .into_iter()
        .flat_map(Node::items);
    let weighted = affinity
        .get("preferredDuringSchedulingIgnoredDuringExecution")
        .filter(|_| preferred)
        .into_iter()
        .flat_map(Node::items)
        .filter_map(|t| t.get("podAffinityTerm"));
    required.chain(weighted)
}

fn is_hostname(term: Node<'_>) -> bool {
    term.word_at(&["topologyKey"]) == Some("kubernetes.io/hostname")
}

/// What is left of `path` below the directory or file `mount`.
fn under<'p>(path: &'p str, mount: &str) -> Option<&'p str> {
    let rest = path.strip_prefix(mount.trim_end_matches('/'))?;
    if rest.is_empty() {
        Some(rest)
    } else {
        rest.strip_prefix('/')
    }
}

/// The capability lets a process lock memory.
pub fn locks_memory(capability: &str) -> bool {
    matches!(capability, "IPC_LOCK" | "CAP_IPC_LOCK" | "ALL")
}

/// `gpu` is the operator's own word; the others are device plugins.
pub fn is_gpu(name: &str) -> bool {
    matches!(name, "gpu" | "nvidia.com/gpu" | "amd.com/gpu")
        || name.starts_with("gpu.intel.com/")
        || name.starts_with("nvidia.com/mig-")
}

/// `rdma/ib`, `vpc.amazonaws.com/efa`, `networking.gke.io.networks/rdma-0`, `nvidia.com/rdma_shared_device_a`. Sites name the
/// resources of their device plugins themselves, and most say what they are: `nvidia.com/hostdev` and `nvidia.com/mlnxnics`
/// are those of NVIDIA's network operator, `openshift.io/mlxnics` and `intel.com/mlnx_sriov_rdma` of the SR-IOV plugin,
/// `aliyun/erdma` and `tke.cloud.tencent.com/tke-shared-rdma` of clouds.
pub fn is_rdma(name: &str) -> bool {
    const WORDS: [&str; 7] = [
        "rdma",
        "roce",
        "hostdev",
        "mlnx",
        "mlxnic",
        "infiniband",
        "sriov_ib",
    ];
    if name == "vpc.amazonaws.com/efa" || name.starts_with("rdma/") {
        return true;
    }
    let Some((_, own)) = name.rsplit_once('/') else {
        return false;
    };
    own.starts_with("hca_") || WORDS.iter().any(|word| own.contains(word))
}

fn is_compute_domain(name: &str) -> bool {
    name.starts_with("ComputeDomain:") || name.contains("compute-domain")
}

fn is_rdma_class(name: &str) -> bool {
    let name = name.strip_prefix("ComputeDomain:").map_or(name, |_| "");
    ["rdma", "dranet", "roce", "infiniband", "mlnx"]
        .iter()
        .any(|part| name.contains(part))
}

/// What can give a fast KV path, in order.
pub(super) fn reach(
    resources: &Resources,
    claims: &Claims,
    hostpath: bool,
    host_network: bool,
) -> Vec<Reach> {
    let all = [
        (Reach::DevicePlugin, !resources.rdma.is_empty()),
        (Reach::DraRdma, claims.rdma),
        (Reach::ComputeDomain, claims.compute_domain),
        (Reach::HostPathInfiniband, hostpath),
        (Reach::HostNetwork, host_network),
    ];
    all.into_iter()
        .filter_map(|(reach, has)| has.then_some(reach))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_of_known_plugins_are_rdma_and_others_are_not() {
        for name in [
            "rdma/ib",
            "vpc.amazonaws.com/efa",
            "networking.gke.io.networks/rdma-0",
            "nvidia.com/rdma_shared_device_a",
            "rdma.example/hca_shared_devices_a",
            "nvidia.com/hostdev",
            "nvidia.com/mlnxnics",
            "nvidia.com/sriov_rdma",
            "openshift.io/mlxnics",
            "intel.com/mlnx_sriov_rdma",
            "aliyun/erdma",
            "tke.cloud.tencent.com/tke-shared-rdma",
            "nvidia.com/roce",
        ] {
            assert!(is_rdma(name), "{name}");
        }
        for name in [
            "nvidia.com/gpu",
            "cpu",
            "hugepages-2Mi",
            "rdma",
            "mlnx.example/other",
            "amd.com/gpu",
        ] {
            assert!(!is_rdma(name), "{name}");
        }
    }
}
