//! What a pod asks for already: a fix does not demand it again, and says where it was lost instead.

use super::Container;
use crate::manifest::{is_rdma, locks_memory};

/// What to do where devices are missing that the pod asks for, or `otherwise` where it does not ask.
pub(super) fn rdma(container: &Container<'_>, otherwise: &str) -> String {
    let pod = container.facts.pod.known();
    let asked: Vec<String> = pod
        .iter()
        .flat_map(|pod| &pod.limits)
        .filter(|(name, amount)| is_rdma(name) && *amount != "0")
        .map(|(name, amount)| format!("{name}: {amount}"))
        .collect();
    let (pod, node) = (&container.place.pod, node(container));
    if !asked.is_empty() {
        return format!(
            "the pod asks for {} already, so look at what should have given it: the device plugin on {node} (its pods, its log) \
             and the container runtime there; then restart pod {pod}",
            asked.join(", ")
        );
    }
    match claims(container) {
        Some(claims) => format!(
            "where a claim of the pod ({claims}) is for RDMA devices, look at its DRA driver on {node} (its pods, its log) and \
             restart pod {pod}; else {otherwise}"
        ),
        None => otherwise.to_owned(),
    }
}

/// What to do where the channel of a ComputeDomain is missing, or `otherwise` where the pod claims nothing.
pub(super) fn channel(container: &Container<'_>, otherwise: &str) -> String {
    match claims(container) {
        Some(claims) => format!(
            "where a claim of the pod ({claims}) is the channel of a ComputeDomain, {}; else {otherwise}",
            channel_lost(&[container])
        ),
        None => otherwise.to_owned(),
    }
}

/// What to do where these pods claim the channel of a ComputeDomain and have none.
pub(super) fn channel_lost(containers: &[&Container<'_>]) -> String {
    let first = containers
        .first()
        .map_or("the node".to_owned(), |c| node(c));
    format!(
        "look at the compute-domain-daemon pod and at the kubelet plugin of the DRA driver on {first} (their logs, nvidia-imex-ctl \
         -N), and at the status of the ComputeDomain; then restart the workers"
    )
}

/// What makes a capability to lock memory count: the pod may add it already.
pub(super) fn ipc_lock(container: &Container<'_>) -> &'static str {
    let pod = container.facts.pod.known();
    match pod.is_some_and(|pod| pod.privileged || pod.capabilities.iter().any(|c| locks_memory(c)))
    {
        true => {
            "the pod gives IPC_LOCK already, which counts for root alone: run the container as root (runAsUser: 0), or raise \
             LimitMEMLOCK of the container runtime"
        }
        false => {
            "add IPC_LOCK to the container and run it as root, or raise LimitMEMLOCK of the container runtime"
        }
    }
}

fn claims(container: &Container<'_>) -> Option<String> {
    let claims = &container.facts.pod.known()?.claims;
    let names: Vec<&str> = claims.keys().map(String::as_str).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

fn node(container: &Container<'_>) -> String {
    let name = container.place.node.as_deref();
    name.map_or("its node".to_owned(), |name| format!("node {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::container;

    #[test]
    fn what_the_pod_asks_for_is_not_demanded_again() {
        let say = |spec: &str, fix: &dyn Fn(&Container<'_>) -> String| {
            let snapshot = container("decode", &[(&ask::POD_SPEC, spec)]);
            fix(&Container::parse(&snapshot))
        };
        let devices = |c: &Container<'_>| rdma(c, "request it");
        assert!(say("limit: rdma/ib=8\n", &devices).contains("asks for rdma/ib: 8 already"));
        assert!(say("claim: nics=tpl\n", &devices).contains("a claim of the pod (nics)"));
        for spec in ["limit: rdma/ib=0\n", "limit: nvidia.com/gpu=8\n"] {
            assert_eq!(say(spec, &devices), "request it", "{spec}");
        }
        let domain = |c: &Container<'_>| channel(c, "claim one");
        assert!(say("claim: channel=g\n", &domain).contains("compute-domain-daemon"));
        assert_eq!(say("limit: rdma/ib=8\n", &domain), "claim one");
        let lock = |c: &Container<'_>| ipc_lock(c).to_owned();
        for spec in ["capabilities: IPC_LOCK\n", "privileged: true\n"] {
            assert!(
                say(spec, &lock).contains("run the container as root"),
                "{spec}"
            );
        }
        assert!(say("capabilities: NET_RAW\n", &lock).starts_with("add IPC_LOCK"));
        let unread = container("decode", &[] as &[(&ask::Ask, &str)]);
        let unread = Container::parse(&unread);
        assert_eq!(devices(&unread), "request it");
    }
}
