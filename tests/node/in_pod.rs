//! The tool in a pod of the cluster that it looks at: with the service account that the kubelet mounts, and no kubeconfig.

use crate::fake::cluster::FakeCluster;
use crate::fake::tls::Identity;
use crate::run::{self, Run};
use crate::{skip, tree, worker};
use std::path::Path;
use std::process::Stdio;
use tempfile::TempDir;
use tokio::process::Command;

/// Where the kubelet mounts it. The place is fixed, so the test mounts its own there, in a mount namespace that ends with it.
const AT: &str = "/run/secrets/kubernetes.io/serviceaccount";

/// A service account as it is mounted: these files.
fn account(files: &[(&str, &str)]) -> TempDir {
    let dir = TempDir::new().unwrap();
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

/// A mount namespace can be made here; where not, it is said aloud.
fn can_mount() -> bool {
    let made = std::process::Command::new("unshare")
        .args(["--mount", "--map-root-user", "true"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success());
    if !made {
        skip::aloud("a service account is only where a mount namespace can be made");
    }
    made
}

/// The binary as in a pod with this service account, of the cluster at this address.
async fn in_pod(account: &Path, url: &str, args: &[&str]) -> Run {
    let address = url.strip_prefix("https://").unwrap();
    let (host, port) = address.rsplit_once(':').unwrap();
    // /var/run is /run, or leads there.
    let script = format!(
        "mount -t tmpfs none /run && mkdir -p {AT} && cp \"$1\"/* {AT}/ && \
         if [ ! -e /var{AT} ]; then mount -t tmpfs none /var/run && mkdir -p /var{AT} && cp \"$1\"/* /var{AT}/; fi && \
         shift && exec \"$@\""
    );
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--map-root-user", "sh", "-c", &script, "sh"])
        .arg(account)
        .arg(env!("CARGO_BIN_EXE_dynamo-interconnect-check"))
        .arg("node")
        .args(args)
        .env_remove("KUBECONFIG")
        .env("HOME", "/nonexistent")
        .env("KUBERNETES_SERVICE_HOST", host)
        .env("KUBERNETES_SERVICE_PORT", port)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    run::run(command).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_account_of_a_pod_reaches_its_cluster() {
    if !can_mount() {
        return;
    }
    let root = tree(&[]);
    let identity = Identity::new(&["127.0.0.1"], false);
    let authority = identity.pem.clone();
    let fake = FakeCluster::builder()
        .with(worker("p", root.path()))
        .token("c4n4ry")
        .tls(identity)
        .start()
        .await;
    let files = [
        ("token", "c4n4ry"),
        ("ca.crt", authority.as_str()),
        ("namespace", "llm"),
    ];
    let mounted = account(&files);
    // The namespace is that of the pod itself.
    let run = in_pod(mounted.path(), &fake.url, &["--pod", "p"]).await;
    assert_eq!(run.target("p").0, "ok", "{}\n{}", run.stdout, run.stderr);
    assert_eq!(
        run.finding("p", "node:target")["target"]["namespace"],
        "llm"
    );
    assert_eq!(run.said("p", "ib-link").0, "ok");
    assert!(!run.stdout.contains("c4n4ry") && !run.stderr.contains("c4n4ry"));
    assert_eq!(fake.writes(), []);
    // Each file counts: what another one is, or is not there, is told, and no secret with it.
    let other = Identity::new(&["127.0.0.1"], false).pem;
    for (name, text, words) in [
        (
            "token",
            Some("other-c4n4ry"),
            "rejects the credentials (401 Unauthorized)",
        ),
        ("token", None, "service account"),
        ("ca.crt", Some(other.as_str()), "certificate"),
        ("ca.crt", None, "service account"),
        ("namespace", None, "service account"),
    ] {
        let kept = files.iter().filter(|(file, _)| *file != name).copied();
        let changed: Vec<(&str, &str)> = kept.chain(text.map(|text| (name, text))).collect();
        let mounted = account(&changed);
        let run = in_pod(mounted.path(), &fake.url, &["--pod", "p"]).await;
        assert_eq!(run.code, Some(4), "{name}: {}{}", run.stdout, run.stderr);
        let report = run.report();
        let said = report["errors"][0]["message"].as_str().unwrap();
        assert!(said.contains(words), "{name}: {said}");
        assert!(!run.stdout.contains("c4n4ry"), "{name}: {said}");
    }
}
