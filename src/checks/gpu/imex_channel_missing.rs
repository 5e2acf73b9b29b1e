use crate::check;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::{Container, asked};
use crate::observed::Skip;

check! {
    /// The GPUs are part of a multi-node NVLink fabric, and the container has no IMEX channel.
    ///
    /// ## Why it matters
    /// Memory handles that reach other nodes need `/dev/nvidia-caps-imex-channels/channelN` in both pods. Without it they fail
    /// with "not permitted", UCX leaves `cuda_ipc` out between nodes, and a list without RDMA is left with TCP.
    ///
    /// ## Fix
    /// Claim a ComputeDomain (DRA driver of NVIDIA) in both workers; it starts the IMEX daemon and mounts the channel.
    ///
    /// ## False alarms
    /// A worker that moves KV over RDMA adapters does without: then this is a warning.
    ///
    /// ## Sources
    /// NVIDIA IMEX guide; microsoft/mscclpp#467; NVIDIA/nvbandwidth#39, #46; kubernetes-sigs/dra-driver-nvidia-gpu#294.
    "GPU006" "imex-channel-missing" on Container {
        subsystem: Gpu, kv_path: Supporting, worst: Fail, causes: &[], since: "0.1.0",
    }
}

fn run(container: &Container<'_>) -> Outcome {
    let gpu = &container.facts.gpu;
    container.require_gpu()?;
    let query = gpu.fabric.get()?;
    let member = query.gpus.iter().find_map(|gpu| {
        let fabric = gpu
            .fabric
            .as_ref()
            .filter(|fabric| fabric.is_multi_node())?;
        Some((gpu, fabric))
    });
    let Some((first, fabric)) = member else {
        return Err(Skip::not_applicable());
    };
    let line = format!(
        "GPU {}: cluster {}, clique {}",
        first.bus_id,
        fabric.cluster_uuid.as_deref().unwrap_or_default(),
        fabric.clique_id.map_or("?".to_owned(), |id| id.to_string())
    );
    let channels = gpu.imex_channels()?;
    let nodes = gpu.nodes.get()?;
    if let Some(channel) = channels.first() {
        let seen = [
            query.evidence([line.as_str()]),
            nodes.evidence(channels.iter().copied()),
        ];
        let detail =
            format!("multi-node NVLink with {channel}; the peer must be in the same clique");
        return Ok(vec![Draft::ok(detail).with(seen)]);
    }
    let closed = gpu.nodes_below("/dev/nvidia-caps-imex-channels/channel")?;
    let what = closed
        .first()
        .map_or("no IMEX channel node".to_owned(), |(path, _)| {
            format!("{path} may not be opened")
        });
    let seen = [
        query.evidence([line.as_str()]),
        nodes.evidence([what.as_str()]),
    ];
    let detail = format!(
        "the GPUs are part of a multi-node NVLink fabric ({line}), and the container has {what}"
    );
    let fix = asked::channel(
        container,
        "claim a ComputeDomain in both workers, so that the IMEX channel is mounted",
    );
    // What else can carry KV decides how bad it is; that there is an adapter must have been seen.
    let has_rdma = facts_have_rdma(container);
    let draft = if has_rdma {
        Draft::warn(detail)
    } else {
        container.broken(detail)
    };
    Ok(vec![draft.with(seen).fix(fix)])
}

fn facts_have_rdma(container: &Container<'_>) -> bool {
    container
        .facts
        .rdma
        .usable_ports()
        .is_ok_and(|ports| !ports.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::{Answers, NOTHING, changed, hca, verdict};
    use crate::report::Status;

    fn rack(nodes: &str, uuid: &str) -> Answers {
        let text = format!(
            "GPU 00000000:09:00.0\n    Product Name                          : NVIDIA GB200\n    Fabric\n        \
             State                             : Completed\n        Status                            : Success\n        \
             CliqueId                          : 4\n        ClusterUUID                       : {uuid}\n"
        );
        vec![
            (&ask::NVIDIA_SMI_FABRIC, text),
            (&ask::DEV_GPU, nodes.to_owned()),
        ]
    }

    const UUID: &str = "5c9ad3a2-6d11-4f0b-9a43-b34f5b3a1d10";
    const CHANNEL: &str = "/dev/nvidia0: char rw\n/dev/nvidia-caps-imex-channels/channel0: char rw";

    #[test]
    fn a_fabric_of_several_nodes_needs_a_channel() {
        assert_eq!(verdict(run, "decode", &rack(CHANNEL, UUID)), Ok(Status::Ok));
        let none = rack("/dev/nvidia0: char rw", UUID);
        assert_eq!(verdict(run, "decode", &none), Ok(Status::Fail));
        assert_eq!(verdict(run, "agg", &none), Ok(Status::Warn));
        let closed = rack(
            &CHANNEL.replace("channel0: char rw", "channel0: char -"),
            UUID,
        );
        assert_eq!(verdict(run, "decode", &closed), Ok(Status::Fail));
        let mut with_rdma = hca("mlx5_0", "4: ACTIVE", "open");
        with_rdma.extend(none);
        assert_eq!(verdict(run, "decode", &with_rdma), Ok(Status::Warn));
        let zero = rack(CHANNEL, "00000000-0000-0000-0000-000000000000");
        assert_eq!(verdict(run, "decode", &zero), Err(Skip::not_applicable()));
    }

    #[test]
    fn what_was_not_read_is_not_judged() {
        assert!(verdict(run, "decode", NOTHING).is_err());
        let mut rest = changed(&rack(CHANNEL, UUID), &[]);
        rest.retain(|(a, _)| a.id != ask::DEV_GPU.id);
        assert!(verdict(run, "decode", &rest).is_err());
    }
}
