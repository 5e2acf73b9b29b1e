//! Which checks count: those that a person ignored or did not select are left out, visibly, and cost trust.
//!
//! Rules come from the command line and from a small file. A rule never makes a finding ok: it becomes `skipped`, keeps what
//! it was, and the report names the rule and its reason.

use crate::report::{
    FailOn, Finding, InputError, LeftOut, Note, Pairs, Report, RuleKind, RuleReport, SkipReason,
    Status, WorkloadReport,
};
use crate::{catalogue, checks, sanitise};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::value::{Date, Datetime};

/// Name of the file.
pub const FILE_NAME: &str = ".dynamo-interconnect-check.toml";
/// Longest reason that is shown, in characters.
const REASON: usize = 300;

/// A calendar day: year, month, day.
pub type Day = (u16, u8, u8);

/// A rule as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Id or name of a check, or `env:<VARIABLE>`.
    what: String,
    /// `--ignore`, `--only`, or file and line.
    by: String,
    reason: Option<String>,
    /// Pattern of the objects.
    target: Option<String>,
    expires: Option<Day>,
    /// Only deployments whose file lies below it.
    below: Option<PathBuf>,
}

impl Rule {
    /// A rule of the command line.
    pub fn given(option: &str, what: &str, reason: Option<&str>) -> Self {
        Self {
            what: what.to_owned(),
            by: option.to_owned(),
            reason: reason.map(|r| sanitise::line(r.trim(), REASON)),
            target: None,
            expires: None,
            below: None,
        }
    }

    fn names(&self, finding: &Finding) -> bool {
        let check = checks::find(&self.what);
        check.is_some_and(|c| c.id == finding.id) || self.what == finding.name
    }

    fn is_about(&self, finding: &Finding, workloads: &[WorkloadReport]) -> bool {
        let target = &finding.target;
        let meant = self.target.as_deref().is_none_or(|pattern| {
            let names = [Some(target.name.as_str()), target.workload.as_deref()];
            let mut names = names.into_iter().flatten();
            names.any(|name| matches(pattern, name)) || matches(pattern, &target.to_string())
        });
        let below = self.below.as_deref().is_none_or(|folder| {
            let own = workloads.iter().find(|w| w.ordinal == target.ordinal);
            own.is_some_and(|w| file_of(&w.source.path).starts_with(folder))
        });
        meant && below
    }
}

/// The file, or the directory that was rendered.
pub fn file_of(path: &str) -> &Path {
    let rendered = path.strip_prefix("<kustomize build ");
    let rendered = rendered.and_then(|p| p.strip_suffix('>'));
    Path::new(rendered.unwrap_or(path))
}

/// `*` stands for any text and `?` for one character.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if *c == '?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match &mut star {
                Some((at, from)) => {
                    *from += 1;
                    (p, t) = (*at + 1, *from);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// Says whether this names a check or a finding.
///
/// # Errors
/// When it does not, with what may have been meant.
pub fn known(what: &str) -> Result<(), String> {
    let variable = what.strip_prefix("env:");
    if checks::find(what).is_some() || variable.and_then(catalogue::find).is_some() {
        return Ok(());
    }
    let distance =
        |a: &str, b: &str| strsim::damerau_levenshtein(&a.to_lowercase(), &b.to_lowercase());
    let names = checks::ALL.iter().flat_map(|c| [(c.id, 1), (c.name, 3)]);
    let near = names
        .map(|(name, most)| (distance(name, what), most, name))
        .filter(|(n, most, _)| n <= most)
        .min()
        .map(|(_, _, name)| name.to_owned());
    let near = near.or_else(|| {
        let name = catalogue::nearest(variable.unwrap_or(what))?;
        Some(format!("env:{name}"))
    });
    let hint = near.map_or_else(
        || "; docs/checks.md lists them".to_owned(),
        |near| format!("; did you mean {near}?"),
    );
    let what = sanitise::line(what, 80);
    Err(format!("{what:?} is the id or name of no check{hint}"))
}

/// Every rule of a run.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    ignore: Vec<Rule>,
    only: Vec<Rule>,
    fail_on: Option<FailOn>,
    /// What is wrong with the files.
    errors: Vec<InputError>,
    /// What files say that no rule shows.
    notes: Vec<Note>,
    today: Day,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    fail_on: Option<Spanned<String>>,
    #[serde(default)]
    ignore: Vec<Spanned<Entry>>,
    #[serde(default)]
    only: Vec<Spanned<Entry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: Spanned<String>,
    reason: Option<Spanned<String>>,
    target: Option<String>,
    expires: Option<Spanned<toml::Value>>,
}

