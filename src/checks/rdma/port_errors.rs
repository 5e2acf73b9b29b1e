use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::words::counted;
use crate::facts::container::Facts;
use crate::facts::sysfs::Counters;
use crate::observed::Skip;
use crate::report::SkipReason;
use std::collections::BTreeSet;

check! {
    /// A port counted errors or lost its link, some time since its driver was loaded.
    ///
    /// The published limits are about growth per time, and one reading has no time. So a counter that may never move is a
    /// warning, and the others are named without a verdict. Read twice to know. How often the network interface of a port lost its
    /// carrier is among these, too: who changes its MTU, its rings or its channels takes the carrier down as well.
    ///
    /// ## Why it matters
    /// A link that flaps or corrupts makes transfers time out or repeat, long before it goes down for good.
    ///
    /// ## Fix
    /// Read the counters again after an hour of traffic (`node` again); what grows decides. Then cable, transceiver, switch
    /// port. Packets that RoCE loses or repeats point at the fabric's flow control: `explain pfc`.
    ///
    /// ## False alarms
    /// A reboot of a switch or of the peer moves link_downed once.
    ///
    /// ## Sources
    /// NVSentinel (any increment of local_link_integrity_errors, excessive_buffer_overrun_errors, rnr_nak_retry_err and, on EFA,
    /// no_completion_cmds is fatal; more than 2 carrier_changes between two readings are a degradation); AzNHC (5 losses of the
    /// carrier in 24 h).
    "RDMA016" "port-errors" on Container {
        subsystem: Rdma, kv_path: Off, worst: Warn, causes: &[], since: "0.1.0",
    }
}

/// A limit on a counter's reading.
struct Limit {
    counter: &'static str,
    most: u64,
    source: &'static str,
}

const LIMITS: &[Limit] = &[
    Limit {
        counter: "local_link_integrity_errors",
        most: 0,
        source: "NVSentinel: any increment is fatal",
    },
    Limit {
        counter: "excessive_buffer_overrun_errors",
        most: 0,
        source: "NVSentinel: any increment is fatal",
    },
    Limit {
        counter: "rnr_nak_retry_err",
        most: 0,
        source: "NVSentinel: any increment is fatal",
    },
    Limit {
        counter: "no_completion_cmds",
        most: 0,
        source: "NVSentinel: any increment is fatal",
    },
    // The reading covers more than a day, so a few are left to reboots.
    Limit {
        counter: "link_downed",
        most: 5,
        source: "AzNHC: 5 losses of the carrier in 24 h",
    },
];

/// Counters that are worth a note and have no limit without a time.
const NOTED: &[&str] = &[
    "symbol_error",
    "link_error_recovery",
    "port_rcv_errors",
    "port_xmit_discards",
    "out_of_sequence",
    "packet_seq_err",
    "local_ack_timeout_err",
    "roce_slow_restart",
    "req_transport_retries_exceeded",
    "retry_exceeded_err",
    "rx_drops",
    "cmds_err",
    "unresponsive_remote_events",
    "link_downed",
];

