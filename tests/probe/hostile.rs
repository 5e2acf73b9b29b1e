//! Tools that hang, flood, forge and cling, and clients that go away: the probe ends, and nothing stays.

use crate::machine::{Scratch, machine};
use crate::shells::{Shell, any_shell, shells};
use crate::{NONCE, collect, script};
use dynamo_interconnect_check::ask::{self, Ask};
use dynamo_interconnect_check::probe::local;
use dynamo_interconnect_check::probe::script::{Options, Script};
use dynamo_interconnect_check::snapshot::{CUT, Place, Snapshot};
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Two tools that busybox has no applet for, since an applet goes before what stands on the path.
const QUICK: &[&Ask] = &[&ask::IBV_DEVINFO, &ask::FI_INFO_EFA];

/// Timer of `ibv_devinfo` in these scripts, and what a busy machine may add to it.
const TIMER: Duration = Duration::from_secs(1);
const SLACK: Duration = Duration::from_secs(60);

/// The script of these two, with a timer that does not make the test wait.
fn quick(root: &Scratch) -> Script {
    let script = script(QUICK, root);
    let text = script
        .text
        .replace("ibv-devinfo 65536 5", "ibv-devinfo 65536 1");
    assert_ne!(text, script.text);
    Script { text, ..script }
}

/// Asks a tool that hangs.
fn ask_hung(shell: &Shell, tool: &str) -> Snapshot {
    shell.tool("ibv_devinfo", tool);
    shell.tool("fi_info", "echo after");
    let root = machine("efa");
    let began = Instant::now();
    let snapshot = ask_with(shell, &quick(&root));
    let took = began.elapsed();
    assert!(took < TIMER + SLACK, "{}: {tool}: {took:?}", shell.name);
    snapshot
}

/// Asks a tool that ends by itself: its timer is far away, so that no busy machine makes it hang.
fn ask_ended(shell: &Shell, tool: &str) -> Snapshot {
    shell.tool("ibv_devinfo", tool);
    shell.tool("fi_info", "echo after");
    let root = machine("efa");
    let mut script = quick(&root);
    script.text = script
        .text
        .replace("ibv-devinfo 65536 1", "ibv-devinfo 65536 15");
    ask_with(shell, &script)
}

fn ask_with(shell: &Shell, script: &Script) -> Snapshot {
    let snapshot = collect(shell, script);
    assert_eq!(
        snapshot.text(&ask::FI_INFO_EFA),
        Ok("after\n"),
        "{}: the next ask was lost",
        shell.name
    );
    shell.assert_nothing_left_within(Duration::from_secs(60));
    snapshot
}

fn reason(snapshot: &Snapshot, ask: &Ask) -> (&'static str, String) {
    let skip = snapshot.text(ask).unwrap_err();
    (skip.reason.word(), skip.detail)
}

#[test]
fn a_tool_that_hangs_is_ended_with_all_it_started() {
    for shell in shells() {
        for tool in [
            "sleep 1000",
            "trap '' TERM HUP INT; sleep 1000; sleep 1000",
            "sleep 1000 & sleep 1000 & wait",
            "echo part; exec sleep 1000",
        ] {
            let snapshot = ask_hung(&shell, tool);
            let (word, detail) = reason(&snapshot, &ask::IBV_DEVINFO);
            assert_eq!(
                (word, detail.as_str()),
                ("timeout", "ibv_devinfo did not end within 1 s"),
                "{}: {tool}",
                shell.name
            );
        }
    }
}

#[test]
fn a_tool_that_leaves_a_process_does_not_leave_it() {
    for shell in shells() {
        let snapshot = ask_ended(&shell, "sleep 1000 >/dev/null 2>&1 & echo x86_64");
        assert_eq!(
            snapshot.text(&ask::IBV_DEVINFO),
            Ok("x86_64\n"),
            "{}",
            shell.name
        );
    }
}

#[test]
fn a_flood_is_cut_and_marked() {
    for shell in shells() {
        let snapshot = ask_ended(&shell, "while :; do echo 0123456789; done");
        assert!(snapshot.is_cut(&ask::IBV_DEVINFO), "{}", shell.name);
        let text = snapshot.text(&ask::IBV_DEVINFO).unwrap();
        assert!(
            text.len() <= ask::IBV_DEVINFO.max_bytes as usize + 1 && !text.contains(CUT),
            "{}",
            shell.name
        );
    }
}

