//! The verdict of a run in words.

use super::trust::holds_back;
use super::{
    Finding, Fix, GapKind, InputError, PODS_LIST, Pairs, Probed, SkipReason, Status, TRANSFER,
    Trust, WorkloadReport, ends,
};
use crate::target::{Target, TargetKind};
use std::collections::{BTreeMap, BTreeSet};

/// Transfers that were asked for and came to no answer.
pub(super) fn undone(checks: &[Finding]) -> Vec<&Finding> {
    let without_answer = |f: &&Finding| {
        f.target.kind == TargetKind::Pair
            && f.status == Status::Skipped
            && f.left_out.is_none()
            && f.reason != Some(SkipReason::NotApplicable)
    };
    checks.iter().filter(without_answer).collect()
}

/// Containers that could not be looked at because of what lies between: nothing is known of them.
pub(super) fn unreached(checks: &[Finding]) -> Vec<&Finding> {
    let out_of_reach = |f: &&Finding| {
        let theirs = |r: SkipReason| r != SkipReason::NotApplicable && !r.is_ours();
        f.id == UNSEEN && f.left_out.is_none() && f.reason.is_some_and(theirs)
    };
    checks.iter().filter(out_of_reach).collect()
}

/// What says that something else than NIXL moves the KV.
pub(super) fn beside_nixl(checks: &[Finding]) -> Option<&Finding> {
    open(checks, OTHER_MOVER)
}

/// What says that not every worker was looked at as itself.
pub(super) fn not_whole(checks: &[Finding]) -> Option<&Finding> {
    open(checks, NOT_WHOLE)
}

/// What keeps a run whose lanes were all proven from being trusted, and was not left out on request.
pub(super) fn held_back(checks: &[Finding]) -> Vec<&Finding> {
    let wanted = |f: &&Finding| f.left_out.is_none() && holds_back(f);
    let mut held: Vec<&Finding> = checks.iter().filter(wanted).collect();
    held.sort_by_key(|f| f.reason.is_some_and(SkipReason::is_of_value));
    held
}

/// The same in a sentence about lanes that were proven. Some of it the verdict says in words of its own, further on.
fn but(checks: &[Finding]) -> String {
    /// More than this are counted.
    const NAMED: usize = 3;
    let held = held_back(checks);
    let failed = held.iter().any(|f| f.status == Status::Fail);
    let told_further_on = [OTHER_MOVER, NOT_WHOLE, UNSEEN];
    let mut names: Vec<String> = Vec::new();
    for finding in held.iter().filter(|f| f.status == Status::Skipped) {
        let name = format!("{} ({})", finding.name, finding.id);
        if !told_further_on.contains(&finding.id) && !names.contains(&name) {
            names.push(name);
        }
    }
    let mut shown: Vec<String> = names.iter().take(NAMED).cloned().collect();
    if names.len() > NAMED {
        shown.push(format!("{} more", names.len() - NAMED));
    }
    match (shown.as_slice(), failed) {
        ([], true) => "but a check beside the KV path failed".to_owned(),
        ([], false) if held.is_empty() && checks.iter().any(holds_back) => {
            "but trust also needs what was left out on request".to_owned()
        }
        ([], false) => "but trust needs more than that".to_owned(),
        (names, _) => format!(
            "but trust also needs {}, which could not be judged",
            joined(names)
        ),
    }
}

/// The first finding of a check that leaves its question open.
fn open<'f>(checks: &'f [Finding], id: &str) -> Option<&'f Finding> {
    let skipped = |f: &&Finding| f.id == id && f.status == Status::Skipped && f.left_out.is_none();
    checks.iter().find(skipped)
}

/// Why the pods of the deployment that was judged could not be listed, and what to do.
pub(super) fn unlisted<'a>(
    workloads: &[WorkloadReport],
    errors: &'a [InputError],
) -> Option<(&'a str, &'a str)> {
    let error = errors.iter().find(|e| e.object == PODS_LIST)?;
    let (_, why) = error.message.split_once(": ")?;
    why.rsplit_once("; ").filter(|_| !workloads.is_empty())
}

