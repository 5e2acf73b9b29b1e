//! NCCL_IB_HCA and NCCL_SOCKET_IFNAME: lists of prefixes (rules N1 to N3).

use super::context::{Context, Link, Nic, Tri, Version};
use super::nccl::{between_nodes, soften};
use super::setting::{Setting, Verdict};
use crate::report::Status;

/// A list as `parseStringList` of NCCL reads it (nccl v2.28.9-1, `src/misc/utils.cc`).
pub(super) struct List<'a> {
    pub(super) exclude: bool,
    exact: bool,
    pub(super) items: Vec<Item<'a>>,
}

pub(super) struct Item<'a> {
    pub(super) text: &'a str,
    name: &'a str,
    /// None for any port.
    port: Option<i64>,
}

/// From here on a name with a colon and nothing behind it means any port; before, it means port 0.
const EMPTY_PORT_IS_ANY: Version = Version::new(2, 30);

impl<'a> List<'a> {
    /// Reads a value as this version of NCCL does; an unknown version as an old one.
    pub(super) fn parse(value: &'a str, nccl: Option<Version>) -> Self {
        let empty_is_any = nccl.is_some_and(|v| v >= EMPTY_PORT_IS_ANY);
        let (exclude, rest) = strip(value, '^');
        let (exact, rest) = strip(rest, '=');
        let items = rest
            .split(',')
            .filter(|t| !t.is_empty())
            .map(|text| Item::parse(text, empty_is_any))
            .collect();
        Self {
            exclude,
            exact,
            items,
        }
    }

    pub(super) fn matches(&self, item: &Item<'_>, name: &str, port: Option<u32>) -> bool {
        let by_name = if self.exact {
            name == item.name
        } else {
            name.starts_with(item.name)
        };
        let by_port = match (item.port, port) {
            (Some(listed), Some(port)) => i64::from(port) == listed,
            _ => true,
        };
        by_name && by_port
    }

    /// An empty list matches everything, so that a lone `^` excludes everything.
    pub(super) fn selects(&self, name: &str, port: Option<u32>) -> bool {
        let listed =
            self.items.is_empty() || self.items.iter().any(|i| self.matches(i, name, port));
        listed != self.exclude
    }

    /// An item that no device can have as its name, and why.
    fn impossible(&self) -> Option<(&'a str, &'static str)> {
        self.items.iter().find_map(|i| {
            let why = if i.name.starts_with(['^', '=']) {
                "only one ^ and then one = are signs; more belong to the name"
            } else if i.name.contains([' ', '\t', ';', '"', '\'']) {
                "blanks, semicolons and quotes belong to the name"
            } else if i.name.contains(['*', '?', '[']) {
                "NCCL knows no globs or ranges; names are prefixes anyway"
            } else {
                return None;
            };
            Some((i.text, why))
        })
    }
}

/// What NCCL keeps for a name without a colon, and so also takes from `mlx5_0:-1`.
const ANY_PORT: i64 = -1;

impl<'a> Item<'a> {
    /// `name[:port]`, from 2.30 on `name[:port[:rail[:plane]]]`; the port ends where its digits end.
    fn parse(text: &'a str, empty_is_any: bool) -> Self {
        let (name, port) = match text.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (text, None),
        };
        let empty = |p: &str| p.is_empty() || p.starts_with(':');
        let port = port
            .filter(|p| !(empty_is_any && empty(p)))
            .map(|p| super::nccl_integers::strtoll(p, 10))
            .filter(|p| *p != ANY_PORT);
        Self { text, name, port }
    }
}

fn strip(value: &str, sign: char) -> (bool, &str) {
    match value.strip_prefix(sign) {
        Some(rest) => (true, rest),
        None => (false, value),
    }
}

/// Ports that NCCL takes into account; EFA shows no link layer and is never among them.
fn candidates(nics: &[Nic]) -> Vec<&Nic> {
    nics.iter()
        .filter(|n| n.active && n.link != Link::Unknown)
        .collect()
}

pub(super) fn ib_hca(s: &Setting<'_>) -> Verdict {
    let old = ib_hca_at(s, s.cx.nccl);
    if s.cx.nccl.is_some() {
        return old;
    }
    let new = ib_hca_at(s, Some(EMPTY_PORT_IS_ANY));
    match (old.status, new.status) {
        (Status::Fail, Status::Ok | Status::Warn) => Verdict::warn(
            old.rule,
            format!(
                "{} (NCCL up to 2.29; the version here is not known, and 2.30 takes any port)",
                old.reason
            ),
            old.fix.unwrap_or_default(),
        ),
        _ => old,
    }
}

