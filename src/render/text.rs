//! The text a person reads: the answer, the reason, the fix, then the evidence, as a compiler would show it.
//!
//! Words carry the status and colour only supports them, so the text can be pasted into a ticket.

use super::fleet;
use super::{baseline, budget, environment, nixl, nodes};
use crate::ask;
use crate::checks::words::counted;
use crate::observed::Skip;
use crate::report::{
    Evidence, Finding, Fix, Report, SkipReason, Status, Trust, WorkerReport, WorkloadReport,
};
use crate::target::Target;
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use anstyle::{AnsiColor, Style};
use std::fmt::Write;

/// How to draw.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Show every finding, not only what to fix.
    pub verbose: bool,
    /// Columns to wrap at.
    pub width: usize,
}

/// Widest line that is still pleasant to read.
const WIDEST: usize = 100;
/// At most this many fixes are drawn in full; `--verbose` draws all.
const FIXES: usize = 12;

/// Draws a report. Escape sequences for colour are always in it; the caller's stream strips them where they do not
/// belong.
pub fn render(report: &Report, options: Options) -> String {
    let mut out = String::new();
    let width = options.width.clamp(40, WIDEST);
    headline(&mut out, report, width);
    workloads(&mut out, report, options);
    if report.command == "nixl" {
        let heading = styled("NIXL", Style::new().bold());
        nixl::render(&mut out, report, &heading, options.verbose, width);
    }
    super::pairs::pairs(&mut out, report, options, width);
    undone(&mut out, report, options, width);
    let limit = if options.verbose { usize::MAX } else { FIXES };
    for (title, status) in [("Fix first", Status::Fail), ("Worth a look", Status::Warn)] {
        let fixes: Vec<_> = report
            .fix_first
            .iter()
            .enumerate()
            .filter(|(_, f)| f.status == status)
            .collect();
        if fixes.is_empty() {
            continue;
        }
        let _ = writeln!(out, "{}", styled(title, Style::new().bold()));
        for (n, (i, fix)) in fixes.iter().take(limit).enumerate() {
            if n > 0 {
                out.push('\n');
            }
            one_fix(&mut out, i + 1, fix, report, width);
        }
        if fixes.len() > limit {
            let _ = writeln!(
                out,
                "    and {} more: --verbose shows all",
                fixes.len() - limit
            );
        }
        out.push('\n');
    }
    if let Some(changes) = &report.changes {
        let heading = styled("Since the baseline", Style::new().bold());
        baseline::render(&mut out, changes, &heading, options.verbose, width);
    }
    if let Some(time) = &report.kv_budget {
        let heading = styled("KV budget", Style::new().bold());
        budget::render(&mut out, time, &heading, width);
    }
    if let Some(found) = &report.nodes {
        let heading = styled("Nodes", Style::new().bold());
        nodes::render(&mut out, found, &heading, options.verbose, width);
    }
    if options.verbose && !report.environment.is_empty() {
        let _ = writeln!(out, "{}", styled("Environment", Style::new().bold()));
        environment::draw(&mut out, &report.environment);
        out.push('\n');
    }
    if options.verbose {
        all_findings(&mut out, &report.checks, width);
    } else {
        readings(&mut out, &report.checks, width);
        inconclusive(&mut out, &report.checks, width);
    }
    for error in &report.errors {
        let word = styled("error", colour(Status::Fail));
        let _ = writeln!(out, "{word}: {}:", error.object);
        paragraph(&mut out, &error.message, "    ", width);
    }
    let heading = styled("Left out", Style::new().bold());
    super::left_out::render(&mut out, report, &heading, width);
    notes(&mut out, report, options, width);
    coverage(&mut out, report, options, width);
    if let Some(next) = &report.next {
        paragraph(&mut out, &format!("Next: {next}."), "", width);
    }
    out
}

fn headline(out: &mut String, report: &Report, width: usize) {
    let (words, style) = match report.trust {
        Trust::Trusted => ("TRUSTED", colour(Status::Ok)),
        Trust::NotApplicable => ("NOT APPLICABLE", Style::new().bold()),
        Trust::Unproven => ("NOT PROVEN", colour(Status::Warn)),
        Trust::Untrusted => ("NOT TRUSTED", colour(Status::Fail)),
    };
    let _ = writeln!(out, "{}", styled(words, style));
    paragraph(out, &report.verdict, "", width);
    out.push('\n');
}

