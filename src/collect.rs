//! From targets to snapshots: this machine, containers over the Kubernetes API, and outputs that somebody pasted.
//!
//! A target's trouble is that target's answer: every target gets a snapshot, and one that could not be reached says why.

use crate::ask;
use crate::catalogue;
use crate::facts::{paste, transcript};
use crate::observed::Skip;
use crate::probe::script::{Options, Script};
use crate::probe::{frames, local};
use crate::report::InputError;
use crate::sanitise;
use crate::snapshot::{Answer, CUT, Place, Snapshot};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::io::{IsTerminal, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The script ends itself this long before our own deadline, so that what it has by then still arrives; a quarter of a
/// short deadline is enough.
const MARGIN: Duration = Duration::from_secs(3);
/// At most this much of a pasted output is read: more than any tool prints, less than would hurt.
const PASTE_LIMIT: u64 = 16 << 20;

/// The script that asks everything, to be ended after `deadline`.
pub fn script(deadline: Duration) -> Script {
    let names: Vec<&str> = catalogue::all().map(|variable| variable.name).collect();
    // Two random hash states: new for every run, so that no file in a container can hold it.
    let nonce: String = (0..2)
        .map(|_| format!("{:016x}", RandomState::new().hash_one(0u8)))
        .collect();
    let inside = (deadline - MARGIN.min(deadline / 4)).max(Duration::from_secs(1));
    let options = Options {
        variables: &names,
        nonce: &nonce,
        deadline: inside,
        root: "",
    };
    Script::new(ask::ALL, &options).expect("32 hexadecimal digits are a nonce")
}

/// This machine, or the container that the tool itself runs in.
pub fn host(deadline: Duration) -> Snapshot {
    host_until(deadline, &AtomicBool::new(false))
}

/// The same, with what was read until `stop` was set.
pub fn host_until(deadline: Duration, stop: &AtomicBool) -> Snapshot {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = match name.trim() {
        "" => "this machine".to_owned(),
        name => sanitise::line(name, 100),
    };
    let script = script(deadline);
    let mut shell = std::process::Command::new("sh");
    shell.arg("-s");
    let run = local::run_until(shell, &script.text, deadline, stop);
    let mut answers = frames::read(&script, &run.stdout, &run.lost);
    if stop.load(Ordering::Relaxed) {
        // The script says only that it was ended; we know by whom.
        for answer in answers.values_mut() {
            if let Answer::Missing { reason, detail } = answer
                && detail == frames::STOPPED
            {
                *reason = run.lost.reason;
                detail.clone_from(&run.lost.detail);
            }
        }
    }
    judged(Place::host(name), answers, &run.lost, "this machine")
}

/// Outputs that were pasted: `NAME=FILE` pairs, with `-` for standard input. They come from one machine that is not at hand.
///
/// # Errors
/// One for each file that cannot be read or name that is not known; the others are judged.
pub fn pasted(inputs: &[(String, std::path::PathBuf)]) -> (Snapshot, Vec<InputError>) {
    let mut answers = BTreeMap::new();
    let mut errors = Vec::new();
    let mut piped = false;
    for (name, path) in inputs {
        if path.as_os_str() == "-" && std::mem::replace(&mut piped, true) {
            errors.push(InputError {
                object: sanitise::line(name, 100),
                message: "standard input holds one output: name the others as files".to_owned(),
            });
            continue;
        }
        let Some(ask) = ask::for_paste(name) else {
            let known: Vec<&str> = ask::paste_names().collect();
            errors.push(InputError {
                object: sanitise::line(name, 100),
                message: format!(
                    "no output is known by this name; the names are {}",
                    known.join(", ")
                ),
            });
            continue;
        };
        let error = match read_pasted(path) {
            Ok(_) if answers.contains_key(ask.id) => {
                format!(
                    "this is a second {}; only the first was judged",
                    ask.shown_as
                )
            }
            Ok(text) => match understood(ask, text) {
                Err(message) => message,
                Ok(text) => {
                    answers.insert(ask.id.to_owned(), Answer::Text(text));
                    continue;
                }
            },
            Err(message) => message,
        };
        errors.push(InputError {
            object: sanitise::line(&path.display().to_string(), 500),
            message: error,
        });
    }
    withhold(&mut answers);
    (
        Snapshot {
            place: Place::pasted(),
            answers,
        },
        errors,
    )
}

/// The text as its readers take it, or what is wrong with it.
fn understood(ask: &ask::Ask, text: String) -> Result<String, String> {
    let text = match ask.id == ask::ENVIRONMENT.id {
        true => paste::environment(&text)?,
        false => text,
    };
    paste::refuse(ask, &text).map_or(Ok(text), Err)
}

/// `-` is standard input. A pipe that a shell opened for its command (`<(..)`) has a writer; one in the file system may wait
/// for ever, and a device may never end.
fn read_pasted(path: &Path) -> Result<String, String> {
    let cannot = |e: std::io::Error| crate::input::cannot(&e);
    if path.as_os_str() == "-" {
        if std::io::stdin().is_terminal() {
            return Err("standard input is the terminal: pipe an output into it".to_owned());
        }
        return bounded(std::io::stdin().lock());
    }
    let opened = ["/dev/fd", "/dev/stdin", "/proc"];
    let kind = std::fs::metadata(path).map_err(cannot)?;
    if !kind.is_file() && !kind.is_dir() && !opened.iter().any(|at| path.starts_with(at)) {
        return Err("is no regular file and was not read: pipe its content to NAME=-".to_owned());
    }
    bounded(std::fs::File::open(path).map_err(cannot)?)
}

fn bounded(input: impl Read) -> Result<String, String> {
    let mut bytes = Vec::new();
    input
        .take(PASTE_LIMIT + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| format!("cannot be read: {e}"))?;
    if bytes.len() as u64 > PASTE_LIMIT {
        return Err("is larger than 16 MiB: paste the output of one command".to_owned());
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A snapshot of what was read, with a word on whether the target was there at all: without a single answer it was not,
/// whatever the connection said. `lost` is the answer of everything that an early end cut off.
fn judged(place: Place, mut answers: BTreeMap<String, Answer>, lost: &Skip, how: &str) -> Snapshot {
    let cut_off = |answer: &&Answer| match answer {
        Answer::Missing { detail, .. } => *detail == lost.detail || detail == frames::STOPPED,
        Answer::Text(_) => false,
    };
    let missed = answers.values().filter(cut_off).count();
    let all = answers.len();
    let target = match answers.values().find(cut_off) {
        Some(first) if missed == all => first.clone(),
        Some(Answer::Missing { detail, .. }) => Answer::Text(format!(
            "{how}\n{missed} of {all} questions have no answer: {detail}"
        )),
        _ => Answer::Text(how.to_owned()),
    };
    answers.insert(ask::TARGET.id.to_owned(), target);
    withhold(&mut answers);
    Snapshot { place, answers }
}

/// Takes out of environments what must not be shown or stored: foreign variables, which the probe leaves in the
/// container and a person may paste, and values that hold credentials. Of the latter a comment tells the name.
fn withhold(answers: &mut BTreeMap<String, Answer>) {
    for ask in [&ask::ENVIRONMENT, &ask::CONTAINER_ENVIRONMENT] {
        let Some(Answer::Text(text)) = answers.get_mut(ask.id) else {
            continue;
        };
        let kept: Vec<String> = text
            .lines()
            .filter_map(|line| {
                if line.starts_with('#') || line == CUT {
                    return Some(line.to_owned());
                }
                let (name, value) = transcript::assignment(line)?;
                let name = name.trim();
                let variable = catalogue::find(name)?;
                Some(if catalogue::withheld(variable, &value) {
                    format!("# withheld {name}")
                } else {
                    format!("{name}={value}")
                })
            })
            .collect();
        *text = kept.join("\n");
    }
    for ask in [&ask::UCX_SETTINGS, &ask::NCCL_SETTINGS] {
        if let Some(Answer::Text(text)) = answers.get_mut(ask.id) {
            let kept: Vec<&str> = text
                .lines()
                .filter(|line| !holds_credentials(line))
                .collect();
            *text = kept.join("\n");
        }
    }
}

/// A line `path: NAME=value` whose value is withheld.
fn holds_credentials(line: &str) -> bool {
    let setting = line.split_once(": ").map_or(line, |(_, setting)| setting);
    setting.split_once('=').is_some_and(|(name, value)| {
        catalogue::find(name.trim()).is_some_and(|v| catalogue::withheld(v, value))
    })
}

/// Containers over the Kubernetes API.
#[cfg(feature = "cluster")]
pub mod pods {
    use super::{Duration, Place, Script, Skip, Snapshot, judged, script};
    use crate::ask::{self, Ask};
    use crate::catalogue;
    use crate::cluster::call::Cause;
    use crate::cluster::connect::Cluster;
    use crate::cluster::deployment::Deployment;
    use crate::cluster::pods;
    use crate::cluster::project::{Container, EnvValue, Pod, Reference};
    use crate::cluster::run::{self, Schedule, Stop, side_by_side_until};
    use crate::probe::exec_end::End;
    use crate::probe::frames;
    use crate::probe::pod_exec::{ExecTarget, Limits, run_script_until};
    use crate::report::SkipReason;
    use crate::sanitise;
    use crate::snapshot::{Answer, Folded, PlaceKind};
    use std::sync::Arc;
    use tokio::time::Instant;

    /// A pod to probe.
    pub enum Wanted {
        /// By its name: the API is asked first.
        Named {
            /// Namespace.
            namespace: String,
            /// Pod.
            name: String,
        },
        /// What a list said of it.
        Found(Box<Pod>),
    }

    impl Wanted {
        /// Namespace and name.
        pub fn name(&self) -> (&str, &str) {
            match self {
                Self::Named { namespace, name } => (namespace, name),
                Self::Found(pod) => (&pod.namespace, &pod.name),
            }
        }

        fn place(&self) -> Place {
            let (namespace, name) = self.name();
            let place = Place {
                kind: PlaceKind::Pod,
                namespace: Some(sanitise::line(namespace, 253)),
                ..Place::host(sanitise::line(name, 253))
            };
            match self {
                Self::Named { .. } => place,
                Self::Found(pod) => described(place, pod),
            }
        }
    }

    fn described(place: Place, pod: &Pod) -> Place {
        Place {
            workload: pod.deployment().map(|name| sanitise::line(name, 253)),
            node: pod.node.as_deref().map(|name| sanitise::line(name, 253)),
            role: pod.role().map(|role| role.word().to_owned()),
            ..place
        }
    }

    /// A run must have this much time left for an exec to begin, and ends its execs this long before its own end.
    const MARGIN: Duration = Duration::from_millis(300);

    const RUN_DEADLINE: &str = "was not read before the deadline of the whole run; give more time (--deadline), or \
        look at the kubelet of its node";

    /// A snapshot of a target that could not be reached: every answer is missing for that reason.
    fn unreached(place: Place, asks: &[&'static Ask], why: &Skip) -> Snapshot {
        let missing = || Answer::Missing {
            reason: why.reason,
            detail: why.detail.clone(),
        };
        let answers = asks
            .iter()
            .chain([&&ask::TARGET])
            .map(|ask| (ask.id.to_owned(), missing()))
            .collect();
        Snapshot { place, answers }
    }

    /// What every target of a run shares.
    struct Shared {
        cluster: Cluster,
        script: Script,
        container: Option<String>,
        schedule: Schedule,
        end: Instant,
        stop: Stop,
    }

    /// Probes containers side by side, one exec each, and at most one GET for a pod that is only named. `done` hears the
    /// position of each as it ends.
    pub async fn probe(
        cluster: &Cluster,
        wanted: Vec<Wanted>,
        container: Option<&str>,
        schedule: Schedule,
        stop: Stop,
        mut done: impl FnMut(usize),
    ) -> Vec<Folded> {
        let each = schedule.each.min(schedule.all);
        let places: Vec<Place> = wanted.iter().map(Wanted::place).collect();
        let shared = Arc::new(Shared {
            cluster: Cluster {
                patience: cluster.patience.at_most(each),
                ..cluster.clone()
            },
            script: script(each),
            container: container.map(str::to_owned),
            schedule,
            end: Instant::now() + schedule.all,
            stop: stop.clone(),
        });
        let work = {
            let shared = Arc::clone(&shared);
            move |target: Wanted| {
                let shared = Arc::clone(&shared);
                async move { Folded::from(shared.probe(target).await) }
            }
        };
        let answers = side_by_side_until(wanted, patient(schedule), stop, work, |index, _| {
            done(index)
        })
        .await;
        places
            .into_iter()
            .zip(answers)
            .map(|(place, answer)| {
                let (reason, what) = match answer {
                    run::Answer::Done(snapshot) => return snapshot,
                    run::Answer::TargetDeadline => (
                        SkipReason::Timeout,
                        "gave no answer before its deadline; look at the kubelet of its node",
                    ),
                    run::Answer::RunDeadline => (SkipReason::RunDeadline, RUN_DEADLINE),
                    run::Answer::Stopped => (
                        SkipReason::Interrupted,
                        "was not read before the run was interrupted",
                    ),
                    run::Answer::Lost => (
                        SkipReason::ConnectionLost,
                        "was not read because of a defect of this tool; report it",
                    ),
                };
                let namespace = place.namespace.as_deref().unwrap_or_default();
                let why = Skip::new(reason, format!("pod {namespace}/{} {what}", place.pod));
                unreached(place, &shared.script.asks, &why).into()
            })
            .collect()
    }

    impl Shared {
        async fn probe(&self, target: Wanted) -> Snapshot {
            let began = Instant::now();
            let mut place = target.place();
            let unread = |place, why: &Skip| unreached(place, &self.script.asks, why);
            let (namespace, name) = target.name();
            let (namespace, name) = (namespace.to_owned(), name.to_owned());
            let pod = match target {
                Wanted::Found(pod) => Ok(*pod),
                Wanted::Named { .. } => {
                    let catalogued = |name: &str| catalogue::find(name).is_some();
                    tokio::select! {
                        got = pods::by_name(&self.cluster, &namespace, &name, &catalogued) => got,
                        () = self.stop.asked() => {
                            let what = format!("pod {} was not read before the run was interrupted", place.pod);
                            return unread(place, &Skip::new(SkipReason::Interrupted, what));
                        }
                    }
                }
            };
            let pod = match pod {
                Ok(pod) => Some(pod),
                // Exec does not need the right to read pods, so go on; only what the pod spec would have said is missing.
                Err(error) if matches!(error.cause, Cause::Forbidden { .. }) => None,
                Err(error) => {
                    let reason = match error.cause {
                        // The API was silent, and not the container.
                        Cause::Deadline { .. } => SkipReason::Unreachable,
                        ref cause => cause.reason(),
                    };
                    return unread(place, &Skip::new(reason, error.to_string()));
                }
            };
            let found = match pod
                .as_ref()
                .map(|pod| pod.container(self.container.as_deref()))
            {
                None => None,
                Some(Ok(found)) => Some(found),
                Some(Err(why)) => {
                    return unread(place, &Skip::new(SkipReason::NotFound, why.to_string()));
                }
            };
            if let Some(pod) = &pod {
                place = described(place, pod);
            }
            let container = found.map(|c| c.name.clone()).or(self.container.clone());
            place.container = container.as_deref().map(|name| sanitise::line(name, 253));
            let at = ExecTarget {
                namespace,
                pod: name,
                container,
            };
            // What the API said of the pod is known whether or not exec gets through.
            let spec = match (&pod, found) {
                (Some(pod), Some(found)) => Answer::Text(spec(pod, found)),
                _ => Answer::Missing {
                    reason: SkipReason::Denied,
                    detail: NO_SPEC.to_owned(),
                },
            };
            let with_spec = |mut snapshot: Snapshot| {
                snapshot.answers.insert(ask::POD_SPEC.id.to_owned(), spec);
                snapshot
            };
            if let (Some(pod), Some(found)) = (&pod, found)
                && let Some(why) = pod.why_not_running(&found.name)
            {
                let end = End::NotRunning { why };
                let why = end.skip(&at).unwrap_or_else(Skip::not_applicable);
                return with_spec(unread(place, &why));
            }
            // What the whole run leaves this container.
            let last = self.end - MARGIN.min(self.schedule.all / 4);
            let own = (began + self.schedule.each).min(last);
            if Instant::now() >= last {
                let what = format!("{at} {RUN_DEADLINE}");
                return with_spec(unread(place, &Skip::new(SkipReason::RunDeadline, what)));
            }
            let limits = Limits {
                deadline: own.saturating_duration_since(Instant::now()),
                stdout: frames::MAX_OUTPUT,
                ..Limits::default()
            };
            let client = &self.cluster.client;
            let outcome =
                run_script_until(client, &at, &self.script.text, &limits, &self.stop).await;
            let ended_by_run = own == last && matches!(outcome.end, End::Deadline { .. });
            let by_run = || Skip::new(SkipReason::RunDeadline, format!("{at} {RUN_DEADLINE}"));
            let lost = if ended_by_run {
                Some(by_run())
            } else {
                outcome.end.skip(&at)
            };
            let lost = lost.unwrap_or_else(|| {
                let tail = String::from_utf8_lossy(&outcome.stderr_tail);
                let said = match tail.lines().rfind(|line| !line.trim().is_empty()) {
                    Some(line) => format!(" (the last it said is {})", sanitise::line(line, 100)),
                    None => String::new(),
                };
                match outcome.end {
                    End::Exit(0) => Skip::new(
                        SkipReason::Unparsable,
                        format!(
                            "the shell in {at} printed nothing that the probe asks for{said}; look what its image has in place of a \
                             shell (sh)"
                        ),
                    ),
                    _ => Skip::new(
                        SkipReason::ConnectionLost,
                        format!(
                            "the probe in {at} ended early: {}{said}; {}",
                            outcome.end,
                            after(&outcome.end)
                        ),
                    ),
                }
            });
            let answers = frames::read(&self.script, &outcome.stdout, &lost);
            let mut snapshot = judged(place, answers, &lost, &at.to_string());
            if let Some(Answer::Missing { reason, .. }) = snapshot.answers.get_mut(ask::TARGET.id) {
                *reason = own_fault(&outcome.end).unwrap_or(*reason);
            }
            with_spec(snapshot)
        }
    }

    /// Why a container in which the probe ended by itself, without one answer, is at fault: what it has in place of a shell is
    /// none. None where it is not: who was stopped says nothing of what it would have answered.
    fn own_fault(end: &End) -> Option<SkipReason> {
        match end {
            End::Exit(0 | 137 | 143) => None,
            End::Exit(_) => Some(SkipReason::NoShell),
            _ => None,
        }
    }

    /// What to do about a probe that ended so.
    fn after(end: &End) -> &'static str {
        match end {
            End::Exit(137 | 143) => {
                "look whether the pod is still there, and whether it is at its memory limit"
            }
            _ => "look what its image has in place of a shell (sh)",
        }
    }

    const NO_SPEC: &str =
        "this user may not get pods, so the pod spec was not read; grant it (docs/rbac.yaml)";

    /// The exec keeps its own deadline and reports partial output; the scheduler's is only the safety net behind it.
    fn patient(schedule: Schedule) -> Schedule {
        Schedule {
            each: schedule.each + Duration::from_secs(5),
            ..schedule
        }
    }

    /// What the pod spec says of this container, one `NAME=value` or `NAME<-reference` per line, after `key: value` lines
    /// about resources and privileges. Catalogued variables only, without values that may hold credentials.
    fn spec(pod: &Pod, container: &Container) -> String {
        let mut out = String::new();
        for (name, quantity) in &container.limits {
            out.push_str(&format!("limit: {name}={quantity}\n"));
        }
        out.push_str(&format!("privileged: {}\n", container.security.privileged));
        out.push_str(&format!(
            "capabilities: {}\n",
            container.security.capabilities.join(",")
        ));
        out.push_str(&format!("host-network: {}\n", pod.host_network));
        out.push_str(&format!("host-ipc: {}\n", pod.host_ipc));
        out.push_str(&format!("host-pid: {}\n", pod.host_pid));
        let said = [
            ("pod-ip", pod.pod_ip.as_deref()),
            ("host-ip", pod.host_ip.as_deref()),
            ("component", Some(Deployment::group(pod))),
            ("image", container.image.as_deref()),
            ("image-id", container.image_id.as_deref()),
        ];
        for (key, value) in said {
            if let Some(value) = value {
                out.push_str(&format!("{key}: {}\n", sanitise::line(value, 300)));
            }
        }
        if let Some(user) = container.security.run_as_user {
            out.push_str(&format!("run-as-user: {user}\n"));
        }
        out.push_str(&format!("ready: {}\n", container.ready));
        out.push_str(&format!("restarts: {}\n", container.restarts));
        for claim in &pod.claims {
            let made = claim.template.as_deref().or(claim.claim.as_deref());
            let made = sanitise::line(made.unwrap_or_default(), 300);
            out.push_str(&format!(
                "claim: {}={made}\n",
                sanitise::line(&claim.name, 300)
            ));
        }
        for from in &container.env_from {
            let named = match from {
                Reference::ConfigMap { name, .. } | Reference::Secret { name, .. } => name,
                _ => continue,
            };
            out.push_str(&format!(
                "env-from: {} {}\n",
                kind(from),
                sanitise::line(named, 300)
            ));
        }
        for (name, value) in &container.env {
            let withheld =
                |value: &str| catalogue::find(name).is_none_or(|v| catalogue::withheld(v, value));
            out.push_str(&match value {
                EnvValue::Literal(value) if withheld(value) => format!("{name}<-withheld\n"),
                EnvValue::Literal(value) => format!("{name}={}\n", catalogue::one_line(value)),
                EnvValue::Reference(from) => format!("{name}<-{}\n", kind(from)),
            });
        }
        out
    }

    /// What kind of place a value comes from. Names of objects and keys stay out of recordings.
    fn kind(reference: &Reference) -> &'static str {
        match reference {
            Reference::Field(_) => "field",
            Reference::Resource(_) => "resource",
            Reference::ConfigMap { .. } => "configmap",
            Reference::Secret { .. } => "secret",
            Reference::Unknown => "unknown",
        }
    }
}
