//! What a command line starts: through which wrappers, with which changes to its environment, and which engine.

use super::shell::commands;
use super::word::Word;
use super::workload::Engine;

/// What a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Module {
    /// A serving engine.
    Engine(Engine),
    /// Declares roles and moves nothing.
    Mocker,
    /// Frontend, planner, router: no worker.
    Other,
}

/// A command without what only starts it.
#[derive(Debug, Default)]
pub(super) struct Launch {
    /// Its words, program first.
    pub words: Vec<Word>,
    /// What it changes in the environment that it hands on, in order.
    pub edits: Vec<Edit>,
    /// `exec`: nothing comes after it.
    pub exec: bool,
}

/// One change to the environment of one program.
#[derive(Debug)]
pub(super) enum Edit {
    /// `NAME=value`.
    Assign(Word),
    /// `env -u NAME`.
    Unset(String),
    /// `env -i`.
    Clear,
}

/// Programs that start another one. Their options need no look: what they start is found by its name.
const WRAPPERS: [&str; 8] = [
    "nohup", "setsid", "time", "command", "builtin", "stdbuf", "nice", "ionice",
];

/// The place of a word that stands in no script.
const NOWHERE: usize = usize::MAX / 2;

/// Takes assignments, `exec`, `env` and other wrappers from the front of a command.
pub(super) fn launch(words: &[Word]) -> Launch {
    let mut out = Launch::default();
    let mut rest = words.to_vec();
    loop {
        let assignments = rest.iter().take_while(|w| w.assignment().is_some()).count();
        out.edits
            .extend(rest.drain(..assignments).map(Edit::Assign));
        let options = |from: usize| {
            let more = rest.get(from..).unwrap_or_default();
            more.iter()
                .take_while(|w| w.head().starts_with('-'))
                .count()
        };
        match rest.first().and_then(Word::plain).map(base) {
            Some("exec") => {
                out.exec = true;
                let mut at = 1;
                while let Some(option) = rest.get(at).map(Word::head).filter(|h| h.starts_with('-'))
                {
                    if option.contains('c') {
                        out.edits.push(Edit::Clear);
                    }
                    at += if option.ends_with('a') { 2 } else { 1 };
                }
                rest.drain(..at.min(rest.len()));
            }
            // `command -v x` asks, and runs nothing.
            Some("command") if rest.get(1).is_some_and(|w| w.head().starts_with("-v")) => break,
            Some("env") => rest = env(rest.split_off(1), &mut out.edits),
            Some(wrapper) if WRAPPERS.contains(&wrapper) => {
                rest.drain(..=options(1));
            }
            Some(_) => match env_behind(&rest) {
                Some(at) => {
                    rest = [
                        rest[..at].to_vec(),
                        env(rest.split_off(at + 1), &mut out.edits),
                    ]
                    .concat()
                }
                None => break,
            },
            None => break,
        }
    }
    out.words = rest;
    out
}

/// `numactl -N 0 env A=b python3 ..`: an `env` that stands before the program, with something for it to do.
fn env_behind(words: &[Word]) -> Option<usize> {
    let program = |w: &Word| {
        let word = w.plain().unwrap_or_default();
        word == "-m" || word == "-c" || is_shell(word)
    };
    let end = words.iter().position(program).unwrap_or(words.len());
    let at = words[..end].iter().position(|w| {
        w.plain()
            .is_some_and(|w| base(w) == "env" && !w.starts_with('-'))
    })?;
    let next = words.get(at + 1)?;
    (next.assignment().is_some() || next.head().starts_with('-')).then_some(at)
}

/// Reads the arguments of `env` up to the program.
/// <https://www.gnu.org/software/coreutils/manual/html_node/env-invocation.html>
fn env(mut rest: Vec<Word>, edits: &mut Vec<Edit>) -> Vec<Word> {
    let mut at = 0;
    while let Some(word) = rest.get(at) {
        let head = word.head();
        if word.assignment().is_some() {
            edits.push(Edit::Assign(word.clone()));
            at += 1;
            continue;
        }
        let plain = word.plain().unwrap_or(head);
        let (name, value) = match plain.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
            _ => (plain, None),
        };
        let short = name.starts_with('-') && !name.starts_with("--") && name.len() > 1;
        let next = || {
            rest.get(at + 1)
                .map(|w| w.plain().map_or_else(|| w.script(), str::to_owned))
        };
        // The letter that takes a value ends a group: `-iu NAME`, `-uNAME`.
        let letter = short.then(|| name[1..].find(['u', 'S', 'C'])).flatten();
        let attached = letter
            .and_then(|n| name.get(n + 2..))
            .filter(|v| !v.is_empty());
        let value = value.or_else(|| attached.map(str::to_owned));
        let kind = match letter.and_then(|n| name[1..].chars().nth(n)) {
            Some(letter) => letter,
            None => match name {
                "--unset" => 'u',
                "--split-string" => 'S',
                "--chdir" => 'C',
                _ => ' ',
            },
        };
        let flags = if short {
            &name[1..letter.map_or(name.len(), |n| n + 1)]
        } else {
            ""
        };
        if name == "-" || name == "--ignore-environment" || flags.contains('i') {
            edits.push(Edit::Clear);
        }
        if !(name.starts_with('-') || kind != ' ') {
            break;
        }
        let taken = if kind != ' ' && value.is_none() { 2 } else { 1 };
        let value = if kind == ' ' {
            None
        } else {
            value.or_else(next)
        };
        match (kind, value) {
            ('u', Some(name)) => edits.push(Edit::Unset(name)),
            ('S', Some(text)) => {
                let mut split = commands(&text).into_iter().next().map(|c| c.words);
                for word in split.iter_mut().flatten() {
                    // Not written in the script, so it has no place there.
                    (word.start, word.end) = (NOWHERE, NOWHERE);
                }
                rest.splice(..(at + taken).min(rest.len()), split.unwrap_or_default());
                at = 0;
                continue;
            }
            _ => {}
        }
        at += taken;
    }
    rest.drain(..at.min(rest.len()));
    rest
}

