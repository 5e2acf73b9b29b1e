//! What a deployment in a cluster consists of, in two lines: workers and nodes, versions and ports.

use crate::report::{Fingerprint, Report};
use std::collections::{BTreeMap, BTreeSet};

/// The lines, without indentation. None for anything but a deployment that was looked at in a cluster.
pub(super) fn lines(report: &Report) -> Option<(String, String)> {
    let prints = &report.fingerprint;
    if prints.is_empty() {
        return None;
    }
    let mut roles: BTreeMap<&str, usize> = BTreeMap::new();
    for print in prints {
        *roles
            .entry(print.role.as_deref().unwrap_or("worker"))
            .or_default() += 1;
    }
    // Prefill hands on to decode.
    let mut roles: Vec<(&str, usize)> = roles.into_iter().collect();
    roles.sort_by_key(|(role, _)| std::cmp::Reverse(*role));
    let workers: Vec<String> = roles
        .iter()
        .map(|(role, n)| format!("{n} {role}"))
        .collect();
    let nodes: BTreeSet<&String> = prints.iter().filter_map(|p| p.node.as_ref()).collect();
    let on = match nodes.len() {
        0 => String::new(),
        1 => " on 1 node".to_owned(),
        n => format!(" on {n} nodes"),
    };
    let mut parts = versions(prints);
    parts.extend(ports(prints));
    Some((format!("{}{on}", workers.join(" + ")), parts.join(", ")))
}

/// Versions that tell workers apart: `NIXL 1.3.0`, or `NIXL 1.2.1 and 1.3.0` where they differ.
fn versions(prints: &[Fingerprint]) -> Vec<String> {
    let mut names: BTreeSet<&str> = prints
        .iter()
        .flat_map(|p| p.versions.keys().map(String::as_str))
        .collect();
    names.remove("image");
    let shown = |name: &str| match name {
        "nixl" | "ucx" | "nccl" => name.to_uppercase(),
        other => other.to_owned(),
    };
    names
        .into_iter()
        .map(|name| {
            let all: BTreeSet<&str> = prints
                .iter()
                .filter_map(|p| p.versions.get(name).map(String::as_str))
                .collect();
            let all: Vec<&str> = all.into_iter().collect();
            format!("{} {}", shown(name), all.join(" and "))
        })
        .collect()
}

/// `8 x InfiniBand 400 Gb/s each`, or the range over the workers.
fn ports(prints: &[Fingerprint]) -> Option<String> {
    let mut kinds: BTreeSet<String> = BTreeSet::new();
    let mut counts: BTreeSet<usize> = BTreeSet::new();
    for print in prints {
        let Some(ports) = &print.ports else { continue };
        let active: Vec<_> = ports
            .iter()
            .filter(|p| p.state.as_deref() == Some("ACTIVE"))
            .collect();
        counts.insert(active.len());
        kinds.extend(active.iter().map(|p| {
            let layer = match p.link_layer.as_deref() {
                Some("Ethernet") => "RoCE",
                Some(layer) => layer,
                None => "RDMA",
            };
            match p.gbps {
                Some(rate) => format!("{layer} {rate:.0} Gb/s"),
                None => layer.to_owned(),
            }
        }));
    }
    let (least, most) = (counts.first()?, counts.last()?);
    let count = match least == most {
        true => least.to_string(),
        false => format!("{least} to {most}"),
    };
    let kinds: Vec<String> = kinds.into_iter().collect();
    Some(match kinds.as_slice() {
        [] => "no ACTIVE RDMA port".to_owned(),
        kinds => format!("{count} x {} per worker", kinds.join(" and ")),
    })
}
