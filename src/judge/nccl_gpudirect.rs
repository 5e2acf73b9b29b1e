//! GPUDirect RDMA for collectives.

use super::context::Tri;
use super::nccl::{between_nodes, soften};
use super::setting::{Setting, Verdict};
use crate::report::Status;

pub(super) fn gdr_read(s: &Setting<'_>, number: i64) -> Verdict {
    if number != 0 {
        return Verdict::ok("5.3", format!("{number} lets the NIC read GPU memory"));
    }
    between_nodes(s).unwrap_or_else(|| {
        Verdict::warn(
            "5.3",
            "0: what is sent to other nodes is first copied to host memory",
            "remove NCCL_NET_GDR_READ",
        )
    })
}

pub(super) fn gdr_c2c(s: &Setting<'_>, number: i64) -> Verdict {
    let grace =
        s.cx.gpus
            .as_ref()
            .is_some_and(|g| g.model.starts_with("GB") || g.model.starts_with("GH"));
    if number == 0 && grace {
        return Verdict::warn(
            "5.3",
            "0 gives up GPUDirect RDMA through the chip-to-chip link of Grace",
            "remove NCCL_NET_GDR_C2C",
        );
    }
    Verdict::ok("5.3", format!("{number} acts on Grace systems only"))
}

pub(super) fn dmabuf(s: &Setting<'_>, number: i64) -> Verdict {
    if number != 0 {
        return Verdict::ok(
            "5.3",
            format!("{number} is the default: GPU memory reaches the NIC as a dmabuf"),
        );
    }
    if let Some(harmless) = between_nodes(s) {
        return harmless;
    }
    match s.cx.peermem {
        Tri::Yes => Verdict::ok("5.3", "0 leaves peermem for GPUDirect RDMA, which is there"),
        peermem => Verdict::bad(
            if peermem == Tri::No {
                soften(Status::Fail, s.cx)
            } else {
                Status::Warn
            },
            "4.2",
            "0 switches dmabuf off, so GPUDirect RDMA needs nvidia_peermem on every node",
            "remove NCCL_DMABUF_ENABLE, or load nvidia_peermem",
        ),
    }
}
