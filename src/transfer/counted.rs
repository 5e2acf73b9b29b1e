//! Which lane carried the bytes, by byte counters before and after: evidence that depends on no text of UCX.

use super::lane::{Class, Lane, Unknown, base, soft};
use super::protocol::{Counters, Kind, PortFacts, Ready, Words};
use super::record::StepRecord;
use super::ucx_text::Rail;
use crate::pair::{NVLINK_BY_COUNTERS, RDMA_BY_COUNTERS};
use std::collections::{BTreeMap, BTreeSet};

/// Part of the payload that a counter must show to have carried it. Headers and repeats only add (6.62 MB of payload
/// gave 6.65 MB on TCP, measured by this project); a tenth is left for counters that lag.
pub const COUNTER_SHARE: f64 = 0.9;
/// Below this, background traffic hides the payload.
pub const COUNTER_FLOOR: u64 = 4 << 20;
/// Above this multiple of the payload a device carried something else beside it, so that its counter tells nothing of the
/// payload: an HCA that is shared counts everybody's bytes. Judgement of this project.
pub const COUNTER_EXCESS: f64 = 2.0;
/// Below this part of what the table gives it, a rail among several carried nothing to speak of. Far below any imbalance of
/// rails: judgement of this project.
pub const RAIL_SHARE: f64 = 0.1;
/// Smaller descriptors may go over one rail, whatever the row that covers them shows. Judgement of this project.
pub const RAIL_BYTES: u64 = 64 << 10;
/// A device that moved by a smaller part of the payload is not worth naming.
const PART: f64 = 0.05;
/// More ports than any node has are none that carried one payload.
const MOST_RAILS: usize = 64;
/// The largest RDMA MTU: what one packet of soft-RoCE carries at most.
const PACKET: f64 = 4096.0;

/// Whose counters moved by the payload of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Counted {
    /// Devices that carried it.
    Carried(Vec<Carrier>),
    /// Devices that moved by so much more that the payload cannot be told from another's traffic.
    Crowded(Vec<Carrier>),
    /// No counter that can be read moved by that much.
    Nobody,
    /// The step is too small to be seen.
    TooSmall,
    /// No counters can be read.
    Unreadable,
}

/// A device whose counter moved by a good part of a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Carrier {
    /// `ib/mlx5_0:1`, `net/eth0`.
    pub device: String,
    /// By how much, in the direction of the payload.
    pub amount: u64,
    /// The amount counts packets: soft-RoCE counts no bytes.
    pub packets: bool,
}

impl Carrier {
    /// The bytes that it may have carried. A packet of soft-RoCE carries at most one MTU, so packets can rule a device
    /// out, and no more.
    fn at_most(&self) -> f64 {
        self.amount as f64 * if self.packets { PACKET } else { 1.0 }
    }

    fn name(&self) -> &str {
        short(&self.device)
    }
}

/// What the counters of one end say. `sends`: the payload leaves this end.
pub fn by_counters(delta: &Counters, counted: &[Words], moved: u64, sends: bool) -> Counted {
    if counted.iter().all(|name| counts(name, sends).is_none()) {
        return Counted::Unreadable;
    }
    if moved < COUNTER_FLOOR {
        return Counted::TooSmall;
    }
    // Verbs in software move the counters of the network card beneath them as well, so the card is asked last.
    let groups = ["ib/", "hw/", "nvlink/", "net/"];
    let by_device = carriers(delta, sends);
    let of = |group: &str| {
        let of_group = by_device.values().filter(|c| c.device.starts_with(group));
        of_group.cloned().collect()
    };
    let mut each = groups.map(of).into_iter();
    each.find_map(|devices| carried(devices, moved))
        .unwrap_or(Counted::Nobody)
}

