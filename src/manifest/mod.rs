//! Manifests: text to typed deployments. Pure: files are read elsewhere.

mod broken;
mod budget;
mod companion;
mod document;
mod dynamo;
mod env;
mod flags;
mod kv_transfer;
mod launch;
mod lexer;
mod overrides;
mod place;
mod pod;
mod podset;
pub mod quantity;
mod read;
mod roles;
mod shell;
mod start;
pub mod view;
mod word;
mod worker;
pub mod workload;
mod written;
mod yaml;

pub use companion::offers;
pub use pod::{is_gpu, is_rdma, locks_memory};
pub use read::{Text, read};

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
    /// References that no input answers.
    pub missing: Vec<Missing>,
}

/// A ConfigMap or claim template that a deployment refers to and that is not in the input.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Missing {
    /// File of the deployment, as shown.
    pub path: String,
    /// What kind of object it is.
    pub wanted: Wanted,
    /// Name of the object.
    pub name: String,
}

/// What a deployment asks of other objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wanted {
    /// Values of a ConfigMap.
    ConfigMap,
    /// A claim, a claim template, or the ComputeDomain that makes one.
    Claim,
}
