//! Every shape and trap of `tests/manifests`, through the same door as the command line.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use dynamo_interconnect_check::input;
use dynamo_interconnect_check::manifest::workload::{EnvValue, Reach, Role, Worker, Workload};
use dynamo_interconnect_check::manifest::{Inventory, Text, read, view};
use dynamo_interconnect_check::source::SourceFile;
use proptest::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/manifests")
        .join(name)
}

fn inventory(name: &str) -> Inventory {
    input::read(&[fixture(name)])
}

fn of_text(text: &str) -> Inventory {
    let source = Arc::new(SourceFile {
        path: "x.yaml".into(),
        text: text.into(),
    });
    read(&[Text {
        source,
        named: true,
        companion: false,
    }])
}

fn worker<'a>(workload: &'a Workload, name: &str) -> &'a Worker {
    workload.workers.iter().find(|w| w.name == name).unwrap()
}

fn shown(worker: &Worker, name: &str) -> String {
    let spot = &worker.env[name].spot;
    spot.file.text[spot.start..spot.end].to_owned()
}

/// A variable as `value from`.
fn variable(worker: &Worker, name: &str) -> String {
    let entry = &worker.env[name];
    let value = match &entry.value {
        EnvValue::Literal(text) => text.clone(),
        other => format!("{other:?}"),
    };
    format!("{value} {}", entry.from)
}

#[test]
fn v1alpha1_levels_resources_and_files() {
    let inventory = inventory("alpha.yaml");
    assert_eq!(inventory.errors, []);
    assert_eq!(inventory.documents["ConfigMap"], 2);
    let graph = &inventory.workloads[0];
    assert_eq!(
        (graph.name.as_str(), graph.namespace.as_deref()),
        ("alpha", Some("serving"))
    );
    assert!(
        graph.disaggregated && graph.multinode && graph.separates_roles && !graph.colocates_roles
    );
    assert_eq!(graph.workers.len(), 2);
    let decode = worker(graph, "decode");
    assert_eq!(
        (
            decode.role,
            decode.role_source,
            decode.replicas,
            decode.nodes
        ),
        (Role::Decode, "subComponentType", 3, 2)
    );
    assert_eq!(
        variable(decode, "UCX_TLS"),
        "rc,cuda_copy mainContainer.env"
    );
    assert_eq!(variable(decode, "UCX_LOG_LEVEL"), "warn service.envs");
    assert_eq!(variable(decode, "NCCL_SOCKET_IFNAME"), "eth0 spec.envs");
    assert_eq!(
        variable(decode, "NCCL_DEBUG"),
        "INFO mainContainer.env<-configMap"
    );
    assert_eq!(variable(decode, "NIXL_LOG_LEVEL"), "INFO mainContainer.env");
    assert_eq!(
        variable(decode, "UCX_RNDV_THRESH"),
        "ValueFrom mainContainer.env"
    );
    assert_eq!(
        variable(decode, "NCCL_IB_HCA"),
        "Dynamic mainContainer.env",
        "DEVICE comes later, a Secret may hold it"
    );
    assert_eq!(
        variable(decode, "NCCL_IB_GID_INDEX"),
        "INFO-$(DEVICE) mainContainer.env"
    );
    assert_eq!(
        variable(decode, "NCCL_IB_TC"),
        "Dynamic mainContainer.env",
        "nobody knows what DEVICE may hold"
    );
    assert_eq!(
        variable(decode, "UCX_IB_GID_INDEX"),
        "Dynamic mainContainer.env"
    );
    assert_eq!(shown(decode, "UCX_TLS"), "value: rc,cuda_copy");
    assert_eq!(shown(decode, "NIXL_LOG_LEVEL"), "value: INFO");
    assert_eq!(shown(decode, "UCX_NET_DEVICES"), "value: \"mlx5_0:1\"");
    assert_eq!(
        shown(decode, "UCX_LOG_LEVEL"),
        "name: UCX_LOG_LEVEL\n          value: warn"
    );
    assert_eq!(decode.gpus, Some(8));
    assert_eq!(
        decode
            .rdma_resources
            .iter()
            .map(|(k, v)| format!("{k}={v}"))
            .collect::<Vec<_>>(),
        ["rdma/ib=4"]
    );
    assert!(
        decode.host_ipc
            && decode.ipc_lock
            && decode.infiniband_hostpath.is_some()
            && !decode.privileged
    );
    assert_eq!(
        (decode.run_as_user, decode.shm.as_deref()),
        (Some(7), Some("0"))
    );
    assert_eq!(decode.shm_user_mount.as_deref(), Some("16Gi"));
    assert_eq!(
        decode.reach,
        [Reach::DevicePlugin, Reach::HostPathInfiniband]
    );
    assert_eq!(
        decode.net_annotations,
        [
            "k8s.v1.cni.cncf.io/networks",
            "networking.gke.io/interfaces"
        ]
    );
    assert_eq!(decode.kv_transfer.backend.as_deref(), Some("UCX"));
    assert_eq!(decode.flags["tensor-parallel-size"], "4");
    let prefill = worker(graph, "prefill");
    assert_eq!((prefill.role, prefill.role_source), (Role::Prefill, "flag"));
    assert!(
        prefill
            .kv_transfer
            .unresolved
            .as_deref()
            .unwrap()
            .contains("/nowhere.yaml, which no ConfigMap that was read holds as YAML")
    );
}

