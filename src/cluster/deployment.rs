//! Finding a deployment: the object that describes it, where the operator made it, and its pods of both label styles.
//!
//! <https://github.com/wxsms/dynamo/tree/2a6da14/deploy/operator> for labels and API versions. A cluster without the
//! operator, or without the right to read its objects, still has pods: they are found by label.

use super::call::{CallError, Cause, Listed, call, check_names, pages, said};
use super::connect::Cluster;
use super::pods::{Catalogued, GRAPH, Templated, not_understood, of_deployment, with_templates};
use super::seen::{ClaimKind, claims, config_maps, seen, seen_claim, seen_data};
use crate::report::{InputError, Note, PODS_LIST};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, ListParams};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Label of every pod of the operator, also of those without a graph.
const COMPONENT: &str = "nvidia.com/dynamo-component";

/// Kind of the document that describes pods as they run. Not a kind of Kubernetes.
pub const PODS: &str = "Pods";

/// What the user asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// A DynamoGraphDeployment by name; without one, the only one of the namespace.
    Graph(Option<String>),
    /// Pods by label, whoever made them.
    Selector(String),
}

/// One deployment as the cluster has it.
#[derive(Debug, Clone)]
pub struct Deployment {
    /// Its name; of pods by label, the selector.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The object that describes it, as YAML, reduced to what may be seen.
    pub written: Option<Written>,
    /// Its pods, whatever they do, ordered by name.
    pub pods: Vec<Templated>,
    /// Why they could not be listed, and the object that describes the deployment is all there is; or which of them could not
    /// be understood.
    pub errors: Vec<InputError>,
    /// What was seen on the way.
    pub notes: Vec<Note>,
    /// The selector that finds its pods.
    pub selector: String,
    /// Objects that its pods refer to, as YAML, reduced: ConfigMaps that they take variables or engine files from, and the
    /// templates of their resource claims.
    pub companions: Vec<String>,
}

/// An object of the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// `nvidia.com/v1beta1`.
    pub api_version: String,
    /// YAML.
    pub text: String,
    object: Value,
}

/// Why there is no deployment to look at.
#[derive(Debug)]
pub enum NotFound {
    /// A call failed, and nothing else answers the question.
    Call(CallError),
    /// There is none of this name.
    Name {
        /// As asked for.
        name: String,
        /// Where.
        namespace: String,
        /// What there is.
        others: Vec<String>,
    },
    /// No deployment at all.
    None {
        /// Where.
        namespace: String,
    },
    /// Several, and none named.
    Several {
        /// Where.
        namespace: String,
        /// Their names.
        names: Vec<String>,
    },
    /// A selector that matches nothing.
    NoPod {
        /// The selector.
        selector: String,
        /// Where.
        namespace: String,
    },
}

impl std::error::Error for NotFound {}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(error) => error.fmt(f),
            Self::Name {
                name,
                namespace,
                others,
            } if others.is_empty() => write!(
                f,
                "there is no DynamoGraphDeployment {} in namespace {namespace}, and no pod is labelled as its own; check the \
                 name, -n and --context, or select pods by label (-l)",
                said(name)
            ),
            Self::Name {
                name,
                namespace,
                others,
            } => write!(
                f,
                "there is no DynamoGraphDeployment {} in namespace {namespace}; there {}: {}",
                said(name),
                if others.len() == 1 { "is" } else { "are" },
                shown(others)
            ),
            Self::None { namespace } => write!(
                f,
                "there is no DynamoGraphDeployment in namespace {namespace}, and no pod of one; check -n and --context, or \
                 select pods by label (-l)"
            ),
            Self::Several { namespace, names } => write!(
                f,
                "namespace {namespace} has {} deployments, so name one: {}",
                names.len(),
                shown(names)
            ),
            Self::NoPod {
                selector,
                namespace,
            } => write!(
                f,
                "no pod in namespace {namespace} matches {}; check -l and -n",
                said(selector)
            ),
        }
    }
}

/// Names are listed up to this many.
const SHOWN: usize = 20;

fn shown(names: &[String]) -> String {
    let mut out: Vec<String> = names.iter().take(SHOWN).map(|n| said(n)).collect();
    if names.len() > SHOWN {
        out.push(format!("and {} more", names.len() - SHOWN));
    }
    out.join(", ")
}

