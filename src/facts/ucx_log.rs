//! The log of UCX at `UCX_LOG_LEVEL=info`, with the protocol tables of `UCX_PROTO_INFO=y`.
//!
//! Rules that this reader keeps:
//! - a configuration of kind `self` is an endpoint to the process itself and says nothing about a peer;
//! - a lane that is listed is not a lane that carried data: only a protocol table says which lane an operation uses;
//! - `rma_am` is remote memory access emulated by messages;
//! - a layout that is not known yields nothing, never a guess.
//!
//! Layouts: 1.13 prints `ep_cfg[0]: ..`; from 1.15 lanes name the kind of endpoint; 1.16 to 1.21 tables have one title
//! row; 1.22 and later have two and a header row. Log lines: <https://github.com/openucx/ucx/tree/v1.20.0/src/ucp>

use super::tally::Tally;
use super::transcript::{self, excerpt};
use std::collections::{BTreeMap, BTreeSet};

mod messages;
mod protocols;

pub use messages::{
    AddressFailure, ConnectFailure, GpuDirectHint, Registration, Unavailable, UnavailableKind,
};
pub use protocols::{How, Memory, Operation, Protocol, Range};

/// Entries kept at most in one list.
const ENTRIES: usize = 4096;

/// What the log says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UcxLog {
    /// Lines of UCX. Zero: the text is no log of UCX.
    pub lines: u64,
    /// Loaded library versions with their paths.
    pub versions: BTreeSet<(String, String)>,
    /// Variables that the library says it read.
    pub variables: BTreeMap<String, String>,
    /// Endpoint configurations with their lanes.
    pub configurations: Vec<Configuration>,
    /// Rows of protocol tables about remote memory.
    pub protocols: Vec<Protocol>,
    /// Transports and devices that were asked for and are not there.
    pub unavailable: Vec<Unavailable>,
    /// `no usable transports/devices`: the context could not be made.
    pub has_no_usable_transport: bool,
    /// Values that an option refused: option without its prefix, and value.
    pub invalid_values: BTreeSet<(String, String)>,
    /// `UCX_*` variables that nothing read, each with the name UCX proposes.
    pub unused_variables: BTreeMap<String, Option<String>>,
    /// Peers that could not be connected.
    pub connect_failures: Vec<ConnectFailure>,
    /// Completions with an error: `Local protection` on `mlx5_0:1`.
    pub completion_errors: BTreeSet<(String, String)>,
    /// Peers whose address an adapter could not resolve.
    pub address_failures: BTreeSet<AddressFailure>,
    /// Registering memory failed for want of `RLIMIT_MEMLOCK`.
    pub has_memlock_failure: bool,
    /// Memory that could not be registered for another reason.
    pub registrations: BTreeSet<Registration>,
    /// Debug lines about GPUDirect.
    pub gpu_direct: BTreeSet<GpuDirectHint>,
    /// All warnings.
    pub warnings: Tally,
    /// All errors.
    pub errors: Tally,
}

/// The lanes of one kind of endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    /// Name of the context: `ucp_context_0`, from 1.23 with NIXL the agent's name.
    pub context: String,
    /// Whom the endpoint reaches.
    pub scope: Scope,
    /// Number of the configuration.
    pub number: u32,
    /// Lanes by use: `rma`, `rma_am`, `am`, `ka`, `tag`.
    pub lanes: BTreeMap<String, Vec<Lane>>,
}

/// Whom an endpoint reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The process itself.
    Itself,
    /// Another process of the host.
    IntraNode,
    /// Another host.
    InterNode,
    /// UCX before 1.15 does not say.
    Unstated,
}

/// A transport on a device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lane {
    /// Transport: `rc_mlx5`.
    pub transport: String,
    /// Device: `mlx5_0:1`.
    pub device: String,
}

impl UcxLog {
    /// Configurations that reach a peer.
    pub fn peer_configurations(&self) -> impl Iterator<Item = &Configuration> {
        self.configurations
            .iter()
            .filter(|configuration| configuration.scope != Scope::Itself)
    }

