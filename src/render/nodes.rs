//! The nodes of the cluster in a table: those that are alike share a row.

use super::text::paragraph;
use crate::checks::words::counted;
use crate::report::{DomainReport, Fast, NodeReport, NodesReport};
use std::fmt::Write;

/// More rows than this are left out, unless everything is shown.
const ROWS: usize = 12;
/// So many names stand in a row.
const NAMES: usize = 3;

/// Draws the section. `heading`: its title, styled.
pub(super) fn render(
    out: &mut String,
    report: &NodesReport,
    heading: &str,
    verbose: bool,
    width: usize,
) {
    let _ = writeln!(
        out,
        "{heading}  allocatable, used or not; taints and selectors are not looked at"
    );
    for missing in &report.missing {
        paragraph(out, &format!("not read: {missing}"), "  ", width);
    }
    // Nodes that differ in their name alone say the same thing.
    let mut rows: Vec<(Vec<&str>, String, Vec<String>)> = Vec::new();
    for node in &report.nodes {
        let (offer, hosts) = (offer(node), hosts(node));
        match rows.iter_mut().find(|(_, o, h)| *o == offer && *h == hosts) {
            Some((names, ..)) => names.push(&node.name),
            None => rows.push((vec![&node.name], offer, hosts)),
        }
    }
    let limit = if verbose { usize::MAX } else { ROWS };
    for (names, offer, hosts) in rows.iter().take(limit) {
        let shown = if verbose { usize::MAX } else { NAMES };
        let mut list = names
            .iter()
            .take(shown)
            .copied()
            .collect::<Vec<_>>()
            .join(", ");
        if names.len() > shown {
            let _ = write!(list, " and {} more", names.len() - shown);
        }
        paragraph(out, &format!("{list}: {offer}"), "  ", width);
        for line in hosts {
            paragraph(out, line, "      ", width);
        }
    }
    if rows.len() > limit {
        let left: usize = rows[limit..].iter().map(|(names, ..)| names.len()).sum();
        let _ = writeln!(
            out,
            "  and {}: --verbose shows all",
            counted(left, "more node")
        );
    }
    if report.others > 0 {
        let _ = writeln!(
            out,
            "  {} other {} without GPUs and RDMA resources",
            report.others,
            if report.others == 1 { "node" } else { "nodes" }
        );
    }
    for domain in &report.compute_domains {
        let _ = writeln!(out, "  {}", self::domain(domain));
    }
    out.push('\n');
}

/// A ComputeDomain in one line.
pub(super) fn domain(domain: &DomainReport) -> String {
    let joined = domain.nodes.len();
    let of = match domain.wanted {
        0 => counted(joined, "node"),
        wanted => format!("{joined} of {}", counted(wanted, "node")),
    };
    let status = match domain.status.as_str() {
        "" => "no status",
        status => status,
    };
    format!("ComputeDomain {}: {status}, {of}", domain.name)
}

/// What a node has, in one line.
pub(super) fn offer(node: &NodeReport) -> String {
    let mut parts = Vec::new();
    match (&node.product, node.gpus) {
        (Some(product), n) => parts.push(format!("{n} x {product}")),
        (None, n) => parts.push(counted(n, "GPU")),
    }
    match node.rdma.is_empty() {
        true => parts.push("no RDMA resource".to_owned()),
        false => parts.extend(node.rdma.iter().map(|(name, n)| format!("{n} {name}"))),
    }
    parts.extend(node.clique.as_ref().map(|c| format!("clique {c}")));
    parts.extend(node.zone.as_ref().map(|z| format!("zone {z}")));
    parts.extend(node.rack.as_ref().map(|r| format!("rack {r}")));
    if !node.schedulable {
        parts.push("takes no pods".to_owned());
    }
    parts.join(", ")
}

/// Which workers it could host on a fast path, and why not the others; workers with the same answer share a line.
pub(super) fn hosts(node: &NodeReport) -> Vec<String> {
    let mut lines: Vec<(Fast, &str, Vec<&str>)> = Vec::new();
    for host in &node.hosts {
        // A yes needs no reason: the line above shows it.
        let reason = match host.fast {
            Fast::Yes => "",
            _ => host.reason.as_str(),
        };
        match lines
            .iter_mut()
            .find(|(fast, why, _)| *fast == host.fast && *why == reason)
        {
            Some((.., names)) => names.push(&host.component),
            None => lines.push((host.fast, reason, vec![&host.component])),
        }
    }
    lines
        .into_iter()
        .map(|(fast, reason, names)| {
            let names = names.join(", ");
            match fast {
                Fast::Yes => format!("fast path for {names}"),
                Fast::No => format!("no fast path for {names}: {reason}"),
                Fast::Unknown => format!("fast path for {names} not known: {reason}"),
            }
        })
        .collect()
}