/// Finds a deployment and its pods: one list of each kind, side by side where the name is known.
pub async fn find(
    cluster: &Cluster,
    namespace: &str,
    choice: &Choice,
    catalogued: Catalogued<'_>,
) -> Result<Deployment, NotFound> {
    let mut found = match choice {
        Choice::Selector(selector) => by_selector(cluster, namespace, selector, catalogued).await,
        Choice::Graph(name) => by_name(cluster, namespace, name.as_deref(), catalogued).await,
    }?;
    let (maps, claims) = tokio::join!(found.config_maps(cluster), found.claims(cluster));
    for (texts, notes) in [maps, claims] {
        found.companions.extend(texts);
        found.notes.extend(notes);
    }
    Ok(found)
}

/// More ConfigMaps than this are not read, nor more claims.
const REFERRED: usize = 32;

async fn by_selector(
    cluster: &Cluster,
    namespace: &str,
    selector: &str,
    catalogued: Catalogued<'_>,
) -> Result<Deployment, NotFound> {
    let pods = with_templates(cluster, namespace, selector, catalogued)
        .await
        .map_err(NotFound::Call)?;
    let pods = match pods.found.is_empty() {
        // What there is of it cannot be understood.
        true => Listed {
            found: pods.whole("look at these pods").map_err(NotFound::Call)?,
            broken: Vec::new(),
        },
        false => pods,
    };
    let errors = not_understood(namespace, &pods.broken);
    let pods = pods.found;
    if pods.is_empty() {
        return Err(NotFound::NoPod {
            selector: selector.to_owned(),
            namespace: namespace.to_owned(),
        });
    }
    let graphs: BTreeMap<&str, usize> =
        pods.iter()
            .filter_map(|p| p.pod.deployment())
            .fold(BTreeMap::new(), |mut all, name| {
                *all.entry(name).or_default() += 1;
                all
            });
    let mut notes = Vec::new();
    if graphs.len() > 1 {
        let list: Vec<String> = graphs
            .iter()
            .map(|(name, n)| format!("{} ({n} pod{})", said(name), if *n == 1 { "" } else { "s" }))
            .collect();
        notes.push(Note {
            object: format!("-l {}", said(selector)),
            message: format!(
                "the selector matches pods of {} deployments: {}; what is said of them together may be true of neither. Narrow \
                 it, or name one deployment",
                graphs.len(),
                list.join(", ")
            ),
        });
    }
    let name = match graphs.iter().next() {
        Some((name, n)) if graphs.len() == 1 && *n == pods.len() => (*name).to_owned(),
        _ => said(selector),
    };
    Ok(Deployment {
        name,
        namespace: namespace.to_owned(),
        selector: selector.to_owned(),
        written: None,
        pods,
        errors: errors.into_iter().collect(),
        notes,
        companions: Vec::new(),
    })
}

/// What is said where the object may be read and its pods may not be listed.
fn unlisted(error: &CallError) -> InputError {
    let CallError { doing, cause } = error;
    let why = match cause {
        Cause::Forbidden { said } => {
            format!("forbidden ({said}); grant list on pods (docs/rbac.yaml)")
        }
        other => other.to_string(),
    };
    InputError {
        object: PODS_LIST.to_owned(),
        message: format!(
            "cannot {doing}, so only the object that describes the deployment was judged: {why}"
        ),
    }
}

