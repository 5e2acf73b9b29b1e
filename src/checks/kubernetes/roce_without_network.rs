use crate::check;
use crate::checks::WorkerScope;
use crate::checks::declare::{Draft, Outcome};
use crate::observed::Skip;

check! {
    /// A RoCE device is requested, and the pod has neither the host's network nor a secondary one.
    ///
    /// Looked at are resources whose name says RoCE. What the running containers show of their ports decides where it was seen.
    ///
    /// ## Why it matters
    /// RoCE addresses are those of the adapter's interface. Without it in the pod the GID table is empty, or holds addresses that
    /// are not here, and connections end in time-outs ("Failed to modify QP to RTR").
    ///
    /// ## Fix
    /// Attach the network of the adapter (`k8s.v1.cni.cncf.io/networks`, Multus), or use hostNetwork.
    ///
    /// ## False alarms
    /// A cluster whose default network, or whose admission webhook, brings the interface.
    ///
    /// ## Sources
    /// llm-d-incubation/llm-d-modelservice#180 (reported); NVIDIA/nccl#1796.
    "K8S018" "roce-without-network" on Worker {
        subsystem: Kubernetes, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

fn run(scope: &WorkerScope<'_>) -> Outcome {
    scope.require_kv()?;
    let worker = scope.worker;
    // GKE's own networks have a check of their own.
    let roce = |name: &&String| name.contains("roce") && !name.starts_with("networking.gke.io");
    let resource = worker.rdma_resources.keys().find(roce);
    let resource = resource.ok_or_else(Skip::not_applicable)?;
    let seen = [worker.resources_spot.evidence()];
    if worker.host_network || !worker.net_annotations.is_empty() || scope.running.routes_roce {
        let detail = format!("{resource} is requested, and the pod has a network for it");
        return Ok(vec![Draft::ok(detail).with(seen)]);
    }
    let detail = format!(
        "{resource} is requested, and the pod has neither the host's network nor a secondary one: the RoCE ports may have no address in it"
    );
    Ok(vec![Draft::warn(detail).with(seen).fix(
        "attach the adapter's network (annotation k8s.v1.cni.cncf.io/networks), or set hostNetwork: true",
    )])
}

#[cfg(test)]
mod tests {
    use crate::ask;
    use crate::checks::testing::{
        Answers, Fleet, Pod, RDMA, alone, both, changed, graph, lines, roce, table,
    };
    use crate::report::Status::{Ok, Warn};

    const ROCE: &str = "resources: {limits: {nvidia.com/gpu: 1, rdma/roce: 1}}";

    #[test]
    fn table_of_statuses() {
        let attached = |key: &'static str| both(Pod::of(ROCE).annotations(key));
        table(
            "roce-without-network",
            &[
                ("alone", graph(ROCE), &[Warn, Warn]),
                (
                    "a secondary network",
                    attached("k8s.v1.cni.cncf.io/networks: rail-1"),
                    &[Ok, Ok],
                ),
                (
                    "another default network",
                    attached("v1.multus-cni.io/default-network: rail-1"),
                    &[Ok, Ok],
                ),
                (
                    "the host's network",
                    both(Pod::of(ROCE).spec("hostNetwork: true")),
                    &[Ok, Ok],
                ),
                ("InfiniBand, or not known", graph(RDMA), &[]),
                ("aggregated", alone(Pod::of(ROCE)), &[]),
            ],
        );
    }

    #[test]
    fn what_every_running_container_shows_decides() {
        let (good, bare) = (roce(2), changed(&roce(2), &[(&ask::RDMA_GIDS, "")]));
        let body = lines(&["image: i", ROCE]);
        let of = |other: &Answers| {
            let pods = [
                ("prefill", &good[..]),
                ("decode", &good[..]),
                ("decode", &other[..]),
            ];
            let fleet = Fleet::of(&pods)
                .body("prefill", &body)
                .body("decode", &body);
            let found = fleet.findings("roce-without-network");
            found.iter().filter(|f| f.status == Warn).count()
        };
        assert_eq!((of(&good), of(&bare)), (0, 1));
    }
}
