//! How a container starts: the engine it runs, the flags it passes, and what its script adds to the environment.

use super::env::{Env, Setting, Value, is_placeholder};
use super::flags::{Argument, Flags};
use super::place::{self, Range};
use super::shell::{self, Command, Piece, Word};
use super::workload::Engine;
use super::yaml::Node;
use std::collections::HashMap;

/// Shells started inside shells are followed this far.
const SHELL_DEPTH: usize = 3;

/// What the start of a container says.
#[derive(Debug, Default)]
pub(super) struct Start {
    /// The module that serves.
    pub module: Option<Module>,
    /// Flags of the serving command; of all commands when none is known to serve.
    pub flags: Flags,
    /// The script says `ulimit -l unlimited`.
    pub ulimit_memlock: bool,
    served: bool,
}

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

/// Reads `command` and `args` of a container and applies what they set to `env`.
pub(super) fn read(container: Node<'_>, text: &str, env: &mut Env) -> Start {
    let mut argv: Vec<Node<'_>> = Vec::new();
    for key in ["command", "args"] {
        let Some(value) = container.get(key) else {
            continue;
        };
        if value.word().is_some() {
            argv.push(value);
        }
        argv.extend(value.items().filter(|item| item.text().is_some()));
    }
    let fallback = argv.first().map_or(
        Range {
            end: container.start(),
            ..Range::of(container)
        },
        |first| Range {
            end: first.start(),
            ..Range::of(*first)
        },
    );
    let mut reader = Reader {
        file: text,
        env,
        locals: HashMap::new(),
        start: Start::default(),
        loose: Vec::new(),
        all: false,
        fallback,
    };
    let words: Vec<&str> = argv.iter().filter_map(|n| n.text()).collect();
    match script_in(&words) {
        Some(at) => {
            reader.prefix(&plain_command(&argv[..at]));
            reader.script(
                words[at],
                Some(Written {
                    text: words[at],
                    node: argv[at],
                    base: 0,
                }),
                0,
            );
        }
        // One word with blanks is a command line that the image's entrypoint hands to a shell.
        None if words.len() == 1 && words[0].contains(" -m dynamo.") => {
            reader.script(
                words[0],
                Some(Written {
                    text: words[0],
                    node: argv[0],
                    base: 0,
                }),
                0,
            );
        }
        None => reader.command(&plain_command(&argv), None, 0),
    }
    reader.finish()
}

/// The words of an exec array.
fn plain_command(argv: &[Node<'_>]) -> Command {
    let words = argv
        .iter()
        .filter_map(|node| node.text())
        .map(shell::argument)
        .collect();
    Command {
        words,
        conditional: false,
    }
}

/// Index of the script in `[.., bash, -lc, SCRIPT, ..]`.
fn script_in(words: &[&str]) -> Option<usize> {
    let shell = words.iter().position(|word| {
        let base = word.rsplit('/').next().unwrap_or_default();
        matches!(base, "sh" | "bash" | "dash" | "ash" | "zsh" | "ksh")
    })?;
    let options = words[shell + 1..].iter().take(6);
    let flag = options
        .clone()
        .position(|w| w.starts_with('-') && !w.starts_with("--") && w[1..].contains('c'))?;
    let at = shell + flag + 2;
    (at < words.len()).then_some(at)
}

/// A script and the scalar of the file that holds it.
#[derive(Clone, Copy)]
struct Written<'s> {
    /// The scalar's content.
    text: &'s str,
    node: Node<'s>,
    /// Where the script begins in the content: a shell inside a shell is a part of it.
    base: usize,
}

struct Reader<'e, 'f> {
    file: &'f str,
    env: &'e mut Env,
    /// Variables of the shell that no child sees.
    locals: HashMap<String, (Value, Range)>,
    start: Start,
    /// Words of commands that are not known to serve.
    loose: Vec<Argument>,
    /// `set -a`: every assignment is exported.
    all: bool,
    /// The place of settings whose own place is not known: in front of the command, showing nothing.
    fallback: Range,
}

impl Reader<'_, '_> {
    fn finish(mut self) -> Start {
        if !self.start.served {
            self.start.flags = Flags::parse(&self.loose);
        }
        self.start
    }

    fn script(&mut self, script: &str, written: Option<Written<'_>>, depth: usize) {
        for command in shell::commands(script) {
            self.command(&command, written, depth);
        }
    }

