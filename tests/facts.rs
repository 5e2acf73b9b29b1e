//! Every defect that is known to be in the genuine recipes is found, on the right worker, with the right status; and
//! nothing else of the kind is said.

mod support;

use dynamo_interconnect_check::report::{Finding, Status};
use dynamo_interconnect_check::{checks, input};
use serde_json::Value;
use std::collections::BTreeSet;

/// Finding and status that a fact of a worker must lead to; None when it is no fault here.
fn expected(fact: &str, worker: &Value, disagg: bool) -> Option<(&'static str, Status)> {
    let cpu = worker["kv_transfer"]["kv_buffer_device"] == "cpu";
    let trtllm = worker["engine"] == "trtllm";
    let pinned = fact.starts_with("single_nic_pinned_with_");
    let counted = fact.starts_with("rdma_ib_");
    Some(match fact {
        "no_transport_path" => ("no-transport-path", Status::Warn),
        "rdma_without_ipc_lock" => ("ipc-lock-missing", Status::Warn),
        "efa_not_privileged" => ("efa-not-privileged", Status::Warn),
        "efa_backend_not_libfabric" if trtllm => ("efa-backend", Status::Warn),
        "efa_backend_not_libfabric" => ("efa-backend", Status::Fail),
        "ucx_tls_no_fast_transport" if cpu => ("env:UCX_TLS", Status::Warn),
        "ucx_tls_no_gpu_memory" if cpu => return None,
        "ucx_tls_no_fast_transport" | "ucx_tls_no_gpu_memory" | "ucx_tls_no_am_transport" => {
            ("env:UCX_TLS", Status::Fail)
        }
        "ucx_rdma_tls_without_rdma_device" | "ucx_no_rdma_device_and_cuda_ipc_excluded" => {
            ("tls-without-device", Status::Warn)
        }
        "mnnvl_enabled_but_cuda_ipc_excluded" => ("mnnvl-without-cuda-ipc", Status::Warn),
        "mnnvl_flag_without_compute_domain" => ("mnnvl-without-compute-domain", Status::Warn),
        "nic_mapping_pair_incomplete" => ("nic-map-incomplete", Status::Warn),
        "user_dev_shm_mount_replaced_by_operator_8Gi" if disagg => ("shm-small", Status::Warn),
        "user_dev_shm_mount_replaced_by_operator_8Gi" => return None,
        "get_zcopy_on_efa" => ("env:UCX_RNDV_SCHEME", Status::Ok),
        _ if pinned => ("env:UCX_NET_DEVICES", Status::Warn),
        _ if counted => ("rdma-count", Status::Warn),
        other => panic!("fact {other} has no expectation"),
    })
}

fn expected_of_graph(fact: &str) -> Option<(&'static str, Status)> {
    Some(match fact {
        "compute_domain_differs_between_roles" => ("compute-domain-differs", Status::Fail),
        "role_rdma_resource_differs" => ("rdma-resource-differs", Status::Warn),
        "efa_without_anti_affinity" => ("efa-same-node", Status::Warn),
        "pod_affinity_colocation" => return None,
        _ if fact.starts_with("role_env_differs:") => ("role-env-differs", Status::Warn),
        other => panic!("fact {other} has no expectation"),
    })
}

/// Findings that are made of these facts alone, so that an unexpected one is a false alarm.
const EXACT: &[&str] = &[
    "no-transport-path",
    "ipc-lock-missing",
    "efa-not-privileged",
    "efa-backend",
    "tls-without-device",
    "mnnvl-without-cuda-ipc",
    "mnnvl-without-compute-domain",
    "nic-map-incomplete",
    "rdma-count",
    "compute-domain-differs",
    "rdma-resource-differs",
    "efa-same-node",
    "role-env-differs",
];

#[test]
fn known_defects_are_found_and_no_other() {
    let Some(corpus) = support::folder("INTERCONNECT_CORPUS", "../shared/corpus") else {
        return;
    };
    let root = corpus.join("recipes");
    let truth: Value =
        serde_json::from_str(&std::fs::read_to_string(root.join("truth.json")).unwrap()).unwrap();
    let mut wrong = Vec::new();
    let mut facts = 0;
    for file in truth["files"].as_array().unwrap() {
        let path = file["path"].as_str().unwrap();
        let inventory = input::read(&[root.join(path)]);
        assert_eq!(inventory.errors, [], "{path}");
        let findings = checks::run(&inventory, &[]);
        let disagg = file["disagg"].as_bool().unwrap();
        let mut wanted: BTreeSet<(String, String)> = BTreeSet::new();
        let mut need = |target: &str, fact: &str, expected: Option<(&'static str, Status)>| {
            facts += 1;
            let Some((name, status)) = expected else {
                return;
            };
            wanted.insert((target.to_owned(), name.to_owned()));
            if !findings
                .iter()
                .any(|f| f.name == name && f.target.name == target && f.status == status)
            {
                let got: Vec<_> = findings
                    .iter()
                    .filter(|f| f.name == name && f.target.name == target)
                    .collect();
                wrong.push(format!(
                    "{path}: {target}: {fact} wants {name} {status}, got {}",
                    show(&got)
                ));
            }
        };
        for worker in file["workers"].as_array().unwrap() {
            for fact in worker["facts"].as_array().unwrap() {
                let fact = fact.as_str().unwrap();
                need(
                    worker["name"].as_str().unwrap(),
                    fact,
                    expected(fact, worker, disagg),
                );
            }
        }
        for fact in file["graph_facts"].as_array().unwrap() {
            let fact = fact.as_str().unwrap();
            need(
                file["name"].as_str().unwrap(),
                fact,
                expected_of_graph(fact),
            );
        }
        for f in findings.iter().filter(|f| f.status >= Status::Warn) {
            if !disagg {
                wrong.push(format!("{path}: aggregated, yet {}", show(&[f])));
            }
            let key = (f.target.name.clone(), f.name.to_string());
            if EXACT.contains(&&*f.name) && !wanted.contains(&key) {
                wrong.push(format!("{path}: not known as a defect: {}", show(&[f])));
            }
            // On EFA with LIBFABRIC, UCX settings are not on the data path.
            let efa = inventory
                .workloads
                .iter()
                .flat_map(|w| &w.workers)
                .any(|w| w.efa());
            if efa && (f.name.starts_with("env:UCX") || f.name.starts_with("env:NCCL_IB")) {
                wrong.push(format!(
                    "{path}: asks for what EFA does not use: {}",
                    show(&[f])
                ));
            }
        }
    }
    assert!(facts >= 30, "only {facts} facts were compared");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn show(findings: &[&Finding]) -> String {
    let words = |f: &&Finding| format!("{} {} on {}: {}", f.status, f.name, f.target, f.detail);
    findings.iter().map(words).collect::<Vec<_>>().join(" | ")
}
