//! Outputs of nvidia-smi, and the AMD one that must not be taken for it.

use crate::{Expectation, corpus};
use dynamo_interconnect_check::facts::nvidia_smi_nvlink::{self, Verdict};
use dynamo_interconnect_check::facts::nvidia_smi_q::{self, FabricState};
use dynamo_interconnect_check::facts::nvidia_smi_topo::{
    self, Matrix, NvlinkReach, Path, Topology,
};
use std::collections::BTreeMap;

pub const EXPECTATIONS: &[Expectation] = &[
    ("topo/51-rocm-showtopo-linktype-quoted.txt", |text| {
        let Ok(Topology::Rocm(links)) = nvidia_smi_topo::parse(text) else {
            panic!("AMD must be named as such");
        };
        assert_eq!(links.gpus, 8);
        assert_eq!(links.pairs, BTreeMap::from([("XGMI".to_owned(), 28)]));
    }),
    ("topo/53-could-not-collect.txt", |text| {
        let refused = nvidia_smi_topo::parse(text).unwrap_err();
        assert!(refused.to_string().contains("Could not collect"));
    }),
    ("nvlink/01-a100-8gpu-12links.txt", |text| {
        let nvlinks = nvidia_smi_nvlink::parse(text).unwrap();
        assert_eq!((nvlinks.gpus.len(), nvlinks.unread_lines), (8, 0));
        for gpu in &nvlinks.gpus {
            assert_eq!((gpu.links.len(), gpu.active()), (12, 12));
            assert_eq!(gpu.links[0].rate_gbytes_per_s, Some(25.0));
        }
    }),
    ("nvlink/03-h100-1gpu-18links.txt", |text| {
        let nvlinks = nvidia_smi_nvlink::parse(text).unwrap();
        let [gpu] = &nvlinks.gpus[..] else {
            panic!("one GPU, and nothing said of others");
        };
        assert_eq!((gpu.index, gpu.links.len(), gpu.active()), (0, 18, 18));
        assert_eq!(gpu.links[17].rate_gbytes_per_s, Some(26.562));
    }),
    ("nvlink/05-unsupported-and-inactive-same-line.txt", |text| {
        let nvlinks = nvidia_smi_nvlink::parse(text).unwrap();
        let verdicts: Vec<_> = nvlinks
            .gpus
            .iter()
            .map(|gpu| (gpu.links.len(), gpu.verdict))
            .collect();
        assert_eq!(
            verdicts,
            [
                (0, Some(Verdict::Unsupported)),
                (0, Some(Verdict::AllInactive))
            ]
        );
    }),
    ("smi-q/01-h100-fabric-completed.txt", |text| {
        let query = nvidia_smi_q::parse(text).unwrap();
        assert_eq!(query.driver_version.as_deref(), Some("535.161.08"));
        assert_eq!(query.cuda_version.as_deref(), Some("12.2"));
        assert_eq!(query.attached_gpus, Some(8));
        assert!(query.is_cut(), "one of eight GPUs is shown");
        let fabric = query.gpus[0].fabric.as_ref().unwrap();
        assert_eq!(fabric.state, Some(FabricState::Completed));
        assert_eq!(fabric.status.as_deref(), Some("Success"));
        assert_eq!(
            (fabric.clique_id, fabric.cluster_uuid.clone()),
            (None, None)
        );
        assert!(fabric.health.is_empty());
    }),
    ("smi-q/03-titanv-fabric-na-560-layout.txt", |text| {
        let query = nvidia_smi_q::parse(text).unwrap();
        assert!(!query.is_cut());
        let gpu = &query.gpus[0];
        assert_eq!(gpu.product.as_deref(), Some("NVIDIA TITAN V"));
        let fabric = gpu.fabric.as_ref().unwrap();
        assert_eq!(fabric.state, Some(FabricState::NotSupported));
        assert_eq!(
            (&fabric.status, fabric.clique_id, &fabric.cluster_uuid),
            (&None, None, &None)
        );
        assert_eq!(fabric.health, [("Bandwidth".into(), "N/A".into())]);
        assert!(!fabric.is_multi_node());
    }),
    ("smi-q/05-rtx4090-addressing-unknown-error.txt", |text| {
        let query = nvidia_smi_q::parse(text).unwrap();
        let gpu = &query.gpus[0];
        assert_eq!(gpu.sick_fields, ["Addressing Mode"]);
        let fabric = gpu.fabric.as_ref().unwrap();
        assert_eq!(fabric.state, Some(FabricState::NotSupported));
    }),
];

