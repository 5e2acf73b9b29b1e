//! Whole deployments made of recorded machines: healthy ones of every fabric have no warning, and no answer that is taken away
//! makes anything ok.

#![expect(
    clippy::unwrap_used,
    reason = "the exemption for tests does not reach helpers of an integration test"
)]

use dynamo_interconnect_check::evaluate::{Beside, evaluate};
use dynamo_interconnect_check::report::{Report, Status, Trust};
use dynamo_interconnect_check::snapshot::{
    Answer, Bundle, Deployment, Manifest, Node, Nodes, Origin, Snapshot,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// Recordings of healthy machines: the resource that their pods ask for, and what else stands in the pod.
const FABRICS: &[(&str, &str)] = &[
    ("hgx-h100-ib", "rdma/ib"),
    ("hgx-h100-roce", "rdma/roce"),
    ("p5-efa", "vpc.amazonaws.com/efa"),
    ("gb200-imex", "rdma/ib"),
];

/// Workers of these roles on nodes like the recorded one.
fn fleet(machine: &str, resource: &str, roles: &[&str]) -> Bundle {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/machines");
    let text = fs::read_to_string(path.join(format!("{machine}.json"))).unwrap();
    let recorded: Snapshot = serde_json::from_str(&text).unwrap();
    let mut snapshots = Vec::new();
    let mut nodes = BTreeMap::new();
    for (n, role) in roles.iter().enumerate() {
        let mut snapshot = recorded.clone();
        // No two have the same GPUs and adapters.
        for answer in snapshot.answers.values_mut() {
            if let Answer::Text(text) = answer {
                *text = text
                    .replace("GPU-00000000-", &format!("GPU-{n:08}-"))
                    .replace("1a20", &format!("{:02x}20", 0x1a + n))
                    .replace("53ff:fe", &format!("5{n}ff:fe"));
            }
        }
        let place = &mut snapshot.place;
        place.pod = format!("{role}-{n}");
        place.role = Some((*role).to_owned());
        place.node = Some(format!("node-{n}"));
        place.workload = Some("g".to_owned());
        let spec = format!(
            "limit: nvidia.com/gpu=8\nlimit: {resource}=8\nprivileged: true\ncapabilities: IPC_LOCK\nhost-network: false\n\
             host-ipc: false\nhost-pid: false\npod-ip: 10.0.{n}.1\nhost-ip: 192.168.0.{n}\ncomponent: {role}\n\
             image: i\nimage-id: i@sha256:1\nready: true\nrestarts: 0\n"
        );
        let mut answer = |id: &str, text: String| {
            snapshot.answers.insert(id.to_owned(), Answer::Text(text));
        };
        answer("target", format!("pod llm/{role}-{n}"));
        // What peers are told is each worker's own.
        if let Some(Answer::Text(text)) = snapshot.answers.get_mut("environment") {
            let own = |line: &str| match line.strip_prefix("VLLM_NIXL_SIDE_CHANNEL_HOST=") {
                Some(_) => format!("VLLM_NIXL_SIDE_CHANNEL_HOST=10.0.{n}.1\n"),
                None => format!("{line}\n"),
            };
            *text = text.lines().map(own).collect();
        }
        // Its variables are those of its spec.
        let set = match snapshot.answers.get("environment") {
            Some(Answer::Text(text)) => text.split_once('\n').map_or("", |(_, set)| set),
            _ => "",
        };
        let spec = Answer::Text(format!("{spec}{set}"));
        snapshot.answers.insert("pod-spec".to_owned(), spec);
        snapshots.push(snapshot.into());
        let node = Node {
            schedulable: true,
            allocatable: [resource, "nvidia.com/gpu"]
                .map(|name| (name.to_owned(), "8".to_owned()))
                .into(),
            labels: [("topology.kubernetes.io/zone".to_owned(), "a".to_owned())].into(),
        };
        nodes.insert(format!("node-{n}"), node);
    }
    let backends = match resource {
        "vpc.amazonaws.com/efa" => {
            ", \"kv_connector_extra_config\": {\"backends\": [\"LIBFABRIC\"]}"
        }
        _ => "",
    };
    let groups = ["prefill", "decode"].map(|role| {
        format!(
            "- name: {role}\n  type: {role}\n  replicas: {}\n  podTemplate:\n    spec:\n      affinity: {{podAntiAffinity: \
             {{requiredDuringSchedulingIgnoredDuringExecution: [{{labelSelector: {{}}, topologyKey: kubernetes.io/hostname}}]}}}}\n\
             \x20     containers:\n      - name: main\n        command: [python3, -m, dynamo.vllm]\n        \
             args: [--kv-transfer-config, '{{\"kv_connector\": \"NixlConnector\"{backends}}}']\n        resources: {{limits: {{nvidia.com/gpu: 8, {resource}: 8}}}}\n\
             \x20       securityContext: {{privileged: true}}\n",
            roles.len() / 2
        )
    });
    let text = format!(
        "apiVersion: nvidia.com/v1beta1\nkind: Pods\nmetadata: {{name: g}}\ngroups:\n{}",
        groups.concat()
    );
    let manifest = |origin, text: String| Manifest {
        origin,
        path: "Pods of g".to_owned(),
        text,
    };
    let object = text
        .replace("kind: Pods", "kind: DynamoGraphDeployment")
        .replace("groups:", "spec:\n  components:")
        .replace("\n- name", "\n  - name")
        .replace("\n  type", "\n    type")
        .replace("\n  replicas", "\n    replicas")
        .replace("\n  podTemplate:", "\n    podTemplate:");
    Bundle {
        format: 1,
        snapshots,
        errors: Vec::new(),
        notes: Vec::new(),
        deployment: Some(Deployment {
            name: "g".to_owned(),
            manifests: vec![
                manifest(Origin::Pods, text),
                manifest(Origin::Object, object),
            ],
            nodes: Some(Nodes::Known(nodes)),
            ..Deployment::default()
        }),
    }
}

fn judged(bundle: Bundle) -> Report {
    let report = evaluate("check", bundle, Beside::default());
    assert!(report.errors.is_empty(), "{:?}", report.errors);
    report
}

/// Statuses of the checks on the whole deployment, the gravest of each.
fn of_deployment(report: &Report) -> BTreeMap<&'static str, Status> {
    let mut all = BTreeMap::new();
    for finding in report.checks.iter().filter(|f| f.id.starts_with("DEP")) {
        let status = all.entry(finding.id).or_insert(finding.status);
        *status = finding.status.max(*status);
    }
    all
}

