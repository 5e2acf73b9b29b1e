//! The verdict on wrong bytes, and on a transfer that did not end.

use super::{Intent, StepVerdict, Verdict, verdict};
use crate::pair::WRONG_BYTES;
use crate::report::{SkipReason, Status};
use crate::transfer::record::{Failure, Stage, StepRecord, TransferRecord, What};
use crate::transfer::ucx_text::UcxText;
use crate::transfer::{cause, complaints, words};

pub(super) fn wrong_bytes(step: &StepRecord, shown: &StepVerdict, gpu: bool) -> Verdict {
    let at = step.verify.bad_at.unwrap_or_default();
    let how = match (step.verify.zeros, step.verify.earlier) {
        (Some(true), _) => "nothing arrived there: the block holds only zeros",
        (_, Some(true)) => {
            "nothing arrived there: the block holds what an earlier operation had written"
        }
        _ => "other bytes lie there",
    };
    let over = shown
        .lane
        .as_ref()
        .map_or("an unknown lane".to_owned(), ToString::to_string);
    let detail = format!(
        "{WRONG_BYTES}: {} over {over} reported success, and the {} found the first wrong byte at offset {at} of {} ({how}; \
         {} of 1 MiB). KV cache moved this way gives wrong tokens with HTTP 200.",
        shown.what,
        step.verified_by,
        step.verify.compared,
        match step.verify.bad_blocks.unwrap_or(1) {
            1 => "1 wrong block".to_owned(),
            n => format!("{n} wrong blocks"),
        },
    );
    let fix = if gpu {
        "Take this path out of service. In a virtual machine, check that GPU and NIC may reach each other (ACS, ATS, \
         IOMMU; dynamo#12463); set UCX_IB_GPU_DIRECT_RDMA=n on both workers and run the transfer again to tell \
         whether GPUDirect is at fault."
    } else {
        "Take this path out of service. The bytes lay in host memory, so GPUDirect has no part in it: look into the kernel \
         log of both nodes for memory and PCIe errors, and run the transfer again with one device at a time \
         (UCX_NET_DEVICES) and between other nodes to tell which of them it is."
    };
    Verdict {
        wrong_bytes: true,
        fix: Some(fix.to_owned()),
        ..verdict(Status::Fail, detail)
    }
}

/// How bad a failed transfer is: a path that cannot carry bytes fails, a probe that could not run says nothing.
pub(super) fn failed(
    failure: &Failure,
    record: &TransferRecord,
    text: &UcxText,
    intent: &Intent,
) -> Verdict {
    let (status, reason) = match failure.what {
        What::NoPython | What::BadPython | What::NoNixl => {
            (Status::Skipped, Some(SkipReason::NotFound))
        }
        What::HostMemory | What::GpuMemory | What::RssLimit => {
            (Status::Skipped, Some(SkipReason::NotCollected))
        }
        What::Killed | What::OutOfMemory | What::StreamLost => {
            (Status::Skipped, Some(SkipReason::ConnectionLost))
        }
        What::Stopped => (Status::Skipped, Some(SkipReason::Timeout)),
        What::CutShort => (Status::Skipped, Some(SkipReason::RunDeadline)),
        What::Interrupted => (Status::Skipped, Some(SkipReason::Interrupted)),
        What::Deadline if !matches!(failure.stage, Stage::Connect | Stage::Xfer { .. }) => {
            (Status::Skipped, Some(SkipReason::Timeout))
        }
        What::Flood | What::Nonsense | What::AgentError => {
            (Status::Skipped, Some(SkipReason::Unparsable))
        }
        What::Refused => (Status::Skipped, Some(SkipReason::Denied)),
        What::NoPlugin | What::NoBackend | What::LocalBackend
            if intent.differs(&record.backend) =>
        {
            (Status::Skipped, Some(SkipReason::NotFound))
        }
        What::AgentCreate
        | What::NoPlugin
        | What::NoBackend
        | What::LocalBackend
        | What::Register
        | What::Connect
        | What::Prepare
        | What::Transfer
        | What::Stall
        | What::Crashed
        | What::Deadline => (Status::Fail, None),
    };
    let detail = format!(
        "{}: {}",
        words::of_failure(failure, record),
        tried(failure, record)
    );
    let known = cause::of_failure(failure, record, text);
    let missing = cause::missing_library(failure, record);
    let detail = match &missing {
        // What the probe saw of it says less.
        Some(missing) => format!("{}: {}", words::of_failure(failure, record), missing.why),
        None => detail,
    };
    let known = missing.map(|missing| missing.fix).or(known);
    let mut out = verdict(status, detail);
    out.reason = reason;
    out.fix = Some(known.unwrap_or_else(|| words::fix_of_failure(failure).to_owned()));
    out.caveats
        .extend(failure.also.iter().map(ToString::to_string));
    out
}

/// What the failure says of itself; where several interpreters were tried, what each of them said.
fn tried(failure: &Failure, record: &TransferRecord) -> String {
    let attempts = &record.end(failure.side).tried;
    if attempts.len() < 2
        || !matches!(
            failure.what,
            What::NoPython | What::BadPython | What::NoNixl
        )
    {
        return failure.detail.to_string();
    }
    let absent = |why: &str| why.starts_with("no such program");
    let each = attempts.iter().filter_map(|attempt| {
        let (python, why) = (&attempt.python, attempt.gave_up.as_ref()?);
        match (failure.what, absent(why)) {
            (What::NoNixl, true) => None,
            (_, true) => Some(format!("no {python}")),
            _ => Some(format!("{python}: {why}")),
        }
    });
    each.collect::<Vec<_>>().join(", ")
}

/// Lines of both logs that say why it failed: those of the end that failed come first.
pub(super) fn last_words(record: &TransferRecord) -> Vec<String> {
    /// Lines of the end that failed, and of its peer.
    const LINES: [usize; 2] = [8, 3];
    let Some(failure) = &record.failure else {
        return Vec::new();
    };
    let mut out = Vec::new();
    for (role, most) in [failure.side, failure.side.other()].into_iter().zip(LINES) {
        let end = record.end(role);
        let said = complaints::of(&end.log, most);
        out.extend(
            said.into_iter()
                .map(|l| format!("{} ({role}): {l}", end.label)),
        );
    }
    out
}