async fn by_name(
    cluster: &Cluster,
    namespace: &str,
    name: Option<&str>,
    catalogued: Catalogued<'_>,
) -> Result<Deployment, NotFound> {
    if let Some(name) = name {
        check_names(&[name]).map_err(|cause| {
            NotFound::Call(CallError {
                doing: "look for this deployment".to_owned(),
                cause,
            })
        })?;
    }
    let selector = name.map_or_else(|| GRAPH.to_owned(), of_deployment);
    let (graphs, pods) = tokio::join!(
        graphs(cluster, namespace),
        with_templates(cluster, namespace, &selector, catalogued)
    );
    let (graphs, mut notes) = graphs;
    // Static knowledge is worth something without the right to list pods, and the other way round.
    let described = |wanted: Option<&str>| {
        let mut names = graphs.iter().flatten().map(|g| &g["metadata"]["name"]);
        names.any(|found| wanted.is_none_or(|wanted| found == wanted))
    };
    let nothing = || Listed {
        found: Vec::new(),
        broken: Vec::new(),
    };
    let (listed, mut lost) = match pods {
        Ok(listed) => (listed, None),
        Err(error) if described(name) => (nothing(), Some(unlisted(&error))),
        Err(error) => return Err(NotFound::Call(error)),
    };
    let Listed {
        found: mut pods,
        mut broken,
    } = listed;
    let mut names: Vec<String> = graphs
        .iter()
        .flatten()
        .filter_map(|g| g["metadata"]["name"].as_str().map(str::to_owned))
        .chain(pods.iter().filter_map(|p| p.pod.labels.graph.clone()))
        .chain(
            broken
                .iter()
                .filter_map(|p| p.labels[GRAPH].as_str().map(said)),
        )
        .collect();
    names.sort();
    names.dedup();
    if name.is_none_or(|name| pods.is_empty() && !names.iter().any(|n| n == name))
        && pods.is_empty()
        && broken.is_empty()
        && lost.is_none()
    {
        // Pods of a standalone component may lack the label; the variable that the operator sets is always there.
        let listed = match with_templates(cluster, namespace, COMPONENT, catalogued).await {
            Ok(listed) => listed,
            Err(error) if described(name) => {
                lost = Some(unlisted(&error));
                nothing()
            }
            Err(error) => return Err(NotFound::Call(error)),
        };
        (pods, broken) = (listed.found, listed.broken);
        let parents = pods
            .iter()
            .filter_map(|p| p.pod.deployment().map(str::to_owned));
        names.extend(parents);
        names.sort();
        names.dedup();
    }
    let name = match name {
        Some(name) if names.iter().any(|n| n == name) => name.to_owned(),
        Some(name) => {
            return Err(NotFound::Name {
                name: name.to_owned(),
                namespace: namespace.to_owned(),
                others: names,
            });
        }
        None => match names.as_slice() {
            [one] => one.clone(),
            [] => {
                return Err(NotFound::None {
                    namespace: namespace.to_owned(),
                });
            }
            _ => {
                return Err(NotFound::Several {
                    namespace: namespace.to_owned(),
                    names,
                });
            }
        },
    };
    pods.retain(|p| p.pod.deployment() == Some(name.as_str()));
    // One without the label may be a part of it.
    broken.retain(|p| p.labels[GRAPH].as_str().is_none_or(|of| said(of) == name));
    let errors = not_understood(namespace, &broken).into_iter().chain(lost);
    let object = graphs
        .unwrap_or_default()
        .into_iter()
        .find(|g| g["metadata"]["name"] == name.as_str());
    if let Some(object) = &object
        && is_hollow(object)
    {
        notes.push(Note {
            object: format!("DynamoGraphDeployment {}", said(&name)),
            message: "its spec has neither services nor components: fields of another API version are lost on read, so nothing \
                      is concluded from it; look at it in the version it was written in"
                .to_owned(),
        });
    }
    Ok(Deployment {
        selector: of_deployment(&name),
        written: object.filter(|o| !is_hollow(o)).map(Written::of),
        name,
        namespace: namespace.to_owned(),
        pods,
        errors: errors.collect(),
        notes,
        companions: Vec::new(),
    })
}

fn is_hollow(object: &Value) -> bool {
    let has = |key: &str| {
        let part = &object["spec"][key];
        part.as_array().is_some_and(|a| !a.is_empty())
            || part.as_object().is_some_and(|o| !o.is_empty())
    };
    !has("services") && !has("components")
}

/// Deployments of one page. They are large, and few.
const PAGE: u32 = 100;

/// The DynamoGraphDeployments of a namespace, reduced; None where nobody could say. v1beta1 is what is stored; v1alpha1 needs
/// the operator's conversion webhook.
async fn graphs(cluster: &Cluster, namespace: &str) -> (Option<Vec<Value>>, Vec<Note>) {
    let note = |message: String| Note {
        object: "DynamoGraphDeployment".to_owned(),
        message,
    };
    match list(cluster, namespace, "v1beta1").await {
        Ok(found) => (Some(found), Vec::new()),
        Err(CallError {
            cause: Cause::NotFound,
            ..
        }) => match list(cluster, namespace, "v1alpha1").await {
            Ok(found) => (Some(found), Vec::new()),
            Err(CallError {
                cause: Cause::NotFound,
                ..
            }) => (
                None,
                vec![note(
                    "this cluster has no such kind of object (the Dynamo operator is not installed), so pods were found by label"
                        .to_owned(),
                )],
            ),
            Err(CallError {
                cause: Cause::Throttled { said },
                ..
            }) => (
                None,
                vec![note(format!(
                    "the API server cannot convert v1alpha1 objects ({said}): the operator's conversion webhook is down; pods \
                     were found by label"
                ))],
            ),
            Err(error) => (None, vec![note(format!("{error}; pods were found by label"))]),
        },
        Err(error) => (None, vec![note(format!("{error}; pods were found by label"))]),
    }
}