/// Devices that carried a payload between them, or more; none if they cannot have.
fn carried(mut devices: Vec<Carrier>, moved: u64) -> Option<Counted> {
    let moved = moved as f64;
    let sum: f64 = devices.iter().map(Carrier::at_most).sum();
    let much = |c: &Carrier| !c.packets && c.amount as f64 > moved * COUNTER_EXCESS;
    let crowded = devices.iter().any(much);
    devices.retain(|c| c.at_most() >= moved * PART);
    (sum >= moved * COUNTER_SHARE).then_some(if crowded {
        Counted::Crowded(devices)
    } else {
        Counted::Carried(devices)
    })
}

/// Which counters show the bytes of a lane. `cuda_ipc` may go over PCIe, where the GPUs have no NVLink.
fn groups(class: Class) -> &'static [&'static str] {
    match class {
        Class::Tcp => &["net/"],
        Class::Rdma | Class::SoftRoce | Class::SoftIwarp | Class::SoftRdma => &["ib/", "hw/"],
        Class::Nvlink | Class::MultiNodeNvlink => &["nvlink/"],
        Class::SharedMemory => &[],
    }
}

/// What the devices of one kind say, of which `named` are asked.
fn by_groups(
    groups: &[&str],
    delta: &Counters,
    moved: u64,
    sends: bool,
    named: impl Fn(&str) -> bool,
) -> Option<Counted> {
    let by_device = carriers(delta, sends);
    groups.iter().find_map(|group| {
        let asked = |c: &&Carrier| c.device.starts_with(group) && named(c.name());
        let devices: Vec<Carrier> = by_device.values().filter(asked).cloned().collect();
        carried(devices, moved)
    })
}

/// What a counter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Meaning {
    /// What leaves this end.
    sends: bool,
    /// Packets, not bytes.
    packets: bool,
}

/// What a counter of this name counts; none for operations and for all that is not payload.
fn meaning(counter: &str) -> Option<Meaning> {
    let (sends, packets) = match counter {
        "tx_bytes" | "rdma_write_bytes" | "send_bytes" | "rdma_read_resp_bytes" => (true, false),
        "rx_bytes" | "rdma_read_bytes" | "recv_bytes" | "rdma_write_recv_bytes" => (false, false),
        "sent_pkts" => (true, true),
        "rcvd_pkts" => (false, true),
        _ => return None,
    };
    Some(Meaning { sends, packets })
}

/// The device (`ib/mlx5_0:1`) of an entry of [`Ready::counted`], where it counts in the direction of the payload.
fn counts(entry: &str, sends: bool) -> Option<&str> {
    match entry.rsplit_once('/') {
        Some((device, counter)) if device.contains('/') => {
            let is = meaning(counter).is_some_and(|counter| counter.sends == sends);
            is.then_some(device)
        }
        _ => Some(entry),
    }
}

/// The devices of an end that count in the direction of the payload.
fn counting(ready: &Ready, sends: bool) -> impl Iterator<Item = &str> {
    ready
        .counted
        .iter()
        .filter_map(move |name| counts(name, sends))
}

/// By how much the counter of each device moved in the direction of the payload.
fn carriers(delta: &Counters, sends: bool) -> BTreeMap<&str, Carrier> {
    let mut by_device: BTreeMap<&str, Carrier> = BTreeMap::new();
    for (key, change) in delta {
        let Some((device, counter)) = key.rsplit_once('/') else {
            continue;
        };
        let Some(Meaning { packets, .. }) = meaning(counter).filter(|c| c.sends == sends) else {
            continue;
        };
        let amount = u64::try_from(*change).unwrap_or(0);
        let seen = Carrier {
            device: device.to_owned(),
            amount,
            packets,
        };
        let entry = by_device.entry(device).or_insert_with(|| seen.clone());
        if seen.at_most() > entry.at_most() {
            *entry = seen;
        }
    }
    by_device
}

