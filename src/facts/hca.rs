//! RDMA devices and their ports, in the words that all tools share.
//!
//! The kernel, `ibstat`, `ibstatus`, `ibv_devinfo` and `rdma link` spell the same state in five ways. Each reader fills
//! what its tool says and leaves the rest `None`.

use super::transcript;
use super::vendor::Vendor;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The devices that one output lists.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Hcas {
    /// In the order of the output.
    pub devices: Vec<Hca>,
    /// What the tool said instead of listing devices.
    pub absence: Option<Absence>,
    /// Devices that the tool found and could not open. Counted, because libibverbs does not say which.
    pub unopened: u32,
    /// Device nodes for which the verbs library of this image has no driver: `uverbs0`.
    pub without_driver: BTreeSet<String>,
    /// Errors that the tool printed beside good entries, sanitised. The good entries stay valid.
    pub complaints: Vec<String>,
    /// Lines that were not understood.
    pub unread_lines: u32,
}

/// How a tool says that there is no device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absence {
    /// The RDMA subsystem is there and this process can use none of its devices: none exists, or the device nodes are
    /// not in this container.
    NoDevice,
    /// The kernel has no RDMA subsystem loaded (`ENOSYS` from libibverbs).
    NoSubsystem,
}

impl Hcas {
    /// The device of that name.
    pub fn device(&self, name: &str) -> Option<&Hca> {
        self.devices.iter().find(|hca| hca.name == name)
    }

    /// A device, or a port, that is there twice and not the same, as a text: the output is of two places or moments. What only
    /// one of them shows (`ibv_devinfo` and `ibv_devinfo -v`) is no difference.
    pub(super) fn differing(&self) -> Option<String> {
        let mut devices: BTreeMap<&str, u64> = BTreeMap::new();
        let mut ports: BTreeMap<(&str, u32), &Port> = BTreeMap::new();
        for hca in &self.devices {
            let name = hca.name.as_str();
            if let Some(guid) = hca.node_guid
                && *devices.entry(name).or_insert(guid) != guid
            {
                return Some(format!("{name} with two node GUIDs"));
            }
            for port in &hca.ports {
                if ports
                    .entry((name, port.number))
                    .or_insert(port)
                    .differs(port)
                {
                    return Some(format!("{name}:{} twice, and not the same", port.number));
                }
            }
        }
        None
    }

    /// True when the text said nothing of the tool at all.
    pub(super) fn is_blank(&self) -> bool {
        self.devices.is_empty()
            && self.absence.is_none()
            && self.unopened == 0
            && self.without_driver.is_empty()
            && self.complaints.is_empty()
    }
}

/// One RDMA device. The word is the field's; it also covers RNICs and EFA.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Hca {
    /// Kernel name: `mlx5_0`, `ibp12s0`, `rdmap79s0`. It says nothing about the vendor.
    pub name: String,
    /// Model as the device reports it: `MT4129`.
    pub model: Option<String>,
    /// Firmware version.
    pub fw_version: Option<String>,
    /// Board id: `MT_0000000838`.
    pub board_id: Option<String>,
    /// Node GUID.
    pub node_guid: Option<u64>,
    /// Maker of the device.
    pub vendor: Option<Vendor>,
    /// PCI device id, as the maker numbers its parts.
    pub part_id: Option<u32>,
    /// Transport in the words of `ibv_devinfo`: `InfiniBand`, `iWARP`.
    pub transport: Option<String>,
    /// How many ports the device says it has; the list may be shorter in a cut copy.
    pub port_count: Option<u32>,
    /// The ports that the output shows.
    pub ports: Vec<Port>,
}

impl Hca {
    /// A device of which only the name is known yet.
    pub fn named(name: &str) -> Self {
        Self {
            name: transcript::excerpt(name),
            ..Self::default()
        }
    }

    /// The port of that number.
    pub fn port(&self, number: u32) -> Option<&Port> {
        self.ports.iter().find(|port| port.number == number)
    }
}

/// One port of a device.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Port {
    /// Counted from 1.
    pub number: u32,
    /// Logical state. Only [`PortState::Active`] carries data.
    pub state: Option<PortState>,
    /// Physical state.
    pub phys_state: Option<PhysState>,
    /// Rate now.
    pub rate: Option<Rate>,
    /// InfiniBand or Ethernet (RoCE).
    pub link_layer: Option<LinkLayer>,
    /// Local id; 0 is normal on Ethernet, 65535 means none was given.
    pub lid: Option<u32>,
    /// Local id of the subnet manager; 0 on InfiniBand means there is none.
    pub sm_lid: Option<u32>,
    /// Largest MTU of the port, in bytes.
    pub max_mtu_bytes: Option<u32>,
    /// MTU in use, in bytes.
    pub active_mtu_bytes: Option<u32>,
    /// Filled entries of the GID table; `None` when the output does not show the table.
    pub gids: Option<Vec<Gid>>,
    /// Network interface of the port.
    pub netdev: Option<String>,
}

