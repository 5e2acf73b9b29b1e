//! What the script reads from whole machines, the same under every shell.

use crate::machine::machine;
use crate::shells::shells;
use crate::{NONCE, VARIABLES, collect, script, shown};
use dynamo_interconnect_check::ask::{self, Ask, Kind, Needs};
use dynamo_interconnect_check::probe::local;
use dynamo_interconnect_check::probe::script::{Options, Script};
use dynamo_interconnect_check::snapshot::{Answer, Snapshot};
use std::process::Stdio;
use std::time::Duration;

/// Asks whose answers depend only on the tree.
fn of_files() -> Vec<&'static Ask> {
    ask::ALL
        .iter()
        .copied()
        .filter(|ask| !matches!(ask.kind, Kind::Tool { .. }) && ask.id != ask::TEST_TOOLS.id)
        .collect()
}

/// Reads a machine under every shell; the answers must not differ.
fn read(name: &str, asks: &[&'static Ask]) -> Snapshot {
    let root = machine(name);
    let script = script(asks, &root);
    let mut all: Vec<(&str, Snapshot)> = Vec::new();
    for shell in shells() {
        // Whether `ip` is there must not depend on the machine that runs the test.
        shell.tool("ip", "exit 0");
        all.push((shell.name, collect(&shell, &script)));
        shell.assert_nothing_left_within(Duration::from_secs(60));
    }
    let (_, first) = all.swap_remove(0);
    for (shell, other) in all {
        assert_eq!(shown(&first), shown(&other), "{shell}");
    }
    first
}

fn text<'a>(snapshot: &'a Snapshot, ask: &Ask) -> &'a str {
    snapshot
        .text(ask)
        .unwrap_or_else(|skip| panic!("{}: {skip:?}", ask.id))
}

#[test]
fn a_machine_with_eight_hcas_of_which_two_were_granted() {
    let snapshot = read("hgx-h100", &of_files());
    assert_eq!(text(&snapshot, &ask::RDMA_DEVICES).lines().count(), 8);
    assert_eq!(text(&snapshot, &ask::RDMA_PORTS).lines().count(), 8 * 7);
    assert!(
        text(&snapshot, &ask::RDMA_PORTS)
            .contains("/sys/class/infiniband/mlx5_3/ports/1/rate: 400 Gb/sec (4X NDR)\n")
    );
    assert_eq!(text(&snapshot, &ask::RDMA_UVERBS).lines().count(), 8);
    let only_first: Vec<_> = shown(&snapshot)
        .lines()
        .filter(|line| {
            ![
                "mlx5_1", "mlx5_2", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_7",
            ]
            .iter()
            .any(|d| line.contains(d))
        })
        .map(str::to_owned)
        .collect();
    insta::assert_snapshot!(only_first.join("\n"));
}

#[test]
fn nothing_but_what_is_catalogued_leaves_the_container() {
    let root = machine("hgx-h100");
    let script = script(ask::ALL, &root);
    for shell in shells() {
        let run = local::run(shell.command(), &script.text, Duration::from_secs(25));
        let out = format!("{}\n{}", String::from_utf8_lossy(&run.stdout), run.stderr);
        assert!(out.contains("UCX_TLS=rc,cuda_copy\n"), "{}", shell.name);
        let leaked: Vec<_> = out.lines().filter(|line| line.contains("canary")).collect();
        assert!(leaked.is_empty(), "{}: {leaked:#?}", shell.name);
    }
}

#[test]
fn soft_roce_with_a_thousand_empty_slots() {
    let snapshot = read(
        "rxe",
        &[
            &ask::RDMA_ATTRIBUTES,
            &ask::RDMA_PCI,
            &ask::RDMA_GIDS,
            &ask::RDMA_COUNTERS,
            &ask::RDMA_HW_COUNTERS,
            &ask::DEV_INFINIBAND,
            &ask::DEV_INFINIBAND_OPEN,
            &ask::MODULE_VERSIONS,
        ],
    );
    insta::assert_snapshot!(shown(&snapshot));
}

