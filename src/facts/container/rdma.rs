//! RDMA devices: what the kernel shows, and what this container may open.
//!
//! `/sys/class/infiniband` lists the devices of the **host** in the default RDMA namespace mode, so a device that is seen
//! is not yet one that can be used: that takes its `/dev/infiniband/uverbsN` in the container, which must open
//! (rdma-system(8)).

use super::answers::{self, Conflict, Seen, first, list, observed, pairs, tool, whole};
use crate::ask::{self, Ask};
use crate::facts::hca::{Gid, GidKind, Hca, Hcas, LinkLayer, Port, PortState};
use crate::facts::ibdev2netdev::Netdevs;
use crate::facts::sysfs::{self, Backing, Counters, NodeType, Reading};
use crate::facts::transcript::{excerpt, number, small};
use crate::facts::vendor::Vendor;
use crate::facts::{
    Unparsable, ibdev2netdev, ibstat, ibstatus, ibv_devices, ibv_devinfo, rdma_link, show_gids,
};
use crate::observed::{Observed, Skip};
use crate::report::SkipReason;
use crate::snapshot::Snapshot;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A port of a device, as `mlx5_0`, 1.
pub type PortKey = (String, u32);

/// Devices, ports and permission of one container.
#[derive(Debug, Clone)]
pub struct Rdma {
    /// Devices that the kernel or a tool shows, granted or not.
    pub devices: Observed<Seen<Vec<Device>>>,
    /// The devices come from outputs that a person pasted. Whether they may be opened is then not known, and which of them
    /// the container was given neither: all are judged.
    pub is_pasted: bool,
    /// What pasted outputs say differently of the same machine, as a sentence each.
    pub conflicts: Vec<Conflict>,
    /// Rows of a pasted `ibdev2netdev`, which tells the state of interfaces and not of ports.
    pub interfaces: Observed<Seen<Netdevs>>,
    /// Devices whose node is here and opens.
    pub granted: Observed<Seen<Granted>>,
    /// GID tables by port. A port that is not in it has an empty table.
    pub gids: Observed<Seen<BTreeMap<PortKey, Vec<Gid>>>>,
    /// What the verbs library of this image lists.
    pub verbs: Observed<Seen<Hcas>>,
    /// Counters by port.
    pub counters: Observed<Seen<BTreeMap<PortKey, Counters>>>,
    /// Network interfaces by device, as far as they are in this network namespace.
    pub netdevs: Observed<Seen<BTreeMap<String, BTreeSet<String>>>>,
}

/// One device, from all sources together.
#[derive(Debug, Clone, PartialEq)]
pub struct Device {
    /// What the tools share.
    pub hca: Hca,
    /// Hardware, or verbs over an ordinary interface.
    pub backing: Backing,
    /// Driver of its bus device.
    pub driver: Option<String>,
    /// NUMA node.
    pub numa_node: Option<u32>,
    /// Where it is on the bus: `/sys/devices/pci0000:15/...`.
    pub bus_path: Option<String>,
    /// Its PCIe link; `None` where the kernel does not know it (virtual functions).
    pub pcie: Option<Pcie>,
    /// Type of its IOMMU group: `identity`, `DMA`, `DMA-FQ`.
    pub iommu: Option<String>,
    /// iWARP, which has no RoCE addresses.
    pub is_iwarp: bool,
}

impl Device {
    /// A device of which only what tools share is known.
    pub fn of(hca: Hca) -> Self {
        Self {
            is_iwarp: hca.transport.as_deref() == Some("iWARP"),
            backing: backing(&hca),
            hca,
            driver: None,
            numa_node: None,
            bus_path: None,
            pcie: None,
            iommu: None,
        }
    }

    /// An Elastic Fabric Adapter: by driver or vendor, since its names differ.
    pub fn is_efa(&self) -> bool {
        self.driver.as_deref() == Some("efa") || self.hca.vendor == Some(Vendor::Amazon)
    }
}

