//! `check`: a whole deployment in the cluster, one verdict, and what to fix first.

use super::ReportArguments;
use super::nixl::HowArguments;
use super::node::{Collected, TargetArguments, destination, from_one};
use crate::baseline::Baseline;
use crate::budget::Asked;
use crate::evaluate::{Beside, evaluate};
use crate::report::{BASELINE, ExitCode, InputError, Note, SAVE};
use crate::snapshot::Bundle;
use crate::{bundle, input, sanitise};
use clap::Args;
use std::io::Read;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

/// Pods are found by their deployment.
fn no_pod(argument: clap::Arg) -> clap::Arg {
    let refused = |_: &str| -> Result<String, &str> {
        Err("check looks at a deployment with all its pods; `node --pod POD` looks at one")
    };
    argument.hide(true).value_parser(refused)
}

/// What is said of a cluster or of transfers means nothing to a recording.
const LIVE: [&str; 15] = [
    "selector",
    "save",
    "namespace",
    "container",
    "context",
    "kubeconfig",
    "parallel",
    "timeout",
    "deadline",
    "sample",
    "quick",
    "memory",
    "gpu",
    "backend",
    "nodes",
];

#[derive(Debug, Args)]
#[command(mut_arg("pod", no_pod), after_long_help = super::help::CHECK)]
pub(super) struct Arguments {
    /// Name of the DynamoGraphDeployment; the only one of the namespace by default.
    #[arg(value_name = "DEPLOYMENT", conflicts_with_all = ["selector", "from"])]
    deployment: Option<String>,
    #[command(flatten)]
    targets: TargetArguments,
    /// Files that say what was meant: manifests, directories or kustomizations; repeatable. What runs is held against them.
    #[arg(long, value_name = "PATH")]
    recipe: Vec<PathBuf>,
    /// Look at the nodes of the cluster, too, and say which could host the deployment on a fast path. Needs the optional
    /// ClusterRole of docs/rbac.yaml; without this flag no node is read.
    #[arg(long, conflicts_with = "from")]
    nodes: bool,
    /// Tokens of a prompt: say how long its KV cache takes from prefill to decode, over the measured lanes or else by the rates
    /// of the ports. `explain kv-budget` shows the formula.
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    isl: Option<u64>,
    /// Bytes of KV cache per token, over all layers and ranks; read from the model's name and the engine's flags by default.
    #[arg(long, value_name = "BYTES", requires = "isl", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    kv_bytes_per_token: Option<u64>,
    /// Milliseconds that the first token may take: a finding says when KV transfer alone takes longer.
    #[arg(long, value_name = "MS", requires = "isl", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    ttft_slo: Option<u64>,
    /// Say what changed since a known good run: a report of `check -o json`. Trust, ports, lanes, speeds, versions, variables
    /// and findings are compared by component; nothing that changed alters the verdict or the exit code.
    #[arg(long, value_name = "REPORT.json")]
    baseline: Option<PathBuf>,
    /// Move test data between the prefill and the decode workers, every pair of them, and name the lane that carried it: at most
    /// 4 GiB per pair, nothing written, nothing left running.
    #[arg(long, conflicts_with = "from")]
    transfer: bool,
    /// Transfer between this many of all pairs. What is not in the sample stays unproven.
    #[arg(long, value_name = "N", requires = "transfer", value_parser = from_one)]
    sample: Option<NonZeroUsize>,
    #[command(flatten)]
    how: HowArguments,
    /// Record what was read: a new directory, or a file FILE.tar.zst. Only catalogued variables are in it.
    #[arg(long, value_name = "PATH")]
    save: Option<PathBuf>,
    /// Replay a recording instead of looking at a cluster.
    #[arg(long, value_name = "PATH", conflicts_with_all = LIVE)]
    from: Option<PathBuf>,
    #[command(flatten)]
    report: ReportArguments,
}

