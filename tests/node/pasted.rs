//! Outputs that somebody pasted, judged without any machine.

use crate::run;
use tempfile::TempDir;

fn file(dir: &TempDir, name: &str, text: &[u8]) -> String {
    let path = dir.path().join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

const IBSTAT: &str = include_str!("../../tests/outputs/samples/ibstat.txt");

#[tokio::test]
async fn several_outputs_are_judged_and_the_rest_is_named_as_not_read() {
    let dir = TempDir::new().unwrap();
    let ibstat = format!("ibstat={}", file(&dir, "ibstat", IBSTAT.as_bytes()));
    let limit = format!("ulimit={}", file(&dir, "ulimit", b"unlimited\n"));
    let out = run(&["--input", &ibstat, "--input", &limit]).await;
    let report = out.report();
    assert!(matches!(out.code, Some(0 | 1)), "{}", out.stdout);
    let checks = report["checks"].as_array().unwrap();
    assert!(
        checks.iter().all(|c| c["name"] != "node:target"),
        "there was no target to reach"
    );
    let skipped: Vec<_> = checks.iter().filter(|c| c["status"] == "skipped").collect();
    assert!(!skipped.is_empty(), "{}", out.stdout);
    for finding in skipped {
        assert!(!finding["detail"].as_str().unwrap().is_empty());
        assert!(finding["reason"].is_string());
    }
}

#[tokio::test]
async fn names_files_and_sizes_that_are_wrong_get_their_words_and_the_others_are_judged() {
    let dir = TempDir::new().unwrap();
    let good = format!("ibstat={}", file(&dir, "ibstat", IBSTAT.as_bytes()));
    let unknown = format!("lspci={}", file(&dir, "lspci", b"x"));
    let absent = format!("topo={}/absent", dir.path().display());
    let large = dir.path().join("large");
    std::fs::File::create(&large)
        .unwrap()
        .set_len((16 << 20) + 1)
        .unwrap();
    let large = format!("dmesg={}", large.display());
    let directory = format!("lsmod={}", dir.path().display());
    let again = good.clone();
    let all = [&good, &unknown, &absent, &large, &directory, &again];
    let args: Vec<&str> = all.iter().flat_map(|a| ["--input", a.as_str()]).collect();
    let out = run(&args).await;
    assert_eq!(out.code, Some(4));
    let report = out.report();
    let errors: Vec<&str> = report["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["message"].as_str().unwrap())
        .collect();
    for words in [
        "no output is known by this name; the names are topo,",
        "no such file or directory; check the path",
        "is larger than 16 MiB",
        "Is a directory",
        "this is a second ibstat; only the first was judged",
    ] {
        assert_eq!(
            errors.iter().filter(|e| e.contains(words)).count(),
            1,
            "{words}: {errors:#?}"
        );
    }
    assert_eq!(errors.len(), 5, "{errors:#?}");
    assert!(
        !report["checks"].as_array().unwrap().is_empty(),
        "the good one is judged"
    );
}

#[tokio::test]
async fn foreign_variables_and_bytes_go_nowhere() {
    let dir = TempDir::new().unwrap();
    let env = file(
        &dir,
        "env",
        b"UCX_TLS=rc\nAWS_SECRET_ACCESS_KEY=c4n4ry\nNIXL_ETCD_ENDPOINTS=http://me:c4n4ry@e\n",
    );
    let bytes = file(&dir, "dmesg", b"\xff\xfe\x1b[2Jmlx5_core\n");
    let saved = dir.path().join("saved");
    let (env, bytes) = (format!("env={env}"), format!("dmesg={bytes}"));
    let save = saved.to_str().unwrap();
    let out = run(&["--input", &env, "--input", &bytes, "--save", save]).await;
    let bundle = std::fs::read_to_string(saved.join("bundle.json")).unwrap();
    assert!(bundle.contains("UCX_TLS=rc"));
    for text in [&out.stdout, &out.stderr, &bundle] {
        assert!(!text.contains("c4n4ry"), "{text}");
    }
    assert!(!out.stdout.contains('\u{1b}'));
}

#[tokio::test]
async fn variables_as_a_shell_lists_them_are_judged_without_its_quotes() {
    let dir = TempDir::new().unwrap();
    for listed in [
        "export UCX_TLS=\"tcp\"\nexport HOME=\"/root\"\n",
        "export UCX_TLS='tcp'\n",
        "declare -x OLDPWD\ndeclare -x UCX_TLS=\"tcp\"\n",
    ] {
        let input = format!("env={}", file(&dir, "env", listed.as_bytes()));
        let report = run(&["--input", &input]).await.report();
        let checks = report["checks"].as_array().unwrap();
        let said = checks.iter().find(|c| c["name"] == "env:UCX_TLS").unwrap();
        assert_eq!(said["status"], "fail", "{said}");
        let detail = said["detail"].as_str().unwrap();
        assert!(detail.starts_with("UCX_TLS=tcp: "), "{detail}");
    }
}

/// The errors of a run, as `object: message`.
fn errors(out: &crate::Run) -> Vec<String> {
    let report = out.report();
    let text = |e: &serde_json::Value, key: &str| e[key].as_str().unwrap().to_owned();
    let all = report["errors"].as_array().unwrap().iter();
    all.map(|e| format!("{}: {}", text(e, "object"), text(e, "message")))
        .collect()
}

#[tokio::test]
async fn a_file_of_the_wrong_kind_is_an_error_and_no_reading() {
    let dir = TempDir::new().unwrap();
    let ibstat = file(&dir, "ibstat.txt", IBSTAT.as_bytes());
    let empty = file(&dir, "empty.txt", b"\n");
    for name in [
        "env",
        "lsmod",
        "uname",
        "memlock",
        "dmesg",
        "topo",
        "smi-q",
        "ucx_info -d",
        "ucx",
        "nccl",
        "ip",
        "show_gids",
        "df",
        "pip",
    ] {
        for (path, words) in [
            (&ibstat, "it reads like --input ibstat=FILE"),
            (&empty, "is empty"),
        ] {
            let out = run(&["--input", &format!("{name}={path}")]).await;
            if name == "env" && path == &empty {
                // What is left of an environment without any transport variable.
                assert_eq!(out.code, Some(0), "{}", out.stdout);
                assert!(
                    out.stdout
                        .contains("none of the catalogued variables is set, so the defaults")
                );
                continue;
            }
            assert_eq!(out.code, Some(4), "{name} {path}: {}", out.stdout);
            let said = errors(&out);
            assert!(
                said.len() == 1 && said[0].starts_with(path) && said[0].contains(words),
                "{name}: {said:?}"
            );
            let report = out.report();
            assert!(report["checks"].as_array().unwrap().is_empty(), "{name}");
        }
    }
}

#[tokio::test]
async fn what_was_pasted_and_settles_nothing_is_said_with_its_reason() {
    let dir = TempDir::new().unwrap();
    for (name, text, words) in [
        (
            "ibstat",
            "bash: ibstat: command not found\n",
            "ibstat: command not found",
        ),
        (
            "ucx-info-devices",
            "sh: ucx_info: not found\n",
            "ucx_info: not found",
        ),
        (
            "dmesg",
            "dmesg: read kernel buffer failed: Operation not permitted\n",
            "read kernel buffer failed",
        ),
        (
            "dmesg",
            "[ 1.0] mlx5_core 0000:1a:00.0: it failed\n",
            "proves nothing",
        ),
        (
            "show_gids",
            "mlx5_0 1 3 0000:0000:0000:0000:0000:ffff:0a00:0001 10.0.0.1 v2 eth2\nn_gids_found=9\n",
            "show_gids is cut",
        ),
        (
            "ibdev2netdev",
            "mlx5_0 port 1 ==> ib0 (Down)\n",
            "the interface ib0 of mlx5_0 is down",
        ),
    ] {
        let input = format!("{name}={}", file(&dir, "text", text.as_bytes()));
        let out = run(&["-o", "text", "--input", &input]).await;
        let flat = out.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        // Nothing was judged, and that is no pass.
        assert_eq!(out.code, Some(1), "{name}: {}", out.stdout);
        let (_, said) = flat
            .split_once("Read and not conclusive")
            .unwrap_or_else(|| panic!("{name}: {flat}"));
        assert!(said.contains(words), "{name}: {}", out.stdout);
        assert!(!flat.contains("harmless"), "{}", out.stdout);
    }
    let mismatch = "Failed to initialize NVML: Driver/library version mismatch\n";
    let input = format!("smi-q={}", file(&dir, "text", mismatch.as_bytes()));
    let out = run(&["-o", "text", "--input", &input]).await;
    assert!(
        out.stdout.contains("driver-versions-differ"),
        "{}",
        out.stdout
    );
    assert!(
        out.stdout.contains("fix: reload the kernel module"),
        "{}",
        out.stdout
    );
}

#[tokio::test]
async fn what_is_skipped_names_the_output_that_answers_it() {
    let dir = TempDir::new().unwrap();
    let limit = format!("ulimit={}", file(&dir, "ulimit", b"unlimited\n"));
    let report = run(&["--input", &limit]).await.report();
    let detail = |name: &str| {
        let checks = report["checks"].as_array().unwrap();
        let check = checks.iter().find(|c| c["name"] == name).unwrap();
        check["detail"].as_str().unwrap().to_owned()
    };
    for (name, input) in [
        ("ib-link", "--input ibv-devinfo=FILE"),
        ("gpu-topology", "--input smi-q=FILE"),
        ("live-variable", "--input env=FILE"),
        ("ucx-without-cuda", "--input ucx-info-devices=FILE"),
        ("gpudirect-peermem", "--input lsmod=FILE"),
    ] {
        assert!(detail(name).contains(input), "{name}: {}", detail(name));
    }
    let text = run(&["-o", "text", "--input", &limit]).await.stdout;
    assert!(
        !text.contains("not read by this command") && !text.contains("/sys/class"),
        "{text}"
    );
    assert!(
        text.contains("memlock-limited: RLIMIT_MEMLOCK of the shell that printed it is unlimited")
    );
    assert!(
        text.contains("need more than was pasted: add --input"),
        "{text}"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn standard_input_holds_one_output_and_a_named_pipe_is_not_waited_for() {
    use std::process::Stdio;
    use tokio::io::AsyncWriteExt;
    let dir = TempDir::new().unwrap();
    let mut child = crate::command()
        .args(["--input", "ibstat=-", "--input", "lsmod=-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(IBSTAT.as_bytes()).await.unwrap();
    drop(stdin);
    let output = child.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(4));
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(
        stdout.contains("standard input holds one output"),
        "{stdout}"
    );
    assert!(
        stdout.contains("\"RDMA002\""),
        "the first is judged: {stdout}"
    );

    let pipe = dir.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let out = run(&["--input", &format!("ibstat={}", pipe.display())]).await;
    assert_eq!(out.code, Some(4));
    assert!(out.took < std::time::Duration::from_secs(60));
    let said = errors(&out);
    assert!(
        said[0].contains("is no regular file and was not read"),
        "{said:?}"
    );
}
