use crate::check;
use crate::checks::WorkerScope;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::scope::annotations_place;
use crate::observed::Skip;

check! {
    /// GKE RDMA networks are requested without the annotation that attaches them, or the reverse.
    ///
    /// ## Why it matters
    /// On GKE the resource and the annotation `networking.gke.io/interfaces` belong together: without the annotation the pod
    /// has no RDMA interface, and without the resource the interface is not granted.
    ///
    /// ## Fix
    /// Set both: `networking.gke.io.networks/rdma-N` in the container's limits, and the interfaces in the pod's annotations.
    ///
    /// ## Sources
    /// NVIDIA/aicr PR#2248.
    "K8S004" "gke-network-annotation" on Worker {
        subsystem: Kubernetes, kv_path: Required, worst: Fail, causes: &[], since: "0.1.0",
    }
}

fn run(scope: &WorkerScope<'_>) -> Outcome {
    scope.require_kv()?;
    let worker = scope.worker;
    let resource = worker
        .rdma_resources
        .keys()
        .any(|k| k.starts_with(RESOURCE));
    let annotation = worker
        .net_annotations
        .iter()
        .any(|a| a == "networking.gke.io/interfaces");
    let (present, absent) = match (resource, annotation) {
        (false, false) => return Err(Skip::not_applicable()),
        (true, true) => {
            return Ok(vec![Draft::ok(
                "GKE RDMA networks are requested and attached",
            )]);
        }
        (true, false) => (
            "networking.gke.io.networks/* resources",
            "the annotation networking.gke.io/interfaces",
        ),
        (false, true) => (
            "the annotation networking.gke.io/interfaces",
            "networking.gke.io.networks/* resources",
        ),
    };
    let paste = resource.then(|| attached(scope)).flatten();
    let draft = Draft::fail(format!(
        "the pod has {present} but not {absent}: no RDMA network reaches the container"
    ));
    let mut draft = draft
        .headline(format!("the pod has {present} but not {absent}"))
        .with([worker.resources_spot.evidence()])
        .fix(format!("add {absent}"));
    draft.paste = paste;
    Ok(vec![draft])
}

/// The annotation for the networks that are requested, an interface each. A network has the name of its resource.
fn attached(scope: &WorkerScope<'_>) -> Option<String> {
    let place = annotations_place(&scope.workload.api_version, scope.worker)?;
    let named = scope.worker.rdma_resources.keys();
    let named = named.filter_map(|name| name.strip_prefix(RESOURCE));
    let networks: Vec<&str> = named.filter(|name| !name.ends_with(".IP")).collect();
    let rows = networks.iter().enumerate().map(|(at, network)| {
        let interface = at + 1;
        format!("{{\"interfaceName\":\"eth{interface}\",\"network\":\"{network}\"}}")
    });
    let own = "{\"interfaceName\":\"eth0\",\"network\":\"default\"}".to_owned();
    let rows: Vec<String> = [own].into_iter().chain(rows).collect();
    (!networks.is_empty()).then(|| {
        format!(
            "# under {place}\nnetworking.gke.io/default-interface: eth0\nnetworking.gke.io/interfaces: '[{}]'",
            rows.join(",")
        )
    })
}

const RESOURCE: &str = "networking.gke.io.networks/";

#[cfg(test)]
mod tests {
    use crate::checks::testing::{GPU, Pod, RDMA, alone, both, graph, report, table};
    use crate::report::Status::{Fail, Ok};

    #[test]
    fn table_of_statuses() {
        const NETWORK: &str = "resources: {limits: {networking.gke.io.networks/rdma-0: 1}}";
        const ATTACHED: &str = "networking.gke.io/interfaces: '[]'";
        let attached = Pod::of(NETWORK).annotations(ATTACHED);
        table(
            "gke-network-annotation",
            &[
                ("both", both(attached), &[Ok, Ok]),
                ("only the resource", graph(NETWORK), &[Fail, Fail]),
                (
                    "only the annotation",
                    both(Pod::of(GPU).annotations(ATTACHED)),
                    &[Fail, Fail],
                ),
                (
                    "another annotation",
                    both(Pod::of(NETWORK).annotations("networking.gke.io/default-interface: eth0")),
                    &[Fail, Fail],
                ),
                ("another fabric", graph(RDMA), &[]),
                ("aggregated", alone(Pod::of(NETWORK)), &[]),
            ],
        );
        let report = report(&graph(NETWORK));
        let said = report.checks.iter().find(|f| f.id == "K8S004").unwrap();
        assert!(
            said.rare
                .headline
                .ends_with("but not the annotation networking.gke.io/interfaces")
        );
    }
}
