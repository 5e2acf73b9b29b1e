//! Markdown for a comment: the verdict, what to fix first, the transfers. Short enough for one comment, whatever was found.

use super::left_out;
use super::place::{Surroundings, object};
use crate::report::{Fix, PairReport, Report, Status, Trust};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// A comment on GitHub holds 65,536 characters, and whoever posts it may add a line. Counted in bytes, which are no fewer.
const LIMIT: usize = 65_000;
/// Kept free for what is said of parts that had no room.
const RESERVE: usize = 400;
/// Ends of a matrix beyond which it is a list.
const MATRIX: usize = 12;
/// Longest text of one place.
const TEXT: usize = 2_000;

/// A text that knows when it is full.
struct Comment {
    text: String,
    left_out: usize,
}

impl Comment {
    /// Adds a part as a whole, or counts it.
    fn add(&mut self, part: &str) {
        if self.text.len() + part.len() + RESERVE > LIMIT {
            self.left_out += 1;
        } else {
            self.text.push_str(part);
        }
    }
}

/// The whole comment.
pub fn render(report: &Report, around: Surroundings<'_>) -> String {
    let (sign, words) = match report.trust {
        Trust::Trusted => ("✅", "trusted"),
        Trust::NotApplicable => ("➖", "not applicable"),
        Trust::Unproven => ("❔", "not proven"),
        Trust::Untrusted => ("❌", "not trusted"),
    };
    let mut out = Comment {
        text: format!("## {sign} Interconnect: {words}\n\n"),
        left_out: 0,
    };
    out.add(&format!("{}\n\n", prose(&report.verdict)));
    let (c, n) = (&report.coverage, &report.counts);
    out.add(&format!(
        "Observed {} of {} checks: {} ok, {} warn, {} fail, {} skipped.\n\n",
        c.observed, c.applicable, n.ok, n.warn, n.fail, n.skipped
    ));
    for error in &report.errors {
        // Below the sentence may stand the line that it is about, with a mark under the place.
        let message = error.message.as_str();
        let (sentence, excerpt) = message.split_once('\n').unwrap_or((message, ""));
        let (object, sentence) = (prose(&error.object), prose(sentence));
        let excerpt = match excerpt {
            "" => String::new(),
            excerpt => block(excerpt, ""),
        };
        let (_, what) = error.trouble();
        let what = what.replacen('c', "C", 1);
        out.add(&format!("**{what}:** {object}: {sentence}\n\n{excerpt}"));
    }
    let lines = left_out::lines(report);
    if !lines.is_empty() {
        let items: Vec<String> = lines.iter().map(|l| format!("- {}\n", prose(l))).collect();
        out.add(&format!("**Left out on request**\n\n{}\n", items.concat()));
    }
    for (title, status) in [("Fix first", Status::Fail), ("Worth a look", Status::Warn)] {
        let mut fixes = report
            .fix_first
            .iter()
            .filter(|f| f.status == status)
            .peekable();
        if fixes.peek().is_some() {
            out.add(&format!("### {title}\n\n"));
        }
        for (n, fix) in fixes.enumerate() {
            out.add(&one_fix(n + 1, fix, around));
        }
    }
    pairs(&mut out, report);
    open_questions(&mut out, report);
    if let Some(next) = &report.next {
        out.add(&format!("Next: {}\n\n", prose(next)));
    }
    let mut text = out.text;
    if out.left_out > 0 {
        let _ = write!(
            text,
            "{} more parts had no room in a comment; `-o json` and `-o text` have them.\n\n",
            out.left_out
        );
    }
    let _ = writeln!(
        text,
        "<sub>{} {}</sub>",
        report.tool.name, report.tool.version
    );
    text
}

