use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::facts::nvidia_smi_topo::NvlinkReach;
use crate::observed::Skip;
use crate::report::SkipReason;

check! {
    /// GPUs that should be joined by NVLink are not, or the matrix contradicts itself.
    ///
    /// ## Why it matters
    /// Tensor parallelism inside the worker and KV between workers of one node go over NVLink where there is one. Without it they
    /// cross PCIe, and `cuda_ipc` cannot read from a peer (vLLM's default), so KV on one node falls to the slow path.
    ///
    /// ## Fix
    /// On an NVSwitch board: fabric manager and driver of the same version, then a reset of the GPUs.
    ///
    /// ## False alarms
    /// PCIe cards have no NVLink, or bridges between pairs: both are noted and fine. One GPU has nobody to be joined with. The
    /// legend of the tool explains `NV#`; only cells between GPUs count.
    ///
    /// ## Sources
    /// `nvidia-smi topo -m`; vllm-project/vllm#52607; ai-dynamo/nixl#1097 (`UCX_CUDA_IPC_ENABLE_GET_ZCOPY`).
    "GPU003" "gpu-topology" on Container {
        subsystem: Gpu, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

fn run(container: &Container<'_>) -> Outcome {
    let gpu = &container.facts.gpu;
    container.require_gpu()?;
    let matrix = gpu.topology.get()?;
    let board = gpu
        .list
        .known()
        .and_then(|list| list.iter().find_map(|gpu| gpu.is_on_nvlink_board()));
    let rows: Vec<String> = matrix
        .gpus
        .iter()
        .map(|gpu| {
            let cells = gpu.to_gpus.iter();
            let cells: Vec<String> = cells
                .map(|path| path.map_or("X".to_owned(), |path| path.to_string()))
                .collect();
            format!("GPU{} {}", gpu.index, cells.join(" "))
        })
        .collect();
    let seen = [matrix.evidence(rows.iter().map(String::as_str))];
    let asymmetric = matrix.asymmetric_pairs();
    if let Some((a, b)) = asymmetric.first() {
        let name = |at: usize| matrix.gpus.get(at).map_or(at as u32, |gpu| gpu.index);
        let detail = format!(
            "the matrix contradicts itself: the path from GPU{} to GPU{} differs from the way back",
            name(*a),
            name(*b)
        );
        let fix = "look at NVLink of these GPUs (`nvidia-smi nvlink -s`, Xid 74 in the kernel's log) and reset them";
        let draft = Draft::warn(detail).headline(format!(
            "nvidia-smi topo gives two paths between GPU{} and GPU{}",
            name(*a),
            name(*b)
        ));
        return Ok(vec![draft.with(seen).fix(fix)]);
    }
    let count = matrix.gpus.len();
    let nameless = gpu
        .list
        .known()
        .is_some_and(|list| list.iter().all(|gpu| gpu.name.is_empty()));
    if nameless
        && matches!(
            matrix.nvlink(),
            NvlinkReach::NoPair | NvlinkReach::SomePairs
        )
    {
        let joined = match matrix.nvlink() {
            NvlinkReach::NoPair => "no pair",
            _ => "not every pair",
        };
        let detail = format!(
            "{joined} of {count} GPUs has NVLink, a fault on a board that joins all; the product was not seen"
        );
        return Err(container.not_shown(detail, "smi-q"));
    }
    let fix = "check fabric manager (same version as the driver), then reset the GPUs";
    Ok(vec![match matrix.nvlink() {
        NvlinkReach::OneGpu => Draft::ok("one GPU: there is no pair to be joined").with(seen),
        NvlinkReach::EveryPair { least, most } if least == most => {
            Draft::ok(format!("NV{most} between all pairs of {count} GPUs")).with(seen)
        }
        NvlinkReach::EveryPair { least, most } => {
            Draft::ok(format!("NVLink between all pairs of {count} GPUs, NV{least} to NV{most}")).with(seen)
        }
        NvlinkReach::SomePairs if board == Some(true) && !is_mesh(container) => {
            Draft::warn(format!("only some pairs of {count} GPUs have NVLink, on a board that joins all"))
                .headline_of_detail()
                .with(seen)
                .fix(fix)
        }
        NvlinkReach::SomePairs => {
            Draft::ok(format!("NVLink joins some pairs of {count} GPUs, the others use PCIe")).with(seen)
        }
        NvlinkReach::NoPair if board == Some(true) => {
            Draft::warn(format!("no pair of {count} GPUs has NVLink, on a board that joins all"))
                .headline_of_detail()
                .with(seen)
                .fix(fix)
        }
        NvlinkReach::NoPair => Draft::ok(format!(
            "{count} GPUs without NVLink; KV between workers of this node wants UCX_CUDA_IPC_ENABLE_GET_ZCOPY=y"
        ))
        .with(seen),
        NvlinkReach::Unknown => {
            let detail = "some cells between GPUs are missing from the matrix";
            return Err(Skip::new(SkipReason::Unparsable, detail));
        }
    }])
}

/// V100 boards join their GPUs by a mesh of one and two links.
fn is_mesh(container: &Container<'_>) -> bool {
    let list = container.facts.gpu.list.known();
    list.is_some_and(|list| list.iter().any(|gpu| gpu.is_of_a_mesh()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::{Answers, NOTHING, container, outcome, verdict};
    use crate::report::Status;

    fn answers(ab: &str, ba: &str, name: &str) -> Answers {
        let matrix = format!(
            "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t{ab}\t0-31\t0\nGPU1\t{ba}\t X \t0-31\t0\n\n\
             Legend:\n\n  NV#  = Connection traversing a bonded set of # NVLinks\n"
        );
        let query = format!("index, name\n0, {name}\n1, {name}\n");
        vec![
            (&ask::NVIDIA_SMI_TOPO, matrix),
            (&ask::NVIDIA_SMI_QUERY, query),
        ]
    }

    fn with(ab: &str, ba: &str, name: &str) -> Result<Status, Skip> {
        verdict(run, "decode", &answers(ab, ba, name))
    }

    #[test]
    fn the_verdict_says_which_it_is() {
        let said = |ab: &str, ba: &str| {
            let answers = answers(ab, ba, "NVIDIA H100 80GB HBM3");
            let drafts = outcome(run, &container("decode", &answers)).unwrap();
            drafts[0].headline.clone().unwrap()
        };
        assert_eq!(
            said("SYS", "SYS"),
            "no pair of 2 GPUs has NVLink, on a board that joins all"
        );
        assert_eq!(
            said("NV18", "SYS"),
            "nvidia-smi topo gives two paths between GPU0 and GPU1"
        );
    }

    #[test]
    fn a_board_has_nvlink_and_a_card_need_not() {
        let board = "NVIDIA H100 80GB HBM3";
        assert_eq!(with("NV18", "NV18", board), Ok(Status::Ok));
        assert_eq!(with("SYS", "SYS", board), Ok(Status::Warn));
        assert_eq!(with("NV18", "SYS", board), Ok(Status::Warn));
        assert_eq!(with("SYS", "SYS", "NVIDIA L20"), Ok(Status::Ok));
        assert_eq!(with("NV12", "NV12", "NVIDIA H100 NVL"), Ok(Status::Ok));
    }

    #[test]
    fn what_was_not_read_is_not_judged() {
        assert!(verdict(run, "decode", NOTHING).is_err());
        let answers = [(&ask::DEV_GPU, "/dev/nvidia0: char rw")];
        assert!(verdict(run, "decode", &answers).is_err());
        // A copy without one of the cells.
        assert!(with("NV18", "", "NVIDIA H100 80GB HBM3").is_err());
        let none = [(&ask::DEV_GPU, "")];
        assert_eq!(verdict(run, "decode", &none), Err(Skip::not_applicable()));
    }
}
