//! Whole machines: recorded answers in, findings out.
//!
//! `tests/machines/NAME.json` is a snapshot as the probe would record it, `NAME.expected` what a person expects of it, one
//! `status name` per line. `soft-roce` is a capture of a real machine; the others are written for the shapes of real ones.
//! `UPDATE=1` rewrites the expectations: read the difference before you believe it.

#![expect(
    clippy::unwrap_used,
    reason = "the exemption for tests does not reach helpers of an integration test"
)]

use dynamo_interconnect_check::checks;
use dynamo_interconnect_check::manifest::Inventory;
use dynamo_interconnect_check::report::{Finding, KvPath, SkipReason, Status};
use dynamo_interconnect_check::snapshot::{Answer, Snapshot};
use dynamo_interconnect_check::target::TargetKind;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/machines")
}

fn machines() -> Vec<(String, Snapshot)> {
    let mut machines: Vec<(String, Snapshot)> = fs::read_dir(folder())
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).unwrap();
            (name, serde_json::from_str(&text).unwrap())
        })
        .collect();
    machines.sort_by(|a, b| a.0.cmp(&b.0));
    machines
}

fn findings(snapshot: &Snapshot) -> Vec<Finding> {
    let mut findings = checks::run(&Inventory::default(), std::slice::from_ref(snapshot));
    findings.retain(|finding| matches!(finding.target.kind, TargetKind::Pod | TargetKind::Host));
    // How it was reached is no part of a machine, and is said where it is reached.
    findings.retain(|finding| finding.id != "NODE001");
    findings
}

fn shown(findings: &[Finding]) -> String {
    findings
        .iter()
        .map(|finding| format!("{:<8}{}\n", finding.status, finding.name))
        .collect()
}

/// Machines on which nothing is wrong.
const HEALTHY: &[&str] = &["gb200-imex", "hgx-h100-ib", "hgx-h100-roce", "p5-efa"];

#[test]
fn every_machine_gives_what_a_person_expects() {
    let mut wrong = String::new();
    let all = machines();
    assert!(all.len() >= 8, "{} machines", all.len());
    for (name, snapshot) in all {
        let found = findings(&snapshot);
        let report = shown(&found);
        let path = folder().join(format!("{name}.expected"));
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&path, &report).unwrap();
        }
        let expected = fs::read_to_string(&path).unwrap_or_default();
        if report != expected {
            let details: Vec<String> = found
                .iter()
                .map(|f| format!("  {} {}: {}", f.status, f.name, f.detail))
                .collect();
            wrong.push_str(&format!("{name}\n{}\n", details.join("\n")));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn a_healthy_machine_has_no_warning() {
    for (name, snapshot) in machines() {
        if !HEALTHY.contains(&name.as_str()) {
            continue;
        }
        for finding in findings(&snapshot) {
            let what = format!(
                "{name}: {} {}: {}",
                finding.status, finding.name, finding.detail
            );
            assert!(finding.status < Status::Warn, "{what}");
            if finding.status == Status::Skipped {
                assert_ne!(finding.kv_path, KvPath::Required, "{what}");
            }
        }
    }
}

#[test]
fn nothing_is_said_without_evidence_and_no_fault_without_a_remedy() {
    for (name, snapshot) in machines() {
        for finding in findings(&snapshot) {
            let what = format!("{name}: {} {}", finding.status, finding.name);
            match finding.status {
                Status::Skipped => assert!(finding.reason.is_some(), "{what}"),
                status => {
                    assert!(!finding.evidence.is_empty(), "{what}");
                    assert!(status == Status::Ok || finding.fix.is_some(), "{what}");
                }
            }
        }
    }
}

#[test]
fn a_place_that_moves_no_kv_breaks_nothing() {
    for (name, snapshot) in machines() {
        let mut elsewhere = snapshot;
        elsewhere.place.role = Some("agg".to_owned());
        for finding in findings(&elsewhere) {
            assert!(
                finding.status < Status::Fail || finding.kv_path == KvPath::Off,
                "{name}: {} {}",
                finding.name,
                finding.detail
            );
        }
    }
}

/// The gravest status by name.
fn by_name(findings: &[Finding]) -> BTreeMap<(&'static str, String), Status> {
    let mut statuses: BTreeMap<(&'static str, String), Status> = BTreeMap::new();
    for finding in findings {
        let key = (finding.id, finding.name.to_string());
        let status = statuses.entry(key).or_insert(finding.status);
        *status = finding.status.max(*status);
    }
    statuses
}

#[test]
fn an_answer_that_is_missing_makes_nothing_ok() {
    let mut compared = 0;
    let mut wrong = Vec::new();
    for (name, snapshot) in machines() {
        let before = by_name(&findings(&snapshot));
        for (id, answer) in &snapshot.answers {
            if matches!(answer, Answer::Missing { .. }) {
                continue;
            }
            for reason in [SkipReason::Timeout, SkipReason::Denied] {
                let mut without = snapshot.clone();
                let detail = "taken away".to_owned();
                let missing = Answer::Missing { reason, detail };
                without.answers.insert(id.clone(), missing);
                let after = by_name(&findings(&without));
                for (key, status) in &before {
                    compared += 1;
                    if *status != Status::Ok && after.get(key) == Some(&Status::Ok) {
                        wrong.push(format!(
                            "{name}: {key:?} was {status} and is ok without {id}"
                        ));
                    }
                }
            }
        }
    }
    assert!(compared > 1000, "{compared}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn any_answers_that_are_missing_make_nothing_ok() {
    // A generator of its own, so that a failure can be repeated.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut wrong = Vec::new();
    for (name, snapshot) in machines() {
        let before = by_name(&findings(&snapshot));
        for _ in 0..20 {
            let mut without = snapshot.clone();
            let mut taken = Vec::new();
            let share = 2 + next() % 12;
            for (id, answer) in &mut without.answers {
                if matches!(answer, Answer::Text(_)) && next() % share == 0 {
                    let (reason, detail) = (SkipReason::Timeout, "taken away".to_owned());
                    *answer = Answer::Missing { reason, detail };
                    taken.push(id.clone());
                }
            }
            let after = by_name(&findings(&without));
            for (key, status) in &before {
                if *status != Status::Ok && after.get(key) == Some(&Status::Ok) {
                    let taken = taken.join(" ");
                    wrong.push(format!(
                        "{name}: {key:?} was {status} and is ok without {taken}"
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
