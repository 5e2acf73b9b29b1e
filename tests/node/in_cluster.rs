//! In a pod: no kubeconfig, but a service account mounted where Kubernetes puts it. The place is fixed, so it is made within
//! a mount namespace of its own.

use crate::fake::cluster::{Builder, FakeCluster};
use crate::fake::tls::Identity;
use crate::{Run, run, skip, tree, worker};
use tempfile::TempDir;
use tokio::process::Command;

/// Mounts the files of a directory as the service account, and goes on as another program.
const IN_POD: &str = r#"
set -e
mount -t tmpfs tmpfs /run
[ /var/run -ef /run ] || mount --bind /run /var/run
mkdir -p /run/secrets/kubernetes.io/serviceaccount
cp "$ACCOUNT"/* /run/secrets/kubernetes.io/serviceaccount/
exec "$@"
"#;

fn can_mount() -> bool {
    let mounted = std::process::Command::new("unshare")
        .args(["--mount", "mount", "-t", "tmpfs", "tmpfs", "/run"])
        .output()
        .is_ok_and(|out| out.status.success());
    if !mounted {
        skip::aloud("a service account in its place needs root and unshare");
    }
    mounted
}

/// `node --pod p` in a pod of this cluster whose service account has these files.
async fn in_pod(fake: &FakeCluster, account: &[(&str, &str)]) -> Run {
    let dir = TempDir::new().unwrap();
    for (name, text) in account {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let (_, address) = fake.url.split_once("://").unwrap();
    let (host, port) = address.rsplit_once(':').unwrap();
    let tool = run::command("node");
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", IN_POD, "sh"])
        .arg(tool.as_std().get_program())
        .args(tool.as_std().get_args())
        .args(["--pod", "p"])
        .env_remove("KUBECONFIG")
        .env("HOME", dir.path())
        .env("ACCOUNT", dir.path())
        .env("KUBERNETES_SERVICE_HOST", host)
        .env("KUBERNETES_SERVICE_PORT", port);
    run::run(command).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_account_of_a_pod_is_used() {
    if !can_mount() {
        return;
    }
    let root = tree(&[]);
    let identity = Identity::new(&["127.0.0.1"], false);
    let authority = identity.pem.clone();
    let cluster = |b: Builder| b.token("good").with(worker("p", root.path()));
    let fake = cluster(FakeCluster::builder()).tls(identity).start().await;
    let account = |token, ca| [("token", token), ("ca.crt", ca), ("namespace", "llm")];

    let good = in_pod(&fake, &account("good", &authority)).await;
    assert_eq!(good.target("p").0, "ok", "{}", good.stdout);
    let target = &good.finding("p", "node:target")["target"];
    assert_eq!(target["namespace"], "llm", "that of the service account");
    assert_eq!(fake.writes(), []);

    let other = Identity::new(&["127.0.0.1"], false).pem;
    let [token, ca, namespace] = account("good", &authority);
    for (account, words) in [
        (
            account("old", &authority).to_vec(),
            "rejects the credentials (401 Unauthorized)",
        ),
        (account("good", &other).to_vec(), "certificate"),
        (vec![ca, namespace], "service account cannot be used"),
        (vec![token, namespace], "service account cannot be used"),
        (account(" ", &authority).to_vec(), "token: it is empty"),
    ] {
        let run = in_pod(&fake, &account).await;
        assert_eq!(run.code, Some(4), "{words}: {}", run.stdout);
        let error = run.report()["errors"][0]["message"].to_string();
        assert!(error.contains(words), "{error}");
    }
}
