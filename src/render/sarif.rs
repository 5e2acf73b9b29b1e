//! SARIF 2.1.0 (OASIS): what failed or warned, with file and line and the documentation of each check, for code scanning.
//!
//! Only what is wrong is a result: a list of alerts is no place for what is fine. What could not be looked at, what was left out
//! and what could not be read are notifications of the run, so that an empty list of results never reads as proof.

use super::left_out;
use super::place::{Place, Surroundings, object, percent};
use crate::checks::{self, declare::Check};
use crate::report::{Evidence, Finding, Report, SkipReason, Status};
use crate::target::{Target, TargetKind};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";
/// The base of relative paths; whoever reads the file knows where that is.
const ROOT: &str = "%SRCROOT%";

/// The whole log.
pub fn log(report: &Report, around: Surroundings<'_>) -> Value {
    let rules: Vec<&Check> = (checks::ALL.iter().copied())
        .filter(|check| report.checks.iter().any(|f| f.id == check.id))
        .collect();
    let index: BTreeMap<&str, usize> = rules.iter().enumerate().map(|(n, c)| (c.id, n)).collect();
    let mut seen = HashMap::new();
    let results: Vec<Value> = (report.checks.iter())
        .filter(|f| f.status >= Status::Warn)
        .map(|finding| result(finding, report, &index, &mut seen, around))
        .collect();
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": report.tool.name,
                "version": report.tool.version,
                "semanticVersion": report.tool.version,
                "shortDescription": {"text": "May a disaggregated LLM deployment trust its interconnect, or what to fix first?"},
                "rules": rules.iter().map(|c| rule(c)).collect::<Vec<_>>(),
            }},
            "automationDetails": {"id": format!("{}/{}/", report.tool.name, report.command)},
            "columnKind": "unicodeCodePoints",
            "originalUriBaseIds": {ROOT: {"description": {"text": "The root of the repository."}}},
            "invocations": [{
                "executionSuccessful": report.errors.is_empty(),
                "toolExecutionNotifications": notifications(report, &index),
            }],
            "results": results,
            "properties": {
                "trust": report.trust,
                "verdict": report.verdict,
                "counts": report.counts,
                "coverage": report.coverage,
                "rules": report.rules,
            },
        }],
    })
}

fn level(status: Status) -> &'static str {
    match status {
        Status::Fail => "error",
        Status::Warn => "warning",
        Status::Ok | Status::Skipped => "note",
    }
}

/// Page of a check, relative to the repository of this tool. `helpUri` would have to be absolute.
fn page(check: &Check) -> String {
    format!("docs/checks.md#{}", check.id.to_lowercase())
}

fn rule(check: &Check) -> Value {
    let documentation = check.documentation();
    let rest = documentation.split_once('\n').map_or("", |(_, rest)| rest);
    let why = section(rest, "Why it matters");
    let severity = match check.worst {
        Status::Fail => "error",
        Status::Warn => "warning",
        Status::Ok | Status::Skipped => "recommendation",
    };
    json!({
        "id": check.id,
        "name": check.name,
        "shortDescription": {"text": check.problem()},
        "fullDescription": {"text": if why.is_empty() { check.problem() } else { why }},
        "help": {
            "text": format!("{documentation}\n\nSee {}.", page(check)),
            "markdown": format!("{documentation}\n\nSee `{}`.", page(check)),
        },
        "defaultConfiguration": {"level": level(check.worst)},
        "properties": {
            "tags": ["interconnect", format!("{:?}", check.subsystem).to_lowercase()],
            "problem.severity": severity,
            "precision": "high",
            "kv_path": check.kv_path,
            "since": check.since,
            "documentation": page(check),
        },
    })
}

/// The text below a heading, as one paragraph.
fn section(documentation: &str, heading: &str) -> String {
    let begin = documentation.split(&format!("## {heading}\n")).nth(1);
    let own = begin.unwrap_or_default().split("\n## ").next();
    let words: Vec<&str> = own.unwrap_or_default().split_whitespace().collect();
    words.join(" ")
}

