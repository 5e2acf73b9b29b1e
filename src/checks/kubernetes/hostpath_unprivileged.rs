use crate::check;
use crate::checks::WorkerScope;
use crate::checks::declare::{Draft, Outcome};
use crate::observed::Skip;

check! {
    /// The host's /dev/infiniband is mounted into a container that is not privileged.
    ///
    /// ## Why it matters
    /// A mount shows the device nodes; the device cgroup decides which may be opened, and that is only what a device plugin
    /// granted. UCX sees all devices and fails to open most of them.
    ///
    /// ## Fix
    /// Request the devices through the device plugin and drop the mount, or set `privileged: true`.
    ///
    /// ## Sources
    /// smg-project/smg PR#1762.
    "K8S012" "hostpath-unprivileged" on Worker {
        subsystem: Kubernetes, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

fn run(scope: &WorkerScope<'_>) -> Outcome {
    scope.require_kv()?;
    let worker = scope.worker;
    let Some(volume) = &worker.infiniband_hostpath else {
        return Err(Skip::not_applicable());
    };
    if worker.privileged {
        return Ok(vec![Draft::ok(
            "/dev/infiniband is mounted into a privileged container",
        )]);
    }
    let detail = "/dev/infiniband of the host is mounted, and the container is not privileged: the device cgroup lets it \
                  open only what a device plugin granted";
    let fix = "request the devices through the device plugin, or set privileged: true";
    Ok(vec![Draft::warn(detail).with([volume.evidence()]).fix(fix)])
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::{
        HOST_DEVICES, HOST_VOLUME, Pod, RDMA, alone, both, graph, lines, report, table,
    };
    use crate::report::Status::{Ok, Warn};

    #[test]
    fn table_of_statuses() {
        let privileged = lines(&[HOST_DEVICES, "securityContext: {privileged: true}"]);
        let mounted = Pod::of(HOST_DEVICES).spec(HOST_VOLUME);
        table(
            "hostpath-unprivileged",
            &[
                (
                    "privileged",
                    both(Pod::of(&privileged).spec(HOST_VOLUME)),
                    &[Ok, Ok],
                ),
                ("not privileged", both(mounted), &[Warn, Warn]),
                (
                    "a volume that is not mounted",
                    both(Pod::of(RDMA).spec(HOST_VOLUME)),
                    &[],
                ),
                ("devices of the plugin", graph(RDMA), &[]),
                ("aggregated", alone(mounted), &[]),
            ],
        );
    }

    #[test]
    fn it_points_at_the_volume() {
        let text = both(Pod::of(HOST_DEVICES).spec(HOST_VOLUME));
        let report = report(&text);
        let finding = report.checks.iter().find(|f| f.id == "K8S012").unwrap();
        let shown = &finding.evidence[0].excerpt;
        assert!(shown.contains("path: /dev/infiniband"), "{shown}");
    }
}
