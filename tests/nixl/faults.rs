//! What can go wrong at one end: each in its own words, and never a pass.

use crate::fake::kubelet::Exec;
use crate::fake::pod::FakePod;
use crate::run::Run;
use crate::{assert_clean, has_python, pod, transfer, tree, two};

/// A transfer from `d` to `p` with this done to the decode pod.
async fn with(change: impl FnOnce(FakePod) -> FakePod) -> Option<Run> {
    if !has_python() {
        return None;
    }
    // Without a worker: its interpreter would be tried next, and this machine has other processes of that number.
    let without = [("proc/7/cmdline", "sleep\0"), ("proc/7/environ", "")];
    let (p, d) = (tree(&without), tree(&without));
    let fake = two(
        pod("p", "prefill", p.path(), "invented-rc-mlx5-one-rail"),
        change(pod("d", "decode", d.path(), "invented-rc-mlx5-one-rail")),
    )
    .await;
    let run = transfer(&fake, &["--pod", "d", "--peer", "p"]).await;
    assert_clean(&fake, &[p.path(), d.path()]).await;
    assert_ne!(run.report()["trust"], "trusted");
    Some(run)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_without_python() {
    let Some(run) = with(|d| d.exec(Exec::ProbeWithout("python3"))).await else {
        return;
    };
    let (status, detail) = run.transfer("d", "p");
    assert_eq!(status, "skipped", "{detail}");
    assert_eq!(
        detail,
        "No Python interpreter on d (initiator): no python3, no /opt/dynamo/venv/bin/python3.12"
    );
    assert_not_shown(&run, "could not be made: No Python interpreter on d");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interpreter_without_nixl() {
    let Some(run) = with(|d| d.env("NIXL_STANDIN_FAULT", "import")).await else {
        return;
    };
    let (status, detail) = run.transfer("d", "p");
    assert_eq!(status, "skipped", "{detail}");
    assert_eq!(
        detail,
        "NIXL cannot be imported on d (initiator): python3: nixl._api: ImportError: no stand-in today"
    );
    assert_not_shown(&run, "could not be made: NIXL cannot be imported on d");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_connection_is_a_fail() {
    let Some(run) = with(|d| d.env("NIXL_STANDIN_FAULT", "refuse")).await else {
        return;
    };
    let (status, detail) = run.transfer("d", "p");
    assert_eq!(status, "fail", "{detail}");
    assert!(detail.contains("d (initiator)"), "{detail}");
    run.assert_trust("untrusted");
    assert_eq!(run.code, Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_lost_midway() {
    let Some(run) = with(|d| d.exec(Exec::AgentLostAfter(3000))).await else {
        return;
    };
    let (status, detail) = run.transfer("d", "p");
    assert_eq!(status, "skipped", "{detail}");
    assert!(
        detail.contains("lost") || detail.contains("connection"),
        "{detail}"
    );
    run.assert_trust("unproven");
    assert_not_shown(
        &run,
        "came to no answer: The connection to the container was lost on d",
    );
}

/// What was asked for and is not there ends in no 0, and the verdict begins with it.
fn assert_not_shown(run: &Run, words: &str) {
    assert_eq!(run.code, Some(4), "{}", run.stderr);
    let report = run.report();
    let verdict = report["verdict"].as_str().unwrap();
    let lead = format!("The transfer d -> p {words}");
    assert!(verdict.starts_with(&lead), "{verdict}");
    assert!(verdict.contains("; the KV path is not proven"), "{verdict}");
    let next = report["next"].as_str().unwrap();
    assert_eq!(
        next,
        "apply the fix above, then `dynamo-interconnect-check nixl --transfer --pod d --peer p --quick` again"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backend_that_nobody_uses_is_asked_for_in_vain() {
    if !has_python() {
        return;
    }
    let trees = [tree(&[]), tree(&[])];
    let fake = two(
        pod("p", "prefill", trees[0].path(), "invented-rc-mlx5-one-rail"),
        pod("d", "decode", trees[1].path(), "invented-rc-mlx5-one-rail"),
    )
    .await;
    let run = transfer(&fake, &["--pod", "d", "--peer", "p", "--backend", "NOPE"]).await;
    assert_eq!(run.code, Some(4));
    let (status, detail) = run.transfer("d", "p");
    assert_eq!(status, "skipped");
    let words = "has no backend NOPE: its plugins are LIBFABRIC, POSIX, UCX";
    assert!(detail.contains(words), "{detail}");
    let args = [
        "--pod",
        "d",
        "--peer",
        "p",
        "--backend",
        "NOPE",
        "-o",
        "text",
    ];
    let text = transfer(&fake, &args).await.stdout;
    let section = text
        .split("\n\n")
        .find(|s| s.starts_with("Asked for and not shown\n"));
    let section = section.unwrap_or_else(|| panic!("{text}"));
    for part in [
        " -  skipped  kv-transfer  d -> p  [XFER001]\n",
        " has no backend NOPE: its plugins are LIBFABRIC, POSIX, UCX\n",
        "    fix: Name a backend that this NIXL has (--backend)",
    ] {
        assert!(section.contains(part), "{part}: {section}");
    }
    // Over RDMA, and not with what the worker uses.
    let run = transfer(
        &fake,
        &["--pod", "d", "--peer", "p", "--backend", "libfabric"],
    )
    .await;
    let pair = &run.report()["pairs"]["made"][0];
    assert_eq!(pair["proven"], false, "{pair}");
    assert_eq!(pair["unproven"][0]["kind"], "other-backend", "{pair}");
    run.assert_trust("unproven");
}
