//! Variables of the engines, Mooncake and Dynamo.

use super::context::{Backend, Tri};
use super::setting::{Rule, Setting, Verdict};
use crate::catalogue::ValueKind;
use crate::sanitise;

/// The rule of an engine's variable.
pub(super) fn rule(name: &str) -> Rule {
    match name {
        "VLLM_NIXL_SIDE_CHANNEL_HOST" | "SGLANG_HOST_IP" => advertised_address,
        "VLLM_NIXL_SIDE_CHANNEL_PORT" => side_channel_port,
        "MC_FORCE_MNNVL" => force_mnnvl,
        "MC_GID_INDEX" => mooncake_gid,
        "SGLANG_DISAGGREGATION_NIXL_BACKEND" | "TRTLLM_NIXL_KVCACHE_BACKEND" => nixl_backend,
        _ => generic,
    }
}

/// Validation by kind, for readers whose rules were not read in full: only what no reader accepts is a finding.
pub(super) fn generic(s: &Setting<'_>) -> Verdict {
    let Some(value) = s.value else {
        return Verdict::ok(
            "catalogue",
            format!("unset: the default is in force ({})", s.variable.default),
        );
    };
    // What the shell or kubelet still has to expand cannot be judged by its text.
    if value.contains("$(") || value.contains("${") {
        return Verdict::ok(
            "catalogue",
            format!("expanded at start: {}", shown(s, value)),
        );
    }
    let (right, expected) = match s.variable.kind {
        ValueKind::Choice(words) => (
            words.iter().any(|w| w.eq_ignore_ascii_case(value)),
            format!("one of {}", words.join(", ")),
        ),
        ValueKind::Number => (
            value.trim().parse::<f64>().is_ok_and(f64::is_finite),
            "a number".to_owned(),
        ),
        ValueKind::Port => (
            value.trim().parse::<u16>().is_ok_and(|p| p > 0),
            "a port from 1 to 65535".to_owned(),
        ),
        ValueKind::Json => (
            serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(value).is_ok(),
            "a JSON object".to_owned(),
        ),
        _ => (true, String::new()),
    };
    if right {
        return Verdict::ok(
            "catalogue",
            format!("{}: {}", accepted(s, value), s.what_it_does()),
        );
    }
    Verdict::warn(
        "catalogue",
        match s.variable.kind {
            ValueKind::Json => format!("not {expected}: `{}`", shown(s, value).replace('`', "'")),
            _ => format!("{value:?} is not {expected}"),
        },
        format!("write {expected}, or remove {}", s.variable.name),
    )
}

fn accepted(s: &Setting<'_>, value: &str) -> String {
    match s.variable.kind {
        ValueKind::Json => format!("a JSON object, accepted as written ({})", shown(s, value)),
        _ => format!("{value:?} is accepted as written"),
    }
}

/// Longest beginning of JSON that a reason shows, in characters.
const LONGEST_JSON: usize = 60;

/// The value in quotes, or the beginning of JSON as it is, because JSON in escaped quotes cannot be read.
fn shown(s: &Setting<'_>, value: &str) -> String {
    match s.variable.kind {
        ValueKind::Json => {
            let words: Vec<&str> = value.split_whitespace().collect();
            sanitise::line(&words.join(" "), LONGEST_JSON)
        }
        _ => format!("{value:?}"),
    }
}

/// An address without its brackets.
fn bare(address: &str) -> &str {
    address.trim().trim_start_matches('[').trim_end_matches(']')
}

/// An address that nobody outside the pod reaches.
pub fn is_loopback(address: &str) -> bool {
    let host = bare(address);
    host.eq_ignore_ascii_case("localhost") || host.starts_with("127.") || host == "::1"
}

/// Peers on other nodes are told this address.
fn advertised_address(s: &Setting<'_>) -> Verdict {
    let Some(value) = s.value else {
        return Verdict::ok(
            "I1",
            "unset: the worker advertises the address that it finds itself",
        );
    };
    let everywhere = matches!(bare(value), "0.0.0.0" | "::" | "");
    if (everywhere || is_loopback(value)) && s.cx.kv_crosses_nodes() {
        return Verdict::fail(
            "I1",
            format!(
                "{value:?} is advertised to peers on other nodes, which cannot reach it: the handshake fails and decode computes everything again"
            ),
            "take the pod's address: valueFrom fieldRef status.podIP",
        );
    }
    Verdict::ok(
        "I1",
        format!("{value:?} is the address that peers are told"),
    )
}

fn side_channel_port(s: &Setting<'_>) -> Verdict {
    /// Default port of KV events in the versions that reported the clash (vllm issue 25059).
    const KV_EVENTS_PORT: &str = "5557";
    match s.value.map(str::trim) {
        Some(KV_EVENTS_PORT) => Verdict::warn(
            "I5",
            "\"5557\" is also the default port of KV events, and the two clash",
            "write another port, for instance VLLM_NIXL_SIDE_CHANNEL_PORT=20098",
        ),
        Some(value) if value.parse::<u16>().is_ok_and(|p| p > 0) || value.contains('$') => {
            Verdict::ok("I5", format!("port {value}, plus the rank"))
        }
        Some(value) => Verdict::fail(
            "I5",
            format!("{value:?} is no port, so the worker does not start"),
            "write a port from 1 to 65535",
        ),
        None => Verdict::ok("I5", "unset: the default port, plus the rank"),
    }
}

