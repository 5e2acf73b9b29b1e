//! The real NIXL wheel, without RDMA and without a GPU: one host, and two pod-like places joined by a veth.
//!
//! Runs where INTERCONNECT_NIXL_PYTHON names an interpreter with nixl-cu12 and numpy; the two places need root,
//! iproute2 and unshare. Elsewhere it says aloud that it did not run; INTERCONNECT_NIXL_REQUIRED makes that a failure.
//! INTERCONNECT_NIXL_RECORD names a directory for the records of the runs: that is where tests/support/ucx_logs come from.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "helpers of tests")]

#[path = "support/skip.rs"]
mod skip;
#[expect(dead_code, reason = "only a part of it is needed here")]
#[path = "support/transfer.rs"]
mod support;

use dynamo_interconnect_check::report::Status;
use dynamo_interconnect_check::transfer::counted::Agreement;
use dynamo_interconnect_check::transfer::lane::Class;
use dynamo_interconnect_check::transfer::protocol::Kind;
use dynamo_interconnect_check::transfer::record::{Stage, What};
use dynamo_interconnect_check::transfer::{
    Intent, Limits, Local, Step, TransferRecord, Verdict, judge, run,
};
use std::process::Command;
use std::time::Duration;

fn python(what: &str) -> Option<String> {
    let python = std::env::var("INTERCONNECT_NIXL_PYTHON").ok();
    if python.is_none() {
        assert!(!required(), "{what}: INTERCONNECT_NIXL_PYTHON is not set");
        skip::aloud(&format!("{what}: INTERCONNECT_NIXL_PYTHON is not set"));
    }
    python
}

fn required() -> bool {
    std::env::var_os("INTERCONNECT_NIXL_REQUIRED").is_some()
}

/// Shapes of KV traffic, fewer operations than a real run.
fn steps() -> Vec<Step> {
    let shapes = [(8, 1, 20), (64 << 10, 16, 20), (1 << 20, 16, 5)];
    let both = |(bytes, descs, iters)| {
        [Kind::Write, Kind::Read].map(|kind| Step {
            kind,
            bytes,
            descs,
            iters,
        })
    };
    shapes.into_iter().flat_map(both).collect()
}

async fn transfer(
    python: &str,
    a: &Local,
    b: &Local,
    nonce: &str,
    env: &[(&str, &str)],
) -> (TransferRecord, Verdict) {
    let settings = support::settings(nonce, steps());
    let (mut target, mut initiator) = (
        support::end("decode-0", a, python),
        support::end("prefill-0", b, python),
    );
    target.env = env
        .iter()
        .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
        .collect();
    initiator.env = target.env.clone();
    let record = run(&target, &initiator, &settings).await;
    let verdict = judge(&record, &Intent::default());
    println!(
        "{:?} {}\nfix: {:?}\n{:#?}",
        verdict.status, verdict.detail, verdict.fix, verdict.caveats
    );
    verdict
        .evidence
        .iter()
        .for_each(|line| println!("  {line}"));
    if let Ok(dir) = std::env::var("INTERCONNECT_NIXL_RECORD") {
        std::fs::write(
            format!("{dir}/{nonce}.json"),
            serde_json::to_string_pretty(&record).unwrap(),
        )
        .unwrap();
    }
    (record, verdict)
}

fn assert_clean(record: &TransferRecord) {
    assert_eq!(record.failure, None, "{:#?}", record.initiator.log.tail);
    assert_eq!(record.steps.len(), steps().len());
    for step in &record.steps {
        assert!(step.verify.ok, "{step:?}");
        assert_eq!(step.verify.compared, step.xfer.bytes * step.xfer.descs);
    }
    for end in [&record.target, &record.initiator] {
        assert_eq!(
            end.ended.as_ref().map(ToString::to_string).as_deref(),
            Some("exit code 0")
        );
    }
}

#[tokio::test]
async fn on_one_host_the_lane_is_shared_memory_and_that_is_said() {
    let Some(python) = python("real NIXL on one host") else {
        return;
    };
    let here = Local::default();
    // The log file of the worker stays as it is, and does not take away what the lane is read from.
    let log = std::env::temp_dir().join(format!("interconnect-{}.log", std::process::id()));
    std::fs::write(&log, "of the worker").unwrap();
    // With this one UCX aborts at the first line of its log, of which the worker's own level shows none.
    let trigger = ("UCX_LOG_LEVEL_TRIGGER", "info");
    let settings = [("UCX_LOG_FILE", log.to_str().unwrap()), trigger];
    let (record, verdict) = transfer(&python, &here, &here, "host", &settings).await;
    let kept = std::fs::read_to_string(&log).unwrap();
    std::fs::remove_file(&log).unwrap();
    assert_eq!(kept, "of the worker");
    assert_clean(&record);
    for step in &verdict.steps {
        let lane = step.lane.as_ref().expect("a lane");
        assert_eq!(lane.class, Class::SharedMemory, "{}", step.line);
        assert_eq!(lane.rails[0].transport, "cma");
    }
    assert_eq!(verdict.status, Status::Warn);
    assert!(!verdict.proven);
    assert!(
        verdict.detail.contains("never left the node"),
        "{}",
        verdict.detail
    );
}

