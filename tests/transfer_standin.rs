//! Every fault of a transfer, driven by a stand-in for NIXL. Needs python3; elsewhere it says aloud that it did not run.

#[path = "support/python.rs"]
mod python;
#[path = "support/skip.rs"]
mod skip;
#[path = "support/transfer.rs"]
mod support;

use dynamo_interconnect_check::report::Status;
use dynamo_interconnect_check::transfer::protocol::{Kind, Memory, Role, Words};
use dynamo_interconnect_check::transfer::record::{Failure, Stage, What};
use dynamo_interconnect_check::transfer::stream::{Ended, OpenError};
use dynamo_interconnect_check::transfer::{
    Intent, Limits, Local, Open, Settings, Step, Stream, TransferRecord, Verdict, judge, run,
};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// A word, and lists large enough to take several blocks of the pattern.
fn steps() -> Vec<Step> {
    let shapes = [(8, 1, 3), (40_000, 30, 4)];
    let both = |(bytes, descs, iters)| {
        [Kind::Write, Kind::Read].map(|kind| Step {
            kind,
            bytes,
            descs,
            iters,
        })
    };
    shapes.into_iter().flat_map(both).collect()
}

fn python() -> Option<String> {
    python::has_python().then(|| "python3".to_owned())
}

fn here() -> Local {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/nixl_standin");
    Local {
        env: [("PYTHONPATH".to_owned(), path.to_owned())].into(),
        ..Local::default()
    }
}

fn nonce() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!(
        "{}-{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

/// A run with these faults; none without python3.
struct Fault<'a> {
    target: &'a str,
    initiator: &'a str,
    log: &'a str,
    backend: &'a str,
    steps: Vec<Step>,
    limits: Limits,
    root: String,
    port: String,
}

impl Default for Fault<'_> {
    fn default() -> Self {
        let limits = Limits {
            start: Duration::from_secs(20),
            operation: Duration::from_secs(2),
            connect: Duration::from_secs(3),
            run: Duration::from_secs(40),
            ..Limits::default()
        };
        Self {
            target: "",
            initiator: "",
            log: "ucx-1.23-host",
            backend: "UCX",
            steps: steps(),
            limits,
            root: String::new(),
            port: String::new(),
        }
    }
}

