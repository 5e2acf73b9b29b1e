//! Transfers as a person reads them: one entry for each that is not proven, and a matrix where there are several.

use super::text::{Options, colour, paragraph, styled};
use crate::checks::words::counted;
use crate::report::{PairReport, Report, Status};
use anstyle::Style;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// A name in a matrix has at most this many columns; the end of a pod's name tells it from its siblings.
const NAME: usize = 28;
/// A cell with both rates and a word.
const RATES: usize = 22;
/// A cell with one sign, and a blank beside it.
const SIGN: usize = 2;
/// At most this many entries below a matrix, and as many names in each; `--verbose` shows all.
const SHOWN: usize = 8;

/// The lane of a pair through which nothing went.
pub(crate) const NOTHING: &str = "nothing was moved";

pub(super) fn pairs(out: &mut String, report: &Report, options: Options, width: usize) {
    let made = &report.pairs.made;
    if made.is_empty() {
        return;
    }
    let sample = if made.len() < report.pairs.of {
        format!(" (a sample of {})", report.pairs.of)
    } else {
        String::new()
    };
    let title = styled("Pairs", Style::new().bold());
    let _ = writeln!(out, "{title}{sample}  WRITE / READ in GB/s");
    if made.len() > 1 {
        matrix(out, made, width);
    }
    entries(out, made, options, width);
    out.push('\n');
}

fn rate(rate: Option<f64>) -> String {
    rate.map_or("-".to_owned(), |r| format!("{r:.1}"))
}

/// Initiators down, targets across. Rates where all columns fit beside each other, else one sign for each pair.
fn matrix(out: &mut String, made: &[PairReport], width: usize) {
    let column = |name: fn(&PairReport) -> &String| -> Vec<&str> {
        let names: BTreeSet<&str> = made.iter().map(|p| name(p).as_str()).collect();
        names.into_iter().collect()
    };
    let (rows, columns) = (column(|p| &p.initiator), column(|p| &p.target));
    let by_ends: BTreeMap<(&str, &str), &PairReport> = made
        .iter()
        .map(|p| ((p.initiator.as_str(), p.target.as_str()), p))
        .collect();
    let widest = |names: &[&str]| names.iter().map(|n| short(n).chars().count()).max();
    let first = widest(&rows).unwrap_or(0);
    let each = widest(&columns).unwrap_or(0).max(RATES);
    let room = width.saturating_sub(first + 4);
    if columns.len() * (each + 2) <= room + 2 {
        let heads: Vec<String> = columns
            .iter()
            .map(|c| format!("{:<each$}", short(c)))
            .collect();
        let _ = writeln!(out, "  {:first$}  {}", "", heads.join("  ").trim_end());
        for row in &rows {
            let cells: Vec<String> = columns
                .iter()
                .map(|c| format!("{:<each$}", cell(by_ends.get(&(*row, *c)).copied())))
                .collect();
            let row = short(row);
            let _ = writeln!(out, "  {row:<first$}  {}", cells.join("  ").trim_end());
        }
        return;
    }
    let fit = (room / SIGN).max(1);
    for (n, block) in columns.chunks(fit).enumerate() {
        let from = n * fit + 1;
        let numbers: Vec<String> = (from..from + block.len()).map(|n| n.to_string()).collect();
        // Numbers stand upright, so that a column is as wide as its sign.
        let digits = numbers.last().map_or(0, String::len);
        for digit in 0..digits {
            let line: String = numbers
                .iter()
                .map(|number| {
                    let place = digit + number.len();
                    let sign = place
                        .checked_sub(digits)
                        .and_then(|at| number.chars().nth(at));
                    format!("{:<SIGN$}", sign.unwrap_or(' '))
                })
                .collect();
            let _ = writeln!(out, "  {:first$}  {}", "", line.trim_end());
        }
        for row in &rows {
            let signs: String = block
                .iter()
                .map(|c| format!("{:<SIGN$}", sign(by_ends.get(&(*row, *c)).copied())))
                .collect();
            let row = short(row);
            let _ = writeln!(out, "  {row:<first$}  {}", signs.trim_end());
        }
    }
    let count = |wanted: &str| {
        let all = rows
            .iter()
            .flat_map(|r| columns.iter().map(move |c| (*r, *c)));
        all.filter(|ends| sign(by_ends.get(ends).copied()) == wanted)
            .count()
    };
    let legend: Vec<String> = SIGNS
        .iter()
        .map(|(sign, words)| (sign, words, count(sign)))
        .filter(|(_, _, n)| *n > 0)
        .map(|(sign, words, n)| format!("{sign} {words} ({n})"))
        .collect();
    paragraph(out, &legend.join("   "), "  ", width);
    let _ = writeln!(out, "  columns:");
    let digits = columns.len().to_string().len();
    let names: Vec<String> = (1..)
        .zip(&columns)
        .map(|(n, name)| format!("{n:>digits$} {}", short(name)))
        .collect();
    let wide = digits + 1 + widest(&columns).unwrap_or(0);
    for line in names.chunks((width.saturating_sub(2) / (wide + 2)).max(1)) {
        let line: Vec<String> = line.iter().map(|name| format!("{name:<wide$}")).collect();
        let _ = writeln!(out, "    {}", line.join("  ").trim_end());
    }
    for (what, of) in [
        (
            "WRITE",
            (|p: &PairReport| p.write_gbytes) as fn(&PairReport) -> Option<f64>,
        ),
        ("READ", |p: &PairReport| p.read_gbytes),
    ] {
        let mut rates: Vec<f64> = made.iter().filter(|p| p.proven).filter_map(of).collect();
        rates.sort_by(f64::total_cmp);
        if let (Some(least), Some(most)) = (rates.first(), rates.last()) {
            let _ = writeln!(
                out,
                "  {what} of proven pairs: {least:.1} to {most:.1} GB/s"
            );
        }
    }
}

