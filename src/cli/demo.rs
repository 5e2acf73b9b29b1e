//! `demo`: a recorded deployment through the whole pipeline, from snapshot to text.

use super::ShowArguments;
use crate::manifest::{self, Text, view};
use crate::report::{ExitCode, Report};
use crate::snapshot::Bundle;
use crate::{checks, source::SourceFile};
use anyhow::Context;
use clap::Args;
use std::sync::Arc;

/// The manifest of the recorded deployment.
const MANIFEST: &str = include_str!("../../demo/tcp-fallback/deploy.yaml");
/// What was read in its two pods.
const SNAPSHOTS: &str = include_str!("../../demo/tcp-fallback/bundle.json");

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    show: ShowArguments,
}

impl Arguments {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        self.show.show(&replay()?)?;
        // The report is about a recording, so its faults are no failure of this run.
        Ok(ExitCode::Ok)
    }
}

/// Replays the recording.
fn replay() -> anyhow::Result<Report> {
    let bundle: Bundle =
        serde_json::from_str(SNAPSHOTS).context("the recording in the binary is damaged")?;
    let source = Arc::new(SourceFile {
        path: "deploy.yaml".to_owned(),
        text: MANIFEST.to_owned(),
    });
    let inventory = manifest::read(&[Text {
        source,
        named: true,
        companion: false,
    }]);
    let findings = checks::run(&inventory, &bundle.snapshots);
    let workloads = inventory
        .workloads
        .iter()
        .enumerate()
        .map(|(i, w)| view::workload(w, i + 1))
        .collect();
    Ok(Report::new(
        "demo",
        workloads,
        findings,
        inventory.errors,
        inventory.notes,
    ))
}
