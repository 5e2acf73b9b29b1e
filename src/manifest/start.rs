//! How a container starts: the engine it runs, the flags it passes, and what its script adds to the environment.

mod scopes;

use super::env::{Env, Setting, TEXT_CAP, Value, is_foreign, is_placeholder};
use super::flags::{Argument, Flags};
use super::launch::{self, Edit, Launch, Module, base, script_in};
use super::place::Range;
use super::shell::{self, Command, Guard};
use super::word::{self, Piece, Word};
use super::written::{self, Places};
use super::yaml::Node;
use crate::catalogue;
use scopes::{Kind, Scope};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Shells started inside shells are followed this far.
const SHELL_DEPTH: usize = 3;
/// Longer scripts are not followed; the longest published one has about 8 KiB.
const SCRIPT_LIMIT: usize = 256 << 10;
/// How much work one container may ask for: commands, variables that are compared, and 64 bytes of text each count one.
const FUEL: usize = 1 << 20;

/// What the start of a container says.
#[derive(Debug, Default)]
pub(super) struct Start {
    /// The module that serves.
    pub module: Option<Module>,
    /// Flags of the serving command; of all commands when none is known to serve.
    pub flags: Flags,
    /// The engine is vLLM by its own server, and not by Dynamo's launcher.
    pub vllm_server: bool,
    /// The script says `ulimit -l unlimited`.
    pub ulimit_memlock: bool,
    /// The script was too long, too deep or too much work: what it sets is not known.
    pub unread: bool,
}

/// Reads `command` and `args` of a container, and what they make of its environment.
pub(super) fn read(container: Node<'_>, env: Env) -> (Start, Env) {
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
    let words: Vec<&str> = argv.iter().filter_map(|n| n.text()).collect();
    let script = script_in(&words)
        // One word with blanks is a command line that the image's entrypoint hands to a shell.
        .or_else(|| (words.len() == 1 && words[0].contains(" -m dynamo.")).then_some(0));
    let mut reader = Reader {
        initial: words.iter().any(|w| w.contains("$(")).then(|| env.clone()),
        env,
        locals: HashMap::new(),
        to_export: HashSet::new(),
        scopes: Vec::new(),
        pending: Vec::new(),
        stopped: None,
        served: None,
        serves: 0,
        doubtful: BTreeMap::new(),
        unread: BTreeSet::new(),
        fuel: Some(FUEL),
        tainted: 0,
        start: Start::default(),
        loose: Vec::new(),
        all: false,
        fallback: Range::before(argv.first().copied().unwrap_or(container)),
        node: script.map(|at| argv[at]),
        places: OnceCell::new(),
    };
    let before = script.unwrap_or(words.len());
    let mut launch = launch::launch(
        &words[..before]
            .iter()
            .copied()
            .map(shell::argument)
            .collect::<Vec<_>>(),
    );
    match script {
        Some(at) => {
            reader.apply(&launch.edits, None);
            reader.script(words[at], Some(0), 0);
        }
        None => {
            launch.exec = true;
            reader.run(launch, Guard::Sure, None, None, 0);
        }
    }
    reader.finish()
}

struct Reader<'n> {
    env: Env,
    /// What Kubernetes sees when it replaces `$(NAME)`; kept where something refers to it.
    initial: Option<Env>,
    /// Variables of the shell that no child sees.
    locals: HashMap<String, Setting>,
    /// `export X` before X is set.
    to_export: HashSet<String>,
    scopes: Vec<Scope>,
    /// What was set in the chain of `&&` that runs, and what was there before: certain in the chain, unknown after it.
    pending: Vec<(String, Kind, Option<Setting>)>,
    /// `exec` or `exit` ended the process of this depth.
    stopped: Option<usize>,
    /// The environment in which the engine starts.
    served: Option<Env>,
    serves: usize,
    /// What was set for other processes. Nobody knows them, where no engine is known to serve.
    doubtful: BTreeMap<String, Setting>,
    /// What is set in a text that was not followed.
    unread: BTreeSet<String>,
    /// What is left of [`FUEL`]; None when more was asked for.
    fuel: Option<usize>,
    /// Inside the text of a variable that may hold anything.
    tainted: usize,
    start: Start,
    /// Words of commands that are not known to serve.
    loose: Vec<Argument>,
    /// `set -a`: every assignment is exported.
    all: bool,
    /// The place of settings whose own place is not known: in front of the command, showing nothing.
    fallback: Range,
    /// The scalar that holds the script.
    node: Option<Node<'n>>,
    places: OnceCell<Places<'n>>,
}

