use crate::ask::Ask;
use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::words::listed;
use crate::facts::container::Conflict;
use crate::observed::Skip;
use crate::snapshot::evidence;

check! {
    /// Pasted outputs contradict each other about the RDMA devices, the state of a port or the GPUs.
    ///
    /// Only for outputs that a person hands in. What they tell differently counts as not known, and is not judged.
    ///
    /// ## Why it matters
    /// They come from two machines or containers, or from two moments, and a verdict from both together would be about
    /// neither.
    ///
    /// ## Fix
    /// Print all of them in the same container, one after the other, and paste them again.
    ///
    /// ## False alarms
    /// `ibstat` on the host shows devices that `ibv_devinfo` in a container does not: that is no fault of a tool, and the
    /// worker has only those of its container. `nvidia-smi nvlink -s -i 0,1` shows two GPUs of more: paste it without `-i`.
    ///
    /// ## Sources
    /// All of these tools read `/sys/class/infiniband`: rdma-core `libibverbs/examples/devinfo.c`, `infiniband-diags/ibstat.c`.
    "RDMA019" "pasted-outputs-differ" on Container {
        subsystem: Rdma, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

fn run(container: &Container<'_>) -> Outcome {
    let facts = &container.facts;
    let conflicts: Vec<&Conflict> = [&facts.rdma.conflicts, &facts.gpu.conflicts]
        .into_iter()
        .flatten()
        .collect();
    if conflicts.is_empty() {
        return Err(Skip::not_applicable());
    }
    // Each two outputs once, in the order of the first contradiction.
    let mut pairs: Vec<Vec<&Conflict>> = Vec::new();
    for conflict in conflicts {
        match pairs
            .iter_mut()
            .find(|pair| pair[0].asks() == conflict.asks())
        {
            Some(pair) => pair.push(conflict),
            None => pairs.push(vec![conflict]),
        }
    }
    let fix = "print all outputs in the same container at the same time, and paste them again";
    let drafts = pairs.into_iter().map(|pair| {
        let said: Vec<String> = pair
            .iter()
            .map(|conflict| {
                let ((one, said), (other, contrary)) = (&conflict.one, &conflict.other);
                if one.id == other.id {
                    return format!("{} shows {said} and {contrary}", one.shown_as);
                }
                format!(
                    "{} shows {said}, and {} shows {contrary}",
                    one.shown_as, other.shown_as
                )
            })
            .collect();
        let said: Vec<&str> = said.iter().map(String::as_str).collect();
        let (one, other) = (pair[0].one.0, pair[0].other.0);
        let detail = format!(
            "{}: they are not of one place and time, or a copy is cut",
            listed(&said)
        );
        let lines = |ask: &Ask| -> Vec<&str> {
            pair.iter()
                .flat_map(|conflict| [&conflict.one, &conflict.other])
                .filter(|(by, _)| by.id == ask.id)
                .map(|(_, line)| line.as_str())
                .collect()
        };
        let mut seen = vec![evidence(one, lines(one))];
        if other.id != one.id {
            seen.push(evidence(other, lines(other)));
        }
        let headline = pair[0].between();
        Draft::warn(detail).with(seen).fix(fix).headline(headline)
    });
    Ok(drafts.collect())
}

#[cfg(test)]
mod tests {
    use super::run;
    use crate::ask::{self, Ask};
    use crate::checks::run_through;
    use crate::checks::testing::{container, outcome, pasted};
    use crate::report::{Finding, SkipReason, Status};

    const DEVINFO: &str = "hca_id:\tmlx5_0\n\ttransport:\tInfiniBand (0)\n\tvendor_id:\t0x02c9\n\t\tport:\t1\n\
                           \t\t\tstate:\tPORT_ACTIVE (4)\n\t\t\tlink_layer:\tInfiniBand\n";

    fn ibstat(ports: &[(&str, &str)]) -> String {
        let ca = |(name, state): &(&str, &str)| {
            format!(
                "CA '{name}'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: {state}\n\
                 \t\tPhysical state: LinkUp\n\t\tRate: 400\n\t\tBase lid: 5\n\t\tSM lid: 1\n\t\tLink layer: InfiniBand\n"
            )
        };
        ports.iter().map(ca).collect()
    }

    fn details(answers: &[(&Ask, &str)]) -> Vec<String> {
        match outcome(run, &pasted(answers)) {
            Ok(drafts) => drafts.into_iter().map(|draft| draft.detail).collect(),
            Err(skip) => {
                assert_eq!(skip.reason, SkipReason::NotApplicable);
                Vec::new()
            }
        }
    }

    #[test]
    fn each_contradiction_names_both_outputs() {
        let same = ibstat(&[("mlx5_0", "Active")]);
        let other_state = ibstat(&[("mlx5_0", "Down")]);
        let more = ibstat(&[("mlx5_0", "Active"), ("mlx5_1", "Active")]);
        let none = "No IB devices found\n";
        let gids = "mlx5_9\t1\t3\t0000:0000:0000:0000:0000:ffff:0a00:0001\t10.0.0.1\tv2\teth0\n";
        let netdev = "mlx5_0 port 1 ==> ib0 (Up)\n";
        let (verbs, stat) = (&ask::IBV_DEVINFO, &ask::IBSTAT);
        for (answers, words) in [
            (vec![(verbs, DEVINFO), (stat, same.as_str())], ""),
            (vec![(stat, &more), (&ask::IBDEV2NETDEV, netdev)], ""),
            (
                vec![(verbs, DEVINFO), (stat, &other_state)],
                "ibv_devinfo shows mlx5_0:1 ACTIVE, and ibstat shows mlx5_0:1 DOWN",
            ),
            (
                vec![(verbs, DEVINFO), (stat, &more)],
                "ibstat shows mlx5_1, and ibv_devinfo shows no mlx5_1",
            ),
            (
                vec![(verbs, none), (stat, &same)],
                "ibstat shows mlx5_0, and ibv_devinfo shows no mlx5_0",
            ),
            (
                vec![(stat, &same), (&ask::SHOW_GIDS, gids)],
                "show_gids shows mlx5_9, and ibstat shows no mlx5_9",
            ),
        ] {
            let said = details(&answers);
            // One finding for each two outputs, whatever they differ in.
            let expected = usize::from(!words.is_empty());
            assert_eq!(said.len(), expected, "{words}: {said:?}");
            assert!(
                said.iter().all(|s| s.starts_with(words)),
                "{words}: {said:?}"
            );
        }
    }

    #[test]
    fn a_disputed_state_is_not_judged() {
        let down = ibstat(&[("mlx5_0", "Down")]);
        let answers = [(&ask::IBV_DEVINFO, DEVINFO), (&ask::IBSTAT, down.as_str())];
        let facts = crate::facts::container::Facts::read(&pasted(&answers));
        assert_eq!(facts.rdma.own_ports().unwrap()[0].1.state, None);
        assert!(facts.rdma.usable_ports().unwrap().is_empty());
        // A machine that was probed is read once, by its own files first.
        let probed = crate::facts::container::Facts::read(&container("decode", &answers));
        assert!(probed.rdma.conflicts.is_empty());
    }

    fn matrix(gpus: usize) -> String {
        let names: Vec<String> = (0..gpus).map(|gpu| format!("GPU{gpu}")).collect();
        let mut out = format!("\t{}\n", names.join("\t"));
        for (row, name) in names.iter().enumerate() {
            let cell = |column| if column == row { " X " } else { "NV18" };
            let cells: Vec<&str> = (0..gpus).map(cell).collect();
            out.push_str(&format!("{name}\t{}\n", cells.join("\t")));
        }
        out
    }

    fn query(attached: usize, shown: usize) -> String {
        let gpu = |n: usize| {
            format!(
                "GPU 00000000:{n:02}:00.0\n    Product Name : NVIDIA H100 80GB HBM3\n    Fabric\n        State : Completed\n\
                 \x20       Status : Success\n"
            )
        };
        let gpus: String = (1..=shown).map(gpu).collect();
        format!("Driver Version : 580.95.05\nAttached GPUs : {attached}\n{gpus}")
    }

    fn links(gpus: usize) -> String {
        let link = |n: usize| format!("\t Link {n}: 26.562 GB/s\n");
        let links: String = (0..18).map(link).collect();
        let gpu = |n: usize| format!("GPU {n}: NVIDIA H100 80GB HBM3 (UUID: GPU-{n})\n{links}");
        (0..gpus).map(gpu).collect()
    }

    #[test]
    fn outputs_of_different_gpus_make_nothing_ok() {
        type Row<'a> = (&'a [(&'a Ask, String)], Option<&'a str>);
        let rows: &[Row<'_>] = &[
            (
                &[
                    (&ask::NVIDIA_SMI_TOPO, matrix(4)),
                    (&ask::SMI_Q, query(2, 2)),
                ],
                Some("nvidia-smi topo -m shows 4 GPUs, and nvidia-smi -q shows 2 GPUs"),
            ),
            (
                &[
                    (&ask::NVIDIA_SMI_TOPO, matrix(4)),
                    (&ask::NVIDIA_SMI_NVLINK, links(2)),
                ],
                Some("nvidia-smi topo -m shows 4 GPUs, and nvidia-smi nvlink -s shows 2 GPUs"),
            ),
            (
                &[
                    (&ask::SMI_Q, query(1, 1)),
                    (&ask::NVIDIA_SMI_NVLINK, links(2)),
                ],
                Some("nvidia-smi -q shows 1 GPU, and nvidia-smi nvlink -s shows 2 GPUs"),
            ),
            (
                &[
                    (&ask::NVIDIA_SMI_TOPO, matrix(4)),
                    (&ask::SMI_Q, query(4, 1)),
                ],
                None,
            ),
            // Other products, and links that only one of the two shows.
            (
                &[
                    (&ask::SMI_Q, query(2, 2)),
                    (
                        &ask::NVIDIA_SMI_NVLINK,
                        links(2).replace("H100 80GB HBM3", "H200"),
                    ),
                ],
                Some(
                    "nvidia-smi -q shows NVIDIA H100 80GB HBM3, and nvidia-smi nvlink -s shows NVIDIA H200",
                ),
            ),
            (
                &[
                    (&ask::NVIDIA_SMI_TOPO, matrix(4)),
                    (&ask::SMI_Q, query(4, 4)),
                    (
                        &ask::NVIDIA_SMI_NVLINK,
                        links(4).replace("26.562 GB/s", "<inactive>"),
                    ),
                ],
                Some(
                    "nvidia-smi topo -m shows NV18 of GPU 0, and nvidia-smi nvlink -s shows 0 active links of GPU 0",
                ),
            ),
            (
                &[
                    (&ask::NVIDIA_SMI_TOPO, matrix(4)),
                    (&ask::SMI_Q, query(4, 4)),
                    (&ask::NVIDIA_SMI_NVLINK, links(4)),
                ],
                None,
            ),
            // `nvlink -s -i 0`, and a copy that breaks off.
            (
                &[
                    (&ask::NVIDIA_SMI_TOPO, matrix(4)),
                    (&ask::NVIDIA_SMI_NVLINK, links(1)),
                ],
                None,
            ),
            (
                &[
                    (&ask::NVIDIA_SMI_TOPO, matrix(4)),
                    (
                        &ask::NVIDIA_SMI_NVLINK,
                        links(2) + "GPU 2: NVIDIA H100 80GB HBM3 (UUID: GPU-2)\n",
                    ),
                ],
                None,
            ),
        ];
        for (answers, wanted) in rows {
            let answers: Vec<(&Ask, &str)> = answers
                .iter()
                .map(|(ask, text)| (*ask, text.as_str()))
                .collect();
            let said = details(&answers);
            assert_eq!(said.len(), usize::from(wanted.is_some()), "{said:?}");
            for (said, wanted) in said.iter().zip(*wanted) {
                assert!(said.starts_with(wanted), "{said}");
            }
            let found = run_through(vec![pasted(&answers).into()]);
            let fine = |f: &&Finding| f.id.starts_with("GPU") && f.status == Status::Ok;
            let fine: Vec<&str> = found
                .iter()
                .filter(fine)
                .map(|f| f.detail.as_str())
                .collect();
            assert_eq!(fine.is_empty(), wanted.is_some(), "{fine:?}");
        }
    }

    #[test]
    fn an_output_that_contradicts_itself_is_named_once() {
        let status = |state: &str| {
            format!(
                "Infiniband device 'mlx5_0' port 1 status:\n\tdefault gid:\t fe80::1\n\tbase lid:\t 0x1\n\tsm lid:\t\t 0x1\n\
                 \tstate:\t\t {state}\n\tphys state:\t 5: LinkUp\n\trate:\t\t 400 Gb/sec (4X NDR)\n\tlink_layer:\t InfiniBand\n"
            )
        };
        let text = status("4: ACTIVE") + &status("1: DOWN");
        let drafts = outcome(run, &pasted(&[(&ask::IBSTATUS, &text)])).unwrap();
        assert_eq!(drafts.len(), 1);
        let draft = &drafts[0];
        assert!(
            draft
                .detail
                .starts_with("ibstatus shows mlx5_0:1 ACTIVE and mlx5_0:1 DOWN"),
            "{}",
            draft.detail
        );
        let headline = draft.headline.as_deref();
        assert_eq!(headline, Some("ibstatus contradicts itself"));
        assert_eq!(draft.evidence.len(), 1);
    }
}