#[test]
fn efa_devices() {
    let snapshot = read(
        "efa",
        &[
            &ask::RDMA_ATTRIBUTES,
            &ask::RDMA_PCI,
            &ask::RDMA_PORTS,
            &ask::RDMA_GIDS,
            &ask::RDMA_HW_COUNTERS,
            &ask::RDMA_UVERBS,
            &ask::DEV_INFINIBAND_OPEN,
            &ask::MODULE_VERSIONS,
        ],
    );
    insta::assert_snapshot!(shown(&snapshot));
}

#[test]
fn a_machine_without_rdma_answers_with_nothing_where_it_could_be_looked() {
    let snapshot = read("bare", &of_files());
    assert_eq!(text(&snapshot, &ask::RDMA_DEVICES), "");
    assert_eq!(text(&snapshot, &ask::DEV_INFINIBAND), "");
    insta::assert_snapshot!(shown(&snapshot));
}

#[test]
fn a_root_without_anything_answers_nothing_but_that() {
    let root = crate::machine::Scratch::new();
    for shell in shells() {
        let snapshot = collect(&shell, &script(&of_files(), &root));
        let answered: Vec<_> = snapshot
            .answers
            .iter()
            .filter(|(_, answer)| matches!(answer, Answer::Text(_)))
            .collect();
        // Packages and settings are looked for in many places, of which none needs to be there.
        let ids: Vec<_> = answered.iter().map(|(id, _)| id.as_str()).collect();
        let searches = [
            "nccl-settings",
            "nixl-plugins",
            "python-packages",
            "ucx-libraries",
            "ucx-settings",
        ];
        assert_eq!(ids, searches, "{}", shell.name);
    }
}

#[test]
fn tools_of_rdma_are_not_started_where_there_is_no_rdma() {
    let root = machine("bare");
    for shell in shells() {
        for tool in ["ibv_devinfo", "ibstat", "rdma", "fi_info"] {
            shell.tool(tool, "echo started >\"$HOME/started\"");
        }
        let snapshot = collect(&shell, &script(ask::ALL, &root));
        assert!(
            !shell.bin().path().join("started").exists(),
            "{}",
            shell.name
        );
        let of_rdma = |ask: &&&Ask| {
            let without = matches!(ask.needs, Needs::RdmaDeviceWithout(_));
            without || ask.needs == Needs::RdmaDevice
        };
        for ask in ask::ALL.iter().filter(of_rdma) {
            let skip = snapshot.text(ask).unwrap_err();
            assert_eq!(
                skip.reason.word(),
                "not-applicable",
                "{}: {}",
                ask.id,
                skip.detail
            );
        }
    }
}

#[test]
fn a_script_cut_off_anywhere_runs_nothing() {
    let root = machine("bare");
    let text = script(ask::ALL, &root).text;
    let end = text.rfind("__dic_main; exit 0").unwrap() + "__dic_main".len();
    let cuts = (0..end).filter(|at| at % 331 == 0 || at + 30 > end);
    for shell in shells() {
        // A tool for every first word that a cut could make of the text would be too many: these are the real ones.
        for tool in [
            "head",
            "grep",
            "uname",
            "df",
            "nvidia-smi",
            "setsid",
            "sleep",
        ] {
            shell.tool(tool, "echo started");
        }
        for at in cuts.clone() {
            let mut command = shell.command();
            let run = local::run(
                std::mem::replace(&mut command, shell.command()),
                &text[..at],
                Duration::from_secs(20),
            );
            assert!(
                run.stdout.is_empty(),
                "{} at {at}: {:?}",
                shell.name,
                String::from_utf8_lossy(&run.stdout)
            );
        }
        shell.assert_nothing_left_within(Duration::from_secs(60));
    }
}

