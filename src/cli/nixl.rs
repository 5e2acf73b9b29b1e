//! `nixl`: can these workers move KV with NIXL, and, with `--transfer`, do they, and over which lane.

use super::node::{Collected, TargetArguments};
use super::{
    ReportArguments,
    node::{name_and_file, not_blank},
};
use crate::facts::pair::PairFacts;
use crate::manifest::Inventory;
use crate::report::{ExitCode, Note, PairReport, Pairs, Report};
use crate::snapshot::Snapshot;
use crate::transfer::End;
use crate::transfer::protocol::Memory;
use crate::transfer::{
    Intent, Limits, Local, Open, Path, Settings, Step, TransferRecord, Verdict, judge,
};
use crate::{ask, bundle, catalogue, checks, collect};
use clap::{ArgGroup, Args, ValueEnum};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("ends").args(["peer", "own", "pods"]))]
pub(super) struct Arguments {
    #[command(flatten)]
    targets: TargetArguments,
    /// Move test data between two containers and name the lane that carried it. The only part of this tool that moves
    /// data: at most 4 GiB per pair, nothing written, nothing left running.
    #[arg(long, requires = "ends")]
    transfer: bool,
    /// The other end of the transfer: a pod.
    #[arg(long, value_name = "POD", requires_all = ["transfer", "pod"], value_parser = not_blank)]
    peer: Option<String>,
    /// Both ends in one container: proves registration and the local lane when only one pod is there.
    #[arg(long = "self", requires = "transfer", conflicts_with_all = ["peer", "pods"])]
    own: bool,
    /// Transfer between all pairs: prefill=SELECTOR,decode=SELECTOR (label selectors; a comma belongs to the selector
    /// until the next `decode=`).
    #[arg(long, value_name = "ROLES", requires = "transfer", conflicts_with_all = ["peer", "pod"], group = "targets", value_parser = roles)]
    pods: Option<(String, String)>,
    /// Transfer between this many of all pairs. What is not in the sample stays unproven.
    #[arg(long, value_name = "N", requires = "pods")]
    sample: Option<usize>,
    /// Fewer and smaller operations: a few seconds per pair. Bytes and lane are told, rates are not held against the port.
    #[arg(long, requires = "transfer")]
    quick: bool,
    /// Where the bytes lie: GPU memory where there is a GPU and room for it, host memory otherwise.
    #[arg(long, value_enum, default_value = "auto")]
    memory: MemoryChoice,
    /// GPU, as CUDA numbers those that the container sees.
    #[arg(long, value_name = "N", default_value = "0")]
    gpu: u32,
    /// NIXL backend; the one that the engine's environment selects, else UCX.
    #[arg(long, value_name = "NAME")]
    backend: Option<String>,
    /// Judge pasted outputs instead of a machine: NAME is what printed them; repeatable.
    #[arg(long, value_name = "NAME=FILE", value_parser = name_and_file, conflicts_with_all = ["pod", "selector", "transfer"])]
    input: Vec<(String, PathBuf)>,
    /// Replay a recording instead of reading a machine.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["pod", "selector", "transfer"])]
    from: Option<PathBuf>,
    #[command(flatten)]
    report: ReportArguments,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum MemoryChoice {
    Auto,
    Gpu,
    Host,
}

impl From<MemoryChoice> for Memory {
    fn from(choice: MemoryChoice) -> Self {
        match choice {
            MemoryChoice::Auto => Self::Auto,
            MemoryChoice::Gpu => Self::Gpu,
            MemoryChoice::Host => Self::Host,
        }
    }
}

/// `prefill=SELECTOR,decode=SELECTOR`, in either order.
fn roles(text: &str) -> Result<(String, String), String> {
    let usage = || "write prefill=SELECTOR,decode=SELECTOR".to_owned();
    let (p, d) = (
        text.find("prefill=").ok_or_else(usage)?,
        text.find("decode=").ok_or_else(usage)?,
    );
    let part = |from: usize, name: &str, other: usize| {
        let end = if other > from { other } else { text.len() };
        text[from + name.len()..end]
            .trim_matches([',', ' '])
            .to_owned()
    };
    let (prefill, decode) = (part(p, "prefill=", d), part(d, "decode=", p));
    if prefill.is_empty() || decode.is_empty() {
        Err(usage())
    } else {
        Ok((prefill, decode))
    }
}

impl Arguments {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let each = Duration::from_secs(self.targets.timeout);
        let (mut collected, pairs, of) = self.collect(each);
        if self.transfer && pairs.is_empty() && collected.errors.is_empty() {
            collected.notes.push(Note {
                object: "transfer".to_owned(),
                message: "no transfer was made: no two ends were found".to_owned(),
            });
        }
        let mut findings =
            checks::run_with_pairs(&Inventory::default(), &collected.snapshots, &pairs);
        if !self.transfer {
            // Readiness alone: the rest of the container is `node`'s business.
            findings.retain(|f| matters(f.id));
        }
        for pod in unseen_and_used(&collected.snapshots, &pairs) {
            findings.retain(|f| f.name != "nixl" || f.target.name != pod);
            collected.notes.push(Note {
                object: pod,
                message: "NIXL is in none of the usual directories; the transfer found it by the interpreter".to_owned(),
            });
        }
        let made = pairs.iter().map(report_of).collect();
        let report = Report::with_pairs(
            "nixl",
            Vec::new(),
            findings,
            collected.errors,
            collected.notes,
            Pairs { made, of },
        );
        self.report.finish(&report)
    }

