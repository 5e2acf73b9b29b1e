//! Drawing of the topology: where everything goes, and the SVG of it.

use super::topology::{Line, Picture, Pod, Side, gpus, ports, up};
use super::words::{State, count, rate, short};
use crate::report::Trust;
use maud::{Markup, html};
use std::collections::BTreeSet;

/// So many lanes carry words of their own.
const WORDED: usize = 6;

// Sizes in the units of the view box; a phone shows it at about two thirds.
const POD_WIDE: usize = 184;
const POD_HIGH: usize = 88;
const PAD: usize = 8;
const NODE_HEAD: usize = 22;
const GAP: usize = 12;
const MIDDLE: usize = 168;
const WIDE: usize = 2 * (POD_WIDE + 2 * PAD) + MIDDLE + 2;

/// A node with the pods that are drawn on it.
#[derive(Default)]
struct Node {
    name: String,
    pods: Vec<usize>,
    columns: BTreeSet<Side>,
}

/// Where everything is.
struct Layout {
    nodes: Vec<(Node, usize, usize)>,
    /// Left upper corner of each pod.
    pods: Vec<(usize, usize)>,
    high: usize,
}

fn x_of(side: Side) -> usize {
    match side {
        Side::Left => 1 + PAD,
        Side::Right => 1 + PAD + POD_WIDE + PAD + MIDDLE + PAD,
    }
}

/// Nodes with pods of both sides span the picture and come first; the others stand below each other on their side.
fn layout(pods: &[Pod]) -> Layout {
    let mut nodes: Vec<Node> = Vec::new();
    for (n, pod) in pods.iter().enumerate() {
        let name = match pod.nodes.len() {
            0 => String::new(),
            1 => pod.nodes.iter().next().cloned().unwrap_or_default(),
            many => count(many, "node"),
        };
        // Boxes of several nodes, or of none that is known, share nothing.
        let own = nodes
            .iter_mut()
            .find(|node| pod.nodes.len() == 1 && node.name == name);
        let node = match own {
            Some(node) => node,
            None => {
                nodes.push(Node {
                    name,
                    ..Node::default()
                });
                let last = nodes.len() - 1;
                &mut nodes[last]
            }
        };
        node.pods.push(n);
        node.columns.insert(pod.side);
    }
    nodes.sort_by_key(|node| std::cmp::Reverse(node.columns.len()));
    let mut at = vec![(0, 0); pods.len()];
    let (mut left, mut right) = (1, 1);
    let mut placed = Vec::new();
    let height = |rows: usize| NODE_HEAD + rows * (POD_HIGH + PAD);
    for node in nodes {
        let both = node.columns.len() == 2;
        let only = node.columns.iter().next().copied().unwrap_or(Side::Left);
        let top = match (both, only) {
            (true, _) => left.max(right),
            (false, Side::Left) => left,
            (false, Side::Right) => right,
        };
        let mut rows = [0, 0];
        for &n in &node.pods {
            let row = &mut rows[usize::from(pods[n].side == Side::Right)];
            at[n] = (
                x_of(pods[n].side),
                top + NODE_HEAD + *row * (POD_HIGH + PAD),
            );
            *row += 1;
        }
        let high = height(rows[0].max(rows[1]));
        let next = top + high + GAP;
        if both || only == Side::Left {
            left = next;
        }
        if both || only == Side::Right {
            right = next;
        }
        placed.push((node, top, high));
    }
    let high = left.max(right) - GAP + 1;
    // The shorter side stands in the middle of the taller one.
    for (side, end) in [(Side::Left, left), (Side::Right, right)] {
        let shift = (left.max(right) - end) / 2;
        for (node, top, _) in placed
            .iter_mut()
            .filter(|(node, ..)| node.columns.len() == 1)
        {
            if node.columns.contains(&side) {
                *top += shift;
                for &n in &node.pods {
                    at[n].1 += shift;
                }
            }
        }
    }
    Layout {
        nodes: placed,
        pods: at,
        high,
    }
}

