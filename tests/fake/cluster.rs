//! The API server: stored objects and lists with selectors and pages, access reviews from a deny list, faults on request,
//! and a log of everything that was asked.

use super::kubelet::{self, Exec};
use super::pod::FakePod;
use super::tls::Identity;
use axum::body::{Body, to_bytes};
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::serve::ListenerExt;
use axum::{Json, Router};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// One request as it came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged {
    /// HTTP method.
    pub method: String,
    /// Path.
    pub path: String,
    /// Query, decoded.
    pub query: Vec<(String, String)>,
    /// When it came in.
    pub at: Instant,
}

/// Answers that replace the usual one for some requests.
struct Fault {
    /// In the path and query of the request.
    contains: String,
    /// For how many requests.
    times: usize,
    answer: Value,
    code: u16,
}

/// What is wrong with every answer to some requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Odd {
    /// The list goes on with the same token for ever.
    Again,
    /// The list goes on with a new token for ever.
    Onward,
    /// More bytes than any answer has.
    Flood,
}

/// Describes the cluster to start.
#[derive(Default)]
pub struct Builder {
    objects: BTreeMap<String, Value>,
    pods: BTreeMap<String, FakePod>,
    deny: Vec<(String, String)>,
    faults: Vec<Fault>,
    token: Option<String>,
    identity: Option<Identity>,
    odd: Vec<(String, Odd)>,
    v4_only: bool,
    before_1_35: bool,
    orphans: bool,
    slow: Duration,
    redirects: Vec<(String, String)>,
    later: BTreeMap<String, Option<Value>>,
    seed: u64,
}

impl Builder {
    /// A node.
    pub fn node(self, name: &str) -> Self {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        self.object(&format!("/api/v1/nodes/{name}"), node)
    }

    /// A running pod with one container `main`, whose processes see the fixture tree as `ROOT`.
    pub fn pod(self, namespace: &str, name: &str, root: impl Into<PathBuf>) -> Self {
        self.with(FakePod::new(namespace, name, root))
    }

    /// A pod made by hand.
    pub fn with(mut self, pod: FakePod) -> Self {
        let path = pod.path();
        self.objects.insert(path.clone(), pod.object.clone());
        self.pods.insert(path, pod);
        self
    }

    /// Any object at its path.
    pub fn object(mut self, path: &str, object: Value) -> Self {
        self.objects.insert(path.to_owned(), object);
        self
    }

    /// What becomes of the object at this path once the first exec has begun: another one, or nothing.
    pub fn later(mut self, path: &str, object: Option<Value>) -> Self {
        self.later.insert(path.to_owned(), object);
        self
    }

    /// Denies a verb on a resource: `get`, `pods/exec`.
    pub fn deny(mut self, verb: &str, resource: &str) -> Self {
        self.deny.push((verb.to_owned(), resource.to_owned()));
        self
    }

    /// Speaks only the older exec subprotocol.
    pub fn v4_only(mut self) -> Self {
        self.v4_only = true;
        self
    }

    /// Asks only for `get` on pods/exec, as servers up to 1.34 do.
    pub fn before_1_35(mut self) -> Self {
        self.before_1_35 = true;
        self
    }

    /// Answers the next `times` requests whose path and query contain this with an error Status; a JSON string instead
    /// of an object is sent as plain text.
    pub fn fault(mut self, contains: &str, times: usize, code: u16, answer: Value) -> Self {
        self.faults.push(Fault {
            contains: contains.to_owned(),
            times,
            answer,
            code,
        });
        self
    }

    /// Sends every request whose path contains this elsewhere (301).
    pub fn redirect(mut self, contains: &str, to: &str) -> Self {
        self.redirects.push((contains.to_owned(), to.to_owned()));
        self
    }

    /// Answers every request whose path contains this in an odd way.
    pub fn odd(mut self, contains: &str, odd: Odd) -> Self {
        self.odd.push((contains.to_owned(), odd));
        self
    }