impl Fault<'_> {
    async fn run(&self) -> Option<(TransferRecord, Verdict)> {
        let (a, b) = (here(), here());
        self.run_in(&a, &b).await
    }

    async fn run_in<T: Open, I: Open>(&self, a: &T, b: &I) -> Option<(TransferRecord, Verdict)> {
        let python = python()?;
        let settings = Settings {
            limits: self.limits,
            root: self.root.clone(),
            backend: self.backend.to_owned(),
            ..support::settings(&nonce(), self.steps.clone())
        };
        let log = format!(
            "{}/tests/support/ucx_logs/{}.txt",
            env!("CARGO_MANIFEST_DIR"),
            self.log
        );
        let env = |fault: &str| {
            [
                ("NIXL_STANDIN_FAULT", fault),
                ("NIXL_STANDIN_LOG", &log),
                ("NIXL_STANDIN_ROOT", &self.root),
                ("NIXL_STANDIN_PORT", &self.port),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
        };
        let mut target = support::end("decode-0", a, &python);
        let mut initiator = support::end("prefill-0", b, &python);
        (target.env, initiator.env) = (env(self.target), env(self.initiator));
        let record = run(&target, &initiator, &settings).await;
        let verdict = judge(&record, &Intent::default());
        // A process that was just killed takes a moment to go.
        for _ in 0..100 {
            if !left_running(&settings.nonce) {
                return Some((record, verdict));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("a process was left running: {record:#?}");
    }

    async fn fails(&self, side: Role, what: What) -> Option<(TransferRecord, Verdict, Failure)> {
        let (record, verdict) = self.run().await?;
        let failure = record
            .failure
            .clone()
            .unwrap_or_else(|| panic!("no failure: {verdict:#?}"));
        assert_eq!(
            (failure.side, failure.what),
            (side, what),
            "{failure:#?}\n{:#?}",
            record.end(side).log.tail
        );
        assert!(
            !verdict.proven && verdict.status >= Status::Skipped,
            "{verdict:#?}"
        );
        assert!(
            verdict.detail.contains(&record.end(side).label.to_string()),
            "{}",
            verdict.detail
        );
        assert!(verdict.fix.is_some());
        Some((record, verdict, failure))
    }
}

fn left_running(nonce: &str) -> bool {
    let tag = format!("probe-{nonce}-");
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|p| std::fs::read(p.path().join("cmdline")).ok())
        .any(|c| String::from_utf8_lossy(&c).contains(&tag))
}

#[tokio::test]
async fn right_bytes_over_shared_memory_are_said_plainly() {
    let Some((record, verdict)) = Fault::default().run().await else {
        return;
    };
    assert_eq!(record.failure, None, "{:#?}", record.initiator.log.tail);
    assert_eq!(record.steps.len(), 4);
    assert!(
        record
            .steps
            .iter()
            .all(|s| s.verify.ok && s.verify.compared == s.xfer.bytes * s.xfer.descs)
    );
    assert_eq!((verdict.status, verdict.proven), (Status::Warn, false));
    for end in [&record.target, &record.initiator] {
        assert_eq!(
            end.ended,
            Some(Ended::Code(0)),
            "it never leaves through the interpreter's shutdown"
        );
    }
    let json = serde_json::to_string(&record).unwrap();
    let again: TransferRecord = serde_json::from_str(&json).unwrap();
    assert_eq!(
        judge(&again, &Intent::default()),
        verdict,
        "a recorded transfer is judged the same"
    );
}

/// A fixture tree with one HCA whose port has these files; the tree and the port.
fn hca(files: &[(&str, &str)]) -> (TempDir, String) {
    let root = tempfile::tempdir().expect("a fixture");
    let device = root.path().join("sys/class/infiniband/mlx5_0");
    let port = device.join("ports/1");
    std::fs::create_dir_all(port.join("counters")).expect("a fixture");
    std::fs::create_dir_all(device.join("device")).expect("a fixture");
    for (name, text) in files {
        std::fs::write(port.join(name), format!("{text}\n")).expect("a fixture");
    }
    let port = port.display().to_string();
    (root, port)
}

#[tokio::test]
async fn rdma_by_the_table_is_proven_for_a_deployment_with_host_memory() {
    let (root, _) = hca(&[("state", "4: ACTIVE")]);
    let fault = Fault {
        log: "invented-rc-mlx5-one-rail",
        root: root.path().display().to_string(),
        ..Fault::default()
    };
    let Some((record, _)) = fault.run().await else {
        return;
    };
    let verdict = support::judged_on_host(&record);
    assert_eq!(
        (verdict.status, verdict.proven),
        (Status::Ok, true),
        "{}",
        verdict.detail
    );
    let verdict = judge(&record, &Intent::default());
    assert_eq!(
        (verdict.status, verdict.proven),
        (Status::Ok, false),
        "the GPU path was not used"
    );
    assert!(
        verdict
            .caveats
            .iter()
            .any(|c| c.contains("GPU path is not proven"))
    );
}

#[tokio::test]
async fn counters_of_an_hca_are_words_of_four_bytes_and_confirm_the_lane() {
    let (root, port) = hca(&[
        ("counters/port_xmit_data", "1000"),
        ("counters/port_rcv_data", "7"),
        ("state", "4: ACTIVE"),
        ("rate", "400 Gb/sec (4X NDR)"),
        ("link_layer", "InfiniBand"),
    ]);
    let fault = Fault {
        log: "invented-rc-mlx5-one-rail",
        root: root.path().display().to_string(),
        port,
        ..Fault::default()
    };
    let Some((record, _)) = fault.run().await else {
        return;
    };
    let verdict = support::judged_on_host(&record);
    assert_eq!(
        (verdict.status, verdict.proven),
        (Status::Ok, true),
        "{}",
        verdict.detail
    );
    for step in verdict.steps.iter().filter(|s| s.what.contains("40000")) {
        let agreed = format!("{:?}", step.counters);
        assert!(
            agreed.contains("Agree(\"6000000 bytes on mlx5_0:1"),
            "{}: {agreed}",
            step.what
        );
    }
    let ready = record.initiator.ready.as_ref().expect("ready");
    assert!(
        ready.ports[0].hardware && !ready.ports[0].granted,
        "no device node in the fixture"
    );
}

#[tokio::test]
async fn wrong_bytes_are_the_gravest() {
    let fault = Fault {
        target: "flip",
        log: "invented-rc-mlx5",
        ..Fault::default()
    };
    let Some((record, verdict)) = fault.run().await else {
        return;
    };
    assert!(verdict.wrong_bytes && verdict.status == Status::Fail && !verdict.proven);
    assert!(
        verdict.detail.starts_with("WRONG BYTES: READ"),
        "{}",
        verdict.detail
    );
    assert_eq!(record.steps.last().unwrap().verify.bad_at, Some(4));

    let fault = Fault {
        target: "deaf",
        log: "invented-rc-mlx5",
        ..Fault::default()
    };
    let Some((_, verdict)) = fault.run().await else {
        return;
    };
    assert!(
        verdict.wrong_bytes && verdict.detail.contains("only zeros"),
        "{}",
        verdict.detail
    );
}

/// Lists of KV blocks, both ways.
fn lists() -> Vec<Step> {
    [Kind::Write, Kind::Read]
        .map(|kind| Step {
            kind,
            bytes: 64 << 10,
            descs: 40,
            iters: 3,
        })
        .to_vec()
}

/// Every block and every descriptor is another, throughout: what comes from elsewhere is not what was asked for.
#[tokio::test]
async fn bytes_of_another_place_are_wrong_bytes() {
    for kind in [Kind::Write, Kind::Read] {
        let fault = Fault {
            target: "misplace",
            log: "invented-rc-mlx5",
            steps: lists().into_iter().filter(|s| s.kind == kind).collect(),
            ..Fault::default()
        };
        let Some((record, verdict)) = fault.run().await else {
            return;
        };
        assert!(verdict.wrong_bytes, "{kind}: {verdict:#?}");
        let verify = &record.steps[0].verify;
        assert_eq!((verify.ok, verify.zeros), (false, Some(false)), "{kind}");
        assert!(verdict.detail.contains("other bytes lie there"));
    }
}

/// What an earlier operation moved does not stand for what the last one did not.
#[tokio::test]
async fn an_operation_that_moves_nothing_is_seen_behind_one_that_did() {
    for (kind, target, initiator, words) in [
        (
            Kind::Write,
            "first-only",
            "",
            "what an earlier operation had written",
        ),
        (Kind::Read, "", "first-only", "only zeros"),
    ] {
        let fault = Fault {
            target,
            initiator,
            log: "invented-rc-mlx5",
            steps: lists().into_iter().filter(|s| s.kind == kind).collect(),
            ..Fault::default()
        };
        let Some((_, verdict)) = fault.run().await else {
            return;
        };
        assert!(verdict.wrong_bytes, "{kind}: {verdict:#?}");
        assert!(verdict.detail.contains(words), "{}", verdict.detail);
    }
}

#[tokio::test]
async fn no_python_and_no_nixl_have_their_own_words() {
    let fault = Fault {
        initiator: "import",
        ..Fault::default()
    };
    let Some((_, verdict, failure)) = fault.fails(Role::Initiator, What::NoNixl).await else {
        return;
    };
    assert_eq!(verdict.status, Status::Skipped);
    assert!(
        failure.detail.contains("no stand-in today"),
        "{}",
        failure.detail
    );

    let (a, settings) = (here(), support::settings(&nonce(), steps()));
    let record = run(
        &support::end("a", &a, "python-of-nobody"),
        &support::end("b", &a, "python3"),
        &settings,
    )
    .await;
    let failure = record.failure.expect("a failure");
    assert_eq!(
        (failure.side, failure.stage, failure.what),
        (Role::Target, Stage::Start, What::NoPython)
    );
}

fn script(text: &str) -> (TempDir, String) {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("python3");
    std::fs::write(&path, text).expect("a script");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    let path = path.display().to_string();
    (dir, path)
}

/// What never ran the program says nothing of NIXL.
#[tokio::test]
async fn an_interpreter_that_does_not_run_is_no_fault_of_the_path() {
    if python().is_none() {
        return;
    }
    let shadow = tempfile::tempdir().expect("a directory");
    let module = shadow.path().join("json.py");
    std::fs::write(module, "raise RuntimeError('no module of mine')\n").expect("a module");
    let with = |name: &str, value: &str| Local {
        env: [(name.to_owned(), value.to_owned())].into(),
        ..Local::default()
    };
    let shadowed = shadow.path().display().to_string();
    let (_dir, crashes) = script("#!/bin/sh\nkill -SEGV $$\n");
    for (python, place, words) in [
        ("/bin/sh", here(), "(exit code 2): "),
        (
            "python3",
            with("PYTHONHOME", "/nonexistent"),
            "(exit code 1): ",
        ),
        (
            "python3",
            with("PYTHONPATH", &shadowed),
            "no module of mine",
        ),
        (&*crashes, here(), "(signal 11)"),
    ] {
        let (good, settings) = (here(), support::settings(&nonce(), steps()));
        let target = support::end("a", &place, python);
        let record = run(&target, &support::end("b", &good, "python3"), &settings).await;
        let verdict = judge(&record, &Intent::default());
        let failure = record.failure.expect("a failure");
        assert_eq!(
            (failure.side, failure.stage, failure.what),
            (Role::Target, Stage::Start, What::BadPython),
            "{failure:?}"
        );
        assert_eq!(verdict.status, Status::Skipped);
        let lead = format!(
            "{python} does not run the probe on a (target): it ended before the probe began"
        );
        assert!(verdict.detail.starts_with(&lead), "{}", verdict.detail);
        assert!(
            verdict.detail.contains(words),
            "{words}: {}",
            verdict.detail
        );
        assert!(verdict.fix.is_some_and(|fix| fix.contains("PYTHONHOME")));
        assert!(!left_running(&settings.nonce));
    }
    // One that is not there is not the one that does not run.
    let (place, settings) = (here(), support::settings(&nonce(), steps()));
    let mut target = support::end("a", &place, "/bin/sh");
    target.pythons.push("python-of-nobody".to_owned());
    let record = run(&target, &support::end("b", &place, "python3"), &settings).await;
    let verdict = judge(&record, &Intent::default());
    let lead = "/bin/sh does not run the probe on a (target): ";
    assert!(verdict.detail.starts_with(lead), "{}", verdict.detail);
    // The next interpreter is tried.
    let (place, settings) = (here(), support::settings(&nonce(), steps()));
    let mut target = support::end("a", &place, "/bin/sh");
    target.pythons.push("python3".to_owned());
    let record = run(&target, &support::end("b", &place, "python3"), &settings).await;
    assert_eq!(record.failure, None);
    assert!(record.target.tried[0].gave_up.is_some());
}

/// What a library says when it fails may hold anything of the worker's environment.
#[tokio::test]
async fn secrets_in_errors_do_not_leave_the_container() {
    let fault = Fault {
        initiator: "tell",
        ..Fault::default()
    };
    let Some((record, verdict, failure)) = fault.fails(Role::Initiator, What::Connect).await else {
        return;
    };
    let all = format!(
        "{} {verdict:?}",
        serde_json::to_string(&record).unwrap_or_default()
    );
    assert!(!all.to_lowercase().contains("canary"), "{all}");
    assert!(
        failure.detail.contains("HF_TOKEN=***"),
        "{}",
        failure.detail
    );
    assert!(all.contains("AWS_SECRET_ACCESS_KEY=***"), "{all}");
}

/// The version is looked at before anything that an old interpreter may not know.
#[tokio::test]
async fn a_python_that_is_too_old_is_named() {
    if python().is_none() {
        return;
    }
    let old = tempfile::tempdir().expect("a directory");
    let text = "import sys\nsys.version_info = (3, 6, 15, 'final', 0)\n";
    std::fs::write(old.path().join("sitecustomize.py"), text).expect("a module");
    let place = Local {
        env: [("PYTHONPATH".to_owned(), old.path().display().to_string())].into(),
        ..Local::default()
    };
    let (good, settings) = (here(), support::settings(&nonce(), steps()));
    let target = support::end("a", &place, "python3");
    let record = run(&target, &support::end("b", &good, "python3"), &settings).await;
    let failure = record.failure.clone().expect("a failure");
    assert_eq!(failure.what, What::BadPython, "{failure:?}");
    let verdict = judge(&record, &Intent::default());
    assert!(
        verdict
            .detail
            .contains("Python 3.6, and 3.8 or later is needed"),
        "{}",
        verdict.detail
    );
    assert!(verdict.fix.is_some_and(|fix| fix.contains("Python 3.8")));
}

/// Engines import `nixl`, so that a broken one must not be passed over in silence.
#[tokio::test]
async fn a_package_that_is_broken_is_said_where_another_one_was_used() {
    if python().is_none() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let package = |name: &str| {
        let package = dir.path().join(name);
        std::fs::create_dir(&package).expect("a package");
        package
    };
    std::fs::write(
        package("nixl").join("__init__.py"),
        "raise ImportError('half of me')\n",
    )
    .expect("a module");
    let standin = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/support/nixl_standin/nixl"
    );
    let good = package("nixl_cu12");
    for file in ["__init__.py", "_api.py"] {
        std::fs::copy(format!("{standin}/{file}"), good.join(file)).expect("a module");
    }
    let place = Local {
        env: [("PYTHONPATH".to_owned(), dir.path().display().to_string())].into(),
        ..Local::default()
    };
    let fault = Fault::default();
    let Some((_, verdict)) = fault.run_in(&place, &here()).await else {
        return;
    };
    let words = "on decode-0 nixl_cu12._api was used, and what stands before it could not be imported (nixl._api: ImportError: \
                 half of me): an engine that imports it fails";
    assert!(
        verdict.caveats.iter().any(|c| c == words),
        "{:?}",
        verdict.caveats
    );
    let prefill = verdict
        .caveats
        .iter()
        .filter(|c| c.contains("on prefill-0 ") && c.contains("imported"));
    assert_eq!(prefill.count(), 0);
}