#[test]
fn nothing_is_written() {
    let Some(strace) = crate::shells::which("strace") else {
        crate::shells::skipped(
            "strace is not installed, so it was not shown that nothing is written",
        );
        return;
    };
    let root = machine("hgx-h100");
    let text = script(ask::ALL, &root).text;
    for shell in shells() {
        shell.tool("nvidia-smi", "echo GPU");
        let before = (root.listing(), shell.bin().listing());
        let mut traced = std::process::Command::new(&strace);
        let own = shell.command();
        traced.args([
            "-f",
            "-qq",
            "-e",
            "trace=openat,open,creat,unlink,unlinkat,rename,renameat,mkdir,mkdirat,truncate",
        ]);
        traced
            .arg("-e")
            .arg("signal=none")
            .arg(own.get_program())
            .arg("-s")
            .stdin(Stdio::piped());
        traced.env_clear().envs(
            own.get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        let run = local_output(traced, &text);
        let (root_now, bin_now) = (root.listing(), shell.bin().listing());
        assert_eq!(before, (root_now, bin_now), "{}", shell.name);
        let written: Vec<_> = run
            .lines()
            .filter(|line| {
                let opens_to_write = line.contains("O_WRONLY")
                    || line.contains("O_RDWR")
                    || line.contains("O_CREAT");
                let changes = ["creat(", "unlink", "rename", "mkdir", "truncate("]
                    .iter()
                    .any(|call| line.contains(call));
                (opens_to_write || changes)
                    && !line.contains("/dev/null")
                    && !line.contains("/dev/tty")
                    && !line.contains("/dev/infiniband/")
            })
            .collect();
        assert!(
            run.contains("openat("),
            "{}: strace showed nothing: {run}",
            shell.name
        );
        assert!(written.is_empty(), "{}: {written:#?}", shell.name);
    }
}

/// What strace says about a run.
fn local_output(mut command: std::process::Command, text: &str) -> String {
    use std::io::Write as _;
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    String::from_utf8_lossy(&child.wait_with_output().unwrap().stderr).into_owned()
}

#[test]
fn without_catalogued_names_no_variable_leaves() {
    let root = machine("hgx-h100");
    let options = Options {
        variables: &[],
        nonce: NONCE,
        deadline: Duration::from_secs(20),
        root: root.path().to_str().unwrap(),
    };
    let script = Script::new(&[&ask::ENVIRONMENT, &ask::UCX_SETTINGS], &options).unwrap();
    for shell in shells() {
        let snapshot = collect(&shell, &script);
        assert_eq!(
            text(&snapshot, &ask::ENVIRONMENT),
            "# process 27 dynamo.vllm\n"
        );
        assert_eq!(
            text(&snapshot, &ask::UCX_SETTINGS),
            "/etc/ucx/ucx.conf: present\n/etc/ucx/ucx.conf: [AMD]\n"
        );
    }
    assert!(!VARIABLES.is_empty());
}

/// JSON over several lines is what it is on one line; in any other value a line break is shown, and makes no variable.
#[test]
fn values_of_several_lines_stay_one_value() {
    for shell in shells() {
        let root = machine("bare");
        let process = root.path().join("proc/9");
        std::fs::create_dir_all(&process).unwrap();
        std::fs::write(process.join("cmdline"), "python3\0-m\0dynamo.vllm\0").unwrap();
        let environ = "KV_TRANSFER_CONFIG={\n \"kv_connector\": \"NixlConnector\"\n}\n\0UCX_TLS=rc\nUCX_NET_DEVICES=x\0";
        std::fs::write(process.join("environ"), environ).unwrap();
        let snapshot = collect(&shell, &script(&[&ask::ENVIRONMENT], &root));
        assert_eq!(
            text(&snapshot, &ask::ENVIRONMENT),
            "# process 9 dynamo.vllm\nKV_TRANSFER_CONFIG={  \"kv_connector\": \"NixlConnector\" }\nUCX_TLS=rc\\nUCX_NET_DEVICES=x\n",
            "{}",
            shell.name
        );
    }
}

/// An environment is known by how its interpreter is called: its own packages lie beside that, those of the interpreter
/// itself beside the file that the link leads to.
#[test]
fn packages_are_looked_for_beside_the_interpreters_of_the_path_and_of_the_worker() {
    for shell in shells() {
        let root = machine("bare");
        let packages = |prefix: &str, name: &str| {
            let site = format!("{prefix}/lib/python3.12/site-packages");
            let package = root.path().join(&site).join(name);
            std::fs::create_dir_all(package).unwrap();
            format!("/{site}/{name}\n")
        };
        let environment = packages("home/me/venv", "nixl_cu12-1.5.1.dist-info");
        let itself = packages("home/me/python", "torch-2.9.1.dist-info");
        let workers = packages("srv/worker/venv", "vllm-0.11.2.dist-info");
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            path
        };
        let real = put("home/me/python/bin/python3.12", "#!/bin/sh\n");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&real, mode).unwrap();
        let bin = root.path().join("home/me/venv/bin");
        std::fs::create_dir_all(&bin).unwrap();
        std::os::unix::fs::symlink(&real, bin.join("python3")).unwrap();
        put(
            "proc/9/cmdline",
            "/srv/worker/venv/bin/python3\0-m\0dynamo.vllm\0",
        );
        put("proc/9/environ", "");

        let mut command = shell.command();
        let path = command
            .get_envs()
            .find_map(|(name, value)| (name == "PATH").then(|| value.unwrap().to_owned()))
            .unwrap();
        let mut all = bin.into_os_string();
        all.push(":");
        all.push(path);
        command.env("PATH", all);
        let script = script(&[&ask::PYTHON_PACKAGES], &root);
        let limit = Duration::from_secs(25);
        let place = dynamo_interconnect_check::snapshot::Place::host("test");
        let snapshot = local::collect_with(command, &script, place, limit);
        let mut found: Vec<&str> = text(&snapshot, &ask::PYTHON_PACKAGES).lines().collect();
        found.sort_unstable();
        let mut wanted = [&environment, &itself, &workers].map(|line| line.trim_end());
        wanted.sort_unstable();
        assert_eq!(found, wanted, "{}", shell.name);
    }
}

