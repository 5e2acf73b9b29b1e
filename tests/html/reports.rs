//! Reports that are built here: one with hostile text in every place, a rack of a thousand workers, and small ones.

use dynamo_interconnect_check::report::{
    Change, ChangeKind, Changes, DomainReport, EnvironmentReport, Evidence, EvidenceSource, Fast,
    Finding, Fingerprint, HostReport, InputError, KvBudget, KvPath, LaneTime, LayerReport,
    NodeReport, NodesReport, Note, PairReport, Pairs, Parts, PortPrint, Report, SkipReason,
    SourceRef, Status, Trust, VariableReport, WorkerReport, WorkloadReport,
};
use dynamo_interconnect_check::snapshot::{Place, PlaceKind};
use dynamo_interconnect_check::target::Target;
use std::collections::BTreeMap;

/// How the words on a transfer begin that took the wrong lane.
const WRONG: &str = "Works, wrong lane: 64 MiB went over tcp/eth0";

pub fn pod(name: &str, role: &str) -> Target {
    let place = Place {
        kind: PlaceKind::Pod,
        workload: Some("g".to_owned()),
        namespace: Some("llm".to_owned()),
        pod: name.to_owned(),
        container: None,
        node: None,
        role: Some(role.to_owned()),
    };
    Target::pod(&place, 1)
}

pub fn finding(name: &str, status: Status, target: Target, detail: &str) -> Finding {
    Finding {
        id: "X001",
        name: name.to_owned().into(),
        status,
        detail: detail.to_owned(),
        target: target.into(),
        kv_path: KvPath::Required,
        evidence: vec![],
        fix: None,
        reason: (status == Status::Skipped).then_some(SkipReason::Denied),
        causes: &[],
        order: 1,
        rare: Parts {
            headline: detail.to_owned(),
            ..Parts::default()
        }
        .into(),
        left_out: None,
    }
}

pub fn pair(initiator: &str, target: &str, status: Status, gbytes: f64) -> PairReport {
    let proven = status == Status::Ok;
    PairReport {
        initiator: initiator.to_owned(),
        target: target.to_owned(),
        status,
        proven,
        unproven: vec![],
        lane: if proven {
            "rc_mlx5/mlx5_0:1 zero-copy".to_owned()
        } else {
            "tcp/eth0".to_owned()
        },
        memory: "gpu".to_owned(),
        write_gbytes: Some(gbytes),
        read_gbytes: Some(gbytes - 0.25),
        of_line_rate: proven.then_some(0.92),
        steps: vec!["WRITE 64 x 1048576 bytes".to_owned()],
    }
}

/// The finding that says that a transfer took the wrong lane.
pub fn wrong_lane(pair: &PairReport) -> Finding {
    let target = Target {
        ordinal: 1,
        ..Target::pair(&pair.initiator, &pair.target, None)
    };
    finding("kv-transfer", Status::Fail, target, WRONG)
}

fn worker(role: &str, replicas: u64) -> WorkerReport {
    WorkerReport {
        name: role.to_owned(),
        role: role.to_owned(),
        engine: Some("vllm".to_owned()),
        replicas,
        nodes: 1,
        gpus: Some(8),
        env: BTreeMap::new(),
        rdma_resources: BTreeMap::new(),
        claims: BTreeMap::new(),
        ipc_lock: true,
        privileged: false,
        host_network: false,
        host_ipc: false,
        shm: None,
        kv_transfer: serde_json::Map::new(),
        reach: vec!["device-plugin".to_owned()],
    }
}

pub fn workload(prefill: u64, decode: u64) -> WorkloadReport {
    WorkloadReport {
        source: SourceRef {
            path: "deploy.yaml".to_owned(),
            line: 1,
        },
        api_version: "nvidia.com/v1beta1".to_owned(),
        kind: "DynamoGraphDeployment".to_owned(),
        name: "g".to_owned(),
        namespace: Some("llm".to_owned()),
        framework: None,
        disaggregated: true,
        multinode: false,
        trust: Trust::Unproven,
        workers: vec![worker("prefill", prefill), worker("decode", decode)],
        ordinal: 1,
    }
}

pub fn print(pod: &str, role: &str, node: &str) -> Fingerprint {
    let port = |n: usize| PortPrint {
        port: format!("mlx5_{n}:1"),
        state: Some("ACTIVE".to_owned()),
        gbps: Some(400.0),
        link_layer: Some("InfiniBand".to_owned()),
    };
    Fingerprint {
        pod: pod.to_owned(),
        component: Some(role.to_owned()),
        role: Some(role.to_owned()),
        node: Some(node.to_owned()),
        ports: Some((0..8).map(port).collect()),
        ..Fingerprint::default()
    }
}

