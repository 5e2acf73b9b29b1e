//! Many containers held against each other. They are first put into classes of equals, so that a thousand pods cost no more
//! than the few ways in which they differ, and one difference is one finding.

use super::declare::{Draft, Outcome};
use super::{Container, DeploymentScope};
use crate::facts::container::rdma::Device;
use crate::facts::hca::{LinkLayer, Port};
use crate::judge::TransportList;
use crate::judge::context::{Backend, Tri};
use crate::judge::selection::Selection;
use crate::observed::Skip;
use crate::report::{Evidence, SkipReason};
use crate::{ask, snapshot};
use std::collections::{BTreeMap, BTreeSet};

/// Containers that are equal in one respect.
pub(super) type Equals<'a> = Vec<&'a Container<'a>>;

/// Containers by what they have in one respect.
pub(super) struct Classes<'a, K> {
    /// By what they have.
    pub(super) known: BTreeMap<K, Equals<'a>>,
    /// Why it is not known of some.
    pub(super) unseen: Option<Skip>,
}

/// Puts containers into classes. Those for which the question does not arise are left out.
pub(super) fn classes<'a, K: Ord>(
    containers: impl IntoIterator<Item = &'a Container<'a>>,
    key: impl Fn(&Container<'_>) -> Result<K, Skip>,
) -> Classes<'a, K> {
    let mut classes = Classes {
        known: BTreeMap::new(),
        unseen: None,
    };
    for container in containers {
        match key(container) {
            Ok(key) => {
                let class: &mut Equals<'_> = classes.known.entry(key).or_default();
                class.push(container);
            }
            Err(skip) if skip == Skip::not_applicable() => {}
            Err(skip) => classes.unseen = classes.unseen.or(Some(skip)),
        }
    }
    classes
}

