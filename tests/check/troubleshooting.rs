//! The rows of the original's troubleshooting table, each with the next step that a report names.

use crate::on;
use crate::rack::{Fabric, Rack, Worker};
use serde_json::Value;

async fn report(rack: Rack) -> (Value, String) {
    let fake = rack.into().start().await;
    let run = on(&fake, &["g"]).await;
    let text = on(&fake, &["g", "-v", "-o", "text"]).await.stdout;
    (run.report(), text)
}

fn first(report: &Value) -> (&str, &str) {
    let first = &report["fix_first"][0];
    let text = |key: &str| first[key].as_str().unwrap_or_default();
    (text("id"), text("fix"))
}

/// "All critical variables missing": with the fabric there, unset is good; the next step is a proof, not a list of variables.
#[tokio::test]
async fn all_critical_variables_are_missing() {
    let bare = |worker: &mut Worker| {
        worker
            .env("NCCL_IB_HCA", None)
            .env("UCX_LOG_LEVEL", None)
            .env("VLLM_NIXL_SIDE_CHANNEL_PORT", None);
    };
    let (said, text) = report(Rack::new(Fabric::InfiniBand).all(bare)).await;
    assert_eq!(said["fix_first"], serde_json::json!([]), "{text}");
    assert!(
        said["next"]
            .as_str()
            .unwrap()
            .contains("check g -n llm --transfer"),
        "{}",
        said["next"]
    );
    assert!(text.contains("unset UCX and NCCL variables"), "{text}");
    // Where a variable is needed, it is named with the value that it takes.
    let efa = Rack::new(Fabric::Efa).all(|worker| {
        worker.env("FI_PROVIDER", None);
        worker.set("/spec/affinity", serde_json::json!({}));
    });
    let (said, text) = report(efa).await;
    let needed = said["fix_first"].as_array().unwrap();
    let needed = needed.iter().find(|fix| fix["id"] == "ENV004");
    let needed = needed.unwrap_or_else(|| panic!("{text}"));
    assert!(
        needed["fix"]
            .as_str()
            .unwrap()
            .contains("FI_EFA_ENABLE_SHM_TRANSFER"),
        "{needed:#}"
    );
}

/// "No Active link": the port, its state, and who can mend it.
#[tokio::test]
async fn no_port_is_active() {
    let down = |worker: &mut Worker| {
        for (id, from, to) in [
            ("rdma-ports", "state: 4: ACTIVE", "state: 1: DOWN"),
            (
                "rdma-ports",
                "phys_state: 5: LinkUp",
                "phys_state: 2: Polling",
            ),
            ("ibstat", "State: Active", "State: Down"),
            (
                "ibstat",
                "Physical state: LinkUp",
                "Physical state: Polling",
            ),
            ("ibv-devinfo", "PORT_ACTIVE (4)", "PORT_DOWN (1)"),
        ] {
            worker.replace(id, from, to);
        }
    };
    let (said, text) = report(Rack::new(Fabric::InfiniBand).at("decode-1", down)).await;
    let (id, fix) = first(&said);
    assert_eq!(id, "RDMA002", "{text}");
    assert_eq!(said["fix_first"][0]["target"]["name"], "g-decode-1");
    assert!(fix.contains("cable") || fix.contains("switch"), "{fix}");
    assert_eq!(said["trust"], "untrusted");
}

/// "nvidia_peermem missing": no fault where dmabuf does the work, and a module to load where it does not.
#[tokio::test]
async fn peermem_is_missing() {
    let (said, _) = report(Rack::new(Fabric::InfiniBand)).await;
    assert_eq!(said["fix_first"], serde_json::json!([]));
    let closed = |worker: &mut Worker| {
        worker.replace(
            "nvidia-version",
            "NVIDIA UNIX Open Kernel Module for x86_64",
            "NVIDIA UNIX x86_64 Kernel Module",
        );
    };
    let (said, text) = report(Rack::new(Fabric::InfiniBand).all(closed)).await;
    let (id, fix) = first(&said);
    assert_eq!(id, "GPU001", "{text}");
    assert!(fix.contains("load nvidia_peermem"), "{fix}");
}

/// "No NIXL test tools": none is needed, since the agents of `--transfer` use the NIXL that the worker has.
#[tokio::test]
async fn test_tools_are_missing() {
    let (said, text) = report(Rack::new(Fabric::InfiniBand)).await;
    let checks = said["checks"].as_array().unwrap();
    let own: Vec<&Value> = checks
        .iter()
        .filter(|f| f["name"] == "nixl:binary")
        .collect();
    assert_eq!(own.len(), 4);
    assert!(own.iter().all(|f| f["status"] == "ok"), "{own:#?}");
    assert!(
        own[0]["detail"].as_str().unwrap().contains("--transfer"),
        "{}",
        own[0]["detail"]
    );
    assert!(
        said["next"].as_str().unwrap().contains("--transfer"),
        "{text}"
    );
}
