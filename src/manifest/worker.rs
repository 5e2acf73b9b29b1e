//! One pod template becomes one worker.

use super::budget::Budget;
use super::companion::Companions;
use super::env::{self, Env};
use super::flags::{self, Flag, Flags};
use super::kv_transfer::{self, Config};
use super::launch::Module;
use super::overrides::{Laid, Overrides};
use super::place::Range;
use super::pod::{self, NAME_CAP, Pod};
use super::roles;
use super::start::{self, Start};
use super::word::is_name;
use super::workload::{Engine, EnvEntry, EnvValue, Role, UNRECOGNISED, UnknownVariable, Worker};
use super::yaml::{Node, Tree};
use crate::catalogue;
use crate::sanitise;
use crate::source::{SourceFile, Spot};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Longest value that is kept, in characters. It is judged as it is, and made safe where it is shown.
const VALUE_CAP: usize = 64 << 10;

/// More variables with a reserved prefix that nobody knows are not kept.
const UNKNOWN_LIMIT: usize = 100;

/// The file that a pod template was read from, and everything it may refer to.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a, 't> {
    /// The file.
    pub file: &'a Arc<SourceFile>,
    /// Its index.
    pub home: usize,
    /// ConfigMaps, claim templates, ComputeDomains.
    pub companions: &'a Companions<'t>,
    /// What may still be read.
    pub budget: &'a Budget,
}

/// A worker, and what the workload has to know beside it.
#[derive(Debug)]
pub(super) struct Built {
    /// The worker.
    pub worker: Worker,
    /// What its container runs.
    pub module: Option<Module>,
    /// Its own flags hand KV to another process.
    pub hands_on: bool,
    /// `podAffinity` on the host name.
    pub pulls_together: bool,
    /// Required `podAntiAffinity` on the host name.
    pub pushes_apart: bool,
    /// What could not be read, for a note each.
    pub remarks: Vec<String>,
}

/// Reads a pod template.
pub(super) fn build(pod: &Pod<'_>, framework: Option<&str>, scope: Scope<'_, '_>) -> Built {
    let mut env = Env::default();
    if let Some((level, list)) = pod.env_from {
        env.apply_from(list, level, scope.home, scope.companions, scope.budget);
    }
    for (level, list) in &pod.env {
        env.apply(*list, level, scope.home, scope.companions, scope.budget);
    }
    let (start, env) = match pod.container {
        Some(container) => start::read(container, env),
        None => (Start::default(), env),
    };
    let engine = match start.module {
        Some(Module::Engine(engine)) => Some(engine),
        Some(Module::Mocker | Module::Other) => None,
        None => framework.and_then(by_framework),
    };
    let overrides = Overrides::read(engine, &start.flags, &env);
    let config = config(engine, pod, &start.flags, &env, scope);
    let kv_transfer = kv_transfer::read(engine, &start.flags, &config, &overrides, &env);
    let own_role = roles::own(&start.flags, &env, &config, &kv_transfer);
    let role = roles::by_type(pod).or(own_role);
    let (role, role_source) = role.unwrap_or((Role::Agg, "default"));
    let hands_on = matches!(
        own_role,
        Some((Role::Prefill | Role::Decode | Role::Encode, _))
    ) || kv_transfer
        .connector
        .as_deref()
        .is_some_and(is_remote_connector);
    let resources = pod.resources();
    let claims = pod.claims(&resources.claims, scope.home, scope.companions);
    let caps_add = pod.capabilities();
    let infiniband_hostpath = pod.infiniband_hostpath();
    let host_network = pod.host("hostNetwork");
    let (kept, unknown) = catalogued(&env, scope);
    let (unknown_parts, mut remarks) = placeholders(pod);
    remarks.extend(env.rejected());
    if env.is_cut() {
        remarks.push(
            "the environment: too many variables in this run, the rest was not read".to_owned(),
        );
    }
    if start.unread {
        remarks
            .push("the start script: too long or too deep, what it sets is not known".to_owned());
    }
    for remark in &mut remarks {
        *remark = format!("{remark} (worker {})", pod.name);
    }
    let worker = Worker {
        name: sanitise::line(&pod.name, NAME_CAP),
        spot: pod.range.spot(scope.file),
        role,
        role_source,
        engine,
        replicas: pod.replicas,
        nodes: pod.nodes,
        gpus: resources.gpus,
        env: kept,
        unknown,
        resources_spot: resources
            .range
            .unwrap_or_else(|| resources_range(pod))
            .spot(scope.file),
        reach: pod::reach(
            &resources,
            &claims,
            infiniband_hostpath.is_some(),
            host_network,
        ),
        rdma_resources: resources.rdma,
        claims: claims.templates,
        claim_classes: claims.classes,
        unresolved_claims: claims.unresolved,
        ipc_lock: caps_add.iter().any(|c| pod::locks_memory(c)),
        ipc_lock_spot: pod.ipc_lock_range().map(|range| range.spot(scope.file)),
        caps_add,
        privileged: pod.privileged(),
        run_as_user: pod.run_as_user(),
        run_as_user_spot: pod.run_as_user_range().map(|range| range.spot(scope.file)),
        ulimit_memlock_in_script: start.ulimit_memlock,
        host_network,
        host_ipc: pod.host("hostIPC"),
        shm: pod.shm.clone(),
        shm_user_mount: pod.shm_user_mount(),
        shm_spot: pod.shm_range().map(|range| range.spot(scope.file)),
        by_operator: pod.by_operator,
        infiniband_hostpath: infiniband_hostpath.map(|range| range.spot(scope.file)),
        net_annotations: pod.net_annotations(),
        unknown_parts,
        kv_transfer,
        flags: reported(engine, &start.flags, &config, &overrides),
        may_be_dropped: may_be_dropped(&config, &overrides),
        flag_spots: flag_spots(pod, scope.file),
        kv_events_port: kv_events_port(engine, &start.flags),
        vllm_server: start.vllm_server,
        env_unread: start.unread || env.is_open(),
    };
    Built {
        worker,
        module: start.module,
        hands_on,
        pulls_together: pod.pulls_together(),
        pushes_apart: pod.pushes_apart(),
        remarks,
    }
}

