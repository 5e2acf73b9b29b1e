//! Transfers as a heat map with numbers: darker is faster, and every cell says in words what it shows.

use super::rest;
use super::words::{Lanes, State, count, rate, short};
use crate::render::pairs as text;
use crate::report::{PairReport, Report};
use maud::{Markup, html};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A map with more ends on one side than this is drawn in blocks.
const ENDS: usize = 24;
/// So many blocks on each side.
const BLOCKS: usize = 12;
/// So many groups of transfers that are not proven, and names in each.
const GROUPS: usize = 12;
const NAMES: usize = 8;
/// So many rows in the folded table of all transfers.
const ROWS: usize = 100;
/// Characters of a name and of a lane in the map.
const NAME: usize = 26;

pub(super) fn section(report: &Report) -> Markup {
    let (made, of) = (&report.pairs.made, report.pairs.of);
    if made.is_empty() {
        return html! {
            @if of > 0 {
                h2 { "Pairs" }
                div.card {
                    p { "No transfer was made: the " (if of == 1 { "lane of the one pair is" } else { "lanes of all pairs are" }) " not proven (" (count(of, "pair")) ")." }
                }
            }
        };
    }
    let lanes = Lanes::of(&report.checks);
    let proven = made.iter().filter(|p| p.proven).count();
    html! {
        h2 { "Pairs" }
        div.card {
            p {
                strong { (proven) " of " (count(of.max(made.len()), "pair")) " proven" }
                @if made.len() < of { "; " (made.len()) " tried, and what was not tried stays unproven" }
                "."
            }
            (map(made, &lanes))
            (not_proven(made, &lanes))
            (all(made, &lanes))
        }
    }
}

/// Initiators down, targets across.
fn map(made: &[PairReport], lanes: &Lanes<'_>) -> Markup {
    let names = |name: fn(&PairReport) -> &String| -> Vec<&str> {
        let all: BTreeSet<&str> = made.iter().map(|p| name(p).as_str()).collect();
        all.into_iter().collect()
    };
    let (rows, columns) = (names(|p| &p.initiator), names(|p| &p.target));
    let fastest = made
        .iter()
        .filter(|p| p.proven)
        .filter_map(|p| p.write_gbytes)
        .fold(0.0, f64::max);
    let single = rows.len() <= ENDS && columns.len() <= ENDS;
    let each = |n: usize| n.div_ceil(if single { n.max(1) } else { BLOCKS });
    html! {
        p.soft.small {
            @if single {
                "From each initiator (rows) to each target (columns); the stronger the colour of a proven pair, the faster."
            } @else {
                (count(rows.len(), "initiator")) " (rows) and " (count(columns.len(), "target")) " (columns), up to "
                (each(rows.len())) " by " (each(columns.len())) " pairs in each cell."
            }
        }
        div.scroll tabindex="0" role="region" aria-label="Heat map of pairs" {
            @if single {
                (cells(made, lanes, &rows, &columns, fastest))
            } @else {
                (blocks(made, lanes, &rows, &columns, fastest))
            }
        }
    }
}

/// How strong the colour of a rate is; the text on it stays readable at any strength.
fn share(rate: f64, fastest: f64) -> String {
    let share = if fastest > 0.0 { rate / fastest } else { 0.0 };
    format!("--share: {:.0}%", 10.0 + 35.0 * share.clamp(0.0, 1.0))
}

fn cells(
    made: &[PairReport],
    lanes: &Lanes<'_>,
    rows: &[&str],
    columns: &[&str],
    fastest: f64,
) -> Markup {
    let by_ends: HashMap<(&str, &str), &PairReport> = made
        .iter()
        .map(|p| ((p.initiator.as_str(), p.target.as_str()), p))
        .collect();
    html! {
        table.heat {
            caption { "WRITE / READ in GB/s" }
            thead { tr {
                th scope="col" { "initiator" }
                @for name in columns { th scope="col" title=(name) { (short(name, NAME)) } }
            } }
            tbody {
                @for row in rows {
                    tr {
                        th scope="row" title=(row) { (short(row, NAME)) }
                        @for column in columns { (cell(by_ends.get(&(*row, *column)).copied(), lanes, fastest)) }
                    }
                }
            }
        }
    }
}

fn cell(pair: Option<&PairReport>, lanes: &Lanes<'_>, fastest: f64) -> Markup {
    let state = pair.map_or(State::NotTried, |p| lanes.state(p));
    let heat = (state == State::Proven)
        .then(|| share(pair.and_then(|p| p.write_gbytes).unwrap_or(0.0), fastest));
    html! {
        td class={ (state.class()) @if state == State::Proven { " proven" } } style=[heat] {
            @if let Some(p) = pair.filter(|p| !p.steps.is_empty() || p.write_gbytes.is_some()) {
                span.rates { (rate(p.write_gbytes)) " / " (rate(p.read_gbytes)) }
            }
            span.word { span aria-hidden="true" { (state.sign()) } " " (state.word()) }
            @if let Some(p) = pair.filter(|p| !p.steps.is_empty()) {
                span.lane title=(p.lane) { (short(&p.lane, NAME)) }
                @if let Some(share) = p.of_line_rate { span.lane { (format!("{:.0} % of line rate", share * 100.0)) } }
            }
        }
    }
}

