//! `explain`: static tables, and one value judged on the spot.

mod pages;

use super::{Format, print, print_json, usage, width};
use crate::catalogue;
use crate::checks::{self, declare::Check};
use crate::judge::{self, context::Context, explain, rules};
use crate::render::text::paragraph;
use crate::report::{ExitCode, Status};
use crate::topics;
use clap::Args;
pub(crate) use pages::Page;
use std::fmt::Write;

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  everything that can be explained:
    dynamo-interconnect-check explain
  what a variable really does, and what a value does:
    dynamo-interconnect-check explain UCX_TLS
    dynamo-interconnect-check explain 'UCX_TLS=rc,cuda_ipc'
    dynamo-interconnect-check explain 'UCX_NET_DEVICES=mlx5_0' --context 'ucx=1.20;gpu=8xH100'
  what a check looks for, and what a word of a report means:
    dynamo-interconnect-check explain K8S001
    dynamo-interconnect-check explain unproven

Keys of --context, each with what it takes; what is not said is assumed, and the answer shows it:
  ucx, nixl, nccl    a version such as 1.20, or unknown
  internode, efa     yes or no
  mnnvl, peermem, dmabuf  yes, no or unknown
  gpu                8xH100-NVSwitch, GB200-NVL72, ..
  nics               mlx5_0:1/IB/ACTIVE,.. (IB, Ethernet or Unknown), none, or unknown
  net                names of network interfaces with commas, or none
  gids               0,3 or on Ethernet 0:v1,3:v2, or unknown
  backend            UCX, LIBFABRIC or unknown
  netplugin          none, or the name of a plugin of NCCL

Exit codes: 0 explained, whatever is said of the value; 2 nothing is known by this name.")]
pub(super) struct Arguments {
    /// A variable, `VARIABLE=VALUE`, a check (id or name), a rule, a word of a report (unproven, skipped, kv_path, ..) or a
    /// topic (kv-budget, firewall, acs, pfc). `VARIABLE=<unset>` asks about the default, and `VARIABLE=` about the empty
    /// value. Without it: a list of all that can be explained.
    #[arg(value_name = "WHAT")]
    what: Option<String>,
    /// What is known about the place where VARIABLE=VALUE takes effect, as `key=value;key=value`. Without it: several nodes
    /// with 8 H100 and 8 InfiniBand ports each.
    #[arg(long, value_name = "CONTEXT")]
    context: Option<String>,
    /// Output format; text on a terminal, json on a pipe.
    #[arg(short, long, value_enum)]
    output: Option<Format>,
}

impl Arguments {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let Some(what) = self.what.as_deref() else {
            if self.context.is_some() {
                return usage(NEEDS_VALUE);
            }
            let page = pages::contents();
            return self.show(
                &Page::Contents(&page),
                &pages::contents_text(&page, columns()),
            );
        };
        if what.contains('=') {
            return self.judge(what);
        }
        if self.context.is_some() {
            return usage(NEEDS_VALUE);
        }
        match self.page(what)? {
            Some(code) => Ok(code),
            None => usage(&unknown(what)),
        }
    }

    /// The page of what is asked for; None where nothing is known by this name.
    fn page(&self, what: &str) -> anyhow::Result<Option<ExitCode>> {
        if let Some(check) = checks::find(what) {
            let page = pages::check(check);
            return self.show(&Page::Check(&page), &check_text(check)).map(Some);
        }
        if let Some(rule) = rules::cited(what).next() {
            let page = pages::Rule {
                rule: rule.id,
                subject: rule.subject,
                text: rule.text,
            };
            let mut text = format!("rule {} ({})\n", rule.id, rule.subject);
            wrap(&mut text, rule.text);
            return self.show(&Page::Rule(&page), &text).map(Some);
        }
        if let Some(topic) = topics::find(what) {
            let page = pages::Topic {
                topic: topic.name,
                title: topic.title,
                text: topic.text,
                sources: Some(topic.sources).filter(|sources| !sources.is_empty()),
            };
            let mut text = format!("{}\n\n", topic.title);
            for part in topic.text.split("\n\n") {
                wrap(&mut text, part);
                text.push('\n');
            }
            if !topic.sources.is_empty() {
                wrap(&mut text, &format!("sources: {}", topic.sources));
            }
            return self.show(&Page::Topic(&page), &text).map(Some);
        }
        let meanings = topics::meanings(what);
        if let Some(first) = meanings.first() {
            let mut text = String::new();
            for (n, meaning) in meanings.iter().enumerate() {
                let before = n.checked_sub(1).map(|before| &meanings[before]);
                let heading = |w: &topics::Word| (w.word, w.kind);
                if before.map(heading) != Some(heading(meaning)) {
                    _ = writeln!(text, "{}: {}", meaning.word, meaning.kind);
                }
                wrap(&mut text, meaning.meaning);
            }
            let page = pages::Word {
                word: first.word,
                meanings: meanings.iter().map(pages::meaning).collect(),
            };
            return self.show(&Page::Word(&page), &text).map(Some);
        }
        let name = what.strip_prefix("env:").unwrap_or(what);
        if let Some(variable) = variable(name) {
            let page = pages::variable(variable);
            let text = pages::variable_text(variable, columns());
            return self.show(&Page::Variable(&page), &text).map(Some);
        }
        Ok(None)
    }

    fn judge(&self, what: &str) -> anyhow::Result<ExitCode> {
        let (written, value) = explain::parse_assignment(what);
        let context = match Context::for_explain(self.context.as_deref().unwrap_or_default()) {
            Ok(context) => context,
            Err(error) => return usage(&format!("--context: {error}")),
        };
        let known = variable(written);
        if known.is_none() && !written.starts_with("UCX_") {
            let near = nearest(written).map_or(String::new(), |n| format!("; did you mean {n}?"));
            return usage(&format!(
                "{written:?} is not in the catalogue, so there is nothing to judge it by{near}"
            ));
        }
        let variable = known.map_or(written, |variable| variable.name);
        let verdict = judge::judge(variable, value, &context);
        // A value that may carry credentials is not repeated, not even to whoever typed it: terminals are shared.
        let hidden = value.is_some_and(|value| catalogue::withheld_of(variable, value));
        let value = if hidden { Some("(withheld)") } else { value };
        let assumed = context.assumed();
        let page = pages::Verdict {
            variable,
            value,
            status: verdict.status,
            reason: &verdict.reason,
            rule: verdict.rule,
            fix: verdict.fix.as_deref(),
            context: assumed.iter().map(|(key, v)| (*key, v.as_str())).collect(),
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
        // A rule says what is wrong; beneath a value that is right it reads like a complaint.
        if verdict.status >= Status::Warn {
            for rule in rules::cited(verdict.rule).take(3) {
                wrap(&mut text, &format!("rule {}: {}", rule.id, rule.text));
            }
        }
        wrap(&mut text, &assumed_words(&assumed, self.context.is_some()));
        self.show(&Page::Verdict(&page), &text)
    }

    fn show(&self, page: &Page<'_>, text: &str) -> anyhow::Result<ExitCode> {
        match Format::or_by_stream(self.output) {
            Format::Json => print_json(page)?,
            Format::Text => print(text)?,
        }
        Ok(ExitCode::Ok)
    }
}