fn by_framework(word: &str) -> Option<Engine> {
    match word.to_ascii_lowercase().as_str() {
        "vllm" => Some(Engine::Vllm),
        "sglang" => Some(Engine::Sglang),
        "trtllm" | "tensorrtllm" | "tensorrt-llm" => Some(Engine::Trtllm),
        _ => None,
    }
}

/// Connectors that move KV between processes, not only to host memory or a cache server.
fn is_remote_connector(name: &str) -> bool {
    ["Nixl", "P2pNccl", "Mooncake"]
        .iter()
        .any(|part| name.contains(part))
}

/// The twin of TensorRT-LLM's `--extra-engine-args` in the environment, which a flag goes before.
/// dynamo `components/src/dynamo/trtllm/backend_args.py`.
const CONFIG_OF_TRTLLM: &str = "DYN_TRTLLM_EXTRA_ENGINE_ARGS";

/// The engine's configuration file, through the volumes of the container.
fn config<'b>(
    engine: Option<Engine>,
    pod: &Pod<'_>,
    flags: &Flags,
    env: &Env,
    scope: Scope<'b, '_>,
) -> Config<'b> {
    const NAMES: [&str; 4] = [
        "config",
        "extra-engine-args",
        "trtllm-config",
        "extra-llm-api-options",
    ];
    let missing = |what: &str| Config::Missing(what.to_owned());
    let read = |name: &str, path: &str, may_be_shown: bool| {
        if path.is_empty() {
            return Config::None;
        }
        let shown = match may_be_shown && is_bare_path(path) {
            true => format!("{name} {path}"),
            false => name.to_owned(),
        };
        let text = pod.mounted_file(path, scope.home, scope.companions);
        match text.map(|text| Tree::parse(text, 0, 1)) {
            Some(Ok(tree)) => Config::Read(tree),
            Some(Err(e)) => missing(&format!("{shown}, which is not valid YAML ({e})")),
            None => missing(&format!(
                "{shown}, which no ConfigMap that was read holds as YAML"
            )),
        }
    };
    let flag = NAMES
        .iter()
        .find_map(|name| Some((format!("--{name}"), flags.get(&[name])?)));
    match flag {
        Some((name, Flag::Text(path))) => read(&name, path, true),
        Some((name, Flag::Foreign(path))) => read(&name, path, false),
        Some((name, Flag::Unresolved(reference))) => {
            let gap = if reference.is_empty() { "" } else { " " };
            missing(&format!(
                "{name}{gap}{reference}, which is known only at start"
            ))
        }
        Some((_, Flag::Present)) => Config::None,
        None if engine == Some(Engine::Trtllm) => {
            match env.get(CONFIG_OF_TRTLLM).map(env::Setting::text) {
                Some(Some(path)) => read(CONFIG_OF_TRTLLM, path, false),
                Some(None) => missing(&format!("{CONFIG_OF_TRTLLM}, which is known only at start")),
                None => Config::None,
            }
        }
        None => Config::None,
    }
}

