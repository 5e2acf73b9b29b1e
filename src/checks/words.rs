//! Small parts of sentences that many checks say.

/// `1 port`, `2 ports`.
pub(crate) fn counted(count: impl std::fmt::Display, noun: &str) -> String {
    let count = count.to_string();
    let end = if count == "1" { "" } else { "s" };
    format!("{count} {noun}{end}")
}

/// `the only port is`, `1 of 8 ports is`, `2 of 8 ports are`: some of all, with the verb for one and for many.
pub(crate) fn part(some: usize, all: usize, noun: &str, (is, are): (&str, &str)) -> String {
    match (some, all) {
        (1, 1) => format!("the only {noun} {is}"),
        (1, _) => format!("1 of {all} {noun}s {is}"),
        _ => format!("{some} of {all} {noun}s {are}"),
    }
}

/// It says `1 ports`, or `all 1 ports`. What was given is quoted, or is the value in front, and may say what it likes.
pub(crate) fn counts_one_as_many(text: &str) -> bool {
    /// Words that end like a plural and are none.
    const OTHERS: &[&str] = &[
        "is", "has", "was", "does", "as", "this", "its", "ms", "us", "s",
    ];
    let is_setting = |text: &str| {
        text.split_once('=')
            .is_some_and(|(name, _)| !name.contains(' '))
    };
    let own = match text.split_once(": ") {
        Some((setting, rest)) if is_setting(setting) => rest,
        None if is_setting(text) => "",
        _ => text,
    };
    let own = without_quotations(own);
    let words: Vec<&str> = std::iter::once(":").chain(own.split(' ')).collect();
    words.windows(3).any(|three| {
        let [before, count, noun] = three else {
            return false;
        };
        let noun = noun.trim_end_matches([',', ';', ':', '.', ')']);
        let plural = noun.ends_with('s') && !noun.ends_with("ss") && !OTHERS.contains(&noun);
        let word = noun.chars().all(|c| c.is_ascii_alphabetic());
        // The value as the subject of its sentence, behind the setting or the clause that says how it is read:
        // `NCCL_IB_DISABLE=1: 1 switches ..`, `"1,1" is read as 1; 1 switches ..`.
        let is_value = before.ends_with([':', ';']) && own.len() < text.len();
        count.trim_start_matches('(') == "1" && plural && word && !is_value
    })
}

/// A text without what stands in double quotes or backquotes in it. A mark that is never closed is none.
fn without_quotations(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['"', '`']) {
        let (before, from) = rest.split_at(at);
        let (mark, inside) = from.split_at(1);
        out.push_str(before);
        match inside.find(mark) {
            Some(end) => rest = &inside[end + 1..],
            None => {
                out.push_str(mark);
                rest = inside;
            }
        }
    }
    out + rest
}

/// What to do about JSON that is laid over TensorRT-LLM's configuration and could not be read. Dynamo starts with one of the two forms
/// alone, so the other is no way out.
pub(crate) fn write_out(what: &str) -> String {
    format!("write the JSON of {what} out, without references to variables")
}

/// Some of many: all of up to four, else three and how many more.
pub(crate) fn listed(all: &[&str]) -> String {
    match all {
        [_, _, _, _, _, ..] => format!("{} and {} more", all[..3].join(", "), all.len() - 3),
        few => few.join(", "),
    }
}

/// Names that follow each other: `mlx5_0`, `mlx5_0 and mlx5_1`, `mlx5_0 to mlx5_7`.
pub(crate) fn span(names: &[&str]) -> String {
    match names {
        [] => "none".to_owned(),
        [one] => (*one).to_owned(),
        [one, other] => format!("{one} and {other}"),
        [first, .., last] => format!("{first} to {last}"),
    }
}

/// What is wrong with a value, in a few words: `UCX_TLS=tcp: cuda_copy is not enabled`. A reason may begin with the value in
/// quotes, alone or as the subject of its sentence.
pub(crate) fn of_value(variable: &str, shown: &str, reason: &str) -> String {
    let reason = match reason.split_once("\": ") {
        Some((value, rest)) if value.starts_with('"') => rest,
        _ => reason,
    };
    let clause = first_clause(reason);
    match reason.starts_with('"') {
        true => format!("{variable}={clause}"),
        false => format!("{shown}: {clause}"),
    }
}

/// What happened, and what to do, of the sentence that says why something could not be looked at: `cannot exec in pod l/d-0:
/// the API server answered 502: bad gateway; look at the log of the API server`.
pub(crate) fn trouble(detail: &str) -> (String, Option<&str>) {
    let inner = match detail.strip_prefix("cannot ") {
        Some(rest) => rest.split_once(": ").map_or(detail, |(_, inner)| inner),
        None => detail,
    };
    match inner.rsplit_once("; ") {
        Some((what, remedy)) => (first_clause(what), Some(remedy)),
        None => (first_clause(inner), None),
    }
}

