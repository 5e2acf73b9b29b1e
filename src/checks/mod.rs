//! The table of checks and the runner.
//!
//! Adding a check is two edits: its own file, and one word in the table below. Everything else (documentation,
//! `explain`, the schema's list of ids) is derived from the table.

mod answered;
mod asked;
pub(crate) mod compare;
pub mod declare;
mod dependence;
pub(crate) mod live;
pub(crate) mod mover;
mod pasting;
mod pinning;
mod registration;
mod roce;
pub mod scope;
mod shm;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod words;

use crate::facts::pair::PairFacts;
use crate::judge::context::Tri;
use crate::manifest::Inventory;
use crate::manifest::workload::Workload;
use crate::observed::Skip;
use crate::report::{Finding, KvBudget, Parts, SkipReason, Status};
use crate::snapshot::{Folded, Place, Snapshot};
use crate::source::Spot;
use crate::target::{Target, TargetKind};
use declare::{About, Check, Draft, Outcome, Run};
pub use scope::{
    BudgetScope, Container, DeploymentScope, WorkerScope, WorkloadScope, container_place, kv_ends,
    pod_place,
};
use scope::{Heard, Running};
use std::sync::Arc;

/// Declares the modules and the table in one go, so that a check cannot be compiled and forgotten.
macro_rules! checks {
    ( $( $group:ident :: { $( $name:ident ),+ $(,)? } ),+ $(,)? ) => {
        $( pub(crate) mod $group { $( pub(crate) mod $name; )+ } )+
        /// Every check, in the order of a report.
        pub static ALL: &[&Check] = &[ $( $( &$group::$name::CHECK ),+ ),+ ];
    };
}

// The order is the order of harm: what takes the path away comes before what slows it down.
checks! {
    node::{ target },
    deployment::{
        role_missing,
        not_whole,
        written_differs,
        node_resources,
        no_node_fits,
        worker_not_ready,
        no_common_transport,
        kv_connector_differs,
        other_mover,
        link_layer_differs,
        fabrics_differ,
        nvlink_domains_differ,
        imex_on_one_side,
        compute_domain_not_ready,
        efa_ends_share_node,
        advertised_address,
        kv_layout_differs,
        mtu_differs_between_nodes,
        kv_budget_over_slo,
        versions_differ,
        replicas_differ,
        replica_weaker,
        rails_crossed,
        namespaces_split,
        zones_differ,
        templates_mixed,
    },
    transfer::{ kv_transfer },
    rdma::{ device_not_granted, ib_devices, ib_link, ibv_devinfo, port_not_ready, port_without_link, rate_degraded, subnet_manager_missing, roce_address_missing, gid_index_unusable, selected_nic_unusable, nic_far_from_gpu, mixed_fabrics, software_rdma, mtu_differs, port_errors, pcie_limits_nic, kernel_log_faults, pasted_outputs_differ },
    gpu::{
        gpudirect_peermem,
        gpu_topology,
        nvlink_degraded,
        driver_versions_differ,
        fabric_not_ready,
        imex_channel_missing,
        iommu_translating,
        passthrough_peer_to_peer,
        gdrcopy,
    },
    ucx::{ ucx_without_cuda, ucx_without_verbs, two_ucx_libraries, ucx_complaints, lane_without_rdma },
    nixl::{ efa_without_libfabric, nixl_missing, known_bad_version, test_tools },
    nccl::{ collectives_degraded },
    memory::{ memlock_limited, dev_shm_small },
    kubernetes::{
        no_transport_path,
        compute_domain_differs,
        efa_backend,
        gke_network_annotation,
        roce_without_network,
        block_size_differs,
        rdma_resource_differs,
        efa_not_privileged,
        ipc_lock_missing,
        ipc_lock_inert,
        efa_same_node,
        rdma_count,
        hostpath_unprivileged,
        shm_small,
        claim_unresolved,
        kv_backend_unresolved,
    },
    env::{
        input,
        variables,
        tls_without_device,
        mnnvl_without_cuda_ipc,
        mnnvl_without_domain,
        handshake_unreachable,
        backend_variables_differ,
        side_channel_port_taken,
        disagg_transport,
        nic_map_incomplete,
        ib_device_flag_ignored,
        role_env_differs,
        unknown_variable,
        selected_nics,
        live_variable,
        drift,
    },
}

