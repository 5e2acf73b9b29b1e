//! One call to the API server: a deadline, a few polite retries, and typed reasons when it fails.

use super::plugin::{PluginFault, harmless};
use crate::report::SkipReason;
use crate::sanitise;
use http_body_util::LengthLimitError;
use kube::Api;
use kube::api::{ListParams, ObjectList};
use kube::client::AuthError;
use kube::core::Request;
use rustls::{AlertDescription, CertificateError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::collections::HashSet;
use std::error::Error as StdError;
use std::fmt::Debug;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::time::Duration;
use tokio::time::Instant;

/// What went wrong with one call, and with which.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot {doing}: {cause}")]
pub struct CallError {
    /// The call as an infinitive phrase: `list pods in namespace llm`.
    pub doing: String,
    /// Why it failed.
    pub cause: Cause,
}

/// Why a call failed. Text from outside is bounded and safe to show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// 401.
    #[error(
        "the API server rejects the credentials (401 Unauthorized); log in again, or renew the token or certificate of this kubeconfig user"
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

/// An answer that sends the request elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code} to {to}")]
pub(crate) struct Redirected {
    /// HTTP status.
    pub(crate) code: u16,
    /// Where to, as it may be shown.
    pub(crate) to: String,
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

/// How often a call is tried when the server says "not now".
const TRIES: u32 = 3;
/// Longest pause before another try, whatever the server asks for.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Foreign text is cut here.
const SAID: usize = 300;

/// Most bytes of one answer: a page of pods or nodes has a few MiB.
pub(crate) const LARGEST: usize = 64 << 20;
/// Most pages of one list: more objects than a cluster may hold.
const PAGES: usize = 1_000;
/// How often a list begins anew when the server has forgotten its snapshot (410 Gone).
const RESTARTS: u32 = 2;

/// How long one call may take, and when the whole run is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Longest for one call, tries included.
    pub each: Duration,
    /// No call goes on after this.
    pub until: Option<Instant>,
}

impl Patience {
    /// At most this long for each call.
    #[must_use]
    pub fn at_most(self, each: Duration) -> Self {
        Self {
            each: self.each.min(each),
            ..self
        }
    }

    /// What a call that begins now has, and what it is said to have run into.
    fn left(self) -> (Duration, Cause) {
        let own = Cause::Deadline { after: self.each };
        let whole = self
            .until
            .map(|until| until.saturating_duration_since(Instant::now()));
        match whole {
            Some(whole) if whole < self.each => (whole, Cause::RunDeadline),
            _ => (self.each, own),
        }
    }
}

/// Makes one call, tries included, within the time there is. 429, 503 and 504 are tried again: they mean "not now", and
/// are what is told when the time is over meanwhile.
pub async fn call<T, F, R>(doing: &str, patience: Patience, request: F) -> Result<T, CallError>
where
    F: Fn() -> R,
    R: Future<Output = kube::Result<T>>,
{
    let (left, mut over) = patience.left();
    let answer = {
        let trying = async {
            let mut attempt = 1;
            loop {
                match request().await {
                    Ok(answer) => return Ok(answer),
                    Err(error) => match pause(&error, attempt) {
                        Some(pause) => {
                            over = Cause::from(&error);
                            tokio::time::sleep(pause).await;
                        }
                        None => return Err(Cause::from(&error)),
                    },
                }
                attempt += 1;
            }
        };
        match left.is_zero() {
            true => None,
            false => tokio::time::timeout(left, trying).await.ok(),
        }
    };
    answer.unwrap_or(Err(over)).map_err(|cause| CallError {
        doing: doing.to_owned(),
        cause,
    })
}

/// One object of a list that is not what the API promises.
#[derive(Debug, Clone)]
pub(crate) struct Broken {
    /// Its name, as it may be shown; without one its kind of place.
    pub(crate) name: String,
    /// Its labels, whatever they are.
    pub(crate) labels: Value,
    /// What is wrong with it, as it may be shown.
    pub(crate) why: String,
}

/// What was listed: one object that cannot be understood costs none of the others.
#[derive(Debug)]
pub(crate) struct Listed<T> {
    /// What was understood.
    pub(crate) found: Vec<T>,
    /// What was not.
    pub(crate) broken: Vec<Broken>,
}

impl<T> Listed<T> {
    /// All of it, or the first object that could not be understood: where each of them matters to the others.
    pub(crate) fn whole(self, doing: &str) -> Result<Vec<T>, CallError> {
        match self.broken.into_iter().next() {
            None => Ok(self.found),
            Some(Broken { name, why, .. }) => Err(CallError {
                doing: doing.to_owned(),
                cause: Cause::Broken { name, said: why },
            }),
        }
    }
}

#[derive(Debug, Clone)]
enum Item<K> {
    Good(Box<K>),
    Bad(Broken),
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Item<K> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let object = Value::deserialize(from)?;
        Ok(match K::deserialize(&object) {
            Ok(good) => Self::Good(Box::new(good)),
            Err(error) => Self::Bad(Broken {
                name: match object["metadata"]["name"].as_str() {
                    Some(name) => said(name),
                    None => "(an object without a name)".to_owned(),
                },
                labels: object["metadata"]["labels"].clone(),
                why: said(&error.to_string()),
            }),
        })
    }
}

