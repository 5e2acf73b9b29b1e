//! Verdicts on records: the table of what counts as proof.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[expect(dead_code, reason = "only a part of it is needed here")]
#[path = "support/transfer.rs"]
mod support;

use dynamo_interconnect_check::report::GapKind;
use dynamo_interconnect_check::report::{SkipReason, Status};
use dynamo_interconnect_check::transfer::protocol::{
    Counters, Cpu, Kind, Latency, Memory, MemoryFacts, PortFacts, Ready, Role, Verify, Xfer,
};
use dynamo_interconnect_check::transfer::record::{
    EndRecord, FORMAT, Failure, LogText, Stage, StepRecord, TransferRecord, What,
};
use dynamo_interconnect_check::transfer::{Intent, Path, Verdict, judge};

const BYTES: u64 = 64 << 20;

fn log(name: &str) -> String {
    std::fs::read_to_string(format!(
        "{}/tests/support/ucx_logs/{name}.txt",
        env!("CARGO_MANIFEST_DIR")
    ))
    .unwrap()
}

fn hca(device: &str) -> PortFacts {
    PortFacts {
        device: device.into(),
        port: 1,
        state: Some("4: ACTIVE".into()),
        rate: Some("400 Gb/sec (4X NDR)".into()),
        link_layer: Some("InfiniBand".into()),
        hardware: true,
        granted: true,
        driver: Some("mlx5_core".into()),
    }
}

fn ready(seg: &str) -> Ready {
    Ready {
        memlock: [-1, -1],
        mem: MemoryFacts {
            seg: seg.into(),
            ..MemoryFacts::default()
        },
        ports: vec![hca("mlx5_0"), hca("mlx5_1")],
        counted: ["net/eth0", "ib/mlx5_0:1", "ib/mlx5_1:1"]
            .map(Into::into)
            .to_vec(),
        seg: seg.into(),
        ..Ready::default()
    }
}

fn step(kind: Kind, gbps: f64, delta: &[(&str, i64)]) -> StepRecord {
    let verify = Verify {
        ok: true,
        compared: BYTES,
        bad_at: None,
        zeros: None,
        earlier: None,
        bad_blocks: None,
    };
    let xfer = Xfer {
        kind,
        seed: None,
        bytes: BYTES,
        descs: 1,
        iters: 9,
        first_us: 900.0,
        moved: BYTES * 10,
        gbps,
        lat_us: Latency {
            min: 1.0,
            p50: 2.0,
            p90: 3.0,
            p99: 4.0,
            max: 5.0,
        },
        delta: counters(delta),
        cpu: Cpu {
            load1: 0.5,
            cpus: 8,
            quota: None,
            throttled: None,
        },
        verify: None,
        backend: None,
    };
    StepRecord {
        xfer,
        target_delta: None,
        verify,
        verified_by: Role::Target,
    }
}

fn counters(delta: &[(&str, i64)]) -> Counters {
    delta.iter().map(|(name, n)| ((*name).into(), *n)).collect()
}

/// A transfer of GPU memory over two rails, as it should be.
fn good() -> TransferRecord {
    let moved = (BYTES * 10) as i64;
    let end = |label: &str, text: &str| EndRecord {
        label: label.into(),
        ready: Some(ready("VRAM")),
        log: LogText {
            lane: text.to_owned(),
            ..LogText::default()
        },
        ..EndRecord::default()
    };
    TransferRecord {
        format: FORMAT,
        backend: "UCX".into(),
        memory: Memory::Auto,
        same_container: false,
        target: end("decode-0", ""),
        initiator: end("prefill-0", &log("invented-rc-mlx5")),
        connected_s: Some(0.1),
        steps: vec![step(
            Kind::Write,
            380.0,
            &[("ib/mlx5_0:1/tx_bytes", moved + 1000)],
        )],
        failure: None,
    }
}

fn host(mut record: TransferRecord) -> TransferRecord {
    for end in [&mut record.target, &mut record.initiator] {
        end.ready = Some(ready("DRAM"));
    }
    record
}

fn with_log(name: &str, delta: &[(&str, i64)]) -> TransferRecord {
    let mut record = host(good());
    record.initiator.log.lane = log(name);
    record.steps = vec![step(Kind::Write, 10.0, delta)];
    record
}

fn judged(record: &TransferRecord) -> Verdict {
    judge(record, &Intent::default())
}

const FULL: i64 = (BYTES * 10) as i64;

#[test]
fn rdma_of_gpu_memory_with_counters_that_agree_is_proven() {
    let verdict = judged(&good());
    assert_eq!(
        (verdict.status, verdict.proven),
        (Status::Ok, true),
        "{}",
        verdict.detail
    );
    assert!(
        verdict.detail.contains("counters agree"),
        "{}",
        verdict.detail
    );
    assert_eq!(verdict.steps[0].of_line_rate, Some(0.95));
    // Bytes for what was measured, bits for ports, and both where one is held against the other.
    let line = &verdict.steps[0].line;
    assert!(
        line.contains("; 47.50 GB/s (380.0 Gb/s, 95% of the line rate of 400 Gb/s); "),
        "{line}"
    );
}

