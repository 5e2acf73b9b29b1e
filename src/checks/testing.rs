//! Shared by the tests of the checks: facts from a few lines, and what the whole pipeline makes of them.

use super::{Container, Outcome};
use crate::ask::Ask;
use crate::manifest::{self, Text, view};
use crate::report::{Report, Status};
use crate::snapshot::{Answer, Place, Snapshot};
use crate::source::SourceFile;
use std::sync::Arc;

/// A recorded container with these answers.
pub(crate) fn container(role: &str, answers: &[(&Ask, &str)]) -> Snapshot {
    let place = Place {
        kind: crate::snapshot::PlaceKind::Pod,
        workload: None,
        namespace: None,
        pod: format!("{role}-0"),
        container: None,
        node: None,
        role: Some(role.to_owned()),
    };
    let answers = answers
        .iter()
        .map(|(ask, text)| (ask.id.to_owned(), Answer::Text((*text).to_owned())))
        .collect();
    Snapshot { place, answers }
}

/// What one check says about a recorded container.
pub(crate) fn outcome(run: fn(&Container<'_>) -> Outcome, snapshot: &Snapshot) -> Outcome {
    run(&Container::parse(snapshot))
}

/// A v1beta1 graph with a prefill worker `p` and a decode worker `d`, both with this container body.
pub(crate) fn graph(container: &str) -> String {
    two_sided(container, container)
}

/// A v1beta1 graph whose prefill worker `p` and decode worker `d` have these container bodies.
pub(crate) fn two_sided(prefill: &str, decode: &str) -> String {
    let mut text = "apiVersion: nvidia.com/v1beta1\nkind: DynamoGraphDeployment\nmetadata: {name: g}\nspec:\n  \
                    components:\n"
        .to_owned();
    for (name, role, body) in [("p", "prefill", prefill), ("d", "decode", decode)] {
        text.push_str(&format!(
            "    - name: {name}\n      type: {role}\n      podTemplate:\n        spec:\n          containers:\n            \
             - name: main\n              image: i\n"
        ));
        for line in body.lines() {
            text.push_str(&format!("              {line}\n"));
        }
    }
    text
}

/// The whole report of a manifest.
pub(crate) fn report(text: &str) -> Report {
    let source = Arc::new(SourceFile {
        path: "t.yaml".to_owned(),
        text: text.to_owned(),
    });
    let inventory = manifest::read(&[Text {
        source,
        named: true,
        companion: false,
    }]);
    assert_eq!(inventory.errors, []);
    let findings = super::run(&inventory, &[]);
    let workloads = inventory
        .workloads
        .iter()
        .enumerate()
        .map(|(i, w)| view::workload(w, i + 1))
        .collect();
    Report::new(
        "env",
        workloads,
        findings,
        inventory.errors,
        inventory.notes,
    )
}

/// The statuses of all findings of one name, in the order of the report.
pub(crate) fn statuses(text: &str, name: &str) -> Vec<Status> {
    report(text)
        .checks
        .iter()
        .filter(|f| f.name == name)
        .map(|f| f.status)
        .collect()
}
