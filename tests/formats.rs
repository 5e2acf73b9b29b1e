//! Formats for CI and the choice of checks, through the binary. SARIF and JUnit are held against their schemas where
//! `INTERCONNECT_FORMATS` names a directory that holds them; the gate always does.
#![expect(
    clippy::unwrap_used,
    reason = "a test may stop where something is not as it should be"
)]

#[path = "support/skip.rs"]
mod skip;

use quick_xml::events::Event;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// The binary, in this directory.
fn run_in(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dynamo-interconnect-check"))
        .current_dir(folder)
        .env_remove("GITHUB_WORKSPACE")
        .args(args)
        .output()
        .unwrap()
}

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"))
}

/// A graph with this name whose roles have this UCX_TLS and this name of the prefill worker.
fn graph(name: &str, prefill: &str, tls: &str) -> String {
    let mut text = format!(
        "apiVersion: nvidia.com/v1beta1\nkind: DynamoGraphDeployment\nmetadata: {{name: {name:?}}}\nspec:\n  components:\n"
    );
    for (worker, role) in [(prefill, "prefill"), ("decode", "decode")] {
        let _ = write!(
            text,
            "    - name: {worker}\n      type: {role}\n      sharedMemorySize: 16Gi\n      podTemplate:\n        spec:\n          \
             containers:\n            - name: main\n              command: [python3, -m, dynamo.vllm]\n              env:\n                \
             - {{name: UCX_TLS, value: {tls:?}}}\n              resources: {{limits: {{nvidia.com/gpu: 1, rdma/ib: 1}}}}\n              \
             securityContext: {{capabilities: {{add: [IPC_LOCK]}}}}\n"
        );
    }
    text
}

const FAILS: &str = "tcp,cuda_copy";
const WARNS: &str = "rc,xyz,cuda_copy,cuda_ipc";
const FINE: &str = "rc,cuda_copy,cuda_ipc";

/// A name that wants to be something else, as YAML and as this tool shows it.
const HOSTILE: &str = r#""a\r\n::error::pwned\0\ufffe <img src=x> @octocat ]]> ``` </details> %0A::warning::z [l](http://e.x)""#;

/// A directory with a fail, a warn, a hostile name and a file that cannot be judged.
fn recipes() -> TempDir {
    let folder = TempDir::new().unwrap();
    let write = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("a b#%.yaml", graph("fails", "prefill", FAILS));
    write("deep/warns.yml", graph("warns", "prefill", WARNS));
    write("hostile.yaml", graph("hostile", HOSTILE, FAILS));
    write("fine.yaml", graph("fine", "prefill", FINE));
    write(
        "broken.yaml",
        "kind: DynamoGraphDeployment\nspec: [1,\n b: 2\n".to_owned(),
    );
    folder
}

/// What is read: demos, a directory, a missing file, rules that leave out.
fn runs(folder: &Path, format: &str) -> Vec<(Output, String)> {
    let runs: [&[&str]; 8] = [
        &["demo", "healthy"],
        &["demo", "tcp-fallback"],
        &["demo", "gb200-rack"],
        &["env", "."],
        &["env", "a b#%.yaml", "absent.yaml", "--strict"],
        &["env", ".", "--ignore", "ENV002=\"quoted\" <reason>"],
        &["env", "hostile.yaml", "--only", "K8S001"],
        &["node", "--input", "ulimit=fine.yaml"],
    ];
    let run = |args: &[&str]| {
        let args = [args, &["-o", format]].concat();
        (run_in(folder, &args), args.join(" "))
    };
    runs.into_iter().map(run).collect()
}

/// The directory with the schemas; None, said aloud, where there is none.
fn schemas() -> Option<PathBuf> {
    let found = std::env::var_os("INTERCONNECT_FORMATS").map(PathBuf::from);
    if found.is_none() {
        skip::aloud("SARIF and JUnit against their schemas: INTERCONNECT_FORMATS is not set");
    }
    found
}

