//! Every row of the table of exec answers, on both subprotocols, and the bounds of what is read.

use crate::fake::cluster::{Builder, FakeCluster};
use crate::fake::kubelet::Exec;
use crate::fake::pod::FakePod;
use crate::{at, connected, limits, tree};
use dynamo_interconnect_check::cluster::call::Cause;
use dynamo_interconnect_check::probe::exec_end::End;
use dynamo_interconnect_check::probe::pod_exec::{Limits, Outcome, PodProcess, run_script};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

/// Runs a script in a pod `p` that behaves like this, once per subprotocol; both must say the same.
async fn both(exec: Exec, script: &str, limits: Limits) -> Outcome {
    let root = tree(&[
        ("note", "from the fixture\n"),
        ("bin/nvidia-smi", "#!/bin/sh\necho GPU 0\n"),
    ]);
    let start = async |builder: Builder| {
        let pod = FakePod::new("llm", "p", root.path()).exec(exec.clone());
        let fake = builder.with(pod).start().await;
        let outcome = run_script(
            &connected(&fake).await.client,
            &at("p", Some("main")),
            script,
            &limits,
        )
        .await;
        assert_eq!(fake.writes(), []);
        // The command line lands in the audit log: the script must not be in it.
        for request in fake.requests().iter().filter(|r| r.path.ends_with("/exec")) {
            let commands = request.query.iter().filter(|(key, _)| key == "command");
            assert!(
                commands.map(|(_, value)| value.as_str()).eq(["sh", "-s"]),
                "{request:?}"
            );
        }
        outcome
    };
    let v5 = start(FakeCluster::builder().seed(5)).await;
    let v4 = start(FakeCluster::builder().seed(4).v4_only()).await;
    assert_eq!(v4, v5);
    v5
}

async fn end(exec: Exec) -> End {
    both(exec, "exit 0\n", limits()).await.end
}

#[tokio::test]
async fn a_script_runs_in_a_real_shell_on_the_fixture_tree() {
    let script = "cat \"$ROOT/note\"; nvidia-smi; echo seen >&2; exit 0\n";
    let outcome = both(Exec::Shell, script, limits()).await;
    assert_eq!(outcome.end, End::Exit(0));
    assert_eq!(outcome.stdout, b"from the fixture\nGPU 0\n");
    assert_eq!(outcome.stderr_tail, b"seen\n");
}

#[tokio::test]
async fn an_exit_code_arrives() {
    let outcome = both(Exec::Shell, "echo before; exit 3\n", limits()).await;
    assert_eq!(outcome.end, End::Exit(3));
    assert_eq!(outcome.stdout, b"before\n");
}

#[tokio::test]
async fn an_image_without_a_shell_is_not_an_exit_code() {
    assert_eq!(
        end(Exec::NoExecutables).await,
        End::NoExecutable {
            name: "sh".to_owned()
        }
    );
}

#[tokio::test]
async fn a_pod_that_is_not_there() {
    let fake = FakeCluster::builder().start().await;
    let client = connected(&fake).await.client;
    let outcome = run_script(&client, &at("gone", Some("main")), "exit 0\n", &limits()).await;
    assert_eq!(outcome.end, End::PodNotFound);
}

#[tokio::test]
async fn a_name_that_would_lead_elsewhere_is_not_sent() {
    let fake = FakeCluster::builder().start().await;
    let client = connected(&fake).await.client;
    let before = fake.requests();
    let outcome = run_script(&client, &at("../secrets/x", None), "exit 0\n", &limits()).await;
    assert!(matches!(outcome.end, End::Call(Cause::BadName { .. })));
    assert_eq!(fake.requests(), before);
}

#[tokio::test]
async fn a_wrong_container_and_none_among_several() {
    let pod = FakePod::new("llm", "p", "/").container("sidecar");
    let fake = FakeCluster::builder().with(pod).start().await;
    let client = connected(&fake).await.client;
    let named = run_script(&client, &at("p", Some("nosuch")), "exit 0\n", &limits()).await;
    assert_eq!(named.end, End::WrongContainer { choices: vec![] });
    let unnamed = run_script(&client, &at("p", None), "exit 0\n", &limits()).await;
    let choices = vec!["main".to_owned(), "sidecar".to_owned()];
    assert_eq!(unnamed.end, End::WrongContainer { choices });
}

