//! What a run needs to be allowed, asked beforehand (SelfSubjectAccessReview), and written down (`docs/rbac.yaml`).

use super::call::{CallError, Cause, call, said};
use super::connect::Cluster;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::Api;
use kube::api::PostParams;
use std::fmt;
use tokio::task::JoinSet;

/// One verb on one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Need {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// `get`, `list`, `create`.
    pub verb: &'static str,
    /// Resource, with its subresource: `pods/exec`.
    pub resource: &'static str,
    /// What it is for.
    pub because: &'static str,
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)
    }
}

/// Read a pod that is named.
pub const GET_PODS: Need = Need {
    group: "",
    verb: "get",
    resource: "pods",
    because: "to read the spec of a named pod",
};
/// Find pods by label.
pub const LIST_PODS: Need = Need {
    group: "",
    verb: "list",
    resource: "pods",
    because: "to find pods by label (-l)",
};
/// Exec, as every server checks it.
pub const GET_EXEC: Need = Need {
    group: "",
    verb: "get",
    resource: "pods/exec",
    because: "exec over WebSocket is an HTTP GET",
};
/// Exec, as servers since 1.35 check it too.
pub const CREATE_EXEC: Need = Need {
    group: "",
    verb: "create",
    resource: "pods/exec",
    because: "Kubernetes 1.35 and later check it too, see kubernetes/kubernetes#134577",
};

/// Find the deployments of the namespace.
pub const LIST_GRAPHS: Need = Need {
    group: "nvidia.com",
    verb: "list",
    resource: "dynamographdeployments",
    because: "to find the deployments of the namespace (check)",
};
/// Read what the pods take their settings from.
pub const GET_CONFIG_MAPS: Need = Need {
    group: "",
    verb: "get",
    resource: "configmaps",
    because: "to read the settings that pods take from ConfigMaps (check); Secrets are never read",
};
/// See whether the NVLink domains of the deployment are ready.
pub const LIST_DOMAINS: Need = Need {
    group: "resource.nvidia.com",
    verb: "list",
    resource: "computedomains",
    because: "to see whether NVLink domains are ready (check --nodes)",
};
/// Read what a resource claim stands for.
pub const GET_CLAIM_TEMPLATES: Need = Need {
    group: "resource.k8s.io",
    verb: "get",
    resource: "resourceclaimtemplates",
    because: "to see which devices the pods get by their claims: NVLink domains, NICs (check)",
};
/// Read what a resource claim stands for.
pub const GET_CLAIMS: Need = Need {
    group: "resource.k8s.io",
    verb: "get",
    resource: "resourceclaims",
    because: "the same, where pods share one claim",
};
/// Everything within the namespace.
pub const IN_NAMESPACE: [Need; 9] = [
    GET_PODS,
    LIST_PODS,
    GET_EXEC,
    CREATE_EXEC,
    LIST_GRAPHS,
    GET_CONFIG_MAPS,
    LIST_DOMAINS,
    GET_CLAIM_TEMPLATES,
    GET_CLAIMS,
];

/// See what the nodes offer.
pub const LIST_NODES: Need = Need {
    group: "",
    verb: "list",
    resource: "nodes",
    because: "to see what the nodes offer, and which could host a worker (check --nodes)",
};

/// Optional, for the whole cluster: without it, facts about nodes are skipped.
pub const NODES: [Need; 1] = [LIST_NODES];

/// What the API server says about one need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// Allowed.
    Allowed,
    /// Not allowed. The authorizer's words, where it gives any.
    Denied(String),
    /// Not told. The run goes on, and the call itself will say.
    Unknown(Cause),
}

/// Asks for each need at once; answers are in the order of the needs. Without a namespace: cluster-wide. Reviews are
/// answered for limited service accounts too.
pub async fn review(
    cluster: &Cluster,
    namespace: Option<&str>,
    needs: &[Need],
) -> Vec<(Need, Access)> {
    let mut asking = JoinSet::new();
    for (index, need) in needs.iter().copied().enumerate() {
        let (cluster, namespace) = (cluster.clone(), namespace.map(str::to_owned));
        asking.spawn(async move { (index, need, ask(&cluster, namespace, need).await) });
    }
    let mut answers = asking.join_all().await;
    answers.sort_by_key(|(index, ..)| *index);
    answers
        .into_iter()
        .map(|(_, need, access)| (need, access.unwrap_or_else(|e| Access::Unknown(e.cause))))
        .collect()
}

