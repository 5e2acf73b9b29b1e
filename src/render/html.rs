//! A page to look at, to hand on and to print: one file without scripts, in the order of the text report.
//!
//! Text from outside is escaped by the template wherever it stands; what could act on a reader although it is escaped
//! (bidirectional and invisible controls) is written out at the very end. Every list has a bound, so that a thousand
//! workers are still one page.

mod environment;
mod evidence;
mod more;
mod pairs;
mod picture;
mod topology;
mod words;

use super::fleet;
use crate::report::{Evidence, Fix, Report, Status};
use crate::sanitise;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use std::collections::BTreeMap;
use words::{count, listed, place, tag};

/// At most this many fixes are drawn.
const FIXES: usize = 40;
/// Of one check so many are drawn side by side; of more the first stands for the others.
const ALIKE: usize = 4;
/// So many names stand in a list.
const NAMES: usize = 8;
/// So many deployments stand in the table, the worst first.
const DEPLOYMENTS: usize = 100;
/// So many errors, and as many notes.
const REMARKS: usize = 50;
/// So many quotes of each kind below a fix.
const QUOTES: usize = 3;
/// Where the rest is.
const REST: &str = "the JSON form (-o json) holds all of them";

/// Fixes with their numbers.
type Numbered<'a> = &'a [(usize, &'a Fix)];

/// Draws a report as one HTML file.
pub fn render(report: &Report) -> String {
    let (word, _) = words::trust(report.trust);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                // Belt and braces: not even escaped text could ever load or run anything.
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="referrer" content="no-referrer";
                title { (word) ": " (subject(report)) ", " (report.tool.name) }
                style { (PreEscaped(include_str!("html/style.css"))) }
            }
            body {
                main { (content(report)) }
                footer {
                    "Written by " (report.tool.name) " " (report.tool.version) ", command "
                    code { (report.command) } "."
                }
            }
        }
    };
    sanitise::visible(&page.into_string())
}

/// What the report is about, in a few words.
fn subject(report: &Report) -> String {
    match (report.workloads.as_slice(), report.targets.as_slice()) {
        ([one], _) => one.name.clone(),
        ([], [one]) => one.target.name.clone(),
        ([], []) => "interconnect".to_owned(),
        ([], many) => count(many.len(), "container"),
        (many, _) => count(many.len(), "deployment"),
    }
}

fn content(report: &Report) -> Markup {
    html! {
        (verdict(report))
        (errors(report))
        (fixes(report, "Fix first", Status::Fail))
        (fixes(report, "Worth a look", Status::Warn))
        (open_questions(report))
        (deployments(report))
        (topology::section(report))
        (pairs::section(report))
        @if let Some(changes) = &report.changes { (more::changes(changes)) }
        @if let Some(budget) = &report.kv_budget { (more::budget(budget)) }
        @if let Some(nodes) = &report.nodes { (more::nodes(nodes)) }
        (environment::section(report))
        (evidence::section(report))
        (notes(report))
    }
}

fn verdict(report: &Report) -> Markup {
    let (word, class) = words::trust(report.trust);
    let (n, c) = (&report.counts, &report.coverage);
    html! {
        header class={ "card verdict " (class) } {
            h1 {
                span.what { "Interconnect of " span.name { (subject(report)) } }
                span.word { (word) }
            }
            p { (report.verdict) }
            @if let Some(next) = &report.next { p { strong { "Next: " } (in_code(next)) "." } }
            ul.counts.small {
                li { "Observed " (c.observed) " of " (c.applicable) " checks:" }
                @for (status, n) in [(Status::Fail, n.fail), (Status::Warn, n.warn), (Status::Skipped, n.skipped), (Status::Ok, n.ok)] {
                    li { (n) " " @if n > 0 { (tag(status)) } @else { span.tag.none { (status.word()) } } }
                }
            }
            @if !report.not_seen.is_empty() {
                p.soft.small {
                    "Not to be seen from pods: "
                    @for (n, unseen) in report.not_seen.iter().enumerate() {
                        @if n > 0 { ", " }
                        (unseen.what) " (" code { "explain " (unseen.topic) } ")"
                    }
                    "."
                }
            }
        }
    }
}

