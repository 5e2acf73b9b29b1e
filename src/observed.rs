//! A fact, or the reason why there is none.
//!
//! The rule that makes the tool worth trusting lives here: a missing fact leaves a check through `?` as a [`Skip`], and
//! the runner turns that into a `skipped` finding. It cannot become `ok` by accident.

use crate::report::SkipReason;

/// A fact that was looked for. Absent is not missing: a variable that is unset in an environment we read is
/// `Known(None)` and can be judged; `Missing` means that we could not look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observed<T> {
    /// Looked at.
    Known(T),
    /// Could not be looked at, and why.
    Missing(Skip),
}

impl<T> Observed<T> {
    /// The fact, or the reason to leave the check with.
    pub fn get(&self) -> Result<&T, Skip> {
        match self {
            Self::Known(value) => Ok(value),
            Self::Missing(skip) => Err(skip.clone()),
        }
    }

    /// The fact where it is known. Use only where the check has a right answer without it.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Missing(_) => None,
        }
    }
}

/// Why a check has nothing to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skip {
    /// The typed reason.
    pub reason: SkipReason,
    /// What was not seen, in words, and where it can be seen.
    pub detail: String,
    /// Pasted outputs that would answer it, by the names that `--input` takes.
    pub inputs: Vec<&'static str>,
}

impl Skip {
    /// A skip with its reason and words.
    pub fn new(reason: SkipReason, detail: impl Into<String>) -> Self {
        Self {
            reason,
            detail: detail.into(),
            inputs: Vec::new(),
        }
    }

    /// None of these outputs was pasted, and each of them would answer.
    pub fn not_pasted(inputs: impl IntoIterator<Item = &'static str>) -> Self {
        let inputs: Vec<&'static str> = inputs.into_iter().collect();
        let detail = match inputs.as_slice() {
            [] => "nothing that answers this was pasted".to_owned(),
            [one] => format!("no {one} was pasted (--input {one}=FILE)"),
            [first, ..] => format!(
                "none of {} was pasted, and one answers this (--input {first}=FILE)",
                inputs.join(", ")
            ),
        };
        Self {
            inputs,
            ..Self::new(SkipReason::NotCollected, detail)
        }
    }

    /// The words of a skip where nothing was pasted that could answer, as against what was pasted and did not settle it.
    pub fn says_not_pasted(detail: &str) -> bool {
        const WORDS: &[&str] = &["nothing was read", "nothing that answers this was pasted"];
        let named = (detail.starts_with("no ") || detail.starts_with("none of "))
            && detail.contains(" was pasted")
            && detail.ends_with("=FILE)");
        let elsewhere = detail.ends_with(" is only read on the machine or in the pod itself");
        // Which devices may be opened only a look from inside tells.
        let elsewhere = elsewhere || detail.contains(" is not in pasted outputs");
        named || elsewhere || WORDS.contains(&detail) || detail.is_empty()
    }

    /// The question does not arise for this target. Nothing is reported.
    pub fn not_applicable() -> Self {
        Self::new(SkipReason::NotApplicable, "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_pasted_is_told_from_what_was_read() {
        for inputs in [vec![], vec!["ibstat"], vec!["ibstat", "ibv-devinfo"]] {
            assert!(Skip::says_not_pasted(&Skip::not_pasted(inputs).detail));
        }
        let read = "the state of some ports was not seen; ibstat shows it (--input ibstat=FILE)";
        assert!(!Skip::says_not_pasted(read));
    }
}
