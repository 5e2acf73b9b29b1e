use crate::ask;
use crate::catalogue::{self, Variable};
use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::observed::Skip;
use crate::report::SkipReason;
use crate::sanitise;
use crate::snapshot::{CUT, evidence};
use std::collections::BTreeMap;

check! {
    /// The worker runs with other transport settings than its pod spec says.
    ///
    /// ## Why it matters
    /// Images and start scripts set variables too, and theirs win over what everybody reads in the manifest. Whoever
    /// changes the manifest then changes nothing.
    ///
    /// ## Fix
    /// Set the variable in one place: in the pod spec, and remove it from the image and the start script.
    "ENV013" "env-drift" on Container {
        subsystem: Env, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

/// How one side has a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value<'a> {
    Plain(&'a str),
    /// Set, and its value is not in the recording: a reference, or withheld.
    Hidden,
}

fn run(container: &Container<'_>) -> Outcome {
    let spec = match container.snapshot.text(&ask::POD_SPEC) {
        // This machine and pasted outputs have no pod spec beside them.
        Err(Skip {
            reason: SkipReason::NotCollected,
            ..
        }) => return Err(Skip::not_applicable()),
        other => other?,
    };
    let live = container.snapshot.text(&ask::ENVIRONMENT)?;
    let of_worker = !live.starts_with("# process self");
    // Without a worker it is what the probe was started with.
    let process = match of_worker {
        true => "the running process",
        false => "what starts in the container (no worker was found)",
    };
    let cut = container.snapshot.is_cut(&ask::ENVIRONMENT);
    let (spec, live) = (written(spec), running(live));
    let mut names: Vec<&str> = spec.keys().chain(live.keys()).copied().collect();
    names.sort_unstable();
    names.dedup();
    let mut tally = Tally::default();
    let mut drafts = Vec::new();
    for name in names {
        // What a recording holds beside the catalogue means nothing to us and is not shown.
        let Some(variable) = catalogue::find(name) else {
            continue;
        };
        let (wanted, has) = (
            shown(variable, spec.get(name)),
            shown(variable, live.get(name)),
        );
        let drifted = match (wanted, has) {
            (Some(Value::Plain(wanted)), Some(Value::Plain(has))) if wanted == has => {
                tally.same += 1;
                continue;
            }
            // `$(OTHER)` is expanded when the container starts, with values that are not all known here.
            (Some(Value::Plain(wanted)), Some(Value::Plain(_))) if wanted.contains("$(") => {
                tally.open += 1;
                continue;
            }
            (Some(Value::Plain(wanted)), Some(Value::Plain(has))) => {
                tally.differ += 1;
                format!(
                    "{name} is {} in {process} and {} in the pod spec",
                    quoted(has),
                    quoted(wanted)
                )
            }
            (Some(_), Some(_)) => {
                tally.open += 1;
                continue;
            }
            (None, Some(has)) => {
                tally.live += 1;
                match has {
                    Value::Plain(has) => format!(
                        "{name} is {} in {process} and is not in the pod spec: the image, the start script or a \
                         whole ConfigMap sets it",
                        quoted(has)
                    ),
                    Value::Hidden => {
                        format!("{name} is set in {process} and is not in the pod spec")
                    }
                }
            }
            (Some(_), None) if cut => {
                tally.open += 1;
                continue;
            }
            (Some(_), None) => {
                tally.spec += 1;
                format!("{name} is in the pod spec and is not set in {process}")
            }
            (None, None) => continue,
        };
        if variable.critical && variable.carries_kv() {
            let lines = [
                written_line("pod spec", name, wanted),
                written_line("running", name, has),
            ];
            drafts.push(
                Draft::warn(drifted)
                    .headline(format!("{name} differs from the pod spec"))
                    .follows(format!("env:{name}"))
                    .with([evidence(&ask::ENVIRONMENT, lines.iter().map(String::as_str))])
                    .fix(match has {
                        Some(_) => format!("set {name} in the pod spec alone, and remove it from the image and the start script"),
                        None => format!("look for what unsets {name} in the start script, and restart the pod if it was set later"),
                    }),
            );
        }
    }
    if drafts.is_empty() {
        drafts.push(Draft::ok(tally.words(of_worker)));
    }
    Ok(drafts)
}

/// How many variables stand how.
#[derive(Default)]
struct Tally {
    same: usize,
    differ: usize,
    live: usize,
    spec: usize,
    open: usize,
}

impl Tally {
    fn words(&self, of_worker: bool) -> String {
        let whose = if of_worker {
            "the worker"
        } else {
            "a new process (no worker was found)"
        };
        format!(
            "no variable that decides about the KV path differs between the pod spec and {whose}; of all catalogued ones {} are \
             the same, {} differ, {} are set only in the container, {} only in the pod spec, {} cannot be compared",
            self.same, self.differ, self.live, self.spec, self.open
        )
    }
}

fn shown<'a>(variable: &Variable, value: Option<&Value<'a>>) -> Option<Value<'a>> {
    match value {
        Some(Value::Plain(text)) if catalogue::withheld(variable, text) => Some(Value::Hidden),
        other => other.copied(),
    }
}

fn quoted(value: &str) -> String {
    format!("\"{}\"", sanitise::line(value, 120))
}

fn written_line(place: &str, name: &str, value: Option<Value<'_>>) -> String {
    match value {
        Some(Value::Plain(value)) => format!("{place}: {name}={value}"),
        Some(Value::Hidden) => format!("{place}: {name} is set"),
        None => format!("{place}: {name} is not set"),
    }
}

