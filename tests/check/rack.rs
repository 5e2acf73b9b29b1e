//! Deployments of two prefill and two decode workers, made of recorded machines: each pod answers as a machine of its own,
//! with its own names, addresses, GUIDs and LIDs. What the object and the pods say fits the machines, so that a healthy rack
//! has nothing to complain about, and a scenario changes only what it is about.

use crate::fake::cluster::Builder;
use crate::fake::kubelet::Exec;
use crate::fake::pod::FakePod;
use crate::fleet::{GRAPHS, cluster};
use dynamo_interconnect_check::ask::{self, Kind};
use serde_json::{Map, Value, json};
use std::fs;
use std::sync::Arc;

/// A recorded machine, and what a pod needs to use its fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fabric {
    /// Eight ports of 400 Gb/s InfiniBand, vLLM.
    InfiniBand,
    /// The same machine on RoCE with an interface per rail, SGLang.
    Roce,
    /// AWS p5 with 32 EFA, vLLM over libfabric.
    Efa,
    /// GB200 in one NVLink domain, TensorRT-LLM.
    Mnnvl,
}

impl Fabric {
    pub const ALL: [Self; 4] = [Self::InfiniBand, Self::Roce, Self::Efa, Self::Mnnvl];

    fn machine(self) -> &'static str {
        match self {
            Self::InfiniBand => "hgx-h100-ib",
            Self::Roce => "hgx-h100-roce",
            Self::Efa => "p5-efa",
            Self::Mnnvl => "gb200-imex",
        }
    }

    fn gpus(self) -> usize {
        if self == Self::Mnnvl { 4 } else { 8 }
    }

    /// The resource that the device plugin offers.
    pub fn resource(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::InfiniBand => Some(("rdma/ib", "8")),
            Self::Roce => Some(("rdma/roce", "8")),
            Self::Efa => Some(("vpc.amazonaws.com/efa", "32")),
            Self::Mnnvl => None,
        }
    }

    fn product(self) -> &'static str {
        match self {
            Self::Mnnvl => "NVIDIA-GB200",
            _ => "NVIDIA-H100-80GB-HBM3",
        }
    }

    /// How the worker of a role is started.
    fn args(self, role: &str) -> Vec<String> {
        let all: &[&str] = match self {
            Self::InfiniBand => &[
                "--is-ROLE-worker",
                "--tensor-parallel-size=8",
                r#"--kv-transfer-config={"kv_connector":"NixlConnector","kv_role":"kv_both"}"#,
            ],
            Self::Efa => &[
                "--is-ROLE-worker",
                "--tensor-parallel-size=8",
                r#"--kv-transfer-config={"kv_connector":"NixlConnector","kv_role":"kv_both","kv_connector_extra_config":{"backends":["LIBFABRIC"]}}"#,
            ],
            Self::Roce => &[
                "--disaggregation-mode=ROLE",
                "--tp-size=8",
                "--disaggregation-transfer-backend=nixl",
            ],
            Self::Mnnvl => &[
                "--disaggregation-mode=ROLE",
                "--extra-engine-args=/etc/trtllm/ROLE.yaml",
            ],
        };
        all.iter().map(|arg| arg.replace("ROLE", role)).collect()
    }

    fn module(self) -> &'static str {
        match self {
            Self::InfiniBand | Self::Efa => "dynamo.vllm",
            Self::Roce => "dynamo.sglang",
            Self::Mnnvl => "dynamo.trtllm",
        }
    }
}

/// One worker: its API object, and what its machine answers.
pub struct Worker {
    pub name: String,
    pub role: &'static str,
    pub ip: String,
    pub object: Value,
    answers: Map<String, Value>,
    exec: Option<Exec>,
}

