//! `node` as its users meet it: the real binary against a fake cluster with a real shell behind exec.
#![expect(
    clippy::unwrap_used,
    reason = "a fixture that cannot be built ends the test"
)]

#[expect(dead_code, reason = "only a part of the fake cluster is needed here")]
#[path = "../fake/mod.rs"]
mod fake;
#[path = "../support/root.rs"]
mod root;

mod access;
mod faults;
mod interrupt;
mod pasted;
mod recordings;
mod targets;

use fake::cluster::FakeCluster;
use fake::kubelet::Exec;
use fake::pod::FakePod;
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::process::Command;

/// One run of the binary.
struct Run {
    code: Option<i32>,
    stdout: String,
    stderr: String,
    took: Duration,
}

impl Run {
    fn report(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("{e}: {}\n{}", self.stdout, self.stderr))
    }

    /// Status and detail of one finding about one object.
    fn finding(&self, object: &str, name: &str) -> (String, String) {
        let report = self.report();
        let found = report["checks"]
            .as_array()
            .unwrap()
            .iter()
            .find(|f| f["name"] == name && f["target"]["name"] == object)
            .unwrap_or_else(|| panic!("no {name} of {object}: {}", self.stdout));
        let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
        (text("status"), text("detail"))
    }

    /// What is said of a target as a whole.
    fn target(&self, pod: &str) -> (String, String) {
        self.finding(pod, "node:target")
    }

    /// The pods that the report speaks of, each with its status as a target.
    fn targets(&self) -> Vec<(String, String)> {
        let report = self.report();
        let of = |f: &Value| {
            let text = |v: &Value| v.as_str().unwrap().to_owned();
            (text(&f["target"]["name"]), text(&f["status"]))
        };
        let all = report["checks"].as_array().unwrap();
        all.iter()
            .filter(|f| f["name"] == "node:target")
            .map(of)
            .collect()
    }
}

fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dynamo-interconnect-check"));
    command
        .env_remove("KUBECONFIG")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .env_remove("CLICOLOR_FORCE")
        .arg("node")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

async fn run(args: &[&str]) -> Run {
    let started = Instant::now();
    let output = command().args(args).output().await.unwrap();
    Run {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
        took: started.elapsed(),
    }
}

/// The binary against this cluster.
async fn on(fake: &FakeCluster, args: &[&str]) -> Run {
    let kubeconfig = fake.kubeconfig();
    let mut all = vec!["--kubeconfig", kubeconfig.to_str().unwrap()];
    all.extend(args);
    run(&all).await
}

/// A file system with one RDMA device that works, and a worker. Files below `bin` are stand-ins for tools.
fn tree(more: &[(&str, &str)]) -> TempDir {
    let usual = [
        // In place of what the machine that runs the tests has of these.
        ("bin/ibstat", "#!/bin/sh\nexit 1\n"),
        ("bin/rdma", "#!/bin/sh\nexit 1\n"),
        ("bin/ucx_info", "#!/bin/sh\nexit 1\n"),
        ("proc/7/environ", "UCX_TLS=rc,cuda_copy\0HOME=/root\0"),
    ];
    let files = usual.iter().chain(more);
    root::with_hca(files.map(|(path, text)| ((*path).to_owned(), *text)))
}

/// A decode worker of the graph `g` whose probe sees this tree.
fn worker(name: &str, root: &Path) -> FakePod {
    FakePod::new("llm", name, root)
        .label("app", "g")
        .label("nvidia.com/dynamo-graph-deployment-name", "g")
        .label("nvidia.com/dynamo-component-type", "decode")
        .set(
            "/spec/containers/0/env",
            serde_json::json!([{"name": "UCX_TLS", "value": "rc,cuda_copy"}]),
        )
        .exec(Exec::Probe)
}

/// How often each kind of request came: GETs by what they read, execs, reviews.
fn counted(fake: &FakeCluster) -> Vec<(String, usize)> {
    let mut counts = std::collections::BTreeMap::new();
    for request in fake.requests() {
        let kind = if request.path.ends_with("/exec") {
            "exec"
        } else if request.path.ends_with("selfsubjectaccessreviews") {
            "review"
        } else if request.path.ends_with("/pods") {
            "list"
        } else if request.path.contains("/pods/") {
            "get"
        } else {
            request.path.trim_start_matches('/')
        };
        *counts.entry(kind.to_owned()).or_insert(0) += 1;
    }
    counts.into_iter().collect()
}
