//! Lines of the kernel log that tell of a broken interconnect.
//!
//! Reads `dmesg`, `/dev/kmsg` records and syslog alike: the words of a driver are looked for anywhere in a line. A log
//! without such lines proves nothing, because the ring buffer forgets.

use super::transcript::{self, message};

/// Faults kept at most, each with its count.
const FAULTS: usize = 256;

/// What the log tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelLog {
    /// Faults in order of first appearance.
    pub faults: Vec<Fault>,
    /// Lines read, of any kind.
    pub lines: u64,
    /// The first lines of drivers that speak of an error and are none of the known faults, sanitised.
    pub unknown: Vec<String>,
}

/// One kind of fault of one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What happened.
    pub kind: Kind,
    /// The PCI address in the line, where there is one.
    pub device: Option<String>,
    /// The first such line, sanitised.
    pub first: String,
    /// How many such lines.
    pub times: u64,
}

/// Kinds of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `nvidia-peermem` was asked to free memory it no longer knows: a process died with GPU memory registered.
    PeermemInvalidContext,
    /// `nvidia-peermem` could not load: the RDMA stack has no peer-memory interface.
    PeermemNotLoaded,
    /// The GPU driver reports an error with this number.
    Xid(u32),
    /// The NVSwitch driver reports an error with this number.
    SXid(u32),
    /// Pinning memory failed while registering it; -12 is the memlock limit or memory itself.
    PinFailed,
    /// A network adapter stopped answering its driver.
    AdapterTimeout,
    /// A cable or transceiver fault.
    ModuleFault,
    /// PCIe gives the adapter less than it could use.
    PcieLimited,
    /// PCIe reports uncorrected errors.
    PcieUncorrected,
    /// The GPU is gone from the bus, in a line without its number (Xid 79).
    GpuLost,
    /// User space and kernel module of the GPU driver are of different versions.
    DriverMismatch,
    /// The firmware of an adapter reports a fault, and its driver starts to recover.
    AdapterFault,
    /// The firmware of an adapter refused to create or connect what a transfer needs: memory keys, queues.
    AdapterRefused,
    /// The kernel could not make a queue pair.
    QueuePairRefused,
    /// The cable was pulled, or there is none, and the log tells of no other since.
    CableUnplugged,
    /// The interface of an adapter went down and did not come up again in this log.
    LinkDown,
    /// The IOMMU blocked an access of a device to memory.
    IommuFault,
}

impl Kind {
    /// Words in a later line of the same device that take the fault back.
    fn mended_by(self) -> Option<&'static str> {
        match self {
            Self::CableUnplugged => Some("Cable plugged"),
            Self::LinkDown => Some(": Link up"),
            _ => None,
        }
    }
}

/// Words of a driver.
struct Known {
    words: &'static str,
    kind: fn(&str) -> Option<Kind>,
}

