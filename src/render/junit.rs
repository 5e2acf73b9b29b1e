//! JUnit XML, as CI systems read it: a suite for each object, a case for each finding, and one case for trust.

use super::left_out;
use super::place::{Surroundings, object};
use crate::report::{FailOn, Finding, Report, SkipReason, Status, Trust};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A case, and how it ended.
struct Case {
    class: String,
    name: String,
    end: End,
}

enum End {
    Passed,
    /// Passed with something to say.
    Said(String),
    Skipped(String),
    /// In one line, and in full.
    Failed(String, String),
    /// It could not be looked at at all.
    Error(String),
}

/// The whole document.
pub fn render(report: &Report, around: Surroundings<'_>) -> String {
    let mut suites: Vec<(String, Vec<Case>)> =
        vec![("trust".to_owned(), vec![trust(report, around)])];
    let errors = report.errors.iter().map(|e| Case {
        class: "input".to_owned(),
        name: e.object.clone(),
        end: End::Error(e.message.clone()),
    });
    if !report.errors.is_empty() {
        suites.push(("inputs".to_owned(), errors.collect()));
    }
    for own in report.checks.chunk_by(|a, b| a.target == b.target) {
        let target = &own[0].target;
        let name = format!("{} {}", target.kind.word(), object(target));
        let cases = own
            .iter()
            .filter(|f| f.reason != Some(SkipReason::NotApplicable));
        suites.push((
            name.clone(),
            cases.map(|f| case(f, &name, around)).collect(),
        ));
    }
    unique(&mut suites);
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"");
    attribute(
        &mut out,
        &format!("{} {}", report.tool.name, report.command),
    );
    let all: Vec<&Case> = suites.iter().flat_map(|(_, cases)| cases).collect();
    let _ = writeln!(out, "\" {}>", counts(&all, false));
    for (name, cases) in &suites {
        out.push_str("  <testsuite name=\"");
        attribute(&mut out, name);
        let _ = writeln!(
            out,
            "\" {}>",
            counts(&cases.iter().collect::<Vec<_>>(), true)
        );
        for case in cases {
            one(&mut out, case);
        }
        out.push_str("  </testsuite>\n");
    }
    out.push_str("</testsuites>\n");
    out
}

/// Readers take two cases of one class and name for one that ran twice, and two suites of one name for one.
fn unique(suites: &mut [(String, Vec<Case>)]) {
    let mut seen: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    for (suite, cases) in suites {
        let nth = names.entry(suite.clone()).or_default();
        *nth += 1;
        if *nth > 1 {
            let _ = write!(suite, " ({nth})");
        }
        for case in cases {
            let nth = seen
                .entry((case.class.clone(), case.name.clone()))
                .or_default();
            *nth += 1;
            if *nth > 1 {
                let _ = write!(case.name, " ({nth})");
            }
        }
    }
}

/// `of_suite`: the outermost element counts no skipped ones.
fn counts(cases: &[&Case], of_suite: bool) -> String {
    let count = |of: fn(&End) -> bool| cases.iter().filter(|c| of(&c.end)).count();
    let mut out = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\" time=\"0\"",
        cases.len(),
        count(|e| matches!(e, End::Failed(..))),
        count(|e| matches!(e, End::Error(_))),
    );
    if of_suite {
        let skipped = count(|e| matches!(e, End::Skipped(_)));
        let _ = write!(out, " skipped=\"{skipped}\"");
    }
    out
}

/// Trust is never green without evidence: what is not proven is skipped.
fn trust(report: &Report, around: Surroundings<'_>) -> Case {
    let mut text = report.verdict.clone();
    for line in left_out::lines(report) {
        let _ = write!(text, "\n{line}");
    }
    let failed = report.trust == Trust::Untrusted
        || (around.require_trusted && report.trust != Trust::Trusted)
        || (around.fail_on != FailOn::Never && report.judged_nothing());
    let end = match report.trust {
        _ if failed => End::Failed(report.trust.word().to_owned(), text),
        Trust::Trusted | Trust::NotApplicable => End::Said(text),
        Trust::Unproven | Trust::Untrusted => End::Skipped(text),
    };
    Case {
        class: "trust".to_owned(),
        name: "the KV path can be trusted".to_owned(),
        end,
    }
}

