//! How UCX reads values, and what it does with one that it cannot read (rule V1).

use super::context::Context;
use super::dispatch::judge;
use super::setting::{Setting, Verdict};
use crate::catalogue::ValueKind;
use crate::report::Status;

/// The verdict on a value that UCX cannot read; None when it can.
pub(super) fn unreadable(s: &Setting<'_>) -> Option<Verdict> {
    let value = s.value?;
    if readable(s.variable.kind, value, s.cx) {
        return None;
    }
    let expected = match words(s.variable.kind) {
        [] => expected(s.variable.kind),
        words => right_words(s, words),
    };
    Some(refuse(s.variable.name, value, &expected))
}

/// The words of a switch.
fn words(kind: ValueKind) -> &'static [&'static str] {
    match kind {
        ValueKind::Bool => &["y", "n"],
        ValueKind::Ternary => &["y", "n", "try"],
        ValueKind::TernaryAuto => &["y", "n", "try", "auto"],
        ValueKind::OnOffAuto => &["on", "off", "try", "auto"],
        _ => &[],
    }
}

/// Those of the words that are right here: who mends a value is not led to another wrong one.
fn right_words(s: &Setting<'_>, words: &[&'static str]) -> String {
    let is_right = |word: &&str| judge(s.variable.name, Some(*word), s.cx).status < Status::Warn;
    let right: Vec<&str> = words.iter().copied().filter(is_right).collect();
    let all = match right.is_empty() {
        true => words,
        false => right.as_slice(),
    };
    match all.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// The verdict on a value outside the syntax, by the place where the option lives.
pub(super) fn refuse(name: &str, value: &str, expected: &str) -> Verdict {
    let fix = format!("write {expected}, or remove {name}");
    let shown = format!("{value:?} is no value of {name}");
    match place(name) {
        Place::Context => Verdict::fail(
            "V1",
            format!("{shown}: UCX cannot read its configuration, and NIXL gets no backend"),
            fix,
        ),
        Place::MemoryDomain => Verdict::fail(
            "V1",
            format!(
                "{shown}: UCX skips the whole memory domain ({}) with one error line and goes on without it",
                domain(name)
            ),
            fix,
        ),
        Place::Interface => Verdict::fail(
            "V1",
            format!("{shown}: UCX cannot open the interface, and NIXL gets no worker"),
            fix,
        ),
        Place::Global => Verdict::warn(
            "V1",
            format!("{shown}: UCX keeps the default and says so at most in one error line"),
            fix,
        ),
    }
}

/// The value of a bool or ternary: true, false, or neither.
pub(super) fn switch(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "y" | "yes" | "1" | "on" => Some(true),
        "n" | "no" | "0" | "off" => Some(false),
        _ => None,
    }
}

/// A duration in seconds, `f64::INFINITY` for `inf`.
pub(super) fn seconds(value: &str) -> Option<f64> {
    if value.eq_ignore_ascii_case("inf") {
        return Some(f64::INFINITY);
    }
    let (number, unit) = split_number(value);
    let scale = match unit {
        "" | "s" => 1.0,
        "m" => 60.0,
        "ms" => 1e-3,
        "us" => 1e-6,
        "ns" => 1e-9,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * scale)
}

/// Whole bytes, `inf` or `auto`; `scanf` takes a sign.
fn is_mem_units(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    if matches!(lower.as_str(), "inf" | "auto") {
        return true;
    }
    let sign = lower.strip_prefix(['-', '+']).unwrap_or(&lower);
    let (number, unit) = split_number(sign);
    number.parse::<u64>().is_ok() && matches!(unit, "" | "b" | "k" | "kb" | "m" | "mb" | "g" | "gb")
}

