//! What can go wrong while a deployment is looked at: each has its own words, and the rest of the report stands.

use crate::fake::cluster::FakeCluster;
use crate::fake::kubelet::Exec;
use crate::fake::pod::FakePod;
use crate::fleet::{Fleet, cluster, healthy};
use crate::on;
use serde_json::json;

fn plain(pod: FakePod) -> FakePod {
    pod
}

/// Pods that are deleted, replaced or started again while they are read.
#[tokio::test]
async fn pods_that_go_away_during_the_run_are_told_apart() {
    // In the midst of its answers, and before the first.
    for exec in [Exec::DeletedAfter(2_000), Exec::killed()] {
        pods_that_go_away(exec).await;
    }
}

async fn pods_that_go_away(exec: Exec) {
    let early = matches!(exec, Exec::End(_));
    let lost = |pod: FakePod| pod.exec(exec.clone());
    let fleet = Fleet::new("g")
        .worker("prefill", &[], plain)
        .worker("decode", &[], lost)
        .worker("decode", &[], lost)
        .worker("decode", &[], lost);
    let path = |name: &str| format!("/api/v1/namespaces/llm/pods/{name}");
    let replaced = fleet.object_of("decode-2", |pod| {
        pod["metadata"]["uid"] = json!("another");
        pod["spec"]["nodeName"] = json!("node-9");
    });
    let restarted = fleet.object_of("decode-3", |pod| {
        pod["status"]["containerStatuses"][0]["restartCount"] = json!(1);
    });
    let (builder, _trees) = fleet.into(cluster());
    let fake = builder
        .later(&path("decode-1"), None)
        .later(&path("decode-2"), Some(replaced))
        .later(&path("decode-3"), Some(restarted))
        .start()
        .await;
    let run = on(&fake, &["g"]).await;
    let notes = run.report()["notes"].to_string();
    for words in [
        "was deleted during the run",
        "was replaced during the run (now on node node-9)",
        "was restarted during the run",
    ] {
        assert!(notes.contains(words), "no {words:?} in {notes}");
    }
    let report = run.report();
    assert_eq!(report["trust"], "unproven", "{}", run.stdout);
    let checks = report["checks"].as_array().unwrap();
    let fine = checks.iter().any(|c| {
        c["target"]["name"] == "prefill-0" && c["name"] == "ib-link" && c["status"] == "ok"
    });
    assert!(fine, "{}", run.stdout);
    if early {
        // Nobody is at fault who was not there any more.
        assert!(
            !run.fixes().contains(&"NODE001".to_owned()),
            "{}",
            run.stdout
        );
        assert_eq!(run.code, Some(4), "{}", run.stdout);
        let next = report["next"].as_str().unwrap();
        assert!(
            next.starts_with("look whether the pod is still there") && next.ends_with("` again"),
            "{next}"
        );
    }
}

/// Pods may be listed and not looked into: what is written is judged, and what could not be seen is said.
#[tokio::test]
async fn without_exec_the_static_part_is_judged() {
    let forbidden = json!({"reason": "Forbidden", "message": "pods \"x\" is forbidden: User \"fake\" cannot create resource \"pods/exec\""});
    let exec = |pod: FakePod| pod.exec(Exec::Refuse(403, forbidden.clone()));
    let tcp = |pod: FakePod| {
        exec(pod.set(
            "/spec/containers/0/env",
            json!([{"name": "UCX_TLS", "value": "tcp,cuda_copy"}]),
        ))
    };
    let (builder, _trees) = Fleet::new("g")
        .worker("prefill", &[], exec)
        .worker("decode", &[], tcp)
        .into(cluster());
    let fake = builder
        .deny("create", "pods/exec")
        .deny("get", "pods/exec")
        .start()
        .await;
    let run = on(&fake, &["g"]).await;
    assert_eq!(run.report()["trust"], "untrusted", "{}", run.stdout);
    let complaints = run.complaints().join("\n");
    assert!(complaints.contains("UCX_TLS"), "{complaints}");
    assert!(!complaints.contains("node:target"), "{complaints}");
    let verdict = run.report()["verdict"].as_str().unwrap().to_owned();
    let words = "2 of 2 containers could not be looked at: exec is forbidden";
    assert!(verdict.contains(words), "{verdict}");
    assert_eq!(run.code, Some(4));
    let run = on(&fake, &["g", "--transfer"]).await;
    let next = run.report()["next"].as_str().unwrap().to_owned();
    assert!(
        next.starts_with("grant ") && next.ends_with("check g -n llm --transfer` again"),
        "{next}"
    );
    assert!(
        run.report()["notes"].to_string().contains("pods/exec"),
        "{}",
        run.stdout
    );
}

