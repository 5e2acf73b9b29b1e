//! What changed since an earlier run, one line each.

use super::text::paragraph;
use crate::report::Changes;

/// More lines than this are left out, unless everything is shown.
const LINES: usize = 20;
/// So many reasons not to compare are shown.
const REASONS: usize = 3;

/// Draws the section. `heading`: its title, styled.
pub(super) fn render(
    out: &mut String,
    changes: &Changes,
    heading: &str,
    verbose: bool,
    width: usize,
) {
    let head = format!("{heading} {} ({})", changes.baseline, changes.trust);
    paragraph(out, &head, "", width);
    if changes.changes.is_empty() {
        paragraph(
            out,
            "nothing that could be compared has changed",
            "  ",
            width,
        );
    }
    let limit = if verbose { usize::MAX } else { LINES };
    for change in changes.changes.iter().take(limit) {
        let line = format!(
            "{}: {}: {} -> {}",
            change.subject, change.what, change.was, change.now
        );
        paragraph(out, &line, "  ", width);
    }
    if changes.changes.len() > limit {
        let more = changes.changes.len() - limit;
        paragraph(
            out,
            &format!("and {more} more: --verbose shows all"),
            "  ",
            width,
        );
    }
    let limit = if verbose { usize::MAX } else { REASONS };
    for what in changes.not_compared.iter().take(limit) {
        paragraph(out, &format!("not compared: {what}"), "  ", width);
    }
    if changes.not_compared.len() > limit {
        let more = changes.not_compared.len() - limit;
        let line = format!("not compared: {more} more, --verbose shows all");
        paragraph(out, &line, "  ", width);
    }
    if verbose {
        let line = format!("a speed has changed from {}", changes.speed_threshold);
        paragraph(out, &line, "  ", width);
    }
    out.push('\n');
}