fn ib_hca_at(s: &Setting<'_>, nccl: Option<Version>) -> Verdict {
    let value = s.value.unwrap_or_default();
    let list = List::parse(value, nccl);
    if !list.exclude && list.items.is_empty() {
        return every_port(s);
    }
    if let Some(harmless) = between_nodes(s) {
        return harmless;
    }
    if let Some(plugin) = s.cx.net_plugin() {
        return Verdict::ok(
            "5.3",
            format!("{value:?} is ignored: the plugin {plugin} carries the collectives"),
        );
    }
    if s.cx.efa == Tri::Yes {
        return Verdict::warn(
            "8",
            format!("{value:?} has no effect on EFA, which NCCL's own RDMA transport never uses"),
            "remove NCCL_IB_HCA",
        );
    }
    match &s.cx.nics {
        None => as_written(value, &list, s.cx),
        Some(nics) => on_ports(value, &list, &candidates(nics), s.cx),
    }
}

/// N2.
fn every_port(s: &Setting<'_>) -> Verdict {
    let ports = s.cx.nics.as_deref().map(candidates).unwrap_or_default();
    if of_two_kinds(ports) && s.cx.ranks_internode != Tri::No {
        return Verdict::warn(
            "N2",
            "no list while InfiniBand and RoCE ports are both ACTIVE: NCCL may connect ports of different kinds",
            "name the ports of one kind in NCCL_IB_HCA",
        );
    }
    Verdict::ok("5.3", "no list: every ACTIVE port is used, which is fine")
}

/// InfiniBand and RoCE together.
fn of_two_kinds<'a>(ports: impl IntoIterator<Item = &'a Nic>) -> bool {
    let mut seen = (false, false);
    for port in ports {
        seen.0 |= port.link == Link::InfiniBand;
        seen.1 |= port.link == Link::Ethernet;
    }
    seen == (true, true)
}

const HCA_FIX: &str = "remove NCCL_IB_HCA, or name ports exactly: NCCL_IB_HCA==mlx5_0:1 in a shell, value \"=mlx5_0:1\" in YAML";

/// N1.
fn no_port(value: &str, why: &str, cx: &Context) -> Verdict {
    Verdict::bad(
        soften(Status::Fail, cx),
        "N1",
        format!("{value:?} leaves no ACTIVE port ({why}): NCCL falls silently back to sockets"),
        HCA_FIX,
    )
}

fn as_written(value: &str, list: &List<'_>, cx: &Context) -> Verdict {
    if list.exclude && list.items.is_empty() {
        return no_port(value, "a lone ^ excludes everything", cx);
    }
    let possible = |i: &Item<'_>| {
        i.port != Some(0)
            && !i.name.starts_with(['^', '='])
            && !i.name.contains([' ', '\t', ';', '"', '\'', '*', '?', '['])
    };
    match list.impossible() {
        Some((_, why)) if !list.exclude && !list.items.iter().any(possible) => {
            no_port(value, why, cx)
        }
        Some((item, why)) => Verdict::warn(
            "5.2",
            format!("{value:?}: {item:?} matches nothing ({why})"),
            HCA_FIX,
        ),
        None if !list.exclude && !list.items.iter().any(possible) => {
            no_port(value, "port 0 exists nowhere", cx)
        }
        None if !list.items.iter().all(possible) => Verdict::warn(
            "5.2",
            format!("{value:?} names port 0, which exists nowhere"),
            HCA_FIX,
        ),
        None if list.exact => Verdict::ok(
            "5.2",
            format!(
                "{value:?} is right as written; whether these ports are ACTIVE is for the node to say"
            ),
        ),
        None => Verdict::ok(
            "5.2",
            format!(
                "{value:?} is right as written; names are prefixes, so mlx5_1 also stands for mlx5_10 where there is one"
            ),
        ),
    }
}