/// Names, labels and values that a terminal or a shell could take for something else.
#[tokio::test]
async fn odd_characters_stay_what_they_are() {
    let odd = |pod: FakePod| {
        pod.label(
            "nvidia.com/dynamo-component",
            "de\u{1b}[2Jcode\n--- kind: x",
        )
        .set(
            "/spec/containers/0/env",
            json!([{"name": "UCX_TLS", "value": "rc,cuda_copy\u{1b}[31m\n- name: x"}]),
        )
    };
    let (builder, _trees) = Fleet::new("g")
        .worker("prefill", &[], plain)
        .worker("decode", &[], odd)
        .into(cluster());
    let fake = builder.start().await;
    for output in ["json", "text"] {
        let run = on(&fake, &["g", "-v", "-o", output]).await;
        assert!(!run.stdout.contains('\u{1b}'), "{:?}", run.stdout);
        assert!(run.stdout.contains("prefill-0"), "{}", run.stdout);
    }
}

/// A namespace with thousands of other pods: only those of the deployment are listed.
#[tokio::test]
async fn a_crowded_namespace_costs_nothing() {
    let mut builder = cluster();
    for n in 0..3_000 {
        let pod = FakePod::new("llm", &format!("other-{n}"), "/nowhere");
        builder = builder.with(pod);
    }
    let (builder, _trees) = Fleet::new("g")
        .worker("prefill", &[], plain)
        .worker("decode", &[], plain)
        .into(builder);
    let fake = builder.start().await;
    let run = on(&fake, &["g"]).await;
    assert_eq!(run.code, Some(0), "{}", run.stdout);
    assert_eq!(asked(&fake), (1, 2));
}

/// How many lists of pods were read, page by page, and how many containers were looked into.
fn asked(fake: &FakeCluster) -> (usize, usize) {
    let requests = fake.requests();
    let of = |end: &str| requests.iter().filter(|r| r.path.ends_with(end)).count();
    (of("/pods"), of("/exec"))
}

/// The check on whether they could be looked at, of each container: its status.
fn reached(run: &crate::run::Run) -> std::collections::BTreeMap<String, u32> {
    let mut out = std::collections::BTreeMap::new();
    let report = run.report();
    let all = report["checks"].as_array().unwrap();
    for check in all.iter().filter(|c| c["id"] == "NODE001") {
        let status = check["status"].as_str().unwrap().to_owned();
        *out.entry(status).or_default() += 1;
    }
    out
}

/// A deployment of more pods than a page of the API holds, most of which answer nothing.
fn large() -> (crate::fake::cluster::Builder, Vec<tempfile::TempDir>) {
    let (mut builder, trees) = healthy("g").into(cluster());
    for n in 0..298 {
        let pod = FakePod::new("llm", &format!("more-{n}"), "/nowhere")
            .label("nvidia.com/dynamo-graph-deployment-name", "g")
            .label("nvidia.com/dynamo-component", "decode")
            .label("nvidia.com/dynamo-component-type", "decode")
            .exec(Exec::kubelet_gone());
        builder = builder.with(pod);
    }
    (builder, trees)
}

