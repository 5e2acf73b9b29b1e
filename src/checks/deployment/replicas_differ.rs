use crate::ask;
use crate::catalogue;
use crate::check;
use crate::checks::compare::{both, most_common, names, replicas};
use crate::checks::declare::{Draft, Outcome};
use crate::checks::{Container, DeploymentScope};
use crate::observed::Skip;
use crate::sanitise;
use std::collections::BTreeMap;

check! {
    /// Workers of one component run with different transport settings.
    ///
    /// One finding per variable. Compared are the settings that decide about a path and are no name of a device or address: a
    /// worker may well name the adapters and the address of its own node.
    ///
    /// ## Why it matters
    /// The router sends requests to all of them alike, so that some are fast and some are slow, and no average tells which.
    ///
    /// ## Fix
    /// Find out which pods were changed by hand, or started from another template, and start them again.
    "DEP015" "replicas-differ" on Deployment {
        subsystem: Deployment, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

/// Values of these belong to a node or a pod.
const OWN: &[&str] = &[
    "UCX_NET_DEVICES",
    "NCCL_IB_HCA",
    "NCCL_SOCKET_IFNAME",
    "VLLM_NIXL_SIDE_CHANNEL_HOST",
    "VLLM_NIXL_SIDE_CHANNEL_PORT",
    "SGLANG_HOST_IP",
    "NIXL_ETCD_ENDPOINTS",
];

type Settings = BTreeMap<&'static str, String>;

fn run(scope: &DeploymentScope<'_>) -> Outcome {
    let seen =
        |c: &Container<'_>| crate::snapshot::evidence(&ask::ENVIRONMENT, [c.place.pod.as_str()]);
    let fine = Draft::ok("the workers of each component run with the same transport settings");
    replicas(
        scope,
        settings,
        most_common,
        |(usual, most), (other, few)| {
            let mut all: Vec<&str> = usual.keys().chain(other.keys()).copied().collect();
            all.sort_unstable();
            all.dedup();
            all.retain(|name| usual.get(name) != other.get(name));
            all.into_iter()
                .map(|name| {
                    let words = |of: &Settings| match of.get(name) {
                        Some(value) => sanitise::line(value, 80),
                        None => "not set".to_owned(),
                    };
                    let detail = format!(
                        "{name} is {} on {} and {} on {}",
                        words(usual),
                        names(most),
                        words(other),
                        names(few)
                    );
                    Draft::warn(detail)
                        .headline(format!("{name} differs among workers of one component"))
                        .follows(format!("env:{name}"))
                        .with([both(
                            &ask::ENVIRONMENT,
                            (most, &words(usual)),
                            (few, &words(other)),
                        )])
                        .fix(format!(
                            "start the pods with the odd {name} again from the component's template"
                        ))
                })
                .collect()
        },
        fine.with(scope.containers.first().map(|c| seen(c))),
    )
}

fn settings(container: &Container<'_>) -> Result<Settings, Skip> {
    let all = container.facts.process.in_force()?;
    let counts = |name: &&'static str| {
        !OWN.contains(name) && catalogue::find(name).is_some_and(|v| v.critical)
    };
    Ok(all
        .iter()
        .filter(|(name, _)| counts(name))
        .map(|(name, setting)| (*name, setting.value.to_owned()))
        .collect())
}

#[cfg(test)]
mod tests {
    use crate::ask;
    use crate::checks::testing::{Answers, Fleet};
    use crate::report::Status::{self, Ok, Skipped, Warn};

    fn say(values: &[&str]) -> Vec<Status> {
        let pods: Vec<Answers> = values
            .iter()
            .map(|lines| {
                vec![(
                    &ask::ENVIRONMENT,
                    format!("# process 7 dynamo.vllm\n{lines}"),
                )]
            })
            .collect();
        let pods: Vec<_> = pods.iter().map(|p| ("decode", p.as_slice())).collect();
        Fleet::of(&pods).statuses("replicas-differ")
    }

    #[test]
    fn table_of_statuses() {
        let (rc, tcp) = ("UCX_TLS=rc,cuda\n", "UCX_TLS=tcp\n");
        assert_eq!(say(&[rc, rc, rc]), [Ok]);
        assert_eq!(say(&[rc, rc, tcp]), [Warn]);
        assert_eq!(say(&[rc, ""]), [Warn]);
        assert_eq!(
            say(&["UCX_NET_DEVICES=mlx5_0:1\n", "UCX_NET_DEVICES=mlx5_1:1\n"]),
            [Ok]
        );
        assert_eq!(say(&["NCCL_DEBUG=INFO\n", ""]), [Ok]);
        assert_eq!(say(&[rc]), []);
        let one: Answers = vec![(&ask::ENVIRONMENT, "# process 7 dynamo.vllm\n".to_owned())];
        let none: Answers = vec![];
        let fleet = Fleet::of(&[("decode", one.as_slice()), ("decode", none.as_slice())]);
        assert_eq!(fleet.statuses("replicas-differ"), [Skipped]);
    }
}
