//! What the tool says: findings, the roll-up over them, and the exit code.
//!
//! A [`Report`] is the only thing a renderer sees, and its JSON form is public: fields are only added within a major
//! version. Nothing here looks at the world.

mod budget;
mod cluster;
mod environment;
mod exit_code;
mod finding;
mod fix_first;
mod gap;
mod history;
mod left_out;
mod not_seen;
mod status;
#[cfg(test)]
mod tests;
mod trust;
mod verdict;
mod workload;

use crate::target::{Target, TargetKind};
pub use budget::{KvBudget, LaneTime};
pub use cluster::{DomainReport, Fast, HostReport, NodeReport, NodesReport};
pub use environment::{EnvironmentReport, LayerReport, VariableReport};
pub use exit_code::ExitCode;
pub use finding::{Consequence, Evidence, EvidenceSource, Finding, Fix, Parts, Rare};
use fix_first::fix_first;
pub use fix_first::{BETWEEN_BLOCKS, KV_PATH, first_fault};
pub use gap::{Gap, GapKind};
pub use history::{Change, ChangeKind, Changes, Fingerprint, PortPrint};
pub use left_out::{FailOn, LeftOut, RuleKind, RuleReport};
pub use not_seen::NotSeen;
use serde::{Deserialize, Serialize};
pub use status::{KvPath, SkipReason, Status};
use std::collections::BTreeSet;
pub use trust::Trust;
use trust::holds_back;
use verdict::{beside_nixl, held_back, not_whole, undone, unlisted, unreached, verdict};
pub use workload::{EnvReport, SourceRef, WorkerReport, WorkloadReport};

/// Version of the JSON form. Raised only when a field changes its meaning or goes away.
pub const SCHEMA_VERSION: u32 = 1;

/// How many findings have which status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Counts {
    /// Harmless.
    pub ok: usize,
    /// Degraded, ignored or fragile.
    pub warn: usize,
    /// Broken.
    pub fail: usize,
    /// Inconclusive.
    pub skipped: usize,
}

/// How much of what applies was really observed, counted per check and target.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Coverage {
    /// Findings that rest on an observation.
    pub observed: usize,
    /// Findings that apply to their target.
    pub applicable: usize,
}

/// Object of an error that is about transfers as a whole.
pub const TRANSFER: &str = "transfer";

/// Object of an error that is about the run as a whole: it could not begin.
pub const RUN: &str = "run";
/// What the object of an error begins with that is about where a recording goes: `--save PATH`.
pub const SAVE: &str = "--save ";
/// How the words on a baseline begin that is none: it may have been read well, and was refused.
pub const BASELINE: &str = "the baseline ";
/// Object of an error that is about the list of the pods of a deployment.
pub const PODS_LIST: &str = "pods";

/// An input that could not be read, or something that was asked for and could not be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct InputError {
    /// File, directory or document; `transfer`.
    pub object: String,
    /// What happened and what to do.
    pub message: String,
}

impl InputError {
    /// What of it is told, and what became of it: `good.json`, `could not be read`.
    pub fn trouble(&self) -> (&str, &'static str) {
        match self.object.strip_prefix(SAVE) {
            Some(path) => (path, "could not be written"),
            None if self.object == RUN => ("the run", "could not begin"),
            None if self.object == TRANSFER => (&self.object, "could not be made"),
            None if self.message.starts_with(BASELINE) => {
                (&self.object, "could not be used as the baseline")
            }
            None => (&self.object, "could not be read"),
        }
    }
}

/// Something seen on the way that is neither a finding nor an error.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Note {
    /// File, directory or document.
    pub object: String,
    /// What was seen and what was done about it.
    pub message: String,
}

/// One container or machine that was looked at, and the trust it earned by itself.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Probed {
    /// Which one.
    pub target: Target,
    /// May the KV path through it be trusted, as far as one end can tell?
    pub trust: Trust,
}

