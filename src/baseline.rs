//! What changed since an earlier run: its report against this one. Pods are renamed by every rollout, so components and
//! roles are compared, never pods.

use crate::catalogue;
use crate::checks::Container;
use crate::checks::words::counted;
use crate::facts::container::process::Whose;
use crate::facts::container::rdma::state_word;
use crate::report::{
    Change, ChangeKind, Changes, Fingerprint, PortPrint, Report, SCHEMA_VERSION, Status,
};
use crate::sanitise;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// From this share on a speed has changed.
const SPEED: f64 = 0.10;
const SPEED_SOURCE: &str = "10 %: the tolerance of the bandwidth floors of NVIDIA/aicr; repeated transfers on a live \
                            deployment differ by a few percent";

/// More than any lane carries, in GB/s: a GPU has 900 each way over the fifth NVLink.
const FASTEST: f64 = 100_000.0;

/// Longest text of a baseline that is shown.
const SHOWN: usize = 200;

/// An earlier report, as far as it is compared.
#[derive(Debug)]
pub struct Baseline {
    file: String,
    old: Old,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Old {
    tool: OldTool,
    trust: String,
    workloads: Vec<OldWorkload>,
    fingerprint: Vec<Fingerprint>,
    pairs: OldPairs,
    checks: Vec<OldFinding>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OldTool {
    version: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OldWorkload {
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OldPairs {
    made: Vec<Pair>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Pair {
    initiator: String,
    target: String,
    lane: String,
    write_gbytes: Option<f64>,
    read_gbytes: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OldFinding {
    id: String,
    name: String,
    status: String,
    target: OldTarget,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OldTarget {
    kind: String,
    name: String,
}

impl Baseline {
    /// Reads the JSON of a report. `file`: how it is called.
    ///
    /// # Errors
    /// What is wrong with it and what to do, without the name of the file.
    pub fn parse(file: &str, json: &str) -> Result<Self, String> {
        const MAKE: &str = "make one with `check -o json > FILE`";
        // The parser quotes what it found with its quotes escaped, however long it is.
        let said = |error: serde_json::Error| {
            sanitise::line(&error.to_string().replace("\\\"", "\""), SHOWN)
        };
        let value: Value = serde_json::from_str(json)
            .map_err(|error| format!("is not JSON ({}); {MAKE}", said(error)))?;
        if value["format"].is_number() && value["snapshots"].is_array() {
            return Err(format!(
                "is a recording and not a report: replay it with `check --from FILE -o json`, or {MAKE}"
            ));
        }
        let schema = value["schema_version"].as_u64();
        let (Some(schema), Some("dynamo-interconnect-check")) =
            (schema, value["tool"]["name"].as_str())
        else {
            return Err(format!("is no report of this tool; {MAKE}"));
        };
        if schema > u64::from(SCHEMA_VERSION) {
            return Err(format!(
                "has schema version {schema}, and this version knows versions up to {SCHEMA_VERSION}; update the tool"
            ));
        }
        match value["command"].as_str() {
            Some("check") => {}
            command => {
                return Err(format!(
                    "is a report of `{}` and not of `check`; {MAKE}",
                    sanitise::line(command.unwrap_or("?"), 20)
                ));
            }
        }
        let old = serde_json::from_value(value)
            .map_err(|error| format!("is not what a report should be ({}); {MAKE}", said(error)))?;
        Ok(Self {
            file: sanitise::line(file, 500),
            old,
        })
    }

    /// What changed until this report.
    pub fn compare(&self, report: &Report) -> Changes {
        let old = &self.old;
        let mut out = Comparison::default();
        out.push(
            ChangeKind::Trust,
            "deployment",
            "trust",
            &old.trust,
            report.trust.word(),
        );
        let name = |names: Vec<&str>| names.join(", ");
        out.push(
            ChangeKind::Deployment,
            "deployment",
            "name",
            &name(old.workloads.iter().map(|w| w.name.as_str()).collect()),
            &name(report.workloads.iter().map(|w| w.name.as_str()).collect()),
        );
        if old.fingerprint.is_empty() {
            out.not_compared(
                "fabric, versions and environment: the baseline holds no fingerprint of a container",
            );
        } else {
            containers(&mut out, &old.fingerprint, &report.fingerprint);
        }
        let now: Vec<Pair> = report
            .pairs
            .made
            .iter()
            .map(|p| Pair {
                initiator: p.initiator.clone(),
                target: p.target.clone(),
                lane: p.lane.clone(),
                write_gbytes: p.write_gbytes,
                read_gbytes: p.read_gbytes,
            })
            .collect();
        let (then_of, now_of) = (Names::of(&old.fingerprint), Names::of(&report.fingerprint));
        pairs(
            &mut out,
            by_ends(&old.pairs.made, &then_of),
            by_ends(&now, &now_of),
        );
        findings(&mut out, old, report, &then_of, &now_of);
        out.changes.sort();
        Changes {
            baseline: self.file.clone(),
            tool_version: shown(&old.tool.version),
            trust: shown(&old.trust),
            changes: out.changes,
            not_compared: out.not_compared.into_iter().collect(),
            speed_threshold: SPEED_SOURCE,
        }
    }
}

fn shown(text: &str) -> String {
    sanitise::line(text, SHOWN)
}

#[derive(Default)]
struct Comparison {
    changes: Vec<Change>,
    not_compared: BTreeSet<String>,
}

impl Comparison {
    /// Notes a change, where there is one.
    fn push(&mut self, kind: ChangeKind, subject: &str, what: &str, was: &str, now: &str) {
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

    fn not_compared(&mut self, what: &str) {
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
struct Names<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Names<'a> {
    fn of(prints: &'a [Fingerprint]) -> Self {
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

fn containers(out: &mut Comparison, was: &[Fingerprint], now: &[Fingerprint]) {
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

fn variables(out: &mut Comparison, component: &str, was: &[Fingerprint], now: &[Fingerprint]) {
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

fn names(ports: &[PortPrint]) -> String {
    let all: BTreeSet<&str> = ports.iter().map(|p| p.port.as_str()).collect();
    match all.is_empty() {
        true => "none".to_owned(),
        false => all.into_iter().collect::<Vec<_>>().join(", "),
    }
}

/// Transfers between two components: the slowest of each direction, and what carried them.
#[derive(Default)]
struct Group {
    lanes: BTreeSet<String>,
    write: Option<f64>,
    read: Option<f64>,
    /// An end that is none of the pods that were looked at, so that its component is not known.
    stranger: Option<String>,
}

fn by_ends(pairs: &[Pair], names: &Names<'_>) -> BTreeMap<String, Group> {
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

fn pairs(out: &mut Comparison, was: BTreeMap<String, Group>, now: BTreeMap<String, Group>) {
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

fn findings(
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
        let looked = match id.as_str() {
            "DEP050" | "DEP051" => report.nodes.is_some(),
            "DEP060" => report
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

/// The fingerprint of one container.
pub fn fingerprint(container: &Container<'_>) -> Fingerprint {
    let Container { facts, place, .. } = container;
    let pod = facts.pod.known();
    let ports = facts.rdma.own_ports().ok().map(|ports| {
        let print = |(device, port): &(&_, &_)| port_print(device, port);
        ports.iter().map(print).collect()
    });
    let mut versions = BTreeMap::new();
    let mut put = |name: &str, version: Option<String>| {
        if let Some(version) = version {
            versions.insert(name.to_owned(), shown(&version));
        }
    };
    let software = &facts.software;
    put("ucx", software.ucx_version().map(|v| v.text));
    put("nixl", software.nixl().map(|v| v.text));
    put("nccl", software.nccl().map(|v| v.text));
    put(
        "driver",
        facts.gpu.driver.known().map(|d| d.version.clone()),
    );
    put("image", pod.and_then(|p| p.image.clone()));
    if let Some((engine, version)) = software.engine() {
        put(engine, Some(version.text));
    }
    let own = facts.process.environment.known();
    let environment = own.filter(|e| e.whose != Whose::Probe).map(|environment| {
        let known = environment.variables.iter().filter(|(name, value)| {
            catalogue::find(name).is_some() && !catalogue::withheld_of(name, value)
        });
        let places = [
            (pod.and_then(|p| p.pod_ip.as_deref()), "<pod-ip>"),
            (pod.and_then(|p| p.host_ip.as_deref()), "<node-ip>"),
            (Some(place.pod.as_str()), "<pod>"),
            (place.node.as_deref(), "<node>"),
        ];
        known
            .map(|(name, value)| (name.clone(), shown(&without(value, &places))))
            .collect()
    });
    Fingerprint {
        pod: place.pod.clone(),
        component: pod.and_then(|p| p.component.clone()),
        role: place.role.clone(),
        node: place.node.clone(),
        ports,
        versions,
        environment,
    }
}

/// A value without what differs from pod to pod: whole words only, so that `10.0.0.1` is not seen in `10.0.0.12`.
fn without(value: &str, places: &[(Option<&str>, &str)]) -> String {
    let mut value = value.to_owned();
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '.');
    for (own, sign) in places {
        let Some(own) = own.filter(|own| own.len() >= 4) else {
            continue;
        };
        let mut out = String::new();
        let mut rest = value.as_str();
        while let Some(at) = rest.find(own) {
            let (before, after) = (&rest[..at], &rest[at + own.len()..]);
            let inside = is_word(before.chars().next_back()) || is_word(after.chars().next());
            out.push_str(before);
            out.push_str(if inside { own } else { sign });
            rest = after;
        }
        out.push_str(rest);
        value = out;
    }
    value
}

fn port_print(
    device: &crate::facts::container::rdma::Device,
    port: &crate::facts::hca::Port,
) -> PortPrint {
    PortPrint {
        port: shown(&format!("{}:{}", device.hca.name, port.number)),
        state: port.state.as_ref().map(|s| shown(state_word(s))),
        gbps: port.rate_gbps(),
        link_layer: port.link_layer.as_ref().map(|l| l.word().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::PairReport;

    fn print(pod: &str, component: &str) -> Fingerprint {
        let port = |n: u32| PortPrint {
            port: format!("mlx5_{n}:1"),
            state: Some("ACTIVE".to_owned()),
            gbps: Some(400.0),
            link_layer: Some("InfiniBand".to_owned()),
        };
        Fingerprint {
            pod: pod.to_owned(),
            component: Some(component.to_owned()),
            ports: Some(vec![port(0), port(1)]),
            versions: [("ucx".to_owned(), "1.21.0".to_owned())].into(),
            environment: Some([("UCX_TLS".to_owned(), "rc,cuda_copy".to_owned())].into()),
            ..Fingerprint::default()
        }
    }

    fn pair(initiator: &str, target: &str, read: f64) -> PairReport {
        PairReport {
            initiator: initiator.to_owned(),
            target: target.to_owned(),
            status: Status::Ok,
            proven: true,
            unproven: vec![],
            lane: "rc_mlx5/mlx5_0:1 zero-copy".to_owned(),
            memory: "gpu".to_owned(),
            write_gbytes: Some(46.0),
            read_gbytes: Some(read),
            of_line_rate: None,
            steps: Vec::new(),
        }
    }

    fn report(prints: Vec<Fingerprint>, made: Vec<PairReport>) -> Report {
        let mut report = Report::new("check", vec![], vec![], vec![], vec![]);
        report.fingerprint = prints;
        report.pairs.made = made;
        report
    }

    fn compared(was: &Report, now: &Report) -> (Vec<String>, Vec<String>) {
        let json = serde_json::to_string(was).unwrap();
        let changes = Baseline::parse("b.json", &json).unwrap().compare(now);
        let all = changes.changes.iter();
        (
            all.map(|c| format!("{}: {}: {} -> {}", c.subject, c.what, c.was, c.now))
                .collect(),
            changes.not_compared,
        )
    }

    #[test]
    fn a_transfer_of_a_pod_that_was_not_looked_at_is_compared_with_none() {
        let seen = || vec![print("p-0", "prefill"), print("d-0", "decode")];
        let made = || vec![pair("d-0", "p-0", 45.0)];
        let both = report(seen(), made());
        let lost = report(vec![print("p-0", "prefill")], made());
        for (was, now, words) in [
            (
                &both,
                &lost,
                [
                    "lanes of d-0 -> prefill: d-0 was not looked at now",
                    "lanes of decode -> prefill: now not all ends of transfers were looked at",
                ],
            ),
            (
                &lost,
                &both,
                [
                    "lanes of d-0 -> prefill: d-0 was not looked at in the baseline",
                    "lanes of decode -> prefill: in the baseline not all ends of transfers were looked at",
                ],
            ),
        ] {
            let (_, said) = compared(was, now);
            for words in words {
                assert!(said.iter().any(|line| line == words), "{said:?}");
            }
        }
    }

    #[test]
    fn a_rollout_alone_is_no_change() {
        let was = report(
            vec![print("p-0", "prefill"), print("d-0", "decode")],
            vec![pair("d-0", "p-0", 45.0)],
        );
        let renamed = vec![
            print("p-x", "prefill"),
            print("d-y", "decode"),
            print("d-z", "decode"),
        ];
        let now = report(
            renamed,
            vec![pair("d-y", "p-x", 44.0), pair("d-z", "p-x", 46.0)],
        );
        assert_eq!(compared(&was, &now), (vec![], vec![]));
    }

    #[test]
    fn numbers_and_texts_without_end_are_not_repeated() {
        let mut was = report(
            vec![print("p-0", "prefill"), print("d-0", "decode")],
            vec![pair("d-0", "p-0", 1e299)],
        );
        let now = report(
            vec![print("p-0", "prefill"), print("d-0", "decode")],
            vec![pair("d-0", "p-0", 45.0)],
        );
        let wrong =
            "slowest READ of decode -> prefill: the baseline holds a speed that no lane has";
        assert_eq!(compared(&was, &now), (vec![], vec![wrong.to_owned()]));
        was.pairs.made.clear();
        let json = serde_json::to_string(&was).unwrap();
        let long = json.replace(
            "\"made\":[]",
            &format!("\"made\":\"no\\\"{}\"", "1".repeat(900)),
        );
        let said = Baseline::parse("b.json", &long).unwrap_err();
        assert!(
            said.len() < 400 && said.contains("string \"no\"111"),
            "{said}"
        );
    }

    #[test]
    fn each_kind_of_change_is_said_by_component() {
        let was = report(
            vec![print("p-0", "prefill"), print("d-0", "decode")],
            vec![pair("d-0", "p-0", 45.0)],
        );
        let mut other = print("d-1", "decode");
        let ports = other.ports.as_mut().unwrap();
        ports[1].state = Some("DOWN".to_owned());
        other.versions.insert("ucx".to_owned(), "1.20.0".to_owned());
        other.environment = Some(
            [
                ("UCX_TLS".to_owned(), "tcp".to_owned()),
                ("NCCL_DEBUG".to_owned(), "INFO".to_owned()),
            ]
            .into(),
        );
        let mut slow = pair("d-1", "p-1", 40.4);
        slow.lane = "tcp/eth0".to_owned();
        slow.write_gbytes = Some(42.0);
        let now = report(vec![print("p-1", "prefill"), other], vec![slow]);
        let (changes, not_compared) = compared(&was, &now);
        assert_eq!(
            changes,
            [
                "decode: ports: 2 x InfiniBand 400 Gb/s ACTIVE -> 1 x InfiniBand 400 Gb/s ACTIVE, 1 x InfiniBand 400 Gb/s DOWN",
                "decode -> prefill: transports: rc_mlx5 zero-copy -> tcp",
                "decode -> prefill: slowest READ: 45.0 GB/s -> 40.4 GB/s (-10 %)",
                "decode: ucx: 1.21.0 -> 1.20.0",
                "decode: NCCL_DEBUG: (unset) -> INFO",
                "decode: UCX_TLS: rc,cuda_copy -> tcp",
            ]
        );
        assert_eq!(not_compared, [] as [&str; 0]);
    }

    #[test]
    fn what_is_not_known_is_neither_changed_nor_the_same() {
        let was = report(vec![print("d-0", "decode")], vec![pair("d-0", "p-0", 45.0)]);
        let mut blind = print("d-1", "decode");
        (blind.ports, blind.environment) = (None, None);
        blind.versions.clear();
        let now = report(vec![blind], vec![]);
        let (changes, not_compared) = compared(&was, &now);
        assert_eq!(changes, [] as [&str; 0]);
        assert_eq!(
            not_compared,
            [
                "devices of decode: not known now",
                "environment of decode: not known of 1 of 1 pods now",
                "lanes of decode -> p-0: no transfer was made now (--transfer)",
                "ports of decode: not known now",
                "ucx of decode: not known now",
            ]
        );
        let (_, not_compared) = compared(&report(vec![], vec![]), &was);
        assert!(
            not_compared[0].contains("no fingerprint"),
            "{not_compared:?}"
        );
    }

    #[test]
    fn a_file_that_is_no_baseline_says_why() {
        let rows = [
            ("", "is not JSON"),
            ("[]", "is no report of this tool"),
            (
                r#"{"schema_version":1,"tool":{"name":"other"}}"#,
                "is no report of this tool",
            ),
            (
                r#"{"format":1,"snapshots":[]}"#,
                "is a recording and not a report",
            ),
            (
                r#"{"schema_version":2,"tool":{"name":"dynamo-interconnect-check"},"command":"check"}"#,
                "has schema version 2, and this version knows versions up to 1; update the tool",
            ),
            (
                r#"{"schema_version":1,"tool":{"name":"dynamo-interconnect-check"},"command":"node"}"#,
                "is a report of `node` and not of `check`",
            ),
            (
                r#"{"schema_version":1,"tool":{"name":"dynamo-interconnect-check"},"command":"check","pairs":3}"#,
                "is not what a report should be",
            ),
        ];
        for (json, wanted) in rows {
            let said = Baseline::parse("b", json).unwrap_err();
            assert!(said.contains(wanted), "{json}: {said}");
        }
    }

    #[test]
    fn addresses_of_the_pod_itself_are_no_settings() {
        let places = [
            (Some("10.0.0.1"), "<pod-ip>"),
            (Some("worker-0"), "<pod>"),
            (None, "<node>"),
        ];
        let rows = [
            ("10.0.0.1", "<pod-ip>"),
            ("tcp:10.0.0.1:5555", "tcp:<pod-ip>:5555"),
            ("10.0.0.12,110.0.0.1", "10.0.0.12,110.0.0.1"),
            ("worker-0.svc", "worker-0.svc"),
            ("rc,cuda_copy", "rc,cuda_copy"),
        ];
        for (value, wanted) in rows {
            assert_eq!(without(value, &places), wanted);
        }
    }
}
