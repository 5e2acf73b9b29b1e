//! `ibstatus` of infiniband-diags: a shell script that prints what sysfs holds, so that it needs no library.

use super::Unparsable;
use super::hca::{Gid, Hca, Hcas, LinkLayer, PhysState, Port, PortState, Rate};
use super::transcript::{self, excerpt};
use crate::facts::hca::Absence;

/// Reads the output.
pub fn parse(text: &str) -> Result<Hcas, Unparsable> {
    let mut hcas = Hcas::default();
    for line in transcript::lines(text) {
        let line = line.trim();
        if line.is_empty() || transcript::prompt(line).is_some() {
            continue;
        }
        if let Some(words) = line.strip_prefix("Fatal error:") {
            fatal(&mut hcas, words);
        } else if let Some((name, number)) = heading(line) {
            if hcas.devices.last().is_none_or(|hca| hca.name != name) {
                hcas.devices.push(Hca::named(name));
            }
            if let Some(hca) = hcas.devices.last_mut() {
                hca.ports.push(Port::numbered(number));
            }
        } else {
            let port = hcas.devices.last_mut().and_then(|hca| hca.ports.last_mut());
            if !port.is_some_and(|port| take(port, line)) {
                hcas.unread_lines += 1;
            }
        }
    }
    if hcas.is_blank() {
        return Err(Unparsable::new("ibstatus", text));
    }
    Ok(hcas)
}

/// The script's ways of finding nothing: no `/sys/class/infiniband` at all, or one without entries, where its glob
/// stays unexpanded. Seen with infiniband-diags 44.0.
fn fatal(hcas: &mut Hcas, words: &str) {
    let words = words.trim();
    hcas.absence = if words == "No devices" {
        Some(Absence::NoSubsystem)
    } else if words.starts_with("device '*'") {
        Some(Absence::NoDevice)
    } else {
        hcas.complaints.push(excerpt(words));
        return;
    };
}

/// `mlx5_0` and `1` of `Infiniband device 'mlx5_0' port 1 status:`, also without the first characters.
fn heading(line: &str) -> Option<(&str, u32)> {
    let (head, tail) = line.split_once('\'')?;
    let (name, tail) = tail.split_once('\'')?;
    let number = tail.trim().strip_prefix("port ")?;
    (head.trim_end().ends_with("device") && number.ends_with("status:"))
        .then(|| transcript::small(number))
        .flatten()
        .map(|number| (name, number))
}

fn take(port: &mut Port, line: &str) -> bool {
    let Some((key, value)) = transcript::field(line) else {
        return false;
    };
    match key {
        "default gid" => {
            // `unknown` when the entry is empty; then the table is not known either, only its first slot.
            let gid = Gid::new(0, value);
            if gid.address.is_some() && !gid.is_empty() {
                port.gids = Some(vec![gid]);
            }
        }
        "base lid" => port.lid = transcript::small(value),
        "sm lid" => port.sm_lid = transcript::small(value),
        "state" => port.state = Some(PortState::parse(value)),
        "phys state" => port.phys_state = Some(PhysState::parse(value)),
        "rate" => port.rate = Rate::parse(value),
        "link_layer" => port.link_layer = Some(LinkLayer::parse(value)),
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    // infiniband-diags 44.0 in the soft-RoCE machine, interface down; second block written by hand after it.
    const OUTPUT: &str = "Infiniband device 'rxe0' port 1 status:
\tdefault gid:\t fe80:0000:0000:0000:5450:ccff:fe8e:4652
\tbase lid:\t 0x0
\tsm lid:\t\t 0x0
\tstate:\t\t 1: DOWN
\tphys state:\t 3: Disabled
\trate:\t\t 10 Gb/sec (1X FDR10)
\tlink_layer:\t Ethernet

Infiniband device 'mlx5_0' port 2 status:
\tdefault gid:\t unknown
\tstate:\t\t 4: ACTIVE
\trate:\t\t 400 Gb/sec (4X NDR)
";

    #[test]
    fn blocks_become_ports() {
        let hcas = parse(OUTPUT).unwrap();
        let down = hcas.device("rxe0").unwrap().port(1).unwrap();
        assert_eq!(down.state, Some(PortState::Down));
        assert_eq!(down.phys_state, Some(PhysState::Disabled));
        assert!(down.gids.as_ref().unwrap()[0].is_link_local());
        let up = hcas.device("mlx5_0").unwrap().port(2).unwrap();
        assert_eq!((up.rate_gbps(), up.gids.clone()), (Some(400.0), None));
    }

    #[test]
    fn absence_is_told_from_no_subsystem() {
        for (text, absence) in [
            (
                "Fatal error:  device '*': sys files not found (/sys/class/infiniband/*/ports)\n",
                Absence::NoDevice,
            ),
            ("Fatal error:  No devices\n", Absence::NoSubsystem),
        ] {
            assert_eq!(parse(text).unwrap().absence, Some(absence));
        }
        assert!(parse("").is_err());
    }
}