/// Right bytes that prove no lane say why, what is most in the way first.
#[test]
fn why_right_bytes_prove_nothing() {
    let gaps = |record: &TransferRecord, intent: &Intent| {
        let verdict = judge(record, intent);
        assert!(!verdict.proven, "{}", verdict.detail);
        let kinds = verdict.unproven.iter().map(|gap| gap.kind);
        kinds.collect::<Vec<_>>()
    };
    let usual = Intent::default();
    assert_eq!(judge(&good(), &usual).unproven, [], "it is proven");
    let mut host = good();
    host.target.ready.as_mut().unwrap().seg = "DRAM".into();
    assert_eq!(gaps(&host, &usual), [GapKind::HostMemory]);
    host.same_container = true;
    assert_eq!(
        gaps(&host, &usual),
        [GapKind::OneContainer, GapKind::HostMemory]
    );
    let other = Intent {
        backend: Some("LIBFABRIC".to_owned()),
        ..Intent::default()
    };
    assert_eq!(gaps(&good(), &other), [GapKind::OtherBackend]);
    let nvlink = Intent {
        path: Path::MultiNodeNvlink,
        ..Intent::default()
    };
    assert_eq!(gaps(&good(), &nvlink), [GapKind::OtherLane]);
    let mut soft = good();
    soft.initiator.ready.as_mut().unwrap().ports[0].hardware = false;
    assert_eq!(gaps(&soft, &usual), [GapKind::SoftwareVerbs]);
    // What failed or is not known says so itself.
    let mut unknown = good();
    unknown.initiator.log.lane.clear();
    assert_eq!(gaps(&unknown, &usual), []);
}

#[test]
fn host_memory_that_is_meant_needs_no_excuse() {
    let mut record = host(good());
    for end in [&mut record.target, &mut record.initiator] {
        end.ready.as_mut().unwrap().host_memory_because = Some("no GPU driver".into());
    }
    let gpu_path = |v: &Verdict| v.caveats.iter().any(|c| c.contains("GPU path"));
    assert!(gpu_path(&judged(&record)));
    assert!(!gpu_path(&support::judged_on_host(&record)));
}

#[test]
fn counters_that_cannot_be_read_are_said_and_do_not_hinder() {
    let mut record = good();
    record.initiator.ready.as_mut().unwrap().counted.clear();
    let verdict = judged(&record);
    assert_eq!((verdict.status, verdict.proven), (Status::Ok, true));
    assert!(
        verdict.detail.contains("cannot confirm"),
        "{}",
        verdict.detail
    );
}

/// The bytes of a WRITE leave the initiator and arrive at the target, those of a READ the other way round: a counter of the other
/// direction says nothing of them, and one that cannot be read does not contradict.
#[test]
fn only_counters_of_the_direction_of_the_bytes_are_asked() {
    let with = |kind, initiator: &str, target: &str| {
        let mut record = host(good());
        record.initiator.log.lane = log("invented-rc-mlx5-one-rail");
        let (sent, received) = match kind {
            Kind::Write => (initiator, target),
            Kind::Read => (target, initiator),
        };
        let moved = |counter: &str, is: bool| match is {
            true => counters(&[(&format!("ib/mlx5_0:1/{counter}"), FULL)]),
            false => Counters::default(),
        };
        let counts = |entry: &str, counter: &str| !entry.contains('/') || entry.ends_with(counter);
        let sent = moved("tx_bytes", counts(sent, "tx_bytes"));
        let received = moved("rx_bytes", counts(received, "rx_bytes"));
        let (own, other) = match kind {
            Kind::Write => (sent, received),
            Kind::Read => (received, sent),
        };
        record.steps = vec![step(kind, 380.0, &[])];
        record.steps[0].xfer.delta = own;
        record.steps[0].target_delta = Some(other);
        for (end, entry) in [
            (&mut record.initiator, initiator),
            (&mut record.target, target),
        ] {
            let ready = end.ready.as_mut().unwrap();
            ready.ports.truncate(1);
            ready.counted = vec!["net/eth0".into(), format!("ib/mlx5_0:1{entry}").into()];
        }
        let verdict = support::judged_on_host(&record);
        let agrees = verdict.detail.contains("counters agree");
        (verdict.status, verdict.proven, agrees)
    };
    let (both, sends, receives) = ("", "/tx_bytes", "/rx_bytes");
    for (kind, initiator, target, agrees) in [
        (Kind::Write, both, both, true),
        (Kind::Write, sends, receives, true),
        (Kind::Write, both, sends, true),
        (Kind::Write, receives, both, false),
        (Kind::Read, both, both, true),
        (Kind::Read, receives, sends, true),
        (Kind::Read, both, receives, true),
        (Kind::Read, sends, both, false),
    ] {
        assert_eq!(
            with(kind, initiator, target),
            (Status::Ok, true, agrees),
            "{kind}: {initiator:?} {target:?}"
        );
    }
}

