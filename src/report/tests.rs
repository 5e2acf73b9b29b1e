//! The roll-up: trust, what to fix first, counts, exit codes and the verdict in words.

use super::*;
use proptest::prelude::*;

const REQUIRED: KvPath = KvPath::Required;

/// A worker `p` or `d` of the workload at this position in the run.
fn worker(ordinal: usize, role: &str) -> Target {
    let position = usize::from(role != "prefill");
    Target::workload(format!("g{ordinal}"), None, ordinal).worker(position, &role[..1], role)
}

fn finding(id: &'static str, status: Status, target: Target) -> Finding {
    Finding {
        id,
        name: id.to_lowercase().into(),
        status,
        detail: format!("what {id} saw"),
        target: target.into(),
        kv_path: REQUIRED,
        evidence: vec![],
        fix: None,
        reason: (status == Status::Skipped).then_some(SkipReason::Unresolved),
        left_out: None,
        causes: &[],
        order: 0,
        rare: Parts {
            headline: "something is wrong".to_owned(),
            ..Parts::default()
        }
        .into(),
    }
}

fn following(name: &str) -> Rare {
    let follows = vec![name.to_owned()];
    Parts {
        follows,
        ..Parts::default()
    }
    .into()
}

fn on(kv_path: KvPath, status: Status) -> Finding {
    Finding {
        kv_path,
        ..finding("A", status, worker(1, "prefill"))
    }
}

fn workload(ordinal: usize, disaggregated: bool) -> WorkloadReport {
    WorkloadReport {
        source: SourceRef {
            path: "x.yaml".into(),
            line: 1,
        },
        api_version: String::new(),
        kind: String::new(),
        name: format!("g{ordinal}"),
        namespace: None,
        framework: None,
        disaggregated,
        multinode: false,
        trust: Trust::Unproven,
        workers: vec![],
        ordinal,
    }
}

fn error(object: &str) -> InputError {
    InputError {
        object: object.into(),
        message: "no permission".into(),
    }
}

fn report(workloads: Vec<WorkloadReport>, checks: Vec<Finding>) -> Report {
    Report::new("env", workloads, checks, vec![], vec![])
}

/// The fixes of one disaggregated graph.
fn fixes(checks: Vec<Finding>) -> Vec<Fix> {
    report(vec![workload(1, true)], checks).fix_first
}

fn ids(fixes: &[Fix]) -> Vec<(&str, Vec<&str>)> {
    let below = |f: &Fix| f.consequences.iter().map(|c| c.id).collect();
    fixes.iter().map(|f| (f.id, below(f))).collect()
}

#[test]
fn trust_is_ordered_from_harmless_to_worst() {
    let order = [
        Trust::NotApplicable,
        Trust::Trusted,
        Trust::Unproven,
        Trust::Untrusted,
    ];
    assert!(order.is_sorted());
}

#[test]
fn trust_by_the_gravest_finding_on_the_kv_path() {
    use KvPath::{Off, Required, Supporting};
    use Status::{Fail, Ok, Skipped, Warn};
    let cases = [
        (vec![], Trust::Trusted),
        (vec![on(Required, Ok)], Trust::Trusted),
        (
            vec![on(Required, Warn), on(Supporting, Warn)],
            Trust::Trusted,
        ),
        (vec![on(Required, Skipped)], Trust::Unproven),
        (
            vec![on(Supporting, Skipped), on(Off, Skipped)],
            Trust::Trusted,
        ),
        (vec![on(Off, Fail)], Trust::Unproven),
        (vec![on(Supporting, Fail)], Trust::Untrusted),
        (
            vec![on(Required, Skipped), on(Required, Fail)],
            Trust::Untrusted,
        ),
    ];
    for (findings, trust) in cases {
        assert_eq!(
            Trust::judge(true, true, findings.iter()),
            trust,
            "{findings:?}"
        );
        let unproven = Trust::judge(true, false, findings.iter());
        assert_eq!(unproven, trust.max(Trust::Unproven), "nothing was proven");
        let aggregated = Trust::judge(false, true, findings.iter());
        assert_eq!(aggregated, Trust::NotApplicable);
    }
    let mut off = on(Required, Skipped);
    off.reason = Some(SkipReason::NotApplicable);
    assert_eq!(Trust::judge(true, true, [off].iter()), Trust::Trusted);
}

