//! `ibdev2netdev` of MLNX_OFED, with or without `-v`.
//!
//! `(Up)` and `(Down)` are about the **network interface**. On an InfiniBand port that is IPoIB, which says nothing
//! about RDMA: the port may be Active behind `(Down)`.

use super::Unparsable;
use super::transcript::{self, excerpt};

/// Which network interface belongs to which port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Netdevs {
    /// In the order of the output.
    pub rows: Vec<Row>,
    /// Lines that were not understood.
    pub unread_lines: u32,
}

/// One port and its interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// RDMA device.
    pub device: String,
    /// Port of the device.
    pub port: u32,
    /// Network interface.
    pub netdev: String,
    /// State of the network interface, not of the port; `None` when the word is neither `Up` nor `Down`.
    pub netdev_up: Option<bool>,
}

/// Reads the output.
pub fn parse(text: &str) -> Result<Netdevs, Unparsable> {
    let mut netdevs = Netdevs::default();
    for line in transcript::lines(text) {
        let line = line.trim();
        if line.is_empty() || transcript::prompt(line).is_some() {
            continue;
        }
        match row(line) {
            Some(row) => netdevs.rows.push(row),
            None => netdevs.unread_lines += 1,
        }
    }
    if netdevs.rows.is_empty() {
        return Err(Unparsable::new("ibdev2netdev", text));
    }
    Ok(netdevs)
}

/// `mlx5_0 port 1 ==> eth0 (Up)`, or with `-v` a PCI address before and product words between.
fn row(line: &str) -> Option<Row> {
    let (left, right) = line.split_once("==>")?;
    let words: Vec<&str> = left.split_whitespace().collect();
    let at = words.iter().rposition(|word| *word == "port")?;
    let port = words.get(at + 1).and_then(|word| transcript::small(word))?;
    let device = words.iter().take(at).find(|word| !word.contains(':'))?;
    let mut right = right.split_whitespace();
    let netdev = right.next()?;
    let netdev_up = match right.next() {
        Some("(Up)") => Some(true),
        Some("(Down)") => Some(false),
        _ => None,
    };
    Some(Row {
        device: excerpt(device),
        port,
        netdev: excerpt(netdev),
        netdev_up,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Written by hand after the script of MLNX_OFED 5.8.
    const OUTPUT: &str = "mlx5_0 port 1 ==> eth2 (Up)
0000:5e:00.1 mlx5_1 (MT4123 - MCX653106A) CX653106A fw 20.35.2000 port 1 (ACTIVE) ==> ib0 (Down)
mlx5_bond_0 port 1 ==> bond0 (Flapping)
noise
";

    #[test]
    fn the_word_belongs_to_the_interface() {
        let netdevs = parse(OUTPUT).unwrap();
        let rows: Vec<_> = netdevs
            .rows
            .iter()
            .map(|r| (r.device.as_str(), r.port, r.netdev.as_str(), r.netdev_up))
            .collect();
        assert_eq!(
            rows,
            [
                ("mlx5_0", 1, "eth2", Some(true)),
                ("mlx5_1", 1, "ib0", Some(false)),
                ("mlx5_bond_0", 1, "bond0", None),
            ]
        );
        assert_eq!(netdevs.unread_lines, 1);
        assert!(parse("noise").is_err());
    }
}