async fn list(cluster: &Cluster, namespace: &str, version: &str) -> Result<Vec<Value>, CallError> {
    let resource = ApiResource {
        group: "nvidia.com".to_owned(),
        version: version.to_owned(),
        api_version: format!("nvidia.com/{version}"),
        kind: "DynamoGraphDeployment".to_owned(),
        plural: "dynamographdeployments".to_owned(),
    };
    let doing = format!(
        "list DynamoGraphDeployments in namespace {}",
        said(namespace)
    );
    check_names(&[namespace]).map_err(|cause| CallError {
        doing: doing.clone(),
        cause,
    })?;
    let api: Api<DynamicObject> =
        Api::namespaced_with(cluster.client.clone(), namespace, &resource);
    let first = ListParams::default().limit(PAGE);
    let mut reduce = |object: DynamicObject| {
        let mut whole = object.data;
        whole["apiVersion"] = resource.api_version.as_str().into();
        whole["kind"] = resource.kind.as_str().into();
        whole["metadata"] =
            json!({"name": object.metadata.name, "namespace": object.metadata.namespace});
        seen(&whole)
    };
    pages(&doing, cluster.patience, &api, first, &mut reduce)
        .await?
        .whole(&doing)
}

impl Written {
    fn of(object: Value) -> Self {
        Self {
            api_version: object["apiVersion"].as_str().unwrap_or_default().to_owned(),
            text: yaml(&object),
            object,
        }
    }

    /// A component as it is written.
    fn component(&self, component: &str) -> Option<&Value> {
        let spec = &self.object["spec"];
        let of_list = || {
            let components = spec["components"].as_array()?;
            components.iter().find(|c| c["name"] == component)
        };
        spec["services"].get(component).or_else(of_list)
    }

    /// `multinode` of a component.
    fn multinode(&self, component: &str) -> Option<&Value> {
        self.component(component)?.get("multinode")
    }

    /// How many pods a component is written to have; None where it is not written.
    fn pods(&self, component: &str) -> Option<usize> {
        let entry = self.component(component)?;
        let number = |value: &Value| value.as_u64().map_or(1, |n| n.max(1));
        let replicas = entry["replicas"].as_u64().unwrap_or(1);
        let pods = replicas.saturating_mul(number(&entry["multinode"]["nodeCount"]));
        usize::try_from(pods).ok()
    }
}

async fn config_map(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
    keys: &BTreeSet<String>,
) -> Result<String, CallError> {
    let doing = format!("get ConfigMap {}/{}", said(namespace), said(name));
    check_names(&[namespace, name]).map_err(|cause| CallError {
        doing: doing.clone(),
        cause,
    })?;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), namespace);
    let map = call(&doing, cluster.patience, || api.get(name)).await?;
    let asked: Vec<&str> = keys.iter().map(String::as_str).collect();
    let data = serde_json::to_value(map.data.unwrap_or_default()).unwrap_or_default();
    Ok(yaml(&json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": seen_data(&data, &asked),
    })))
}

/// API versions of resource claims, the newest first: Kubernetes 1.34, 1.33, 1.32.
const CLAIM_VERSIONS: [&str; 3] = ["v1", "v1beta2", "v1beta1"];