/// By the name and by the vendor that a tool shows. A number that belongs to no maker of the table says nothing: `rxe` of older
/// kernels shows 0.
fn backing(hca: &Hca) -> Backing {
    match (by_name(&hca.name), hca.vendor) {
        (Backing::Software, _) | (_, Some(Vendor::Software)) => Backing::Software,
        (_, None | Some(Vendor::Other(_))) => Backing::Unknown,
        (_, Some(_)) => Backing::Hardware,
    }
}

/// Nobody calls hardware `rxe0` or `siw0`; another name says nothing.
fn by_name(name: &str) -> Backing {
    if name.starts_with("rxe") || name.starts_with("siw") {
        Backing::Software
    } else {
        Backing::Unknown
    }
}

/// A PCIe link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pcie {
    /// GT/s per lane now.
    pub speed_gts: f64,
    /// Lanes now.
    pub lanes: u32,
    /// GT/s per lane that the device can do, where it is known.
    pub max_speed_gts: Option<f64>,
    /// Lanes that the device can do, where it is known.
    pub max_lanes: Option<u32>,
}

/// What the container may open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Granted {
    /// Devices with a node that opens.
    pub devices: BTreeSet<String>,
    /// Devices with a node that does not open, and what the kernel said: `EPERM`, `EACCES`, `ENODEV`, `failed`.
    pub refused: BTreeMap<String, String>,
    /// Devices whose node is not in `/dev/infiniband`, as far as the kernel says which node is whose.
    pub absent: BTreeSet<String>,
    /// Names of the nodes in `/dev/infiniband`.
    pub nodes: BTreeSet<String>,
}

impl Rdma {
    pub(super) fn read(snapshot: &Snapshot) -> Self {
        let sources = Sources::read(snapshot);
        Self {
            devices: sources.devices(snapshot),
            is_pasted: snapshot.is_pasted(),
            conflicts: if snapshot.is_pasted() {
                sources.conflicts()
            } else {
                Vec::new()
            },
            interfaces: tool(snapshot, &ask::IBDEV2NETDEV, ibdev2netdev::parse),
            granted: granted(snapshot),
            gids: gids(snapshot),
            verbs: tool(snapshot, &ask::IBV_DEVINFO, ibv_devinfo::parse),
            counters: counters(snapshot),
            netdevs: netdevs(snapshot),
        }
    }

    /// Nobody could see which devices may be opened, so all that are shown are judged.
    pub fn judges_all(&self) -> bool {
        self.is_pasted && self.granted.known().is_none()
    }

    /// Devices that the container may open; of pasted outputs those that they show.
    pub fn own(&self) -> Result<Vec<&Device>, Skip> {
        let devices = self.devices.get()?;
        if self.judges_all() {
            return Ok(devices.iter().collect());
        }
        let granted = self.granted.get()?;
        let is_shown = |name: &&String| devices.iter().any(|device| device.hca.name == **name);
        if let Some(lost) = granted.devices.iter().find(|name| !is_shown(name)) {
            let detail = format!(
                "{lost} may be opened, and {} does not show it",
                devices.ask.shown_as
            );
            return Err(Skip::new(SkipReason::NotFound, detail));
        }
        Ok(devices
            .iter()
            .filter(|device| granted.devices.contains(&device.hca.name))
            .collect())
    }

    /// Ports that the container may open, with their devices.
    pub fn own_ports(&self) -> Result<Vec<(&Device, &Port)>, Skip> {
        let ports = self
            .own()?
            .into_iter()
            .flat_map(|device| device.hca.ports.iter().map(move |port| (device, port)));
        Ok(ports.collect())
    }

    /// Ports that the container may open and that carry data.
    pub fn usable_ports(&self) -> Result<Vec<(&Device, &Port)>, Skip> {
        let mut ports = self.own_ports()?;
        ports.retain(|(_, port)| port.state == Some(PortState::Active));
        Ok(ports)
    }