fn on_ports(value: &str, list: &List<'_>, ports: &[&Nic], cx: &Context) -> Verdict {
    if ports.is_empty() {
        return Verdict::ok(
            "5.3",
            format!(
                "{value:?} has nothing to choose from: the pod has no ACTIVE InfiniBand or RoCE port"
            ),
        );
    }
    let selected: Vec<&Nic> = ports
        .iter()
        .copied()
        .filter(|n| list.selects(&n.device, Some(n.port)))
        .collect();
    if selected.is_empty() {
        let why = list.impossible().map_or("no such port", |(_, why)| why);
        return no_port(value, why, cx);
    }
    if of_two_kinds(selected) {
        return Verdict::warn(
            "N2",
            format!(
                "{value:?} selects InfiniBand and RoCE ports together: NCCL may connect ports of different kinds"
            ),
            "name the ports of one kind in NCCL_IB_HCA",
        );
    }
    let unmatched = list.items.iter().find(|i| {
        !ports
            .iter()
            .any(|n| list.matches(i, &n.device, Some(n.port)))
    });
    if let Some(item) = unmatched {
        let why = list
            .impossible()
            .map_or("no such ACTIVE port", |(_, why)| why);
        return Verdict::warn(
            "5.2",
            format!(
                "{value:?}: {:?} matches nothing ({why}); the others are used",
                item.text
            ),
            HCA_FIX,
        );
    }
    if let Some((item, device)) = by_accident(list, ports) {
        return Verdict::warn(
            "5.2",
            format!("{value:?}: {item} is a prefix and also stands for {device}"),
            format!(
                "write an exact name: NCCL_IB_HCA={}={item}",
                if list.exclude { "^" } else { "" }
            ),
        );
    }
    Verdict::ok("5.2", format!("{value:?} selects ACTIVE ports of the pod"))
}

/// A device that a prefix takes along: the name is there itself, and another continues it with a digit.
fn by_accident<'a>(list: &List<'a>, ports: &[&'a Nic]) -> Option<(&'a str, &'a str)> {
    if list.exact {
        return None;
    }
    list.items.iter().find_map(|i| {
        let itself = ports.iter().any(|n| n.device == i.name);
        let longer = ports.iter().find(|n| {
            n.device
                .strip_prefix(i.name)
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        })?;
        itself.then_some((i.name, longer.device.as_str()))
    })
}

/// A value of at most one character counts as unset.
const SHORTEST_IFNAME: usize = 2;

const IFNAME_FIX: &str = "remove NCCL_SOCKET_IFNAME, or name the pod's own interface, usually eth0";

pub(super) fn socket_ifname(s: &Setting<'_>) -> Verdict {
    let value = match s.value {
        Some(value) if value.len() >= SHORTEST_IFNAME => value,
        _ => {
            return Verdict::ok(
                "N3",
                "no list: NCCL tries ib*, then any interface but docker, lo and virbr, which is fine",
            );
        }
    };
    let list = List::parse(value, s.cx.nccl);
    if list.items.is_empty() {
        return Verdict::ok(
            "5.2",
            format!("{value:?} holds no name and restricts nothing"),
        );
    }
    if let Some(verdict) = unusable(value, &list, s.cx) {
        return verdict;
    }
    if s.cx.ranks_internode != Tri::No && leaves_loopback_only(&list, s.cx) {
        return Verdict::bad(
            soften(Status::Fail, s.cx),
            "5.2",
            format!(
                "{value:?} leaves loopback only, over which ranks on other nodes cannot be reached"
            ),
            IFNAME_FIX,
        );
    }
    if s.cx.ranks_internode != Tri::No
        && let Some(verdict) = unreachable_interface(value, &list)
    {
        return verdict;
    }
    if let Some((item, why)) = list.impossible() {
        return Verdict::warn(
            "5.2",
            format!("{value:?}: {item:?} matches nothing ({why})"),
            IFNAME_FIX,
        );
    }
    match &s.cx.net {
        Some(_) => Verdict::ok("5.2", format!("{value:?} leaves an interface of the pod")),
        None => Verdict::ok(
            "5.2",
            format!(
                "{value:?} is right as written; whether the pod has such an interface is for the node to say"
            ),
        ),
    }
}