/// A claim or its template, reduced to the device classes that it asks for.
async fn claim(
    cluster: &Cluster,
    namespace: &str,
    kind: ClaimKind,
    name: &str,
) -> Result<String, CallError> {
    let doing = format!("get {} {}/{}", kind.word(), said(namespace), said(name));
    let failed = |cause| CallError {
        doing: doing.clone(),
        cause,
    };
    check_names(&[namespace, name]).map_err(failed)?;
    for version in CLAIM_VERSIONS {
        let resource = ApiResource {
            group: "resource.k8s.io".to_owned(),
            version: version.to_owned(),
            api_version: format!("resource.k8s.io/{version}"),
            kind: kind.word().to_owned(),
            plural: kind.plural().to_owned(),
        };
        let api: Api<DynamicObject> =
            Api::namespaced_with(cluster.client.clone(), namespace, &resource);
        match call(&doing, cluster.patience, || api.get(name)).await {
            Ok(object) => {
                return Ok(yaml(&json!({
                    "apiVersion": resource.api_version,
                    "kind": resource.kind,
                    "metadata": {"name": name},
                    "spec": seen_claim(&object.data["spec"]),
                })));
            }
            // No such object, or a server that does not serve this version.
            Err(CallError {
                cause: Cause::NotFound,
                ..
            }) => {}
            Err(error) => return Err(error),
        }
    }
    Err(failed(Cause::NotFound))
}

/// What was read side by side, in the order of the names; `lost` says what is not known where one could not be read.
async fn gathered<F>(reading: Vec<F>, lost: &str) -> (Vec<String>, Vec<Note>)
where
    F: Future<Output = (String, Result<String, CallError>)> + Send + 'static,
{
    let mut set: tokio::task::JoinSet<_> = reading.into_iter().collect();
    let mut found = BTreeMap::new();
    while let Some(joined) = set.join_next().await {
        if let Ok((name, read)) = joined {
            found.insert(name, read);
        }
    }
    let (mut texts, mut notes) = (Vec::new(), Vec::new());
    for (object, read) in found {
        match read {
            Ok(text) => texts.push(text),
            Err(error) => notes.push(Note {
                object,
                message: format!("{error}; {lost}"),
            }),
        }
    }
    (texts, notes)
}

fn yaml(value: &Value) -> String {
    // What cannot be written as YAML is still YAML as JSON.
    serde_saphyr::to_string(value).unwrap_or_else(|_| value.to_string())
}

impl Deployment {
    /// Specs of the pods, each template once; without pods that of the object.
    fn specs(&self) -> Vec<Value> {
        let mut templates: Vec<&str> = self.pods.iter().map(|p| &*p.template).collect();
        templates.sort_unstable();
        templates.dedup();
        let parsed = templates.into_iter().map(serde_json::from_str);
        let mut specs: Vec<Value> = parsed.map(Result::unwrap_or_default).collect();
        if let (true, Some(written)) = (self.pods.is_empty(), &self.written) {
            specs.push(written.object.clone());
        }
        specs
    }

    /// The ConfigMaps that the pods refer to. Of each that cannot be read a note says so.
    async fn config_maps(&self, cluster: &Cluster) -> (Vec<String>, Vec<Note>) {
        let mut wanted = BTreeMap::new();
        for spec in self.specs() {
            config_maps(&spec, &mut wanted);
        }
        let read = wanted
            .into_iter()
            .take(REFERRED)
            .map(|(name, keys)| {
                let (cluster, namespace) = (cluster.clone(), self.namespace.clone());
                async move {
                    let read = config_map(&cluster, &namespace, &name, &keys).await;
                    (format!("ConfigMap {}", said(&name)), read)
                }
            })
            .collect();
        gathered(
            read,
            "what it sets is known only where the worker's process shows it",
        )
        .await
    }

    /// The resource claims of the pods: they say what a pod gets by DRA. Of each that cannot be read a note says so.
    async fn claims(&self, cluster: &Cluster) -> (Vec<String>, Vec<Note>) {
        let mut wanted = BTreeSet::new();
        for spec in self.specs() {
            claims(&spec, &mut wanted);
        }
        let read = wanted
            .into_iter()
            .take(REFERRED)
            .map(|(kind, name)| {
                let (cluster, namespace) = (cluster.clone(), self.namespace.clone());
                async move {
                    let read = claim(&cluster, &namespace, kind, &name).await;
                    (format!("{} {}", kind.word(), said(&name)), read)
                }
            })
            .collect();
        gathered(
            read,
            "so it is not known which devices the pods get by this claim",
        )
        .await
    }