impl Worker {
    fn new(fabric: Fabric, role: &'static str, n: usize) -> Self {
        let path = format!(
            "{}/tests/machines/{}.json",
            env!("CARGO_MANIFEST_DIR"),
            fabric.machine()
        );
        let recorded: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        let mut answers = Map::new();
        for (id, answer) in recorded["answers"].as_object().unwrap() {
            let answer = match answer["text"].as_str() {
                Some(text) => json!({"text": varied(text, n)}),
                None => answer.clone(),
            };
            answers.insert(id.clone(), answer);
        }
        let text = answers["ip-addr"]["text"].as_str().unwrap();
        let ip = text.split("eth0    inet ").nth(1).unwrap();
        let ip = ip.split('/').next().unwrap().to_owned();
        let name = format!("g-{role}-{}", n % 2);
        let environment = answers["environment"]["text"].as_str().unwrap();
        let env: Vec<Value> = environment
            .lines()
            .filter_map(|line| line.split_once('='))
            .map(|(name, value)| match name {
                "VLLM_NIXL_SIDE_CHANNEL_HOST" => {
                    json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}})
                }
                _ => json!({"name": name, "value": value}),
            })
            .collect();
        let mut limits = json!({"nvidia.com/gpu": fabric.gpus().to_string()});
        if let Some((resource, amount)) = fabric.resource() {
            limits[resource] = amount.into();
        }
        let security = match fabric {
            Fabric::Efa => json!({"privileged": true}),
            _ => json!({"capabilities": {"add": ["IPC_LOCK"]}}),
        };
        let shm = (
            json!({"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}}),
            json!({"name": "shared-memory", "mountPath": "/dev/shm"}),
        );
        let mut pod = FakePod::new("llm", &name, "/nowhere")
            .label("nvidia.com/dynamo-graph-deployment-name", "g")
            .label("nvidia.com/dynamo-component", role)
            .label("nvidia.com/dynamo-component-type", role)
            .set("/spec/nodeName", json!(format!("node-{n}")))
            .set("/status/podIP", json!(ip))
            .set("/status/hostIP", json!(format!("192.0.2.{}", n + 1)))
            .set(
                "/status/containerStatuses/0/image",
                json!("example.org/runtime:1"),
            )
            .set(
                "/status/containerStatuses/0/imageID",
                json!("example.org/runtime@sha256:1"),
            )
            .set("/spec/containers/0/image", json!("example.org/runtime:1"))
            .set(
                "/spec/containers/0/command",
                json!(["python3", "-m", fabric.module()]),
            )
            .set("/spec/containers/0/args", json!(fabric.args(role)))
            .set("/spec/containers/0/env", json!(env))
            .set("/spec/containers/0/securityContext", security)
            .set("/spec/containers/0/volumeMounts", json!([shm.1]))
            .set("/spec/volumes", json!([shm.0]));
        match fabric {
            Fabric::InfiniBand => {}
            Fabric::Roce => {
                pod = pod.set(
                    "/metadata/annotations",
                    json!({"k8s.v1.cni.cncf.io/networks": "rail-1,rail-2,rail-3,rail-4,rail-5,rail-6,rail-7,rail-8"}),
                );
            }
            Fabric::Efa => {
                let other = if role == "prefill" {
                    "decode"
                } else {
                    "prefill"
                };
                pod = pod.set(
                    "/spec/affinity",
                    json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
                        "labelSelector": {"matchLabels": {"nvidia.com/dynamo-component": other}},
                        "topologyKey": "kubernetes.io/hostname"}]}}),
                );
            }
            Fabric::Mnnvl => {
                pod = pod
                    .set(
                        "/spec/resourceClaims",
                        json!([{"name": "channel", "resourceClaimTemplateName": "g-channel"}]),
                    )
                    .set(
                        "/spec/volumes",
                        json!([shm.0, {"name": "engine", "configMap": {"name": "engine"}}]),
                    )
                    .set(
                        "/spec/containers/0/volumeMounts",
                        json!([shm.1, {"name": "engine", "mountPath": "/etc/trtllm"}]),
                    );
            }
        }
        let mut resources = json!({"limits": limits});
        if fabric == Fabric::Mnnvl {
            resources["claims"] = json!([{"name": "channel"}]);
        }
        let pod = pod.set("/spec/containers/0/resources", resources);
        Self {
            name,
            role,
            ip,
            object: pod.object,
            answers,
            exec: None,
        }
    }

    /// What a tool or file says.
    pub fn text(&self, id: &str) -> &str {
        self.answers[id]["text"].as_str().unwrap()
    }

    /// Says something else.
    pub fn answer(&mut self, id: &str, text: impl Into<String>) -> &mut Self {
        self.answers
            .insert(id.to_owned(), json!({"text": text.into()}));
        self
    }

    /// Says something else in one place. It must be there.
    pub fn replace(&mut self, id: &str, from: &str, to: &str) -> &mut Self {
        let text = self.text(id);
        assert!(text.contains(from), "no {from:?} in {id}");
        let text = text.replace(from, to);
        self.answer(id, text)
    }

    /// Only the lines of which this is true.
    pub fn only(&mut self, id: &str, keep: impl Fn(&str) -> bool) -> &mut Self {
        let text: String = self
            .text(id)
            .split_inclusive('\n')
            .filter(|line| keep(line))
            .collect();
        self.answer(id, text)
    }

    /// There is no such file or tool.
    pub fn absent(&mut self, id: &str) -> &mut Self {
        let answer = json!({"missing": {"reason": "not-found", "detail": ""}});
        self.answers.insert(id.to_owned(), answer);
        self
    }

    /// Sets a field of the pod.
    pub fn set(&mut self, pointer: &str, value: Value) -> &mut Self {
        let pod = FakePod::new("llm", "x", "/nowhere");
        let object = std::mem::take(&mut self.object);
        self.object = FakePod { object, ..pod }.set(pointer, value).object;
        self
    }

    /// A field of the container.
    pub fn container(&mut self, field: &str, value: Value) -> &mut Self {
        self.set(&format!("/spec/containers/0/{field}"), value)
    }

    /// A limit of the container; none takes it away.
    pub fn limit(&mut self, resource: &str, amount: Option<&str>) -> &mut Self {
        let limits = self.object["spec"]["containers"][0]["resources"]["limits"]
            .as_object_mut()
            .unwrap();
        match amount {
            Some(amount) => limits.insert(resource.to_owned(), json!(amount)),
            None => limits.remove(resource),
        };
        self
    }

    /// A variable of the running worker, from wherever.
    pub fn live(&mut self, name: &str, value: Option<&str>) -> &mut Self {
        let assigned = format!("{name}=");
        self.only("environment", |line| !line.starts_with(&assigned));
        let Some(value) = value else { return self };
        let text = format!("{}{name}={value}\n", with_newline(self.text("environment")));
        self.answer("environment", text)
    }

    /// A variable of the pod and of its worker; none takes it away.
    pub fn env(&mut self, name: &str, value: Option<&str>) -> &mut Self {
        let env = self.object["spec"]["containers"][0]["env"]
            .as_array_mut()
            .unwrap();
        env.retain(|v| v["name"] != name);
        if let Some(value) = value {
            env.push(json!({"name": name, "value": value}));
        }
        self.live(name, value)
    }

    /// Another argument of the worker.
    pub fn arg(&mut self, arg: &str) -> &mut Self {
        let args = self.object["spec"]["containers"][0]["args"]
            .as_array_mut()
            .unwrap();
        args.push(json!(arg));
        self
    }

    /// What exec does instead of answering.
    pub fn exec(&mut self, exec: Exec) -> &mut Self {
        self.exec = Some(exec);
        self
    }

    /// Everything that the probe would print.
    fn output(&self) -> Vec<u8> {
        let mut out = String::new();
        let mut fields = String::new();
        for (id, answer) in &self.answers {
            let mut text = answer["text"].as_str().unwrap_or_default();
            // These are read together.
            let mut all = ask::ALL.iter();
            if all.any(|ask| ask.id == id && matches!(ask.kind, Kind::Fields { .. })) {
                fields.push_str(text);
                text = "";
            }
            let missing = answer["missing"]["reason"].as_str();
            let status = match missing {
                None => "ok",
                Some("not-found") => "no-tool it",
                Some("not-applicable") => "not-needed",
                Some("denied") => "denied it",
                Some("timeout") => "timeout 5 it",
                Some(other) => other,
            };
            out.push_str(&format!(
                "@NONCE@ begin {id}\n{text}\n@NONCE@ end {id} {status}\n"
            ));
        }
        out.push_str(&format!(
            "@NONCE@ begin fields\n{fields}\n@NONCE@ end fields ok\n@NONCE@ done\n"
        ));
        out.into_bytes()
    }
}

