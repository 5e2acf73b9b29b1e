use crate::check;
use crate::checks::DeploymentScope;
use crate::checks::compare::component;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::mover::{self, Mover};
use crate::manifest::workload::Role;
use crate::observed::Skip;
use crate::report::SkipReason;
use std::collections::BTreeMap;

check! {
    /// KV is moved by something else than NIXL, or by what is not known.
    ///
    /// A transfer of this tool goes through NIXL. Where Mooncake, NCCL, MPI, LMCache or a store moves the KV cache, it shows a lane
    /// that no KV takes, so such a deployment is never `trusted`. Neither is one of which nothing says what moves its KV.
    ///
    /// ## Why it matters
    /// Each mover opens its own devices by its own settings. NIXL may reach the peer over RDMA while Mooncake of the same workers
    /// falls back to TCP.
    ///
    /// ## Fix
    /// Look at what that mover says of its lane; the finding names it. Or choose NIXL in both roles, and prove it with
    /// `check --transfer`.
    ///
    /// ## False alarms
    /// A connector that holds others counts by what it holds: a cache or a store beside NixlConnector hands nothing on. LMCache may
    /// use NIXL by a configuration of its own, which is not read.
    ///
    /// ## Sources
    /// vLLM v0.14.0 `kv_connector/factory.py`; SGLang v0.5.5 `server_args.py` (`disaggregation_transfer_backend` is `mooncake` where
    /// nothing is chosen); TensorRT-LLM `cache_transceiver_config.backend`.
    "DEP022" "other-mover" on Deployment {
        subsystem: Deployment, kv_path: Required, worst: Skipped, causes: &[], since: "0.1.0",
    }
}

fn run(scope: &DeploymentScope<'_>) -> Outcome {
    scope.require_kv()?;
    let moves = |role: Option<&str>| {
        [Role::Prefill, Role::Decode]
            .map(Role::word)
            .contains(&role.unwrap_or_default())
    };
    let named = |name: &str| {
        let mut workers = scope.workload.workers.iter();
        workers.find(|worker| worker.name == name)
    };
    let mut found: BTreeMap<String, (Mover, String)> = BTreeMap::new();
    for container in scope
        .containers
        .iter()
        .filter(|c| moves(c.place.role.as_deref()))
    {
        let running = container
            .facts
            .process
            .kv_transfer
            .known()
            .map(|seen| &seen.value);
        let written = named(component(container)).map(|worker| (worker, scope.workload));
        let mover = mover::of(running, written).or_else(|| {
            let word = container.facts.process.worker_word();
            mover::unnamed(word, written.map(|(worker, _)| worker))
        });
        if let Some(mover) = mover {
            found
                .entry(format!("{mover:?}"))
                .or_insert((mover, container.place.pod.clone()));
        }
    }
    if scope.containers.is_empty() {
        for worker in scope
            .workload
            .workers
            .iter()
            .filter(|w| moves(Some(w.role.word())))
        {
            if let Some(mover) = mover::of(None, Some((worker, scope.workload))) {
                found
                    .entry(format!("{mover:?}"))
                    .or_insert((mover, worker.called()));
            }
        }
    }
    if found.is_empty() {
        return Err(Skip::not_applicable());
    }
    let drafts: Vec<Draft> = found
        .into_values()
        .filter_map(|(mover, of)| {
            let why = mover.beside_nixl()?;
            let (reason, detail, fix) = match &mover {
                Mover::Other(other) => (
                    SkipReason::NotCollected,
                    format!("{why} (seen of {of}): no transfer of this tool can prove its lane"),
                    other.shown_by,
                ),
                Mover::Open(open) => (
                    match open.may_be_nixl {
                        true => SkipReason::Unresolved,
                        false => SkipReason::NotCollected,
                    },
                    format!("{why} (seen of {of}), and a transfer shows the lane of NIXL alone"),
                    open.make_known,
                ),
                Mover::Nixl => return None,
            };
            let skip = Skip::new(reason, detail);
            Some(Draft::skipped(skip).headline(why).fix(fix))
        })
        .collect();
    let workers = scope.workload.workers.iter();
    let written = workers
        .filter(|w| moves(Some(w.role.word())))
        .map(|w| w.spot.evidence());
    Ok(match drafts.is_empty() {
        true => vec![Draft::ok("NIXL moves the KV, so its transfers show the lane").with(written)],
        false => drafts,
    })
}

