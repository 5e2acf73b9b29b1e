//! Questions that a manifest leaves open and the running workers answer.

use crate::report::{Finding, Status};
use crate::target::{Target, TargetKind};
use std::collections::BTreeMap;

/// Takes away what a worker's entry could not say of a variable where every one of its pods says it: the value of a
/// reference, whether the devices that are named exist. One pod that does not say it leaves the question open.
pub(super) fn by_running_workers(findings: &mut Vec<Finding>) {
    let role = |target: &Target| (target.ordinal, target.role.clone());
    // Of each pod of a role, the names that it has an answer to, and whether that is the only thing it says of them.
    let mut pods: BTreeMap<_, BTreeMap<&Target, BTreeMap<&str, bool>>> = BTreeMap::new();
    for finding in findings.iter().filter(|f| f.target.kind == TargetKind::Pod) {
        let said = pods
            .entry(role(&finding.target))
            .or_default()
            .entry(&finding.target)
            .or_default();
        *said.entry(&finding.name).or_insert(true) &= finding.status != Status::Skipped;
    }
    let answered = |finding: &Finding| {
        if finding.target.kind != TargetKind::Worker || finding.status != Status::Skipped {
            return false;
        }
        let own = [finding.name.clone()];
        let asked = match finding.follows.as_slice() {
            [] => own.as_slice(),
            names => names,
        };
        let Some(pods) = pods.get(&role(&finding.target)) else {
            return false;
        };
        asked.iter().all(|name| {
            let says = |said: &BTreeMap<&str, bool>| said.get(name.as_str()) == Some(&true);
            name.starts_with("env:") && pods.values().all(says)
        })
    };
    let keep: Vec<bool> = findings.iter().map(|f| !answered(f)).collect();
    let mut keep = keep.into_iter();
    findings.retain(|_| keep.next().unwrap_or(true));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks;
    use crate::snapshot::Place;

    fn finding(id: &str, name: &str, status: Status, target: &Target) -> Finding {
        let check = checks::find(id).unwrap();
        let outcome = checks::declare::Draft::new(status, "said");
        let mut finding = checks::finish(check, 0, target, None, outcome);
        finding.name = name.to_owned();
        finding
    }

    fn pod(name: &str, role: &str) -> Target {
        let place = Place {
            kind: crate::snapshot::PlaceKind::Pod,
            pod: name.to_owned(),
            role: Some(role.to_owned()),
            ..Place::host("")
        };
        Target::pod(&place, 1)
    }

    #[test]
    fn every_pod_of_the_role_must_say_it() {
        use Status::{Fail, Ok, Skipped};
        let worker = Target::workload("g", None, 1).worker(0, "decode", "decode");
        let (a, b, other) = (
            pod("d-0", "decode"),
            pod("d-1", "decode"),
            pod("p-0", "prefill"),
        );
        let left = |findings: &[(&str, &str, Status, &Target)], follows: &[&str]| {
            let mut all: Vec<Finding> = findings
                .iter()
                .map(|(id, name, status, target)| finding(id, name, *status, target))
                .collect();
            let mut open = finding("ENV002", "env:A", Skipped, &worker);
            open.follows = follows.iter().map(|f| (*f).to_owned()).collect();
            all.push(open);
            by_running_workers(&mut all);
            all.iter().any(|f| f.target == worker)
        };
        let cases: &[(&str, &[(&str, &str, Status, &Target)], &[&str], bool)] = &[
            ("no pod was looked at", &[], &[], true),
            (
                "a pod of another role says it",
                &[("ENV012", "env:A", Ok, &other)],
                &[],
                true,
            ),
            (
                "the pod says it",
                &[("ENV012", "env:A", Ok, &a)],
                &[],
                false,
            ),
            (
                "and calls it bad",
                &[("ENV012", "env:A", Fail, &a)],
                &[],
                false,
            ),
            (
                "one of two says it",
                &[
                    ("ENV012", "env:A", Ok, &a),
                    ("NODE001", "node:target", Ok, &b),
                ],
                &[],
                true,
            ),
            (
                "the other could not be read",
                &[
                    ("ENV012", "env:A", Ok, &a),
                    ("ENV012", "env:A", Skipped, &b),
                ],
                &[],
                true,
            ),
            (
                "both say it",
                &[("ENV012", "env:A", Ok, &a), ("ENV012", "env:A", Ok, &b)],
                &[],
                false,
            ),
            (
                "it says two things",
                &[
                    ("ENV012", "env:A", Ok, &a),
                    ("ENV012", "env:A", Skipped, &a),
                ],
                &[],
                true,
            ),
            (
                "one of two variables",
                &[("ENV012", "env:A", Ok, &a)],
                &["env:A", "env:B"],
                true,
            ),
            (
                "both variables",
                &[("ENV012", "env:A", Ok, &a), ("ENV012", "env:B", Ok, &a)],
                &["env:A", "env:B"],
                false,
            ),
        ];
        for (what, findings, follows, expected) in cases {
            assert_eq!(left(findings, follows), *expected, "{what}");
        }
    }
}
