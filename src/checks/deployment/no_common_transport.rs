use crate::ask;
use crate::check;
use crate::checks::compare::{both, ends, has_mnnvl, names, rdma_transports};
use crate::checks::declare::{Draft, Outcome};
use crate::checks::{Container, DeploymentScope};
use crate::judge::context::Backend;
use crate::observed::Skip;
use crate::report::Status;
use crate::sanitise;

check! {
    /// Prefill and decode leave UCX no transport that both have.
    ///
    /// The environments of the running workers decide, whoever set them. Names of devices need not agree: each end chooses
    /// among its own.
    ///
    /// ## Why it matters
    /// A lane needs the same transport at both ends: `rc_x` at one and `rc_v` at the other meet on TCP, or not at all. A
    /// worker that moves KV by libfabric and one that does by UCX do not meet either.
    ///
    /// ## Fix
    /// Give UCX_TLS the same value at both ends, or remove it from both; select the same NIXL backend.
    ///
    /// ## Sources
    /// UCX v1.20.0 `ucp_context.c` (aliases) and rules R2, R6 of docs/rules.md.
    "DEP003" "no-common-transport" on Deployment {
        subsystem: Deployment, kv_path: Supporting, worst: Fail, causes: &[], since: "0.1.0",
    }
}

/// What decides at one end.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct End {
    backend: Option<&'static str>,
    rdma: Vec<&'static str>,
    mnnvl: bool,
    /// KV lies in host memory on purpose.
    on_host: bool,
    tls: String,
}

fn run(scope: &DeploymentScope<'_>) -> Outcome {
    let on_one_node = scope.stays_on_node();
    ends(
        scope,
        end,
        |(a, left), (b, right)| {
            if let (Some(x), Some(y)) = (a.backend, b.backend)
                && x != y
            {
                let detail = format!(
                    "{} move KV by {x} and {} by {y}: the two do not meet",
                    names(left),
                    names(right)
                );
                return Some(
                    Draft::fail(detail)
                        .headline("the ends of the KV path use different NIXL backends")
                        .follows("kv-connector-differs")
                        .with([both(&ask::ENVIRONMENT, (left, x), (right, y))])
                        .fix("select the same NIXL backend in both roles"),
                );
            }
            let ucx = a.backend != Some("libfabric") && b.backend != Some("libfabric");
            if !ucx
                || on_one_node
                || a.mnnvl && b.mnnvl
                || a.rdma.iter().any(|t| b.rdma.contains(t))
            {
                return None;
            }
            let detail = format!(
                "UCX_TLS {} on {}, and {} on {}: no RDMA transport is allowed at both ends, so KV meets on TCP or not at all",
                a.tls,
                names(left),
                b.tls,
                names(right)
            );
            // Then TCP may be what is meant, and is slow all the same.
            let status = match a.on_host && b.on_host {
                true => Status::Warn,
                false => Status::Fail,
            };
            let fix = match a.tls == b.tls {
                true => "allow RDMA in UCX_TLS at both ends, or remove it from both",
                false => "give UCX_TLS the same value at both ends, or remove it from both",
            };
            Some(
                Draft::new(status, detail)
                    .headline("UCX_TLS leaves the ends no common RDMA transport")
                    // A list that is wrong by itself is the better word for it.
                    .follows("env:UCX_TLS")
                    .with([both(&ask::ENVIRONMENT, (left, &a.tls), (right, &b.tls))])
                    .fix(fix),
            )
        },
        |(a, left), (b, right)| {
            let common: Vec<_> = a
                .rdma
                .iter()
                .filter(|t| b.rdma.contains(t))
                .copied()
                .collect();
            let words = if a.backend == Some("libfabric") && b.backend == a.backend {
                "both ends move KV by libfabric".to_owned()
            } else if common.is_empty() && on_one_node {
                "both ends may use NVLink of their node".to_owned()
            } else if common.is_empty() {
                "both ends may use NVLink between nodes".to_owned()
            } else {
                format!("both ends allow {}", common.join(", "))
            };
            Draft::ok(words).with([both(&ask::ENVIRONMENT, (left, &a.tls), (right, &b.tls))])
        },
    )
}

fn end(container: &Container<'_>) -> Result<End, Skip> {
    let backend = match container.context.backend {
        // Another mover has its own rules.
        Backend::Other => return Err(Skip::not_applicable()),
        Backend::Ucx => Some("UCX"),
        Backend::Libfabric => Some("libfabric"),
        Backend::Unknown => None,
    };
    let rdma = rdma_transports(container)?;
    let mnnvl = match (rdma.is_empty(), has_mnnvl(container)) {
        (_, Ok(has)) => has && crate::checks::compare::allows_nvlink(container)?,
        (true, Err(skip)) => return Err(skip),
        (false, Err(_)) => false,
    };
    let tls = container.facts.process.value("UCX_TLS")?;
    Ok(End {
        backend,
        rdma,
        mnnvl,
        on_host: container.context.host_buffers,
        tls: tls.map_or("is not set".to_owned(), |tls| {
            format!("is {}", sanitise::line(tls, 80))
        }),
    })
}

