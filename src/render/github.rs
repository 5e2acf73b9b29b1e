//! Annotations of GitHub Actions: one command a line, each cause once, in the order in which to fix them.

use super::left_out;
use super::place::{Surroundings, object};
use crate::report::{FailOn, Fix, Report, Status, Trust};
use std::fmt::Write;

/// So many causes are annotated; GitHub shows ten of each level.
const SHOWN: usize = 50;

/// One line for each cause, each input that could not be read or used, and the verdict.
pub fn render(report: &Report, around: Surroundings<'_>) -> String {
    let mut out = String::new();
    for error in &report.errors {
        let text = format!("{}: {}", error.object, error.message);
        let (_, what) = error.trouble();
        command(&mut out, "error", &[("title", what)], &text);
    }
    for fix in report.fix_first.iter().take(SHOWN) {
        one(&mut out, fix, around);
    }
    let more = report.fix_first.len().saturating_sub(SHOWN);
    if more > 0 {
        let text = format!("and {more} more: the report names all");
        command(&mut out, "notice", &[], &text);
    }
    for line in left_out::lines(report) {
        command(&mut out, "notice", &[("title", "left out")], &line);
    }
    let failed = around.require_trusted && report.trust != Trust::Trusted
        || around.fail_on != FailOn::Never && report.judged_nothing();
    let level = if failed { "error" } else { "notice" };
    let title = format!("interconnect: {}", report.trust.word());
    command(&mut out, level, &[("title", &title)], &report.verdict);
    out
}

fn one(out: &mut String, fix: &Fix, around: Surroundings<'_>) {
    let fails = fix.status == Status::Fail || around.fail_on.fails(fix.status);
    let mut on = object(&fix.target);
    for also in fix.also.iter().take(5) {
        let _ = write!(on, ", {}", object(also));
    }
    if fix.also.len() > 5 {
        let _ = write!(on, " and {} more", fix.also.len() - 5);
    }
    let mut text = format!("{on}: {}", fix.detail);
    if let Some(action) = &fix.fix {
        let _ = write!(text, "\nfix: {action}");
    }
    if let Some(paste) = &fix.paste {
        let _ = write!(text, "\npaste:\n{paste}");
    }
    if !fix.consequences.is_empty() {
        // One name may follow on several objects.
        let mut names: Vec<&str> = Vec::new();
        for consequence in &fix.consequences {
            if !names.contains(&consequence.name.as_str()) {
                names.push(&consequence.name);
            }
        }
        let more = if names.len() > 5 { ", .." } else { "" };
        names.truncate(5);
        let _ = write!(text, "\nfollows from it: {}{more}", names.join(", "));
    }
    let title = format!("{} {}", fix.id, fix.name);
    let place = fix.evidence.iter().find_map(|e| around.place(e));
    let at = place.map(|p| (p.path, p.line.to_string(), p.column.to_string()));
    let mut properties = Vec::new();
    if let Some((path, line, column)) = &at {
        properties.extend([("file", path.as_str()), ("line", line), ("col", column)]);
    }
    properties.push(("title", &title));
    command(
        out,
        if fails { "error" } else { "warning" },
        &properties,
        &text,
    );
}

/// Writes a workflow command. A command ends with its line, so nothing in it may break one.
fn command(out: &mut String, name: &str, properties: &[(&str, &str)], message: &str) {
    let _ = write!(out, "::{name}");
    for (n, (key, value)) in properties.iter().enumerate() {
        out.push_str(if n == 0 { " " } else { "," });
        let _ = write!(out, "{key}=");
        encode(out, value, true);
    }
    out.push_str("::");
    encode(out, message, false);
    out.push('\n');
}

/// What the runner decodes: `%`, CR and LF everywhere, `:` and `,` in properties. Other line breaks and controls say
/// nothing to a reader.
fn encode(out: &mut String, text: &str, property: bool) {
    for c in text.chars() {
        match c {
            '%' => out.push_str("%25"),
            '\r' => out.push_str("%0D"),
            '\n' => out.push_str("%0A"),
            ':' if property => out.push_str("%3A"),
            ',' if property => out.push_str("%2C"),
            '\t' => out.push(' '),
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => {
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
    fn hostile_text_is_no_command() {
        let report = hostile();
        let out = render(&report, here());
        let lines: Vec<&str> = out.split(['\n', '\r', '\u{2028}']).collect();
        let wanted = report.errors.len() + report.fix_first.len() + 1;
        assert_eq!(lines.len(), wanted + 1, "{out}");
        for line in &lines[..wanted] {
            let known = ["::error ", "::warning ", "::notice "];
            assert!(known.iter().any(|k| line.starts_with(k)), "{line}");
            // Properties end at the first `::`, and no foreign comma or colon stands among them.
            let properties = line.split_once(' ').unwrap_or_default().1;
            let properties = properties.split("::").next().unwrap_or_default();
            for property in properties.split(',') {
                let key = property.split('=').next().unwrap_or_default();
                assert!(["file", "line", "col", "title"].contains(&key), "{line}");
                assert!(!property.contains(':'), "{line}");
            }
        }
        assert!(out.contains("%250A"), "a percent sign of its own stays one");
    }

    #[test]
    fn levels_follow_what_fails_the_run() {
        let mut report = hostile();
        for fix in &mut report.fix_first {
            fix.status = Status::Warn;
        }
        report.errors.clear();
        assert!(render(&report, here()).starts_with("::warning "));
        let strict = Surroundings {
            fail_on: FailOn::Warn,
            require_trusted: true,
            ..here()
        };
        let out = render(&report, strict);
        assert!(
            out.lines().all(|line| line.starts_with("::error ")),
            "{out}"
        );
    }
}
