//! The raw, already filtered answers of one container. Recorded snapshots replace a real machine in every test.

mod folded;

use crate::ask::{self, Ask, Needs};
use crate::observed::Skip;
use crate::pair::PairFacts;
use crate::report::{Evidence, EvidenceSource, InputError, Note, SkipReason};
use crate::sanitise;
use crate::target::PASTED;
pub use folded::Folded;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Why a pod does not run that will not run again, as `check` and `node` say it: a pod that is over may be left behind beside
/// those that took its place.
pub mod over {
    /// It has a deletionTimestamp.
    pub const DELETED: &str = "the pod is being deleted";
    /// Phase Succeeded.
    pub const COMPLETED: &str = "the pod has completed";
    /// Phase Failed; a reason such as `Evicted` may follow.
    pub const FAILED: &str = "the pod has failed";

    /// These words say that the pod is over.
    pub fn is(why: &str) -> bool {
        [DELETED, COMPLETED, FAILED]
            .iter()
            .any(|over| why.starts_with(over))
    }
}

/// Where a snapshot was taken.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// What kind of place it is.
    #[serde(default, skip_serializing_if = "PlaceKind::is_pod")]
    pub kind: PlaceKind,
    /// Deployment the container belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// Namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Pod, or the name of the host.
    pub pod: String,
    /// Container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Node it runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Role of the worker: prefill, decode, encode, pd, agg; kv_both is one side that does not say which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
}

/// Whether a place is a container or a whole machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlaceKind {
    /// A container of a pod.
    #[default]
    Pod,
    /// The machine, or the container, that the tool itself runs on.
    Host,
    /// Outputs that a person pasted: those of a worker that moves KV, as far as anybody said.
    Pasted,
}

impl PlaceKind {
    fn is_pod(&self) -> bool {
        *self == Self::Pod
    }
}

impl Place {
    /// The machine the tool runs on.
    pub fn host(name: impl Into<String>) -> Self {
        let (workload, namespace, container, node, role) = (None, None, None, None, None);
        Self {
            kind: PlaceKind::Host,
            pod: name.into(),
            workload,
            namespace,
            container,
            node,
            role,
        }
    }
}

impl Place {
    /// Outputs that a person pasted.
    pub fn pasted() -> Self {
        Self {
            kind: PlaceKind::Pasted,
            ..Self::host(PASTED)
        }
    }
}

/// One answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// Where it was taken.
    pub place: Place,
    /// Answers by the id of the ask.
    pub answers: BTreeMap<String, Answer>,
}

/// Several snapshots of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bundle {
    /// Version of this format. Older formats stay readable.
    pub format: u32,
    /// The containers.
    pub snapshots: Vec<Folded>,
    /// What could not be read at all, so that a replay says the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<InputError>,
    /// What was seen on the way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
    /// The deployment that the containers belong to, where one was looked at as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment: Option<Deployment>,
}

/// What was read of a deployment beside its containers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deployment {
    /// Its name.
    pub name: String,
    /// Its pods were found by a selector, which stands where the name would.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub selected: bool,
    /// Its namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Texts that describe it, reduced to what may be seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifests: Vec<Manifest>,
    /// Components whose pods do not all have the same template.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mixed: Vec<String>,
    /// Transfers that were made between its workers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transfers: Vec<PairFacts>,
    /// Nodes of the cluster; absent where nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Nodes>,
    /// ComputeDomains of the namespace; absent where nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domains: Option<Domains>,
}

/// One text that describes a deployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Where it comes from.
    pub origin: Origin,
    /// How it is named in a report.
    pub path: String,
    /// YAML.
    pub text: String,
}

/// Where a description of a deployment comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// The object in the cluster: what was asked for.
    Object,
    /// The pods: what runs.
    Pods,
}

/// What the API says of the nodes, or why it says nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Nodes {
    /// The nodes that were asked for, by name.
    Known(BTreeMap<String, Node>),
    /// Why nothing was read.
    Missing {
        /// The typed reason.
        reason: SkipReason,
        /// In words.
        detail: String,
    },
}

/// One node, as far as it matters for a fabric.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Node {
    /// Takes pods: it is ready and not cordoned.
    pub schedulable: bool,
    /// Allocatable GPUs and RDMA resources, quantities as written.
    pub allocatable: BTreeMap<String, String>,
    /// Labels about GPUs, NICs, cliques, zones and racks.
    pub labels: BTreeMap<String, String>,
}

