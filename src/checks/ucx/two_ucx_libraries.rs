use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::observed::Skip;

check! {
    /// The worker has loaded two UCX libraries.
    ///
    /// ## Why it matters
    /// Two copies install memory hooks over each other and look for modules in each other's place: NIXL_ERR_BACKEND or a crash
    /// while GPU memory is registered.
    ///
    /// ## Fix
    /// Leave one: take the system's UCX out of LD_LIBRARY_PATH, or build NIXL against it.
    ///
    /// ## False alarms
    /// Two installations in the image are normal (the wheel brings its own); only what one process has loaded counts.
    ///
    /// ## Sources
    /// ai-dynamo/nixl#334.
    "UCX003" "two-ucx-libraries" on Container {
        subsystem: Ucx, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

fn run(container: &Container<'_>) -> Outcome {
    let software = &container.facts.software;
    let workers = container.facts.process.workers.known();
    if workers.is_some_and(|workers| workers.is_empty()) {
        return Err(Skip::not_applicable());
    }
    let loaded: Vec<&str> = software.ucx_loaded()?.into_iter().collect();
    let seen = [software.mapped.get()?.evidence(loaded.iter().copied())];
    match loaded.as_slice() {
        // Not loaded yet, or another mover.
        [] => Err(Skip::not_applicable()),
        [one] => {
            let detail = format!("the worker has loaded one UCX, from {one}");
            Ok(vec![Draft::ok(detail).with(seen)])
        }
        many => {
            let detail = format!(
                "the worker has loaded {} UCX libraries: {}",
                many.len(),
                many.join(", ")
            );
            let fix = "leave one of them: take the other out of LD_LIBRARY_PATH";
            Ok(vec![Draft::warn(detail).with(seen).fix(fix)])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::{NOTHING, verdict};
    use crate::report::Status;

    #[test]
    fn one_process_one_ucx() {
        let with = |text| verdict(run, "decode", &[(&ask::WORKER_LIBRARIES, text)]);
        assert_eq!(with("/a/libucp.so.0\n/a/libucs.so.0"), Ok(Status::Ok));
        assert_eq!(
            with("/a/libucp.so.0\n/b/nixl_cu12.libs/libucp-1a2b.so.0"),
            Ok(Status::Warn)
        );
        assert_eq!(with("/a/libnccl.so.2"), Err(Skip::not_applicable()));
        assert!(verdict(run, "decode", NOTHING).is_err());
    }
}
