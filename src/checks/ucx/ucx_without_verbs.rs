use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::facts::container::Seen;
use crate::facts::ucx_info::UcxInfo;
use crate::judge::context::Backend;
use crate::observed::Skip;
use crate::snapshot::evidence;

check! {
    /// The container has RDMA devices, and the UCX in use was built without verbs.
    ///
    /// ## Why it matters
    /// Everything below is right, and UCX sees network interfaces only: KV travels over TCP. One build took 1800 ms to start a
    /// transfer that takes 0.16 ms.
    ///
    /// ## Fix
    /// Use the UCX of the NIXL wheel, or build UCX `--with-verbs` with the headers of libibverbs present.
    ///
    /// ## Sources
    /// ai-dynamo/dynamo#1314, #3343, #1288, #1209; UCX v1.20.0 `src/uct/ib/configure.m4`.
    "UCX002" "ucx-without-verbs" on Container {
        subsystem: Ucx, kv_path: Required, worst: Fail, causes: &["UCX004"], since: "0.2.0",
    }
}

fn run(container: &Container<'_>) -> Outcome {
    let software = &container.facts.software;
    if container.is_pasted() && software.ucx.known().is_none() {
        return by_tool(container, software.ucx_devices.get()?);
    }
    if container.facts.rdma.usable_ports()?.is_empty() {
        return Err(Skip::not_applicable());
    }
    if matches!(
        container.context.backend,
        Backend::Libfabric | Backend::Other
    ) {
        return Err(Skip::not_applicable());
    }
    let fix = "use the UCX of the NIXL wheel, or one built --with-verbs";
    let (modules, ask) = software.ucx_modules()?;
    let shown: Vec<&str> = modules.iter().map(String::as_str).collect();
    let seen = [evidence(ask, shown)];
    let place = software.ucx_in_use()?;
    if modules.iter().any(|module| module.starts_with("uct_ib")) {
        let detail = format!("the UCX in {place} has its module for verbs");
        return Ok(vec![Draft::ok(detail).with(seen)]);
    }
    let detail = format!(
        "the UCX in {place} has no module for verbs, so RDMA ports that are ACTIVE are not used"
    );
    Ok(vec![container.broken(detail).with(seen).fix(fix)])
}

/// What a pasted `ucx_info -d` finds: a module that is there and finds no device is worth nothing.
fn by_tool(container: &Container<'_>, info: &Seen<UcxInfo>) -> Outcome {
    let transports = info.transports();
    let shown: Vec<&str> = transports.iter().copied().collect();
    let seen = [info.evidence([shown.join(" ").as_str()])];
    let is_rdma = |name: &&&str| {
        ["rc", "dc", "ud", "srd"].contains(&name.split('_').next().unwrap_or_default())
    };
    if let Some(found) = transports.iter().find(is_rdma) {
        return Ok(vec![
            Draft::ok(format!("UCX finds RDMA transports ({found})")).with(seen),
        ]);
    }
    let fix = "use the UCX of the NIXL wheel or one built --with-verbs, and grant the worker its RDMA devices";
    let usable = container.facts.rdma.usable_ports();
    let draft = match &usable {
        Ok(ports) if !ports.is_empty() => container.broken(
            "ucx_info -d finds no RDMA transport, though RDMA ports are ACTIVE: KV travels over TCP between nodes",
        ),
        _ => Draft::warn(
            "ucx_info -d finds no RDMA transport: it is built without verbs, or ran where no RDMA device is",
        ),
    };
    Ok(vec![
        draft
            .with(seen)
            .fix(fix)
            .headline("UCX finds no RDMA transport"),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::{NOTHING, changed, hca, verdict};
    use crate::report::Status;

    #[test]
    fn rdma_ports_need_the_module() {
        let with = |modules: &str| {
            let libraries = format!("/usr/local/ucx/lib/libucp.so.0\n{modules}");
            let answers = hca("mlx5_0", "4: ACTIVE", "open");
            verdict(
                run,
                "decode",
                &changed(&answers, &[(&ask::UCX_LIBRARIES, libraries.as_str())]),
            )
        };
        assert_eq!(
            with("/usr/local/ucx/lib/ucx/libuct_ib.so.0"),
            Ok(Status::Ok)
        );
        assert_eq!(
            with("/usr/local/ucx/lib/ucx/libuct_ib_mlx5.so.0"),
            Ok(Status::Ok)
        );
        assert_eq!(
            with("/usr/local/ucx/lib/ucx/libuct_cuda.so.0"),
            Ok(Status::Fail)
        );
    }

    #[test]
    fn a_place_that_moves_no_kv_is_only_warned() {
        let libraries = "/usr/local/ucx/lib/libucp.so.0";
        let answers = hca("mlx5_0", "4: ACTIVE", "open");
        let answers = changed(&answers, &[(&ask::UCX_LIBRARIES, libraries)]);
        assert_eq!(verdict(run, "agg", &answers), Ok(Status::Warn));
    }

    #[test]
    fn what_was_not_read_is_not_judged() {
        assert!(verdict(run, "decode", NOTHING).is_err());
        assert!(verdict(run, "decode", &hca("mlx5_0", "4: ACTIVE", "open")).is_err());
        let down = hca("mlx5_0", "1: DOWN", "open");
        assert_eq!(verdict(run, "decode", &down), Err(Skip::not_applicable()));
    }
}