#[cfg(test)]
mod tests {
    use crate::ask::{self, Ask};
    use crate::checks::testing::{Fleet, NOTHING};
    use crate::report::Status::{self, Fail, Ok, Skipped};

    fn say(prefill: &str, decode: &str) -> Vec<Status> {
        let with = |lines: &str| {
            [(
                &ask::ENVIRONMENT,
                format!("# process 7 dynamo.vllm\n{lines}"),
            )]
        };
        let (p, d) = (with(prefill), with(decode));
        Fleet::of(&[("prefill", &p), ("decode", &d)]).statuses("no-common-transport")
    }

    #[test]
    fn table_of_statuses() {
        for (what, prefill, decode, wanted) in [
            ("unset", "", "", vec![Ok]),
            ("the same", "UCX_TLS=rc,cuda", "UCX_TLS=rc,cuda", vec![Ok]),
            (
                "an alias covers it",
                "UCX_TLS=rc_x,cuda",
                "UCX_TLS=ib,cuda",
                vec![Ok],
            ),
            ("unset meets a list", "UCX_TLS=rc_x,cuda", "", vec![Ok]),
            (
                "two kinds of rc",
                "UCX_TLS=rc_x,cuda",
                "UCX_TLS=rc_v,cuda",
                vec![Fail],
            ),
            (
                "rc and dc",
                "UCX_TLS=dc_x,cuda",
                "UCX_TLS=rc,cuda",
                vec![Fail],
            ),
            ("forbidden at one end", "UCX_TLS=^ib,srd", "", vec![Skipped]),
            (
                "TCP at one end, NVLink not seen",
                "UCX_TLS=tcp,cuda",
                "UCX_TLS=rc,cuda",
                vec![Skipped],
            ),
            (
                "devices need not agree",
                "UCX_NET_DEVICES=mlx5_0:1",
                "UCX_NET_DEVICES=mlx5_3:1",
                vec![Ok],
            ),
        ] {
            assert_eq!(say(prefill, decode), wanted, "{what}");
        }
        let (nothing, some): (&[(&Ask, &str)], &[_]) =
            (NOTHING, &[(&ask::ENVIRONMENT, "# process 7 x\n")]);
        let fleet = Fleet::of(&[("prefill", nothing), ("decode", some)]);
        assert_eq!(fleet.statuses("no-common-transport"), [Skipped]);
        let agg = Fleet::of(&[("agg", some)]);
        assert_eq!(agg.statuses("no-common-transport"), []);
    }

    #[test]
    fn a_list_without_rdma_is_the_cause_and_not_told_twice() {
        let with = |lines: &str| {
            [
                (
                    &ask::ENVIRONMENT,
                    format!("# process 7 dynamo.vllm\n{lines}"),
                ),
                (
                    &ask::NVIDIA_SMI_FABRIC,
                    "GPU 00000000:19:00.0\n    Product Name : H\n    Fabric\n        State : N/A\n"
                        .to_owned(),
                ),
                (&ask::DEV_GPU, String::new()),
            ]
        };
        let (p, d) = (with("UCX_TLS=tcp,cuda_copy"), with("UCX_TLS=rc,cuda_copy"));
        let fleet = Fleet::of(&[("prefill", &p), ("decode", &d)]);
        assert_eq!(fleet.statuses("no-common-transport"), [Fail]);
        let fixes = fleet.fix_first();
        let cause = fixes.iter().find(|fix| fix.name == "env:UCX_TLS").unwrap();
        assert!(cause.consequences.iter().any(|c| c.id == "DEP003"));
        assert!(fixes.iter().all(|fix| fix.id != "DEP003"));
    }

    #[test]
    fn another_backend_at_the_other_end_does_not_meet() {
        let with = |backend: &str| {
            [(
                &ask::ENVIRONMENT,
                format!(
                    "# process 7 dynamo.sglang\nSGLANG_DISAGGREGATION_NIXL_BACKEND={backend}\n"
                ),
            )]
        };
        let say = |p: &str, d: &str| {
            let (p, d) = (with(p), with(d));
            Fleet::of(&[("prefill", &p), ("decode", &d)]).statuses("no-common-transport")
        };
        assert_eq!(say("UCX", "LIBFABRIC"), [Fail]);
        assert_eq!(say("LIBFABRIC", "LIBFABRIC"), [Ok]);
    }
}
