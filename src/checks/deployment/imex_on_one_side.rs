use crate::ask;
use crate::check;
use crate::checks::compare::{allows_nvlink, both, component, domain, ends, names, only_nvlink};
use crate::checks::declare::{Draft, Outcome};
use crate::checks::{Container, DeploymentScope, asked};
use crate::manifest::workload::Worker;
use crate::observed::Skip;

check! {
    /// One end of the KV path has an IMEX channel and the other has none.
    ///
    /// ## Why it matters
    /// Memory handles that reach other nodes need the channel in both pods. With one end outside of the ComputeDomain KV takes
    /// the network adapters, or TCP where UCX may use none.
    ///
    /// ## Fix
    /// Claim the same ComputeDomain channel in prefill and decode, and size `numNodes` for both.
    ///
    /// ## Sources
    /// NVIDIA IMEX guide; microsoft/mscclpp#467.
    "DEP009" "imex-on-one-side" on Deployment {
        subsystem: Deployment, kv_path: Supporting, worst: Fail,
        causes: &["K8S002", "GPU006", "DEP051", "DEP003"], since: "0.1.0",
    }
}

fn run(scope: &DeploymentScope<'_>) -> Outcome {
    let words = |has: bool| if has { "a channel" } else { "no channel" };
    ends(
        scope,
        |container| {
            domain(container)?;
            if !allows_nvlink(container)? {
                return Err(Skip::not_applicable());
            }
            let channels = container.facts.gpu.imex_channels()?;
            Ok((!channels.is_empty(), only_nvlink(container)?))
        },
        |((a, only), left), ((b, alone), right)| {
            let (with, without) = match (a, b) {
                (true, false) => (left, right),
                (false, true) => (right, left),
                // Where both have none, each says it for itself.
                (true, true) => return None,
                (false, false) if !only && !alone => return None,
                (false, false) => {
                    return Some(
                        Draft::fail(format!(
                            "neither {} nor {} has an IMEX channel, and no RDMA transport is left to UCX",
                            names(left),
                            names(right)
                        ))
                        .headline("NVLink between nodes is meant to carry KV and no end may use it")
                        .with([both(&ask::DEV_GPU, (left, words(*a)), (right, words(*b)))])
                        .fix(match claims(scope, left) && claims(scope, right) {
                            true => format!(
                                "both roles claim the channel of a ComputeDomain already, and it did not come: {}",
                                asked::channel_lost(left)
                            ),
                            false => "claim a ComputeDomain channel in both roles".to_owned(),
                        }),
                    );
                }
            };
            let detail = format!(
                "{} {} an IMEX channel and {} {} none: NVLink between nodes is impossible between them",
                names(with),
                has(with.len()),
                names(without),
                has(without.len())
            );
            let draft = if *only || *alone {
                Draft::fail(format!(
                    "{detail}, and no RDMA transport is left to UCX, so KV travels over TCP"
                ))
            } else {
                Draft::warn(format!("{detail}, so KV takes the network adapters"))
            };
            let role = without
                .first()
                .and_then(|c| c.place.role.as_deref())
                .unwrap_or("the other role");
            Some(
                draft
                    .headline("only one end of the KV path is inside the ComputeDomain")
                    .with([both(&ask::DEV_GPU, (left, words(*a)), (right, words(*b)))])
                    .fix(match claims(scope, without) {
                        true => format!(
                            "{role} claims the channel of a ComputeDomain already, and it did not come: {}",
                            asked::channel_lost(without)
                        ),
                        false => {
                            format!("claim the same ComputeDomain channel in {role} too")
                        }
                    }),
            )
        },
        |((a, _), left), ((b, _), right)| {
            let detail = match a {
                true => "both ends have an IMEX channel",
                false => "no end has an IMEX channel, and RDMA is left to UCX",
            };
            Draft::ok(detail).with([both(&ask::DEV_GPU, (left, words(*a)), (right, words(*b)))])
        },
    )
}

/// The workers of these pods claim the channel of a ComputeDomain.
fn claims(scope: &DeploymentScope<'_>, pods: &[&Container<'_>]) -> bool {
    let claims = |pod: &&Container<'_>| {
        let name = component(pod);
        let mut workers = scope.workload.workers.iter();
        let own = workers.find(|w| w.name.eq_ignore_ascii_case(name) || w.role.word() == name);
        own.is_some_and(Worker::compute_domain)
    };
    !pods.is_empty() && pods.iter().all(claims)
}

fn has(pods: usize) -> &'static str {
    if pods == 1 { "has" } else { "have" }
}

#[cfg(test)]
mod tests {
    use crate::checks::deployment::nvlink_domains_differ::tests::{NVLINK, ONE, RDMA, rack};
    use crate::checks::testing::{Fleet, deployed, hcas};
    use crate::report::Status::{Fail, Ok, Skipped, Warn};

    #[test]
    fn table_of_statuses() {
        for (what, prefill, decode, wanted) in [
            (
                "both",
                rack(ONE, NVLINK, true),
                rack(ONE, NVLINK, true),
                vec![Ok],
            ),
            (
                "one",
                rack(ONE, NVLINK, true),
                rack(ONE, NVLINK, false),
                vec![Fail],
            ),
            (
                "the other",
                rack(ONE, NVLINK, false),
                rack(ONE, NVLINK, true),
                vec![Fail],
            ),
            (
                "one, and RDMA",
                rack(ONE, RDMA, true),
                rack(ONE, RDMA, false),
                vec![Warn],
            ),
            (
                "none, and RDMA",
                rack(ONE, RDMA, false),
                rack(ONE, RDMA, false),
                vec![Ok],
            ),
            (
                "none, and no RDMA",
                rack(ONE, NVLINK, false),
                rack(ONE, NVLINK, false),
                vec![Fail],
            ),
            (
                "not read",
                rack(ONE, RDMA, true),
                hcas(&["4: ACTIVE"]),
                vec![Skipped],
            ),
        ] {
            let pods = [
                ("prefill", prefill.as_slice()),
                ("decode", decode.as_slice()),
            ];
            assert_eq!(deployed("imex-on-one-side", &pods), wanted, "{what}");
        }
    }

    #[test]
    fn a_half_claimed_domain_is_one_entry() {
        let (p, d) = (rack(ONE, NVLINK, true), rack(ONE, NVLINK, false));
        let claim =
            "resources: {limits: {nvidia.com/gpu: 1}, claims: [{name: compute-domain-channel}]}";
        let fixes = Fleet::of(&[("prefill", p.as_slice()), ("decode", d.as_slice())])
            .body("prefill", claim)
            .body("decode", "resources: {limits: {nvidia.com/gpu: 1}}")
            .fix_first();
        let cause = fixes.iter().find(|fix| fix.id == "DEP009").unwrap();
        assert!(
            cause.consequences.iter().any(|c| c.id == "GPU006"),
            "{fixes:#?}"
        );
        assert!(
            fixes
                .iter()
                .all(|fix| fix.id != "GPU006" && fix.id != "K8S002")
        );
    }
}
