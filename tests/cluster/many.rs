//! Many pods side by side: each has its own answer, in order, and the whole ends in time.

use crate::fake::cluster::FakeCluster;
use crate::fake::kubelet::Exec;
use crate::fake::pod::FakePod;
use crate::{at, connected, limits, tree};
use dynamo_interconnect_check::cluster::run::{Answer, Schedule, side_by_side};
use dynamo_interconnect_check::probe::exec_end::End;
use dynamo_interconnect_check::probe::pod_exec::{Limits, run_script};
use std::time::{Duration, Instant};

#[tokio::test]
async fn one_pods_trouble_is_that_pods_answer() {
    let root = tree(&[]);
    let troubles = [
        Exec::Shell,
        Exec::NoExecutables,
        Exec::kubelet_gone(),
        Exec::Hang,
        Exec::DropAfter(10),
        Exec::Shell,
        Exec::unscheduled("w-6"),
        Exec::SilentClose,
        Exec::Shell,
    ];
    let mut builder = FakeCluster::builder();
    for (n, exec) in troubles.iter().enumerate() {
        builder =
            builder.with(FakePod::new("llm", &format!("w-{n}"), root.path()).exec(exec.clone()));
    }
    let fake = builder.start().await;
    let client = connected(&fake).await.client;
    let targets: Vec<_> = (0..troubles.len())
        .map(|n| at(&format!("w-{n}"), None))
        .collect();
    let limits = Limits {
        deadline: Duration::from_secs(10),
        ..limits()
    };
    let work = move |target| {
        let client = client.clone();
        async move { run_script(&client, &target, "exit 0\n", &limits).await.end }
    };
    let answers = side_by_side(targets, Schedule::default(), work, |_, _| {}).await;
    let ends: Vec<End> = answers
        .into_iter()
        .map(|answer| match answer {
            Answer::Done(end) => end,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(ends[0], End::Exit(0));
    assert!(matches!(ends[1], End::NoExecutable { .. }));
    assert!(matches!(ends[2], End::KubeletGone { .. }));
    assert!(matches!(ends[3], End::Deadline { .. }));
    assert_eq!(ends[4], End::ConnectionLost);
    assert_eq!(ends[5], End::Exit(0));
    assert!(matches!(ends[6], End::NotRunning { .. }));
    assert_eq!(ends[7], End::ConnectionLost);
    assert_eq!(ends[8], End::Exit(0));
    assert_eq!(fake.writes(), []);
}

#[tokio::test]
async fn one_pod_costs_one_exec_and_never_more_run_than_allowed() {
    let count = 30;
    let mut builder = FakeCluster::builder();
    for n in 0..count {
        let reply = Exec::Reply(b"ok".to_vec(), Duration::from_millis(20));
        builder = builder.with(FakePod::new("llm", &format!("w-{n:02}"), "/").exec(reply));
    }
    let fake = builder.start().await;
    let client = connected(&fake).await.client;
    let before = fake.requests().len();
    let targets: Vec<_> = (0..count).map(|n| at(&format!("w-{n:02}"), None)).collect();
    let work = move |target| {
        let client = client.clone();
        async move {
            run_script(&client, &target, "exit 0\n", &limits())
                .await
                .stdout
        }
    };
    let answers = side_by_side(targets, Schedule::default(), work, |_, _| {}).await;
    assert!(answers.iter().all(|a| *a == Answer::Done(b"ok".to_vec())));
    assert_eq!(fake.requests().len() - before, count);
    assert!(fake.most_execs() <= Schedule::default().parallel.get());
}

#[tokio::test]
async fn hung_nodes_do_not_keep_the_run_from_ending() {
    let mut builder = FakeCluster::builder();
    for n in 0..20 {
        let exec = if n % 2 == 0 {
            Exec::NeverAnswers
        } else {
            Exec::Shell
        };
        builder = builder.with(FakePod::new("llm", &format!("w-{n:02}"), "/").exec(exec));
    }
    let fake = builder.start().await;
    let client = connected(&fake).await.client;
    let targets: Vec<_> = (0..20).map(|n| at(&format!("w-{n:02}"), None)).collect();
    let work = move |target| {
        let client = client.clone();
        async move {
            run_script(&client, &target, "exit 0\n", &limits())
                .await
                .end
        }
    };
    let schedule = Schedule {
        each: Duration::from_secs(2),
        all: Duration::from_secs(60),
        ..Schedule::default()
    };
    let started = Instant::now();
    let answers = side_by_side(targets, schedule, work, |_, _| {}).await;
    assert!(started.elapsed() < Duration::from_secs(50));
    for (n, answer) in answers.into_iter().enumerate() {
        let expected = if n % 2 == 0 {
            Answer::TargetDeadline
        } else {
            Answer::Done(End::Exit(0))
        };
        assert_eq!(answer, expected, "w-{n:02}");
    }
}
