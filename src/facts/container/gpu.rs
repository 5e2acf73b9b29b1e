//! GPUs, how they are joined, the driver, and the nodes that the container was given.

use super::answers::{Conflict, Seen, first, list, observed, pairs, tool};
use crate::ask;
use crate::facts::nvidia_smi_nvlink::{self, GpuLinks, Nvlinks};
use crate::facts::nvidia_smi_q::{self, Query};
use crate::facts::nvidia_smi_topo::{self, Matrix, Path, Topology};
use crate::facts::transcript::{excerpt, small};
use crate::facts::{Unparsable, nvidia_smi_csv};
use crate::observed::{Observed, Skip};
use crate::report::SkipReason;
use crate::snapshot::Snapshot;
use std::collections::{BTreeMap, BTreeSet};

/// GPUs of the container and their surroundings.
#[derive(Debug, Clone)]
pub struct Gpus {
    /// The GPUs. Empty: looked for, and none is there.
    pub list: Observed<Seen<Vec<Gpu>>>,
    /// The driver.
    pub driver: Observed<Seen<Driver>>,
    /// Parameters of the driver.
    pub parameters: Observed<Seen<BTreeMap<String, String>>>,
    /// Paths between GPUs and to network adapters.
    pub topology: Observed<Seen<Matrix>>,
    /// NVLinks of each GPU.
    pub nvlink: Observed<Seen<Nvlinks>>,
    /// Registration with the NVLink fabric, by GPU.
    pub fabric: Observed<Seen<Query>>,
    /// Where each GPU is on the bus, by PCI address.
    pub places: Observed<Seen<BTreeMap<String, BusPlace>>>,
    /// Device nodes by path: type and access, `char rw`.
    pub nodes: Observed<Seen<BTreeMap<String, Node>>>,
    /// The line by which `nvidia-smi` refuses to run because library and kernel module differ.
    pub versions_differ: Option<Seen<String>>,
    /// Pasted outputs that show different numbers of GPUs, other products or other NVLinks.
    pub conflicts: Vec<Conflict>,
}

/// One GPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gpu {
    /// Product name; empty where only its node is seen.
    pub name: String,
    /// PCI address.
    pub bus_id: Option<String>,
    /// `GPU-` and the number that no other GPU has.
    pub uuid: Option<String>,
}

/// The NVIDIA driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Driver {
    /// `580.95.05`.
    pub version: String,
    /// Open kernel modules, which alone export GPU memory as dmabuf; `None` where the source does not say.
    pub is_open: Option<bool>,
}

impl Driver {
    /// The branch, the first number of the version.
    pub fn branch(&self) -> Option<u32> {
        small(&self.version)
    }
}

/// Where a GPU is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BusPlace {
    /// `/sys/devices/pci0000:15/...`.
    pub path: Option<String>,
    /// NUMA node; the kernel's -1 is `None`.
    pub numa_node: Option<u32>,
    /// Type of its IOMMU group: `identity`, `DMA`, `DMA-FQ`.
    pub iommu: Option<String>,
}

/// A device node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// A character device.
    pub is_char: bool,
    /// It may be read and written.
    pub is_open: bool,
}

/// Words of product names of PCIe cards, which have NVLink bridges at most.
/// <https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/>
const PCIE_CARDS: &[&str] = &[
    "PCIe", "PCIE", "NVL", "L40", "L40S", "L20", "L4", "L2", "A40", "A30", "A10", "A10G", "A16",
    "A2", "T4", "RTX", "GeForce", "Quadro", "TITAN",
];

/// Words of product names of GPUs on a board that joins them by NVLink or NVSwitch.
const BOARDS: &[&str] = &[
    "SXM", "SXM2", "SXM3", "SXM4", "SXM5", "SXM6", "HBM3", "HBM3e", "H20", "H200", "H800", "B200",
    "B300", "GB200", "GB300",
];

/// A Grace Hopper module: alone, or one of two that are joined by its links. The name does not say which.
const ALONE_OR_JOINED: &[&str] = &["GH200"];

/// NVLinks of one GPU on a board, by a word of its product name. V100, A100, H100 and Blackwell: the white papers of
/// these architectures; H20, A800, H800: captured matrices, `NV18` and `NV8` between all pairs (sgl-project/sglang#5376,
/// #6171).
const LINKS: &[(&str, usize)] = &[
    ("V100", 6),
    ("A100", 12),
    ("A800", 8),
    ("H100", 18),
    ("H200", 18),
    ("H20", 18),
    ("H800", 8),
    ("B200", 18),
    ("B300", 18),
    ("GB200", 18),
    ("GB300", 18),
];