/// Text in which commands stand between backquotes. Their options stay whole at the end of a line.
fn in_code(text: &str) -> Markup {
    html! {
        @for (n, part) in text.split('`').enumerate() {
            @if n % 2 == 1 {
                code {
                    @for (n, word) in part.split(' ').enumerate() {
                        @if n > 0 { " " }
                        @if word.starts_with('-') && word.len() < 24 { span.whole { (word) } } @else { (word) }
                    }
                }
            } @else { (part) }
        }
    }
}

fn errors(report: &Report) -> Markup {
    let mut of_another_kind = report.errors.iter().map(|e| e.trouble().1);
    let heading = match of_another_kind.any(|what| what != "could not be read") {
        true => "Could not be read or done",
        false => "Could not be read",
    };
    remarks(
        heading,
        report
            .errors
            .iter()
            .map(|e| (e.object.as_str(), e.message.as_str()))
            .collect(),
    )
}

fn notes(report: &Report) -> Markup {
    remarks(
        "Notes",
        report
            .notes
            .iter()
            .map(|n| (n.object.as_str(), n.message.as_str()))
            .collect(),
    )
}

fn remarks(title: &str, all: Vec<(&str, &str)>) -> Markup {
    html! {
        @if !all.is_empty() {
            h2 { (title) }
            div.card {
                ul.plain {
                    @for (object, message) in all.iter().take(REMARKS) {
                        // Below the sentence may stand the line that it is about, with a mark under the place.
                        @let (sentence, excerpt) = message.split_once('\n').unwrap_or((message, ""));
                        li {
                            strong.name { (object) } ": " (in_code(sentence))
                            @if !excerpt.is_empty() { pre.quote { (excerpt) } }
                        }
                    }
                }
                (rest(all.len(), REMARKS, "more"))
            }
        }
    }
}

/// What trust needs beside the proven lanes, and what would let it be judged.
fn open_questions(report: &Report) -> Markup {
    let held = report.open_questions();
    html! {
        @if !held.is_empty() {
            h2 { "Needed for trust and not judged" }
            div.card {
                ul.plain {
                    @for (finding, more) in held.iter().take(REMARKS) {
                        li {
                            (tag(finding.status)) " " strong.name { (finding.name) } " "
                            span.soft { (place(&finding.target, false)) @if *more > 0 { " and " (more) " more" } }
                            ": " (in_code(&finding.detail))
                            @if let Some(fix) = &finding.fix { div { strong { "Fix: " } (in_code(fix)) } }
                        }
                    }
                }
                (rest(held.len(), REMARKS, "more"))
            }
        }
    }
}

/// Says what was left out.
fn rest(len: usize, shown: usize, what: &str) -> Markup {
    html! {
        @if len > shown {
            p.soft { "and " (len - shown) " " (what) ": " (REST) "." }
        }
    }
}