/// A rail of the table whose counter stood still: of several that are to carry a share each, every one must have moved.
fn silent_rail(lane: &Lane, step: &StepRecord, initiator: &Ready, sends: bool) -> Option<String> {
    let moved = step.xfer.moved;
    if lane.class != Class::Rdma || step.xfer.bytes < RAIL_BYTES || moved < COUNTER_FLOOR {
        return None;
    }
    // Paths of one device are one rail here.
    let mut shares: BTreeMap<&str, f64> = BTreeMap::new();
    for rail in &lane.rails {
        *shares.entry(rail.device.as_str()).or_default() += f64::from(rail.percent?) / 100.0;
    }
    let readable = |device: &&str| {
        let name = format!("ib/{device}");
        counting(initiator, sends).any(|known| known == name)
    };
    if shares.len() < 2 || !shares.keys().all(readable) {
        return None;
    }
    let by_device = carriers(&step.xfer.delta, sends);
    let amount = |device: &str| {
        by_device
            .get(format!("ib/{device}").as_str())
            .map_or(0, |c| c.amount)
    };
    let (device, share) = shares
        .iter()
        .find(|(device, share)| (amount(device) as f64) < moved as f64 * **share * RAIL_SHARE)?;
    Some(format!(
        "the counter of {device} moved by {} bytes, and UCX gives it {:.0}% of {moved}: one of {} rails carried nothing to speak of",
        amount(device),
        share * 100.0,
        shares.len(),
    ))
}

/// Do table and counters tell the same story?
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Agreement {
    /// They do.
    Agree(String),
    /// The counters cannot tell.
    Silent(String),
    /// They do in part: at the other end, or on another rail, nothing moved that should have.
    OneSided(String),
    /// They do not.
    Disagree(String),
}

/// Holds a lane against the counters of one step, the initiator's first.
pub fn agreement(
    lane: &Lane,
    step: &StepRecord,
    initiator: &Ready,
    target: Option<&Ready>,
) -> Agreement {
    let moved = step.xfer.moved;
    let sends = step.xfer.kind == Kind::Write;
    let mine = by_counters(&step.xfer.delta, &initiator.counted, moved, sends);
    let said = one_end(lane, step, &mine, initiator);
    if matches!(said, Agreement::Disagree(_) | Agreement::OneSided(_)) {
        return said;
    }
    match (silent_rail(lane, step, initiator, sends), target) {
        (Some(why), _) => Agreement::OneSided(why),
        (None, Some(ready)) => at_target(lane, step, ready).unwrap_or(said),
        (None, None) => said,
    }
}

/// What the target's counters have against a lane; none where they say nothing against it. Which device it is there the
/// initiator's table does not say.
pub fn at_target(lane: &Lane, step: &StepRecord, target: &Ready) -> Option<Agreement> {
    let moved = step.xfer.moved;
    let sends = step.xfer.kind == Kind::Read;
    let delta = step.target_delta.as_ref()?;
    let any = by_counters(delta, &target.counted, moved, sends);
    if matches!(any, Counted::Unreadable | Counted::TooSmall) {
        return None;
    }
    match by_groups(groups(lane.class), delta, moved, sends, |_| true) {
        Some(Counted::Crowded(devices)) => {
            let crowd = crowd(&devices, moved);
            return Some(Agreement::Silent(format!("at the target {crowd}")));
        }
        Some(_) => return None,
        None => {}
    }
    if let Counted::Carried(devices) = any {
        let shown = shown(&devices);
        let why = format!("at the target {shown} moved instead");
        return Some(Agreement::Disagree(why));
    }
    all_counted(lane, target, sends).then(|| {
        let kind = match lane.class {
            Class::MultiNodeNvlink => "NVLink",
            _ => "RDMA",
        };
        Agreement::OneSided(format!(
            "no {kind} counter of the target moved by the payload of {moved} bytes"
        ))
    })
}

