//! What moves KV from one worker to another: NIXL, whose lane a transfer of this tool shows, or something else, of which such a
//! transfer proves nothing.

use super::scope::{Running, WorkerScope, switch_of_trtllm};
use crate::facts::container::process::KvTransfer;
use crate::manifest::workload::{Engine, Worker, Workload};

/// What moves the KV of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mover {
    /// NIXL, or UCX by itself, which goes by the same settings over the same lanes.
    Nixl,
    /// Something that is known by its name.
    Other(&'static Other),
    /// Something that nothing names.
    Open(Open),
}

/// What is known of a mover that nothing names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    /// What says it, as the end of `.. is moved by ..`.
    pub by: &'static str,
    /// What makes it known, as an action.
    pub make_known: &'static str,
    /// It may be NIXL: once it is known, a transfer gets further.
    pub may_be_nixl: bool,
}

static UNKNOWN_BACKEND: Open = Open {
    by: "a transfer backend that this tool does not know",
    make_known: "name nixl as the transfer backend of both roles, or look at the lane by what the backend itself logs and counts",
    may_be_nixl: false,
};
static UNKNOWN_CONNECTOR: Open = Open {
    by: "a connector that this tool does not know",
    make_known: "choose NixlConnector in both roles, or look at the lane by what the connector itself logs and counts",
    may_be_nixl: false,
};
static UNSEEN_PARTS: Open = Open {
    by: "a connector whose parts are not in the input",
    make_known: "write what the connector holds into --kv-transfer-config itself",
    may_be_nixl: true,
};
static UNSEEN_START: Open = Open {
    by: "what its start script chooses, and that was not seen",
    make_known: "let the command line of the worker be read (`node --pod POD` says what stands in the way), or write the engine and its \
                 KV transfer into the arguments of the pod",
    may_be_nixl: true,
};
static NO_CONNECTOR: Open = Open {
    by: "what vLLM takes without --kv-transfer-config, which depends on the release of Dynamo",
    make_known: "state it in both roles: --kv-transfer-config '{\"kv_connector\": \"NixlConnector\", \"kv_role\": \"kv_both\"}'",
    may_be_nixl: true,
};
static UNREAD_FILE: Open = Open {
    by: "what cache_transceiver_config.backend says, and that was not read",
    make_known: "state cache_transceiver_config.backend where it is read: `--trtllm.cache_transceiver_config.backend DEFAULT`, or the engine configuration in a \
                 ConfigMap that this tool may get",
    may_be_nixl: true,
};

/// A mover that is not NIXL.
#[derive(Debug, PartialEq, Eq)]
pub struct Other {
    /// In a sentence.
    pub name: &'static str,
    /// It moves KV by itself, so the settings of UCX and libfabric play no part in it.
    pub alone: bool,
    /// What shows its lane, as a clause.
    pub shown_by: &'static str,
}

/// The counters that every RDMA device has, whoever uses it.
macro_rules! counters {
    ($lead:literal) => {
        concat!(
            $lead,
            "the counters of the workers' RDMA ports (port_xmit_data, port_rcv_data), read before and after a long prompt, show \
             whether its KV went over RDMA"
        )
    };
}

static MOONCAKE: Other = Other {
    name: "Mooncake",
    alone: true,
    shown_by: counters!(
        "the log of each worker names the devices that Mooncake found at its start, and "
    ),
};
static NCCL: Other = Other {
    name: "NCCL",
    alone: true,
    shown_by: "with NCCL_DEBUG=INFO in both workers NCCL logs by what it joins them (NET/IB, NET/Socket, P2P)",
};
static MPI: Other = Other {
    name: "MPI",
    alone: true,
    shown_by: counters!(""),
};
static MORI: Other = Other {
    name: "MoRI",
    alone: true,
    shown_by: counters!(""),
};
static ASCEND: Other = Other {
    name: "the transfer engine of Ascend",
    alone: true,
    shown_by: "the log of each worker says what its transfer engine opened at its start",
};
static FAKE: Other = Other {
    name: "a stand-in that moves nothing (fake)",
    alone: true,
    shown_by: "a real transfer backend has to be chosen first",
};
static LMCACHE: Other = Other {
    name: "LMCache",
    alone: false,
    shown_by: counters!(
        "its own configuration (LMCACHE_CONFIG_FILE) says what it moves KV by, and "
    ),
};
static STORE: Other = Other {
    name: "a store that both roles write and read",
    alone: false,
    shown_by: "what the store says of its own lane decides",
};
static OFFLOAD: Other = Other {
    name: "a connector that keeps KV beside one worker",
    alone: false,
    shown_by: "a connector that hands KV on (NixlConnector) has to be chosen first",
};