/// Lists page by page: few round trips for large namespaces, and a bound on what is held before `reduce` takes what
/// matters. Begins anew when the server has forgotten where it was (410 Gone), and ends where a list does not.
pub(crate) async fn pages<K, T>(
    doing: &str,
    patience: Patience,
    api: &Api<K>,
    first: ListParams,
    reduce: &mut (dyn FnMut(K) -> T + Send),
) -> Result<Listed<T>, CallError>
where
    K: kube::Resource + Clone + DeserializeOwned + Debug,
    T: Send,
{
    let mut restarts = 0;
    loop {
        match to_the_end(doing, patience, api, first.clone(), reduce).await {
            Err(CallError {
                cause: Cause::Gone, ..
            }) if restarts < RESTARTS => restarts += 1,
            other => return other,
        }
    }
}

async fn to_the_end<K, T>(
    doing: &str,
    patience: Patience,
    api: &Api<K>,
    mut page: ListParams,
    reduce: &mut (dyn FnMut(K) -> T + Send),
) -> Result<Listed<T>, CallError>
where
    K: kube::Resource + Clone + DeserializeOwned + Debug,
    T: Send,
{
    let client = api.clone().into_client();
    let path = Request::new(api.resource_url());
    let (mut found, mut broken) = (Vec::new(), Vec::new());
    // A token may be long; what it hashes to tells it from the others.
    let (hash, mut seen) = (RandomState::new(), HashSet::new());
    for read in 1.. {
        let list: ObjectList<Item<K>> = call(doing, patience, || async {
            let request = path.list(&page).map_err(kube::Error::BuildRequest)?;
            client.request(request).await
        })
        .await?;
        for item in list.items {
            match item {
                Item::Good(object) => found.push(reduce(*object)),
                Item::Bad(object) => broken.push(object),
            }
        }
        let Some(token) = list.metadata.continue_.filter(|token| !token.is_empty()) else {
            break;
        };
        let again = !seen.insert(hash.hash_one(&token));
        if again || read >= PAGES {
            return Err(CallError {
                doing: doing.to_owned(),
                cause: Cause::Endless { pages: read, again },
            });
        }
        page = page.continue_token(&token);
    }
    Ok(Listed { found, broken })
}

/// Seconds in words: whole ones, and a tenth where there is less than one.
pub(crate) fn seconds(time: Duration) -> String {
    match time.as_secs_f64() {
        whole if whole >= 0.95 => format!("{whole:.0}"),
        part => format!("{part:.1}"),
    }
}

