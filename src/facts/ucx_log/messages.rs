//! Single lines of the log.

use super::super::transcript::{excerpt, message as message_of};
use super::{ENTRIES, UcxLog};

/// Distinct complaints kept at most; each new one is compared with all.
const COMPLAINTS: usize = 256;

/// Something that was asked for and is not there: misspelt, or no such device or plugin on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable {
    /// Transport or device.
    pub kind: UnavailableKind,
    /// Names asked for.
    pub names: Vec<String>,
    /// What there is, as the library lists it: `rc`, `'eth0'(tcp)`.
    pub alternatives: Vec<String>,
}

/// What an unavailable name names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnavailableKind {
    /// A member of `UCX_TLS`.
    Transport,
    /// A member of `UCX_NET_DEVICES` or another device list.
    Device,
}

impl Unavailable {
    /// Only TCP is offered: this process sees no RDMA device.
    pub fn offers_only_tcp(&self) -> bool {
        self.kind == UnavailableKind::Device
            && !self.alternatives.is_empty()
            && self
                .alternatives
                .iter()
                .all(|alternative| alternative.ends_with("(tcp)"))
    }
}

/// A peer that could not be connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectFailure {
    /// What was lacking: `active messages`, `remote registered memory access`, `auxiliary`.
    pub lacking: String,
    /// The reasons for each device, as printed, sanitised.
    pub reasons: String,
}

/// `ibv_create_ah` of a RoCE port failed: the peer's address does not resolve from there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AddressFailure {
    /// The adapter, where the line names it.
    pub device: Option<String>,
    /// Index of its own GID.
    pub sgid_index: Option<String>,
    /// The reason: `Connection timed out`.
    pub why: String,
}

/// Memory that could not be registered.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Registration {
    /// Kind of memory, `cuda`, where UCP says what follows from the failed call; `None` for the call itself.
    pub memory: Option<String>,
    /// The reason: `Cannot allocate memory`.
    pub why: String,
}

/// What debug lines say about GPUDirect.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum GpuDirectHint {
    /// GPU memory is registered on these memory domains.
    RegistersOn(Vec<String>),
    /// No memory domain registers GPU memory.
    RegistersNowhere,
    /// A peermem module was found, or not, for this adapter.
    Peermem(String, bool),
    /// dma-buf works, or not, on this adapter or GPU.
    Dmabuf(String, bool),
    /// Multi-node NVLink is on or off.
    MultiNodeNvlink(bool),
}

/// Takes what a message says.
pub(super) fn take(log: &mut UcxLog, message: &str) {
    if let Some(rest) = message.strip_prefix("Version ") {
        if let Some((version, tail)) = rest.split_once(" (loaded from ") {
            let path = tail.split([',', ')']).next().unwrap_or_default();
            if log.versions.len() < ENTRIES {
                log.versions.insert((excerpt(version), excerpt(path)));
            }
        }
    } else if let Some((_, list)) = message.split_once("UCX_* env variables: ") {
        variables(log, list);
    } else if let Some(unavailable) = unavailable(message) {
        if log.unavailable.len() < COMPLAINTS && !log.unavailable.contains(&unavailable) {
            log.unavailable.push(unavailable);
        }
    } else if message.contains("no usable transports/devices") {
        log.has_no_usable_transport = true;
    } else if let Some(refused) = invalid_value(message) {
        if log.invalid_values.len() < ENTRIES {
            log.invalid_values.insert(refused);
        }
    } else if let Some((_, list)) = message
        .split_once("unused environment variable")
        .or_else(|| message.split_once("unused env variable"))
    {
        unused(log, list);
    } else if let Some(failure) = connect_failure(message) {
        if log.connect_failures.len() < COMPLAINTS && !log.connect_failures.contains(&failure) {
            log.connect_failures.push(failure);
        }
    } else {
        hardware(log, message);
    }
}

