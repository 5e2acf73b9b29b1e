//! What the tool says: findings, the roll-up over them, and the exit code.
//!
//! A [`Report`] is the only thing a renderer sees, and its JSON form is public: fields are only added within a major
//! version. Nothing here looks at the world.

#[cfg(test)]
mod tests;
mod verdict;

use crate::target::{Target, TargetKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use verdict::verdict;

/// Version of the JSON form. Raised only when a field changes its meaning or goes away.
pub const SCHEMA_VERSION: u32 = 1;

/// How bad one finding is. The order is the order of gravity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum Status {
    /// Looked at and harmless.
    Ok,
    /// Could not be looked at: inconclusive, never a pass.
    Skipped,
    /// Works but is degraded, ignored or fragile, or right only for facts that are not known.
    Warn,
    /// The KV or collective path cannot use RDMA or NVLink in the stated context.
    Fail,
}

impl Status {
    /// The word that JSON and text use.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Skipped => "skipped",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// May the KV path of a deployment be trusted? The order is from harmless to worst, so that the maximum over several
/// workloads is the answer for the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum Trust {
    /// Aggregated: no KV cache leaves a worker.
    NotApplicable,
    /// No fail, no required check skipped, and the lane of every pair in question was proven.
    Trusted,
    /// Nothing on the KV path failed, but the lane was not proven.
    Unproven,
    /// Something on the KV path failed.
    Untrusted,
}

impl Trust {
    /// The word that JSON and text use.
    pub fn word(self) -> &'static str {
        match self {
            Self::NotApplicable => "not-applicable",
            Self::Trusted => "trusted",
            Self::Unproven => "unproven",
            Self::Untrusted => "untrusted",
        }
    }

    /// Trust in one workload. `disaggregated`: KV moves between its workers. `proven`: the lane of every
    /// prefill/decode pair in question was shown by a transfer or by observed traffic.
    pub fn judge<'a>(
        disaggregated: bool,
        proven: bool,
        findings: impl Iterator<Item = &'a Finding>,
    ) -> Self {
        if !disaggregated {
            return Self::NotApplicable;
        }
        let (mut any_fail, mut required_skipped) = (false, false);
        for finding in findings {
            match (finding.status, finding.kv_path) {
                (Status::Fail, KvPath::Required | KvPath::Supporting) => return Self::Untrusted,
                (Status::Fail, KvPath::Off) => any_fail = true,
                (Status::Skipped, KvPath::Required) => {
                    required_skipped |= finding.reason != Some(SkipReason::NotApplicable);
                }
                _ => {}
            }
        }
        if proven && !any_fail && !required_skipped {
            Self::Trusted
        } else {
            Self::Unproven
        }
    }
}

/// Which part a check plays for trust in the KV path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum KvPath {
    /// A fail makes the deployment untrusted, a skip prevents trusted.
    Required,
    /// A fail counts; a skip does not, because another check covers the same fact.
    Supporting,
    /// Does not carry KV (collectives, logging): a fail prevents trusted and no more.
    Off,
}

/// Why something could not be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum SkipReason {
    /// The question does not arise here. The only reason that costs nothing.
    NotApplicable,
    /// The user deselected it.
    NotSelected,
    /// This command does not look there; the detail says which one does.
    NotCollected,
    /// The file, tool or object is not there.
    NotFound,
    /// No permission.
    Denied,
    /// The container has no shell.
    NoShell,
    /// No answer within the deadline.
    Timeout,
    /// The connection broke before the answer was complete.
    ConnectionLost,
    /// There was an answer, and it could not be understood.
    Unparsable,
    /// A placeholder, reference or computed value stands where the value should be.
    Unresolved,
}