/// Why containers could not be looked at, behind what was said of the rest.
fn turned_away(checks: &[Finding], said: &str) -> String {
    let lost = unreached(checks);
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for finding in &lost {
        *reasons.entry(&finding.rare.headline).or_default() += 1;
    }
    let Some((first, _)) = reasons.iter().max_by_key(|(_, n)| **n) else {
        return String::new();
    };
    let more = match reasons.len() {
        1 => "",
        _ => " (others for other reasons)",
    };
    if said.contains("could not be looked at") {
        return format!("; what stood in the way: {first}{more}");
    }
    let all = checks.iter().filter(|f| f.id == UNSEEN).count();
    let what = match (lost.as_slice(), all) {
        ([one], 1) if one.target.kind == TargetKind::Host => "the machine".to_owned(),
        ([_], 1) => "the container".to_owned(),
        (lost, all) => format!("{} of {all} containers", lost.len()),
    };
    format!("; {what} could not be looked at: {first}{more}")
}

/// What was asked for and was not delivered comes first, unless a transfer showed something worse.
fn undelivered(pairs: &Pairs, errors: &[InputError], checks: &[Finding]) -> Option<String> {
    if pairs.made.iter().any(|p| p.status == Status::Fail) {
        return None;
    }
    let capital = |text: &str| {
        let mut rest = text.chars();
        rest.next().map_or(String::new(), |c| {
            c.to_uppercase().chain(rest).collect::<String>()
        })
    };
    if let Some(error) = errors.iter().find(|e| e.object == TRANSFER) {
        let what = error.message.split("; ").next().unwrap_or_default();
        return Some(capital(what));
    }
    let undone = undone(checks);
    let first = undone.first()?;
    let moved = |f: &&&Finding| {
        let name = &f.target.name;
        let of = |p: &&super::PairReport| *name == format!("{} -> {}", p.initiator, p.target);
        pairs
            .made
            .iter()
            .find(of)
            .is_some_and(|p| !p.steps.is_empty())
    };
    let what = match undone.iter().any(|f| moved(&f)) {
        true => "came to no answer",
        false => "could not be made",
    };
    Some(match undone.len() {
        1 => format!(
            "The transfer {} {what}: {}",
            first.target.name, first.rare.headline
        ),
        n => {
            // Those that a run was stopped before, or left out of a sample, are pairs as well.
            let more = match pairs.of.saturating_sub(pairs.made.len()) {
                0 => String::new(),
                more => format!(" ({more} more were not begun)"),
            };
            format!(
                "{n} of {} transfers{more} {what}, the first ({}) because of this: {}",
                pairs.made.len(),
                first.target.name,
                first.rare.headline
            )
        }
    })
}

