//! A deployment in a cluster, from what was read of it to its report. Pure: a recording gives the same report as the run
//! that made it.

mod ends;

use crate::ask;
use crate::baseline::{self, Baseline};
use crate::budget;
use crate::checks::words::{self, listed};
use crate::checks::{self, Subject, Whole};
use crate::environment::{self, Above};
use crate::facts::container::Facts;
use crate::facts::hca::LinkLayer;
use crate::facts::pair::PairFacts;
use crate::hosting;
use crate::manifest::workload::{Worker, Workload};
use crate::manifest::{self, Inventory, Text, view};
use crate::report::{
    Evidence, Finding, GapKind, InputError, NotSeen, Note, PODS_LIST, Pairs, Report, SkipReason,
    TRANSFER, Trust, first_fault,
};
use crate::sanitise;
use crate::selected::Selection;
use crate::snapshot::{Bundle, Deployment, Folded, Origin, PlaceKind, over};
use crate::source::{SourceFile, Spot};
use crate::target::Target;
pub use ends::end;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The inventories of one deployment.
pub struct Described {
    /// As it runs; where no pod could be seen, as it is written.
    pub running: Inventory,
    /// As the user's files describe it.
    pub recipe: Option<Inventory>,
    /// As the object in the cluster describes it.
    pub object: Option<Inventory>,
}

impl Described {
    /// Reads the texts of a record. `recipe`: the files that say what was meant.
    pub fn read(record: &Deployment, recipe: Option<Inventory>) -> Self {
        let object = one(record, inventory(record, Origin::Object));
        let mut running = inventory(record, Origin::Pods);
        running.workloads.truncate(1);
        let here = only(&running).or(object.as_ref().and_then(only));
        let recipe = recipe
            .and_then(|r| one(record, r))
            .filter(|r| !is_of_another(record, r, here));
        let written = recipe.as_ref().or(object.as_ref());
        let meant = written.and_then(only);
        if let (Some(workload), Some(meant)) = (running.workloads.first_mut(), meant) {
            // The other role may have no pod now.
            workload.disaggregated |= meant.disaggregated && !workload.mocker;
            workload.multinode |= meant.multinode;
            workload.kind.clone_from(&meant.kind);
            if workload.framework.is_none() {
                workload.framework.clone_from(&meant.framework);
            }
        }
        if running.workloads.is_empty() {
            running = one(record, inventory(record, Origin::Object)).unwrap_or_default();
        }
        Self {
            running,
            recipe,
            object,
        }
    }

    /// As the user's files, else the object in the cluster, describe it.
    pub fn written(&self) -> Option<&Workload> {
        let written = self.recipe.as_ref().or(self.object.as_ref());
        written.and_then(only)
    }

    /// The deployment itself.
    pub fn workload(&self) -> Option<&Workload> {
        only(&self.running)
    }

    /// Gives containers the role that their component has by everything that is known of it: labels say it of the
    /// operator's pods, flags of others.
    pub fn assign(&self, snapshots: &mut [Folded]) {
        let Some(workload) = self.workload() else {
            return;
        };
        for snapshot in snapshots {
            let worker = worker_of(snapshot, workload);
            let place = snapshot.place_mut();
            if let Some(worker) = worker {
                place.role = Some(worker.role.word().to_owned());
            }
            place.workload = Some(workload.name.clone());
        }
    }
}

