//! What start scripts make of an environment.

use super::*;
use crate::manifest::workload::Engine;
use crate::manifest::yaml::Tree;

fn read_text(text: &str) -> (Start, Env) {
    let tree = Tree::parse(text, 0, 1).unwrap();
    let root = tree.roots().next().unwrap();
    let mut env = Env::default();
    if let Some(list) = root.get("env") {
        for e in list.items() {
            let value = Value::Text(e.word_at(&["value"]).unwrap_or_default().to_owned());
            let name = e.word_at(&["name"]).unwrap();
            env.set(name, Setting::new(value, "container.env", Range::of(e)));
        }
    }
    read(root, env)
}

#[test]
fn a_script_sets_what_it_runs_with() {
    let text = r#"
env:
- {name: UCX_TLS, value: old}
command: [/bin/bash, -lc]
args:
- |
  # export UCX_LOG_LEVEL=debug
  ulimit -l unlimited || true
  UCX_NET_DEVICES="$(nvidia-smi topo -m)"
  export UCX_NET_DEVICES
  echo "dynamic UCX_NET_DEVICES=${UCX_NET_DEVICES}"
  LOCAL=1
  UCX_TLS=rc exec python3 -m dynamo.sglang --config /etc/x.yaml --host "0.0.0.0"
"#;
    let (start, env) = read_text(text);
    assert_eq!(start.module, Some(Module::Engine(Engine::Sglang)));
    assert!(start.ulimit_memlock);
    assert_eq!(start.flags.text(&["config"]), Some("/etc/x.yaml"));
    assert_eq!(env.get("UCX_NET_DEVICES").unwrap().value, Value::Dynamic);
    assert_eq!(
        (
            env.text("UCX_TLS"),
            env.get("UCX_TLS").unwrap().from.as_str()
        ),
        (Some("rc"), "inline")
    );
    assert!(env.get("LOCAL").is_none() && env.get("UCX_LOG_LEVEL").is_none());
    let range = env.get("UCX_TLS").unwrap().range;
    assert_eq!(
        (&text[range.start..range.end], range.line),
        ("UCX_TLS=rc", 13)
    );
    let range = env.get("UCX_NET_DEVICES").unwrap().range;
    assert_eq!(
        (&text[range.start..range.end], range.line),
        ("UCX_NET_DEVICES", 9)
    );
}

#[test]
fn a_folded_script_is_one_line() {
    let text = "command: [sh, -c]\nargs:\n- >-\n  ulimit -l unlimited\n  X=0 \\\n  python -m dynamo.vllm \\\n  --disaggregation-mode pd\n";
    let (start, _) = read_text(text);
    assert_eq!(start.flags.text(&["disaggregation-mode"]), Some("pd"));
    assert!(start.ulimit_memlock);
}

#[test]
fn references_to_the_environment() {
    let text = "env: [{name: C, value: '{\"a\": 1}'}]\ncommand: [python3, -m, dynamo.vllm]\nargs: [--x=$(C), --y=$(D)]\n";
    let (start, _) = read_text(text);
    assert_eq!(start.flags.text(&["x"]), Some("{\"a\": 1}"));
    assert_eq!(start.flags.text(&["y"]), None);
    let text =
        "env: [{name: C, value: v}]\ncommand: [sh, -c, 'vllm serve m --x \"${C}\" --y=${D:-w}']\n";
    let (start, _) = read_text(text);
    assert_eq!(
        (start.flags.text(&["x"]), start.flags.text(&["y"])),
        (Some("v"), Some("w"))
    );
}

#[test]
fn what_may_not_run_is_dynamic() {
    let text = "command: [sh, -c]\nargs: ['if [ $A ]; then export UCX_TLS=tcp; fi; exec python3 -m dynamo.vllm']\n";
    let (_, env) = read_text(text);
    assert_eq!(env.get("UCX_TLS").unwrap().value, Value::Dynamic);
}

