//! The end of a run before its work is done: by Ctrl-C, and by its own deadline.

use crate::fake::cluster::FakeCluster;
use crate::run::{self, Run};
use crate::{against, assert_clean, has_python, on, pod, tree};
use std::time::Duration;
use tempfile::TempDir;

const ARGS: &[&str] = &[
    "--transfer",
    "--quick",
    "--parallel",
    "1",
    "--pods",
    "prefill=role=prefill,decode=role=decode",
];

/// A prefill pod and two decode pods, of which the second hangs while it makes its agent. One pair runs at a time, and those
/// of the first come first.
async fn one_of_two_hangs() -> (FakeCluster, Vec<TempDir>) {
    let (mut builder, mut trees) = (FakeCluster::builder(), Vec::new());
    for (name, role) in [("p", "prefill"), ("d-0", "decode"), ("d-1", "decode")] {
        let root = tree(&[]);
        let mut pod = pod(name, role, root.path(), "invented-rc-mlx5-one-rail");
        if name == "d-1" {
            pod = pod.env("NIXL_STANDIN_FAULT", "hang@create");
        }
        builder = builder.with(pod);
        trees.push(root);
    }
    (builder.orphans_live_on().start().await, trees)
}

/// Agents that were started in pods.
fn agents(fake: &FakeCluster) -> usize {
    let is_agent =
        |(key, word): &(String, String)| key == "command" && word.contains("exec(compile(");
    let requests = fake.requests();
    requests
        .iter()
        .filter(|r| r.query.iter().any(is_agent))
        .count()
}