/// A counter of the direction of the bytes that can be read and stood still contradicts, whatever else cannot be read.
#[test]
fn a_counter_of_the_direction_that_stood_still_takes_the_proof_away() {
    for (kind, initiator, target) in [
        (Kind::Write, "", "/rx_bytes"),
        (Kind::Write, "/tx_bytes", ""),
        (Kind::Read, "", "/tx_bytes"),
        (Kind::Read, "/rx_bytes", ""),
    ] {
        let mut record = host(good());
        record.initiator.log.lane = log("invented-rc-mlx5-one-rail");
        record.steps = vec![step(kind, 380.0, &[])];
        record.steps[0].target_delta = Some(Counters::default());
        for (end, entry) in [
            (&mut record.initiator, initiator),
            (&mut record.target, target),
        ] {
            let ready = end.ready.as_mut().unwrap();
            ready.ports.truncate(1);
            ready.counted = vec!["net/eth0".into(), format!("ib/mlx5_0:1{entry}").into()];
        }
        assert!(
            !support::judged_on_host(&record).proven,
            "{kind}: own {initiator:?}"
        );
        let own = match kind {
            Kind::Write => "ib/mlx5_0:1/tx_bytes",
            Kind::Read => "ib/mlx5_0:1/rx_bytes",
        };
        record.steps[0].xfer.delta = counters(&[(own, FULL)]);
        assert!(
            !support::judged_on_host(&record).proven,
            "{kind}: target {target:?}"
        );
    }
}

#[test]
fn counters_that_contradict_are_never_a_pass() {
    for delta in [
        vec![],
        vec![("net/eth0/tx_bytes", FULL + 5000)],
        vec![("ib/mlx5_9:1/tx_bytes", FULL)],
    ] {
        let mut record = good();
        record.steps[0].xfer.delta = counters(&delta);
        let verdict = judged(&record);
        assert_eq!(
            (verdict.status, verdict.proven),
            (Status::Skipped, false),
            "{delta:?}: {}",
            verdict.detail
        );
        assert!(
            verdict.detail.contains("transport unknown"),
            "{}",
            verdict.detail
        );
    }
    let mut record = good();
    record.target.ready.as_mut().unwrap().counted = vec!["net/eth0".into()];
    record.steps[0].target_delta = Some(counters(&[("net/eth0/rx_bytes", FULL)]));
    assert_eq!(
        judged(&record).status,
        Status::Skipped,
        "the target saw them on its network card"
    );
}

/// A device that the table does not name, or another port of it, carried nothing of this lane.
#[test]
fn counters_of_another_device_or_port_are_no_agreement() {
    let with = |delta: &[(&str, i64)]| {
        let mut record = good();
        let ready = record.initiator.ready.as_mut().unwrap();
        ready.counted.push("ib/mlx5_0:2".into());
        record.steps[0].xfer.delta = counters(delta);
        judged(&record)
    };
    let part = FULL * 6 / 100;
    for (delta, words) in [
        (
            vec![
                ("ib/mlx5_0:1/tx_bytes", part),
                ("ib/mlx5_1:1/tx_bytes", FULL),
            ],
            "on mlx5_1:1",
        ),
        (vec![("ib/mlx5_0:2/tx_bytes", FULL)], "on mlx5_0:2"),
        (
            vec![("ib/mlx5_1:1/tx_bytes", FULL * 9)],
            "counters of mlx5_0:1 did not move",
        ),
    ] {
        let verdict = with(&delta);
        assert_eq!(
            (verdict.status, verdict.proven),
            (Status::Skipped, false),
            "{delta:?}: {}",
            verdict.detail
        );
        assert!(verdict.detail.contains(words), "{}", verdict.detail);
    }
    // Another's traffic on a device that the table does not name is nothing to this lane.
    let neighbour = with(&[
        ("ib/mlx5_0:1/tx_bytes", FULL),
        ("ib/mlx5_1:1/tx_bytes", FULL * 9),
    ]);
    assert!(
        neighbour.proven && neighbour.detail.contains("counters agree"),
        "{}",
        neighbour.detail
    );
    // Which of the two carried it the counters do not say; the table does.
    let both = with(&[
        ("ib/mlx5_0:1/tx_bytes", FULL),
        ("net/eth0/tx_bytes", FULL + 9),
    ]);
    let crowded = with(&[
        ("ib/mlx5_0:1/tx_bytes", FULL * 9),
        ("net/eth0/tx_bytes", FULL + 9),
    ]);
    assert_eq!((crowded.status, crowded.proven), (Status::Warn, false));
    assert!(crowded.detail.contains("on eth0"), "{}", crowded.detail);
    assert!(
        both.proven && both.detail.contains("cannot confirm it: both a port and"),
        "{}",
        both.detail
    );
}

/// WRITE leaves through the initiator's sending counter and arrives at the target's receiving one.
#[test]
fn counters_that_stood_still_at_the_target_take_the_proof_away() {
    let gaps = |v: &Verdict| v.unproven.iter().map(|g| g.kind).collect::<Vec<_>>();
    let with = |target: Option<&[(&str, i64)]>, own: &[(&str, i64)]| {
        let mut record = good();
        record.steps[0].xfer.delta = counters(own);
        record.steps[0].target_delta = target.map(counters);
        judged(&record)
    };
    let sent = [("ib/mlx5_0:1/tx_bytes", FULL)];
    let still = with(Some(&[("ib/mlx5_0:1/tx_bytes", FULL)]), &sent);
    assert_eq!((still.status, still.proven), (Status::Warn, false));
    assert_eq!(gaps(&still), [GapKind::Contradicted]);
    assert!(
        still.detail.contains("no RDMA counter of the target moved"),
        "{}",
        still.detail
    );
    let both = with(Some(&[("ib/mlx5_1:1/rx_bytes", FULL)]), &sent);
    assert_eq!((both.status, both.proven), (Status::Ok, true));
    assert!(both.detail.contains("counters agree"), "{}", both.detail);
    // Somebody else's bytes among them: the table stands alone, and the words say so.
    let crowded = [("ib/mlx5_0:1/tx_bytes", FULL * 3)];
    for (target, own) in [
        (None, &crowded),
        (Some(&[("ib/mlx5_0:1/rx_bytes", FULL * 3)] as &[_]), &sent),
    ] {
        let verdict = with(target, own);
        assert_eq!((verdict.status, verdict.proven), (Status::Ok, true));
        assert!(
            verdict.detail.contains("cannot confirm") && verdict.detail.contains("other traffic"),
            "{}",
            verdict.detail
        );
    }
    // A port of the target that has no counters may have taken them.
    let mut record = good();
    record.target.ready.as_mut().unwrap().counted = vec!["ib/mlx5_0:1".into()];
    record.steps[0].target_delta = Some(Counters::default());
    assert!(judged(&record).proven);
}

