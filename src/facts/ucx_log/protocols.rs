//! Protocol tables of `UCX_PROTO_INFO`.

use super::super::transcript::excerpt;
use super::{Lane, Scope, identity, lanes};
use std::fmt;

/// A row of a table: what an operation uses for blocks of a size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protocol {
    /// Whom the endpoint reaches.
    pub scope: Scope,
    /// Number of the configuration.
    pub number: u32,
    /// Write or read.
    pub operation: Operation,
    /// Variant in parentheses: `multi`, `fast-completion`. Empty without one.
    pub variant: String,
    /// Memory on this side.
    pub local: Memory,
    /// Memory of the peer.
    pub remote: Memory,
    /// Sizes.
    pub range: Range,
    /// How the data move.
    pub how: How,
    /// Lanes that carry them. The cell may name more than one.
    pub lanes: Vec<Lane>,
    /// The cell of the lanes as printed, sanitised.
    pub raw: String,
}

/// An operation on remote memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// `ucp_put`: NIXL WRITE.
    Write,
    /// `ucp_get`: NIXL READ.
    Read,
}

/// Kind of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Memory {
    /// Host.
    Host,
    /// NVIDIA GPU, managed memory included.
    Cuda,
    /// Another word.
    Other,
}

impl Memory {
    fn parse(text: &str) -> Self {
        let text = text.trim();
        if text.starts_with("host") {
            Self::Host
        } else if text.starts_with("cuda") {
            Self::Cuda
        } else {
            Self::Other
        }
    }
}

/// Sizes of blocks, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// Smallest.
    pub first_byte: u64,
    /// Largest; `None` without a bound.
    pub last_byte: Option<u64>,
}

impl Range {
    /// `0`, `1..2048`, `2K..inf`.
    fn parse(cell: &str) -> Option<Self> {
        let (first, last) = cell.split_once("..").unwrap_or((cell, cell));
        Some(Self {
            first_byte: size(first)?,
            last_byte: match last {
                "inf" => None,
                last => Some(size(last)?),
            },
        })
    }

    /// Blocks of that size belong here.
    pub fn covers(self, bytes: u64) -> bool {
        self.first_byte <= bytes && self.last_byte.is_none_or(|last| bytes <= last)
    }
}

fn size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// How data move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum How {
    /// Inline, for small blocks.
    Short,
    /// Through a bounce buffer.
    CopyIn,
    /// In place.
    ZeroCopy,
    /// By messages and the CPU of the peer: no remote memory access at all.
    SoftwareEmulation,
    /// A rendezvous or pipeline; its stages are in the text.
    Rendezvous,
    /// Another word.
    Other,
}

/// In UCX's own words.
impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "short",
            Self::CopyIn => "copy-in",
            Self::ZeroCopy => "zero-copy",
            Self::SoftwareEmulation => "software emulation",
            Self::Rendezvous => "rendezvous",
            Self::Other => "other means",
        })
    }
}

impl How {
    fn parse(text: &str) -> Self {
        if text.contains("software emulation") {
            Self::SoftwareEmulation
        } else if text.contains("rndv") || text.contains("rendezvous") {
            Self::Rendezvous
        } else if text.contains("zero-copy") {
            Self::ZeroCopy
        } else if text.contains("copy-in") || text.contains("multi-frag") {
            Self::CopyIn
        } else if text.contains("short") {
            Self::Short
        } else {
            Self::Other
        }
    }
}

/// The table that one process is printing.
#[derive(Debug, Default)]
pub(super) struct Table {
    configuration: Option<(Scope, u32)>,
    title: Option<Title>,
}

#[derive(Debug)]
struct Title {
    operation: Operation,
    variant: String,
    local: Memory,
    remote: Memory,
}

impl Table {
    /// Takes one line that starts with `|` or `+`.
    pub(super) fn line(&mut self, line: &str) -> Option<Protocol> {
        if !line.starts_with('|') {
            return None;
        }
        let cells: Vec<&str> = line
            .trim_matches('|')
            .split('|')
            .map(str::trim)
            .take(8)
            .collect();
        if let Some((_, scope, number, _)) = cells.iter().find_map(|cell| identity(cell)) {
            self.configuration = Some((scope, number));
            self.title = None;
        }
        if let Some(cell) = cells.iter().find(|cell| cell.contains(" by ucp_")) {
            self.title = title(cell);
            return None;
        }
        let ([range, how, raw], Some((scope, number)), Some(title)) =
            (&cells[..], self.configuration, &self.title)
        else {
            return None;
        };
        let range = Range::parse(range)?;
        Some(Protocol {
            scope,
            number,
            operation: title.operation,
            variant: title.variant.clone(),
            local: title.local,
            remote: title.remote,
            range,
            how: How::parse(how),
            lanes: lanes(raw),
            raw: excerpt(raw),
        })
    }
}

/// `remote memory write by ucp_put*(multi) from cuda/GPU0 to host`,
/// `remote memory read by ucp_get* into host memory from cuda`. Another operation has no title here, and its rows are
/// passed over.
fn title(cell: &str) -> Option<Title> {
    let (operation, rest) =
        if let Some((_, rest)) = cell.split_once("remote memory write by ucp_put*") {
            (Operation::Write, rest)
        } else if let Some((_, rest)) = cell.split_once("remote memory read by ucp_get*") {
            (Operation::Read, rest)
        } else {
            return None;
        };
    let (variant, rest) = match rest.strip_prefix('(') {
        Some(tail) => tail.split_once(')')?,
        None => ("", rest),
    };
    let rest = rest.trim();
    let (local, remote) = match operation {
        Operation::Write => rest.strip_prefix("from ")?.rsplit_once(" to ")?,
        Operation::Read => rest.strip_prefix("into ")?.rsplit_once(" from ")?,
    };
    Some(Title {
        operation,
        variant: excerpt(variant),
        local: Memory::parse(local),
        remote: Memory::parse(remote),
    })
}