#[test]
fn v1beta1_scripts_anchors_and_affinity() {
    let inventory = inventory("beta.yaml");
    assert_eq!(inventory.errors, []);
    let graph = &inventory.workloads[0];
    assert!(graph.disaggregated && graph.multinode && graph.colocates_roles);
    assert!(
        !graph.separates_roles,
        "the term keeps replicas of decode apart, not the roles"
    );
    assert_eq!(
        graph
            .workers
            .iter()
            .map(|w| w.name.as_str())
            .collect::<Vec<_>>(),
        ["prefill", "decode"]
    );
    let prefill = worker(graph, "prefill");
    assert_eq!(variable(prefill, "UCX_TLS"), "rc,cuda_copy container.env");
    assert_eq!(variable(prefill, "NCCL_DEBUG"), "WARN spec.env");
    assert_eq!(variable(prefill, "UCX_MEMTYPE_CACHE"), "y container.env");
    assert_eq!(variable(prefill, "UCX_RC_TIMEOUT"), "600s export");
    assert_eq!(variable(prefill, "UCX_NET_DEVICES"), "Dynamic inline");
    assert_eq!(variable(prefill, "NCCL_ALGO"), "Dynamic export");
    assert_eq!(variable(prefill, "NCCL_PROTO"), "LL128 export");
    assert_eq!(variable(prefill, "NIXL_LOG_LEVEL"), "DEBUG inline");
    assert!(
        !prefill.env.contains_key("UCX_LOG_LEVEL") && !prefill.env.contains_key("UCX_RNDV_THRESH")
    );
    assert_eq!(shown(prefill, "UCX_RC_TIMEOUT"), "UCX_RC_TIMEOUT=600s");
    assert_eq!(shown(prefill, "UCX_NET_DEVICES"), "UCX_NET_DEVICES");
    assert_eq!(
        shown(prefill, "UCX_MEMTYPE_CACHE"),
        "value: y, name: UCX_MEMTYPE_CACHE"
    );
    assert!(prefill.ulimit_memlock_in_script && prefill.host_network && prefill.efa());
    assert_eq!((prefill.shm.as_deref(), prefill.gpus), (Some("0"), Some(8)));
    assert_eq!(prefill.kv_transfer.backends, ["LIBFABRIC"]);
    assert_eq!(prefill.flags["tensor-parallel-size"], "8");
    assert_eq!(prefill.reach, [Reach::DevicePlugin, Reach::HostNetwork]);
    let decode = worker(graph, "decode");
    assert_eq!((decode.replicas, decode.nodes), (2, 3));
    assert_eq!(variable(decode, "UCX_TLS"), "rc,cuda_copy container.env");
    assert_eq!(
        decode.kv_transfer.unresolved.as_deref(),
        Some("--kv-transfer-config $(KV_FROM_SECRET), which is known only at start")
    );
}

