use crate::check;
use crate::checks::WorkerScope;
use crate::checks::declare::{Draft, Outcome};
use crate::judge;
use crate::judge::context::Tri;
use crate::manifest::workload::{Engine, Role, UNRECOGNISED, Worker};
use crate::observed::Skip;
use crate::report::{SkipReason, Status};

check! {
    /// Decode asks for KV at an address or a port where prefill does not answer.
    ///
    /// Looked at are `--host` and `--disaggregation-bootstrap-port` of SGLang, and `VLLM_NIXL_SIDE_CHANNEL_HOST` where vLLM is
    /// started by its own server. What these variables are set to is judged with the variable itself.
    ///
    /// ## Why it matters
    /// SGLang's bootstrap server listens at `--host`: on a loopback address no other pod reaches it. vLLM tells its peers
    /// `localhost` where nothing else is said, and decode then asks itself; only `dynamo.vllm` sets the address of the pod. The
    /// handshake fails, and decode computes everything again.
    ///
    /// ## Fix
    /// SGLang: `--host 0.0.0.0`, and the same bootstrap port in both roles. vLLM: take VLLM_NIXL_SIDE_CHANNEL_HOST from the pod
    /// (`valueFrom: {fieldRef: {fieldPath: status.podIP}}`).
    ///
    /// ## False alarms
    /// A router that tells decode the port of each prefill worker makes differing ports harmless.
    ///
    /// ## Sources
    /// sgl-project/sglang#11747 (connection refused 127.0.0.1:8998), #21704; vllm-project/vllm#27083; NVIDIA/srt-slurm#11.
    "ENV014" "handshake-unreachable" on Worker {
        subsystem: Env, kv_path: Supporting, worst: Fail, causes: &[], since: "0.1.0",
    }
}

const HOST: &str = "host";
const PORT: &str = "disaggregation-bootstrap-port";
const SIDE_CHANNEL: &str = "VLLM_NIXL_SIDE_CHANNEL_HOST";

/// SGLang's own.
/// <https://github.com/sgl-project/sglang/blob/v0.5.5/python/sglang/srt/server_args.py>
const DEFAULT_PORT: &str = "8998";

fn run(scope: &WorkerScope<'_>) -> Outcome {
    scope.require_kv()?;
    let worker = scope.worker;
    // Pods of one node that share the host's network reach each other at any of its addresses.
    if scope.on_one_node && worker.host_network {
        return Err(Skip::not_applicable());
    }
    match worker.engine {
        Some(Engine::Sglang) => bootstrap(scope),
        Some(Engine::Vllm) if worker.vllm_server => side_channel(scope),
        _ => Err(Skip::not_applicable()),
    }
}

/// SGLang: decode asks the bootstrap server of prefill.
fn bootstrap(scope: &WorkerScope<'_>) -> Outcome {
    let worker = scope.worker;
    let mut drafts = Vec::new();
    if let Some(host) = worker
        .flags
        .get(HOST)
        .filter(|_| worker.role == Role::Prefill)
    {
        let seen = [worker.flag_spot(HOST).evidence()];
        drafts.push(match judge::is_loopback(host) {
            true => Draft::fail(format!(
                "--host {host} lets the bootstrap server of prefill listen where no other pod reaches it, so decode gets no KV"
            ))
            .headline(format!("the bootstrap server of prefill listens on {host} alone"))
            .with(seen)
            .fix("write --host 0.0.0.0"),
            false => Draft::ok(format!(
                "the bootstrap server of prefill listens on --host {host}"
            ))
            .with(seen),
        });
    }
    // Said once, of the side that asks.
    let peers = scope.workload.workers.iter();
    let other = peers
        .filter(|peer| peer.role == Role::Prefill && peer.engine == Some(Engine::Sglang))
        .filter(|_| worker.role == Role::Decode)
        .find_map(|peer| Some((peer, port(peer)?, port(worker)?)))
        .filter(|(_, open, asked)| open != asked);
    if let Some((prefill, open, asked)) = other {
        let written = [worker, prefill].into_iter();
        let written = written.filter(|worker| worker.flags.contains_key(PORT));
        drafts.push(
            Draft::warn(format!(
                "--disaggregation-bootstrap-port is {open} on {} and {asked} on {}: unless a router tells decode the port, it asks where nobody listens",
                prefill.called(),
                worker.called()
            ))
            .headline("prefill and decode use different bootstrap ports")
            .with(written.map(|worker| worker.flag_spot(PORT).evidence()))
            .fix("state the same --disaggregation-bootstrap-port in both roles"),
        );
    }
    match drafts.is_empty() {
        true => Err(Skip::not_applicable()),
        false => Ok(drafts),
    }
}

/// None where it is written and not known.
fn port(worker: &Worker) -> Option<&str> {
    match worker.flags.get(PORT).map(String::as_str) {
        Some(UNRECOGNISED) => None,
        None if worker.flag_spots.contains_key(PORT) => None,
        written => Some(written.unwrap_or(DEFAULT_PORT)),
    }
}

