//! The public face of a workload: what the report shows of it.

use super::workload::{Engine, EnvEntry, EnvValue, KvTransfer, Worker, Workload};
use crate::report::{EnvReport, SourceRef, Trust, WorkerReport, WorkloadReport};
use crate::sanitise;
use serde_json::{Map, Value};

/// A workload as the report shows it. Trust is filled in by the report.
pub fn workload(workload: &Workload, ordinal: usize) -> WorkloadReport {
    WorkloadReport {
        source: SourceRef {
            path: workload.source.file.path.clone(),
            line: workload.source.line,
        },
        api_version: workload.api_version.clone(),
        kind: workload.kind.clone(),
        name: workload.name.clone(),
        namespace: workload.namespace.clone(),
        framework: workload.framework.clone(),
        disaggregated: workload.disaggregated,
        multinode: workload.multinode,
        trust: Trust::Unproven,
        workers: workload.workers.iter().map(worker).collect(),
        ordinal,
    }
}

fn worker(worker: &Worker) -> WorkerReport {
    WorkerReport {
        name: worker.name.clone(),
        role: worker.role.word().to_owned(),
        engine: worker.engine.map(|e| e.word().to_owned()),
        replicas: worker.replicas,
        nodes: worker.nodes,
        gpus: worker.gpus,
        env: worker
            .env
            .iter()
            .map(|(name, entry)| ((*name).to_owned(), variable(entry)))
            .collect(),
        rdma_resources: worker.rdma_resources.clone(),
        claims: worker.claims.clone(),
        ipc_lock: worker.ipc_lock,
        privileged: worker.privileged,
        host_network: worker.host_network,
        host_ipc: worker.host_ipc,
        shm: worker.shm.clone(),
        kv_transfer: kv_transfer(worker),
        reach: worker.reach.iter().map(|r| r.word().to_owned()).collect(),
    }
}

/// At most this many characters of a value are shown.
const VALUE_SHOWN: usize = 4096;

/// A value as a report shows it.
pub fn value(text: &str) -> String {
    sanitise::lines(text, VALUE_SHOWN)
}

fn variable(entry: &EnvEntry) -> EnvReport {
    let (literal, reference, withheld) = match &entry.value {
        EnvValue::Literal(text) => (Some(value(text)), None, None),
        EnvValue::ValueFrom => (None, Some("<valueFrom>".to_owned()), None),
        EnvValue::Dynamic => (None, Some("<dynamic>".to_owned()), None),
        EnvValue::Withheld => (None, None, Some(true)),
    };
    EnvReport {
        value: literal,
        reference,
        withheld,
        from: entry.from.clone(),
        path: entry.spot.file.path.clone(),
        line: entry.spot.line,
    }
}

/// The engine-neutral words, and beside them the names under which each engine knows the same thing.
fn kv_transfer(worker: &Worker) -> Map<String, Value> {
    let KvTransfer {
        connector,
        kv_role,
        backends,
        buffer_device,
        backend,
        unresolved,
        // Compared, and no part of the public form.
        cross_layers: _,
        is_plain: _,
        held: _,
        off: _,
        unread: _,
        laid_over: _,
    } = &worker.kv_transfer;
    let mut out = Map::new();
    let mut put = |key: &str, value: &Option<String>| {
        if let Some(value) = value {
            out.insert(key.to_owned(), Value::from(value.clone()));
        }
    };
    put("connector", connector);
    put("kv_role", kv_role);
    put("buffer_device", buffer_device);
    put("kv_buffer_device", buffer_device);
    put("backend", backend);
    match worker.engine {
        Some(Engine::Sglang) => put("sglang_backend", backend),
        Some(Engine::Trtllm) => put("cache_transceiver_backend", backend),
        _ => {}
    }
    if worker.engine == Some(Engine::Sglang) {
        const NAME: &str = "SGLANG_DISAGGREGATION_NIXL_BACKEND";
        put(NAME, &worker.literal(NAME).map(str::to_owned));
    }
    put("unresolved", unresolved);
    if !backends.is_empty() {
        out.insert("backends".to_owned(), Value::from(backends.clone()));
    }
    out
}
