//! `explain`: static tables, and one value judged on the spot.

use super::{Format, print, print_json, width};
use crate::budget;
use crate::catalogue::{self, Variable};
use crate::checks::{self, declare::Check};
use crate::judge::{self, context::Context, explain, rules};
use crate::render::text::paragraph;
use crate::report::{ExitCode, Status};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::fmt::Write;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// A check (id or name), a variable, or `VARIABLE=VALUE`; `VARIABLE=<unset>` asks about the default, and
    /// `VARIABLE=` about the empty value.
    #[arg(value_name = "WHAT")]
    what: String,
    /// What is known about the place, as `key=value;key=value`: ucx, nixl, nccl, internode, gpu, mnnvl, nics, net, gids,
    /// peermem, dmabuf, efa, backend, netplugin. Without it: a multi-node H100 deployment on InfiniBand.
    #[arg(long, value_name = "CONTEXT")]
    context: Option<String>,
    /// Output format; text on a terminal, json on a pipe.
    #[arg(short, long, value_parser = PossibleValuesParser::new(["text", "json"]).try_map(|word| Format::from_str(&word, false)))]
    output: Option<Format>,
}

/// A value and its verdict.
#[derive(Serialize)]
struct Verdict<'a> {
    variable: &'a str,
    /// Null when the question is about the unset variable.
    value: Option<&'a str>,
    status: Status,
    reason: &'a str,
    rule: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<&'a str>,
}

/// A variable of the catalogue.
#[derive(Serialize)]
struct VariablePage<'a> {
    variable: &'a str,
    owner: String,
    takes: String,
    default: &'a str,
    meaning: &'a str,
    source: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    known_since: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    removed_in: Option<&'a str>,
}

/// A rule that verdicts cite.
#[derive(Serialize)]
struct RulePage<'a> {
    rule: &'a str,
    subject: &'a str,
    text: &'a str,
}

/// A check.
#[derive(Serialize)]
struct CheckPage<'a> {
    id: &'a str,
    name: &'a str,
    worst: Status,
    kv_path: crate::report::KvPath,
    since: &'a str,
    documentation: String,
}

impl Arguments {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        if self.what.contains('=') {
            return self.judge();
        }
        if self.context.is_some() {
            return usage("--context needs VARIABLE=VALUE: it says where the value takes effect");
        }
        let what = self.what.as_str();
        if let Some(check) = checks::find(what) {
            return self.show(&check_page(check), &check_text(check));
        }
        if let Some(rule) = rules::cited(what).next() {
            let page = RulePage {
                rule: rule.id,
                subject: rule.subject,
                text: rule.text,
            };
            let mut text = format!("rule {} ({})\n", rule.id, rule.subject);
            wrap(&mut text, rule.text);
            return self.show(&page, &text);
        }
        if what == "kv-budget" {
            let page = serde_json::json!({"topic": what, "text": budget::EXPLANATION});
            let mut text = "How long the KV cache of a prompt travels (check --isl)\n\n".to_owned();
            for part in budget::EXPLANATION.split("\n\n") {
                wrap(&mut text, part);
                text.push('\n');
            }
            return self.show(&page, &text);
        }
        let name = what.strip_prefix("env:").unwrap_or(what);
        if let Some(variable) = catalogue::find(name) {
            return self.show(&variable_page(variable), &variable_text(variable));
        }
        let mut message = format!("{what:?} is no check, no rule and no variable of the catalogue");
        match nearest(name) {
            Some(near) => _ = write!(message, "; did you mean {near}?"),
            None => message.push_str("; the pages docs/checks.md, docs/rules.md and docs/variables.md of the repository list them"),
        }
        usage(&message)
    }

    fn judge(&self) -> anyhow::Result<ExitCode> {
        let (variable, value) = explain::parse_assignment(&self.what);
        let context = match Context::for_explain(self.context.as_deref().unwrap_or_default()) {
            Ok(context) => context,
            Err(error) => return usage(&error.to_string()),
        };
        if catalogue::find(variable).is_none() && !variable.starts_with("UCX_") {
            let near = nearest(variable).map_or(String::new(), |n| format!("; did you mean {n}?"));
            return usage(&format!(
                "{variable} is not in the catalogue, so there is nothing to judge it by{near}"
            ));
        }
        let verdict = judge::judge(variable, value, &context);
        // A value that may carry credentials is not repeated, not even to whoever typed it: terminals are shared.
        let hidden = value.is_some_and(|value| catalogue::withheld_of(variable, value));
        let value = if hidden { Some("(withheld)") } else { value };
        let page = Verdict {
            variable,
            value,
            status: verdict.status,
            reason: &verdict.reason,
            rule: verdict.rule,
            fix: verdict.fix.as_deref(),
        };
        let shown = match value {
            None => format!("{variable} unset"),
            Some("") => format!("{variable} set to the empty string"),
            Some(value) => format!("{variable}={}", crate::sanitise::line(value, 300)),
        };
        let mut text = format!("{}: {shown}\n", verdict.status);
        wrap(&mut text, &verdict.reason);
        if let Some(fix) = &verdict.fix {
            wrap(&mut text, &format!("fix: {fix}"));
        }
        for rule in rules::cited(verdict.rule).take(3) {
            wrap(&mut text, &format!("rule {}: {}", rule.id, rule.text));
        }
        self.show(&page, &text)
    }

    fn show<T: Serialize>(&self, page: &T, text: &str) -> anyhow::Result<ExitCode> {
        match Format::or_by_stream(self.output) {
            Format::Json => print_json(page)?,
            _ => print(text)?,
        }
        Ok(ExitCode::Ok)
    }
}

