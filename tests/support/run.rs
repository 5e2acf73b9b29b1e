//! The real binary, run against a fake cluster, and what its report says.

use serde_json::Value;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::process::Command;

/// One run of the binary.
pub struct Run {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    /// Since it was started, or since it was sent a signal.
    pub took: Duration,
}

impl Run {
    fn of(output: std::process::Output, since: Instant) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            took: since.elapsed(),
        }
    }

    pub fn report(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("{e}: {}\n{}", self.stdout, self.stderr))
    }

    /// All findings.
    pub fn checks(&self) -> Vec<Value> {
        self.report()["checks"].as_array().unwrap().clone()
    }

    /// The finding of this name about this object.
    pub fn finding(&self, object: &str, name: &str) -> Value {
        let mut all = self.checks().into_iter();
        all.find(|f| f["name"] == name && f["target"]["name"] == object)
            .unwrap_or_else(|| panic!("no {name} of {object}: {}", self.stdout))
    }

    /// Status and detail of the finding of this name about this object.
    pub fn said(&self, object: &str, name: &str) -> (String, String) {
        let found = self.finding(object, name);
        let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
        (text("status"), text("detail"))
    }
}

/// The binary with this subcommand, away from what the machine of the tests is set up for.
pub fn command(subcommand: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dynamo-interconnect-check"));
    command
        .env_remove("KUBECONFIG")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .env_remove("CLICOLOR_FORCE")
        .env("COLUMNS", "100")
        .arg(subcommand)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

pub async fn run(mut command: Command) -> Run {
    let started = Instant::now();
    Run::of(command.output().await.unwrap(), started)
}

/// Adds how the fake cluster is reached.
pub fn against(mut command: Command, kubeconfig: &Path) -> Command {
    command.arg("--kubeconfig").arg(kubeconfig);
    command
}

/// Starts the binary, sends it signals once `ready` holds, a moment after each other, and waits for its end.
pub async fn interrupted(mut command: Command, signals: &[&str], ready: impl Fn() -> bool) -> Run {
    let child = command.spawn().unwrap();
    let started = Instant::now();
    while !ready() {
        assert!(
            started.elapsed() < Duration::from_secs(120),
            "it never got so far"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let pid = child.id().unwrap().to_string();
    let asked = Instant::now();
    for signal in signals {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let sent = std::process::Command::new("kill")
            .args([*signal, &pid])
            .status()
            .unwrap();
        assert!(sent.success());
    }
    Run::of(child.wait_with_output().await.unwrap(), asked)
}