#[test]
fn of_a_command_line_only_what_chooses_the_way_of_the_kv_cache_leaves() {
    let json = r#"{"kv_connector": "NixlConnector","kv_role":"kv_both","kv_buffer_device":"cpu","kv_connector_extra_config":{"api_token":"canary","backends": ["LIBFABRIC", "UCX"]}}"#;
    let wanted = "\"kv_connector\": \"NixlConnector\"\n\"kv_role\": \"kv_both\"\n\"kv_buffer_device\": \"cpu\"\n\"backends\": [\"LIBFABRIC\", \"UCX\"]\n";
    for shell in shells() {
        for (arguments, wanted) in [
            (
                format!("--kv-transfer-config\0{json}\0--port\08000\0"),
                wanted,
            ),
            (
                format!("--token\0canary\0--kv-transfer-config={json}\0"),
                wanted,
            ),
            (format!("--other\0{json}\0"), ""),
            // Several connectors in one; values that are no plain words, or no values; an option without any.
            (
                "--kv-transfer-config\0{\"connectors\":[{\"kv_connector\" : \"A\"},{\"kv_connector\":\t\"B_1\"}]}\0".to_owned(),
                "\"kv_connector\": \"A\"\n\"kv_connector\": \"B_1\"\n",
            ),
            (
                "--kv-transfer-config\0{\"kv_role\":\"canary canary\",\"backends\":[{\"x\":\"canary\"}],\"x\":\"kv_role\",\"kv_connector\":7}\0".to_owned(),
                "\"not_read\": \"a value\"\n",
            ),
            // As vLLM takes them: underscores, and a field by its path.
            (
                format!("--kv_transfer_config\0{json}\0"),
                wanted,
            ),
            (
                "--kv-transfer-config.kv_connector\0NixlConnector\0--kv_transfer_config.kv_connector_extra_config.backends+=LIBFABRIC\0--kv-transfer-config.token\0canary\0".to_owned(),
                "\"kv_connector\": \"NixlConnector\"\n\"backends\": [\"LIBFABRIC\"]\n",
            ),
            (
                "--disaggregation-transfer-backend\0mooncake\0".to_owned(),
                "\"transfer_backend\": \"mooncake\"\n",
            ),
            // What may decide and is not read is said.
            ("--config\0/etc/canary.yaml\0".to_owned(), "\"not_read\": \"--config\"\n"),
            (
                "--kv-transfer-config\0{\"b\\u0061ckends\":[\"canary\"]}\0".to_owned(),
                "\"not_read\": \"an escaped value\"\n",
            ),
            (
                format!("--kv-transfer-config\0{}\0", "x".repeat(20_000)),
                "\"not_read\": \"a long value\"\n",
            ),
            ("--kv-transfer-config\0".to_owned(), ""),
        ] {
            let root = machine("bare");
            let process = root.path().join("proc/9");
            std::fs::create_dir_all(&process).unwrap();
            let line = format!("python3\0-m\0dynamo.vllm\0{arguments}");
            std::fs::write(process.join("cmdline"), line).unwrap();
            std::fs::write(process.join("environ"), "").unwrap();
            let snapshot = collect(&shell, &script(&[&ask::WORKER_KV_TRANSFER], &root));
            assert_eq!(
                text(&snapshot, &ask::WORKER_KV_TRANSFER),
                wanted,
                "{}",
                shell.name
            );
        }
    }
}

