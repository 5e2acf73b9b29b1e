//! Command-line flags of an engine.

use std::collections::BTreeMap;

/// The value of a flag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Flag {
    /// Stands alone.
    Present,
    /// Written out, or through catalogued variables that are.
    Text(String),
    /// Through variables that may hold a secret: used, and never shown.
    Foreign(String),
    /// Known only when the container runs: the reference that is not known, nothing where the value is computed.
    Unresolved(String),
}

/// The flags of one command. Names without dashes in front, `_` as `-`.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Flags {
    values: BTreeMap<String, Flag>,
}

/// A word of the command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Argument {
    /// The text; references that are not known stand as written.
    pub text: String,
    /// The first reference that is not known; empty where the text is computed.
    pub open: Option<String>,
    /// Made of a variable that may hold a secret.
    pub foreign: bool,
}

impl Argument {
    /// All of it is known.
    pub fn is_known(&self) -> bool {
        self.open.is_none()
    }
}

impl Flags {
    /// Reads the words of a command.
    pub fn parse(words: &[Argument]) -> Self {
        let mut values = BTreeMap::new();
        let mut words = words.iter().peekable();
        while let Some(word) = words.next() {
            let text = word.text.trim_start();
            let Some(name) = text.strip_prefix("--").or_else(|| short(text)) else {
                continue;
            };
            let value = |text: &str, of: &Argument| match &of.open {
                Some(reference) => Flag::Unresolved(reference.clone()),
                None if of.foreign => Flag::Foreign(text.to_owned()),
                None => Flag::Text(text.to_owned()),
            };
            let (name, flag) = match name.split_once('=') {
                Some((name, text)) => (name, value(text, word)),
                None => match words.peek() {
                    Some(next) if !is_flag(&next.text) => {
                        let flag = value(&next.text, next);
                        words.next();
                        (name, flag)
                    }
                    _ => (name, Flag::Present),
                },
            };
            values.insert(name.replace('_', "-"), flag);
        }
        Self { values }
    }

    /// A flag under any of its names.
    pub fn get(&self, names: &[&str]) -> Option<&Flag> {
        names.iter().find_map(|name| self.values.get(*name))
    }

    /// The text of a flag, under any of its names.
    pub fn text(&self, names: &[&str]) -> Option<&str> {
        match self.get(names) {
            Some(Flag::Text(text) | Flag::Foreign(text)) => Some(text),
            _ => None,
        }
    }

    /// The text of a flag that may be shown, under any of its names.
    pub fn shown(&self, names: &[&str]) -> Option<&str> {
        match self.get(names) {
            Some(Flag::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// The flag stands there, with or without a value.
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// A flag whose name begins so stands there.
    pub fn has_under(&self, beginning: &str) -> bool {
        let mut from = self.values.range(beginning.to_owned()..);
        from.next()
            .is_some_and(|(name, _)| name.starts_with(beginning))
    }

    /// Keeps what both say alike: a script that may start one of two commands says no more than that.
    pub fn intersect(&mut self, other: &Self) {
        self.values
            .retain(|name, flag| other.values.get(name) == Some(flag));
    }
}

fn short(text: &str) -> Option<&str> {
    matches!(text, "-tp" | "-pp" | "-dp").then(|| &text[1..])
}

/// The next word is a flag and not a value: dashes, but no negative number.
fn is_flag(text: &str) -> bool {
    text.starts_with('-') && !text[1..].starts_with(|c: char| c.is_ascii_digit())
}

/// Flags that are reported: their name, and the names under which engines know them.
pub(super) const REPORTED: [(&str, &[&str]); 12] = [
    (
        "tensor-parallel-size",
        &["tensor-parallel-size", "tp-size", "tp"],
    ),
    (
        "pipeline-parallel-size",
        &["pipeline-parallel-size", "pp-size", "pp"],
    ),
    (
        "data-parallel-size",
        &["data-parallel-size", "dp-size", "dp"],
    ),
    // SGLang's name, and that of Dynamo's worker of TensorRT-LLM.
    (
        "enable-dp-attention",
        &["enable-dp-attention", "enable-attention-dp"],
    ),
    ("block-size", &["block-size", "kv-block-size", "page-size"]),
    ("kv-cache-dtype", &["kv-cache-dtype"]),
    ("disaggregation-mode", &["disaggregation-mode"]),
    ("disaggregation-ib-device", &["disaggregation-ib-device"]),
    (
        "disaggregation-bootstrap-port",
        &["disaggregation-bootstrap-port"],
    ),
    ("host", &["host"]),
    ("dtype", &["dtype"]),
    ("model", &["model", "model-path"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_flags() {
        let words: Vec<Argument> = ["x", "--a", "1", "--b_c=2", "--d", "--e", "-1", "-tp", "8"]
            .iter()
            .map(|t| Argument {
                text: (*t).into(),
                ..Argument::default()
            })
            .collect();
        let flags = Flags::parse(&words);
        assert_eq!(flags.text(&["a"]), Some("1"));
        assert_eq!(flags.text(&["b-c"]), Some("2"));
        assert_eq!(flags.get(&["d"]), Some(&Flag::Present));
        assert_eq!(flags.text(&["e"]), Some("-1"));
        assert_eq!(flags.text(&["tensor-parallel-size", "tp"]), Some("8"));
    }
}
