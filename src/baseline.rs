//! What changed since an earlier run: its report against this one. Pods are renamed by every rollout, so components and
//! roles are compared, never pods.

mod compare;
mod old;
mod print;
#[cfg(test)]
mod tests;

use crate::report::{ChangeKind, Changes, Report, SCHEMA_VERSION};
use crate::sanitise;
use compare::{Comparison, Names, by_ends, containers, findings, pairs};
use old::{Old, Pair};
pub use print::fingerprint;
use serde_json::Value;

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
        let name = |names: Vec<&str>| names.join(", ");
        let own = old.workloads.iter().map(|w| w.name.as_str());
        let own = name(own.filter(|name| !name.is_empty()).collect());
        let now = name(report.workloads.iter().map(|w| w.name.as_str()).collect());
        // An older report may not say it, in this place or at all.
        for (kind, what, was, now) in [
            (ChangeKind::Trust, "trust", &old.trust, report.trust.word()),
            (ChangeKind::Deployment, "name", &own, now.as_str()),
        ] {
            match was.is_empty() && !now.is_empty() {
                true => {
                    out.not_compared(&format!("{what} of deployment: not known in the baseline"))
                }
                false => out.push(kind, "deployment", what, was, now),
            }
        }
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
            trust: match old.trust.is_empty() {
                true => "not known".to_owned(),
                false => shown(&old.trust),
            },
            changes: out.changes,
            not_compared: out.not_compared.into_iter().collect(),
            speed_threshold: SPEED_SOURCE,
        }
    }
}

fn shown(text: &str) -> String {
    sanitise::line(text, SHOWN)
}
