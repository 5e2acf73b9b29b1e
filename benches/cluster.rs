//! What the cluster side costs, against a fake cluster in a process of its own: `cargo bench --bench cluster`.
//!
//! Checked, in the profile of the benches, which is what the README builds:
//!
//! - time: 20 pods at 50 ms each, 8 at a time, take 3 turns and less than 4 round trips; a whole `check` of them from its
//!   start to its report less than 5; a `check` of a thousand, 64 at a time, has looked into all of them after less than 20
//!   (what comes after is the machine's own work: judging and writing 25 MB);
//! - memory: a thousand machines of eight GPUs with a recording (`--save`) stay below 64 MB, all that is resident counted;
//! - requests: `check` lists the pods once (a page holds 250), and one container costs one exec;
//! - one probe takes less than 50 ms of processor time in dash and busybox, on the files of a machine of eight GPUs, beside
//!   what the tools take that it starts; bash is printed and not checked.
//!
//! Times are measured without a shell behind each exec: it is the client that is measured, and 8 shells on a machine of 2
//! cores wait for each other. Each is the best of three, since others use the machine too. With `--profile dev` everything
//! is printed and nothing but the requests is checked.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program for people who measure"
)]

#[expect(dead_code, reason = "only a part of the fake cluster is needed here")]
#[path = "../tests/fake/mod.rs"]
mod fake;
#[expect(dead_code, reason = "only a part of it is needed here")]
#[path = "../tests/probe/machine.rs"]
mod machine;

use dynamo_interconnect_check::ask::{self, Kind};
use dynamo_interconnect_check::catalogue;
use dynamo_interconnect_check::cluster::connect::{Cluster, Options, connect};
use dynamo_interconnect_check::cluster::kubeconfig::Surroundings;
use dynamo_interconnect_check::cluster::pods::{by_selector, of_deployment};
use dynamo_interconnect_check::cluster::run::{Answer, Schedule, side_by_side};
use dynamo_interconnect_check::probe::exec_end::End;
use dynamo_interconnect_check::probe::pod_exec::{ExecTarget, Limits, run_script};
use dynamo_interconnect_check::probe::{local, script};
use fake::cluster::FakeCluster;
use fake::kubelet::Exec;
use fake::pod::FakePod;
use machine::machine;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long each exec takes in the pod.
const EXEC: Duration = Duration::from_millis(50);
/// Output of one probe.
const OUTPUT: usize = 64 << 10;
/// A pod object on a real cluster is about this large.
const OBJECT: usize = 9 << 10;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, role, pods, kind] = arguments.as_slice()
        && role == "serve"
    {
        return serve(pods.parse().unwrap(), kind).await;
    }
    for shell in [&["dash"][..], &["busybox", "sh"], &["bash"]] {
        let before = children_ticks();
        let printed = probe_in(shell, TIMES);
        let each = ticks_each(before);
        let (tools, own) = tools_of(&printed);
        let beside = each - own;
        match printed.len() {
            0 => println!("the probe in {shell:?}: there is no such shell here"),
            n => println!(
                "the probe in {shell:?}: {beside:.0} ms of processor time beside {own:.0} ms for {}, {n} bytes",
                tools.join(", ")
            ),
        }
        promise(
            beside < 50.0 || shell[0] == "bash",
            &format!("the probe takes {beside:.0} ms in {shell:?}"),
        );
    }
    let one = best(3, async || measure(20, 8, "reply").await).await;
    promise(one < 4.0, &format!("20 pods take {one:.1} round trips"));
    measure(20, 8, "shell").await;
    measure(1000, 8, "reply").await;
    let one = best(3, async || measure(1000, 64, "reply").await).await;
    promise(one < 20.0, &format!("1000 pods take {one:.1} round trips"));

    let one = round_trip_of_probe().await;
    println!("one exec of the whole probe at 50 ms: {one:.1?}");
    let run = best_run(3, 20, 8, "check", one);
    promise(
        run.trips < 5.0,
        &format!("check of 20 workers takes {:.1} round trips", run.trips),
    );
    for (command, parallel) in [("check", 64), ("node", 8), ("node", 64)] {
        let run = best_run(
            if parallel == 64 { 3 } else { 1 },
            1000,
            parallel,
            command,
            one,
        );
        let peak = run.peak_kib as f64 / 1024.0;
        promise(
            peak < 64.0,
            &format!("{command} of 1000, {parallel} at a time, takes {peak:.1} MB"),
        );
        promise(
            parallel < 64 || run.probing < 20.0,
            &format!(
                "{command} looks into 1000 for {:.1} round trips",
                run.probing
            ),
        );
    }
}

