//! The table of checks and the runner.

pub mod declare;

use crate::manifest::workload::{Worker, Workload};

/// What a check on a worker sees.
pub struct WorkerScope<'a> {
    /// The worker.
    pub worker: &'a Worker,
    /// Its graph.
    pub workload: &'a Workload,
}

/// What a check on a workload sees.
pub struct WorkloadScope<'a> {
    /// The graph.
    pub workload: &'a Workload,
}
