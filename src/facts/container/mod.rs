//! What one container is: typed facts from the answers of its snapshot.
//!
//! Several reads answer one question; the kernel's own files come first, then tools that ask the driver, then tools that
//! only format what the kernel says. Outputs that a person pastes go the same way, so a snapshot without sysfs works.
//!
//! Every fact carries the read that gave it, or the reason why there is none. Nothing is concluded from silence: a fact
//! says "there is none" only where the place was readable and the answer is whole.

mod answers;
pub mod gpu;
pub mod host;
pub mod logs;
pub mod network;
pub mod pod;
pub mod process;
pub mod rdma;
pub mod software;

pub use answers::{Conflict, Seen};

use crate::observed::{Observed, Skip};
use crate::report::SkipReason;
use crate::snapshot::Snapshot;
use std::collections::BTreeMap;

/// Everything known about one container.
#[derive(Debug, Clone)]
pub struct Facts {
    /// RDMA devices: what is visible, and what may be opened.
    pub rdma: rdma::Rdma,
    /// Network interfaces and local addresses.
    pub network: network::Network,
    /// The worker process: limits, capabilities, environment.
    pub process: process::Process,
    /// Kernel, machine, modules, memory file systems.
    pub host: host::Host,
    /// GPUs, how they are joined, and the driver.
    pub gpu: gpu::Gpus,
    /// UCX, NIXL, NCCL and engines.
    pub software: software::Software,
    /// Logs that a person pasted.
    pub logs: logs::Logs,
    /// What the API says of the pod around it.
    pub pod: Observed<pod::Pod>,
}

impl Facts {
    /// Reads all answers of a snapshot. Total: whatever the answers are, every fact is there or says why not.
    pub fn read(snapshot: &Snapshot) -> Self {
        Self {
            rdma: rdma::Rdma::read(snapshot),
            network: network::Network::read(snapshot),
            process: process::Process::read(snapshot),
            host: host::Host::read(snapshot),
            gpu: gpu::Gpus::read(snapshot),
            software: software::Software::read(snapshot),
            logs: logs::Logs::read(snapshot),
            pod: pod::read(snapshot),
        }
    }

    /// What is needed to hold a container against the others of its deployment. Counters, logs, the machine, and how GPUs are
    /// joined within it say nothing about another container, and are let go: of a thousand, all is not held side by side.
    pub fn beside_others(mut self) -> Self {
        fn let_go<T>(fact: &mut Observed<T>) {
            let why = "let go (a defect)";
            *fact = Observed::Missing(Skip::new(SkipReason::NotCollected, why));
        }
        let_go(&mut self.rdma.counters);
        let_go(&mut self.network.interfaces);
        let_go(&mut self.host.kernel);
        let_go(&mut self.host.cpu);
        let_go(&mut self.host.machine);
        let_go(&mut self.host.modules);
        let_go(&mut self.host.module_versions);
        let_go(&mut self.host.memory_peers);
        let_go(&mut self.host.iommu_words);
        let_go(&mut self.host.iommu_units);
        let_go(&mut self.gpu.parameters);
        let_go(&mut self.gpu.topology);
        let_go(&mut self.gpu.nvlink);
        let_go(&mut self.gpu.places);
        let_go(&mut self.logs.nccl);
        let_go(&mut self.logs.ucx);
        let_go(&mut self.logs.ucx_tool);
        let_go(&mut self.logs.kernel);
        self
    }

    /// What the API says of the pod alone, without reading the rest.
    pub fn pod(snapshot: &Snapshot) -> Observed<pod::Pod> {
        pod::read(snapshot)
    }

    /// What the worker was told of its KV cache alone, without reading the rest.
    pub fn kv_transfer(snapshot: &Snapshot) -> Observed<Seen<process::KvTransfer>> {
        process::kv_transfer(snapshot)
    }

    /// The environment of the worker alone, without reading the rest.
    pub fn environment(snapshot: &Snapshot) -> Observed<Seen<process::Environment>> {
        process::environment_of(snapshot)
    }

    /// Catalogued variables that the container gives to whatever starts in it.
    pub fn container_environment(snapshot: &Snapshot) -> Observed<Seen<BTreeMap<String, String>>> {
        process::of_container(snapshot)
    }

    /// A Grace CPU with its GPUs on C2C. By the names of the GPUs, else by the architecture.
    pub fn is_grace(&self) -> Option<bool> {
        let gpus = self.gpu.list.known();
        if gpus.is_some_and(|gpus| gpus.iter().any(|gpu| gpu.has_grace())) {
            return Some(true);
        }
        self.host.is_arm()
    }
}
