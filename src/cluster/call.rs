//! One call to the API server: a deadline, a few polite retries, and typed reasons when it fails.

mod cause;
mod pages;
#[cfg(test)]
mod tests;

pub use cause::{Cause, TlsFault};
pub(crate) use cause::{credential_fault, said};
pub(crate) use pages::{Broken, Listed, pages};
use std::fmt::Debug;
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

/// An answer that sends the request elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code} to {to}")]
pub(crate) struct Redirected {
    /// HTTP status.
    pub(crate) code: u16,
    /// Where to, as it may be shown.
    pub(crate) to: String,
}

/// How often a call is tried when the server says "not now".
const TRIES: u32 = 3;
/// Longest pause before another try, whatever the server asks for.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Most bytes of one answer: a page of pods or nodes has a few MiB.
pub(crate) const LARGEST: usize = 64 << 20;

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