/// Connectors of vLLM by how their names begin, the longer beginning first; none for those of NIXL.
/// <https://github.com/vllm-project/vllm/blob/v0.14.0/vllm/distributed/kv_transfer/kv_connector/factory.py>
const CONNECTORS: &[(&str, Option<&Other>)] = &[
    ("Nixl", None),
    ("MooncakeStore", Some(&STORE)),
    ("MooncakeConnectorStore", Some(&STORE)),
    ("Mooncake", Some(&MOONCAKE)),
    ("P2pNccl", Some(&NCCL)),
    ("PyNccl", Some(&NCCL)),
    ("MoRIIO", Some(&MORI)),
    ("LMCache", Some(&LMCACHE)),
    ("AscendStore", Some(&STORE)),
    ("FlexKV", Some(&STORE)),
    ("HF3FS", Some(&STORE)),
    ("SharedStorage", Some(&STORE)),
    ("Example", Some(&STORE)),
    ("DynamoConnector", Some(&OFFLOAD)),
    ("Offloading", Some(&OFFLOAD)),
    ("SimpleCPUOffload", Some(&OFFLOAD)),
    ("DecodeBench", Some(&FAKE)),
];

/// Connectors that hold others.
pub const WRAPPERS: &[&str] = &["MultiConnector", "PdConnector"];

/// Transfer backends of SGLang and TensorRT-LLM, in small letters; none for NIXL and for UCX.
/// <https://github.com/sgl-project/sglang/blob/v0.5.5/python/sglang/srt/server_args.py>
const BACKENDS: &[(&str, Option<&Other>)] = &[
    ("nixl", None),
    ("ucx", None),
    ("default", None),
    ("mooncake", Some(&MOONCAKE)),
    ("mpi", Some(&MPI)),
    ("mori", Some(&MORI)),
    ("ascend", Some(&ASCEND)),
    ("fake", Some(&FAKE)),
];

fn made(known: Option<&'static Other>) -> Mover {
    known.map_or(Mover::Nixl, Mover::Other)
}

/// By the transfer backend of SGLang or TensorRT-LLM.
fn of_backend(name: &str) -> Mover {
    let known = BACKENDS
        .iter()
        .find(|(own, _)| own.eq_ignore_ascii_case(name));
    known.map_or_else(
        || Mover::Open(UNKNOWN_BACKEND.clone()),
        |(_, other)| made(*other),
    )
}

/// By vLLM's connectors, wrapped ones among them. Of several that hand KV on the one that is not NIXL is named: which of them
/// moves a request is decided there. A store or a cache beside NIXL hands nothing on.
pub fn of_connectors<'n>(names: impl Iterator<Item = &'n str>) -> Mover {
    let held: Vec<Mover> = names
        .filter(|name| !WRAPPERS.contains(name))
        .map(|name| {
            let known = CONNECTORS.iter().find(|(own, _)| name.starts_with(own));
            known.map_or_else(
                || Mover::Open(UNKNOWN_CONNECTOR.clone()),
                |(_, other)| made(*other),
            )
        })
        .collect();
    let hands_on = |mover: &&Mover| matches!(mover, Mover::Other(other) if other.alone);
    let first = held.iter().find(hands_on).or_else(|| {
        let nixl = held.iter().find(|mover| **mover == Mover::Nixl);
        nixl.or(held.first())
    });
    first
        .cloned()
        .unwrap_or_else(|| Mover::Open(UNSEEN_PARTS.clone()))
}

/// As the worker is written; none where nothing that was read decides it. SGLang takes Mooncake where nothing is chosen.
fn as_written(worker: &Worker, workload: &Workload) -> Option<Mover> {
    let kv = &worker.kv_transfer;
    let scope = WorkerScope {
        worker,
        workload,
        on_one_node: false,
        running: Running::default(),
        written: None,
    };
    if kv.unresolved.is_some() || kv.off {
        return None;
    }
    match (worker.engine, kv.backend.as_deref()) {
        (Some(Engine::Trtllm), Some(name)) if name.eq_ignore_ascii_case("default") => {
            Some(of_backend(switch_of_trtllm(worker).unwrap_or("nixl")))
        }
        (_, Some(name)) => Some(of_backend(name)),
        (Some(Engine::Sglang), None) => {
            let unset = scope.literal("DYN_SGLANG_DISAGGREGATION_TRANSFER_BACKEND");
            unset.ok().map(|_| Mover::Other(&MOONCAKE))
        }
        (Some(Engine::Trtllm), None) => Some(Mover::Open(UNREAD_FILE.clone())),
        (_, None) if kv.connector.is_some() => Some(of_connectors(kv.connectors())),
        (_, None) => None,
    }
}