/// Every device over which this lane could reach the end has counters of the payload's direction there, so that its bytes do not
/// pass unseen. EFA splits its counters by operation, and older drivers lack some.
fn all_counted(lane: &Lane, ready: &Ready, sends: bool) -> bool {
    let counts = |group: &str, port: &PortFacts| {
        let name = format!("{group}/{}:{}", port.device, port.port);
        counting(ready, sends).any(|counted| counted == name)
    };
    let mut usable = ready.ports.iter().filter(|p| p.granted).peekable();
    match lane.class {
        Class::Rdma => usable.peek().is_some() && usable.all(|p| counts("ib", p)),
        Class::SoftRoce => usable.peek().is_some() && usable.all(|p| counts("hw", p)),
        Class::MultiNodeNvlink => counts_nvlink(ready, sends),
        _ => false,
    }
}

fn crowd(devices: &[Carrier], moved: u64) -> String {
    format!(
        "{} moved for a payload of {moved} bytes, so that other traffic is among them",
        shown(devices)
    )
}

/// What the initiator's counters say, where the table names the devices: of these the payload is asked, and of no others.
fn one_end(lane: &Lane, step: &StepRecord, mine: &Counted, initiator: &Ready) -> Agreement {
    let (moved, sends) = (step.xfer.moved, step.xfer.kind == Kind::Write);
    match mine {
        Counted::Unreadable => {
            return Agreement::Silent("no byte counters can be read".to_owned());
        }
        Counted::TooSmall => {
            return Agreement::Silent(format!("{moved} bytes are too few to be seen in counters"));
        }
        Counted::Carried(_) | Counted::Crowded(_) | Counted::Nobody => {}
    }
    // GPUs have other names in a table than among counters, and an agent counts its own alone.
    let local = matches!(
        lane.class,
        Class::SharedMemory | Class::Nvlink | Class::MultiNodeNvlink
    );
    let named = |name: &str| local || lane.rails.iter().any(|rail| is_of(name, &rail.device));
    let groups = groups(lane.class);
    let over_ip = match by_groups(&["net/"], &step.xfer.delta, moved, sends, |_| true) {
        Some(Counted::Carried(cards)) if lane.class == Class::Rdma => Some(cards),
        _ => None,
    };
    match by_groups(groups, &step.xfer.delta, moved, sends, named) {
        // Whose bytes those of the port are is not known, and the network card moved by just the payload.
        Some(Counted::Crowded(devices)) => {
            let crowd = crowd(&devices, moved);
            return match over_ip {
                Some(cards) => Agreement::OneSided(format!("{crowd}, and {}", shown(&cards))),
                None => Agreement::Silent(crowd),
            };
        }
        Some(Counted::Carried(devices)) => {
            if let Some(cards) = over_ip {
                let both = [devices, cards].concat();
                return Agreement::Silent(format!(
                    "both a port and a network card moved by the payload of {moved} bytes: {}",
                    shown(&both)
                ));
            }
            let shown = shown(&devices);
            return Agreement::Agree(format!("{shown} for a payload of {moved} bytes"));
        }
        _ => {}
    }
    let readable = |rail: &Rail| counting(initiator, sends).any(|r| is_of(short(r), &rail.device));
    let all_readable = !local && lane.rails.iter().all(readable);
    match mine {
        Counted::Carried(devices) => Agreement::Disagree(format!(
            "counters show {} for a payload of {moved} bytes",
            shown(devices)
        )),
        // Another's traffic, which says nothing of a lane whose own counters cannot be read.
        Counted::Crowded(devices) if !all_readable => Agreement::Silent(crowd(devices, moved)),
        Counted::Nobody
            if lane.class == Class::MultiNodeNvlink && counts_nvlink(initiator, sends) =>
        {
            Agreement::OneSided(format!(
                "the NVLink counters of the GPU did not move by the payload of {moved} bytes"
            ))
        }
        Counted::Nobody if lane.class == Class::Nvlink && counts_nvlink(initiator, sends) => {
            Agreement::Silent(format!(
                "no counter moved by the payload of {moved} bytes, that of NVLink neither, so that it went over PCIe or \
                 stayed on one GPU"
            ))
        }
        Counted::Nobody if local => Agreement::Agree(format!(
            "no network counter moved by the payload of {moved} bytes"
        )),
        _ if lane.rails.iter().any(readable) => {
            let rails: BTreeSet<&str> = lane.rails.iter().map(|r| r.device.as_str()).collect();
            let rails: Vec<&str> = rails.into_iter().collect();
            Agreement::Disagree(format!(
                "counters of {} did not move by {moved} bytes",
                rails.join(", ")
            ))
        }
        _ => Agreement::Silent("counters of the device cannot be read here".to_owned()),
    }
}

