//! Which deployment is meant, and what is found of it where a part of the cluster cannot be seen.

use crate::fake::pod::FakePod;
use crate::fleet::{Fleet, GRAPHS, cluster, healthy};
use crate::on;
use serde_json::json;

#[tokio::test]
async fn the_only_deployment_is_found_with_its_pods_and_nothing_secret() {
    let (builder, _trees) = healthy("g").into(cluster());
    let fake = builder.start().await;
    let run = on(&fake, &[]).await;
    assert_eq!(run.code, Some(0), "{}", run.stdout);
    assert_eq!(run.complaints(), Vec::<String>::new());
    let report = run.report();
    assert_eq!(report["trust"], "unproven");
    assert_eq!(report["workloads"][0]["name"], "g");
    assert_eq!(report["workloads"][0]["kind"], "DynamoGraphDeployment");
    assert!(!run.stdout.contains("c4n4ry"));
    assert_eq!(fake.writes(), []);
    let lists = |what: &str| {
        fake.requests()
            .iter()
            .filter(|r| r.path.ends_with(what))
            .count()
    };
    assert_eq!(
        (
            lists("/pods"),
            lists("/dynamographdeployments"),
            lists("/exec")
        ),
        (1, 1, 2)
    );
}

#[tokio::test]
async fn a_name_that_is_not_there_and_several_without_a_name_list_what_there_is() {
    let (builder, _one) = healthy("one").into(cluster());
    let (builder, _two) = healthy("two").pods_into(builder);
    let fake = builder
        .object(&format!("{GRAPHS}/two"), healthy("two").object())
        .start()
        .await;
    let run = on(&fake, &[]).await;
    assert_eq!(run.code, Some(4));
    assert!(
        run.errors()
            .contains("has 2 deployments, so name one: one, two"),
        "{}",
        run.errors()
    );
    let run = on(&fake, &["three"]).await;
    assert_eq!(run.code, Some(4));
    assert!(
        run.errors()
            .contains("no DynamoGraphDeployment three in namespace llm; there are: one, two"),
        "{}",
        run.errors()
    );
}

#[tokio::test]
async fn namespace_container_and_context_need_no_pod_to_be_named() {
    let (builder, _trees) = healthy("g").into(cluster());
    let fake = builder.start().await;
    for args in [
        &["g", "-n", "llm"][..],
        &["-n", "llm", "-c", "main", "--context", "fake"],
    ] {
        let run = on(&fake, args).await;
        assert_eq!(run.code, Some(0), "{args:?}: {}{}", run.stdout, run.stderr);
        assert_eq!(run.report()["workloads"][0]["name"], "g");
    }
    let run = on(&fake, &["g", "-n", "other"]).await;
    assert_eq!(run.code, Some(4));
    assert!(run.errors().contains("namespace other"), "{}", run.errors());
}

#[tokio::test]
async fn without_the_kind_or_its_conversion_pods_are_found_by_label() {
    let down = json!({"reason": "TooManyRequests", "message": "storage is (re)initializing: conversion webhook failed"});
    let cases = [
        (None, "the Dynamo operator is not installed"),
        (
            Some(("v1alpha1/namespaces", 429, down)),
            "conversion webhook is down",
        ),
        (
            Some(("v1beta1/namespaces", 403, json!({"message": "forbidden"}))),
            "grant it (docs/rbac.yaml); pods were found by label",
        ),
    ];
    for (fault, said) in cases {
        let (mut builder, _trees) = healthy("g").pods_into(cluster());
        if let Some((path, code, answer)) = fault {
            builder = builder.fault(path, 9, code, answer);
        }
        let fake = builder.start().await;
        let run = on(&fake, &["g"]).await;
        assert_eq!(run.code, Some(0), "{said}: {}", run.stdout);
        assert!(
            run.report()["notes"].to_string().contains(said),
            "{said}: {}",
            run.stdout
        );
        assert_eq!(
            run.report()["workloads"][0]["disaggregated"],
            true,
            "{said}"
        );
    }
}

