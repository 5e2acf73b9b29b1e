//! From a name to the subject that judges it.

use super::Judgement;
use super::context::{Backend, Context, Tri, Version};
use super::setting::{Rule, Setting, Verdict};
use super::{engines, libfabric, nccl, nixl, other, ucx};
use crate::catalogue::{self, Owner, Variable};
use crate::report::Status;

/// Judges the value of a variable (None: it is unset) in its place. Total: every name and every value has an answer.
pub fn judge(variable: &str, value: Option<&str>, cx: &Context) -> Judgement {
    let Some(row) = catalogue::find(variable) else {
        return uncatalogued(variable, value, cx);
    };
    let setting = Setting {
        variable: row,
        value,
        cx,
    };
    let verdict = withheld(&setting)
        .or_else(|| version_mismatch(&setting))
        .or_else(|| open_backend(&setting))
        .or_else(|| off_the_path(&setting))
        .unwrap_or_else(|| rule_of(row)(&setting));
    Judgement {
        status: verdict.status,
        reason: bounded(verdict.reason, value),
        rule: verdict.rule,
        fix: verdict.fix,
        carries_kv: row.carries_kv(),
    }
}

fn rule_of(variable: &Variable) -> Rule {
    match variable.owner {
        Owner::Ucx => ucx::rule(variable.name),
        Owner::Nccl => nccl::rule(variable.name),
        Owner::Nixl => nixl::rule(variable.name),
        Owner::Libfabric => libfabric::rule(variable.name),
        Owner::Vllm | Owner::Sglang | Owner::Trtllm | Owner::Mooncake | Owner::Dynamo => {
            engines::rule(variable.name)
        }
        Owner::Torch | Owner::System => other::rule(variable.name),
    }
}

/// A name without a row. Only UCX complains about names it does not know, so only there is one a finding.
fn uncatalogued(name: &str, value: Option<&str>, cx: &Context) -> Judgement {
    let suggestion = catalogue::nearest(name);
    let hint = suggestion.map_or(String::new(), |s| format!(" (did you mean {s}?)"));
    let is_ucx = name.starts_with("UCX_");
    let (status, rule, reason) = if is_ucx && !catalogue::ucx_name_known(name) && value.is_some() {
        (
            Status::Warn,
            "V2",
            format!("no UCX version knows {name}, so it is ignored{hint}"),
        )
    } else if is_ucx && catalogue::ucx_name_known(name) && value.is_some() && ucx_unused(cx) {
        (
            Status::Ok,
            OFF_THE_PATH,
            off_the_path_because(UCX_UNUSED, name),
        )
    } else if is_ucx && catalogue::ucx_name_known(name) {
        (
            Status::Ok,
            "3.1",
            format!("{name} is a UCX setting about which nothing harmful is known"),
        )
    } else {
        (
            Status::Skipped,
            "10.1",
            format!("{name} is not in the catalogue, so nothing can be said about it{hint}"),
        )
    };
    let fix = (status >= Status::Warn).then(|| match suggestion {
        Some(meant) => format!("write {meant}, or remove {name}"),
        None => format!("remove {name}"),
    });
    Judgement {
        status,
        reason,
        rule,
        fix,
        carries_kv: is_ucx,
    }
}

/// A value that may hold credentials is judged by nobody, because a reason repeats what it judges.
fn withheld(s: &Setting<'_>) -> Option<Verdict> {
    let value = s.value?;
    catalogue::withheld(s.variable, value).then(|| Verdict {
        status: Status::Skipped,
        rule: "catalogue",
        reason: "the value may hold credentials and is not looked at".to_owned(),
        fix: None,
    })
}

/// Longest value that a reason repeats in full, in characters.
const LONGEST_VALUE: usize = 160;

/// Longest reason, in characters.
const LONGEST_REASON: usize = 800;

/// Reasons repeat the value they judge, and a value can be of any length.
fn bounded(reason: String, value: Option<&str>) -> String {
    let reason = match value {
        Some(value) if value.chars().count() > LONGEST_VALUE => {
            let start: String = value.chars().take(LONGEST_VALUE).collect();
            reason.replace(&format!("{value:?}"), &format!("{start:?}..."))
        }
        _ => reason,
    };
    if reason.chars().count() <= LONGEST_REASON {
        return reason;
    }
    let mut start: String = reason.chars().take(LONGEST_REASON).collect();
    start.push_str("...");
    start
}

/// Names that the loaded version does not know yet, or no longer.
fn version_mismatch(s: &Setting<'_>) -> Option<Verdict> {
    if s.variable.owner != Owner::Ucx || s.value.is_none() || ucx_unused(s.cx) {
        return None;
    }
    let name = s.variable.name;
    let since = s.variable.known_since.and_then(Version::parse);
    let until = s.variable.removed_in.and_then(Version::parse);
    if let (Some(since), Some(have)) = (since, s.cx.ucx)
        && have < since
    {
        return Some(Verdict::warn(
            "V2",
            format!("UCX knows {name} from {since} on; UCX {have} ignores it"),
            format!("remove {name}, or use UCX {since} or later"),
        ));
    }
    let until = until?;
    if s.cx.ucx.is_some_and(|have| have < until) {
        return None;
    }
    Some(Verdict::warn(
        "V2",
        format!("{name} is gone since UCX {until}: it is ignored"),
        format!("remove {name}"),
    ))
}

