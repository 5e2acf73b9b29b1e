//! What `explain` answers, as JSON (docs/explain.schema.json) and as text.

use super::wrap;
use crate::catalogue;
use crate::checks::{self, declare::Check};
use crate::judge::rules;
use crate::render::text::paragraph;
use crate::report::{KvPath, Status};
use crate::topics;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// One answer. Which of them it is shows in the keys that it has.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum Page<'a> {
    Verdict(&'a Verdict<'a>),
    Variable(&'a Variable<'a>),
    Check(&'a CheckPage<'a>),
    Rule(&'a Rule<'a>),
    Topic(&'a Topic<'a>),
    Word(&'a Word<'a>),
    Contents(&'a Contents<'a>),
}

/// A value and its verdict: `explain VARIABLE=VALUE`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Verdict<'a> {
    /// The variable.
    pub variable: &'a str,
    /// The value; null when the question is about the unset variable.
    pub value: Option<&'a str>,
    /// The status that it earns.
    pub status: Status,
    /// What it does.
    pub reason: &'a str,
    /// The rule that decided (docs/rules.md).
    pub rule: &'a str,
    /// What to write instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<&'a str>,
    /// The place it was judged for, in the keys and words of `--context`: said or assumed.
    pub context: BTreeMap<&'a str, &'a str>,
}

/// A variable of the catalogue.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Variable<'a> {
    /// Its name.
    pub variable: &'a str,
    /// Who reads it.
    pub owner: String,
    /// What it takes.
    pub takes: String,
    /// What holds where it is unset.
    pub default: &'a str,
    /// What it does.
    pub meaning: &'a str,
    /// Where that was read.
    pub source: &'a str,
    /// First version of the owner that reads it, where not all do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known_since: Option<&'a str>,
    /// First version of the owner that reads it no longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed_in: Option<&'a str>,
}

/// A rule that verdicts cite.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Rule<'a> {
    /// Its id.
    pub rule: &'a str,
    /// What it is about.
    pub subject: &'a str,
    /// The rule.
    pub text: &'a str,
}

/// A subject that is none of the others.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Topic<'a> {
    /// Its name.
    pub topic: &'a str,
    /// In one line.
    pub title: &'a str,
    /// Paragraphs.
    pub text: &'a str,
    /// Where it comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sources: Option<&'a str>,
}

/// A check.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Check"))]
pub(crate) struct CheckPage<'a> {
    /// Stable id.
    pub id: &'a str,
    /// Its name.
    pub name: &'a str,
    /// The gravest status it can have.
    pub worst: Status,
    /// Its part in trust.
    pub kv_path: KvPath,
    /// First version that had it.
    pub since: &'a str,
    /// Markdown: the problem, then sections.
    pub documentation: String,
}

/// A word of reports.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Word<'a> {
    /// As JSON and text write it.
    pub word: &'a str,
    /// What it means; one word may stand in several places.
    pub meanings: Vec<Meaning<'a>>,
}

/// What a word means in one place.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Meaning<'a> {
    /// What it is a word for.
    pub kind: &'a str,
    /// What it says, and what to do.
    pub meaning: &'a str,
}

/// All that can be explained.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Contents<'a> {
    /// Variables by who reads them.
    pub variables: BTreeMap<String, Vec<&'a str>>,
    /// Checks: id, and name with the problem.
    pub checks: Vec<Entry<'a>>,
    /// Words of reports by what they are for.
    pub words: BTreeMap<&'a str, Vec<&'a str>>,
    /// Topics with their titles.
    pub topics: Vec<Entry<'a>>,
    /// Rules by subject.
    pub rules: BTreeMap<&'a str, Vec<&'a str>>,
}

/// One line of the contents.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Entry<'a> {
    /// What to ask for.
    pub what: &'a str,
    /// Its name, where that is not the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<&'a str>,
    /// What it is about.
    pub about: String,
}

pub(super) fn check(check: &Check) -> CheckPage<'_> {
    CheckPage {
        id: check.id,
        name: check.name,
        worst: check.worst,
        kv_path: check.kv_path,
        since: check.since,
        documentation: check.documentation(),
    }
}

pub(super) fn variable(v: &catalogue::Variable) -> Variable<'_> {
    Variable {
        variable: v.name,
        owner: v.owner.to_string(),
        takes: v.kind.to_string(),
        default: v.default,
        meaning: v.meaning,
        source: v.source,
        known_since: v.known_since,
        removed_in: v.removed_in,
    }
}

pub(super) fn variable_text(v: &catalogue::Variable, columns: usize) -> String {
    let mut out = format!("{} ({})\n", v.name, v.owner);
    let mut line = |text: &str| paragraph(&mut out, text, "  ", columns);
    line(v.meaning);
    line(&format!("takes: {}", v.kind));
    line(&format!("default: {}", v.default));
    if let Some(version) = v.known_since {
        line(&format!("known since: {version}"));
    }
    if let Some(version) = v.removed_in {
        line(&format!("no longer read since: {version}"));
    }
    line(&format!("source: {}", v.source));
    line(&format!("judge a value: explain '{}=VALUE'", v.name));
    out
}

pub(super) fn meaning(word: &topics::Word) -> Meaning<'static> {
    Meaning {
        kind: word.kind,
        meaning: word.meaning,
    }
}

/// Everything there is.
pub(super) fn contents() -> Contents<'static> {
    let mut variables: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for v in catalogue::all() {
        variables
            .entry(v.owner.to_string())
            .or_default()
            .push(v.name);
    }
    let mut words: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for word in topics::words() {
        let all = words.entry(word.kind).or_default();
        if !all.contains(&word.word) {
            all.push(word.word);
        }
    }
    let mut by_subject: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for rule in rules::RULES {
        by_subject.entry(rule.subject).or_default().push(rule.id);
    }
    let checks = checks::ALL.iter().map(|check| Entry {
        what: check.id,
        name: Some(check.name),
        about: check.problem(),
    });
    let topics = topics::ALL.iter().map(|topic| Entry {
        what: topic.name,
        name: None,
        about: topic.title.to_owned(),
    });
    Contents {
        variables,
        checks: checks.collect(),
        words,
        topics: topics.collect(),
        rules: by_subject,
    }
}

pub(super) fn contents_text(contents: &Contents<'_>, columns: usize) -> String {
    let mut out = "What `explain` knows; ask for one of them, or for VARIABLE=VALUE.\n".to_owned();
    let heading = |out: &mut String, text: &str| _ = writeln!(out, "\n{text}");
    heading(&mut out, "Words of reports");
    for (kind, words) in &contents.words {
        wrap(&mut out, &format!("{kind}: {}", words.join(", ")));
    }
    heading(&mut out, "Topics");
    for topic in &contents.topics {
        wrap(&mut out, &format!("{}: {}", topic.what, topic.about));
    }
    heading(&mut out, "Checks");
    // By id: whoever asks has one.
    let mut checks: Vec<_> = contents.checks.iter().collect();
    checks.sort_by_key(|check| check.what);
    for check in checks {
        let name = check.name.unwrap_or_default();
        let _ = writeln!(out, "  {:<8} {name}", check.what);
    }
    heading(&mut out, "Variables");
    for (owner, names) in &contents.variables {
        let _ = writeln!(out, "  {owner}");
        paragraph(&mut out, &names.join(", "), "    ", columns);
    }
    heading(&mut out, "Rules");
    for (subject, ids) in &contents.rules {
        wrap(&mut out, &format!("{subject}: {}", ids.join("; ")));
    }
    out
}
