use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::live;
use crate::checks::pasting;
use crate::checks::roce::{self, Reach};
use crate::facts::container::process::InForce;
use crate::facts::container::rdma::Device;
use crate::facts::hca::{LinkLayer, Port};
use crate::judge::Remedy;
use crate::judge::selection::Selection;
use crate::observed::Skip;
use crate::report::{KvPath, SkipReason, Status};
use crate::snapshot::evidence;

check! {
    /// A variable forces a GID index that is empty here, or cannot be routed.
    ///
    /// ## Why it matters
    /// The index holds for every port. Tables differ between nodes and between network namespaces (a container may see
    /// indexes 4 to 7 only), so a number that works elsewhere ends in time-outs here, or UCX rejects the port.
    ///
    /// ## Fix
    /// Remove the variable. UCX, and NCCL from 2.21 on, find the RoCE v2 entry with an IPv4 address of each port alone.
    ///
    /// ## False alarms
    /// NCCL ignores the index on InfiniBand, and it plays no part on EFA. An index of UCX beside another mover of KV, or of
    /// Mooncake beside NIXL, forces nothing.
    ///
    /// ## Sources
    /// NVIDIA/nccl#426, #769, #1573; kvcache-ai/Mooncake#946; sgl-project/sglang#30737; openucx/ucx#2434; UCX v1.20.0
    /// `ib_device.c` (`invalid gid[..]`).
    "RDMA010" "gid-index-unusable" on Container {
        subsystem: Rdma, kv_path: Required, worst: Fail,
        causes: &["env:UCX_IB_GID_INDEX", "env:NCCL_IB_GID_INDEX", "env:MC_GID_INDEX"], since: "0.1.0",
    }
}

/// Variables that force an index, whether they act on what carries KV, and the finding that says the same of the value.
const VARIABLES: &[(&str, bool, &[&str])] = &[
    ("UCX_IB_GID_INDEX", true, &["env:UCX_IB_GID_INDEX"]),
    ("MC_GID_INDEX", true, &["env:MC_GID_INDEX"]),
    ("NCCL_IB_GID_INDEX", false, &["env:NCCL_IB_GID_INDEX"]),
];

/// What a forced index is on the ports of pasted outputs, for the finding of the variable itself; None where no index is
/// forced by it.
pub(crate) fn forced(
    container: &Container<'_>,
    setting: &InForce<'_>,
) -> Option<Result<Draft, Skip>> {
    let name = setting.variable.name;
    let (variable, carries_kv, _) = VARIABLES.iter().find(|(variable, ..)| *variable == name)?;
    let index = setting.value.trim().parse::<u32>().ok()?;
    if !live::may_move_kv(container, name) {
        return None;
    }
    judge(container, variable, index, *carries_kv).transpose()
}

fn run(container: &Container<'_>) -> Outcome {
    let facts = &container.facts;
    let mut drafts = Vec::new();
    for (variable, carries_kv, explains) in VARIABLES {
        let settings = facts.process.in_force()?;
        let Some(setting) = settings.get(variable) else {
            continue;
        };
        if !live::may_move_kv(container, variable) {
            continue;
        }
        let Ok(index) = setting.value.trim().parse::<u32>() else {
            // `auto`, or -1: no index is forced.
            continue;
        };
        let said = format!("{variable}={index}");
        let judged = match judge(container, variable, index, *carries_kv) {
            Err(skip) if skip.reason != SkipReason::NotApplicable => Some(Draft::skipped(skip)),
            judged => judged?,
        };
        let draft = judged.map(|mut draft| {
            // Where the default finds no GID either, another thing is to be done.
            if draft.status >= Status::Warn && finds_a_gid(container) {
                draft.paste = pasting::in_force(container, setting, &Remedy::Remove);
            }
            let path = if *carries_kv {
                KvPath::Required
            } else {
                KvPath::Off
            };
            draft
                .on_kv_path(path)
                .explains(explains)
                .with([evidence(setting.ask, [said.as_str()])])
        });
        drafts.extend(draft);
    }
    if drafts.is_empty() {
        return Err(Skip::not_applicable());
    }
    Ok(drafts)
}

/// Every RoCE port has an entry that the libraries find alone.
fn finds_a_gid(container: &Container<'_>) -> bool {
    let facts = &container.facts;
    let routable = |(device, port): &(&Device, &Port)| {
        let table = facts.rdma.gids_of(&device.hca.name, port.number);
        table.is_ok_and(|gids| {
            gids.iter()
                .any(|gid| roce::reach(gid, facts) == Reach::Routable)
        })
    };
    roce::ports(facts).is_ok_and(|ports| ports.iter().all(routable))
}

