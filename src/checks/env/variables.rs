use crate::catalogue::{self, Scope, Variable};
use crate::check;
use crate::checks::WorkerScope;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::dependence;
use crate::checks::pasting;
use crate::checks::words::of_value;
use crate::judge::{
    self, Remedy,
    context::{Context, Tri},
};
use crate::manifest::workload::{EnvEntry, EnvValue};
use crate::observed::Skip;
use crate::report::{KvPath, SkipReason, Status};
use crate::sanitise;

check! {
    /// A transport variable has a value that breaks or degrades the path it governs.
    ///
    /// One finding per variable that is set, named `env:<VARIABLE>`. The value is judged in the context of its worker: its
    /// GPUs, its RDMA resources, its KV backend, its nodes. `explain VARIABLE` says what a variable does, and
    /// `explain VARIABLE=VALUE` judges a value on the spot. Whether a named NIC exists, or
    /// GPUDirect RDMA where UCX_IB_GPU_DIRECT_RDMA demands it, is for a node to say, and a check of its own (ENV010).
    ///
    /// ## Why it matters
    /// A wrong value is rarely an error message. UCX drops a device or a transport it does not know with one warning and
    /// goes on with what is left, often TCP.
    ///
    /// ## Fix
    /// Every finding says what to write instead. For UCX and NCCL, unset is the good default.
    "ENV002" "env-variable" on Worker {
        subsystem: Env, kv_path: Required, worst: Fail, causes: &[], since: "0.1.0",
    }
}

/// At most this many characters of a value are repeated in a sentence.
const SHOWN: usize = 120;

fn run(scope: &WorkerScope<'_>) -> Outcome {
    let context = scope.context();
    let drafts = scope.worker.env.iter().filter_map(|(name, entry)| {
        let variable = catalogue::find(name)?;
        let draft = match applies(scope, variable) {
            Ok(()) => in_domain(scope, variable, entry, &context)
                .unwrap_or_else(|| judged(scope, variable, entry, &context)),
            Err(why) => Draft::ok(format!("{}: not applicable, {why}", shown(variable, entry)))
                .on_kv_path(KvPath::Off),
        };
        Some(
            draft
                .named(format!("env:{name}"))
                .with([entry.spot.evidence()]),
        )
    });
    Ok(drafts.collect())
}

