//! What a transfer proves: a pure function from a record and an intent to a verdict.
//!
//! `proven` is given only for right bytes, over the lane that the deployment intends, named by UCX and not contradicted
//! by counters. Right bytes over the wrong lane are a fail, and wrong bytes are the gravest fail there is.

use super::counted::{self, Agreement};
use super::lane::{self, Class, Lane, Unknown};
use super::protocol::{Memory, PortFacts, Ready, Role};
use super::record::{Failure, Stage, StepRecord, TransferRecord, What};
use super::ucx_text::{self, UcxText};
use super::{cause, complaints, words};
pub use crate::pair::{BULK_BYTES, RATE_OK};
use crate::pair::{WRONG_BYTES, WRONG_LANE, impossible};
use crate::report::{Gap, GapKind, SkipReason, Status};
use std::collections::BTreeMap;

/// Which lane a deployment means to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Path {
    /// RDMA, or NVLink where both workers are on one node.
    Rdma,
    /// Multi-node NVLink.
    MultiNodeNvlink,
}

/// What the deployment intends, from its other facts.
#[derive(Debug, Clone)]
pub struct Intent {
    /// The lane.
    pub path: Path,
    /// KV lies in host memory on purpose (`kv_buffer_device=cpu`).
    pub host_memory: bool,
    /// NIXL backend that the worker's own settings name; none: they name none, and UCX is NIXL's default.
    pub backend: Option<String>,
    /// Line rate of a port in Gb/s by `device:port`. Empty: the rates that the initiator's own ports show.
    pub line_rates: BTreeMap<String, f64>,
    /// The most likely cause of a wrong lane, where other facts already name it.
    pub likely_cause: Option<String>,
    /// What removes that cause.
    pub likely_fix: Option<String>,
}

impl Intent {
    /// Another backend than the worker's. NIXL tells large and small letters apart, and engines do not.
    fn differs(&self, backend: &str) -> bool {
        let own = self.backend.as_deref().unwrap_or("UCX");
        !own.eq_ignore_ascii_case(backend)
    }
}

impl Default for Intent {
    fn default() -> Self {
        Self {
            path: Path::Rdma,
            host_memory: false,
            backend: None,
            line_rates: BTreeMap::new(),
            likely_cause: None,
            likely_fix: None,
        }
    }
}

/// What a transfer proves.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// How bad it is.
    pub status: Status,
    /// What was seen and what was needed.
    pub detail: String,
    /// What to do.
    pub fix: Option<String>,
    /// The intended lane carried the bytes.
    pub proven: bool,
    /// Why right bytes prove no lane.
    pub unproven: Vec<Gap>,
    /// Bytes differed: graver than any other fail.
    pub wrong_bytes: bool,
    /// Why nothing can be said, where the status is skipped.
    pub reason: Option<SkipReason>,
    /// Each step with its lane.
    pub steps: Vec<StepVerdict>,
    /// What limits the verdict, in plain sentences.
    pub caveats: Vec<String>,
    /// Lines it rests on.
    pub evidence: Vec<String>,
}

/// One step with its lane.
#[derive(Debug, Clone, PartialEq)]
pub struct StepVerdict {
    /// `WRITE 64 x 65536 bytes`.
    pub what: String,
    /// Large enough to tell the lane of KV blocks.
    pub bulk: bool,
    /// Every byte was right.
    pub intact: bool,
    /// The lane, or why it is not known.
    pub lane: Result<Lane, Unknown>,
    /// What counters say about it.
    pub counters: Option<Agreement>,
    /// Bandwidth in Gb/s, while one operation at a time was under way.
    pub gbps: f64,
    /// Share of the line rate of the ports that carried it.
    pub of_line_rate: Option<f64>,
    /// Why the bandwidth cannot be true, where it cannot.
    pub impossible: Option<String>,
    /// One line for a report: lane, bandwidth, latency, load.
    pub line: String,
}