/// One plain sentence for the whole run.
pub(super) fn verdict(
    trust: Trust,
    workloads: &[WorkloadReport],
    targets: &[Probed],
    pairs: &Pairs,
    fixes: &[Fix],
    errors: &[InputError],
    checks: &[Finding],
) -> String {
    let observed = checks.iter().any(|f| f.status != Status::Skipped);
    let left_out: Vec<&Finding> = checks.iter().filter(|f| f.left_out.is_some()).collect();
    let failing: BTreeSet<&str> = left_out
        .iter()
        .filter(|f| f.left_out.as_ref().is_some_and(|l| l.was == Status::Fail))
        .map(|f| f.id)
        .collect();
    let nothing = if failing.is_empty() {
        "nothing"
    } else {
        "nothing else"
    };
    let lead = undelivered(pairs, errors, checks);
    let mut out = match workloads {
        [] if lead.is_some() && !pairs.made.is_empty() => match trust {
            Trust::Untrusted => "the KV path cannot be trusted".to_owned(),
            _ => "the KV path is not proven".to_owned(),
        },
        [one] if lead.is_some() && one.trust != Trust::NotApplicable => match one.trust {
            Trust::Untrusted => {
                format!("disaggregated serving with {} cannot be trusted", one.name)
            }
            _ => format!("disaggregated serving with {} is not proven", one.name),
        },
        [] if !pairs.made.is_empty() => about_pairs(trust, pairs, checks),
        [] if !targets.is_empty() && !observed => match targets {
            [one] if one.target.is_pasted() => {
                "Nothing could be judged from the pasted outputs".to_owned()
            }
            [one] => format!("Nothing could be judged on {}", one.target),
            many => format!("Nothing could be judged on {} containers", many.len()),
        },
        [] if !targets.is_empty() => about_targets(targets, fixes, checks, nothing),
        [] if !errors.is_empty() => "Nothing could be judged".to_owned(),
        [] => {
            "No Dynamo worker was found in the input, so nothing can be said about its interconnect"
                .to_owned()
        }
        // Everything that was seen is well; something else was asked for, too.
        [one]
            if one.trust == Trust::Unproven
                && !errors.is_empty()
                && pairs.proven()
                && !checks.iter().any(holds_back) =>
        {
            format!(
                "The lane of every pair of {} was proven, and not everything that was asked for could be read",
                one.name
            )
        }
        [one] => about_one(one, nothing, pairs, checks),
        many => about_many(many),
    };
    if let Some(lead) = lead {
        for known in [
            "; no transfer was observed",
            "; one end alone proves no lane",
        ] {
            out = out.replace(known, "");
        }
        out = format!("{lead}; {}", within_a_sentence(&out));
    }
    let open = [beside_nixl(checks), not_whole(checks)];
    for finding in open
        .into_iter()
        .flatten()
        .filter(|_| trust != Trust::Untrusted)
    {
        out.push_str(&format!("; {}", finding.rare.headline));
    }
    out.push_str(&cut_short(checks));
    out.push_str(&turned_away(checks, &out));
    if let Some(first) = fixes.first() {
        let lead = match (first.status, trust) {
            (Status::Fail, _) => "; fix first: ",
            _ => "; look first at: ",
        };
        out.push_str(lead);
        let file = first
            .evidence
            .iter()
            .find_map(|e| e.path.as_deref())
            .filter(|_| workloads.len() > 1);
        out.push_str(&within_a_sentence(&first.headline));
        let file = file.map_or(String::new(), |file| format!(" in {file}"));
        if !first.target.is_pasted() {
            out.push_str(&format!(" (on {}{file})", first.target));
        }
    }
    if let Some((what, _)) = unlisted(workloads, errors) {
        out.push_str(&format!("; its pods could not be listed: {what}"));
    }
    let told =
        |e: &&InputError| e.object != TRANSFER && (e.object != PODS_LIST || workloads.is_empty());
    let unread: Vec<&InputError> = errors.iter().filter(told).collect();
    if let [first, rest @ ..] = unread.as_slice() {
        let (object, what) = first.trouble();
        out.push_str(&format!("; {object} {what}"));
        if !rest.is_empty() {
            out.push_str(&format!(" (and {} more)", rest.len()));
        }
    }
    if !left_out.is_empty() {
        let n = left_out.len();
        let were = if n == 1 {
            "finding was"
        } else {
            "findings were"
        };
        out.push_str(&format!("; {n} {were} left out on request"));
        if !failing.is_empty() {
            let ids: Vec<&str> = failing.iter().copied().take(5).collect();
            let more = if failing.len() > ids.len() {
                ", .."
            } else {
                ""
            };
            out.push_str(&format!(", among them a fail of {}{more}", ids.join(", ")));
        }
    }
    out.push('.');
    out
}

/// Words that go on a sentence: the first one small, unless it is an abbreviation or a name.
fn within_a_sentence(words: &str) -> String {
    /// Names that look like other words.
    const NAMES: &[&str] = &["Dynamo", "Kubernetes", "Mooncake", "Linux", "Python", "Xid"];
    let first = words.split_whitespace().next().unwrap_or_default();
    let mut letters = first.chars();
    let Some(begin) = letters.next() else {
        return String::new();
    };
    let plain = letters.all(|c| c.is_lowercase() || c == ',');
    if !begin.is_uppercase() || !plain || NAMES.contains(&first) {
        return words.to_owned();
    }
    let rest = &words[begin.len_utf8()..];
    begin.to_lowercase().chain(rest.chars()).collect()
}

/// Why pairs that moved right bytes prove nothing, behind what was said of them.
fn because(pairs: &Pairs) -> String {
    let kinds: BTreeSet<GapKind> = pairs
        .made
        .iter()
        .flat_map(|p| p.unproven.iter().map(|gap| gap.kind))
        .collect();
    let words: Vec<&str> = kinds.into_iter().map(GapKind::words).collect();
    match words.as_slice() {
        [] => String::new(),
        words => format!(", because {}", joined(words)),
    }
}

