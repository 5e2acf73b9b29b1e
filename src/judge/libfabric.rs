//! libfabric variables, which matter where NIXL's backend is LIBFABRIC.

use super::context::{Accelerator, Context, Tri};
use super::setting::{Rule, Setting, Verdict};
use crate::catalogue::ValueKind;
use crate::report::Status;

/// Providers in the order in which NIXL prefers them (nixl v1.4.0, `libfabric_common.cpp`).
const NIXL_ORDER: [&str; 4] = ["cxi", "efa", "tcp", "sockets"];

/// The rule of a libfabric variable.
pub(super) fn rule(name: &str) -> Rule {
    match name {
        "FI_PROVIDER" => provider,
        "FI_EFA_USE_DEVICE_RDMA" => |s| with_bool(s, device_rdma),
        "FI_EFA_ENABLE_SHM_TRANSFER" => shm_transfer,
        "FI_HMEM" => hmem,
        "FI_HMEM_DISABLE_P2P" => |s| with_bool(s, disable_p2p),
        "FI_HMEM_CUDA_USE_DMABUF" => |s| with_bool(s, dmabuf),
        "FI_HMEM_CUDA_USE_GDRCOPY" => |s| with_bool(s, gdrcopy),
        "FI_HMEM_CUDA_ENABLE_XFER" => enable_xfer,
        "FI_EFA_USE_HUGE_PAGE" => |s| with_bool(s, huge_page),
        _ => plain,
    }
}

/// libfabric's own words; anything else is ignored with a warning.
fn fi_bool(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Some(true),
        "0" | "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

fn with_bool(s: &Setting<'_>, rule: fn(&Setting<'_>, bool) -> Verdict) -> Verdict {
    match s.value.map(|v| (v, fi_bool(v))) {
        None => unset(s),
        Some((_, Some(on))) => rule(s, on),
        Some((value, None)) => ignored(s, value),
    }
}

fn ignored(s: &Setting<'_>, value: &str) -> Verdict {
    Verdict::warn(
        "8",
        format!(
            "{value:?} is no value libfabric reads: it is ignored with a warning, and the default ({}) stays",
            s.variable.default
        ),
        format!("write {}=0 or 1, or remove it", s.variable.name),
    )
}

fn unset(s: &Setting<'_>) -> Verdict {
    Verdict::ok(
        "8",
        format!("unset: the default is in force ({})", s.variable.default),
    )
}

fn plain(s: &Setting<'_>) -> Verdict {
    match (s.value, s.variable.kind) {
        (None, _) => unset(s),
        (Some(value), ValueKind::FiBool) if fi_bool(value).is_none() => ignored(s, value),
        (Some(value), ValueKind::Number) if value.trim().parse::<u64>().is_err() => {
            ignored_number(s, value)
        }
        (Some(value), ValueKind::Choice(words))
            if !words.iter().any(|w| w.eq_ignore_ascii_case(value)) =>
        {
            Verdict::warn(
                "8",
                format!("{value:?} is none of {}", words.join(", ")),
                format!("write one of {}", words.join(", ")),
            )
        }
        (Some(value), _) => {
            Verdict::ok("8", format!("{value:?} does no harm: {}", s.what_it_does()))
        }
    }
}

fn ignored_number(s: &Setting<'_>, value: &str) -> Verdict {
    Verdict::warn(
        "8",
        format!("{value:?} is no number, so libfabric keeps its default"),
        format!("write a number, or remove {}", s.variable.name),
    )
}

fn provider(s: &Setting<'_>) -> Verdict {
    let Some(value) = s.value.filter(|v| !v.is_empty()) else {
        return Verdict::ok(
            "8",
            "unset: NIXL takes the first of cxi, efa, tcp, sockets that is there",
        );
    };
    let fix = "write FI_PROVIDER=efa, or remove it";
    if value.contains(';') {
        return Verdict::warn(
            "8",
            format!("{value:?} asks for a layered provider, which NIXL does not look for"),
            fix,
        );
    }
    match preferred(value, s.cx.efa == Tri::Yes) {
        Some("efa") if s.cx.efa == Tri::No => Verdict::warn(
            "8",
            format!("{value:?} selects EFA, and the pod has no EFA device"),
            "request vpc.amazonaws.com/efa, or remove FI_PROVIDER",
        ),
        Some(taken @ ("efa" | "cxi")) => {
            Verdict::ok("8", format!("{value:?} selects the provider {taken}"))
        }
        Some(taken) => Verdict::fail(
            "8",
            format!("{value:?} hides efa: NIXL takes {taken}, and KV goes over sockets"),
            fix,
        ),
        None => Verdict::fail(
            "8",
            format!("{value:?} leaves none of the providers that NIXL could take here"),
            fix,
        ),
    }
}