#[test]
fn sarif_is_what_the_official_schema_says() {
    let Some(schemas) = schemas() else { return };
    let schema = std::fs::read_to_string(schemas.join("sarif-2.1.0.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    assert!(
        schema["id"]
            .as_str()
            .unwrap()
            .contains("oasis-open.org/sarif/sarif/v2.1.0")
    );
    let schema = jsonschema::options()
        .should_validate_formats(true)
        .build(&schema)
        .unwrap();
    assert!(
        !schema.is_valid(&serde_json::json!({"version": "2.1.0"})),
        "it demands something"
    );
    let folder = recipes();
    for (output, args) in &runs(folder.path(), "sarif") {
        let log = json(output);
        let faults: Vec<String> = schema
            .iter_errors(&log)
            .map(|e| format!("{}: {e}", e.instance_path()))
            .collect();
        assert!(faults.is_empty(), "{args}: {faults:#?}");
    }
}

#[test]
fn junit_is_what_the_schema_says() {
    let Some(schemas) = schemas() else { return };
    let folder = recipes();
    for (output, args) in &runs(folder.path(), "junit") {
        let file = folder.path().join("out.xml");
        std::fs::write(&file, &output.stdout).unwrap();
        let checked = Command::new(schemas.join("bin/xmlschema-validate"))
            .arg("--schema")
            .arg(schemas.join("junit-10.xsd"))
            .arg(&file)
            .output()
            .unwrap();
        let said = format!(
            "{}{}",
            text(&checked),
            String::from_utf8_lossy(&checked.stderr)
        );
        assert!(
            checked.status.success() && said.contains("is valid"),
            "{args}: {said}"
        );
    }
}

#[test]
fn sarif_is_ready_for_code_scanning() {
    let folder = recipes();
    let log = json(&run_in(folder.path(), &["env", ".", "-o", "sarif"]));
    let run = &log["runs"][0];
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    let results = run["results"].as_array().unwrap();
    assert!(results.len() >= 6, "{results:#?}");
    let mut prints = BTreeSet::new();
    let mut uris = BTreeSet::new();
    for result in results {
        let rule = &rules[result["ruleIndex"].as_u64().unwrap() as usize];
        assert_eq!(rule["id"], result["ruleId"]);
        assert!(["error", "warning"].contains(&result["level"].as_str().unwrap()));
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uriBaseId"], "%SRCROOT%");
        assert!(
            place["region"]["startLine"].as_u64().unwrap() > 1,
            "{place}"
        );
        uris.insert(
            place["artifactLocation"]["uri"]
                .as_str()
                .unwrap()
                .to_owned(),
        );
        assert!(
            prints.insert(result["partialFingerprints"].to_string()),
            "{result}"
        );
    }
    for uri in ["a%20b%23%25.yaml", "deep/warns.yml", "hostile.yaml"] {
        assert!(uris.contains(uri), "{uris:?}");
    }
    for rule in rules {
        assert!(
            rule["help"]["markdown"]
                .as_str()
                .unwrap()
                .contains("## Fix"),
            "{rule}"
        );
        let words = [
            "name",
            "shortDescription",
            "fullDescription",
            "defaultConfiguration",
            "properties",
        ];
        assert!(words.iter().all(|w| !rule[w].is_null()), "{rule}");
    }
    assert_eq!(
        run["invocations"][0]["executionSuccessful"], false,
        "broken.yaml was not read"
    );
    // Lines move, and the findings stay the same.
    let file = folder.path().join("hostile.yaml");
    let moved = format!(
        "# one\n# two\n# three\n{}",
        std::fs::read_to_string(&file).unwrap()
    );
    std::fs::write(&file, moved).unwrap();
    let log = json(&run_in(folder.path(), &["env", ".", "-o", "sarif"]));
    let again = log["runs"][0]["results"].as_array().unwrap();
    let again: BTreeSet<String> = again
        .iter()
        .map(|r| r["partialFingerprints"].to_string())
        .collect();
    assert_eq!(again, prints);
}

#[test]
fn paths_are_those_of_the_workspace_of_a_job() {
    let folder = recipes();
    let output = Command::new(env!("CARGO_BIN_EXE_dynamo-interconnect-check"))
        .current_dir(folder.path().join("deep"))
        .env("GITHUB_WORKSPACE", folder.path().canonicalize().unwrap())
        .args(["env", "warns.yml", "-o", "github"])
        .output()
        .unwrap();
    assert!(
        text(&output).starts_with("::warning file=deep/warns.yml,line="),
        "{}",
        text(&output)
    );
}

#[test]
fn a_pod_has_a_place_and_a_logical_location() {
    let log = json(&run_in(here(), &["demo", "tcp-fallback", "-o", "sarif"]));
    let results = log["runs"][0]["results"].as_array().unwrap();
    let about = |kind: &str| {
        let found = results
            .iter()
            .find(|r| r["locations"][0]["logicalLocations"][0]["kind"] == kind);
        found.unwrap_or_else(|| panic!("{kind}: {results:#?}"))["locations"][0].clone()
    };
    let pod = about("pod");
    assert_eq!(
        pod["logicalLocations"][0]["fullyQualifiedName"],
        "dynamo-demo/qwen-disagg/decode-0 (decode)"
    );
    // The pair stands in no file.
    for place in [pod, about("pair")] {
        let place = &place["physicalLocation"];
        assert!(
            !place["artifactLocation"]["uri"]
                .as_str()
                .unwrap()
                .is_empty()
        );
        assert!(
            place["region"]["startLine"].as_u64().unwrap() > 0,
            "{place}"
        );
    }
}

/// Every case: its suite, and the elements in it. Panics unless the counts are those of the cases.
fn cases(xml: &str) -> Vec<(String, String, Vec<String>)> {
    let mut reader = quick_xml::Reader::from_str(xml);
    let (mut all, mut suite, mut counted) = (Vec::new(), String::new(), Vec::new());
    let attribute = |e: &quick_xml::events::BytesStart<'_>, name: &str| {
        let found = e.try_get_attribute(name).unwrap();
        found.map_or(String::new(), |a| {
            a.normalized_value(quick_xml::XmlVersion::Implicit1_0)
                .unwrap()
                .into_owned()
        })
    };
    loop {
        let event = reader.read_event().unwrap_or_else(|e| panic!("{e}: {xml}"));
        let e = match event {
            Event::Eof => break,
            Event::Start(e) | Event::Empty(e) => e,
            _ => continue,
        };
        match e.name().as_ref() {
            "testsuites" => counted.push((
                String::new(),
                attribute(&e, "tests"),
                attribute(&e, "failures"),
            )),
            "testsuite" => {
                suite = attribute(&e, "name");
                counted.push((
                    suite.clone(),
                    attribute(&e, "tests"),
                    attribute(&e, "failures"),
                ));
            }
            "testcase" => all.push((suite.clone(), attribute(&e, "name"), Vec::new())),
            tag => {
                let (_, _, inside): &mut (String, String, Vec<String>) = all.last_mut().unwrap();
                inside.push(tag.to_owned());
            }
        }
    }
    for (suite, tests, failures) in counted {
        let own = all.iter().filter(|(s, ..)| suite.is_empty() || *s == suite);
        let (n, failed) = own.fold((0, 0), |(n, failed), (_, _, inside)| {
            (
                n + 1,
                failed + usize::from(inside.iter().any(|tag| tag == "failure")),
            )
        });
        assert_eq!(
            (tests, failures),
            (n.to_string(), failed.to_string()),
            "{suite}: {xml}"
        );
    }
    all
}

