//! The agent skill: every command of SKILL.md through its launcher, and the contract of the original script.
#![expect(
    clippy::unwrap_used,
    reason = "a test may stop where something is not as it should be"
)]

#[expect(dead_code, reason = "only a part of the fake cluster is needed here")]
#[path = "fake/mod.rs"]
mod fake;
#[path = "support/python.rs"]
mod python;
#[path = "support/root.rs"]
mod root;
#[path = "support/skip.rs"]
mod skip;
#[path = "support/standin.rs"]
mod standin;

use fake::cluster::FakeCluster;
use serde_json::Value;
use standin::has_python;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const SKILL: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/skills/dynamo-interconnect-check"
);
const BINARY: &str = env!("CARGO_BIN_EXE_dynamo-interconnect-check");

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
    launch_on("/nonexistent", binary, args)
}

/// The same with this kubeconfig.
fn launch_on(kubeconfig: &str, binary: &str, args: &[&str]) -> Done {
    let output = Command::new("python3")
        .arg("scripts/check_interconnect.py")
        .args(args)
        .current_dir(SKILL)
        .env("DYNAMO_INTERCONNECT_CHECK", binary)
        .env("KUBECONFIG", kubeconfig)
        .env_remove("KUBERNETES_SERVICE_HOST")
        .output()
        .unwrap();
    Done {
        code: output.status.code(),
        text: String::from_utf8(output.stdout).unwrap(),
    }
}

/// What the original printed: every field of it must be there.
fn assert_superset(report: &Value) {
    for check in report["checks"].as_array().unwrap() {
        assert!(
            check["name"].is_string() && check["detail"].as_str().is_some_and(|d| !d.is_empty()),
            "{check}"
        );
        let status = check["status"].as_str().unwrap();
        assert!(
            ["ok", "warn", "fail", "skipped"].contains(&status),
            "{check}"
        );
    }
    let all = report["checks"].as_array().unwrap();
    for status in ["ok", "warn", "fail", "skipped"] {
        let of = all.iter().filter(|c| c["status"] == status).count();
        assert_eq!(report["counts"][status], of, "{status}: {report}");
    }
    assert!(report["verdict"].is_string());
}

/// The variables that the original looked for.
const VARIABLES: [&str; 11] = [
    "UCX_TLS",
    "UCX_NET_DEVICES",
    "UCX_IB_GPU_DIRECT_RDMA",
    "UCX_RNDV_SCHEME",
    "NIXL_PLUGIN_DIR",
    "NCCL_IB_HCA",
    "NCCL_SOCKET_IFNAME",
    "NCCL_IB_DISABLE",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_P2P_LEVEL",
    "NCCL_IB_GID_INDEX",
];
/// What it always said of a machine or pod.
const NODE: [&str; 7] = [
    "node:target",
    "ib-devices",
    "ibv-devinfo",
    "ib-link",
    "gpudirect-peermem",
    "gdrcopy",
    "gpu-topology",
];

/// Status of each name of a report, the worst where it is there for several objects.
fn status_of(report: &Value, name: &str) -> String {
    let checks = report["checks"].as_array().unwrap();
    let of = checks.iter().filter(|c| c["name"] == name);
    let words = of.map(|c| c["status"].as_str().unwrap());
    let rank = |word: &&str| {
        ["skipped", "ok", "warn", "fail"]
            .iter()
            .position(|w| w == word)
    };
    words.max_by_key(rank).unwrap_or("absent").to_owned()
}

