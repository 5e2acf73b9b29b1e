//! Small parts of sentences that many checks say.

/// `1 port`, `2 ports`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
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

/// The first clause of a sentence, of at most 120 characters.
pub(crate) fn first_clause(detail: &str) -> String {
    let end = [": ", "; ", ", so ", ", and "]
        .iter()
        .filter_map(|mark| detail.find(mark))
        .min();
    crate::sanitise::line(&detail[..end.unwrap_or(detail.len())], 120)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural_and_no_range() {
        assert_eq!(
            [counted(1, "port"), counted(2, "port")],
            ["1 port", "2 ports"]
        );
        assert_eq!(span(&["mlx5_0"]), "mlx5_0");
        assert_eq!(span(&["mlx5_0", "mlx5_1"]), "mlx5_0 and mlx5_1");
        assert_eq!(span(&["a", "b", "c"]), "a to c");
        assert_eq!(listed(&["a", "b", "c", "d"]), "a, b, c, d");
        assert_eq!(listed(&["a", "b", "c", "d", "e"]), "a, b, c and 2 more");
    }
}
