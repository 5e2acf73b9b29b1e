use crate::catalogue;
use crate::check;
use crate::checks::compare::{component, settle};
use crate::checks::declare::{Draft, Outcome};
use crate::checks::words::counted;
use crate::checks::{Container, DeploymentScope};
use crate::manifest::workload::{Engine, EnvValue, UNRECOGNISED, Worker};
use crate::observed::Skip;
use crate::report::SkipReason;
use crate::sanitise;

check! {
    /// What runs is not what was written.
    ///
    /// Workers are held against the recipe (`--recipe`), else against the object in the cluster: the RDMA resources, IPC_LOCK,
    /// the variables that decide about the KV path, the engine, what moves its KV and how that is laid out, the number of pods.
    /// One finding per worker and kind.
    ///
    /// ## Why it matters
    /// Numbers are published with a recipe. Where an overlay, a webhook or a hand-made change dropped what the recipe asks for,
    /// they are numbers of something else.
    ///
    /// ## Fix
    /// Apply the recipe again, or write down what really runs.
    ///
    /// ## False alarms
    /// What a pod has beyond what was written is no difference: the operator adds its own; nor is a flag that only one of the two
    /// states, or whose value is not read. A planner may scale a worker down.
    "DEP014" "written-differs" on Deployment {
        subsystem: Deployment, kv_path: Supporting, worst: Fail, causes: &["DEP011", "RDMA001", "RDMA002", "RDMA003", "K8S001", "K8S005", "K8S007"], since: "0.1.0",
    }
}

fn run(scope: &DeploymentScope<'_>) -> Outcome {
    let Some(written) = scope.written else {
        let detail =
            "neither a recipe (--recipe) nor an object in the cluster describes the deployment";
        return Err(Skip::new(SkipReason::NotCollected, detail));
    };
    if scope.containers.is_empty() {
        let detail = "no pod of this deployment was seen";
        return Err(Skip::new(SkipReason::NotFound, detail));
    }
    let (mut drafts, mut unseen, mut compared) = (Vec::new(), None, None);
    for meant in &written.workers {
        let same = |name: &str| name.eq_ignore_ascii_case(&meant.name);
        let pods: Vec<&Container<'_>> = scope
            .containers
            .iter()
            .copied()
            .filter(|c| same(component(c)))
            .collect();
        let mut running = scope.workload.workers.iter().enumerate();
        let Some((position, runs)) = running.find(|(_, w)| same(&w.name)) else {
            let role = meant.role;
            // A role without any pod has a finding of its own.
            if meant.replicas > 0 && scope.of(role).next().is_some() {
                let detail = format!("no pod of {} was found under this name", meant.called());
                unseen = unseen.or(Some(Skip::new(SkipReason::NotFound, detail)));
            }
            continue;
        };
        compared = compared.or(Some(meant));
        let mut own: Vec<Draft> = [
            resources(meant, runs),
            ipc_lock(meant, runs),
            engine(meant, runs),
            replicas(meant, pods.len() as u64),
        ]
        .into_iter()
        .flatten()
        .collect();
        match variables(meant, runs, &pods) {
            Ok(draft) => own.extend(draft),
            Err(skip) => unseen = unseen.or(Some(skip)),
        }
        // Each speaks of one component, and so of what follows there.
        let other = scope.record.is_another_than(&written.name);
        drafts.extend(own.into_iter().map(|draft| {
            let draft = draft.about_worker(position, runs);
            match other {
                // Applying it would make another deployment.
                true => draft.fix(format!(
                    "the recipe is of {} and not of {}: give --recipe the manifests that {} was made of, or find out why the \
                     two differ",
                    written.name, scope.record.name, scope.record.name
                )),
                false => draft,
            }
        }));
    }
    let fine = compared.map(|meant| {
        Draft::ok("the workers run with what was written for them").with([meant.spot.evidence()])
    });
    settle(drafts, unseen, fine)
}

fn resources(meant: &Worker, runs: &Worker) -> Option<Draft> {
    if meant.lacks("resources") {
        return None;
    }
    let lost: Vec<&str> = meant
        .rdma_resources
        .keys()
        .filter(|name| !runs.rdma_resources.contains_key(*name))
        .map(String::as_str)
        .collect();
    if lost.is_empty() {
        return None;
    }
    let detail = format!(
        "{} is written with {}, and its pods ask for {}",
        meant.called(),
        lost.join(", "),
        match runs.rdma_resources.keys().next() {
            Some(_) => runs
                .rdma_resources
                .keys()
                .cloned()
                .collect::<Vec<_>>()
                .join(", "),
            None => "no RDMA resource".to_owned(),
        }
    );
    // Without any other way KV is left with TCP.
    let draft = match runs.reach.is_empty() && runs.unresolved_claims.is_empty() {
        true => Draft::fail(detail),
        false => Draft::warn(detail),
    };
    Some(
        draft
            .headline("pods lack the RDMA resource that was written for them")
            .with([
                meant.resources_spot.evidence(),
                runs.resources_spot.evidence(),
            ])
            .fix(format!(
                "apply the recipe of {} again, and find out what drops its resources",
                meant.name
            )),
    )
}

