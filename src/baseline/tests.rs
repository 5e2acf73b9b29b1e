//! Tests of what changed: each kind of change, and what is no change.

use super::print::without;
use super::*;
use crate::checks::testing::{Fleet, NOTHING};
use crate::report::PairReport;
use crate::report::{Fingerprint, KvBudget, LaneTime, PortPrint, Status};

fn print(pod: &str, component: &str) -> Fingerprint {
    let port = |n: u32| PortPrint {
        port: format!("mlx5_{n}:1"),
        state: Some("ACTIVE".to_owned()),
        gbps: Some(400.0),
        link_layer: Some("InfiniBand".to_owned()),
    };
    Fingerprint {
        pod: pod.to_owned(),
        component: Some(component.to_owned()),
        ports: Some(vec![port(0), port(1)]),
        versions: [("ucx".to_owned(), "1.21.0".to_owned())].into(),
        environment: Some([("UCX_TLS".to_owned(), "rc,cuda_copy".to_owned())].into()),
        ..Fingerprint::default()
    }
}

fn pair(initiator: &str, target: &str, read: f64) -> PairReport {
    PairReport {
        initiator: initiator.to_owned(),
        target: target.to_owned(),
        status: Status::Ok,
        proven: true,
        unproven: vec![],
        lane: "rc_mlx5/mlx5_0:1 zero-copy".to_owned(),
        memory: "gpu".to_owned(),
        write_gbytes: Some(46.0),
        read_gbytes: Some(read),
        of_line_rate: None,
        steps: Vec::new(),
    }
}

fn report(prints: Vec<Fingerprint>, made: Vec<PairReport>) -> Report {
    let mut report = Report::new("check", vec![], vec![], vec![], vec![]);
    report.fingerprint = prints;
    report.pairs.made = made;
    report
}

fn compared(was: &Report, now: &Report) -> (Vec<String>, Vec<String>) {
    let json = serde_json::to_string(was).unwrap();
    let changes = Baseline::parse("b.json", &json).unwrap().compare(now);
    let all = changes.changes.iter();
    (
        all.map(|c| format!("{}: {}: {} -> {}", c.subject, c.what, c.was, c.now))
            .collect(),
        changes.not_compared,
    )
}

#[test]
fn a_transfer_of_a_pod_that_was_not_looked_at_is_compared_with_none() {
    let seen = || vec![print("p-0", "prefill"), print("d-0", "decode")];
    let made = || vec![pair("d-0", "p-0", 45.0)];
    let both = report(seen(), made());
    let lost = report(vec![print("p-0", "prefill")], made());
    for (was, now, words) in [
        (
            &both,
            &lost,
            [
                "lanes of d-0 -> prefill: d-0 was not looked at now",
                "lanes of decode -> prefill: now not all ends of transfers were looked at",
            ],
        ),
        (
            &lost,
            &both,
            [
                "lanes of d-0 -> prefill: d-0 was not looked at in the baseline",
                "lanes of decode -> prefill: in the baseline not all ends of transfers were looked at",
            ],
        ),
    ] {
        let (_, said) = compared(was, now);
        for words in words {
            assert!(said.iter().any(|line| line == words), "{said:?}");
        }
    }
}

#[test]
fn a_rollout_alone_is_no_change() {
    let was = report(
        vec![print("p-0", "prefill"), print("d-0", "decode")],
        vec![pair("d-0", "p-0", 45.0)],
    );
    let renamed = vec![
        print("p-x", "prefill"),
        print("d-y", "decode"),
        print("d-z", "decode"),
    ];
    let now = report(
        renamed,
        vec![pair("d-y", "p-x", 44.0), pair("d-z", "p-x", 46.0)],
    );
    assert_eq!(compared(&was, &now), (vec![], vec![]));
}

#[test]
fn numbers_and_texts_without_end_are_not_repeated() {
    let mut was = report(
        vec![print("p-0", "prefill"), print("d-0", "decode")],
        vec![pair("d-0", "p-0", 1e299)],
    );
    let now = report(
        vec![print("p-0", "prefill"), print("d-0", "decode")],
        vec![pair("d-0", "p-0", 45.0)],
    );
    let wrong = "slowest READ of decode -> prefill: the baseline holds a speed that no lane has";
    assert_eq!(compared(&was, &now), (vec![], vec![wrong.to_owned()]));
    was.pairs.made.clear();
    let json = serde_json::to_string(&was).unwrap();
    let long = json.replace(
        "\"made\":[]",
        &format!("\"made\":\"no\\\"{}\"", "1".repeat(900)),
    );
    let said = Baseline::parse("b.json", &long).unwrap_err();
    assert!(
        said.len() < 400 && said.contains("string \"no\"111"),
        "{said}"
    );
}

#[test]
fn each_kind_of_change_is_said_by_component() {
    let was = report(
        vec![print("p-0", "prefill"), print("d-0", "decode")],
        vec![pair("d-0", "p-0", 45.0)],
    );
    let mut other = print("d-1", "decode");
    let ports = other.ports.as_mut().unwrap();
    ports[1].state = Some("DOWN".to_owned());
    other.versions.insert("ucx".to_owned(), "1.20.0".to_owned());
    other.environment = Some(
        [
            ("UCX_TLS".to_owned(), "tcp".to_owned()),
            ("NCCL_DEBUG".to_owned(), "INFO".to_owned()),
        ]
        .into(),
    );
    let mut slow = pair("d-1", "p-1", 40.4);
    slow.lane = "tcp/eth0".to_owned();
    slow.write_gbytes = Some(42.0);
    let now = report(vec![print("p-1", "prefill"), other], vec![slow]);
    let (changes, not_compared) = compared(&was, &now);
    assert_eq!(
        changes,
        [
            "decode: ports: 2 x InfiniBand 400 Gb/s ACTIVE -> 1 x InfiniBand 400 Gb/s ACTIVE, 1 x InfiniBand 400 Gb/s DOWN",
            "decode -> prefill: transports: rc_mlx5 zero-copy -> tcp",
            "decode -> prefill: slowest READ: 45.0 GB/s -> 40.4 GB/s (-10 %)",
            "decode: ucx: 1.21.0 -> 1.20.0",
            "decode: NCCL_DEBUG: (unset) -> INFO",
            "decode: UCX_TLS: rc,cuda_copy -> tcp",
        ]
    );
    assert_eq!(not_compared, [] as [&str; 0]);
}