/// vLLM's `kv_both` says that KV moves, and not which way: such a worker is no aggregated one, whatever object it stands in.
#[test]
fn a_lone_side_is_told_as_one() {
    let object = |kind: &str, args: &str| {
        format!(
            "apiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: lone}}\nspec:\n  template:\n    spec:\n      containers:\n      - \
             name: main\n        command: [python3, -m, dynamo.vllm]\n        args: [{args}]\n        resources: {{limits: \
             {{nvidia.com/gpu: 1}}}}\n"
        )
    };
    let connector = |name: &str| {
        format!("--kv-transfer-config, '{{\"kv_connector\":\"{name}\",\"kv_role\":\"kv_both\"}}'")
    };
    for (args, role, side) in [
        (
            connector("NixlConnector"),
            "kv_both/connector",
            Some("kv_both"),
        ),
        (
            connector("NixlConnector") + ", --is-prefill-worker",
            "prefill/flag",
            Some("(prefill)"),
        ),
        (connector("LMCacheConnectorV1"), "agg/default", None),
        ("--model, m".to_owned(), "agg/default", None),
    ] {
        let inventory = of_text(&object("Deployment", &args));
        let workload = &inventory.workloads[0];
        let worker = &workload.workers[0];
        assert_eq!(
            format!("{}/{}", worker.role, worker.role_source),
            role,
            "{args}"
        );
        assert_eq!(workload.disaggregated, side.is_some(), "{args}");
        let said: Vec<&str> = inventory.notes.iter().map(|n| n.message.as_str()).collect();
        match side {
            None => assert!(said.is_empty(), "{said:?}"),
            Some(side) => {
                let [one] = said.as_slice() else {
                    panic!("{said:?}");
                };
                assert!(one.contains("its peer is not in this object"), "{one}");
                assert!(one.contains(side), "{one}");
            }
        }
    }
}

#[test]
fn names_are_the_last_evidence() {
    let inventory = inventory("names.yaml");
    let graphs: Vec<String> = inventory
        .workloads
        .iter()
        .map(|g| {
            let roles: Vec<String> = g
                .workers
                .iter()
                .map(|w| format!("{}/{}", w.role, w.role_source))
                .collect();
            format!(
                "{} {} {}",
                g.name,
                if g.disaggregated {
                    "disaggregated"
                } else {
                    "aggregated"
                },
                roles.join(" ")
            )
        })
        .collect();
    assert_eq!(
        graphs,
        [
            "aggregated aggregated agg/default",
            "named disaggregated decode/name prefill/name",
            "lonely aggregated decode/type",
            "mocked aggregated prefill/type decode/type",
            "by-env disaggregated encode/env decode/kv_role",
        ]
    );
    assert!(inventory.workloads[3].mocker);
}

#[test]
fn plain_pod_templates() {
    let inventory = inventory("plain.yaml");
    assert!(inventory.errors.is_empty(), "{:?}", inventory.errors);
    let alone: Vec<&str> = inventory
        .notes
        .iter()
        .map(|note| note.message.split(" is one side").next().unwrap())
        .collect();
    assert_eq!(
        alone,
        ["Deployment served", "DynamoComponentDeployment one-alpha"]
    );
    let found: Vec<String> = inventory
        .workloads
        .iter()
        .map(|g| {
            let workers: Vec<String> = g
                .workers
                .iter()
                .map(|w| format!("{}:{}x{}n{}", w.name, w.role, w.replicas, w.nodes))
                .collect();
            format!("{} {} {}", g.kind, g.disaggregated, workers.join(" "))
        })
        .collect();
    assert_eq!(
        found,
        [
            "Deployment true served:prefillx2n1",
            "LeaderWorkerSet false group-leader:aggx2n4 group-worker:aggx2n4",
            "PodCliqueSet true prefill:prefillx2n1 decode:decodex1n1",
            "CronJob false nightly:aggx1n1",
            "Pod false listed:aggx1n1",
            "DynamoComponentDeployment true one-alpha:decodex1n1",
            "DynamoComponentDeployment false one-beta:aggx1n1",
        ]
    );
    let engine = &inventory.workloads[0].workers[0];
    assert!(!engine.by_operator);
    assert_eq!(
        (engine.kv_transfer.backend.as_deref(), engine.gpus),
        (Some("nixl"), Some(1))
    );
    assert_eq!(
        variable(&inventory.workloads[4].workers[0], "UCX_TLS"),
        "rc,cuda_copy container.env<-configMap"
    );
    assert_eq!(inventory.documents["PersistentVolumeClaim"], 1);
    assert_eq!(
        (
            inventory.documents["Job"],
            inventory.documents["List"],
            inventory.documents["Pod"]
        ),
        (1, 1, 1)
    );
}

