//! The time that KV transfer adds, in one line.

use super::text::paragraph;
use crate::report::{KvBudget, LaneTime};

/// Draws the line. `heading`: its title, styled.
pub(super) fn render(out: &mut String, budget: &KvBudget, heading: &str, width: usize) {
    let mut line = format!("{heading}  ");
    let tokens = budget.isl;
    match (budget.kv_bytes_per_token, budget.bytes) {
        (Some(each), Some(all)) => {
            line.push_str(&format!(
                "{}/token x {tokens} tokens = {}",
                bytes(each),
                bytes(all)
            ));
            if budget.parts > 1 {
                line.push_str(&format!(" in {} parts side by side", budget.parts));
            }
        }
        _ => line.push_str(&format!("{tokens} tokens")),
    }
    let over = |lane: &LaneTime| {
        let how = if lane.measured { "measured" } else { "nominal" };
        format!(
            "{} over {} ({:.1} GB/s {how})",
            time(lane.added_ms),
            lane.of,
            lane.gbytes
        )
    };
    // What hardware could do is the best case.
    let end = |lane: &LaneTime| if lane.measured { "at worst" } else { "at best" };
    match (&budget.slowest, &budget.fastest) {
        (Some(slow), Some(fast)) if slow.measured => {
            line.push_str(&format!(
                ": {} at worst, {} at best",
                over(slow),
                over(fast)
            ));
        }
        (Some(slow), _) => line.push_str(&format!(": {} {}", over(slow), end(slow))),
        (None, _) => line.push_str(&format!(": not known, {}", budget.missing.join("; "))),
    }
    if let (Some(slo), Some(_)) = (budget.slo_ms, &budget.slowest) {
        line.push_str(&format!("; the first token may take {slo} ms"));
    }
    line.push_str(" (formula: explain kv-budget)");
    paragraph(out, &line, "", width);
    for assumed in &budget.assumed {
        paragraph(out, &format!("assumed: {assumed}"), "    ", width);
    }
    out.push('\n');
}

#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub(super) fn bytes(n: u64) -> String {
    let n = n as f64;
    match n {
        n if n >= 1e9 => format!("{:.2} GB", n / 1e9),
        n if n >= 1e6 => format!("{:.1} MB", n / 1e6),
        n if n >= 1e3 => format!("{:.0} kB", n / 1e3),
        n => format!("{n} B"),
    }
}

pub(super) fn time(ms: f64) -> String {
    match ms {
        ms if ms >= 1e3 => format!("{:.1} s", ms / 1e3),
        ms if ms >= 10.0 => format!("{ms:.0} ms"),
        ms => format!("{ms:.1} ms"),
    }
}