fn hardware(log: &mut UcxLog, message: &str) {
    if message.contains("Please set max locked memory (ulimit -l)") {
        log.has_memlock_failure = true;
    } else if let Some(registration) = registration(message) {
        if log.registrations.len() < ENTRIES {
            log.registrations.insert(registration);
        }
    } else if let Some(failure) = address_failure(message) {
        if log.address_failures.len() < COMPLAINTS {
            log.address_failures.insert(failure);
        }
    } else if let Some((what, device)) = completion_error(message) {
        if log.completion_errors.len() < ENTRIES {
            log.completion_errors.insert((what, device));
        }
    } else if let Some(hint) = gpu_direct(message)
        && log.gpu_direct.len() < ENTRIES
    {
        log.gpu_direct.insert(hint);
    }
}

/// `UCX_TLS=rc UCX_NET_DEVICES=mlx5_0:1`, separated by blanks.
fn variables(log: &mut UcxLog, list: &str) {
    for word in list.split_whitespace() {
        if let Some((name, value)) = word.split_once('=')
            && name.starts_with("UCX_")
            && log.variables.len() < ENTRIES
        {
            log.variables.insert(excerpt(name), excerpt(value));
        }
    }
}

/// `transport 'x' is not available, please use one or more of: a, b`, `transports 'x','y' are not available, ..`,
/// `network device 'mlx5_0:1' is not available, please use one or more of: 'eth0'(tcp)`.
fn unavailable(message: &str) -> Option<Unavailable> {
    let (head, alternatives) = message.split_once(" not available, please use one or more of: ")?;
    let kind = if head.contains("device") {
        UnavailableKind::Device
    } else if head.contains("transport") {
        UnavailableKind::Transport
    } else {
        return None;
    };
    Some(Unavailable {
        kind,
        // The names are what stands between quotation marks.
        names: head
            .split('\'')
            .skip(1)
            .step_by(2)
            .map(excerpt)
            .take(128)
            .collect(),
        alternatives: alternatives.split(", ").map(excerpt).take(512).collect(),
    })
}

/// `Invalid value for MEMTYPE_CACHE: 'true'. Expected: <yes|no|try>`.
fn invalid_value(message: &str) -> Option<(String, String)> {
    let (_, rest) = message.split_once("Invalid value for ")?;
    let (name, rest) = rest.split_once(": '")?;
    let (value, _) = rest.split_once('\'')?;
    Some((excerpt(name), message_of(value)))
}

/// `s: UCX_NET_DEVICE (maybe: UCX_NET_DEVICES?); UCX_FOO (maybe: UCX_TLS?)`; 1.13 `: UCX_FOO (set ..)`.
fn unused(log: &mut UcxLog, list: &str) {
    let list = list.split_once(':').map_or("", |(_, list)| list);
    for entry in list.split(';') {
        let entry = entry.trim();
        let (name, rest) = entry.split_once(' ').unwrap_or((entry, ""));
        let proposal = rest
            .split_once("(maybe: ")
            .and_then(|(_, tail)| tail.split(['?', ')']).next());
        if name.starts_with("UCX_") && log.unused_variables.len() < ENTRIES {
            log.unused_variables
                .insert(excerpt(name), proposal.map(excerpt));
        }
    }
}

/// `no active messages transport to <peer>: Unsupported operation`, with reasons for each device.
fn connect_failure(message: &str) -> Option<ConnectFailure> {
    let rest = message.strip_prefix("no ")?;
    let (lacking, rest) = rest.split_once(" transport to ")?;
    let (_, reasons) = rest.split_once(": ").unwrap_or(("", rest));
    Some(ConnectFailure {
        lacking: message_of(lacking),
        reasons: message_of(reasons),
    })
}

