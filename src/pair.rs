//! What a transfer between two ends proved, as plain facts: the bridge from `transfer`, which touches the world, to the
//! checks, which do not.

use crate::report::{Gap, GapKind, PairReport, SkipReason, Status};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// How the words on a transfer begin that arrived over another lane than was meant.
pub const WRONG_LANE: &str = "Works, wrong lane";
/// How the words on a transfer begin whose bytes differ.
pub const WRONG_BYTES: &str = "WRONG BYTES";

/// One transfer, judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairFacts {
    /// The end that moved the bytes, as the report names it.
    pub initiator: String,
    /// The end that lent its memory.
    pub target: String,
    /// Namespace of both.
    pub namespace: Option<String>,
    /// How bad it is.
    pub status: Status,
    /// What was seen and what was needed.
    pub detail: String,
    /// What to do.
    pub fix: Option<String>,
    /// The intended lane carried the bytes.
    pub proven: bool,
    /// Why right bytes prove no lane.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unproven: Vec<Gap>,
    /// Bytes differed: graver than any other fail, and explained by nothing else.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wrong_bytes: bool,
    /// Why nothing can be said, where the status is skipped.
    pub reason: Option<SkipReason>,
    /// `rc_mlx5/mlx5_0:1 zero-copy`, or why it is not known.
    pub lane: String,
    /// Bandwidth of the largest WRITE in GB/s (10^9 bytes).
    pub write_gbytes: Option<f64>,
    /// Bandwidth of the largest READ in GB/s.
    pub read_gbytes: Option<f64>,
    /// Share of the line rate of the ports that carried it, 0 to 1.
    pub of_line_rate: Option<f64>,
    /// `gpu`; `host` where one end or both lay in host memory; `none` where an end had none yet.
    pub memory: String,
    /// One line per step.
    pub steps: Vec<String>,
    /// What limits the verdict, in plain sentences.
    pub caveats: Vec<String>,
    /// Lines it rests on.
    pub evidence: Vec<String>,
}

/// Transports of UCX that are RDMA verbs: `ucx_info -d` of UCX 1.16 to 1.23.
const VERBS: [&str; 12] = [
    "rc", "dc", "ud", "srd", "rc_verbs", "ud_verbs", "rc_mlx5", "dc_mlx5", "ud_mlx5", "rc_x",
    "dc_x", "ud_x",
];
/// Transports of UCX that are NVLink, or PCIe where the GPUs have no NVLink.
const PEER_TO_PEER: [&str; 2] = ["cuda_ipc", "rocm_ipc"];
/// RDMA by counters, where no table of UCX tells.
pub const RDMA_BY_COUNTERS: &str = "rdma";
/// NVLink by counters.
pub const NVLINK_BY_COUNTERS: &str = "nvlink";

/// Transports of UCX by the names under which a lane shows them, where a list may leave them out.
pub const OF_UCX: [&str; 7] = [
    "rc_verbs", "ud_verbs", "rc_mlx5", "dc_mlx5", "ud_mlx5", "srd", "cuda_ipc",
];

/// A transport of UCX is RDMA verbs.
pub fn is_verbs(transport: &str) -> bool {
    VERBS.contains(&transport)
}

/// A transport of UCX is `cuda_ipc` or its like.
pub fn is_peer_to_peer(transport: &str) -> bool {
    PEER_TO_PEER.contains(&transport)
}

/// How UCX calls a lane whose bytes the CPU moves through messages.
pub const EMULATED: &str = "software emulation";

/// How a lane moves bytes, by UCX's table (`ucp_proto` of UCX 1.16 to 1.23) or by what told it. What else is said there is not
/// understood.
const HOW: [&str; 7] = [
    "zero-copy",
    "copy-in",
    "copy-out",
    "multi-frag",
    "short",
    "by counters",
    "by the provider in the log",
];

/// The words on how a lane moves bytes are known; [`EMULATED`] is.
pub fn knows_how(how: &str) -> bool {
    how.contains(EMULATED) || HOW.iter().any(|known| how.contains(known))
}

/// The least time that one operation takes, in seconds: it crosses PCIe and comes back.
/// Judgement of this project: RDMA operations of one byte take more than half a microsecond (`ib_write_lat`).
const LEAST_SECONDS: f64 = 1e-7;

/// Below this share of the line rate a transfer is no `ok`.
pub const RATE_OK: f64 = 0.9;
/// Above this multiple of the line rate a rate is no measurement: the clock of the initiator is wrong, or it lies.
pub const RATE_IMPOSSIBLE: f64 = 2.2;
const RATE_IMPOSSIBLE_SOURCE: &str = "judgement of this project: a bond may show the rate of one of its two ports, and a \
tenth is left for rounding";
/// The same where no port tells: more than any memory moves, in Gb/s.
pub const MEMORY_RATE: f64 = 256_000.0;
const MEMORY_RATE_SOURCE: &str =
    "judgement of this project: 32 TB/s, where the memory of one GPU of 2026 (HBM4) moves 22";