impl Deployment {
    /// What was written under this name was written for another deployment. Pods that a selector found have no name of their
    /// own, and a text without one may mean any.
    pub fn is_another_than(&self, written: &str) -> bool {
        let named = !self.name.is_empty() && !self.is_of_selector();
        named && written != "(unnamed)" && written != self.name
    }

    /// Its pods were found by a selector, which stands where the name would. Older recordings tell it by the name alone.
    pub fn is_of_selector(&self) -> bool {
        self.selected || self.name.contains(['=', ',', ' ', '(', '!'])
    }

    /// Makes safe to show what was read of nodes and domains: a recording may come from anybody.
    pub fn with_safe_nodes(mut self) -> Self {
        const LONGEST: usize = 300;
        let line = |text: &str| sanitise::line(text, LONGEST);
        let map = |all: &mut BTreeMap<String, String>| {
            *all = all.iter().map(|(k, v)| (line(k), line(v))).collect();
        };
        match &mut self.nodes {
            Some(Nodes::Known(nodes)) => {
                *nodes = std::mem::take(nodes)
                    .into_iter()
                    .map(|(name, mut node)| {
                        map(&mut node.allocatable);
                        map(&mut node.labels);
                        (line(&name), node)
                    })
                    .collect();
            }
            Some(Nodes::Missing { detail, .. }) => *detail = sanitise::line(detail, 2_000),
            None => {}
        }
        match &mut self.domains {
            Some(Domains::Known(domains)) => {
                *domains = std::mem::take(domains)
                    .into_iter()
                    .map(|(name, domain)| (line(&name), domain.safe(&line)))
                    .collect();
            }
            Some(Domains::Missing { detail, .. }) => *detail = sanitise::line(detail, 2_000),
            None => {}
        }
        self
    }
}

impl Domain {
    fn safe(self, line: &dyn Fn(&str) -> String) -> Self {
        let member = |(name, member): (String, Member)| {
            let member = Member {
                status: line(&member.status),
                clique: line(&member.clique),
            };
            (line(&name), member)
        };
        Self {
            status: line(&self.status),
            wanted: self.wanted,
            template: line(&self.template),
            nodes: self.nodes.into_iter().map(member).collect(),
        }
    }
}

/// What the API says of the ComputeDomains of a namespace, or why it says nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Domains {
    /// All of them, by name. None where the cluster has no such kind of object.
    Known(BTreeMap<String, Domain>),
    /// Why nothing was read.
    Missing {
        /// The typed reason.
        reason: SkipReason,
        /// In words.
        detail: String,
    },
}

/// One ComputeDomain: nodes that share memory over multi-node NVLink.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Domain {
    /// `status.status`: Ready, NotReady, Failed; empty where it says nothing.
    pub status: String,
    /// `spec.numNodes`; 0 where any number may join.
    pub wanted: u64,
    /// Template of the claims by which pods join.
    pub template: String,
    /// Nodes that joined.
    pub nodes: BTreeMap<String, Member>,
}

/// One node of a ComputeDomain.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Member {
    /// Ready, NotReady, Failed; empty where it says nothing.
    pub status: String,
    /// NVLink clique: cluster and number.
    pub clique: String,
}

/// At most this many characters of an answer become evidence.
const EXCERPT: usize = 200;

/// Last line of an answer of which only the beginning was kept.
pub const CUT: &str = "[cut]";

/// The exit status of a tool that failed, from the last line of its answer.
pub fn exit_code(text: &str) -> Option<i32> {
    let last = text
        .strip_suffix(CUT)
        .unwrap_or(text)
        .trim_end_matches('\n')
        .rsplit('\n')
        .next()?;
    last.strip_prefix("[exit ")?.strip_suffix(']')?.parse().ok()
}

/// An answer without the lines that the probe added to it.
pub fn without_marks(text: &str) -> &str {
    let text = text.strip_suffix(CUT).unwrap_or(text);
    if exit_code(text).is_none() {
        return text;
    }
    text.rfind("[exit ")
        .map_or(text, |at| text[..at].strip_suffix('\n').unwrap_or(""))
}