/// Leaves out pods that are over where all that are written of their component are ready without them, and says so of each.
fn leave_out(described: &Described, record: &Deployment, snapshots: &mut Vec<Folded>) -> Vec<Note> {
    let Some(written) = described.written() else {
        return Vec::new();
    };
    let over = |snapshot: &Folded| {
        let detail = snapshot.near().text(&ask::TARGET).err()?.detail;
        let why = words::why_not_running(&detail)?;
        over::is(why).then(|| why.to_owned())
    };
    // What took part in a transfer did run.
    let moved = |pod: &str| {
        let mut ends = record
            .transfers
            .iter()
            .flat_map(|t| [&t.initiator, &t.target]);
        ends.any(|end| end.split('/').any(|part| part == pod))
    };
    let meant = |snapshot: &Folded| {
        let place = snapshot.place();
        let pod = Facts::pod(snapshot.near());
        let component = pod.known().and_then(|pod| pod.component.as_deref());
        let named = |w: &&Worker| component.is_some_and(|name| w.name.eq_ignore_ascii_case(name));
        let of_role = |w: &&Worker| Some(w.role.word()) == place.role.as_deref();
        let workers = || written.workers.iter();
        let alone = || {
            let mut all = workers().filter(of_role);
            all.next().filter(|_| all.next().is_none())
        };
        workers().find(named).or_else(alone)
    };
    let mut ready: BTreeMap<&str, u64> = BTreeMap::new();
    for snapshot in snapshots.iter() {
        let pod = Facts::pod(snapshot.near());
        if let Some(worker) = meant(snapshot)
            && pod.known().is_some_and(|pod| pod.ready == Some(true))
            && over(snapshot).is_none()
        {
            *ready.entry(&worker.name).or_default() += 1;
        }
    }
    let mut notes = Vec::new();
    snapshots.retain(|snapshot| {
        let place = snapshot.place();
        let (Some(why), Some(worker)) = (over(snapshot), meant(snapshot)) else {
            return true;
        };
        let wanted = worker.replicas.saturating_mul(worker.nodes.max(1));
        let there = ready.get(worker.name.as_str()).copied().unwrap_or_default();
        if there == 0 || there < wanted || moved(&place.pod) {
            return true;
        }
        let are = match there {
            1 => "the worker that is written is ready without it".to_owned(),
            n => format!("{n} workers are ready without it, and {wanted} are written"),
        };
        let object = match &place.namespace {
            Some(namespace) => format!("pod {namespace}/{}", place.pod),
            None => format!("pod {}", place.pod),
        };
        let message = format!(
            "{why}; it counts as no {} worker: {are}",
            worker.role.word()
        );
        notes.push(Note {
            object: sanitise::line(&object, 600),
            message: sanitise::line(&message, 1_000),
        });
        false
    });
    notes
}

/// What was read of another deployment than this one, in words. Pods that a selector found may be of several.
fn strangers(record: &Deployment, described: &Described, snapshots: &[Folded]) -> Vec<String> {
    let mut out = Vec::new();
    if record.name.is_empty() || record.is_of_selector() {
        return out;
    }
    let own = described.object.iter().chain([&described.running]);
    for workload in own.filter_map(only) {
        if record.is_another_than(&workload.name) {
            let of = sanitise::line(&workload.name, 253);
            out.push(format!(
                "the manifests are of {of} and not of {}",
                record.name
            ));
        }
    }
    for place in snapshots.iter().map(Folded::place) {
        let differs = |of: &Option<String>, own: Option<&str>| {
            of.clone().filter(|of| own.is_some_and(|own| own != of))
        };
        let other = differs(&place.workload, Some(&record.name)).map(|of| ("", of));
        let namespace = record.namespace.as_deref();
        let other = other.or_else(|| Some(("namespace ", differs(&place.namespace, namespace)?)));
        if let Some((what, of)) = other {
            let of = sanitise::line(&of, 253);
            out.push(format!("{} was read as a pod of {what}{of}", place.pod));
        }
    }
    out.sort();
    out.dedup();
    out
}

/// The deployments that pods say they are of, where a selector found them.
fn deployments(record: &Deployment, snapshots: &[Folded]) -> Vec<String> {
    if !record.is_of_selector() {
        return Vec::new();
    }
    let named = snapshots
        .iter()
        .filter_map(|s| s.place().workload.as_deref());
    let named: BTreeSet<&str> = named.collect();
    let shown = named.into_iter().map(|name| sanitise::line(name, 253));
    shown.collect()
}

/// What is said where pods were looked at and nothing describes them: most of what is judged is written there.
fn undescribed(
    record: &Deployment,
    described: &Described,
    snapshots: &[Folded],
) -> Option<InputError> {
    let pods = snapshots.iter().any(|s| s.place().kind == PlaceKind::Pod);
    if !pods || only(&inventory(record, Origin::Pods)).is_some() {
        return None;
    }
    let left = match described.workload() {
        Some(_) => "what runs was held against what is written alone",
        None => "what they were started with is not known",
    };
    Some(InputError {
        object: format!(
            "the description of the pods of {}",
            sanitise::line(&record.name, 253)
        ),
        message: format!(
            "nothing in the recording describes the pods that were looked at, so {left}; record the deployment again"
        ),
    })
}

/// The worker that a container is a replica of, by the component that its pod is said to be of.
fn worker_of<'a>(snapshot: &Folded, workload: &'a Workload) -> Option<&'a Worker> {
    let component = match Facts::pod(snapshot.near()).get() {
        Ok(pod) => pod.component.clone()?,
        Err(_) => return None,
    };
    workload.workers.iter().find(|w| w.name == component)
}

