//! Finding pods, and what is kept of them.

use crate::connected;
use crate::fake::cluster::{Builder, FakeCluster, Odd};
use crate::fake::pod::FakePod;
use dynamo_interconnect_check::cluster::call::{Cause, Patience};
use dynamo_interconnect_check::cluster::connect::Cluster;
use dynamo_interconnect_check::cluster::deployment::{self, Choice};
use dynamo_interconnect_check::cluster::nodes::{list_domains, list_nodes};
use dynamo_interconnect_check::cluster::pods::{by_name, by_selector, of_deployment};
use dynamo_interconnect_check::cluster::project::{
    EnvValue, MountSource, Phase, Pod, Reference, State,
};
use dynamo_interconnect_check::manifest::workload::Role;
use dynamo_interconnect_check::snapshot::{Domains, Nodes};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn transport(name: &str) -> bool {
    name.starts_with("UCX_")
}

/// The pod as the tool sees it.
async fn seen(pod: FakePod) -> Pod {
    let fake = FakeCluster::builder().with(pod).start().await;
    by_name(&connected(&fake).await, "llm", "p", &transport)
        .await
        .unwrap()
}

fn pod() -> FakePod {
    FakePod::new("llm", "p", "/")
}

#[tokio::test]
async fn roles_of_both_label_styles() {
    const TYPE: &str = "nvidia.com/dynamo-component-type";
    const SUB: &str = "nvidia.com/dynamo-sub-component-type";
    for (component, sub, role, worker) in [
        (Some("prefill"), None, Some(Role::Prefill), Some(true)),
        (Some("decode"), None, Some(Role::Decode), Some(true)),
        (
            Some("worker"),
            Some("prefill"),
            Some(Role::Prefill),
            Some(true),
        ),
        (
            Some("Worker"),
            Some("Decode"),
            Some(Role::Decode),
            Some(true),
        ),
        (Some("worker"), None, None, Some(true)),
        (Some("frontend"), None, None, Some(false)),
        (None, None, None, None),
    ] {
        let mut pod = pod();
        for (key, value) in [(TYPE, component), (SUB, sub)] {
            if let Some(value) = value {
                pod = pod.label(key, value);
            }
        }
        let seen = seen(pod).await;
        assert_eq!(
            (seen.role(), seen.is_worker()),
            (role, worker),
            "{component:?} {sub:?}"
        );
    }
}

#[tokio::test]
async fn the_deployment_is_named_by_label_or_by_variable() {
    let labelled = pod().label("nvidia.com/dynamo-graph-deployment-name", "graph");
    assert_eq!(seen(labelled).await.deployment(), Some("graph"));
    let env = json!([{"name": "DYN_PARENT_DGD_K8S_NAME", "value": "parent"}]);
    assert_eq!(
        seen(pod().set("/spec/containers/0/env", env))
            .await
            .deployment(),
        Some("parent")
    );
    assert_eq!(seen(pod()).await.deployment(), None);
}

