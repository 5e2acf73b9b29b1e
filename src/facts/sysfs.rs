//! `/sys/class/infiniband` and `/sys/class/infiniband_verbs` as text.
//!
//! sysfs shows the host's devices, also to a container that may open none of them (in the `shared` mode of RDMA network
//! namespaces). Formats: <https://github.com/torvalds/linux/blob/v6.12/drivers/infiniband/core/sysfs.c>

use super::hca::{self, Gid, GidKind, Hca, LinkLayer, PhysState, Port, PortState, Rate};
use super::transcript::{self, excerpt};
use super::vendor::Vendor;
use std::collections::{BTreeMap, BTreeSet};

/// What reading one path gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading<'a> {
    /// Content of a file.
    Text(&'a str),
    /// Target of a symbolic link.
    Link(&'a str),
    /// The kernel refused: `Invalid argument` for an empty GID slot, `Permission denied`.
    Refused(&'a str),
}

/// One device of `/sys/class/infiniband`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Device {
    /// The facts that tools share.
    pub hca: Hca,
    /// Kind of node.
    pub node_type: Option<NodeType>,
    /// Hardware, or software over a network interface.
    pub backing: Backing,
    /// NUMA node of the device; the kernel's -1 (not known) is `None`.
    pub numa_node: Option<u32>,
    /// Driver bound to the PCI device.
    pub driver: Option<String>,
    /// Network interface below a software device.
    pub parent: Option<String>,
    /// Counters by port number.
    pub counters: BTreeMap<u32, Counters>,
}

/// Kind of node, `enum rdma_node_type`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeType {
    /// `1: CA`: InfiniBand and RoCE.
    Ca,
    /// `4: RNIC`: iWARP.
    Rnic,
    /// Another word, EFA among them, sanitised.
    Other(String),
}

/// Where a device comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Backing {
    /// A device on a bus.
    Hardware,
    /// `rxe` or `siw`: verbs without RDMA hardware, whatever the name.
    Software,
    /// Not seen.
    #[default]
    Unknown,
}

/// Counters of one port, by the kernel's names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// `counters/*`.
    pub port: BTreeMap<String, u64>,
    /// `hw_counters/*`.
    pub hardware: BTreeMap<String, u64>,
    /// Names of counters that the kernel would not read (`N/A (no PMA)`, `Invalid argument`), or that are no number.
    pub unreadable: BTreeSet<String>,
}

impl Counters {
    /// Bytes sent: `port_xmit_data` counts words of four bytes.
    pub fn sent_bytes(&self) -> Option<u64> {
        self.port.get("port_xmit_data")?.checked_mul(4)
    }

    /// Bytes received: `port_rcv_data` counts words of four bytes.
    pub fn received_bytes(&self) -> Option<u64> {
        self.port.get("port_rcv_data")?.checked_mul(4)
    }
}

/// Devices from paths below `/sys/class/infiniband` (`mlx5_0/ports/1/state`), sorted by name.
pub fn devices<'a>(entries: impl IntoIterator<Item = (&'a str, Reading<'a>)>) -> Vec<Device> {
    let trees = trees(entries).into_iter();
    trees.map(|(name, tree)| device(name, &tree)).collect()
}

/// The counters alone of each device, by its name and the number of the port, from the same paths.
pub fn counters<'a>(
    entries: impl IntoIterator<Item = (&'a str, Reading<'a>)>,
) -> Vec<(String, BTreeMap<u32, Counters>)> {
    let trees = trees(entries).into_iter();
    trees
        .map(|(name, tree)| (excerpt(name), counted(&tree).0))
        .collect()
}

/// What is below each device.
fn trees<'a>(
    entries: impl IntoIterator<Item = (&'a str, Reading<'a>)>,
) -> BTreeMap<&'a str, Tree<'a>> {
    let mut trees: BTreeMap<&str, Tree<'a>> = BTreeMap::new();
    for (path, reading) in entries {
        let (name, rest) = path.split_once('/').unwrap_or((path, ""));
        if !name.is_empty() {
            trees.entry(name).or_default().insert(rest, reading);
        }
    }
    trees
}

