use crate::ask;
use crate::check;
use crate::checks::DeploymentScope;
use crate::checks::compare::{both, ends, names};
use crate::checks::declare::{Draft, Outcome};
use crate::judge::context::Tri;
use crate::observed::Skip;
use crate::report::SkipReason;

check! {
    /// A prefill and a decode worker that use EFA run on the same node.
    ///
    /// ## Why it matters
    /// EFA between two pods of one node does not work: the reader loops on `fi_read still retrying EAGAIN`. Requests that meet
    /// this pair hang.
    ///
    /// ## Fix
    /// Keep the roles apart with a podAntiAffinity on `kubernetes.io/hostname`, and let the scheduler place the pods anew.
    ///
    /// ## Sources
    /// Dynamo guide "EFA on AWS".
    "DEP010" "efa-ends-share-node" on Deployment {
        subsystem: Deployment, kv_path: Supporting, worst: Fail, causes: &["K8S011"], since: "0.1.0",
    }
}

fn run(scope: &DeploymentScope<'_>) -> Outcome {
    ends(
        scope,
        |container| match container.context.efa {
            Tri::No => Err(Skip::not_applicable()),
            Tri::Unknown => {
                container.facts.rdma.own()?;
                Err(Skip::not_applicable())
            }
            Tri::Yes => container.place.node.clone().ok_or_else(|| {
                let detail = format!("the node of {} was not recorded", container.place.pod);
                Skip::new(SkipReason::NotCollected, detail)
            }),
        },
        |(a, left), (b, right)| {
            if a != b {
                return None;
            }
            let detail = format!(
                "{} and {} use EFA and both run on node {a}, where EFA does not work between pods",
                names(left),
                names(right)
            );
            Some(
                Draft::fail(detail)
                    .headline("prefill and decode use EFA on one node")
                    .with([both(&ask::RDMA_PORTS, (left, a), (right, b))])
                    .fix("keep the roles on different nodes with a podAntiAffinity on kubernetes.io/hostname"),
            )
        },
        |(a, left), (b, right)| {
            Draft::ok("EFA is used between different nodes").with([both(
                &ask::RDMA_PORTS,
                (left, a),
                (right, b),
            )])
        },
    )
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::{Answers, EFA, Fleet, hcas};
    use crate::report::Status::{Fail, Ok, Skipped};

    fn efa() -> Answers {
        let mut answers = hcas(&["4: ACTIVE"]);
        for (_, text) in &mut answers {
            *text = text
                .replace("0x15b3", "0x1d0f")
                .replace("link_layer: InfiniBand", "link_layer: Unknown");
        }
        answers
    }

    #[test]
    fn table_of_statuses() {
        let (efa, other, none): (Answers, Answers, Answers) = (efa(), hcas(&["4: ACTIVE"]), vec![]);
        for (what, answers, nodes, wanted) in [
            ("apart", &efa, ["a", "b"], vec![Ok]),
            ("together", &efa, ["a", "a"], vec![Fail]),
            ("another fabric", &other, ["a", "a"], vec![]),
            ("not read", &none, ["a", "a"], vec![Skipped]),
        ] {
            let pods = [
                ("prefill", answers.as_slice()),
                ("decode", answers.as_slice()),
            ];
            let fleet = Fleet::of(&pods).on(&nodes);
            assert_eq!(fleet.statuses("efa-ends-share-node"), wanted, "{what}");
        }
    }

    #[test]
    fn the_manifest_that_allows_it_is_told_beneath() {
        let efa = efa();
        let pods = [("prefill", efa.as_slice()), ("decode", efa.as_slice())];
        let fixes = Fleet::of(&pods)
            .on(&["a", "a"])
            .body("prefill", EFA)
            .body("decode", EFA)
            .fix_first();
        let cause = fixes.iter().find(|fix| fix.id == "DEP010").unwrap();
        assert!(cause.consequences.iter().any(|c| c.id == "K8S011"));
        assert!(
            cause
                .paste
                .as_deref()
                .is_some_and(|p| p.contains("podAntiAffinity"))
        );
    }
}
