//! `env`: manifests in, report out. Reads files and nothing else.

use super::{ReportArguments, help, next, sees_no_transfer};
use crate::manifest::view;
use crate::report::{ExitCode, Note, Pairs};
use crate::{checks, input};
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_long_help = help::ENV, mut_arg("require_trusted", sees_no_transfer))]
pub(super) struct Arguments {
    /// Manifest files, directories, kustomizations, or `-` for standard input.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// End with 0 where the input holds no Dynamo worker, for hooks that get the files of one commit; by default that is a
    /// fail, since a check of nothing must not pass.
    #[arg(long)]
    allow_no_worker: bool,
    #[command(flatten)]
    report: ReportArguments,
}

impl Arguments {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        if let Some(refused) = self.report.refuse_trust("env") {
            return refused;
        }
        let mut inventory = input::read(&self.paths);
        let mut findings = checks::run(&inventory, &[]);
        let without_worker = self.allow_no_worker && inventory.workloads.is_empty();
        if without_worker {
            let nothing = findings.extract_if(.., |f| f.id == checks::env::input::CHECK.id);
            inventory.notes.extend(nothing.map(|f| Note {
                object: "input".to_owned(),
                message: format!("{}; so nothing was judged", f.detail),
            }));
        }
        let workloads = inventory
            .workloads
            .iter()
            .enumerate()
            .map(|(i, w)| view::workload(w, i + 1))
            .collect();
        let files = inventory
            .workloads
            .iter()
            .map(|w| w.source.file.path.as_str());
        let selection = self.report.selection_of(&self.paths, files);
        let mut report = selection.roll_up(
            "env",
            workloads,
            findings,
            inventory.errors,
            inventory.notes,
            Pairs::default(),
        );
        report.next = next::after_env(&report, &self.paths);
        let code = self.report.finish(&report, &selection)?;
        // What could not be read may hold a worker, and whatever else failed was found.
        let harmless = report.errors.is_empty() && report.checks.is_empty();
        Ok(match without_worker && harmless {
            true => ExitCode::Ok,
            false => code,
        })
    }
}