/// The provider that NIXL takes from what a value leaves. A pod with EFA has no cxi, and only a list that names cxi
/// stands for a machine that has it.
fn preferred(value: &str, on_efa: bool) -> Option<&'static str> {
    let (negated, list) = match value.strip_prefix('^') {
        Some(rest) => (true, rest),
        None => (false, value),
    };
    let named = |p: &str| list.split(',').any(|t| t.trim().eq_ignore_ascii_case(p));
    NIXL_ORDER
        .into_iter()
        .filter(|p| *p != "cxi" || !(negated || on_efa))
        .find(|p| named(p) != negated)
}

fn device_rdma(s: &Setting<'_>, on: bool) -> Verdict {
    if on {
        return Verdict::ok(
            "8",
            "1 is redundant: NIXL asks for an API version in which device RDMA is on",
        );
    }
    Verdict::fail(
        "8",
        "device RDMA is off: reads and writes are emulated through the CPU",
        format!("remove {}, or write 1", s.variable.name),
    )
}

/// The default of libfabric is on, and on it breaks GPU buffers between pods of one node.
fn shm_transfer(s: &Setting<'_>) -> Verdict {
    const FIX: &str = "write FI_EFA_ENABLE_SHM_TRANSFER=0";
    let cx = s.cx;
    match s.value.map(|v| (v, fi_bool(v))) {
        Some((_, Some(false))) => Verdict::ok(
            "M13",
            "0: EFA serves peers on the same node too, as GPU buffers need",
        ),
        _ if cx.efa != Tri::Yes => Verdict::ok(
            "M13",
            "it acts on EFA only, which the pod is not known to have",
        ),
        None if cx.roles_separated == Tri::Yes => Verdict::ok(
            "M13",
            "unset means 1, which matters only between pods of one node; prefill and decode are kept apart",
        ),
        None => Verdict::warn(
            "M13",
            "unset means 1: between pods of one node libfabric uses shared memory, which corrupts or refuses GPU buffers, and nothing keeps prefill and decode apart",
            FIX,
        ),
        Some((value, _)) => Verdict::fail(
            "M13",
            format!(
                "{value:?} keeps shared-memory transfer on, which corrupts or refuses GPU buffers between pods of one node"
            ),
            FIX,
        ),
    }
}

fn gpu_words(cx: &Context) -> &'static [&'static str] {
    match cx.accelerator {
        Accelerator::Nvidia => &["cuda"],
        Accelerator::Intel => &["ze"],
        Accelerator::Amd => &["rocr"],
        Accelerator::Unknown => &["cuda", "ze", "rocr", "neuron", "synapseai"],
    }
}

fn hmem(s: &Setting<'_>) -> Verdict {
    let Some(value) = s.value else {
        return unset(s);
    };
    let words = gpu_words(s.cx);
    let kept = value
        .split([',', ';'])
        .any(|t| words.iter().any(|w| w.eq_ignore_ascii_case(t.trim())));
    if value.is_empty() || kept || s.cx.host_buffers {
        return Verdict::ok("8", format!("{value:?} keeps GPU memory supported"));
    }
    Verdict::fail(
        "8",
        format!(
            "{value:?} leaves {} out, so libfabric does not support GPU memory",
            words[0]
        ),
        format!("write FI_HMEM={}, or remove it", words[0]),
    )
}

fn disable_p2p(s: &Setting<'_>, on: bool) -> Verdict {
    if !on || s.cx.host_buffers {
        return Verdict::ok("8", "the NIC may reach GPU memory where KV needs it");
    }
    Verdict::fail(
        "8",
        "the NIC may not touch GPU memory: KV is copied through the CPU",
        "remove FI_HMEM_DISABLE_P2P",
    )
}