#[tokio::test]
async fn a_large_deployment_is_read_in_pages() {
    let (builder, _trees) = large();
    let fake = builder.start().await;
    let run = on(&fake, &["g"]).await;
    // Two pages, and once more to see what became of those that were not reached.
    assert_eq!(asked(&fake), (4, 300));
    let expected = [("ok".to_owned(), 2), ("skipped".to_owned(), 298)];
    assert_eq!(reached(&run), expected.into(), "{}", run.errors());
    assert_eq!(run.report()["pairs"]["of"], 299);
}

/// The API goes away between two pages of the list: what was listed is not taken for the whole.
#[tokio::test]
async fn an_api_that_is_gone_before_the_last_page_leaves_no_half_of_a_deployment() {
    let (builder, _trees) = large();
    let gone = json!({"reason": "ServiceUnavailable", "message": "etcd is gone"});
    let fake = builder.fault("continue=", 100, 503, gone).start().await;
    let run = on(&fake, &["g"]).await;
    assert_eq!(run.code, Some(4), "{}", run.stdout);
    assert_eq!(run.report()["trust"], "unproven", "{}", run.stdout);
    assert!(run.errors().contains("etcd is gone"), "{}", run.errors());
    assert_eq!(asked(&fake).1, 0);
}

/// The API goes away after the first container was looked into.
#[tokio::test]
async fn an_api_that_is_gone_midway_is_held_against_no_container() {
    let (builder, _trees) = healthy("g").into(cluster());
    let gone = json!({"reason": "ServiceUnavailable", "message": "etcd is gone"});
    let fake = builder
        .fault("/decode-1/exec", 100, 503, gone)
        .start()
        .await;
    let run = on(&fake, &["g"]).await;
    let expected = [("ok".to_owned(), 1), ("skipped".to_owned(), 1)];
    assert_eq!(reached(&run), expected.into(), "{}", run.stdout);
    let report = run.report();
    assert_eq!(report["trust"], "unproven", "{}", run.stdout);
    assert_eq!(run.code, Some(4));
    let verdict = report["verdict"].as_str().unwrap();
    let words = "1 of 2 containers could not be looked at";
    assert!(
        verdict.contains(words) && verdict.contains("the API server answered 503"),
        "{verdict}"
    );
}

/// The kubelets of half of the nodes do not answer the API server: nothing is known of their pods, and the rest is judged.
#[tokio::test]
async fn half_of_the_nodes_unreachable_leaves_the_other_half_judged() {
    let gone = |pod: FakePod| pod.exec(Exec::kubelet_gone());
    let (builder, _trees) = Fleet::new("g")
        .worker("prefill", &[], plain)
        .worker("prefill", &[], gone)
        .worker(
            "decode",
            &[("proc/7/environ", "UCX_TLS=tcp,cuda_copy\0HOME=/root\0")],
            plain,
        )
        .worker("decode", &[], gone)
        .into(cluster());
    let fake = builder.start().await;
    let run = on(&fake, &["g"]).await;
    let expected = [("ok".to_owned(), 2), ("skipped".to_owned(), 2)];
    assert_eq!(reached(&run), expected.into(), "{}", run.stdout);
    let report = run.report();
    // What was seen is no better for what was not.
    assert_eq!(report["trust"], "untrusted", "{}", run.stdout);
    assert_eq!(run.code, Some(4));
    let verdict = report["verdict"].as_str().unwrap();
    let words = "2 of 4 containers could not be looked at: the API server cannot reach the kubelet";
    assert!(verdict.contains(words), "{verdict}");
    let fixes = run.fixes();
    assert!(
        fixes.contains(&"ENV012".to_owned()) && !fixes.contains(&"NODE001".to_owned()),
        "{fixes:?}"
    );
}

