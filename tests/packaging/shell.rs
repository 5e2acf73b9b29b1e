//! Completions in real shells, manual pages in a real reader, and the tool as a plugin of the real kubectl.

use crate::{BINARY, has, stderr, stdout, tool};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// What bash offers for this line, the last word of which is being typed.
fn completed(script: &Path, line: &[&str]) -> Vec<String> {
    let last = line.len() - 1;
    let program = format!(
        "source \"$1\"; shift\nspec=$(complete -p \"$1\"); function=${{spec#*-F }}; function=${{function%% *}}\n\
         COMP_WORDS=(\"$@\"); COMP_CWORD={last}\n\"$function\" \"$1\" \"${{COMP_WORDS[{last}]}}\" \"${{COMP_WORDS[{}]}}\"\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        last - 1
    );
    let output = Command::new("bash")
        .args(["--norc", "-c", &program, "bash"])
        .arg(script)
        .args(line)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output).lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_values() {
    let dir = TempDir::new().unwrap();
    let script = dir.path().join("completion.bash");
    std::fs::write(&script, tool(&["completions", "bash"])).unwrap();
    let name = "dynamo-interconnect-check";
    assert_eq!(completed(&script, &[name, "ch"]), ["check"]);
    let options = completed(&script, &[name, "check", "--re"]);
    assert_eq!(options, ["--recipe", "--require-trusted"]);
    // What a command refuses and its help hides is not offered.
    for (command, offered) in [
        ("env", false),
        ("node", false),
        ("nixl", true),
        ("check", true),
    ] {
        let options = completed(&script, &[name, command, "--require"]);
        assert_eq!(!options.iter().all(String::is_empty), offered, "{command}");
    }
    // Nothing of our own: bash completes names of files, also with blanks.
    assert_eq!(completed(&script, &[name, "env", ""]), [""]);
    assert!(completed(&script, &[name, "env", "-"]).contains(&"--strict".to_owned()));
    let blank = dir.path().join("a b.toml");
    std::fs::write(&blank, "").unwrap();
    let typed = dir.path().join("a").to_str().unwrap().to_owned();
    assert_eq!(
        completed(&script, &[name, "env", "--config", &typed]),
        [blank.to_str().unwrap()]
    );
    let formats = completed(&script, &[name, "env", "-o", ""]);
    assert!(formats.contains(&"sarif".to_owned()), "{formats:?}");
    assert_eq!(
        completed(&script, &[name, "demo", "heal"]),
        ["healthy"],
        "recordings have names"
    );
}

#[test]
fn other_shells_read_their_completions() {
    let dir = TempDir::new().unwrap();
    for (shell, check) in [("zsh", "--no-exec"), ("fish", "--no-execute")] {
        let script = dir.path().join(shell);
        std::fs::write(&script, tool(&["completions", shell])).unwrap();
        if !has(shell, "--version", &format!("the completions of {shell}")) {
            continue;
        }
        let output = Command::new(shell)
            .arg(check)
            .arg(&script)
            .output()
            .unwrap();
        assert!(output.status.success(), "{shell}: {}", stderr(&output));
    }
    if has("fish", "--version", "the completions of fish") {
        let offered = |typed: &str| {
            let line =
                "source $argv[1]; complete --do-complete \"dynamo-interconnect-check $argv[2]\"";
            let output = Command::new("fish")
                .args(["--no-config", "-c", line])
                .arg(dir.path().join("fish"))
                .arg(typed)
                .current_dir(dir.path())
                .env("HOME", dir.path())
                .output()
                .unwrap();
            stdout(&output)
        };
        assert!(offered("ch").starts_with("check\t"), "{}", offered("ch"));
        assert!(
            offered("demo ").contains("gb200-rack"),
            "{}",
            offered("demo ")
        );
        assert!(
            offered("completions ").contains("elvish"),
            "{}",
            offered("completions ")
        );
        for no_files in ["demo ", "completions ", "node --pod ", "node ", "explain "] {
            assert!(!offered(no_files).contains("zsh\n/"), "{no_files}");
            let all = offered(no_files);
            assert!(
                !all.lines()
                    .any(|l| l == "fish" && no_files != "completions "),
                "{no_files}: {all}"
            );
        }
        assert!(
            offered("env ").lines().any(|l| l == "fish"),
            "{}",
            offered("env ")
        );
        assert!(!offered("env --require").contains("trusted"));
    }
}

