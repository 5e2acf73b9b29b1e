use crate::check;
use crate::checks::WorkerScope;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::pasting;
use crate::judge;
use crate::judge::context::Backend;
use crate::manifest::workload::Engine;
use crate::observed::Skip;
use crate::report::Status;

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
    if worker.engine != Some(Engine::Sglang) || worker.env.contains_key(NAME) {
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
    let mut draft = Draft::warn(detail)
        .with([worker.flag_spot("disaggregation-ib-device").evidence()])
        .fix(format!(
            "set UCX_NET_DEVICES to {devices}, each with its port (`:1`)"
        ));
    // Few ports for many GPUs are as wrong by the variable.
    let right =
        |ports: &String| judge::judge(NAME, Some(ports), &scope.context()).status == Status::Ok;
    let ports = ports(devices).filter(right);
    draft.paste = ports.map(|ports| scope.for_container(&pasting::entry(NAME, &ports)));
    Ok(vec![draft])
}

const NAME: &str = "UCX_NET_DEVICES";

/// The devices of the flag with their first ports. None where it holds another thing than names: a map by GPU, a file.
fn ports(devices: &str) -> Option<String> {
    let is_name = |name: &str| {
        name.starts_with("mlx5_") && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let names: Vec<&str> = devices.split(',').map(str::trim).collect();
    let all = names.iter().all(|name| is_name(name));
    let ports: Vec<String> = names.iter().map(|name| format!("{name}:1")).collect();
    all.then(|| ports.join(","))
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

    #[test]
    fn names_are_pasted_with_their_port_and_nothing_else_is() {
        for (devices, expected) in [
            ("mlx5_0", Some("mlx5_0:1")),
            ("mlx5_0,mlx5_1", Some("mlx5_0:1,mlx5_1:1")),
            ("mlx5_0:2", None),
            ("{\"0\":\"mlx5_0\"}", None),
            ("/etc/map.json", None),
            ("", None),
        ] {
            assert_eq!(super::ports(devices).as_deref(), expected, "{devices}");
        }
    }
}
