//! Shell text to commands, as far as a manifest can say what a start script sets.
//!
//! No shell: nothing runs, nothing is looked up. It knows quotes, comments, heredocs, continuations, references and
//! substitutions, because a setting in a comment or in an `echo` is no setting.

/// A part of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    /// Written out.
    Text(String),
    /// `$NAME`, `${NAME}`, `${NAME:-default}`.
    Variable {
        /// The name.
        name: String,
        /// The text after `:-`.
        default: Option<String>,
    },
    /// `$(NAME)`: Kubernetes replaces it before the shell runs, if the container has the variable.
    Kubernetes(String),
    /// `$(cmd)`, backquotes, arithmetic, and references that edit the value.
    Computed,
}

/// A word of a command.
#[derive(Debug, Clone, Default)]
pub(super) struct Word {
    /// Its parts, quotes removed.
    pub pieces: Vec<Piece>,
    /// First byte in the script.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Word {
    /// The word when it is written out in full.
    pub fn plain(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [] => Some(""),
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The written-out text that the word begins with.
    pub fn head(&self) -> &str {
        match self.pieces.first() {
            Some(Piece::Text(text)) => text,
            _ => "",
        }
    }

    /// `NAME=rest`: the name, and the word without it.
    pub fn assignment(&self) -> Option<(&str, Word)> {
        let (name, rest) = self.head().split_once('=')?;
        if !is_name(name) {
            return None;
        }
        let mut pieces = Vec::with_capacity(self.pieces.len());
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        pieces.extend_from_slice(&self.pieces[1..]);
        Some((name, Word { pieces, ..*self }))
    }
}

/// One simple command.
#[derive(Debug, Clone, Default)]
pub(super) struct Command {
    /// Its words, assignments included, keywords and redirections left out.
    pub words: Vec<Word>,
    /// It may not run: inside `if`, `case`, a loop or a function, or after a test or `||`.
    pub conditional: bool,
}

/// Could `text` be the name of a variable?
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.as_bytes()[0].is_ascii_digit()
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// The commands of a script, in order.
pub(super) fn commands(script: &str) -> Vec<Command> {
    let mut lexer = Lexer {
        text: script,
        at: 0,
        heredocs: Vec::new(),
    };
    let mut out = Vec::new();
    let mut nesting = Nesting::default();
    let mut words = Vec::new();
    loop {
        match lexer.token() {
            Token::Word(word) => words.push(word),
            Token::Break(separator) => {
                nesting.close(&mut out, std::mem::take(&mut words), separator);
                if separator == Separator::End {
                    return out;
                }
            }
        }
    }
}

/// One word per argument of an exec array: no shell, so only Kubernetes' own `$(NAME)` is a reference.
pub(super) fn argument(text: &str) -> Word {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("$(") {
        let Some(close) = rest[at..].find(')') else {
            break;
        };
        let name = &rest[at + 2..at + close];
        let escaped = rest[..at].ends_with('$');
        if is_name(name) && !escaped {
            pieces.push(Piece::Text(rest[..at].to_owned()));
            pieces.push(Piece::Kubernetes(name.to_owned()));
        } else {
            pieces.push(Piece::Text(rest[..at + close + 1].to_owned()));
        }
        rest = &rest[at + close + 1..];
    }
    pieces.push(Piece::Text(rest.to_owned()));
    Word {
        pieces: join(pieces),
        start: 0,
        end: text.len(),
    }
}

/// Neighbouring texts become one, empty ones go away.
fn join(pieces: Vec<Piece>) -> Vec<Piece> {
    let mut out: Vec<Piece> = Vec::with_capacity(pieces.len());
    for piece in pieces {
        match (out.last_mut(), piece) {
            (Some(Piece::Text(before)), Piece::Text(text)) => before.push_str(&text),
            (_, Piece::Text(text)) if text.is_empty() => {}
            (_, piece) => out.push(piece),
        }
    }
    out
}

/// Which commands may not run.
#[derive(Default)]
struct Nesting {
    depth: usize,
    /// The next command runs only if the last one said so.
    guarded: bool,
    /// A function's `(` and `)` were just seen.
    function: bool,
}

impl Nesting {
    fn close(&mut self, out: &mut Vec<Command>, mut words: Vec<Word>, separator: Separator) {
        while let Some(first) = words.first().and_then(Word::plain) {
            match first {
                "if" | "while" | "until" | "for" | "case" | "select" | "function" => {
                    self.depth += 1;
                    if matches!(first, "for" | "case" | "select" | "function") {
                        words.clear();
                        break;
                    }
                }
                "fi" | "done" | "esac" => self.depth = self.depth.saturating_sub(1),
                "{" if self.function => self.depth += 1,
                "}" => self.depth = self.depth.saturating_sub(1),
                "then" | "else" | "elif" | "do" | "!" | "{" => {}
                _ => break,
            }
            self.function = false;
            words.remove(0);
        }
        let test = matches!(
            words.first().and_then(Word::plain),
            Some("[" | "[[" | "test" | "grep" | "command" | "which")
        );
        let was_guarded = self.guarded;
        self.guarded = match separator {
            Separator::Or => true,
            Separator::And => was_guarded || test,
            _ => false,
        };
        if separator == Separator::Close {
            self.function = words.is_empty();
        }
        if !words.is_empty() {
            out.push(Command {
                words,
                conditional: self.depth > 0 || was_guarded,
            });
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Separator {
    Line,
    And,
    Or,
    Open,
    Close,
    End,
}

enum Token {
    Word(Word),
    Break(Separator),
}

struct Lexer<'t> {
    text: &'t str,
    at: usize,
    /// Delimiters of heredocs whose bodies begin on the next line.
    heredocs: Vec<String>,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip(&mut self, c: char) {
        self.at += c.len_utf8();
    }

    fn token(&mut self) -> Token {
        loop {
            let Some(c) = self.peek() else {
                return Token::Break(Separator::End);
            };
            match c {
                ' ' | '\t' | '\r' => self.skip(c),
                '\\' => {
                    // A continuation; also `\ ` as a folded scalar makes of one, where the shell would see a blank.
                    match self.rest().chars().nth(1) {
                        Some(n) if n.is_whitespace() => self.at += 1 + n.len_utf8(),
                        None => self.at += 1,
                        Some(_) => return Token::Word(self.word()),
                    }
                }
                '#' => self.at += self.rest().find('\n').unwrap_or(self.rest().len()),
                '\n' => {
                    self.skip(c);
                    self.skip_heredocs();
                    return Token::Break(Separator::Line);
                }
                ';' => return self.separate(c, Separator::Line),
                '&' if self.rest().starts_with("&>") => {
                    self.at += 2;
                    self.redirect();
                }
                '&' => return self.separate(c, Separator::And),
                '|' => return self.separate(c, Separator::Or),
                '(' => return self.separate(c, Separator::Open),
                ')' => return self.separate(c, Separator::Close),
                '<' | '>' => self.redirect(),
                _ => {
                    let word = self.word();
                    let number = word
                        .plain()
                        .is_some_and(|w| !w.is_empty() && w.bytes().all(|b| b.is_ascii_digit()));
                    // `2>` and its like: the digit belongs to the redirection.
                    if !(number && self.rest().starts_with(['<', '>'])) {
                        return Token::Word(word);
                    }
                }
            }
        }
    }

    /// `;`, `&` and `|` alone end a command; doubled, `&` and `|` also guard the next one.
    fn separate(&mut self, c: char, doubled: Separator) -> Token {
        self.skip(c);
        let twice = self.peek() == Some(c) && !matches!(c, '(' | ')');
        if twice {
            self.skip(c);
        }
        let single = matches!(c, '&' | '|') && !twice;
        Token::Break(if single { Separator::Line } else { doubled })
    }

    fn redirect(&mut self) {
        let operator =
            self.rest().len() - self.rest().trim_start_matches(['<', '>', '&', '|']).len();
        let symbol = &self.text[self.at..self.at + operator];
        let heredoc = symbol == "<<";
        self.at += operator;
        if heredoc && self.peek() == Some('-') {
            self.at += 1;
        }
        while matches!(self.peek(), Some(' ' | '\t')) {
            self.at += 1;
        }
        // `<(cmd)` and `>(cmd)` are read as a subshell.
        if matches!(self.peek(), None | Some('\n' | '(' | ')' | ';')) {
            return;
        }
        let before = self.at;
        let target = self.word();
        if heredoc {
            let delimiter = target
                .plain()
                .map_or_else(|| self.text[before..self.at].to_owned(), str::to_owned);
            self.heredocs.push(delimiter);
        }
        if self.at == before {
            self.at += self.peek().map_or(0, char::len_utf8);
        }
    }

    fn skip_heredocs(&mut self) {
        for delimiter in std::mem::take(&mut self.heredocs) {
            loop {
                let rest = self.rest();
                if rest.is_empty() {
                    return;
                }
                let line = rest.split('\n').next().unwrap_or_default();
                let ends = line.trim() == delimiter;
                self.at += (line.len() + 1).min(rest.len());
                if ends {
                    break;
                }
            }
        }
    }

    fn word(&mut self) -> Word {
        let start = self.at;
        let mut pieces = Vec::new();
        let mut text = String::new();
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>' => break,
                '\'' => {
                    let body = &self.rest()[1..];
                    let end = body.find('\'').unwrap_or(body.len());
                    text.push_str(&body[..end]);
                    self.at += (end + 2).min(self.rest().len());
                }
                '"' => {
                    self.skip(c);
                    self.double_quoted(&mut pieces, &mut text);
                }
                '\\' => {
                    self.skip(c);
                    if let Some(next) = self.peek() {
                        self.skip(next);
                        if next != '\n' {
                            text.push(next);
                        }
                    }
                }
                '$' | '`' => self.expansion(&mut pieces, &mut text),
                _ => {
                    self.skip(c);
                    text.push(c);
                }
            }
        }
        pieces.push(Piece::Text(text));
        Word {
            pieces: join(pieces),
            start,
            end: self.at,
        }
    }

