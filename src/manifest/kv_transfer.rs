//! How an engine moves KV: its flags, its JSON, its configuration file.

use super::env::Env;
use super::flags::{Flag, Flags};
use super::overrides::{Laid, Overrides};
use super::workload::{Engine, KvTransfer, UNRECOGNISED};
use super::yaml::{Node, Tree};
use serde_json::Value;

/// vLLM's connectors, and those that Dynamo adds.
/// <https://github.com/vllm-project/vllm/blob/v0.14.0/vllm/distributed/kv_transfer/kv_connector/factory.py>
const CONNECTORS: &[&str] = &[
    "AscendStoreConnector",
    "DecodeBenchConnector",
    "DynamoConnector",
    "ExampleConnector",
    "ExampleHiddenStatesConnector",
    "FlexKVConnectorV1",
    "HF3FSKVConnector",
    "LMCacheConnector",
    "LMCacheConnectorV1",
    "LMCacheMPConnector",
    "MoRIIOConnector",
    "MooncakeConnector",
    "MooncakeConnectorV1",
    "MooncakeConnectorStoreV1",
    "MooncakeLayerwiseConnector",
    "MooncakeStoreConnector",
    "MultiConnector",
    "NixlConnector",
    "NixlPullConnector",
    "NixlPushConnector",
    "OffloadingConnector",
    "P2pNcclConnector",
    "PdConnector",
    "PyNcclConnector",
    "SharedStorageConnector",
    "SimpleCPUOffloadConnector",
];
/// vLLM's roles of a connector.
const ROLES: &[&str] = &["kv_both", "kv_producer", "kv_consumer"];
/// Where a connector keeps its buffers.
const DEVICES: &[&str] = &["cuda", "cpu", "xpu", "hpu", "npu", "tpu", "rocm"];
/// Plugins of NIXL, under the names of its own list.
const PLUGINS: &[&str] = &[
    "UCX",
    "UCX_MO",
    "LIBFABRIC",
    "MOONCAKE",
    "GPUNETIO",
    "UCCL",
    "GDS",
    "GDS_MT",
    "POSIX",
    "OBJ",
    "HF3FS",
    "GUSLI",
    "AZURE_BLOB",
    "INFINIA",
];
/// Backends of SGLang and TensorRT-LLM.
const BACKENDS: &[&str] = &[
    "ascend", "default", "fake", "mooncake", "mori", "mpi", "nixl", "ucx",
];

/// An engine's configuration file.
#[derive(Debug)]
pub(super) enum Config<'a> {
    /// No flag names one.
    None,
    /// In a ConfigMap of the input.
    Read(Tree<'a>),
    /// Named, and not read: by what, and why, as a clause (`--config /x.yaml, which no ConfigMap that was read holds as YAML`).
    Missing(String),
}

impl Config<'_> {
    /// The text under the first of several keys. Engines take `_` and `-`.
    pub fn word(&self, keys: &[&str]) -> Option<&str> {
        let Self::Read(tree) = self else { return None };
        let root = tree.roots().next()?;
        keys.iter().find_map(|key| {
            root.word_at(&[*key])
                .or_else(|| root.word_at(&[&key.replace('-', "_")]))
        })
    }

    /// The text at the end of a path of keys.
    pub fn word_at(&self, path: &[&str]) -> Option<&str> {
        self.root()?.word_at(path)
    }

    fn root(&self) -> Option<Node<'_>> {
        match self {
            Self::Read(tree) => tree.roots().next(),
            _ => None,
        }
    }
}

/// What the flags, the configuration and the environment say about moving KV.
pub(super) fn read(
    engine: Option<Engine>,
    flags: &Flags,
    config: &Config<'_>,
    overrides: &Overrides<'_>,
    env: &Env,
) -> KvTransfer {
    let mut kv = KvTransfer {
        unread: matches!(config, Config::Missing(_)),
        laid_over: overrides.unread().map(str::to_owned),
        ..KvTransfer::default()
    };
    if matches!(engine, None | Some(Engine::Vllm)) {
        vllm(&mut kv, flags, config);
    }
    if matches!(engine, None | Some(Engine::Sglang)) {
        sglang(&mut kv, flags, config, env);
    }
    if matches!(engine, None | Some(Engine::Trtllm)) {
        trtllm(&mut kv, config, overrides);
    }
    if engine == Some(Engine::Trtllm) {
        kv.off = is_off(&mut kv, config, overrides);
    }
    let undecided = kv.connector.is_none() && kv.backend.is_none() && kv.unresolved.is_none();
    if let (true, Config::Missing(what)) = (undecided, config) {
        kv.unresolved = Some(what.clone());
    }
    kv
}

