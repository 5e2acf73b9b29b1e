use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::words::listed;
use crate::facts::container::rdma::{Device, port_line};
use crate::facts::hca::{LinkLayer, Port};
use crate::facts::sysfs::Backing;
use crate::facts::transcript::small;
use crate::facts::vendor::{Adapter, Vendor};
use crate::observed::Skip;
use std::collections::BTreeMap;

check! {
    /// An ACTIVE port runs below the rate of its siblings, or on one lane.
    ///
    /// ## Why it matters
    /// A link that trained down (bad cable, dirty optics) stays ACTIVE. Transfers through it take as much longer as it is
    /// slower, and a collective waits for the slowest.
    ///
    /// ## Fix
    /// Reseat or replace the cable or transceiver of that port; compare with `mlxlink -d DEVICE`.
    ///
    /// ## False alarms
    /// A kernel that does not know a new speed prints it as SDR: on an adapter that has no SDR mode the shown rate cannot be
    /// right, which is said as such. Two or more slower ports among few may be another network on purpose and are only noted.
    ///
    /// ## Sources
    /// Linux `drivers/infiniband/core/sysfs.c` (`rate_show`); rates per lane: `ib_speed_attrs`, NCCL v2.28.9-1 `ibvSpeeds`.
    "RDMA007" "rate-degraded" on Container {
        subsystem: Rdma, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

/// Gb/s of the adapter's fastest mode, for what the detail says; a switch or cable of a slower generation is no fault.
/// <https://www.nvidia.com/en-us/networking/ethernet-adapters/>
const FASTEST_GBPS: &[(&str, f64)] = &[
    ("ConnectX-5", 100.0),
    ("ConnectX-5 Ex", 100.0),
    ("ConnectX-6", 200.0),
    ("ConnectX-6 Dx", 200.0),
    ("ConnectX-7", 400.0),
    ("ConnectX-8", 800.0),
    ("BlueField-3", 400.0),
];

/// Gb/s of four lanes of SDR.
const SDR_GBPS: f64 = 10.0;

fn run(container: &Container<'_>) -> Outcome {
    let rdma = &container.facts.rdma;
    let mut ports = rdma.usable_ports()?;
    ports.retain(|(device, _)| device.backing != Backing::Software);
    if ports.is_empty() {
        return Err(Skip::not_applicable());
    }
    if ports.iter().any(|(_, port)| port.rate.is_none()) {
        return Err(container.not_shown("the rate of some ports was not seen", "ibstat"));
    }
    let nameless = |device: &Device| device.hca.part_id.is_none() && device.hca.model.is_none();
    if ports.len() > 1 && ports.iter().any(|(device, _)| nameless(device)) {
        return Err(container.not_shown(
            "the model of some adapters was not seen, so that siblings cannot be told",
            "ibstat",
        ));
    }
    let devices = rdma.devices.get()?;
    let mut groups: BTreeMap<String, Vec<(&Device, &Port)>> = BTreeMap::new();
    for (device, port) in &ports {
        let hca = &device.hca;
        let kind = format!(
            "{:?} {:?} {} {:?}",
            hca.part_id, hca.model, port.number, port.link_layer
        );
        groups.entry(kind).or_default().push((device, port));
    }
    let mut drafts = Vec::new();
    let mut notes = Vec::new();
    for group in groups.values() {
        notes.extend(apart(group));
        drafts.extend(below_siblings(group).map(|(detail, lines)| {
            let seen = devices.evidence(lines.iter().map(String::as_str));
            let fix =
                "check cable and transceiver of the slower port, and the speed of its switch port";
            Draft::warn(detail)
                .headline_of_detail()
                .with([seen])
                .fix(fix)
        }));
    }
    for (device, port) in &ports {
        drafts.extend(odd(device, port).map(|(detail, fix)| {
            let line = port_line(device, port);
            Draft::warn(format!("{line}: {detail}"))
                .headline(format!(
                    "{} runs at a rate it should not",
                    port_name(device, port)
                ))
                .with([devices.evidence([line.as_str()])])
                .fix(fix)
        }));
    }
    if drafts.is_empty() {
        let lines: Vec<String> = ports.iter().map(|(d, p)| port_line(d, p)).collect();
        let said = match notes.as_slice() {
            [] => "no ACTIVE port is slower than its siblings".to_owned(),
            notes => notes.join("; "),
        };
        let detail = format!("{said}{}", fastest(&ports));
        let seen = devices.evidence(lines.iter().map(String::as_str));
        drafts.push(Draft::ok(detail).with([seen]));
    }
    Ok(drafts)
}

fn port_name(device: &Device, port: &Port) -> String {
    format!("{}:{}", device.hca.name, port.number)
}

/// Rates of a group that differ, where none stands out as a fault.
fn apart(group: &[(&Device, &Port)]) -> Option<String> {
    let rate = |port: &Port| port.rate_gbps().unwrap_or_default();
    let best = group.iter().map(|(_, p)| rate(p)).fold(0.0, f64::max);
    let slow: Vec<_> = group.iter().filter(|(_, port)| rate(port) < best).collect();
    if slow.is_empty() || below_siblings(group).is_some() {
        return None;
    }
    let names: Vec<String> = slow.iter().map(|(d, p)| port_name(d, p)).collect();
    let mut rates: Vec<String> = slow
        .iter()
        .map(|(_, port)| rate(port).to_string())
        .collect();
    rates.sort();
    rates.dedup();
    Some(format!(
        "{} of {} ports of the same kind run at {} Gb/s ({}) and the others at {best}: right only where those are on another \
         network",
        slow.len(),
        group.len(),
        rates.join(" and "),
        listed(&names.iter().map(String::as_str).collect::<Vec<_>>())
    ))
}

/// A single port below three or more, or a minority of at most a quarter.
fn below_siblings(group: &[(&Device, &Port)]) -> Option<(String, Vec<String>)> {
    let rate = |port: &Port| port.rate_gbps().unwrap_or_default();
    let best = group.iter().map(|(_, p)| rate(p)).fold(0.0, f64::max);
    let slow: Vec<String> = group
        .iter()
        .filter(|(_, port)| rate(port) < best)
        .map(|(device, port)| port_line(device, port))
        .collect();
    let fast = group.len() - slow.len();
    let stands_out = (slow.len() == 1 && fast >= 2) || (!slow.is_empty() && slow.len() * 4 <= fast);
    stands_out.then(|| {
        let detail = format!(
            "{} of {} ports of the same kind run below the {best} Gb/s of the others: {}",
            slow.len(),
            group.len(),
            listed(&slow.iter().map(String::as_str).collect::<Vec<_>>())
        );
        (detail, slow)
    })
}

/// What is odd about one port alone.
fn odd(device: &Device, port: &Port) -> Option<(&'static str, &'static str)> {
    let rate = port.rate.as_ref()?;
    let is_nvidia = device.hca.vendor == Some(Vendor::Nvidia);
    if rate.speed.as_deref() == Some("SDR") && is_nvidia {
        return Some((
            "the kernel shows a speed that this adapter does not have; it prints speeds it does not know as SDR",
            "read the rate with `mlxlink`, or update the kernel",
        ));
    }
    // `ibstat` prints the number alone.
    let is_infiniband = port.link_layer == Some(LinkLayer::InfiniBand);
    if is_infiniband && rate.rate_gbps <= SDR_GBPS && adapter_gbps(device).is_some() {
        return Some((
            "that is the rate of SDR, which this adapter has no reason to run at: the link trained down to the slowest, or a \
             kernel that does not know the speed printed it as SDR",
            "read the rate with `mlxlink`; then check cable and switch port, or update the kernel",
        ));
    }
    let one_lane = rate.lanes == Some(1) && port.link_layer == Some(LinkLayer::InfiniBand);
    one_lane.then_some((
        "an InfiniBand link on one lane of four has lost the others",
        "check cable and transceiver of this port",
    ))
}

/// What the adapter could do, as a note.
fn fastest(ports: &[(&Device, &Port)]) -> String {
    let note = ports.iter().find_map(|(device, port)| {
        let (name, gbps) = adapter_gbps(device)?;
        let now = port.rate_gbps()?;
        (now < gbps).then(|| {
            let port = port_name(device, port);
            format!("; {port} ({name}) could do {gbps} Gb/s and runs at {now}")
        })
    });
    note.unwrap_or_default()
}

/// The product and its fastest mode, by its PCI id or by the number in its type (`MT4129`), which is the same.
fn adapter_gbps(device: &Device) -> Option<(&'static str, f64)> {
    let hca = &device.hca;
    let of_type = || small(hca.model.as_deref()?.strip_prefix("MT")?);
    let adapter = Adapter::nvidia(hca.part_id.or_else(of_type)?)?;
    let known = FASTEST_GBPS.iter().find(|(name, _)| *name == adapter.name);
    known.copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::{Answers, NOTHING, hcas, outcome, pasted, verdict};
    use crate::report::Status;

    fn rates(rates: &[&str]) -> Answers {
        let mut answers = hcas(&vec!["4: ACTIVE"; rates.len()]);
        for (ask, text) in &mut answers {
            if ask.id == ask::RDMA_PORTS.id {
                for rate in rates {
                    *text = text.replacen("rate: 400 Gb/sec (4X NDR)", &format!("rate: {rate}"), 1);
                }
            }
        }
        answers
    }

    #[test]
    fn a_port_that_stands_out_is_a_fault() {
        let ndr = "400 Gb/sec (4X NDR)";
        for (list, status) in [
            (vec![ndr; 8], Status::Ok),
            (vec!["200 Gb/sec (4X HDR)"; 8], Status::Ok),
            (
                [vec![ndr; 7], vec!["200 Gb/sec (4X HDR)"]].concat(),
                Status::Warn,
            ),
            (
                [vec![ndr; 2], vec!["200 Gb/sec (4X HDR)"]].concat(),
                Status::Warn,
            ),
            // Two of four may be another network.
            (
                [vec![ndr; 2], vec!["100 Gb/sec (4X EDR)"; 2]].concat(),
                Status::Ok,
            ),
            (vec!["100 Gb/sec (1X NDR)"], Status::Warn),
            (vec!["10 Gb/sec (4X SDR)"; 8], Status::Warn),
        ] {
            assert_eq!(
                verdict(run, "decode", &rates(&list)),
                Ok(status),
                "{list:?}"
            );
        }
    }

    /// `ibstat` of ConnectX-7 ports on InfiniBand with these rates.
    fn ibstat(rates: &[u32]) -> String {
        let one = |(n, rate): (usize, &u32)| {
            format!(
                "CA 'mlx5_{n}'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: Active\n\
                 \t\tPhysical state: LinkUp\n\t\tRate: {rate}\n\t\tLink layer: InfiniBand\n"
            )
        };
        rates.iter().enumerate().map(one).collect()
    }

    #[test]
    fn rates_that_differ_are_said_where_they_are_no_fault() {
        let with = |rates: &[u32]| {
            let snapshot = pasted(&[(&ask::IBSTAT, ibstat(rates))]);
            outcome(run, &snapshot).unwrap().remove(0)
        };
        let two = with(&[400, 400, 400, 400, 400, 400, 200, 200]);
        assert_eq!(two.status, Status::Ok);
        assert!(
            two.detail
                .starts_with("2 of 8 ports of the same kind run at 200 Gb/s (mlx5_6:1, mlx5_7:1)"),
            "{}",
            two.detail
        );
        let three = with(&[100, 56, 100, 100, 56, 100, 56]);
        assert!(
            three
                .detail
                .contains("3 of 7 ports of the same kind run at 56 Gb/s"),
            "{}",
            three.detail
        );
        assert!(
            three.detail.contains("the others at 100"),
            "{}",
            three.detail
        );
        assert!(with(&[400; 8]).detail.contains("no ACTIVE port is slower"));
        assert_eq!(with(&[10; 8]).status, Status::Warn);
        assert_eq!(with(&[400, 400, 400, 200]).status, Status::Warn);
    }

    #[test]
    fn what_was_not_read_is_not_judged() {
        assert!(verdict(run, "decode", NOTHING).is_err());
        let mut unknown = rates(&["400 Gb/sec (4X NDR)"]);
        for (_, text) in &mut unknown {
            *text = text.replace("/rate: ", "/ratio: ");
        }
        assert!(verdict(run, "decode", &unknown).is_err());
    }
}
