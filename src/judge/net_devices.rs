//! UCX_NET_DEVICES: which devices a value leaves (rules D1 to D8).

use super::context::{Context, Link, Nic};
use super::setting::{Setting, Verdict, by_version};
use std::collections::BTreeSet;

/// More entries than this make UCX abort.
const MOST_ENTRIES: usize = 64;

const ADVICE: &str = "remove UCX_NET_DEVICES, or name every RDMA port of the pod as device:port, for instance mlx5_0:1";

pub(super) fn judge(s: &Setting<'_>) -> Verdict {
    let Some(value) = s.value else {
        return all_devices("unset", s.cx);
    };
    by_version(s.cx, "UCX 1.21 or 1.22", |cx| judge_at(value, cx))
}

fn judge_at(value: &str, cx: &Context) -> Verdict {
    let newer = cx.ucx_at_least(1, 21);
    let (negated, list) = match value.strip_prefix('^') {
        Some(rest) if newer => (true, rest),
        _ => (false, value),
    };
    let tokens: Vec<&str> = list.split(',').filter(|t| !t.is_empty()).collect();
    if tokens.len() > MOST_ENTRIES {
        return Verdict::fail(
            "2.1",
            format!(
                "{} entries are more than the {MOST_ENTRIES} that UCX can take: it aborts",
                tokens.len()
            ),
            ADVICE,
        );
    }
    match tokens.as_slice() {
        [] if negated => all_devices("^", cx),
        [] => Verdict::fail(
            "2.1",
            format!("{value:?} names no device: RDMA and TCP are both off"),
            ADVICE,
        ),
        ["all"] => all_devices(value, cx),
        ["all", ..] if newer => Verdict::fail(
            "2.1",
            format!(
                "{value:?}: from UCX 1.21 on all must stand alone, and anything with it cannot be read"
            ),
            "write all alone, or remove UCX_NET_DEVICES",
        ),
        tokens if !newer && tokens.contains(&"all") => all_devices(value, cx),
        tokens if negated => judge_exclusion(value, &expand(tokens, cx), cx),
        tokens => judge_choice(value, &expand(tokens, cx), cx),
    }
}

/// D1.
fn all_devices(written: &str, cx: &Context) -> Verdict {
    let links = |link: Link| {
        cx.active_ports()
            .is_some_and(|mut ports| ports.any(|n| n.link == link))
    };
    if links(Link::InfiniBand) && links(Link::Ethernet) {
        return Verdict::warn(
            "D1",
            format!(
                "{written} means all devices, and the ACTIVE ports here are of two kinds, InfiniBand and Ethernet: UCX may pick one that the peer cannot reach"
            ),
            "name the ports of one fabric as device:port, the ones next to the GPUs",
        );
    }
    Verdict::ok(
        "D1",
        format!(
            "{written} means all devices; UCX takes the closest NICs of each GPU and never prefers a management interface over RDMA"
        ),
    )
}

/// From 1.22 on `mlx5_[0-3]:1` stands for four names.
pub(super) fn expand(tokens: &[&str], cx: &Context) -> Vec<String> {
    tokens
        .iter()
        .flat_map(|t| match range_of(t) {
            Some(names) if cx.ucx_at_least(1, 22) => names,
            _ => vec![(*t).to_owned()],
        })
        .collect()
}

/// The names of a range, at most as many as UCX takes.
fn range_of(token: &str) -> Option<Vec<String>> {
    let (prefix, rest) = token.split_once('[')?;
    let (range, suffix) = rest.split_once(']')?;
    let (first, last) = range.split_once('-')?;
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if !digits(first) || !digits(last) || suffix.contains('[') {
        return None;
    }
    let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
    (first <= last && last - first < MOST_ENTRIES as u32).then(|| {
        (first..=last)
            .map(|n| format!("{prefix}{n}{suffix}"))
            .collect()
    })
}

