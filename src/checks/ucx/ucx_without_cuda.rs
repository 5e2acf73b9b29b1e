use crate::ask;
use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::facts::container::Seen;
use crate::facts::ucx_info::UcxInfo;
use crate::judge::context::Backend;
use crate::observed::Skip;
use crate::report::SkipReason;
use crate::snapshot::evidence;

check! {
    /// The UCX in use has no CUDA transports, and the container has GPUs.
    ///
    /// ## Why it matters
    /// Only `cuda_copy` recognises GPU memory. Without it NIXL refuses to register VRAM (from 1.0 on), or crashes later.
    ///
    /// ## Fix
    /// Use the UCX of the NIXL wheel, or build UCX `--with-cuda`. With two installations: LD_LIBRARY_PATH and UCX_MODULE_DIR
    /// decide which modules are found.
    ///
    /// ## Sources
    /// UCX v1.20.0 `cuda_copy_md.c`; ai-dynamo/nixl#1393, #1628; LMCache/LMCache#605, #725; openucx/ucx#9950, #10770.
    "UCX001" "ucx-without-cuda" on Container {
        subsystem: Ucx, kv_path: Required, worst: Fail, causes: &["UCX004"], since: "0.1.0",
    }
}

fn run(container: &Container<'_>) -> Outcome {
    let software = &container.facts.software;
    let has_gpu = match container.require_gpu() {
        Ok(()) => true,
        // A person pasted what UCX finds, and of the GPUs nothing.
        Err(skip) if container.is_pasted() && skip.reason == SkipReason::NotCollected => {
            software.ucx_devices.get()?;
            false
        }
        Err(skip) => return Err(skip),
    };
    if matches!(
        container.context.backend,
        Backend::Libfabric | Backend::Other
    ) {
        return Err(Skip::not_applicable());
    }
    let fix = "use the UCX of the NIXL wheel or one built --with-cuda; check LD_LIBRARY_PATH and UCX_MODULE_DIR";
    let modules = software.ucx_modules();
    if let Ok((modules, ask)) = &modules {
        let place = software.ucx_in_use()?;
        let seen = [evidence(ask, modules.iter().map(String::as_str))];
        if !modules.contains("uct_cuda") {
            let detail = format!(
                "the UCX in {place} has no module for CUDA, so GPU memory is taken for host memory"
            );
            return Ok(vec![container.broken(detail).with(seen).fix(fix)]);
        }
        if ask.id == ask::WORKER_LIBRARIES.id {
            let detail = format!("the worker has loaded the CUDA module of the UCX in {place}");
            return Ok(vec![Draft::ok(detail).with(seen)]);
        }
    }
    // What the tool finds with the same library counts more than a file that is there.
    if let Some(info) = tool_of_the_same_library(container)? {
        let transports = info.transports();
        let has = transports.contains("cuda_copy");
        let shown: Vec<&str> = transports.into_iter().collect();
        let seen = [info.evidence([shown.join(" ").as_str()])];
        if !has && !has_gpu {
            let detail =
                "ucx_info -d finds no cuda_copy: it is built without CUDA, or ran where no GPU is";
            return Ok(vec![
                Draft::warn(detail)
                    .with(seen)
                    .fix(fix)
                    .headline("UCX finds no cuda_copy"),
            ]);
        }
        if !has {
            let detail =
                "ucx_info -d finds no cuda_copy here, so GPU memory is taken for host memory";
            return Ok(vec![container.broken(detail).with(seen).fix(fix)]);
        }
        return Ok(vec![Draft::ok("UCX finds cuda_copy").with(seen)]);
    }
    let (modules, ask) = modules?;
    let detail = format!(
        "the UCX in {} has its module for CUDA",
        software.ucx_in_use()?
    );
    let seen = [evidence(ask, modules.iter().map(String::as_str))];
    Ok(vec![Draft::ok(detail).with(seen)])
}

/// What `ucx_info` finds, where it belongs to the UCX in use, or is all that a person handed in. `None` where it is not
/// installed or belongs to another UCX.
fn tool_of_the_same_library<'a>(
    container: &'a Container<'_>,
) -> Result<Option<&'a Seen<UcxInfo>>, Skip> {
    let software = &container.facts.software;
    // A tool that hung or was refused may have had something to say.
    let absent = |skip: Skip| match skip.reason {
        SkipReason::NotFound | SkipReason::NotCollected => Ok(None),
        _ => Err(skip),
    };
    let found = match software.ucx_devices.get() {
        Ok(found) => found,
        Err(skip) => return absent(skip),
    };
    if matches!(software.ucx.get(), Err(skip) if skip.reason == SkipReason::NotCollected) {
        return Ok(Some(found));
    }
    let build = match software.ucx_build.get() {
        Ok(build) => build,
        Err(skip) => return absent(skip),
    };
    let path = build
        .build
        .path
        .as_deref()
        .and_then(|path| path.rsplit_once('/'));
    let in_use = software.ucx_in_use()?;
    Ok(path
        .is_some_and(|(directory, _)| directory == in_use)
        .then_some(found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::testing::{NOTHING, verdict};
    use crate::report::Status;

    const GPU: (&ask::Ask, &str) = (&ask::DEV_GPU, "/dev/nvidia0: char rw");
    const BOTH: &str = "/usr/local/ucx/lib/libucp.so.0\n/usr/local/ucx/lib/ucx/libuct_cuda.so.0\n/usr/local/ucx/lib/ucx/libuct_ib.so.0";
    const NO_CUDA: &str = "/usr/local/ucx/lib/libucp.so.0\n/usr/local/ucx/lib/ucx/libuct_ib.so.0";

    #[test]
    fn the_ucx_in_use_needs_its_module() {
        let with =
            |libraries: &str| verdict(run, "decode", &[GPU, (&ask::UCX_LIBRARIES, libraries)]);
        assert_eq!(with(BOTH), Ok(Status::Ok));
        assert_eq!(with(NO_CUDA), Ok(Status::Fail));
        assert!(with("").is_err());
        assert_eq!(
            verdict(run, "agg", &[GPU, (&ask::UCX_LIBRARIES, NO_CUDA)]),
            Ok(Status::Warn)
        );
        // What the worker has loaded decides between two.
        let other = format!("{BOTH}\n/usr/lib64/libucp.so.0");
        let mapped = "/usr/lib64/libucp.so.0\n/usr/lib64/ucx/libuct_ib.so.0";
        let loaded = [
            GPU,
            (&ask::UCX_LIBRARIES, other.as_str()),
            (&ask::WORKER_LIBRARIES, mapped),
        ];
        assert_eq!(verdict(run, "decode", &loaded), Ok(Status::Fail));
    }

    #[test]
    fn a_pasted_ucx_info_answers_for_itself() {
        let resource = |name: &str| {
            format!("# Memory domain: x\n#      Transport: {name}\n#         Device: y\n")
        };
        for (text, status) in [
            (resource("cuda_copy"), Status::Ok),
            (resource("tcp"), Status::Fail),
        ] {
            let answers = [GPU, (&ask::UCX_INFO, text.as_str())];
            assert_eq!(verdict(run, "decode", &answers), Ok(status));
        }
    }

    #[test]
    fn what_was_not_read_is_not_judged() {
        assert!(verdict(run, "decode", NOTHING).is_err());
        assert!(verdict(run, "decode", &[GPU]).is_err());
        let none = [(&ask::DEV_GPU, ""), (&ask::UCX_LIBRARIES, NO_CUDA)];
        assert_eq!(verdict(run, "decode", &none), Err(Skip::not_applicable()));
    }
}
