//! What was not judged because somebody said so, as a person reads it.

use super::text::paragraph;
use crate::report::{Report, RuleKind, RuleReport};
use std::fmt::Write;

pub(super) fn render(out: &mut String, report: &Report, heading: &str, width: usize) {
    if report.rules.is_empty() {
        return;
    }
    let _ = writeln!(out, "{heading}");
    for line in lines(report) {
        paragraph(out, &line, "  ", width);
    }
    out.push('\n');
}

/// One sentence for each rule, and one for all that was not selected.
pub(super) fn lines(report: &Report) -> Vec<String> {
    let (ignore, only): (Vec<&RuleReport>, Vec<&RuleReport>) = report
        .rules
        .iter()
        .partition(|r| r.kind == RuleKind::Ignore);
    let mut lines: Vec<String> = ignore.into_iter().map(ignored).collect();
    let names: Vec<&str> = only.iter().map(|r| r.rule.as_str()).collect();
    if let Some(first) = only.first() {
        let left_out = report.checks.iter().filter_map(|f| f.left_out.as_ref());
        let left_out = left_out.filter(|l| l.by == first.by).count();
        let reason = first
            .reason
            .as_deref()
            .map_or(String::new(), |r| format!(": {r}"));
        lines.push(format!(
            "only {} count ({}{reason}); {left_out} other findings do not",
            names.join(", "),
            first.by
        ));
    }
    lines
}

fn ignored(rule: &RuleReport) -> String {
    let mut line = match (rule.expired, &rule.expires) {
        (true, Some(day)) => format!("no longer ignored since {day} is over: {}", rule.rule),
        _ => format!("ignored: {}", rule.rule),
    };
    if let Some(target) = &rule.target {
        let _ = write!(line, " on {target}");
    }
    let reason = rule.reason.as_deref().unwrap_or("without a reason");
    let _ = write!(line, " ({}: {reason}", rule.by);
    if let (false, Some(day)) = (rule.expired, &rule.expires) {
        let _ = write!(line, "; until {day}");
    }
    line.push(')');
    let _ = match (rule.findings, rule.worst) {
        (0, _) | (_, None) => write!(line, ", which is about nothing that was found"),
        (1, Some(worst)) => write!(line, ", one finding: {worst}"),
        (n, Some(worst)) => write!(line, ", {n} findings, the gravest {worst}"),
    };
    line
}
