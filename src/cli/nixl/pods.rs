//! Transfers between containers over the Kubernetes API.

use super::{Arguments, Collected, HowArguments, Moved, PairFacts, learn, one_pair};
use crate::catalogue;
use crate::cli::node::stop_on_interrupt;
use crate::cli::progress::Bar;
use crate::cluster::connect::Cluster;
use crate::cluster::pods;
use crate::cluster::run::{Schedule, Stop};
use crate::collect;
use crate::collect::pods::Wanted;
use crate::probe::pod_exec::ExecTarget;
use crate::report::{InputError, Note, TRANSFER};
use crate::snapshot::{Folded, Place};
use crate::transfer::plan::{Pair, Plan};
use crate::transfer::pod::Pod;
use crate::transfer::rounds::{Outcome, Progress};
use crate::transfer::{Halt, run_rounds};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What is left of the deadline after connecting may be less than a pod needs at least.
const LEAST: Duration = Duration::from_millis(200);

/// [`transfers`] until somebody asks for the end; what was done until then is the result.
pub(super) async fn until_interrupted(arguments: &Arguments, end: Instant) -> Moved {
    let stop = stop_on_interrupt();
    let mut moved = transfers(arguments, end, &stop).await;
    moved.collected.interrupted = stop.is_asked();
    moved
}

/// Probes the ends and, with `--transfer`, moves data between them.
async fn transfers(arguments: &Arguments, end: Instant, stop: &Stop) -> Moved {
    let targets = &arguments.targets;
    let left = || end.saturating_duration_since(Instant::now()).max(LEAST);
    let cluster = tokio::select! {
        connected = targets.connect(end) => match connected {
            Ok(cluster) => cluster,
            Err(message) => return Collected::error("Kubernetes API".to_owned(), message).into(),
        },
        () = stop.asked() => return Moved::default(),
    };
    let namespace = targets
        .namespace
        .clone()
        .unwrap_or_else(|| cluster.namespace.clone());
    let mut collected = Collected::default();
    let (wanted, sides) = tokio::select! {
        found = async {
            tokio::join!(
                wanted(arguments, &cluster, &namespace),
                access(arguments, &cluster, &namespace)
            )
        } => {
            let ((wanted, sides, errors), access) = found;
            collected.errors.extend(errors);
            collected.notes.extend(access);
            (wanted, sides)
        }
        () = stop.asked() => return collected.into(),
    };
    let schedule = Schedule {
        parallel: targets.parallel,
        each: Duration::from_secs(targets.timeout),
        all: left(),
    };
    let names = wanted
        .iter()
        .map(|w| crate::sanitise::line(w.name().1, 60))
        .collect();
    let bar = Bar::new("probing", names);
    let done = |index| bar.done(index);
    let container = targets.container.as_deref();
    let mut snapshots =
        collect::pods::probe(&cluster, wanted, container, schedule, stop.clone(), done).await;
    bar.finish();
    let (pairs, of) = if arguments.transfer {
        let moves = Moves {
            how: &arguments.how,
            own: arguments.own,
            sample: arguments.sample.map(NonZeroUsize::get),
            parallel: targets.parallel.get(),
            end,
            stop,
        };
        let (made, errors) = moved(&moves, &cluster, &mut snapshots, &sides).await;
        // That there is nobody to transfer with was said when nobody was found.
        if !collected.errors.iter().any(|e| e.object == TRANSFER) {
            collected.errors.extend(errors);
        }
        made
    } else {
        (Vec::new(), 0)
    };
    collected.snapshots = snapshots;
    Moved {
        collected,
        pairs,
        of,
    }
}

/// What this user may not do, by namespace.
async fn access(arguments: &Arguments, cluster: &Cluster, namespace: &str) -> Vec<Note> {
    let list = arguments.targets.selector.is_some() || arguments.pods.is_some();
    let mut namespaces = BTreeSet::new();
    match &arguments.pods {
        Some((prefill, decode)) => namespaces
            .extend([prefill, decode].map(|role| role.namespace.as_deref().unwrap_or(namespace))),
        None => _ = namespaces.insert(namespace),
    }
    let mut notes = Vec::new();
    for namespace in namespaces {
        let missing = arguments.targets.missing_access(cluster, namespace, list);
        notes.extend(missing.await);
    }
    notes
}

/// Positions of the ends among the snapshots: targets (prefill) and initiators (decode).
#[derive(Default)]
pub(in crate::cli) struct Sides {
    pub(in crate::cli) targets: Vec<usize>,
    pub(in crate::cli) initiators: Vec<usize>,
}

