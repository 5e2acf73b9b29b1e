use crate::ask;
use crate::check;
use crate::checks::compare::{both, carriers, ends, names};
use crate::checks::declare::{Draft, Outcome};
use crate::checks::pasting;
use crate::checks::roce::{Reach, reach};
use crate::checks::{Container, DeploymentScope};
use crate::facts::container::network::subnet;
use crate::facts::container::rdma::Device;
use crate::facts::hca::{LinkLayer, Port};
use crate::observed::Skip;
use crate::report::SkipReason;
use std::collections::BTreeSet;
use std::net::IpAddr;

check! {
    /// The two ends of the KV path are on fabrics that may not reach each other.
    ///
    /// InfiniBand ports are compared by subnet prefix and subnet manager, RoCE ports by the families and subnets of the
    /// addresses that they can be reached at.
    ///
    /// ## Why it matters
    /// Two InfiniBand subnets are two fabrics. A RoCE address of one family does not reach one of the other. RoCE ports in
    /// different IP subnets reach each other only by a router, and UCX takes a device whose route it does not find for
    /// unreachable.
    ///
    /// ## Fix
    /// Place both roles on one fabric. Where RoCE subnets are routed to each other, set `UCX_IB_ROCE_REACHABILITY_MODE=all` in
    /// both roles (UCX 1.19 and later).
    ///
    /// ## False alarms
    /// Two fabrics that both keep the default prefix `fe80::` and number their managers alike look like one: only a transfer
    /// tells.
    ///
    /// ## Sources
    /// openucx/ucx#10841, #10996, #11426; UCX v1.20.0 `ib_iface.c` (IS_GLOBAL).
    "DEP007" "fabrics-differ" on Deployment {
        subsystem: Deployment, kv_path: Supporting, worst: Fail, causes: &[], since: "0.1.0",
    }
}

/// Where one end can be reached.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Nets {
    /// Prefix and manager of InfiniBand ports.
    ib: BTreeSet<(u64, u32)>,
    /// Family and subnet of RoCE addresses.
    roce: BTreeSet<(bool, String)>,
    /// UCX forces the global header.
    global: bool,
    /// What UCX takes for reachable: `all`, `local_subnet`, or nothing special.
    mode: Option<&'static str>,
}

fn run(scope: &DeploymentScope<'_>) -> Outcome {
    ends(
        scope,
        nets,
        |(a, left), (b, right)| {
            let placed =
                |lines: &str| scope.for_containers(left.iter().chain(right.iter()).copied(), lines);
            let ways = [infiniband(a, b), ethernet(a, b, &placed)];
            let ways: Vec<Option<Draft>> = ways.into_iter().flatten().collect();
            if ways.iter().any(Option::is_none) {
                return None;
            }
            // The best way there is decides.
            let way = ways.into_iter().flatten().min_by_key(|draft| draft.status);
            let mut draft = way.unwrap_or_else(|| {
                Draft::fail("one end is on InfiniBand and the other on Ethernet")
                    .follows("link-layer-differs")
                    .fix("place both roles on nodes of one fabric")
            });
            draft.detail = format!(
                "between {} on one side and {} on the other: {}",
                names(left),
                names(right),
                draft.detail
            );
            Some(draft.with([both(
                &ask::RDMA_GIDS,
                (left, &a.words()),
                (right, &b.words()),
            )]))
        },
        |(a, left), (b, right)| {
            let detail = match a.ib.is_empty() {
                false => {
                    "both ends are in one InfiniBand subnet, as far as prefix and manager tell"
                }
                true => {
                    "both ends have RoCE addresses that reach each other, as far as their subnets tell"
                }
            };
            Draft::ok(detail).with([both(
                &ask::RDMA_GIDS,
                (left, &a.words()),
                (right, &b.words()),
            )])
        },
    )
}

impl Nets {
    fn words(&self) -> String {
        let ib = self
            .ib
            .iter()
            .map(|(prefix, manager)| format!("prefix {prefix:016x} manager {manager}"));
        let roce = self.roce.iter().map(|(_, net)| net.clone());
        ib.chain(roce).collect::<Vec<_>>().join(", ")
    }

