use crate::check;
use crate::checks::WorkloadScope;
use crate::checks::declare::{Draft, Outcome};
use crate::manifest::workload::{EnvEntry, EnvValue, Worker};
use crate::observed::Skip;
use crate::report::SkipReason;

check! {
    /// The two ends of the KV path have different transport settings.
    ///
    /// One finding per variable. Variables that legitimately differ (ports, log levels) are not compared, and settings that
    /// follow the accelerator (`cuda_copy` on one side, `ze_copy` on the other) are not a difference.
    ///
    /// ## Why it matters
    /// A transfer uses what both ends share. When one end may not use RDMA, or looks for it on other NICs, the pair meets on
    /// TCP or not at all.
    ///
    /// ## Fix
    /// Set the variable to the same value on both roles, or on neither.
    "ENV011" "role-env-differs" on Workload {
        subsystem: Env, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

/// Settings that both ends must share.
pub(crate) const COMPARED: &[&str] = &[
    "UCX_TLS",
    "UCX_NET_DEVICES",
    "UCX_RNDV_SCHEME",
    "UCX_RNDV_THRESH",
    "NCCL_SOCKET_IFNAME",
    "NCCL_IB_DISABLE",
    "UCX_IB_ADDR_TYPE",
    "UCX_CUDA_IPC_ENABLE_MNNVL",
    "SGLANG_DISAGGREGATION_NIXL_BACKEND",
];

fn run(scope: &WorkloadScope<'_>) -> Outcome {
    scope.over_pairs(pair)
}

/// One pair of ends.
fn pair(left: &Worker, right: &Worker) -> Outcome {
    let mut drafts = Vec::new();
    for name in COMPARED {
        let (a, b) = (left.env.get(name), right.env.get(name));
        match (a.map(|e| &e.value), b.map(|e| &e.value)) {
            (None, None) => {}
            (Some(EnvValue::Literal(x)), Some(EnvValue::Literal(y))) if same(name, x, y) => {}
            (Some(EnvValue::Literal(_)) | None, Some(EnvValue::Literal(_)) | None) => {
                drafts.push(differs(name, (left, a), (right, b)));
            }
            _ => {
                let detail = format!(
                    "{name} of {} or {} is known only at run time",
                    left.name, right.name
                );
                drafts.push(
                    Draft::skipped(Skip::new(SkipReason::Unresolved, detail))
                        .named("role-env-differs"),
                );
            }
        }
    }
    if drafts.is_empty() {
        let tls = |worker: &Worker| worker.literal("UCX_TLS").map(str::to_owned);
        let words = match tls(left) == tls(right) {
            true => "",
            false => {
                " (UCX_TLS differs in the order or in the copy transport of the GPU, which does not matter)"
            }
        };
        drafts.push(Draft::ok(format!(
            "{} and {} have the same transport settings{words}",
            left.name, right.name
        )));
    }
    Ok(drafts)
}

/// Equal, or equal but for the copy transport of the accelerator.
fn same(name: &str, x: &str, y: &str) -> bool {
    const COPIES: &[&str] = &["cuda_copy", "ze_copy", "rocm_copy"];
    let normal = |v: &str| {
        let mut tokens: Vec<&str> = v
            .split(',')
            .map(|t| if COPIES.contains(&t) { "gpu_copy" } else { t })
            .collect();
        tokens.sort_unstable();
        tokens.join(",")
    };
    x == y || (name == "UCX_TLS" && normal(x) == normal(y))
}

fn differs(
    name: &str,
    left: (&Worker, Option<&EnvEntry>),
    right: (&Worker, Option<&EnvEntry>),
) -> Draft {
    let words = |(worker, entry): (&Worker, Option<&EnvEntry>)| {
        let value = match entry.map(|e| &e.value) {
            Some(EnvValue::Literal(v)) if v.is_empty() => "is empty".to_owned(),
            Some(EnvValue::Literal(v)) => format!("is {}", crate::sanitise::line(v, 80)),
            _ => "is not set".to_owned(),
        };
        format!("{value} on {}", worker.called())
    };
    let detail = format!("{name} {} and {}", words(left), words(right));
    let evidence = [left.1, right.1]
        .into_iter()
        .flatten()
        .map(|e| e.spot.evidence());
    Draft::warn(detail)
        .headline(format!("{name} differs between the ends of the KV path"))
        // Where the value itself is at fault, the difference goes away with it.
        .follows(format!("env:{name}"))
        .follows(match name {
            "UCX_TLS" => "no-common-transport",
            _ => "",
        })
        .with(evidence)
        .fix(format!(
            "give {name} the same value on both roles, or remove it from both"
        ))
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::{
        MOCKER, Pod, alone, encode_pd, env, graph, lines, table, two_sided, unread,
    };
    use crate::report::Status::{Ok, Skipped, Warn};

    #[test]
    fn table_of_statuses() {
        let tls = |p: &str, d: &str| two_sided(&env(&[("UCX_TLS", p)]), &env(&[("UCX_TLS", d)]));
        let (nebius, elsewhere) = (
            env(&[("UCX_RNDV_THRESH", "8192")]),
            unread("UCX_NET_DEVICES"),
        );
        table(
            "role-env-differs",
            &[
                ("nothing set", graph("env: []"), &[Ok]),
                ("the same", tls("rc,cuda_copy", "rc,cuda_copy"), &[Ok]),
                ("another order", tls("rc,cuda_copy", "cuda_copy,rc"), &[Ok]),
                (
                    "another accelerator",
                    tls("rc,ze_copy", "rc,cuda_copy"),
                    &[Ok],
                ),
                (
                    "a port may differ",
                    two_sided(&env(&[("VLLM_NIXL_SIDE_CHANNEL_PORT", "1")]), "env: []"),
                    &[Ok],
                ),
                (
                    "another list",
                    tls("rc,cuda_copy", "tcp,cuda_copy"),
                    &[Warn],
                ),
                ("only on decode", two_sided("env: []", &nebius), &[Warn]),
                (
                    "two differences",
                    two_sided(
                        &env(&[("UCX_TLS", "rc"), ("UCX_RNDV_THRESH", "0")]),
                        "env: []",
                    ),
                    &[Warn, Warn],
                ),
                (
                    "order of devices is kept",
                    two_sided(
                        &env(&[("UCX_NET_DEVICES", "a:1,b:1")]),
                        &env(&[("UCX_NET_DEVICES", "b:1,a:1")]),
                    ),
                    &[Warn],
                ),
                (
                    "known only at run time on one side",
                    two_sided(&elsewhere, "env: []"),
                    &[Skipped],
                ),
                (
                    "known only at run time on both sides",
                    graph(&elsewhere),
                    &[Skipped],
                ),
                (
                    "encode and its receiver",
                    encode_pd(&nebius, "env: []"),
                    &[Warn],
                ),
                (
                    "a mocker moves nothing",
                    two_sided(MOCKER, &lines(&[MOCKER, &nebius])),
                    &[],
                ),
                ("aggregated", alone(Pod::of(&nebius)), &[]),
            ],
        );
    }
}
