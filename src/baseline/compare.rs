//! Two runs held against each other: by component and role, since pods are renamed by every rollout.

use super::old::{Old, Pair};
use super::{FASTEST, SHOWN, SPEED, shown};
use crate::checks::declare::Run;
use crate::checks::words::counted;
use crate::report::{Change, ChangeKind, Fingerprint, PortPrint, Report, Status};
use crate::{catalogue, checks, sanitise};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub(super) struct Comparison {
    pub(super) changes: Vec<Change>,
    pub(super) not_compared: BTreeSet<String>,
}

impl Comparison {
    /// Notes a change, where there is one.
    pub(super) fn push(
        &mut self,
        kind: ChangeKind,
        subject: &str,
        what: &str,
        was: &str,
        now: &str,
    ) {
        if was != now {
            self.changes.push(Change {
                kind,
                subject: shown(subject),
                what: shown(what),
                was: shown(was),
                now: shown(now),
            });
        }
    }

    pub(super) fn not_compared(&mut self, what: &str) {
        self.not_compared.insert(sanitise::line(what, 2 * SHOWN));
    }

    /// Compares what the pods of a component have in each of two runs: the values that occur. A value that is not known is
    /// None.
    fn values<'a>(
        &mut self,
        kind: ChangeKind,
        subject: &str,
        what: &str,
        was: impl Iterator<Item = Option<&'a str>>,
        now: impl Iterator<Item = Option<&'a str>>,
    ) {
        let ((was, was_unknown), (now, now_unknown)) = (occurring(was), occurring(now));
        match (was.is_empty(), now.is_empty()) {
            (true, true) => return,
            (true, false) => {
                return self
                    .not_compared(&format!("{what} of {subject}: not known in the baseline"));
            }
            (false, true) => {
                return self.not_compared(&format!("{what} of {subject}: not known now"));
            }
            (false, false) => {}
        }
        for (unknown, when) in [(was_unknown, "in the baseline"), (now_unknown, "now")] {
            if unknown > 0 {
                self.not_compared(&format!(
                    "{what} of {subject}: not known of {} {when}",
                    counted(unknown, "pod")
                ));
            }
        }
        let list = |all: BTreeSet<&str>| all.into_iter().collect::<Vec<_>>().join(" / ");
        self.push(kind, subject, what, &list(was), &list(now));
    }
}

fn occurring<'a>(values: impl Iterator<Item = Option<&'a str>>) -> (BTreeSet<&'a str>, usize) {
    let mut unknown = 0;
    let known = values.filter_map(|value| {
        unknown += usize::from(value.is_none());
        value
    });
    let known = known.collect();
    (known, unknown)
}

/// To which component a pod belongs.
pub(super) struct Names<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Names<'a> {
    pub(super) fn of(prints: &'a [Fingerprint]) -> Self {
        Self(prints.iter().map(|p| (p.pod.as_str(), group(p))).collect())
    }

    /// The component of an end as reports call it: `pod`, `namespace/pod`, either with `/container` or `[container]` behind.
    fn component<'n>(&self, end: &'n str) -> &'n str
    where
        'a: 'n,
    {
        self.known(end).unwrap_or(end)
    }

    fn known(&self, end: &str) -> Option<&'a str> {
        let mut parts = end.split(['/', '[', ']', ' ']);
        parts.find_map(|part| self.0.get(part).copied())
    }

    fn knows(&self, end: &str) -> bool {
        self.known(end).is_some()
    }

    fn pair(&self, name: &str) -> String {
        let ends = name.split(" -> ").map(|end| self.component(end));
        ends.collect::<Vec<_>>().join(" -> ")
    }

    fn has(&self, component: &str) -> bool {
        self.0.values().any(|c| *c == component)
    }
}

fn group(print: &Fingerprint) -> &str {
    let component = print.component.as_deref().or(print.role.as_deref());
    component.unwrap_or(&print.pod)
}

