//! `nvidia-smi -q`: driver, GPUs, and whether each is registered with the NVLink fabric.
//!
//! Layouts differ by driver: before R545 the Fabric block has two lines, later ones add clique, cluster and health, and
//! the colon moves. So keys are found by name, and a block ends where the indentation returns.

use super::Unparsable;
use super::transcript::{self, excerpt};
use std::collections::BTreeMap;

/// Fields kept as sick, at most, for one GPU.
const SICK_FIELDS: usize = 16;

/// The host and its GPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// Version of the driver.
    pub driver_version: Option<String>,
    /// CUDA version of the driver.
    pub cuda_version: Option<String>,
    /// How many GPUs the driver sees. More than [`Self::gpus`] holds means a cut copy.
    pub attached_gpus: Option<u32>,
    /// The GPUs shown.
    pub gpus: Vec<Gpu>,
}

impl Query {
    /// True when the output shows fewer GPUs than the driver sees.
    pub fn is_cut(&self) -> bool {
        self.attached_gpus
            .is_some_and(|attached| attached as usize > self.gpus.len())
    }
}

/// One GPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gpu {
    /// PCI address: `00000000:19:00.0`.
    pub bus_id: String,
    /// Product name.
    pub product: Option<String>,
    /// Architecture: `Hopper`.
    pub architecture: Option<String>,
    /// UUID of the GPU.
    pub uuid: Option<String>,
    /// Addressing mode: `None`, `HMM`, `ATS`, in the tool's own words.
    pub addressing_mode: Option<String>,
    /// The Fabric block; `None` where the output has none.
    pub fabric: Option<Fabric>,
    /// Fields that read `Unknown Error` or `ERR!`: the driver could not ask this GPU.
    pub sick_fields: Vec<String>,
}

/// Registration of a GPU with the NVLink fabric.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fabric {
    /// How far registration has come.
    pub state: Option<FabricState>,
    /// Result of registration: `Success` or the error. `None` for `N/A`.
    pub status: Option<String>,
    /// Clique within the cluster. Two GPUs reach each other by multi-node NVLink only within one clique.
    pub clique_id: Option<u32>,
    /// Cluster. All zero on a board that is a fabric of its own. `None` for `N/A`.
    pub cluster_uuid: Option<String>,
    /// Health lines, in order, in the tool's own words: `Bandwidth`, `Full`.
    pub health: Vec<(String, String)>,
}

impl Fabric {
    /// The cluster UUID is there and not all zero, as on multi-node NVLink.
    pub fn is_multi_node(&self) -> bool {
        self.cluster_uuid
            .as_deref()
            .is_some_and(|uuid| uuid.chars().any(|c| c.is_ascii_hexdigit() && c != '0'))
    }
}

/// State of registration, `nvmlGpuFabricState_t`.
/// <https://docs.nvidia.com/deploy/nvml-api/group__nvmlFabricDefs.html>
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FabricState {
    /// `N/A`: no NVSwitch; nothing to register with.
    NotSupported,
    /// Not begun: the fabric manager does not run.
    NotStarted,
    /// Begun and not finished.
    InProgress,
    /// Finished; the status says with what result.
    Completed,
    /// A word that no known driver prints, sanitised.
    Other(String),
}

impl FabricState {
    fn parse(value: &str) -> Self {
        match value {
            "N/A" | "Not Supported" => Self::NotSupported,
            "Not Started" => Self::NotStarted,
            "In Progress" => Self::InProgress,
            "Completed" => Self::Completed,
            other => Self::Other(excerpt(other)),
        }
    }
}

/// Reads the output.
pub fn parse(text: &str) -> Result<Query, Unparsable> {
    let mut reading = Reading::default();
    for line in transcript::lines(text) {
        reading.line(&line);
    }
    let mut query = reading.query;
    if let Some(bus_id) = once(&mut query.gpus) {
        let what = format!("the GPU {bus_id} twice");
        return Err(Unparsable::two_places("nvidia-smi -q", &what));
    }
    if query.gpus.is_empty() && query.driver_version.is_none() && query.attached_gpus.is_none() {
        return Err(Unparsable::new("nvidia-smi -q", text));
    }
    Ok(query)
}

