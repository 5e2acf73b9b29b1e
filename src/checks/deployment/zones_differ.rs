use crate::check;
use crate::checks::DeploymentScope;
use crate::checks::compare::{Equals, ends, names};
use crate::checks::declare::{Draft, Outcome};
use crate::observed::Skip;
use crate::report::{Evidence, EvidenceSource, SkipReason};

check! {
    /// Prefill and decode run in different zones.
    ///
    /// ## Why it matters
    /// RDMA fabrics end at the zone, as a rule: between zones there is a longer way at best, and TCP at worst. Different racks
    /// of one zone are named and are no fault.
    ///
    /// ## Fix
    /// Keep both roles in one zone: a podAffinity on `topology.kubernetes.io/zone`, or a nodeSelector.
    ///
    /// ## Sources
    /// Kubernetes, well-known labels; Dynamo guide on placement.
    "DEP020" "zones-differ" on Deployment {
        subsystem: Deployment, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

const ZONE: &str = "topology.kubernetes.io/zone";

fn run(scope: &DeploymentScope<'_>) -> Outcome {
    ends(
        scope,
        |container| {
            let node = scope.node(container)?;
            let zone = node.labels.get(ZONE).cloned().ok_or_else(|| {
                let name = container.place.node.as_deref().unwrap_or_default();
                let detail = format!("node {name} has no label {ZONE}");
                Skip::new(SkipReason::NotFound, detail)
            })?;
            let rack = node.labels.iter().find(|(name, _)| name.ends_with("rack"));
            Ok((zone, rack.map(|(_, rack)| rack.clone())))
        },
        |((zone, _), left), ((other, _), right)| {
            if zone == other {
                return None;
            }
            let detail = format!(
                "{} run in zone {zone} and {} in zone {other}",
                names(left),
                names(right)
            );
            Some(
                Draft::warn(detail)
                    .headline("prefill and decode run in different zones")
                    .with([told((left, zone), (right, other))])
                    .fix(format!(
                        "keep both roles in one zone: podAffinity on {ZONE}, or a nodeSelector"
                    )),
            )
        },
        |((zone, rack), left), ((_, other), right)| {
            let note = match (rack, other) {
                (Some(a), Some(b)) if a != b => format!("; racks {a} and {b} are different ones"),
                _ => String::new(),
            };
            Draft::ok(format!("both roles run in zone {zone}{note}"))
                .with([told((left, zone), (right, zone))])
        },
    )
}

fn told(left: (&Equals<'_>, &str), right: (&Equals<'_>, &str)) -> Evidence {
    let line = |(all, zone): (&Equals<'_>, &str)| format!("{}: {ZONE}={zone}", names(all));
    Evidence {
        source: EvidenceSource::Snapshot,
        path: None,
        line: None,
        column: None,
        ask: Some("labels of the nodes".into()),
        excerpt: format!("{}\n{}", line(left), line(right)),
    }
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::{Fleet, NOTHING};
    use crate::report::Status::{self, Ok, Skipped, Warn};
    use crate::snapshot::{Node, Nodes};

    fn say(zones: [Option<&str>; 2]) -> Vec<Status> {
        let nodes = zones.into_iter().enumerate().map(|(n, zone)| {
            let labels = zone.map(|zone| (super::ZONE.to_owned(), zone.to_owned()));
            let node = Node {
                labels: labels.into_iter().collect(),
                ..Node::default()
            };
            (format!("node-{n}"), node)
        });
        let nodes = Nodes::Known(nodes.collect());
        Fleet::of(&[("prefill", NOTHING), ("decode", NOTHING)])
            .record(|record| record.nodes = Some(nodes))
            .statuses("zones-differ")
    }

    #[test]
    fn table_of_statuses() {
        assert_eq!(say([Some("a"), Some("a")]), [Ok]);
        assert_eq!(say([Some("a"), Some("b")]), [Warn]);
        assert_eq!(say([Some("a"), None]), [Skipped]);
        let unread = Fleet::of(&[("prefill", NOTHING), ("decode", NOTHING)]);
        assert_eq!(unread.statuses("zones-differ"), [Skipped]);
    }
}
