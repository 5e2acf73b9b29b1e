use crate::check;
use crate::checks::WorkloadScope;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::scope::no_number;
use crate::manifest::workload::{Engine, Role, Worker};
use crate::observed::Skip;
use crate::report::SkipReason;

check! {
    /// Prefill and decode use different KV block sizes.
    ///
    /// Judged where a role states it: `--block-size`, `--page-size`, `kv_cache_config.tokens_per_block`. Where the other does not,
    /// TensorRT-LLM takes 32; vLLM and SGLang choose it by their attention backend, so it is not known.
    ///
    /// ## Why it matters
    /// A KV block is transferred as it lies in memory. With 16 tokens per block on one side and 32 on the other the transfer
    /// fails, or arrives wrong.
    ///
    /// ## Fix
    /// Give both roles the same `--block-size`.
    ///
    /// ## Sources
    /// vllm-project/vllm#42895.
    "K8S014" "block-size-differs" on Workload {
        subsystem: Kubernetes, kv_path: Required, worst: Fail, causes: &[], since: "0.1.0",
    }
}

fn run(scope: &WorkloadScope<'_>) -> Outcome {
    scope.over_pairs(pair)
}

/// Tokens in a block of TensorRT-LLM where nothing states it.
/// <https://github.com/NVIDIA/TensorRT-LLM/blob/v1.1.0/tensorrt_llm/llmapi/llm_args.py> (`KvCacheConfig.tokens_per_block`)
const OF_TRTLLM: &str = "32";

/// The size that a worker states, or that its engine takes where nothing states it; none where that is not known.
fn size(worker: &Worker) -> Option<&str> {
    let stated = worker.flags.get("block-size").map(String::as_str);
    let default = worker.engine == Some(Engine::Trtllm) && !worker.kv_transfer.unread;
    stated.or(default.then_some(OF_TRTLLM))
}

/// One pair of ends.
fn pair(left: &Worker, right: &Worker) -> Outcome {
    let states = |worker: &Worker| worker.flags.contains_key("block-size");
    // What an encode worker hands on is no KV.
    if left.role == Role::Encode || !states(left) && !states(right) {
        return Err(Skip::not_applicable());
    }
    let (a, b) = match (size(left), size(right)) {
        (Some(a), Some(b)) => (a, b),
        (a, _) => {
            let (one, other) = if a.is_some() {
                (left, right)
            } else {
                (right, left)
            };
            let detail = format!(
                "--block-size is {} on {} and not stated on {}, where the engine chooses it by its attention backend: state it in \
                 both roles",
                size(one).unwrap_or_default(),
                one.called(),
                other.called()
            );
            return Err(Skip::new(SkipReason::Unresolved, detail));
        }
    };
    for (size, worker) in [(a, left), (b, right)] {
        if size.parse::<u64>().is_err() {
            return Err(no_number(worker, "block-size", size));
        }
    }
    if a == b {
        return Ok(vec![Draft::ok(format!("both roles use --block-size {a}"))]);
    }
    let detail = format!(
        "--block-size is {a} on {} and {b} on {}: KV blocks do not match",
        left.name, right.name
    );
    let evidence = [left, right].map(|worker| worker.flag_spot("block-size").evidence());
    Ok(vec![
        Draft::fail(detail)
            .with(evidence)
            .fix("give both roles the same --block-size"),
    ])
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::{Pod, alone, report, sglang, table, trtllm, two_sided};
    use crate::report::Status::{Fail, Ok, Skipped};

    #[test]
    fn table_of_statuses() {
        let sizes = |p: &str, d: &str| {
            two_sided(
                &sglang(&format!("--page-size, {p}")),
                &sglang(&format!("--page-size, {d}")),
            )
        };
        let block = |size: u32| format!("kv_cache_config:\n  tokens_per_block: {size}");
        let plain = sglang("--tp, '8'");
        table(
            "block-size-differs",
            &[
                ("the same", sizes("'16'", "'16'"), &[Ok]),
                ("different", sizes("'16'", "'32'"), &[Fail]),
                ("a placeholder", sizes("'16'", "<size>"), &[Skipped]),
                (
                    "the same placeholder",
                    sizes("<size>", "<size>"),
                    &[Skipped],
                ),
                (
                    "stated by one role",
                    two_sided(&sglang("--page-size, '16'"), &plain),
                    &[Skipped],
                ),
                (
                    "TensorRT-LLM, different",
                    trtllm(&block(32), &block(64)),
                    &[Fail],
                ),
                (
                    "TensorRT-LLM, the same",
                    trtllm(&block(64), &block(64)),
                    &[Ok],
                ),
                ("TensorRT-LLM, its default", trtllm(&block(32), ""), &[Ok]),
                (
                    "TensorRT-LLM, another than its default",
                    trtllm("a: b", &block(64)),
                    &[Fail],
                ),
                ("stated by none", two_sided(&plain, &plain), &[]),
                (
                    "a mocker moves nothing",
                    sizes("'16'", "'32'").replace("dynamo.sglang", "dynamo.mocker"),
                    &[],
                ),
                (
                    "aggregated",
                    alone(Pod::of(&sglang("--page-size, '16'"))),
                    &[],
                ),
            ],
        );
    }

    #[test]
    fn a_number_from_a_variable_of_the_container_is_known() {
        let of = |prefill: &str, decode: &str| {
            let side = |size: &str| {
                format!(
                    "command: [sh, -c]\nargs: ['exec python3 -m dynamo.vllm --block-size \"${{BLOCK_SIZE}}\"']\nenv: [{{name: \
                     BLOCK_SIZE, value: \"{size}\"}}]"
                )
            };
            let all = report(&two_sided(&side(prefill), &side(decode)));
            let found = all.checks.iter().find(|f| f.id == "K8S014").unwrap();
            (found.status, found.detail.clone())
        };
        assert_eq!(of("64", "64").0, Ok);
        assert_eq!(of("64", "16").0, Fail);
        // Anything else may be a secret.
        let (status, said) = of("hunter2", "64");
        assert_eq!(status, Skipped);
        assert!(
            !said.contains("hunter2") && !said.contains("unrecognised"),
            "{said}"
        );
    }
}
