//! Why a call failed, from what the client library says: a status, a fault of TLS, of the network, of this process.

use super::super::plugin::{PluginFault, harmless};
use super::{LARGEST, Redirected, seconds};
use crate::report::SkipReason;
use crate::sanitise;
use http_body_util::LengthLimitError;
use kube::client::AuthError;
use rustls::{AlertDescription, CertificateError};
use std::error::Error as StdError;
use std::fmt::Debug;
use std::io;
use std::time::Duration;

/// Why a call failed. Text from outside is bounded and safe to show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// 401.
    #[error(
        "the API server rejects the credentials (401 Unauthorized); log in again, or renew the token or certificate of the user in the kubeconfig (in a pod: the token of its service account)"
    )]
    Unauthorized,
    /// 403.
    #[error("forbidden ({said}); grant it (docs/rbac.yaml)")]
    Forbidden {
        /// The server's words, which name the user and the verb.
        said: String,
    },
    /// 404.
    #[error("not found; check the name, the namespace and the context")]
    NotFound,
    /// 410: a continued list outlived its snapshot.
    #[error(
        "the list changed faster than it could be read (410 Gone); try again, or narrow the selector"
    )]
    Gone,
    /// 429, after retries. The operator's conversion webhook being down also looks like this.
    #[error(
        "the API server turns requests away (429: {said}); try again later, or lower --parallel"
    )]
    Throttled {
        /// The server's words.
        said: String,
    },
    /// Any other answer that is not a success.
    #[error(
        "the API server answered {code}: {said}; look at the log of the API server, or at the proxy before it"
    )]
    Answer {
        /// HTTP status.
        code: u16,
        /// The server's words.
        said: String,
    },
    /// The TLS handshake failed.
    #[error("TLS failed: {0}")]
    Tls(TlsFault),
    /// No connection.
    #[error(
        "the API server is unreachable ({said}); check the server address of this context, the VPN and the proxy"
    )]
    Unreachable {
        /// The innermost reason.
        said: String,
    },
    /// Not sent: it would have changed the path of the request.
    #[error(
        "\"{name}\" is not a name in Kubernetes (small letters, digits, - and .); check for a typo"
    )]
    BadName {
        /// As given.
        name: String,
    },
    /// Credentials could not be refreshed.
    #[error(
        "the credential plugin or token file no longer answers ({said}); run it by hand and log in again"
    )]
    Credentials {
        /// What failed, without the plugin's command line.
        said: String,
    },
    /// An answer that is not what the API promises.
    #[error(
        "the answer could not be read ({said}); look whether a proxy or another service answers at this address"
    )]
    Unparsable {
        /// Where it stopped making sense.
        said: String,
    },
    /// One object of an answer that is understood otherwise.
    #[error(
        "{name} is not what the API promises ({said}); look at it with `kubectl get -o yaml`, and at what wrote it"
    )]
    Broken {
        /// Which one.
        name: String,
        /// What is wrong with it.
        said: String,
    },
    /// More bytes than any answer has.
    #[error(
        "the answer is larger than {} MiB; look whether a proxy or another service answers at this address", .limit >> 20
    )]
    TooLarge {
        /// The limit it passed, in bytes.
        limit: usize,
    },
    /// A list that goes on and on.
    #[error(
        "the list does not end: {pages} pages were read{}; look at the API server's log, or at the proxy before it",
        if *.again { ", and it begins again at one of them" } else { "" }
    )]
    Endless {
        /// Pages that were read.
        pages: usize,
        /// The server named a page that was read already.
        again: bool,
    },
    /// 3xx. It is not followed: what the request carries is meant for this server alone.
    #[error(
        "the API server answered {code}, a redirect to {to}, and it was not followed, as credentials would go with it; put the address of the API server itself into the kubeconfig, or look at the proxy before it"
    )]
    Redirect {
        /// HTTP status.
        code: u16,
        /// Where to, without what may be a credential.
        to: String,
    },
    /// This process may open nothing more, so nothing was asked.
    #[error(
        "this process may open no further file or connection (too many open files); raise the limit on open files (ulimit -n), or lower --parallel"
    )]
    NoDescriptors,
    /// No answer in time.
    #[error("no answer within {} s; check the network, or give more time", seconds(*.after))]
    Deadline {
        /// How long was waited.
        after: Duration,
    },
    /// The whole run came to its end first.
    #[error("the time of the whole run was over before the answer came; give more (--deadline)")]
    RunDeadline,
}