/// `NAME=value` and `NAME<-kind` lines of the pod spec.
fn written(text: &str) -> BTreeMap<&str, Value<'_>> {
    text.lines()
        .filter_map(|line| {
            let end = line.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
            let (name, rest) = line.split_at(end);
            if rest.starts_with("<-") {
                return Some((name, Value::Hidden));
            }
            rest.strip_prefix('=')
                .map(|value| (name, Value::Plain(value)))
        })
        .collect()
}

/// `NAME=value` lines of a process, and comments that name what is withheld.
fn running(text: &str) -> BTreeMap<&str, Value<'_>> {
    let mut all = BTreeMap::new();
    for line in text.lines().filter(|line| *line != CUT) {
        let own = match line.strip_prefix("# withheld ") {
            Some(name) => Some((name, Value::Hidden)),
            None => line
                .split_once('=')
                .filter(|(name, _)| !name.starts_with('#'))
                .map(|(name, value)| (name, Value::Plain(value))),
        };
        // Of two of one name `getenv` takes the first.
        if let Some((name, value)) = own {
            all.entry(name).or_insert(value);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Status::{Ok as Fine, Warn};
    use crate::snapshot::{Answer, Place, Snapshot};

    #[test]
    fn of_two_of_one_name_the_first_is_in_force() {
        let twice = "# process 7 dynamo.vllm\nUCX_TLS=rc\nUCX_TLS=tcp\n";
        let said = |spec: &str| {
            let drafts = say(Some(spec), twice).unwrap();
            (drafts[0].status, drafts[0].detail.clone())
        };
        assert_eq!(said("UCX_TLS=rc\n").0, Fine);
        let (status, detail) = said("UCX_TLS=tcp\n");
        assert_eq!(status, Warn);
        assert!(detail.contains("rc"), "{detail}");
    }

    fn say(spec: Option<&str>, live: &str) -> Outcome {
        let mut answers = vec![(&ask::ENVIRONMENT, live)];
        answers.extend(spec.map(|text| (&ask::POD_SPEC, text)));
        let snapshot = Snapshot {
            place: Place::host("h"),
            answers: answers
                .into_iter()
                .map(|(ask, text)| (ask.id.to_owned(), Answer::Text(text.to_owned())))
                .collect(),
        };
        run(&Container::parse(&snapshot))
    }

    #[test]
    fn table_of_statuses() {
        let worker = |lines: &str| format!("# process 7 vllm\n{lines}");
        let head = "limit: nvidia.com/gpu=1\nprivileged: false\n";
        let cases = [
            (
                "same",
                "UCX_TLS=rc,cuda_copy",
                "UCX_TLS=rc,cuda_copy",
                Fine,
                "1 are the same",
            ),
            (
                "other value",
                "UCX_TLS=rc",
                "UCX_TLS=tcp",
                Warn,
                "UCX_TLS is \"tcp\" in the running process and \"rc\"",
            ),
            (
                "only live",
                "",
                "UCX_TLS=tcp",
                Warn,
                "is not in the pod spec",
            ),
            (
                "only in the spec",
                "UCX_TLS=rc",
                "",
                Warn,
                "is not set in the running process",
            ),
            (
                "a reference",
                "UCX_TLS<-configmap",
                "UCX_TLS=rc",
                Fine,
                "1 cannot be compared",
            ),
            (
                "expanded at start",
                "UCX_NET_DEVICES=$(NIC)",
                "UCX_NET_DEVICES=mlx5_0:1",
                Fine,
                "1 cannot be compared",
            ),
            (
                "not critical",
                "NCCL_DEBUG=INFO",
                "NCCL_DEBUG=WARN",
                Fine,
                "1 differ",
            ),
            ("not catalogued", "PATH=/a", "PATH=/b", Fine, "0 differ"),
        ];
        for (what, spec, live, status, detail) in cases {
            let drafts = say(Some(&format!("{head}{spec}\n")), &worker(live)).unwrap();
            assert_eq!(drafts.len(), 1, "{what}");
            assert_eq!(drafts[0].status, status, "{what}: {}", drafts[0].detail);
            assert!(
                drafts[0].detail.contains(detail),
                "{what}: {}",
                drafts[0].detail
            );
        }
        assert_eq!(say(None, "UCX_TLS=rc").unwrap_err(), Skip::not_applicable());
    }

    #[test]
    fn what_was_cut_off_is_not_called_unset() {
        let drafts = say(
            Some("UCX_TLS=rc\n"),
            "# process 7 vllm\nNCCL_DEBUG=INFO\n[cut]",
        )
        .unwrap();
        assert_eq!(drafts[0].status, Fine, "{}", drafts[0].detail);
    }

    #[test]
    fn what_holds_credentials_is_not_shown() {
        let spec = "NIXL_ETCD_ENDPOINTS=http://me:c4n4ry@etcd\n";
        for live in [
            "NIXL_ETCD_ENDPOINTS=http://x:c4n4ry@etcd",
            "# withheld NIXL_ETCD_ENDPOINTS",
        ] {
            let drafts = say(Some(spec), live).unwrap();
            assert!(!format!("{drafts:?}").contains("c4n4ry"));
            assert!(
                drafts[0].detail.contains("1 cannot be compared"),
                "{}",
                drafts[0].detail
            );
        }
    }
}
