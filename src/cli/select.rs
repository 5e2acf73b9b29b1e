//! Which checks count, by the command line and by `.dynamo-interconnect-check.toml`.

use crate::report::FailOn;
use crate::selected::{Day, FILE_NAME, Rule, Selection, file_of, known};
use crate::{input, sanitise};
use clap::{Args, ValueEnum};
use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Which checks count, and from which status on.
#[derive(Debug, Args)]
pub(super) struct SelectArguments {
    /// Exit with 1 from this status on; `fail` by default.
    #[arg(long, value_name = "STATUS", value_enum)]
    fail_on: Option<Status>,
    /// The same as `--fail-on warn`.
    #[arg(long, conflicts_with = "fail_on")]
    strict: bool,
    /// Leave the findings of this check out: its id or name, or env:VARIABLE; repeatable. They are reported as skipped, with the
    /// reason, and a path of which something was left out is never trusted.
    #[arg(long, value_name = "ID[=REASON]", value_parser = id_and_reason)]
    ignore: Vec<(String, Option<String>)>,
    /// Leave all findings out but those of this check; repeatable, or several with commas.
    #[arg(long, value_name = "ID", value_delimiter = ',', value_parser = id)]
    only: Vec<String>,
    /// File with such choices and their reasons (docs/formats.md); `.dynamo-interconnect-check.toml` of the current directory by
    /// default, and `env` looks beside the recipes, too.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Status {
    Fail,
    Warn,
    Never,
}

fn id(text: &str) -> Result<String, String> {
    known(text.trim()).map(|()| text.trim().to_owned())
}

fn id_and_reason(text: &str) -> Result<(String, Option<String>), String> {
    let (what, reason) = match text.split_once('=') {
        Some((what, reason)) => (what, Some(reason.trim())),
        None => (text, None),
    };
    let reason = reason.filter(|r| !r.is_empty()).map(str::to_owned);
    Ok((id(what)?, reason))
}

impl SelectArguments {
    /// The command line comes before any file.
    pub(super) fn fail_on(&self, selection: &Selection) -> FailOn {
        match self.fail_on {
            Some(Status::Fail) => FailOn::Fail,
            Some(Status::Warn) => FailOn::Warn,
            Some(Status::Never) => FailOn::Never,
            None if self.strict => FailOn::Warn,
            None => selection.fail_on().unwrap_or_default(),
        }
    }

    /// The same for manifests that were read below `beside`. Says which files lie beside one of them and do not count: nobody is
    /// to believe that they do.
    pub(super) fn selection_of<'a>(
        &self,
        beside: &[PathBuf],
        read: impl Iterator<Item = &'a str>,
    ) -> Selection {
        let mut selection = self.selection(beside);
        let real = |path: &Path| std::fs::canonicalize(path).ok();
        let given: Vec<PathBuf> = beside.iter().filter_map(|path| real(path)).collect();
        let own = real(Path::new("."));
        let mut seen = BTreeSet::new();
        for path in read {
            // Up to the directory that was given.
            let path = file_of(path);
            let folders = path.ancestors().skip(usize::from(!path.is_dir()));
            for folder in folders.filter(|folder| folder.is_dir()) {
                let Some(at) = real(folder) else { break };
                if given.contains(&at) || !given.iter().any(|given| at.starts_with(given)) {
                    break;
                }
                let file = folder.join(FILE_NAME);
                if self.config.is_none()
                    && Some(&at) != own.as_ref()
                    && file.is_file()
                    && seen.insert(at)
                {
                    let message = format!(
                        "not used: env reads that of the current directory and of each PATH; give {} as a PATH of its own, or \
                         name the file with --config",
                        sanitise::line(&folder.display().to_string(), 500)
                    );
                    selection.note(sanitise::line(&file.display().to_string(), 500), message);
                }
            }
        }
        selection
    }

    /// Rules of the command line and of the files that count.
    pub(super) fn selection(&self, beside: &[PathBuf]) -> Selection {
        let ignore = self.ignore.iter();
        let ignore = ignore.map(|(what, why)| Rule::given("--ignore", what, why.as_deref()));
        let only = self
            .only
            .iter()
            .map(|what| Rule::given("--only", what, None));
        let mut selection = Selection::new(ignore.collect(), only.collect(), today());
        if let Some(path) = &self.config {
            add(&mut selection, path, None);
            return selection;
        }
        let mut read = BTreeSet::new();
        let mut found = |path: &Path| {
            let real = std::fs::canonicalize(path);
            real.is_ok_and(|real| read.insert(real))
        };
        let own = Path::new(FILE_NAME);
        // A link that leads nowhere is not nothing: somebody meant a file to count.
        let dangling = std::fs::symlink_metadata(own).is_ok() && !own.exists();
        if dangling || found(own) {
            add(&mut selection, Path::new(FILE_NAME), None);
        }
        for path in beside {
            let folder = match path.is_dir() {
                true => path.as_path(),
                false => path.parent().unwrap_or(Path::new("")),
            };
            let own = folder.join(FILE_NAME);
            let dangling = std::fs::symlink_metadata(&own).is_ok() && !own.exists();
            if dangling || found(&own) {
                add(&mut selection, &own, Some(folder));
            }
        }
        selection
    }
}

/// Reads one file. Larger ones than any list of reasons are refused.
fn add(selection: &mut Selection, path: &Path, below: Option<&Path>) {
    const LIMIT: u64 = 1 << 20;
    let shown = sanitise::line(&path.display().to_string(), 500);
    let read = || -> Result<String, String> {
        let cannot = |error: std::io::Error| input::cannot(&error);
        if !std::fs::metadata(path).map_err(cannot)?.is_file() {
            return Err("is no file".to_owned());
        }
        let mut text = String::new();
        let file = std::fs::File::open(path).map_err(cannot)?;
        let length = file
            .take(LIMIT + 1)
            .read_to_string(&mut text)
            .map_err(cannot)?;
        match length as u64 > LIMIT {
            true => Err("is larger than 1 MiB, not read".to_owned()),
            false => Ok(text),
        }
    };
    match read() {
        Ok(text) => selection.add_file(&shown, &text, below),
        Err(message) => selection.error(shown, message),
    }
}

/// The day in UTC. A clock that cannot be right ends nothing.
fn today() -> Day {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    day_of(since.map_or(0, |d| d.as_secs() / 86_400))
}

/// The day so many days after 1970-01-01 in the Gregorian calendar.
fn day_of(days: u64) -> Day {
    let leap = |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
    let mut left = days;
    let mut year = 1970;
    while left >= 365 + u64::from(leap(year)) {
        left -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    let number = |n: u64| u8::try_from(n).unwrap_or(u8::MAX);
    (
        u16::try_from(year).unwrap_or(u16::MAX),
        number(month),
        number(left + 1),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        let cases = [
            (0, (1970, 1, 1)),
            (58, (1970, 2, 28)),
            (59, (1970, 3, 1)),
            (789, (1972, 2, 29)),
            (11_016, (2000, 2, 29)),
            (19_722, (2023, 12, 31)),
            (20_818, (2026, 12, 31)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
        ];
        for (days, day) in cases {
            assert_eq!(day_of(days), day, "{days}");
        }
    }
}