fn judge(
    container: &Container<'_>,
    variable: &str,
    index: u32,
    carries_kv: bool,
) -> Result<Option<Draft>, Skip> {
    let facts = &container.facts;
    let selection = match variable {
        // Mooncake has its devices from the engine's command line.
        "MC_GID_INDEX" => None,
        _ if carries_kv => {
            let value = facts.process.value("UCX_NET_DEVICES")?;
            Selection::ucx(value, &container.context)
        }
        _ => Selection::nccl(facts.process.value("NCCL_IB_HCA")?),
    };
    let mut ports = roce::carrying(facts)?;
    ports.retain(|(device, port)| {
        let is_roce = port.link_layer == Some(LinkLayer::Ethernet) && !device.is_iwarp;
        let is_ib = port.link_layer == Some(LinkLayer::InfiniBand);
        // A pasted table without interfaces does not say on which link its ports are.
        let is_open = port.link_layer.is_none() && facts.rdma.judges_all();
        let applies = is_roce || is_open || is_ib && variable == "UCX_IB_GID_INDEX";
        applies
            && selection
                .as_ref()
                .is_none_or(|s| s.selects(&device.hca.name, port.number))
    });
    if ports.is_empty() {
        return Ok(None);
    }
    let said = format!("{variable}={index}");
    if ports.iter().any(|(_, port)| port.link_layer.is_none()) {
        let detail = format!("{said}: whether the ports are InfiniBand or RoCE was not seen");
        return Err(container.not_shown(detail, "ibstat"));
    }
    let gids = facts.rdma.gids.get()?;
    let (mut good, mut bad, mut unknown) = (Vec::new(), Vec::new(), None);
    for (device, port) in &ports {
        let name = format!("{}:{}", device.hca.name, port.number);
        let table = facts.rdma.gids_of(&device.hca.name, port.number)?;
        let Some(gid) = table.iter().find(|gid| gid.index == index) else {
            bad.push(format!("{name} gid {index} is empty"));
            continue;
        };
        if port.link_layer == Some(LinkLayer::InfiniBand) {
            good.push(format!("{name} gid {index} {}", gid.text));
            continue;
        }
        let reach = roce::reach(gid, facts);
        let line = format!("{name} gid {index} {} {}", gid.text, reach.words());
        match reach {
            Reach::Unknown(skip) => {
                let detail = format!("{said}: {line}: {}", skip.detail);
                unknown.get_or_insert(Skip { detail, ..skip });
            }
            Reach::Routable => good.push(line),
            _ => bad.push(line),
        }
    }
    let Some(first) = bad.first() else {
        if let Some(skip) = unknown {
            return Err(skip);
        }
        let detail = match good.len() {
            1 => format!("{said}: filled and routable on the port that is used"),
            all => format!("{said}: filled and routable on all {all} ports that are used"),
        };
        let seen = gids.evidence(good.iter().map(String::as_str));
        return Ok(Some(Draft::ok(detail).with([seen])));
    };
    let detail = match ports.len() {
        1 => format!("{said} is unusable on the port that is used: {first}"),
        all => format!(
            "{said} is unusable on {} of {all} ports that are used: {first}",
            bad.len()
        ),
    };
    let seen = gids.evidence(bad.iter().map(String::as_str));
    // Whether collectives leave the node is not known here; nor is whether a port carries data whose state nobody pasted, as
    // long as others are fine.
    let certain = bad.len() == ports.len() || ports.iter().all(|(_, port)| port.state.is_some());
    let draft = if carries_kv && certain && container.has_workers_environment() {
        Draft::fail(detail)
    } else {
        Draft::warn(detail)
    };
    let draft = draft.headline_of_detail();
    Ok(Some(draft.with([seen]).fix(format!("remove {variable}"))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::{NOTHING, changed, hca, outcome, pasted, roce, verdict};
    use crate::report::Status;

    #[test]
    fn the_entry_must_be_filled_and_routable_on_every_port() {
        let with = |line: &str| {
            let environment = format!("# process 7 dynamo.vllm\n{line}");
            let answers = changed(&roce(2), &[(&ask::ENVIRONMENT, environment.as_str())]);
            verdict(run, "decode", &answers)
        };
        assert_eq!(with("UCX_IB_GID_INDEX=3"), Ok(Status::Ok));
        assert_eq!(with("UCX_IB_GID_INDEX=9"), Ok(Status::Fail));
        // Index 2 is RoCE v1, index 1 is link-local.
        assert_eq!(with("UCX_IB_GID_INDEX=2"), Ok(Status::Fail));
        assert_eq!(with("UCX_IB_GID_INDEX=1"), Ok(Status::Fail));
        assert_eq!(with("MC_GID_INDEX=9"), Ok(Status::Fail));
        assert_eq!(with("NCCL_IB_GID_INDEX=9"), Ok(Status::Warn));
        assert_eq!(with("UCX_IB_GID_INDEX=auto"), Err(Skip::not_applicable()));
        assert_eq!(with(""), Err(Skip::not_applicable()));
    }

    #[test]
    fn an_index_of_what_moves_no_kv_forces_nothing() {
        let with = |line: &str, moves: &str| {
            let environment = format!("# process 7 dynamo.sglang\n{line}");
            let answers = [
                (&ask::ENVIRONMENT, environment.as_str()),
                (&ask::WORKER_KV_TRANSFER, moves),
            ];
            verdict(run, "decode", &changed(&roce(2), &answers))
        };
        let (nixl, mooncake) = (
            "\"transfer_backend\": \"nixl\"\n",
            "\"transfer_backend\": \"mooncake\"\n",
        );
        let connector = "\"kv_connector\": \"NixlConnector\"\n";
        assert_eq!(with("MC_GID_INDEX=9", mooncake), Ok(Status::Fail));
        for moves in [nixl, connector] {
            assert_eq!(with("MC_GID_INDEX=9", moves), Err(Skip::not_applicable()));
            assert_eq!(with("UCX_IB_GID_INDEX=9", moves), Ok(Status::Fail));
        }
        let beside = with("UCX_IB_GID_INDEX=9", mooncake);
        assert_eq!(beside, Err(Skip::not_applicable()));
    }

    /// What a pasted table and environment give, as status and sentence of each finding.
    fn pasted_gids(rows: &str, environment: &str) -> Vec<(Status, String)> {
        let table = format!("{rows}n_gids_found={}\n", rows.lines().count());
        let answers = [
            (&ask::SHOW_GIDS, table.as_str()),
            (&ask::ENVIRONMENT, environment),
        ];
        let drafts = outcome(run, &pasted(&answers)).unwrap();
        drafts.into_iter().map(|d| (d.status, d.detail)).collect()
    }

    #[test]
    fn a_pasted_table_alone_tells_an_index_that_cannot_be_right() {
        let rows = "mlx5_0 1 0 fe80:0000:0000:0000:0a00:27ff:fe00:0001 v1 eth2\n\
                    mlx5_0 1 1 fe80:0000:0000:0000:0a00:27ff:fe00:0001 v2 eth2\n\
                    mlx5_0 1 2 0000:0000:0000:0000:0000:ffff:0a00:0001 10.0.0.1 v1 eth2\n\
                    mlx5_0 1 3 0000:0000:0000:0000:0000:ffff:0a00:0001 10.0.0.1 v2 eth2\n";
        for (line, status) in [
            ("UCX_IB_GID_INDEX=1", Status::Fail),
            ("UCX_IB_GID_INDEX=2", Status::Fail),
            ("UCX_IB_GID_INDEX=9", Status::Fail),
            ("NCCL_IB_GID_INDEX=1", Status::Warn),
            // Whether the address is local is for `ip addr` to say.
            ("UCX_IB_GID_INDEX=3", Status::Skipped),
        ] {
            let found = pasted_gids(rows, line);
            assert_eq!(found.len(), 1, "{line}: {found:?}");
            assert_eq!(found[0].0, status, "{line}: {found:?}");
        }
        // Without interfaces the table does not say which link it is.
        let ib = "mlx5_0 1 0 fe80:0000:0000:0000:0a00:27ff:fe00:0001 v1\n";
        let found = pasted_gids(ib, "UCX_IB_GID_INDEX=2");
        assert_eq!(found[0].0, Status::Skipped);
        assert!(found[0].1.contains("ibstat"), "{found:?}");
        // A port that is wrong beside one that is not judged is still wrong, and may be one that is not used.
        let two = format!("{rows}mlx5_1 1 3 fe80:0000:0000:0000:0a00:27ff:fe00:0002 v2 eth3\n");
        assert_eq!(pasted_gids(&two, "UCX_IB_GID_INDEX=3")[0].0, Status::Warn);
    }

    #[test]
    fn on_infiniband_only_ucx_minds() {
        let gids = "/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/0: IB/RoCE v1\n\
                    /sys/class/infiniband/mlx5_0/ports/1/gids/0: fe80:0000:0000:0000:5450:ccff:fe8e:4652";
        let with = |line: &str| {
            let answers = hca("mlx5_0", "4: ACTIVE", "open");
            let other = [(&ask::ENVIRONMENT, line), (&ask::RDMA_GIDS, gids)];
            verdict(run, "decode", &changed(&answers, &other))
        };
        assert_eq!(with("UCX_IB_GID_INDEX=0"), Ok(Status::Ok));
        assert_eq!(with("UCX_IB_GID_INDEX=3"), Ok(Status::Fail));
        assert_eq!(with("NCCL_IB_GID_INDEX=3"), Err(Skip::not_applicable()));
    }

    #[test]
    fn what_was_not_read_is_not_judged() {
        assert!(verdict(run, "decode", NOTHING).is_err());
        for ask in [
            &ask::RDMA_GIDS,
            &ask::IP_ADDR,
            &ask::RDMA_PORTS,
            &ask::ENVIRONMENT,
        ] {
            let mut rest = changed(&roce(1), &[(&ask::ENVIRONMENT, "UCX_IB_GID_INDEX=3")]);
            rest.retain(|(a, _)| a.id != ask.id);
            let said = verdict(run, "decode", &rest);
            assert!(matches!(said, Err(_) | Ok(Status::Skipped)), "{}", ask.id);
        }
    }
}
