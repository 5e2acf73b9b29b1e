//! Which NIXL each container has, with its UCX and plugins, as a person reads it: equal containers once.

use super::text::{colour, hanging, place, styled};
use crate::checks::words::first_clause;
use crate::report::{Finding, Report, Status};

/// So many names stand before what they have in common.
const NAMES: usize = 3;

/// Draws the section. `heading`: its title, styled.
pub(super) fn render(
    out: &mut String,
    report: &Report,
    heading: &str,
    verbose: bool,
    width: usize,
) {
    let mut groups: Vec<(Vec<String>, &Finding)> = Vec::new();
    for finding in report.checks.iter().filter(|f| f.name == "nixl") {
        let name = match finding.target.is_pasted() {
            true => String::new(),
            false => place(&finding.target, false),
        };
        match groups.iter_mut().find(|(_, of)| same(of, finding)) {
            Some((names, _)) => names.push(name),
            None => groups.push((vec![name], finding)),
        }
    }
    if groups.is_empty() {
        return;
    }
    out.push_str(heading);
    out.push('\n');
    for (names, finding) in groups {
        let word = styled(finding.status.word(), colour(finding.status));
        let shown = if verbose { usize::MAX } else { NAMES };
        let mut list = names
            .iter()
            .take(shown)
            .cloned()
            .collect::<Vec<_>>()
            .join(", ");
        if names.len() > shown {
            list = format!("{list} and {} more", names.len() - shown);
        }
        // What is to be mended stands below in full.
        let said = match finding.status {
            Status::Ok | Status::Skipped => finding.detail.clone(),
            Status::Warn | Status::Fail => first_clause(&finding.detail),
        };
        let colon = if list.is_empty() { "" } else { ": " };
        hanging(
            out,
            &format!("  {word}  {list}{colon}{said}"),
            "",
            "      ",
            width,
        );
    }
    out.push('\n');
}

fn same(one: &Finding, other: &Finding) -> bool {
    (one.status, &one.detail) == (other.status, &other.detail)
}
