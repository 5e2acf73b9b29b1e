//! The tool beside a real RDMA stack: `tests/vm` boots Debian's kernel with soft-RoCE and brings it from one state into
//! the next, and the tool looks at each; at the end the real NIXL moves bytes over verbs. Runs where `INTERCONNECT_VM=1`,
//! the transfer where `INTERCONNECT_NIXL_PYTHON` names an interpreter with nixl-cu12 besides; `.ci/run` sets both.
#![expect(
    clippy::unwrap_used,
    reason = "a test may stop where something is not as it should be"
)]

#[path = "support/skip.rs"]
mod skip;

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Instant;

/// No finding of that name is in the report: the question does not arise.
const NONE: &str = "none";
const OPEN: &str = "uverbs0: open\nrdma_cm: open";
/// Address of the first interface as a GID.
const GID: &str = "/gids/1: 0000:0000:0000:0000:0000:ffff:0a4d:0001";

/// What one state must look like.
struct State {
    /// Its name in `tests/vm/states.sh`.
    name: &'static str,
    /// Findings by name, and the one thing that they must say.
    findings: &'static [(&'static str, &'static str)],
    /// Answers by id, and lines that must be in them; no lines: the place was readable and held nothing.
    holds: &'static [(&'static str, &'static [&'static str])],
    /// Answers by id, and text that must not be in them.
    lacks: &'static [(&'static str, &'static str)],
}

