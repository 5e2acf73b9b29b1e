//! NCCL_NET_GDR_LEVEL and NCCL_P2P_LEVEL: distances as words.

use super::context::{Context, Tri, Version};
use super::nccl::{between_nodes, soften, unset};
use super::setting::{Setting, Verdict};
use crate::report::Status;

/// The words of distance, nearest first, and what digits stand for (nccl v2.28.9-1, `src/graph/paths.cc`).
const DIGITS: [&str; 6] = ["LOC", "PIX", "PXB", "PHB", "SYS", "SYS"];

/// The word that NCCL makes of a level; None when it ignores the value.
fn level<'a>(value: &'a str, cx: &Context) -> Option<&'a str> {
    if let Ok(digit) = value.parse::<usize>() {
        return DIGITS.get(digit).copied();
    }
    let new = matches!(value, "C2C" | "P2C");
    let known = [
        "LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS",
    ]
    .contains(&value);
    let too_old = new && cx.nccl.is_some_and(|v| v < Version::new(2, 27));
    (known && !too_old).then_some(value)
}

fn ignored_level(value: &str, s: &Setting<'_>) -> Verdict {
    Verdict::warn(
        "5.3",
        format!(
            "{value:?} is no word of NCCL's (LOC NVL NVB C2C PIX PXB P2C PXN PHB SYS, exactly so) and is ignored without a word: {} stays",
            s.variable.default
        ),
        format!("write one of these words, or remove {}", s.variable.name),
    )
}

pub(super) fn gdr_level(s: &Setting<'_>) -> Verdict {
    let Some(value) = s.value.filter(|v| !v.is_empty()) else {
        return unset(s);
    };
    match level(value, s.cx) {
        None => ignored_level(value, s),
        Some("LOC") => between_nodes(s).unwrap_or_else(|| {
            Verdict::bad(
                soften(Status::Fail, s.cx),
                "5.3",
                format!("{value:?}: GPUDirect RDMA is never used, and collectives between nodes are copied through the CPU"),
                "remove NCCL_NET_GDR_LEVEL, or write PHB or SYS where the NIC is that far from the GPU",
            )
        }),
        Some(word) => Verdict::ok(
            "5.3",
            format!("{value:?}: GPUDirect RDMA up to the distance {word}"),
        ),
    }
}

pub(super) fn p2p_level(s: &Setting<'_>) -> Verdict {
    let Some(value) = s.value.filter(|v| !v.is_empty()) else {
        return unset(s);
    };
    let single = s.cx.gpu_count() == Some(1);
    match level(value, s.cx) {
        None => ignored_level(value, s),
        Some("LOC") if !single => Verdict::fail(
            "5.3",
            format!("{value:?}: GPUs never talk to each other directly, NVLink included"),
            "remove NCCL_P2P_LEVEL",
        ),
        Some("NVL") if !single && s.cx.nvswitch() == Tri::No => Verdict::warn(
            "5.3",
            format!(
                "{value:?} allows NVLink only, and the GPUs here are not all joined by it: they exchange through host memory"
            ),
            "remove NCCL_P2P_LEVEL",
        ),
        Some("NVL") => Verdict::ok(
            "5.3",
            format!("{value:?} allows NVLink only, which is right where every pair of GPUs has it"),
        ),
        Some(word) => Verdict::ok(
            "5.3",
            format!("{value:?}: direct traffic between GPUs up to the distance {word}"),
        ),
    }
}
