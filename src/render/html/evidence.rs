//! Every finding and what it rests on, folded; findings that say the same of several objects are one row.

use super::words::{count, listed, place, tag};
use super::{in_code, rest};
use crate::ask;
use crate::report::{Evidence, Finding, Report, SkipReason, Status};
use maud::{Markup, html};
use std::collections::HashMap;

/// So many rows of each status.
const ROWS: usize = 150;
/// So many names in a row.
const NAMES: usize = 6;
/// So many quotes in a row.
const QUOTES: usize = 4;
/// Characters of a quote. Evidence is bounded where it is read; a table of hundreds of rows wants less.
const QUOTE: usize = 2_000;

struct Row<'a> {
    first: &'a Finding,
    on: Vec<String>,
}

pub(super) fn section(report: &Report) -> Markup {
    let blocks = [
        (Status::Fail, "failed"),
        (Status::Warn, "warned"),
        (Status::Skipped, "could not be made"),
        (Status::Ok, "found nothing wrong"),
    ];
    html! {
        @if !report.checks.is_empty() {
            h2 { "Evidence" }
            div.card {
                p.soft.small { "Every check, with what was read. Findings that say the same of several objects share a row." }
                @for (status, words) in blocks { (block(report, status, words)) }
            }
        }
    }
}

fn block(report: &Report, status: Status, words: &str) -> Markup {
    let of: Vec<&Finding> = report
        .checks
        .iter()
        .filter(|f| f.status == status)
        .collect();
    let rows = rows(&of, report.workloads.len() > 1);
    let open = matches!(status, Status::Fail | Status::Warn);
    html! {
        @if !of.is_empty() {
            details class=[open.then_some("printed")] {
                summary { (count(of.len(), "check")) " " (words) }
                table.stack.findings {
                    thead { tr { th scope="col" { "Check" } th scope="col" { "On" } th scope="col" { "What was seen" } } }
                    tbody {
                        @for row in rows.iter().take(ROWS) { (one_row(row)) }
                    }
                }
                (rest(rows.len(), ROWS, "more rows"))
            }
        }
    }
}

/// Findings that differ in their object alone, in the order of the table of checks.
fn rows<'a>(of: &[&'a Finding], with_workload: bool) -> Vec<Row<'a>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    let mut index: HashMap<(&str, &str, &str, Option<SkipReason>), usize> = HashMap::new();
    for f in of {
        let key = (f.id, &*f.name, f.detail.as_str(), f.reason);
        let at = *index.entry(key).or_insert_with(|| {
            rows.push(Row {
                first: f,
                on: Vec::new(),
            });
            rows.len() - 1
        });
        rows[at].on.push(place(&f.target, with_workload));
    }
    rows.sort_by_key(|row| row.first.order);
    rows
}

fn one_row(row: &Row<'_>) -> Markup {
    let f = row.first;
    html! {
        tr {
            th scope="row" {
                (tag(f.status)) " " span.name { (f.name) }
                div.soft.small { (f.id) @if let Some(reason) = f.reason { ", " (reason.words()) } }
            }
            td data-of="on" { (listed(&row.on, NAMES)) }
            td {
                (in_code(&f.detail))
                @if let Some(fix) = &f.fix { div { strong { "Fix: " } (in_code(fix)) } }
                @for evidence in f.evidence.iter().take(QUOTES) { (quote(evidence)) }
            }
        }
    }
}

/// The lines that something rests on: a manifest's with their numbers, a machine's under the read that gave them.
pub(super) fn quote(evidence: &Evidence) -> Markup {
    let text = evidence.excerpt.as_str();
    let cut = text
        .char_indices()
        .nth(QUOTE)
        .map_or(text.len(), |(at, _)| at);
    let text = &text[..cut];
    if let (Some(object), true) = (&evidence.path, evidence.is_of_object()) {
        return html! {
            p.where { code { (object) } }
            pre.quote { (text.trim_start()) }
        };
    }
    let (Some(path), Some(line)) = (&evidence.path, evidence.line) else {
        let read = evidence.ask.as_deref().unwrap_or_default();
        return html! {
            @if !read.is_empty() || !text.is_empty() {
                p.where { "read: " code title=(read) { (shown(read)) } }
                pre.quote { (text) }
            }
        };
    };
    // Name and value often stand on two lines: the last one is meant.
    let lines: Vec<&str> = text.lines().collect();
    let meant = if lines.len() == 2 { 1 } else { 0 };
    // Lines that all begin far to the right are moved to the left together.
    let blanks = |l: &&str| l.len() - l.trim_start_matches(' ').len();
    let indent = lines
        .iter()
        .filter(|l| !l.trim().is_empty())
        .map(blanks)
        .min()
        .unwrap_or(0);
    let widest = (line as usize + lines.len()).to_string().len();
    html! {
        p.where { code { (path) ":" (line) @if let Some(column) = evidence.column { ":" (column) } } }
        pre.quote {
            @for (n, words) in lines.iter().enumerate() {
                @if n > 0 { "\n" }
                span.n { (format!("{:>widest$} | ", line as usize + n)) }
                @if n == meant { (marked(words, indent, evidence.column.filter(|_| meant == 0))) } @else { (words.get(indent..).unwrap_or_default()) }
            }
        }
    }
}

/// A line of which what begins at this column is meant, else all of it.
fn marked(line: &str, indent: usize, column: Option<u32>) -> Markup {
    let first = line.len() - line.trim_start().len();
    let column = column.and_then(|c| (c as usize).checked_sub(1));
    let at = column.map_or(first, |n| {
        line.char_indices().nth(n).map_or(first, |(at, _)| at)
    });
    let at = at.max(indent);
    html! { (line[indent..at]) mark.warn { (line[at..]) } }
}

/// A list of many files is better named by its id.
fn shown(read: &str) -> &str {
    const WIDEST: usize = 60;
    if read.chars().count() > WIDEST {
        ask::id_of(read)
    } else {
        read
    }
}