    /// The GID table of a port, or why it is not known.
    pub fn gids_of(&self, device: &str, port: u32) -> Result<&[Gid], Skip> {
        let tables = self.gids.get()?;
        Ok(tables
            .get(&(device.to_owned(), port))
            .map_or(&[], Vec::as_slice))
    }
}

/// Line of a port for evidence: `mlx5_0:1 ACTIVE LinkUp 400 Gb/s InfiniBand`.
pub fn port_line(device: &Device, port: &Port) -> String {
    let mut words = vec![format!("{}:{}", device.hca.name, port.number)];
    words.push(port.state.as_ref().map_or("state ?", state_word).to_owned());
    if let Some(phys) = &port.phys_state {
        words.push(format!("{phys:?}"));
    }
    if let Some(rate) = port.rate_gbps() {
        words.push(format!("{rate} Gb/s"));
    }
    if let Some(link) = &port.link_layer {
        words.push(link.word().to_owned());
    }
    words.join(" ")
}

/// The kernel's word for a state.
pub fn state_word(state: &PortState) -> &str {
    match state {
        PortState::Nop => "NOP",
        PortState::Down => "DOWN",
        PortState::Init => "INIT",
        PortState::Armed => "ARMED",
        PortState::Active => "ACTIVE",
        PortState::ActiveDefer => "ACTIVE_DEFER",
        PortState::Other(word) => word,
    }
}

/// What a tool lists. One that was run and printed nothing says less than the kernel's own files, whose reason is then told.
fn of_tool<E: Into<Skip>>(
    snapshot: &Snapshot,
    ask: &'static Ask,
    parse: impl FnOnce(&str) -> Result<Hcas, E>,
) -> Observed<Seen<Hcas>> {
    let blank = |text: &str| text.trim().is_empty();
    if !snapshot.is_pasted() && snapshot.text(ask).is_ok_and(blank) {
        let detail = format!("{} printed nothing", ask.shown_as);
        return Observed::Missing(Skip::new(SkipReason::NotCollected, detail));
    }
    tool(snapshot, ask, parse)
}

/// What each tool lists.
struct Sources {
    /// Those that show ports, then those that only name devices.
    tools: Vec<Observed<Seen<Hcas>>>,
    /// GID tables and interfaces, which name devices by the way.
    named: Vec<(&'static Ask, Vec<Hca>)>,
}

impl Sources {
    fn read(snapshot: &Snapshot) -> Self {
        let mut named = Vec::new();
        if snapshot.is_pasted() {
            let gids = tool(snapshot, &ask::SHOW_GIDS, show_gids::parse);
            let filled = gids.known().filter(|table| !table.rows.is_empty());
            named.extend(filled.map(|table| (table.ask, of_gids(table))));
            let netdevs = tool(snapshot, &ask::IBDEV2NETDEV, ibdev2netdev::parse);
            named.extend(netdevs.known().map(|rows| (rows.ask, of_netdevs(rows))));
        }
        Self {
            tools: vec![
                of_tool(snapshot, &ask::IBV_DEVINFO, ibv_devinfo::parse),
                of_tool(snapshot, &ask::IBSTAT, ibstat::parse),
                of_tool(snapshot, &ask::IBSTATUS, ibstatus::parse),
                of_tool(snapshot, &ask::RDMA_LINK, rdma_link::parse),
                of_tool(snapshot, &ask::IBV_DEVICES, ibv_devices::parse),
            ],
            named,
        }
    }

    fn known(&self) -> impl Iterator<Item = &Seen<Hcas>> {
        self.tools.iter().filter_map(Observed::known)
    }

