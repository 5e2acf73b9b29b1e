//! What the lanes could do at best, where none was measured: by the rates of what may carry KV.

use super::Lane;
use crate::checks::Container;
use crate::checks::compare::{allows_nvlink, carriers, domain, has_mnnvl, rdma_transports};
use crate::checks::words::counted;
use crate::judge::context::Backend;
use crate::manifest::workload::Worker;
use crate::observed::Skip;
use crate::snapshot::Folded;

/// NICs that NIXL lets UCX spread one put or get over, where UCX_MAX_RMA_RAILS says nothing.
/// Source: nixl v1.4.0 src/utils/ucx/ucx_utils.cpp.
const RAILS: usize = 2;

/// What may carry the KV of one container.
struct Side {
    node: Option<String>,
    /// The NVLink domain through which KV may leave the node.
    domain: Option<String>,
    /// Its handles of CUDA IPC are good on the whole node, and UCX may use NVLink.
    shares_node: bool,
    nvlink: Result<Lane, String>,
    ports: Result<Lane, String>,
}

/// One lane of each prefill and decode container, or why there is none: where one container's is not known, it may be the
/// slowest.
pub(super) fn lanes(ends: &[&Worker], snapshots: &[Folded]) -> Result<Vec<Lane>, String> {
    let of_kv = |role: Option<&str>| role.is_some_and(|r| ["prefill", "decode"].contains(&r));
    let sides: Vec<Side> = snapshots
        .iter()
        .filter(|snapshot| of_kv(snapshot.place().role.as_deref()))
        .map(|snapshot| Side::of(&Container::parse(&snapshot.open()), ends))
        .collect();
    let Some(first) = sides.first() else {
        return Err("no pod of prefill and decode was seen".to_owned());
    };
    let all = |holds: &dyn Fn(&Side) -> bool| sides.iter().all(holds);
    let in_domain = first.domain.is_some() && all(&|side| side.domain == first.domain);
    let on_node = first.node.is_some() && all(&|side| side.shares_node && side.node == first.node);
    // UCX takes the faster of two lanes, and NVLink is.
    let nvlink = in_domain || on_node;
    sides
        .into_iter()
        .map(|side| match nvlink {
            true => side.nvlink,
            false => side.ports,
        })
        .map(|lane| lane.map_err(|why| format!("{why}: measure the lanes with --transfer")))
        .collect()
}

impl Side {
    fn of(container: &Container<'_>, ends: &[&Worker]) -> Self {
        let facts = &container.facts;
        let component = facts.pod.known().and_then(|pod| pod.component.clone());
        let asked = ends
            .iter()
            .find(|w| Some(&w.name) == component.as_ref())
            .and_then(|w| w.gpus);
        let seen = facts.gpu.list.known().map(|gpus| gpus.len() as u64);
        let gpus = asked.or(seen).filter(|n| *n > 0);
        Self {
            node: container.place.node.clone(),
            domain: between_nodes(container).ok().flatten(),
            shares_node: container.shares_nvlink(),
            nvlink: by_nvlink(container),
            ports: by_ports(container, gpus),
        }
    }
}

/// UCX carries the KV, as far as is known: NIXL takes it where nothing else is chosen.
fn is_ucx(container: &Container<'_>) -> bool {
    matches!(container.context.backend, Backend::Ucx | Backend::Unknown)
}

/// The NVLink domain that UCX may use between nodes.
fn between_nodes(container: &Container<'_>) -> Result<Option<String>, Skip> {
    let value = container.facts.process.value("UCX_CUDA_IPC_ENABLE_MNNVL")?;
    let off = value.is_some_and(|v| ["n", "no", "0", "off"].contains(&v));
    let may = is_ucx(container) && !off && allows_nvlink(container)? && has_mnnvl(container)?;
    may.then(|| domain(container)).transpose()
}