/// A path and nothing else: a URL may carry a password, and JSON a token.
fn is_bare_path(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_');
    let named = text.starts_with(['/', '.'])
        || [".yaml", ".yml", ".json"]
            .iter()
            .any(|end| text.ends_with(end));
    (1..=200).contains(&text.len()) && named && text.chars().all(plain)
}

/// The catalogued part of an environment, and names under a reserved prefix that nobody knows.
fn catalogued(
    env: &Env,
    scope: Scope<'_, '_>,
) -> (BTreeMap<&'static str, EnvEntry>, Vec<UnknownVariable>) {
    let file = scope.file;
    let (mut kept, mut unknown) = (BTreeMap::new(), Vec::new());
    for (name, setting) in env.all() {
        if let Some(variable) = catalogue::find(name) {
            let value = match &setting.value {
                env::Value::Text(_) if setting.foreign => EnvValue::Dynamic,
                env::Value::Text(text) if !scope.budget.variable(text.len()) => EnvValue::Dynamic,
                env::Value::Text(text) if is_several_lines(text) => EnvValue::Withheld,
                env::Value::Text(text) if catalogue::withheld(variable, text) => EnvValue::Withheld,
                env::Value::Text(text) => EnvValue::Literal(text.chars().take(VALUE_CAP).collect()),
                env::Value::Elsewhere => EnvValue::ValueFrom,
                env::Value::Dynamic => EnvValue::Dynamic,
            };
            let range = match value {
                EnvValue::Withheld => name_only(setting.range, name, &file.text),
                _ => setting.range,
            };
            let entry = EnvEntry {
                value,
                from: setting.from.clone(),
                spot: range.spot(file),
            };
            kept.insert(variable.name, entry);
        } else if name.starts_with("UCX_") && !catalogue::ucx_name_known(name) {
            unknown.push((setting.range.start, name, setting.range));
        }
    }
    unknown.sort_unstable_by_key(|(start, name, _)| (*start, *name));
    unknown.truncate(UNKNOWN_LIMIT);
    let unknown = unknown.into_iter().map(|(_, name, range)| UnknownVariable {
        name: sanitise::line(name, NAME_CAP),
        spot: name_only(range, name, &file.text).spot(file),
    });
    (kept, unknown.collect())
}

/// Several lines that are no JSON: no transport variable is written so, and a quote that ends too late makes such a
/// value of whatever stands behind it.
fn is_several_lines(text: &str) -> bool {
    text.trim().contains('\n') && !catalogue::is_json(text)
}

/// The part of a range that ends with the name: the value is not for showing.
fn name_only(range: Range, name: &str, text: &str) -> Range {
    let written = text.get(range.start..range.end).unwrap_or_default();
    let end = written.find(name).map_or(0, |at| at + name.len());
    Range {
        end: range.start + end,
        ..range
    }
}

/// The port of `--kv-events-config`.
/// <https://github.com/vllm-project/vllm/blob/v0.11.0/vllm/config/kv_events.py>
fn kv_events_port(engine: Option<Engine>, flags: &Flags) -> Option<u16> {
    /// Where nothing else is said.
    const ENDPOINT: &str = "tcp://*:5557";
    if engine != Some(Engine::Vllm) {
        return None;
    }
    let json: serde_json::Value = serde_json::from_str(flags.text(&["kv-events-config"])?).ok()?;
    let is_on = json.get("enable_kv_cache_events")?.as_bool()?;
    let endpoint = json
        .get("endpoint")
        .map_or(Some(ENDPOINT), |at| at.as_str())?;
    let (_, port) = endpoint.rsplit_once(':')?;
    port.parse().ok().filter(|_| is_on)
}