fn inventory(record: &Deployment, origin: Origin) -> Inventory {
    let texts: Vec<Text> = record
        .manifests
        .iter()
        .filter(|manifest| manifest.origin == origin)
        .map(|manifest| Text {
            source: Arc::new(SourceFile {
                path: manifest.path.clone(),
                text: manifest.text.clone(),
            }),
            named: true,
            companion: false,
        })
        .collect();
    manifest::read(&texts)
}

/// The one deployment of these texts. A recipe may hold several; one of another name is meant only where it is alone.
fn one(record: &Deployment, mut inventory: Inventory) -> Option<Inventory> {
    if inventory.workloads.iter().any(|w| w.name == record.name) {
        inventory.workloads.retain(|w| w.name == record.name);
    }
    (inventory.workloads.len() == 1).then_some(inventory)
}

/// The recipe has another name than what runs, and not one worker of a name that is here: it says nothing of this deployment.
fn is_of_another(record: &Deployment, recipe: &Inventory, here: Option<&Workload>) -> bool {
    let (Some(meant), Some(here)) = (only(recipe), here) else {
        return false;
    };
    let is_here = |meant: &Worker| {
        let mut workers = here.workers.iter();
        workers.any(|w| w.name.eq_ignore_ascii_case(&meant.name))
    };
    record.is_another_than(&meant.name)
        && !here.workers.is_empty()
        && !meant.workers.iter().any(is_here)
}

/// What is said of a recipe that was read and does not describe this deployment.
fn elsewhere(record: &Deployment, recipe: &Inventory) -> Option<InputError> {
    if record.manifests.is_empty() || !recipe.errors.is_empty() {
        return None;
    }
    let name = &record.name;
    let mut names: Vec<&str> = Vec::new();
    for workload in &recipe.workloads {
        if !names.contains(&workload.name.as_str()) {
            names.push(&workload.name);
        }
    }
    let same = || recipe.workloads.iter().filter(|w| w.name == *name);
    let mut files: Vec<&str> = same().map(|w| w.source.file.path.as_str()).collect();
    files.dedup();
    let message = match names.as_slice() {
        _ if files.len() > 1 => format!(
            "{} files describe {name} ({}), so {name} was held against nothing; give --recipe the one that {name} was made of",
            files.len(),
            listed(&files)
        ),
        _ if let [file] = files.as_slice() => format!(
            "{} documents of {file} describe {name}, so {name} was held against nothing; give --recipe a file with the one that \
             {name} was made of",
            same().count()
        ),
        [] => format!(
            "no deployment is in it, so {name} was held against nothing; give --recipe the manifests that {name} was made of"
        ),
        [first, ..] => format!(
            "it describes {} and not {name}, so {name} was held against nothing; give --recipe the manifests that {name} was made \
             of, or look at one of these: `dynamo-interconnect-check check {first}`",
            listed(&names)
        ),
    };
    Some(InputError {
        object: recipe.inputs.join(" "),
        message: sanitise::line(&message, 1_000),
    })
}

/// What is said where the one deployment of a recipe has another name than the one that runs.
fn renamed(record: &Deployment, recipe: &Inventory) -> Option<Note> {
    let meant = &only(recipe)?.name;
    let name = &record.name;
    record.is_another_than(meant).then(|| Note {
        object: recipe.inputs.join(" "),
        message: sanitise::line(
            &format!(
                "it describes {meant}, and {name} runs: {name} was held against {meant}. Where that is another deployment, give \
                 --recipe the manifests that {name} was made of"
            ),
            1_000,
        ),
    })
}

/// What is wrong is mended in the file that says so: where there is a recipe, evidence points into it and no more into what
/// this tool wrote down of the pods.
fn relocate(findings: &mut [Finding], running: &Workload, recipe: &Workload) {
    let at = |spot: &Spot| (spot.line, spot.column);
    let mut spots: BTreeMap<(u32, u32), &Spot> = BTreeMap::new();
    for worker in &running.workers {
        let Some(meant) = recipe.workers.iter().find(|w| w.name == worker.name) else {
            continue;
        };
        spots.insert(at(&worker.spot), &meant.spot);
        spots.insert(at(&worker.resources_spot), &meant.resources_spot);
        for (is, meant) in [
            (&worker.shm_spot, &meant.shm_spot),
            (&worker.ipc_lock_spot, &meant.ipc_lock_spot),
            (&worker.run_as_user_spot, &meant.run_as_user_spot),
            (&worker.infiniband_hostpath, &meant.infiniband_hostpath),
        ] {
            if let (Some(is), Some(meant)) = (is, meant) {
                spots.insert(at(is), meant);
            }
        }
        for (name, entry) in &worker.env {
            let meant = meant.env.get(name).map_or(&meant.spot, |e| &e.spot);
            spots.insert(at(&entry.spot), meant);
        }
    }
    let path = &running.source.file.path;
    let of_running = |e: &Evidence| e.path.as_ref() == Some(path);
    for evidence in findings.iter_mut().flat_map(|f| &mut f.evidence) {
        let place = evidence.line.zip(evidence.column);
        if let Some(spot) = place
            .and_then(|place| spots.get(&place))
            .filter(|_| of_running(evidence))
        {
            *evidence = spot.evidence();
        }
    }
}