/// UCX carries nothing here: another backend was chosen, or the pod has EFA and nothing says UCX.
fn ucx_unused(cx: &Context) -> bool {
    match cx.backend {
        Backend::Ucx => false,
        Backend::Libfabric | Backend::Other => true,
        Backend::Unknown => cx.efa == Tri::Yes,
    }
}

const OFF_THE_PATH: &str = "8";

const UCX_UNUSED: &str = "KV does not move with UCX here";

fn off_the_path_because(why: &str, name: &str) -> String {
    format!("not on the data path: {why}, so {name} has no effect on it")
}

/// The variable acts on what moves KV here, or may: `UCX_*` beside Mooncake does not, nor `MC_*` beside NIXL.
pub fn may_move_kv(variable: &str, cx: &Context) -> bool {
    match catalogue::find(variable).map(|row| row.owner) {
        Some(Owner::Ucx) => !ucx_unused(cx),
        Some(Owner::Mooncake) => matches!(cx.backend, Backend::Other | Backend::Unknown),
        _ => true,
    }
}

/// On EFA nothing says whether UCX or libfabric moves KV: what is right with both is right, and what is wrong with UCX may
/// be wrong.
fn open_backend(s: &Setting<'_>) -> Option<Verdict> {
    let open = s.cx.backend == Backend::Unknown && s.cx.efa == Tri::Yes;
    if !open || s.variable.owner != Owner::Ucx || s.value.is_none() {
        return None;
    }
    let with_ucx = judge(
        s.variable.name,
        s.value,
        &Context {
            backend: Backend::Ucx,
            ..s.cx.clone()
        },
    );
    (with_ucx.status >= Status::Warn).then(|| {
        Verdict::warn(
            with_ucx.rule,
            format!(
                "which backend moves KV is not known: with LIBFABRIC {} has no effect, and with UCX {}",
                s.variable.name, with_ucx.reason
            ),
            "select the LIBFABRIC backend, which EFA needs",
        )
    })
}

fn off_the_path(s: &Setting<'_>) -> Option<Verdict> {
    let (unused, why) = match s.variable.owner {
        Owner::Ucx => (ucx_unused(s.cx), UCX_UNUSED),
        Owner::Libfabric => (
            match s.cx.backend {
                Backend::Ucx | Backend::Other => true,
                Backend::Libfabric => false,
                Backend::Unknown => s.cx.efa != Tri::Yes,
            },
            "KV does not move with libfabric here",
        ),
        _ => (false, ""),
    };
    (unused && s.value.is_some())
        .then(|| Verdict::ok(OFF_THE_PATH, off_the_path_because(why, s.variable.name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P2pNccl, Mooncake and MPI have no UCX below them, and neither has NIXL over libfabric.
    #[test]
    fn ucx_settings_are_beside_the_path_of_another_backend() {
        let values = ["tcp", "", "true", "1tb", "mlx5_9:7", "^all,all"];
        for backend in [Backend::Other, Backend::Libfabric] {
            for ucx in [None, Some(Version::new(1, 13)), Some(Version::new(1, 23))] {
                let cx = Context {
                    backend,
                    ucx,
                    ..Context::default()
                };
                let catalogued = catalogue::all()
                    .map(|v| v.name)
                    .filter(|n| n.starts_with("UCX_"));
                for name in catalogued.chain(["UCX_RC_MLX5_TM_ENABLE", "UCX_ALLOC_PRIO"]) {
                    for value in values {
                        let got = judge(name, Some(value), &cx);
                        assert_eq!((got.status, got.rule), (Status::Ok, "8"), "{name}={value}");
                        assert!(got.reason.starts_with("not on the data path"), "{got:?}");
                    }
                }
                let unknown = judge("UCX_NET_DEVICE", Some("mlx5_0:1"), &cx);
                assert_eq!((unknown.status, unknown.rule), (Status::Warn, "V2"));
            }
        }
    }

    #[test]
    fn reasons_show_the_beginning_of_json_only() {
        let extra = r#"{"kv_connector":"NixlConnector","kv_role":"kv_both","engine_id":"a","kv_buffer_device":"cuda"}"#;
        for value in [
            extra.to_owned(),
            format!("{extra} no JSON"),
            format!("$(X){extra}"),
        ] {
            let got = judge("KV_TRANSFER_CONFIG", Some(&value), &Context::default());
            assert!(!got.reason.contains(&value), "{got:?}");
            assert!(!got.reason.contains('\\'), "{got:?}");
            assert!(!got.reason.contains("kv_buffer_device"), "{got:?}");
            assert!(!got.reason.starts_with(['{', '"', '$']), "{got:?}");
            assert!(got.reason.contains("NixlConnector"), "{got:?}");
        }
        let escaping = judge(
            "KV_TRANSFER_CONFIG",
            Some("{\"a\":\n\u{1b}[2J1}"),
            &Context::default(),
        );
        assert!(!escaping.reason.contains(['\n', '\u{1b}']), "{escaping:?}");
    }
}
