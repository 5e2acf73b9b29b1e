//! What the API says of the pod around a container: asked for, and how it stands.

use crate::ask;
use crate::catalogue;
use crate::observed::Observed;
use crate::snapshot::{CUT, Snapshot};
use std::collections::BTreeMap;

/// A pod as the API describes it. What it does not say is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pod {
    /// Component that it belongs to: by the operator's label, else by what made it.
    pub component: Option<String>,
    /// Its own address.
    pub pod_ip: Option<String>,
    /// Its node's address.
    pub host_ip: Option<String>,
    /// Shares the node's network namespace.
    pub host_network: bool,
    /// Shares the node's IPC namespace.
    pub host_ipc: bool,
    /// Shares the node's PID namespace.
    pub host_pid: bool,
    /// The container is privileged.
    pub privileged: bool,
    /// Capabilities that are added.
    pub capabilities: Vec<String>,
    /// Image as pulled, with its digest; else as asked for.
    pub image: Option<String>,
    /// The image was pulled: [`Pod::image`] names what runs.
    pub pulled: bool,
    /// The container passes its readiness probe; None in recordings that do not say.
    pub ready: Option<bool>,
    /// How often the container was started again.
    pub restarts: u32,
    /// `resources.limits`, quantities as written.
    pub limits: BTreeMap<String, String>,
    /// Resource claims: name in the pod, and its template or claim.
    pub claims: BTreeMap<String, String>,
    /// ConfigMaps and Secrets of which every key becomes a variable: kind and name.
    pub env_from: Vec<(String, String)>,
    /// Catalogued variables.
    pub env: BTreeMap<String, Setting>,
}

/// How a pod spec sets a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    /// Written out.
    Literal(String),
    /// Taken from elsewhere, or withheld: the kind of place, `configmap`, `secret`, `field`, `withheld`.
    From(String),
}

/// Reads what was told of the pod.
pub(super) fn read(snapshot: &Snapshot) -> Observed<Pod> {
    match snapshot.text(&ask::POD_SPEC) {
        Ok(text) => Observed::Known(parse(text)),
        Err(skip) => Observed::Missing(skip),
    }
}

fn parse(text: &str) -> Pod {
    let mut pod = Pod::default();
    let mut asked_for = None;
    for line in text.lines().filter(|line| *line != CUT) {
        let end = line
            .find(|c: char| !c.is_ascii_alphanumeric() && !"_-".contains(c))
            .unwrap_or(line.len());
        let (key, rest) = line.split_at(end);
        if catalogue::find(key).is_some() {
            let setting = match (rest.strip_prefix("<-"), rest.strip_prefix('=')) {
                (Some(kind), _) => Setting::From(kind.to_owned()),
                (None, Some(value)) => Setting::Literal(value.to_owned()),
                (None, None) => continue,
            };
            pod.env.insert(key.to_owned(), setting);
            continue;
        }
        let Some(value) = rest.strip_prefix(": ") else {
            continue;
        };
        let text = || Some(value.to_owned()).filter(|v| !v.is_empty());
        let yes = value == "true";
        match key {
            "component" => pod.component = text(),
            "pod-ip" => pod.pod_ip = text(),
            "host-ip" => pod.host_ip = text(),
            "host-network" => pod.host_network = yes,
            "host-ipc" => pod.host_ipc = yes,
            "host-pid" => pod.host_pid = yes,
            "privileged" => pod.privileged = yes,
            "capabilities" => {
                let all = value.split(',').filter(|c| !c.is_empty());
                pod.capabilities = all.map(str::to_owned).collect();
            }
            "image" => asked_for = text(),
            "image-id" => pod.image = text(),
            "ready" => pod.ready = Some(yes),
            "restarts" => pod.restarts = value.parse().unwrap_or_default(),
            "limit" | "claim" => {
                let (name, amount) = value.split_once('=').unwrap_or((value, ""));
                let into = match key {
                    "limit" => &mut pod.limits,
                    _ => &mut pod.claims,
                };
                into.insert(name.to_owned(), amount.to_owned());
            }
            "env-from" => {
                let (kind, name) = value.split_once(' ').unwrap_or((value, ""));
                pod.env_from.push((kind.to_owned(), name.to_owned()));
            }
            _ => {}
        }
    }
    pod.pulled = pod.image.is_some();
    pod.image = pod.image.take().or(asked_for);
    pod
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_in_lines() {
        let pod = parse(
            "limit: rdma/ib=8\nprivileged: false\ncapabilities: IPC_LOCK,SYS_PTRACE\nhost-network: true\npod-ip: 10.0.0.7\n\
             component: decode\nimage: a:1\nimage-id: a@sha256:1\nready: true\nrestarts: 3\nclaim: gpu=tpl\n\
             env-from: configmap fabric\nUCX_TLS=rc,cuda_copy\nNCCL_IB_HCA<-configmap\nHF_TOKEN=s3cret\n",
        );
        assert_eq!(pod.component.as_deref(), Some("decode"));
        assert_eq!(pod.image.as_deref(), Some("a@sha256:1"));
        assert_eq!(
            (pod.ready, pod.restarts, pod.host_network),
            (Some(true), 3, true)
        );
        assert_eq!(pod.limits["rdma/ib"], "8");
        assert_eq!(pod.claims["gpu"], "tpl");
        assert_eq!(
            pod.env_from,
            [("configmap".to_owned(), "fabric".to_owned())]
        );
        assert_eq!(
            pod.env["UCX_TLS"],
            Setting::Literal("rc,cuda_copy".to_owned())
        );
        assert_eq!(
            pod.env["NCCL_IB_HCA"],
            Setting::From("configmap".to_owned())
        );
        assert_eq!(pod.env.len(), 2);
    }
}
