//! Published recipes against what a careful person reads in them.
//!
//! The recipes are not part of this repository: INTERCONNECT_CORPUS names the folder that holds `recipes/truth.json`.
//! Without it these tests say aloud that they looked at nothing.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use dynamo_interconnect_check::input;
use dynamo_interconnect_check::manifest::view;
use dynamo_interconnect_check::manifest::workload::{Worker, Workload};
use dynamo_interconnect_check::report::WorkerReport;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// `_about.env_prefixes` of the truth, as prefixes.
const PREFIXES: [&str; 17] = [
    "UCX_",
    "NIXL_",
    "NCCL_",
    "FI_",
    "GLOO_",
    "MC_",
    "NVSHMEM_",
    "OMPI_MCA_",
    "SGLANG_DISAGGREGATION_",
    "VLLM_NIXL_",
    "VLLM_GPU_NIC_",
    "VLLM_NIC_",
    "DYN_KVBM_NIXL_",
    "NVIDIA_GDRCOPY",
    "TORCH_NCCL_",
    "KV_TRANSFER_CONFIG",
    "TRTLLM_",
];

fn corpus() -> Option<PathBuf> {
    support::folder("INTERCONNECT_CORPUS", "../shared/corpus").map(|corpus| corpus.join("recipes"))
}

fn load(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn in_truth(name: &str) -> bool {
    PREFIXES.iter().any(|p| name.starts_with(p))
        && (!name.starts_with("TRTLLM_") || name.contains("KVCACHE"))
}

/// The environment of a worker in the words of the truth.
fn env(view: &WorkerReport) -> (Value, Value) {
    let (mut values, mut sources) = (Map::new(), Map::new());
    for (name, variable) in view.env.iter().filter(|(name, _)| in_truth(name)) {
        let value = variable
            .value
            .clone()
            .or_else(|| variable.reference.clone());
        values.insert(name.clone(), json!(value));
        sources.insert(name.clone(), json!(variable.from));
    }
    (Value::Object(values), Value::Object(sources))
}

fn classes(worker: &Worker) -> BTreeMap<&str, Vec<&str>> {
    worker
        .claim_classes
        .iter()
        .map(|(k, v)| (k.as_str(), v.split(',').collect()))
        .collect()
}

struct Compare<'a> {
    what: String,
    wrong: &'a mut Vec<String>,
}

impl Compare<'_> {
    fn same(&mut self, field: &str, truth: &Value, ours: Value) {
        if *truth != ours {
            self.wrong.push(format!(
                "{}: {field}: truth {truth}, ours {ours}",
                self.what
            ));
        }
    }

    fn worker(&mut self, truth: &Value, worker: &Worker, view: &WorkerReport) {
        self.same("role", &truth["role"], json!(view.role));
        self.same(
            "role_source",
            &truth["role_source"],
            json!(worker.role_source),
        );
        self.same("engine", &truth["engine"], json!(view.engine));
        self.same("replicas", &truth["replicas"], json!(view.replicas));
        self.same("nodes", &truth["nodes"], json!(view.nodes));
        self.same("gpus", &truth["gpus"], json!(view.gpus));
        let (values, sources) = env(view);
        self.same("env", &truth["env"], values);
        self.same("env_source", &truth["env_source"], sources);
        self.same(
            "rdma_resources",
            &truth["rdma_resources"],
            json!(view.rdma_resources),
        );
        self.same("dra_claims", &truth["dra_claims"], json!(view.claims));
        self.same("dra_classes", &truth["dra_classes"], json!(classes(worker)));
        self.same("ipc_lock", &truth["ipc_lock"], json!(view.ipc_lock));
        self.same("caps_add", &truth["caps_add"], json!(worker.caps_add));
        self.same("privileged", &truth["privileged"], json!(view.privileged));
        self.same(
            "run_as_user",
            &truth["run_as_user"],
            json!(worker.run_as_user),
        );
        self.same(
            "hostNetwork",
            &truth["hostNetwork"],
            json!(view.host_network),
        );
        self.same("hostIPC", &truth["hostIPC"], json!(view.host_ipc));
        self.same("shm", &truth["shm"], json!(view.shm));
        let mount = worker
            .shm_user_mount
            .as_deref()
            .map(|m| if m == "no sizeLimit" { "emptyDir" } else { m });
        self.same("shm_user_mount", &truth["shm_user_mount"], json!(mount));
        self.same(
            "infiniband_hostpath",
            &truth["infiniband_hostpath"],
            json!(worker.infiniband_hostpath.is_some()),
        );
        self.same(
            "net_annotations",
            &truth["net_annotations"],
            json!(worker.net_annotations),
        );
        self.same(
            "ulimit",
            &truth["ulimit_memlock_in_script"],
            json!(worker.ulimit_memlock_in_script),
        );
        self.same("reach", &truth["reach"], json!(view.reach));
        self.kv_transfer(&truth["kv_transfer"], view);
    }

    fn kv_transfer(&mut self, truth: &Value, view: &WorkerReport) {
        for (key, value) in truth.as_object().unwrap() {
            self.same(
                &format!("kv_transfer.{key}"),
                value,
                view.kv_transfer.get(key).cloned().unwrap_or_default(),
            );
        }
        if truth.as_object().unwrap().is_empty() {
            self.same("kv_transfer", truth, json!(view.kv_transfer));
        }
    }
}

