//! One pair of pods: what carried the bytes, and what that is worth.

use crate::{PORT, assert_clean, has_python, on, pod, transfer, tree, two};

#[tokio::test(flavor = "multi_thread")]
async fn rdma_with_counters_that_agree_is_proven() {
    if !has_python() {
        return;
    }
    let (p, d) = (tree(&[]), tree(&[]));
    let fake = two(
        pod("p", "prefill", p.path(), "invented-rc-mlx5-one-rail"),
        pod("d", "decode", d.path(), "invented-rc-mlx5-one-rail"),
    )
    .await;
    let run = transfer(&fake, &["--pod", "d", "--peer", "p"]).await;
    let (status, detail) = run.transfer("d", "p");
    assert_eq!(status, "ok", "{detail}");
    assert!(detail.contains("rc_mlx5/mlx5_0:1"), "{detail}");
    assert!(detail.contains("counters agree"), "{detail}");
    assert_eq!(run.pairs(), [("d -> p".to_owned(), "ok".to_owned(), true)]);
    // Nothing failed; a required check that this fixture leaves open keeps the word from being "trusted".
    run.assert_trust("unproven");
    assert_eq!(run.code, Some(0), "{}", run.stdout);
    // Which check that is and what to do is said.
    let report = run.report();
    let verdict = report["verdict"].as_str().unwrap();
    assert!(verdict.contains("which could not be judged"), "{verdict}");
    let next = report["next"].as_str().unwrap();
    assert!(next.contains("nixl --transfer --pod d --peer p"), "{next}");
    assert_eq!(run.finding("d", "nixl")["status"], "ok");
    assert_clean(&fake, &[p.path(), d.path()]).await;
    // Only what is documented was asked of the API server, and only two programs were started.
    for request in fake.requests() {
        let command = request.query.iter().find(|(k, _)| k == "command");
        match command {
            Some((_, program)) => {
                assert!(["sh", "python3"].contains(&program.as_str()), "{program}");
                assert!(request.path.ends_with("/exec"));
            }
            None => assert!(
                request.path == "/version"
                    || request.path.ends_with("/selfsubjectaccessreviews")
                    || request.path.contains("/pods"),
                "{request:?}"
            ),
        }
    }
}

/// A counter that the bytes of a direction do not need, or that cannot be read, contradicts nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_counts_one_way_contradicts_no_lane() {
    if !has_python() {
        return;
    }
    for (of_target, counter) in [
        (true, "port_xmit_data"),
        (true, "port_rcv_data"),
        (false, "port_rcv_data"),
    ] {
        let (p, d) = (tree(&[]), tree(&[]));
        let end = if of_target { &p } else { &d };
        let path = format!("{PORT}/counters/{counter}");
        std::fs::remove_file(end.path().join(path)).unwrap();
        let fake = two(
            pod("p", "prefill", p.path(), "invented-rc-mlx5-one-rail"),
            pod("d", "decode", d.path(), "invented-rc-mlx5-one-rail"),
        )
        .await;
        let run = transfer(&fake, &["--pod", "d", "--peer", "p"]).await;
        let (status, detail) = run.transfer("d", "p");
        assert_eq!(status, "ok", "{counter}: {detail}");
        assert_eq!(run.pairs(), [("d -> p".to_owned(), "ok".to_owned(), true)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn right_bytes_over_tcp_fail_and_name_the_likely_cause() {
    if !has_python() {
        return;
    }
    let hidden = [("proc/7/environ", "UCX_TLS=tcp,cuda_copy\0HOME=/root\0")];
    let (p, d) = (tree(&hidden), tree(&hidden));
    let fake = two(
        pod("p", "prefill", p.path(), "ucx-1.23-pods").env("NIXL_STANDIN_PORT", ""),
        pod("d", "decode", d.path(), "ucx-1.23-pods").env("NIXL_STANDIN_PORT", ""),
    )
    .await;
    let run = transfer(&fake, &["--pod", "d", "--peer", "p"]).await;
    let (status, detail) = run.transfer("d", "p");
    assert_eq!(status, "fail", "{detail}");
    assert!(detail.starts_with("Works, wrong lane: "), "{detail}");
    assert!(detail.contains("tcp/eth0"), "{detail}");
    let (_, cause) = detail.split_once("Most likely cause: ").unwrap();
    assert!(cause.contains("tcp"), "{cause}");
    run.assert_trust("untrusted");
    assert_eq!(run.code, Some(1));
    assert_clean(&fake, &[p.path(), d.path()]).await;
    let text = on(
        &fake,
        &[
            "--transfer",
            "--quick",
            "--pod",
            "d",
            "--peer",
            "p",
            "-o",
            "text",
        ],
    )
    .await
    .stdout;
    assert!(text.starts_with("NOT TRUSTED\n"), "{text}");
    assert!(text.contains("Works, wrong lane"), "{text}");
    assert!(text.lines().all(|l| l.chars().count() <= 220), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_bytes_are_the_first_thing_to_fix() {
    if !has_python() {
        return;
    }
    let (p, d) = (tree(&[]), tree(&[]));
    let fake = two(
        pod("p", "prefill", p.path(), "invented-rc-mlx5-one-rail")
            .env("NIXL_STANDIN_FAULT", "flip"),
        pod("d", "decode", d.path(), "invented-rc-mlx5-one-rail"),
    )
    .await;
    let run = transfer(&fake, &["--pod", "d", "--peer", "p"]).await;
    let (status, detail) = run.transfer("d", "p");
    assert_eq!(status, "fail");
    assert!(detail.starts_with("WRONG BYTES: READ"), "{detail}");
    assert_eq!(run.report()["fix_first"][0]["name"], "kv-transfer");
    assert!(!run.pairs()[0].2);
    assert_clean(&fake, &[p.path(), d.path()]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn both_ends_in_one_container_prove_the_local_lane_and_no_more() {
    if !has_python() {
        return;
    }
    let root = tree(&[]);
    let fake = two(
        pod("p", "prefill", root.path(), "ucx-1.23-host"),
        // Shared memory moves no counter of a port.
        pod("d", "decode", root.path(), "ucx-1.23-host").env("NIXL_STANDIN_PORT", ""),
    )
    .await;
    let run = transfer(&fake, &["--pod", "d", "--self"]).await;
    let (status, detail) = run.transfer("d", "d");
    assert_eq!(status, "ok", "{detail}");
    assert!(
        detail.contains("both ends are in one container"),
        "{detail}"
    );
    assert_eq!(run.pairs(), [("d -> d".to_owned(), "ok".to_owned(), false)]);
    run.assert_trust("unproven");
    assert_clean(&fake, &[root.path()]).await;
}