/// Refuses what cannot be a name: it becomes a part of the path, where `../secrets/x` would read something else.
pub(crate) fn check_names(names: &[&str]) -> Result<(), Cause> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let good = |name: &str| {
        let starts_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
        starts_well && name.len() <= 253 && name.chars().all(allowed)
    };
    match names.iter().find(|name| !good(name)) {
        Some(bad) => Err(Cause::BadName { name: said(bad) }),
        None => Ok(()),
    }
}

/// How long to wait before the next try, or None when another try cannot help.
pub(crate) fn pause(error: &kube::Error, attempt: u32) -> Option<Duration> {
    let kube::Error::Api(status) = error else {
        return None;
    };
    if attempt >= TRIES || !matches!(status.code, 429 | 503 | 504) {
        return None;
    }
    let asked = status
        .details
        .as_ref()
        .map_or(0, |d| u64::from(d.retry_after_seconds));
    let pause = match asked {
        0 => Duration::from_millis(100) * attempt,
        seconds => Duration::from_secs(seconds),
    };
    Some(pause.min(LONGEST_PAUSE))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn api(code: u16, retry_after: u32) -> kube::Error {
        let details = serde_json::json!({"retryAfterSeconds": retry_after});
        let status = serde_json::json!({"code": code, "message": "m\u{1b}[2J", "details": details});
        kube::Error::Api(serde_json::from_value(status).unwrap())
    }

    #[test]
    fn only_not_now_is_tried_again() {
        assert!(pause(&api(403, 0), 1).is_none());
        assert!(pause(&api(500, 0), 1).is_none());
        assert_eq!(pause(&api(429, 1), 1), Some(Duration::from_secs(1)));
        assert_eq!(pause(&api(503, 3600), 1), Some(LONGEST_PAUSE));
        assert!(pause(&api(429, 1), TRIES).is_none());
    }

    #[test]
    fn a_name_cannot_lead_elsewhere() {
        assert_eq!(check_names(&["llm", "decode-0.a"]), Ok(()));
        for bad in [
            "",
            ".",
            "..",
            "../secrets/x",
            "a/b",
            "a?x=y",
            "a%2fb",
            "A",
            "a b",
            "-a",
        ] {
            assert!(check_names(&["llm", bad]).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_tls_fault_is_found_inside_an_io_error() {
        let tls = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let wrapped = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, tls));
        let error = kube::Error::Service(Box::new(wrapped));
        assert_eq!(Cause::from(&error), Cause::Tls(TlsFault::UnknownIssuer));
    }

    #[test]
    fn a_process_without_descriptors_blames_no_server() {
        let error = |code| {
            let inner = io::Error::other(io::Error::from_raw_os_error(code));
            Cause::from(&kube::Error::Service(Box::new(inner)))
        };
        assert_eq!(error(24), Cause::NoDescriptors);
        assert_eq!(error(23), Cause::NoDescriptors);
        assert!(matches!(error(111), Cause::Unreachable { .. }));
    }

    #[test]
    fn credentials_in_urls_are_masked() {
        for (text, shown) in [
            (
                "at http://admin:hunter2@127.0.0.1:1/k8s?access_token=t0p: refused",
                "at http://***@127.0.0.1:1/k8s?***: refused",
            ),
            (
                "proxy socks9://u:p@ss@h:1 and \"https://t0k@x\" no",
                "proxy socks9://***@h:1 and \"https://***@x\" no",
            ),
            ("https://10.0.0.1:6443/a/b", "https://10.0.0.1:6443/a/b"),
            ("http://h:1/a@b", "http://h:1/a@b"),
            ("http://h/a@b", "http://h/a@b"),
            ("http://u:p/w@h/c", "http://***@h/c"),
            ("http://u:p@h/a@b", "http://***@b"),
            ("ann@example.org?", "ann@example.org?"),
        ] {
            assert_eq!(said(text), shown.replace("?***: ", "?*** "));
        }
    }

    #[test]
    fn words_from_the_server_cannot_act_on_a_terminal() {
        let Cause::Answer { said, .. } = Cause::from(&api(500, 0)) else {
            panic!("an answer");
        };
        assert_eq!(said, "m\\u{1b}[2J");
    }
}
