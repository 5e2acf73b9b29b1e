//! The command line: one function per subcommand, all with the same three steps: collect, evaluate, render.

mod check;
mod demo;
mod env;
pub(crate) mod explain;
mod help;
mod install;
mod interrupt;
#[cfg(feature = "mcp")]
mod mcp;
mod next;
mod nixl;
mod node;
#[cfg(feature = "cluster")]
mod progress;
mod select;

use crate::render::{Surroundings, github, html, json, junit, markdown, sarif, text};
use crate::report::{ExitCode, FailOn, Report};
use crate::selected::Selection;
use anyhow::Context as _;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// Says whether a disaggregated LLM deployment (NVIDIA Dynamo) may trust its interconnect, or what to fix first.
///
/// Read-only: nothing in the cluster is ever changed. Only catalogued transport variables are ever shown.
#[derive(Debug, Parser)]
#[command(name = "dynamo-interconnect-check", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Judge the transport settings of manifests: files, directories, kustomizations, or `-` for standard input.
    Env(env::Arguments),
    /// Probe this machine or pods: RDMA devices, GPUs, limits, libraries, and the environment the worker really has.
    Node(node::Arguments),
    /// Can NIXL move KV from here? With --transfer: move test data between two workers, and name the lane.
    Nixl(nixl::Arguments),
    /// Look at a whole deployment in the cluster: one verdict, and what to fix first.
    Check(check::Arguments),
    /// Say what a check or variable means, or judge `VARIABLE=VALUE` on the spot.
    Explain(explain::Arguments),
    /// Serve these commands as tools to an agent host (Model Context Protocol, on standard input and output).
    #[cfg(feature = "mcp")]
    Mcp(mcp::Arguments),
    /// Replay a recorded deployment that is built into this binary, and show the whole report.
    Demo(demo::Arguments),
    /// Print completions for a shell, for its start file or its directory of completions.
    Completions(install::CompletionArguments),
    /// Print the manual page (roff), or write those of all commands into a directory.
    Man(install::ManArguments),
}

/// How a report is shown.
#[derive(Debug, Args)]
struct ShowArguments {
    /// Output format; text on a terminal, json on a pipe.
    #[arg(short, long, value_enum)]
    output: Option<ReportFormat>,
    /// Show every check, not only what to fix.
    #[arg(short, long)]
    verbose: bool,
}

/// What every command that reports on something real understands.
#[derive(Debug, Args)]
struct ReportArguments {
    #[command(flatten)]
    show: ShowArguments,
    #[command(flatten)]
    select: select::SelectArguments,
    /// Exit with 3 unless every deployment is trusted, that is, the lane of every pair was proven by a transfer.
    #[arg(long)]
    require_trusted: bool,
}

/// What sees no transfer can never be trusted, so it does not offer to demand it.
fn sees_no_transfer(argument: clap::Arg) -> clap::Arg {
    argument.hide(true)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// For programs. docs/explain.schema.json describes it.
    Json,
}

/// How a report is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ReportFormat {
    /// For people.
    Text,
    /// For programs. docs/report.schema.json describes it.
    Json,
    /// For a browser: one page without scripts, to look at, hand on and print.
    Html,
    /// JUnit XML: a suite for each object, a case for each finding.
    Junit,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
    /// Annotations of GitHub Actions, on the lines of the manifests.
    Github,
    /// Markdown, for a comment on a change.
    Markdown,
}

impl Format {
    fn or_by_stream(choice: Option<Self>) -> Self {
        choice.unwrap_or(if io::stdout().is_terminal() {
            Self::Text
        } else {
            Self::Json
        })
    }
}

impl Cli {
    /// Runs the command and says how it ended.
    ///
    /// # Errors
    /// When the output cannot be written. A reader that went away (`| head`) is not an error.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Env(arguments) => arguments.run(),
            Command::Node(arguments) => arguments.run(),
            Command::Nixl(arguments) => arguments.run(),
            Command::Check(arguments) => arguments.run(),
            Command::Explain(arguments) => arguments.run(),
            #[cfg(feature = "mcp")]
            Command::Mcp(arguments) => arguments.run(),
            Command::Demo(arguments) => arguments.run(),
            Command::Completions(arguments) => arguments.run(),
            Command::Man(arguments) => arguments.run(),
        }
    }
}

/// Ends as clap ends over a command line that it cannot read: with what is wrong, the usage of the subcommand, and 2.
fn refuse(subcommand: &str, message: &str) -> ! {
    let mut whole = Cli::command();
    whole.build();
    let error = clap::Error::raw(ErrorKind::ArgumentConflict, message);
    match whole.find_subcommand_mut(subcommand) {
        Some(command) => error.format(command).exit(),
        None => error.exit(),
    }
}

