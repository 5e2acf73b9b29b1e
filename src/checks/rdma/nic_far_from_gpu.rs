use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::words::counted;
use crate::facts::nvidia_smi_topo::Path;
use crate::judge::selection::Selection;
use crate::observed::Skip;
use crate::report::{Evidence, SkipReason};
use std::collections::BTreeSet;

check! {
    /// A GPU reaches every usable adapter only across the CPU sockets.
    ///
    /// ## Why it matters
    /// `SYS` means that GPUDirect crosses the link between the sockets. UCX assumes 220 MB/s for that and may prefer emulation by
    /// the CPU; NCCL turns GPUDirect off beyond PXB by default.
    ///
    /// ## Fix
    /// Select or request the adapters next to the GPUs (PIX or PXB in `nvidia-smi topo -m`). Where there is none:
    /// `UCX_DISTANCE_BW=auto,sys:16500MBs`.
    ///
    /// ## False alarms
    /// On Grace the path goes over C2C and `SYS` or `NODE` is fine; under a hypervisor the topology is a made-up one. Neither
    /// is judged.
    ///
    /// ## Sources
    /// UCX v1.20.0 `ucs/sys/topo/base/topo.c`; NVIDIA/nccl#489; ai-dynamo/dynamo#10852; deepseek-v4 recipe (0.76 GB/s with
    /// four ranks on one adapter).
    "RDMA012" "nic-far-from-gpu" on Container {
        subsystem: Rdma, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

fn run(container: &Container<'_>) -> Outcome {
    let facts = &container.facts;
    container.require_gpu()?;
    let virtual_machine = facts.host.cpu.known().and_then(|cpu| cpu.hypervisor) == Some(true);
    if facts.is_grace() == Some(true) || virtual_machine {
        return Err(Skip::not_applicable());
    }
    let ports = facts.rdma.usable_ports()?;
    if ports.is_empty() {
        return Err(Skip::not_applicable());
    }
    let value = facts.process.value("UCX_NET_DEVICES")?;
    let selection = Selection::ucx(value, &container.context);
    let chosen: BTreeSet<&str> = ports
        .iter()
        .filter(|(device, port)| {
            selection
                .as_ref()
                .is_none_or(|s| s.selects(&device.hca.name, port.number))
        })
        .map(|(device, _)| device.hca.name.as_str())
        .collect();
    if chosen.is_empty() {
        return Err(Skip::not_applicable());
    }
    let (far, seen) = match by_matrix(container, &chosen) {
        Ok(found) => found,
        Err(skip) => by_numa(container, &chosen).map_err(|_| skip)?,
    };
    let names = chosen.iter().copied().collect::<Vec<_>>().join(", ");
    if far.is_empty() {
        let detail = format!("every GPU has a usable adapter on its own side ({names})");
        return Ok(vec![Draft::ok(detail).with([seen])]);
    }
    let detail = format!(
        "{} {} the usable adapters ({names}) only across the sockets: {}",
        counted(far.len(), "GPU"),
        if far.len() == 1 { "reaches" } else { "reach" },
        far.join(", ")
    );
    let fix = if selection.is_some() {
        "select the adapters next to these GPUs in UCX_NET_DEVICES, or remove it"
    } else {
        "request adapters next to the GPUs; where there are none, set UCX_DISTANCE_BW=auto,sys:16500MBs"
    };
    let draft = Draft::warn(detail).with([seen]).fix(fix);
    Ok(vec![match selection {
        // Where the list is at fault for the same reason, this goes away with it.
        Some(_) => draft.follows("env:UCX_NET_DEVICES"),
        None => draft,
    }])
}

type Far = (Vec<String>, Evidence);

/// By the matrix of nvidia-smi.
fn by_matrix(container: &Container<'_>, chosen: &BTreeSet<&str>) -> Result<Far, Skip> {
    let matrix = container.facts.gpu.topology.get()?;
    let columns: Vec<usize> = (0..matrix.nics.len())
        .filter(|&at| chosen.contains(matrix.nics[at].label()))
        .collect();
    let unknown = || {
        Skip::new(
            SkipReason::Unparsable,
            "nvidia-smi topo -m does not show the usable adapters",
        )
    };
    if columns.len() < chosen.len() {
        return Err(unknown());
    }
    let (mut far, mut lines) = (Vec::new(), Vec::new());
    for gpu in &matrix.gpus {
        let paths = columns
            .iter()
            .filter_map(|&at| Some((at, (*gpu.to_nics.get(at)?)?)));
        let (at, best) = paths.min_by_key(|(_, path)| *path).ok_or_else(unknown)?;
        let line = format!("GPU{} {best} {}", gpu.index, matrix.nics[at].label());
        if best == Path::Sys {
            far.push(format!("GPU{}", gpu.index));
        }
        lines.push(line);
    }
    Ok((far, matrix.evidence(lines.iter().map(String::as_str))))
}

/// By NUMA nodes, where all of them are known.
fn by_numa(container: &Container<'_>, chosen: &BTreeSet<&str>) -> Result<Far, Skip> {
    let facts = &container.facts;
    let places = facts.gpu.places.get()?;
    let unknown = || {
        Skip::new(
            SkipReason::NotFound,
            "the kernel does not say on which NUMA node a device is",
        )
    };
    let mut nodes = BTreeSet::new();
    for device in facts.rdma.own()? {
        if chosen.contains(device.hca.name.as_str()) {
            nodes.insert(device.numa_node.ok_or_else(unknown)?);
        }
    }
    let (mut far, mut lines) = (Vec::new(), Vec::new());
    for (address, place) in &places.value {
        let node = place.numa_node.ok_or_else(unknown)?;
        lines.push(format!(
            "GPU {address} on NUMA node {node}, adapters on {nodes:?}"
        ));
        if !nodes.contains(&node) {
            far.push(format!("GPU {address}"));
        }
    }
    if lines.is_empty() {
        return Err(unknown());
    }
    Ok((far, places.evidence(lines.iter().map(String::as_str))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::{NOTHING, SHELL, changed, container, hcas, verdict};
    use crate::manifest::Inventory;
    use crate::report::{Report, Status};

    const MATRIX: &str = "\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\n\
        GPU0\t X \tNV18\tPIX\tSYS\t0-31\t0\n\
        GPU1\tNV18\t X \tSYS\tPIX\t32-63\t1\n\
        NIC0\tPIX\tSYS\t X \tSYS\nNIC1\tSYS\tPIX\tSYS\t X \n\n\
        NIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_1\n";

    fn answers(environment: &str) -> crate::checks::testing::Answers {
        let other = [
            (&ask::NVIDIA_SMI_TOPO, MATRIX),
            (
                &ask::DEV_GPU,
                "/dev/nvidia0: char rw\n/dev/nvidia1: char rw",
            ),
            (&ask::CPU, "hypervisor: no"),
            (&ask::ARCHITECTURE, "x86_64"),
            (&ask::ENVIRONMENT, environment),
        ];
        changed(&hcas(&["4: ACTIVE", "4: ACTIVE"]), &other)
    }

    #[test]
    fn each_gpu_needs_an_adapter_on_its_side() {
        assert_eq!(verdict(run, "decode", &answers(SHELL)), Ok(Status::Ok));
        let pinned = answers("UCX_NET_DEVICES=mlx5_0:1");
        assert_eq!(verdict(run, "decode", &pinned), Ok(Status::Warn));
        // What a made-up topology shows is not judged, and Grace has another path.
        for (ask, text) in [
            (&ask::CPU, "hypervisor: yes"),
            (&ask::ARCHITECTURE, "aarch64"),
        ] {
            let other = changed(&pinned, &[(ask, text)]);
            assert_eq!(verdict(run, "decode", &other), Err(Skip::not_applicable()));
        }
    }

    #[test]
    fn without_the_tool_the_kernels_numa_nodes_answer() {
        let places = "/sys/bus/pci/devices/0000:19:00.0: /sys/devices/x\n\
                      /sys/bus/pci/devices/0000:19:00.0/numa_node: 1";
        let mut numa = changed(&answers(SHELL), &[(&ask::GPU_PCI, places)]);
        numa.retain(|(a, _)| a.id != ask::NVIDIA_SMI_TOPO.id);
        // Both adapters of the fixture are on node 0.
        assert_eq!(verdict(run, "decode", &numa), Ok(Status::Warn));
        let near = changed(&numa, &[(&ask::GPU_PCI, &places.replace(": 1", ": 0"))]);
        assert_eq!(verdict(run, "decode", &near), Ok(Status::Ok));
        numa.retain(|(a, _)| a.id != ask::GPU_PCI.id);
        assert!(verdict(run, "decode", &numa).is_err());
    }

    #[test]
    fn what_was_not_read_is_not_judged() {
        assert!(verdict(run, "decode", NOTHING).is_err());
        for ask in [
            &ask::NVIDIA_SMI_TOPO,
            &ask::ENVIRONMENT,
            &ask::RDMA_PORTS,
            &ask::DEV_INFINIBAND_OPEN,
        ] {
            let mut rest = answers("UCX_NET_DEVICES=mlx5_0:1");
            rest.retain(|(a, _)| a.id != ask.id);
            assert!(verdict(run, "decode", &rest).is_err(), "{}", ask.id);
        }
    }

    #[test]
    fn a_list_of_one_adapter_is_one_thing_to_mend() {
        let environment = "# process 7 dynamo.vllm\nUCX_NET_DEVICES=mlx5_0:1";
        let snapshot = container("decode", &answers(environment));
        let findings = crate::checks::run(&Inventory::default(), &[snapshot]);
        let report = Report::new("node", vec![], findings, vec![], vec![]);
        let of = |id: &str| report.fix_first.iter().filter(|fix| fix.id == id).count();
        assert_eq!(
            (of("ENV012"), of("RDMA012")),
            (1, 0),
            "{:?}",
            report.fix_first
        );
    }
}