/// Finds a check by id or name.
pub fn find(id_or_name: &str) -> Option<&'static Check> {
    ALL.iter()
        .copied()
        .find(|c| c.id.eq_ignore_ascii_case(id_or_name) || c.name.eq_ignore_ascii_case(id_or_name))
}

/// Runs every check on everything it applies to. Order of the result does not matter; the report sorts.
///
/// `snapshots` are recorded or collected containers; they belong to the workload of the same name, if there is one.
pub fn run(inventory: &Inventory, snapshots: &[Snapshot]) -> Vec<Finding> {
    run_with_pairs(inventory, snapshots, &[])
}

/// The same with transfers that were made.
pub fn run_with_pairs(
    inventory: &Inventory,
    snapshots: &[Snapshot],
    pairs: &[PairFacts],
) -> Vec<Finding> {
    let snapshots: Vec<Folded> = snapshots.iter().cloned().map(Into::into).collect();
    run_on(&Subject {
        inventory,
        snapshots: &snapshots,
        pairs,
        deployment: None,
    })
}

/// Runs every check on containers that belong to no manifest. Each is let go once it is judged: of a thousand, what was
/// read and what is said of it are not held side by side.
pub fn run_through(snapshots: Vec<Folded>) -> Vec<Finding> {
    let inventory = Inventory::default();
    let mut findings = run(&inventory, &[]);
    for snapshot in snapshots {
        let snapshot = snapshot.open();
        let target = Arc::new(container_target(&inventory, &snapshot.place));
        judge(&target, &Container::parse(&snapshot), &mut findings);
    }
    findings
}

/// Runs every check of one container.
fn judge(target: &Arc<Target>, container: &Container<'_>, findings: &mut Vec<Finding>) {
    for (order, check) in ALL.iter().copied().enumerate() {
        if let Run::Container(run) = check.run {
            let outcome = container.doubted(check, run(container));
            findings.extend(finished(check, order, target, None, outcome));
        }
    }
}

/// The findings of one outcome; what does not apply gives none.
fn finished(
    check: &'static Check,
    order: usize,
    target: &Arc<Target>,
    at: Option<&Spot>,
    outcome: Outcome,
) -> impl Iterator<Item = Finding> {
    let drafts = match outcome {
        Ok(drafts) => drafts,
        Err(Skip {
            reason: SkipReason::NotApplicable,
            ..
        }) => Vec::new(),
        Err(skip) => vec![Draft::skipped(skip)],
    };
    drafts
        .into_iter()
        .map(move |draft| finish(check, order, target, at, draft))
}

/// Everything that one run judges.
pub struct Subject<'a> {
    /// Manifests: of a deployment in a cluster, its pods as they run.
    pub inventory: &'a Inventory,
    /// Containers.
    pub snapshots: &'a [Folded],
    /// Transfers between them.
    pub pairs: &'a [PairFacts],
    /// What else was read of the one deployment that this is about.
    pub deployment: Option<Whole<'a>>,
}

/// What was read of a deployment beside its containers and pods.
#[derive(Clone, Copy)]
pub struct Whole<'a> {
    /// As the user's files, else the object in the cluster, describe it.
    pub written: Option<&'a Workload>,
    /// As the object in the cluster describes it.
    pub object: Option<&'a Workload>,
    /// What was read of another deployment, in words.
    pub strangers: &'a [String],
    /// The deployments that its pods say they are of, where a selector found them.
    pub deployments: &'a [String],
    /// The record of the run.
    pub record: &'a crate::snapshot::Deployment,
}

impl<'a> Whole<'a> {
    /// What the checks on the deployment look at.
    fn scope(
        &self,
        workload: &'a Workload,
        containers: Vec<&'a Container<'a>>,
    ) -> DeploymentScope<'a> {
        DeploymentScope {
            workload,
            written: self.written,
            object: self.object,
            strangers: self.strangers,
            deployments: self.deployments,
            record: self.record,
            containers,
        }
    }
}

/// Runs every check on everything it applies to.
pub fn run_on(subject: &Subject<'_>) -> Vec<Finding> {
    run_and_hear(subject, |_| {})
}

