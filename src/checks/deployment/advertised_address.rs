use crate::ask;
use crate::check;
use crate::checks::compare::{names, settle};
use crate::checks::declare::{Draft, Outcome};
use crate::checks::pasting;
use crate::checks::{Container, DeploymentScope};
use crate::observed::{Observed, Skip};
use crate::report::SkipReason;
use crate::sanitise;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

check! {
    /// Workers tell their peers an address that is not theirs.
    ///
    /// Compared are `VLLM_NIXL_SIDE_CHANNEL_HOST` and `SGLANG_HOST_IP` of the running workers with the addresses of their pods
    /// and nodes. Loopback and wildcard addresses are judged with the variable itself.
    ///
    /// ## Why it matters
    /// Peers shake hands at that address. Where several workers tell the same one, or one tells an address that it does not
    /// have, the handshake goes to another worker or to nobody, and decode computes everything again.
    ///
    /// ## Fix
    /// Take the address from the pod: `valueFrom: {fieldRef: {fieldPath: status.podIP}}`.
    ///
    /// ## False alarms
    /// A name instead of an address is not resolved here.
    ///
    /// ## Sources
    /// vllm-project/vllm#19053; ray-project/ray#60817; sgl-project/sglang#21704.
    "DEP012" "advertised-address" on Deployment {
        subsystem: Deployment, kv_path: Supporting, worst: Fail, causes: &[], since: "0.1.0",
    }
}

/// Variables that hold the address which peers are told.
const VARIABLES: &[&str] = &["VLLM_NIXL_SIDE_CHANNEL_HOST", "SGLANG_HOST_IP"];

fn run(scope: &DeploymentScope<'_>) -> Outcome {
    scope.require_kv()?;
    let (mut drafts, mut unseen) = (Vec::new(), None);
    let mut own = None;
    for variable in VARIABLES {
        let mut told: BTreeMap<&str, Vec<&Container<'_>>> = BTreeMap::new();
        for container in scope.containers.iter().copied().filter(|c| c.moves_kv()) {
            match container.facts.process.value(variable) {
                Ok(Some(value)) => told.entry(value.trim()).or_default().push(container),
                Ok(None) => {}
                Err(skip) => unseen = unseen.or(Some(skip)),
            }
        }
        for (value, containers) in told {
            let Ok(address) = value.trim_matches(['[', ']']).parse::<IpAddr>() else {
                if !is_local(value) {
                    let detail = format!(
                        "{variable} of {} is a name, {}, which is not resolved here",
                        names(&containers),
                        sanitise::line(value, 80)
                    );
                    unseen = unseen.or(Some(Skip::new(SkipReason::Unresolved, detail)));
                }
                continue;
            };
            if is_local(value) || address.is_loopback() || address.is_unspecified() {
                continue;
            }
            match told_by(scope, variable, address, &containers) {
                Ok(Some(draft)) => drafts.push(draft),
                Ok(None) => own = own.or(Some((*variable, address, containers))),
                Err(skip) => unseen = unseen.or(Some(skip)),
            }
        }
    }
    let fine = own.map(|(variable, address, containers)| {
        let line = format!("{}: {variable}={address}", names(&containers));
        Draft::ok("the addresses that peers are told belong to the workers").with([
            crate::snapshot::evidence(&ask::ENVIRONMENT, [line.as_str()]),
        ])
    });
    settle(drafts, unseen, fine)
}

fn is_local(value: &str) -> bool {
    value.is_empty() || value.eq_ignore_ascii_case("localhost")
}

