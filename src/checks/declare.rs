//! What a check is: one static with its documentation, and a pure total function from facts to findings.

use crate::checks::{BudgetScope, Container, DeploymentScope, WorkerScope, WorkloadScope};
use crate::facts::pair::PairFacts;
use crate::manifest::Inventory;
use crate::manifest::workload::Worker;
use crate::observed::Skip;

use crate::report::{Evidence, KvPath, SkipReason, Status};
use crate::snapshot::Place;

/// A finding before the runner adds id, target and order.
#[derive(Debug, Clone)]
pub struct Draft {
    /// How bad it is.
    pub status: Status,
    /// What was seen and what was needed.
    pub detail: String,
    /// A more exact name than the check's own.
    pub name: Option<String>,
    /// A more exact part in trust than the check's own.
    pub kv_path: Option<KvPath>,
    /// What it rests on.
    pub evidence: Vec<Evidence>,
    /// What to do.
    pub fix: Option<String>,
    /// Lines to paste.
    pub paste: Option<String>,
    /// Set when the status is skipped.
    pub reason: Option<SkipReason>,
    /// The finding in a few words, for the verdict; the check's own first line otherwise.
    pub headline: Option<String>,
    /// Tuning rather than a path: stands behind everything else of its status.
    pub minor: bool,
    /// Names of findings on the same object that say the same thing better, when they are at least as bad.
    pub follows: Vec<String>,
    /// Ids or names of what follows from this finding alone, where the check's own list is of several things it looks at.
    pub causes: Option<&'static [&'static str]>,
    /// Pasted outputs that would answer what was skipped.
    pub inputs: Vec<&'static str>,
    /// What it is about, where a check looks at many.
    pub about: Option<About>,
}

/// A part of what a check looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum About {
    /// One container.
    Pod(Place),
    /// One worker of the workload.
    Worker {
        /// Its position among the workers.
        position: usize,
        /// Its name.
        name: String,
        /// The word for its role.
        role: &'static str,
    },
}

impl Draft {
    /// A finding of this status.
    pub fn new(status: Status, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self {
            status,
            detail,
            name: None,
            kv_path: None,
            evidence: Vec::new(),
            fix: None,
            paste: None,
            reason: None,
            headline: None,
            minor: false,
            follows: Vec::new(),
            causes: None,
            inputs: Vec::new(),
            about: None,
        }
    }

    /// Looked at and harmless.
    pub fn ok(detail: impl Into<String>) -> Self {
        Self::new(Status::Ok, detail)
    }

    /// Degraded, ignored or fragile.
    pub fn warn(detail: impl Into<String>) -> Self {
        Self::new(Status::Warn, detail)
    }

    /// Broken.
    pub fn fail(detail: impl Into<String>) -> Self {
        Self::new(Status::Fail, detail)
    }

    /// Inconclusive for one part of a check, while other parts have an answer.
    pub fn skipped(skip: Skip) -> Self {
        Self {
            reason: Some(skip.reason),
            inputs: skip.inputs,
            ..Self::new(Status::Skipped, skip.detail)
        }
    }

    /// Names the finding more exactly.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Overrides the part in trust.
    pub fn on_kv_path(mut self, kv_path: KvPath) -> Self {
        self.kv_path = Some(kv_path);
        self
    }

    /// Adds evidence.
    pub fn with(mut self, evidence: impl IntoIterator<Item = Evidence>) -> Self {
        self.evidence.extend(evidence);
        self
    }

    /// Says what to do.
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// Says it in a few words.
    pub fn headline(mut self, words: impl Into<String>) -> Self {
        self.headline = Some(words.into());
        self
    }

    /// Says it in the first clause of its detail: where the check's own first line names several problems, the verdict is to
    /// name the one that is there.
    pub fn headline_of_detail(self) -> Self {
        let words = crate::checks::words::first_clause(&self.detail);
        self.headline(words)
    }

    /// Puts it behind everything else of its status.
    pub fn minor(mut self, minor: bool) -> Self {
        self.minor = minor;
        self
    }

    /// Stands beneath a finding of this name, where there is one.
    pub fn follows(mut self, name: impl Into<String>) -> Self {
        self.follows.push(name.into());
        self
    }

    /// Says what follows from it, where the check's own list is of several things.
    pub fn explains(mut self, names: &'static [&'static str]) -> Self {
        self.causes = Some(names);
        self
    }

    /// Says which container it is about.
    pub fn about(mut self, place: &Place) -> Self {
        self.about = Some(About::Pod(place.clone()));
        self
    }

    /// Says which worker it is about, with all its pods.
    pub fn about_worker(mut self, position: usize, worker: &Worker) -> Self {
        let (name, role) = (worker.name.clone(), worker.role.word());
        self.about = Some(About::Worker {
            position,
            name,
            role,
        });
        self
    }

    /// Gives the exact lines to paste.
    pub fn paste(mut self, lines: impl Into<String>) -> Self {
        self.paste = Some(lines.into());
        self
    }
}