/// The table gives 52% and 48% of a WRITE of host memory to two rails.
#[test]
fn a_rail_of_which_no_counter_moved_takes_the_proof_away() {
    let with = |first: i64, second: i64, change: &dyn Fn(&mut TransferRecord)| {
        let mut record = host(good());
        record.steps[0].xfer.gbps = 760.0;
        record.steps[0].xfer.delta = counters(&[
            ("ib/mlx5_0:1/tx_bytes", first),
            ("ib/mlx5_1:1/tx_bytes", second),
        ]);
        change(&mut record);
        let intent = Intent {
            host_memory: true,
            ..Intent::default()
        };
        judge(&record, &intent)
    };
    let whole = |_: &mut TransferRecord| ();
    let even = with(FULL / 2, FULL / 2, &whole);
    assert!(
        even.proven && even.detail.contains("counters agree"),
        "{}",
        even.detail
    );
    // An uneven split is one, too.
    assert!(with(FULL * 3 / 4, FULL / 4, &whole).proven);
    let silent = with(FULL, 0, &whole);
    assert_eq!(
        (silent.proven, silent.unproven[0].kind),
        (false, GapKind::Contradicted)
    );
    for verdict in [silent, with(1000, FULL, &whole), with(FULL * 3, 0, &whole)] {
        assert_eq!((verdict.status, verdict.proven), (Status::Warn, false));
        assert!(
            verdict.detail.contains("one of 2 rails carried nothing")
                && !verdict.detail.contains("counters agree"),
            "{}",
            verdict.detail
        );
    }
    // Without a counter of that rail, or for descriptors so small that one rail may take them, nothing is said of it.
    assert!(
        with(FULL, 0, &|record| {
            let ready = record.initiator.ready.as_mut().unwrap();
            ready.counted.retain(|name| !name.contains("mlx5_1"));
        })
        .proven
    );
    let small = with(FULL, 0, &|record| {
        let xfer = &mut record.steps[0].xfer;
        (xfer.bytes, xfer.descs) = (16 << 10, BYTES / (16 << 10));
    });
    assert!(!small.detail.contains("rails carried"), "{}", small.detail);
}

#[test]
fn a_rate_that_cannot_be_is_no_proof() {
    let mut record = good();
    record.steps[0].xfer.gbps = 880.1;
    let verdict = judged(&record);
    assert_eq!((verdict.status, verdict.proven), (Status::Warn, false));
    assert_eq!(verdict.unproven[0].kind, GapKind::Contradicted);
    for part in [
        "cannot be",
        "2.2 times the line rate of 400 Gb/s",
        "prefill-0",
        "judgement",
    ] {
        assert!(verdict.detail.contains(part), "{part}: {}", verdict.detail);
    }
    record.steps[0].xfer.gbps = 879.0;
    assert!(judged(&record).proven, "a bond of two ports");
    // Memory of one node has no port.
    let mut record = with_log("ucx-1.23-host", &[]);
    record.same_container = true;
    record.steps[0].xfer.gbps = 67_108_864.0;
    let verdict = judged(&record);
    assert_eq!(verdict.status, Status::Warn, "{}", verdict.detail);
    assert!(verdict.detail.contains("32 TB/s"), "{}", verdict.detail);
}

#[test]
fn a_device_that_the_container_does_not_show_is_an_unknown_lane() {
    let mut record = good();
    record.initiator.ready.as_mut().unwrap().ports.clear();
    let verdict = judged(&record);
    assert_eq!((verdict.status, verdict.proven), (Status::Skipped, false));
    assert!(
        verdict.detail.contains("transport unknown"),
        "{}",
        verdict.detail
    );
    assert!(verdict.fix.unwrap().contains("/sys/class/infiniband"));
}

