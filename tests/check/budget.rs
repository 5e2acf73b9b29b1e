//! `--isl`: how long the KV of a prompt travels, and what is said where that is not known.

use crate::fleet::{Fleet, cluster, healthy};
use crate::rack::{Fabric, Rack, Worker};
use crate::{on, with_transfers};
use serde_json::{Value, json};

fn serving(model: &str) -> Fleet {
    let command = json!([
        "python3",
        "-m",
        "dynamo.vllm",
        "--model",
        model,
        "--kv-cache-dtype",
        "bfloat16",
        "-tp",
        "8"
    ]);
    let with =
        |pod: crate::fake::pod::FakePod| pod.set("/spec/containers/0/command", command.clone());
    Fleet::new("g")
        .worker("prefill", &[], with)
        .worker("decode", &[], with)
}

#[tokio::test]
async fn a_known_model_and_the_ports_give_a_nominal_time() {
    let (builder, _trees) = serving("Qwen/Qwen3-32B").pods_into(cluster());
    let fake = builder.start().await;
    let run = on(&fake, &["g", "--isl", "8000", "--ttft-slo", "1"]).await;
    let report = run.report();
    let budget = &report["kv_budget"];
    assert_eq!(budget["kv_bytes_per_token"], 262_144, "{budget}");
    assert_eq!(
        (&budget["parts"], &budget["assumed"]),
        (&json!(8), &json!([]))
    );
    assert_eq!(budget["slowest"]["measured"], false);
    // One port of 400 Gb/s for 8 GPUs.
    assert_eq!(budget["slowest"]["gbytes"], 6.25, "{budget}");
    let complaints = run.complaints();
    assert_eq!(complaints.len(), 1, "{complaints:?}");
    assert!(
        complaints[0].starts_with("warn DEP060 on g: the KV of 8000 tokens takes at least 42 ms"),
        "{complaints:?}"
    );
    assert!(complaints[0].contains("nominal"), "{complaints:?}");
    let text = on(&fake, &["g", "--isl", "8000", "-o", "text"])
        .await
        .stdout;
    assert!(
        text.replace('\n', " ").contains(
            "KV budget  262 kB/token x 8000 tokens = 2.10 GB in 8 parts side by side: 42 ms over"
        ),
        "{text}"
    );
}

/// The budget of this deployment, asked in JSON and as text. One thousand bytes per token, so that the rate alone decides.
async fn budget(rack: Rack) -> (Value, String) {
    let fake = rack.into().start().await;
    let asked = ["g", "--isl", "1000000", "--kv-bytes-per-token", "1000"];
    let report = on(&fake, &asked).await.report();
    let text = on(&fake, &[&asked[..], &["-o", "text"]].concat()).await;
    let words: Vec<&str> = text.stdout.split_whitespace().collect();
    (report["kv_budget"].clone(), words.join(" "))
}

fn variable(rack: Fabric, name: &'static str, value: &'static str) -> Rack {
    Rack::new(rack).all(move |w: &mut Worker| {
        w.env(name, Some(value));
    })
}

/// By hand: a port of 400 Gb/s is 50 GB/s, one of EFA 12.5; 18 NVLinks of 53.125 GB/s are 956.25.
#[tokio::test]
async fn what_carries_kv_gives_the_nominal_rate() {
    for (what, rack, gbytes, of) in [
        (
            "a port for each GPU",
            Rack::new(Fabric::InfiniBand),
            50.0,
            "8 ports for 8 GPUs",
        ),
        ("RoCE", Rack::new(Fabric::Roce), 50.0, "8 ports for 8 GPUs"),
        (
            "one port for eight",
            variable(Fabric::InfiniBand, "UCX_NET_DEVICES", "mlx5_0:1"),
            6.25,
            "1 port for 8 GPUs",
        ),
        (
            "four EFA for each GPU",
            Rack::new(Fabric::Efa),
            50.0,
            "32 ports for 8 GPUs",
        ),
        (
            "NVLink of a rack",
            Rack::new(Fabric::Mnnvl),
            956.25,
            "18 NVLinks of a GPU",
        ),
        (
            "NVLink of a rack, and nothing else",
            variable(Fabric::Mnnvl, "UCX_TLS", "cuda_copy,cuda_ipc,tcp"),
            956.25,
            "18 NVLinks of a GPU",
        ),
        (
            "RDMA in a rack",
            variable(Fabric::Mnnvl, "UCX_TLS", "rc,cuda_copy"),
            50.0,
            "4 ports for 4 GPUs",
        ),
    ] {
        let (budget, text) = budget(rack).await;
        let slowest = &budget["slowest"];
        assert_eq!(slowest["gbytes"], gbytes, "{what}: {budget}");
        assert_eq!(slowest["measured"], false, "{what}: {budget}");
        assert!(
            slowest["of"].as_str().unwrap().ends_with(of),
            "{what}: {budget}"
        );
        assert!(text.contains("nominal) at best"), "{what}: {text}");
        assert!(!text.contains("at worst"), "{what}: {text}");
    }
}