/// The active links of the GPU that has the fewest.
fn by_nvlink(container: &Container<'_>) -> Result<Lane, String> {
    let pod = &container.place.pod;
    let links = container.facts.gpu.nvlink.get();
    let links = links.map_err(|skip| {
        format!(
            "KV travels over NVLink, and its rate in {pod} is not known ({})",
            skip.detail
        )
    })?;
    let each = links.gpus.iter().map(|gpu| {
        let rates = gpu.links.iter().filter_map(|link| link.rate_gbytes_per_s);
        (gpu.active(), rates.sum::<f64>())
    });
    let slowest = each.min_by(|a, b| a.1.total_cmp(&b.1));
    match slowest.filter(|(active, _)| *active > 0) {
        Some((active, gbytes)) => Ok((
            format!("{pod}: {} of a GPU", counted(active, "NVLink")),
            gbytes,
            false,
        )),
        None => Err(format!(
            "KV travels over NVLink, and {pod} shows no active link"
        )),
    }
}

/// What one GPU has of the ports that may carry KV.
fn by_ports(container: &Container<'_>, gpus: Option<u64>) -> Result<Lane, String> {
    let pod = &container.place.pod;
    let unread = |skip: Skip| {
        format!(
            "what may carry the KV of {pod} is not known ({})",
            skip.detail
        )
    };
    if is_ucx(container) && rdma_transports(container).map_err(unread)?.is_empty() {
        return Err(format!(
            "UCX_TLS leaves {pod} no RDMA transport, and NVLink is not known to join all ends"
        ));
    }
    let ports = carriers(container).map_err(unread)?;
    let gpus =
        gpus.ok_or_else(|| format!("how many GPUs share the ports of {pod} is not known"))?;
    let rates: Option<Vec<f64>> = ports.iter().map(|(_, port)| port.rate_gbps()).collect();
    let rates = rates.ok_or_else(|| format!("the rate of a port of {pod} is not known"))?;
    if rates.is_empty() {
        return Err(format!(
            "{pod} has no RDMA port to compute a nominal speed from"
        ));
    }
    // libfabric spreads a transfer over all NICs near the GPU.
    let is_efa = ports.iter().all(|(device, _)| device.is_efa());
    let striped = match container.context.backend {
        Backend::Ucx => false,
        Backend::Unknown => is_efa,
        Backend::Libfabric | Backend::Other => true,
    };
    let rails = match striped {
        true => rates.len(),
        false => rails(container).map_err(unread)?.min(rates.len()),
    };
    let slowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    #[expect(
        clippy::cast_precision_loss,
        reason = "few GPUs and ports are in a pod"
    )]
    let (share, one) = (
        rates.iter().sum::<f64>() / gpus as f64,
        slowest * rails as f64,
    );
    let mut of = format!(
        "{pod}: {} for {}",
        counted(rates.len(), "port"),
        counted(gpus, "GPU")
    );
    if one < share {
        of.push_str(&format!(", {rails} of them for one transfer"));
    }
    let gbytes = share.min(one) / 8.0;
    match gbytes > 0.0 {
        true => Ok((of, gbytes, false)),
        false => Err(format!("the rate of a port of {pod} is not known")),
    }
}