#[tokio::test]
async fn only_catalogued_variables_of_the_worker_leave_the_object() {
    let env = json!([
        {"name": "UCX_TLS", "value": "rc,cuda"},
        {"name": "UCX_NET_DEVICES", "valueFrom": {"configMapKeyRef": {"name": "fabric", "key": "devices"}}},
        {"name": "UCX_LOG_FILE", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "UCX_ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "HF_TOKEN", "value": "canary-token"},
    ]);
    let pod = pod()
        .container("sidecar")
        .set("/spec/containers/0/env", env)
        .set(
            "/spec/containers/0/args",
            json!(["--api-key=canary-argument"]),
        )
        .set(
            "/spec/containers/0/envFrom",
            json!([{"secretRef": {"name": "all"}}]),
        )
        .set(
            "/spec/containers/1/env",
            json!([{"name": "UCX_TLS", "value": "canary-sidecar"}]),
        )
        .set(
            "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration",
            "canary-annotation".into(),
        )
        .set("/metadata/labels/owner", "canary-label".into());
    let seen = seen(pod).await;
    let main = &seen.containers[0];
    assert_eq!(main.env["UCX_TLS"], EnvValue::Literal("rc,cuda".to_owned()));
    let reference = Reference::ConfigMap {
        name: "fabric".to_owned(),
        key: Some("devices".to_owned()),
    };
    assert_eq!(main.env["UCX_NET_DEVICES"], EnvValue::Reference(reference));
    let reference = Reference::Secret {
        name: "s".to_owned(),
        key: Some("k".to_owned()),
    };
    assert_eq!(main.env["UCX_LOG_FILE"], EnvValue::Reference(reference));
    assert_eq!(
        main.env_from,
        [Reference::Secret {
            name: "all".to_owned(),
            key: None
        }]
    );
    assert!(!format!("{seen:?}").contains("canary"), "{seen:?}");
}

#[tokio::test]
async fn what_gives_a_container_its_reach_is_kept() {
    let volumes = json!([
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}},
        {"name": "ib", "hostPath": {"path": "/dev/infiniband"}},
        {"name": "model", "persistentVolumeClaim": {"claimName": "m"}},
    ]);
    let mounts = json!([
        {"name": "shm", "mountPath": "/dev/shm"},
        {"name": "ib", "mountPath": "/dev/infiniband"},
        {"name": "model", "mountPath": "/models"},
    ]);
    let security = json!({"privileged": true, "capabilities": {"add": ["IPC_LOCK"]}});
    let pod = pod()
        .set("/spec/hostIPC", true.into())
        .set("/spec/securityContext", json!({"runAsUser": 1000}))
        .set("/spec/volumes", volumes)
        .set(
            "/spec/resourceClaims",
            json!([{"name": "nic", "resourceClaimTemplateName": "rdma"}]),
        )
        .set(
            "/status/resourceClaimStatuses",
            json!([{"name": "nic", "resourceClaimName": "p-nic-x"}]),
        )
        .set("/spec/containers/0/volumeMounts", mounts)
        .set("/spec/containers/0/securityContext", security)
        .set(
            "/spec/containers/0/resources",
            json!({"limits": {"nvidia.com/gpu": "8", "rdma/ib": 1}, "claims": [{"name": "nic"}]}),
        )
        .set(
            "/metadata/annotations/k8s.v1.cni.cncf.io~1networks",
            "canary".into(),
        );
    let seen = seen(pod).await;
    let main = &seen.containers[0];
    assert!(seen.host_ipc && !seen.host_network && main.security.privileged);
    assert_eq!(main.security.capabilities, ["IPC_LOCK"]);
    assert_eq!(main.security.run_as_user, Some(1000));
    assert_eq!(main.limits["rdma/ib"], "1");
    assert_eq!(main.claims, ["nic"]);
    assert_eq!(seen.claims[0].claim.as_deref(), Some("p-nic-x"));
    assert_eq!(seen.claims[0].template.as_deref(), Some("rdma"));
    let mounts: Vec<(&str, &MountSource)> = main
        .mounts
        .iter()
        .map(|m| (m.path.as_str(), &m.source))
        .collect();
    let shm = MountSource::EmptyDir {
        medium: Some("Memory".to_owned()),
        size_limit: Some("8Gi".to_owned()),
    };
    let ib = MountSource::HostPath("/dev/infiniband".to_owned());
    assert_eq!(mounts, [("/dev/shm", &shm), ("/dev/infiniband", &ib)]);
    assert_eq!(seen.network_annotations, ["k8s.v1.cni.cncf.io/networks"]);
}

#[tokio::test]
async fn why_nothing_runs_is_told_in_the_clusters_words() {
    let unscheduled = json!({"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/8 nodes: rdma/ib"},
    ]});
    let waiting =
        |reason: &str| json!({"waiting": {"reason": reason, "message": "back-off\u{1b}[2J"}});
    let ended = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
    const STATE: &str = "/status/containerStatuses/0/state";
    let cases: [(FakePod, &str); 6] = [
        (
            pod()
                .set("/spec/nodeName", Value::Null)
                .set("/status", unscheduled),
            "the pod is not scheduled to a node: Unschedulable: 0/8 nodes: rdma/ib",
        ),
        (
            pod().set("/status/phase", "Succeeded".into()),
            "the pod has completed",
        ),
        (
            pod()
                .set("/status/phase", "Failed".into())
                .set("/status/reason", "Evicted".into()),
            "the pod has failed: Evicted",
        ),
        (
            pod().set(STATE, waiting("CrashLoopBackOff")),
            "container main waits: CrashLoopBackOff: back-off\\u{1b}[2J",
        ),
        (
            pod().set(STATE, ended),
            "container main has ended with code 137 (OOMKilled)",
        ),
        (
            pod().set("/metadata/deletionTimestamp", "2026-01-01T00:00:00Z".into()),
            "the pod is being deleted",
        ),
    ];
    for (pod, expected) in cases {
        assert_eq!(
            seen(pod).await.why_not_running("main").as_deref(),
            Some(expected)
        );
    }
    let running = seen(pod()).await;
    assert_eq!(
        (running.phase, &running.containers[0].state),
        (Phase::Running, &State::Running)
    );
    assert_eq!(running.why_not_running("main"), None);
}