#[test]
fn shells_in_shells_and_env_in_exec_arrays() {
    let text = "command: [sh, -c]\nargs: [\"mpirun -n 2 bash -c 'export UCX_TLS=rc; python3 -m dynamo.trtllm --a 1'\"]\n";
    let (start, env) = read_text(text);
    assert_eq!(
        (start.flags.text(&["a"]), env.text("UCX_TLS")),
        (Some("1"), Some("rc"))
    );
    let text = "command: [env, UCX_TLS=rc, python3, -m, dynamo.vllm]\n";
    let (start, env) = read_text(text);
    assert_eq!(
        (start.module.is_some(), env.text("UCX_TLS")),
        (true, Some("rc"))
    );
}

/// What a container with this script and these variables ends up with, in a few words: `tcp`, `?` where only the
/// running container knows, `-` where it is unset.
fn ends_with(variables: &[(&str, &str)], script: &str) -> String {
    let env: Vec<String> = variables
        .iter()
        .map(|(name, value)| format!("{{name: {name}, value: {value:?}}}"))
        .collect();
    let text = format!(
        "env: [{}]\ncommand: [bash, -c]\nargs: [{script:?}]\n",
        env.join(", ")
    );
    shown(&read_text(&text).1)
}

fn shown(env: &Env) -> String {
    match env.get("UCX_TLS") {
        None => "-".to_owned(),
        Some(setting) if setting.foreign => "?".to_owned(),
        Some(setting) => setting.text().unwrap_or("?").to_owned(),
    }
}

const RUN: &str = "exec python3 -m dynamo.vllm";

#[test]
fn kubernetes_replaces_before_the_shell_reads() {
    for (script, expected) in [
        ("export UCX_TLS='$(UCX_LOG_LEVEL)'; RUN", "info"),
        ("export UCX_TLS=$(UCX_LOG_LEVEL); RUN", "info"),
        ("export UCX_TLS='$(UNKNOWN)'; RUN", "?"),
        (
            "export UCX_TLS='$$(UCX_LOG_LEVEL)'; RUN",
            "$(UCX_LOG_LEVEL)",
        ),
        ("export UCX_TLS=$$(UCX_LOG_LEVEL); RUN", "?"),
        ("export UCX_TLS=$$UCX_LOG_LEVEL; RUN", "info"),
        // What the container was given, not what the script makes of it.
        (
            "export UCX_LOG_LEVEL=x; export UCX_TLS=$(UCX_LOG_LEVEL); RUN",
            "info",
        ),
        ("bash -c 'export UCX_TLS=$(UCX_LOG_LEVEL); RUN'", "info"),
    ] {
        let script = script.replace("RUN", RUN);
        assert_eq!(
            ends_with(&[("UCX_LOG_LEVEL", "info")], &script),
            expected,
            "{script}"
        );
    }
}

