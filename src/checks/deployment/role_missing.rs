use crate::check;
use crate::checks::DeploymentScope;
use crate::checks::declare::{Draft, Outcome};
use crate::manifest::workload::Role;
use crate::observed::Skip;
use crate::report::SkipReason;

check! {
    /// A role of the deployment has no pod.
    ///
    /// ## Why it matters
    /// Without a prefill or without a decode worker no KV moves at all: requests wait, or fall back to one worker that does
    /// everything. What is said of the other role's fabric proves nothing about the pair.
    ///
    /// ## Fix
    /// Find out why the pods of this role do not exist: `kubectl describe` the deployment, look at its replicas, at the
    /// operator's log and at the scheduler's events.
    "DEP001" "role-missing" on Deployment {
        subsystem: Deployment, kv_path: Required, worst: Fail, causes: &[], since: "0.1.0",
    }
}

fn run(scope: &DeploymentScope<'_>) -> Outcome {
    scope.require_kv()?;
    if scope.containers.is_empty() {
        let detail = "no pod of this deployment was seen";
        return Err(Skip::new(SkipReason::NotFound, detail));
    }
    let mut wanted = vec![];
    for worker in scope.written.unwrap_or(scope.workload).workers.iter() {
        if worker.replicas > 0 && !wanted.contains(&worker.role) {
            wanted.push(worker.role);
        }
    }
    // Pods by label tell one end; the other is known to be needed all the same.
    for (one, other) in [(Role::Prefill, Role::Decode), (Role::Decode, Role::Prefill)] {
        let encoded = wanted.contains(&Role::Encode);
        if wanted.contains(&one) && !wanted.contains(&other) && !encoded {
            wanted.push(other);
        }
    }
    let missing: Vec<Role> = wanted
        .iter()
        .copied()
        .filter(|role| scope.of(*role).next().is_none())
        .collect();
    if missing.is_empty() {
        let all: Vec<String> = wanted
            .iter()
            .map(|role| format!("{} {role}", scope.of(*role).count()))
            .collect();
        return Ok(vec![Draft::ok(format!("pods: {}", all.join(", ")))]);
    }
    Ok(missing
        .into_iter()
        .map(|role| {
            Draft::fail(format!("the deployment has no {role} pod"))
                .headline(format!("there is no {role} pod"))
                .fix(format!(
                    "find out why no {role} pod exists: its replicas, the operator's log, the scheduler's events"
                ))
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::deployed;
    use crate::report::Status::{Fail, Ok};

    #[test]
    fn table_of_statuses() {
        let none: &[(&crate::ask::Ask, &str)] = &[];
        let cases = [
            ("both", vec![("prefill", none), ("decode", none)], vec![Ok]),
            ("no decode", vec![("prefill", none)], vec![Fail]),
            (
                "no prefill",
                vec![("decode", none), ("decode", none)],
                vec![Fail],
            ),
            ("aggregated", vec![("agg", none)], vec![]),
        ];
        for (what, containers, wanted) in cases {
            assert_eq!(deployed("role-missing", &containers), wanted, "{what}");
        }
    }
}
