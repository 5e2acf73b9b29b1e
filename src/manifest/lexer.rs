//! Shell text to words and the marks between them: quotes, comments, heredocs, continuations, references.
//!
//! Kubernetes replaces `$(NAME)` and `$$` before a shell sees the text, in quotes as well, so the lexer knows them too.
//! Every function moves forward only: the time is linear in the length of the text.

use super::word::{Default, Piece, Word, is_name, join, kubernetes, reference};

/// What stands between commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Separator {
    /// A line break or `;`.
    Line,
    /// `&`.
    Background,
    /// `|`.
    Pipe,
    /// `&&`.
    And,
    /// `||`.
    Or,
    /// `(`.
    Open,
    /// `)`.
    Close,
    /// The end of the text.
    End,
}

/// One step of the lexer.
pub(super) enum Token {
    /// A word.
    Word(Word),
    /// The end of a command.
    Break(Separator),
}

/// A text that is given to a command as its input.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heredoc {
    /// How many commands ended before it began.
    pub segment: usize,
    /// First byte of the text.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// Reads a script from its beginning to its end.
pub(super) struct Lexer<'t> {
    text: &'t str,
    at: usize,
    segment: usize,
    /// Delimiters of heredocs whose bodies begin on the next line.
    pending: Vec<(String, usize)>,
    /// All heredocs so far, in the order of their commands.
    pub heredocs: Vec<Heredoc>,
}

