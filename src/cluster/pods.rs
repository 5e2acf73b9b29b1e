//! Finding pods: by name, or by label selector in pages.

use super::call::{CallError, Cause, call, check_names};
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

/// How often a list begins anew when the server has forgotten its snapshot (410 Gone).
const RESTARTS: u32 = 2;

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
    let doing = format!("get pod {namespace}/{name}");
    checked(&doing, &[namespace, name])?;
    let pod = call(&doing, cluster.deadline, || api.get(name)).await?;
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
        let whole = serde_json::json!({
            "metadata": {"annotations": pod.metadata.annotations},
            "spec": serving(&pod),
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
            pod: project(pod, catalogued),
            template,
        }
    })
    .await?;
    pods.sort_by(|a, b| (&a.pod.namespace, &a.pod.name).cmp(&(&b.pod.namespace, &b.pod.name)));
    Ok(pods)
}

/// The spec with the one container that serves, by the same rule as everywhere: what stands beside it is not judged.
fn serving(pod: &api::Pod) -> Option<serde_json::Value> {
    let projected = project(pod.clone(), &|_| false);
    let mut spec = pod.spec.clone()?;
    if let Ok(container) = projected.container(None) {
        spec.containers.retain(|c| c.name == container.name);
    }
    serde_json::to_value(spec).ok()
}

async fn listed<T>(
    cluster: &Cluster,
    namespace: &str,
    selector: &str,
    reduce: &mut (dyn FnMut(api::Pod) -> T + Send),
) -> Result<Vec<T>, CallError> {
    let mut restarts = 0;
    loop {
        match all_pages(cluster, namespace, selector, reduce).await {
            Err(CallError {
                cause: Cause::Gone, ..
            }) if restarts < RESTARTS => restarts += 1,
            other => return other,
        }
    }
}

async fn all_pages<T>(
    cluster: &Cluster,
    namespace: &str,
    selector: &str,
    reduce: &mut (dyn FnMut(api::Pod) -> T + Send),
) -> Result<Vec<T>, CallError> {
    let api: Api<api::Pod> = Api::namespaced(cluster.client.clone(), namespace);
    let doing = format!("list pods in namespace {namespace} with selector {selector}");
    checked(&doing, &[namespace])?;
    let mut page = ListParams::default().labels(selector).limit(PAGE);
    let mut pods = Vec::new();
    loop {
        let list = call(&doing, cluster.deadline, || api.list(&page)).await?;
        pods.extend(list.items.into_iter().map(&mut *reduce));
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(pods),
        }
    }
}

fn checked(doing: &str, names: &[&str]) -> Result<(), CallError> {
    check_names(names).map_err(|cause| CallError {
        doing: doing.to_owned(),
        cause,
    })
}

/// Selects the pods of a DynamoGraphDeployment, of both label styles.
pub fn of_deployment(name: &str) -> String {
    format!("nvidia.com/dynamo-graph-deployment-name={name}")
}