/// What trust needs beside the proven lanes, and what would let it be judged.
fn open_questions(out: &mut Comment, report: &Report) {
    /// More than this are counted.
    const SHOWN: usize = 5;
    let held = report.open_questions();
    if held.is_empty() {
        return;
    }
    let mut text = "**Needed for trust and not judged**\n\n".to_owned();
    for (finding, more) in held.iter().take(SHOWN) {
        let also = match more {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        let fix = finding.fix.as_ref().map(|fix| format!(" Fix: {fix}."));
        let _ = writeln!(
            text,
            "- {} {} on {}{also}: {}.{}",
            prose(&finding.name),
            finding.id,
            prose(&object(&finding.target)),
            prose(&finding.detail),
            prose(&fix.unwrap_or_default())
        );
    }
    if held.len() > SHOWN {
        let _ = writeln!(text, "- and {} more", held.len() - SHOWN);
    }
    text.push('\n');
    out.add(&text);
}

fn one_fix(number: usize, fix: &Fix, around: Surroundings<'_>) -> String {
    let mut on = object(&fix.target);
    for also in fix.also.iter().take(5) {
        let _ = write!(on, ", {}", object(also));
    }
    if fix.also.len() > 5 {
        let _ = write!(on, " and {} more", fix.also.len() - 5);
    }
    let mut out = format!(
        "<details>\n<summary>{number}. <b>{}</b> {} on {}</summary>\n\n{}\n\n",
        prose(&fix.name),
        fix.id,
        prose(&on),
        prose(&fix.detail),
    );
    for evidence in fix.evidence.iter().take(3) {
        let place = around.place(evidence);
        let place = place.map(|p| format!("{}:{}:{}", p.path, p.line, p.column));
        let place = place
            .or_else(|| evidence.ask.as_deref().map(str::to_owned))
            .or_else(|| evidence.path.clone());
        let _ = write!(out, "{}\n\n", prose(&place.unwrap_or_default()));
        out.push_str(&block(&evidence.excerpt, ""));
    }
    if let Some(action) = &fix.fix {
        let _ = write!(out, "**Fix:** {}\n\n", prose(action));
    }
    if let Some(paste) = &fix.paste {
        out.push_str(&block(paste, "yaml"));
    }
    if !fix.consequences.is_empty() {
        let names: BTreeSet<&str> = fix.consequences.iter().map(|c| c.name.as_str()).collect();
        let names: Vec<String> = names.into_iter().take(12).map(prose).collect();
        let _ = write!(out, "Follows from it: {}\n\n", names.join(", "));
    }
    out.push_str("</details>\n\n");
    out
}

fn pairs(out: &mut Comment, report: &Report) {
    let made = &report.pairs.made;
    if made.is_empty() {
        return;
    }
    let proven = made.iter().filter(|p| p.proven).count();
    let mut text = format!("### Pairs\n\n{proven} of {} proven", made.len());
    if made.len() < report.pairs.of {
        let _ = write!(text, ", a sample of {}", report.pairs.of);
    }
    text.push_str("; WRITE / READ in GB/s\n\n");
    let names = |of: fn(&PairReport) -> &str| -> BTreeSet<&str> { made.iter().map(of).collect() };
    let (rows, columns) = (names(|p| &p.initiator), names(|p| &p.target));
    if rows.len().max(columns.len()) > MATRIX {
        out.add(&text);
        for p in made.iter().filter(|p| !p.proven) {
            let (from, to, lane) = (prose(&p.initiator), prose(&p.target), prose(&p.lane));
            out.add(&format!("- {from} → {to}: {}, {lane}\n", p.status));
        }
        return out.add("\n");
    }
    let by_ends: BTreeMap<(&str, &str), &PairReport> = made
        .iter()
        .map(|p| ((p.initiator.as_str(), p.target.as_str()), p))
        .collect();
    let heads: Vec<String> = columns.iter().map(|c| prose(c)).collect();
    let _ = write!(
        text,
        "| | {} |\n|---|{}\n",
        heads.join(" | "),
        "---|".repeat(columns.len())
    );
    for row in &rows {
        let cells = columns
            .iter()
            .map(|c| cell(by_ends.get(&(*row, *c)).copied()));
        let cells: Vec<String> = cells.collect();
        let _ = writeln!(text, "| {} | {} |", prose(row), cells.join(" | "));
    }
    text.push('\n');
    out.add(&text);
}

fn cell(pair: Option<&PairReport>) -> String {
    let Some(p) = pair else {
        return "not tried".to_owned();
    };
    let word = if p.proven { "proven" } else { p.status.word() };
    let rate = |r: Option<f64>| r.map_or("-".to_owned(), |r| format!("{r:.1}"));
    format!(
        "{word}<br>{} / {}<br>{}",
        rate(p.write_gbytes),
        rate(p.read_gbytes),
        prose(&p.lane)
    )
}

/// Foreign text as text: whatever could be markup becomes a reference, which can never begin any, be it in Markdown or in
/// HTML; what names people or tickets is parted from its sign by a space of no width.
fn prose(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (n, c) in text.chars().enumerate() {
        if n == TEXT {
            out.push_str("..");
            break;
        }
        match c {
            '@' | '#' => {
                let _ = write!(out, "&#{};&#8203;", u32::from(c));
            }
            '&' | '<' | '>' | '"' | '\'' | '`' | '*' | '_' | '~' | '[' | ']' | '(' | ')' | '{'
            | '}' | '|' | '\\' | '!' | '$' | ':' | '+' | '=' => {
                let _ = write!(out, "&#{};", u32::from(c));
            }
            // A line that begins with it would be a list or a rule.
            '-' if n == 0 => out.push_str("&#45;"),
            c if c.is_whitespace() => out.push(' '),
            c if c.is_control() => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// Foreign lines in a fence that is longer than any row of backticks in them.
fn block(text: &str, language: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let mut out = format!("{fence}{language}\n");
    let mut left = TEXT;
    for line in text.split(['\n', '\r']) {
        let line: String = line.chars().take(left).collect();
        left = left.saturating_sub(line.chars().count());
        let _ = writeln!(out, "{line}");
        if left == 0 {
            break;
        }
    }
    let _ = write!(out, "{fence}\n\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::place::tests::{HOSTILE, here, hostile};

    /// Without the blocks of code, in which nothing is markup.
    fn outside_of_code(text: &str) -> String {
        let mut out = String::new();
        let mut fence: Option<String> = None;
        for line in text.lines() {
            let ticks: String = line.chars().take_while(|c| *c == '`').collect();
            match &fence {
                Some(open)
                    if ticks.len() >= open.len() && line.trim_end_matches('`').is_empty() =>
                {
                    fence = None
                }
                Some(_) => {}
                None if ticks.len() >= 3 => fence = Some(ticks),
                None => out.push_str(&format!("{line}\n")),
            }
        }
        assert!(fence.is_none(), "a block is not closed: {text}");
        out
    }

    #[test]
    fn hostile_text_is_no_markup() {
        let text = outside_of_code(&render(&hostile(), here()));
        for word in ["<img", "@octocat", "](", "`", " #1", "http:", "*b*"] {
            assert!(!text.contains(word), "{word}: {text}");
        }
        assert_eq!(
            text.matches("<details>").count(),
            text.matches("</details>").count(),
            "{text}"
        );
        assert!(text.contains("&#64;&#8203;octocat"), "{text}");
    }

    #[test]
    fn a_comment_has_room_for_no_more_than_it_holds() {
        let mut report = hostile();
        let one = report.fix_first[0].clone();
        report.fix_first = (0..500).map(|_| one.clone()).collect();
        report.verdict = HOSTILE.repeat(100);
        report.errors = (0..500).flat_map(|_| report.errors.clone()).collect();
        let text = render(&report, here());
        assert!(
            text.len() <= LIMIT && text.len() > LIMIT / 2,
            "{}",
            text.len()
        );
        assert!(text.contains("more parts had no room"), "{text}");
        outside_of_code(&text);
    }
}