fn any_finding() -> impl Strategy<Value = Finding> {
    use Status::{Fail, Ok, Skipped, Warn};
    let paths = [KvPath::Required, KvPath::Supporting, KvPath::Off];
    (0..3usize, 0..4usize)
        .prop_map(move |(path, status)| on(paths[path], [Ok, Skipped, Warn, Fail][status]))
}

proptest! {
    #[test]
    fn a_fail_never_improves_trust(
        findings in proptest::collection::vec(any_finding(), 0..8),
        path in 0..3usize,
        at in any::<prop::sample::Index>(),
        (disaggregated, proven) in any::<(bool, bool)>(),
    ) {
        let before = Trust::judge(disaggregated, proven, findings.iter());
        let mut more = findings;
        let at = at.index(more.len() + 1);
        more.insert(at, on([KvPath::Required, KvPath::Supporting, KvPath::Off][path], Status::Fail));
        prop_assert!(Trust::judge(disaggregated, proven, more.iter()) >= before);
        if disaggregated {
            prop_assert!(Trust::judge(disaggregated, proven, more.iter()) > Trust::Trusted);
        }
    }

    #[test]
    fn a_required_check_that_is_skipped_never_leaves_trusted(
        mut findings in proptest::collection::vec(any_finding(), 0..8),
        turned in any::<prop::sample::Index>(),
        reason in 1..10usize,
    ) {
        findings.push(on(KvPath::Required, Status::Ok));
        let required: Vec<usize> = (0..findings.len()).filter(|i| findings[*i].kv_path == REQUIRED).collect();
        let finding = &mut findings[required[turned.index(required.len())]];
        finding.status = Status::Skipped;
        finding.reason = Some([
            SkipReason::NotApplicable, SkipReason::NotSelected, SkipReason::NotCollected, SkipReason::NotFound,
            SkipReason::Denied, SkipReason::NoShell, SkipReason::Timeout, SkipReason::ConnectionLost,
            SkipReason::Unparsable, SkipReason::Unresolved,
        ][reason]);
        prop_assert!(Trust::judge(true, true, findings.iter()) > Trust::Trusted);
    }

    #[test]
    fn order_of_findings_does_not_matter(
        findings in proptest::collection::vec(any_finding(), 0..8),
        (disaggregated, proven) in any::<(bool, bool)>(),
    ) {
        let forwards = Trust::judge(disaggregated, proven, findings.iter());
        prop_assert_eq!(forwards, Trust::judge(disaggregated, proven, findings.iter().rev()));
    }
}

#[test]
fn the_worst_workload_decides_and_each_answers_for_itself() {
    let fail = finding("A", Status::Fail, worker(2, "decode"));
    let found = report(
        vec![workload(1, true), workload(2, true), workload(3, false)],
        vec![fail],
    );
    let each: Vec<Trust> = found.workloads.iter().map(|w| w.trust).collect();
    assert_eq!(
        each,
        [Trust::Unproven, Trust::Untrusted, Trust::NotApplicable]
    );
    assert_eq!(found.trust, Trust::Untrusted);
}

#[test]
fn what_was_not_read_is_not_harmless() {
    assert_eq!(report(vec![], vec![]).trust, Trust::Unproven);
    let aggregated = || vec![workload(1, false)];
    assert_eq!(report(aggregated(), vec![]).trust, Trust::NotApplicable);
    let unread = Report::new("env", aggregated(), vec![], vec![error("x.yaml")], vec![]);
    assert_eq!(unread.trust, Trust::Unproven);
}

