use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::words::listed;
use crate::facts::container::gpu::{DIRECT, Gpu, MOST_LINKS, disputed_links, is_cut};
use crate::facts::nvidia_smi_nvlink::{GpuLinks, Nvlinks, Verdict};
use crate::facts::nvidia_smi_topo::{Matrix, NvlinkReach, Path};
use crate::observed::Skip;
use crate::report::SkipReason;

check! {
    /// A GPU has fewer or slower NVLinks than its peers or its product, or inactive ones on a board that uses all.
    ///
    /// ## Why it matters
    /// One dead link of eighteen is no error anywhere: every collective and every KV copy of that GPU is slower, and the others
    /// wait for it. A loss that is the same on all GPUs shows only against what the product has.
    ///
    /// ## Fix
    /// Look for Xid 74 in the kernel's log, reset the GPU; if the link stays inactive the board is for repair.
    ///
    /// ## False alarms
    /// PCIe cards and bridges have inactive links by design (H100 PCIe: 12 of 18 active), and V100 boards are a mesh of one and
    /// two links. On boards of four GPUs without a switch a third of the links leads to each peer (`NV6`, `NV4`). A virtual
    /// machine with one GPU has no active link: that is not judged. Links are counted against the product only where its name
    /// says that it is on a board: V100 6, A100 12, A800 and H800 8, H100, H200, H20, B200, B300, GB200 and GB300 18.
    ///
    /// ## Sources
    /// NVIDIA Health Validation: 18 links of 26562 MB/s (H100) or 53125 MB/s (GB200, GB300), none inactive. Links by product:
    /// NVIDIA's white papers on Volta, Ampere, Hopper and Blackwell; sgl-project/sglang#5376 (H20), #6171 (A800). No links in
    /// a partition of one GPU: Fabric Manager user guide, shared NVSwitch and vGPU partitions.
    "GPU004" "nvlink-degraded" on Container {
        subsystem: Gpu, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

/// GB/s of one link in one direction, by a word of the product name.
/// <https://docs.nvidia.com/datacenter/dcgm/latest/user-guide/>; H100 from many captures.
const LINK_RATES: &[(&str, f64)] = &[
    ("V100", 25.781),
    ("H100", 26.562),
    ("H200", 26.562),
    ("H20", 26.562),
    ("GB200", 53.125),
    ("GB300", 53.125),
    ("B200", 53.125),
];

/// Rates differ by rounding of the tool.
const TOLERANCE: f64 = 0.02;

const FIX: &str = "look for Xid 74 in the kernel's log and reset the GPU";
const REPAIR: &str =
    "look for Xid 74 in the kernel's log and reset the GPU; if it stays, the board is for repair";

/// What one of the two outputs says.
enum Seen {
    /// Something is wrong, each as a sentence.
    Faults(Vec<String>),
    /// As many links as there should be, in words.
    Sound(String),
    /// It does not show enough.
    Unsure(Skip),
    /// There is no NVLink to look at.
    Nothing,
}

fn run(container: &Container<'_>) -> Outcome {
    let gpu = &container.facts.gpu;
    container.require_gpu()?;
    let list = gpu.list.get()?;
    let mut drafts = Vec::new();
    let mut oks = Vec::new();
    let mut words = Vec::new();
    let mut missing = None;
    let mut unsure = None;
    // Of all GPUs, and the product's full number of links: what a part of the other output would add is known.
    let mut is_whole = false;
    match gpu.topology.get() {
        Ok(matrix) => match pairs(matrix, list) {
            Seen::Faults(faults) => {
                let seen = matrix.evidence(faults.iter().map(String::as_str));
                drafts.extend(
                    faults
                        .into_iter()
                        .map(|fault| said(fault).with([seen.clone()]).fix(FIX)),
                );
            }
            Seen::Sound(line) => {
                is_whole = matrix.gpus.len() >= list.len();
                oks.push(matrix.evidence([line.as_str()]));
                words.push(line);
            }
            Seen::Unsure(skip) => unsure = Some(skip),
            Seen::Nothing => {}
        },
        Err(skip) => missing = Some(skip),
    }
    match gpu.nvlink.get() {
        Ok(links) => {
            let lines: Vec<String> = links.gpus.iter().map(line).collect();
            let seen = links.evidence(lines.iter().map(String::as_str));
            match counted(links, list.len()) {
                Seen::Faults(faults) => {
                    if let Some(first) = faults.into_iter().next() {
                        drafts.push(said(first).with([seen]).fix(REPAIR));
                    }
                }
                Seen::Sound(line) => {
                    oks.push(seen);
                    words.push(line);
                }
                Seen::Unsure(skip) if !is_whole => unsure = unsure.or(Some(skip)),
                Seen::Unsure(_) | Seen::Nothing => {}
            }
        }
        Err(skip) => missing = missing.or(Some(skip)),
    }
    // Pasted outputs may be of two places, and `pasted-outputs-differ` names them.
    if let (Ok(matrix), Ok(links)) = (gpu.topology.get(), gpu.nvlink.get())
        && !container.is_pasted()
        && let Some((detail, row, count)) = contradiction(matrix, links)
    {
        let seen = [
            matrix.evidence([row.as_str()]),
            links.evidence([count.as_str()]),
        ];
        let fix = "read both again, on the same machine and one after the other; if they still differ, reset the GPUs";
        let headline = "nvidia-smi topo and nvidia-smi nvlink disagree on the number of NVLinks";
        let draft = Draft::warn(detail).headline(headline);
        drafts.push(draft.with(seen).fix(fix));
    }
    if !drafts.is_empty() {
        return Ok(drafts);
    }
    if let Some(skip) = unsure {
        return Err(skip);
    }
    // A person who pastes one of the outputs is answered from it.
    if let Some(skip) = missing
        && (oks.is_empty() || skip.reason != SkipReason::NotCollected)
    {
        return Err(skip);
    }
    if oks.is_empty() {
        return Err(Skip::not_applicable());
    }
    Ok(vec![Draft::ok(words.join("; ")).with(oks)])
}

/// A fault is a short sentence, and its own headline.
fn said(fault: String) -> Draft {
    let headline = crate::sanitise::line(&fault, 160);
    Draft::warn(fault).headline(headline)
}

/// What the matrix says of the links between GPUs.
fn pairs(matrix: &Matrix, list: &[Gpu]) -> Seen {
    let NvlinkReach::EveryPair { least, most } = matrix.nvlink() else {
        return Seen::Nothing;
    };
    if list.iter().any(Gpu::is_of_a_mesh) {
        let count = if least == most {
            format!("NV{most}")
        } else {
            format!("NV{least} to NV{most}")
        };
        return Seen::Sound(format!(
            "{count} between all pairs, on a board that is a mesh"
        ));
    }
    if least < most {
        return Seen::Faults(vec![weak(matrix, most)]);
    }
    let between = format!("NV{most} between all pairs");
    let most = usize::from(most);
    let full = list.first().and_then(Gpu::links);
    let full = full.filter(|full| list.iter().all(|gpu| gpu.links() == Some(*full)));
    match full {
        Some(full) if most >= full => Seen::Sound(between),
        Some(full) if matrix.gpus.len() <= DIRECT && most == full / (DIRECT - 1) => Seen::Sound(
            format!("{between}, as on a board of {DIRECT} GPUs that are joined directly"),
        ),
        Some(full) => Seen::Faults(vec![format!(
            "{between}, and this product ({}) has {full} NVLinks: the same number of links is dead on every GPU",
            list[0].name
        )]),
        None if list
            .iter()
            .all(|gpu| gpu.is_on_nvlink_board() == Some(false)) =>
        {
            Seen::Sound(format!("{between}, which are cards with bridges"))
        }
        None if most >= MOST_LINKS => Seen::Sound(between),
        None => Seen::Unsure(Skip::new(
            SkipReason::Unresolved,
            format!("{between}; how many NVLinks this product has is not known"),
        )),
    }
}

/// Which pairs have fewer links than `most`. Where these are all pairs of some GPUs, the fault is in them.
fn weak(matrix: &Matrix, most: u16) -> String {
    // The matrix need not be symmetric.
    let links = |(a, b): (usize, usize)| {
        let both = [matrix.gpu_path(a, b), matrix.gpu_path(b, a)];
        let links = both.into_iter().filter_map(|path| match path? {
            Path::NvLink(links) => Some(links),
            _ => None,
        });
        links.min().unwrap_or(most)
    };
    let weak: Vec<(usize, usize)> = matrix.pairs().filter(|pair| links(*pair) < most).collect();
    let counts = weak.iter().map(|pair| links(*pair));
    let seen = match (counts.clone().min(), counts.max()) {
        (Some(least), Some(other)) if least < other => format!("NV{least} to NV{other}"),
        (least, _) => format!("NV{}", least.unwrap_or(most)),
    };
    let others = matrix.gpus.len().saturating_sub(1);
    let of = |gpu: usize| weak.iter().filter(move |(a, b)| *a == gpu || *b == gpu);
    let all_weak = |gpu: &usize| others > 1 && of(*gpu).count() == others;
    let gpus: Vec<usize> = (0..matrix.gpus.len()).filter(all_weak).collect();
    let name = |at: usize| format!("GPU{}", matrix.gpus[at].index);
    if !gpus.is_empty()
        && weak
            .iter()
            .all(|(a, b)| gpus.contains(a) || gpus.contains(b))
    {
        let names: Vec<String> = gpus.into_iter().map(name).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        return format!(
            "{}: {seen} to all other GPUs, where other pairs have NV{most}: links are dead",
            listed(&names)
        );
    }
    let pair = |(a, b): &(usize, usize)| format!("{} {}", name(*a), name(*b));
    let names: Vec<String> = weak.iter().map(pair).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    format!(
        "{}: {seen} where other pairs have NV{most}: links are dead",
        listed(&names)
    )
}

fn line(gpu: &GpuLinks) -> String {
    let rate = gpu.links.iter().find_map(|link| link.rate_gbytes_per_s);
    let rate = rate.map_or(String::new(), |rate| format!(" of {rate} GB/s"));
    let (active, all) = (gpu.active(), gpu.links.len());
    match gpu.verdict {
        Some(Verdict::Unsupported) => format!("GPU {}: no NVLink", gpu.index),
        Some(Verdict::AllInactive) => format!("GPU {}: every NVLink is inactive", gpu.index),
        None => format!("GPU {}: {active} of {all} links active{rate}", gpu.index),
    }
}

/// What the list of links says; `gpus`: so many are there.
fn counted(links: &Nvlinks, gpus: usize) -> Seen {
    let all = &links.gpus;
    let (cut, whole): (Vec<&GpuLinks>, Vec<&GpuLinks>) =
        all.iter().partition(|gpu| is_cut(gpu, all));
    let faults = faults(&whole);
    if !faults.is_empty() {
        return Seen::Faults(faults);
    }
    let unsure = |reason, detail| Seen::Unsure(Skip::new(reason, detail));
    if let Some(gpu) = cut.first() {
        let detail = format!("the list of NVLinks breaks off at GPU {}", gpu.index);
        return unsure(SkipReason::Unparsable, detail);
    }
    if all.len() < gpus {
        let detail = format!("NVLinks of {} of {gpus} GPUs were read", all.len());
        return unsure(SkipReason::NotCollected, detail);
    }
    let have = |gpu: &&&GpuLinks| match gpu.verdict {
        Some(verdict) => verdict != Verdict::Unsupported,
        None => !gpu.links.is_empty(),
    };
    if !whole.iter().any(|gpu| have(&gpu)) {
        return Seen::Nothing;
    }
    // What is inactive although it is no fault, or not known to be one.
    let is_idle = |gpu: &&&GpuLinks| {
        let active = gpu.active();
        have(gpu)
            && (active == 0 || active < gpu.links.len() && Gpu::of_links(gpu).links().is_none())
    };
    let is_card = |gpu: &&&GpuLinks| Gpu::of_links(gpu).is_on_nvlink_board() == Some(false);
    let idle: Vec<&&GpuLinks> = whole.iter().filter(is_idle).collect();
    if let Some(gpu) = idle.iter().find(|gpu| !is_card(gpu)) {
        let why = if gpu.active() == 0 {
            "a virtual machine with one GPU has no active one by design, and elsewhere it is a fault"
        } else {
            "how many of them this product uses is not known"
        };
        let detail = format!("{} ({}): {why}", line(gpu), gpu.product);
        return unsure(SkipReason::Unresolved, detail);
    }
    if let Some(card) = idle.first() {
        return Seen::Sound(format!(
            "{} ({}): links of a card are active only where a bridge joins it to another",
            line(card),
            card.product
        ));
    }
    let shown: Vec<String> = whole
        .iter()
        .filter(have)
        .map(|gpu| gpu.index.to_string())
        .collect();
    Seen::Sound(format!(
        "every NVLink that is used is active on GPU {}",
        shown.join(", ")
    ))
}

/// What is wrong with the links, each as a sentence.
fn faults(gpus: &[&GpuLinks]) -> Vec<String> {
    let mut faults = Vec::new();
    let most = gpus
        .iter()
        .map(|gpu| gpu.active())
        .max()
        .unwrap_or_default();
    let uniform = gpus.iter().all(|gpu| gpu.active() == most);
    // A part of a mesh has links to GPUs that are not here, and a partition of one GPU has none.
    let is_part =
        |product: &Gpu| product.is_of_a_mesh() && gpus.len() < 8 || most == 0 && gpus.len() == 1;
    for gpu in gpus {
        let product = Gpu::of_links(gpu);
        let board = product.is_on_nvlink_board() == Some(true);
        let (active, inactive) = (gpu.active(), gpu.links.len() - gpu.active());
        let is_part = uniform && is_part(&product);
        let expected = product.links();
        if board && active == 0 && !is_part {
            faults.push(format!(
                "GPU {}: every NVLink is inactive on a board that uses them",
                gpu.index
            ));
        } else if let Some(expected) = expected.filter(|expected| active < *expected && !is_part) {
            faults.push(format!(
                "GPU {}: {active} of the {expected} NVLinks of this product ({}) are active",
                gpu.index, gpu.product
            ));
        } else if board && expected.is_none() && inactive > 0 && !is_part {
            faults.push(format!(
                "GPU {}: {inactive} of {} NVLinks are inactive on a board that uses all of them",
                gpu.index,
                gpu.links.len()
            ));
        } else if !uniform && product.is_on_nvlink_board() != Some(false) && active < most {
            faults.push(format!(
                "GPU {}: {active} of the {most} NVLinks that another GPU has are active",
                gpu.index
            ));
        }
        let words: Vec<&str> = gpu.product.split([' ', '-']).collect();
        let expected = LINK_RATES.iter().find(|(word, _)| words.contains(word));
        let slow = gpu.links.iter().find_map(|link| {
            let rate = link.rate_gbytes_per_s?;
            let (_, expected) = expected?;
            (rate < expected * (1.0 - TOLERANCE)).then_some((link.index, rate, *expected))
        });
        if let Some((index, rate, expected)) = slow
            && board
        {
            faults.push(format!(
                "GPU {} link {index}: {rate} GB/s, this product has {expected} (NVIDIA Health Validation)",
                gpu.index
            ));
        }
    }
    faults
}

/// A GPU of which the two outputs cannot both be true: the sentence, and the line of each.
fn contradiction(matrix: &Matrix, links: &Nvlinks) -> Option<(String, String, String)> {
    let dispute = disputed_links(matrix, links)?;
    let row = matrix.gpus.iter().find(|row| row.index == dispute.gpu)?;
    let gpu = links.gpus.iter().find(|gpu| gpu.index == dispute.gpu)?;
    let detail = format!(
        "GPU {}: the matrix (`topo -m`) shows {}, and `nvlink -s` {}: the two contradict each other",
        dispute.gpu,
        dispute.by_matrix(),
        dispute.by_list()
    );
    let row: Vec<String> = row
        .to_gpus
        .iter()
        .map(|path| path.map_or("X".to_owned(), |path| path.to_string()))
        .collect();
    Some((
        detail,
        format!("GPU{} {}", gpu.index, row.join(" ")),
        line(gpu),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::{NOTHING, changed, container, outcome, verdict};
    use crate::report::Status;

    fn links(product: &str, active: [usize; 2], of: usize) -> String {
        let mut text = String::new();
        for (index, active) in active.into_iter().enumerate() {
            text.push_str(&format!("GPU {index}: {product} (UUID: GPU-{index})\n"));
            for link in 0..of {
                let rate = if link < active {
                    "26.562 GB/s"
                } else {
                    "<inactive>"
                };
                text.push_str(&format!("\t Link {link}: {rate}\n"));
            }
        }
        text
    }

    fn matrix(cell: &str, third: &str) -> String {
        format!(
            "\tGPU0\tGPU1\tGPU2\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t{cell}\t{cell}\t0-31\t0\n\
             GPU1\t{cell}\t X \t{third}\t0-31\t0\nGPU2\t{cell}\t{third}\t X \t0-31\t0\n"
        )
    }

    #[test]
    fn a_dead_link_is_seen_by_either_tool() {
        let with = |topo: &str, links: &str| {
            let answers = [
                (&ask::NVIDIA_SMI_TOPO, topo),
                (&ask::NVIDIA_SMI_NVLINK, links),
            ];
            verdict(run, "decode", &answers)
        };
        let board = "NVIDIA H100 80GB HBM3";
        let dead = [(&ask::NVIDIA_SMI_NVLINK, links(board, [18, 17], 18))];
        let draft = outcome(run, &container("decode", &dead)).unwrap().remove(0);
        assert!(draft.headline.unwrap().starts_with("GPU 1: 17 of the "));
        let sound = links(board, [18, 18], 18);
        assert_eq!(with(&matrix("NV18", "NV18"), &sound), Ok(Status::Ok));
        assert_eq!(with(&matrix("NV18", "NV17"), &sound), Ok(Status::Warn));
        assert_eq!(
            with(&matrix("NV18", "NV18"), &links(board, [18, 17], 18)),
            Ok(Status::Warn)
        );
        assert_eq!(
            with(
                &matrix("NV12", "NV12"),
                &links("NVIDIA H100 PCIe", [12, 12], 18)
            ),
            Ok(Status::Ok)
        );
        assert_eq!(
            with(
                &matrix("NV8", "NV8"),
                &links("NVIDIA H800 SXM5", [8, 8], 18)
            ),
            Ok(Status::Ok)
        );
        let slow = sound.replace("26.562", "13.281");
        assert_eq!(with(&matrix("NV18", "NV18"), &slow), Ok(Status::Warn));
    }

    #[test]
    fn the_gpus_with_dead_links_are_named() {
        // Links from each GPU to each; `-` is itself.
        let said = |rows: &[&str]| {
            let names: Vec<String> = (0..rows.len()).map(|gpu| format!("GPU{gpu}")).collect();
            let mut text = format!("\t{}\n", names.join("\t"));
            for (name, row) in names.iter().zip(rows) {
                let cell = |word: &str| match word {
                    "-" => " X ".to_owned(),
                    links => format!("NV{links}"),
                };
                let cells: Vec<String> = row.split_whitespace().map(cell).collect();
                text.push_str(&format!("{name}\t{}\n", cells.join("\t")));
            }
            let place = container("decode", &[(&ask::NVIDIA_SMI_TOPO, text.as_str())]);
            outcome(run, &place).unwrap().remove(0).detail
        };
        for (rows, wanted) in [
            (
                &["- 18 17 18", "18 - 17 18", "17 17 - 17", "18 18 17 -"][..],
                "GPU2: NV17 to all other GPUs, where other pairs have NV18: links are dead",
            ),
            (
                &["- 18 17 16", "18 - 17 16", "17 17 - 16", "16 16 16 -"],
                "GPU2, GPU3: NV16 to NV17 to all other GPUs, where other pairs have NV18: links are dead",
            ),
            (
                &["- 17 18", "17 - 18", "18 18 -"],
                "GPU0 GPU1: NV17 where other pairs have NV18: links are dead",
            ),
            (
                &["- 18", "17 -"],
                "GPU0 GPU1: NV17 where other pairs have NV18: links are dead",
            ),
            (
                &["- 17 18 18", "17 - 18 18", "18 18 - 16", "18 18 16 -"],
                "GPU0 GPU1, GPU2 GPU3: NV16 to NV17 where other pairs have NV18: links are dead",
            ),
        ] {
            assert_eq!(said(rows), wanted);
        }
    }

    fn outcomes(topo: &str, links: &str, name: &str, gpus: usize) -> Outcome {
        let mut query = "index, name\n".to_owned();
        for index in 0..gpus {
            query.push_str(&format!("{index}, {name}\n"));
        }
        let given = [
            (&ask::NVIDIA_SMI_TOPO, topo),
            (&ask::NVIDIA_SMI_NVLINK, links),
            (&ask::NVIDIA_SMI_QUERY, query.as_str()),
        ];
        let given: Vec<_> = given
            .into_iter()
            .filter(|(_, text)| !text.is_empty())
            .collect();
        outcome(run, &container("decode", &given))
    }

    fn details(topo: &str, links: &str, name: &str, gpus: usize) -> Vec<String> {
        match outcomes(topo, links, name, gpus) {
            Ok(drafts) => drafts
                .iter()
                .map(|d| format!("{} {}", d.status, d.detail))
                .collect(),
            Err(skip) => vec![format!("{} {}", skip.reason.word(), skip.detail)],
        }
    }

    #[test]
    fn a_loss_that_is_the_same_everywhere_is_seen_against_the_product() {
        let pairs = |cell: &str, name: &str| details(&matrix(cell, cell), "", name, 3);
        for (cell, name, expected) in [
            ("NV18", "NVIDIA H100 80GB HBM3", "ok NV18 between all pairs"),
            (
                "NV10",
                "NVIDIA H100 80GB HBM3",
                "warn NV10 between all pairs, and this product (NVIDIA H100 80GB HBM3) has 18 NVLinks: the same number \
                 of links is dead on every GPU",
            ),
            (
                "NV6",
                "NVIDIA H100 80GB HBM3",
                "ok NV6 between all pairs, as on a board of 4 GPUs that are joined directly",
            ),
            (
                "NV5",
                "NVIDIA H100 80GB HBM3",
                "warn NV5 between all pairs, and this product (NVIDIA H100 80GB HBM3) has 18 NVLinks: the same number \
                 of links is dead on every GPU",
            ),
            ("NV12", "NVIDIA A100-SXM4-80GB", "ok NV12 between all pairs"),
            (
                "NV11",
                "NVIDIA A100-SXM4-80GB",
                "warn NV11 between all pairs, and this product (NVIDIA A100-SXM4-80GB) has 12 NVLinks: the same number \
                 of links is dead on every GPU",
            ),
            ("NV8", "NVIDIA A800-SXM4-80GB", "ok NV8 between all pairs"),
            (
                "NV12",
                "NVIDIA H100 NVL",
                "ok NV12 between all pairs, which are cards with bridges",
            ),
            (
                "NV12",
                "NVIDIA H100",
                "unresolved NV12 between all pairs; how many NVLinks this product has is not known",
            ),
            ("NV18", "NVIDIA L20Z", "ok NV18 between all pairs"),
            (
                "NV1",
                "Tesla V100-SXM2-32GB",
                "ok NV1 between all pairs, on a board that is a mesh",
            ),
        ] {
            assert_eq!(pairs(cell, name), [expected], "{cell} {name}");
        }
        let counted = |name: &str, active: [usize; 2], of: usize| {
            details("", &links(name, active, of), name, 2)
        };
        let board = "NVIDIA H100 80GB HBM3";
        assert_eq!(
            counted(board, [10, 10], 18),
            ["warn GPU 0: 10 of the 18 NVLinks of this product (NVIDIA H100 80GB HBM3) are active"]
        );
        assert_eq!(
            counted(board, [10, 10], 10),
            ["warn GPU 0: 10 of the 18 NVLinks of this product (NVIDIA H100 80GB HBM3) are active"]
        );
        assert_eq!(
            counted("NVIDIA A800-SXM4-80GB", [7, 7], 12),
            ["warn GPU 0: 7 of the 8 NVLinks of this product (NVIDIA A800-SXM4-80GB) are active"]
        );
        // Two of the eight GPUs of a mesh have links that lead to the others.
        let mesh = "Tesla V100-SXM2-32GB";
        let fine = ["ok every NVLink that is used is active on GPU 0, 1"];
        let v100 = links(mesh, [4, 4], 6).replace("26.562", "25.781");
        assert_eq!(details("", &v100, mesh, 2), fine);
        assert_eq!(
            counted("NVIDIA H100", [10, 10], 18),
            [
                "unresolved GPU 0: 10 of 18 links active of 26.562 GB/s (NVIDIA H100): how many of them this product uses is not known"
            ]
        );
    }

    #[test]
    fn links_that_are_all_inactive_are_never_passed_over() {
        let list = |name: &str, gpus: usize| {
            let gpu = |n| {
                format!(
                    "GPU {n}: {name} (UUID: GPU-{n}) NVML: Unable to retrieve Nvlink information as all links are inActive\n"
                )
            };
            (0..gpus).map(gpu).collect::<String>()
        };
        let seen = |name: &str, gpus: usize| details("", &list(name, gpus), name, gpus);
        assert_eq!(
            seen("Quadro RTX 5000", 1),
            [
                "ok GPU 0: every NVLink is inactive (Quadro RTX 5000): links of a card are active only where a bridge joins \
                 it to another"
            ]
        );
        assert_eq!(
            seen("NVIDIA H100 80GB HBM3", 2),
            ["warn GPU 0: every NVLink is inactive on a board that uses them"]
        );
        for (name, gpus) in [("NVIDIA H100 80GB HBM3", 1), ("NVIDIA GH200 480GB", 2)] {
            let said = seen(name, gpus);
            assert!(
                said[0].starts_with("unresolved GPU 0: every NVLink is inactive"),
                "{said:?}"
            );
        }
        // As good as inactive.
        let listed = links("NVIDIA B200", [0, 0], 18);
        assert_eq!(
            details("", &listed, "NVIDIA B200", 2),
            ["warn GPU 0: every NVLink is inactive on a board that uses them"]
        );
    }

    #[test]
    fn a_part_of_the_list_says_nothing_of_the_rest() {
        let board = "NVIDIA H100 80GB HBM3";
        let dead = [(&ask::NVIDIA_SMI_NVLINK, links(board, [18, 17], 18))];
        let draft = outcome(run, &container("decode", &dead)).unwrap().remove(0);
        assert!(draft.headline.unwrap().starts_with("GPU 1: 17 of the "));
        let sound = links(board, [18, 18], 18);
        assert_eq!(
            details("", &sound, board, 8),
            ["not-collected NVLinks of 2 of 8 GPUs were read"]
        );
        assert_eq!(
            details(&matrix("NV18", "NV18"), &sound, board, 3),
            ["ok NV18 between all pairs"]
        );
        let cut = sound.split_at(sound.rfind("\t Link 5").unwrap()).0;
        let broken = ["unparsable the list of NVLinks breaks off at GPU 1"];
        assert_eq!(details("", cut, board, 2), broken);
        let cut = sound.split_at(sound.find("\t Link 5").unwrap()).0;
        let broken = ["unparsable the list of NVLinks breaks off at GPU 0"];
        assert_eq!(details("", cut, board, 1), broken);
        // Cards without NVLink: the tool prints no line for them.
        let cards = "GPU 0: NVIDIA L40S (UUID: GPU-1)\nGPU 1: NVIDIA L40S (UUID: GPU-2)\n";
        let said = details("", cards, board, 2);
        assert!(!said.iter().any(|it| it.contains("breaks off")), "{said:?}");
        let cut = sound.split_at(sound.rfind("\t Link 0").unwrap()).0;
        let broken = ["unparsable the list of NVLinks breaks off at GPU 1"];
        assert_eq!(details("", cut, board, 2), broken);
    }

    #[test]
    fn two_outputs_that_contradict_each_other_are_named() {
        let board = "NVIDIA H100 80GB HBM3";
        let said = |cell: &str, active: usize, of: usize, name: &str| {
            let drafts = details(
                &matrix(cell, cell),
                &links(name, [active, active], of),
                name,
                2,
            );
            drafts.into_iter().find(|d| d.contains("contradict"))
        };
        let expected = "warn GPU 0: the matrix (`topo -m`) shows NV18, and `nvlink -s` 10 active links: the two contradict \
                        each other";
        assert_eq!(said("NV18", 10, 18, board).as_deref(), Some(expected));
        let expected = "warn GPU 0: the matrix (`topo -m`) shows no NVLink to another GPU, and `nvlink -s` 18 active links: \
                        the two contradict each other";
        assert_eq!(said("SYS", 18, 18, board).as_deref(), Some(expected));
        assert!(said("NV10", 18, 18, board).is_some());
        assert_eq!(said("NV18", 18, 18, board), None);
        // A third of the links to each of three peers.
        assert_eq!(said("NV6", 18, 18, board), None);
        // A bridge to a GPU that is not here.
        assert_eq!(said("SYS", 12, 18, "NVIDIA H100 PCIe"), None);
        assert!(said("NV12", 0, 18, "NVIDIA H100 PCIe").is_some());
        assert_eq!(said("NV1", 6, 6, "Tesla V100-SXM2-32GB"), None);
    }

    #[test]
    fn what_was_not_read_is_not_judged() {
        assert!(verdict(run, "decode", NOTHING).is_err());
        let sound = links("NVIDIA H100 80GB HBM3", [18, 18], 18);
        let topo = matrix("NV18", "NV18");
        assert_eq!(
            verdict(run, "decode", &[(&ask::NVIDIA_SMI_NVLINK, &sound)]),
            Ok(Status::Ok)
        );
        assert_eq!(
            verdict(run, "decode", &[(&ask::NVIDIA_SMI_TOPO, &topo)]),
            Ok(Status::Ok)
        );
        let hung = changed(&vec![(&ask::NVIDIA_SMI_NVLINK, sound)], &[]);
        let mut snapshot = container("decode", &hung);
        let missing = crate::snapshot::Answer::Missing {
            reason: SkipReason::Timeout,
            detail: String::new(),
        };
        let id = ask::NVIDIA_SMI_TOPO.id.to_owned();
        snapshot.answers.insert(id, missing);
        assert_eq!(
            outcome(run, &snapshot).unwrap_err().reason,
            SkipReason::Timeout
        );
        // Half of the evidence is enough for a fault.
        let dead = links("NVIDIA H100 80GB HBM3", [18, 17], 18);
        assert_eq!(
            verdict(run, "decode", &[(&ask::NVIDIA_SMI_NVLINK, &dead)]),
            Ok(Status::Warn)
        );
    }
}