/// Why a rate in Gb/s cannot be, and where the limit comes from: it is faster than the ports, whose rates together are
/// `line_rate`, or than any memory.
pub fn impossible(gbps: f64, line_rate: Option<f64>) -> Option<(String, &'static str)> {
    let (most, than, source) = match line_rate {
        Some(rate) if rate > 0.0 => (
            rate * RATE_IMPOSSIBLE,
            format!("{RATE_IMPOSSIBLE} times the line rate of {rate:.0} Gb/s"),
            RATE_IMPOSSIBLE_SOURCE,
        ),
        _ => (
            MEMORY_RATE,
            format!("{MEMORY_RATE:.0} Gb/s"),
            MEMORY_RATE_SOURCE,
        ),
    };
    (gbps > most).then(|| (format!("{gbps:.0} Gb/s is more than {than}"), source))
}

/// From this size on an operation counts as bulk; a run with smaller ones only is judged by its largest.
pub const BULK_BYTES: u64 = 1 << 20;

/// What carried bytes: `rc_mlx5` on `mlx5_0:1`, by the words of a lane.
fn rails(lane: &str) -> impl Iterator<Item = (&str, &str)> {
    lane.split_whitespace()
        .filter_map(|word| word.split_once('/'))
}

/// The RDMA devices that a lane names.
fn devices(lane: &str) -> BTreeSet<&str> {
    let of_rdma = |transport: &str| is_verbs(transport) || transport == RDMA_BY_COUNTERS;
    rails(lane)
        .filter(|(transport, _)| of_rdma(transport))
        .map(|(_, device)| device)
        .collect()
}

/// What a line on a step says: `WRITE 64 x 1048576 bytes: rc_mlx5/mlx5_0:1 zero-copy; 46.10 GB/s; latency us ..`.
struct Step<'a> {
    /// `WRITE`, `READ`.
    kind: &'a str,
    /// Of one operation.
    bytes: u64,
    lane: &'a str,
    /// GB/s; none where the line was cut before it.
    gbytes: Option<f64>,
}

impl<'a> Step<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let (what, told) = line.split_once(" bytes: ")?;
        let mut words = what.split(' ');
        let kind = words.next().filter(|k| ["WRITE", "READ"].contains(k))?;
        let descs: u64 = words.next()?.parse().ok()?;
        let bytes: u64 = words.nth(1)?.parse().ok()?;
        let rate = |part: &str| part.split_once(" GB/s")?.0.parse().ok();
        Some(Self {
            kind,
            bytes: descs.checked_mul(bytes)?,
            lane: told.split(';').next().unwrap_or_default(),
            gbytes: told.split("; ").find_map(rate),
        })
    }
}

/// The container at one end of a transfer, as far as the transfer can be held against it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct End {
    /// Its node, where that is known.
    pub node: Option<String>,
    /// Its RDMA ports; none where they were not read.
    pub ports: Option<Vec<EndPort>>,
    /// RDMA devices that it is known to be unable to open, with what the kernel said.
    pub closed: BTreeMap<String, String>,
    /// It is known to have no RDMA device that it can open.
    pub opens_none: bool,
    /// Its GPUs are part of an NVLink domain that may span nodes; none where that was not read.
    pub spans_nodes: Option<bool>,
    /// Its settings leave NVLink and no RDMA.
    pub over_nvlink: bool,
    /// Its KV lies in host memory on purpose (`kv_buffer_device=cpu`); none where nothing says where it lies.
    pub host_memory: Option<bool>,
    /// NIXL backend that its settings name.
    pub backend: Option<String>,
    /// Transports that its UCX_TLS leaves UCX none of, of those that a lane may name.
    pub barred: BTreeSet<&'static str>,
    /// RDMA ports (`mlx5_0:1`) that its UCX_NET_DEVICES leaves out.
    pub passed_over: BTreeSet<String>,
    /// Why a transfer of NIXL proves nothing of what moves its KV, where that is something else.
    pub other_mover: Option<String>,
}

/// One RDMA port of a container.
#[derive(Debug, Clone, PartialEq)]
pub struct EndPort {
    /// `mlx5_0`.
    pub device: String,
    /// Its number, from 1; none where only the device was seen.
    pub number: Option<u32>,
    /// Verbs over an ordinary network card.
    pub is_software: bool,
    /// Line rate in Gb/s, where it is known.
    pub gbps: Option<f64>,
    /// It was seen in a state in which no port carries data: the kernel's word for it.
    pub lost: Option<String>,
}

impl End {
    /// Its KV is known to lie in host memory.
    pub fn in_host_memory(&self) -> bool {
        self.host_memory == Some(true)
    }

    /// The port of this name: `mlx5_0:1`, or `mlx5_0` for any port of it. `None` where ports were not read.
    fn port(&self, name: &str) -> Option<Option<&EndPort>> {
        let (device, number) = name.split_once(':').unwrap_or((name, ""));
        let same = |port: &&EndPort| {
            port.device == device
                && (number.is_empty() || port.number.is_none_or(|n| n.to_string() == number))
        };
        self.ports.as_ref().map(|ports| ports.iter().find(same))
    }

