//! What a check sees: the facts of its scope, and the questions many checks ask of them.

use super::compare::{allows_nvlink, component, visible_gpus};
use super::declare::{Check, Draft, Outcome, Subsystem};
use crate::catalogue;
use crate::checks::live;
use crate::checks::mover::{self, Mover};
use crate::facts::container::Facts;
use crate::facts::container::pod::Pod;
use crate::facts::container::process::Whose;
use crate::judge::context::{Accelerator, Backend, Context, Gpus, Tri};
use crate::manifest::is_rdma;
use crate::manifest::workload::{Engine, EnvValue, Role, UNRECOGNISED, Worker, Workload};
use crate::observed::{Observed, Skip};
use crate::report::{KvBudget, SkipReason, Status};
use crate::snapshot::{Deployment, Folded, Node, Nodes, Place, PlaceKind, Snapshot};
use std::collections::{BTreeMap, BTreeSet};

/// One worker of a manifest, in its graph.
pub struct WorkerScope<'a> {
    /// The worker.
    pub worker: &'a Worker,
    /// Its graph.
    pub workload: &'a Workload,
    /// The KV of its running pods stays within a node ([`DeploymentScope::stays_on_node`]).
    pub on_one_node: bool,
    /// What every one of its running containers shows.
    pub running: Running,
    /// Its deployment as it is written, where the worker is what runs.
    pub written: Option<&'a Workload>,
}

/// What every container of a role shows of what a manifest leaves to the node; nothing where one of them does not show it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Running {
    /// Memory may be locked as RDMA needs it.
    pub locks_memory: bool,
    /// Its RoCE ports have addresses by which other nodes reach them.
    pub routes_roce: bool,
    /// It can open RDMA devices with ACTIVE ports.
    pub opens_devices: bool,
    /// It has an IMEX channel that it may open.
    pub holds_channel: bool,
    /// The backend of NIXL, or the other mover, that its processes were started with.
    pub backend: Option<Backend>,
}

/// One graph of a manifest.
pub struct WorkloadScope<'a> {
    /// The graph.
    pub workload: &'a Workload,
    /// Versions of engines that were seen in containers.
    pub engines: &'a Heard,
}

/// What was seen in the containers of the roles of a graph. Of a thousand that show the same, one line is kept.
#[derive(Debug, Default)]
pub struct Heard {
    /// Which version of an engine.
    engines: BTreeSet<(String, String, &'static str, String)>,
    running: BTreeMap<(String, String), Running>,
}

impl Heard {
    /// Hears of a container.
    pub(super) fn hear(&mut self, container: &Container<'_>, running: Running) {
        let place = container.place;
        let (Some(workload), Some(role)) = (&place.workload, &place.role) else {
            return;
        };
        let all = self
            .running
            .entry((workload.clone(), role.clone()))
            .or_insert(running);
        all.locks_memory &= running.locks_memory;
        all.routes_roce &= running.routes_roce;
        all.opens_devices &= running.opens_devices;
        all.holds_channel &= running.holds_channel;
        all.backend = all.backend.filter(|own| Some(*own) == running.backend);
        if let Some((engine, version)) = container.facts.software.engine() {
            self.engines
                .insert((workload.clone(), role.clone(), engine, version.text));
        }
    }

    /// What every container of a role shows; nothing where none was looked at.
    pub(super) fn running(&self, workload: &Workload, role: Role) -> Running {
        let of = |((name, word), _): &(&(String, String), &Running)| {
            *name == workload.name && word == role.word()
        };
        let found = self.running.iter().find(of);
        found.map(|(_, running)| *running).unwrap_or_default()
    }

    /// The versions of an engine, by its shown name (`vLLM`), in the containers of a role; none where none was seen.
    pub fn versions(&self, workload: &Workload, role: Role, engine: &str) -> Vec<&str> {
        let rows = self.engines.iter();
        rows.filter(|row| row.0 == workload.name && row.1 == role.word() && row.2 == engine)
            .map(|row| row.3.as_str())
            .collect()
    }
}

/// A deployment with its running containers together.
pub struct DeploymentScope<'a> {
    /// Its workers as they run; where no pod could be seen, as they are written.
    pub workload: &'a Workload,
    /// Its workers as the user's files, else the object in the cluster, describe them.
    pub written: Option<&'a Workload>,
    /// Its workers as the object in the cluster describes them.
    pub object: Option<&'a Workload>,
    /// What was read of another deployment, in words.
    pub strangers: &'a [String],
    /// The deployments that its pods say they are of, where a selector found them.
    pub deployments: &'a [String],
    /// What else was read of it.
    pub record: &'a Deployment,
    /// Its worker containers, those too that could not be looked into.
    pub containers: Vec<&'a Container<'a>>,
}