pub(super) fn svg(number: usize, picture: &Picture<'_>, description: &str) -> Markup {
    let layout = layout(&picture.pods);
    let ids = (
        format!("topology-{number}-title"),
        format!("topology-{number}-text"),
    );
    html! {
        svg viewBox={ "0 0 " (WIDE) " " (layout.high) } role="img" aria-labelledby={ (ids.0) " " (ids.1) } {
            title id=(ids.0) { "Workers and the lanes between them" }
            desc id=(ids.1) { (description) }
            @for (node, top, high) in &layout.nodes {
                @let left = node.columns.contains(&Side::Left);
                @let x = if left { 1 } else { x_of(Side::Right) - PAD };
                @let wide = if node.columns.len() == 2 { WIDE - 2 } else { POD_WIDE + 2 * PAD };
                rect.node x=(x) y=(top) width=(wide) height=(high) rx="8" {}
                text.soft x=(x + PAD + 2) y=(top + 16) { (node_name(node)) }
            }
            @let worded = picture.lines.len() <= WORDED;
            @for line in &picture.lines { (drawn_line(line, &layout)) }
            @for (pod, at) in picture.pods.iter().zip(&layout.pods) { (drawn_pod(pod, *at)) }
            @if worded {
                @for plate in plates(picture, &layout) { (drawn_plate(&plate)) }
            }
        }
    }
}

fn node_name(node: &Node) -> String {
    match node.name.as_str() {
        "" => "node not known".to_owned(),
        name => short(name, 27),
    }
}

/// Both ends of a line: the right edge of the left pod, the left edge of the right one.
fn ends(line: &Line<'_>, layout: &Layout) -> ((usize, usize), (usize, usize)) {
    let (l, r) = (layout.pods[line.left], layout.pods[line.right]);
    (
        (l.0 + POD_WIDE, l.1 + POD_HIGH / 2),
        (r.0, r.1 + POD_HIGH / 2),
    )
}

fn drawn_line(line: &Line<'_>, layout: &Layout) -> Markup {
    let ((x1, y1), (x2, y2)) = ends(line, layout);
    let class = line.worst().class();
    html! { path class={ "lane " (class) } d={ "M" (x1) " " (y1) "L" (x2) " " (y2) } {} }
}

/// Words on a plate over a line.
struct Plate {
    rows: Vec<String>,
    state: State,
    x: usize,
    y: usize,
    wide: usize,
    high: usize,
}

impl Plate {
    fn meets(&self, other: &Self) -> bool {
        self.x.abs_diff(other.x) < (self.wide + other.wide) / 2 + 2
            && self.y.abs_diff(other.y) < (self.high + other.high) / 2 + 2
    }
}

/// Shares of the way along a line, in percent, where its plate may lie: the middle is best.
const PLACES: [usize; 9] = [50, 33, 67, 25, 75, 40, 60, 15, 85];

/// A plate for each line, the gravest first, each where no other lies, as far as there is such a way to lay them.
fn plates(picture: &Picture<'_>, layout: &Layout) -> Vec<Plate> {
    let mut lines: Vec<&Line<'_>> = picture.lines.iter().collect();
    lines.sort_by_key(|line| std::cmp::Reverse(line.worst()));
    let alone = lines.len() == 1;
    let mut steps = 0;
    let mut chosen = Vec::new();
    if !lay(&lines, layout, &mut chosen, &mut steps) {
        chosen.clear();
        for line in &lines {
            let place = |percent: usize| plate(line, layout, alone, percent);
            let mut places = PLACES.into_iter().map(place);
            let free = places.find(|p: &Plate| chosen.iter().all(|q: &Plate| !q.meets(p)));
            chosen.push(free.unwrap_or_else(|| place(PLACES[0])));
        }
    }
    chosen
}