const NEEDS_VALUE: &str = "--context needs VARIABLE=VALUE: it says where the value takes effect; write for instance explain \
                           'UCX_TLS=rc' --context 'ucx=1.20'";

/// The place in a line; of many ports the first and the last.
fn assumed_words(assumed: &[(&'static str, String)], said: bool) -> String {
    let word = |(key, value): &(&str, String)| {
        let parts: Vec<&str> = value.split(',').collect();
        match parts.as_slice() {
            [first, .., last] if parts.len() > 2 => {
                format!("{key}={first} to {last} ({} of them)", parts.len())
            }
            _ => format!("{key}={value}"),
        }
    };
    let words: Vec<String> = assumed.iter().map(word).collect();
    let more = match said {
        true => "what --context does not say is assumed",
        false => "all of it assumed; --context says otherwise",
    };
    format!("judged for: {} ({more})", words.join("; "))
}

/// A variable by its name. Environments know upper and lower case apart, people who ask need not.
fn variable(name: &str) -> Option<&'static catalogue::Variable> {
    if let Some(variable) = catalogue::find(name) {
        return Some(variable);
    }
    let found = catalogue::all().find(|v| v.name.eq_ignore_ascii_case(name))?;
    note(&format!(
        "{name} is taken for {}; the names of variables are case-sensitive where they are set",
        found.name
    ));
    Some(found)
}

fn unknown(what: &str) -> String {
    let mut message = format!(
        "{what:?} is no check, no rule, no topic, no word of a report and no variable of the catalogue"
    );
    let name = what.strip_prefix("env:").unwrap_or(what);
    match nearest(name) {
        Some(near) => _ = write!(message, "; did you mean {near}?"),
        None => message.push_str("; `dynamo-interconnect-check explain` lists what there is"),
    }
    message
}

fn note(message: &str) {
    use std::io::Write as _;
    let _ = writeln!(anstream::stderr(), "note: {message}");
}

fn nearest(name: &str) -> Option<&'static str> {
    let upper = name.to_ascii_uppercase();
    let lower = name.to_ascii_lowercase();
    if let Some(variable) = catalogue::nearest(name).or_else(|| catalogue::nearest(&upper)) {
        return Some(variable);
    }
    let near = |other: &&str| strsim::damerau_levenshtein(&other.to_ascii_lowercase(), &lower) <= 2;
    let checks = checks::ALL.iter().map(|c: &&Check| c.name);
    let topics = topics::ALL.iter().map(|t| t.name);
    let words = topics::words().map(|w| w.word).filter(|w| w.len() > 4);
    let variables = catalogue::all().map(|v| v.name).filter(|v| v.len() > 6);
    checks
        .chain(topics)
        .chain(words)
        .chain(variables)
        .find(near)
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

fn columns() -> usize {
    width().clamp(40, 100)
}

fn wrap(out: &mut String, text: &str) {
    paragraph(out, text, "  ", columns());
}
