//! The one command that gets the reader further.

use super::{Arguments, MemoryChoice};
use crate::report::{GapKind, Report, Status, Trust};
use crate::snapshot::{Folded, PlaceKind};
use std::fmt::Write;

/// Stands for a pod that the reader knows and this run does not.
const OTHER: &str = "OTHER-POD";

/// What to do next, or nothing where the run broke off or everything was shown.
pub(super) fn next(arguments: &Arguments, report: &Report, snapshots: &[Folded]) -> Option<String> {
    if !report.errors.is_empty() || report.trust == Trust::Trusted {
        return None;
    }
    let own = |memory| command(arguments, &ends(arguments), memory);
    let without_nixl = report.fix_first.iter().position(|fix| fix.name == "nixl");
    let first = match (report.fix_first.first(), without_nixl) {
        (Some(fix), _) if fix.status == Status::Fail => "apply 1, then ".to_owned(),
        (_, Some(at)) if !arguments.transfer => format!("apply {}, then ", at + 1),
        _ => String::new(),
    };
    if !arguments.transfer {
        // Of what somebody else sent there is nobody to transfer with.
        if !arguments.input.is_empty() || arguments.from.is_some() {
            return None;
        }
        let ends = ends_of(arguments, snapshots)?;
        return Some(format!(
            "{first}`{}` moves test data and names the lane",
            command(arguments, &ends, arguments.how.memory)
        ));
    }
    if !report.undone().is_empty() {
        return Some(format!(
            "apply the fix above, then `{}` again",
            own(arguments.how.memory)
        ));
    }
    if !first.is_empty() {
        return Some(format!("{first}`{}` again", own(arguments.how.memory)));
    }
    let gaps = report.pairs.made.iter().flat_map(|p| &p.unproven);
    match gaps.map(|gap| gap.kind).min() {
        Some(GapKind::OneContainer) => {
            let pod = match arguments.targets.pod.as_slice() {
                [pod] => shell(pod),
                _ => "DECODE-POD".to_owned(),
            };
            let peer = if pod == "DECODE-POD" {
                "PREFILL-POD"
            } else {
                OTHER
            };
            let ends = format!("--pod {pod} --peer {peer}");
            Some(format!(
                "`{}` moves the bytes from one worker to another",
                command(arguments, &ends, arguments.how.memory)
            ))
        }
        Some(GapKind::OneNode) => {
            let ends = match (arguments.targets.pod.as_slice(), &arguments.pods) {
                ([pod], None) => format!("--pod {} --peer POD-ON-ANOTHER-NODE", shell(pod)),
                _ => "--pod DECODE-POD --peer POD-ON-ANOTHER-NODE".to_owned(),
            };
            Some(format!(
                "`{}` shows the link between two nodes",
                command(arguments, &ends, arguments.how.memory)
            ))
        }
        Some(GapKind::SoftwareVerbs) => Some(format!(
            "`{}` on nodes with RDMA hardware",
            own(arguments.how.memory)
        )),
        Some(GapKind::OtherBackend) => {
            let mut plain = own(arguments.how.memory);
            if let Some(backend) = &arguments.how.backend {
                plain = plain.replace(&format!(" --backend {}", shell(backend)), "");
            }
            Some(format!("`{plain}` uses the worker's own backend"))
        }
        // No transfer of this tool shows the lane of another mover.
        Some(GapKind::OtherMover) => None,
        Some(GapKind::HostMemory) => Some(format!(
            "`{}` between workers that see a GPU with room on it",
            own(MemoryChoice::Gpu)
        )),
        Some(GapKind::OtherLane | GapKind::Contradicted) => Some(format!(
            "apply 1, then `{}` again",
            own(arguments.how.memory)
        )),
        None if report.pairs.made.len() < report.pairs.of => {
            let all = own(arguments.how.memory);
            let sample = arguments
                .sample
                .map_or(String::new(), |n| format!(" --sample {n}"));
            Some(format!(
                "`{}` makes the transfers that are not in the sample, too",
                all.replace(&sample, "")
            ))
        }
        None => {
            let again = own(arguments.how.memory);
            Some(format!("{}, then `{again}` again", report.way_to_judge()?))
        }
    }
}

/// The transfer with these ends; what else was asked for stays.
fn command(arguments: &Arguments, ends: &str, memory: MemoryChoice) -> String {
    let mut out = "dynamo-interconnect-check nixl --transfer".to_owned();
    let targets = &arguments.targets;
    for (option, value) in [
        ("-n", &targets.namespace),
        ("--context", &targets.context),
        ("-c", &targets.container),
    ] {
        if let Some(value) = value {
            let _ = write!(out, " {option} {}", shell(value));
        }
    }
    let _ = write!(out, " {ends}");
    if let Some(backend) = &arguments.how.backend {
        let _ = write!(out, " --backend {}", shell(backend));
    }
    if arguments.how.gpu > 0 {
        let _ = write!(out, " --gpu {}", arguments.how.gpu);
    }
    match memory {
        MemoryChoice::Auto => {}
        MemoryChoice::Gpu => out.push_str(" --memory gpu"),
        MemoryChoice::Host => out.push_str(" --memory host"),
    }
    if arguments.how.quick {
        out.push_str(" --quick");
    }
    out
}

/// The ends as they were given.
fn ends(arguments: &Arguments) -> String {
    if let Some((prefill, decode)) = &arguments.pods {
        let text = format!("prefill={prefill},decode={decode}");
        let sample = arguments
            .sample
            .map_or(String::new(), |n| format!(" --sample {n}"));
        return format!("--pods {}{sample}", shell(&text));
    }
    let mut out = Vec::new();
    out.extend(
        arguments
            .targets
            .pod
            .iter()
            .map(|pod| format!("--pod {}", shell(pod))),
    );
    out.extend(
        arguments
            .targets
            .selector
            .iter()
            .map(|s| format!("-l {}", shell(s))),
    );
    out.extend(
        arguments
            .peer
            .iter()
            .map(|peer| format!("--peer {}", shell(peer))),
    );
    out.extend(arguments.own.then(|| "--self".to_owned()));
    out.join(" ")
}

/// Ends for what was looked at without a transfer; none where nothing was reached.
fn ends_of(arguments: &Arguments, snapshots: &[Folded]) -> Option<String> {
    let places: Vec<_> = snapshots.iter().map(Folded::place).collect();
    match places.as_slice() {
        [] => None,
        [one] if one.kind == PlaceKind::Host => Some("--self".to_owned()),
        [one] => Some(format!("--pod {} --peer {OTHER}", shell(&one.pod))),
        [one, other] if arguments.targets.selector.is_none() => Some(format!(
            "--pod {} --peer {}",
            shell(&one.pod),
            shell(&other.pod)
        )),
        _ => Some("--pods prefill=SELECTOR,decode=SELECTOR".to_owned()),
    }
}

/// A word as a shell takes it.
fn shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._/=,:".contains(c);
    match word.chars().all(plain) && !word.is_empty() {
        true => word.to_owned(),
        false => format!(
            "'{}'",
            crate::sanitise::line(&word.replace('\'', r"'\''"), 300)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_would_read_is_quoted() {
        assert_eq!(shell("app=prefill,tier=a/b"), "app=prefill,tier=a/b");
        assert_eq!(shell("role in (a, b)"), "'role in (a, b)'");
        assert_eq!(shell("a'b"), r"'a'\''b'");
        assert_eq!(shell(""), "''");
    }
}
