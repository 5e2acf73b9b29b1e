//! Documentation that is made from the code, and checked against it.
//!
//! `UPDATE=1 cargo test --lib docs` rewrites the files; without it a difference fails.

use crate::ask::{self, Needs};
use crate::report::{ExitCode, Report};
use crate::{catalogue, checks};
use std::fmt::Write;
use std::path::Path;

const HEAD: &str = "<!-- Made from the code by `just docs`; edits here are lost. -->\n\n";

/// Compares a generated file with the committed one, or writes it.
fn hold(path: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, text).unwrap();
        return;
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        committed == text,
        "{path} is out of date: run `UPDATE=1 cargo test --lib docs` and commit the result"
    );
}

#[test]
fn checks_page() {
    let mut out = format!(
        "{HEAD}# Checks\n\n| id | name | worst | part in trust | problem |\n|---|---|---|---|---|\n"
    );
    for c in checks::ALL {
        let anchor = c.id.to_lowercase();
        let part = format!("{:?}", c.kv_path).to_lowercase();
        let _ = writeln!(
            out,
            "| [{}](#{anchor}) | {} | {} | {part} | {} |",
            c.id,
            c.name,
            c.worst,
            c.problem()
        );
    }
    out.push_str(
        "\n`required`: a fail makes the deployment untrusted, a skip prevents trusted. `supporting`: a fail counts, a skip \
         does not. `off`: does not carry KV.\n",
    );
    for c in checks::ALL {
        let _ = write!(
            out,
            "\n<a id=\"{}\"></a>\n## {} {}\n\n",
            c.id.to_lowercase(),
            c.id,
            c.name
        );
        let _ = writeln!(out, "{}", c.documentation().replace("\n## ", "\n### "));
        let _ = writeln!(out, "\nSince {}.", c.since);
    }
    out.push_str("\n# Topics\n\nWhat else `explain` knows, first of all what no check can see.\n");
    for topic in crate::topics::ALL {
        let _ = write!(
            out,
            "\n## {}\n\n{}.\n\n{}\n",
            topic.name, topic.title, topic.text
        );
        if !topic.sources.is_empty() {
            let _ = write!(out, "\n### Sources\n{}\n", topic.sources);
        }
    }
    hold("docs/checks.md", &out);
}

#[test]
fn variables_page() {
    let mut out = format!(
        "{HEAD}# Variables\n\nThe catalogue is also the allow-list: a variable that is not here is never shown and never \
         stored. `explain VARIABLE=VALUE` judges a value.\n"
    );
    let mut owner = None;
    for v in catalogue::all() {
        if owner != Some(v.owner) {
            owner = Some(v.owner);
            let _ = write!(out, "\n## {}\n", v.owner);
        }
        let _ = write!(out, "\n### {}\n\n{}\n\n", v.name, v.meaning);
        let _ = writeln!(out, "| takes | default | source |\n|---|---|---|");
        let cell = |s: &str| s.replace('|', "\\|");
        let _ = writeln!(
            out,
            "| {} | {} | {} |",
            cell(&v.kind.to_string()),
            cell(v.default),
            cell(v.source)
        );
    }
    hold("docs/variables.md", &out);
}

/// The page that agents read: shorter than the catalogue, with the checklist and the advice that is wrong.
/// Prints the variables of a process for a ticket: the names of the catalogue and no others, as the probe does.
fn paste_env() -> String {
    const SCRIPT: &str = include_str!("docs/paste-env.sh");
    let mut names = String::new();
    let mut column = 0;
    for v in catalogue::all() {
        if column + v.name.len() > 120 {
            names.push('\n');
            column = 0;
        }
        let _ = write!(names, "{} ", v.name);
        column += v.name.len() + 1;
    }
    SCRIPT.replace("@NAMES@", &names.replace(" \n", "\n"))
}

#[test]
fn paste_env_script() {
    hold("docs/paste-env.sh", &paste_env());
}

/// Every catalogued variable arrives, and no other; of what looks like a credential the name alone, as everywhere.
#[test]
fn what_is_printed_for_a_ticket_is_what_may_be_shown() {
    use std::process::{Command, Stdio};
    let mut process = Command::new("sleep")
        .arg("60")
        .env_clear()
        .envs(catalogue::all().map(|v| (v.name, "1")))
        // The loader of the process would complain.
        .env("LD_PRELOAD", "")
        .env("NIXL_ETCD_ENDPOINTS", "http://user:hush@etcd:2379")
        .env("VLLM_API_KEY", "hush")
        .env("NCCL_OF_NO_CATALOGUE", "hush")
        .env("MULTIPLE", "a\nUCX_TLS=hush\nUCX_TLS_MORE=hush")
        .env("UCX_LOG_LEVEL", "a\nMORE=hush")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let script = |pid: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/paste-env.sh");
        let file = std::fs::File::open(path).unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-s", pid]).stdin(file).output().unwrap()
    };
    let output = script(&process.id().to_string());
    process.kill().unwrap();
    process.wait().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    for v in catalogue::all() {
        let line = match v.name {
            "NIXL_ETCD_ENDPOINTS" => "# withheld NIXL_ETCD_ENDPOINTS".to_owned(),
            "LD_PRELOAD" => "LD_PRELOAD=".to_owned(),
            "UCX_LOG_LEVEL" => "UCX_LOG_LEVEL=a MORE=hush".to_owned(),
            name => format!("{name}=1"),
        };
        assert!(text.lines().any(|l| l == line), "{line}: {text}");
    }
    assert_eq!(text.lines().count(), catalogue::all().count() + 1, "{text}");
    // A process that cannot be looked at has not said that none is set.
    let output = script("0");
    assert!(!output.status.success() && output.stdout.is_empty());
    assert!(String::from_utf8_lossy(&output.stderr).contains("/proc/0/environ"));
}

