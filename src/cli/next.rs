//! The one command that gets the reader further, after commands that look at files or at one end.

use crate::report::{Report, Trust, WorkloadReport};
use crate::target::TargetKind;
use std::path::{Path, PathBuf};

/// What goes on after `env`.
pub(super) fn after_env(report: &Report, paths: &[PathBuf]) -> Option<String> {
    if report.workloads.is_empty() || !report.errors.is_empty() {
        return None;
    }
    match report.trust {
        Trust::Untrusted => {
            let stdin = paths.iter().any(|path| path == Path::new("-"));
            let again = match paths {
                _ if stdin => "render and pipe it in again".to_owned(),
                [one] => format!(
                    "`dynamo-interconnect-check env {}`",
                    quoted(&one.to_string_lossy())
                ),
                _ => "the same command again".to_owned(),
            };
            Some(format!("apply 1, then {again}"))
        }
        Trust::Unproven => {
            let open: Vec<&WorkloadReport> = report
                .workloads
                .iter()
                .filter(|w| w.trust == Trust::Unproven)
                .collect();
            let (each, one) = match open.as_slice() {
                [one] => ("", *one),
                [first, ..] => (" for each deployment", *first),
                [] => return None,
            };
            Some(format!(
                "once it runs, `{}`{each} moves test data between the workers and names the lane",
                check(one, open.len() > 1)
            ))
        }
        Trust::Trusted | Trust::NotApplicable => None,
    }
}

/// `check` of a deployment as the cluster knows it.
fn check(workload: &WorkloadReport, many: bool) -> String {
    let graph = workload.kind == "DynamoGraphDeployment";
    let named = graph && !many && workload.name != "(unnamed)";
    let which = match (graph, named) {
        (_, true) => quoted(&workload.name),
        (true, false) => "NAME".to_owned(),
        // Pods of other kinds are found by their labels.
        (false, _) => "-l SELECTOR".to_owned(),
    };
    let namespace = workload.namespace.as_ref().filter(|_| !many);
    let namespace = namespace.map_or(String::new(), |n| format!(" -n {}", quoted(n)));
    format!("dynamo-interconnect-check check {which}{namespace} --transfer")
}

/// What goes on after `node`. A replayed recording says the same as the run that made it.
pub(super) fn after_node(report: &Report) -> Option<String> {
    if report.targets.is_empty() || !report.errors.is_empty() {
        return None;
    }
    let pasted = report.targets.iter().all(|t| t.target.is_pasted());
    let pods = report
        .targets
        .iter()
        .filter(|t| t.target.kind == TargetKind::Pod);
    match report.trust {
        Trust::Untrusted if pasted => Some("apply 1, then paste the outputs again".to_owned()),
        Trust::Untrusted => Some("apply 1, then look at the same place again".to_owned()),
        Trust::Unproven | Trust::NotApplicable if report.way_out().is_some() => {
            let remedy = report.way_out().unwrap_or_default();
            Some(format!("{remedy}, then look at the same place again"))
        }
        Trust::Unproven if pasted => Some(
            "where the cluster is at hand, `dynamo-interconnect-check check NAME --transfer` moves test data between the workers \
             and names the lane"
                .to_owned(),
        ),
        Trust::Unproven => {
            let pods: Vec<_> = pods.collect();
            let [first, rest @ ..] = pods.as_slice() else {
                return Some(
                    "look at the workers themselves: `dynamo-interconnect-check check NAME` for a whole deployment, or `node --pod \
                     POD` for one"
                        .to_owned(),
                );
            };
            let peer = rest.first().map_or("POD", |pod| pod.target.name.as_str());
            let namespace = first.target.namespace.as_ref();
            let namespace = namespace.map_or(String::new(), |n| format!(" -n {}", quoted(n)));
            Some(format!(
                "`dynamo-interconnect-check nixl --transfer --pod {} --peer {}{namespace}` moves test data between the two and \
                 names the lane",
                quoted(&first.target.name),
                quoted(peer)
            ))
        }
        Trust::Trusted | Trust::NotApplicable => None,
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) && !word.starts_with('-') {
        return word.to_owned();
    }
    let word = crate::sanitise::line(word, 500);
    format!("'{}'", word.replace('\'', "'\\''"))
}