/// `uverbs0` -> `mlx5_0` from paths below `/sys/class/infiniband_verbs` (`uverbs0/ibdev`). A process opens
/// `/dev/infiniband/uverbs0`, so this says which nodes a device needs.
pub fn uverbs<'a>(
    entries: impl IntoIterator<Item = (&'a str, Reading<'a>)>,
) -> BTreeMap<String, String> {
    entries
        .into_iter()
        .filter_map(|(path, reading)| {
            let (node, file) = path.split_once('/')?;
            match reading {
                Reading::Text(name) if file == "ibdev" => Some((excerpt(node), excerpt(name))),
                _ => None,
            }
        })
        .collect()
}

type Tree<'a> = BTreeMap<&'a str, Reading<'a>>;

/// Content of a file, where it could be read and is not empty.
fn text<'a>(tree: &Tree<'a>, path: &str) -> Option<&'a str> {
    match tree.get(path)? {
        Reading::Text(text) => Some(text.trim()).filter(|text| !text.is_empty()),
        Reading::Link(_) | Reading::Refused(_) => None,
    }
}

fn device(name: &str, tree: &Tree<'_>) -> Device {
    let mut hca = Hca::named(name);
    hca.model = text(tree, "hca_type").map(excerpt);
    hca.fw_version = text(tree, "fw_ver").map(excerpt);
    hca.board_id = text(tree, "board_id").map(excerpt);
    hca.node_guid = text(tree, "node_guid").and_then(hca::guid);
    hca.part_id = text(tree, "device/device").and_then(transcript::small);
    let backing = backing(tree);
    hca.vendor = match backing {
        Backing::Software => Some(Vendor::Software),
        Backing::Hardware | Backing::Unknown => text(tree, "device/vendor")
            .and_then(transcript::small)
            .map(Vendor::from_pci),
    };
    let (counters, numbers) = counted(tree);
    hca.ports = numbers.iter().map(|&number| port(number, tree)).collect();
    Device {
        hca,
        node_type: text(tree, "node_type").map(node_type),
        backing,
        numa_node: text(tree, "device/numa_node").and_then(transcript::small),
        driver: link(tree, "device/driver").map(|target| excerpt(base_name(target))),
        parent: text(tree, "parent").map(excerpt),
        counters,
    }
}

/// The counters of each port, and the numbers of all ports.
fn counted(tree: &Tree<'_>) -> (BTreeMap<u32, Counters>, BTreeSet<u32>) {
    let mut counters: BTreeMap<u32, Counters> = BTreeMap::new();
    let mut numbers = BTreeSet::new();
    for (path, reading) in tree {
        let Some((number, file)) = path
            .strip_prefix("ports/")
            .and_then(|rest| rest.split_once('/'))
        else {
            continue;
        };
        let Ok(number) = number.parse() else {
            continue;
        };
        if let Some(name) = file.strip_prefix("counters/") {
            count(&mut counters, number, name, *reading, |c| &mut c.port);
        } else if let Some(name) = file.strip_prefix("hw_counters/") {
            count(&mut counters, number, name, *reading, |c| &mut c.hardware);
        }
        numbers.insert(number);
    }
    // EFA counts its commands by device, and a device has one port.
    let of_device = tree.iter().filter_map(|(path, reading)| {
        let name = path.strip_prefix("hw_counters/")?;
        Some((name, *reading))
    });
    let counted: Vec<u32> = counters.keys().copied().collect();
    for (name, reading) in of_device {
        for &number in &counted {
            let of_port = &counters[&number].hardware;
            if !of_port.contains_key(name) {
                count(&mut counters, number, name, reading, |c| &mut c.hardware);
            }
        }
    }
    (counters, numbers)
}

fn node_type(text: &str) -> NodeType {
    match text.split(':').next().unwrap_or_default().trim() {
        "1" => NodeType::Ca,
        "4" => NodeType::Rnic,
        _ => NodeType::Other(excerpt(text)),
    }
}

fn link<'a>(tree: &Tree<'a>, path: &str) -> Option<&'a str> {
    match tree.get(path)? {
        Reading::Link(target) => Some(target.trim()),
        // `readlink` prints the target as text.
        Reading::Text(target) if target.contains('/') => Some(target.trim()),
        Reading::Text(_) | Reading::Refused(_) => None,
    }
}