/// No product has more NVLinks than this.
pub const MOST_LINKS: usize = 18;

/// A board of so many GPUs may join them directly, without a switch.
pub const DIRECT: usize = 4;

/// A GPU of which matrix and list of NVLinks cannot both be true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkDispute {
    /// Its number.
    pub gpu: u32,
    /// Most NVLinks to another GPU in the matrix.
    pub best: usize,
    /// Active links in the list.
    pub active: usize,
}

impl LinkDispute {
    /// What the matrix shows, as `NV18`.
    pub fn by_matrix(&self) -> String {
        match self.best {
            0 => "no NVLink to another GPU".to_owned(),
            best => format!("NV{best}"),
        }
    }

    /// What the list shows.
    pub fn by_list(&self) -> String {
        format!("{} active links", self.active)
    }
}

/// The first GPU of which the two outputs cannot both be true.
pub fn disputed_links(matrix: &Matrix, links: &Nvlinks) -> Option<LinkDispute> {
    let direct =
        |best: usize, full: usize| matrix.gpus.len() <= DIRECT && best == full / (DIRECT - 1);
    matrix.gpus.iter().find_map(|row| {
        let gpu = links.gpus.iter().find(|gpu| gpu.index == row.index)?;
        if is_cut(gpu, &links.gpus) {
            return None;
        }
        let counts = row.to_gpus.iter().flatten().map(|path| match path {
            Path::NvLink(links) => usize::from(*links),
            _ => 0,
        });
        let best = counts.max()?;
        let product = Gpu::of_links(gpu);
        let active = gpu.active();
        // On a board with a switch every active link leads to every peer.
        let switched = product
            .links()
            .filter(|full| !product.is_of_a_mesh() && !direct(best, *full));
        let is_disputed = best > active || best < active && switched.is_some();
        is_disputed.then_some(LinkDispute {
            gpu: gpu.index,
            best,
            active,
        })
    })
}

/// The list breaks off within this GPU: others of its product, or the product itself, have more links than it lists.
pub fn is_cut(gpu: &GpuLinks, all: &[GpuLinks]) -> bool {
    let is_last = all.last().is_some_and(|last| std::ptr::eq(last, gpu));
    let listed = gpu.links.len();
    let more = |other: &GpuLinks| other.product == gpu.product && other.links.len() > listed;
    let full = Gpu::of_links(gpu).links();
    let single = all.len() == 1 && full.is_some_and(|links| listed < links);
    // For GPUs without NVLink the tool prints no line at all.
    let none = listed == 0
        && (Gpu::of_links(gpu).is_on_nvlink_board() == Some(true)
            || all.iter().any(|other| !other.links.is_empty()));
    gpu.verdict.is_none() && (none || is_last && (single || all.iter().any(more)))
}

impl Gpu {
    /// The GPU that a list of NVLinks is of.
    pub fn of_links(gpu: &GpuLinks) -> Self {
        Self {
            name: gpu.product.clone(),
            ..Self::default()
        }
    }

    fn has_word(&self, words: &[&str]) -> bool {
        let mut own = self.name.split([' ', '-', '_']);
        own.any(|word| words.contains(&word))
    }

    /// On a board that joins its GPUs by NVLink; `None` where the name does not say.
    pub fn is_on_nvlink_board(&self) -> Option<bool> {
        if self.has_word(PCIE_CARDS) {
            Some(false)
        } else {
            (self.has_word(BOARDS) && !self.has_word(ALONE_OR_JOINED)).then_some(true)
        }
    }

    /// How many NVLinks this product has; `None` for cards, where bridges decide, and where the name does not say.
    pub fn links(&self) -> Option<usize> {
        let known = LINKS.iter().find(|(word, _)| self.has_word(&[word]));
        known
            .filter(|_| self.is_on_nvlink_board() == Some(true))
            .map(|(_, links)| *links)
    }

    /// On boards of this product each GPU is joined to some of the others directly, by one or two links.
    pub fn is_of_a_mesh(&self) -> bool {
        self.has_word(&["V100", "P100"])
    }

    /// NVLink of these reaches beyond the node.
    pub fn is_rack_scale(&self) -> bool {
        self.has_word(&["GB200", "GB300"])
    }

