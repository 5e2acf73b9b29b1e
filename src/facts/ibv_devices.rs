//! `ibv_devices` of rdma-core: the names that libibverbs offers to this process, with their node GUIDs.

use super::Unparsable;
use super::hca::{self, Hca, Hcas};
use super::ibv_devinfo;
use super::transcript;

/// Reads the output. A heading without rows is an empty list, which the tool prints where it finds no device.
pub fn parse(text: &str) -> Result<Hcas, Unparsable> {
    let mut hcas = Hcas::default();
    let mut headed = false;
    for line in transcript::lines(text) {
        let line = line.trim();
        if line.is_empty() || transcript::prompt(line).is_some() {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some(absence) = ibv_devinfo::absence(line) {
            hcas.absence = Some(absence);
        } else if words == ["device", "node", "GUID"] {
            headed = true;
        } else if let [name, text] = words[..]
            && text.len() == 16
            && let Some(guid) = hca::guid(text)
        {
            let mut hca = Hca::named(name);
            hca.node_guid = Some(guid);
            hcas.devices.push(hca);
        } else if !line.starts_with("---") {
            hcas.unread_lines += 1;
        }
    }
    if hcas.is_blank() && !headed {
        return Err(Unparsable::new("ibv_devices", text));
    }
    Ok(hcas)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::hca::Absence;

    // rdma-core 44.0 in the soft-RoCE machine.
    const HEAD: &str = "    device          \t   node GUID
    ------          \t----------------
";

    #[test]
    fn names_and_guids_are_read() {
        let text = format!("{HEAD}    rxe0            \t5450ccfffe8e4652\n");
        let hcas = parse(&text).unwrap();
        assert_eq!(hcas.devices[0].node_guid, Some(0x5450_ccff_fe8e_4652));
        assert_eq!(hcas.unread_lines, 0);
    }

    #[test]
    fn an_empty_list_is_not_a_missing_one() {
        let empty = parse(HEAD).unwrap();
        assert_eq!((empty.devices.len(), empty.absence), (0, None));
        let none = parse("Failed to get IB devices list: Function not implemented\n").unwrap();
        assert_eq!(none.absence, Some(Absence::NoSubsystem));
        assert!(parse("").is_err());
    }
}
