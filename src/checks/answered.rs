//! What a worker's entry and its running pods say of the same variable.

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
        let own = [finding.name.to_string()];
        let asked = match finding.rare.follows.as_slice() {
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

/// A value that is written and in force is one fault: what the pods say of it stands beneath the entry that is to be mended.
/// A pod that knows worse than the entry stands first, and the entry beneath it.
pub(super) fn one_fault_once(findings: &mut [Finding]) {
    let mut gravest: BTreeMap<_, (Option<Status>, Option<Status>)> = BTreeMap::new();
    let key = |f: &Finding| (f.target.ordinal, f.target.role.clone(), f.name.clone());
    let of_variable = |f: &Finding| f.status >= Status::Warn && f.name.starts_with("env:");
    for finding in findings.iter().filter(|f| of_variable(f)) {
        let (entry, pod) = gravest.entry(key(finding)).or_default();
        let side = match (finding.target.kind, finding.id) {
            (TargetKind::Worker, "ENV002") => entry,
            (TargetKind::Pod, "ENV012") => pod,
            _ => continue,
        };
        *side = (*side).max(Some(finding.status));
    }
    for finding in findings.iter_mut().filter(|f| of_variable(f)) {
        let Some((Some(entry), Some(pod))) = gravest.get(&key(finding)) else {
            continue;
        };
        let follows = match (finding.target.kind, finding.id) {
            (TargetKind::Worker, "ENV002") => pod > entry,
            (TargetKind::Pod, "ENV012") => finding.status <= *entry,
            _ => false,
        };
        if follows {
            let name = finding.name.clone();
            finding.rare.follows.push(name.into_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks;
    use crate::snapshot::Place;
    use std::sync::Arc;

    fn finding(id: &str, name: &str, status: Status, target: &Target) -> Finding {
        let check = checks::find(id).unwrap();
        let outcome = checks::declare::Draft::new(status, "said").named(name);
        checks::finish(check, 0, &Arc::new(target.clone()), None, outcome)
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
    fn a_value_that_is_written_and_in_force_is_one_fault() {
        use Status::{Fail, Ok, Warn};
        let worker = Target::workload("g", None, 1).worker(0, "decode", "decode");
        let (a, b) = (pod("d-0", "decode"), pod("d-1", "decode"));
        // Status of the entry, and of two pods; which of the three follow another.
        let cases = [
            (Fail, Fail, Fail, [false, true, true]),
            (Fail, Warn, Ok, [false, true, false]),
            (Warn, Fail, Warn, [true, false, true]),
            (Warn, Ok, Ok, [false, false, false]),
            (Ok, Fail, Fail, [false, false, false]),
        ];
        for (entry, one, other, expected) in cases {
            let mut all = [
                finding("ENV002", "env:A", entry, &worker),
                finding("ENV012", "env:A", one, &a),
                finding("ENV012", "env:A", other, &b),
            ];
            one_fault_once(&mut all);
            let follow: Vec<bool> = all.iter().map(|f| !f.rare.follows.is_empty()).collect();
            assert_eq!(follow, expected, "{entry} {one} {other}");
            let report = crate::report::Report::new("check", vec![], all.to_vec(), vec![], vec![]);
            let bad = [entry, one, other].into_iter().any(|s| s > Ok);
            assert_eq!(
                report.fix_first.len(),
                usize::from(bad),
                "{entry} {one} {other}"
            );
        }
    }

    /// Check, name and status of a finding on an object.
    type Said<'a> = (&'a str, &'a str, Status, &'a Target);

    #[test]
    fn every_pod_of_the_role_must_say_it() {
        use Status::{Fail, Ok, Skipped};
        let worker = Target::workload("g", None, 1).worker(0, "decode", "decode");
        let (a, b, other) = (
            pod("d-0", "decode"),
            pod("d-1", "decode"),
            pod("p-0", "prefill"),
        );
        let left = |findings: &[Said<'_>], follows: &[&str]| {
            let mut all: Vec<Finding> = findings
                .iter()
                .map(|(id, name, status, target)| finding(id, name, *status, target))
                .collect();
            let mut open = finding("ENV002", "env:A", Skipped, &worker);
            open.rare.follows = follows.iter().map(|f| (*f).to_owned()).collect();
            all.push(open);
            by_running_workers(&mut all);
            all.iter().any(|f| *f.target == worker)
        };
        let cases: &[(&str, &[Said<'_>], &[&str], bool)] = &[
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
