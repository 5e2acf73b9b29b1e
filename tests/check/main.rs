//! `check` as its users meet it: the real binary against a fake cluster with a deployment in it.
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
#[expect(dead_code, reason = "only a part of it is needed here")]
#[path = "../support/run.rs"]
mod run;
#[path = "../support/skip.rs"]
mod skip;
#[path = "../support/standin.rs"]
mod standin;

mod baseline;
mod budget;
mod discovery;
mod environment;
mod faults;
mod fleet;
mod healthy;
mod job;
mod nodes;
mod pastes;
mod rack;
mod scenarios;
mod transfers;
mod troubleshooting;
mod trusted;

use fake::cluster::FakeCluster;
use run::Run;
use serde_json::Value;

impl Run {
    /// Ids of `fix_first`, in order.
    fn fixes(&self) -> Vec<String> {
        let report = self.report();
        let all = report["fix_first"].as_array().unwrap();
        all.iter()
            .map(|f| f["id"].as_str().unwrap().to_owned())
            .collect()
    }

    /// `STATUS ID NAME on TARGET: DETAIL` of everything that is worse than skipped.
    fn complaints(&self) -> Vec<String> {
        let report = self.report();
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let all = report["checks"].as_array().unwrap();
        all.iter()
            .filter(|f| f["status"] == "warn" || f["status"] == "fail")
            .map(|f| {
                format!(
                    "{} {} on {}: {}",
                    text(&f["status"]),
                    text(&f["id"]),
                    text(&f["target"]["name"]),
                    text(&f["detail"])
                )
            })
            .collect()
    }

    /// Messages of all errors.
    fn errors(&self) -> String {
        self.report()["errors"].to_string()
    }
}

async fn run(args: &[&str]) -> Run {
    let mut command = run::command("check");
    command.args(args);
    run::run(command).await
}

/// The binary against this cluster.
async fn on(fake: &FakeCluster, args: &[&str]) -> Run {
    let kubeconfig = fake.kubeconfig();
    let mut all = vec!["--kubeconfig", kubeconfig.to_str().unwrap()];
    all.extend(args);
    run(&all).await
}

const LANE: &str = "rc_mlx5/mlx5_0:1 zero-copy";

/// What a transfer over this lane says of its steps, at these bandwidths in GB/s.
fn steps(lane: &str, write: f64, read: f64) -> Vec<String> {
    [("WRITE", write), ("READ", read)]
        .map(|(kind, gbytes)| {
            format!("{kind} 64 x 1048576 bytes: {lane}; {gbytes:.2} GB/s; latency us min 1.0")
        })
        .into()
}

/// Puts transfers from prefill-0 with this READ bandwidth into a recording.
fn with_transfers(saved: &str, transfers: &[(&str, f64, &str)]) {
    let path = std::path::Path::new(saved).join("bundle.json");
    let mut bundle: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let transfer = |(initiator, read, status): &(&str, f64, &str)| {
        serde_json::json!({
            "initiator": initiator, "target": "prefill-0", "namespace": "llm", "status": status, "detail": "d", "fix": null,
            "proven": *status == "ok", "wrong_bytes": false, "reason": null, "lane": LANE,
            "write_gbytes": 46.0, "read_gbytes": read, "of_line_rate": null, "memory": "gpu", "steps": steps(LANE, 46.0, *read),
            "caveats": [], "evidence": [],
        })
    };
    bundle["deployment"]["transfers"] = transfers.iter().map(transfer).collect();
    std::fs::write(&path, bundle.to_string()).unwrap();
}