    fn double_quoted(&mut self, pieces: &mut Vec<Piece>, text: &mut String) {
        while let Some(c) = self.peek() {
            match c {
                '"' => {
                    self.skip(c);
                    return;
                }
                '\\' => {
                    self.skip(c);
                    if let Some(next) = self.peek() {
                        self.skip(next);
                        if !matches!(next, '"' | '\\' | '$' | '`' | '\n') {
                            text.push('\\');
                        }
                        if next != '\n' {
                            text.push(next);
                        }
                    }
                }
                '$' | '`' => self.expansion(pieces, text),
                _ => {
                    self.skip(c);
                    text.push(c);
                }
            }
        }
    }

    /// What begins with `$` or a backquote.
    fn expansion(&mut self, pieces: &mut Vec<Piece>, text: &mut String) {
        let rest = &self.text[self.at..];
        let (piece, length) = expansion_at(rest);
        self.at += length;
        match piece {
            Some(piece) => {
                pieces.push(Piece::Text(std::mem::take(text)));
                pieces.push(piece);
            }
            None => text.push_str(&rest[..length]),
        }
    }
}

/// The piece at the beginning of `rest`, and its length in bytes. No piece: a lone `$`.
fn expansion_at(rest: &str) -> (Option<Piece>, usize) {
    if let Some(body) = rest.strip_prefix('`') {
        return (
            Some(Piece::Computed),
            body.find('`').map_or(rest.len(), |n| n + 2),
        );
    }
    if rest.starts_with("$(") {
        let length = 1 + parenthesised(&rest[1..]);
        let inner = rest.get(2..length.saturating_sub(1)).unwrap_or_default();
        let piece = if is_name(inner) {
            Piece::Kubernetes(inner.to_owned())
        } else {
            Piece::Computed
        };
        return (Some(piece), length);
    }
    if let Some(body) = rest.strip_prefix("${") {
        let Some(close) = body.find('}') else {
            return (Some(Piece::Computed), rest.len());
        };
        let inner = &body[..close];
        let name_end = inner
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .unwrap_or(inner.len());
        let (name, operator) = inner.split_at(name_end);
        let default = [":-", ":=", "-", "="]
            .iter()
            .find_map(|o| operator.strip_prefix(o));
        let known = is_name(name)
            && (operator.is_empty() || default.is_some() || operator.starts_with(":?"));
        let piece = if known {
            Piece::Variable {
                name: name.to_owned(),
                default: default.map(|d| d.trim_matches('"').to_owned()),
            }
        } else {
            Piece::Computed
        };
        return (Some(piece), close + 3);
    }
    let name: &str = &rest[1..];
    let length = name
        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .unwrap_or(name.len());
    if is_name(&name[..length]) {
        return (
            Some(Piece::Variable {
                name: name[..length].to_owned(),
                default: None,
            }),
            length + 1,
        );
    }
    match name.chars().next() {
        Some(c) if c.is_ascii_digit() || matches!(c, '@' | '*' | '#' | '?' | '$' | '!' | '-') => {
            (Some(Piece::Computed), 2)
        }
        _ => (None, 1),
    }
}

/// Length of a `(...)` with everything in it, quotes respected.
fn parenthesised(text: &str) -> usize {
    let (mut depth, mut quote, mut escaped) = (0usize, None, false);
    for (at, c) in text.char_indices() {
        if escaped {
            escaped = false;
            continue;
        }
        match (quote, c) {
            (None | Some('"'), '\\') => escaped = true,
            (None, '\'' | '"') => quote = Some(c),
            (Some(q), c) if q == c => quote = None,
            (None, '(') => depth += 1,
            (None, ')') => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    text.len()
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
        let of = |n: usize| words[n].pieces[0].clone();
        assert_eq!(
            of(1),
            Piece::Variable {
                name: "X".into(),
                default: None
            }
        );
        assert_eq!(
            of(2),
            Piece::Variable {
                name: "Y".into(),
                default: Some("d".into())
            }
        );
        assert_eq!(of(3), Piece::Kubernetes("Z".into()));
        assert_eq!(
            (of(4), of(5), of(6)),
            (Piece::Computed, Piece::Computed, Piece::Computed)
        );
        assert_eq!(words[7].plain(), Some("100$"));
        assert_eq!(words.len(), 8);
    }

    #[test]
    fn what_may_not_run_is_conditional() {
        let script = "export A=1\nif [ x ]; then\n export B=1\nfi\nexport C=1\n[ x ] && export D=1\nf() {\n export E=1\n}\n\
                      ulimit -l unlimited && export F=1\nfalse || export G=1\n";
        let conditional: Vec<bool> = commands(script)
            .iter()
            .filter(|c| c.words[0].plain() == Some("export"))
            .map(|c| c.conditional)
            .collect();
        assert_eq!(conditional, [false, true, false, true, true, false, true]);
    }

    proptest! {
        #[test]
        fn any_script_ends(script in "\\PC{0,120}|[a-zA-Z=$(){}`'\"\\\\<>&|;# \n]{0,120}") {
            for command in commands(&script) {
                for word in &command.words {
                    prop_assert!(script.get(word.start..word.end).is_some());
                }
            }
            argument(&script);
        }
    }
}