impl Mover {
    /// Why a transfer of NIXL proves nothing of this mover; none where it does.
    pub fn beside_nixl(&self) -> Option<String> {
        match self {
            Self::Nixl => None,
            Self::Other(other) => Some(format!(
                "{} moves the KV of this deployment, and transfers exercise NIXL alone",
                other.name
            )),
            Self::Open(open) => Some(format!(
                "whether NIXL moves the KV of this deployment is not known: it is moved by {}",
                open.by
            )),
        }
    }
}

/// What moves the KV of a worker: as its process was started, else as it is written. None where neither is known.
pub fn of(running: Option<&KvTransfer>, written: Option<(&Worker, &Workload)>) -> Option<Mover> {
    let seen = running.filter(|running| running.not_read.is_none());
    let seen = seen.and_then(|running| match running.movers.as_slice() {
        [] => None,
        [one]
            if BACKENDS
                .iter()
                .any(|(name, _)| name.eq_ignore_ascii_case(one)) =>
        {
            Some(of_backend(one))
        }
        names => Some(of_connectors(names.iter().map(String::as_str))),
    });
    // The names in a wrapper are all there on a command line, and may be missing in a variable.
    match seen {
        Some(mover @ (Mover::Nixl | Mover::Other(_))) => Some(mover),
        open => written
            .and_then(|(worker, workload)| as_written(worker, workload))
            .or(open),
    }
}

/// What is to be said of a worker of which nothing names the mover: its engine decides, as it is written or, by this word, as it
/// runs. None where another check says what was not read.
pub fn unnamed(word: Option<&str>, written: Option<&Worker>) -> Option<Mover> {
    if written.is_some_and(|worker| {
        let kv = &worker.kv_transfer;
        kv.unresolved.is_some() || kv.off
    }) {
        return None;
    }
    let runs = |name: &str| word.is_some_and(|word| word.contains(name));
    let engine = written.and_then(|worker| worker.engine);
    Some(Mover::Open(
        match engine {
            Some(Engine::Vllm) => &NO_CONNECTOR,
            Some(Engine::Trtllm) => &UNREAD_FILE,
            Some(Engine::Sglang) => &UNSEEN_START,
            None if runs("vllm") => &NO_CONNECTOR,
            None if runs("trtllm") => &UNREAD_FILE,
            None => &UNSEEN_START,
        }
        .clone(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::workload::UNRECOGNISED;

    #[test]
    fn connectors_by_what_hands_kv_on() {
        let of = |names: &[&str]| match of_connectors(names.iter().copied()) {
            Mover::Nixl => "NIXL".to_owned(),
            Mover::Other(other) => other.name.to_owned(),
            Mover::Open(open) => open.by.to_owned(),
        };
        for (names, mover) in [
            (&["NixlConnector"][..], "NIXL"),
            (&["NixlPullConnector"], "NIXL"),
            (&["MooncakeConnector"], "Mooncake"),
            (&["MooncakeConnectorV1"], "Mooncake"),
            (
                &["MooncakeStoreConnector"],
                "a store that both roles write and read",
            ),
            (&["P2pNcclConnector"], "NCCL"),
            (&["LMCacheConnectorV1"], "LMCache"),
            (
                &["MultiConnector", "LMCacheConnectorV1", "NixlConnector"],
                "NIXL",
            ),
            (&["PdConnector", "DynamoConnector", "NixlConnector"], "NIXL"),
            (
                &["MultiConnector", "NixlConnector", "MooncakeConnector"],
                "Mooncake",
            ),
            (&["MultiConnector", "LMCacheConnectorV1"], "LMCache"),
            (
                &["MultiConnector"],
                "a connector whose parts are not in the input",
            ),
            (&[UNRECOGNISED], "a connector that this tool does not know"),
        ] {
            assert_eq!(of(names), mover, "{names:?}");
        }
    }
}