/// The sizes in `8k` or `intra:8k,inter:inf`; none when the value cannot be read.
pub(super) fn thresholds<'a>(value: &'a str, cx: &Context) -> Vec<&'a str> {
    let sizes: Vec<&str> = if value.contains(':') && cx.ucx_at_least(1, 17) {
        value
            .split(',')
            .map(|part| {
                part.strip_prefix("intra:")
                    .or_else(|| part.strip_prefix("inter:"))
                    .unwrap_or("")
            })
            .collect()
    } else {
        vec![value]
    };
    if sizes.iter().all(|size| is_mem_units(size)) {
        sizes
    } else {
        vec![]
    }
}

fn split_number(value: &str) -> (&str, &str) {
    let end = value
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(value.len());
    value.split_at(end)
}

fn readable(kind: ValueKind, value: &str, cx: &Context) -> bool {
    let any = |words: &[&str]| words.iter().any(|w| w.eq_ignore_ascii_case(value));
    match kind {
        ValueKind::Bool => is_bool(value, cx),
        ValueKind::Ternary => is_bool(value, cx) || any(&["try", "maybe"]),
        ValueKind::TernaryAuto => is_bool(value, cx) || any(&["try", "maybe", "auto"]),
        ValueKind::OnOffAuto => any(&[
            "on", "1", "yes", "y", "off", "0", "no", "n", "try", "maybe", "auto",
        ]),
        ValueKind::Uint => is_uint(value) || any(&["inf"]),
        ValueKind::UintAuto => is_uint(value) || any(&["inf", "auto"]),
        ValueKind::Fraction => value.parse::<f64>().is_ok() || any(&["inf", "auto"]),
        ValueKind::MemUnits => is_mem_units(value),
        ValueKind::Threshold => !thresholds(value, cx).is_empty(),
        ValueKind::Time => seconds(value).is_some(),
        ValueKind::Enum(words) => any(words),
        _ => true,
    }
}

/// `on` and `off` are lower case only, and `on` came with 1.15; every UCX that NIXL bundles is newer than that.
fn is_bool(value: &str, cx: &Context) -> bool {
    match value {
        "on" => cx.ucx_at_least(1, 15),
        "off" | "1" | "0" => true,
        _ => ["y", "yes", "n", "no"]
            .iter()
            .any(|w| w.eq_ignore_ascii_case(value)),
    }
}