    /// Assignments in an exec array: `env X=Y python3 ..`.
    fn prefix(&mut self, command: &Command) {
        let mut words = command.words.iter();
        if words.next().and_then(Word::plain).map(base) != Some("env") {
            return;
        }
        for word in words {
            let Some((name, value)) = word.assignment() else {
                break;
            };
            let value = self.value(&value);
            self.env.set(
                name,
                Setting {
                    value,
                    from: "inline".into(),
                    range: self.fallback,
                },
            );
        }
    }

    fn command(&mut self, command: &Command, script: Option<Written<'_>>, depth: usize) {
        let (assignments, words) = split_assignments(&command.words);
        let plain: Vec<&str> = words
            .iter()
            .map(|w| w.plain().unwrap_or_default())
            .collect();
        match plain.first().copied() {
            None => {
                for word in assignments {
                    self.assign(word, script, command.conditional, false);
                }
                return;
            }
            Some("echo" | "printf" | "cat" | ":" | "sed" | "grep" | "logger") => return,
            Some("export" | "declare" | "typeset" | "readonly") => {
                let exports = plain[0] == "export"
                    || plain[1..]
                        .iter()
                        .any(|w| w.starts_with('-') && w.contains('x'));
                for word in words[1..].iter().filter(|w| !w.head().starts_with('-')) {
                    self.export(word, script, command.conditional, exports);
                }
                return;
            }
            Some("unset") => {
                for name in plain[1..].iter().filter(|w| shell::is_name(w)) {
                    if command.conditional {
                        self.make_dynamic(name);
                    } else {
                        self.env.unset(name);
                        self.locals.remove(*name);
                    }
                }
                return;
            }
            Some("set") => self.all |= plain[1..].iter().any(|w| *w == "-a" || *w == "allexport"),
            Some("ulimit") => self.ulimit(&plain),
            _ => {}
        }
        if depth < SHELL_DEPTH
            && let Some(at) = script_in(&plain)
            && let Some(inner) = words[at].plain()
        {
            self.inline(assignments, script, command.conditional);
            let within = script.and_then(|w| {
                let base = w.base + w.text.get(w.base..)?.find(inner)?;
                Some(Written { base, ..w })
            });
            self.script(inner, within, depth + 1);
            return;
        }
        let module = module(&plain);
        if module.is_some() || is_exec(&command.words) {
            self.inline(assignments, script, command.conditional);
        }
        let arguments: Vec<Argument> = words.iter().map(|w| self.argument(w)).collect();
        match module {
            Some(module) => self.serve(module, &arguments),
            None if !self.start.served => self.loose.extend(arguments),
            None => {}
        }
    }

    fn ulimit(&mut self, plain: &[&str]) {
        let at = plain
            .iter()
            .position(|w| w.starts_with('-') && w.contains('l'));
        self.start.ulimit_memlock |= at.and_then(|at| plain.get(at + 1)) == Some(&"unlimited");
    }

    fn serve(&mut self, module: Module, arguments: &[Argument]) {
        let flags = Flags::parse(arguments);
        match (self.start.module, module) {
            // A frontend beside an engine is not what the worker is.
            (Some(Module::Engine(_) | Module::Mocker), Module::Other) => {}
            (Some(Module::Other) | None, _) => {
                self.start.module = Some(module);
                self.start.flags = flags;
            }
            _ => self.start.flags.intersect(&flags),
        }
        self.start.served = true;
    }

    fn inline(&mut self, assignments: &[Word], script: Option<Written<'_>>, conditional: bool) {
        for word in assignments {
            self.assign(word, script, conditional, true);
        }
    }

    /// `X=value`: changes the environment if X is in it, or if a command follows on the line.
    fn assign(
        &mut self,
        word: &Word,
        script: Option<Written<'_>>,
        conditional: bool,
        exported: bool,
    ) {
        let Some((name, rest)) = word.assignment() else {
            return;
        };
        let value = self.value(&rest);
        let range = self.range(word, name, &value, script);
        if exported || self.all || self.env.get(name).is_some() {
            self.put(name, value, "inline", range, conditional);
        } else if conditional && self.locals.get(name).is_some_and(|(old, _)| *old != value) {
            self.locals.insert(name.to_owned(), (Value::Dynamic, range));
        } else {
            self.locals.insert(name.to_owned(), (value, range));
        }
    }

