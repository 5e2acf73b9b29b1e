//! Words for kinds of failure, and what to do about each.

use super::protocol::Cpu;
use super::record::{Failure, Stage, TransferRecord, What};

/// What happened, to which end, and while what was done: the first clause of a sentence.
pub(super) fn of_failure(failure: &Failure, record: &TransferRecord) -> String {
    let (side, backend) = (failure.side, &record.backend);
    let end = format!("{} ({side})", record.end(side).label);
    let on = |words: &str| format!("{words} on {end}");
    // Each of these can only happen in one place, so that it need not be said.
    let in_its_place = match failure.what {
        What::NoPython => on("No Python interpreter"),
        What::BadPython => {
            // Others may not even be there.
            let mut tried = record.end(side).tried.iter();
            let failed = tried.rfind(|attempt| attempt.gave_up.as_ref() == Some(&failure.detail));
            let python = failed.map_or("python3", |attempt| &attempt.python);
            on(&format!("{python} does not run the probe"))
        }
        What::NoNixl => on("NIXL cannot be imported"),
        What::AgentCreate => on("NIXL cannot make an agent"),
        What::NoPlugin => format!("NIXL on {end} has no backend {backend}"),
        What::NoBackend => format!("The NIXL backend {backend} does not come up on {end}"),
        What::LocalBackend => {
            format!("The NIXL backend {backend} on {end} cannot reach another worker")
        }
        What::HostMemory => on("Too little host memory"),
        What::GpuMemory => on("GPU memory cannot be used"),
        What::Register => on("Memory cannot be registered"),
        What::Refused => on("No command could be run"),
        What::Connect => {
            let peer = side.other();
            format!(
                "{end} cannot connect to {} ({peer})",
                record.end(peer).label
            )
        }
        _ => String::new(),
    };
    if !in_its_place.is_empty() {
        return in_its_place;
    }
    let words = match failure.what {
        What::RssLimit => "The probe ran away in memory and ended itself",
        What::Prepare => "NIXL refused the transfer",
        What::Transfer => "The transfer failed",
        What::Stall => "The transfer stalled",
        What::Killed => "The probe was killed (SIGKILL)",
        What::OutOfMemory => "The kernel killed the probe for want of memory",
        What::Crashed => "The probe crashed",
        What::Stopped => "The probe is stopped or frozen",
        What::Deadline => "A time limit passed",
        What::CutShort | What::Interrupted => "The transfer was cut short",
        What::StreamLost => "The connection to the container was lost",
        What::Flood => "The container flooded the probe's output",
        What::Nonsense => "The probe's answers make no sense",
        _ => "The probe failed",
    };
    format!("{} {}", on(words), failure.stage)
}

/// What to do.
pub(super) fn fix_of_failure(failure: &Failure) -> &'static str {
    // A peer that never answers is looked for where one is that refuses.
    let what = match (failure.what, failure.stage) {
        (What::Deadline, Stage::Connect) => What::Connect,
        (what, _) => what,
    };
    match what {
        What::NoPython => {
            "Transfer with a container that has Python 3.8 or later and NIXL: choose the worker's container with -c, or use an \
             image with python3 on its PATH."
        }
        What::BadPython => {
            "Let a Python 3.8 or later that starts come first on PATH: what is called is no Python, or PYTHONHOME or PYTHONPATH \
             point where it breaks (a module there may hide one of the standard library)."
        }
        What::NoNixl => {
            "Install the nixl wheel for the worker's CUDA version (nixl[cu12], nixl[cu13]) for its interpreter, or put the \
             interpreter that has it first on PATH as python3. Where a container beside the worker was looked at, choose \
             the worker's with -c."
        }
        What::AgentCreate => {
            "Read the last lines of its log: a device named in UCX_NET_DEVICES that is not in the container, or UCX_TLS \
             without a transport that the container has, are the usual causes."
        }
        What::NoBackend => {
            "Give the container the libraries that the plugin needs (`ldd` on libplugin_*.so names them); NIXL up to 0.8 needs \
             libcuda.so.1 for its UCX plugin, that is, a GPU in the container."
        }
        What::NoPlugin => {
            "Name a backend that this NIXL has (--backend), or use an image whose NIXL has the plugin, or point \
             NIXL_PLUGIN_DIR at it."
        }
        What::LocalBackend => {
            "Name the backend that moves KV between workers: UCX, or LIBFABRIC on EFA (--backend). What reaches files or \
             storage needs no transfer between two workers."
        }
        What::HostMemory => {
            "Raise the memory limit of the container, or run the transfer while the worker is idle."
        }
        What::GpuMemory => {
            "Run it with --memory auto or host, or while the worker leaves room on the GPU."
        }
        What::Register => {
            "Give the container IPC_LOCK, or an unlimited memlock limit in the container runtime; then restart the worker."
        }
        What::RssLimit => {
            "A known defect of UCX 1.20.0 makes a second agent on a host run away (nixl#1668): upgrade NIXL, and try again."
        }
        What::Connect => {
            "Check that both pods have a device on a common network and that nothing filters between them (`explain \
             firewall`); the log names the transports that were ruled out."
        }
        What::Prepare | What::Transfer => {
            "Read the last lines of both logs: a retry count that was exceeded points to GID index, MTU or the fabric \
             (`explain pfc`); a protection error to memory registration, or to bridges (`explain acs`)."
        }
        What::Stall => {
            "Nothing moved, and both ends are alive: look for a link that is down, a filter between the pods \
             (`explain firewall`), or PFC/ECN settings that differ along the path (`explain pfc`)."
        }
        What::Killed => "Look at the container's events and limits, and run it again.",
        What::OutOfMemory => {
            "Raise the memory limit of the container; the probe needs about 450 MiB and its buffer."
        }
        What::Crashed => {
            "Read the last lines of its log; a crash inside NIXL or UCX hits the worker as well."
        }
        What::Stopped => {
            "Find out what stopped or froze the container (checkpoint, debugger, CPU starvation), and run it again."
        }
        What::Deadline => {
            "Run it again while the machine is idle; if it repeats, read the last lines of the log."
        }
        What::CutShort => "Run it again, with a larger --deadline.",
        What::Interrupted => "Run it again.",
        What::StreamLost => {
            "Run it again; if it repeats, look at the API server, the kubelet and the network between them."
        }
        What::Flood => {
            "Find out what in the image writes so much when Python or NIXL starts (sitecustomize, a wrapper, a log level), and \
             silence it."
        }
        What::Nonsense => "Do not trust this container: something else than the probe answers.",
        What::Refused => {
            "Mend what the detail names; a command in a pod needs a running container, and get and create on pods/exec \
             (docs/rbac.yaml)."
        }
        What::AgentError => "Read the last lines of its log, and report it with them.",
    }
}

/// `2 CPUs`, `0.5 of 8 CPUs`.
pub(super) fn cpus(cpu: &Cpu) -> String {
    match cpu.quota {
        Some(quota) => format!("{quota} of {} CPUs", cpu.cpus),
        None => format!("{} CPUs", cpu.cpus),
    }
}
