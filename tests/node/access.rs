//! Kubeconfigs, credentials, certificates, permissions.

use crate::fake::cluster::FakeCluster;
use crate::fake::tls::Identity;
use crate::{Run, counted, on, run, tree, worker};
use serde_json::json;
use std::path::Path;

/// The run could not begin: exit code 4, one error with these words, and a report all the same.
fn could_not_begin(run: &Run, words: &str) {
    assert_eq!(run.code, Some(4), "{words}: {}", run.stdout);
    let report = run.report();
    let errors = report["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 1, "{errors:?}");
    let said = errors[0]["message"].as_str().unwrap();
    assert!(said.contains(words), "{said}\nexpected: {words}");
}

async fn with(kubeconfig: &Path, more: &[&str]) -> Run {
    let mut args = vec!["--pod", "p", "--kubeconfig", kubeconfig.to_str().unwrap()];
    args.extend(more);
    run(&args).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubeconfig_that_is_no_use() {
    let fake = FakeCluster::builder().start().await;
    let dir = tempfile::TempDir::new().unwrap();
    let missing = with(&dir.path().join("none"), &[]).await;
    could_not_begin(&missing, "none");
    let broken = dir.path().join("broken");
    std::fs::write(&broken, "apiVersion: [").unwrap();
    could_not_begin(&with(&broken, &[]).await, "broken");
    let unknown = with(&fake.kubeconfig(), &["--context", "nosuch"]).await;
    could_not_begin(&unknown, "nosuch");
    assert!(
        unknown.stdout.contains("fake"),
        "the choices are named: {}",
        unknown.stdout
    );
    let unreachable = fake.write_kubeconfig(json!({"server": "http://127.0.0.1:1"}), json!({}));
    could_not_begin(
        &with(&unreachable, &[]).await,
        "the API server is unreachable",
    );
    // Each of them has other words.
    assert_ne!(missing.stdout, unknown.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_that_are_not_accepted() {
    let fake = FakeCluster::builder().token("good").start().await;
    let expired = fake.kubeconfig_for(json!({"token": "old"}));
    could_not_begin(
        &with(&expired, &[]).await,
        "rejects the credentials (401 Unauthorized)",
    );
    let plugin = fake.kubeconfig_for(json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-plugin-here", "interactiveMode": "Never",
        "installHint": "install the plugin of your cloud",
    }}));
    could_not_begin(
        &with(&plugin, &[]).await,
        "install the plugin of your cloud",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_that_are_not_accepted() {
    let start = async |identity| FakeCluster::builder().tls(identity).start().await;
    let good = start(Identity::new(&["127.0.0.1"], false)).await;
    let server = good.url.clone();
    let unknown = good.write_kubeconfig(json!({"server": server}), json!({}));
    could_not_begin(&with(&unknown, &[]).await, "signed by an unknown authority");
    let expired = start(Identity::new(&["127.0.0.1"], true)).await;
    could_not_begin(
        &with(&expired.kubeconfig(), &[]).await,
        "not valid at this time",
    );
    let other = start(Identity::new(&["example.org"], false)).await;
    could_not_begin(
        &with(&other.kubeconfig(), &[]).await,
        "certificate is for another name",
    );
    let plain = FakeCluster::builder().start().await;
    let server = plain.url.replace("http://", "https://");
    let wrong = plain.write_kubeconfig(
        json!({"server": server, "insecure-skip-tls-verify": true}),
        json!({}),
    );
    could_not_begin(&with(&wrong, &[]).await, "does not speak TLS");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_verb_is_named_before_and_at_each_pod() {
    let root = tree(&[]);
    for verb in ["get", "create"] {
        let fake = FakeCluster::builder()
            .with(worker("p", root.path()))
            .deny(verb, "pods/exec")
            .start()
            .await;
        let run = on(&fake, &["--pod", "p"]).await;
        assert_eq!(run.code, Some(4));
        let report = run.report();
        let note = report["notes"][0]["message"].as_str().unwrap();
        assert!(
            note.contains(&format!("{verb} pods/exec")) && note.contains("docs/rbac.yaml"),
            "{note}"
        );
        let (status, said) = run.target("p");
        assert_eq!(status, "skipped");
        assert!(
            said.contains(&format!("grant {verb} on pods/exec")),
            "{said}"
        );
        assert_eq!(fake.writes(), []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_right_to_read_pods_a_named_pod_is_probed_all_the_same() {
    let root = tree(&[]);
    let fake = FakeCluster::builder()
        .with(worker("p", root.path()))
        .deny("get", "pods")
        .deny("list", "pods")
        .start()
        .await;
    let run = on(&fake, &["--pod", "p", "-c", "main"]).await;
    assert_eq!(run.target("p").0, "ok");
    assert_eq!(run.said("p", "ib-link").0, "ok");
    let (status, said) = run.said("p", "env-drift");
    assert_eq!(status, "skipped");
    assert!(said.contains("may not get pods"), "{said}");
    let run = on(&fake, &["-l", "app=g"]).await;
    assert_eq!(run.code, Some(4));
    assert!(
        run.stdout.contains("cannot list resource"),
        "{}",
        run.stdout
    );
    assert!(
        run.report()["notes"][0]["message"]
            .as_str()
            .unwrap()
            .contains("list pods")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selector_that_matches_nothing_or_is_none() {
    let root = tree(&[]);
    let fake = FakeCluster::builder()
        .with(worker("p", root.path()))
        .start()
        .await;
    let run = on(&fake, &["-l", "app=none", "--pod", "p"]).await;
    assert_eq!(run.code, Some(4));
    assert_eq!(run.target("p").0, "ok", "the others are reported");
    let said = run.report()["errors"][0]["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(said.contains("no pod in namespace llm matches"), "{said}");
    let run = on(&fake, &["-l", "a b\u{1b}[2J"]).await;
    assert_eq!(run.code, Some(4));
    assert!(!run.stdout.contains("\\u001b"), "{}", run.stdout);
    assert!(counted(&fake).iter().all(|(kind, _)| kind != "write"));
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_that_expire_on_the_way() {
    let root = tree(&[]);
    let expired = json!({"reason": "Unauthorized", "message": "Unauthorized"});
    let fake = FakeCluster::builder()
        .with(worker("a", root.path()))
        .with(worker("b", root.path()))
        .fault("/b/exec", 1, 401, expired)
        .start()
        .await;
    let run = on(&fake, &["-l", "app=g"]).await;
    assert_eq!(run.target("a").0, "ok");
    assert!(
        run.target("b").1.contains("rejects the credentials"),
        "{}",
        run.target("b").1
    );
}
