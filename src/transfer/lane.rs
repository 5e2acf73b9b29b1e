//! Which lane carried the bytes, by the protocol tables of UCX.
//!
//! A lane that is listed is not a lane that carried data: only the row of the protocol table that covers the size of a
//! descriptor counts. What is not understood is unknown, never a guess.

use super::protocol::{Kind, PortFacts};
use super::ucx_text::{Rail, Row, UcxText};
use crate::pair::{EMULATED, is_peer_to_peer, is_verbs, knows_how};
use std::collections::BTreeSet;
use std::fmt;

/// Kinds of lanes, as a person names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// RDMA hardware.
    Rdma,
    /// `cuda_ipc` within a node: NVLink, or PCIe where the GPUs have no NVLink.
    Nvlink,
    /// `cuda_ipc` between nodes: multi-node NVLink.
    MultiNodeNvlink,
    /// Memory of the same machine.
    SharedMemory,
    /// TCP.
    Tcp,
    /// RDMA verbs over an ordinary network card, in software: soft-RoCE.
    SoftRoce,
    /// The same over TCP: soft-iWARP.
    SoftIwarp,
    /// RDMA verbs on a device without hardware, of a kind that is not known.
    SoftRdma,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rdma => "RDMA",
            Self::Nvlink => "NVLink or PCIe peer-to-peer (cuda_ipc)",
            Self::MultiNodeNvlink => "multi-node NVLink (cuda_ipc)",
            Self::SharedMemory => "shared memory of one node",
            Self::Tcp => "TCP",
            Self::SoftRoce => "soft-RoCE (verbs in software over an ordinary network card)",
            Self::SoftIwarp => "soft-iWARP (verbs in software over TCP)",
            Self::SoftRdma => "RDMA verbs on a device without hardware",
        })
    }
}

/// The lane of one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lane {
    /// What it is.
    pub class: Class,
    /// What carries it.
    pub rails: Vec<Rail>,
    /// `zero-copy`, `software emulation`, ...; `by counters` where no table tells.
    pub how: String,
}

impl Lane {
    /// The receiver's or sender's CPU moves the bytes through messages.
    pub fn emulated(&self) -> bool {
        self.how.contains(EMULATED)
    }

    /// The bytes go through buffers on the way, although the lane itself is a real one.
    pub fn copies(&self) -> bool {
        !self.emulated()
            && ["copy-in", "copy-out", "multi-frag"]
                .iter()
                .any(|how| self.how.contains(how))
    }

    /// Devices that carry it, without port numbers.
    pub fn devices(&self) -> impl Iterator<Item = &str> {
        self.rails.iter().map(|r| base(&r.device))
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rails: Vec<String> = self.rails.iter().map(ToString::to_string).collect();
        write!(f, "{} {}", rails.join(" and "), self.how)
    }
}

/// Why the lane is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// In words.
    pub why: String,
    /// What was printed, where something was.
    pub raw: Option<String>,
    /// What was printed names a device that the container does not show.
    pub no_device: bool,
}

impl Unknown {
    pub(super) fn new(why: impl Into<String>, raw: Option<String>) -> Self {
        Self {
            why: why.into(),
            raw,
            no_device: false,
        }
    }
}

/// The lane of transfers of this direction and descriptor size, by the table.
pub fn by_table(
    text: &UcxText,
    kind: Kind,
    bytes: u64,
    gpu: bool,
    ports: &[PortFacts],
) -> Result<Lane, Unknown> {
    if text.rows.is_empty() {
        let why = match text.configurations.last() {
            Some(_) => {
                "UCX printed its configuration but no protocol table (UCX before 1.16 has none)"
            }
            None => "UCX printed neither a configuration nor a protocol table",
        };
        return Err(Unknown::new(why, text.configurations.last().cloned()));
    }
    let covering =
        |r: &&Row| r.kind == kind && r.from <= bytes && r.to.is_none_or(|to| bytes <= to);
    let rows: Vec<&Row> = text.rows.iter().filter(covering).collect();
    let fitting: Vec<&Row> = rows
        .iter()
        .copied()
        .filter(|r| r.memory.contains("cuda") == gpu)
        .collect();
    if fitting.is_empty() {
        let seen = rows
            .last()
            .map(|r| format!("{}: {} {}", r.memory, r.how, r.raw));
        let of = if gpu { "GPU" } else { "host" };
        return Err(Unknown::new(
            format!("no row of a table covers a {kind} of {bytes} bytes of {of} memory"),
            seen,
        ));
    }
    // NIXL posts lists, for which UCX has a variant of its own. Where that was printed, it is the one that ran.
    let multi = fitting.iter().any(|r| r.variant.contains("multi"));
    let used: Vec<&Row> = fitting
        .into_iter()
        .filter(|r| r.variant.contains("multi") == multi)
        .collect();
    let mut lanes = Vec::new();
    for row in &used {
        lanes.push(lane(row, ports)?);
    }
    let mut last = lanes.pop().ok_or_else(|| Unknown::new("no row", None))?;
    // The connection took other devices on the way: which share went over which is not known.
    if lanes.iter().any(|other| !same_devices(other, &last)) {
        last.rails.iter_mut().for_each(|rail| rail.percent = None);
    }
    match lanes
        .iter()
        .find(|l| l.class != last.class || l.emulated() != last.emulated())
    {
        None => Ok(last),
        Some(other) => Err(Unknown::new(
            "two tables disagree",
            Some(format!("{other}; {last}")),
        )),
    }
}

