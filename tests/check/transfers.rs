//! `check --transfer`: every pair of a deployment, one verdict.

use crate::fake::cluster::FakeCluster;
use crate::fake::pod::FakePod;
use crate::run::Run;
use crate::standin::{has_python, pod, tree};
use crate::{on, run};
use serde_json::{Value, json};
use std::path::Path;
use tempfile::TempDir;

/// A machine whose worker may lock memory.
fn machine() -> TempDir {
    tree(&[(
        "proc/7/limits",
        "Limit                     Soft Limit           Hard Limit           Units     \n\
         Max locked memory         unlimited            unlimited            bytes     \n",
    )])
}

/// A worker whose transfers go over RDMA, or over what this log of UCX says.
fn worker(name: &str, role: &str, root: &Path, log: &str) -> FakePod {
    let host = r#"{"kv_connector":"NixlConnector","kv_role":"kv_both","kv_buffer_device":"cpu"}"#;
    // Each pod has its own.
    let sum: u32 = name.bytes().map(u32::from).sum();
    let address = format!("10.0.{}.{}", sum / 256, sum % 256);
    pod(name, role, root, log)
        .label("nvidia.com/dynamo-component", role)
        .set("/status/podIP", json!(address))
        .set("/spec/nodeName", json!(format!("node-{name}")))
        .set(
            "/spec/containers/0/command",
            json!(["python3", "-m", "dynamo.vllm", "--kv-transfer-config", host]),
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
            json!([{"name": "UCX_TLS", "value": "rc,cuda_copy"}]),
        )
        // Shared memory as the operator mounts it.
        .set(
            "/spec/volumes",
            json!([{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}}]),
        )
        .set(
            "/spec/containers/0/volumeMounts",
            json!([{"name": "shm", "mountPath": "/dev/shm"}]),
        )
}

/// Two prefill and two decode workers; the transfers of the last go over the lane of this log.
pub async fn fleet(
    log: &str,
    change: impl Fn(FakePod, &Path) -> FakePod,
) -> (FakeCluster, Vec<TempDir>) {
    let trees: Vec<TempDir> = (0..4).map(|_| machine()).collect();
    let good = "invented-rc-mlx5-one-rail";
    let last = worker("decode-1", "decode", trees[3].path(), log);
    let fake = FakeCluster::builder()
        .with(worker("prefill-0", "prefill", trees[0].path(), good))
        .with(worker("prefill-1", "prefill", trees[1].path(), good))
        .with(worker("decode-0", "decode", trees[2].path(), good))
        .with(change(last, trees[3].path()))
        .orphans_live_on()
        .start()
        .await;
    (fake, trees)
}

const ARGS: [&str; 3] = ["g", "--transfer", "--quick"];

/// The same deployment, from the cluster and from the recording of that run.
async fn live_and_replayed(fake: &FakeCluster) -> [Run; 2] {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("r.tar.zst");
    let path = path.to_str().unwrap();
    let mut saved = ARGS.to_vec();
    saved.extend(["--save", path]);
    [on(fake, &saved).await, run(&["--from", path]).await]
}

/// One of its workers has no device node, so its bytes go over TCP.
pub async fn without_a_device() -> (FakeCluster, Vec<TempDir>) {
    fleet("ucx-1.23-pods", |pod, root| {
        std::fs::remove_file(root.join("dev/infiniband/uverbs0")).unwrap();
        pod.env("NIXL_STANDIN_PORT", "")
    })
    .await
}

fn pairs(report: &Value) -> Vec<(String, bool)> {
    let made = report["pairs"]["made"].as_array().unwrap();
    let name = |p: &Value, key: &str| p[key].as_str().unwrap().to_owned();
    made.iter()
        .map(|p| {
            (
                format!("{} {}", name(p, "initiator"), name(p, "target")),
                p["proven"] == true,
            )
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_is_trusted_when_every_pair_is_proven_and_not_before() {
    if !has_python() {
        return;
    }
    let (fake, _trees) = fleet("invented-rc-mlx5-one-rail", |pod, _| pod).await;
    let run = on(&fake, &ARGS).await;
    let report = run.report();
    assert_eq!(
        report["trust"],
        "trusted",
        "{:#?}\n{}",
        run.complaints(),
        run.stdout
    );
    assert_eq!(run.code, Some(0));
    assert_eq!(pairs(&report).len(), 4);
    assert_eq!(fake.writes(), []);
    let verdict = report["verdict"].as_str().unwrap();
    assert!(
        verdict.contains("g can be trusted: the lane of every pair was proven"),
        "{verdict}"
    );
    // A sample proves what is in it.
    let mut sampled = ARGS.to_vec();
    sampled.extend(["--sample", "3", "--require-trusted"]);
    let run = on(&fake, &sampled).await;
    assert_eq!(run.report()["trust"], "unproven");
    assert_eq!(run.report()["pairs"]["of"], 4);
    assert_eq!(run.code, Some(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_without_its_device_is_the_cause_and_its_transfers_stand_beneath() {
    if !has_python() {
        return;
    }
    let (fake, _trees) = without_a_device().await;
    let run = on(&fake, &ARGS).await;
    let report = run.report();
    assert_eq!(report["trust"], "untrusted", "{}", run.stdout);
    let first = &report["fix_first"][0];
    assert_eq!(
        (&first["id"], &first["target"]["name"]),
        (&json!("RDMA003"), &json!("decode-1"))
    );
    let beneath = first["consequences"].as_array().unwrap();
    let transfers = beneath.iter().filter(|c| c["id"] == "XFER001").count();
    let proven = pairs(&report).iter().filter(|(_, proven)| *proven).count();
    assert_eq!((transfers, proven), (2, 2), "{first:#}");
    assert!(
        !run.fixes().contains(&"XFER001".to_owned()),
        "{:?}",
        run.fixes()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_that_could_not_be_made_leads_and_is_no_pass() {
    if !has_python() {
        return;
    }
    let (fake, _trees) = fleet("invented-rc-mlx5-one-rail", |pod, _| {
        pod.env("NIXL_STANDIN_FAULT", "import")
    })
    .await;
    let [live, replayed] = live_and_replayed(&fake).await;
    let report = live.report();
    let verdict = report["verdict"].as_str().unwrap();
    let lead = "2 of 4 transfers could not be made, the first (decode-1 -> prefill-0) because of this: NIXL cannot be \
                imported on decode-1 (initiator)";
    assert!(verdict.starts_with(lead), "{verdict}");
    assert!(
        verdict.contains("; disaggregated serving with g is not proven"),
        "{verdict}"
    );
    let next = report["next"].as_str().unwrap();
    assert!(
        next.starts_with("apply the fix of the transfer, then `"),
        "{next}"
    );
    assert_eq!((live.code, replayed.code), (Some(4), Some(4)));
    assert_eq!(live.stdout, replayed.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_holds_the_transfers_and_gives_the_same_report() {
    if !has_python() {
        return;
    }
    let (fake, _trees) = fleet("invented-rc-mlx5-one-rail", |pod, _| pod).await;
    let [live, replayed] = live_and_replayed(&fake).await;
    assert_eq!(live.report()["trust"], "trusted", "{}", live.stdout);
    assert_eq!(live.stdout, replayed.stdout);
}
