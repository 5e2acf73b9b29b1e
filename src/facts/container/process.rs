//! The process that moves KV: its limits, capabilities and environment.
//!
//! The worker's own values count. The probe's own count only where there is no worker, because what exec starts may have
//! other limits than what the runtime started.

use super::answers::{Seen, first, list, pairs, tool, whole};
use crate::ask::{self, Ask};
use crate::catalogue::{self, Variable};
use crate::facts::limits::{self, Capabilities, Memlock, UidMap};
use crate::facts::transcript::{self, excerpt};
use crate::observed::{Observed, Skip};
use crate::report::SkipReason;
use crate::sanitise;
use crate::snapshot::Snapshot;
use serde_json::Value;
use std::collections::BTreeMap;

/// Facts about the worker process, or about the probe's where there is none.
#[derive(Debug, Clone)]
pub struct Process {
    /// Processes of engines that were found, in the order of their numbers.
    pub workers: Observed<Seen<Vec<Worker>>>,
    /// Limit on locked memory.
    pub memlock: Observed<Seen<Memlock>>,
    /// Effective capabilities.
    pub capabilities: Observed<Seen<Capabilities>>,
    /// User namespace.
    pub uid_map: Observed<Seen<UidMap>>,
    /// Catalogued variables of the process.
    pub environment: Observed<Seen<Environment>>,
    /// What the worker was told of its KV cache on its command line.
    pub kv_transfer: Observed<Seen<KvTransfer>>,
    /// A person pasted what they had: of files that are not among it nothing is asked.
    pasted: bool,
    /// Settings from files of UCX, in the order in which later ones win.
    pub ucx_files: Observed<Seen<Vec<FileSetting>>>,
    /// Settings from files of NCCL, in the order in which later ones win.
    pub nccl_files: Observed<Seen<Vec<FileSetting>>>,
}

/// A process of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    /// Number of the process.
    pub pid: String,
    /// What it runs, a word of the probe's own list: `dynamo.vllm`, `sglang`, `vllm-engine`.
    pub word: String,
}

/// What `--kv-transfer-config` of vLLM says, as far as it chooses the way of the KV cache.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KvTransfer {
    /// First backend of NIXL.
    pub backend: Option<String>,
    /// What moves KV: the connector of vLLM with those that it holds, the transfer backend of SGLang.
    pub movers: Vec<String>,
    /// What else may decide it, and was not read.
    pub not_read: Option<String>,
    /// KV lies in host memory on purpose (`kv_buffer_device`); none where no configuration says where it lies.
    pub host_memory: Option<bool>,
}

/// Whose environment was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whose {
    /// A worker's, with what it runs.
    Worker(String),
    /// The probe's own: what a process would start with here.
    Probe,
    /// A person pasted it.
    Pasted,
}

/// An environment, as far as its variables are in the catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// Whose.
    pub whose: Whose,
    /// Values by name.
    pub variables: BTreeMap<String, String>,
    /// Names of variables that are set to what may be a credential.
    pub withheld: Vec<String>,
}

/// A setting in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSetting {
    /// The file.
    pub file: String,
    /// Section header above it. UCX applies a section only on the CPUs it names.
    pub section: Option<String>,
    /// The variable.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// A variable in force, and where it was set.
#[derive(Debug, Clone)]
pub struct InForce<'a> {
    /// The variable.
    pub variable: &'static Variable,
    /// Its value.
    pub value: &'a str,
    /// The file that sets it; `None` for the environment.
    pub file: Option<&'a str>,
    /// The read that showed it.
    pub ask: &'static Ask,
}

/// The environment of the worker alone, without reading the rest.
pub(super) fn environment_of(snapshot: &Snapshot) -> Observed<Seen<Environment>> {
    match list(snapshot, &ask::ENVIRONMENT, environment) {
        // The probe begins with the process that it read, and who pastes may have nothing to paste.
        Observed::Known(seen)
            if seen.whose == Whose::Pasted
                && seen.variables.is_empty()
                && seen.withheld.is_empty()
                && !snapshot.is_pasted() =>
        {
            Observed::Missing(Skip::new(
                SkipReason::Unparsable,
                format!("{} names no process", ask::ENVIRONMENT.short()),
            ))
        }
        read => read,
    }
}

/// Catalogued variables that the container gives to whatever starts in it.
pub(super) fn of_container(snapshot: &Snapshot) -> Observed<Seen<BTreeMap<String, String>>> {
    list(snapshot, &ask::CONTAINER_ENVIRONMENT, |text| {
        environment(text).variables
    })
}