impl Port {
    /// A port of which only the number is known yet.
    pub fn numbered(number: u32) -> Self {
        Self {
            number,
            ..Self::default()
        }
    }

    /// Something that both show is not the same.
    fn differs(&self, other: &Self) -> bool {
        fn differ<T: PartialEq>(one: Option<&T>, other: Option<&T>) -> bool {
            one.zip(other).is_some_and(|(one, other)| one != other)
        }
        differ(self.state.as_ref(), other.state.as_ref())
            || differ(self.phys_state.as_ref(), other.phys_state.as_ref())
            || differ(self.rate.as_ref(), other.rate.as_ref())
            || differ(self.link_layer.as_ref(), other.link_layer.as_ref())
            || differ(self.lid.as_ref(), other.lid.as_ref())
            || differ(self.sm_lid.as_ref(), other.sm_lid.as_ref())
            || differ(self.max_mtu_bytes.as_ref(), other.max_mtu_bytes.as_ref())
            || differ(
                self.active_mtu_bytes.as_ref(),
                other.active_mtu_bytes.as_ref(),
            )
            || differ(self.gids.as_ref(), other.gids.as_ref())
            || differ(self.netdev.as_ref(), other.netdev.as_ref())
    }

    /// Rate in Gb/s, where it is known.
    pub fn rate_gbps(&self) -> Option<f64> {
        self.rate.as_ref().map(|rate| rate.rate_gbps)
    }
}

/// Logical state of a port, `enum ib_port_state` of the kernel.
/// <https://github.com/torvalds/linux/blob/v6.12/include/rdma/ib_verbs.h>
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortState {
    /// No state change; never shown by a working port.
    Nop,
    /// Down.
    Down,
    /// The link is up and no subnet manager has configured the port. `ibstat` says `Initializing`.
    Init,
    /// The subnet manager has not finished.
    Armed,
    /// The only state that carries data.
    Active,
    /// The link went away a moment ago.
    ActiveDefer,
    /// A word that no known version prints, sanitised.
    Other(String),
}

impl PortState {
    /// From any tool's spelling: `4: ACTIVE`, `PORT_ACTIVE (4)`, `Active`, `ACTIVE`, `Initializing`.
    pub fn parse(text: &str) -> Self {
        let by_code = code(text).and_then(|code| {
            Some(match code {
                0 => Self::Nop,
                1 => Self::Down,
                2 => Self::Init,
                3 => Self::Armed,
                4 => Self::Active,
                5 => Self::ActiveDefer,
                _ => return None,
            })
        });
        by_code.unwrap_or_else(|| match letters(text).as_str() {
            "nop" | "portnop" | "nostatechange" => Self::Nop,
            "down" | "portdown" => Self::Down,
            "init" | "portinit" | "initializing" | "initialize" => Self::Init,
            "armed" | "portarmed" => Self::Armed,
            "active" | "portactive" => Self::Active,
            "activedefer" | "portactivedefer" => Self::ActiveDefer,
            _ => Self::Other(transcript::excerpt(text)),
        })
    }
}

/// Physical state of a port, `enum ib_port_phys_state` of the kernel.
/// <https://github.com/torvalds/linux/blob/v6.12/include/rdma/ib_verbs.h>
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PhysState {
    /// Asleep.
    Sleep,
    /// Looking for the other end: no cable, or a dead peer.
    Polling,
    /// Switched off by software or by hand.
    Disabled,
    /// Negotiating.
    Training,
    /// The link is up. Says nothing about the logical state.
    LinkUp,
    /// Recovering from errors.
    LinkErrorRecovery,
    /// Test mode.
    PhyTest,
    /// A word that no known version prints, sanitised.
    Other(String),
}

impl PhysState {
    /// From any tool's spelling: `5: LinkUp`, `LINK_UP (5)`, `LinkUp`.
    pub fn parse(text: &str) -> Self {
        let by_code = code(text).and_then(|code| {
            Some(match code {
                1 => Self::Sleep,
                2 => Self::Polling,
                3 => Self::Disabled,
                4 => Self::Training,
                5 => Self::LinkUp,
                6 => Self::LinkErrorRecovery,
                7 => Self::PhyTest,
                _ => return None,
            })
        });
        by_code.unwrap_or_else(|| match letters(text).as_str() {
            "sleep" => Self::Sleep,
            "polling" => Self::Polling,
            "disabled" => Self::Disabled,
            word if word.starts_with("portconfig") => Self::Training,
            "linkup" => Self::LinkUp,
            word if word.starts_with("linkerror") => Self::LinkErrorRecovery,
            "phytest" => Self::PhyTest,
            _ => Self::Other(transcript::excerpt(text)),
        })
    }
}

