//! Compiles asks to one POSIX `sh` script. Pure.
//!
//! The script is the whole of what runs in a container, and `--print-script` shows it. Rules it keeps: it runs under
//! dash, busybox and bash; a cut-off script runs nothing; every command has `/dev/null` as its standard input, since it
//! would eat the rest of the script otherwise; every answer is bounded; every tool has a timer, and so has the whole;
//! nothing is written, and no process stays behind.

use crate::ask::{Ask, Kind, Needs};
use std::fmt::Write as _;
use std::time::Duration;

/// Version of the frames and of the meaning of the words in them.
pub const FORMAT: u32 = 1;

const PRELUDE: &str = include_str!("prelude.sh");

/// How a script is made.
#[derive(Debug, Clone)]
pub struct Options<'a> {
    /// Names of the variables that may leave the container. Others than `[A-Za-z0-9_]` are dropped.
    pub variables: &'a [&'a str],
    /// Begins every frame. Must be new for every run, so that no file can hold it: 16 to 64 letters and digits.
    pub nonce: &'a str,
    /// The script ends itself after this time, whole seconds and at least one.
    pub deadline: Duration,
    /// Prefix of all paths: empty for a machine, a fixture tree in tests.
    pub root: &'a str,
}

/// A script, and what is needed to read its output.
#[derive(Debug, Clone)]
pub struct Script {
    /// The script, as it is sent and printed.
    pub text: String,
    /// Begins every frame of its output.
    pub nonce: String,
    /// The asks it answers, in order.
    pub asks: Vec<&'static Ask>,
}

/// Why no script could be made.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ScriptError {
    /// The nonce could be confused with content, or with shell syntax.
    #[error("make a script: the nonce must be 16 to 64 letters and digits")]
    Nonce,
}

impl Script {
    /// The script that answers these asks.
    pub fn new(asks: &[&'static Ask], options: &Options<'_>) -> Result<Self, ScriptError> {
        let nonce = options.nonce;
        if !(16..=64).contains(&nonce.len()) || !nonce.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return Err(ScriptError::Nonce);
        }
        let mut text = PRELUDE
            .replace("@ROOT@", &quote(options.root))
            .replace("@NONCE@", nonce)
            .replace("@DEADLINE@", &options.deadline.as_secs().max(1).to_string())
            .replace("@NAMES@", &names(options.variables))
            .replace("@PREFIXES@", &prefixes(options.variables))
            .replace("@FORMAT@", &FORMAT.to_string());
        if asks.iter().any(|ask| needs_worker(ask)) {
            text.push_str("find_workers\n");
        }
        if asks.iter().any(
            |ask| matches!(ask.kind, Kind::Function { call, .. } if call.contains("$site_dirs")),
        ) {
            text.push_str("find_sites\n");
        }
        push_fields(&mut text, asks);
        for ask in asks {
            push(&mut text, ask);
        }
        text.push_str(END);
        Ok(Self {
            text,
            nonce: nonce.to_owned(),
            asks: asks.to_vec(),
        })
    }
}

const END: &str = r#"
printf '%s done\n' "$NONCE"
trap '' TERM HUP INT PIPE
# A signal that comes while the watchdog starts is lost: its next tick tells.
trap 'kill "$watchdog" 2>/dev/null' USR1
kill "$watchdog" 2>/dev/null
wait "$watchdog" 2>/dev/null || wait "$watchdog" 2>/dev/null
}
__dic_main; exit 0
"#;

fn needs_worker(ask: &Ask) -> bool {
    ask.needs == Needs::Worker
}

/// One ask as shell. Writing to a `String` cannot fail.
fn push(text: &mut String, ask: &Ask) {
    let (id, cap) = (ask.id, ask.max_bytes);
    let _ = writeln!(text, "\n# {id}: {}", ask.why);
    let guard = match ask.needs {
        Needs::Nothing | Needs::Worker => None,
        Needs::RdmaDevice => Some("[ -n \"$rdma\" ]".to_owned()),
        Needs::RdmaDeviceWithout(files) => Some(format!(
            "[ -n \"$rdma\" ] && ! readable {}",
            globs(&[files])
        )),
        Needs::NoProgram(program) => Some(format!("! has {program}")),
    };
    if let Some(test) = &guard {
        let _ = writeln!(text, "if {test}; then");
    }
    let _ = match ask.kind {
        Kind::File(path) => writeln!(text, "text {id} {cap} {path}"),
        Kind::Lines { file, matching } => {
            writeln!(text, "lines {id} {cap} {file} \\\n  {}", quote(matching))
        }
        Kind::Fields { place, .. } => {
            writeln!(text, "if at {id} {cap} {}; then end ok; fi", quote(place))
        }
        Kind::Entries {
            place,
            globs: patterns,
        } => placed(text, ask, place, &format!("entries {}", globs(patterns))),
        Kind::Nodes {
            place,
            globs: patterns,
        } => placed(text, ask, place, &format!("nodes {}", globs(patterns))),
        Kind::Tool {
            argv,
            seconds,
            filter,
        } => {
            let argv: Vec<_> = argv.iter().map(|word| quote(word)).collect();
            writeln!(
                text,
                "tool {id} {cap} {seconds} {} {}",
                quote(filter),
                argv.join(" ")
            )
        }
        Kind::Function { place, call } => placed(text, ask, place, call),
        Kind::Framed(call) => writeln!(text, "{call} {id} {cap}"),
        // Nothing that runs in a container gives these.
        Kind::Pasted | Kind::Told => Ok(()),
    };
    let because = match ask.needs {
        Needs::RdmaDeviceWithout(_) => " ${rdma:+answered}",
        _ => "",
    };
    if guard.is_some() {
        let _ = writeln!(text, "else leave_out {id} not-needed{because}; fi");
    }
}

