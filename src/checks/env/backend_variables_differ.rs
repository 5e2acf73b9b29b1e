use crate::check;
use crate::checks::WorkerScope;
use crate::checks::declare::{Draft, Outcome};
use crate::manifest::workload::Engine;
use crate::observed::Skip;

check! {
    /// Two variables of one worker name different NIXL backends.
    ///
    /// ## Why it matters
    /// NIXL_BACKEND is for launchers and tools, and the engine reads a variable of its own. Where the two disagree, one part of
    /// the worker counts the rails of a backend that the other does not use.
    ///
    /// ## Fix
    /// Give NIXL_BACKEND the value of the engine's variable, or remove it.
    ///
    /// ## Sources
    /// NVIDIA/TensorRT-LLM#10024.
    "ENV015" "backend-variables-differ" on Worker {
        subsystem: Env, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

const GENERAL: &str = "NIXL_BACKEND";

fn run(scope: &WorkerScope<'_>) -> Outcome {
    scope.require_kv()?;
    let own = match scope.worker.engine {
        Some(Engine::Trtllm) => "TRTLLM_NIXL_KVCACHE_BACKEND",
        Some(Engine::Sglang) => "SGLANG_DISAGGREGATION_NIXL_BACKEND",
        Some(Engine::Vllm) | None => return Err(Skip::not_applicable()),
    };
    let set = |name: &str| scope.worker.env.contains_key(name);
    if !set(own) || !set(GENERAL) {
        return Err(Skip::not_applicable());
    }
    let (Some(engine), Some(general)) = (scope.literal(own)?, scope.literal(GENERAL)?) else {
        return Err(Skip::not_applicable());
    };
    let entries = [own, GENERAL].into_iter();
    let seen = entries.filter_map(|name| Some(scope.worker.env.get(name)?.spot.evidence()));
    let shown = |value: &str| crate::sanitise::line(value, 40);
    let (engine, general) = (shown(engine), shown(general));
    if engine.eq_ignore_ascii_case(&general) {
        let detail = format!("{own} and {GENERAL} both name {engine}");
        return Ok(vec![Draft::ok(detail).with(seen)]);
    }
    let detail =
        format!("{own} is {engine} and {GENERAL} is {general}: the engine takes the first");
    Ok(vec![
        Draft::warn(detail)
            .with(seen)
            .fix(format!("write {GENERAL}={engine}, or remove it")),
    ])
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::{Pod, RDMA, alone, env, graph, lines, table, unread};
    use crate::report::Status::{Ok, Skipped, Warn};

    #[test]
    fn table_of_statuses() {
        let of = |module: &str, vars: &[(&str, &str)]| {
            lines(&[
                &format!("command: [python3, -m, {module}]"),
                RDMA,
                &env(vars),
            ])
        };
        let trtllm = |own: &str, general: &str| {
            let vars = [
                ("TRTLLM_NIXL_KVCACHE_BACKEND", own),
                ("NIXL_BACKEND", general),
            ];
            of("dynamo.trtllm", &vars)
        };
        let sglang = |general: &str| {
            let vars = [
                ("SGLANG_DISAGGREGATION_NIXL_BACKEND", "UCX"),
                ("NIXL_BACKEND", general),
            ];
            of("dynamo.sglang", &vars)
        };
        let open = lines(&[
            "command: [python3, -m, dynamo.trtllm]",
            &unread("NIXL_BACKEND").replace(
                "env: [",
                "env: [{name: TRTLLM_NIXL_KVCACHE_BACKEND, value: UCX}, ",
            ),
        ]);
        table(
            "backend-variables-differ",
            &[
                (
                    "the same",
                    graph(&trtllm("LIBFABRIC", "libfabric")),
                    &[Ok, Ok],
                ),
                (
                    "different",
                    graph(&trtllm("LIBFABRIC", "UCX")),
                    &[Warn, Warn],
                ),
                (
                    "different, SGLang",
                    graph(&sglang("LIBFABRIC")),
                    &[Warn, Warn],
                ),
                (
                    "one alone",
                    graph(&of("dynamo.trtllm", &[("NIXL_BACKEND", "UCX")])),
                    &[],
                ),
                ("not known", graph(&open), &[Skipped, Skipped]),
                (
                    "aggregated",
                    alone(Pod::of(&trtllm("LIBFABRIC", "UCX"))),
                    &[],
                ),
            ],
        );
    }
}
