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
#[path = "../support/run.rs"]
mod run;
#[path = "../support/skip.rs"]
mod skip;

mod access;
mod faults;
mod in_pod;
mod interrupt;
mod pasted;
mod recordings;
mod targets;

use fake::cluster::FakeCluster;
use fake::kubelet::Exec;
use fake::pod::FakePod;
use run::Run;
use serde_json::Value;
use std::path::Path;
use tempfile::TempDir;
use tokio::process::Command;

impl Run {
    /// What is said of a target as a whole.
    fn target(&self, pod: &str) -> (String, String) {
        self.said(pod, "node:target")
    }

    /// The pods that the report speaks of, each with its status as a target.
    fn targets(&self) -> Vec<(String, String)> {
        let of = |f: &Value| {
            let text = |v: &Value| v.as_str().unwrap().to_owned();
            (text(&f["target"]["name"]), text(&f["status"]))
        };
        let all = self.checks();
        all.iter()
            .filter(|f| f["name"] == "node:target")
            .map(of)
            .collect()
    }
}

fn command() -> Command {
    run::command("node")
}

async fn run(args: &[&str]) -> Run {
    let mut command = command();
    command.args(args);
    run::run(command).await
}

/// The binary against this cluster.
async fn on(fake: &FakeCluster, args: &[&str]) -> Run {
    let mut command = run::against(command(), &fake.kubeconfig());
    command.args(args);
    run::run(command).await
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