impl Selection {
    /// Rules of the command line. What it selects replaces what files select; `today` ends what expires.
    pub fn new(ignore: Vec<Rule>, only: Vec<Rule>, today: Day) -> Self {
        Self {
            ignore,
            only,
            today,
            ..Self::default()
        }
    }

    /// From which status on a finding fails the run, as far as files say.
    pub fn fail_on(&self) -> Option<FailOn> {
        self.fail_on
    }

    /// Something about the files that no rule shows.
    pub fn note(&mut self, object: String, message: impl Into<String>) {
        self.notes.push(Note {
            object,
            message: message.into(),
        });
    }

    /// Something that is wrong with a file.
    pub fn error(&mut self, object: String, message: impl Into<String>) {
        self.errors.push(InputError {
            object,
            message: message.into(),
        });
    }

    /// Adds the rules of a file. `below`: they are about deployments in this directory only. An entry that is wrong is an error
    /// of the run and leaves nothing out.
    pub fn add_file(&mut self, path: &str, text: &str, below: Option<&Path>) {
        let at = |offset: usize| {
            let before = text.get(..offset).unwrap_or_default();
            format!("{path}:{}", before.matches('\n').count() + 1)
        };
        let file: File = match toml::from_str(text) {
            Ok(file) => file,
            Err(error) => {
                let place = error.span().map_or(path.to_owned(), |span| at(span.start));
                return self.error(place, sanitise::line(error.message(), 500));
            }
        };
        if let Some(word) = &file.fail_on {
            let object = at(word.span().start);
            let chosen = match word.as_ref().as_str() {
                "fail" => Some(FailOn::Fail),
                "warn" => Some(FailOn::Warn),
                "never" => Some(FailOn::Never),
                _ => None,
            };
            match chosen {
                Some(_) => self.notes.push(Note {
                    object,
                    message: format!(
                        "fail-on is {:?} here; --fail-on and --strict come before it",
                        word.as_ref()
                    ),
                }),
                None => self.error(object, "fail-on takes \"fail\", \"warn\" or \"never\""),
            }
            self.fail_on = chosen.or(self.fail_on);
        }
        let given = !self.only.is_empty();
        for (kind, entries) in [
            (RuleKind::Ignore, &file.ignore),
            (RuleKind::Only, &file.only),
        ] {
            for entry in entries {
                match rule(kind, entry, &at, below) {
                    Ok(rule) if kind == RuleKind::Ignore => self.ignore.push(rule),
                    Ok(rule) if !given => self.only.push(rule),
                    Ok(_) => {}
                    Err((place, message)) => self.error(place, message),
                }
            }
        }
    }

    /// Leaves out what the rules say, and rolls the rest up.
    pub fn roll_up(
        &self,
        command: &'static str,
        workloads: Vec<WorkloadReport>,
        mut findings: Vec<Finding>,
        mut errors: Vec<InputError>,
        mut notes: Vec<Note>,
        pairs: Pairs,
    ) -> Report {
        let rules = self.apply(&mut findings, &workloads);
        errors.extend(self.errors.iter().cloned());
        notes.extend(self.notes.iter().cloned());
        let mut report = Report::with_pairs(command, workloads, findings, errors, notes, pairs);
        report.rules = rules;
        report
    }

