//! Which containers are probed, how, and what that costs.

use crate::fake::cluster::FakeCluster;
use crate::fake::kubelet::Exec;
use crate::{counted, on, run, tree, worker};
use std::time::Duration;

fn words(counts: &[(String, usize)]) -> Vec<(&str, usize)> {
    counts.iter().map(|(k, n)| (k.as_str(), *n)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_pod_costs_one_get_one_exec_and_the_reviews() {
    let root = tree(&[]);
    let fake = FakeCluster::builder()
        .with(worker("p", root.path()))
        .start()
        .await;
    let run = on(&fake, &["--pod", "p"]).await;
    assert_eq!(
        run.target("p"),
        (
            "ok".to_owned(),
            "pod llm/p container main was reached".to_owned()
        )
    );
    assert_eq!(run.said("p", "ib-link").0, "ok");
    assert_eq!(run.said("p", "env-drift").0, "ok");
    assert_eq!(run.code, Some(0), "{}", run.stdout);
    assert_eq!(fake.writes(), []);
    let counts = counted(&fake);
    assert_eq!(
        words(&counts),
        [("exec", 1), ("get", 1), ("review", 3), ("version", 1)]
    );
    // The command line lands in the audit log: nothing but the shell may stand in it.
    let requests = fake.requests();
    let exec = requests.iter().find(|r| r.path.ends_with("/exec")).unwrap();
    let command: Vec<&str> = exec
        .query
        .iter()
        .filter(|(k, _)| k == "command")
        .map(|(_, v)| v.as_str())
        .collect();
    assert_eq!(command, ["sh", "-s"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_pods_cost_one_list_and_one_exec_each() {
    let root = tree(&[]);
    let mut builder = FakeCluster::builder();
    for n in 0..12 {
        builder = builder.with(worker(&format!("w-{n:02}"), root.path()));
    }
    let fake = builder
        .with(worker("other", root.path()).label("app", "x"))
        .start()
        .await;
    let run = on(&fake, &["-l", "app=g", "--parallel", "3"]).await;
    assert_eq!(run.targets().len(), 12);
    assert!(
        run.targets().iter().all(|(_, status)| status == "ok"),
        "{:?}",
        run.targets()
    );
    let counts = counted(&fake);
    assert_eq!(
        words(&counts),
        [("exec", 12), ("list", 1), ("review", 3), ("version", 1)]
    );
    assert_eq!(fake.writes(), []);
    // The fake counts an exec until it has seen its client leave, which is a moment later.
    assert!(fake.most_execs() <= 6, "{}", fake.most_execs());
    // A person may read the graph by its own label too.
    let report = run.report();
    assert_eq!(report["checks"][0]["target"]["workload"], "g");
    assert_eq!(report["checks"][0]["target"]["role"], "decode");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_named_twice_is_probed_once() {
    let root = tree(&[]);
    let fake = FakeCluster::builder()
        .with(worker("a", root.path()))
        .with(worker("b", root.path()))
        .start()
        .await;
    let run = on(&fake, &["--pod", "a", "--pod", "a", "-l", "app=g"]).await;
    assert_eq!(run.targets().len(), 2);
    let counts = counted(&fake);
    assert_eq!(
        words(&counts),
        [("exec", 2), ("list", 1), ("review", 4), ("version", 1)]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn namespace_container_and_context_are_obeyed() {
    let root = tree(&[]);
    let mut pod = worker("p", root.path()).container("side");
    pod.object["metadata"]["namespace"] = "other".into();
    let fake = FakeCluster::builder().with(pod).start().await;
    let run = on(
        &fake,
        &[
            "-n",
            "other",
            "--pod",
            "p",
            "-c",
            "side",
            "--context",
            "fake",
        ],
    )
    .await;
    assert_eq!(run.target("p").1, "pod other/p container side was reached");
    // Without -n it is the namespace of the context, where there is no such pod.
    let run = on(&fake, &["--pod", "p"]).await;
    assert_eq!(run.target("p").0, "fail");
    assert!(
        run.target("p").1.contains("llm/p: not found"),
        "{}",
        run.target("p").1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_for_each_and_for_all() {
    let root = tree(&[]);
    let mut builder = FakeCluster::builder().with(worker("good", root.path()));
    for n in 0..6 {
        builder = builder.with(worker(&format!("hung-{n}"), root.path()).exec(Exec::Hang));
    }
    let fake = builder.start().await;
    let each = on(&fake, &["-l", "app=g", "--timeout", "8", "--parallel", "8"]).await;
    // They hang for ever.
    assert!(each.took < Duration::from_secs(60), "{:?}", each.took);
    assert_eq!(each.target("good").0, "ok");
    let (status, said) = each.target("hung-3");
    assert_eq!(status, "fail");
    assert!(
        said.contains("no end within") && said.contains("kubelet"),
        "{said}"
    );
    // Two at a time they would take twenty-four seconds.
    let all = on(
        &fake,
        &[
            "-l",
            "app=g",
            "--timeout",
            "8",
            "--parallel",
            "2",
            "--deadline",
            "10",
        ],
    )
    .await;
    assert_eq!(all.target("good").0, "ok");
    // Its own time was over, which says nothing about the pod.
    let (status, said) = all.target("hung-5");
    assert_eq!(status, "skipped");
    // Only the deadline of the run says so.
    assert!(said.contains("--deadline"), "{said}");
    // What was asked for could not be done; that comes before the pods that answered nothing by themselves.
    assert_eq!(all.code, Some(4));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_api_server_does_not_outlive_the_deadline() {
    let root = tree(&[]);
    let fake = FakeCluster::builder()
        .with(worker("p", root.path()))
        .slow(Duration::from_secs(60))
        .start()
        .await;
    let run = on(&fake, &["--pod", "p", "--deadline", "2"]).await;
    // The server takes a minute for each answer.
    assert!(run.took < Duration::from_secs(40), "{:?}", run.took);
    assert_eq!(run.code, Some(4));
    assert!(run.stdout.contains("no answer within"), "{}", run.stdout);
}

#[tokio::test]
async fn a_command_line_that_means_nothing() {
    for args in [
        &["--parallel", "0"][..],
        &["--timeout", "0"],
        &["--deadline", "x"],
        &["--input", "topo"],
        &["--input", "topo=x", "--pod", "p"],
        &["--from", "x", "--save", "y"],
        &["--from", "x", "-l", "a=b"],
        // They say which container, and none is chosen.
        &["-c", "main"],
        &["-n", "llm"],
        &["--context", "x"],
        &["-n", "llm", "--from", "x"],
        &["-c", "main", "--input", "topo=x"],
        // An empty selector would be every pod.
        &["--pod", ""],
        &["-l", ""],
        &["-l", " "],
        &["--pod", "p", "-n", ""],
        &["--pod", "p", "-c", ""],
        &["--pod", "p", "--context", ""],
    ] {
        let run = run(args).await;
        assert_eq!(run.code, Some(2), "{args:?}");
        assert!(run.stderr.contains("--help"), "{args:?}: {}", run.stderr);
    }
}

#[tokio::test]
async fn the_script_is_shown_and_is_a_script() {
    let shown = run(&["--print-script"]).await;
    assert_eq!(shown.code, Some(0));
    let dir = tempfile::TempDir::new().unwrap();
    let file = dir.path().join("probe.sh");
    std::fs::write(&file, &shown.stdout).unwrap();
    let checked = std::process::Command::new("sh")
        .arg("-n")
        .arg(&file)
        .output()
        .unwrap();
    assert!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&checked.stderr)
    );
    for ask in dynamo_interconnect_check::ask::ALL {
        assert!(
            shown.stdout.contains(&format!("\n# {}: ", ask.id)),
            "{} is not in the script",
            ask.id
        );
    }
    for ask in dynamo_interconnect_check::ask::PASTED {
        assert!(
            !shown.stdout.contains(&format!("\n# {}: ", ask.id)),
            "{} is in the script",
            ask.id
        );
    }
}