/// Two namespaces, removed whatever happens.
struct Pods(String);

impl Pods {
    fn script(verb: &str, name: &str) -> bool {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/pod_pair.sh");
        Command::new(script)
            .args([verb, name])
            .status()
            .is_ok_and(|s| s.success())
    }

    fn place(&self, end: &str) -> Local {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/pod_pair.sh");
        let wrap = [script, "run", &format!("{}{end}", self.0)]
            .map(str::to_owned)
            .to_vec();
        Local {
            wrap,
            ..Local::default()
        }
    }
}

impl Drop for Pods {
    fn drop(&mut self) {
        Self::script("down", &self.0);
    }
}

#[tokio::test]
async fn between_two_pod_like_places_the_lane_is_tcp_and_that_fails() {
    let Some(python) = python("real NIXL between two pod-like places") else {
        return;
    };
    let pods = Pods(format!("icx{}", std::process::id()));
    if !Pods::script("up", &pods.0) {
        assert!(
            !required(),
            "no two pod-like places: root, iproute2 and unshare are needed"
        );
        skip::aloud("two pod-like places need root, iproute2 and unshare");
        return;
    }
    let (record, verdict) =
        transfer(&python, &pods.place("a"), &pods.place("b"), "pods", &[]).await;
    assert_clean(&record);
    for step in &verdict.steps {
        let lane = step.lane.as_ref().expect("a lane");
        assert_eq!(
            (lane.class, lane.rails[0].device.as_str()),
            (Class::Tcp, "eth0"),
            "{}",
            step.line
        );
    }
    let large = verdict.steps.last().expect("steps");
    assert!(
        matches!(large.counters, Some(Agreement::Agree(_))),
        "{:?}",
        large.counters
    );
    assert_eq!(verdict.status, Status::Fail);
    assert!(!verdict.proven && !verdict.wrong_bytes);
    assert!(
        verdict.detail.starts_with("Works, wrong lane"),
        "{}",
        verdict.detail
    );
    assert!(verdict.fix.is_some());
}

/// Bytes that have left through the link of one end.
fn sent(place: &str) -> Option<u64> {
    let shown = Command::new("ip")
        .args(["netns", "exec", place, "cat"])
        .arg("/sys/class/net/eth0/statistics/tx_bytes")
        .output()
        .ok()?;
    String::from_utf8_lossy(&shown.stdout).trim().parse().ok()
}

/// UCX itself says nothing of it for longer than anybody waits.
#[tokio::test]
async fn a_link_that_goes_down_during_a_transfer_is_told_from_a_dead_end() {
    let what = "a link that goes down under the real NIXL";
    let Some(python) = python(what) else { return };
    let pods = Pods(format!("icl{}", std::process::id()));
    if !Pods::script("up", &pods.0) {
        assert!(!required(), "{what}: root, iproute2 and unshare are needed");
        skip::aloud(&format!("{what}: root, iproute2 and unshare are needed"));
        return;
    }
    let long = Step {
        kind: Kind::Write,
        bytes: 1 << 20,
        descs: 16,
        iters: 100_000,
    };
    let mut settings = support::settings("cut", vec![long]);
    settings.limits = Limits {
        operation: Duration::from_secs(4),
        step: Duration::from_secs(20),
        step_bytes: 1 << 40,
        run_bytes: 1 << 40,
        ..settings.limits
    };
    let (a, b) = (pods.place("a"), pods.place("b"));
    let target = support::end("decode-0", &a, &python);
    let initiator = support::end("prefill-0", &b, &python);
    let cut = async {
        let initiators = format!("{}b", pods.0);
        // Several operations of 16 MiB are through.
        while sent(&initiators).is_none_or(|bytes| bytes < 100 << 20) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(Pods::script("cut", &pods.0), "the link cannot be cut");
    };
    let began = std::time::Instant::now();
    let both = async { tokio::join!(run(&target, &initiator, &settings), cut).0 };
    let record = tokio::time::timeout(Duration::from_secs(60), both)
        .await
        .expect("it ends by itself");
    let failure = record.failure.clone().expect("a failure");
    let verdict = judge(&record, &Intent::default());
    println!("{:?} {}\n{failure:#?}", began.elapsed(), verdict.detail);
    assert!(
        matches!(failure.what, What::Stall | What::Transfer),
        "{failure:?}"
    );
    assert!(matches!(failure.stage, Stage::Xfer { .. }), "{failure:?}");
    assert!(failure.also.iter().any(|also| also.contains("is alive")));
    assert_eq!((verdict.status, verdict.proven), (Status::Fail, false));
    assert!(verdict.fix.is_some());
}
