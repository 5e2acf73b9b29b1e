use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::roce::{self, Reach};
use crate::facts::hca::LinkLayer;
use crate::judge::selection::Selection;
use crate::observed::Skip;
use crate::report::KvPath;
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
    /// NCCL ignores the index on InfiniBand, and it plays no part on EFA.
    ///
    /// ## Sources
    /// NVIDIA/nccl#426, #769, #1573; kvcache-ai/Mooncake#946; sgl-project/sglang#30737; openucx/ucx#2434; UCX v1.20.0
    /// `ib_device.c` (`invalid gid[..]`).
    "RDMA010" "gid-index-unusable" on Container {
        subsystem: Rdma, kv_path: Required, worst: Fail,
        causes: &["env:UCX_IB_GID_INDEX", "env:NCCL_IB_GID_INDEX", "env:MC_GID_INDEX"], since: "0.2.0",
    }
}

/// Variables that force an index, and whether they act on what carries KV.
const VARIABLES: &[(&str, bool)] = &[
    ("UCX_IB_GID_INDEX", true),
    ("MC_GID_INDEX", true),
    ("NCCL_IB_GID_INDEX", false),
];

fn run(container: &Container<'_>) -> Outcome {
    let facts = &container.facts;
    let mut drafts = Vec::new();
    for (variable, carries_kv) in VARIABLES {
        let settings = facts.process.in_force()?;
        let Some(setting) = settings.get(variable) else {
            continue;
        };
        let Ok(index) = setting.value.trim().parse::<u32>() else {
            // `auto`, or -1: no index is forced.
            continue;
        };
        let said = format!("{variable}={index}");
        let draft = judge(container, variable, index, *carries_kv)?.map(|draft| {
            let path = if *carries_kv {
                KvPath::Required
            } else {
                KvPath::Off
            };
            draft
                .on_kv_path(path)
                .with([evidence(setting.ask, [said.as_str()])])
        });
        drafts.extend(draft);
    }
    if drafts.is_empty() {
        return Err(Skip::not_applicable());
    }
    Ok(drafts)
}

fn judge(
    container: &Container<'_>,
    variable: &str,
    index: u32,
    carries_kv: bool,
) -> Result<Option<Draft>, Skip> {
    let facts = &container.facts;
    let chooser = if carries_kv {
        "UCX_NET_DEVICES"
    } else {
        "NCCL_IB_HCA"
    };
    let value = facts.process.value(chooser)?;
    let selection = if carries_kv {
        Selection::ucx(value, &container.context)
    } else {
        Selection::nccl(value)
    };
    let mut ports = facts.rdma.usable_ports()?;
    ports.retain(|(device, port)| {
        let is_roce = port.link_layer == Some(LinkLayer::Ethernet) && !device.is_iwarp;
        let is_ib = port.link_layer == Some(LinkLayer::InfiniBand);
        let applies = is_roce || is_ib && variable == "UCX_IB_GID_INDEX";
        applies
            && selection
                .as_ref()
                .is_none_or(|s| s.selects(&device.hca.name, port.number))
    });
    if ports.is_empty() {
        return Ok(None);
    }
    let gids = facts.rdma.gids.get()?;
    let (mut good, mut bad) = (Vec::new(), Vec::new());
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
            Reach::Unknown(skip) => return Err(skip),
            Reach::Routable => good.push(line),
            _ => bad.push(line),
        }
    }
    let said = format!("{variable}={index}");
    let Some(first) = bad.first() else {
        let detail = format!(
            "{said}: filled and routable on all {} ports that are used",
            good.len()
        );
        let seen = gids.evidence(good.iter().map(String::as_str));
        return Ok(Some(Draft::ok(detail).with([seen])));
    };
    let detail = format!(
        "{said} is unusable on {} of {} ports that are used: {first}",
        bad.len(),
        ports.len()
    );
    let seen = gids.evidence(bad.iter().map(String::as_str));
    // Whether collectives leave the node is not known here.
    let draft = if carries_kv && container.has_workers_environment() {
        Draft::fail(detail)
    } else {
        Draft::warn(detail)
    };
    Ok(Some(draft.with([seen]).fix(format!("remove {variable}"))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::{NOTHING, changed, hca, roce, verdict};
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
            assert!(verdict(run, "decode", &rest).is_err(), "{}", ask.id);
        }
    }
}