fn ipc_lock(meant: &Worker, runs: &Worker) -> Option<Draft> {
    let locks = |w: &Worker| w.ipc_lock || w.privileged || w.ulimit_memlock_in_script;
    if !locks(meant) || locks(runs) {
        return None;
    }
    Some(
        Draft::warn(format!(
            "{} is written with IPC_LOCK, and its pods run without it",
            meant.called()
        ))
        .headline("pods lack the capability that was written for them")
        .follows("memlock-limited")
        .with([meant.spot.evidence(), runs.spot.evidence()])
        .fix(format!(
            "apply the recipe of {} again, and find out what drops IPC_LOCK",
            meant.name
        )),
    )
}

/// Flags that say how KV travels, how it is laid out and how large it is. Names of models and addresses are those of a site.
const FLAGS: [&str; 9] = [
    "tensor-parallel-size",
    "pipeline-parallel-size",
    "data-parallel-size",
    "enable-dp-attention",
    "block-size",
    "kv-cache-dtype",
    "dtype",
    "disaggregation-mode",
    "disaggregation-ib-device",
];

/// Engine, what moves KV, and the flags of the engine, where both state them.
fn engine(meant: &Worker, runs: &Worker) -> Option<Draft> {
    let (kv, has) = (&meant.kv_transfer, &runs.kv_transfer);
    let name = |engine: Option<Engine>| engine.map(Engine::word);
    let list = |all: &[String]| (!all.is_empty()).then(|| all.join(","));
    let (backends, others) = (list(&kv.backends), list(&has.backends));
    let mut both = vec![("engine", name(meant.engine), name(runs.engine))];
    // Of two engines each flag means something else.
    if meant.engine == runs.engine {
        both.extend([
            (
                "kv_connector",
                kv.connector.as_deref(),
                has.connector.as_deref(),
            ),
            ("NIXL backends", backends.as_deref(), others.as_deref()),
            (
                "KV transfer backend",
                kv.backend.as_deref(),
                has.backend.as_deref(),
            ),
        ]);
        both.extend(FLAGS.map(|flag| (flag, value(meant, flag), value(runs, flag))));
    }
    let differs: Vec<String> = both
        .into_iter()
        .filter_map(|(what, wanted, has)| Some((what, stated(wanted)?, stated(has)?)))
        .filter(|(_, wanted, has)| !wanted.eq_ignore_ascii_case(has))
        .map(|(what, wanted, has)| {
            let (wanted, has) = (sanitise::line(wanted, 60), sanitise::line(has, 60));
            format!("{what} ({wanted} written, {has} in the pods)")
        })
        .collect();
    if differs.is_empty() {
        return None;
    }
    let detail = format!(
        "{} runs another engine, connector or layout of its KV than written: {}",
        meant.called(),
        differs.join(", ")
    );
    Some(
        Draft::warn(detail)
            .headline("pods run another engine, connector or KV layout than written")
            .with([meant.spot.evidence(), runs.spot.evidence()])
            .fix(format!(
                "apply the recipe of {} again, and find out what changes how it is started",
                meant.name
            )),
    )
}

fn value<'w>(worker: &'w Worker, flag: &str) -> Option<&'w str> {
    worker.flags.get(flag).map(String::as_str)
}

/// A value that says something: no placeholder, nothing that was not read or is chosen at start.
fn stated(value: Option<&str>) -> Option<&str> {
    let open = |text: &str| {
        [UNRECOGNISED, "_", "auto", "DEFAULT", ""].contains(&text) || text.contains(['$', '<', '{'])
    };
    value.filter(|text| !open(text))
}

