//! The text a person reads: the answer, the reason, the fix, then the evidence, as a compiler would show it.
//!
//! Words carry the status and colour only supports them, so the text can be pasted into a ticket.

mod findings;
mod fixes;
#[cfg(test)]
mod tests;

use super::{baseline, budget, environment, fleet, nixl, nodes};
use crate::checks::words::counted;
use crate::report::{Report, Status, Trust, WorkerReport, WorkloadReport};
use crate::target::Target;
use anstyle::{AnsiColor, Style};
use findings::{all_findings, coverage, inconclusive, readings};
use fixes::{one_fix, open_questions, undone};
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
    open_questions(&mut out, report, options, width);
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