    fn collect(&self, each: Duration) -> (Collected, Vec<PairFacts>, usize) {
        if !self.input.is_empty() {
            let (snapshot, errors) = collect::pasted(&self.input);
            let snapshots = if snapshot.answers.is_empty() {
                Vec::new()
            } else {
                vec![snapshot]
            };
            return (
                Collected {
                    snapshots,
                    errors,
                    ..Collected::default()
                },
                Vec::new(),
                0,
            );
        }
        if let Some(path) = &self.from {
            let collected = match bundle::read(path) {
                Ok(recording) => Collected {
                    snapshots: recording.snapshots,
                    errors: recording.errors,
                    notes: recording.notes,
                    interrupted: false,
                },
                Err(error) => Collected::error(path.display().to_string(), error.to_string()),
            };
            return (collected, Vec::new(), 0);
        }
        let pods =
            !self.targets.pod.is_empty() || self.targets.selector.is_some() || self.pods.is_some();
        if pods {
            return self.over_pods();
        }
        let snapshot = collect::host(each);
        if !(self.transfer && self.own) {
            return (
                Collected {
                    snapshots: vec![snapshot],
                    ..Collected::default()
                },
                Vec::new(),
                0,
            );
        }
        let facts = match tokio::runtime::Runtime::new() {
            Ok(runtime) => {
                let here = Local::default();
                runtime.block_on(one_pair(
                    &self.choice(),
                    (&here, &snapshot),
                    (&here, &snapshot),
                ))
            }
            Err(error) => {
                let message = format!("cannot start the runtime: {error}");
                return (
                    Collected::error("transfer".to_owned(), message),
                    Vec::new(),
                    0,
                );
            }
        };
        (
            Collected {
                snapshots: vec![snapshot],
                ..Collected::default()
            },
            vec![facts],
            1,
        )
    }

    fn choice(&self) -> Choice {
        Choice {
            memory: self.memory.into(),
            gpu: self.gpu,
            backend: self.backend.clone(),
            own: self.own,
            quick: self.quick,
        }
    }

    #[cfg(not(feature = "cluster"))]
    fn over_pods(&self) -> (Collected, Vec<PairFacts>, usize) {
        (self.targets.probe(), Vec::new(), 0)
    }