    /// Forgets the snapshot of a continued list, this many times.
    pub fn expire_lists(self, times: usize) -> Self {
        let said =
            json!({"reason": "Expired", "message": "The provided continue parameter is too old"});
        self.fault("continue=", times, 410, said)
    }

    /// Answers after a while. Not exec.
    pub fn slow(mut self, pause: Duration) -> Self {
        self.slow = pause;
        self
    }

    /// Accepts only this bearer token, which the kubeconfig holds.
    pub fn token(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self
    }

    /// Speaks TLS as this.
    pub fn tls(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// Leaves processes running when the client goes away, as a real kubelet does.
    pub fn orphans_live_on(mut self) -> Self {
        self.orphans = true;
        self
    }

    /// Decides how output is cut into chunks.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Starts it on a free port.
    pub async fn start(mut self) -> FakeCluster {
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        let identity = self.identity.take();
        let faults = std::mem::take(&mut self.faults);
        let world = Arc::new(World {
            seed: AtomicU64::new(self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1),
            described: self,
            faults: Mutex::new(faults),
            log: Mutex::default(),
            execs: AtomicUsize::new(0),
            most_execs: AtomicUsize::new(0),
        });
        let app = Router::new()
            .fallback(answer)
            .with_state(Arc::clone(&world));
        let dir = TempDir::new().unwrap();
        let (url, authority, task) = match identity {
            None => {
                // As real API servers do; otherwise small frames wait for acknowledgements, 40 ms each.
                let tcp = tcp.tap_io(|socket| socket.set_nodelay(true).unwrap());
                let task = tokio::spawn(async move { axum::serve(tcp, app).await.unwrap() });
                (format!("http://{address}"), None, task)
            }
            Some(identity) => {
                let listener = identity.listen(tcp);
                let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
                let path = dir.path().join("ca.crt");
                std::fs::write(&path, &identity.pem).unwrap();
                (format!("https://{address}"), Some(path), task)
            }
        };
        FakeCluster {
            world,
            url,
            authority,
            dir,
            task,
        }
    }
}

/// A running cluster; it ends when dropped.
pub struct FakeCluster {
    world: Arc<World>,
    /// Address of the API server.
    pub url: String,
    authority: Option<PathBuf>,
    dir: TempDir,
    task: JoinHandle<()>,
}

impl Drop for FakeCluster {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl FakeCluster {
    /// Describes a cluster.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Path of a kubeconfig for it. `user` replaces the user entry: `{token: ...}`, `{exec: ...}`.
    pub fn kubeconfig_for(&self, user: Value) -> PathBuf {
        let mut cluster = json!({"server": self.url});
        if let Some(path) = &self.authority {
            cluster["certificate-authority"] = json!(path);
        }
        self.write_kubeconfig(cluster, user)
    }

    /// Path of a kubeconfig that works.
    pub fn kubeconfig(&self) -> PathBuf {
        let token = self.world.described.token.as_deref();
        self.kubeconfig_for(token.map_or(json!({}), |t| json!({"token": t})))
    }

    /// Path of a kubeconfig with this cluster entry and user entry.
    pub fn write_kubeconfig(&self, cluster: Value, user: Value) -> PathBuf {
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "fake",
            "clusters": [{"name": "fake", "cluster": cluster}],
            "users": [{"name": "fake", "user": user}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake", "namespace": "llm"}}],
        });
        let path = self.dir.path().join("kubeconfig");
        // JSON is YAML.
        std::fs::write(&path, config.to_string()).unwrap();
        path
    }

    /// Everything that was asked so far.
    pub fn requests(&self) -> Vec<Logged> {
        self.world.log.lock().unwrap().clone()
    }

    /// Requests that are neither a GET (exec is one) nor an access review: must be empty for a read-only tool.
    pub fn writes(&self) -> Vec<Logged> {
        let mut log = self.requests();
        log.retain(|r| r.method != "GET" && !(r.method == "POST" && r.path == REVIEWS));
        log
    }

    /// Execs that run now.
    pub fn open_execs(&self) -> usize {
        self.world.execs.load(Ordering::SeqCst)
    }