#[tokio::test]
async fn a_recording_goes_only_where_nothing_else_is_and_is_refused_before_anything_is_asked() {
    let (builder, _trees) = healthy("g").into(cluster());
    let fake = builder.start().await;
    let dir = tempfile::TempDir::new().unwrap();
    let foreign = dir.path().join("mine.tar.zst");
    std::fs::write(&foreign, "mine").unwrap();
    let run = on(&fake, &["--save", foreign.to_str().unwrap()]).await;
    assert_eq!(run.code, Some(4));
    assert!(
        run.errors().contains("something else than a recording"),
        "{}",
        run.errors()
    );
    assert_eq!(std::fs::read(&foreign).unwrap(), b"mine");
    assert_eq!(fake.requests().len(), 0);
    // An earlier recording outlives a run that saw nothing.
    let kept = dir.path().join("r.tar.zst");
    let save = ["--save", kept.to_str().unwrap()];
    assert_eq!(on(&fake, &save).await.code, Some(0));
    let before = std::fs::read(&kept).unwrap();
    let run = on(&fake, &["none", save[0], save[1]]).await;
    assert_eq!(run.code, Some(4));
    assert!(
        run.stdout.contains("nothing was recorded"),
        "{}",
        run.stdout
    );
    assert_eq!(std::fs::read(&kept).unwrap(), before);
}

#[tokio::test]
async fn a_deployment_without_any_container_replays_and_node_says_whose_it_is() {
    let fleet = healthy("g");
    let path = format!("{}/g", crate::fleet::GRAPHS);
    let fake = cluster().object(&path, fleet.object()).start().await;
    let dir = tempfile::TempDir::new().unwrap();
    let kept = dir.path().join("r");
    let kept = kept.to_str().unwrap();
    let live = on(&fake, &["--save", kept]).await;
    let replay = crate::run(&["--from", kept]).await;
    assert_eq!((replay.code, &replay.stdout), (live.code, &live.stdout));
    let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_dynamo-interconnect-check"))
        .args(["node", "--from", kept])
        .output()
        .await
        .unwrap();
    assert_eq!(output.status.code(), Some(4));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("replay it with `check --from`"), "{said}");
}

#[tokio::test]
async fn a_pipe_or_a_device_in_place_of_a_file_is_refused_at_once() {
    let dir = tempfile::TempDir::new().unwrap();
    let pipe = dir.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let (builder, _trees) = healthy("g").into(cluster());
    let fake = builder.start().await;
    for path in [pipe.to_str().unwrap(), "/dev/zero"] {
        let run = on(&fake, &["--baseline", path]).await;
        assert_eq!(run.code, Some(4));
        assert!(run.errors().contains("no regular file"), "{}", run.errors());
        let run = crate::run(&["--kubeconfig", path]).await;
        assert_eq!(run.code, Some(4));
        assert!(run.errors().contains("no regular file"), "{}", run.errors());
    }
}

#[tokio::test]
async fn a_recipe_of_something_else_and_a_single_pod_are_refused() {
    let (builder, _trees) = healthy("g").into(cluster());
    let fake = builder.start().await;
    let dir = tempfile::TempDir::new().unwrap();
    let recipe = dir.path().join("recipe.yaml");
    let graph = |name: &str| {
        let component =
            "  - {name: decode, type: decode, podTemplate: {spec: {containers: [{name: main}]}}}";
        format!(
            "apiVersion: nvidia.com/v1beta1\nkind: DynamoGraphDeployment\nmetadata: {{name: {name}}}\nspec:\n  components:\n{component}\n---\n"
        )
    };
    for (text, words) in [
        (String::new(), "no deployment is in it"),
        ("[]".to_owned(), "no deployment is in it"),
        (graph("x") + &graph("y"), "it describes x, y and not g"),
        (
            graph("g") + &graph("x") + &graph("g"),
            "recipe.yaml describe g, so g was held against nothing",
        ),
        // Nothing of it has the name of anything that runs.
        (
            graph("x").replace("name: decode", "name: VllmDecodeWorker"),
            "it describes x and not g, so g was held against nothing",
        ),
        (
            (0..1_000).map(|n| graph(&format!("x{n}"))).collect(),
            "it describes x0, x1, x2 and 997 more and not g",
        ),
    ] {
        std::fs::write(&recipe, &text).unwrap();
        let run = on(&fake, &["--recipe", recipe.to_str().unwrap()]).await;
        assert_eq!(run.code, Some(4), "{text}: {}", run.stdout);
        assert!(run.errors().contains(words), "{text}: {}", run.errors());
    }
    // Of two files of its name one is to be given.
    for file in ["one.yaml", "two.yaml"] {
        std::fs::write(dir.path().join(file), graph("g")).unwrap();
    }
    std::fs::write(&recipe, graph("x")).unwrap();
    let run = on(&fake, &["--recipe", dir.path().to_str().unwrap()]).await;
    assert_eq!(run.code, Some(4), "{}", run.stdout);
    let path = |file: &str| dir.path().join(file).display().to_string();
    let words = format!(
        "2 files describe g ({}, {}), so g was held against nothing; give --recipe the one",
        path("one.yaml"),
        path("two.yaml")
    );
    assert!(run.errors().contains(&words), "{}", run.errors());
    // A single one of another name may be meant, and is not passed over in silence.
    std::fs::write(&recipe, graph("x")).unwrap();
    let run = on(&fake, &["--recipe", recipe.to_str().unwrap()]).await;
    let notes = run.report()["notes"].to_string();
    assert!(notes.contains("it describes x, and g runs"), "{notes}");
    std::fs::write(&recipe, graph("g")).unwrap();
    let run = on(&fake, &["--recipe", recipe.to_str().unwrap()]).await;
    assert_eq!(run.report()["notes"], json!([]));
    let run = on(&fake, &["--pod", "decode-1"]).await;
    assert_eq!(run.code, Some(2));
    assert!(
        run.stderr.contains("`node --pod POD` looks at one"),
        "{}",
        run.stderr
    );
}