    #[cfg(feature = "cluster")]
    fn over_pods(&self) -> (Collected, Vec<PairFacts>, usize) {
        let runtime = match tokio::runtime::Runtime::new() {
            Ok(runtime) => runtime,
            Err(error) => {
                let message = format!("cannot start the runtime: {error}");
                return (Collected::error("pods".to_owned(), message), Vec::new(), 0);
            }
        };
        let all = runtime.block_on(pods::transfers(self));
        // A credential plugin or a name look-up that hangs must not keep the process.
        runtime.shutdown_background();
        all
    }
}

/// How a transfer is made.
#[derive(Clone)]
struct Choice {
    memory: Memory,
    gpu: u32,
    backend: Option<String>,
    own: bool,
    quick: bool,
}

/// One transfer, judged.
async fn one_pair<T: Open, I: Open>(
    choice: &Choice,
    (target, target_facts): (&T, &Snapshot),
    (initiator, initiator_facts): (&I, &Snapshot),
) -> PairFacts {
    let settings = Settings {
        backend: choice
            .backend
            .clone()
            .unwrap_or_else(|| backend_of(initiator_facts)),
        memory: choice.memory,
        gpu: choice.gpu,
        same_container: choice.own,
        steps: if choice.quick {
            Step::quick()
        } else {
            Step::usual()
        },
        echo: catalogue::all().map(|v| v.name.to_owned()).collect(),
        nonce: format!("{:016x}", RandomState::new().hash_one(1u8)),
        seed: (RandomState::new().hash_one(2u8) & 0xffff_ffff) as u32,
        limits: Limits::default(),
        root: String::new(),
    };
    let ends = (end(target, target_facts), end(initiator, initiator_facts));
    let record = crate::transfer::run(&ends.0, &ends.1, &settings).await;
    let verdict = judge(&record, &intent(initiator_facts, target_facts));
    facts(&record, &verdict, initiator_facts.place.namespace.clone())
}

/// Transfers between containers over the Kubernetes API.
#[cfg(feature = "cluster")]
mod pods {
    use super::{Arguments, Collected, PairFacts, Snapshot, one_pair};
    use crate::catalogue;
    use crate::cli::progress::Bar;
    use crate::cluster::connect::Cluster;
    use crate::cluster::pods::by_selector;
    use crate::cluster::run::{Schedule, Stop};
    use crate::collect;
    use crate::collect::pods::Wanted;
    use crate::probe::pod_exec::ExecTarget;
    use crate::report::InputError;
    use crate::transfer::plan::{Pair, Plan};
    use crate::transfer::pod::Pod;
    use crate::transfer::rounds::Outcome;
    use crate::transfer::run_rounds;
    use std::sync::Arc;
    use std::time::Duration;

    /// Probes the ends and, with `--transfer`, moves data between them.
    pub(super) async fn transfers(arguments: &Arguments) -> (Collected, Vec<PairFacts>, usize) {
        let targets = &arguments.targets;
        let cluster = match targets.connect(Duration::from_secs(targets.deadline)).await {
            Ok(cluster) => cluster,
            Err(message) => {
                return (
                    Collected::error("Kubernetes API".to_owned(), message),
                    Vec::new(),
                    0,
                );
            }
        };
        let namespace = targets
            .namespace
            .clone()
            .unwrap_or_else(|| cluster.namespace.clone());
        let mut collected = Collected::default();
        let list = targets.selector.is_some() || arguments.pods.is_some();
        let access = targets.missing_access(&cluster, &namespace, list);
        let ((wanted, sides), access) = tokio::join!(
            wanted(arguments, &cluster, &namespace, &mut collected),
            access
        );
        collected.notes.extend(access);
        let schedule = Schedule {
            parallel: targets.parallel,
            each: Duration::from_secs(targets.timeout),
            all: Duration::from_secs(targets.deadline),
        };
        let names = wanted
            .iter()
            .map(|w| crate::sanitise::line(w.name().1, 60))
            .collect();
        let bar = Bar::new("probing", names);
        let done = |index| bar.done(index);
        let container = targets.container.as_deref();
        let snapshots =
            collect::pods::probe(&cluster, wanted, container, schedule, Stop::never(), done).await;
        bar.finish();
        let (facts, of) = if arguments.transfer {
            moved(arguments, &cluster, &snapshots, &sides, &mut collected).await
        } else {
            (Vec::new(), 0)
        };
        collected.snapshots = snapshots;
        (collected, facts, of)
    }