#[test]
fn junit_has_a_case_for_each_finding_and_counts_them() {
    let folder = recipes();
    for (output, args) in &runs(folder.path(), "junit") {
        let found = cases(&text(output));
        let distinct: BTreeSet<_> = found.iter().map(|(suite, name, _)| (suite, name)).collect();
        assert_eq!(distinct.len(), found.len(), "{args}");
        let mut args: Vec<&str> = args.split(' ').collect();
        if args.contains(&"a") || args.contains(&"--ignore") {
            continue;
        }
        args.truncate(args.len() - 2);
        let report = json(&run_in(folder.path(), &args));
        let findings = report["checks"].as_array().unwrap().len();
        let errors = report["errors"].as_array().unwrap().len();
        assert_eq!(found.len(), 1 + findings + errors, "{args:?}");
    }
}

#[test]
fn junit_says_what_was_skipped_warned_and_failed() {
    let folder = recipes();
    let of = |args: &[&str], case: &str| -> Vec<String> {
        let xml = text(&run_in(folder.path(), &[args, &["-o", "junit"]].concat()));
        let found = cases(&xml);
        let case = found.iter().find(|(_, name, _)| name == case);
        case.unwrap_or_else(|| panic!("{case:?}: {xml}")).2.clone()
    };
    let tls = "ENV002 env:UCX_TLS";
    assert_eq!(of(&["env", "a b#%.yaml"], tls), ["failure"]);
    assert_eq!(
        of(&["env", "a b#%.yaml", "--fail-on", "never"], tls),
        ["failure"]
    );
    assert_eq!(of(&["env", "deep"], tls), ["system-out"]);
    assert_eq!(of(&["env", "deep", "--strict"], tls), ["failure"]);
    assert_eq!(
        of(&["env", "deep", "--ignore", "ENV002=r"], tls),
        ["skipped"]
    );
    assert_eq!(of(&["env", "fine.yaml"], tls), [""; 0]);
    let trust = "the KV path can be trusted";
    assert_eq!(
        of(&["env", "fine.yaml"], trust),
        ["skipped"],
        "nothing was proven"
    );
    std::fs::write(folder.path().join("limit"), "unlimited\n").unwrap();
    let demanded = [
        "nixl",
        "--input",
        "ulimit=limit",
        "--fail-on",
        "never",
        "--require-trusted",
    ];
    assert_eq!(of(&demanded, trust), ["failure"]);
    assert_eq!(of(&demanded[..5], trust), ["skipped"]);
    assert_eq!(of(&["demo", "healthy"], trust), ["system-out"]);
}

