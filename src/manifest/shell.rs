//! Shell text to commands, as far as a manifest can say what a start script sets.
//!
//! No shell: nothing runs, nothing is looked up. It knows which commands may not run, and which run in a process of
//! their own, because a setting in there never reaches what comes later.

use super::lexer::{Heredoc, Lexer, Separator, Token};
use super::word::{Piece, Word, kubernetes};

/// One simple command.
#[derive(Debug, Clone, Default)]
pub(super) struct Command {
    /// Its words, assignments included, keywords and redirections left out.
    pub words: Vec<Word>,
    /// Whether it runs.
    pub guard: Guard,
    /// So many processes begin with it: subshells, pipelines, background jobs.
    pub opens: u32,
    /// So many of them end with it.
    pub closes: u32,
    /// First and last byte of the heredoc that it reads.
    pub heredoc: Option<(usize, usize)>,
}

/// Whether a command runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Guard {
    /// It does.
    #[default]
    Sure,
    /// Only if the commands before it in this chain of `&&` succeed; what follows in the chain runs only then, too.
    Chain(usize),
    /// Inside `if`, `case`, a loop or a function, or after `||`.
    Maybe,
}

/// The commands of a script, in order.
pub(super) fn commands(script: &str) -> Vec<Command> {
    let mut lexer = Lexer::new(script);
    let mut grammar = Grammar::default();
    let mut words = Vec::new();
    loop {
        match lexer.token() {
            Token::Word(word) => words.push(word),
            Token::Break(separator) => {
                grammar.end_command(std::mem::take(&mut words), separator);
                if separator == Separator::End {
                    return grammar.finish(&lexer.heredocs);
                }
            }
        }
    }
}

/// One word per argument of an exec array: no shell, so only Kubernetes' own `$(NAME)` is a reference.
pub(super) fn argument(text: &str) -> Word {
    Word {
        pieces: kubernetes(text),
        start: 0,
        end: text.len(),
    }
}

/// A construct that is open.
struct Frame {
    kind: Kind,
    /// The first command in it.
    start: usize,
    /// It reads from a pipe, so it is a process of its own.
    piped: bool,
    /// What is in it may not run.
    conditional: bool,
    /// Where the list of commands began that it is a part of.
    list: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Parenthesis,
    Brace,
    Compound,
}

/// Commands that hardly fail: what is tied to them by `&&` runs.
const HARMLESS: [&str; 12] = [
    ":", "true", "echo", "printf", "export", "set", "unset", "ulimit", "cd", "mkdir", "sleep",
    "wait",
];

/// Nothing but assignments of known values, or a command that hardly fails.
fn is_harmless(words: &[Word]) -> bool {
    let command = words.iter().find(|w| w.assignment().is_none());
    command.is_none_or(|w| w.plain().is_some_and(|w| HARMLESS.contains(&w)))
        && !(words.iter().flat_map(|w| &w.pieces))
            .any(|piece| matches!(piece, Piece::Computed | Piece::Kubernetes(_)))
}

#[derive(Default)]
struct Grammar {
    out: Vec<Command>,
    /// The segment of each command, for its heredoc.
    segments: Vec<usize>,
    segment: usize,
    open: Vec<Frame>,
    /// How many open constructs are conditional.
    conditions: usize,
    guard: Guard,
    chain: usize,
    /// The last mark was a `|`.
    piped: bool,
    /// A function's name was just seen: the `{` that follows holds its body.
    function: bool,
    /// The last mark was a `(`.
    opened: bool,
    /// The last mark was a `)`.
    closed: bool,
    /// The first command of the list that `&` would send to the background.
    list: usize,
}

