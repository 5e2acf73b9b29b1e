use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::facts::container::gpu::Gpu;
use crate::facts::nvidia_smi_nvlink::{GpuLinks, Verdict};
use crate::facts::nvidia_smi_topo::NvlinkReach;
use crate::observed::Skip;
use crate::report::SkipReason;

check! {
    /// A GPU has fewer or slower NVLinks than its peers, or inactive ones on a board that uses all.
    ///
    /// ## Why it matters
    /// One dead link of eighteen is no error anywhere: every collective and every KV copy of that GPU is slower, and the others
    /// wait for it.
    ///
    /// ## Fix
    /// Look for Xid 74 in the kernel's log, reset the GPU; if the link stays inactive the board is for repair.
    ///
    /// ## False alarms
    /// PCIe cards and bridges have inactive links by design (H100 PCIe: 12 of 18 active), and V100 boards are a mesh of one and
    /// two links. A800 and H800 have some links fused off, the same on all GPUs.
    ///
    /// ## Sources
    /// NVIDIA Health Validation: 18 links of 26562 MB/s (H100) or 53125 MB/s (GB200, GB300), none inactive.
    "GPU004" "nvlink-degraded" on Container {
        subsystem: Gpu, kv_path: Supporting, worst: Warn, causes: &[], since: "0.2.0",
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

fn run(container: &Container<'_>) -> Outcome {
    let gpu = &container.facts.gpu;
    container.require_gpu()?;
    let mut drafts = Vec::new();
    let mut oks = Vec::new();
    let mut missing = None;
    let is_mesh = |name: &str| name.contains("V100") || name.contains("P100");
    let list = gpu.list.get()?;
    let mesh = list.iter().any(|gpu| is_mesh(&gpu.name));
    match gpu.topology.get() {
        Ok(matrix) => match matrix.nvlink() {
            NvlinkReach::EveryPair { least, most } if least < most && !mesh => {
                let pair = matrix.pairs().find(|(a, b)| {
                    use crate::facts::nvidia_smi_topo::Path::NvLink;
                    matrix.gpu_path(*a, *b) == Some(NvLink(least))
                });
                let line = pair.map_or_else(String::new, |(a, b)| {
                    format!(
                        "GPU{} GPU{}: NV{least}",
                        matrix.gpus[a].index, matrix.gpus[b].index
                    )
                });
                let detail = format!("{line} where other pairs have NV{most}: links are dead");
                let seen = matrix.evidence([line.as_str()]);
                let fix = "look for Xid 74 in the kernel's log and reset the GPU";
                drafts.push(Draft::warn(detail).with([seen]).fix(fix));
            }
            NvlinkReach::EveryPair { most, .. } => {
                oks.push(matrix.evidence([format!("NV{most} between all pairs").as_str()]));
            }
            _ => {}
        },
        Err(skip) => missing = Some(skip),
    }
    match gpu.nvlink.get() {
        Ok(links) => {
            let faults = faults(&links.gpus);
            let lines: Vec<String> = links.gpus.iter().map(line).collect();
            if let Some(first) = faults.first() {
                let seen = links.evidence(lines.iter().map(String::as_str));
                let fix = "look for Xid 74 in the kernel's log and reset the GPU; if it stays, the board is for repair";
                drafts.push(Draft::warn(first.clone()).with([seen]).fix(fix));
            } else if links.gpus.iter().any(|gpu| gpu.active() > 0) {
                oks.push(links.evidence(lines.iter().map(String::as_str)));
            }
        }
        Err(skip) => missing = missing.or(Some(skip)),
    }
    if !drafts.is_empty() {
        return Ok(drafts);
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
    Ok(vec![
        Draft::ok("no NVLink that is shown is inactive or unlike the others").with(oks),
    ])
}

fn line(gpu: &GpuLinks) -> String {
    let rate = gpu.links.iter().find_map(|link| link.rate_gbytes_per_s);
    let rate = rate.map_or(String::new(), |rate| format!(" of {rate} GB/s"));
    format!(
        "GPU {}: {} of {} links active{rate}",
        gpu.index,
        gpu.active(),
        gpu.links.len()
    )
}

/// What is wrong with the links, each as a sentence.
fn faults(gpus: &[GpuLinks]) -> Vec<String> {
    let mut faults = Vec::new();
    let most = gpus.iter().map(GpuLinks::active).max().unwrap_or_default();
    let uniform = gpus.iter().all(|gpu| gpu.active() == most);
    for gpu in gpus {
        let product = Gpu {
            name: gpu.product.clone(),
            bus_id: None,
        };
        let board = product.is_on_nvlink_board() == Some(true);
        let fused = uniform && gpu.product.contains("800") && gpus.len() > 1;
        let inactive = gpu.links.len() - gpu.active();
        if board && gpu.verdict == Some(Verdict::AllInactive) {
            faults.push(format!(
                "GPU {}: every NVLink is inactive on a board that uses them",
                gpu.index
            ));
        } else if board && inactive > 0 && !fused {
            faults.push(format!(
                "GPU {}: {inactive} of {} NVLinks are inactive on a board that uses all of them",
                gpu.index,
                gpu.links.len()
            ));
        } else if !uniform && product.is_on_nvlink_board() != Some(false) && gpu.active() < most {
            faults.push(format!(
                "GPU {}: {} NVLinks are active where another GPU has {most}",
                gpu.index,
                gpu.active()
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
