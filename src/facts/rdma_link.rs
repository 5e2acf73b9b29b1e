//! `rdma link` of iproute2, with or without `-d`.
//!
//! It asks the kernel by netlink and shows the devices of this network namespace (all of them in the `shared` mode).

use super::Unparsable;
use super::hca::{Absence, Hca, Hcas, PhysState, Port, PortState};
use super::transcript::{self, excerpt};

/// Reads the output. Empty output is refused: it may mean no device or no tool, and the exit code tells which.
pub fn parse(text: &str) -> Result<Hcas, Unparsable> {
    let mut hcas = Hcas::default();
    for line in transcript::lines(text) {
        let line = line.trim();
        if line.is_empty() || transcript::prompt(line).is_some() {
            continue;
        }
        if let Some((name, port)) = link(line) {
            // Ports of one device follow each other.
            match hcas.devices.last_mut().filter(|hca| hca.name == name) {
                Some(hca) => hca.ports.push(port),
                None => {
                    let mut hca = Hca::named(name);
                    hca.ports.push(port);
                    hcas.devices.push(hca);
                }
            }
        } else if line.starts_with("Failed to open NETLINK_RDMA socket") {
            // ib_core is not loaded. Seen with iproute2 6.1.
            hcas.absence = Some(Absence::NoSubsystem);
        } else if line.starts_with("caps:") || line.starts_with('<') {
            // Continuation of `-d`.
        } else {
            hcas.unread_lines += 1;
        }
    }
    if hcas.is_blank() {
        return Err(Unparsable::new("rdma link", text));
    }
    Ok(hcas)
}

/// `link mlx5_0/1 lid 5 sm_lid 1 lmc 0 state ACTIVE physical_state LINK_UP netdev ib0`; before iproute2 5.0
/// `1/1: mlx5_0/1: state ..`.
fn link(line: &str) -> Option<(&str, Port)> {
    let mut words = line.split_whitespace();
    let first = words.next()?;
    if first != "link" && !first.ends_with(':') {
        return None;
    }
    let (name, number) = words.next()?.trim_end_matches(':').split_once('/')?;
    let mut port = Port::numbered(transcript::small(number)?);
    while let Some(key) = words.next() {
        match key {
            "state" => port.state = words.next().map(PortState::parse),
            "physical_state" => port.phys_state = words.next().map(PhysState::parse),
            "lid" => port.lid = words.next().and_then(transcript::small),
            "sm_lid" => port.sm_lid = words.next().and_then(transcript::small),
            "netdev" => port.netdev = words.next().map(excerpt),
            _ => {}
        }
    }
    port.state.is_some().then_some((name, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    // iproute2 6.1.0 in the soft-RoCE machine; the InfiniBand and the old line were written by hand after the source.
    const OUTPUT: &str =
        "link rxe0/1 state DOWN physical_state POLLING netdev eth0 netdev_index 3 
link mlx5_0/1 subnet_prefix fe80:0000:0000:0000 lid 5 sm_lid 1 lmc 0 state ACTIVE physical_state LINK_UP 
    caps: <AUTO_MIGR>
1/1: mlx5_1/1: lid 9 sm_lid 0 state INIT physical_state LINK_UP 
";

    #[test]
    fn words_follow_their_keys() {
        let hcas = parse(OUTPUT).unwrap();
        let rxe = hcas.device("rxe0").unwrap().port(1).unwrap();
        assert_eq!(rxe.state, Some(PortState::Down));
        assert_eq!(rxe.phys_state, Some(PhysState::Polling));
        assert_eq!(rxe.netdev.as_deref(), Some("eth0"));
        let ib = hcas.device("mlx5_0").unwrap().port(1).unwrap();
        assert_eq!(
            (ib.lid, ib.sm_lid, ib.netdev.clone()),
            (Some(5), Some(1), None)
        );
        let old = hcas.device("mlx5_1").unwrap().port(1).unwrap();
        assert_eq!((&old.state, old.sm_lid), (&Some(PortState::Init), Some(0)));
        assert_eq!(hcas.unread_lines, 0);
    }

    #[test]
    fn a_kernel_without_rdma_says_so_and_silence_is_refused() {
        let none = parse("Failed to open NETLINK_RDMA socket\n").unwrap();
        assert_eq!(none.absence, Some(Absence::NoSubsystem));
        assert!(parse("").is_err());
    }
}
