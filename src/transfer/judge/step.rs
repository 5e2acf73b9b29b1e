//! One step of a transfer: its lane, what counters say of it, and its share of the line rate.

use super::{Intent, RATE_BYTES, RATE_TCP, StepVerdict};
use crate::pair::{BULK_BYTES, impossible};
use crate::transfer::counted;
use crate::transfer::lane::{self, Class, Lane, Unknown};
use crate::transfer::protocol::{PortFacts, Ready};
use crate::transfer::record::{StepRecord, TransferRecord};
use crate::transfer::ucx_text::{self, UcxText};
use crate::transfer::words;

pub(super) fn step(
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
        // Its lane is that of the initiator's counters already.
        (_, Ok(lane)) => {
            let target = record.target.ready.as_ref();
            target.and_then(|target| counted::at_target(lane, step, target))
        }
        (_, Err(_)) => None,
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
    let fast = matches!(
        lane.as_ref().map(|lane| lane.class),
        Ok(Class::Rdma | Class::Nvlink | Class::MultiNodeNvlink)
    );
    let crawls = fast && rate.is_none() && total >= RATE_BYTES && xfer.gbps < RATE_TCP;
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
        crawls,
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
        (None, Ok(lane)) if of_rdma(&lane) => {
            let unnamed = match backend {
                "LIBFABRIC" => "the log names no provider of libfabric".to_owned(),
                _ => format!("nothing in the log says what {backend} used"),
            };
            let why = format!("counters moved, and {unnamed}: the bytes may be another's");
            Err(Unknown::new(why, Some(lane.to_string())))
        }
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
