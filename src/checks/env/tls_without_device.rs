use crate::check;
use crate::checks::WorkerScope;
use crate::checks::declare::{Draft, Outcome};
use crate::judge::TransportList;
use crate::observed::Skip;
use crate::report::SkipReason;

check! {
    /// UCX_TLS relies on RDMA, and the pod asks for no RDMA device.
    ///
    /// ## Why it matters
    /// An allow-list of RDMA transports without a device leaves UCX nothing to cross nodes with, or only the TCP that is
    /// listed beside them. A list that excludes `cuda_ipc` takes away NVLink as well.
    ///
    /// ## Fix
    /// Request the RDMA resource on every prefill and decode worker. Cluster-specific resources may come from an overlay:
    /// check the rendered manifest.
    "ENV006" "tls-without-device" on Worker {
        subsystem: Env, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

fn run(scope: &WorkerScope<'_>) -> Outcome {
    scope.require_kv()?;
    let worker = scope.worker;
    if worker.rdma_requested() || worker.compute_domain() || scope.running.opens_devices {
        return Err(Skip::not_applicable());
    }
    let value = scope.literal("UCX_TLS")?.ok_or_else(Skip::not_applicable)?;
    let list = TransportList::parse(value);
    let shown = crate::sanitise::line(value, 80);
    // The host's network may bring the host's devices to a list that only leaves something out; a list that names RDMA
    // needs them.
    let excludes = list.negated() && !list.allows("cuda_ipc") && worker.reach.is_empty();
    let detail = if excludes {
        format!(
            "UCX_TLS={shown} excludes cuda_ipc, and the pod asks for no RDMA device: only TCP is left between pods"
        )
    } else if !list.negated() && list.names_rdma() {
        format!("UCX_TLS={shown} lists RDMA transports, and the pod asks for no RDMA device")
    } else {
        return Err(Skip::not_applicable());
    };
    if let Some(claim) = worker.unresolved_claims.first() {
        let detail = format!(
            "whether the claim {claim}, whose template is not in this input, is what UCX_TLS={shown} relies on"
        );
        return Err(Skip::new(SkipReason::Unresolved, detail));
    }
    let entry = worker.env.get("UCX_TLS").map(|e| e.spot.evidence());
    Ok(vec![Draft::warn(detail).with(entry).fix(
        "request the RDMA resource in the pod, or render the overlay that adds it",
    )])
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::{
        CLAIM, GPU, HOST_DEVICES, HOST_VOLUME, Pod, RDMA, alone, both, channel, claims, env, graph,
        lines, table, unread,
    };
    use crate::report::Status::{Skipped, Warn};

    #[test]
    fn table_of_statuses() {
        let tls = |value: &str| env(&[("UCX_TLS", value)]);
        let (rc, no_nvlink) = (tls("rc,cuda_copy,cuda_ipc"), tls("^cuda_ipc"));
        let claim = lines(&[CLAIM, &rc]);
        let declared = claims("chan");
        let claiming = both(Pod::of(&claim).spec(&declared));
        table(
            "tls-without-device",
            &[
                ("RDMA transports and no device", graph(&rc), &[Warn, Warn]),
                (
                    "NVLink excluded and no device",
                    graph(&no_nvlink),
                    &[Warn, Warn],
                ),
                (
                    "RDMA transports on the host's network",
                    both(Pod::of(&rc).spec("hostNetwork: true")),
                    &[Warn, Warn],
                ),
                (
                    "NVLink excluded on the host's network",
                    both(Pod::of(&no_nvlink).spec("hostNetwork: true")),
                    &[],
                ),
                (
                    "a list without RDMA",
                    graph(&tls("cuda_copy,cuda_ipc,tcp")),
                    &[],
                ),
                ("TCP excluded", graph(&tls("^tcp")), &[]),
                ("a device", graph(&lines(&[RDMA, &rc])), &[]),
                (
                    "the host's devices",
                    both(Pod::of(&lines(&[HOST_DEVICES, &rc])).spec(HOST_VOLUME)),
                    &[],
                ),
                ("a channel", format!("{claiming}{}", channel("chan")), &[]),
                (
                    "a claim without its template",
                    claiming.clone(),
                    &[Skipped, Skipped],
                ),
                (
                    "a list that is not known",
                    graph(&unread("UCX_TLS")),
                    &[Skipped, Skipped],
                ),
                (
                    "a list that is not known and a device",
                    graph(&lines(&[RDMA, &unread("UCX_TLS")])),
                    &[],
                ),
                ("no list", graph(GPU), &[]),
                ("aggregated", alone(Pod::of(&rc)), &[]),
            ],
        );
    }
}