/// What a check returns: findings (none when the question does not arise), or the reason it cannot say.
pub type Outcome = Result<Vec<Draft>, Skip>;

/// Which part of the system a check looks at. Groups the documentation and prefixes the id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subsystem {
    /// Environment variables (ENV).
    Env,
    /// Manifests and Kubernetes objects (K8S).
    Kubernetes,
    /// RDMA devices and ports (RDMA).
    Rdma,
    /// Transfers between two ends (XFER).
    Transfer,
    /// GPUs, NVLink, GPUDirect and PCIe (GPU).
    Gpu,
    /// The UCX in use (UCX).
    Ucx,
    /// NIXL and its backends (NIXL).
    Nixl,
    /// NCCL (NCCL).
    Nccl,
    /// Locked and shared memory (MEM).
    Memory,
    /// Machines and containers as a whole (NODE).
    Node,
    /// What only all parts of a deployment together show (DEP).
    Deployment,
}

impl Subsystem {
    /// Prefix of the ids.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Env => "ENV",
            Self::Kubernetes => "K8S",
            Self::Rdma => "RDMA",
            Self::Transfer => "XFER",
            Self::Gpu => "GPU",
            Self::Ucx => "UCX",
            Self::Nixl => "NIXL",
            Self::Nccl => "NCCL",
            Self::Memory => "MEM",
            Self::Node => "NODE",
            Self::Deployment => "DEP",
        }
    }
}

/// The function of a check, by the facts it judges.
#[derive(Clone, Copy)]
pub enum Run {
    /// What the user named, as a whole.
    Input(fn(&Inventory) -> Outcome),
    /// One worker of a manifest, in its workload.
    Worker(fn(&WorkerScope<'_>) -> Outcome),
    /// One workload of a manifest.
    Workload(fn(&WorkloadScope<'_>) -> Outcome),
    /// One container that was probed or recorded.
    Container(fn(&Container<'_>) -> Outcome),
    /// Two ends between which a transfer was made.
    Pair(fn(&PairFacts) -> Outcome),
    /// A deployment with its running containers together.
    Deployment(fn(&DeploymentScope<'_>) -> Outcome),
    /// How long the KV of a deployment travels: judged after everything else, because what is wrong on the path decides whether
    /// there is a time at all.
    Budget(fn(&BudgetScope<'_>) -> Outcome),
}

/// A check: everything there is to know about it, in one place.
pub struct Check {
    /// Stable id, never reused.
    pub id: &'static str,
    /// Name; new names state the problem.
    pub name: &'static str,
    /// Its `///` text: a first line that states the problem, then `## Why it matters` and `## Fix`.
    pub doc: &'static str,
    /// Part of the system.
    pub subsystem: Subsystem,
    /// Part in trust.
    pub kv_path: KvPath,
    /// The gravest status it can return.
    pub worst: Status,
    /// Ids or names of findings on the same object that follow from this one.
    pub causes: &'static [&'static str],
    /// First version that had it.
    pub since: &'static str,
    /// What it does.
    pub run: Run,
}

impl Check {
    /// The documentation with the blank after each `///` removed.
    pub fn documentation(&self) -> String {
        self.doc
            .lines()
            .map(|l| l.strip_prefix(' ').unwrap_or(l))
            .collect::<Vec<_>>()
            .join("\n")
            .trim()
            .to_owned()
    }

    /// The first line of the documentation: the problem as a sentence.
    pub fn problem(&self) -> String {
        self.documentation()
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned()
    }
}

/// Declares a check in one file: documentation, id, name, scope and fields. The file also holds `fn run`.
///
/// ```text
/// check! {
///     /// Locked-memory limit is too small for RDMA memory registration.
///     ///
///     /// ## Why it matters
///     /// ...
///     /// ## Fix
///     /// ...
///     "K8S002" "rdma-without-ipc-lock" on Worker {
///         subsystem: Kubernetes, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
///     }
/// }
/// fn run(scope: &WorkerScope<'_>) -> Outcome { .. }
/// ```
#[macro_export]
#[doc(hidden)]
macro_rules! check {
    ( $(#[doc = $doc:literal])+ $id:literal $name:literal on $scope:ident {
        subsystem: $subsystem:ident, kv_path: $kv_path:ident, worst: $worst:ident,
        causes: $causes:expr, since: $since:literal $(,)?
    } ) => {
        $(#[doc = $doc])+
        pub(crate) static CHECK: $crate::checks::declare::Check = $crate::checks::declare::Check {
            id: $id,
            name: $name,
            doc: concat!($($doc, "\n"),+),
            subsystem: $crate::checks::declare::Subsystem::$subsystem,
            kv_path: $crate::report::KvPath::$kv_path,
            worst: $crate::report::Status::$worst,
            causes: $causes,
            since: $since,
            run: $crate::checks::declare::Run::$scope(run),
        };
    };
}
