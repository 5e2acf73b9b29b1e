//! Traffic between GPUs: peer to peer, shared memory, NVLink between nodes, reductions in the NVSwitch.

use super::context::Tri;
use super::nccl::between_nodes;
use super::setting::{Setting, Verdict};
use crate::report::Status;

pub(super) fn p2p_disable(s: &Setting<'_>, number: i64) -> Verdict {
    if number != 1 {
        return Verdict::ok("5.3", format!("{number} disables nothing; only 1 does"));
    }
    if s.cx.gpu_count() == Some(1) && !s.cx.on_mnnvl() {
        return Verdict::ok("5.3", "1 has nothing to disable: the pod has one GPU");
    }
    Verdict::bad(
        if s.cx.nvswitch() == Tri::Yes || s.cx.on_mnnvl() {
            Status::Fail
        } else {
            Status::Warn
        },
        "5.3",
        "1 forbids direct traffic between GPUs: NVLink, and NVLink between nodes, stay unused",
        "remove NCCL_P2P_DISABLE",
    )
}

pub(super) fn shm_disable(_: &Setting<'_>, number: i64) -> Verdict {
    if number != 1 {
        return Verdict::ok("5.3", format!("{number} disables nothing; only 1 does"));
    }
    Verdict::warn(
        "5.3",
        "1 forbids host shared memory: ranks of one node without direct traffic go through the network",
        "remove NCCL_SHM_DISABLE, and give the pod enough /dev/shm",
    )
}

/// NVLink between nodes is off although the pods share a domain.
fn without_mnnvl(s: &Setting<'_>, what: &str) -> Verdict {
    if !s.cx.on_mnnvl() {
        return Verdict::ok("5.3", format!("{what}, which nothing here uses"));
    }
    between_nodes(s).unwrap_or_else(|| {
        Verdict::bad(
            if s.cx.rdma_present() == Tri::No && s.cx.ranks_internode == Tri::Yes {
                Status::Fail
            } else {
                Status::Warn
            },
            "5.3",
            format!("{what} although the nodes are joined by it: collectives fall to the NIC, or to sockets where there is none"),
            format!("remove {}", s.variable.name),
        )
    })
}

pub(super) fn mnnvl(s: &Setting<'_>, number: i64) -> Verdict {
    match (number, s.cx.mnnvl) {
        (0, _) => without_mnnvl(s, "0 switches NVLink between nodes off"),
        (1, Tri::No) => Verdict::warn(
            "5.3",
            "1 insists on NVLink between nodes, which is not there",
            "claim a ComputeDomain, or remove NCCL_MNNVL_ENABLE (the default 2 uses it where it works)",
        ),
        _ => Verdict::ok(
            "5.3",
            format!("{number} uses NVLink between nodes where the fabric is ready"),
        ),
    }
}

pub(super) fn cumem(s: &Setting<'_>, number: i64) -> Verdict {
    if number == 0 {
        return without_mnnvl(
            s,
            "0 takes away the allocator that NVLink between nodes needs",
        );
    }
    Verdict::ok(
        "5.3",
        format!("{number} keeps the allocator that NVLink between nodes needs"),
    )
}

pub(super) fn nvls(s: &Setting<'_>, number: i64) -> Verdict {
    let switched = s.cx.nvswitch() == Tri::Yes || s.cx.on_mnnvl();
    match number {
        0 if switched => Verdict::warn(
            "5.3",
            "0 gives up reductions in the NVSwitch: all-reduce is slower",
            "remove NCCL_NVLS_ENABLE",
        ),
        1 if s.cx.on_mnnvl() => Verdict::ok(
            "5.3",
            "1 insists on reductions in the NVSwitch, as guides for multi-node NVLink ask",
        ),
        1 => Verdict::warn(
            "5.3",
            "1 insists on reductions in the NVSwitch: where multicast cannot be set up NCCL stops instead of going on without",
            "remove NCCL_NVLS_ENABLE; the default 2 uses them where they work",
        ),
        _ => Verdict::ok("5.3", format!("{number} does no harm here")),
    }
}
