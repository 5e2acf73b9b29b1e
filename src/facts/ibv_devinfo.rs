//! `ibv_devinfo`, `-v` and `-l`, of rdma-core.
//!
//! It opens each device, so it shows what this process may use. Fields are read by name: drivers leave lines out, and
//! `-v` adds about a hundred. Format: <https://github.com/linux-rdma/rdma-core/blob/v55.0/libibverbs/examples/devinfo.c>

use super::Unparsable;
use super::hca::{self, Absence, Gid, GidKind, Hca, Hcas, LinkLayer, PhysState, Port, PortState};
use super::transcript::{self, excerpt};
use super::vendor::Vendor;
use crate::facts::hca::Rate;

/// Reads the output.
pub fn parse(text: &str) -> Result<Hcas, Unparsable> {
    let mut reading = Reading::default();
    for line in transcript::lines(text) {
        reading.line(line.trim());
    }
    reading.close();
    let mut hcas = reading.hcas;
    // The tool has no device to show for which there is a driver, and there are devices.
    if !hcas.without_driver.is_empty() {
        hcas.absence = None;
    }
    // A device that stands behind a cut must not count as one that is not there.
    if hcas.is_blank() || reading.ports_are_missing || ends_within_a_port(&hcas) {
        return Err(Unparsable::new("ibv_devinfo", text));
    }
    let none_beside_some = hcas.absence.is_some() && !hcas.devices.is_empty();
    let none_beside_some = none_beside_some.then(|| {
        let name = &hcas.devices[0].name;
        format!("{name}, and that there is no device")
    });
    if let Some(what) = none_beside_some.or_else(|| hcas.differing()) {
        return Err(Unparsable::two_places("ibv_devinfo", &what));
    }
    Ok(hcas)
}

/// `link_layer` is the last line of a port; where others have it, the last port has it too.
fn ends_within_a_port(hcas: &Hcas) -> bool {
    let mut ports = hcas.devices.iter().flat_map(|hca| &hca.ports);
    let last = ports.next_back();
    // Fields of a device and none of its ports.
    let began = |hca: &Hca| hca.transport.is_some() && hca.ports.is_empty();
    if hcas.devices.last().is_some_and(began) && last.is_some() {
        return true;
    }
    last.is_some_and(|port| port.link_layer.is_none())
        && ports.any(|port| port.link_layer.is_some())
}

/// Words of libibverbs and of the tool when it lists nothing. The second is `ENOSYS`: ib_uverbs is not loaded.
pub(super) fn absence(line: &str) -> Option<Absence> {
    if line.starts_with("No IB devices found") {
        Some(Absence::NoDevice)
    } else if line.starts_with("Failed to get IB devices list: Function not implemented") {
        Some(Absence::NoSubsystem)
    } else {
        None
    }
}

/// Nodes kept at most.
const NODES: usize = 256;

/// `libibverbs: Warning: no userspace device-specific driver found for /sys/class/infiniband_verbs/uverbs0`.
/// <https://github.com/linux-rdma/rdma-core/blob/v55.0/libibverbs/init.c>
fn without_driver(line: &str) -> Option<String> {
    let (_, path) = line.split_once("no userspace device-specific driver found for ")?;
    let node = path.split_whitespace().next()?.rsplit('/').next()?;
    Some(excerpt(node))
}

#[derive(Default)]
struct Reading {
    hcas: Hcas,
    /// Whose fields are being read. `None` at the top, and where a heading seems lost: fields then belong to nobody,
    /// rather than to the device before.
    current: Option<Hca>,
    /// `-l` was recognised: names follow, one a line.
    listing: bool,
    /// Lanes and Gb/s per lane of the port being read.
    width: Option<u32>,
    lane_gbps: Option<f64>,
    /// Ports that the device being read says it has.
    port_count: u32,
    /// The last device showed fewer ports than it has: the output was cut.
    ports_are_missing: bool,
}

