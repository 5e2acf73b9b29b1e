//! Whether a value is wrong in itself, or only because of what is missing around it.

use super::declare::Draft;
use crate::judge::{
    self,
    context::{Context, Tri},
};
use crate::report::Status;

/// Checks that say that the container has no RDMA port that works.
const NO_DEVICE: &[&str] = &["ib-devices", "device-not-granted", "ib-link"];

/// Checks that say that multi-node NVLink does not reach the container or its peer.
const NO_DOMAIN: &[&str] = &[
    "compute-domain-differs",
    "imex-on-one-side",
    "mnnvl-without-compute-domain",
    "imex-channel-missing",
    "fabric-not-ready",
];

/// The check that says that the node has EFA devices and the worker asks for none.
const NO_EFA: &[&str] = &["node-resources"];

/// Puts the finding of a value beneath the finding of what is missing around it, where the value would be right with that. A
/// value that is wrong wherever it stands (a name that nobody knows, a list without `cuda_copy`) stays a cause of its own:
/// who mends the other thing still has it.
pub(super) fn tied(mut draft: Draft, variable: &str, value: &str, context: &Context) -> Draft {
    if draft.status < Status::Warn {
        return draft;
    }
    for (missing, would_be) in [
        (NO_DEVICE, with_device(context)),
        (NO_DOMAIN, with_domain(context)),
        (NO_EFA, with_efa(context)),
    ] {
        let right = would_be
            .is_some_and(|cx| judge::judge(variable, Some(value), &cx).status < Status::Warn);
        if right {
            draft
                .follows
                .extend(missing.iter().map(|&name| name.to_owned()));
        }
    }
    draft
}

/// The same place with RDMA ports of which nothing more is known; None where there are some.
fn with_device(context: &Context) -> Option<Context> {
    let none = match &context.nics {
        Some(nics) => nics.iter().all(|nic| !nic.active),
        None => context.rdma == Tri::No,
    };
    none.then(|| Context {
        rdma: Tri::Yes,
        nics: None,
        gids: None,
        ..context.clone()
    })
}

/// The same place within a multi-node NVLink domain; None where it is in one.
fn with_domain(context: &Context) -> Option<Context> {
    (context.mnnvl != Tri::Yes).then(|| Context {
        mnnvl: Tri::Yes,
        ..context.clone()
    })
}