/// The same; `each` hears of every container while all of it is there.
pub fn run_and_hear(subject: &Subject<'_>, mut each: impl FnMut(&Container<'_>)) -> Vec<Finding> {
    let Subject {
        inventory,
        snapshots,
        pairs,
        deployment,
    } = subject;
    let mut findings = Vec::new();
    let mut on_one_node = false;
    let input = Arc::new(Target::input(inventory.inputs.join(" ")));
    if let (Some(whole), Some(workload)) = (deployment, inventory.workloads.first()) {
        let (found, stays) = judge_together(subject, whole, workload);
        findings.extend(found);
        on_one_node = stays;
    }
    let before = findings.len();
    let mut heard = Heard::default();
    for (at, folded) in snapshots.iter().enumerate() {
        let snapshot = folded.open();
        let mut container = Container::parse(&snapshot);
        container.written = match deployment {
            Some(whole) => whole.written,
            None => (inventory.workloads.iter())
                .find(|w| Some(&w.name) == snapshot.place.workload.as_ref()),
        };
        if on_one_node && container.moves_kv() {
            container.context.internode = Tri::No;
        }
        let target = Arc::new(container_target(inventory, folded.place()));
        judge(&target, &container, &mut findings);
        heard.hear(&container, running(&container));
        each(&container);
        if at == 0 {
            // Most have as many as the first.
            findings.reserve_exact((findings.len() - before) * snapshots.len());
        }
    }
    let mut record = |check: &'static Check,
                      order,
                      target: &Arc<Target>,
                      at: Option<&Spot>,
                      outcome: Outcome| {
        findings.extend(finished(check, order, target, at, outcome));
    };
    for (order, check) in ALL.iter().copied().enumerate() {
        match check.run {
            Run::Input(run) => record(check, order, &input, None, run(inventory)),
            Run::Workload(run) => {
                for (i, workload) in inventory.workloads.iter().enumerate() {
                    record(
                        check,
                        order,
                        &Arc::new(workload_target(inventory, i)),
                        Some(&workload.source),
                        run(&WorkloadScope {
                            workload,
                            engines: &heard,
                        }),
                    );
                }
            }
            Run::Worker(run) => {
                for (i, workload) in inventory.workloads.iter().enumerate() {
                    let parent = workload_target(inventory, i);
                    for (position, worker) in workload.workers.iter().enumerate() {
                        let target =
                            Arc::new(parent.worker(position, &worker.name, worker.role.word()));
                        record(
                            check,
                            order,
                            &target,
                            Some(&worker.spot),
                            run(&WorkerScope {
                                worker,
                                workload,
                                on_one_node,
                                running: heard.running(workload, worker.role),
                                written: deployment.as_ref().and_then(|whole| whole.written),
                            }),
                        );
                    }
                }
            }
            Run::Pair(run) => {
                for pair in *pairs {
                    let mut target =
                        Target::pair(&pair.initiator, &pair.target, pair.namespace.clone());
                    if let (Some(_), Some(workload)) = (deployment, inventory.workloads.first()) {
                        target.ordinal = 1;
                        target.workload = Some(workload.name.clone());
                    }
                    record(check, order, &Arc::new(target), None, run(pair));
                }
            }
            // Done above.
            Run::Container(_) | Run::Deployment(_) => {}
            // Done when the time is known.
            Run::Budget(_) => {}
        }
    }
    if deployment.is_some() {
        answered::by_running_workers(&mut findings);
        answered::one_fault_once(&mut findings);
    }
    findings
}

/// Runs the checks on the time of KV, which is computed from what all the others found.
pub fn run_on_budget(inventory: &Inventory, budget: &KvBudget) -> Vec<Finding> {
    let Some(workload) = inventory.workloads.first() else {
        return Vec::new();
    };
    let scope = BudgetScope { workload, budget };
    let target = Arc::new(workload_target(inventory, 0));
    let mut findings = Vec::new();
    for (order, check) in ALL.iter().copied().enumerate() {
        if let Run::Budget(run) = check.run {
            findings.extend(finished(check, order, &target, None, run(&scope)));
        }
    }
    findings
}

/// What a container shows of what its manifest leaves to the node.
fn running(container: &Container<'_>) -> Running {
    let usable = container.facts.rdma.usable_ports();
    Running {
        locks_memory: memory::memlock_limited::is_enough(container),
        routes_roce: rdma::roce_address_missing::is_routed(container),
        opens_devices: usable.is_ok_and(|ports| !ports.is_empty()),
        holds_channel: container
            .facts
            .gpu
            .imex_channels()
            .is_ok_and(|channels| !channels.is_empty()),
        backend: live::started_with(container),
    }
}