/// Lays the plates of the remaining lines, and takes back what leaves no room for a later one. So few lines have words that
/// it ends soon; where it does not, false.
fn lay(lines: &[&Line<'_>], layout: &Layout, laid: &mut Vec<Plate>, steps: &mut usize) -> bool {
    /// A moment's work; four lanes that cross take about a dozen.
    const MOST: usize = 20_000;
    let Some(line) = lines.get(laid.len()) else {
        return true;
    };
    for percent in PLACES {
        *steps += 1;
        if *steps > MOST {
            return false;
        }
        let next = plate(line, layout, lines.len() == 1, percent);
        if laid.iter().any(|other| other.meets(&next)) {
            continue;
        }
        laid.push(next);
        if lay(lines, layout, laid, steps) {
            return true;
        }
        laid.pop();
    }
    false
}

/// The plate of a line at this share of its way.
fn plate(line: &Line<'_>, layout: &Layout, alone: bool, percent: usize) -> Plate {
    let ((x1, y1), (x2, y2)) = ends(line, layout);
    let rows = plate_rows(line, alone);
    let most = rows.iter().map(|r| r.chars().count()).max().unwrap_or(0);
    let (wide, high) = ((most * 8 + 12).min(MIDDLE), rows.len() * 16 + 8);
    // Between the nodes, so that no pod is covered.
    let (least, last) = (x1 + PAD + wide / 2, (x2 - PAD).saturating_sub(wide / 2));
    Plate {
        rows,
        state: line.worst(),
        x: ((x1 * (100 - percent) + x2 * percent) / 100).clamp(least.min(last), last),
        y: (y1 * (100 - percent) + y2 * percent) / 100,
        wide,
        high,
    }
}

/// What is known of the lanes: in full for one line, in short where several fan out.
fn plate_rows(line: &Line<'_>, alone: bool) -> Vec<String> {
    let worst = line.worst();
    let of: usize = line
        .states
        .values()
        .fold(0, |sum, n| sum.saturating_add(*n));
    let bad = line.states.get(&worst).copied().unwrap_or(0);
    let mut rows = vec![match of {
        0 | 1 => format!("{} {}", worst.sign(), worst.word()),
        _ => format!("{} {bad} {}", worst.sign(), worst.word()),
    }];
    match line.made {
        Some(p) => {
            if alone && !p.steps.is_empty() {
                rows.push(short(p.lane.split(' ').next().unwrap_or_default(), 22));
            }
            match (p.write_gbytes, alone) {
                (Some(_), true) => rows.push(format!(
                    "{} / {} GB/s",
                    rate(p.write_gbytes),
                    rate(p.read_gbytes)
                )),
                (Some(write), false) => rows.push(format!("{write:.1} GB/s")),
                (None, _) => {}
            }
        }
        None if of > bad => rows.push(format!("of {of} lanes")),
        None => {}
    }
    rows
}

fn drawn_plate(plate: &Plate) -> Markup {
    let (left, top) = (plate.x - plate.wide / 2, plate.y - plate.high / 2);
    html! {
        g class=(plate.state.class()) {
            rect.plate x=(left) y=(top) width=(plate.wide) height=(plate.high) rx="5" {}
            @for (n, row) in plate.rows.iter().enumerate() {
                text.word[n == 0] x=(plate.x) y=(top + 16 + n * 16) text-anchor="middle" { (row) }
            }
        }
    }
}

fn drawn_pod(pod: &Pod, (x, y): (usize, usize)) -> Markup {
    let tone = match pod.trust {
        Some(Trust::Untrusted) => "fail",
        _ => "",
    };
    let name = match pod.members {
        1 => short(&pod.name, 24),
        n => format!("{} × {n}", short(&pod.name, 16)),
    };
    let squares = pod.gpus.unwrap_or(0).min(8);
    let squares = usize::try_from(squares).unwrap_or(8);
    let nics = pod.ports.as_deref().unwrap_or_default();
    // A port is as wide as a GPU, so that eight of each line up.
    let each = 7;
    let beside = |n: usize| if n > 0 { 14 + n * each } else { 9 };
    html! {
        g class=[(!tone.is_empty()).then_some(tone)] {
            rect.pod x=(x) y=(y) width=(POD_WIDE) height=(POD_HIGH) rx="6" {}
            // A picture of its own cuts off what is too long.
            svg x=(x) y=(y) width=(POD_WIDE - 3) height=(POD_HIGH) {
                text.strong x="9" y="19" { (name) }
                text.soft x="9" y="36" {
                    (short(&pod.role, 14))
                    @if tone == "fail" { tspan.word { " ✗ has a fail" } }
                }
                @for n in 0..squares { rect.gpu x=(9 + n * each) y="46" width="5" height="9" rx="1" {} }
                text x=(beside(squares)) y="55" { (gpus(pod)) }
                @for (n, port) in nics.iter().take(8).enumerate() {
                    circle.nic.down[!up(port)] cx=(11 + n * each) cy="71" r="2.5" {}
                }
                text x=(beside(nics.len().min(8))) y="75" { (short(&ports(pod), 25 - nics.len().min(8))) }
            }
        }
    }
}
