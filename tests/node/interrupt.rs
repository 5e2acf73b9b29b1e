//! Ctrl-C: what was seen until then is reported, and nothing is left open.

use crate::fake::cluster::FakeCluster;
use crate::fake::kubelet::Exec;
use crate::run::{self, Run};
use crate::{command, tree, worker};
use std::time::{Duration, Instant};
use tokio::time::sleep;

async fn interrupted(
    fake: &FakeCluster,
    args: &[&str],
    signal: &str,
    ready: impl Fn() -> bool,
) -> Run {
    let mut command = run::against(command(), &fake.kubeconfig());
    command.args(args);
    run::interrupted(command, signal, ready).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_seen_until_then_is_reported() {
    let good = tree(&[]);
    let slow = tree(&[("bin/nvidia-smi", "#!/bin/sh\nsleep 1000\n")]);
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
        let execs = || {
            fake.requests()
                .iter()
                .filter(|r| r.path.ends_with("/exec"))
                .count()
        };
        let started = std::sync::Mutex::new(None::<Instant>);
        // The third exec is asked for once the first pod is done; a moment later the second has read its files.
        let ready = || {
            let mut started = started.lock().unwrap();
            if execs() >= 3 && started.is_none() {
                *started = Some(Instant::now());
            }
            started.is_some_and(|at| at.elapsed() > Duration::from_secs(2))
        };
        let run = interrupted(&fake, &["-l", "app=g", "--parallel", "2"], signal, ready).await;
        assert_eq!(run.code, Some(130), "{}", run.stderr);
        assert!(run.took < Duration::from_secs(4), "{:?}", run.took);
        assert_eq!(run.targets().len(), 8);
        assert_eq!(run.target("a-good").0, "ok");
        // Half of it was read, and that half counts.
        let (status, said) = run.target("b-slow");
        assert_eq!(status, "warn", "{said}");
        assert!(said.contains("interrupted"), "{said}");
        assert_eq!(run.said("b-slow", "ib-link").0, "ok");
        for pod in ["c-hung", "d-waits-4"] {
            let (status, said) = run.target(pod);
            assert_eq!(status, "fail");
            assert!(said.contains("interrupted"), "{said}");
        }
        assert!(run.report()["notes"].to_string().contains("interrupted"));
        // Its ends of the streams are closed, and nothing further was asked.
        let waited = Instant::now();
        while fake.open_execs() > 0 {
            assert!(
                waited.elapsed() < Duration::from_secs(5),
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
    assert!(run.took < Duration::from_secs(2), "{:?}", run.took);
    assert!(run.report()["notes"].to_string().contains("interrupted"));
}
