//! The parts of a report by which a later run is compared with this one, and what such a comparison says.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What one container was at the time of a run, so that a later run can say what changed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Fingerprint {
    /// The pod.
    pub pod: String,
    /// Component that it belongs to.
    pub component: Option<String>,
    /// Role of the worker.
    pub role: Option<String>,
    /// Node it runs on.
    pub node: Option<String>,
    /// RDMA ports that it may use; null where that is not known.
    pub ports: Option<Vec<PortPrint>>,
    /// Versions as far as they are known: ucx, nixl, nccl, driver, image, and the engine by its name.
    pub versions: BTreeMap<String, String>,
    /// Catalogued variables of the worker process; null where they are not known. The pod's own name and addresses are
    /// written as `<pod>`, `<pod-ip>`, `<node>`, `<node-ip>`.
    pub environment: Option<BTreeMap<String, String>>,
}

/// One RDMA port.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PortPrint {
    /// `mlx5_0:1`.
    pub port: String,
    /// `ACTIVE`; null where it is not known.
    pub state: Option<String>,
    /// Rate in Gb/s.
    pub gbps: Option<f64>,
    /// `InfiniBand`, `Ethernet`.
    pub link_layer: Option<String>,
}

/// What changed since an earlier run. Only with `check --baseline`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Changes {
    /// The file.
    pub baseline: String,
    /// Version of the tool that wrote it.
    pub tool_version: String,
    /// Trust at that time.
    pub trust: String,
    /// What changed, in order of kind.
    pub changes: Vec<Change>,
    /// What could not be compared, and why.
    pub not_compared: Vec<String>,
    /// From which difference on a speed has changed, and where that number comes from.
    pub speed_threshold: &'static str,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Change {
    /// What kind of thing changed.
    pub kind: ChangeKind,
    /// Component, pair of components, or the deployment.
    pub subject: String,
    /// What of it: a variable, a version, a check.
    pub what: String,
    /// What it was.
    pub was: String,
    /// What it is now.
    pub now: String,
}

/// What kind of thing changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum ChangeKind {
    /// Trust in the deployment.
    Trust,
    /// Another deployment, or other components.
    Deployment,
    /// A finding that is new, gone, or of another status.
    Finding,
    /// RDMA ports.
    Fabric,
    /// The transports that carried a transfer.
    Lane,
    /// Bandwidth.
    Speed,
    /// A version.
    Version,
    /// A variable.
    Environment,
}
