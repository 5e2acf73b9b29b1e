//! Where something is true: the object a finding is about.
//!
//! A target is always an object with a kind and a name, never a bare string, so that a machine can group by workload
//! or role without parsing prose.

use crate::snapshot::{Place, PlaceKind};
use serde::Serialize;
use std::fmt;

/// Name of the place of pasted outputs. No host is called so.
pub const PASTED: &str = "pasted outputs";

/// What kind of object a [`Target`] is. The order is the order of a report: inputs, then whole workloads, then their
/// parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum TargetKind {
    /// What the user named on the command line: a file, a directory, standard input.
    Input,
    /// A whole deployment: one graph, or one object with a pod template.
    Workload,
    /// One component of a workload as written in a manifest.
    Worker,
    /// One pod (its worker container) that was probed or recorded.
    Pod,
    /// A machine: the one the tool runs on, or the one that pasted outputs come from.
    Host,
    /// Two ends between which a transfer was made.
    Pair,
}

impl TargetKind {
    /// The word that JSON uses.
    pub fn word(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Workload => "workload",
            Self::Worker => "worker",
            Self::Pod => "pod",
            Self::Host => "host",
            Self::Pair => "pair",
        }
    }
}

/// The object that a finding is about. Ordered, so that concurrent collection cannot change a report.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Target {
    /// Position of the workload in the run, 0 for inputs. Two graphs may share a name; this keeps them apart and in
    /// the order they were read. Not printed.
    #[serde(skip)]
    pub ordinal: usize,
    /// Name of the workload this object belongs to; absent for inputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// What kind of object this is.
    pub kind: TargetKind,
    /// Position among its siblings, so that workers keep the order of the manifest. Not printed.
    #[serde(skip)]
    pub position: usize,
    /// The object's own name.
    pub name: String,
    /// Kubernetes namespace, where the manifest or the cluster names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Role of a worker: prefill, decode, encode, pd, agg; kv_both is one side that does not say which.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
}

impl Target {
    /// A file, directory or standard input named by the user.
    pub fn input(name: impl Into<String>) -> Self {
        Self {
            workload: None,
            kind: TargetKind::Input,
            position: 0,
            name: name.into(),
            namespace: None,
            role: None,
            ordinal: 0,
        }
    }

    /// A whole workload. `ordinal` is its position in the run.
    pub fn workload(name: impl Into<String>, namespace: Option<String>, ordinal: usize) -> Self {
        let name = name.into();
        Self {
            workload: Some(name.clone()),
            kind: TargetKind::Workload,
            position: 0,
            name,
            namespace,
            role: None,
            ordinal,
        }
    }

    /// A pod, as recorded. `ordinal` is the position of its workload in the run.
    pub fn pod(place: &Place, ordinal: usize) -> Self {
        Self {
            ordinal,
            workload: place.workload.clone(),
            kind: match place.kind {
                PlaceKind::Pod => TargetKind::Pod,
                PlaceKind::Host | PlaceKind::Pasted => TargetKind::Host,
            },
            position: 0,
            name: place.pod.clone(),
            namespace: place.namespace.clone(),
            role: place.role.clone(),
        }
    }

    /// Outputs that a person pasted, and no machine that was read.
    pub fn is_pasted(&self) -> bool {
        self.kind == TargetKind::Host && self.name == PASTED
    }

    /// Two ends between which a transfer was made.
    pub fn pair(initiator: &str, target: &str, namespace: Option<String>) -> Self {
        Self {
            ordinal: 0,
            workload: None,
            kind: TargetKind::Pair,
            position: 0,
            name: format!("{initiator} -> {target}"),
            namespace,
            role: None,
        }
    }

    /// A worker of this workload, at this position among its workers.
    pub fn worker(
        &self,
        position: usize,
        name: impl Into<String>,
        role: impl Into<String>,
    ) -> Self {
        Self {
            kind: TargetKind::Worker,
            position,
            name: name.into(),
            role: Some(role.into()),
            ..self.clone()
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.kind, &self.workload) {
            (TargetKind::Worker | TargetKind::Pod, Some(workload)) => {
                write!(f, "{workload}/{}", self.name)
            }
            _ => f.write_str(&self.name),
        }
    }
}