#[test]
fn a_cause_stands_above_what_follows_from_it() {
    let cause = |status, target| Finding {
        causes: &["B", "env:C"],
        ..finding("A", status, target)
    };
    let named = Finding {
        name: "env:C".into(),
        ..finding("ENV", Status::Warn, worker(1, "prefill"))
    };
    let effect = |target| finding("B", Status::Warn, target);
    let (p, d) = (worker(1, "prefill"), worker(1, "decode"));

    let found = fixes(vec![
        effect(p.clone()),
        cause(Status::Warn, p.clone()),
        named,
    ]);
    assert_eq!(ids(&found), [("A", vec!["B", "ENV"])]);
    // On the other worker it is a fault of its own, on the whole workload it is not.
    let found = fixes(vec![cause(Status::Warn, p.clone()), effect(d)]);
    assert_eq!(ids(&found), [("A", vec![]), ("B", vec![])]);
    let whole = Target::workload("g1", None, 1);
    let found = fixes(vec![cause(Status::Warn, whole), effect(p.clone())]);
    assert_eq!(ids(&found), [("A", vec!["B"])]);
    // So it is in another workload.
    let found = fixes(vec![
        cause(Status::Warn, p.clone()),
        effect(worker(2, "prefill")),
    ]);
    assert_eq!(ids(&found), [("A", vec![]), ("B", vec![])]);
    // A harmless cause explains nothing, and a warning does not explain a fail.
    let found = fixes(vec![cause(Status::Ok, p.clone()), effect(p.clone())]);
    assert_eq!(ids(&found), [("B", vec![])]);
    let worse = finding("B", Status::Fail, p.clone());
    let found = fixes(vec![cause(Status::Warn, p), worse]);
    assert_eq!(ids(&found), [("B", vec![]), ("A", vec![])]);
}

#[test]
fn a_chain_ends_at_its_first_cause() {
    // The first cause was seen on a machine, so the lines to paste come from the manifest side of the chain.
    let p = || worker(1, "prefill");
    let first = Finding {
        causes: &["B"],
        ..finding(
            "A",
            Status::Fail,
            Target {
                kind: TargetKind::Pod,
                ..p()
            },
        )
    };
    let second = Finding {
        causes: &["C"],
        rare: Parts {
            paste: Some("lines".into()),
            ..Parts::default()
        }
        .into(),
        ..finding("B", Status::Fail, p())
    };
    let third = finding("C", Status::Warn, p());
    let found = fixes(vec![third, second.clone(), first.clone()]);
    assert_eq!(ids(&found), [("A", vec!["B", "C"])]);
    assert_eq!(
        found[0].paste.as_deref(),
        Some("lines"),
        "from what follows"
    );
    // Each role has a place of its own for them; another check's lines are for another day.
    let pasted = |id, role: &str, lines: &str| Finding {
        id,
        rare: Parts {
            paste: Some(lines.into()),
            ..Parts::default()
        }
        .into(),
        target: worker(1, role).into(),
        ..second.clone()
    };
    let pod = |name: &str, role: &str| Finding {
        target: Target {
            kind: TargetKind::Pod,
            name: name.to_owned(),
            ..worker(1, role)
        }
        .into(),
        ..first.clone()
    };
    let found = fixes(vec![
        Finding {
            causes: &["B", "D"],
            ..pod("p-0", "prefill")
        },
        pod("d-0", "decode"),
        pasted("B", "prefill", "# under prefill"),
        pasted("B", "decode", "# under decode"),
        pasted("D", "prefill", "# else"),
    ]);
    assert_eq!(found.len(), 1);
    assert_eq!(
        found[0].paste.as_deref(),
        Some("# under prefill\n---\n# under decode")
    );
}

/// Each worker of an entry gives its own lines. Where two of one place give different ones, neither is right for both.
#[test]
fn an_entry_holds_the_lines_of_every_place_that_needs_them() {
    let tells = |name: &str, role: &str, lines: &str| Finding {
        rare: Parts {
            paste: Some(lines.into()),
            ..Parts::default()
        }
        .into(),
        ..finding(
            "A",
            Status::Fail,
            Target {
                kind: TargetKind::Pod,
                name: name.to_owned(),
                ..worker(1, role)
            },
        )
    };
    let paste = |found: Vec<Finding>| fixes(found).remove(0).paste;
    let decode = "# under decode\nenv: [a]";
    let prefill = "# under prefill\nenv: [a]";
    let both = vec![
        tells("d-0", "decode", decode),
        tells("d-1", "decode", decode),
        tells("p-0", "prefill", prefill),
    ];
    let all = format!("{prefill}\n---\n{decode}");
    assert_eq!(paste(both.clone()), Some(all));
    let mut disputed = both;
    disputed.push(tells("d-2", "decode", "# under decode\nenv: [b]"));
    assert_eq!(paste(disputed), Some(prefill.to_owned()));
}