/// The command line where it holds a configuration, else the variable that start commands hand to it.
pub(super) fn kv_transfer(snapshot: &Snapshot) -> Observed<Seen<KvTransfer>> {
    let line = list(snapshot, &ask::WORKER_KV_TRANSFER, |text| {
        let mut all = serde_json::Map::new();
        // Connectors that one holds have a line each.
        let mut movers = Vec::new();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            if let Ok(Value::Object(one)) = serde_json::from_str(&format!("{{{line}}}")) {
                movers.extend(named_in(&one));
                movers.extend(transceiver(&one, snapshot));
                all.extend(one);
            }
        }
        (all, movers)
    });
    if let Observed::Known(seen) = &line
        && let (all, movers) = &seen.value
        && !all.is_empty()
    {
        let (all, ask) = (Value::Object(all.clone()), seen.ask);
        let read = KvTransfer::of(&all, &all["backends"], movers.clone());
        return Observed::Known(Seen::new(ask, read));
    }
    let variable = environment_of(snapshot).get().ok().and_then(|e| {
        let json = e.variables.get("KV_TRANSFER_CONFIG")?;
        let json = serde_json::from_str::<Value>(json).ok()?;
        let extra = &json["kv_connector_extra_config"];
        let held = extra["connectors"].as_array().into_iter().flatten();
        let all = held.chain([&json]).filter_map(Value::as_object);
        let movers = all.filter_map(named_in).take(16).collect();
        let read = KvTransfer::of(&json, &extra["backends"], movers);
        Some(Seen::new(e.ask, read))
    });
    match (variable, line) {
        (Some(seen), _) => Observed::Known(seen),
        (None, Observed::Known(seen)) => {
            let movers = by_default(snapshot).into_iter().collect();
            let read = KvTransfer {
                movers,
                ..KvTransfer::default()
            };
            Observed::Known(Seen::new(seen.ask, read))
        }
        (None, Observed::Missing(skip)) => Observed::Missing(skip),
    }
}

/// What moves KV of a process whose command line was read and says nothing of it. SGLang takes Mooncake.
/// <https://github.com/sgl-project/sglang/blob/v0.5.5/python/sglang/srt/server_args.py>
fn by_default(snapshot: &Snapshot) -> Option<String> {
    let environment = environment_of(snapshot);
    let environment = environment.known()?;
    match &environment.whose {
        Whose::Worker(word) if word.contains("sglang") => {
            let twin = environment
                .variables
                .get("DYN_SGLANG_DISAGGREGATION_TRANSFER_BACKEND");
            Some(twin.map_or("mooncake".to_owned(), |name| sanitise::line(name, 80)))
        }
        _ => None,
    }
}

/// What TensorRT-LLM moves KV by. Its DEFAULT is what a switch in the environment says.
fn transceiver(config: &serde_json::Map<String, Value>, snapshot: &Snapshot) -> Option<String> {
    let name = config.get("transceiver")?.as_str()?;
    if !name.eq_ignore_ascii_case("default") {
        return Some(sanitise::line(name, 80));
    }
    let environment = environment_of(snapshot);
    let Some(environment) = environment.known() else {
        // A switch may say anything.
        return Some("unknown".to_owned());
    };
    let value = |name: &str| environment.variables.get(name).map(String::as_str);
    Some(
        catalogue::switch_of_trtllm(value)
            .unwrap_or("nixl")
            .to_owned(),
    )
}

/// The connector or transfer backend that a configuration names.
fn named_in(config: &serde_json::Map<String, Value>) -> Option<String> {
    let name = ["kv_connector", "transfer_backend"]
        .iter()
        .find_map(|name| config.get(*name)?.as_str());
    name.map(|name| sanitise::line(name, 80))
}

impl KvTransfer {
    fn of(config: &Value, backends: &Value, movers: Vec<String>) -> Self {
        let device = config["kv_buffer_device"].as_str();
        // Of several connectors each has its own, which is not read. Otherwise vLLM keeps it on the GPU.
        let alone = !movers.iter().any(|name| name == "MultiConnector");
        let told = alone && config["not_read"].is_null();
        let on_gpu = told.then_some(false);
        Self {
            backend: backends[0].as_str().map(|name| sanitise::line(name, 80)),
            movers,
            not_read: config["not_read"]
                .as_str()
                .map(|what| sanitise::line(what, 80)),
            host_memory: device.map(|device| device == "cpu").or(on_gpu),
        }
    }
}