/// The one command that gets the reader further.
fn next(report: &Report, record: &Deployment) -> Option<String> {
    let mut command = format!("dynamo-interconnect-check check {}", record.name);
    if record.is_of_selector() {
        // Pods that were picked by a selector have no name of their own.
        command = format!("dynamo-interconnect-check check -l '{}'", record.name);
    }
    if let Some(namespace) = &record.namespace {
        command = format!("{command} -n {namespace}");
    }
    // A transfer that was not made has no way out of its own where the pods could not be reached.
    let stuck = report.way_out().is_some();
    let other = |e: &InputError| e.object != PODS_LIST && !(stuck && e.object == TRANSFER);
    let seen = !report.workloads.is_empty() && !report.errors.iter().any(other);
    if stuck && report.errors.iter().any(|e| e.object == TRANSFER) {
        command.push_str(" --transfer");
    }
    match report.trust {
        _ if !seen => None,
        Trust::Untrusted if stuck && !report.errors.is_empty() => Some(format!(
            "{}, apply 1, then `{command}` again",
            report.way_out().unwrap_or_default()
        )),
        Trust::Unproven | Trust::NotApplicable if stuck => {
            let remedy = report.way_out().unwrap_or_default();
            Some(format!("{remedy}, then `{command}` again"))
        }
        Trust::Untrusted if report.beside_nixl().is_some() => {
            Some(format!("apply 1, then `{command}` again"))
        }
        Trust::Untrusted => Some(format!("apply 1, then `{command} --transfer`")),
        Trust::Unproven if report.beside_nixl().is_some() => {
            let finding = report.beside_nixl()?;
            let fix = finding.fix.clone()?;
            Some(match finding.reason {
                // It may turn out to be NIXL.
                Some(SkipReason::Unresolved) => format!("{fix}, then `{command} --transfer`"),
                // No transfer gets further.
                _ => fix,
            })
        }
        Trust::Unproven if !report.undone().is_empty() => Some(format!(
            "apply the fix of the transfer, then `{command} --transfer` again"
        )),
        Trust::Unproven if !report.pairs.proven() => {
            let gaps = report.pairs.made.iter().flat_map(|p| &p.unproven);
            match gaps.map(|gap| gap.kind).min() {
                None => Some(format!(
                    "`{command} --transfer` moves test data between the workers and names the lane"
                )),
                Some(GapKind::HostMemory) => Some(format!(
                    "`{command} --transfer --memory gpu` while the workers' GPUs have room"
                )),
                // The workers are where they are: what shows the lane is another placement.
                Some(_) => None,
            }
        }
        Trust::Unproven => match report.not_whole() {
            Some(open) => open.fix.clone(),
            None => Some(format!(
                "{}, then `{command} --transfer` again",
                report.way_to_judge()?
            )),
        },
        _ => None,
    }
}

/// What the containers of a deployment cannot show. Where a transfer was made, it shows the effect, and its words name the cause.
fn not_seen(report: &Report) -> Vec<NotSeen> {
    let moves_kv = report.workloads.iter().any(|w| w.disaggregated);
    if !moves_kv || !report.pairs.made.is_empty() {
        return Vec::new();
    }
    let ports = || {
        report
            .fingerprint
            .iter()
            .flat_map(|f| f.ports.iter().flatten())
    };
    let is_roce =
        ports().any(|port| port.link_layer.as_deref() == Some(LinkLayer::Ethernet.word()));
    let topics = [
        (
            true,
            "firewall",
            "firewalls and network policies between the nodes",
        ),
        (is_roce, "pfc", "whether the fabric is lossless for RoCE"),
        (
            ports().next().is_some(),
            "acs",
            "PCIe access control between GPU and adapter",
        ),
    ];
    let open = topics.into_iter().filter(|(applies, ..)| *applies);
    open.map(|(_, topic, what)| NotSeen { topic, what })
        .collect()
}

fn only(inventory: &Inventory) -> Option<&Workload> {
    inventory.workloads.first()
}