/// As a sentence lists them.
fn joined<T: AsRef<str>>(words: &[T]) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words.as_slice() {
        [all @ .., before, last] => [all, &[&format!("{before} and {last}")]]
            .concat()
            .join(", "),
        few => few.concat(),
    }
}

/// What this tool did not get to, because it was stopped or its own time was over.
fn cut_short(checks: &[Finding]) -> String {
    let mut out = String::new();
    for reason in [SkipReason::Interrupted, SkipReason::RunDeadline] {
        let of_reason = |f: &&Finding| f.reason == Some(reason);
        if !checks.iter().any(|f| of_reason(&f)) {
            continue;
        }
        let containers = || checks.iter().filter(|f| f.id == UNSEEN);
        let what = match (containers().filter(of_reason).count(), containers().count()) {
            (0, _) => "everything was looked at".to_owned(),
            (1, 1) => "the container was looked at".to_owned(),
            (lost, all) => format!("{lost} of {all} containers were looked at"),
        };
        out.push_str(&format!("; {} before {what}", reason.words()));
    }
    out
}

/// How many pairs were proven, of those in question, and why the others were not: `1 of 4 pairs was proven, because the bytes
/// lay in host memory; 2 were not tried`.
fn proven_pairs(pairs: &Pairs, checks: &[Finding]) -> String {
    let mut tried: BTreeMap<[&str; 2], bool> = BTreeMap::new();
    for pair in &pairs.made {
        *tried
            .entry(ends(&pair.initiator, &pair.target))
            .or_insert(true) &= pair.proven;
    }
    let in_question = |pair: &[&str; 2]| !pairs.beside.contains(&pair.map(str::to_owned));
    tried.retain(|pair, _| in_question(pair));
    let proven = tried.values().filter(|proven| **proven).count();
    let of = pairs.of.max(tried.len());
    if proven == of && pairs.left == 0 {
        return format!("the lane of every pair was proven, {}", but(checks));
    }
    let was = |n: usize| if n == 1 { "was" } else { "were" };
    let pair = if of == 1 { "pair" } else { "pairs" };
    let left = match pairs.left {
        0 => String::new(),
        n if n + tried.len() == of && proven == tried.len() && proven > 0 => {
            format!(
                "; the {} {} not tried",
                if n == 1 { "other" } else { "others" },
                was(n)
            )
        }
        n => format!("; {n} {} not tried", was(n)),
    };
    format!(
        "{proven} of {of} {pair} {} proven{}{left}",
        was(if of == 1 { 1 } else { proven }),
        because(pairs)
    )
}

fn about_one(w: &WorkloadReport, nothing: &str, pairs: &Pairs, checks: &[Finding]) -> String {
    let name = &w.name;
    match w.trust {
        Trust::NotApplicable => {
            format!(
                "{name} is aggregated: no KV cache leaves a worker, so there is no disaggregated path to trust"
            )
        }
        Trust::Trusted => {
            format!(
                "Disaggregated serving with {name} can be trusted: the lane of every pair was proven"
            )
        }
        Trust::Unproven => {
            let pairs = match pairs.made.is_empty() {
                true => "no transfer was observed".to_owned(),
                false => proven_pairs(pairs, checks),
            };
            format!(
                "Disaggregated serving with {name} is not proven: {nothing} on its KV path failed, and {pairs}"
            )
        }
        Trust::Untrusted => format!("Disaggregated serving with {name} cannot be trusted"),
    }
}

/// What transfers say.
fn about_pairs(trust: Trust, pairs: &Pairs, checks: &[Finding]) -> String {
    let made = pairs.made.len();
    let proven = pairs.made.iter().filter(|p| p.proven).count();
    let pair = if made == 1 { "pair" } else { "pairs" };
    match trust {
        Trust::Trusted => {
            format!(
                "The KV path can be trusted: {proven} of {made} {pair} moved KV over the lane that is meant"
            )
        }
        Trust::Untrusted => {
            format!(
                "The KV path cannot be trusted: {}",
                proven_pairs(pairs, checks)
            )
        }
        _ if proven == made && made == pairs.of => {
            format!("{proven} of {made} {pair} proven, {}", but(checks))
        }
        _ => format!(
            "The KV path is not proven yet: {}",
            proven_pairs(pairs, checks)
        ),
    }
}