/// Frame of what all [`Kind::Fields`] read. It is read by one program, since starting one costs more than the reading.
pub(super) const FIELDS: &str = "fields";

/// Reads the files of all such asks at once. Their own frames say after that whether there was a place to read from.
fn push_fields(text: &mut String, asks: &[&'static Ask]) {
    let mut files = String::new();
    let mut room = 0;
    for ask in asks {
        if let Kind::Fields { dirs, names, .. } = ask.kind {
            let names = quote(&names.join(" "));
            let _ = write!(files, "\n  name_files {names} \\\n    {}", below(dirs));
            room += ask.max_bytes;
        }
    }
    if room > 0 {
        let _ = writeln!(
            text,
            "\n# Whose answer a line belongs to is told by its file.\nbegin {FIELDS} {room}\nfirst_lines $({files}\n)\nend ok"
        );
    }
}

/// A call that prints an answer, run where its place is there.
fn placed(text: &mut String, ask: &Ask, place: &str, call: &str) -> std::fmt::Result {
    let place = if place.is_empty() { "/" } else { place };
    writeln!(
        text,
        "if at {} {} {place}; then\n  {call}\n  end ok\nfi",
        ask.id, ask.max_bytes
    )
}

/// Patterns below the root. They stand unquoted, since the shell shall expand them.
fn globs(patterns: &[&str]) -> String {
    patterns
        .iter()
        .map(|pattern| format!("\"$ROOT\"{pattern}"))
        .collect::<Vec<_>>()
        .join(" ")
}

/// The same without the root, which is where the script stands.
fn below(patterns: &[&str]) -> String {
    let below = |pattern: &&str| pattern.trim_start_matches('/').to_owned();
    patterns.iter().map(below).collect::<Vec<_>>().join(" ")
}

/// A word of shell, taken literally.
fn quote(word: &str) -> String {
    if !word.is_empty()
        && word
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_./=,".contains(&b))
    {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Names as alternatives of an extended regular expression. An empty list matches no variable.
fn names(names: &[&str]) -> String {
    let names: Vec<&str> = usable(names).collect();
    alternatives(&names)
}

/// What these names begin with, up to the first underscore, as alternatives too.
fn prefixes(names: &[&str]) -> String {
    let prefix = |name| str::split_inclusive(name, '_').next();
    let mut prefixes: Vec<&str> = usable(names).filter_map(prefix).collect();
    prefixes.sort_unstable();
    prefixes.dedup();
    alternatives(&prefixes)
}

fn usable<'a>(names: &[&'a str]) -> impl Iterator<Item = &'a str> {
    let usable = |name: &&str| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    names.iter().copied().filter(usable)
}

fn alternatives(words: &[&str]) -> String {
    if words.is_empty() {
        "-".to_owned()
    } else {
        words.join("|")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;

    fn options() -> Options<'static> {
        Options {
            variables: &["UCX_TLS", "bad name", "$(id)", ""],
            nonce: "0123456789abcdef",
            deadline: Duration::from_secs(20),
            root: "",
        }
    }

    #[test]
    fn a_script_holds_every_ask_once_and_ends_in_the_call() {
        let script = Script::new(ask::ALL, &options()).unwrap();
        for ask in ask::ALL {
            assert_eq!(
                script.text.matches(&format!("\n# {}: ", ask.id)).count(),
                1,
                "{}",
                ask.id
            );
        }
        assert!(script.text.ends_with("}\n__dic_main; exit 0\n"));
        assert!(
            !script.text.contains('@'.to_string().as_str()) || !script.text.contains("@NAMES@")
        );
        assert!(script.text.len() < 48 * 1024, "{} bytes", script.text.len());
    }

    #[test]
    fn names_and_roots_cannot_become_shell() {
        let mut options = options();
        options.root = "/tmp/a'b; echo c";
        let script = Script::new(&[&ask::ENVIRONMENT], &options).unwrap();
        assert!(script.text.contains("BEGIN='UCX_'\n"));
        assert!(script.text.contains("NAMES='UCX_TLS'\n"));
        assert!(script.text.contains(r"ROOT='/tmp/a'\''b; echo c'"));
    }

    #[test]
    fn a_weak_nonce_is_refused() {
        for nonce in ["", "short", "0123456789abcde'", "0123456789 abcdef"] {
            let error = Script::new(&[], &Options { nonce, ..options() }).unwrap_err();
            assert_eq!(error, ScriptError::Nonce);
        }
    }

    #[test]
    fn one_ask_reads_as_a_person_would_write_it() {
        let mut text = String::new();
        push(&mut text, &ask::IBV_DEVINFO);
        insta::assert_snapshot!(text, @r#"

        # ibv-devinfo: what the verbs library of this image can open, and the active MTU, which sysfs does not show
        if [ -n "$rdma" ]; then
        tool ibv-devinfo 65536 5 '' ibv_devinfo
        else leave_out ibv-devinfo not-needed; fi
        "#);
    }
}