/// What is to go gives way to what the machines know of the same variable, and a variable that follows from something missing is no
/// cure of it.
#[test]
fn lines_of_a_variable_stand_where_the_advice_speaks_of_it() {
    let pasted = |id, name: &'static str, status, lines: &str| Finding {
        id,
        name: name.into(),
        fix: Some("remove UCX_NET_DEVICES".to_owned()),
        causes: if id == "A" { &["B"] } else { &[] },
        rare: Parts {
            paste: (!lines.is_empty()).then(|| lines.into()),
            ..Parts::default()
        }
        .into(),
        ..finding(
            id,
            status,
            Target {
                kind: TargetKind::Pod,
                ..worker(1, "decode")
            },
        )
    };
    let (gone, ports) = ("# under decode\n# remove", "# under decode\nenv: [ports]");
    for (first, name, expected) in [
        (gone, "env:UCX_NET_DEVICES", Some(ports)),
        (
            "# under decode\nenv: [x]",
            "env:UCX_NET_DEVICES",
            Some("# under decode\nenv: [x]"),
        ),
        ("", "env:UCX_NET_DEVICES", Some(ports)),
        ("", "env:UCX_TLS", None),
    ] {
        let found = vec![
            pasted("A", "env:UCX_NET_DEVICES", Status::Fail, first),
            pasted("B", name, Status::Warn, ports),
        ];
        assert_eq!(fixes(found)[0].paste.as_deref(), expected, "{first} {name}");
    }
}

#[test]
fn one_fault_that_pods_tell_with_their_own_numbers_is_one_entry() {
    let pod = |name: &str| Target {
        kind: TargetKind::Pod,
        name: name.to_owned(),
        ..worker(1, "decode")
    };
    let says = |detail: &str, target: Target| Finding {
        detail: detail.to_owned(),
        ..finding("A", Status::Fail, target)
    };
    let follower = Finding {
        rare: following("a"),
        ..finding("B", Status::Warn, pod("d-1"))
    };
    let found = fixes(vec![
        says("GID 1 of mlx5_0 is fe80::1", pod("d-0")),
        says("GID 1 of mlx5_0 is fe80::2", pod("d-1")),
        says("GID 1 of mlx5_9 is empty", pod("d-2")),
        follower,
    ]);
    let shown: Vec<(&str, usize, usize)> = found
        .iter()
        .map(|f| (f.target.name.as_str(), f.also.len(), f.consequences.len()))
        .collect();
    assert_eq!(shown, [("d-0", 1, 1), ("d-2", 0, 0)]);
    // Two faults of one pod stay two, and so do those of two workers as they are written.
    let twice = vec![
        says("port 1 is down", pod("d-0")),
        says("port 2 is down", pod("d-0")),
    ];
    assert_eq!(fixes(twice).len(), 2);
    let written = vec![
        says("UCX_MAX_RMA_RAILS=0", worker(1, "prefill")),
        says("UCX_MAX_RMA_RAILS=1", worker(1, "decode")),
    ];
    assert_eq!(fixes(written).len(), 2);
}

#[test]
fn the_same_fault_on_two_workers_is_one_entry() {
    let twice = |d: &str| {
        let other = Finding {
            detail: d.into(),
            ..finding("A", Status::Warn, worker(1, "decode"))
        };
        fixes(vec![
            finding("A", Status::Warn, worker(1, "prefill")),
            other,
        ])
    };
    let found = twice("what A saw");
    assert_eq!(ids(&found), [("A", vec![])]);
    assert_eq!(found[0].also, [worker(1, "decode")]);
    assert_eq!(twice("something else").len(), 2);

    let elsewhere = finding("A", Status::Warn, worker(2, "prefill"));
    let found = fixes(vec![
        finding("A", Status::Warn, worker(1, "prefill")),
        elsewhere,
    ]);
    assert_eq!(found.len(), 2, "another workload is fixed in another place");
}

#[test]
fn fails_come_first_then_what_carries_kv() {
    let off = |id, status| Finding {
        kv_path: KvPath::Off,
        ..finding(id, status, worker(1, "prefill"))
    };
    let checks = vec![
        off("A", Status::Warn),
        finding("B", Status::Warn, worker(1, "decode")),
        finding("C", Status::Warn, worker(1, "prefill")),
        off("D", Status::Fail),
        finding("E", Status::Fail, worker(1, "decode")),
        finding("F", Status::Ok, worker(1, "prefill")),
        finding("G", Status::Skipped, worker(1, "prefill")),
    ];
    let order: Vec<&str> = fixes(checks).iter().map(|f| f.id).collect();
    assert_eq!(order, ["E", "D", "C", "B", "A"]);
}