    fn nets(&self) -> String {
        let nets: Vec<&str> = self.roce.iter().map(|(_, net)| net.as_str()).collect();
        nets.join(", ")
    }
}

/// None: one end has no such port. `Some(None)`: they reach each other.
fn infiniband(a: &Nets, b: &Nets) -> Option<Option<Draft>> {
    if a.ib.is_empty() || b.ib.is_empty() {
        return None;
    }
    let prefixes = |nets: &Nets| nets.ib.iter().map(|(p, _)| *p).collect::<BTreeSet<u64>>();
    let shown = |nets: &Nets| {
        let all: Vec<String> = prefixes(nets).iter().map(|p| format!("{p:016x}")).collect();
        all.join(", ")
    };
    if prefixes(a).is_disjoint(&prefixes(b)) {
        let detail = format!(
            "their InfiniBand ports have the subnet prefixes {} and {}, which are different fabrics",
            shown(a),
            shown(b)
        );
        let global = a.global && b.global;
        let draft = if global {
            Draft::warn(format!(
                "{detail}; UCX_IB_IS_GLOBAL counts on a router between them"
            ))
        } else {
            Draft::fail(detail)
        };
        return Some(Some(
            draft
                .headline("the ends are on different InfiniBand fabrics")
                .fix("place both roles on nodes of one InfiniBand fabric"),
        ));
    }
    // A manager of 0 is none, which has a finding of its own.
    if a.ib.is_disjoint(&b.ib) && a.ib.union(&b.ib).all(|(_, manager)| *manager != 0) {
        let detail = "their InfiniBand ports have one subnet prefix and different subnet managers, so they may be two fabrics";
        return Some(Some(
            Draft::warn(detail)
                .headline("the ends may be on different InfiniBand fabrics")
                .fix("make sure that both nodes are on one fabric: a transfer (--transfer) tells"),
        ));
    }
    Some(None)
}

/// `placed` heads lines to paste by where they belong in both ends.
fn ethernet(a: &Nets, b: &Nets, placed: &dyn Fn(&str) -> String) -> Option<Option<Draft>> {
    if a.roce.is_empty() || b.roce.is_empty() {
        return None;
    }
    if !a.roce.is_disjoint(&b.roce) {
        return Some(None);
    }
    let families = |nets: &Nets| {
        nets.roce
            .iter()
            .map(|(v6, _)| *v6)
            .collect::<BTreeSet<bool>>()
    };
    if families(a).is_disjoint(&families(b)) {
        let detail = format!(
            "their RoCE addresses are of different families ({}; {}), which do not reach each other",
            a.nets(),
            b.nets()
        );
        return Some(Some(
            Draft::fail(detail)
                .headline("the ends have RoCE addresses of different families")
                .fix("give the RoCE interfaces of both ends addresses of one family"),
        ));
    }
    let apart = format!(
        "their RoCE addresses are in different subnets ({}; {})",
        a.nets(),
        b.nets()
    );
    let local = a.mode == Some("local_subnet") || b.mode == Some("local_subnet");
    if local {
        return Some(Some(
            Draft::fail(format!(
                "{apart}, and UCX is told to reach its own subnet alone"
            ))
            .headline("UCX may reach its own RoCE subnet alone")
            .fix(
                "remove UCX_IB_ROCE_LOCAL_SUBNET, and set UCX_IB_ROCE_REACHABILITY_MODE=all in both roles",
            ),
        ));
    }
    if a.mode == Some("all") && b.mode == Some("all") {
        return Some(None);
    }
    Some(Some(
        Draft::warn(format!(
            "{apart}, and UCX_IB_ROCE_REACHABILITY_MODE is not all: UCX takes a device whose route it does not find for \
             unreachable (openucx/ucx#10841)"
        ))
        .headline("the ends are in different RoCE subnets")
        .fix(
            "make sure that the subnets are routed to each other, and set UCX_IB_ROCE_REACHABILITY_MODE=all in both roles \
             (UCX 1.19 and later)",
        )
        .paste(placed(&pasting::entry("UCX_IB_ROCE_REACHABILITY_MODE", "all"))),
    ))
}

