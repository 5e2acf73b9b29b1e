use crate::check;
use crate::checks::WorkerScope;
use crate::checks::declare::{Draft, Outcome};
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
            missing.push((name, verdict));
        }
    }
    if missing.is_empty() {
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
        .map(|(name, _)| format!("- name: {name}\n  value: \"0\""))
        .collect();
    let fix = missing
        .iter()
        .filter_map(|(_, v)| v.fix.clone())
        .collect::<Vec<_>>()
        .join("; ");
    Ok(vec![
        Draft::warn(details.join("; "))
            .with([scope.worker.spot.evidence()])
            .fix(fix)
            .paste(paste.join("\n")),
    ])
}
