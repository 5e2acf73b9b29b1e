//! The verdict on right bytes: which lane carried them, and how fast.

use super::limits::crawls;
use super::{Intent, Path, RATE_BOUNCE, RATE_FAR, RATE_SOURCE, StepVerdict, Verdict, verdict};
use crate::pair::{BULK_BYTES, RATE_OK, WRONG_LANE};
use crate::report::{SkipReason, Status};
use crate::transfer::cause;
use crate::transfer::counted::Agreement;
use crate::transfer::lane::{Class, Lane};
use crate::transfer::protocol::Role;
use crate::transfer::record::{StepRecord, TransferRecord};
use crate::transfer::ucx_text::UcxText;

/// Right bytes: over which lane?
pub(super) fn lanes(
    record: &TransferRecord,
    text: &UcxText,
    steps: &[StepVerdict],
    intent: &Intent,
) -> Verdict {
    // The largest operations carry the KV cache; small ones may take a path of their own.
    let Some(largest) = record
        .steps
        .iter()
        .map(|s| s.xfer.bytes * s.xfer.descs)
        .max()
    else {
        return Verdict {
            reason: Some(SkipReason::NotCollected),
            ..verdict(
                Status::Skipped,
                "no step was run, so nothing is known about the lane",
            )
        };
    };
    let bulk = |s: &&StepRecord| s.xfer.bytes * s.xfer.descs >= largest.min(BULK_BYTES);
    let bulk: Vec<&StepVerdict> = record
        .steps
        .iter()
        .zip(steps)
        .filter(|(r, _)| bulk(r))
        .map(|(_, s)| s)
        .collect();
    let each = bulk.iter().map(|s| of_lane(s, record, text, intent));
    let mut worst = each
        .max_by_key(|v| (gravity(v), v.status))
        .unwrap_or_else(|| verdict(Status::Skipped, "no step"));
    worst.proven = worst.proven && bulk.iter().all(|s| of_lane(s, record, text, intent).proven);
    if worst.status == Status::Ok {
        worst = slow(&bulk).map_or(worst.clone(), |slow| Verdict {
            proven: worst.proven && slow.proven,
            ..slow
        });
    }
    worst
}

/// Unknown outweighs a warn: it is never a pass.
fn gravity(v: &Verdict) -> u8 {
    match v.status {
        Status::Ok => u8::from(!v.proven),
        Status::Warn => 2,
        Status::Skipped => 3,
        Status::Fail => 4,
    }
}