async fn wanted(
    arguments: &Arguments,
    cluster: &Cluster,
    namespace: &str,
) -> (Vec<Wanted>, Sides, Vec<InputError>) {
    let mut sides = Sides::default();
    let mut errors = Vec::new();
    let Some((prefill, decode)) = &arguments.pods else {
        let mut wanted = match arguments.targets.wanted(cluster, namespace).await {
            Ok(wanted) => wanted,
            Err((wanted, error)) => {
                errors.push(error);
                wanted
            }
        };
        if arguments.own && wanted.len() > 1 {
            let names: Vec<&str> = wanted.iter().map(|w| w.name().1).collect();
            errors.push(InputError {
                object: TRANSFER.to_owned(),
                message: crate::sanitise::line(
                    &format!(
                        "no transfer was made: --self takes one pod, and the selector matches {} ({}); name one with --pod",
                        names.len(),
                        crate::checks::words::listed(&names)
                    ),
                    1000,
                ),
            });
        } else if arguments.own {
            sides = Sides {
                targets: vec![0],
                initiators: vec![0],
            };
        } else if let Some(peer) = &arguments.peer {
            wanted.truncate(1);
            sides = Sides {
                targets: vec![1],
                initiators: vec![0],
            };
            wanted.push(Wanted::Named {
                namespace: namespace.to_owned(),
                name: peer.clone(),
            });
        }
        return (wanted, sides, errors);
    };
    let catalogued = |name: &str| catalogue::find(name).is_some();
    let mut all = Vec::new();
    let mut known: BTreeMap<(String, String), usize> = BTreeMap::new();
    for (word, role, side) in [
        ("prefill", prefill, &mut sides.targets),
        ("decode", decode, &mut sides.initiators),
    ] {
        let namespace = role.namespace.as_deref().unwrap_or(namespace);
        let selector = crate::sanitise::line(&role.selector, 200);
        let undone = |why: String| InputError {
            object: TRANSFER.to_owned(),
            message: format!("no transfer was made: {why}"),
        };
        let listed = pods::selected(cluster, namespace, &role.selector, &catalogued).await;
        let broken = listed.as_ref().ok().map(|listed| &listed.broken);
        let broken = broken.and_then(|broken| pods::not_understood(namespace, broken));
        let all_understood = broken.is_none();
        errors.extend(broken);
        match listed.map(|listed| listed.found) {
            Ok(found) if found.is_empty() && all_understood => errors.push(undone(format!(
                "no pod in namespace {} matches {selector} ({word}); check --pods and -n",
                crate::sanitise::line(namespace, 80)
            ))),
            Ok(found) => {
                for pod in found {
                    // One that both selectors match is looked at once; the plan refuses it with its name.
                    let name = (namespace.to_owned(), pod.name.clone());
                    let at = *known.entry(name).or_insert(all.len());
                    side.push(at);
                    if at == all.len() {
                        all.push(Wanted::Found(Box::new(pod)));
                    }
                }
            }
            Err(error) => errors.push(undone(format!("{selector} ({word}): {error}"))),
        }
    }
    (all, sides, errors)
}

/// Transfers that are to be made.
pub(in crate::cli) struct Moves<'a> {
    /// How.
    pub(in crate::cli) how: &'a HowArguments,
    /// Both ends are one container.
    pub(in crate::cli) own: bool,
    /// So many of all pairs, or all.
    pub(in crate::cli) sample: Option<usize>,
    /// So many at the same time.
    pub(in crate::cli) parallel: usize,
    /// Until then.
    pub(in crate::cli) end: Instant,
    /// Until somebody asks for the end.
    pub(in crate::cli) stop: &'a Stop,
}

