//! `--nodes`: what the nodes offer, which could host the deployment, and what is said where they cannot be seen.

use crate::fake::cluster::Builder;
use crate::fleet::{cluster, healthy};
use crate::on;
use serde_json::{Value, json};

const DOMAINS: &str = "/apis/resource.nvidia.com/v1beta1/namespaces/llm/computedomains";

fn node(cluster: Builder, name: &str, allocatable: Value, labels: Value) -> Builder {
    let object = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {"x": "c4n4ry"}},
        "status": {
            "allocatable": allocatable,
            "conditions": [{"type": "Ready", "status": "True"}],
            "images": [{"names": ["registry.example/c4n4ry"]}],
        },
    });
    cluster.object(&format!("/api/v1/nodes/{name}"), object)
}

fn gpus(rdma: Option<&str>) -> Value {
    let mut all = json!({"cpu": "100", "nvidia.com/gpu": "8"});
    if let Some(amount) = rdma {
        all["rdma/ib"] = amount.into();
    }
    all
}

fn labels() -> Value {
    json!({"nvidia.com/gpu.product": "NVIDIA-H100", "topology.kubernetes.io/zone": "z1", "team": "c4n4ry"})
}

#[tokio::test]
async fn the_nodes_are_listed_with_what_they_could_host() {
    let mut builder = cluster();
    for name in ["node-0", "node-1"] {
        builder = node(builder, name, gpus(Some("8")), labels());
    }
    builder = node(builder, "node-2", gpus(None), labels());
    builder = node(builder, "cpu", json!({"cpu": "4"}), json!({}));
    let (builder, _trees) = healthy("g").into(builder);
    let fake = builder.start().await;
    let run = on(&fake, &["--nodes"]).await;
    assert_eq!(run.code, Some(0), "{}", run.stdout);
    assert_eq!(run.complaints(), Vec::<String>::new());
    let nodes = &run.report()["nodes"];
    let names = |at: &str| -> Vec<String> {
        let all = nodes["nodes"].as_array().unwrap().iter();
        all.filter(|n| {
            n["hosts"]
                .as_array()
                .unwrap()
                .iter()
                .all(|h| h["fast"] == at)
        })
        .map(|n| n["name"].as_str().unwrap().to_owned())
        .collect()
    };
    assert_eq!(names("yes"), ["node-0", "node-1"]);
    assert_eq!(names("no"), ["node-2"]);
    assert_eq!(nodes["others"], 1);
    assert_eq!(nodes["nodes"][0]["runs"], json!(["prefill"]));
    assert_eq!(nodes["nodes"][0]["rdma"], json!({"rdma/ib": "8"}));
    assert!(
        nodes["nodes"][2]["hosts"][0]["reason"]
            .as_str()
            .unwrap()
            .contains("has no rdma/ib, and the pod asks for 8"),
        "{nodes}"
    );
    assert!(!run.stdout.contains("c4n4ry"));
    assert_eq!(fake.writes(), []);
    let text = on(&fake, &["--nodes", "-o", "text"]).await.stdout;
    let section: Vec<&str> = text
        .lines()
        .skip_while(|line| !line.starts_with("Nodes"))
        .take_while(|line| !line.is_empty())
        .collect();
    assert_eq!(
        section,
        [
            "Nodes  allocatable, used or not; taints and selectors are not looked at",
            "  node-0, node-1: 8 x NVIDIA-H100, 8 rdma/ib, zone z1",
            "      fast path for decode, prefill",
            "  node-2: 8 x NVIDIA-H100, no RDMA resource, zone z1",
            "      no fast path for decode, prefill: has no rdma/ib, and the pod asks for 8",
            "  1 other node without GPUs and RDMA resources",
        ]
    );
}

#[tokio::test]
async fn without_the_flag_no_node_is_read() {
    let (builder, _trees) = healthy("g").into(node(cluster(), "node-0", gpus(None), labels()));
    let fake = builder.start().await;
    let run = on(&fake, &[]).await;
    assert_eq!(run.report()["nodes"], Value::Null);
    let asked = |what: &str| fake.requests().iter().any(|r| r.path.contains(what));
    assert!(!asked("/nodes") && !asked("computedomains"));
}

#[tokio::test]
async fn a_resource_that_no_node_has_is_named() {
    let builder = node(cluster(), "node-0", gpus(None), labels());
    let (builder, _trees) = healthy("g").into(builder);
    let fake = builder.start().await;
    let run = on(&fake, &["--nodes"]).await;
    let complaints = run.complaints();
    assert_eq!(complaints.len(), 2, "{complaints:?}");
    assert!(
        complaints[0].starts_with(
            "warn DEP050 on g: the only node could not take a pod of decode: 1 node has no rdma/ib"
        ),
        "{complaints:?}"
    );
}

#[tokio::test]
async fn who_may_not_list_nodes_is_told_once_and_the_rest_is_judged() {
    let (builder, _trees) = healthy("g").into(cluster());
    let fake = builder.deny("list", "nodes").start().await;
    let run = on(&fake, &["--nodes"]).await;
    assert_eq!(run.code, Some(0), "{}", run.stdout);
    let report = run.report();
    assert_eq!(report["nodes"]["nodes"], json!([]));
    assert!(
        report["nodes"]["missing"][0]
            .as_str()
            .unwrap()
            .contains("docs/rbac.yaml")
    );
    assert_eq!(report["notes"], json!([]));
    let all = report["checks"].as_array().unwrap();
    let own = all.iter().find(|c| c["id"] == "DEP050").unwrap();
    assert_eq!(
        (own["status"].as_str(), own["reason"].as_str()),
        (Some("skipped"), Some("denied"))
    );
}

