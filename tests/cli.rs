//! The binary as its users meet it: the console blocks of README and docs, bad input, exit codes, pipes.
#![expect(
    clippy::unwrap_used,
    reason = "a test may stop where something is not as it should be"
)]

mod support;

use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn tool() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dynamo-interconnect-check"));
    command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_remove("CLICOLOR_FORCE")
        .env_remove("NO_COLOR");
    command
}

fn run(args: &[&str]) -> Output {
    tool().args(args).output().unwrap()
}

fn json(output: &Output) -> Value {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// A directory of this test alone, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("interconnect-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A graph whose two roles have this UCX_TLS.
fn graph(tls: &str) -> String {
    let mut text = "apiVersion: nvidia.com/v1beta1\nkind: DynamoGraphDeployment\nmetadata: {name: g}\nspec:\n  components:\n".to_owned();
    for role in ["prefill", "decode"] {
        text.push_str(&format!(
            "    - name: {role}\n      type: {role}\n      sharedMemorySize: 16Gi\n      podTemplate:\n        spec:\n          \
             containers:\n            - name: main\n              command: [python3, -m, dynamo.vllm]\n              env:\n                \
             - {{name: UCX_TLS, value: {tls:?}}}\n              resources: {{limits: {{nvidia.com/gpu: 1, rdma/ib: 1}}}}\n              \
             securityContext: {{capabilities: {{add: [IPC_LOCK]}}}}\n"
        ));
    }
    text
}

#[test]
fn console_blocks_of_the_documentation_are_true() {
    trycmd::TestCases::new()
        .case("README.md")
        .case("docs/formats.md")
        .case("docs/guides/*.md")
        .case("README.zh-CN.md");
}

#[test]
fn reports_are_what_the_schema_says() {
    let schema = std::fs::read_to_string("docs/report.schema.json").unwrap();
    let schema = jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap();
    let scratch = Scratch::new("schema");
    let fails = scratch.file("fails.yaml", graph("tcp"));
    scratch.file("helm.yaml", "kind: {{ .x }}\n");
    let absent = format!("{}/absent.yaml", scratch.path());
    let runs: &[&[&str]] = &[
        &["demo", "-o", "json"],
        &["env", &fails, &absent],
        &["env", scratch.path()],
        &["env", "tests/manifests"],
        &["env", "demo", "--verbose"],
    ];
    for args in runs {
        let report = json(&run(args));
        let faults: Vec<String> = schema
            .iter_errors(&report)
            .map(|e| format!("{}: {e}", e.instance_path()))
            .collect();
        assert!(faults.is_empty(), "{args:?}: {faults:#?}");
    }
}

#[test]
fn exit_codes_follow_the_table() {
    let scratch = Scratch::new("exit");
    let good = scratch.file("good.yaml", graph("rc,cuda_copy,cuda_ipc"));
    let warns = scratch.file("warns.yaml", graph("rc,xyz,cuda_copy,cuda_ipc"));
    let fails = scratch.file("fails.yaml", graph("tcp"));
    let absent = format!("{}/absent.yaml", scratch.path());
    let empty = scratch.file("empty.yaml", "");
    let service = scratch.file("service.yaml", "kind: Service\nmetadata: {name: x}\n");
    let cases: &[(&[&str], i32)] = &[
        (&["env", &good], 0),
        (&["env", &good, "--strict"], 0),
        (&["env", &good, "--require-trusted"], 2),
        (&["node", "--require-trusted"], 2),
        (&["env", &warns], 0),
        (&["env", &warns, "--strict"], 1),
        (&["env", &fails], 1),
        (&["env", &empty], 1),
        (&["env", &service], 1),
        (&["env", &service, "--fail-on", "never"], 0),
        (&["env", &absent], 4),
        (&["env", &fails, &absent], 4),
        (&["env"], 2),
        (&["env", &good, "--nonsense"], 2),
        (&["explain", "UCX_TLS=tcp"], 0),
        (&["explain", "ucx_tls=tcp"], 0),
        (&["explain", "firewall"], 0),
        (&["explain", "unproven"], 0),
        (&["explain", "kv_path"], 0),
        (&["explain"], 0),
        (&["explain", "--context", "ucx=1.20"], 2),
        (&["explain", "UCX_TLS=tcp", "--context", "net=roce"], 2),
        (&["explain", "no-such-thing"], 2),
        (&["demo"], 0),
        (&["--version"], 0),
    ];
    for (args, code) in cases {
        let output = run(args);
        assert_eq!(
            output.status.code(),
            Some(*code),
            "{args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn the_report_of_the_rest_is_printed_when_an_input_cannot_be_read() {
    let scratch = Scratch::new("rest");
    let fails = scratch.file("fails.yaml", graph("tcp"));
    let absent = format!("{}/absent.yaml", scratch.path());
    let report = json(&run(&["env", &absent, &fails]));
    assert_eq!(report["errors"].as_array().unwrap().len(), 1);
    assert!(
        report["errors"][0]["object"]
            .as_str()
            .unwrap()
            .ends_with("absent.yaml")
    );
    assert_eq!(report["trust"], "untrusted");
    assert_eq!(report["workloads"].as_array().unwrap().len(), 1);
}

#[test]
fn bad_input_gets_its_own_words_and_costs_nothing_else() {
    let scratch = Scratch::new("bad");
    scratch.file("good.yaml", graph("tcp"));
    scratch.file(
        "broken.yaml",
        "kind: DynamoGraphDeployment\nspec:\n  a: [1,\n b: 2\n",
    );
    scratch.file(
        "helm.yaml",
        "apiVersion: v1\nkind: {{ .Values.kind }}\nspec: {{- toYaml . }}\n",
    );
    scratch.file("binary.yaml", [0u8, 159, 146, 150, 0, 1, 2, 255]);
    scratch.file("latin1.yaml", b"kind: ConfigMap\nname: caf\xe9\n");
    scratch.file("bomb.yaml", bomb());
    scratch.file(
        "two.yaml",
        format!(
            "kind: DynamoGraphDeployment\nspec: [\n---\n{}",
            graph("tcp").replace("name: g}", "name: second}")
        ),
    );
    let report = json(&run(&["env", scratch.path()]));
    let said = format!("{}{}", report["errors"], report["notes"]);
    for file in [
        "broken.yaml",
        "helm.yaml",
        "binary.yaml",
        "latin1.yaml",
        "bomb.yaml",
        "two.yaml",
    ] {
        assert!(said.contains(file), "{file} is not mentioned: {said}");
    }
    let names: Vec<&str> = report["workloads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|w| w["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        ["g", "second"],
        "the good graphs are judged all the same"
    );
    assert!(said.contains("helm template"), "{said}");
    for file in ["helm.yaml", "binary.yaml", "latin1.yaml"] {
        let named = run(&["env", &format!("{}/{file}", scratch.path())]);
        assert_eq!(named.status.code(), Some(4), "{file}, named");
    }
    for (name, words) in [("absent", "no such"), ("", "")] {
        let output = run(&["env", &format!("{}/{name}", scratch.path())]);
        assert!(
            String::from_utf8_lossy(&output.stdout)
                .to_lowercase()
                .contains(words)
        );
    }
}

/// Nine levels of nested aliases: a billion nodes for whoever expands them.
fn bomb() -> String {
    let mut text = "kind: DynamoGraphDeployment\na0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..10 {
        let below = vec![format!("*a{}", level - 1); 9].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{below}]\n"));
    }
    text.push_str("spec: *a9\n");
    text
}

#[test]
fn a_directory_without_yaml_is_no_pass() {
    let scratch = Scratch::new("none");
    scratch.file("README.txt", "nothing");
    let output = run(&["env", scratch.path()]);
    let report = json(&output);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        (&report["checks"][0]["name"], &report["checks"][0]["status"]),
        (&"env".into(), &"fail".into())
    );
    assert_eq!(report["trust"], "unproven");
}

