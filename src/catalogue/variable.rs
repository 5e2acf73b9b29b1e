//! The shape of one row of the catalogue.

/// The library or component that reads a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Owner {
    /// UCX, the transport below NIXL's default backend.
    Ucx,
    /// NCCL, the collectives inside one worker.
    Nccl,
    /// NIXL, which moves the KV cache.
    Nixl,
    /// libfabric, the transport on EFA.
    Libfabric,
    /// vLLM.
    Vllm,
    /// SGLang.
    Sglang,
    /// TensorRT-LLM.
    Trtllm,
    /// Mooncake, another mover of KV cache.
    Mooncake,
    /// Dynamo itself.
    Dynamo,
    /// PyTorch and Gloo.
    Torch,
    /// The loader, the driver stack, MPI.
    System,
}

/// What a value must look like. The parsers differ between libraries, so each kind names one parser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// UCX bool: `y`, `yes`, `1`, `on`, `n`, `no`, `0`, `off`. `true` is not one of them.
    Bool,
    /// UCX bool or `try`.
    Ternary,
    /// UCX bool, `try` or `auto`.
    TernaryAuto,
    /// UCX `on`, `off`, `try` or `auto`, in any case.
    OnOffAuto,
    /// UCX number or `inf`.
    Uint,
    /// UCX number, `inf` or `auto`.
    UintAuto,
    /// UCX decimal fraction.
    Fraction,
    /// UCX bytes: `8192`, `64k`, `1g`, `inf`, `auto`.
    MemUnits,
    /// UCX bytes, or from 1.17 on one size inside a node and one between nodes: `intra:8k,inter:inf`.
    Threshold,
    /// UCX duration: `20s`, `300ms`, `inf`.
    Time,
    /// UCX word of a list, in any case.
    Enum(&'static [&'static str]),
    /// UCX list of devices.
    DeviceList,
    /// UCX list of transports.
    TransportList,
    /// NCCL integer as `strtoll` reads it: no digits means 0, and junk after digits is dropped.
    Integer,
    /// NCCL word of a list, exactly as written.
    Word(&'static [&'static str]),
    /// libfabric bool: `0`, `1`, `true`, `false`, `yes`, `no`, `on`, `off`, in any case.
    FiBool,
    /// One of these words, in any case, for readers that are neither UCX nor NCCL.
    Choice(&'static [&'static str]),
    /// A switch whose reader accepts several spellings.
    Switch,
    /// Whole number.
    Number,
    /// TCP port.
    Port,
    /// Host name or address.
    Address,
    /// JSON.
    Json,
    /// File or directory.
    Path,
    /// A grammar that no other variable has, in words; the variable's own rule reads it.
    Form(&'static str),
    /// Whatever: nothing reads it.
    Unread,
    /// Text whose form no source says.
    Text,
}

/// What a variable acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// The KV cache on its way from prefill to decode.
    Kv,
    /// Collectives between the ranks of one worker.
    Collectives,
    /// Addresses, bootstrap, metadata.
    ControlPlane,
    /// What is printed or counted.
    Logging,
    /// How the process is set up: libraries, memory allocator.
    Process,
}

/// Whether a value may be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sensitivity {
    /// Always.
    Plain,
    /// Unless [`super::withheld`] finds credentials in it.
    MayHoldCredentials,
}

/// One variable, and what to know about it at night.
#[derive(Debug)]
pub struct Variable {
    /// Name, in full.
    pub name: &'static str,
    /// Who reads it.
    pub owner: Owner,
    /// What a value looks like.
    pub kind: ValueKind,
    /// What is in force when it is unset; `-` when there is no such value.
    pub default: &'static str,
    /// What it really does, with corrections where common advice is wrong.
    pub meaning: &'static str,
    /// What it acts on.
    pub scope: Scope,
    /// One of the eleven that the original tool looked for.
    pub original: bool,
    /// A wrong value alone can take the fast path away.
    pub critical: bool,
    /// Whether a value may be shown.
    pub sensitivity: Sensitivity,
    /// Where the facts of this row were read: project, version and file, or the document.
    pub source: &'static str,
    /// First version of the owner that knows the name, where that matters.
    pub known_since: Option<&'static str>,
    /// First version of the owner that no longer knows it.
    pub removed_in: Option<&'static str>,
}

impl Variable {
    pub(super) const fn new(
        name: &'static str,
        owner: Owner,
        scope: Scope,
        kind: ValueKind,
        default: &'static str,
        meaning: &'static str,
        source: &'static str,
    ) -> Self {
        Self {
            name,
            owner,
            kind,
            default,
            meaning,
            scope,
            original: false,
            critical: false,
            sensitivity: Sensitivity::Plain,
            source,
            known_since: None,
            removed_in: None,
        }
    }

    pub(super) const fn original(mut self) -> Self {
        self.original = true;
        self
    }

    pub(super) const fn critical(mut self) -> Self {
        self.critical = true;
        self
    }

    pub(super) const fn may_hold_credentials(mut self) -> Self {
        self.sensitivity = Sensitivity::MayHoldCredentials;
        self
    }

    pub(super) const fn since(mut self, version: &'static str) -> Self {
        self.known_since = Some(version);
        self
    }

    pub(super) const fn removed_in(mut self, version: &'static str) -> Self {
        self.removed_in = Some(version);
        self
    }

    /// The variable acts on the KV path, so a fail of its value is a fail of the deployment.
    pub fn carries_kv(&self) -> bool {
        self.scope == Scope::Kv
    }
}
