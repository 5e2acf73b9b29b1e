use crate::ask;
use crate::check;
use crate::checks::compare::{allows_nvlink, both, domain, ends, names, only_nvlink};
use crate::checks::declare::{Draft, Outcome};
use crate::checks::pasting;
use crate::checks::{Container, DeploymentScope};
use crate::judge::{
    self,
    context::{Context, Tri},
};
use crate::observed::Skip;
use crate::report::Status;

check! {
    /// The two ends of the KV path are in different NVLink domains.
    ///
    /// ## Why it matters
    /// Multi-node NVLink reaches the GPUs of one cluster UUID and one clique. Between domains KV takes the network adapters;
    /// where UCX may use none, it travels over TCP.
    ///
    /// ## Fix
    /// Place both roles in one rack (ComputeDomain), or let UCX use RDMA between them (`UCX_TLS=rc,cuda_copy,cuda_ipc`).
    ///
    /// ## Sources
    /// NVIDIA/TensorRT-LLM#6085; semantics of `nvidia-smi -q` (Fabric).
    "DEP008" "nvlink-domains-differ" on Deployment {
        subsystem: Deployment, kv_path: Supporting, worst: Fail, causes: &[], since: "0.1.0",
    }
}

/// Both ways, for the fabric that reaches the other end.
const WITH_RDMA: &str = "rc,cuda_copy,cuda_ipc";

/// The list is right for what the container has beside NVLink.
fn is_right(container: &Container<'_>, list: &str) -> bool {
    let context = Context {
        mnnvl: Tri::No,
        ..container.context.clone()
    };
    judge::judge("UCX_TLS", Some(list), &context).status == Status::Ok
}

fn run(scope: &DeploymentScope<'_>) -> Outcome {
    ends(
        scope,
        |container| {
            let domain = domain(container)?;
            let value = container.facts.process.value("UCX_CUDA_IPC_ENABLE_MNNVL")?;
            let off = value.is_some_and(|v| ["n", "no", "0", "off"].contains(&v));
            if off || !allows_nvlink(container)? {
                return Err(Skip::not_applicable());
            }
            Ok((domain, only_nvlink(container)?))
        },
        |((a, only), left), ((b, alone), right)| {
            if a == b {
                return None;
            }
            let detail = format!(
                "the GPUs of {} are in {a} and those of {} in {b}: NVLink does not reach from one to the other",
                names(left),
                names(right)
            );
            let draft = if *only || *alone {
                let mut draft = Draft::fail(format!(
                    "{detail}, and no RDMA transport is left to UCX"
                ))
                .fix("place both roles in one NVLink domain, or let UCX use RDMA between them");
                let all = || left.iter().chain(right.iter()).copied();
                // Without devices for it the list would leave nothing.
                let has_rdma = |container: &Container<'_>| {
                    scope.may_ask_for_rdma(container) && is_right(container, WITH_RDMA)
                };
                if all().all(has_rdma) {
                    let lines = pasting::entry("UCX_TLS", WITH_RDMA);
                    draft.paste = Some(scope.for_containers(all(), &lines));
                }
                draft
            } else {
                Draft::warn(format!("{detail}, so KV takes the network adapters"))
                    .fix("place both roles in one NVLink domain, if NVLink was meant to carry KV")
            };
            Some(
                draft
                    .headline("the ends are in different NVLink domains")
                    .with([both(&ask::NVIDIA_SMI_FABRIC, (left, a), (right, b))]),
            )
        },
        |((a, _), left), ((b, _), right)| {
            Draft::ok("the GPUs of both ends are in one NVLink domain").with([both(
                &ask::NVIDIA_SMI_FABRIC,
                (left, a),
                (right, b),
            )])
        },
    )
}

#[cfg(test)]
pub(super) mod tests {
    use crate::ask;
    use crate::checks::testing::{Answers, changed, deployed, hcas};
    use crate::report::Status::{Fail, Ok, Skipped, Warn};

    /// A worker on multi-node NVLink with one adapter.
    pub(in crate::checks::deployment) fn rack(cluster: &str, tls: &str, channel: bool) -> Answers {
        let fabric = format!(
            "GPU 00000008:06:00.0\n    Product Name : NVIDIA GB200\n    Fabric\n        State : Completed\n        Status : \
             Success\n        CliqueId : 1\n        ClusterUUID : {cluster}\n"
        );
        let environment = format!("# process 7 dynamo.vllm\nUCX_TLS={tls}\n");
        let nodes = match channel {
            true => "/dev/nvidia0: char rw\n/dev/nvidia-caps-imex-channels/channel0: char rw\n",
            false => "/dev/nvidia0: char rw\n",
        };
        changed(
            &hcas(&["4: ACTIVE"]),
            &[
                (&ask::NVIDIA_SMI_FABRIC, &fabric),
                (&ask::ENVIRONMENT, &environment),
                (&ask::DEV_GPU, nodes),
            ],
        )
    }

    pub(in crate::checks::deployment) const ONE: &str = "5c9ad3a2-6d11-4f0b-9a43-b34f5b3a1d10";
    const OTHER: &str = "77777777-6d11-4f0b-9a43-b34f5b3a1d10";
    pub(in crate::checks::deployment) const NVLINK: &str = "cuda_copy,cuda_ipc,tcp";
    pub(in crate::checks::deployment) const RDMA: &str = "rc,cuda_copy,cuda_ipc";

    #[test]
    fn table_of_statuses() {
        let zero = "00000000-0000-0000-0000-000000000000";
        for (what, prefill, decode, wanted) in [
            (
                "one domain",
                rack(ONE, NVLINK, true),
                rack(ONE, NVLINK, true),
                vec![Ok],
            ),
            (
                "two domains",
                rack(ONE, NVLINK, true),
                rack(OTHER, NVLINK, true),
                vec![Fail],
            ),
            (
                "two domains and RDMA",
                rack(ONE, RDMA, true),
                rack(OTHER, RDMA, true),
                vec![Warn],
            ),
            (
                "two domains, RDMA at one end",
                rack(ONE, RDMA, true),
                rack(OTHER, NVLINK, true),
                vec![Fail],
            ),
            (
                "NVLink is not asked for",
                rack(ONE, "rc,cuda_copy", true),
                rack(OTHER, "rc,cuda_copy", true),
                vec![],
            ),
            (
                "boards of their own",
                rack(zero, RDMA, true),
                rack(zero, RDMA, true),
                vec![],
            ),
            (
                "not read",
                rack(ONE, RDMA, true),
                hcas(&["4: ACTIVE"]),
                vec![Skipped],
            ),
        ] {
            let pods = [
                ("prefill", prefill.as_slice()),
                ("decode", decode.as_slice()),
            ];
            assert_eq!(deployed("nvlink-domains-differ", &pods), wanted, "{what}");
        }
    }
}
