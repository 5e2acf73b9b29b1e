//! `nvidia-smi topo -m`: how GPUs and network adapters reach each other.
//!
//! Cells are read from the start of each row, never by the offset of the header: copies glue header cells
//! (`NIC11CPU Affinity`), glue cells (`PIXSYS`, `SYS0-35`), expand tabs, wrap lines and put log prefixes in front. Each
//! row carries an `X` at its own column, so a row whose `X` stands elsewhere is known to be damaged.
//!
//! The legend explains `NV#`; only cells between two GPUs say that there is NVLink.

use super::Unparsable;
use super::transcript::{self, excerpt};
use std::collections::BTreeMap;

mod rows;

/// What was pasted as the topology of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Topology {
    /// The matrix of `nvidia-smi`.
    Nvidia(Matrix),
    /// `rocm-smi --showtopo`: AMD GPUs, to which no question about NVLink applies.
    Rocm(RocmLinks),
}

/// Links between AMD GPUs, one way counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RocmLinks {
    /// GPUs of the table.
    pub gpus: usize,
    /// Pairs of GPUs by the word of the table (`XGMI`, `PCIE`).
    pub pairs: BTreeMap<String, usize>,
}

/// Paths from each GPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matrix {
    /// GPUs in column order.
    pub gpus: Vec<Gpu>,
    /// Network adapters in column order.
    pub nics: Vec<Nic>,
    /// A `NIC Legend` was there. Without one, `nvidia-smi` before R470 names devices in the header.
    pub has_legend: bool,
    /// Rows whose cells could not be trusted and were dropped, by their name.
    pub damaged_rows: Vec<String>,
    /// Lines that were not understood, and rows of a second, same matrix in the text.
    pub unread_lines: u32,
    /// A row that a second matrix of the text shows otherwise: they are of two hosts.
    differing_row: Option<String>,
}

/// One GPU row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gpu {
    /// Number in `GPU3`.
    pub index: u32,
    /// To each GPU, in the order of [`Matrix::gpus`]; `None` to itself and where the copy has no cell.
    pub to_gpus: Vec<Option<Path>>,
    /// To each adapter, in the order of [`Matrix::nics`].
    pub to_nics: Vec<Option<Path>>,
    /// CPU list: `0-63,128-191`.
    pub cpu_affinity: Option<String>,
    /// NUMA node list: `0`, `0-1`; `N/A` is read as `None`.
    pub numa_affinity: Option<String>,
    /// NUMA node of the GPU's own memory (Grace).
    pub numa_id: Option<u32>,
}

/// One network adapter column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nic {
    /// The header cell: `NIC0`, or the device name before R470.
    pub column: String,
    /// Kernel name of the device. `None` where the legend is missing or garbled.
    pub device: Option<String>,
}

impl Nic {
    /// The device where it is known, else the column.
    pub fn label(&self) -> &str {
        self.device.as_deref().unwrap_or(&self.column)
    }
}

/// What a path crosses, nearest first. The words are explained by the legend of the tool:
/// <https://docs.nvidia.com/deploy/nvidia-smi/index.html#topo>
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Path {
    /// `NV#`: that many NVLinks.
    NvLink(u16),
    /// `PIX`: at most one PCIe bridge.
    Pix,
    /// `PXB`: several PCIe bridges, no host bridge.
    Pxb,
    /// `PHB`: a PCIe host bridge, as a rule the CPU.
    Phb,
    /// `NODE`: between host bridges of one NUMA node.
    Node,
    /// `SYS`: between NUMA nodes; `SOC` before 2018.
    Sys,
}

impl std::fmt::Display for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NvLink(links) => write!(f, "NV{links}"),
            Self::Pix => f.write_str("PIX"),
            Self::Pxb => f.write_str("PXB"),
            Self::Phb => f.write_str("PHB"),
            Self::Node => f.write_str("NODE"),
            Self::Sys => f.write_str("SYS"),
        }
    }
}