#[test]
fn healthy_deployments_of_every_fabric_have_no_warning() {
    for (machine, resource) in FABRICS {
        let report = judged(fleet(
            machine,
            resource,
            &["prefill", "prefill", "decode", "decode"],
        ));
        let mut ok = 0;
        for finding in &report.checks {
            let what = format!(
                "{machine}: {} {}: {}",
                finding.status, finding.name, finding.detail
            );
            assert!(finding.status < Status::Warn, "{what}");
            if !finding.id.starts_with("DEP") {
                continue;
            }
            assert!(
                finding.status == Status::Skipped
                    || ["DEP001", "DEP050"].contains(&finding.id)
                    || !finding.evidence.is_empty(),
                "{what}"
            );
            assert_ne!(finding.status, Status::Skipped, "{what}");
            ok += 1;
        }
        assert!(ok >= 12, "{machine}: {ok}");
    }
}

#[test]
fn an_answer_that_is_missing_makes_nothing_of_a_deployment_ok() {
    for (machine, resource) in FABRICS {
        let healthy = fleet(machine, resource, &["prefill", "decode"]);
        let mut bundles = vec![healthy.clone()];
        if *machine == "hgx-h100-roce" {
            // Faults that a missing answer must not hide.
            let mut broken = healthy;
            broken.snapshots[0].edit(|snapshot| {
                if let Some(Answer::Text(text)) = snapshot.answers.get_mut("environment") {
                    let set = "UCX_TLS=dc_x,cuda_copy\nVLLM_NIXL_SIDE_CHANNEL_HOST=203.0.113.7\n";
                    text.push_str(set);
                }
            });
            bundles.push(broken);
        }
        for bundle in bundles {
            let before = of_deployment(&judged(bundle.clone()));
            let ids: Vec<String> = bundle.snapshots[0].open().answers.into_keys().collect();
            for id in ids {
                let mut without = bundle.clone();
                without.snapshots[0].edit(|snapshot| _ = snapshot.answers.remove(&id));
                let report = judged(without);
                for (check, status) in of_deployment(&report) {
                    let was = before.get(check).copied();
                    // A check that did not arise, or was bad, does not become ok by looking away.
                    let better = status == Status::Ok && was.is_some_and(|was| was > Status::Ok);
                    assert!(
                        !better,
                        "{machine} without {id}: {check} was {was:?} and is ok"
                    );
                }
                assert_ne!(report.trust, Trust::Trusted, "{machine} without {id}");
            }
        }
    }
}