/// Blocks of neighbours, each with how many of its pairs are proven, what is worst, and the slowest rate.
fn blocks(
    made: &[PairReport],
    lanes: &Lanes<'_>,
    rows: &[&str],
    columns: &[&str],
    fastest: f64,
) -> Markup {
    #[derive(Default)]
    struct Block {
        states: BTreeMap<State, usize>,
        slowest: Option<f64>,
    }
    let (tall, wide) = (rows.len().div_ceil(BLOCKS), columns.len().div_ceil(BLOCKS));
    let at = |names: &[&str], each: usize, name: &str| {
        names.binary_search(&name).map_or(0, |n| n / each)
    };
    let mut found: BTreeMap<(usize, usize), Block> = BTreeMap::new();
    for p in made {
        let key = (at(rows, tall, &p.initiator), at(columns, wide, &p.target));
        let block = found.entry(key).or_default();
        let state = lanes.state(p);
        *block.states.entry(state).or_default() += 1;
        if let (State::Proven, Some(rate)) = (state, p.write_gbytes) {
            block.slowest = Some(block.slowest.map_or(rate, |least: f64| least.min(rate)));
        }
    }
    let label = |names: &[&str]| {
        html! {
            @if let Some(first) = names.first() { div { (short(first, NAME)) } }
            @if names.len() > 1 { @if let Some(last) = names.last() { div { "to " (short(last, NAME)) } } }
        }
    };
    html! {
        table.heat {
            caption { "Slowest WRITE of the proven pairs in GB/s" }
            thead { tr {
                th scope="col" { "initiators" }
                @for names in columns.chunks(wide) { th scope="col" { (label(names)) } }
            } }
            tbody {
                @for (r, names) in rows.chunks(tall).enumerate() {
                    tr {
                        th scope="row" { (label(names)) }
                        @for (c, across) in columns.chunks(wide).enumerate() {
                            @let block = found.get(&(r, c));
                            @let of = names.len() * across.len();
                            @let proven = block.and_then(|b| b.states.get(&State::Proven)).copied().unwrap_or(0);
                            @let tried: usize = block.map_or(0, |b| b.states.values().sum());
                            @let worst = block.and_then(|b| b.states.keys().next_back()).copied();
                            // A block of which a pair was not tried is not proven, however fast the others are.
                            @let worst = worst.max((tried < of).then_some(State::NotTried)).unwrap_or(State::NotTried);
                            @let slowest = block.and_then(|b| b.slowest);
                            @let heat = (worst == State::Proven).then(|| share(slowest.unwrap_or(0.0), fastest));
                            td class={ (worst.class()) @if worst == State::Proven { " proven" } } style=[heat] {
                                @if let Some(rate) = slowest { span.rates { "from " (format!("{rate:.1}")) } }
                                span.lane { (proven) " of " (of) " proven" }
                                @if worst != State::Proven && worst != State::NotTried {
                                    @let n = block.and_then(|b| b.states.get(&worst)).copied().unwrap_or(0);
                                    span.word { span aria-hidden="true" { (worst.sign()) } " " (n) " " (worst.word()) }
                                }
                                @if tried < of { span.lane { (of - tried) " not tried" } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// What is wrong, once for all pairs that share it, the worst first.
fn not_proven(made: &[PairReport], lanes: &Lanes<'_>) -> Markup {
    let mut groups: Vec<(State, Vec<&PairReport>)> = Vec::new();
    let mut index: HashMap<(State, &str, &str), usize> = HashMap::new();
    for p in made {
        let state = lanes.state(p);
        if state == State::Proven {
            continue;
        }
        let at = *index
            .entry((state, p.lane.as_str(), p.memory.as_str()))
            .or_insert_with(|| {
                groups.push((state, Vec::new()));
                groups.len() - 1
            });
        groups[at].1.push(p);
    }
    groups.sort_by_key(|(state, _)| std::cmp::Reverse(*state));
    html! {
        @if !groups.is_empty() {
            ul.plain {
                @for (state, group) in groups.iter().take(GROUPS) {
                    li {
                        span class={ "tag " (state.class()) } { (state.word()) } " "
                        (ends(group, made).join(", ")) ": " (text::carried(group))
                        @if let Some(why) = text::not_proven(group) { "; " (why) }
                    }
                }
            }
            (rest(groups.len(), GROUPS, "more kinds of it"))
        }
    }
}

/// Who they are. Among very many, finding out who stands for all of its pairs costs more than it tells.
fn ends(group: &[&PairReport], made: &[PairReport]) -> Vec<String> {
    const WORTH: usize = 2_000;
    let mut ends: Vec<(String, usize)> = match made.len() <= WORTH {
        true => text::ends(group, made),
        false => {
            let names = group.iter().take(NAMES);
            let named: Vec<(String, usize)> = names
                .map(|p| (format!("{} -> {}", p.initiator, p.target), 1))
                .collect();
            let more = group.len() - named.len();
            let tail = (more > 0).then(|| (format!("and {more} more"), more));
            named.into_iter().chain(tail).collect()
        }
    };
    if ends.len() > NAMES + 1 {
        let more: usize = ends.split_off(NAMES).iter().map(|(_, n)| n).sum();
        ends.push((format!("and {more} more"), more));
    }
    ends.into_iter().map(|(name, _)| name).collect()
}

fn all(made: &[PairReport], lanes: &Lanes<'_>) -> Markup {
    let mut rows: Vec<(State, &PairReport)> = made.iter().map(|p| (lanes.state(p), p)).collect();
    rows.sort_by_key(|(state, _)| std::cmp::Reverse(*state));
    html! {
        details {
            summary { "Every transfer, step by step (" (made.len()) ")" }
            table.stack {
                thead { tr { th scope="col" { "Pair" } th scope="col" { "Lane" } th scope="col" { "Steps" } } }
                tbody {
                    @for (state, p) in rows.iter().take(ROWS) {
                        tr {
                            th scope="row" { (p.initiator) " → " (p.target) }
                            td { span class={ "tag " (state.class()) } { (state.word()) } " " (p.lane) ", " (p.memory) " memory" }
                            td { @for step in &p.steps { div { (step) } } }
                        }
                    }
                }
            }
            (rest(rows.len(), ROWS, "more transfers"))
        }
    }
}
