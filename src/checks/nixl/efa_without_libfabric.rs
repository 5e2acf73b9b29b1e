use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::judge::context::{Backend, Tri};
use crate::observed::Skip;
use crate::report::SkipReason;
use crate::snapshot::evidence;

check! {
    /// The container has EFA devices, and its worker moves KV with another backend than LIBFABRIC.
    ///
    /// ## Why it matters
    /// UCX emulates remote writes on EFA: about 1 GB/s was measured, against 9.6 GB/s with LIBFABRIC on four devices.
    ///
    /// ## Fix
    /// vLLM: `"kv_connector_extra_config": {"backends": ["LIBFABRIC"]}`. SGLang: SGLANG_DISAGGREGATION_NIXL_BACKEND=LIBFABRIC.
    /// TensorRT-LLM: TRTLLM_NIXL_KVCACHE_BACKEND=LIBFABRIC; its own guide also names UCX, so there it is a warning. The image
    /// must hold NIXL's plugin.
    ///
    /// ## Sources
    /// Dynamo guide "EFA on AWS"; ai-dynamo/nixl#909; vllm-project/vllm#41814; ai-dynamo/dynamo#4185.
    "NIXL001" "efa-without-libfabric" on Container {
        subsystem: Nixl, kv_path: Required, worst: Fail, causes: &["GPU002"], since: "0.1.0",
    }
}

fn run(container: &Container<'_>) -> Outcome {
    let facts = &container.facts;
    let own = facts.rdma.own()?;
    let efa: Vec<&str> = own
        .iter()
        .filter(|device| device.is_efa())
        .map(|device| device.hca.name.as_str())
        .collect();
    if container.context.efa != Tri::Yes {
        let unknown = own
            .iter()
            .any(|d| d.driver.is_none() && d.hca.vendor.is_none());
        if unknown && container.is_pasted() {
            return Err(Skip::not_pasted(["ibv-devinfo"]));
        }
        if unknown {
            let detail =
                "the drivers of the RDMA devices were not seen, so whether one is EFA is not known";
            return Err(Skip::new(SkipReason::NotCollected, detail));
        }
        return Err(Skip::not_applicable());
    }
    let devices = facts.rdma.devices.get()?.evidence(efa.iter().copied());
    if let Some(plugins) = facts.software.nixl_plugins.known()
        && !plugins.is_empty()
        && !plugins.contains_key("LIBFABRIC")
    {
        let shown: Vec<&str> = plugins.keys().map(String::as_str).collect();
        let seen = [devices, plugins.evidence([shown.join(" ").as_str()])];
        let detail = format!(
            "{} EFA devices, and NIXL here has no LIBFABRIC plugin ({})",
            efa.len(),
            shown.join(", ")
        );
        let fix =
            "use an image whose NIXL has libplugin_LIBFABRIC.so (the EFA variant of the runtime)";
        return Ok(vec![severity(container, detail).with(seen).fix(fix)]);
    }
    let said = said(container);
    match container.context.backend {
        Backend::Libfabric => {
            let detail = format!("{} EFA devices with the LIBFABRIC backend", efa.len());
            Ok(vec![Draft::ok(detail).with(said).with([devices])])
        }
        Backend::Unknown => {
            let detail = "there are EFA devices, and which backend the worker uses was not seen";
            Err(Skip::new(SkipReason::Unresolved, detail))
        }
        Backend::Ucx | Backend::Other => {
            let detail = format!(
                "{} EFA devices, and the worker moves KV with another backend than LIBFABRIC",
                efa.len()
            );
            let fix = "select LIBFABRIC in the engine's settings (see `explain NIXL001`)";
            Ok(vec![
                severity(container, detail)
                    .with(said)
                    .with([devices])
                    .fix(fix),
            ])
        }
    }
}

/// TensorRT-LLM's own guide names UCX on EFA.
fn severity(container: &Container<'_>, detail: String) -> Draft {
    let word = container.facts.process.worker_word().unwrap_or_default();
    if word.contains("trtllm") {
        Draft::warn(detail)
    } else {
        container.broken(detail)
    }
}

/// What says which backend it is.
fn said(container: &Container<'_>) -> Option<crate::report::Evidence> {
    let facts = &container.facts;
    for name in [
        "SGLANG_DISAGGREGATION_NIXL_BACKEND",
        "TRTLLM_NIXL_KVCACHE_BACKEND",
    ] {
        if let Ok(settings) = facts.process.in_force()
            && let Some(setting) = settings.get(name)
        {
            let line = format!("{name}={}", setting.value);
            return Some(evidence(setting.ask, [line.as_str()]));
        }
    }
    let mapped = facts.software.mapped.known()?;
    let plugin = mapped.iter().find(|path| path.contains("libplugin_"))?;
    Some(mapped.evidence([plugin.as_str()]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::{Answers, NOTHING, changed, hca, verdict};
    use crate::report::Status;

    fn efa(plugins: &str, mapped: &str, process: &str) -> Answers {
        let bus = "/sys/class/infiniband/rdmap0/device: /sys/devices/x\n/sys/class/infiniband/rdmap0/device/driver: efa";
        let environment = format!("# process {process}\n");
        let other = [
            (&ask::RDMA_PCI, bus),
            (&ask::NIXL_PLUGINS, plugins),
            (&ask::WORKER_LIBRARIES, mapped),
            (&ask::ENVIRONMENT, environment.as_str()),
        ];
        changed(&hca("rdmap0", "4: ACTIVE", "open"), &other)
    }

    #[test]
    fn efa_wants_libfabric() {
        let (ucx, libfabric) = ("/x/libplugin_UCX.so", "/x/libplugin_LIBFABRIC.so");
        let both = format!("{ucx}\n{libfabric}");
        let vllm = "7 dynamo.vllm";
        assert_eq!(
            verdict(run, "decode", &efa(&both, libfabric, vllm)),
            Ok(Status::Ok)
        );
        assert_eq!(
            verdict(run, "decode", &efa(&both, ucx, vllm)),
            Ok(Status::Fail)
        );
        assert_eq!(
            verdict(run, "decode", &efa(ucx, ucx, vllm)),
            Ok(Status::Fail)
        );
        assert_eq!(
            verdict(run, "agg", &efa(&both, ucx, vllm)),
            Ok(Status::Warn)
        );
        assert_eq!(
            verdict(run, "decode", &efa(&both, ucx, "7 dynamo.trtllm")),
            Ok(Status::Warn)
        );
        let sglang = "7 dynamo.sglang\nSGLANG_DISAGGREGATION_NIXL_BACKEND=LIBFABRIC";
        assert_eq!(
            verdict(run, "decode", &efa(&both, &both, sglang)),
            Ok(Status::Ok)
        );
        // NIXL may load every plugin it finds.
        assert!(verdict(run, "decode", &efa(&both, &both, vllm)).is_err());
    }

    #[test]
    fn what_was_not_read_is_not_judged() {
        assert!(verdict(run, "decode", NOTHING).is_err());
        let mlx5 = hca("mlx5_0", "4: ACTIVE", "open");
        assert_eq!(verdict(run, "decode", &mlx5), Err(Skip::not_applicable()));
        let mut unknown = mlx5;
        unknown.retain(|(a, _)| a.id != ask::RDMA_ATTRIBUTES.id);
        let skip = verdict(run, "decode", &unknown).unwrap_err();
        assert_eq!(skip.reason, SkipReason::NotCollected);
    }
}