impl SkipReason {
    /// In plain words, for a sentence.
    pub fn words(self) -> &'static str {
        match self {
            Self::NotApplicable => "does not apply",
            Self::NotSelected => "deselected",
            Self::NotCollected => "not read by this command",
            Self::NotFound => "not there",
            Self::Denied => "no permission",
            Self::NoShell => "no shell",
            Self::Timeout => "no answer in time",
            Self::ConnectionLost => "connection lost",
            Self::Unparsable => "not understood",
            Self::Unresolved => "value or template not in the input",
        }
    }

    /// The word that JSON and text use.
    pub fn word(self) -> &'static str {
        match self {
            Self::NotApplicable => "not-applicable",
            Self::NotSelected => "not-selected",
            Self::NotCollected => "not-collected",
            Self::NotFound => "not-found",
            Self::Denied => "denied",
            Self::NoShell => "no-shell",
            Self::Timeout => "timeout",
            Self::ConnectionLost => "connection-lost",
            Self::Unparsable => "unparsable",
            Self::Unresolved => "unresolved",
        }
    }
}

/// Where evidence was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum EvidenceSource {
    /// A manifest: `path`, `line` and `column` say where.
    Manifest,
    /// A recorded machine or pod: `ask` says what was read.
    Snapshot,
}

/// What a finding rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Evidence {
    /// Where it was read.
    pub source: EvidenceSource,
    /// File, for manifests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Column in characters, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// The read that gave it, for machines and pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<String>,
    /// The text itself, bounded, with neighbours masked.
    pub excerpt: String,
}

/// One answer of one check about one target.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Finding {
    /// Stable id of the check.
    pub id: &'static str,
    /// Name of the check, or a more exact one (`env:UCX_TLS`).
    pub name: String,
    /// How bad it is.
    pub status: Status,
    /// What was seen and what was needed.
    pub detail: String,
    /// The object it is about.
    pub target: Target,
    /// Its part in trust.
    pub kv_path: KvPath,
    /// What it rests on.
    pub evidence: Vec<Evidence>,
    /// What to do.
    pub fix: Option<String>,
    /// Why it was skipped; null otherwise.
    pub reason: Option<SkipReason>,
    /// Lines to paste, shown in `fix_first`.
    #[serde(skip)]
    pub paste: Option<String>,
    /// Ids or names of findings on the same object that follow from this one when it is at least as bad.
    #[serde(skip)]
    pub causes: &'static [&'static str],
    /// Position of the check in the table.
    #[serde(skip)]
    pub order: usize,
    /// The finding in a few words, for the verdict.
    #[serde(skip)]
    pub headline: String,
    /// Tuning rather than a path.
    #[serde(skip)]
    pub minor: bool,
    /// Names of findings on the same object that it stands beneath.
    #[serde(skip)]
    pub follows: Vec<String>,
}

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

/// A finding that follows from another one.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Consequence {
    /// Id of the check.
    pub id: &'static str,
    /// Name of the finding.
    pub name: String,
    /// The object it is about.
    pub target: Target,
    /// What was seen.
    pub detail: String,
}

/// One cause, named once, with what follows from it.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Fix {
    /// Id of the check.
    pub id: &'static str,
    /// Name of the finding.
    pub name: String,
    /// fail or warn.
    pub status: Status,
    /// The object on which it is fixed.
    pub target: Target,
    /// Further objects with the very same fault.
    pub also: Vec<Target>,
    /// What was seen and what was needed.
    pub detail: String,
    /// What to do.
    pub fix: Option<String>,
    /// Lines to paste into the manifest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paste: Option<String>,
    /// What follows from it.
    pub consequences: Vec<Consequence>,
    /// Where it stands, for the text report.
    #[serde(skip)]
    pub evidence: Vec<Evidence>,
    /// It in a few words, for the verdict.
    #[serde(skip)]
    pub headline: String,
}

/// An input that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct InputError {
    /// File, directory or document.
    pub object: String,
    /// What happened and what to do.
    pub message: String,
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

/// File and line of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SourceRef {
    /// File, as the user named it.
    pub path: String,
    /// Line, from 1.
    pub line: u32,
}