#[test]
fn counts_and_coverage() {
    use Status::{Fail, Ok, Skipped, Warn};
    let mut checks: Vec<Finding> = [Ok, Ok, Ok, Warn, Warn, Fail, Skipped]
        .map(|status| on(REQUIRED, status))
        .into();
    checks.push(Finding {
        reason: Some(SkipReason::NotApplicable),
        ..on(REQUIRED, Skipped)
    });
    let found = report(vec![workload(1, true)], checks);
    let counts = Counts {
        ok: 3,
        warn: 2,
        fail: 1,
        skipped: 2,
    };
    assert_eq!(found.counts, counts);
    let coverage = Coverage {
        observed: 6,
        applicable: 7,
    };
    assert_eq!(
        found.coverage, coverage,
        "what does not apply is not asked for"
    );
}

#[test]
fn exit_codes_where_rules_meet() {
    use Status::{Fail, Ok, Warn};
    let code = |status, errors: Vec<InputError>, strict: bool, require_trusted| {
        let fail_on = if strict { FailOn::Warn } else { FailOn::Fail };
        let checks = vec![on(REQUIRED, status)];
        Report::new("env", vec![workload(1, true)], checks, errors, vec![])
            .exit_code(fail_on, require_trusted)
    };
    let unread = || vec![error("x.yaml")];
    let cases = [
        (Ok, vec![], false, false, ExitCode::Ok),
        (Ok, vec![], true, false, ExitCode::Ok),
        (Ok, vec![], false, true, ExitCode::NotTrusted),
        (Warn, vec![], false, false, ExitCode::Ok),
        (Warn, vec![], true, false, ExitCode::Failed),
        (Warn, vec![], false, true, ExitCode::NotTrusted),
        (Warn, vec![], true, true, ExitCode::Failed),
        (Fail, vec![], false, false, ExitCode::Failed),
        (Fail, vec![], false, true, ExitCode::Failed),
        (Ok, unread(), false, false, ExitCode::CouldNotRun),
        (Fail, unread(), true, true, ExitCode::CouldNotRun),
    ];
    for (status, errors, strict, require_trusted, expected) in cases {
        let found = code(status, errors.clone(), strict, require_trusted);
        assert_eq!(
            found, expected,
            "{status} {errors:?} {strict} {require_trusted}"
        );
    }
    // Nothing to trust is not trusted: a pipeline that asks for trust asked about something else.
    let aggregated = report(vec![workload(1, false)], vec![]);
    assert_eq!(
        aggregated.exit_code(FailOn::Fail, true),
        ExitCode::NotTrusted
    );
    // What answered no question is no pass; what was left out was an answer.
    let skipped = Report::new(
        "node",
        vec![],
        vec![on(REQUIRED, Status::Skipped)],
        vec![],
        vec![],
    );
    assert!(skipped.judged_nothing());
    assert_eq!(skipped.exit_code(FailOn::Fail, false), ExitCode::Failed);
    assert_eq!(skipped.exit_code(FailOn::Never, false), ExitCode::Ok);
    let judged = Report::new("node", vec![], vec![on(REQUIRED, Ok)], vec![], vec![]);
    assert!(!judged.judged_nothing());
    let numbers: Vec<i32> = ExitCode::ALL.iter().map(|c| *c as i32).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4, 130]);
}

/// A transfer `d -> p`, and its finding.
fn transfer(status: Status, unproven: &[GapKind]) -> (PairReport, Finding) {
    let gap = |kind: &GapKind| Gap {
        kind: *kind,
        why: "in long words".to_owned(),
    };
    let pair = PairReport {
        initiator: "d".to_owned(),
        target: "p".to_owned(),
        status,
        proven: status == Status::Ok && unproven.is_empty(),
        unproven: unproven.iter().map(gap).collect(),
        lane: "nothing was moved".to_owned(),
        memory: "host".to_owned(),
        write_gbytes: None,
        read_gbytes: None,
        of_line_rate: None,
        steps: vec![],
    };
    let target = Target::pair("d", "p", None);
    let finding = Finding {
        rare: Parts {
            headline: "NIXL cannot be imported on d".to_owned(),
            ..Parts::default()
        }
        .into(),
        ..finding("XFER001", status, target)
    };
    (pair, finding)
}

