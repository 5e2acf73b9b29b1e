//! NIXL variables.

use super::engines::generic;
use super::setting::{Rule, Setting, Verdict};

/// The rule of a NIXL variable.
pub(super) fn rule(name: &str) -> Rule {
    match name {
        "NIXL_PLUGIN_DIR" => plugin_dir,
        "NIXL_TELEMETRY_ENABLED" => telemetry_enabled,
        "NIXL_LIBFABRIC_USE_DEVICE_RDMA" => use_device_rdma,
        "NIXL_LOG_LEVEL" => log_level,
        _ => generic,
    }
}

fn plugin_dir(s: &Setting<'_>) -> Verdict {
    match s.value {
        None => Verdict::ok(
            "catalogue",
            "unset: NIXL finds the plugins beside its own library",
        ),
        Some("") => Verdict::warn(
            "catalogue",
            "an empty directory name finds no backend plugin",
            "remove NIXL_PLUGIN_DIR, or name the directory that holds libplugin_UCX.so",
        ),
        Some(value) => Verdict::ok(
            "catalogue",
            format!(
                "NIXL loads its backends from {value:?}; whether libplugin_UCX.so is there is for the image to say"
            ),
        ),
    }
}

fn telemetry_enabled(s: &Setting<'_>) -> Verdict {
    read_by_nothing(s, "M9.5", "write NIXL_TELEMETRY_ENABLE=y")
}

fn use_device_rdma(s: &Setting<'_>) -> Verdict {
    read_by_nothing(
        s,
        "8",
        "remove it; device RDMA is on by default, and FI_EFA_USE_DEVICE_RDMA is the name libfabric reads",
    )
}

fn read_by_nothing(s: &Setting<'_>, rule: &'static str, fix: &str) -> Verdict {
    match s.value {
        None => Verdict::ok(rule, "unset, and nothing reads it"),
        Some(value) => Verdict::warn(
            rule,
            format!("{value:?} has no effect: nothing reads {}", s.variable.name),
            fix,
        ),
    }
}

fn log_level(s: &Setting<'_>) -> Verdict {
    match s.value {
        Some(value)
            if ["error", "fatal"]
                .iter()
                .any(|w| w.eq_ignore_ascii_case(value)) =>
        {
            Verdict::ok(
                "3.3",
                format!(
                    "{value:?} hides the lines that name the backend and the UCX in use; INFO shows them"
                ),
            )
        }
        _ => generic(s),
    }
}