/// Bare hosts promise nothing, so the worst that is said of one is `warn`. A device in software is no RDMA hardware, so
/// `ib-devices` warns of it even where it opens.
const STATES: &[State] = &[
    State {
        name: "no-rdma",
        findings: &[
            ("ib-devices", "warn"),
            ("ib-link", NONE),
            ("device-not-granted", NONE),
            ("software-rdma", NONE),
            ("roce-address-missing", NONE),
        ],
        holds: &[
            ("rdma-devices", &[]),
            ("rdma-ports", &[]),
            ("rdma-uverbs", &[]),
            ("dev-infiniband", &[]),
            ("dev-infiniband-open", &[]),
            ("modules", &[]),
        ],
        lacks: &[],
    },
    State {
        name: "active",
        findings: &[
            ("ib-devices", "warn"),
            ("ib-link", "ok"),
            ("device-not-granted", "ok"),
            ("ibv-devinfo", "ok"),
            ("roce-address-missing", "ok"),
            ("software-rdma", "warn"),
            ("port-not-ready", "ok"),
            ("subnet-manager-missing", NONE),
        ],
        holds: &[
            ("rdma-devices", &["rxe0"]),
            (
                "rdma-ports",
                &[
                    "/1/state: 4: ACTIVE",
                    "/1/phys_state: 5: LinkUp",
                    "/1/link_layer: Ethernet",
                    "/1/rate: 10 Gb/sec (1X FDR10)",
                ],
            ),
            ("rdma-gids", &["/types/1: RoCE v2", "/ndevs/1: eth0", GID]),
            ("rdma-attributes", &["rxe0/parent: eth0"]),
            ("rdma-uverbs", &["uverbs0/ibdev: rxe0"]),
            ("dev-infiniband", &["uverbs0", "rdma_cm", "umad0"]),
            ("dev-infiniband-open", &[OPEN]),
            ("rdma-netns", &["netns_mode: Y"]),
            ("rdma-hw-counters", &["hw_counters/sent_pkts: "]),
            ("modules", &["\nrdma_rxe ", "\nib_core "]),
            ("status", &["CapEff:\t000001ffffffffff"]),
            ("uid-map", &["4294967295"]),
            ("ibv-devinfo", &["state:\t\t\tPORT_ACTIVE (4)"]),
            ("rdma-link", &["link rxe0/1 state ACTIVE"]),
            ("ip-addr", &["eth0    inet 10.77.0.1/24"]),
        ],
        lacks: &[],
    },
    // The kernel shows the addresses of the node's namespace all the same: only a look at one's own tells.
    State {
        name: "other-namespace",
        findings: &[
            ("ib-devices", "warn"),
            ("ib-link", "ok"),
            ("device-not-granted", "ok"),
            ("roce-address-missing", "warn"),
        ],
        holds: &[
            ("rdma-ports", &["/1/state: 4: ACTIVE"]),
            ("rdma-gids", &[GID]),
            ("dev-infiniband-open", &[OPEN]),
            ("ip-addr", &["127.0.0.1"]),
        ],
        lacks: &[("ip-addr", "10.77.0.1"), ("net-devices", "eth0")],
    },
    State {
        name: "netdev-down",
        findings: &[
            ("ib-devices", "warn"),
            ("ib-link", "warn"),
            ("device-not-granted", "ok"),
            ("port-not-ready", NONE),
        ],
        holds: &[
            (
                "rdma-ports",
                &["/1/state: 1: DOWN", "/1/phys_state: 3: Disabled"],
            ),
            ("net-devices", &["/eth0/operstate: down"]),
            ("dev-infiniband-open", &[OPEN]),
            ("ibv-devinfo", &["PORT_DOWN (1)"]),
        ],
        lacks: &[],
    },
    State {
        name: "no-carrier",
        findings: &[
            ("ib-devices", "warn"),
            ("ib-link", "warn"),
            ("device-not-granted", "ok"),
            ("port-not-ready", NONE),
        ],
        holds: &[
            (
                "rdma-ports",
                &["/1/state: 1: DOWN", "/1/phys_state: 2: Polling"],
            ),
            ("net-devices", &["/eth0/carrier: 0"]),
            ("dev-infiniband-open", &[OPEN]),
        ],
        lacks: &[],
    },
    State {
        name: "no-address",
        findings: &[
            ("ib-devices", "warn"),
            ("ib-link", "ok"),
            ("device-not-granted", "ok"),
            ("roce-address-missing", "warn"),
        ],
        holds: &[
            ("rdma-ports", &["/1/state: 4: ACTIVE"]),
            ("rdma-gids", &["/gids/0: fe80:"]),
            ("dev-infiniband-open", &[OPEN]),
        ],
        lacks: &[("rdma-gids", "ffff:0a4d:0001"), ("ip-addr", "eth0")],
    },
    State {
        name: "nodes-hidden",
        findings: &[
            ("ib-devices", "warn"),
            ("ib-link", NONE),
            ("device-not-granted", "warn"),
        ],
        holds: &[
            ("rdma-devices", &["rxe0"]),
            ("rdma-ports", &["/1/state: 4: ACTIVE"]),
            ("rdma-uverbs", &["uverbs0/ibdev: rxe0"]),
            ("dev-infiniband", &[]),
            ("dev-infiniband-open", &[]),
        ],
        lacks: &[],
    },
    State {
        name: "nodes-closed",
        findings: REFUSED,
        holds: &[
            ("rdma-ports", &["/1/state: 4: ACTIVE"]),
            ("dev-infiniband", &["uverbs0"]),
            ("dev-infiniband-open", &["uverbs0: EACCES\nrdma_cm: EACCES"]),
            ("status", &["Uid:\t65534", "CapEff:\t0000000000000000"]),
        ],
        lacks: &[],
    },
    State {
        name: "nodes-closed-busybox",
        findings: REFUSED,
        holds: &[
            ("rdma-ports", &["/1/state: 4: ACTIVE"]),
            ("dev-infiniband-open", &["uverbs0: EACCES\nrdma_cm: EACCES"]),
        ],
        lacks: &[],
    },
    State {
        name: "cgroup-denied",
        findings: REFUSED,
        holds: &[
            ("rdma-ports", &["/1/state: 4: ACTIVE"]),
            ("dev-infiniband", &["uverbs0"]),
            ("dev-infiniband-open", &["uverbs0: EPERM\nrdma_cm: EPERM"]),
            ("status", &["Uid:\t0", "CapEff:\t000001ffffffffff"]),
        ],
        lacks: &[],
    },
    State {
        name: "memlock-64k",
        findings: &[
            ("ib-devices", "warn"),
            ("ib-link", "ok"),
            ("device-not-granted", "ok"),
            ("memlock-limited", "warn"),
        ],
        holds: &[
            (
                "limits",
                &["Max locked memory         65536                65536"],
            ),
            ("status", &["Uid:\t65534", "CapEff:\t0000000000000000"]),
            ("dev-infiniband-open", &[OPEN]),
        ],
        lacks: &[],
    },
    State {
        name: "two-devices",
        findings: &[
            ("ib-devices", "warn"),
            ("ib-link", "ok"),
            ("device-not-granted", "ok"),
            ("roce-address-missing", "ok"),
            ("mixed-fabrics", "ok"),
        ],
        holds: &[
            ("rdma-devices", &["rxe0\nrxe1"]),
            (
                "rdma-ports",
                &[
                    "rxe0/ports/1/state: 4: ACTIVE",
                    "rxe1/ports/1/state: 4: ACTIVE",
                ],
            ),
            ("rdma-gids", &["ndevs/1: eth0", "ndevs/1: eth1"]),
            (
                "rdma-uverbs",
                &["uverbs0/ibdev: rxe0", "uverbs1/ibdev: rxe1"],
            ),
            (
                "dev-infiniband-open",
                &["uverbs0: open\nuverbs1: open\nrdma_cm: open"],
            ),
        ],
        lacks: &[],
    },
];