fn usage(message: &str) -> anyhow::Result<ExitCode> {
    use std::io::Write as _;
    // Nothing is left to be done when stderr is gone.
    let _ = writeln!(anstream::stderr(), "error: {message}");
    Ok(ExitCode::Usage)
}

fn nearest(name: &str) -> Option<&'static str> {
    let upper = name.to_ascii_uppercase();
    if let Some(variable) = catalogue::find(&upper) {
        return Some(variable.name);
    }
    if let Some(variable) = catalogue::nearest(name).or_else(|| catalogue::nearest(&upper)) {
        return Some(variable);
    }
    let close = |c: &&&Check| strsim::damerau_levenshtein(c.name, name) <= 2;
    checks::ALL.iter().find(close).map(|c| c.name)
}

fn check_page(check: &Check) -> CheckPage<'_> {
    CheckPage {
        id: check.id,
        name: check.name,
        worst: check.worst,
        kv_path: check.kv_path,
        since: check.since,
        documentation: check.documentation(),
    }
}

fn check_text(check: &Check) -> String {
    let mut out = format!("{} {} (at worst {})\n\n", check.id, check.name, check.worst);
    // Documentation is written in lines for readers of the source; here it is wrapped for the terminal.
    for part in check.documentation().split("\n\n") {
        let (heading, body) = match part
            .strip_prefix("## ")
            .map(|p| p.split_once('\n').unwrap_or((p, "")))
        {
            Some((heading, body)) => (Some(heading), body),
            None => (None, part),
        };
        if let Some(heading) = heading {
            _ = writeln!(out, "{heading}");
        }
        wrap(&mut out, &body.replace('\n', " "));
        out.push('\n');
    }
    out
}

fn variable_page(v: &Variable) -> VariablePage<'_> {
    VariablePage {
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

fn variable_text(v: &Variable) -> String {
    let mut out = format!("{} ({})\n", v.name, v.owner);
    wrap(&mut out, v.meaning);
    wrap(&mut out, &format!("takes: {}", v.kind));
    wrap(&mut out, &format!("default: {}", v.default));
    if let Some(version) = v.known_since {
        wrap(&mut out, &format!("known since: {version}"));
    }
    if let Some(version) = v.removed_in {
        wrap(&mut out, &format!("no longer read since: {version}"));
    }
    wrap(&mut out, &format!("source: {}", v.source));
    wrap(
        &mut out,
        &format!("judge a value: explain '{}=VALUE'", v.name),
    );
    out
}

fn wrap(out: &mut String, text: &str) {
    paragraph(out, text, "  ", width().clamp(40, 100));
}
