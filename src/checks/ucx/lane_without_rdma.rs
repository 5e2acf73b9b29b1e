use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::facts::ucx_log::{Configuration, How, Lane, Memory, Operation, Scope};
use crate::observed::Skip;
use crate::report::SkipReason;

check! {
    /// A log of UCX shows KV towards another node on TCP or on emulation by messages.
    ///
    /// Only for a log that a person hands in (`UCX_LOG_LEVEL=info`, `UCX_PROTO_INFO=y`).
    ///
    /// ## Why it matters
    /// This is the silent fallback itself: the engine answers, and every block of KV takes a hundred times as long.
    ///
    /// ## Fix
    /// The other findings say why RDMA is not used; without one, compare UCX_TLS and UCX_NET_DEVICES with the devices here.
    ///
    /// ## False alarms
    /// A lane that is listed is no lane that carried data; only a table of protocols says which one an operation uses. `self`
    /// says nothing about a peer, and TCP lanes beside RDMA ones are for control messages.
    ///
    /// ## Sources
    /// UCX v1.20.0 `ucp_worker.c`, `proto_debug.c`; ai-dynamo/nixl#366; vllm-project/vllm#52636.
    "UCX005" "lane-without-rdma" on Container {
        subsystem: Ucx, kv_path: Required, worst: Fail, causes: &[], since: "0.1.0",
    }
}

fn run(container: &Container<'_>) -> Outcome {
    let log = match container.facts.logs.ucx.get() {
        Err(skip) if skip.reason == SkipReason::NotCollected => return Err(Skip::not_applicable()),
        log => log?,
    };
    let (mut bad, mut good) = (Vec::new(), Vec::new());
    for operation in [Operation::Write, Operation::Read] {
        for row in log.bulk(operation) {
            let gpu = row.local == Memory::Cuda || row.remote == Memory::Cuda;
            if row.scope != Scope::InterNode || !gpu {
                continue;
            }
            let done = match operation {
                Operation::Write => "written",
                Operation::Read => "read",
            };
            let line = format!("large blocks are {done} by {} ({})", row.how, row.raw);
            let fast = !matches!(row.how, How::SoftwareEmulation | How::CopyIn)
                && row.lanes.iter().any(is_fast);
            if fast {
                good.push(line)
            } else {
                bad.push(line)
            }
        }
    }
    let evidence = |lines: &[String]| [log.evidence(lines.iter().map(String::as_str))];
    let fix = "grant and select RDMA devices, and leave UCX_TLS unset";
    if let Some(first) = bad.first() {
        let detail = format!("KV towards another node does not use RDMA: {first}");
        let headline = "KV towards another node does not use RDMA";
        return Ok(vec![
            container
                .broken(detail)
                .with(evidence(&bad))
                .fix(fix)
                .headline(headline),
        ]);
    }
    if let Some(first) = good.first() {
        let detail = format!("towards another node {first}");
        return Ok(vec![Draft::ok(detail).with(evidence(&good))]);
    }
    // Without a table only the lanes of endpoints are left, which can show a fault and nothing else.
    let slow = |scope: Scope| -> Vec<String> {
        let own = log
            .peer_configurations()
            .filter(|c| c.scope == scope && has_no_fast_lane(c));
        own.map(shown).collect()
    };
    let between = slow(Scope::InterNode);
    if let Some(first) = between.first() {
        let detail = format!("KV towards another node has no RDMA lane: {first}");
        return Ok(vec![
            container
                .broken(detail)
                .with(evidence(&between))
                .fix(fix)
                .headline("KV towards another node has no RDMA lane"),
        ]);
    }
    let within = slow(Scope::IntraNode);
    if let Some(first) = within.first() {
        let detail =
            format!("KV within the node is emulated by messages over the network: {first}");
        let fix = "let both workers see each other's GPUs and PID namespace; without NVLink set \
                   UCX_CUDA_IPC_ENABLE_GET_ZCOPY=y";
        let headline = "KV within the node is emulated by messages over the network";
        return Ok(vec![
            Draft::warn(detail)
                .with(evidence(&within))
                .fix(fix)
                .headline(headline),
        ]);
    }
    let detail = "the log shows no table of protocols between nodes; UCX_PROTO_INFO=y prints them";
    Err(Skip::new(SkipReason::NotFound, detail))
}