/// One class of one end.
pub(super) type Side<'s, 'a, K> = (&'s K, &'s Equals<'a>);

/// Holds the two ends of the KV path against each other, class by class. What is not known of some containers is no ok.
pub(super) fn ends<'a, K: Ord>(
    scope: &DeploymentScope<'a>,
    key: impl Fn(&Container<'_>) -> Result<K, Skip>,
    judge: impl Fn(Side<'_, 'a, K>, Side<'_, 'a, K>) -> Option<Draft>,
    fine: impl FnOnce(Side<'_, 'a, K>, Side<'_, 'a, K>) -> Draft,
) -> Outcome {
    scope.require_kv()?;
    let (from, to) = scope.ends();
    let (from, to) = (classes(from, &key), classes(to, &key));
    let mut drafts = Vec::new();
    for left in &from.known {
        drafts.extend(to.known.iter().filter_map(|right| judge(left, right)));
    }
    let unseen = from.unseen.or(to.unseen);
    let first = from.known.iter().next().zip(to.known.iter().next());
    settle(drafts, unseen, first.map(|(left, right)| fine(left, right)))
}

/// Holds the containers of each component against each other; `judge` sees each class that is not the `usual` one.
pub(super) fn replicas<'a, K: Ord>(
    scope: &DeploymentScope<'a>,
    key: impl Fn(&Container<'_>) -> Result<K, Skip>,
    usual: impl Fn(&BTreeMap<K, Equals<'a>>) -> usize,
    judge: impl Fn(Side<'_, 'a, K>, Side<'_, 'a, K>) -> Vec<Draft>,
    fine: Draft,
) -> Outcome {
    let mut components: BTreeMap<&str, Equals<'a>> = BTreeMap::new();
    for container in &scope.containers {
        components
            .entry(component(container))
            .or_default()
            .push(container);
    }
    components.retain(|_, all| all.len() > 1);
    let (mut drafts, mut unseen, mut compared) = (Vec::new(), None, false);
    for all in components.into_values() {
        let classes = classes(all, &key);
        unseen = unseen.or(classes.unseen);
        let most = usual(&classes.known);
        let Some(usual) = classes.known.iter().nth(most) else {
            continue;
        };
        compared = true;
        let others = classes.known.iter().enumerate().filter(|(n, _)| *n != most);
        drafts.extend(others.flat_map(|(_, other)| judge(usual, other)));
    }
    settle(drafts, unseen, compared.then_some(fine))
}

/// The largest class.
pub(super) fn most_common<K>(known: &BTreeMap<K, Equals<'_>>) -> usize {
    let largest = known.values().map(Vec::len).max();
    let at = known.values().position(|all| Some(all.len()) == largest);
    at.unwrap_or_default()
}

/// What was found; else what was not seen; else that all is well; else the question did not arise.
pub(super) fn settle(mut drafts: Vec<Draft>, unseen: Option<Skip>, fine: Option<Draft>) -> Outcome {
    /// Differences of one kind that are told one by one.
    const TOLD: usize = 3;
    drafts.sort_by_key(|draft| std::cmp::Reverse(draft.status));
    if drafts.iter().all(|draft| draft.about.is_none()) {
        drafts.dedup_by(|a, b| a.detail == b.detail);
        let more = drafts.len().saturating_sub(TOLD);
        drafts.truncate(TOLD);
        if let (Some(last), 1..) = (drafts.last_mut(), more) {
            last.detail.push_str(&format!("; and {more} more like it"));
        }
    }
    match (drafts.is_empty(), unseen, fine) {
        (false, unseen, _) => {
            drafts.extend(unseen.map(Draft::skipped));
            Ok(drafts)
        }
        (true, Some(unseen), _) => Err(unseen),
        (true, None, Some(fine)) => Ok(vec![fine]),
        (true, None, None) => Err(Skip::not_applicable()),
    }
}

/// Component of a container: by the API, else its role.
pub(super) fn component<'c>(container: &'c Container<'_>) -> &'c str {
    let named = container.facts.pod.known();
    let named = named.and_then(|pod| pod.component.as_deref());
    named
        .or(container.place.role.as_deref())
        .unwrap_or_default()
}

/// Pods by name, the first few of many.
pub(super) fn names(containers: &[&Container<'_>]) -> String {
    const SHOWN: usize = 4;
    let mut all: Vec<String> = containers
        .iter()
        .take(SHOWN)
        .map(|c| c.place.pod.clone())
        .collect();
    let more = containers.len().saturating_sub(SHOWN);
    if more > 0 {
        all.push(format!("{more} more"));
    }
    match all.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// Evidence of two sides: a line each.
pub(super) fn both(
    ask: &ask::Ask,
    left: (&Equals<'_>, &str),
    right: (&Equals<'_>, &str),
) -> Evidence {
    let lines = [left, right].map(|(all, what)| format!("{}: {what}", names(all)));
    snapshot::evidence(ask, lines.iter().map(String::as_str))
}

/// Ports over which the KV of this container may travel: usable, and chosen by UCX_NET_DEVICES where UCX carries it.
pub(crate) fn carriers<'c>(
    container: &'c Container<'_>,
) -> Result<Vec<(&'c Device, &'c Port)>, Skip> {
    let mut ports = container.facts.rdma.usable_ports()?;
    if container.context.backend != Backend::Libfabric {
        let value = container.facts.process.value("UCX_NET_DEVICES")?;
        if let Some(chosen) = Selection::ucx(value, &container.context) {
            ports.retain(|(device, port)| chosen.selects(&device.hca.name, port.number));
        }
    }
    Ok(ports)
}

/// The word for what a port speaks.
pub(super) fn link_word(device: &Device, port: &Port) -> String {
    match &port.link_layer {
        _ if device.is_efa() => "EFA".to_owned(),
        Some(LinkLayer::Ethernet) => "Ethernet".to_owned(),
        Some(link) => link.word().to_owned(),
        None => "unknown".to_owned(),
    }
}

/// Transports of RDMA devices that carry data.
const RDMA: [&str; 6] = [
    "rc_mlx5", "rc_verbs", "dc_mlx5", "srd", "ud_mlx5", "ud_verbs",
];

/// The transports of RDMA devices that UCX_TLS leaves to this container.
pub(crate) fn rdma_transports(container: &Container<'_>) -> Result<Vec<&'static str>, Skip> {
    let value = container.facts.process.value("UCX_TLS")?;
    let list = TransportList::parse(value.unwrap_or("all"));
    Ok(RDMA.into_iter().filter(|t| list.allows(t)).collect())
}

/// NVLink may carry KV from here, as far as UCX_TLS says.
pub(crate) fn allows_nvlink(container: &Container<'_>) -> Result<bool, Skip> {
    let value = container.facts.process.value("UCX_TLS")?;
    let list = TransportList::parse(value.unwrap_or("all"));
    Ok(list.allows("cuda_ipc") && list.allows("cuda_copy"))
}

/// The GPUs of its node that the container may open, by their numbers.
pub(super) fn visible_gpus(container: &Container<'_>) -> Result<BTreeSet<u32>, Skip> {
    let nodes = container.facts.gpu.nodes_below("/dev/nvidia")?;
    let number = |path: &str| path.strip_prefix("/dev/nvidia")?.parse().ok();
    let open = nodes.iter().filter(|(_, node)| node.is_open);
    let gpus: BTreeSet<u32> = open.filter_map(|(path, _)| number(path)).collect();
    if gpus.is_empty() {
        let detail = format!(
            "which GPUs of its node {} sees was not told by {}",
            container.place.pod,
            ask::DEV_GPU.shown_as
        );
        return Err(Skip::new(SkipReason::NotFound, detail));
    }
    Ok(gpus)
}

/// Nothing but NVLink can carry KV fast from here: no RDMA transport is allowed, or no port is there.
pub(super) fn only_nvlink(container: &Container<'_>) -> Result<bool, Skip> {
    Ok(rdma_transports(container)?.is_empty() || carriers(container)?.is_empty())
}

/// The NVLink domain of the GPUs, cluster and clique, where they are part of one that spans nodes.
pub(crate) fn domain(container: &Container<'_>) -> Result<String, Skip> {
    let query = container.facts.gpu.fabric.get()?;
    let mut domains: Vec<String> = query
        .gpus
        .iter()
        .filter_map(|gpu| gpu.fabric.as_ref())
        .filter(|fabric| fabric.is_multi_node())
        .map(|fabric| {
            let clique = fabric.clique_id.map_or("?".to_owned(), |id| id.to_string());
            let cluster = fabric.cluster_uuid.as_deref().unwrap_or_default();
            format!("cluster {cluster} clique {clique}")
        })
        .collect();
    domains.sort();
    domains.dedup();
    match domains.is_empty() {
        true => Err(Skip::not_applicable()),
        false => Ok(domains.join(", ")),
    }
}

/// This side of multi-node NVLink is ready; an error where that was not seen.
pub(crate) fn has_mnnvl(container: &Container<'_>) -> Result<bool, Skip> {
    match container.context.mnnvl {
        Tri::Yes => Ok(true),
        Tri::No => Ok(false),
        Tri::Unknown => {
            let gpu = &container.facts.gpu;
            gpu.fabric.get()?;
            gpu.imex_channels()?;
            let detail = format!(
                "the NVLink fabric of {} was seen only in part",
                container.place.pod
            );
            Err(Skip::new(crate::report::SkipReason::Unparsable, detail))
        }
    }
}