    /// Positions of the ends among the snapshots: targets (prefill) and initiators (decode).
    #[derive(Default)]
    struct Sides {
        targets: Vec<usize>,
        initiators: Vec<usize>,
    }

    async fn wanted(
        arguments: &Arguments,
        cluster: &Cluster,
        namespace: &str,
        collected: &mut Collected,
    ) -> (Vec<Wanted>, Sides) {
        let mut sides = Sides::default();
        let Some((prefill, decode)) = &arguments.pods else {
            let mut wanted = match arguments.targets.wanted(cluster, namespace).await {
                Ok(wanted) => wanted,
                Err((wanted, error)) => {
                    collected.errors.push(error);
                    wanted
                }
            };
            if arguments.own {
                sides = Sides {
                    targets: vec![0],
                    initiators: vec![0],
                };
            } else if let Some(peer) = &arguments.peer {
                wanted.truncate(1);
                sides = Sides {
                    targets: vec![1],
                    initiators: vec![0],
                };
                wanted.push(Wanted::Named {
                    namespace: namespace.to_owned(),
                    name: peer.clone(),
                });
            }
            return (wanted, sides);
        };
        let catalogued = |name: &str| catalogue::find(name).is_some();
        let mut all = Vec::new();
        for (selector, side) in [
            (prefill, &mut sides.targets),
            (decode, &mut sides.initiators),
        ] {
            match by_selector(cluster, namespace, selector, &catalogued).await {
                Ok(found) if found.is_empty() => collected.errors.push(InputError {
                    object: crate::sanitise::line(selector, 200),
                    message: format!(
                        "no pod in namespace {namespace} matches this selector; check --pods and -n"
                    ),
                }),
                Ok(found) => {
                    for pod in found {
                        side.push(all.len());
                        all.push(Wanted::Found(Box::new(pod)));
                    }
                }
                Err(error) => collected.errors.push(InputError {
                    object: crate::sanitise::line(selector, 200),
                    message: error.to_string(),
                }),
            }
        }
        (all, sides)
    }

    async fn moved(
        arguments: &Arguments,
        cluster: &Cluster,
        snapshots: &[Snapshot],
        sides: &Sides,
        collected: &mut Collected,
    ) -> (Vec<PairFacts>, usize) {
        let ends: Arc<Vec<(Pod, Snapshot)>> = Arc::new(
            snapshots
                .iter()
                .map(|s| (place(cluster, s), s.clone()))
                .collect(),
        );
        let choice = arguments.choice();
        if let ([target], [initiator]) = (sides.targets.as_slice(), sides.initiators.as_slice()) {
            let (Some((a, x)), Some((b, y))) = (ends.get(*target), ends.get(*initiator)) else {
                return (Vec::new(), 0);
            };
            return (vec![one_pair(&choice, (a, x), (b, y)).await], 1);
        }
        let names = |side: &[usize]| {
            side.iter()
                .map(|i| snapshots[*i].place.pod.clone())
                .collect::<Vec<_>>()
        };
        let plan = match Plan::new(
            &names(&sides.targets),
            &names(&sides.initiators),
            arguments.sample,
            1,
        ) {
            Ok(plan) => plan,
            Err(error) => {
                if collected.errors.is_empty() && arguments.pods.is_some() {
                    collected.errors.push(InputError {
                        object: "--pods".to_owned(),
                        message: error.to_string(),
                    });
                }
                return (Vec::new(), 0);
            }
        };
        let (targets, initiators) = (sides.targets.clone(), sides.initiators.clone());
        let bar = Bar::counting("transferring", plan.pairs());
        let transfer = |pair: Pair| {
            let (ends, choice) = (Arc::clone(&ends), choice.clone());
            let (target, initiator) = (targets[pair.prefill], initiators[pair.decode]);
            async move {
                let ((a, x), (b, y)) = (&ends[target], &ends[initiator]);
                one_pair(&choice, (a, x), (b, y)).await
            }
        };
        let results = run_rounds(&plan, arguments.targets.parallel.get(), transfer, |p| {
            bar.left(p.done, p.left)
        })
        .await;
        bar.finish();
        let mut facts = Vec::new();
        for (pair, outcome) in results {
            match outcome {
                Outcome::Done(found) => facts.push(found),
                Outcome::Broken(why) => collected.errors.push(InputError {
                    object: format!(
                        "transfer {} -> {}",
                        snapshots[initiators[pair.decode]].place.pod,
                        snapshots[targets[pair.prefill]].place.pod
                    ),
                    message: format!(
                        "a defect of this tool ended it: {}",
                        crate::sanitise::line(&why, 200)
                    ),
                }),
            }
        }
        (facts, plan.of)
    }

