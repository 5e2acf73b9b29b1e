//! `--baseline`: what changed since an earlier run, by component, and what is said of a file that is none.

use crate::fleet::{Fleet, cluster, healthy};
use crate::on;
use serde_json::{Value, json};

/// The report of a healthy deployment in a file.
async fn recorded(dir: &tempfile::TempDir) -> String {
    let (builder, _trees) = healthy("g").into(cluster());
    let fake = builder.start().await;
    let run = on(&fake, &[]).await;
    let path = dir.path().join("good.json");
    std::fs::write(&path, &run.stdout).unwrap();
    path.to_str().unwrap().to_owned()
}

fn changes(report: &Value) -> Vec<String> {
    let all = report["changes"]["changes"].as_array().unwrap().iter();
    let text = |c: &Value, key: &str| c[key].as_str().unwrap().to_owned();
    all.map(|c| {
        format!(
            "{} {}: {} -> {}",
            text(c, "subject"),
            text(c, "what"),
            text(c, "was"),
            text(c, "now")
        )
    })
    .collect()
}

#[tokio::test]
async fn the_same_again_has_not_changed_whatever_its_pods_are_called() {
    let dir = tempfile::TempDir::new().unwrap();
    let good = recorded(&dir).await;
    let renamed = |name: &'static str| {
        move |pod: crate::fake::pod::FakePod| {
            pod.set("/metadata/name", json!(name))
                .set("/spec/nodeName", json!("other"))
        }
    };
    let fleet = Fleet::new("g")
        .worker("prefill", &[], renamed("prefill-x"))
        .worker("decode", &[], renamed("decode-y"))
        .worker("decode", &[], renamed("decode-z"));
    let (builder, _trees) = fleet.into(cluster());
    let fake = builder.start().await;
    let run = on(&fake, &["--baseline", &good]).await;
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(changes(&run.report()), Vec::<String>::new());
    let text = on(&fake, &["--baseline", &good, "-o", "text"]).await.stdout;
    assert!(text.contains("Since the baseline "), "{text}");
    assert!(
        text.contains("nothing that could be compared has changed"),
        "{text}"
    );
}

#[tokio::test]
async fn a_port_that_went_down_and_a_variable_that_changed_are_said() {
    let dir = tempfile::TempDir::new().unwrap();
    let good = recorded(&dir).await;
    let worse = [
        ("proc/7/environ", "UCX_TLS=tcp\0HOME=/root\0"),
        ("sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n"),
    ];
    let fleet = Fleet::new("g")
        .worker("prefill", &[], |pod| pod)
        .worker("decode", &worse, |pod| pod);
    let (builder, _trees) = fleet.into(cluster());
    let fake = builder.start().await;
    let run = on(&fake, &["--baseline", &good]).await;
    let changes = changes(&run.report());
    for wanted in [
        "deployment trust: unproven -> untrusted",
        "decode ports: 1 x InfiniBand 400 Gb/s ACTIVE -> 1 x InfiniBand 400 Gb/s DOWN",
        "decode UCX_TLS: rc,cuda_copy,cuda_ipc -> tcp",
    ] {
        assert!(
            changes.iter().any(|c| c == wanted),
            "{wanted}: {changes:#?}"
        );
    }
    assert!(
        changes
            .iter()
            .any(|c| c.starts_with("decode ENV012 env:UCX_TLS: ok -> fail")),
        "{changes:#?}"
    );
    assert!(
        !changes.iter().any(|c| c.starts_with("prefill")),
        "{changes:#?}"
    );
}

#[tokio::test]
async fn what_cannot_be_seen_now_is_not_called_unchanged() {
    let dir = tempfile::TempDir::new().unwrap();
    let good = recorded(&dir).await;
    let (builder, _trees) = healthy("g").into(cluster());
    let fake = builder.deny("create", "pods/exec").start().await;
    let report = on(&fake, &["--baseline", &good]).await.report();
    let not_compared = report["changes"]["not_compared"].to_string();
    for wanted in [
        "ports of decode: not known now",
        "environment of prefill: not known of 1 of 1 pods now",
    ] {
        assert!(not_compared.contains(wanted), "{not_compared}");
    }
}

