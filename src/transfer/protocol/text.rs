//! Text of a foreign machine.

use crate::sanitise;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Foreign text, safe to show: one line, bounded.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Words(String);

impl Words {
    const MAX: usize = 2048;

    /// What a program said in its own words, which may hold secrets.
    pub fn said(text: &str) -> Self {
        sanitise::withhold_secrets(text).into()
    }
}

impl From<String> for Words {
    fn from(text: String) -> Self {
        let safe = sanitise::line(&text, Self::MAX);
        match safe.char_indices().nth(Self::MAX) {
            None => Self(safe),
            Some(_) => Self(
                safe.chars()
                    .take(Self::MAX - 3)
                    .chain("...".chars())
                    .collect(),
            ),
        }
    }
}

impl From<&str> for Words {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<Words> for String {
    fn from(words: Words) -> Self {
        words.0
    }
}

impl std::ops::Deref for Words {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}