impl Grammar {
    /// A command with the mark that ends it.
    fn end_command(&mut self, mut words: Vec<Word>, separator: Separator) {
        let guard = self.guard;
        let blank = words.is_empty();
        let pipe = separator == Separator::Pipe;
        let (mut negated, mut named, mut skipped) = (false, blank && self.function, 0);
        // A construct that ended here takes the mark: `{ .. } | cat`, `done | cat`.
        let mut ended: Option<Frame> = None;
        while let Some(first) = words.get(skipped).and_then(Word::plain) {
            match first {
                "if" | "while" | "until" => self.enter(Kind::Compound, true),
                "for" | "case" | "select" => {
                    self.enter(Kind::Compound, true);
                    skipped = words.len();
                    break;
                }
                "function" => {
                    // Its name is no command.
                    skipped = (skipped + 2).min(words.len());
                    (self.function, named) = (true, true);
                    continue;
                }
                "fi" | "done" | "esac" => ended = self.leave(Kind::Compound).or(ended),
                "{" => self.enter(Kind::Brace, self.function),
                "}" => ended = self.leave(Kind::Brace).or(ended),
                "!" => negated = true,
                "then" | "else" | "elif" | "do" => {}
                _ => break,
            }
            (self.function, named) = (false, false);
            skipped += 1;
        }
        words.drain(..skipped);
        let harmless = !negated
            && !self.closed
            && is_harmless(&words)
            && (ended.is_none() || !words.is_empty());
        if let Some(frame) = ended
            && (pipe || frame.piped)
        {
            self.isolate(frame.start);
        }
        if !words.is_empty() {
            let isolated = u32::from(pipe || self.piped);
            self.segments.push(self.segment);
            self.out.push(Command {
                words,
                guard: if self.conditions > 0 {
                    Guard::Maybe
                } else {
                    guard
                },
                opens: isolated,
                closes: isolated,
                heredoc: None,
            });
        }
        self.segment += 1;
        self.function = named && separator == Separator::Line;
        self.mark(separator, harmless, blank);
    }

    /// What a mark means for the next command.
    fn mark(&mut self, separator: Separator, harmless: bool, blank: bool) {
        let opened = std::mem::replace(&mut self.opened, separator == Separator::Open);
        match separator {
            Separator::Open => self.enter(Kind::Parenthesis, false),
            Separator::Close => {
                if let Some(frame) = self.leave(Kind::Parenthesis) {
                    self.isolate(frame.start);
                    self.function = opened && blank;
                }
            }
            Separator::Background => self.isolate(self.list),
            _ => {}
        }
        self.closed = separator == Separator::Close;
        self.guard = match (separator, self.guard) {
            (Separator::Or, _) => Guard::Maybe,
            (Separator::And, Guard::Sure) if !harmless => {
                self.chain += 1;
                Guard::Chain(self.chain)
            }
            (Separator::And | Separator::Open | Separator::Pipe | Separator::Close, guard) => guard,
            _ => Guard::Sure,
        };
        self.piped = separator == Separator::Pipe;
        if matches!(separator, Separator::Line | Separator::Background) {
            self.list = self.out.len();
        }
    }

    fn enter(&mut self, kind: Kind, conditional: bool) {
        let conditional = conditional || self.guard != Guard::Sure;
        self.conditions += usize::from(conditional);
        self.open.push(Frame {
            kind,
            start: self.out.len(),
            piped: std::mem::take(&mut self.piped),
            conditional,
            list: std::mem::replace(&mut self.list, self.out.len()),
        });
    }

    /// Leaves the innermost construct, if it is of this kind. Keywords out of place say nothing.
    fn leave(&mut self, kind: Kind) -> Option<Frame> {
        let frame = self.open.pop_if(|frame| frame.kind == kind)?;
        self.conditions -= usize::from(frame.conditional);
        self.list = frame.list;
        Some(frame)
    }

    /// Everything since `start` ran in a process of its own.
    fn isolate(&mut self, start: usize) {
        if start < self.out.len() {
            self.out[start].opens += 1;
            if let Some(last) = self.out.last_mut() {
                last.closes += 1;
            }
        }
    }