/// Checked in the profile that people run.
fn promise(kept: bool, what: &str) {
    assert!(kept || cfg!(debug_assertions), "{what}");
}

async fn best(times: usize, measure: impl AsyncFn() -> f64) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..times {
        best = best.min(measure().await);
    }
    best
}

/// `kind`: a real `shell` behind each exec, or a `reply` without any process, where a thousand shells would be measured
/// instead of the client.
async fn measure(pods: usize, parallel: usize, kind: &str) -> f64 {
    let server = Server::start(pods, kind);
    let options = Options {
        kubeconfig: Some(server.kubeconfig.clone()),
        ..Options::default()
    };
    let cluster = connect(&options, &Surroundings::default()).await.unwrap();
    let started = Instant::now();
    let found = by_selector(&cluster, "llm", &of_deployment("g"), &|_| true)
        .await
        .unwrap();
    let listed = started.elapsed();
    let targets: Vec<ExecTarget> = found
        .into_iter()
        .map(|pod| ExecTarget {
            namespace: pod.namespace,
            pod: pod.name,
            container: Some("main".to_owned()),
        })
        .collect();
    assert_eq!(targets.len(), pods);
    let one = round_trip(&cluster, &targets[0]).await;
    let schedule = Schedule {
        parallel: NonZeroUsize::new(parallel).unwrap(),
        ..Schedule::default()
    };
    let started = Instant::now();
    let work = move |target: ExecTarget| {
        let cluster = cluster.clone();
        async move { probe(&cluster, &target).await }
    };
    let answers = side_by_side(targets, schedule, work, |_, _| {}).await;
    let all = started.elapsed();
    assert!(answers.iter().all(|a| *a == Answer::Done(OUTPUT)));
    let trips = all.as_secs_f64() / one.as_secs_f64();
    println!(
        "{pods} pods ({kind}), {parallel} at a time: list {listed:.1?}, one exec {one:.1?}, all execs {all:.1?} = {trips:.1} round trips"
    );
    trips
}

/// One run of the binary as a whole.
struct Run {
    trips: f64,
    /// Round trips from the first exec to the end of the last.
    probing: f64,
    peak_kib: u64,
}

/// The quickest of a few runs of the binary against a deployment of this many workers, half of them for prefill.
fn best_run(times: usize, workers: usize, parallel: usize, command: &str, one: Duration) -> Run {
    let runs = (0..times).map(|_| run(workers, parallel, command, one));
    runs.min_by(|a, b| a.trips.total_cmp(&b.trips)).unwrap()
}

fn run(workers: usize, parallel: usize, command: &str, one: Duration) -> Run {
    let server = Server::start(workers, "answers");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("report.json");
    let mut program = Command::new(env!("CARGO_BIN_EXE_dynamo-interconnect-check"));
    match command {
        "check" => program.args(["check", "g"]),
        _ => program.args(["node", "-l", &format!("{GRAPH}=g")]),
    };
    program.args([
        "-n",
        "llm",
        "-o",
        "json",
        "--parallel",
        &parallel.to_string(),
    ]);
    program.arg("--kubeconfig").arg(&server.kubeconfig);
    // Of twenty the time is in question, and writing to a disk takes its own.
    if workers > 20 {
        program.arg("--save").arg(folder.path().join("r.tar.zst"));
    }
    program
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(&out).unwrap());
    let started = Instant::now();
    let mut child = program.spawn().unwrap();
    let mut peak_kib = 0;
    let code = loop {
        if let Some(ended) = child.try_wait().unwrap() {
            break ended.code();
        }
        peak_kib = peak_kib.max(peak_memory_kib(child.id()));
        std::thread::sleep(Duration::from_millis(1));
    };
    let took = started.elapsed();
    let report: Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    let reached = |f: &&Value| f["name"] == "node:target" && f["status"] == "ok";
    let checks = report["checks"].as_array().unwrap();
    assert_eq!(
        checks.iter().filter(reached).count(),
        workers,
        "{code:?}: {}",
        report["errors"]
    );
    let mut counts = server.finish();
    // The last exec began then, and took one more.
    let probing = counts.remove(SPAN).unwrap() as f64 / 1e6 / one.as_secs_f64() + 1.0;
    assert_eq!(counts["exec"], workers);
    assert_eq!(counts["list pods"], workers.div_ceil(250));
    let trips = took.as_secs_f64() / one.as_secs_f64();
    println!(
        "{command} of {workers} workers, {parallel} at a time: {took:.1?} = {trips:.1} round trips, {probing:.1} of them for execs; at most {:.1} MB; {counts:?}",
        peak_kib as f64 / 1024.0
    );
    Run {
        trips,
        probing,
        peak_kib,
    }
}

