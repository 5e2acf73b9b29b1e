//! Lines of the kernel log that tell of a broken interconnect.
//!
//! Reads `dmesg`, `/dev/kmsg` records and syslog alike: the words of a driver are looked for anywhere in a line. A log
//! without such lines proves nothing, because the ring buffer forgets.

use super::transcript::{self, excerpt};

/// Faults kept at most, each with its count.
const FAULTS: usize = 256;

/// What the log tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelLog {
    /// Faults in order of first appearance.
    pub faults: Vec<Fault>,
    /// Lines read, of any kind.
    pub lines: u64,
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
];

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
        let Some(kind) = KNOWN.iter().find_map(|known| {
            let (_, rest) = line.split_once(known.words)?;
            (known.kind)(rest)
        }) else {
            continue;
        };
        let device = pci_address(&line).map(str::to_owned);
        let same = |fault: &&mut Fault| fault.kind == kind && fault.device == device;
        if let Some(fault) = log.faults.iter_mut().find(same) {
            fault.times += 1;
        } else if log.faults.len() < FAULTS {
            log.faults.push(Fault {
                kind,
                device,
                first: excerpt(&line),
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
    fn silence_is_no_fault_and_no_proof() {
        assert_eq!(parse("\n\n"), KernelLog::default());
        assert_eq!(parse("hello\n").faults, []);
    }
}