#[tokio::test]
async fn which_container_is_meant() {
    let named = |names: &[&str]| {
        let empty = pod()
            .set("/spec/containers", json!([]))
            .set("/status/containerStatuses", json!([]));
        names.iter().fold(empty, |pod, name| pod.container(name))
    };
    let gpu = json!({"limits": {"nvidia.com/gpu": "1"}});
    let annotation = "/metadata/annotations/kubectl.kubernetes.io~1default-container";
    let sidecar = json!([{"name": "gpu-helper", "restartPolicy": "Always"}, {"name": "init"}]);
    for (pod, wanted, expected) in [
        (named(&["x", "main"]), None, "main"),
        (named(&["x", "main"]), Some("x"), "x"),
        (named(&["x"]), None, "x"),
        (named(&["x", "y"]).set(annotation, "y".into()), None, "y"),
        (
            named(&["x", "y"]).set("/spec/containers/1/resources", gpu),
            None,
            "y",
        ),
        (named(&["istio-proxy", "y"]), None, "y"),
        (
            named(&["y"]).set("/spec/initContainers", sidecar),
            None,
            "y",
        ),
    ] {
        let seen = seen(pod).await;
        assert_eq!(seen.container(wanted).unwrap().name, expected);
    }
    let two = seen(named(&["x", "y"])).await;
    let words = two.container(None).unwrap_err().to_string();
    assert_eq!(
        words,
        "pod llm/p has several containers and none is main; give -c NAME, one of: x, y"
    );
    let words = two.container(Some("z")).unwrap_err().to_string();
    assert_eq!(
        words,
        "pod llm/p has no container z; give -c NAME, one of: x, y"
    );
}

fn crowd(count: usize) -> Builder {
    (0..count).fold(FakeCluster::builder(), |builder, n| {
        let style = if n % 2 == 0 {
            ("component-type", "decode")
        } else {
            ("sub-component-type", "decode")
        };
        let pod = FakePod::new("llm", &format!("w-{n:04}"), "/")
            .label("nvidia.com/dynamo-graph-deployment-name", "g")
            .label(&format!("nvidia.com/dynamo-{}", style.0), style.1);
        builder.with(pod)
    })
}

#[tokio::test]
async fn a_selector_finds_its_pods_in_pages_and_in_order() {
    let other = FakePod::new("llm", "other", "/");
    let elsewhere =
        FakePod::new("prod", "w-0000", "/").label("nvidia.com/dynamo-graph-deployment-name", "g");
    let fake = crowd(600).with(other).with(elsewhere).start().await;
    let cluster = connected(&fake).await;
    let pods = by_selector(&cluster, "llm", &of_deployment("g"), &transport)
        .await
        .unwrap();
    assert_eq!(pods.len(), 600);
    assert!(pods.is_sorted_by(|a, b| a.name < b.name));
    assert!(
        pods.iter()
            .all(|p| p.namespace == "llm" && p.role() == Some(Role::Decode))
    );
    let lists = fake
        .requests()
        .into_iter()
        .filter(|r| r.path.ends_with("/pods"))
        .count();
    assert_eq!(lists, 3);
    let some = "nvidia.com/dynamo-component-type in (decode,prefill)";
    assert_eq!(
        by_selector(&cluster, "llm", some, &transport)
            .await
            .unwrap()
            .len(),
        300
    );
    assert_eq!(
        by_selector(&cluster, "llm", "no=such", &transport)
            .await
            .unwrap(),
        []
    );
    assert_eq!(fake.writes(), []);
}