#[tokio::test]
async fn a_pending_pod() {
    let why = "pod p does not have a host assigned".to_owned();
    assert_eq!(end(Exec::unscheduled("p")).await, End::NotRunning { why });
}

#[tokio::test]
async fn a_container_that_does_not_run_before_and_after_the_upgrade() {
    for exec in [
        Exec::container_not_found(),
        Exec::container_not_found_after_upgrade(),
    ] {
        let end = end(exec).await;
        let End::NotRunning { why } = &end else {
            panic!("{end:?}")
        };
        assert!(why.contains("container not found (\"main\")"), "{why}");
    }
}

#[tokio::test]
async fn a_kubelet_that_is_gone() {
    let end = end(Exec::kubelet_gone()).await;
    let End::KubeletGone { said } = &end else {
        panic!("{end:?}")
    };
    assert!(said.contains("connection refused"), "{said}");
}

#[tokio::test]
async fn a_hung_kubelet_ends_within_the_deadline() {
    for exec in [Exec::NeverAnswers, Exec::Hang] {
        let deadline = Duration::from_millis(300);
        let started = Instant::now();
        let outcome = both(
            exec,
            "exit 0\n",
            Limits {
                deadline,
                ..limits()
            },
        )
        .await;
        assert_eq!(outcome.end, End::Deadline { after: deadline });
        assert!(started.elapsed() < Duration::from_secs(60));
    }
}

#[tokio::test]
async fn what_came_before_the_deadline_is_kept() {
    let deadline = Duration::from_secs(5);
    let outcome = both(
        Exec::Shell,
        "echo early; sleep 600; exit 0\n",
        Limits {
            deadline,
            ..limits()
        },
    )
    .await;
    assert_eq!(outcome.end, End::Deadline { after: deadline });
    assert_eq!(outcome.stdout, b"early\n");
}

#[tokio::test]
async fn a_pod_that_is_deleted_meanwhile() {
    let outcome = both(Exec::killed(), "exit 0\n", limits()).await;
    assert_eq!(outcome.end, End::Exit(137));
    assert_eq!(outcome.stdout, b"half");
    assert!(outcome.end.to_string().contains("deleted"));
}

#[tokio::test]
async fn a_connection_that_breaks_keeps_what_came() {
    let outcome = both(Exec::DropAfter(100_000), "exit 0\n", limits()).await;
    assert_eq!(outcome.end, End::ConnectionLost);
    assert_eq!(outcome.stdout.len(), 100_000);
    assert_eq!(end(Exec::SilentClose).await, End::ConnectionLost);
}

#[tokio::test]
async fn a_missing_verb_is_named() {
    for (verb, before_1_35) in [("get", false), ("create", false), ("get", true)] {
        let mut builder = FakeCluster::builder()
            .pod("llm", "p", "/")
            .deny(verb, "pods/exec");
        if before_1_35 {
            builder = builder.before_1_35();
        }
        let fake = builder.start().await;
        let client = connected(&fake).await.client;
        let outcome = run_script(&client, &at("p", None), "exit 0\n", &limits()).await;
        assert_eq!(outcome.end, End::Forbidden { verb: Some(verb) });
    }
}

#[tokio::test]
async fn servers_before_1_35_need_no_create() {
    let fake = FakeCluster::builder()
        .pod("llm", "p", "/")
        .deny("create", "pods/exec")
        .before_1_35();
    let fake = fake.start().await;
    let client = connected(&fake).await.client;
    let outcome = run_script(&client, &at("p", None), "exit 0\n", &limits()).await;
    assert_eq!(outcome.end, End::Exit(0));
}