#[test]
fn claims_find_their_templates_beside_them() {
    for name in ["claims", "claims/deploy.yaml"] {
        let inventory = inventory(name);
        assert_eq!(inventory.errors, [], "{name}");
        let prefill = worker(&inventory.workloads[0], "prefill");
        assert_eq!(prefill.claims.len(), 3);
        assert_eq!(prefill.claim_classes["nic"], "gpu.nvidia.com,rdma-dranet");
        assert_eq!(prefill.claim_classes["channel"], "ComputeDomain:domain");
        assert_eq!(prefill.unresolved_claims, ["lost"]);
        assert_eq!(prefill.reach, [Reach::DraRdma, Reach::ComputeDomain]);
        assert_eq!(prefill.kv_transfer.backend.as_deref(), Some("mooncake"));
        let decode = worker(&inventory.workloads[0], "decode");
        assert!(
            decode.claims.is_empty() && decode.reach.is_empty(),
            "declared in the pod, used by no container"
        );
    }
    let alone = inventory("claims/deploy.yaml");
    assert_eq!(alone.files, 1);
    assert!(
        alone
            .notes
            .iter()
            .any(|n| n.object.ends_with("templates.yaml") && n.message.contains("nic-template"))
    );
}

#[test]
fn a_broken_document_costs_no_other() {
    let inventory = inventory("broken/mixed.yaml");
    let names: Vec<&str> = inventory
        .workloads
        .iter()
        .map(|w| w.name.as_str())
        .collect();
    assert_eq!(names, ["before", "after"]);
    let path = fixture("broken/mixed.yaml").display().to_string();
    let objects: Vec<String> = inventory
        .errors
        .iter()
        .map(|e| e.object.replace(&path, ""))
        .collect();
    assert_eq!(objects, [":14:5", ":19:2", ":22:13"]);
    assert!(
        inventory.errors[0]
            .message
            .contains("this key stands twice"),
        "{}",
        inventory.errors[0].message
    );
    assert!(
        inventory.errors[1].message.contains("never with tabs"),
        "{}",
        inventory.errors[1].message
    );
}

#[test]
fn every_document_of_a_named_file_has_to_be_valid() {
    for (text, line) in [
        ("kind: ConfigMap\nmetadata: {name: a\ndata: [\n", 3),
        ("kind: Service\n\tx: [\n", 1),
        ("kind: Secret\n---\nkind: Job\nspec: }\n", 4),
    ] {
        let errors = of_text(text).errors;
        assert_eq!(errors.len(), 1, "{text:?}: {errors:?}");
        assert!(
            errors[0].object.starts_with(&format!("x.yaml:{line}:")),
            "{errors:?}"
        );
    }
    // A broken ConfigMap that is asked for as well is named once.
    let asked = "kind: ConfigMap\nmetadata: {name: a}\ndata: [\n---\nkind: Pod\nspec: {containers: [{args: [dynamo.], \
                 envFrom: [{configMapRef: {name: a}}]}]}\n";
    assert_eq!(of_text(asked).errors.len(), 1);
    assert_eq!(
        of_text("kind: Service\nspec: {{ .Values.x }}\n")
            .errors
            .len(),
        1
    );
}

#[test]
fn files_that_were_joined_keep_their_marks() {
    let graph = "\u{feff}kind: DynamoGraphDeployment\nmetadata: {name: g}\nspec: {components: [{type: worker}]}\n";
    let joined = format!("{graph}---\n{graph}{}", graph.replacen('k', "---\nk", 1));
    let inventory = of_text(joined.trim_start_matches('\u{feff}'));
    assert_eq!(inventory.errors, []);
    let lines: Vec<u32> = inventory.workloads.iter().map(|w| w.source.line).collect();
    assert_eq!(lines, [1, 5, 9]);
}

