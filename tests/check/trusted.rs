//! Nothing that trust needs may be missing: a healthy deployment whose transfers are proven is trusted, and whatever is taken
//! away from its recording, it is not.

use crate::rack::{Fabric, Rack};
use crate::{on, steps};
use dynamo_interconnect_check::bundle;
use dynamo_interconnect_check::evaluate::{Beside, evaluate};
use dynamo_interconnect_check::pair::{PairFacts, WRONG_LANE};
use dynamo_interconnect_check::render::{html, text};
use dynamo_interconnect_check::report::{Gap, GapKind, Report, SkipReason, Status, Trust};
use dynamo_interconnect_check::selected::{Rule, Selection};
use dynamo_interconnect_check::snapshot::{Answer, Bundle, Folded, Manifest, Origin};
use tempfile::TempDir;

const REASONS: [SkipReason; 3] = [
    SkipReason::Timeout,
    SkipReason::Denied,
    SkipReason::NotFound,
];

/// What must have been read in every worker. The others say how good a path is, or something that another answer says too.
const NEEDED: &[&str] = &[
    "dev-infiniband",
    "dev-infiniband-open",
    "environment",
    "kernel",
    "pod-spec",
    "rdma-uverbs",
    "target",
    "worker-libraries",
    "worker-limits",
];

/// The same, on one fabric only.
fn also_needed(fabric: Fabric) -> &'static [&'static str] {
    match fabric {
        // Which GID is used, and whether its address is here.
        Fabric::Roce => &["ip-addr", "rdma-gids", "ucx-settings"],
        // Whether the adapters may reach the GPUs of a Grace machine.
        Fabric::Mnnvl => &["nvidia-params"],
        Fabric::InfiniBand | Fabric::Efa => &[],
    }
}

/// The recording of a healthy deployment, with a proven transfer for each pair.
async fn recorded(fabric: Fabric) -> Bundle {
    let (bundle, complaints) = recorded_of(Rack::new(fabric), fabric).await;
    assert_eq!(complaints, Vec::<String>::new());
    bundle
}

/// The recording of a rack, with a proven transfer for each pair, and what the run complained about.
async fn recorded_of(rack: Rack, fabric: Fabric) -> (Bundle, Vec<String>) {
    let fake = rack.into().start().await;
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording");
    let run = on(&fake, &["g", "--nodes", "--save", path.to_str().unwrap()]).await;
    let mut bundle = bundle::read(&path).unwrap();
    let made = &mut bundle.deployment.as_mut().unwrap().transfers;
    for prefill in ["g-prefill-0", "g-prefill-1"] {
        let lane = lane(fabric);
        made.extend(["g-decode-0", "g-decode-1"].map(|decode| pair(lane, decode, prefill)));
    }
    (bundle, run.complaints())
}

/// The lane that is meant, as a transfer names it.
fn lane(fabric: Fabric) -> &'static str {
    match fabric {
        Fabric::InfiniBand | Fabric::Roce => "rc_mlx5/mlx5_0:1 zero-copy",
        Fabric::Efa => {
            "rdma/rdmap100s0:1 and rdma/rdmap101s0:1 and rdma/rdmap102s0:1 and rdma/rdmap103s0:1 by counters"
        }
        Fabric::Mnnvl => "cuda_ipc/cuda zero-copy",
    }
}

fn pair(lane: &str, initiator: &str, target: &str) -> PairFacts {
    PairFacts {
        initiator: initiator.to_owned(),
        target: target.to_owned(),
        namespace: Some("llm".to_owned()),
        status: Status::Ok,
        detail: "moved".to_owned(),
        fix: None,
        proven: true,
        unproven: vec![],
        wrong_bytes: false,
        reason: None,
        lane: lane.to_owned(),
        write_gbytes: Some(45.0),
        read_gbytes: Some(45.0),
        of_line_rate: Some(0.95),
        memory: "gpu".to_owned(),
        steps: steps(lane, 45.0, 45.0),
        caveats: Vec::new(),
        evidence: Vec::new(),
    }
}

fn judged(bundle: Bundle) -> Report {
    evaluate("check", bundle, Beside::default())
}

/// Takes these answers of one worker away.
fn without(whole: &Bundle, pod: usize, ids: &[&str], reason: SkipReason) -> Bundle {
    let mut bundle = whole.clone();
    for id in ids {
        let detail = "taken away".to_owned();
        let missing = Answer::Missing { reason, detail };
        bundle.snapshots[pod].edit(|snapshot| {
            snapshot.answers.insert((*id).to_owned(), missing);
        });
    }
    bundle
}

