//! Words for kinds of failure, and what to do about each.

use super::protocol::Cpu;
use super::record::What;

/// What happened, at the beginning of a sentence.
pub(super) fn of_failure(what: What) -> &'static str {
    match what {
        What::NoPython => "No Python interpreter",
        What::NoNixl => "NIXL cannot be imported",
        What::AgentCreate => "NIXL cannot make an agent",
        What::NoBackend => "The NIXL agent came up without its backend",
        What::HostMemory => "Too little host memory",
        What::GpuMemory => "GPU memory cannot be used",
        What::Register => "Memory cannot be registered",
        What::RssLimit => "The probe ran away in memory and ended itself",
        What::Connect => "The connection was refused",
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
        What::Refused => "The container takes no commands",
        What::AgentError => "The probe failed",
    }
}

/// What to do.
pub(super) fn fix_of_failure(what: What) -> &'static str {
    match what {
        What::NoPython => {
            "Name the worker's interpreter with --python; the transfer needs Python 3.8 and NIXL in the container."
        }
        What::NoNixl => {
            "Name the interpreter that the worker runs with --python (`/proc/<pid>/exe` of the worker); if that one cannot \
             import NIXL either, the worker cannot move KV: install the nixl wheel for its CUDA version."
        }
        What::AgentCreate => {
            "Read the last lines of its log: a device named in UCX_NET_DEVICES that is not in the container, or UCX_TLS \
             without a transport that the container has, are the usual causes."
        }
        What::NoBackend => {
            "The backend's plugin did not load, and NIXL raises nothing then. NIXL up to 0.8 needs libcuda.so.1 for its UCX \
             plugin; check NIXL_PLUGIN_DIR and the libraries it needs, or name the backend that the engine uses."
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
            "Find out what in the image writes to standard output when Python starts (sitecustomize, a wrapper)."
        }
        What::Nonsense => "Do not trust this container: something else than the probe answers.",
        What::Refused => {
            "Grant get and create on pods/exec, and check that the container is running."
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
