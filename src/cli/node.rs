//! `node`: what this machine or these containers can really do.

use super::{ReportArguments, print};
use crate::report::{ExitCode, InputError, Note, Report};
use crate::snapshot::{Bundle, Snapshot};
use crate::{bundle, checks, collect, manifest::Inventory};
use clap::Args;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) targets: TargetArguments,
    /// Judge pasted outputs instead of a machine: NAME is what printed them (topo, ibstat, ucx_info, ..); repeatable.
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

/// Which containers, and how to reach them.
#[derive(Debug, Args)]
pub(super) struct TargetArguments {
    /// Probe this pod instead of this machine; repeatable.
    #[arg(long, value_name = "POD")]
    pub(super) pod: Vec<String>,
    /// Probe all pods that this label selector matches.
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(super) selector: Option<String>,
    /// Namespace; that of the context by default.
    #[arg(short, long, value_name = "NAMESPACE")]
    pub(super) namespace: Option<String>,
    /// Container; `main`, or the pod's only worker container, by default.
    #[arg(short, long, value_name = "CONTAINER")]
    pub(super) container: Option<String>,
    /// Context of the kubeconfig.
    #[arg(long, value_name = "CONTEXT")]
    pub(super) context: Option<String>,
    /// Kubeconfig file.
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Containers at the same time.
    #[arg(long, value_name = "N", default_value = "8")]
    pub(super) parallel: NonZeroUsize,
    /// Seconds for one container.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = clap::value_parser!(u64).range(2..=3600))]
    pub(super) timeout: u64,
    /// Seconds for the whole run.
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = clap::value_parser!(u64).range(2..=86400))]
    pub(super) deadline: u64,
}

pub(super) fn name_and_file(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => {
            Ok((name.to_owned(), file.into()))
        }
        _ => Err("write NAME=FILE, for instance topo=topo.txt".to_owned()),
    }
}

/// What was collected, and what went wrong on the way.
#[derive(Default)]
pub(super) struct Collected {
    pub(super) snapshots: Vec<Snapshot>,
    pub(super) errors: Vec<InputError>,
    pub(super) notes: Vec<Note>,
}

impl Arguments {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let each = Duration::from_secs(self.targets.timeout);
        if self.print_script {
            print(&collect::script(each).text)?;
            return Ok(ExitCode::Ok);
        }
        let mut collected = self.collect(each);
        if let Some(path) = &self.save {
            let recording = Bundle {
                format: bundle::FORMAT,
                snapshots: collected.snapshots.clone(),
            };
            if let Err(error) = bundle::write(path, &recording) {
                collected.errors.push(InputError {
                    object: path.display().to_string(),
                    message: error.to_string(),
                });
            }
        }
        let findings = checks::run(&Inventory::default(), &collected.snapshots);
        let report = Report::new(
            "node",
            Vec::new(),
            findings,
            collected.errors,
            collected.notes,
        );
        self.report.finish(&report)
    }

    fn collect(&self, each: Duration) -> Collected {
        if !self.input.is_empty() {
            let (snapshot, errors) = collect::pasted(&self.input);
            let snapshots = if snapshot.answers.is_empty() {
                Vec::new()
            } else {
                vec![snapshot]
            };
            return Collected {
                snapshots,
                errors,
                ..Collected::default()
            };
        }
        if let Some(path) = &self.from {
            return match bundle::read(path) {
                Ok(recording) => Collected {
                    snapshots: recording.snapshots,
                    ..Collected::default()
                },
                Err(error) => Collected::error(path.display().to_string(), error.to_string()),
            };
        }
        if self.targets.pod.is_empty() && self.targets.selector.is_none() {
            return Collected {
                snapshots: vec![collect::host(each)],
                ..Collected::default()
            };
        }
        self.targets.probe()
    }
}

