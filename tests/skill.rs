//! The agent skill: every command of SKILL.md through its launcher, and the contract of the original script.
#![expect(
    clippy::unwrap_used,
    reason = "a test may stop where something is not as it should be"
)]

#[path = "support/skip.rs"]
mod skip;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const SKILL: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/skills/dynamo-interconnect-check"
);
const BINARY: &str = env!("CARGO_BIN_EXE_dynamo-interconnect-check");

/// The launcher needs an interpreter; without one it is said aloud.
fn has_python() -> bool {
    let found = Command::new("python3").arg("--version").output().is_ok();
    if !found {
        skip::aloud("the launcher of the skill needs python3");
    }
    found
}

struct Done {
    code: Option<i32>,
    text: String,
}

impl Done {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {}", self.text))
    }
}

/// The launcher with these arguments, and the binary where this says.
fn launch(binary: &str, args: &[&str]) -> Done {
    let output = Command::new("python3")
        .arg("scripts/check_interconnect.py")
        .args(args)
        .current_dir(SKILL)
        .env("DYNAMO_INTERCONNECT_CHECK", binary)
        .env("KUBECONFIG", "/nonexistent")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .output()
        .unwrap();
    Done {
        code: output.status.code(),
        text: String::from_utf8(output.stdout).unwrap(),
    }
}

/// What the original printed: everything in it must be there.
fn assert_superset(report: &Value) {
    for check in report["checks"].as_array().unwrap() {
        assert!(
            check["name"].is_string() && check["detail"].is_string(),
            "{check}"
        );
        let status = check["status"].as_str().unwrap();
        assert!(
            ["ok", "warn", "fail", "skipped"].contains(&status),
            "{check}"
        );
    }
    for status in ["ok", "warn", "fail"] {
        assert!(report["counts"][status].is_u64(), "{report}");
    }
    assert!(report["verdict"].is_string());
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("demo")
        .join(name)
}

#[test]
fn the_arguments_of_the_original_give_a_superset_of_its_answer() {
    if !has_python() {
        return;
    }
    let bad = fixture("gb200-rack");
    let good = fixture("healthy");
    let cases: [(&[&str], i32, &[&str]); 6] = [
        (
            &["env", good.to_str().unwrap()],
            0,
            &["env:UCX_TLS", "env:disagg-transport"],
        ),
        (&["env", bad.to_str().unwrap()], 1, &["env:UCX_TLS"]),
        // The original says this of a directory without a manifest, too.
        (&["env", "/nonexistent"], 1, &[]),
        (&["node"], -1, &["node:target", "ib-devices"]),
        (
            &["node", "--namespace", "x", "--container", "y"],
            -1,
            &["node:target"],
        ),
        (&["nixl"], -1, &["nixl"]),
    ];
    for (args, code, names) in cases {
        let done = launch(BINARY, args);
        let report = done.json();
        assert_superset(&report);
        for name in names {
            let checks = report["checks"].as_array().unwrap();
            assert!(
                checks.iter().any(|c| c["name"] == *name),
                "{args:?}: no {name}"
            );
        }
        // What this machine can do decides about the others.
        if code >= 0 {
            assert_eq!(done.code, Some(code), "{args:?}: {}", done.text);
        } else {
            assert!(
                matches!(done.code, Some(0 | 1)),
                "{args:?}: {:?}",
                done.code
            );
        }
    }
}

#[test]
fn codes_that_the_original_did_not_have_become_1_with_their_reason() {
    if !has_python() {
        return;
    }
    let limit = std::env::temp_dir().join(format!("interconnect-limit-{}", std::process::id()));
    std::fs::write(&limit, "unlimited\n").unwrap();
    let input = format!("ulimit={}", limit.display());
    let never = ["--fail-on", "never", "--require-trusted"];
    let done = launch(
        BINARY,
        &[&["nixl", "--input", input.as_str()][..], &never].concat(),
    );
    std::fs::remove_file(&limit).unwrap();
    assert_eq!(done.code, Some(1));
    assert_eq!(done.json()["launcher"]["exit_code"], 3);
    let done = launch(BINARY, &["env", "/nonexistent"]);
    assert_eq!(done.json()["launcher"]["exit_code"], 4);
    let done = launch(BINARY, &["node", "--namespace", "x", "--pod", "y"]);
    assert_eq!(
        (done.code, &done.json()["launcher"]["exit_code"]),
        (Some(1), &Value::from(4))
    );
    let wrong = launch(BINARY, &["nonsense"]);
    assert_eq!(wrong.code, Some(2));
    assert_eq!(wrong.json()["launcher"]["exit_code"], 2);
    assert!(
        wrong.json()["verdict"]
            .as_str()
            .unwrap()
            .contains("nonsense")
    );
}

#[test]
fn forms_of_options_are_understood() {
    if !has_python() {
        return;
    }
    let done = launch(BINARY, &["node", "-nother"]);
    let verdict = done.json()["verdict"].as_str().unwrap().to_owned();
    assert!(
        verdict.starts_with("This machine was looked at, and no pod"),
        "{verdict}"
    );
    // A selector keeps its namespace, and the answer is about the API that is not there.
    let done = launch(BINARY, &["node", "-lapp=x", "-n", "ns"]);
    assert_eq!(done.json()["launcher"]["exit_code"], 4, "{}", done.text);
    let good = fixture("healthy");
    for output in ["-ojson", "--output=json"] {
        let done = launch(BINARY, &["env", good.to_str().unwrap(), output]);
        assert_eq!(done.code, Some(0), "{}", done.text);
    }
}

