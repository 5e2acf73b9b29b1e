use crate::check;
use crate::checks::DeploymentScope;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::words::counted;
use crate::hosting::domain_of;
use crate::manifest::workload::Worker;
use crate::observed::Skip;
use crate::snapshot::{Domain, Domains};

check! {
    /// A ComputeDomain that the pods join is not ready.
    ///
    /// ## Why it matters
    /// Multi-node NVLink works between nodes whose IMEX daemons stand in one ComputeDomain. A member that is not ready cannot
    /// import the memory of its peers, so KV takes another way or the transfer fails. Fewer members than `numNodes` keep the
    /// domain NotReady: often only one of the two roles claims it. Seen with `--nodes`.
    ///
    /// ## Fix
    /// `kubectl describe computedomain` names the members. Look at the `compute-domain-daemon` pod on a node that is not
    /// ready, let both roles claim the same domain, and make `numNodes` the number of nodes that really join, or 0.
    "DEP051" "compute-domain-not-ready" on Deployment {
        subsystem: Deployment, kv_path: Supporting, worst: Fail, causes: &[], since: "0.1.0",
    }
}

fn run(scope: &DeploymentScope<'_>) -> Outcome {
    let claiming = |w: &&Worker| !w.claims.is_empty();
    let workers: Vec<&Worker> = scope.workload.workers.iter().filter(claiming).collect();
    let domains = match &scope.record.domains {
        _ if workers.is_empty() => return Err(Skip::not_applicable()),
        None => return Err(Skip::not_applicable()),
        Some(Domains::Missing { reason, detail }) => {
            return Err(Skip::new(*reason, detail.clone()));
        }
        Some(Domains::Known(domains)) => domains,
    };
    let mut drafts = Vec::new();
    for (name, domain) in domains {
        let joined: Vec<&&Worker> = workers
            .iter()
            .filter(|w| domain_of(w, Some(domains)).is_some_and(|(n, _)| n == name))
            .collect();
        if joined.is_empty() {
            continue;
        }
        // Where RDMA was asked for, too, NVLink is not the only way.
        let other_way = joined.iter().all(|w| w.rdma_requested());
        drafts.push(judge(name, domain, other_way));
    }
    match drafts.is_empty() {
        true => Err(Skip::not_applicable()),
        false => Ok(drafts),
    }
}

fn judge(name: &str, domain: &Domain, other_way: bool) -> Draft {
    let bad: Vec<String> = domain
        .nodes
        .iter()
        .filter(|(_, member)| member.status == "NotReady" || member.status == "Failed")
        .map(|(node, member)| format!("{node} ({})", member.status))
        .collect();
    let (joined, wanted) = (domain.nodes.len() as u64, domain.wanted);
    let broken = |detail: String| match other_way {
        true => Draft::warn(detail),
        false => Draft::fail(detail),
    };
    if !bad.is_empty() {
        broken(format!(
            "ComputeDomain {name}: {} of {joined} members not ready: {}",
            bad.len(),
            bad.join(", ")
        ))
        .headline(format!("a member of ComputeDomain {name} is not ready"))
        .fix("look at the compute-domain-daemon pod on that node, and at nvidia-imex-ctl -N in it")
    } else if domain.status == "Failed" {
        broken(format!("ComputeDomain {name} failed"))
            .headline(format!("ComputeDomain {name} failed"))
            .fix("kubectl describe the ComputeDomain, and look at the log of its controller")
    } else if joined == 0 {
        broken(format!("no node has joined ComputeDomain {name}"))
            .headline(format!("no node has joined ComputeDomain {name}"))
            .fix("kubectl describe the ComputeDomain; a node joins when a pod that claims it is placed there")
    } else if joined < wanted {
        Draft::warn(format!(
            "ComputeDomain {name} waits for {}, and {joined} joined: a worker that should be in it does not claim \
             it, or its pods are not placed",
            counted(wanted, "node")
        ))
        .headline(format!("ComputeDomain {name} is joined by {joined} of {wanted} nodes"))
        .fix("let prefill and decode claim the same domain, and make numNodes what really joins, or 0")
    } else if domain.status == "Ready" {
        Draft::ok(format!(
            "ComputeDomain {name} is Ready with {}",
            counted(joined, "node")
        ))
    } else {
        Draft::skipped(Skip::new(
            crate::report::SkipReason::Unparsable,
            format!(
                "ComputeDomain {name} has {}, none of them said to be unready, and its status is {:?}",
                counted(joined, "member"),
                domain.status
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::{Fleet, NOTHING};
    use crate::report::SkipReason;
    use crate::report::Status::{self, Fail, Ok, Skipped, Warn};
    use crate::snapshot::{Domain, Domains, Member};

    fn domain(status: &str, wanted: u64, members: &[&str]) -> Domain {
        let members = members.iter().enumerate().map(|(n, status)| {
            let member = Member {
                status: (*status).to_owned(),
                clique: "c.1".to_owned(),
            };
            (format!("n{n}"), member)
        });
        Domain {
            status: status.to_owned(),
            wanted,
            template: "channel".to_owned(),
            nodes: members.collect(),
        }
    }

    #[test]
    fn table_of_statuses() {
        let rows: Vec<(&str, Domain, Vec<Status>, Vec<Status>)> = vec![
            (
                "ready",
                domain("Ready", 2, &["Ready", "Ready"]),
                vec![Ok],
                vec![Ok],
            ),
            (
                "any number",
                domain("Ready", 0, &["Ready"]),
                vec![Ok],
                vec![Ok],
            ),
            (
                "one is not",
                domain("NotReady", 2, &["Ready", "NotReady"]),
                vec![Fail],
                vec![Warn],
            ),
            (
                "failed",
                domain("Failed", 1, &["Ready"]),
                vec![Fail],
                vec![Warn],
            ),
            ("nobody", domain("NotReady", 2, &[]), vec![Fail], vec![Warn]),
            (
                "half",
                domain("NotReady", 2, &["Ready"]),
                vec![Warn],
                vec![Warn],
            ),
            (
                "says nothing",
                domain("", 0, &["Ready"]),
                vec![Skipped],
                vec![Skipped],
            ),
        ];
        let claims = "command: [python3, -m, dynamo.vllm]\nresources: {limits: {nvidia.com/gpu: \"4\"RDMA}, claims: [{name: c}]}";
        let fleet = |rdma: &str, domains: Option<Domains>| {
            let pods = [("prefill", NOTHING), ("decode", NOTHING)];
            let body = claims.replace("RDMA", rdma);
            Fleet::of(&pods)
                .body("prefill", &body)
                .body("decode", &body)
                .claim("c", "channel")
                .record(|record| record.domains = domains)
                .statuses("compute-domain-not-ready")
        };
        for (what, domain, alone, beside_rdma) in rows {
            let known = || Some(Domains::Known([("cd".to_owned(), domain.clone())].into()));
            assert_eq!(fleet("", known()), alone, "{what}");
            assert_eq!(
                fleet(", rdma/ib: \"4\"", known()),
                beside_rdma,
                "{what}, with RDMA"
            );
        }
        let denied = Domains::Missing {
            reason: SkipReason::Denied,
            detail: "no".to_owned(),
        };
        assert_eq!(fleet("", Some(denied)), [Skipped]);
        assert_eq!(fleet("", None), [] as [Status; 0]);
        assert_eq!(
            fleet("", Some(Domains::Known([].into()))),
            [] as [Status; 0]
        );
    }
}