/// Exec hangs in every worker of `g`, whose manifests have no fault.
async fn hung() -> (FakeCluster, Vec<tempfile::TempDir>) {
    let exec = |pod: FakePod| pod.exec(Exec::Hang);
    let (builder, trees) = Fleet::new("g")
        .worker("prefill", &[], exec)
        .worker("decode", &[], exec)
        .into(cluster());
    (builder.start().await, trees)
}

#[tokio::test]
async fn what_the_tool_itself_cut_short_is_held_against_nobody() {
    let (fake, _trees) = hung().await;
    let kubeconfig = fake.kubeconfig();
    let args = ["--kubeconfig", kubeconfig.to_str().unwrap(), "g"];
    let mut command = crate::run::command("check");
    command.args(args);
    let execs = || {
        let all = fake.requests();
        all.iter().filter(|r| r.path.ends_with("/exec")).count() >= 2
    };
    let stopped = crate::run::interrupted(command, &["-INT"], execs).await;
    assert_eq!(stopped.code, Some(130), "{}", stopped.stderr);
    let late = on(&fake, &["g", "--deadline", "6"]).await;
    for (run, words) in [
        (stopped, "the run was interrupted before 2 of 2 containers"),
        (
            late,
            "the time of the whole run was over before 2 of 2 containers",
        ),
    ] {
        let report = run.report();
        assert_eq!(report["trust"], "unproven", "{}", report["verdict"]);
        let verdict = report["verdict"].as_str().unwrap().to_owned();
        assert!(verdict.contains(words), "{verdict}");
        assert!(!run.fixes().contains(&"NODE001".to_owned()));
        assert!(
            run.took < std::time::Duration::from_secs(20),
            "{:?}",
            run.took
        );
    }
    // A kubelet that hangs while there is time is another matter.
    let hangs = on(&fake, &["g", "--timeout", "2"]).await;
    assert_eq!(hangs.report()["trust"], "untrusted", "{}", hangs.stdout);
}

#[tokio::test]
async fn a_server_that_takes_its_time_for_every_answer_does_not_outlive_the_deadline() {
    let exec = |pod: FakePod| pod.exec(Exec::Hang);
    let (builder, _trees) = Fleet::new("g")
        .worker("prefill", &[], exec)
        .worker("decode", &[], exec)
        .into(cluster());
    let pause = std::time::Duration::from_millis(1_400);
    let fake = builder.slow(pause).start().await;
    let run = on(&fake, &["--nodes", "--deadline", "4"]).await;
    // Three answers alone take longer.
    assert!(
        run.took < std::time::Duration::from_secs(9),
        "{:?}",
        run.took
    );
    assert_eq!(run.report()["trust"], "unproven", "{}", run.stdout);
    // On a busy machine the first answer may be too late already.
    let over = ["the whole run was over", "no answer within"];
    assert!(
        over.iter().any(|o| run.stdout.contains(o)),
        "{}",
        run.stdout
    );
}