fn counts_nvlink(ready: &Ready, sends: bool) -> bool {
    counting(ready, sends).any(|device| device.starts_with("nvlink/"))
}

/// A counter of `mlx5_0:1` is one of the rail `mlx5_0:1`, and of a rail that names no port.
fn is_of(counter: &str, rail: &str) -> bool {
    counter == rail || (!rail.contains(':') && base(counter) == rail)
}

fn short(device: &str) -> &str {
    device.split_once('/').map_or(device, |(_, name)| name)
}

fn shown(devices: &[Carrier]) -> String {
    /// A node has up to 16 NICs for GPUs; more is not told.
    const MOST: usize = 16;
    let mut each: Vec<String> = devices
        .iter()
        .take(MOST)
        .map(|c| {
            let unit = if c.packets { "packets" } else { "bytes" };
            format!("{} {unit} on {}", c.amount, c.name())
        })
        .collect();
    if devices.len() > MOST {
        each.push(format!("and {} more devices", devices.len() - MOST));
    }
    each.join(", ")
}

/// The lane where no table tells (other backends than UCX): whichever device's counters moved. Where the backend has said
/// what carries its bytes, that decides: see [`super::judge`].
pub fn from_counters(step: &StepRecord, initiator: &Ready) -> Result<Lane, Unknown> {
    let sends = step.xfer.kind == Kind::Write;
    let devices = match by_counters(&step.xfer.delta, &initiator.counted, step.xfer.moved, sends) {
        Counted::Carried(devices) => devices,
        Counted::Crowded(devices) => {
            return Err(Unknown::new(crowd(&devices, step.xfer.moved), None));
        }
        Counted::Nobody => return Err(Unknown::new("no counter moved by the payload", None)),
        Counted::TooSmall => {
            return Err(Unknown::new("too few bytes to be seen in counters", None));
        }
        Counted::Unreadable => return Err(Unknown::new("no byte counters can be read", None)),
    };
    let verbs = |device: &str| soft(device, &initiator.ports).unwrap_or(Class::Rdma);
    // IP over InfiniBand and verbs in software move both; a network card that moved by the payload may be what carried it.
    let over_ip = by_groups(&["net/"], &step.xfer.delta, step.xfer.moved, sends, |_| {
        true
    });
    if let Some(Counted::Carried(cards)) = over_ip
        && cards != devices
        && !devices
            .iter()
            .any(|c| soft(c.name(), &initiator.ports).is_some())
    {
        let both = [devices, cards].concat();
        let why = format!(
            "counters of more than one kind of device moved by the payload: {}",
            shown(&both)
        );
        return Err(Unknown::new(why, None));
    }
    let first = devices
        .first()
        .map(|c| c.device.as_str())
        .unwrap_or_default();
    let (class, transport) = match first.split_once('/') {
        Some(("net", _)) => (Class::Tcp, "network"),
        Some(("nvlink", _)) => (Class::Nvlink, NVLINK_BY_COUNTERS),
        Some((_, device)) => (verbs(device), RDMA_BY_COUNTERS),
        None => return Err(Unknown::new("no counter moved by the payload", None)),
    };
    if devices.len() > MOST_RAILS {
        let why = format!("{} devices moved by the payload", devices.len());
        return Err(Unknown::new(why, None));
    }
    let rail = |c: &Carrier| Rail {
        transport: transport.to_owned(),
        device: c.name().to_owned(),
        percent: None,
    };
    Ok(Lane {
        class,
        rails: devices.iter().map(rail).collect(),
        how: "by counters".to_owned(),
    })
}
