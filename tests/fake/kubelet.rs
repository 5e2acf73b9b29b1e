//! The kubelet's side of exec: framing of both subprotocols, a real process behind it, and the ways it can go wrong.

use axum::body::Bytes;
use axum::extract::ws::{Message, WebSocket};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// What exec in a pod does.
#[derive(Debug, Clone)]
pub enum Exec {
    /// Really runs the command with `ROOT` set to the fixture tree and a PATH that begins with its `bin`.
    Shell,
    /// As [`Exec::Shell`], and the probe's script and the agents of a transfer see the fixture tree as their file system.
    Probe,
    /// As [`Exec::Probe`], in an image without this program.
    ProbeWithout(&'static str),
    /// As [`Exec::Probe`], until an agent of a transfer has printed this many bytes: then the TCP connection is gone.
    AgentLostAfter(usize),
    /// As [`Exec::Probe`], until this many bytes were printed: then the pod is deleted and the command killed.
    DeletedAfter(usize),
    /// As [`Exec::Probe`], until this many bytes were printed: then the TCP connection is gone.
    LostAfter(usize),
    /// As [`Exec::Shell`], after a while.
    SlowStart(Duration),
    /// An image without any program.
    NoExecutables,
    /// Prints this and exits 0 after a while, without any process.
    Reply(Vec<u8>, Duration),
    /// Prints this and exits 0 after a while, without any process; each `@NONCE@` in it becomes that of the script that was
    /// sent, and each `@VARY@` four digits that hardly another exec has.
    Answers(Arc<Vec<u8>>, Duration),
    /// Prints this many bytes, then the TCP connection is gone.
    DropAfter(usize),
    /// Closes the WebSocket in good order, without a status.
    SilentClose,
    /// Upgrades, then nothing.
    Hang,
    /// Does not even upgrade: a hung kubelet.
    NeverAnswers,
    /// Endless pings, and nothing is read.
    Pings,
    /// Endless stdout.
    StdoutFlood,
    /// This much stderr, then stdout `done` and exit 0.
    StderrFlood(usize),
    /// An HTTP answer instead of the upgrade; a JSON string is sent as plain text.
    Refuse(u16, Value),
    /// Upgrades, prints `half`, then ends with this status.
    End(Value),
}

impl Exec {
    /// The kubelet's process is gone; the pod still shows Running.
    pub fn kubelet_gone() -> Self {
        let said = "error dialing backend: dial tcp 192.0.2.1:10250: connect: connection refused";
        Self::Refuse(
            500,
            json!({"kind": "Status", "status": "Failure", "code": 500, "message": said}),
        )
    }

    /// Completed, image not pulled, or crash-looping: plain text.
    pub fn container_not_found() -> Self {
        Self::Refuse(500, "container not found (\"main\")\n".into())
    }

    /// The same through an API server that translates to SPDY.
    pub fn container_not_found_after_upgrade() -> Self {
        Self::End(internal_error(
            "unable to upgrade connection: container not found (\"main\")",
        ))
    }

    /// Pending and without a node.
    pub fn unscheduled(pod: &str) -> Self {
        let said = format!("pod {pod} does not have a host assigned");
        let status = json!({"kind": "Status", "status": "Failure", "reason": "BadRequest", "code": 400, "message": said});
        Self::Refuse(400, status)
    }