/// Makes the transfers, until the time is over or somebody asks for the end. What was made of all that there are, and what
/// kept the others from being made; what the agents loaded is added to the snapshots.
pub(in crate::cli) async fn moved(
    moves: &Moves<'_>,
    cluster: &Cluster,
    snapshots: &mut [Folded],
    sides: &Sides,
) -> ((Vec<PairFacts>, usize), Vec<InputError>) {
    let Moves { end, stop, .. } = *moves;
    let mut errors = Vec::new();
    let ends: Arc<Vec<(Pod, Folded)>> = Arc::new(
        snapshots
            .iter()
            .map(|s| (place(cluster, s.place()), s.clone()))
            .collect(),
    );
    let go_on = || !stop.is_asked() && Instant::now() < end;
    let halt = |stop: Stop| async move {
        tokio::select! {
            () = stop.asked() => Halt::Interrupted,
            () = tokio::time::sleep_until(end.into()) => Halt::Deadline,
        }
    };
    let choice = moves.how.choice(moves.own);
    // One pod that both selectors match is no pair; the plan says so.
    if let ([target], [initiator]) = (sides.targets.as_slice(), sides.initiators.as_slice())
        && (moves.own || target != initiator)
    {
        let (Some((a, x)), Some((b, y))) = (ends.get(*target), ends.get(*initiator)) else {
            return ((Vec::new(), 0), errors);
        };
        if !go_on() {
            errors.extend(left_undone(0, 1, stop));
            return ((Vec::new(), 1), errors);
        }
        let (x, y) = (x.open(), y.open());
        let made = one_pair(&choice, (a, &x), (b, &y), halt(stop.clone())).await;
        for (end, software) in [*target, *initiator].into_iter().zip(made.software) {
            snapshots[end].edit(|snapshot| learn(snapshot, software));
        }
        return ((vec![made.facts], 1), errors);
    }
    let names = |side: &[usize]| {
        side.iter()
            .map(|i| {
                let place = snapshots[*i].place();
                format!(
                    "{}/{}",
                    place.namespace.as_deref().unwrap_or_default(),
                    place.pod
                )
            })
            .collect::<Vec<_>>()
    };
    let plan = match Plan::new(
        &names(&sides.targets),
        &names(&sides.initiators),
        moves.sample,
        1,
    ) {
        Ok(plan) => plan,
        Err(error) => {
            errors.push(InputError {
                object: TRANSFER.to_owned(),
                message: format!("no transfer was made: {error}"),
            });
            return ((Vec::new(), 0), errors);
        }
    };
    let (targets, initiators) = (sides.targets.clone(), sides.initiators.clone());
    let bar = Bar::counting("transferring", plan.pairs());
    let transfer = |pair: Pair| {
        let (ends, choice, halt) = (Arc::clone(&ends), choice.clone(), halt(stop.clone()));
        let (target, initiator) = (targets[pair.prefill], initiators[pair.decode]);
        async move {
            let ((a, x), (b, y)) = (&ends[target], &ends[initiator]);
            let (x, y) = (x.open(), y.open());
            one_pair(&choice, (a, &x), (b, &y), halt).await
        }
    };
    let parallel = moves.parallel;
    let progress = |p: Progress| bar.left(p.done, p.left);
    let results = run_rounds(&plan, parallel, go_on, transfer, progress).await;
    bar.finish();
    errors.extend(left_undone(results.len(), plan.pairs(), stop));
    let mut facts = Vec::new();
    for (pair, outcome) in results {
        let (target, initiator) = (sides.targets[pair.prefill], sides.initiators[pair.decode]);
        match outcome {
            Outcome::Done(made) => {
                for (end, software) in [target, initiator].into_iter().zip(made.software) {
                    snapshots[end].edit(|snapshot| learn(snapshot, software));
                }
                facts.push(made.facts);
            }
            Outcome::Broken(why) => errors.push(InputError {
                object: format!(
                    "transfer {} -> {}",
                    snapshots[initiator].place().pod,
                    snapshots[target].place().pod
                ),
                message: format!(
                    "a defect of this tool ended it: {}",
                    crate::sanitise::line(&why, 200)
                ),
            }),
        }
    }
    ((facts, plan.of), errors)
}

/// What is said where the time was over before all transfers that were asked for were made. Whoever asked for the end
/// knows why.
fn left_undone(made: usize, asked: usize, stop: &Stop) -> Option<InputError> {
    let left = asked.saturating_sub(made);
    let what = match (left, made) {
        (0, _) => return None,
        (_, 0) => "no transfer was made".to_owned(),
        (left, _) => format!("{left} of {asked} transfers were not made"),
    };
    (!stop.is_asked()).then(|| InputError {
        object: TRANSFER.to_owned(),
        message: format!(
            "{what}, because the time of the whole run (--deadline) was over; give it more seconds, make the transfers \
             --quick, or take a sample of the pairs (--sample)"
        ),
    })
}

fn place(cluster: &Cluster, place: &Place) -> Pod {
    let at = ExecTarget {
        namespace: place.namespace.clone().unwrap_or_default(),
        pod: place.pod.clone(),
        container: place.container.clone(),
    };
    Pod {
        client: cluster.client.clone(),
        at,
    }
}
