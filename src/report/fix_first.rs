//! What to fix, in order, each cause once.

use super::{Consequence, Finding, Fix, KvPath, Status};
use crate::target::{Target, TargetKind};
use std::collections::{BTreeMap, BTreeSet};

/// Causes in order: fails before warns, what carries KV before what does not, then target and table order. A finding
/// that another one on the same object declares as its consequence stands beneath it, and the same fault on several
/// workers of one workload is one entry.
pub(super) fn fix_first(checks: &[Finding]) -> Vec<Fix> {
    let mut open: Vec<&Finding> = checks.iter().filter(|f| f.status >= Status::Warn).collect();
    // The table of checks is ordered by harm, so within one status it decides what comes first.
    open.sort_by_key(|f| {
        (
            std::cmp::Reverse(f.status),
            f.kv_path == KvPath::Off,
            f.rare.minor,
            f.order,
        )
    });
    let causes = Causes::among(&open);
    // Positions, asked once of each.
    let causes: Vec<Option<usize>> = open.iter().map(|f| causes.of(f)).collect();
    let mut fixes: Vec<Fix> = Vec::new();
    let mut lines: Vec<Lines<'_>> = Vec::new();
    let mut index: BTreeMap<(usize, &str, &str, String), usize> = BTreeMap::new();
    // Entries by the finding, and what has an entry already: two faults of one object stay two.
    let mut entries: BTreeMap<Which<'_>, usize> = BTreeMap::new();
    let mut taken: BTreeSet<(usize, &Target)> = BTreeSet::new();
    let first = open
        .iter()
        .zip(&causes)
        .filter(|(_, cause)| cause.is_none());
    for (f, _) in first {
        let key = (f.target.ordinal, f.id, &*f.name, shape(f));
        if let Some(&at) = index.get(&key)
            && taken.insert((at, &*f.target))
        {
            entries.insert(which(f), at);
            fixes[at].also.push((*f.target).clone());
            lines[at].own.add(f);
            continue;
        }
        taken.insert((fixes.len(), &*f.target));
        entries.insert(which(f), fixes.len());
        index.insert(key, fixes.len());
        lines.push(Lines::of(f));
        fixes.push(Fix {
            id: f.id,
            name: f.name.to_string(),
            status: f.status,
            target: (*f.target).clone(),
            also: Vec::new(),
            detail: f.detail.clone(),
            fix: f.fix.clone(),
            paste: None,
            consequences: Vec::new(),
            evidence: f.evidence.clone(),
            headline: f.rare.headline.clone(),
        });
    }
    for (f, cause) in open.iter().zip(&causes) {
        let Some(mut top) = *cause else { continue };
        // A cause may itself be a consequence; climb to the entry that is listed. Tables are acyclic by a test.
        while let Some(next) = causes[top] {
            top = next;
        }
        if let Some(&at) = entries.get(&which(open[top])) {
            let fix = &mut fixes[at];
            lines[at].hear(fix, f);
            fix.consequences.push(Consequence {
                id: f.id,
                name: f.name.to_string(),
                target: (*f.target).clone(),
                detail: f.detail.clone(),
            });
        }
    }
    for (fix, lines) in fixes.iter_mut().zip(lines) {
        lines.settle(fix);
    }
    fixes
}

/// Between the lines of two places: documents of one YAML stream, since both may have the same key.
pub const BETWEEN_BLOCKS: &str = "\n---\n";

/// Lines to paste for every place that needs them. Each finding heads its own by where they belong.
#[derive(Default)]
struct Blocks {
    all: Vec<String>,
    /// Places for which two findings gave different lines: neither is right for both.
    disputed: BTreeSet<String>,
}

impl Blocks {
    fn add(&mut self, f: &Finding) {
        let blocks = f.rare.paste.iter();
        for block in blocks.flat_map(|lines| lines.split(BETWEEN_BLOCKS)) {
            let place = heading(block);
            let known = self.all.iter().find(|own| heading(own) == place);
            match known {
                Some(own) if own == block => {}
                Some(_) => {
                    self.disputed.insert(place.to_owned());
                }
                None => self.all.push(block.to_owned()),
            }
        }
    }