/// vLLM by its own server: decode asks at the address that prefill tells.
fn side_channel(scope: &WorkerScope<'_>) -> Outcome {
    let worker = scope.worker;
    let nixl = worker.kv_transfer.connector.as_deref() == Some("NixlConnector");
    // Decode asks and is not asked. The operator sets the address where a worker spans nodes.
    let asked = matches!(worker.role, Role::Prefill | Role::Either);
    if !nixl
        || !asked
        || scope.context().internode == Tri::No
        || worker.by_operator && worker.nodes > 1
        || worker.env.contains_key(SIDE_CHANNEL)
    {
        return Err(Skip::not_applicable());
    }
    if worker.env_unread || worker.lacks("env") {
        let detail = format!(
            "whether {SIDE_CHANNEL} of {} is set is not in this input, and without it vLLM tells its peers localhost",
            worker.name
        );
        return Err(Skip::new(SkipReason::Unresolved, detail));
    }
    // A worker that only takes KV would not be asked.
    let status = match worker.role {
        Role::Prefill => Status::Fail,
        _ => Status::Warn,
    };
    let detail = format!(
        "{SIDE_CHANNEL} is not set, and vLLM by its own server tells its peers localhost: decode asks itself for KV and computes everything again"
    );
    let paste = format!(
        "env:\n  - name: {SIDE_CHANNEL}\n    valueFrom:\n      fieldRef:\n        fieldPath: status.podIP"
    );
    Ok(vec![
        Draft::new(status, detail)
            .headline("prefill tells its peers the address localhost")
            .with([worker.spot.evidence()])
            .fix("take the pod's address: valueFrom fieldRef status.podIP")
            .paste(scope.for_container(&paste)),
    ])
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::{
        Pod, RDMA, alone, deployment, env, graph, lines, table, two_sided, unread, vllm,
    };
    use crate::report::Status::{Fail, Ok, Skipped, Warn};

    fn sglang(role: &str, flags: &str) -> String {
        lines(&[
            &format!("command: [python3, -m, dynamo.sglang, --disaggregation-mode, {role}{flags}]"),
            RDMA,
        ])
    }

    #[test]
    fn bootstrap_of_sglang() {
        let with = |prefill: &str, decode: &str| {
            two_sided(&sglang("prefill", prefill), &sglang("decode", decode))
        };
        let port = ", --disaggregation-bootstrap-port, '9999'";
        table(
            "handshake-unreachable",
            &[
                ("nothing said", with("", ""), &[]),
                ("every address", with(", --host, 0.0.0.0", ""), &[Ok]),
                ("loopback", with(", --host=127.0.0.1", ""), &[Fail]),
                ("localhost", with(", --host, localhost", ""), &[Fail]),
                ("loopback of decode", with("", ", --host=127.0.0.1"), &[]),
                ("another port", with(port, ""), &[Warn]),
                ("another port on decode", with("", port), &[Warn]),
                (
                    "a port that is not known",
                    with(", --disaggregation-bootstrap-port, $(PORT)", port),
                    &[],
                ),
                ("one port", with(port, port), &[]),
                (
                    "the default written out",
                    with(", --disaggregation-bootstrap-port=8998", ""),
                    &[],
                ),
                (
                    "another engine",
                    graph(&lines(&[
                        "command: [python3, -m, dynamo.vllm, --host, localhost]",
                        RDMA,
                    ])),
                    &[],
                ),
                (
                    "aggregated",
                    alone(Pod::of(&sglang("agg", ", --host=127.0.0.1"))),
                    &[],
                ),
            ],
        );
    }

    #[test]
    fn side_channel_of_vllm() {
        let own = |rest: &str| {
            let connector =
                vllm("[\"UCX\"]").replace("dynamo.vllm", "vllm.entrypoints.openai.api_server");
            lines(&[&connector, RDMA, rest])
        };
        assert!(own("").contains("vllm.entrypoints"), "{}", own(""));
        let address = "env: [{name: VLLM_NIXL_SIDE_CHANNEL_HOST, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]";
        table(
            "handshake-unreachable",
            &[
                ("unset", graph(&own("")), &[Fail]),
                ("set", graph(&own(address)), &[]),
                (
                    "another variable",
                    graph(&own(&env(&[("UCX_TLS", "all")]))),
                    &[Fail],
                ),
                (
                    "unknown address",
                    graph(&own(&unread("VLLM_NIXL_SIDE_CHANNEL_HOST"))),
                    &[],
                ),
                (
                    "an object not at hand",
                    graph(&own("envFrom: [{configMapRef: {name: c}}]")),
                    &[Skipped],
                ),
                ("by Dynamo", graph(&lines(&[&vllm("[\"UCX\"]"), RDMA])), &[]),
                (
                    "either side, without the operator",
                    deployment(&own(""), ""),
                    &[Warn],
                ),
                (
                    "launcher not known",
                    graph(&lines(&[
                        "args: [--kv-transfer-config, '{\"kv_connector\":\"NixlConnector\"}']",
                        RDMA,
                    ])),
                    &[],
                ),
            ],
        );
    }
}