#[tokio::test]
async fn a_path_that_is_judged_wrong_has_no_nominal_rate() {
    let tcp = variable(Fabric::InfiniBand, "UCX_TLS", "tcp,cuda_copy");
    let unclaimed = Rack::new(Fabric::Mnnvl).at("decode", |w| {
        w.only("dev-gpu", |line| !line.contains("imex"));
        w.env("UCX_TLS", Some("cuda_copy,cuda_ipc,tcp"));
    });
    for rack in [tcp, unclaimed] {
        let (budget, text) = budget(rack).await;
        assert_eq!(budget["slowest"], Value::Null, "{budget}");
        let why = "no nominal figure, because the KV path is judged wrong";
        assert!(
            budget["missing"][0].as_str().unwrap().contains(why),
            "{budget}"
        );
        assert!(text.contains(why), "{text}");
    }
    let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/demo/gb200-rack");
    let run = crate::run(&["--from", demo, "--isl", "8000", "--ttft-slo", "500"]).await;
    let report = run.report();
    let missing = report["kv_budget"]["missing"][0]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        missing.contains(report["fix_first"][0]["target"]["name"].as_str().unwrap())
            && missing.contains("only one end of the KV path is inside the ComputeDomain"),
        "{missing}"
    );
    let all = report["checks"].as_array().unwrap();
    let asked = all.iter().find(|c| c["id"] == "DEP060").unwrap();
    assert_eq!(
        (&asked["status"], &asked["detail"]),
        (&json!("skipped"), &json!(missing))
    );
}

#[tokio::test]
async fn an_unknown_model_is_no_verdict_and_can_be_given() {
    let (builder, _trees) = serving("acme/own-model").pods_into(cluster());
    let fake = builder.start().await;
    let run = on(&fake, &["g", "--isl", "8000", "--ttft-slo", "1"]).await;
    assert_eq!(run.complaints(), Vec::<String>::new());
    let report = run.report();
    let missing = report["kv_budget"]["missing"].to_string();
    assert!(
        missing
            .contains("own-model is not in the table of known models: give --kv-bytes-per-token"),
        "{missing}"
    );
    let all = report["checks"].as_array().unwrap();
    assert_eq!(
        all.iter().find(|c| c["id"] == "DEP060").unwrap()["status"],
        "skipped"
    );
    let run = on(
        &fake,
        &["g", "--isl", "8000", "--kv-bytes-per-token", "1000"],
    )
    .await;
    assert_eq!(run.report()["kv_budget"]["bytes"], 8_000_000);
}

#[tokio::test]
async fn nobody_asks_and_nothing_is_said() {
    let (builder, _trees) = healthy("g").pods_into(cluster());
    let fake = builder.start().await;
    assert_eq!(on(&fake, &["g"]).await.report()["kv_budget"], Value::Null);
    assert_eq!(on(&fake, &["g", "--ttft-slo", "5"]).await.code, Some(2));
}

#[tokio::test]
async fn a_measured_lane_that_takes_too_long_is_a_fail() {
    let (builder, _trees) = serving("Qwen/Qwen3-32B").pods_into(cluster());
    let fake = builder.start().await;
    let dir = tempfile::TempDir::new().unwrap();
    let saved = dir.path().join("run");
    let saved = saved.to_str().unwrap();
    on(&fake, &["g", "--save", saved]).await;
    with_transfers(
        saved,
        &[("decode-1", 46.0, "ok"), ("decode-1", 0.5, "fail")],
    );
    let run = crate::run(&["--from", saved, "--isl", "8000", "--ttft-slo", "500"]).await;
    let budget = run.report()["kv_budget"].clone();
    // 2.1 GB in 8 parts over 0.5 GB/s.
    assert_eq!(budget["slowest"]["added_ms"], 524.288, "{budget}");
    assert_eq!(
        (&budget["slowest"]["measured"], &budget["fastest"]["gbytes"]),
        (&json!(true), &json!(46.0))
    );
    let complaints = run.complaints().join("\n");
    assert!(
        complaints.contains("fail DEP060 on g: the KV of 8000 tokens takes 524 ms"),
        "{complaints}"
    );
    let run = crate::run(&["--from", saved, "--isl", "8000", "--ttft-slo", "600"]).await;
    let report = run.report();
    let all = report["checks"].as_array().unwrap();
    assert_eq!(
        all.iter().find(|c| c["id"] == "DEP060").unwrap()["status"],
        "ok"
    );
}

#[tokio::test]
async fn where_no_kv_moves_there_is_no_time_to_compute() {
    let (builder, _trees) = Fleet::new("g")
        .worker("worker", &[], |pod| pod)
        .pods_into(cluster());
    let fake = builder.start().await;
    let report = on(&fake, &["g", "--isl", "8000", "--ttft-slo", "1"])
        .await
        .report();
    assert_eq!(report["kv_budget"], Value::Null);
    assert!(
        report["notes"]
            .to_string()
            .contains("no KV moves between the workers"),
        "{report}"
    );
}
