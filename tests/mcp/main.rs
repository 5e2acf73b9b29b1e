//! The MCP server, driven by the official Python client over standard input and output. Runs where
//! INTERCONNECT_MCP_PYTHON names an interpreter with that client; elsewhere it says aloud that it did not run.
#![expect(
    clippy::unwrap_used,
    reason = "a fixture that cannot be built ends the test"
)]

#[expect(dead_code, reason = "only a part of the fake cluster is needed here")]
#[path = "../fake/mod.rs"]
mod fake;
#[expect(dead_code, reason = "only a part of it is needed here")]
#[path = "../check/fleet.rs"]
mod fleet;
#[path = "../support/root.rs"]
mod root;
#[path = "../support/skip.rs"]
mod skip;

use fake::cluster::FakeCluster;
use fake::kubelet::Exec;
use fleet::{Fleet, healthy};
use serde_json::Value;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

fn client(fake: &FakeCluster, case: &str, more: &[&str]) -> Option<Command> {
    let Some(python) = std::env::var_os("INTERCONNECT_MCP_PYTHON") else {
        skip::aloud("INTERCONNECT_MCP_PYTHON names no interpreter with the MCP client");
        return None;
    };
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/client.py");
    let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/demo/gb200-rack");
    let mut command = Command::new(python);
    command
        .arg(folder)
        .arg(env!("CARGO_BIN_EXE_dynamo-interconnect-check"))
        .arg(case)
        .arg(fake.kubeconfig())
        .arg(demo)
        .args(more)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    Some(command)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_calls_every_tool_and_reads_every_page() {
    let (builder, _trees) = healthy("g").into(fleet::cluster());
    let fake = builder.start().await;
    let Some(mut command) = client(&fake, "tools", &[]) else {
        return;
    };
    let output = command.output().await.unwrap();
    let said: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stdout)));
    let tools = said["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|t| t["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["env", "node", "nixl", "check", "explain", "report"]);
    assert!(
        tools
            .iter()
            .all(|t| t["read_only"] == true && t["schema"]["type"] == "object")
    );
    let pages = said["resources"].as_array().unwrap();
    assert!(
        pages.len() >= 3 && pages.iter().all(|p| p["size"].as_u64() > Some(1_000)),
        "{pages:?}"
    );
    let calls = &said["calls"];
    for (name, trust) in [
        ("env", "untrusted"),
        ("check", "unproven"),
        ("report", "untrusted"),
    ] {
        assert_eq!(
            calls[name]["report"]["trust"], trust,
            "{name}: {}",
            calls[name]
        );
        assert_eq!(calls[name]["error"], false, "{name}");
        let verdict = calls[name]["report"]["verdict"].as_str().unwrap();
        assert!(
            calls[name]["text"].as_str().unwrap().starts_with(verdict),
            "{name}"
        );
    }
    assert_eq!(
        calls["node"]["report"]["command"], "node",
        "{}",
        calls["node"]
    );
    assert_eq!(
        calls["nixl"]["report"]["command"], "nixl",
        "{}",
        calls["nixl"]
    );
    assert!(
        calls["explain"].to_string().contains("cuda_copy"),
        "{}",
        calls["explain"]
    );
    let refused = calls["prove"]["refused"].as_str().unwrap_or_default();
    assert!(refused.contains("--allow-transfer"), "{}", calls["prove"]);
    let wrong = calls["wrong"]["refused"].as_str().unwrap_or_default();
    assert!(wrong.contains("no argument of check"), "{}", calls["wrong"]);
    let other = calls["other"]["refused"].as_str().unwrap_or_default();
    assert!(
        other.contains("mcp --kubeconfig FILE"),
        "{}",
        calls["other"]
    );
    let unread = calls["unread"]["text"].as_str().unwrap();
    assert!(unread.contains("/nonexistent: "), "{unread}");
    assert_eq!(calls["unread"]["error"], true, "{}", calls["unread"]);
    assert_eq!(fake.writes(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_may_transfer_has_a_tool_for_it() {
    let (builder, _trees) = healthy("g").into(fleet::cluster());
    let fake = builder.start().await;
    let Some(mut command) = client(&fake, "tools", &["--allow-transfer"]) else {
        return;
    };
    let output = command.output().await.unwrap();
    let said: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stdout)));
    let tools = said["tools"].as_array().unwrap();
    let moving: Vec<&Value> = tools.iter().filter(|t| t["read_only"] != true).collect();
    assert_eq!(moving.len(), 1);
    assert_eq!(moving[0]["name"], "prove");
    // No NIXL is in these containers: each transfer says so, and nothing is proven.
    let proof = &said["calls"]["prove"]["report"];
    assert_eq!(proof["trust"], "unproven", "{}", said["calls"]["prove"]);
    let made = proof["pairs"]["made"].as_array().unwrap();
    assert_eq!((made.len(), &proof["pairs"]["of"]), (1, &Value::from(1)));
    assert!(made.iter().all(|pair| pair["proven"] == false), "{made:?}");
    assert_eq!(fake.writes(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_cancelled_leaves_no_exec_stream_behind() {
    let hangs = |pod: fake::pod::FakePod| pod.exec(Exec::Hang);
    let (builder, _trees) = Fleet::new("g")
        .worker("prefill", &[], hangs)
        .worker("decode", &[], hangs)
        .into(fleet::cluster());
    let fake = builder.start().await;
    let Some(mut command) = client(&fake, "cancel", &[]) else {
        return;
    };
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().unwrap_or_default();
    let said: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
    assert!(said["ticks"].as_u64() >= Some(2), "{said}");
    assert!(
        said["after"]["text"].as_str().unwrap().contains("UCX"),
        "{said}"
    );
    assert!(fake.most_execs() > 0);
    // Closed by the child that was asked to end; the server itself still runs.
    for _ in 0..200 {
        if fake.open_execs() == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(fake.open_execs(), 0);
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"\n").await.unwrap();
    drop(stdin);
    assert!(child.wait().await.unwrap().success());
}
