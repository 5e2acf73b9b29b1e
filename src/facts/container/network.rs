//! Network interfaces and the addresses of this network namespace.

use super::answers::{Seen, first, list, observed, pairs, whole};
use crate::ask;
use crate::facts::transcript::{self, excerpt, small};
use crate::observed::{Observed, Skip};
use crate::report::SkipReason;
use crate::snapshot::Snapshot;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Interfaces and addresses.
#[derive(Debug, Clone)]
pub struct Network {
    /// Interfaces by name.
    pub interfaces: Observed<Seen<BTreeMap<String, Interface>>>,
    /// Addresses of this namespace.
    pub addresses: Observed<Seen<Addresses>>,
    /// Interfaces that carry a route.
    pub routed: Observed<Seen<BTreeSet<String>>>,
}

/// One interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interface {
    /// `up`, `down`, `unknown` as the kernel says.
    pub operstate: Option<String>,
    /// Largest packet, in bytes.
    pub mtu_bytes: Option<u32>,
    /// How often the carrier went since the interface exists, be it that somebody took it down (from kernel 4.16 on;
    /// Documentation/ABI/testing/sysfs-class-net).
    pub carrier_down_count: Option<u32>,
    /// It is a bond of these.
    pub slaves: BTreeSet<String>,
}

impl Interface {
    /// Loopback and tunnels say `unknown` and work.
    pub fn is_up(&self) -> Option<bool> {
        self.operstate
            .as_deref()
            .map(|state| matches!(state, "up" | "unknown"))
    }
}

/// Local addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Addresses {
    /// All addresses.
    pub all: BTreeSet<IpAddr>,
    /// Addresses by interface, where the source says which.
    pub by_interface: BTreeMap<String, BTreeSet<IpAddr>>,
    /// Bits of an address that name its subnet, where the source says so.
    pub prefixes: BTreeMap<IpAddr, u8>,
    /// The IPv6 addresses are among them.
    pub has_v6: bool,
    /// The source names the interface of every address.
    pub names_interfaces: bool,
}

impl Network {
    pub(super) fn read(snapshot: &Snapshot) -> Self {
        Self {
            interfaces: list(snapshot, &ask::NET_DEVICES, interfaces),
            addresses: first(vec![by_ip(snapshot), by_proc(snapshot)]),
            routed: list(snapshot, &ask::ROUTES, |text| {
                let rows = text.lines().skip(1);
                rows.filter_map(|line| line.split_whitespace().next())
                    .map(excerpt)
                    .collect()
            }),
        }
    }

    /// Interfaces that are up and have an address, besides loopback.
    pub fn usable(&self) -> Result<BTreeSet<String>, Skip> {
        let interfaces = self.interfaces.get()?;
        let addresses = self.addresses.get()?;
        let routed = self.routed.known();
        let has_address = |name: &str| {
            let own = addresses.by_interface.get(name);
            own.is_some_and(|own| own.iter().any(|a| !is_link_local(a)))
                // Without `ip` an IPv4 address shows by its route.
                || !addresses.names_interfaces && routed.is_some_and(|r| r.contains(name))
        };
        let usable = interfaces
            .iter()
            .filter(|(name, interface)| {
                *name != "lo" && interface.is_up() != Some(false) && has_address(name)
            })
            .map(|(name, _)| name.clone());
        Ok(usable.collect())
    }
}

/// The subnet of an address: `10.0.0.0/24`. None where the number of bits makes no sense.
pub fn subnet(address: IpAddr, bits: u8) -> Option<String> {
    let network = match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32u32.checked_sub(bits.into())?);
            IpAddr::V4(Ipv4Addr::from(u32::from(v4) & mask.unwrap_or(0)))
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128u32.checked_sub(bits.into())?);
            IpAddr::V6(Ipv6Addr::from(u128::from(v6) & mask.unwrap_or(0)))
        }
    };
    Some(format!("{network}/{bits}"))
}

