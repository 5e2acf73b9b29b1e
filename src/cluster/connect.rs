//! From a kubeconfig or a pod's service account to a client that has spoken to its API server once.

use super::call::{
    CallError, Cause, LARGEST, Patience, Redirected, call, credential_fault, said, seconds,
};
use super::flow::Mutual;
use super::kubeconfig::{self, KubeconfigFault, Source, Surroundings};
use super::plugin::{self, Login, PluginFault};
use http::Response;
use http_body_util::Limited;
use hyper_util::client::legacy::{self, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::client::{ClientBuilder, ConfigExt, RustlsTlsError};
use kube::config::{
    ExecConfig, ExecInteractiveMode, KubeConfigOptions, KubeconfigError, LoadDataError,
};
use kube::{Client, Config};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tower::buffer::BufferLayer;
use tower::filter::AsyncFilterLayer;
use tower::util::{MapResultLayer, option_layer};
use tower::{BoxError, ServiceBuilder, ServiceExt as _};

/// What the user chose.
#[derive(Debug, Clone)]
pub struct Options {
    /// `--kubeconfig`.
    pub kubeconfig: Option<PathBuf>,
    /// `--context`.
    pub context: Option<String>,
    /// For a credential plugin, and again for the first answer of the API server.
    pub deadline: Duration,
    /// The end of the whole run, for this and every later call.
    pub until: Option<Instant>,
    /// A person sits at the terminal, so a credential plugin may ask questions there.
    pub interactive: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            kubeconfig: None,
            context: None,
            deadline: Duration::from_secs(15),
            until: None,
            interactive: false,
        }
    }
}

/// A cluster that answered.
#[derive(Clone)]
pub struct Cluster {
    /// The client. Cheap to clone.
    pub client: Client,
    /// Namespace of the context, or of the service account.
    pub namespace: String,
    /// Name of the context; None in a pod.
    pub context: Option<String>,
    /// Version of the API server (`v1.33.2`); None where it is not told to us.
    pub version: Option<String>,
    /// For every plain call.
    pub patience: Patience,
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// No usable kubeconfig.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigFault),
    /// The cluster entry cannot be used.
    #[error("the cluster entry of context {context} cannot be used: {why}; repair the kubeconfig")]
    BrokenCluster {
        /// The context.
        context: String,
        /// What is wrong.
        why: String,
    },
    /// The user entry cannot be used.
    #[error(
        "the user entry of context {context} cannot be used: {why}; repair the kubeconfig or log in again"
    )]
    BrokenUser {
        /// The context.
        context: String,
        /// What is wrong.
        why: String,
    },
    /// The credential plugin is not installed.
    #[error("the credential plugin {command} cannot be started ({why}); {hint}")]
    PluginMissing {
        /// The plugin as the kubeconfig names it.
        command: String,
        /// The system's reason.
        why: String,
        /// What to do: the kubeconfig's own hint, where it has one.
        hint: String,
    },
    /// The credential plugin ran and gave nothing usable.
    #[error(
        "the credential plugin {command} failed: {said}; run it by hand, and log in again if it asks for it"
    )]
    PluginFailed {
        /// The plugin as the kubeconfig names it.
        command: String,
        /// Its exit status and last line, or what is wrong with its output.
        said: String,
    },
    /// The credential plugin did not end.
    #[error(
        "the credential plugin {command} gave no answer within {} s; run it by hand, it may be waiting for a login", seconds(*.after)
    )]
    PluginHangs {
        /// The plugin as the kubeconfig names it.
        command: String,
        /// How long was waited.
        after: Duration,
    },
    /// A file or a file system that does not answer.
    #[error(
        "reading {what} gave nothing within {} s; look at the file system it lies on", seconds(*.after)
    )]
    Hangs {
        /// What was read.
        what: String,
        /// How long was waited.
        after: Duration,
    },
    /// The proxy of the environment cannot be used.
    #[error("{variable} in the environment is not the address of a proxy; repair it, or unset it")]
    BrokenProxy {
        /// The variable.
        variable: &'static str,
    },
    /// The system gives no thread.
    #[error(
        "this system gives no further thread ({why}); raise its limit on processes (ulimit -u, or the pod's pids limit)"
    )]
    NoThread {
        /// The system's words.
        why: String,
    },
    /// HTTPS, no CA in the kubeconfig, and none on the system.
    #[error(
        "context {context} names no certificate authority, and this system has no CA bundle; add certificate-authority-data to the kubeconfig, or install ca-certificates"
    )]
    NoCertificateAuthority {
        /// The context.
        context: String,
    },
    /// In a pod without a usable service account.
    #[error(
        "this is a pod whose service account cannot be used: {why}; mount the token (automountServiceAccountToken), or give --kubeconfig FILE"
    )]
    NoServiceAccount {
        /// What is missing.
        why: String,
    },
    /// The API server did not give a good first answer.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Connects, and asks the server for its version: whatever is wrong with address, certificate or credentials shows here,