fn workloads(out: &mut String, report: &Report, options: Options) {
    /// More deployments than this are summed up, unless something is wrong with them.
    const LISTED: usize = 10;
    let many = report.workloads.len() > LISTED && !options.verbose;
    let mut hidden = 0;
    for workload in &report.workloads {
        if many && workload.trust < Trust::Untrusted {
            hidden += 1;
            continue;
        }
        let _ = writeln!(out, "{}", one_workload(workload, report, options));
    }
    if hidden > 0 {
        let _ = writeln!(
            out,
            "and {hidden} more without a fail: --verbose lists them"
        );
    }
    if !report.workloads.is_empty() {
        out.push('\n');
    }
}

fn one_workload(w: &WorkloadReport, report: &Report, options: Options) -> String {
    let workers: Vec<String> = w.workers.iter().map(worker).collect();
    let name = styled(&w.name, Style::new().bold());
    let trust = w.trust.word();
    // A deployment in a cluster stands in no file: what it consists of says more.
    let Some((first, second)) = fleet::lines(report) else {
        let place = format!("{}:{}", w.source.path, w.source.line);
        return format!("{name}  {trust}  {place}\n    {}", workers.join("\n    "));
    };
    let namespace = w.namespace.as_deref().unwrap_or_default();
    let mut out = format!("{name}  {trust}  {first}, namespace {namespace}\n");
    paragraph(&mut out, &second, "    ", options.width.clamp(40, WIDEST));
    out + "    " + &workers.join("\n    ")
}

/// One worker in a line.
pub(super) fn worker(k: &WorkerReport) -> String {
    let mut words = format!("{} x {}", k.replicas, k.role);
    if k.role == "kv_both" {
        // vLLM's word for a worker that may be either side; which it is, its peer would tell.
        words = format!("{} x prefill or decode (kv_both)", k.replicas);
    }
    if k.role != k.name {
        let _ = write!(words, " {}", k.name);
    }
    let mut parts = Vec::new();
    parts.extend(k.engine.clone());
    let gpus = k
        .gpus
        .map(|n| format!("{n} GPU{}", if n == 1 { "" } else { "s" }));
    match (k.nodes, gpus) {
        (1, gpus) => parts.extend(gpus),
        (nodes, Some(gpus)) => parts.push(format!("{nodes} nodes with {gpus} each")),
        (nodes, None) => parts.push(format!("{nodes} nodes")),
    }
    parts.extend((!k.reach.is_empty()).then(|| k.reach.join("+")));
    if parts.is_empty() {
        words
    } else {
        format!("{words} ({})", parts.join(", "))
    }
}

fn one_fix(out: &mut String, number: usize, fix: &Fix, report: &Report, width: usize) {
    let word = styled(fix.status.word(), colour(fix.status));
    let many = report.workloads.len() > 1;
    let mut on = place(&fix.target, many);
    for also in &fix.also {
        let _ = write!(on, ", {}", place(also, false));
    }
    // Of pasted outputs there is one place, and it needs no name.
    let on = if fix.target.is_pasted() {
        String::new()
    } else {
        format!("  {on}")
    };
    let heading = format!(
        "{number:>2}  {word}  {}{on}  [{}]",
        styled(&fix.name, Style::new().bold()),
        fix.id
    );
    hanging(out, &heading, "", "          ", width);
    paragraph(out, &fix.detail, "    ", width);
    for evidence in fix.evidence.iter().take(3) {
        excerpt(out, evidence, fix.status, width);
    }
    if let Some(action) = &fix.fix {
        paragraph(out, &format!("fix: {action}"), "    ", width);
    }
    if let Some(paste) = &fix.paste {
        // The lines are headed by the place in the first of them.
        let likewise: Vec<&str> = fix.also.iter().map(|also| also.name.as_str()).collect();
        let likewise = match likewise.as_slice() {
            [] => String::new(),
            _ if fix.pasted_by.is_some() => String::new(),
            all => format!(" (and the same in {})", crate::checks::words::listed(all)),
        };
        paragraph(out, &format!("paste{likewise}:"), "    ", width);
        for line in paste.lines() {
            let _ = writeln!(out, "        {line}");
        }
    }
    if !fix.consequences.is_empty() {
        let mut names: Vec<(&str, Vec<&str>)> = Vec::new();
        for c in &fix.consequences {
            match names.iter_mut().find(|(name, _)| *name == c.name) {
                Some((_, on)) => on.push(&c.target.name),
                None => names.push((&c.name, vec![&c.target.name])),
            }
        }
        let list: Vec<String> = names
            .iter()
            .map(|(name, on)| format!("{name} ({})", on.join(", ")))
            .collect();
        paragraph(
            out,
            &format!("follows from it: {}", list.join(", ")),
            "    ",
            width,
        );
    }
}