/// How long the KV of a deployment travels, as it follows from everything else that was found.
pub struct BudgetScope<'a> {
    /// Its workers as they run; where no pod could be seen, as they are written.
    pub workload: &'a Workload,
    /// The time, or why there is none.
    pub budget: &'a KvBudget,
}

impl BudgetScope<'_> {
    /// Leaves the check when no KV moves between the workers.
    pub fn require_kv(&self) -> Result<(), Skip> {
        require_kv(self.workload)
    }
}

impl<'a> DeploymentScope<'a> {
    /// Leaves the check when no KV moves between the workers.
    pub fn require_kv(&self) -> Result<(), Skip> {
        require_kv(self.workload)
    }

    /// The containers of a role.
    pub fn of(&self, role: Role) -> impl Iterator<Item = &'a Container<'a>> {
        let all = self.containers.clone().into_iter();
        all.filter(move |c| c.place.role.as_deref() == Some(role.word()))
    }

    /// The containers that hand KV on and those that take it, in the order of the report.
    pub fn ends(&self) -> (Vec<&'a Container<'a>>, Vec<&'a Container<'a>>) {
        let roles = self.containers.iter().map(|c| c.place.role.as_deref());
        let (from, to) = kv_ends(roles);
        let side = |side: Vec<usize>| side.into_iter().map(|at| self.containers[at]).collect();
        (side(from), side(to))
    }

    /// All KV stays within one node: every worker that hands it on and every one that takes it runs there, shares the node's PID
    /// and IPC namespaces, which handles of CUDA IPC need, sees the GPUs of all the others, and lets UCX use NVLink. Where this was not seen KV is taken to cross
    /// nodes.
    pub fn stays_on_node(&self) -> bool {
        let (from, to) = self.ends();
        let all = || from.iter().chain(&to).copied();
        let node = from.first().and_then(|c| c.place.node.as_ref());
        let gpus = from.first().and_then(|c| visible_gpus(c).ok());
        let joined = |c: &Container<'_>| {
            c.place.node.as_ref() == node
                && gpus.is_some()
                && visible_gpus(c).ok() == gpus
                && c.shares_nvlink()
        };
        self.workload.disaggregated && node.is_some() && !to.is_empty() && all().all(joined)
    }

    /// Its worker asks for RDMA devices as it is written, or is written nowhere.
    pub fn may_ask_for_rdma(&self, container: &Container<'_>) -> bool {
        let written = self.written.and_then(|w| named(w, component(container)));
        written.is_none_or(|worker| worker.rdma_requested())
    }

    /// Lines to paste into the container of a worker that runs, headed by where that is written.
    pub fn for_container(&self, container: &Container<'_>, lines: &str) -> String {
        headed(self.written, container, lines)
    }

    /// Lines to paste into the containers of several workers, once for each of them.
    pub fn for_containers<'c>(
        &self,
        containers: impl IntoIterator<Item = &'c Container<'c>>,
        lines: &str,
    ) -> String {
        let all = containers.into_iter();
        let mut blocks: Vec<String> = Vec::new();
        for block in all.map(|container| self.for_container(container, lines)) {
            if !blocks.contains(&block) {
                blocks.push(block);
            }
        }
        blocks.join(crate::report::BETWEEN_BLOCKS)
    }

    /// The node of a container, where nodes were read.
    pub fn node(&self, container: &Container<'_>) -> Result<&'a Node, Skip> {
        let nodes = match &self.record.nodes {
            Some(Nodes::Known(nodes)) => nodes,
            Some(Nodes::Missing { reason, detail }) => {
                return Err(Skip::new(*reason, detail.clone()));
            }
            None => {
                let detail = "nodes were not read (--nodes)";
                return Err(Skip::new(SkipReason::NotCollected, detail));
            }
        };
        let name = container.place.node.as_deref().unwrap_or_default();
        nodes.get(name).ok_or_else(|| {
            let detail = format!("nothing was read of node {name} of {}", container.place.pod);
            Skip::new(SkipReason::NotFound, detail)
        })
    }
}