/// Nodes that are there and do not open.
const REFUSED: &[(&str, &str)] = &[
    ("ib-devices", "warn"),
    ("ib-link", NONE),
    ("device-not-granted", "warn"),
];

/// Says something past the capture of the test runner.
fn say(what: &str) {
    let _ = writeln!(std::io::stderr(), "soft-RoCE: {what}");
}

fn done(command: &mut Command) {
    let output = command
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
}

fn tool(args: &[&str]) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dynamo-interconnect-check"));
    command.args(args).output().unwrap()
}

/// Is there a check of this name in this build?
fn exists(name: &str) -> bool {
    tool(&["explain", name]).status.success()
}

/// Builds the tool so that it runs without the libraries of this machine. Pods are out of reach in the guest anyway.
fn build(into: &Path) -> PathBuf {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["rustc", "--locked", "--no-default-features"])
        .args(["--bin", "dynamo-interconnect-check", "--target-dir"])
        .arg(into)
        .args([
            "--",
            "-C",
            "target-feature=+crt-static",
            "-C",
            "strip=symbols",
        ]);
    done(&mut command);
    into.join("debug")
}

/// The directory that the guest filled: one boot for all tests. None where this run is to be without one.
fn guest() -> Option<&'static Path> {
    static GUEST: OnceLock<PathBuf> = OnceLock::new();
    if std::env::var_os("INTERCONNECT_VM").is_none_or(|v| v != "1") {
        skip::aloud("INTERCONNECT_VM is not 1: nothing was tested beside a real RDMA stack");
        return None;
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    Some(GUEST.get_or_init(|| boot(target)))
}

/// An interpreter with the real NIXL.
fn nixl() -> Option<PathBuf> {
    std::env::var_os("INTERCONNECT_NIXL_PYTHON").map(PathBuf::from)
}

fn boot(target: &Path) -> PathBuf {
    let began = Instant::now();
    let mut last = 0.0;
    let mut took = |what: &str| {
        let now = began.elapsed().as_secs_f32();
        say(&format!("{what} took {:.1} s", now - last));
        last = now;
    };
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vm");
    let (image, job) = (target.join("vm"), target.join("vm/job"));
    let binary = build(&target.join("vm-build"));
    took("building the tool");
    done(Command::new("bash").arg(here.join("build.sh")).arg(&image));
    took("making the guest");
    let mut shares = vec![image.clone(), job.clone(), binary];
    if let Some(python) = nixl() {
        let copy = target.join("vm-nixl");
        done(
            Command::new("bash")
                .arg(here.join("nixl.sh"))
                .args([&python, &copy]),
        );
        shares.push(copy);
        took("copying NIXL for it");
    }
    let _ = fs::remove_dir_all(&job);
    fs::create_dir_all(&job).unwrap();
    fs::copy(here.join("states.sh"), job.join("run.sh")).unwrap();
    done(Command::new("bash").arg(here.join("run.sh")).args(&shares));
    took("running the guest through its states");
    say(&fs::read_to_string(job.join("stdout"))
        .unwrap()
        .trim()
        .replace('\n', ", "));
    let errors = fs::read_to_string(job.join("stderr")).unwrap();
    assert_eq!(errors, "", "the guest's script went on after an error");
    job
}