    /// What happened to these pods since they were listed: a second look, for when some of them could not be read to the end.
    pub async fn since(&self, cluster: &Cluster, pods: &[&str]) -> Vec<Note> {
        let now = match super::pods::selected(cluster, &self.namespace, &self.selector, &|_| false)
            .await
        {
            Ok(now) => now.found,
            Err(error) => {
                return vec![Note {
                    object: "pods".to_owned(),
                    message: format!(
                        "{error}; so it is not known what became of the pods that were lost"
                    ),
                }];
            }
        };
        let restarts =
            |pod: &super::project::Pod| pod.containers.iter().map(|c| c.restarts).sum::<i32>();
        let before = self
            .pods
            .iter()
            .map(|p| &p.pod)
            .filter(|p| pods.contains(&p.name.as_str()));
        before
            .filter_map(|before| {
                let message = match now.iter().find(|p| p.name == before.name) {
                    None => "was deleted during the run; run it again".to_owned(),
                    Some(now) if now.uid != before.uid => format!(
                        "was replaced during the run (now on node {}); run it again",
                        now.node.as_deref().unwrap_or("(none)")
                    ),
                    Some(now) if now.deleting && !before.deleting => {
                        "is being deleted; run it again when its successor is there".to_owned()
                    }
                    Some(now) if restarts(now) > restarts(before) => {
                        "was restarted during the run; `kubectl logs --previous` says why"
                            .to_owned()
                    }
                    Some(_) => return None,
                };
                Some(Note {
                    object: format!("pod {}/{}", before.namespace, before.name),
                    message,
                })
            })
            .collect()
    }

    /// Group of a pod: its component; else what made it; else itself.
    pub fn group(pod: &super::project::Pod) -> &str {
        let labels = &pod.labels;
        labels
            .component
            .as_deref()
            .or(pod.owner.as_deref())
            .unwrap_or(&pod.name)
    }

    /// The pods as they run, as one manifest: a group per component, with the template of its newest pod.
    pub fn running(&self) -> Option<String> {
        if self.pods.is_empty() {
            return None;
        }
        let groups: Vec<Value> = self
            .groups()
            .into_iter()
            .map(|(name, pods)| self.group_of(name, &pods))
            .collect();
        let api_version = self
            .written
            .as_ref()
            .map_or("v1", |w| w.api_version.as_str());
        Some(yaml(&json!({
            "apiVersion": api_version,
            "kind": PODS,
            "metadata": {"name": self.name, "namespace": self.namespace},
            "groups": groups,
        })))
    }

    /// The pods by group. One that is over counts no more where all that are written are ready without it.
    fn groups(&self) -> BTreeMap<&str, Vec<&Templated>> {
        let mut groups: BTreeMap<&str, Vec<&Templated>> = BTreeMap::new();
        for pod in &self.pods {
            groups.entry(Self::group(&pod.pod)).or_default().push(pod);
        }
        for (name, pods) in &mut groups {
            let ready = pods.iter().filter(|pod| pod.pod.is_ready()).count();
            let written = self.written.as_ref().and_then(|w| w.pods(name));
            if ready > 0 && written.is_some_and(|written| ready >= written) {
                pods.retain(|pod| !pod.pod.is_over());
            }
        }
        groups
    }

    fn group_of(&self, name: &str, pods: &[&Templated]) -> Value {
        let newest = pods.iter().max_by_key(|p| (&p.pod.created, &p.pod.name));
        let template: Value = newest
            .and_then(|p| serde_json::from_str(&p.template).ok())
            .unwrap_or_default();
        let mut group = json!({"name": name, "replicas": pods.len(), "podTemplate": template});
        let labels = newest.map(|p| &p.pod.labels);
        let role = newest.and_then(|p| p.pod.role());
        let kind = match (labels.and_then(|l| l.component_type.as_deref()), role) {
            (Some(kind), _) => Some(kind),
            (None, Some(role)) => Some(role.word()),
            (None, None) => None,
        };
        if let Some(kind) = kind {
            group["type"] = kind.into();
        }
        if let Some(sub) = labels.and_then(|l| l.sub_component_type.as_deref()) {
            group["subComponentType"] = sub.into();
        }
        if let Some(multinode) = self.written.as_ref().and_then(|w| w.multinode(name)) {
            group["multinode"] = multinode.clone();
        }
        group
    }

    /// Components whose pods do not all have the same template: a rollout is under way, or one was edited by hand.
    pub fn mixed(&self) -> Vec<&str> {
        self.groups()
            .into_iter()
            .filter(|(_, all)| all.iter().any(|pod| pod.template != all[0].template))
            .map(|(name, _)| name)
            .collect()
    }
}