/// What the port speaks below RDMA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkLayer {
    /// InfiniBand.
    InfiniBand,
    /// Ethernet: RoCE or iWARP.
    Ethernet,
    /// The driver does not say; EFA. sysfs prints `Unknown`, `ibv_devinfo` prints `Unspecified`.
    Unspecified,
    /// A word of another system, sanitised.
    Other(String),
}

impl LinkLayer {
    /// The word of the tools.
    pub fn word(&self) -> &str {
        match self {
            Self::InfiniBand => "InfiniBand",
            Self::Ethernet => "Ethernet",
            Self::Unspecified => "Unspecified",
            Self::Other(word) => word,
        }
    }

    /// From any tool's spelling.
    pub fn parse(text: &str) -> Self {
        match text.trim() {
            "InfiniBand" | "IB" => Self::InfiniBand,
            "Ethernet" | "RoCE" => Self::Ethernet,
            "Unknown" | "Unspecified" => Self::Unspecified,
            other => Self::Other(transcript::excerpt(other)),
        }
    }
}

/// Rate of a port.
#[derive(Debug, Clone, PartialEq)]
pub struct Rate {
    /// Gb/s over all lanes, 10^9 bits.
    pub rate_gbps: f64,
    /// Lanes, where the text says how many.
    pub lanes: Option<u32>,
    /// Name of the lane speed: `NDR`. A kernel that does not know a newer speed prints `SDR`, so the name alone proves
    /// no fault.
    pub speed: Option<String>,
}

impl Rate {
    /// From sysfs and `ibstatus` (`400 Gb/sec (4X NDR)`, `2.5 Gb/sec (1X SDR)`, old kernels `10 Gb/sec (4X)`) and from
    /// `ibstat` (`400`, `10 (FDR10)`). Format of the kernel:
    /// <https://github.com/torvalds/linux/blob/v6.12/drivers/infiniband/core/sysfs.c>
    pub fn parse(text: &str) -> Option<Self> {
        let rate_gbps = transcript::number(text)?;
        let inside = text
            .split_once('(')
            .map_or("", |(_, tail)| tail.trim_end().trim_end_matches(')'));
        let (mut lanes, mut speed) = (None, None);
        for word in inside.split_whitespace() {
            match word.strip_suffix('X').and_then(transcript::small) {
                Some(count) => lanes = Some(count),
                None => speed = Some(transcript::excerpt(word)),
            }
        }
        Some(Self {
            rate_gbps,
            lanes,
            speed,
        })
    }
}

/// One filled entry of a GID table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gid {
    /// Place in the table.
    pub index: u32,
    /// The address; `None` when the text is masked.
    pub address: Option<Ipv6Addr>,
    /// The address as the tool printed it, sanitised.
    pub text: String,
    /// Kind of the entry.
    pub kind: Option<GidKind>,
    /// Network interface that the entry belongs to.
    pub netdev: Option<String>,
}

impl Gid {
    /// An entry from its index and the text of the address.
    pub fn new(index: u32, text: &str) -> Self {
        Self {
            index,
            address: text.trim().parse().ok(),
            text: transcript::excerpt(text),
            kind: None,
            netdev: None,
        }
    }

    /// All zero: the slot is empty. The kernel also prints zeros when it cannot read the slot.
    pub fn is_empty(&self) -> bool {
        self.address == Some(Ipv6Addr::UNSPECIFIED)
    }

    /// `fe80::/10`: reaches only the same link. Also known when only the tail of the address is masked.
    pub fn is_link_local(&self) -> bool {
        match self.address {
            Some(address) => address.segments()[0] & 0xffc0 == 0xfe80,
            None => self.text.starts_with("fe80:"),
        }
    }

    /// The IPv4 address of a RoCE entry made from one (`::ffff:a.b.c.d`).
    pub fn ipv4(&self) -> Option<Ipv4Addr> {
        self.address.and_then(|address| address.to_ipv4_mapped())
    }
}

/// Kind of a GID, in the two words of the kernel.
/// <https://github.com/torvalds/linux/blob/v6.12/drivers/infiniband/core/cache.c>
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GidKind {
    /// `IB/RoCE v1`. On an InfiniBand port this is a plain InfiniBand GID, on Ethernet it is RoCE v1.
    IbOrRoceV1,
    /// `RoCE v2`, the only kind that is routed.
    RoceV2,
}

impl GidKind {
    /// From sysfs (`RoCE v2`), `ibv_devinfo` (`RoCE v1`) and `show_gids` (`v1`).
    pub fn parse(text: &str) -> Option<Self> {
        match text.trim() {
            "IB/RoCE v1" | "RoCE v1" | "IB" | "v1" => Some(Self::IbOrRoceV1),
            "RoCE v2" | "v2" => Some(Self::RoceV2),
            _ => None,
        }
    }
}