impl Collected {
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
impl TargetArguments {
    /// Probes the chosen pods.
    pub(super) fn probe(&self) -> Collected {
        match tokio::runtime::Runtime::new() {
            Ok(runtime) => {
                let collected = runtime.block_on(self.probe_pods());
                // A credential plugin or a name look-up that hangs must not keep the process.
                runtime.shutdown_background();
                collected
            }
            Err(error) => Collected::error(
                "pods".to_owned(),
                format!("cannot start the runtime: {error}"),
            ),
        }
    }

    async fn probe_pods(&self) -> Collected {
        use crate::cluster::{access, run::Schedule};
        let cluster = match self.connect().await {
            Ok(cluster) => cluster,
            Err(message) => return Collected::error("Kubernetes API".to_owned(), message),
        };
        let namespace = self
            .namespace
            .clone()
            .unwrap_or_else(|| cluster.namespace.clone());
        let mut collected = Collected::default();
        let wanted = self.wanted(&cluster, &namespace, &mut collected).await;
        let needs = [access::GET_EXEC, access::CREATE_EXEC];
        if !wanted.is_empty()
            && let Some(message) = access::missing(
                &namespace,
                &access::review(&cluster, Some(&namespace), &needs).await,
            )
        {
            collected.notes.push(Note {
                object: "access".to_owned(),
                message,
            });
        }
        let schedule = Schedule {
            parallel: self.parallel,
            each: Duration::from_secs(self.timeout),
            all: Duration::from_secs(self.deadline),
        };
        let bar =
            super::progress::Bar::new("probing", wanted.iter().map(|w| w.name.1.clone()).collect());
        let done = |name: &str| bar.done(name);
        collected.snapshots =
            collect::pods::probe(&cluster, wanted, self.container.as_deref(), schedule, done).await;
        bar.finish();
        collected
    }

    pub(super) async fn connect(&self) -> Result<crate::cluster::connect::Cluster, String> {
        use crate::cluster::{connect, kubeconfig::Surroundings};
        use std::io::IsTerminal;
        let options = connect::Options {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            interactive: std::io::stdin().is_terminal(),
            ..connect::Options::default()
        };
        connect::connect(&options, &Surroundings::of_process())
            .await
            .map_err(|error| error.to_string())
    }

    /// The chosen pods, each with what the API says of it.
    pub(super) async fn wanted(
        &self,
        cluster: &crate::cluster::connect::Cluster,
        namespace: &str,
        collected: &mut Collected,
    ) -> Vec<collect::pods::Wanted> {
        use crate::catalogue;
        use crate::cluster::pods;
        let catalogued = |name: &str| catalogue::find(name).is_some();
        let mut wanted = self.named(cluster, namespace, &self.pod).await;
        if let Some(selector) = &self.selector {
            match pods::by_selector(cluster, namespace, selector, &catalogued).await {
                Ok(found) if found.is_empty() => collected.errors.push(InputError {
                    object: crate::sanitise::line(selector, 200),
                    message: format!(
                        "no pod in namespace {namespace} matches this selector; check -l and -n"
                    ),
                }),
                Ok(found) => wanted.extend(found.into_iter().map(|pod| collect::pods::Wanted {
                    name: (pod.namespace.clone(), pod.name.clone()),
                    pod: Ok(pod),
                })),
                Err(error) => collected.errors.push(InputError {
                    object: crate::sanitise::line(selector, 200),
                    message: error.to_string(),
                }),
            }
        }
        wanted
    }

    /// Pods by their names. One that is not there is an answer too.
    pub(super) async fn named(
        &self,
        cluster: &crate::cluster::connect::Cluster,
        namespace: &str,
        names: &[String],
    ) -> Vec<collect::pods::Wanted> {
        use crate::{catalogue, cluster::pods, observed::Skip, report::SkipReason};
        let catalogued = |name: &str| catalogue::find(name).is_some();
        let mut wanted = Vec::new();
        for name in names {
            let pod = pods::by_name(cluster, namespace, name, &catalogued).await;
            let pod = pod.map_err(|error| Skip::new(SkipReason::NotFound, error.to_string()));
            let name = crate::sanitise::line(name, 253);
            wanted.push(collect::pods::Wanted {
                name: (namespace.to_owned(), name),
                pod,
            });
        }
        wanted
    }
}