#[tokio::test]
async fn a_file_that_is_no_report_is_named_and_the_rest_is_judged() {
    let dir = tempfile::TempDir::new().unwrap();
    let (builder, _trees) = healthy("g").into(cluster());
    let fake = builder.start().await;
    let newer = json!({"schema_version": 99, "tool": {"name": "dynamo-interconnect-check"}, "command": "check"});
    let rows = [
        (
            "absent.json",
            None,
            "the baseline is not there; check the path",
        ),
        ("text.json", Some("hello".to_owned()), "is not JSON"),
        (
            "other.json",
            Some("{}".to_owned()),
            "is no report of this tool",
        ),
        ("newer.json", Some(newer.to_string()), "update the tool"),
        (
            "demo.json",
            Some(
                newer
                    .to_string()
                    .replace("99", "1")
                    .replace("\"check\"", "\"demo\""),
            ),
            "is a report of `demo`",
        ),
    ];
    for (name, text, wanted) in rows {
        let path = dir.path().join(name);
        if let Some(text) = text {
            std::fs::write(&path, text).unwrap();
        }
        let run = on(&fake, &["--baseline", path.to_str().unwrap()]).await;
        assert_eq!(run.code, Some(4), "{name}");
        let errors = run.errors();
        assert!(
            errors.contains(name) && errors.contains(wanted),
            "{name}: {errors}"
        );
        assert_eq!(run.report()["workloads"][0]["name"], "g", "{name}");
        let verdict = run.report()["verdict"].to_string();
        assert!(
            verdict.contains(&format!("{name} could not be used as the baseline")),
            "{verdict}"
        );
    }
}

#[tokio::test]
async fn a_lane_that_became_slow_is_said_with_its_share() {
    let dir = tempfile::TempDir::new().unwrap();
    let (builder, _trees) = healthy("g").into(cluster());
    let fake = builder.start().await;
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (saved, good) = (path("run"), path("good.json"));
    on(&fake, &["--save", &saved]).await;
    let with = async |read: f64| {
        crate::with_transfers(&saved, &[("decode-1", read, "ok")]);
        crate::run(&["--from", &saved, "--baseline", &good]).await
    };
    std::fs::write(&good, with(46.0).await.stdout).unwrap();
    // The tenth part more or less is no change.
    assert_eq!(changes(&with(42.0).await.report()), Vec::<String>::new());
    let slow = with(40.0).await.report();
    assert_eq!(
        changes(&slow),
        ["decode -> prefill slowest READ: 46.0 GB/s -> 40.0 GB/s (-13 %)"]
    );
    assert!(
        slow["changes"]["speed_threshold"]
            .as_str()
            .unwrap()
            .starts_with("10 %")
    );
}

/// The heading and the sentence say the same.
#[tokio::test]
async fn a_file_that_cannot_be_read_takes_the_word_trusted_away_in_all_places() {
    let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/demo/healthy");
    let run = crate::run(&["--from", demo, "--baseline", "/nonexistent", "-o", "text"]).await;
    assert_eq!(run.code, Some(4));
    assert!(run.stdout.starts_with("NOT PROVEN"), "{}", run.stdout);
    // Nothing before the way out, which names the word.
    let before = run.stdout.split("\nNext: ").next().unwrap();
    for word in ["can be trusted", " trusted"] {
        assert!(!before.contains(word), "{before}");
    }
    assert!(
        before.contains("The lane of every pair of qwen-disagg was proven, and not everything"),
        "{before}"
    );
    let report = crate::run(&["--from", demo, "--baseline", "/nonexistent"]).await;
    let report = report.report();
    assert_eq!(report["trust"], "unproven");
    assert_eq!(report["workloads"][0]["trust"], "unproven");
    for (format, wanted) in [
        ("markdown", "**Could not be used as the baseline:** "),
        ("github", "title=could not be used as the baseline"),
    ] {
        let run = crate::run(&["--from", demo, "--baseline", "/nonexistent", "-o", format]).await;
        assert!(run.stdout.contains(wanted), "{}", run.stdout);
        assert!(!run.stdout.contains("could not be read"), "{}", run.stdout);
    }
}