    /// `export X=value` or `export X`.
    fn export(
        &mut self,
        word: &Word,
        script: Option<Written<'_>>,
        conditional: bool,
        exports: bool,
    ) {
        if let Some((name, rest)) = word.assignment() {
            let value = self.value(&rest);
            let range = self.range(word, name, &value, script);
            if exports {
                self.put(name, value, "export", range, conditional);
            } else {
                self.locals.insert(name.to_owned(), (value, range));
            }
        } else if let Some(name) = word.plain()
            && exports
            && let Some((value, range)) = self.locals.remove(name)
        {
            self.put(name, value, "inline", range, conditional);
        }
    }

    fn put(&mut self, name: &str, value: Value, from: &str, range: Range, conditional: bool) {
        let same = self.env.get(name).is_some_and(|old| old.value == value);
        let value = if conditional && !same {
            Value::Dynamic
        } else {
            value
        };
        self.env.set(
            name,
            Setting {
                value,
                from: from.to_owned(),
                range,
            },
        );
    }

    fn make_dynamic(&mut self, name: &str) {
        if let Some(old) = self.env.get(name) {
            let setting = Setting {
                value: Value::Dynamic,
                ..old.clone()
            };
            self.env.set(name, setting);
        }
    }

    /// Where an assignment is written. The value of a computed one is not shown: a command may hold a token.
    fn range(&self, word: &Word, name: &str, value: &Value, script: Option<Written<'_>>) -> Range {
        let Some(Written { text, node, base }) = script else {
            return self.fallback;
        };
        let key = format!("{name}=");
        let nth = text
            .get(..base + word.start)
            .unwrap_or_default()
            .matches(&key)
            .count();
        let written = text.get(base + word.start..base + word.end);
        let verbatim = written.filter(|_| matches!(value, Value::Text(_)));
        place::assignment(self.file, node, name, nth, verbatim)
    }

    /// The value of a word in an assignment.
    fn value(&self, word: &Word) -> Value {
        let argument = self.argument(word);
        if argument.known
            || argument.text.starts_with(['{', '[']) && !word.pieces.contains(&Piece::Computed)
        {
            if is_placeholder(&argument.text) {
                Value::Dynamic
            } else {
                Value::Text(argument.text)
            }
        } else {
            Value::Dynamic
        }
    }

    /// The text of a word, references replaced where they are known.
    fn argument(&self, word: &Word) -> Argument {
        let mut out = Argument {
            text: String::new(),
            known: true,
        };
        for piece in &word.pieces {
            let (found, written) = match piece {
                Piece::Text(text) => (Some(text.clone()), String::new()),
                Piece::Variable { name, default } => (
                    self.look_up(name, default.as_deref()),
                    format!("${{{name}}}"),
                ),
                Piece::Kubernetes(name) => {
                    (self.env.text(name).map(str::to_owned), format!("$({name})"))
                }
                Piece::Computed => (None, "$(..)".to_owned()),
            };
            out.known &= found.is_some();
            out.text.push_str(found.as_deref().unwrap_or(&written));
        }
        out
    }

    fn look_up(&self, name: &str, default: Option<&str>) -> Option<String> {
        let value = self
            .locals
            .get(name)
            .map(|(v, _)| v)
            .or_else(|| self.env.get(name).map(|s| &s.value));
        match value {
            Some(Value::Text(text)) if text.is_empty() && default.is_some() => {
                default.map(str::to_owned)
            }
            Some(Value::Text(text)) => Some(text.clone()),
            Some(_) => None,
            None if self.env.may_hold(name) => None,
            None => default.filter(|d| !d.contains('$')).map(str::to_owned),
        }
    }
}

/// Assignments in front of a command, and the command without them and without what only starts it.
fn split_assignments(words: &[Word]) -> (&[Word], &[Word]) {
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let wrapper = matches!(
            word.plain(),
            Some("exec" | "env" | "nohup" | "time" | "command" | "setsid" | "stdbuf")
        );
        if !(wrapper || word.assignment().is_some()) {
            break;
        }
        at += 1;
    }
    // Wrappers among the assignments do no harm: they assign nothing.
    words.split_at(at)
}

fn is_exec(words: &[Word]) -> bool {
    words.iter().any(|w| w.plain() == Some("exec"))
}

fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or_default()
}