    fn joined(&self) -> Option<String> {
        let agreed = (self.all.iter()).filter(|block| !self.disputed.contains(heading(block)));
        let agreed: Vec<&str> = agreed.map(String::as_str).collect();
        (!agreed.is_empty()).then(|| agreed.join(BETWEEN_BLOCKS))
    }

    /// They say what is to go, and hold nothing to put in its place.
    fn only_say(&self) -> bool {
        let lines = self.all.iter().flat_map(|block| block.lines());
        lines.into_iter().all(|line| line.starts_with('#'))
    }
}

fn heading(block: &str) -> &str {
    block.lines().next().unwrap_or_default()
}

/// What an entry gives to paste: its own lines, else those of what follows from it.
struct Lines<'a> {
    own: Blocks,
    theirs: Blocks,
    /// Whose the latter are: the first that gave some.
    first: Option<&'a Finding>,
}

impl<'a> Lines<'a> {
    fn of(f: &Finding) -> Self {
        let mut own = Blocks::default();
        own.add(f);
        Self {
            own,
            theirs: Blocks::default(),
            first: None,
        }
    }

    /// The lines to paste often belong to the manifest side of a cause that was seen on machines: those of one check, for each
    /// role that needs them. Of a variable the machines know what the manifest cannot: which ports are there.
    fn hear(&mut self, fix: &Fix, f: &'a Finding) {
        let seen = matches!(fix.target.kind, TargetKind::Pod | TargetKind::Workload);
        let better = self.own.only_say() && f.name == *fix.name;
        let hears = match self.own.all.is_empty() {
            true => seen || better,
            false => better,
        };
        // A variable that follows from a missing device or channel is right with it: what else it could be is no cure.
        let spoken_of = |variable: &str| {
            let advice = fix.fix.as_deref().unwrap_or_default();
            f.name == *fix.name || advice.contains(variable)
        };
        let fits = f.name.strip_prefix("env:").is_none_or(spoken_of);
        if !hears || !fits || f.rare.paste.is_none() {
            return;
        }
        let first = *self.first.get_or_insert(f);
        if first.id == f.id && first.name == f.name {
            self.theirs.add(f);
        }
    }

    fn settle(self, fix: &mut Fix) {
        if !self.own.all.is_empty() && (!self.own.only_say() || self.theirs.only_say()) {
            fix.paste = self.own.joined();
            return;
        }
        fix.paste = self.theirs.joined().or_else(|| self.own.joined());
        if let (Some(first), true) = (self.first, self.own.all.is_empty()) {
            fix.evidence.extend(first.evidence.iter().take(1).cloned());
        }
    }
}

/// The first cause of what is wrong on the KV path, where something is.
pub fn first_fault(checks: &[Finding]) -> Option<Fix> {
    let on_path = |f: &Finding| f.status == Status::Fail && f.kv_path != KvPath::Off;
    let causes = checks.iter().any(on_path).then(|| fix_first(checks));
    causes?.into_iter().next()
}

/// A finding, as others find it again.
type Which<'a> = (&'a Target, &'a str, &'a str, &'a str);

fn which(f: &Finding) -> Which<'_> {
    (&f.target, f.id, &f.name, &f.detail)
}

/// What makes a fault the same on several objects. Two pods tell one fault with their own devices, addresses and numbers,
/// and whoever mends it mends it for all of them.
fn shape(f: &Finding) -> String {
    if f.target.kind != TargetKind::Pod {
        return f.detail.clone();
    }
    let word = |word: &str| match word.contains(|c: char| c.is_ascii_digit()) {
        true => "#".to_owned(),
        false => word.to_owned(),
    };
    let words: Vec<String> = f.detail.split_whitespace().map(word).collect();
    words.join(" ")
}