fn is_on(value: &str) -> bool {
    ["1", "true", "yes", "y", "on"]
        .iter()
        .any(|w| w.eq_ignore_ascii_case(value.trim()))
}

fn force_mnnvl(s: &Setting<'_>) -> Verdict {
    match s.value {
        Some(value) if is_on(value) && s.cx.mnnvl == Tri::No => Verdict::warn(
            "6.5",
            format!(
                "{value:?} allocates KV memory for NVLink between nodes, and no ComputeDomain is claimed"
            ),
            "claim a ComputeDomain on both roles, or remove MC_FORCE_MNNVL",
        ),
        Some(value) => Verdict::ok(
            "6.5",
            format!("{value:?} fits what is known of NVLink between nodes here"),
        ),
        None => Verdict::ok("6.5", "unset: Mooncake decides"),
    }
}

fn mooncake_gid(s: &Setting<'_>) -> Verdict {
    let verdict = generic(s);
    let Some(Ok(index)) = s.value.map(|v| v.trim().parse::<u32>()) else {
        return verdict;
    };
    if !matches!(s.cx.backend, Backend::Other | Backend::Unknown) {
        return Verdict::ok(
            "6.1",
            "not on the data path: Mooncake does not move KV here",
        );
    }
    match s
        .cx
        .gids
        .as_ref()
        .map(|g| g.iter().find(|g| g.index == index))
    {
        Some(None) => Verdict::fail(
            "6.1",
            format!("no GID is filled at index {index}, so Mooncake finds no address"),
            "name the index of a RoCE v2 entry of the pod",
        ),
        Some(Some(gid)) if gid.roce_version == Some(1) => Verdict::fail(
            "6.1",
            format!("GID {index} is a RoCE v1 entry, which does not cross routers"),
            "name the index of a RoCE v2 entry of the pod",
        ),
        Some(Some(_)) => Verdict::ok("6.1", format!("GID {index} is filled")),
        None => Verdict::ok(
            "6.1",
            format!(
                "GID index {index}; whether it is a RoCE v2 entry everywhere is for the node to say"
            ),
        ),
    }
}

fn nixl_backend(s: &Setting<'_>) -> Verdict {
    match s.value {
        Some(value) if value.contains('$') => generic(s),
        Some(value)
            if ["UCX", "LIBFABRIC"]
                .iter()
                .any(|w| w.eq_ignore_ascii_case(value)) =>
        {
            Verdict::ok("8", format!("{value:?} is the NIXL backend of the engine"))
        }
        Some(value) => Verdict::warn(
            "8",
            format!(
                "{value:?} is neither UCX nor LIBFABRIC, the two NIXL backends that move KV between GPUs"
            ),
            "write UCX, or LIBFABRIC on EFA",
        ),
        None => Verdict::ok("8", "unset: UCX"),
    }
}

#[cfg(test)]
mod tests {
    use crate::judge::context::{Context, Tri};
    use crate::judge::judge;
    use crate::report::Status::{Fail, Ok, Warn};

    #[test]
    fn values_of_the_engines() {
        let unknown = Context::default();
        let one_node = Context {
            internode: Tri::No,
            ..Context::default()
        };
        let no_domain = Context {
            mnnvl: Tri::No,
            ..Context::default()
        };
        for (variable, value, cx, expected) in [
            ("VLLM_NIXL_SIDE_CHANNEL_HOST", "localhost", &unknown, Fail),
            ("VLLM_NIXL_SIDE_CHANNEL_HOST", "0.0.0.0", &unknown, Fail),
            ("VLLM_NIXL_SIDE_CHANNEL_HOST", "127.0.0.1", &one_node, Ok),
            ("VLLM_NIXL_SIDE_CHANNEL_HOST", "10.0.0.7", &unknown, Ok),
            ("VLLM_NIXL_SIDE_CHANNEL_PORT", "20098", &unknown, Ok),
            ("VLLM_NIXL_SIDE_CHANNEL_PORT", "5557", &unknown, Warn),
            ("VLLM_NIXL_SIDE_CHANNEL_PORT", "70000", &unknown, Fail),
            (
                "KV_TRANSFER_CONFIG",
                r#"{"kv_connector":"NixlConnector"}"#,
                &unknown,
                Ok,
            ),
            ("KV_TRANSFER_CONFIG", "{kv_connector: x}", &unknown, Warn),
            ("KV_TRANSFER_CONFIG", "$(SOME)", &unknown, Ok),
            ("MC_FORCE_MNNVL", "1", &unknown, Ok),
            ("MC_FORCE_MNNVL", "1", &no_domain, Warn),
            ("MC_GID_INDEX", "3", &unknown, Ok),
            (
                "SGLANG_DISAGGREGATION_NIXL_BACKEND",
                "LIBFABRIC",
                &unknown,
                Ok,
            ),
            ("SGLANG_DISAGGREGATION_NIXL_BACKEND", "RDMA", &unknown, Warn),
            ("DYN_KVBM_NIXL_BACKEND_UCX", "false", &unknown, Ok),
            ("NIXL_TELEMETRY_ENABLED", "1", &unknown, Warn),
            ("NIXL_TELEMETRY_ENABLE", "y", &unknown, Ok),
            ("NIXL_LIBFABRIC_USE_DEVICE_RDMA", "1", &unknown, Warn),
            ("NIXL_LOG_LEVEL", "ERROR", &unknown, Ok),
        ] {
            assert_eq!(
                judge(variable, Some(value), cx).status,
                expected,
                "{variable}={value}"
            );
        }
    }
}