    /// The name says that a Grace CPU is on the same board.
    pub fn has_grace(&self) -> bool {
        self.has_word(&["GH200", "GB200", "GB300"])
    }

    /// Blackwell of the data centre.
    pub fn is_blackwell(&self) -> bool {
        self.has_word(&["B100", "B200", "B300", "GB200", "GB300"])
    }
}

impl Gpus {
    pub(super) fn read(snapshot: &Snapshot) -> Self {
        let fabric = first(vec![
            tool(snapshot, &ask::NVIDIA_SMI_FABRIC, nvidia_smi_q::parse),
            tool(snapshot, &ask::SMI_Q, nvidia_smi_q::parse),
        ]);
        let nodes = list(snapshot, &ask::DEV_GPU, nodes);
        let topology = tool(
            snapshot,
            &ask::NVIDIA_SMI_TOPO,
            |text| match nvidia_smi_topo::parse(text)? {
                Topology::Nvidia(matrix) => Ok(matrix),
                Topology::Rocm(_) => Err(Skip::not_applicable()),
            },
        );
        let nvlink = tool(snapshot, &ask::NVIDIA_SMI_NVLINK, nvidia_smi_nvlink::parse);
        let conflicts = match snapshot.is_pasted() {
            true => conflicts(&topology, &fabric, &nvlink),
            false => Vec::new(),
        };
        Self {
            list: gpus(snapshot, &fabric, &nodes, &nvlink, &topology),
            driver: driver(snapshot, &fabric),
            parameters: tool(snapshot, &ask::NVIDIA_PARAMS, |text| {
                let pairs = pairs(text).map(|(name, value)| (excerpt(name), excerpt(value)));
                let all: BTreeMap<_, _> = pairs.collect();
                // The driver never writes an empty one.
                match all.is_empty() {
                    true => Err(Skip::new(
                        SkipReason::Unparsable,
                        format!("{} holds no parameter", ask::NVIDIA_PARAMS.short()),
                    )),
                    false => Ok(all),
                }
            }),
            topology,
            nvlink,
            fabric,
            places: list(snapshot, &ask::GPU_PCI, places),
            nodes,
            versions_differ: versions_differ(snapshot),
            conflicts,
        }
    }

    /// Nodes below a path.
    pub fn nodes_below(&self, prefix: &str) -> Result<Vec<(&str, &Node)>, Skip> {
        let nodes = self.nodes.get()?;
        let below = nodes.iter().filter(|(path, _)| path.starts_with(prefix));
        Ok(below.map(|(path, node)| (path.as_str(), node)).collect())
    }

    /// IMEX channels that the container may use.
    pub fn imex_channels(&self) -> Result<Vec<&str>, Skip> {
        let nodes = self.nodes_below("/dev/nvidia-caps-imex-channels/channel")?;
        let usable = nodes.into_iter().filter(|(_, node)| node.is_open);
        Ok(usable.map(|(path, _)| path).collect())
    }
}