#[test]
fn every_way_to_set_a_variable() {
    for (script, expected) in [
        ("eval 'export UCX_TLS=tcp'; RUN", "tcp"),
        ("eval export UCX_TLS=$UCX_LOG_LEVEL; RUN", "info"),
        ("X='export UCX_TLS=tcp'; eval \"$X\"; RUN", "?"),
        ("bash <<'EOF'\nexport UCX_TLS=tcp\nRUN\nEOF\n", "tcp"),
        ("cat <<EOF | bash\nexport UCX_TLS=tcp\nEOF\nRUN", "-"),
        ("cat <<EOF\nexport UCX_TLS=tcp\nEOF\nRUN", "-"),
        (": ${UCX_TLS:=tcp}; export UCX_TLS; RUN", "tcp"),
        ("export UCX_TLS; : ${UCX_TLS=tcp}; RUN", "tcp"),
        ("export UCX_TLS; UCX_TLS=tcp; RUN", "tcp"),
        ("export UCX_TLS=rc; export UCX_TLS+=,tcp; RUN", "rc,tcp"),
        ("UCX_TLS+=tcp; export UCX_TLS; RUN", "tcp"),
        ("set -a; UCX_TLS=tcp; set +a; RUN", "tcp"),
        ("set -o allexport; UCX_TLS=tcp; RUN", "tcp"),
        ("declare -x UCX_TLS=tcp; RUN", "tcp"),
        ("export UCX_TLS=$'tcp'; RUN", "tcp"),
        ("export UCX_TLS=(tcp rc); RUN", "?"),
        ("read UCX_TLS < f; export UCX_TLS; RUN", "?"),
        ("printf -v UCX_TLS x; export UCX_TLS; RUN", "?"),
        ("env -S 'UCX_TLS=tcp RUN'", "tcp"),
        ("numactl -N 0 env UCX_TLS=tcp RUN", "tcp"),
        ("UCX_TLS=tcp env bash -c 'RUN'", "tcp"),
        ("mpirun -x UCX_TLS=tcp RUN", "tcp"),
        ("if x; then export UCX_TLS=tcp; fi; RUN", "?"),
        ("if x; then UCX_TLS=tcp; fi; export UCX_TLS; RUN", "?"),
        ("false && export UCX_TLS=tcp; RUN", "?"),
        ("nvidia-smi -L && export UCX_TLS=tcp; RUN", "?"),
        ("nvidia-smi -L && { export UCX_TLS=tcp; }; RUN", "?"),
        // The worker starts only if everything before it ran.
        ("nvidia-smi -L && export UCX_TLS=tcp && RUN", "tcp"),
        ("cd /x && export UCX_TLS=tcp; RUN", "tcp"),
        ("false || export UCX_TLS=tcp && RUN", "?"),
        ("if x; then UCX_TLS=rc RUN; else UCX_TLS=tcp RUN; fi", "?"),
        (
            "if x; then UCX_TLS=tcp RUN; else UCX_TLS=tcp RUN; fi",
            "tcp",
        ),
    ] {
        let script = script.replace("RUN", "python3 -m dynamo.vllm");
        assert_eq!(
            ends_with(&[("UCX_LOG_LEVEL", "info")], &script),
            expected,
            "{script}"
        );
    }
}

#[test]
fn what_never_reaches_the_worker_does_not_count() {
    for script in [
        "(export UCX_TLS=tcp); RUN",
        "export UCX_TLS=tcp | cat; RUN",
        "{ export UCX_TLS=tcp; } | cat; RUN",
        "x | while read y; do export UCX_TLS=tcp; done; RUN",
        "export UCX_TLS=tcp & RUN",
        "true && export UCX_TLS=tcp & RUN",
        "bash -c 'export UCX_TLS=tcp'; RUN",
        "UCX_TLS=tcp python3 -m dynamo.frontend & RUN",
        "UCX_TLS=tcp ls; RUN",
        "env UCX_TLS=tcp ls; RUN",
        "RUN; export UCX_TLS=tcp",
        "RUN & export UCX_TLS=tcp; wait",
        "export UCX_TLS=tcp; exec env -u UCX_TLS RUN",
        "export UCX_TLS=tcp; env -i RUN",
        "export UCX_TLS=tcp; exec -c RUN",
        "export UCX_TLS=tcp; export -n UCX_TLS; RUN",
        "export UCX_TLS=tcp; declare +x UCX_TLS; RUN",
        "export UCX_TLS=tcp; unset UCX_TLS; RUN",
        "UCX_TLS=tcp; RUN",
        "exec ./other; export UCX_TLS=tcp; RUN",
        "exit 0; export UCX_TLS=tcp; RUN",
    ] {
        let script = script.replace("RUN", "python3 -m dynamo.vllm");
        assert_eq!(ends_with(&[], &script), "-", "{script}");
    }
    // In the same process as the engine they count, wherever that is.
    for script in [
        "(export UCX_TLS=tcp; RUN)",
        "export UCX_TLS=tcp; RUN | tee log",
        "export UCX_TLS=tcp; RUN & wait",
        "bash -c 'export UCX_TLS=tcp; RUN'",
        "(exec ./other); export UCX_TLS=tcp; RUN",
        "x || exit 1; export UCX_TLS=tcp; RUN",
    ] {
        let script = script.replace("RUN", "python3 -m dynamo.vllm");
        assert_eq!(ends_with(&[], &script), "tcp", "{script}");
    }
    // Where no engine is seen, nobody knows which process is the worker.
    assert_eq!(ends_with(&[], "bash -c 'export UCX_TLS=tcp; ./serve'"), "?");
    assert_eq!(ends_with(&[], "export UCX_TLS=tcp; ./serve"), "tcp");
    assert_eq!(
        ends_with(&[], "UCX_TLS=tcp exec ./serve; export UCX_TLS=x"),
        "tcp"
    );
}

