//! Findings below the verdict: all of them, or what was not seen, folded.

use super::{Options, colour, hanging, paragraph, place, styled};
use crate::observed::Skip;
use crate::report::{Finding, Report, SkipReason, Status};
use anstyle::Style;
use std::fmt::Write as _;

pub(super) fn all_findings(out: &mut String, checks: &[Finding], width: usize) {
    let _ = writeln!(out, "{}", styled("All checks", Style::new().bold()));
    for own in checks.chunk_by(|a, b| a.target == b.target) {
        let _ = writeln!(out, "  {}", place(&own[0].target, true));
        let (skipped, judged): (Vec<&Finding>, Vec<&Finding>) =
            own.iter().partition(|f| f.status == Status::Skipped);
        for finding in judged {
            one_finding(out, finding, width);
        }
        // What lacks the same thing stands together, and says so once.
        let mut groups: Vec<Vec<&Finding>> = Vec::new();
        for finding in skipped {
            let same = |group: &&mut Vec<&Finding>| {
                (group[0].reason, &group[0].detail) == (finding.reason, &finding.detail)
            };
            match groups.iter_mut().find(same) {
                Some(group) => group.push(finding),
                None => groups.push(vec![finding]),
            }
        }
        for group in groups {
            if let [one] = group.as_slice() {
                one_finding(out, one, width);
                continue;
            }
            let names: Vec<String> = group
                .iter()
                .map(|f| format!("{} [{}]", f.name, f.id))
                .collect();
            let word = styled("skipped", colour(Status::Skipped));
            let head = format!("{word} {}{}", names.join(", "), reason(group[0]));
            hanging(out, &head, "    ", "            ", width);
            paragraph(out, &group[0].detail, "            ", width);
        }
    }
    out.push('\n');
}

fn one_finding(out: &mut String, finding: &Finding, width: usize) {
    let word = styled(&format!("{:<7}", finding.status), colour(finding.status));
    let head = format!(
        "{word} {}{}  [{}]",
        finding.name,
        reason(finding),
        finding.id
    );
    let _ = writeln!(out, "    {head}");
    paragraph(out, &finding.detail, "            ", width);
}

fn reason(finding: &Finding) -> String {
    finding
        .reason
        .map_or(String::new(), |r| format!(" ({})", r.word()))
}

/// What was found in pasted outputs and is harmless: who pastes them wants to see that they were read.
pub(super) fn readings(out: &mut String, checks: &[Finding], width: usize) {
    let mut fine = checks
        .iter()
        .filter(|f| f.status == Status::Ok && f.target.is_pasted())
        .peekable();
    if fine.peek().is_none() {
        return;
    }
    let _ = writeln!(out, "{}", styled("Read and harmless", Style::new().bold()));
    for finding in fine {
        let word = styled("ok", colour(Status::Ok));
        let line = format!(
            "{word}  {}: {}  [{}]",
            finding.name, finding.detail, finding.id
        );
        hanging(out, &line, "    ", "        ", width);
    }
    out.push('\n');
}

/// What was pasted and did not settle a question: that is not the same as what nobody pasted.
pub(super) fn inconclusive(out: &mut String, checks: &[Finding], width: usize) {
    /// Reasons shown at most; `--verbose` shows all.
    const SHOWN: usize = 8;
    let was_read = |f: &&Finding| {
        f.target.is_pasted()
            && f.status == Status::Skipped
            && !matches!(
                f.reason,
                Some(SkipReason::NotApplicable | SkipReason::NotSelected) | None
            )
            && !Skip::says_not_pasted(&f.detail)
    };
    let mut groups: Vec<(&Finding, Vec<&str>)> = Vec::new();
    for finding in checks.iter().filter(was_read) {
        match groups
            .iter_mut()
            .find(|(first, _)| first.detail == finding.detail)
        {
            Some((_, names)) => names.push(&finding.name),
            None => groups.push((finding, vec![&finding.name])),
        }
    }
    if groups.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "{}",
        styled("Read and not conclusive", Style::new().bold())
    );
    for (finding, names) in groups.iter().take(SHOWN) {
        let word = styled("skipped", colour(Status::Skipped));
        let names = crate::checks::words::listed(names);
        let id = match names.as_str() {
            one if one == finding.name => format!("  [{}]", finding.id),
            _ => String::new(),
        };
        let line = format!("{word}  {names}: {}{id}", finding.detail);
        hanging(out, &line, "    ", "        ", width);
    }
    if groups.len() > SHOWN {
        let _ = writeln!(
            out,
            "    and {} more: --verbose shows all",
            groups.len() - SHOWN
        );
    }
    out.push('\n');
}

pub(super) fn coverage(out: &mut String, report: &Report, options: Options, width: usize) {
    let c = &report.coverage;
    let n = &report.counts;
    let mut line = format!(
        "Observed {} of {} checks: {} ok, {} warn, {} fail, {} skipped.",
        c.observed, c.applicable, n.ok, n.warn, n.fail, n.skipped
    );
    let skipped: Vec<&Finding> = report
        .checks
        .iter()
        .filter(|f| f.status == Status::Skipped && f.left_out.is_none())
        .filter(|f| f.reason != Some(SkipReason::NotApplicable))
        .collect();
    if !options.verbose && !skipped.is_empty() {
        let _ = write!(line, " {} --verbose shows all.", not_seen(&skipped));
    }
    paragraph(out, &line, "", width);
    if !report.not_seen.is_empty() {
        let all = report.not_seen.iter();
        let all: Vec<String> = all
            .map(|unseen| format!("{} (`explain {}`)", unseen.what, unseen.topic))
            .collect();
        let line = format!("Not to be seen from pods: {}.", all.join(", "));
        paragraph(out, &line, "", width);
    }
}

/// What could not be looked at, in a sentence.
fn not_seen(skipped: &[&Finding]) -> String {
    let (lacking, others): (Vec<&Finding>, Vec<&Finding>) =
        skipped.iter().copied().partition(|f| f.target.is_pasted());
    let mut out = String::new();
    if !lacking.is_empty() {
        // The output that answers most of them first.
        let mut inputs: Vec<(&str, usize)> = Vec::new();
        for name in lacking.iter().filter_map(|f| f.rare.inputs.first()) {
            match inputs.iter_mut().find(|(known, _)| known == name) {
                Some((_, count)) => *count += 1,
                None => inputs.push((name, 1)),
            }
        }
        inputs.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let _ = write!(out, "{} need more than was pasted", lacking.len());
        if !inputs.is_empty() {
            let names: Vec<String> = inputs
                .iter()
                .take(5)
                .map(|(name, count)| format!("--input {name}=FILE ({count})"))
                .collect();
            let _ = write!(out, ": add {}", names.join(", "));
        }
        out.push('.');
    }
    if others.is_empty() {
        return out;
    }
    let mut names: Vec<String> = Vec::new();
    for f in others {
        let name = format!("{} ({})", f.name, f.reason.map_or("", SkipReason::words));
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let more = names.len().saturating_sub(4);
    names.truncate(4);
    if !out.is_empty() {
        out.push(' ');
    }
    let _ = write!(out, "Could not look at: {}", names.join(", "));
    if more > 0 {
        let _ = write!(out, " and {more} more");
    }
    out.push('.');
    out
}