#[test]
fn of_the_configuration_of_tensorrt_llm_one_word_leaves() {
    let file = "model: canary\nmoe_config:\n  backend: CUTLASS\ncache_transceiver_config:\n  # backend: canary\n  xbackend: canary\n  \
                backend: DEFAULT  # canary\nkv_cache_config:\n  backend: canary\n";
    let says = |backend: &str| format!("\"transceiver\": \"{backend}\"\n");
    let not_read = |what: &str| format!("\"not_read\": \"{what}\"\n");
    let over = |backend: &str| {
        format!(
            "--override-engine-args\0{{\"api_key\":\"canary\",\"cache_transceiver_config\":{{\"a\":1,\"backend\": {backend}}},\"moe_config\":{{\"backend\":\"canary\"}}}}\0"
        )
    };
    let named = "--extra-engine-args\0/etc/e.yaml\0";
    let dotted = "--trtllm.cache_transceiver_config.backend\0UCX\0";
    let variable =
        "DYN_TRTLLM_OVERRIDE_ENGINE_ARGS={\"cache_transceiver_config\": {\"backend\": \"MPI\"}}\0";
    for (arguments, environ, file, wanted) in [
        (named.to_owned(), "", file, says("DEFAULT")),
        (
            "--extra_engine_args=conf/e.yaml\0".to_owned(),
            "",
            file,
            says("DEFAULT"),
        ),
        (
            String::new(),
            "DYN_TRTLLM_EXTRA_ENGINE_ARGS=/etc/e.yaml\0",
            file,
            says("DEFAULT"),
        ),
        (
            named.to_owned(),
            "",
            "cache_transceiver_config: {max_tokens_in_buffer: 1, backend: \"UCX\"}\nmoe_config: {backend: canary}\n",
            says("UCX"),
        ),
        // What is laid over the file goes before it, a flag before its variable.
        (format!("{named}{dotted}"), "", file, says("UCX")),
        (format!("{named}{}", over("\"MPI\"")), "", file, says("MPI")),
        (named.to_owned(), variable, file, says("MPI")),
        (
            format!("{named}{}", over("\"UCX\"")),
            variable,
            file,
            says("UCX"),
        ),
        (
            format!(
                "{named}--override-engine-args\0{{\"cache_transceiver_config\":{{\"a\":1}},\"b\":{{\"backend\":\"canary\"}}}}\0"
            ),
            "",
            file,
            not_read("--override-engine-args"),
        ),
        // Which of it counts takes a reader of JSON.
        (
            format!(
                "{named}--override-engine-args\0{{\"cache_transceiver_config\":{{\"x\":{{\"y\":1}},\"backend\":\"UCX\"}}}}\0"
            ),
            "",
            file,
            not_read("a value"),
        ),
        (
            format!(
                "{named}--override-engine-args\0{{\"cache_transceiver_config\":{{\"backend\":\"UCX\"}},\"cache_transceiver_config\":{{\"backend\":\"MPI\"}}}}\0"
            ),
            "",
            file,
            not_read("a value"),
        ),
        (
            named.to_owned(),
            "",
            "cache_transceiver_config:\n  backend: null\n",
            String::new(),
        ),
        (
            format!("{named}{}", over("null")),
            "",
            file,
            not_read("a value"),
        ),
        (
            format!(
                "{named}--override-engine-args\0{{\"cache_transceiver_config\":null,\"b\":{{\"backend\":\"canary\"}}}}\0"
            ),
            "",
            file,
            not_read("--override-engine-args"),
        ),
        // Nothing chooses, or it is written in a way that is not read.
        (
            named.to_owned(),
            "",
            "moe_config:\n  backend: canary\n",
            String::new(),
        ),
        (
            named.to_owned(),
            "",
            "cache_transceiver_config: *canary\nmoe_config: {backend: canary}\n",
            not_read("cache_transceiver_config"),
        ),
        (
            "--extra-engine-args\0/nowhere.yaml\0".to_owned(),
            "",
            file,
            not_read("--extra-engine-args"),
        ),
        (
            "--extra-engine-args\0/etc\0".to_owned(),
            "",
            file,
            not_read("--extra-engine-args"),
        ),
    ] {
        for shell in shells() {
            let root = machine("bare");
            let process = root.path().join("proc/9");
            for dir in ["cwd/conf", "../../etc"] {
                std::fs::create_dir_all(process.join(dir)).unwrap();
            }
            let line = format!("python3\0-m\0dynamo.trtllm\0{arguments}");
            std::fs::write(process.join("cmdline"), line).unwrap();
            std::fs::write(process.join("environ"), environ).unwrap();
            std::fs::write(process.join("cwd/conf/e.yaml"), file).unwrap();
            std::fs::write(root.path().join("etc/e.yaml"), file).unwrap();
            let snapshot = collect(&shell, &script(&[&ask::WORKER_KV_TRANSFER], &root));
            let said = text(&snapshot, &ask::WORKER_KV_TRANSFER);
            assert_eq!(said, wanted, "{} {arguments} {environ} {file}", shell.name);
        }
    }
}

#[test]
fn packages_of_pythonpath_are_found_and_the_variable_stays() {
    for shell in shells() {
        let root = machine("bare");
        let process = root.path().join("proc/9");
        std::fs::create_dir_all(&process).unwrap();
        std::fs::write(process.join("cmdline"), "python3\0-m\0dynamo.vllm\0").unwrap();
        let environ = "PYTHONPATH=relative:/srv/own code:/srv/canary\0UCX_TLS=rc\0";
        std::fs::write(process.join("environ"), environ).unwrap();
        let package = root.path().join("srv/own code/nixl_cu12-1.3.0.dist-info");
        std::fs::create_dir_all(package).unwrap();
        let asks = &[&ask::PYTHON_PACKAGES, &ask::ENVIRONMENT];
        let snapshot = collect(&shell, &script(asks, &root));
        assert_eq!(
            text(&snapshot, &ask::PYTHON_PACKAGES),
            "/srv/own code/nixl_cu12-1.3.0.dist-info\n",
            "{}",
            shell.name
        );
        let environment = text(&snapshot, &ask::ENVIRONMENT);
        assert!(
            environment.contains("UCX_TLS=rc") && !environment.contains("canary"),
            "{environment}"
        );
    }
}