#[tokio::test]
async fn a_forgotten_list_begins_anew_and_not_for_ever() {
    let fake = crowd(300).expire_lists(1).start().await;
    let pods = by_selector(
        &connected(&fake).await,
        "llm",
        &of_deployment("g"),
        &transport,
    )
    .await;
    assert_eq!(pods.unwrap().len(), 300);
    let fake = crowd(300).expire_lists(9).start().await;
    let error = by_selector(
        &connected(&fake).await,
        "llm",
        &of_deployment("g"),
        &transport,
    )
    .await
    .unwrap_err();
    assert_eq!(error.cause, Cause::Gone);
}

#[tokio::test]
async fn a_pod_or_selector_that_cannot_be_had() {
    let fake = FakeCluster::builder()
        .pod("llm", "p", "/")
        .deny("list", "pods")
        .start()
        .await;
    let cluster = connected(&fake).await;
    let error = by_name(&cluster, "llm", "gone", &transport)
        .await
        .unwrap_err();
    let words = "cannot get pod llm/gone: not found; check the name, the namespace and the context";
    assert_eq!(error.to_string(), words);
    let error = by_selector(&cluster, "llm", "a=b", &transport)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("cannot list pods in namespace llm with selector a=b: forbidden"),
        "{error}"
    );
    assert!(error.ends_with("grant it (docs/rbac.yaml)"), "{error}");
    let fake = FakeCluster::builder().start().await;
    let error = by_selector(&connected(&fake).await, "llm", "not a selector", &transport)
        .await
        .unwrap_err();
    assert!(
        matches!(error.cause, Cause::Answer { code: 400, .. }),
        "{error}"
    );
}

#[tokio::test]
async fn a_busy_or_broken_server_while_listing() {
    let busy =
        json!({"message": "storage is (re)initializing", "details": {"retryAfterSeconds": 1}});
    let fake = crowd(1).fault("/pods", 1, 429, busy.clone()).start().await;
    let pods = by_selector(
        &connected(&fake).await,
        "llm",
        &of_deployment("g"),
        &transport,
    )
    .await;
    assert_eq!(pods.unwrap().len(), 1);
    let busy = json!({"message": "storage is (re)initializing"});
    let fake = crowd(1).fault("/pods", 9, 429, busy).start().await;
    let error = by_selector(
        &connected(&fake).await,
        "llm",
        &of_deployment("g"),
        &transport,
    )
    .await
    .unwrap_err();
    assert_eq!(
        error.cause,
        Cause::Throttled {
            said: "storage is (re)initializing".to_owned()
        }
    );
    let fake = crowd(1)
        .fault("/pods", 9, 500, "etcd is down".into())
        .start()
        .await;
    let error = by_selector(
        &connected(&fake).await,
        "llm",
        &of_deployment("g"),
        &transport,
    )
    .await
    .unwrap_err();
    assert_eq!(
        error.cause,
        Cause::Answer {
            code: 500,
            said: "etcd is down".to_owned()
        }
    );
}

#[tokio::test]
async fn the_fake_serves_nodes_and_custom_objects() {
    let graph = "/apis/nvidia.com/v1beta1/namespaces/llm/dynamographdeployments/g";
    let object = json!({"kind": "DynamoGraphDeployment", "metadata": {"name": "g"}});
    let fake = FakeCluster::builder()
        .node("node-a")
        .node("node-b")
        .object(graph, object.clone())
        .start()
        .await;
    let client = connected(&fake).await.client;
    let nodes: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(client.clone());
    assert_eq!(
        nodes.list(&Default::default()).await.unwrap().items.len(),
        2
    );
    let get = axum::http::Request::get(graph).body(Vec::new()).unwrap();
    assert_eq!(client.request::<Value>(get).await.unwrap(), object);
    let no_crd = axum::http::Request::get("/apis/nvidia.com/v1alpha1/namespaces/llm/x")
        .body(Vec::new())
        .unwrap();
    assert_eq!(
        Cause::from(&client.request::<Value>(no_crd).await.unwrap_err()),
        Cause::NotFound
    );
}

/// What is said where each kind of list cannot be read: pods, graphs, nodes, ComputeDomains.
async fn said_of_lists(cluster: &Cluster) -> [String; 4] {
    let pods = by_selector(cluster, "llm", "app=x", &transport).await;
    let choice = Choice::Graph(None);
    let graphs = deployment::find(cluster, "llm", &choice, &transport).await;
    let nodes = match list_nodes(cluster).await {
        Nodes::Missing { detail, .. } => detail,
        Nodes::Known(_) => "known".to_owned(),
    };
    let domains = match list_domains(cluster, "llm").await {
        Domains::Missing { detail, .. } => detail,
        Domains::Known(_) => "known".to_owned(),
    };
    [
        pods.unwrap_err().to_string(),
        graphs.unwrap_err().to_string(),
        nodes,
        domains,
    ]
}