/// before any target is touched.
pub async fn connect(options: &Options, around: &Surroundings) -> Result<Cluster, ConnectError> {
    // A second installation is harmless: only the first counts, and there is only one provider in the program.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let reading = Reading::default();
    let (mut config, context) = {
        let (chosen, around, now) = (options.clone(), around.clone(), reading.clone());
        let runtime = Handle::current();
        let configure = move || runtime.block_on(configure(&chosen, &around, &now));
        aside(options.deadline, &reading, configure).await?
    };
    let server = config.cluster_url.to_string();
    let namespace = config.default_namespace.clone();
    let plugin = config.auth_info.exec.clone();
    let login = plugin::log_in(&mut config, options.deadline)
        .await
        .map_err(|fault| plugin_fault(fault, plugin.as_ref(), options.deadline))?;
    let client = {
        let (context, now) = (context.clone(), reading.clone());
        let build = move || build(config, login, context.as_deref(), &now);
        aside(options.deadline, &reading, build).await?
    };
    let patience = Patience {
        each: options.deadline,
        until: options.until,
    };
    let doing = format!("talk to the API server at {}", said(&server));
    let version = match call(&doing, patience, || client.apiserver_version()).await {
        Ok(info) => Some(said(&info.git_version)),
        // The credentials were read and the server is there: that is all this question is for.
        Err(CallError { cause, .. }) if tells_no_version(&cause) => None,
        Err(error) => return Err(error.into()),
    };
    Ok(Cluster {
        client,
        namespace,
        context,
        version,
        patience,
    })
}

fn tells_no_version(cause: &Cause) -> bool {
    matches!(cause, Cause::Forbidden { .. } | Cause::NotFound)
}

async fn configure(
    options: &Options,
    around: &Surroundings,
    reading: &Reading,
) -> Result<(Config, Option<String>), ConnectError> {
    reading.now("the kubeconfig");
    let mut kubeconfig = match kubeconfig::read(options.kubeconfig.as_deref(), around)? {
        Source::Files(kubeconfig) => kubeconfig,
        Source::Pod => return Ok((in_pod(options, around)?, None)),
    };
    let context = kubeconfig::context(&kubeconfig, options.context.as_deref())?;
    if !options.interactive {
        // Otherwise a plugin would inherit our standard input, which may be the data the user pipes in.
        for user in kubeconfig.auth_infos.iter_mut() {
            if let Some(exec) = user.auth_info.as_mut().and_then(|a| a.exec.as_mut()) {
                exec.interactive_mode = Some(ExecInteractiveMode::Never);
            }
        }
    }
    let own_proxy = kubeconfig::names_proxy(&kubeconfig, &context);
    if !own_proxy {
        // kube reads the variable before it knows whether this server is reached through a proxy at all.
        kubeconfig::without_needless_proxy(&mut kubeconfig, &context, around.no_proxy.as_deref());
    }
    for named in kubeconfig::files(&kubeconfig, &context) {
        let what = format!("{} {}", named.key, said(&named.path));
        reading.now(what);
        named.check().map_err(|why| {
            let context = said(&context);
            match named.of_cluster {
                true => ConnectError::BrokenCluster { context, why },
                false => ConnectError::BrokenUser { context, why },
            }
        })?;
    }
    reading.now("the files that the kubeconfig names");
    let chosen = KubeConfigOptions {
        context: Some(context.clone()),
        ..KubeConfigOptions::default()
    };
    let mut config = Config::from_custom_kubeconfig(*kubeconfig, &chosen)
        .await
        .map_err(|e| match e {
            KubeconfigError::ParseProxyUrl(_) if !own_proxy => ConnectError::BrokenProxy {
                variable: kubeconfig::proxy_variable(),
            },
            other => broken_entry(&other, &context),
        })?;
    // An empty name means what none means, as in kubectl.
    if config.default_namespace.is_empty() {
        "default".clone_into(&mut config.default_namespace);
    }
    let host = config.cluster_url.host().unwrap_or_default();
    let port = config.cluster_url.port_u16().unwrap_or(443);
    if !own_proxy && kubeconfig::bypasses_proxy(host, port, around.no_proxy.as_deref()) {
        config.proxy_url = None;
    }
    Ok((prepared(config, options), Some(context)))
}