/// What one name stands for.
enum Meaning {
    /// RDMA ports, by device. The list is empty when the name is right as written and no port is known.
    Rdma(String),
    /// A network interface: TCP.
    Interface,
    /// Nothing, and why.
    Nothing(&'static str, &'static str),
    /// The name may be a device or an interface.
    Unclear,
}

fn meaning(token: &str, cx: &Context) -> Meaning {
    if token.starts_with('^') {
        return Meaning::Nothing(
            "D5",
            "UCX up to 1.20 has no negation and takes it for a name",
        );
    }
    if token.contains(['*', '?']) {
        return Meaning::Nothing("D5", "no UCX version knows globs");
    }
    if token.contains('[') {
        return Meaning::Nothing(
            "D5",
            "it is no range that this UCX can expand (1.22 and later, [first-last])",
        );
    }
    if token.contains([' ', '\t', ';', '"', '\'']) {
        return Meaning::Nothing(
            "D7",
            "blanks, semicolons and quotes belong to the name, which then exists nowhere",
        );
    }
    if token == "all" {
        return Meaning::Nothing("2.1", "all counts only when it stands alone");
    }
    let (device, port) = match token.split_once(':') {
        Some((device, port)) => (device, Some(port)),
        None => (token, None),
    };
    let portless_is_device = cx.ucx_at_least(1, 21);
    if let Some(nics) = &cx.nics {
        let named: Vec<&Nic> = nics
            .iter()
            .filter(|n| n.device == device)
            .filter(|n| port.is_none_or(|p| n.port.to_string() == p))
            .collect();
        if !named.is_empty() {
            return among(&named, device, port, portless_is_device, cx);
        }
    }
    if port.is_none()
        && (device == "lo"
            || cx
                .net
                .as_ref()
                .is_some_and(|n| n.iter().any(|i| i == device)))
    {
        return Meaning::Interface;
    }
    by_shape(device, port, portless_is_device, cx)
}

/// A name that the pod has.
fn among(
    named: &[&Nic],
    device: &str,
    port: Option<&str>,
    portless_is_device: bool,
    cx: &Context,
) -> Meaning {
    if port.is_none() && !portless_is_device {
        return NO_PORT;
    }
    let no_gid =
        |n: &&&Nic| n.link == Link::Ethernet && cx.gids.as_ref().is_some_and(Vec::is_empty);
    if !named.iter().any(|n| n.active) {
        return Meaning::Nothing("D3", "the port is not ACTIVE");
    }
    if named.iter().filter(|n| n.active).all(|n| no_gid(&n)) {
        return Meaning::Nothing("D3", "the port has no GID in this pod");
    }
    Meaning::Rdma(device.to_owned())
}

const NO_PORT: Meaning = Meaning::Nothing(
    "D4",
    "UCX up to 1.20 wants a device with its port (mlx5_0:1) and finds none of this name",
);

/// A name that is not among the known ports, or no port is known.
fn by_shape(device: &str, port: Option<&str>, portless_is_device: bool, cx: &Context) -> Meaning {
    let shape = shape(device);
    match (port, shape, &cx.nics) {
        (Some(p), _, _) if p.is_empty() || !p.bytes().all(|b| b.is_ascii_digit()) => {
            Meaning::Nothing("D7", "what follows the colon is no port number")
        }
        (Some(_), Shape::Interface, _) => {
            Meaning::Nothing("2.1", "an interface has no port, so the name never matches")
        }
        (Some(_), _, None) => Meaning::Rdma(device.to_owned()),
        (Some(_), _, Some(_)) => Meaning::Nothing("D3", "the pod has no such port"),
        (None, Shape::Rdma, None) if portless_is_device => Meaning::Rdma(device.to_owned()),
        (None, Shape::Rdma, None) => NO_PORT,
        (None, Shape::Rdma, Some(_)) => Meaning::Nothing("D3", "the pod has no such device"),
        (None, Shape::Interface, _) if cx.net.is_none() => Meaning::Interface,
        (None, Shape::Interface, _) => Meaning::Nothing("D2", "the pod has no such interface"),
        (None, Shape::Unclear, nics) if nics.is_none() || cx.net.is_none() => Meaning::Unclear,
        (None, Shape::Unclear, _) => {
            Meaning::Nothing("D3", "the pod has no such device or interface")
        }
    }
}