fn same_devices(one: &Lane, other: &Lane) -> bool {
    let of = |lane: &Lane| -> BTreeSet<String> {
        lane.rails.iter().map(|rail| rail.device.clone()).collect()
    };
    of(one) == of(other)
}

fn lane(row: &Row, ports: &[PortFacts]) -> Result<Lane, Unknown> {
    let raw = format!("{} {}", row.how, row.raw);
    let unknown = |why: &str| Unknown::new(why, Some(raw.trim().to_owned()));
    if let Some(why) = &row.unread {
        return Err(unknown(&format!(
            "a row of UCX's table cannot be read: {why}"
        )));
    }
    let mut classes = Vec::new();
    for rail in &row.rails {
        if is_verbs(&rail.transport) && !shows(ports, &rail.device) {
            let device = &rail.device;
            let why = format!("UCX names {device}, and the container shows no such RDMA port");
            return Err(Unknown {
                no_device: true,
                ..unknown(&why)
            });
        }
        match class(rail, row.inter_node, ports) {
            Some(Class::Nvlink | Class::MultiNodeNvlink) if !row.memory.contains("cuda") => {
                return Err(unknown(
                    "UCX names cuda_ipc, which moves GPU memory alone, for host memory",
                ));
            }
            Some(class) => classes.push(class),
            None => return Err(unknown("a transport of this name is not known")),
        }
    }
    let Some(first) = classes.first().copied() else {
        return Err(unknown("the row names no transport"));
    };
    // TCP is TCP, however it moves them.
    if !knows_how(&row.how) && !classes.contains(&Class::Tcp) {
        return Err(unknown(
            "what the row says of how bytes are moved is not known",
        ));
    }
    let class = if classes.iter().all(|c| *c == first) {
        first
    } else if classes.contains(&Class::Tcp) {
        Class::Tcp // Some of the bytes wait for it.
    } else {
        return Err(unknown(
            "the row splits the bytes over different kinds of lanes",
        ));
    };
    Ok(Lane {
        class,
        rails: row.rails.clone(),
        how: row.how.clone(),
    })
}

/// Names of transports: `ucx_info -d` of UCX 1.16 to 1.23, and <https://openucx.readthedocs.io/en/master/faq.html>.
fn class(rail: &Rail, inter_node: bool, ports: &[PortFacts]) -> Option<Class> {
    match rail.transport.as_str() {
        "tcp" => Some(Class::Tcp),
        "cma" | "sysv" | "posix" | "xpmem" | "knem" => Some(Class::SharedMemory),
        name if is_peer_to_peer(name) && inter_node => Some(Class::MultiNodeNvlink),
        name if is_peer_to_peer(name) => Some(Class::Nvlink),
        name if is_verbs(name) => Some(soft(&rail.device, ports).unwrap_or(Class::Rdma)),
        _ => None,
    }
}

/// A port of this name is in the container: `mlx5_0:1`, or `mlx5_0` for any port of it.
fn shows(ports: &[PortFacts], device: &str) -> bool {
    let (name, port) = device.split_once(':').unwrap_or((device, ""));
    let same = |p: &PortFacts| port.is_empty() || p.port.to_string() == port;
    ports.iter().any(|p| &*p.device == name && same(p))
}

/// Software devices: by the names that `rdma link add` is used with, and by the missing bus.
pub fn soft(device: &str, ports: &[PortFacts]) -> Option<Class> {
    let name = base(device);
    if name.starts_with("rxe") {
        Some(Class::SoftRoce)
    } else if name.starts_with("siw") {
        Some(Class::SoftIwarp)
    } else if ports.iter().any(|p| &*p.device == name && !p.hardware) {
        Some(Class::SoftRdma)
    } else {
        None
    }
}

pub(super) fn base(device: &str) -> &str {
    device.split(':').next().unwrap_or(device)
}
