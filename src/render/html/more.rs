//! What only some runs have: changes since a baseline, the KV budget, the nodes of the cluster.

use super::rest;
use super::words::{count, listed};
use crate::render::{budget as text_budget, nodes as text_nodes};
use crate::report::{Changes, KvBudget, LaneTime, NodeReport, NodesReport};
use maud::{Markup, html};

/// So many changes.
const CHANGES: usize = 100;
/// So many rows of nodes, and as many ComputeDomains.
const ROWS: usize = 60;
/// So many names in a row, and reasons in a list.
const NAMES: usize = 8;

pub(super) fn changes(changes: &Changes) -> Markup {
    html! {
        h2 { "Since the baseline" }
        div.card {
            p { span.mono { (changes.baseline) } ", which was " strong { (changes.trust) } }
            @if changes.changes.is_empty() {
                p { "Nothing that could be compared has changed." }
            } @else {
                table.stack {
                    thead { tr { th scope="col" { "On" } th scope="col" { "What" } th scope="col" { "Was" } th scope="col" { "Is now" } } }
                    tbody {
                        @for change in changes.changes.iter().take(CHANGES) {
                            tr {
                                th scope="row" { (change.subject) }
                                td { (change.what) }
                                td data-of="was" { (change.was) }
                                td data-of="is now" { (change.now) }
                            }
                        }
                    }
                }
                (rest(changes.changes.len(), CHANGES, "more changes"))
            }
            @if !changes.not_compared.is_empty() {
                p.soft.small { "Not compared: " (listed(&changes.not_compared, NAMES)) "." }
            }
            p.soft.small { "A speed has changed from " (changes.speed_threshold) "." }
        }
    }
}

pub(super) fn budget(budget: &KvBudget) -> Markup {
    let lane = |which: &'static str, lane: &LaneTime| {
        html! {
            tr {
                th scope="row" { (which) }
                td data-of="adds" { strong { (text_budget::time(lane.added_ms)) } }
                td { (lane.of) }
                td { (format!("{:.1} GB/s", lane.gbytes)) ", " (if lane.measured { "measured" } else { "nominal" }) }
            }
        }
    };
    html! {
        h2 { "KV budget" }
        div.card {
            p {
                @match (budget.kv_bytes_per_token, budget.bytes) {
                    (Some(each), Some(all)) => {
                        (text_budget::bytes(each)) " per token × " (budget.isl) " tokens = " strong { (text_budget::bytes(all)) }
                        @if budget.parts > 1 { ", in " (budget.parts) " parts side by side" }
                    }
                    _ => { (budget.isl) " tokens" }
                }
                @if let Some(slo) = budget.slo_ms { "; the first token may take " strong { (slo) " ms" } }
                "."
            }
            @if let Some(slow) = &budget.slowest {
                table.stack {
                    thead { tr { th scope="col" { "Lane" } th scope="col" { "Adds" } th scope="col" { "Over" } th scope="col" { "Rate" } } }
                    tbody {
                        (lane("slowest", slow))
                        @if let Some(fast) = &budget.fastest { (lane("fastest", fast)) }
                    }
                }
            }
            @if !budget.missing.is_empty() { p { "Not known: " (budget.missing.join("; ")) "." } }
            p.soft.small { "Bytes per token: " (budget.bytes_source) ". Parts: " (budget.parts_source) "." }
            @for assumed in &budget.assumed { p.soft.small { "Assumed: " (assumed) } }
            p.soft.small { (budget.formula) }
        }
    }
}

pub(super) fn nodes(found: &NodesReport) -> Markup {
    // Nodes that differ in their name alone say the same thing.
    let mut rows: Vec<(Vec<&str>, &NodeReport, String, Vec<String>)> = Vec::new();
    for node in &found.nodes {
        let (offer, hosts) = (text_nodes::offer(node), text_nodes::hosts(node));
        match rows
            .iter_mut()
            .find(|(_, _, o, h)| *o == offer && *h == hosts)
        {
            Some((names, ..)) => names.push(&node.name),
            None => rows.push((vec![&node.name], node, offer, hosts)),
        }
    }
    html! {
        h2 { "Nodes" }
        div.card {
            p.soft.small { "Allocatable, used or not; taints and selectors are not looked at." }
            @for missing in found.missing.iter().take(NAMES) { p { "Not read: " (missing) } }
            @if !rows.is_empty() {
                table.stack {
                    thead { tr { th scope="col" { "Nodes" } th scope="col" { "Offer" } th scope="col" { "Could host" } } }
                    tbody {
                        @for (names, _, offer, hosts) in rows.iter().take(ROWS) {
                            tr {
                                th scope="row" {
                                    (listed(names, NAMES))
                                    @if names.len() > 1 { div.soft.small { (count(names.len(), "node")) } }
                                }
                                td { (offer) }
                                td { @for line in hosts.iter().take(NAMES) { div { (line) } } }
                            }
                        }
                    }
                }
                (rest(rows.len(), ROWS, "more rows"))
            }
            @if found.others > 0 { p { (count(found.others, "other node")) " without GPUs and RDMA resources." } }
            @for domain in found.compute_domains.iter().take(ROWS) { p { (text_nodes::domain(domain)) } }
        }
    }
}
