//! The raw, already filtered answers of one container. Recorded snapshots replace a real machine in every test.

use crate::ask::Ask;
use crate::observed::Skip;
use crate::report::{Evidence, EvidenceSource, SkipReason};
use crate::sanitise;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Where a snapshot was taken.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// Deployment the container belongs to.
    pub workload: Option<String>,
    /// Namespace.
    pub namespace: Option<String>,
    /// Pod.
    pub pod: String,
    /// Container.
    pub container: Option<String>,
    /// Node it runs on.
    pub node: Option<String>,
    /// Role of the worker: prefill, decode, encode, pd, agg.
    pub role: Option<String>,
}

/// One answer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Answer {
    /// What was read.
    Text(String),
    /// Why nothing was read.
    Missing {
        /// The typed reason.
        reason: SkipReason,
        /// In words.
        detail: String,
    },
}

/// All answers of one container.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// Where it was taken.
    pub place: Place,
    /// Answers by the id of the ask.
    pub answers: BTreeMap<String, Answer>,
}

/// Several snapshots of one run.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bundle {
    /// Version of this format. Older formats stay readable.
    pub format: u32,
    /// The containers.
    pub snapshots: Vec<Snapshot>,
}

/// At most this many characters of an answer become evidence.
const EXCERPT: usize = 200;

impl Snapshot {
    /// The text of an answer, or why there is none.
    pub fn text(&self, ask: &Ask) -> Result<&str, Skip> {
        match self.answers.get(ask.id) {
            Some(Answer::Text(text)) => Ok(text),
            Some(Answer::Missing { reason, detail }) => Err(Skip::new(*reason, detail.clone())),
            None => {
                let detail = format!("{} was not read in {}", ask.shown_as, self.place.pod);
                Err(Skip::new(SkipReason::NotCollected, detail))
            }
        }
    }
}

/// Evidence from one answer: the lines that decided, bounded.
pub fn evidence<'a>(ask: &Ask, lines: impl IntoIterator<Item = &'a str>) -> Evidence {
    let excerpt = lines.into_iter().take(8).map(|l| sanitise::line(l, EXCERPT)).collect::<Vec<_>>().join("\n");
    let ask = Some(ask.shown_as.to_owned());
    Evidence { source: EvidenceSource::Snapshot, path: None, line: None, column: None, ask, excerpt }
}