async fn hold(fabric: Fabric) {
    let whole = recorded(fabric).await;
    let report = judged(whole.clone());
    assert_eq!(report.trust, Trust::Trusted, "{}", report.verdict);
    let pods = whole.snapshots.len();
    let answers = &whole.snapshots[0].open().answers;
    let ids = answers
        .iter()
        .filter(|(_, answer)| matches!(answer, Answer::Text(_)))
        .map(|(id, _)| id.as_str());
    let mut needed = Vec::new();
    for (n, id) in ids.enumerate() {
        let reason = REASONS[n % REASONS.len()];
        if judged(without(&whole, n % pods, &[id], reason)).trust != Trust::Trusted {
            needed.push(id);
        }
    }
    let mut expected = [NEEDED, also_needed(fabric)].concat();
    expected.sort_unstable();
    assert_eq!(needed, expected, "{fabric:?}");
    // Whatever the reason, and also where nobody asked or the answer is empty.
    for (n, id) in expected.iter().enumerate() {
        let pod = n % pods;
        for reason in SkipReason::ALL {
            let trust = judged(without(&whole, pod, &[id], reason)).trust;
            assert_ne!(trust, Trust::Trusted, "{fabric:?} without {id}: {reason:?}");
        }
        let answered = |answer: Option<&str>| {
            let mut bundle = whole.clone();
            bundle.snapshots[pod].edit(|snapshot| {
                snapshot.answers.remove(*id);
                let text = answer.map(|text| Answer::Text(text.to_owned()));
                snapshot
                    .answers
                    .extend(text.map(|text| ((*id).to_owned(), text)));
            });
            judged(bundle).trust
        };
        for answer in [None, Some(""), Some(" \n"), Some("?\n")] {
            // There may be no such file.
            if *id == "ucx-settings" && answer.is_some() {
                continue;
            }
            let trust = answered(answer);
            assert_ne!(trust, Trust::Trusted, "{fabric:?} {id}: {answer:?}");
        }
    }
    // Together with anything else, in any worker.
    let ids: Vec<&str> = answers.keys().map(String::as_str).collect();
    for (n, id) in expected.iter().enumerate() {
        let mut some: Vec<&str> = ids.iter().skip(n).step_by(3).copied().collect();
        some.push(id);
        let bundle = without(&whole, (n + 1) % pods, &some, REASONS[(n + 1) % 3]);
        assert_ne!(
            judged(bundle).trust,
            Trust::Trusted,
            "{fabric:?} without {some:?}"
        );
    }
}

#[tokio::test]
async fn infiniband_without_a_needed_fact_is_not_trusted() {
    hold(Fabric::InfiniBand).await;
}

#[tokio::test]
async fn roce_without_a_needed_fact_is_not_trusted() {
    hold(Fabric::Roce).await;
}

#[tokio::test]
async fn efa_without_a_needed_fact_is_not_trusted() {
    hold(Fabric::Efa).await;
}

#[tokio::test]
async fn nvlink_without_a_needed_fact_is_not_trusted() {
    hold(Fabric::Mnnvl).await;
}

#[tokio::test]
async fn every_pair_must_be_proven_each_once() {
    let whole = recorded(Fabric::InfiniBand).await;
    let made = |change: &dyn Fn(&mut Vec<PairFacts>)| {
        let mut bundle = whole.clone();
        change(&mut bundle.deployment.as_mut().unwrap().transfers);
        judged(bundle).trust
    };
    assert_eq!(made(&|_| ()), Trust::Trusted);
    assert_eq!(made(&Vec::clear), Trust::Unproven);
    for n in 0..4 {
        assert_eq!(
            made(&|all| drop(all.remove(n))),
            Trust::Unproven,
            "without {n}"
        );
        assert_eq!(
            made(&|all| all[n].proven = false),
            Trust::Unproven,
            "{n} not proven"
        );
        let other = (n + 1) % 4;
        assert_eq!(
            made(&|all| all[n] = all[other].clone()),
            Trust::Unproven,
            "{other} twice"
        );
        let turned = |all: &mut Vec<PairFacts>| {
            let other = all[other].clone();
            all[n] = pair(&other.lane, &other.target, &other.initiator);
        };
        assert_eq!(made(&turned), Trust::Unproven, "{other} both ways");
        let within = |all: &mut Vec<PairFacts>| {
            all[n] = pair(lane(Fabric::InfiniBand), "g-decode-0", "g-decode-1");
        };
        assert_eq!(made(&within), Trust::Unproven, "{n} within a role");
    }
    // A worker more is four pairs and two more.
    let mut bundle = whole.clone();
    let mut more = bundle.snapshots[0].clone();
    more.place_mut().pod = "g-decode-2".to_owned();
    bundle.snapshots.push(more);
    assert_eq!(judged(bundle).trust, Trust::Unproven);
}

/// What is done to one transfer.
type Change<'a> = &'a dyn Fn(&mut PairFacts);

/// Reads it again as a recording, where it may come from anybody.
fn reread(bundle: &Bundle) -> Report {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("again");
    bundle::write(&path, bundle).unwrap();
    judged(bundle::read(&path).unwrap())
}