/// Below [`RATE_OK`] of the line rate: warn. Below this share: warn "far below".
pub const RATE_FAR: f64 = 0.7;
/// Below this share a lane looks like TCP or a software bounce, whatever its name is.
pub const RATE_BOUNCE: f64 = 0.05;
/// Smaller operations are not held against a line rate: one at a time, latency dominates them.
pub const RATE_BYTES: u64 = 64 << 20;
/// Where the thresholds come from.
pub const RATE_SOURCE: &str = "judgement of this project: large RDMA writes reach 92 to 98 % of line rate, since headers \
take 1 to 3 %; azurehpc-health-checks passes ib_write_bw at 90 to 95 %";

/// Judges one transfer.
pub fn judge(record: &TransferRecord, intent: &Intent) -> Verdict {
    let text = ucx_text::read(&record.initiator.log.lane);
    let steps: Vec<StepVerdict> = record
        .steps
        .iter()
        .map(|s| step(s, record, &text, intent))
        .collect();
    let mut verdict = if let Some(bad) = steps.iter().position(|s| !s.intact) {
        let ends = [Role::Target, Role::Initiator].into_iter();
        let gpu = ends
            .filter_map(|role| record.end(role).ready.as_ref())
            .any(|ready| &*ready.seg == "VRAM");
        wrong_bytes(&record.steps[bad], &steps[bad], gpu)
    } else if let Some(failure) = &record.failure {
        failed(failure, record, &text, intent)
    } else {
        lanes(record, &text, &steps, intent)
    };
    if let (true, Some(failure)) = (verdict.wrong_bytes, &record.failure) {
        verdict.caveats.push(format!(
            "the {} failed afterwards: {}",
            failure.side, failure.detail
        ));
    }
    verdict.caveats.extend(caveats(record, &steps, intent));
    let differs = intent.differs(&record.backend);
    verdict.proven &= verdict.status <= Status::Warn && !verdict.wrong_bytes && !differs;
    if matches!(verdict.status, Status::Ok | Status::Warn) && !verdict.proven {
        verdict.unproven = gaps(record, &steps, intent);
    }
    verdict.evidence.extend(evidence(record, &text, &steps));
    verdict.steps = steps;
    verdict
}

fn step(
    step: &StepRecord,
    record: &TransferRecord,
    text: &UcxText,
    intent: &Intent,
) -> StepVerdict {
    let none = Ready::default();
    let ready = record.initiator.ready.as_ref().unwrap_or(&none);
    let xfer = &step.xfer;
    let gpu = &*ready.seg == "VRAM";
    // LIBFABRIC prints no table, so counters and the provider in its log are all there is.
    let lane = match &*record.backend {
        "UCX" => lane::by_table(text, xfer.kind, xfer.bytes, gpu, &ready.ports),
        backend => by_provider(backend, text, counted::from_counters(step, ready)),
    };
    // Some versions dress the name up.
    let other = xfer
        .backend
        .as_ref()
        .filter(|b| !b.contains(&*record.backend));
    let lane = match other {
        Some(other) => Err(Unknown::new(
            format!(
                "NIXL says that its backend {other} moved the bytes, and {} was asked for",
                record.backend
            ),
            None,
        )),
        None => lane,
    };
    let counters = match (&*record.backend, &lane) {
        ("UCX", Ok(lane)) => Some(counted::agreement(
            lane,
            step,
            ready,
            record.target.ready.as_ref(),
        )),
        _ => None,
    };
    let total = xfer.bytes * xfer.descs;
    let rate = lane
        .as_ref()
        .ok()
        .and_then(|lane| line_rate(lane, &ready.ports, intent));
    let impossible = impossible(xfer.gbps, rate).map(|(why, source)| format!("{why} ({source})"));
    let of_line_rate = rate
        .filter(|rate| total >= RATE_BYTES && *rate > 0.0)
        .map(|rate| xfer.gbps / rate);
    let shown = match &lane {
        Ok(lane) => lane.to_string(),
        Err(unknown) => format!("unknown lane ({})", unknown.why),
    };
    let what = format!("{} {} x {} bytes", xfer.kind, xfer.descs, xfer.bytes);
    // Bandwidth is told in bytes, ports in bits: both where one is held against the other.
    let share = of_line_rate
        .zip(rate)
        .map_or(String::new(), |(share, rate)| {
            let percent = share * 100.0;
            format!(
                " ({:.1} Gb/s, {percent:.0}% of the line rate of {rate:.0} Gb/s)",
                xfer.gbps
            )
        });
    let line = format!(
        "{what}: {shown}; {:.2} GB/s{share}; latency us min {:.1} p50 {:.1} p99 {:.1}, first {:.0}; load {:.2} on {}",
        xfer.gbps / 8.0,
        xfer.lat_us.min,
        xfer.lat_us.p50,
        xfer.lat_us.p99,
        xfer.first_us,
        xfer.cpu.load1,
        words::cpus(&xfer.cpu),
    );
    StepVerdict {
        what,
        bulk: total >= BULK_BYTES,
        intact: step.verify.ok,
        lane,
        counters,
        gbps: xfer.gbps,
        of_line_rate,
        impossible,
        line,
    }
}