fn base_name(target: &str) -> &str {
    target.rsplit('/').next().unwrap_or(target)
}

/// `rxe` and `siw` have no bus device, live under `/sys/devices/virtual`, and carry a `parent` file that names their
/// network interface. The name proves nothing: a software device may be renamed to `mlx5_0`.
fn backing(tree: &Tree<'_>) -> Backing {
    let on_bus = tree.keys().any(|path| path.starts_with("device"));
    let is_virtual = link(tree, "").is_some_and(|target| target.contains("/virtual/"));
    if is_virtual || (!on_bus && text(tree, "parent").is_some()) {
        Backing::Software
    } else if on_bus {
        Backing::Hardware
    } else {
        Backing::Unknown
    }
}

fn port(number: u32, tree: &Tree<'_>) -> Port {
    let read = |file: &str| text(tree, &format!("ports/{number}/{file}"));
    Port {
        number,
        state: read("state").map(PortState::parse),
        phys_state: read("phys_state").map(PhysState::parse),
        rate: read("rate").and_then(Rate::parse),
        link_layer: read("link_layer").map(LinkLayer::parse),
        lid: read("lid").and_then(transcript::small),
        sm_lid: read("sm_lid").and_then(transcript::small),
        max_mtu_bytes: None,
        active_mtu_bytes: None,
        gids: gids(number, tree),
        netdev: None,
    }
}

/// Filled entries. An all-zero GID is an empty slot, and a type that the kernel refuses to read belongs to an empty slot
/// or to another network namespace: neither is an entry of this process.
fn gids(number: u32, tree: &Tree<'_>) -> Option<Vec<Gid>> {
    let prefix = format!("ports/{number}/gids/");
    let mut seen = false;
    let mut gids = Vec::new();
    for (path, reading) in tree.range(prefix.as_str()..) {
        let Some(index) = path.strip_prefix(&prefix) else {
            break;
        };
        let (Ok(index), Reading::Text(address)) = (index.parse(), reading) else {
            continue;
        };
        seen = true;
        let mut gid = Gid::new(index, address);
        if gid.address.is_none() || gid.is_empty() {
            continue;
        }
        let kind_path = format!("ports/{number}/gid_attrs/types/{index}");
        if matches!(tree.get(kind_path.as_str()), Some(Reading::Refused(_))) {
            continue;
        }
        gid.kind = text(tree, &kind_path).and_then(GidKind::parse);
        gid.netdev = text(tree, &format!("ports/{number}/gid_attrs/ndevs/{index}")).map(excerpt);
        gids.push(gid);
    }
    gids.sort_by_key(|gid| gid.index);
    seen.then_some(gids)
}