/// Interfaces that every node has with the same addresses, so that ranks on other nodes cannot be reached over them. Unlike
/// the default, a list takes them where it does not leave them out, and `lo` comes first.
/// <https://github.com/horovod/horovod/pull/700>, <https://github.com/horovod/horovod/issues/310>
fn unreachable_interface(value: &str, list: &List<'_>) -> Option<Verdict> {
    if list.exclude {
        return list.selects("lo", None).then(|| {
            Verdict::warn(
                "5.2",
                format!(
                    "{value:?} lets loopback in, which NCCL finds first and over which ranks on other nodes cannot be reached"
                ),
                format!("write {value},lo, or remove NCCL_SOCKET_IFNAME: the default leaves lo and docker to the last"),
            )
        });
    }
    let bridge = |item: &Item<'_>| ["docker", "virbr"].iter().any(|b| item.name.starts_with(b));
    list.items.iter().all(bridge).then(|| {
        Verdict::warn(
            "5.2",
            format!(
                "{value:?} names a bridge inside the node, over which ranks on other nodes cannot be reached"
            ),
            IFNAME_FIX,
        )
    })
}

/// Of the interfaces of the pod where they are known, else by what is written. A pod that has nothing else is no matter
/// of the value.
fn leaves_loopback_only(list: &List<'_>, cx: &Context) -> bool {
    match &cx.net {
        Some(net) if !net.is_empty() => !net.iter().any(|n| list.selects(n, None)),
        _ => !list.exclude && list.items.iter().all(|i| i.name == "lo"),
    }
}

/// No interface is left, which is an error at start in every place.
fn unusable(value: &str, list: &List<'_>, cx: &Context) -> Option<Verdict> {
    let none = match &cx.net {
        Some(net) => !net
            .iter()
            .map(String::as_str)
            .chain(["lo"])
            .any(|n| list.selects(n, None)),
        None => {
            !list.exclude
                && list.items.iter().all(|i| {
                    i.name.starts_with(['^', '='])
                        || i.name.contains([' ', '\t', ';', '"', '\'', '*', '?', '['])
                })
        }
    };
    none.then(|| {
        let why = list.impossible().map_or(String::new(), |(_, why)| format!(" ({why})"));
        Verdict::fail(
            "5.2",
            format!("{value:?} matches no interface of the pod{why}: NCCL stops with \"Bootstrap : no socket interface found\""),
            IFNAME_FIX,
        )
    })
}

#[cfg(test)]
mod tests {
    use crate::judge::context::Context;
    use crate::judge::judge;
    use crate::report::Status::{self, Fail, Ok, Warn};

    fn status(variable: &str, value: &str, place: &str) -> Status {
        let cx = Context::for_explain(place).expect("a place");
        judge(variable, Some(value), &cx).status
    }

    #[test]
    fn ports_are_matched_as_nccl_does() {
        let two = "nics=mlx5_0:1/IB/ACTIVE,mlx5_1:1/IB/DOWN";
        let ten = "nics=mlx5_0:1/IB/ACTIVE,mlx5_1:1/IB/ACTIVE,mlx5_10:1/IB/ACTIVE";
        for (value, place, expected) in [
            ("", two, Ok),
            ("=", two, Ok),
            ("^", two, Fail),
            ("mlx5_0", two, Ok),
            ("mlx5_1", two, Fail),
            ("mlx5_0,mlx5_1", two, Warn),
            ("=^mlx5_0", two, Fail),
            ("mlx5_*", two, Fail),
            ("mlx5_0:0", two, Fail),
            ("^mlx5_0", two, Fail),
            ("=mlx5_1", ten, Ok),
            ("^mlx5_1", ten, Warn),
            ("^=mlx5_1", ten, Ok),
            ("mlx5", ten, Ok),
            ("nope", "internode=no", Ok),
            ("nope", "efa=yes", Warn),
            ("nope", "efa=yes;netplugin=aws-ofi-nccl", Ok),
            ("nope", "mnnvl=yes", Warn),
            ("mlx5_0:", two, Fail),
            ("mlx5_0:", "nccl=2.29", Fail),
            ("mlx5_0:", "nccl=2.30", Ok),
            ("=mlx5_0:", "nccl=2.31", Ok),
            ("mlx5_0::1", "nccl=2.30", Ok),
            ("mlx5_0:1:0:0", "nccl=2.30", Ok),
            ("mlx5_0:0", "nccl=2.30", Fail),
            ("mlx5_0:", "nccl=unknown", Warn),
            ("mlx5_0:2", "nccl=unknown", Fail),
            ("mlx5_0:", "nccl=unknown;nics=unknown", Warn),
            ("mlx5_0:,mlx5_1:1", "nccl=2.29;nics=unknown", Warn),
            ("mlx5_0:,mlx5_1:1", "nccl=2.30;nics=unknown", Ok),
            ("mlx5_0:-1", "", Ok),
        ] {
            assert_eq!(
                status("NCCL_IB_HCA", value, place),
                expected,
                "{value:?} at {place}"
            );
        }
    }

