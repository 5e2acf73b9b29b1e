//! What a check sees: the facts of its scope, and the questions many checks ask of them.

use crate::checks::declare::Draft;
use crate::checks::live;
use crate::facts::container::Facts;
use crate::facts::container::process::Whose;
use crate::judge::context::{Accelerator, Backend, Context, Gpus, Tri};
use crate::manifest::workload::{Engine, Role, Worker, Workload};
use crate::observed::{Observed, Skip};
use crate::report::SkipReason;
use crate::snapshot::{Place, Snapshot};

/// One worker of a manifest, in its graph.
pub struct WorkerScope<'a> {
    /// The worker.
    pub worker: &'a Worker,
    /// Its graph.
    pub workload: &'a Workload,
}

/// One graph of a manifest.
pub struct WorkloadScope<'a> {
    /// The graph.
    pub workload: &'a Workload,
}

/// One container that was probed or recorded, or outputs that a person pasted.
pub struct Container<'a> {
    /// Where it runs, and in which role.
    pub place: &'a Place,
    /// Everything known about it.
    pub facts: Facts,
    /// What its variables are judged in.
    pub context: Context,
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
        }
    }

    /// The container serves a KV role, so it must have a fast path.
    pub fn moves_kv(&self) -> bool {
        matches!(
            self.place.role.as_deref(),
            Some("prefill" | "decode" | "encode" | "pd")
        )
    }

    /// The container serves whole requests: no KV leaves it.
    pub fn is_aggregated(&self) -> bool {
        self.place.role.as_deref() == Some("agg")
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

impl WorkerScope<'_> {
    /// Leaves the check when no KV moves to or from this worker.
    pub fn require_kv(&self) -> Result<(), Skip> {
        if self.workload.disaggregated {
            Ok(())
        } else {
            Err(Skip::not_applicable())
        }
    }

    /// The NIXL backend that moves this worker's KV.
    pub fn backend(&self) -> Observed<Backend> {
        backend(self.worker)
    }

    /// What a manifest knows about the place in which this worker's variables take effect. Library versions, ports,
    /// GID tables and modules stay unknown: a manifest cannot see them.
    pub fn context(&self) -> Context {
        let w = self.worker;
        let rdma = match (
            w.rdma_requested(),
            w.reach.is_empty() && w.unresolved_claims.is_empty(),
        ) {
            (true, _) => Tri::Yes,
            (false, true) => Tri::No,
            // The host's network brings the host's devices only with the right permissions, and an unresolved claim
            // may be one: not known.
            (false, false) if w.compute_domain() => Tri::No,
            (false, false) => Tri::Unknown,
        };
        Context {
            may_share_node: if self.workload.separates_roles {
                Tri::No
            } else if self.workload.colocates_roles {
                Tri::Yes
            } else {
                Tri::Unknown
            },
            ranks_internode: Tri::from(w.nodes > 1),
            gpus: w.gpus.map(|n| Gpus {
                count: u32::try_from(n).unwrap_or(u32::MAX),
                model: String::new(),
                nvswitch: Tri::Unknown,
            }),
            mnnvl: Tri::from(w.compute_domain()),
            rdma,
            efa: Tri::from(w.efa()),
            backend: self.backend().known().copied().unwrap_or_default(),
            host_buffers: w.kv_in_host_memory(),
            accelerator: accelerator(w),
            roles_separated: Tri::from(self.workload.separates_roles),
            ..Context::default()
        }
    }
}

impl WorkloadScope<'_> {
    /// Leaves the check when no KV moves between the workers.
    pub fn require_kv(&self) -> Result<(), Skip> {
        if self.workload.disaggregated {
            Ok(())
        } else {
            Err(Skip::not_applicable())
        }
    }

    /// The first workers of the two sides between which KV moves: prefill and decode, or encode and its receiver.
    pub fn sides(&self) -> Option<(&Worker, &Worker)> {
        let first = |role: Role| self.workload.workers.iter().find(|w| w.role == role);
        if let (Some(p), Some(d)) = (first(Role::Prefill), first(Role::Decode)) {
            return Some((p, d));
        }
        let receiver = first(Role::Pd)
            .or_else(|| first(Role::Decode))
            .or_else(|| first(Role::Agg));
        Some((first(Role::Encode)?, receiver?))
    }
}

/// The NIXL backend that moves KV, by the engine's own selectors. `DYN_KVBM_*` does not select it.
fn backend(worker: &Worker) -> Observed<Backend> {
    let kv = &worker.kv_transfer;
    if let Some(what) = &kv.unresolved {
        return Observed::Missing(Skip::new(
            SkipReason::Unresolved,
            format!(
                "the KV backend of {} is decided by {what}, which this input does not hold",
                worker.name
            ),
        ));
    }
    let named = |name: &str| match name.to_ascii_uppercase().as_str() {
        "UCX" => Backend::Ucx,
        "LIBFABRIC" => Backend::Libfabric,
        _ => Backend::Other,
    };
    let by_variable = |variable: &str| match worker.env.get(variable) {
        None => Observed::Known(Backend::Ucx),
        Some(_) => match worker.literal(variable) {
            Some(value) => Observed::Known(named(value)),
            None => Observed::Missing(Skip::new(
                SkipReason::Unresolved,
                format!(
                    "the KV backend of {} is decided by {variable}, whose value is not written here",
                    worker.name
                ),
            )),
        },
    };
    match (
        worker.engine,
        kv.backend
            .as_deref()
            .map(str::to_ascii_lowercase)
            .as_deref(),
    ) {
        (Some(Engine::Sglang), Some("nixl")) => by_variable("SGLANG_DISAGGREGATION_NIXL_BACKEND"),
        (Some(Engine::Trtllm), Some("nixl" | "default")) => {
            by_variable("TRTLLM_NIXL_KVCACHE_BACKEND")
        }
        (_, Some("ucx")) => Observed::Known(Backend::Ucx),
        (_, Some("nixl")) => Observed::Known(Backend::Ucx),
        (_, Some(_)) => Observed::Known(Backend::Other),
        (Some(Engine::Vllm), None) => {
            let backend = kv
                .backends
                .iter()
                .map(|b| named(b))
                .find(|b| *b != Backend::Other);
            Observed::Known(backend.unwrap_or(Backend::Ucx))
        }
        (_, None) => Observed::Known(Backend::Unknown),
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