fn run(container: &Container<'_>) -> Outcome {
    let rdma = &container.facts.rdma;
    let ports = rdma.own_ports()?;
    if ports.is_empty() {
        return Err(Skip::not_applicable());
    }
    let counters = rdma.counters.get()?;
    let (mut over, mut noted, mut read) = (Vec::new(), Vec::new(), 0);
    let mut unread = Vec::new();
    for (device, port) in ports {
        let Some(own) = counters.get(&(device.hca.name.clone(), port.number)) else {
            continue;
        };
        let name = format!("{}:{}", device.hca.name, port.number);
        let looked_at = || {
            let limited = LIMITS.iter().map(|limit| limit.counter);
            limited.chain(NOTED.iter().copied())
        };
        if looked_at().any(|counter| reading(own, counter).is_some()) {
            read += 1;
        }
        if let Some(counter) = looked_at().find(|counter| own.unreadable.contains(*counter)) {
            unread.push(format!("{counter} of {name}"));
        }
        for limit in LIMITS {
            let value = reading(own, limit.counter).unwrap_or_default();
            if value > limit.most {
                over.push((format!("{name} {} {value}", limit.counter), limit.source));
            }
        }
        for counter in NOTED {
            if let Some(value) = reading(own, counter).filter(|value| *value > 0) {
                noted.push(format!("{name} {counter} {value}"));
            }
        }
    }
    if read == 0 && unread.is_empty() {
        // Virtual functions and some drivers have no counters.
        return Err(Skip::not_applicable());
    }
    if let Some((first, source)) = over.first() {
        let detail = format!(
            "{first} since its driver was loaded ({source}); only growth tells whether it goes on"
        );
        let seen = counters.evidence(over.iter().map(|(line, _)| line.as_str()));
        let fix = "read the counters again after an hour of traffic; if they grew, replace cable or transceiver";
        return Ok(vec![
            Draft::warn(detail)
                .headline_of_detail()
                .with([seen])
                .fix(fix),
        ]);
    }
    if let Some(first) = unread.first() {
        let more = match unread.len() {
            1 => String::new(),
            all => format!(" (and of {} more)", counted(all - 1, "port")),
        };
        let detail = format!("the kernel would not read {first}{more}, so errors may be uncounted");
        return Err(Skip::new(SkipReason::Unparsable, detail));
    }
    let carriers = carriers(container);
    let detail = match noted.first().or(carriers.first()) {
        None => zero(read),
        Some(first) => format!("{first}: says nothing without a time; only growth would"),
    };
    let lines = if noted.is_empty() {
        vec![zero(read)]
    } else {
        noted
    };
    let seen = counters.evidence(lines.iter().map(String::as_str));
    let interfaces = container.facts.network.interfaces.known();
    let lost = interfaces.filter(|_| !carriers.is_empty());
    let lost = lost.map(|interfaces| interfaces.evidence(carriers.iter().map(String::as_str)));
    Ok(vec![Draft::ok(detail).with([seen]).with(lost)])
}

fn zero(ports: usize) -> String {
    format!("the error counters of {} are zero", counted(ports, "port"))
}

/// The network interfaces of its own RDMA devices that lost their carrier: `mlx5_0 eth0 carrier_down_count 3`.
fn carriers(container: &Container<'_>) -> Vec<String> {
    let Facts { rdma, network, .. } = &container.facts;
    let (Ok(ports), Some(of_device), Some(interfaces)) = (
        rdma.own_ports(),
        rdma.netdevs.known(),
        network.interfaces.known(),
    ) else {
        return Vec::new();
    };
    let devices: BTreeSet<&str> = ports.iter().map(|(d, _)| d.hca.name.as_str()).collect();
    let mut lost = Vec::new();
    for device in devices {
        for name in of_device.get(device).into_iter().flatten() {
            let count = interfaces.get(name).and_then(|i| i.carrier_down_count);
            if let Some(count) = count.filter(|count| *count > 0) {
                lost.push(format!("{device} {name} carrier_down_count {count}"));
            }
        }
    }
    lost
}