/// A word that an engine knows, as the engine spells it. Whatever else stands there is used by nobody and may be
/// anything, so it is not shown.
fn known(words: &'static [&'static str], text: &str) -> String {
    let word = words.iter().find(|w| w.eq_ignore_ascii_case(text));
    match word {
        Some(_) => text.to_owned(),
        None => UNRECOGNISED.to_owned(),
    }
}

fn vllm(kv: &mut KvTransfer, flags: &Flags, config: &Config<'_>) {
    match flags.get(&["kv-transfer-config"]) {
        Some(flag @ (Flag::Text(text) | Flag::Foreign(text))) => {
            match serde_json::from_str::<Value>(text) {
                Ok(json) => {
                    connector(kv, &json);
                    let own = matches!(flag, Flag::Text(_));
                    kv.is_plain = own && is_plain(&json) && !kv.says_unrecognised();
                }
                Err(e) => {
                    let at = format!("line {} column {}", e.line(), e.column());
                    kv.unresolved = Some(format!("--kv-transfer-config, which is no JSON at {at}"));
                }
            }
        }
        Some(Flag::Unresolved(reference)) => {
            let gap = if reference.is_empty() { "" } else { " " };
            kv.unresolved = Some(format!(
                "--kv-transfer-config{gap}{reference}, which is known only at start"
            ));
        }
        Some(Flag::Present) => {
            kv.unresolved = Some("--kv-transfer-config, which has no value".into())
        }
        None => match config.root().and_then(|r| {
            r.get("kv-transfer-config")
                .or_else(|| r.get("kv_transfer_config"))
        }) {
            Some(node) if node.is_map() => connector_in_yaml(kv, node),
            Some(node) => {
                if let Some(json) = node.word().and_then(|text| serde_json::from_str(text).ok()) {
                    connector(kv, &json);
                }
            }
            None => {}
        },
    }
    // vLLM also takes the fields of a JSON flag one by one: `--kv-transfer-config.kv_role kv_both`.
    let field = |name: &str, words| {
        let text = flags.text(&[&format!("kv-transfer-config.{name}")])?;
        Some(known(words, text))
    };
    // Dynamo's short word, of releases before `--kv-transfer-config` was wanted.
    let short = flags.text(&["connector"]).filter(|word| *word == "nixl");
    let KvTransfer {
        connector,
        kv_role,
        buffer_device,
        ..
    } = kv;
    *connector = connector
        .take()
        .or_else(|| field("kv-connector", CONNECTORS))
        .or_else(|| short.map(|_| "NixlConnector".to_owned()));
    *kv_role = kv_role.take().or_else(|| field("kv-role", ROLES));
    *buffer_device = buffer_device
        .take()
        .or_else(|| field("kv-buffer-device", DEVICES));
}

/// The configuration says nothing but what is kept of it.
fn is_plain(json: &Value) -> bool {
    let only = |json: &Value, keys: &[&str]| {
        let object = json.as_object();
        object.is_some_and(|object| object.keys().all(|key| keys.contains(&key.as_str())))
    };
    let extra = "kv_connector_extra_config";
    only(
        json,
        &["kv_connector", "kv_role", "kv_buffer_device", extra],
    ) && json
        .get(extra)
        .is_none_or(|extra| only(extra, &["backends"]))
}

fn connector(kv: &mut KvTransfer, json: &Value) {
    let text = |key: &str, words| Some(known(words, json.get(key)?.as_str()?));
    kv.connector = kv
        .connector
        .take()
        .or_else(|| text("kv_connector", CONNECTORS));
    kv.kv_role = kv.kv_role.take().or_else(|| text("kv_role", ROLES));
    kv.buffer_device = kv
        .buffer_device
        .take()
        .or_else(|| text("kv_buffer_device", DEVICES));
    let Some(extra) = json.get("kv_connector_extra_config") else {
        return;
    };
    let switch = extra.get("enable_cross_layers_blocks");
    kv.cross_layers = switch.and_then(|v| match v {
        Value::String(text) => text.to_ascii_lowercase().parse().ok(),
        other => other.as_bool(),
    });
    for backend in extra
        .get("backends")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .take(16)
    {
        kv.backends
            .extend(backend.as_str().map(|b| known(PLUGINS, b)));
    }
    // A MultiConnector holds others; what they say about backends and buffers is what moves KV.
    for inner in extra
        .get("connectors")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .take(16)
    {
        let mut nested = KvTransfer::default();
        connector(&mut nested, inner);
        holds(kv, nested);
    }
}

