use crate::ask;
use crate::check;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::{Container, asked};
use crate::facts::limits::Limit;
use crate::observed::Skip;
use crate::report::Status;

check! {
    /// The limit on locked memory is too small to register memory.
    ///
    /// Limit and capability count together: with CAP_IPC_LOCK effective, in the first user namespace, the limit does not
    /// matter. A capability that the manifest adds is not effective in a container whose user is not root.
    ///
    /// ## Why it matters
    /// Registration for RDMA pins memory. `ibv_reg_mr` fails with ENOMEM, UCX leaves its InfiniBand transports out, NCCL falls
    /// back to sockets. GPU memory itself is not counted, rings and bounce buffers are.
    ///
    /// ## Fix
    /// Add IPC_LOCK and run as root, or raise the limit of the container runtime (`LimitMEMLOCK=infinity` for containerd).
    ///
    /// ## False alarms
    /// `ulimit -l` of 8192 in a root container with IPC_LOCK is fine; UCX may still warn about the limit.
    ///
    /// ## Sources
    /// Linux `drivers/infiniband/core/umem.c`; NVIDIA/nvidia-container-toolkit#2037 (measured); openucx/ucx#8085 (512 MB);
    /// NVIDIA/nvcf#1353.
    "MEM001" "memlock-limited" on Container {
        subsystem: Memory, kv_path: Required, worst: Fail, causes: &["K8S007", "K8S008"], since: "0.1.0",
    }
}

/// What container runtimes set by default: 8 MiB. Rings and bounce buffers need more.
/// <https://github.com/NVIDIA/nvidia-container-toolkit/issues/2037>
const FAIL_UP_TO: u64 = 8 << 20;

/// Below this UCX leaves its InfiniBand transports out, in bytes.
/// <https://github.com/openucx/ucx/issues/8085>
const WARN_BELOW: u64 = 512 << 20;

fn run(container: &Container<'_>) -> Outcome {
    let process = &container.facts.process;
    let devices = container.facts.rdma.devices.known();
    if devices.is_some_and(|devices| devices.is_empty()) {
        // Nothing is registered for RDMA where there is none.
        return Err(Skip::not_applicable());
    }
    let memlock = process.memlock.get()?;
    let whose = match process.worker_word() {
        Some(word) => format!("the worker ({word})"),
        None if memlock.ask.id == ask::ULIMIT.id => "the shell that printed it".to_owned(),
        None => format!("a process of {}", container.called()),
    };
    let limit = match memlock.soft {
        Limit::Unlimited => {
            let detail = format!("RLIMIT_MEMLOCK of {whose} is unlimited");
            let seen = [memlock.evidence(["Max locked memory unlimited"])];
            return Ok(vec![Draft::ok(detail).with(seen)]);
        }
        Limit::Bytes(bytes) => bytes,
    };
    let shown = size(limit, memlock.ask.id == ask::ULIMIT.id);
    let line = format!("Max locked memory {limit} bytes");
    let mut seen = vec![memlock.evidence([line.as_str()])];
    if limit >= WARN_BELOW {
        let detail =
            format!("RLIMIT_MEMLOCK of {whose} is {shown} (ok from 512 MB on: openucx/ucx#8085)");
        return Ok(vec![Draft::ok(detail).with(seen)]);
    }
    let (lifted, why) = match (process.capabilities.get(), process.uid_map.get()) {
        (Ok(capabilities), uid_map) if capabilities.has_ipc_lock() => {
            let bits = format!("CapEff {:016x}", capabilities.effective);
            seen.push(capabilities.evidence([bits.as_str()]));
            match uid_map {
                Ok(map) if map.is_initial_namespace() => (Some(true), "CAP_IPC_LOCK is effective"),
                Ok(map) => {
                    seen.push(map.evidence([format!("{:?}", map.ranges).as_str()]));
                    (
                        Some(false),
                        "CAP_IPC_LOCK counts only in the first user namespace",
                    )
                }
                Err(_) => (
                    None,
                    "whether CAP_IPC_LOCK counts in this user namespace was not seen",
                ),
            }
        }
        (Ok(capabilities), _) => {
            let bits = format!("CapEff {:016x}", capabilities.effective);
            seen.push(capabilities.evidence([bits.as_str()]));
            (Some(false), "CAP_IPC_LOCK is not effective")
        }
        (Err(_), _) => (None, "whether CAP_IPC_LOCK lifts it was not seen"),
    };
    let detail = format!("RLIMIT_MEMLOCK of {whose} is {shown}; {why}");
    if lifted == Some(true) {
        return Ok(vec![Draft::ok(detail).with(seen)]);
    }
    let source = if limit <= FAIL_UP_TO {
        "up to 8 MiB, the default of container runtimes, registration for RDMA fails; UCX wants 512 MB: openucx/ucx#8085"
    } else {
        "UCX leaves InfiniBand out below 512 MB: openucx/ucx#8085"
    };
    let detail = format!("{detail} ({source})");
    let has_lock = process
        .capabilities
        .known()
        .is_some_and(|has| has.has_ipc_lock());
    let fix = match has_lock && lifted == Some(false) {
        true => {
            "run the pod in the node's user namespace (hostUsers), or raise LimitMEMLOCK of the container runtime"
        }
        false => asked::ipc_lock(container),
    };
    let draft = if limit <= FAIL_UP_TO && lifted == Some(false) {
        container.broken(detail)
    } else {
        Draft::warn(detail)
    };
    let headline = match lifted {
        Some(_) => format!("locked memory is limited to {shown}, and {why}"),
        None => format!("locked memory is limited to {shown}; {why}"),
    };
    Ok(vec![draft.headline(headline).with(seen).fix(fix)])
}