#[tokio::test]
async fn credentials_that_expire_and_a_server_that_goes_away() {
    let expired = json!({"reason": "Unauthorized", "message": "Unauthorized"});
    let fake = FakeCluster::builder()
        .pod("llm", "p", "/")
        .fault("/exec", 1, 401, expired)
        .start()
        .await;
    let client = connected(&fake).await.client;
    let outcome = run_script(&client, &at("p", None), "exit 0\n", &limits()).await;
    assert_eq!(outcome.end, End::Call(Cause::Unauthorized));
    let expected = json!({"message": "unexpected EOF"});
    let fake = FakeCluster::builder()
        .pod("llm", "p", "/")
        .fault("/exec", 1, 502, expected)
        .start()
        .await;
    let client = connected(&fake).await.client;
    let outcome = run_script(&client, &at("p", None), "exit 0\n", &limits()).await;
    assert!(
        matches!(outcome.end, End::Call(Cause::Answer { code: 502, .. })),
        "{:?}",
        outcome.end
    );
    drop(fake);
    let outcome = run_script(&client, &at("p", None), "exit 0\n", &limits()).await;
    assert!(
        matches!(outcome.end, End::Call(Cause::Unreachable { .. })),
        "{:?}",
        outcome.end
    );
}

#[tokio::test]
async fn a_server_that_says_not_now_is_asked_again() {
    let busy = json!({"reason": "TooManyRequests", "message": "slow down"});
    let fake = FakeCluster::builder()
        .pod("llm", "p", "/")
        .fault("/exec", 1, 429, busy)
        .start()
        .await;
    let client = connected(&fake).await.client;
    let outcome = run_script(&client, &at("p", None), "exit 0\n", &limits()).await;
    assert_eq!(outcome.end, End::Exit(0));
}

#[tokio::test]
async fn ten_megabytes_arrive_whole() {
    let script = "yes 0123456789abcde | head -c 10485760; exit 0\n";
    let outcome = both(Exec::Shell, script, limits()).await;
    assert_eq!(outcome.end, End::Exit(0));
    assert_eq!(outcome.stdout.len(), 10 << 20);
    assert!(
        outcome
            .stdout
            .chunks(16)
            .all(|line| line == b"0123456789abcde\n")
    );
}

#[tokio::test]
async fn a_server_that_sends_pings_and_reads_nothing_is_left() {
    let fake = FakeCluster::builder()
        .with(FakePod::new("llm", "p", "/").exec(Exec::Pings))
        .start()
        .await;
    let client = connected(&fake).await.client;
    let outcome = run_script(&client, &at("p", None), "exit 0\n", &limits()).await;
    assert_eq!(outcome.end, End::ConnectionLost);
}

#[tokio::test]
async fn a_flood_of_stderr_neither_stalls_stdout_nor_fills_memory() {
    let outcome = both(Exec::StderrFlood(20 << 20), "exit 0\n", limits()).await;
    assert_eq!(
        (outcome.end, outcome.stdout.as_slice()),
        (End::Exit(0), b"done".as_slice())
    );
    assert_eq!(outcome.stderr_bytes, 20 << 20);
    assert_eq!(outcome.stderr_tail.len(), limits().stderr_tail);
}

#[tokio::test]
async fn endless_output_ends_at_the_limit() {
    let small = Limits {
        stdout: 1 << 20,
        stderr: 1 << 20,
        ..limits()
    };
    let outcome = both(Exec::StdoutFlood, "exit 0\n", small).await;
    assert_eq!(outcome.end, End::OutputLimit { bytes: 1 << 20 });
    assert_eq!(outcome.stdout.len(), 1 << 20);
    let fake = FakeCluster::builder();
    let fake = fake
        .with(FakePod::new("llm", "p", "/").exec(Exec::StderrFlood(64 << 20)))
        .start()
        .await;
    let outcome = run_script(
        &connected(&fake).await.client,
        &at("p", None),
        "exit 0\n",
        &small,
    )
    .await;
    assert_eq!(outcome.end, End::OutputLimit { bytes: 1 << 20 });
}

#[tokio::test]
async fn a_long_script_and_bytes_that_are_not_text() {
    let mut script = "# padding\n".repeat(30_000);
    script.push_str("printf 'a\\377\\033[2Jb'; exit 0\n");
    let outcome = both(Exec::Shell, &script, limits()).await;
    assert_eq!(outcome.end, End::Exit(0));
    assert_eq!(outcome.stdout, b"a\xff\x1b[2Jb");
}