#[tokio::test]
async fn an_object_without_its_fields_is_no_empty_deployment() {
    let (builder, _trees) = healthy("g").pods_into(cluster());
    let hollow = json!({"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
        "metadata": {"name": "g", "namespace": "llm"}, "spec": {}});
    let fake = builder.object(&format!("{GRAPHS}/g"), hollow).start().await;
    let run = on(&fake, &["g"]).await;
    assert_eq!(run.code, Some(0), "{}", run.stdout);
    assert!(
        run.report()["notes"]
            .to_string()
            .contains("neither services nor components")
    );
    assert_eq!(
        run.report()["workloads"][0]["workers"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

/// With a name and without one: what is written is judged, the verdict of every format says what is missing and why, and the
/// run ends with 4.
#[tokio::test]
async fn where_pods_cannot_be_listed_the_object_alone_is_judged() {
    let html = json!("<html>log in</html>");
    let cases = [
        (
            None,
            "its pods could not be listed: forbidden (",
            "grant list on pods (docs/rbac.yaml), then `dynamo-interconnect-check check g -n llm` again",
        ),
        (
            Some((500, json!({"message": "boom"}))),
            "its pods could not be listed: the API server answered 500: boom",
            "look at the log of the API server",
        ),
        (
            Some((200, html)),
            "its pods could not be listed: the answer could not be read (",
            "look whether a proxy or another service answers",
        ),
    ];
    for (fault, words, next) in cases {
        let (builder, _trees) = healthy("g").into(cluster());
        let builder = match fault {
            None => builder.deny("list", "pods"),
            Some((code, answer)) => builder.fault("/pods", 99, code, answer),
        };
        let fake = builder.start().await;
        for name in [&["g"][..], &[]] {
            let run = on(&fake, name).await;
            assert_eq!(run.code, Some(4), "{words} {name:?}: {}", run.stdout);
            let report = run.report();
            assert_eq!(report["trust"], "unproven");
            assert_eq!(report["workloads"][0]["name"], "g");
            let verdict = report["verdict"].as_str().unwrap();
            assert!(verdict.contains(words), "{verdict}");
            assert!(run.errors().contains("only the object that describes"));
            let said = report["next"].as_str().unwrap();
            assert!(said.starts_with(next), "{said}");
        }
        for output in ["text", "markdown", "html", "junit", "github", "sarif"] {
            let run = on(&fake, &["g", "-o", output]).await;
            let said = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(
                said.contains("its pods could not be listed"),
                "{output}: {said}"
            );
        }
    }
}

/// One pod that is not what the API promises costs none of the others, and is named: what was not seen is never trusted.
#[tokio::test]
async fn one_pod_that_cannot_be_understood_costs_no_other() {
    let odd = |pod: FakePod| pod.set("/spec/nodeName", json!(5));
    let fleet = || {
        Fleet::new("g")
            .worker("prefill", &[], |pod| pod)
            .worker("decode", &[], |pod| pod)
    };
    let (builder, _trees) = fleet().worker("decode", &[], odd).into(cluster());
    let fake = builder.start().await;
    for args in [&["g"][..], &[], &["-l", "nvidia.com/dynamo-component"]] {
        let run = on(&fake, args).await;
        assert_eq!(run.code, Some(4), "{args:?}: {}", run.stdout);
        let report = run.report();
        assert_eq!(report["trust"], "unproven", "{args:?}");
        let verdict = report["verdict"].as_str().unwrap();
        let words = "pod decode-2 in namespace llm could not be read";
        assert!(verdict.contains(words), "{args:?}: {verdict}");
        assert!(
            run.errors().contains("expected a string"),
            "{}",
            run.errors()
        );
        assert_eq!(report["targets"].as_array().unwrap().len(), 2, "{args:?}");
    }
    let mut node = crate::run::against(crate::run::command("node"), &fake.kubeconfig());
    node.args(["-l", "nvidia.com/dynamo-component"]);
    let run = crate::run::run(node).await;
    assert_eq!(run.code, Some(4), "{}", run.stdout);
    assert!(run.errors().contains("decode-2"), "{}", run.errors());
    assert_eq!(run.report()["targets"].as_array().unwrap().len(), 2);
    // Where there is no other, the answer is not that there is none.
    let (builder, _trees) = Fleet::new("g")
        .worker("decode", &[], odd)
        .pods_into(cluster());
    let fake = builder.start().await;
    for args in [&["g"][..], &["-l", "nvidia.com/dynamo-component"]] {
        let run = on(&fake, args).await;
        assert_eq!(run.code, Some(4), "{args:?}: {}", run.stdout);
        assert!(
            run.errors().contains("decode-0"),
            "{args:?}: {}",
            run.errors()
        );
    }
}

/// No object of that name is known, and nobody can say whether pods are labelled as its own.
#[tokio::test]
async fn a_name_without_object_is_not_denied_where_pods_cannot_be_listed() {
    let (builder, _trees) = healthy("g").into(cluster());
    let fake = builder.deny("list", "pods").start().await;
    let run = on(&fake, &["other"]).await;
    assert_eq!(run.code, Some(4));
    assert!(
        run.errors().contains("cannot list pods"),
        "{}",
        run.errors()
    );
}

#[tokio::test]
async fn a_selector_that_matches_two_deployments_is_said() {
    let (builder, _one) = healthy("one").pods_into(cluster());
    let (builder, _two) = crate::fleet::Fleet::new("two")
        .worker("prefill", &[], |pod| {
            pod.set("/metadata/name", json!("other-prefill"))
        })
        .pods_into(builder);
    let fake = builder.start().await;
    let run = on(&fake, &["-l", "nvidia.com/dynamo-component"]).await;
    let notes = run.report()["notes"].to_string();
    assert!(
        notes.contains("matches pods of 2 deployments: one (2 pods), two (1 pod)"),
        "{notes}"
    );
    assert_eq!(run.fixes(), Vec::<String>::new());
    // Whatever a transfer between them shows, it is no deployment that could be trusted.
    let report = run.report();
    let of_check = |f: &&serde_json::Value| f["id"] == "DEP023" && f["status"] == "skipped";
    let mut checks = report["checks"].as_array().unwrap().iter().filter(of_check);
    let said = "the pods are of 2 deployments (one, two)";
    let all: Vec<String> = checks.by_ref().map(|f| f["detail"].to_string()).collect();
    assert!(all.iter().any(|d| d.contains(said)), "{all:?}");
}

/// What a selector found is found again by the selector, also where that is a key alone, which looks like a name.
#[tokio::test]
async fn the_next_command_names_the_selector_that_was_given() {
    let own = |pod: FakePod| {
        pod.set("/metadata/labels", json!({"app": "my"}))
            .label("role", "any")
    };
    let role = |mode: &'static str| {
        move |pod: FakePod| {
            own(pod).set(
                "/spec/containers/0/command",
                json!(["python3", "-m", "dynamo.vllm", mode]),
            )
        }
    };
    let (builder, _trees) = Fleet::new("g")
        .worker("prefill", &[], role("--is-prefill-worker"))
        .worker("decode", &[], role("--is-decode-worker"))
        .pods_into(cluster());
    let fake = builder.start().await;
    let dir = tempfile::TempDir::new().unwrap();
    for (n, selector) in ["app", "app=my", "!other", "role in (any),app"]
        .iter()
        .enumerate()
    {
        let kept = dir.path().join(format!("r{n}"));
        let kept = kept.to_str().unwrap();
        let run = on(&fake, &["-l", selector, "--save", kept]).await;
        let command =
            format!("`dynamo-interconnect-check check -l '{selector}' -n llm --transfer`");
        for run in [run, crate::run(&["--from", kept]).await] {
            let next = run.report()["next"].to_string();
            assert!(next.contains(&command), "{selector}: {next}");
        }
    }
}
