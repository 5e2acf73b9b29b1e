//! What to fix first, with the lines it rests on and those to paste.

use super::{Options, colour, hanging, paragraph, place, styled};
use crate::ask;
use crate::report::{Evidence, Finding, Fix, Report, Status};
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use anstyle::Style;
use std::fmt::Write as _;

pub(super) fn one_fix(out: &mut String, number: usize, fix: &Fix, report: &Report, width: usize) {
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
        // Each block is headed by its place.
        paragraph(out, "paste:", "    ", width);
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
pub(super) fn undone(out: &mut String, report: &Report, options: Options, width: usize) {
    let undone: Vec<(&Finding, usize)> = report.undone().into_iter().map(|f| (f, 0)).collect();
    unanswered(
        out,
        "Asked for and not shown",
        &undone,
        report,
        options,
        width,
    );
}

/// What trust needs beside the proven lanes, and what would let it be judged.
pub(super) fn open_questions(out: &mut String, report: &Report, options: Options, width: usize) {
    let held = report.open_questions();
    unanswered(
        out,
        "Needed for trust and not judged",
        &held,
        report,
        options,
        width,
    );
}

/// Findings that leave a question open, each with how many more objects it was said of.
fn unanswered(
    out: &mut String,
    title: &str,
    findings: &[(&Finding, usize)],
    report: &Report,
    options: Options,
    width: usize,
) {
    /// More than this are summed up; `--verbose` shows all.
    const SHOWN: usize = 3;
    if findings.is_empty() {
        return;
    }
    let limit = if options.verbose { usize::MAX } else { SHOWN };
    let _ = writeln!(out, "{}", styled(title, Style::new().bold()));
    for (n, (finding, more)) in findings.iter().take(limit).enumerate() {
        if n > 0 {
            out.push('\n');
        }
        let word = styled(finding.status.word(), colour(finding.status));
        let mut on = place(&finding.target, report.workloads.len() > 1);
        if *more > 0 {
            let _ = write!(on, " and {more} more");
        }
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
    if findings.len() > limit {
        let more = findings.len() - limit;
        let _ = writeln!(out, "    and {more} more: --verbose shows all");
    }
    out.push('\n');
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
    // Name and value often stand on two lines. The position is that of the name, as in every other format.
    let text = evidence.excerpt.as_str();
    let column = evidence.column.map_or(0, |column| column as usize - 1);
    let first = text.lines().next().unwrap_or_default();
    let own = first.char_indices().nth(column).map_or(0, |(at, _)| at);
    let until = |line: &str| line.strip_suffix(" ...").unwrap_or(line).len();
    let mut snippet = Snippet::source(text)
        .line_start(line as usize)
        .path(path.as_str())
        .annotation(AnnotationKind::Primary.span(own..until(first).max(own)));
    if let (Some(begin), 2) = (text.rfind('\n'), text.lines().count()) {
        let last = &text[begin + 1..];
        let start = last.len() - last.trim_start().len();
        let span = begin + 1 + start..begin + 1 + until(last).max(start);
        snippet = snippet.annotation(AnnotationKind::Context.span(span));
    }
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