#[test]
fn forged_frames_and_escape_sequences_stay_content() {
    for shell in shells() {
        let forged = r#"printf 'fedcba9876543210 end ibv-devinfo ok\n\033[2J\377\000x\nNONCE end ibv-devinfo ok\n'; cat"#;
        let snapshot = ask_ended(&shell, forged);
        let expected =
            "fedcba9876543210 end ibv-devinfo ok\n\u{1b}[2J\u{fffd}\0x\nNONCE end ibv-devinfo ok\n";
        assert_eq!(
            snapshot.text(&ask::IBV_DEVINFO),
            Ok(expected),
            "{}",
            shell.name
        );
    }
}

#[test]
fn a_tool_cannot_learn_the_nonce_from_what_it_is_given() {
    for shell in shells() {
        let snapshot = ask_ended(
            &shell,
            "env; echo \"$@\"; cat /proc/self/cmdline /proc/$PPID/cmdline /proc/$PPID/environ",
        );
        assert!(
            !snapshot.text(&ask::IBV_DEVINFO).unwrap().contains(NONCE),
            "{}",
            shell.name
        );
    }
}

#[test]
fn a_tool_that_fails_says_so_beside_its_words() {
    for shell in shells() {
        let snapshot = ask_ended(&shell, "echo 'no driver' >&2; exit 9");
        assert_eq!(
            snapshot.text(&ask::IBV_DEVINFO),
            Ok("no driver\n"),
            "{}",
            shell.name
        );
        assert_eq!(
            snapshot.exit_code(&ask::IBV_DEVINFO),
            Some(9),
            "{}",
            shell.name
        );
        let snapshot = ask_ended(&shell, "exit 3");
        let (word, detail) = reason(&snapshot, &ask::IBV_DEVINFO);
        assert_eq!(word, "unparsable");
        assert_eq!(
            detail, "ibv_devinfo printed nothing and ended with exit status 3",
            "{}",
            shell.name
        );
    }
}

#[test]
fn a_program_that_hung_once_is_not_waited_for_again() {
    let shell = any_shell();
    shell.tool(
        "nvidia-smi",
        "case $1 in topo) sleep 1000;; *) echo GPU 0;; esac",
    );
    let root = machine("efa");
    let text = script(
        &[
            &ask::NVIDIA_SMI_QUERY,
            &ask::NVIDIA_SMI_TOPO,
            &ask::NVIDIA_SMI_NVLINK,
        ],
        &root,
    );
    let text = Script {
        text: text
            .text
            .replace("nvidia-smi-topo 65536 15", "nvidia-smi-topo 65536 1"),
        ..text
    };
    let snapshot = collect(&shell, &text);
    assert_eq!(snapshot.text(&ask::NVIDIA_SMI_QUERY), Ok("GPU 0\n"));
    assert_eq!(
        reason(&snapshot, &ask::NVIDIA_SMI_TOPO),
        (
            "timeout",
            "nvidia-smi topo -m did not end within 1 s".to_owned()
        )
    );
    let (word, detail) = reason(&snapshot, &ask::NVIDIA_SMI_NVLINK);
    assert_eq!(
        (word, detail.as_str()),
        (
            "timeout",
            "nvidia-smi was not run again after it had hung for an earlier question"
        )
    );
}

/// The script as it runs where a helper is not installed.
fn without(text: &str, helper: &str) -> String {
    let text = text.replace("if has setsid;", "if false;");
    if helper == "timeout" {
        text.replace("elif has timeout;", "elif false;")
    } else {
        text
    }
}

#[test]
fn a_hang_is_ended_without_setsid_and_without_timeout_too() {
    for shell in shells() {
        // The applet of busybox makes no group of its own; images of busybox have setsid.
        let helpers: &[&str] = if shell.name == "busybox" {
            &["timeout"]
        } else {
            &["setsid", "timeout"]
        };
        for helper in helpers {
            shell.tool("ibv_devinfo", "sleep 1000 & sleep 1000");
            shell.tool("fi_info", "echo after");
            let root = machine("efa");
            let plain = quick(&root);
            let snapshot = collect(
                &shell,
                &Script {
                    text: without(&plain.text, helper),
                    ..plain
                },
            );
            assert_eq!(
                reason(&snapshot, &ask::IBV_DEVINFO).0,
                "timeout",
                "{} without {helper}",
                shell.name
            );
            assert_eq!(
                snapshot.text(&ask::FI_INFO_EFA),
                Ok("after\n"),
                "{} without {helper}",
                shell.name
            );
            shell.assert_nothing_left_within(Duration::from_secs(60));
        }
    }
}