fn case(finding: &Finding, class: &str, around: Surroundings<'_>) -> Case {
    let end = match finding.status {
        status if status == Status::Fail || around.fail_on.fails(status) => {
            let short = format!("{status}: {}", finding.detail);
            End::Failed(short, full(finding, around))
        }
        Status::Warn | Status::Fail => End::Said(format!("warn: {}", full(finding, around))),
        Status::Skipped => {
            let reason = finding.reason.map_or("skipped", SkipReason::word);
            End::Skipped(format!("{reason}: {}", finding.detail))
        }
        Status::Ok => End::Passed,
    };
    Case {
        class: class.to_owned(),
        name: format!("{} {}", finding.id, finding.name),
        end,
    }
}

fn full(finding: &Finding, around: Surroundings<'_>) -> String {
    let mut text = finding.detail.clone();
    if let Some(place) = around.of(finding) {
        let _ = write!(text, "\nat {}:{}:{}", place.path, place.line, place.column);
    }
    if let Some(fix) = &finding.fix {
        let _ = write!(text, "\nfix: {fix}");
    }
    if let Some(paste) = &finding.rare.paste {
        let _ = write!(text, "\npaste:\n{paste}");
    }
    text
}

fn one(out: &mut String, case: &Case) {
    out.push_str("    <testcase classname=\"");
    attribute(out, &case.class);
    out.push_str("\" name=\"");
    attribute(out, &case.name);
    out.push_str("\" time=\"0\"");
    let (tag, message, text) = match &case.end {
        End::Passed => {
            out.push_str("/>\n");
            return;
        }
        End::Said(text) => ("system-out", None, text.as_str()),
        End::Skipped(message) => ("skipped", Some(message), ""),
        End::Failed(message, text) => ("failure", Some(message), text.as_str()),
        End::Error(message) => ("error", Some(message), ""),
    };
    let _ = write!(out, ">\n      <{tag}");
    if let Some(message) = message {
        out.push_str(" message=\"");
        attribute(out, message);
        out.push('"');
    }
    if matches!(case.end, End::Failed(..) | End::Error(_)) {
        let _ = write!(out, " type=\"{tag}\"");
    }
    if text.is_empty() {
        out.push_str("/>\n");
    } else {
        out.push('>');
        escape(out, text, false);
        let _ = writeln!(out, "</{tag}>");
    }
    out.push_str("    </testcase>\n");
}

fn attribute(out: &mut String, text: &str) {
    escape(out, text, true);
}

/// Text of XML 1.0. Characters that it does not allow at all, not even as references, become `\u{..}`.
fn escape(out: &mut String, text: &str, attribute: bool) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' if attribute => out.push_str("&quot;"),
            // Readers turn these into blanks otherwise.
            '\n' if attribute => out.push_str("&#10;"),
            '\t' if attribute => out.push_str("&#9;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {
                out.extend(c.escape_unicode());
            }
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::place::tests::{here, hostile};
    use crate::report::FailOn;

    #[test]
    fn hostile_text_stays_text() {
        let out = render(&hostile(), here());
        assert!(!out.contains("<img") && !out.contains("]]>"), "{out}");
        let allowed = |c: char| !c.is_control() || c == '\n' || c == '\t';
        assert!(out.chars().all(|c| allowed(c) && c != '\u{fffe}'), "{out}");
        assert!(
            out.contains("&lt;img src=x&gt;") && out.contains("\\u{1}"),
            "{out}"
        );
    }

    #[test]
    fn a_warn_fails_where_the_run_fails_on_it() {
        let mut report = hostile();
        for finding in report
            .checks
            .iter_mut()
            .filter(|f| f.status == Status::Fail)
        {
            finding.status = Status::Warn;
        }
        let out = render(&report, here());
        assert!(
            out.contains("<system-out>warn: ") && !out.contains("message=\"warn: "),
            "{out}"
        );
        let strict = Surroundings {
            fail_on: FailOn::Warn,
            ..here()
        };
        assert!(render(&report, strict).contains("message=\"warn: "));
    }

    #[test]
    fn trust_is_green_only_where_it_was_proven() {
        let mut report = hostile();
        let mut said = |trust, require_trusted| {
            report.trust = trust;
            let around = Surroundings {
                require_trusted,
                ..here()
            };
            let out = render(&report, around);
            let suite = out.split("</testsuite>").next().unwrap_or_default();
            let tags = ["<failure", "<skipped", "<system-out"];
            let tag = tags.into_iter().find(|tag| suite.contains(tag));
            tag.unwrap_or_default().to_owned()
        };
        assert_eq!(said(Trust::Untrusted, false), "<failure");
        assert_eq!(said(Trust::Unproven, false), "<skipped");
        assert_eq!(said(Trust::Unproven, true), "<failure");
        assert_eq!(said(Trust::NotApplicable, true), "<failure");
        assert_eq!(said(Trust::Trusted, true), "<system-out");
    }
}
