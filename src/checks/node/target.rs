use crate::ask;
use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::words;
use crate::observed::{Observed, Skip};
use crate::report::SkipReason;
use crate::sanitise;
use crate::snapshot::PlaceKind;

check! {
    /// The container could not be looked at, or only in part.
    ///
    /// ## Why it matters
    /// A pod that is not there, does not run, has no shell or does not answer is at fault itself: a fail. Where the API
    /// server, a proxy or the kubelet turned the request away, the connection broke, the probe was killed with its pod, or this tool
    /// was stopped before it had looked, nothing is known of the container: it is skipped, held against nobody, and the run ends with 4. Neither is a
    /// pass: every question about it stays open.
    ///
    /// ## False alarms
    /// In a deployment a pod that has failed (evicted, for example), has completed or is being deleted is left out where all
    /// written replicas are ready without it; a note names it.
    ///
    /// ## Fix
    /// The detail names the cause: a name that is not there, a pod that is pending or has completed, an image without a
    /// shell, a missing permission (docs/rbac.yaml), a kubelet that does not answer. Mend it and run again, or probe
    /// from inside the pod.
    "NODE001" "node:target" on Container {
        subsystem: Node, kv_path: Required, worst: Fail, causes: &[], since: "0.1.0",
    }
}

fn run(container: &Container<'_>) -> Outcome {
    let said = match container.snapshot.text(&ask::TARGET) {
        Ok(said)
            if container.place.kind == PlaceKind::Pod
                && !said.trim().is_empty()
                && !said.starts_with("pod ") =>
        {
            let detail = "what is said of how this container was reached names no pod";
            let open = Draft::skipped(Skip::new(SkipReason::Unparsable, detail)).headline(detail);
            return Ok(vec![open.fix("look again, or record it again (--save)")]);
        }
        Ok(said) => said,
        // Outputs that somebody pasted: there was no target to reach.
        Err(_) if container.snapshot.is_pasted() => return Err(Skip::not_applicable()),
        Err(Skip {
            reason: SkipReason::NotCollected | SkipReason::NotApplicable,
            ..
        }) => {
            let detail = "nothing says whether this container was reached";
            let open = Draft::skipped(Skip::new(SkipReason::NotCollected, detail)).headline(detail);
            return Ok(vec![open.fix("look again, or record it again (--save)")]);
        }
        // We stopped looking, which says nothing about the container.
        Err(why) if why.reason.is_ours() => return Err(why),
        Err(why) => {
            let (what, remedy) = words::trouble(&why.detail);
            let remedy = sanitise::line(
                remedy.unwrap_or("mend the cause that the detail names"),
                300,
            );
            // What turned us away on the way there is no fact about the container.
            if !why.reason.is_of_target() {
                let draft = Draft::skipped(why).headline(what).fix(remedy);
                return Ok(vec![draft]);
            }
            let mut draft = Draft::fail(why.detail)
                .headline(what)
                .fix(format!("{remedy}, then run again"));
            // A pod that does not run is one fault, and its deployment says it.
            if let Observed::Known(pod) = &container.facts.pod
                && pod.ready == Some(false)
            {
                draft = draft.follows("worker-not-ready");
            }
            return Ok(vec![draft]);
        }
    };
    if said
        .lines()
        .next()
        .is_none_or(|what| what.trim().is_empty())
    {
        let detail = "what was reached is not named in the recording";
        let nameless = Draft::skipped(Skip::new(SkipReason::Unparsable, detail));
        return Ok(vec![nameless.headline(detail).fix("record it again")]);
    }
    Ok(vec![match said.split_once('\n') {
        Some((what, early)) => {
            Draft::warn(format!("{} was reached, but {}", shown(what), shown(early)))
                .headline("it could be looked at only in part")
                .fix(match container.place.kind {
                    PlaceKind::Pod => {
                        "run again, with more time (--timeout) where it ran out, and look at the pod if it happens again"
                    }
                    _ => "mend what the detail names, and run again",
                })
        }
        None => Draft::ok(format!("{} was reached", shown(said))),
    }])
}

/// A recording may come from anybody.
fn shown(text: &str) -> String {
    sanitise::line(text, 500)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Status;
    use crate::snapshot::{Answer, Place, Snapshot};

    fn say(answer: Option<Answer>) -> Outcome {
        let answers = answer.map(|a| (ask::TARGET.id.to_owned(), a));
        let snapshot = Snapshot {
            place: Place::host("h"),
            answers: answers.into_iter().collect(),
        };
        run(&Container::parse(&snapshot))
    }

    #[test]
    fn table_of_statuses() {
        let missing = Answer::Missing {
            reason: SkipReason::Timeout,
            detail: "the kubelet hangs".to_owned(),
        };
        let cases = [
            (
                Answer::Text("this machine".to_owned()),
                Status::Ok,
                "this machine was reached",
            ),
            (
                Answer::Text("pod a/b\n3 of 9 questions have no answer: it broke".to_owned()),
                Status::Warn,
                "pod a/b was reached, but 3 of 9 questions have no answer: it broke",
            ),
            (missing, Status::Fail, "the kubelet hangs"),
        ];
        for (answer, status, detail) in cases {
            let drafts = say(Some(answer)).unwrap();
            assert_eq!(
                (drafts[0].status, drafts[0].detail.as_str()),
                (status, detail)
            );
        }
        // The way to it failed: nothing is known of the container.
        for reason in SkipReason::ALL {
            let detail = "cannot exec in pod l/d-0: the API server answered 502: bad gateway; look at the log of the API server";
            let said = say(Some(Answer::Missing {
                reason,
                detail: detail.to_owned(),
            }));
            let status = said.as_ref().map(|drafts| drafts[0].status).ok();
            let wanted = match reason {
                SkipReason::NotFound | SkipReason::NoShell | SkipReason::Timeout => Status::Fail,
                _ => Status::Skipped,
            };
            assert_eq!(status.unwrap_or(Status::Skipped), wanted, "{reason:?}");
            if reason == SkipReason::Unreachable {
                let draft = said.unwrap().remove(0);
                assert_eq!(draft.headline.unwrap(), "the API server answered 502");
                assert_eq!(draft.fix.unwrap(), "look at the log of the API server");
            }
        }
        for reason in [SkipReason::Interrupted, SkipReason::RunDeadline] {
            let detail = "it was not read".to_owned();
            let skip = say(Some(Answer::Missing { reason, detail })).unwrap_err();
            assert_eq!(skip.reason, reason);
        }
        for text in ["a\u{1b}[31m\u{202e}", "a\nb\u{7}"] {
            let draft = say(Some(Answer::Text(text.to_owned()))).unwrap().remove(0);
            assert!(!draft.detail.contains(['\u{1b}', '\u{202e}', '\u{7}']));
        }
        // Of what was recorded, somebody must have said that it was reached.
        let drafts = say(None).unwrap();
        assert_eq!(drafts[0].reason, Some(SkipReason::NotCollected));
        for blank in ["", " ", "\n3 of 9 questions have no answer: it broke"] {
            let drafts = say(Some(Answer::Text(blank.to_owned()))).unwrap();
            assert_eq!(drafts[0].reason, Some(SkipReason::Unparsable));
        }
    }
}