pub(super) fn containers(out: &mut Comparison, was: &[Fingerprint], now: &[Fingerprint]) {
    let groups = |all: &[Fingerprint]| -> BTreeSet<String> {
        all.iter().map(|p| group(p).to_owned()).collect()
    };
    let (then, today) = (groups(was), groups(now));
    for component in then.union(&today) {
        let own = |all: &'_ [Fingerprint]| -> Vec<Fingerprint> {
            all.iter()
                .filter(|p| group(p) == component)
                .cloned()
                .collect()
        };
        let (was, now) = (own(was), own(now));
        if was.is_empty() || now.is_empty() {
            let pods = |n: usize| match n {
                0 => "no pod".to_owned(),
                1 => "1 pod".to_owned(),
                n => format!("{n} pods"),
            };
            let (was, now) = (pods(was.len()), pods(now.len()));
            out.push(ChangeKind::Deployment, component, "pods", &was, &now);
            continue;
        }
        let each = |all: &[Fingerprint], of: fn(&[PortPrint]) -> String| -> Vec<Option<String>> {
            all.iter().map(|p| p.ports.as_deref().map(of)).collect()
        };
        for (what, of) in [
            ("ports", summary as fn(&[PortPrint]) -> String),
            ("devices", names),
        ] {
            let (was, now) = (each(&was, of), each(&now, of));
            let (was, now) = (
                was.iter().map(Option::as_deref),
                now.iter().map(Option::as_deref),
            );
            out.values(ChangeKind::Fabric, component, what, was, now);
        }
        let keys: BTreeSet<&String> = was
            .iter()
            .chain(&now)
            .flat_map(|p| p.versions.keys())
            .collect();
        for key in keys {
            let of = |all: &'_ [Fingerprint]| -> Vec<Option<String>> {
                all.iter().map(|p| p.versions.get(key).cloned()).collect()
            };
            let (was, now) = (of(&was), of(&now));
            let (was, now) = (
                was.iter().map(Option::as_deref),
                now.iter().map(Option::as_deref),
            );
            out.values(ChangeKind::Version, component, key, was, now);
        }
        variables(out, component, &was, &now);
    }
}

pub(super) fn variables(
    out: &mut Comparison,
    component: &str,
    was: &[Fingerprint],
    now: &[Fingerprint],
) {
    for (all, when) in [(was, "in the baseline"), (now, "now")] {
        let unknown = all.iter().filter(|p| p.environment.is_none()).count();
        if unknown > 0 {
            let what = format!(
                "environment of {component}: not known of {unknown} of {} pods {when}",
                all.len()
            );
            out.not_compared(&what);
        }
    }
    let known = |all: &[Fingerprint]| all.iter().any(|p| p.environment.is_some());
    if !known(was) || !known(now) {
        return;
    }
    let names: BTreeSet<&String> = was
        .iter()
        .chain(now)
        .flat_map(|p| p.environment.iter().flat_map(BTreeMap::keys))
        // A baseline is a file that anybody may have written.
        .filter(|name| catalogue::find(name).is_some())
        .collect();
    for name in names {
        let of = |all: &[Fingerprint]| -> BTreeSet<String> {
            let environments = all.iter().filter_map(|p| p.environment.as_ref());
            environments
                .map(|e| match e.get(name) {
                    Some(value) if catalogue::withheld_of(name, value) => "(withheld)".to_owned(),
                    Some(value) if value.is_empty() => "(empty)".to_owned(),
                    Some(value) => value.clone(),
                    None => "(unset)".to_owned(),
                })
                .collect()
        };
        let list = |all: BTreeSet<String>| all.into_iter().collect::<Vec<_>>().join(" / ");
        let (was, now) = (list(of(was)), list(of(now)));
        out.push(ChangeKind::Environment, component, name, &was, &now);
    }
}

