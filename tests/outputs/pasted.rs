//! Outputs as people paste them, judged without any machine.

use crate::corpus;
use dynamo_interconnect_check::report::{Finding, Status};
use dynamo_interconnect_check::snapshot::{Answer, Place, Snapshot};
use dynamo_interconnect_check::target::TargetKind;
use dynamo_interconnect_check::{ask, checks, manifest::Inventory};
use std::collections::BTreeMap;

/// The findings about some pasted outputs, by the names that people use.
fn findings(pasted: &[(&str, &str)]) -> Vec<Finding> {
    let answers: BTreeMap<String, Answer> = pasted
        .iter()
        .map(|(name, text)| {
            let ask = ask::for_paste(name).unwrap();
            (ask.id.to_owned(), Answer::Text((*text).to_owned()))
        })
        .collect();
    let place = Place::host("pasted");
    let snapshot = Snapshot { place, answers };
    let mut findings = checks::run(&Inventory::default(), &[snapshot]);
    findings.retain(|finding| matches!(finding.target.kind, TargetKind::Pod | TargetKind::Host));
    findings
}

/// `status name` of what was really judged.
fn verdicts(pasted: &[(&str, &str)]) -> Vec<String> {
    findings(pasted)
        .iter()
        .filter(|finding| finding.status != Status::Skipped)
        .map(|finding| format!("{} {}", finding.status, finding.name))
        .collect()
}

/// Folders of the corpus by the name of the output.
const FOLDERS: &[(&str, &str)] = &[
    ("topo", "topo"),
    ("nvlink", "nvlink"),
    ("smi-q", "smi-q"),
    ("ibstat", "ibstat"),
    ("ibstatus", "ibstatus"),
    ("ibv_devinfo", "ibv_devinfo"),
    ("ibdev2netdev", "ibdev2netdev"),
    ("show_gids", "show_gids"),
    ("lsmod", "lsmod"),
    ("ulimit", "ulimit"),
    ("nccl", "nccl"),
    ("ucx", "ucx"),
];

#[test]
fn any_output_of_the_corpus_can_be_judged_alone() {
    let Some(corpus) = corpus::folder() else {
        return;
    };
    let outputs = corpus.join("outputs");
    for file in corpus::index(&outputs) {
        let folder = file.split('/').next().unwrap();
        let Some((_, name)) = FOLDERS.iter().find(|(of, _)| *of == folder) else {
            continue;
        };
        let text = corpus::read(&outputs.join(&file));
        for finding in findings(&[(name, &text)]) {
            let seen = !finding.evidence.is_empty() || finding.status == Status::Skipped;
            assert!(seen, "{file}: {} {}", finding.status, finding.name);
        }
    }
}

#[test]
fn outputs_complete_each_other() {
    let ibstat = "CA 'mlx5_0'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: Active\n\t\t\
                  Physical state: LinkUp\n\t\tRate: 400\n\t\tBase lid: 5\n\t\tSM lid: 1\n\t\tLink layer: InfiniBand\n";
    // Listing is not access.
    assert_eq!(verdicts(&[("ibstat", ibstat)]), Vec::<String>::new());
    let devinfo = "hca_id:\tmlx5_0\n\ttransport:\tInfiniBand (0)\n\tvendor_id:\t0x02c9\n\t\tport:\t1\n\t\t\tstate:\tPORT_ACTIVE (4)\n";
    let both = verdicts(&[("ibstat", ibstat), ("ibv_devinfo", devinfo)]);
    for expected in [
        "ok ib-devices",
        "ok ib-link",
        "ok subnet-manager-missing",
        "ok rate-degraded",
    ] {
        assert!(both.iter().any(|v| v == expected), "{expected}: {both:?}");
    }
    let broken = verdicts(&[("ulimit", "64"), ("environ", "UCX_TLS=tcp\n")]);
    assert_eq!(broken, ["warn memlock-limited", "fail env:UCX_TLS"]);
}

#[test]
fn links_of_the_corpus_are_answered_for_what_they_show() {
    let Some(corpus) = corpus::folder() else {
        return;
    };
    let said = |pasted: &[(&str, &str)]| {
        let findings = findings(pasted);
        let finding = findings.iter().find(|f| f.name == "nvlink-degraded");
        finding.map(|f| format!("{} {}", f.status, f.detail))
    };
    let read = |name: &str| corpus::read(&corpus.join("outputs/nvlink").join(name));
    let inactive = said(&[("nvlink", &read("05-unsupported-and-inactive-same-line.txt"))]);
    let inactive = inactive.unwrap();
    assert!(
        inactive.starts_with("ok GPU 1: every NVLink is inactive (Quadro RTX 5000)"),
        "{inactive}"
    );
    let one = read("03-h100-1gpu-18links.txt");
    assert_eq!(
        said(&[("nvlink", &one)]).unwrap(),
        "ok every NVLink that is used is active on GPU 0"
    );
    // The others were not shown.
    let smi = format!("index, name\n{}", {
        let rows = (0..8).map(|n| format!("{n}, NVIDIA H100 80GB HBM3\n"));
        rows.collect::<String>()
    });
    let part = said(&[("nvlink", &one), ("nvidia-smi-query", &smi)]).unwrap();
    assert_eq!(part, "skipped NVLinks of 1 of 8 GPUs were read");
}