fn with_newline(text: &str) -> String {
    format!("{}\n", text.trim_end_matches('\n'))
}

/// What a recorded machine says, as the n-th of its kind says it: no two nodes share an address, a GUID or a LID.
fn varied(text: &str, n: usize) -> String {
    let mut text = text
        .replace("1a20", &format!("{:02x}20", 0x1a + n))
        .replace("53ff:fe", &format!("5{n}ff:fe"))
        .replace("GPU-00000000-", &format!("GPU-{n:08}-"))
        .replace("10.0.4.11", &format!("10.0.4.{}", 11 + n));
    // Every node has its own range of pod addresses.
    for own in [3, 5] {
        text = text
            .replace(
                &format!("10.244.{own}."),
                &format!("10.244.{}.", own + 10 * n),
            )
            .replace(
                &format!("00{own:02X}F40A"),
                &format!("00{:02X}F40A", own + 10 * n),
            );
    }
    for rail in 1..=8 {
        text = text
            .replace(
                &format!("192.168.{rail}.17"),
                &format!("192.168.{rail}.{}", 17 + n),
            )
            .replace(
                &format!("c0a8:0{rail}11"),
                &format!("c0a8:0{rail}{:02x}", 17 + n),
            );
    }
    let lid = |line: &str| {
        let (head, value) = line.rsplit_once([' ', '\t'])?;
        let is = head.ends_with("/lid:")
            || head.ends_with("Base lid:")
            || head.trim_end().ends_with("port_lid:");
        let hex = value.strip_prefix("0x");
        let number = hex.map_or_else(|| value.parse().ok(), |h| usize::from_str_radix(h, 16).ok());
        let number = number.filter(|number| is && *number > 0)? + 32 * n;
        let value = if hex.is_some() {
            format!("{number:#x}")
        } else {
            number.to_string()
        };
        Some(format!("{}{value}", &line[..=head.len()]))
    };
    let lines: Vec<String> = text
        .split('\n')
        .map(|line| lid(line).unwrap_or_else(|| line.to_owned()))
        .collect();
    lines.join("\n")
}

