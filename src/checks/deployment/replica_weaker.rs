use crate::ask;
use crate::check;
use crate::checks::compare::{both, replicas};
use crate::checks::declare::{Draft, Outcome};
use crate::checks::words::counted;
use crate::checks::{Container, DeploymentScope};
use crate::observed::Skip;
use crate::report::SkipReason;

check! {
    /// A worker has fewer or slower RDMA ports than its peers of the same component.
    ///
    /// ## Why it matters
    /// The router takes all workers for equal. KV to and from the weaker one takes longer, and the tail of the latencies is
    /// its.
    ///
    /// ## Fix
    /// Look at the ports and the granted devices of this worker's node; drain the node if it cannot be mended at once.
    ///
    /// ## False alarms
    /// Pools of nodes with different adapters on purpose.
    "DEP017" "replica-weaker" on Deployment {
        subsystem: Deployment, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

/// Findings about the port or device itself, which say it better.
const BETTER: &[&str] = &[
    "device-not-granted",
    "ib-devices",
    "ib-link",
    "port-without-link",
    "port-not-ready",
    "subnet-manager-missing",
    "rate-degraded",
    "roce-address-missing",
];

/// Sum of the rates in Mb/s, and the number of ports.
type Strength = (u64, usize);

fn run(scope: &DeploymentScope<'_>) -> Outcome {
    scope.require_kv()?;
    let words = |(rate, ports): &Strength| {
        format!(
            "{}, {} Gb/s together",
            counted(*ports, "usable port"),
            rate / 1000
        )
    };
    replicas(
        scope,
        strength,
        // The strongest: classes are ordered by strength.
        |known| known.len().saturating_sub(1),
        |(best, most), (own, weak)| {
            weak.iter()
                .map(|container| {
                    let detail = format!(
                        "the worker has {}, and others of its component have {}",
                        words(own),
                        words(best)
                    );
                    let one = vec![*container];
                    let draft = Draft::warn(detail)
                        .about(container.place)
                        .headline("a worker has fewer or slower RDMA ports than its peers")
                        .with([both(
                            &ask::RDMA_PORTS,
                            (&one, &words(own)),
                            (most, &words(best)),
                        )])
                        .fix(
                            "look at the ports and granted devices of its node, or drain the node",
                        );
                    BETTER
                        .iter()
                        .fold(draft, |draft, name| draft.follows(*name))
                })
                .collect()
        },
        Draft::ok("the workers of each component have RDMA ports of the same number and rate")
            .with(scope.containers.first().and_then(|c| {
                let strength = strength(c).ok()?;
                let line = format!("{}: {}", c.place.pod, words(&strength));
                Some(crate::snapshot::evidence(&ask::RDMA_PORTS, [line.as_str()]))
            })),
    )
}

fn strength(container: &Container<'_>) -> Result<Strength, Skip> {
    let ports = container.facts.rdma.usable_ports()?;
    let mut rate = 0;
    for (device, port) in &ports {
        // The rate of EFA is not what sysfs says.
        let gbps = match port.rate_gbps() {
            _ if device.is_efa() => 0.0,
            Some(gbps) => gbps,
            None => {
                let detail = format!(
                    "the rate of {}:{} in {} was not seen",
                    device.hca.name, port.number, container.place.pod
                );
                return Err(Skip::new(SkipReason::NotFound, detail));
            }
        };
        rate += (gbps * 1000.0) as u64;
    }
    Ok((rate, ports.len()))
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::{Answers, Fleet, hcas};
    use crate::report::Status::{Ok, Skipped, Warn};

    #[test]
    fn table_of_statuses() {
        let full = hcas(&["4: ACTIVE", "4: ACTIVE"]);
        let one = hcas(&["4: ACTIVE"]);
        let mut slow = full.clone();
        for (_, text) in &mut slow {
            *text = text.replacen("400 Gb/sec (4X NDR)", "200 Gb/sec (4X HDR)", 1);
        }
        let none: Answers = vec![];
        for (what, other, wanted) in [
            ("the same", &full, vec![Ok]),
            ("fewer", &one, vec![Warn]),
            ("slower", &slow, vec![Warn]),
            ("not read", &none, vec![Skipped]),
        ] {
            let pods = [
                ("prefill", one.as_slice()),
                ("decode", full.as_slice()),
                ("decode", full.as_slice()),
                ("decode", other.as_slice()),
            ];
            let found = Fleet::of(&pods).findings("replica-weaker");
            let statuses: Vec<_> = found.iter().map(|f| f.status).collect();
            assert_eq!(statuses, wanted, "{what}");
            if statuses == [Warn] {
                assert_eq!(found[0].target.name, "decode-3");
            }
        }
    }

    #[test]
    fn a_port_that_is_down_says_it_itself() {
        let full = hcas(&["4: ACTIVE", "4: ACTIVE"]);
        let down = hcas(&["4: ACTIVE", "2: INIT"]);
        let pods = [
            ("prefill", full.as_slice()),
            ("decode", full.as_slice()),
            ("decode", down.as_slice()),
        ];
        let fleet = Fleet::of(&pods);
        assert_eq!(fleet.statuses("replica-weaker"), [Warn]);
        assert!(fleet.fix_first().iter().all(|fix| fix.id != "DEP017"));
    }
}