fn of_lane(
    step: &StepVerdict,
    record: &TransferRecord,
    text: &UcxText,
    intent: &Intent,
) -> Verdict {
    let lane = match &step.lane {
        Ok(lane) => lane,
        Err(unknown) => {
            let raw = unknown
                .raw
                .as_ref()
                .map_or(String::new(), |raw| format!(" (`{raw}`)"));
            let old = cause::old_protocols(record);
            let why = old.as_ref().map_or(&unknown.why, |cause| &cause.why);
            let detail = format!(
                "Bytes are right, transport unknown for {}: {why}{raw}",
                step.what
            );
            let fix = if let Some(cause) = &old {
                &*cause.fix
            } else if unknown.no_device {
                "Look at /sys/class/infiniband of the container: the device that UCX names is not in it, so what carried the \
                 bytes is not known. Run it in the worker's own container."
            } else if &*record.backend == "UCX" && !text.rows.is_empty() {
                "Look at the table of UCX in the evidence: it names what this tool does not know, or does not say which lane \
                 carries how much. Compare the counters of the ports before and after by hand."
            } else if &*record.backend == "UCX" {
                "Look at the lines of UCX in the evidence; with UCX before 1.16 only the configuration line is printed, so \
                 upgrade NIXL or compare counters by hand."
            } else {
                "Run it again while the link is otherwise idle; the backend prints no table, so that only its log and the \
                 counters tell."
            };
            return Verdict {
                reason: Some(SkipReason::Unparsable),
                fix: Some(fix.to_owned()),
                ..verdict(Status::Skipped, detail)
            };
        }
    };
    if let Some(Agreement::Disagree(why)) = &step.counters {
        return contradicted(step, lane, why, record, text, intent);
    }
    if let Some(why) = &step.impossible {
        let detail = format!(
            "{} moved right bytes over {lane} ({}), at a rate that cannot be: {why}. The clock of {} is wrong, or what \
             answers there lies",
            step.what, lane.class, record.initiator.label
        );
        let of_wrong_lane = lane.class == Class::Tcp || lane.emulated();
        if !of_wrong_lane {
            return Verdict {
                fix: Some(
                    "Run it again. If it repeats, mend the clock of the node (virtualised time, a changed clock source), and \
                     do not trust what this container says."
                        .to_owned(),
                ),
                ..verdict(Status::Warn, detail)
            };
        }
    }
    let host = |role: Role| {
        record
            .end(role)
            .ready
            .as_ref()
            .is_none_or(|r| &*r.seg != "VRAM")
    };
    let on_host = host(Role::Target) || host(Role::Initiator);
    let enough = !on_host || intent.host_memory;
    let agreed = match &step.counters {
        Some(Agreement::Agree(how)) => format!("; counters agree: {how}"),
        Some(Agreement::Silent(why)) => format!("; counters cannot confirm it: {why}"),
        Some(Agreement::OneSided(_) | Agreement::Disagree(_)) | None => String::new(),
    };
    let seen = format!(
        "{} moved right bytes over {lane} ({}){agreed}",
        step.what, lane.class
    );
    if let Some(Agreement::OneSided(why)) = &step.counters {
        return Verdict {
            fix: Some(CONTRADICTED_FIX.to_owned()),
            ..verdict(
                Status::Warn,
                format!("{seen}, but {why}, so that counters do not bear the lane out"),
            )
        };
    }
    match lane.class {
        Class::Tcp => wrong_lane(&seen, lane, record, text, intent),
        _ if lane.emulated() => wrong_lane(&seen, lane, record, text, intent),
        Class::SoftRoce | Class::SoftIwarp | Class::SoftRdma => Verdict {
            fix: Some("Run it on the machines with RDMA hardware; software verbs prove the software, not the fabric.".to_owned()),
            ..verdict(Status::Warn, format!("{seen}: no RDMA hardware took part, so the fabric is unproven"))
        },
        Class::SharedMemory if record.same_container => {
            verdict(Status::Ok, format!("{seen}; both ends are in one container, so no link between workers was used"))
        }
        Class::SharedMemory => Verdict {
            fix: Some(same_node_fix(on_host)),
            ..verdict(Status::Warn, format!("{seen}: the bytes never left the node, so no link between nodes was used"))
        },
        Class::Nvlink if record.same_container => {
            verdict(Status::Ok, format!("{seen}; both ends are in one container, so no link between workers was used"))
        }
        Class::Rdma if intent.path == Path::MultiNodeNvlink => Verdict {
            proven: false,
            fix: Some(
                "Check ComputeDomain, IMEX and that both pods are in one NVLink clique; KV memory must be allocated with \
                 fabric handles (nixl#1614, vllm#51377)."
                    .to_owned(),
            ),
            ..verdict(Status::Warn, format!("{seen}, where multi-node NVLink was intended"))
        },
        Class::Rdma | Class::Nvlink | Class::MultiNodeNvlink => Verdict {
            proven: enough && !record.same_container,
            ..verdict(Status::Ok, seen)
        },
    }
}

fn same_node_fix(on_host: bool) -> String {
    let memory = if on_host { ", with --memory gpu" } else { "" };
    format!(
        "Choose a prefill pod and a decode pod on different nodes{memory}, or accept that this pair shares a node."
    )
}

