//! The picture: nodes, the pods on them with their GPUs and RDMA ports, and between prefill and decode the lanes with
//! their real state. Every line differs in its dashes as well as in its colour, and the same is said in words below.

use super::picture;
use super::words::{Lanes, State, count, listed, rate};
use crate::report::{Fingerprint, PairReport, PortPrint, Report, Trust, WorkloadReport};
use maud::{Markup, html};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// More pods on one side than this are drawn as one box for each component.
const PODS: usize = 8;
/// So many pictures, where several deployments were judged: the worst.
const PICTURES: usize = 4;

/// Which side of the picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Side {
    /// Gives KV away: prefill, encode.
    Left,
    /// Takes it: decode, pd, and who has no part in it.
    Right,
}

/// One pod, or several of one component.
pub(super) struct Pod {
    pub(super) name: String,
    pub(super) component: String,
    pub(super) role: String,
    pub(super) side: Side,
    pub(super) nodes: BTreeSet<String>,
    pub(super) members: usize,
    pub(super) gpus: Option<u64>,
    /// None where that was not looked at.
    pub(super) ports: Option<Vec<PortPrint>>,
    /// What its spec asks for, where nothing runs.
    pub(super) asks: Option<String>,
    pub(super) trust: Option<Trust>,
}

/// All lanes between two boxes.
pub(super) struct Line<'a> {
    pub(super) left: usize,
    pub(super) right: usize,
    pub(super) states: BTreeMap<State, usize>,
    /// The transfer, where there is exactly one pair.
    pub(super) made: Option<&'a PairReport>,
}

impl Line<'_> {
    pub(super) fn worst(&self) -> State {
        self.states
            .keys()
            .next_back()
            .copied()
            .unwrap_or(State::NotTried)
    }
}

pub(super) struct Picture<'a> {
    pub(super) pods: Vec<Pod>,
    pub(super) lines: Vec<Line<'a>>,
}