const KNOWN: &[Known] = &[
    // https://github.com/NVIDIA/open-gpu-kernel-modules/blob/580.95.05/kernel-open/nvidia-peermem/nvidia-peermem.c
    Known {
        words: "detected invalid context, skipping further processing",
        kind: |_| Some(Kind::PeermemInvalidContext),
    },
    Known {
        words: "nvidia_peermem: Unknown symbol",
        kind: |_| Some(Kind::PeermemNotLoaded),
    },
    Known {
        words: "nvidia_peermem: disagrees about version of symbol",
        kind: |_| Some(Kind::PeermemNotLoaded),
    },
    // https://docs.nvidia.com/deploy/xid-errors/
    Known {
        words: "NVRM: Xid (",
        kind: |rest| code(rest).map(Kind::Xid),
    },
    // https://github.com/NVIDIA/open-gpu-kernel-modules/blob/580.95.05/src/nvidia/arch/nvalloc/unix/src/osinit.c
    Known {
        words: "GPU has fallen off the bus",
        kind: |_| Some(Kind::GpuLost),
    },
    // https://github.com/NVIDIA/open-gpu-kernel-modules/blob/580.95.05/src/nvidia/arch/nvalloc/unix/src/osapi.c
    Known {
        words: "NVRM: API mismatch",
        kind: |_| Some(Kind::DriverMismatch),
    },
    // https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/
    Known {
        words: "SXid (",
        kind: |rest| code(rest).map(Kind::SXid),
    },
    // https://github.com/torvalds/linux/blob/v6.1/drivers/infiniband/sw/rxe/rxe_mr.c
    Known {
        words: "Unable to pin memory region",
        kind: |_| Some(Kind::PinFailed),
    },
    // https://github.com/torvalds/linux/blob/v6.12/drivers/net/ethernet/mellanox/mlx5/core/cmd.c
    Known {
        words: "timeout. Will cause a leak of a command resource",
        kind: |_| Some(Kind::AdapterTimeout),
    },
    // https://github.com/torvalds/linux/blob/v6.12/drivers/net/ethernet/mellanox/mlx5/core/health.c
    Known {
        words: "device's health compromised",
        kind: |_| Some(Kind::AdapterTimeout),
    },
    Known {
        words: "Health issue observed, ",
        // Severities as of syslog: from 5 on they are notices.
        kind: |rest| {
            let notice = ["severity(5)", "severity(6)", "severity(7)"];
            let is_notice = notice.iter().any(|words| rest.contains(words));
            (!is_notice).then_some(Kind::AdapterFault)
        },
    },
    Known {
        words: "handling bad device here",
        kind: |_| Some(Kind::AdapterFault),
    },
    Known {
        words: "poll_health:",
        kind: |rest| rest.contains("Fatal error").then_some(Kind::AdapterFault),
    },
    // https://github.com/torvalds/linux/blob/v6.12/drivers/net/ethernet/mellanox/mlx5/core/cmd.c
    // Requests for optional registers are refused on healthy adapters, too.
    Known {
        words: "mlx5_cmd_out_err:",
        kind: |rest| {
            let needed = NEEDED.iter().any(|command| rest.contains(command));
            (needed && rest.contains("failed")).then_some(Kind::AdapterRefused)
        },
    },
    // https://github.com/torvalds/linux/blob/v6.12/drivers/infiniband/hw/mlx5/qp.c
    Known {
        words: "create qp failed",
        kind: |_| Some(Kind::QueuePairRefused),
    },
    // https://github.com/torvalds/linux/blob/v6.12/drivers/net/ethernet/mellanox/mlx5/core/en_main.c
    Known {
        words: ": Link down",
        kind: |_| Some(Kind::LinkDown),
    },
    // https://github.com/torvalds/linux/blob/v6.12/drivers/net/ethernet/mellanox/mlx5/core/events.c
    Known {
        words: "Port module event: module",
        kind: |rest| {
            rest.contains("Cable unplugged")
                .then_some(Kind::CableUnplugged)
        },
    },
    // https://github.com/torvalds/linux/blob/v6.12/drivers/iommu/intel/dmar.c
    Known {
        words: "DMAR: [DMA ",
        kind: |rest| rest.contains("fault").then_some(Kind::IommuFault),
    },
    // https://github.com/torvalds/linux/blob/v6.12/drivers/iommu/amd/iommu.c
    Known {
        words: "Event logged [IO_PAGE_FAULT",
        kind: |_| Some(Kind::IommuFault),
    },
    // https://github.com/torvalds/linux/blob/v6.12/drivers/net/ethernet/mellanox/mlx5/core/port.c
    Known {
        words: "Port module event[error]",
        kind: |_| Some(Kind::ModuleFault),
    },
    // https://github.com/torvalds/linux/blob/v6.12/drivers/pci/pci.c
    Known {
        words: "available PCIe bandwidth, limited by",
        kind: |_| Some(Kind::PcieLimited),
    },
    // https://docs.kernel.org/PCI/pcieaer-howto.html
    Known {
        words: "PCIe Bus Error: severity=Uncorrected",
        kind: |_| Some(Kind::PcieUncorrected),
    },
    Known {
        words: "AER: ",
        kind: |rest| {
            let rest = rest.strip_prefix("Multiple ").unwrap_or(rest);
            rest.starts_with("Uncorrected")
                .then_some(Kind::PcieUncorrected)
        },
    },
];

/// Commands to the firmware without which no transfer comes about.
const NEEDED: &[&str] = &[
    "CREATE_MKEY",
    "CREATE_QP",
    "CREATE_CQ",
    "CREATE_DCT",
    "CREATE_XRC_SRQ",
    "CREATE_RMP",
    "RST2INIT_QP",
    "INIT2RTR_QP",
    "RTR2RTS_QP",
];

/// Lines of unknown errors kept at most.
const UNKNOWN: usize = 8;

/// A driver of GPUs, adapters or their bus speaks of an error.
fn speaks_of_an_error(line: &str) -> bool {
    const OF: &[&str] = &[
        "mlx5",
        "mlx4",
        "nvrm",
        "nvidia",
        "infiniband",
        "ib_",
        "rdma",
        "efa ",
        "rxe",
        "pcieport",
        "dmar",
        "amd-vi",
    ];
    let line = line.to_ascii_lowercase();
    OF.iter().any(|driver| line.contains(driver))
        && ["error", "fail", "fatal", "fault", "timeout", "mismatch"]
            .iter()
            .any(|word| line.contains(word))
}

