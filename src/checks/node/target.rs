use crate::ask;
use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::observed::{Observed, Skip};
use crate::report::SkipReason;
use crate::sanitise;

check! {
    /// The container could not be looked at, or only in part.
    ///
    /// ## Why it matters
    /// A pod that does not run moves no KV cache, and of a pod that could not be reached nothing is known. Neither is a
    /// pass: every question about it stays open. Where this tool was stopped, or its own time was over, before it had looked,
    /// nothing is held against the container.
    ///
    /// ## Fix
    /// The detail names the cause: a name that is not there, a pod that is pending or has completed, an image without a
    /// shell, a missing permission (docs/rbac.yaml), a kubelet that does not answer. Mend it and run again, or probe
    /// from inside the pod.
    "NODE001" "node:target" on Container {
        subsystem: Node, kv_path: Required, worst: Fail, causes: &[], since: "0.2.0",
    }
}

fn run(container: &Container<'_>) -> Outcome {
    let said = match container.snapshot.text(&ask::TARGET) {
        Ok(said) => said,
        // Outputs that somebody pasted: there was no target to reach.
        Err(Skip {
            reason: SkipReason::NotCollected,
            ..
        }) => return Err(Skip::not_applicable()),
        // We stopped looking, which says nothing about the container.
        Err(why) if why.reason.is_ours() => return Err(why),
        Err(why) => {
            let mut draft = Draft::fail(why.detail)
                .headline(why.reason.words())
                .fix("mend the cause that the detail names, then run again");
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
        return Err(Skip::new(SkipReason::Unparsable, detail));
    }
    Ok(vec![match said.split_once('\n') {
        Some((what, early)) => {
            Draft::warn(format!("{} was reached, but {}", shown(what), shown(early)))
                .headline("it could be looked at only in part")
                .fix(
                    "run again with more time (--timeout), and look at the pod if it happens again",
                )
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
        for reason in [SkipReason::Interrupted, SkipReason::RunDeadline] {
            let detail = "it was not read".to_owned();
            let skip = say(Some(Answer::Missing { reason, detail })).unwrap_err();
            assert_eq!(skip.reason, reason);
        }
        for text in ["a\u{1b}[31m\u{202e}", "a\nb\u{7}"] {
            let draft = say(Some(Answer::Text(text.to_owned()))).unwrap().remove(0);
            assert!(!draft.detail.contains(['\u{1b}', '\u{202e}', '\u{7}']));
        }
        assert_eq!(say(None).unwrap_err(), Skip::not_applicable());
        for blank in ["", " ", "\n3 of 9 questions have no answer: it broke"] {
            let skip = say(Some(Answer::Text(blank.to_owned()))).unwrap_err();
            assert_eq!(skip.reason, SkipReason::Unparsable);
        }
    }
}