/// Whatever a name, a path, an argument or an answer holds, it cannot act on a terminal.
#[tokio::test]
async fn hostile_text_reaches_no_terminal() {
    const EVIL: &str = "x\u{1b}[31m\u{7}\u{202e}\r";
    let (builder, _trees) = healthy("g").into(cluster());
    let evil = |pod: FakePod| {
        pod.set("/metadata/name", EVIL.into())
            .set("/spec/nodeName", EVIL.into())
    };
    let fake = evil(FakePod::new("llm", "evil", "/nowhere"))
        .label("nvidia.com/dynamo-graph-deployment-name", "g")
        .label("nvidia.com/dynamo-component", "decode")
        .label("nvidia.com/dynamo-component-type", "decode");
    let fake = builder.with(fake).start().await;
    let kubeconfig = fake.kubeconfig();
    let reach = ["--kubeconfig", kubeconfig.to_str().unwrap()];
    let dir = tempfile::TempDir::new().unwrap();
    let kept = dir.path().join("r");
    let saved = on(&fake, &["g", "--save", kept.to_str().unwrap()]).await;
    assert!(saved.stdout.contains("\\u{1b}"), "{}", saved.stdout);
    let file = kept.join("bundle.json");
    let text = std::fs::read_to_string(&file).unwrap();
    let mut bundle: serde_json::Value = serde_json::from_str(&text).unwrap();
    for snapshot in bundle["snapshots"].as_array_mut().unwrap() {
        snapshot["answers"]["target"] = json!({"text": EVIL});
        snapshot["place"]["pod"] = EVIL.into();
    }
    for manifest in bundle["deployment"]["manifests"].as_array_mut().unwrap() {
        manifest["path"] = EVIL.into();
    }
    bundle["deployment"]["name"] = EVIL.into();
    let forged = dir.path().join("forged.json");
    std::fs::write(&forged, bundle.to_string()).unwrap();
    let forged = forged.to_str().unwrap();
    let bad = dir.path().join("bad.json");
    std::fs::write(
        &bad,
        json!({"format": 1, "snapshots": [], EVIL: 1}).to_string(),
    )
    .unwrap();
    let bad = bad.to_str().unwrap();
    let evil_user = json!({"tokenFile": format!("/{EVIL}")});
    let token = dir.path().join("kubeconfig");
    std::fs::copy(fake.kubeconfig_for(evil_user), &token).unwrap();
    let fresh = fake.kubeconfig();
    assert_eq!(fresh, kubeconfig);
    let cases: [(&str, &[&str]); 12] = [
        ("check", &[reach[0], reach[1], "g"]),
        ("check", &[reach[0], reach[1], EVIL]),
        ("check", &[reach[0], reach[1], "-n", EVIL]),
        ("check", &[reach[0], reach[1], "-l", EVIL]),
        ("check", &[reach[0], reach[1], "--context", EVIL]),
        ("check", &["--kubeconfig", token.to_str().unwrap()]),
        ("check", &[reach[0], reach[1], "--save", EVIL]),
        ("check", &["--from", EVIL]),
        ("check", &["--from", forged]),
        ("check", &["--from", bad]),
        ("node", &[reach[0], reach[1], "--pod", EVIL, "-n", EVIL]),
        ("node", &["--from", forged]),
    ];
    for (command, args) in cases {
        for output in [
            "text", "json", "markdown", "html", "junit", "github", "sarif",
        ] {
            let mut run = crate::run::command(command);
            run.args(args)
                .args(["-v", "-o", output])
                .env("CLICOLOR_FORCE", "1")
                .current_dir(dir.path());
            let run = crate::run::run(run).await;
            let all = run.stdout + &run.stderr;
            let colours = |part: &str| part.starts_with("[31mx") || part.starts_with("[31m\u{7}");
            let acts = all.contains(['\u{7}', '\u{202e}', '\r'])
                || all.contains("\\u001b")
                || all.split('\u{1b}').skip(1).any(colours);
            assert!(!acts, "{command} {args:?} {output}: {all:?}");
            assert!(all.len() > 40, "{command} {args:?} {output}: {all:?}");
        }
    }
}