fn in_pod(options: &Options, around: &Surroundings) -> Result<Config, ConnectError> {
    if let Some(context) = &options.context {
        return Err(KubeconfigFault::UnknownContext {
            name: said(context),
            choices: match &around.kubeconfig {
                Some(_) => "(KUBECONFIG names no existing file)".to_owned(),
                None => "(none: this pod has no kubeconfig)".to_owned(),
            },
        }
        .into());
    }
    let config = Config::incluster().map_err(|e| ConnectError::NoServiceAccount {
        why: match std::env::var_os("KUBERNETES_SERVICE_PORT") {
            None => "KUBERNETES_SERVICE_PORT is not set".to_owned(),
            Some(_) => said(&e.to_string()),
        },
    })?;
    Ok(prepared(config, options))
}

fn prepared(mut config: Config, options: &Options) -> Config {
    config.connect_timeout = Some(options.deadline);
    // Retries are ours (`call`): the built-in ones go on for minutes and hide what the server said.
    config.default_retry = false;
    // Where no certificate will be verified, a system without a CA bundle must not stop us.
    let unverified = config.cluster_url.scheme_str() == Some("http") || config.accept_invalid_certs;
    if unverified && config.root_cert.is_none() {
        config.root_cert = Some(Vec::new());
    }
    config
}

/// What is being read at the moment, for when it never ends.
#[derive(Clone, Default)]
struct Reading(Arc<Mutex<String>>);

impl Reading {
    fn now(&self, what: impl Into<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = what.into();
    }

    fn last(&self) -> String {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.clone()
    }
}

/// Does this in a thread of its own: files on a network that is gone block, and may never end. An abandoned plain thread,
/// unlike a runtime's, does not keep the program from ending.
async fn aside<T: Send + 'static>(
    deadline: Duration,
    reading: &Reading,
    work: impl FnOnce() -> Result<T, ConnectError> + Send + 'static,
) -> Result<T, ConnectError> {
    let (done, result) = oneshot::channel();
    let runtime = Handle::current();
    let thread = std::thread::Builder::new().spawn(move || {
        let _in_runtime = runtime.enter();
        // Nobody listens any more after the deadline.
        let _ = done.send(work());
    });
    thread.map_err(|e| ConnectError::NoThread {
        why: said(&e.to_string()),
    })?;
    match tokio::time::timeout(deadline, result).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) | Err(_) => Err(ConnectError::Hangs {
            what: reading.last(),
            after: deadline,
        }),
    }
}

fn plugin_fault(
    fault: PluginFault,
    plugin: Option<&ExecConfig>,
    deadline: Duration,
) -> ConnectError {
    let command = command(plugin);
    match fault {
        PluginFault::Missing(kind) => ConnectError::PluginMissing {
            command,
            why: kind.to_string(),
            hint: hint(plugin),
        },
        PluginFault::Failed(said) => ConnectError::PluginFailed { command, said },
        PluginFault::Hangs => ConnectError::PluginHangs {
            command,
            after: deadline,
        },
    }
}

/// Makes the client: reads the token file, and the CA bundle of this system where one is needed.
fn build(
    config: Config,
    login: Option<Login>,
    context: Option<&str>,
    reading: &Reading,
) -> Result<Client, ConnectError> {
    let no_roots = config.root_cert.is_none() && config.root_cert_file.is_none();
    let in_pod = context.is_none();
    let context = context.map_or_else(|| "(in-cluster)".to_owned(), said);
    let user = &config.auth_info;
    reading.now(match (&user.auth_provider, &user.token_file) {
        (Some(provider), _) => format!("the credentials of {}", said(&provider.name)),
        (None, Some(file)) => format!("tokenFile {}", said(file)),
        (None, None) => "the CA bundle of this system".to_owned(),
    });
    let client = client(config, login).map_err(|error| match error {
        kube::Error::Auth(e) => ConnectError::BrokenUser {
            context,
            why: credential_fault(&e),
        },
        kube::Error::RustlsTls(RustlsTlsError::AddRootCertificate(_)) if no_roots => {
            ConnectError::NoCertificateAuthority { context }
        }
        kube::Error::RustlsTls(e @ RustlsTlsError::AddRootCertificate(_)) => {
            ConnectError::BrokenCluster {
                context,
                why: said(&e.to_string()),
            }
        }
        // What is left of TLS is the client certificate and its key.
        kube::Error::RustlsTls(e) => ConnectError::BrokenUser {
            context,
            why: said(&e.to_string()),
        },
        kube::Error::InferKubeconfig(e) => broken_entry(&e, &context),
        other => ConnectError::BrokenCluster {
            context,
            why: said(&other.to_string()),
        },
    });
    // A pod has no kubeconfig to repair.
    client.map_err(|fault| match fault {
        ConnectError::BrokenUser { why, .. } | ConnectError::BrokenCluster { why, .. }
            if in_pod =>
        {
            ConnectError::NoServiceAccount { why }
        }
        other => other,
    })
}