/// One address and all who tell it.
fn told_by(
    scope: &DeploymentScope<'_>,
    variable: &str,
    address: IpAddr,
    containers: &[&Container<'_>],
) -> Result<Option<Draft>, Skip> {
    let line = format!("{}: {variable}={address}", names(containers));
    let seen = crate::snapshot::evidence(&ask::ENVIRONMENT, [line.as_str()]);
    let fix = format!("take {variable} from the pod: valueFrom fieldRef status.podIP");
    let lines = pasting::pod_address(variable);
    let paste = scope.for_containers(containers.iter().copied(), &lines);
    let nodes: BTreeSet<&str> = containers
        .iter()
        .filter_map(|c| c.place.node.as_deref())
        .collect();
    if nodes.len() > 1 {
        let detail = format!(
            "{variable} is {address} on {} workers of {} nodes ({}): at most one of them has this address",
            containers.len(),
            nodes.len(),
            names(containers)
        );
        return Ok(Some(
            Draft::fail(detail)
                .headline("workers on several nodes tell their peers the same address")
                .with([seen])
                .fix(fix)
                .paste(paste),
        ));
    }
    for container in containers {
        if has(container, address)? {
            continue;
        }
        let pod = container.facts.pod.get()?;
        let words = |ip: &Option<String>| ip.clone().unwrap_or_else(|| "not known".to_owned());
        let detail = format!(
            "{variable} is {address} on {}, which is neither the pod's address ({}) nor its node's ({})",
            container.place.pod,
            words(&pod.pod_ip),
            words(&pod.host_ip)
        );
        return Ok(Some(
            Draft::fail(detail)
                .headline("a worker tells its peers an address that it does not have")
                .with([seen])
                .fix(fix)
                .paste(paste),
        ));
    }
    Ok(None)
}

/// The container has the address, by what the API or its own interfaces say.
fn has(container: &Container<'_>, address: IpAddr) -> Result<bool, Skip> {
    let is = |ip: &Option<String>| ip.as_deref().and_then(|ip| ip.parse().ok()) == Some(address);
    if let Observed::Known(pod) = &container.facts.pod
        && (is(&pod.pod_ip) || is(&pod.host_ip))
    {
        return Ok(true);
    }
    let addresses = container.facts.network.addresses.get()?;
    Ok(addresses.all.contains(&address))
}

#[cfg(test)]
mod tests {
    use crate::ask;
    use crate::checks::testing::{Answers, Fleet};
    use crate::report::Status::{self, Fail, Ok, Skipped};

    fn worker(host: &str, ip: &str) -> Answers {
        vec![
            (
                &ask::ENVIRONMENT,
                format!("# process 7 dynamo.vllm\n{host}"),
            ),
            (
                &ask::POD_SPEC,
                format!("pod-ip: {ip}\nhost-ip: 192.168.0.9\nready: true\n"),
            ),
            (
                &ask::IP_ADDR,
                format!(
                    "2: eth0    inet {ip}/24 scope global eth0\n3: net1    inet 10.8.0.7/24 scope global\n"
                ),
            ),
        ]
    }

    fn say(prefill: &Answers, decode: &Answers) -> Vec<Status> {
        let pods = [
            ("prefill", prefill.as_slice()),
            ("decode", decode.as_slice()),
        ];
        Fleet::of(&pods).statuses("advertised-address")
    }

    #[test]
    fn table_of_statuses() {
        let host = |value: &str| format!("VLLM_NIXL_SIDE_CHANNEL_HOST={value}\n");
        let of = |value: &str, ip: &str| worker(&host(value), ip);
        let unset = worker("", "10.0.1.1");
        for (what, prefill, decode, wanted) in [
            (
                "own",
                of("10.0.0.1", "10.0.0.1"),
                of("10.0.1.1", "10.0.1.1"),
                vec![Ok],
            ),
            (
                "the node's",
                of("192.168.0.9", "10.0.0.1"),
                unset.clone(),
                vec![Ok],
            ),
            (
                "of a second interface",
                of("10.8.0.7", "10.0.0.1"),
                unset.clone(),
                vec![Ok],
            ),
            (
                "the same on two nodes",
                of("10.0.0.1", "10.0.0.1"),
                of("10.0.0.1", "10.0.1.1"),
                vec![Fail],
            ),
            (
                "a foreign one",
                of("203.0.113.7", "10.0.0.1"),
                unset.clone(),
                vec![Fail],
            ),
            (
                "loopback is judged elsewhere",
                of("127.0.0.1", "10.0.0.1"),
                of("localhost", "10.0.1.1"),
                vec![],
            ),
            (
                "a name",
                of("worker-0.svc", "10.0.0.1"),
                unset.clone(),
                vec![Skipped],
            ),
            ("unset", unset.clone(), unset.clone(), vec![]),
            (
                "SGLang",
                worker("SGLANG_HOST_IP=203.0.113.7\n", "10.0.0.1"),
                unset.clone(),
                vec![Fail],
            ),
            ("not read", vec![], unset.clone(), vec![Skipped]),
            (
                "own addresses not read",
                worker(&host("10.0.0.5"), "10.0.0.1")
                    .into_iter()
                    .take(2)
                    .collect(),
                unset,
                vec![Skipped],
            ),
        ] {
            assert_eq!(say(&prefill, &decode), wanted, "{what}");
        }
    }
}