fn cell(pair: Option<&PairReport>) -> String {
    let Some(p) = pair else {
        return "not tried".to_owned();
    };
    let word = if p.proven { "proven" } else { p.status.word() };
    format!("{} / {}  {word}", rate(p.write_gbytes), rate(p.read_gbytes))
}

const SIGNS: &[(&str, &str)] = &[
    ("+", "proven"),
    ("o", "ok, not proven"),
    ("w", "warn"),
    ("?", "skipped"),
    ("F", "fail"),
    (".", "not tried"),
];

fn sign(pair: Option<&PairReport>) -> &'static str {
    match pair.map(|p| (p.proven, p.status)) {
        None => ".",
        Some((_, Status::Fail)) => "F",
        Some((true, _)) => "+",
        Some((_, Status::Ok)) => "o",
        Some((_, Status::Warn)) => "w",
        Some((_, Status::Skipped)) => "?",
    }
}

/// The beginning and the end of a long name.
fn short(name: &str) -> String {
    const END: usize = 14;
    let count = name.chars().count();
    if count <= NAME {
        return name.to_owned();
    }
    let begin: String = name.chars().take(NAME - END - 1).collect();
    let end: String = name.chars().skip(count - END).collect();
    format!("{begin}~{end}")
}

/// Each transfer, or of many those that are not proven, what is the same of them once.
fn entries(out: &mut String, made: &[PairReport], options: Options, width: usize) {
    let mut groups: Vec<Vec<&PairReport>> = Vec::new();
    for p in made {
        if !(options.verbose || made.len() == 1 || !p.proven) {
            continue;
        }
        let same = |other: &PairReport| {
            (
                other.status,
                other.proven,
                &other.lane,
                &other.memory,
                &other.unproven,
            ) == (p.status, p.proven, &p.lane, &p.memory, &p.unproven)
        };
        match groups.iter_mut().find(|group| same(group[0])) {
            Some(group) if !options.verbose => group.push(p),
            _ => groups.push(vec![p]),
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group[0].status));
    let limit = if options.verbose { usize::MAX } else { SHOWN };
    for group in groups.iter().take(limit) {
        let p = group[0];
        let word = styled(p.status.word(), colour(p.status));
        let mut ends = ends(group, made);
        if ends.len() > limit {
            let rest = ends.split_off(limit);
            let pairs: usize = rest.iter().map(|(_, n)| n).sum();
            ends.push((format!("and {pairs} more"), pairs));
        }
        match &ends[..] {
            [(one, _)] if one.chars().count() + p.status.word().len() + 4 <= width => {
                let _ = writeln!(out, "  {word}  {one}");
            }
            many => {
                let count = match group.len() {
                    1 => "one pair".to_owned(),
                    n => format!("{n} pairs"),
                };
                let _ = writeln!(out, "  {word}  {count}");
                for (ends, _) in many {
                    paragraph(out, ends, "        ", width);
                }
            }
        }
        paragraph(out, &carried(group), "        ", width);
        if let Some(why) = not_proven(group) {
            paragraph(out, &why, "        ", width);
        }
        if options.verbose {
            for step in &p.steps {
                paragraph(out, step, "        ", width);
            }
        }
    }
    if groups.len() > limit {
        let rest: usize = groups[limit..].iter().map(Vec::len).sum();
        let _ = writeln!(
            out,
            "  and {}: --verbose shows all",
            counted(rest, "more pair")
        );
    }
}

