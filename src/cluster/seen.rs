//! What of an object's spec may be seen. An API object is reduced to this the moment it arrives: settings of transports,
//! resources, rights, and the words by which an engine is started. Everything else is dropped, whatever it is: what is not
//! on a list here never goes further. The result is YAML that [`crate::manifest::read`] reads like any other manifest.

mod words;

use crate::catalogue;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use words::{CONFIG_FILE, OVERRIDES, overrides, path, words};

/// What happens to the value of a key.
enum Rule {
    /// Read on, with these rules.
    Descend,
    /// Read on below every key: names of services, of resources.
    AnyKey,
    /// As it is: it holds nothing that a person could put a secret into.
    Whole,
    /// A list of variables.
    Variables,
    /// A list of references to whole ConfigMaps and Secrets: named, never read.
    Sources,
    /// The words of a command.
    Words,
    /// The annotations that attach networks.
    Annotations,
    /// Volumes, by what kind of thing they mount.
    Volumes,
}

/// The rule for a key, wherever it stands. None: dropped.
fn rule(key: &str) -> Option<Rule> {
    Some(match key {
        "spec" | "metadata" | "groups" | "podTemplate" | "extraPodSpec" | "extraPodMetadata"
        | "mainContainer" | "containers" | "components" | "securityContext" | "volumeMounts"
        | "resources" => Rule::Descend,
        "services" | "limits" | "requests" | "custom" => Rule::AnyKey,
        "env" | "envs" => Rule::Variables,
        "envFrom" => Rule::Sources,
        "command" | "args" => Rule::Words,
        "annotations" => Rule::Annotations,
        "volumes" => Rule::Volumes,
        "apiVersion"
        | "kind"
        | "name"
        | "namespace"
        | "type"
        | "componentType"
        | "subComponentType"
        | "backendFramework"
        | "replicas"
        | "multinode"
        | "claims"
        | "sharedMemory"
        | "sharedMemorySize"
        | "resourceClaims"
        | "affinity"
        | "hostNetwork"
        | "hostIPC"
        | "hostPID"
        | "shareProcessNamespace"
        | "runtimeClassName"
        | "capabilities"
        | "privileged"
        | "runAsUser"
        | "runAsNonRoot"
        | "mountPath"
        | "gpu"
        | "image" => Rule::Whole,
        _ => return None,
    })
}

/// Annotations that attach secondary networks. Their values say to what; nothing else is read of them.
const NETWORKS: [&str; 2] = [
    "k8s.v1.cni.cncf.io/networks",
    "networking.gke.io/interfaces",
];

/// Reduces an object, or a part of one.
pub(super) fn seen(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(map.iter().filter_map(|(k, v)| entry(k, v)).collect()),
        Value::Array(items) => Value::Array(items.iter().map(seen).collect()),
        scalar => scalar.clone(),
    }
}

fn entry(key: &str, value: &Value) -> Option<(String, Value)> {
    let kept = match rule(key)? {
        Rule::Descend => seen(value),
        Rule::AnyKey => match value {
            Value::Object(map) => {
                Value::Object(map.iter().map(|(k, v)| (k.clone(), seen(v))).collect())
            }
            _ => return None,
        },
        Rule::Whole => value.clone(),
        Rule::Variables => list(value, variable),
        Rule::Sources => list(value, source),
        Rule::Words => words(value),
        Rule::Annotations => annotations(value),
        Rule::Volumes => list(value, volume),
    };
    (!is_empty(&kept)).then(|| (key.to_owned(), kept))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

fn list(value: &Value, each: fn(&Value) -> Option<Value>) -> Value {
    Value::Array(
        value
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(each)
            .collect(),
    )
}

fn object<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::Object(
        entries
            .into_iter()
            .map(|(k, v)| (k.to_owned(), v))
            .collect(),
    )
}