/// The lanes for remote memory count where they are listed: `am(..)` carries notifications.
fn has_no_fast_lane(configuration: &Configuration) -> bool {
    let remote = || {
        configuration
            .lanes
            .iter()
            .filter(|(name, _)| name.starts_with("rma"))
    };
    let lanes: Vec<&Lane> = if remote().next().is_some() {
        remote().flat_map(|(_, lanes)| lanes).collect()
    } else {
        configuration.lanes.values().flatten().collect()
    };
    !lanes.is_empty() && !lanes.into_iter().any(is_fast)
}

fn shown(configuration: &Configuration) -> String {
    let groups = configuration.lanes.iter().map(|(name, lanes)| {
        let lanes: Vec<String> = lanes
            .iter()
            .map(|lane| format!("{}/{}", lane.transport, lane.device))
            .collect();
        format!("{name}({})", lanes.join(" "))
    });
    format!(
        "cfg#{} {}",
        configuration.number,
        groups.collect::<Vec<_>>().join(" ")
    )
}

/// RDMA, or NVLink between nodes.
fn is_fast(lane: &Lane) -> bool {
    ["rc_", "dc_", "srd", "cuda_ipc", "gga_"]
        .iter()
        .any(|prefix| lane.transport.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::{NOTHING, container, outcome, verdict};
    use crate::report::Status;

    const HEAD: &str = "[1700000000.123456] [host:1:0]  x.c:1  UCX  INFO  ";

    #[test]
    fn lanes_show_a_fault_and_tables_show_the_truth() {
        let with = |role: &str, text: &str| verdict(run, role, &[(&ask::UCX_LOG, text)]);
        let tcp = format!("{HEAD}ucp_context_0 inter-node cfg#1 rma_am(tcp/eth0)  am(tcp/eth0)\n");
        assert_eq!(with("decode", &tcp), Ok(Status::Fail));
        assert_eq!(with("agg", &tcp), Ok(Status::Warn));
        // A lane that could be used is no proof.
        let rdma = format!(
            "{HEAD}ucp_context_0 inter-node cfg#1 rma(rc_mlx5/mlx5_0:1)  am(rc_mlx5/mlx5_0:1)\n"
        );
        assert!(with("decode", &rdma).is_err());
        let emulated = format!(
            "{HEAD}ucp_context_0 intra-node cfg#2 rma_am(tcp/eth0)  am(cuda_ipc/cuda tcp/eth0)\n"
        );
        assert_eq!(with("decode", &emulated), Ok(Status::Warn));
        let own = format!("{HEAD}ucp_context_0 self cfg#0 rma_am(tcp/lo)  am(tcp/lo)\n");
        assert!(with("decode", &own).is_err());
        assert_eq!(verdict(run, "decode", NOTHING), Err(Skip::not_applicable()));
    }

    #[test]
    fn a_table_says_what_carries_large_blocks() {
        let table = |how: &str, lane: &str| {
            let rows = [
                "+--------------------------------+-----------------------------------------+".to_owned(),
                "| ucp_context_0 inter-node cfg#1 | remote memory write by ucp_put* from cuda/GPU0 to cuda |".to_owned(),
                "+--------------------------------+-----------------------------------------+".to_owned(),
                format!("|                         0..inf | {how} | {lane} |"),
                "+--------------------------------+-----------------------------------------+".to_owned(),
            ];
            rows.map(|row| format!("[1700000000.123456] [host:1:0]   {row}\n"))
                .concat()
        };
        let with = |how: &str, lane: &str| {
            let text = format!(
                "{HEAD}Version 1.20.0 (loaded from /x)\n{}",
                table(how, lane)
            );
            verdict(run, "decode", &[(&ask::UCX_LOG, text.as_str())])
        };
        let detail = |how: &str, lane: &str| {
            let place = container("decode", &[(&ask::UCX_LOG, table(how, lane).as_str())]);
            outcome(run, &place).unwrap().remove(0).detail
        };
        assert_eq!(
            detail("zero-copy", "rc_mlx5/mlx5_0:1/path0"),
            "towards another node large blocks are written by zero-copy (rc_mlx5/mlx5_0:1/path0)"
        );
        assert_eq!(
            detail("software emulation", "tcp/eth0"),
            "KV towards another node does not use RDMA: large blocks are written by software emulation (tcp/eth0)"
        );
        assert_eq!(with("zero-copy", "rc_mlx5/mlx5_0:1/path0"), Ok(Status::Ok));
        assert_eq!(with("software emulation", "tcp/eth0"), Ok(Status::Fail));
    }
}
