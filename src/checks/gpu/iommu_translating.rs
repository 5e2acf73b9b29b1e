use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::facts::sysfs::Backing;
use crate::observed::Skip;
use crate::report::SkipReason;

check! {
    /// The IOMMU of a bare machine translates, so that GPU and adapter meet only in the CPU.
    ///
    /// ## Why it matters
    /// With translation on, a PCIe switch sends traffic between its devices up to the CPU: GPUDirect is slow, hangs, or delivers
    /// wrong data.
    ///
    /// ## Fix
    /// Boot with `iommu=pt` (and `intel_iommu=on` or `amd_iommu=on` where virtual functions are used).
    ///
    /// ## False alarms
    /// In a virtual machine only the guest's view can be seen, and Grace translates by design: neither is judged. Access control
    /// (ACS) of the bridges, the other cause of the same symptoms, is readable by root on the node only: `explain acs`.
    ///
    /// ## Sources
    /// NVIDIA/nccl#304, #1086, #2079; NCCL troubleshooting guide, "PCI Access Control Services".
    "GPU007" "iommu-translating" on Container {
        subsystem: Gpu, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

fn run(container: &Container<'_>) -> Outcome {
    let facts = &container.facts;
    container.require_gpu()?;
    if facts.is_grace() == Some(true) {
        return Err(Skip::not_applicable());
    }
    if facts.host.cpu.get()?.hypervisor != Some(false) {
        return Err(Skip::not_applicable());
    }
    let mut kinds: Vec<(String, crate::report::Evidence)> = Vec::new();
    if let Some(places) = facts.gpu.places.known() {
        for (address, place) in &places.value {
            if let Some(kind) = &place.iommu {
                let line = format!("GPU {address} iommu_group/type {kind}");
                kinds.push((kind.clone(), places.evidence([line.as_str()])));
            }
        }
    }
    // Where the attributes of the adapters were not read, nothing is said about them.
    let mut adapters_seen = false;
    if let (Ok(own), Some(devices)) = (facts.rdma.own(), facts.rdma.devices.known()) {
        adapters_seen = own
            .iter()
            .all(|device| device.hca.part_id.is_some() || device.backing == Backing::Software);
        for device in own {
            if let Some(kind) = &device.iommu {
                let line = format!("{} iommu_group/type {kind}", device.hca.name);
                kinds.push((kind.clone(), devices.evidence([line.as_str()])));
            }
        }
    }
    let translating: Vec<_> = kinds
        .iter()
        .filter(|(kind, _)| kind.starts_with("DMA"))
        .collect();
    if let Some((kind, seen)) = translating.first() {
        let detail = format!(
            "the IOMMU translates ({kind}) for {} of {} GPUs and adapters on a bare machine",
            translating.len(),
            kinds.len()
        );
        return Ok(vec![
            Draft::warn(detail)
                .with([seen.clone()])
                .fix("boot the node with iommu=pt"),
        ]);
    }
    if let Err(skip) = facts.gpu.places.get()
        && !matches!(skip.reason, SkipReason::NotFound | SkipReason::NotCollected)
    {
        return Err(skip);
    }
    facts.rdma.own()?;
    if !adapters_seen {
        let detail = "the IOMMU groups of the adapters were not seen";
        return Err(Skip::new(SkipReason::NotCollected, detail));
    }
    if let Some((kind, seen)) = kinds.first() {
        let detail = format!("the IOMMU passes through ({kind})");
        return Ok(vec![Draft::ok(detail).with([seen.clone()])]);
    }
    // Old kernels do not show types: units and the command line are left.
    let units = facts.host.iommu_units.get()?;
    if units.is_empty() {
        let seen = units.evidence(["no IOMMU unit"]);
        return Ok(vec![Draft::ok("no IOMMU is in use").with([seen])]);
    }
    let words = facts.host.iommu_words.get()?;
    let line = words.join(" ");
    let seen = [words.evidence([line.as_str()])];
    let passes = words
        .iter()
        .any(|word| word == "iommu=pt" || word == "iommu.passthrough=1");
    let forced = words
        .iter()
        .any(|word| word.starts_with("intel_iommu=on") || word.starts_with("amd_iommu=on"));
    if passes {
        return Ok(vec![
            Draft::ok(format!("the IOMMU passes through ({line})")).with(seen),
        ]);
    }
    if forced {
        let detail = format!("the IOMMU is on without pass-through ({line})");
        return Ok(vec![
            Draft::warn(detail)
                .with(seen)
                .fix("boot the node with iommu=pt"),
        ]);
    }
    let detail = "an IOMMU is in use and this kernel does not show whether it translates";
    Err(Skip::new(SkipReason::NotFound, detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::{Answers, NOTHING, changed, verdict};
    use crate::report::Status;

    fn machine(kind: &str) -> Answers {
        let place = format!(
            "/sys/bus/pci/devices/0000:19:00.0: /sys/devices/x\n/sys/bus/pci/devices/0000:19:00.0/iommu_group/type: {kind}"
        );
        vec![
            (&ask::DEV_GPU, "/dev/nvidia0: char rw".to_owned()),
            (
                &ask::CPU,
                "vendor_id: GenuineIntel\nhypervisor: no".to_owned(),
            ),
            (&ask::GPU_PCI, place),
            (&ask::RDMA_PORTS, String::new()),
            (&ask::DEV_INFINIBAND, String::new()),
        ]
    }

    #[test]
    fn only_pass_through_is_right_on_a_bare_machine() {
        assert_eq!(verdict(run, "decode", &machine("identity")), Ok(Status::Ok));
        assert_eq!(verdict(run, "decode", &machine("DMA")), Ok(Status::Warn));
        assert_eq!(verdict(run, "decode", &machine("DMA-FQ")), Ok(Status::Warn));
        let guest = changed(&machine("DMA"), &[(&ask::CPU, "hypervisor: yes")]);
        assert_eq!(verdict(run, "decode", &guest), Err(Skip::not_applicable()));
        let grace = changed(&machine("DMA"), &[(&ask::ARCHITECTURE, "aarch64")]);
        assert_eq!(verdict(run, "decode", &grace), Err(Skip::not_applicable()));
    }

    #[test]
    fn without_types_units_and_command_line_answer() {
        let with = |units: &str, words: &str| {
            let other = [
                (
                    &ask::GPU_PCI,
                    "/sys/bus/pci/devices/0000:19:00.0: /sys/devices/x",
                ),
                (&ask::IOMMU, units),
                (&ask::CMDLINE, words),
            ];
            verdict(run, "decode", &changed(&machine(""), &other))
        };
        assert_eq!(with("", ""), Ok(Status::Ok));
        assert_eq!(with("dmar0", "intel_iommu=on\niommu=pt"), Ok(Status::Ok));
        assert_eq!(with("dmar0", "intel_iommu=on"), Ok(Status::Warn));
        assert!(with("dmar0", "").is_err());
    }

    #[test]
    fn what_was_not_read_is_not_judged() {
        assert!(verdict(run, "decode", NOTHING).is_err());
        for ask in [&ask::CPU, &ask::GPU_PCI] {
            let mut rest = machine("identity");
            rest.retain(|(a, _)| a.id != ask.id);
            assert!(verdict(run, "decode", &rest).is_err(), "{}", ask.id);
        }
    }
}
