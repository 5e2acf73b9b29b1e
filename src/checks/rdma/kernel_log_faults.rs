use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::facts::dmesg::Kind;
use crate::observed::Skip;
use crate::report::SkipReason;

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
    /// ## Sources
    /// NVIDIA "XID Errors"; NVIDIA Fabric Manager User Guide (SXid); Linux mlx5 driver; `nvidia-peermem.c`.
    "RDMA018" "kernel-log-faults" on Container {
        subsystem: Rdma, kv_path: Off, worst: Warn, causes: &[], since: "0.2.0",
    }
}

fn run(container: &Container<'_>) -> Outcome {
    let log = match container.facts.logs.kernel.get() {
        Err(skip) if skip.reason == SkipReason::NotCollected => return Err(Skip::not_applicable()),
        log => log?,
    };
    let drafts: Vec<Draft> = log
        .faults
        .iter()
        .map(|fault| {
            let (what, fix) = meaning(fault.kind);
            let device = fault
                .device
                .as_deref()
                .map_or(String::new(), |d| format!(" of {d}"));
            let times = if fault.times > 1 {
                format!(" ({} times)", fault.times)
            } else {
                String::new()
            };
            Draft::warn(format!("{what}{device}{times}"))
                .headline(what)
                .with([log.evidence([fault.first.as_str()])])
                .fix(fix)
        })
        .collect();
    if drafts.is_empty() {
        let detail = format!("none of the known faults is in these {} lines", log.lines);
        return Ok(vec![
            Draft::ok(detail.clone()).with([log.evidence([detail.as_str()])]),
        ]);
    }
    Ok(drafts)
}

fn meaning(kind: Kind) -> (String, &'static str) {
    let (what, fix) = match kind {
        Kind::Xid(code) => {
            return (
                format!("the GPU driver reports Xid {code}"),
                "look the number up in NVIDIA's list of Xid errors; 48, 79 and 95 need a reset or replacement",
            );
        }
        Kind::SXid(code) => {
            return (
                format!("the NVSwitch driver reports SXid {code}"),
                "look the number up in the Fabric Manager guide; fatal ones need a reset of the fabric",
            );
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
    };
    (what.to_owned(), fix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::{NOTHING, verdict};
    use crate::report::Status;

    #[test]
    fn a_silent_log_is_not_a_clean_one_and_no_log_is_no_question() {
        let with = |text| verdict(run, "decode", &[(&ask::DMESG, text)]);
        assert_eq!(with("[ 1.0] Linux version 6.1"), Ok(Status::Ok));
        assert_eq!(
            with("[ 2.0] NVRM: Xid (PCI:0000:19:00): 79, pid=1, GPU has fallen off the bus."),
            Ok(Status::Warn)
        );
        assert!(with("").is_err());
        assert_eq!(verdict(run, "decode", NOTHING), Err(Skip::not_applicable()));
    }
}