/// `ibv_reg_mr(address=0x7f0, length=4096, access=0xf) failed: Bad address`, and what UCP makes of it:
/// `failed to register address 0x7f0 (cuda) length 4096 on md[5]=mlx5_0: Input/output error (md supports: host|cuda)`.
fn registration(message: &str) -> Option<Registration> {
    const CALLS: &[&str] = &[
        "reg_mr",
        "exp_reg_mr",
        "reg_mr_iova",
        "reg_mr_iova2",
        "reg_dmabuf_mr",
    ];
    if let Some((_, rest)) = message.split_once("failed to register address ") {
        let (_, memory) = rest.split_once(" (")?;
        let (memory, rest) = memory.split_once(')')?;
        let (_, why) = rest.split_once(": ")?;
        let why = why.split(" (").next().unwrap_or_default();
        return Some(Registration {
            memory: Some(excerpt(memory)),
            why: message_of(why),
        });
    }
    let (_, call) = message.split_once("ibv_")?;
    let (name, rest) = call.split_once('(')?;
    let (_, why) = rest.split_once(") failed: ")?;
    let why = why.split(" : ").next().unwrap_or_default();
    CALLS.contains(&name).then(|| Registration {
        memory: None,
        why: message_of(why),
    })
}

/// `Local protection on mlx5_0:1/IB (synd 0x4 ..)`, `Transport retry count exceeded on mlx5_0:1/RoCE (synd ..)`. The
/// lines come from the mlx5 transports and carry neither `UCX` nor a level.
fn completion_error(message: &str) -> Option<(String, String)> {
    let (head, _) = message.split_once(" (synd ")?;
    let (what, device) = head.rsplit_once(" on ")?;
    // In front stands the source file, `ib_mlx5_log.c:177  `; blanks of a copy may be fewer.
    let what = what.rsplit("  ").next()?;
    let what = match what.split_once(' ') {
        Some((file, rest)) if file.contains(".c:") => rest,
        _ => what,
    };
    let device = device.split('/').next()?;
    Some((message_of(what), excerpt(device)))
}

/// `ibv_create_ah(dlid=49152 sl=0 port=1 dgid=fe80::1 sgid_index=3 traffic_class=0) for RC DEVX QP connect on mlx5_1 failed:
/// Connection timed out`.
fn address_failure(message: &str) -> Option<AddressFailure> {
    let (_, rest) = message.split_once("ibv_create_ah(")?;
    let (arguments, rest) = rest.split_once(')')?;
    let (for_what, why) = rest.split_once("failed: ")?;
    let of = |name: &str| {
        let mut words = arguments.split([' ', ',']);
        words.find_map(|word| word.strip_prefix(name).map(excerpt))
    };
    let device = for_what
        .rsplit_once(" on ")
        .map(|(_, device)| excerpt(device));
    Some(AddressFailure {
        device,
        sgid_index: of("sgid_index="),
        why: message_of(why),
    })
}

fn gpu_direct(message: &str) -> Option<GpuDirectHint> {
    if let Some((_, list)) = message.split_once("register cuda memory on: ") {
        let domains = list.split(", ").map(excerpt).take(128).collect();
        return Some(GpuDirectHint::RegistersOn(domains));
    }
    if message.contains("no memory domain supports registering cuda memory") {
        return Some(GpuDirectHint::RegistersNowhere);
    }
    if let Some((head, tail)) = message.split_once(": cuda GPUDirect RDMA is ") {
        let found = !tail.starts_with("not ") && !tail.starts_with("disabled");
        return Some(GpuDirectHint::Peermem(excerpt(head), found));
    }
    if let Some(word) = message.strip_prefix("multi-node NVLINK support is ") {
        return Some(GpuDirectHint::MultiNodeNvlink(word.starts_with("enabled")));
    }
    if let Some((_, tail)) = message.split_once("dmabuf is") {
        // `ibv_reg_dmabuf_mr(fd=-1) returned .., dmabuf is not supported` names no adapter.
        let head = message.split_once(": dmabuf").map_or("", |(head, _)| head);
        let works = !tail.trim_start().starts_with("not ");
        let subject = match tail.split_once(" on ") {
            Some((_, subject)) => subject,
            None => head,
        };
        return tail
            .contains("supported")
            .then(|| GpuDirectHint::Dmabuf(excerpt(subject), works));
    }
    None
}
