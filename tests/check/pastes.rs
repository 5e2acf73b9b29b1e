//! What a report gives to paste, pasted by a program: each block where its heading says, into the manifest of v1beta1 and the same in
//! v1alpha1. The YAML must parse, and what it was given for must be gone.

use crate::fake::cluster::FakeCluster;
use crate::scenarios::{self, Scenario};
use crate::{on, run};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// The same graph as v1alpha1 writes it.
fn alpha(graph: &Value) -> Value {
    let mut services = Map::new();
    for component in graph["spec"]["components"].as_array().unwrap() {
        let template = &component["podTemplate"];
        let mut spec = template["spec"].clone();
        let containers = spec.as_object_mut().unwrap().remove("containers").unwrap();
        spec["mainContainer"] = containers[0].clone();
        let service = json!({
            "componentType": "worker", "subComponentType": component["type"], "replicas": component["replicas"],
            "sharedMemory": {"size": component["sharedMemorySize"]},
            "extraPodMetadata": template["metadata"], "extraPodSpec": spec,
        });
        services.insert(component["name"].as_str().unwrap().to_owned(), service);
    }
    json!({"apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment", "metadata": graph["metadata"],
        "spec": {"services": services}})
}

/// The place of a heading: `spec.components[decode].podTemplate.spec.containers[main]`.
fn place<'v>(object: &'v mut Value, path: &str) -> Result<&'v mut Value, String> {
    let mut at = object;
    // The last part may hold dots of no path: there is none in these.
    for part in path.split('.') {
        let (key, name) = match part.split_once('[') {
            Some((key, rest)) => (key, Some(rest.trim_end_matches(']'))),
            None => (part, None),
        };
        at = &mut at[key];
        if let Some(name) = name {
            let items = at
                .as_array_mut()
                .ok_or(format!("no list {key} of {path}"))?;
            let named = items.iter_mut().find(|item| item["name"] == name);
            at = named.ok_or(format!("no {name} of {path}"))?;
        }
    }
    Ok(at)
}

/// As a person merges lines: maps into each other, entries of a name and flags in place of the old ones.
fn merge(into: &mut Value, lines: Value) {
    match (into, lines) {
        (Value::Object(own), Value::Object(more)) => {
            for (key, value) in more {
                merge(own.entry(key).or_insert(Value::Null), value);
            }
        }
        (Value::Array(own), Value::Array(more)) => {
            for item in more {
                let flag = |v: &Value| {
                    v.as_str()
                        .and_then(|s| s.split('=').next().map(str::to_owned))
                };
                own.retain(|old| match item.get("name") {
                    Some(name) => old["name"] != *name,
                    None => flag(old) != flag(&item),
                });
                own.push(item);
            }
        }
        (own, value) => *own = value,
    }
}

/// Pastes all blocks into the graph.
fn apply(graph: &mut Value, paste: &str) -> Result<(), String> {
    for block in paste.split("\n---\n") {
        let mut sections: Vec<(&str, Vec<&str>)> = Vec::new();
        for line in block.lines() {
            match (line.strip_prefix("# under "), sections.last_mut()) {
                (Some(path), _) => sections.push((path, Vec::new())),
                (None, Some((_, lines))) => lines.push(line),
                (None, None) => return Err(format!("no heading: {line}")),
            }
        }
        for (path, lines) in sections {
            let at = place(graph, path)?;
            for line in &lines {
                let name = line
                    .strip_prefix("# remove ")
                    .and_then(|l| l.strip_suffix(" from env"));
                if let Some(name) = name {
                    let env = at["env"].as_array_mut().ok_or("no env")?;
                    let before = env.len();
                    env.retain(|entry| entry["name"] != name);
                    if env.len() == before {
                        return Err(format!("no {name} to remove under {path}"));
                    }
                }
            }
            let text = lines.join("\n");
            let value: Option<Value> =
                serde_saphyr::from_str(&text).map_err(|e| format!("{e}: {text}"))?;
            if let Some(value) = value {
                merge(at, value);
            }
        }
    }
    Ok(())
}