/// Takes each GPU once. The address of one that is there twice and is not shown to be the same: its UUID tells, and two nodes of
/// a kind have the same addresses.
fn once(gpus: &mut Vec<Gpu>) -> Option<String> {
    let mut seen: BTreeMap<String, Gpu> = BTreeMap::new();
    for gpu in gpus.iter() {
        match seen.get(&gpu.bus_id) {
            Some(known) if known != gpu || gpu.uuid.is_none() => return Some(gpu.bus_id.clone()),
            Some(_) => {}
            None => {
                seen.insert(gpu.bus_id.clone(), gpu.clone());
            }
        }
    }
    gpus.retain(|gpu| seen.remove(&gpu.bus_id).is_some());
    None
}

/// Which block of a GPU is being read.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Block {
    #[default]
    Other,
    /// Indentation of the heading.
    Fabric(usize),
    Health(usize),
}

#[derive(Default)]
struct Reading {
    query: Query,
    block: Block,
}

impl Reading {
    fn line(&mut self, line: &str) {
        let indent = line.len() - line.trim_start().len();
        let line = line.trim();
        if line.is_empty() {
            return;
        }
        if let Some(bus_id) = gpu_heading(line) {
            self.block = Block::Other;
            self.query.gpus.push(Gpu {
                bus_id: excerpt(bus_id),
                ..Gpu::default()
            });
            return;
        }
        match line.split_once(" : ").or_else(|| empty_value(line)) {
            Some((key, value)) => self.field(key.trim(), value.trim(), indent),
            None => self.heading(line, indent),
        }
    }

    fn heading(&mut self, heading: &str, indent: usize) {
        self.block = match (heading, self.block) {
            ("Fabric", _) => Block::Fabric(indent),
            ("Health", Block::Fabric(_)) => Block::Health(indent),
            _ => Block::Other,
        };
        if heading == "Fabric"
            && let Some(gpu) = self.query.gpus.last_mut()
        {
            gpu.fabric = Some(Fabric::default());
        }
    }

    fn field(&mut self, key: &str, value: &str, indent: usize) {
        let Some(gpu) = self.query.gpus.last_mut() else {
            match key {
                "Driver Version" => self.query.driver_version = known(value),
                "CUDA Version" => self.query.cuda_version = known(value),
                "Attached GPUs" => self.query.attached_gpus = transcript::small(value),
                _ => {}
            }
            return;
        };
        let is_sick = value.contains("Unknown Error") || value.contains("ERR!");
        if is_sick && gpu.sick_fields.len() < SICK_FIELDS {
            gpu.sick_fields.push(excerpt(key));
        }
        // A copy without indentation has every line at 0: then only the names bound a block.
        let ended = |at: usize| indent <= at && at > 0;
        match self.block {
            Block::Health(at) if ended(at) => self.block = Block::Other,
            Block::Fabric(at) if ended(at) => self.block = Block::Other,
            _ => {}
        }
        match (self.block, &mut gpu.fabric) {
            (Block::Fabric(_), Some(fabric)) => {
                if !take_fabric(fabric, key, value) {
                    self.block = Block::Other;
                }
            }
            (Block::Health(at), Some(fabric)) => {
                if at == 0 && !HEALTH_KEYS.contains(&key) {
                    self.block = Block::Other;
                } else {
                    fabric.health.push((excerpt(key), excerpt(value)));
                }
            }
            _ => take_gpu(gpu, key, value),
        }
    }
}

/// Health lines of R590, the largest set so far.
const HEALTH_KEYS: &[&str] = &[
    "Summary",
    "Bandwidth",
    "Route Recovery in progress",
    "Route Unhealthy",
    "Access Timeout Recovery",
    "Incorrect Configuration",
    "Partition Assigned",
];

fn take_fabric(fabric: &mut Fabric, key: &str, value: &str) -> bool {
    match key {
        "State" => fabric.state = Some(FabricState::parse(value)),
        "Status" => fabric.status = known(value),
        "CliqueId" => fabric.clique_id = transcript::small(value),
        "ClusterUUID" => fabric.cluster_uuid = known(value),
        _ => return false,
    }
    true
}

fn take_gpu(gpu: &mut Gpu, key: &str, value: &str) {
    match key {
        "Product Name" => gpu.product = known(value),
        "Product Architecture" => gpu.architecture = known(value),
        "GPU UUID" => gpu.uuid = known(value),
        "Addressing Mode" => gpu.addressing_mode = known(value),
        _ => {}
    }
}