impl Process {
    pub(super) fn read(snapshot: &Snapshot) -> Self {
        let workers = list(snapshot, &ask::WORKER_PROCESS, |text| {
            let pairs = pairs(text);
            pairs
                .map(|(pid, word)| Worker {
                    pid: excerpt(pid),
                    word: excerpt(word),
                })
                .collect::<Vec<_>>()
        });
        let memlock = own_or_probes(
            &workers,
            tool(snapshot, &ask::WORKER_LIMITS, limits::parse_proc_limits),
            first(vec![
                tool(snapshot, &ask::LIMITS, limits::parse),
                tool(snapshot, &ask::ULIMIT, limits::parse),
            ]),
        );
        let capabilities = own_or_probes(
            &workers,
            tool(snapshot, &ask::WORKER_STATUS, limits::parse_status),
            tool(snapshot, &ask::STATUS, limits::parse_status),
        );
        Self {
            memlock,
            capabilities,
            workers,
            uid_map: tool(snapshot, &ask::UID_MAP, limits::parse_uid_map),
            pasted: snapshot.is_pasted(),
            kv_transfer: kv_transfer(snapshot),
            environment: environment_of(snapshot),
            ucx_files: list(snapshot, &ask::UCX_SETTINGS, |text| {
                settings(text, str::trim)
            }),
            nccl_files: list(snapshot, &ask::NCCL_SETTINGS, |text| {
                settings(text, |value| value)
            }),
        }
    }

    /// What the worker runs, where one was found.
    pub fn worker_word(&self) -> Option<&str> {
        if let Some(environment) = self.environment.known()
            && let Whose::Worker(word) = &environment.whose
        {
            return Some(word);
        }
        let workers = self.workers.known()?;
        workers.first().map(|worker| worker.word.as_str())
    }

    /// Variables in force: the environment, and what files set beside it.
    pub fn in_force(&self) -> Result<BTreeMap<&'static str, InForce<'_>>, Skip> {
        let environment = self.environment.get()?;
        let mut settings = BTreeMap::new();
        for files in [&self.ucx_files, &self.nccl_files] {
            for setting in files.known().into_iter().flat_map(|f| f.iter()) {
                let Some(variable) = catalogue::find(&setting.name) else {
                    continue;
                };
                if setting.section.is_none() {
                    settings.insert(
                        variable.name,
                        InForce {
                            variable,
                            value: &setting.value,
                            file: Some(&setting.file),
                            ask: if variable.name.starts_with("UCX_") {
                                &ask::UCX_SETTINGS
                            } else {
                                &ask::NCCL_SETTINGS
                            },
                        },
                    );
                }
            }
        }
        for (name, value) in &environment.variables {
            if let Some(variable) = catalogue::find(name) {
                settings.insert(
                    variable.name,
                    InForce {
                        variable,
                        value,
                        file: None,
                        ask: environment.ask,
                    },
                );
            }
        }
        Ok(settings)
    }

    /// The value in force of one variable; `None` where it is unset. That it is unset takes a look at the files, too,
    /// where somebody could look.
    pub fn value(&self, name: &str) -> Result<Option<&str>, Skip> {
        if let Some(setting) = self.in_force()?.get(name) {
            return Ok(Some(setting.value));
        }
        let files = match name.split_once('_') {
            Some(("UCX", _)) => &self.ucx_files,
            Some(("NCCL", _)) => &self.nccl_files,
            _ => return Ok(None),
        };
        match files {
            Observed::Missing(skip) if !self.pasted || skip.reason != SkipReason::NotCollected => {
                Err(skip.clone())
            }
            _ => Ok(None),
        }
    }
}

/// The worker's fact. The probe's own stands in only where it is known that there is no worker, or nobody looked for one.
fn own_or_probes<T>(
    workers: &Observed<Seen<Vec<Worker>>>,
    own: Observed<Seen<T>>,
    probes: Observed<Seen<T>>,
) -> Observed<Seen<T>> {
    match (own, workers) {
        (Observed::Known(own), _) => Observed::Known(own),
        (_, Observed::Known(workers)) if workers.is_empty() => probes,
        // Nobody asked: a person pasted what they had.
        (_, Observed::Missing(skip)) if skip.reason == SkipReason::NotCollected => probes,
        (Observed::Missing(skip), _) => Observed::Missing(skip),
    }
}

/// `# process PID WORD`, then `NAME=value` lines. `env` as people paste it has no such head.
fn environment(text: &str) -> Environment {
    let mut whose = Whose::Pasted;
    let mut variables = BTreeMap::new();
    let mut withheld = Vec::new();
    for line in transcript::lines(text) {
        if let Some(name) = line.strip_prefix("# withheld ") {
            withheld.push(excerpt(name));
            continue;
        }
        if let Some(process) = line.strip_prefix("# process ") {
            whose = match process.split_once(' ') {
                Some(("self", _)) | None => Whose::Probe,
                Some((_, word)) => Whose::Worker(excerpt(word)),
            };
            continue;
        }
        if let Some((name, value)) = transcript::assignment(&line)
            && catalogue::find(name).is_some()
        {
            // Of two of one name `getenv` takes the first.
            variables
                .entry(name.to_owned())
                .or_insert_with(|| value.into_owned());
        }
    }
    Environment {
        whose,
        variables,
        withheld,
    }
}

