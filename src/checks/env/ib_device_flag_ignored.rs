use crate::check;
use crate::checks::WorkerScope;
use crate::checks::declare::{Draft, Outcome};
use crate::judge::context::Backend;
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

/// JSON for the backend; `ucx_devices` in it is UCX_NET_DEVICES by another name.
const PARAMS: &str = "SGLANG_DISAGGREGATION_NIXL_BACKEND_PARAMS";

fn run(scope: &WorkerScope<'_>) -> Outcome {
    scope.require_kv()?;
    let worker = scope.worker;
    let devices = worker
        .flags
        .get("disaggregation-ib-device")
        .ok_or_else(Skip::not_applicable)?;
    if worker.engine != Some(Engine::Sglang) || worker.env.contains_key("UCX_NET_DEVICES") {
        return Err(Skip::not_applicable());
    }
    // Mooncake reads the flag, and LIBFABRIC takes its devices from the provider.
    if *scope.backend().get()? != Backend::Ucx {
        return Err(Skip::not_applicable());
    }
    if scope
        .literal(PARAMS)?
        .is_some_and(|json| json.contains("ucx_devices"))
    {
        return Err(Skip::not_applicable());
    }
    let detail = format!(
        "--disaggregation-ib-device {devices} is ignored by the nixl backend, and UCX_NET_DEVICES is not set: UCX \
         chooses among all NICs"
    );
    Ok(vec![
        Draft::warn(detail)
            .with([worker.flag_spot("disaggregation-ib-device").evidence()])
            .fix(format!(
                "set UCX_NET_DEVICES to {devices}, each with its port (`:1`)"
            )),
    ])
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::{Pod, alone, env, graph, lines, sglang, table, unread, vllm};
    use crate::report::Status::{Skipped, Warn};

    #[test]
    fn table_of_statuses() {
        const NIXL: &str =
            "--disaggregation-transfer-backend, nixl, --disaggregation-ib-device, mlx5_0";
        let nixl = sglang(NIXL);
        let with = |more: &str| graph(&lines(&[&nixl, more]));
        let backend = "SGLANG_DISAGGREGATION_NIXL_BACKEND";
        table(
            "ib-device-flag-ignored",
            &[
                ("nothing else selects NICs", graph(&nixl), &[Warn, Warn]),
                (
                    "parameters about something else",
                    with(&env(&[(super::PARAMS, "{}")])),
                    &[Warn, Warn],
                ),
                (
                    "parameters that select NICs",
                    with(&env(&[(super::PARAMS, r#"{"ucx_devices":"mlx5_0"}"#)])),
                    &[],
                ),
                (
                    "parameters that cannot be read",
                    with(&unread(super::PARAMS)),
                    &[Skipped, Skipped],
                ),
                (
                    "backend that cannot be read",
                    with(&unread(backend)),
                    &[Skipped, Skipped],
                ),
                ("LIBFABRIC", with(&env(&[(backend, "LIBFABRIC")])), &[]),
                (
                    "NICs by variable",
                    with(&env(&[("UCX_NET_DEVICES", "mlx5_0:1")])),
                    &[],
                ),
                (
                    "mooncake reads the flag",
                    graph(&sglang(&NIXL.replace("nixl", "mooncake"))),
                    &[],
                ),
                (
                    "without the flag",
                    graph(&sglang("--disaggregation-transfer-backend, nixl")),
                    &[],
                ),
                ("another engine", graph(&vllm("[\"UCX\"]")), &[]),
                ("aggregated", alone(Pod::of(&nixl)), &[]),
            ],
        );
    }
}