#[tokio::test]
async fn options_of_a_live_run_do_not_go_with_a_recording() {
    let live: [&[&str]; 12] = [
        &["-n", "other"],
        &["-c", "x"],
        &["--context", "x"],
        &["--kubeconfig", "x"],
        &["--parallel", "2"],
        &["--timeout", "5"],
        &["--deadline", "5"],
        &["--sample", "1"],
        &["--quick"],
        &["--gpu", "3"],
        &["--memory", "host"],
        &["--backend", "UCX"],
    ];
    for more in live {
        let args = [&["--from", "r"], more].concat();
        let run = crate::run(&args).await;
        assert_eq!(run.code, Some(2), "{more:?}: {}", run.stdout);
        assert!(run.stderr.contains("cannot be used with"), "{}", run.stderr);
    }
    for many in ["0", "1025", "18446744073709551615", "x"] {
        let run = crate::run(&["--parallel", many]).await;
        assert_eq!(run.code, Some(2), "{many}");
        assert!(run.stderr.contains("from 1 to 1024"), "{}", run.stderr);
    }
    let mut node = crate::run::command("node");
    node.args(["--kubeconfig", "x"]);
    let run = crate::run::run(node).await;
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("--pod <POD>"), "{}", run.stderr);
}

#[tokio::test]
async fn too_few_descriptors_or_a_full_disk_are_told_in_words() {
    let (builder, _trees) = healthy("g").into(cluster());
    let fake = builder.start().await;
    let kubeconfig = fake.kubeconfig();
    let binary = env!("CARGO_BIN_EXE_dynamo-interconnect-check");
    let shell = async |script: String| {
        let mut shell = tokio::process::Command::new("sh");
        shell.arg("-c").arg(script).arg(binary);
        shell.stdin(std::process::Stdio::null());
        shell.output().await.unwrap()
    };
    let with = async |files: u32| {
        let script = format!(
            "ulimit -n {files}; exec \"$0\" check g -o text --kubeconfig '{}'",
            kubeconfig.display()
        );
        let output = shell(script).await;
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (output.status.code(), said)
    };
    // How many a run needs differs between machines, with what they leave open: below that it says what it lacks, from
    // there on it says the same as with plenty.
    let (_, whole) = with(256).await;
    assert!(whole.contains("0 warn, 0 fail"), "{whole}");
    let mut refused = 0;
    for files in 5..=40 {
        let (code, said) = with(files).await;
        assert!(!said.contains("panicked"), "{files}: {said}");
        if said.contains("open files") {
            assert_eq!(code, Some(4), "{files}: {said}");
            assert!(!said.contains("check could not be read"), "{files}: {said}");
            refused += 1;
        } else {
            assert_eq!(code, Some(0), "{files}: {said}");
            assert_eq!(said, whole, "{files}");
        }
    }
    assert!(refused > 0);
    let node = async |files: u32| {
        let output = shell(format!("ulimit -n {files}; exec \"$0\" node -o json")).await;
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (output.status.code(), said)
    };
    let (enough, whole) = node(256).await;
    assert!(!whole.contains("ulimit -n"), "{whole}");
    refused = 0;
    for files in 6..=40 {
        let (code, said) = node(files).await;
        if said.contains("ulimit -n") {
            assert_eq!(code, Some(4), "{files}: {said}");
            assert!(!said.contains("untrusted"), "{files}: {said}");
            refused += 1;
        } else {
            assert_eq!(code, enough, "{files}: {said}");
        }
    }
    assert!(refused > 0);
    let run = on(&fake, &["g", "--save", "/nonexist/x"]).await;
    let verdict = run.report()["verdict"].as_str().unwrap().to_owned();
    assert!(
        verdict.contains("/nonexist/x could not be written"),
        "{verdict}"
    );
    let output = shell("exec \"$0\" demo >/dev/full".to_owned()).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(
        said.contains("cannot write to standard output: No space left"),
        "{said}"
    );
}