/// Who may be the cause of what, found without comparing thousands of containers with each other.
///
/// A cause and its consequence meet on one object: the same target, a manifest entry and the pods of its role, a workload
/// and its parts, or an end and the transfers from and to it. One pod explains nothing about another, and containers that
/// belong to no workload share nothing.
struct Causes<'a> {
    /// The first of each check, in the order of the findings.
    first: BTreeMap<(Meeting<'a>, Tie<'a>), Vec<(usize, &'a Finding)>>,
}

/// What a transfer over the wrong lane follows: every fail on the KV path of one of its ends.
pub const KV_PATH: &str = "kv-path";

/// Where a cause and a consequence may meet. Numbers are those of workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Meeting<'a> {
    Object(&'a Target),
    /// A role, by its manifest entry or by its pods.
    Role(usize, Option<&'a str>, TargetKind),
    /// A pod, for the transfers that it is an end of.
    End(usize, &'a str),
    /// The cause is the workload's own.
    FromWorkload(usize),
    /// The consequence is the workload's own.
    OnWorkload(usize),
}

/// What ties the two together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tie<'a> {
    /// The cause declares a consequence of this id or name.
    Declares(&'a str),
    /// The consequence follows a cause of this name.
    Follows(&'a str),
}

impl<'a> Causes<'a> {
    fn among(open: &[&'a Finding]) -> Self {
        let mut first: BTreeMap<_, Vec<(usize, &Finding)>> = BTreeMap::new();
        for (at, cause) in open.iter().copied().enumerate() {
            let target = &*cause.target;
            let number = target.ordinal;
            let mut meetings = vec![Meeting::Object(target)];
            if number > 0 {
                meetings.push(Meeting::Role(number, target.role.as_deref(), target.kind));
                meetings.push(Meeting::OnWorkload(number));
                if target.kind == TargetKind::Pod {
                    meetings.push(Meeting::End(number, &target.name));
                }
                if target.kind == TargetKind::Workload {
                    meetings.push(Meeting::FromWorkload(number));
                }
            }
            let declared = cause.causes.iter().map(|name| Tie::Declares(name));
            let on_path = cause.kv_path == KvPath::Required && cause.status == Status::Fail;
            let ties = declared
                .chain([Tie::Follows(&cause.name)])
                .chain(on_path.then_some(Tie::Follows(KV_PATH)));
            for tie in ties {
                for meeting in &meetings {
                    let known = first.entry((*meeting, tie)).or_default();
                    if known.iter().all(|(_, other)| other.id != cause.id) {
                        known.push((at, cause));
                    }
                }
            }
        }
        Self { first }
    }

    /// The position of the first finding that is at least as bad, of another check, and explains this one.
    fn of(&self, f: &'a Finding) -> Option<usize> {
        let target = &*f.target;
        let number = target.ordinal;
        let mut meetings = vec![Meeting::Object(target)];
        if number > 0 {
            let other = match target.kind {
                TargetKind::Pod => Some(TargetKind::Worker),
                TargetKind::Worker => Some(TargetKind::Pod),
                _ => None,
            };
            meetings.extend(other.map(|kind| Meeting::Role(number, target.role.as_deref(), kind)));
            if target.kind == TargetKind::Pair {
                let ends = target.name.split(" -> ");
                meetings.extend(ends.map(|end| Meeting::End(number, end)));
            }
            meetings.push(Meeting::FromWorkload(number));
            if target.kind == TargetKind::Workload {
                meetings.push(Meeting::OnWorkload(number));
            }
        }
        let declared = [Tie::Declares(f.id), Tie::Declares(&f.name)];
        let follows = f.rare.follows.iter().map(|name| Tie::Follows(name));
        declared
            .into_iter()
            .chain(follows)
            .flat_map(|tie| meetings.iter().map(move |meeting| (*meeting, tie)))
            .filter_map(|key| self.first.get(&key))
            .flatten()
            .filter(|(_, cause)| cause.status >= f.status && cause.id != f.id)
            .map(|(at, _)| *at)
            .min()
    }
}