    fn place(cluster: &Cluster, snapshot: &Snapshot) -> Pod {
        let place = &snapshot.place;
        let at = ExecTarget {
            namespace: place.namespace.clone().unwrap_or_default(),
            pod: place.pod.clone(),
            container: place.container.clone(),
        };
        Pod {
            client: cluster.client.clone(),
            at,
        }
    }
}

/// What a container's own environment says of an end: interpreter candidates and variables that exec does not see.
fn end<'a, O>(place: &'a O, facts: &Snapshot) -> End<'a, O> {
    let mut pythons = vec!["python3".to_owned()];
    if let Ok(workers) = facts.text(&ask::WORKER_PROCESS)
        && let Some(pid) = workers
            .lines()
            .filter_map(|l| l.split(':').next())
            .find(|p| p.parse::<u32>().is_ok())
    {
        pythons.push(format!("/proc/{pid}/exe"));
    }
    let (ld, env) = variables(facts)
        .into_iter()
        .partition(|(name, _)| name.starts_with("LD_"));
    End {
        label: facts.place.pod.clone(),
        place,
        pythons,
        ld,
        env,
    }
}

/// Catalogued variables of the worker process.
fn variables(facts: &Snapshot) -> BTreeMap<String, String> {
    let Ok(text) = facts.text(&ask::ENVIRONMENT) else {
        return BTreeMap::new();
    };
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|l| l.split_once('='))
        .map(|(n, v)| (n.to_owned(), v.to_owned()))
        .collect()
}

/// The backend that the engine selects, as far as its environment says; UCX is NIXL's default.
fn backend_of(facts: &Snapshot) -> String {
    let variables = variables(facts);
    let named = [
        "SGLANG_DISAGGREGATION_NIXL_BACKEND",
        "TRTLLM_NIXL_KVCACHE_BACKEND",
    ];
    let chosen = named.iter().find_map(|name| variables.get(*name)).cloned();
    let libfabric = variables
        .get("KV_TRANSFER_CONFIG")
        .is_some_and(|json| json.contains("\"LIBFABRIC\""));
    chosen.unwrap_or_else(|| if libfabric { "LIBFABRIC" } else { "UCX" }.to_owned())
}

