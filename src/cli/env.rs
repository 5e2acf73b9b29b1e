//! `env`: manifests in, report out. Reads files and nothing else.

use super::{ReportArguments, help, next, sees_no_transfer};
use crate::manifest::view;
use crate::report::{ExitCode, Pairs};
use crate::{checks, input};
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_long_help = help::ENV, mut_arg("require_trusted", sees_no_transfer))]
pub(super) struct Arguments {
    /// Manifest files, directories, kustomizations, or `-` for standard input.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    report: ReportArguments,
}

impl Arguments {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        if let Some(refused) = self.report.refuse_trust("env") {
            return refused;
        }
        let inventory = input::read(&self.paths);
        let findings = checks::run(&inventory, &[]);
        let workloads = inventory
            .workloads
            .iter()
            .enumerate()
            .map(|(i, w)| view::workload(w, i + 1))
            .collect();
        let selection = self.report.selection(&self.paths);
        let mut report = selection.roll_up(
            "env",
            workloads,
            findings,
            inventory.errors,
            inventory.notes,
            Pairs::default(),
        );
        report.next = next::after_env(&report, &self.paths);
        self.report.finish(&report, &selection)
    }
}