/// NICs of one transfer of UCX. What UCX does not read is a finding of its own.
fn rails(container: &Container<'_>) -> Result<usize, Skip> {
    let value = container.facts.process.value("UCX_MAX_RMA_RAILS")?;
    Ok(match value {
        Some("inf") => usize::MAX,
        Some(number) => number.parse().unwrap_or(RAILS).max(1),
        None => RAILS,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::{self, Ask};
    use crate::checks::testing::{Answers, changed, container, hcas};

    /// Ports of 400 Gb/s of a worker with these variables and one GPU, and other answers.
    fn worker(ports: usize, variables: &str, other: &[(&'static Ask, &str)]) -> Answers {
        let environment = format!("# process 7 dynamo.vllm\n{variables}");
        let gpu = nvlinks(1, 0, "");
        let usual = [
            (&ask::ENVIRONMENT, environment.as_str()),
            (&ask::NVIDIA_SMI_NVLINK, gpu.as_str()),
        ];
        let replaced = |(ask, _): &(&Ask, &str)| other.iter().any(|(o, _)| o.id == ask.id);
        let mut more: Vec<(&'static Ask, &str)> =
            usual.into_iter().filter(|u| !replaced(u)).collect();
        more.extend(other);
        changed(&hcas(&vec!["4: ACTIVE"; ports]), &more)
    }

    /// What nvidia-smi says of the NVLinks of these GPUs.
    fn nvlinks(gpus: usize, links: usize, rate: &str) -> String {
        let mut out = String::new();
        for gpu in 0..gpus {
            out.push_str(&format!("GPU {gpu}: NVIDIA GB200 (UUID: GPU-{gpu})\n"));
            for link in 0..links {
                out.push_str(&format!("\t Link {link}: {rate}\n"));
            }
        }
        out
    }

    fn sides(prefill: &Answers, decode: &Answers) -> Result<Vec<Lane>, String> {
        let snapshots = [("prefill", prefill), ("decode", decode)].map(|(role, answers)| {
            let mut snapshot = container(role, answers);
            snapshot.place.pod = format!("{role}-0");
            Folded::from(snapshot)
        });
        lanes(&[], &snapshots)
    }

    /// GB/s of the slower of two equal sides, and which lane that is.
    fn both(answers: &Answers) -> Result<(f64, String), String> {
        let all = sides(answers, answers)?;
        assert_eq!(all.len(), 2);
        let slowest = all.into_iter().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
        assert!(!slowest.2, "nobody measured it");
        Ok((slowest.1, slowest.0))
    }

    fn efa(mut answers: Answers) -> Answers {
        for (_, text) in &mut answers {
            *text = text
                .replace("0x15b3", "0x1d0f")
                .replace("link_layer: InfiniBand", "link_layer: Unknown")
                .replace("400 Gb/sec (4X NDR)", "100 Gb/sec (4X EDR)");
        }
        answers
    }

    #[test]
    fn one_gpu_has_its_part_of_the_ports_that_are_left() {
        let gpus = nvlinks(8, 0, "");
        let gpus = [(&ask::NVIDIA_SMI_NVLINK, gpus.as_str())];
        let rows = [
            // 400 Gb/s are 50 GB/s.
            (
                "a port each",
                worker(8, "", &gpus),
                50.0,
                "8 ports for 8 GPUs",
            ),
            // 8 x 400 / 8, and one port of them: 400 / 8 / 8.
            (
                "one port is left",
                worker(8, "UCX_NET_DEVICES=mlx5_0:1\n", &gpus),
                6.25,
                "1 port for 8 GPUs",
            ),
            (
                "four are left",
                worker(
                    8,
                    "UCX_NET_DEVICES=mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1\n",
                    &gpus,
                ),
                25.0,
                "4 ports for 8 GPUs",
            ),
            // 8 ports for a GPU, and NIXL spreads a transfer over 2: 2 x 50.
            (
                "more ports than UCX takes",
                worker(8, "", &[]),
                100.0,
                "8 ports for 1 GPU, 2 of them for one transfer",
            ),
            (
                "one of them at a time",
                worker(8, "UCX_MAX_RMA_RAILS=1\n", &[]),
                50.0,
                "1 of them",
            ),
            (
                "all of them",
                worker(8, "UCX_MAX_RMA_RAILS=inf\n", &[]),
                400.0,
                "8 ports for 1 GPU",
            ),
            // Four NICs of 100 Gb/s for each GPU: 4 x 12.5.
            (
                "EFA",
                efa(worker(32, "", &gpus)),
                50.0,
                "32 ports for 8 GPUs",
            ),
        ];
        for (what, answers, gbytes, of) in rows {
            let (is, said) = both(&answers).unwrap();
            assert!((is - gbytes).abs() < 1e-9, "{what}: {is} {said}");
            assert!(said.contains(of), "{what}: {said}");
        }
    }

    #[test]
    fn nvlink_counts_where_kv_takes_it() {
        let fabric = |cluster: &str| {
            format!(
                "GPU 00000008:06:00.0\n    Product Name : NVIDIA GB200\n    Fabric\n        State : Completed\n        Status : \
                 Success\n        CliqueId : 1\n        ClusterUUID : {cluster}\n"
            )
        };
        let links = nvlinks(1, 18, "53.125 GB/s");
        let nodes = "/dev/nvidia0: char rw\n/dev/nvidia-caps-imex-channels/channel0: char rw\n";
        let rack = |cluster: &str, variables: &str, links: &str| {
            let fabric = fabric(cluster);
            let other = [
                (&ask::NVIDIA_SMI_FABRIC, fabric.as_str()),
                (&ask::DEV_GPU, nodes),
                (&ask::NVIDIA_SMI_NVLINK, links),
            ];
            worker(1, variables, &other)
        };
        let (one, other) = (
            "5c9ad3a2-6d11-4f0b-9a43-b34f5b3a1d10",
            "77777777-6d11-4f0b-9a43-b34f5b3a1d10",
        );
        let only = "UCX_TLS=cuda_copy,cuda_ipc,tcp\n";
        // 18 x 53.125 GB/s, whether or not UCX might use the port too.
        for variables in [only, "", "UCX_TLS=rc,cuda_copy,cuda_ipc\n"] {
            let (gbytes, of) = both(&rack(one, variables, &links)).unwrap();
            assert!((gbytes - 956.25).abs() < 1e-9, "{variables}: {gbytes}");
            assert_eq!(of, "prefill-0: 18 NVLinks of a GPU");
        }
        // One port for one GPU, where NVLink is not for UCX.
        for variables in ["UCX_TLS=rc,cuda_copy\n", "UCX_CUDA_IPC_ENABLE_MNNVL=n\n"] {
            let (gbytes, of) = both(&rack(one, variables, &links)).unwrap();
            assert!((gbytes - 50.0).abs() < 1e-9, "{variables}: {gbytes} {of}");
        }
        let apart = sides(&rack(one, "", &links), &rack(other, "", &links)).unwrap();
        assert!(
            apart.iter().all(|lane| lane.0.contains("1 port")),
            "{apart:?}"
        );
        // What nothing carries has no rate.
        let apart = sides(&rack(one, only, &links), &rack(other, only, &links)).unwrap_err();
        assert!(
            apart.contains("UCX_TLS leaves prefill-0 no RDMA transport"),
            "{apart}"
        );
        let dark = nvlinks(1, 18, "<inactive>");
        let dark = both(&rack(one, only, &dark)).unwrap_err();
        assert!(dark.contains("prefill-0 shows no active link"), "{dark}");
    }

    #[test]
    fn what_was_not_read_has_no_rate() {
        let (good, tcp) = (worker(1, "", &[]), worker(1, "UCX_TLS=tcp,self\n", &[]));
        assert_eq!(both(&good).unwrap().0, 50.0);
        assert!(both(&tcp).unwrap_err().contains("no RDMA transport"));
        for (missing, why) in [
            (worker(0, "", &[]), "not known"),
            (hcas(&["4: ACTIVE"]), "not known"),
            (worker(1, "", &[(&ask::RDMA_UVERBS, "")]), "no RDMA port"),
            (
                worker(1, "", &[(&ask::NVIDIA_SMI_NVLINK, "")]),
                "how many GPUs",
            ),
        ] {
            let said = sides(&good, &missing).unwrap_err();
            assert!(
                said.starts_with("what may carry the KV of decode-0") || said.contains(why),
                "{said}"
            );
            assert!(
                said.ends_with("measure the lanes with --transfer"),
                "{said}"
            );
        }
        assert!(lanes(&[], &[]).unwrap_err().contains("no pod"));
    }
}