/// What a command runs, by its module or program.
fn module(words: &[&str]) -> Option<Module> {
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
    use crate::manifest::yaml::Tree;

    fn read_text(text: &str) -> (Start, Env) {
        let tree = Tree::parse(text, 0, 1).unwrap();
        let root = tree.roots().next().unwrap();
        let mut env = Env::default();
        if let Some(list) = root.get("env") {
            for e in list.items() {
                let value = Value::Text(e.word_at(&["value"]).unwrap_or_default().to_owned());
                let name = e.word_at(&["name"]).unwrap();
                env.set(
                    name,
                    Setting {
                        value,
                        from: "container.env".into(),
                        range: Range::of(e),
                    },
                );
            }
        }
        let start = read(root, text, &mut env);
        (start, env)
    }

    #[test]
    fn a_script_sets_what_it_runs_with() {
        let text = r#"
env:
- {name: UCX_TLS, value: old}
command: [/bin/bash, -lc]
args:
- |
  # export UCX_LOG_LEVEL=debug
  ulimit -l unlimited || true
  UCX_NET_DEVICES="$(nvidia-smi topo -m)"
  export UCX_NET_DEVICES
  echo "dynamic UCX_NET_DEVICES=${UCX_NET_DEVICES}"
  LOCAL=1
  UCX_TLS=rc exec python3 -m dynamo.sglang --config /etc/x.yaml --host "0.0.0.0"
"#;
        let (start, env) = read_text(text);
        assert_eq!(start.module, Some(Module::Engine(Engine::Sglang)));
        assert!(start.ulimit_memlock);
        assert_eq!(start.flags.text(&["config"]), Some("/etc/x.yaml"));
        assert_eq!(env.get("UCX_NET_DEVICES").unwrap().value, Value::Dynamic);
        assert_eq!(
            (
                env.text("UCX_TLS"),
                env.get("UCX_TLS").unwrap().from.as_str()
            ),
            (Some("rc"), "inline")
        );
        assert!(env.get("LOCAL").is_none() && env.get("UCX_LOG_LEVEL").is_none());
        let range = env.get("UCX_TLS").unwrap().range;
        assert_eq!(
            (&text[range.start..range.end], range.line),
            ("UCX_TLS=rc", 13)
        );
        let range = env.get("UCX_NET_DEVICES").unwrap().range;
        assert_eq!(
            (&text[range.start..range.end], range.line),
            ("UCX_NET_DEVICES", 9)
        );
    }

    #[test]
    fn a_folded_script_is_one_line() {
        let text = "command: [sh, -c]\nargs:\n- >-\n  ulimit -l unlimited\n  X=0 \\\n  python -m dynamo.vllm \\\n  --disaggregation-mode pd\n";
        let (start, _) = read_text(text);
        assert_eq!(start.flags.text(&["disaggregation-mode"]), Some("pd"));
        assert!(start.ulimit_memlock);
    }

    #[test]
    fn references_to_the_environment() {
        let text = "env: [{name: C, value: '{\"a\": 1}'}]\ncommand: [python3, -m, dynamo.vllm]\nargs: [--x=$(C), --y=$(D)]\n";
        let (start, _) = read_text(text);
        assert_eq!(start.flags.text(&["x"]), Some("{\"a\": 1}"));
        assert_eq!(start.flags.text(&["y"]), None);
        let text = "env: [{name: C, value: v}]\ncommand: [sh, -c, 'vllm serve m --x \"${C}\" --y=${D:-w}']\n";
        let (start, _) = read_text(text);
        assert_eq!(
            (start.flags.text(&["x"]), start.flags.text(&["y"])),
            (Some("v"), Some("w"))
        );
    }

    #[test]
    fn what_may_not_run_is_dynamic() {
        let text = "command: [sh, -c]\nargs: ['if [ $A ]; then export UCX_TLS=tcp; fi; exec python3 -m dynamo.vllm']\n";
        let (_, env) = read_text(text);
        assert_eq!(env.get("UCX_TLS").unwrap().value, Value::Dynamic);
    }

    #[test]
    fn shells_in_shells_and_env_in_exec_arrays() {
        let text = "command: [sh, -c]\nargs: [\"mpirun -n 2 bash -c 'export UCX_TLS=rc; python3 -m dynamo.trtllm --a 1'\"]\n";
        let (start, env) = read_text(text);
        assert_eq!(
            (start.flags.text(&["a"]), env.text("UCX_TLS")),
            (Some("1"), Some("rc"))
        );
        let text = "command: [env, UCX_TLS=rc, python3, -m, dynamo.vllm]\n";
        let (start, env) = read_text(text);
        assert_eq!(
            (start.module.is_some(), env.text("UCX_TLS")),
            (true, Some("rc"))
        );
    }
}