/// What becomes of an object.
type Change = Box<dyn FnOnce(&mut Value)>;

/// A whole deployment.
pub struct Rack {
    pub workers: Vec<Worker>,
    nodes: Vec<Value>,
    more: Vec<(String, Value)>,
    written: Vec<Change>,
}

impl Rack {
    pub fn new(fabric: Fabric) -> Self {
        let roles = ["prefill", "prefill", "decode", "decode"];
        let workers = roles
            .iter()
            .enumerate()
            .map(|(n, role)| Worker::new(fabric, role, n))
            .collect();
        let nodes = (0..roles.len()).map(|n| node(fabric, n)).collect();
        let mut more = Vec::new();
        if fabric == Fabric::Mnnvl {
            let members: Vec<Value> = (0..roles.len())
                .map(|n| json!({"name": format!("node-{n}"), "cliqueID": "5c9ad3a2-6d11-4f0b-9a43-b34f5b3a1d10.32766", "status": "Ready"}))
                .collect();
            let domain = json!({
                "apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomain",
                "metadata": {"name": "g", "namespace": "llm"},
                "spec": {"numNodes": roles.len(), "channel": {"resourceClaimTemplate": {"name": "g-channel"}}},
                "status": {"status": "Ready", "nodes": members},
            });
            more.push((format!("{DOMAINS}/g"), domain));
            let template = json!({
                "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
                "metadata": {"name": "g-channel", "namespace": "llm"},
                "spec": {"spec": {"devices": {"requests": [{"name": "channel",
                    "exactly": {"deviceClassName": "compute-domain-default-channel.nvidia.com", "allocationMode": "ExactCount", "count": 1}}]}}},
            });
            more.push((format!("{CLAIMS}/g-channel"), template));
            let engine = "tensor_parallel_size: 4\ncache_transceiver_config:\n  backend: DEFAULT\n";
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "engine", "namespace": "llm"},
                "data": {"prefill.yaml": engine, "decode.yaml": engine}});
            more.push(("/api/v1/namespaces/llm/configmaps/engine".to_owned(), map));
        }
        Self {
            workers,
            nodes,
            more,
            written: Vec::new(),
        }
    }

    /// Changes the workers whose name holds this: a role, or one pod.
    pub fn at(mut self, which: &str, change: impl Fn(&mut Worker)) -> Self {
        let mut changed = 0;
        for worker in self.workers.iter_mut().filter(|w| w.name.contains(which)) {
            change(worker);
            changed += 1;
        }
        assert!(changed > 0, "no worker {which}");
        self
    }

    /// Changes all workers.
    pub fn all(self, change: impl Fn(&mut Worker)) -> Self {
        self.at("g-", change)
    }

    /// Changes a node.
    pub fn node(mut self, n: usize, change: impl FnOnce(&mut Value)) -> Self {
        change(&mut self.nodes[n]);
        self
    }

    /// Changes an object beside the pods: its path holds this.
    pub fn other(mut self, path: &str, change: impl FnOnce(&mut Value)) -> Self {
        let (_, object) = self
            .more
            .iter_mut()
            .find(|(p, _)| p.contains(path))
            .unwrap();
        change(object);
        self
    }

    /// Puts objects beside the pods to another path.
    pub fn moved(mut self, from: &str, to: &str) -> Self {
        for (path, _) in &mut self.more {
            *path = path.replace(from, to);
        }
        self
    }

    /// Changes the object of the operator alone: what was written and does not run.
    pub fn written(mut self, change: impl FnOnce(&mut Value) + 'static) -> Self {
        self.written.push(Box::new(change));
        self
    }

    /// The object of the operator, after the first pod of each component.
    fn graph(&self) -> Value {
        let component = |role: &str| {
            let pods: Vec<&Worker> = self.workers.iter().filter(|w| w.role == role).collect();
            let mut spec = pods[0].object["spec"].clone();
            spec.as_object_mut().unwrap().remove("nodeName");
            json!({"name": role, "type": role, "replicas": pods.len(), "sharedMemorySize": "64Gi",
                "podTemplate": {"metadata": {"annotations": pods[0].object["metadata"]["annotations"]}, "spec": spec}})
        };
        json!({
            "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
            "metadata": {"name": "g", "namespace": "llm"},
            "spec": {"components": [component("prefill"), component("decode")]},
        })
    }

    /// Its manifests: the object of the operator, and what stands beside it.
    pub fn manifests(&self) -> Vec<Value> {
        let beside = self.more.iter().map(|(_, object)| object.clone());
        [self.graph()].into_iter().chain(beside).collect()
    }

    /// Puts it into a cluster.
    pub fn into(mut self) -> Builder {
        let mut object = self.graph();
        for change in std::mem::take(&mut self.written) {
            change(&mut object);
        }
        let mut cluster = cluster().object(&format!("{GRAPHS}/g"), object);
        for (path, object) in self.more {
            cluster = cluster.object(&path, object);
        }
        for node in self.nodes {
            let path = format!(
                "/api/v1/nodes/{}",
                node["metadata"]["name"].as_str().unwrap()
            );
            cluster = cluster.object(&path, node);
        }
        for worker in self.workers {
            let exec = worker.exec.clone().unwrap_or_else(|| {
                Exec::Answers(Arc::new(worker.output()), std::time::Duration::ZERO)
            });
            let mut pod = FakePod::new("llm", &worker.name, "/nowhere").exec(exec);
            pod.object = worker.object;
            cluster = cluster.with(pod);
        }
        cluster
    }
}

/// Where ComputeDomains are.
pub const DOMAINS: &str = "/apis/resource.nvidia.com/v1beta1/namespaces/llm/computedomains";

/// Where the templates of claims are.
pub const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/llm/resourceclaimtemplates";

fn node(fabric: Fabric, n: usize) -> Value {
    let mut allocatable = json!({"cpu": "100", "nvidia.com/gpu": fabric.gpus().to_string()});
    if let Some((resource, amount)) = fabric.resource() {
        allocatable[resource] = amount.into();
    }
    let mut labels =
        json!({"nvidia.com/gpu.product": fabric.product(), "topology.kubernetes.io/zone": "z1"});
    if fabric == Fabric::Mnnvl {
        labels["nvidia.com/gpu.clique"] = json!("5c9ad3a2-6d11-4f0b-9a43-b34f5b3a1d10.32766");
    }
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": format!("node-{n}"), "labels": labels},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
    })
}