fn count(
    counters: &mut BTreeMap<u32, Counters>,
    port: u32,
    name: &str,
    reading: Reading<'_>,
    table: fn(&mut Counters) -> &mut BTreeMap<String, u64>,
) {
    let counters = counters.entry(port).or_default();
    let value = match reading {
        Reading::Text(text) => text.trim().parse().ok(),
        Reading::Link(_) | Reading::Refused(_) => None,
    };
    match value {
        Some(value) => {
            table(counters).insert(excerpt(name), value);
        }
        None => {
            counters.unreadable.insert(excerpt(name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Linux 6.1 in the soft-RoCE machine: `path=value`, ` !` before an error, ` -> ` before a link. Cut.
    const RXE: &str = "rxe0/node_guid=5450:ccff:fe8e:4652
rxe0/node_type=1: CA
rxe0/parent=eth0
rxe0/fw_ver=
rxe0/ports/1/lid=0x0
rxe0/ports/1/sm_lid=0x0
rxe0/ports/1/link_layer=Ethernet
rxe0/ports/1/phys_state=5: LinkUp
rxe0/ports/1/rate=10 Gb/sec (1X FDR10)
rxe0/ports/1/state=4: ACTIVE
rxe0/ports/1/gid_attrs/ndevs/0=eth0
rxe0/ports/1/gid_attrs/ndevs/1=eth0
rxe0/ports/1/gid_attrs/ndevs/2 !Invalid argument
rxe0/ports/1/gid_attrs/types/0=RoCE v2
rxe0/ports/1/gid_attrs/types/1=RoCE v2
rxe0/ports/1/gid_attrs/types/2 !Invalid argument
rxe0/ports/1/gids/0=fe80:0000:0000:0000:5450:ccff:fe8e:4652
rxe0/ports/1/gids/1=0000:0000:0000:0000:0000:ffff:0a4d:0001
rxe0/ports/1/gids/2=0000:0000:0000:0000:0000:0000:0000:0000
rxe0/ports/1/hw_counters/sent_pkts=7
rxe0/ports/1/hw_counters/link_downed=0";
    // Written by hand after the same kernel source, for hardware.
    const MLX: &str = "mlx5_0/device/vendor=0x15b3
mlx5_0/device/device=0x1021
mlx5_0/device/numa_node=-1
mlx5_0/device/driver -> ../../../bus/pci/drivers/mlx5_core
mlx5_0/fw_ver=28.39.1002
mlx5_0/ports/1/state=2: INIT
mlx5_0/ports/1/rate=400 Gb/sec (4X NDR)
mlx5_0/ports/1/link_layer=InfiniBand
mlx5_0/ports/1/sm_lid=0x0
mlx5_0/ports/1/counters/port_xmit_data=250
mlx5_0/ports/1/counters/port_rcv_data=N/A (no PMA)
mlx5_0/ports/1/counters/link_downed !Invalid argument";

    fn entries(text: &str) -> Vec<(&str, Reading<'_>)> {
        text.lines()
            .filter_map(|line| {
                if let Some((path, target)) = line.split_once(" -> ") {
                    Some((path, Reading::Link(target)))
                } else if let Some((path, error)) = line.split_once(" !") {
                    Some((path, Reading::Refused(error)))
                } else {
                    let (path, value) = line.split_once('=')?;
                    Some((path, Reading::Text(value)))
                }
            })
            .collect()
    }

    #[test]
    fn a_software_device_is_known_by_what_it_lacks() {
        let renamed = RXE.replace("rxe0", "mlx5_0");
        for text in [RXE, renamed.as_str()] {
            let devices = devices(entries(text));
            let device = &devices[0];
            assert_eq!(device.backing, Backing::Software);
            assert_eq!(device.hca.vendor, Some(Vendor::Software));
            assert_eq!(device.hca.fw_version, None);
            let port = device.hca.port(1).unwrap();
            assert_eq!(port.rate_gbps(), Some(10.0));
            let gids = port.gids.as_ref().unwrap();
            assert_eq!(gids.len(), 2, "empty and refused slots are no entries");
            assert_eq!(gids[1].ipv4(), Some([10, 77, 0, 1].into()));
            assert_eq!(gids[1].netdev.as_deref(), Some("eth0"));
            assert_eq!(device.counters[&1].hardware["sent_pkts"], 7);
        }
    }

    #[test]
    fn hardware_and_its_counters() {
        let devices = devices(entries(MLX));
        let device = &devices[0];
        assert_eq!(device.backing, Backing::Hardware);
        assert_eq!(device.hca.vendor, Some(Vendor::Nvidia));
        assert_eq!(device.hca.part_id, Some(0x1021));
        assert_eq!(device.numa_node, None);
        assert_eq!(device.driver.as_deref(), Some("mlx5_core"));
        let counters = &device.counters[&1];
        assert_eq!(counters.sent_bytes(), Some(1000), "words of four bytes");
        assert_eq!(counters.received_bytes(), None);
        let unreadable: Vec<&String> = counters.unreadable.iter().collect();
        assert_eq!(unreadable, ["link_downed", "port_rcv_data"]);
        let port = device.hca.port(1).unwrap();
        assert_eq!(port.state, Some(PortState::Init));
        assert_eq!(port.gids, None, "the table was not read");
    }

    #[test]
    fn nodes_map_to_devices() {
        let map = uverbs([
            ("uverbs0/ibdev", Reading::Text("mlx5_0\n")),
            ("uverbs0/dev", Reading::Text("231:192")),
            ("abi_version", Reading::Text("6")),
        ]);
        assert_eq!(
            map,
            BTreeMap::from([("uverbs0".to_owned(), "mlx5_0".to_owned())])
        );
    }
}
