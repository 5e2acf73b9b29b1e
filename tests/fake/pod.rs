//! A pod of the fake cluster: its API object, and how exec in it behaves.

use super::kubelet::Exec;
use serde_json::{Value, json};
use std::path::PathBuf;

/// One pod.
pub struct FakePod {
    /// The API object.
    pub object: Value,
    /// What exec does.
    pub exec: Exec,
    /// The file system its processes see as `ROOT`.
    pub root: PathBuf,
    /// More variables of its processes.
    pub env: Vec<(String, String)>,
    /// A command that stands before every command: it enters a namespace, say.
    pub wrap: Vec<String>,
}

impl FakePod {
    /// A running pod with one container `main`.
    pub fn new(namespace: &str, name: &str, root: impl Into<PathBuf>) -> Self {
        let object = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"namespace": namespace, "name": name, "uid": format!("uid-{name}"), "labels": {}, "annotations": {}},
            "spec": {"nodeName": "node-a", "containers": []},
            "status": {"phase": "Running", "podIP": "10.0.0.1", "hostIP": "192.0.2.1", "containerStatuses": []},
        });
        let pod = Self {
            object,
            exec: Exec::Shell,
            root: root.into(),
            env: Vec::new(),
            wrap: Vec::new(),
        };
        pod.container("main")
    }

    /// Adds a running container.
    pub fn container(mut self, name: &str) -> Self {
        push(
            &mut self.object["spec"]["containers"],
            json!({"name": name, "image": format!("example.org/{name}:1")}),
        );
        push(
            &mut self.object["status"]["containerStatuses"],
            json!({"name": name, "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {}}}),
        );
        self
    }

    /// Sets a label.
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.object["metadata"]["labels"][key] = value.into();
        self
    }

    /// Sets any field by its JSON pointer; missing parents are made.
    pub fn set(mut self, pointer: &str, value: Value) -> Self {
        let mut at = &mut self.object;
        for part in pointer.split('/').skip(1) {
            at = match part.parse::<usize>() {
                Ok(index) => &mut at[index],
                Err(_) => &mut at[part.replace("~1", "/")],
            };
        }
        *at = value;
        self
    }

    /// Sets a variable of its processes.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the command that stands before every command.
    pub fn wrap(mut self, command: &[&str]) -> Self {
        self.wrap = command.iter().map(|w| (*w).to_owned()).collect();
        self
    }

    /// Sets what exec does.
    pub fn exec(mut self, exec: Exec) -> Self {
        self.exec = exec;
        self
    }

    /// Names of its containers.
    pub fn containers(&self) -> Vec<&str> {
        let containers = self.object["spec"]["containers"].as_array();
        containers
            .into_iter()
            .flatten()
            .filter_map(|c| c["name"].as_str())
            .collect()
    }

    /// Path of its API object.
    pub fn path(&self) -> String {
        let metadata = &self.object["metadata"];
        let text = |key: &str| metadata[key].as_str().unwrap().to_owned();
        format!(
            "/api/v1/namespaces/{}/pods/{}",
            text("namespace"),
            text("name")
        )
    }
}

fn push(list: &mut Value, item: Value) {
    list.as_array_mut().unwrap().push(item);
}