/// One transfer between two ends.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PairReport {
    /// The end that moved the bytes.
    pub initiator: String,
    /// The end that lent its memory.
    pub target: String,
    /// The verdict.
    pub status: Status,
    /// The intended lane carried the bytes.
    pub proven: bool,
    /// Why right bytes prove no lane; empty where they do, and where the transfer failed or came to no answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unproven: Vec<Gap>,
    /// What carried them: `rc_mlx5/mlx5_0:1 zero-copy`, or why it is not known, or why nothing was moved.
    pub lane: String,
    /// `gpu`; `host` where one end or both lay in host memory; `none` where an end had none yet.
    pub memory: String,
    /// Bandwidth of the largest WRITE in GB/s (10^9 bytes).
    pub write_gbytes: Option<f64>,
    /// Bandwidth of the largest READ in GB/s.
    pub read_gbytes: Option<f64>,
    /// Share of the line rate of the ports that carried it, 0 to 1.
    pub of_line_rate: Option<f64>,
    /// One line per step: shape, lane, bandwidth, latency, load.
    pub steps: Vec<String>,
}

/// Which pairs were tried.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Pairs {
    /// The transfers that were made.
    pub made: Vec<PairReport>,
    /// All pairs in question. More than were made: a sample, and what is not in it stays unproven.
    pub of: usize,
    /// Pairs in question between which no transfer was made.
    #[serde(skip)]
    left: usize,
    /// Pairs between which a transfer was made, and which are none of those in question.
    #[serde(skip)]
    beside: BTreeSet<[String; 2]>,
}

/// The two ends of a pair, whichever moved the bytes.
fn ends<'a>(one: &'a str, other: &'a str) -> [&'a str; 2] {
    [one.min(other), one.max(other)]
}

impl Pairs {
    /// These transfers, of so many pairs in question. The same pair counts once, however often it was tried.
    pub fn of(made: Vec<PairReport>, of: usize) -> Self {
        let different: BTreeSet<_> = made.iter().map(|p| ends(&p.initiator, &p.target)).collect();
        let left = of.saturating_sub(different.len());
        Self {
            made,
            of,
            left,
            beside: BTreeSet::new(),
        }
    }

    /// These transfers, where every pair of one side with the other is in question. A thousand workers have a quarter of a
    /// million of them, so they are counted and not listed.
    pub fn between(made: Vec<PairReport>, sides: &[Vec<&str>; 2]) -> Self {
        let [from, to] = sides
            .each_ref()
            .map(|side| side.iter().copied().collect::<BTreeSet<_>>());
        // One that stands on both sides would make the same pair twice.
        let both = from.intersection(&to).count();
        let in_question = |[one, other]: &[&str; 2]| {
            from.contains(one) && to.contains(other) || from.contains(other) && to.contains(one)
        };
        let (tried, beside): (BTreeSet<_>, BTreeSet<_>) = made
            .iter()
            .map(|pair| ends(&pair.initiator, &pair.target))
            .partition(in_question);
        let beside = beside.into_iter().map(|pair| pair.map(str::to_owned));
        let beside = beside.collect();
        let different = from.len() * to.len() - both * both.saturating_sub(1) / 2;
        let left = different - tried.len();
        let of = sides[0].len() * sides[1].len();
        Self {
            made,
            of,
            left,
            beside,
        }
    }

    /// The lane of every pair in question was shown, and there is one.
    pub fn proven(&self) -> bool {
        self.of > 0 && self.left == 0 && self.made.iter().all(|p| p.proven)
    }
}

/// Name and version of the tool that wrote a report.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Tool {
    /// Always `dynamo-interconnect-check`.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
}

/// Everything one run has to say.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// Version of this JSON form.
    pub schema_version: u32,
    /// What wrote it.
    pub tool: Tool,
    /// The command that was run.
    pub command: &'static str,
    /// The worst trust over all workloads.
    pub trust: Trust,
    /// One plain sentence: may disaggregated serving be trusted, or what to fix first.
    pub verdict: String,
    /// Findings by status.
    pub counts: Counts,
    /// What was observed of what applies.
    pub coverage: Coverage,
    /// What to fix, in order, each cause once.
    pub fix_first: Vec<Fix>,
    /// What to do next, where one command gets further.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The deployments that were judged.
    pub workloads: Vec<WorkloadReport>,
    /// The containers and machines that were looked at.
    pub targets: Vec<Probed>,
    /// The transfers that were made.
    pub pairs: Pairs,
    /// What changed since an earlier run; only with `check --baseline`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
    /// What each container of a deployment was, so that a later run can say what changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fingerprint: Vec<Fingerprint>,
    /// How long KV travels; only with `check --isl`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_budget: Option<KvBudget>,
    /// Nodes of the cluster; only with `check --nodes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodesReport>,
    /// Variables of running workers and where they come from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<EnvironmentReport>,
    /// What was ignored or selected, why, and what became of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleReport>,
    /// What no look from a pod can show; only of a deployment between whose workers no transfer was made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_seen: Vec<NotSeen>,
    /// Every finding, by target and then by check.
    pub checks: Vec<Finding>,
    /// Inputs that could not be read.
    pub errors: Vec<InputError>,
    /// Remarks about inputs.
    pub notes: Vec<Note>,
}