/// Who they are, with how many pairs each stands for: an end that is among them with every peer it was tried with, once.
pub(super) fn ends(group: &[&PairReport], made: &[PairReport]) -> Vec<(String, usize)> {
    let count = |pairs: &mut dyn Iterator<Item = &PairReport>, name: fn(&PairReport) -> &String| {
        let mut by_name: BTreeMap<String, usize> = BTreeMap::new();
        for p in pairs {
            *by_name.entry(name(p).clone()).or_default() += 1;
        }
        by_name
    };
    let whole = |name: fn(&PairReport) -> &String| -> BTreeSet<String> {
        let all = count(&mut made.iter(), name);
        let ours = count(&mut group.iter().copied(), name);
        let every = ours.into_iter().filter(|(n, k)| *k > 1 && all[n] == *k);
        every.map(|(n, _)| n).collect()
    };
    let (initiators, targets) = (whole(|p| &p.initiator), whole(|p| &p.target));
    let mut out: Vec<(String, usize)> = Vec::new();
    for p in group {
        let name = if initiators.contains(&p.initiator) {
            format!("{} -> each of its targets", p.initiator)
        } else if targets.contains(&p.target) {
            format!("each of its initiators -> {}", p.target)
        } else {
            format!("{} -> {}", p.initiator, p.target)
        };
        match out.iter_mut().find(|(n, _)| *n == name) {
            Some((_, n)) => *n += 1,
            None => out.push((name, 1)),
        }
    }
    out
}

/// What carried the bytes of these pairs, and how fast; or why nothing was moved.
pub(super) fn carried(group: &[&PairReport]) -> String {
    let p = group[0];
    if p.steps.is_empty() {
        return p.lane.clone();
    }
    let proven = if p.proven { ", proven" } else { "" };
    let rates = match group {
        [p] => {
            let share = p.of_line_rate.map_or(String::new(), |s| {
                format!(" ({:.0} % of line rate)", s * 100.0)
            });
            format!("{} / {}{share} ", rate(p.write_gbytes), rate(p.read_gbytes))
        }
        _ => String::new(),
    };
    format!("{rates}over {}, {} memory{proven}", p.lane, p.memory)
}