fn require_kv(workload: &Workload) -> Result<(), Skip> {
    match workload.disaggregated {
        true => Ok(()),
        false => Err(Skip::not_applicable()),
    }
}

/// Positions of the containers that hand KV on, and of those that take it, by their roles: prefill and decode where there are
/// both, else encode and whoever takes what it encodes.
pub fn kv_ends<'r>(
    roles: impl Iterator<Item = Option<&'r str>> + Clone,
) -> (Vec<usize>, Vec<usize>) {
    let of = |wanted: &[Role]| -> Vec<usize> {
        let is = |role: Option<&str>| wanted.iter().any(|w| Some(w.word()) == role);
        let all = roles.clone().enumerate();
        all.filter(|(_, role)| is(*role))
            .map(|(at, _)| at)
            .collect()
    };
    let (prefill, decode) = (of(&[Role::Prefill]), of(&[Role::Decode]));
    if !prefill.is_empty() && !decode.is_empty() {
        return (prefill, decode);
    }
    (
        of(&[Role::Encode]),
        of(&[Role::Pd, Role::Decode, Role::Agg]),
    )
}

/// One container that was probed or recorded, or outputs that a person pasted.
pub struct Container<'a> {
    /// Where it runs, and in which role.
    pub place: &'a Place,
    /// Everything known about it.
    pub facts: Facts,
    /// What its variables are judged in.
    pub context: Context,
    /// Everything that was read, as it came.
    pub snapshot: &'a Snapshot,
    /// Its deployment as it is written, where lines to paste belong.
    pub written: Option<&'a Workload>,
}

impl<'a> Container<'a> {
    /// Parses what was collected.
    pub fn parse(snapshot: &'a Snapshot) -> Self {
        let facts = Facts::read(snapshot);
        let context = live::context(&snapshot.place, &facts);
        Self {
            place: &snapshot.place,
            facts,
            context,
            snapshot,
            written: None,
        }
    }

    /// Its worker, as it is written.
    pub fn written(&self) -> Option<(&'a Workload, &'a Worker)> {
        let written = self.written?;
        Some((written, named(written, component(self))?))
    }

    /// Lines to paste into it, headed by where that is written.
    pub fn for_container(&self, lines: &str) -> String {
        headed(self.written, self, lines)
    }

