//! NIXL variables, those of its libfabric backend included.

use super::variable::ValueKind::{Address, Choice, Form, Number, Path, Port, Switch};
use super::variable::{Owner, Scope, ValueKind, Variable};

const fn row(
    name: &'static str,
    scope: Scope,
    kind: ValueKind,
    default: &'static str,
    meaning: &'static str,
    source: &'static str,
) -> Variable {
    Variable::new(name, Owner::Nixl, scope, kind, default, meaning, source)
}

pub(super) static TABLE: &[Variable] = &[
    row(
        "NIXL_PLUGIN_DIR",
        Scope::Kv,
        Path,
        "beside libnixl",
        "Where NIXL looks for its backends. It is needed only where the loader would find another copy; a directory \
         without libplugin_UCX.so leaves no backend at all.",
        "nixl v1.4.0 src/core/nixl_plugin_manager.cpp",
    )
    .original()
    .critical(),
    row(
        "NIXL_BACKEND",
        Scope::Kv,
        Form("the name of a NIXL backend (UCX, LIBFABRIC)"),
        "-",
        "Backend that some launchers hand to NIXL. It must agree with the engine's own selector.",
        "TensorRT-LLM issue 10024",
    ),
    row(
        "NIXL_LOG_LEVEL",
        Scope::Logging,
        Choice(&["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"]),
        "WARN",
        "What NIXL prints. `INFO` names the backend and the UCX library it is bound to.",
        "nixl v1.4.0 src/utils/common/nixl_log.cpp",
    ),
    row(
        "NIXL_TELEMETRY_ENABLE",
        Scope::Logging,
        Switch,
        "n",
        "Counters of transferred bytes and failed transfers.",
        "nixl v1.4.0 src/core/telemetry; Dynamo disaggregated-communication guide",
    ),
    row(
        "NIXL_TELEMETRY_ENABLED",
        Scope::Logging,
        Switch,
        "-",
        "Read by nothing. The name is NIXL_TELEMETRY_ENABLE.",
        "Dynamo disaggregated-communication guide",
    ),
    row(
        "NIXL_TELEMETRY_EXPORTER",
        Scope::Logging,
        Form("the name of an exporter plugin (prometheus)"),
        "-",
        "Plugin that publishes the counters, `prometheus` for instance.",
        "nixl v1.4.0 src/core/telemetry",
    )
    .may_hold_credentials(),
    row(
        "NIXL_TELEMETRY_PROMETHEUS_PORT",
        Scope::Logging,
        Port,
        "9090",
        "Port of the counters.",
        "nixl v1.4.0 src/plugins/telemetry/prometheus",
    ),
    row(
        "NIXL_TELEMETRY_DIR",
        Scope::Logging,
        Path,
        "-",
        "Directory of the telemetry ring file.",
        "nixl v1.4.0 src/core/telemetry",
    ),
    row(
        "NIXL_ETCD_ENDPOINTS",
        Scope::ControlPlane,
        Address,
        "-",
        "etcd through which agents exchange their metadata. Dynamo does not need it.",
        "nixl v1.4.0 src/core/nixl_listener.cpp",
    )
    .may_hold_credentials(),
    row(
        "NIXL_LIBFABRIC_USE_DEVICE_RDMA",
        Scope::Kv,
        Switch,
        "-",
        "Read by nothing. Device RDMA on EFA is on by default with NIXL; FI_EFA_USE_DEVICE_RDMA is the variable that \
         libfabric reads.",
        "nixl v1.4.0 src/plugins/libfabric",
    ),
    row(
        "NIXL_LIBFABRIC_MAX_BW_PER_DRAM_SEG",
        Scope::Kv,
        Number,
        "-",
        "Limit of the rails that serve one piece of host memory.",
        "nixl v1.4.0 src/plugins/libfabric",
    ),
    row(
        "NIXL_LIBFABRIC_NUM_THREADS",
        Scope::Kv,
        Number,
        "-",
        "Threads that post libfabric transfers.",
        "nixl v1.4.0 src/plugins/libfabric",
    ),
    row(
        "NIXL_LIBFABRIC_SPLIT_BATCH_SIZE",
        Scope::Kv,
        Number,
        "-",
        "Descriptors of one batch when a transfer is split over threads.",
        "nixl v1.4.0 src/plugins/libfabric",
    ),
];
