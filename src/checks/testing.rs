//! Shared by the tests of the checks: facts from a few lines, and what the whole pipeline makes of them.

use super::{Container, Outcome};
use crate::ask::{self, Ask};
use crate::manifest::{self, Text, view};
use crate::observed::Skip;
use crate::report::{Report, Status};
use crate::snapshot::{Answer, Place, Snapshot};
use crate::source::SourceFile;
use std::sync::Arc;

/// A recorded container with these answers.
pub(crate) fn container<T: AsRef<str>>(role: &str, answers: &[(&Ask, T)]) -> Snapshot {
    let place = Place {
        kind: crate::snapshot::PlaceKind::Pod,
        workload: None,
        namespace: None,
        pod: format!("{role}-0"),
        container: None,
        node: None,
        role: Some(role.to_owned()),
    };
    let answers = answers
        .iter()
        .map(|(ask, text)| (ask.id.to_owned(), Answer::Text(text.as_ref().to_owned())))
        .collect();
    Snapshot { place, answers }
}

/// What one check says about a recorded container.
pub(crate) fn outcome(run: fn(&Container<'_>) -> Outcome, snapshot: &Snapshot) -> Outcome {
    run(&Container::parse(snapshot))
}

/// The gravest status of one check about a container with these answers.
pub(crate) fn verdict<T: AsRef<str>>(
    run: fn(&Container<'_>) -> Outcome,
    role: &str,
    answers: &[(&Ask, T)],
) -> Result<Status, Skip> {
    let drafts = outcome(run, &container(role, answers))?;
    for draft in &drafts {
        if draft.status == Status::Ok {
            assert!(!draft.evidence.is_empty(), "ok without evidence: {draft:?}");
        }
        if draft.status >= Status::Warn {
            assert!(draft.fix.is_some(), "nothing to do about it: {draft:?}");
        }
    }
    drafts
        .iter()
        .map(|draft| draft.status)
        .max()
        .ok_or_else(Skip::not_applicable)
}

/// No answer at all.
pub(crate) const NOTHING: &[(&Ask, &str)] = &[];

/// Answers, as tests hold them.
pub(crate) type Answers = Vec<(&'static Ask, String)>;

/// InfiniBand adapters with these states, all of them granted.
pub(crate) fn hcas(states: &[&str]) -> Answers {
    let mut answers: Answers = Vec::new();
    let mut add =
        |ask: &'static Ask, text: String| match answers.iter_mut().find(|(a, _)| a.id == ask.id) {
            Some((_, all)) => all.push_str(&text),
            None => answers.push((ask, text)),
        };
    for (n, state) in states.iter().enumerate() {
        let phys = if state.starts_with("1:") {
            "2: Polling"
        } else {
            "5: LinkUp"
        };
        let device = format!("/sys/class/infiniband/mlx5_{n}");
        let port = format!("{device}/ports/1");
        add(
            &ask::RDMA_PORTS,
            format!(
                "{port}/state: {state}\n{port}/phys_state: {phys}\n{port}/rate: 400 Gb/sec (4X NDR)\n\
                 {port}/link_layer: InfiniBand\n{port}/lid: 0x{:x}\n{port}/sm_lid: 0x1\n",
                n + 2
            ),
        );
        add(
            &ask::RDMA_ATTRIBUTES,
            format!(
                "{device}/node_type: 1: CA\n{device}/hca_type: MT4129\n{device}/device/vendor: 0x15b3\n\
                 {device}/device/device: 0x1021\n{device}/device/numa_node: {}\n",
                n / 4
            ),
        );
        add(
            &ask::RDMA_UVERBS,
            format!("/sys/class/infiniband_verbs/uverbs{n}/ibdev: mlx5_{n}\n"),
        );
        add(&ask::DEV_INFINIBAND, format!("uverbs{n}\n"));
        add(&ask::DEV_INFINIBAND_OPEN, format!("uverbs{n}: open\n"));
    }
    answers
}

/// One InfiniBand adapter in this state, and what opening its node gives.
pub(crate) fn hca(name: &str, state: &str, opened: &str) -> Answers {
    let mut answers = hcas(&[state]);
    for (ask, text) in &mut answers {
        *text = text.replace("mlx5_0", name);
        if ask.id == ask::DEV_INFINIBAND_OPEN.id {
            *text = format!("uverbs0: {opened}");
        }
    }
    answers
}

/// RoCE adapters, ACTIVE and granted, each with an interface: GID 1 is link-local, 2 is version 1, 3 is routable.
pub(crate) fn roce(count: usize) -> Answers {
    let mut answers = hcas(&vec!["4: ACTIVE"; count]);
    let (mut gids, mut addresses) = (String::new(), String::new());
    for (_, text) in &mut answers {
        *text = text
            .replace("link_layer: InfiniBand", "link_layer: Ethernet")
            .replace("sm_lid: 0x1", "sm_lid: 0x0");
    }
    for n in 0..count {
        let port = format!("/sys/class/infiniband/mlx5_{n}/ports/1");
        for (index, kind, gid) in [
            (
                0,
                "IB/RoCE v1",
                "fe80:0000:0000:0000:5450:ccff:fe8e:4652".to_owned(),
            ),
            (
                1,
                "RoCE v2",
                "fe80:0000:0000:0000:5450:ccff:fe8e:4652".to_owned(),
            ),
            (
                2,
                "IB/RoCE v1",
                format!("0000:0000:0000:0000:0000:ffff:0a00:000{}", n + 1),
            ),
            (
                3,
                "RoCE v2",
                format!("0000:0000:0000:0000:0000:ffff:0a00:000{}", n + 1),
            ),
        ] {
            gids.push_str(&format!(
                "{port}/gid_attrs/types/{index}: {kind}\n{port}/gids/{index}: {gid}\n\
                 {port}/gid_attrs/ndevs/{index}: net{n}\n"
            ));
        }
        addresses.push_str(&format!(
            "{}: net{n}    inet 10.0.0.{}/24 scope global net{n}\n{}: net{n}    inet6 fd00::1/64 scope global\n",
            n + 2,
            n + 1,
            n + 2
        ));
    }
    answers.push((&ask::RDMA_GIDS, gids));
    answers.push((&ask::IP_ADDR, addresses));
    answers
}

/// The same answers with some in place of others, or beside them.
pub(crate) fn changed(answers: &Answers, other: &[(&'static Ask, &str)]) -> Answers {
    let mut all = answers.clone();
    for (ask, text) in other {
        all.retain(|(a, _)| a.id != ask.id);
        all.push((ask, (*text).to_owned()));
    }
    all
}

/// A v1beta1 graph with a prefill worker `p` and a decode worker `d`, both with this container body.
pub(crate) fn graph(container: &str) -> String {
    two_sided(container, container)
}

/// A v1beta1 graph whose prefill worker `p` and decode worker `d` have these container bodies.
pub(crate) fn two_sided(prefill: &str, decode: &str) -> String {
    let mut text = "apiVersion: nvidia.com/v1beta1\nkind: DynamoGraphDeployment\nmetadata: {name: g}\nspec:\n  \
                    components:\n"
        .to_owned();
    for (name, role, body) in [("p", "prefill", prefill), ("d", "decode", decode)] {
        text.push_str(&format!(
            "    - name: {name}\n      type: {role}\n      podTemplate:\n        spec:\n          containers:\n            \
             - name: main\n              image: i\n"
        ));
        for line in body.lines() {
            text.push_str(&format!("              {line}\n"));
        }
    }
    text
}

/// The whole report of a manifest.
pub(crate) fn report(text: &str) -> Report {
    let source = Arc::new(SourceFile {
        path: "t.yaml".to_owned(),
        text: text.to_owned(),
    });
    let inventory = manifest::read(&[Text {
        source,
        named: true,
        companion: false,
    }]);
    assert_eq!(inventory.errors, []);
    let findings = super::run(&inventory, &[]);
    let workloads = inventory
        .workloads
        .iter()
        .enumerate()
        .map(|(i, w)| view::workload(w, i + 1))
        .collect();
    Report::new(
        "env",
        workloads,
        findings,
        inventory.errors,
        inventory.notes,
    )
}

/// The statuses of all findings of one name, in the order of the report.
pub(crate) fn statuses(text: &str, name: &str) -> Vec<Status> {
    report(text)
        .checks
        .iter()
        .filter(|f| f.name == name)
        .map(|f| f.status)
        .collect()
}