impl Reading {
    fn line(&mut self, line: &str) {
        if line.is_empty() || transcript::prompt(line).is_some() {
            return;
        }
        if let Some(absence) = absence(line) {
            self.hcas.absence = Some(absence);
        } else if let Some(node) = without_driver(line) {
            if self.hcas.without_driver.len() < NODES {
                self.hcas.without_driver.insert(node);
            }
        } else if line == "Failed to open device" {
            self.hcas.unopened += 1;
        } else if listing_head(line) {
            self.close();
            self.listing = true;
        } else if let Some(name) = heading(line) {
            self.close();
            self.listing = false;
            self.current = Some(Hca::named(name));
        } else if self.listing && is_device_name(line) {
            self.hcas.devices.push(Hca::named(line));
        } else {
            self.detail(line);
        }
    }

    fn detail(&mut self, line: &str) {
        let Some((key, value)) = transcript::field(line) else {
            // Names of capability flags stand alone on their line below `-v` headings.
            if self.current.is_none() {
                self.hcas.unread_lines += 1;
            }
            return;
        };
        if key == "transport" && self.current.as_ref().is_some_and(|h| h.transport.is_some()) {
            self.close();
        }
        let Some(hca) = &mut self.current else {
            self.hcas.unread_lines += 1;
            return;
        };
        if key == "port" {
            self.close_port();
            if let (Some(hca), Some(number)) = (&mut self.current, transcript::small(value)) {
                hca.ports.push(Port::numbered(number));
            }
            return;
        }
        if key == "phys_port_cnt" {
            self.port_count = transcript::small(value).unwrap_or_default();
        }
        match hca.ports.last_mut() {
            None => take_device(hca, key, value),
            Some(_) if key == "active_width" => {
                self.width = value.split('X').next().and_then(transcript::small);
            }
            Some(_) if key == "active_speed" => self.lane_gbps = transcript::number(value),
            Some(port) => take_port(port, key, value),
        }
    }

    /// The rate of a port is width times speed, and both are known only at its end.
    fn close_port(&mut self) {
        let (width, lane) = (self.width.take(), self.lane_gbps.take());
        let port = self.current.as_mut().and_then(|hca| hca.ports.last_mut());
        if let (Some(port), Some(lanes), Some(lane_gbps)) = (port, width, lane) {
            port.rate = Some(Rate {
                rate_gbps: f64::from(lanes) * lane_gbps,
                lanes: Some(lanes),
                speed: None,
            });
        }
    }

    fn close(&mut self) {
        self.close_port();
        let expected = std::mem::take(&mut self.port_count);
        if let Some(hca) = self.current.take() {
            self.ports_are_missing = hca.ports.len() < expected as usize;
            self.hcas.devices.push(hca);
        }
    }
}

/// The name behind `hca_id:`. A copy may have lost the first characters of the first line.
fn heading(line: &str) -> Option<&str> {
    let (key, value) = transcript::field(line)?;
    let lost = key.len() >= "a_id".len() && "hca_id".ends_with(key);
    (lost && is_device_name(value)).then_some(value)
}

/// `1 HCA found:` or `2 HCAs found:`.
fn listing_head(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.next().is_some_and(|n| n.parse::<u32>().is_ok())
        && words.next().is_some_and(|word| word.starts_with("HCA"))
        && words.next() == Some("found:")
}

fn is_device_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= 64 && !text.contains([' ', ':'])
}

fn take_device(hca: &mut Hca, key: &str, value: &str) {
    match key {
        "transport" => {
            let words = value.split('(').next().unwrap_or_default();
            hca.transport = Some(excerpt(words));
        }
        "fw_ver" => hca.fw_version = Some(excerpt(value)),
        "node_guid" => hca.node_guid = hca::guid(value),
        "vendor_id" => hca.vendor = transcript::small(value).map(Vendor::from_verbs),
        "vendor_part_id" => hca.part_id = transcript::small(value),
        "board_id" => hca.board_id = Some(excerpt(value)),
        "phys_port_cnt" => hca.port_count = transcript::small(value),
        // Limits and capabilities of `-v`, which no check needs.
        _ => {}
    }
}

