//! Finding pods: by name, or by label selector in pages.

use super::call::{Broken, CallError, Listed, call, check_names, pages, said};
use super::connect::Cluster;
use super::project::{Pod, project};
use super::seen;
use crate::report::InputError;
use k8s_openapi::api::core::v1 as api;
use kube::Api;
use kube::api::ListParams;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Pods of one page: few round trips for large namespaces, and a bound on what is held before it is reduced.
const PAGE: u32 = 250;

/// Decides by name which variables may be seen.
pub type Catalogued<'a> = &'a (dyn Fn(&str) -> bool + Sync);

/// One pod by its name.
pub async fn by_name(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
    catalogued: Catalogued<'_>,
) -> Result<Pod, CallError> {
    let api: Api<api::Pod> = Api::namespaced(cluster.client.clone(), namespace);
    let doing = format!("get pod {}/{}", said(namespace), said(name));
    checked(&doing, &[namespace, name])?;
    let pod = call(&doing, cluster.patience, || api.get(name)).await?;
    Ok(project(pod, catalogued))
}

/// All pods that a label selector matches, ordered by name. Each of them must be understood.
pub async fn by_selector(
    cluster: &Cluster,
    namespace: &str,
    selector: &str,
    catalogued: Catalogued<'_>,
) -> Result<Vec<Pod>, CallError> {
    let pods = selected(cluster, namespace, selector, catalogued).await?;
    pods.whole(&doing(namespace, selector))
}

/// The same with those that could not be understood beside the others.
pub(crate) async fn selected(
    cluster: &Cluster,
    namespace: &str,
    selector: &str,
    catalogued: Catalogued<'_>,
) -> Result<Listed<Pod>, CallError> {
    let mut pods = listed(cluster, namespace, selector, &mut |pod| {
        project(pod, catalogued)
    })
    .await?;
    let key = |pod: &Pod| (pod.namespace.clone(), pod.name.clone());
    pods.found.sort_by_cached_key(key);
    Ok(pods)
}

/// What is said of pods that could not be understood; None where there is none.
pub(crate) fn not_understood(namespace: &str, broken: &[Broken]) -> Option<InputError> {
    /// Names are listed up to this many.
    const SHOWN: usize = 5;
    let first = broken.first()?;
    let names: Vec<&str> = broken.iter().map(|b| b.name.as_str()).take(SHOWN).collect();
    let more = match broken.len() - names.len() {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    let word = if broken.len() == 1 { "pod" } else { "pods" };
    let only = match broken.len() {
        1 => "it is",
        _ => "they are",
    };
    Some(InputError {
        object: format!(
            "{word} {} in namespace {}{more}",
            names.join(", "),
            said(namespace)
        ),
        message: format!(
            "{only} not what the API promises ({}), so nothing is known of {}; look with `kubectl get pod {} -o yaml`",
            first.why,
            if broken.len() == 1 { "it" } else { "them" },
            first.name
        ),
    })
}

/// A pod, and what of its template may be seen. Pods of one template share the text.
#[derive(Debug, Clone)]
pub struct Templated {
    /// The pod.
    pub pod: Pod,
    /// `metadata` and `spec` as JSON, reduced.
    pub template: Arc<str>,
}

/// All pods that a label selector matches, with their templates, ordered by name.
pub(crate) async fn with_templates(
    cluster: &Cluster,
    namespace: &str,
    selector: &str,
    catalogued: Catalogued<'_>,
) -> Result<Listed<Templated>, CallError> {
    let mut templates: BTreeSet<Arc<str>> = BTreeSet::new();
    let mut pods = listed(cluster, namespace, selector, &mut |pod: api::Pod| {
        let projected = project(pod.clone(), catalogued);
        let whole = serde_json::json!({
            "metadata": {"annotations": pod.metadata.annotations},
            "spec": serving(pod.spec, &projected),
        });
        let text = seen::seen(&whole).to_string();
        let template = match templates.get(text.as_str()) {
            Some(known) => Arc::clone(known),
            None => {
                let new: Arc<str> = text.into();
                templates.insert(Arc::clone(&new));
                new
            }
        };
        Templated {
            pod: projected,
            template,
        }
    })
    .await?;
    let key = |pod: &Templated| (pod.pod.namespace.clone(), pod.pod.name.clone());
    pods.found.sort_by_cached_key(key);
    Ok(pods)
}

/// The spec with the one container that serves, by the same rule as everywhere: what stands beside it is not judged.
fn serving(spec: Option<api::PodSpec>, pod: &Pod) -> Option<serde_json::Value> {
    let mut spec = spec?;
    if let Ok(container) = pod.container(None) {
        spec.containers.retain(|c| c.name == container.name);
    }
    serde_json::to_value(spec).ok()
}

async fn listed<T: Send>(
    cluster: &Cluster,
    namespace: &str,
    selector: &str,
    reduce: &mut (dyn FnMut(api::Pod) -> T + Send),
) -> Result<Listed<T>, CallError> {
    let api: Api<api::Pod> = Api::namespaced(cluster.client.clone(), namespace);
    let doing = doing(namespace, selector);
    checked(&doing, &[namespace])?;
    let first = ListParams::default().labels(selector).limit(PAGE);
    pages(&doing, cluster.patience, &api, first, reduce).await
}

fn doing(namespace: &str, selector: &str) -> String {
    format!(
        "list pods in namespace {} with selector {}",
        said(namespace),
        said(selector)
    )
}

fn checked(doing: &str, names: &[&str]) -> Result<(), CallError> {
    check_names(names).map_err(|cause| CallError {
        doing: doing.to_owned(),
        cause,
    })
}

/// Label of every pod of a DynamoGraphDeployment, of both label styles.
pub const GRAPH: &str = "nvidia.com/dynamo-graph-deployment-name";

/// Selects the pods of a DynamoGraphDeployment.
pub fn of_deployment(name: &str) -> String {
    format!("{GRAPH}={name}")
}