    /// Why it cannot open this device (`mlx5_0:1`, `mlx5_0`), where that is known.
    fn closed(&self, name: &str) -> Option<&str> {
        let device = name.split_once(':').map_or(name, |(device, _)| device);
        let none = self.opens_none.then_some("no node in /dev/infiniband");
        self.closed.get(device).map(String::as_str).or(none)
    }

    /// UCX is told to leave this port out (`mlx5_0:1`, with a path behind it or not).
    fn passes_over(&self, name: &str) -> bool {
        let port = name.split('/').next().unwrap_or_default();
        self.passed_over.contains(port)
    }

    /// No RDMA port of it can have carried anything; false where that is not known.
    fn has_no_port(&self) -> bool {
        let dead = |port: &EndPort| port.lost.is_some() || self.closed(&port.device).is_some();
        self.opens_none || self.ports.as_ref().is_some_and(|all| all.iter().all(dead))
    }

    /// The rates of these ports together in Gb/s; none as soon as one is not known.
    fn line_rate(&self, ports: &BTreeSet<&str>) -> Option<f64> {
        ports.iter().map(|name| self.port(name)??.gbps).sum()
    }
}

impl PairFacts {
    /// What is wrong with a transfer that cannot have been as it is told; `namespace` is that of its deployment, and the
    /// ends are its initiator and its target.
    fn contradiction(&self, namespace: Option<&str>, ends: [Option<&End>; 2]) -> Option<String> {
        let rates = [self.write_gbytes, self.read_gbytes];
        // A few bytes that took long are a rate that rounds to none, which matters where something was proven by it.
        let sound = |rate: &f64| rate.is_finite() && (*rate > 0.0 || *rate == 0.0 && !self.proven);
        let first = self.lane.split(['/', ' ', ':']).next().unwrap_or_default();
        // `unknown: why`, `nothing was moved: why`.
        let none = ["", "unknown", "nothing"].contains(&first);
        let why = if self.wrong_bytes && (self.proven || self.status != Status::Fail) {
            "its bytes were wrong, and it is not a fail"
        } else if self.proven && !matches!(self.status, Status::Ok | Status::Warn) {
            "it was proven, and it did not succeed"
        } else if let (Some(reason), Status::Ok | Status::Warn) = (self.reason, self.status) {
            let words = reason.words();
            return Some(format!(
                "it succeeded, and says why nothing is known ({words})"
            ));
        } else if self.status != Status::Fail && self.detail.starts_with(WRONG_BYTES) {
            "its bytes were wrong, and it is not a fail"
        } else if self.proven && none {
            "it was proven, and no lane is named"
        } else if rates.iter().flatten().any(|rate| !sound(rate)) {
            "its bandwidth is no bandwidth"
        } else if self
            .of_line_rate
            .is_some_and(|share| !share.is_finite() || share < 0.0)
        {
            "its share of the line rate is none"
        } else if self.proven && rates.contains(&None) {
            // Each shape is moved both ways.
            "it was proven, and no bandwidth of its WRITE or READ was measured"
        } else if let (Some(own), Some(of)) = (self.namespace.as_deref(), namespace)
            && own != of
        {
            "it is of another namespace than its deployment"
        } else if let Some(share) = self.of_line_rate
            && self.status == Status::Ok
            && share < RATE_OK
        {
            let percent = share * 100.0;
            return Some(format!("it is ok, at {percent:.0}% of the line rate"));
        } else if self.proven {
            return self.unprovable(ends);
        } else {
            return None;
        };
        Some(why.to_owned())
    }

