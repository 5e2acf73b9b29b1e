use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::words::part;
use crate::facts::hca::LinkLayer;
use crate::observed::Skip;

check! {
    /// The PCIe link of an adapter is slower than its port, or than it could be.
    ///
    /// ## Why it matters
    /// An adapter that came up with half its lanes, or one generation lower, keeps its port at the full rate, and data moves at
    /// that of the slot.
    ///
    /// ## Fix
    /// Reseat the card, look at the slot's bifurcation and generation in the firmware settings of the machine.
    ///
    /// ## False alarms
    /// Virtual functions do not know their link and are not judged. GPUs are never judged by it: their link idles at 2.5 GT/s.
    ///
    /// ## Sources
    /// Linux `Documentation/ABI/testing/sysfs-bus-pci`. The usable share of 85 % is this project's own judgement (Gen4 x16 moves
    /// 25 to 26 of 31.5 GB/s).
    "RDMA017" "pcie-limits-nic" on Container {
        subsystem: Rdma, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

/// What is left of width times speed after encoding and headers.
const USABLE: f64 = 0.85;

fn run(container: &Container<'_>) -> Outcome {
    let facts = &container.facts;
    let ports = facts.rdma.usable_ports()?;
    let devices = facts.rdma.devices.get()?;
    // On Grace an adapter may have a second way to the GPU (Data Direct), which these files do not show.
    if facts.is_grace() == Some(true) {
        return Err(Skip::not_applicable());
    }
    let (mut lines, mut slow) = (Vec::new(), Vec::new());
    for (device, port) in ports {
        let (Some(pcie), Some(rate)) = (device.pcie, port.rate_gbps()) else {
            continue;
        };
        let line = format!(
            "{}:{} {rate} Gb/s behind PCIe {} GT/s x{}",
            device.hca.name, port.number, pcie.speed_gts, pcie.lanes
        );
        let could = pcie.max_speed_gts.zip(pcie.max_lanes);
        let usable = pcie.speed_gts * f64::from(pcie.lanes) * USABLE;
        if usable < rate && !matches!(port.link_layer, Some(LinkLayer::Unspecified)) {
            slow.push(format!(
                "{line}, of which about {usable:.0} Gb/s are usable"
            ));
        } else if let Some((gts, lanes)) = could
            && (pcie.speed_gts < gts || pcie.lanes < lanes)
        {
            slow.push(format!("{line}, where the card can do {gts} GT/s x{lanes}"));
        }
        lines.push(line);
    }
    if lines.is_empty() {
        return Err(Skip::not_applicable());
    }
    if let Some(first) = slow.first() {
        let detail = format!(
            "{} limited by PCIe: {first}",
            part(slow.len(), lines.len(), "port", ("is", "are"))
        );
        let seen = devices.evidence(slow.iter().map(String::as_str));
        let fix = "reseat the adapter and look at the slot's lanes and generation";
        return Ok(vec![
            Draft::warn(detail)
                .headline_of_detail()
                .with([seen])
                .fix(fix),
        ]);
    }
    let seen = devices.evidence(lines.iter().map(String::as_str));
    Ok(vec![
        Draft::ok("no adapter is limited by its PCIe link").with([seen]),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::{NOTHING, changed, hca, verdict};
    use crate::report::Status;

    #[test]
    fn the_slot_must_carry_the_port() {
        let with = |now: (&str, u32), most: (&str, u32)| {
            let device = "/sys/class/infiniband/mlx5_0/device";
            let text = format!(
                "{device}/current_link_speed: {}\n{device}/current_link_width: {}\n\
                 {device}/max_link_speed: {}\n{device}/max_link_width: {}",
                now.0, now.1, most.0, most.1
            );
            let answers = hca("mlx5_0", "4: ACTIVE", "open");
            verdict(
                run,
                "decode",
                &changed(&answers, &[(&ask::RDMA_ATTRIBUTES, text.as_str())]),
            )
        };
        let (gen4, gen5) = ("16.0 GT/s PCIe", "32.0 GT/s PCIe");
        assert_eq!(with((gen5, 16), (gen5, 16)), Ok(Status::Ok));
        assert_eq!(with((gen5, 8), (gen5, 16)), Ok(Status::Warn));
        assert_eq!(with((gen4, 16), (gen4, 16)), Ok(Status::Warn));
        assert_eq!(
            with(("Unknown", 0), ("Unknown", 0)),
            Err(Skip::not_applicable())
        );
        assert!(verdict(run, "decode", NOTHING).is_err());
    }
}