fn known(value: &str) -> Option<String> {
    (value != "N/A" && !value.is_empty()).then(|| excerpt(value))
}

/// `GPU 00000000:19:00.0`.
fn gpu_heading(line: &str) -> Option<&str> {
    let bus_id = line.strip_prefix("GPU ")?;
    let digits = bus_id
        .chars()
        .all(|c| c.is_ascii_hexdigit() || matches!(c, ':' | '.'));
    (digits && bus_id.contains(':')).then_some(bus_id)
}

/// `Key   :` with nothing behind the colon.
fn empty_value(line: &str) -> Option<(&str, &str)> {
    line.strip_suffix(" :").map(|key| (key, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Written by hand after `nvidia-smi -q` of R580, most blocks left out.
    const OUTPUT: &str = "
==============NVSMI LOG==============

Timestamp                                 : Mon Nov 30 10:00:00 2026
Driver Version                            : 580.95.05
CUDA Version                              : 13.0

Attached GPUs                             : 2
GPU 00000008:01:00.0
    Product Name                          : NVIDIA GB200
    Product Architecture                  : Blackwell
    Addressing Mode                       : ATS
    GPU UUID                              : GPU-00000000-0000-0000-0000-000000000001
    Clocks Event Reasons
        Idle                              : Active
    Fabric
        State                             : Completed
        Status                            : Success
        CliqueId                          : 32766
        ClusterUUID                       : 9c6f5af3-0000-0000-0000-000000000001
        Health
            Bandwidth                     : Full
            Route Unhealthy               : False
    Processes                             : None
GPU 00000009:01:00.0
    Product Name                          : NVIDIA GB200
    Addressing Mode                       : Unknown Error
    Fabric
        State                             : In Progress
        Status                            : N/A
    Processes
        GPU instance ID                   : N/A
";

    #[test]
    fn every_gpu_has_its_own_fabric() {
        let query = parse(OUTPUT).unwrap();
        assert_eq!(query.driver_version.as_deref(), Some("580.95.05"));
        assert!(!query.is_cut());
        let first = query.gpus[0].fabric.as_ref().unwrap();
        assert_eq!(first.state, Some(FabricState::Completed));
        assert_eq!(first.clique_id, Some(32766));
        assert!(first.is_multi_node());
        assert_eq!(first.health.len(), 2);
        assert_eq!(first.health[0], ("Bandwidth".into(), "Full".into()));
        let second = query.gpus[1].fabric.as_ref().unwrap();
        assert_eq!(second.state, Some(FabricState::InProgress));
        assert_eq!((second.status.clone(), second.clique_id), (None, None));
        assert_eq!(query.gpus[1].sick_fields, ["Addressing Mode"]);
    }

    #[test]
    fn a_copy_without_indentation_reads_the_same() {
        let flat: String = OUTPUT
            .lines()
            .map(|line| format!("{}\n", line.trim()))
            .collect();
        assert_eq!(parse(&flat).unwrap(), parse(OUTPUT).unwrap());
    }

    #[test]
    fn a_zero_cluster_is_one_board() {
        let text = OUTPUT.replace(
            "9c6f5af3-0000-0000-0000-000000000001",
            "00000000-0000-0000-0000-000000000000",
        );
        let query = parse(&text).unwrap();
        assert!(!query.gpus[0].fabric.as_ref().unwrap().is_multi_node());
    }

    #[test]
    fn two_places_in_one_text_are_refused() {
        let without_uuid: String = OUTPUT
            .lines()
            .filter(|line| !line.contains("GPU UUID"))
            .map(|line| format!("{line}\n"))
            .collect();
        for text in [
            OUTPUT.to_owned() + OUTPUT,
            without_uuid.clone() + &without_uuid,
            OUTPUT.to_owned() + &OUTPUT.replace("000000000001", "000000000002"),
        ] {
            let said = parse(&text).unwrap_err().to_string();
            assert!(said.contains("two places"), "{said}");
        }
        let one = &OUTPUT[..OUTPUT.find("GPU 00000009").unwrap()];
        assert_eq!(parse(&format!("{one}{one}")), parse(one));
    }

    #[test]
    fn a_cut_copy_is_known_as_such() {
        let head = &OUTPUT[..OUTPUT.find("GPU 00000009").unwrap()];
        assert!(parse(head).unwrap().is_cut());
        assert!(parse("Fabric\n  State : Completed\n").is_err());
    }
}