/// A run that gets short of descriptors on its way: what it could not open is not called fine, and no report of a half looks
/// like one of the whole.
#[tokio::test]
async fn a_run_short_of_descriptors_says_what_it_did_not_see() {
    let mut fleet = Fleet::new("g");
    for _ in 0..8 {
        fleet = fleet
            .worker("prefill", &[], plain)
            .worker("decode", &[], plain);
    }
    let (builder, _trees) = fleet.into(cluster());
    let fake = builder.start().await;
    let kubeconfig = fake.kubeconfig();
    let whole = on(&fake, &["g"]).await.report();
    let mut halves = 0;
    for files in [5, 12, 15, 16, 17, 18, 19, 20, 22, 25, 30, 40] {
        let mut shell = tokio::process::Command::new("sh");
        let script = format!(
            "ulimit -n {files}; exec \"$0\" check g --parallel 16 -o json --kubeconfig \"$1\""
        );
        shell.arg("-c").arg(script);
        shell.arg(env!("CARGO_BIN_EXE_dynamo-interconnect-check"));
        shell.arg(&kubeconfig).stdin(std::process::Stdio::null());
        let output = shell.output().await.unwrap();
        let Ok(report) = serde_json::from_slice::<serde_json::Value>(&output.stdout) else {
            assert_eq!(output.status.code(), Some(4), "{files}: {output:?}");
            continue;
        };
        if output.status.code() == Some(0) {
            assert_eq!(report["checks"], whole["checks"], "{files}");
            continue;
        }
        assert_eq!(
            output.status.code(),
            Some(4),
            "{files}: {}",
            report["verdict"]
        );
        let all = report["checks"].as_array().unwrap();
        let lost: Vec<_> = all
            .iter()
            .filter(|c| c["name"] == "node:target" && c["status"] == "skipped")
            .collect();
        for target in &lost {
            halves += 1;
            assert!(
                target["detail"].as_str().unwrap().contains("ulimit -n"),
                "{target}"
            );
            // What the API said of the pod is known all the same.
            let of_spec = |c: &serde_json::Value| {
                let evidence = c["evidence"].as_array().unwrap();
                !evidence.is_empty() && evidence.iter().all(|e| e["ask"] == "pod-spec")
            };
            let fine =
                |c: &&serde_json::Value| c["target"] == target["target"] && c["status"] == "ok";
            for finding in all.iter().filter(fine) {
                assert!(of_spec(finding), "{files}: {finding}");
            }
        }
        let verdict = report["verdict"].as_str().unwrap();
        let says = verdict.contains("open") || verdict.contains("could not be");
        assert!(says, "{files}: {verdict}");
    }
    assert!(halves > 0, "no run was short on its way");
}

#[tokio::test]
async fn a_file_of_choices_that_leads_nowhere_is_not_passed_over() {
    let (builder, _trees) = healthy("g").into(cluster());
    let fake = builder.start().await;
    let dir = tempfile::TempDir::new().unwrap();
    let link = dir.path().join(".dynamo-interconnect-check.toml");
    std::os::unix::fs::symlink("nowhere", link).unwrap();
    let mut command = crate::run::against(crate::run::command("check"), &fake.kubeconfig());
    command.arg("g").current_dir(dir.path());
    let run = crate::run::run(command).await;
    assert_eq!(run.code, Some(4), "{}", run.stdout);
    assert!(
        run.errors().contains(".dynamo-interconnect-check.toml"),
        "{}",
        run.errors()
    );
}