#[test]
fn without_the_binary_the_answer_says_how_to_get_it() {
    if !has_python() {
        return;
    }
    for binary in ["/nonexistent/binary", "/etc/passwd"] {
        let done = launch(binary, &["env", "x"]);
        let report = done.json();
        assert_superset(&report);
        assert_eq!(done.code, Some(1));
        assert!(
            report["verdict"]
                .as_str()
                .unwrap()
                .contains(concat!("cargo install --path ", env!("CARGO_MANIFEST_DIR"))),
            "{report}"
        );
    }
    // Elsewhere it names no directory that holds other sources.
    let elsewhere = tempfile::tempdir().unwrap();
    let scripts = elsewhere.path().join("skills/x/scripts");
    std::fs::create_dir_all(&scripts).unwrap();
    let copy = scripts.join("check_interconnect.py");
    std::fs::copy(
        Path::new(SKILL).join("scripts/check_interconnect.py"),
        &copy,
    )
    .unwrap();
    std::fs::write(
        elsewhere.path().join("Cargo.toml"),
        "[package]\nname = \"other\"\n",
    )
    .unwrap();
    let output = Command::new("python3")
        .arg(&copy)
        .arg("env")
        .env("DYNAMO_INTERCONNECT_CHECK", "/nonexistent")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.contains("directory of its sources") && said.contains("cargo install --path ."),
        "{said}"
    );
}

/// What is judged instead of a machine is not called this machine, and a value that is missing is missed.
#[test]
fn what_the_original_did_not_have_is_left_to_the_program() {
    if !has_python() {
        return;
    }
    let recording = fixture("healthy");
    let from = format!("--from={}", recording.display());
    for args in [
        &["node", "--input", "topo=x", "-n", "ns"][..],
        &["node", &from, "--namespace", "ns"],
        &["node", "--namespace"],
        &["node", "--namespace", "--verbose"],
        &["node", "-n", ""],
        &["node", "--container="],
        &["nixl", "-c"],
    ] {
        let done = launch(BINARY, args);
        assert_eq!(done.code, Some(2), "{args:?}: {}", done.text);
        assert!(!done.text.contains("This machine"), "{}", done.text);
    }
}

#[test]
fn a_reader_that_leaves_gets_no_complaint() {
    if !has_python() {
        return;
    }
    let good = fixture("healthy");
    let line = "set -o pipefail; python3 scripts/check_interconnect.py env \"$1\" | true";
    let output = Command::new("bash")
        .args(["-c", line, "bash", good.to_str().unwrap()])
        .current_dir(SKILL)
        .env("DYNAMO_INTERCONNECT_CHECK", BINARY)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("BrokenPipe"), "{said}");
    assert_eq!(output.status.code(), Some(0), "{said}");
}

/// An agent finds the line of a cause where SKILL.md says that it stands.
#[test]
fn the_line_of_a_cause_is_found() {
    if !has_python() {
        return;
    }
    let bad = fixture("gb200-rack");
    let report = launch(BINARY, &["env", bad.to_str().unwrap()]).json();
    let causes = report["fix_first"].as_array().unwrap();
    assert!(!causes.is_empty());
    for cause in causes {
        let mut checks = report["checks"].as_array().unwrap().iter();
        let found = checks.find(|c| c["id"] == cause["id"] && c["target"] == cause["target"]);
        let evidence = found.unwrap()["evidence"].as_array().unwrap();
        let has_line = |e: &Value| e.to_string().contains("\"line\":");
        assert!(evidence.iter().any(has_line), "{cause}: {evidence:?}");
    }
}

/// Every command line of SKILL.md runs: with places filled in that exist nowhere, it says so and nothing else goes wrong.
#[test]
fn every_command_of_the_skill_runs() {
    if !has_python() {
        return;
    }
    let text = std::fs::read_to_string(Path::new(SKILL).join("SKILL.md")).unwrap();
    let path = fixture("healthy");
    let commands: Vec<Vec<String>> = text
        .lines()
        .filter_map(|line| {
            line.trim()
                .strip_prefix("python3 scripts/check_interconnect.py ")
        })
        .map(|line| {
            line.split_whitespace()
                .map(|word| match word {
                    "PATH" => path.to_str().unwrap().to_owned(),
                    "NAMESPACE" => "ns".to_owned(),
                    "POD" | "DECODE_POD" => "decode-0".to_owned(),
                    "PREFILL_POD" => "prefill-0".to_owned(),
                    other => other.to_owned(),
                })
                .collect()
        })
        .collect();
    assert!(commands.len() >= 6, "{commands:?}");
    for command in commands {
        let args: Vec<&str> = command.iter().map(String::as_str).collect();
        let done = launch(BINARY, &args);
        let json = done.json();
        assert_ne!(done.code, Some(2), "{args:?}: {}", done.text);
        let cluster = args.contains(&"--pod");
        assert_eq!(
            json["launcher"]["exit_code"] == 4,
            cluster,
            "{args:?}: {}",
            done.text
        );
    }
}

/// What an agent host reads: relative paths that exist, and the same name as the folder.
#[test]
fn the_skill_refers_to_what_is_there() {
    let text = std::fs::read_to_string(Path::new(SKILL).join("SKILL.md")).unwrap();
    assert!(text.starts_with("---\nname: dynamo-interconnect-check\n"));
    let mut links = 0;
    for part in text.split("](").skip(1) {
        let target = part.split(')').next().unwrap();
        assert!(Path::new(SKILL).join(target).is_file(), "{target}");
        links += 1;
    }
    assert!(links > 0);
    let evals = std::fs::read_to_string(Path::new(SKILL).join("evals/evals.json")).unwrap();
    let evals: Value = serde_json::from_str(&evals).unwrap();
    let triggers: Vec<bool> = evals["evals"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["should_trigger"].as_bool().unwrap())
        .collect();
    assert!(triggers.contains(&true) && triggers.contains(&false));
}