/// One variable of a worker's effective environment. Exactly one of `value`, `reference` and `withheld` is present.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EnvReport {
    /// The literal value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Where the value comes from when it is no literal: `<valueFrom>`, `<dynamic>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// True when the value is literal and may carry credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withheld: Option<bool>,
    /// Level that sets it: `spec.envs`, `service.envs`, `mainContainer.env`, `spec.env`, `container.env`, each with
    /// `<-configMap` when resolved from one; `export`, `inline`.
    pub from: String,
    /// File.
    pub path: String,
    /// Line, from 1.
    pub line: u32,
}

/// One worker as the manifest describes it.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WorkerReport {
    /// Component or service name.
    pub name: String,
    /// prefill, decode, encode, pd, agg.
    pub role: String,
    /// vllm, sglang, trtllm; null when nothing says.
    pub engine: Option<String>,
    /// Replicas; 1 when not stated.
    pub replicas: u64,
    /// Nodes of one replica; 1 when not stated.
    pub nodes: u64,
    /// GPUs of one pod; null when not stated.
    pub gpus: Option<u64>,
    /// Effective catalogued environment.
    pub env: BTreeMap<String, EnvReport>,
    /// Requested RDMA resources as written.
    pub rdma_resources: BTreeMap<String, String>,
    /// Resource claims: name in the pod, and its template or claim.
    pub claims: BTreeMap<String, String>,
    /// IPC_LOCK is added.
    pub ipc_lock: bool,
    /// The container is privileged.
    pub privileged: bool,
    /// The pod uses the host's network namespace.
    pub host_network: bool,
    /// The pod uses the host's IPC namespace.
    pub host_ipc: bool,
    /// Shared memory as written; null = the operator's default of 8Gi.
    pub shm: Option<String>,
    /// How the engine moves KV: `connector`, `kv_role`, `backends`, `backend`, `buffer_device`, as far as stated.
    pub kv_transfer: serde_json::Map<String, serde_json::Value>,
    /// What in the pod spec can give a fast KV path: device-plugin, dra-rdma, compute-domain, hostpath-infiniband,
    /// host-network.
    pub reach: Vec<String>,
}

/// One workload and the trust it earned.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WorkloadReport {
    /// Where it is written.
    pub source: SourceRef,
    /// apiVersion of the object.
    pub api_version: String,
    /// kind of the object.
    pub kind: String,
    /// metadata.name.
    pub name: String,
    /// metadata.namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// spec.backendFramework as written.
    pub framework: Option<String>,
    /// KV moves between its workers.
    pub disaggregated: bool,
    /// A worker spans several nodes.
    pub multinode: bool,
    /// May its KV path be trusted?
    pub trust: Trust,
    /// Its GPU workers.
    pub workers: Vec<WorkerReport>,
    /// Position in the run.
    #[serde(skip)]
    pub ordinal: usize,
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
    /// What carried them: `rc_mlx5/mlx5_0:1 zero-copy`, or why it is not known.
    pub lane: String,
    /// `gpu` or `host`.
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
    /// The deployments that were judged.
    pub workloads: Vec<WorkloadReport>,
    /// The containers and machines that were looked at.
    pub targets: Vec<Probed>,
    /// The transfers that were made.
    pub pairs: Pairs,
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
        for workload in &mut workloads {
            let own = checks
                .iter()
                .filter(|f| f.target.ordinal == workload.ordinal);
            // Nothing that this version collects proves a lane, so no workload is proven.
            workload.trust = Trust::judge(workload.disaggregated, false, own);
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
        let paired = (workloads.is_empty() && !pairs.made.is_empty()).then(|| {
            let all = pairs.of == pairs.made.len() && pairs.made.iter().all(|p| p.proven);
            Trust::judge(true, all, checks.iter())
        });
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
            trust,
            &workloads,
            &targets,
            &pairs,
            &fix_first,
            &errors,
            coverage.observed > 0,
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
            workloads,
            targets,
            pairs,
            checks,
            errors,
            notes,
        }
    }

    /// What the pipeline should do. `strict`: a warn counts as a fail. `require_trusted`: anything but trusted is 3.
    pub fn exit_code(&self, strict: bool, require_trusted: bool) -> ExitCode {
        if !self.errors.is_empty() {
            ExitCode::CouldNotRun
        } else if self.counts.fail > 0 || (strict && self.counts.warn > 0) {
            ExitCode::Failed
        } else if require_trusted && self.trust != Trust::Trusted {
            ExitCode::NotTrusted
        } else {
            ExitCode::Ok
        }
    }
}

