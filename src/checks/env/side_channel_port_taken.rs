use crate::check;
use crate::checks::WorkerScope;
use crate::checks::declare::{Draft, Outcome};
use crate::manifest::workload::Worker;
use crate::observed::Skip;

check! {
    /// The side channel of NIXL and the KV events of vLLM want the same port.
    ///
    /// Each rank takes a port of its own for the side channel, from VLLM_NIXL_SIDE_CHANNEL_PORT on. KV events are published at the
    /// endpoint of `--kv-events-config`.
    ///
    /// ## Why it matters
    /// Whoever comes second stops with "Address already in use", or peers shake hands with the wrong server.
    ///
    /// ## Fix
    /// Move one of the two out of the other's range.
    ///
    /// ## Sources
    /// vllm-project/vllm#25059, #25056, #20965.
    "ENV016" "side-channel-port-taken" on Worker {
        subsystem: Env, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

const PORT: &str = "VLLM_NIXL_SIDE_CHANNEL_PORT";

fn run(scope: &WorkerScope<'_>) -> Outcome {
    scope.require_kv()?;
    let worker = scope.worker;
    let events = worker.kv_events_port.ok_or_else(Skip::not_applicable)?;
    // Unset, the port is that of the version of vLLM or of its launcher.
    let written = scope.literal(PORT)?.ok_or_else(Skip::not_applicable)?;
    // What is no port is judged with the variable.
    let first: u16 = written.trim().parse().map_err(|_| Skip::not_applicable())?;
    let last = first.saturating_add(ranks(worker) - 1);
    let range = match first == last {
        true => format!("port {first}"),
        false => format!("ports {first} to {last}"),
    };
    let seen = worker.env.get(PORT).map(|entry| entry.spot.evidence());
    if !(first..=last).contains(&events) {
        let detail =
            format!("the side channel takes {range}, and KV events are published on {events}");
        return Ok(vec![Draft::ok(detail).with(seen)]);
    }
    let detail = format!(
        "the side channel takes {range} ({PORT}={first}, one for each rank), and --kv-events-config publishes on {events}"
    );
    Ok(vec![
        Draft::warn(detail)
            .with(seen)
            .follows(format!("env:{PORT}"))
            .fix(format!("write another {PORT}, for instance 20098")),
    ])
}

/// Ranks of one worker, as far as stated.
fn ranks(worker: &Worker) -> u16 {
    let size = |flag: &str| {
        let text = worker.flags.get(flag);
        text.and_then(|text| text.parse().ok()).unwrap_or(1)
    };
    let ranks: u16 = size("tensor-parallel-size");
    ranks.saturating_mul(size("data-parallel-size")).max(1)
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::{Pod, RDMA, alone, env, graph, lines, table, unread};
    use crate::report::Status::{Ok, Skipped, Warn};

    #[test]
    fn table_of_statuses() {
        let with = |flags: &str, env: &str| {
            lines(&[
                &format!("command: [python3, -m, dynamo.vllm]\nargs: [{flags}]"),
                RDMA,
                env,
            ])
        };
        let port = |port: &str| env(&[(super::PORT, port)]);
        let at = |port: u16| {
            format!(
                "--kv-events-config, '{{\"enable_kv_cache_events\": true, \"endpoint\": \"tcp://*:{port}\"}}'"
            )
        };
        let four = format!("--tensor-parallel-size, '4', {}", at(20083));
        let default = "--kv-events-config, '{\"enable_kv_cache_events\": true}'";
        table(
            "side-channel-port-taken",
            &[
                (
                    "the same",
                    graph(&with(&at(20080), &port("20080"))),
                    &[Warn, Warn],
                ),
                (
                    "within the ranks",
                    graph(&with(&four, &port("20080"))),
                    &[Warn, Warn],
                ),
                (
                    "behind the ranks",
                    graph(&with(&four, &port("20079"))),
                    &[Ok, Ok],
                ),
                (
                    "the default endpoint",
                    graph(&with(default, &port("5557"))),
                    &[Warn, Warn],
                ),
                (
                    "switched off",
                    graph(&with("--kv-events-config, '{}'", &port("5557"))),
                    &[],
                ),
                ("no events", graph(&with("--model, m", &port("5557"))), &[]),
                ("port unset", graph(&with(&at(20080), "")), &[]),
                (
                    "port not known",
                    graph(&with(&at(20080), &unread(super::PORT))),
                    &[Skipped, Skipped],
                ),
                (
                    "aggregated",
                    alone(Pod::of(&with(&at(20080), &port("20080")))),
                    &[],
                ),
            ],
        );
    }
}