    /// What is kept of it to be held against the other containers of its deployment, in place of everything that was read.
    pub(super) fn beside_others(self, folded: &Folded) -> Container<'_> {
        Container {
            place: folded.place(),
            facts: self.facts.beside_others(),
            context: self.context,
            snapshot: folded.near(),
            written: None,
        }
    }

    /// The container serves a KV role, so it must have a fast path. Who pastes outputs asks about such a worker.
    pub fn moves_kv(&self) -> bool {
        match self.place.role.as_deref() {
            None => self.is_pasted(),
            Some(role) => matches!(role, "prefill" | "decode" | "encode" | "pd" | "kv_both"),
        }
    }

    /// Its KV stays on NVLink of its node, and nothing of RDMA was asked for: none is demanded.
    pub fn needs_no_rdma(&self) -> bool {
        let asks = |pod: &Pod| !pod.claims.is_empty() || pod.limits.keys().any(|l| is_rdma(l));
        self.moves_kv()
            && self.context.internode == Tri::No
            && self.facts.pod.known().is_some_and(|pod| !asks(pod))
    }

    /// It shares its node's PID and IPC namespaces, which handles of CUDA IPC need, and lets UCX use NVLink.
    pub fn shares_nvlink(&self) -> bool {
        let pod = self.facts.pod.known();
        pod.is_some_and(|pod| pod.host_pid && pod.host_ipc)
            && self.context.accelerator == Accelerator::Nvidia
            && self.context.efa != Tri::Yes
            && matches!(self.context.backend, Backend::Ucx | Backend::Unknown)
            && allows_nvlink(self) == Ok(true)
    }

    /// The facts come from outputs that a person pasted: what they do not hold is not known.
    pub fn is_pasted(&self) -> bool {
        self.place.kind == PlaceKind::Pasted
    }

    /// The container serves whole requests: no KV leaves it.
    pub fn is_aggregated(&self) -> bool {
        self.place.role.as_deref() == Some("agg")
    }

    /// No output that another one contradicts shows that RDMA or the GPUs are right: they may be of two places. A fault in one
    /// of them stays a fault.
    pub fn doubted(&self, check: &Check, outcome: Outcome) -> Outcome {
        let conflicts = match check.subsystem {
            Subsystem::Rdma => &self.facts.rdma.conflicts,
            Subsystem::Gpu => &self.facts.gpu.conflicts,
            _ => return outcome,
        };
        let Some(conflict) = conflicts.first() else {
            return outcome;
        };
        let doubt = |draft: Draft| match draft.status {
            Status::Ok => Draft::skipped(Skip::new(
                SkipReason::Unparsable,
                format!(
                    "{}, if the pasted outputs were of one place; {}",
                    draft.detail,
                    conflict.between()
                ),
            )),
            _ => draft,
        };
        outcome.map(|drafts| drafts.into_iter().map(doubt).collect())
    }

    /// Which ports are judged, for a sentence: `3 of 4 ports that the container may open`.
    pub fn ports_in_question(&self) -> &'static str {
        match self.place.kind {
            PlaceKind::Pasted if self.facts.rdma.judges_all() => "that the pasted outputs show",
            PlaceKind::Pod => "that the container may open",
            PlaceKind::Host | PlaceKind::Pasted => "that may be opened here",
        }
    }

    /// The state of some ports is not known: it was not shown, or pasted outputs contradict each other about it.
    pub fn state_not_seen(&self) -> Skip {
        let rdma = &self.facts.rdma;
        if !rdma.conflicts.is_empty() {
            let detail = "the pasted outputs contradict each other about the state of some ports";
            return Skip::new(SkipReason::NotCollected, detail);
        }
        let down: Vec<String> = rdma
            .interfaces
            .known()
            .into_iter()
            .flat_map(|rows| &rows.rows)
            .filter(|row| row.netdev_up == Some(false))
            .map(|row| format!("{} of {}", row.netdev, row.device))
            .collect();
        let mut detail = "the state of some ports was not seen".to_owned();
        if !down.is_empty() {
            detail = format!(
                "the interface {} is down, which is a fault on RoCE and none on InfiniBand; {detail}",
                down.join(", ")
            );
        }
        self.not_shown(detail, "ibstat")
    }

    /// Something that the outputs which were read do not show; of pasted ones, with the one that shows it.
    pub fn not_shown(&self, detail: impl Into<String>, input: &'static str) -> Skip {
        let detail = detail.into();
        if !self.is_pasted() {
            return Skip::new(SkipReason::NotCollected, detail);
        }
        Skip {
            detail: format!("{detail}; {input} shows it (--input {input}=FILE)"),
            ..Skip::not_pasted([input])
        }
    }

    /// The place in a sentence: a machine that the tool runs on is no container.
    pub fn called(&self) -> &'static str {
        match self.place.kind {
            PlaceKind::Pod => "the container",
            PlaceKind::Host => "the machine",
            PlaceKind::Pasted => "the worker",
        }
    }

    /// Broken for a worker that must move KV; of another place it is only said that it could not.
    pub fn broken(&self, detail: impl Into<String>) -> Draft {
        if self.moves_kv() {
            Draft::fail(detail)
        } else {
            Draft::warn(detail)
        }
    }

    /// The environment that was read is that of a worker which may move KV: a worker's, or a person says so by pasting it, and
    /// not just a shell's.
    pub fn has_workers_environment(&self) -> bool {
        self.moves_kv()
            || !self.is_aggregated()
                && self
                    .facts
                    .process
                    .environment
                    .known()
                    .is_some_and(|environment| environment.whose != Whose::Probe)
    }

    /// Leaves the check where there is no GPU.
    pub fn require_gpu(&self) -> Result<(), Skip> {
        match self.facts.gpu.list.get()?.is_empty() {
            true => Err(Skip::not_applicable()),
            false => Ok(()),
        }
    }
}

/// Leaves the check when a placeholder stands where this part of a worker would be.
pub fn known(worker: &Worker, part: &str) -> Result<(), Skip> {
    if !worker.lacks(part) {
        return Ok(());
    }
    let detail = format!(
        "a placeholder stands for the {part} of {}: fill it in first (envsubst)",
        worker.called()
    );
    Err(Skip::new(SkipReason::Unresolved, detail))
}

