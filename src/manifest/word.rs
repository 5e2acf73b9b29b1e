//! Words of a command line: what is written out in them, and what refers to variables.

/// A part of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    /// Written out.
    Text(String),
    /// `$NAME`, `${NAME}`, `${NAME:-default}`.
    Variable {
        /// The name.
        name: String,
        /// What stands for a variable that is not set.
        default: Option<Default>,
    },
    /// `$(NAME)`: Kubernetes replaces it before the shell runs, if the container has the variable.
    Kubernetes(String),
    /// `$(cmd)`, backquotes, arithmetic, arrays, references that edit the value, and quotes that never close.
    Computed,
}

/// What `-`, `=`, `:-` and `:=` say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Default {
    /// The text; None where it is made of other references.
    pub text: Option<String>,
    /// With the colon: an empty value is replaced as well.
    pub replaces_empty: bool,
    /// `=`: the variable is set to it.
    pub assigns: bool,
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

/// `NAME=value` or `NAME+=value`.
#[derive(Debug)]
pub(super) struct Assignment<'w> {
    /// The name.
    pub name: &'w str,
    /// What stands behind the sign.
    pub value: Word,
    /// `+=`: put behind what is there.
    pub appends: bool,
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

    /// The word as an assignment.
    pub fn assignment(&self) -> Option<Assignment<'_>> {
        let (name, rest) = self.head().split_once('=')?;
        let (name, appends) = name.strip_suffix('+').map_or((name, false), |n| (n, true));
        if !is_name(name) {
            return None;
        }
        let mut pieces = Vec::with_capacity(self.pieces.len());
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        pieces.extend_from_slice(&self.pieces[1..]);
        let value = Word { pieces, ..*self };
        Some(Assignment {
            name,
            value,
            appends,
        })
    }

    /// The word as the text of a script: references stay references, so that what they hold is looked up in there.
    pub fn script(&self) -> String {
        let mut out = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Kubernetes(name) => out.extend(["$(", name, ")"]),
                Piece::Computed => out.push_str("$(..)"),
                Piece::Variable { name, default } => {
                    out.extend(["${", name]);
                    if let Some(default) = default {
                        out.push_str(if default.replaces_empty { ":" } else { "" });
                        out.push_str(if default.assigns { "=" } else { "-" });
                        out.push_str(default.text.as_deref().unwrap_or("$(..)"));
                    }
                    out.push('}');
                }
            }
        }
        out
    }
}

/// Could `text` be the name of a variable?
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.as_bytes()[0].is_ascii_digit()
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// A text as Kubernetes reads it: `$(NAME)` is a reference, `$$` is a dollar, anything else is itself.
/// <https://github.com/kubernetes/kubernetes/blob/v1.32.0/third_party/forked/golang/expansion/expand.go>
pub(super) fn kubernetes(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = if rest.starts_with("$$") {
            plain.push('$');
            2
        } else if let Some((name, length)) = reference(rest) {
            pieces.push(Piece::Text(std::mem::take(&mut plain)));
            pieces.push(Piece::Kubernetes(name.to_owned()));
            length
        } else {
            plain.push('$');
            1
        };
        rest = &rest[length..];
    }
    plain.push_str(rest);
    pieces.push(Piece::Text(plain));
    join(pieces)
}

/// The name in a `$(NAME)` at the beginning of a text, and the length of the whole.
pub(super) fn reference(text: &str) -> Option<(&str, usize)> {
    let body = text.strip_prefix("$(")?;
    let end = body.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))?;
    let name = &body[..end];
    (is_name(name) && body[end..].starts_with(')')).then_some((name, end + 3))
}

/// Neighbouring texts become one, empty ones go away.
pub(super) fn join(pieces: Vec<Piece>) -> Vec<Piece> {
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