/// Index of the script in `[.., bash, -lc, SCRIPT, ..]`.
pub(super) fn script_in(words: &[&str]) -> Option<usize> {
    let shell = words.iter().position(|word| is_shell(word))?;
    let options = words[shell + 1..].iter().take(6);
    let flag = options
        .clone()
        .position(|w| w.starts_with('-') && !w.starts_with("--") && w[1..].contains('c'))?;
    let at = shell + flag + 2;
    (at < words.len()).then_some(at)
}

/// A shell that is given no script, so it reads one from its input: `bash`, `sh -s`, `bash -l -`.
pub(super) fn reads_script(words: &[&str]) -> bool {
    words.first().is_some_and(|w| is_shell(w)) && words[1..].iter().all(|w| w.starts_with('-'))
}

fn is_shell(word: &str) -> bool {
    matches!(base(word), "sh" | "bash" | "dash" | "ash" | "zsh" | "ksh")
}

/// The last part of a path.
pub(super) fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or_default()
}

/// What a command runs, by its module or program.
pub(super) fn module(words: &[&str]) -> Option<Module> {
    let mut previous = "";
    for word in words {
        let word = word.trim();
        let found = match (previous, word) {
            ("-m", module) => by_module(module),
            ("vllm", "serve") => Some(Module::Engine(Engine::Vllm)),
            ("sglang", "serve") => Some(Module::Engine(Engine::Sglang)),
            (_, "trtllm-serve") => Some(Module::Engine(Engine::Trtllm)),
            _ => None,
        };
        if found.is_some() {
            return found;
        }
        previous = base(word);
    }
    None
}

/// The command starts vLLM by its own server, which sets no address of its pod for peers as Dynamo's launcher does.
pub(super) fn is_vllm_server(words: &[&str]) -> bool {
    let own = |module: &str| module == "vllm" || module.starts_with("vllm.");
    words.windows(2).any(|pair| {
        let (first, second) = (base(pair[0].trim()), pair[1].trim());
        first == "vllm" && second == "serve" || first == "-m" && own(second)
    })
}

fn by_module(module: &str) -> Option<Module> {
    let mut parts = module.split('.');
    match (parts.next()?, parts.next().unwrap_or_default()) {
        ("dynamo", "vllm") | ("vllm", _) => Some(Module::Engine(Engine::Vllm)),
        ("dynamo", "sglang") | ("sglang", _) => Some(Module::Engine(Engine::Sglang)),
        ("dynamo", "trtllm") | ("tensorrt_llm", _) => Some(Module::Engine(Engine::Trtllm)),
        ("dynamo", "mocker") => Some(Module::Mocker),
        (
            "dynamo",
            "frontend" | "planner" | "global_planner" | "router" | "global_router" | "processor"
            | "epp" | "profiler",
        ) => Some(Module::Other),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The program of a command line, and its edits in a few letters.
    fn read(line: &str) -> String {
        let words = commands(line).remove(0).words;
        let launch = launch(&words);
        let edits = launch.edits.iter().map(|edit| match edit {
            Edit::Assign(word) => format!("+{}", word.plain().unwrap_or("?")),
            Edit::Unset(name) => format!("-{name}"),
            Edit::Clear => "0".to_owned(),
        });
        let exec = launch.exec.then(|| "exec".to_owned());
        let words = launch
            .words
            .iter()
            .map(|w| w.plain().unwrap_or("?").to_owned());
        let all: Vec<String> = exec
            .into_iter()
            .chain(edits)
            .chain(["|".to_owned()])
            .chain(words)
            .collect();
        all.join(" ")
    }

    #[test]
    fn what_a_command_line_starts() {
        for (line, expected) in [
            ("A=1 exec B=2 x y", "exec +A=1 +B=2 | x y"),
            ("/usr/bin/env -i A=1 x", "0 +A=1 | x"),
            ("env - A=1 x", "0 +A=1 | x"),
            ("env -u A --unset=B -uC -iu D x", "-A -B -C 0 -D | x"),
            ("env -S 'A=1 x y' z", "+A=1 | x y z"),
            ("env '-S A=1 x' z", "+A=1 | x z"),
            ("env -iS 'A=1 x'", "0 +A=1 | x"),
            (
                "env --split-string='A=1 x' --chdir=/ y",
                "+A=1 | x --chdir=/ y",
            ),
            ("env -C / -- A=1 x -- B=2", "+A=1 | x -- B=2"),
            ("env -v x -i", "| x -i"),
            ("exec -c -a name env -u A nohup x", "exec 0 -A | x"),
            ("exec env", "exec |"),
            ("nice -n 5 env A=1 x -m y", "+A=1 | 5 x -m y"),
            (
                "numactl -N 0 env -u A x -m env",
                "-A | numactl -N 0 x -m env",
            ),
            ("python3 env x", "| python3 env x"),
            ("command -v x", "| command -v x"),
            ("env", "|"),
            ("env -u", "|"),
        ] {
            assert_eq!(read(line), expected, "{line}");
        }
    }
}