/// Takes what a connector inside another one says.
fn holds(kv: &mut KvTransfer, mut nested: KvTransfer) {
    kv.held.extend(nested.connector);
    kv.held.append(&mut nested.held);
    kv.held.truncate(16);
    kv.backends.append(&mut nested.backends);
    kv.buffer_device = kv.buffer_device.take().or(nested.buffer_device);
}

fn connector_in_yaml(kv: &mut KvTransfer, node: Node<'_>) {
    let text = |key: &str, words| node.word_at(&[key]).map(|text| known(words, text));
    kv.connector = text("kv_connector", CONNECTORS);
    kv.kv_role = text("kv_role", ROLES);
    kv.buffer_device = text("kv_buffer_device", DEVICES);
    let backends = node
        .at(&["kv_connector_extra_config", "backends"])
        .into_iter()
        .flat_map(Node::items);
    kv.backends.extend(
        backends
            .filter_map(Node::word)
            .map(|b| known(PLUGINS, b))
            .take(16),
    );
    let held = node
        .at(&["kv_connector_extra_config", "connectors"])
        .into_iter()
        .flat_map(Node::items);
    let name = |inner: Node<'_>| Some(known(CONNECTORS, inner.word_at(&["kv_connector"])?));
    kv.held.extend(held.filter_map(name).take(16));
}

fn sglang(kv: &mut KvTransfer, flags: &Flags, config: &Config<'_>, env: &Env) {
    const NAME: &str = "disaggregation-transfer-backend";
    match flags.get(&[NAME]) {
        Some(Flag::Text(text) | Flag::Foreign(text)) => kv.backend = Some(known(BACKENDS, text)),
        Some(_) => kv.unresolved = Some(format!("--{NAME}, whose value is known only at start")),
        None => {
            let word = config
                .word(&[NAME])
                .or_else(|| env.text("DYN_SGLANG_DISAGGREGATION_TRANSFER_BACKEND"));
            kv.backend = kv
                .backend
                .take()
                .or_else(|| word.map(|w| known(BACKENDS, w)));
        }
    }
}

/// Where TensorRT-LLM keeps what moves KV.
const TRANSCEIVER: [&str; 2] = ["cache_transceiver_config", "backend"];

/// Nothing that decides it chooses a backend, and all of that was read. Otherwise says what was not.
fn is_off(kv: &mut KvTransfer, config: &Config<'_>, overrides: &Overrides<'_>) -> bool {
    if kv.backend.is_some() || kv.unresolved.is_some() {
        return false;
    }
    if overrides.at(&TRANSCEIVER) == Laid::Null {
        return true;
    }
    let Some(root) = config.root() else {
        return false;
    };
    // A placeholder may stand for the whole.
    let written = root.get(TRANSCEIVER[0]).is_some_and(|node| {
        let backend = node.at(&TRANSCEIVER[1..]);
        backend.is_some_and(|node| !is_null(node)) || !node.is_map() && !is_null(node)
    });
    kv.unresolved =
        written.then(|| "cache_transceiver_config, where a placeholder stands".to_owned());
    kv.unresolved.is_none()
}

/// Nothing stands there, in YAML's words.
fn is_null(node: Node<'_>) -> bool {
    node.word()
        .is_none_or(|word| ["", "~", "null"].contains(&word))
        && !node.is_map()
}