/// What a run knows beside what it recorded.
#[derive(Debug, Default)]
pub struct Beside {
    /// The user's files that say what was meant (`--recipe`).
    pub recipe: Option<Inventory>,
    /// How long KV travels (`--isl`).
    pub budget: Option<budget::Asked>,
    /// An earlier run (`--baseline`).
    pub baseline: Option<Baseline>,
    /// Which checks count (`--ignore`, `--only`).
    pub selection: Selection,
}

/// Judges everything that was read of a deployment.
pub fn evaluate(command: &'static str, mut bundle: Bundle, beside: Beside) -> Report {
    let Beside {
        recipe,
        budget,
        baseline,
        selection,
    } = beside;
    let mut record = bundle
        .deployment
        .take()
        .unwrap_or_default()
        .with_safe_nodes();
    let mut errors = bundle.errors;
    if let Some(recipe) = &recipe {
        errors.extend(recipe.errors.iter().cloned());
    }
    let meant = recipe
        .as_ref()
        .and_then(|recipe| elsewhere(&record, recipe));
    let described = Described::read(&record, recipe);
    errors.extend(meant.filter(|_| described.recipe.is_none()));
    let renamed = described
        .recipe
        .as_ref()
        .and_then(|recipe| renamed(&record, recipe));
    bundle.notes.extend(renamed);
    let strangers = strangers(&record, &described, &bundle.snapshots);
    let deployments = deployments(&record, &bundle.snapshots);
    errors.extend(undescribed(&record, &described, &bundle.snapshots));
    described.assign(&mut bundle.snapshots);
    let left = leave_out(&described, &record, &mut bundle.snapshots);
    bundle.notes.extend(left);
    let other_memory = ends::doubt(&mut record, &bundle.snapshots, described.workload());
    bundle.notes.extend(other_memory);
    let made = record.transfers.as_slice();
    if budget.is_some() && described.workload().is_some_and(|w| !w.disaggregated) {
        bundle.notes.push(Note {
            object: "--isl".to_owned(),
            message:
                "no KV moves between the workers of this deployment, so there is no time to compute"
                    .to_owned(),
        });
    }
    let whole = Whole {
        written: described.written(),
        object: described.object.as_ref().and_then(only),
        strangers: &strangers,
        deployments: &deployments,
        record: &record,
    };
    let subject = Subject {
        inventory: &described.running,
        snapshots: &bundle.snapshots,
        pairs: made,
        deployment: Some(whole),
    };
    let above = Above {
        recipe: described.recipe.as_ref().and_then(only),
        object: described.object.as_ref().and_then(only),
        pods: described.workload(),
    };
    let mut environment = Vec::new();
    let mut fingerprint = Vec::new();
    let mut findings = checks::run_and_hear(&subject, |container| {
        fingerprint.push(baseline::fingerprint(container));
        let target = Target::pod(container.place, 1);
        let report = environment::of(target, container.snapshot, &above);
        if !report.variables.is_empty() {
            environment.push(report);
        }
    });
    let budget = budget
        .zip(described.workload())
        .filter(|(_, workload)| workload.disaggregated)
        .map(|(asked, workload)| {
            let fault = first_fault(&findings);
            budget::compute(asked, workload, &bundle.snapshots, made, fault.as_ref())
        });
    if let Some(budget) = &budget {
        findings.extend(checks::run_on_budget(&described.running, budget));
    }
    if let (Some(running), Some(recipe)) = (
        described.workload(),
        described.recipe.as_ref().and_then(only),
    ) {
        relocate(&mut findings, running, recipe);
    }
    let workloads = described
        .workload()
        .into_iter()
        .map(|w| view::workload(w, 1))
        .collect();
    let mut notes = bundle.notes;
    // What cannot be read of the cluster's own words is a remark: nobody can mend it.
    let unread = described.running.errors.iter().map(|e| Note {
        object: e.object.clone(),
        message: e.message.clone(),
    });
    notes.extend(unread.chain(described.running.notes.iter().cloned()));
    let transfers = made.iter().map(PairFacts::report).collect();
    let pairs = Pairs::between(transfers, &checks::sides_of(&subject));
    let mut report = selection.roll_up(command, workloads, findings, errors, notes, pairs);
    report.environment = environment;
    report.fingerprint = fingerprint;
    report.kv_budget = budget;
    report.nodes = hosting::report(&record, described.workload(), &bundle.snapshots);
    report.not_seen = not_seen(&report);
    report.next = next(&report, &record);
    report.changes = baseline.map(|baseline| baseline.compare(&report));
    report
}
