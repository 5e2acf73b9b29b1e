//! What UCX and NIXL print about the path they chose, line by line.
//!
//! Layouts read: UCX 1.16 and 1.19 to 1.21 (one title row), 1.22 and 1.23 (two title rows). UCX 1.15 prints no tables.

use super::protocol::Kind;
use std::fmt;

/// What the log of an initiator says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UcxText {
    /// Version of the library that was loaded.
    pub version: Option<String>,
    /// Configurations of connections to another process: `inter-node cfg#1 rma(rc_mlx5/mlx5_0:1) ...`.
    pub configurations: Vec<String>,
    /// Rows of the tables for remote reads and writes, in the order printed.
    pub rows: Vec<Row>,
    /// Warnings of UCX.
    pub warnings: Vec<String>,
    /// Errors of UCX.
    pub errors: Vec<String>,
    /// What NIXL's LIBFABRIC backend says of its provider.
    pub provider: Option<String>,
}

/// One row of a protocol table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The connection is to another node (as UCX sees it: containers that share no IPC namespace count as nodes).
    pub inter_node: bool,
    /// Direction.
    pub kind: Kind,
    /// `(multi)`, `(fast-completion)` or nothing.
    pub variant: String,
    /// `from host memory to host`.
    pub memory: String,
    /// Smallest size.
    pub from: u64,
    /// Largest size; none is without end.
    pub to: Option<u64>,
    /// `zero-copy`, `software emulation`, ...
    pub how: String,
    /// What carries it.
    pub rails: Vec<Rail>,
    /// The cell as printed.
    pub raw: String,
}

/// One transport on one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rail {
    /// `rc_mlx5`, `tcp`, ...
    pub transport: String,
    /// `mlx5_0:1`, `eth0`, `memory`, ...
    pub device: String,
    /// Share of the bytes, where the row splits them.
    pub percent: Option<u8>,
}

impl fmt::Display for Rail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(percent) = self.percent {
            write!(f, "{percent}% on ")?;
        }
        write!(f, "{}/{}", self.transport, self.device)
    }
}

/// A line that belongs in a record.
pub fn says_something(line: &str) -> bool {
    const PARTS: &[&str] = &[
        "cfg#",
        " WARN ",
        " ERROR ",
        " FATAL ",
        "(loaded from ",
        "backend bound to",
        "EFA devices",
        "topology for",
        "provider",
        "Failed",
        "max locked memory",
    ];
    is_table(line) && !line.contains("+--") || PARTS.iter().any(|p| line.contains(p))
}

/// A line of a protocol table.
pub fn is_table(line: &str) -> bool {
    split(line).is_some_and(|(_, message)| message.starts_with('|') || message.starts_with("+-"))
}

/// Reads the log of an initiator.
pub fn read(text: &str) -> UcxText {
    let mut out = UcxText::default();
    let mut table = Table::default();
    for line in text.lines() {
        if let Some(provider) = provider(line) {
            out.provider = Some(provider.to_owned());
        }
        let Some((level, message)) = split(line) else {
            continue;
        };
        match level {
            Some("WARN") => out.warnings.push(message.to_owned()),
            Some("ERROR" | "FATAL") => out.errors.push(message.to_owned()),
            _ => {}
        }
        if let Some(rest) = message.strip_prefix("Version ") {
            out.version = rest.split_whitespace().next().map(str::to_owned);
        }
        if message.starts_with('|') {
            out.rows.extend(table.line(message));
        } else if let Some((Place::Peer { .. }, _)) = configuration(message)
            && message.contains('(')
        {
            out.configurations.push(message.to_owned());
        }
    }
    out
}

/// Level and message of a line of UCX: `[time] [host:pid:tid] file.c:1 UCX  LEVEL message`. Rows of a table carry no
/// file and no level.
pub(super) fn split(line: &str) -> Option<(Option<&str>, &str)> {
    let rest = line.trim_start().strip_prefix('[')?.split_once(']')?.1;
    let rest = rest
        .trim_start()
        .strip_prefix('[')?
        .split_once(']')?
        .1
        .trim_start();
    if let Some((file, after)) = rest.split_once(" UCX ")
        && !file.trim().contains(' ')
        && let Some((level, message)) = after.trim_start().split_once(' ')
    {
        return Some((Some(level), message.trim()));
    }
    Some((None, rest.trim_end()))
}

/// Lines of NIXL's LIBFABRIC backend:
/// <https://github.com/ai-dynamo/nixl/tree/main/src/utils/libfabric>, as of NIXL 1.3 to 1.5.
fn provider(line: &str) -> Option<&'static str> {
    if line.contains("EFA devices") && line.contains("Discovered") {
        return Some("efa");
    }
    let name = line.split_once("simplified topology for ")?.1;
    ["tcp", "sockets", "cxi", "verbs", "efa"]
        .into_iter()
        .find(|p| name.starts_with(p))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// An agent talks to itself when it is made. That says nothing about a peer.
    Own,
    Peer {
        inter_node: bool,
    },
}