#[test]
fn annotations_point_at_lines_and_hostile_names_inject_none() {
    let folder = recipes();
    let out = text(&run_in(folder.path(), &["env", ".", "-o", "github"]));
    assert!(out.contains("::error file=a b#%25.yaml,line="), "{out}");
    assert!(
        out.contains("::error title=could not be read::") || out.contains("broken.yaml"),
        "{out}"
    );
    let report = json(&run_in(folder.path(), &["env", "."]));
    let wanted = report["fix_first"].as_array().unwrap().len()
        + report["errors"].as_array().unwrap().len()
        + 1;
    assert_eq!(out.split(['\n', '\r']).count(), wanted + 1, "{out}");
    for line in out.lines() {
        let own = ["::error ", "::warning ", "::notice "]
            .iter()
            .any(|k| line.starts_with(k));
        assert!(own, "{line}");
    }
    assert!(
        out.lines()
            .last()
            .unwrap()
            .starts_with("::notice title=interconnect%3A untrusted::"),
        "{out}"
    );
}

#[test]
fn a_comment_is_bounded_and_hostile_names_are_text() {
    let folder = recipes();
    let out = text(&run_in(folder.path(), &["env", ".", "-o", "markdown"]));
    assert!(
        out.starts_with("## ❌ Interconnect: not trusted\n"),
        "{out}"
    );
    assert!(
        !out.contains("<img") && !out.contains("@octocat") && !out.contains("](http"),
        "{out}"
    );
    let many = TempDir::new().unwrap();
    for n in 0..400 {
        let path = many.path().join(format!("{n}.yaml"));
        std::fs::write(path, graph(&format!("g{n}"), HOSTILE, &format!("tcp,x{n}"))).unwrap();
    }
    let out = text(&run_in(many.path(), &["env", ".", "-o", "markdown"]));
    assert!(out.len() <= 65_000 && out.len() > 30_000, "{}", out.len());
    assert!(out.contains("more parts had no room"), "{out}");
    let pairs = text(&run_in(here(), &["demo", "healthy", "-o", "markdown"]));
    assert!(
        pairs.contains("| | prefill-0 | prefill-1 |\n|---|---|---|\n"),
        "{pairs}"
    );
}

fn code(folder: &Path, args: &[&str]) -> i32 {
    run_in(folder, args).status.code().unwrap()
}