/// A flag whose value is not written as the number that it must be.
pub fn no_number(worker: &Worker, flag: &'static str, text: &str) -> Skip {
    let (name, flag) = (&worker.name, worker.calls(flag));
    let detail = match (text, &worker.kv_transfer.laid_over) {
        (UNRECOGNISED, Some(what)) => {
            format!("{flag} of {name} is not known: {what} goes before it, and was not read")
        }
        (UNRECOGNISED, None) => format!(
            "{flag} of {name} is not known: what decides it was not read, or is no number that could be shown"
        ),
        (text, _) => format!("{flag} {text} of {name} is no number"),
    };
    Skip::new(SkipReason::Unresolved, detail)
}

impl WorkerScope<'_> {
    /// Leaves the check when no KV moves to or from this worker.
    pub fn require_kv(&self) -> Result<(), Skip> {
        require_kv(self.workload)
    }

    /// The value of a variable as written; None when it is unset, and a skip when only the running worker knows it.
    pub fn literal(&self, name: &str) -> Result<Option<&str>, Skip> {
        match self.worker.env.get(name).map(|e| &e.value) {
            None => known(self.worker, "env").map(|()| None),
            Some(EnvValue::Literal(value)) => Ok(Some(value)),
            Some(_) => Err(Skip::new(
                SkipReason::Unresolved,
                format!(
                    "{name} of {} is set, and its value is not in this input",
                    self.worker.name
                ),
            )),
        }
    }

    /// The NIXL backend that moves this worker's KV: as it is written, else as its processes were started.
    pub fn backend(&self) -> Observed<Backend> {
        match (backend(self.worker), self.running.backend) {
            (Observed::Missing(_), Some(running)) => Observed::Known(running),
            // What a start script chooses goes before what is written.
            (_, Some(Backend::Other)) => Observed::Known(Backend::Other),
            (written, _) => written,
        }
    }

    /// The same for what variables are judged in. Who sets TensorRT-LLM's variable means it, whatever the configuration that is not
    /// at hand says; it decides nothing.
    fn likely_backend(&self) -> Backend {
        let named = self.worker.literal(OF_NIXL_IN_TRTLLM);
        match (self.backend(), self.worker.engine, named) {
            (Observed::Known(backend), ..) => backend,
            (_, Some(Engine::Trtllm), Some(value)) => Backend::named(value),
            _ => Backend::Unknown,
        }
    }

    /// What a manifest knows about the place in which this worker's variables take effect. Library versions, ports,
    /// GID tables and modules stay unknown: a manifest cannot see them.
    pub fn context(&self) -> Context {
        let w = self.worker;
        // What a placeholder may still ask for is not known.
        let asked = |asked: bool| match asked || !w.lacks("resources") {
            true => Tri::from(asked),
            false => Tri::Unknown,
        };
        let rdma = match (w.rdma_requested(), w.may_reach_unasked()) {
            (true, _) => Tri::Yes,
            (false, _) if self.running.opens_devices => Tri::Yes,
            (false, true) => Tri::Unknown,
            (false, false) => asked(false),
        };
        Context {
            may_share_node: if self.workload.separates_roles {
                Tri::No
            } else if self.workload.colocates_roles {
                Tri::Yes
            } else {
                Tri::Unknown
            },
            internode: match self.on_one_node {
                true => Tri::No,
                false => Tri::Unknown,
            },
            ranks_internode: Tri::from(w.nodes > 1),
            gpus: w.gpus.map(|n| Gpus {
                count: u32::try_from(n).unwrap_or(u32::MAX),
                model: String::new(),
                nvswitch: Tri::Unknown,
            }),
            // A claim whose template is not at hand may be a channel of a domain.
            mnnvl: match asked(w.compute_domain()) {
                Tri::No if !w.unresolved_claims.is_empty() => Tri::Unknown,
                asked => asked,
            },
            rdma,
            efa: asked(w.efa()),
            backend: self.likely_backend(),
            host_buffers: w.kv_in_host_memory(),
            accelerator: accelerator(w),
            roles_separated: Tri::from(self.workload.separates_roles),
            ..Context::default()
        }
    }
}

/// The worker of a component.
fn named<'w>(workload: &'w Workload, component: &str) -> Option<&'w Worker> {
    let mut workers = workload.workers.iter();
    workers.find(|w| w.name.eq_ignore_ascii_case(component))
}