/// What `env` says of these manifests.
async fn env(manifests: &[Value]) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("graph.yaml");
    let texts: Vec<String> = manifests.iter().map(Value::to_string).collect();
    std::fs::write(&path, texts.join("\n---\n")).unwrap();
    let mut command = run::command("env");
    command.args([path.to_str().unwrap(), "-o", "json"]);
    run::run(command).await.report()
}

/// Id, name and object of everything that is wrong.
fn wrong(report: &Value) -> BTreeSet<[String; 3]> {
    let all = report["checks"].as_array().unwrap().iter();
    let bad = all.filter(|f| f["status"] == "fail" || f["status"] == "warn");
    bad.map(|f| {
        [&f["id"], &f["name"], &f["target"]["name"]].map(|v| v.as_str().unwrap().to_owned())
    })
    .collect()
}

/// Pastes what a report gives for each of its entries and asks `env` again. Returns for how many it was gone.
async fn cure(manifests: &[Value], report: &Value, complaints: &mut Vec<String>) -> usize {
    let before = wrong(&env(manifests).await);
    let mut cured = 0;
    for fix in report["fix_first"].as_array().unwrap() {
        let Some(paste) = fix["paste"].as_str() else {
            continue;
        };
        let mut after = manifests.to_vec();
        if let Err(e) = apply(&mut after[0], paste) {
            complaints.push(format!("{}: {e}", fix["id"]));
            continue;
        }
        let left = wrong(&env(&after).await);
        let own = |f: &&[String; 3]| fix["id"] == *f[0] && fix["name"] == *f[1];
        let asked: Vec<_> = before.iter().filter(own).collect();
        let still: Vec<_> = asked.iter().filter(|f| left.contains(**f)).collect();
        // Nothing that was right may be wrong with the lines.
        let new: Vec<_> = left.difference(&before).collect();
        if !still.is_empty() || !new.is_empty() {
            complaints.push(format!("still {still:?}, new {new:?}, with\n{paste}"));
        }
        cured += asked.len();
    }
    cured
}

/// The lines of an entry for each of these places.
fn blocks(places: &[&str], lines: &str) -> String {
    let all = places
        .iter()
        .map(|place| format!("# under {place}\n{lines}"));
    all.collect::<Vec<_>>().join("\n---\n")
}

const DECODE: &str = "spec.components[decode].podTemplate.spec.containers[main]";
const PREFILL: &str = "spec.components[prefill].podTemplate.spec.containers[main]";