fn nets(container: &Container<'_>) -> Result<Nets, Skip> {
    let value = |name: &str| container.facts.process.value(name);
    let on = |name: &str| -> Result<bool, Skip> {
        Ok(value(name)?
            .is_some_and(|v| ["y", "yes", "1", "on"].contains(&v.to_ascii_lowercase().as_str())))
    };
    let mode = value("UCX_IB_ROCE_REACHABILITY_MODE")?.map(str::to_ascii_lowercase);
    let local = on("UCX_IB_ROCE_LOCAL_SUBNET")?;
    let mut nets = Nets {
        ib: BTreeSet::new(),
        roce: BTreeSet::new(),
        global: on("UCX_IB_IS_GLOBAL")?
            || value("UCX_IB_ADDR_TYPE")?.is_some_and(|v| v.eq_ignore_ascii_case("ib_global")),
        mode: match mode.as_deref() {
            Some("all") => Some("all"),
            Some("local_subnet") => Some("local_subnet"),
            _ if local => Some("local_subnet"),
            _ => None,
        },
    };
    let index = value("UCX_IB_GID_INDEX")?.and_then(|v| v.parse::<u32>().ok());
    for (device, port) in carriers(container)? {
        match &port.link_layer {
            Some(LinkLayer::InfiniBand) => {
                nets.ib
                    .insert((prefix(container, device, port)?, port.sm_lid.unwrap_or(0)));
            }
            Some(LinkLayer::Ethernet) if !device.is_iwarp => {
                nets.roce.extend(subnets(container, device, port, index)?);
            }
            _ => {}
        }
    }
    match nets.ib.is_empty() && nets.roce.is_empty() {
        true => Err(Skip::not_applicable()),
        false => Ok(nets),
    }
}

/// The subnet prefix of an InfiniBand port: the upper half of its first GID.
pub(super) fn prefix(container: &Container<'_>, device: &Device, port: &Port) -> Result<u64, Skip> {
    let table = container
        .facts
        .rdma
        .gids_of(&device.hca.name, port.number)?;
    let address = table.first().and_then(|gid| gid.address);
    let address = address.ok_or_else(|| {
        let detail = format!(
            "the GID of {}:{} in {} was not seen",
            device.hca.name, port.number, container.place.pod
        );
        Skip::new(SkipReason::NotFound, detail)
    })?;
    Ok((u128::from(address) >> 64) as u64)
}

