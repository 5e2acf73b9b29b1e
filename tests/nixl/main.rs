//! `nixl` as its users meet it: the real binary, a fake cluster whose exec runs real shells and real Python, and a
//! stand-in for NIXL. Needs python3; elsewhere it says aloud that it did not run.
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

mod faults;
mod interrupt;
mod lanes;
mod many;
mod readiness;
mod real;
mod trusted;

use fake::cluster::FakeCluster;
use fake::kubelet::Exec;
use fake::pod::FakePod;
use run::Run;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
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

fn has_python() -> bool {
    let ok = std::process::Command::new("python3")
        .args(["-c", "import sys; sys.exit(sys.version_info < (3, 8))"])
        .status()
        .is_ok_and(|s| s.success());
    if !ok {
        skip::aloud("a stand-in transfer needs python3 from 3.8");
    }
    ok
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

const SITE: &str = "opt/dynamo/venv/lib/python3.12/site-packages";
const PORT: &str = "sys/class/infiniband/mlx5_0/ports/1";
/// A worker whose KV lies in host memory on purpose, so that host memory proves its path.
const HOST_MEMORY: &str =
    r#"KV_TRANSFER_CONFIG={"kv_connector":"NixlConnector","kv_buffer_device":"cpu"}"#;

/// A file system with one HCA that works and is granted, a vLLM worker and NIXL's wheel.
fn tree(more: &[(&str, &str)]) -> TempDir {
    let environ = format!("UCX_TLS=rc,cuda_copy\0HOME=/root\0{HOST_MEMORY}\0");
    let usual = [
        (format!("{PORT}/counters/port_xmit_data"), "1000\n"),
        (format!("{PORT}/counters/port_rcv_data"), "7\n"),
        (
            "proc/7/maps".to_owned(),
            "7f00-7f01 r-xp 0 08:01 1 /opt/dynamo/venv/lib/python3.12/site-packages/nixl_cu12.libs/libucp-1a2b.so.0.0.0\n",
        ),
        ("proc/7/environ".to_owned(), environ.as_str()),
        (format!("{SITE}/nixl_cu12-1.3.0.dist-info/METADATA"), ""),
        (format!("{SITE}/vllm-0.11.2.dist-info/METADATA"), ""),
        (format!("{SITE}/nixl_cu12.libs/nixl/libplugin_UCX.so"), ""),
        (format!("{SITE}/nixl_cu12.libs/libucp-1a2b.so.0.0.0"), ""),
        (format!("{SITE}/nixl_cu12.libs/ucx/libuct_ib-3c.so.0"), ""),
        (format!("{SITE}/nixl_cu12.libs/ucx/libuct_cuda-3c.so.0"), ""),
    ];
    let more = more.iter().map(|(path, text)| ((*path).to_owned(), *text));
    root::with_hca(usual.into_iter().chain(more))
}

/// A worker of the graph `g` with the stand-in for NIXL, which prints this log of UCX.
fn pod(name: &str, role: &str, root: &Path, log: &str) -> FakePod {
    let support = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support");
    let root_text = root.to_str().unwrap();
    FakePod::new("llm", name, root)
        .label("role", role)
        .label("nvidia.com/dynamo-graph-deployment-name", "g")
        .label("nvidia.com/dynamo-component-type", role)
        .exec(Exec::Probe)
        .env("PYTHONPATH", &format!("{support}/nixl_standin"))
        .env("NIXL_STANDIN_LOG", &format!("{support}/ucx_logs/{log}.txt"))
        .env("NIXL_STANDIN_PORT", &format!("{root_text}/{PORT}"))
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
