use crate::ask;
use crate::check;
use crate::checks::compare::names;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::words;
use crate::checks::{Container, DeploymentScope};
use crate::facts::container::pod::Pod;
use crate::observed::{Observed, Skip};
use crate::report::SkipReason;
use std::collections::BTreeMap;

check! {
    /// Workers of the deployment are not ready.
    ///
    /// One finding per role, with the reason in the cluster's words: not scheduled, waiting, crashed, or running and not yet
    /// ready.
    ///
    /// ## Why it matters
    /// A worker that is not ready serves nothing, and numbers that are taken meanwhile are numbers of another deployment. What
    /// is asked of a pod that does not run stays open.
    ///
    /// ## Fix
    /// This is no matter of the interconnect yet: `kubectl describe pod`, `kubectl logs --previous` and Dynamo's own
    /// troubleshooting say why. Run the check again when the workers are ready.
    ///
    /// ## False alarms
    /// Engines take minutes to load a model. Where another worker of the role is ready, one that still starts is a warning.
    /// A pod that has failed (evicted, for example), has completed or is being deleted is no replica where all that are written
    /// are ready without it: a note names it, and nothing is asked of it.
    "DEP002" "worker-not-ready" on Deployment {
        subsystem: Deployment, kv_path: Required, worst: Fail, causes: &[], since: "0.1.0",
    }
}

/// Not ready, and whether it runs at all.
struct Unready<'a> {
    container: &'a Container<'a>,
    runs: bool,
    why: String,
}

fn run(scope: &DeploymentScope<'_>) -> Outcome {
    let mut roles: BTreeMap<&str, Vec<Unready<'_>>> = BTreeMap::new();
    let (mut ready, mut restarted) = (BTreeMap::<&str, usize>::new(), Vec::new());
    let mut unseen = None;
    for container in scope.containers.iter().copied() {
        let role = container.place.role.as_deref().unwrap_or("worker");
        match &container.facts.pod {
            Observed::Known(pod) => match pod.ready {
                Some(true) => {
                    *ready.entry(role).or_default() += 1;
                    if pod.restarts > 0 {
                        restarted.push(container);
                    }
                }
                Some(false) => roles.entry(role).or_default().push(unready(container, pod)),
                None => {
                    let detail =
                        format!("whether {} is ready was not recorded", container.place.pod);
                    unseen = unseen.or(Some(Skip::new(SkipReason::NotCollected, detail)));
                }
            },
            Observed::Missing(skip) => unseen = unseen.or(Some(skip.clone())),
        }
    }
    let mut drafts: Vec<Draft> = roles
        .iter()
        .map(|(role, all)| told(role, all, ready.get(role).copied().unwrap_or_default()))
        .collect();
    match (drafts.is_empty(), unseen) {
        (true, Some(skip)) => Err(skip),
        (true, None) if ready.is_empty() => Err(Skip::not_applicable()),
        (true, None) => {
            let total: usize = ready.values().sum();
            let note = if restarted.is_empty() {
                String::new()
            } else {
                format!(
                    "; {} was started again before, `kubectl logs --previous` says why",
                    names(&restarted)
                )
            };
            let seen = crate::snapshot::evidence(&ask::POD_SPEC, ["ready: true"]);
            Ok(vec![
                Draft::ok(match total {
                    1 => format!("the worker is ready{note}"),
                    _ => format!("all {total} workers are ready{note}"),
                })
                .with([seen]),
            ])
        }
        (false, unseen) => {
            drafts.extend(unseen.map(Draft::skipped));
            Ok(drafts)
        }
    }
}

fn unready<'a>(container: &'a Container<'a>, pod: &Pod) -> Unready<'a> {
    let (runs, mut why) = match container.snapshot.text(&ask::TARGET) {
        Ok(_) => (
            true,
            "it runs and does not pass its readiness probe".to_owned(),
        ),
        // It is not known to have stopped.
        Err(skip) if !skip.reason.is_of_target() => {
            (true, "it does not pass its readiness probe".to_owned())
        }
        Err(skip) => {
            // The reason alone, without the sentence around it.
            let inner = words::why_not_running(&skip.detail);
            (false, inner.unwrap_or(&skip.detail).to_owned())
        }
    };
    if pod.restarts > 0 {
        let times = match pod.restarts {
            1 => "once".to_owned(),
            n => format!("{n} times"),
        };
        why.push_str(&format!(", started again {times}"));
    }
    Unready {
        container,
        runs,
        why,
    }
}