    /// Most execs that ran at the same time.
    pub fn most_execs(&self) -> usize {
        self.world.most_execs.load(Ordering::SeqCst)
    }
}

struct World {
    described: Builder,
    faults: Mutex<Vec<Fault>>,
    log: Mutex<Vec<Logged>>,
    seed: AtomicU64,
    execs: AtomicUsize,
    most_execs: AtomicUsize,
}

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

async fn answer(State(world): State<Arc<World>>, request: Request) -> Response {
    let (path, query) = (request.uri().path().to_owned(), query(&request));
    let logged = Logged {
        method: request.method().to_string(),
        path: path.clone(),
        query: query.clone(),
        at: Instant::now(),
    };
    world.log.lock().unwrap().push(logged);
    if let Some(token) = &world.described.token {
        let sent = request
            .headers()
            .get(header::AUTHORIZATION)
            .and_then(|h| h.to_str().ok());
        if sent != Some(format!("Bearer {token}").as_str()) {
            return status(401, "Unauthorized", "Unauthorized");
        }
    }
    let redirects = &world.described.redirects;
    if let Some((_, to)) = redirects.iter().find(|(part, _)| path.contains(part)) {
        let location = [(header::LOCATION, to.clone())];
        return (StatusCode::MOVED_PERMANENTLY, location).into_response();
    }
    if let Some((code, answer)) = world.fault(&request.uri().to_string()) {
        return failure(code, answer);
    }
    if let Some(pod) = path.strip_suffix("/exec") {
        return exec(&world, pod, &query, request).await;
    }
    tokio::time::sleep(world.described.slow).await;
    let mut odd = world.described.odd.iter();
    if let Some((_, odd)) = odd.find(|(contains, _)| path.contains(contains)) {
        return odd.answer(world.log.lock().unwrap().len());
    }
    match path.as_str() {
        REVIEWS => review(&world, request).await,
        "/version" => Json(json!({
            "major": "1", "minor": "36", "gitVersion": "v1.36.2", "gitCommit": "", "gitTreeState": "",
            "buildDate": "", "goVersion": "", "compiler": "", "platform": "",
        }))
        .into_response(),
        _ => world.read(&path, &query),
    }
}

impl Odd {
    fn answer(self, asked: usize) -> Response {
        let token = match self {
            Self::Again => "again".to_owned(),
            Self::Onward => asked.to_string(),
            Self::Flood => return Body::from(vec![b' '; (64 << 20) + 1]).into_response(),
        };
        let metadata = json!({"resourceVersion": "1", "continue": token});
        Json(json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": []}))
            .into_response()
    }
}

impl World {
    fn fault(&self, uri: &str) -> Option<(u16, Value)> {
        let mut faults = self.faults.lock().unwrap();
        let fault = faults
            .iter_mut()
            .find(|f| f.times > 0 && uri.contains(&f.contains))?;
        fault.times -= 1;
        Some((fault.code, fault.answer.clone()))
    }

    fn denied(&self, verb: &str, resource: &str) -> bool {
        self.described
            .deny
            .iter()
            .any(|(v, r)| v == verb && r == resource)
    }

    /// An object as it stands now.
    fn now<'a>(&'a self, path: &str, object: &'a Value) -> Option<&'a Value> {
        let begun = self.most_execs.load(Ordering::SeqCst) > 0;
        match self.described.later.get(path).filter(|_| begun) {
            Some(later) => later.as_ref(),
            None => Some(object),
        }
    }

