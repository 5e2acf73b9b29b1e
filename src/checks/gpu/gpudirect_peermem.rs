use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::live;
use crate::facts::sysfs::Backing;
use crate::judge::context::Tri;
use crate::observed::Skip;
use crate::report::{Evidence, SkipReason};

check! {
    /// The adapters cannot reach GPU memory: there is neither a peer memory module nor dmabuf.
    ///
    /// | peer memory module | open NVIDIA modules | kernel with dmabuf for the adapter | result |
    /// |---|---|---|---|
    /// | yes | any | any | ok |
    /// | no | yes | yes | ok, by dmabuf |
    /// | no | yes or not known | no | fail |
    /// | no | no | any | fail: the proprietary driver exports no dmabuf |
    /// | no | not known | yes | warn |
    ///
    /// ## Why it matters
    /// UCX then registers GPU memory without the adapter and moves KV by messages through the CPU, through one lane, without a
    /// line in any log above debug.
    ///
    /// ## Fix
    /// Open kernel modules and a kernel from 5.12 on need nothing more. Otherwise load `nvidia_peermem` on the node.
    ///
    /// ## False alarms
    /// `nvidia_peermem` absent from `lsmod` is normal where dmabuf does the work.
    ///
    /// ## Sources
    /// UCX v1.20.0 `uct_ib_md.c`, `cuda_copy_md.c`; NCCL v2.28.9-1 `net_ib.cc`; NVIDIA GPU Operator, "GPUDirect RDMA";
    /// NVIDIA/nccl#897, #1939; openucx/ucx#9908.
    "GPU001" "gpudirect-peermem" on Container {
        subsystem: Gpu, kv_path: Required, worst: Fail, causes: &[], since: "0.1.0",
    }
}

/// Before this branch Grace needs a parameter of the driver.
/// <https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-operator-rdma.html>
const GRACE_NEEDS_NOTHING: u32 = 595;

fn run(container: &Container<'_>) -> Outcome {
    let facts = &container.facts;
    let gpus = container.require_gpu();
    let own = facts.rdma.own();
    for unseen in [gpus.clone().err(), own.clone().err()] {
        if let Some(skip) = unseen
            && container.is_pasted()
            && skip.reason == SkipReason::NotCollected
        {
            return by_modules(container, skip);
        }
    }
    gpus?;
    let own = own?;
    if !own.iter().any(|device| device.backing != Backing::Software) {
        // `ib-devices` says that there is nothing to register with.
        return Err(Skip::not_applicable());
    }
    if let Some(draft) = grace_parameter(container)? {
        return Ok(vec![draft]);
    }
    let (dmabuf, words) = live::dmabuf(facts);
    let mut seen: Vec<Evidence> = Vec::new();
    if let Some(driver) = facts.gpu.driver.known() {
        seen.push(driver.evidence([driver.version.as_str()]));
    }
    if let Some(kernel) = facts.host.kernel.known() {
        seen.push(kernel.evidence([kernel.release.as_str()]));
    }
    let peer = facts.host.peer_memory();
    if let Ok((found, evidence)) = &peer
        && let Some(first) = found.first()
    {
        let detail = format!("peer memory: {first}");
        return Ok(vec![Draft::ok(detail).with(evidence.clone())]);
    }
    let why = words.join("; ");
    if dmabuf == Tri::Yes {
        let detail = format!("dmabuf: {why}");
        return Ok(vec![Draft::ok(detail).with(seen)]);
    }
    let (_, absent) = peer?;
    seen.extend(absent);
    let fix = "load nvidia_peermem on the node, or use the open kernel modules of the NVIDIA driver with a kernel from 5.12 on";
    if dmabuf == Tri::No {
        let detail = format!(
            "no peer memory module is loaded and dmabuf is not usable ({why}): KV of the GPUs is copied by the CPU"
        );
        return Ok(vec![container.broken(detail).with(seen).fix(fix)]);
    }
    // Not known. Which of the facts is missing decides how much can be said.
    let driver = facts.gpu.driver.get()?;
    facts.host.kernel.get()?;
    let unknown = if driver.is_open.is_none() {
        "whether the NVIDIA kernel modules are open was not seen"
    } else {
        "whether the driver of the adapter registers dmabuf on this kernel is not known"
    };
    let detail = format!(
        "no peer memory module is loaded, and {unknown}{}{why}",
        if why.is_empty() { "" } else { "; " }
    );
    let headline = "whether the adapters reach GPU memory is not known";
    Ok(vec![
        Draft::warn(detail).with(seen).fix(fix).headline(headline),
    ])
}

