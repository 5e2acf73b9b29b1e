//! Where the variables of running workers come from.

use crate::target::Target;
use serde::Serialize;
use std::collections::BTreeMap;

/// Where the variables of one container come from.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EnvironmentReport {
    /// The container.
    pub target: Target,
    /// Catalogued variables that any layer sets.
    pub variables: BTreeMap<String, VariableReport>,
}

/// One variable of a container: what counts, who set it, and what each layer said. At most one of `value`, `reference` and
/// `withheld` is present; none where a layer wanted it and the worker does not have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct VariableReport {
    /// The value that counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Where the value comes from, when only that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// True when the value may carry credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withheld: Option<bool>,
    /// The layer that set the value that counts, in words; absent where nothing does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_by: Option<&'static str>,
    /// Layers disagree, or the worker lacks what was asked for.
    pub drifts: bool,
    /// What each layer said, from the recipe down to the process.
    pub layers: Vec<LayerReport>,
}

/// What one layer says of a variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LayerReport {
    /// recipe, object, pod-spec, container, process.
    pub layer: &'static str,
    /// The literal value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Where the value comes from when it is no literal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// True when the value may carry credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withheld: Option<bool>,
}