/// Ports that are alike, counted: `8 x InfiniBand 400 Gb/s ACTIVE`.
fn summary(ports: &[PortPrint]) -> String {
    let mut all: BTreeMap<String, usize> = BTreeMap::new();
    for port in ports {
        let word = |word: &Option<String>| word.clone().unwrap_or_else(|| "?".to_owned());
        let rate = port
            .gbps
            .map_or("? Gb/s".to_owned(), |rate| format!("{rate} Gb/s"));
        let alike = format!("{} {rate} {}", word(&port.link_layer), word(&port.state));
        *all.entry(alike).or_default() += 1;
    }
    if all.is_empty() {
        return "none".to_owned();
    }
    let all: Vec<String> = all
        .iter()
        .map(|(alike, n)| format!("{n} x {alike}"))
        .collect();
    all.join(", ")
}

pub(super) fn names(ports: &[PortPrint]) -> String {
    let all: BTreeSet<&str> = ports.iter().map(|p| p.port.as_str()).collect();
    match all.is_empty() {
        true => "none".to_owned(),
        false => all.into_iter().collect::<Vec<_>>().join(", "),
    }
}

/// Transfers between two components: the slowest of each direction, and what carried them.
#[derive(Default)]
pub(super) struct Group {
    lanes: BTreeSet<String>,
    write: Option<f64>,
    read: Option<f64>,
    /// An end that is none of the pods that were looked at, so that its component is not known.
    stranger: Option<String>,
}

pub(super) fn by_ends(pairs: &[Pair], names: &Names<'_>) -> BTreeMap<String, Group> {
    let mut all: BTreeMap<String, Group> = BTreeMap::new();
    let least = |a: Option<f64>, b: Option<f64>| match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    for pair in pairs {
        let (from, to) = (
            names.component(&pair.initiator),
            names.component(&pair.target),
        );
        let group = all.entry(format!("{from} -> {to}")).or_default();
        let mut ends = [&pair.initiator, &pair.target].into_iter();
        group.stranger = ends.find(|end| !names.knows(end)).cloned();
        group.lanes.insert(transports(&pair.lane));
        group.write = least(group.write, pair.write_gbytes);
        group.read = least(group.read, pair.read_gbytes);
    }
    all
}