/// What can be said of ends alone. One that could not be looked at is not known to be bad.
fn about_targets(targets: &[Probed], fixes: &[Fix], checks: &[Finding], nothing: &str) -> String {
    let nothing = format!("N{}", &nothing[1..]);
    let unseen: BTreeSet<&Target> = fixes
        .iter()
        .filter(|f| f.id == UNSEEN && f.status == Status::Fail)
        .flat_map(|f| f.also.iter().chain([&f.target]))
        .chain(
            (checks.iter())
                .filter(|f| f.id == UNSEEN && f.reason.is_some_and(SkipReason::is_ours))
                .chain(unreached(checks))
                .map(|f| &*f.target),
        )
        .collect();
    let unseen = |t: &Probed| unseen.contains(&t.target);
    let lost = targets.iter().filter(|t| unseen(t)).count();
    let bad = targets
        .iter()
        .filter(|t| t.trust == Trust::Untrusted && !unseen(t))
        .count();
    match targets {
        [one] if lost == 1 => format!(
            "{} could not be looked at, so nothing is known of its interconnect",
            one.target
        ),
        [one] if bad == 1 && one.target.is_pasted() => {
            "By the pasted outputs KV cache cannot travel fast".to_owned()
        }
        [one] if bad == 1 => format!("KV cache cannot travel fast through {}", one.target),
        [one] if one.trust == Trust::NotApplicable => {
            format!("{} is aggregated: no KV cache leaves it", one.target)
        }
        [one] if one.target.is_pasted() => {
            format!("{nothing} on the KV path failed in the pasted outputs, which prove no lane")
        }
        [one] => format!(
            "{nothing} on the KV path failed on {}; one end alone proves no lane",
            one.target
        ),
        many if bad > 0 && lost > 0 => format!(
            "KV cache cannot travel fast through {bad} of {} containers, and {lost} could not be looked at",
            many.len()
        ),
        many if bad > 0 => format!(
            "KV cache cannot travel fast through {bad} of {} containers",
            many.len()
        ),
        many if lost > 0 => format!(
            "{lost} of {} containers could not be looked at; nothing is known of their interconnect",
            many.len()
        ),
        many => format!(
            "{nothing} on the KV path failed on {} containers; no transfer was observed",
            many.len()
        ),
    }
}

/// The check that says that something else than NIXL moves the KV.
const OTHER_MOVER: &str = "DEP022";
/// The check that says whether every worker was looked at.
const NOT_WHOLE: &str = "DEP023";

/// The check that says that a target was not reached.
const UNSEEN: &str = "NODE001";

fn about_many(workloads: &[WorkloadReport]) -> String {
    let count = |t: Trust| workloads.iter().filter(|w| w.trust == t).count();
    let phrases = [
        (Trust::Untrusted, "cannot be trusted"),
        (Trust::Unproven, "not proven (no transfer was observed)"),
        (Trust::Trusted, "trusted"),
        (Trust::NotApplicable, "aggregated (no KV path)"),
    ];
    let parts: Vec<String> = phrases
        .iter()
        .map(|(t, words)| (count(*t), words))
        .filter(|(n, _)| *n > 0)
        .map(|(n, words)| format!("{n} {words}"))
        .collect();
    format!("Of {} deployments: {}", workloads.len(), parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_goes_on_small_and_names_stay() {
        for (words, within) in [
            ("The limit is small", "the limit is small"),
            ("No port is ACTIVE", "no port is ACTIVE"),
            ("A container", "a container"),
            ("NIXL is missing", "NIXL is missing"),
            ("UCX_TLS=tcp", "UCX_TLS=tcp"),
            ("InfiniBand ports", "InfiniBand ports"),
            ("GPUs of one node", "GPUs of one node"),
            ("Mooncake is here", "Mooncake is here"),
            ("Xid 79 of a GPU", "Xid 79 of a GPU"),
            ("mlx5_0 is down", "mlx5_0 is down"),
            ("", ""),
        ] {
            assert_eq!(within_a_sentence(words), within);
        }
    }
}
