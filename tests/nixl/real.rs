//! The real wheel behind the fake API server: two pod-like places joined by a veth, driven by the binary.

use crate::fake::cluster::FakeCluster;
use crate::fake::kubelet::Exec;
use crate::fake::pod::FakePod;
use crate::{on, skip};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use tempfile::TempDir;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/pod_pair.sh");

/// Two namespaces, removed whatever happens.
struct Places(String);

impl Drop for Places {
    fn drop(&mut self) {
        let _ = Command::new(SCRIPT).args(["down", &self.0]).status();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn between_two_pod_like_places_the_real_wheel_takes_tcp_and_that_is_untrusted() {
    let what = "the real NIXL behind the API server";
    let Ok(python) = std::env::var("INTERCONNECT_NIXL_PYTHON") else {
        skip::aloud(&format!("{what}: INTERCONNECT_NIXL_PYTHON is not set"));
        return;
    };
    let places = Places(format!("icb{}", std::process::id()));
    let up = Command::new(SCRIPT).args(["up", &places.0]).status();
    if !up.is_ok_and(|s| s.success()) {
        assert!(
            std::env::var_os("INTERCONNECT_NIXL_REQUIRED").is_none(),
            "no two pod-like places: root, iproute2 and unshare are needed"
        );
        skip::aloud(&format!("{what}: needs root, iproute2 and unshare"));
        return;
    }
    let root = TempDir::new().unwrap();
    let bin = root.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let wrapper = bin.join("python3");
    std::fs::write(&wrapper, format!("#!/bin/sh\nexec {python} \"$@\"\n")).unwrap();
    std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(0o755)).unwrap();
    let pod = |name: &str, role: &str, end: &str| {
        FakePod::new("llm", name, root.path())
            .label("nvidia.com/dynamo-component-type", role)
            .exec(Exec::Shell)
            .wrap(&[SCRIPT, "run", &format!("{}{end}", places.0)])
    };
    let fake = FakeCluster::builder()
        .with(pod("p", "prefill", "a"))
        .with(pod("d", "decode", "b"))
        .start()
        .await;
    let run = on(
        &fake,
        &["--transfer", "--quick", "--pod", "d", "--peer", "p"],
    )
    .await;
    let (status, detail) = run.transfer("d", "p");
    assert_eq!(status, "fail", "{detail}\n{}", run.stdout);
    assert!(detail.starts_with("Works, wrong lane: "), "{detail}");
    assert!(detail.contains("tcp/eth0"), "{detail}");
    assert!(detail.contains("counters agree"), "{detail}");
    assert!(detail.contains("Most likely cause: "), "{detail}");
    run.assert_trust("untrusted");
    assert!(run.pairs().iter().all(|p| !p.2));
    assert_eq!(run.code, Some(1));
    // This interpreter is in no usual place: the agent told what it loaded, and that is judged.
    for end in ["d", "p"] {
        let found = run.finding(end, "nixl");
        let detail = found["detail"].as_str().unwrap();
        assert_eq!(found["status"], "ok", "{detail}");
        assert!(detail.contains("NIXL 1.5.1 (nixl_cu12)"), "{detail}");
        assert!(detail.contains("UCX 1.23.0 of "), "{detail}");
        assert!(detail.contains("plugins UCX"), "{detail}");
        let seen = found["evidence"][0]["ask"].as_str().unwrap();
        assert_eq!(seen, "NIXL and UCX that the agent of the transfer loaded");
    }
    assert_eq!(fake.writes(), []);
}