fn variables(
    meant: &Worker,
    runs: &Worker,
    pods: &[&Container<'_>],
) -> Result<Option<Draft>, Skip> {
    let (mut lost, mut names, mut evidence) = (Vec::new(), Vec::new(), Vec::new());
    let mut unseen = None;
    for (name, entry) in &meant.env {
        let carries = catalogue::find(name).is_some_and(|v| v.carries_kv());
        let (true, EnvValue::Literal(value)) = (carries, &entry.value) else {
            continue;
        };
        if value.contains("$(") || value.contains("${") {
            continue;
        }
        let has = match in_force(name, value, runs, pods) {
            Ok(None) => continue,
            Ok(Some(has)) => has,
            Err(skip) => {
                unseen = unseen.or(Some(skip));
                continue;
            }
        };
        lost.push(format!(
            "{name} ({} written, {has})",
            sanitise::line(value, 60)
        ));
        names.push(*name);
        evidence.push(entry.spot.evidence());
    }
    if lost.is_empty() {
        return unseen.map_or(Ok(None), Err);
    }
    let detail = format!(
        "{} runs with other transport settings than written: {}",
        meant.called(),
        lost.join(", ")
    );
    let mut draft = Draft::warn(detail)
        .headline("pods run with other transport settings than written")
        .follows("env-drift")
        .with(evidence.into_iter().take(4))
        .fix(format!(
            "apply the recipe of {} again, and find out what changes {}",
            meant.name,
            names.join(", ")
        ));
    // A value that is at fault by itself is the better word for it.
    for name in names {
        draft = draft.follows(format!("env:{name}"));
    }
    Ok(Some(draft))
}

/// What stands in place of a written value; None where it is in force.
fn in_force(
    name: &str,
    value: &str,
    runs: &Worker,
    pods: &[&Container<'_>],
) -> Result<Option<String>, Skip> {
    let mut unseen = None;
    // As it is read of a process.
    let value = &*catalogue::one_line(value);
    for pod in pods {
        match pod.facts.process.value(name) {
            Ok(Some(has)) if has == value => {}
            Ok(Some(has)) => {
                return Ok(Some(format!(
                    "{} in {}",
                    sanitise::line(has, 60),
                    pod.place.pod
                )));
            }
            Ok(None) => return Ok(Some(format!("not set in {}", pod.place.pod))),
            Err(skip) => unseen = unseen.or(Some(skip)),
        }
    }
    let Some(unseen) = unseen else {
        return Ok(None);
    };
    // Where the process is closed to us, the pod's own template tells as much as it says.
    match runs.env.get(name).map(|entry| &entry.value) {
        Some(EnvValue::Literal(has)) if catalogue::one_line(has) == value => Ok(None),
        Some(EnvValue::Literal(has)) => {
            Ok(Some(format!("{} in the pods", sanitise::line(has, 60))))
        }
        _ => Err(unseen),
    }
}

fn replicas(meant: &Worker, pods: u64) -> Option<Draft> {
    let wanted = meant.replicas * meant.nodes.max(1);
    if pods >= wanted || pods == 0 {
        return None;
    }
    Some(
        Draft::warn(format!(
            "{} is written with {}, and {pods} {} there",
            meant.called(),
            counted(wanted, "pod"),
            if pods == 1 { "is" } else { "are" }
        ))
        .headline("fewer workers run than were written")
        .minor(true)
        .with([meant.spot.evidence()])
        .fix("find out whether a planner scaled it down or its pods cannot be made: the operator's log, the scheduler's events"),
    )
}

#[cfg(test)]
mod tests {
    use crate::ask;
    use crate::checks::testing::{Answers, Fleet, Pod, RDMA, beta, env, lines};
    use crate::report::Status::{self, Fail, Ok, Skipped, Warn};

    const LOCK: &str = "securityContext: {capabilities: {add: [IPC_LOCK]}}";

    fn written(body: &str) -> String {
        beta(&[
            ("prefill", "prefill", Pod::of(body)),
            ("decode", "decode", Pod::of(body)),
        ])
    }

    fn say(meant: &str, runs: &str, live: Option<&str>) -> Vec<Status> {
        let answers: Answers = live
            .map(|lines| {
                (
                    &ask::ENVIRONMENT,
                    format!("# process 7 dynamo.vllm\n{lines}"),
                )
            })
            .into_iter()
            .collect();
        Fleet::of(&[
            ("prefill", answers.as_slice()),
            ("decode", answers.as_slice()),
        ])
        .body("prefill", meant)
        .body("decode", runs)
        .written(written(meant))
        .statuses("written-differs")
    }

    #[test]
    fn a_recipe_of_another_name_is_not_to_be_applied_again() {
        let fix = |name: &str| {
            let name = name.to_owned();
            let nothing = Answers::new();
            let found = Fleet::of(&[("prefill", nothing.as_slice()), ("decode", &nothing)])
                .body("prefill", RDMA)
                .body("decode", "env: []")
                .written(written(RDMA))
                .record(|record| record.name = name)
                .findings("written-differs");
            let fail = found.into_iter().find(|f| f.status == Fail).unwrap();
            fail.fix.unwrap()
        };
        assert!(
            fix("g").starts_with("apply the recipe of decode again"),
            "{}",
            fix("g")
        );
        assert!(fix("app=x").starts_with("apply the recipe of decode again"));
        assert!(
            fix("other").starts_with("the recipe is of g and not of other"),
            "{}",
            fix("other")
        );
    }

    #[test]
    fn table_of_statuses() {
        let tls = env(&[("UCX_TLS", "rc,cuda_copy")]);
        let other = env(&[("UCX_TLS", "tcp")]);
        let port = env(&[("NCCL_DEBUG", "INFO")]);
        let shared = RDMA.replace("rdma/ib", "rdma/shared");
        let (locked, good, bad) = (
            lines(&[RDMA, LOCK]),
            "UCX_TLS=rc,cuda_copy\n",
            "UCX_TLS=tcp\n",
        );
        for (what, meant, runs, live, wanted) in [
            ("the same", RDMA, RDMA, Some(""), vec![Ok]),
            (
                "the resource is gone",
                RDMA,
                "env: []",
                Some(""),
                vec![Fail],
            ),
            (
                "another resource",
                RDMA,
                shared.as_str(),
                Some(""),
                vec![Warn],
            ),
            ("more than written", "env: []", RDMA, Some(""), vec![Ok]),
            (
                "IPC_LOCK is gone",
                locked.as_str(),
                RDMA,
                Some(""),
                vec![Warn],
            ),
            (
                "a variable is in force",
                &tls,
                "env: []",
                Some(good),
                vec![Ok],
            ),
            ("a variable is gone", &tls, &tls, Some(""), vec![Warn, Warn]),
            ("another value", &tls, &tls, Some(bad), vec![Warn, Warn]),
            (
                "nothing of the KV path",
                &port,
                "env: []",
                Some(""),
                vec![Ok],
            ),
            (
                "not read, the template says it",
                &tls,
                &other,
                None,
                vec![Warn],
            ),
            ("not read", &tls, "env: []", None, vec![Skipped]),
        ] {
            assert_eq!(say(meant, runs, live), wanted, "{what}");
        }
        let pods: [(&str, &[(&ask::Ask, &str)]); 2] = [("prefill", &[]), ("decode", &[])];
        assert_eq!(Fleet::of(&pods).statuses("written-differs"), [Skipped]);
        let fewer = Fleet::of(&pods).written(
            written("env: []").replace("name: prefill", "name: prefill\n      replicas: 3"),
        );
        assert_eq!(fewer.statuses("written-differs"), [Warn]);
    }

    #[test]
    fn another_engine_connector_or_layout_is_named() {
        let body = |module: &str, flags: &str| {
            format!("command: [python3, -m, {module}]\nargs: [{flags}]")
        };
        let vllm = |flags: &str| body("dynamo.vllm", flags);
        let by = |connector: &str| {
            vllm(&format!(
                r#"--kv-transfer-config, '{{"kv_connector":"{connector}","kv_role":"kv_both"}}'"#
            ))
        };
        let tp = |size: &str| vllm(&format!("--tensor-parallel-size, {size}"));
        let sglang = |backend: &str| {
            body(
                "dynamo.sglang",
                &format!("--disaggregation-transfer-backend, {backend}"),
            )
        };
        for (meant, runs, wanted) in [
            (by("NixlConnector"), by("NixlConnector"), Ok),
            (by("MooncakeConnector"), by("NixlConnector"), Warn),
            (sglang("mooncake"), sglang("nixl"), Warn),
            (sglang("nixl"), vllm(""), Warn),
            (tp("'8'"), tp("'4'"), Warn),
            (vllm("--block-size, '64'"), vllm("--block-size, '16'"), Warn),
            // What one side does not state, or states in a way that is not read.
            (tp("'8'"), vllm(""), Ok),
            (vllm(""), tp("'8'"), Ok),
            (tp("$TP"), tp("'8'"), Ok),
            (tp("<tp>"), tp("'8'"), Ok),
            (
                vllm("--kv-cache-dtype, auto"),
                vllm("--kv-cache-dtype, fp8"),
                Ok,
            ),
            (vllm("--model, a/b"), vllm("--model, c/d"), Ok),
        ] {
            assert_eq!(say(&meant, &runs, Some("")), [wanted], "{meant} / {runs}");
        }
    }

    #[test]
    fn a_resource_that_was_dropped_is_the_cause_of_missing_devices() {
        let none: Answers = vec![
            (&ask::RDMA_PORTS, String::new()),
            (&ask::DEV_INFINIBAND, String::new()),
        ];
        let fixes = Fleet::of(&[("prefill", none.as_slice()), ("decode", none.as_slice())])
            .written(written(RDMA))
            .fix_first();
        let cause = fixes.iter().find(|fix| fix.id == "DEP014").unwrap();
        assert!(cause.consequences.iter().any(|c| c.id == "RDMA001"));
        assert!(
            fixes
                .iter()
                .all(|fix| fix.id != "RDMA001" && fix.id != "K8S001")
        );
    }
}