#[test]
fn skill_reference() {
    const ADVICE: &str = include_str!("docs/skill-advice.md");
    let cell = |s: &str| s.replace('|', "\\|").replace('\n', " ");
    let mut out = format!("{HEAD}# Variables and capability checklist\n\n{ADVICE}");
    out.push_str("\n## Capability checklist\n\n| check | worst | part in trust | what is wrong when it complains |\n|---|---|---|---|\n");
    for c in checks::ALL {
        let part = format!("{:?}", c.kv_path).to_lowercase();
        let problem = cell(&c.problem());
        let _ = writeln!(
            out,
            "| {} {} | {} | {part} | {problem} |",
            c.id, c.name, c.worst
        );
    }
    let mut owner = None;
    for v in catalogue::all() {
        if owner != Some(v.owner) {
            owner = Some(v.owner);
            let _ = write!(
                out,
                "\n## Variables of {}\n\n| variable | meaning | default |\n|---|---|---|\n",
                v.owner
            );
        }
        let decides = if v.critical && v.carries_kv() {
            " **decides about KV**"
        } else {
            ""
        };
        let _ = writeln!(
            out,
            "| `{}` | {}{decides} | {} |",
            v.name,
            cell(v.meaning),
            cell(v.default)
        );
    }
    hold(
        "skills/dynamo-interconnect-check/references/interconnect-env-vars.md",
        &out,
    );
}

#[test]
fn rules_page() {
    const INTRODUCTION: &str = include_str!("docs/rules-introduction.md");
    const MANIFESTS: &str = include_str!("docs/rules-manifests.md");
    let mut out = format!("{HEAD}{INTRODUCTION}");
    let mut subject = "";
    for rule in crate::judge::rules::RULES {
        if rule.subject != subject {
            subject = rule.subject;
            let _ = write!(out, "\n## {subject}\n\n| rule | |\n|---|---|\n");
        }
        let _ = writeln!(out, "| {} | {} |", rule.id, rule.text);
    }
    let _ = write!(out, "\n{MANIFESTS}");
    hold("docs/rules.md", &out);
}

#[test]
fn exit_codes_page() {
    let mut out = format!("{HEAD}# Exit codes\n\n| code | meaning |\n|---|---|\n");
    for code in ExitCode::ALL {
        let _ = writeln!(out, "| {} | {} |", code as u8, code.meaning());
    }
    out.push_str(
        "\nWhere rules meet, 2 and 4 come first, and 1 wins over 3. `--fail-on`, `--strict` and `--require-trusted` \
         change the exit code only, never a status or `trust`. With `env --allow-no-worker` an input without a Dynamo worker ends with 0. `--ignore` and `--only` make findings `skipped` (docs/formats.md). `not-applicable` with `--require-trusted` is 3. `demo` ends with 0, since it \
         reports on a recording, and so does `explain`, whatever it says of a value.\n",
    );
    hold("docs/exit-codes.md", &out);
}

#[test]
fn reads_page() {
    const INTRODUCTION: &str = "# What is read\n\n`env` reads the files and directories it is given. Beside a file that is \
        named alone it looks into the other YAML files of the same directory for the ConfigMaps and claim templates that \
        the file refers to, and for `.dynamo-interconnect-check.toml`. For a kustomization it runs `kustomize build` or `kubectl kustomize`. Every reporting command reads \
        `.dynamo-interconnect-check.toml` of the current directory, or the file that `--config` names. `explain` and `demo` read \
        nothing.\n\nInside a container or on a host, nothing but this is read; tools run only where they are installed:\n\n";
    let mut out = format!("{HEAD}{INTRODUCTION}");
    out.push_str("| id | read | when | what for |\n|---|---|---|---|\n");
    for ask in ask::ALL {
        let when = match ask.needs {
            Needs::Nothing => "always".to_owned(),
            Needs::RdmaDevice => "the kernel shows an RDMA device".to_owned(),
            Needs::RdmaDeviceWithout(files) => {
                format!("the kernel shows an RDMA device, and `{files}` cannot be read")
            }
            Needs::NoProgram(program) => format!("there is no `{program}`"),
            Needs::Worker => "always, of the worker where one was found".to_owned(),
        };
        let (id, read, why) = (ask.id, ask.shown_as, ask.why);
        let _ = writeln!(out, "| {id} | `{read}` | {when} | {why} |");
    }
    out.push_str(
        "\n## Handed in by a person\n\nNever read by the tool itself; `node --input NAME=FILE` takes them, and every read \
         above, too. FILE may be `-`, for standard input. What is pasted is judged as a worker's that moves KV; that a \
         list shows a device does not say that the worker may open it. A file that is no such output is an error, and \
         outputs that contradict each other make nothing about RDMA or the GPUs `ok`.\n\n| id | output |\n|---|---|\n",
    );
    for ask in ask::PASTED {
        let _ = writeln!(out, "| {} | `{}` |", ask.id, ask.shown_as);
    }
    hold("docs/reads.md", &out);
}

#[test]
fn explain_schema() {
    let schema = schemars::schema_for!(crate::cli::explain::Page<'static>);
    let mut out = Vec::new();
    crate::render::json::write(&mut out, &schema).unwrap();
    hold("docs/explain.schema.json", &String::from_utf8(out).unwrap());
}

#[test]
fn report_schema() {
    let schema = schemars::schema_for!(Report);
    let mut out = Vec::new();
    crate::render::json::write(&mut out, &schema).unwrap();
    hold("docs/report.schema.json", &String::from_utf8(out).unwrap());
}