#[test]
fn defaults_keep_or_replace_an_empty_value() {
    for (expansion, empty, unset) in [
        ("${UCX_TLS-tcp}", "", "tcp"),
        ("${UCX_TLS:-tcp}", "tcp", "tcp"),
        ("${UCX_TLS=tcp}", "", "tcp"),
        ("${UCX_TLS:=tcp}", "tcp", "tcp"),
    ] {
        let script = format!("export UCX_TLS={expansion}; {RUN}");
        assert_eq!(ends_with(&[("UCX_TLS", "")], &script), empty, "{expansion}");
        assert_eq!(ends_with(&[], &script), unset, "{expansion}");
    }
}

#[test]
fn a_value_made_of_others_is_used_and_never_shown() {
    for script in [
        "export UCX_TLS=$HF_TOKEN; RUN",
        "export UCX_TLS=a$(HF_TOKEN); RUN",
        "X=$HF_TOKEN; export UCX_TLS=$X; RUN",
        "export UCX_LOG_LEVEL=$HF_TOKEN; export UCX_TLS=$UCX_LOG_LEVEL; RUN",
        "export UCX_TLS=a; UCX_TLS+=$HF_TOKEN; RUN",
        "export UCX_TLS='tcp; export T=x; RUN",
        "export UCX_TLS=\"tcp; export T=x; RUN",
    ] {
        let script = script.replace("RUN", RUN);
        assert_eq!(
            ends_with(&[("HF_TOKEN", "secret")], &script),
            "?",
            "{script}"
        );
    }
    let text = "env: [{name: P, value: /etc/x.yaml}]\ncommand: [sh, -c, 'vllm serve --config $P --host $P --tp 2']\n";
    let (start, _) = read_text(text);
    assert_eq!(start.flags.text(&["config"]), Some("/etc/x.yaml"));
    assert_eq!(start.flags.shown(&["config"]), None);
    assert_eq!(start.flags.shown(&["tp"]), Some("2"));
}

#[test]
fn exec_arrays_with_env() {
    for (argv, expected) in [
        (
            "[/usr/bin/env, -i, UCX_TLS=tcp, python3, -m, dynamo.vllm]",
            "tcp",
        ),
        ("[env, -S, 'UCX_TLS=tcp python3 -m dynamo.vllm --x']", "tcp"),
        ("[env, -u, UCX_TLS, python3, -m, dynamo.vllm]", "-"),
        ("[env, -i, python3, -m, dynamo.vllm]", "-"),
        ("[env, UCX_TLS=tcp, ./serve]", "tcp"),
        (
            "[env, UCX_TLS=tcp, bash, -c, python3 -m dynamo.vllm]",
            "tcp",
        ),
        ("[env, -i, bash, -c, python3 -m dynamo.vllm]", "-"),
        (
            "[env, UCX_TLS=$$$(UCX_LOG_LEVEL), python3, -m, dynamo.vllm]",
            "$info",
        ),
    ] {
        let text = format!(
            "env: [{{name: UCX_TLS, value: old}}, {{name: UCX_LOG_LEVEL, value: info}}]\ncommand: {argv}\n"
        );
        assert_eq!(shown(&read_text(&text).1), expected, "{argv}");
    }
}

#[test]
fn a_script_that_is_not_followed_leaves_its_variables_unknown() {
    let long = format!("export UCX_TLS=tcp\n{}", "# comment\n".repeat(40_000));
    assert_eq!(ends_with(&[("UCX_TLS", "rc")], &long), "?");
    let deep = (0..5).fold("export UCX_TLS=tcp".to_owned(), |inner, _| {
        format!(
            "bash -c \"{}\"",
            inner.replace('\\', "\\\\").replace('"', "\\\"")
        )
    });
    assert_eq!(
        ends_with(&[("UCX_TLS", "rc")], &format!("{deep}; {RUN}")),
        "?"
    );
}