/// Why right bytes prove nothing, where it is the same for all of these pairs.
pub(super) fn not_proven(group: &[&PairReport]) -> Option<String> {
    let first = &group.first()?.unproven;
    let why: Vec<&str> = first.iter().map(|gap| gap.why.as_str()).collect();
    let same = group.iter().all(|p| p.unproven == *first);
    (same && !why.is_empty()).then(|| format!("not proven: {}", why.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Gap, GapKind, Pairs};

    fn pair(initiator: String, target: String, status: Status, proven: bool) -> PairReport {
        PairReport {
            initiator,
            target,
            status,
            proven,
            unproven: vec![],
            lane: if proven {
                "rc_mlx5/mlx5_0:1 zero-copy"
            } else {
                "tcp/eth0 zero-copy"
            }
            .to_owned(),
            memory: "gpu".to_owned(),
            write_gbytes: Some(if proven { 45.5 } else { 1.25 }),
            read_gbytes: Some(if proven { 44.25 } else { 1.0 }),
            of_line_rate: None,
            steps: vec!["WRITE 1 x 8 bytes".to_owned()],
        }
    }

    /// Every pair of so many workers with the names that Dynamo gives its pods; some are bad.
    fn square(n: usize, bad: impl Fn(usize, usize) -> Option<Status>) -> Vec<PairReport> {
        let name = |role: &str, i: usize| format!("vllm-disagg-router-0-{role}-7c9f6d5b8-x{i:04}");
        let each = |d: usize, p: usize| {
            let status = bad(d, p);
            let status_or_ok = status.unwrap_or(Status::Ok);
            pair(
                name("decode", d),
                name("prefill", p),
                status_or_ok,
                status.is_none(),
            )
        };
        (0..n)
            .flat_map(|d| (0..n).map(move |p| (d, p)))
            .map(|(d, p)| each(d, p))
            .collect()
    }

    fn drawn(made: Vec<PairReport>, of: usize, width: usize, verbose: bool) -> String {
        let pairs_of = Pairs::of(made, of);
        let report = Report::with_pairs("nixl", vec![], vec![], vec![], vec![], pairs_of);
        let mut out = String::new();
        pairs(&mut out, &report, Options { verbose, width }, width);
        anstream::adapter::strip_str(&out).to_string()
    }

    #[test]
    fn a_few_pairs_show_their_rates() {
        let made = vec![
            pair("d-0".into(), "p-0".into(), Status::Ok, true),
            pair("d-0".into(), "p-1".into(), Status::Fail, false),
        ];
        insta::assert_snapshot!(drawn(made, 4, 80, false), @"
        Pairs (a sample of 4)  WRITE / READ in GB/s
               p-0                     p-1
          d-0  45.5 / 44.2  proven     1.2 / 1.0  fail
          fail  d-0 -> p-1
                1.2 / 1.0 over tcp/eth0 zero-copy, gpu memory
        ");
    }

    #[test]
    fn right_bytes_that_prove_nothing_say_why() {
        let mut soft = pair("d-0".into(), "p-0".into(), Status::Warn, false);
        soft.lane = "rc_verbs/rxe0:1 zero-copy".to_owned();
        for (kind, why) in [
            (GapKind::SoftwareVerbs, "soft-RoCE is no RDMA hardware"),
            (GapKind::HostMemory, "the bytes lay in host memory"),
        ] {
            let why = why.to_owned();
            soft.unproven.push(Gap { kind, why });
        }
        insta::assert_snapshot!(drawn(vec![soft.clone()], 1, 80, false), @"
        Pairs  WRITE / READ in GB/s
          warn  d-0 -> p-0
                1.2 / 1.0 over rc_verbs/rxe0:1 zero-copy, gpu memory
                not proven: soft-RoCE is no RDMA hardware; the bytes lay in host memory
        ");
        let other = pair("d-0".into(), "p-1".into(), Status::Warn, false);
        assert_eq!(not_proven(&[&soft, &other]), None);
    }

    #[test]
    fn a_wide_matrix_is_read_at_one_glance() {
        let bad = |d: usize, p: usize| match (d, p) {
            (7, _) => Some(Status::Fail),
            (12, 20) => Some(Status::Skipped),
            (3, 4) => Some(Status::Warn),
            _ => None,
        };
        insta::assert_snapshot!(drawn(square(24, bad), 24 * 24, 80, false), @"
        Pairs  WRITE / READ in GB/s
                                                          1 1 1 1 1 1 1 1 1 1 2 2 2 2 2
                                        1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4
          vllm-disagg-r~c9f6d5b8-x0000  + + + + + + + + + + + + + + + + + + + + + + + +
          vllm-disagg-r~c9f6d5b8-x0001  + + + + + + + + + + + + + + + + + + + + + + + +
          vllm-disagg-r~c9f6d5b8-x0002  + + + + + + + + + + + + + + + + + + + + + + + +
          vllm-disagg-r~c9f6d5b8-x0003  + + + + w + + + + + + + + + + + + + + + + + + +
          vllm-disagg-r~c9f6d5b8-x0004  + + + + + + + + + + + + + + + + + + + + + + + +
          vllm-disagg-r~c9f6d5b8-x0005  + + + + + + + + + + + + + + + + + + + + + + + +
          vllm-disagg-r~c9f6d5b8-x0006  + + + + + + + + + + + + + + + + + + + + + + + +
          vllm-disagg-r~c9f6d5b8-x0007  F F F F F F F F F F F F F F F F F F F F F F F F
          vllm-disagg-r~c9f6d5b8-x0008  + + + + + + + + + + + + + + + + + + + + + + + +
          vllm-disagg-r~c9f6d5b8-x0009  + + + + + + + + + + + + + + + + + + + + + + + +
          vllm-disagg-r~c9f6d5b8-x0010  + + + + + + + + + + + + + + + + + + + + + + + +
          vllm-disagg-r~c9f6d5b8-x0011  + + + + + + + + + + + + + + + + + + + + + + + +
          vllm-disagg-r~c9f6d5b8-x0012  + + + + + + + + + + + + + + + + + + + + ? + + +
          vllm-disagg-r~c9f6d5b8-x0013  + + + + + + + + + + + + + + + + + + + + + + + +
          vllm-disagg-r~c9f6d5b8-x0014  + + + + + + + + + + + + + + + + + + + + + + + +
          vllm-disagg-r~c9f6d5b8-x0015  + + + + + + + + + + + + + + + + + + + + + + + +
          vllm-disagg-r~c9f6d5b8-x0016  + + + + + + + + + + + + + + + + + + + + + + + +
          vllm-disagg-r~c9f6d5b8-x0017  + + + + + + + + + + + + + + + + + + + + + + + +
          vllm-disagg-r~c9f6d5b8-x0018  + + + + + + + + + + + + + + + + + + + + + + + +
          vllm-disagg-r~c9f6d5b8-x0019  + + + + + + + + + + + + + + + + + + + + + + + +
          vllm-disagg-r~c9f6d5b8-x0020  + + + + + + + + + + + + + + + + + + + + + + + +
          vllm-disagg-r~c9f6d5b8-x0021  + + + + + + + + + + + + + + + + + + + + + + + +
          vllm-disagg-r~c9f6d5b8-x0022  + + + + + + + + + + + + + + + + + + + + + + + +
          vllm-disagg-r~c9f6d5b8-x0023  + + + + + + + + + + + + + + + + + + + + + + + +
          + proven (550)   w warn (1)   ? skipped (1)   F fail (24)
          columns:
             1 vllm-disagg-r~c9f6d5b8-x0000   2 vllm-disagg-r~c9f6d5b8-x0001
             3 vllm-disagg-r~c9f6d5b8-x0002   4 vllm-disagg-r~c9f6d5b8-x0003
             5 vllm-disagg-r~c9f6d5b8-x0004   6 vllm-disagg-r~c9f6d5b8-x0005
             7 vllm-disagg-r~c9f6d5b8-x0006   8 vllm-disagg-r~c9f6d5b8-x0007
             9 vllm-disagg-r~c9f6d5b8-x0008  10 vllm-disagg-r~c9f6d5b8-x0009
            11 vllm-disagg-r~c9f6d5b8-x0010  12 vllm-disagg-r~c9f6d5b8-x0011
            13 vllm-disagg-r~c9f6d5b8-x0012  14 vllm-disagg-r~c9f6d5b8-x0013
            15 vllm-disagg-r~c9f6d5b8-x0014  16 vllm-disagg-r~c9f6d5b8-x0015
            17 vllm-disagg-r~c9f6d5b8-x0016  18 vllm-disagg-r~c9f6d5b8-x0017
            19 vllm-disagg-r~c9f6d5b8-x0018  20 vllm-disagg-r~c9f6d5b8-x0019
            21 vllm-disagg-r~c9f6d5b8-x0020  22 vllm-disagg-r~c9f6d5b8-x0021
            23 vllm-disagg-r~c9f6d5b8-x0022  24 vllm-disagg-r~c9f6d5b8-x0023
          WRITE of proven pairs: 45.5 to 45.5 GB/s
          READ of proven pairs: 44.2 to 44.2 GB/s
          fail  vllm-disagg-router-0-decode-7c9f6d5b8-x0007 -> each of its targets
                over tcp/eth0 zero-copy, gpu memory
          warn  one pair
                vllm-disagg-router-0-decode-7c9f6d5b8-x0003 ->
                vllm-disagg-router-0-prefill-7c9f6d5b8-x0004
                1.2 / 1.0 over tcp/eth0 zero-copy, gpu memory
          skipped  one pair
                vllm-disagg-router-0-decode-7c9f6d5b8-x0012 ->
                vllm-disagg-router-0-prefill-7c9f6d5b8-x0020
                1.2 / 1.0 over tcp/eth0 zero-copy, gpu memory
        ");
        for width in [80, 100, 120] {
            let text = drawn(square(24, bad), 24 * 24, width, false);
            let longest = text.lines().map(|l| l.chars().count()).max().unwrap();
            assert!(longest <= width, "{longest} columns of {width}");
            assert!(text.lines().count() <= 60, "{} lines", text.lines().count());
        }
    }

    #[test]
    fn a_matrix_that_is_wider_than_the_terminal_is_cut_into_blocks() {
        let text = drawn(square(64, |_, _| None), 64 * 64, 80, false);
        let longest = text.lines().map(|l| l.chars().count()).max().unwrap();
        assert!(longest <= 80, "{longest}");
        let signs = text.lines().filter(|l| l.starts_with("  vllm"));
        let proven: usize = signs.map(|l| l.matches('+').count()).sum();
        assert_eq!(proven, 64 * 64);
    }

    #[test]
    fn why_nothing_was_moved_is_said_without_being_asked() {
        let mut lost = pair("d-0".into(), "p-0".into(), Status::Skipped, false);
        lost.steps.clear();
        lost.lane = format!("{NOTHING}: No Python interpreter on d-0 (initiator)");
        lost.memory = "none".to_owned();
        insta::assert_snapshot!(drawn(vec![lost], 1, 80, false), @"
        Pairs  WRITE / READ in GB/s
          skipped  d-0 -> p-0
                nothing was moved: No Python interpreter on d-0 (initiator)
        ");
    }
}