#[test]
fn what_is_not_known_is_neither_changed_nor_the_same() {
    let was = report(vec![print("d-0", "decode")], vec![pair("d-0", "p-0", 45.0)]);
    let mut blind = print("d-1", "decode");
    (blind.ports, blind.environment) = (None, None);
    blind.versions.clear();
    let now = report(vec![blind], vec![]);
    let (changes, not_compared) = compared(&was, &now);
    assert_eq!(changes, [] as [&str; 0]);
    assert_eq!(
        not_compared,
        [
            "devices of decode: not known now",
            "environment of decode: not known of 1 of 1 pods now",
            "lanes of decode -> p-0: no transfer was made now (--transfer)",
            "ports of decode: not known now",
            "ucx of decode: not known now",
        ]
    );
    let (_, not_compared) = compared(&report(vec![], vec![]), &was);
    assert!(
        not_compared[0].contains("no fingerprint"),
        "{not_compared:?}"
    );
}

#[test]
fn the_time_of_kv_is_compared_where_an_objective_was_given() {
    let over = KvBudget {
        isl: 8000,
        kv_bytes_per_token: Some(1000),
        bytes_source: String::new(),
        bytes: Some(8_000_000),
        parts: 1,
        parts_source: String::new(),
        assumed: Vec::new(),
        may_be_half: false,
        parts_assumed: false,
        slowest: Some(LaneTime {
            gbytes: 1.0,
            measured: true,
            of: "d -> p".to_owned(),
            added_ms: 101.0,
        }),
        fastest: None,
        slo_ms: Some(100),
        formula: "",
        missing: Vec::new(),
    };
    let pods = [("prefill", NOTHING), ("decode", NOTHING)];
    let mut was = report(vec![print("d-0", "decode")], vec![]);
    let fleet = Fleet::of(&pods).budget(Some(over.clone()));
    was.checks = fleet.findings("kv-budget-over-slo");
    let mut now = report(vec![print("d-0", "decode")], vec![]);
    let what = "DEP060 kv-budget-over-slo";
    let (changes, not_compared) = compared(&was, &now);
    assert_eq!(changes, [] as [&str; 0]);
    assert_eq!(
        not_compared,
        [format!(
            "{what} on deployment: was fail, and could not be looked at now"
        )]
    );
    now.kv_budget = Some(over);
    let (changes, not_compared) = compared(&was, &now);
    assert_eq!(changes, [format!("deployment: {what}: fail -> not said")]);
    assert_eq!(not_compared, [] as [&str; 0]);
}

#[test]
fn a_file_that_is_no_baseline_says_why() {
    let rows = [
        ("", "is not JSON"),
        ("[]", "is no report of this tool"),
        (
            r#"{"schema_version":1,"tool":{"name":"other"}}"#,
            "is no report of this tool",
        ),
        (
            r#"{"format":1,"snapshots":[]}"#,
            "is a recording and not a report",
        ),
        (
            r#"{"schema_version":2,"tool":{"name":"dynamo-interconnect-check"},"command":"check"}"#,
            "has schema version 2, and this version knows versions up to 1; update the tool",
        ),
        (
            r#"{"schema_version":1,"tool":{"name":"dynamo-interconnect-check"},"command":"node"}"#,
            "is a report of `node` and not of `check`",
        ),
        (
            r#"{"schema_version":1,"tool":{"name":"dynamo-interconnect-check"},"command":"check","pairs":3}"#,
            "is not what a report should be",
        ),
    ];
    for (json, wanted) in rows {
        let said = Baseline::parse("b", json).unwrap_err();
        assert!(said.contains(wanted), "{json}: {said}");
    }
}

#[test]
fn addresses_of_the_pod_itself_are_no_settings() {
    let places = [
        (Some("10.0.0.1"), "<pod-ip>"),
        (Some("worker-0"), "<pod>"),
        (None, "<node>"),
    ];
    let rows = [
        ("10.0.0.1", "<pod-ip>"),
        ("tcp:10.0.0.1:5555", "tcp:<pod-ip>:5555"),
        ("10.0.0.12,110.0.0.1", "10.0.0.12,110.0.0.1"),
        ("worker-0.svc", "worker-0.svc"),
        ("rc,cuda_copy", "rc,cuda_copy"),
    ];
    for (value, wanted) in rows {
        assert_eq!(without(value, &places), wanted);
    }
}

#[test]
fn what_an_older_report_does_not_say_is_not_called_empty() {
    let now = report(vec![print("d-0", "decode")], vec![]);
    let old = r#"{"schema_version": 1, "tool": {"name": "dynamo-interconnect-check"}, "command": "check"}"#;
    let changes = Baseline::parse("b.json", old).unwrap().compare(&now);
    assert!(
        changes.changes.iter().all(|c| !c.was.is_empty()),
        "{:?}",
        changes.changes
    );
    assert!(
        changes
            .not_compared
            .iter()
            .any(|what| what == "trust of deployment: not known in the baseline")
    );
    assert_eq!(changes.trust, "not known");
}
