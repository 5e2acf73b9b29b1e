use crate::check;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::registration;
use crate::checks::words::counted;
use crate::checks::{Container, asked};
use crate::facts::container::Seen;
use crate::facts::ucx_log::{Registration, UcxLog, UnavailableKind};
use crate::observed::Skip;
use crate::report::SkipReason;

check! {
    /// UCX says that it drops a device, a transport or a setting, or that a transfer failed.
    ///
    /// From a log that a person hands in, and from what `ucx_info` prints here.
    ///
    /// ## Why it matters
    /// UCX goes on with what is left after one warning. What is left may be TCP.
    ///
    /// ## Fix
    /// Correct or remove the variable that names what is not there. A name that is right and "not available" means that the
    /// device or module is missing in this container.
    ///
    /// ## Sources
    /// UCX v1.20.0 `ucp_context.c`, `ib_mlx5_log.c`; LMCache/LMCache#725; ai-dynamo/dynamo#1209; openucx/ucx#9515, #9970,
    /// #9908, #10966.
    "UCX004" "ucx-complaints" on Container {
        subsystem: Ucx, kv_path: Supporting, worst: Fail, causes: &[], since: "0.1.0",
    }
}

fn run(container: &Container<'_>) -> Outcome {
    let logs = &container.facts.logs;
    let mut drafts = Vec::new();
    if let Some(log) = logs.ucx_tool.known() {
        drafts.extend(complaints(container, log));
    }
    match logs.ucx.get() {
        Ok(log) => {
            drafts.extend(complaints(container, log));
            if drafts.is_empty()
                && let Some(unknown) = unknown(log)
            {
                drafts.push(unknown);
            }
            if drafts.is_empty() {
                let detail = format!("{} of UCX without a complaint", counted(log.lines, "line"));
                let seen = [log.evidence([detail.as_str()])];
                drafts.push(Draft::ok(detail.clone()).with(seen));
            }
        }
        Err(skip) if skip.reason == SkipReason::NotCollected && drafts.is_empty() => {
            return Err(Skip::not_applicable());
        }
        Err(skip) if drafts.is_empty() => return Err(skip),
        Err(_) => {}
    }
    Ok(drafts)
}

/// Errors and warnings that are none of the faults known here: a log with them is no clean one.
fn unknown(log: &Seen<UcxLog>) -> Option<Draft> {
    let (errors, warnings) = (log.errors.total(), log.warnings.total());
    let missing_ways = match log.reaches_gpu_memory() {
        Some(true) => 0,
        _ => log.missing_ways(),
    };
    let first = log.errors.messages().iter().chain(log.warnings.messages());
    let lines: Vec<&str> = first.map(|message| message.first.as_str()).collect();
    let mut parts = Vec::new();
    for (n, what) in [(errors, "error"), (warnings, "warning")] {
        if n > 0 {
            parts.push(counted(n, what));
        }
    }
    if missing_ways > 0 {
        let lines = counted(missing_ways, "line");
        parts.push(format!(
            "{lines} of debugging that a way to GPU memory is missing"
        ));
    }
    if parts.is_empty() {
        return None;
    }
    let first = lines
        .first()
        .map_or(String::new(), |line| format!("; look at: {line}"));
    let fault = match (parts.as_slice(), errors + warnings) {
        ([_], 0 | 1) => "which is no fault known here by itself",
        _ => "none of which is a fault known here",
    };
    let detail = format!(
        "the log of UCX holds {}, {fault} and proves nothing{first}",
        parts.join(" and ")
    );
    let skip = Skip::new(SkipReason::Unparsable, detail);
    Some(Draft::skipped(skip).with([log.evidence(lines)]))
}