/// Every one of these names is in the answer.
fn assert_names(args: &[&str], done: &Done, names: &[&str]) -> Value {
    let report = done.json();
    assert!(report.get("checks").is_some(), "{args:?}: {}", done.text);
    let said: BTreeSet<&str> = report["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["name"].as_str().unwrap())
        .collect();
    for name in names {
        assert!(said.contains(name), "{args:?}: no {name} in {said:?}");
    }
    assert_superset(&report);
    // What the program gives, whoever said it.
    for check in report["checks"].as_array().unwrap() {
        for field in ["id", "target", "kv_path", "evidence", "fix", "reason"] {
            assert!(check.get(field).is_some(), "no {field}: {check}");
        }
        assert_eq!(
            check["status"] == "skipped",
            check["reason"].is_string(),
            "{check}"
        );
    }
    report
}

/// A graph whose workers set every variable of the original.
fn graph_with_every_variable(kind: &str) -> String {
    let env: Vec<String> = VARIABLES
        .iter()
        .map(|name| format!("        - name: {name}\n          value: \"1\"\n"))
        .collect();
    let worker = |name: &str, role: &str| {
        format!(
            "    {name}:\n      componentType: worker\n{role}      replicas: 1\n      resources: {{limits: {{gpu: \"8\"}}}}\n      envs:\n{}",
            env.join("")
        )
    };
    let workers = match kind {
        "disaggregated" => {
            let of = |role: &str| worker(role, &format!("      subComponentType: {role}\n"));
            [of("prefill"), of("decode")].concat()
        }
        _ => worker("worker", ""),
    };
    format!(
        "apiVersion: nvidia.com/v1alpha1\nkind: DynamoGraphDeployment\nmetadata: {{name: g}}\nspec:\n  services:\n{workers}"
    )
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("demo")
        .join(name)
}

#[test]
fn manifests_get_every_name_of_the_original() {
    if !has_python() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let mut set: Vec<String> = VARIABLES.iter().map(|v| format!("env:{v}")).collect();
    set.push("env:disagg-transport".to_owned());
    let set: Vec<&str> = set.iter().map(String::as_str).collect();
    for kind in ["disaggregated", "aggregated"] {
        std::fs::write(path(kind), graph_with_every_variable(kind)).unwrap();
        let path = path(kind);
        let args = ["env", path.as_str()];
        let done = launch(BINARY, &args);
        let report = assert_names(&args, &done, &set);
        let asked = status_of(&report, "env:disagg-transport");
        let wanted = if kind == "aggregated" {
            "skipped"
        } else {
            "ok"
        };
        assert_eq!(asked, wanted, "{kind}");
    }
    std::fs::create_dir(path("empty")).unwrap();
    std::fs::write(path("none.yaml"), "apiVersion: v1\nkind: ConfigMap\n").unwrap();
    let (good, bad) = (fixture("healthy"), fixture("gb200-rack"));
    let (empty, none) = (path("empty"), path("none.yaml"));
    let cases: [(&str, i32, &[&str]); 5] = [
        (
            good.to_str().unwrap(),
            0,
            &["env:UCX_TLS", "env:disagg-transport"],
        ),
        (
            bad.to_str().unwrap(),
            1,
            &["env:UCX_TLS", "env:disagg-transport"],
        ),
        // The only name where there is no manifest.
        (&empty, 1, &["env"]),
        (&none, 1, &["env"]),
        ("/nonexistent", 1, &["env"]),
    ];
    for (path, code, names) in cases {
        let args = ["env", path];
        let done = launch(BINARY, &args);
        let report = assert_names(&args, &done, names);
        assert_eq!(done.code, Some(code), "{path}: {}", done.text);
        let alone = report["checks"].as_array().unwrap().len() == 1;
        assert_eq!(alone, names == ["env"], "{path}: {}", done.text);
    }
}

#[test]
fn this_machine_gets_every_name_of_the_original() {
    if !has_python() {
        return;
    }
    for args in [
        &["node"][..],
        &["node", "--namespace", "x", "--container", "y"],
    ] {
        let done = launch(BINARY, args);
        let report = assert_names(args, &done, &NODE);
        assert_eq!(status_of(&report, "node:target"), "ok");
        // What the machine has decides about the others.
        assert!(matches!(done.code, Some(0 | 1)), "{args:?}: {}", done.text);
        for check in report["checks"].as_array().unwrap() {
            assert_eq!(check["target"], report["checks"][0]["target"]);
        }
    }
    let done = launch(BINARY, &["nixl"]);
    assert_names(&["nixl"], &done, &["nixl", "nixl:binary"]);
    assert!(matches!(done.code, Some(0 | 1)), "{}", done.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_get_every_name_of_the_original() {
    if !has_python() {
        return;
    }
    let (full, bare) = (standin::tree(&[]), tempfile::tempdir().unwrap());
    let fake = FakeCluster::builder()
        .with(standin::pod(
            "p",
            "decode",
            full.path(),
            "invented-rc-mlx5-one-rail",
        ))
        .pod("llm", "bare", bare.path())
        .start()
        .await;
    let kubeconfig = fake.kubeconfig();
    let on = |args: &[&str]| launch_on(kubeconfig.to_str().unwrap(), BINARY, args);
    // Name, pod, and what is said of devices and of GPUs.
    for (namespace, pod, reached, devices, gpus) in [
        ("llm", "p", "ok", "ok", "skipped"),
        ("llm", "bare", "ok", "warn", "skipped"),
        ("llm", "gone", "fail", "skipped", "skipped"),
    ] {
        let args = [
            "node",
            "--namespace",
            namespace,
            "--pod",
            pod,
            "--container",
            "main",
        ];
        let done = on(&args);
        let report = assert_names(&args, &done, &NODE);
        for (name, status) in [
            ("node:target", reached),
            ("ib-devices", devices),
            ("gpu-topology", gpus),
            ("gdrcopy", gpus),
        ] {
            assert_eq!(
                status_of(&report, name),
                status,
                "{pod} {name}: {}",
                done.text
            );
        }
        // Of a pod that nobody looked into, nothing is said not to be there.
        let says_no_gpu = done.text.contains("there is no NVIDIA GPU");
        assert_eq!(says_no_gpu, reached == "ok", "{pod}: {}", done.text);
        let args = ["nixl", "-n", namespace, "--pod", pod, "-c", "main"];
        assert_names(&args, &on(&args), &["nixl", "nixl:binary"]);
    }
    // Where not even the API answers.
    let args = ["node", "--namespace", "llm", "--pod", "p"];
    let done = launch(BINARY, &args);
    let report = assert_names(&args, &done, &NODE);
    let checks = report["checks"].as_array().unwrap();
    assert!(
        checks.iter().all(|c| c["status"] == "skipped"),
        "{}",
        done.text
    );
    assert!(!done.text.contains("there is no"), "{}", done.text);
    assert_eq!(done.code, Some(1));
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

/// The commands of SKILL.md, with these words in the place of others: blocks, and those in a sentence.
fn commands(filled: &[(&str, &str)]) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(Path::new(SKILL).join("SKILL.md")).unwrap();
    let blocks = text.lines().filter_map(|line| {
        line.trim()
            .strip_prefix("python3 scripts/check_interconnect.py ")
    });
    // Every second piece between backticks is code.
    let inline = text.split('`').skip(1).step_by(2).filter(|code| {
        let mut words = code.split_whitespace();
        let known = ["env", "node", "nixl", "check", "explain"];
        words.next().is_some_and(|first| known.contains(&first)) && words.next().is_some()
    });
    let fill = |word: &str| {
        let found = filled.iter().find(|(from, _)| *from == word);
        found.map_or(word, |(_, to)| to).to_owned()
    };
    let all = blocks.chain(inline);
    all.map(|line| line.split_whitespace().map(fill).collect())
        .collect()
}

/// Every command line of SKILL.md runs: with places filled in that exist nowhere, it says so and nothing else goes wrong.
#[test]
fn every_command_of_the_skill_runs() {
    if !has_python() {
        return;
    }
    let path = fixture("healthy");
    let commands = commands(&[
        ("PATH", path.to_str().unwrap()),
        ("NAMESPACE", "ns"),
        ("NAME", "g"),
        ("POD", "decode-0"),
        ("DECODE_POD", "decode-0"),
        ("PREFILL_POD", "prefill-0"),
        ("TOPIC", "acs"),
    ]);
    assert!(commands.len() >= 7, "{commands:?}");
    assert!(commands.iter().any(|c| c[0] == "check"), "{commands:?}");
    for command in commands {
        let args: Vec<&str> = command.iter().map(String::as_str).collect();
        let done = launch(BINARY, &args);
        let json = done.json();
        assert_ne!(done.code, Some(2), "{args:?}: {}", done.text);
        let cluster = args.contains(&"--pod") || args[0] == "check";
        assert_eq!(
            json["launcher"]["exit_code"] == 4,
            cluster,
            "{args:?}: {}",
            done.text
        );
    }
}

/// With places that are there, every command of SKILL.md comes to its answer; what moves test data moves it.
#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_the_skill_finds_what_is_there() {
    if !has_python() {
        return;
    }
    let (p, d) = (standin::tree(&[]), standin::tree(&[]));
    let worker = |name: &str, role: &str, root: &Path| {
        standin::pod(name, role, root, "invented-rc-mlx5-one-rail")
            .label("nvidia.com/dynamo-component", role)
    };
    let fake = FakeCluster::builder()
        .with(worker("prefill-0", "prefill", p.path()))
        .with(worker("decode-0", "decode", d.path()))
        .orphans_live_on()
        .start()
        .await;
    let kubeconfig = fake.kubeconfig();
    let path = fixture("healthy");
    let commands = commands(&[
        ("PATH", path.to_str().unwrap()),
        ("NAMESPACE", "llm"),
        ("NAME", "g"),
        ("POD", "decode-0"),
        ("DECODE_POD", "decode-0"),
        ("PREFILL_POD", "prefill-0"),
        ("TOPIC", "acs"),
    ]);
    let mut moved = Vec::new();
    for command in commands {
        let args: Vec<&str> = command.iter().map(String::as_str).collect();
        let done = launch_on(kubeconfig.to_str().unwrap(), BINARY, &args);
        let report = done.json();
        assert!(matches!(done.code, Some(0 | 1)), "{args:?}: {}", done.text);
        assert_eq!(report["launcher"], Value::Null, "{args:?}: {}", done.text);
        if args.contains(&"--transfer") {
            let made = report["pairs"]["made"].as_array().unwrap();
            assert_eq!(made.len(), 1, "{args:?}: {}", done.text);
            let lane = made[0]["lane"].as_str().unwrap();
            assert!(lane.contains("rc_mlx5/mlx5_0:1"), "{args:?}: {lane}");
            moved.push(args[0].to_owned());
        }
    }
    assert_eq!(moved, ["nixl", "check"]);
    assert_eq!(fake.writes(), []);
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