impl Cause {
    /// The typed reason for whoever wanted the answer.
    pub fn reason(&self) -> SkipReason {
        match self {
            Self::Unauthorized | Self::Forbidden { .. } | Self::Credentials { .. } => {
                SkipReason::Denied
            }
            Self::NotFound | Self::BadName { .. } => SkipReason::NotFound,
            Self::Deadline { .. } => SkipReason::Timeout,
            Self::Broken { .. } => SkipReason::Unparsable,
            Self::RunDeadline => SkipReason::RunDeadline,
            // What answers like this is no API server that works, or something before it.
            Self::Unparsable { .. }
            | Self::TooLarge { .. }
            | Self::Endless { .. }
            | Self::Redirect { .. }
            | Self::NoDescriptors
            | Self::Gone
            | Self::Throttled { .. }
            | Self::Answer { .. }
            | Self::Tls(_)
            | Self::Unreachable { .. } => SkipReason::Unreachable,
        }
    }
}

/// What exactly failed in the handshake, by the type of the error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsFault {
    /// Nobody we trust signed the certificate.
    #[error(
        "the API server's certificate is signed by an unknown authority; put the cluster's CA into certificate-authority-data of the kubeconfig"
    )]
    UnknownIssuer,
    /// Not valid now.
    #[error(
        "the API server's certificate is not valid at this time; renew it, or set this machine's clock"
    )]
    NotValidNow,
    /// Valid for another name.
    #[error(
        "the API server's certificate is for another name; use the name it is for, or set tls-server-name in the kubeconfig"
    )]
    WrongName,
    /// The other side speaks something else.
    #[error(
        "the server does not speak TLS; check the port, and whether the address should begin with http://"
    )]
    NotTls,
    /// The server refuses our client certificate.
    #[error(
        "the API server refuses the client certificate; renew client-certificate-data of this kubeconfig user"
    )]
    ClientCertificate,
    /// Anything else.
    #[error("{0}; check the certificates in the kubeconfig")]
    Other(String),
}

impl From<&kube::Error> for Cause {
    fn from(error: &kube::Error) -> Self {
        if let kube::Error::Api(status) = error {
            let said = said(&status.message);
            return match status.code {
                401 => Self::Unauthorized,
                403 => Self::Forbidden { said },
                404 => Self::NotFound,
                410 => Self::Gone,
                429 => Self::Throttled { said },
                code => Self::Answer { code, said },
            };
        }
        if find::<LengthLimitError>(error).is_some() {
            return Self::TooLarge { limit: LARGEST };
        }
        if let Some(Redirected { code, to }) = find(error) {
            return Self::Redirect {
                code: *code,
                to: to.clone(),
            };
        }
        if without_descriptors(error) {
            return Self::NoDescriptors;
        }
        if let Some(tls) = find::<rustls::Error>(error) {
            return Self::Tls(TlsFault::from(tls));
        }
        if let Some(fault) = find::<PluginFault>(error) {
            return Self::Credentials {
                said: fault.to_string(),
            };
        }
        if let Some(auth) = find::<AuthError>(error) {
            return Self::Credentials {
                said: credential_fault(auth),
            };
        }
        match error {
            kube::Error::SerdeError(e) => Self::Unparsable {
                said: said(&e.to_string()),
            },
            kube::Error::FromUtf8(_) => Self::Unparsable {
                said: "not UTF-8".to_owned(),
            },
            kube::Error::UpgradeConnection(e) => Self::Unparsable {
                said: said(&e.to_string()),
            },
            other => Self::Unreachable {
                said: innermost(other),
            },
        }
    }
}