#[tokio::test]
async fn bytes_of_another_backend_prove_nothing() {
    let fault = Fault {
        initiator: "other-backend",
        ..Fault::default()
    };
    let Some((_, verdict)) = fault.run().await else {
        return;
    };
    assert_eq!((verdict.status, verdict.proven), (Status::Skipped, false));
    let words = "NIXL says that its backend POSIX moved the bytes, and UCX was asked for";
    assert!(verdict.detail.contains(words), "{}", verdict.detail);
}

/// The program has begun, so that the crash is one of the agent.
#[tokio::test]
async fn a_crash_while_the_agent_is_made_is_told_from_one_of_the_interpreter() {
    let fault = Fault {
        target: "crash@create",
        ..Fault::default()
    };
    let Some((_, verdict, failure)) = fault.fails(Role::Target, What::Crashed).await else {
        return;
    };
    assert_eq!(
        (failure.stage, verdict.status),
        (Stage::Ready, Status::Fail)
    );
}

#[tokio::test]
async fn an_interpreter_that_hangs_is_told_and_ended_with_what_it_started() {
    let mark = format!("987.{}", std::process::id());
    let (_dir, hangs) = script(&format!("#!/bin/sh\nsleep {mark}\n"));
    let mut settings = support::settings(&nonce(), steps());
    settings.limits.start = Duration::from_secs(1);
    let place = here();
    let ends = ["a", "b"].map(|label| support::end(label, &place, &hangs));
    let began = std::time::Instant::now();
    let record = run(&ends[0], &ends[1], &settings).await;
    let took = began.elapsed();
    // The interpreter takes a quarter of an hour.
    assert!(took < Duration::from_secs(20), "{took:?}");
    let verdict = judge(&record, &Intent::default());
    let failure = record.failure.expect("a failure");
    assert_eq!(
        (failure.stage, failure.what),
        (Stage::Start, What::Deadline)
    );
    assert_eq!(verdict.status, Status::Skipped);
    assert!(
        verdict.detail.contains("while starting Python"),
        "{}",
        verdict.detail
    );
    let asleep = || {
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut lines = processes.filter_map(|p| std::fs::read(p.path().join("cmdline")).ok());
        lines.any(|c| String::from_utf8_lossy(&c).contains(&mark))
    };
    for _ in 0..1_500 {
        if !asleep() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("its child was left running");
}

#[tokio::test]
async fn the_workers_own_interpreter_is_tried_next() {
    let Some(python) = python() else { return };
    let (bare, good) = (Local::default(), here());
    let settings = support::settings(&nonce(), steps());
    let mut target = support::end("decode-0", &good, "python-of-nobody");
    target.pythons.push(python.clone());
    let initiator = support::end("prefill-0", &good, &python);
    let record = run(&target, &initiator, &settings).await;
    assert_eq!(record.failure, None, "{:?}", record.failure);
    assert_eq!(record.target.tried.len(), 2);
    assert!(record.target.tried[0].gave_up.is_some() && record.target.tried[1].gave_up.is_none());

    let mut wrong = support::end("decode-0", &bare, &python);
    wrong.pythons.push("python-of-nobody".to_owned());
    let record = run(&wrong, &initiator, &support::settings(&nonce(), steps())).await;
    assert_eq!(
        record.failure.map(|f| f.what),
        Some(What::NoNixl),
        "says more than that a second one is missing"
    );
}

#[tokio::test]
async fn an_agent_that_cannot_be_made() {
    let fault = Fault {
        target: "create",
        ..Fault::default()
    };
    let Some((record, verdict, _)) = fault.fails(Role::Target, What::AgentCreate).await else {
        return;
    };
    assert_eq!(verdict.status, Status::Fail);
    assert!(
        record
            .target
            .log
            .tail
            .iter()
            .any(|l| l.contains("no usable transports/devices"))
    );
    assert!(
        verdict
            .fix
            .unwrap()
            .starts_with("UCX_TLS or UCX_NET_DEVICES allows nothing")
    );

    let fault = Fault {
        initiator: "no-backend",
        ..Fault::default()
    };
    let Some((_, verdict, _)) = fault.fails(Role::Initiator, What::NoBackend).await else {
        return;
    };
    let words = "The NIXL backend UCX does not come up on prefill-0 (initiator): its plugin is there and does not load";
    assert!(verdict.detail.starts_with(words), "{}", verdict.detail);

    let fault = Fault {
        target: "register",
        ..Fault::default()
    };
    let Some((_, verdict, failure)) = fault.fails(Role::Target, What::Register).await else {
        return;
    };
    assert!(
        failure.detail.contains("RLIMIT_MEMLOCK"),
        "{}",
        failure.detail
    );
    assert!(verdict.fix.unwrap().contains("IPC_LOCK"));
}

#[tokio::test]
async fn a_backend_that_the_installed_nixl_does_not_have() {
    let with = |backend: &'static str, what, words: &'static str| async move {
        let fault = Fault {
            backend,
            ..Fault::default()
        };
        let (record, verdict) = fault.run().await?;
        let failure = record.failure.as_ref().expect("a failure");
        assert_eq!(failure.what, what, "{failure:?}");
        assert!(verdict.detail.contains(words), "{}", verdict.detail);
        // Whoever names another backend than the worker uses has asked for what is not there; a worker's own is a fault.
        let own = Intent {
            backend: Some(backend.to_ascii_lowercase()),
            ..Intent::default()
        };
        assert_eq!(
            (verdict.status, judge(&record, &own).status),
            (Status::Skipped, Status::Fail)
        );
        Some(())
    };
    let words = " has no backend NOPE: its plugins are LIBFABRIC, POSIX, UCX";
    let ran = with("NOPE", What::NoPlugin, words).await.is_some();
    if ran {
        let words = "cannot reach another worker: it gives no address for another agent";
        with("POSIX", What::LocalBackend, words).await;
    }
}

#[tokio::test]
async fn a_failed_agent_shows_what_complained() {
    for (fault, line) in [
        ("create", "UCX ERROR no usable transports/devices (asked rc"),
        ("register", "UCX ERROR ibv_reg_mr(address=0x1) failed"),
    ] {
        let fault = Fault {
            target: fault,
            ..Fault::default()
        };
        let Some((_, verdict)) = fault.run().await else {
            return;
        };
        let first = format!("decode-0 (target): {line}");
        let said = verdict.evidence.first().cloned().unwrap_or_default();
        assert!(said.starts_with(&first), "{:#?}", verdict.evidence);
    }
}

#[tokio::test]
async fn a_refused_connection_names_the_reason_in_the_log() {
    let fault = Fault {
        initiator: "refuse",
        ..Fault::default()
    };
    let Some((_, verdict, failure)) = fault.fails(Role::Initiator, What::Connect).await else {
        return;
    };
    assert_eq!(failure.stage, Stage::Connect);
    assert!(failure.also.iter().any(|a| a.contains("target is alive")));
    assert!(verdict.fix.unwrap().contains("no network device"));
    let fault = Fault {
        initiator: "prepare",
        ..Fault::default()
    };
    fault.fails(Role::Initiator, What::Prepare).await;
}

#[tokio::test]
async fn a_killed_target_is_the_cause_and_the_initiators_complaint_is_not() {
    let fault = Fault {
        target: "kill@serve",
        ..Fault::default()
    };
    let Some((record, _, failure)) = fault.fails(Role::Target, What::Killed).await else {
        return;
    };
    assert!(
        matches!(
            failure.stage,
            Stage::Xfer {
                kind: Kind::Write,
                bytes: 8,
                descs: 1
            }
        ),
        "{failure:?}"
    );
    assert_eq!(record.target.ended, Some(Ended::Signal(9)));
    let fault = Fault {
        initiator: "kill@xfer",
        ..Fault::default()
    };
    fault.fails(Role::Initiator, What::Killed).await;
    let fault = Fault {
        target: "crash@serve",
        ..Fault::default()
    };
    let Some((_, verdict, _)) = fault.fails(Role::Target, What::Crashed).await else {
        return;
    };
    assert_eq!(verdict.status, Status::Fail);
}

#[tokio::test]
async fn a_target_killed_for_want_of_memory() {
    let root = std::env::temp_dir().join(format!("standin-{}", nonce()));
    let cgroup = root.join("sys/fs/cgroup");
    std::fs::create_dir_all(&cgroup).unwrap();
    std::fs::write(cgroup.join("memory.events"), "oom_kill 0\n").unwrap();
    let fault = Fault {
        target: "oom@serve",
        root: root.display().to_string(),
        ..Fault::default()
    };
    fault.fails(Role::Target, What::OutOfMemory).await;
    // Too little room is seen before anything is taken.
    std::fs::write(cgroup.join("memory.max"), "104857600\n").unwrap();
    std::fs::write(cgroup.join("memory.current"), "94371840\n").unwrap();
    let fault = Fault {
        root: root.display().to_string(),
        ..Fault::default()
    };
    if let Some((_, verdict)) = fault.run().await {
        assert!(
            verdict.detail.contains("of 104857600 bytes in use"),
            "{}",
            verdict.detail
        );
        assert_eq!(verdict.status, Status::Skipped);
    }
    std::fs::remove_dir_all(root).unwrap();
}

#[tokio::test]
async fn a_stopped_target_is_told_from_a_stalled_transfer() {
    let fault = Fault {
        target: "stop@serve",
        ..Fault::default()
    };
    let Some((record, _, _)) = fault.fails(Role::Target, What::Stopped).await else {
        return;
    };
    assert_eq!(
        record.target.ended,
        Some(Ended::Signal(9)),
        "only SIGKILL ends a stopped process; the sweep sent it"
    );
    let fault = Fault {
        initiator: "stall",
        ..Fault::default()
    };
    let Some((_, verdict, failure)) = fault.fails(Role::Initiator, What::Stall).await else {
        return;
    };
    assert_eq!(verdict.status, Status::Fail);
    assert!(failure.also.iter().any(|a| a.contains("target is alive")));
}

#[tokio::test]
async fn a_deadline_names_side_and_stage() {
    let mut fault = Fault {
        initiator: "hang@create",
        ..Fault::default()
    };
    fault.limits.start = Duration::from_secs(6);
    let Some((_, verdict, failure)) = fault.fails(Role::Initiator, What::Deadline).await else {
        return;
    };
    assert_eq!(failure.stage, Stage::Ready);
    assert!(
        verdict.detail.contains("while making the NIXL agent"),
        "{}",
        verdict.detail
    );
    let fault = Fault {
        initiator: "hang@connect",
        ..Fault::default()
    };
    let Some((_, verdict, failure)) = fault.fails(Role::Initiator, What::Deadline).await else {
        return;
    };
    assert_eq!(
        (failure.stage, verdict.status),
        (Stage::Connect, Status::Fail)
    );
    assert!(verdict.fix.unwrap().contains("`explain firewall`"));
    let mut fault = Fault {
        target: "hang@serve",
        ..Fault::default()
    };
    fault.limits.run = Duration::from_secs(3);
    fault.limits.operation = Duration::from_secs(30);
    let Some((record, _)) = fault.run().await else {
        return;
    };
    let failure = record.failure.unwrap();
    assert!(
        matches!(failure.stage, Stage::Xfer { .. }) && failure.what == What::Stall,
        "{failure:?}"
    );
}

#[tokio::test]
async fn runaway_memory_ends_the_agent() {
    let mut fault = Fault {
        target: "rss@create",
        ..Fault::default()
    };
    fault.limits.rss_bytes = 100 << 20;
    fault.fails(Role::Target, What::RssLimit).await;
}

#[tokio::test]
async fn floods_and_lies() {
    for (when, what) in [
        ("flood@xfer", What::Flood),
        ("flood-stderr@xfer", What::Flood),
        ("giant-line@xfer", What::Nonsense),
        ("absurd@xfer", What::Nonsense),
        ("unasked@xfer", What::Nonsense),
    ] {
        let fault = Fault {
            initiator: when,
            ..Fault::default()
        };
        let Some((record, verdict, failure)) = fault.fails(Role::Initiator, what).await else {
            return;
        };
        assert_eq!(verdict.status, Status::Skipped, "{when}");
        assert!(
            serde_json::to_vec(&record).unwrap().len() < 1 << 20,
            "{when}: a record stays bounded"
        );
        assert!(failure.detail.len() < 4096);
    }
    let fault = Fault {
        target: "exit@create",
        ..Fault::default()
    };
    fault.fails(Role::Target, What::AgentError).await;
}

#[tokio::test]
async fn a_crash_at_exit_is_told_and_harmless() {
    let fault = Fault {
        target: "crash-at-exit",
        ..Fault::default()
    };
    let Some((record, verdict)) = fault.run().await else {
        return;
    };
    assert_eq!(record.failure, None);
    assert!(
        verdict
            .caveats
            .iter()
            .any(|c| c.contains("crashed at exit (signal 11)")),
        "{:?}",
        verdict.caveats
    );
}

/// A connection that breaks after so many lines of standard output.
struct Cut(Local, usize);

impl Open for Cut {
    async fn open(&self, argv: &[String]) -> Result<Stream, OpenError> {
        use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
        let Stream {
            stdin,
            stdout,
            stderr,
            status,
        } = self.0.open(argv).await?;
        let (mut far, near) = tokio::io::duplex(1 << 16);
        let (gone, cut) = tokio::sync::oneshot::channel::<()>();
        let (mut lines, left) = (BufReader::new(stdout).lines(), self.1);
        let pump = tokio::spawn(async move {
            for _ in 0..left {
                let Ok(Some(line)) = lines.next_line().await else {
                    break;
                };
                let _ = far.write_all(format!("{line}\n").as_bytes()).await;
            }
            drop(far);
            let _ = gone.send(());
            // The other side of a broken connection notices nothing at first.
            std::future::pending::<()>().await;
            drop(lines);
        });
        let status = Box::pin(async move {
            let _ = cut.await;
            pump.abort();
            drop(status);
            Ended::Lost(Words::from("the API server went away"))
        });
        Ok(Stream {
            stdin,
            stdout: Box::new(near),
            stderr,
            status,
        })
    }
}

#[tokio::test]
async fn a_lost_connection_on_either_side_or_both() {
    let cut = |lines| Cut(here(), lines);
    let (fault, whole) = (Fault::default(), here());
    let Some((record, verdict)) = fault.run_in(&cut(3), &whole).await else {
        return;
    };
    let failure = record.failure.unwrap();
    assert_eq!(
        (failure.side, failure.what),
        (Role::Target, What::StreamLost),
        "{failure:?}"
    );
    assert_eq!(verdict.status, Status::Skipped);
    assert!(
        failure
            .also
            .iter()
            // Or it ended over words that nobody took any more.
            .any(|a| a.contains("initiator is alive") || a.contains("initiator as well")),
        "{failure:?}"
    );

    let (record, _) = fault.run_in(&whole, &cut(3)).await.unwrap();
    let failure = record.failure.unwrap();
    assert_eq!(
        (failure.side, failure.what),
        (Role::Initiator, What::StreamLost),
        "{failure:?}"
    );

    let (record, _) = fault.run_in(&cut(0), &cut(0)).await.unwrap();
    assert_eq!(record.failure.unwrap().what, What::StreamLost);
}

/// A directory with stand-ins for the libraries of a GPU driver, these of the two; none without a compiler.
fn gpu_libraries(names: &[&str]) -> Option<TempDir> {
    let dir = tempfile::tempdir().expect("a directory");
    for name in names {
        let source = format!(
            "{}/tests/support/gpu_standin/{name}.c",
            env!("CARGO_MANIFEST_DIR")
        );
        let made = std::process::Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .arg(dir.path().join(format!("{name}.so.1")))
            .arg(source)
            .status();
        match made {
            Ok(status) => assert!(status.success(), "{name} does not compile"),
            Err(e) => {
                skip::aloud(&format!("a stand-in for a GPU needs cc ({e})"));
                return None;
            }
        }
    }
    Some(dir)
}

/// Room is read through NVML before a context exists, since a context alone takes hundreds of megabytes of a full GPU.
#[tokio::test]
async fn a_gpu_is_used_where_it_has_room_and_left_alone_where_it_has_none() {
    const BOTH: [&str; 2] = ["libcuda", "libnvidia-ml"];
    let total: u64 = steps().iter().map(|s| s.bytes * s.descs).max().unwrap_or(0);
    let margin = Limits::default().gpu_margin;
    if python().is_none() {
        return;
    }
    let rows: [(&[&str], u64, bool, &str); 5] = [
        (&BOTH, total + margin, false, ""),
        (
            &BOTH,
            total + margin - 1,
            false,
            "bytes free; the transfer needs",
        ),
        (&BOTH, total + margin, true, "split (MIG)"),
        (
            &BOTH[..1],
            0,
            false,
            "libnvidia-ml.so.1 is not in the container",
        ),
        (&BOTH[1..], 0, false, "libcuda.so.1 is not in the container"),
    ];
    for (names, free, mig, why) in rows {
        let Some(libraries) = gpu_libraries(names) else {
            return;
        };
        let context = libraries.path().join("context");
        let mut place = here();
        let mut set = |name: &str, value: String| place.env.insert(name.to_owned(), value);
        set("LD_LIBRARY_PATH", libraries.path().display().to_string());
        set("GPU_STANDIN_FREE", free.to_string());
        set("GPU_STANDIN_CONTEXT", context.display().to_string());
        if mig {
            set("GPU_STANDIN_MIG", "1".to_owned());
        }
        let settings = Settings {
            memory: Memory::Auto,
            ..support::settings(&nonce(), steps())
        };
        let record = run(
            &support::end("a", &place, "python3"),
            &support::end("b", &place, "python3"),
            &settings,
        )
        .await;
        assert_eq!(record.failure, None, "{why}: {:#?}", record.target.log.tail);
        assert!(record.steps.iter().all(|step| step.verify.ok), "{why}");
        for end in [&record.target, &record.initiator] {
            let ready = end.ready.as_ref().expect("ready");
            let because = ready.host_memory_because.as_deref().unwrap_or_default();
            if why.is_empty() {
                assert_eq!((&*ready.seg, because), ("VRAM", ""));
                assert_eq!(ready.mem.gpu.as_deref(), Some("Stand-in GPU"));
                assert_eq!(
                    (ready.mem.free, ready.mem.dma_buf),
                    (Some(free), Some(true))
                );
                let counted = "nvlink/0000:3b:00.0";
                assert!(ready.counted.iter().any(|c| &**c == counted), "{ready:?}");
            } else {
                assert_eq!(&*ready.seg, "DRAM", "{why}");
                assert!(because.contains(why), "{because}");
            }
        }
        assert_eq!(
            context.exists(),
            why.is_empty(),
            "{why}: a context was made"
        );
    }
}