/// A catalogued variable. A value that may hold credentials becomes a reference to nowhere; of a reference, the kind and the
/// names of a ConfigMap remain.
fn variable(entry: &Value) -> Option<Value> {
    let name = entry["name"].as_str()?;
    let text = Value::from(name);
    if name == OVERRIDES[1] || name == CONFIG_FILE {
        let kept = entry["value"].as_str().map(|value| match name {
            CONFIG_FILE => path(value),
            _ => overrides(value),
        });
        return Some(match kept {
            Some(kept) => object([("name", text), ("value", kept.into())]),
            None => object([
                ("name", text),
                ("valueFrom", object([("withheld", true.into())])),
            ]),
        });
    }
    let known = catalogue::find(name)?;
    if let Some(value) = entry["value"].as_str() {
        return Some(if catalogue::withheld(known, value) {
            object([
                ("name", text),
                ("valueFrom", object([("withheld", true.into())])),
            ])
        } else {
            object([("name", text), ("value", value.into())])
        });
    }
    let from = match entry["valueFrom"].as_object().and_then(|o| o.iter().next()) {
        Some((kind, to)) if kind == "configMapKeyRef" => object([(
            "configMapKeyRef",
            object([("name", to["name"].clone()), ("key", to["key"].clone())]),
        )]),
        Some((kind, _)) => Value::Object(Map::from_iter([(kind.clone(), true.into())])),
        None => return Some(object([("name", text), ("value", "".into())])),
    };
    Some(object([("name", text), ("valueFrom", from)]))
}

fn source(entry: &Value) -> Option<Value> {
    let named = |kind: &str| {
        let name = entry[kind]["name"].as_str()?;
        Some(Value::Object(Map::from_iter([(
            kind.to_owned(),
            object([("name", name.into())]),
        )])))
    };
    named("configMapRef").or_else(|| named("secretRef"))
}

fn annotations(value: &Value) -> Value {
    let kept = NETWORKS.into_iter().filter(|key| value.get(*key).is_some());
    Value::Object(kept.map(|key| (key.to_owned(), "set".into())).collect())
}

/// Volumes that say something about shared memory or devices; of all others only that they are there.
fn volume(entry: &Value) -> Option<Value> {
    let name = entry["name"].as_str()?;
    if let Some(dir) = entry.get("emptyDir") {
        let kept: Map<String, Value> = ["medium", "sizeLimit"]
            .iter()
            .filter_map(|key| Some(((*key).to_owned(), dir.get(*key)?.clone())))
            .collect();
        return Some(object([
            ("name", name.into()),
            ("emptyDir", Value::Object(kept)),
        ]));
    }
    if let Some(map) = entry["configMap"].as_object() {
        let kept: Map<String, Value> = ["name", "items"]
            .iter()
            .filter_map(|key| Some(((*key).to_owned(), map.get(*key)?.clone())))
            .collect();
        return Some(object([
            ("name", name.into()),
            ("configMap", Value::Object(kept)),
        ]));
    }
    let path = entry["hostPath"]["path"].as_str()?;
    let host = object([("path", path.into())]);
    Some(object([("name", name.into()), ("hostPath", host)]))
}

/// Settings of an engine's configuration file that may be seen.
const SETTINGS: &[&str] = &[
    "cache_transceiver_config",
    "kv-transfer-config",
    "kv_transfer_config",
    "kv_cache_config",
    "disaggregation-mode",
    "disaggregation_mode",
    "disaggregation-transfer-backend",
    "disaggregation-ib-device",
    "tensor_parallel_size",
    "tensor-parallel-size",
    "pipeline_parallel_size",
    "pipeline-parallel-size",
    "data-parallel-size",
    "dp-size",
    "enable-dp-attention",
    "enable_attention_dp",
    "kv-cache-dtype",
    "kv_cache_dtype",
    "block-size",
    "page-size",
];