fn colocated(workload: &Workload) -> bool {
    workload.colocates_roles && workload.disaggregated
}

#[test]
fn every_graph_reads_as_a_person_reads_it() {
    let Some(folder) = corpus() else { return };
    let truth = load(&folder.join("truth.json"));
    let mut wrong = Vec::new();
    let files = truth["files"].as_array().unwrap();
    for file in files {
        let path = file["path"].as_str().unwrap();
        let inventory = input::read(&[folder.join(path)]);
        assert_eq!(inventory.errors, [], "{path}");
        let [workload] = inventory.workloads.as_slice() else {
            wrong.push(format!("{path}: {} workloads", inventory.workloads.len()));
            continue;
        };
        let view = view::workload(workload, 0);
        let mut compare = Compare {
            what: path.to_owned(),
            wrong: &mut wrong,
        };
        compare.same("apiVersion", &file["apiVersion"], json!(view.api_version));
        compare.same("kind", &file["kind"], json!(view.kind));
        compare.same("name", &file["name"], json!(view.name));
        compare.same(
            "backendFramework",
            &file["backendFramework"],
            json!(view.framework),
        );
        compare.same("disagg", &file["disagg"], json!(view.disaggregated));
        compare.same("multinode", &file["multinode"], json!(view.multinode));
        let facts = file["graph_facts"].as_array().unwrap();
        let affinity = facts.contains(&json!("pod_affinity_colocation"));
        compare.same(
            "pod_affinity_colocation",
            &json!(affinity),
            json!(colocated(workload)),
        );
        let names: Vec<&str> = view.workers.iter().map(|w| w.name.as_str()).collect();
        let expected: Vec<&str> = file["workers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|w| w["name"].as_str().unwrap())
            .collect();
        compare.same("workers", &json!(expected), json!(names));
        for (n, truth) in file["workers"].as_array().unwrap().iter().enumerate() {
            let (Some(worker), Some(view)) = (workload.workers.get(n), view.workers.get(n)) else {
                continue;
            };
            let what = format!("{path} {}", worker.name);
            Compare {
                what,
                wrong: &mut wrong,
            }
            .worker(truth, worker, view);
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differences:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert_eq!(files.len(), 24);
}

#[test]
fn every_excerpt_shows_its_own_variable_alone() {
    let Some(folder) = corpus() else { return };
    let inventory = input::read(&[folder]);
    assert_eq!(inventory.errors, []);
    let mut seen = 0;
    for worker in inventory.workloads.iter().flat_map(|w| &w.workers) {
        for (name, entry) in &worker.env {
            let shown = &entry.spot.file.text[entry.spot.start..entry.spot.end];
            let others = worker
                .env
                .keys()
                .filter(|k| *k != name && !name.contains(*k));
            for other in others.filter(|o| {
                shown
                    .split(|c: char| !(c.is_alphanumeric() || c == '_'))
                    .any(|w| w == **o)
            }) {
                // One variable may quote another in its own value.
                assert!(
                    shown.contains(&format!("${{{other}}}")),
                    "{name}: {shown:?} shows {other}"
                );
            }
            assert!(
                shown.contains(name) || shown.starts_with("value"),
                "{name}: {shown:?}"
            );
            seen += 1;
        }
    }
    assert!(seen > 250, "{seen}");
}

/// Compares what `kustomize-truth.json` says of a rendered overlay.
fn compare_rendered(
    truth: &Value,
    inventory: &dynamo_interconnect_check::manifest::Inventory,
    wrong: &mut Vec<String>,
) {
    let overlay = truth["overlay"].as_str().unwrap();
    let [workload] = inventory.workloads.as_slice() else {
        wrong.push(format!(
            "{overlay}: {} workloads, notes {:?}",
            inventory.workloads.len(),
            inventory.notes
        ));
        return;
    };
    let report = view::workload(workload, 0);
    for truth in truth["workers"].as_array().unwrap() {
        let found = workload
            .workers
            .iter()
            .zip(&report.workers)
            .find(|(w, _)| truth["name"] == w.name.as_str());
        let Some((worker, view)) = found else {
            wrong.push(format!("{overlay}: no worker {}", truth["name"]));
            continue;
        };
        let mut compare = Compare {
            what: format!("{overlay} {}", worker.name),
            wrong,
        };
        compare.same("role", &truth["role"], json!(view.role));
        compare.same("env", &truth["env"], env(view).0);
        compare.same(
            "rdma_resources",
            &truth["rdma_resources"],
            json!(view.rdma_resources),
        );
        compare.same("privileged", &truth["privileged"], json!(view.privileged));
        compare.same("ipc_lock", &truth["ipc_lock"], json!(view.ipc_lock));
        compare.same(
            "shm_mount",
            &truth["shm_mount"],
            json!(worker.shm_user_mount),
        );
        compare.same(
            "infiniband_hostpath",
            &truth["infiniband_hostpath"],
            json!(worker.infiniband_hostpath.is_some()),
        );
        compare.same(
            "net_annotations",
            &truth["net_annotations"],
            json!(worker.net_annotations),
        );
        compare.kv_transfer(&truth["kv_transfer"], view);
    }
}

#[test]
fn rendered_overlays_read_like_their_checked_in_files() {
    let Some(folder) = corpus() else { return };
    let truth = load(&folder.join("kustomize-truth.json"));
    let tool = ["kustomize", "kubectl"].iter().any(|t| {
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
            .any(|dir| dir.join(t).is_file())
    });
    if !tool {
        support::skip::aloud("rendering of overlays: neither kustomize nor kubectl is on PATH");
    }
    let (mut wrong, mut rendered) = (Vec::new(), 0);
    for overlay in truth.as_array().unwrap() {
        let path = folder.join(overlay["overlay"].as_str().unwrap());
        if tool && path.is_dir() {
            compare_rendered(overlay, &input::read(&[path]), &mut wrong);
            rendered += 1;
        }
        if let Some(file) = overlay["rendered_file"]
            .as_str()
            .map(|f| folder.join(f))
            .filter(|f| f.is_file())
        {
            compare_rendered(overlay, &input::read(&[file]), &mut wrong);
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differences:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(!tool || rendered > 0);
}

#[test]
fn a_directory_with_several_graphs_judges_each_alone() {
    let Some(folder) = corpus() else { return };
    let inventory = input::read(&[folder.join("recipes/qwen3-32b/vllm/cloud-providers")]);
    assert_eq!(inventory.errors, []);
    let devices: Vec<_> = inventory
        .workloads
        .iter()
        .map(|w| w.workers[0].literal("UCX_NET_DEVICES").is_some())
        .collect();
    assert!(
        inventory.workloads.len() >= 4,
        "{}",
        inventory.workloads.len()
    );
    assert_eq!(devices.iter().filter(|d| **d).count(), 1, "{devices:?}");
    assert!(
        inventory
            .notes
            .iter()
            .any(|n| n.message.contains("name such a directory"))
    );
    assert!(
        inventory
            .notes
            .iter()
            .any(|n| n.message.contains("kustomize patch"))
    );
}
