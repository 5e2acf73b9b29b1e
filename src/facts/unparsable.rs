//! Why a text did not yield facts.

use super::transcript;
use crate::observed::Skip;
use crate::report::SkipReason;
use crate::sanitise;

/// A text that holds no facts of the tool it was given as.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no {tool} output to read: {why}")]
pub struct Unparsable {
    /// The output that was expected, as a person would type it: `nvidia-smi topo -m`.
    pub tool: &'static str,
    /// What was there instead.
    pub why: Why,
}

/// What stood in place of the expected output.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// Nothing but blanks.
    #[error("the text is empty")]
    Empty,
    /// The tool, or the shell in its place, said that it could not run. The reason is that of the known-error table.
    #[error("the tool did not run: {words}")]
    Failed {
        /// What that means for a check.
        reason: SkipReason,
        /// The line that said so, sanitised.
        words: String,
    },
    /// Outputs of two places in one text, which contradict each other.
    #[error("two places in one paste: {what}")]
    TwoPlaces {
        /// What is there twice, sanitised.
        what: String,
    },
    /// An output of the tool that does not show what is asked of it.
    #[error("it shows {what}")]
    Lacking {
        /// What it shows instead, and what would show it.
        what: &'static str,
    },
    /// Something else altogether.
    #[error("not recognised: `{seen}`")]
    Foreign {
        /// The first line that is not blank, sanitised, without secrets.
        seen: String,
    },
}

impl Unparsable {
    /// Classifies a text in which the reader of `tool` understood nothing.
    pub fn new(tool: &'static str, text: &str) -> Self {
        let why = if let Some(failure) = transcript::failure(text) {
            failure
        } else {
            match transcript::lines(text).find(|line| !line.trim().is_empty()) {
                None => Why::Empty,
                Some(line) => Why::Foreign {
                    seen: sanitise::line(&transcript::message(&line), 120),
                },
            }
        };
        Self { tool, why }
    }

    /// A text that holds two outputs of `tool` which contradict each other in `what`: neither is the right one.
    pub fn two_places(tool: &'static str, what: &str) -> Self {
        let why = Why::TwoPlaces {
            what: sanitise::line(what, 120),
        };
        Self { tool, why }
    }
}

impl From<Unparsable> for Skip {
    fn from(unparsable: Unparsable) -> Self {
        let reason = match unparsable.why {
            Why::Failed { reason, .. } => reason,
            Why::Empty | Why::Foreign { .. } | Why::TwoPlaces { .. } | Why::Lacking { .. } => {
                SkipReason::Unparsable
            }
        };
        Self::new(reason, unparsable.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_a_skip_follows_what_stood_there() {
        for (text, reason, words) in [
            ("", SkipReason::Unparsable, "the text is empty"),
            (" \n\t\n", SkipReason::Unparsable, "the text is empty"),
            (
                "sh: 1: ibstat: not found",
                SkipReason::NotFound,
                "did not run",
            ),
            (
                "Could not collect",
                SkipReason::NotCollected,
                "did not run: Could not collect",
            ),
            (
                "hello\x1b]0;x\x07 world",
                SkipReason::Unparsable,
                "not recognised: `hello world`",
            ),
        ] {
            let skip = Skip::from(Unparsable::new("ibstat", text));
            assert_eq!(skip.reason, reason, "{text:?}");
            assert!(skip.detail.contains(words), "{text:?} {}", skip.detail);
        }
    }
}
