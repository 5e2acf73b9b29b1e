use crate::check;
use crate::checks::WorkerScope;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::env::mnnvl_without_domain::is_on;
use crate::judge::TransportList;
use crate::observed::Skip;

check! {
    /// Multi-node NVLink is switched on, and UCX_TLS excludes the transport that uses it.
    ///
    /// ## Why it matters
    /// UCX reaches other nodes over NVLink through `cuda_ipc`. Excluding it makes UCX_CUDA_IPC_ENABLE_MNNVL a dead switch,
    /// and KV goes to the NIC or to TCP.
    ///
    /// ## Fix
    /// Allow `cuda_ipc` in UCX_TLS (remove `^cuda_ipc`, or add it to the list), or remove UCX_CUDA_IPC_ENABLE_MNNVL.
    ///
    /// ## Sources
    /// UCX v1.20.0 `src/uct/cuda/cuda_ipc`; ai-dynamo/nixl#1110.
    "ENV007" "mnnvl-without-cuda-ipc" on Worker {
        subsystem: Env, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

const SWITCH: &str = "UCX_CUDA_IPC_ENABLE_MNNVL";

fn excludes(tls: &str) -> bool {
    !TransportList::parse(tls).allows("cuda_ipc")
}

fn run(scope: &WorkerScope<'_>) -> Outcome {
    scope.require_kv()?;
    let (tls, switch) = (scope.literal("UCX_TLS"), scope.literal(SWITCH));
    // One harmless half settles it, whatever the other one is.
    let harmless = matches!(tls, Ok(v) if !v.is_some_and(excludes))
        || matches!(switch, Ok(v) if !v.is_some_and(|v| is_on(SWITCH, v)));
    if harmless {
        return Err(Skip::not_applicable());
    }
    let (Some(tls), Some(_)) = (tls?, switch?) else {
        return Err(Skip::not_applicable());
    };
    let detail = format!(
        "UCX_CUDA_IPC_ENABLE_MNNVL is on, and UCX_TLS={} excludes cuda_ipc, which is the transport it acts on",
        crate::sanitise::line(tls, 80)
    );
    let written = ["UCX_TLS", SWITCH]
        .into_iter()
        .filter_map(|name| scope.worker.env.get(name));
    Ok(vec![
        Draft::warn(detail)
            .with(written.map(|entry| entry.spot.evidence()))
            .follows("env:UCX_TLS")
            .fix("remove one of the two settings, on both roles"),
    ])
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::{Pod, alone, env, graph, table, unread};
    use crate::report::Status::{Skipped, Warn};

    #[test]
    fn table_of_statuses() {
        let tls = |value: &str| graph(&env(&[("UCX_TLS", value), (super::SWITCH, "y")]));
        let half = |name: &str, other: &str, value: &str| {
            let written = env(&[(other, value)]);
            graph(&format!(
                "{}, {}",
                unread(name).trim_end_matches(']'),
                written.trim_start_matches("env: [")
            ))
        };
        table(
            "mnnvl-without-cuda-ipc",
            &[
                ("cuda_ipc excluded", tls("^cuda_ipc"), &[Warn, Warn]),
                (
                    "cuda_ipc not in the list",
                    tls("rc,cuda_copy"),
                    &[Warn, Warn],
                ),
                ("another transport excluded", tls("^tcp"), &[]),
                (
                    "a list of what is wanted",
                    tls("cuda_copy,cuda_ipc,tcp"),
                    &[],
                ),
                (
                    "switched off",
                    graph(&env(&[("UCX_TLS", "^cuda_ipc"), (super::SWITCH, "n")])),
                    &[],
                ),
                ("no switch", graph(&env(&[("UCX_TLS", "^cuda_ipc")])), &[]),
                (
                    "another switch",
                    graph(&env(&[
                        ("UCX_TLS", "^cuda_ipc"),
                        ("NCCL_MNNVL_ENABLE", "1"),
                    ])),
                    &[],
                ),
                ("list unset", graph(&env(&[(super::SWITCH, "y")])), &[]),
                (
                    "list not known",
                    half("UCX_TLS", super::SWITCH, "y"),
                    &[Skipped, Skipped],
                ),
                (
                    "list not known, switched off",
                    half("UCX_TLS", super::SWITCH, "n"),
                    &[],
                ),
                (
                    "switch not known",
                    half(super::SWITCH, "UCX_TLS", "^cuda_ipc"),
                    &[Skipped, Skipped],
                ),
                (
                    "switch not known, list harmless",
                    half(super::SWITCH, "UCX_TLS", "all"),
                    &[],
                ),
                (
                    "aggregated",
                    alone(Pod::of(&env(&[
                        ("UCX_TLS", "^cuda_ipc"),
                        (super::SWITCH, "y"),
                    ]))),
                    &[],
                ),
            ],
        );
    }
}