#[test]
fn every_command_has_a_manual_page_that_a_reader_accepts() {
    let dir = TempDir::new().unwrap();
    tool(&["man", dir.path().to_str().unwrap()]);
    let mut pages: Vec<_> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    pages.sort();
    let names: Vec<String> = pages
        .iter()
        .map(|p| p.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    for command in ["", "-env", "-node", "-nixl", "-check", "-explain", "-demo"] {
        let page = format!("dynamo-interconnect-check{command}.1");
        assert!(names.contains(&page), "{page} is not in {names:?}");
    }
    assert_eq!(
        tool(&["man"]),
        std::fs::read_to_string(dir.path().join("dynamo-interconnect-check.1")).unwrap()
    );
    if has("mandoc", "-V", "checking manual pages") {
        // Style is about the source, which nobody reads.
        let output = Command::new("mandoc")
            .args(["-T", "lint", "-W", "error"])
            .args(&pages)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stdout(&output));
    }
    for page in &pages {
        let text = std::fs::read_to_string(page).unwrap();
        let head = text.lines().find(|l| l.starts_with(".TH ")).unwrap();
        let foot = format!(
            "\"dynamo-interconnect-check {}\"",
            env!("CARGO_PKG_VERSION")
        );
        assert!(head.contains(&foot), "{head}");
    }
    if has("man", "--version", "reading manual pages") {
        for page in &pages {
            let output = Command::new("man")
                .args(["--warnings", "-l"])
                .arg(page)
                .env("MANWIDTH", "80")
                .env("MANPAGER", "cat")
                .env("LC_ALL", "C")
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", stderr(&output));
            let text = stdout(&output);
            assert!(text.contains("SYNOPSIS"), "{}: {text}", page.display());
            // Left, middle and right of the head stand apart.
            let head = text.lines().find(|l| !l.is_empty()).unwrap();
            let title = "dynamo-interconnect-check(1)";
            assert_eq!(head.matches(title).count(), 2, "{head}");
            let middle = head.trim_matches(' ');
            let middle = middle
                .strip_prefix(title)
                .and_then(|m| m.strip_suffix(title));
            let foot = text.lines().rfind(|l| !l.is_empty()).unwrap();
            let version = concat!("dynamo-interconnect-check ", env!("CARGO_PKG_VERSION"));
            assert!(foot.starts_with(version), "{foot}");
            assert!(
                middle.is_some_and(|m| m.starts_with(' ') && m.ends_with(' ')),
                "{head}"
            );
        }
    }
}

#[test]
fn manual_pages_go_into_a_directory_that_is_there_and_nowhere_else() {
    let output = Command::new(BINARY)
        .args(["man", "/nonexistent/pages"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(4));
    let said = stderr(&output);
    assert!(
        said.contains("/nonexistent/pages; name an existing directory"),
        "{said}"
    );
}

/// Under the name of a plugin, help shows what can be typed; under any other name it is as ever.
#[test]
fn kubectl_runs_it_as_a_plugin_and_help_names_what_to_type() {
    let dir = TempDir::new().unwrap();
    let plugin = dir.path().join("kubectl-dynamo_interconnect_check");
    symlink(BINARY, &plugin).unwrap();
    let usage = |command: &mut Command| {
        let output = command.arg("env").output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
        let text = stderr(&output);
        let line = text.lines().find(|l| l.starts_with("Usage: "));
        line.unwrap().to_owned()
    };
    let as_plugin = "Usage: kubectl dynamo-interconnect-check env <PATH>...";
    assert_eq!(usage(&mut Command::new(&plugin)), as_plugin);
    assert_eq!(
        usage(&mut Command::new(BINARY)),
        "Usage: dynamo-interconnect-check env <PATH>..."
    );
    if !has("kubectl", "--help", "the plugin of kubectl") {
        return;
    }
    let path = format!(
        "{}:{}",
        dir.path().display(),
        std::env::var("PATH").unwrap()
    );
    let mut kubectl = Command::new("kubectl");
    kubectl.arg("dynamo-interconnect-check").env("PATH", &path);
    assert_eq!(usage(&mut kubectl), as_plugin);
    let listed = Command::new("kubectl")
        .args(["plugin", "list", "--name-only"])
        .env("PATH", &path)
        .output()
        .unwrap();
    assert!(
        stdout(&listed).contains("kubectl-dynamo_interconnect_check"),
        "{}",
        stdout(&listed)
    );
}
