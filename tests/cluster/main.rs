//! The cluster side against a fake API server with a real shell behind exec.
#![expect(
    clippy::unwrap_used,
    reason = "a fixture that cannot be built ends the test"
)]

#[expect(dead_code, reason = "only a part of the fake cluster is needed here")]
#[path = "../fake/mod.rs"]
mod fake;

mod access;
mod connect;
mod exec;
mod find;
mod many;

use dynamo_interconnect_check::cluster::connect::{Cluster, Options, connect};
use dynamo_interconnect_check::cluster::kubeconfig::Surroundings;
use dynamo_interconnect_check::probe::pod_exec::{ExecTarget, Limits};
use fake::cluster::FakeCluster;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use tempfile::TempDir;

/// A client of the fake cluster, connected as the tool connects.
async fn connected(fake: &FakeCluster) -> Cluster {
    let options = Options {
        kubeconfig: Some(fake.kubeconfig()),
        ..Options::default()
    };
    connect(&options, &Surroundings::default()).await.unwrap()
}

/// A fixture tree. Files below `bin` are stand-ins for tools.
fn tree(files: &[(&str, &str)]) -> TempDir {
    let dir = TempDir::new().unwrap();
    for (path, text) in files {
        let file = dir.path().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, text).unwrap();
        if path.starts_with("bin/") {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    dir
}

fn at(pod: &str, container: Option<&str>) -> ExecTarget {
    let container = container.map(str::to_owned);
    ExecTarget {
        namespace: "llm".to_owned(),
        pod: pod.to_owned(),
        container,
    }
}

/// Limits with a generous deadline: only tests about deadlines shorten it.
fn limits() -> Limits {
    Limits {
        deadline: Duration::from_secs(60),
        ..Limits::default()
    }
}