/// Runs the checks that look at all containers together. What they need of each is let go at their end, and read again when
/// the container itself is judged: of a thousand, it and all that is found are not held side by side. Says, too, whether their KV
/// stays within a node.
fn judge_together(
    subject: &Subject<'_>,
    whole: &Whole<'_>,
    workload: &Workload,
) -> (Vec<Finding>, bool) {
    let snapshots = subject.snapshots.iter();
    let containers: Vec<Container<'_>> = snapshots
        .map(|folded| Container::parse(&folded.open()).beside_others(folded))
        .collect();
    let scope = whole.scope(workload, containers.iter().collect());
    let target = Arc::new(workload_target(subject.inventory, 0));
    let mut findings = Vec::new();
    for (order, check) in ALL.iter().copied().enumerate() {
        if let Run::Deployment(run) = check.run {
            findings.extend(finished(check, order, &target, None, run(&scope)));
        }
    }
    (findings, scope.stays_on_node())
}

/// The pods that hand KV on and those that take it: each of the one and each of the other are a pair in question.
pub fn sides_of<'a>(subject: &Subject<'a>) -> [Vec<&'a str>; 2] {
    let places = subject.snapshots.iter().map(Folded::place);
    let (from, to) = kv_ends(places.clone().map(|place| place.role.as_deref()));
    let pods: Vec<&str> = places.map(|place| place.pod.as_str()).collect();
    [from, to].map(|side| side.into_iter().map(|at| pods[at]).collect())
}

fn workload_target(inventory: &Inventory, index: usize) -> Target {
    let workload = &inventory.workloads[index];
    Target::workload(&workload.name, workload.namespace.clone(), index + 1)
}

fn container_target(inventory: &Inventory, at: &Place) -> Target {
    let ordinal = inventory
        .workloads
        .iter()
        .position(|w| Some(&w.name) == at.workload.as_ref());
    Target::pod(at, ordinal.map_or(0, |i| i + 1))
}