#[test]
fn the_status_that_fails_a_run_is_a_choice() {
    let folder = recipes();
    let folder = folder.path();
    let (fails, warns) = ("hostile.yaml", "deep/warns.yml");
    for (file, choice, expected) in [
        (fails, "fail", 1),
        (fails, "warn", 1),
        (fails, "never", 0),
        (warns, "fail", 0),
        (warns, "warn", 1),
        (warns, "never", 0),
    ] {
        assert_eq!(
            code(folder, &["env", file, "--fail-on", choice]),
            expected,
            "{file} {choice}"
        );
    }
    assert_eq!(code(folder, &["env", warns, "--strict"]), 1);
    assert_eq!(
        code(folder, &["env", warns, "--strict", "--fail-on", "never"]),
        2
    );
    std::fs::write(folder.join("limit"), "unlimited\n").unwrap();
    let demanded = ["nixl", "--input", "ulimit=limit", "--require-trusted"];
    let never = [&demanded[..], &["--fail-on", "never"]].concat();
    assert_eq!(code(folder, &never), 3);
    assert_eq!(
        code(folder, &["env", "absent.yaml", "--fail-on", "never"]),
        4
    );
    std::fs::write(folder.join(CONFIG), "fail-on = \"warn\"\n").unwrap();
    let output = run_in(folder, &["env", warns]);
    assert_eq!(output.status.code(), Some(1), "the file says so");
    let notes = json(&output)["notes"].to_string();
    assert!(
        notes.contains("fail-on is"),
        "and the report says that: {notes}"
    );
    assert_eq!(
        code(folder, &["env", warns, "--fail-on", "fail"]),
        0,
        "the command line comes first"
    );
}

const CONFIG: &str = ".dynamo-interconnect-check.toml";

/// Name and value stand on two lines of their own: every format points at the same one.
#[test]
fn one_finding_stands_at_one_place_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let on_two_lines = "- name: UCX_TLS\n                  value: tcp";
    let manifest =
        graph("g", "prefill", "tcp").replace("- {name: UCX_TLS, value: \"tcp\"}", on_two_lines);
    assert_eq!(manifest.matches(on_two_lines).count(), 2, "{manifest}");
    std::fs::write(folder.join("x.yaml"), &manifest).unwrap();
    let line = manifest[..manifest.find(on_two_lines).unwrap()]
        .matches('\n')
        .count()
        + 1;
    let report = json(&run_in(folder, &["env", "x.yaml"]));
    let mut all = report["checks"].as_array().unwrap().iter();
    let finding = all.find(|c| c["name"] == "env:UCX_TLS").unwrap();
    assert_eq!(finding["evidence"][0]["line"], line);
    assert_eq!(finding["evidence"][0]["column"], 19);
    let as_is = |format: &str| text(&run_in(folder, &["env", "x.yaml", "-o", format]));
    let place = format!("x.yaml:{line}:19");
    for format in ["text", "junit", "html"] {
        let said = as_is(format);
        assert!(said.contains(&place), "{format}: {said}");
        assert!(
            !said.contains(&format!("x.yaml:{}:", line + 1)),
            "{format}: {said}"
        );
    }
    let markdown = as_is("markdown");
    assert!(
        markdown.replace("&#58;", ":").contains(&place),
        "{markdown}"
    );
    let github = as_is("github");
    assert!(
        github.contains(&format!("file=x.yaml,line={line},col=19,title=ENV002")),
        "{github}"
    );
    let sarif: Value = serde_json::from_str(&as_is("sarif")).unwrap();
    let mut results = sarif["runs"][0]["results"].as_array().unwrap().iter();
    let region = |r: &Value| r["locations"][0]["physicalLocation"]["region"].clone();
    let found = results
        .find(|r| r["ruleId"] == "ENV002")
        .map(region)
        .unwrap();
    assert_eq!(
        (&found["startLine"], &found["startColumn"]),
        (&line.into(), &19.into())
    );
}

/// What follows from a cause on several objects is named once.
#[test]
fn an_annotation_names_what_follows_once() {
    let demo = here().join("demo/gb200-rack");
    let github = text(&run_in(
        here(),
        &["check", "--from", demo.to_str().unwrap(), "-o", "github"],
    ));
    let follows: Vec<&str> = github.split("follows from it: ").skip(1).collect();
    assert!(!follows.is_empty(), "{github}");
    for list in follows {
        let list = list.split(['%', '\n']).next().unwrap();
        let names: Vec<&str> = list.split(", ").collect();
        let different: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(names.len(), different.len(), "{list}");
    }
}

