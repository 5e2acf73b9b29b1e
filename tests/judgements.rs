//! The judged examples of the specification, where a copy of it is at hand.

mod support;

use dynamo_interconnect_check::catalogue;
use dynamo_interconnect_check::judge::context::Context;
use dynamo_interconnect_check::judge::explain::parse_assignment;
use dynamo_interconnect_check::judge::{judge, rules};

#[test]
fn every_judged_example_has_its_verdict() {
    let Some(spec) = support::folder("INTERCONNECT_SPEC", "../shared/spec") else {
        return;
    };
    let file = spec.join("env-judgements.tsv");
    let text = std::fs::read_to_string(file).expect("the examples are readable");
    let mut wrong = vec![];
    let mut rows = 0;
    for line in text.lines().skip(1).filter(|l| !l.is_empty()) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [id, variable, value, context, verdict, _, cites] = columns.as_slice() else {
            panic!("a row has other than seven columns: {line}");
        };
        rows += 1;
        let cx = Context::for_explain(context).expect(id);
        let assignment = format!("{variable}={value}");
        let (name, value) = parse_assignment(&assignment);
        let got = judge(name, value, &cx);
        if got.status.word() != *verdict {
            wrong.push(format!(
                "{id} {assignment:?} in {context:?}: wanted {verdict}, got {got:?}"
            ));
        }
        for rule in cites.split(',').chain([got.rule]) {
            if rules::cited(rule).next().is_none() {
                wrong.push(format!("{id}: no rule is called {rule}"));
            }
        }
        let needs_fix = matches!(*verdict, "warn" | "fail");
        if got.fix.is_some() != needs_fix {
            wrong.push(format!("{id}: fix is {:?}", got.fix));
        }
    }
    assert!(rows >= 83, "only {rows} rows");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// `explain` shows the text of the rule that decided, so every rule that a verdict names must be on the page of rules.
#[test]
fn every_rule_that_a_verdict_names_is_on_the_page() {
    let values = [
        "",
        "0",
        "1",
        "2",
        "3",
        "-1",
        "25",
        "5557",
        "70000",
        "y",
        "n",
        "try",
        "auto",
        "on",
        "off",
        "true",
        "false",
        "yes",
        "no",
        "inf",
        "used",
        "error",
        "trace",
        "tb",
        "1tb",
        "8k",
        "intra:8k",
        "600s",
        "all",
        "none",
        "^",
        "=",
        ",",
        "$(X)",
        "{}",
        "{",
        "tcp",
        "rc",
        "rc_mlx5,cuda_copy",
        "ud,cuda_copy",
        "rc,cuda_copy",
        "rc,xyz,cuda_copy",
        "cuda_copy,cuda_ipc",
        "cuda_copy,cuda_ipc,tcp",
        "^ib",
        "^cuda",
        "^cuda_ipc",
        "^ud,ud:aux",
        ",rc,cuda_copy",
        "all,tcp",
        "mlx5_0",
        "mlx5_0:1",
        "mlx5_0:",
        "mlx5",
        "mlx5_*",
        "mlx5_[0-3]:1",
        "==mlx5_0",
        "^mlx5",
        "a, b",
        "eth0",
        "^eth0",
        "lo",
        "Socket",
        "IB",
        "ofi",
        "LOC",
        "NVL",
        "NODE",
        "efa",
        "^efa",
        "efa;ofi_rxd",
        "cuda",
        "system",
        "am",
        "put",
        "get_zcopy",
        "local_subnet",
        "ib_global",
        "localhost",
        "10.0.0.1",
        "UCX",
        "LIBFABRIC",
        "expandable_segments:True",
    ];
    let nics = [
        "",
        "nics=none",
        "nics=unknown",
        "nics=mlx5_0:1/Ethernet/ACTIVE,mlx5_1:1/IB/ACTIVE;gids=1:v1,3:v2",
        "nics=bnxt_re0:1/Ethernet/ACTIVE;peermem=no;dmabuf=no",
        "nics=mlx5_0:1/IB/DOWN",
        "efa=yes",
        "efa=yes;backend=LIBFABRIC;netplugin=aws-ofi-nccl",
        "backend=unknown",
    ];
    let more = [
        "",
        "internode=no",
        "internode=no;gpu=8xL40S",
        "mnnvl=yes;gpu=GB200-NVL72",
        "mnnvl=unknown;ucx=unknown;nccl=unknown",
        "ucx=1.14;nccl=2.20",
        "ucx=1.23;nccl=2.30",
    ];
    let mut contexts = vec![Context::default()];
    for place in nics
        .iter()
        .flat_map(|n| more.iter().map(move |m| format!("{n};{m}")))
    {
        contexts.push(Context::for_explain(&place).expect("a place"));
    }
    let mut seen = std::collections::BTreeSet::new();
    let names = catalogue::all().map(|v| v.name);
    for name in names.chain(["UCX_NET_DEVICE", "UCX_ALLOC_PRIO", "HOME"]) {
        for cx in &contexts {
            for value in values.map(Some).into_iter().chain([None]) {
                seen.insert(judge(name, value, cx).rule);
            }
        }
    }
    let unknown: Vec<_> = seen
        .iter()
        .filter(|r| rules::cited(r).next().is_none())
        .collect();
    assert!(unknown.is_empty(), "no rule is called {unknown:?}");
    assert!(seen.len() > 35, "only {seen:?}");
}