impl Report {
    /// Rolls findings up. Trust of each workload is computed here and nowhere else.
    pub fn new(
        command: &'static str,
        workloads: Vec<WorkloadReport>,
        checks: Vec<Finding>,
        errors: Vec<InputError>,
        notes: Vec<Note>,
    ) -> Self {
        Self::with_pairs(command, workloads, checks, errors, notes, Pairs::default())
    }

    /// The same with transfers that were made.
    pub fn with_pairs(
        command: &'static str,
        mut workloads: Vec<WorkloadReport>,
        mut checks: Vec<Finding>,
        errors: Vec<InputError>,
        mut notes: Vec<Note>,
        pairs: Pairs,
    ) -> Self {
        checks.sort_by(|a, b| (&a.target, a.order, &a.name).cmp(&(&b.target, b.order, &b.name)));
        notes.sort();
        let one = workloads.len() == 1;
        for workload in &mut workloads {
            let own = checks
                .iter()
                .filter(|f| f.target.ordinal == workload.ordinal);
            // Transfers belong to the one deployment that was looked at as a whole.
            let proven = one && pairs.proven();
            workload.trust = match Trust::judge(workload.disaggregated, proven, own) {
                // What could not be read may have been about it: the deployment says no more than the run.
                Trust::Trusted if !errors.is_empty() => Trust::Unproven,
                trust => trust,
            };
        }
        let targets = probed(&checks);
        // An input that could not be read may have held a deployment, and no deployment at all is no evidence.
        let blind = !errors.is_empty()
            || (workloads.is_empty() && targets.is_empty() && pairs.made.is_empty());
        let floor = if blind {
            Trust::Unproven
        } else {
            Trust::NotApplicable
        };
        // The pods of a workload count through it; without a workload each target speaks for itself, and pairs for both
        // their ends.
        let alone = targets
            .iter()
            .filter(|_| workloads.is_empty() && pairs.made.is_empty())
            .map(|t| t.trust);
        let paired = (workloads.is_empty() && !pairs.made.is_empty())
            .then(|| Trust::judge(true, pairs.proven(), checks.iter()));
        let trust = workloads
            .iter()
            .map(|w| w.trust)
            .chain(alone)
            .chain(paired)
            .max()
            .unwrap_or(floor)
            .max(floor);
        let mut counts = Counts::default();
        let mut coverage = Coverage::default();
        for finding in &checks {
            match finding.status {
                Status::Ok => counts.ok += 1,
                Status::Warn => counts.warn += 1,
                Status::Fail => counts.fail += 1,
                Status::Skipped => counts.skipped += 1,
            }
            if finding.reason != Some(SkipReason::NotApplicable) {
                coverage.applicable += 1;
                coverage.observed += usize::from(finding.status != Status::Skipped);
            }
        }
        let fix_first = fix_first(&checks);
        let verdict = verdict(
            trust, &workloads, &targets, &pairs, &fix_first, &errors, &checks,
        );
        let tool = Tool {
            name: "dynamo-interconnect-check",
            version: env!("CARGO_PKG_VERSION"),
        };
        Self {
            schema_version: SCHEMA_VERSION,
            tool,
            command,
            trust,
            verdict,
            counts,
            coverage,
            fix_first,
            next: None,
            workloads,
            targets,
            pairs,
            changes: None,
            fingerprint: Vec::new(),
            kv_budget: None,
            nodes: None,
            environment: Vec::new(),
            rules: Vec::new(),
            not_seen: Vec::new(),
            checks,
            errors,
            notes,
        }
    }

    /// Nothing that was named or reached answered any question. Nobody who hands in the wrong thing is to read it as a pass.
    pub fn judged_nothing(&self) -> bool {
        let was = |f: &Finding| f.left_out.as_ref().map_or(f.status, |left| left.was);
        self.workloads.is_empty()
            && self.pairs.made.is_empty()
            && self.checks.iter().all(|f| was(f) == Status::Skipped)
    }

