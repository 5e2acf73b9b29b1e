//! Logs that a person pasted. The probe reads none.

use super::answers::{Seen, tool};
use crate::ask;
use crate::facts::Unparsable;
use crate::facts::dmesg::{self, KernelLog};
use crate::facts::nccl_log::{self, NcclLog};
use crate::facts::ucx_log::{self, UcxLog};
use crate::observed::{Observed, Skip};
use crate::report::SkipReason;
use crate::snapshot::Snapshot;

/// Logs.
#[derive(Debug, Clone)]
pub struct Logs {
    /// Of NCCL.
    pub nccl: Observed<Seen<NcclLog>>,
    /// Of UCX.
    pub ucx: Observed<Seen<UcxLog>>,
    /// What UCX complains about while `ucx_info` runs, which is what it would say to the worker.
    pub ucx_tool: Observed<Seen<UcxLog>>,
    /// Of the kernel.
    pub kernel: Observed<Seen<KernelLog>>,
}

impl Logs {
    pub(super) fn read(snapshot: &Snapshot) -> Self {
        let foreign = |what: &str| {
            let detail = format!("there is no line of {what} in it");
            Skip::new(SkipReason::Unparsable, detail)
        };
        let ucx = |text: &str| {
            let log = ucx_log::parse(text);
            if log.lines == 0 {
                return Err(foreign("UCX"));
            }
            Ok(log)
        };
        Self {
            nccl: tool(snapshot, &ask::NCCL_LOG, |text| {
                let log = nccl_log::parse(text);
                if log.lines == 0 {
                    return Err(foreign("NCCL"));
                }
                Ok(log)
            }),
            ucx: tool(snapshot, &ask::UCX_LOG, ucx),
            ucx_tool: tool(snapshot, &ask::UCX_INFO_DEVICES, ucx),
            kernel: tool(snapshot, &ask::DMESG, |text| {
                // Silence about faults counts only in what is a log at all.
                if !dmesg::is_kernel_log(text) {
                    return Err(Skip::from(Unparsable::new("dmesg", text)));
                }
                Ok(dmesg::parse(text))
            }),
        }
    }
}