fn reading(counters: &Counters, name: &str) -> Option<u64> {
    counters
        .port
        .get(name)
        .or_else(|| counters.hardware.get(name))
        .copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::{NOTHING, changed, container, hca, outcome, verdict};
    use crate::report::Status;

    #[test]
    fn a_counter_that_was_not_read_is_not_zero() {
        let with = |lines: &[&str]| {
            let below = "/sys/class/infiniband/mlx5_0/";
            let lines: Vec<String> = lines.iter().map(|l| format!("{below}{l}\n")).collect();
            let answers = hca("mlx5_0", "4: ACTIVE", "open");
            let counters = [(&ask::RDMA_COUNTERS, lines.concat())];
            let counters = counters.each_ref().map(|(a, text)| (*a, text.as_str()));
            verdict(run, "decode", &changed(&answers, &counters))
        };
        let zero = "ports/1/counters/symbol_error: 0";
        assert_eq!(with(&[zero]), Ok(Status::Ok));
        for value in [
            "N/A (no PMA)",
            "-5",
            "99999999999999999999999999",
            "abc",
            "",
        ] {
            let line = format!("ports/1/counters/link_downed: {value}");
            let skip = with(&[zero, &line]).unwrap_err();
            assert!(
                skip.detail.contains("link_downed of mlx5_0:1"),
                "{}",
                skip.detail
            );
            assert!(with(&[&line]).is_err());
        }
        // What is read and too high counts all the same, and other counters are no errors.
        let bad = "ports/1/counters/local_link_integrity_errors: 3";
        let unread = "ports/1/counters/link_downed: N/A (no PMA)";
        assert_eq!(with(&[bad, unread]), Ok(Status::Warn));
        let data = "ports/1/counters/port_xmit_data: 7";
        assert_eq!(with(&[data]), Err(Skip::not_applicable()));
        assert_eq!(
            with(&[data, "hw_counters/no_completion_cmds: 2"]),
            Ok(Status::Warn)
        );
    }

    #[test]
    fn a_carrier_that_was_lost_is_named_and_no_fault() {
        let with = |lines: &str, counter: &str| {
            let counters = format!("/sys/class/infiniband/mlx5_0/ports/1/counters/{counter}");
            let answers = changed(
                &hca("mlx5_0", "4: ACTIVE", "open"),
                &[
                    (&ask::RDMA_COUNTERS, counters.as_str()),
                    (
                        &ask::RDMA_NETDEVS,
                        "/sys/class/infiniband/mlx5_0/device/net/eth0: ",
                    ),
                    (&ask::NET_DEVICES, lines),
                ],
            );
            let snapshot = container("decode", &answers);
            let drafts = outcome(run, &snapshot).unwrap();
            let [draft] = drafts.as_slice() else {
                panic!("{drafts:?}");
            };
            let seen: Vec<&str> = draft.evidence.iter().map(|e| e.excerpt.as_str()).collect();
            (draft.status, draft.detail.clone(), seen.join("; "))
        };
        let zero = "symbol_error: 0";
        let count = "/sys/class/net/eth0/carrier_down_count:";
        let (status, detail, seen) = with(&format!("{count} 60"), zero);
        let said = "mlx5_0 eth0 carrier_down_count 60";
        assert_eq!(status, Status::Ok);
        assert!(detail.starts_with(said), "{detail}");
        assert!(
            seen.contains(said) && seen.contains("are zero") && !seen.contains("says nothing"),
            "{seen}"
        );
        // Errors come first, and nothing is said of one that never went or of another's interface.
        let (_, detail, seen) = with(&format!("{count} 60"), "symbol_error: 9");
        assert!(detail.starts_with("mlx5_0:1 symbol_error 9"), "{detail}");
        assert!(seen.contains(said), "{seen}");
        for lines in [
            format!("{count} 0"),
            "/sys/class/net/eth0/operstate: up".to_owned(),
            "/sys/class/net/eth1/carrier_down_count: 60".to_owned(),
        ] {
            let (status, detail, seen) = with(&lines, zero);
            assert_eq!(status, Status::Ok);
            assert_eq!(detail, "the error counters of 1 port are zero");
            assert!(!seen.contains("carrier"), "{seen}");
        }
    }

    #[test]
    fn one_reading_is_no_rate() {
        let with = |counter: &str, value: u64| {
            let text = format!("/sys/class/infiniband/mlx5_0/ports/1/counters/{counter}: {value}");
            let answers = hca("mlx5_0", "4: ACTIVE", "open");
            verdict(
                run,
                "decode",
                &changed(&answers, &[(&ask::RDMA_COUNTERS, text.as_str())]),
            )
        };
        assert_eq!(with("symbol_error", 0), Ok(Status::Ok));
        assert_eq!(with("symbol_error", 4000), Ok(Status::Ok));
        assert_eq!(with("link_downed", 2), Ok(Status::Ok));
        assert_eq!(with("link_downed", 6), Ok(Status::Warn));
        assert_eq!(with("local_link_integrity_errors", 1), Ok(Status::Warn));
        assert_eq!(with("rnr_nak_retry_err", 1), Ok(Status::Warn));
        assert!(verdict(run, "decode", NOTHING).is_err());
        let unread = hca("mlx5_0", "4: ACTIVE", "open");
        assert!(verdict(run, "decode", &unread).is_err());
    }
}