/// What the matrix says about NVLink between the GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NvlinkReach {
    /// One GPU: the question does not arise.
    OneGpu,
    /// Every pair, with the least and the most links of a pair. A difference is a dead link or a hybrid mesh.
    EveryPair {
        /// Links of the weakest pair.
        least: u16,
        /// Links of the strongest pair.
        most: u16,
    },
    /// Some pairs: bridges, or damage.
    SomePairs,
    /// No pair.
    NoPair,
    /// Cells are missing, so neither can be said.
    Unknown,
}

impl Matrix {
    /// The path from one GPU to another, by place. The matrix need not be symmetric: ask both ways.
    pub fn gpu_path(&self, from: usize, to: usize) -> Option<Path> {
        *self.gpus.get(from)?.to_gpus.get(to)?
    }

    /// Pairs of GPUs, the earlier first.
    pub fn pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        let count = self.gpus.len();
        (0..count).flat_map(move |a| (a + 1..count).map(move |b| (a, b)))
    }

    /// Pairs whose two directions differ. A sound host has none.
    pub fn asymmetric_pairs(&self) -> Vec<(usize, usize)> {
        self.pairs()
            .filter(|&(a, b)| match (self.gpu_path(a, b), self.gpu_path(b, a)) {
                (Some(there), Some(back)) => there != back,
                _ => false,
            })
            .collect()
    }

    /// NVLink over all pairs and both directions.
    pub fn nvlink(&self) -> NvlinkReach {
        if self.gpus.len() == 1 {
            return NvlinkReach::OneGpu;
        }
        let (mut least, mut most, mut without, mut missing) = (u16::MAX, 0, false, false);
        for (a, b) in self.pairs() {
            for path in [self.gpu_path(a, b), self.gpu_path(b, a)] {
                match path {
                    Some(Path::NvLink(links)) => {
                        least = least.min(links);
                        most = most.max(links);
                    }
                    Some(_) => without = true,
                    None => missing = true,
                }
            }
        }
        match (most > 0, without, missing) {
            (true, true, _) => NvlinkReach::SomePairs,
            (_, _, true) | (false, false, _) => NvlinkReach::Unknown,
            (true, false, _) => NvlinkReach::EveryPair { least, most },
            (false, true, _) => NvlinkReach::NoPair,
        }
    }

    /// The adapters nearest to a GPU, by place, and their path.
    pub fn nearest_nics(&self, gpu: usize) -> Option<(Path, Vec<usize>)> {
        let row = &self.gpus.get(gpu)?.to_nics;
        let nearest = row.iter().flatten().min()?;
        let places = (0..row.len())
            .filter(|&nic| row[nic].as_ref() == Some(nearest))
            .collect();
        Some((*nearest, places))
    }
}

/// Reads the output.
pub fn parse(text: &str) -> Result<Topology, Unparsable> {
    if let Some(rocm) = rocm(text) {
        return Ok(Topology::Rocm(rocm));
    }
    let tool = "nvidia-smi topo -m";
    let matrix = rows::matrix(text).ok_or_else(|| Unparsable::new(tool, text))?;
    if let Some(row) = &matrix.differing_row {
        let what = format!("two matrices, in which the row {row} is not the same");
        return Err(Unparsable::two_places(tool, &what));
    }
    Ok(Topology::Nvidia(matrix))
}

