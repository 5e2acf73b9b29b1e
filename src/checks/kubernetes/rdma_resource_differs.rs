use crate::check;
use crate::checks::WorkloadScope;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::scope::known;
use crate::manifest::workload::Worker;
use crate::observed::Skip;
use std::collections::BTreeSet;

check! {
    /// The two ends of the KV path request different RDMA resources.
    ///
    /// Names are compared, not counts.
    ///
    /// ## Why it matters
    /// A pair uses what both ends have. When one end has RDMA and the other has not, they meet on TCP.
    ///
    /// ## Fix
    /// Request the same resource in both roles.
    "K8S005" "rdma-resource-differs" on Workload {
        subsystem: Kubernetes, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

fn run(scope: &WorkloadScope<'_>) -> Outcome {
    scope.over_pairs(pair)
}

/// One pair of ends.
fn pair(left: &Worker, right: &Worker) -> Outcome {
    known(left, "resources")?;
    known(right, "resources")?;
    let names = |w: &Worker| w.rdma_resources.keys().cloned().collect::<BTreeSet<_>>();
    let (a, b) = (names(left), names(right));
    if a.is_empty() && b.is_empty() {
        return Err(Skip::not_applicable());
    }
    if a == b {
        return Ok(vec![Draft::ok(
            "both roles request the same RDMA resources",
        )]);
    }
    let words = |w: &Worker, set: &BTreeSet<String>| {
        let list = set
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(", ");
        format!(
            "{} requests {}",
            w.called(),
            if set.is_empty() {
                "none"
            } else {
                list.as_str()
            }
        )
    };
    let detail = format!(
        "RDMA resources differ: {}; {}",
        words(left, &a),
        words(right, &b)
    );
    let evidence = [
        left.resources_spot.evidence(),
        right.resources_spot.evidence(),
    ];
    Ok(vec![
        Draft::warn(detail)
            .with(evidence)
            .fix("request the same RDMA resource in both roles"),
    ])
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::{
        GPU, MOCKER, Pod, RDMA, UNFILLED, alone, encode_pd, graph, lines, table, two_sided,
    };
    use crate::report::Status::{Ok, Skipped, Warn};

    #[test]
    fn table_of_statuses() {
        table(
            "rdma-resource-differs",
            &[
                ("the same", graph(RDMA), &[Ok]),
                (
                    "another count",
                    two_sided(RDMA, &RDMA.replace("ib: 1", "ib: 8")),
                    &[Ok],
                ),
                (
                    "another name",
                    two_sided(RDMA, &RDMA.replace("ib", "shared_ib")),
                    &[Warn],
                ),
                ("only prefill", two_sided(RDMA, GPU), &[Warn]),
                ("only decode", two_sided(GPU, RDMA), &[Warn]),
                ("only encode", encode_pd(RDMA, GPU), &[Warn]),
                ("neither", graph(GPU), &[]),
                ("a placeholder", two_sided(RDMA, UNFILLED), &[Skipped]),
                (
                    "a mocker moves nothing",
                    two_sided(&lines(&[RDMA, MOCKER]), MOCKER),
                    &[],
                ),
                ("aggregated", alone(Pod::of(RDMA)), &[]),
            ],
        );
    }
}
