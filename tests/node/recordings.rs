//! `--save` and `--from`: the same report, byte for byte, and nothing secret in between.

use crate::fake::cluster::FakeCluster;
use crate::fake::kubelet::Exec;
use crate::{on, run, tree, worker};
use serde_json::json;
use std::path::Path;
use tempfile::TempDir;

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_says_the_same_also_of_what_failed() {
    let root = tree(&[(
        "bin/nvidia-smi",
        "#!/bin/sh\nprintf 'x\\377\\033[2J\\n'; exit 9\n",
    )]);
    let fake = FakeCluster::builder()
        .with(worker("good", root.path()))
        .with(worker("lost", root.path()).exec(Exec::LostAfter(4000)))
        .with(worker("no-sh", root.path()).exec(Exec::NoExecutables))
        .deny("list", "nodes")
        .deny("get", "pods")
        .start()
        .await;
    let dir = TempDir::new().unwrap();
    for name in ["directory", "file.tar.zst"] {
        let path = dir.path().join(name);
        let path = path.to_str().unwrap();
        // An error, a note and a pod that is not there must come back too.
        let live = on(
            &fake,
            &["-l", "app=g", "--pod", "gone", "-c", "main", "--save", path],
        )
        .await;
        assert_eq!(live.targets().len(), 4, "{}", live.stdout);
        let replayed = run(&["--from", path]).await;
        assert_eq!(replayed.stdout, live.stdout, "{name}");
        assert_eq!(replayed.code, live.code);
        let none = on(&fake, &["-l", "app=none", "--save", path]).await;
        assert_eq!(none.code, Some(4));
        let notes = none.report()["notes"].to_string();
        assert!(
            notes.contains("nothing was recorded, because nothing was read"),
            "{notes}"
        );
        // What was recorded before is still there.
        assert_eq!(run(&["--from", path]).await.stdout, live.stdout);
        for form in [&["-o", "text"][..], &["-o", "text", "--verbose"]] {
            let mut args = vec!["--from", path];
            args.extend(form);
            assert_eq!(run(&args).await.stdout, run(&args).await.stdout);
        }
    }
    let file = dir.path().join("directory/bundle.json");
    let by_file = run(&["--from", file.to_str().unwrap()]).await;
    let by_dir = run(&["--from", dir.path().join("directory").to_str().unwrap()]).await;
    assert_eq!(by_file.stdout, by_dir.stdout);
}

#[tokio::test]
async fn this_machine_replays_too() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("here.tar.zst");
    let live = run(&["--save", path.to_str().unwrap()]).await;
    let replayed = run(&["--from", path.to_str().unwrap()]).await;
    assert_eq!(replayed.stdout, live.stdout);
    assert_eq!(replayed.code, live.code);
}

