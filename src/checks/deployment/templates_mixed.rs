use crate::check;
use crate::checks::DeploymentScope;
use crate::checks::declare::{Draft, Outcome};
use crate::observed::Skip;
use crate::report::{Evidence, EvidenceSource, SkipReason};

check! {
    /// The pods of one component do not all have the same template.
    ///
    /// ## Why it matters
    /// A rollout is under way, or a pod was changed by hand: workers of two generations serve together, and what is said of
    /// the component from its newest template is not true of all.
    ///
    /// ## Fix
    /// Wait until the rollout is done and run the check again; delete pods that were changed by hand.
    ///
    /// ## False alarms
    /// Leader and workers of one worker that spans nodes have different templates: this is no finding.
    "DEP021" "templates-mixed" on Deployment {
        subsystem: Deployment, kv_path: Supporting, worst: Warn, causes: &["DEP015", "DEP016", "DEP017"], since: "0.1.0",
    }
}

fn run(scope: &DeploymentScope<'_>) -> Outcome {
    if scope.containers.is_empty() {
        let detail = "no pod of this deployment was seen";
        return Err(Skip::new(SkipReason::NotFound, detail));
    }
    let spans = |name: &str| {
        let mut workers = scope
            .workload
            .workers
            .iter()
            .chain(scope.written.iter().flat_map(|w| &w.workers));
        workers.any(|w| w.name.eq_ignore_ascii_case(name) && w.nodes > 1)
    };
    let is_worker = |name: &str| scope.workload.workers.iter().any(|w| w.name == name);
    let mixed: Vec<&str> = scope
        .record
        .mixed
        .iter()
        .map(String::as_str)
        .filter(|name| is_worker(name) && !spans(name))
        .collect();
    if mixed.is_empty() {
        let pods = scope.containers.len();
        let draft = Draft::ok("the pods of each component have one template");
        return Ok(vec![draft.with([seen(&format!("{pods} pods compared"))])]);
    }
    Ok(vec![
        Draft::warn(format!(
            "pods of {} have different templates: a rollout is under way, or a pod was changed by hand; what is said of a \
             component is said of its newest pod",
            mixed.join(", ")
        ))
        .headline("pods of one component have different templates")
        .minor(true)
        .with([seen(&format!("different: {}", mixed.join(", ")))])
        .fix("wait until the rollout is done and run the check again"),
    ])
}

fn seen(what: &str) -> Evidence {
    Evidence {
        source: EvidenceSource::Snapshot,
        path: None,
        line: None,
        column: None,
        ask: Some("templates of the pods".into()),
        excerpt: crate::sanitise::line(what, 200),
    }
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::{Fleet, NOTHING};
    use crate::report::Status::{Ok, Skipped, Warn};

    #[test]
    fn table_of_statuses() {
        let fleet = || Fleet::of(&[("prefill", NOTHING), ("decode", NOTHING)]);
        let mixed = |name: &str| fleet().record(|record| record.mixed = vec![name.to_owned()]);
        assert_eq!(fleet().statuses("templates-mixed"), [Ok]);
        assert_eq!(mixed("decode").statuses("templates-mixed"), [Warn]);
        assert_eq!(mixed("frontend").statuses("templates-mixed"), [Ok]);
        let spanning = "apiVersion: nvidia.com/v1beta1\nkind: DynamoGraphDeployment\nmetadata: {name: g}\nspec:\n  components:\n  \
                        - {name: decode, type: decode, multinode: {nodeCount: 2}}\n  - {name: prefill, type: prefill}\n";
        let leader = mixed("decode").written(spanning.to_owned());
        assert_eq!(leader.statuses("templates-mixed"), [Ok]);
        let none: [(&'static str, &[(&crate::ask::Ask, &str)]); 0] = [];
        let none = Fleet::of(&none).body("decode", "");
        assert_eq!(none.statuses("templates-mixed"), [Skipped]);
    }
}