/// What the deployment means to use, from the environment of its ends.
fn intent(initiator: &Snapshot, target: &Snapshot) -> Intent {
    let over_nvlink = |facts: &Snapshot| {
        let tls = variables(facts).get("UCX_TLS").cloned().unwrap_or_default();
        let list = crate::judge::TransportList::parse(&tls);
        !tls.is_empty() && !list.negated() && !list.names_rdma() && list.allows("cuda_ipc")
    };
    let host_memory = |facts: &Snapshot| {
        variables(facts)
            .get("KV_TRANSFER_CONFIG")
            .is_some_and(|json| {
                serde_json::from_str::<serde_json::Value>(json)
                    .is_ok_and(|v| v["kv_buffer_device"] == "cpu")
            })
    };
    let path = if over_nvlink(initiator) && over_nvlink(target) {
        Path::MultiNodeNvlink
    } else {
        Path::Rdma
    };
    let findings = checks::run(&Inventory::default(), &[target.clone(), initiator.clone()]);
    // That NIXL is missing cannot be why its bytes went elsewhere.
    let worst = findings.iter().find(|f| {
        f.status == crate::report::Status::Fail
            && f.kv_path != crate::report::KvPath::Off
            && f.name != "nixl"
    });
    Intent {
        path,
        host_memory: host_memory(initiator) && host_memory(target),
        line_rates: BTreeMap::new(),
        likely_cause: worst.map(|f| format!("{} ({})", f.detail, f.target)),
        likely_fix: worst.and_then(|f| f.fix.clone()),
    }
}

/// The verdict as plain facts.
fn facts(record: &TransferRecord, verdict: &Verdict, namespace: Option<String>) -> PairFacts {
    let rate = |kind: &str| {
        let mut of_kind = verdict.steps.iter().filter(|s| s.what.starts_with(kind));
        of_kind.next_back().map(|s| s.gbps / 8.0)
    };
    let last = verdict
        .steps
        .iter()
        .rfind(|s| s.bulk)
        .or(verdict.steps.last());
    let lane = match last.map(|s| &s.lane) {
        Some(Ok(lane)) => lane.to_string(),
        Some(Err(unknown)) => format!("unknown: {}", unknown.why),
        None => "nothing was moved".to_owned(),
    };
    let on_gpu = |ready: &crate::transfer::protocol::Ready| ready.mem.seg.to_string() == "VRAM";
    let memory = if record.initiator.ready.as_ref().is_some_and(on_gpu) {
        "gpu"
    } else {
        "host"
    };
    PairFacts {
        initiator: record.initiator.label.to_string(),
        target: record.target.label.to_string(),
        namespace,
        status: verdict.status,
        detail: verdict.detail.clone(),
        fix: verdict.fix.clone(),
        proven: verdict.proven,
        reason: verdict.reason,
        lane,
        write_gbytes: rate("WRITE"),
        read_gbytes: rate("READ"),
        of_line_rate: last.and_then(|s| s.of_line_rate),
        memory: memory.to_owned(),
        steps: verdict.steps.iter().map(|s| s.line.clone()).collect(),
        caveats: verdict.caveats.clone(),
        evidence: verdict.evidence.clone(),
    }
}

fn report_of(pair: &PairFacts) -> PairReport {
    PairReport {
        initiator: pair.initiator.clone(),
        target: pair.target.clone(),
        status: pair.status,
        proven: pair.proven,
        lane: pair.lane.clone(),
        memory: pair.memory.clone(),
        write_gbytes: pair.write_gbytes,
        read_gbytes: pair.read_gbytes,
        of_line_rate: pair.of_line_rate,
        steps: pair.steps.clone(),
    }
}

/// Places whose NIXL no read showed, and whose transfer moved bytes with it.
fn unseen_and_used(snapshots: &[Snapshot], pairs: &[PairFacts]) -> Vec<String> {
    let moved = |pod: &str| {
        let mut of_pod = pairs
            .iter()
            .filter(|p| p.initiator == pod || p.target == pod);
        of_pod.any(|p| !p.steps.is_empty())
    };
    let unseen = |s: &&Snapshot| {
        let software = checks::Container::parse(s).facts.software;
        software.nixl_packages().is_ok_and(|found| found.is_empty())
    };
    let places = snapshots.iter().filter(unseen).map(|s| s.place.pod.clone());
    places.filter(|pod| moved(pod)).collect()
}

/// Checks that say whether NIXL can move KV from here.
fn matters(id: &str) -> bool {
    ["NIXL", "UCX", "NODE", "ENV", "XFER"]
        .iter()
        .any(|prefix| id.starts_with(prefix))
}