/// What the first entry of these scenarios gives to paste, for each role that needs it; nothing where no line of a manifest is sure to
/// help.
fn exact() -> Vec<(&'static str, Option<String>)> {
    let entry = |name: &str, value: &str| format!("env:\n  - name: {name}\n    value: {value}");
    let ports = (0..8).map(|n| format!("mlx5_{n}:1")).collect::<Vec<_>>();
    let ports = entry("UCX_NET_DEVICES", &format!("\"{}\"", ports.join(",")));
    let address = "env:\n  - name: VLLM_NIXL_SIDE_CHANNEL_HOST\n    valueFrom:\n      fieldRef:\n        fieldPath: status.podIP";
    let roce = entry("UCX_IB_ROCE_REACHABILITY_MODE", "all");
    let both = |lines: &str| Some(blocks(&[DECODE, PREFILL], lines));
    let decode = |lines: &str| Some(blocks(&[DECODE], lines));
    vec![
        (
            "A: UCX_TLS=tcp everywhere",
            both(&entry("UCX_TLS", "rc_x,rc,cuda_copy,cuda_ipc")),
        ),
        (
            "A: UCX_TLS without cuda_copy, in decode",
            decode(&entry("UCX_TLS", "rc,cuda_ipc,cuda_copy")),
        ),
        (
            "A: RC without the UD that it needs",
            both(&entry("UCX_TLS", "rc_verbs,cuda_copy,cuda_ipc,ud")),
        ),
        (
            "A: ^cuda_ipc in a rack of NVLink",
            both("# remove UCX_TLS from env"),
        ),
        ("A: the image sets UCX_TLS=tcp on one worker", None),
        (
            "F: expandable segments",
            both(&entry(
                "PYTORCH_CUDA_ALLOC_CONF",
                "\"expandable_segments:False\"",
            )),
        ),
        (
            "C: UCX_NET_DEVICES names a device that no node has",
            both(&ports),
        ),
        ("C: UCX_NET_DEVICES names an interface", decode(&ports)),
        (
            "D: the GID index points at a link-local address",
            both("# remove UCX_IB_GID_INDEX from env"),
        ),
        ("D: the interfaces of one worker have no address", None),
        (
            "D: the rails of decode are in other subnets",
            Some(blocks(&[PREFILL, DECODE], &roce)),
        ),
        (
            "H: nobody asks for an RDMA device",
            both(
                "resources:\n  limits:\n    rdma/ib: \"8\"\nsecurityContext:\n  capabilities:\n    add: [IPC_LOCK]",
            ),
        ),
        (
            "H: networks of GKE without their annotation",
            Some(blocks(
                &[
                    "spec.components[decode].podTemplate.metadata.annotations",
                    "spec.components[prefill].podTemplate.metadata.annotations",
                ],
                r#"networking.gke.io/default-interface: eth0
networking.gke.io/interfaces: '[{"interfaceName":"eth0","network":"default"},{"interfaceName":"eth1","network":"rdma-0"}]'"#,
            )),
        ),
        (
            "I: prefill tells peers its loopback address",
            Some(blocks(&[PREFILL], address)),
        ),
        (
            "I: both prefill workers tell the address of the first",
            Some(blocks(&[PREFILL], address)),
        ),
        (
            "P: NCCL and its bootstrap on an interface that is not there",
            decode("# remove NCCL_SOCKET_IFNAME from env"),
        ),
        (
            "R: shared memory of 64 MiB",
            Some(blocks(
                &["spec.components[decode]"],
                "sharedMemorySize: 16Gi",
            )),
        ),
        (
            "N: EFA with the UCX backend",
            both(
                r#"# in place of --kv-transfer-config and its value
args:
  - '--kv-transfer-config={"kv_connector":"NixlConnector","kv_role":"kv_both","kv_connector_extra_config":{"backends":["LIBFABRIC"]}}'"#,
            ),
        ),
        (
            "N: EFA in a pod that is not privileged",
            both("securityContext:\n  privileged: true"),
        ),
        // No adapter could carry KV instead, and no channel is there.
        ("L: decode is in another NVLink domain", None),
        ("L: no IMEX channel in any pod", None),
    ]
}

#[tokio::test]
async fn what_is_pasted_parses_and_mends() {
    let (mut cured, mut complaints) = (0, Vec::new());
    let mut exact = exact();
    for Scenario {
        what, rack, args, ..
    } in scenarios::all()
    {
        let beta = rack.manifests();
        let mut old = beta.clone();
        old[0] = alpha(&beta[0]);
        let fake: FakeCluster = rack.into().start().await;
        let report = on(&fake, args).await.report();
        let mut own = Vec::new();
        if let Some(at) = exact.iter().position(|(row, _)| *row == what) {
            let (_, lines) = exact.remove(at);
            let given = report["fix_first"][0]["paste"].as_str();
            if given != lines.as_deref() {
                let of = |lines: Option<&str>| lines.unwrap_or("nothing").to_owned();
                own.push(format!(
                    "gives\n{}\nand not\n{}",
                    of(given),
                    of(lines.as_deref())
                ));
            }
        }
        cure(&beta, &report, &mut own).await;
        for manifests in [beta, old] {
            let report = env(&manifests).await;
            cured += cure(&manifests, &report, &mut own).await;
        }
        complaints.extend(own.into_iter().map(|e| format!("{what}: {e}")));
    }
    assert!(exact.is_empty(), "no such scenario: {exact:?}");
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
    // Both versions of both roles in most of them.
    assert!(cured > 40, "{cured}");
}
