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
        builder = builder.with(pod(name, "decode", tree.path(), "invented-rc-mlx5"));
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

#[tokio::test]
async fn a_command_line_that_means_nothing() {
    for args in [
        &["--peer", "x"][..],
        &["--self"],
        &["--quick"],
        &["--transfer", "--self", "--peer", "x"],
        &["--transfer", "--pods", "prefill=a"],
        &["--transfer", "--sample", "2"],
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