impl Arguments {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let recipe = (!self.recipe.is_empty()).then(|| input::read(&self.recipe));
        // Before anything is probed: a run must not be in vain.
        let destination = destination(self.save.as_deref());
        let (mut recording, interrupted) = match (&self.from, &destination) {
            (_, Err(_)) => (recording_of(Collected::default()), false),
            (Some(path), Ok(_)) => (replayed(path), false),
            (None, Ok(_)) => self.collect(),
        };
        match (destination, &self.save) {
            (Err(failed), _) => recording = recording_of(failed),
            (Ok(Some(destination)), Some(path)) => keep(path, &destination, &mut recording),
            _ => {}
        }
        let baseline = self.baseline.as_deref().and_then(|path| {
            let read = read_report(path).and_then(|json| Baseline::parse(&shown(path), &json));
            read.map_err(|message| {
                recording.errors.push(InputError {
                    object: shown(path),
                    message: format!("{BASELINE}{message}"),
                });
            })
            .ok()
        });
        let selection = self.report.selection();
        let report = evaluate(
            "check",
            recording,
            Beside {
                recipe,
                baseline,
                selection: selection.clone(),
                budget: self.isl.map(|isl| Asked {
                    isl,
                    kv_bytes_per_token: self.kv_bytes_per_token,
                    slo_ms: self.ttft_slo,
                }),
            },
        );
        let code = self.report.finish(&report, &selection)?;
        Ok(if interrupted {
            ExitCode::Interrupted
        } else {
            code
        })
    }

    #[cfg(not(feature = "cluster"))]
    fn collect(&self) -> (Bundle, bool) {
        (recording_of(self.targets.probe()), false)
    }
}

/// Writes what was read. An earlier recording is worth more than one of nothing.
fn keep(path: &Path, destination: &bundle::Destination, recording: &mut Bundle) {
    if recording.deployment.is_none() && recording.snapshots.is_empty() {
        recording.notes.push(Note {
            object: shown(path),
            message: "nothing was recorded, because nothing was read".to_owned(),
        });
    } else if let Err(error) = destination.write(recording) {
        recording.errors.push(InputError {
            object: format!("{SAVE}{}", shown(path)),
            message: error.to_string(),
        });
    }
}

fn shown(path: &Path) -> String {
    sanitise::line(&path.display().to_string(), 500)
}

/// The text of a report. Larger ones than of a thousand containers are none.
fn read_report(path: &Path) -> Result<String, String> {
    const LIMIT: u64 = 256 << 20;
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => "is not there; check the path".to_owned(),
        _ => input::cannot(&error),
    };
    if let Some(why) = input::endless(path) {
        return Err(format!("was not read: {why}; name a file"));
    }
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut text = String::new();
    let read = file.take(LIMIT + 1).read_to_string(&mut text);
    match read.map_err(failed)? as u64 > LIMIT {
        true => Err("is larger than 256 MiB, and no report is".to_owned()),
        false => Ok(text),
    }
}

fn replayed(path: &Path) -> Bundle {
    let failed = |message: String| recording_of(Collected::error(shown(path), message));
    match bundle::read(path) {
        Ok(recording) if recording.deployment.is_some() => recording,
        Ok(_) => failed(
            "this recording is of single containers and not of a deployment: replay it with `node --from`".to_owned(),
        ),
        Err(error) => failed(error.to_string()),
    }
}

fn recording_of(collected: Collected) -> Bundle {
    Bundle {
        format: bundle::FORMAT,
        snapshots: collected.snapshots,
        errors: collected.errors,
        notes: collected.notes,
        deployment: None,
    }
}

#[cfg(feature = "cluster")]
mod live {
    use super::{Arguments, Bundle, Collected, recording_of};
    use crate::cli::nixl::pods::{Moves, Sides, moved};
    use crate::cli::progress::Bar;
    use crate::cluster::connect::Cluster;
    use crate::cluster::deployment::{self, Choice, PODS};
    use crate::cluster::nodes;
    use crate::cluster::run::{Schedule, Stop};
    use crate::collect::pods::{Wanted, probe};
    use crate::evaluate::Described;
    use crate::report::{InputError, Note, RUN, SkipReason, TRANSFER};
    use crate::snapshot::{Answer, Deployment, Domains, Folded, Manifest, Nodes, Origin};
    use crate::{ask, catalogue, checks, sanitise};
    use std::time::{Duration, Instant};