/// Lines to paste into a container, headed by where that is written.
fn headed(written: Option<&Workload>, container: &Container<'_>, lines: &str) -> String {
    let name = component(container);
    let own = written.and_then(|written| {
        let worker = named(written, name)?;
        Some(container_place(&written.api_version, worker))
    });
    match own {
        Some(place) => format!("# under {place}\n{lines}"),
        None if name.is_empty() => format!("# under the worker's container\n{lines}"),
        None => format!("# under the container of {name}\n{lines}"),
    }
}

/// Where a worker's container is written, for lines to paste: each API version keeps it elsewhere.
pub fn container_place(api_version: &str, worker: &Worker) -> String {
    // No path can be made of another name, and Kubernetes takes none.
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    match api_version {
        _ if !worker.name.chars().all(plain) => "the worker's container".to_owned(),
        "nvidia.com/v1alpha1" => {
            format!("spec.services.{}.extraPodSpec.mainContainer", worker.name)
        }
        "nvidia.com/v1beta1" => format!(
            "spec.components[{}].podTemplate.spec.containers[main]",
            worker.name
        ),
        _ => "the worker's container".to_owned(),
    }
}

/// Where a worker's pod is written.
pub fn pod_place(api_version: &str, worker: &Worker) -> String {
    match api_version {
        "nvidia.com/v1alpha1" => format!("spec.services.{}.extraPodSpec", worker.name),
        "nvidia.com/v1beta1" => format!("spec.components[{}].podTemplate.spec", worker.name),
        _ => "the pod's spec".to_owned(),
    }
}

/// Where the annotations of a worker's pod are written; None where that differs with the object.
pub fn annotations_place(api_version: &str, worker: &Worker) -> Option<String> {
    let name = &worker.name;
    match api_version {
        "nvidia.com/v1alpha1" => Some(format!("spec.services.{name}.extraPodMetadata.annotations")),
        "nvidia.com/v1beta1" => Some(format!(
            "spec.components[{name}].podTemplate.metadata.annotations"
        )),
        _ => None,
    }
}

impl WorkerScope<'_> {
    /// The worker as it is written: where it runs its pods may have been changed.
    pub fn as_written(&self) -> Option<&Worker> {
        match self.written {
            Some(written) => named(written, &self.worker.name),
            None => Some(self.worker),
        }
    }

    /// Lines to paste into this worker's container, headed by where that is.
    pub fn for_container(&self, lines: &str) -> String {
        format!(
            "# under {}\n{lines}",
            container_place(&self.workload.api_version, self.worker)
        )
    }
}

impl WorkloadScope<'_> {
    /// Leaves the check when no KV moves between the workers.
    pub fn require_kv(&self) -> Result<(), Skip> {
        require_kv(self.workload)
    }

    /// Every pair of workers between which KV moves: each prefill with each decode, or each encode with each receiver.
    pub fn pairs(&self) -> Vec<(&Worker, &Worker)> {
        let of = |role: Role| self.workload.workers.iter().filter(move |w| w.role == role);
        let cross = |from: Role, to: &[Role]| {
            let to: Vec<&Worker> = to.iter().flat_map(|role| of(*role)).collect();
            of(from)
                .flat_map(|a| to.iter().map(move |b| (a, *b)).collect::<Vec<_>>())
                .collect::<Vec<_>>()
        };
        let pairs = cross(Role::Prefill, &[Role::Decode]);
        if pairs.is_empty() {
            cross(Role::Encode, &[Role::Pd, Role::Decode, Role::Agg])
        } else {
            pairs
        }
    }

    /// Asks `judge` about every pair. When all pairs are fine one answer says so for all of them; else each pair that is
    /// not fine speaks, and each sentence once.
    pub fn over_pairs(&self, mut judge: impl FnMut(&Worker, &Worker) -> Outcome) -> Outcome {
        self.require_kv()?;
        let mut drafts: Vec<Draft> = Vec::new();
        for (left, right) in self.pairs() {
            match judge(left, right) {
                Ok(found) => drafts.extend(found),
                Err(skip) if skip.reason == SkipReason::NotApplicable => {}
                Err(skip) => drafts.push(Draft::skipped(skip)),
            }
        }
        if drafts.is_empty() {
            return Err(Skip::not_applicable());
        }
        let fine = drafts.iter().all(|d| d.status == Status::Ok);
        let mut said: BTreeSet<String> = BTreeSet::new();
        drafts.retain(|d| (fine || d.status != Status::Ok) && said.insert(d.detail.clone()));
        if fine {
            drafts.truncate(1);
        }
        Ok(drafts)
    }
}