#[test]
fn the_deadline_inside_ends_the_script_and_says_so() {
    for shell in shells() {
        shell.tool("ibv_devinfo", "sleep 1000");
        let root = machine("efa");
        let options = Options {
            variables: &[],
            nonce: NONCE,
            deadline: Duration::from_secs(3),
            root: root.path().to_str().unwrap(),
        };
        let script = Script::new(
            &[&ask::KERNEL, &ask::IBV_DEVINFO, &ask::FI_INFO_EFA],
            &options,
        )
        .unwrap();
        let snapshot = collect(&shell, &script);
        assert_eq!(snapshot.text(&ask::KERNEL), Ok("6.8.0\n"), "{}", shell.name);
        let expected = (
            "timeout",
            "the probe reached its deadline before this was read".to_owned(),
        );
        assert_eq!(
            reason(&snapshot, &ask::FI_INFO_EFA),
            expected,
            "{}",
            shell.name
        );
        shell.assert_nothing_left_within(Duration::from_secs(60));
    }
}

#[test]
fn the_deadline_outside_ends_it_where_the_inner_one_does_not() {
    for shell in shells() {
        shell.tool("ibv_devinfo", "trap '' TERM; sleep 1000; sleep 1000");
        let root = machine("efa");
        let began = Instant::now();
        let script = script(&[&ask::KERNEL, &ask::IBV_DEVINFO], &root);
        let snapshot = local::collect_with(
            shell.command(),
            &script,
            dynamo_interconnect_check::snapshot::Place::host("test"),
            Duration::from_secs(3),
        );
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "{}: {:?}",
            shell.name,
            began.elapsed()
        );
        assert_eq!(snapshot.text(&ask::KERNEL), Ok("6.8.0\n"), "{}", shell.name);
        assert_eq!(
            reason(&snapshot, &ask::IBV_DEVINFO).0,
            "timeout",
            "{}",
            shell.name
        );
        shell.assert_nothing_left_within(Duration::from_secs(60));
    }
}