#[test]
fn a_slow_lane_is_a_warn_with_threshold_and_source() {
    for (gbps, words, proven) in [
        (
            300.0,
            "75% of the line rate (300.0 Gb/s over rc_mlx5/mlx5_0:1 zero-copy), below the 90%",
            true,
        ),
        (200.0, "far below the 90%", true),
        (8.0, "; so low a rate looks like TCP or a bounce", false),
        (1.0, "reached 0.2% of the line rate", false),
    ] {
        let mut record = good();
        record.steps[0].xfer.gbps = gbps;
        let verdict = judged(&record);
        assert_eq!(
            (verdict.status, verdict.proven),
            (Status::Warn, proven),
            "{gbps}"
        );
        let gap = verdict.unproven.iter().map(|gap| gap.kind).next();
        assert_eq!(gap, (!proven).then_some(GapKind::Contradicted));
        assert!(verdict.detail.contains(words), "{}", verdict.detail);
        assert!(
            verdict.detail.contains("azurehpc-health-checks"),
            "{}",
            verdict.detail
        );
    }
    // Two rails: the sum of both ports.
    let mut record = host(good());
    record.steps[0].xfer.gbps = 740.0;
    record.steps[0].xfer.delta = counters(&[
        ("ib/mlx5_0:1/tx_bytes", FULL / 2),
        ("ib/mlx5_1:1/tx_bytes", FULL / 2),
    ]);
    assert_eq!(judged(&record).steps[0].of_line_rate, Some(0.925));
    // A rate that is not known is not judged, unless it is that of TCP.
    for rate in [None, Some("10 Gb/sec (4X SDR)".into())] {
        let mut record = good();
        record.initiator.ready.as_mut().unwrap().ports[0].rate = rate;
        assert_eq!(judged(&record).steps[0].of_line_rate, None);
        for (gbps, proven) in [(4.0, true), (3.9, false)] {
            record.steps[0].xfer.gbps = gbps;
            let verdict = judged(&record);
            assert_eq!(verdict.proven, proven, "{gbps}: {}", verdict.detail);
            let status = if proven { Status::Ok } else { Status::Warn };
            assert_eq!(verdict.status, status, "{gbps}: {}", verdict.detail);
        }
        let said = judged(&record).detail;
        assert!(
            said.contains("3.90 Gb/s, below the 4 Gb/s that TCP"),
            "{said}"
        );
    }
    let known = Intent {
        line_rates: [("mlx5_0:1".to_owned(), 800.0)].into(),
        ..Intent::default()
    };
    assert_eq!(judge(&good(), &known).steps[0].of_line_rate, Some(0.475));
}

#[test]
fn tcp_is_the_wrong_lane_and_the_cause_is_named() {
    let tcp = || with_log("ucx-1.23-pods", &[("net/eth0/tx_bytes", FULL + FULL / 100)]);
    let verdict = judged(&tcp());
    assert_eq!((verdict.status, verdict.proven), (Status::Fail, false));
    assert!(
        verdict.detail.starts_with("Works, wrong lane"),
        "{}",
        verdict.detail
    );
    let cause = |change: fn(&mut Ready)| {
        let mut record = tcp();
        change(record.target.ready.as_mut().unwrap());
        judged(&record).detail
    };
    let named = [
        (cause(|r| r.ports.clear()), "no RDMA device is visible"),
        (
            cause(|r| r.ports.iter_mut().for_each(|p| p.granted = false)),
            "device nodes are not in the container",
        ),
        (
            cause(|r| {
                r.ports
                    .iter_mut()
                    .for_each(|p| p.state = Some("2: INIT".into()))
            }),
            "is ACTIVE",
        ),
        (
            cause(|r| r.memlock = [8 << 20, -1]),
            "RLIMIT_MEMLOCK is 8388608",
        ),
        (
            cause(|r| r.env = [("UCX_TLS".into(), "tcp,cuda_copy".into())].into()),
            "UCX_TLS=tcp,cuda_copy leaves RDMA out",
        ),
        (
            cause(|r| r.env = [("UCX_TLS".into(), "^rc,dc,ud,srd".into())].into()),
            "leaves RDMA out",
        ),
        (
            cause(|r| r.libs = vec!["/usr/lib/libucp.so.0".into()]),
            "no verbs module",
        ),
    ];
    for (detail, words) in named {
        assert!(
            detail.contains(words) && detail.contains("decode-0"),
            "{words}: {detail}"
        );
    }
    for fine in [
        "rc,cuda_copy",
        "all",
        "ib",
        "^tcp",
        "rc_x,tcp",
        "^rc_mlx5,dc",
    ] {
        let mut record = tcp();
        record.target.ready.as_mut().unwrap().env = [("UCX_TLS".into(), fine.into())].into();
        assert!(!judged(&record).detail.contains("UCX_TLS"), "{fine}");
    }
    let mut record = tcp();
    record.initiator.log.lane += "[1.0] [h:1:0]  ucp_context.c:1508 UCX  WARN  network device 'mlx5_0:1' is not available, please use one or more of: 'lo'(tcp)\n";
    assert!(
        judged(&record)
            .detail
            .contains("UCX ignored what it was told to use")
    );
    assert_eq!(
        support::judged_on_host(&tcp()).status,
        Status::Warn,
        "host memory by intent"
    );
}

#[test]
fn software_verbs_stay_unproven() {
    let mut record = with_log(
        "ucx-1.23-rxe",
        &[
            ("hw/rxe0:1/sent_pkts", FULL / 1024),
            ("net/eth0/tx_bytes", FULL + FULL / 20),
        ],
    );
    record
        .initiator
        .ready
        .as_mut()
        .unwrap()
        .counted
        .push("hw/rxe0:1".into());
    record.initiator.ready.as_mut().unwrap().ports = vec![hca("rxe0")];
    let verdict = support::judged_on_host(&record);
    assert_eq!(
        (verdict.status, verdict.proven),
        (Status::Warn, false),
        "{}",
        verdict.detail
    );
    assert!(
        verdict.detail.contains("soft-RoCE") && verdict.detail.contains("counters agree"),
        "{}",
        verdict.detail
    );
    assert!(
        verdict
            .caveats
            .iter()
            .any(|c| c.contains("copies through buffers"))
    );
    assert_eq!(
        verdict.steps[0].of_line_rate, None,
        "the rate of software means nothing"
    );
}

