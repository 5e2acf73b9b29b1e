//! Variables of the loader, PyTorch and the driver stack.

use super::context::Tri;
use super::engines::generic;
use super::setting::{Rule, Setting, Verdict};

/// The rule of such a variable.
pub(super) fn rule(name: &str) -> Rule {
    match name {
        "PYTORCH_CUDA_ALLOC_CONF" | "PYTORCH_ALLOC_CONF" => allocator,
        "RDMAV_FORK_SAFE" => fork_safe,
        "GLOO_SOCKET_IFNAME" => gloo_interface,
        _ => generic,
    }
}

/// Memory made of expandable segments is mapped in pieces that UCX cannot register as one.
fn allocator(s: &Setting<'_>) -> Verdict {
    let expandable = |v: &str| {
        v.split(',').any(|option| {
            option.split_once(':').is_some_and(|(key, value)| {
                key.trim() == "expandable_segments" && value.trim().eq_ignore_ascii_case("true")
            })
        })
    };
    match s.value {
        Some(value) if expandable(value) => Verdict::warn(
            "F1",
            format!(
                "{value:?}: UCX cannot register such GPU memory whole, and KV has been seen to fall to 0.3 GB/s without a word"
            ),
            "write expandable_segments:False on the workers that move KV",
        ),
        Some(value) => Verdict::ok("F1", format!("{value:?} leaves GPU memory registrable")),
        None => Verdict::ok("F1", "unset: GPU memory is registrable"),
    }
}

fn fork_safe(s: &Setting<'_>) -> Verdict {
    match s.value {
        Some(value) => Verdict::warn(
            "8",
            format!(
                "{value:?} slows memory registration down and is not needed on recent kernels; AWS advises against it"
            ),
            "remove RDMAV_FORK_SAFE",
        ),
        None => Verdict::ok("8", "unset, as AWS advises"),
    }
}

fn gloo_interface(s: &Setting<'_>) -> Verdict {
    let Some(value) = s.value.filter(|v| !v.is_empty()) else {
        return Verdict::ok("5.2", "unset: Gloo takes the interface of the host name");
    };
    let names = || value.split(',');
    if s.cx.ranks_internode == Tri::Yes && names().all(|n| n == "lo") {
        return Verdict::warn(
            "5.2",
            "\"lo\" cannot reach ranks on other nodes",
            "name the pod's own interface, usually eth0",
        );
    }
    let missing =
        s.cx.net
            .as_ref()
            .and_then(|net| names().find(|n| *n != "lo" && !net.iter().any(|i| i == n)));
    match missing {
        Some(name) => Verdict::warn(
            "5.2",
            format!("{value:?}: the pod has no interface {name:?}, so Gloo cannot start"),
            "name the pod's own interface, usually eth0",
        ),
        None => Verdict::ok(
            "5.2",
            format!("{value:?} carries Gloo's control messages, no KV"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use crate::judge::context::Context;
    use crate::judge::judge;
    use crate::report::Status::{Ok, Warn};

    #[test]
    fn values_around_the_libraries() {
        let unknown = Context::default();
        for (variable, value, expected) in [
            ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True", Warn),
            (
                "PYTORCH_CUDA_ALLOC_CONF",
                "max_split_size_mb:128, expandable_segments:true",
                Warn,
            ),
            ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:False", Ok),
            ("PYTORCH_ALLOC_CONF", "expandable_segments:True", Warn),
            ("RDMAV_FORK_SAFE", "1", Warn),
            ("GLOO_SOCKET_IFNAME", "eth0", Ok),
            ("LD_LIBRARY_PATH", "/opt/amazon/efa/lib", Ok),
            ("NVIDIA_GDRCOPY", "enabled", Ok),
        ] {
            assert_eq!(
                judge(variable, Some(value), &unknown).status,
                expected,
                "{variable}={value}"
            );
        }
    }
}