/// What a person reads in a matrix.
struct Reading {
    gpus: usize,
    nics: usize,
    /// Pairs by their path, the earlier GPU's row: listed for NVLink that not all pairs have, counted otherwise.
    pairs: &'static str,
    /// The nearest adapters of each GPU. Empty without adapters.
    nearest: &'static str,
    /// Adapters whose device is known, from the legend or from an old header.
    named: usize,
    /// Pairs that differ by direction.
    asymmetric: &'static [(usize, usize)],
}

macro_rules! topologies {
    ($($file:literal: $gpus:literal gpus, $nics:literal nics, $named:literal named, $pairs:literal, $nearest:literal
        $(, asymmetric [$($pair:expr),*])?;)+) => {
        /// One expectation for each matrix.
        pub fn topologies() -> Vec<Expectation> {
            vec![$(($file, |text| {
                read_as(text, &Reading {
                    gpus: $gpus,
                    nics: $nics,
                    pairs: $pairs,
                    nearest: $nearest,
                    named: $named,
                    asymmetric: &[$($($pair),*)?],
                });
            })),+]
        }
    };
}

topologies! {
    "topo/01-gb200-4gpu-nv18.txt": 4 gpus, 4 nics, 4 named, "NV18 x6",
        "GPU0:NODE mlx5_0/mlx5_1, GPU1:NODE mlx5_0/mlx5_1, GPU2:NODE mlx5_4/mlx5_5, GPU3:NODE mlx5_4/mlx5_5";
    "topo/03-v100-18nic-oldheader.txt": 8 gpus, 18 nics, 18 named,
        "NV1: 0-1 0-3 1-2 2-5 3-4 4-7 5-6 6-7; NV2: 0-2 0-7 1-3 1-6 2-3 4-5 4-6 5-7; SYS x12",
        "GPU0:NODE mlx5_0..mlx5_17 (18), GPU1:NODE mlx5_0..mlx5_17 (18), GPU2:PIX mlx5_0..mlx5_17 (18), GPU3:PIX mlx5_0..mlx5_17 (18), GPU4:SYS mlx5_0..mlx5_17 (18), GPU5:SYS mlx5_0..mlx5_17 (18), GPU6:SYS mlx5_0..mlx5_17 (18), GPU7:SYS mlx5_0..mlx5_17 (18)";
    "topo/05-h20-42nic-legend-garbage.txt": 8 gpus, 42 nics, 40 named, "NV18 x28",
        "GPU0:PIX mlx5_bond_1, GPU1:PIX mlx5_bond_4, GPU2:PIX mlx5_bond_3, GPU3:PIX mlx5_bond_2, GPU4:PIX mlx5_bond_7, GPU5:PIX mlx5_bond_6, GPU6:PIX mlx5_bond_8, GPU7:PIX mlx5_bond_5";
    "topo/06-l20-62nic-legend-garbage.txt": 2 gpus, 62 nics, 58 named, "SYS x1",
        "GPU0:NODE NIC0..mlx5_bond_0 (62), GPU1:SYS NIC0..mlx5_bond_0 (62)";
    "topo/08-h100-17nic-mixed-names.txt": 4 gpus, 17 nics, 17 named, "NV18 x6",
        "GPU0:PIX ibp2, GPU1:PIX ibp5, GPU2:PIX ibp6, GPU3:PIX ibp7";
    "topo/10-h100-17nic-pix.txt": 8 gpus, 17 nics, 17 named, "NV18 x28",
        "GPU0:PIX mlx5_0/mlx5_1, GPU1:PIX mlx5_2/mlx5_3, GPU2:PIX mlx5_4/mlx5_5, GPU3:PIX mlx5_7/mlx5_8, GPU4:PIX mlx5_9/mlx5_10, GPU5:PIX mlx5_11/mlx5_12, GPU6:PIX mlx5_13/mlx5_14, GPU7:PIX mlx5_15/mlx5_16";
    "topo/11-h20-26nic-ansi-tabs.txt": 8 gpus, 26 nics, 26 named, "NV18 x28",
        "GPU0:PIX mlx5_bond_1, GPU1:PIX mlx5_bond_4, GPU2:PIX mlx5_bond_3, GPU3:PIX mlx5_bond_2, GPU4:PIX mlx5_bond_7, GPU5:PIX mlx5_bond_6, GPU6:PIX mlx5_bond_8, GPU7:PIX mlx5_bond_5";
    "topo/13-l20z-nv18-phb-ansi.txt": 8 gpus, 8 nics, 8 named, "NV18 x28",
        "GPU0:PHB mlx5_0..mlx5_7 (8), GPU1:PHB mlx5_0..mlx5_7 (8), GPU2:PHB mlx5_0..mlx5_7 (8), GPU3:PHB mlx5_0..mlx5_7 (8), GPU4:PHB mlx5_0..mlx5_7 (8), GPU5:PHB mlx5_0..mlx5_7 (8), GPU6:PHB mlx5_0..mlx5_7 (8), GPU7:PHB mlx5_0..mlx5_7 (8)";
    "topo/15-rtx4090-ansi-replacement-char.txt": 8 gpus, 2 nics, 2 named, "PIX x2; PXB x10; SYS x16",
        "GPU0:PXB mlx5_0/mlx5_1, GPU1:PIX mlx5_0/mlx5_1, GPU2:PXB mlx5_0/mlx5_1, GPU3:PXB mlx5_0/mlx5_1, GPU4:SYS mlx5_0/mlx5_1, GPU5:SYS mlx5_0/mlx5_1, GPU6:SYS mlx5_0/mlx5_1, GPU7:SYS mlx5_0/mlx5_1";
    "topo/16-a40-nv4-pairs-ansi.txt": 4 gpus, 0 nics, 0 named, "NV4: 0-1 2-3; SYS x4", "";
    "topo/18-a100pcie-nv12-bridge-ansi.txt": 2 gpus, 1 nics, 1 named, "NV12 x1",
        "GPU0:NODE mlx5_an0, GPU1:SYS mlx5_an0";
    "topo/20-h100-4gpu-nv6.txt": 4 gpus, 2 nics, 2 named, "NV6 x6",
        "GPU0:SYS mlx5_0/mlx5_1, GPU1:PIX mlx5_0, GPU2:PIX mlx5_1, GPU3:SYS mlx5_0/mlx5_1";
    "topo/21-h100-asymmetric-matrix.txt": 4 gpus, 2 nics, 2 named, "NV6: 0-1 0-2 0-3 1-2; SYS x2",
        "GPU0:SYS mlx5_0/mlx5_1, GPU1:PIX mlx5_0, GPU2:SYS mlx5_0/mlx5_1, GPU3:PIX mlx5_1",
        asymmetric [(0, 2), (1, 2), (2, 3)];
    "topo/23-a30-nv4-pairs.txt": 8 gpus, 0 nics, 0 named, "NV4: 0-3 1-2 4-5 6-7; PIX x2; NODE x6; SYS x16", "";
    "topo/25-a100-3gpu-nv12.txt": 3 gpus, 1 nics, 1 named, "NV12 x3",
        "GPU0:NODE mlx5_0, GPU1:PXB mlx5_0, GPU2:SYS mlx5_0";
    "topo/26-rtx4080-10gpu.txt": 10 gpus, 0 nics, 0 named, "PIX x8; NODE x12; SYS x25", "";
    "topo/28-a800-nv8-all-phb.txt": 8 gpus, 4 nics, 4 named, "NV8 x28",
        "GPU0:PHB mlx5_0/mlx5_1/mlx5_2/mlx5_3, GPU1:PHB mlx5_0/mlx5_1/mlx5_2/mlx5_3, GPU2:PHB mlx5_0/mlx5_1/mlx5_2/mlx5_3, GPU3:PHB mlx5_0/mlx5_1/mlx5_2/mlx5_3, GPU4:PHB mlx5_0/mlx5_1/mlx5_2/mlx5_3, GPU5:PHB mlx5_0/mlx5_1/mlx5_2/mlx5_3, GPU6:PHB mlx5_0/mlx5_1/mlx5_2/mlx5_3, GPU7:PHB mlx5_0/mlx5_1/mlx5_2/mlx5_3";
    "topo/30-a100-40g-10nic-pxb.txt": 8 gpus, 10 nics, 10 named, "NV12 x28",
        "GPU0:PXB mlx5_0/mlx5_1, GPU1:PXB mlx5_0/mlx5_1, GPU2:PXB mlx5_2/mlx5_3, GPU3:PXB mlx5_2/mlx5_3, GPU4:PXB mlx5_4/mlx5_5, GPU5:PXB mlx5_4/mlx5_5, GPU6:PXB mlx5_6/mlx5_7, GPU7:PXB mlx5_6/mlx5_7";
    "topo/31-h200-10nic.txt": 8 gpus, 10 nics, 10 named, "NV18 x28",
        "GPU0:PIX mlx5_0, GPU1:PIX mlx5_1, GPU2:PIX mlx5_2, GPU3:PIX mlx5_3, GPU4:PIX mlx5_4/mlx5_5/mlx5_6, GPU5:PIX mlx5_7, GPU6:PIX mlx5_8, GPU7:PIX mlx5_9";
    "topo/33-h20-bond-4nic.txt": 8 gpus, 4 nics, 4 named, "NV18 x28",
        "GPU0:NODE mlx5_bond_0/mlx5_bond_1, GPU1:PIX mlx5_bond_0, GPU2:NODE mlx5_bond_0/mlx5_bond_1, GPU3:PIX mlx5_bond_1, GPU4:PIX mlx5_bond_2, GPU5:NODE mlx5_bond_2/mlx5_bond_3, GPU6:PIX mlx5_bond_3, GPU7:NODE mlx5_bond_2/mlx5_bond_3";
    "topo/35-b200-12nic-glued-header.txt": 8 gpus, 12 nics, 12 named, "NV18 x28",
        "GPU0:PIX mlx5_4, GPU1:PIX mlx5_7, GPU2:PIX mlx5_8, GPU3:PIX mlx5_9, GPU4:PIX mlx5_10, GPU5:PIX mlx5_13, GPU6:PIX mlx5_14, GPU7:PIX mlx5_15";
    "topo/36-h100pcie-1gpu-phb.txt": 1 gpus, 1 nics, 1 named, "", "GPU0:PHB mlx5_0";
    "topo/38-pcie-pxb-glued-affinity.txt": 8 gpus, 9 nics, 9 named, "PXB x4; NODE x8; SYS x16",
        "GPU0:PXB mlx5_0/mlx5_1, GPU1:PXB mlx5_0/mlx5_1, GPU2:PXB mlx5_2/mlx5_3, GPU3:PXB mlx5_2/mlx5_3, GPU4:PXB mlx5_4/mlx5_5, GPU5:PXB mlx5_4/mlx5_5, GPU6:PXB mlx5_6/mlx5_7, GPU7:PXB mlx5_6/mlx5_7";
    "topo/40-h100-glued-cells-partial.txt": 8 gpus, 8 nics, 8 named, "NV18 x28",
        "GPU0:PIX mlx5_4, GPU1:PIX mlx5_1, GPU2:PIX mlx5_0, GPU3:PIX mlx5_3, GPU4:PIX mlx5_6, GPU5:PIX mlx5_7, GPU6:PIX mlx5_5, GPU7:PIX mlx5_2";
    "topo/41-h-nic10nic11-glued-header.txt": 8 gpus, 12 nics, 12 named, "NV18 x28",
        "GPU0:PIX mlx5_0/mlx5_1/mlx5_2, GPU1:PIX mlx5_3, GPU2:PIX mlx5_4, GPU3:PIX mlx5_5, GPU4:PIX mlx5_6/mlx5_7/mlx5_8, GPU5:PIX mlx5_9, GPU6:PIX mlx5_10, GPU7:PIX mlx5_11";
    "topo/43-h100-log-prefix-singlespace.txt": 8 gpus, 0 nics, 0 named, "NV18 x28", "";
    "topo/45-h100nvl-2gpu-1nic.txt": 2 gpus, 1 nics, 1 named, "NV12 x1", "GPU0:NODE mlx5_0, GPU1:SYS mlx5_0";
    "topo/46-a10g-8x-phb-aws.txt": 8 gpus, 0 nics, 0 named, "PHB x28", "";
    "topo/48-v100-nv1nv2-1nic-tabs.txt": 8 gpus, 1 nics, 1 named,
        "NV1: 0-3 0-4 1-2 1-3 2-6 4-7 5-6 5-7; NV2: 0-1 0-2 1-5 2-3 3-7 4-5 4-6 6-7; SYS x12",
        "GPU0:SYS mlx5_0, GPU1:SYS mlx5_0, GPU2:SYS mlx5_0, GPU3:SYS mlx5_0, GPU4:SYS mlx5_0, GPU5:SYS mlx5_0, GPU6:SYS mlx5_0, GPU7:SYS mlx5_0";
    "topo/50-raw-tabs-escbytes-10nic.txt": 8 gpus, 10 nics, 10 named, "NV18 x28",
        "GPU0:PIX mlx5_3, GPU1:PIX mlx5_5, GPU2:PIX mlx5_4, GPU3:PIX mlx5_0/mlx5_1/mlx5_2, GPU4:PIX mlx5_7, GPU5:PIX mlx5_9, GPU6:PIX mlx5_8, GPU7:PIX mlx5_6";
}