#[test]
fn an_ignored_fail_is_reported_and_trust_is_not_given() {
    let folder = recipes();
    let folder = folder.path();
    let args = [
        "env",
        "hostile.yaml",
        "--ignore",
        "env:UCX_TLS=lab without RDMA",
    ];
    let output = run_in(folder, &args);
    assert_eq!(output.status.code(), Some(0));
    let report = json(&output);
    assert_eq!(report["trust"], "unproven");
    assert!(
        report["verdict"]
            .as_str()
            .unwrap()
            .contains("among them a fail of ENV002"),
        "{report}"
    );
    assert_eq!(report["rules"][0]["reason"], "lab without RDMA");
    assert_eq!(report["rules"][0]["worst"], "fail");
    let left = report["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|f| !f["left_out"].is_null());
    let left: Vec<&Value> = left.collect();
    assert_eq!(left.len(), 2);
    assert!(
        left.iter()
            .all(|f| f["status"] == "skipped" && f["reason"] == "not-selected")
    );
    for (format, words) in [
        (
            "text",
            "ignored: env:UCX_TLS (--ignore: lab without RDMA), 2 findings, the gravest fail",
        ),
        ("markdown", "lab without RDMA"),
        ("github", "::notice title=left out::ignored: env:UCX_TLS"),
        ("junit", "lab without RDMA"),
        ("sarif", "lab without RDMA"),
    ] {
        let said = text(&run_in(folder, &[&args[..], &["-o", format]].concat()));
        assert!(said.contains(words), "{format}: {said}");
    }
    // Proven by a transfer, and still not trusted where a part of the proof was left out.
    let bundle = here().join("demo/healthy/bundle.json");
    let recording = folder.join("healthy");
    std::fs::create_dir(&recording).unwrap();
    std::fs::copy(bundle, recording.join("bundle.json")).unwrap();
    let check = |more: &[&str]| {
        json(&run_in(
            folder,
            &[&["check", "--from", "healthy"], more].concat(),
        ))["trust"]
            .clone()
    };
    assert_eq!(check(&[]), "trusted");
    assert_eq!(check(&["--ignore", "RDMA001=r"]), "unproven");
    assert_eq!(
        check(&["--ignore", "K8S001=r"]),
        "unproven",
        "a supporting check counts, too"
    );
    assert_eq!(check(&["--only", "XFER001"]), "unproven");
}

#[test]
fn a_file_beside_the_recipe_is_found_and_is_about_nothing_else() {
    let folder = recipes();
    let folder = folder.path();
    let rule = "[[ignore]]\nid = \"ENV002\"\nreason = \"known\"\n";
    std::fs::write(folder.join("deep").join(CONFIG), rule).unwrap();
    std::fs::copy(folder.join("hostile.yaml"), folder.join("deep/fails.yaml")).unwrap();
    assert_eq!(code(folder, &["env", "deep"]), 0);
    assert_eq!(code(folder, &["env", "deep/fails.yaml"]), 0);
    assert_eq!(
        code(folder, &["env", "deep", "hostile.yaml"]),
        1,
        "the other one still fails"
    );
    assert_eq!(code(folder, &["env", "."]), 4, "broken.yaml");
    assert_eq!(
        code(&folder.join("deep"), &["env", "../hostile.yaml"]),
        0,
        "that of the current directory is about all"
    );
    std::fs::write(folder.join("other.toml"), "").unwrap();
    assert_eq!(
        code(folder, &["env", "deep", "--config", "other.toml"]),
        1,
        "a named file is the only one"
    );
    assert_eq!(code(folder, &["env", "deep", "--config", "absent.toml"]), 4);
    assert_eq!(code(folder, &["env", "deep", "--config", "."]), 4);
}

/// A file that lies further below than a person might think is named, so that nobody believes that it counts.
#[test]
fn a_file_below_the_given_directory_is_said_not_to_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let lab = folder.join("p/team/lab");
    std::fs::create_dir_all(&lab).unwrap();
    std::fs::copy(
        recipes().path().join("hostile.yaml"),
        lab.join("deploy.yaml"),
    )
    .unwrap();
    let rule = "[[ignore]]\nid = \"ENV002\"\nreason = \"known\"\n";
    std::fs::write(lab.join(CONFIG), rule).unwrap();
    let run = |paths: &[&str]| {
        let output = run_in(folder, &[&["env"], paths].concat());
        let notes = json(&output)["notes"].as_array().unwrap().clone();
        let unused = notes
            .into_iter()
            .filter(|n| n["message"].as_str().unwrap().starts_with("not used"));
        (output.status.code(), unused.collect::<Vec<Value>>())
    };
    for given in ["p", "p/", "./p", "p/team", "."] {
        let (code, unused) = run(&[given]);
        assert_eq!(code, Some(1), "{given}");
        assert_eq!(unused.len(), 1, "{given}: {unused:?}");
        let object = unused[0]["object"].as_str().unwrap();
        assert!(
            object.ends_with(&format!("lab/{CONFIG}")),
            "{given}: {object}"
        );
        assert!(
            unused[0]["message"]
                .as_str()
                .unwrap()
                .contains("as a PATH of its own")
        );
    }
    for given in [
        &["p/team/lab"][..],
        &["p", "p/team/lab"],
        &["p/team/lab/deploy.yaml"],
    ] {
        assert_eq!(run(given), (Some(0), vec![]), "{given:?}");
    }
    std::fs::write(folder.join("own.toml"), rule).unwrap();
    assert_eq!(run(&["p", "--config", "own.toml"]), (Some(0), vec![]));
    let inside = run_in(&lab, &["env", "../.."]);
    assert_eq!(inside.status.code(), Some(0));
    assert!(!json(&inside)["notes"].to_string().contains("not used"));
}

