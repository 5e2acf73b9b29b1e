//! `demo`: recorded deployments through the whole pipeline, from snapshot to text.

use super::ShowArguments;
use crate::evaluate::{Beside, evaluate};
use crate::manifest::{self, Text};
use crate::report::{ExitCode, FailOn, Report};
use crate::snapshot::Bundle;
use crate::source::SourceFile;
use anyhow::Context;
use clap::{Args, ValueEnum};
use std::sync::Arc;

/// A deployment that was recorded: what was read of it, and the file that says what was meant.
struct Recording {
    bundle: &'static str,
    manifest: &'static str,
}

macro_rules! recording {
    ($name:literal) => {
        Recording {
            bundle: include_str!(concat!("../../demo/", $name, "/bundle.json")),
            manifest: include_str!(concat!("../../demo/", $name, "/deploy.yaml")),
        }
    };
}

/// Which recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Which {
    /// Two prefill and two decode workers on InfiniBand, every pair proven.
    Healthy,
    /// The classic: decode was given no RDMA device, and KV travels over TCP without a word.
    TcpFallback,
    /// A GB200 rack in which only prefill claims its channel of the ComputeDomain.
    Gb200Rack,
}

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Which recorded deployment.
    #[arg(value_enum, default_value = "tcp-fallback")]
    which: Which,
    #[command(flatten)]
    show: ShowArguments,
}

impl Arguments {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        self.show
            .show(&replay(self.which)?, FailOn::default(), false)?;
        // The report is about a recording, so its faults are no failure of this run.
        Ok(ExitCode::Ok)
    }
}

/// Replays a recording.
fn replay(which: Which) -> anyhow::Result<Report> {
    let recording = match which {
        Which::Healthy => recording!("healthy"),
        Which::TcpFallback => recording!("tcp-fallback"),
        Which::Gb200Rack => recording!("gb200-rack"),
    };
    let bundle: Bundle =
        serde_json::from_str(recording.bundle).context("the recording in the binary is damaged")?;
    let recipe = manifest::read(&[Text {
        source: Arc::new(SourceFile {
            path: "deploy.yaml".to_owned(),
            text: recording.manifest.to_owned(),
        }),
        named: true,
        companion: false,
    }]);
    let beside = Beside {
        recipe: Some(recipe),
        ..Beside::default()
    };
    Ok(evaluate("demo", bundle, beside))
}