fn read_as(text: &str, reading: &Reading) {
    let matrix = match nvidia_smi_topo::parse(text) {
        Ok(Topology::Nvidia(matrix)) => matrix,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        (matrix.gpus.len(), matrix.nics.len()),
        (reading.gpus, reading.nics)
    );
    assert_eq!(pairs(&matrix), reading.pairs);
    assert_eq!(nearest(&matrix), reading.nearest);
    let named = matrix
        .nics
        .iter()
        .filter(|nic| nic.device.is_some())
        .count();
    assert_eq!(named, reading.named);
    assert_eq!(matrix.asymmetric_pairs(), reading.asymmetric);
    assert_eq!(matrix.damaged_rows, Vec::<String>::new());
    assert_eq!(matrix.unread_lines, 0);
    let reach = matrix.nvlink();
    let as_expected = match reading.pairs {
        "" => reach == NvlinkReach::OneGpu,
        all if all.starts_with("NV") && !all.contains(':') => {
            matches!(reach, NvlinkReach::EveryPair { least, most } if least == most)
        }
        some if some.contains("NV") => reach == NvlinkReach::SomePairs,
        _ => reach == NvlinkReach::NoPair,
    };
    assert!(as_expected, "{reach:?}");
}

/// The affinity of the first and the last GPU where a layout is hard: columns empty, glued, or filled on Grace.
#[test]
fn affinity_is_read_where_it_can_be() {
    let Some(corpus) = corpus::folder() else {
        return;
    };
    type Affinity = (Option<&'static str>, Option<&'static str>, Option<u32>);
    let expected: [(&str, Affinity, Affinity); 8] = [
        (
            "01-gb200-4gpu-nv18",
            (Some("0-71"), Some("0"), Some(2)),
            (Some("72-143"), Some("1"), Some(26)),
        ),
        (
            "03-v100-18nic-oldheader",
            (Some("0-23,48-71"), Some("0"), None),
            (Some("24-47,72-95"), Some("1"), None),
        ),
        (
            "06-l20-62nic-legend-garbage",
            (None, None, None),
            (Some("88-91,184-187"), Some("1"), None),
        ),
        (
            "16-a40-nv4-pairs-ansi",
            (Some("0-127"), None, None),
            (Some("0-127"), None, None),
        ),
        (
            "33-h20-bond-4nic",
            (None, None, None),
            (Some("48-95,144-191"), Some("1"), None),
        ),
        (
            "38-pcie-pxb-glued-affinity",
            (Some("0-35,72-107"), Some("0"), None),
            (Some("36-71,108-143"), Some("1"), None),
        ),
        (
            "43-h100-log-prefix-singlespace",
            (Some("0-51,104-155"), Some("0"), None),
            (Some("52-103,156-207"), Some("1"), None),
        ),
        (
            "46-a10g-8x-phb-aws",
            (Some("0-191"), Some("0-1"), None),
            (Some("0-191"), Some("0-1"), None),
        ),
    ];
    for (name, first, last) in expected {
        let text = corpus::read(&corpus.join(format!("outputs/topo/{name}.txt")));
        let Ok(Topology::Nvidia(matrix)) = nvidia_smi_topo::parse(&text) else {
            panic!("{name}");
        };
        for (gpu, expected) in [
            (&matrix.gpus[0], first),
            (&matrix.gpus[matrix.gpus.len() - 1], last),
        ] {
            let read = (
                gpu.cpu_affinity.as_deref(),
                gpu.numa_affinity.as_deref(),
                gpu.numa_id,
            );
            assert_eq!(read, expected, "{name} GPU{}", gpu.index);
        }
    }
}