    impl Arguments {
        pub(super) fn collect(&self) -> (Bundle, bool) {
            let runtime = match crate::cli::runtime() {
                Ok(runtime) => runtime,
                Err(error) => {
                    let message = format!("cannot start the runtime: {error}");
                    return (
                        recording_of(Collected::error(RUN.to_owned(), message)),
                        false,
                    );
                }
            };
            let (recording, stop) = runtime.block_on(async {
                let stop = crate::cli::node::stop_on_interrupt();
                (self.look(&stop).await, stop)
            });
            // A credential plugin or a name look-up that hangs must not keep the process.
            runtime.shutdown_background();
            (recording, stop.is_asked())
        }

        async fn look(&self, stop: &Stop) -> Bundle {
            let targets = &self.targets;
            let began = Instant::now();
            let all = Duration::from_secs(targets.deadline);
            let end = began + all;
            let left = || {
                all.saturating_sub(began.elapsed())
                    .max(crate::cli::node::LEAST)
            };
            let mut collected = Collected::default();
            let cluster = tokio::select! {
                connected = targets.connect(end) => match connected {
                    Ok(cluster) => cluster,
                    Err(message) => {
                        return recording_of(Collected::error("Kubernetes API".to_owned(), message));
                    }
                },
                () = stop.asked() => {
                    collected.was_interrupted();
                    return recording_of(collected);
                }
            };
            let namespace = targets
                .namespace
                .clone()
                .unwrap_or_else(|| cluster.namespace.clone());
            let choice = match &targets.selector {
                Some(selector) => Choice::Selector(selector.clone()),
                None => Choice::Graph(self.deployment.clone()),
            };
            let catalogued = |name: &str| catalogue::find(name).is_some();
            let found = tokio::select! {
                found = async {
                    tokio::join!(
                        deployment::find(&cluster, &namespace, &choice, &catalogued),
                        targets.missing_access(&cluster, &namespace, true),
                        self.around(&cluster, &namespace)
                    )
                } => found,
                () = stop.asked() => {
                    collected.was_interrupted();
                    return recording_of(collected);
                }
            };
            let (found, access, around) = found;
            collected.notes.extend(access);
            let found = match found {
                Ok(found) => found,
                Err(error) => {
                    collected.errors.push(InputError {
                        object: format!("namespace {}", sanitise::line(&namespace, 253)),
                        message: sanitise::line(&error.to_string(), 2_000),
                    });
                    return recording_of(collected);
                }
            };
            let mut record = recorded(&found, &choice);
            (record.nodes, record.domains) = around.unzip();
            collected.notes.extend(found.notes.iter().cloned());
            collected.errors.extend(found.errors.iter().cloned());
            let workers = workers(&found, &record);
            collected.snapshots = self.probe(&cluster, workers, left(), stop).await;
            if stop.is_asked() {
                collected.was_interrupted();
            } else {
                let lost: Vec<&str> = collected
                    .snapshots
                    .iter()
                    .filter(|s| cut_off(s))
                    .map(|s| s.place().pod.as_str())
                    .collect();
                if !lost.is_empty() {
                    let notes = found.since(&cluster, &lost).await;
                    collected.notes.extend(notes);
                }
            }
            if self.transfer && !stop.is_asked() {
                self.prove(&cluster, &mut record, &mut collected, end, stop)
                    .await;
                if stop.is_asked() {
                    collected.was_interrupted();
                }
            }
            Bundle {
                deployment: Some(record),
                ..recording_of(collected)
            }
        }

        /// Transfers between the ends that were reached.
        async fn prove(
            &self,
            cluster: &Cluster,
            record: &mut Deployment,
            collected: &mut Collected,
            end: Instant,
            stop: &Stop,
        ) {
            let described = Described::read(record, None);
            described.assign(&mut collected.snapshots);
            let reached =
                |s: &Folded| matches!(s.near().answers.get(ask::TARGET.id), Some(Answer::Text(_)));
            let roles = collected.snapshots.iter().map(|s| {
                let role = s.place().role.as_deref();
                role.filter(|_| reached(s))
            });
            let (targets, initiators) = checks::kv_ends(roles);
            let sides = Sides {
                targets,
                initiators,
            };
            let side = match (sides.targets.is_empty(), sides.initiators.is_empty()) {
                (true, true) => "neither a prefill nor a decode worker",
                (true, false) => "no prefill worker",
                (false, _) => "no decode worker",
            };
            if sides.targets.is_empty() || sides.initiators.is_empty() {
                let object = TRANSFER.to_owned();
                if described.workload().is_some_and(|w| !w.disaggregated) {
                    let message =
                        "no transfer was made: no KV moves between the workers of this deployment"
                            .to_owned();
                    collected.notes.push(Note { object, message });
                    return;
                }
                let message = format!(
                    "no transfer was made: {side} could be reached; the findings of the pods say why"
                );
                collected.errors.push(InputError { object, message });
                return;
            }
            let moves = Moves {
                how: &self.how,
                own: false,
                sample: self.sample.map(std::num::NonZeroUsize::get),
                parallel: self.targets.parallel.get(),
                end,
                stop,
            };
            let ((made, _), errors) =
                moved(&moves, cluster, &mut collected.snapshots, &sides).await;
            record.transfers = made;
            collected.errors.extend(errors);
        }

