use crate::check;
use crate::checks::WorkerScope;
use crate::checks::declare::{Draft, Outcome};
use crate::manifest::workload::Engine;
use crate::observed::Skip;

check! {
    /// SGLang's NIC flag is set where its NIXL backend does not read it.
    ///
    /// ## Why it matters
    /// `--disaggregation-ib-device` is read by the Mooncake backend only. With NIXL the NICs are chosen by UCX, and a pinning
    /// that was meant to keep a foreign fabric out does nothing.
    ///
    /// ## Fix
    /// Set UCX_NET_DEVICES (or `ucx_devices` in SGLANG_DISAGGREGATION_NIXL_BACKEND_PARAMS) instead of the flag.
    ///
    /// ## Sources
    /// sgl-project/sglang PR#28737.
    "ENV009" "ib-device-flag-ignored" on Worker {
        subsystem: Env, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

fn run(scope: &WorkerScope<'_>) -> Outcome {
    scope.require_kv()?;
    let worker = scope.worker;
    let devices = worker
        .flags
        .get("disaggregation-ib-device")
        .ok_or_else(Skip::not_applicable)?;
    let nixl = worker
        .kv_transfer
        .backend
        .as_deref()
        .is_some_and(|b| b.eq_ignore_ascii_case("nixl"));
    if worker.engine != Some(Engine::Sglang) || !nixl || worker.env.contains_key("UCX_NET_DEVICES")
    {
        return Err(Skip::not_applicable());
    }
    let detail = format!(
        "--disaggregation-ib-device {devices} is ignored by the nixl backend, and UCX_NET_DEVICES is not set: UCX \
         chooses among all NICs"
    );
    Ok(vec![
        Draft::warn(detail)
            .with([worker.spot.evidence()])
            .fix(format!(
                "set UCX_NET_DEVICES to {devices}, each with its port (`:1`)"
            )),
    ])
}
