//! Manifests: text to typed deployments.

pub mod workload;

use crate::report::{InputError, Note};
use std::collections::BTreeMap;
use workload::Workload;

/// Everything that was found in the inputs of one run.
#[derive(Debug, Default)]
pub struct Inventory {
    /// The inputs as the user named them, for display.
    pub inputs: Vec<String>,
    /// How many YAML files were read.
    pub files: usize,
    /// Documents by kind, judged or not.
    pub documents: BTreeMap<String, usize>,
    /// The deployments, in the order of files and documents.
    pub workloads: Vec<Workload>,
    /// Inputs that could not be read. Any of them makes the exit code 4.
    pub errors: Vec<InputError>,
    /// Remarks: templates that are not rendered, kustomizations met further down, unknown kinds.
    pub notes: Vec<Note>,
}