        /// What is around the pods, where it was asked for.
        async fn around(&self, cluster: &Cluster, namespace: &str) -> Option<(Nodes, Domains)> {
            if !self.nodes {
                return None;
            }
            let (nodes, domains) = tokio::join!(
                nodes::list_nodes(cluster),
                nodes::list_domains(cluster, namespace)
            );
            Some((nodes, domains))
        }

        async fn probe(
            &self,
            cluster: &Cluster,
            workers: Vec<Wanted>,
            left: Duration,
            stop: &Stop,
        ) -> Vec<Folded> {
            let targets = &self.targets;
            let schedule = Schedule {
                parallel: targets.parallel,
                each: Duration::from_secs(targets.timeout),
                all: left,
            };
            let names = workers
                .iter()
                .map(|w| sanitise::line(w.name().1, 60))
                .collect();
            let bar = Bar::new("probing", names);
            let done = |index| bar.done(index);
            let container = targets.container.as_deref();
            let snapshots = probe(cluster, workers, container, schedule, stop.clone(), done).await;
            bar.finish();
            snapshots
        }
    }

    /// It ran when it was listed, and no longer answered when it was looked into.
    fn cut_off(folded: &Folded) -> bool {
        let snapshot = folded.open();
        let missing = |answer: &Answer, reasons: &[SkipReason]| match answer {
            Answer::Missing { reason, .. } => reasons.contains(reason),
            Answer::Text(_) => false,
        };
        let target = snapshot.answers.get(ask::TARGET.id);
        target.is_some_and(|a| missing(a, &[SkipReason::NotFound, SkipReason::Timeout]))
            || snapshot
                .answers
                .values()
                .any(|a| missing(a, &[SkipReason::ConnectionLost, SkipReason::Unreachable]))
    }

    /// What is kept of the deployment beside its containers.
    fn recorded(found: &deployment::Deployment, choice: &Choice) -> Deployment {
        // What an object refers to stands in the same text.
        let manifest = |origin, path: String, text: String| Manifest {
            origin,
            path,
            text: [&[text], found.companions.as_slice()]
                .concat()
                .join("---\n"),
        };
        let object = found.written.as_ref().map(|written| {
            let path = format!("DynamoGraphDeployment/{}", found.name);
            manifest(Origin::Object, path, written.text.clone())
        });
        let pods = found
            .running()
            .map(|text| manifest(Origin::Pods, format!("{} of {}", PODS, found.name), text));
        Deployment {
            name: found.name.clone(),
            selected: found.written.is_none() && matches!(choice, Choice::Selector(_)),
            namespace: Some(found.namespace.clone()),
            manifests: object.into_iter().chain(pods).collect(),
            mixed: found.mixed().into_iter().map(str::to_owned).collect(),
            ..Deployment::default()
        }
    }

    /// The pods that move KV or compute with GPUs, as far as their components say; frontends and their like are left alone.
    fn workers(found: &deployment::Deployment, record: &Deployment) -> Vec<Wanted> {
        let described = Described::read(record, None);
        let Some(workload) = described.workload() else {
            return Vec::new();
        };
        let is_worker = |component: &str| workload.workers.iter().any(|w| w.name == component);
        let pods = found.pods.iter().map(|templated| &templated.pod);
        pods.filter(|pod| is_worker(deployment::Deployment::group(pod)))
            .map(|pod| Wanted::Found(Box::new(pod.clone())))
            .collect()
    }
}
