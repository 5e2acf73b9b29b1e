//! RDMA devices: what the kernel shows, and what this container may open.
//!
//! `/sys/class/infiniband` lists the HCAs of the **host** in the default RDMA namespace mode, so a device that is seen is
//! not yet a device that can be used: that takes its `/dev/infiniband/uverbsN` in the container (rdma-system(8)).

use crate::ask;
use crate::observed::{Observed, Skip};
use crate::sanitise;
use crate::snapshot::Snapshot;
use std::collections::{BTreeMap, BTreeSet};

/// One port as sysfs shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Port {
    /// Device, `mlx5_0`.
    pub device: String,
    /// Port, from 1.
    pub port: u32,
    /// `4: ACTIVE`, as written.
    pub state: String,
    /// `5: LinkUp`, as written.
    pub phys_state: String,
    /// `400 Gb/sec (4X NDR)`, as written.
    pub rate: String,
    /// `InfiniBand`, `Ethernet`, `Unknown`.
    pub link_layer: String,
}

impl Port {
    /// Only state 4 carries traffic; `LinkUp` beside INIT or ARMED does not.
    pub fn active(&self) -> bool {
        self.state.starts_with("4:")
    }
}

/// Devices and ports of one container.
#[derive(Debug, Clone)]
pub struct Rdma {
    /// Ports the kernel shows, granted or not.
    pub ports: Observed<Vec<Port>>,
    /// Devices whose uverbs node is in the container.
    pub granted: Observed<BTreeSet<String>>,
}

impl Rdma {
    /// Reads the three RDMA answers of a snapshot.
    pub fn parse(snapshot: &Snapshot) -> Self {
        Self { ports: observed(ports(snapshot)), granted: observed(granted(snapshot)) }
    }
}

fn observed<T>(result: Result<T, Skip>) -> Observed<T> {
    result.map_or_else(Observed::Missing, Observed::Known)
}

fn ports(snapshot: &Snapshot) -> Result<Vec<Port>, Skip> {
    let mut ports: BTreeMap<(String, u32), Port> = BTreeMap::new();
    for (path, value) in pairs(snapshot.text(&ask::RDMA_PORTS)?) {
        let mut parts = path.rsplit('/');
        let (Some(field), Some(number), Some("ports"), Some(device)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let Ok(number) = number.parse() else { continue };
        let device = sanitise::line(device, 64);
        let port = ports.entry((device.clone(), number)).or_insert_with(|| Port {
            device,
            port: number,
            ..Port::default()
        });
        let value = sanitise::line(value, 64);
        match field {
            "state" => port.state = value,
            "phys_state" => port.phys_state = value,
            "rate" => port.rate = value,
            "link_layer" => port.link_layer = value,
            _ => {}
        }
    }
    Ok(ports.into_values().collect())
}

fn granted(snapshot: &Snapshot) -> Result<BTreeSet<String>, Skip> {
    let nodes: BTreeSet<&str> = snapshot.text(&ask::DEV_INFINIBAND)?.lines().map(str::trim).collect();
    let owners = snapshot.text(&ask::RDMA_UVERBS)?;
    let owned = pairs(owners).filter_map(|(path, device)| {
        let node = path.rsplit('/').nth(1)?;
        nodes.contains(node).then(|| sanitise::line(device, 64))
    });
    Ok(owned.collect())
}

/// Lines of the form `path: value`.
fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|l| l.split_once(": ")).map(|(path, value)| (path.trim(), value.trim()))
}