/// What libfabric's log says of the provider comes first: a provider that is TCP is no RDMA, whatever counters show, since
/// those of a device count everybody's bytes. A provider that could be RDMA needs the counters.
fn by_provider(
    backend: &str,
    text: &UcxText,
    counted: Result<Lane, Unknown>,
) -> Result<Lane, Unknown> {
    let of_rdma = |lane: &Lane| lane.class != Class::Tcp;
    match (text.provider.as_deref(), counted) {
        (Some(name @ ("tcp" | "sockets")), _) => {
            let rail = ucx_text::Rail {
                transport: "libfabric".to_owned(),
                device: name.to_owned(),
                percent: None,
            };
            Ok(Lane {
                class: Class::Tcp,
                rails: vec![rail],
                how: "by the provider in the log".to_owned(),
            })
        }
        (Some(name), Ok(lane)) if !of_rdma(&lane) => Err(Unknown::new(
            format!("the log names the provider {name}, and counters show other bytes"),
            Some(lane.to_string()),
        )),
        (None, Ok(lane)) if backend == "LIBFABRIC" && of_rdma(&lane) => Err(Unknown::new(
            "counters moved, and the log names no provider of libfabric: the bytes may be another's",
            Some(lane.to_string()),
        )),
        (_, counted) => counted,
    }
}

/// Sum of the rates of the ports that carry a lane. None as soon as one of them is not known, and for software, whose
/// printed rate means nothing.
fn line_rate(lane: &Lane, ports: &[PortFacts], intent: &Intent) -> Option<f64> {
    if lane.class != Class::Rdma {
        return None;
    }
    let mut devices: Vec<&str> = lane.rails.iter().map(|r| r.device.as_str()).collect();
    devices.sort_unstable();
    devices.dedup();
    devices
        .into_iter()
        .map(|device| port_rate(device, ports, intent))
        .sum()
}

fn port_rate(device: &str, ports: &[PortFacts], intent: &Intent) -> Option<f64> {
    if let Some(rate) = intent.line_rates.get(device) {
        return Some(*rate);
    }
    let (name, port) = device.split_once(':').unwrap_or((device, "1"));
    let port = ports
        .iter()
        .find(|p| &*p.device == name && p.port.to_string() == port)?;
    // `400 Gb/sec (4X NDR)`; older kernels print SDR for a speed they do not know.
    let rate = port.rate.as_deref()?;
    if rate.contains("SDR") {
        return None;
    }
    rate.split_whitespace().next()?.parse().ok()
}

fn verdict(status: Status, detail: impl Into<String>) -> Verdict {
    Verdict {
        status,
        detail: detail.into(),
        fix: None,
        proven: false,
        unproven: Vec::new(),
        wrong_bytes: false,
        reason: None,
        steps: Vec::new(),
        caveats: Vec::new(),
        evidence: Vec::new(),
    }
}