/// Text of a message. Brackets with a target behind them would become a link, and whoever wrote a manifest may have put them there.
fn text(words: &str) -> String {
    words.replace("](", "] (")
}

fn result(
    finding: &Finding,
    report: &Report,
    index: &BTreeMap<&str, usize>,
    seen: &mut HashMap<u64, usize>,
    around: Surroundings<'_>,
) -> Value {
    let mut message = format!("{}: {}", object(&finding.target), finding.detail);
    if let Some(fix) = &finding.fix {
        message.push_str(&format!("\nFix: {fix}"));
    }
    if let Some(paste) = &finding.rare.paste {
        message.push_str(&format!("\nPaste:\n{paste}"));
    }
    let mut located = finding
        .evidence
        .iter()
        .filter_map(|e| Some((e, around.place(e)?)));
    let (location, file) = match located.next() {
        Some((evidence, place)) => (in_file(evidence, &place), place.uri()),
        None => elsewhere(&finding.target, report, around),
    };
    let mut location = location;
    location["logicalLocations"] = logical(&finding.target);
    let mut value = json!({
        "ruleId": finding.id,
        "kind": "fail",
        "level": level(finding.status),
        "message": {"text": text(&message)},
        "locations": [location],
        "partialFingerprints": fingerprints(finding, &file, seen),
        "properties": {
            "name": finding.name,
            "status": finding.status,
            "kv_path": finding.kv_path,
            "target": finding.target,
        },
    });
    if let Some(at) = index.get(finding.id) {
        value["ruleIndex"] = json!(at);
    }
    let related: Vec<Value> = located
        .map(|(evidence, place)| in_file(evidence, &place))
        .collect();
    if !related.is_empty() {
        value["relatedLocations"] = Value::Array(related);
    }
    value
}

fn artifact(place: &Place) -> Value {
    match place.below_root {
        true => json!({"uri": place.uri(), "uriBaseId": ROOT}),
        false => json!({"uri": place.uri()}),
    }
}

fn in_file(evidence: &Evidence, place: &Place) -> Value {
    json!({"physicalLocation": {
        "artifactLocation": artifact(place),
        "region": {
            "startLine": place.line,
            "startColumn": place.column,
            "snippet": {"text": evidence.excerpt},
        },
    }})
}

