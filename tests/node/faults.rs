//! Everything that exec can answer and everything that may be wrong with one container: each has its own words, and the
//! others are reported all the same.

use crate::fake::cluster::FakeCluster;
use crate::fake::kubelet::Exec;
use crate::fake::pod::FakePod;
use crate::{counted, on, tree, worker};
use serde_json::json;
use std::time::Duration;

/// What is said of a container that waits: container status as the API shows it.
fn waits(pod: FakePod, phase: &str, reason: &str) -> FakePod {
    pod.set("/status/phase", phase.into()).set(
        "/status/containerStatuses/0/state",
        json!({"waiting": {"reason": reason, "message": "back-off"}}),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn each_trouble_has_its_own_words_and_the_others_are_reported() {
    let good = tree(&[]);
    let at = |name: &str| worker(name, good.path());
    // Pod, what the target's status must be, and words that only this trouble has.
    let cases: Vec<(FakePod, &str, &str)> = vec![
        (at("good"), "ok", "was reached"),
        (
            at("no-sh").exec(Exec::NoExecutables),
            "fail",
            "the image has no shell (sh)",
        ),
        (
            at("pending")
                .set("/status/phase", "Pending".into())
                .set("/spec/nodeName", json!(null)),
            "fail",
            "the pod is not scheduled to a node",
        ),
        (
            at("pending-now").exec(Exec::unscheduled("pending-now")),
            "fail",
            "does not have a host assigned",
        ),
        (
            at("completed").set("/status/phase", "Succeeded".into()),
            "fail",
            "the pod has completed",
        ),
        (
            waits(at("pulling"), "Pending", "ImagePullBackOff"),
            "fail",
            "container main waits: ImagePullBackOff",
        ),
        (
            waits(at("crashing"), "Running", "CrashLoopBackOff"),
            "fail",
            "container main waits: CrashLoopBackOff",
        ),
        (
            at("ended").exec(Exec::container_not_found()),
            "fail",
            "it does not run (container not found",
        ),
        (
            at("ended-spdy").exec(Exec::container_not_found_after_upgrade()),
            "fail",
            "it does not run (",
        ),
        (
            at("kubelet-gone").exec(Exec::kubelet_gone()),
            "skipped",
            "cannot reach the kubelet of its node",
        ),
        (
            at("deleted").exec(Exec::killed()),
            "skipped",
            "as it is when its pod is deleted",
        ),
        (
            at("deleted-midway").exec(Exec::DeletedAfter(3000)),
            "warn",
            "as it is when its pod is deleted",
        ),
        (
            at("lost").exec(Exec::DropAfter(100)),
            "skipped",
            "the connection broke before the end",
        ),
        (
            at("lost-midway").exec(Exec::LostAfter(3000)),
            "warn",
            "the connection broke before the end",
        ),
        (
            at("closed").exec(Exec::SilentClose),
            "skipped",
            "the connection broke before the end",
        ),
        (
            at("endless").exec(Exec::StdoutFlood),
            "skipped",
            "bytes of output",
        ),
        (
            at("stderr").exec(Exec::StderrFlood(20 << 20)),
            "skipped",
            "printed nothing that the probe asks for",
        ),
        (
            at("mute").exec(Exec::Reply(Vec::new(), Duration::ZERO)),
            "skipped",
            "printed nothing that the probe asks for",
        ),
        (
            at("exits").exec(Exec::End(json!({
                "status": "Failure", "reason": "NonZeroExitCode",
                "details": {"causes": [{"reason": "ExitCode", "message": "2"}]},
            }))),
            "fail",
            "the command ended with exit code 2",
        ),
        (
            at("strange").exec(Exec::Refuse(500, json!({"message": "something new"}))),
            "skipped",
            "refused (something new)",
        ),
        (
            at("deleting").set("/metadata/deletionTimestamp", "2026-01-01T00:00:00Z".into()),
            "fail",
            "the pod is being deleted",
        ),
    ];
    let mut builder = FakeCluster::builder().orphans_live_on();
    let mut expected = Vec::new();
    let mut args: Vec<String> = [
        // None of these hangs, so none is ended by its deadline, however busy the machine is.
        "--timeout",
        "120",
        "--parallel",
        "8",
        "--pod",
        "no-such-pod",
        "--pod",
        "../x",
    ]
    .map(str::to_owned)
    .to_vec();
    for (pod, status, words) in cases {
        let name = pod.object["metadata"]["name"].as_str().unwrap().to_owned();
        args.extend(["--pod".to_owned(), name.clone()]);
        expected.push((name, status, words));
        builder = builder.with(pod);
    }
    expected.push((
        "no-such-pod".to_owned(),
        "fail",
        "not found; check the name, the namespace and the context",
    ));
    expected.push(("../x".to_owned(), "fail", "is not a name in Kubernetes"));
    let fake = builder.start().await;
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let run = on(&fake, &args).await;
    let mut wrong = Vec::new();
    for (name, status, words) in &expected {
        let (is, said) = run.target(name);
        if is != *status || !said.contains(words) {
            wrong.push(format!("{name}: {is}: {said} (expected {status}: {words})"));
        }
        if !said.contains(name.as_str()) {
            wrong.push(format!("{name} is not named: {said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(run.targets().len(), expected.len());
    // Some could not be looked at, which was asked for.
    assert_eq!(run.code, Some(4));
    assert_eq!(fake.writes(), []);
    let execs: usize = counted(&fake)
        .iter()
        .filter(|(k, _)| k == "exec")
        .map(|(_, n)| n)
        .sum();
    // Pods that the API shows not to run are not asked, nor those that are not there.
    assert_eq!(execs, expected.len() - 7);
    // What was read before the end still counts.
    for part in ["deleted-midway", "lost-midway"] {
        assert_eq!(run.said(part, "ib-link").0, "ok", "{part}");
    }
    // Nothing of a container that was not read is called fine.
    let report = run.report();
    for finding in report["checks"].as_array().unwrap() {
        let name = finding["target"]["name"].as_str().unwrap();
        if expected
            .iter()
            .any(|(n, status, _)| n == name && ["fail", "skipped"].contains(status))
        {
            assert_ne!(finding["status"], "ok", "{finding}");
        }
    }
}

/// What turns a request away on the way to a container is held against nobody: `skipped` with its reason, `unproven`, 4, the
/// words that were heard in the verdict, and the next step.
#[tokio::test(flavor = "multi_thread")]
async fn where_the_way_to_a_container_fails_nothing_is_said_of_the_container() {
    let root = tree(&[]);
    let status = |code: u16, message: &str| {
        let status =
            json!({"kind": "Status", "status": "Failure", "code": code, "message": message});
        Exec::Refuse(code, status)
    };
    let cases = [
        (
            status(401, "Unauthorized"),
            "denied",
            "the API server rejects the credentials (401 Unauthorized)",
            "log in again",
        ),
        (
            status(
                403,
                "pods \"p\" is forbidden: User \"u\" cannot create resource \"pods/exec\" in API group",
            ),
            "denied",
            "exec is forbidden",
            "grant create on pods/exec (docs/rbac.yaml)",
        ),
        (
            status(429, "slow down"),
            "unreachable",
            "the API server turns requests away (429: slow down)",
            "try again later",
        ),
        (
            status(400, "no"),
            "unreachable",
            "the API server answered 400",
            "look at the log of the API server",
        ),
        (
            Exec::Refuse(502, "Bad Gateway".into()),
            "unreachable",
            "the API server answered 502",
            "look at the log of the API server",
        ),
        (
            Exec::StdoutFlood,
            "unparsable",
            "more than 8388608 bytes of output",
            "look with --print-script",
        ),
        (
            Exec::DropAfter(100),
            "connection-lost",
            "the connection broke before the end",
            "try again",
        ),
    ];
    for (exec, reason, words, remedy) in cases {
        let pod = worker("p", root.path()).exec(exec);
        let fake = FakeCluster::builder().with(pod).start().await;
        let run = on(&fake, &["--pod", "p", "--timeout", "60"]).await;
        assert_eq!(
            run.target("p").0,
            "skipped",
            "{words}: {}",
            run.target("p").1
        );
        assert_eq!(run.code, Some(4), "{words}");
        let report = run.report();
        assert_eq!(report["trust"], "unproven", "{words}");
        let all = report["checks"].as_array().unwrap();
        let target = all.iter().find(|c| c["name"] == "node:target").unwrap();
        assert_eq!(target["reason"], reason, "{words}");
        let verdict = report["verdict"].as_str().unwrap();
        assert!(verdict.contains(words), "{words}: {verdict}");
        assert!(!verdict.contains("fix first"), "{verdict}");
        let next = report["next"].as_str().unwrap_or_default();
        assert!(next.starts_with(remedy), "{words}: {next}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_on_the_way_to_a_container_is_named() {
    let root = tree(&[]);
    let builder = FakeCluster::builder().with(worker("p", root.path()));
    let fake = builder
        .redirect("/exec", "https://example.org/log-in")
        .start()
        .await;
    let run = on(&fake, &["--pod", "p"]).await;
    let (status, said) = run.target("p");
    let words = "the API server answered 301, a redirect to https://example.org/log-in";
    assert!(
        status == "skipped" && said.contains(words),
        "{status}: {said}"
    );
    assert_eq!(run.code, Some(4));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hung_kubelet_and_a_hung_exec_end_with_their_deadline() {
    let root = tree(&[]);
    let fake = FakeCluster::builder()
        .with(worker("kubelet-hung", root.path()).exec(Exec::NeverAnswers))
        .with(worker("hangs", root.path()).exec(Exec::Hang))
        .start()
        .await;
    let run = on(&fake, &["-l", "app=g", "--timeout", "3"]).await;
    for pod in ["kubelet-hung", "hangs"] {
        let (status, said) = run.target(pod);
        assert_eq!(status, "fail", "{said}");
        assert!(
            said.contains("no end within") && said.contains(pod),
            "{said}"
        );
    }
    assert_eq!(run.code, Some(1));
    // They would hang for ever.
    assert!(run.took < Duration::from_secs(60), "{:?}", run.took);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_container_and_none_among_several() {
    let root = tree(&[]);
    let several = worker("several", root.path())
        .set("/spec/containers/0/name", "a".into())
        .set("/status/containerStatuses/0/name", "a".into())
        .container("b");
    let fake = FakeCluster::builder()
        .with(several)
        .with(worker("p", root.path()))
        .start()
        .await;
    let run = on(&fake, &["--pod", "several", "--pod", "p"]).await;
    assert_eq!(run.target("p").0, "ok");
    let (status, said) = run.target("several");
    assert_eq!(status, "fail");
    assert!(
        said.contains("several containers and none is main; give -c NAME, one of: a, b"),
        "{said}"
    );
    let run = on(&fake, &["--pod", "p", "-c", "nosuch"]).await;
    assert_eq!(
        run.target("p").1,
        "pod llm/p has no container nosuch; give -c NAME, one of: main"
    );
    // Without the right to read pods it is the API server that says so.
    let fake = FakeCluster::builder()
        .with(worker("p", root.path()).container("b"))
        .deny("get", "pods")
        .start()
        .await;
    let run = on(&fake, &["--pod", "p", "-c", "nosuch"]).await;
    assert!(
        run.target("p").1.contains("the pod has no such container"),
        "{}",
        run.target("p").1
    );
    let run = on(&fake, &["--pod", "p"]).await;
    assert!(
        run.target("p").1.contains("give -c NAME, one of: main, b"),
        "{}",
        run.target("p").1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_that_flood_lie_or_print_rubbish_stay_one_answer() {
    let floods = tree(&[(
        "bin/nvidia-smi",
        "#!/bin/sh\nyes 0123456789abcde | head -c 10485760\n",
    )]);
    let endless = tree(&[("bin/nvidia-smi", "#!/bin/sh\nexec yes\n")]);
    let stderr = tree(&[("bin/nvidia-smi", "#!/bin/sh\nyes e | head -c 5000000 >&2\n")]);
    let rubbish = tree(&[
        (
            "bin/nvidia-smi",
            "#!/bin/sh\nprintf 'a\\377\\033[2J\\033]0;owned\\007\\n0123456789abcdef end environment ok\\n0123456789abcdef done\\n'\n",
        ),
        ("sys/class/infiniband/mlx5_0/fw_ver", "\u{1b}[31m28\n"),
    ]);
    let fake = FakeCluster::builder()
        .with(worker("floods", floods.path()))
        .with(worker("endless", endless.path()))
        .with(worker("stderr", stderr.path()))
        .with(worker("rubbish", rubbish.path()))
        .start()
        .await;
    let run = on(&fake, &["-l", "app=g", "--timeout", "120"]).await;
    for pod in ["floods", "endless", "stderr", "rubbish"] {
        assert_eq!(run.target(pod).0, "ok", "{pod}: {}", run.target(pod).1);
        assert_eq!(run.said(pod, "ib-link").0, "ok", "{pod}");
        assert_eq!(run.said(pod, "env-drift").0, "ok", "{pod}");
    }
    // The flood was cut, and no timer had to end it.
    assert!(!run.stdout.contains("did not end within"), "{}", run.stdout);
    for text in [
        &run.stdout,
        &on(&fake, &["-l", "app=g", "-o", "text", "--verbose"])
            .await
            .stdout,
    ] {
        assert!(
            !text.contains('\u{1b}') && !text.contains('\u{7}'),
            "{text}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_hangs_costs_its_own_time_and_nothing_else() {
    let hangs = tree(&[("bin/nvidia-smi", "#!/bin/sh\nsleep 1000\n")]);
    let fake = FakeCluster::builder()
        .with(worker("p", hangs.path()))
        .start()
        .await;
    let dir = tempfile::TempDir::new().unwrap();
    let save = dir.path().join("r");
    let run = on(&fake, &["--pod", "p", "--save", save.to_str().unwrap()]).await;
    assert_eq!(run.target("p").0, "ok");
    assert_eq!(run.said("p", "ib-link").0, "ok");
    // Of the 15 s that one question may take, no second question takes as much: said below.
    assert!(run.took < Duration::from_secs(100), "{:?}", run.took);
    let saved = std::fs::read_to_string(save.join("bundle.json")).unwrap();
    assert!(saved.contains("did not end within 15 s"), "{saved}");
    assert!(
        saved.contains("nvidia-smi was not run again after it had hung"),
        "{saved}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_that_reaches_its_deadline_keeps_what_it_read() {
    let hangs = tree(&[("bin/nvidia-smi", "#!/bin/sh\nsleep 1000\n")]);
    let fake = FakeCluster::builder()
        .with(worker("p", hangs.path()))
        .start()
        .await;
    let run = on(&fake, &["--pod", "p", "--timeout", "12"]).await;
    let (status, said) = run.target("p");
    assert_eq!(status, "warn");
    assert!(
        said.contains("the probe reached its deadline before this was read"),
        "{said}"
    );
    assert_eq!(run.said("p", "ib-link").0, "ok");
    assert!(run.took < Duration::from_secs(60), "{:?}", run.took);
    assert_eq!(fake.open_execs(), 0);
}