    /// Transfers that were asked for and came to no answer: nothing was moved, it broke off, or its lane is not known.
    pub fn undone(&self) -> Vec<&Finding> {
        undone(&self.checks)
    }

    /// Containers and machines of which nothing is known, because the way to them failed.
    pub fn unreached(&self) -> Vec<&Finding> {
        unreached(&self.checks)
    }

    /// What gets further where pods could not be listed, or the way to a container failed, as a clause; None where nothing
    /// stood in the way.
    pub fn way_out(&self) -> Option<&str> {
        let unlisted = unlisted(&self.workloads, &self.errors).map(|(_, remedy)| remedy);
        unlisted.or_else(|| self.unreached().first()?.fix.as_deref())
    }

    /// What says that something else than NIXL moves the KV, so that no transfer of this tool gets further; its fix is what does.
    pub fn beside_nixl(&self) -> Option<&Finding> {
        beside_nixl(&self.checks)
    }

    /// What says that not every worker was looked at as itself; its fix is what does.
    pub fn not_whole(&self) -> Option<&Finding> {
        not_whole(&self.checks)
    }

    /// What could not be judged and keeps the run from being trusted although the lane of every pair was proven, each with how many
    /// more objects it is said of: what could not be looked at before what may follow from it. Nothing where that is not so.
    pub fn open_questions(&self) -> Vec<(&Finding, usize)> {
        let mut held: Vec<(&Finding, usize)> = Vec::new();
        if self.trust != Trust::Unproven || !self.pairs.proven() {
            return held;
        }
        let skipped = |f: &&Finding| f.status == Status::Skipped;
        for finding in held_back(&self.checks).into_iter().filter(skipped) {
            let same = |(first, _): &&mut (&Finding, usize)| {
                (first.id, &first.detail) == (finding.id, &finding.detail)
            };
            match held.iter_mut().find(same) {
                Some((_, more)) => *more += 1,
                None => held.push((finding, 0)),
            }
        }
        held
    }

    /// What gets the first of these judged, as an action.
    pub fn way_to_judge(&self) -> Option<String> {
        let Some((first, _)) = self.open_questions().into_iter().next() else {
            let left_out = self
                .checks
                .iter()
                .find(|f| f.left_out.is_some() && holds_back(f))?;
            return Some(format!(
                "judge {} ({}) as well, which was left out on request",
                left_out.name, left_out.id
            ));
        };
        let again = || Some(first.reason?.look_again()?.to_owned());
        let named = || {
            format!(
                "mend what keeps {} ({}) from being judged",
                first.name, first.id
            )
        };
        Some(again().or_else(|| first.fix.clone()).unwrap_or_else(named))
    }

    /// What the pipeline should do. `fail_on`: from which status on a finding fails the run. `require_trusted`: anything but
    /// trusted is 3.
    pub fn exit_code(&self, fail_on: FailOn, require_trusted: bool) -> ExitCode {
        // What was asked for and could not be done is no pass: also what the run had no time for.
        let unseen = |f: &Finding| f.reason == Some(SkipReason::RunDeadline);
        if !self.errors.is_empty()
            || !self.undone().is_empty()
            || !self.unreached().is_empty()
            || self.checks.iter().any(unseen)
        {
            ExitCode::CouldNotRun
        } else if self.checks.iter().any(|f| fail_on.fails(f.status))
            || fail_on != FailOn::Never && self.judged_nothing()
        {
            ExitCode::Failed
        } else if require_trusted && self.trust != Trust::Trusted {
            ExitCode::NotTrusted
        } else {
            ExitCode::Ok
        }
    }
}

/// The containers and machines among the targets of all findings, each with its own trust.
fn probed(checks: &[Finding]) -> Vec<Probed> {
    // Findings are sorted by target, so those of one stand together.
    checks
        .chunk_by(|a, b| a.target == b.target)
        .filter(|own| matches!(own[0].target.kind, TargetKind::Pod | TargetKind::Host))
        .map(|own| {
            let moves_kv = own[0].target.role.as_deref() != Some("agg");
            Probed {
                target: (*own[0].target).clone(),
                trust: Trust::judge(moves_kv, false, own.iter()),
            }
        })
        .collect()
}