fn configuration(text: &str) -> Option<(Place, usize)> {
    let at = text.find(" cfg#")?;
    let place = match text[..at].rsplit([' ', '|']).next()? {
        "self" => Place::Own,
        "intra-node" => Place::Peer { inter_node: false },
        "inter-node" => Place::Peer { inter_node: true },
        _ => return None,
    };
    Some((place, at))
}

/// Where in a table the reader is.
#[derive(Default)]
struct Table {
    place: Option<Place>,
    operation: Option<(Kind, String, String)>,
}

impl Table {
    fn line(&mut self, message: &str) -> Option<Row> {
        let cells: Vec<&str> = message
            .trim_matches('|')
            .split('|')
            .map(str::trim)
            .collect();
        let mut title = false;
        if let Some((place, _)) = cells.iter().find_map(|c| configuration(c)) {
            (self.place, self.operation) = (Some(place), None);
            title = true;
        }
        if let Some(text) = cells.iter().find(|c| c.contains(" by ucp_")) {
            // Any other operation ends the table of a read or write.
            self.operation = operation(text);
            title = true;
        }
        let (Some(Place::Peer { inter_node }), Some((kind, variant, memory))) =
            (self.place, &self.operation)
        else {
            return None;
        };
        let &[range, how, raw] = cells.as_slice() else {
            return None;
        };
        let (from, to) = bounds(range).filter(|_| !title)?;
        Some(Row {
            inter_node,
            kind: *kind,
            variant: variant.clone(),
            memory: memory.clone(),
            from,
            to,
            how: how.to_owned(),
            rails: rails(raw),
            raw: raw.to_owned(),
        })
    }
}

/// `remote memory write by ucp_put*(multi) from host memory to host`.
fn operation(title: &str) -> Option<(Kind, String, String)> {
    let (kind, rest) = [
        (Kind::Write, "remote memory write by ucp_put*"),
        (Kind::Read, "remote memory read by ucp_get*"),
    ]
    .into_iter()
    .find_map(|(kind, words)| Some((kind, title.split_once(words)?.1)))?;
    let (variant, memory) = match rest.strip_prefix('(').and_then(|r| r.split_once(')')) {
        Some((variant, memory)) => (variant, memory),
        None => ("", rest),
    };
    Some((kind, variant.to_owned(), memory.trim().to_owned()))
}

/// `0..inf`, `0..2K`, `8185..65528`, `0`.
fn bounds(range: &str) -> Option<(u64, Option<u64>)> {
    match range.split_once("..") {
        None => size(range).map(|n| (n, Some(n))),
        Some((from, "inf" | "")) => Some((size(from)?, None)),
        Some((from, to)) => Some((size(from)?, Some(size(to)?))),
    }
}

/// UCX prints a size with a suffix only where it is a multiple (`ucs_memunits_to_str`, src/ucs/sys/string.c, UCX 1.23).
fn size(text: &str) -> Option<u64> {
    let (digits, unit) = match text.strip_suffix(['K', 'M', 'G', 'T']) {
        Some(digits) => (digits, text.chars().last()),
        None => (text, None),
    };
    let shift = match unit {
        None => 0,
        Some('K') => 10,
        Some('M') => 20,
        Some('G') => 30,
        Some(_) => 40,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// `cma/memory`, `52% on tcp/lo and 48% on tcp/eth0`, `rc_mlx5/mlx5_0:1 50% on path0 and 50% on path1`.
fn rails(cell: &str) -> Vec<Rail> {
    let (mut out, mut percent): (Vec<Rail>, Option<u8>) = (Vec::new(), None);
    for token in cell.split([' ', ',']) {
        if let Some(share) = token.strip_suffix('%').and_then(|n| n.parse().ok()) {
            percent = Some(share);
        } else if let Some(mut rail) = rail(token) {
            rail.percent = percent.take();
            out.push(rail);
        }
    }
    // Paths of one device are one rail; the shares of its paths add up to all of it.
    out
}

fn rail(token: &str) -> Option<Rail> {
    let (transport, device) = token.split_once('/')?;
    let device = device
        .split_once('/')
        .map_or(device, |(device, _path)| device);
    let first = transport.chars().next()?;
    let named = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let good = first.is_ascii_lowercase() && transport.chars().all(named);
    let shown = |c: char| c.is_ascii_alphanumeric() || "_.-:@".contains(c);
    (good && !device.is_empty() && device.chars().all(shown)).then(|| Rail {
        transport: transport.to_owned(),
        device: device.to_owned(),
        percent: None,
    })
}