const NONCE: &str = "0123456789abcdef0123456789abcdef";

/// Runs the probe in this shell on the file tree of a machine of eight GPUs, so many times; what it printed last.
fn probe_in(shell: &[&str], times: usize) -> String {
    let root = machine("hgx-h100");
    let options = script::Options {
        variables: &catalogue::all().map(|v| v.name).collect::<Vec<_>>(),
        nonce: NONCE,
        deadline: Duration::from_secs(30),
        root: root.path().to_str().unwrap(),
    };
    let script = script::Script::new(ask::ALL, &options).unwrap();
    let mut printed = Vec::new();
    for _ in 0..times {
        let mut command = Command::new(shell[0]);
        command.args(&shell[1..]).arg("-s");
        printed = local::run(command, &script.text, Duration::from_secs(60)).stdout;
    }
    String::from_utf8_lossy(&printed).into_owned()
}

/// How often each is run whose processor time is measured.
const TIMES: usize = 20;

/// The tools that were run for these answers, and the milliseconds of processor time that they take by themselves.
fn tools_of(printed: &str) -> (Vec<&'static str>, f64) {
    let ran = ask::ALL.iter().filter_map(|ask| match ask.kind {
        Kind::Tool { argv, .. } if printed.contains(&format!("\n{NONCE} end {} ok\n", ask.id)) => {
            Some(argv)
        }
        _ => None,
    });
    let before = children_ticks();
    let mut names = Vec::new();
    for argv in ran {
        names.push(argv[0]);
        for _ in 0..TIMES {
            let mut tool = Command::new(argv[0]);
            tool.args(&argv[1..]).stdin(Stdio::null());
            tool.output().unwrap();
        }
    }
    (names, ticks_each(before))
}

fn ticks_each(before: u64) -> f64 {
    (children_ticks() - before) as f64 * 10.0 / TIMES as f64
}

/// Processor time of ended children, the tools that the probe starts among them: hundredths of a second, `proc(5)`.
fn children_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    fields[13..15]
        .iter()
        .map(|f| f.parse::<u64>().unwrap())
        .sum()
}

/// What the probe prints on a machine of eight GPUs.
fn answers() -> Vec<u8> {
    probe_in(&["sh"], 1)
        .replace(NONCE, "@NONCE@")
        // No two machines are the same.
        .replace(":c203:00ab:", ":c203:@VARY@:")
        .replace("GPU-00000000-", "GPU-0000@VARY@-")
        .into_bytes()
}

/// The median of a few execs, one after another: the first ones also open connections.
async fn round_trip(cluster: &Cluster, target: &ExecTarget) -> Duration {
    let mut times = Vec::new();
    for _ in 0..7 {
        let started = Instant::now();
        probe(cluster, target).await;
        times.push(started.elapsed());
    }
    times.sort();
    times[times.len() / 2]
}

/// The same with all that the probe prints.
async fn round_trip_of_probe() -> Duration {
    let server = Server::start(1, "answers");
    let options = Options {
        kubeconfig: Some(server.kubeconfig.clone()),
        ..Options::default()
    };
    let cluster = connect(&options, &Surroundings::default()).await.unwrap();
    let target = ExecTarget {
        namespace: "llm".to_owned(),
        pod: "w-0000".to_owned(),
        container: Some("main".to_owned()),
    };
    let script = format!(
        "\nNONCE=0123456789abcdef\n{}exit 0\n",
        "# as long as a real one\n".repeat(1500)
    );
    let mut times = Vec::new();
    for _ in 0..7 {
        let started = Instant::now();
        let outcome = run_script(&cluster.client, &target, &script, &Limits::default()).await;
        assert_eq!(outcome.end, End::Exit(0));
        times.push(started.elapsed());
    }
    times.sort();
    times[times.len() / 2]
}