/// Outputs that show different numbers of GPUs, or differ in what they say of one. The matrix and the full query tell of all there are; the list of NVLinks of
/// one GPU may have been asked for that one (`-i`), and one that breaks off says nothing of the rest.
fn conflicts(
    topology: &Observed<Seen<Matrix>>,
    query: &Observed<Seen<Query>>,
    nvlink: &Observed<Seen<Nvlinks>>,
) -> Vec<Conflict> {
    let mut counts: Vec<(&'static ask::Ask, usize)> = Vec::new();
    counts.extend(topology.known().map(|m| (m.ask, m.gpus.len())));
    counts.extend(query.known().map(|query| {
        let attached = query.attached_gpus.map(|n| n as usize);
        (query.ask, attached.unwrap_or(query.gpus.len()))
    }));
    let mut conflicts = Vec::new();
    if let (Some(query), Some(links)) = (query.known(), nvlink.known()) {
        conflicts.extend(other_product(query, links));
    }
    if let (Some(matrix), Some(links)) = (topology.known(), nvlink.known())
        && let Some(dispute) = disputed_links(matrix, links)
    {
        conflicts.push(Conflict {
            one: (
                matrix.ask,
                format!("{} of GPU {}", dispute.by_matrix(), dispute.gpu),
            ),
            other: (
                links.ask,
                format!("{} of GPU {}", dispute.by_list(), dispute.gpu),
            ),
        });
    }
    let Some((first, most)) = counts.first().copied() else {
        return conflicts;
    };
    let links = nvlink.known().filter(|links| {
        let n = links.gpus.len();
        n > most || n > 1 && !links.breaks_off()
    });
    counts.extend(links.map(|links| (links.ask, links.gpus.len())));
    let shown = |n: usize| format!("{n} {}", if n == 1 { "GPU" } else { "GPUs" });
    let others = counts.iter().skip(1).filter(|(_, n)| *n != most);
    let others = others.map(|(ask, n)| Conflict {
        one: (first, shown(most)),
        other: (ask, shown(*n)),
    });
    others.chain(conflicts).collect()
}

/// A product that one of two outputs shows and the other does not, where both show all GPUs or the one shows some of the other's.
fn other_product(query: &Seen<Query>, links: &Seen<Nvlinks>) -> Option<Conflict> {
    let queried: Option<BTreeSet<&str>> = query
        .gpus
        .iter()
        .map(|gpu| gpu.product.as_deref())
        .collect();
    let queried = queried.filter(|names| !names.is_empty() && !query.is_cut())?;
    let listed: BTreeSet<&str> = links.gpus.iter().map(|gpu| gpu.product.as_str()).collect();
    let is_whole = links.gpus.len() == query.gpus.len();
    let strange = listed.difference(&queried).next();
    let lost = queried.difference(&listed).next().filter(|_| is_whole);
    if strange.is_none() && lost.is_none() {
        return None;
    }
    let name = |strange: Option<&&str>, all: &BTreeSet<&str>| {
        strange
            .or(all.first())
            .copied()
            .unwrap_or_default()
            .to_owned()
    };
    Some(Conflict {
        one: (query.ask, name(lost, &queried)),
        other: (links.ask, name(strange, &listed)),
    })
}

/// `NVML_ERROR_LIB_RM_VERSION_MISMATCH` in the words of `nvidia-smi`.
/// <https://docs.nvidia.com/deploy/nvml-api/>
fn versions_differ(snapshot: &Snapshot) -> Option<Seen<String>> {
    const WORDS: &str = "Driver/library version mismatch";
    let asks: [&'static ask::Ask; 5] = [
        &ask::NVIDIA_SMI_QUERY,
        &ask::SMI_Q,
        &ask::NVIDIA_SMI_FABRIC,
        &ask::NVIDIA_SMI_TOPO,
        &ask::NVIDIA_SMI_NVLINK,
    ];
    asks.into_iter().find_map(|ask| {
        let text = snapshot.text(ask).ok()?;
        let line = text.lines().take(20).find(|line| line.contains(WORDS))?;
        Some(Seen::new(ask, excerpt(line)))
    })
}

/// The driver's table, its files, its full query, and last the nodes and what other outputs count.
fn gpus(
    snapshot: &Snapshot,
    query: &Observed<Seen<Query>>,
    nodes: &Observed<Seen<BTreeMap<String, Node>>>,
    nvlink: &Observed<Seen<Nvlinks>>,
    topology: &Observed<Seen<Matrix>>,
) -> Observed<Seen<Vec<Gpu>>> {
    let by_table = tool(snapshot, &ask::NVIDIA_SMI_QUERY, |text| {
        let gpus = nvidia_smi_csv::parse(text)?.gpus().into_iter();
        let gpus = gpus.map(|gpu| Gpu {
            name: gpu.name.unwrap_or_default(),
            bus_id: gpu.bus_id,
            uuid: gpu.uuid,
        });
        Ok::<_, Unparsable>(gpus.collect::<Vec<_>>())
    });
    let by_driver = list(snapshot, &ask::GPU_INFORMATION, information);
    let by_query = observed(query.get().map(|query| {
        let gpus = query.gpus.iter().map(|gpu| Gpu {
            name: gpu.product.clone().unwrap_or_default(),
            bus_id: Some(gpu.bus_id.clone()),
            uuid: gpu.uuid.clone(),
        });
        Seen::new(query.ask, gpus.collect())
    }));
    let by_links = observed(nvlink.get().map(|links| {
        let gpus = links.gpus.iter().map(|gpu| Gpu {
            name: gpu.product.clone(),
            ..Gpu::default()
        });
        Seen::new(links.ask, gpus.collect::<Vec<_>>())
    }));
    let by_matrix = observed(topology.get().map(|matrix| {
        let gpus = matrix.gpus.iter().map(|_| Gpu::default());
        Seen::new(matrix.ask, gpus.collect::<Vec<_>>())
    }));
    let by_node = observed(nodes.get().map(|nodes| {
        let is_gpu = |path: &&String| {
            let number = path.strip_prefix("/dev/nvidia");
            number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        };
        let gpus = nodes.keys().filter(is_gpu).map(|_| Gpu::default());
        Seen::new(nodes.ask, gpus.collect::<Vec<_>>())
    }));
    let shown = |gpus: Observed<Seen<Vec<Gpu>>>| match gpus {
        Observed::Known(gpus) if gpus.is_empty() => Observed::Missing(Skip::not_applicable()),
        gpus => gpus,
    };
    // An empty list from a tool may be its trouble; that there is no GPU is what the nodes say.
    let sources = [by_table, by_driver, by_query, by_links, by_matrix];
    let mut sources: Vec<_> = sources.into_iter().map(shown).collect();
    sources.push(by_node);
    first(sources)
}

/// `/proc/driver/nvidia/gpus/0000:19:00.0/information: Model: NVIDIA H100`.
fn information(text: &str) -> Vec<Gpu> {
    let mut gpus: BTreeMap<String, Gpu> = BTreeMap::new();
    for (path, line) in pairs(text) {
        let Some(bus_id) = path
            .strip_prefix("/proc/driver/nvidia/gpus/")
            .and_then(|rest| rest.strip_suffix("/information"))
        else {
            continue;
        };
        let gpu = gpus.entry(excerpt(bus_id)).or_default();
        gpu.bus_id = Some(excerpt(bus_id));
        if let Some(model) = line.strip_prefix("Model:") {
            gpu.name = excerpt(model);
        }
    }
    gpus.into_values().collect()
}

/// `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build`, or
/// `NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.135  ...`.
fn driver(snapshot: &Snapshot, query: &Observed<Seen<Query>>) -> Observed<Seen<Driver>> {
    let by_file = tool(snapshot, &ask::NVIDIA_VERSION, |text| {
        let line = text.lines().find(|line| line.starts_with("NVRM version:"));
        let version = line.and_then(|line| line.split_whitespace().find(|w| is_version(w)));
        match (line, version) {
            (Some(line), Some(version)) => Ok(Driver {
                version: excerpt(version),
                is_open: Some(line.contains("Open Kernel Module")),
            }),
            _ => Err(Unparsable::new("/proc/driver/nvidia/version", text)),
        }
    });
    let by_table = tool(snapshot, &ask::NVIDIA_SMI_QUERY, |text| {
        let table = nvidia_smi_csv::parse(text)?;
        let version = table.gpus().into_iter().find_map(|gpu| gpu.driver_version);
        let closed = |version| Driver {
            version,
            is_open: None,
        };
        version
            .map(closed)
            .ok_or_else(|| Unparsable::new("nvidia-smi", text))
    });
    let by_query = observed(query.get().and_then(|query| {
        let version = query.driver_version.clone();
        let version = version.ok_or_else(Skip::not_applicable)?;
        Ok(Seen::new(
            query.ask,
            Driver {
                version,
                is_open: None,
            },
        ))
    }));
    first(vec![by_file, by_table, by_query])
}

fn is_version(word: &str) -> bool {
    word.contains('.') && word.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

/// `/sys/bus/pci/devices/<address>: /sys/devices/...`, and files below it.
fn places(text: &str) -> BTreeMap<String, BusPlace> {
    let mut places: BTreeMap<String, BusPlace> = BTreeMap::new();
    for (path, value) in pairs(text) {
        let Some(rest) = path.strip_prefix("/sys/bus/pci/devices/") else {
            continue;
        };
        let (address, file) = rest.split_once('/').unwrap_or((rest, ""));
        let place = places.entry(excerpt(address)).or_default();
        match file {
            "" => place.path = Some(excerpt(value)),
            "numa_node" => place.numa_node = small(value),
            "iommu_group/type" => place.iommu = Some(excerpt(value)),
            _ => {}
        }
    }
    places
}

/// `path: type access`.
fn nodes(text: &str) -> BTreeMap<String, Node> {
    pairs(text)
        .filter_map(|(path, value)| {
            let (kind, access) = value.split_once(' ')?;
            Some((
                excerpt(path),
                Node {
                    is_char: kind == "char",
                    is_open: access == "rw",
                },
            ))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::testing::container;

    #[test]
    fn gpus_are_seen_with_and_without_tools() {
        let csv = "index, name, uuid, pci.bus_id, driver_version\n\
                   0, NVIDIA H100 80GB HBM3, GPU-1, 00000000:19:00.0, 580.95.05\n";
        let information = "/proc/driver/nvidia/gpus/0000:19:00.0/information: Model: \t NVIDIA H100 80GB HBM3\n\
                           /proc/driver/nvidia/gpus/0000:19:00.0/information: IRQ:   10";
        for (ask, text) in [
            (&ask::NVIDIA_SMI_QUERY, csv),
            (&ask::GPU_INFORMATION, information),
        ] {
            let gpus = Gpus::read(&container("decode", &[(ask, text)]));
            let list = gpus.list.get().unwrap();
            assert_eq!(list.len(), 1);
            assert_eq!(list[0].name, "NVIDIA H100 80GB HBM3");
        }
        let none = Gpus::read(&container("decode", &[(&ask::DEV_GPU, "")]));
        assert!(none.list.get().unwrap().is_empty());
        let node = "/dev/nvidia0: char rw\n/dev/nvidiactl: char rw\n/dev/nvidia-caps-imex-channels/channel0: char -";
        let one = Gpus::read(&container("decode", &[(&ask::DEV_GPU, node)]));
        assert_eq!(one.list.get().unwrap().len(), 1);
        assert_eq!(one.imex_channels(), Ok(vec![]));
    }

    #[test]
    fn the_first_line_tells_open_from_proprietary() {
        for (text, version, open) in [
            (
                "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build",
                "580.95.05",
                true,
            ),
            (
                "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.135  Wed",
                "550.135",
                false,
            ),
        ] {
            let gpus = Gpus::read(&container("decode", &[(&ask::NVIDIA_VERSION, text)]));
            let driver = gpus.driver.get().unwrap();
            assert_eq!(
                (driver.version.as_str(), driver.is_open),
                (version, Some(open))
            );
        }
    }

    #[test]
    fn product_names_tell_boards_from_cards() {
        for (name, board) in [
            ("NVIDIA H100 80GB HBM3", Some(true)),
            ("NVIDIA H100 PCIe", Some(false)),
            ("NVIDIA H100 NVL", Some(false)),
            ("NVIDIA A100-SXM4-80GB", Some(true)),
            ("NVIDIA A100 80GB PCIe", Some(false)),
            ("NVIDIA GB200", Some(true)),
            ("NVIDIA B200", Some(true)),
            ("NVIDIA L20", Some(false)),
            ("NVIDIA A40", Some(false)),
            ("NVIDIA GH200 144G HBM3e", None),
            ("", None),
        ] {
            assert_eq!(named(name).is_on_nvlink_board(), board, "{name}");
        }
    }

    #[test]
    fn the_number_of_links_is_known_for_boards_only() {
        for (name, links) in [
            ("Tesla V100-SXM2-32GB", Some(6)),
            ("NVIDIA A100-SXM4-80GB", Some(12)),
            ("NVIDIA A100-SXM-64GB", Some(12)),
            ("NVIDIA A800-SXM4-80GB", Some(8)),
            ("NVIDIA H100 80GB HBM3", Some(18)),
            ("NVIDIA H20", Some(18)),
            ("NVIDIA H20-3e", Some(18)),
            ("NVIDIA H200", Some(18)),
            ("NVIDIA H800", Some(8)),
            ("NVIDIA B200", Some(18)),
            ("NVIDIA B300 SXM6 AC", Some(18)),
            ("NVIDIA GB200", Some(18)),
            ("NVIDIA GB300", Some(18)),
            // A card, or not known to be on a board.
            ("NVIDIA A100 80GB PCIe", None),
            ("NVIDIA H100 PCIe", None),
            ("NVIDIA H100 NVL", None),
            ("NVIDIA H200 NVL", None),
            ("NVIDIA H800 PCIe", None),
            ("Tesla V100-PCIE-16GB", None),
            ("NVIDIA H100", None),
            ("NVIDIA GH200 480GB", None),
            ("NVIDIA L20Z", None),
            ("", None),
        ] {
            assert_eq!(named(name).links(), links, "{name}");
        }
    }

    fn named(name: &str) -> Gpu {
        Gpu {
            name: name.to_owned(),
            ..Gpu::default()
        }
    }
}
