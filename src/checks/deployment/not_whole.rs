use crate::ask;
use crate::check;
use crate::checks::compare::{component, names};
use crate::checks::declare::{Draft, Outcome};
use crate::checks::words::{counted, listed};
use crate::checks::{Container, DeploymentScope};
use crate::facts::sysfs::Backing;
use crate::manifest::workload::Role;
use crate::observed::{Observed, Skip};
use crate::report::SkipReason;
use crate::sanitise;
use std::collections::{BTreeMap, BTreeSet};

check! {
    /// Not every worker of the deployment was looked at, each as itself.
    ///
    /// Compared are the pods that were looked at with the replicas that the object asks for, with the pods that were there, and
    /// with each other.
    ///
    /// ## Why it matters
    /// A deployment is trusted when the lane of every prefill and decode pair was proven. A replica that nobody looked at is in
    /// pairs of which nothing is known; and what two workers cannot both have (a GPU, an adapter, an address) was read of one of
    /// them and stands for the other.
    ///
    /// ## Fix
    /// Wait until all replicas are there, and look again. Make a recording that contradicts itself again.
    ///
    /// ## False alarms
    /// A planner that scales a deployment without writing it into the object.
    "DEP023" "not-whole" on Deployment {
        subsystem: Deployment, kv_path: Required, worst: Skipped, causes: &[], since: "0.1.0",
    }
}

/// Roles of workers between which KV moves.
const MOVERS: [Role; 4] = [Role::Prefill, Role::Decode, Role::Encode, Role::Pd];

fn run(scope: &DeploymentScope<'_>) -> Outcome {
    scope.require_kv()?;
    if scope.containers.is_empty() {
        return Err(Skip::not_applicable());
    }
    let contradictions: Vec<String> = scope
        .strangers
        .iter()
        .cloned()
        .chain(scope.containers.iter().filter_map(|c| other_name(c)))
        .chain(twice(&scope.containers))
        .chain(shared(&scope.containers))
        .collect();
    let mut drafts: Vec<Draft> = contradictions
        .into_iter()
        .map(|why| {
            Draft::skipped(Skip::new(SkipReason::Unparsable, &why))
                .headline(format!("what was read contradicts itself: {why}"))
                .fix("look at the deployment again, without a recording that was changed")
        })
        .collect();
    drafts.extend(joined(scope));
    drafts.extend(unseen(scope).into_iter().map(|why| {
        Draft::skipped(Skip::new(SkipReason::NotFound, &why))
            .headline(why)
            .fix("find out why not every worker could be looked at: its replicas, the operator's log, the scheduler's events; then look again")
    }));
    Ok(match drafts.is_empty() {
        true => {
            let seen = counted(scope.containers.len() as u64, "worker");
            let seen_in =
                crate::snapshot::evidence(&ask::TARGET, [names(&scope.containers).as_str()]);
            vec![Draft::ok(format!("{seen} looked at, each as itself")).with([seen_in])]
        }
        false => drafts,
    })
}

/// The pods are of several deployments: which of them hand KV to each other is not known.
fn joined(scope: &DeploymentScope<'_>) -> Option<Draft> {
    let named: Vec<&str> = scope.deployments.iter().map(String::as_str).collect();
    if named.len() < 2 {
        return None;
    }
    let why = format!(
        "the pods are of {} deployments ({}), and what is said of them together may be true of none",
        named.len(),
        listed(&named)
    );
    let open = Draft::skipped(Skip::new(SkipReason::Unresolved, &why)).headline(why);
    Some(open.fix("look at each of them alone: `check NAME`, or a narrower selector (-l)"))
}

/// Workers that are there, or are asked for, and were not looked at; and ones that nothing describes.
fn unseen(scope: &DeploymentScope<'_>) -> Vec<String> {
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    for container in &scope.containers {
        *seen.entry(component(container).to_lowercase()).or_default() += 1;
    }
    let mut out: Vec<(String, String)> = Vec::new();
    let sources = [(Some(scope.workload), "there"), (scope.object, "asked for")];
    for (workload, words) in sources {
        let workers = workload.into_iter().flat_map(|workload| &workload.workers);
        for worker in workers.filter(|worker| MOVERS.contains(&worker.role)) {
            let wanted = worker.replicas.saturating_mul(worker.nodes.max(1));
            // What is there was counted by pod already.
            let wanted = if words == "there" {
                worker.replicas
            } else {
                wanted
            };
            let found = seen.get(&worker.name.to_lowercase()).copied();
            let found = found.unwrap_or_default();
            if found < wanted {
                let were = if found == 1 { "was" } else { "were" };
                out.push((
                    worker.name.clone(),
                    format!(
                        "{} of {} {} {words}, and {found} {were} looked at",
                        counted(wanted, "pod"),
                        worker.called(),
                        if wanted == 1 { "is" } else { "are" },
                    ),
                ));
            }
        }
    }
    let described = |name: &str| {
        let mut workers = scope.workload.workers.iter();
        workers.any(|worker| worker.name.eq_ignore_ascii_case(name))
    };
    for container in &scope.containers {
        let name = component(container);
        let role = container.place.role.as_deref();
        if MOVERS.iter().any(|mover| Some(mover.word()) == role)
            && container.facts.pod.known().is_some()
            && !described(name)
        {
            let pod = &container.place.pod;
            out.push((
                pod.clone(),
                format!("nothing that was read describes the component of {pod}"),
            ));
        }
    }
    let mut named = BTreeSet::new();
    // A worker that is missed in both is missed once.
    out.into_iter()
        .filter_map(|(name, why)| named.insert(name).then_some(why))
        .collect()
}