#[test]
fn an_unknown_lane_is_never_a_pass() {
    let verdict = judged(&with_log("ucx-1.15-pods", &[]));
    assert_eq!(
        (verdict.status, verdict.reason),
        (Status::Skipped, Some(SkipReason::Unparsable))
    );
    assert!(
        verdict.detail.contains("transport unknown"),
        "{}",
        verdict.detail
    );
    let mut record = good();
    record.steps.clear();
    assert_eq!(judged(&record).status, Status::Skipped);
}

#[test]
fn libfabric_is_judged_by_counters_and_provider() {
    let libfabric = |delta: &[(&str, i64)], text: &str| {
        let mut record = good();
        record.backend = "LIBFABRIC".into();
        record.initiator.log.lane = text.to_owned();
        let ready = record.initiator.ready.as_mut().unwrap();
        ready.ports = vec![hca("rdmap79s0")];
        ready.counted = ["hw/rdmap79s0:1", "net/eth0"].map(Into::into).to_vec();
        record.steps[0].xfer.delta = counters(delta);
        let intent = Intent {
            backend: Some("LIBFABRIC".to_owned()),
            ..Intent::default()
        };
        judge(&record, &intent)
    };
    let efa = libfabric(
        &[("hw/rdmap79s0:1/tx_bytes", FULL)],
        "NIXL INFO Discovered 32 EFA devices",
    );
    assert_eq!(
        (efa.status, efa.proven),
        (Status::Ok, true),
        "{}",
        efa.detail
    );
    assert!(efa.evidence.contains(&"libfabric provider efa".to_owned()));
    let none = libfabric(
        &[("hw/rdmap79s0:1/tx_bytes", FULL)],
        "NIXL INFO Discovered 0 EFA devices",
    );
    assert_eq!(
        (none.status, none.proven),
        (Status::Skipped, false),
        "{}",
        none.detail
    );
    let tcp = libfabric(
        &[("net/eth0/tx_bytes", FULL)],
        "Using simplified topology for tcp",
    );
    assert_eq!(tcp.status, Status::Fail, "{}", tcp.detail);
    let silent = libfabric(&[], "Using simplified topology for tcp");
    assert_eq!(silent.status, Status::Fail, "{}", silent.detail);
    assert_eq!(libfabric(&[], "").status, Status::Skipped);
    // Another's RDMA traffic does not make TCP RDMA.
    let moved = &[("hw/rdmap79s0:1/tx_bytes", FULL)];
    let tcp = libfabric(moved, "Using simplified topology for tcp");
    assert_eq!((tcp.status, tcp.proven), (Status::Fail, false));
    assert!(tcp.detail.contains("libfabric/tcp"), "{}", tcp.detail);
    let crowded = &[("hw/rdmap79s0:1/tx_bytes", FULL * 3)];
    for (delta, text) in [
        (moved, ""),
        (crowded, "NIXL INFO Discovered 32 EFA devices"),
        (
            &[("net/eth0/tx_bytes", FULL)],
            "NIXL INFO Discovered 32 EFA devices",
        ),
    ] {
        let unknown = libfabric(delta, text);
        assert_eq!(
            (unknown.status, unknown.proven),
            (Status::Skipped, false),
            "{text:?} {delta:?}: {}",
            unknown.detail
        );
    }
}

/// As with UCX: what the target can read and what stood still there takes the proof away.
#[test]
fn counters_of_the_target_are_asked_of_every_backend() {
    let with = |target: &[(&str, i64)]| {
        let mut record = good();
        record.backend = "LIBFABRIC".into();
        record.initiator.log.lane = "Using simplified topology for verbs".to_owned();
        record.steps[0].target_delta = Some(counters(target));
        let intent = Intent {
            backend: Some("LIBFABRIC".to_owned()),
            ..Intent::default()
        };
        judge(&record, &intent)
    };
    let moved = with(&[("ib/mlx5_1:1/rx_bytes", FULL)]);
    assert_eq!(
        (moved.status, moved.proven),
        (Status::Ok, true),
        "{}",
        moved.detail
    );
    let still = with(&[]);
    assert_eq!((still.status, still.proven), (Status::Warn, false));
    assert_eq!(still.unproven[0].kind, GapKind::Contradicted);
    let elsewhere = with(&[("net/eth0/rx_bytes", FULL)]);
    assert_eq!(
        (elsewhere.status, elsewhere.proven),
        (Status::Skipped, false)
    );
}

/// A backend that says nothing of its devices is proven by no counter: an HCA counts everybody's bytes.
#[test]
fn a_neighbours_bytes_prove_no_backend() {
    let with = |delta: &[(&str, i64)]| {
        let mut record = good();
        record.backend = "Mooncake".into();
        record.initiator.log.lane = String::new();
        record.steps[0].xfer.delta = counters(delta);
        let intent = Intent {
            backend: Some("Mooncake".to_owned()),
            ..Intent::default()
        };
        judge(&record, &intent)
    };
    let port = ("ib/mlx5_0:1/tx_bytes", FULL * 6 / 5);
    for (delta, words) in [
        (vec![port], "nothing in the log says what Mooncake used"),
        (
            vec![port, ("net/eth0/tx_bytes", FULL + 9)],
            "more than one kind of device",
        ),
    ] {
        let verdict = with(&delta);
        assert_eq!(
            (verdict.status, verdict.proven),
            (Status::Skipped, false),
            "{}",
            verdict.detail
        );
        assert!(verdict.detail.contains(words), "{}", verdict.detail);
    }
    assert_eq!(with(&[("net/eth0/tx_bytes", FULL)]).status, Status::Fail);
}

