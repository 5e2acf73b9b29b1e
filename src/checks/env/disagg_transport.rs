use crate::check;
use crate::checks::WorkerScope;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::scope::known;
use crate::judge;
use crate::judge::context::{Backend, Tri};
use crate::report::Status;

check! {
    /// A transport variable that this worker needs is not set.
    ///
    /// Few variables are ever needed: UCX_TLS, UCX_NET_DEVICES, UCX_IB_GPU_DIRECT_RDMA, NCCL_IB_HCA, NCCL_SOCKET_IFNAME
    /// and NCCL_IB_DISABLE are right when they are unset, so nothing asks for them. What is asked for depends on the
    /// fabric: on EFA, libfabric's shared-memory path must be off when prefill and decode may share a node.
    ///
    /// ## Why it matters
    /// A default that is wrong for the fabric gives no message.
    ///
    /// ## Fix
    /// Set the variables that the finding names, on every prefill and decode worker.
    ///
    /// ## Sources
    /// UCX and NCCL sources for the defaults; Dynamo guide "EFA on AWS" for FI_EFA_ENABLE_SHM_TRANSFER.
    "ENV004" "env:disagg-transport" on Worker {
        subsystem: Env, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

/// Variables whose default can be wrong, and the backend under which they are read.
const NEEDED: &[(&str, Backend)] = &[("FI_EFA_ENABLE_SHM_TRANSFER", Backend::Libfabric)];

fn run(scope: &WorkerScope<'_>) -> Outcome {
    scope.require_kv()?;
    let context = scope.context();
    let mut missing = Vec::new();
    for (name, backend) in NEEDED {
        let read = context.efa == Tri::Yes
            && (context.backend == *backend || context.backend == Backend::Unknown);
        if !read || scope.worker.env.contains_key(name) {
            continue;
        }
        let verdict = judge::judge(name, None, &context);
        if verdict.status >= Status::Warn {
            known(scope.worker, "env")?;
            missing.push((name, verdict));
        }
    }
    if missing.is_empty() {
        if context.efa == Tri::Unknown {
            known(scope.worker, "resources")?;
        }
        return Ok(vec![Draft::ok(
            "no transport variable that this worker needs is missing; unset UCX and NCCL \
                                  variables are good defaults",
        )]);
    }
    let details: Vec<String> = missing
        .iter()
        .map(|(name, v)| format!("{name} is not set: {}", v.reason))
        .collect();
    let paste: Vec<String> = missing
        .iter()
        .map(|(name, _)| format!("  - name: {name}\n    value: \"0\""))
        .collect();
    let paste = format!("env:\n{}", paste.join("\n"));
    let fix = missing
        .iter()
        .filter_map(|(_, v)| v.fix.clone())
        .collect::<Vec<_>>()
        .join("; ");
    Ok(vec![
        Draft::warn(details.join("; "))
            .with([scope.worker.spot.evidence()])
            .fix(fix)
            .paste(scope.for_container(&paste)),
    ])
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::{
        APART, EFA, GPU, Pod, UNFILLED, alone, both, env, graph, lines, table, unread, vllm,
    };
    use crate::report::Status::{Ok, Skipped, Warn};

    #[test]
    fn table_of_statuses() {
        let efa = lines(&[EFA, &vllm("[\"LIBFABRIC\"]")]);
        let set = lines(&[&efa, &env(&[("FI_EFA_ENABLE_SHM_TRANSFER", "0")])]);
        let by_field = lines(&[&efa, &unread("FI_EFA_ENABLE_SHM_TRANSFER")]);
        let by_file = lines(&[
            EFA,
            "command: [python3, -m, dynamo.vllm]\nargs: [--kv-transfer-config, $(X)]",
        ]);
        table(
            "env:disagg-transport",
            &[
                ("another fabric needs nothing", graph(GPU), &[Ok, Ok]),
                ("EFA with the variable", graph(&set), &[Ok, Ok]),
                // Its value is judged under its own name.
                (
                    "EFA with the variable from a field",
                    graph(&by_field),
                    &[Ok, Ok],
                ),
                (
                    "EFA on different nodes",
                    both(Pod::of(&efa).spec(APART)),
                    &[Ok, Ok],
                ),
                (
                    "EFA that moves KV with UCX",
                    graph(&lines(&[EFA, &vllm("[\"UCX\"]")])),
                    &[Ok, Ok],
                ),
                ("EFA that may share a node", graph(&efa), &[Warn, Warn]),
                (
                    "EFA with a backend that is not known",
                    graph(&by_file),
                    &[Warn, Warn],
                ),
                ("a placeholder", graph(UNFILLED), &[Skipped, Skipped]),
                (
                    "EFA, and variables to be filled in",
                    graph(&lines(&[&efa, "env: ${VARIABLES}"])),
                    &[Skipped, Skipped],
                ),
                (
                    "EFA on different nodes, and variables to be filled in",
                    both(Pod::of(&lines(&[&efa, "env: ${VARIABLES}"])).spec(APART)),
                    &[Ok, Ok],
                ),
                ("aggregated", alone(Pod::of(&efa)), &[]),
            ],
        );
    }
}