fn wrong_bytes(step: &StepRecord, shown: &StepVerdict, gpu: bool) -> Verdict {
    let at = step.verify.bad_at.unwrap_or_default();
    let how = match step.verify.zeros {
        Some(true) => "nothing arrived there: the block holds only zeros",
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
fn failed(failure: &Failure, record: &TransferRecord, text: &UcxText, intent: &Intent) -> Verdict {
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

/// Right bytes: over which lane?
fn lanes(
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
            proven: worst.proven,
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
            } else if !text.rows.is_empty() {
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

/// A lane well below the rate of its port.
fn slow(bulk: &[&StepVerdict]) -> Option<Verdict> {
    let judged = bulk.iter().filter_map(|s| Some((s.of_line_rate?, s)));
    let (share, step) = judged.min_by(|a, b| a.0.total_cmp(&b.0))?;
    if share >= RATE_OK {
        return None;
    }
    let how = if share < RATE_BOUNCE {
        "this looks like TCP or a bounce through software"
    } else if share < RATE_FAR {
        "far below"
    } else {
        "below"
    };
    let detail = format!(
        "{} at {:.0}% of the line rate, {how} the {:.0}% that is usual ({RATE_SOURCE})",
        step.line,
        share * 100.0,
        RATE_OK * 100.0,
    );
    let fix = "Run it again while the workers are idle. If it stays low: compare the PCIe speed and width of the NIC with \
               its rate, and use a GPU and a NIC under one PCIe switch.";
    Some(Verdict {
        fix: Some(fix.to_owned()),
        ..verdict(Status::Warn, detail)
    })
}

/// Why right bytes prove no lane, what is most in the way first.
fn gaps(record: &TransferRecord, steps: &[StepVerdict], intent: &Intent) -> Vec<Gap> {
    let mut out: Vec<Gap> = Vec::new();
    let mut add = |kind, why: String| {
        if out.iter().all(|known| known.kind != kind) {
            out.push(Gap { kind, why });
        }
    };
    if record.same_container {
        let why = "both ends ran in one container, so nothing went from one worker to another";
        add(GapKind::OneContainer, why.to_owned());
    }
    let any_bulk = steps.iter().any(|s| s.bulk);
    let decisive = steps.iter().filter(|s| s.bulk || !any_bulk);
    for step in decisive.clone() {
        if let Some(Agreement::OneSided(why)) = &step.counters {
            add(GapKind::Contradicted, why.clone());
        }
        if let Some(why) = &step.impossible {
            add(GapKind::Contradicted, why.clone());
        }
    }
    for lane in decisive.filter_map(|s| s.lane.as_ref().ok()) {
        match lane.class {
            _ if record.same_container => {}
            Class::SharedMemory => {
                let why =
                    format!("{lane} is memory of one node, so no link between nodes was used");
                add(GapKind::OneNode, why);
            }
            Class::SoftRoce | Class::SoftIwarp | Class::SoftRdma => {
                let why = format!("{} is no RDMA hardware", lane.class);
                add(GapKind::SoftwareVerbs, why);
            }
            Class::Rdma if intent.path == Path::MultiNodeNvlink => {
                let why = "RDMA carried the bytes, and multi-node NVLink is meant";
                add(GapKind::OtherLane, why.to_owned());
            }
            class if class == Class::Tcp || lane.emulated() => {
                add(
                    GapKind::OtherLane,
                    format!("{lane} carried the bytes, and RDMA or NVLink is meant"),
                );
            }
            _ => {}
        }
    }
    if intent.differs(&record.backend) {
        let own = match &intent.backend {
            Some(own) => format!("the worker uses {own}"),
            None => "the worker's settings name no backend, so that it uses UCX".to_owned(),
        };
        let why = format!("it used {}, and {own}", record.backend);
        add(GapKind::OtherBackend, why);
    }
    let ends = [&record.target, &record.initiator];
    let on_host = ends
        .iter()
        .filter_map(|e| e.ready.as_ref())
        .find(|r| &*r.seg != "VRAM");
    if let Some(ready) = on_host.filter(|_| !intent.host_memory) {
        let why = match &ready.host_memory_because {
            Some(why) if record.memory != Memory::Host => format!(": {why}"),
            _ => String::new(),
        };
        let why =
            format!("the bytes lay in host memory, so the path from GPU to GPU was not used{why}");
        add(GapKind::HostMemory, why);
    }
    out
}

fn caveats(record: &TransferRecord, steps: &[StepVerdict], intent: &Intent) -> Vec<String> {
    let mut out = Vec::new();
    // Two ends with one reason are one sentence.
    let mut on_host: BTreeMap<String, Vec<String>> = BTreeMap::new();
    // Of a transfer that failed nothing is proven anyway.
    let whole = record.failure.is_none();
    for end in [&record.target, &record.initiator] {
        let Some(ready) = end.ready.as_ref().filter(|_| whole) else {
            continue;
        };
        let why = match &ready.host_memory_because {
            Some(why) if record.memory != Memory::Host => format!(": {why}"),
            _ if &*ready.seg != "VRAM" && !intent.host_memory => ", as asked for".to_owned(),
            _ => continue,
        };
        let ends = on_host.entry(why).or_default();
        if !ends.contains(&end.label.to_string()) {
            ends.push(end.label.to_string());
        }
    }
    for (why, ends) in on_host {
        let ends = ends.join(" and ");
        out.push(format!(
            "host memory was used on {ends}, so the GPU path is not proven{why}"
        ));
    }
    for end in [&record.target, &record.initiator] {
        if let Some(ended) = end
            .ended
            .as_ref()
            .filter(|_| end.ready.is_some() && end.maxrss_kb.is_some())
        {
            match ended.signal() {
                Some(signal) => out.push(format!(
                    "the probe on {} crashed at exit (signal {signal}), after its work",
                    end.label
                )),
                None if *ended != super::stream::Ended::Code(0) => {
                    out.push(format!(
                        "the probe on {} left with {ended}, after its work",
                        end.label
                    ));
                }
                None => {}
            }
        }
    }
    for end in [&record.target, &record.initiator] {
        let Some(ready) = end.ready.as_ref().filter(|r| !r.passed_over.is_empty()) else {
            continue;
        };
        let broken: Vec<&str> = ready.passed_over.iter().map(|why| &**why).collect();
        let said = format!(
            "on {} {} was used, and what stands before it could not be imported ({}): an engine that imports it fails",
            end.label,
            ready.nixl_module,
            broken.join("; ")
        );
        if !out.contains(&said) {
            out.push(said);
        }
    }
    let throttled = record
        .steps
        .iter()
        .any(|s| s.xfer.cpu.throttled.is_some_and(|n| n > 0));
    if throttled {
        out.push(
            "the CPU quota stopped the probe during a transfer, so rates and latencies are too low"
                .to_owned(),
        );
    }
    for step in steps.iter().filter(|s| s.bulk) {
        if let Some(lane) = step.lane.as_ref().ok().filter(|l| l.copies()) {
            out.push(format!(
                "{}: UCX copies through buffers ({lane}) instead of zero-copy",
                step.what
            ));
        }
    }
    if record.same_container && !steps.is_empty() {
        out.push(
            "both ends ran in one container: registration and the local lane, no more".to_owned(),
        );
    }
    out
}

/// Lines of both logs that say why it failed: those of the end that failed come first.
fn last_words(record: &TransferRecord) -> Vec<String> {
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

fn evidence(record: &TransferRecord, text: &UcxText, steps: &[StepVerdict]) -> Vec<String> {
    let mut out = last_words(record);
    out.extend(steps.iter().map(|s| s.line.clone()));
    out.extend(text.version.iter().map(|v| format!("UCX {v}")));
    out.extend(
        text.provider
            .iter()
            .map(|p| format!("libfabric provider {p}")),
    );
    out.extend(text.configurations.iter().cloned());
    out.extend(
        text.rows
            .iter()
            .filter(|r| r.to.is_none())
            .map(|r| format!("{} {}: {} {}", r.kind, r.memory, r.how, r.raw)),
    );
    out
}
