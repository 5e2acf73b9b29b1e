//! `node`: what this machine or these containers can really do.

use super::interrupt::{leave, on_interrupt};
use super::{ReportArguments, help, next, print, sees_no_transfer};
use crate::report::{ExitCode, InputError, Note, Pairs, RUN, SAVE};
use crate::snapshot::{Bundle, Folded};
use crate::{bundle, checks, collect, sanitise};
use clap::{ArgGroup, Args};
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[derive(Debug, Args)]
#[command(mut_args(of_pods))]
#[command(after_long_help = help::NODE, mut_arg("require_trusted", sees_no_transfer))]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) targets: TargetArguments,
    /// Judge pasted outputs instead of a machine: NAME is what printed them (topo, ibstat, ucx_info, ..); repeatable. FILE may
    /// be - for standard input. They are judged as those of a worker that moves KV.
    #[arg(long, value_name = "NAME=FILE", value_parser = name_and_file, conflicts_with_all = ["pod", "selector", "from"])]
    input: Vec<(String, PathBuf)>,
    /// Record what was read: a directory, or a file that ends in .tar.zst.
    #[arg(long, value_name = "PATH", conflicts_with = "from")]
    save: Option<PathBuf>,
    /// Replay a recording instead of reading a machine.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["pod", "selector"])]
    from: Option<PathBuf>,
    /// Print the script that would run, and run nothing.
    #[arg(long)]
    print_script: bool,
    #[command(flatten)]
    report: ReportArguments,
}

/// This machine has no namespace.
pub(super) fn of_pods(argument: clap::Arg) -> clap::Arg {
    match argument.get_id().as_str() {
        "namespace" | "container" | "context" | "kubeconfig" => argument.requires("targets"),
        _ => argument,
    }
}

/// Which containers, and how to reach them.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("targets").args(["pod", "selector"]).multiple(true))]
pub(super) struct TargetArguments {
    /// Probe this pod instead of this machine; repeatable.
    #[arg(long, value_name = "POD", value_parser = not_blank)]
    pub(super) pod: Vec<String>,
    /// Probe all pods that this label selector matches.
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = not_blank)]
    pub(super) selector: Option<String>,
    /// Namespace; that of the context by default.
    #[arg(short, long, value_name = "NAMESPACE", value_parser = not_blank)]
    pub(super) namespace: Option<String>,
    /// Container; `main`, or the pod's only worker container, by default.
    #[arg(short, long, value_name = "CONTAINER", value_parser = not_blank)]
    pub(super) container: Option<String>,
    /// Context of the kubeconfig.
    #[arg(long, value_name = "CONTEXT", value_parser = not_blank)]
    pub(super) context: Option<String>,
    /// Kubeconfig file.
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Containers at the same time.
    #[arg(long, value_name = "N", default_value = "8", value_parser = at_once)]
    pub(super) parallel: NonZeroUsize,
    /// Seconds for one container.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = clap::value_parser!(u64).range(2..=3600))]
    pub(super) timeout: u64,
    /// Seconds for the whole run.
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = clap::value_parser!(u64).range(2..=86400))]
    pub(super) deadline: u64,
}

/// At most as many as a [`Schedule`] takes.
fn at_once(text: &str) -> Result<NonZeroUsize, String> {
    let number = text.parse().ok().filter(|n: &NonZeroUsize| n.get() <= 1024);
    number.ok_or_else(|| "it must be a number from 1 to 1024".to_owned())
}

pub(super) fn name_and_file(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => {
            Ok((name.to_owned(), file.into()))
        }
        _ => Err("write NAME=FILE, for instance topo=topo.txt".to_owned()),
    }
}

/// A number of things, in words where it is none.
pub(super) fn from_one(text: &str) -> Result<NonZeroUsize, String> {
    text.parse()
        .map_err(|_| "it takes a number from 1".to_owned())
}

/// A name that says something: an empty selector would take every pod.
pub(super) fn not_blank(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        Err("it must not be empty".to_owned())
    } else {
        Ok(text.to_owned())
    }
}

