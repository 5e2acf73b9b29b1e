//! What a check found, what it rests on, and what to fix.

use super::{KvPath, LeftOut, SkipReason, Status};
use crate::target::Target;
use serde::Serialize;
use std::borrow::Cow;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Where evidence was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum EvidenceSource {
    /// A manifest: `path`, `line` and `column` say where.
    Manifest,
    /// A recorded machine or pod: `ask` says what was read.
    Snapshot,
}

/// What a finding rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Evidence {
    /// Where it was read.
    pub source: EvidenceSource,
    /// File, for manifests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Column in characters, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// The read that gave it, for machines and pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<Cow<'static, str>>,
    /// The text itself, bounded, with neighbours masked.
    pub excerpt: String,
}

impl Evidence {
    /// It was read of an object of a cluster, whose name stands where a file's would. Lines and columns are those of a text
    /// that nobody has.
    pub fn is_of_object(&self) -> bool {
        let yaml = |path: &str| {
            let path = path.to_lowercase();
            [".yaml", ".yml"].iter().any(|end| path.ends_with(end))
        };
        self.path
            .as_deref()
            .is_some_and(|path| !path.starts_with('<') && path.contains(' ') && !yaml(path))
    }
}

// A report of a thousand containers holds fifty thousand of them, so what few have is kept apart, and what many share is
// shared.
/// One answer of one check about one target.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Finding {
    /// Stable id of the check.
    pub id: &'static str,
    /// Name of the check, or a more exact one (`env:UCX_TLS`).
    pub name: Cow<'static, str>,
    /// How bad it is.
    pub status: Status,
    /// What was seen and what was needed.
    pub detail: String,
    /// The object it is about.
    #[serde(serialize_with = "shared")]
    #[cfg_attr(test, schemars(with = "Target"))]
    pub target: Arc<Target>,
    /// Its part in trust.
    pub kv_path: KvPath,
    /// What it rests on.
    pub evidence: Vec<Evidence>,
    /// What to do.
    pub fix: Option<String>,
    /// Why it was skipped; null otherwise.
    pub reason: Option<SkipReason>,
    /// What it was before somebody left it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<Box<LeftOut>>,
    /// Ids or names of findings on the same object that follow from this one when it is at least as bad.
    #[serde(skip)]
    pub causes: &'static [&'static str],
    /// Position of the check in the table.
    #[serde(skip)]
    pub order: usize,
    /// What only some findings have.
    #[serde(skip)]
    pub rare: Rare,
}

/// What only some findings have: nothing is allocated for the others.
#[derive(Debug, Clone, Default)]
pub struct Rare(Option<Box<Parts>>);

/// The parts of [`Rare`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parts {
    /// Lines to paste, shown in `fix_first`.
    pub paste: Option<String>,
    /// The finding in a few words, for the verdict.
    pub headline: String,
    /// Tuning rather than a path.
    pub minor: bool,
    /// Names of findings on the same object that it stands beneath.
    pub follows: Vec<String>,
    /// Pasted outputs that would answer what was skipped.
    pub inputs: Vec<&'static str>,
}

impl From<Parts> for Rare {
    fn from(parts: Parts) -> Self {
        Self((parts != Parts::default()).then(|| Box::new(parts)))
    }
}

impl Deref for Rare {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        const NONE: &Parts = &Parts {
            paste: None,
            headline: String::new(),
            minor: false,
            follows: Vec::new(),
            inputs: Vec::new(),
        };
        self.0.as_deref().unwrap_or(NONE)
    }
}

impl DerefMut for Rare {
    fn deref_mut(&mut self) -> &mut Parts {
        self.0.get_or_insert_default()
    }
}

fn shared<T: Serialize, S: serde::Serializer>(value: &Arc<T>, to: S) -> Result<S::Ok, S::Error> {
    T::serialize(value, to)
}

/// A finding that follows from another one.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Consequence {
    /// Id of the check.
    pub id: &'static str,
    /// Name of the finding.
    pub name: String,
    /// The object it is about.
    pub target: Target,
    /// What was seen.
    pub detail: String,
}

/// One cause, named once, with what follows from it.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Fix {
    /// Id of the check.
    pub id: &'static str,
    /// Name of the finding.
    pub name: String,
    /// fail or warn.
    pub status: Status,
    /// The object on which it is fixed.
    pub target: Target,
    /// Further objects with the very same fault.
    pub also: Vec<Target>,
    /// What was seen and what was needed.
    pub detail: String,
    /// What to do.
    pub fix: Option<String>,
    /// Lines to paste into the manifest: a block for each place that needs them, headed by where that is, with `---` between two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paste: Option<String>,
    /// What follows from it.
    pub consequences: Vec<Consequence>,
    /// Where it stands, for the text report.
    #[serde(skip)]
    pub evidence: Vec<Evidence>,
    /// It in a few words, for the verdict.
    #[serde(skip)]
    pub headline: String,
}