fn trtllm(kv: &mut KvTransfer, config: &Config<'_>, overrides: &Overrides<'_>) {
    kv.backend = match overrides.at(&TRANSCEIVER) {
        Laid::Word(word) => Some(known(BACKENDS, &word)),
        Laid::Null => None,
        Laid::Unread(what) => {
            kv.unresolved = Some(format!("{what}, which could not be read"));
            None
        }
        Laid::Nothing => {
            let written = || {
                let node = config.root()?.at(&TRANSCEIVER)?;
                Some(known(BACKENDS, node.word().filter(|_| !is_null(node))?))
            };
            match written() {
                Some(_) if overrides.may_drop(TRANSCEIVER[0]) => {
                    kv.unresolved = Some(format!(
                        "{}, over which other keys of {} are laid: whether it still holds depends on the release",
                        TRANSCEIVER.join("."),
                        TRANSCEIVER[0]
                    ));
                    None
                }
                written => written.or_else(|| kv.backend.take()),
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::flags::Argument;

    fn of(engine: Engine, flags: &Flags, config: &Config<'_>) -> KvTransfer {
        let (engine, env) = (Some(engine), Env::default());
        let overrides = Overrides::read(engine, flags, &env);
        read(engine, flags, config, &overrides, &env)
    }

    fn flags(words: &[(&str, bool)]) -> Flags {
        let words: Vec<Argument> = words
            .iter()
            .map(|(t, known)| Argument {
                text: (*t).into(),
                open: (!known).then(|| "$(X)".into()),
                foreign: false,
            })
            .collect();
        Flags::parse(&words)
    }

    #[test]
    fn what_overrides_and_was_not_read_leaves_the_backend_open() {
        let kv = of(
            Engine::Trtllm,
            &flags(&[
                ("--override-engine-args", true),
                ("_", true),
                ("--trtllm.cache-transceiver-config.backend", true),
                ("DEFAULT", true),
            ]),
            &Config::None,
        );
        assert_eq!(kv.backend, None);
        assert_eq!(
            kv.unresolved.as_deref(),
            Some("--override-engine-args, which could not be read")
        );
    }

    #[test]
    fn vllm_connectors() {
        let json = r#"{"kv_connector":"MultiConnector","kv_role":"kv_both","kv_connector_extra_config":
            {"connectors":[{"kv_connector":"NixlConnector","kv_connector_extra_config":{"backends":["LIBFABRIC"]}}]}}"#;
        let kv = of(
            Engine::Vllm,
            &flags(&[("--kv-transfer-config", true), (json, true)]),
            &Config::None,
        );
        assert_eq!(
            (kv.connector.as_deref(), kv.backends.as_slice()),
            (Some("MultiConnector"), &["LIBFABRIC".to_owned()][..])
        );
        let names: Vec<&str> = kv.connectors().collect();
        assert_eq!(names, ["MultiConnector", "NixlConnector"]);
        let kv = of(
            Engine::Vllm,
            &flags(&[("--kv-transfer-config=$(X)", false)]),
            &Config::None,
        );
        assert_eq!(
            kv.unresolved.as_deref(),
            Some("--kv-transfer-config $(X), which is known only at start")
        );
        let kv = of(
            Engine::Vllm,
            &flags(&[("--kv-transfer-config={", true)]),
            &Config::None,
        );
        assert!(kv.unresolved.is_some());
    }

    #[test]
    fn configuration_files() {
        let tree = Tree::parse(
            "cache_transceiver_config: {backend: UCX}\ndisaggregation_transfer_backend: nixl\n",
            0,
            1,
        )
        .unwrap();
        let config = Config::Read(tree);
        let kv = |engine| of(engine, &Flags::default(), &config);
        assert_eq!(kv(Engine::Trtllm).backend.as_deref(), Some("UCX"));
        assert_eq!(kv(Engine::Sglang).backend.as_deref(), Some("nixl"));
        assert_eq!(kv(Engine::Vllm).backend, None);
        assert!(!kv(Engine::Trtllm).off && !kv(Engine::Vllm).off);
        for (text, flag, off, open) in [
            ("tensor_parallel_size: 4", "", true, false),
            (
                "cache_transceiver_config: {max_tokens_in_buffer: 8}",
                "",
                true,
                false,
            ),
            ("cache_transceiver_config: null", "", true, false),
            ("cache_transceiver_config: {backend: null}", "", true, false),
            ("cache_transceiver_config: {backend: UCX}", "", false, false),
            ("cache_transceiver_config: {backend: {}}", "", false, true),
            ("cache_transceiver_config: ${CACHE}", "", false, true),
            ("tensor_parallel_size: 4", "{\"a\": 1}", true, false),
            ("tensor_parallel_size: 4", "{", false, true),
            (
                "cache_transceiver_config: {backend: UCX}",
                "{\"cache_transceiver_config\": {\"max_tokens_in_buffer\": 8}}",
                false,
                true,
            ),
            (
                "cache_transceiver_config: {max_tokens_in_buffer: 8}",
                "{\"cache_transceiver_config\": {\"max_tokens_in_buffer\": 9}}",
                true,
                false,
            ),
            (
                "tensor_parallel_size: 4",
                "{\"cache_transceiver_config\": {\"backend\": \"UCX\"}}",
                false,
                false,
            ),
        ] {
            let config = Config::Read(Tree::parse(text, 0, 1).unwrap());
            let flags = match flag {
                "" => Flags::default(),
                json => flags(&[("--override-engine-args", true), (json, true)]),
            };
            let kv = of(Engine::Trtllm, &flags, &config);
            assert_eq!(
                (kv.off, kv.unresolved.is_some()),
                (off, open),
                "{text} {flag}"
            );
        }
        let missing = Config::Missing(
            "--config /x.yaml, which no ConfigMap that was read holds as YAML".into(),
        );
        assert!(
            of(Engine::Sglang, &Flags::default(), &missing)
                .unresolved
                .is_some()
        );
    }
}