    /// Why a transfer that was proven cannot have been: what a transfer is judged by when it is made, as far as its record
    /// and its ends still show it.
    fn unprovable(&self, [initiator, target]: [Option<&End>; 2]) -> Option<String> {
        if self.initiator == self.target {
            return Some(format!(
                "it was proven, and both its ends are {}",
                self.target
            ));
        }
        let stranger = |name: &str| {
            format!("it was proven, and {name} is not among the pods that were looked at")
        };
        let Some(initiator) = initiator else {
            return Some(stranger(&self.initiator));
        };
        let Some(target) = target else {
            return Some(stranger(&self.target));
        };
        if !self.unproven.is_empty() || self.detail.starts_with(WRONG_LANE) {
            return Some("it was proven, and says why it was not".to_owned());
        }
        if let Some(why) = self.no_lane(&self.lane, initiator) {
            return Some(why);
        }
        if !knows_how(&self.lane) {
            return Some(
                "it was proven, and how its lane moves bytes is not understood".to_owned(),
            );
        }
        let devices = devices(&self.lane);
        // A lane names the devices of the initiator alone: the target may use any that it has.
        if !devices.is_empty() && target.has_no_port() {
            return Some(format!(
                "it was proven over RDMA, and {} has no RDMA port that is up and that it can open",
                self.target
            ));
        }
        let line_rate = initiator
            .line_rate(&devices)
            .filter(|_| !devices.is_empty());
        let gbps = [self.write_gbytes, self.read_gbytes].map(|rate| rate.map(|rate| rate * 8.0));
        let mut rates = gbps.iter().flatten();
        if let Some((why, _)) = rates.find_map(|gbps| impossible(*gbps, line_rate)) {
            return Some(why);
        }
        if let Some(share) = self.of_line_rate {
            if share > RATE_IMPOSSIBLE {
                return Some(format!("{:.0}% of a line rate cannot be", share * 100.0));
            }
            // It is that of the largest WRITE or READ, and both of an `ok` reach that share: a third less or half more, since a
            // port may have changed its speed.
            let part = |gbps: &f64, rate: f64| gbps / rate / share;
            let none_fits = |rate: f64| {
                let near = |gbps: &f64| (1.0 / 1.5..1.5).contains(&part(gbps, rate));
                let low = |gbps: &f64| *gbps < rate * RATE_OK / 1.5;
                let mut both = gbps.iter().flatten();
                !both.clone().any(near) || self.status == Status::Ok && both.any(low)
            };
            if let Some(rate) = line_rate.filter(|rate| none_fits(*rate)) {
                return Some(format!(
                    "its bandwidth is not {:.0}% of the line rate of {rate:.0} Gb/s",
                    share * 100.0
                ));
            }
        }
        let in_host = initiator.in_host_memory() && target.in_host_memory();
        match &*self.memory {
            "gpu" if in_host && devices.is_empty() => {
                return Some(
                    "it was proven over NVLink, and the KV cache lies in host memory at both ends (kv_buffer_device=cpu), \
                     from where NVLink carries none"
                        .to_owned(),
                );
            }
            "gpu" => {}
            // What was seen of both ends decides, as when it was made.
            "host" if in_host => {}
            "host" => {
                return Some(
                    "it was proven, and its bytes lay in host memory, where the KV cache does not"
                        .to_owned(),
                );
            }
            _ => return Some("it was proven, and no memory is named".to_owned()),
        }
        let apart =
            initiator.node.is_some() && target.node.is_some() && initiator.node != target.node;
        if apart && devices.is_empty() {
            let within = [(initiator, &self.initiator), (target, &self.target)]
                .into_iter()
                .find(|(end, _)| end.spans_nodes == Some(false));
            if let Some((_, name)) = within {
                return Some(format!(
                    "it was proven over NVLink between two nodes, and the NVLink of {name} ends at its node"
                ));
            }
        }
        if !devices.is_empty() && initiator.over_nvlink && target.over_nvlink {
            return Some("it was proven over RDMA, where multi-node NVLink is meant".to_owned());
        }
        // Only UCX prints what it takes; of the other backends the counters tell.
        let of_ucx = |transport: &str| is_verbs(transport) || is_peer_to_peer(transport);
        let by_ucx = rails(&self.lane).all(|(transport, _)| of_ucx(transport));
        let own = initiator.backend.as_deref();
        if let Some(own) = own.filter(|own| by_ucx != own.eq_ignore_ascii_case("UCX")) {
            return Some(format!(
                "it was proven over a lane that is none of {own}, the backend of the worker"
            ));
        }
        self.other_steps(initiator)
    }

    /// Why bytes that went over this lane prove nothing.
    fn no_lane(&self, lane: &str, initiator: &End) -> Option<String> {
        let carries = |transport: &str| {
            is_verbs(transport)
                || is_peer_to_peer(transport)
                || [RDMA_BY_COUNTERS, NVLINK_BY_COUNTERS].contains(&transport)
        };
        let mut transports = rails(lane).map(|(transport, _)| transport).peekable();
        if transports.peek().is_none() || !transports.all(carries) {
            return Some("it was proven, over a lane that proves nothing".to_owned());
        }
        if lane.contains(EMULATED) {
            return Some(format!("it was proven, over {EMULATED}"));
        }
        for (transport, device) in rails(lane) {
            if initiator.barred.contains(transport) {
                return Some(format!(
                    "it was proven over {transport}, which UCX_TLS of {} leaves out",
                    self.initiator
                ));
            }
            if is_verbs(transport) && initiator.passes_over(device) {
                return Some(format!(
                    "it was proven over {device}, which UCX_NET_DEVICES of {} leaves out",
                    self.initiator
                ));
            }
        }
        for device in devices(lane) {
            let shown = initiator.port(device);
            if shown == Some(None) {
                return Some(format!(
                    "it was proven over {device}, and {} shows no such RDMA port",
                    self.initiator
                ));
            }
            let lost = shown.flatten().and_then(|port| port.lost.as_ref());
            if let Some(state) = lost {
                return Some(format!(
                    "it was proven over {device}, and {} shows that port {state}",
                    self.initiator
                ));
            }
            if let Some(why) = initiator.closed(device) {
                return Some(format!(
                    "it was proven over {device}, which {} cannot open: {why}",
                    self.initiator
                ));
            }
            let soft = shown.flatten().is_some_and(|port| port.is_software);
            if soft || device.starts_with("rxe") || device.starts_with("siw") {
                return Some(format!(
                    "it was proven over {device}, which is no RDMA hardware"
                ));
            }
        }
        None
    }

