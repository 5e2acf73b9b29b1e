//! A container over the Kubernetes API as a place where agents run.

use super::stream::{Ended, Open, OpenError, Stream};
use crate::probe::exec_end::End;
use crate::probe::pod_exec::{ExecTarget, PodProcess};
use crate::report::SkipReason;
use kube::Client;

/// One container.
#[derive(Clone)]
pub struct Pod {
    /// The client. Cheap to clone.
    pub client: Client,
    /// Which container.
    pub at: ExecTarget,
}

impl Open for Pod {
    async fn open(&self, argv: &[String]) -> Result<Stream, OpenError> {
        let words: Vec<&str> = argv.iter().map(String::as_str).collect();
        let process = PodProcess::open(&self.client, &self.at, &words)
            .await
            .map_err(refused)?;
        let PodProcess {
            stdin,
            stdout,
            stderr,
            mut ending,
        } = process;
        Ok(Stream {
            stdin: Box::new(stdin),
            stdout: Box::new(stdout),
            stderr: Box::new(stderr),
            // Owns the connection: dropping the status ends the exec on our side, and closes the agent's input with it.
            status: Box::pin(async move { ended(ending.wait().await) }),
        })
    }
}

fn refused(end: End) -> OpenError {
    match end {
        End::NoExecutable { name } => OpenError::NoProgram(name),
        End::ConnectionLost | End::KubeletGone { .. } | End::Deadline { .. } => {
            OpenError::Lost(end.to_string())
        }
        End::Call(ref cause)
            if matches!(
                cause.reason(),
                SkipReason::Unreachable | SkipReason::Timeout
            ) =>
        {
            OpenError::Lost(end.to_string())
        }
        other => OpenError::Refused(other.to_string()),
    }
}

fn ended(end: End) -> Ended {
    match end {
        End::Exit(code) => Ended::Code(code),
        End::NoExecutable { name } => Ended::NoProgram(name.into()),
        End::Deadline { .. } => Ended::StillRunning,
        other => Ended::Lost(other.to_string().into()),
    }
}