/// TensorRT-LLM's choice among the backends of NIXL. Whether NIXL moves KV stands in the engine's configuration.
const OF_NIXL_IN_TRTLLM: &str = "TRTLLM_NIXL_KVCACHE_BACKEND";

/// The NIXL backend that moves KV, by the engine's own selectors. `DYN_KVBM_*` does not select it.
fn backend(worker: &Worker) -> Observed<Backend> {
    let kv = &worker.kv_transfer;
    if let Some(what) = &kv.unresolved {
        return Observed::Missing(Skip::new(
            SkipReason::Unresolved,
            format!("the KV backend of {} is decided by {what}", worker.name),
        ));
    }
    let by_variable = |variable: &str| match worker.env.get(variable) {
        None => match known(worker, "env") {
            Ok(()) => Observed::Known(Backend::Ucx),
            Err(skip) => Observed::Missing(skip),
        },
        Some(_) => match worker.literal(variable) {
            Some(value) => Observed::Known(Backend::named(value)),
            None => Observed::Missing(Skip::new(
                SkipReason::Unresolved,
                format!(
                    "the KV backend of {} is decided by {variable}, whose value is not written here",
                    worker.name
                ),
            )),
        },
    };
    let chosen = kv.backend.as_deref().map(str::to_ascii_lowercase);
    match (worker.engine, chosen.as_deref()) {
        (Some(Engine::Sglang), Some("nixl")) => by_variable("SGLANG_DISAGGREGATION_NIXL_BACKEND"),
        (Some(Engine::Trtllm), Some("default")) => match switch_of_trtllm(worker) {
            None | Some("nixl") => by_variable(OF_NIXL_IN_TRTLLM),
            Some("ucx") => Observed::Known(Backend::Ucx),
            Some(_) => Observed::Known(Backend::Other),
        },
        (Some(Engine::Trtllm), Some("nixl")) => by_variable(OF_NIXL_IN_TRTLLM),
        (_, Some(UNRECOGNISED)) => Observed::Known(Backend::Unknown),
        (_, Some("ucx" | "nixl")) => Observed::Known(Backend::Ucx),
        (_, Some(_)) => Observed::Known(Backend::Other),
        (Some(Engine::Vllm), None) => Observed::Known(of_vllm(worker)),
        (_, None) => Observed::Known(Backend::Unknown),
    }
}

/// The transfer backend that `cache_transceiver_config.backend: DEFAULT` means where a switch in the environment is on; the first
/// one wins, and without any it is NIXL.
pub(super) fn switch_of_trtllm(worker: &Worker) -> Option<&'static str> {
    catalogue::switch_of_trtllm(|name| worker.literal(name))
}

/// vLLM's connectors: NIXL moves KV by UCX unless its `backends` say otherwise; of LMCache and stores only an explicit list of
/// backends tells.
fn of_vllm(worker: &Worker) -> Backend {
    let kv = &worker.kv_transfer;
    let listed = |name: &str| kv.backends.iter().any(|b| b.eq_ignore_ascii_case(name));
    if listed("LIBFABRIC") {
        return Backend::Libfabric;
    }
    if listed("UCX") {
        return Backend::Ucx;
    }
    if kv.connector.is_none() {
        return Backend::Ucx;
    }
    match mover::of_connectors(kv.connectors()) {
        Mover::Nixl => Backend::Ucx,
        Mover::Other(other) if other.alone => Backend::Other,
        Mover::Other(_) | Mover::Open(_) => Backend::Unknown,
    }
}

fn accelerator(worker: &Worker) -> Accelerator {
    let class = |needle: &str| worker.claim_classes.values().any(|c| c.contains(needle));
    match worker.kv_transfer.buffer_device.as_deref() {
        Some("xpu") => Accelerator::Intel,
        _ if class("intel.com") => Accelerator::Intel,
        _ if class("amd.com") => Accelerator::Amd,
        Some("cuda") => Accelerator::Nvidia,
        _ if class("gpu.nvidia.com") || worker.gpus.is_some() => Accelerator::Nvidia,
        _ => Accelerator::Unknown,
    }
}
