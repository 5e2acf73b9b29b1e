use crate::check;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::words::listed;
use crate::checks::{Container, asked};
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
        subsystem: Ucx, kv_path: Required, worst: Fail, causes: &["UCX004"], since: "0.1.0",
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
    let line = match shown.as_slice() {
        [] => "no transport".to_owned(),
        shown => shown.join(" "),
    };
    let seen = [info.evidence([line.as_str()])];
    let is_rdma = |name: &&&str| {
        ["rc", "dc", "ud", "srd"].contains(&name.split('_').next().unwrap_or_default())
    };
    let found: Vec<&str> = transports.iter().filter(|t| is_rdma(t)).copied().collect();
    let closed: Vec<&str> = info.closed().collect();
    if !found.is_empty() {
        let beside = match closed.as_slice() {
            [] => String::new(),
            closed => format!("; it cannot open {}", listed(closed)),
        };
        let detail = format!("UCX finds RDMA transports ({}){beside}", found.join(", "));
        return Ok(vec![Draft::ok(detail).with(seen)]);
    }
    if !closed.is_empty() {
        let lines = closed
            .iter()
            .map(|name| format!("{name}: failed to open memory domain"));
        let lines: Vec<String> = lines.collect();
        let detail = format!(
            "ucx_info -d sees {} and cannot open it: it was not granted, or its node may not be opened, so no RDMA transport is left",
            listed(&closed)
        );
        let draft = container
            .broken(detail)
            .with([info.evidence(lines.iter().map(String::as_str))])
            .headline(format!("UCX cannot open {}", listed(&closed)))
            .fix(format!(
                "{}; see what `ibv_devinfo` says there",
                asked::rdma(
                    container,
                    "request the RDMA resource in this container, so that its nodes in /dev/infiniband open"
                )
            ));
        return Ok(vec![draft]);
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
    use crate::checks::testing::{NOTHING, changed, hca, outcome, pasted, verdict};
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
    fn a_device_that_cannot_be_opened_is_no_build_without_verbs() {
        let with = |text: &str| {
            let snapshot = pasted(&[(&ask::UCX_INFO_DEVICES, text)]);
            outcome(run, &snapshot).unwrap().remove(0)
        };
        let head = "# Memory domain: self\n#     Component: self\n#      Transport: self\n#         Device: memory\n";
        for closed in [
            "# Memory domain: mlx5_0\n#   < failed to open memory domain >\n",
            "#   < failed to open memory domain mlx5_0 >\n",
        ] {
            let draft = with(&format!("{head}{closed}"));
            assert_eq!(draft.status, Status::Fail);
            assert_eq!(draft.headline.unwrap(), "UCX cannot open mlx5_0");
            assert!(!draft.detail.contains("built without"), "{}", draft.detail);
            assert!(draft.evidence[0].excerpt.contains("mlx5_0"));
        }
        // That of a GPU is none of the network.
        let other = with(&format!(
            "{head}# Memory domain: cuda_cpy\n#   < failed to open memory domain >\n"
        ));
        assert!(
            other.detail.contains("built without verbs"),
            "{}",
            other.detail
        );
        let device = |name: &str| format!("#      Transport: {name}\n#         Device: mlx5_0:1\n");
        let both = with(&format!(
            "{head}# Memory domain: mlx5_0\n{}{}",
            device("dc_mlx5"),
            device("rc_mlx5")
        ));
        assert_eq!(both.status, Status::Ok);
        assert!(
            both.detail.contains("(dc_mlx5, rc_mlx5)"),
            "{}",
            both.detail
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
