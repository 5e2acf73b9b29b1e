use crate::ask;
use crate::check;
use crate::checks::DeploymentScope;
use crate::checks::compare::{both, carriers, ends, link_word, names};
use crate::checks::declare::{Draft, Outcome};
use crate::observed::Skip;
use std::collections::BTreeSet;

check! {
    /// One end of the KV path is on InfiniBand and the other on Ethernet.
    ///
    /// ## Why it matters
    /// InfiniBand, RoCE and EFA do not reach each other. Ports that do not speak the same leave TCP over the pods' network.
    ///
    /// ## Fix
    /// Place both roles on nodes of one fabric, and give both the same RDMA resource.
    "DEP006" "link-layer-differs" on Deployment {
        subsystem: Deployment, kv_path: Supporting, worst: Fail, causes: &["DEP007"], since: "0.1.0",
    }
}

fn run(scope: &DeploymentScope<'_>) -> Outcome {
    let words = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(" and ");
    ends(
        scope,
        |container| {
            let ports = carriers(container)?;
            let links: BTreeSet<String> = ports.iter().map(|(d, p)| link_word(d, p)).collect();
            // An end without any port has a finding of its own.
            match links.is_empty() {
                true => Err(Skip::not_applicable()),
                false => Ok(links),
            }
        },
        |(a, left), (b, right)| {
            if a.intersection(b).next().is_some() {
                return None;
            }
            let detail = format!(
                "the usable ports of {} are {} and those of {} are {}: they do not reach each other",
                names(left),
                words(a),
                names(right),
                words(b)
            );
            Some(
                Draft::fail(detail)
                    .headline("the ends of the KV path are on different kinds of fabric")
                    .with([both(
                        &ask::RDMA_PORTS,
                        (left, &words(a)),
                        (right, &words(b)),
                    )])
                    .fix("place both roles on nodes of one fabric, with the same RDMA resource"),
            )
        },
        |(a, left), (b, right)| {
            let common: BTreeSet<String> = a.intersection(b).cloned().collect();
            Draft::ok(format!("both ends have {} ports", words(&common))).with([both(
                &ask::RDMA_PORTS,
                (left, &words(a)),
                (right, &words(b)),
            )])
        },
    )
}

#[cfg(test)]
mod tests {
    use crate::ask;
    use crate::checks::testing::{Answers, Fleet, changed, deployed, hcas, roce};
    use crate::report::Status::{Fail, Ok, Skipped};

    #[test]
    fn table_of_statuses() {
        let env = |answers: Answers, lines: &str| {
            let text = format!("# process 7 dynamo.vllm\n{lines}");
            changed(&answers, &[(&ask::ENVIRONMENT, &text)])
        };
        let ib = env(hcas(&["4: ACTIVE"]), "");
        let eth = env(roce(1), "");
        let down = env(hcas(&["1: DOWN"]), "");
        let mut two = hcas(&["4: ACTIVE", "4: ACTIVE"]);
        for (_, text) in &mut two {
            *text = text.replacen("link_layer: InfiniBand", "link_layer: Ethernet", 1);
        }
        let (both, pinned) = (env(two.clone(), ""), env(two, "UCX_NET_DEVICES=mlx5_0:1"));
        let blind = hcas(&["4: ACTIVE"]);
        for (what, prefill, decode, wanted) in [
            ("the same", &ib, &ib, vec![Ok]),
            ("another kind", &ib, &eth, vec![Fail]),
            ("one in common", &ib, &both, vec![Ok]),
            ("pinned to the other", &ib, &pinned, vec![Fail]),
            ("no port at one end", &ib, &down, vec![]),
            (
                "which ports are chosen was not read",
                &ib,
                &blind,
                vec![Skipped],
            ),
        ] {
            let pods = [
                ("prefill", prefill.as_slice()),
                ("decode", decode.as_slice()),
            ];
            assert_eq!(deployed("link-layer-differs", &pods), wanted, "{what}");
        }
        let none: Answers = vec![];
        let pods = [("prefill", none.as_slice()), ("decode", ib.as_slice())];
        assert_eq!(deployed("link-layer-differs", &pods), [Skipped]);
        let many: Vec<_> = (0..40)
            .map(|n| {
                (
                    if n % 2 == 0 { "prefill" } else { "decode" },
                    if n % 4 < 2 {
                        ib.as_slice()
                    } else {
                        eth.as_slice()
                    },
                )
            })
            .collect();
        let found = Fleet::of(&many).findings("link-layer-differs");
        assert_eq!(found.len(), 2, "one per kind of difference");
        assert!(found[0].detail.contains("6 more"), "{}", found[0].detail);
    }
}
