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