#[test]
fn a_transfer_that_was_asked_for_and_came_to_nothing_leads_and_is_no_pass() {
    let of = |(pair, finding): (PairReport, Finding), workloads, more: Vec<Finding>| {
        let checks = [vec![finding], more].concat();
        let pairs = Pairs::of(vec![pair], 1);
        Report::with_pairs("nixl", workloads, checks, vec![], vec![], pairs)
    };
    let undone = || transfer(Status::Skipped, &[]);
    let lead = "The transfer d -> p could not be made: NIXL cannot be imported on d; ";
    let alone = of(undone(), vec![], vec![]);
    assert_eq!(alone.verdict, format!("{lead}the KV path is not proven."));
    assert_eq!(alone.exit_code(FailOn::Never, false), ExitCode::CouldNotRun);
    let failing = of(undone(), vec![], vec![on(REQUIRED, Status::Fail)]);
    assert!(
        failing
            .verdict
            .starts_with(&format!("{lead}the KV path cannot be trusted; fix first: ")),
        "{}",
        failing.verdict
    );
    let deployment = of(undone(), vec![workload(1, true)], vec![]);
    assert_eq!(
        deployment.verdict,
        format!("{lead}disaggregated serving with g1 is not proven.")
    );
    // What was left out on purpose was not asked for.
    let (pair, mut finding) = undone();
    finding.reason = Some(SkipReason::NotSelected);
    finding.left_out = Some(Box::new(LeftOut {
        by: "--ignore".to_owned(),
        reason: None,
        was: Status::Fail,
    }));
    let left_out = of((pair, finding), vec![], vec![]);
    assert_eq!(left_out.exit_code(FailOn::Fail, false), ExitCode::Ok);
    // A transfer that failed says more than one that was not made.
    let failed = of(transfer(Status::Fail, &[]), vec![], vec![undone().1]);
    assert!(
        failed
            .verdict
            .starts_with("The KV path cannot be trusted: 0 of 1 pair was proven"),
        "{}",
        failed.verdict
    );
    // A run that was stopped had more to do than it began.
    let two = || vec![undone(), undone()];
    let stopped = |of| {
        let pairs = Pairs::of(two().into_iter().map(|(pair, _)| pair).collect(), of);
        let checks = two().into_iter().map(|(_, finding)| finding).collect();
        Report::with_pairs("nixl", vec![], checks, vec![], vec![], pairs).verdict
    };
    let lead =
        "2 of 2 transfers (7 more were not begun) could not be made, the first (d -> p) because";
    assert!(stopped(9).starts_with(lead), "{}", stopped(9));
    assert!(stopped(2).starts_with("2 of 2 transfers could not be made"));
    let error = error(TRANSFER);
    let none = Report::new("nixl", vec![], vec![], vec![error], vec![]);
    assert_eq!(none.verdict, "No permission; nothing could be judged.");
}

#[test]
fn right_bytes_that_prove_nothing_say_why() {
    let gaps = [GapKind::OneContainer, GapKind::HostMemory];
    let (pair, finding) = transfer(Status::Ok, &gaps);
    let of = |workloads| {
        let pairs = Pairs::of(vec![pair.clone()], 1);
        Report::with_pairs(
            "nixl",
            workloads,
            vec![finding.clone()],
            vec![],
            vec![],
            pairs,
        )
    };
    let why = "0 of 1 pair was proven, because both ends ran in one container and the bytes lay in host memory.";
    assert_eq!(
        of(vec![]).verdict,
        format!("The KV path is not proven yet: {why}")
    );
    assert_eq!(
        of(vec![workload(1, true)]).verdict,
        format!(
            "Disaggregated serving with g1 is not proven: nothing on its KV path failed, and {why}"
        )
    );
    assert_eq!(of(vec![]).exit_code(FailOn::Fail, false), ExitCode::Ok);
}