/// kube's own stack, with TCP_NODELAY; through a proxy, kube's own stack as it is. Neither takes more of an answer than
/// [`LARGEST`].
fn client(config: Config, login: Option<Login>) -> kube::Result<Client> {
    let login = login.map(AsyncFilterLayer::new);
    if config.proxy_url.is_some() {
        let builder = ClientBuilder::try_from(config)?;
        // kube's stack cannot be shared, which the login needs; its own buffer holds as many requests.
        let builder = builder.with_layer(&BufferLayer::new(1024));
        let builder = builder.with_layer(&option_layer(login));
        return Ok(builder
            .with_layer(&MapResultLayer::new(taken::<_, BoxError>))
            .build());
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(config.connect_timeout);
    let tcp = tcp.map_response(|io: TokioIo<TcpStream>| TokioIo::new(Mutual::new(io.into_inner())));
    let tls = config.rustls_https_connector_with_connector(tcp)?;
    let service = ServiceBuilder::new()
        .map_result(taken::<_, BoxError>)
        .option_layer(login)
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(legacy::Client::builder(TokioExecutor::new()).build(tls));
    Ok(Client::new(service, config.default_namespace))
}

/// An answer as it is taken: with a bound, and from this server. Who is sent elsewhere is told so.
fn taken<B, E: Into<BoxError>>(
    answer: Result<Response<B>, E>,
) -> Result<Response<Limited<B>>, BoxError> {
    let answer = answer.map_err(Into::into)?;
    if answer.status().is_redirection() {
        let to = answer.headers().get(http::header::LOCATION);
        let to = to.map(|to| said(&String::from_utf8_lossy(to.as_bytes())));
        return Err(Box::new(Redirected {
            code: answer.status().as_u16(),
            to: to.unwrap_or_else(|| "nowhere".to_owned()),
        }));
    }
    Ok(answer.map(|body| Limited::new(body, LARGEST)))
}

fn command(plugin: Option<&ExecConfig>) -> String {
    said(
        plugin
            .and_then(|p| p.command.as_deref())
            .unwrap_or("(none named)"),
    )
}

fn hint(plugin: Option<&ExecConfig>) -> String {
    match plugin.and_then(|p| p.install_hint.as_deref()) {
        Some(hint) => said(hint),
        None => "install it, or put it on PATH".to_owned(),
    }
}

fn broken_entry(error: &KubeconfigError, context: &str) -> ConnectError {
    use KubeconfigError as K;
    let context = said(context);
    let why = match error {
        K::MissingClusterUrl => "it has no server address".to_owned(),
        K::ParseClusterUrl(_) => "its server address is not a URL".to_owned(),
        K::ParseProxyUrl(_) => "its proxy address is not a URL".to_owned(),
        K::ParseNoProxy(_) => {
            "NO_PROXY in the environment has an entry that cannot be read".to_owned()
        }
        K::LoadCertificateAuthority(e) => format!("certificate-authority: {}", unreadable(e)),
        K::LoadClientCertificate(e) => format!("client-certificate: {}", unreadable(e)),
        K::LoadClientKey(e) => format!("client-key: {}", unreadable(e)),
        other => said(&other.to_string()),
    };
    match error {
        K::LoadClientCertificate(_) | K::LoadClientKey(_) => {
            ConnectError::BrokenUser { context, why }
        }
        _ => ConnectError::BrokenCluster { context, why },
    }
}

fn unreadable(error: &LoadDataError) -> String {
    match error {
        LoadDataError::ReadFile(e, path) => {
            format!("{}: {}", said(&path.to_string_lossy()), e.kind())
        }
        LoadDataError::DecodeBase64(_) => "not base64".to_owned(),
        LoadDataError::NoBase64DataOrFile => "neither data nor a file".to_owned(),
    }
}