/// What answers in place of the API is named as that, and not as nodes that nobody understands.
#[tokio::test]
async fn an_api_that_cannot_list_nodes_is_named() {
    for (code, answer) in [
        (500, json!({"message": "boom"})),
        (429, json!({"message": "slow down"})),
        (200, json!("<html>log in</html>")),
    ] {
        let (builder, _trees) = healthy("g").into(cluster());
        let fake = builder.fault("v1/nodes", 99, code, answer).start().await;
        let report = on(&fake, &["--nodes"]).await.report();
        let all = report["checks"].as_array().unwrap();
        let own = all.iter().find(|c| c["id"] == "DEP050").unwrap();
        assert_eq!(own["reason"], "unreachable", "{own}");
        let text = on(&fake, &["--nodes", "-o", "text"]).await.stdout;
        assert!(text.contains("no-node-fits (API error)"), "{text}");
    }
}

#[tokio::test]
async fn many_nodes_come_in_pages() {
    let mut builder = cluster();
    for n in 0..250 {
        builder = node(builder, &format!("node-{n}"), gpus(Some("8")), labels());
    }
    let (builder, _trees) = healthy("g").into(builder);
    let fake = builder.expire_lists(1).start().await;
    let run = on(&fake, &["--nodes"]).await;
    assert_eq!(
        run.report()["nodes"]["nodes"].as_array().unwrap().len(),
        250
    );
    // One page before the server forgot its list, and three after.
    let lists = fake
        .requests()
        .iter()
        .filter(|r| r.path == "/api/v1/nodes")
        .count();
    assert_eq!(lists, 5);
}

#[tokio::test]
async fn a_rack_in_which_one_role_joined_is_half_a_domain() {
    let rack = |pod: crate::fake::pod::FakePod| {
        pod.set(
            "/spec/containers/0/resources",
            json!({"limits": {"nvidia.com/gpu": "4"}, "claims": [{"name": "ch"}]}),
        )
        .set(
            "/spec/resourceClaims",
            json!([{"name": "ch", "resourceClaimTemplateName": "channel"}]),
        )
    };
    let four = json!({"nvidia.com/gpu": "4"});
    let clique = |name: &str| json!({"nvidia.com/gpu.product": "NVIDIA-GB200", "nvidia.com/gpu.clique": name});
    let builder = node(cluster(), "node-0", four.clone(), clique("c.1"));
    let builder = node(builder, "node-1", four.clone(), clique("c.1"));
    let builder = node(builder, "node-2", four, json!({}));
    let domain = json!({
        "apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomain",
        "metadata": {"name": "cd", "namespace": "llm"},
        "spec": {"numNodes": 2, "channel": {"resourceClaimTemplate": {"name": "channel"}}},
        "status": {"status": "NotReady", "nodes": [{"name": "node-1", "cliqueID": "c.1", "status": "Ready"}]},
    });
    let (builder, _trees) = crate::fleet::Fleet::new("g")
        .worker("prefill", &[], rack)
        .worker("decode", &[], rack)
        .pods_into(builder);
    let fake = builder
        .object(&format!("{DOMAINS}/cd"), domain)
        .start()
        .await;
    let run = on(&fake, &["g", "--nodes"]).await;
    let complaints = run.complaints().join("\n");
    assert!(
        complaints.contains("warn DEP051 on g: ComputeDomain cd waits for 2 nodes, and 1 joined"),
        "{complaints}"
    );
    let nodes = &run.report()["nodes"];
    assert_eq!(nodes["nodes"][0]["hosts"][0]["fast"], "yes", "{nodes}");
    assert_eq!(nodes["nodes"][2]["hosts"][0]["fast"], "no", "{nodes}");
    assert_eq!(
        nodes["compute_domains"][0]["nodes"],
        json!({"node-1": "Ready"})
    );
}

#[tokio::test]
async fn a_recording_holds_the_nodes_and_says_the_same() {
    let dir = tempfile::TempDir::new().unwrap();
    let saved = dir.path().join("run");
    let saved = saved.to_str().unwrap();
    let (builder, _trees) = healthy("g").into(node(cluster(), "node-0", gpus(Some("8")), labels()));
    let fake = builder.start().await;
    let live = on(&fake, &["--nodes", "--save", saved]).await.report();
    let text = std::fs::read_to_string(std::path::Path::new(saved).join("bundle.json")).unwrap();
    assert!(!text.contains("c4n4ry"));
    let replayed = crate::run(&["--from", saved]).await.report();
    assert_eq!(replayed["nodes"], live["nodes"]);
    // A recording may come from anybody.
    let hostile = text.replace("NVIDIA-H100", "x\\u001b[2Jy");
    std::fs::write(std::path::Path::new(saved).join("bundle.json"), hostile).unwrap();
    let replayed = crate::run(&["--from", saved]).await.report();
    assert_eq!(replayed["nodes"]["nodes"][0]["product"], "x\\u{1b}[2Jy");
}