impl From<&rustls::Error> for TlsFault {
    fn from(error: &rustls::Error) -> Self {
        use CertificateError as C;
        match error {
            // Most clusters name their authority `kubernetes`: that of another cluster fails by its signature.
            rustls::Error::InvalidCertificate(C::UnknownIssuer | C::BadSignature) => {
                Self::UnknownIssuer
            }
            rustls::Error::InvalidCertificate(
                C::Expired
                | C::ExpiredContext { .. }
                | C::NotValidYet
                | C::NotValidYetContext { .. },
            ) => Self::NotValidNow,
            rustls::Error::InvalidCertificate(
                C::NotValidForName | C::NotValidForNameContext { .. },
            ) => Self::WrongName,
            rustls::Error::InvalidMessage(_) => Self::NotTls,
            rustls::Error::AlertReceived(
                AlertDescription::BadCertificate
                | AlertDescription::CertificateRequired
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateUnknown
                | AlertDescription::UnknownCA,
            ) => Self::ClientCertificate,
            other => Self::Other(said(&other.to_string())),
        }
    }
}

/// What a credential plugin's failure may say in public. Its command line and environment may hold secrets and stay out.
pub(crate) fn credential_fault(error: &AuthError) -> String {
    match error {
        AuthError::AuthExecStart(e) => format!("it cannot be started: {}", e.kind()),
        AuthError::AuthExecRun { out, .. } => {
            let stderr = String::from_utf8_lossy(&out.stderr);
            let last = stderr.lines().rev().find(|l| !l.trim().is_empty());
            let last = last.map_or(String::new(), |l| format!(": {}", harmless(l.trim())));
            format!("{}{last}", out.status)
        }
        AuthError::AuthExecParse(_) => "its output is not an ExecCredential".to_owned(),
        AuthError::ReadTokenFile(e, path) => {
            let path = said(&path.to_string_lossy());
            format!("token file {path}: {}", e.kind())
        }
        other => said(&other.to_string()),
    }
}

/// One line of foreign text, bounded. Of URLs neither user information nor query is shown: both may hold credentials.
pub(crate) fn said(text: &str) -> String {
    sanitise::line(&sanitise::without_credentials(text.trim()), SAID)
}

/// Foreign text is cut here.
const SAID: usize = 300;

/// Deeper than any real chain of errors; a cycle ends here.
const DEPTH: usize = 16;

/// The first error of type `T` in a chain of sources, through the boxes inside `io::Error` too.
pub(crate) fn find<'a, T: StdError + 'static>(
    error: &'a (dyn StdError + 'static),
) -> Option<&'a T> {
    let mut current = Some(error);
    for _ in 0..DEPTH {
        let error = current?;
        if let Some(found) = error.downcast_ref::<T>() {
            return Some(found);
        }
        current = next(error);
    }
    None
}

/// EMFILE or ENFILE anywhere in a chain of sources.
fn without_descriptors(error: &(dyn StdError + 'static)) -> bool {
    let mut current = Some(error);
    for _ in 0..DEPTH {
        let Some(error) = current else { return false };
        let code = error.downcast_ref::<io::Error>();
        // The same numbers on every Linux.
        if matches!(code.and_then(io::Error::raw_os_error), Some(23 | 24)) {
            return true;
        }
        current = next(error);
    }
    false
}

/// The words of the last error of a chain: the outer ones only say "client error".
fn innermost(error: &(dyn StdError + 'static)) -> String {
    let mut last = error;
    for _ in 0..DEPTH {
        match next(last) {
            Some(deeper) => last = deeper,
            None => break,
        }
    }
    match last.downcast_ref::<io::Error>().map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionRefused) => "connection refused".to_owned(),
        Some(io::ErrorKind::TimedOut) => "connection timed out".to_owned(),
        _ => said(&last.to_string()),
    }
}

fn next<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a (dyn StdError + 'static)> {
    // An `io::Error` made from another error shows that error's source and hides the error itself.
    if let Some(inner) = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref)
    {
        return Some(inner);
    }
    error.source()
}