    /// The pod is deleted while the command runs.
    pub fn killed() -> Self {
        Self::End(exit_status(137))
    }
}

/// One exec request.
pub struct Request {
    /// The command.
    pub argv: Vec<String>,
    /// The file system it sees.
    pub root: PathBuf,
    /// More variables of the process.
    pub env: Vec<(String, String)>,
    /// Stands before the command.
    pub wrap: Vec<String>,
    /// What happens.
    pub exec: Exec,
    /// Decides the sizes of chunks.
    pub seed: u64,
    /// As a real kubelet does, leave the process alone when the client goes away.
    pub orphans: bool,
}

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
const CLOSE: u8 = 255;

/// Serves one upgraded exec to its end.
pub async fn serve(mut socket: WebSocket, request: Request) {
    // Real servers open every channel with an empty frame.
    for channel in [STDIN, STDOUT, STDERR, STATUS] {
        send(&mut socket, channel, b"").await;
    }
    let status = match &request.exec {
        Exec::Shell | Exec::Probe | Exec::DeletedAfter(_) => run(&mut socket, &request).await,
        Exec::ProbeWithout(program) if request.argv.first().is_some_and(|p| p == program) => {
            Some(missing_executable(&request.argv))
        }
        Exec::ProbeWithout(_) => run(&mut socket, &request).await,
        Exec::AgentLostAfter(_) => {
            let status = run(&mut socket, &request).await;
            if is_agent(&request) {
                return;
            }
            status
        }
        Exec::LostAfter(_) => {
            run(&mut socket, &request).await;
            return;
        }
        Exec::SlowStart(pause) => {
            sleep(*pause).await;
            run(&mut socket, &request).await
        }
        Exec::NoExecutables => Some(missing_executable(&request.argv)),
        Exec::Reply(stdout, pause) => {
            sleep(*pause).await;
            for chunk in stdout.chunks(32 << 10) {
                send(&mut socket, STDOUT, chunk).await;
            }
            Some(success())
        }
        Exec::Answers(output, pause) => {
            let nonce = nonce_of_script(&mut socket).await;
            sleep(*pause).await;
            let own = format!("{:04x}", request.seed & 0xffff);
            let output = String::from_utf8_lossy(output)
                .replace("@NONCE@", &nonce)
                .replace("@VARY@", &own);
            for chunk in output.as_bytes().chunks(32 << 10) {
                send(&mut socket, STDOUT, chunk).await;
            }
            Some(success())
        }
        Exec::DropAfter(bytes) => {
            send(&mut socket, STDOUT, &vec![b'x'; *bytes]).await;
            return;
        }
        Exec::SilentClose => None,
        Exec::Hang | Exec::NeverAnswers | Exec::Refuse(..) => {
            while let Some(Ok(_)) = socket.recv().await {}
            return;
        }
        Exec::StdoutFlood => {
            while send(&mut socket, STDOUT, &[b'y'; 32 << 10]).await {}
            return;
        }
        Exec::Pings => {
            let ping = Bytes::from_static(&[b'p'; 125]);
            while socket.send(Message::Ping(ping.clone())).await.is_ok() {}
            return;
        }
        Exec::StderrFlood(bytes) => {
            let mut left = *bytes;
            while left > 0 && send(&mut socket, STDERR, &vec![b'e'; left.min(32 << 10)]).await {
                left = left.saturating_sub(32 << 10);
            }
            send(&mut socket, STDOUT, b"done").await;
            Some(success())
        }
        Exec::End(status) => {
            send(&mut socket, STDOUT, b"half").await;
            Some(status.clone())
        }
    };
    if let Some(status) = status {
        send(&mut socket, STATUS, status.to_string().as_bytes()).await;
    }
    let _ = socket.send(Message::Close(None)).await;
    // Until the client closes: leaving now would make the kernel reset the connection, and the client would lose output
    // that it has not read yet.
    let _ = timeout(Duration::from_secs(5), async {
        while let Some(Ok(_)) = socket.recv().await {}
    })
    .await;
}

async fn send(socket: &mut WebSocket, channel: u8, data: &[u8]) -> bool {
    let mut frame = Vec::with_capacity(data.len() + 1);
    frame.push(channel);
    frame.extend_from_slice(data);
    socket
        .send(Message::Binary(Bytes::from(frame)))
        .await
        .is_ok()
}

/// The nonce of the script that arrives; the rest of it is read by whoever reads next.
async fn nonce_of_script(socket: &mut WebSocket) -> String {
    let mut script = Vec::new();
    loop {
        let Some(Ok(message)) = socket.recv().await else {
            return String::new();
        };
        if let Message::Binary(frame) = message {
            script.extend_from_slice(&frame[1..]);
        }
        let text = String::from_utf8_lossy(&script);
        if let Some((_, rest)) = text.split_once("\nNONCE=")
            && let Some((nonce, _)) = rest.split_once('\n')
        {
            return nonce.to_owned();
        }
    }
}

/// Starts an agent of a transfer: a program that reads its source from standard input.
fn is_agent(request: &Request) -> bool {
    request
        .argv
        .iter()
        .any(|word| word.contains("exec(compile("))
}

/// Runs the command; None when the client went away.
async fn run(socket: &mut WebSocket, request: &Request) -> Option<Value> {
    let mut words = request.wrap.iter().chain(&request.argv);
    let program = words.next()?;
    let spawned = Command::new(program)
        .args(words)
        .env_clear()
        .envs(request.env.iter().map(|(name, value)| (name, value)))
        .env(
            "PATH",
            format!("{}:/usr/bin:/bin", request.root.join("bin").display()),
        )
        .env("ROOT", &request.root)
        .current_dir(&request.root)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn();
    let Ok(mut child) = spawned else {
        return Some(missing_executable(&request.argv));
    };
    let group = child.id()?;
    let (rooted, most) = match request.exec {
        Exec::Probe | Exec::ProbeWithout(_) => (true, usize::MAX),
        Exec::AgentLostAfter(bytes) if is_agent(request) => (true, bytes),
        Exec::AgentLostAfter(_) => (true, usize::MAX),
        Exec::DeletedAfter(bytes) | Exec::LostAfter(bytes) => (true, bytes),
        _ => (false, usize::MAX),
    };
    let root = request.root.display();
    let root = match (rooted, is_agent(request)) {
        (false, _) => None,
        (true, false) if request.argv == ["sh", "-s"] => {
            Some(("\nROOT=''\n", format!("\nROOT='{root}'\n")))
        }
        (true, true) => Some((r#""root":"""#, format!(r#""root":"{root}""#))),
        (true, false) => None,
    };
    let code = pump(socket, &mut child, request.seed, root, most).await;
    if code.is_some() || !request.orphans {
        let group = format!("-{group}");
        let _ = Command::new("kill")
            .args(["-KILL", "--", &group])
            .stderr(Stdio::null())
            .status()
            .await;
    }
    code.map(exit_status)
}

/// Carries bytes both ways in chunks of odd sizes until the process has ended and its output is read; then its exit code.
///
/// `root` is what stands in the input for an empty root, and what replaces it; after `most` bytes of output the process counts as killed.
async fn pump(
    socket: &mut WebSocket,
    child: &mut Child,
    seed: u64,
    root: Option<(&'static str, String)>,
    most: usize,
) -> Option<i32> {
    let mut chunks = Chunks(seed | 1);
    let (mut stdout, mut stderr) = (child.stdout.take()?, child.stderr.take()?);
    let mut stdin = child.stdin.take()?;
    // A task of its own: a child that does not read must not keep us from reading what it writes.
    let (to_child, mut from_client) = mpsc::unbounded_channel::<Bytes>();
    tokio::spawn(async move {
        let (mut root, mut held) = (root, Vec::new());
        while let Some(bytes) = from_client.recv().await {
            held.extend_from_slice(&bytes);
            if let Some((empty, line)) = &root {
                let empty = empty.as_bytes();
                let Some(at) = held.windows(empty.len()).position(|w| w == empty) else {
                    continue;
                };
                held.splice(at..at + empty.len(), line.bytes());
                root = None;
            }
            if stdin.write_all(&std::mem::take(&mut held)).await.is_err() {
                return;
            }
        }
    });
    let mut to_child = Some(to_child);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let (mut out_open, mut err_open, mut code) = (true, true, None);
    let mut printed = 0;
    while out_open || err_open || code.is_none() {
        tokio::select! {
            open = fill(&mut stdout, &mut out, chunks.next()), if out_open => {
                out_open = open;
                out.truncate(most - printed);
                printed += out.len();
                if !send(socket, STDOUT, &out).await { return None; }
            }
            // Enough was printed.
            () = std::future::ready(()), if printed >= most => return Some(137),
            open = fill(&mut stderr, &mut err, chunks.next()), if err_open => {
                err_open = open;
                if !send(socket, STDERR, &err).await { return None; }
            }
            message = socket.recv() => match message {
                Some(Ok(Message::Binary(frame))) => match frame.first() {
                    Some(&STDIN) => {
                        let _ = to_child.as_ref().map(|c| c.send(frame.slice(1..)));
                    }
                    Some(&CLOSE) if frame[1..] == [STDIN] => to_child = None,
                    _ => {}
                },
                Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                Some(Ok(_)) => {}
            },
            ended = child.wait(), if code.is_none() => {
                code = Some(ended.ok().and_then(|s| s.code()).unwrap_or(137));
            }
            // A grandchild may keep the pipes open after the command has ended.
            () = sleep(Duration::from_millis(500)), if code.is_some() => break,
        }
    }
    code
}

async fn fill(from: &mut (impl AsyncRead + Unpin), into: &mut Vec<u8>, size: usize) -> bool {
    into.resize(size, 0);
    let n = from.read(into).await.unwrap_or(0);
    into.truncate(n);
    n > 0
}

/// Sizes from 1 to 8192, the same for the same seed.
struct Chunks(u64);

impl Chunks {
    fn next(&mut self) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        1 + usize::try_from(self.0 % 8192).unwrap()
    }
}

fn success() -> Value {
    json!({"metadata": {}, "status": "Success"})
}

fn exit_status(code: i32) -> Value {
    if code == 0 {
        return success();
    }
    json!({
        "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
        "message": format!("command terminated with non-zero exit code: exit status {code}"),
        "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
    })
}

fn missing_executable(argv: &[String]) -> Value {
    let program = argv.first().map_or("", String::as_str);
    internal_error(&format!(
        "error executing command in container: failed to exec in container: failed to start exec \"0\": OCI runtime exec failed: exec failed: unable to start container process: exec: \"{program}\": executable file not found in $PATH: unknown"
    ))
}

fn internal_error(said: &str) -> Value {
    json!({
        "metadata": {}, "status": "Failure", "reason": "InternalError", "code": 500,
        "message": format!("Internal error occurred: {said}"),
        "details": {"causes": [{"message": said}]},
    })
}