    /// What the debug lines about GPUDirect come to; `None` where they leave it open.
    pub fn reaches_gpu_memory(&self) -> Option<bool> {
        let says = |wanted: &dyn Fn(&GpuDirectHint) -> bool| self.gpu_direct.iter().any(wanted);
        let peermem = |found: bool| {
            says(&|hint| matches!(hint, GpuDirectHint::Peermem(_, it) if *it == found))
        };
        let dmabuf = |of_gpu: bool, works: bool| {
            says(&|hint| {
                matches!(hint, GpuDirectHint::Dmabuf(subject, it)
                    if *it == works && subject.contains("cuda device") == of_gpu)
            })
        };
        // `cuda_cpy`, `cuda_ipc`: the domains of CUDA itself are no adapter.
        let on_adapter = says(&|hint| {
            matches!(hint, GpuDirectHint::RegistersOn(domains)
                if domains.iter().any(|d| !d.starts_with("cuda") && !d.starts_with("gdr")))
        });
        let no_dmabuf = dmabuf(true, false) || dmabuf(false, false) && !dmabuf(false, true);
        if on_adapter || peermem(true) || dmabuf(true, true) && dmabuf(false, true) {
            return Some(true);
        }
        let nowhere = says(&|hint| *hint == GpuDirectHint::RegistersNowhere);
        (nowhere || peermem(false) && no_dmabuf).then_some(false)
    }

    /// Debug lines that say that one of the ways to GPU memory is missing.
    pub fn missing_ways(&self) -> usize {
        let is_missing = |hint: &&GpuDirectHint| {
            matches!(
                hint,
                GpuDirectHint::Peermem(_, false)
                    | GpuDirectHint::Dmabuf(_, false)
                    | GpuDirectHint::RegistersNowhere
            )
        };
        self.gpu_direct.iter().filter(is_missing).count()
    }

    /// What an operation on large blocks uses towards a peer: the rows without an upper bound.
    pub fn bulk(&self, operation: Operation) -> impl Iterator<Item = &Protocol> {
        self.protocols.iter().filter(move |row| {
            row.operation == operation
                && row.scope != Scope::Itself
                && row.range.last_byte.is_none()
        })
    }
}

/// Reads a log. Total: a text without a line of UCX gives [`UcxLog::lines`] zero.
pub fn parse(text: &str) -> UcxLog {
    let mut reading = Reader::default();
    for line in transcript::lines(text) {
        reading.line(&line);
    }
    reading.log
}

#[derive(Default)]
struct Reader {
    log: UcxLog,
    /// Tables of several processes are mixed in one log; each is read by itself.
    tables: BTreeMap<String, protocols::Table>,
    /// A configuration whose lanes stand on the lines below it, as people wrap it.
    wrapped: bool,
}

impl Reader {
    fn line(&mut self, line: &str) {
        let line = Line::read(line);
        let message = line.message.trim();
        if message.is_empty() {
            return;
        }
        if message.starts_with(['|', '+']) {
            self.table_line(&line, message);
            return;
        }
        let level = line.level;
        if level.is_some() {
            self.log.lines += 1;
        }
        match level {
            Some(Level::Warn) => self.log.warnings.add(message),
            Some(Level::Error) => self.log.errors.add(message),
            Some(Level::Info) | None => {}
        }
        if let Some(configuration) = configuration(message) {
            self.wrapped = configuration.lanes.is_empty();
            self.log.lines += u64::from(level.is_none());
            if self.log.configurations.len() < ENTRIES {
                self.log.configurations.push(configuration);
            }
            return;
        }
        if self.wrapped && level.is_none() {
            let lanes = lane_groups(message);
            if let (false, Some(last)) = (lanes.is_empty(), self.log.configurations.last_mut()) {
                last.lanes.extend(lanes);
                return;
            }
        }
        self.wrapped = false;
        let known = self.log.completion_errors.len();
        messages::take(&mut self.log, message);
        // A line of the mlx5 transports has neither `UCX` nor a level, and may be all that was pasted.
        if level.is_none() && self.log.completion_errors.len() > known {
            self.log.lines += 1;
        }
    }

    fn table_line(&mut self, line: &Line<'_>, message: &str) {
        if self.tables.len() >= ENTRIES && !self.tables.contains_key(line.source) {
            return;
        }
        let table = self.tables.entry(line.source.to_owned()).or_default();
        if let Some(row) = table.line(message) {
            self.log.lines += 1;
            if self.log.protocols.len() < ENTRIES {
                self.log.protocols.push(row);
            }
        }
    }
}

/// Level of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Warn,
    Error,
    /// Informational, diagnostic and below.
    Info,
}

/// `[time] [host:pid:tid]  file.c:line UCX  LEVEL message`; rows of tables lack file and level, `#` may stand in front.
struct Line<'a> {
    /// Host, process and thread.
    source: &'a str,
    level: Option<Level>,
    message: &'a str,
}