#[cfg(test)]
mod tests {
    use crate::ask;
    use crate::checks::testing::{Answers, Fleet, sglang};
    use crate::report::Status::{self, Ok, Skipped};

    fn vllm(connector: &str) -> String {
        format!(
            "command: [python3, -m, dynamo.vllm]\nargs: [--kv-transfer-config, '{{\"kv_connector\":\"{connector}\"}}']"
        )
    }

    fn say(prefill: &str, decode: &str, live: Option<&str>) -> Vec<Status> {
        let answers: Answers = live
            .map(|line| (&ask::WORKER_KV_TRANSFER, format!("{line}\n")))
            .into_iter()
            .collect();
        Fleet::of(&[("prefill", answers.as_slice()), ("decode", &answers)])
            .body("prefill", prefill)
            .body("decode", decode)
            .statuses("other-mover")
    }

    #[test]
    fn table_of_statuses() {
        let of = |backend: &str| sglang(&format!("--disaggregation-transfer-backend, {backend}"));
        let trtllm = |variable: &str| {
            format!(
                "command: [python3, -m, dynamo.trtllm]\nargs: [--trtllm.cache-transceiver-config.backend, DEFAULT]\nenv: [{{name: {variable}, value: '1'}}]"
            )
        };
        let multi = "command: [python3, -m, dynamo.vllm]\nargs: [--kv-transfer-config, '{\"kv_connector\":\"MultiConnector\",\
            \"kv_connector_extra_config\":{\"connectors\":[{\"kv_connector\":\"LMCacheConnectorV1\"},{\"kv_connector\":\"NixlConnector\"}]}}']";
        let plain = "command: [python3, -m, dynamo.vllm]";
        let nixl = vllm("NixlConnector");
        let rows: &[(&str, &str, Option<&str>, &[Status])] = &[
            ("NIXL", &nixl, None, &[Ok]),
            ("LMCache beside NIXL", multi, None, &[Ok]),
            ("Mooncake", &vllm("MooncakeConnector"), None, &[Skipped]),
            ("NCCL", &vllm("P2pNcclConnector"), None, &[Skipped]),
            ("LMCache", &vllm("LMCacheConnectorV1"), None, &[Skipped]),
            ("a connector of their own", &vllm("Own"), None, &[Skipped]),
            ("SGLang over NIXL", &of("nixl"), None, &[Ok]),
            ("SGLang over Mooncake", &of("mooncake"), None, &[Skipped]),
            (
                "SGLang by its default",
                &sglang("--tp, '8'"),
                None,
                &[Skipped],
            ),
            (
                "TensorRT-LLM",
                &trtllm("TRTLLM_USE_NIXL_KVCACHE"),
                None,
                &[Ok],
            ),
            (
                "TensorRT-LLM over MPI",
                &trtllm("TRTLLM_USE_MPI_KVCACHE"),
                None,
                &[Skipped],
            ),
            ("nothing says", plain, None, &[Skipped]),
            (
                "nothing says, by Dynamo's short word",
                "command: [python3, -m, dynamo.vllm, --connector, nixl]",
                None,
                &[Ok],
            ),
            (
                "a script of their own",
                "command: [/start.sh]",
                None,
                &[Skipped],
            ),
            (
                "a script of their own, and the process is seen",
                "command: [/start.sh]",
                Some("\"kv_connector\": \"NixlConnector\""),
                &[Ok],
            ),
            (
                "the process is started with another one",
                &of("nixl"),
                Some("\"transfer_backend\": \"mooncake\""),
                &[Skipped],
            ),
            (
                "the process is started with one",
                plain,
                Some("\"kv_connector\": \"NixlConnector\""),
                &[Ok],
            ),
            (
                "the process holds several",
                plain,
                Some(
                    "\"kv_connector\": \"MultiConnector\"\n\"kv_connector\": \"NixlConnector\"\n\"kv_connector\": \"LMCacheConnectorV1\"",
                ),
                &[Ok],
            ),
        ];
        for (what, body, live, wanted) in rows {
            assert_eq!(say(body, body, *live), *wanted, "{what}");
        }
        let one_end = say(&nixl, &vllm("MooncakeConnector"), None);
        assert_eq!(one_end, [Skipped], "of one end");
    }
}