/// The documented exit codes. Where rules meet, 2 and 4 come first, and 1 wins over 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitCode {
    /// No check failed.
    Ok = 0,
    /// At least one check failed; with `--strict`, at least one warned.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// `--require-trusted` was given, and trust is anything but trusted.
    NotTrusted = 3,
    /// Something named could not be read; the report of the rest is still printed.
    CouldNotRun = 4,
    /// Interrupted; the report of what was seen until then is still printed.
    Interrupted = 130,
}

impl ExitCode {
    /// All codes, in order, for the documentation.
    pub const ALL: [Self; 6] = [
        Self::Ok,
        Self::Failed,
        Self::Usage,
        Self::NotTrusted,
        Self::CouldNotRun,
        Self::Interrupted,
    ];

    /// What it means, in one sentence.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Ok => "no check failed",
            Self::Failed => "at least one check failed (with `--strict`, a warn counts as a fail)",
            Self::Usage => "the command line is wrong",
            Self::NotTrusted => "`--require-trusted` was given and trust is not `trusted`",
            Self::CouldNotRun => {
                "a named input does not exist or cannot be read; the report of everything else is still printed"
            }
            Self::Interrupted => {
                "interrupted (Ctrl-C or SIGTERM); what this machine or pods had said until then is still reported, the second time nothing"
            }
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
                target: own[0].target.clone(),
                trust: Trust::judge(moves_kv, false, own.iter()),
            }
        })
        .collect()
}

/// Causes in order: fails before warns, what carries KV before what does not, then target and table order. A finding
/// that another one on the same object declares as its consequence stands beneath it, and the same fault on several
/// workers of one workload is one entry.
fn fix_first(checks: &[Finding]) -> Vec<Fix> {
    let mut open: Vec<&Finding> = checks.iter().filter(|f| f.status >= Status::Warn).collect();
    // The table of checks is ordered by harm, so within one status it decides what comes first.
    open.sort_by_key(|f| {
        (
            std::cmp::Reverse(f.status),
            f.kv_path == KvPath::Off,
            f.minor,
            f.order,
        )
    });
    let causes = Causes::among(&open);
    let mut fixes: Vec<Fix> = Vec::new();
    let mut index: BTreeMap<(usize, &str, &str, &str), usize> = BTreeMap::new();
    for f in open.iter().copied().filter(|f| causes.of(f).is_none()) {
        let key = (f.target.ordinal, f.id, f.name.as_str(), f.detail.as_str());
        if let Some(&at) = index.get(&key) {
            fixes[at].also.push(f.target.clone());
            continue;
        }
        index.insert(key, fixes.len());
        fixes.push(Fix {
            id: f.id,
            name: f.name.clone(),
            status: f.status,
            target: f.target.clone(),
            also: Vec::new(),
            detail: f.detail.clone(),
            fix: f.fix.clone(),
            paste: f.paste.clone(),
            consequences: Vec::new(),
            evidence: f.evidence.clone(),
            headline: f.headline.clone(),
        });
    }
    for f in open.iter().copied() {
        let Some(cause) = causes.of(f) else { continue };
        // A cause may itself be a consequence; climb to the entry that is listed. Tables are acyclic by a test.
        let mut top = cause;
        while let Some(next) = causes.of(top) {
            top = next;
        }
        let key = (
            top.target.ordinal,
            top.id,
            top.name.as_str(),
            top.detail.as_str(),
        );
        if let Some(&at) = index.get(&key) {
            let fix = &mut fixes[at];
            // The lines to paste often belong to the manifest side of a cause that was seen on a machine.
            let on_machine = matches!(fix.target.kind, TargetKind::Pod);
            if on_machine && fix.paste.is_none() && f.paste.is_some() {
                fix.paste.clone_from(&f.paste);
                fix.evidence.extend(f.evidence.iter().take(1).cloned());
            }
            fix.consequences.push(Consequence {
                id: f.id,
                name: f.name.clone(),
                target: f.target.clone(),
                detail: f.detail.clone(),
            });
        }
    }
    fixes
}

