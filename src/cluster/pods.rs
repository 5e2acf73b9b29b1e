//! Finding pods: by name, or by label selector in pages.

use super::call::{CallError, Cause, call, check_names};
use super::connect::Cluster;
use super::project::{Pod, project};
use k8s_openapi::api::core::v1 as api;
use kube::Api;
use kube::api::ListParams;

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
    let mut restarts = 0;
    let mut pods = loop {
        match all_pages(cluster, namespace, selector, catalogued).await {
            Err(CallError {
                cause: Cause::Gone, ..
            }) if restarts < RESTARTS => restarts += 1,
            other => break other?,
        }
    };
    pods.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    Ok(pods)
}

async fn all_pages(
    cluster: &Cluster,
    namespace: &str,
    selector: &str,
    catalogued: Catalogued<'_>,
) -> Result<Vec<Pod>, CallError> {
    let api: Api<api::Pod> = Api::namespaced(cluster.client.clone(), namespace);
    let doing = format!("list pods in namespace {namespace} with selector {selector}");
    checked(&doing, &[namespace])?;
    let mut page = ListParams::default().labels(selector).limit(PAGE);
    let mut pods = Vec::new();
    loop {
        let list = call(&doing, cluster.deadline, || api.list(&page)).await?;
        pods.extend(list.items.into_iter().map(|pod| project(pod, catalogued)));
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
