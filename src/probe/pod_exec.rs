//! Exec in a container over the Kubernetes API. The only place that handles kube's streams, because they have traps:
//! after a lost connection the readers never end, stdout and stderr share one loop that stalls unless both are drained,
//! and `join()` fails or hangs. So: drain both, watch the status, one deadline around everything, then abort.

use super::exec_end::{End, after_upgrade, before_upgrade, printed_refusal};
use crate::cluster::call::{check_names, pause, said};
use crate::cluster::run::Stop;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::api::{AttachParams, AttachedProcess};
use kube::{Api, Client};
use std::fmt;
use std::pin::{Pin, pin};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, SimplexStream, WriteHalf};
use tokio::time::{sleep, timeout};

/// Where a command runs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExecTarget {
    /// Namespace.
    pub namespace: String,
    /// Pod.
    pub pod: String,
    /// Container; without one the API server takes the pod's only one, or its default.
    pub container: Option<String>,
}

impl fmt::Display for ExecTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What the API says is foreign, and a name in it may be anything.
        write!(f, "pod {}/{}", said(&self.namespace), said(&self.pod))?;
        match &self.container {
            Some(container) => write!(f, " container {}", said(container)),
            None => Ok(()),
        }
    }
}

/// Bounds of one exec.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Most bytes of stdout; one more ends the exec.
    pub stdout: usize,
    /// Bytes kept of the end of stderr.
    pub stderr_tail: usize,
    /// Most bytes read from stderr; one more ends the exec.
    pub stderr: usize,
    /// From the first request to the last byte.
    pub deadline: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            stdout: 16 << 20,
            stderr_tail: 16 << 10,
            stderr: 64 << 20,
            deadline: Duration::from_secs(30),
        }
    }
}

/// What an exec gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Everything on stdout, up to the limit. What came before a deadline or a lost connection is here too.
    pub stdout: Vec<u8>,
    /// The end of stderr.
    pub stderr_tail: Vec<u8>,
    /// Bytes seen on stderr.
    pub stderr_bytes: usize,
    /// How it ended.
    pub end: End,
}

/// Bytes in flight per stream. kube's own 1 KiB makes 10 MB crawl.
const BUFFER: usize = 64 << 10;
/// After the end was reported, what is still buffered is read within this time; it is in memory already.
const REST: Duration = Duration::from_secs(5);
/// After the connection was lost, the readers never end: nothing more comes, so this only lets the buffers run empty.
const REST_OF_LOST: Duration = Duration::from_millis(250);

/// Sends `script` to `sh -s` in a container, once, and collects what it prints. The script ends itself with `exit`: the
/// older subprotocol cannot close stdin alone. It travels on stdin because the command line lands in the audit log.
pub async fn run_script(
    client: &Client,
    at: &ExecTarget,
    script: &str,
    limits: &Limits,
) -> Outcome {
    run_script_until(client, at, script, limits, &Stop::never()).await
}

/// The same, ended early when `stop` asks: what was printed until then is kept.
pub async fn run_script_until(
    client: &Client,
    at: &ExecTarget,
    script: &str,
    limits: &Limits,
    stop: &Stop,
) -> Outcome {
    let mut got = Collected::default();
    let running = async {
        let process = PodProcess::open(client, at, &["sh", "-s"]).await?;
        Ok(got.collect(process, script.as_bytes(), limits).await)
    };
    let end = tokio::select! {
        ended = timeout(limits.deadline, running) => match ended {
            Ok(Ok(end)) | Ok(Err(end)) => end,
            Err(_) => End::Deadline {
                after: limits.deadline,
            },
        },
        () = stop.asked() => End::Stopped,
    };
    Outcome {
        end: printed_refusal(end, &got.stdout, "sh"),
        stdout: got.stdout,
        stderr_tail: got.stderr.into_bytes(limits.stderr_tail),
        stderr_bytes: got.stderr_bytes,
    }
}

/// A command in a container with live streams. Take the fields apart to use the streams side by side; keep
/// [`Ending`] alive as long as they are used, because dropping it ends the exec.
///
/// After the connection is lost the readers do not end by themselves: whoever reads also waits for [`Ending::wait`].
pub struct PodProcess {
    /// Its standard input. Closing it closes everything on servers with the older subprotocol.
    pub stdin: WriteHalf<SimplexStream>,
    /// Its standard output. Frames are cut anywhere: read bytes, then lines, then text.
    pub stdout: ReadHalf<SimplexStream>,
    /// Its standard error. Must be drained too, or stdout stalls.
    pub stderr: ReadHalf<SimplexStream>,
    /// How it ends.
    pub ending: Ending,
}