#[test]
fn a_value_that_may_hold_credentials_is_not_repeated() {
    use dynamo_interconnect_check::catalogue::Sensitivity;
    let canary = "c4n4ry";
    let places = ["", "efa=yes", "backend=LIBFABRIC", "internode=no;nics=none"];
    let mut judged = 0;
    for variable in catalogue::all().filter(|v| v.sensitivity == Sensitivity::MayHoldCredentials) {
        for value in [
            format!(r#"{{"pass":"{canary}"}}"#),
            format!(r#"{{"auth":"{canary}"}}"#),
            format!(r#"{{"kv_connector_extra_config":{{"lmcache.apikey":"{canary}"}}}}"#),
            format!("root:{canary}@etcd:2379"),
            format!("http://{canary}@etcd:2379"),
            format!("http://etcd/?sig={canary}"),
            format!("http://etcd/?sv=1&sas={canary}"),
        ] {
            for place in places {
                let cx = Context::for_explain(place).expect("a place");
                let got = judge(variable.name, Some(&value), &cx);
                let said = format!("{got:?}");
                assert!(!said.contains(canary), "{}={value}: {said}", variable.name);
                assert!(catalogue::withheld_of(variable.name, &value));
                judged += 1;
            }
        }
    }
    assert!(judged >= 4 * 7 * 4, "only {judged}");
}

mod properties {
    use dynamo_interconnect_check::catalogue;
    use dynamo_interconnect_check::judge::context::{
        Accelerator, Backend, Context, Gid, Gpus, Link, Nic, Tri, Version,
    };
    use dynamo_interconnect_check::judge::{judge, rules};
    use dynamo_interconnect_check::report::Status;
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;
    use proptest::sample::{select, subsequence};

    fn tri() -> impl Strategy<Value = Tri> {
        select(vec![Tri::Yes, Tri::No, Tri::Unknown])
    }

    fn nic() -> impl Strategy<Value = Nic> {
        (
            select(vec![
                "mlx5_0",
                "mlx5_1",
                "mlx5_10",
                "bnxt_re0",
                "rdmap79s0",
                "ibp12s0",
            ]),
            0u32..3,
            select(vec![Link::InfiniBand, Link::Ethernet, Link::Unknown]),
            any::<bool>(),
        )
            .prop_map(|(device, port, link, active)| Nic {
                maker: None,
                device: device.to_owned(),
                port,
                link,
                active,
                state: if active { "ACTIVE" } else { "DOWN" }.to_owned(),
            })
    }

    fn version() -> impl Strategy<Value = Option<Version>> {
        option::of((1u32..3, 10u32..30).prop_map(|(major, minor)| Version::new(major, minor)))
    }

    fn context() -> impl Strategy<Value = Context> {
        let versions = (version(), version(), version());
        let places = (tri(), tri(), tri(), tri(), tri(), tri());
        let node = (
            option::of(vec(nic(), 0..4)),
            option::of(vec("[a-z]{1,4}[0-9]", 0..3)),
            option::of(vec((0u32..5, option::of(1u8..3)), 0..3)),
            option::of((0u32..9, tri())),
        );
        let facts = (tri(), tri(), tri(), any::<bool>());
        let kinds = (
            select(vec![
                Backend::Ucx,
                Backend::Libfabric,
                Backend::Other,
                Backend::Unknown,
            ]),
            select(vec![
                Accelerator::Nvidia,
                Accelerator::Intel,
                Accelerator::Amd,
                Accelerator::Unknown,
            ]),
            option::of(select(vec!["none", "aws-ofi-nccl"])),
        );
        (versions, places, node, facts, kinds).prop_map(|(v, p, n, f, k)| Context {
            nixl: v.0,
            ucx: v.1,
            nccl: v.2,
            internode: p.0,
            may_share_node: p.1,
            ranks_internode: p.2,
            mnnvl: p.3,
            rdma: p.4,
            roles_separated: p.5,
            nics: n.0,
            net: n.1,
            gids: n.2.map(|g| {
                g.into_iter()
                    .map(|(index, roce_version)| Gid {
                        index,
                        roce_version,
                    })
                    .collect()
            }),
            gpus: n.3.map(|(count, nvswitch)| Gpus {
                count,
                model: "H100".to_owned(),
                nvswitch,
            }),
            peermem: f.0,
            dmabuf: f.1,
            efa: f.2,
            host_buffers: f.3,
            backend: k.0,
            accelerator: k.1,
            netplugin: k.2.map(str::to_owned),
        })
    }

    fn name() -> impl Strategy<Value = String> {
        let names: Vec<&'static str> = catalogue::all().map(|v| v.name).collect();
        prop_oneof![
            8 => select(names).prop_map(str::to_owned),
            1 => "(UCX|NCCL|FI|NIXL)_[A-Z_]{0,12}",
            1 => any::<String>(),
        ]
    }

    fn value() -> impl Strategy<Value = Option<String>> {
        let shaped = r"\^?=?((rc|rc_x|tcp|all|cuda|\\ib|ud:aux|mlx5_0:1|mlx5_\[0-3\]:1|eth0|y|true|inf|[0-9]{1,4}|intra:8k|:|=|[\^*; ]|é)[,:]?){0,9}";
        option::of(prop_oneof![any::<String>(), shaped])
    }

    const TOKENS: [&str; 21] = [
        "rc",
        "rc_x",
        "rc_mlx5",
        "rc_verbs",
        "dc",
        "ud",
        "ud:aux",
        "ib",
        "srd",
        "tcp",
        "self",
        "sm",
        "cuda",
        "cuda_copy",
        "cuda_ipc",
        "gdr_copy",
        "ze_copy",
        "ze_ipc",
        "rocm_copy",
        "nonsense",
        "\\rc_verbs",
    ];

    proptest! {
        #[test]
        fn every_value_has_an_answer(name in name(), value in value(), cx in context()) {
            let got = judge(&name, value.as_deref(), &cx);
            prop_assert!(!got.reason.is_empty() && !got.reason.contains('\n'), "{:?}", got);
            prop_assert!(rules::cited(got.rule).next().is_some(), "{:?}", got);
            prop_assert_eq!(got.fix.is_some(), got.status >= Status::Warn, "{:?}", got);
            prop_assert_eq!(&got, &judge(&name, value.as_deref(), &cx));
        }

        #[test]
        fn any_text_is_a_place_or_an_error(text in any::<String>(), shaped in r"((ucx|nics|gpu|gids|net|efa)=[a-z0-9:/,.-]{0,12};?){0,4}") {
            let _ = Context::for_explain(&text);
            let _ = Context::for_explain(&shaped);
        }

        #[test]
        fn the_order_of_transports_never_matters(
            (tokens, shuffled) in subsequence(TOKENS.to_vec(), 1..=TOKENS.len())
                .prop_flat_map(|tokens| (Just(tokens.clone()), Just(tokens).prop_shuffle())),
            negated in any::<bool>(),
            cx in context(),
        ) {
            let sign = if negated { "^" } else { "" };
            let one = judge("UCX_TLS", Some(&format!("{sign}{}", tokens.join(","))), &cx);
            let other = judge("UCX_TLS", Some(&format!("{sign}{}", shuffled.join(","))), &cx);
            prop_assert_eq!((one.status, one.rule), (other.status, other.rule));
        }

        #[test]
        fn a_suggested_list_never_stays_a_fail(
            tokens in subsequence(TOKENS.to_vec(), 0..=TOKENS.len()),
            negated in any::<bool>(),
            cx in context(),
        ) {
            let sign = if negated { "^" } else { "" };
            let value = format!("{sign}{}", tokens.join(","));
            let got = judge("UCX_TLS", Some(&value), &cx);
            let fix = got.fix.clone().unwrap_or_default();
            let suggested = fix.split("UCX_TLS=").skip(1).map(|rest| {
                let end = rest.find([' ', ';']).unwrap_or(rest.len());
                rest[..end].trim_end_matches(',').to_owned()
            });
            let added = fix
                .strip_prefix("add ")
                .and_then(|rest| rest.split_once(" to the list"))
                .map(|(name, _)| format!("{value},{name}"));
            for list in suggested.chain(added) {
                let then = judge("UCX_TLS", Some(&list), &cx);
                prop_assert!(then.status < Status::Fail, "{value:?}: {got:?}\n{list:?}: {then:?}");
            }
        }

        #[test]
        fn unset_never_fails(name in name(), cx in context()) {
            prop_assert!(judge(&name, None, &cx).status <= Status::Warn);
        }
    }
}
