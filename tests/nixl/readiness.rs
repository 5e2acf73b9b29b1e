//! Without a transfer: is NIXL there, with the backend that the worker selects?

use crate::fake::cluster::FakeCluster;
use crate::{on, pod, run, tree};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_there_is_told_and_what_is_missing_fails() {
    let ready = tree(&[("bin/ucx_perftest", "#!/bin/sh\nexit 1\n")]);
    let libfabric = "SGLANG_DISAGGREGATION_NIXL_BACKEND=LIBFABRIC\0HOME=/root\0";
    let no_plugin = tree(&[
        ("proc/7/cmdline", "python3\0-m\0dynamo.sglang\0"),
        ("proc/7/environ", libfabric),
    ]);
    let without = tree(&[]);
    for part in ["nixl_cu12-1.3.0.dist-info", "nixl_cu12.libs"] {
        std::fs::remove_dir_all(without.path().join(crate::SITE).join(part)).unwrap();
    }
    let mut builder = FakeCluster::builder();
    for (name, tree) in [
        ("ready", &ready),
        ("no-plugin", &no_plugin),
        ("without", &without),
    ] {
        builder = builder.with(pod(
            name,
            "decode",
            tree.path(),
            "invented-rc-mlx5-one-rail",
        ));
    }
    let fake = builder.start().await;
    let run = on(&fake, &["-l", "role=decode"]).await;
    let said = |pod: &str, name: &str| run.said(pod, name);
    let (status, detail) = said("ready", "nixl");
    assert_eq!(status, "ok", "{detail}");
    assert!(
        detail
            .starts_with("NIXL 1.3.0 (nixl_cu12) for python3.12 of /opt/dynamo/venv; UCX 1.21 of"),
        "{detail}"
    );
    let (status, detail) = said("ready", "nixl:binary");
    assert_eq!(status, "ok");
    assert!(detail.contains("-t ucp_put_bw"), "{detail}");
    let (status, detail) = said("no-plugin", "nixl");
    assert_eq!(status, "fail");
    assert!(
        detail.contains("libplugin_LIBFABRIC.so is not among UCX"),
        "{detail}"
    );
    let (status, detail) = said("without", "nixl");
    assert_eq!(status, "fail");
    assert!(
        detail.contains("no NIXL is in the container, where vllm are"),
        "{detail}"
    );
    let (_, detail) = said("without", "nixl:binary");
    let command =
        "`dynamo-interconnect-check nixl --transfer -n llm --pod without --peer OTHER-POD`";
    assert!(detail.contains(command), "{detail}");
    run.assert_trust("untrusted");
    assert_eq!(fake.writes(), []);
}