/// The same place with EFA devices; None where there are some.
fn with_efa(context: &Context) -> Option<Context> {
    (context.efa == Tri::No).then(|| Context {
        efa: Tri::Yes,
        rdma: Tri::Yes,
        nics: None,
        gids: None,
        ..context.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::{self, testing::container};
    use crate::manifest::Inventory;
    use crate::report::{Fix, Report};

    #[test]
    fn only_what_would_be_right_follows() {
        let nowhere = Context {
            nics: Some(vec![]),
            rdma: Tri::No,
            mnnvl: Tri::No,
            ..Context::default()
        };
        let follows = |value: &str| {
            let verdict = judge::judge("UCX_TLS", Some(value), &nowhere);
            let draft = Draft::new(verdict.status, "");
            assert_eq!(verdict.status, Status::Fail, "{value}");
            let tied = tied(draft, "UCX_TLS", value, &nowhere).follows;
            let of = |names: &[&str]| names.iter().all(|name| tied.iter().any(|f| f == name));
            (of(NO_DEVICE), of(NO_DOMAIN))
        };
        assert_eq!(follows("rc,cuda_copy,cuda_ipc"), (true, false));
        assert_eq!(follows("cuda_copy,cuda_ipc,tcp"), (false, true));
        for wrong in ["bogus", "rc,cuda_ipc", "rc,bogus,cuda_ipc", "tcp"] {
            assert_eq!(follows(wrong), (false, false), "{wrong}");
        }
        // Where devices work, a value that names them wrongly is no matter of theirs.
        let there = Context {
            nics: None,
            rdma: Tri::Yes,
            ..nowhere.clone()
        };
        assert_eq!(with_device(&there), None);
    }

    /// What is to be fixed of a worker without any device that runs with this value, and what follows from what.
    fn fixes(environment: &str) -> Vec<(String, Vec<String>)> {
        let environment = format!("# process 7 dynamo.vllm\n{environment}");
        let answers = [
            (&ask::RDMA_PORTS, ""),
            (&ask::DEV_INFINIBAND, ""),
            (&ask::DEV_INFINIBAND_OPEN, ""),
            (&ask::RDMA_UVERBS, ""),
            (&ask::ENVIRONMENT, environment.as_str()),
        ];
        let findings = checks::run(&Inventory::default(), &[container("decode", &answers)]);
        let report = Report::new("node", vec![], findings, vec![], vec![]);
        let entry = |fix: &Fix| {
            let below = fix.consequences.iter().map(|c| c.name.clone());
            (fix.name.clone(), below.collect())
        };
        report.fix_first.iter().map(entry).collect()
    }

    #[test]
    fn a_wrong_value_is_fixed_beside_the_missing_device_and_not_by_it() {
        let below = |environment: &str| {
            let fixes = fixes(environment);
            let (_, below) = fixes.iter().find(|(name, _)| name == "ib-devices").unwrap();
            below.clone()
        };
        let follows = |line: &str, name: &str| below(line).iter().any(|n| n == name);
        assert!(follows("UCX_TLS=rc,cuda_copy,cuda_ipc", "env:UCX_TLS"));
        assert!(follows("UCX_NET_DEVICES=mlx5_0:1", "selected-nic-unusable"));
        for line in ["UCX_TLS=bogus", "UCX_TLS=rc,cuda_ipc", "UCX_TLS=tcp"] {
            assert!(!follows(line, "env:UCX_TLS"), "{line}");
            let own = fixes(line)
                .into_iter()
                .any(|(name, _)| name == "env:UCX_TLS");
            assert!(own, "{line}");
        }
    }

    #[test]
    fn what_wants_a_domain_follows_a_fabric_that_is_not_ready() {
        let fabric = "GPU 00000008:06:00.0\n    Product Name : NVIDIA GB200\n    Fabric\n        State : Completed\n        \
                      Status : Insufficient Resources\n        CliqueId : 1\n        ClusterUUID : \
                      5c9ad3a2-6d11-4f0b-9a43-b34f5b3a1d10\n";
        let environment = "# process 7 dynamo.vllm\nUCX_TLS=cuda_copy,cuda_ipc,tcp\nUCX_CUDA_IPC_ENABLE_MNNVL=y\n";
        let answers = [
            (&ask::NVIDIA_SMI_FABRIC, fabric),
            (&ask::ENVIRONMENT, environment),
            (
                &ask::DEV_GPU,
                "/dev/nvidia0: char rw\n/dev/nvidia-caps-imex-channels/channel0: char rw",
            ),
        ];
        let findings = checks::run(&Inventory::default(), &[container("decode", &answers)]);
        let report = Report::new("node", vec![], findings, vec![], vec![]);
        let env = |name: &str| name.starts_with("env:");
        assert!(!report.fix_first.iter().any(|fix| env(&fix.name)));
        let cause = report
            .fix_first
            .iter()
            .find(|fix| fix.id == "GPU005")
            .unwrap();
        let below = cause.consequences.iter().filter(|c| env(&c.name)).count();
        assert_eq!(below, 2, "{:?}", cause.consequences);
    }

    #[test]
    fn what_wants_efa_follows_a_worker_that_asks_for_none() {
        let none = Context {
            efa: Tri::No,
            rdma: Tri::No,
            nics: Some(vec![]),
            ..Context::default()
        };
        let draft = tied(Draft::new(Status::Warn, ""), "FI_PROVIDER", "efa", &none);
        assert!(draft.follows.iter().any(|name| name == "node-resources"));
        let wrong = tied(Draft::new(Status::Fail, ""), "UCX_TLS", "bogus", &none);
        assert_eq!(wrong.follows, [] as [&str; 0]);
    }
}
