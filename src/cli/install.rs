//! What an installation needs beside the binary: shell completions, manual pages, and the name under which kubectl runs it.

use super::{Cli, print};
use crate::report::ExitCode;
use anyhow::Context;
use clap::{Args, Command, CommandFactory, FromArgMatches};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The file name under which kubectl finds this binary as a plugin: it writes the dashes of a plugin's name as underscores.
/// Source: kubernetes.io, "Extend kubectl with plugins".
const PLUGIN: &str = "kubectl-dynamo_interconnect_check";

#[derive(Debug, Args)]
pub(super) struct CompletionArguments {
    /// The shell that reads them.
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

impl CompletionArguments {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let mut command = Cli::command();
        let name = command.get_name().to_owned();
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, &name, &mut script);
        let mut script = String::from_utf8(script).context("the completions are not UTF-8")?;
        if self.shell == clap_complete::Shell::Bash {
            script = with_reachable_states(&script, &name);
        }
        print(&script)?;
        Ok(ExitCode::Ok)
    }
}

/// clap_complete spells the states of a name with a dash in two ways, so that nothing is offered behind a command: clap-rs/clap#6421.
fn with_reachable_states(script: &str, name: &str) -> String {
    let entered = format!("{}__subcmd__", name.replace('-', "__"));
    let handled = format!("{}__subcmd__", name.replace('-', "__subcmd__"));
    script.replace(&handled, &entered)
}

#[derive(Debug, Args)]
pub(super) struct ManArguments {
    /// Write one page for each command into this existing directory, instead of the first page to standard output.
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

impl ManArguments {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        // There is no page about `help`, so none is named.
        let command = Cli::command().disable_help_subcommand(true);
        match &self.directory {
            Some(directory) => clap_mangen::generate_to(command, directory)
                .with_context(|| {
                    let shown = crate::sanitise::line(&directory.display().to_string(), 500);
                    format!(
                        "the manual pages cannot be written into {shown}; name an existing directory that you may write to"
                    )
                })?,
            None => {
                let mut page = Vec::new();
                clap_mangen::Man::new(command).render(&mut page)?;
                print(&String::from_utf8(page).context("the manual page is not UTF-8")?)?;
            }
        }
        Ok(ExitCode::Ok)
    }
}

/// The command line with the name that the person typed: kubectl runs a plugin by the name of its file, and help that shows
/// this name shows nothing that can be typed.
fn named(program: Option<&OsStr>) -> Command {
    let stem = program.and_then(|p| Path::new(p).file_stem());
    let command = Cli::command();
    match stem == Some(OsStr::new(PLUGIN)) {
        true => command.bin_name("kubectl dynamo-interconnect-check"),
        false => command,
    }
}

impl Cli {
    /// Reads the command line of this process. Help, version and usage errors end it, as with `clap::Parser::parse`.
    #[must_use]
    pub fn of_process() -> Self {
        let program = std::env::args_os().next();
        let matches = named(program.as_deref()).get_matches();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }
}
