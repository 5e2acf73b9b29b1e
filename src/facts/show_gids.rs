//! `show_gids` of MLNX_OFED: the filled GID entries of all ports.

use super::Unparsable;
use super::hca::{Gid, GidKind};
use super::transcript::{self, excerpt};
use std::net::Ipv4Addr;

/// The table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GidTable {
    /// In the order of the output.
    pub rows: Vec<Row>,
    /// `n_gids_found`: how many rows the tool printed. More than [`Self::rows`] holds means a cut copy.
    pub announced: Option<u32>,
    /// Lines that were not understood.
    pub unread_lines: u32,
}

/// One GID of one port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// RDMA device.
    pub device: String,
    /// Port of the device.
    pub port: u32,
    /// The entry. Without a network interface the port is InfiniBand, and `v1` then means InfiniBand, not RoCE v1.
    pub gid: Gid,
    /// The IPv4 column.
    pub ipv4: Option<Ipv4Addr>,
}

impl GidTable {
    /// True when rows are missing from the copy, so that absence of a GID proves nothing.
    pub fn is_cut(&self) -> bool {
        self.announced
            .is_some_and(|announced| announced as usize != self.rows.len())
    }

    /// The entries of one port.
    pub fn of<'a>(&'a self, device: &'a str, port: u32) -> impl Iterator<Item = &'a Row> {
        self.rows
            .iter()
            .filter(move |row| row.device == device && row.port == port)
    }
}

/// Reads the output.
pub fn parse(text: &str) -> Result<GidTable, Unparsable> {
    let mut table = GidTable::default();
    for line in transcript::lines(text) {
        let line = line.trim();
        if line.is_empty() || line.starts_with("---") || transcript::prompt(line).is_some() {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.first() == Some(&"DEV") {
            continue;
        }
        if let Some(count) = line.strip_prefix("n_gids_found=") {
            table.announced = transcript::small(count);
        } else if let Some(row) = row(&words) {
            table.rows.push(row);
        } else {
            table.unread_lines += 1;
        }
    }
    if table.rows.is_empty() && table.announced.is_none() {
        return Err(Unparsable::new("show_gids", text));
    }
    Ok(table)
}

/// Columns by their kind, not their place: the IPv4 column may be empty, and blanks may stand for tabs.
fn row(words: &[&str]) -> Option<Row> {
    let [device, port, index, address, rest @ ..] = words else {
        return None;
    };
    if !address.contains(':') {
        return None;
    }
    let (ipv4, rest) = match rest {
        [first, rest @ ..] if first.parse::<Ipv4Addr>().is_ok() => (first.parse().ok(), rest),
        rest => (None, rest),
    };
    let [version, rest @ ..] = rest else {
        return None;
    };
    let mut gid = Gid::new(transcript::small(index)?, address);
    gid.kind = GidKind::parse(version);
    gid.netdev = rest.first().map(|netdev| excerpt(netdev));
    Some(Row {
        device: excerpt(device),
        port: transcript::small(port)?,
        gid,
        ipv4,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Written by hand after the script of MLNX_OFED 5.8; addresses of the documentation ranges.
    const OUTPUT: &str = "DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV
---\t----\t-----\t---\t\t\t\t\t------------  \t---\t---
mlx5_0\t1\t0\tfe80:0000:0000:0000:0a00:27ff:fe00:0001\t\t\tv1\teth2
mlx5_0\t1\t3\t0000:0000:0000:0000:0000:ffff:c000:0201\t192.0.2.1  \tv2\teth2
mlx5_1  1       0       fe80:0000:0000:0000:0a00:2703:0000:0002                 v1
n_gids_found=4
";

    #[test]
    fn columns_are_known_by_their_kind() {
        let table = parse(OUTPUT).unwrap();
        let v4 = table
            .of("mlx5_0", 1)
            .find(|row| row.ipv4.is_some())
            .unwrap();
        assert_eq!((v4.gid.index, v4.gid.kind), (3, Some(GidKind::RoceV2)));
        assert_eq!(v4.gid.ipv4(), v4.ipv4);
        let ib = table.of("mlx5_1", 1).next().unwrap();
        assert_eq!(
            (ib.gid.netdev.clone(), ib.gid.kind),
            (None, Some(GidKind::IbOrRoceV1))
        );
        assert!(table.is_cut());
        assert_eq!(table.unread_lines, 0);
    }

    #[test]
    fn an_empty_table_is_an_answer() {
        assert_eq!(parse("n_gids_found=0\n").unwrap().rows.len(), 0);
        assert!(parse("DEV PORT\n").is_err());
    }
}
