//! Many pairs: the matrix, a sample of it, and one pair that is dead.

use crate::fake::cluster::FakeCluster;
use crate::{assert_clean, has_python, on, pod, transfer, tree};
use tempfile::TempDir;

const ROLES: &str = "prefill=role=prefill,decode=role=decode";

/// Two prefill and two decode pods. The first agent on `d-1` finds its peer refuse.
async fn four(dead: bool) -> (FakeCluster, Vec<TempDir>, TempDir) {
    let (mut builder, mut trees) = (FakeCluster::builder(), Vec::new());
    let once = TempDir::new().unwrap();
    for (name, role) in [
        ("p-0", "prefill"),
        ("p-1", "prefill"),
        ("d-0", "decode"),
        ("d-1", "decode"),
    ] {
        let root = tree(&[]);
        let mut pod = pod(name, role, root.path(), "invented-rc-mlx5-one-rail");
        if dead && name == "d-1" {
            let file = once.path().join("struck");
            pod = pod
                .env("NIXL_STANDIN_FAULT", "refuse")
                .env("NIXL_STANDIN_ONCE", file.to_str().unwrap());
        }
        builder = builder.with(pod);
        trees.push(root);
    }
    (builder.orphans_live_on().start().await, trees, once)
}

#[tokio::test(flavor = "multi_thread")]
async fn one_dead_pair_does_not_stop_the_others() {
    if !has_python() {
        return;
    }
    let (fake, trees, _once) = four(true).await;
    let run = transfer(&fake, &["--pods", ROLES]).await;
    let pairs = run.pairs();
    assert_eq!(pairs.len(), 4, "{pairs:?}");
    let dead: Vec<_> = pairs.iter().filter(|(_, _, proven)| !proven).collect();
    assert_eq!(dead.len(), 1, "{pairs:?}");
    assert!(dead[0].0.starts_with("d-1 -> "), "{dead:?}");
    assert_eq!(dead[0].1, "fail");
    assert_eq!(run.report()["pairs"]["of"], 4);
    run.assert_trust("untrusted");
    assert_eq!(run.code, Some(1));
    let roots: Vec<_> = trees.iter().map(TempDir::path).collect();
    assert_clean(&fake, &roots).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sample_is_called_one_and_proves_no_more_than_itself() {
    if !has_python() {
        return;
    }
    let (fake, trees, _once) = four(false).await;
    let args = ["--pods", ROLES, "--sample", "2"];
    let run = transfer(&fake, &args).await;
    assert_eq!(run.pairs().len(), 2);
    assert!(run.pairs().iter().all(|p| p.2), "{:?}", run.pairs());
    assert_eq!(run.report()["pairs"]["of"], 4);
    run.assert_trust("unproven");
    let mut all = vec!["--transfer", "--quick", "-o", "text"];
    all.extend(args);
    let text = on(&fake, &all).await.stdout;
    assert!(text.contains("(a sample of 4)"), "{text}");
    assert!(text.contains("not tried"), "{text}");
    let roots: Vec<_> = trees.iter().map(TempDir::path).collect();
    assert_clean(&fake, &roots).await;
}

/// A StatefulSet of each role gives the same names in both namespaces.
#[tokio::test(flavor = "multi_thread")]
async fn the_roles_may_be_in_different_namespaces() {
    if !has_python() {
        return;
    }
    let (p, d) = (tree(&[]), tree(&[]));
    let fake = FakeCluster::builder()
        .with(pod("w-0", "prefill", p.path(), "invented-rc-mlx5-one-rail"))
        .with(
            pod("w-0", "decode", d.path(), "invented-rc-mlx5-one-rail")
                .set("/metadata/namespace", "other".into()),
        )
        .orphans_live_on()
        .start()
        .await;
    let roles = "prefill=llm:role=prefill,decode=other:role=decode";
    let run = transfer(&fake, &["--pods", roles, "-n", "nowhere"]).await;
    let one = ("w-0 -> w-0".to_owned(), "ok".to_owned(), true);
    assert_eq!(run.pairs(), [one], "{}", run.stdout);
    let roots: Vec<_> = [&p, &d].map(TempDir::path).to_vec();
    assert_clean(&fake, &roots).await;
    let wrong = "prefill=llm:role=prefill,decode=role=decode";
    let run = transfer(&fake, &["--pods", wrong, "-n", "llm"]).await;
    assert_eq!(run.code, Some(4));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_pod_that_cannot_be_understood_costs_no_other_pair() {
    if !has_python() {
        return;
    }
    let (p, d, odd) = (tree(&[]), tree(&[]), tree(&[]));
    let decode =
        |name, root: &TempDir| pod(name, "decode", root.path(), "invented-rc-mlx5-one-rail");
    let fake = FakeCluster::builder()
        .with(pod("p-0", "prefill", p.path(), "invented-rc-mlx5-one-rail"))
        .with(decode("d-0", &d))
        .with(decode("d-1", &odd).set("/spec/nodeName", 5.into()))
        .orphans_live_on()
        .start()
        .await;
    let run = transfer(&fake, &["--pods", ROLES]).await;
    let one = ("d-0 -> p-0".to_owned(), "ok".to_owned(), true);
    assert_eq!(run.pairs(), [one], "{}", run.stdout);
    run.assert_trust("unproven");
    assert_eq!(run.code, Some(4), "{}", run.stdout);
    let errors = run.report()["errors"].to_string();
    assert!(errors.contains("pod d-1 in namespace llm"), "{errors}");
    let roots: Vec<_> = [&p, &d, &odd].map(TempDir::path).to_vec();
    assert_clean(&fake, &roots).await;
}