/// One exec, reduced at once to what is kept of it. The script is as long as a real one.
async fn probe(cluster: &Cluster, target: &ExecTarget) -> usize {
    let mut script = "# as long as a real one\n".repeat(600);
    script.push_str(&format!(
        "sleep {}; head -c {OUTPUT} /dev/zero; exit 0\n",
        EXEC.as_secs_f64()
    ));
    let outcome = run_script(&cluster.client, target, &script, &Limits::default()).await;
    assert_eq!(outcome.end, End::Exit(0));
    outcome.stdout.len()
}

/// Microseconds from the first exec to the last, beside the numbers of requests.
const SPAN: &str = "microseconds between execs";
const GRAPH: &str = "nvidia.com/dynamo-graph-deployment-name";

async fn serve(pods: usize, kind: &str) {
    let exec = match kind {
        "shell" => Exec::Shell,
        "answers" => Exec::Answers(Arc::new(answers()), EXEC),
        _ => Exec::Reply(vec![b'x'; OUTPUT], EXEC),
    };
    let role = |n: usize| {
        if n.is_multiple_of(2) {
            "prefill"
        } else {
            "decode"
        }
    };
    let container = json!({
        "name": "main", "image": "example.org/main:1", "command": ["python3", "-m", "dynamo.vllm"],
        "resources": {"limits": {"nvidia.com/gpu": "8", "rdma/ib": "8"}},
        "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
        "env": [{"name": "UCX_TLS", "value": "rc,cuda_copy,cuda_ipc"}],
    });
    let component = |role: &str| {
        json!({
            "name": role, "type": role, "replicas": pods / 2,
            "podTemplate": {"spec": {"containers": [container]}},
        })
    };
    let graph = json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
        "metadata": {"name": "g", "namespace": "llm"},
        "spec": {"backendFramework": "vllm", "components": [component("prefill"), component("decode")]},
    });
    let path = "/apis/nvidia.com/v1beta1/namespaces/llm/dynamographdeployments/g";
    let mut builder = FakeCluster::builder().object(path, graph);
    for n in 0..pods {
        let pod = FakePod::new("llm", &format!("w-{n:04}"), "/")
            .label(GRAPH, "g")
            .label("nvidia.com/dynamo-component", role(n))
            .label("nvidia.com/dynamo-component-type", role(n))
            .set("/spec/nodeName", json!(format!("node-{n:04}")))
            .set("/spec/containers/0", container.clone())
            .set("/metadata/annotations/applied", "x".repeat(OBJECT).into())
            .exec(exec.clone());
        builder = builder.with(pod);
    }
    let fake = builder.start().await;
    println!("{}", fake.kubeconfig().display());
    // Until standard input closes: until the client has ended.
    let _ = tokio::task::spawn_blocking(|| std::io::stdin().lock().lines().count()).await;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for request in fake.requests() {
        let kind = match request.path.as_str() {
            path if path.ends_with("/exec") => "exec",
            path if path.ends_with("/pods") => "list pods",
            path if path.ends_with("selfsubjectaccessreviews") => "access review",
            path => path.trim_start_matches('/'),
        };
        *counts.entry(kind.to_owned()).or_default() += 1;
    }
    let requests = fake.requests();
    let execs = requests.iter().filter(|r| r.path.ends_with("/exec"));
    let times: Vec<Instant> = execs.map(|r| r.at).collect();
    let span = times.iter().max().zip(times.iter().min());
    let span = span.map_or(Duration::ZERO, |(last, first)| *last - *first);
    counts.insert(SPAN.to_owned(), usize::try_from(span.as_micros()).unwrap());
    println!("{}", json!(counts));
}

/// The fake cluster in a process of its own, so that its memory and time are not counted.
struct Server {
    child: Child,
    out: BufReader<ChildStdout>,
    kubeconfig: PathBuf,
}

impl Server {
    fn start(pods: usize, kind: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["serve", &pods.to_string(), kind])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        Self {
            child,
            out,
            kubeconfig: PathBuf::from(line.trim()),
        }
    }

    /// How often what was asked.
    fn finish(mut self) -> BTreeMap<String, usize> {
        drop(self.child.stdin.take());
        let mut text = String::new();
        self.out.read_to_string(&mut text).unwrap();
        serde_json::from_str(&text).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Zero where it has just ended.
fn peak_memory_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or(0)
}