/// What was collected, and what went wrong on the way.
#[derive(Default)]
pub(super) struct Collected {
    pub(super) snapshots: Vec<Folded>,
    pub(super) errors: Vec<InputError>,
    pub(super) notes: Vec<Note>,
    /// The person who waited did so no longer.
    pub(super) interrupted: bool,
}

impl Arguments {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        if let Some(refused) = self.report.refuse_trust("node") {
            return refused;
        }
        let each = Duration::from_secs(self.targets.timeout.min(self.targets.deadline));
        if self.print_script {
            print(&collect::script(each).text)?;
            return Ok(ExitCode::Ok);
        }
        // Before anything is probed: a run must not be in vain.
        let (mut collected, destination) = match destination(self.save.as_deref()) {
            Ok(destination) => (self.collect(each), destination),
            Err(failed) => (failed, None),
        };
        if let (Some(path), Some(destination)) = (&self.save, destination) {
            record(path, &destination, &mut collected);
        }
        let findings = checks::run_through(std::mem::take(&mut collected.snapshots));
        let selection = self.report.selection();
        let mut report = selection.roll_up(
            "node",
            Vec::new(),
            findings,
            collected.errors,
            collected.notes,
            Pairs::default(),
        );
        report.next = next::after_node(&report);
        let code = self.report.finish(&report, &selection)?;
        Ok(if collected.interrupted {
            ExitCode::Interrupted
        } else {
            code
        })
    }

    fn collect(&self, each: Duration) -> Collected {
        if !self.input.is_empty() || self.from.is_some() {
            // Half of what somebody else collected is no report.
            on_interrupt(|| {
                let _ = writeln!(
                    anstream::stderr(),
                    "interrupted while it was read and judged; nothing is reported"
                );
                leave();
            });
        }
        if !self.input.is_empty() {
            let (snapshot, errors) = collect::pasted(&self.input);
            let snapshots = if snapshot.answers.is_empty() {
                Vec::new()
            } else {
                vec![snapshot.into()]
            };
            return Collected {
                snapshots,
                errors,
                ..Collected::default()
            };
        }
        if let Some(path) = &self.from {
            return Collected::replayed(path);
        }
        if self.targets.pod.is_empty() && self.targets.selector.is_none() {
            return here(each);
        }
        self.targets.probe()
    }
}