#[test]
fn mistakes_are_named_with_file_and_line() {
    let folder = recipes();
    let folder = folder.path();
    let output = run_in(folder, &["env", "fine.yaml", "--ignore", "K8S01"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(2) && said.contains("did you mean K8S001?"),
        "{said}"
    );
    assert_eq!(
        code(folder, &["env", "fine.yaml", "--only", "ENV002,nonsense"]),
        2
    );
    let rules = "[[ignore]]\nid = \"K8S01\"\nreason = \"r\"\n\n[[ignore]]\nid = \"ENV002\"\n";
    std::fs::write(folder.join(CONFIG), rules).unwrap();
    let output = run_in(folder, &["env", "hostile.yaml"]);
    let report = json(&output);
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(report["errors"][0]["object"], format!("{CONFIG}:2"));
    assert!(
        report["errors"][0]["message"]
            .as_str()
            .unwrap()
            .ends_with("did you mean K8S001?")
    );
    assert_eq!(report["errors"][1]["object"], format!("{CONFIG}:5"));
    assert_eq!(report["counts"]["fail"], 2, "nothing was left out");
}

#[test]
fn a_rule_ends_on_its_day() {
    let folder = recipes();
    let folder = folder.path();
    let rule =
        |day: &str| format!("[[ignore]]\nid = \"ENV002\"\nreason = \"r\"\nexpires = {day}\n");
    std::fs::write(folder.join(CONFIG), rule("9999-12-31")).unwrap();
    assert_eq!(code(folder, &["env", "hostile.yaml"]), 0);
    std::fs::write(folder.join(CONFIG), rule("2001-01-31")).unwrap();
    let output = run_in(folder, &["env", "hostile.yaml", "-o", "text"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output).contains("no longer ignored since 2001-01-31 is over: ENV002"),
        "{}",
        text(&output)
    );
}

/// The line that is no YAML stands as a line, with the mark under its place.
#[test]
fn an_excerpt_of_a_broken_file_keeps_its_lines() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("broken.yaml");
    std::fs::write(&path, "kind: Pod\nspec: {[\n").unwrap();
    let shown = |format: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_dynamo-interconnect-check"))
            .args(["env", path.to_str().unwrap(), "-o", format])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(4));
        String::from_utf8(output.stdout).unwrap()
    };
    let lines = |text: &str, start: &str, end: &str| {
        let (_, rest) = text.split_once(start).unwrap_or_else(|| panic!("{text}"));
        let block = rest.split_once(end).unwrap().0.to_owned();
        let lines: Vec<String> = block.lines().map(str::to_owned).collect();
        assert!(lines.len() >= 2, "{block}");
        assert_eq!(lines.last().unwrap().trim(), "^", "{block}");
    };
    lines(&shown("markdown"), "```\n", "\n```");
    lines(&shown("html"), "<pre class=\"quote\">", "</pre>");
}