/// Drivers whose lines are a kernel log even without a time before them, as `dmesg -t` prints them.
const DRIVERS: &[&str] = &[
    "mlx5_",
    "mlx4_",
    "NVRM:",
    "nvidia",
    "pcieport ",
    "pci ",
    "infiniband ",
    "ib_",
    "rdma_",
    "efa ",
    "rxe",
    "systemd[1]",
];

/// Some line is one of the kernel's: with its time (`[  12.345678]`, `[Mon Nov 30 14:00:01 2026]`), as a record of /dev/kmsg
/// (`6,1234,98765,-;`), in a syslog (`kernel:`), or by a driver's own words.
pub fn is_kernel_log(text: &str) -> bool {
    let timed = |line: &str| {
        let line = line.trim_start();
        // `dmesg -x` puts the facility before it, and `-r` the priority.
        let line = line.split_once(": [").map_or(line, |(before, rest)| {
            if before.contains(['[', ']']) {
                line
            } else {
                rest
            }
        });
        let line = line.trim_start_matches(|c: char| c == '<' || c == '>' || c.is_ascii_digit());
        let inside = line.strip_prefix('[').unwrap_or(line).split_once(']');
        inside.is_some_and(|(time, rest)| {
            let seconds = time.trim();
            let is_time = seconds.contains(['.', ':'])
                && seconds.ends_with(|c: char| c.is_ascii_digit())
                && !seconds.contains('/');
            // Logs of UCX and NCCL have a bracket with their process next.
            is_time && !rest.trim_start().starts_with('[') && !rest.contains("NCCL ")
        })
    };
    let record = |line: &str| {
        let head = line.split_once(';').map_or("", |(head, _)| head);
        let mut fields = head.split(',');
        (0..3).all(|_| {
            let field = fields.next().unwrap_or_default();
            !field.is_empty() && field.bytes().all(|b| b.is_ascii_digit())
        })
    };
    transcript::lines(text).any(|line| {
        timed(&line)
            || record(&line)
            || line.contains(" kernel: ")
            || KNOWN.iter().any(|known| line.contains(known.words))
            || DRIVERS.iter().any(|driver| line.starts_with(driver)) && line.contains(": ")
    })
}

/// Reads a log. Total: any text is a log, perhaps without a known line.
pub fn parse(text: &str) -> KernelLog {
    let mut log = KernelLog::default();
    for line in transcript::lines(text) {
        if line.trim().is_empty() {
            continue;
        }
        log.lines += 1;
        let device = pci_address(&line).map(str::to_owned);
        log.faults.retain(|fault| {
            let mended = fault.kind.mended_by();
            fault.device != device || mended.is_none_or(|words| !line.contains(words))
        });
        let Some(kind) = KNOWN.iter().find_map(|known| {
            let (_, rest) = line.split_once(known.words)?;
            // Other cards of a node carry no KV.
            let is_ours = |kind: &Kind| *kind != Kind::LinkDown || line.contains("mlx5_core ");
            (known.kind)(rest).filter(is_ours)
        }) else {
            if log.unknown.len() < UNKNOWN && speaks_of_an_error(&line) {
                log.unknown.push(message(&line));
            }
            continue;
        };
        let same = |fault: &&mut Fault| fault.kind == kind && fault.device == device;
        if let Some(fault) = log.faults.iter_mut().find(same) {
            fault.times += 1;
        } else if log.faults.len() < FAULTS {
            log.faults.push(Fault {
                kind,
                device,
                first: message(&line),
                times: 1,
            });
        }
    }
    log
}

/// The number in `PCI:0000:19:00): 79, pid=..` or `PCI:0000:c4:00.0): 20034, Fatal`.
fn code(rest: &str) -> Option<u32> {
    let (_, tail) = rest.split_once("):")?;
    transcript::small(tail)
}