/// What was reached has another name than the pod that it is said to be: `pod llm/decode-0 container main`.
fn other_name(container: &Container<'_>) -> Option<String> {
    let said = container.snapshot.text(&ask::TARGET).ok()?;
    let path = said.strip_prefix("pod ")?.split_whitespace().next()?;
    let (_, name) = path.split_once('/')?;
    let own = &container.place.pod;
    (name != own).then(|| {
        format!(
            "what is told of {own} was read in {}",
            sanitise::line(name, 253)
        )
    })
}

/// A pod that stands there twice.
fn twice(containers: &[&Container<'_>]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let of = |c: &Container<'_>| (c.place.pod.clone(), c.place.container.clone());
    let again = containers.iter().filter(|c| !seen.insert(of(c)));
    again
        .map(|c| format!("{} stands there twice", c.place.pod))
        .collect()
}

/// What two workers tell of themselves and cannot both have: the address of a pod, and on two nodes a GPU or the adapters.
fn shared(containers: &[&Container<'_>]) -> Vec<String> {
    let mut owner: BTreeMap<(&str, String), &Container<'_>> = BTreeMap::new();
    let mut out = Vec::new();
    for container in containers.iter().copied() {
        let own: Vec<(&str, String)> = address(container)
            .map(|address| ("the pod address", address))
            .into_iter()
            .chain(gpus(container).into_iter().map(|gpu| ("the GPU", gpu)))
            .chain(adapters(container).map(|all| ("the adapters with the GUIDs", all)))
            .collect();
        let other = own.iter().find_map(|(what, id)| {
            let other = owner.get(&(*what, id.clone()))?;
            let apart = container.place.node != other.place.node;
            let cannot = *what == "the pod address" || apart;
            let another = other.place.pod != container.place.pod;
            (cannot && another).then(|| {
                format!(
                    "{} and {} tell {what} {} of themselves, which they cannot both have",
                    other.place.pod,
                    container.place.pod,
                    sanitise::line(id, 80),
                )
            })
        });
        out.extend(other);
        for key in own {
            owner.entry(key).or_insert(container);
        }
    }
    out
}

fn address(container: &Container<'_>) -> Option<String> {
    let pod = container
        .facts
        .pod
        .known()
        .filter(|pod| !pod.host_network)?;
    pod.pod_ip.clone().filter(|ip| !ip.is_empty())
}

/// Numbers that the maker gave each GPU.
fn gpus(container: &Container<'_>) -> Vec<String> {
    let Observed::Known(list) = &container.facts.gpu.list else {
        return Vec::new();
    };
    let uuids = list.iter().filter_map(|gpu| gpu.uuid.clone());
    uuids.filter(|uuid| uuid.starts_with("GPU-")).collect()
}

/// The GUIDs of its adapters together. One alone may be set by hand on several machines, and some have none.
fn adapters(container: &Container<'_>) -> Option<String> {
    let devices = container.facts.rdma.devices.known()?;
    let hardware = devices
        .iter()
        .filter(|device| device.backing != Backing::Software);
    // Those of EFA are numbers that begin anew on each machine: no maker stands in them.
    let of_a_maker = |guid: &u64| guid >> 40 != 0;
    let guids = hardware
        .filter_map(|device| device.hca.node_guid)
        .filter(of_a_maker);
    let all: BTreeSet<String> = guids.map(|guid| format!("{guid:016x}")).collect();
    (!all.is_empty()).then(|| all.into_iter().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use crate::ask;
    use crate::checks::testing::{Answers, Fleet};
    use crate::report::Status::{self, Ok, Skipped};

    fn answers(pod: &str, address: &str, gpu: &str) -> Answers {
        let spec = format!("host-network: false\npod-ip: {address}\n");
        let table = format!("index, name, uuid\n0, NVIDIA H100, GPU-{gpu}\n");
        vec![
            (&ask::TARGET, format!("pod l/{pod} container main")),
            (&ask::POD_SPEC, spec),
            (&ask::NVIDIA_SMI_QUERY, table),
        ]
    }

    fn say(decode: &Answers, nodes: &[&str]) -> Vec<Status> {
        let prefill = answers("prefill-0", "10.0.0.1", "a");
        let pods = [
            ("prefill", prefill.as_slice()),
            ("decode", decode.as_slice()),
        ];
        Fleet::of(&pods).on(nodes).statuses("not-whole")
    }

    #[test]
    fn table_of_statuses() {
        let (apart, together) = (["a", "b"], ["a", "a"]);
        for (what, decode, nodes, wanted) in [
            ("two pods", answers("decode-1", "10.0.0.2", "b"), apart, Ok),
            (
                "one address",
                answers("decode-1", "10.0.0.1", "b"),
                apart,
                Skipped,
            ),
            (
                "one GPU on two nodes",
                answers("decode-1", "10.0.0.2", "a"),
                apart,
                Skipped,
            ),
            (
                "one GPU on one node",
                answers("decode-1", "10.0.0.2", "a"),
                together,
                Ok,
            ),
            (
                "another's answers",
                answers("decode-2", "10.0.0.2", "b"),
                apart,
                Skipped,
            ),
            ("nothing was read", Answers::new(), apart, Ok),
        ] {
            assert_eq!(say(&decode, &nodes), [wanted], "{what}");
        }
    }
}