impl Reader<'_> {
    fn finish(mut self) -> (Start, Env) {
        if self.exhausted()
            && let Some(text) = self.node.and_then(Node::text)
        {
            self.give_up(text);
        }
        if self.serves == 0 {
            self.start.flags = Flags::parse(&self.loose);
        }
        let mut env = self.served.unwrap_or_else(|| {
            for (name, setting) in self.doubtful {
                if self.env.get(&name).map(|old| &old.value) != Some(&setting.value) {
                    self.env.set(&name, setting.unknown());
                }
            }
            self.env
        });
        for name in self.unread {
            let setting = Setting::new(Value::Dynamic, "inline", self.fallback);
            env.set(&name, setting);
        }
        (self.start, env)
    }

    /// Pays for work; false when there is nothing left to pay with.
    fn spend(&mut self, amount: usize) -> bool {
        let paid = self.fuel.and_then(|fuel| fuel.checked_sub(amount));
        self.fuel = paid;
        paid.is_some()
    }

    fn exhausted(&self) -> bool {
        self.fuel.is_none()
    }

    /// A script that is not followed: every transport variable that it may set is unknown.
    fn give_up(&mut self, script: &str) {
        self.start.unread = true;
        let names = written::names(script, false).map(|(name, _)| name);
        self.unread
            .extend(names.filter(|n| is_judged(n)).map(str::to_owned));
    }

    /// Runs a script. `at`: where its text begins in the content of the scalar.
    fn script(&mut self, script: &str, at: Option<usize>, depth: usize) {
        if script.len() > SCRIPT_LIMIT || depth > SHELL_DEPTH || !self.spend(script.len() / 16) {
            return self.give_up(script);
        }
        if self.exhausted() {
            return;
        }
        let outside = std::mem::take(&mut self.pending);
        let mut chain = Guard::Sure;
        for command in shell::commands(script) {
            if command.guard != chain {
                self.settle(0);
                chain = command.guard;
            }
            (0..command.opens).for_each(|_| self.enter());
            if self.stopped.is_none() && self.spend(1) {
                self.command(&command, script, at, depth);
            }
            (0..command.closes).for_each(|_| self.leave());
        }
        self.settle(0);
        self.pending = outside;
    }

    fn command(&mut self, command: &Command, script: &str, at: Option<usize>, depth: usize) {
        self.set_defaults(&command.words, command.guard);
        if command.words.iter().all(|w| w.assignment().is_some()) {
            for word in &command.words {
                self.assign(word, at, command.guard, "inline", false);
            }
            return;
        }
        let heredoc = command
            .heredoc
            .and_then(|(from, to)| Some((script.get(from..to)?, at.map(|at| at + from))));
        self.run(
            launch::launch(&command.words),
            command.guard,
            at,
            heredoc,
            depth,
        );
    }

    fn run(
        &mut self,
        launch: Launch,
        guard: Guard,
        at: Option<usize>,
        heredoc: Option<(&str, Option<usize>)>,
        depth: usize,
    ) {
        let words = &launch.words;
        let plain: Vec<&str> = words
            .iter()
            .map(|w| w.plain().unwrap_or_default())
            .collect();
        if plain.is_empty() || self.builtin(words, &plain, guard, at, depth) {
            return;
        }
        let inner = match script_in(
            &plain
                .iter()
                .zip(words)
                .map(|(p, w)| if p.is_empty() { w.head() } else { p })
                .collect::<Vec<_>>(),
        ) {
            Some(n) => {
                let text = words[n].script();
                let place = self.place_within(&words[n], &text, at);
                Some((text, place))
            }
            None => heredoc
                .filter(|_| launch::reads_script(&plain))
                .map(|(text, at)| (text.to_owned(), at)),
        };
        let module = launch::module(&plain);
        let ends = launch.exec && guard == Guard::Sure;
        // What `exec` hands on stays; anything else is gone with the process.
        let own = !(ends && inner.is_none() && module.is_none());
        if own {
            self.enter();
        }
        self.apply(&launch.edits, at);
        self.apply_mpi(words, &plain, at);
        match (inner, module) {
            (Some((text, place)), _) => self.script(&text, place, depth + 1),
            (None, Some(module)) => {
                let arguments: Vec<Argument> = words.iter().map(|w| self.argument(w)).collect();
                self.serve(module, &arguments, launch::is_vllm_server(&plain));
            }
            (None, None) if self.serves == 0 => {
                let arguments: Vec<Argument> = words.iter().map(|w| self.argument(w)).collect();
                self.loose.extend(arguments);
            }
            (None, None) => {}
        }
        if own {
            self.leave();
        }
        if ends {
            self.stopped = Some(self.scopes.len());
        }
    }

    /// What the shell does itself. False: it is a program.
    fn builtin(
        &mut self,
        words: &[Word],
        plain: &[&str],
        guard: Guard,
        at: Option<usize>,
        depth: usize,
    ) -> bool {
        match plain[0] {
            "printf" if plain.get(1) == Some(&"-v") => {
                self.read_into(&plain[2..plain.len().min(3)], guard)
            }
            "read" | "mapfile" | "readarray" | "getopts" => self.read_into(&plain[1..], guard),
            "echo" | "printf" | "cat" | ":" | "sed" | "grep" | "logger" => {}
            "export" | "declare" | "typeset" | "readonly" | "local" => {
                self.declare(words, plain, guard, at)
            }
            "unset" => {
                for name in plain[1..].iter().filter(|w| word::is_name(w)) {
                    for kind in [Kind::Exported, Kind::Local] {
                        self.remove(name, kind, guard);
                    }
                }
            }
            "set" => {
                let says = |sign: &str, long: &str| {
                    plain[1..].iter().any(|w| *w == format!("{sign}a"))
                        || plain.windows(2).any(|w| w == [long, "allexport"])
                };
                self.all = (self.all || says("-", "-o")) && !says("+", "+o");
            }
            "ulimit" => {
                let limit = plain
                    .iter()
                    .position(|w| w.starts_with('-') && w.contains('l'));
                self.start.ulimit_memlock |=
                    limit.and_then(|n| plain.get(n + 1)) == Some(&"unlimited");
                // A script that a folded scalar made one line goes on behind it.
                return false;
            }
            "eval" => self.eval(&words[1..], at, depth),
            "exit" if guard == Guard::Sure => self.stopped = Some(self.scopes.len()),
            _ => return false,
        }
        true
    }

    /// `eval`: a script in this very process, with everything replaced before it runs.
    fn eval(&mut self, words: &[Word], at: Option<usize>, depth: usize) {
        if let [word] = words
            && let Some(text) = word.plain()
        {
            let place = self.place_within(word, text, at);
            return self.script(text, place, depth + 1);
        }
        let parts: Vec<Argument> = words.iter().map(|w| self.argument(w)).collect();
        let known = parts.iter().all(Argument::is_known);
        let foreign = usize::from(parts.iter().any(|p| p.foreign));
        let text = if known {
            parts
                .iter()
                .map(|p| p.text.as_str())
                .collect::<Vec<_>>()
                .join(" ")
        } else {
            words.iter().map(Word::script).collect::<Vec<_>>().join(" ")
        };
        self.tainted += foreign;
        self.script(&text, None, depth + 1);
        self.tainted -= foreign;
    }

    /// Where a script inside a word begins, if it is written there as it is.
    fn place_within(&self, word: &Word, inner: &str, at: Option<usize>) -> Option<usize> {
        let from = at? + word.start;
        let content = self.node?.text()?.get(from..at? + word.end)?;
        Some(from + content.find(inner)?)
    }

    fn serve(&mut self, module: Module, arguments: &[Argument], vllm_server: bool) {
        self.serves += 1;
        let flags = Flags::parse(arguments);
        match (self.start.module, module) {
            // A frontend beside an engine is not what the worker is.
            (Some(Module::Engine(_) | Module::Mocker), Module::Other) => {}
            (Some(Module::Other) | None, _) => {
                self.start.module = Some(module);
                self.start.flags = flags;
                self.start.vllm_server = vllm_server;
            }
            _ => {
                self.start.flags.intersect(&flags);
                self.start.vllm_server &= vllm_server;
            }
        }
        if module == Module::Other {
            return;
        }
        // A script that may start one of two commands says no more than what both agree on.
        match self.served.take() {
            None => self.served = Some(self.env.clone()),
            Some(mut served) => {
                if self.spend(served.len() + self.env.len()) {
                    served.meet(&self.env);
                }
                self.served = Some(served);
            }
        }
    }

    /// `read X`, `printf -v X`: whatever it is, it is not written here.
    fn read_into(&mut self, words: &[&str], guard: Guard) {
        for name in words.iter().filter(|w| word::is_name(w)) {
            let kind = if self.env.get(name).is_some() {
                Kind::Exported
            } else {
                Kind::Local
            };
            let setting = Setting::new(Value::Dynamic, "inline", self.fallback);
            self.put(name, kind, setting, guard);
        }
    }

    /// Changes for the process that runs now.
    fn apply(&mut self, edits: &[Edit], at: Option<usize>) {
        for edit in edits {
            match edit {
                Edit::Assign(word) => self.assign(word, at, Guard::Sure, "inline", true),
                Edit::Unset(name) => {
                    self.write(name, Kind::Exported, None);
                }
                Edit::Clear => {
                    let names: Vec<String> =
                        self.env.all().map(|(name, _)| name.to_owned()).collect();
                    if self.spend(names.len()) {
                        for name in names {
                            self.write(&name, Kind::Exported, None);
                        }
                    }
                    self.env.set_open(false);
                }
            }
        }
    }

    /// `mpirun -x NAME=value`.
    fn apply_mpi(&mut self, words: &[Word], plain: &[&str], at: Option<usize>) {
        if matches!(base(plain[0]), "mpirun" | "orterun" | "mpiexec") {
            for n in (1..words.len()).filter(|n| plain[n - 1] == "-x") {
                self.assign(&words[n], at, Guard::Sure, "inline", true);
            }
        }
    }

    /// `X=value`: changes the environment if X is in it, or if it is for the command that follows.
    fn assign(
        &mut self,
        word: &Word,
        at: Option<usize>,
        guard: Guard,
        from: &'static str,
        exports: bool,
    ) {
        let Some(assignment) = word.assignment() else {
            return;
        };
        let name = assignment.name;
        let (mut value, mut foreign) = self.value(&assignment.value);
        if assignment.appends
            && let Some(old) = self.locals.get(name).or_else(|| self.env.get(name))
        {
            foreign |= old.foreign;
            value = match (&old.value, value) {
                (Value::Text(old), Value::Text(new)) if old.len() + new.len() <= TEXT_CAP => {
                    Value::Text(format!("{old}{new}"))
                }
                _ => Value::Dynamic,
            };
        } else if assignment.appends && self.env.may_hold(name) {
            value = Value::Dynamic;
        }
        let range = self.range(word, name, at, matches!(value, Value::Text(_)) && !foreign);
        let kind =
            if exports || self.all || self.env.get(name).is_some() || self.to_export.contains(name)
            {
                Kind::Exported
            } else {
                Kind::Local
            };
        let setting = Setting {
            foreign,
            ..Setting::new(value, from, range)
        };
        self.put(name, kind, setting, guard);
    }

    /// `export X=value`, `export X`, `export -n X`, `declare X=value`.
    fn declare(&mut self, words: &[Word], plain: &[&str], guard: Guard, at: Option<usize>) {
        let option = |letter: char, sign: char| {
            plain[1..]
                .iter()
                .any(|w| w.starts_with(sign) && w[1..].contains(letter))
        };
        let hides = plain[0] == "export" && option('n', '-') || option('x', '+');
        let exports = !hides && (plain[0] == "export" || option('x', '-'));
        for word in words[1..]
            .iter()
            .filter(|w| !w.head().starts_with(['-', '+']))
        {
            if word.assignment().is_some() {
                let from = if exports { "export" } else { "inline" };
                self.assign(word, at, guard, from, exports);
            } else if let Some(name) = word.plain().filter(|n| word::is_name(n))
                && exports
            {
                match self.locals.get(name).cloned() {
                    Some(local) => {
                        self.write(name, Kind::Local, None);
                        self.put(name, Kind::Exported, local, guard);
                    }
                    None => {
                        self.to_export.insert(name.to_owned());
                    }
                }
            }
            let name = word
                .assignment()
                .map(|a| a.name.to_owned())
                .or_else(|| word.plain().map(str::to_owned));
            if let Some(name) = name.filter(|_| hides)
                && let Some(setting) = self.env.get(&name).cloned()
            {
                self.remove(&name, Kind::Exported, guard);
                self.put(&name, Kind::Local, setting, guard);
            }
        }
    }

    /// `${X:=value}` sets X wherever it stands.
    fn set_defaults(&mut self, words: &[Word], guard: Guard) {
        for piece in words.iter().flat_map(|w| &w.pieces) {
            let Piece::Variable {
                name,
                default: Some(default),
            } = piece
            else {
                continue;
            };
            let old = self.locals.get(name).or_else(|| self.env.get(name));
            let empty = |s: &Setting| matches!(&s.value, Value::Text(t) if t.is_empty());
            let unset = old.is_none_or(|s| default.replaces_empty && empty(s));
            if !(default.assigns && unset) {
                continue;
            }
            let value = match &default.text {
                Some(text) if !self.env.may_hold(name) => Value::Text(text.clone()),
                _ => Value::Dynamic,
            };
            let exported =
                self.all || self.env.get(name).is_some() || self.to_export.contains(name);
            let kind = if exported {
                Kind::Exported
            } else {
                Kind::Local
            };
            let setting = Setting {
                foreign: self.tainted > 0,
                ..Setting::new(value, "inline", self.fallback)
            };
            self.put(name, kind, setting, guard);
        }
    }

    /// Where an assignment is written. The value is shown only where it is known: a command may hold a token.
    fn range(&self, word: &Word, name: &str, at: Option<usize>, shown: bool) -> Range {
        let place = || {
            let (at, node) = (at?, self.node?);
            let content = node.text()?;
            let verbatim = content
                .get(at + word.start..at + word.end)
                .filter(|_| shown);
            let places = self.places.get_or_init(|| Places::of(node));
            // A quote may open in front of the name: `export "X=y"`.
            let quoted = usize::from(content.get(at + word.start..)?.starts_with(['"', '\'']));
            places.find(name, at + word.start + quoted, verbatim)
        };
        is_judged(name)
            .then(place)
            .flatten()
            .unwrap_or(self.fallback)
    }

    /// The value of a word in an assignment, and whether it may hold anything.
    fn value(&mut self, word: &Word) -> (Value, bool) {
        let argument = self.argument(word);
        let readable = argument.is_known()
            || argument.text.starts_with(['{', '[']) && !word.pieces.contains(&Piece::Computed);
        if readable && argument.text.len() <= TEXT_CAP && !is_placeholder(&argument.text) {
            (Value::Text(argument.text), argument.foreign)
        } else {
            (Value::Dynamic, argument.foreign)
        }
    }

    /// The text of a word, references replaced where they are known.
    fn argument(&mut self, word: &Word) -> Argument {
        let mut out = Argument {
            foreign: self.tainted > 0,
            ..Argument::default()
        };
        for piece in &word.pieces {
            let (found, written) = match piece {
                Piece::Text(text) => (Some((text.clone(), false)), String::new()),
                Piece::Variable { name, default } => {
                    let found = self.look_up(name, default.as_ref());
                    (found, format!("${{{name}}}"))
                }
                Piece::Kubernetes(name) => {
                    let setting = self.initial.as_ref().unwrap_or(&self.env).get(name);
                    let text = setting.and_then(Setting::text).map(str::to_owned);
                    let foreign = is_foreign(name, setting);
                    (text.map(|t| (t, foreign)), format!("$({name})"))
                }
                Piece::Computed => (None, String::new()),
            };
            match found {
                Some((text, foreign)) => {
                    out.foreign |= foreign;
                    out.text.push_str(&text);
                }
                None => {
                    out.text.push_str(&written);
                    out.open.get_or_insert(written);
                }
            }
            if out.text.len() > TEXT_CAP || !self.spend(out.text.len() / 64) {
                out.text.clear();
                out.open = Some(String::new());
                break;
            }
        }
        out
    }

    /// The text of a variable, and whether it may hold anything.
    fn look_up(&self, name: &str, default: Option<&word::Default>) -> Option<(String, bool)> {
        let setting = self.locals.get(name).or_else(|| self.env.get(name));
        let fallback = || {
            default
                .and_then(|d| d.text.clone())
                .map(|text| (text, false))
        };
        match setting.map(|s| &s.value) {
            Some(Value::Text(text))
                if text.is_empty() && default.is_some_and(|d| d.replaces_empty) =>
            {
                fallback()
            }
            Some(Value::Text(text)) => Some((text.clone(), is_foreign(name, setting))),
            Some(_) => None,
            None if self.env.may_hold(name) => None,
            None => fallback(),
        }
    }
}

/// Names whose values and places are reported.
fn is_judged(name: &str) -> bool {
    name.starts_with("UCX_") || catalogue::find(name).is_some()
}

#[cfg(test)]
mod tests;