fn all_lists(odd: Odd) -> Builder {
    [
        "/pods",
        "/nodes",
        "/dynamographdeployments",
        "/computedomains",
    ]
    .into_iter()
    .fold(FakeCluster::builder(), |all, path| all.odd(path, odd))
}

#[tokio::test]
async fn a_list_that_does_not_end_is_an_error_that_says_how_far_it_was_read() {
    for (odd, most, words) in [
        (Odd::Again, 2, "2 pages were read, and it begins again"),
        (Odd::Onward, 1_000, "1000 pages were read;"),
    ] {
        let fake = all_lists(odd).start().await;
        let cluster = connected(&fake).await;
        for said in said_of_lists(&cluster).await {
            assert!(said.starts_with("cannot list "), "{said}");
            assert!(
                said.contains("does not end") && said.contains(words),
                "{said}"
            );
        }
        // Of graphs two lists are asked for at once, those of pods among them.
        assert!(
            fake.requests().len() <= 1 + 5 * most,
            "{}",
            fake.requests().len()
        );
    }
}

#[tokio::test]
async fn all_lists_together_end_with_the_run() {
    for pause in [Duration::from_millis(20), Duration::from_millis(700)] {
        let fake = all_lists(Odd::Onward).slow(pause).start().await;
        let mut cluster = connected(&fake).await;
        let began = Instant::now();
        cluster.patience.until = Some((began + Duration::from_secs(2)).into());
        for said in said_of_lists(&cluster).await {
            assert!(
                said.contains("the time of the whole run was over"),
                "{said}"
            );
        }
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "{:?}",
            began.elapsed()
        );
    }
}

#[tokio::test]
async fn an_answer_without_end_is_cut_and_named() {
    let fake = all_lists(Odd::Flood).start().await;
    let cluster = connected(&fake).await;
    for said in said_of_lists(&cluster).await {
        assert!(said.contains("the answer is larger than 64 MiB"), "{said}");
    }
}

#[tokio::test]
async fn a_server_that_says_not_now_until_the_time_is_over_is_quoted() {
    let busy = json!({"message": "slow down", "details": {"retryAfterSeconds": 60}});
    let fake = FakeCluster::builder()
        .fault("/pods", 9, 429, busy)
        .start()
        .await;
    let mut cluster = connected(&fake).await;
    let short = Duration::from_millis(1_500);
    for of_the_run in [false, true] {
        cluster.patience = Patience {
            each: if of_the_run { short * 100 } else { short },
            until: of_the_run.then(|| (Instant::now() + short).into()),
        };
        let error = by_selector(&cluster, "llm", "app=x", &transport).await;
        let said = "slow down".to_owned();
        assert_eq!(error.unwrap_err().cause, Cause::Throttled { said });
    }
}

#[tokio::test]
async fn graphs_and_domains_are_listed_anew_as_pods_are() {
    let many = |group: &str, kind: &str| {
        let objects = (0..101).map(|n| {
            let path = format!("/apis/{group}/namespaces/llm/{kind}/o{n}");
            (path, json!({"metadata": {"name": format!("o{n}")}}))
        });
        objects.fold(FakeCluster::builder(), |all, (path, object)| {
            all.object(&path, object)
        })
    };
    let domains = many("resource.nvidia.com/v1beta1", "computedomains").expire_lists(2);
    let fake = domains.start().await;
    match list_domains(&connected(&fake).await, "llm").await {
        Domains::Known(domains) => assert_eq!(domains.len(), 101),
        Domains::Missing { detail, .. } => panic!("{detail}"),
    }
    let graphs = many("nvidia.com/v1beta1", "dynamographdeployments").expire_lists(2);
    let fake = graphs.start().await;
    let choice = Choice::Graph(None);
    let found = deployment::find(&connected(&fake).await, "llm", &choice, &transport).await;
    let said = found.unwrap_err().to_string();
    assert!(said.contains("has 101 deployments"), "{said}");
}