/// Reduces the data of a ConfigMap: `variables` of them become variables of a worker by their own name; keys in `asked` are
/// the values of catalogued variables; other values may be the file of an engine, of which settings on a list remain.
pub(super) fn seen_data(data: &Value, asked: &[&str]) -> Value {
    let kept = data
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| {
            let text = value.as_str()?;
            let shown = match catalogue::find(key) {
                Some(known) => !catalogue::withheld(known, text),
                None => asked.contains(&key.as_str()) && !catalogue::withheld_of("", text),
            };
            if shown {
                return Some((key.clone(), Value::from(text)));
            }
            let file: Value = serde_saphyr::from_str(text).ok()?;
            let settings: Map<String, Value> = file
                .as_object()?
                .iter()
                .filter(|(name, value)| {
                    SETTINGS.contains(&name.as_str())
                        && !catalogue::withheld_of("", &value.to_string())
                })
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            let file = serde_saphyr::to_string(&settings).ok()?;
            Some((key.clone(), Value::from(file)))
        });
    Value::Object(kept.collect())
}

/// ConfigMaps that a reduced object refers to, with the keys that it takes by name.
pub(super) fn config_maps(value: &Value, into: &mut BTreeMap<String, BTreeSet<String>>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| config_maps(item, into)),
        Value::Object(map) => {
            for (key, part) in map {
                let named = matches!(
                    key.as_str(),
                    "configMapRef" | "configMapKeyRef" | "configMap"
                );
                if let Some(name) = part["name"].as_str().filter(|_| named) {
                    let keys = into.entry(name.to_owned()).or_default();
                    keys.extend(part["key"].as_str().map(str::to_owned));
                }
                config_maps(part, into);
            }
        }
        _ => {}
    }
}

/// How a pod refers to what it gets by DRA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ClaimKind {
    Template,
    Claim,
}

impl ClaimKind {
    /// The kind of the object.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Template => "ResourceClaimTemplate",
            Self::Claim => "ResourceClaim",
        }
    }

    /// Its place in a path of the API.
    pub(super) fn plural(self) -> &'static str {
        match self {
            Self::Template => "resourceclaimtemplates",
            Self::Claim => "resourceclaims",
        }
    }
}

/// The claims and templates that an object refers to, wherever it does.
pub(super) fn claims(value: &Value, into: &mut BTreeSet<(ClaimKind, String)>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| claims(item, into)),
        Value::Object(map) => {
            for (key, part) in map {
                let kind = match key.as_str() {
                    "resourceClaimTemplateName" => Some(ClaimKind::Template),
                    "resourceClaimName" => Some(ClaimKind::Claim),
                    _ => None,
                };
                if let (Some(kind), Some(name)) = (kind, part.as_str()) {
                    into.insert((kind, name.to_owned()));
                }
                claims(part, into);
            }
        }
        _ => {}
    }
}