/// Families and subnets of the addresses at which a RoCE port can be reached.
pub(super) fn subnets(
    container: &Container<'_>,
    device: &Device,
    port: &Port,
    index: Option<u32>,
) -> Result<BTreeSet<(bool, String)>, Skip> {
    let facts = &container.facts;
    let mut found = BTreeSet::new();
    for gid in facts.rdma.gids_of(&device.hca.name, port.number)? {
        if index.is_some_and(|index| index != gid.index) {
            continue;
        }
        match reach(gid, facts) {
            Reach::Routable => {}
            Reach::Unknown(skip) => return Err(skip),
            _ => continue,
        }
        let address = match (gid.ipv4(), gid.address) {
            (Some(v4), _) => IpAddr::V4(v4),
            (None, Some(v6)) => IpAddr::V6(v6),
            (None, None) => continue,
        };
        let bits = facts.network.addresses.get()?.prefixes.get(&address);
        let net = bits
            .and_then(|bits| subnet(address, *bits))
            .ok_or_else(|| {
                let detail = format!(
                    "the subnets of the addresses in {} were not seen; `ip addr` shows them",
                    container.place.pod
                );
                Skip::new(SkipReason::NotCollected, detail)
            })?;
        found.insert((address.is_ipv6(), net));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use crate::ask;
    use crate::checks::testing::{Answers, changed, deployed, hcas, roce};
    use crate::report::Status::{self, Fail, Ok, Skipped, Warn};

    fn say(prefill: &Answers, decode: &Answers) -> Vec<Status> {
        let pods = [
            ("prefill", prefill.as_slice()),
            ("decode", decode.as_slice()),
        ];
        deployed("fabrics-differ", &pods)
    }

    fn env(answers: &Answers, lines: &str) -> Answers {
        let text = format!("# process 7 dynamo.vllm\n{lines}");
        changed(answers, &[(&ask::ENVIRONMENT, &text)])
    }

    fn infiniband(prefix: &str, manager: &str) -> Answers {
        let mut answers = env(&hcas(&["4: ACTIVE"]), "");
        for (_, text) in &mut answers {
            *text = text.replace("sm_lid: 0x1", &format!("sm_lid: {manager}"));
        }
        let port = "/sys/class/infiniband/mlx5_0/ports/1";
        let gids = format!(
            "{port}/gid_attrs/types/0: IB/RoCE v1\n{port}/gids/0: {prefix}:b83f:d203:0000:1a20\n"
        );
        answers.push((&ask::RDMA_GIDS, gids));
        answers
    }

    const FE80: &str = "fe80:0000:0000:0000";

    #[test]
    fn infiniband_by_prefix_and_manager() {
        let one = infiniband(FE80, "0x1");
        let other = infiniband("fec0:0000:0000:0001", "0x1");
        assert_eq!(say(&one, &one), [Ok]);
        assert_eq!(say(&one, &other), [Fail]);
        assert_eq!(say(&one, &infiniband(FE80, "0x9")), [Warn]);
        assert_eq!(say(&one, &infiniband(FE80, "0x0")), [Ok]);
        let routed = |a: &Answers| env(a, "UCX_IB_IS_GLOBAL=y\n");
        assert_eq!(say(&routed(&one), &routed(&other)), [Warn]);
        assert_eq!(say(&one, &env(&hcas(&["4: ACTIVE"]), "")), [Skipped]);
        assert_eq!(
            say(
                &one,
                &infiniband(FE80, "0x1")
                    .into_iter()
                    .filter(|(a, _)| a.id != ask::ENVIRONMENT.id)
                    .collect()
            ),
            [Skipped]
        );
    }

    #[test]
    fn roce_by_family_and_subnet() {
        let plain = env(&roce(1), "");
        let moved = |answers: &Answers, to: &str, gid: &str| {
            let mut answers = answers.clone();
            for (_, text) in &mut answers {
                *text = text.replace("10.0.0.1/24", to).replace("0a00:0001", gid);
            }
            answers
        };
        let other = moved(&plain, "10.9.0.1/24", "0a09:0001");
        assert_eq!(say(&plain, &plain), [Ok]);
        assert_eq!(say(&plain, &other), [Warn]);
        // One large subnet holds both.
        let wide = |a: &Answers, to: &str, gid: &str| moved(a, to, gid);
        assert_eq!(
            say(
                &wide(&plain, "10.0.0.1/8", "0a00:0001"),
                &wide(&plain, "10.9.0.1/8", "0a09:0001")
            ),
            [Ok]
        );
        let all = "UCX_IB_ROCE_REACHABILITY_MODE=all\n";
        assert_eq!(say(&env(&plain, all), &env(&other, all)), [Ok]);
        assert_eq!(say(&env(&plain, all), &other), [Warn]);
        let own = "UCX_IB_ROCE_LOCAL_SUBNET=y\n";
        assert_eq!(say(&env(&plain, own), &other), [Fail]);
        let mut v6 = plain.clone();
        for (_, text) in &mut v6 {
            *text = text.replace(
                "0000:0000:0000:0000:0000:ffff:0a00:0001",
                "fd00:0000:0000:0000:0000:0000:0000:0001",
            );
        }
        assert_eq!(say(&plain, &v6), [Fail]);
        assert_eq!(say(&plain, &infiniband(FE80, "0x1")), [Fail]);
        let no_addresses: Answers = plain
            .iter()
            .filter(|(a, _)| a.id != ask::IP_ADDR.id)
            .cloned()
            .collect();
        assert_eq!(say(&plain, &no_addresses), [Skipped]);
    }
}
