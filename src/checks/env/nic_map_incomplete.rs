use crate::check;
use crate::checks::WorkerScope;
use crate::checks::declare::{Draft, Outcome};
use crate::observed::Skip;

check! {
    /// Half of vLLM's GPU-to-NIC map is set.
    ///
    /// ## Why it matters
    /// VLLM_GPU_NIC_PCIE_MAPPING and VLLM_NIC_SELECTION_VARS work as a pair: one alone selects nothing, and every rank
    /// uses the same NICs.
    ///
    /// ## Fix
    /// Set both on prefill and decode, or neither.
    ///
    /// ## Sources
    /// Dynamo recipe deepseek-v4, README.
    "ENV005" "nic-map-incomplete" on Worker {
        subsystem: Env, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

const MAP: &str = "VLLM_GPU_NIC_PCIE_MAPPING";
const VARS: &str = "VLLM_NIC_SELECTION_VARS";

fn run(scope: &WorkerScope<'_>) -> Outcome {
    scope.require_kv()?;
    let env = &scope.worker.env;
    let (set, entry, missing) = match (env.get(MAP), env.get(VARS)) {
        (Some(entry), None) => (MAP, entry, VARS),
        (None, Some(entry)) => (VARS, entry, MAP),
        (None, None) => return Err(Skip::not_applicable()),
        (Some(_), Some(_)) => {
            return Ok(vec![Draft::ok("both halves of the GPU-to-NIC map are set")]);
        }
    };
    let detail = format!("{set} is set without {missing}: the map selects nothing");
    Ok(vec![
        Draft::warn(detail)
            .with([entry.spot.evidence()])
            .fix(format!("set {missing} too, or remove {set}")),
    ])
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::{Pod, alone, env, graph, table, unread};
    use crate::report::Status::{Ok, Warn};

    #[test]
    fn table_of_statuses() {
        let (map, vars) = ((super::MAP, "0:mlx5_0"), (super::VARS, "UCX_NET_DEVICES:1"));
        table(
            "nic-map-incomplete",
            &[
                ("both halves", graph(&env(&[map, vars])), &[Ok, Ok]),
                ("the map alone", graph(&env(&[map])), &[Warn, Warn]),
                ("the variables alone", graph(&env(&[vars])), &[Warn, Warn]),
                // That it is set is all that is asked.
                (
                    "the map alone, from a field",
                    graph(&unread(super::MAP)),
                    &[Warn, Warn],
                ),
                ("neither", graph(&env(&[])), &[]),
                ("aggregated", alone(Pod::of(&env(&[map]))), &[]),
            ],
        );
    }
}