    fn apply(&self, findings: &mut [Finding], workloads: &[WorkloadReport]) -> Vec<RuleReport> {
        let row = |kind, rule: &Rule| RuleReport {
            kind,
            rule: rule.what.clone(),
            by: rule.by.clone(),
            reason: rule.reason.clone(),
            target: rule.target.clone(),
            expires: rule.expires.map(written),
            expired: rule.expires.is_some_and(|last| last < self.today),
            findings: 0,
            worst: None,
        };
        let mut rows: Vec<RuleReport> = (self.ignore.iter().map(|r| row(RuleKind::Ignore, r)))
            .chain(self.only.iter().map(|r| row(RuleKind::Only, r)))
            .collect();
        let rules: Vec<&Rule> = self.ignore.iter().chain(&self.only).collect();
        for finding in findings {
            // The question does not arise: there is nothing to leave out.
            if finding.reason == Some(SkipReason::NotApplicable) {
                continue;
            }
            let mut ignored = None;
            let mut selected = self.only.is_empty();
            for (rule, row) in rules.iter().zip(&mut rows) {
                if !rule.names(finding) || !rule.is_about(finding, workloads) {
                    continue;
                }
                row.findings += 1;
                row.worst = row.worst.max(Some(finding.status));
                match row.kind {
                    _ if row.expired => {}
                    RuleKind::Ignore => ignored = ignored.or(Some(*rule)),
                    RuleKind::Only => selected = true,
                }
            }
            let (by, reason) = match ignored {
                Some(rule) => (rule.by.clone(), rule.reason.clone()),
                None if selected => continue,
                None => (self.only[0].by.clone(), None),
            };
            leave_out(finding, by, reason, ignored.is_some());
        }
        rows
    }
}

fn leave_out(finding: &mut Finding, by: String, reason: Option<String>, ignored: bool) {
    let was = finding.status;
    let why = match (&reason, ignored) {
        (Some(reason), true) => format!("ignored ({by}: {reason})"),
        (None, true) => format!("ignored ({by}, without a reason)"),
        (_, false) => format!("not selected ({by})"),
    };
    let judged = if was == Status::Skipped { "" } else { "was " };
    finding.detail = format!("{why}; {judged}{was}: {}", finding.detail);
    finding.status = Status::Skipped;
    finding.reason = Some(SkipReason::NotSelected);
    finding.left_out = Some(Box::new(LeftOut { was, by, reason }));
}

/// A rule of a file; where and what is wrong with it.
fn rule(
    kind: RuleKind,
    entry: &Spanned<Entry>,
    at: &impl Fn(usize) -> String,
    below: Option<&Path>,
) -> Result<Rule, (String, String)> {
    let (entry, start) = (entry.as_ref(), entry.span().start);
    let what = entry.id.as_ref().trim();
    known(what).map_err(|message| (at(entry.id.span().start), message))?;
    let reason = entry.reason.as_ref().map(|r| r.as_ref().trim());
    let reason = reason.filter(|r| !r.is_empty()).ok_or_else(|| {
        let why = match kind {
            RuleKind::Ignore => "it does not count here",
            RuleKind::Only => "nothing else counts here",
        };
        let message = format!("{what} needs a reason: say why {why}");
        (at(start), message)
    })?;
    let expires = entry.expires.as_ref().map(|value| {
        day(value.as_ref()).ok_or_else(|| {
            let message = "expires takes a day, as in expires = 2027-01-31".to_owned();
            (at(value.span().start), message)
        })
    });
    Ok(Rule {
        what: what.to_owned(),
        by: at(entry.id.span().start),
        reason: Some(sanitise::line(reason, REASON)),
        target: entry.target.as_deref().map(|t| sanitise::line(t, 253)),
        expires: expires.transpose()?,
        below: below.map(Path::to_owned),
    })
}

fn day(value: &toml::Value) -> Option<Day> {
    let parsed: Datetime = match value {
        toml::Value::Datetime(datetime) => *datetime,
        toml::Value::String(text) => text.parse().ok()?,
        _ => return None,
    };
    match parsed {
        Datetime {
            date: Some(Date { year, month, day }),
            time: None,
            offset: None,
        } => Some((year, month, day)),
        _ => None,
    }
}

