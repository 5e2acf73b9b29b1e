//! What an installation needs beside the binary: shell completions, manual pages, and the name under which kubectl runs it.

use super::{Cli, print};
use crate::report::ExitCode;
use anyhow::Context;
use clap::builder::ValueRange;
use clap::{Arg, Args, Command, CommandFactory, FromArgMatches, ValueHint};
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
        // Names of a new command must live as long as the program, which ends here.
        let whole: &'static Command = {
            let mut whole = Cli::command();
            whole.build();
            Box::leak(Box::new(whole))
        };
        let mut command = offered(whole).version(env!("CARGO_PKG_VERSION"));
        let name = whole.get_name();
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, name, &mut script);
        let mut script = String::from_utf8(script).context("the completions are not UTF-8")?;
        match self.shell {
            clap_complete::Shell::Bash => {
                script = with_reachable_states(&script, name);
                script = with_files(&script, &command, name);
            }
            clap_complete::Shell::Fish => script.push_str(&positionals_of_fish(&command, name)),
            _ => {}
        }
        print(&script)?;
        Ok(ExitCode::Ok)
    }
}

/// What completions offer: everything that help shows. clap_complete offers hidden options, too, and files for any value.
fn offered(command: &'static Command) -> Command {
    let arguments = command.get_arguments().filter(|a| !a.is_hide_set());
    let own = arguments.filter(|a| !["help", "version"].contains(&a.get_id().as_str()));
    let below = command.get_subcommands().filter(|c| c.get_name() != "help");
    let mut out = Command::new(command.get_name())
        .args(own.map(of_offer))
        .subcommands(below.map(offered));
    if let Some(about) = command.get_about() {
        out = out.about(about.clone());
    }
    out
}

/// The same argument without its rules, which name others.
fn of_offer(argument: &'static Arg) -> Arg {
    let mut out = Arg::new(argument.get_id().clone())
        .action(argument.get_action().clone())
        .required(argument.is_required_set());
    if let Some(short) = argument.get_short() {
        out = out.short(short);
    }
    if let Some(long) = argument.get_long() {
        out = out.long(long);
    }
    if let Some(help) = argument.get_help() {
        out = out.help(help.clone());
    }
    let values = argument.get_num_args().filter(ValueRange::takes_values);
    let Some(values) = values else { return out };
    let words = argument.get_possible_values();
    out = match words.is_empty() {
        true => out.value_hint(match argument.get_value_hint() {
            ValueHint::Unknown => ValueHint::Other,
            // With this one, bash takes a name with a blank for one name.
            ValueHint::AnyPath => ValueHint::FilePath,
            hint => hint,
        }),
        false => out.value_parser(words),
    };
    if let Some(names) = argument.get_value_names() {
        out = out.value_names(names.to_vec());
    }
    out.num_args(values)
}

/// What a command takes beside its options is a path.
fn takes_paths(command: &Command) -> bool {
    let hint = |a: &Arg| a.get_value_hint();
    command
        .get_positionals()
        .any(|a| matches!(hint(a), ValueHint::FilePath | ValueHint::DirPath))
}

/// In bash a path comes before options, which a dash asks for: nothing is offered, so that bash offers files.
fn with_files(script: &str, command: &Command, name: &str) -> String {
    let mut script = script.to_owned();
    for below in command.get_subcommands().filter(|c| takes_paths(c)) {
        let state = format!(
            "        {}__subcmd__{})\n",
            name.replace('-', "__"),
            below.get_name()
        );
        let with = format!(
            "{state}            if [[ ${{cur}} != -* && ${{prev}} != -* ]] ; then\n                COMPREPLY=()\n                \
             return 0\n            fi\n"
        );
        script = script.replace(&state, &with);
    }
    script
}

/// clap_complete completes no positional values in fish, which then offers files.
fn positionals_of_fish(command: &Command, name: &str) -> String {
    let mut lines = String::new();
    for below in command.get_subcommands().filter(|c| !takes_paths(c)) {
        let words: Vec<String> = below
            .get_positionals()
            .flat_map(Arg::get_possible_values)
            .map(|v| v.get_name().to_owned())
            .collect();
        let using = format!(
            "__fish_{}_using_subcommand {}",
            name.replace('-', "_"),
            below.get_name()
        );
        let words = match words.is_empty() {
            true => String::new(),
            false => format!(" -a \"{}\"", words.join(" ")),
        };
        lines.push_str(&format!("complete -c {name} -n \"{using}\" -f{words}\n"));
    }
    lines
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
        let mut whole = Cli::command().disable_help_subcommand(true);
        whole.build();
        let Some(directory) = &self.directory else {
            print(&page(&whole, whole.get_name())?.1)?;
            return Ok(ExitCode::Ok);
        };
        let shown = crate::sanitise::line(&directory.display().to_string(), 500);
        for command in std::iter::once(&whole).chain(whole.get_subcommands()) {
            let (name, text) = page(command, whole.get_name())?;
            std::fs::write(directory.join(name), text).with_context(|| {
                format!(
                    "the manual pages cannot be written into {shown}; name an existing directory that you may write to"
                )
            })?;
        }
        Ok(ExitCode::Ok)
    }
}

/// The file name and the text of one page. At the head stand the tool and, between, the command: the full name of a page twice
/// is wider than a terminal. A synopsis is the usage as help shows it, with the dots of what may be repeated.
fn page(command: &Command, tool: &str) -> anyhow::Result<(String, String)> {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").to_owned();
    let manual = match command.get_name() == tool {
        true => "Commands".to_owned(),
        false => format!("Command {}", command.get_name()),
    };
    let man = clap_mangen::Man::new(command.clone().override_usage(usage))
        .title(tool)
        // An empty word would not be written, and the version would take its place. No day is known here that the same sources
        // give again.
        .date(" ")
        .source(format!("{tool} {}", env!("CARGO_PKG_VERSION")))
        .manual(manual);
    let mut text = Vec::new();
    man.render(&mut text)?;
    let text = String::from_utf8(text).context("the manual page is not UTF-8")?;
    Ok((man.get_filename(), text))
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