/// Two prefill and two decode pods: one lane proven, one wrong, two not tried.
pub fn square() -> Report {
    let made = vec![
        pair("decode-0", "prefill-0", Status::Ok, 46.0),
        pair("decode-1", "prefill-0", Status::Fail, 1.0),
    ];
    let mut checks = vec![wrong_lane(&made[1])];
    for (name, role) in [
        ("prefill-0", "prefill"),
        ("prefill-1", "prefill"),
        ("decode-0", "decode"),
        ("decode-1", "decode"),
    ] {
        checks.push(finding(
            "ib-devices",
            Status::Ok,
            pod(name, role),
            "8 devices",
        ));
    }
    let mut report = Report::with_pairs(
        "check",
        vec![workload(2, 2)],
        checks,
        vec![],
        vec![],
        Pairs::of(made, 4),
    );
    report.fingerprint = vec![
        print("prefill-0", "prefill", "node-a"),
        print("prefill-1", "prefill", "node-a"),
        print("decode-0", "decode", "node-a"),
        print("decode-1", "decode", "node-b"),
    ];
    report
}

/// Text that would act if one place forgot to escape it. `n` tells the places apart.
pub fn hostile(n: usize) -> String {
    format!(
        "<{n}\"'&\u{202e}\u{1b}><script>window.canary={n}</script><img src=x onerror=window.canary={n}>{{{n}}}</style></svg>--><b>"
    )
}

/// Every field that holds text from outside holds [`hostile`] text. Returns how many there are.
pub fn hostile_everywhere() -> (Report, usize) {
    let mut n = 0;
    let mut bad = || {
        n += 1;
        hostile(n)
    };
    let mut w = workload(1, 1);
    (w.name, w.namespace) = (bad(), Some(bad()));
    for worker in &mut w.workers {
        (worker.name, worker.engine) = (bad(), Some(bad()));
        worker.reach = vec![bad()];
    }
    let (left, right) = (bad(), bad());
    let mut made = vec![pair(&right, &left, Status::Fail, 1.0)];
    (made[0].lane, made[0].memory, made[0].steps) = (bad(), bad(), vec![bad()]);
    let mut checks = vec![];
    for status in [Status::Fail, Status::Warn, Status::Skipped, Status::Ok] {
        let mut f = finding(&bad(), status, pod(&left, "prefill"), &bad());
        f.fix = Some(bad());
        (f.rare.paste, f.rare.headline) = (Some(bad()), bad());
        f.evidence = vec![
            Evidence {
                source: EvidenceSource::Manifest,
                path: Some(bad()),
                line: Some(7),
                column: None,
                ask: None,
                excerpt: bad(),
            },
            Evidence {
                source: EvidenceSource::Snapshot,
                path: None,
                line: None,
                column: None,
                ask: Some(bad().into()),
                excerpt: bad(),
            },
        ];
        checks.push(f);
    }
    let mut follows = finding(&bad(), Status::Fail, pod(&left, "prefill"), &bad());
    follows.id = "X002";
    follows.rare.follows = vec![checks[0].name.to_string()];
    checks.push(follows);
    let errors = vec![InputError {
        object: bad(),
        message: bad(),
    }];
    let notes = vec![Note {
        object: bad(),
        message: bad(),
    }];
    let mut report =
        Report::with_pairs("check", vec![w], checks, errors, notes, Pairs::of(made, 2));
    report.next = Some(format!("apply 1, then `{}`", bad()));
    let mut print = print(&left, &bad(), &bad());
    print.component = Some(bad());
    print.versions = [(bad(), bad())].into();
    print.ports.as_mut().unwrap()[0].link_layer = Some(bad());
    report.fingerprint = vec![print];
    report.changes = Some(Changes {
        baseline: bad(),
        tool_version: "1".to_owned(),
        trust: bad(),
        changes: vec![Change {
            kind: ChangeKind::Lane,
            subject: bad(),
            what: bad(),
            was: bad(),
            now: bad(),
        }],
        not_compared: vec![bad()],
        speed_threshold: "10 %",
    });
    report.kv_budget = Some(KvBudget {
        isl: 8000,
        kv_bytes_per_token: Some(131_072),
        bytes_source: bad(),
        bytes: Some(1_048_576_000),
        parts: 2,
        parts_source: bad(),
        assumed: vec![bad()],
        may_be_half: false,
        parts_assumed: false,
        slowest: Some(LaneTime {
            gbytes: 1.0,
            measured: true,
            of: bad(),
            added_ms: 1048.0,
        }),
        fastest: Some(LaneTime {
            gbytes: 46.0,
            measured: false,
            of: bad(),
            added_ms: 22.0,
        }),
        slo_ms: Some(500),
        formula: "bytes / rate",
        missing: vec![bad()],
    });
    report.nodes = Some(NodesReport {
        nodes: vec![NodeReport {
            name: bad(),
            schedulable: false,
            gpus: 8,
            product: Some(bad()),
            rdma: [(bad(), bad())].into(),
            clique: Some(bad()),
            zone: Some(bad()),
            rack: Some(bad()),
            instance_type: None,
            runs: vec![],
            hosts: vec![HostReport {
                component: bad(),
                role: "decode".to_owned(),
                fast: Fast::No,
                reason: bad(),
            }],
        }],
        others: 3,
        compute_domains: vec![DomainReport {
            name: bad(),
            status: bad(),
            wanted: 4,
            nodes: BTreeMap::new(),
        }],
        missing: vec![bad()],
    });
    let layer = |value: String| LayerReport {
        layer: "process",
        value: Some(value),
        reference: None,
        withheld: None,
    };
    let variable = |value: Option<String>, reference: Option<String>, layers: Vec<LayerReport>| {
        VariableReport {
            value,
            reference,
            withheld: None,
            set_by: Some("recipe"),
            drifts: true,
            layers,
        }
    };
    report.environment = vec![EnvironmentReport {
        target: pod(&bad(), "prefill"),
        variables: [
            (
                bad(),
                variable(Some(bad()), None, vec![layer(bad()), layer(bad())]),
            ),
            (bad(), variable(None, Some(bad()), vec![])),
        ]
        .into(),
    }];
    (report, n)
}

