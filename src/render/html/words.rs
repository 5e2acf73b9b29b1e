//! Words, signs and classes that the parts of the page share: no state is told by colour alone.

use crate::pair::{WRONG_BYTES, WRONG_LANE};
use crate::report::{Finding, PairReport, Status, Trust};
use crate::target::{Target, TargetKind};
use maud::{Markup, html};
use std::collections::BTreeMap;

/// What is known of the lane between two ends. The order is that of gravity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum State {
    Proven,
    NotTried,
    /// Bytes arrived, and nothing names what carried them.
    NotProven,
    Skipped,
    Warn,
    Failed,
    WrongLane,
    WrongBytes,
}

impl State {
    pub(super) const ALL: [Self; 8] = [
        Self::WrongBytes,
        Self::WrongLane,
        Self::Failed,
        Self::Warn,
        Self::Skipped,
        Self::NotProven,
        Self::NotTried,
        Self::Proven,
    ];

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Proven => "proven",
            Self::NotTried => "not tried",
            Self::NotProven => "not proven",
            Self::Skipped => "skipped",
            Self::Warn => "warn",
            Self::Failed => "failed",
            Self::WrongLane => "wrong lane",
            Self::WrongBytes => "wrong bytes",
        }
    }

    pub(super) fn sign(self) -> &'static str {
        match self {
            Self::Proven => "✓",
            Self::NotTried => "·",
            Self::NotProven | Self::Skipped => "?",
            Self::Warn => "!",
            Self::Failed | Self::WrongLane | Self::WrongBytes => "✗",
        }
    }

    /// The class that gives it its tone.
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Proven => "ok",
            Self::NotTried => "none",
            Self::NotProven | Self::Skipped => "skipped",
            Self::Warn => "warn",
            Self::Failed | Self::WrongLane | Self::WrongBytes => "fail",
        }
    }
}

/// What each transfer says of its lane.
pub(super) struct Lanes<'a> {
    /// Findings about pairs, by the name of the pair.
    details: BTreeMap<&'a str, &'a str>,
}

impl<'a> Lanes<'a> {
    pub(super) fn of(checks: &'a [Finding]) -> Self {
        let pairs = checks.iter().filter(|f| f.target.kind == TargetKind::Pair);
        Self {
            details: pairs
                .filter(|f| f.status == Status::Fail)
                .map(|f| (f.target.name.as_str(), f.detail.as_str()))
                .collect(),
        }
    }

    pub(super) fn state(&self, pair: &PairReport) -> State {
        match (pair.status, pair.proven) {
            (Status::Fail, _) => {
                let name = format!("{} -> {}", pair.initiator, pair.target);
                match self.details.get(name.as_str()) {
                    Some(detail) if detail.starts_with(WRONG_LANE) => State::WrongLane,
                    Some(detail) if detail.starts_with(WRONG_BYTES) => State::WrongBytes,
                    _ => State::Failed,
                }
            }
            (_, true) => State::Proven,
            (Status::Ok, _) => State::NotProven,
            (Status::Warn, _) => State::Warn,
            (Status::Skipped, _) => State::Skipped,
        }
    }
}

/// The word of a status in its tone.
pub(super) fn tag(status: Status) -> Markup {
    html! { span class={ "tag " (status.word()) } { (status.word()) } }
}

/// Trust in words, with the class of its tone.
pub(super) fn trust(trust: Trust) -> (&'static str, &'static str) {
    match trust {
        Trust::Trusted => ("TRUSTED", "ok"),
        Trust::NotApplicable => ("NOT APPLICABLE", "none"),
        Trust::Unproven => ("NOT PROVEN", "warn"),
        Trust::Untrusted => ("NOT TRUSTED", "fail"),
    }
}

/// An object with its role, and its workload where there are several.
pub(super) fn place(target: &Target, with_workload: bool) -> String {
    crate::render::text::place(target, with_workload)
}

/// The first few, and how many more. Of long names fewer are shown.
pub(super) fn listed<T: AsRef<str>>(names: &[T], shown: usize) -> String {
    const LONG: usize = 160;
    let mut first: Vec<&str> = Vec::new();
    let mut long = 0;
    for name in names.iter().take(shown).map(AsRef::as_ref) {
        long += name.chars().count();
        if long > LONG && !first.is_empty() {
            break;
        }
        first.push(name);
    }
    match names.len() - first.len() {
        0 => first.join(", "),
        n => format!("{} and {n} more", first.join(", ")),
    }
}

/// `1 pod`, `2 pods`.
pub(super) fn count(n: usize, noun: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{n} {noun}{s}")
}

/// The beginning and the end of a long name: the end tells a pod from its siblings.
pub(super) fn short(name: &str, most: usize) -> String {
    let count = name.chars().count();
    if count <= most {
        return name.to_owned();
    }
    let end = most / 2;
    let begin: String = name.chars().take(most - end - 1).collect();
    let end: String = name.chars().skip(count - end).collect();
    format!("{begin}…{end}")
}

pub(super) fn rate(rate: Option<f64>) -> String {
    rate.map_or("-".to_owned(), |r| format!("{r:.1}"))
}