/// Nothing is demanded of a graph it does not apply to.
fn applies(scope: &WorkerScope<'_>, variable: &Variable) -> Result<(), &'static str> {
    if scope.workload.mocker {
        return Err("the mocker moves no KV");
    }
    if scope.workload.disaggregated {
        return Ok(());
    }
    if scope.worker.nodes > 1 && variable.scope == Scope::Collectives {
        return Ok(());
    }
    Err(if scope.worker.nodes > 1 {
        "the graph is aggregated and moves no KV between workers"
    } else {
        "the graph is aggregated on one node: no KV and no rank leaves it"
    })
}

/// What is right with NVLink between nodes and wrong without, where an unresolved claim leaves open which it is.
fn in_domain(
    scope: &WorkerScope<'_>,
    variable: &Variable,
    entry: &EnvEntry,
    context: &Context,
) -> Option<Draft> {
    let claim = scope.worker.unresolved_claims.first()?;
    let EnvValue::Literal(value) = &entry.value else {
        return None;
    };
    let status = |mnnvl| {
        let context = Context {
            mnnvl,
            ..context.clone()
        };
        judge::judge(variable.name, Some(value), &context).status
    };
    let open = context.mnnvl == Tri::Unknown
        && status(Tri::Yes) == Status::Ok
        && status(Tri::No) != Status::Ok;
    let detail = format!(
        "{}: right where the claim {claim} is a ComputeDomain channel, and its template is not in this input",
        shown(variable, entry)
    );
    let path = kv_path(variable);
    open.then(|| Draft::skipped(Skip::new(SkipReason::Unresolved, detail)).on_kv_path(path))
}

fn kv_path(variable: &Variable) -> KvPath {
    match variable.scope {
        Scope::Kv => KvPath::Required,
        _ => KvPath::Off,
    }
}

fn judged(
    scope: &WorkerScope<'_>,
    variable: &Variable,
    entry: &EnvEntry,
    context: &Context,
) -> Draft {
    let path = kv_path(variable);
    let shown = shown(variable, entry);
    match &entry.value {
        EnvValue::Literal(value) => {
            let verdict = judge::judge(variable.name, Some(value), context);
            // A reason that begins with the value in quotes continues the sentence.
            let reason = verdict.reason;
            let detail = match reason.strip_prefix('"') {
                Some(_) => format!("{}={reason}", variable.name),
                None => format!("{shown}: {reason}"),
            };
            let mut draft = Draft::new(verdict.status, detail).on_kv_path(path);
            draft.fix = verdict.fix;
            draft.paste = paste(scope, variable, entry, value, context);
            draft.minor = !variable.critical;
            draft.headline = Some(of_value(variable.name, &shown, &reason));
            dependence::tied(draft, variable.name, value, context)
        }
        EnvValue::ValueFrom | EnvValue::Dynamic => {
            let what = format!("{shown}, so its value is known only to the running worker");
            Draft::skipped(Skip::new(SkipReason::Unresolved, what)).on_kv_path(path)
        }
        EnvValue::Withheld => {
            let what = format!("{shown}: it may carry credentials and is neither shown nor judged");
            Draft::skipped(Skip::new(SkipReason::NotCollected, what)).on_kv_path(KvPath::Off)
        }
    }
}

/// What to write in place of a value. A script that sets it when the container starts has the last word, and is no manifest.
fn paste(
    scope: &WorkerScope<'_>,
    variable: &Variable,
    entry: &EnvEntry,
    value: &str,
    context: &Context,
) -> Option<String> {
    if !entry.is_of_manifest() {
        return None;
    }
    let remedy = judge::remedy(variable.name, value, context)?;
    let written = scope.as_written();
    let is_set = written.is_some_and(|worker| worker.env.contains_key(variable.name));
    if remedy == Remedy::Remove && !is_set {
        return None;
    }
    Some(scope.for_container(&pasting::remedy(variable.name, &remedy)))
}

fn shown(variable: &Variable, entry: &EnvEntry) -> String {
    let name = variable.name;
    match &entry.value {
        EnvValue::Literal(value) if value.is_empty() => {
            format!("{name} is set to the empty string")
        }
        EnvValue::Literal(value) => format!("{name}={}", sanitise::line(value, SHOWN)),
        EnvValue::ValueFrom => format!("{name} is taken from a field or object outside this input"),
        EnvValue::Dynamic => format!("{name} is computed when the container starts"),
        EnvValue::Withheld => format!("{name} is set"),
    }
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::{
        APART, CLAIM, EFA, GPU, Pod, RDMA, alone, both, channel, claims, env, graph, lines, report,
        table, unread, vllm,
    };
    use crate::report::Status::{Fail, Ok, Skipped, Warn};

    #[test]
    fn table_of_statuses() {
        let tls =
            |container: &str, value: &str| graph(&lines(&[container, &env(&[("UCX_TLS", value)])]));
        let nvlink = lines(&[CLAIM, &env(&[("UCX_TLS", "cuda_copy,cuda_ipc,tcp")])]);
        let without_device = lines(&[CLAIM, &env(&[("UCX_TLS", "rc_x,rc,cuda_copy,cuda_ipc")])]);
        let privileged = lines(&[&without_device, "securityContext: {privileged: true}"]);
        let on_cpu =
            vllm("[\"UCX\"]").replace("kv_both\"", "kv_both\",\"kv_buffer_device\":\"cpu\"");
        let tcp = env(&[("UCX_TLS", "tcp,self")]);
        let mocker = lines(&["command: [python3, -m, dynamo.mocker]", &tcp]);
        table(
            "env:UCX_TLS",
            &[
                (
                    "the good list",
                    tls(RDMA, "rc_x,rc,cuda_copy,cuda_ipc"),
                    &[Ok, Ok],
                ),
                (
                    "no RDMA transport",
                    tls(RDMA, "cuda_copy,cuda_ipc,tcp"),
                    &[Fail, Fail],
                ),
                (
                    "no RDMA transport in a domain",
                    both(Pod::of(&nvlink).spec(&claims("chan"))) + &channel("chan"),
                    &[Ok, Ok],
                ),
                (
                    "RDMA transports in a domain, and no device for them",
                    both(Pod::of(&without_device).spec(&claims("chan"))) + &channel("chan"),
                    &[Fail, Fail],
                ),
                (
                    "RDMA transports in a domain, and the host's devices at hand",
                    both(Pod::of(&privileged).spec(&claims("chan"))) + &channel("chan"),
                    &[Ok, Ok],
                ),
                (
                    "no RDMA transport, and a claim that nobody knows",
                    both(Pod::of(&nvlink).spec(&claims("chan"))),
                    &[Skipped, Skipped],
                ),
                (
                    "TCP, and a claim that nobody knows",
                    both(Pod::of(&lines(&[CLAIM, &tcp])).spec(&claims("chan"))),
                    &[Fail, Fail],
                ),
                ("GPU memory unseen", tls(RDMA, "rc,cuda_ipc"), &[Fail, Fail]),
                (
                    "TCP for buffers on the host",
                    graph(&lines(&[&on_cpu, &tcp])),
                    &[Warn, Warn],
                ),
                (
                    "from a field",
                    graph(&unread("UCX_TLS")),
                    &[Skipped, Skipped],
                ),
                ("unset", graph(RDMA), &[]),
                ("aggregated", alone(Pod::of(&tcp)), &[Ok]),
                ("a mocker moves nothing", graph(&mocker), &[Ok, Ok]),
            ],
        );
        let shm = |value: &str| {
            lines(&[
                EFA,
                &vllm("[\"LIBFABRIC\"]"),
                &env(&[("FI_EFA_ENABLE_SHM_TRANSFER", value)]),
            ])
        };
        table(
            "env:FI_EFA_ENABLE_SHM_TRANSFER",
            &[
                ("off on EFA", graph(&shm("0")), &[Ok, Ok]),
                ("on on EFA", graph(&shm("1")), &[Fail, Fail]),
                (
                    "on on EFA, on different nodes",
                    both(Pod::of(&shm("1")).spec(APART)),
                    &[Fail, Fail],
                ),
            ],
        );
        let several = "multinode: {nodeCount: 2}";
        let sockets = env(&[("NCCL_IB_DISABLE", "1")]);
        let with = |container: &str| lines(&[container, &sockets]);
        table(
            "env:NCCL_IB_DISABLE",
            &[
                ("one node", graph(&with(RDMA)), &[Ok, Ok]),
                (
                    "several nodes with RDMA",
                    both(Pod::of(&with(RDMA)).component(several)),
                    &[Fail, Fail],
                ),
                (
                    "several nodes with RDMA, aggregated",
                    alone(Pod::of(&with(RDMA)).component(several)),
                    &[Fail],
                ),
                (
                    "several nodes without RDMA",
                    both(Pod::of(&with(GPU)).component(several)),
                    &[Warn, Warn],
                ),
                (
                    "several nodes with EFA",
                    both(Pod::of(&with(EFA)).component(several)),
                    &[Ok, Ok],
                ),
                (
                    "from a field",
                    both(Pod::of(&unread("NCCL_IB_DISABLE")).component(several)),
                    &[Skipped, Skipped],
                ),
            ],
        );
    }

    /// Under the container of its worker, in the form of the API version; a script has the last word and is no manifest.
    #[test]
    fn the_entry_to_paste_stands_where_the_container_is_written() {
        let paste = |text: &str| {
            let report = report(text);
            let fix = report
                .fix_first
                .into_iter()
                .find(|f| f.name == "env:UCX_TLS");
            fix.unwrap().paste
        };
        let tcp = lines(&[RDMA, &env(&[("UCX_TLS", "tcp")])]);
        let entry = "env:\n  - name: UCX_TLS\n    value: rc_x,rc,cuda_copy,cuda_ipc";
        let place = |name: &str| {
            format!("# under spec.components[{name}].podTemplate.spec.containers[main]\n{entry}")
        };
        let expected = format!("{}\n---\n{}", place("p"), place("d"));
        assert_eq!(paste(&graph(&tcp)), Some(expected));
        let script = lines(&[
            RDMA,
            "command: [sh, -c, 'export UCX_TLS=tcp; exec python3 -m dynamo.vllm']",
        ]);
        assert_eq!(paste(&graph(&script)), None);
    }
}
