//! Credential plugins (`users[].user.exec` of a kubeconfig): run within bounds, ended with what they started, and run again
//! when their token expires. kube runs them without a bound on what they print and leaves those that hang running.
//!
//! <https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins>

use super::call::said;
use crate::{catalogue, sanitise};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Request};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Config;
use kube::config::{AuthInfo, ExecConfig, ExecInteractiveMode};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use serde_json::json;
use std::io;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::sync::Mutex;
use tokio::time::timeout;
use tower::BoxError;
use tower::filter::AsyncPredicate;

/// More than any credential has: a certificate chain with its key is some 10 KiB.
const LARGEST: usize = 1 << 20;
/// So much of the end of its error stream is kept.
const STDERR_TAIL: usize = 4 << 10;
/// A token is renewed this long before it expires, as client-go and kube do.
const EARLY: Duration = Duration::from_secs(60);
/// A word this long of letters and digits may be a key.
const KEY: usize = 24;

/// Why a plugin gave no credential. Neither its command line nor its output is in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PluginFault {
    /// It cannot be started.
    #[error("it cannot be started: {0}")]
    Missing(io::ErrorKind),
    /// It ran and gave nothing usable.
    #[error("{0}")]
    Failed(String),
    /// It did not end.
    #[error("it gave no answer")]
    Hangs,
}

/// What a plugin printed.
#[derive(Deserialize)]
struct Printed {
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    expiration_timestamp: Option<Time>,
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

/// Whether this user logs in by a plugin: everything else that an entry may hold comes before it, as in kube.
pub(crate) fn is_needed(user: &AuthInfo) -> bool {
    let password = user.username.is_some() && user.password.is_some();
    let other = user.auth_provider.is_some() || user.token.is_some() || user.token_file.is_some();
    user.exec.is_some() && !password && !other
}

/// Logs in by the plugin of this configuration, and puts into it what does not expire; what does comes as a [`Login`].
pub(crate) async fn log_in(
    config: &mut Config,
    within: Duration,
) -> Result<Option<Login>, PluginFault> {
    if !is_needed(&config.auth_info) {
        return Ok(None);
    }
    let Some(exec) = config.auth_info.exec.take() else {
        return Ok(None);
    };
    let status = run(&exec, within).await?;
    let given = match (status.client_certificate_data, status.client_key_data) {
        (Some(certificate), Some(key)) => json!({
            "client-certificate-data": BASE64_STANDARD.encode(certificate),
            "client-key-data": BASE64_STANDARD.encode(key),
        }),
        _ => match (status.token, status.expiration_timestamp) {
            (Some(token), Some(expires)) => {
                let token = Token {
                    header: header(&token)?,
                    expires,
                };
                return Ok(Some(Login {
                    exec: Arc::new(exec),
                    within,
                    token: Arc::new(Mutex::new(token)),
                }));
            }
            (token, _) => json!({"token": token}),
        },
    };
    let given: AuthInfo = serde_json::from_value(given)
        .map_err(|_| PluginFault::Failed("its credential cannot be used".to_owned()))?;
    let user = &mut config.auth_info;
    if given.token.is_some() {
        user.token = given.token;
    }
    if given.client_key_data.is_some() {
        user.client_certificate_data = given.client_certificate_data;
        user.client_key_data = given.client_key_data;
    }
    Ok(None)
}

/// A token that expires: puts it into every request, and gets another in time.
#[derive(Clone)]
pub(crate) struct Login {
    exec: Arc<ExecConfig>,
    within: Duration,
    token: Arc<Mutex<Token>>,
}

struct Token {
    header: HeaderValue,
    expires: Time,
}

impl Login {
    async fn header(&self) -> Result<HeaderValue, PluginFault> {
        let mut token = self.token.lock().await;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let soon = now.unwrap_or_default() + EARLY;
        if i128::from(token.expires.0.as_second()) <= i128::from(soon.as_secs()) {
            let status = run(&self.exec, self.within).await?;
            let (Some(given), Some(expires)) = (status.token, status.expiration_timestamp) else {
                let message = "it gave no token with an expiry the second time";
                return Err(PluginFault::Failed(message.to_owned()));
            };
            *token = Token {
                header: header(&given)?,
                expires,
            };
        }
        Ok(token.header.clone())
    }
}

impl<B: Send + 'static> AsyncPredicate<Request<B>> for Login {
    type Future = Pin<Box<dyn Future<Output = Result<Request<B>, BoxError>> + Send>>;
    type Request = Request<B>;

    fn check(&mut self, mut request: Request<B>) -> Self::Future {
        let login = self.clone();
        Box::pin(async move {
            let header = login.header().await?;
            request.headers_mut().insert(AUTHORIZATION, header);
            Ok(request)
        })
    }
}

fn header(token: &str) -> Result<HeaderValue, PluginFault> {
    let mut header = HeaderValue::try_from(format!("Bearer {token}"))
        .map_err(|_| PluginFault::Failed("its token is no token".to_owned()))?;
    header.set_sensitive(true);
    Ok(header)
}

