//! The variables of each worker and who set them; workers that have the same share a table.

use super::rest;
use super::words::{count, listed};
use crate::report::{EnvReport, LayerReport, Report, VariableReport};
use maud::{Markup, html};
use std::collections::{BTreeMap, HashMap};

/// So many tables.
const TABLES: usize = 24;
/// So many names above a table.
const NAMES: usize = 6;
/// Characters of a value.
const VALUE: usize = 400;

pub(super) fn section(report: &Report) -> Markup {
    let running = running(report);
    let written = written(report);
    html! {
        @if !running.is_empty() {
            h2 { "Environment" }
            div.card {
                p.soft.small {
                    "Variables that decide about the transport, who set them, and what each layer said, from the recipe down to the worker process."
                }
                @for (names, variables) in running.iter().take(TABLES) { (of_running(names, variables, running.len() == 1)) }
                (rest(running.len(), TABLES, "more workers that differ"))
            }
        } @else if !written.is_empty() {
            h2 { "Environment" }
            div.card {
                p.soft.small { "Variables that decide about the transport, as the manifests set them." }
                @for (names, variables) in written.iter().take(TABLES) { (of_manifest(names, variables)) }
                (rest(written.len(), TABLES, "more workers that differ"))
            }
        }
    }
}

/// Workers that run, grouped by what they have; those with drift first.
fn running(report: &Report) -> Vec<(Vec<&str>, &BTreeMap<String, VariableReport>)> {
    let mut groups: Vec<(Vec<&str>, &BTreeMap<String, VariableReport>)> = Vec::new();
    let mut index: HashMap<String, usize> = HashMap::new();
    for environment in &report.environment {
        // Its JSON form is a key that costs one pass over a thousand workers, not a comparison with each.
        let key = serde_json::to_string(&environment.variables).unwrap_or_default();
        let at = *index.entry(key).or_insert_with(|| {
            groups.push((Vec::new(), &environment.variables));
            groups.len() - 1
        });
        groups[at].0.push(&environment.target.name);
    }
    groups.sort_by_key(|(_, variables)| !variables.values().any(|v| v.drifts));
    groups
}

/// Workers as manifests describe them.
fn written(report: &Report) -> Vec<(Vec<String>, &BTreeMap<String, EnvReport>)> {
    let many = report.workloads.len() > 1;
    let workers = report
        .workloads
        .iter()
        .flat_map(|w| w.workers.iter().map(move |k| (w, k)));
    workers
        .filter(|(_, k)| !k.env.is_empty())
        .map(|(w, k)| {
            let name = match many {
                true => format!("{}/{}", w.name, k.name),
                false => k.name.clone(),
            };
            (vec![name], &k.env)
        })
        .collect()
}

fn of_running(names: &[&str], variables: &BTreeMap<String, VariableReport>, open: bool) -> Markup {
    let drift = variables.values().filter(|v| v.drifts).count();
    html! {
        details.printed open[open || drift > 0] {
            summary {
                (listed(names, NAMES)) ": " (count(variables.len(), "variable"))
                @if drift > 0 { " " span.tag.warn { (drift) " with drift" } }
            }
            table.stack {
                thead { tr {
                    th scope="col" { "Variable" } th scope="col" { "Value that counts" } th scope="col" { "Set by" } th scope="col" { "Layers" }
                } }
                tbody {
                    @for (name, v) in variables {
                        tr {
                            th scope="row" { code { (name) } }
                            td { (value(&v.value, &v.reference, v.withheld)) }
                            td data-of="set by" { (v.set_by.unwrap_or("nothing")) @if v.drifts { " " span.tag.warn { "drift" } } }
                            td { (layers(v)) }
                        }
                    }
                }
            }
        }
    }
}

/// What each layer said: layers that agree stand together.
fn layers(v: &VariableReport) -> Markup {
    let same = |a: &LayerReport, b: &LayerReport| {
        (&a.value, &a.reference, a.withheld) == (&b.value, &b.reference, b.withheld)
    };
    let groups: Vec<&[LayerReport]> = v.layers.chunk_by(same).collect();
    html! {
        @for group in &groups {
            @let names: Vec<&str> = group.iter().map(|l| l.layer).collect();
            div {
                span.soft { (names.join(", ")) }
                @if groups.len() > 1 {
                    @if let Some(l) = group.first() { ": " (value(&l.value, &l.reference, l.withheld)) }
                }
            }
        }
    }
}

fn of_manifest(names: &[String], variables: &BTreeMap<String, EnvReport>) -> Markup {
    html! {
        details.printed {
            summary { (listed(names, NAMES)) ": " (count(variables.len(), "variable")) }
            table.stack {
                thead { tr {
                    th scope="col" { "Variable" } th scope="col" { "Value" } th scope="col" { "Set by" } th scope="col" { "Where" }
                } }
                tbody {
                    @for (name, v) in variables {
                        tr {
                            th scope="row" { code { (name) } }
                            td { (value(&v.value, &v.reference, v.withheld)) }
                            td data-of="set by" { (v.from) }
                            td { span.mono { (v.path) ":" (v.line) } }
                        }
                    }
                }
            }
        }
    }
}

fn value(value: &Option<String>, reference: &Option<String>, withheld: Option<bool>) -> Markup {
    html! {
        @match (value, reference, withheld) {
            (Some(value), ..) if value.is_empty() => { span.soft { "(empty)" } }
            (Some(value), ..) => {
                code { (value.chars().take(VALUE).collect::<String>()) }
                @if value.chars().nth(VALUE).is_some() { span.soft { " ..." } }
            }
            (None, Some(reference), _) => { span.soft { "from " } code { (reference) } }
            (None, None, Some(true)) => { span.soft { "(withheld: may carry credentials)" } }
            _ => { span.soft { "(not set)" } }
        }
    }
}