    /// sysfs where it was read, completed by what only tools say; else the tools.
    fn devices(&self, snapshot: &Snapshot) -> Observed<Seen<Vec<Device>>> {
        let mut base = first(vec![
            sysfs_devices(snapshot),
            self.by_tools(),
            self.by_names(),
        ]);
        let Observed::Known(base) = &mut base else {
            return base;
        };
        for hcas in self.known() {
            complete(&mut base.value, &hcas.devices);
        }
        if snapshot.is_pasted() {
            let named = self.named.iter().map(|(_, hcas)| hcas.as_slice());
            let tools = self.known().map(|hcas| hcas.devices.as_slice());
            for hca in tools.chain(named).flatten() {
                if !base.value.iter().any(|device| device.hca.name == hca.name) {
                    base.value.push(Device::of(hca.clone()));
                }
            }
            for (_, hcas) in &self.named {
                complete(&mut base.value, hcas);
            }
            // Which of two that contradict each other is right is not known.
            for (device, port) in self.disputed() {
                let ports = base.value.iter_mut().filter(|d| d.hca.name == device);
                for port in ports.flat_map(|d| d.hca.ports.iter_mut().filter(|p| p.number == port))
                {
                    port.state = None;
                }
            }
        }
        Observed::Known(Seen::new(base.ask, std::mem::take(&mut base.value)))
    }

    /// The devices of the first tool that lists some, or says that there are none.
    fn by_tools(&self) -> Observed<Seen<Vec<Device>>> {
        let shown = |hcas: &Seen<Hcas>| {
            if let Some(skip) = no_list(hcas) {
                return Err(skip);
            }
            let devices = hcas.devices.iter().cloned().map(Device::of).collect();
            Ok(Seen::new(hcas.ask, devices))
        };
        if let Some(hcas) = self.known().find(|h| !h.devices.is_empty()) {
            return observed(shown(hcas));
        }
        let tools = self.tools.iter();
        first(tools.map(|t| observed(t.get().and_then(shown))).collect())
    }

    /// Devices of which only names, addresses or interfaces were pasted.
    fn by_names(&self) -> Observed<Seen<Vec<Device>>> {
        let Some((ask, hcas)) = self.named.first() else {
            return Observed::Missing(Skip::new(SkipReason::NotCollected, "nothing was read"));
        };
        let devices = hcas.iter().cloned().map(Device::of).collect();
        Observed::Known(Seen::new(ask, devices))
    }

    /// Ports of which two tools tell different states.
    fn disputed(&self) -> BTreeSet<PortKey> {
        let mut seen: BTreeMap<PortKey, &PortState> = BTreeMap::new();
        let mut disputed = BTreeSet::new();
        for (key, _, state) in self.states() {
            if seen
                .insert(key.clone(), state)
                .is_some_and(|other| other != state)
            {
                disputed.insert(key);
            }
        }
        disputed
    }

    fn states(&self) -> impl Iterator<Item = (PortKey, &'static Ask, &PortState)> {
        self.known().flat_map(|hcas| {
            hcas.devices.iter().flat_map(|hca| {
                hca.ports.iter().filter_map(|port| {
                    let key = (hca.name.clone(), port.number);
                    Some((key, hcas.ask, port.state.as_ref()?))
                })
            })
        })
    }