    /// N2 is about what is selected, with a list as without one.
    #[test]
    fn ports_of_two_kinds_do_not_mix() {
        let mixed = "nics=mlx5_0:1/IB/ACTIVE,mlx5_1:1/Ethernet/ACTIVE,mlx5_2:1/IB/ACTIVE,mlx5_3:1/Ethernet/DOWN";
        for (value, extra, expected) in [
            ("", "", "N2"),
            ("=", "", "N2"),
            ("mlx5", "", "N2"),
            ("=mlx5_0,mlx5_1", "", "N2"),
            ("mlx5_0,mlx5_1,mlx5_9", "", "N2"),
            ("^mlx5_2", "", "N2"),
            ("^mlx5_1", "", "5.2"),
            ("mlx5_0,mlx5_2", "", "5.2"),
            ("mlx5_1", "", "5.2"),
            ("mlx5_0,mlx5_3", "", "5.2"),
            ("mlx5", ";internode=no", "5.3"),
            ("mlx5", ";netplugin=other", "5.3"),
        ] {
            let cx = Context::for_explain(&format!("{mixed}{extra}")).expect("a place");
            let got = judge("NCCL_IB_HCA", Some(value), &cx);
            assert_eq!(got.rule, expected, "{value:?}{extra}: {got:?}");
            assert!(got.rule != "N2" || got.status == Warn, "{got:?}");
        }
    }

    #[test]
    fn interfaces_are_found_or_nccl_stops() {
        for (value, place, expected) in [
            ("", "", Ok),
            ("^", "", Ok),
            ("eth", "net=eth0", Ok),
            ("=eth", "net=eth0", Fail),
            ("eth*", "net=eth0", Fail),
            ("ib0,eth0", "net=eth0", Ok),
            ("^eth,lo", "net=eth0", Fail),
            ("lo", "", Fail),
            ("lo", "internode=no", Ok),
            ("=lo", "net=eth0", Fail),
            ("^eth0", "net=eth0", Fail),
            ("^eth", "net=eth0,eth1", Fail),
            ("^=eth0", "net=eth0,eth1", Warn),
            ("^=eth0,lo", "net=eth0,eth1", Ok),
            ("^docker0", "net=eth0", Warn),
            ("^docker0", "net=eth0;internode=no", Ok),
            ("^lo,docker0", "net=eth0", Ok),
            ("=docker0", "net=eth0,docker0", Warn),
            ("docker0,eth0", "net=eth0,docker0", Ok),
            ("lo,eth9", "net=eth0", Fail),
            ("lo, eth0", "net=eth0", Fail),
            ("^eth0", "net=eth0;internode=no", Ok),
            ("^eth0", "net=eth0;mnnvl=yes", Warn),
            ("=lo", "net=eth0;mnnvl=yes", Warn),
            ("^ib,docker", "net=eth0", Warn),
            ("^ib,docker,lo", "net=eth0", Ok),
            ("eth0, eth1", "net=eth0,eth1", Warn),
        ] {
            assert_eq!(
                status("NCCL_SOCKET_IFNAME", value, place),
                expected,
                "{value:?} at {place}"
            );
        }
    }

    #[test]
    fn nothing_known_means_judged_as_written() {
        let cx = Context::default();
        for (variable, value, expected) in [
            ("NCCL_IB_HCA", "mlx5_0:1,mlx5_1:1", Ok),
            ("NCCL_IB_HCA", "==mlx5_0:1", Warn),
            ("NCCL_IB_HCA", "mlx5_0, mlx5_1", Warn),
            ("NCCL_SOCKET_IFNAME", "eth0", Ok),
            ("NCCL_SOCKET_IFNAME", "^docker0", Warn),
            ("NCCL_SOCKET_IFNAME", "=docker0", Warn),
            ("NCCL_SOCKET_IFNAME", "eth*", Fail),
            ("NCCL_SOCKET_IFNAME", "lo", Warn),
        ] {
            assert_eq!(
                judge(variable, Some(value), &cx).status,
                expected,
                "{variable}={value}"
            );
        }
    }
}
