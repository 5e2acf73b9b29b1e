use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::facts::nvidia_smi_topo::Path;
use crate::facts::vendor::Vendor;
use crate::observed::Skip;

check! {
    /// A virtual machine shows GPU and adapter below one PCIe bridge, which the real bridges may refuse.
    ///
    /// ## Why it matters
    /// With devices passed through, peer-to-peer traffic needs address translation services of the adapter and access control
    /// that forwards it. Where they lack, KV arrives as garbage with HTTP 200, or not at all.
    ///
    /// ## Fix
    /// On the hypervisor: ATS on the adapter, ACS with direct translated peer-to-peer. Prove the path by a transfer that compares
    /// its data.
    ///
    /// ## False alarms
    /// Machines of the large clouds, whose GPU instances come with this set up, are not judged.
    ///
    /// ## Sources
    /// ai-dynamo/dynamo#12463; NVIDIA AI Enterprise, "GPUDirect RDMA in virtual machines".
    "GPU008" "passthrough-peer-to-peer" on Container {
        subsystem: Gpu, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

/// Vendors by the firmware of their virtual machines.
const CLOUDS: &[&str] = &[
    "Amazon EC2",
    "Microsoft Corporation",
    "Google",
    "OracleCloud",
    "Oracle Corporation",
];

fn run(container: &Container<'_>) -> Outcome {
    let facts = &container.facts;
    container.require_gpu()?;
    let own = facts.rdma.own()?;
    if !own
        .iter()
        .any(|device| device.hca.vendor == Some(Vendor::Nvidia))
    {
        return Err(Skip::not_applicable());
    }
    let cpu = facts.host.cpu.get()?;
    if cpu.hypervisor != Some(true) {
        return Err(Skip::not_applicable());
    }
    let machine = facts.host.machine.get()?;
    let vendor = machine.vendor.as_deref().unwrap_or("unknown vendor");
    if CLOUDS.iter().any(|cloud| vendor.starts_with(cloud)) {
        return Err(Skip::not_applicable());
    }
    let matrix = facts.gpu.topology.get()?;
    let near = matrix.gpus.iter().find_map(|gpu| {
        let at = gpu
            .to_nics
            .iter()
            .position(|path| *path == Some(Path::Pix))?;
        Some(format!("GPU{} {} PIX", gpu.index, matrix.nics[at].label()))
    });
    let Some(near) = near else {
        return Err(Skip::not_applicable());
    };
    let seen = [
        matrix.evidence([near.as_str()]),
        cpu.evidence(["hypervisor: yes"]),
        machine.evidence([vendor]),
    ];
    let detail = format!(
        "{near} in a virtual machine ({vendor}): whether the real bridges pass peer-to-peer cannot be seen from here"
    );
    let fix = "prove the path by a transfer that compares its data; on the hypervisor set ATS and ACS direct translated";
    Ok(vec![Draft::warn(detail).with(seen).fix(fix)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::{Answers, NOTHING, changed, hca, verdict};
    use crate::report::Status;

    fn machine() -> Answers {
        let matrix = "\tGPU0\tNIC0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tPIX\t0-31\t0\nNIC0\tPIX\t X \n\nNIC Legend:\n\n  NIC0: mlx5_0\n";
        let other = [
            (&ask::NVIDIA_SMI_TOPO, matrix),
            (&ask::DEV_GPU, "/dev/nvidia0: char rw"),
            (&ask::CPU, "hypervisor: yes"),
            (&ask::MACHINE, "/sys/class/dmi/id/sys_vendor: QEMU"),
        ];
        changed(&hca("mlx5_0", "4: ACTIVE", "open"), &other)
    }

    #[test]
    fn a_private_hypervisor_is_doubted() {
        assert_eq!(verdict(run, "decode", &machine()), Ok(Status::Warn));
        for (ask, text) in [
            (&ask::CPU, "hypervisor: no"),
            (&ask::MACHINE, "/sys/class/dmi/id/sys_vendor: Amazon EC2"),
        ] {
            let other = changed(&machine(), &[(ask, text)]);
            assert_eq!(verdict(run, "decode", &other), Err(Skip::not_applicable()));
        }
    }

    #[test]
    fn what_was_not_read_is_not_judged() {
        assert!(verdict(run, "decode", NOTHING).is_err());
        for ask in [
            &ask::CPU,
            &ask::MACHINE,
            &ask::NVIDIA_SMI_TOPO,
            &ask::DEV_INFINIBAND_OPEN,
        ] {
            let mut rest = machine();
            rest.retain(|(a, _)| a.id != ask.id);
            assert!(verdict(run, "decode", &rest).is_err(), "{}", ask.id);
        }
    }
}