    /// Where tools contradict each other: in the state of a port, and in what devices there are.
    fn conflicts(&self) -> Vec<Conflict> {
        let mut conflicts = Vec::new();
        for (name, number) in self.disputed() {
            let mut said: Vec<(&'static Ask, String)> = Vec::new();
            for (key, ask, state) in self.states() {
                let words = format!("{name}:{number} {}", state_word(state));
                if key == (name.clone(), number) && said.iter().all(|(_, other)| *other != words) {
                    said.push((ask, words));
                }
            }
            let mut said = said.into_iter();
            if let (Some(one), Some(other)) = (said.next(), said.next()) {
                conflicts.push(Conflict { one, other });
            }
        }
        let names = |hcas: &[Hca]| -> BTreeSet<String> {
            hcas.iter().map(|hca| hca.name.clone()).collect()
        };
        let lists: Vec<(&'static Ask, BTreeSet<String>)> = self
            .known()
            .filter(|hcas| no_list(hcas).is_none())
            .map(|hcas| (hcas.ask, names(&hcas.devices)))
            .collect();
        let by_the_way = self.named.iter().map(|(ask, hcas)| (*ask, names(hcas)));
        let all: Vec<_> = lists.iter().cloned().chain(by_the_way).collect();
        for (at, (list, full)) in lists.iter().enumerate() {
            // What only names devices by the way need not name all of them.
            for (ask, some) in all.iter().skip(at + 1) {
                let more = some.difference(full).cloned().collect::<Vec<_>>().join(" ");
                let lacks = full.difference(some).cloned().collect::<Vec<_>>().join(" ");
                if !more.is_empty() {
                    conflicts.push(Conflict {
                        one: (ask, more.clone()),
                        other: (list, format!("no {more}")),
                    });
                }
                if !lacks.is_empty() && lists.iter().any(|(other, _)| other.id == ask.id) {
                    conflicts.push(Conflict {
                        one: (list, lacks.clone()),
                        other: (ask, format!("no {lacks}")),
                    });
                }
            }
        }
        conflicts
    }
}

/// Why an output without a device does not say that there is none: what the tool found it could not open, or it only
/// complained, as `ibstat mlx5_0` does where that one device is not there.
fn no_list(hcas: &Seen<Hcas>) -> Option<Skip> {
    if !hcas.devices.is_empty() || hcas.absence.is_some() {
        return None;
    }
    let tool = hcas.ask.shown_as;
    if hcas.unopened > 0 {
        let detail = format!(
            "{tool} found RDMA devices ({}) and could open none, so it does not say which there are",
            hcas.unopened
        );
        return Some(Skip::new(SkipReason::Denied, detail));
    }
    if let Some(node) = hcas.without_driver.first() {
        let detail = format!(
            "the verbs library of this image has no driver for {node}, so {tool} does not say which devices there are"
        );
        return Some(Skip::new(SkipReason::NotFound, detail));
    }
    let said = hcas.complaints.first()?;
    let detail = format!(
        "{tool} lists no device and says `{said}`, which is no statement about other devices"
    );
    Some(Skip::new(SkipReason::Unparsable, detail))
}

/// Devices of a GID table. RoCE v2, or a network interface, is on Ethernet only; InfiniBand shows neither.
fn of_gids(table: &show_gids::GidTable) -> Vec<Hca> {
    let mut hcas: Vec<Hca> = Vec::new();
    for row in &table.rows {
        let at = hcas.iter().position(|hca| hca.name == row.device);
        let at = at.unwrap_or_else(|| {
            hcas.push(Hca::named(&row.device));
            hcas.len() - 1
        });
        let ports = &mut hcas[at].ports;
        let at = ports.iter().position(|port| port.number == row.port);
        let at = at.unwrap_or_else(|| {
            ports.push(Port::numbered(row.port));
            ports.len() - 1
        });
        if row.gid.kind == Some(GidKind::RoceV2) || row.gid.netdev.is_some() {
            ports[at].link_layer = Some(LinkLayer::Ethernet);
        }
    }
    hcas
}

fn of_netdevs(rows: &Netdevs) -> Vec<Hca> {
    let mut hcas: Vec<Hca> = Vec::new();
    for row in &rows.rows {
        let at = hcas.iter().position(|hca| hca.name == row.device);
        let at = at.unwrap_or_else(|| {
            hcas.push(Hca::named(&row.device));
            hcas.len() - 1
        });
        let mut port = Port::numbered(row.port);
        port.netdev = Some(row.netdev.clone());
        hcas[at].ports.push(port);
    }
    hcas
}

fn sysfs_devices(snapshot: &Snapshot) -> Observed<Seen<Vec<Device>>> {
    let read = || {
        let ports = whole(snapshot, &ask::RDMA_PORTS)?;
        let attributes = whole(snapshot, &ask::RDMA_ATTRIBUTES).ok();
        let bus = whole(snapshot, &ask::RDMA_PCI).ok();
        let names = whole(snapshot, &ask::RDMA_DEVICES).unwrap_or_default();
        let below = |path: &str| path.strip_prefix("/sys/class/infiniband/").map(str::len);
        let entries = pairs(ports)
            .chain(attributes.into_iter().flat_map(pairs))
            .filter_map(|(path, value)| {
                let at = path.len() - below(path)?;
                Some((&path[at..], Reading::Text(value)))
            });
        let links = bus.into_iter().flat_map(pairs).filter_map(|(path, value)| {
            let at = path.len() - below(path)?;
            Some((&path[at..], Reading::Link(value)))
        });
        let listed = names
            .lines()
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .map(|name| (name, Reading::Text("")));
        // Looked up for every device: not searched for each.
        let (of_attributes, of_bus) = (by_path(attributes), by_path(bus));
        let attribute = |name: &str, file: &str| {
            let path = format!("/sys/class/infiniband/{name}/{file}");
            of_attributes.get(&*path).copied()
        };
        let bus_path = |name: &str| {
            let path = format!("/sys/class/infiniband/{name}/device");
            of_bus.get(&*path).copied().map(excerpt)
        };
        let devices = sysfs::devices(entries.chain(links).chain(listed))
            .into_iter()
            .map(|device| {
                let name = device.hca.name.clone();
                let mut backing = device.backing;
                if by_name(&name) == Backing::Software {
                    backing = Backing::Software;
                }
                // The links were read and this device has none: it is on no bus.
                if backing == Backing::Unknown && bus.is_some() {
                    backing = Backing::Software;
                }
                Device {
                    pcie: pcie(|file| attribute(&name, file)),
                    iommu: attribute(&name, "device/iommu_group/type").map(excerpt),
                    bus_path: bus_path(&name),
                    backing,
                    is_iwarp: device.node_type == Some(NodeType::Rnic),
                    driver: device.driver,
                    numa_node: device.numa_node,
                    hca: device.hca,
                }
            })
            .collect();
        Ok(Seen::new(&ask::RDMA_PORTS, devices))
    };
    observed(read())
}

/// The values of an answer by their paths; the first of two counts.
fn by_path(text: Option<&str>) -> HashMap<&str, &str> {
    let mut all = HashMap::new();
    for (path, value) in text.into_iter().flat_map(pairs) {
        all.entry(path).or_insert(value);
    }
    all
}

/// `32.0 GT/s PCIe` and `16`; virtual functions read `Unknown` and 0.
fn pcie<'a>(read: impl Fn(&str) -> Option<&'a str>) -> Option<Pcie> {
    let speed = |file: &str| read(file).and_then(number).filter(|gts| *gts > 0.0);
    // A link of 255 lanes is what the kernel shows where it does not know.
    let lanes = |file: &str| read(file).and_then(small).filter(|n| (1..=32).contains(n));
    Some(Pcie {
        speed_gts: speed("device/current_link_speed")?,
        lanes: lanes("device/current_link_width")?,
        max_speed_gts: speed("device/max_link_speed"),
        max_lanes: lanes("device/max_link_width"),
    })
}

/// Fills what is not known yet. The first source that says something is right.
fn complete(devices: &mut [Device], hcas: &[Hca]) {
    for hca in hcas {
        let Some(device) = devices.iter_mut().find(|d| d.hca.name == hca.name) else {
            continue;
        };
        let own = &mut device.hca;
        own.model = own.model.take().or_else(|| hca.model.clone());
        own.fw_version = own.fw_version.take().or_else(|| hca.fw_version.clone());
        own.board_id = own.board_id.take().or_else(|| hca.board_id.clone());
        own.vendor = own.vendor.or(hca.vendor);
        own.part_id = own.part_id.or(hca.part_id);
        if device.backing == Backing::Unknown {
            device.backing = backing(own);
        }
        for port in &hca.ports {
            let Some(known) = own.ports.iter_mut().find(|p| p.number == port.number) else {
                own.ports.push(port.clone());
                continue;
            };
            known.state = known.state.take().or_else(|| port.state.clone());
            known.phys_state = known.phys_state.take().or_else(|| port.phys_state.clone());
            known.rate = known.rate.take().or_else(|| port.rate.clone());
            known.link_layer = known.link_layer.take().or_else(|| port.link_layer.clone());
            known.lid = known.lid.or(port.lid);
            known.sm_lid = known.sm_lid.or(port.sm_lid);
            known.max_mtu_bytes = known.max_mtu_bytes.or(port.max_mtu_bytes);
            known.active_mtu_bytes = known.active_mtu_bytes.or(port.active_mtu_bytes);
            known.netdev = known.netdev.take().or_else(|| port.netdev.clone());
        }
    }
}

/// By the nodes and what opening them gave.
fn granted(snapshot: &Snapshot) -> Observed<Seen<Granted>> {
    let by_nodes = || {
        let nodes: BTreeSet<String> = whole(snapshot, &ask::DEV_INFINIBAND)?
            .lines()
            .map(excerpt)
            .filter(|name| !name.is_empty())
            .collect();
        let mut granted = Granted {
            nodes,
            ..Granted::default()
        };
        let verbs: Vec<&String> = granted
            .nodes
            .iter()
            .filter(|node| node.starts_with("uverbs"))
            .collect();
        if verbs.is_empty() {
            return Ok(Seen::new(&ask::DEV_INFINIBAND, granted));
        }
        let owners = whole(snapshot, &ask::RDMA_UVERBS)?;
        let opened: BTreeMap<&str, &str> =
            pairs(whole(snapshot, &ask::DEV_INFINIBAND_OPEN)?).collect();
        let below = "/sys/class/infiniband_verbs/";
        let entries = pairs(owners)
            .filter_map(|(path, name)| Some((path.strip_prefix(below)?, Reading::Text(name))));
        let owners = sysfs::uverbs(entries);
        for node in verbs {
            let Some(device) = owners.get(node) else {
                continue;
            };
            match opened.get(node.as_str()) {
                Some(&"open") => {
                    granted.devices.insert(device.clone());
                }
                refusal => {
                    let words = excerpt(refusal.copied().unwrap_or("failed"));
                    granted.refused.insert(device.clone(), words);
                }
            }
        }
        granted
            .refused
            .retain(|device, _| !granted.devices.contains(device));
        let here = |device: &String| {
            granted.devices.contains(device) || granted.refused.contains_key(device)
        };
        granted.absent = owners.into_values().filter(|d| !here(d)).collect();
        Ok(Seen::new(&ask::DEV_INFINIBAND_OPEN, granted))
    };
    if snapshot.is_pasted() && !snapshot.answers.contains_key(ask::DEV_INFINIBAND.id) {
        // Listing is not access, and ibv_devinfo opens what it lists: it cannot vouch for itself.
        let detail = "whether the worker may open its RDMA devices is not in pasted outputs; run the tool in the pod";
        return Observed::Missing(Skip::new(SkipReason::NotCollected, detail));
    }
    observed(by_nodes())
}

fn gids(snapshot: &Snapshot) -> Observed<Seen<BTreeMap<PortKey, Vec<Gid>>>> {
    let by_sysfs = list(snapshot, &ask::RDMA_GIDS, |text| {
        let below = "/sys/class/infiniband/";
        let entries = pairs(text)
            .filter_map(|(path, value)| Some((path.strip_prefix(below)?, Reading::Text(value))));
        let mut tables = BTreeMap::new();
        for device in sysfs::devices(entries) {
            for port in device.hca.ports {
                let key = (device.hca.name.clone(), port.number);
                tables.insert(key, port.gids.unwrap_or_default());
            }
        }
        tables
    });
    let by_show_gids = tool(snapshot, &ask::SHOW_GIDS, |text| {
        let table = show_gids::parse(text)?;
        if table.announced.is_none() {
            let detail = "show_gids lacks its last line (n_gids_found=), so entries may be missing; paste all of it";
            return Err(Skip::new(SkipReason::Unparsable, detail));
        }
        if table.is_cut() {
            let detail = format!(
                "show_gids is cut: it has {} of {} entries",
                table.rows.len(),
                table.announced.unwrap_or_default()
            );
            return Err(Skip::new(SkipReason::Unparsable, detail));
        }
        let mut tables: BTreeMap<PortKey, Vec<Gid>> = BTreeMap::new();
        for row in table.rows {
            tables
                .entry((row.device, row.port))
                .or_default()
                .push(row.gid);
        }
        Ok::<_, Skip>(tables)
    });
    let by_verbs = || {
        let hcas = tool(snapshot, &ask::IBV_DEVINFO, ibv_devinfo::parse);
        let hcas = hcas.get()?;
        // A device that could not be opened has addresses all the same.
        if let Some(skip) = no_list(hcas) {
            return Err(skip);
        }
        let mut tables = BTreeMap::new();
        for hca in &hcas.devices {
            for port in &hca.ports {
                let Some(gids) = &port.gids else {
                    return Err(Skip::new(
                        SkipReason::NotCollected,
                        "GID tables are not in this output; `ibv_devinfo -v` shows them",
                    ));
                };
                tables.insert((hca.name.clone(), port.number), gids.clone());
            }
        }
        Ok(Seen::new(&ask::IBV_DEVINFO, tables))
    };
    first(vec![by_sysfs, by_show_gids, observed(by_verbs())])
}

fn counters(snapshot: &Snapshot) -> Observed<Seen<BTreeMap<PortKey, Counters>>> {
    let of = |ask| {
        list(snapshot, ask, |text| {
            let below = "/sys/class/infiniband/";
            let entries = pairs(text).filter_map(|(path, value)| {
                Some((path.strip_prefix(below)?, Reading::Text(value)))
            });
            let devices = sysfs::counters(entries).into_iter();
            devices
                .flat_map(|(name, counters)| {
                    counters
                        .into_iter()
                        .map(move |(port, counters)| ((name.clone(), port), counters))
                })
                .collect::<BTreeMap<_, _>>()
        })
    };
    let mut ports = of(&ask::RDMA_COUNTERS);
    if let (Observed::Known(ports), Observed::Known(hardware)) =
        (&mut ports, of(&ask::RDMA_HW_COUNTERS))
    {
        for (key, counters) in hardware.value {
            let port = ports.value.entry(key).or_default();
            port.hardware = counters.hardware;
            port.unreadable.extend(counters.unreadable);
        }
    }
    ports
}

fn netdevs(snapshot: &Snapshot) -> Observed<Seen<BTreeMap<String, BTreeSet<String>>>> {
    type Netdevs = BTreeMap<String, BTreeSet<String>>;
    let by_sysfs = list(snapshot, &ask::RDMA_NETDEVS, |text| {
        let mut netdevs = Netdevs::new();
        for (path, _) in pairs(text) {
            let mut parts = path.rsplit('/');
            if let (Some(netdev), Some("net"), Some("device"), Some(device)) =
                (parts.next(), parts.next(), parts.next(), parts.next())
            {
                netdevs
                    .entry(excerpt(device))
                    .or_default()
                    .insert(excerpt(netdev));
            }
        }
        netdevs
    });
    let by_link = tool(snapshot, &ask::RDMA_LINK, |text| {
        let mut netdevs = Netdevs::new();
        for hca in rdma_link::parse(text)?.devices {
            for netdev in hca.ports.into_iter().filter_map(|port| port.netdev) {
                netdevs.entry(hca.name.clone()).or_default().insert(netdev);
            }
        }
        Ok::<_, Unparsable>(netdevs)
    });
    let by_ofed = tool(snapshot, &ask::IBDEV2NETDEV, |text| {
        let mut netdevs = Netdevs::new();
        for row in ibdev2netdev::parse(text)?.rows {
            netdevs.entry(row.device).or_default().insert(row.netdev);
        }
        Ok::<_, Unparsable>(netdevs)
    });
    answers::first(vec![by_sysfs, by_link, by_ofed])
}