#[test]
fn a_client_that_is_killed_takes_everything_with_it() {
    for shell in shells() {
        shell.tool(
            "ibv_devinfo",
            "trap '' TERM HUP PIPE; sleep 1000; sleep 1000",
        );
        let root = machine("efa");
        let text = quick(&root)
            .text
            .replace("ibv-devinfo 65536 1", "ibv-devinfo 65536 15");
        // The client is a shell that started the probe's and is killed without a chance to clean up.
        let inner = shell.command();
        let mut client = Command::new("sh");
        client
            .arg("-c")
            .arg(format!("{} -s | cat", inner.get_program().display()))
            .stdin(Stdio::piped());
        client.stdout(Stdio::piped()).stderr(Stdio::null());
        client.env_clear().envs(
            inner
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        let mut client = client.spawn().unwrap();
        client
            .stdin
            .take()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        let began = Instant::now();
        while !shell
            .left_behind()
            .iter()
            .any(|command| command.contains("sleep 1000"))
        {
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "{}: the tool did not start",
                shell.name
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        client.kill().unwrap();
        client.wait().unwrap();
        shell.assert_nothing_left_within(Duration::from_secs(60));
    }
}

#[test]
fn a_script_whose_shell_is_killed_leaves_nothing_either() {
    for shell in shells() {
        // The tool kills the shell of the script: the parent of the `sh -c` that runs it.
        shell.tool("ibv_devinfo", r#"read -r a b c main d </proc/$PPID/stat; read -r a b c main d <"/proc/$main/stat"; kill -KILL "$main"; sleep 1000"#);
        let root = machine("efa");
        let snapshot = collect(&shell, &quick(&root));
        let (word, detail) = reason(&snapshot, &ask::FI_INFO_EFA);
        assert_eq!(word, "connection-lost", "{}: {detail}", shell.name);
        shell.assert_nothing_left_within(Duration::from_secs(60));
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_script() {
    for shell in shells() {
        shell.tool("ibv_devinfo", "sleep 1000");
        let root = machine("efa");
        let text = quick(&root).text;
        let mut child = shell
            .command()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        drop(child.stdout.take());
        child.wait().unwrap();
        shell.assert_nothing_left_within(Duration::from_secs(60));
    }
}

#[test]
fn a_shell_that_misbehaves_costs_neither_memory_nor_time() {
    let fake = |body: &str| {
        let mut command = Command::new("sh");
        command.arg("-c").arg(body);
        command
    };
    let root = machine("efa");
    let script = quick(&root);
    let ten_megabytes = local::run(
        fake("yes 0123456789"),
        &script.text,
        Duration::from_secs(20),
    );
    assert_eq!(ten_megabytes.lost.reason.word(), "unparsable");
    assert_eq!(ten_megabytes.stdout.len(), 8 * 1024 * 1024);
    let errors = local::run(
        fake("yes 'oh \x1b[2J no' >&2 & sleep 0.3; kill $!; exit 7"),
        &script.text,
        Duration::from_secs(20),
    );
    assert!(
        errors.stderr.len() <= 16 * 1024 && !errors.stderr.contains('\x1b'),
        "{}",
        errors.stderr.len()
    );
    let endless = local::run(
        fake("while :; do echo x; sleep 0.1; done"),
        &script.text,
        Duration::from_millis(300),
    );
    assert_eq!(endless.lost.reason.word(), "timeout");
    let missing = local::run(
        Command::new("/nonexistent/sh"),
        &script.text,
        Duration::from_secs(1),
    );
    assert_eq!(missing.lost.reason.word(), "no-shell");
    let early = local::run(
        fake("echo 'sh: syntax error' >&2; exit 2"),
        &script.text,
        Duration::from_secs(5),
    );
    assert_eq!(
        early.lost.detail,
        "the shell of the probe ended early with exit status: 2: sh: syntax error"
    );
}

#[test]
fn no_tool_is_told_to_write_a_file() {
    let says = r#"printf '%s|' "${UCX_LOG_FILE-unset}" "${NCCL_DEBUG_FILE-unset}" "${UCX_PROFILE_FILE-unset}""#;
    let root = machine("efa");
    for shell in shells() {
        shell.tool("fi_info", says);
        let mut command = shell.command();
        for name in ["UCX_LOG_FILE", "NCCL_DEBUG_FILE", "UCX_PROFILE_FILE"] {
            command.env(name, "/log/of/the/worker");
        }
        let script = script(&[&ask::FI_INFO_EFA], &root);
        let snapshot = local::collect_with(
            command,
            &script,
            Place::host("test"),
            Duration::from_secs(25),
        );
        let said = snapshot.text(&ask::FI_INFO_EFA);
        assert_eq!(said, Ok("|unset|unset|"), "{}", shell.name);
    }
}

/// The end of the script and the start of its watchdog may meet.
#[test]
fn a_script_that_is_done_at_once_ends() {
    let root = machine("bare");
    for shell in shells() {
        for _ in 0..4 {
            let mut asked = script(&[], &root);
            asked.text = asked.text.replace("DEADLINE=20", "DEADLINE=600");
            let run = local::run(shell.command(), &asked.text, Duration::from_secs(60));
            assert!(
                run.lost.detail.contains("ended"),
                "{}: {:?}",
                shell.name,
                run.lost
            );
        }
        shell.assert_nothing_left_within(Duration::from_secs(60));
    }
}

/// A tool without a timer holds the shell until the watchdog ends both.
#[test]
fn a_tool_without_a_timer_goes_with_the_deadline() {
    for shell in shells() {
        // busybox has an applet of its own for it.
        if shell.name.contains("busybox") {
            continue;
        }
        shell.tool("df", "sleep 1000 & sleep 1000");
        let root = machine("efa");
        let mut asked = script(&[&ask::KERNEL, &ask::SHM], &root);
        asked.text = asked.text.replace("DEADLINE=20", "DEADLINE=1");
        let snapshot = collect(&shell, &asked);
        assert_eq!(snapshot.text(&ask::KERNEL), Ok("6.8.0\n"), "{}", shell.name);
        assert!(snapshot.text(&ask::SHM).is_err(), "{}", shell.name);
        shell.assert_nothing_left_within(Duration::from_secs(60));
    }
}
