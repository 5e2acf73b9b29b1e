//! A call runs this program as a child: a cancelled one ends as Ctrl-C would end it.

use crate::report::ExitCode;
use rmcp::model::{CallToolResult, ContentBlock, ProgressNotificationParam};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, Command};

/// A child that is cancelled has this long to close its streams.
const GRACE: Duration = Duration::from_secs(8);

/// Progress is told this often.
const EVERY: Duration = Duration::from_secs(1);

/// More output than of a thousand containers is no report.
const OUTPUT: u64 = 256 << 20;

/// So much of what a child complains about is passed on.
const COMPLAINT: usize = 2_000;

/// What became of a call.
pub(super) enum Ended {
    Done {
        code: Option<i32>,
        stdout: String,
        stderr: String,
    },
    Cancelled,
}

/// Runs the program with these arguments until it ends or the call is cancelled.
pub(super) async fn run(
    line: &[String],
    context: &RequestContext<RoleServer>,
) -> std::io::Result<Ended> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(line)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let reading = async {
        let read_out = async {
            if let Some(out) = out {
                out.take(OUTPUT).read_to_end(&mut stdout).await?;
            }
            std::io::Result::Ok(())
        };
        let read_err = async {
            if let Some(err) = err {
                err.take(OUTPUT).read_to_end(&mut stderr).await?;
            }
            std::io::Result::Ok(())
        };
        tokio::try_join!(read_out, read_err)
    };
    let ended = tokio::select! {
        read = reading => Some(read),
        () = context.ct.cancelled() => None,
        () = tell_progress(context) => None,
    };
    match ended {
        Some(read) => {
            read?;
            let code = child.wait().await?.code();
            Ok(Ended::Done {
                code,
                stdout: String::from_utf8_lossy(&stdout).into_owned(),
                stderr: crate::sanitise::lines(&String::from_utf8_lossy(&stderr), COMPLAINT),
            })
        }
        None => {
            end(&mut child).await;
            Ok(Ended::Cancelled)
        }
    }
}

/// As Ctrl-C ends it; by force where that is not enough.
async fn end(child: &mut Child) {
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
    if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
    }
    if tokio::time::timeout(GRACE, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}

/// Says that it still runs, to a host that asked for it. Never ends by itself.
async fn tell_progress(context: &RequestContext<RoleServer>) {
    let token = context.meta.get_progress_token();
    let mut seconds = 0.0;
    loop {
        tokio::time::sleep(EVERY).await;
        seconds += EVERY.as_secs_f64();
        if let Some(token) = &token {
            let told = ProgressNotificationParam::new(token.clone(), seconds)
                .with_message(format!("{seconds:.0} s"));
            // A host that no longer listens will cancel.
            let _ = context.peer.notify_progress(told).await;
        }
    }
}

/// The report in a few lines, for a model that does not need all of it.
pub(super) fn summary(report: &Value) -> String {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let mut lines = vec![text(&report["verdict"])];
    let all = |list: &'static str| report[list].as_array().into_iter().flatten();
    for error in all("errors").take(5) {
        lines.push(format!(
            "{}: {}",
            text(&error["object"]),
            text(&error["message"])
        ));
    }
    for fix in all("fix_first").take(5) {
        lines.push(format!(
            "{} {} on {}: {}. Fix: {}",
            text(&fix["status"]),
            text(&fix["id"]),
            text(&fix["target"]["name"]),
            text(&fix["detail"]).trim_end_matches('.'),
            text(&fix["fix"])
        ));
        // Where it is written, and what to write.
        let finding = all("checks").find(|c| c["id"] == fix["id"] && c["target"] == fix["target"]);
        let evidence = finding.and_then(|c| c["evidence"].as_array()).into_iter();
        if let Some(spot) = evidence.flatten().find(|e| e["line"].is_u64()) {
            lines.push(format!("At {}:{}", text(&spot["path"]), spot["line"]));
        }
        lines.extend(
            fix["paste"]
                .as_str()
                .map(|paste| format!("Paste:\n{paste}")),
        );
    }
    lines.extend(report["next"].as_str().map(|next| format!("Next: {next}")));
    lines.retain(|line| !line.is_empty());
    lines.join("\n")
}

pub(super) fn answer(ended: Ended) -> CallToolResult {
    let (code, stdout, stderr) = match ended {
        Ended::Cancelled => return CallToolResult::error(vec![ContentBlock::text("cancelled")]),
        Ended::Done {
            code,
            stdout,
            stderr,
        } => (code, stdout, stderr),
    };
    let Ok(report) = serde_json::from_str::<Value>(&stdout) else {
        let said = if stderr.is_empty() { stdout } else { stderr };
        return CallToolResult::error(vec![ContentBlock::text(said)]);
    };
    let could_not_run = code == Some(ExitCode::CouldNotRun as i32);
    let mut result = CallToolResult::structured(report.clone());
    let summary = summary(&report);
    if !summary.is_empty() {
        result.content = vec![ContentBlock::text(summary)];
    }
    result.is_error = Some(could_not_run || code.is_none());
    result
}