/// Of the spec of a claim or template, the device classes of its requests.
pub(super) fn seen_claim(value: &Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.iter().map(seen_claim).collect()),
        Value::Object(map) => {
            let part = |(key, part): (&String, &Value)| {
                let kept = match key.as_str() {
                    "spec" | "devices" | "requests" | "exactly" | "firstAvailable" => {
                        seen_claim(part)
                    }
                    "deviceClassName" => Value::from(part.as_str()?),
                    _ => return None,
                };
                Some((key.clone(), kept))
            };
            Value::Object(map.iter().filter_map(part).collect())
        }
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn of_a_claim_the_classes_remain() {
        let spec = json!({"metadata": {"labels": {"x": "s3cret"}}, "spec": {"devices": {
            "requests": [
                {"name": "channel", "exactly": {"deviceClassName": "compute-domain-default-channel.nvidia.com", "count": 1}},
                {"name": "nic", "firstAvailable": [{"name": "a", "deviceClassName": "rdma-dranet", "selectors": [{"cel": {"expression": "s3cret"}}]}]},
            ],
            "config": [{"opaque": {"driver": "d", "parameters": {"domainID": "s3cret"}}}],
        }}});
        assert_eq!(
            seen_claim(&spec),
            json!({"spec": {"devices": {"requests": [
                {"exactly": {"deviceClassName": "compute-domain-default-channel.nvidia.com"}},
                {"firstAvailable": [{"deviceClassName": "rdma-dranet"}]},
            ]}}})
        );
        let pod = json!({"groups": [{"podTemplate": {"spec": {"resourceClaims": [
            {"name": "a", "resourceClaimTemplateName": "t"}, {"name": "b", "resourceClaimName": "c"}]}}}]});
        let mut found = BTreeSet::new();
        claims(&pod, &mut found);
        let expected = [
            (ClaimKind::Template, "t".to_owned()),
            (ClaimKind::Claim, "c".to_owned()),
        ];
        assert_eq!(found, expected.into());
    }

    #[test]
    fn of_a_config_map_only_settings_of_transports_are_seen() {
        let data = json!({
            "UCX_TLS": "rc", "HF_TOKEN": "s3cret", "tls": "tcp", "other": "s3cret",
            "engine.yaml": "cache_transceiver_config: {backend: UCX}\nmodel: s3cret\n",
        });
        let kept = seen_data(&data, &["tls"]);
        assert!(!kept.to_string().contains("s3cret"), "{kept}");
        assert_eq!(
            (&kept["UCX_TLS"], &kept["tls"]),
            (&json!("rc"), &json!("tcp"))
        );
        assert!(
            kept["engine.yaml"]
                .as_str()
                .is_some_and(|t| t.contains("backend: UCX")),
            "{kept}"
        );
        let mut found = BTreeMap::new();
        let pod = json!({"containers": [{"envFrom": [{"configMapRef": {"name": "a"}}],
            "env": [{"valueFrom": {"configMapKeyRef": {"name": "b", "key": "k"}}}]}]});
        config_maps(&pod, &mut found);
        assert_eq!(found["b"], BTreeSet::from(["k".to_owned()]));
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn only_what_is_on_a_list_is_seen() {
        let pod = json!({
            "metadata": {"name": "p", "annotations": {"last-applied": "s3cret", "k8s.v1.cni.cncf.io/networks": "s3cret"}},
            "spec": {
                "hostNetwork": true, "imagePullSecrets": [{"name": "s3cret"}],
                "volumes": [{"name": "t", "projected": {"s3cret": 1}}, {"name": "shm", "emptyDir": {"medium": "Memory"}}],
                "containers": [{
                    "name": "main", "workingDir": "s3cret",
                    "resources": {"limits": {"rdma/ib": "8"}},
                    "env": [
                        {"name": "UCX_TLS", "value": "rc"}, {"name": "HF_TOKEN", "value": "s3cret"},
                        {"name": "NIXL_ETCD_ENDPOINTS", "value": "http://u:s3cret@h"},
                        {"name": "NCCL_IB_HCA", "valueFrom": {"secretKeyRef": {"name": "s3cret", "key": "k"}}},
                    ],
                    "envFrom": [{"configMapRef": {"name": "fabric"}}],
                    "lifecycle": {"preStop": {"exec": {"command": ["s3cret"]}}},
                }],
            },
            "status": {"s3cret": 1},
        });
        let kept = seen(&pod);
        assert!(!kept.to_string().contains("s3cret"), "{kept}");
        let container = &kept["spec"]["containers"][0];
        assert_eq!(container["resources"]["limits"]["rdma/ib"], "8");
        assert_eq!(container["env"].as_array().map(Vec::len), Some(3));
        assert_eq!(container["envFrom"][0]["configMapRef"]["name"], "fabric");
        assert_eq!(kept["spec"]["volumes"].as_array().map(Vec::len), Some(1));
        assert_eq!(
            kept["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"],
            "set"
        );
    }
}
