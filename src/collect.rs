//! From targets to snapshots: this machine, containers over the Kubernetes API, and outputs that somebody pasted.
//!
//! A target's trouble is that target's answer: every target gets a snapshot, and one that could not be reached says why.

use crate::ask::{self, Ask};
use crate::catalogue;
use crate::observed::Skip;
use crate::probe::local;
use crate::probe::script::{Options, Script};
use crate::report::{InputError, SkipReason};
use crate::sanitise;
use crate::snapshot::{Answer, Place, Snapshot};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::io::Read;
use std::path::Path;
use std::time::Duration;

/// The script ends itself this long before our own deadline, so that what it has by then still arrives.
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
    let inside = deadline.saturating_sub(MARGIN).max(Duration::from_secs(1));
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
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = match name.trim() {
        "" => "this machine".to_owned(),
        name => sanitise::line(name, 100),
    };
    let mut snapshot = local::collect(&script(deadline), Place::host(name), deadline);
    reached(&mut snapshot.answers, "this machine");
    snapshot
}

/// Outputs that were pasted: `NAME=FILE` pairs. They come from one machine that is not at hand.
///
/// # Errors
/// One for each file that cannot be read or name that is not known; the others are judged.
pub fn pasted(inputs: &[(String, std::path::PathBuf)]) -> (Snapshot, Vec<InputError>) {
    let mut answers = BTreeMap::new();
    let mut errors = Vec::new();
    for (name, path) in inputs {
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
        match read_pasted(path) {
            Ok(text) => _ = answers.insert(ask.id.to_owned(), Answer::Text(text)),
            Err(message) => errors.push(InputError {
                object: path.display().to_string(),
                message,
            }),
        }
    }
    (
        Snapshot {
            place: Place::host("pasted outputs"),
            answers,
        },
        errors,
    )
}