#[test]
fn nvlink_counters_that_stand_still_agree_with_nothing() {
    let with = |between: bool, initiator: &[(&str, i64)], target: Option<&[(&str, i64)]>| {
        let mut record = good();
        let log = log("invented-cuda-ipc");
        record.initiator.log.lane = match between {
            true => log.replace("intra-node", "inter-node"),
            false => log,
        };
        record.steps = vec![step(Kind::Read, 3000.0, initiator)];
        record.steps[0].target_delta = target.map(counters);
        for end in [&mut record.target, &mut record.initiator] {
            let ready = end.ready.as_mut().unwrap();
            ready.counted.push("nvlink/0000:1B:00.0".into());
        }
        let intent = Intent {
            path: if between {
                Path::MultiNodeNvlink
            } else {
                Path::Rdma
            },
            ..Intent::default()
        };
        judge(&record, &intent)
    };
    let (rx, tx) = (
        [("nvlink/0000:1B:00.0/rx_bytes", FULL)],
        [("nvlink/0000:1B:00.0/tx_bytes", FULL)],
    );
    let moved = with(true, &rx, Some(&tx));
    assert_eq!(
        (moved.status, moved.proven),
        (Status::Ok, true),
        "{}",
        moved.detail
    );
    assert!(moved.detail.contains("counters agree"), "{}", moved.detail);
    for still in [with(true, &[], Some(&tx)), with(true, &rx, Some(&[]))] {
        assert_eq!(
            (still.status, still.proven),
            (Status::Warn, false),
            "{}",
            still.detail
        );
        assert_eq!(still.unproven[0].kind, GapKind::Contradicted);
        assert!(!still.detail.contains("counters agree"), "{}", still.detail);
    }
    // Within a node cuda_ipc may go over PCIe.
    let pcie = with(false, &[], None);
    assert!(pcie.proven, "{}", pcie.detail);
    assert!(
        pcie.detail.contains("counters cannot confirm it"),
        "{}",
        pcie.detail
    );
}

#[test]
fn nvlink_within_and_between_nodes() {
    let mut record = good();
    record.initiator.log.lane = log("invented-cuda-ipc");
    record.steps = vec![step(Kind::Read, 3000.0, &[])];
    let verdict = judged(&record);
    assert_eq!(
        (verdict.status, verdict.proven),
        (Status::Ok, true),
        "{}",
        verdict.detail
    );
    record.steps[0].xfer.gbps = 0.08;
    let crawling = judged(&record);
    assert_eq!((crawling.status, crawling.proven), (Status::Warn, false));
    assert_eq!(crawling.unproven[0].kind, GapKind::Contradicted);
    record.steps[0].xfer.gbps = 3000.0;
    record.initiator.log.lane = log("invented-cuda-ipc").replace("intra-node", "inter-node");
    let mnnvl = Intent {
        path: Path::MultiNodeNvlink,
        ..Intent::default()
    };
    let verdict = judge(&record, &mnnvl);
    assert_eq!((verdict.status, verdict.proven), (Status::Ok, true));
    assert!(
        verdict.detail.contains("multi-node NVLink"),
        "{}",
        verdict.detail
    );
    let verdict = judge(&good(), &mnnvl);
    assert_eq!(
        (verdict.status, verdict.proven),
        (Status::Warn, false),
        "RDMA where NVLink was meant"
    );
}

#[test]
fn wrong_bytes_outweigh_everything() {
    let mut record = good();
    let verify = &mut record.steps[0].verify;
    (verify.ok, verify.bad_at, verify.zeros, verify.bad_blocks) =
        (false, Some(4096), Some(true), Some(3));
    record.failure = Some(Failure {
        side: Role::Target,
        stage: Stage::Bye,
        what: What::Killed,
        detail: "signal 9".into(),
        also: vec![],
    });
    let verdict = judged(&record);
    assert!(verdict.wrong_bytes && !verdict.proven && verdict.status == Status::Fail);
    assert!(
        verdict.detail.contains("offset 4096") && verdict.detail.contains("only zeros"),
        "{}",
        verdict.detail
    );
}

#[test]
fn one_container_proves_registration_and_no_link() {
    let mut record = with_log("ucx-1.23-host", &[]);
    record.same_container = true;
    let verdict = judged(&record);
    assert_eq!(
        (verdict.status, verdict.proven),
        (Status::Ok, false),
        "{}",
        verdict.detail
    );
    assert!(verdict.caveats.iter().any(|c| c.contains("one container")));
}