impl PodProcess {
    /// Starts `argv`, or says why it did not start. Has no deadline of its own: a hung kubelet never answers.
    pub async fn open(client: &Client, at: &ExecTarget, argv: &[&str]) -> Result<Self, End> {
        let program = argv.first().copied().unwrap_or_default().to_owned();
        let params = AttachParams {
            container: at.container.clone(),
            stdin: true,
            stdout: true,
            stderr: true,
            tty: false,
            max_stdin_buf_size: Some(BUFFER),
            max_stdout_buf_size: Some(BUFFER),
            max_stderr_buf_size: Some(BUFFER),
        };
        check_names(&[&at.namespace, &at.pod]).map_err(End::Call)?;
        let api: Api<Pod> = Api::namespaced(client.clone(), &at.namespace);
        let mut attempt = 1;
        let mut attached = loop {
            match api.exec(&at.pod, argv.iter().copied(), &params).await {
                Ok(attached) => break attached,
                Err(error) => match pause(&error, attempt) {
                    Some(pause) => sleep(pause).await,
                    None => return Err(before_upgrade(&error, &program)),
                },
            }
            attempt += 1;
        };
        let streams = (attached.stdin(), attached.stdout(), attached.stderr());
        let status = attached.take_status();
        let ((Some(stdin), Some(stdout), Some(stderr)), Some(status)) = (streams, status) else {
            // Asked for above and taken once, so this is not reached; losing the connection is what it would mean.
            return Err(End::ConnectionLost);
        };
        let ending = Ending {
            status: Box::pin(status),
            attached,
            program,
            end: None,
        };
        Ok(Self {
            stdin,
            stdout,
            stderr,
            ending,
        })
    }
}

/// Owns the connection of a [`PodProcess`] and learns how it ends. Dropping it ends the exec on our side; the process in
/// the container lives on until it ends itself.
pub struct Ending {
    status: Pin<Box<dyn Future<Output = Option<Status>> + Send>>,
    attached: AttachedProcess,
    program: String,
    end: Option<End>,
}

impl Ending {
    /// How it ended. May be cancelled and called again.
    pub async fn wait(&mut self) -> End {
        if let Some(end) = &self.end {
            return end.clone();
        }
        let end = after_upgrade(self.status.as_mut().await, &self.program);
        self.end.insert(end).clone()
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.attached.abort();
    }
}

/// What was read so far; outlives a deadline.
#[derive(Default)]
struct Collected {
    stdout: Vec<u8>,
    stderr: Tail,
    stderr_bytes: usize,
}

impl Collected {
    async fn collect(&mut self, process: PodProcess, script: &[u8], limits: &Limits) -> End {
        let PodProcess {
            mut stdin,
            mut stdout,
            mut stderr,
            mut ending,
        } = process;
        let (out, err, err_bytes) = (&mut self.stdout, &mut self.stderr, &mut self.stderr_bytes);
        let read_out = async {
            let mut buffer = vec![0; BUFFER];
            while let Ok(n @ 1..) = stdout.read(&mut buffer).await {
                let room = limits.stdout - out.len();
                out.extend_from_slice(&buffer[..n.min(room)]);
                if n > room {
                    return Err(End::OutputLimit {
                        bytes: limits.stdout,
                    });
                }
            }
            Ok(())
        };
        let read_err = async {
            let mut buffer = vec![0; BUFFER];
            while let Ok(n @ 1..) = stderr.read(&mut buffer).await {
                err.push(&buffer[..n], limits.stderr_tail);
                *err_bytes += n;
                if *err_bytes > limits.stderr {
                    return Err(End::OutputLimit {
                        bytes: limits.stderr,
                    });
                }
            }
            Ok(())
        };
        let mut drained = pin!(async { tokio::try_join!(read_out, read_err) });
        // Never shut down: `stdin` stays open until this function returns.
        let mut fed = pin!(async {
            let _ = stdin.write_all(script).await;
            let _ = stdin.flush().await;
        });
        let mut feeding = true;
        loop {
            tokio::select! {
                () = &mut fed, if feeding => feeding = false,
                all = &mut drained => return match all {
                    Ok(_) => ending.wait().await,
                    Err(limit) => limit,
                },
                end = ending.wait() => {
                    let rest = if end == End::ConnectionLost { REST_OF_LOST } else { REST };
                    return match timeout(rest, &mut drained).await {
                        Ok(Err(limit)) => limit,
                        Ok(Ok(_)) | Err(_) => end,
                    };
                }
            }
        }
    }
}

/// The last bytes of a stream that may be endless.
#[derive(Debug, Default)]
struct Tail(Vec<u8>);

impl Tail {
    fn push(&mut self, bytes: &[u8], keep: usize) {
        self.0.extend_from_slice(bytes);
        // Cut only now and then, so that each byte is moved a bounded number of times.
        if self.0.len() > 2 * keep + BUFFER {
            self.cut(keep);
        }
    }

    fn cut(&mut self, keep: usize) {
        self.0.drain(..self.0.len().saturating_sub(keep));
    }

    fn into_bytes(mut self, keep: usize) -> Vec<u8> {
        self.cut(keep);
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_holds_the_end_and_stays_small() {
        let mut tail = Tail::default();
        for n in 0..100_000_u32 {
            tail.push(&n.to_le_bytes(), 8);
            assert!(tail.0.len() <= 16 + BUFFER);
        }
        let end = [99_998_u32.to_le_bytes(), 99_999_u32.to_le_bytes()].concat();
        assert_eq!(tail.into_bytes(8), end);
    }
}