/// Flags whose value is a number.
const NUMBERS: [&str; 5] = [
    "tensor-parallel-size",
    "pipeline-parallel-size",
    "data-parallel-size",
    "block-size",
    "disaggregation-bootstrap-port",
];

/// As long as a port at most.
fn is_small(text: &str) -> bool {
    (1..=5).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit())
}

/// Where the reported flags stand among the words of the command: the word that follows where it is the value, the name
/// alone inside a script.
fn flag_spots(pod: &Pod<'_>, file: &Arc<SourceFile>) -> BTreeMap<&'static str, Spot> {
    let words: Vec<Node<'_>> = ["command", "args"]
        .iter()
        .filter_map(|key| pod.container?.get(key))
        .flat_map(|list| list.items().chain(list.word().is_some().then_some(list)))
        .filter(|node| node.text().is_some() && node.holds_only_content())
        .collect();
    let mut spots = BTreeMap::new();
    for (name, aliases) in flags::REPORTED {
        let found = words.iter().find_map(|word| {
            let source = word.written_to(*word);
            aliases
                .iter()
                .find_map(|alias| flag_in(source, alias))
                .map(|(at, length)| Range::of(*word).within(source, at, length))
        });
        if let Some(range) = found {
            spots.insert(name, range.spot(file));
        }
    }
    spots
}

/// Where `--name` begins in a text, and its length.
fn flag_in(source: &str, name: &str) -> Option<(usize, usize)> {
    let written = [format!("--{name}"), format!("--{}", name.replace('-', "_"))];
    written.iter().find_map(|flag| {
        let ends = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
        let whole = |at: &usize| {
            source[..*at].chars().next_back().is_none_or(ends)
                && source[at + flag.len()..].chars().next().is_none_or(ends)
        };
        let mut places = source.match_indices(flag.as_str()).map(|(at, _)| at);
        places.find(whole).map(|at| (at, flag.len()))
    })
}

/// Flags that checks compare, from the command line, the configuration file and what is laid over it.
fn reported(
    engine: Option<Engine>,
    flags: &Flags,
    config: &Config<'_>,
    overrides: &Overrides<'_>,
) -> BTreeMap<&'static str, String> {
    // Numbers, names of devices and addresses; anything longer or stranger is none of these.
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | ',');
    let mut out = BTreeMap::new();
    for (name, aliases) in flags::REPORTED {
        let by_flag = || match flags.get(aliases) {
            // A short number, where a number is wanted, is no secret.
            Some(Flag::Foreign(text)) if NUMBERS.contains(&name) && is_small(text) => {
                Some(text.clone())
            }
            Some(Flag::Foreign(_)) => Some(UNRECOGNISED.to_owned()),
            // The one that is a switch.
            Some(Flag::Present) if name == "enable-dp-attention" => Some("true".to_owned()),
            _ => flags.shown(aliases).map(str::to_owned),
        };
        let written =
            match of_trtllm(name).filter(|_| matches!(engine, None | Some(Engine::Trtllm))) {
                Some(path) => in_trtllm(path, config, overrides).or_else(|| match engine {
                    // By `--kv-block-size` Dynamo routes; the engine does not take it.
                    Some(_) if name == "block-size" => None,
                    _ => by_flag(),
                }),
                None => by_flag(),
            };
        let written = written.or_else(|| config.word(aliases).map(str::to_owned));
        if let Some(text) = written {
            // Names of models have an owner, and may be paths.
            let plain = |c: char| plain(c) || name == "model" && c == '/';
            let fits = text.len() <= 200 && text.chars().all(plain);
            out.insert(name, if fits { text } else { UNRECOGNISED.to_owned() });
        }
    }
    out
}

/// What the file says of flags, and depends on the release.
fn may_be_dropped(
    config: &Config<'_>,
    overrides: &Overrides<'_>,
) -> BTreeMap<&'static str, String> {
    let names = flags::REPORTED.iter().map(|(name, _)| *name);
    let dropped = names.filter_map(|name| {
        let path = of_trtllm(name)?;
        let open = matches!(path, [map, _] if overrides.may_drop(map))
            && overrides.at(path) == Laid::Nothing;
        let word = config.word_at(path).filter(|word| open && is_small(word))?;
        Some((name, word.to_owned()))
    });
    dropped.collect()
}