/// A lane without its devices, which differ from pod to pod: `rc_mlx5/mlx5_0:1 zero-copy` is `rc_mlx5 zero-copy`.
fn transports(lane: &str) -> String {
    let mut words: Vec<&str> = Vec::new();
    for word in lane.split_whitespace() {
        let word = word.split('/').next().unwrap_or(word);
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words.join(" ")
}

pub(super) fn pairs(
    out: &mut Comparison,
    was: BTreeMap<String, Group>,
    now: BTreeMap<String, Group>,
) {
    let all: BTreeSet<&String> = was.keys().chain(now.keys()).collect();
    for pair in all {
        let (Some(was), Some(now)) = (was.get(pair), now.get(pair)) else {
            let stranger = |group: Option<&Group>| group.and_then(|g| g.stranger.clone());
            let strangers =
                |all: &BTreeMap<String, Group>| all.values().any(|group| group.stranger.is_some());
            let was_made = was.contains_key(pair);
            let when = match (stranger(was.get(pair)), stranger(now.get(pair))) {
                _ if now.is_empty() => "no transfer was made now (--transfer)".to_owned(),
                _ if was.is_empty() => "no transfer was made in the baseline".to_owned(),
                (Some(end), _) => format!("{end} was not looked at in the baseline"),
                (_, Some(end)) => format!("{end} was not looked at now"),
                _ if was_made && strangers(&now) => {
                    "now not all ends of transfers were looked at".to_owned()
                }
                _ if was_made => "no transfer was made now (--transfer)".to_owned(),
                _ if strangers(&was) => {
                    "in the baseline not all ends of transfers were looked at".to_owned()
                }
                _ => "no transfer was made in the baseline".to_owned(),
            };
            out.not_compared(&format!("lanes of {pair}: {when}"));
            continue;
        };
        let list = |all: &BTreeSet<String>| all.iter().cloned().collect::<Vec<_>>().join(" / ");
        let (lanes_were, lanes) = (list(&was.lanes), list(&now.lanes));
        out.push(ChangeKind::Lane, pair, "transports", &lanes_were, &lanes);
        for (what, was, now) in [
            ("slowest WRITE", was.write, now.write),
            ("slowest READ", was.read, now.read),
        ] {
            match (was, now) {
                (Some(was), Some(_)) if !(0.0..=FASTEST).contains(&was) => {
                    out.not_compared(&format!(
                        "{what} of {pair}: the baseline holds a speed that no lane has"
                    ));
                }
                (Some(was), Some(now)) if was > 0.0 => {
                    let share = (now - was) / was;
                    if share.abs() > SPEED {
                        let now = format!("{now:.1} GB/s ({:+.0} %)", share * 100.0);
                        let was = format!("{was:.1} GB/s");
                        out.push(ChangeKind::Speed, pair, what, &was, &now);
                    }
                }
                (None, None) => {}
                _ => out.not_compared(&format!("{what} of {pair}: not measured in both runs")),
            }
        }
    }
}

/// Where a finding is, by component, and its status.
type Findings = BTreeMap<(String, String, String), Status>;

pub(super) fn findings(
    out: &mut Comparison,
    old: &Old,
    report: &Report,
    then_of: &Names<'_>,
    now_of: &Names<'_>,
) {
    let place = |kind: &str, name: &str, names: &Names<'_>| match kind {
        "pod" => names.component(name).to_owned(),
        "pair" => names.pair(name),
        "worker" => name.to_owned(),
        _ => "deployment".to_owned(),
    };
    let (mut was, mut now) = (Findings::new(), Findings::new());
    let note = |all: &mut Findings, key: (String, String, String), status: Status| {
        let worst = all.entry(key).or_insert(status);
        *worst = (*worst).max(status);
    };
    for finding in &old.checks {
        let status = match finding.status.as_str() {
            "fail" => Status::Fail,
            "warn" => Status::Warn,
            "skipped" => Status::Skipped,
            _ => Status::Ok,
        };
        let at = place(&finding.target.kind, &finding.target.name, then_of);
        note(
            &mut was,
            (at, finding.id.clone(), finding.name.clone()),
            status,
        );
    }
    for finding in &report.checks {
        let at = place(finding.target.kind.word(), &finding.target.name, now_of);
        note(
            &mut now,
            (at, finding.id.to_owned(), finding.name.to_string()),
            finding.status,
        );
    }
    let keys: BTreeSet<_> = was.keys().chain(now.keys()).cloned().collect();
    for key in keys {
        let (then, today) = (was.get(&key).copied(), now.get(&key).copied());
        let bad = |status: Option<Status>| status.is_some_and(|s| s >= Status::Warn);
        if !bad(then) && !bad(today) {
            continue;
        }
        let (at, id, name) = &key;
        let what = format!("{id} {name}");
        let word = |status: Option<Status>| status.map_or("not said", Status::word);
        // Silence is a change only where this run looked.
        let on_budget = checks::find(id).is_some_and(|c| matches!(c.run, Run::Budget(_)));
        let looked = match id.as_str() {
            "DEP050" | "DEP051" => report.nodes.is_some(),
            _ if on_budget => report
                .kv_budget
                .as_ref()
                .is_some_and(|b| b.slo_ms.is_some()),
            _ if at.contains(" -> ") => !report.pairs.made.is_empty(),
            _ => at == "deployment" || now_of.has(at) || now.keys().any(|(a, ..)| a == at),
        };
        if today == Some(Status::Skipped) || today.is_none() && !looked {
            out.not_compared(&format!(
                "{what} on {at}: was {}, and could not be looked at now",
                word(then)
            ));
        } else {
            out.push(ChangeKind::Finding, at, &what, word(then), word(today));
        }
    }
}
