//! From a kubeconfig or a pod's service account to a client that has spoken to its API server once.

use super::call::{CallError, Cause, LARGEST, Patience, call, credential_fault, said, seconds};
use super::kubeconfig::{self, KubeconfigFault, Source, Surroundings};
use http::Response;
use http_body_util::Limited;
use hyper_util::client::legacy::{self, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use kube::client::{AuthError, ClientBuilder, ConfigExt, RustlsTlsError};
use kube::config::{
    ExecConfig, ExecInteractiveMode, KubeConfigOptions, KubeconfigError, LoadDataError,
};
use kube::{Client, Config};
use std::path::PathBuf;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tower::util::MapResponseLayer;
use tower::{BoxError, ServiceBuilder};

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
    let (config, context) = configure(options, around).await?;
    let server = config.cluster_url.to_string();
    let namespace = config.default_namespace.clone();
    let client = build(config, context.as_deref(), options.deadline).await?;
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
) -> Result<(Config, Option<String>), ConnectError> {
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
    let chosen = KubeConfigOptions {
        context: Some(context.clone()),
        ..KubeConfigOptions::default()
    };
    let mut config = Config::from_custom_kubeconfig(*kubeconfig, &chosen)
        .await
        .map_err(|e| broken_entry(&e, &context))?;
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
        why: said(&e.to_string()),
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

/// Builds the client in a thread of its own: a credential plugin runs inside, blocks, and may never end. An abandoned
/// plain thread, unlike a runtime's, does not keep the program from ending.
async fn build(
    config: Config,
    context: Option<&str>,
    deadline: Duration,
) -> Result<Client, ConnectError> {
    let plugin = config.auth_info.exec.clone();
    let no_roots = config.root_cert.is_none() && config.root_cert_file.is_none();
    let context = context.unwrap_or("(in-cluster)").to_owned();
    let runtime = Handle::current();
    let (built, result) = oneshot::channel();
    std::thread::spawn(move || {
        let _in_runtime = runtime.enter();
        // Nobody listens any more after the deadline.
        let _ = built.send(client(config));
    });
    let error = match tokio::time::timeout(deadline, result).await {
        Ok(Ok(Ok(client))) => return Ok(client),
        Ok(Ok(Err(error))) => error,
        Ok(Err(_)) | Err(_) => {
            return Err(ConnectError::PluginHangs {
                command: command(plugin.as_ref()),
                after: deadline,
            });
        }
    };
    Err(match (error, plugin) {
        (kube::Error::Auth(AuthError::AuthExecStart(e)), plugin) => ConnectError::PluginMissing {
            command: command(plugin.as_ref()),
            why: e.kind().to_string(),
            hint: hint(plugin.as_ref()),
        },
        (kube::Error::Auth(e), plugin @ Some(_)) => ConnectError::PluginFailed {
            command: command(plugin.as_ref()),
            said: credential_fault(&e),
        },
        (kube::Error::Auth(e), None) => ConnectError::BrokenUser {
            context,
            why: credential_fault(&e),
        },
        (kube::Error::RustlsTls(RustlsTlsError::AddRootCertificate(_)), _) if no_roots => {
            ConnectError::NoCertificateAuthority { context }
        }
        (kube::Error::RustlsTls(e @ RustlsTlsError::AddRootCertificate(_)), _) => {
            ConnectError::BrokenCluster {
                context,
                why: said(&e.to_string()),
            }
        }
        // What is left of TLS is the client certificate and its key.
        (kube::Error::RustlsTls(e), _) => ConnectError::BrokenUser {
            context,
            why: said(&e.to_string()),
        },
        (kube::Error::InferKubeconfig(e), _) => broken_entry(&e, &context),
        (other, _) => ConnectError::BrokenCluster {
            context,
            why: said(&other.to_string()),
        },
    })
}

/// kube's own stack, with TCP_NODELAY; through a proxy, kube's own stack as it is. Neither takes more of an answer than
/// [`LARGEST`].
fn client(config: Config) -> kube::Result<Client> {
    if config.proxy_url.is_some() {
        let builder = ClientBuilder::try_from(config)?;
        return Ok(builder.with_layer(&MapResponseLayer::new(limited)).build());
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(config.connect_timeout);
    let tls = config.rustls_https_connector_with_connector(tcp)?;
    let service = ServiceBuilder::new()
        .map_response(limited)
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(legacy::Client::builder(TokioExecutor::new()).build(tls));
    Ok(Client::new(service, config.default_namespace))
}

fn limited<B>(answer: Response<B>) -> Response<Limited<B>> {
    answer.map(|body| Limited::new(body, LARGEST))
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
    let context = context.to_owned();
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
