//! The GitHub Action, step by step as a runner would run it, with its downloads in a directory; and the hooks of pre-commit.

use crate::release::{VERSION, package, release, says_its_version};
use crate::{BINARY, file, has, stderr, stdout};
use serde_json::Value;
use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Output};
use tempfile::TempDir;

fn yaml(path: &str) -> Value {
    serde_saphyr::from_str(&std::fs::read_to_string(file(path)).unwrap()).unwrap()
}

/// What a runner gives to a job.
struct Runner {
    dir: TempDir,
    /// Programs that come first on the PATH.
    bin: PathBuf,
}

impl Runner {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let bin = dir.path().join("bin");
        for name in ["bin", "temp", "workspace"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        for name in ["path", "output", "summary"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        Self { dir, bin }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// A stand-in for a program of the runner.
    fn stub(&self, name: &str, script: &str) {
        let path = self.bin.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }

    /// Runs a script of the action with these inputs.
    fn step(&self, script: &str, inputs: &[(&str, &str)]) -> Output {
        let path = format!("{}:{}", self.bin.display(), std::env::var("PATH").unwrap());
        Command::new(file("packaging/action").join(script))
            .current_dir(self.path("workspace"))
            .env("PATH", path)
            .env("RUNNER_TEMP", self.path("temp"))
            .env("GITHUB_WORKSPACE", self.path("workspace"))
            .env("GITHUB_PATH", self.path("path"))
            .env("GITHUB_OUTPUT", self.path("output"))
            .env("GITHUB_STEP_SUMMARY", self.path("summary"))
            .env("REPOSITORY", "owner/name")
            .envs(inputs.iter().copied())
            .output()
            .unwrap()
    }

    fn outputs(&self) -> BTreeMap<String, String> {
        let text = self.read("output");
        text.lines()
            .map(|line| line.split_once('=').unwrap())
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }
}

/// The same binary for whatever this machine is, below a `vVERSION` as a release has it.
fn mirror() -> TempDir {
    let dist = release();
    let below = dist.path().join(format!("v{VERSION}"));
    std::fs::create_dir(&below).unwrap();
    for entry in std::fs::read_dir(dist.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            std::fs::rename(&path, below.join(path.file_name().unwrap())).unwrap();
        }
    }
    // What was packed is a script that starts the binary of the tests.
    dist
}

fn here() -> String {
    package(&format!("{}-unknown-linux-musl", std::env::consts::ARCH))
}

#[test]
fn the_action_installs_a_release_that_is_what_it_says() {
    if !has("curl", "--version", "the GitHub Action") {
        return;
    }
    let dist = mirror();
    let downloads = format!("file://{}", dist.path().display());
    let runner = Runner::new();
    let asked = runner.path("asked");
    runner.stub("gh", &format!("echo \"$@\" >'{}'", asked.display()));
    let done = runner.step("install.sh", &[("DOWNLOADS", &downloads)]);
    assert!(done.status.success(), "{}{}", stdout(&done), stderr(&done));
    let asked = std::fs::read_to_string(asked).unwrap();
    assert_eq!(
        asked,
        format!(
            "attestation verify {} --repo owner/name --signer-workflow owner/name/.github/workflows/release.yml --source-ref \
             refs/tags/v{VERSION}\n",
            here()
        )
    );
    let bin = PathBuf::from(runner.read("path").trim_end());
    says_its_version(&bin);
}

/// Whatever is not as it should be, nothing gets onto the PATH.
#[test]
fn the_action_installs_nothing_that_cannot_be_verified() {
    if !has("curl", "--version", "the GitHub Action") {
        return;
    }
    let dist = mirror();
    let sums = dist.path().join(format!("v{VERSION}")).join("SHA256SUMS");
    let good = std::fs::read_to_string(&sums).unwrap();
    let downloads = format!("file://{}", dist.path().display());
    let refused = |gh: &str, sums_now: &str, inputs: &[(&str, &str)], because: &str| {
        std::fs::write(&sums, sums_now).unwrap();
        let runner = Runner::new();
        runner.stub("gh", gh);
        let mut all = vec![("DOWNLOADS", downloads.as_str())];
        all.extend(inputs);
        let done = runner.step("install.sh", &all);
        assert_eq!(done.status.code(), Some(1), "{because}: {}", stdout(&done));
        let said = stdout(&done);
        assert!(
            said.contains("::error title=dynamo-interconnect-check::") && said.contains(because),
            "{because}: {said}{}",
            stderr(&done)
        );
        assert_eq!(runner.read("path"), "", "{because}");
    };
    let wrong: String = good
        .lines()
        .map(|line| format!("{}{}\n", "0".repeat(64), &line[64..]))
        .collect();
    refused("exit 0", &wrong, &[], "is not what SHA256SUMS");
    refused("exit 0", "", &[], "does not hold one checksum");
    let other = "1".repeat(64);
    refused(
        "exit 0",
        &good,
        &[("SHA256", &other)],
        "the input sha256 says",
    );
    refused(
        "exit 1",
        &good,
        &[],
        "has no valid attestation of the release workflow of owner/name",
    );
    for neither in ["TRUE", "yes", "False", "0", " false"] {
        let inputs = [("PROVENANCE", neither)];
        refused("exit 0", &good, &inputs, "provenance is true or false");
    }
    refused(
        "exit 0",
        &good,
        &[("VERSION", "v9.9.9")],
        "is there a release v9.9.9?",
    );
}

#[test]
fn the_action_judges_annotates_and_leaves_the_verdict_to_its_last_step() {
    let runner = Runner::new();
    symlink(BINARY, runner.bin.join("dynamo-interconnect-check")).unwrap();
    let workspace = runner.path("workspace");
    std::fs::create_dir_all(workspace.join("a b")).unwrap();
    std::fs::copy(
        file("demo/gb200-rack/deploy.yaml"),
        workspace.join("a b/bad.yaml"),
    )
    .unwrap();
    std::fs::copy(
        file("demo/healthy/deploy.yaml"),
        workspace.join("good.yaml"),
    )
    .unwrap();

    let done = runner.step("run.sh", &[("PATHS", "\n  a b\ngood.yaml  \n\n")]);
    assert!(done.status.success(), "{}{}", stdout(&done), stderr(&done));
    let outputs = runner.outputs();
    assert_eq!(outputs["exit-code"], "1");
    assert_eq!(outputs["trust"], "untrusted");
    let annotations = stdout(&done);
    assert!(annotations.contains("file=a b/bad.yaml,"), "{annotations}");
    let summary = runner.read("summary");
    assert!(summary.contains("bad.yaml"), "{summary}");
    let json = |name: &str| -> Value {
        let text = std::fs::read_to_string(&outputs[name]).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    assert_eq!(json("report")["trust"], "untrusted");
    assert_eq!(json("sarif")["version"], "2.1.0");

    let runner_of = |paths: &str, more: &[(&str, &str)]| {
        let runner = Runner::new();
        symlink(BINARY, runner.bin.join("dynamo-interconnect-check")).unwrap();
        let good = file("demo/healthy/deploy.yaml");
        std::fs::copy(good, runner.path("workspace/good.yaml")).unwrap();
        let mut inputs = vec![("PATHS", paths)];
        inputs.extend(more);
        let done = runner.step("run.sh", &inputs);
        (runner, done)
    };
    let (good, done) = runner_of("good.yaml", &[]);
    assert!(done.status.success());
    assert_eq!(good.outputs()["exit-code"], "0");
    assert_eq!(good.outputs()["trust"], "unproven");
    // An absent path is no pass.
    let (absent, done) = runner_of("absent.yaml", &[]);
    assert!(done.status.success());
    assert_eq!(absent.outputs()["exit-code"], "4");
    for (paths, more) in [
        (" \n", ("FAIL_ON", "")),
        ("good.yaml", ("FAIL_ON", "always")),
    ] {
        let (runner, done) = runner_of(paths, &[more]);
        assert_eq!(done.status.code(), Some(2), "{paths:?} {more:?}");
        assert!(stdout(&done).contains("::error "), "{}", stdout(&done));
        assert_eq!(runner.outputs(), BTreeMap::new());
    }
}

/// What the steps read is what action.yml hands them, and every input is used.
#[test]
fn the_action_hands_its_inputs_to_its_scripts() {
    let text = std::fs::read_to_string(file("action.yml")).unwrap();
    let action = yaml("action.yml");
    for name in action["inputs"].as_object().unwrap().keys() {
        assert!(
            text.contains(&format!("inputs.{name}")),
            "{name} is not used"
        );
    }
    for (name, output) in action["outputs"].as_object().unwrap() {
        let value = format!("${{{{ steps.check.outputs.{name} }}}}");
        assert_eq!(output["value"], value);
        let script = std::fs::read_to_string(file("packaging/action/run.sh")).unwrap();
        assert!(script.contains(&format!("echo \"{name}=")), "{name}");
    }
    let steps = action["runs"]["steps"].as_array().unwrap();
    for (step, script) in [(0, "install.sh"), (1, "run.sh")] {
        let run = steps[step]["run"].as_str().unwrap();
        assert_eq!(
            run,
            format!("\"$GITHUB_ACTION_PATH/packaging/action/{script}\"")
        );
        let text = std::fs::read_to_string(file("packaging/action").join(script)).unwrap();
        for name in steps[step]["env"].as_object().unwrap().keys() {
            // gh reads its token itself.
            assert!(
                name == "GH_TOKEN" || text.contains(&format!("${{{name}:")),
                "{name}"
            );
        }
    }
    // Nothing that somebody else wrote is pasted into a shell.
    for step in steps {
        assert!(!step["run"].to_string().contains("${{"), "{step}");
    }
}

/// The hooks run what they say on the files that pre-commit would hand them.
#[test]
fn the_hooks_of_pre_commit_run() {
    let hooks = yaml(".pre-commit-hooks.yaml");
    let hooks = hooks.as_array().unwrap();
    assert_eq!(hooks.len(), 2);
    for hook in hooks {
        assert_eq!(hook["types"], serde_json::json!(["yaml"]));
        let entry = hook["entry"].as_str().unwrap();
        let mut words = entry.split_whitespace();
        assert_eq!(words.next(), Some("dynamo-interconnect-check"));
        let words: Vec<&str> = words.collect();
        let run = |files: &[&str]| {
            Command::new(BINARY)
                .args(&words)
                .args(files)
                .current_dir(env!("CARGO_MANIFEST_DIR"))
                .output()
                .unwrap()
        };
        let good = run(&[
            "demo/healthy/deploy.yaml",
            "action.yml",
            "packaging/job.yaml",
        ]);
        assert_eq!(good.status.code(), Some(0), "{}", stdout(&good));
        // A commit without a worker in it has nothing to judge; what cannot be read may hold one.
        for innocent in ["action.yml", "docs/rbac.yaml", ".github/workflows/ci.yml"] {
            let done = run(&[innocent]);
            assert_eq!(done.status.code(), Some(0), "{innocent}: {}", stdout(&done));
            let said = stdout(&done);
            assert!(said.contains("so nothing was judged"), "{innocent}: {said}");
        }
        let done = run(&["absent.yaml"]);
        assert_eq!(done.status.code(), Some(4), "{}", stdout(&done));
        let bad = run(&["demo/gb200-rack/deploy.yaml"]);
        assert_eq!(bad.status.code(), Some(1));
        assert!(
            stdout(&bad).starts_with("NOT TRUSTED\n"),
            "{}",
            stdout(&bad)
        );
    }
    let languages: Vec<&str> = hooks
        .iter()
        .map(|h| h["language"].as_str().unwrap())
        .collect();
    assert_eq!(languages, ["rust", "system"]);
}