pub(super) fn section(report: &Report) -> Markup {
    let pictures: Vec<(Option<&WorkloadReport>, Picture<'_>)> =
        match (report.fingerprint.is_empty(), report.pairs.made.is_empty()) {
            (true, true) => {
                let mut all: Vec<_> = report
                    .workloads
                    .iter()
                    .filter(|w| w.disaggregated)
                    .collect();
                all.sort_by_key(|w| std::cmp::Reverse(w.trust));
                all.iter()
                    .take(PICTURES)
                    .map(|w| (Some(*w), written(w)))
                    .collect()
            }
            _ => vec![(None, running(report))],
        };
    html! {
        @if !pictures.is_empty() {
            h2 { "Topology" }
            @for (n, (workload, picture)) in pictures.iter().enumerate() {
                div.card {
                    @if pictures.len() > 1 { @if let Some(w) = workload { h3 { (w.name) } } }
                    (figure(n, &label(n, &pictures), picture))
                }
            }
        }
    }
}

/// What a picture is called. Who goes from one part of the page to the next hears nothing else, so no two are called alike.
fn label(n: usize, pictures: &[(Option<&WorkloadReport>, Picture<'_>)]) -> String {
    let name = |at: usize| {
        pictures
            .get(at)
            .and_then(|(w, _)| w.map(|w| w.name.as_str()))
    };
    match name(n) {
        Some(own) if pictures.len() > 1 => {
            let before = (0..n).filter(|at| name(*at) == Some(own)).count();
            let which = if before > 0 {
                format!(" ({})", before + 1)
            } else {
                String::new()
            };
            format!("Picture of the topology of {own}{which}")
        }
        _ => "Picture of the topology".to_owned(),
    }
}

/// The workers of a manifest: nothing runs, so no lane was tried.
fn written(workload: &WorkloadReport) -> Picture<'static> {
    let pods: Vec<Pod> = workload
        .workers
        .iter()
        .map(|w| Pod {
            name: w.name.clone(),
            component: w.name.clone(),
            role: w.role.clone(),
            side: side(&w.role),
            nodes: BTreeSet::new(),
            members: usize::try_from(w.replicas).unwrap_or(usize::MAX),
            gpus: w.gpus,
            ports: None,
            asks: Some(match w.reach.is_empty() {
                true => "asks for no fast path".to_owned(),
                false => w.reach.join(", "),
            }),
            trust: None,
        })
        .collect();
    let lines = lines(&pods, &[], &Lanes::of(&[]), workload.disaggregated);
    folded(pods, lines, &[], &Lanes::of(&[]), workload.disaggregated)
}

/// The pods that were looked at, and the ends of transfers.
fn running(report: &Report) -> Picture<'_> {
    let lanes = Lanes::of(&report.checks);
    let made = &report.pairs.made;
    let trust: HashMap<&str, Trust> = report
        .targets
        .iter()
        .map(|t| (t.target.name.as_str(), t.trust))
        .collect();
    let gpus: HashMap<&str, Option<u64>> = report
        .workloads
        .iter()
        .flat_map(|w| w.workers.iter().map(|k| (k.name.as_str(), k.gpus)))
        .collect();
    let mut pods: Vec<Pod> = report
        .fingerprint
        .iter()
        .map(|print| of_print(print, &gpus, &trust))
        .collect();
    let roles: HashMap<&str, &str> = report
        .targets
        .iter()
        .filter_map(|t| Some((t.target.name.as_str(), t.target.role.as_deref()?)))
        .collect();
    let mut known: BTreeSet<String> = pods.iter().map(|p| p.name.clone()).collect();
    for p in made {
        for (name, fallback) in [(&p.target, Side::Left), (&p.initiator, Side::Right)] {
            if !known.insert(name.clone()) {
                continue;
            }
            let role = roles.get(name.as_str()).copied();
            let part = if fallback == Side::Left {
                "target"
            } else {
                "initiator"
            };
            pods.push(Pod {
                name: name.clone(),
                component: role.unwrap_or(part).to_owned(),
                role: role.unwrap_or(part).to_owned(),
                side: role.map_or(fallback, side),
                nodes: BTreeSet::new(),
                members: 1,
                gpus: None,
                ports: None,
                asks: None,
                trust: trust.get(name.as_str()).copied(),
            });
        }
    }
    let expected = report.workloads.iter().any(|w| w.disaggregated);
    let drawn = lines(&pods, made, &lanes, expected);
    folded(pods, drawn, made, &lanes, expected)
}

fn of_print(
    print: &Fingerprint,
    gpus: &HashMap<&str, Option<u64>>,
    trust: &HashMap<&str, Trust>,
) -> Pod {
    let role = print.role.as_deref().unwrap_or("worker");
    let component = print.component.as_deref().unwrap_or(role);
    Pod {
        name: print.pod.clone(),
        component: component.to_owned(),
        role: role.to_owned(),
        side: side(role),
        nodes: print.node.iter().cloned().collect(),
        members: 1,
        gpus: gpus.get(component).copied().flatten(),
        ports: print.ports.clone(),
        asks: None,
        trust: trust.get(print.pod.as_str()).copied(),
    }
}

fn side(role: &str) -> Side {
    match role {
        "prefill" | "encode" => Side::Left,
        _ => Side::Right,
    }
}

/// Does KV go from one to the other? Embeddings from encode count where no prefill does.
fn meant(left: &Pod, right: &Pod, prefill: bool) -> bool {
    match (left.role.as_str(), right.role.as_str()) {
        ("prefill", "decode") => true,
        ("encode", "pd" | "decode" | "agg") => !prefill,
        _ => false,
    }
}

/// The lanes between the boxes: those that were tried, and those that were meant and were not.
fn lines<'a>(
    pods: &[Pod],
    made: &'a [PairReport],
    lanes: &Lanes<'_>,
    expected: bool,
) -> Vec<Line<'a>> {
    if [Side::Left, Side::Right]
        .iter()
        .any(|s| pods.iter().filter(|p| p.side == *s).count() > PODS)
    {
        return Vec::new();
    }
    let at: HashMap<&str, usize> = pods
        .iter()
        .enumerate()
        .map(|(n, p)| (p.name.as_str(), n))
        .collect();
    between(pods, made, lanes, expected, |name| at.get(name).copied())
}

