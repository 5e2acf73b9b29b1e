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
        pod("p", "prefill", p.path(), "invented-rc-mlx5"),
        change(pod("d", "decode", d.path(), "invented-rc-mlx5")),
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
    assert!(
        detail.contains("python3") && detail.contains("d (initiator)"),
        "{detail}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interpreter_without_nixl() {
    let Some(run) = with(|d| d.env("NIXL_STANDIN_FAULT", "import")).await else {
        return;
    };
    let (status, detail) = run.transfer("d", "p");
    assert_eq!(status, "skipped", "{detail}");
    assert!(detail.contains("no stand-in today"), "{detail}");
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
}