    fn read(&self, path: &str, query: &[(String, String)]) -> Response {
        let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let object = self.described.objects.get(path);
        if let Some(object) = object.and_then(|object| self.now(path, object)) {
            let resource = last(path.rsplit_once('/').map_or("", |(parent, _)| parent));
            if self.denied("get", &resource) {
                return forbidden("get", &resource);
            }
            return Json(object.clone()).into_response();
        }
        let items: Vec<&Value> = self
            .described
            .objects
            .iter()
            .filter(|(p, _)| p.rsplit_once('/').is_some_and(|(parent, _)| parent == path))
            .filter_map(|(path, object)| self.now(path, object))
            .collect();
        if items.is_empty() && !["pods", "nodes"].contains(&last(path).as_str()) {
            let name = last(path);
            return status(404, "NotFound", &format!("\"{name}\" not found"));
        }
        if self.denied("list", &last(path)) {
            return forbidden("list", &last(path));
        }
        list(items, query)
    }
}

fn list(items: Vec<&Value>, query: &[(String, String)]) -> Response {
    let asked = |key: &str| {
        query
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, v)| v.as_str())
    };
    let Ok(matching) = matching(items, asked("labelSelector").unwrap_or_default()) else {
        return status(400, "BadRequest", "unable to parse requirement");
    };
    let from: usize = asked("continue").and_then(|c| c.parse().ok()).unwrap_or(0);
    let limit: usize = asked("limit")
        .and_then(|l| l.parse().ok())
        .unwrap_or(usize::MAX);
    let until = from.saturating_add(limit).min(matching.len());
    let mut metadata = json!({"resourceVersion": "1"});
    if until < matching.len() {
        metadata["continue"] = until.to_string().into();
    }
    let kind = matching
        .first()
        .and_then(|i| i["kind"].as_str())
        .unwrap_or("");
    Json(json!({"kind": format!("{kind}List"), "apiVersion": "v1", "metadata": metadata, "items": matching[from..until]}))
        .into_response()
}

/// `a=b`, `a==b`, `a!=b`, `a in (b,c)`, `a notin (b,c)`, `a`, `!a`, joined by commas.
fn matching<'a>(items: Vec<&'a Value>, selector: &str) -> Result<Vec<&'a Value>, ()> {
    let mut requirements = Vec::new();
    let mut depth = 0;
    let parts = selector.split(|c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    });
    for part in parts.map(str::trim).filter(|p| !p.is_empty()) {
        let set = |list: &str| -> Vec<String> {
            list.trim_matches(|c| "() ".contains(c))
                .split(',')
                .map(|v| v.trim().to_owned())
                .collect()
        };
        let (key, wanted, values) = if let Some((k, v)) = part.split_once(" notin ") {
            (k, false, Some(set(v)))
        } else if let Some((k, v)) = part.split_once(" in ") {
            (k, true, Some(set(v)))
        } else if let Some((k, v)) = part.split_once("!=") {
            (k, false, Some(vec![v.to_owned()]))
        } else if let Some((k, v)) = part.split_once("==").or_else(|| part.split_once('=')) {
            (k, true, Some(vec![v.to_owned()]))
        } else if let Some(k) = part.strip_prefix('!') {
            (k, false, None)
        } else {
            (part, true, None)
        };
        if key.trim().is_empty() || key.trim().contains(' ') {
            return Err(());
        }
        requirements.push((key.trim().to_owned(), wanted, values));
    }
    let fits = |item: &&Value| {
        requirements.iter().all(|(key, wanted, values)| {
            let label = item["metadata"]["labels"][key.as_str()].as_str();
            let holds = match (label, values) {
                (Some(label), Some(values)) => values.iter().any(|v| v == label),
                (Some(_), None) => true,
                (None, _) => false,
            };
            holds == *wanted
        })
    };
    Ok(items.into_iter().filter(fits).collect())
}

async fn review(world: &World, request: Request) -> Response {
    let body = to_bytes(request.into_body(), 1 << 20)
        .await
        .unwrap_or_default();
    let mut review: Value = serde_json::from_slice(&body).unwrap_or_default();
    let asked = &review["spec"]["resourceAttributes"];
    let text = |key: &str| asked[key].as_str().unwrap_or_default().to_owned();
    let resource = match text("subresource") {
        sub if sub.is_empty() => text("resource"),
        sub => format!("{}/{sub}", text("resource")),
    };
    let allowed = !world.denied(&text("verb"), &resource);
    review["status"] = json!({"allowed": allowed});
    (StatusCode::CREATED, Json(review)).into_response()
}