/// `scanf` takes a sign: `-1` is read, as a huge number.
fn is_uint(value: &str) -> bool {
    let digits = value.strip_prefix(['-', '+']).unwrap_or(value);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

fn expected(kind: ValueKind) -> String {
    match kind {
        ValueKind::Uint => "a number or inf".to_owned(),
        ValueKind::UintAuto => "a number, inf or auto".to_owned(),
        ValueKind::Fraction => "a decimal number".to_owned(),
        ValueKind::MemUnits => "a size such as 64k, or inf or auto".to_owned(),
        ValueKind::Threshold => "inf, or a size such as 64k".to_owned(),
        ValueKind::Time => "a duration such as 20s".to_owned(),
        ValueKind::Enum(words) => format!("one of {}", words.join(", ")),
        _ => "a valid value".to_owned(),
    }
}

/// Where an option lives decides what a bad value breaks.
enum Place {
    Context,
    MemoryDomain,
    Interface,
    Global,
}

fn place(name: &str) -> Place {
    match name {
        "UCX_LOG_LEVEL"
        | "UCX_LOG_LEVEL_TRIGGER"
        | "UCX_LOG_FILE"
        | "UCX_MEMTYPE_CACHE"
        | "UCX_HANDLE_ERRORS"
        | "UCX_ERROR_SIGNALS"
        | "UCX_WARN_UNUSED_ENV_VARS"
        | "UCX_MODULE_DIR"
        | "UCX_DISTANCE_BW" => Place::Global,
        "UCX_IB_GPU_DIRECT_RDMA"
        | "UCX_IB_GID_INDEX"
        | "UCX_IB_PCI_RELAXED_ORDERING"
        | "UCX_IB_DIRECT_NIC"
        | "UCX_CUDA_COPY_DMABUF"
        | "UCX_CUDA_IPC_ENABLE_MNNVL"
        | "UCX_TCP_BRIDGE_ENABLE" => Place::MemoryDomain,
        _ if ["UCX_IB_", "UCX_RC_", "UCX_UD_", "UCX_TCP_", "UCX_CUDA_IPC_"]
            .iter()
            .any(|p| name.starts_with(p)) =>
        {
            Place::Interface
        }
        _ => Place::Context,
    }
}

fn domain(name: &str) -> &'static str {
    if name.starts_with("UCX_IB_") {
        "all InfiniBand and RoCE"
    } else if name.starts_with("UCX_CUDA_COPY_") {
        "recognition of GPU memory"
    } else if name.starts_with("UCX_CUDA_IPC_") {
        "all NVLink"
    } else {
        "all TCP"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::context::Version;

    #[test]
    fn a_remedy_is_no_other_fault() {
        for (place, fix) in [
            ("", "write y or try, or remove UCX_IB_GPU_DIRECT_RDMA"),
            (
                "peermem=no;dmabuf=no",
                "write try, or remove UCX_IB_GPU_DIRECT_RDMA",
            ),
        ] {
            let cx = Context::for_explain(place).expect("a place");
            let got = judge("UCX_IB_GPU_DIRECT_RDMA", Some("true"), &cx);
            assert_eq!(got.fix.as_deref(), Some(fix), "{place}");
        }
    }

    #[test]
    fn words_are_read_as_ucx_reads_them() {
        let cx = Context::default();
        for (kind, value, expected) in [
            (ValueKind::Bool, "YES", true),
            (ValueKind::Bool, "on", true),
            (ValueKind::Bool, "ON", false),
            (ValueKind::Bool, "true", false),
            (ValueKind::Bool, "", false),
            (ValueKind::Bool, "try", false),
            (ValueKind::Ternary, "Try", true),
            (ValueKind::Ternary, "auto", false),
            (ValueKind::TernaryAuto, "auto", true),
            (ValueKind::OnOffAuto, "ON", true),
            (ValueKind::Uint, "-1", true),
            (ValueKind::Uint, "x", false),
            (ValueKind::Uint, "inf", true),
            (ValueKind::Uint, "auto", false),
            (ValueKind::MemUnits, "64K", true),
            (ValueKind::MemUnits, "64q", false),
            (ValueKind::MemUnits, "8192", true),
            (ValueKind::MemUnits, "1gb", true),
            (ValueKind::MemUnits, "1GB", true),
            (ValueKind::MemUnits, "1tb", false),
            (ValueKind::MemUnits, "1t", false),
            (ValueKind::MemUnits, "1.5g", false),
            (ValueKind::MemUnits, "8 k", false),
            (ValueKind::MemUnits, "k", false),
            (ValueKind::MemUnits, "", false),
            (ValueKind::MemUnits, "AUTO", true),
            (ValueKind::Threshold, "inf", true),
            (ValueKind::Threshold, "intra:8k,inter:inf", true),
            (ValueKind::Threshold, "inter:8k", true),
            (ValueKind::Threshold, "intra:1tb,inter:inf", false),
            (ValueKind::Threshold, "8k,inter:inf", false),
            (ValueKind::Threshold, "host:8k", false),
            (ValueKind::Time, "300ms", true),
            (ValueKind::Time, "5h", false),
            (ValueKind::Enum(&["route"]), "ROUTE", true),
            (ValueKind::Enum(&["route"]), "routes", false),
        ] {
            assert_eq!(readable(kind, value, &cx), expected, "{kind:?} {value}");
        }
        let old = Context {
            ucx: Some(Version::new(1, 14)),
            ..Context::default()
        };
        assert!(!readable(ValueKind::Bool, "on", &old));
        assert!(!readable(ValueKind::Threshold, "intra:8k", &old));
    }
}