fn between<'a>(
    pods: &[Pod],
    made: &'a [PairReport],
    lanes: &Lanes<'_>,
    expected: bool,
    at: impl Fn(&str) -> Option<usize>,
) -> Vec<Line<'a>> {
    let mut found: BTreeMap<(usize, usize), Line<'a>> = BTreeMap::new();
    for p in made {
        let (Some(a), Some(b)) = (at(&p.initiator), at(&p.target)) else {
            continue;
        };
        let (left, right) = match (pods[a].side, pods[b].side) {
            (Side::Right, Side::Left) => (b, a),
            (Side::Left, Side::Right) => (a, b),
            _ => continue,
        };
        let line = found.entry((left, right)).or_insert_with(|| Line {
            left,
            right,
            states: BTreeMap::new(),
            made: Some(p),
        });
        if !line.states.is_empty() {
            line.made = None;
        }
        *line.states.entry(lanes.state(p)).or_default() += 1;
    }
    let prefill = pods.iter().any(|p| p.role == "prefill");
    for (l, left) in pods
        .iter()
        .enumerate()
        .filter(|(_, p)| p.side == Side::Left)
    {
        for (r, right) in pods
            .iter()
            .enumerate()
            .filter(|(_, p)| p.side == Side::Right)
        {
            if !expected || !meant(left, right, prefill) {
                continue;
            }
            let line = found.entry((l, r)).or_insert_with(|| Line {
                left: l,
                right: r,
                states: BTreeMap::new(),
                made: None,
            });
            let tried: usize = line.states.values().sum();
            let left_out = left
                .members
                .saturating_mul(right.members)
                .saturating_sub(tried);
            if left_out > 0 {
                line.states.insert(State::NotTried, left_out);
                line.made = None;
            }
        }
    }
    found.into_values().collect()
}

/// The same, with one box for each component (or each role, where even those are many) once there are many pods.
fn folded<'a>(
    pods: Vec<Pod>,
    lines: Vec<Line<'a>>,
    made: &'a [PairReport],
    lanes: &Lanes<'_>,
    expected: bool,
) -> Picture<'a> {
    let most = |keys: &dyn Fn(&Pod) -> String| {
        let sides = [Side::Left, Side::Right].map(|s| {
            let own: BTreeSet<String> = pods.iter().filter(|p| p.side == s).map(keys).collect();
            own.len()
        });
        sides.into_iter().max().unwrap_or(0)
    };
    if most(&|p| p.name.clone()) <= PODS {
        return Picture { pods, lines };
    }
    let by_component = most(&|p| p.component.clone()) <= PODS;
    let key = |p: &Pod| {
        if by_component {
            p.component.clone()
        } else {
            p.role.clone()
        }
    };
    let mut boxes: Vec<Pod> = Vec::new();
    let mut index: HashMap<(Side, String), usize> = HashMap::new();
    let mut at: HashMap<String, usize> = HashMap::new();
    for pod in pods {
        // Roles beyond those that are known are few: their names come from the operator.
        let place = (pod.side, key(&pod));
        if let Some(&n) = index.get(&place) {
            at.insert(pod.name.clone(), n);
            join(&mut boxes[n], pod);
        } else {
            at.insert(pod.name.clone(), boxes.len());
            index.insert(place, boxes.len());
            boxes.push(Pod {
                name: key(&pod),
                ..pod
            });
        }
    }
    let lines = between(&boxes, made, lanes, expected, |name| at.get(name).copied());
    Picture { pods: boxes, lines }
}

/// Takes another pod into a box: what differs is shown at its worst.
fn join(into: &mut Pod, pod: Pod) {
    into.members = into.members.saturating_add(pod.members);
    into.nodes.extend(pod.nodes);
    into.gpus = into.gpus.min(pod.gpus);
    into.trust = into.trust.max(pod.trust);
    let active = |ports: &Option<Vec<PortPrint>>| {
        ports.as_deref().map(|p| p.iter().filter(|p| up(p)).count())
    };
    if active(&pod.ports) < active(&into.ports) {
        into.ports = pod.ports;
    }
}

pub(super) fn up(port: &PortPrint) -> bool {
    port.state.as_deref() == Some("ACTIVE")
}

/// The ports in words.
pub(super) fn ports(pod: &Pod) -> String {
    let Some(ports) = &pod.ports else {
        return pod
            .asks
            .clone()
            .unwrap_or_else(|| "RDMA ports not known".to_owned());
    };
    let active: Vec<&PortPrint> = ports.iter().filter(|p| up(p)).collect();
    let kinds: BTreeSet<String> = active
        .iter()
        .map(|p| {
            let layer = match p.link_layer.as_deref() {
                Some("Ethernet") => "RoCE",
                Some("InfiniBand") => "IB",
                Some(layer) => layer,
                None => "RDMA",
            };
            p.gbps
                .map_or(layer.to_owned(), |rate| format!("{layer} {rate:.0} Gb/s"))
        })
        .collect();
    let kinds: Vec<String> = kinds.into_iter().collect();
    match (ports.len(), active.len()) {
        (0, _) => "no RDMA port".to_owned(),
        (n, 0) => format!("none of {n} RDMA ports ACTIVE"),
        (n, up) if n > up => format!("{up} of {n} × {}", listed(&kinds, 1)),
        (n, _) => format!("{n} × {}", listed(&kinds, 1)),
    }
}

