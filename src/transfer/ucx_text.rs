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
    /// The cell as printed; all of the row where that is what was not understood.
    pub raw: String,
    /// Why the row is not understood, so that it says nothing: what could not be read may be what carried the bytes.
    pub unread: Option<String>,
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
    if let Some((before, _)) = line.split_once(" EFA devices")
        && let Some((_, found)) = before.split_once("Discovered ")
    {
        return (found.trim() != "0").then_some("efa");
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
        if cells.iter().any(|c| c.contains(" cfg#")) {
            let place = cells.iter().find_map(|c| configuration(c));
            (self.place, self.operation) = (place.map(|(place, _)| place), None);
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
        if title || cells.first() == Some(&"Range") || cells.iter().all(|c| c.is_empty()) {
            return None;
        }
        let whole = message.ends_with('|');
        let (bounds, how, raw, read) = match cells.as_slice() {
            &[range, how, raw] if whole => match bounds(range) {
                Some(bounds) => (bounds, how, raw, rails(raw)),
                None => (
                    (0, None),
                    "",
                    message,
                    Err("its range is not understood".to_owned()),
                ),
            },
            _ if !whole => ((0, None), "", message, Err("it is cut".to_owned())),
            _ => (
                (0, None),
                "",
                message,
                Err("it has other columns".to_owned()),
            ),
        };
        let (rails, unread) = match read {
            Ok(rails) => (rails, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        Some(Row {
            inter_node,
            kind: *kind,
            variant: variant.clone(),
            memory: memory.clone(),
            from: bounds.0,
            to: bounds.1,
            how: how.to_owned(),
            rails,
            raw: raw.to_owned(),
            unread,
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

/// Shares are whole percents, and each is rounded.
const SHARES: std::ops::RangeInclusive<u32> = 97..=103;

/// `cma/memory`, `30% on tcp/a, 40% on tcp/b and 30% on tcp/c`, `rc_mlx5/mlx5_0:1 50% on path0 and 50% on path1`: see
/// `ucp_proto_multi_query_config` (src/ucp/proto/proto_multi.c), UCX 1.16 to 1.23.
///
/// # Errors
/// Says what of the cell is not understood.
fn rails(cell: &str) -> Result<Vec<Rail>, String> {
    let (mut out, mut percent): (Vec<Rail>, Option<u8>) = (Vec::new(), None);
    let (mut sum, mut shares) = (0, 0);
    for token in cell.split_whitespace() {
        let token = token.trim_end_matches(',');
        if let Some(share) = token.strip_suffix('%').and_then(|n| n.parse::<u8>().ok()) {
            percent = Some(share);
            sum += u32::from(share);
            shares += 1;
        } else if let Some(mut rail) = rail(token) {
            rail.percent = percent.take();
            out.push(rail);
        } else if !is_filler(token) {
            return Err(format!("`{token}` is not understood"));
        }
    }
    if shares > 0 && !SHARES.contains(&sum) {
        return Err(format!("its shares add up to {sum}%"));
    }
    // Paths of one device are one rail; the shares of its paths add up to all of it.
    if shares > 0 && out.len() > 1 && out.iter().any(|rail| rail.percent.is_none()) {
        return Err("it gives shares to some of its devices".to_owned());
    }
    Ok(out)
}

fn is_filler(token: &str) -> bool {
    let path = token.strip_prefix("path");
    matches!(token, "on" | "and" | "")
        || path.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// The kernel lets a network device have any name without blanks, slashes and colons (`dev_valid_name`, net/core/dev.c).
fn rail(token: &str) -> Option<Rail> {
    let (transport, device) = token.split_once('/')?;
    let device = device
        .split_once('/')
        .map_or(device, |(device, _path)| device);
    let first = transport.chars().next()?;
    let named = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let good = first.is_ascii_lowercase() && transport.chars().all(named);
    let shown = |c: char| c.is_ascii_graphic() && !"\\%,".contains(c);
    (good && !device.is_empty() && device.chars().all(shown)).then(|| Rail {
        transport: transport.to_owned(),
        device: device.to_owned(),
        percent: None,
    })
}