/// A place for what stands in no file: that of the deployment, else a path made of the object, since code scanning takes no
/// result without one.
fn elsewhere(target: &Target, report: &Report, around: Surroundings<'_>) -> (Value, String) {
    let workload = report
        .workloads
        .iter()
        .find(|w| w.ordinal == target.ordinal);
    let place = workload.and_then(|w| {
        let evidence = Evidence {
            source: crate::report::EvidenceSource::Manifest,
            path: Some(w.source.path.clone()),
            line: Some(w.source.line),
            column: None,
            ask: None,
            excerpt: String::new(),
        };
        around.place(&evidence)
    });
    if let Some(place) = place {
        let location = json!({"physicalLocation": {
            "artifactLocation": artifact(&place),
            "region": {"startLine": place.line},
        }});
        return (location, place.uri());
    }
    let kind = target.kind.word();
    let parts = [
        target.namespace.as_deref(),
        target.workload.as_deref(),
        Some(&target.name),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .flatten()
        .map(|p| percent(p).replace('/', "%2F"))
        .collect();
    let uri = format!("interconnect/{kind}/{}", parts.join("/"));
    let location = json!({"physicalLocation": {
        "artifactLocation": {"uri": uri, "uriBaseId": ROOT},
        "region": {"startLine": 1},
    }});
    (location, uri)
}

fn logical(target: &Target) -> Value {
    let kind = match target.kind {
        TargetKind::Input => "input",
        TargetKind::Workload => "deployment",
        TargetKind::Worker => "component",
        TargetKind::Pod => "pod",
        TargetKind::Host => "host",
        TargetKind::Pair => "pair",
    };
    json!([{
        "name": target.name,
        "fullyQualifiedName": object(target),
        "kind": kind,
    }])
}

/// What tells a finding from others in the next run, when lines have moved and numbers have changed: check, name, object and
/// file. Several of the same are told apart by their order.
fn fingerprints(finding: &Finding, file: &str, seen: &mut HashMap<u64, usize>) -> Value {
    let object = object(&finding.target);
    let parts = [
        finding.id,
        &finding.name,
        finding.target.kind.word(),
        &object,
        file,
    ];
    let hash = hash(&parts);
    let nth = seen.entry(hash).or_insert(0);
    *nth += 1;
    let print = format!("{hash:016x}:{nth}");
    json!({"dynamoInterconnectCheck/v1": print, "primaryLocationLineHash": print})
}

/// FNV-1a over the parts. The same in every version of this tool, and no more than a name.
fn hash(parts: &[&str]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for part in parts {
        for byte in part.bytes().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}

fn notifications(report: &Report, index: &BTreeMap<&str, usize>) -> Vec<Value> {
    let note = |level: &str, words: &str| json!({"level": level, "message": {"text": text(words)}});
    let mut all = vec![note("note", &report.verdict)];
    let errors = report.errors.iter();
    all.extend(errors.map(|e| note("error", &format!("{}: {}", e.object, e.message))));
    all.extend(
        left_out::lines(report)
            .iter()
            .map(|line| note("warning", line)),
    );
    let skipped = report
        .checks
        .iter()
        .filter(|f| f.status == Status::Skipped && f.reason != Some(SkipReason::NotApplicable));
    for finding in skipped {
        let reason = finding.reason.map_or("", SkipReason::word);
        let words = format!(
            "{}: skipped ({reason}): {}",
            object(&finding.target),
            finding.detail
        );
        let mut value = note("note", &words);
        let mut about = json!({"id": finding.id});
        if let Some(at) = index.get(finding.id) {
            about["index"] = json!(at);
        }
        value["associatedRule"] = about;
        all.push(value);
    }
    let notes = report.notes.iter();
    all.extend(notes.map(|n| note("note", &format!("{}: {}", n.object, n.message))));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::testing::{env, graph, lines, report};
    use crate::render::place::tests::{here, hostile};
    use std::collections::BTreeSet;

    fn prints(text: &str) -> Vec<String> {
        let log = log(&report(text), here());
        let results = log["runs"][0]["results"].as_array().unwrap().clone();
        let print = |r: &Value| r["partialFingerprints"]["dynamoInterconnectCheck/v1"].to_string();
        results.iter().map(print).collect()
    }

    #[test]
    fn fingerprints_stay_where_lines_move_and_differ_where_findings_do() {
        let text = graph(&lines(&[&env(&[("UCX_TLS", "tcp,cuda_copy")])]));
        let before = prints(&text);
        assert!(before.len() > 1, "{before:?}");
        assert_eq!(
            before.iter().collect::<BTreeSet<_>>().len(),
            before.len(),
            "{before:?}"
        );
        assert_eq!(prints(&format!("# moved\n# down\n{text}")), before);
        let other = text.replace("tcp,cuda_copy", "tcp,cuda_ipc");
        assert_eq!(prints(&other), before, "the same fault with another value");
        assert_ne!(prints(&text.replace("name: g", "name: h")), before);
    }

    #[test]
    fn a_message_holds_no_link() {
        let log = log(&hostile(), here());
        let run = &log["runs"][0];
        let said = [
            &run["results"],
            &run["invocations"][0]["toolExecutionNotifications"],
        ];
        let said = said.into_iter().flat_map(|v| v.as_array().unwrap());
        for text in said.map(|v| v["message"]["text"].as_str().unwrap()) {
            assert!(
                text.contains("[l] (http") && !text.contains("[l](http"),
                "{text}"
            );
        }
    }
}