#[test]
fn the_verdict_is_one_sentence() {
    let one = |disaggregated, checks| report(vec![workload(1, disaggregated)], checks).verdict;
    let at = |status| vec![finding("A", status, worker(1, "prefill"))];
    let cases = [
        (
            report(vec![], vec![]).verdict,
            "No Dynamo worker was found in the input, so nothing can be said about its interconnect.",
        ),
        (
            one(false, vec![]),
            "g1 is aggregated: no KV cache leaves a worker, so there is no disaggregated path to trust.",
        ),
        (
            one(true, vec![]),
            "Disaggregated serving with g1 is not proven: nothing on its KV path failed, and no transfer was observed.",
        ),
        (
            one(true, at(Status::Warn)),
            "Disaggregated serving with g1 is not proven: nothing on its KV path failed, and no transfer was observed; \
             look first at: something is wrong (on g1/p).",
        ),
        (
            one(true, at(Status::Fail)),
            "Disaggregated serving with g1 cannot be trusted; fix first: something is wrong (on g1/p).",
        ),
        (
            report(
                vec![workload(1, true), workload(2, false), workload(3, true)],
                at(Status::Fail),
            )
            .verdict,
            "Of 3 deployments: 1 cannot be trusted, 1 not proven (no transfer was observed), 1 aggregated (no KV path); \
             fix first: something is wrong (on g1/p).",
        ),
        (
            Report::new("env", vec![], vec![], vec![error("x.yaml")], vec![]).verdict,
            "Nothing could be judged; x.yaml could not be read.",
        ),
        (
            Report::new(
                "env",
                vec![],
                vec![],
                vec![error("x"), error("y"), error("z")],
                vec![],
            )
            .verdict,
            "Nothing could be judged; x could not be read (and 2 more).",
        ),
    ];
    for (verdict, expected) in cases {
        assert_eq!(verdict, expected);
    }
}

#[test]
fn a_proven_lane_is_said() {
    let mut proven = workload(1, true);
    proven.trust = Trust::Trusted;
    assert_eq!(
        verdict(
            Trust::Trusted,
            &[proven],
            &[],
            &Pairs::default(),
            &[],
            &[],
            &[]
        ),
        "Disaggregated serving with g1 can be trusted: the lane of every pair was proven."
    );
}

