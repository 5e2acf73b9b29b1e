//! Finding pods: by name, or by label selector in pages.

use super::call::{CallError, call, check_names, pages, said};
use super::connect::Cluster;
use super::project::{Pod, project};
use super::seen;
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

/// All pods that a label selector matches, ordered by name.
pub async fn by_selector(
    cluster: &Cluster,
    namespace: &str,
    selector: &str,
    catalogued: Catalogued<'_>,
) -> Result<Vec<Pod>, CallError> {
    let mut pods = listed(cluster, namespace, selector, &mut |pod| {
        project(pod, catalogued)
    })
    .await?;
    pods.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    Ok(pods)
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
pub async fn with_templates(
    cluster: &Cluster,
    namespace: &str,
    selector: &str,
    catalogued: Catalogued<'_>,
) -> Result<Vec<Templated>, CallError> {
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
    pods.sort_by(|a, b| (&a.pod.namespace, &a.pod.name).cmp(&(&b.pod.namespace, &b.pod.name)));
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
) -> Result<Vec<T>, CallError> {
    let api: Api<api::Pod> = Api::namespaced(cluster.client.clone(), namespace);
    let doing = format!(
        "list pods in namespace {} with selector {}",
        said(namespace),
        said(selector)
    );
    checked(&doing, &[namespace])?;
    let first = ListParams::default().labels(selector).limit(PAGE);
    pages(&doing, cluster.patience, &api, first, reduce).await
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