/// A GUID in one of two spellings: `0x506b4b0300cc1122`, `506b:4b03:00cc:1122`.
pub(super) fn guid(text: &str) -> Option<u64> {
    let digits: String = text.trim().chars().filter(|&c| c != ':').collect();
    let digits = digits.strip_prefix("0x").unwrap_or(&digits);
    if digits.len() > 16 {
        return None;
    }
    u64::from_str_radix(digits, 16).ok()
}

/// `4` of `4: ACTIVE` and of `PORT_ACTIVE (4)`.
fn code(text: &str) -> Option<u32> {
    let text = text.trim();
    if let Some((head, _)) = text.split_once(':') {
        return head.trim().parse().ok();
    }
    let (_, tail) = text.rsplit_once('(')?;
    tail.strip_suffix(')')?.trim().parse().ok()
}

/// Letters only, in lower case, without what stands in parentheses.
fn letters(text: &str) -> String {
    let head = text.split('(').next().unwrap_or_default();
    head.chars()
        .filter(char::is_ascii_alphabetic)
        .take(40)
        .map(|c| c.to_ascii_lowercase())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_state_is_one_state() {
        for (text, state) in [
            ("4: ACTIVE", PortState::Active),
            ("PORT_ACTIVE (4)", PortState::Active),
            ("Active", PortState::Active),
            ("2: INIT", PortState::Init),
            ("PORT_INIT (2)", PortState::Init),
            ("Initializing", PortState::Init),
            ("3: ARMED", PortState::Armed),
            ("Down", PortState::Down),
            ("5: ACTIVE_DEFER", PortState::ActiveDefer),
            ("0: NOP", PortState::Nop),
            ("dancing", PortState::Other("dancing".into())),
        ] {
            assert_eq!(PortState::parse(text), state, "{text}");
        }
        for (text, state) in [
            ("5: LinkUp", PhysState::LinkUp),
            ("LINK_UP (5)", PhysState::LinkUp),
            ("LinkUp", PhysState::LinkUp),
            ("2: Polling", PhysState::Polling),
            ("POLLING", PhysState::Polling),
            ("3: Disabled", PhysState::Disabled),
            ("4: PortConfigurationTraining", PhysState::Training),
            ("6: LinkErrorRecovery", PhysState::LinkErrorRecovery),
            ("7: Phy Test", PhysState::PhyTest),
            ("8: <unknown>", PhysState::Other("8: <unknown>".into())),
        ] {
            assert_eq!(PhysState::parse(text), state, "{text}");
        }
    }

    #[test]
    fn rates_carry_lanes_and_the_name_of_the_speed() {
        for (text, gbps, lanes, speed) in [
            ("400 Gb/sec (4X NDR)", 400.0, Some(4), Some("NDR")),
            ("2.5 Gb/sec (1X SDR)", 2.5, Some(1), Some("SDR")),
            ("10 Gb/sec (4X)", 10.0, Some(4), None),
            ("100 Gb/sec (2X HDR)", 100.0, Some(2), Some("HDR")),
            ("10 (FDR10)", 10.0, None, Some("FDR10")),
            ("400", 400.0, None, None),
        ] {
            let rate = Rate::parse(text).unwrap();
            assert_eq!(
                (rate.rate_gbps, rate.lanes, rate.speed.as_deref()),
                (gbps, lanes, speed),
                "{text}"
            );
        }
        assert_eq!(Rate::parse("N/A"), None);
    }

    #[test]
    fn gids_know_what_they_reach() {
        let v4 = Gid::new(3, "0000:0000:0000:0000:0000:ffff:c0a8:0101");
        assert_eq!(v4.ipv4(), Some(Ipv4Addr::new(192, 168, 1, 1)));
        assert!(!v4.is_link_local());
        assert_eq!(
            Gid::new(3, "::ffff:192.168.1.1").ipv4(),
            Some(Ipv4Addr::new(192, 168, 1, 1))
        );
        assert!(Gid::new(0, "fe80:0000:0000:0000:5450:ccff:fe8e:4652").is_link_local());
        let masked = Gid::new(0, "fe80:0000:0000:0000:xxxx:xxxx:xxxx:xxxx");
        assert_eq!(masked.address, None);
        assert!(masked.is_link_local());
        assert!(Gid::new(2, "0000:0000:0000:0000:0000:0000:0000:0000").is_empty());
    }

    #[test]
    fn guids_of_both_spellings_are_equal() {
        assert_eq!(guid("0x5450ccfffe8e4652"), Some(0x5450_ccff_fe8e_4652));
        assert_eq!(guid("5450:ccff:fe8e:4652"), guid("0x5450ccfffe8e4652"));
        assert_eq!(guid("rather long and no guid at all"), None);
    }
}