#[test]
fn placeholders_are_no_values() {
    let inventory = inventory("broken/placeholders.yaml");
    assert_eq!(inventory.errors, []);
    let worker = &inventory.workloads[0].workers[0];
    assert_eq!(variable(worker, "UCX_TLS"), "Dynamic container.env");
    assert_eq!(variable(worker, "UCX_NET_DEVICES"), "Dynamic container.env");
    let notes: Vec<&str> = inventory.notes.iter().map(|n| n.message.as_str()).collect();
    assert!(
        notes
            .iter()
            .any(|n| n.contains("resources is ${RESOURCES}")),
        "{notes:?}"
    );
    assert!(
        notes
            .iter()
            .any(|n| n.contains("without services or components")),
        "{notes:?}"
    );
    assert_eq!(inventory.documents["(no kind)"], 2);
}

#[test]
fn what_the_api_server_rejects_is_noted() {
    let text = "kind: DynamoGraphDeployment\nspec:\n  services:\n    W:\n      componentType: worker\n      envs: {UCX_TLS: \
                tcp}\n      extraPodSpec:\n        mainContainer:\n          env:\n          - {name: NCCL_IB_DISABLE, value: 1}\n\
                \u{20}         - {name: UCX_MEMTYPE_CACHE, value: \"n\"}\n          - {name: UCX_LOG_LEVEL, value: on}\n          \
                - {name: HF_TOKEN, value: 12345}\n";
    let inventory = of_text(text);
    let worker = &inventory.workloads[0].workers[0];
    assert_eq!(variable(worker, "NCCL_IB_DISABLE"), "1 mainContainer.env");
    assert!(!worker.env.contains_key("UCX_TLS"));
    let notes: Vec<&str> = inventory.notes.iter().map(|n| n.message.as_str()).collect();
    assert!(
        notes[0].starts_with("service.envs (line 6) is a map, not read"),
        "{notes:?}"
    );
    assert!(
        notes[1].starts_with("the values of NCCL_IB_DISABLE, UCX_LOG_LEVEL are not quoted"),
        "{notes:?}"
    );
    assert!(!format!("{notes:?}").contains("12345"));
}

#[test]
fn placeholders_make_parts_unknown() {
    let parts = |container: &str| {
        let text = format!(
            "kind: DynamoComponentDeployment\nspec:\n  type: decode\n  podTemplate:\n    spec:\n      containers:\n      - \
             {container}\n"
        );
        of_text(&text).workloads[0].workers[0]
            .unknown_parts
            .join(" ")
    };
    for (container, expected) in [
        ("{resources: '${R}'}", "resources"),
        ("{resources: {limits: '${R}'}}", "resources"),
        ("{volumeMounts: <mounts>}", "resources"),
        (
            "{env: '${E}', securityContext: '${S}'}",
            "env securityContext",
        ),
        ("{envFrom: '${E}'}", "env"),
        ("${CONTAINER}", "env resources securityContext"),
        (
            "{resources: {limits: {rdma/ib: '${N}'}}, env: [], securityContext: null}",
            "",
        ),
    ] {
        assert_eq!(parts(container), expected, "{container}");
    }
    let text =
        "kind: DynamoGraphDeployment\nspec: {components: [{type: decode, podTemplate: '${T}'}]}\n";
    assert_eq!(of_text(text).workloads[0].workers[0].unknown_parts.len(), 3);
}

#[test]
fn helm_templates_are_named_as_such() {
    let alone = inventory("helm/chart.yaml");
    assert!(alone.errors[0].message.contains("helm template"));
    let met = inventory("helm");
    assert_eq!(met.errors, []);
    assert!(met.notes[0].message.contains("helm template"));
}

#[test]
fn windows_files_read_like_others() {
    let inventory = inventory("windows.yaml");
    assert_eq!(inventory.errors, []);
    let worker = &inventory.workloads[0].workers[0];
    assert_eq!(variable(worker, "UCX_TLS"), "rc export");
    assert_eq!(
        (
            worker.env["UCX_TLS"].spot.line,
            worker.env["UCX_TLS"].spot.column
        ),
        (16, 20)
    );
    assert_eq!(inventory.documents["Secret"], 1);
}

