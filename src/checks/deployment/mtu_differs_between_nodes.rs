use crate::ask;
use crate::check;
use crate::checks::DeploymentScope;
use crate::checks::compare::{both, carriers, ends, link_word, names};
use crate::checks::declare::{Draft, Outcome};
use crate::observed::Skip;
use crate::report::SkipReason;
use std::collections::{BTreeMap, BTreeSet};

check! {
    /// The ports of prefill and decode use different MTUs.
    ///
    /// ## Why it matters
    /// Both ends of a connection must agree on the MTU. Where they do not, the first large message ends in a length error or a
    /// local access violation.
    ///
    /// ## Fix
    /// Give the interfaces and switch ports of one fabric the same MTU on all nodes (RoCE: 9000 on the interface for an RDMA
    /// MTU of 4096).
    ///
    /// ## Sources
    /// NVIDIA/nccl#1524, #2135.
    "DEP013" "mtu-differs-between-nodes" on Deployment {
        subsystem: Deployment, kv_path: Supporting, worst: Fail, causes: &["RDMA015"], since: "0.1.0",
    }
}

type Mtus = BTreeMap<String, BTreeSet<u32>>;

fn run(scope: &DeploymentScope<'_>) -> Outcome {
    ends(
        scope,
        |container| {
            let mut mtus = Mtus::new();
            for (device, port) in carriers(container)? {
                // EFA knows no choice.
                if device.is_efa() {
                    continue;
                }
                let Some(mtu) = port.active_mtu_bytes else {
                    let skip = container.facts.rdma.verbs.get().err();
                    let detail = format!(
                        "the active MTU of {} in {} was not seen; ibv_devinfo shows it",
                        device.hca.name, container.place.pod
                    );
                    return Err(skip.unwrap_or(Skip::new(SkipReason::NotCollected, detail)));
                };
                mtus.entry(link_word(device, port)).or_default().insert(mtu);
            }
            match mtus.is_empty() {
                true => Err(Skip::not_applicable()),
                false => Ok(mtus),
            }
        },
        |(a, left), (b, right)| {
            let mut shared = a
                .iter()
                .filter_map(|(link, own)| Some((link, own, b.get(link)?)));
            let (link, own, other) = shared.find(|(_, own, other)| own != other)?;
            let detail = format!(
                "the active MTU of {link} ports is {} bytes on {} and {} bytes on {}",
                list(own),
                names(left),
                list(other),
                names(right)
            );
            Some(
                Draft::fail(detail)
                    .headline("the active MTU differs between the ends of the KV path")
                    .with([both(&ask::IBV_DEVINFO, (left, &words(a)), (right, &words(b)))])
                    .fix("give the interfaces and switch ports of this fabric the same MTU on all nodes"),
            )
        },
        |(a, left), (b, right)| {
            Draft::ok(format!("both ends use the same active MTU ({})", words(a))).with([both(
                &ask::IBV_DEVINFO,
                (left, &words(a)),
                (right, &words(b)),
            )])
        },
    )
}

fn list(mtus: &BTreeSet<u32>) -> String {
    let all: Vec<String> = mtus.iter().map(u32::to_string).collect();
    all.join(" and ")
}

fn words(mtus: &Mtus) -> String {
    let all: Vec<String> = mtus
        .iter()
        .map(|(link, mtus)| format!("{link} {}", list(mtus)))
        .collect();
    all.join(", ")
}

#[cfg(test)]
mod tests {
    use crate::ask;
    use crate::checks::testing::{Answers, changed, deployed, hcas, roce};
    use crate::report::Status::{Fail, Ok, Skipped};

    fn with(answers: &Answers, mtu: u32) -> Answers {
        let devinfo = format!(
            "hca_id:\tmlx5_0\n\tphys_port_cnt:\t1\n\t\tport:\t1\n\t\t\tstate:\tPORT_ACTIVE (4)\n\t\t\tmax_mtu:\t4096 (5)\n\t\t\tactive_mtu:\t{mtu} (3)\n"
        );
        changed(
            answers,
            &[
                (&ask::ENVIRONMENT, "# process 7 dynamo.vllm\n"),
                (&ask::IBV_DEVINFO, &devinfo),
            ],
        )
    }

    #[test]
    fn table_of_statuses() {
        let (ib, eth) = (hcas(&["4: ACTIVE"]), roce(1));
        let unread = changed(&ib, &[(&ask::ENVIRONMENT, "# process 7 dynamo.vllm\n")]);
        for (what, prefill, decode, wanted) in [
            ("the same", with(&eth, 1024), with(&eth, 1024), vec![Ok]),
            ("another", with(&eth, 1024), with(&eth, 4096), vec![Fail]),
            (
                "another fabric is another matter",
                with(&ib, 4096),
                with(&eth, 1024),
                vec![Ok],
            ),
            ("not read", with(&ib, 4096), unread, vec![Skipped]),
            (
                "no port",
                with(&hcas(&["1: DOWN"]), 4096),
                with(&ib, 4096),
                vec![],
            ),
        ] {
            let pods = [
                ("prefill", prefill.as_slice()),
                ("decode", decode.as_slice()),
            ];
            assert_eq!(
                deployed("mtu-differs-between-nodes", &pods),
                wanted,
                "{what}"
            );
        }
    }
}