fn assert_partial(run: &Run, words: &str) {
    let pairs = run.pairs();
    let ends: Vec<_> = pairs.iter().map(|(ends, ..)| ends.as_str()).collect();
    assert_eq!(ends, ["d-0 -> p", "d-1 -> p"], "{pairs:?}");
    assert_eq!((pairs[0].1.as_str(), pairs[0].2), ("ok", true), "{pairs:?}");
    assert_eq!(
        (pairs[1].1.as_str(), pairs[1].2),
        ("skipped", false),
        "{pairs:?}"
    );
    let (_, detail) = run.transfer("d-1", "p");
    assert!(
        detail.starts_with("The transfer was cut short on ")
            && detail.contains("while making the NIXL agent"),
        "{detail}"
    );
    assert!(detail.contains(words), "{detail}");
    run.assert_trust("unproven");
    let report = run.report();
    let notes = report["notes"].to_string();
    assert!(
        notes.contains("this is what was seen until then"),
        "{notes}"
    );
    let verdict = report["verdict"].as_str().unwrap();
    let lead = "The transfer d-1 -> p could not be made: The transfer was cut short on ";
    assert!(verdict.starts_with(lead), "{verdict}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_keeps_the_pairs_that_are_done_and_ends_both_ends() {
    if !has_python() {
        return;
    }
    for signal in ["-INT", "-TERM"] {
        let (fake, trees) = one_of_two_hangs().await;
        let started = std::sync::Mutex::new(None::<std::time::Instant>);
        let ready = || {
            let mut started = started.lock().unwrap();
            if agents(&fake) >= 4 && started.is_none() {
                *started = Some(std::time::Instant::now());
            }
            started.is_some_and(|at| at.elapsed() > Duration::from_secs(2))
        };
        let run = run::interrupted(against(&fake, ARGS), &[signal], ready).await;
        assert_eq!(run.code, Some(130), "{}", run.stderr);
        // The transfer hangs for ever.
        assert!(run.took < Duration::from_secs(40), "{:?}", run.took);
        assert_partial(&run, "the run was interrupted");
        let roots: Vec<_> = trees.iter().map(TempDir::path).collect();
        assert_clean(&fake, &roots).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_deadline_bounds_the_transfers_too() {
    if !has_python() {
        return;
    }
    let (fake, trees) = one_of_two_hangs().await;
    // Longer than the first pair takes on a busy machine, and shorter than an agent may take to come up (30 s).
    let mut args = vec!["--deadline", "20"];
    args.extend(ARGS);
    let run = on(&fake, &args).await;
    assert!(run.took < Duration::from_secs(60), "{:?}", run.took);
    assert_partial(&run, "the time of the whole run was over");
    assert_eq!(run.code, Some(4), "{}", run.stderr);
    let roots: Vec<_> = trees.iter().map(TempDir::path).collect();
    assert_clean(&fake, &roots).await;
}

/// Without a cluster: both ends on this machine.
#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_within_one_machine() {
    if !has_python() {
        return;
    }
    let mark = TempDir::new().unwrap();
    let mut command = run::command("nixl");
    let standin = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/nixl_standin");
    command
        .args(["--transfer", "--self", "--quick"])
        .env("PYTHONPATH", standin)
        .env("ROOT", mark.path())
        .env("NIXL_STANDIN_FAULT", "hang@xfer");
    let agents = || {
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let ours = format!("ROOT={}\0", mark.path().display());
        let is_agent = |at: &std::path::Path| {
            let read = |file: &str| std::fs::read(at.join(file)).unwrap_or_default();
            String::from_utf8_lossy(&read("environ")).contains(&ours)
                && String::from_utf8_lossy(&read("cmdline")).contains("exec(compile(")
        };
        processes.filter(|p| is_agent(&p.path())).count()
    };
    let started = std::sync::Mutex::new(None::<std::time::Instant>);
    let ready = || {
        let mut started = started.lock().unwrap();
        if agents() == 2 && started.is_none() {
            *started = Some(std::time::Instant::now());
        }
        started.is_some_and(|at| at.elapsed() > Duration::from_secs(2))
    };
    let run = run::interrupted(command, &["-INT"], ready).await;
    assert_eq!(run.code, Some(130), "{}", run.stderr);
    // The transfer hangs for ever.
    assert!(run.took < Duration::from_secs(40), "{:?}", run.took);
    let checks = run.checks();
    let transfer = checks.iter().find(|c| c["name"] == "kv-transfer").unwrap();
    let detail = transfer["detail"].as_str().unwrap();
    assert!(detail.starts_with("The transfer was cut short"), "{detail}");
    assert_eq!(agents(), 0);
}

fn program(dir: &TempDir, name: &str, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let path = dir.path().join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn before_path(dir: &TempDir) -> String {
    format!(
        "{}:{}",
        dir.path().display(),
        std::env::var("PATH").unwrap()
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_while_the_machine_is_read_keeps_what_was_read() {
    for args in [&[] as &[&str], &["--transfer", "--self", "--quick"]] {
        let dir = TempDir::new().unwrap();
        let mark = dir.path().join("begun");
        let slow = format!("#!/bin/sh\n: > {}\nexec sleep 60\n", mark.display());
        program(&dir, "nvidia-smi", &slow);
        let mut command = run::command("nixl");
        command.args(args).env("PATH", before_path(&dir));
        let run = run::interrupted(command, &["-INT"], || mark.exists()).await;
        assert_eq!(run.code, Some(130), "{args:?}: {}", run.stderr);
        // The program takes a minute.
        assert!(run.took < Duration::from_secs(30), "{:?}", run.took);
        let report = run.report();
        let notes = report["notes"].to_string();
        assert!(
            notes.contains("this is what was seen until then"),
            "{notes}"
        );
        assert!(!run.checks().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interpreter_that_hangs_holds_nothing_up() {
    let dir = TempDir::new().unwrap();
    let (begun, asleep) = (
        dir.path().join("begun"),
        format!("988.{}", std::process::id()),
    );
    let hangs = format!("#!/bin/sh\n: > {}\nsleep {asleep}\n", begun.display());
    program(&dir, "python3", &hangs);
    let command = |args: &[&str]| {
        let mut command = run::command("nixl");
        let usual = ["--transfer", "--self", "--quick"];
        command
            .args(usual)
            .args(args)
            .env("PATH", before_path(&dir));
        command
    };
    let left = || {
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut lines = processes.filter_map(|p| std::fs::read(p.path().join("cmdline")).ok());
        lines.any(|c| String::from_utf8_lossy(&c).contains(&asleep))
    };
    let gone = async || {
        for _ in 0..1_500 {
            if !left() {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        false
    };
    for signals in [&["-INT"] as &[&str], &["-INT", "-INT"]] {
        let _ = std::fs::remove_file(&begun);
        let run = run::interrupted(command(&[]), signals, || begun.exists()).await;
        assert_eq!(run.code, Some(130), "{}", run.stderr);
        // The interpreter takes a quarter of an hour.
        assert!(run.took < Duration::from_secs(30), "{:?}", run.took);
        assert!(gone().await, "{signals:?}: left running");
        if signals.len() == 1 {
            let said = run.report()["verdict"].as_str().unwrap().to_owned();
            assert!(said.contains("while starting Python"), "{said}");
        }
    }
    let began = std::time::Instant::now();
    let out = command(&["--deadline", "4"]).output().await.unwrap();
    assert_eq!(out.status.code(), Some(4));
    let took = began.elapsed();
    assert!(took < Duration::from_secs(30), "{took:?}");
    assert!(gone().await, "left running");
}