fn take_port(port: &mut Port, key: &str, value: &str) {
    match key {
        "state" => port.state = Some(PortState::parse(value)),
        "phys_state" => port.phys_state = Some(PhysState::parse(value)),
        "max_mtu" => port.max_mtu_bytes = transcript::small(value),
        "active_mtu" => port.active_mtu_bytes = transcript::small(value),
        "sm_lid" => port.sm_lid = transcript::small(value),
        "port_lid" => port.lid = transcript::small(value),
        "link_layer" => port.link_layer = Some(LinkLayer::parse(value)),
        "gid_tbl_len" => {
            // Printed with `-v` only, just before the filled entries: from here on the table is known.
            port.gids.get_or_insert_default();
        }
        _ => {
            if let Some(index) = key
                .strip_prefix("GID[")
                .and_then(|rest| transcript::small(rest.trim_end_matches(']')))
            {
                let (address, kind) = value.split_once(',').unwrap_or((value, ""));
                let mut gid = Gid::new(index, address);
                gid.kind = GidKind::parse(kind);
                port.gids.get_or_insert_default().push(gid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // rdma-core 44.0 in the soft-RoCE machine, `-v`, most capability lines cut.
    const VERBOSE: &str = "hca_id:\trxe0
\ttransport:\t\t\tInfiniBand (0)
\tfw_ver:\t\t\t\t0.0.0
\tnode_guid:\t\t\t5450:ccff:fe8e:4652
\tsys_image_guid:\t\t\t5450:ccff:fe8e:4652
\tvendor_id:\t\t\t0xffffff
\tvendor_part_id:\t\t\t0
\thw_ver:\t\t\t\t0x0
\tphys_port_cnt:\t\t\t1
\tdevice_cap_flags:\t\t0x01223c76
\t\t\t\t\tBAD_PKEY_CNTR
\t\t\t\t\tPORT_ACTIVE_EVENT
\tcompletion_timestamp_mask not supported
\tnum_comp_vectors:\t\t1
\t\tport:\t1
\t\t\tstate:\t\t\tPORT_ACTIVE (4)
\t\t\tmax_mtu:\t\t4096 (5)
\t\t\tactive_mtu:\t\t1024 (3)
\t\t\tsm_lid:\t\t\t0
\t\t\tport_lid:\t\t0
\t\t\tport_lmc:\t\t0x00
\t\t\tlink_layer:\t\tEthernet
\t\t\tmax_msg_sz:\t\t0x800000
\t\t\tgid_tbl_len:\t\t1024
\t\t\tactive_width:\t\t1X (1)
\t\t\tactive_speed:\t\t10.0 Gbps (8)
\t\t\tphys_state:\t\tLINK_UP (5)
\t\t\tGID[  0]:\t\tfe80::5450:ccff:fe8e:4652, RoCE v2
\t\t\tGID[  1]:\t\t::ffff:10.77.0.1, RoCE v2

";

    #[test]
    fn verbose_output_gives_rate_and_gids() {
        let hcas = parse(VERBOSE).unwrap();
        let hca = hcas.device("rxe0").unwrap();
        assert_eq!(hca.vendor, Some(Vendor::Software));
        assert_eq!(hca.transport.as_deref(), Some("InfiniBand"));
        assert_eq!(hca.board_id, None);
        let port = hca.port(1).unwrap();
        assert_eq!(port.state, Some(PortState::Active));
        assert_eq!(port.rate_gbps(), Some(10.0));
        assert_eq!(
            (port.max_mtu_bytes, port.active_mtu_bytes),
            (Some(4096), Some(1024))
        );
        let gids = port.gids.as_ref().unwrap();
        assert_eq!(gids[1].kind, Some(GidKind::RoceV2));
        assert_eq!(gids[1].ipv4(), Some([10, 77, 0, 1].into()));
    }

    #[test]
    fn a_damaged_heading_never_gives_a_port_to_another_device() {
        let second = VERBOSE.replace("hca_id:\trxe0", "ca_id:\tmlx5_1");
        let hcas = parse(&format!("{VERBOSE}{second}")).unwrap();
        assert_eq!(hcas.devices.len(), 2);
        assert_eq!(hcas.device("mlx5_1").unwrap().ports.len(), 1);

        let headless = VERBOSE.replace("hca_id:\trxe0\n", "");
        let hcas = parse(&format!("{VERBOSE}{headless}")).unwrap();
        assert_eq!(hcas.devices.len(), 1);
        assert_eq!(hcas.devices[0].ports.len(), 1);
        assert!(hcas.unread_lines > 0);
    }

    #[test]
    fn listings_and_absence() {
        let listed = parse("2 HCAs found:\n\tmlx5_0\n\trocep1s0f0\n\n").unwrap();
        assert_eq!(
            listed
                .devices
                .iter()
                .map(|h| h.name.as_str())
                .collect::<Vec<_>>(),
            ["mlx5_0", "rocep1s0f0"]
        );
        for (text, absence, unopened) in [
            ("No IB devices found\n", Some(Absence::NoDevice), 0),
            (
                "Failed to get IB devices list: Function not implemented\n",
                Some(Absence::NoSubsystem),
                0,
            ),
            ("Failed to open device\nFailed to open device\n", None, 2),
        ] {
            let hcas = parse(text).unwrap();
            assert_eq!((hcas.absence, hcas.unopened), (absence, unopened));
        }
        let warning = "libibverbs: Warning: couldn't open config directory '/etc/libibverbs.d'.\n\
                       libibverbs: Warning: no userspace device-specific driver found for \
                       /sys/class/infiniband_verbs/uverbs0\n";
        let hcas = parse(&format!("{warning}No IB devices found\n")).unwrap();
        assert_eq!(hcas.absence, None);
        assert_eq!(
            hcas.without_driver.into_iter().collect::<Vec<_>>(),
            ["uverbs0"]
        );
        assert!(parse("state: PORT_ACTIVE (4)\n").is_err());
    }

    #[test]
    fn two_places_in_one_text_are_refused() {
        let plain: String = VERBOSE
            .lines()
            .take_while(|line| !line.contains("max_msg_sz"))
            .map(|line| format!("{line}\n"))
            .collect();
        for (other, is_one) in [
            (VERBOSE.to_owned(), true),
            (plain, true),
            (VERBOSE.replace("rxe0", "rxe1"), true),
            (VERBOSE.replace("PORT_ACTIVE (4)", "PORT_DOWN (1)"), false),
            (VERBOSE.replace("5450:ccff", "5450:ccfe"), false),
            ("No IB devices found\n".to_owned(), false),
        ] {
            match parse(&format!("{VERBOSE}{other}")) {
                Ok(_) => assert!(is_one, "{other}"),
                Err(error) => {
                    let said = error.to_string();
                    assert!(!is_one && said.contains("two places"), "{said}");
                }
            }
        }
    }

    #[test]
    fn a_cut_output_is_not_read_as_the_whole() {
        let cut = VERBOSE.split("\t\tport:").next().unwrap();
        assert!(parse(cut).is_err());
        let two = format!("{VERBOSE}{}", cut.replace("rxe0", "rxe1"));
        assert!(parse(&two).is_err());
        let before = VERBOSE.split("\tphys_port_cnt").next().unwrap();
        let three = format!("{VERBOSE}{}", before.replace("rxe0", "rxe1"));
        assert!(parse(&three).is_err());
        let within = VERBOSE.split("\t\t\tlink_layer").next().unwrap();
        let three = format!("{VERBOSE}{}", within.replace("rxe0", "rxe1"));
        assert!(parse(&three).is_err());
    }
}
