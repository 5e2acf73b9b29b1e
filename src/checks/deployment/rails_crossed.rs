use crate::ask;
use crate::check;
use crate::checks::compare::{both, carriers, classes, names, settle};
use crate::checks::declare::{Draft, Outcome};
use crate::checks::deployment::fabrics_differ::{prefix, subnets};
use crate::checks::words::counted;
use crate::checks::{Container, DeploymentScope};
use crate::facts::hca::LinkLayer;
use crate::observed::Skip;
use std::collections::{BTreeMap, BTreeSet};

check! {
    /// A device of the same name is on one rail here and on another there.
    ///
    /// Where a node has several subnets, each is a rail. Devices are compared by name.
    ///
    /// ## Why it matters
    /// Lists of devices, and NCCL's own pairing, go by name and position: `mlx5_0` of one node is taken to meet `mlx5_0` of the
    /// other. Where the cables or the names are swapped, they meet across rails, slowly or not at all.
    ///
    /// ## Fix
    /// Put the cable into the right port, or name the devices alike on all nodes (udev). Until then give each node its own
    /// list, or leave UCX_NET_DEVICES unset.
    ///
    /// ## Sources
    /// NVIDIA/nccl#2013, #1664 (pairs across rails).
    "DEP018" "rails-crossed" on Deployment {
        subsystem: Deployment, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

/// Subnets by device.
type Rails = BTreeMap<String, BTreeSet<String>>;

fn run(scope: &DeploymentScope<'_>) -> Outcome {
    scope.require_kv()?;
    let workers = scope.containers.iter().copied().filter(|c| c.moves_kv());
    let classes = classes(workers, rails);
    let mut known = classes.known.iter();
    let mut drafts = Vec::new();
    let mut fine = None;
    if let Some((first, all)) = known.next() {
        for (other, some) in known {
            drafts.extend(crossed((first, all), (other, some)));
        }
        let on_many: BTreeSet<&str> = all.iter().filter_map(|c| c.place.node.as_deref()).collect();
        // One node says nothing about others.
        if classes.known.len() > 1 || on_many.len() > 1 {
            fine = Some(
                Draft::ok(format!(
                    "devices of the same name are on the same rail everywhere ({})",
                    counted(nets(first).len(), "rail")
                ))
                .with([both(
                    &ask::RDMA_GIDS,
                    (all, &words(first)),
                    (all, &words(first)),
                )]),
            );
        }
    }
    settle(drafts, classes.unseen, fine)
}

fn crossed<'a>(
    (a, left): (&Rails, &Vec<&'a Container<'a>>),
    (b, right): (&Rails, &Vec<&'a Container<'a>>),
) -> Option<Draft> {
    // Only where the rails of one are those of the other is a difference a crossing.
    let (device, here, there) = a.iter().find_map(|(device, here)| {
        let there = b.get(device)?;
        let swapped =
            here.is_disjoint(there) && !here.is_disjoint(&nets(b)) && !there.is_disjoint(&nets(a));
        swapped.then_some((device, here, there))
    })?;
    let list = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(", ");
    let detail = format!(
        "{device} is in {} on {} and in {} on {}",
        list(here),
        names(left),
        list(there),
        names(right)
    );
    Some(
        Draft::warn(detail)
            .headline("rails are crossed between nodes")
            .with([both(&ask::RDMA_GIDS, (left, &words(a)), (right, &words(b)))])
            .fix("put the cables into the same ports, or name the devices alike, on all nodes"),
    )
}

fn nets(rails: &Rails) -> BTreeSet<String> {
    rails.values().flatten().cloned().collect()
}

fn words(rails: &Rails) -> String {
    let all: Vec<String> = rails
        .iter()
        .map(|(device, nets)| {
            format!(
                "{device} {}",
                nets.iter().cloned().collect::<Vec<_>>().join(" ")
            )
        })
        .collect();
    all.join(", ")
}

fn rails(container: &Container<'_>) -> Result<Rails, Skip> {
    let mut rails = Rails::new();
    for (device, port) in carriers(container)? {
        let nets: BTreeSet<String> = match &port.link_layer {
            Some(LinkLayer::InfiniBand) => {
                [format!("prefix {:016x}", prefix(container, device, port)?)].into()
            }
            Some(LinkLayer::Ethernet) if !device.is_iwarp => {
                let all = subnets(container, device, port, None)?;
                all.into_iter().map(|(_, net)| net).collect()
            }
            _ => continue,
        };
        let name = format!("{}:{}", device.hca.name, port.number);
        rails.insert(name, nets);
    }
    // One subnet for all is no rail.
    match nets(&rails).len() > 1 {
        true => Ok(rails),
        false => Err(Skip::not_applicable()),
    }
}

#[cfg(test)]
mod tests {
    use crate::ask;
    use crate::checks::testing::{Answers, changed, deployed, roce};
    use crate::report::Status::{Ok, Skipped, Warn};

    /// Two adapters in two subnets.
    fn node(first: &str, second: &str) -> Answers {
        let mut answers = changed(&roce(2), &[(&ask::ENVIRONMENT, "# process 7 x\n")]);
        for (ask, text) in &mut answers {
            if ask.id == ask::IP_ADDR.id {
                *text = text
                    .replace("10.0.0.1/24", &format!("{first}/24"))
                    .replace("10.0.0.2/24", &format!("{second}/24"));
            }
            if ask.id == ask::RDMA_GIDS.id {
                let hex = |ip: &str| {
                    let o: Vec<u8> = ip.split('.').map(|p| p.parse().unwrap()).collect();
                    format!("{:02x}{:02x}:{:02x}{:02x}", o[0], o[1], o[2], o[3])
                };
                *text = text.replace("0a00:0001", "#1").replace("0a00:0002", "#2");
                *text = text.replace("#1", &hex(first)).replace("#2", &hex(second));
            }
        }
        answers
    }

    #[test]
    fn table_of_statuses() {
        let straight = node("10.1.0.1", "10.2.0.1");
        for (what, other, wanted) in [
            ("straight", node("10.1.0.2", "10.2.0.2"), vec![Ok]),
            ("crossed", node("10.2.0.2", "10.1.0.2"), vec![Warn]),
            (
                "rails of another kind",
                node("10.8.0.2", "10.9.0.2"),
                vec![Ok],
            ),
            ("one subnet", node("10.1.0.2", "10.1.0.3"), vec![]),
            ("not read", changed(&roce(2), &[]), vec![Skipped]),
        ] {
            let pods = [
                ("prefill", straight.as_slice()),
                ("decode", other.as_slice()),
            ];
            assert_eq!(deployed("rails-crossed", &pods), wanted, "{what}");
        }
    }
}