/// The answers of a recording, if there is one.
fn answers(state: &Path) -> Option<Value> {
    let text = fs::read_to_string(state.join("saved/bundle.json")).ok()?;
    let mut bundle: Value = serde_json::from_str(&text).ok()?;
    Some(bundle["snapshots"][0]["answers"].take())
}

/// What is wrong with one state.
fn wrong(state: &State, out: &Path) -> Vec<String> {
    let dir = out.join(state.name);
    let read = |file: &str| fs::read_to_string(dir.join(file)).unwrap();
    let mut wrong = Vec::new();
    let mut expect = |holds: bool, what: String| {
        if !holds {
            wrong.push(format!("{}: {what}", state.name));
        }
    };

    let Some(answers) = answers(&dir) else {
        let (code, errors) = (read("rc"), read("stderr"));
        expect(
            false,
            format!("no recording; exit code {}: {errors}", code.trim()),
        );
        return wrong;
    };
    for (id, lines) in state.holds {
        let answer = &answers[id];
        let Some(text) = answer["text"].as_str() else {
            expect(false, format!("{id} was not read: {answer}"));
            continue;
        };
        if lines.is_empty() {
            expect(
                text.trim().is_empty(),
                format!("{id} is not empty: {text:?}"),
            );
        }
        for line in *lines {
            let found = format!("\n{text}").contains(line);
            expect(found, format!("{id} lacks {line:?}: {text}"));
        }
    }
    for (id, part) in state.lacks {
        let text = answers[id]["text"].as_str();
        let lacks = text.is_some_and(|text| !text.contains(part));
        expect(
            lacks,
            format!("{id} is missing or holds {part:?}: {text:?}"),
        );
    }

    let report: Value = serde_json::from_str(&read("report.json")).unwrap();
    let checks = report["checks"].as_array().unwrap();
    let said: Vec<String> = checks
        .iter()
        .map(|c| {
            format!(
                "{} {}",
                c["name"].as_str().unwrap(),
                c["status"].as_str().unwrap()
            )
        })
        .collect();
    say(&format!("{}: {}", state.name, said.join(", ")));
    for (name, wanted) in state.findings {
        let statuses: BTreeSet<&str> = checks
            .iter()
            .filter(|c| c["name"] == *name)
            .map(|c| c["status"].as_str().unwrap())
            .collect();
        let statuses = if statuses.is_empty() {
            BTreeSet::from([NONE])
        } else {
            statuses
        };
        expect(
            statuses == BTreeSet::from([*wanted]),
            format!("{name} says {statuses:?} instead of {wanted}"),
        );
    }

    expect(
        read("stderr").is_empty(),
        format!("standard error: {}", read("stderr")),
    );
    expect(
        read("rc").trim() == "0",
        format!("exit code {}", read("rc").trim()),
    );
    let running = read("processes");
    let (before, after) = running.trim().split_once(' ').unwrap();
    expect(
        before == after,
        format!("{before} processes ran before the tool, {after} after"),
    );

    let recording = dir.join("saved");
    let again = tool(&["node", "-o", "json", "--from", recording.to_str().unwrap()]);
    expect(
        again.stdout == read("report.json").as_bytes(),
        "its recording gives another report".into(),
    );
    wrong
}