/// `rocm-smi --showtopo` has rows of the same names with other words; the link type table is the one that is read.
fn rocm(text: &str) -> Option<RocmLinks> {
    if !text.contains("ROCm") && !text.contains("XGMI") {
        return None;
    }
    let mut links = RocmLinks::default();
    for line in transcript::lines(text) {
        let mut words = line.split_whitespace();
        let Some(row) = words.next().and_then(|w| w.strip_prefix("GPU")) else {
            continue;
        };
        let Ok(row) = row.parse::<usize>() else {
            continue;
        };
        let cells: Vec<&str> = words.take(1024).collect();
        // Weights and hop counts are tables of numbers; the link type table holds words.
        if !cells.iter().any(|cell| matches!(*cell, "XGMI" | "PCIE")) {
            continue;
        }
        links.gpus = links.gpus.max(cells.len());
        for cell in cells.iter().skip(row + 1) {
            *links.pairs.entry(excerpt(cell)).or_default() += 1;
        }
    }
    Some(links)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Written by hand after `nvidia-smi topo -m` of R550: two GPUs with NVLink, two adapters.
    const PLAIN: &str = "\t\x1b[4mGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV18\tPIX\tSYS\t0-63,128-191\t0\t\tN/A
GPU1\tNV18\t X \tSYS\tPXB\t64-127\t1\t\t18
NIC0\tPIX\tSYS\t X \tSYS\t\t\t\t
NIC1\tSYS\tPXB\tSYS\t X \t\t\t\t

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NV#  = Connection traversing a bonded set of # NVLinks

NIC Legend:

  NIC0: mlx5_0
  NIC1: ity     GPU NUMA ID
";

    fn matrix(text: &str) -> Matrix {
        match parse(text) {
            Ok(Topology::Nvidia(matrix)) => matrix,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn cells_affinity_and_legend_are_read() {
        let matrix = matrix(PLAIN);
        assert_eq!(
            matrix.nvlink(),
            NvlinkReach::EveryPair {
                least: 18,
                most: 18
            }
        );
        assert_eq!(matrix.nearest_nics(0), Some((Path::Pix, vec![0])));
        assert_eq!(matrix.nearest_nics(1), Some((Path::Pxb, vec![1])));
        let gpu = &matrix.gpus[1];
        assert_eq!(gpu.cpu_affinity.as_deref(), Some("64-127"));
        assert_eq!(gpu.numa_affinity.as_deref(), Some("1"));
        assert_eq!(
            (gpu.numa_id, matrix.gpus[0].numa_id),
            (Some(18), None),
            "N/A is no node"
        );
        assert_eq!(matrix.nics[0].label(), "mlx5_0");
        assert_eq!(matrix.nics[1].device, None, "a garbled legend names nobody");
        assert_eq!(
            (matrix.damaged_rows.len(), matrix.unread_lines),
            (0, 0),
            "{matrix:?}"
        );
    }

    #[test]
    fn copies_that_mangle_the_layout_read_the_same() {
        let expected = matrix(PLAIN);
        let blanks = PLAIN.replace('\t', "    ");
        let crlf = PLAIN.replace('\n', "\r\n");
        let prefixed: String = PLAIN
            .lines()
            .map(|line| {
                let line = line.replace('\t', " ").replace("  ", " ");
                format!("INFO 2025-04-06T03:02:45.843Z {}\n", line.trim())
            })
            .collect();
        let glued = PLAIN
            .replace("NIC1\tCPU Affinity", "NIC1CPU Affinity")
            .replace("NIC0\tNIC1", "NIC0NIC1")
            .replace("SYS\t0-63", "SYS0-63")
            .replace("NV18\tPIX", "NV18PIX");
        let quoted: String = PLAIN.lines().map(|line| format!("> {line}\n")).collect();
        for (name, text) in [
            ("blanks", blanks),
            ("crlf", crlf),
            ("prefixed", prefixed),
            ("glued", glued),
            ("quoted", quoted),
        ] {
            let read = matrix(&text);
            assert_eq!(read.gpus.len(), 2, "{name}");
            for (gpu, expected) in read.gpus.iter().zip(&expected.gpus) {
                assert_eq!(gpu.to_gpus, expected.to_gpus, "{name}");
                assert_eq!(gpu.to_nics, expected.to_nics, "{name}");
                assert_eq!(gpu.cpu_affinity, expected.cpu_affinity, "{name}");
            }
            assert_eq!(read.nics, expected.nics, "{name}");
        }
    }

    #[test]
    fn a_terminal_that_wraps_at_any_column_changes_no_cell() {
        let expected = matrix(PLAIN);
        let table: Vec<String> = PLAIN
            .lines()
            .take(5)
            .map(|line| line.replace('\t', "  "))
            .collect();
        for width in 12..60 {
            let mut text = String::new();
            for line in &table {
                for part in line.as_bytes().chunks(width) {
                    text.push_str(std::str::from_utf8(part).unwrap());
                    text.push('\n');
                }
            }
            let read = matrix(&text);
            let paths: Vec<_> = read.gpus.iter().map(|g| &g.to_gpus).collect();
            let wanted: Vec<_> = expected.gpus.iter().map(|g| &g.to_gpus).collect();
            assert_eq!(paths, wanted, "width {width}\n{text}");
        }
    }

    #[test]
    fn a_cut_copy_leaves_cells_open() {
        // The second GPU row and all adapter rows are missing.
        let head: String = PLAIN
            .lines()
            .take(2)
            .map(|line| format!("{line}\n"))
            .collect();
        let matrix = matrix(&head);
        assert_eq!(matrix.gpus.len(), 2);
        assert_eq!(matrix.gpu_path(0, 1), Some(Path::NvLink(18)));
        assert_eq!(matrix.gpu_path(1, 0), None);
        assert_eq!(matrix.nvlink(), NvlinkReach::Unknown);
        assert_eq!(matrix.nearest_nics(1), None);
    }

    #[test]
    fn a_row_whose_own_cell_moved_is_dropped() {
        let matrix = matrix(&PLAIN.replace("GPU1\tNV18\t X ", "GPU1\t X \tNV18"));
        assert_eq!(matrix.damaged_rows, ["GPU1"]);
        assert_eq!(matrix.nvlink(), NvlinkReach::Unknown);
    }

    #[test]
    fn a_second_host_in_the_text_is_refused() {
        let twice = matrix(&format!("{PLAIN}{PLAIN}"));
        assert_eq!(twice.gpus[0].to_gpus, [None, Some(Path::NvLink(18))]);
        assert_eq!(twice.unread_lines, 5);
        for other in [
            PLAIN.replace("NV18", "SYS"),
            "\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tNV18\t X \n".to_owned(),
        ] {
            let error = parse(&format!("{PLAIN}{other}")).unwrap_err();
            assert!(error.to_string().contains("two places"), "{error}");
        }
    }

    #[test]
    fn asymmetry_and_bridged_pairs_are_seen() {
        let matrix = matrix(
            "        GPU0    GPU1    GPU2
GPU0     X      NV4     SYS
GPU1    NV4      X      NV4
GPU2    SYS     SYS      X
",
        );
        assert_eq!(matrix.nvlink(), NvlinkReach::SomePairs);
        assert_eq!(matrix.asymmetric_pairs(), [(1, 2)]);
    }

    #[test]
    fn old_headers_name_the_device() {
        let matrix = matrix(
            "GPU0    mlx5_0  mlx5_1  CPU Affinity
GPU0     X      PIX     SOC     0-7
mlx5_0  PIX      X      SYS
mlx5_1  SOC     SYS      X
",
        );
        assert!(!matrix.has_legend);
        assert_eq!(matrix.nvlink(), NvlinkReach::OneGpu);
        assert_eq!(matrix.nics[1].label(), "mlx5_1");
        assert_eq!(
            matrix.gpus[0].to_nics,
            [Some(Path::Pix), Some(Path::Sys)],
            "SOC is the old word for SYS"
        );
    }

    #[test]
    fn amd_is_named_as_such() {
        let text = "==== ROCm System Management Interface ====
        GPU0   GPU1
GPU0    0      XGMI
GPU1    XGMI   0
";
        let Ok(Topology::Rocm(links)) = parse(text) else {
            panic!("{:?}", parse(text));
        };
        assert_eq!(links.gpus, 2);
        assert_eq!(links.pairs, BTreeMap::from([("XGMI".to_owned(), 1)]));
    }

    #[test]
    fn the_legend_alone_is_no_matrix() {
        let legend = &PLAIN[PLAIN.find("Legend").unwrap()..];
        for text in ["", "Could not collect", legend] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
