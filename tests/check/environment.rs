//! Where variables come from, through the binary.

use crate::fleet::{Fleet, cluster};
use crate::on;
use serde_json::json;

/// A variable as each layer has it: in the object, set by the operator, by the image, by the start script, taken away again.
#[tokio::test]
async fn every_variable_names_the_layer_that_set_it() {
    let live = "UCX_TLS=rc,cuda_copy,cuda_ipc\0NCCL_IB_HCA=mlx5\0UCX_NET_DEVICES=mlx5_0:1\0NIXL_LOG_LEVEL=INFO\0";
    let spec = json!([
        {"name": "UCX_TLS", "value": "rc,cuda_copy,cuda_ipc"},
        {"name": "NIXL_LOG_LEVEL", "value": "INFO"},
        {"name": "UCX_IB_SL", "value": "1"},
        {"name": "HF_TOKEN", "value": "c4n4ry"},
    ]);
    let with = |pod: crate::fake::pod::FakePod| {
        pod.set("/spec/containers/0/env", spec.clone())
            .env("UCX_TLS", "rc,cuda_copy,cuda_ipc")
            .env("NIXL_LOG_LEVEL", "INFO")
            .env("UCX_IB_SL", "1")
            .env("NCCL_IB_HCA", "mlx5")
    };
    let files = [("proc/7/environ", live)];
    let (builder, _trees) = Fleet::new("g")
        .worker("prefill", &files, with)
        .worker("decode", &files, with)
        .into(cluster());
    let fake = builder.start().await;
    let run = on(&fake, &["g"]).await;
    let report = run.report();
    let variables = &report["environment"][0]["variables"];
    let by = |name: &str| variables[name]["set_by"].as_str().unwrap_or("-").to_owned();
    assert_eq!(by("UCX_TLS"), "object", "{variables:#}");
    assert_eq!(by("NIXL_LOG_LEVEL"), "operator, or an admission webhook");
    assert_eq!(by("NCCL_IB_HCA"), "image");
    assert_eq!(by("UCX_NET_DEVICES"), "start script");
    assert_eq!(by("UCX_IB_SL"), "-");
    assert_eq!(variables["UCX_IB_SL"]["drifts"], true);
    assert_eq!(variables["UCX_TLS"]["drifts"], false);
    assert!(!run.stdout.contains("c4n4ry") && !run.stdout.contains("HF_TOKEN"));
    let text = on(&fake, &["g", "-v", "-o", "text"]).await.stdout;
    assert!(text.contains("UCX_NET_DEVICES  mlx5_0:1"), "{text}");
    assert!(text.contains("by start script"), "{text}");
}

/// Variables of a ConfigMap are read, those of a Secret are named; a ConfigMap that may not be read is said.
#[tokio::test]
async fn config_maps_are_read_and_secrets_are_named() {
    let from = json!([{"configMapRef": {"name": "fabric"}}, {"secretRef": {"name": "tokens"}}]);
    let with = |pod: crate::fake::pod::FakePod| {
        pod.set("/spec/containers/0/envFrom", from.clone())
            .set("/spec/containers/0/env", json!([]))
            .env("UCX_TLS", "rc,cuda_copy,cuda_ipc")
    };
    let build = || {
        Fleet::new("g")
            .worker("prefill", &[], with)
            .worker("decode", &[], with)
            .pods_into(cluster())
    };
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "fabric", "namespace": "llm"},
        "data": {"UCX_TLS": "rc,cuda_copy,cuda_ipc", "API_KEY": "c4n4ry"}});
    let (builder, _trees) = build();
    let fake = builder
        .object("/api/v1/namespaces/llm/configmaps/fabric", map)
        .start()
        .await;
    let run = on(&fake, &["-l", "nvidia.com/dynamo-component"]).await;
    let variable = &run.report()["environment"][0]["variables"]["UCX_TLS"];
    assert_eq!(variable["set_by"], "pod spec", "{variable:#}");
    assert_eq!(variable["layers"][0]["value"], "rc,cuda_copy,cuda_ipc");
    assert!(!run.stdout.contains("c4n4ry"));
    let secrets = fake
        .requests()
        .iter()
        .filter(|r| r.path.contains("/secrets"))
        .count();
    assert_eq!((secrets, fake.writes().len()), (0, 0));

    let (builder, _trees) = build();
    let fake = builder
        .fault("configmaps/fabric", 9, 403, json!({"message": "forbidden"}))
        .start()
        .await;
    let run = on(&fake, &["-l", "nvidia.com/dynamo-component"]).await;
    let notes = run.report()["notes"].to_string();
    assert!(
        notes.contains("ConfigMap fabric") && notes.contains("docs/rbac.yaml"),
        "{notes}"
    );
    assert_eq!(run.code, Some(0), "{}", run.stdout);
}