async fn exec(
    world: &Arc<World>,
    path: &str,
    query: &[(String, String)],
    request: Request,
) -> Response {
    let name = path.rsplit('/').next().unwrap_or_default();
    if world.denied("get", "pods/exec") {
        return forbidden("get", "pods/exec");
    }
    if world.denied("create", "pods/exec") && !world.described.before_1_35 {
        return status(403, "Forbidden", &format!("pods \"{name}\" is forbidden: "));
    }
    let Some(pod) = world.described.pods.get(path) else {
        return status(404, "NotFound", &format!("pods \"{name}\" not found"));
    };
    let choices = pod.containers();
    match query.iter().find(|(k, _)| k == "container") {
        Some((_, container)) if !choices.contains(&container.as_str()) => {
            let said = format!("container {container} is not valid for pod {name}");
            return status(400, "BadRequest", &said);
        }
        None if choices.len() > 1 => {
            let names = choices.join(" ");
            let said = format!(
                "a container name must be specified for pod {name}, choose one of: [{names}]"
            );
            return status(400, "BadRequest", &said);
        }
        _ => {}
    }
    match &pod.exec {
        Exec::NeverAnswers => std::future::pending().await,
        Exec::Refuse(code, answer) => return failure(*code, answer.clone()),
        _ => {}
    }
    let upgrade = WebSocketUpgrade::from_request_parts(&mut request.into_parts().0, &()).await;
    let Ok(upgrade) = upgrade else {
        return status(
            400,
            "BadRequest",
            "you must specify at least 1 of stdin, stdout, stderr",
        );
    };
    let kubelet_request = kubelet::Request {
        argv: query
            .iter()
            .filter(|(k, _)| k == "command")
            .map(|(_, v)| v.clone())
            .collect(),
        root: pod.root.clone(),
        env: pod.env.clone(),
        wrap: pod.wrap.clone(),
        exec: pod.exec.clone(),
        seed: world.seed.fetch_add(0x9e37_79b9, Ordering::Relaxed),
        orphans: world.described.orphans,
    };
    let protocols: &[&str] = match world.described.v4_only {
        true => &["v4.channel.k8s.io"],
        false => &["v5.channel.k8s.io", "v4.channel.k8s.io"],
    };
    let world = Arc::clone(world);
    upgrade
        .protocols(protocols.iter().copied())
        .on_upgrade(move |socket| async move {
            let now = world.execs.fetch_add(1, Ordering::SeqCst) + 1;
            world.most_execs.fetch_max(now, Ordering::SeqCst);
            kubelet::serve(socket, kubelet_request).await;
            world.execs.fetch_sub(1, Ordering::SeqCst);
        })
}

fn forbidden(verb: &str, resource: &str) -> Response {
    let said = format!(
        "{resource} is forbidden: User \"fake\" cannot {verb} resource \"{resource}\" in API group \"\" in the namespace \"llm\""
    );
    status(403, "Forbidden", &said)
}

fn status(code: u16, reason: &str, message: &str) -> Response {
    failure(code, json!({"reason": reason, "message": message}))
}

/// An error as the API server sends it; a JSON string becomes plain text.
fn failure(code: u16, mut answer: Value) -> Response {
    let code = StatusCode::from_u16(code).unwrap();
    if let Some(text) = answer.as_str() {
        return (code, Body::from(text.to_owned())).into_response();
    }
    let fixed = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code.as_u16()});
    for (key, value) in fixed.as_object().unwrap() {
        answer[key.as_str()] = value.clone();
    }
    (code, Json(answer)).into_response()
}

fn query(request: &Request) -> Vec<(String, String)> {
    let pairs = request
        .uri()
        .query()
        .unwrap_or_default()
        .split('&')
        .filter(|p| !p.is_empty());
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(key, value)| (decoded(key), decoded(value)))
        .collect()
}

fn decoded(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let hex = [bytes.next().unwrap_or(b'0'), bytes.next().unwrap_or(b'0')];
                let hex = std::str::from_utf8(&hex).unwrap_or("3f");
                u8::from_str_radix(hex, 16).unwrap_or(b'?')
            }
            other => other,
        });
    }
    String::from_utf8_lossy(&out).into_owned()
}
