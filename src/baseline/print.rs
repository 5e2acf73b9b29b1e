//! What a container is remembered by in a report.

use super::shown;
use crate::catalogue;
use crate::checks::Container;
use crate::facts::container::process::Whose;
use crate::facts::container::rdma::state_word;
use crate::report::{Fingerprint, PortPrint};
use std::collections::BTreeMap;

/// The fingerprint of one container.
pub fn fingerprint(container: &Container<'_>) -> Fingerprint {
    let Container { facts, place, .. } = container;
    let pod = facts.pod.known();
    let ports = facts.rdma.own_ports().ok().map(|ports| {
        let print = |(device, port): &(&_, &_)| port_print(device, port);
        ports.iter().map(print).collect()
    });
    let mut versions = BTreeMap::new();
    let mut put = |name: &str, version: Option<String>| {
        if let Some(version) = version {
            versions.insert(name.to_owned(), shown(&version));
        }
    };
    let software = &facts.software;
    put("ucx", software.ucx_version().map(|v| v.text));
    put("nixl", software.nixl().map(|v| v.text));
    put("nccl", software.nccl().map(|v| v.text));
    put(
        "driver",
        facts.gpu.driver.known().map(|d| d.version.clone()),
    );
    put("image", pod.and_then(|p| p.image.clone()));
    if let Some((engine, version)) = software.engine() {
        put(engine, Some(version.text));
    }
    let own = facts.process.environment.known();
    let environment = own.filter(|e| e.whose != Whose::Probe).map(|environment| {
        let known = environment.variables.iter().filter(|(name, value)| {
            catalogue::find(name).is_some() && !catalogue::withheld_of(name, value)
        });
        let places = [
            (pod.and_then(|p| p.pod_ip.as_deref()), "<pod-ip>"),
            (pod.and_then(|p| p.host_ip.as_deref()), "<node-ip>"),
            (Some(place.pod.as_str()), "<pod>"),
            (place.node.as_deref(), "<node>"),
        ];
        known
            .map(|(name, value)| (name.clone(), shown(&without(value, &places))))
            .collect()
    });
    Fingerprint {
        pod: place.pod.clone(),
        component: pod.and_then(|p| p.component.clone()),
        role: place.role.clone(),
        node: place.node.clone(),
        ports,
        versions,
        environment,
    }
}

/// A value without what differs from pod to pod: whole words only, so that `10.0.0.1` is not seen in `10.0.0.12`.
pub(super) fn without(value: &str, places: &[(Option<&str>, &str)]) -> String {
    let mut value = value.to_owned();
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '.');
    for (own, sign) in places {
        let Some(own) = own.filter(|own| own.len() >= 4) else {
            continue;
        };
        let mut out = String::new();
        let mut rest = value.as_str();
        while let Some(at) = rest.find(own) {
            let (before, after) = (&rest[..at], &rest[at + own.len()..]);
            let inside = is_word(before.chars().next_back()) || is_word(after.chars().next());
            out.push_str(before);
            out.push_str(if inside { own } else { sign });
            rest = after;
        }
        out.push_str(rest);
        value = out;
    }
    value
}

fn port_print(
    device: &crate::facts::container::rdma::Device,
    port: &crate::facts::hca::Port,
) -> PortPrint {
    PortPrint {
        port: shown(&format!("{}:{}", device.hca.name, port.number)),
        state: port.state.as_ref().map(|s| shown(state_word(s))),
        gbps: port.rate_gbps(),
        link_layer: port.link_layer.as_ref().map(|l| l.word().to_owned()),
    }
}