fn complaints(container: &Container<'_>, log: &Seen<UcxLog>) -> Vec<Draft> {
    let mut drafts = Vec::new();
    let mut add = |draft: Draft, line: &str, fix: &str| {
        let words = draft.headline.clone().unwrap_or(draft.detail.clone());
        let draft = draft.headline(crate::sanitise::line(&words, 120));
        drafts.push(draft.with([log.evidence([line])]).fix(fix));
    };
    if log.has_no_usable_transport {
        let detail = "UCX finds no usable transport or device at all, so NIXL gets no backend";
        add(
            container.broken(detail),
            "no usable transports/devices",
            "remove UCX_TLS and UCX_NET_DEVICES",
        );
    }
    if log.reaches_gpu_memory() == Some(false) {
        let detail = "UCX finds neither a peer memory module nor dmabuf, so GPUDirect RDMA is off and KV of the GPUs is copied \
                      by the CPU";
        add(
            container
                .broken(detail)
                .headline("UCX has GPUDirect RDMA off: neither a peer memory module nor dmabuf"),
            "cuda GPUDirect RDMA is disabled, and dmabuf is not supported",
            "load nvidia_peermem on the node, or use the open kernel modules of the NVIDIA driver with a kernel from 5.12 on",
        );
    }
    for missing in &log.unavailable {
        let names = missing.names.join(", ");
        let line = format!(
            "{names} is not available; there is: {}",
            missing.alternatives.join(", ")
        );
        let is_cuda = missing.names.iter().any(|name| name.starts_with("cuda"));
        let (draft, fix) = match missing.kind {
            UnavailableKind::Device if missing.offers_only_tcp() => (
                container.broken(format!("UCX does not find {names} and offers TCP only")),
                "grant the container its RDMA devices, and use a UCX built with verbs",
            ),
            UnavailableKind::Device => (
                Draft::warn(format!("UCX does not find the device {names} and drops it")),
                "correct the name in UCX_NET_DEVICES, or remove the variable",
            ),
            UnavailableKind::Transport if is_cuda => (
                container.broken(format!(
                    "UCX has no {names}: it was built without CUDA, or no GPU is here"
                )),
                "use the UCX of the NIXL wheel, or one built --with-cuda",
            ),
            UnavailableKind::Transport => (
                Draft::warn(format!(
                    "UCX does not know or find the transport {names} and drops it"
                )),
                "correct the name in UCX_TLS, or remove the variable",
            ),
        };
        add(draft, &line, fix);
    }
    for (name, value) in &log.invalid_values {
        let line = format!("Invalid value for {name}: '{value}'");
        let detail = format!(
            "UCX refuses the value {value:?} of {name}; what depends on it is left out or stops"
        );
        add(
            container.broken(detail),
            &line,
            "correct the value, or remove the variable",
        );
    }
    for (name, meant) in &log.unused_variables {
        let hint = meant
            .as_ref()
            .map_or(String::new(), |meant| format!(" (maybe {meant})"));
        let line = format!("unused environment variable {name}{hint}");
        add(
            Draft::warn(format!("UCX does not read {name}{hint}")),
            &line,
            "correct the name, or remove the variable",
        );
    }
    if log.has_memlock_failure {
        let detail = "registering memory failed for want of RLIMIT_MEMLOCK";
        let line = "Please set max locked memory (ulimit -l) to 'unlimited'";
        add(container.broken(detail), line, asked::ipc_lock(container));
    }
    // What UCP says follows from a call of the verbs library; which fix is right that call tells, where it is logged.
    let is_gpu = |it: &Registration| it.memory.as_deref().is_some_and(|memory| memory != "host");
    let has_call = log.registrations.iter().any(|it| it.memory.is_none());
    for failed in &log.registrations {
        if has_call && failed.memory.is_some() {
            continue;
        }
        let line = match &failed.memory {
            Some(memory) => format!("failed to register address ({memory}): {}", failed.why),
            None => format!("ibv_reg_mr failed: {}", failed.why),
        };
        add(
            container.broken(registration::detail(&failed.why)),
            &line,
            registration::fix(&failed.why, is_gpu(failed)),
        );
    }
    for failure in &log.connect_failures {
        let line = format!("no {} transport: {}", failure.lacking, failure.reasons);
        let detail = format!(
            "a peer could not be connected: no {} transport",
            failure.lacking
        );
        add(
            container.broken(detail),
            &line,
            "remove UCX_TLS, so that UCX may use what both ends have",
        );
    }
    for failure in &log.address_failures {
        let from = match (&failure.device, &failure.sgid_index) {
            (Some(device), Some(index)) => format!(" from {device} (sgid_index {index})"),
            (Some(device), None) => format!(" from {device}"),
            (None, Some(index)) => format!(" (sgid_index {index})"),
            (None, None) => String::new(),
        };
        let line = format!("ibv_create_ah failed{from}: {}", failure.why);
        add(
            container.broken(format!(
                "a peer's address does not resolve{from}: {}",
                failure.why
            )),
            &line,
            "name in UCX_NET_DEVICES only NICs that reach the peer; on RoCE each needs a routable address and GID",
        );
    }
    for (what, device) in &log.completion_errors {
        let line = format!("{what} on {device}");
        let fix = if what.contains("Local protection") {
            "look at ACS of the PCIe bridges and at the IOMMU; memory that was freed while registered does the same"
        } else {
            "look at the path to the peer: addresses, switch, flow control; the peer may also be gone"
        };
        add(
            container
                .broken(format!("a transfer failed: {line}"))
                .headline(format!("a transfer of UCX failed ({what})")),
            &line,
            fix,
        );
    }
    drafts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::{NOTHING, container, outcome, verdict};
    use crate::report::Status;

    const HEAD: &str = "[1700000000.123456] [host:1:0]  ucp_context.c:1  UCX  ";

    #[test]
    fn complaints_of_the_log_are_findings() {
        let with = |role: &str, line: &str| {
            let text = format!("{HEAD}{line}\n");
            verdict(run, role, &[(&ask::UCX_LOG, text.as_str())])
        };
        assert_eq!(
            with(
                "decode",
                "INFO  Version 1.21.0 (loaded from /x/libucs.so.0)"
            ),
            Ok(Status::Ok)
        );
        for (line, status) in [
            (
                "WARN  transport 'rc_mlx' is not available, please use one or more of: rc, tcp",
                Status::Warn,
            ),
            (
                "WARN  transports 'cuda_copy','cuda_ipc' are not available, please use one or more of: tcp",
                Status::Fail,
            ),
            (
                "WARN  network device 'mlx5_9:1' is not available, please use one or more of: 'eth0'(tcp)",
                Status::Fail,
            ),
            (
                "ERROR no usable transports/devices (asked rc on all devices)",
                Status::Fail,
            ),
            (
                "ERROR Invalid value for TLS: 'all,tcp'. Expected: list",
                Status::Fail,
            ),
            (
                "WARN  unused environment variables: UCX_NET_DEVICE (maybe: UCX_NET_DEVICES?)",
                Status::Warn,
            ),
        ] {
            assert_eq!(with("decode", line), Ok(status), "{line}");
        }
        let text = "ERROR no usable transports/devices (asked rc on all devices)";
        assert_eq!(with("agg", text), Ok(Status::Warn));
    }

    #[test]
    fn an_error_that_is_not_known_is_no_clean_log() {
        for line in [
            "WARN  something new happened",
            "ERROR Failed to run test: No such device",
            "DIAG  IB Async event on mlx5_0: port error on port 1",
        ] {
            let text =
                format!("{HEAD}INFO  Version 1.21.0 (loaded from /x/libucs.so.0)\n{HEAD}{line}\n");
            let place = container("decode", &[(&ask::UCX_LOG, text.as_str())]);
            let draft = outcome(run, &place).unwrap().remove(0);
            assert_eq!(draft.status, Status::Skipped, "{line}");
            let words = line.split_once(' ').unwrap().1.trim();
            assert!(draft.detail.ends_with(words), "{}", draft.detail);
        }
    }

    #[test]
    fn an_address_that_does_not_resolve_is_a_fault() {
        let text = format!(
            "{HEAD}ERROR ibv_create_ah(dlid=49152 sl=0 port=1 src_path_bits=0 dgid=fe80::1 sgid_index=3 traffic_class=106) for \
             RC DEVX QP connect on mlx5_1 failed: Connection timed out\n"
        );
        let place = container("decode", &[(&ask::UCX_LOG, text.as_str())]);
        let draft = outcome(run, &place).unwrap().remove(0);
        assert_eq!(draft.status, Status::Fail);
        assert_eq!(
            draft.detail,
            "a peer's address does not resolve from mlx5_1 (sgid_index 3): Connection timed out"
        );
    }

    #[test]
    fn a_line_of_the_mlx5_transports_alone_is_a_log() {
        for (what, gap) in [
            ("Transport retry count exceeded", " "),
            ("Local protection", "  "),
        ] {
            let text = format!(
                "[h:1:0:1] ib_mlx5_log.c:177{gap}{what} on mlx5_0:1/RoCE (synd 0x15 vend 0x81 hw_synd 0/0)\n"
            );
            assert_eq!(crate::facts::paste::refuse(&ask::UCX_LOG, &text), None);
            let place = container("decode", &[(&ask::UCX_LOG, text)]);
            let draft = outcome(run, &place).unwrap().remove(0);
            assert_eq!(draft.status, Status::Fail);
            assert_eq!(
                draft.detail,
                format!("a transfer failed: {what} on mlx5_0:1")
            );
        }
    }

    #[test]
    fn debug_lines_tell_whether_the_adapters_reach_gpu_memory() {
        let said = |lines: &[&str]| {
            let lines: Vec<String> = lines.iter().map(|l| format!("{HEAD}DEBUG {l}\n")).collect();
            let place = container("decode", &[(&ask::UCX_LOG, lines.concat())]);
            outcome(run, &place).unwrap().remove(0)
        };
        let found = "mlx5_0: cuda GPUDirect RDMA is detected by checking /sys/module/nvidia_peermem/version";
        let absent = "mlx5_0: cuda GPUDirect RDMA is not detected by checking /sys/module/nv_peer_mem/version";
        let disabled = "mlx5_0: cuda GPUDirect RDMA is disabled";
        let no_dmabuf =
            "ibv_reg_dmabuf_mr(fd=-1) returned Operation not supported, dmabuf is not supported";
        for (lines, status) in [
            (&[found][..], Status::Ok),
            (&[absent, found], Status::Ok),
            (&[found, no_dmabuf], Status::Ok),
            (
                &["register cuda memory on: mlx5_0, cuda_cpy, cuda_ipc"],
                Status::Ok,
            ),
            (
                &[
                    disabled,
                    "mlx5_0: dmabuf is supported",
                    "dmabuf is supported on cuda device 0",
                ],
                Status::Ok,
            ),
            (&[disabled, no_dmabuf], Status::Fail),
            (
                &[
                    disabled,
                    "mlx5_0: dmabuf is supported",
                    "dmabuf is not supported on cuda device 0",
                ],
                Status::Fail,
            ),
            (
                &["no memory domain supports registering cuda memory"],
                Status::Fail,
            ),
            (&["multi-node NVLINK support is disabled"], Status::Ok),
            (&[disabled], Status::Skipped),
            (&[no_dmabuf], Status::Skipped),
        ] {
            let draft = said(lines);
            assert_eq!(draft.status, status, "{lines:?}: {}", draft.detail);
        }
        let words = said(&[disabled]).detail;
        assert!(
            words.contains(
                "holds 1 line of debugging that a way to GPU memory is missing, which is no fault"
            ),
            "{words}"
        );
    }

    #[test]
    fn memory_that_is_not_registered_is_a_fault() {
        let call = |name: &str, why: &str| {
            format!("{HEAD}ERROR {name}(address=0x7f, length=65536, access=0xf) failed: {why}\n")
        };
        let follows = format!(
            "{HEAD}ERROR failed to register address 0x7f (cuda) length 65536 on md[5]=mlx5_0: Input/output error \
             (md supports: host|cuda)\n"
        );
        for (text, why, fix) in [
            (
                call("ibv_reg_mr", "Cannot allocate memory") + &follows,
                "Cannot allocate memory",
                "ulimit -l",
            ),
            (
                call("ibv_reg_mr", "Operation not permitted"),
                "Operation not permitted",
                "ulimit -l",
            ),
            (
                call("ibv_exp_reg_mr", "Bad address"),
                "Bad address",
                "nvidia_peermem",
            ),
            (follows.clone(), "Input/output error", "GPU memory"),
        ] {
            let place = container("decode", &[(&ask::UCX_LOG, text.as_str())]);
            let drafts = outcome(run, &place).unwrap();
            assert_eq!(drafts.len(), 1, "{text}");
            assert_eq!(drafts[0].status, Status::Fail);
            let expected = format!("memory could not be registered for RDMA: {why}");
            assert_eq!(drafts[0].detail, expected);
            assert!(drafts[0].fix.as_deref().unwrap().contains(fix), "{text}");
        }
        let other = call("ibv_create_qp", "Cannot allocate memory");
        let said = verdict(run, "decode", &[(&ask::UCX_LOG, other.as_str())]);
        assert_eq!(said, Ok(Status::Skipped));
    }

    #[test]
    fn the_tools_own_complaints_count_and_its_silence_does_not() {
        let text = format!(
            "{HEAD}WARN  transport 'xyz' is not available, please use one or more of: tcp\n"
        );
        let answers = [(&ask::UCX_INFO_DEVICES, text.as_str())];
        assert_eq!(verdict(run, "decode", &answers), Ok(Status::Warn));
        assert_eq!(verdict(run, "decode", NOTHING), Err(Skip::not_applicable()));
        assert!(verdict(run, "decode", &[(&ask::UCX_LOG, "nothing of the kind")]).is_err());
    }
}