/// The probe looks where the worker's own environment points.
#[tokio::test(flavor = "multi_thread")]
async fn the_directory_of_the_worker_decides_which_plugins_there_are() {
    let with = |environ: &str, file: &str| tree(&[("proc/7/environ", environ), (file, "")]);
    let trees = [
        (
            "absent",
            with("NIXL_PLUGIN_DIR=/nowhere\0HOME=/root\0", "opt/x"),
        ),
        ("empty", with("NIXL_PLUGIN_DIR=/opt\0HOME=/root\0", "opt/x")),
        (
            "own",
            with(
                "NIXL_PLUGIN_DIR=/opt/p/\0HOME=/root\0",
                "opt/p/libplugin_UCX.so",
            ),
        ),
    ];
    let mut builder = FakeCluster::builder();
    for (name, tree) in &trees {
        let log = "invented-rc-mlx5-one-rail";
        builder = builder.with(pod(name, "decode", tree.path(), log));
    }
    let fake = builder.start().await;
    let run = on(&fake, &["-l", "role=decode"]).await;
    for (pod, status, words) in [
        (
            "absent",
            "fail",
            "no libplugin_*.so is in NIXL_PLUGIN_DIR=/nowhere, ",
        ),
        (
            "empty",
            "fail",
            "no libplugin_*.so is in NIXL_PLUGIN_DIR=/opt, ",
        ),
        ("own", "ok", "plugins UCX of NIXL_PLUGIN_DIR=/opt/p/;"),
    ] {
        let (seen, detail) = run.said(pod, "nixl");
        assert_eq!(seen, status, "{pod}: {detail}");
        assert!(detail.contains(words), "{pod}: {detail}");
    }
    assert_eq!(fake.writes(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_default_text_says_what_is_there_and_equal_containers_are_one_line() {
    let trees = [tree(&[]), tree(&[]), tree(&[])];
    let mut builder = FakeCluster::builder();
    for (name, tree) in ["a", "b", "c"].iter().zip(&trees) {
        builder = builder.with(pod(
            name,
            "decode",
            tree.path(),
            "invented-rc-mlx5-one-rail",
        ));
    }
    let part = format!("{}/nixl_cu12.libs/nixl", crate::SITE);
    std::fs::remove_dir_all(trees[2].path().join(part)).unwrap();
    let fake = builder.start().await;
    let run = on(&fake, &["-l", "role=decode", "-o", "text"]).await;
    let section = run.stdout.split("\n\n").find(|s| s.starts_with("NIXL\n"));
    assert_eq!(
        section.unwrap(),
        "NIXL\n  \
           ok  a (decode), b (decode): NIXL 1.3.0 (nixl_cu12) for python3.12 of /opt/dynamo/venv; UCX 1.21 of\n      \
               its own nixl_cu12.libs (verbs, CUDA); plugins UCX; backend not named (UCX is the default)\n  \
           skipped  c (decode): NIXL 1.3.0 (nixl_cu12) for python3.12 of /opt/dynamo/venv; its plugins are in\n      \
               none of the usual directories, so whether it has UCX, NIXL's default, is not known"
    );
    let next =
        "Next: `dynamo-interconnect-check nixl --transfer --pods prefill=SELECTOR,decode=SELECTOR`";
    assert!(run.stdout.contains(next), "{}", run.stdout);
}

/// Ends that are no two ends: nothing is moved, and the verdict begins with why.
#[tokio::test(flavor = "multi_thread")]
async fn ends_that_are_not_there_or_are_one() {
    let trees = [tree(&[]), tree(&[])];
    let fake = FakeCluster::builder()
        .with(pod(
            "p",
            "prefill",
            trees[0].path(),
            "invented-rc-mlx5-one-rail",
        ))
        .with(pod(
            "d",
            "decode",
            trees[1].path(),
            "invented-rc-mlx5-one-rail",
        ))
        .start()
        .await;
    for (args, words) in [
        (
            &["--pods", "prefill=role=prefill,decode=role=none"][..],
            "no pod in namespace llm matches role=none (decode)",
        ),
        (
            &["--pods", "prefill=other:role=prefill,decode=role=decode"],
            "no pod in namespace other matches role=prefill (prefill)",
        ),
        (
            &["--pods", "prefill=role,decode=role=decode"],
            "llm/d is selected both as prefill and as decode",
        ),
        (
            &["--pods", "prefill=role=decode,decode=role=decode"],
            "llm/d is selected both as prefill and as decode",
        ),
        (
            &["-l", "role", "--self"],
            "--self takes one pod, and the selector matches 2 (d, p)",
        ),
    ] {
        let mut all = vec!["--transfer", "--quick"];
        all.extend(args);
        let run = on(&fake, &all).await;
        let report = run.report();
        let verdict = report["verdict"].as_str().unwrap();
        let lead = format!("No transfer was made: {words}; ");
        assert!(verdict.starts_with(&lead), "{args:?}: {verdict}");
        assert_eq!(run.code, Some(4), "{args:?}");
        assert!(run.pairs().is_empty(), "{args:?}");
    }
    let run = on(&fake, &["--transfer", "--pod", "d", "--peer", "nobody"]).await;
    let (status, detail) = run.transfer("d", "nobody");
    assert_eq!(status, "skipped");
    let words = "No command could be run on nobody (target): there is no such pod";
    assert!(detail.starts_with(words), "{detail}");
    assert_eq!(run.code, Some(4));
}

#[tokio::test]
async fn a_command_line_that_means_nothing() {
    for args in [
        &["--peer", "x"][..],
        &["--self"],
        &["--quick"],
        &["--transfer", "--self", "--peer", "x"],
        &["--transfer", "--self", "--sample", "3"],
        &["--transfer", "--pods", "prefill=a"],
        &["--transfer", "--sample", "2"],
        &["--transfer", "--pod", "x", "--peer", "x"],
        &["--transfer", "--pod", "x", "--pod", "y", "--peer", "z"],
        &["--transfer", "--pod", "x", "-l", "a=b", "--peer", "z"],
        &["--transfer", "--pod", "x", "--pod", "y", "--self"],
        &["--transfer", "--self", "--backend", ""],
        &["--transfer", "--self", "--timeout", "0"],
        &["--transfer", "--self", "--gpu", "-1"],
        &[
            "--transfer",
            "--pods",
            "prefill=a,decode=b",
            "--sample",
            "0",
        ],
        &["--transfer", "--pods", "prefill=:a,decode=b"],
        &["--transfer", "--pods", "prefill=n:,decode=b"],
        &["--save", "x", "--from", "x"],
        &["--memory", "disk"],
    ] {
        let run = run(args).await;
        assert_eq!(run.code, Some(2), "{args:?}");
        assert!(run.stderr.contains("--help"), "{args:?}: {}", run.stderr);
    }
}