fn fixes(report: &Report, title: &str, status: Status) -> Markup {
    // Where one check says something different of many objects, the first stands for them all.
    let mut cards: Vec<Vec<(usize, &Fix)>> = Vec::new();
    let mut index: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let all = (1..).zip(&report.fix_first);
    for (number, fix) in all.filter(|(_, fix)| fix.status == status) {
        let at = *index.entry((fix.id, &fix.name)).or_insert_with(|| {
            cards.push(Vec::new());
            cards.len() - 1
        });
        cards[at].push((number, fix));
    }
    let mut shown: Vec<(usize, &Fix, Numbered<'_>)> = Vec::new();
    for card in &cards {
        match card.as_slice() {
            [(number, first), rest @ ..] if card.len() > ALIKE => {
                shown.push((*number, first, rest))
            }
            few => shown.extend(few.iter().map(|(number, fix)| (*number, *fix, &[][..]))),
        }
    }
    shown.sort_by_key(|(number, ..)| *number);
    html! {
        @if !shown.is_empty() {
            h2 { (title) }
            @for (number, fix, alike) in shown.iter().take(FIXES) { (one_fix(*number, fix, alike, report)) }
            (rest(shown.len(), FIXES, "more"))
        }
    }
}

fn one_fix(number: usize, fix: &Fix, alike: Numbered<'_>, report: &Report) -> Markup {
    let (written, read): (Vec<&Evidence>, Vec<&Evidence>) =
        fix.evidence.iter().partition(|e| e.line.is_some());
    html! {
        article class={ "card fix " (fix.status.word()) } {
            h3 {
                span.number { (number) }
                (tag(fix.status))
                span.name { (fix.name) }
                // Of pasted outputs there is one place, and it needs no name.
                @if !fix.target.is_pasted() { span.on { "on " (on(fix, report)) } }
                span.id { (fix.id) }
            }
            p { (in_code(&fix.detail)) }
            @if let Some(action) = &fix.fix { p { strong { "Fix: " } (in_code(action)) } }
            // Where to change it stands beside what to put there; what was read of machines is folded.
            @for evidence in written.iter().take(QUOTES) { (evidence::quote(evidence)) }
            @if let Some(paste) = &fix.paste {
                p.label { "Paste (one click selects it all)" }
                pre.paste { code { (paste) } }
            }
            (follows(fix))
            @if !read.is_empty() {
                details {
                    summary { "What was read" }
                    @for evidence in read.iter().take(QUOTES) { (evidence::quote(evidence)) }
                }
            }
            @if !alike.is_empty() {
                details.printed {
                    summary { "The same check, " (alike.len()) " more times" }
                    ul.plain {
                        @for (number, fix) in alike.iter().take(FIXES) {
                            li {
                                strong { (number) " on " (on(fix, report)) } ": " (in_code(&fix.detail))
                                @if let Some(paste) = &fix.paste { pre.paste { code { (paste) } } }
                            }
                        }
                    }
                    (rest(alike.len(), FIXES, "more"))
                }
            }
        }
    }
}

/// All objects of a fix.
fn on(fix: &Fix, report: &Report) -> String {
    let mut on = vec![place(&fix.target, report.workloads.len() > 1)];
    on.extend(fix.also.iter().map(|also| place(also, false)));
    listed(&on, NAMES)
}

/// What follows from a cause: findings of one name stand together, and their words are folded.
fn follows(fix: &Fix) -> Markup {
    let mut order: Vec<&str> = Vec::new();
    let mut by_name: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for c in &fix.consequences {
        let own = by_name.entry(&c.name).or_default();
        if own.is_empty() {
            order.push(&c.name);
        }
        own.push((&c.target.name, &c.detail));
    }
    let groups = order
        .iter()
        .filter_map(|name| Some((*name, by_name.get(*name)?)));
    html! {
        @if !order.is_empty() {
            details.printed {
                summary { "Follows from it: " span.plain { (listed(&order, NAMES)) } }
                ul.plain {
                    @for (name, on) in groups.take(FIXES) {
                        @let names: Vec<&str> = on.iter().map(|(target, _)| *target).collect();
                        li {
                            strong { (name) } " " span.soft { "on " (listed(&names, NAMES)) }
                            @if let Some((_, detail)) = on.first() { ": " (in_code(detail)) }
                        }
                    }
                }
                (rest(order.len(), FIXES, "more"))
            }
        }
    }
}

/// What was judged, one row each: a deployment in a cluster with its versions, one in a file with its place.
fn deployments(report: &Report) -> Markup {
    let mut all: Vec<_> = report.workloads.iter().collect();
    all.sort_by_key(|w| std::cmp::Reverse(w.trust));
    let lines = fleet::lines(report);
    html! {
        @if !all.is_empty() {
            h2 { (if all.len() == 1 { "Deployment" } else { "Deployments" }) }
            div.card {
                table.stack {
                    thead { tr {
                        th scope="col" { "Name" } th scope="col" { "Trust" } th scope="col" { "Workers" } th scope="col" { "Where" }
                    } }
                    tbody {
                        @for w in all.iter().take(DEPLOYMENTS) {
                            @let (word, class) = words::trust(w.trust);
                            tr {
                                th scope="row" { (w.name) }
                                td { span class={ "tag " (class) } { (word.to_lowercase()) } }
                                td {
                                    @for worker in w.workers.iter().take(NAMES) {
                                        div { (crate::render::text::worker(worker)) }
                                    }
                                    @if w.workers.len() > NAMES { div.soft { "and " (w.workers.len() - NAMES) " more" } }
                                }
                                td {
                                    @if let Some((fleet, versions)) = &lines {
                                        div { (fleet) }
                                        div.soft { (versions) }
                                        @if let Some(namespace) = &w.namespace { div.soft { "namespace " (namespace) } }
                                    } @else {
                                        span.mono { (w.source.path) ":" (w.source.line) }
                                    }
                                }
                            }
                        }
                    }
                }
                (rest(all.len(), DEPLOYMENTS, "more deployments"))
            }
        }
    }
}
