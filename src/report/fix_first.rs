//! What to fix, in order, each cause once.

use super::{Consequence, Finding, Fix, KvPath, Status};
use crate::target::{Target, TargetKind};
use std::collections::BTreeMap;

/// Causes in order: fails before warns, what carries KV before what does not, then target and table order. A finding
/// that another one on the same object declares as its consequence stands beneath it, and the same fault on several
/// workers of one workload is one entry.
pub(super) fn fix_first(checks: &[Finding]) -> Vec<Fix> {
    let mut open: Vec<&Finding> = checks.iter().filter(|f| f.status >= Status::Warn).collect();
    // The table of checks is ordered by harm, so within one status it decides what comes first.
    open.sort_by_key(|f| {
        (
            std::cmp::Reverse(f.status),
            f.kv_path == KvPath::Off,
            f.minor,
            f.order,
        )
    });
    // A cause and its consequence belong to one workload: hundreds of workloads must not be compared with each other.
    let mut by_workload: BTreeMap<usize, Vec<&Finding>> = BTreeMap::new();
    for f in open.iter().copied() {
        by_workload.entry(f.target.ordinal).or_default().push(f);
    }
    let cause_of = |f: &Finding| {
        by_workload
            .get(&f.target.ordinal)
            .into_iter()
            .flatten()
            .copied()
            .find(|c| {
                c.status >= f.status
                    && c.id != f.id
                    && (c.causes.iter().any(|n| *n == f.id || *n == f.name)
                        || f.follows.contains(&c.name))
                    && same_place(&c.target, &f.target)
            })
    };
    let mut fixes: Vec<Fix> = Vec::new();
    let mut index: BTreeMap<(usize, &str, &str, &str), usize> = BTreeMap::new();
    for f in open.iter().copied().filter(|f| cause_of(f).is_none()) {
        let key = (f.target.ordinal, f.id, f.name.as_str(), f.detail.as_str());
        if let Some(&at) = index.get(&key) {
            fixes[at].also.push(f.target.clone());
            continue;
        }
        index.insert(key, fixes.len());
        fixes.push(Fix {
            id: f.id,
            name: f.name.clone(),
            status: f.status,
            target: f.target.clone(),
            also: Vec::new(),
            detail: f.detail.clone(),
            fix: f.fix.clone(),
            paste: f.paste.clone(),
            consequences: Vec::new(),
            evidence: f.evidence.clone(),
            headline: f.headline.clone(),
        });
    }
    for f in open.iter().copied() {
        let Some(cause) = cause_of(f) else { continue };
        // A cause may itself be a consequence; climb to the entry that is listed. Tables are acyclic by a test.
        let mut top = cause;
        while let Some(next) = cause_of(top) {
            top = next;
        }
        let key = (
            top.target.ordinal,
            top.id,
            top.name.as_str(),
            top.detail.as_str(),
        );
        if let Some(&at) = index.get(&key) {
            let fix = &mut fixes[at];
            // The lines to paste often belong to the manifest side of a cause that was seen on a machine.
            let on_machine = matches!(fix.target.kind, TargetKind::Pod);
            if on_machine && fix.paste.is_none() && f.paste.is_some() {
                fix.paste.clone_from(&f.paste);
                fix.evidence.extend(f.evidence.iter().take(1).cloned());
            }
            fix.consequences.push(Consequence {
                id: f.id,
                name: f.name.clone(),
                target: f.target.clone(),
                detail: f.detail.clone(),
            });
        }
    }
    fixes
}

/// A cause and its consequence meet on one object: the same target, the same role of one workload (the manifest entry
/// and its pods), or a workload and its parts.
fn same_place(cause: &Target, effect: &Target) -> bool {
    cause == effect
        || (cause.ordinal == effect.ordinal
            && (cause.role == effect.role
                || [cause.kind, effect.kind].contains(&TargetKind::Workload)))
}
