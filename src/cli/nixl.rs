//! `nixl`: can these workers move KV with NIXL, and, with `--transfer`, do they, and over which lane.

mod next;
#[cfg(feature = "cluster")]
pub(super) mod pods;

use super::interrupt::Interrupt;
use super::node::{Collected, TargetArguments, destination, here, of_pods, record};
use super::{
    ReportArguments,
    node::{from_one, name_and_file, not_blank},
};
use crate::checks::Subject;
use crate::facts::pair::PairFacts;
use crate::manifest::Inventory;
use crate::report::{ExitCode, InputError, Note, Pairs, TRANSFER};
use crate::snapshot::{Answer, Snapshot};
use crate::transfer::End;
use crate::transfer::loaded;
use crate::transfer::protocol::Memory;
use crate::transfer::{
    Halt, Intent, Limits, Local, Open, Path, Settings, Step, TransferRecord, Verdict, judge,
    run_until,
};
use crate::{ask, catalogue, checks, collect, evaluate};
use clap::{ArgGroup, Args, ValueEnum};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("ends").args(["peer", "own", "pods"]))]
#[command(mut_args(of_pods), after_long_help = super::help::NIXL)]
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
    /// until the next `decode=`). A role of another namespace is NAMESPACE:SELECTOR.
    #[arg(long, value_name = "ROLES", requires = "transfer", conflicts_with_all = ["peer", "pod"], group = "targets", value_parser = roles)]
    pods: Option<(Role, Role)>,
    /// Transfer between this many of all pairs. What is not in the sample stays unproven.
    #[arg(long, value_name = "N", requires = "pods", value_parser = from_one)]
    sample: Option<NonZeroUsize>,
    #[command(flatten)]
    how: HowArguments,
    /// Judge pasted outputs instead of a machine: NAME is what printed them; repeatable.
    #[arg(long, value_name = "NAME=FILE", value_parser = name_and_file, conflicts_with_all = ["pod", "selector", "transfer"])]
    input: Vec<(String, PathBuf)>,
    /// Record what was read, as `node` does: a directory, or a file that ends in .tar.zst. A transfer is not part of it.
    #[arg(long, value_name = "PATH", conflicts_with = "from")]
    save: Option<PathBuf>,
    /// Replay a recording instead of reading a machine.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["pod", "selector", "transfer"])]
    from: Option<PathBuf>,
    #[command(flatten)]
    report: ReportArguments,
}

/// How transfers are made.
#[derive(Debug, Args)]
pub(super) struct HowArguments {
    /// Fewer and smaller operations: a few seconds per pair. Bytes and lane are told, rates are not held against the port.
    #[arg(long, requires = "transfer")]
    quick: bool,
    /// Where the bytes lie: GPU memory where there is a GPU and room for it, host memory otherwise.
    #[arg(long, value_enum, default_value = "auto", requires = "transfer")]
    memory: MemoryChoice,
    /// GPU, as CUDA numbers those that the container sees.
    #[arg(long, value_name = "N", default_value = "0", requires = "transfer")]
    gpu: u32,
    /// NIXL backend; the one that the engine's environment selects, else UCX.
    #[arg(long, value_name = "NAME", value_parser = backend_name, requires = "transfer")]
    backend: Option<String>,
}

/// A backend as NIXL spells it, which tells apart large and small letters.
fn backend_name(text: &str) -> Result<String, String> {
    let name = not_blank(text)?;
    let known = ["UCX", "LIBFABRIC"].into_iter();
    let mut same = known.filter(|known| known.eq_ignore_ascii_case(&name));
    Ok(same.next().map_or(name.clone(), str::to_owned))
}

impl HowArguments {
    /// `own`: both ends are one container.
    fn choice(&self, own: bool) -> Choice {
        Choice {
            memory: self.memory.into(),
            gpu: self.gpu,
            backend: self.backend.clone(),
            own,
            quick: self.quick,
        }
    }
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

/// Pods of one role.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Role {
    /// Where it is not that of the other arguments.
    namespace: Option<String>,
    selector: String,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}:{}", self.selector),
            None => f.write_str(&self.selector),
        }
    }
}