/// A person pasted the modules, and not the GPUs or adapters: a module that is there is enough, one that is not says nothing
/// without them.
fn by_modules(container: &Container<'_>, unseen: Skip) -> Outcome {
    let (found, evidence) = container.facts.host.peer_memory()?;
    let Some(first) = found.first() else {
        let detail = format!(
            "no peer memory module is loaded, which is right where dmabuf does the work: {}",
            unseen.detail
        );
        return Err(Skip { detail, ..unseen });
    };
    Ok(vec![
        Draft::ok(format!("peer memory: {first}")).with(evidence),
    ])
}

/// On Grace with Blackwell the topology test of the driver refuses peer memory until it is told otherwise.
fn grace_parameter(container: &Container<'_>) -> Result<Option<Draft>, Skip> {
    const NAME: &str = "GrdmaPciTopoCheckOverride";
    let facts = &container.facts;
    let gpus = facts.gpu.list.get()?;
    let driver = facts.gpu.driver.known();
    let branch = driver.and_then(|driver| driver.branch());
    let needs_nothing = branch.is_some_and(|branch| branch >= GRACE_NEEDS_NOTHING);
    if needs_nothing || facts.is_grace() != Some(true) || !gpus.iter().any(|gpu| gpu.is_blackwell())
    {
        return Ok(None);
    }
    let parameters = facts.gpu.parameters.get()?;
    let Some(value) = parameters.get(NAME) else {
        return Ok(None);
    };
    Ok((value == "0").then(|| {
        let line = format!("{NAME}: {value}");
        let detail = format!(
            "{line}; on Grace with Blackwell drivers before R{GRACE_NEEDS_NOTHING} need 1 for GPUDirect"
        );
        let fix = "load the driver with NVreg_GrdmaPciTopoCheckOverride=1";
        let seen = [parameters.evidence([line.as_str()])];
        container.broken(detail).with(seen).fix(fix)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::{Answers, NOTHING, changed, container, hca, outcome, verdict};
    use crate::report::{SkipReason, Status};

    const OPEN: &str =
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build";
    const CLOSED: &str = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.135  Wed";
    const MLX5: &str = "/sys/class/infiniband/mlx5_0/device: /sys/devices/pci0000:15/0000:15:00.0\n\
                        /sys/class/infiniband/mlx5_0/device/driver: mlx5_core";

    fn machine(modules: &str, driver: &str, kernel: &str) -> Answers {
        let other = [
            (&ask::DEV_GPU, "/dev/nvidia0: char rw"),
            (&ask::MODULE_VERSIONS, modules),
            (&ask::NVIDIA_VERSION, driver),
            (&ask::KERNEL, kernel),
            (&ask::RDMA_PCI, MLX5),
        ];
        changed(&hca("mlx5_0", "4: ACTIVE", "open"), &other)
    }

    #[test]
    fn the_decision_table() {
        let peermem = "/sys/module/nvidia_peermem/version: 580.95.05";
        for (modules, driver, kernel, status) in [
            (peermem, CLOSED, "4.18.0", Status::Ok),
            ("", OPEN, "6.8.0-48-generic", Status::Ok),
            ("", OPEN, "5.4.0", Status::Fail),
            ("", CLOSED, "6.8.0", Status::Fail),
            (
                "",
                "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  510.47  Release",
                "6.8.0",
                Status::Fail,
            ),
        ] {
            let answers = machine(modules, driver, kernel);
            assert_eq!(
                verdict(run, "decode", &answers),
                Ok(status),
                "{driver} {kernel}"
            );
        }
        let broken = machine("", CLOSED, "6.8.0");
        assert_eq!(verdict(run, "agg", &broken), Ok(Status::Warn));
        // nvidia-smi knows the version and not the kind of the modules.
        let mut unknown = machine("", "", "6.8.0");
        unknown.retain(|(a, _)| a.id != ask::NVIDIA_VERSION.id);
        unknown.push((
            &ask::NVIDIA_SMI_QUERY,
            "index, name, driver_version\n0, NVIDIA H100, 580.95.05".to_owned(),
        ));
        assert_eq!(verdict(run, "decode", &unknown), Ok(Status::Warn));
        let draft = outcome(run, &container("decode", &unknown))
            .unwrap()
            .remove(0);
        let headline = draft.headline.unwrap();
        assert!(headline.ends_with("is not known"), "{headline}");
    }

    #[test]
    fn grace_with_blackwell_needs_its_parameter() {
        let with = |value: &str| {
            let parameter = format!("GrdmaPciTopoCheckOverride: {value}");
            let other = [
                (&ask::ARCHITECTURE, "aarch64"),
                (&ask::NVIDIA_SMI_QUERY, "index, name\n0, NVIDIA GB200"),
                (&ask::NVIDIA_PARAMS, parameter.as_str()),
            ];
            verdict(run, "decode", &changed(&machine("", OPEN, "6.8.0"), &other))
        };
        assert_eq!(with("0"), Ok(Status::Fail));
        assert_eq!(with("1"), Ok(Status::Ok));
    }

    #[test]
    fn what_was_not_read_is_not_judged() {
        assert!(verdict(run, "decode", NOTHING).is_err());
        for ask in [
            &ask::MODULE_VERSIONS,
            &ask::KERNEL,
            &ask::DEV_GPU,
            &ask::DEV_INFINIBAND_OPEN,
        ] {
            let mut rest = machine("", OPEN, "6.8.0");
            // Without the kernel dmabuf is not known, and without the modules peer memory is not.
            if ask.id == ask::MODULE_VERSIONS.id {
                rest = machine("", CLOSED, "6.8.0");
            }
            rest.retain(|(a, _)| a.id != ask.id);
            assert_eq!(
                verdict(run, "decode", &rest).err().map(|skip| skip.reason),
                Some(SkipReason::NotCollected),
                "{}",
                ask.id
            );
        }
        let no_gpu = changed(&machine("", OPEN, "6.8.0"), &[(&ask::DEV_GPU, "")]);
        assert_eq!(verdict(run, "decode", &no_gpu), Err(Skip::not_applicable()));
    }

    #[test]
    fn a_pasted_kernel_that_is_too_old_is_named() {
        let devices = "hca_id:\tmlx5_0\n\ttransport:\tInfiniBand (0)\n\tvendor_id:\t0x02c9\n\tphys_port_cnt:\t1\n\t\tport:\t1\n\
                       \t\t\tstate:\tPORT_ACTIVE (4)\n\t\t\tlink_layer:\tInfiniBand\n";
        let query = "Driver Version : 570.1\nAttached GPUs : 1\nGPU 00000000:10:00.0\n    Product Name : NVIDIA H100 80GB HBM3\n";
        let modules = "Module Size Used by\nnvidia_uvm 4956160 0\nnvidia 54292480 63 nvidia_uvm\nmlx5_ib 397312 0\n";
        for (kernel, status) in [
            ("Linux h 5.4.0-150-generic #167 SMP x86_64", Status::Fail),
            ("Linux h 5.15.0-150-generic #167 SMP x86_64", Status::Warn),
        ] {
            let answers = [
                (&ask::IBV_DEVINFO, devices),
                (&ask::SMI_Q, query),
                (&ask::LSMOD, modules),
                (&ask::KERNEL, kernel),
            ];
            let draft = outcome(run, &crate::checks::testing::pasted(&answers))
                .unwrap()
                .remove(0);
            assert_eq!(draft.status, status, "{}", draft.detail);
            let release = kernel.split(' ').nth(2).unwrap();
            assert!(draft.detail.contains(release), "{}", draft.detail);
        }
    }
}
