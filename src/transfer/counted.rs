//! Which lane carried the bytes, by byte counters before and after: evidence that depends on no text of UCX.

use super::lane::{Class, Lane, Unknown, base, soft};
use super::protocol::{Counters, Kind, PortFacts, Ready, Words};
use super::record::StepRecord;
use super::ucx_text::Rail;
use crate::pair::{NVLINK_BY_COUNTERS, RDMA_BY_COUNTERS};
use std::collections::BTreeMap;

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
    if counted.is_empty() {
        return Counted::Unreadable;
    }
    if moved < COUNTER_FLOOR {
        return Counted::TooSmall;
    }
    let by_device = carriers(delta, sends);
    // Verbs in software move the counters of the network card beneath them as well, so the card is asked last.
    for group in ["ib/", "hw/", "nvlink/", "net/"] {
        let of_group = || by_device.values().filter(|c| c.device.starts_with(group));
        if of_group().map(Carrier::at_most).sum::<f64>() >= moved as f64 * COUNTER_SHARE {
            let part = |c: &&Carrier| c.at_most() >= moved as f64 / 20.0;
            let devices = of_group().filter(part).cloned().collect();
            let much = |c: &Carrier| !c.packets && c.amount as f64 > moved as f64 * COUNTER_EXCESS;
            return if of_group().any(much) {
                Counted::Crowded(devices)
            } else {
                Counted::Carried(devices)
            };
        }
    }
    Counted::Nobody
}

/// By how much the counter of each device moved in the direction of the payload.
fn carriers(delta: &Counters, sends: bool) -> BTreeMap<&str, Carrier> {
    let mut by_device: BTreeMap<&str, Carrier> = BTreeMap::new();
    for (key, change) in delta {
        let Some((device, counter)) = key.rsplit_once('/') else {
            continue;
        };
        let packets = match (counter, sends) {
            ("tx_bytes" | "rdma_write_bytes" | "send_bytes" | "rdma_read_resp_bytes", true) => {
                false
            }
            ("rx_bytes" | "rdma_read_bytes" | "recv_bytes" | "rdma_write_recv_bytes", false) => {
                false
            }
            ("sent_pkts", true) | ("rcvd_pkts", false) => true,
            _ => continue,
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
        initiator.counted.iter().any(|known| **known == *name)
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
    let theirs = match (&step.target_delta, target) {
        (Some(delta), Some(ready)) => by_counters(delta, &ready.counted, moved, !sends),
        _ => Counted::Unreadable,
    };
    let said = one_end(lane, &mine, &initiator.counted, moved);
    if matches!(said, Agreement::Disagree(_) | Agreement::OneSided(_)) {
        return said;
    }
    match (theirs, target) {
        (Counted::Carried(devices) | Counted::Crowded(devices), _)
            if !plausible(lane, &devices) =>
        {
            Agreement::Disagree(format!("at the target {} moved instead", shown(&devices)))
        }
        (Counted::Nobody, Some(ready)) if all_counted(lane, ready) => Agreement::OneSided(format!(
            "no RDMA counter of the target moved by the payload of {moved} bytes"
        )),
        (theirs, _) => match (silent_rail(lane, step, initiator, sends), theirs) {
            (Some(why), _) => Agreement::OneSided(why),
            (None, Counted::Crowded(devices)) => {
                Agreement::Silent(format!("at the target {}", crowd(&devices, moved)))
            }
            (None, _) => said,
        },
    }
}

/// Every device over which this lane could reach the end has counters there, so that bytes do not arrive unseen. Which
/// device it is the initiator's table does not say. EFA splits its counters by operation, and older drivers lack some.
fn all_counted(lane: &Lane, ready: &Ready) -> bool {
    let counts = |group: &str, port: &PortFacts| {
        let name = format!("{group}/{}:{}", port.device, port.port);
        ready.counted.iter().any(|counted| **counted == *name)
    };
    let mut usable = ready.ports.iter().filter(|p| p.granted).peekable();
    usable.peek().is_some()
        && match lane.class {
            Class::Rdma => usable.all(|p| counts("ib", p)),
            Class::SoftRoce => usable.all(|p| counts("hw", p)),
            _ => false,
        }
}

fn crowd(devices: &[Carrier], moved: u64) -> String {
    format!(
        "{} moved for a payload of {moved} bytes, so that other traffic is among them",
        shown(devices)
    )
}

fn one_end(lane: &Lane, counted: &Counted, readable: &[Words], moved: u64) -> Agreement {
    let local = matches!(
        lane.class,
        Class::SharedMemory | Class::Nvlink | Class::MultiNodeNvlink
    );
    match counted {
        Counted::Unreadable => Agreement::Silent("no byte counters can be read".to_owned()),
        Counted::TooSmall => {
            Agreement::Silent(format!("{moved} bytes are too few to be seen in counters"))
        }
        Counted::Carried(devices) | Counted::Crowded(devices) => {
            let named = devices
                .iter()
                .any(|c| lane.devices().any(|l| base(c.name()) == l));
            let fits = plausible(lane, devices) && (named || local);
            if fits && matches!(counted, Counted::Crowded(_)) {
                Agreement::Silent(crowd(devices, moved))
            } else if fits {
                Agreement::Agree(format!("{} for a payload of {moved} bytes", shown(devices)))
            } else {
                Agreement::Disagree(format!(
                    "counters show {} for a payload of {moved} bytes",
                    shown(devices)
                ))
            }
        }
        Counted::Nobody if local => Agreement::Agree(format!(
            "no network counter moved by the payload of {moved} bytes"
        )),
        Counted::Nobody => {
            let seen = lane
                .devices()
                .any(|l| readable.iter().any(|r| base(short(r)) == l));
            if seen {
                let rails: Vec<&str> = lane.devices().collect();
                Agreement::Disagree(format!(
                    "counters of {} did not move by {moved} bytes",
                    rails.join(", ")
                ))
            } else {
                Agreement::Silent("counters of the device cannot be read here".to_owned())
            }
        }
    }
}

/// Could these devices have carried that lane?
fn plausible(lane: &Lane, devices: &[Carrier]) -> bool {
    let any = |group: &str| devices.iter().any(|c| c.device.starts_with(group));
    match lane.class {
        Class::Tcp => any("net/"),
        Class::Rdma | Class::SoftRoce | Class::SoftIwarp | Class::SoftRdma => {
            any("ib/") || any("hw/")
        }
        Class::Nvlink | Class::MultiNodeNvlink => any("nvlink/"),
        Class::SharedMemory => false,
    }
}

fn short(device: &str) -> &str {
    device.split_once('/').map_or(device, |(_, name)| name)
}

fn shown(devices: &[Carrier]) -> String {
    let each: Vec<String> = devices
        .iter()
        .map(|c| {
            let unit = if c.packets { "packets" } else { "bytes" };
            format!("{} {unit} on {}", c.amount, c.name())
        })
        .collect();
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