/// Transfers that were asked for and came to no answer: what kept each from it, with the last words of its ends.
fn undone(out: &mut String, report: &Report, options: Options, width: usize) {
    /// More than this are summed up; `--verbose` shows all.
    const SHOWN: usize = 3;
    let undone = report.undone();
    if undone.is_empty() {
        return;
    }
    let limit = if options.verbose { usize::MAX } else { SHOWN };
    let _ = writeln!(
        out,
        "{}",
        styled("Asked for and not shown", Style::new().bold())
    );
    for (n, finding) in undone.iter().take(limit).enumerate() {
        if n > 0 {
            out.push('\n');
        }
        let word = styled(finding.status.word(), colour(finding.status));
        let on = place(&finding.target, report.workloads.len() > 1);
        let heading = format!(
            " -  {word}  {}  {on}  [{}]",
            styled(&finding.name, Style::new().bold()),
            finding.id
        );
        hanging(out, &heading, "", "          ", width);
        paragraph(out, &finding.detail, "    ", width);
        for evidence in finding.evidence.iter().take(1) {
            excerpt(out, evidence, finding.status, width);
        }
        if let Some(fix) = &finding.fix {
            paragraph(out, &format!("fix: {fix}"), "    ", width);
        }
    }
    if undone.len() > limit {
        let more = undone.len() - limit;
        let _ = writeln!(out, "    and {more} more: --verbose shows all");
    }
    out.push('\n');
}

/// An object with its role.
pub(super) fn place(target: &Target, with_workload: bool) -> String {
    let name = if with_workload {
        target.to_string()
    } else {
        target.name.clone()
    };
    match &target.role {
        Some(role) if *role != target.name && !target.name.starts_with(&format!("{role}-")) => {
            format!("{name} ({role})")
        }
        _ => name,
    }
}

/// The lines of evidence. A manifest's get position and caret; a machine's are quoted under the read that gave them.
fn excerpt(out: &mut String, evidence: &Evidence, status: Status, width: usize) {
    let level = if status == Status::Fail {
        Level::ERROR
    } else {
        Level::WARNING
    };
    if let (Some(object), true) = (&evidence.path, evidence.is_of_object()) {
        hanging(out, object, "      ", "      ", width);
        let lines = evidence.excerpt.lines();
        let indent = |line: &str| line.len() - line.trim_start().len();
        let least = lines.clone().map(indent).min().unwrap_or_default();
        for line in lines {
            quoted(out, line.get(least..).unwrap_or(line), width);
        }
        return;
    }
    let (Some(path), Some(line)) = (&evidence.path, evidence.line) else {
        let read = evidence.ask.as_deref().unwrap_or_default();
        // A list of files that is wider than the screen is better named by its id.
        let fits = read.chars().count() + 6 <= width;
        let read = if fits { read } else { ask::id_of(read) };
        hanging(out, read, "      ", "      ", width);
        for line in evidence.excerpt.lines() {
            quoted(out, line, width);
        }
        return;
    };
    // Name and value often stand on two lines: the caret points at the value, and the name stays visible above it.
    let text = evidence.excerpt.as_str();
    let two = text.lines().count() == 2;
    let begin = text.rfind('\n').filter(|_| two).map_or(0, |at| at + 1);
    let last = text[begin..].lines().next().unwrap_or_default();
    let column = evidence.column.map_or(0, |column| column as usize - 1);
    let own = last.char_indices().nth(column).map_or(0, |(at, _)| at);
    let start = if two {
        last.len() - last.trim_start().len()
    } else {
        own
    };
    let end = last.strip_suffix(" ...").unwrap_or(last).len().max(start);
    let mut snippet = Snippet::source(text)
        .line_start(line as usize)
        .path(path.as_str());
    if begin > 0 {
        snippet = snippet.annotation(AnnotationKind::Visible.span(0..begin));
    }
    let snippet = snippet.annotation(AnnotationKind::Primary.span(begin + start..begin + end));
    let drawn = Renderer::styled().render(&[Group::with_level(level).element(snippet)]);
    for line in drawn.lines() {
        let _ = writeln!(out, "    {line}");
    }
}