pub(super) fn gpus(pod: &Pod) -> String {
    pod.gpus.map_or("GPUs not stated".to_owned(), |n| {
        format!("{n} GPU{}", if n == 1 { "" } else { "s" })
    })
}

/// All but the picture: legend, and the same in words.
fn figure(number: usize, label: &str, picture: &Picture<'_>) -> Markup {
    let mut states: BTreeMap<State, usize> = BTreeMap::new();
    for line in &picture.lines {
        for (state, n) in &line.states {
            let known = states.entry(*state).or_default();
            *known = known.saturating_add(*n);
        }
    }
    let summary = match states.is_empty() {
        true => "no lane between them".to_owned(),
        false => {
            let parts: Vec<String> = State::ALL
                .iter()
                .filter_map(|s| Some(format!("{} {}", states.get(s)?, s.word())))
                .collect();
            format!("lanes: {}", parts.join(", "))
        }
    };
    let of = |side| -> usize {
        let own = picture.pods.iter().filter(|p| p.side == side);
        own.fold(0, |sum, p| sum.saturating_add(p.members))
    };
    let description = format!(
        "{} on the left, {} on the right; {summary}.",
        count(of(Side::Left), "worker"),
        count(of(Side::Right), "worker"),
    );
    html! {
        figure {
            // A phone shows a part of it in a size that can be read, and scrolls to the rest.
            div.scroll.drawing tabindex="0" role="region" aria-label=(label) {
                (picture::svg(number, picture, &description))
            }
            figcaption {
                ul.legend {
                    @for state in State::ALL {
                        @if let Some(n) = states.get(&state) {
                            li {
                                svg class=(state.class()) viewBox="0 0 44 12" aria-hidden="true" focusable="false" {
                                    path class={ "lane " (state.class()) } d="M1 6H43" {}
                                }
                                (n) " " (state.word())
                            }
                        }
                    }
                }
            }
        }
        details {
            summary { "The picture in words" }
            p { (description) }
            table.stack {
                thead { tr {
                    th scope="col" { "Worker" } th scope="col" { "Role" } th scope="col" { "Node" } th scope="col" { "GPUs" } th scope="col" { "RDMA ports" }
                } }
                tbody {
                    @for pod in &picture.pods {
                        tr {
                            th scope="row" { (pod.name) @if pod.members != 1 { " × " (pod.members) } }
                            td data-of="role" { (pod.role) }
                            td data-of="node" { (placed(pod)) }
                            td { (gpus(pod)) }
                            td { (ports(pod)) }
                        }
                    }
                }
            }
            @if picture.lines.len() <= PODS * PODS {
                ul.plain {
                    @for line in &picture.lines {
                        li { (picture.pods[line.left].name) " to " (picture.pods[line.right].name) ": " (in_words(line)) }
                    }
                }
            }
        }
    }
}

fn placed(pod: &Pod) -> String {
    let names: Vec<&String> = pod.nodes.iter().collect();
    match names.as_slice() {
        [] => "not known".to_owned(),
        few if few.len() <= 2 => listed(few, 2),
        many => count(many.len(), "node"),
    }
}

fn in_words(line: &Line<'_>) -> String {
    match line.made {
        Some(p) => {
            let rates = match (p.write_gbytes, p.read_gbytes) {
                (None, None) => String::new(),
                (write, read) => format!(", {} / {} GB/s", rate(write), rate(read)),
            };
            format!("{} ({}{rates})", line.worst().word(), p.lane)
        }
        None => {
            let parts: Vec<String> = State::ALL
                .iter()
                .filter_map(|s| match line.states.get(s)? {
                    1 => Some(s.word().to_owned()),
                    n => Some(format!("{n} {}", s.word())),
                })
                .collect();
            parts.join(", ")
        }
    }
}
