//! Where the variables of running workers come from, as text: workers that have the same are shown once.

use crate::report::{EnvironmentReport, LayerReport, VariableReport};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Widest value in its column; longer ones go on.
const VALUE: usize = 44;

/// Draws the variables of all workers.
pub(super) fn draw(out: &mut String, environments: &[EnvironmentReport]) {
    let mut groups: Vec<(Vec<&str>, &BTreeMap<String, VariableReport>)> = Vec::new();
    for environment in environments {
        let name = environment.target.name.as_str();
        let same = groups
            .iter_mut()
            .find(|(_, v)| **v == environment.variables);
        match same {
            Some((names, _)) => names.push(name),
            None => groups.push((vec![name], &environment.variables)),
        }
    }
    for (names, variables) in groups {
        let _ = writeln!(out, "  {}", listed(&names));
        let widest = variables.keys().map(String::len).max().unwrap_or(0);
        for (name, variable) in variables {
            let value = shown(&variable.value, &variable.reference, variable.withheld);
            let by = variable
                .set_by
                .map_or(String::new(), |by| format!("  by {by}"));
            let line = format!("    {name:<widest$}  {value:<VALUE$}{by}");
            let _ = writeln!(out, "{}", line.trim_end());
            if variable.drifts {
                let layers: Vec<String> = variable.layers.iter().map(layer).collect();
                let _ = writeln!(out, "    {:widest$}  {}", "", layers.join(" -> "));
            }
        }
    }
}

/// The first few names, and how many more.
fn listed(names: &[&str]) -> String {
    const NAMED: usize = 4;
    match names {
        many if many.len() > NAMED => {
            format!(
                "{} and {} more",
                many[..NAMED].join(", "),
                many.len() - NAMED
            )
        }
        few => few.join(", "),
    }
}

fn layer(layer: &LayerReport) -> String {
    format!(
        "{} {}",
        layer.layer,
        shown(&layer.value, &layer.reference, layer.withheld)
    )
}

fn shown(value: &Option<String>, reference: &Option<String>, withheld: Option<bool>) -> String {
    match (value, reference, withheld) {
        (Some(value), ..) if value.is_empty() => "\"\"".to_owned(),
        // A value of many lines is shown in the JSON form.
        (Some(value), ..) => value.lines().next().unwrap_or_default().to_owned(),
        (None, Some(reference), _) => format!("<{reference}>"),
        (None, None, Some(true)) => "(withheld)".to_owned(),
        _ => "(not set)".to_owned(),
    }
}