impl<'a> Line<'a> {
    fn read(line: &'a str) -> Self {
        let (source, rest) = prefix(line);
        let Some((_, tail)) = rest.split_once("UCX  ") else {
            return Self {
                source,
                level: None,
                message: rest,
            };
        };
        let (word, message) = tail.trim_start().split_once(' ').unwrap_or((tail, ""));
        let level = match word {
            "WARN" => Level::Warn,
            // `IB Async event on mlx5_0: port error`, `error 'Input/output error' on`: UCX calls them diagnostics.
            "DIAG" if message.contains("error") => Level::Warn,
            "ERROR" | "FATAL" => Level::Error,
            "INFO" | "DIAG" | "DEBUG" | "TRACE" | "REQ" | "DATA" | "ASYNC" | "FUNC" | "POLL" => {
                Level::Info
            }
            _ => {
                return Self {
                    source,
                    level: None,
                    message: rest,
                };
            }
        };
        Self {
            source,
            level: Some(level),
            message,
        }
    }
}

/// Source and rest of a line with `[time] [host:pid:tid]` in front, or with `[host:pid:tid:tid]` alone.
fn prefix(line: &str) -> (&str, &str) {
    let (mut source, mut rest) = ("", line.trim_start());
    // A launcher may put its own brackets first, so two are looked at where they follow each other.
    for _ in 0..2 {
        let Some((inside, tail)) = rest
            .strip_prefix('[')
            .and_then(|bracket| bracket.split_once(']'))
        else {
            break;
        };
        source = inside;
        rest = tail.trim_start();
    }
    (source, rest)
}

/// `ucp_context_0 inter-node cfg#1 rma(..)  am(..)`, or `ep_cfg[0]: tag(..)` before 1.15.
fn configuration(message: &str) -> Option<Configuration> {
    if let Some((head, tail)) = message.split_once("ep_cfg[") {
        let (number, lanes) = tail.split_once("]:")?;
        return Some(Configuration {
            context: excerpt(head),
            scope: Scope::Unstated,
            number: number.parse().ok()?,
            lanes: lane_groups(lanes),
        });
    }
    let (context, scope, number, lanes) = identity(message)?;
    let lanes_only = lanes.trim();
    let groups = lane_groups(lanes_only);
    // Debug lines name a configuration in a sentence; those are no lane lines.
    if groups.is_empty() && !lanes_only.is_empty() {
        return None;
    }
    Some(Configuration {
        context: excerpt(context),
        scope,
        number,
        lanes: groups,
    })
}

/// `<context> <scope> cfg#<number>` and the text behind it.
fn identity(text: &str) -> Option<(&str, Scope, u32, &str)> {
    let (head, tail) = text.split_once(" cfg#")?;
    let (context, word) = head.rsplit_once(' ').unwrap_or(("", head));
    let scope = match word.trim() {
        "self" => Scope::Itself,
        "intra-node" => Scope::IntraNode,
        "inter-node" => Scope::InterNode,
        _ => return None,
    };
    let end = tail
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(tail.len());
    Some((
        context.trim(),
        scope,
        tail[..end].parse().ok()?,
        &tail[end..],
    ))
}

/// `rma(rc_mlx5/mlx5_0:1 ..)  am(..)`: nothing unless the whole text has this form.
fn lane_groups(text: &str) -> BTreeMap<String, Vec<Lane>> {
    let mut groups = BTreeMap::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let Some((name, tail)) = rest.split_once('(') else {
            return BTreeMap::new();
        };
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        // A cut line may lack the last parenthesis.
        let (inside, tail) = tail.split_once(')').unwrap_or((tail, ""));
        let lanes = lanes(inside);
        if !is_name || lanes.is_empty() {
            return BTreeMap::new();
        }
        groups.insert(excerpt(name), lanes);
        rest = tail.trim_start();
    }
    groups
}

/// Every `transport/device` in a text: `rc_mlx5/mlx5_0:1/path0`, `52% on tcp/lo and 48% on tcp/eth0`.
fn lanes(text: &str) -> Vec<Lane> {
    text.split([' ', ','])
        .filter_map(|word| {
            let mut parts = word.split('/');
            let (transport, device) = (parts.next()?, parts.next()?);
            let is_transport = transport.starts_with(|c: char| c.is_ascii_lowercase())
                && transport
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
            let is_device = !device.is_empty()
                && device
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "_-.:@".contains(c));
            (is_transport && is_device).then(|| Lane {
                transport: excerpt(transport),
                device: excerpt(device),
            })
        })
        .take(64)
        .collect()
}

#[cfg(test)]
mod tests;