fn read_pasted(path: &Path) -> Result<String, String> {
    let file = std::fs::File::open(path).map_err(|e| format!("cannot be read: {e}"))?;
    let mut bytes = Vec::new();
    file.take(PASTE_LIMIT + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| format!("cannot be read: {e}"))?;
    if bytes.len() as u64 > PASTE_LIMIT {
        return Err("is larger than 16 MiB: paste the output of one command".to_owned());
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Notes in the answers that the target was there.
fn reached(answers: &mut BTreeMap<String, Answer>, how: &str) {
    answers.insert(ask::TARGET.id.to_owned(), Answer::Text(how.to_owned()));
}

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

/// Containers over the Kubernetes API.
#[cfg(feature = "cluster")]
pub mod pods {
    use super::{
        Answer, BTreeMap, Duration, Place, Skip, SkipReason, Snapshot, ask, reached, script,
        unreached,
    };
    use crate::cluster::connect::Cluster;
    use crate::cluster::project::{Container, EnvValue, Pod};
    use crate::cluster::run::{self, Schedule, side_by_side};
    use crate::probe::exec_end::End;
    use crate::probe::frames;
    use crate::probe::pod_exec::{ExecTarget, Limits, run_script};
    use crate::snapshot::PlaceKind;

    /// A pod to probe: what the API says of it, or why it says nothing.
    pub struct Wanted {
        /// Namespace and name, for a pod that was not found.
        pub name: (String, String),
        /// The pod.
        pub pod: Result<Pod, Skip>,
    }

    /// Probes containers side by side, one exec each. `done` hears the name of each as it ends.
    pub async fn probe(
        cluster: &Cluster,
        wanted: Vec<Wanted>,
        container: Option<&str>,
        schedule: Schedule,
        mut done: impl FnMut(&str),
    ) -> Vec<Snapshot> {
        let script = std::sync::Arc::new(script(schedule.each));
        let container = container.map(str::to_owned);
        let places: Vec<Place> = wanted.iter().map(place).collect();
        let client = cluster.client.clone();
        let asks = script.asks.clone();
        let work = move |target: Wanted| {
            let (client, script, container) = (client.clone(), script.clone(), container.clone());
            async move {
                let place = place(&target);
                let pod = match &target.pod {
                    Ok(pod) => pod,
                    Err(why) => return unreached(place, &script.asks, why),
                };
                let found = match pod.container(container.as_deref()) {
                    Ok(found) => found,
                    Err(why) => {
                        let why = Skip::new(SkipReason::NotFound, why.to_string());
                        return unreached(place, &script.asks, &why);
                    }
                };
                let place = Place {
                    container: Some(found.name.clone()),
                    ..place
                };
                let at = ExecTarget {
                    namespace: pod.namespace.clone(),
                    pod: pod.name.clone(),
                    container: Some(found.name.clone()),
                };
                if let Some(why) = pod.why_not_running(&found.name) {
                    let end = End::NotRunning { why };
                    let why = end.skip(&at).unwrap_or_else(Skip::not_applicable);
                    return unreached(place, &script.asks, &why);
                }
                let limits = Limits {
                    deadline: schedule.each,
                    stdout: frames::MAX_OUTPUT,
                    ..Limits::default()
                };
                let outcome = run_script(&client, &at, &script.text, &limits).await;
                let lost = outcome.end.skip(&at);
                if let (Some(why), true) = (&lost, outcome.stdout.is_empty()) {
                    return unreached(place, &script.asks, why);
                }
                let nothing = Skip::new(
                    SkipReason::Unparsable,
                    format!("the probe in {at} ended early: {}", outcome.end),
                );
                let mut answers =
                    frames::read(&script, &outcome.stdout, lost.as_ref().unwrap_or(&nothing));
                reached(&mut answers, &at.to_string());
                answers.insert(ask::POD_SPEC.id.to_owned(), Answer::Text(spec(pod, found)));
                Snapshot { place, answers }
            }
        };
        let names: Vec<String> = places.iter().map(|p| p.pod.clone()).collect();
        let answers = side_by_side(wanted, patient(schedule), work, |index, _| {
            done(&names[index])
        })
        .await;
        places
            .into_iter()
            .zip(answers)
            .map(|(place, answer)| match answer {
                run::Answer::Done(snapshot) => snapshot,
                run::Answer::TargetDeadline | run::Answer::RunDeadline => {
                    let detail = format!("no answer from pod {} before the deadline; look at the kubelet of its node", place.pod);
                    unreached(place, &asks, &Skip::new(SkipReason::Timeout, detail))
                }
                run::Answer::Lost => {
                    let detail = format!("a defect of this tool ended the probe of pod {}", place.pod);
                    unreached(place, &asks, &Skip::new(SkipReason::ConnectionLost, detail))
                }
            })
            .collect()
    }

    /// The exec keeps its own deadline and reports partial output; the scheduler's is only the safety net behind it.
    fn patient(schedule: Schedule) -> Schedule {
        Schedule {
            each: schedule.each + Duration::from_secs(5),
            ..schedule
        }
    }

    fn place(wanted: &Wanted) -> Place {
        let (namespace, name) = wanted.name.clone();
        let pod = wanted.pod.as_ref().ok();
        Place {
            kind: PlaceKind::Pod,
            workload: pod.and_then(|p| p.deployment().map(str::to_owned)),
            namespace: Some(namespace),
            pod: name,
            container: None,
            node: pod.and_then(|p| p.node.clone()),
            role: pod.and_then(|p| p.role().map(|role| role.word().to_owned())),
        }
    }

    /// What the pod spec says of this container, one `NAME=value` or `NAME<-reference` per line, after `key: value` lines
    /// about resources and privileges. Catalogued variables only.
    fn spec(pod: &Pod, container: &Container) -> String {
        let mut lines = BTreeMap::new();
        for (name, value) in &container.env {
            let line = match value {
                EnvValue::Literal(value) => format!("{name}={}", value.replace('\n', " ")),
                EnvValue::Reference(reference) => format!("{name}<-{reference:?}"),
            };
            lines.insert(name.clone(), line);
        }
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
        for line in lines.values() {
            out.push_str(line);
            out.push('\n');
        }
        out
    }
}