#[derive(Clone, Copy)]
enum Shape {
    Rdma,
    Interface,
    Unclear,
}

/// Kinds of device by the beginning of the name; drivers of rdma-core and systemd's predictable interface names.
fn shape(device: &str) -> Shape {
    const RDMA: [&str; 16] = [
        "mlx4_", "mlx5_", "bnxt_re", "irdma", "rdmap", "roce", "efa_", "hns_", "qedr", "cxgb",
        "ionic", "mana_", "erdma", "rxe", "siw", "ibp",
    ];
    const INTERFACE: [&str; 13] = [
        "eth", "ens", "eno", "enp", "enx", "enP", "wl", "bond", "br", "docker", "veth", "net", "lo",
    ];
    if RDMA.iter().any(|p| device.starts_with(p)) {
        Shape::Rdma
    } else if INTERFACE.iter().any(|p| device.starts_with(p))
        || (device.starts_with("ib") && device[2..].bytes().all(|b| b.is_ascii_digit()))
    {
        Shape::Interface
    } else {
        Shape::Unclear
    }
}

/// A list of what may be used.
fn judge_choice(value: &str, names: &[String], cx: &Context) -> Verdict {
    let mut devices = BTreeSet::new();
    let (mut interfaces, mut unclear) = (false, false);
    let mut dropped: Vec<(&str, &'static str, &'static str)> = vec![];
    for name in names {
        match meaning(name, cx) {
            Meaning::Rdma(device) => {
                devices.insert(device);
            }
            Meaning::Interface => interfaces = true,
            Meaning::Unclear => unclear = true,
            Meaning::Nothing(rule, why) => dropped.push((name, rule, why)),
        }
    }
    if devices.is_empty() && !unclear {
        return without_rdma(value, interfaces, &dropped, cx);
    }
    if let Some((name, rule, why)) = dropped.first() {
        return Verdict::warn(
            rule,
            format!("{value:?}: {name:?} is dropped with a warning ({why}), the rest is used"),
            format!("remove or correct {name}"),
        );
    }
    single_device(value, &devices, interfaces || unclear, cx)
}

/// D2 and D3: no RDMA device is left.
fn without_rdma(
    value: &str,
    interfaces: bool,
    dropped: &[(&str, &'static str, &'static str)],
    cx: &Context,
) -> Verdict {
    if !interfaces {
        let (name, rule, why) =
            dropped
                .first()
                .copied()
                .unwrap_or((value, "D3", "nothing matches"));
        return Verdict::fail(
            rule,
            format!(
                "{value:?}: {name:?} matches no device ({why}), so RDMA and TCP are both off and NIXL gets no backend"
            ),
            ADVICE,
        );
    }
    if cx.on_mnnvl() {
        return Verdict::ok(
            "R6",
            format!(
                "{value:?} leaves TCP for control messages; KV goes over NVLink between nodes, which this variable does not touch"
            ),
        );
    }
    if !cx.kv_crosses_nodes() {
        return Verdict::ok(
            "D2",
            format!(
                "{value:?} switches RDMA off; KV stays inside the node, where NVLink (cuda_ipc) is not touched by this variable"
            ),
        );
    }
    if cx.host_buffers {
        return Verdict::warn(
            "D2",
            format!(
                "{value:?} leaves TCP only, with KV buffers in host memory: a deliberate choice, far below the speed of RDMA"
            ),
            ADVICE,
        );
    }
    let lost = dropped.first().map_or(String::new(), |(name, _, why)| {
        format!("; {name:?} is dropped ({why})")
    });
    Verdict::fail(
        if dropped.is_empty() { "D2" } else { "D3" },
        format!(
            "{value:?} leaves network interfaces only: RDMA is off and KV between nodes goes over TCP{lost}"
        ),
        ADVICE,
    )
}