#[test]
fn only_words_that_engines_know_are_kept() {
    let inventory = inventory("secrets/references.yaml");
    let graph = &inventory.workloads[0];
    let engine = &worker(graph, "v").kv_transfer;
    assert_eq!(engine.connector.as_deref(), Some("(unrecognised)"));
    assert_eq!(engine.backends, ["(unrecognised)"]);
    let prefill = worker(graph, "p");
    assert_eq!(prefill.flags["block-size"], "(unrecognised)");
    assert_eq!(variable(prefill, "UCX_TLS"), "Dynamic export");
    assert_eq!(variable(worker(graph, "e"), "UCX_TLS"), "Withheld export");
    let unresolved = |name: &str| worker(graph, name).kv_transfer.unresolved.clone();
    assert_eq!(
        unresolved("e").as_deref(),
        Some("--config, which no ConfigMap that was read holds as YAML")
    );
    assert_eq!(
        unresolved("w").as_deref(),
        Some("--kv-transfer-config $(NONE), which is known only at start")
    );
}

#[test]
fn planted_secrets_show_nowhere() {
    let inventory = input::read(&[fixture("")]);
    assert!(inventory.workloads.len() > 15);
    let reports: Vec<_> = inventory
        .workloads
        .iter()
        .enumerate()
        .map(|(n, w)| view::workload(w, n))
        .collect();
    let mut shown = serde_json::to_string(&(reports, &inventory.errors, &inventory.notes)).unwrap();
    for worker in inventory.workloads.iter().flat_map(|w| &w.workers) {
        let spots = worker
            .env
            .values()
            .map(|e| &e.spot)
            .chain(worker.unknown.iter().map(|u| &u.spot));
        for spot in spots.chain([&worker.spot, &worker.resources_spot]) {
            shown.push_str(&spot.evidence().excerpt);
        }
        shown.push_str(&format!(
            "{:?}{:?}{:?}",
            worker.kv_transfer, worker.flags, worker.claims
        ));
    }
    shown.extend(
        inventory
            .workloads
            .iter()
            .map(|w| w.source.evidence().excerpt),
    );
    assert!(shown.contains("UCX_TLS"));
    assert!(
        !shown.contains("s3cret"),
        "{}",
        &shown[shown.find("s3cret").unwrap().saturating_sub(300)..][..400]
    );
}

/// Lines that make a manifest more often than chance does.
fn line() -> impl Strategy<Value = String> {
    let words = [
        "kind: DynamoGraphDeployment",
        "spec:",
        "  components:",
        "  services:",
        "  - name: a",
        "    type: decode",
        "---",
        "...",
        "    podTemplate: {spec: {containers: [{name: main, args: &x [a], env: *x}]}}",
        "  env: [{name: UCX_TLS, value: $(A)}]",
        "      command: [sh, -c, 'export A=\"$(b', x]",
        "    a: |",
        "        export UCX_TLS=rc",
        "\t",
        "<<: *x",
        "&x {<<: *x}",
        "{{ .X }}",
        "kind: List",
        "items: [{kind: Pod}]",
        "      value: \"",
        "    - {name: UCX_TLS,",
        "     value: x}",
        "\r",
        "\u{feff}",
    ];
    prop_oneof![4 => proptest::sample::select(words.to_vec()).prop_map(str::to_owned), 1 => "\\PC{0,30}"]
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(lines in proptest::collection::vec(line(), 0..25)) {
        let inventory = of_text(&lines.join("\n"));
        for worker in inventory.workloads.iter().flat_map(|w| &w.workers) {
            for entry in worker.env.values() {
                entry.spot.evidence();
            }
        }
    }

    #[test]
    fn any_damage_to_a_manifest_is_survived(at in 0usize..6000, cut in 0usize..40, byte in any::<u8>()) {
        let mut bytes = fs::read(fixture("alpha.yaml")).unwrap();
        let at = at.min(bytes.len());
        let end = (at + cut).min(bytes.len());
        bytes.splice(at..end, [byte]);
        let inventory = of_text(&String::from_utf8_lossy(&bytes));
        for worker in inventory.workloads.iter().flat_map(|w| &w.workers) {
            for spot in worker.env.values().map(|e| &e.spot).chain([&worker.spot, &worker.resources_spot]) {
                spot.evidence();
            }
        }
    }
}