/// Makes a finding of a draft. Whoever gave no evidence rests on the object as a whole, so `at` says where it is written.
fn finish(
    check: &'static Check,
    order: usize,
    target: &Arc<Target>,
    at: Option<&Spot>,
    draft: Draft,
) -> Finding {
    debug_assert!(
        draft.status <= check.worst,
        "{} declares worst {}",
        check.id,
        check.worst
    );
    // The verdict must not say "a or b" where the check knows which of them it is.
    debug_assert!(
        draft.status < Status::Warn
            || draft.headline.is_some()
            || draft.name.is_some()
            || !check.problem().contains(" or "),
        "{}: a check that knows several problems names the one that is there",
        check.id
    );
    debug_assert!(
        !words::counts_one_as_many(&draft.detail)
            && !words::counts_one_as_many(draft.headline.as_deref().unwrap_or_default()),
        "{}: {}",
        check.id,
        draft.detail
    );
    debug_assert!(
        draft.paste.as_ref().is_none_or(|p| p.starts_with("# ")),
        "{}: lines to paste are headed by where they belong",
        check.id
    );
    let mut evidence = draft.evidence;
    if evidence.is_empty() {
        evidence.extend(at.map(Spot::evidence));
    }
    let problem = || {
        let words = check.problem().trim_end_matches('.').to_owned();
        // The documentation speaks of containers, where most are looked at.
        let place = match target.kind {
            TargetKind::Host if target.is_pasted() => "worker",
            TargetKind::Host => "machine",
            _ => return words,
        };
        words
            .replace("the container", &format!("the {place}"))
            .replace("The container", &format!("The {place}"))
    };
    // There may be a hundred thousand of these.
    evidence.shrink_to_fit();
    Finding {
        id: check.id,
        name: draft.name.map_or(check.name.into(), Into::into),
        status: draft.status,
        detail: draft.detail,
        target: match &draft.about {
            Some(About::Pod(place)) => Target::pod(place, target.ordinal).into(),
            Some(About::Worker {
                position,
                name,
                role,
            }) => target.worker(*position, name, *role).into(),
            None => Arc::clone(target),
        },
        kv_path: draft.kv_path.unwrap_or(check.kv_path),
        evidence,
        fix: draft.fix,
        reason: draft.reason,
        left_out: None,
        causes: draft.causes.unwrap_or(check.causes),
        order,
        rare: Parts {
            paste: draft.paste,
            headline: draft.headline.unwrap_or_else(|| {
                if draft.status >= Status::Warn {
                    problem()
                } else {
                    String::new()
                }
            }),
            minor: draft.minor,
            follows: draft.follows,
            inputs: draft.inputs,
        }
        .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ids_and_names_are_unique_and_carry_their_subsystem() {
        let mut ids = BTreeSet::new();
        let mut names = BTreeSet::new();
        for check in ALL {
            assert!(ids.insert(check.id), "{} twice", check.id);
            assert!(names.insert(check.name), "{} twice", check.name);
            let number = check.id.strip_prefix(check.subsystem.prefix());
            assert!(
                number.is_some_and(|n| n.len() == 3 && n.parse::<u16>().is_ok()),
                "{}",
                check.id
            );
        }
    }

    #[test]
    fn a_machine_is_not_called_a_container() {
        use crate::ask;
        use crate::snapshot::Place;
        let closed = [
            (&ask::DEV_INFINIBAND, ""),
            (&ask::LIMITS, "Max locked memory 64 64 bytes\n"),
        ];
        let answers = testing::changed(&testing::hca("mlx5_0", "4: ACTIVE", "open"), &closed);
        let mut snapshot = testing::container("decode", &answers);
        snapshot.place = Place::host("h");
        let findings = run(&Inventory::default(), &[snapshot]);
        let bad: Vec<_> = findings
            .iter()
            .filter(|f| f.status >= Status::Warn)
            .collect();
        for id in ["RDMA001", "RDMA003", "MEM001"] {
            let finding = bad.iter().find(|f| f.id == id).unwrap();
            for text in [&finding.rare.headline, &finding.detail] {
                let text = text.replace("container runtimes", "");
                assert!(!text.contains("container"), "{id}: {text}");
                assert!(!text.contains("mlx5_0 to mlx5_0"), "{id}: {text}");
            }
        }
    }

    #[test]
    fn every_check_is_documented() {
        for check in ALL {
            let doc = check.documentation();
            assert!(
                doc.lines().next().is_some_and(|l| l.ends_with('.')),
                "{}: first line",
                check.id
            );
            for heading in ["\n## Why it matters\n", "\n## Fix\n"] {
                assert!(doc.contains(heading), "{} lacks {heading:?}", check.id);
            }
        }
    }

    /// Which version a check came with is read in the documentation: none is later than this one.
    #[test]
    fn no_check_is_newer_than_the_program() {
        let numbers = |version: &str| -> Vec<u32> {
            let parts = version.split(['.', '-', '+']);
            parts.map_while(|part| part.parse().ok()).collect()
        };
        let this = numbers(env!("CARGO_PKG_VERSION"));
        for check in ALL {
            let since = numbers(check.since);
            assert!(
                since.len() == 3 && since <= this,
                "{}: {}",
                check.id,
                check.since
            );
        }
    }

    #[test]
    fn causes_name_known_checks_and_have_no_cycle() {
        fn reaches(from: &str, goal: &str, depth: usize) -> bool {
            assert!(depth < ALL.len(), "cycle through {from}");
            let check =
                find(from).or_else(|| from.strip_prefix("env:").and_then(|_| find("ENV002")));
            check
                .unwrap()
                .causes
                .iter()
                .any(|c| *c == goal || reaches(c, goal, depth + 1))
        }
        for check in ALL {
            assert!(
                !reaches(check.id, check.id, 0),
                "{} causes itself",
                check.id
            );
            assert!(
                check.worst >= Status::Warn || check.causes.is_empty(),
                "{}",
                check.id
            );
        }
    }

    #[test]
    fn every_file_of_a_group_is_in_the_table() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/src/checks");
        let mut files = 0;
        for dir in std::fs::read_dir(root)
            .unwrap()
            .flatten()
            .filter(|d| d.path().is_dir())
        {
            for file in std::fs::read_dir(dir.path()).unwrap().flatten() {
                let text = std::fs::read_to_string(file.path()).unwrap();
                files += 1;
                assert!(
                    ALL.iter()
                        .any(|c| text.contains(&format!("{:?} {:?} on ", c.id, c.name))),
                    "{file:?}"
                );
            }
        }
        assert_eq!(files, ALL.len());
    }
}