impl Snapshot {
    /// The text of an answer, or why there is none. What the probe added to it is left out.
    pub fn text(&self, ask: &Ask) -> Result<&str, Skip> {
        self.raw(ask).map(without_marks)
    }

    /// Only the beginning of this answer was kept: what is not in it may yet be there.
    pub fn is_cut(&self, ask: &Ask) -> bool {
        self.raw(ask).is_ok_and(|text| text.ends_with(CUT))
    }

    /// The exit status of the tool behind this answer, where it failed and yet printed something.
    pub fn exit_code(&self, ask: &Ask) -> Option<i32> {
        self.raw(ask).ok().and_then(exit_code)
    }

    /// The answers are outputs that a person pasted.
    pub fn is_pasted(&self) -> bool {
        self.place.kind == PlaceKind::Pasted
    }

    fn raw(&self, ask: &Ask) -> Result<&str, Skip> {
        match self.answers.get(ask.id) {
            Some(Answer::Text(text)) => Ok(text),
            // Whether it arises is asked of no probe, so that none can have said so.
            Some(Answer::Missing {
                reason: SkipReason::NotApplicable,
                ..
            }) if matches!(ask.needs, Needs::Nothing | Needs::Worker) => Err(self.unread(ask)),
            Some(Answer::Missing { reason, detail }) => Err(Skip::new(*reason, detail.clone())),
            None if self.is_pasted() => Err(match ask::paste_word(ask) {
                Some(word) => Skip::not_pasted([word]),
                None => Skip::new(
                    SkipReason::NotCollected,
                    format!(
                        "{} is only read on the machine or in the pod itself",
                        ask.short()
                    ),
                ),
            }),
            None => Err(self.unread(ask)),
        }
    }

    fn unread(&self, ask: &Ask) -> Skip {
        let detail = format!("{} was not read in {}", ask.shown_as, self.place.pod);
        Skip::new(SkipReason::NotCollected, detail)
    }
}

/// Evidence from one answer: the lines that decided, bounded.
pub fn evidence<'a>(ask: &Ask, lines: impl IntoIterator<Item = &'a str>) -> Evidence {
    let excerpt = lines
        .into_iter()
        .take(8)
        .map(|l| sanitise::line(l, EXCERPT))
        .collect::<Vec<_>>()
        .join("\n");
    let ask = Some(ask.shown_as.into());
    Evidence {
        source: EvidenceSource::Snapshot,
        path: None,
        line: None,
        column: None,
        ask,
        excerpt,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_probe_added_is_no_part_of_an_answer() {
        assert_eq!(without_marks("a\n\n[exit 9]\n"), "a\n");
        assert_eq!(without_marks("a\n\n[exit 9]"), "a\n");
        assert_eq!(without_marks("a\n[cut]"), "a\n");
        assert_eq!(without_marks("[exit 9]"), "");
        assert_eq!(without_marks("[exit x]\nb"), "[exit x]\nb");
        assert_eq!(exit_code("a\n\n[exit 139]\n"), Some(139));
        assert_eq!(exit_code("a [exit 9]"), None);
    }

    #[test]
    fn what_was_not_pasted_is_named_as_a_person_would_hand_it_in() {
        let snapshot = Snapshot {
            place: Place::pasted(),
            answers: BTreeMap::new(),
        };
        let detail = |ask: &Ask| snapshot.text(ask).unwrap_err().detail;
        assert_eq!(
            detail(&ask::IBSTAT),
            "no ibstat was pasted (--input ibstat=FILE)"
        );
        assert_eq!(
            detail(&ask::RDMA_PORTS),
            "rdma-ports is only read on the machine or in the pod itself"
        );
    }

    #[test]
    fn a_recording_of_the_first_format_stays_readable() {
        let place: Place = serde_json::from_str(r#"{"workload":null,"namespace":"ns","pod":"p","container":"main","node":null,"role":"decode"}"#).unwrap();
        assert_eq!(place.kind, PlaceKind::Pod);
        assert_eq!(
            serde_json::to_string(&Place::host("h")).unwrap(),
            r#"{"kind":"host","pod":"h"}"#
        );
        let pasted = serde_json::to_string(&Place::pasted()).unwrap();
        assert_eq!(pasted, r#"{"kind":"pasted","pod":"pasted outputs"}"#);
    }
}
