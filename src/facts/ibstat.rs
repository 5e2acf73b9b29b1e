//! `ibstat` of infiniband-diags.
//!
//! Needs no device node: it reads sysfs through libibumad, so what it lists is what the host has, not what a container
//! may open. The word to judge by is `State`; `Physical state: LinkUp` alone is no usable port.

use super::Unparsable;
use super::hca::{self, Hca, Hcas, LinkLayer, PhysState, Port, PortState, Rate};
use super::transcript::{self, excerpt};

/// Reads the output. A text in which no adapter and no message of the tool occurs is an error; `ibstat` prints nothing
/// at all on a host without adapters, and that is the same as no output.
pub fn parse(text: &str) -> Result<Hcas, Unparsable> {
    let mut hcas = Hcas::default();
    for line in transcript::lines(text) {
        let line = line.trim();
        if line.is_empty() || transcript::prompt(line).is_some() {
            continue;
        }
        if line.starts_with("ibpanic:") || line.starts_with("ibwarn:") {
            hcas.complaints.push(excerpt(line));
        } else if let Some(name) = adapter(line) {
            hcas.devices.push(Hca::named(name));
        } else if !hcas.devices.last_mut().is_some_and(|hca| take(hca, line)) {
            hcas.unread_lines += 1;
        }
    }
    if hcas.is_blank() {
        return Err(Unparsable::new("ibstat", text));
    }
    if let Some(what) = hcas.differing() {
        return Err(Unparsable::two_places("ibstat", &what));
    }
    Ok(hcas)
}

/// The name in `CA 'mlx5_0'`. A copy that lost its first character begins with `A`.
fn adapter(line: &str) -> Option<&str> {
    let (head, tail) = line.split_once('\'')?;
    let name = tail.strip_suffix('\'')?;
    (matches!(head.trim(), "CA" | "A" | "") && !name.is_empty()).then_some(name)
}

/// Puts one line into the adapter it stands under. False when the line means nothing here.
fn take(hca: &mut Hca, line: &str) -> bool {
    let Some((key, value)) = transcript::field(line) else {
        return false;
    };
    if value.is_empty()
        && let Some(number) = key.strip_prefix("Port ").and_then(transcript::small)
    {
        hca.ports.push(Port::numbered(number));
        return true;
    }
    match hca.ports.last_mut() {
        Some(port) => take_port(port, key, value),
        None => take_adapter(hca, key, value),
    }
}

fn take_adapter(hca: &mut Hca, key: &str, value: &str) -> bool {
    match key {
        "CA type" => hca.model = (!value.is_empty()).then(|| excerpt(value)),
        "Number of ports" => hca.port_count = transcript::small(value),
        "Firmware version" => hca.fw_version = (!value.is_empty()).then(|| excerpt(value)),
        "Node GUID" => hca.node_guid = hca::guid(value),
        "Hardware version" | "System image GUID" => {}
        _ => return false,
    }
    true
}

fn take_port(port: &mut Port, key: &str, value: &str) -> bool {
    match key {
        "State" => port.state = Some(PortState::parse(value)),
        "Physical state" => port.phys_state = Some(PhysState::parse(value)),
        "Rate" => port.rate = Rate::parse(value),
        "Base lid" => port.lid = transcript::small(value),
        "SM lid" => port.sm_lid = transcript::small(value),
        "Link layer" => port.link_layer = Some(LinkLayer::parse(value)),
        "LMC" | "Capability mask" | "Port GUID" => {}
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    // infiniband-diags 44.0 in the soft-RoCE machine; the second port was written by hand after the same format.
    const OUTPUT: &str = "root@vm:~# ibstat
CA 'rxe0'
\tCA type: \n\tNumber of ports: 2
\tFirmware version: \n\tHardware version: \n\tNode GUID: 0x5450ccfffe8e4652
\tSystem image GUID: 0x5450ccfffe8e4652
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 10 (FDR10)
\t\tBase lid: 0
\t\tLMC: 0
\t\tSM lid: 0
\t\tCapability mask: 0x00010000
\t\tPort GUID: 0x5450ccfffe8e4652
\t\tLink layer: Ethernet
\tPort 2:
\t\tState: Initializing
\t\tPhysical state: LinkUp
\t\tRate: 2.5
\t\tBase lid: 65535
\t\tSM lid: 0
ibpanic: [1140] main: stat of IB device 'mlx5_4' failed: No such device
";

    #[test]
    fn ports_belong_to_their_adapter_and_lines_may_be_missing() {
        let hcas = parse(OUTPUT).unwrap();
        let hca = hcas.device("rxe0").unwrap();
        assert_eq!((hca.model.clone(), hca.port_count), (None, Some(2)));
        let one = hca.port(1).unwrap();
        assert_eq!(one.state, Some(PortState::Active));
        assert_eq!(one.rate_gbps(), Some(10.0));
        assert_eq!(one.link_layer, Some(LinkLayer::Ethernet));
        let two = hca.port(2).unwrap();
        assert_eq!(two.state, Some(PortState::Init));
        assert_eq!(two.phys_state, Some(PhysState::LinkUp));
        assert_eq!(
            (two.lid, two.sm_lid, two.link_layer.clone()),
            (Some(65535), Some(0), None)
        );
        assert_eq!(hcas.complaints.len(), 1, "good entries before it stay");
        assert_eq!(hcas.unread_lines, 0);
    }

    #[test]
    fn two_places_in_one_text_are_refused() {
        for (other, is_one) in [
            (OUTPUT.to_owned(), true),
            (OUTPUT.replace("Rate: 10 ", "Rate: 5 "), false),
            (OUTPUT.replace("Active", "Down"), false),
            (
                OUTPUT.replace("0x5450ccfffe8e4652", "0x5450ccfffe8e4653"),
                false,
            ),
            (OUTPUT.replace("rxe0", "rxe1"), true),
        ] {
            match parse(&format!("{OUTPUT}{other}")) {
                Ok(_) => assert!(is_one, "{other}"),
                Err(error) => {
                    assert!(
                        !is_one && error.to_string().contains("two places"),
                        "{error}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_lost_first_character_loses_no_adapter() {
        let hcas = parse(&OUTPUT["root@vm:~# ibstat\nC".len()..]).unwrap();
        assert_eq!(hcas.devices.len(), 1);
    }

    #[test]
    fn nothing_and_foreign_text_are_refused() {
        for text in ["", "State: Active\n", "sh: 1: ibstat: not found\n"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
