//! `nixl` as its users meet it: the real binary, a fake cluster whose exec runs real shells and real Python, and a
//! stand-in for NIXL. Needs python3; elsewhere it says aloud that it did not run.
#![expect(
    clippy::unwrap_used,
    reason = "a fixture that cannot be built ends the test"
)]

#[expect(dead_code, reason = "only a part of the fake cluster is needed here")]
#[path = "../fake/mod.rs"]
mod fake;
#[path = "../support/python.rs"]
mod python;
#[path = "../support/root.rs"]
mod root;
#[path = "../support/run.rs"]
mod run;
#[path = "../support/skip.rs"]
mod skip;
#[path = "../support/standin.rs"]
mod standin;

mod faults;
mod interrupt;
mod lanes;
mod many;
mod readiness;
mod real;
mod trusted;

use fake::cluster::FakeCluster;
use fake::pod::FakePod;
use run::Run;
use serde_json::Value;
use standin::{PORT, SITE, has_python, pod, tree};
use std::path::Path;
use std::time::Duration;
use tokio::process::Command;

impl Run {
    /// Trust in one word; with what failed, where it is not this.
    fn assert_trust(&self, expected: &str) {
        let mut failed = self.checks();
        failed.retain(|f| f["status"] == "fail");
        assert_eq!(self.report()["trust"], expected, "{failed:#?}");
    }

    /// Status and detail of the transfer from one pod to another.
    fn transfer(&self, initiator: &str, target: &str) -> (String, String) {
        self.said(&format!("{initiator} -> {target}"), "kv-transfer")
    }

    /// What the matrix says of each pair: `a -> b`, status, proven.
    fn pairs(&self) -> Vec<(String, String, bool)> {
        let report = self.report();
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let made = report["pairs"]["made"].as_array().cloned();
        let one = |p: &Value| {
            (
                format!("{} -> {}", text(&p["initiator"]), text(&p["target"])),
                text(&p["status"]),
                p["proven"] == true,
            )
        };
        made.into_iter().flatten().map(|p| one(&p)).collect()
    }
}

async fn run(args: &[&str]) -> Run {
    let mut command = run::command("nixl");
    command.args(args);
    run::run(command).await
}

fn against(fake: &FakeCluster, args: &[&str]) -> Command {
    let mut command = run::against(run::command("nixl"), &fake.kubeconfig());
    command.args(args);
    command
}

/// The binary against this cluster.
async fn on(fake: &FakeCluster, args: &[&str]) -> Run {
    run::run(against(fake, args)).await
}

/// A quick transfer.
async fn transfer(fake: &FakeCluster, args: &[&str]) -> Run {
    let mut all = vec!["--transfer", "--quick"];
    all.extend(args);
    on(fake, &all).await
}

/// A prefill pod `p` and a decode pod `d`.
async fn two(prefill: FakePod, decode: FakePod) -> FakeCluster {
    FakeCluster::builder()
        .with(prefill)
        .with(decode)
        .orphans_live_on()
        .start()
        .await
}

/// Nothing was written through the API, and no process of these pods is left.
async fn assert_clean(fake: &FakeCluster, roots: &[&Path]) {
    assert_eq!(fake.writes(), []);
    for _ in 0..200 {
        if !roots.iter().any(|root| still_running(root)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("a process was left running");
}

fn still_running(root: &Path) -> bool {
    let wanted = format!("ROOT={}\0", root.display());
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|p| std::fs::read(p.path().join("environ")).ok())
        .any(|e| String::from_utf8_lossy(&e).contains(&wanted))
}