async fn ask(
    cluster: &Cluster,
    namespace: Option<String>,
    need: Need,
) -> Result<Access, CallError> {
    let (resource, subresource) = match need.resource.split_once('/') {
        Some((resource, sub)) => (resource, Some(sub.to_owned())),
        None => (need.resource, None),
    };
    let question = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                namespace,
                group: Some(need.group.to_owned()),
                verb: Some(need.verb.to_owned()),
                resource: Some(resource.to_owned()),
                subresource,
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let api: Api<SelfSubjectAccessReview> = Api::all(cluster.client.clone());
    let doing = format!("ask whether this user may {need}");
    let params = PostParams::default();
    let answer = call(&doing, cluster.patience, || api.create(&params, &question)).await?;
    let status = answer.status.unwrap_or_default();
    Ok(match status.allowed {
        true => Access::Allowed,
        false => Access::Denied(said(&status.reason.unwrap_or_default())),
    })
}

/// What is missing, in one sentence that says what to do; None when nothing is.
pub fn missing(namespace: &str, answers: &[(Need, Access)]) -> Option<String> {
    let missing: Vec<String> = answers
        .iter()
        .filter(|(_, access)| matches!(access, Access::Denied(_)))
        .map(|(need, _)| format!("{need} ({})", need.because))
        .collect();
    (!missing.is_empty()).then(|| {
        format!(
            "this user may not, in namespace {}: {}; grant it (docs/rbac.yaml)",
            said(namespace),
            missing.join(", ")
        )
    })
}

/// The text of `docs/rbac.yaml`: the least that lets the tool do its work, made from the needs above.
pub fn rbac_yaml() -> String {
    let mut out = String::from(
        "# What dynamo-interconnect-check needs to be allowed. Generated from src/cluster/access.rs.\n\
         # Apply it in the namespace of the deployment and bind it to the user or service account that runs the tool:\n\
         #   kubectl -n NAMESPACE apply -f docs/rbac.yaml\n\
         #   kubectl -n NAMESPACE create rolebinding dynamo-interconnect-check --role=dynamo-interconnect-check --user=USER\n\
         # Only pods/exec could do more than read; --print-script shows everything that is sent through it.\n",
    );
    out.push_str(&role("Role", "dynamo-interconnect-check", &IN_NAMESPACE));
    out.push_str(
        "---\n\
         # Optional. Nodes belong to no namespace, so this is a ClusterRole; without it, facts about nodes are skipped.\n\
         #   kubectl create clusterrolebinding dynamo-interconnect-check-nodes --clusterrole=dynamo-interconnect-check-nodes --user=USER\n",
    );
    out.push_str(&role(
        "ClusterRole",
        "dynamo-interconnect-check-nodes",
        &NODES,
    ));
    out
}

/// A Role or ClusterRole that grants these, each with its reason.
pub(super) fn role(kind: &str, name: &str, needs: &[Need]) -> String {
    let mut out = format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata:\n  name: {name}\nrules:\n"
    );
    let mut rest = needs;
    while let Some(first) = rest.first() {
        let same = rest
            .iter()
            .take_while(|n| (n.group, n.resource) == (first.group, first.resource))
            .count();
        let (rule, after) = rest.split_at(same);
        let verbs: Vec<&str> = rule.iter().map(|n| n.verb).collect();
        for need in rule {
            out.push_str(&format!("  # {}: {}.\n", need.verb, need.because));
        }
        out.push_str(&format!(
            "  - apiGroups: [\"{}\"]\n    resources: [\"{}\"]\n    verbs: [\"{}\"]\n",
            first.group,
            first.resource,
            verbs.join("\", \"")
        ));
        rest = after;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_holds_the_least_that_is_needed() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/rbac.yaml");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(path, rbac_yaml()).unwrap();
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert_eq!(written, rbac_yaml(), "UPDATE=1 cargo test writes it again");
        // No verb that changes anything, except the one that exec needs.
        for need in IN_NAMESPACE.iter().chain(&NODES) {
            let reads = ["get", "list"].contains(&need.verb);
            assert!(reads || need.resource == "pods/exec", "{need}");
        }
    }

    #[test]
    fn what_is_missing_is_named_with_its_reason() {
        let answers = [
            (GET_PODS, Access::Allowed),
            (CREATE_EXEC, Access::Denied(String::new())),
            (LIST_PODS, Access::Unknown(Cause::Gone)),
        ];
        insta::assert_snapshot!(missing("llm", &answers).unwrap(), @"this user may not, in namespace llm: create pods/exec (Kubernetes 1.35 and later check it too, see kubernetes/kubernetes#134577); grant it (docs/rbac.yaml)");
        assert_eq!(missing("llm", &answers[..1]), None);
    }
}
