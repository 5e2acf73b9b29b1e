use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::words::counted;
use crate::facts::dmesg::{Fault, Kind};
use crate::observed::Skip;
use crate::report::{KvPath, SkipReason};

check! {
    /// The kernel's log tells of a fault of a GPU, an adapter, or their registration.
    ///
    /// Only for a log that a person hands in; it is not read from a container.
    ///
    /// ## Why it matters
    /// Drivers say in their log what no state file shows: a GPU that fell off the bus, an adapter that stopped answering,
    /// memory that could not be pinned.
    ///
    /// ## Fix
    /// Each finding says what the line means. The log forgets, so a silent one proves nothing.
    ///
    /// ## False alarms
    /// Xid 13, 31, 43 and 45 are a program's own and only noted. A link that came up again in the same log is not named. A GPU
    /// that was reset since is still in the log.
    ///
    /// ## Sources
    /// NVIDIA "XID Errors"; NVIDIA Fabric Manager User Guide (SXid); Linux mlx5 driver; `nvidia-peermem.c`.
    "RDMA018" "kernel-log-faults" on Container {
        subsystem: Rdma, kv_path: Off, worst: Fail, causes: &[], since: "0.1.0",
    }
}

/// What is known of one fault.
struct Meaning {
    /// What happened, as a sentence that goes on with the device.
    what: String,
    /// What to do.
    fix: &'static str,
    weight: Weight,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Weight {
    /// The program's own doing; the hardware is fine.
    Program,
    /// Degraded, or broken for a while.
    Degraded,
    /// The GPU is gone or cannot be trusted until it is reset.
    Lost,
}

fn run(container: &Container<'_>) -> Outcome {
    let log = match container.facts.logs.kernel.get() {
        Err(skip) if skip.reason == SkipReason::NotCollected => return Err(Skip::not_applicable()),
        log => log?,
    };
    let is_twice = |fault: &Fault| {
        let same = |other: &Fault| match (&fault.device, &other.device) {
            (Some(full), Some(short)) => full.starts_with(short.as_str()),
            _ => false,
        };
        fault.kind == Kind::GpuLost
            && log
                .faults
                .iter()
                .any(|f| f.kind == Kind::Xid(79) && same(f))
    };
    let drafts: Vec<Draft> = log
        .faults
        .iter()
        .filter(|fault| !is_twice(fault))
        .map(|fault| draft(container, fault).with([log.evidence([fault.first.as_str()])]))
        .collect();
    if drafts.is_empty() {
        let mut detail = format!(
            "{} of the kernel's log: no line is one of the faults that are known here, which proves nothing",
            counted(usize::try_from(log.lines).unwrap_or(usize::MAX), "line")
        );
        if let Some(first) = log.unknown.first() {
            detail.push_str(&format!("; look at: {first}"));
        }
        return Err(Skip::new(SkipReason::NotFound, detail));
    }
    Ok(drafts)
}

fn draft(container: &Container<'_>, fault: &Fault) -> Draft {
    let Meaning { what, fix, weight } = meaning(fault.kind);
    let device = fault.device.as_deref();
    let times = match fault.times {
        0 | 1 => String::new(),
        times => format!(" ({times} times)"),
    };
    let detail = match (fault.kind, device) {
        // `Xid 79 of 0000:1b:00: the GPU has fallen off the bus`.
        (Kind::Xid(code), Some(device)) => format!("Xid {code} of {device}: {what}{times}"),
        (Kind::Xid(code), None) => format!("Xid {code}: {what}{times}"),
        (_, Some(device)) => format!("{device}: {what}{times}"),
        (_, None) => format!("{what}{times}"),
    };
    let headline = match (fault.kind, device) {
        (Kind::Xid(code), Some(device)) => format!("Xid {code} of {device}: {what}"),
        (Kind::Xid(code), None) => format!("Xid {code}: {what}"),
        (_, Some(device)) => format!("{device}: {what}"),
        (_, None) => what,
    };
    let draft = match weight {
        Weight::Program => return Draft::ok(format!("{detail}; {fix}")),
        Weight::Degraded => Draft::warn(detail),
        Weight::Lost => container
            .broken(format!("{detail}, unless it was reset since"))
            .on_kv_path(KvPath::Required),
    };
    draft.headline(headline).fix(fix)
}

/// <https://docs.nvidia.com/deploy/xid-errors/>
fn xid(code: u32) -> Meaning {
    use Weight::{Degraded, Lost, Program};
    const OWN: &str = "look at the program that ran on the GPU then";
    const RESET: &str = "drain the node and reset the GPU; if it comes again the GPU is for repair";
    let (what, fix, weight) = match code {
        13 => (
            "a program raised an exception on the GPU, which is most often its own fault",
            OWN,
            Program,
        ),
        31 => (
            "a program used an address that it has not mapped, which is most often its own fault",
            OWN,
            Program,
        ),
        43 => (
            "a program's work on the GPU was stopped after a fault of its own",
            OWN,
            Program,
        ),
        45 => (
            "a program's work was cleaned up after it ended or failed",
            OWN,
            Program,
        ),
        48 => ("an uncorrectable memory error of the GPU", RESET, Lost),
        64 => (
            "a faulty row of GPU memory could not be replaced",
            RESET,
            Degraded,
        ),
        74 => (
            "an NVLink of the GPU reports an error, and what goes over it fails or slows down",
            "look at `nvidia-smi nvlink -e` and reset the GPU; if it comes again the link is for repair",
            Degraded,
        ),
        79 => (
            "the GPU has fallen off the bus and cannot be used",
            "drain the node and restart it; check seat, power and temperature of the GPU",
            Lost,
        ),
        94 => (
            "a memory error of the GPU that ended the program it hit",
            RESET,
            Degraded,
        ),
        95 => (
            "a memory error of the GPU that may have hit any program on it",
            RESET,
            Lost,
        ),
        119 | 120 => (
            "the GPU's own processor (GSP) does not answer",
            RESET,
            Degraded,
        ),
        _ => (
            "the GPU driver reports an error",
            "look the number up in NVIDIA's list of Xid errors",
            Degraded,
        ),
    };
    Meaning {
        what: what.to_owned(),
        fix,
        weight,
    }
}

fn meaning(kind: Kind) -> Meaning {
    let (what, fix) = match kind {
        Kind::Xid(code) => return xid(code),
        Kind::SXid(code) => {
            return Meaning {
                what: format!("the NVSwitch driver reports SXid {code}"),
                fix: "look the number up in the Fabric Manager guide; fatal ones need a reset of the fabric",
                weight: Weight::Degraded,
            };
        }
        Kind::PeermemInvalidContext => (
            "nvidia-peermem lost the context of registered memory: a process died with GPU memory registered",
            "restart the worker; with open kernel modules unload nvidia_peermem and use dmabuf",
        ),
        Kind::PeermemNotLoaded => (
            "nvidia-peermem could not be loaded: the RDMA stack of this kernel has no peer-memory interface",
            "install MLNX_OFED or DOCA-OFED for this kernel, or use the open kernel modules with dmabuf",
        ),
        Kind::PinFailed => (
            "memory could not be pinned while it was registered",
            "raise the limit on locked memory, or give the process CAP_IPC_LOCK",
        ),
        Kind::AdapterTimeout => (
            "an adapter stopped answering its driver",
            "update the firmware of the adapter, and reset it",
        ),
        Kind::ModuleFault => (
            "a cable or transceiver reports a fault",
            "replace the cable or transceiver",
        ),
        Kind::PcieLimited => (
            "an adapter got less PCIe bandwidth than it could use",
            "look at the slot's lanes and generation",
        ),
        Kind::PcieUncorrected => (
            "PCIe reports uncorrected errors",
            "reseat or replace the device",
        ),
        Kind::GpuLost => return xid(79),
        Kind::DriverMismatch => (
            "user space and kernel module of the NVIDIA driver are of different versions, so that programs cannot use the GPU",
            "reload the kernel module or restart the node; in a container, look which driver libraries are mounted",
        ),
        Kind::AdapterFault => (
            "the firmware of an adapter reported a fault and its driver tried to recover",
            "update the firmware of the adapter and reset it; if it comes again replace it",
        ),
        Kind::AdapterRefused => (
            "the firmware of an adapter refused to create or connect what a transfer needs",
            "reset the adapter and restart the workers that use it",
        ),
        Kind::QueuePairRefused => (
            "a queue pair could not be made",
            "look at the lines before it; reset the adapter if its firmware refuses, else raise the limit on locked memory",
        ),
        Kind::CableUnplugged => (
            "no cable is plugged in, right only where the port is not used",
            "plug the cable in if the port is used",
        ),
        Kind::LinkDown => (
            "the link went down and does not come up again in this log",
            "check cable and switch port if the port is used",
        ),
        Kind::IommuFault => (
            "the IOMMU blocked an access of a device to memory",
            "for GPUDirect set the IOMMU to passthrough (`iommu=pt`) or off",
        ),
    };
    Meaning {
        what: what.to_owned(),
        fix,
        weight: Weight::Degraded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::{NOTHING, container, outcome, verdict};
    use crate::report::Status;

    #[test]
    fn a_silent_log_is_not_a_clean_one_and_no_log_is_no_question() {
        let with = |text| verdict(run, "decode", &[(&ask::DMESG, text)]);
        let silent = with("[ 1.0] Linux version 6.1").unwrap_err();
        assert!(
            silent.detail.contains("proves nothing"),
            "{}",
            silent.detail
        );
        let unknown = with("[ 1.0] mlx5_core 0000:1a:00.0: something failed").unwrap_err();
        assert!(
            unknown.detail.contains("something failed"),
            "{}",
            unknown.detail
        );
        assert!(with("").is_err());
        assert_eq!(verdict(run, "decode", NOTHING), Err(Skip::not_applicable()));
    }

    #[test]
    fn each_xid_has_its_own_weight() {
        let with = |role: &str, code: u32| {
            let line = format!("[ 2.0] NVRM: Xid (PCI:0000:1b:00): {code}, pid=1");
            let drafts = outcome(run, &container(role, &[(&ask::DMESG, line)])).unwrap();
            (drafts[0].status, drafts[0].detail.clone())
        };
        for (code, status) in [
            (79, Status::Fail),
            (48, Status::Fail),
            (95, Status::Fail),
            (74, Status::Warn),
            (999, Status::Warn),
            (13, Status::Ok),
            (31, Status::Ok),
            (43, Status::Ok),
            (45, Status::Ok),
        ] {
            assert_eq!(with("decode", code).0, status, "{code}");
        }
        assert_eq!(with("agg", 79).0, Status::Warn);
        assert!(with("decode", 31).1.starts_with("Xid 31 of 0000:1b:00: "));
        // Both lines of the driver are one fault.
        let both = "[ 2.0] NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus.\n\
                    [ 2.0] NVRM: GPU 0000:1b:00.0: GPU has fallen off the bus.";
        let drafts = outcome(run, &container("decode", &[(&ask::DMESG, both)])).unwrap();
        assert_eq!(drafts.len(), 1);
    }
}
