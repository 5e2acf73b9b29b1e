use crate::ask::Ask;
use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::words::listed;
use crate::facts::container::rdma::Conflict;
use crate::observed::Skip;
use crate::snapshot::evidence;

check! {
    /// Pasted outputs contradict each other about the RDMA devices or the state of a port.
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
    /// worker has only those of its container.
    ///
    /// ## Sources
    /// All of these tools read `/sys/class/infiniband`: rdma-core `libibverbs/examples/devinfo.c`, `infiniband-diags/ibstat.c`.
    "RDMA019" "pasted-outputs-differ" on Container {
        subsystem: Rdma, kv_path: Supporting, worst: Warn, causes: &[], since: "0.2.0",
    }
}

fn run(container: &Container<'_>) -> Outcome {
    let conflicts = &container.facts.rdma.conflicts;
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
        let seen = [evidence(one, lines(one)), evidence(other, lines(other))];
        Draft::warn(detail).with(seen).fix(fix).headline(format!(
            "{} and {} contradict each other",
            one.shown_as, other.shown_as
        ))
    });
    Ok(drafts.collect())
}

#[cfg(test)]
mod tests {
    use super::run;
    use crate::ask::{self, Ask};
    use crate::checks::testing::{container, outcome, pasted};
    use crate::report::SkipReason;

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
}