/// The limit was read, and it is no limit to RDMA.
pub(crate) fn is_enough(container: &Container<'_>) -> bool {
    run(container).is_ok_and(|drafts| drafts.iter().all(|draft| draft.status == Status::Ok))
}

/// Bytes as a person reads them; with what `ulimit -l` shows, which counts in units of 1024 bytes.
fn size(bytes: u64, of_ulimit: bool) -> String {
    let words = match bytes {
        _ if bytes > 0 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes > 0 && bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} bytes"),
    };
    if of_ulimit {
        format!("{words} (ulimit -l: {})", bytes >> 10)
    } else {
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::{NOTHING, outcome, pasted, verdict};

    const INITIAL: &str = "         0          0 4294967295";

    fn with(limit: &str, capabilities: &str, uid_map: &str, role: &str) -> Status {
        let limits =
            format!("Max locked memory         {limit}              {limit}              bytes");
        let status = format!("CapEff:\t{capabilities}");
        let answers = [
            (&ask::WORKER_PROCESS, "17: dynamo.vllm"),
            (&ask::WORKER_LIMITS, limits.as_str()),
            (&ask::WORKER_STATUS, status.as_str()),
            (&ask::UID_MAP, uid_map),
        ];
        verdict(run, role, &answers).unwrap()
    }

    #[test]
    fn limit_and_capability_count_together() {
        let (none, lock) = ("00000000a80425fb", "00000000a80465fb");
        for (limit, capabilities, map, role, status) in [
            ("unlimited", none, INITIAL, "decode", Status::Ok),
            ("8388608", lock, INITIAL, "decode", Status::Ok),
            ("8388608", none, INITIAL, "decode", Status::Fail),
            ("65536", none, INITIAL, "decode", Status::Fail),
            ("65536", none, INITIAL, "agg", Status::Warn),
            ("8388609", none, INITIAL, "decode", Status::Warn),
            ("536870911", none, INITIAL, "decode", Status::Warn),
            ("536870912", none, INITIAL, "decode", Status::Ok),
            ("8388608", lock, "0 100000 65536", "decode", Status::Fail),
        ] {
            assert_eq!(
                with(limit, capabilities, map, role),
                status,
                "{limit} {capabilities} {map}"
            );
        }
    }

    #[test]
    fn a_capability_that_is_there_is_not_asked_for() {
        let fix = |capabilities: &str, map: &str, spec: &str| {
            let answers = [
                (&ask::WORKER_PROCESS, "17: dynamo.vllm"),
                (&ask::WORKER_LIMITS, "Max locked memory 65536 65536 bytes"),
                (&ask::WORKER_STATUS, capabilities),
                (&ask::UID_MAP, map),
                (&ask::POD_SPEC, spec),
            ];
            let snapshot = crate::checks::testing::container("decode", &answers);
            let draft = outcome(run, &snapshot).unwrap().remove(0);
            draft.fix.unwrap()
        };
        let (none, lock) = ("CapEff:\t00000000a80425fb", "CapEff:\t00000000a80465fb");
        let own = fix(lock, "0 100000 65536", "");
        assert!(
            own.contains("user namespace") && !own.contains("IPC_LOCK"),
            "{own}"
        );
        let user = fix(none, INITIAL, "capabilities: IPC_LOCK\n");
        assert!(user.contains("runAsUser: 0"), "{user}");
        assert!(fix(none, INITIAL, "").starts_with("add IPC_LOCK"));
    }

    #[test]
    fn what_was_pasted_is_said_in_its_own_unit_and_what_was_not_seen_is_not_claimed() {
        for (limit, shown) in [
            ("64", "64 KiB (ulimit -l: 64)"),
            ("8192", "8 MiB (ulimit -l: 8192)"),
            ("65536", "64 MiB (ulimit -l: 65536)"),
        ] {
            let snapshot = pasted(&[(&ask::ULIMIT, limit)]);
            let draft = outcome(run, &snapshot).unwrap().remove(0);
            let headline = draft.headline.unwrap();
            assert!(draft.detail.contains(shown), "{}", draft.detail);
            assert!(
                headline.contains(shown) && headline.ends_with("was not seen"),
                "{headline}"
            );
            assert!(!draft.detail.contains("about 64 MiB"), "{}", draft.detail);
        }
    }

    #[test]
    fn what_was_not_read_is_not_ok() {
        assert!(verdict(run, "decode", NOTHING).is_err());
        let none = [(&ask::ULIMIT, "64"), (&ask::RDMA_PORTS, "")];
        assert_eq!(verdict(run, "decode", &none), Err(Skip::not_applicable()));
        let pasted = [(&ask::ULIMIT, "64")];
        assert_eq!(verdict(run, "decode", &pasted), Ok(Status::Warn));
        let worker = [
            (&ask::WORKER_PROCESS, "17: dynamo.vllm"),
            (&ask::LIMITS, "Max locked memory unlimited unlimited bytes"),
        ];
        assert!(verdict(run, "decode", &worker).is_err());
        let no_map = [
            (&ask::LIMITS, "Max locked memory 65536 65536 bytes"),
            (&ask::STATUS, "CapEff:\t00000000a80465fb"),
        ];
        assert_eq!(verdict(run, "decode", &no_map), Ok(Status::Warn));
    }
}