/// This machine, or what was read of it until somebody waited no longer.
pub(super) fn here(each: Duration) -> Collected {
    // A shell that cannot be started for want of descriptors says nothing about this machine.
    if let Err(error) = super::room() {
        return Collected::error(RUN.to_owned(), format!("cannot start a shell: {error}"));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    on_interrupt(move || asked.store(true, Ordering::Relaxed));
    let mut collected = Collected {
        snapshots: vec![collect::host_until(each, &stop).into()],
        ..Collected::default()
    };
    if stop.load(Ordering::Relaxed) {
        collected.was_interrupted();
    }
    collected
}

/// Where a recording goes, if one is wanted; what is said where it cannot go there.
pub(super) fn destination(path: Option<&Path>) -> Result<Option<bundle::Destination>, Collected> {
    let Some(path) = path else { return Ok(None) };
    let failed = |error: bundle::BundleError| {
        Collected::error(format!("{SAVE}{}", shown(path)), error.to_string())
    };
    bundle::Destination::new(path).map(Some).map_err(failed)
}

/// Writes what was collected. An earlier recording is worth more than one of nothing.
pub(super) fn record(path: &Path, destination: &bundle::Destination, collected: &mut Collected) {
    if collected.snapshots.is_empty() {
        collected.notes.push(Note {
            object: shown(path),
            message: "nothing was recorded, because nothing was read".to_owned(),
        });
        return;
    }
    // Lent to the recording: a thousand containers are not held twice.
    let recording = Bundle {
        format: bundle::FORMAT,
        snapshots: std::mem::take(&mut collected.snapshots),
        errors: collected.errors.clone(),
        notes: collected.notes.clone(),
        deployment: None,
    };
    let written = destination.write(&recording);
    collected.snapshots = recording.snapshots;
    if let Err(error) = written {
        collected.errors.push(InputError {
            object: format!("{SAVE}{}", shown(path)),
            message: error.to_string(),
        });
    }
}

/// A path as it is shown: a name may hold anything.
fn shown(path: &Path) -> String {
    sanitise::line(&path.display().to_string(), 500)
}

impl Collected {
    pub(super) fn was_interrupted(&mut self) {
        self.interrupted = true;
        self.notes.push(Note {
            object: "run".to_owned(),
            message: "interrupted; this is what was seen until then".to_owned(),
        });
    }

    /// What a recording holds.
    pub(super) fn replayed(path: &Path) -> Self {
        match bundle::read(path) {
            Ok(recording) if recording.snapshots.is_empty() && recording.deployment.is_some() => {
                let message = "no container is recorded in it: it is of a deployment; replay it with `check --from`";
                Self::error(shown(path), message.to_owned())
            }
            Ok(recording) => Self {
                snapshots: recording.snapshots,
                errors: recording.errors,
                notes: recording.notes,
                interrupted: false,
            },
            Err(error) => Self::error(shown(path), error.to_string()),
        }
    }

    pub(super) fn error(object: String, message: String) -> Self {
        Self {
            errors: vec![InputError { object, message }],
            ..Self::default()
        }
    }
}

#[cfg(not(feature = "cluster"))]
impl TargetArguments {
    pub(super) fn probe(&self) -> Collected {
        let message = "this build cannot reach Kubernetes (feature `cluster` is off); run it in the pod, or use another build";
        Collected::error("pods".to_owned(), message.to_owned())
    }
}

#[cfg(feature = "cluster")]
use crate::cluster::{
    access, connect,
    kubeconfig::Surroundings,
    pods,
    run::{Schedule, Stop},
};
#[cfg(feature = "cluster")]
use std::{collections::BTreeSet, io::IsTerminal, time::Instant};

/// The pods of a run take at least this long; what is left of the deadline after connecting may be less.
#[cfg(feature = "cluster")]
pub(super) const LEAST: Duration = Duration::from_millis(200);

#[cfg(feature = "cluster")]
impl TargetArguments {
    /// Probes the chosen pods.
    pub(super) fn probe(&self) -> Collected {
        match crate::cli::runtime() {
            Ok(runtime) => {
                let collected = runtime.block_on(self.probe_until_interrupted());
                // A credential plugin or a name look-up that hangs must not keep the process.
                runtime.shutdown_background();
                collected
            }
            Err(error) => {
                Collected::error(RUN.to_owned(), format!("cannot start the runtime: {error}"))
            }
        }
    }

    async fn probe_until_interrupted(&self) -> Collected {
        let stop = stop_on_interrupt();
        let mut collected = self.probe_pods(&stop).await;
        if stop.is_asked() {
            collected.was_interrupted();
        }
        collected
    }

    async fn probe_pods(&self, stop: &Stop) -> Collected {
        let end = Instant::now() + Duration::from_secs(self.deadline);
        let left = || end.saturating_duration_since(Instant::now()).max(LEAST);
        let cluster = tokio::select! {
            connected = self.connect(end) => match connected {
                Ok(cluster) => cluster,
                Err(message) => return Collected::error("Kubernetes API".to_owned(), message),
            },
            () = stop.asked() => return Collected::default(),
        };
        let namespace = self
            .namespace
            .clone()
            .unwrap_or_else(|| cluster.namespace.clone());
        let mut collected = Collected::default();
        let wanted = tokio::select! {
            (wanted, access) = async {
                tokio::join!(
                    self.wanted(&cluster, &namespace),
                    self.missing_access(&cluster, &namespace, self.selector.is_some())
                )
            } => {
                collected.notes.extend(access);
                match wanted {
                    Ok(wanted) => wanted,
                    Err((wanted, error)) => {
                        collected.errors.push(error);
                        wanted
                    }
                }
            }
            () = stop.asked() => return collected,
        };
        let schedule = Schedule {
            parallel: self.parallel,
            each: Duration::from_secs(self.timeout),
            all: left(),
        };
        let names: Vec<String> = wanted
            .iter()
            .map(|w| sanitise::line(w.name().1, 60))
            .collect();
        let bar = super::progress::Bar::new("probing", names);
        let done = |index| bar.done(index);
        let (container, stop) = (self.container.as_deref(), stop.clone());
        collected.snapshots =
            collect::pods::probe(&cluster, wanted, container, schedule, stop, done).await;
        bar.finish();
        collected
    }

    /// Connects; neither this nor any later call goes on after `end`.
    pub(super) async fn connect(&self, end: Instant) -> Result<connect::Cluster, String> {
        let usual = connect::Options::default();
        let left = end.saturating_duration_since(Instant::now()).max(LEAST);
        let options = connect::Options {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            // A plugin may take this long, and the first answer of the API server again.
            deadline: usual.deadline.min(left / 2),
            until: Some(end.into()),
            interactive: std::io::stdin().is_terminal(),
        };
        connect::connect(&options, &Surroundings::of_process())
            .await
            .map_err(|error| error.to_string())
    }

    /// What this user may not do of what the run needs; `list`: pods are found by a selector.
    pub(super) async fn missing_access(
        &self,
        cluster: &connect::Cluster,
        namespace: &str,
        list: bool,
    ) -> Option<Note> {
        let mut needs = vec![access::GET_EXEC, access::CREATE_EXEC];
        if !self.pod.is_empty() {
            needs.push(access::GET_PODS);
        }
        if list {
            needs.push(access::LIST_PODS);
        }
        let answers = access::review(cluster, Some(namespace), &needs).await;
        let message = access::missing(namespace, &answers)?;
        Some(Note {
            object: "access".to_owned(),
            message,
        })
    }

    /// The chosen pods, each once; with an error, those that could be found all the same.
    pub(super) async fn wanted(
        &self,
        cluster: &connect::Cluster,
        namespace: &str,
    ) -> Result<Vec<collect::pods::Wanted>, (Vec<collect::pods::Wanted>, InputError)> {
        use collect::pods::Wanted;
        let catalogued = |name: &str| crate::catalogue::find(name).is_some();
        let mut listed = Vec::new();
        let (mut error, mut broken) = (None, None);
        if let Some(selector) = &self.selector {
            match pods::selected(cluster, namespace, selector, &catalogued).await {
                Ok(all) if all.found.is_empty() && all.broken.is_empty() => {
                    error = Some(format!(
                        "no pod in namespace {namespace} matches this selector; check -l and -n"
                    ));
                }
                Ok(all) => {
                    broken = pods::not_understood(namespace, &all.broken);
                    listed = all.found;
                }
                Err(cause) => error = Some(cause.to_string()),
            }
        }
        let mut seen: BTreeSet<String> = listed.iter().map(|pod| pod.name.clone()).collect();
        let named = self.pod.iter().filter(|name| seen.insert((*name).clone()));
        let mut wanted: Vec<Wanted> = named
            .map(|name| Wanted::Named {
                namespace: namespace.to_owned(),
                name: name.clone(),
            })
            .collect();
        wanted.extend(listed.into_iter().map(|pod| Wanted::Found(Box::new(pod))));
        match (error, &self.selector) {
            (Some(message), Some(selector)) => {
                let object = sanitise::line(&format!("-l {selector}"), 200);
                let message = sanitise::line(&message, 1000);
                Err((wanted, InputError { object, message }))
            }
            _ => match broken {
                Some(broken) => Err((wanted, broken)),
                None => Ok(wanted),
            },
        }
    }
}

/// Asks for a stop at the first interrupt.
#[cfg(feature = "cluster")]
pub(super) fn stop_on_interrupt() -> Stop {
    let (ask, stop) = Stop::new();
    on_interrupt(move || {
        // Nobody listens once the run has ended by itself.
        let _ = ask.send(true);
    });
    stop
}