/// `prefill=SELECTOR,decode=SELECTOR`, in either order; each with `NAMESPACE:` in front, if need be. A slash would not do:
/// it belongs to keys of labels.
fn roles(text: &str) -> Result<(Role, Role), String> {
    let usage = || "write prefill=SELECTOR,decode=SELECTOR, or NAMESPACE:SELECTOR".to_owned();
    let place = |name: &str| {
        let missing = || format!("{name} is missing: {}", usage());
        text.find(name).ok_or_else(missing)
    };
    let (p, d) = (place("prefill=")?, place("decode=")?);
    let part = |from: usize, name: &str, other: usize| {
        let end = if other > from { other } else { text.len() };
        let text = text[from + name.len()..end].trim_matches([',', ' ']);
        let (namespace, selector) = match text.split_once(':') {
            Some((namespace, selector)) => (Some(namespace.trim().to_owned()), selector.trim()),
            None => (None, text),
        };
        if selector.is_empty() || namespace.as_deref() == Some("") {
            return Err(usage());
        }
        Ok(Role {
            namespace,
            selector: selector.to_owned(),
        })
    };
    Ok((part(p, "prefill=", d)?, part(d, "decode=", p)?))
}

/// What was read, and the transfers that were made of all that there are.
#[derive(Default)]
struct Moved {
    collected: Collected,
    pairs: Vec<PairFacts>,
    of: usize,
}

impl From<Collected> for Moved {
    fn from(collected: Collected) -> Self {
        Self {
            collected,
            ..Self::default()
        }
    }
}