/// Ends a plugin and what it started, unless it ended by itself.
struct Running {
    child: Child,
    /// Of a group of its own; a plugin that asks at the terminal stays in ours, or the terminal would stop it.
    group: Option<Pid>,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            // One that has gone is what is wanted.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

async fn run(exec: &ExecConfig, within: Duration) -> Result<Status, PluginFault> {
    timeout(within, run_to_the_end(exec))
        .await
        .unwrap_or(Err(PluginFault::Hangs))
}

async fn run_to_the_end(exec: &ExecConfig) -> Result<Status, PluginFault> {
    let failed = |why: &str| PluginFault::Failed(why.to_owned());
    let Some(program) = &exec.command else {
        return Err(failed("the kubeconfig names no command"));
    };
    let interactive = exec.interactive_mode != Some(ExecInteractiveMode::Never);
    let mut spec = json!({"interactive": interactive});
    if exec.provide_cluster_info {
        let cluster = serde_json::to_value(&exec.cluster);
        spec["cluster"] = cluster.map_err(|_| failed("its cluster entry cannot be handed on"))?;
    }
    let info = json!({"kind": "ExecCredential", "apiVersion": exec.api_version, "spec": spec});
    let mut command = Command::new(program);
    command
        .args(exec.args.iter().flatten())
        .env("KUBERNETES_EXEC_INFO", info.to_string())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    for variable in exec.env.iter().flatten() {
        if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
            command.env(name, value);
        }
    }
    for name in exec.drop_env.iter().flatten() {
        command.env_remove(name);
    }
    if !interactive {
        command
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0);
    }
    let child = command
        .spawn()
        .map_err(|e| PluginFault::Missing(e.kind()))?;
    let group = child.id().and_then(|id| i32::try_from(id).ok());
    let mut running = Running {
        child,
        group: group.and_then(Pid::from_raw).filter(|_| !interactive),
    };
    let stdout = running.child.stdout.take();
    let stderr = running.child.stderr.take();
    let lost = |_: io::Error| failed("its output cannot be read");
    // Read side by side, so that neither keeps it from going on; what is too much ends it.
    let (printed, complained) = tokio::try_join!(
        async {
            let printed = first(stdout, LARGEST + 1).await.map_err(lost)?;
            match printed.len() > LARGEST {
                true => Err(failed(
                    "it printed more than 1 MiB, and no credential is so long",
                )),
                false => Ok(printed),
            }
        },
        async { last(stderr, STDERR_TAIL).await.map_err(lost) }
    )?;
    let status = running.child.wait().await.map_err(lost)?;
    running.group = None;
    if !status.success() {
        let complained = String::from_utf8_lossy(&complained);
        let last = complained.lines().rev().find(|l| !l.trim().is_empty());
        let last = last.map_or(String::new(), |line| format!(": {}", harmless(line)));
        return Err(PluginFault::Failed(format!("{status}{last}")));
    }
    // As client-go, which takes YAML too.
    let printed: Printed = serde_saphyr::from_slice(&printed)
        .map_err(|_| failed("its output is not an ExecCredential"))?;
    printed
        .status
        .ok_or_else(|| failed("its output holds no credential (no status)"))
}

/// At most this many bytes from the beginning of a stream.
async fn first(stream: Option<impl AsyncRead + Unpin>, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        stream.take(most as u64).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

/// About so many bytes from the end of a stream.
async fn last(stream: Option<impl AsyncRead + Unpin>, keep: usize) -> io::Result<Vec<u8>> {
    let (mut tail, mut buffer) = (Vec::new(), vec![0; keep]);
    if let Some(mut stream) = stream {
        while let n @ 1.. = stream.read(&mut buffer).await? {
            tail.extend_from_slice(&buffer[..n]);
            tail.drain(..tail.len().saturating_sub(keep));
        }
    }
    Ok(tail)
}

/// A line of a plugin's error stream, unless it may hold a credential.
pub(crate) fn harmless(line: &str) -> String {
    let key = |word: &str| {
        let has = |kind: fn(&char) -> bool| word.chars().any(|c| kind(&c));
        word.len() >= KEY && has(char::is_ascii_digit) && has(char::is_ascii_alphabetic)
    };
    let mut words = line.split(|c: char| !c.is_ascii_alphanumeric() && !"-_.+".contains(c));
    if catalogue::withheld_of("", line) || words.any(key) {
        return "(what it said last may hold a credential and is not shown)".to_owned();
    }
    said(&sanitise::withhold_secrets(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_may_hold_a_credential_is_not_shown() {
        for line in [
            "session expired",
            "could not reach https://login.example.org/device: timed out",
            "open /home/ann/.aws/sso/cache: no such file or directory",
        ] {
            assert_eq!(harmless(line), line);
        }
        for line in [
            "login failed: token=s3cret-stderr",
            "got: Bearer abc",
            "password: hunter2",
            "https://ann:hunter2@login.example.org",
            "refused 8f2c0a9d4b6e8f2c0a9d4b6e",
            "eyJhbGciOiJSUzI1NiJ9.e30.c2ln",
        ] {
            let shown = harmless(line);
            assert!(shown.contains("is not shown"), "{line}: {shown}");
        }
    }
}
