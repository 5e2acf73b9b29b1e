use crate::check;
use crate::checks::WorkloadScope;
use crate::checks::declare::{Draft, Outcome};
use crate::observed::Skip;

check! {
    /// Prefill and decode use different KV block sizes.
    ///
    /// Judged only when both roles state `--block-size`.
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
    scope.require_kv()?;
    let (left, right) = scope.sides().ok_or_else(Skip::not_applicable)?;
    let (Some(a), Some(b)) = (left.flags.get("block-size"), right.flags.get("block-size")) else {
        return Err(Skip::not_applicable());
    };
    if a == b {
        return Ok(vec![Draft::ok(format!("both roles use --block-size {a}"))]);
    }
    if a.parse::<u64>().is_err() || b.parse::<u64>().is_err() {
        return Err(Skip::not_applicable());
    }
    let detail = format!(
        "--block-size is {a} on {} and {b} on {}: KV blocks do not match",
        left.name, right.name
    );
    let evidence = [left.spot.evidence(), right.spot.evidence()];
    Ok(vec![
        Draft::fail(detail)
            .with(evidence)
            .fix("give both roles the same --block-size"),
    ])
}