/// An address that reaches only its own link.
pub fn is_link_local(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn interfaces(text: &str) -> BTreeMap<String, Interface> {
    let mut interfaces: BTreeMap<String, Interface> = BTreeMap::new();
    for (path, value) in pairs(text) {
        let Some((name, file)) = path
            .strip_prefix("/sys/class/net/")
            .and_then(|rest| rest.split_once('/'))
        else {
            continue;
        };
        let interface = interfaces.entry(excerpt(name)).or_default();
        match file {
            "operstate" => interface.operstate = Some(excerpt(value)),
            "mtu" => interface.mtu_bytes = small(value),
            "carrier_down_count" => interface.carrier_down_count = small(value),
            "bonding/slaves" => {
                interface.slaves = value.split_whitespace().map(excerpt).collect();
            }
            _ => {}
        }
    }
    interfaces
}

/// `ip -o addr show`, and `ip addr` as people paste it.
fn by_ip(snapshot: &Snapshot) -> Observed<Seen<Addresses>> {
    let read = || {
        let text = whole(snapshot, &ask::IP_ADDR)?;
        let addresses = ip_addr(text);
        if addresses.by_interface.is_empty() {
            let detail = "ip addr show: no interface in its output";
            return Err(Skip::new(SkipReason::Unparsable, detail));
        }
        Ok(Seen::new(&ask::IP_ADDR, addresses))
    };
    observed(read())
}

fn ip_addr(text: &str) -> Addresses {
    let mut addresses = Addresses {
        has_v6: true,
        names_interfaces: true,
        ..Addresses::default()
    };
    let mut interface = String::new();
    for line in transcript::lines(text) {
        let mut words = line.split_whitespace().peekable();
        if let Some(index) = words.peek().and_then(|w| w.strip_suffix(':'))
            && index.bytes().all(|b| b.is_ascii_digit())
        {
            words.next();
            let name = words.next().unwrap_or_default().trim_end_matches(':');
            // A pair of virtual interfaces shows as `eth0@if5`.
            interface = excerpt(name.split('@').next().unwrap_or_default());
            addresses.by_interface.entry(interface.clone()).or_default();
        }
        while let Some(word) = words.next() {
            if word != "inet" && word != "inet6" {
                continue;
            }
            let (address, bits) = match words.next().map(|a| a.split_once('/').unwrap_or((a, ""))) {
                Some((address, bits)) => (address.parse::<IpAddr>().ok(), small(bits)),
                None => (None, None),
            };
            if let Some(address) = address {
                let bits = bits.and_then(|bits| u8::try_from(bits).ok());
                addresses.prefixes.extend(bits.map(|bits| (address, bits)));
                addresses.all.insert(address);
                let own = addresses.by_interface.entry(interface.clone());
                own.or_default().insert(address);
            }
        }
    }
    addresses
}

/// fib_trie and if_inet6, where there is no `ip`.
fn by_proc(snapshot: &Snapshot) -> Observed<Seen<Addresses>> {
    let read = || {
        let mut addresses = Addresses::default();
        for line in whole(snapshot, &ask::FIB_LOCAL)?.lines() {
            let address = line
                .trim()
                .strip_prefix("|-- ")
                .and_then(|a| a.trim().parse::<Ipv4Addr>().ok());
            addresses.all.extend(address.map(IpAddr::V4));
        }
        match whole(snapshot, &ask::IF_INET6) {
            Ok(text) => {
                addresses.has_v6 = true;
                for line in text.lines() {
                    let words: Vec<&str> = line.split_whitespace().collect();
                    let ([address, .., name], true) = (&words[..], words.len() >= 6) else {
                        continue;
                    };
                    let Ok(bits) = u128::from_str_radix(address, 16) else {
                        continue;
                    };
                    let address = IpAddr::V6(Ipv6Addr::from(bits));
                    addresses.all.insert(address);
                    let own = addresses.by_interface.entry(excerpt(name));
                    own.or_default().insert(address);
                }
            }
            // A kernel without IPv6 has no such file, and no such address.
            Err(skip) => addresses.has_v6 = skip.reason == SkipReason::NotFound,
        }
        Ok(Seen::new(&ask::FIB_LOCAL, addresses))
    };
    observed(read())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::testing::container;

    #[test]
    fn addresses_come_from_ip_or_from_proc() {
        let ip = "1: lo    inet 127.0.0.1/8 scope host lo\\       valid_lft forever\n\
                  3: eth0@if5    inet 10.77.0.1/24 scope global eth0\\  valid_lft forever\n\
                  3: eth0    inet6 fe80::5450:ccff:fe8e:4652/64 scope link \\ valid_lft forever";
        let network = Network::read(&container("decode", &[(&ask::IP_ADDR, ip)]));
        let seen = network.addresses.get().unwrap();
        assert!(seen.all.contains(&"10.77.0.1".parse().unwrap()));
        assert_eq!(seen.by_interface["eth0"].len(), 2);
        let own = "10.77.0.1".parse().unwrap();
        assert_eq!(
            subnet(own, seen.prefixes[&own]).as_deref(),
            Some("10.77.0.0/24")
        );
        assert_eq!(subnet(own, 0).as_deref(), Some("0.0.0.0/0"));
        assert_eq!(subnet(own, 33), None);

        let fib = "           |-- 10.77.0.1\n              /32 host LOCAL\n--\n           |-- 127.0.0.1\n              /32 host LOCAL\n";
        let inet6 = "fe800000000000005450ccfffe8e4652 03 40 20 80     eth0\n";
        let answers = [
            (&ask::FIB_LOCAL, fib),
            (&ask::IF_INET6, inet6),
            (&ask::NET_DEVICES, "/sys/class/net/eth0/operstate: up"),
            (
                &ask::ROUTES,
                "Iface\tDestination\tGateway\neth0\t00004D0A\t00000000",
            ),
        ];
        let network = Network::read(&container("decode", &answers));
        let seen = network.addresses.get().unwrap();
        assert!(seen.all.contains(&"10.77.0.1".parse().unwrap()));
        assert!(
            seen.all
                .contains(&"fe80::5450:ccff:fe8e:4652".parse().unwrap())
        );
        assert_eq!(network.usable().unwrap(), ["eth0".to_owned()].into());
    }
}
