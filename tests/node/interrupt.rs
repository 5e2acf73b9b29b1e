//! Ctrl-C: what was seen until then is reported, and nothing is left open.

use crate::fake::cluster::FakeCluster;
use crate::fake::kubelet::Exec;
use crate::run::{self, Run};
use crate::{command, tree, worker};
use std::time::{Duration, Instant};
use tokio::process::Command;
use tokio::time::sleep;

async fn interrupted(
    fake: &FakeCluster,
    args: &[&str],
    signal: &str,
    ready: impl Fn() -> bool,
) -> Run {
    let mut command = run::against(command(), &fake.kubeconfig());
    command.args(args);
    run::interrupted(command, &[signal], ready).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_seen_until_then_is_reported() {
    let good = tree(&[]);
    let slow = tree(&[(
        "bin/nvidia-smi",
        "#!/bin/sh\n: >\"$ROOT/begun\"\nsleep 1000\n",
    )]);
    let begun = slow.path().join("begun");
    for signal in ["-INT", "-TERM"] {
        let mut builder = FakeCluster::builder()
            .with(worker("a-good", good.path()))
            .with(worker("b-slow", slow.path()))
            .with(worker("c-hung", good.path()).exec(Exec::Hang))
            .orphans_live_on();
        for n in 0..5 {
            builder = builder.with(worker(&format!("d-waits-{n}"), good.path()).exec(Exec::Hang));
        }
        let fake = builder.start().await;
        let _ = std::fs::remove_file(&begun);
        let execs = || {
            fake.requests()
                .iter()
                .filter(|r| r.path.ends_with("/exec"))
                .count()
        };
        let started = std::sync::Mutex::new(None::<Instant>);
        // The third exec is asked for once the first pod is done; the second has read its files when it runs its first
        // tool, and a moment later they are here.
        let ready = || {
            let mut started = started.lock().unwrap();
            if execs() >= 3 && begun.exists() && started.is_none() {
                *started = Some(Instant::now());
            }
            started.is_some_and(|at| at.elapsed() > Duration::from_secs(2))
        };
        let run = interrupted(&fake, &["-l", "app=g", "--parallel", "2"], signal, ready).await;
        assert_eq!(run.code, Some(130), "{}", run.stderr);
        assert!(run.took < Duration::from_secs(30), "{:?}", run.took);
        assert_eq!(run.targets().len(), 8);
        assert_eq!(run.target("a-good").0, "ok");
        // Half of it was read, and that half counts.
        let (status, said) = run.target("b-slow");
        assert_eq!(status, "warn", "{said}");
        assert!(said.contains("interrupted"), "{said}");
        assert_eq!(run.said("b-slow", "ib-link").0, "ok");
        for pod in ["c-hung", "d-waits-4"] {
            let (status, said) = run.target(pod);
            assert_eq!(status, "skipped");
            assert!(said.contains("interrupted"), "{said}");
        }
        let report = run.report();
        assert_eq!(report["trust"], "unproven", "{}", report["verdict"]);
        let verdict = report["verdict"].to_string();
        let words = "the run was interrupted before 6 of 8 containers were looked at";
        assert!(verdict.contains(words), "{verdict}");
        assert!(run.report()["notes"].to_string().contains("interrupted"));
        // Its ends of the streams are closed, and nothing further was asked.
        let waited = Instant::now();
        while fake.open_execs() > 0 {
            assert!(
                waited.elapsed() < Duration::from_secs(30),
                "{} are open",
                fake.open_execs()
            );
            sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(execs(), 3);
        assert_eq!(fake.writes(), []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn before_anything_was_reached() {
    let fake = FakeCluster::builder()
        .slow(Duration::from_secs(60))
        .start()
        .await;
    let ready = || !fake.requests().is_empty();
    let run = interrupted(&fake, &["--pod", "p"], "-INT", ready).await;
    assert_eq!(run.code, Some(130));
    // The server takes a minute.
    assert!(run.took < Duration::from_secs(30), "{:?}", run.took);
    assert!(run.report()["notes"].to_string().contains("interrupted"));
}

/// A directory for `PATH` with one program, which leaves a file `begun` beside itself.
fn program(name: &str, then: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::TempDir::new().unwrap();
    let begun = folder.path().join("begun");
    let path = folder.path().join(name);
    let script = format!("#!/bin/sh\n: >{}\n{then}\n", begun.display());
    std::fs::write(&path, script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&path, mode).unwrap();
    (folder, begun)
}

/// The binary with this directory before the others on `PATH`.
fn with_programs(folder: &tempfile::TempDir) -> Command {
    let usual = std::env::var("PATH").unwrap();
    let mut command = command();
    command.env("PATH", format!("{}:{usual}", folder.path().display()));
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_time_ends_it_at_once() {
    // A shell that does not end when it is asked, which takes the first half a second.
    let (folder, begun) = program("sh", "trap '' TERM\nsleep 20 >/dev/null 2>&1");
    let run = run::interrupted(with_programs(&folder), &["-INT", "-INT"], || begun.exists()).await;
    assert_eq!((run.code, run.stdout.as_str()), (Some(130), ""));
    // The first interrupt alone would give a report.
    assert!(run.took < Duration::from_secs(15), "{:?}", run.took);
}

#[tokio::test(flavor = "multi_thread")]
async fn this_machine_is_reported_as_far_as_it_was_read() {
    let (folder, begun) = program("nvidia-smi", "sleep 1000");
    for signal in ["-INT", "-TERM"] {
        let _ = std::fs::remove_file(&begun);
        let run = run::interrupted(with_programs(&folder), &[signal], || begun.exists()).await;
        assert_eq!(run.code, Some(130), "{}", run.stderr);
        assert!(run.took < Duration::from_secs(30), "{:?}", run.took);
        assert!(run.report()["notes"].to_string().contains("interrupted"));
        let (_, status) = run.targets()[0].clone();
        assert_eq!(status, "warn", "{}", run.stdout);
        assert!(run.stdout.contains("before the run was interrupted"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_that_is_interrupted_says_so() {
    let machine = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/machines/many-faults.json"
    );
    let one = std::fs::read_to_string(machine).unwrap();
    let many = vec![one.as_str(); 600].join(",");
    let dir = tempfile::TempDir::new().unwrap();
    let path = dir.path().join("many.json");
    let json = format!("{{\"format\":1,\"snapshots\":[{many}],\"errors\":[],\"notes\":[]}}");
    std::fs::write(&path, json).unwrap();
    let mut command = command();
    command.arg("--from").arg(&path);
    let begun = Instant::now();
    let run = run::interrupted(command, &["-INT"], || {
        // It has started by then, on a busy machine too, and takes many times as long.
        begun.elapsed() > Duration::from_millis(1500)
    })
    .await;
    assert_eq!((run.code, run.stdout.as_str()), (Some(130), ""));
    assert!(
        run.stderr
            .contains("interrupted while it was read and judged"),
        "{}",
        run.stderr
    );
}
