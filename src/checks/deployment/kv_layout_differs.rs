use crate::check;
use crate::checks::WorkloadScope;
use crate::checks::declare::{Draft, Outcome};
use crate::manifest::workload::{Engine, Role, Worker};
use crate::observed::Skip;
use crate::report::{SkipReason, Status};

check! {
    /// Prefill and decode lay out their KV cache in ways that do not fit.
    ///
    /// Compared are the tensor-parallel size and the type of the KV cache, as far as flags state them; block sizes have a check
    /// of their own.
    ///
    /// ## Why it matters
    /// vLLM refuses a prefill worker that is split finer than its decode worker, and a KV cache of another type does not pass
    /// the handshake: decode computes everything again, or stops.
    ///
    /// ## Fix
    /// Make the tensor-parallel size of prefill at most that of decode (vLLM), and state the same `--kv-cache-dtype`.
    ///
    /// ## Sources
    /// vllm-project/vllm#43523 (refused in that version), #50765, #29503.
    "DEP005" "kv-layout-differs" on Workload {
        subsystem: Deployment, kv_path: Supporting, worst: Fail, causes: &[], since: "0.3.0",
    }
}

fn run(scope: &WorkloadScope<'_>) -> Outcome {
    scope.over_pairs(|left, right| {
        // What an encode worker hands on is no KV.
        if left.role == Role::Encode {
            return Err(Skip::not_applicable());
        }
        let drafts: Vec<Draft> = [tensor_parallel(left, right)?, cache_type(left, right)]
            .into_iter()
            .flatten()
            .collect();
        match drafts.is_empty() {
            true => Err(Skip::not_applicable()),
            false => Ok(drafts),
        }
    })
}

fn tensor_parallel(left: &Worker, right: &Worker) -> Result<Option<Draft>, Skip> {
    let size = |worker: &Worker| match worker.flags.get("tensor-parallel-size") {
        None => Ok(None),
        Some(text) => text.parse::<u32>().map(Some).map_err(|_| {
            let detail = format!(
                "--tensor-parallel-size {text} of {} is no number",
                worker.name
            );
            Skip::new(SkipReason::Unresolved, detail)
        }),
    };
    let (Some(from), Some(to)) = (size(left)?, size(right)?) else {
        return Ok(None);
    };
    let vllm = left.engine == Some(Engine::Vllm) && right.engine == Some(Engine::Vllm);
    Ok(Some(if from > to && vllm {
        let detail = format!(
            "--tensor-parallel-size is {from} on {} and {to} on {}: vLLM refuses a prefill worker that is split finer than decode",
            left.called(),
            right.called()
        );
        Draft::fail(detail)
            .headline("prefill has a larger tensor-parallel size than decode")
            .with([left.spot.evidence(), right.spot.evidence()])
            .fix("make the tensor-parallel size of prefill at most that of decode")
    } else if from == to {
        Draft::ok(format!("both roles use tensor-parallel size {from}"))
    } else {
        Draft::ok(format!(
            "the tensor-parallel size is {from} on {} and {to} on {}; the engine has to rearrange KV, so watch for its handshake",
            left.called(),
            right.called()
        ))
    }))
}

fn cache_type(left: &Worker, right: &Worker) -> Option<Draft> {
    let stated = |worker: &Worker| {
        let text = worker.flags.get("kv-cache-dtype")?;
        // vLLM takes the short word for the common form.
        Some(if text == "fp8" { "fp8_e4m3" } else { text }.to_owned())
    };
    let word = |kind: &Option<String>| kind.clone().unwrap_or_else(|| "not stated".to_owned());
    let (a, b) = (stated(left), stated(right));
    if a.is_none() && b.is_none() {
        return None;
    }
    if a == b {
        return Some(Draft::ok(format!("both roles keep KV as {}", word(&a))));
    }
    // What is not stated follows the model, which may say the same.
    let open = |kind: &Option<String>| kind.as_deref().is_none_or(|kind| kind == "auto");
    let status = match open(&a) || open(&b) {
        true => Status::Warn,
        false => Status::Fail,
    };
    if open(&a) && open(&b) {
        return Some(Draft::ok("both roles keep KV as the model says"));
    }
    let detail = format!(
        "--kv-cache-dtype is {} on {} and {} on {}",
        word(&a),
        left.called(),
        word(&b),
        right.called()
    );
    Some(
        Draft::new(status, detail)
            .headline("the ends keep KV in different types")
            .with([left.spot.evidence(), right.spot.evidence()])
            .fix("state the same --kv-cache-dtype in both roles"),
    )
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::{MOCKER, Pod, alone, encode_pd, graph, sglang, table, two_sided};
    use crate::report::Status::{Fail, Ok, Skipped, Warn};

    #[test]
    fn table_of_statuses() {
        let vllm = |flags: &str| format!("command: [python3, -m, dynamo.vllm]\nargs: [{flags}]");
        let tp = |p: &str, d: &str| {
            two_sided(&vllm(&format!("--tp, {p}")), &vllm(&format!("--tp, {d}")))
        };
        let kind = |p: &str, d: &str| {
            two_sided(
                &vllm(&format!("--kv-cache-dtype, {p}")),
                &vllm(&format!("--kv-cache-dtype, {d}")),
            )
        };
        table(
            "kv-layout-differs",
            &[
                ("the same size", tp("'4'", "'4'"), &[Ok]),
                ("decode is split finer", tp("'2'", "'8'"), &[Ok]),
                ("prefill is split finer", tp("'8'", "'4'"), &[Fail]),
                (
                    "SGLang may",
                    two_sided(&sglang("--tp, '8'"), &sglang("--tp, '4'")),
                    &[Ok],
                ),
                ("a placeholder", tp("'8'", "<size>"), &[Skipped]),
                ("the same type", kind("fp8", "fp8_e4m3"), &[Ok]),
                ("another type", kind("fp8", "bfloat16"), &[Fail]),
                ("one follows the model", kind("fp8", "auto"), &[Warn]),
                (
                    "one states it",
                    two_sided(&vllm("--kv-cache-dtype, fp8"), &vllm("--x")),
                    &[Warn],
                ),
                ("stated by none", graph(&vllm("--x")), &[]),
                (
                    "an encode worker has no KV",
                    encode_pd("env: []", "args: [--kv-cache-dtype, fp8]"),
                    &[],
                ),
                (
                    "a mocker moves nothing",
                    tp("'8'", "'4'").replace("dynamo.vllm", "dynamo.mocker"),
                    &[],
                ),
                ("aggregated", alone(Pod::of(MOCKER)), &[]),
            ],
        );
    }
}
