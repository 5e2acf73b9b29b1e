//! Deployments to put into the fake cluster: pods of one graph with the file systems that their probes see.

use crate::fake::cluster::{Builder, FakeCluster};
use crate::fake::kubelet::Exec;
use crate::fake::pod::FakePod;
use crate::root;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Where the API server keeps the objects of the operator.
pub const GRAPHS: &str = "/apis/nvidia.com/v1beta1/namespaces/llm/dynamographdeployments";

/// Environment of a worker that uses InfiniBand well.
pub const GOOD: &str = "UCX_TLS=rc,cuda_copy,cuda_ipc\0HOME=/root\0";

/// A deployment that is being built: pods, and their trees, which must outlive the cluster.
pub struct Fleet {
    name: String,
    pods: Vec<FakePod>,
    trees: Vec<TempDir>,
}

impl Fleet {
    /// An empty deployment.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            pods: Vec::new(),
            trees: Vec::new(),
        }
    }

    /// Adds a running worker with InfiniBand, on a node of its own, with these files beside the usual ones; `change` has the
    /// last word on its API object.
    pub fn worker(
        mut self,
        role: &str,
        files: &[(&str, &str)],
        change: impl FnOnce(FakePod) -> FakePod,
    ) -> Self {
        let usual = [
            ("bin/ibstat", "#!/bin/sh\nexit 1\n"),
            ("bin/rdma", "#!/bin/sh\nexit 1\n"),
            ("bin/ucx_info", "#!/bin/sh\nexit 1\n"),
            ("proc/7/environ", GOOD),
        ];
        let tree = root::with_hca(
            usual
                .iter()
                .chain(files)
                .map(|(path, text)| ((*path).to_owned(), *text)),
        );
        let position = self.pods.len();
        let pod = FakePod::new("llm", &format!("{role}-{position}"), tree.path())
            .label("nvidia.com/dynamo-graph-deployment-name", &self.name)
            .label("nvidia.com/dynamo-component", role)
            .label("nvidia.com/dynamo-component-type", role)
            .set("/spec/nodeName", json!(format!("node-{position}")))
            .set("/status/podIP", json!(format!("10.0.{position}.1")))
            .set(
                "/spec/containers/0/command",
                json!(["python3", "-m", "dynamo.vllm"]),
            )
            .set(
                "/spec/containers/0/resources",
                json!({"limits": {"nvidia.com/gpu": "8", "rdma/ib": "8"}}),
            )
            .set(
                "/spec/containers/0/securityContext",
                json!({"capabilities": {"add": ["IPC_LOCK"]}}),
            )
            .set(
                "/spec/containers/0/env",
                json!([{"name": "UCX_TLS", "value": "rc,cuda_copy,cuda_ipc"}]),
            )
            .exec(Exec::Probe);
        self.pods.push(change(pod));
        self.trees.push(tree);
        self
    }

    /// The API object of one of its pods, changed.
    pub fn object_of(&self, name: &str, change: impl FnOnce(&mut Value)) -> Value {
        let pod = self
            .pods
            .iter()
            .find(|p| p.object["metadata"]["name"] == name)
            .unwrap();
        let mut object = pod.object.clone();
        change(&mut object);
        object
    }

    /// Its object, as the operator stores it.
    pub fn object(&self) -> Value {
        let component = |role: &str| {
            json!({
                "name": role, "type": role, "replicas": 1,
                "podTemplate": {"spec": {"containers": [{
                    "name": "main", "command": ["python3", "-m", "dynamo.vllm"],
                    "resources": {"limits": {"nvidia.com/gpu": "8", "rdma/ib": "8"}},
                    "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
                    "env": [{"name": "UCX_TLS", "value": "rc,cuda_copy,cuda_ipc"}, {"name": "HF_TOKEN", "value": "c4n4ry"}],
                }]}},
            })
        };
        json!({
            "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
            "metadata": {"name": self.name, "namespace": "llm", "annotations": {"x": "c4n4ry"}},
            "spec": {"backendFramework": "vllm", "components": [component("prefill"), component("decode")]},
        })
    }

    /// Puts its pods into a cluster; the trees live as long as what is returned.
    pub fn pods_into(self, mut cluster: Builder) -> (Builder, Vec<TempDir>) {
        for pod in self.pods {
            cluster = cluster.with(pod);
        }
        (cluster, self.trees)
    }

    /// Puts it into a cluster, with its object.
    pub fn into(self, cluster: Builder) -> (Builder, Vec<TempDir>) {
        let path = format!("{GRAPHS}/{}", self.name);
        let cluster = cluster.object(&path, self.object());
        self.pods_into(cluster)
    }
}

/// One prefill and one decode worker that are well.
pub fn healthy(name: &str) -> Fleet {
    Fleet::new(name)
        .worker("prefill", &[], |pod| pod)
        .worker("decode", &[], |pod| pod)
}

/// A cluster with nothing in it.
pub fn cluster() -> Builder {
    FakeCluster::builder()
}