impl Arguments {
    /// What clap cannot see: ends that are no two ends.
    fn misuse(&self) -> Option<String> {
        let pods = &self.targets.pod;
        let several = pods.len() + usize::from(self.targets.selector.is_some()) > 1;
        match &self.peer {
            Some(_) if several => Some(
                "--peer takes one --pod, the other end; --pods prefill=SELECTOR,decode=SELECTOR takes many"
                    .to_owned(),
            ),
            Some(_) if self.sample.is_some() => {
                Some("--sample takes some of the pairs of --pods; --peer makes one".to_owned())
            }
            Some(peer) if pods.contains(peer) => Some(format!(
                "--pod and --peer are both {}: name two pods, or write --self for both ends in one",
                crate::sanitise::line(peer, 80)
            )),
            None if self.own && self.sample.is_some() => {
                Some("--sample takes some of the pairs of --pods; --self makes one".to_owned())
            }
            None if self.own && several => {
                Some("--self takes one --pod; run it once for each".to_owned())
            }
            _ => None,
        }
    }

    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        if let Some(message) = self.misuse() {
            super::refuse("nixl", &message);
        }
        let each = Duration::from_secs(self.targets.timeout.min(self.targets.deadline));
        let destination = destination(self.save.as_deref());
        let Moved {
            mut collected,
            pairs,
            of,
        } = match &destination {
            Ok(_) => self.collect(each),
            Err(_) => Moved::default(),
        };
        if let Err(failed) = destination {
            collected = failed;
        } else if let (Some(path), Ok(Some(destination))) = (&self.save, &destination) {
            record(path, destination, &mut collected);
        }
        if self.transfer && pairs.is_empty() && collected.errors.is_empty() {
            let object = TRANSFER.to_owned();
            if collected.interrupted {
                let message = "no transfer was made".to_owned();
                collected.notes.push(Note { object, message });
            } else {
                let message = "no transfer was made: no two ends were found".to_owned();
                collected.errors.push(InputError { object, message });
            }
        }
        let mut findings = checks::run_on(&Subject {
            inventory: &Inventory::default(),
            snapshots: &collected.snapshots,
            pairs: &pairs,
            deployment: None,
        });
        if !self.transfer {
            // Readiness alone: the rest of the container is `node`'s business.
            findings.retain(|f| matters(f.id));
        }
        let made = pairs.iter().map(PairFacts::report).collect();
        let selection = self.report.selection();
        let mut report = selection.roll_up(
            "nixl",
            Vec::new(),
            findings,
            collected.errors,
            collected.notes,
            Pairs::of(made, of),
        );
        if !collected.interrupted {
            report.next = next::next(self, &report, &collected.snapshots);
        }
        let code = self.report.finish(&report, &selection)?;
        Ok(if collected.interrupted {
            ExitCode::Interrupted
        } else {
            code
        })
    }

    fn collect(&self, each: Duration) -> Moved {
        if !self.input.is_empty() {
            let (snapshot, errors) = collect::pasted(&self.input);
            let snapshots = if snapshot.answers.is_empty() {
                Vec::new()
            } else {
                vec![snapshot.into()]
            };
            let collected = Collected {
                snapshots,
                errors,
                ..Collected::default()
            };
            return collected.into();
        }
        if let Some(path) = &self.from {
            return Collected::replayed(path).into();
        }
        let pods =
            !self.targets.pod.is_empty() || self.targets.selector.is_some() || self.pods.is_some();
        if !(pods || self.transfer && self.own) {
            return here(each).into();
        }
        let began = Instant::now();
        let runtime = match crate::cli::runtime() {
            Ok(runtime) => runtime,
            Err(error) => {
                let message = format!("cannot start the runtime: {error}");
                return Collected::error("transfer".to_owned(), message).into();
            }
        };
        let end = began + Duration::from_secs(self.targets.deadline);
        let mut moved = if pods {
            self.over_pods(&runtime, end)
        } else {
            runtime.block_on(self.within_this_machine(each, end))
        };
        // A credential plugin or a name look-up that hangs must not keep the process.
        runtime.shutdown_background();
        let made = moved.pairs.len();
        let planned = self.sample.map_or(moved.of, |n| n.get().min(moved.of));
        let missing = match planned.saturating_sub(made) {
            0 => String::new(),
            n => format!(", with {made} transfers made and {n} not"),
        };
        let said = moved.collected.errors.iter().any(|e| e.object == TRANSFER);
        let why = if moved.collected.interrupted {
            Some("interrupted")
        } else if self.transfer && !said && Instant::now() >= end {
            Some("the time of the whole run (--deadline) was over")
        } else {
            None
        };
        if let Some(why) = why {
            moved.collected.notes.push(Note {
                object: "run".to_owned(),
                message: format!("{why}{missing}; this is what was seen until then"),
            });
        }
        moved
    }

    /// Both ends here.
    async fn within_this_machine(&self, each: Duration, end: Instant) -> Moved {
        let interrupt = Interrupt::listen();
        let stopped = Arc::clone(&interrupt.asked);
        let mut snapshot = collect::host_until(each, &stopped);
        if stopped.load(Ordering::Relaxed) {
            let collected = Collected {
                snapshots: vec![snapshot.into()],
                interrupted: true,
                ..Collected::default()
            };
            return Moved {
                collected,
                pairs: Vec::new(),
                of: 1,
            };
        }
        let halt = async {
            tokio::select! {
                () = interrupt.heard() => Halt::Interrupted,
                () = tokio::time::sleep_until(end.into()) => Halt::Deadline,
            }
        };
        let place = Local::default();
        let ends = ((&place, &snapshot), (&place, &snapshot));
        let made = one_pair(&self.how.choice(self.own), ends.0, ends.1, halt).await;
        for software in made.software {
            learn(&mut snapshot, software);
        }
        Moved {
            collected: Collected {
                snapshots: vec![snapshot.into()],
                interrupted: stopped.load(Ordering::Relaxed),
                ..Collected::default()
            },
            pairs: vec![made.facts],
            of: 1,
        }
    }

    #[cfg(not(feature = "cluster"))]
    fn over_pods(&self, _: &tokio::runtime::Runtime, _: Instant) -> Moved {
        self.targets.probe().into()
    }

    #[cfg(feature = "cluster")]
    fn over_pods(&self, runtime: &tokio::runtime::Runtime, end: Instant) -> Moved {
        runtime.block_on(pods::until_interrupted(self, end))
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

/// One transfer that was made.
struct Made {
    facts: PairFacts,
    /// What the agents loaded: of the target, of the initiator.
    software: [Option<String>; 2],
}

/// One transfer, judged.
async fn one_pair<T: Open, I: Open>(
    choice: &Choice,
    (target, target_facts): (&T, &Snapshot),
    (initiator, initiator_facts): (&I, &Snapshot),
    halt: impl Future<Output = Halt>,
) -> Made {
    let settings = Settings {
        backend: choice
            .backend
            .clone()
            .or_else(|| evaluate::end(initiator_facts).backend)
            .unwrap_or_else(|| "UCX".to_owned()),
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
    let record = run_until(&ends.0, &ends.1, &settings, halt).await;
    let verdict = judge(&record, &intent(initiator_facts, target_facts));
    Made {
        facts: facts(&record, &verdict, initiator_facts.place.namespace.clone()),
        software: [&record.target, &record.initiator].map(loaded::software),
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
    // What a process runs is the interpreter beneath a virtual environment, which does not see its packages.
    let container = checks::Container::parse(facts);
    let found = container.facts.software.nixl_packages().unwrap_or_default();
    for (package, _) in found {
        let python = interpreter(&package.site).filter(|python| !pythons.contains(python));
        pythons.extend(python);
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

/// Interpreter of a directory of packages: `PREFIX/lib/python3.12/site-packages` belongs to `PREFIX/bin/python3.12`.
fn interpreter(site: &str) -> Option<String> {
    let (prefix, rest) = site.rsplit_once("/lib/python")?;
    let version = rest.split('/').next()?;
    let numbers = |c: char| c.is_ascii_digit() || c == '.';
    let good = prefix.starts_with('/') && !version.is_empty() && version.chars().all(numbers);
    good.then(|| format!("{prefix}/bin/python{version}"))
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

/// What the deployment means to use, from the environment of its ends.
fn intent(initiator: &Snapshot, target: &Snapshot) -> Intent {
    let [own, other] = [initiator, target].map(evaluate::end);
    let path = if own.over_nvlink && other.over_nvlink {
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
        host_memory: own.in_host_memory() && other.in_host_memory(),
        backend: own.backend,
        other_mover: own.other_mover.or(other.other_mover),
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
        None => {
            let why = crate::checks::words::first_clause(&verdict.detail);
            format!("{}: {why}", crate::render::pairs::NOTHING)
        }
    };
    let ends = [&record.initiator, &record.target];
    let agents: Vec<_> = ends.iter().filter_map(|e| e.ready.as_ref()).collect();
    // Host memory at one end is none of a GPU path; where an agent did not come up, none was taken.
    let memory = match (agents.len(), agents.iter().all(|a| &*a.mem.seg == "VRAM")) {
        (2, true) => "gpu",
        (2, false) => "host",
        _ => "none",
    };
    PairFacts {
        initiator: record.initiator.label.to_string(),
        target: record.target.label.to_string(),
        namespace,
        status: verdict.status,
        detail: verdict.detail.clone(),
        fix: verdict.fix.clone(),
        proven: verdict.proven,
        unproven: verdict.unproven.clone(),
        wrong_bytes: verdict.wrong_bytes,
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

/// Adds to the answers of a container what the agent of a transfer loaded there. The first agent that came up tells.
fn learn(snapshot: &mut Snapshot, software: Option<String>) {
    if let Some(text) = software {
        let id = ask::TRANSFER_SOFTWARE.id.to_owned();
        snapshot.answers.entry(id).or_insert(Answer::Text(text));
    }
}

/// Checks that say whether NIXL can move KV from here.
fn matters(id: &str) -> bool {
    ["NIXL", "UCX", "NODE", "ENV", "XFER"]
        .iter()
        .any(|prefix| id.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_stands_beside_its_packages() {
        let of = |site| interpreter(site).unwrap_or_default();
        assert_eq!(
            of("/opt/dynamo/venv/lib/python3.12/site-packages"),
            "/opt/dynamo/venv/bin/python3.12"
        );
        for other in [
            "",
            "lib/python3.12/x",
            "/a/lib/python3;rm/x",
            "/a/lib/node/x",
        ] {
            assert_eq!(of(other), "", "{other}");
        }
    }

    #[test]
    fn roles_come_in_either_order_and_are_written_as_they_were_read() {
        let (p, d) = roles("decode=n:a=b,c=d,prefill=e in (f)").unwrap();
        assert_eq!(
            (p.to_string(), d.to_string()),
            ("e in (f)".into(), "n:a=b,c=d".into())
        );
        let missing = roles("prefill=a").unwrap_err();
        assert!(missing.starts_with("decode= is missing: "), "{missing}");
    }
}