/// So many prefill and as many decode workers, each with findings, variables and transfers of its own.
pub fn many(each: usize) -> Report {
    let name = |role: &str, n: usize| format!("vllm-disagg-router-0-{role}-7c9f6d5b8-x{n:04}");
    let (mut checks, mut made) = (vec![], vec![]);
    for n in 0..each {
        for role in ["prefill", "decode"] {
            for check in 0..30 {
                let (status, detail) = match (check, n % 10) {
                    (0, 3) => (
                        Status::Fail,
                        format!("port mlx5_0:1 of {} is DOWN", name(role, n)),
                    ),
                    (1, 5) => (
                        Status::Warn,
                        format!("{} has {n} of 600 links", name(role, n)),
                    ),
                    (2, _) => (Status::Skipped, format!("{}: no permission", name(role, n))),
                    _ => (
                        Status::Ok,
                        format!("{} is well, check {check}", name(role, n)),
                    ),
                };
                let mut f = finding(
                    &format!("check-{check}"),
                    status,
                    pod(&name(role, n), role),
                    &detail,
                );
                f.evidence = vec![Evidence {
                    source: EvidenceSource::Snapshot,
                    path: None,
                    line: None,
                    column: None,
                    ask: Some("/sys/class/infiniband".into()),
                    excerpt: "a line that was read\n".repeat(20),
                }];
                checks.push(f);
            }
        }
        for m in 0..each.min(60) {
            let status = if n % 50 == 7 {
                Status::Fail
            } else {
                Status::Ok
            };
            made.push(pair(
                &name("decode", n),
                &name("prefill", (n + m * 7) % each),
                status,
                40.0 + (m % 6) as f64,
            ));
        }
    }
    checks.extend(
        made.iter()
            .filter(|p| p.status == Status::Fail)
            .map(wrong_lane),
    );
    let size = each as u64;
    let mut report = Report::with_pairs(
        "check",
        vec![workload(size, size)],
        checks,
        vec![],
        vec![],
        Pairs::of(made, each * each),
    );
    for n in 0..each {
        for role in ["prefill", "decode"] {
            report
                .fingerprint
                .push(print(&name(role, n), role, &format!("{role}-node-{n}")));
            let value = VariableReport {
                value: Some(format!("10.0.{}.{}", n / 250, n % 250)),
                reference: None,
                withheld: None,
                set_by: Some("container"),
                drifts: false,
                layers: vec![],
            };
            report.environment.push(EnvironmentReport {
                target: pod(&name(role, n), role),
                variables: [("VLLM_NIXL_SIDE_CHANNEL_HOST".to_owned(), value)].into(),
            });
        }
    }
    report
}