fn dmabuf(s: &Setting<'_>, on: bool) -> Verdict {
    if on {
        return Verdict::ok("8", "1 is the default: GPU memory reaches EFA as a dmabuf");
    }
    match s.cx.peermem {
        Tri::Yes => Verdict::ok("8", "0: efa_nv_peermem serves GPU memory instead"),
        peermem => Verdict::bad(
            if peermem == Tri::No {
                Status::Fail
            } else {
                Status::Warn
            },
            "8",
            "0 switches dmabuf off, so registration of GPU memory needs the module efa_nv_peermem on every node",
            "remove FI_HMEM_CUDA_USE_DMABUF",
        ),
    }
}

fn gdrcopy(_: &Setting<'_>, on: bool) -> Verdict {
    if on {
        return Verdict::ok(
            "4.3",
            "1 is the default: GDRCopy for small copies where it is there",
        );
    }
    Verdict::warn(
        "4.3",
        "0: small copies from GPU memory are slower; Dynamo's guide asks for GDRCopy on EFA",
        "remove FI_HMEM_CUDA_USE_GDRCOPY",
    )
}

fn enable_xfer(s: &Setting<'_>) -> Verdict {
    match s.value {
        None => unset(s),
        Some(value) => Verdict::warn(
            "8",
            format!("{value:?}: deprecated since libfabric 1.19, so it is ignored"),
            "remove FI_HMEM_CUDA_ENABLE_XFER",
        ),
    }
}

fn huge_page(_: &Setting<'_>, on: bool) -> Verdict {
    if on {
        return Verdict::ok(
            "M13",
            "EFA takes huge pages for its own buffers; the pod needs a hugepages-2Mi limit for them",
        );
    }
    Verdict::ok("8", "0: EFA's own buffers use ordinary pages")
}

#[cfg(test)]
mod tests {
    use crate::judge::context::{Backend, Context, Tri};
    use crate::judge::judge;
    use crate::report::Status::{Fail, Ok, Warn};

    #[test]
    fn values_on_efa() {
        let efa = Context {
            backend: Backend::Libfabric,
            efa: Tri::Yes,
            ..Context::default()
        };
        for (variable, value, expected) in [
            ("FI_PROVIDER", Some("efa"), Ok),
            ("FI_PROVIDER", Some("EFA,tcp"), Ok),
            ("FI_PROVIDER", Some("^efa"), Fail),
            ("FI_PROVIDER", Some("^tcp"), Ok),
            ("FI_PROVIDER", Some("verbs"), Fail),
            ("FI_PROVIDER", Some("efa;ofi_rxd"), Warn),
            ("FI_PROVIDER", None, Ok),
            ("FI_EFA_USE_DEVICE_RDMA", Some("off"), Fail),
            ("FI_EFA_USE_DEVICE_RDMA", Some("maybe"), Warn),
            ("FI_EFA_ENABLE_SHM_TRANSFER", Some("0"), Ok),
            ("FI_EFA_ENABLE_SHM_TRANSFER", Some("1"), Fail),
            ("FI_EFA_ENABLE_SHM_TRANSFER", Some(""), Fail),
            ("FI_EFA_ENABLE_SHM_TRANSFER", None, Warn),
            ("FI_HMEM", Some("system"), Fail),
            ("FI_HMEM", Some("cuda"), Ok),
            ("FI_HMEM_DISABLE_P2P", Some("1"), Fail),
            ("FI_HMEM_CUDA_USE_DMABUF", Some("0"), Warn),
            ("FI_HMEM_CUDA_ENABLE_XFER", Some("1"), Warn),
            ("FI_EFA_MR_MAX_CACHED_SIZE", Some("0"), Ok),
            ("FI_LOG_LEVEL", Some("warn"), Ok),
        ] {
            assert_eq!(
                judge(variable, value, &efa).status,
                expected,
                "{variable}={value:?}"
            );
        }
        let apart = Context {
            roles_separated: Tri::Yes,
            ..efa
        };
        assert_eq!(judge("FI_EFA_ENABLE_SHM_TRANSFER", None, &apart).status, Ok);
    }

    #[test]
    fn nothing_is_wrong_where_libfabric_is_not_used() {
        for backend in [Backend::Ucx, Backend::Unknown, Backend::Other] {
            let cx = Context {
                backend,
                ..Context::default()
            };
            assert_eq!(
                judge("FI_PROVIDER", Some("tcp"), &cx).status,
                Ok,
                "{backend:?}"
            );
            assert_eq!(
                judge("FI_EFA_ENABLE_SHM_TRANSFER", None, &cx).status,
                Ok,
                "{backend:?}"
            );
        }
    }
}