impl<'t> Lexer<'t> {
    /// At the beginning of a text.
    pub fn new(text: &'t str) -> Self {
        Self {
            text,
            at: 0,
            segment: 0,
            pending: Vec::new(),
            heredocs: Vec::new(),
        }
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip(&mut self, c: char) {
        self.at += c.len_utf8();
    }

    /// The next word or mark.
    pub fn token(&mut self) -> Token {
        loop {
            let Some(c) = self.peek() else {
                return self.separate(0, Separator::End);
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
                    self.read_heredocs();
                    return self.separate(0, Separator::Line);
                }
                ';' => {
                    let length = if self.rest().starts_with(";;") { 2 } else { 1 };
                    return self.separate(length, Separator::Line);
                }
                '&' if self.rest().starts_with("&>") => {
                    self.at += 2;
                    self.redirect();
                }
                '&' if self.rest().starts_with("&&") => return self.separate(2, Separator::And),
                '&' => return self.separate(1, Separator::Background),
                '|' if self.rest().starts_with("||") => return self.separate(2, Separator::Or),
                '|' if self.rest().starts_with("|&") => return self.separate(2, Separator::Pipe),
                '|' => return self.separate(1, Separator::Pipe),
                '(' => return self.separate(1, Separator::Open),
                ')' => return self.separate(1, Separator::Close),
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

    fn separate(&mut self, length: usize, separator: Separator) -> Token {
        self.at += length;
        self.segment += 1;
        Token::Break(separator)
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
            self.pending.push((delimiter, self.segment));
        }
        if self.at == before {
            self.at += self.peek().map_or(0, char::len_utf8);
        }
    }

    fn read_heredocs(&mut self) {
        for (delimiter, segment) in std::mem::take(&mut self.pending) {
            let start = self.at;
            loop {
                let rest = self.rest();
                let line = rest.split('\n').next().unwrap_or_default();
                let ends = rest.is_empty() || line.trim() == delimiter;
                let end = self.at;
                self.at += (line.len() + 1).min(rest.len());
                if ends {
                    self.heredocs.push(Heredoc {
                        segment,
                        start,
                        end,
                    });
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
                '(' if pieces.is_empty() && text.ends_with('=') => {
                    self.at += parenthesised(self.rest()).unwrap_or(self.rest().len());
                    add(&mut pieces, &mut text, Piece::Computed);
                }
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>' => break,
                '\'' => self.single_quoted(&mut pieces, &mut text),
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
                '$' if self.rest().starts_with("$'") => self.ansi_quoted(&mut pieces, &mut text),
                '$' if self.rest().starts_with("$\"") => self.at += 1,
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

    /// In single quotes the shell replaces nothing, and Kubernetes does.
    fn single_quoted(&mut self, pieces: &mut Vec<Piece>, text: &mut String) {
        let body = &self.rest()[1..];
        let Some(end) = body.find('\'') else {
            return self.never_closed(pieces, text);
        };
        let body = &body[..end];
        if body.contains('$') {
            pieces.push(Piece::Text(std::mem::take(text)));
            pieces.extend(kubernetes(body));
        } else {
            text.push_str(body);
        }
        self.at += end + 2;
    }

    /// `$'..'`: with escapes of C, which are not followed.
    fn ansi_quoted(&mut self, pieces: &mut Vec<Piece>, text: &mut String) {
        let body = &self.rest()[2..];
        let mut escaped = false;
        let end = body.find(|c: char| {
            let ends = c == '\'' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        let Some(end) = end else {
            return self.never_closed(pieces, text);
        };
        if body[..end].contains(['\\', '$']) {
            add(pieces, text, Piece::Computed);
        } else {
            text.push_str(&body[..end]);
        }
        self.at += end + 3;
    }

    fn double_quoted(&mut self, pieces: &mut Vec<Piece>, text: &mut String) {
        pieces.push(Piece::Text(std::mem::take(text)));
        let before = pieces.len();
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
        pieces.truncate(before);
        text.clear();
        self.never_closed(pieces, text);
    }

    /// A quote without its end holds the rest of the script, other commands included: no part of it is a value.
    fn never_closed(&mut self, pieces: &mut Vec<Piece>, text: &mut String) {
        add(pieces, text, Piece::Computed);
        self.at = self.text.len();
    }

    /// What begins with `$` or a backquote.
    fn expansion(&mut self, pieces: &mut Vec<Piece>, text: &mut String) {
        let rest = self.rest();
        let (piece, length) = expansion_at(rest);
        self.at += length;
        match piece {
            Some(piece) => add(pieces, text, piece),
            None => text.push_str(&rest[..length]),
        }
    }
}

fn add(pieces: &mut Vec<Piece>, text: &mut String, piece: Piece) {
    pieces.push(Piece::Text(std::mem::take(text)));
    pieces.push(piece);
}

/// The piece at the beginning of `rest`, and its length in bytes. No piece: a lone `$`.
fn expansion_at(rest: &str) -> (Option<Piece>, usize) {
    if let Some(body) = rest.strip_prefix('`') {
        let length = body.find('`').map_or(rest.len(), |n| n + 2);
        return (Some(Piece::Computed), length);
    }
    if let Some((name, length)) = reference(rest) {
        return (Some(Piece::Kubernetes(name.to_owned())), length);
    }
    // Kubernetes makes one dollar of two, and the shell then reads what is left.
    if let Some(body) = rest.strip_prefix('$').filter(|body| body.starts_with('$')) {
        if body.starts_with("$$") {
            let pair = if body.starts_with("$$$") { 2 } else { 1 };
            let tail = reference(&body[1..]).map_or(pair, |(_, length)| length);
            return (Some(Piece::Computed), 2 + tail);
        }
        let (piece, length) = shell_expansion(body);
        return (piece.or(Some(Piece::Text("$".to_owned()))), length + 1);
    }
    shell_expansion(rest)
}

/// As the shell reads it.
fn shell_expansion(rest: &str) -> (Option<Piece>, usize) {
    if rest.starts_with("$(") {
        let length = parenthesised(&rest[1..]).map_or(rest.len(), |n| n + 1);
        return (Some(Piece::Computed), length);
    }
    if let Some(body) = rest.strip_prefix("${") {
        return match braced(body) {
            Some(close) => (Some(in_braces(&body[..close])), close + 3),
            None => (Some(Piece::Computed), rest.len()),
        };
    }
    let name: &str = &rest[1..];
    let length = name
        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .unwrap_or(name.len());
    if is_name(&name[..length]) {
        let piece = Piece::Variable {
            name: name[..length].to_owned(),
            default: None,
        };
        return (Some(piece), length + 1);
    }
    match name.chars().next() {
        Some(c) if c.is_ascii_digit() || matches!(c, '@' | '*' | '#' | '?' | '$' | '!' | '-') => {
            (Some(Piece::Computed), 2)
        }
        _ => (None, 1),
    }
}

/// Where the `}` of a `${` stands, with other `${..}` inside.
fn braced(body: &str) -> Option<usize> {
    let (mut depth, mut dollar, mut escaped) = (0usize, false, false);
    for (at, c) in body.char_indices() {
        if !escaped {
            match c {
                '{' if dollar => depth += 1,
                '}' if depth == 0 => return Some(at),
                '}' => depth -= 1,
                _ => {}
            }
        }
        escaped = c == '\\' && !escaped;
        dollar = c == '$';
    }
    None
}

/// `NAME`, `NAME:-default` and its like; edits of the value are not followed.
fn in_braces(inner: &str) -> Piece {
    let name_end = inner
        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .unwrap_or(inner.len());
    let (name, operator) = inner.split_at(name_end);
    let (replaces_empty, rest) = operator
        .strip_prefix(':')
        .map_or((false, operator), |rest| (true, rest));
    let default = rest.strip_prefix(['-', '=']).map(|text| Default {
        text: unquoted(text),
        replaces_empty,
        assigns: rest.starts_with('='),
    });
    if !is_name(name) || !(operator.is_empty() || default.is_some() || rest.starts_with('?')) {
        return Piece::Computed;
    }
    Piece::Variable {
        name: name.to_owned(),
        default,
    }
}

/// The text of a default; None where only a shell could say.
fn unquoted(text: &str) -> Option<String> {
    let bare = ['"', '\'']
        .iter()
        .find_map(|q| text.strip_prefix(*q)?.strip_suffix(*q))
        .unwrap_or(text);
    (!bare.contains(['$', '`', '\\', '"', '\''])).then(|| bare.to_owned())
}

/// Length of a `(...)` with everything in it, quotes respected.
fn parenthesised(text: &str) -> Option<usize> {
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
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str) -> Vec<Piece> {
        match Lexer::new(text).token() {
            Token::Word(word) => word.pieces,
            Token::Break(_) => Vec::new(),
        }
    }

    fn text(text: &str) -> Piece {
        Piece::Text(text.into())
    }

    fn variable(name: &str) -> Piece {
        Piece::Variable {
            name: name.into(),
            default: None,
        }
    }

    #[test]
    fn kubernetes_reads_first_and_reads_quotes_as_well() {
        let a = || Piece::Kubernetes("A".into());
        assert_eq!(kubernetes("x$(A)y"), [text("x"), a(), text("y")]);
        assert_eq!(kubernetes("$$(A)"), [text("$(A)")]);
        assert_eq!(kubernetes("$$$(A)"), [text("$"), a()]);
        assert_eq!(kubernetes("$(a b) $(A $"), [text("$(a b) $(A $")]);
        assert_eq!(pieces("'x$(A)'"), [text("x"), a()]);
        assert_eq!(pieces("'$$(A)'"), [text("$(A)")]);
        assert_eq!(pieces("'$(a b)$A'"), [text("$(a b)$A")]);
        // The shell sees a substitution, a variable, and the number of its process.
        assert_eq!(pieces("$$(A)"), [Piece::Computed]);
        assert_eq!(pieces("$$A"), [variable("A")]);
        assert_eq!(pieces("$$$(A)x"), [Piece::Computed, text("x")]);
        assert_eq!(pieces("$$$$"), [Piece::Computed]);
    }

    #[test]
    fn what_never_closes_is_no_value() {
        for script in [
            "a'b; c", "a\"b; c", "a`b; c", "a$(b; c", "a${b; c", "a$'b; c", "a=(b; c",
        ] {
            let found = pieces(script);
            assert_eq!(found.last(), Some(&Piece::Computed), "{script}");
            assert!(!format!("{found:?}").contains("; c"), "{script}");
            assert!(format!("{found:?}").contains('a'), "{script}");
        }
    }

    #[test]
    fn quotes_with_a_dollar() {
        assert_eq!(pieces("$'tcp'"), [text("tcp")]);
        assert_eq!(pieces("$'t\\'p'x"), [Piece::Computed, text("x")]);
        assert_eq!(pieces("$\"tcp\""), [text("tcp")]);
        assert_eq!(pieces("\"$'x'\""), [text("$'x'")]);
        assert_eq!(pieces("A=(x y)z"), [text("A="), Piece::Computed, text("z")]);
    }

    #[test]
    fn defaults() {
        let of = |script: &str| match &pieces(script)[..] {
            [
                Piece::Variable {
                    default: Some(d), ..
                },
            ] => Some((d.text.clone(), d.replaces_empty, d.assigns)),
            _ => None,
        };
        let some = |t: &str| Some(t.to_owned());
        assert_eq!(of("${A:-x}"), Some((some("x"), true, false)));
        assert_eq!(of("${A-x}"), Some((some("x"), false, false)));
        assert_eq!(of("${A:=\"x\"}"), Some((some("x"), true, true)));
        assert_eq!(of("${A=x}"), Some((some("x"), false, true)));
        assert_eq!(of("${A:-${B:-x}}"), Some((None, true, false)));
        assert_eq!(pieces("${A?x}${A:?x}"), [variable("A"), variable("A")]);
        assert_eq!(pieces("${A:+x}${#A}${A%x}").len(), 3);
    }

    #[test]
    fn a_word_is_a_script_again() {
        let script = "a${B:=c}d${E-$(f)}$G$(H)$(i j)";
        let Token::Word(word) = Lexer::new(script).token() else {
            panic!("no word");
        };
        assert_eq!(word.script(), "a${B:=c}d${E-$(..)}${G}$(H)$(..)");
    }
}