fn told(role: &str, all: &[Unready<'_>], ready: usize) -> Draft {
    let mut reasons: BTreeMap<&str, Vec<&Container<'_>>> = BTreeMap::new();
    for one in all {
        reasons.entry(&one.why).or_default().push(one.container);
    }
    let reasons: Vec<String> = reasons
        .iter()
        .take(3)
        .map(|(why, pods)| format!("{}: {why}", names(pods)))
        .collect();
    let detail = format!(
        "{} of {} {role} workers are not ready ({})",
        all.len(),
        all.len() + ready,
        reasons.join("; ")
    );
    let stopped = all.iter().any(|one| !one.runs);
    let draft = if stopped || ready == 0 {
        Draft::fail(detail)
    } else {
        Draft::warn(detail)
    };
    let first = all
        .first()
        .map_or("", |one| one.container.place.pod.as_str());
    let lines: Vec<String> = all
        .iter()
        .take(8)
        .map(|one| format!("{}: ready: false", one.container.place.pod))
        .collect();
    draft
        .headline(format!("{role} workers are not ready"))
        .with([crate::snapshot::evidence(
            &ask::POD_SPEC,
            lines.iter().map(String::as_str),
        )])
        .fix(format!(
            "find out why with `kubectl describe pod {first}`, `kubectl logs {first} --previous` and Dynamo's troubleshooting, \
             and run the check again when the workers are ready"
        ))
}

#[cfg(test)]
mod tests {
    use crate::ask::{self, Ask};
    use crate::checks::testing::Fleet;
    use crate::report::SkipReason;
    use crate::report::Status::{Fail, Ok, Skipped, Warn};

    const READY: &[(&Ask, &str)] = &[(&ask::POD_SPEC, "ready: true\nrestarts: 2\n")];
    const LOADING: &[(&Ask, &str)] = &[(&ask::POD_SPEC, "ready: false\nrestarts: 0\n")];
    const CRASHING: &[(&Ask, &str)] = &[(&ask::POD_SPEC, "ready: false\nrestarts: 7\n")];
    const SILENT: &[(&Ask, &str)] = &[(&ask::POD_SPEC, "restarts: 0\n")];
    const NOTHING: &[(&Ask, &str)] = &[];
    const CRASHED: &str = "cannot exec in l/d-1: it does not run (container main waits: CrashLoopBackOff: back-off 5m0s); wait \
                           until it does";

    #[test]
    fn table_of_statuses() {
        let cases = [
            (
                "ready",
                vec![("prefill", READY), ("decode", READY)],
                vec![Ok],
            ),
            (
                "all load",
                vec![("prefill", LOADING), ("decode", READY)],
                vec![Fail],
            ),
            (
                "one of two loads",
                vec![("prefill", READY), ("decode", READY), ("decode", LOADING)],
                vec![Warn],
            ),
            (
                "not recorded",
                vec![("prefill", SILENT), ("decode", READY)],
                vec![Skipped],
            ),
            (
                "not read",
                vec![("prefill", NOTHING), ("decode", READY)],
                vec![Skipped],
            ),
        ];
        for (what, pods, wanted) in cases {
            assert_eq!(
                Fleet::of(&pods).statuses("worker-not-ready"),
                wanted,
                "{what}"
            );
        }
    }

    #[test]
    fn a_pod_that_does_not_run_is_told_once_with_the_reason() {
        let fleet = Fleet::of(&[("prefill", READY), ("decode", READY), ("decode", CRASHING)])
            .unreached(2, SkipReason::NotFound, CRASHED);
        let found = fleet.findings("worker-not-ready");
        assert_eq!(found[0].status, Fail);
        assert_eq!(
            found[0].detail,
            "1 of 2 decode workers are not ready (decode-2: container main waits: CrashLoopBackOff: back-off 5m0s, started \
             again 7 times)"
        );
        let causes = fleet.fix_first();
        let first = causes.iter().find(|fix| fix.id == "DEP002").unwrap();
        assert!(first.consequences.iter().any(|c| c.id == "NODE001"));
        assert!(causes.iter().all(|fix| fix.id != "NODE001"));
        // A pod that no node can take waits for that reason.
        let nodes = crate::snapshot::Nodes::Known(std::collections::BTreeMap::new());
        let fixes = Fleet::of(&[("prefill", READY), ("decode", CRASHING)])
            .unreached(1, SkipReason::NotFound, CRASHED)
            .body("decode", "resources: {limits: {nvidia.com/gpu: 8}}")
            .record(|record| record.nodes = Some(nodes))
            .fix_first();
        let cause = fixes.iter().find(|fix| fix.id == "DEP050").unwrap();
        assert!(cause.consequences.iter().any(|c| c.id == "DEP002"));
        // A pod that runs and is closed to us is another fault.
        let denied = Fleet::of(&[("prefill", READY), ("decode", READY)]).unreached(
            1,
            SkipReason::Denied,
            "forbidden",
        );
        assert_eq!(denied.statuses("worker-not-ready"), [Ok]);
        assert!(denied.fix_first().iter().all(|fix| fix.id != "NODE001"));
        assert_eq!(denied.statuses("node:target"), [Ok, Skipped]);
    }
}