/// Between two processes of one container RDMA is not what was needed, and TCP has other causes.
#[test]
fn tcp_within_one_container_has_causes_of_its_own() {
    let tcp = |tls: Option<&str>| {
        let mut record = with_log("ucx-1.23-pods", &[("net/eth0/tx_bytes", FULL + FULL / 100)]);
        record.same_container = true;
        for end in [&mut record.target, &mut record.initiator] {
            let ready = end.ready.as_mut().unwrap();
            ready.ports.clear();
            ready.env = tls
                .map(|tls| ("UCX_TLS".into(), tls.into()))
                .into_iter()
                .collect();
        }
        record
    };
    let needed = "; shared memory, RDMA or NVLink was needed";
    for (tls, status, cause) in [
        (
            Some("tcp,cuda_copy"),
            Status::Fail,
            "UCX_TLS=tcp,cuda_copy leaves out RDMA, and the shared memory that moves blocks (cma)",
        ),
        (
            Some("^cma"),
            Status::Warn,
            "UCX_TLS=^cma leaves out the shared memory that moves blocks (cma)",
        ),
        (
            Some("rc,tcp"),
            Status::Warn,
            "UCX_TLS=rc,tcp leaves out the shared memory",
        ),
        (None, Status::Warn, ""),
    ] {
        let intent = Intent {
            likely_cause: Some("no RDMA device (decode-0)".to_owned()),
            ..Intent::default()
        };
        let verdict = judge(&tcp(tls), &intent);
        assert_eq!(
            (verdict.status, verdict.proven),
            (status, false),
            "{tls:?}: {}",
            verdict.detail
        );
        assert!(verdict.detail.contains(needed), "{}", verdict.detail);
        assert!(verdict.detail.contains(cause), "{}", verdict.detail);
        assert!(
            !verdict.detail.contains("no RDMA device"),
            "{}",
            verdict.detail
        );
        assert!(verdict.fix.is_some());
    }
}

#[test]
fn a_failure_carries_its_side_stage_and_log() {
    let mut record = good();
    record.initiator.log.tail =
        vec!["UCX  ERROR Transport retry count exceeded on mlx5_0:1".to_owned()];
    record.failure = Some(Failure {
        side: Role::Initiator,
        stage: Stage::Xfer {
            kind: Kind::Read,
            bytes: 65536,
            descs: 64,
        },
        what: What::Transfer,
        detail: "NIXL_ERR_BACKEND".into(),
        also: vec!["the target is alive".into()],
    });
    let verdict = judged(&record);
    assert_eq!(verdict.status, Status::Fail);
    let said = "The transfer failed on prefill-0 (initiator) during the READ of 64 x 65536 bytes: NIXL_ERR_BACKEND";
    assert_eq!(verdict.detail, said);
    assert!(verdict.fix.unwrap().contains("GID index"));
    assert!(verdict.evidence.iter().any(|l| l.contains("retry count")));
}

fn failed(what: What, stage: Stage) -> TransferRecord {
    let mut record = good();
    record.steps.clear();
    record.failure = Some(Failure {
        side: Role::Initiator,
        stage,
        what,
        detail: "NIXL_ERR_NOT_FOUND".into(),
        also: vec![],
    });
    record
}

/// NIXL's own line of its log, as 1.5.1 prints it.
#[test]
fn the_library_that_a_plugin_lacks_is_named() {
    let mut record = failed(What::NoBackend, Stage::Ready);
    record.backend = "LIBFABRIC".into();
    record.initiator.log.tail = vec![
        "I1130 19:26:21.948783    3038 nixl_plugin_manager.cpp:352] Failed to load plugin from \
         /v/site-packages/nixl_cu12/../.nixl_cu12.mesonpy.libs/plugins/libplugin_LIBFABRIC.so: libfabric.so.1: cannot \
         open shared object file: No such file or directory"
            .to_owned(),
    ];
    let verdict = judged(&record);
    let said = "The NIXL backend LIBFABRIC does not come up on prefill-0 (initiator): libfabric.so.1: cannot open shared \
                object file: No such file or directory";
    assert_eq!(verdict.detail, said);
    let fix = verdict.fix.unwrap();
    assert!(
        fix.starts_with(
            "Give the container libfabric.so.1, which NIXL's libplugin_LIBFABRIC.so needs"
        ),
        "{fix}"
    );
    // The line of another plugin is none of its business.
    record.backend = "GPUNETIO".into();
    let fix = judged(&record).fix.unwrap();
    assert!(!fix.contains("libfabric.so.1"), "{fix}");
}

#[test]
fn the_variable_that_takes_the_table_away_is_the_first_cause() {
    let set = |mut record: TransferRecord, value: &str| {
        let ready = record.initiator.ready.as_mut().unwrap();
        ready.env = [("UCX_PROTO_ENABLE".into(), value.into())].into();
        judged(&record)
    };
    let xfer = Stage::Xfer {
        kind: Kind::Write,
        bytes: 8,
        descs: 1,
    };
    let fix = set(failed(What::Transfer, xfer), "n").fix.unwrap();
    assert!(fix.starts_with("Remove UCX_PROTO_ENABLE"), "{fix}");
    let fix = set(failed(What::Transfer, xfer), "y").fix.unwrap();
    assert!(fix.contains("GID index"), "{fix}");
    // Up to UCX 1.21 bytes still arrive, and nothing says over what.
    let mut record = good();
    record.initiator.log.lane.clear();
    let verdict = set(record, "no");
    assert_eq!(verdict.status, Status::Skipped);
    assert!(
        verdict.detail.contains("UCX_PROTO_ENABLE=no on prefill-0"),
        "{}",
        verdict.detail
    );
    assert!(verdict.fix.unwrap().starts_with("Remove UCX_PROTO_ENABLE"));
}