#[test]
fn every_state_of_a_real_rdma_stack_is_seen_and_judged() {
    let began = Instant::now();
    let Some(out) = guest().map(|job| job.join("out")) else {
        return;
    };

    let mut wrongs = Vec::new();
    let missing: BTreeSet<&str> = STATES
        .iter()
        .flat_map(|state| state.findings)
        .map(|(name, _)| *name)
        .filter(|name| !exists(name))
        .collect();
    // One that is no longer there would be `none` everywhere, and nobody would notice.
    assert!(missing.is_empty(), "there is no check {missing:?}");
    let states = fs::read_dir(&out)
        .unwrap()
        .flatten()
        .filter(|e| e.path().is_dir());
    let states: BTreeSet<String> = states
        .map(|e| e.file_name().into_string().unwrap())
        .collect();
    let known: BTreeSet<String> = STATES.iter().map(|s| s.name.to_owned()).collect();
    assert_eq!(
        states, known,
        "states.sh and this table name the same states"
    );
    for state in STATES {
        wrongs.extend(wrong(state, &out));
    }

    // Where there is no RDMA the tool must not make the kernel load it, as the tools of others do.
    let modules = |when: &str| -> BTreeSet<String> {
        let text = fs::read_to_string(out.join(format!("modules.{when}"))).unwrap();
        text.lines()
            .map(|l| l.split(' ').next().unwrap().to_owned())
            .collect()
    };
    assert!(
        modules("control").contains("ib_core"),
        "this kernel loads RDMA when it is asked for"
    );
    if modules("before") != modules("after") {
        wrongs.push(format!(
            "no-rdma: the kernel loaded {:?}",
            &modules("after") - &modules("before")
        ));
    }

    say(&format!(
        "{} states in {:.1} s",
        STATES.len(),
        began.elapsed().as_secs_f32()
    ));
    assert!(wrongs.is_empty(), "{}", wrongs.join("\n"));
}

/// READ and WRITE with the real NIXL over `rc_verbs` of soft-RoCE: the lane is named by UCX's table and by counters, the
/// bytes are right, and none of that proves a fabric.
#[test]
fn the_real_nixl_moves_bytes_over_verbs_and_that_proves_no_hardware() {
    if nixl().is_none() {
        let what = "INTERCONNECT_NIXL_PYTHON is not set: no transfer was made over verbs";
        assert!(
            std::env::var_os("INTERCONNECT_NIXL_REQUIRED").is_none(),
            "{what}"
        );
        skip::aloud(what);
        return;
    }
    let Some(dir) = guest().map(|job| job.join("transfer")) else {
        return;
    };
    let read = |file: &str| fs::read_to_string(dir.join(file)).unwrap();
    let report: Value = serde_json::from_str(&read("report.json")).unwrap_or_else(|e| {
        panic!("{e}: {}", read("stderr"));
    });
    let checks = report["checks"].as_array().unwrap();
    let transfer = checks.iter().find(|c| c["name"] == "kv-transfer").unwrap();
    let detail = transfer["detail"].as_str().unwrap();
    let pair = &report["pairs"]["made"][0];
    let steps: Vec<&str> = pair["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s.as_str().unwrap())
        .collect();
    say(&steps.join("; "));

    // A warn: right bytes over the lane that UCX names, and no hardware in it.
    assert_eq!(transfer["status"], "warn", "{transfer:#}");
    assert!(
        detail.contains(" moved right bytes over rc_verbs/rxe0:1"),
        "{detail}"
    );
    for part in [
        "soft-RoCE (verbs in software over an ordinary network card)",
        "counters agree: ",
        " packets on rxe0:1 for a payload of ",
        "no RDMA hardware took part, so the fabric is unproven",
        "both ends ran in one container",
        "host memory was used on rdma-vm, so the GPU path is not proven",
    ] {
        assert!(detail.contains(part), "no {part:?} in {detail}");
    }
    for (kind, bytes) in [
        ("WRITE", 8),
        ("READ", 8),
        ("WRITE", 1 << 20),
        ("READ", 1 << 20),
    ] {
        let of_kind = |s: &&&str| {
            s.starts_with(kind) && s.contains(&format!(" x {bytes} bytes: rc_verbs/rxe0:1 "))
        };
        assert!(
            steps.iter().find(of_kind).is_some(),
            "no {kind} of {bytes} bytes over verbs: {steps:?}"
        );
    }
    assert_eq!(steps.len(), 6, "{steps:?}");
    assert_eq!(
        (&pair["proven"], &pair["memory"]),
        (&Value::from(false), &Value::from("host"))
    );
    assert_eq!(report["trust"], "unproven", "{}", report["verdict"]);

    assert_eq!((read("rc").trim(), read("stderr").as_str()), ("0", ""));
    let running = read("processes");
    let (before, after) = running.trim().split_once(' ').unwrap();
    assert_eq!(before, after, "processes before and after");
    assert_eq!(read("shm"), "", "nothing is left in /dev/shm");
}