/// Where TensorRT-LLM keeps what a flag says.
/// <https://github.com/NVIDIA/TensorRT-LLM/blob/v1.1.0/tensorrt_llm/llmapi/llm_args.py>
fn of_trtllm(flag: &str) -> Option<&'static [&'static str]> {
    Some(match flag {
        "tensor-parallel-size" => &["tensor_parallel_size"],
        "pipeline-parallel-size" => &["pipeline_parallel_size"],
        "block-size" => &["kv_cache_config", "tokens_per_block"],
        "kv-cache-dtype" => &["kv_cache_config", "dtype"],
        "enable-dp-attention" => &["enable_attention_dp"],
        _ => return None,
    })
}

/// What TensorRT-LLM takes where its file, or what is laid over it, says it; both go before a flag.
fn in_trtllm(
    path: &'static [&'static str],
    config: &Config<'_>,
    overrides: &Overrides<'_>,
) -> Option<String> {
    let written = || config.word_at(path).map(str::to_owned);
    match overrides.at(path) {
        Laid::Word(word) => Some(word),
        Laid::Null => None,
        Laid::Unread(_) => Some(UNRECOGNISED.to_owned()),
        Laid::Nothing => match path {
            // It depends on the release whether what the file says of the map still holds.
            [map, key] if overrides.may_drop(map) => written().map(|word| match (*key, &*word) {
                // What it is without the file.
                ("tokens_per_block", "32") | ("dtype", "auto") => word,
                _ => UNRECOGNISED.to_owned(),
            }),
            _ => written(),
        },
    }
}

/// Where resources would be written: the `resources` key, else the container, else the entry. Points at the key alone:
/// what stands behind it was not read as resources.
fn resources_range(pod: &Pod<'_>) -> Range {
    let keys = ["resources", "name", "image"];
    pod.container
        .and_then(|c| keys.iter().find_map(|key| c.pair(key)))
        .map_or(pod.range, |(key, value)| match key.text() {
            Some("name") => Range::pair(key, value),
            _ => Range::key(key),
        })
}

/// Where a text stands for a map or list, so that nothing is known of it: which parts, and a remark for each.
fn placeholders(pod: &Pod<'_>) -> (Vec<&'static str>, Vec<String>) {
    const ALL: &[&str] = &["env", "resources", "securityContext"];
    let mut found: Vec<(&str, &[&'static str], Node<'_>)> = Vec::new();
    found.extend(
        pod.env
            .iter()
            .map(|(level, node)| (*level, &ALL[..1], *node)),
    );
    found.extend(pod.env_from.map(|(_, node)| ("envFrom", &ALL[..1], node)));
    for resources in &pod.resources {
        found.push(("resources", &ALL[1..2], *resources));
        for key in ["limits", "requests", "claims"] {
            found.extend(resources.get(key).map(|node| (key, &ALL[1..2], node)));
        }
    }
    found.extend(pod.container.map(|node| ("the container", ALL, node)));
    found.extend(pod.spec.map(|node| ("the pod spec", ALL, node)));
    let keys: [(&str, Option<Node<'_>>, &[&'static str]); 5] = [
        ("containers", pod.spec, ALL),
        ("volumes", pod.spec, &ALL[1..2]),
        ("resourceClaims", pod.spec, &ALL[1..2]),
        ("volumeMounts", pod.container, &ALL[1..2]),
        ("securityContext", pod.container, &ALL[2..]),
    ];
    for (key, node, lost) in keys {
        found.extend(node.and_then(|n| n.get(key)).map(|n| (key, lost, n)));
    }
    let (mut unknown, mut remarks) = (BTreeSet::new(), Vec::new());
    for (what, lost, node) in found {
        let Some(text) = node.word() else { continue };
        let name = text.strip_prefix("${").and_then(|t| t.strip_suffix('}'));
        let shown = match name.filter(|n| is_name(n)) {
            Some(_) => text,
            None if env::is_placeholder(text) => "a placeholder",
            None => "a text",
        };
        unknown.extend(lost);
        remarks.push(format!(
            "{what} is {shown}: nothing is known of it; fill it in first (envsubst)"
        ));
    }
    for (level, node) in pod.env.iter().filter(|(_, node)| node.is_map()) {
        let at = node.line();
        remarks.push(format!(
            "{level} (line {at}) is a map, not read: the API server takes a list of name and value only"
        ));
    }
    (unknown.into_iter().collect(), remarks)
}