    /// Where its steps tell another story than the transfer does as a whole. Each shape is moved as WRITE and as READ, and the
    /// large ones tell the lane.
    fn other_steps(&self, initiator: &End) -> Option<String> {
        let mut steps = Vec::new();
        for line in &self.steps {
            let Some(step) = Step::read(line) else {
                return Some("it was proven, and a step of it cannot be read".to_owned());
            };
            steps.push(step);
        }
        #[expect(
            clippy::cast_precision_loss,
            reason = "sizes of which the time matters are far below 2^52"
        )]
        let at_once = |step: &Step<'_>| {
            let bytes = step.bytes as f64;
            // A line is rounded.
            step.gbytes
                .filter(|rate| step.bytes > 0 && (rate - 0.01) * 1e9 * LEAST_SECONDS > bytes)
        };
        if let Some((step, rate)) = steps.iter().find_map(|s| Some((s, at_once(s)?))) {
            return Some(format!(
                "a {} of {} bytes is told at {rate:.2} GB/s, in less time than any operation takes",
                step.kind, step.bytes
            ));
        }
        let largest = steps.iter().map(|step| step.bytes).max().unwrap_or(0);
        let least = largest.clamp(1, BULK_BYTES);
        let bulk = || steps.iter().filter(|step| step.bytes >= least);
        let told = [("WRITE", self.write_gbytes), ("READ", self.read_gbytes)];
        for (kind, gbytes) in told {
            if !bulk().any(|step| step.kind == kind) {
                return Some(format!(
                    "it was proven, and no {kind} of it is recorded that tells a lane"
                ));
            }
            let own = steps.iter().rfind(|step| step.kind == kind);
            let own = own.and_then(|step| step.gbytes);
            // A line is rounded.
            let far = |own: f64, all: f64| (own - all).abs() > all * 0.02 + 0.01;
            if let (Some(own), Some(all)) = (own, gbytes)
                && far(own, all)
            {
                return Some(format!(
                    "its {kind} is told at {all:.2} GB/s, and the step at {own:.2} GB/s"
                ));
            }
        }
        let mut all = bulk();
        let wrong = all.find_map(|step| Some((step.kind, self.no_lane(step.lane, initiator)?)));
        if let Some((kind, why)) = wrong {
            return Some(format!("a {kind} of it tells another lane: {why}"));
        }
        // A line without its bandwidth was cut, perhaps within its lane.
        if let Some(step) = bulk().find(|s| s.gbytes.is_some() && !knows_how(s.lane)) {
            return Some(format!(
                "a {} of it moved bytes in a way that is not understood",
                step.kind
            ));
        }
        let last = bulk().next_back()?;
        // A line without its bandwidth was cut, perhaps within its lane.
        (last.gbytes.is_some() && last.lane != self.lane).then(|| {
            let kind = last.kind;
            format!("it was proven over another lane than the last {kind} of it went")
        })
    }

    /// Takes from a transfer that contradicts itself, or the containers at its ends, what could be taken for a proof: a
    /// recording may come from anybody. So does what was moved right between workers whose KV something else moves. The ends are
    /// its initiator and its target, where something is known of them.
    pub fn doubt(&mut self, namespace: Option<&str>, ends: [Option<&End>; 2]) {
        let Some(why) = self.contradiction(namespace, ends) else {
            let beside = ends.into_iter().flatten();
            let why = beside.filter_map(|end| end.other_mover.clone()).next();
            if let Some(why) = why.filter(|_| self.proven) {
                self.proven = false;
                let kind = GapKind::OtherMover;
                self.unproven.push(Gap { kind, why });
            }
            return;
        };
        self.proven = false;
        (self.write_gbytes, self.read_gbytes, self.of_line_rate) = (None, None, None);
        let says = format!("what is recorded of this transfer contradicts itself ({why})");
        let was = std::mem::take(&mut self.detail);
        match (self.wrong_bytes, self.status) {
            // Whatever else is wrong with its record: a failure is what it is, and so is what mends it.
            (_, Status::Fail) | (true, _) => {
                let what = match self.wrong_bytes && !was.starts_with(WRONG_BYTES) {
                    true => format!("{WRONG_BYTES}: "),
                    false => String::new(),
                };
                self.status = Status::Fail;
                self.reason = None;
                self.detail = format!("{what}{was}; {says}");
            }
            (_, Status::Skipped) => self.detail = format!("{was}; {says}"),
            (_, Status::Ok | Status::Warn) => {
                self.status = Status::Skipped;
                self.reason = Some(SkipReason::Unparsable);
                self.detail = format!("{says}, so nothing is concluded; it says: {was}");
                self.fix = Some("make the transfer again".to_owned());
            }
        }
        let fix = self.fix.take();
        self.fix = fix.or(Some("make the transfer again".to_owned()));
    }

    /// The transfer as the report shows it.
    pub fn report(&self) -> PairReport {
        PairReport {
            initiator: self.initiator.clone(),
            target: self.target.clone(),
            status: self.status,
            proven: self.proven,
            unproven: self.unproven.clone(),
            lane: self.lane.clone(),
            memory: self.memory.clone(),
            write_gbytes: self.write_gbytes,
            read_gbytes: self.read_gbytes,
            of_line_rate: self.of_line_rate,
            steps: self.steps.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proven(lane: &str) -> PairFacts {
        PairFacts {
            initiator: "decode-0".to_owned(),
            target: "prefill-0".to_owned(),
            namespace: None,
            status: Status::Ok,
            detail: "moved right bytes".to_owned(),
            fix: None,
            proven: true,
            unproven: vec![],
            wrong_bytes: false,
            reason: None,
            lane: lane.to_owned(),
            write_gbytes: Some(46.0),
            read_gbytes: Some(45.5),
            of_line_rate: Some(0.91),
            memory: "gpu".to_owned(),
            steps: vec![
                format!("WRITE 1 x 8 bytes: {SMALL}; 0.00 GB/s; latency us min 1.0"),
                format!("READ 1 x 8 bytes: {SMALL}; 0.00 GB/s; latency us min 1.0"),
                step("WRITE", 46.0, lane),
                step("READ", 45.5, lane),
            ],
            caveats: vec![],
            evidence: vec![],
        }
    }

    /// What a few bytes go over tells nothing of the others.
    const SMALL: &str = "tcp/eth0 short";

    fn step(kind: &str, gbytes: f64, lane: &str) -> String {
        format!("{kind} 64 x 1048576 bytes: {lane}; {gbytes:.2} GB/s; latency us min 1.0")
    }

    /// The same bandwidth as a whole and in the steps.
    fn at(pair: &mut PairFacts, gbytes: f64) {
        (pair.write_gbytes, pair.read_gbytes) = (Some(gbytes), Some(gbytes));
        pair.steps = ["WRITE", "READ"]
            .map(|kind| step(kind, gbytes, &pair.lane))
            .into();
    }

    fn end(node: &str) -> End {
        let port = EndPort {
            device: "mlx5_0".to_owned(),
            number: Some(1),
            is_software: false,
            gbps: Some(400.0),
            lost: None,
        };
        End {
            node: Some(node.to_owned()),
            ports: Some(vec![port]),
            spans_nodes: Some(false),
            ..End::default()
        }
    }

    const RC: &str = "rc_mlx5/mlx5_0:1 zero-copy";
    const NVLINK: &str = "cuda_ipc/cuda zero-copy";
    const COUNTED: &str = "rdma/mlx5_0:1 by counters";

    #[test]
    fn a_proven_transfer_is_held_against_its_ends() {
        type Edit<'a> = &'a dyn Fn(&mut PairFacts, &mut End, &mut End);
        let port = |end: &mut End, change: &dyn Fn(&mut EndPort)| {
            end.ports.iter_mut().flatten().for_each(change);
        };
        let close = |end: &mut End, device: &str| {
            let why = "EACCES".to_owned();
            end.closed.insert(device.to_owned(), why);
        };
        let rows: &[(&str, &str, Edit<'_>)] = &[
            (RC, "", &|_, _, _| ()),
            ("rc_mlx5/mlx5_0 zero-copy", "", &|_, _, _| ()),
            (RC, "", &|_, own, _| own.ports = None),
            (COUNTED, "", &|_, _, _| ()),
            (COUNTED, "", &|_, own, _| {
                own.backend = Some("LIBFABRIC".to_owned())
            }),
            (COUNTED, "none of UCX", &|_, own, _| {
                own.backend = Some("UCX".to_owned())
            }),
            (RC, "none of LIBFABRIC", &|_, own, _| {
                own.backend = Some("LIBFABRIC".to_owned())
            }),
            (
                "rc_mlx5/mlx5_0:2 zero-copy",
                "no such RDMA port",
                &|_, _, _| (),
            ),
            (RC, "no such RDMA port", &|_, own, _| {
                own.ports = Some(vec![])
            }),
            (RC, "no RDMA hardware", &|_, own, _| {
                port(own, &|p| p.is_software = true)
            }),
            (RC, "shows that port DOWN", &|_, own, _| {
                port(own, &|p| p.lost = Some("DOWN".to_owned()));
            }),
            (RC, "cannot open: EACCES", &|_, own, _| close(own, "mlx5_0")),
            (COUNTED, "cannot open: EACCES", &|_, own, _| {
                close(own, "mlx5_0")
            }),
            (RC, "cannot open: EACCES", &|_, own, _| {
                own.ports = None;
                close(own, "mlx5_0");
            }),
            (RC, "", &|_, own, _| close(own, "mlx5_1")),
            (RC, "cannot open: no node", &|_, own, _| {
                own.opens_none = true
            }),
            // The target may have used another.
            (RC, "", &|_, _, other| {
                close(other, "mlx5_0");
                let ports = other.ports.get_or_insert_default();
                let second = EndPort {
                    device: "mlx5_1".to_owned(),
                    ..ports[0].clone()
                };
                ports.push(second);
            }),
            (RC, "prefill-0 has no RDMA port", &|_, _, other| {
                close(other, "mlx5_0")
            }),
            (RC, "prefill-0 has no RDMA port", &|_, _, other| {
                (other.ports, other.opens_none) = (None, true);
            }),
            (RC, "prefill-0 has no RDMA port", &|_, _, other| {
                port(other, &|p| p.lost = Some("DOWN".to_owned()));
            }),
            (RC, "", &|_, _, other| other.ports = None),
            (NVLINK, "", &|pair, own, other| {
                (own.opens_none, other.opens_none) = (true, true);
                own.node = Some("b".to_owned());
                pair.of_line_rate = None;
            }),
            (RC, "more than 2.2 times", &|_, own, _| {
                port(own, &|p| p.gbps = Some(100.0))
            }),
            (RC, "not 91%", &|pair, _, _| {
                (pair.write_gbytes, pair.read_gbytes) = (Some(4.0), Some(4.0));
            }),
            (RC, "", &|_, own, _| port(own, &|p| p.gbps = None)),
            (RC, "host memory", &|pair, _, _| {
                pair.memory = "host".to_owned()
            }),
            (RC, "host memory", &|pair, own, _| {
                pair.memory = "host".to_owned();
                own.host_memory = Some(true);
            }),
            (RC, "", &|pair, own, other| {
                pair.memory = "host".to_owned();
                (own.host_memory, other.host_memory) = (Some(true), Some(true));
            }),
            (RC, "", &|_, own, other| {
                (own.host_memory, other.host_memory) = (Some(true), Some(true));
            }),
            (
                NVLINK,
                "lies in host memory at both ends",
                &|pair, own, other| {
                    (own.host_memory, other.host_memory) = (Some(true), Some(true));
                    own.node = Some("b".to_owned());
                    pair.of_line_rate = None;
                },
            ),
            (NVLINK, "ends at its node", &|pair, _, _| {
                pair.of_line_rate = None
            }),
            (NVLINK, "", &|pair, own, _| {
                own.node = Some("b".to_owned());
                pair.of_line_rate = None;
            }),
            (NVLINK, "", &|pair, own, other| {
                (own.spans_nodes, other.spans_nodes) = (Some(true), None);
                pair.of_line_rate = None;
            }),
            (RC, "multi-node NVLink is meant", &|_, own, other| {
                (own.over_nvlink, other.over_nvlink) = (true, true);
            }),
            (RC, "", &|_, own, _| own.over_nvlink = true),
            (RC, "", &|pair, _, _| pair.steps[1] = step("READ", 45.5, RC)),
            (RC, "no bandwidth of its WRITE or READ", &|pair, _, _| {
                pair.read_gbytes = None
            }),
            (RC, "no bandwidth of its WRITE or READ", &|pair, _, _| {
                pair.write_gbytes = None
            }),
            (
                RC,
                "a WRITE of 1 bytes is told at 46.00 GB/s",
                &|pair, _, _| {
                    let one = |line: &String| line.replace("64 x 1048576", "1 x 1");
                    pair.steps = pair.steps[2..].iter().map(one).collect();
                },
            ),
            (RC, "", &|pair, _, _| {
                let small = |line: &String| line.replace("64 x 1048576", "1 x 65536");
                pair.steps = pair.steps[2..].iter().map(small).collect();
            }),
            (
                "rc_mlx5/mlx5_0:1 fragmented copy",
                "is not understood",
                &|_, _, _| (),
            ),
            (RC, "a WRITE of it moved bytes in a way", &|pair, _, _| {
                pair.steps[2] = step("WRITE", 46.0, "rc_mlx5/mlx5_0:1 fragmented copy");
            }),
            (RC, "no WRITE of it is recorded", &|pair, _, _| {
                pair.steps.clear()
            }),
            (RC, "no READ of it is recorded", &|pair, _, _| {
                pair.steps.truncate(3)
            }),
            (RC, "no WRITE of it is recorded", &|pair, _, _| {
                pair.steps.remove(2);
            }),
            (RC, "no WRITE of it is recorded", &|pair, _, _| {
                let nothing = |line: &String| line.replace("64 x 1048576", "0 x 0");
                pair.steps = pair.steps[2..].iter().map(nothing).collect();
            }),
            (RC, "a step of it cannot be read", &|pair, _, _| {
                pair.steps.push("moved something".to_owned());
            }),
            (
                RC,
                "WRITE is told at 46.00 GB/s, and the step at 4.00",
                &|pair, _, _| {
                    pair.steps[2] = step("WRITE", 4.0, RC);
                },
            ),
            (
                RC,
                "READ is told at 45.50 GB/s, and the step at 4.00",
                &|pair, _, _| {
                    pair.steps[3] = step("READ", 4.0, RC);
                },
            ),
            (RC, "a WRITE of it tells another lane", &|pair, _, _| {
                pair.steps[2] = step("WRITE", 46.0, "tcp/eth0 zero-copy");
            }),
            (RC, "a WRITE of it tells another lane", &|pair, _, _| {
                pair.steps[2] = step("WRITE", 46.0, "unknown lane (why)");
            }),
            (RC, "a READ of it tells another lane", &|pair, _, _| {
                pair.steps[3] = step("READ", 45.5, "rc_mlx5/mlx5_9:1 zero-copy");
            }),
            (RC, "another lane than the last READ", &|pair, _, _| {
                pair.steps[3] = step("READ", 45.5, "rc_mlx5/mlx5_0:1 copy-in");
            }),
            // WRITE and READ need not go the same way.
            (RC, "", &|pair, _, _| {
                pair.steps[2] = step("WRITE", 46.0, "rc_mlx5/mlx5_0:1 copy-in");
            }),
            (RC, "says why nothing is known", &|pair, _, _| {
                pair.reason = Some(SkipReason::Denied);
            }),
            (RC, "its bytes were wrong", &|pair, _, _| {
                pair.detail = format!("{WRONG_BYTES}: WRITE");
            }),
        ];
        for (n, (lane, wanted, edit)) in rows.iter().enumerate() {
            let mut pair = proven(lane);
            let (mut own, mut other) = (end("a"), end("b"));
            edit(&mut pair, &mut own, &mut other);
            pair.doubt(None, [Some(&own), Some(&other)]);
            assert_eq!(pair.proven, wanted.is_empty(), "{n}: {}", pair.detail);
            assert!(pair.detail.contains(wanted), "{n}: {}", pair.detail);
        }
    }

    /// A record that contradicts itself is no reason to forget what it tells of a failure.
    #[test]
    fn a_failure_stays_what_it_is() {
        let (own, other) = (end("a"), end("b"));
        let failed = |status, wrong_bytes, detail: &str| {
            let mut pair = proven(RC);
            (pair.status, pair.wrong_bytes, pair.proven) = (status, wrong_bytes, false);
            (pair.detail, pair.fix) = (detail.to_owned(), Some("mend the fabric".to_owned()));
            pair.reason = (status == Status::Skipped).then_some(SkipReason::ConnectionLost);
            pair
        };
        for (status, wrong_bytes, detail) in [
            (Status::Fail, true, "WRONG BYTES: WRITE"),
            (Status::Fail, false, "The transfer stalled on b"),
            (Status::Skipped, false, "The probe was killed on b"),
        ] {
            let was = failed(status, wrong_bytes, detail);
            // Slow and small, which rounds to nothing.
            let mut slow = was.clone();
            slow.write_gbytes = Some(0.0);
            slow.doubt(None, [Some(&own), Some(&other)]);
            assert_eq!((&*slow.detail, slow.status), (detail, status));
            let mut odd = was.clone();
            odd.of_line_rate = Some(-1.0);
            odd.doubt(None, [Some(&own), Some(&other)]);
            assert!(odd.detail.starts_with(detail), "{}", odd.detail);
            assert!(odd.detail.contains("contradicts itself"));
            assert_eq!((odd.status, odd.reason), (status, was.reason));
            assert_eq!(odd.fix.as_deref(), Some("mend the fabric"));
        }
        // Wrong bytes are a fail, whatever else is said.
        let mut lie = failed(Status::Ok, true, "moved right bytes");
        lie.doubt(None, [Some(&own), Some(&other)]);
        assert_eq!(lie.status, Status::Fail);
        assert!(lie.detail.starts_with(WRONG_BYTES), "{}", lie.detail);
    }

    #[test]
    fn a_transfer_beside_another_mover_stays_right_and_proves_nothing() {
        let (own, mut other) = (end("a"), end("b"));
        other.other_mover = Some("Mooncake moves it".to_owned());
        let mut pair = proven(RC);
        let was = pair.clone();
        pair.doubt(None, [Some(&own), Some(&other)]);
        pair.doubt(None, [Some(&own), Some(&other)]);
        let gap = Gap {
            kind: GapKind::OtherMover,
            why: "Mooncake moves it".to_owned(),
        };
        let expected = PairFacts {
            proven: false,
            unproven: vec![gap],
            ..was
        };
        assert_eq!(pair, expected);
    }

    #[test]
    fn a_transfer_with_a_stranger_or_with_itself_proves_nothing() {
        let (own, other) = (end("a"), end("b"));
        for (ends, who) in [
            ([None, Some(&other)], "decode-0 is not among"),
            ([Some(&own), None], "prefill-0 is not among"),
            ([None, None], "decode-0 is not among"),
        ] {
            let mut pair = proven(RC);
            pair.doubt(None, ends);
            assert!(!pair.proven && pair.detail.contains(who), "{}", pair.detail);
        }
        let mut pair = proven(RC);
        pair.initiator.clone_from(&pair.target);
        pair.doubt(None, [Some(&own), Some(&own)]);
        assert!(!pair.proven && pair.detail.contains("both its ends are prefill-0"));
    }

    #[test]
    fn a_transfer_is_held_against_itself_where_nothing_is_known_of_its_ends() {
        let (own, other) = (End::default(), End::default());
        let judged = |mut pair: PairFacts| {
            pair.doubt(None, [Some(&own), Some(&other)]);
            pair
        };
        assert!(judged(proven(RC)).proven);
        let mut fast = proven(RC);
        at(&mut fast, 50_000.0);
        let fast = judged(fast);
        assert!(!fast.proven && fast.detail.contains("400000 Gb/s is more than 256000 Gb/s"));
        assert!(!judged(proven("rc_verbs/siw0:1 zero-copy")).proven);
    }
}