/// D6.
fn single_device(value: &str, devices: &BTreeSet<String>, more: bool, cx: &Context) -> Verdict {
    let seen = cx.active_ports().map(|ports| {
        ports
            .map(|n| n.device.as_str())
            .collect::<BTreeSet<_>>()
            .len()
    });
    let only = match devices.first() {
        Some(device) if devices.len() == 1 && !more => device,
        _ => return as_written(value, cx, ""),
    };
    match cx.gpu_count() {
        Some(gpus) if gpus > 1 && seen != Some(1) => Verdict::warn(
            "D6",
            format!(
                "{value:?} pins one NIC while the pod has {gpus} GPUs: all of them share {only}, and the choice of the closest NIC is lost"
            ),
            "remove UCX_NET_DEVICES, or name one port per GPU",
        ),
        None => as_written(
            value,
            cx,
            "; one NIC serves every GPU of the pod, which is right for a single GPU",
        ),
        _ => as_written(value, cx, ""),
    }
}

fn as_written(value: &str, cx: &Context, note: &str) -> Verdict {
    if cx.node_unseen() {
        return Verdict::ok(
            "D3",
            format!(
                "{value:?} is right as written; whether these ports exist and are ACTIVE is for the node to say{note}"
            ),
        );
    }
    Verdict::ok(
        "D3",
        format!("{value:?} names ACTIVE ports of the pod{note}"),
    )
}

/// A list of what may not be used (UCX 1.21 and later).
fn judge_exclusion(value: &str, names: &[String], cx: &Context) -> Verdict {
    let excluded = |n: &Nic| {
        names
            .iter()
            .any(|name| *name == n.device || *name == format!("{}:{}", n.device, n.port))
    };
    if let Some(mut ports) = cx.active_ports()
        && !cx.on_mnnvl()
        && cx.kv_crosses_nodes()
        && !cx.host_buffers
    {
        let had_ports = cx.rdma_present() == super::context::Tri::Yes;
        if had_ports && ports.all(excluded) {
            return Verdict::fail(
                "D5",
                format!(
                    "{value:?} excludes every ACTIVE RDMA port: KV between nodes goes over TCP"
                ),
                "remove UCX_NET_DEVICES, or exclude less",
            );
        }
    }
    let odd = names
        .iter()
        .find(|n| n.contains([' ', '\t', ';', '"', '\'', '*', '?', '^']));
    if let Some(odd) = odd {
        return Verdict::warn(
            "D7",
            format!(
                "{value:?}: {odd:?} is taken as one name that exists nowhere, so it excludes nothing"
            ),
            "separate exact names with commas only",
        );
    }
    Verdict::ok(
        "D5",
        format!("{value:?} excludes these and leaves all other devices"),
    )
}

#[cfg(test)]
mod tests {
    use crate::judge::context::{Context, Gpus, Tri};
    use crate::judge::judge;
    use crate::report::Status::{Fail, Ok, Warn};

