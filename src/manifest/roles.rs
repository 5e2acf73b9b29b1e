//! Who is prefill and who is decode, by the best evidence there is.

use super::env::Env;
use super::flags::Flags;
use super::kv_transfer::Config;
use super::pod::Pod;
use super::workload::{KvTransfer, Role, Worker};

/// A role and what it rests on.
pub(super) type Evidence = (Role, &'static str);

/// The role that the operator's own words give, which win over everything else.
pub(super) fn by_type(pod: &Pod<'_>) -> Option<Evidence> {
    let kind = pod.kind.or(pod.component_kind).and_then(by_kind);
    let sub_kind = || pod.sub_kind.and_then(by_kind);
    kind.map(|r| (r, "type"))
        .or_else(|| sub_kind().map(|r| (r, "subComponentType")))
}

/// The role that the start of the engine gives, best evidence first. None when nothing says.
pub(super) fn own(
    flags: &Flags,
    env: &Env,
    config: &Config<'_>,
    kv: &KvTransfer,
) -> Option<Evidence> {
    const TWINS: [&str; 3] = [
        "DYN_VLLM_DISAGGREGATION_MODE",
        "DYN_TRTLLM_DISAGGREGATION_MODE",
        "DYN_SGLANG_DISAGGREGATION_MODE",
    ];
    let by_env = || {
        TWINS
            .iter()
            .find_map(|name| env.text(name).and_then(by_mode))
    };
    let by_config = || config.word(&["disaggregation-mode"]).and_then(by_mode);
    let by_kv_role = || match kv.kv_role.as_deref() {
        Some("kv_producer") => Some(Role::Prefill),
        Some("kv_consumer") => Some(Role::Decode),
        _ => None,
    };
    by_flags(flags)
        .map(|r| (r, "flag"))
        .or_else(|| by_env().map(|r| (r, "env")))
        .or_else(|| by_config().map(|r| (r, "config")))
        .or_else(|| by_kv_role().map(|r| (r, "kv_role")))
}

/// `type` and `subComponentType`: `worker` says nothing.
fn by_kind(kind: &str) -> Option<Role> {
    match kind {
        "prefill" => Some(Role::Prefill),
        "decode" => Some(Role::Decode),
        "encode" => Some(Role::Encode),
        _ => None,
    }
}

fn by_flags(flags: &Flags) -> Option<Role> {
    if let Some(role) = flags.text(&["disaggregation-mode"]).and_then(by_mode) {
        return Some(role);
    }
    [
        ("is-prefill-worker", Role::Prefill),
        ("is-decode-worker", Role::Decode),
        ("multimodal-encode-worker", Role::Encode),
    ]
    .iter()
    .find_map(|(flag, role)| flags.has(flag).then_some(*role))
}

/// Values of `--disaggregation-mode`. TensorRT-LLM's `prefill_and_decode` is the old word for aggregated.
fn by_mode(mode: &str) -> Option<Role> {
    match mode {
        "prefill" => Some(Role::Prefill),
        "decode" => Some(Role::Decode),
        "encode" => Some(Role::Encode),
        "pd" => Some(Role::Pd),
        "agg" | "aggregated" | "prefill_and_decode" => Some(Role::Agg),
        _ => None,
    }
}

/// Workers whose role nothing states: their names, and only if the graph has a name for both roles. A name alone is
/// no evidence: many aggregated workers are called `VllmDecodeWorker`.
pub(super) fn by_names(workers: &mut [Worker]) {
    let role_in = |name: &str| {
        let name = name.to_ascii_lowercase();
        match (name.contains("prefill"), name.contains("decode")) {
            (true, false) => Some(Role::Prefill),
            (false, true) => Some(Role::Decode),
            _ => None,
        }
    };
    let has = |workers: &[Worker], role| workers.iter().any(|w| role_in(&w.name) == Some(role));
    if !(has(workers, Role::Prefill) && has(workers, Role::Decode)) {
        return;
    }
    for worker in workers.iter_mut().filter(|w| w.role_source == "default") {
        if let Some(role) = role_in(&worker.name) {
            (worker.role, worker.role_source) = (role, "name");
        }
    }
}

/// (prefill and decode), or (encode and one of pd, decode, agg).
pub(super) fn is_disaggregated(workers: &[Worker]) -> bool {
    let has = |role| workers.iter().any(|w| w.role == role);
    has(Role::Prefill) && has(Role::Decode)
        || has(Role::Encode) && (has(Role::Pd) || has(Role::Decode) || has(Role::Agg))
}