    /// The commands, each with the heredoc that it reads.
    fn finish(mut self, heredocs: &[Heredoc]) -> Vec<Command> {
        let mut at = 0;
        for heredoc in heredocs {
            while self.segments.get(at).is_some_and(|s| *s < heredoc.segment) {
                at += 1;
            }
            if self.segments.get(at) == Some(&heredoc.segment) {
                self.out[at].heredoc = Some((heredoc.start, heredoc.end));
            }
        }
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plain(script: &str) -> Vec<Vec<String>> {
        let text = |w: &Word| {
            w.plain()
                .map_or_else(|| format!("{:?}", w.pieces), str::to_owned)
        };
        commands(script)
            .iter()
            .map(|c| c.words.iter().map(text).collect())
            .collect()
    }

    #[test]
    fn comments_heredocs_and_redirections_are_no_words() {
        let script = "# export A=1\nexport B=2 # C=3\ncat > /tmp/x <<'EOF' 2>&1\nexport D=4\nEOF\necho done >&2; x\n";
        assert_eq!(
            plain(script),
            [
                vec!["export", "B=2"],
                vec!["cat"],
                vec!["echo", "done"],
                vec!["x"]
            ]
        );
    }

    #[test]
    fn quotes_and_continuations() {
        let script =
            "python3 -m x \\\n  --a '{\"k\": \"v\"}' \\\n  --b \"q\\\"q\" --c=a\\ b \\ --d";
        assert_eq!(
            plain(script),
            [vec![
                "python3",
                "-m",
                "x",
                "--a",
                "{\"k\": \"v\"}",
                "--b",
                "q\"q",
                "--c=a b",
                "--d"
            ]]
        );
    }

    #[test]
    fn references() {
        let words = &commands("a $X ${Y:-d} $(Z) \"$(cmd \")\" x)\" `c` $1 100$")[0].words;
        assert_eq!(words[3].pieces, [Piece::Kubernetes("Z".into())]);
        for computed in &words[4..7] {
            assert_eq!(computed.pieces, [Piece::Computed]);
        }
        assert_eq!(words[7].plain(), Some("100$"));
        assert_eq!(words.len(), 8);
    }

    /// The commands that begin with `export`, by the name that they set.
    fn exports(script: &str) -> Vec<(String, Command)> {
        commands(script)
            .into_iter()
            .filter(|c| c.words[0].plain() == Some("export"))
            .map(|c| (c.words[1].plain().unwrap_or_default().to_owned(), c))
            .collect()
    }

    #[test]
    fn what_may_not_run_is_conditional() {
        let script = "export A\nif [ x ]; then\n export b\nfi\nexport C\n[ x ] && export d\nf() {\n export e\n}\n\
                      ulimit -l unlimited && export F\nfalse || export g\nexport H\nfunction f { export i; }\nexport J\n\
                      function f() {\nexport k\n}\nexport L\ng()\n{\nexport m\n}\nexport N; case $x in a) export o;; *) export p;; \
                      esac; export Q; false && { export r; export s; }; export T; ! true && export u; (false) && export v\n\
                      { export W; }; X=$(false) && export y; nvidia-smi -L && export z; cd / && export A";
        for (name, command) in exports(script) {
            let sure = command.guard == Guard::Sure;
            assert_eq!(
                sure,
                name.chars().all(char::is_uppercase),
                "{name}: {command:?}"
            );
        }
        let chain = exports("a && export A && export B; b && export C");
        assert_eq!(chain[0].1.guard, chain[1].1.guard);
        assert_ne!(chain[1].1.guard, chain[2].1.guard);
    }

    #[test]
    fn processes_of_their_own() {
        let script = "export A\n(export b; export c); export D\nexport e | cat\ncat | export f; export G\nexport h & export I\n\
                      { export j; export k; } | cat; { export L; }\nx | while read y; do export m; done; export N\n\
                      export o && x & export P; if x; then export q; fi & export R; ( (export s) ); export T >x 2>&1\n\
                      while x; do export U; done < f";
        let mut depth = 0;
        for command in commands(script) {
            depth += command.opens;
            if let Some(name) = command.words.get(1).and_then(Word::plain)
                && command.words[0].plain() == Some("export")
            {
                assert_eq!(depth == 0, name.chars().all(char::is_uppercase), "{name}");
            }
            depth -= command.closes;
        }
        assert_eq!(depth, 0);
    }

    #[test]
    fn heredocs_belong_to_their_commands() {
        let script = "cat <<A; bash <<'B' && x\na\nA\nb\nB\ny\n";
        let found: Vec<_> = commands(script)
            .iter()
            .map(|c| {
                (
                    c.words[0].plain().unwrap().to_owned(),
                    c.heredoc.map(|(a, b)| &script[a..b]),
                )
            })
            .collect();
        let expected = [
            ("cat", Some("a\n")),
            ("bash", Some("b\n")),
            ("x", None),
            ("y", None),
        ];
        assert_eq!(found, expected.map(|(name, text)| (name.to_owned(), text)));
    }

    proptest! {
        #[test]
        fn any_script_ends(script in "\\PC{0,120}|[a-zA-Z=$(){}`'\"\\\\<>&|;# \n]{0,120}") {
            let mut depth = 0i64;
            for command in commands(&script) {
                depth += i64::from(command.opens);
                prop_assert!(depth >= i64::from(command.closes));
                depth -= i64::from(command.closes);
                if let Some((start, end)) = command.heredoc {
                    prop_assert!(script.get(start..end).is_some());
                }
                for word in &command.words {
                    prop_assert!(script.get(word.start..word.end).is_some());
                }
            }
            prop_assert_eq!(depth, 0);
            argument(&script);
        }
    }
}
