use crate::check;
use crate::checks::WorkloadScope;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::scope::no_number;
use crate::checks::words;
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
    /// Give both roles the same `--block-size` (SGLang: `--page-size`; TensorRT-LLM: `kv_cache_config.tokens_per_block`).
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

/// The flag, as it is reported.
const SIZE: &str = "block-size";

/// The size that a worker states, or that its engine takes where nothing states it; none where that is not known.
fn size(worker: &Worker) -> Option<&str> {
    let stated = worker.flags.get(SIZE).map(String::as_str);
    let default = worker.engine == Some(Engine::Trtllm) && !worker.kv_transfer.unread;
    stated.or(default.then_some(OF_TRTLLM))
}

/// One pair of ends.
fn pair(left: &Worker, right: &Worker) -> Outcome {
    let states = |worker: &Worker| worker.flags.contains_key(SIZE);
    // What an encode worker hands on is no KV.
    if left.role == Role::Encode || !states(left) && !states(right) {
        return Err(Skip::not_applicable());
    }
    let evidence = || [left, right].map(|worker| worker.flag_spot(SIZE).evidence());
    let (own, other) = (left.calls(SIZE), right.calls(SIZE));
    let fix = match own == other {
        true => format!("give both roles the same {own}"),
        false => format!(
            "make {own} of {} and {other} of {} the same",
            left.called(),
            right.called()
        ),
    };
    let dropped = |worker: &Worker| worker.may_be_dropped.get(SIZE).cloned();
    if let (Some(a), Some(b)) = (dropped(left), dropped(right))
        && a == b
    {
        // Whether it holds or not, it does at both ends.
        return Ok(vec![Draft::ok(format!(
            "both roles use {own} {a}, or what their release takes where other keys are laid over it"
        ))]);
    }
    for (size, worker) in [(size(left), left), (size(right), right)] {
        if let Some(size) = size.filter(|size| size.parse::<u64>().is_err()) {
            let open = Draft::skipped(no_number(worker, SIZE, size));
            let fix = match (&worker.kv_transfer.laid_over, worker.engine) {
                (Some(what), _) => words::write_out(what),
                // Other keys of the map are laid over it.
                (None, Some(Engine::Trtllm)) => {
                    format!(
                        "write {} of {} into --override-engine-args, too",
                        worker.calls(SIZE),
                        worker.called()
                    )
                }
                _ => format!("write {} of {} out", worker.calls(SIZE), worker.called()),
            };
            return Ok(vec![open.with(evidence()).fix(fix)]);
        }
    }
    let (a, b) = match (size(left), size(right)) {
        (Some(a), Some(b)) => (a, b),
        (a, b) => {
            let (one, other) = if a.is_some() {
                (left, right)
            } else {
                (right, left)
            };
            let why = match other.kv_transfer.unread {
                true => "its configuration file was not read",
                false => "its engine chooses it by the attention backend",
            };
            let detail = format!(
                "{} is {} on {} and not stated on {}: {why}",
                one.calls(SIZE),
                a.or(b).unwrap_or_default(),
                one.called(),
                other.called()
            );
            let open = Draft::skipped(Skip::new(SkipReason::Unresolved, detail));
            let fix = format!("state {} of {} as well", other.calls(SIZE), other.called());
            return Ok(vec![open.with(evidence()).fix(fix)]);
        }
    };
    if a == b {
        return Ok(vec![Draft::ok(format!("both roles use {own} {a}"))]);
    }
    let second = match own == other {
        true => String::new(),
        false => format!("{other} is "),
    };
    let detail = format!(
        "{own} is {a} on {} and {second}{b} on {}: KV blocks do not match",
        left.called(),
        right.called()
    );
    Ok(vec![Draft::fail(detail).with(evidence()).fix(fix)])
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
    fn the_setting_is_called_what_its_engine_calls_it() {
        let say = |text: &str| {
            let all = report(text);
            let found = all.checks.iter().find(|f| f.id == "K8S014").unwrap();
            (found.detail.clone(), found.fix.clone().unwrap_or_default())
        };
        let page = |size: &str| sglang(&format!("--page-size, '{size}'"));
        let (said, fix) = say(&two_sided(&page("16"), &page("32")));
        assert_eq!(
            said,
            "--page-size is 16 on p (prefill) and 32 on d (decode): KV blocks do not match"
        );
        assert_eq!(fix, "give both roles the same --page-size");
        let (said, fix) = say(&two_sided(&page("16"), &sglang("--tp, '8'")));
        assert_eq!(
            said,
            "--page-size is 16 on p (prefill) and not stated on d (decode): its engine chooses it by the attention backend"
        );
        assert_eq!(fix, "state --page-size of d (decode) as well");
        let block = |size: u32| format!("kv_cache_config:\n  tokens_per_block: {size}");
        let (said, _) = say(&trtllm(&block(32), &block(64)));
        assert!(
            said.starts_with("kv_cache_config.tokens_per_block is 32 on p (prefill)"),
            "{said}"
        );
    }

    #[test]
    fn what_is_laid_over_the_configuration_of_tensorrt_llm_goes_before_it() {
        let with = |size: u32, both: bool, flags: &str| {
            let file = format!("kv_cache_config:\n  tokens_per_block: {size}");
            let text = trtllm(&file, &file);
            let named = "--extra-engine-args";
            let laid = format!("{flags}, {named}");
            let text = text.replacen(named, &laid, if both { 2 } else { 1 });
            let all = report(&text);
            let found = all.checks.iter().find(|f| f.id == "K8S014").unwrap();
            found.status
        };
        let say = |flags: &str| with(32, false, flags);
        let whole = |json: &str| format!("--override-engine-args, '{json}'");
        assert_eq!(say("--x"), Ok);
        assert_eq!(
            say(&whole("{\"kv_cache_config\": {\"tokens_per_block\": 64}}")),
            Fail
        );
        assert_eq!(say("--trtllm.kv_cache_config.tokens_per_block, '64'"), Fail);
        // The engine does not take it.
        assert_eq!(say("--kv-block-size, '64'"), Ok);
        // By the release, the rest of the map falls away, which changes nothing where it says what holds without it.
        let frac = whole("{\"kv_cache_config\": {\"free_gpu_memory_fraction\": 0.8}}");
        assert_eq!(say(&frac), Ok);
        assert_eq!(with(64, false, &frac), Skipped);
        assert_eq!(with(64, true, &frac), Ok);
        assert_eq!(say(&whole("{")), Skipped);
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