#[tokio::test]
async fn a_script_that_is_not_read_to_its_end_does_not_hold_us_up() {
    let script = format!("exit 4\n{}", "# never read\n".repeat(100_000));
    assert_eq!(both(Exec::Shell, &script, limits()).await.end, End::Exit(4));
}

#[tokio::test]
async fn a_slow_start_is_waited_for() {
    assert_eq!(
        end(Exec::SlowStart(Duration::from_millis(200))).await,
        End::Exit(0)
    );
}

#[tokio::test]
async fn a_runtime_that_prints_its_refusal() {
    let script = "printf 'OCI runtime exec failed: exec failed: no such file'; exit 126\n";
    let outcome = both(Exec::Shell, script, limits()).await;
    assert_eq!(
        outcome.end,
        End::NoExecutable {
            name: "sh".to_owned()
        }
    );
}

#[tokio::test]
async fn live_streams_relay_lines_between_two_pods() {
    for v4_only in [false, true] {
        let root = tree(&[]);
        let mut builder =
            FakeCluster::builder()
                .pod("llm", "a", root.path())
                .pod("llm", "b", root.path());
        if v4_only {
            builder = builder.v4_only();
        }
        let fake = builder.start().await;
        let client = connected(&fake).await.client;
        let answering = [
            "sh",
            "-c",
            "while read -r n; do [ \"$n\" = bye ] && exit 0; echo $((n + 1)); done",
        ];
        let mut a = PodProcess::open(&client, &at("a", None), &answering)
            .await
            .unwrap();
        let mut b = PodProcess::open(&client, &at("b", None), &answering)
            .await
            .unwrap();
        let mut from_a = BufReader::new(a.stdout).lines();
        let mut from_b = BufReader::new(b.stdout).lines();
        let mut line = "0".to_owned();
        for _ in 0..10 {
            a.stdin
                .write_all(format!("{line}\n").as_bytes())
                .await
                .unwrap();
            line = from_a.next_line().await.unwrap().unwrap();
            b.stdin
                .write_all(format!("{line}\n").as_bytes())
                .await
                .unwrap();
            line = from_b.next_line().await.unwrap().unwrap();
        }
        assert_eq!(line, "20");
        a.stdin.write_all(b"bye\n").await.unwrap();
        assert_eq!(a.ending.wait().await, End::Exit(0));
        assert_eq!(
            a.ending.wait().await,
            End::Exit(0),
            "asking again gives the same"
        );
        // Dropping one side ends it from here; the other is not touched.
        drop((a.ending, b.ending));
    }
}

#[tokio::test]
async fn a_command_that_does_not_exist_is_named() {
    let fake = FakeCluster::builder().pod("llm", "p", "/").start().await;
    let client = connected(&fake).await.client;
    let mut process = PodProcess::open(&client, &at("p", None), &["no-such-tool"])
        .await
        .unwrap();
    let end = process.ending.wait().await;
    assert_eq!(
        end,
        End::NoExecutable {
            name: "no-such-tool".to_owned()
        }
    );
    let mut rest = Vec::new();
    process.stdout.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, b"");
}

/// Why every script must end itself: nobody else ends it.
#[tokio::test]
async fn a_process_outlives_a_client_that_goes_away() {
    let root = tree(&[]);
    let fake = FakeCluster::builder()
        .pod("llm", "p", root.path())
        .orphans_live_on()
        .start()
        .await;
    let script = "sleep 1; echo still here > \"$ROOT/left\"; exit 0\n";
    let short = Limits {
        deadline: Duration::from_millis(500),
        ..limits()
    };
    let outcome = run_script(
        &connected(&fake).await.client,
        &at("p", None),
        script,
        &short,
    )
    .await;
    assert!(matches!(outcome.end, End::Deadline { .. }));
    let left = root.path().join("left");
    let started = Instant::now();
    while !left.exists() {
        assert!(started.elapsed() < Duration::from_secs(60), "it was ended");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