#[test]
fn pairs_that_are_not_in_question_are_none_of_those_that_were_proven() {
    let of = |initiator: &str, target: &str| {
        let (mut pair, _) = transfer(Status::Ok, &[]);
        (pair.initiator, pair.target) = (initiator.to_owned(), target.to_owned());
        pair.proven = true;
        pair
    };
    let said = |made: Vec<PairReport>| {
        let sides = [vec!["p-0", "p-1"], vec!["d-0"]];
        verdict(
            Trust::Unproven,
            &[workload(1, true)],
            &[],
            &Pairs::between(made, &sides),
            &[],
            &[],
            &[],
        )
    };
    let every = "the lane of every pair was proven, but trust needs more than that";
    for (made, words) in [
        (vec![of("d-0", "p-0"), of("d-0", "p-1")], every),
        (
            vec![of("d-0", "p-0"), of("p-0", "p-1")],
            "1 of 2 pairs was proven; the other was not tried",
        ),
        (
            vec![of("d-0", "p-0"), of("d-9", "p-1")],
            "1 of 2 pairs was proven; the other was not tried",
        ),
        (
            vec![of("p-0", "p-1"), of("d-9", "p-1")],
            "0 of 2 pairs were proven; 2 were not tried",
        ),
        (
            vec![of("d-0", "p-0"), of("d-0", "p-1"), of("d-9", "p-1")],
            every,
        ),
    ] {
        let said = said(made);
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn an_end_of_which_nothing_was_seen_is_not_said_to_be_free_of_failures() {
    let target = Target::input("pasted outputs");
    let ends = [Probed {
        target,
        trust: Trust::Unproven,
    }];
    let of = |observed: &[Finding]| {
        verdict(
            Trust::Unproven,
            &[],
            &ends,
            &Pairs::default(),
            &[],
            &[],
            observed,
        )
    };
    assert_eq!(of(&[]), "Nothing could be judged on pasted outputs.");
    assert!(of(&[on(REQUIRED, Status::Ok)]).starts_with("Nothing on the KV path failed"));
}

/// A container that belongs to no workload.
fn pod(name: &str, role: Option<&str>) -> Target {
    let place = crate::snapshot::Place {
        kind: crate::snapshot::PlaceKind::Pod,
        role: role.map(str::to_owned),
        ..crate::snapshot::Place::host(name)
    };
    Target::pod(&place, 0)
}

#[test]
fn a_container_explains_nothing_of_another() {
    for role in [None, Some("decode")] {
        let cause = Finding {
            causes: &["B"],
            ..finding("A", Status::Fail, pod("a", role))
        };
        let own = finding("B", Status::Fail, pod("a", role));
        let other = finding("B", Status::Fail, pod("b", role));
        let fixes = report(vec![], vec![cause, own, other]).fix_first;
        assert_eq!(ids(&fixes), [("A", vec!["B"]), ("B", vec![])]);
        assert_eq!(fixes[1].target.name, "b");
    }
}

/// A pod of the first workload.
fn placed(name: &str, role: &str) -> Target {
    Target {
        ordinal: 1,
        workload: Some("g".to_owned()),
        ..pod(name, Some(role))
    }
}

#[test]
fn one_replica_explains_nothing_of_another_and_all_of_its_own_transfers() {
    let fail = |id, target| finding(id, Status::Fail, target);
    let pair = |initiator: &str| Target {
        ordinal: 1,
        ..Target::pair(initiator, "prefill-0", None)
    };
    let cause = Finding {
        causes: &["B"],
        ..fail("A", placed("decode-0", "decode"))
    };
    let slow = |initiator: &str| Finding {
        rare: following(KV_PATH),
        kv_path: KvPath::Required,
        detail: initiator.to_owned(),
        ..fail("X", pair(initiator))
    };
    let other = Finding {
        detail: "another".to_owned(),
        ..fail("B", placed("decode-1", "decode"))
    };
    let checks = vec![
        cause,
        fail("B", placed("decode-0", "decode")),
        other,
        slow("decode-0"),
        slow("decode-2"),
    ];
    let fixes = report(vec![], checks).fix_first;
    assert_eq!(
        ids(&fixes),
        [("X", vec![]), ("A", vec!["X", "B"]), ("B", vec![])]
    );
    assert_eq!(
        (&*fixes[0].detail, &*fixes[2].detail),
        ("decode-2", "another")
    );
}

#[test]
fn pairs_in_question_are_counted_as_a_list_of_them_would_be() {
    let made = |initiator: &str, target: &str| PairReport {
        initiator: initiator.to_owned(),
        target: target.to_owned(),
        status: Status::Ok,
        proven: true,
        lane: String::new(),
        memory: String::new(),
        write_gbytes: None,
        read_gbytes: None,
        of_line_rate: None,
        steps: vec![],
        unproven: vec![],
    };
    let names = ["a", "b", "c"];
    // Every choice of names for either side, and of transfers among them: a bit each.
    let chosen = |bits: u32| (0..3).filter(move |n| bits >> n & 1 == 1);
    for (from, to, tried) in
        (0..8).flat_map(|f| (0..8).flat_map(move |t| (0..64).map(move |m| (f, t, m))))
    {
        let sides = [from, to].map(|bits| chosen(bits).map(|n| names[n]).collect::<Vec<_>>());
        let all = [
            ("a", "b"),
            ("b", "a"),
            ("a", "c"),
            ("c", "b"),
            ("a", "a"),
            ("x", "a"),
        ];
        let tried = all.iter().enumerate().filter(|(n, _)| tried >> n & 1 == 1);
        let tried: Vec<PairReport> = tried.map(|(_, (i, t))| made(i, t)).collect();
        let mut left: BTreeSet<[&str; 2]> = BTreeSet::new();
        for one in &sides[0] {
            left.extend(sides[1].iter().map(|other| ends(one, other)));
        }
        for pair in &tried {
            left.remove(&ends(&pair.initiator, &pair.target));
        }
        let (of, left) = (sides[0].len() * sides[1].len(), left.len());
        let pairs = Pairs::between(tried, &sides);
        assert_eq!(
            (pairs.of, pairs.left),
            (of, left),
            "{sides:?} {:?}",
            pairs.made
        );
    }
}