/// A quoted line. One that is wider than the screen goes on under itself.
fn quoted(out: &mut String, line: &str, width: usize) {
    if line.chars().count() + 10 <= width {
        let _ = writeln!(out, "        | {line}");
        return;
    }
    let options = textwrap::Options::new(width)
        .initial_indent("        | ")
        .subsequent_indent("        |     ")
        .break_words(false)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    for wrapped in textwrap::wrap(line, options) {
        let _ = writeln!(out, "{wrapped}");
    }
}

fn all_findings(out: &mut String, checks: &[Finding], width: usize) {
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
fn readings(out: &mut String, checks: &[Finding], width: usize) {
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
fn inconclusive(out: &mut String, checks: &[Finding], width: usize) {
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

fn notes(out: &mut String, report: &Report, options: Options, width: usize) {
    const SHOWN: usize = 5;
    let limit = if options.verbose { usize::MAX } else { SHOWN };
    for note in report.notes.iter().take(limit) {
        paragraph(
            out,
            &format!("note: {}: {}", note.object, note.message),
            "",
            width,
        );
    }
    if report.notes.len() > limit {
        let _ = writeln!(
            out,
            "and {}: --verbose shows all",
            counted(report.notes.len() - limit, "more note")
        );
    }
}

fn coverage(out: &mut String, report: &Report, options: Options, width: usize) {
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

/// Appends text, wrapped at blanks: names with hyphens stay whole, so that they can be searched and copied.
pub(crate) fn paragraph(out: &mut String, text: &str, indent: &str, width: usize) {
    hanging(out, text, indent, indent, width);
}

/// The same with another indentation from the second line on.
pub(super) fn hanging(out: &mut String, text: &str, first: &str, rest: &str, width: usize) {
    for line in text.lines() {
        let options = textwrap::Options::new(width)
            .initial_indent(first)
            .subsequent_indent(rest)
            .break_words(false)
            .word_splitter(textwrap::WordSplitter::NoHyphenation);
        for wrapped in textwrap::wrap(line, options) {
            let _ = writeln!(out, "{wrapped}");
        }
    }
}

pub(super) fn colour(status: Status) -> Style {
    let colour = match status {
        Status::Ok => AnsiColor::Green,
        Status::Skipped => AnsiColor::Cyan,
        Status::Warn => AnsiColor::Yellow,
        Status::Fail => AnsiColor::Red,
    };
    colour.on_default().bold()
}

pub(super) fn styled(text: &str, style: Style) -> String {
    format!("{style}{text}{style:#}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks;
    use crate::checks::testing::{
        GPU, Pod, RDMA, alone, container, env, graph, lines, pasted, report,
    };
    use crate::manifest::Inventory;
    use crate::report::{InputError, Note};

    const LOCK: &str = "securityContext: {capabilities: {add: [IPC_LOCK]}}";

    /// What a person sees who has no colours.
    fn drawn(report: &Report, verbose: bool) -> String {
        let options = Options {
            verbose,
            width: 100,
        };
        anstream::adapter::strip_str(&render(report, options)).to_string()
    }

    fn healthy() -> Report {
        report(&graph(&lines(&[RDMA, LOCK])))
    }

    /// What a person sees of these pasted outputs.
    fn of_pasted(answers: &[(&ask::Ask, &str)], verbose: bool) -> String {
        let findings = checks::run(&Inventory::default(), &[pasted(answers)]);
        drawn(
            &Report::new("node", vec![], findings, vec![], vec![]),
            verbose,
        )
    }

    #[test]
    fn pasted_outputs_show_what_was_read_and_fold_what_was_not() {
        let limit = [(&ask::ULIMIT, "unlimited\n")];
        insta::assert_snapshot!(of_pasted(&limit, false), @"
        NOT PROVEN
        Nothing on the KV path failed in the pasted outputs, which prove no lane.

        Read and harmless
            ok  memlock-limited: RLIMIT_MEMLOCK of the shell that printed it is unlimited  [MEM001]

        Observed 1 of 35 checks: 1 ok, 0 warn, 0 fail, 34 skipped. 34 need more than was pasted: add --input
        ibv-devinfo=FILE (15), --input smi-q=FILE (8), --input env=FILE (3), --input ucx-info-devices=FILE
        (2), --input pip=FILE (2). --verbose shows all.
        ");
        let all = of_pasted(&limit, true);
        for words in [
            "skipped gid-index-unusable [RDMA010], selected-nic-unusable [RDMA011], live-variable [ENV012]",
            "no env was pasted (--input env=FILE)",
        ] {
            assert_eq!(all.matches(words).count(), 1, "{words}: {all}");
        }
        assert!(!all.contains("/sys/class"), "{all}");
    }

    #[test]
    fn a_heading_that_is_wider_than_the_screen_goes_on_below() {
        let mut findings = Vec::new();
        for at in 0..6 {
            let mut snapshot = container("decode", &[(&ask::ULIMIT, "64\n")]);
            snapshot.place.pod = format!("a-pod-with-a-long-name-decode-{at}");
            findings.extend(checks::run(&Inventory::default(), &[snapshot]));
        }
        let report = Report::new("node", vec![], findings, vec![], vec![]);
        let text = drawn(&report, false);
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
        assert!(
            text.contains("\n          (decode), a-pod-with-a-long-name-decode-2"),
            "{text}"
        );
    }

    #[test]
    fn a_fail_shows_what_to_fix() {
        let text = graph(&lines(&[RDMA, LOCK, &env(&[("UCX_TLS", "tcp,cuda_copy")])]));
        insta::assert_snapshot!(drawn(&report(&text), false), @r#"
        NOT TRUSTED
        Disaggregated serving with g cannot be trusted; fix first: UCX_TLS=tcp,cuda_copy: no RDMA transport
        (rc, dc, srd) is enabled (on g/p).

        g  untrusted  t.yaml:1
            1 x prefill p (1 GPU, device-plugin)
            1 x decode d (1 GPU, device-plugin)

        Fix first
         1  fail  env:UCX_TLS  p (prefill), d (decode)  [ENV002]
            UCX_TLS="tcp,cuda_copy": no RDMA transport (rc, dc, srd) is enabled, so KV between nodes goes
            over TCP
              --> t.yaml:15:22
               |
            15 |               env: [{name: UCX_TLS, value: "tcp,cuda_copy"}]
               |                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
            fix: write UCX_TLS=rc_x,rc,cuda_copy,cuda_ipc, or remove UCX_TLS

        Observed 14 of 14 checks: 12 ok, 0 warn, 2 fail, 0 skipped.
        "#);
    }

    #[test]
    fn an_object_is_no_file() {
        let mut report = report(&graph(GPU));
        for evidence in report.fix_first.iter_mut().flat_map(|f| &mut f.evidence) {
            evidence.path = Some("Pods of g".to_owned());
        }
        let text = drawn(&report, false);
        assert!(
            text.contains(
                "\n      Pods of g\n        | resources: {limits: {nvidia.com/gpu: 1}}\n"
            ),
            "{text}"
        );
        assert!(!text.contains("Pods of g:"), "{text}");
    }

    #[test]
    fn a_warning_is_worth_a_look() {
        insta::assert_snapshot!(drawn(&report(&graph(GPU)), false), @r#"
        NOT PROVEN
        Disaggregated serving with g is not proven: nothing on its KV path failed, and no transfer was
        observed; look first at: the pod asks for nothing that could carry KV fast (on g/p).

        g  unproven  t.yaml:1
            1 x prefill p (1 GPU)
            1 x decode d (1 GPU)

        Worth a look
         1  warn  no-transport-path  p (prefill), d (decode)  [K8S001]
            the pod asks for no RDMA device, no ComputeDomain and no host device, so as it is written KV can
            only travel over TCP
              --> t.yaml:13:36
               |
            13 |               resources: {limits: {nvidia.com/gpu: 1}}
               |                                    ^^^^^^^^^^^^^^^^^^^
            fix: request the cluster's RDMA resource and add IPC_LOCK, or render the overlay that does
            paste (and the same in d):
                # under spec.components[p].podTemplate.spec.containers[main]
                resources:
                  limits:
                    rdma/ib: "1"  # or the name that your device plugin offers
                securityContext:
                  capabilities:
                    add: [IPC_LOCK]

        Observed 7 of 7 checks: 5 ok, 2 warn, 0 fail, 0 skipped.
        "#);
    }

    #[test]
    fn a_healthy_graph_has_nothing_to_fix() {
        insta::assert_snapshot!(drawn(&healthy(), false), @r#"
        NOT PROVEN
        Disaggregated serving with g is not proven: nothing on its KV path failed, and no transfer was
        observed.

        g  unproven  t.yaml:1
            1 x prefill p (1 GPU, device-plugin)
            1 x decode d (1 GPU, device-plugin)

        Observed 12 of 12 checks: 12 ok, 0 warn, 0 fail, 0 skipped.
        "#);
    }

    #[test]
    fn an_aggregated_graph_has_no_path_to_trust() {
        insta::assert_snapshot!(drawn(&report(&alone(Pod::of(GPU))), false), @r#"
        NOT APPLICABLE
        g is aggregated: no KV cache leaves a worker, so there is no disaggregated path to trust.

        g  not-applicable  t.yaml:1
            1 x agg w (1 GPU)

        Observed 0 of 0 checks: 0 ok, 0 warn, 0 fail, 0 skipped.
        "#);
    }

    #[test]
    fn an_input_that_cannot_be_read_is_named() {
        let error = InputError {
            object: "secret.yaml".into(),
            message: "cannot read it: permission denied; grant read access".into(),
        };
        let note = Note {
            object: "chart/templates/x.yaml".into(),
            message: "a Helm template, not judged; render it first".into(),
        };
        let report = Report::new("env", vec![], vec![], vec![error], vec![note]);
        insta::assert_snapshot!(drawn(&report, false), @"
        NOT PROVEN
        Nothing could be judged; secret.yaml could not be read.

        error: secret.yaml:
            cannot read it: permission denied; grant read access
        note: chart/templates/x.yaml: a Helm template, not judged; render it first
        Observed 0 of 0 checks: 0 ok, 0 warn, 0 fail, 0 skipped.
        ");
    }

    #[test]
    fn verbose_shows_every_finding() {
        insta::assert_snapshot!(drawn(&healthy(), true), @"
        NOT PROVEN
        Disaggregated serving with g is not proven: nothing on its KV path failed, and no transfer was
        observed.

        g  unproven  t.yaml:1
            1 x prefill p (1 GPU, device-plugin)
            1 x decode d (1 GPU, device-plugin)

        All checks
          g
            ok      rdma-resource-differs  [K8S005]
                    both roles request the same RDMA resources
            ok      role-env-differs  [ENV011]
                    p and d have the same transport settings
          g/p (prefill)
            ok      no-transport-path  [K8S001]
                    the pod asks for a fast path: device-plugin
            ok      ipc-lock-missing  [K8S007]
                    the container may lock memory
            ok      rdma-count  [K8S006]
                    1 rdma/ib for 1 GPU
            ok      shm-small  [K8S013]
                    shared memory is the operator's default of 8Gi
            ok      env:disagg-transport  [ENV004]
                    no transport variable that this worker needs is missing; unset UCX and NCCL variables
                    are good defaults
          g/d (decode)
            ok      no-transport-path  [K8S001]
                    the pod asks for a fast path: device-plugin
            ok      ipc-lock-missing  [K8S007]
                    the container may lock memory
            ok      rdma-count  [K8S006]
                    1 rdma/ib for 1 GPU
            ok      shm-small  [K8S013]
                    shared memory is the operator's default of 8Gi
            ok      env:disagg-transport  [ENV004]
                    no transport variable that this worker needs is missing; unset UCX and NCCL variables
                    are good defaults

        Observed 12 of 12 checks: 12 ok, 0 warn, 0 fail, 0 skipped.
        ");
    }

    #[test]
    fn colours_only_support_the_words() {
        let options = Options {
            verbose: false,
            width: 100,
        };
        let coloured = render(&healthy(), options);
        assert!(coloured.contains('\u{1b}'), "there are some");
        assert!(!drawn(&healthy(), false).contains('\u{1b}'));
    }
}
