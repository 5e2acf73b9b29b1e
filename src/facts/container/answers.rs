//! From an answer to a fact, with the read that gave it.

use crate::ask::Ask;
use crate::observed::{Observed, Skip};
use crate::report::{Evidence, SkipReason};
use crate::snapshot::{Snapshot, evidence};
use std::collections::BTreeSet;
use std::ops::Deref;

/// A fact and the read that gave it.
#[derive(Debug, Clone)]
pub struct Seen<T> {
    /// The fact.
    pub value: T,
    /// The read.
    pub ask: &'static Ask,
}

impl<T> Seen<T> {
    /// A fact from a read.
    pub fn new(ask: &'static Ask, value: T) -> Self {
        Self { value, ask }
    }

    /// Evidence from the same read: the lines that decided.
    pub fn evidence<'a>(&self, lines: impl IntoIterator<Item = &'a str>) -> Evidence {
        evidence(self.ask, lines)
    }
}

impl<T> Deref for Seen<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// Two pasted outputs that contradict each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// What the one says, as `ibstat: mlx5_0:1 ACTIVE`.
    pub one: (&'static Ask, String),
    /// What the other says.
    pub other: (&'static Ask, String),
}

impl Conflict {
    /// Who contradicts whom: `ibstat and ibv_devinfo contradict each other`.
    pub fn between(&self) -> String {
        let (one, other) = (self.one.0, self.other.0);
        if one.id == other.id {
            return format!("{} contradicts itself", one.shown_as);
        }
        format!(
            "{} and {} contradict each other",
            one.shown_as, other.shown_as
        )
    }

    /// The two outputs, whoever is named first.
    pub fn asks(&self) -> BTreeSet<&'static str> {
        [self.one.0.id, self.other.0.id].into()
    }
}

/// An answer of which all is there, so that what is not in it is not there.
pub(super) fn whole<'a>(snapshot: &'a Snapshot, ask: &Ask) -> Result<&'a str, Skip> {
    if snapshot.is_cut(ask) {
        let detail = format!(
            "only the beginning of {} was kept, so what is not in it may yet be there",
            ask.shown_as
        );
        return Err(Skip::new(SkipReason::Unparsable, detail));
    }
    snapshot.text(ask)
}

/// A fact that needs the whole answer.
pub(super) fn list<T>(
    snapshot: &Snapshot,
    ask: &'static Ask,
    parse: impl FnOnce(&str) -> T,
) -> Observed<Seen<T>> {
    observed(whole(snapshot, ask).map(|text| Seen::new(ask, parse(text))))
}

/// A fact from the output of a tool, of which a part is also worth something.
pub(super) fn tool<T, E: Into<Skip>>(
    snapshot: &Snapshot,
    ask: &'static Ask,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Observed<Seen<T>> {
    let read = || {
        let text = snapshot.text(ask)?;
        parse(text)
            .map(|value| Seen::new(ask, value))
            .map_err(Into::into)
    };
    observed(read())
}

pub(super) fn observed<T>(result: Result<T, Skip>) -> Observed<T> {
    result.map_or_else(Observed::Missing, Observed::Known)
}

/// The first source that answers. Where none does, the reason of the first that was asked at all; where all could have been
/// pasted, all their names.
pub(super) fn first<T>(sources: Vec<Observed<T>>) -> Observed<T> {
    let mut reason: Option<Skip> = None;
    let mut inputs: Vec<&'static str> = Vec::new();
    for source in sources {
        match source {
            Observed::Known(value) => return Observed::Known(value),
            Observed::Missing(skip) => {
                for name in &skip.inputs {
                    if !inputs.contains(name) {
                        inputs.push(name);
                    }
                }
                let better = reason
                    .as_ref()
                    .is_none_or(|kept| rank(kept.reason) < rank(skip.reason));
                if better {
                    reason = Some(skip);
                }
            }
        }
    }
    let reason = reason.unwrap_or_else(|| Skip::new(SkipReason::NotCollected, "nothing was read"));
    if reason.reason == SkipReason::NotCollected && !inputs.is_empty() {
        return Observed::Missing(Skip::not_pasted(inputs));
    }
    Observed::Missing(reason)
}

/// How much a reason says: that something was tried and failed is more than that it was not tried.
fn rank(reason: SkipReason) -> u8 {
    match reason {
        SkipReason::NotApplicable => 0,
        SkipReason::NotCollected | SkipReason::NotSelected => 1,
        _ => 2,
    }
}

/// Lines of the form `path: value`.
pub(super) fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(path, value)| (path.trim(), value.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::container;

    #[test]
    fn a_cut_answer_is_no_list() {
        let cut = container("decode", &[(&ask::DEV_INFINIBAND, "uverbs0\n[cut]")]);
        let skip = whole(&cut, &ask::DEV_INFINIBAND).unwrap_err();
        assert_eq!(skip.reason, SkipReason::Unparsable);
    }

    #[test]
    fn the_reason_that_says_most_is_kept() {
        let missing = |reason| Observed::<u8>::Missing(Skip::new(reason, ""));
        let all = vec![
            missing(SkipReason::NotCollected),
            missing(SkipReason::Denied),
            missing(SkipReason::NotFound),
        ];
        assert_eq!(first(all), missing(SkipReason::Denied));
        let pasted = vec![
            missing(SkipReason::NotCollected),
            Observed::<u8>::Missing(Skip::not_pasted(["ibstat"])),
            Observed::Missing(Skip::not_pasted(["ibstatus", "ibstat"])),
        ];
        let all = Skip::not_pasted(["ibstat", "ibstatus"]);
        assert_eq!(first(pasted), Observed::Missing(all));
        let known = vec![missing(SkipReason::Denied), Observed::Known(1)];
        assert_eq!(first(known), Observed::Known(1));
    }
}