fn written((year, month, day): Day) -> String {
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::testing::{env, graph, lines, read};
    use crate::manifest::view;
    use crate::report::{ExitCode, KvPath, Trust};

    const TODAY: Day = (2026, 11, 30);

    fn selection(text: &str) -> Selection {
        let mut selection = Selection::new(vec![], vec![], TODAY);
        selection.add_file("x.toml", text, None);
        selection
    }

    fn errors(text: &str) -> Vec<String> {
        let errors = selection(text).errors;
        errors
            .iter()
            .map(|e| format!("{}: {}", e.object, e.message))
            .collect()
    }

    const RDMA: &str = "resources: {limits: {nvidia.com/gpu: 1, rdma/ib: 1}}";

    /// This manifest, judged with these rules.
    fn report(selection: &Selection, container: &[&str]) -> Report {
        let inventory = read(&graph(&lines(container)));
        let findings = checks::run(&inventory, &[]);
        let workloads =
            (inventory.workloads.iter().enumerate()).map(|(i, w)| view::workload(w, i + 1));
        selection.roll_up(
            "env",
            workloads.collect(),
            findings,
            vec![],
            vec![],
            Pairs::default(),
        )
    }

    /// A graph in which both workers have a fault, judged with these rules.
    fn judged(selection: &Selection) -> Report {
        report(selection, &[RDMA, &env(&[("UCX_TLS", "tcp,cuda_copy")])])
    }

    fn failing(selection: &Selection) -> Vec<String> {
        let report = judged(selection);
        let failing = report.checks.iter().filter(|f| f.status == Status::Fail);
        failing.map(|f| f.target.name.clone()).collect()
    }

    #[test]
    fn patterns() {
        let cases = [
            ("*", "", true),
            ("g/*", "g/prefill", true),
            ("*-prefill-?", "a-b-prefill-0", true),
            ("*-prefill-?", "a-b-prefill-10", false),
            ("p", "pp", false),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("", "a", false),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn an_ignored_fail_is_told_and_leaves_no_trust() {
        let plain = judged(&Selection::default());
        assert_eq!(plain.trust, Trust::Untrusted);
        let rules = "[[ignore]]\nid = \"ENV002\"\nreason = \"lab without RDMA\"\n";
        let report = judged(&selection(rules));
        assert_eq!((report.trust, report.counts.fail), (Trust::Unproven, 0));
        assert_eq!(report.exit_code(FailOn::Fail, false), ExitCode::Ok);
        assert!(
            report
                .verdict
                .contains("nothing else on its KV path failed")
                && report
                    .verdict
                    .ends_with("2 findings were left out on request, among them a fail of ENV002."),
            "{}",
            report.verdict
        );
        let left: Vec<_> = report
            .checks
            .iter()
            .filter(|f| f.left_out.is_some())
            .collect();
        assert_eq!(left.len(), 2);
        assert_eq!(left[0].status, Status::Skipped);
        assert!(
            left[0]
                .detail
                .starts_with("ignored (x.toml:2: lab without RDMA); was fail: UCX_TLS="),
            "{}",
            left[0].detail
        );
        let rule = &report.rules[0];
        assert_eq!(
            (rule.findings, rule.worst, rule.by.as_str()),
            (2, Some(Status::Fail), "x.toml:2")
        );
    }

    #[test]
    fn what_was_left_out_never_leaves_trusted_on_the_path() {
        let lock = "securityContext: {capabilities: {add: [IPC_LOCK]}}";
        let with = |selection: &Selection| {
            report(
                selection,
                &[RDMA, lock, &env(&[("UCX_TLS", "rc,cuda_copy,cuda_ipc")])],
            )
        };
        let proven = |report: &Report| Trust::judge(true, true, report.checks.iter());
        let whole = with(&Selection::default());
        assert_eq!(proven(&whole), Trust::Trusted);
        let mut seen = Vec::new();
        for finding in &whole.checks {
            let rule = Rule::given("--ignore", finding.id, None);
            let trust = proven(&with(&Selection::new(vec![rule], vec![], TODAY)));
            let on_path = finding.kv_path != KvPath::Off;
            assert_eq!(trust > Trust::Trusted, on_path, "{}", finding.id);
            seen.push(finding.kv_path);
        }
        assert!(
            seen.contains(&KvPath::Required) && seen.contains(&KvPath::Supporting),
            "{seen:?}"
        );
    }

    #[test]
    fn targets_and_days_bound_a_rule() {
        let rule = |more: &str| {
            selection(&format!(
                "[[ignore]]\nid = \"env:UCX_TLS\"\nreason = \"r\"\n{more}\n"
            ))
        };
        assert_eq!(failing(&rule("target = \"g/p\"")), ["d"]);
        assert_eq!(failing(&rule("target = \"?\"")), [""; 0]);
        assert_eq!(failing(&rule("target = \"other\"")), ["p", "d"]);
        assert_eq!(
            failing(&rule("expires = 2026-11-30")),
            [""; 0],
            "the last day counts"
        );
        assert_eq!(failing(&rule("expires = \"2026-11-29\"")), ["p", "d"]);
        let report = judged(&rule("expires = 2026-11-29"));
        assert!(report.rules[0].expired && report.rules[0].findings == 2);
    }

    #[test]
    fn a_file_beside_a_recipe_is_about_that_recipe() {
        let rules = "[[ignore]]\nid = \"ENV002\"\nreason = \"r\"\n";
        let mut selection = Selection::default();
        selection.add_file("other/x.toml", rules, Some(Path::new("other")));
        assert_eq!(failing(&selection), ["p", "d"]);
        let mut selection = Selection::default();
        selection.add_file("x.toml", rules, Some(Path::new("")));
        assert_eq!(failing(&selection), [""; 0]);
        assert_eq!(file_of("<kustomize build a/b>"), Path::new("a/b"));
    }

    #[test]
    fn only_what_is_selected_counts() {
        let one = |what| Selection::new(vec![], vec![Rule::given("--only", what, None)], TODAY);
        let report = judged(&one("no-transport-path"));
        assert!(
            report
                .checks
                .iter()
                .all(|f| (f.id == "K8S001") == f.left_out.is_none())
        );
        assert_eq!((report.trust, report.counts.fail), (Trust::Unproven, 0));
        assert_eq!(failing(&one("ENV002")), ["p", "d"]);
        let mut given = one("K8S001");
        given.add_file(
            "x.toml",
            "[[only]]\nid = \"ENV002\"\nreason = \"r\"\n",
            None,
        );
        assert!(
            failing(&given).is_empty(),
            "the command line replaces the file"
        );
    }

    #[test]
    fn what_is_wrong_with_a_file_is_told_with_its_line_and_leaves_nothing_out() {
        let cases = [
            (
                "[[ignore]]\nid = \"K8S01\"\nreason = \"r\"\n",
                "x.toml:2: \"K8S01\" is the id or name of no check; did you mean K8S001?",
            ),
            (
                "\n[[ignore]]\nreason = \"r\"\nid = \"env:UCX_TSL\"\n",
                "x.toml:4: \"env:UCX_TSL\" is the id or name of no check; did you mean env:UCX_TLS?",
            ),
            (
                "[[ignore]]\nid = \"ENV002\"\n",
                "x.toml:1: ENV002 needs a reason: say why it does not count here",
            ),
            (
                "[[only]]\nid = \"ENV002\"\n",
                "x.toml:1: ENV002 needs a reason: say why nothing else counts here",
            ),
            (
                "[[ignore]]\nid = \"ENV002\"\nreason = \"  \"\n",
                "x.toml:1: ENV002 needs a reason: say why it does not count here",
            ),
            (
                "[[ignore]]\nid = \"ENV002\"\nreason = \"r\"\nexpires = \"soon\"\n",
                "x.toml:4: expires takes a day, as in expires = 2027-01-31",
            ),
            (
                "[[ignore]]\nid = \"ENV002\"\nreason = \"r\"\nexpires = 2027-02-31\n",
                "x.toml:4: ",
            ),
            (
                "fail-on = \"often\"\n",
                "x.toml:1: fail-on takes \"fail\", \"warn\" or \"never\"",
            ),
            ("\n\nignored = []\n", "x.toml:3: unknown field `ignored`"),
            (
                "[[ignore]]\nid = \"ENV002\"\nwhy = \"r\"\n",
                "x.toml:3: unknown field `why`",
            ),
            ("a = \n", "x.toml:1: "),
        ];
        for (text, expected) in cases {
            let found = errors(text);
            assert!(
                found.len() == 1 && found[0].starts_with(expected),
                "{text}: {found:?}"
            );
            let report = judged(&selection(text));
            assert_eq!(report.counts.fail, 2, "{text}");
            assert_eq!(
                report.exit_code(FailOn::Never, false),
                ExitCode::CouldNotRun,
                "{text}"
            );
        }
        assert_eq!(
            selection("fail-on = \"never\"\n").fail_on(),
            Some(FailOn::Never)
        );
    }
}