#[tokio::test]
async fn transfers_that_contradict_themselves_prove_nothing() {
    let whole = recorded(Fabric::InfiniBand).await;
    let made = |change: &dyn Fn(&mut PairFacts)| {
        let mut bundle = whole.clone();
        change(&mut bundle.deployment.as_mut().unwrap().transfers[1]);
        reread(&bundle)
    };
    assert_eq!(made(&|_| ()).trust, Trust::Trusted);
    let report = made(&|pair| pair.wrong_bytes = true);
    assert_eq!(report.trust, Trust::Untrusted);
    assert!(report.verdict.contains("WRONG BYTES"), "{}", report.verdict);
    let cases: &[(&str, Change<'_>)] = &[
        ("tcp", &|pair| pair.lane = "tcp/eth0".to_owned()),
        ("no lane", &|pair| pair.lane = String::new()),
        ("unknown", &|pair| pair.lane = "unknown: why".to_owned()),
        ("nothing", &|pair| {
            pair.lane = "nothing was moved: why".to_owned()
        }),
        ("no rate", &|pair| {
            (pair.write_gbytes, pair.read_gbytes) = (None, None);
        }),
        ("zero", &|pair| pair.read_gbytes = Some(0.0)),
        ("negative", &|pair| pair.write_gbytes = Some(-5.0)),
        ("share", &|pair| pair.of_line_rate = Some(-1.0)),
        ("namespace", &|pair| {
            pair.namespace = Some("other".to_owned())
        }),
        ("skipped", &|pair| {
            (pair.status, pair.reason) = (Status::Skipped, Some(SkipReason::Timeout));
        }),
        ("fail", &|pair| pair.status = Status::Fail),
        ("emulated", &|pair| {
            pair.lane = "rc_mlx5/mlx5_0:1 software emulation".to_owned();
        }),
        ("no such transport", &|pair| {
            pair.lane = "zz/mlx5_0:1 zero-copy".to_owned()
        }),
        ("no such port", &|pair| {
            pair.lane = "50% on rc_mlx5/mlx5_0:1 and 50% on rc_mlx5/mlx5_99:1 zero-copy".to_owned();
        }),
        ("no hardware", &|pair| {
            pair.lane = "rc_verbs/rxe0:1 zero-copy".to_owned()
        }),
        ("nvlink between nodes", &|pair| {
            pair.lane = "cuda_ipc/cuda zero-copy".to_owned()
        }),
        ("host memory", &|pair| pair.memory = "host".to_owned()),
        ("no memory", &|pair| pair.memory = "none".to_owned()),
        ("slow and ok", &|pair| pair.of_line_rate = Some(0.01)),
        ("slow and fast", &|pair| pair.write_gbytes = Some(4.0)),
        ("share above one", &|pair| pair.of_line_rate = Some(5.0)),
        ("rate", &|pair| pair.write_gbytes = Some(5000.0)),
        ("no steps", &|pair| pair.steps.clear()),
        ("steps over tcp", &|pair| {
            pair.steps = steps("tcp/eth0 zero-copy", 45.0, 45.0);
        }),
        ("slow steps", &|pair| {
            pair.steps = steps(&pair.lane, 4.5, 4.5);
        }),
        ("only READ", &|pair| drop(pair.steps.remove(0))),
        ("reason", &|pair| pair.reason = Some(SkipReason::Denied)),
        ("gap", &|pair| {
            pair.unproven = vec![Gap {
                kind: GapKind::HostMemory,
                why: "the bytes lay in host memory".to_owned(),
            }];
        }),
        ("wrong lane", &|pair| {
            pair.detail = format!("{WRONG_LANE}: over tcp/eth0")
        }),
    ];
    for (what, change) in cases {
        let report = made(change);
        let trust = match *what {
            "fail" => Trust::Untrusted,
            _ => Trust::Unproven,
        };
        assert_eq!(report.trust, trust, "{what}");
        let pair = &report.pairs.made[1];
        assert!(!pair.proven && pair.write_gbytes.is_none(), "{what}");
        let found = report.checks.iter().filter(|f| f.id == "XFER001");
        let said: Vec<&str> = found.map(|f| f.detail.as_str()).collect();
        let contradicts = |said: &&&str| said.contains("contradicts itself");
        assert_eq!(
            said.iter().filter(contradicts).count(),
            1,
            "{what}: {said:?}"
        );
    }
}

/// Writes another text for an answer of the worker of this name.
fn rewrite(bundle: &mut Bundle, pod: &str, id: &str, change: impl Fn(&str) -> String) {
    let of_pod = |folded: &&mut Folded| folded.place().pod == pod;
    let folded = bundle.snapshots.iter_mut().find(of_pod).unwrap();
    folded.edit(|snapshot| {
        let answer = snapshot.answers.get_mut(id).unwrap();
        let Answer::Text(text) = answer else {
            panic!("{id}: {answer:?}");
        };
        *text = change(text);
    });
}

#[tokio::test]
async fn transfers_over_a_device_that_does_not_open_prove_nothing() {
    // Per fabric the node of the device of the lane, and of another.
    for (fabric, device, node, other) in [
        (Fabric::InfiniBand, "mlx5_0", "uverbs0", "uverbs1"),
        (Fabric::Efa, "rdmap100s0", "uverbs21", "uverbs1"),
    ] {
        let whole = recorded(fabric).await;
        let proven = |change: &dyn Fn(&mut Bundle)| {
            let mut bundle = whole.clone();
            change(&mut bundle);
            let made = judged(bundle).pairs.made;
            made.into_iter().filter(|pair| pair.proven).count()
        };
        let (ask, nodes) = ("dev-infiniband-open", "dev-infiniband");
        let refused = |text: &str, node: &str| {
            let opens = format!("{node}: open");
            assert!(text.contains(&opens), "{text}");
            text.replace(&opens, &format!("{node}: EACCES"))
        };
        let own = |bundle: &mut Bundle, node: &str| {
            rewrite(bundle, "g-decode-0", ask, |text| refused(text, node));
        };
        assert_eq!(proven(&|_| ()), 4);
        assert_eq!(proven(&|bundle| own(bundle, node)), 2, "{device}");
        assert_eq!(proven(&|bundle| own(bundle, other)), 4, "{device}");
        let gone = |bundle: &mut Bundle| {
            rewrite(bundle, "g-decode-0", nodes, |text| {
                text.replace(&format!("{node}\n"), "")
            });
        };
        assert_eq!(proven(&gone), 2, "{device}");
        // The lane does not say which device of the target took part.
        let target = |bundle: &mut Bundle| {
            rewrite(bundle, "g-prefill-0", ask, |text| refused(text, node));
        };
        assert_eq!(proven(&target), 4, "{device}");
        let none = |bundle: &mut Bundle| {
            rewrite(bundle, "g-prefill-0", nodes, |_| String::new());
        };
        assert_eq!(proven(&none), 2, "{device}");
        let unread = without(&whole, 2, &[ask, nodes], SkipReason::Timeout);
        let made = judged(unread).pairs.made;
        assert!(made.iter().all(|pair| pair.proven), "{device}");
    }
}

#[tokio::test]
async fn transfers_of_a_pod_that_was_not_looked_at_prove_nothing() {
    let mut bundle = recorded(Fabric::InfiniBand).await;
    let decode = |folded: &Folded| folded.place().pod == "g-decode-1";
    bundle.snapshots.retain(|folded| !decode(folded));
    let report = judged(bundle.clone());
    assert_eq!(report.trust, Trust::Unproven, "{}", report.verdict);
    let proven = report.pairs.made.iter().filter(|pair| pair.proven);
    assert_eq!(proven.count(), 2);
    assert!(
        report
            .verdict
            .contains("g-decode-1 is not among the pods that were looked at"),
        "{}",
        report.verdict
    );
    // Nor where nobody was looked at.
    bundle.snapshots.clear();
    let report = judged(bundle);
    assert_eq!(report.trust, Trust::Unproven, "{}", report.verdict);
    assert!(report.pairs.made.iter().all(|pair| !pair.proven));
}

#[tokio::test]
async fn host_memory_is_where_kv_lies_when_it_is_written_so() {
    let whole = recorded(Fabric::InfiniBand).await;
    let judged_with = |change: &dyn Fn(&mut Bundle)| {
        let mut bundle = whole.clone();
        change(&mut bundle);
        judged(bundle)
    };
    let written = |bundle: &mut Bundle| {
        for manifest in &mut bundle.deployment.as_mut().unwrap().manifests {
            let connector = r#""kv_connector":"NixlConnector","#;
            assert!(manifest.text.contains(connector), "{}", manifest.text);
            let cpu = format!(r#"{connector}"kv_buffer_device":"cpu","#);
            manifest.text = manifest.text.replace(connector, &cpu);
        }
    };
    let process = |bundle: &mut Bundle, device: &str| {
        let text =
            format!("\"kv_connector\": \"NixlConnector\"\n\"kv_buffer_device\": \"{device}\"\n");
        for folded in &mut bundle.snapshots {
            let id = "worker-kv-transfer".to_owned();
            folded.edit(|s| _ = s.answers.insert(id, Answer::Text(text.clone())));
        }
    };
    let host = |bundle: &mut Bundle| {
        for pair in &mut bundle.deployment.as_mut().unwrap().transfers {
            pair.memory = "host".to_owned();
        }
    };
    let said = |report: &Report| {
        let words = "goes through host memory (kv_buffer_device=cpu)";
        report.notes.iter().any(|n| n.message.contains(words))
    };
    let report = judged_with(&|_| ());
    assert!(report.trust == Trust::Trusted && !said(&report));
    assert_eq!(judged_with(&host).trust, Trust::Unproven);
    let report = judged_with(&|bundle| {
        written(bundle);
        host(bundle);
    });
    assert_eq!(report.trust, Trust::Trusted, "{}", report.verdict);
    assert!(!said(&report));
    // What runs is closer than what is written.
    for (device, trust) in [("cpu", Trust::Trusted), ("cuda", Trust::Unproven)] {
        let report = judged_with(&|bundle| {
            written(bundle);
            process(bundle, device);
            host(bundle);
        });
        assert_eq!(report.trust, trust, "{device}");
    }
    let report = judged_with(&written);
    assert_eq!(report.trust, Trust::Trusted, "{}", report.verdict);
    assert!(said(&report), "{:?}", report.notes);
}

/// The texts of a recording that describe its deployment.
fn manifests(bundle: &mut Bundle) -> &mut Vec<Manifest> {
    &mut bundle.deployment.as_mut().unwrap().manifests
}

/// One thing that is done to a recording.
type Edit<'a> = &'a dyn Fn(&mut Bundle);

/// Nor may anything be missing that is no answer of a container: what describes the deployment, a role, a replica.
#[tokio::test]
async fn what_describes_the_deployment_must_be_there_and_all_of_it_looked_at() {
    for fabric in [Fabric::InfiniBand, Fabric::Mnnvl] {
        let whole = recorded(fabric).await;
        let judged_with = |edit: Edit<'_>| {
            let mut bundle = whole.clone();
            edit(&mut bundle);
            reread(&bundle)
        };
        let of = |origin: Origin| move |manifest: &Manifest| manifest.origin == origin;
        let rewrite = |bundle: &mut Bundle, origin: Origin, from: &str, to: &str| {
            let manifest = manifests(bundle)
                .iter_mut()
                .find(|m| of(origin)(m))
                .unwrap();
            assert!(manifest.text.contains(from), "{from}: {}", manifest.text);
            manifest.text = manifest.text.replacen(from, to, 1);
        };
        let lost = |bundle: &mut Bundle, pod: &str| {
            bundle.snapshots.retain(|s| s.place().pod != pod);
            let deployment = bundle.deployment.as_mut().unwrap();
            let transfers = &mut deployment.transfers;
            transfers.retain(|t| t.initiator != pod && t.target != pod);
        };
        assert_eq!(judged_with(&|_| ()).trust, Trust::Trusted);
        let cases: &[(&str, &str, Edit<'_>)] = &[
            (
                "no manifest",
                "the description of the pods of g could not be read",
                &|bundle| {
                    manifests(bundle).clear();
                },
            ),
            (
                "no pods",
                "the description of the pods of g could not be read",
                &|bundle| {
                    manifests(bundle).retain(of(Origin::Object));
                },
            ),
            (
                "no manifest, a role and its pairs",
                "the description of the pods",
                &|bundle| {
                    manifests(bundle).clear();
                    bundle.snapshots[1].place_mut().role = None;
                    let pod = bundle.snapshots[1].place().pod.clone();
                    let deployment = bundle.deployment.as_mut().unwrap();
                    deployment
                        .transfers
                        .retain(|t| t.initiator != pod && t.target != pod);
                },
            ),
            (
                "a role has no description",
                "2 pods of other (decode) are there, and 0 were looked at",
                &|bundle| {
                    rewrite(bundle, Origin::Pods, "name: decode", "name: other");
                },
            ),
            (
                "a pod and its pairs",
                "2 pods of decode are there, and 1 was looked at",
                &|bundle| {
                    lost(bundle, "g-decode-1");
                },
            ),
            (
                "a replica that is asked for",
                "3 pods of prefill are asked for, and 2 were looked at",
                &|bundle| {
                    rewrite(bundle, Origin::Object, "replicas: 2", "replicas: 3");
                },
            ),
            (
                "a pod, and what was there",
                "2 pods of decode are asked for, and 1 was looked at",
                &|bundle| {
                    lost(bundle, "g-decode-1");
                    rewrite(bundle, Origin::Pods, "replicas: 2", "replicas: 1");
                    rewrite(bundle, Origin::Pods, "replicas: 2", "replicas: 1");
                },
            ),
        ];
        for (what, words, edit) in cases {
            let report = judged_with(edit);
            let verdict = &report.verdict;
            assert_eq!(report.trust, Trust::Unproven, "{what}: {verdict}");
            assert!(verdict.contains(words), "{what}: {verdict}");
        }
    }
}

/// Answers of one worker that stand for another, and pods of something else.
#[tokio::test]
async fn what_was_read_of_another_proves_nothing_of_this_one() {
    for fabric in [Fabric::InfiniBand, Fabric::Roce, Fabric::Efa, Fabric::Mnnvl] {
        let whole = recorded(fabric).await;
        let of = |bundle: &Bundle, pod: &str| {
            let mut all = bundle.snapshots.iter();
            all.position(|s| s.place().pod == pod).unwrap()
        };
        let copied = |bundle: &mut Bundle, but: &[&str]| {
            let from = bundle.snapshots[of(bundle, "g-decode-0")]
                .open()
                .answers
                .clone();
            let to = of(bundle, "g-decode-1");
            bundle.snapshots[to].edit(|snapshot| {
                for (id, answer) in from {
                    if !but.contains(&id.as_str()) {
                        snapshot.answers.insert(id, answer);
                    }
                }
            });
        };
        let cases: &[(&str, &str, Edit<'_>)] = &[
            ("twice", "g-decode-1 stands there twice", &|bundle| {
                let again = bundle.snapshots[of(bundle, "g-decode-1")].clone();
                bundle.snapshots.push(again);
            }),
            (
                "all answers",
                "what is told of g-decode-1 was read in g-decode-0",
                &|bundle| {
                    copied(bundle, &[]);
                },
            ),
            ("all but its name", "tell the pod address", &|bundle| {
                copied(bundle, &["target"]);
            }),
            (
                "all but what the API says",
                "g-decode-0 and g-decode-1 tell the GPU GPU-",
                &|bundle| {
                    copied(bundle, &["target", "pod-spec"]);
                },
            ),
            (
                "another deployment's",
                "g-decode-1 was read as a pod of h",
                &|bundle| {
                    let at = of(bundle, "g-decode-1");
                    bundle.snapshots[at].place_mut().workload = Some("h".to_owned());
                },
            ),
            (
                "another namespace's",
                "was read as a pod of namespace other",
                &|bundle| {
                    let at = of(bundle, "g-decode-1");
                    bundle.snapshots[at].place_mut().namespace = Some("other".to_owned());
                },
            ),
            (
                "another name",
                "the manifests are of g and not of h",
                &|bundle| {
                    bundle.deployment.as_mut().unwrap().name = "h".to_owned();
                },
            ),
        ];
        for (what, words, edit) in cases {
            let mut bundle = whole.clone();
            edit(&mut bundle);
            let report = judged(bundle);
            let verdict = &report.verdict;
            // Addresses that they tell may be a fault by themselves.
            let address = report.fix_first.iter().all(|fix| fix.id == "DEP012");
            let expected = match report.fix_first.is_empty() {
                true => Trust::Unproven,
                false => Trust::Untrusted,
            };
            assert!(address, "{verdict}");
            assert_eq!(report.trust, expected, "{fabric:?} {what}: {verdict}");
            let own = report.checks.iter().filter(|c| c.id == "DEP023");
            let said: Vec<&str> = own.map(|c| c.detail.as_str()).collect();
            assert!(
                said.iter().any(|s| s.contains(words)),
                "{fabric:?} {what}: {said:?}"
            );
            let named = verdict.contains("what was read contradicts itself: ");
            assert_eq!(named, expected == Trust::Unproven, "{verdict}");
        }
    }
}

#[tokio::test]
async fn a_lane_that_the_workers_settings_leave_out_proves_nothing() {
    let whole = recorded(Fabric::InfiniBand).await;
    let with = |name: &str, value: &str| {
        let mut bundle = whole.clone();
        for pod in ["g-decode-0", "g-decode-1", "g-prefill-0", "g-prefill-1"] {
            rewrite(&mut bundle, pod, "environment", |text| {
                let others = text
                    .lines()
                    .filter(|line| !line.starts_with(&format!("{name}=")));
                let kept: Vec<&str> = others.collect();
                format!("{}\n{name}={value}\n", kept.join("\n"))
            });
        }
        judged(bundle)
    };
    let nics = "UCX_NET_DEVICES";
    for (name, value, words) in [
        (
            nics,
            "mlx5_3:1",
            "over mlx5_0:1, which UCX_NET_DEVICES of g-decode-0 leaves out",
        ),
        (
            nics,
            "^mlx5_0:1",
            "over mlx5_0:1, which UCX_NET_DEVICES of g-decode-0 leaves out",
        ),
        (nics, "mlx5_0:1,mlx5_1:1", ""),
        (
            "UCX_TLS",
            "dc,cuda_copy,cuda_ipc",
            "over rc_mlx5, which UCX_TLS of g-decode-0 leaves out",
        ),
        (
            "UCX_TLS",
            "^rc",
            "over rc_mlx5, which UCX_TLS of g-decode-0 leaves out",
        ),
        ("UCX_TLS", "rc,cuda_copy,cuda_ipc", ""),
        ("UCX_TLS", "ib,cuda", ""),
        ("UCX_TLS", "rc_x,cuda", ""),
    ] {
        let report = with(name, value);
        let proven = report.pairs.made.iter().filter(|pair| pair.proven).count();
        assert_eq!(
            proven,
            if words.is_empty() { 4 } else { 0 },
            "{name}={value}"
        );
        let said = report.checks.iter().filter(|c| c.id == "XFER001");
        let told = said
            .filter(|c| !words.is_empty() && c.detail.contains(words))
            .count();
        assert_eq!(told, if words.is_empty() { 0 } else { 2 }, "{name}={value}");
    }
}

/// Whoever moves KV beside NIXL, a transfer of NIXL proves nothing of it, and none is recommended.
#[tokio::test]
async fn another_mover_than_nixl_is_not_trusted() {
    let nixl = [
        (
            Fabric::InfiniBand,
            "NixlConnector",
            vec!["NixlPullConnector"],
        ),
        (Fabric::Roce, "backend=nixl", vec![]),
        (
            Fabric::Mnnvl,
            "backend: DEFAULT",
            vec!["backend: NIXL", "backend: UCX"],
        ),
    ];
    let others = [
        (
            Fabric::InfiniBand,
            "NixlConnector",
            "MooncakeConnector",
            "Mooncake moves",
        ),
        (
            Fabric::InfiniBand,
            "NixlConnector",
            "P2pNcclConnector",
            "NCCL moves",
        ),
        (
            Fabric::InfiniBand,
            "NixlConnector",
            "LMCacheConnectorV1",
            "LMCache moves",
        ),
        (
            Fabric::InfiniBand,
            "NixlConnector",
            "SharedStorageConnector",
            "a store that both",
        ),
        (
            Fabric::InfiniBand,
            "NixlConnector",
            "OwnConnector",
            "does not know",
        ),
        (
            Fabric::Roce,
            "backend=nixl",
            "backend=mooncake",
            "Mooncake moves",
        ),
        (
            Fabric::Roce,
            "--disaggregation-transfer-backend=nixl",
            "--skip-tokenizer-init",
            "Mooncake moves",
        ),
        (
            Fabric::Mnnvl,
            "backend: DEFAULT",
            "backend: MPI",
            "MPI moves",
        ),
    ];
    let written = |bundle: &Bundle, from: &str, to: &str| {
        let mut bundle = bundle.clone();
        let mut found = false;
        for manifest in &mut bundle.deployment.as_mut().unwrap().manifests {
            found |= manifest.text.contains(from);
            manifest.text = manifest.text.replace(from, to);
        }
        assert!(found, "{from}");
        bundle
    };
    for (fabric, from, same) in nixl {
        let whole = recorded(fabric).await;
        for to in same {
            let report = judged(written(&whole, from, to));
            assert_eq!(report.trust, Trust::Trusted, "{to}: {}", report.verdict);
        }
        for (_, from, to, said) in others.iter().filter(|other| other.0 == fabric) {
            let mut bundle = written(&whole, from, to);
            let report = judged(bundle.clone());
            let verdict = &report.verdict;
            assert_eq!(report.trust, Trust::Unproven, "{to}: {verdict}");
            assert!(report.pairs.made.iter().all(|pair| !pair.proven), "{to}");
            let why = "0 of 4 pairs were proven, because NIXL is not known to move the KV cache";
            assert!(
                verdict.contains(why) && verdict.contains(said),
                "{to}: {verdict}"
            );
            bundle.deployment.as_mut().unwrap().transfers.clear();
            for report in [report, judged(bundle)] {
                assert!(report.verdict.contains(said), "{to}: {}", report.verdict);
                let next = report.next.unwrap_or_default();
                assert!(!next.contains("--transfer"), "{to}: {next}");
            }
        }
    }
    // What runs is closer than what is written.
    let mut bundle = recorded(Fabric::Roce).await;
    for folded in &mut bundle.snapshots {
        let line = Answer::Text("\"transfer_backend\": \"mooncake\"\n".to_owned());
        folded.edit(|s| _ = s.answers.insert("worker-kv-transfer".to_owned(), line));
    }
    assert_eq!(judged(bundle).trust, Trust::Unproven);
}

#[tokio::test]
async fn kv_that_tensorrt_llm_does_not_transfer_is_not_trusted() {
    let whole = recorded(Fabric::Mnnvl).await;
    let with = |change: &dyn Fn(&mut String)| {
        let mut bundle = whole.clone();
        let manifests = &mut bundle.deployment.as_mut().unwrap().manifests;
        for manifest in manifests {
            change(&mut manifest.text);
        }
        judged(bundle)
    };
    let off = with(&|text| *text = text.replace("cache_transceiver_config", "other"));
    assert_eq!(off.trust, Trust::Untrusted, "{}", off.verdict);
    assert!(
        off.verdict.contains("KV transfer is off"),
        "{}",
        off.verdict
    );
    // Its file is not there, and the variable that chooses among the backends of NIXL does not decide.
    let gone = with(&|text| *text = text.replace("kind: ConfigMap", "kind: Other"));
    assert_eq!(gone.trust, Trust::Unproven, "{}", gone.verdict);
    let same = gone.checks.iter().find(|c| c.id == "DEP004").unwrap();
    assert_eq!(same.status, Status::Skipped, "{}", same.detail);
}

/// `--override-engine-args` and `--trtllm.*` go before TensorRT-LLM's file, and of a pod spec only what decides is kept of them.
#[tokio::test]
async fn what_is_laid_over_the_configuration_of_tensorrt_llm_decides() {
    let with = async |flags: &[&str], variable: Option<&str>| {
        let rack = Rack::new(Fabric::Mnnvl).at("prefill", |worker| {
            for flag in flags {
                worker.arg(flag);
            }
            if variable.is_some() {
                worker.env("DYN_TRTLLM_OVERRIDE_ENGINE_ARGS", variable);
            }
        });
        let (bundle, _) = recorded_of(rack, Fabric::Mnnvl).await;
        assert!(!serde_json::to_string(&bundle).unwrap().contains("s3cret"));
        judged(bundle)
    };
    let backend = |name: &str| {
        format!(
            "{{\"cache_transceiver_config\": {{\"backend\": \"{name}\"}}, \"key\": \"s3cret\"}}"
        )
    };
    let (nixl, mpi) = (backend("DEFAULT"), backend("MPI"));
    let whole = "--override-engine-args";
    let dotted = "--trtllm.cache_transceiver_config.backend";
    let tokens = "{\"kv_cache_config\": {\"tokens_per_block\": 64}}";
    for (flags, variable, trust, said) in [
        (&[whole, &nixl][..], None, Trust::Trusted, ""),
        (&[dotted, "DEFAULT"], None, Trust::Trusted, ""),
        (&[], Some(&*nixl), Trust::Trusted, ""),
        (
            &[whole, &mpi],
            None,
            Trust::Untrusted,
            "move KV in different ways",
        ),
        (
            &[dotted, "MPI"],
            None,
            Trust::Untrusted,
            "move KV in different ways",
        ),
        (
            &[],
            Some(&mpi),
            Trust::Untrusted,
            "move KV in different ways",
        ),
        (&[whole, tokens], None, Trust::Untrusted, "KV block sizes"),
        (
            &[whole, "s3cret"],
            None,
            Trust::Unproven,
            "kv-backend-unresolved (K8S016)",
        ),
    ] {
        let report = with(flags, variable).await;
        let verdict = &report.verdict;
        assert_eq!(report.trust, trust, "{flags:?} {variable:?}: {verdict}");
        assert!(verdict.contains(said), "{flags:?} {variable:?}: {verdict}");
    }
}

/// What could not be looked at comes before what only follows from it, and left-out checks are named.
#[tokio::test]
async fn what_was_not_read_or_was_left_out_is_the_next_thing_to_do() {
    let whole = recorded(Fabric::InfiniBand).await;
    let next = |bundle: Bundle, beside: Beside| {
        let report = evaluate("check", bundle, beside);
        assert_eq!(report.trust, Trust::Unproven, "{}", report.verdict);
        (report.verdict.clone(), report.next.unwrap_or_default())
    };
    let lost = without(&whole, 1, &["environment"], SkipReason::Timeout);
    let (verdict, said) = next(lost, Beside::default());
    assert!(
        said.starts_with("look again with more time (--timeout), then `"),
        "{said}"
    );
    assert!(verdict.contains("but trust also needs"), "{verdict}");
    let ignored = vec![Rule::given("--ignore", "MEM001", None)];
    let selection = Selection::new(ignored, vec![], (2026, 1, 1));
    let (verdict, said) = next(
        whole,
        Beside {
            selection,
            ..Beside::default()
        },
    );
    assert!(
        verdict.contains("but trust also needs what was left out on request"),
        "{verdict}"
    );
    assert!(
        said.starts_with("judge memlock-limited (MEM001) as well"),
        "{said}"
    );
}

/// What a manifest leaves open, the command lines of the workers that run say.
#[tokio::test]
async fn the_processes_that_run_say_what_moves_kv() {
    for (fabric, from, to, line, trust) in [
        (
            Fabric::Mnnvl,
            "/etc/trtllm/",
            "/opt/",
            "\"transceiver\": \"DEFAULT\"\n",
            Trust::Trusted,
        ),
        (
            Fabric::Mnnvl,
            "/etc/trtllm/",
            "/opt/",
            "\"transceiver\": \"MPI\"\n",
            Trust::Unproven,
        ),
        (
            Fabric::Mnnvl,
            "/etc/trtllm/",
            "/opt/",
            "\"not_read\": \"--extra-engine-args\"\n",
            Trust::Unproven,
        ),
        (
            Fabric::InfiniBand,
            "{\"kv_connector\":\"NixlConnector\",\"kv_role\":\"kv_both\"}",
            "$(KV)",
            "\"kv_connector\": \"NixlConnector\"\n",
            Trust::Trusted,
        ),
        (
            Fabric::InfiniBand,
            "{\"kv_connector\":\"NixlConnector\",\"kv_role\":\"kv_both\"}",
            "$(KV)",
            "\"kv_connector\": \"P2pNcclConnector\"\n",
            Trust::Unproven,
        ),
    ] {
        let rack = Rack::new(fabric).all(|worker| {
            let args = worker
                .object
                .pointer_mut("/spec/containers/0/args")
                .unwrap();
            let text = serde_json::to_string(args).unwrap();
            let quoted = |text: &str| {
                serde_json::to_string(text)
                    .unwrap()
                    .trim_matches('"')
                    .to_owned()
            };
            let changed = text.replace(&quoted(from), &quoted(to));
            assert_ne!(changed, text);
            *args = serde_json::from_str(&changed).unwrap();
            worker.answer("worker-kv-transfer", line);
        });
        let (bundle, complaints) = recorded_of(rack, fabric).await;
        assert_eq!(complaints, Vec::<String>::new(), "{line}");
        let report = judged(bundle);
        assert_eq!(report.trust, trust, "{line}: {}", report.verdict);
    }
}

/// What keeps proven lanes from being trusted is named, with what would let it be judged.
#[tokio::test]
async fn a_proven_deployment_says_what_it_lacks() {
    let rack = Rack::new(Fabric::Roce).at("prefill", |worker| {
        worker.arg("--page-size=64");
    });
    let (bundle, _) = recorded_of(rack, Fabric::Roce).await;
    let report = judged(bundle);
    assert_eq!(report.trust, Trust::Unproven, "{}", report.verdict);
    let words = "the lane of every pair was proven, but trust also needs block-size-differs (K8S014), which could not be judged.";
    assert!(report.verdict.ends_with(words), "{}", report.verdict);
    let next = report.next.clone().unwrap_or_default();
    assert_eq!(
        next,
        "state --page-size of decode as well, then `dynamo-interconnect-check check g -n llm --transfer` again"
    );
    assert!(html::render(&report).contains("Needed for trust and not judged"));
    let text = text::render(
        &report,
        text::Options {
            verbose: false,
            width: 100,
        },
    );
    let text = anstream::adapter::strip_str(&text).to_string();
    let (_, section) = text
        .split_once("Needed for trust and not judged\n")
        .unwrap();
    let section = section.split("\n\n").next().unwrap();
    for words in [
        " -  skipped  block-size-differs  g  [K8S014]",
        "--page-size is 64 on prefill and not stated on decode: its engine chooses it by the attention backend",
        "fix: state --page-size of decode as well",
    ] {
        let flat: Vec<&str> = section.split_whitespace().collect();
        let wanted: Vec<&str> = words.split_whitespace().collect();
        assert!(
            flat.join(" ").contains(&wanted.join(" ")),
            "{words}: {section}"
        );
    }
}

#[tokio::test]
async fn what_always_applies_is_not_read_where_it_is_said_not_to_apply() {
    let whole = recorded(Fabric::InfiniBand).await;
    for id in ["environment", "kernel", "pod-spec", "worker-limits"] {
        let report = judged(without(&whole, 1, &[id], SkipReason::NotApplicable));
        assert_eq!(report.trust, Trust::Unproven, "{id}");
    }
}

#[tokio::test]
async fn a_tool_that_printed_nothing_is_not_why_ports_are_unknown() {
    let whole = recorded(Fabric::InfiniBand).await;
    let skipped = |report: &Report, name: &str| -> Vec<(Option<SkipReason>, String)> {
        let checks = report.checks.iter();
        let own = checks.filter(|c| c.name == name && c.status == Status::Skipped);
        own.map(|c| (c.reason, c.detail.clone())).collect()
    };
    let ports = [
        "rdma-ports",
        "ibstat",
        "ibv-devinfo",
        "ibstatus",
        "ibv-devices",
    ];
    for reason in [SkipReason::NotApplicable, SkipReason::NotCollected] {
        let mut bundle = without(&whole, 1, &ports, reason);
        bundle.snapshots[1].edit(|s| {
            let nothing = Answer::Text(String::new());
            s.answers.insert("rdma-link".to_owned(), nothing);
            if reason == SkipReason::NotCollected {
                s.answers.retain(|id, _| !ports.contains(&id.as_str()));
            }
        });
        let said = skipped(&judged(bundle), "ib-link");
        let [(Some(SkipReason::NotCollected), detail)] = said.as_slice() else {
            panic!("{said:?}");
        };
        assert!(
            detail.contains("/ports/*/") && detail.contains("was not read in"),
            "{detail}"
        );
    }
}

#[tokio::test]
async fn the_verdict_counts_the_pairs_that_were_proven() {
    let whole = recorded(Fabric::InfiniBand).await;
    let said = |change: &dyn Fn(&mut Bundle)| {
        let mut bundle = whole.clone();
        change(&mut bundle);
        judged(bundle).verdict
    };
    let transfers = |bundle: &mut Bundle, n: usize| {
        bundle.deployment.as_mut().unwrap().transfers.truncate(n);
    };
    let one = said(&|bundle| transfers(bundle, 1));
    assert!(
        one.contains("1 of 4 pairs was proven; the others were not tried"),
        "{one}"
    );
    let two = said(&|bundle| {
        transfers(bundle, 2);
        bundle.deployment.as_mut().unwrap().transfers[0].proven = false;
    });
    assert!(
        two.contains("1 of 4 pairs was proven; 2 were not tried"),
        "{two}"
    );
    let unread = said(&|bundle| {
        let skipped = Answer::Missing {
            reason: SkipReason::Interrupted,
            detail: "d".to_owned(),
        };
        bundle.snapshots[0].edit(|s| _ = s.answers.insert("target".to_owned(), skipped));
    });
    let words = "the lane of every pair was proven, but trust needs more than that";
    assert!(unread.contains(words), "{unread}");
    let words = "the run was interrupted before 1 of 4 containers were looked at";
    assert!(unread.contains(words), "{unread}");
    let none = said(&|bundle| transfers(bundle, 0));
    assert!(none.contains("no transfer was observed"), "{none}");
}