/// `0000:19:00.0`, or `0000:19:00` as the NVIDIA drivers print it.
fn pci_address(line: &str) -> Option<&str> {
    line.split(|c: char| !(c.is_ascii_hexdigit() || matches!(c, ':' | '.')))
        .map(|word| word.trim_matches([':', '.']))
        .find(|word| {
            let parts: Vec<&str> = word.split(':').take(4).collect();
            let [domain, bus, slot] = parts[..] else {
                return false;
            };
            matches!(domain.len(), 4 | 8)
                && bus.len() == 2
                && slot.len() >= 2
                && slot.len() <= 4
                && !domain.contains('.')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Written by hand in the formats of the drivers; the pin line is Linux 6.1 of the soft-RoCE machine.
    const LOG: &str = "[   12.1] nvidia-nvswitch0: SXid (PCI:0000:c4:00.0): 20034, Fatal, Link 30 LTSSM Fault Up
6,3973,227996636,-;nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing
6,3974,227996637,-;nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing
Nov 30 10:00:00 node kernel: NVRM: Xid (PCI:0000:19:00): 79, pid=1, GPU has fallen off the bus.
[  278.1] rdma_rxe: rxe_mr_init_user: Unable to pin memory region err = -12
[    3.2] mlx5_core 0000:5e:00.0: 63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link
[    3.3] mlx5_core 0000:5e:00.0: firmware version: 28.39.1002
";

    #[test]
    fn drivers_are_understood_in_any_log() {
        let log = parse(LOG);
        let faults: Vec<_> = log
            .faults
            .iter()
            .map(|f| (f.kind, f.device.as_deref(), f.times))
            .collect();
        assert_eq!(
            faults,
            [
                (Kind::SXid(20034), Some("0000:c4:00.0"), 1),
                (Kind::PeermemInvalidContext, None, 2),
                (Kind::Xid(79), Some("0000:19:00"), 1),
                (Kind::PinFailed, None, 1),
                (Kind::PcieLimited, Some("0000:5e:00.0"), 1),
            ]
        );
        assert_eq!(log.lines, 7);
    }

    #[test]
    fn every_known_fault_is_one() {
        for (line, kind) in [
            (
                "mlx5_core 0000:1a:00.0: mlx5_cmd_out_err:808:(pid 7): CREATE_MKEY(0x200) op_mod(0x0) failed, status bad resource state(0x9)",
                Kind::AdapterRefused,
            ),
            (
                "mlx5_core 0000:1a:00.0: poll_health:820:(pid 0): Fatal error 1 detected",
                Kind::AdapterFault,
            ),
            (
                "mlx5_core 0000:1a:00.0: print_health_info:431:(pid 0): Health issue observed, firmware internal error, severity(3) ERROR:",
                Kind::AdapterFault,
            ),
            (
                "mlx5_core 0000:1a:00.0: mlx5_health_try_recover:340:(pid 1): handling bad device here",
                Kind::AdapterFault,
            ),
            (
                "mlx5_core 0000:1a:00.0: Port module event: module 0, Cable unplugged",
                Kind::CableUnplugged,
            ),
            ("mlx5_core 0000:1a:00.0 eth0: Link down", Kind::LinkDown),
            (
                "NVRM: GPU 0000:1b:00.0: GPU has fallen off the bus.",
                Kind::GpuLost,
            ),
            (
                "NVRM: API mismatch: the client has the version 550.1, but",
                Kind::DriverMismatch,
            ),
            (
                "DMAR: [DMA Read] Request device [1a:00.0] fault addr 0xff [fault reason 0x06]",
                Kind::IommuFault,
            ),
            (
                "pcieport 0000:00:01.0: AER: Uncorrected (Fatal) error received: 0000:1a:00.0",
                Kind::PcieUncorrected,
            ),
            (
                "infiniband mlx5_0: create_qp:2910:(pid 9): create qp failed",
                Kind::QueuePairRefused,
            ),
        ] {
            let log = parse(line);
            let kinds: Vec<Kind> = log.faults.iter().map(|f| f.kind).collect();
            assert_eq!(kinds, [kind], "{line}");
        }
    }

    #[test]
    fn what_was_mended_or_is_usual_is_no_fault() {
        let log = parse(
            "mlx5_core 0000:1a:00.0 eth0: Link down\n\
             mlx5_core 0000:1b:00.0: Port module event: module 0, Cable unplugged\n\
             mlx5_core 0000:1b:00.0: Port module event: module 0, Cable plugged\n\
             mlx5_core 0000:1a:00.0 eth0: Link up\n\
             e1000e 0000:00:1f.6 eno1: Link down\n\
             mlx5_core 0000:1b:00.0: print_health_info:431:(pid 0): Health issue observed, high temperature, severity(6) INFO:\n\
             pcieport 0000:00:01.0: AER: Corrected error received: 0000:1a:00.0\n\
             mlx5_core 0000:1a:00.0: mlx5_cmd_out_err:808:(pid 7): ACCESS_REG(0x805) op_mod(0x1) failed, status bad parameter(0x3)\n",
        );
        assert_eq!(log.faults, []);
        assert_eq!(log.unknown.len(), 2, "{:?}", log.unknown);
        assert!(
            parse("mlx5_core 0000:1a:00.0: new trouble: it failed")
                .unknown
                .len()
                == 1
        );
    }

    #[test]
    fn silence_is_no_fault_and_no_proof() {
        assert_eq!(parse("\n\n"), KernelLog::default());
        assert_eq!(parse("hello\n").faults, []);
    }
}