fn wrong_lane(
    seen: &str,
    lane: &Lane,
    record: &TransferRecord,
    text: &UcxText,
    intent: &Intent,
) -> Verdict {
    // In one container TCP is a choice between local lanes: it says nothing of the lane between workers, unless a setting
    // keeps RDMA from every peer.
    let local = record.same_container && !cause::no_peer_gets_rdma(record);
    let status = if intent.host_memory || local {
        Status::Warn
    } else {
        Status::Fail
    };
    let wanted = match intent.path {
        _ if record.same_container => "shared memory, RDMA or NVLink",
        Path::Rdma => "RDMA or NVLink",
        Path::MultiNodeNvlink => "multi-node NVLink",
    };
    let emulated = if lane.class != Class::Tcp && lane.emulated() {
        "; the CPU copies the bytes through messages"
    } else {
        ""
    };
    // What other checks found concerns the path between nodes.
    let likely = intent.likely_cause.as_ref();
    let likely = likely.filter(|_| !record.same_container);
    let (why, fix) = match (likely, cause::of_wrong_lane(record, text)) {
        (Some(cause), _) => (
            format!(". Most likely cause: {cause}"),
            match &intent.likely_fix {
                Some(fix) => format!("{fix}; then run the transfer again"),
                None => "Remove that cause and run the transfer again.".to_owned(),
            },
        ),
        (None, Some(cause)) => (format!(". Most likely cause: {}", cause.why), cause.fix),
        (None, None) => {
            let fix = "Run `dynamo-interconnect-check node` on both pods and fix what it reports; TCP is what UCX takes when \
                       nothing better works at both ends.";
            (String::new(), fix.to_owned())
        }
    };
    let detail = format!("{WRONG_LANE}: {seen}{emulated}; {wanted} was needed{why}");
    Verdict {
        fix: Some(fix),
        ..verdict(status, detail)
    }
}

const CONTRADICTED_FIX: &str = "Run it again while the link is otherwise idle; on a virtual function, read the counters of the \
physical port on the node.";

/// Table and counters tell different stories: never a pass, and a fail where counters show TCP.
fn contradicted(
    step: &StepVerdict,
    lane: &Lane,
    why: &str,
    record: &TransferRecord,
    text: &UcxText,
    intent: &Intent,
) -> Verdict {
    if lane.class == Class::Tcp || lane.emulated() {
        let seen = format!(
            "{} moved right bytes over {lane}, although {why}",
            step.what
        );
        return wrong_lane(&seen, lane, record, text, intent);
    }
    let detail = format!(
        "Bytes are right, transport unknown for {}: UCX names {lane}, but {why}",
        step.what
    );
    Verdict {
        reason: Some(SkipReason::Unparsable),
        fix: Some(CONTRADICTED_FIX.to_owned()),
        ..verdict(Status::Skipped, detail)
    }
}

const SLOW_FIX: &str = "Run it again while the workers are idle. If it stays low: compare the PCIe speed and width of the NIC with \
its rate, and use a GPU and a NIC under one PCIe switch.";

/// A lane well below the rate of its port, or below any that is worth its name.
fn slow(bulk: &[&StepVerdict]) -> Option<Verdict> {
    if let Some(step) = bulk.iter().find(|s| s.crawls) {
        return Some(Verdict {
            proven: false,
            fix: Some(SLOW_FIX.to_owned()),
            ..verdict(Status::Warn, crawls(step))
        });
    }
    let judged = bulk.iter().filter_map(|s| Some((s.of_line_rate?, s)));
    let (share, step) = judged.min_by(|a, b| a.0.total_cmp(&b.0))?;
    if share >= RATE_OK {
        return None;
    }
    let how = if share < RATE_FAR {
        "far below"
    } else {
        "below"
    };
    let over = match &step.lane {
        Ok(lane) => format!(" over {lane}"),
        Err(_) => String::new(),
    };
    let bounce = if share < RATE_BOUNCE {
        "; so low a rate looks like TCP or a bounce through software"
    } else {
        ""
    };
    let detail = format!(
        "{} reached {} of the line rate ({:.1} Gb/s{over}), {how} the {:.0}% that is usual ({RATE_SOURCE}){bounce}",
        step.what,
        percent(share),
        step.gbps,
        RATE_OK * 100.0,
    );
    Some(Verdict {
        // What it looks like is not what is meant, whatever its name is.
        proven: share >= RATE_BOUNCE,
        fix: Some(SLOW_FIX.to_owned()),
        ..verdict(Status::Warn, detail)
    })
}

/// `47%`; `0.4%` where a whole number would say nothing.
pub(super) fn percent(share: f64) -> String {
    match share {
        ..0.01 => format!("{:.1}%", share * 100.0),
        _ => format!("{:.0}%", share * 100.0),
    }
}