/// `path: present`, then `path: NAME=value` and `path: [section]`.
/// `value_of`: UCX reads its file with a reader of INI, which takes blanks off; NCCL takes the rest of the line.
fn settings(text: &str, value_of: fn(&str) -> &str) -> Vec<FileSetting> {
    let mut settings = Vec::new();
    let mut section: Option<(&str, String)> = None;
    for (file, written) in text.lines().filter_map(|line| line.split_once(": ")) {
        let line = written.trim();
        if line == "present" || line == "denied" {
            section = None;
        } else if line.starts_with('[') {
            section = Some((file, excerpt(line.trim_matches(['[', ']']))));
        } else if let Some((name, value)) = written.trim_start().split_once('=') {
            settings.push(FileSetting {
                file: excerpt(file),
                section: section
                    .as_ref()
                    .filter(|(of, _)| *of == file)
                    .map(|(_, section)| section.clone()),
                name: excerpt(name),
                value: value_of(value).to_owned(),
            });
        }
    }
    settings
}

/// Whether files of settings were there and closed to us.
pub fn denied_files(snapshot: &Snapshot) -> Vec<String> {
    [&ask::UCX_SETTINGS, &ask::NCCL_SETTINGS]
        .into_iter()
        .filter_map(|ask| whole(snapshot, ask).ok())
        .flat_map(pairs)
        .filter(|(_, line)| *line == "denied")
        .map(|(file, _)| excerpt(file))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::testing::container;
    use crate::facts::limits::Limit;

    const SMALL: &str = "Max locked memory  65536  65536  bytes";
    const LARGE: &str = "Max locked memory  unlimited  unlimited  bytes";

    #[test]
    fn the_workers_limit_counts_and_the_probes_only_without_a_worker() {
        let memlock = |answers: &[(&Ask, &str)]| {
            let process = Process::read(&container("decode", answers));
            process.memlock.get().map(|limit| limit.soft)
        };
        let worker = (&ask::WORKER_PROCESS, "17: dynamo.vllm");
        let own = (&ask::WORKER_LIMITS, SMALL);
        let probes = (&ask::LIMITS, LARGE);
        assert_eq!(memlock(&[worker, own, probes]), Ok(Limit::Bytes(65536)));
        assert!(memlock(&[worker, probes]).is_err());
        assert_eq!(
            memlock(&[(&ask::WORKER_PROCESS, ""), probes]),
            Ok(Limit::Unlimited)
        );
        assert_eq!(memlock(&[probes]), Ok(Limit::Unlimited));
        assert_eq!(
            memlock(&[(&ask::ULIMIT, "$ ulimit -l\n64\n")]),
            Ok(Limit::Bytes(65536))
        );
    }

    #[test]
    fn the_environment_wins_over_files_and_sections_do_not_count() {
        let files = "/etc/ucx/ucx.conf: present\n/etc/ucx/ucx.conf: UCX_TLS=tcp\n\
                     /etc/ucx/ucx.conf: UCX_IB_SL=1\n/etc/ucx/ucx.conf: [Grace]\n\
                     /etc/ucx/ucx.conf: UCX_MAX_RNDV_RAILS=4\n/root/ucx.conf: denied";
        let answers = [
            (
                &ask::ENVIRONMENT,
                "# process 17 dynamo.vllm\nUCX_TLS=rc\nHF_TOKEN=x",
            ),
            (&ask::UCX_SETTINGS, files),
        ];
        let snapshot = container("decode", &answers);
        let process = Process::read(&snapshot);
        let settings = process.in_force().unwrap();
        let names: Vec<_> = settings
            .values()
            .map(|s| (s.variable.name, s.value, s.file))
            .collect();
        assert_eq!(
            names,
            [
                ("UCX_IB_SL", "1", Some("/etc/ucx/ucx.conf")),
                ("UCX_TLS", "rc", None)
            ]
        );
        assert_eq!(process.worker_word(), Some("dynamo.vllm"));
        assert_eq!(denied_files(&snapshot), ["/root/ucx.conf"]);
        let pasted = Process::read(&container("decode", &[(&ask::ENVIRONMENT, "UCX_TLS=tcp")]));
        assert_eq!(pasted.environment.get().unwrap().whose, Whose::Pasted);
        assert_eq!(pasted.value("UCX_NET_DEVICES"), Ok(None));
    }
}