/// Why a container does not run, of the sentence that says so: `cannot exec in pod l/d-0: it does not run (the pod is being
/// deleted); wait until it is gone`.
pub(crate) fn why_not_running(detail: &str) -> Option<&str> {
    let (_, rest) = detail.split_once("it does not run (")?;
    Some(rest.rsplit_once(");")?.0)
}

/// The first clause of a sentence, of at most 120 characters. What stands in brackets or quotes does not end it.
pub(crate) fn first_clause(detail: &str) -> String {
    let mut open = 0usize;
    let mut quoted = false;
    let end = detail.char_indices().find_map(|(at, c)| {
        match c {
            '"' => quoted = !quoted,
            '(' | '[' => open += 1,
            ')' | ']' => open = open.saturating_sub(1),
            _ => {}
        }
        let ends = |mark: &&str| detail[at..].starts_with(*mark);
        let is_end = [": ", "; ", ", so ", ", and "].iter().any(ends);
        (is_end && open == 0 && !quoted).then_some(at)
    });
    crate::sanitise::line(&detail[..end.unwrap_or(detail.len())], 120)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_brackets_or_quotes_ends_no_clause() {
        for (sentence, clause) in [
            (
                "nothing carries data (unknown: \"x\"), so it stops",
                "nothing carries data (unknown: \"x\")",
            ),
            ("it says \"a: b; c\"; and more", "it says \"a: b; c\""),
            ("[a, so b] is; not", "[a, so b] is"),
            ("never closed (a: b", "never closed (a: b"),
            ("plain: rest", "plain"),
            ("whole", "whole"),
        ] {
            assert_eq!(first_clause(sentence), clause);
        }
    }

    #[test]
    fn a_sentence_of_trouble_says_what_happened_and_what_to_do() {
        for (detail, what, remedy) in [
            (
                "cannot exec in pod l/d-0 container main: the API server answered 502: bad; gateway; look at the log of the API server",
                "the API server answered 502",
                Some("look at the log of the API server"),
            ),
            (
                "pod l/d-0 has no container x; give -c NAME, one of: main",
                "pod l/d-0 has no container x",
                Some("give -c NAME, one of: main"),
            ),
            ("it said nothing", "it said nothing", None),
        ] {
            assert_eq!(trouble(detail), (what.to_owned(), remedy));
        }
    }

    #[test]
    fn one_is_no_plural_and_no_range() {
        assert_eq!(
            [counted(1, "port"), counted(2, "port")],
            ["1 port", "2 ports"]
        );
        let said = |reason: &str| of_value("UCX_TLS", "UCX_TLS=tcp", reason);
        assert_eq!(
            said("\"tcp\": cuda_copy is not enabled, so UCX does not see it"),
            "UCX_TLS=tcp: cuda_copy is not enabled"
        );
        assert_eq!(said("no RDMA; and more"), "UCX_TLS=tcp: no RDMA");
        assert_eq!(
            said("\"tcp\" pins TCP, so it is slow"),
            "UCX_TLS=\"tcp\" pins TCP"
        );
        let is = ("is", "are");
        assert_eq!(part(1, 1, "port", is), "the only port is");
        assert_eq!(part(1, 2, "port", is), "1 of 2 ports is");
        assert_eq!(part(2, 2, "port", is), "2 of 2 ports are");
        for (text, bad) in [
            ("1 ports are up", true),
            ("all 1 GPUs, and", true),
            ("(1 lines)", true),
            ("NCCL_IB_DISABLE=1: 1 switches it off", false),
            (
                "NCCL_IB_DISABLE=1,1: \"1,1\" is read as 1; 1 switches it off",
                false,
            ),
            ("NCCL_IB_DISABLE=a 1 NICs: \"a 1 NICs\" is read as 0", false),
            ("UCX says `1 ports are down` and more", false),
            ("a \" that is open, and 1 ports", true),
            ("UCX_MAX_RMA_RAILS=1: over up to 1 NICs", true),
            ("1 port is up", false),
            ("1 is up", false),
            ("1 of 2 ports", false),
            ("21 ports", false),
        ] {
            assert_eq!(counts_one_as_many(text), bad, "{text}");
        }
        assert_eq!(span(&["mlx5_0"]), "mlx5_0");
        assert_eq!(span(&["mlx5_0", "mlx5_1"]), "mlx5_0 and mlx5_1");
        assert_eq!(span(&["a", "b", "c"]), "a to c");
        assert_eq!(listed(&["a", "b", "c", "d"]), "a, b, c, d");
        assert_eq!(listed(&["a", "b", "c", "d", "e"]), "a, b, c and 2 more");
    }
}
