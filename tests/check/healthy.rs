//! Healthy deployments of every fabric: no warning, no fail, nothing left open, nothing remarked.

use crate::on;
use crate::rack::{Fabric, Rack};
use serde_json::json;

#[tokio::test]
async fn a_healthy_deployment_of_every_fabric_has_nothing_to_complain_about() {
    let mut wrong = Vec::new();
    for fabric in Fabric::ALL {
        let fake = Rack::new(fabric).into().start().await;
        let run = on(&fake, &["g", "--nodes"]).await;
        let report = run.report();
        assert_eq!(run.code, Some(0), "{fabric:?}: {}", run.stdout);
        assert_eq!(report["trust"], "unproven", "{fabric:?}");
        for key in ["errors", "notes"] {
            assert_eq!(report[key], json!([]), "{fabric:?}");
        }
        for said in run.complaints() {
            wrong.push(format!("{fabric:?}: {said}"));
        }
        let checks = report["checks"].as_array().unwrap();
        for skipped in checks.iter().filter(|f| f["status"] == "skipped") {
            wrong.push(format!(
                "{fabric:?}: skipped {} on {}: {}",
                skipped["name"], skipped["target"]["name"], skipped["detail"]
            ));
        }
        assert!(checks.len() > 120, "{fabric:?}: {}", checks.len());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Who may not read the templates of claims is told so, and what rests on them stays open: it is no fault.
#[tokio::test]
async fn a_claim_that_may_not_be_read_is_no_fault() {
    let rack = Rack::new(Fabric::Mnnvl).into();
    let fake = rack.deny("get", "resourceclaimtemplates").start().await;
    let run = on(&fake, &["g"]).await;
    assert_eq!(run.complaints(), Vec::<String>::new());
    let notes = run.report()["notes"].to_string();
    assert!(
        notes.contains("ResourceClaimTemplate g-channel")
            && notes.contains("docs/rbac.yaml")
            && notes.contains("which devices the pods get"),
        "{notes}"
    );
    let report = run.report();
    let open = |name: &str| {
        let checks = report["checks"].as_array().unwrap();
        checks
            .iter()
            .any(|f| f["name"] == name && f["status"] == "skipped")
    };
    assert!(open("no-transport-path") && open("claim-unresolved"));
}

/// A template of an older API version is found, too.
#[tokio::test]
async fn claims_of_older_servers_are_read() {
    let fake = Rack::new(Fabric::Mnnvl)
        .moved("resource.k8s.io/v1/", "resource.k8s.io/v1beta1/")
        .into()
        .start()
        .await;
    let run = on(&fake, &["g"]).await;
    assert_eq!(run.complaints(), Vec::<String>::new());
    assert_eq!(run.report()["notes"], json!([]));
}