    #[test]
    fn devices_of_a_known_machine() {
        let two = "nics=mlx5_0:1/IB/ACTIVE,mlx5_1:1/IB/ACTIVE,mlx5_2:1/IB/DOWN;gpu=2xH100";
        let at = |extra: &str| format!("{two};{extra}");
        let long = vec!["mlx5_0:1"; 65].join(",");
        for (value, place, status, rule) in [
            ("all", at(""), Ok, "D1"),
            ("", at(""), Fail, "2.1"),
            ("^", at("ucx=1.23"), Ok, "D1"),
            ("^", at("ucx=1.20"), Fail, "D5"),
            ("mlx5_0:1,mlx5_1:1", at(""), Ok, "D3"),
            ("mlx5_1:1", at(""), Warn, "D6"),
            ("mlx5_0:1,mlx5_2:1", at(""), Warn, "D3"),
            ("mlx5_2:1", at(""), Fail, "D3"),
            ("mlx5_0:2", at(""), Fail, "D3"),
            ("mlx5_0:1,eth0", at(""), Ok, "D3"),
            ("eth0", at("internode=no"), Ok, "D2"),
            ("eth0", at("mnnvl=yes"), Ok, "R6"),
            ("eth1", at(""), Fail, "D2"),
            ("eth0:1", at(""), Fail, "2.1"),
            ("mlx5_0:1, mlx5_1:1", at(""), Warn, "D7"),
            ("mlx5_0:1;mlx5_1:1", at(""), Fail, "D7"),
            ("\"mlx5_0:1\"", at(""), Fail, "D7"),
            ("mlx5_[0-1]:1", at("ucx=1.22"), Ok, "D3"),
            ("mlx5_[1-0]:1", at("ucx=1.22"), Fail, "D5"),
            ("mlx5_[0-1]:1", at("ucx=unknown"), Warn, "D5"),
            ("mlx5_0,mlx5_1", at("ucx=unknown"), Warn, "D4"),
            ("mlx5_0,mlx5_1", at("ucx=1.21"), Ok, "D3"),
            ("^mlx5_0,mlx5_1", at("ucx=1.21"), Fail, "D5"),
            ("^mlx5_0:1", at("ucx=1.21"), Ok, "D5"),
            ("^eth0, lo", at("ucx=1.21"), Warn, "D7"),
            ("^all", at("ucx=1.21"), Ok, "D1"),
            ("all,mlx5_0:1", at("ucx=1.20"), Ok, "D1"),
            ("all,mlx5_0:1", at("ucx=1.21"), Fail, "2.1"),
            ("mlx5_0:1,mlx5_1:1,all", at("ucx=1.21"), Warn, "2.1"),
            (",mlx5_0:1,,mlx5_1:1,", at(""), Ok, "D3"),
            (&long, at(""), Fail, "2.1"),
            (
                "mlx5_bond_0:1",
                "nics=mlx5_bond_0:1/Ethernet/ACTIVE;gids=3:v2".to_owned(),
                Ok,
                "D3",
            ),
            (
                "all",
                "nics=mlx5_0:1/IB/ACTIVE,mlx5_1:1/Ethernet/ACTIVE".to_owned(),
                Warn,
                "D1",
            ),
        ] {
            let cx = Context::for_explain(&place).expect("a place");
            let got = judge("UCX_NET_DEVICES", Some(value), &cx);
            assert_eq!(
                (got.status, got.rule),
                (status, rule),
                "{value:?} at {place:?}: {got:?}"
            );
        }
    }

    #[test]
    fn a_manifest_is_judged_as_written() {
        let unseen = |count: Option<u32>| Context {
            gpus: count.map(|count| Gpus {
                count,
                model: String::new(),
                nvswitch: Tri::Unknown,
            }),
            ..Context::default()
        };
        let eight = "mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1,mlx5_4:1,mlx5_5:1,mlx5_10:1,mlx5_11:1";
        for (value, gpus, expected) in [
            (eight, Some(8), Ok),
            ("mlx5_0:1", Some(1), Ok),
            ("mlx5_0:1", None, Ok),
            ("mlx5_0:1", Some(4), Warn),
            ("mlx5_0", Some(1), Warn),
            ("ibp12s0:1", Some(1), Ok),
            ("storage0", Some(1), Ok),
            ("eth0", Some(1), Fail),
            ("lo", Some(1), Fail),
            ("mlx5_*", Some(1), Fail),
            ("^eth0", Some(8), Warn),
            ("mlx5_[0-7]:1", Some(8), Warn),
        ] {
            let got = judge("UCX_NET_DEVICES", Some(value), &unseen(gpus));
            assert_eq!(got.status, expected, "{value}: {got:?}");
        }
    }
}
