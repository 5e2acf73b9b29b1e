//! Healthy deployments of every fabric: no warning, no fail, nothing left open, nothing remarked.

use crate::rack::{Fabric, Rack, Worker};
use crate::{Run, on};
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

/// Nothing failed, and that is not all there is: what no pod can show is named, with where to read how to look.
#[tokio::test]
async fn what_no_pod_can_show_is_named_until_a_transfer_shows_its_effect() {
    for (fabric, wanted) in [
        (Fabric::InfiniBand, &["firewall", "acs"][..]),
        (Fabric::Roce, &["firewall", "pfc", "acs"]),
        (Fabric::Efa, &["firewall", "acs"]),
        (Fabric::Mnnvl, &["firewall", "acs"]),
    ] {
        let fake = Rack::new(fabric).into().start().await;
        let report = on(&fake, &["g"]).await.report();
        let topics: Vec<&str> = report["not_seen"]
            .as_array()
            .unwrap()
            .iter()
            .map(|unseen| unseen["topic"].as_str().unwrap())
            .collect();
        assert_eq!(topics, wanted, "{fabric:?}");
        for format in ["text", "html"] {
            let said = on(&fake, &["g", "-o", format]).await.stdout;
            let words: Vec<&str> = said.split_whitespace().collect();
            let said = words.join(" ");
            assert!(
                said.contains("Not to be seen from pods: firewalls"),
                "{fabric:?}: {said}"
            );
            for topic in ["firewall", "pfc", "acs"] {
                let named = said.contains(&format!("explain {topic}"));
                assert_eq!(
                    named,
                    wanted.contains(&topic),
                    "{fabric:?} {format} {topic}"
                );
            }
        }
        for topic in topics {
            let mut command = crate::run::command("explain");
            command.arg(topic);
            assert_eq!(crate::run::run(command).await.code, Some(0), "{topic}");
        }
    }
    let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/demo/healthy");
    let proven = crate::run(&["--from", demo]).await;
    assert_eq!(proven.report()["not_seen"], json!(null));
    assert!(!proven.stdout.contains("Not to be seen"));
}

/// Who may not read the templates of claims is told so. It is no fault: what the claims give is seen in the containers, and stays
/// open where it is not.
#[tokio::test]
async fn a_claim_that_may_not_be_read_is_no_fault() {
    let rack = Rack::new(Fabric::Mnnvl).into();
    let fake = rack.deny("get", "resourceclaimtemplates").start().await;
    let run = on(&fake, &["g"]).await;
    assert_eq!(run.complaints(), Vec::<String>::new());
    let open = |run: &Run, name: &str| {
        let report = run.report();
        let mut checks = report["checks"].as_array().unwrap().iter();
        checks.any(|f| f["name"] == name && f["status"] == "skipped")
    };
    assert!(!open(&run, "no-transport-path") && !open(&run, "claim-unresolved"));
    let rack = Rack::new(Fabric::Mnnvl).at("prefill-1", |worker| {
        for id in ["dev-gpu", "dev-infiniband-open"] {
            worker.absent(id);
        }
    });
    let fake = rack
        .into()
        .deny("get", "resourceclaimtemplates")
        .start()
        .await;
    let run = on(&fake, &["g"]).await;
    let notes = run.report()["notes"].to_string();
    assert!(
        notes.contains("ResourceClaimTemplate g-channel")
            && notes.contains("docs/rbac.yaml")
            && notes.contains("which devices the pods get"),
        "{notes}"
    );
    assert!(open(&run, "no-transport-path") && open(&run, "claim-unresolved"));
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

/// A pod that is over is left behind beside the replicas that took its place: it is named, and nothing rests on it.
#[tokio::test]
async fn a_pod_that_is_over_costs_nothing_where_all_replicas_are_ready_without_it() {
    let deleted = |w: &mut Worker| {
        w.set("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    };
    let evicted = |w: &mut Worker| {
        w.set("/status", json!({"phase": "Failed", "reason": "Evicted"}));
    };
    let cases = [
        (deleted as fn(&mut Worker), "the pod is being deleted"),
        (evicted, "the pod has failed: Evicted"),
    ];
    for (change, why) in cases {
        let over = || Rack::new(Fabric::InfiniBand).at("decode-1", change);
        let one =
            |graph: &mut serde_json::Value| graph["spec"]["components"][1]["replicas"] = json!(1);
        let fake = over().written(one).into().start().await;
        let run = on(&fake, &["g"]).await;
        assert_eq!(run.code, Some(0), "{why}: {}", run.stdout);
        assert_eq!(run.complaints(), Vec::<String>::new(), "{why}");
        let report = run.report();
        assert_eq!(report["trust"], "unproven", "{why}");
        assert_eq!(
            report["notes"].as_array().unwrap().len(),
            1,
            "{}",
            report["notes"]
        );
        assert_eq!(report["notes"][0]["object"], "pod llm/g-decode-1");
        let said = report["notes"][0]["message"].as_str().unwrap();
        assert_eq!(
            said,
            format!(
                "{why}; it counts as no decode worker: the worker that is written is ready without it"
            )
        );
        assert!(!run.stdout.contains("\"name\": \"g-decode-1\""), "{why}");
        let path = report["workloads"][0]["workers"].as_array().unwrap();
        let decode = path.iter().find(|k| k["role"] == "decode").unwrap();
        assert_eq!(decode["replicas"], 1, "{why}: {decode}");
        let asked = fake.requests();
        assert!(!asked.iter().any(|r| r.path.contains("g-decode-1/exec")));

        // Two are written: one is missing.
        let fake = over().into().start().await;
        let run = on(&fake, &["g"]).await;
        assert_eq!(run.code, Some(1), "{why}: {}", run.stdout);
        let said = run.complaints().join("\n");
        assert!(said.contains(why), "{said}");
    }
}

/// Workers of one node that share its namespaces move KV over its NVLink: no RDMA is demanded of them.
#[tokio::test]
async fn no_rdma_is_demanded_where_all_kv_stays_on_nvlink_of_a_node() {
    let packed = |w: &mut Worker| {
        w.set("/spec/nodeName", json!("gpu-0"));
        w.set("/spec/hostPID", json!(true));
        w.set("/spec/hostIPC", json!(true));
        w.limit("rdma/ib", None);
        w.env("NCCL_IB_HCA", None);
        w.answer("dev-infiniband", "");
        w.answer("dev-infiniband-open", "");
        w.env("UCX_TLS", Some("cuda_ipc,cuda_copy,tcp"));
    };
    let demanded = async |rack: Rack| {
        let fake = rack.into().start().await;
        on(&fake, &["g"]).await.complaints().join("\n")
    };
    let rack = || Rack::new(Fabric::InfiniBand).all(packed);
    assert_eq!(demanded(rack()).await, "");
    for (what, change) in [
        (
            "another node",
            (|w| {
                w.set("/spec/nodeName", json!("gpu-1"));
            }) as fn(&mut Worker),
        ),
        ("its own namespaces", |w| {
            w.set("/spec/hostIPC", json!(false));
        }),
        ("other GPUs", |w| {
            w.answer(
                "dev-gpu",
                "/dev/nvidia8: char rw\n/dev/nvidiactl: char rw\n",
            );
        }),
        ("no NVLink", |w| {
            w.env("UCX_TLS", Some("cuda_copy,tcp"));
        }),
        ("RDMA was asked for", |w| {
            w.limit("rdma/ib", Some("8"));
        }),
    ] {
        let said = demanded(rack().at("decode-1", change)).await;
        assert!(said.contains("fail RDMA003"), "{what}: {said}");
    }
}
