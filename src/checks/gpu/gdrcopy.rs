use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::judge::context::{Backend, Tri};
use crate::observed::Skip;
use crate::report::SkipReason;

check! {
    /// GDRCopy is not in the container.
    ///
    /// ## Why it matters
    /// It copies small pieces of GPU memory by the CPU. It is not GPUDirect RDMA and large KV does not need it: UCX in NIXL from
    /// 1.1 on is built without it, and NCCL uses it only when told. Only NIXL's LIBFABRIC backend on EFA is measured with it.
    ///
    /// ## Fix
    /// On EFA with LIBFABRIC: load `gdrdrv` on the node and give the container `/dev/gdrdrv`. Elsewhere: nothing.
    ///
    /// ## Sources
    /// NIXL 1.1.0 `contrib/Dockerfile` (`--without-gdrcopy`); libfabric `fi_efa(7)`; Dynamo guide "EFA on AWS"; NVIDIA/gdrcopy#234.
    "GPU002" "gdrcopy" on Container {
        subsystem: Gpu, kv_path: Off, worst: Warn, causes: &[], since: "0.1.0",
    }
}

fn run(container: &Container<'_>) -> Outcome {
    let facts = &container.facts;
    container.require_gpu()?;
    let nodes = facts.gpu.nodes.get()?;
    let node = nodes.get("/dev/gdrdrv");
    let line = match node {
        Some(node) if node.is_open => "/dev/gdrdrv: may be opened",
        Some(_) => "/dev/gdrdrv: may not be opened",
        None => "no /dev/gdrdrv",
    };
    let seen = [nodes.evidence([line])];
    if node.is_some_and(|node| node.is_open) {
        return Ok(vec![Draft::ok("gdrcopy is available").with(seen)]);
    }
    let loaded = match facts.host.has_module("gdrdrv") {
        Ok(true) => "; gdrdrv is loaded on the node",
        _ => "",
    };
    match (container.context.efa, container.context.backend) {
        (Tri::Yes, Backend::Libfabric) => {
            let detail = format!("{line}{loaded}; the guide for LIBFABRIC on EFA asks for it");
            let fix = "load gdrdrv on the node and give the container /dev/gdrdrv";
            return Ok(vec![Draft::warn(detail).with(seen).fix(fix)]);
        }
        (Tri::Yes, Backend::Unknown) | (Tri::Unknown, _) => {
            let detail = format!("{line}{loaded}; whether LIBFABRIC on EFA wants it was not seen");
            return Err(Skip::new(SkipReason::NotCollected, detail));
        }
        _ => {}
    }
    let detail = format!("{line}{loaded}; large KV does not need it");
    Ok(vec![Draft::ok(detail).with(seen)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::{NOTHING, changed, hca, verdict};
    use crate::report::Status;

    #[test]
    fn it_is_information_but_on_efa() {
        let with = |nodes: &str, libraries: &str, driver: &str| {
            let nodes = format!("/dev/nvidia0: char rw\n{nodes}");
            let bus = format!(
                "/sys/class/infiniband/rdmap0/device: /sys/devices/x\n/sys/class/infiniband/rdmap0/device/driver: {driver}"
            );
            let other = [
                (&ask::DEV_GPU, nodes.as_str()),
                (&ask::WORKER_LIBRARIES, libraries),
                (&ask::RDMA_PCI, bus.as_str()),
            ];
            verdict(
                run,
                "decode",
                &changed(&hca("rdmap0", "4: ACTIVE", "open"), &other),
            )
        };
        let libfabric = "/x/libplugin_LIBFABRIC.so";
        assert_eq!(
            with("/dev/gdrdrv: char rw", libfabric, "efa"),
            Ok(Status::Ok)
        );
        assert_eq!(with("", libfabric, "efa"), Ok(Status::Warn));
        assert_eq!(
            with("/dev/gdrdrv: char -", libfabric, "efa"),
            Ok(Status::Warn)
        );
        assert_eq!(with("", "/x/libplugin_UCX.so", "efa"), Ok(Status::Ok));
        assert_eq!(with("", libfabric, "mlx5_core"), Ok(Status::Ok));
        assert!(verdict(run, "decode", NOTHING).is_err());
    }
}