fn word(path: Path) -> String {
    match path {
        Path::NvLink(links) => format!("NV{links}"),
        Path::Pix => "PIX".into(),
        Path::Pxb => "PXB".into(),
        Path::Phb => "PHB".into(),
        Path::Node => "NODE".into(),
        Path::Sys => "SYS".into(),
    }
}

fn pairs(matrix: &Matrix) -> String {
    let all = matrix.pairs().count();
    let mut by_path: BTreeMap<Path, Vec<String>> = BTreeMap::new();
    for (a, b) in matrix.pairs() {
        let path = matrix.gpu_path(a, b).unwrap();
        by_path.entry(path).or_default().push(format!("{a}-{b}"));
    }
    let parts: Vec<String> = by_path
        .into_iter()
        .map(|(path, pairs)| match path {
            Path::NvLink(_) if pairs.len() < all => format!("{}: {}", word(path), pairs.join(" ")),
            _ => format!("{} x{}", word(path), pairs.len()),
        })
        .collect();
    parts.join("; ")
}

fn nearest(matrix: &Matrix) -> String {
    let parts: Vec<String> = (0..matrix.gpus.len())
        .filter_map(|gpu| {
            let (path, nics) = matrix.nearest_nics(gpu)?;
            let names: Vec<&str> = nics.iter().map(|&nic| matrix.nics[nic].label()).collect();
            let names = if names.len() > 4 {
                format!("{}..{} ({})", names[0], names[names.len() - 1], names.len())
            } else {
                names.join("/")
            };
            Some(format!("GPU{gpu}:{} {names}", word(path)))
        })
        .collect();
    parts.join(", ")
}