#[cfg(unix)]
#[test]
fn symlink_loops_end() {
    let scratch = Scratch::new("loop");
    scratch.file("a/good.yaml", graph("tcp"));
    std::os::unix::fs::symlink("..", scratch.0.join("a/up")).unwrap();
    std::os::unix::fs::symlink("self", scratch.0.join("self")).unwrap();
    let report = json(&run(&["env", scratch.path()]));
    assert_eq!(report["workloads"].as_array().unwrap().len(), 1);
}

#[test]
fn standard_input_is_an_input() {
    let mut child = tool()
        .args(["env", "-", "-o", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(graph("tcp").as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let report = json(&output);
    assert_eq!(report["workloads"][0]["source"]["path"], "<stdin>");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let mut child = tool()
        .args(["demo", "-o", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn huge_files_are_refused_quickly() {
    let scratch = Scratch::new("huge");
    let path = scratch.file("huge.yaml", "");
    // A sparse file: its size is what counts.
    std::fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(100 << 20)
        .unwrap();
    let output = run(&["env", &path]);
    assert_eq!(output.status.code(), Some(4));
    assert!(
        json(&output)["errors"][0]["message"]
            .as_str()
            .unwrap()
            .contains("16 MiB")
    );
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let path = Path::new("demo").to_str().unwrap();
    for format in ["json", "text"] {
        assert_eq!(
            run(&["env", path, "-o", format]).stdout,
            run(&["env", path, "-o", format]).stdout
        );
    }
}

#[test]
fn text_on_a_pipe_has_no_escape_sequences() {
    let output = run(&["demo", "-o", "text", "--verbose"]);
    assert!(!output.stdout.contains(&0x1b));
}

#[test]
fn hostile_names_cannot_reach_the_terminal() {
    let scratch = Scratch::new("hostile");
    let text = graph("tcp").replace("name: prefill", "name: \"pre\\e[2Jfill\\u202e\"");
    let path = scratch.file("x.yaml", text);
    for format in ["json", "text"] {
        let out = run(&["env", &path, "-o", format, "--verbose"]).stdout;
        assert!(!out.contains(&0x1b) && !String::from_utf8_lossy(&out).contains('\u{202e}'));
    }
}

#[test]
fn every_judged_example_is_answered_by_explain() {
    let Some(spec) = support::folder("INTERCONNECT_SPEC", "../shared/spec") else {
        return;
    };
    let text = std::fs::read_to_string(spec.join("env-judgements.tsv")).unwrap();
    let mut rows = 0;
    for line in text.lines().skip(1).filter(|l| !l.is_empty()) {
        let columns: Vec<&str> = line.split('\t').collect();
        let (id, asked) = (
            columns[0],
            format!("{}={}", columns[1], columns[2].replace("<empty>", "")),
        );
        let answer = json(&run(&[
            "explain",
            &asked,
            "--context",
            columns[3],
            "-o",
            "json",
        ]));
        assert_eq!(
            answer["status"], columns[4],
            "{id} {asked} {}: {answer}",
            columns[3]
        );
        assert_eq!(answer["variable"], columns[1], "{id}");
        let value = if columns[2] == "<unset>" {
            Value::Null
        } else {
            columns[2].replace("<empty>", "").into()
        };
        assert_eq!(answer["value"], value, "{id}");
        rows += 1;
    }
    assert_eq!(rows, 83);
}

#[test]
fn explain_does_not_repeat_credentials() {
    let asked = r#"KV_TRANSFER_CONFIG={"kv_connector":"NixlConnector","token":"c4n4ry"}"#;
    for format in ["json", "text"] {
        let output = run(&["explain", asked, "-o", format]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            !text.contains("c4n4ry") && text.contains("withheld"),
            "{text}"
        );
    }
}

#[test]
fn answers_of_explain_are_what_the_schema_says() {
    let schema = std::fs::read_to_string("docs/explain.schema.json").unwrap();
    let schema = jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap();
    let asked: &[&[&str]] = &[
        &[],
        &["UCX_TLS"],
        &["UCX_TLS=rc"],
        &["UCX_TLS=<unset>"],
        &["RDMA003"],
        &["R1"],
        &["acs"],
        &["kv-budget"],
        &["trusted"],
        &["not-applicable"],
        &["kv_path"],
    ];
    for words in asked {
        let answer = json(&run(&[&["explain"], *words, &["-o", "json"]].concat()));
        assert!(schema.is_valid(&answer), "{words:?}: {answer}");
    }
    assert!(!schema.is_valid(&serde_json::json!({"variable": 1})));
}

#[test]
fn explain_says_what_it_assumed_and_takes_names_as_people_write_them() {
    let text = |args: &[&str]| {
        let output = run(&[&["explain"], args, &["-o", "text"]].concat());
        let (out, err) = (output.stdout, output.stderr);
        (
            String::from_utf8(out).unwrap(),
            String::from_utf8(err).unwrap(),
        )
    };
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (said, _) = text(&["UCX_TLS=rc", "--context", "ucx=1.20"]);
    assert!(
        flat(&said).contains("judged for: ucx=1.20; nixl=1.3"),
        "{said}"
    );
    let context = json(&run(&["explain", "UCX_TLS=rc", "-o", "json"]))["context"].clone();
    assert_eq!(context["internode"], "yes");
    assert!(
        context["nics"]
            .as_str()
            .unwrap()
            .starts_with("mlx5_0:1/IB/ACTIVE,")
    );
    // A rule is about what is wrong.
    let (wrong, right) = (text(&["UCX_TLS=rc,cuda_ipc"]).0, text(&["UCX_TLS=all"]).0);
    assert!(
        wrong.contains("rule R1") && !right.contains("rule "),
        "{right}"
    );
    let (said, note) = text(&["ucx_tls=all"]);
    assert!(said.starts_with("ok: UCX_TLS=all"), "{said}");
    assert!(note.contains("taken for UCX_TLS"), "{note}");
    assert!(text(&["ucx_net_devices"]).0.starts_with("UCX_NET_DEVICES"));
    assert!(text(&["Ib-Devices"]).0.starts_with("RDMA001"));
    for (asked, near) in [
        ("unprovn", "unproven"),
        ("UCX_TLZ", "UCX_TLS"),
        ("ib-devicse", "ib-devices"),
    ] {
        let (_, error) = text(&[asked]);
        assert!(error.contains(&format!("did you mean {near}?")), "{error}");
    }
    let (all, _) = text(&[]);
    for what in [
        "unproven",
        "no-shell",
        "kv-budget",
        "RDMA001",
        "UCX_TLS",
        "R1",
    ] {
        assert!(all.contains(what), "{what}: {all}");
    }
    assert!(flat(&text(&["NOT PROVEN"]).0).contains("check NAME --transfer"));
}

#[test]
fn a_context_that_means_nothing_is_refused_with_what_is_taken() {
    for (context, words) in [
        ("net=roce", "names of network interfaces"),
        ("colour=blue", "the keys are ucx, nixl"),
        ("gpu=big", "8xH100-NVSwitch"),
        ("backend=ucx", "UCX, LIBFABRIC or unknown"),
        ("efa=maybe", "yes or no"),
        ("nics=mlx5_0", "<device>:<port>/<IB|Ethernet|Unknown>"),
    ] {
        let output = run(&["explain", "UCX_TLS=rc", "--context", context]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{context}");
        assert!(
            error.starts_with("error: --context: ") && error.contains(words),
            "{error}"
        );
    }
}

/// What would have no effect is said, and not done without.
#[test]
fn a_sample_of_one_pair_is_refused() {
    for ends in [&["--peer", "b"][..], &["--self"]] {
        let mut args = vec!["nixl", "--transfer", "--pod", "a", "--sample", "3"];
        args.extend(ends);
        let output = run(&args);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{ends:?}: {error}");
        assert!(error.contains("--sample"), "{error}");
    }
}

#[test]
fn trust_is_demanded_only_of_what_can_give_it() {
    for command in ["env", "node"] {
        let help = run(&[command, "--help"]).stdout;
        assert!(
            !String::from_utf8(help)
                .unwrap()
                .contains("Exit with 3 unless")
        );
        let path: &[&str] = if command == "env" { &["demo"] } else { &[] };
        let output = run(&[&[command], path, &["--require-trusted"]].concat());
        assert_eq!(output.status.code(), Some(2), "{command}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(
            error.contains("check NAME --transfer") && error.contains("nixl --transfer"),
            "{error}"
        );
    }
}

#[test]
fn help_gives_examples_and_says_what_is_needed_and_how_it_ends() {
    for command in ["env", "node", "nixl", "check"] {
        let help = String::from_utf8(run(&[command, "--help"]).stdout).unwrap();
        let example = format!("  dynamo-interconnect-check {command}");
        let added = help.split_once("\nExamples:\n").unwrap().1;
        assert!(
            added.lines().all(|line| line.chars().count() < 100),
            "{added}"
        );
        for words in [&example, "\nNeeds: ", "\nExit codes:\n  0"] {
            assert!(help.contains(words), "{command}: {words}: {help}");
        }
        if command != "env" {
            assert!(help.contains("docs/rbac.yaml"), "{command}");
        }
    }
}

#[test]
fn reports_of_files_say_what_goes_on() {
    let scratch = Scratch::new("next");
    let fails = scratch.file("fails.yaml", graph("tcp"));
    let fine = scratch.file("fine.yaml", graph("rc,cuda_copy,cuda_ipc"));
    let next = |args: &[&str]| json(&run(args))["next"].clone();
    assert_eq!(
        next(&["env", &fails]),
        format!("apply 1, then `dynamo-interconnect-check env {fails}`")
    );
    let after = next(&["env", &fine]);
    let command = "`dynamo-interconnect-check check g --transfer`";
    assert!(after.as_str().unwrap().contains(command), "{after}");
    let text = String::from_utf8(run(&["env", &fine, "-o", "text"]).stdout).unwrap();
    assert!(text.contains("\nNext: once it runs, "), "{text}");
    let service = scratch.file("service.yaml", "kind: Service\nmetadata: {name: x}\n");
    assert_eq!(next(&["env", &service]), Value::Null);
    let limit = scratch.file("limit", "unlimited\n");
    let after = next(&["node", "--input", &format!("ulimit={limit}")]);
    assert!(
        after.as_str().unwrap().contains("check NAME --transfer"),
        "{after}"
    );
}

/// Faults that no container can see: the pages say so, how they look, and where to look.
#[test]
fn what_cannot_be_seen_is_explained() {
    for (topic, look) in [
        ("firewall", "nft list ruleset"),
        ("acs", "lspci -vvv"),
        ("pfc", "mlnx_qos"),
    ] {
        let output = run(&["explain", topic, "-o", "json"]);
        let page: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let text = page["text"].as_str().unwrap();
        assert!(text.contains("seen from here"), "{topic}: {text}");
        assert!(
            text.contains("no check is ok because of it")
                || text.contains("No check is ok because of it"),
            "{topic}"
        );
        assert!(text.contains("check --transfer"), "{topic}: {text}");
        assert!(text.contains(look), "{topic}: {text}");
        assert!(
            page["sources"].as_str().unwrap().contains("NVIDIA/nccl#"),
            "{topic}"
        );
        let shown = run(&["explain", topic, "-o", "text"]).stdout;
        let shown = String::from_utf8(shown).unwrap();
        assert!(
            shown.lines().all(|line| line.chars().count() <= 100),
            "{shown}"
        );
    }
}