/// Who may be the cause of what, found without comparing thousands of containers with each other.
///
/// A cause and its consequence meet on one object: the same target, the same role of one workload (the manifest entry
/// and its pods), or a workload and its parts. Containers that belong to no workload share nothing.
struct Causes<'a> {
    /// The first of each check, in the order of the findings.
    first: BTreeMap<(Meeting<'a>, Tie<'a>), Vec<(usize, &'a Finding)>>,
}

/// Where a cause and a consequence may meet. Numbers are those of workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Meeting<'a> {
    Object(&'a Target),
    Role(usize, Option<&'a str>),
    /// The cause is the workload's own.
    FromWorkload(usize),
    /// The consequence is the workload's own.
    OnWorkload(usize),
}

/// What ties the two together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tie<'a> {
    /// The cause declares a consequence of this id or name.
    Declares(&'a str),
    /// The consequence follows a cause of this name.
    Follows(&'a str),
}

impl<'a> Causes<'a> {
    fn among(open: &[&'a Finding]) -> Self {
        let mut first: BTreeMap<_, Vec<(usize, &Finding)>> = BTreeMap::new();
        for (at, cause) in open.iter().copied().enumerate() {
            let target = &cause.target;
            let number = target.ordinal;
            let mut meetings = vec![Meeting::Object(target)];
            if number > 0 {
                meetings.push(Meeting::Role(number, target.role.as_deref()));
                meetings.push(Meeting::OnWorkload(number));
                if target.kind == TargetKind::Workload {
                    meetings.push(Meeting::FromWorkload(number));
                }
            }
            let declared = cause.causes.iter().map(|name| Tie::Declares(name));
            let ties = declared.chain([Tie::Follows(&cause.name)]);
            for tie in ties {
                for meeting in &meetings {
                    let known = first.entry((*meeting, tie)).or_default();
                    if known.iter().all(|(_, other)| other.id != cause.id) {
                        known.push((at, cause));
                    }
                }
            }
        }
        Self { first }
    }

    /// The first finding that is at least as bad, of another check, and explains this one.
    fn of(&self, f: &'a Finding) -> Option<&'a Finding> {
        let target = &f.target;
        let number = target.ordinal;
        let mut meetings = vec![Meeting::Object(target)];
        if number > 0 {
            meetings.push(Meeting::Role(number, target.role.as_deref()));
            meetings.push(Meeting::FromWorkload(number));
            if target.kind == TargetKind::Workload {
                meetings.push(Meeting::OnWorkload(number));
            }
        }
        let declared = [Tie::Declares(f.id), Tie::Declares(&f.name)];
        let follows = f.follows.iter().map(|name| Tie::Follows(name));
        declared
            .into_iter()
            .chain(follows)
            .flat_map(|tie| meetings.iter().map(move |meeting| (*meeting, tie)))
            .filter_map(|key| self.first.get(&key))
            .flatten()
            .filter(|(_, cause)| cause.status >= f.status && cause.id != f.id)
            .min_by_key(|(at, _)| *at)
            .map(|(_, cause)| *cause)
    }
}
