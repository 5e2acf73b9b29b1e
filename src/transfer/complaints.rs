//! Which lines of a log say why something failed. Pure.
//!
//! UCX, NIXL's core, NIXL's Python module and the interpreter write to one stream, most of it what they do in order. What
//! went wrong stands in few lines of it, and not always in the last ones.

use super::record::LogText;
use super::ucx_text;

/// The lines that complain, with what complains and how loudly, without time and thread; behind them the last lines that
/// are no chatter. At most `most`, each once; of too many complaints the first ones and the last one.
pub(super) fn of(log: &LogText, most: usize) -> Vec<String> {
    let mut complaints: Vec<String> = Vec::new();
    for line in log.lane.lines().chain(log.tail.iter().map(String::as_str)) {
        if let Some(said) = complaint(line).filter(|said| !complaints.contains(said)) {
            complaints.push(said);
        }
    }
    if complaints.len() > most {
        let last = complaints.pop();
        complaints.truncate(most - 1);
        complaints.extend(last);
        return complaints;
    }
    let rest: Vec<&String> = log
        .tail
        .iter()
        .filter(|l| complaint(l).is_none() && !is_chatter(l))
        .collect();
    let room = most - complaints.len();
    let from = rest.len().saturating_sub(room);
    complaints.extend(rest[from..].iter().map(|l| (*l).clone()));
    complaints
}

/// A line belongs in a record because it complains.
pub(super) fn complains(line: &str) -> bool {
    complaint(line).is_some()
}

fn complaint(line: &str) -> Option<String> {
    of_ucx(line)
        .or_else(|| of_nixl_core(line))
        .or_else(|| of_nixl_module(line))
        .or_else(|| of_python(line))
}

/// `[time] [host:pid:tid] file.c:1 UCX  ERROR message`.
fn of_ucx(line: &str) -> Option<String> {
    let (Some(level @ ("WARN" | "ERROR" | "FATAL")), message) = ucx_text::split(line)? else {
        return None;
    };
    Some(format!("UCX {level} {message}"))
}

/// `E1130 17:41:44.142847 6929 ucx_utils.cpp:635] message`, as Abseil logs.
fn of_nixl_core(line: &str) -> Option<String> {
    let level = match line.as_bytes() {
        [b'W', b'0'..=b'9', b'0'..=b'9', ..] => "WARN",
        [b'E', b'0'..=b'9', b'0'..=b'9', ..] => "ERROR",
        [b'F', b'0'..=b'9', b'0'..=b'9', ..] => "FATAL",
        _ => return None,
    };
    let (head, message) = line.split_once("] ")?;
    let place = head.rsplit(' ').next()?;
    Some(format!("NIXL {level} {place} {message}"))
}

/// `2026-11-30 17:41:43 NIXL WARNING _api.py:251 message`.
fn of_nixl_module(line: &str) -> Option<String> {
    let (_, rest) = line.split_once(" NIXL ")?;
    let (level, message) = rest.trim_start().split_once(' ')?;
    let level = match level {
        "WARNING" => "WARN",
        "ERROR" => "ERROR",
        "CRITICAL" => "FATAL",
        _ => return None,
    };
    Some(format!("NIXL {level} {}", message.trim_start()))
}

/// The last line of a traceback: `nixl_cu12._bindings.nixlBackendError: NIXL_ERR_BACKEND`, `MemoryError`.
fn of_python(line: &str) -> Option<String> {
    let name = line.split(':').next()?;
    let good = |c: char| c.is_ascii_alphanumeric() || "._".contains(c);
    let class = name.rsplit('.').next()?;
    let is_exception =
        class.len() > 5 && (class.ends_with("Error") || class.ends_with("Exception"));
    (is_exception && name.chars().all(good)).then(|| line.to_owned())
}

/// What these programs say on their way, and the frames of a traceback.
fn is_chatter(line: &str) -> bool {
    let core = matches!(line.as_bytes(), [b'I', b'0'..=b'9', b'0'..=b'9', ..]);
    let module = line.contains(" NIXL INFO ") || line.contains(" NIXL DEBUG ");
    let ucx = ucx_text::split(line).is_some_and(|(level, _)| {
        level.is_none() || matches!(level, Some("INFO" | "DEBUG" | "DIAG" | "TRACE"))
    });
    let frame = line.starts_with("  ") || line.starts_with("Traceback (");
    core || module || ucx || frame
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What NIXL 1.5.1 printed where UCX_NET_DEVICES names a device that is not there.
    const ABSENT: &str = "I1130 17:41:43.713060    6929 nixl_plugin_manager.cpp:623] Discovered backend plugin: POSIX\n\
        I1130 17:41:44.119063    6929 ucx_plugin.cpp:51] NIXL UCX backend bound to UCX 1.23.0 at /x\n\
        [1796060504.127004] [vm:6929 :0]     ucp_context.c:2753 UCX  INFO  Version 1.23.0 (loaded from /x)\n\
        [1796060504.127581] [vm:6929 :0]     ucp_context.c:1508 UCX  WARN  network device 'mlx5_0:1' is not available\n\
        [1796060504.142770] [vm:6929 :0]          select.c:722  UCX  ERROR   no active messages transport\n\
        W1130 17:41:44.142793    6929 ucx_enums.cpp:58] Unexpected UCX error: Destination is unreachable\n\
        E1130 17:41:44.142847    6929 ucx_utils.cpp:635] UCX endpoint create failed\n\
        2026-11-30 17:41:43 NIXL WARNING _api.py:251 Skipping backend registration\n\
        2026-11-30 17:41:43 NIXL INFO    _api.py:281 Initialized NIXL agent\n\
        Traceback (most recent call last):\n  File \"x\", line 1, in f\n\
        nixl_cu12._bindings.nixlBackendError: NIXL_ERR_BACKEND\nlast words\n";

    fn log(text: &str) -> LogText {
        LogText {
            tail: text.lines().map(str::to_owned).collect(),
            ..LogText::default()
        }
    }

    #[test]
    fn what_complains_comes_first_and_chatter_not_at_all() {
        let all = [
            "UCX WARN network device 'mlx5_0:1' is not available",
            "UCX ERROR no active messages transport",
            "NIXL WARN ucx_enums.cpp:58 Unexpected UCX error: Destination is unreachable",
            "NIXL ERROR ucx_utils.cpp:635 UCX endpoint create failed",
            "NIXL WARN _api.py:251 Skipping backend registration",
            "nixl_cu12._bindings.nixlBackendError: NIXL_ERR_BACKEND",
            "last words",
        ];
        assert_eq!(of(&log(ABSENT), 12), all);
        assert_eq!(of(&log(ABSENT), 3), [all[0], all[1], all[5]]);
        assert_eq!(
            of(&log("Killed\nI1130 1 2 x.cpp:1] on we go\n"), 3),
            ["Killed"]
        );
        assert!(!complains("ErrorHandler is set: yes") && complains("MemoryError"));
    }

    #[test]
    fn what_is_no_more_among_the_last_lines_is_not_lost() {
        let log = LogText {
            lane: "[1.0] [h:1:0]  ib_md.c:1 UCX  ERROR ibv_reg_mr failed\n".to_owned(),
            tail: vec!["noise".to_owned(); 3],
            dropped: 0,
        };
        assert_eq!(of(&log, 2), ["UCX ERROR ibv_reg_mr failed", "noise"]);
    }
}