impl ShowArguments {
    fn show(&self, report: &Report, fail_on: FailOn, require_trusted: bool) -> anyhow::Result<()> {
        let (current, root) = directories();
        let around = Surroundings {
            current: &current,
            root: &root,
            fail_on,
            require_trusted,
        };
        let by_stream = || match Format::or_by_stream(None) {
            Format::Text => ReportFormat::Text,
            Format::Json => ReportFormat::Json,
        };
        match self.output.unwrap_or_else(by_stream) {
            ReportFormat::Json => print_json(report),
            ReportFormat::Html => print(&html::render(report)),
            ReportFormat::Text => print(&text::render(
                report,
                text::Options {
                    verbose: self.verbose,
                    width: width(),
                },
            )),
            ReportFormat::Junit => print(&junit::render(report, around)),
            ReportFormat::Sarif => print_json(&sarif::log(report, around)),
            ReportFormat::Github => print(&github::render(report, around)),
            ReportFormat::Markdown => print(&markdown::render(report, around)),
        }
    }
}

impl ReportArguments {
    /// Which checks count.
    fn selection(&self) -> Selection {
        self.select.selection(&[])
    }

    /// The same for manifests. `beside`: files and directories beside which a file may say so as well; `read`: what was read
    /// there.
    fn selection_of<'a>(
        &self,
        beside: &[PathBuf],
        read: impl Iterator<Item = &'a str>,
    ) -> Selection {
        self.select.selection_of(beside, read)
    }

    fn finish(&self, report: &Report, selection: &Selection) -> anyhow::Result<ExitCode> {
        let fail_on = self.select.fail_on(selection);
        self.show.show(report, fail_on, self.require_trusted)?;
        Ok(report.exit_code(fail_on, self.require_trusted))
    }
}

impl ReportArguments {
    /// Refuses to demand trust of a command that cannot give it.
    fn refuse_trust(&self, command: &str) -> Option<anyhow::Result<ExitCode>> {
        self.require_trusted.then(|| {
            usage(&format!(
                "{command} sees no transfer, so that nothing it reports is ever `trusted`, and --require-trusted would always \
                 end in 3; demand it of `check NAME --transfer` or of `nixl --transfer`, and let {command} fail on warnings with \
                 --strict"
            ))
        })
    }
}

/// The command line is wrong.
fn usage(message: &str) -> anyhow::Result<ExitCode> {
    // Nothing is left to be done when stderr is gone.
    let _ = writeln!(anstream::stderr(), "error: {message}");
    Ok(ExitCode::Usage)
}

/// The current directory, and the root that paths in files for others are relative to: the workspace of a GitHub job where
/// this runs in one, the current directory elsewhere.
fn directories() -> (PathBuf, PathBuf) {
    let current = std::env::current_dir().unwrap_or_default();
    let workspace = std::env::var_os("GITHUB_WORKSPACE").map(PathBuf::from);
    let workspace = workspace.filter(|w| w.is_absolute() && current.starts_with(w));
    (current.clone(), workspace.unwrap_or(current))
}

/// Columns of the terminal; 100 on a pipe, so that text does not depend on who reads it.
fn width() -> usize {
    terminal_size::terminal_size().map_or(100, |(terminal_size::Width(columns), _)| {
        usize::from(columns)
    })
}

/// What runs the waiting for the API and for transfers. One thread: little is computed while it waits, and what several
/// threads set free stays with each of them, which is a third of the memory of a run over a thousand containers.
fn runtime() -> io::Result<tokio::runtime::Runtime> {
    room()?;
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

/// Whether this process may open what a runtime needs, which panics where it may not; a shell with pipes needs less.
fn room() -> io::Result<()> {
    let opened: io::Result<Vec<_>> = (0..6).map(|_| UnixStream::pair()).collect();
    opened.map(drop).map_err(|error| {
        let message = format!("{error}; raise the limit on open files (ulimit -n)");
        io::Error::new(error.kind(), message)
    })
}

/// Writes text to standard output, without colour where it does not belong.
fn print(text: &str) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    unless_reader_left(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Writes JSON to standard output, piece by piece: a report over hundreds of manifests has megabytes.
fn print_json<T: Serialize>(value: &T) -> anyhow::Result<()> {
    let mut out = io::BufWriter::with_capacity(1 << 16, io::stdout().lock());
    unless_reader_left(json::write(&mut out, value).and_then(|()| out.flush()))
}

/// A reader that went away (`| head`) has seen what it wanted.
fn unless_reader_left(result: io::Result<()>) -> anyhow::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to standard output"),
    }
}