#[tokio::test]
async fn recordings_that_cannot_be_read_have_their_words() {
    let dir = TempDir::new().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let cases = [
        (
            dir.path().join("none").to_str().unwrap().to_owned(),
            "no such file or directory; check the path",
        ),
        (
            dir.path().to_str().unwrap().to_owned(),
            "there is no bundle.json in it",
        ),
        (
            file("newer.json", br#"{"format": 99, "more": 1}"#),
            "this version knows formats up to 1; update the tool",
        ),
        (
            file("broken.json", br#"{"format": 1, "snapshots": ["#),
            "EOF while parsing",
        ),
        (
            file("junk.json", b"\0\xff\x1b[2J"),
            "not a recording of this tool: expected value",
        ),
        (
            file("junk.tar.zst", b"no archive"),
            "junk.tar.zst: not a recording of this tool (bundle.json in a .tar.zst): ",
        ),
        (
            file("nothing.json", br#"{"format": 1, "snapshots": [], "errors": [], "notes": []}"#),
            "nothing is recorded in it",
        ),
        (
            file(
                "blank.json",
                br#"{"format": 1, "snapshots": [{"place": {"pod": ""}, "answers": {}}], "errors": [], "notes": []}"#,
            ),
            "nothing is recorded of it",
        ),
    ];
    for (path, words) in cases {
        let out = run(&["--from", &path]).await;
        assert_eq!(out.code, Some(4), "{path}");
        let report = out.report();
        let said = report["errors"][0]["message"].as_str().unwrap();
        assert!(said.contains(words), "{said}");
        assert!(!out.stdout.contains('\u{1b}'));
        let text = run(&["--from", &path, "-o", "text"]).await;
        assert_eq!(text.code, Some(4));
    }
    // A recording that wants to act on a terminal.
    let hostile = json!({
        "format": 1,
        "snapshots": [{"place": {"pod": "p\u{1b}[2J", "namespace": "n\u{202e}", "role": "decode\u{7}"}, "answers": {
            "target": {"missing": {"reason": "denied", "detail": "no\u{1b}]0;x\u{7}"}},
            "rdma-ports": {"text": "/sys/class/infiniband/\u{1b}[2J/ports/1/state: 1: DOWN\n"},
            "rdma-devices": {"text": "\u{1b}[2J\n"},
        }}],
        "errors": [{"object": "\u{1b}[2J", "message": "\u{9b}2J"}],
        "notes": [{"object": "\u{1b}[2J", "message": "\u{1b}[2J"}],
    });
    let path = file("hostile.json", hostile.to_string().as_bytes());
    for format in ["json", "text"] {
        let out = run(&["--from", &path, "-o", format, "--verbose"]).await;
        assert_eq!(out.code, Some(4));
        let bad = ['\u{1b}', '\u{9b}', '\u{7}', '\u{202e}'];
        assert!(!out.stdout.contains(bad), "{:?}", out.stdout);
        assert!(!out.stdout.contains("\\u001b"), "{}", out.stdout);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_may_not_be_written_is_refused_before_anything_is_probed() {
    let root = tree(&[]);
    let fake = FakeCluster::builder()
        .with(worker("p", root.path()))
        .start()
        .await;
    let dir = TempDir::new().unwrap();
    let mine = dir.path().join("file");
    std::fs::write(&mine, "mine").unwrap();
    let link = dir.path().join("link.tar.zst");
    std::os::unix::fs::symlink(&mine, &link).unwrap();
    for path in [
        mine.clone(),
        mine.join("x"),
        dir.path().join("x.zip"),
        dir.path().join("foo.txt"),
        dir.path().join("not/there"),
        link,
        dir.path().to_owned(),
    ] {
        let out = on(&fake, &["--pod", "p", "--save", path.to_str().unwrap()]).await;
        assert_eq!(out.code, Some(4), "{}", path.display());
        let said = out.report()["errors"][0]["message"].to_string();
        assert!(
            said.contains("save to ") || said.contains("look at "),
            "{said}"
        );
        assert_eq!(out.targets(), []);
    }
    assert!(fake.requests().is_empty());
    assert_eq!(std::fs::read(&mine).unwrap(), b"mine");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[tokio::test]
async fn a_pipe_in_place_of_a_recording_is_refused_at_once() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    let out = run(&["--from", path.to_str().unwrap()]).await;
    assert_eq!(out.code, Some(4));
    assert!(
        out.stdout.contains("it is neither a file nor a directory"),
        "{}",
        out.stdout
    );
}

const CANARY: &str = "c4n4ry";

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_gets_into_a_report_or_a_recording() {
    let root = tree(&[
        (
            "proc/7/cmdline",
            "python3\0-m\0dynamo.vllm\0--api-key\0c4n4ry-1\0",
        ),
        (
            "proc/7/environ",
            "UCX_TLS=rc,cuda_copy\0AWS_SECRET_ACCESS_KEY=c4n4ry-2\0HF_TOKEN=c4n4ry-3\0NIXL_ETCD_ENDPOINTS=http://me:c4n4ry-4@e\0KV_TRANSFER_CONFIG={\"lmcache.api_key\":\"c4n4ry-5\"}\0DB_PASSWORD=c4n4ry-6\0",
        ),
        ("proc/cmdline", "root=/dev/sda password=c4n4ry-7 iommu=pt\n"),
        ("etc/nccl.conf", "NCCL_DEBUG=INFO\nTOKEN=c4n4ry-8\n"),
    ]);
    let pod = worker("p", root.path())
        .set("/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration", "c4n4ry-9".into())
        .set("/spec/containers/0/args", json!(["--token", "c4n4ry-10"]))
        .set("/spec/containers/0/command", json!(["sh", "-c", "export HF_TOKEN=c4n4ry-11"]))
        .set(
            "/spec/containers/0/env",
            json!([
                {"name": "UCX_TLS", "value": "rc,cuda_copy"},
                {"name": "DB_PASSWORD", "value": "c4n4ry-12"},
                {"name": "NIXL_ETCD_ENDPOINTS", "value": "http://me:c4n4ry-13@e"},
                {"name": "NCCL_IB_HCA", "valueFrom": {"secretKeyRef": {"name": "c4n4ry-14", "key": "c4n4ry-15"}}},
                {"name": "OTHER", "valueFrom": {"configMapKeyRef": {"name": "c4n4ry-16", "key": "c4n4ry-17"}}},
            ]),
        )
        .set("/spec/containers/0/envFrom", json!([{"secretRef": {"name": "fabric-settings"}}]));
    let fake = FakeCluster::builder()
        .with(pod)
        .token("c4n4ry-token")
        .start()
        .await;
    let dir = TempDir::new().unwrap();
    for name in ["directory", "file.tar.zst"] {
        let path = dir.path().join(name);
        let path = path.to_str().unwrap();
        for format in ["json", "text"] {
            let out = on(
                &fake,
                &["--pod", "p", "--save", path, "-o", format, "--verbose"],
            )
            .await;
            assert!(
                out.stdout.contains("KV_TRANSFER_CONFIG is set"),
                "{}",
                out.stdout
            );
            for text in [&out.stdout, &out.stderr] {
                assert!(!text.contains(CANARY), "{text}");
            }
        }
        let bundle = unpacked(Path::new(path));
        assert!(
            bundle.contains("UCX_TLS=rc,cuda_copy") && bundle.contains("NCCL_IB_HCA<-secret"),
            "{bundle}"
        );
        let at = bundle
            .find(CANARY)
            .map(|at| &bundle[at.saturating_sub(200)..at + 10]);
        assert_eq!(at, None);
    }
}

/// Every byte of a recording, as text.
fn unpacked(path: &Path) -> String {
    if path.is_dir() {
        return std::fs::read_to_string(path.join("bundle.json")).unwrap();
    }
    let file = std::fs::File::open(path).unwrap();
    let plain = zstd::decode_all(file).unwrap();
    String::from_utf8_lossy(&plain).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_break_within_a_value_is_seen() {
    let root = tree(&[(
        "proc/7/environ",
        "UCX_TLS=rc\ncuda_copy\0UCX_NET_DEVICES=mlx5_0:1\0HOME=/root\0",
    )]);
    let fake = FakeCluster::builder()
        .with(worker("p", root.path()).set(
            "/spec/containers/0/env",
            json!([{"name": "UCX_TLS", "value": "rc\ncuda_copy"}, {"name": "UCX_NET_DEVICES", "value": "mlx5_0:1"}]),
        ))
        .start()
        .await;
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("r");
    let run = on(&fake, &["--pod", "p", "--save", path.to_str().unwrap()]).await;
    let bundle = unpacked(&path);
    // In the process and in the spec, as it would be written in one line.
    assert_eq!(
        bundle.matches(r"UCX_TLS=rc\\ncuda_copy\n").count(),
        2,
        "{bundle}"
    );
    let (status, said) = run.said("p", "env:UCX_TLS");
    assert_ne!(status, "ok", "{said}");
    assert!(said.contains(r"rc\ncuda_copy"), "{said}");
}
