//! Outputs as people paste them, judged without any machine.

use crate::corpus;
use dynamo_interconnect_check::facts::paste;
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
    let place = Place::pasted();
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

/// What each row of the index is worth by itself: `status name` of what must be found. Every other row is healthy, or needs
/// more than itself, and must raise nothing. By hand, from the readings of the index.
const FAULTS: &[(&str, &[&str])] = &[
    ("topo/21-h100-asymmetric-matrix.txt", &["warn gpu-topology"]),
    // Names what is down.
    (
        "ibstat/05-h100-roce-1-disabled-1-polling.txt",
        &["warn port-without-link"],
    ),
    (
        "ibstat/11-bluefield3-down-but-linkup-no-sm.txt",
        &["fail ib-link"],
    ),
    (
        "ibv_devinfo/05-mixed-down-active-init-no-sm.txt",
        &["warn port-not-ready", "warn port-without-link"],
    ),
    (
        "ibv_devinfo/06-first-char-lost-ca_id.txt",
        &["fail ib-link"],
    ),
    (
        "ibv_devinfo/08-odd-link-layer-thunderbolt.txt",
        &["fail ib-link"],
    ),
    // The state of the port is not in it.
    (
        "show_gids/03-mixed-roce-and-ib.txt",
        &["warn roce-address-missing"],
    ),
    (
        "smi-q/05-rtx4090-addressing-unknown-error.txt",
        &["warn fabric-not-ready"],
    ),
    (
        "nccl/01-a100pcie-2gpu-roce-gdr-disabled.txt",
        &["warn collectives-degraded"],
    ),
    (
        "nccl/03-eks-socket-shm-no-ib.txt",
        &["warn collectives-degraded"],
    ),
    (
        "nccl/05-shm-too-small-warn.txt",
        &["fail collectives-degraded", "warn collectives-degraded"],
    ),
    (
        "nccl/13-ib-without-gdrdma.txt",
        &["warn collectives-degraded"],
    ),
    (
        "ucx/03-info-d-no-hash-prefix.txt",
        &["warn ucx-without-cuda"],
    ),
    (
        "ucx/05-log-rc-then-local-protection.txt",
        &["fail ucx-complaints"],
    ),
    (
        "ucx/06-log-rma-am-tcp-wrapped.txt",
        &["warn lane-without-rdma"],
    ),
    ("ucx/08-log-typo-dc_ml5x.txt", &["warn ucx-complaints"]),
    (
        "errors/01-dmesg-peermem-invalid-context.txt",
        &["warn kernel-log-faults"],
    ),
    // CAP_IPC_LOCK may lift it.
    ("ulimit/01-a-64k-memlock.txt", &["warn memlock-limited"]),
];

/// Healthy rows, and what must be said of them.
const READINGS: &[(&str, &str)] = &[
    // Switched off beside eight rails that are all ACTIVE.
    ("ibstat/03-h100-8ib-3eth-down.txt", "ok port-without-link"),
    ("ibstat/01-h100-roce-all-active.txt", "ok ib-link"),
    ("ibstatus/01-a100-hdr-8-active.txt", "ok ib-link"),
    (
        "ibv_devinfo/03-cx3-dualport-device-ports-line.txt",
        "ok ib-link",
    ),
    ("lsmod/06-only-used-by-evidence.txt", "ok gpudirect-peermem"),
    ("lsmod/05-nv_peer_mem-mlx4.txt", "ok gpudirect-peermem"),
    ("ucx/01-info-d-ucx16-cuda-ib.txt", "ok ucx-without-cuda"),
    ("nvlink/01-a100-8gpu-12links.txt", "ok nvlink-degraded"),
];

/// Rows that need more, and the words that say what.
const NEEDS: &[(&str, &str)] = &[
    ("show_gids/01-cx-one-port-4-gids.txt", "no ip was pasted"),
    (
        "show_gids/05-spark-roce-names-tail.txt",
        "it has 6 of 12 entries",
    ),
    (
        "ibdev2netdev/01-one-up-one-down.txt",
        "ens192f1 of mlx5_1 is down",
    ),
    (
        "ibv_devinfo/03-cx3-dualport-device-ports-line.txt",
        "of 2 subnets are ACTIVE",
    ),
    ("smi-q/01-h100-fabric-completed.txt", "the output is cut"),
    // Fine on cards, a fault on a board of eight: the matrix does not say which.
    (
        "topo/38-pcie-pxb-glued-affinity.txt",
        "the product was not seen",
    ),
    ("topo/16-a40-nv4-pairs-ansi.txt", "the product was not seen"),
];

/// The name by which a person hands in a file of the index.
fn name_of(file: &str) -> &str {
    match file.split('/').next().unwrap() {
        "errors" => "dmesg",
        "ucx" if file.contains("info-d") => "ucx_info -d",
        folder => folder,
    }
}

#[test]
fn each_row_of_the_index_alone_raises_its_faults_and_no_others() {
    let Some(corpus) = corpus::folder() else {
        return;
    };
    let outputs = corpus.join("outputs");
    let mut wrong = Vec::new();
    for file in corpus::index(&outputs) {
        let text = corpus::read(&outputs.join(&file));
        let ask = ask::for_paste(name_of(&file)).unwrap();
        let refused = paste::refuse(ask, &text);
        assert_eq!(refused, None, "{file}");
        let findings = findings(&[(name_of(&file), &text)]);
        let said = |f: &Finding| format!("{} {}", f.status, f.name);
        let mut found: Vec<String> = findings
            .iter()
            .filter(|f| f.status >= Status::Warn)
            .map(said)
            .collect();
        found.sort();
        let row = FAULTS.iter().find(|(of, _)| *of == file);
        let expected = row.map_or(&[][..], |(_, expected)| expected);
        if found != expected {
            wrong.push(format!("{file}: {found:?}, expected {expected:?}"));
        }
        for (_, reading) in READINGS.iter().filter(|(of, _)| *of == file) {
            assert!(
                findings.iter().any(|f| said(f) == *reading),
                "{file}: {reading}"
            );
        }
        for (_, words) in NEEDS.iter().filter(|(of, _)| *of == file) {
            let mut skipped = findings.iter().filter(|f| f.status == Status::Skipped);
            assert!(skipped.any(|f| f.detail.contains(words)), "{file}: {words}");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A device of `ibstat` with one port.
fn ca(name: &str, state: &str, phys: &str, link: &str, sm_lid: u32) -> String {
    format!(
        "CA '{name}'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: {state}\n\
         \t\tPhysical state: {phys}\n\t\tRate: 400\n\t\tBase lid: 5\n\t\tSM lid: {sm_lid}\n\t\tLink layer: {link}\n"
    )
}

fn faults(name: &str, text: &str) -> Vec<String> {
    let mut all = verdicts(&[(name, text)]);
    all.retain(|said| !said.starts_with("ok "));
    all
}

#[test]
fn port_states_need_no_grant_and_prove_none() {
    let up = |name: &str| ca(name, "Active", "LinkUp", "InfiniBand", 1);
    let healthy: String = ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"].map(up).concat();
    assert_eq!(faults("ibstat", &healthy), Vec::<String>::new());
    let said = verdicts(&[("ibstat", &healthy)]);
    assert!(said.contains(&"ok ib-link".to_owned()), "{said:?}");
    for finding in findings(&[("ibstat", &healthy)]) {
        if finding.status == Status::Ok {
            assert!(!finding.detail.contains("open"), "{}", finding.detail);
        }
    }
    let one_dead = healthy.clone() + &ca("mlx5_4", "Down", "Polling", "InfiniBand", 0);
    assert_eq!(faults("ibstat", &one_dead), ["warn port-without-link"]);
    // Fewer than a group shows: only who pastes it knows whether the dead one is used.
    let few = up("mlx5_0") + &ca("mlx5_1", "Down", "Disabled", "InfiniBand", 0);
    assert_eq!(faults("ibstat", &few), ["warn port-without-link"]);
    let waiting = healthy + &ca("mlx5_4", "Initializing", "LinkUp", "InfiniBand", 0);
    assert_eq!(faults("ibstat", &waiting), ["warn port-not-ready"]);
    let no_manager = ca("mlx5_0", "Down", "LinkUp", "InfiniBand", 0);
    assert_eq!(faults("ibstat", &no_manager), ["fail ib-link"]);
}

#[test]
fn every_cause_is_named_with_all_its_ports() {
    let text = [
        ca("mlx5_0", "Initializing", "LinkUp", "InfiniBand", 0),
        ca("mlx5_1", "Initializing", "LinkUp", "InfiniBand", 0),
        ca("mlx5_2", "Down", "Polling", "InfiniBand", 0),
    ]
    .concat();
    let findings = findings(&[("ibstat", &text)]);
    let link = findings.iter().find(|f| f.name == "ib-link").unwrap();
    for words in [
        "mlx5_0:1",
        "mlx5_1:1",
        "subnet manager",
        "mlx5_2:1",
        "no cable",
    ] {
        assert!(link.detail.contains(words), "{words}: {}", link.detail);
    }
}

#[test]
fn a_list_that_a_name_is_not_in_is_named() {
    let ibstat = ca("mlx5_0", "Active", "LinkUp", "InfiniBand", 1);
    let pasted = [
        ("ibstat", ibstat.as_str()),
        ("env", "UCX_NET_DEVICES=mlx5_9:1\n"),
    ];
    let findings = findings(&pasted);
    let nic = findings
        .iter()
        .find(|f| f.name == "selected-nic-unusable")
        .unwrap();
    assert!(
        nic.detail.contains("mlx5_9:1: not in the pasted ibstat"),
        "{}",
        nic.detail
    );
    // One that is ACTIVE may still be closed to the worker.
    let own = verdicts(&[("ibstat", &ibstat), ("env", "UCX_NET_DEVICES=mlx5_0:1\n")]);
    assert!(
        !own.iter().any(|v| v.ends_with("selected-nic-unusable")),
        "{own:?}"
    );
}

#[test]
fn gid_tables_modules_and_transports_are_judged_alone() {
    let row = |index: u32, gid: &str, v4: &str, version: &str| {
        format!("mlx5_0\t1\t{index}\t{gid}\t{v4}\t{version}\teth0\n")
    };
    let local = row(0, "fe80:0000:0000:0000:0a00:0000:0000:0001", "", "v1")
        + &row(1, "fe80:0000:0000:0000:0a00:0000:0000:0001", "", "v2");
    // Without its last line it may be a part.
    assert_eq!(faults("show_gids", &local), Vec::<String>::new());
    let all = local.clone() + "n_gids_found=2\n";
    assert_eq!(faults("show_gids", &all), ["warn roce-address-missing"]);
    let routed = local
        + &row(
            3,
            "0000:0000:0000:0000:0000:ffff:0a00:0001",
            "10.0.0.1",
            "v2",
        );
    let routed = routed + "n_gids_found=3\n";
    assert_eq!(faults("show_gids", &routed), Vec::<String>::new());
    let infiniband =
        "mlx5_1\t1\t0\tfe80:0000:0000:0000:0a00:0000:0000:0001\t\tv1\nn_gids_found=1\n";
    assert_eq!(faults("show_gids", infiniband), Vec::<String>::new());

    let lsmod = "Module                  Size  Used by\nnvidia_peermem 16384 0\nmlx5_ib 1 0\n";
    assert_eq!(verdicts(&[("lsmod", lsmod)]), ["ok gpudirect-peermem"]);
    let without = "Module                  Size  Used by\nmlx5_ib 1 0\n";
    assert_eq!(verdicts(&[("lsmod", without)]), Vec::<String>::new());

    let transports = |names: &[&str]| -> String {
        let one = |name: &&str| {
            format!(
                "#      Transport: {name}\n#         Device: mlx5_0:1\n#           Type: network\n#\n"
            )
        };
        names.iter().map(one).collect()
    };
    let all = transports(&["tcp", "rc_mlx5", "cuda_copy"]);
    assert_eq!(faults("ucx_info -d", &all), Vec::<String>::new());
    assert_eq!(
        faults("ucx_info -d", &transports(&["tcp", "rc_mlx5"])),
        ["warn ucx-without-cuda"]
    );
    assert_eq!(
        faults("ucx_info -d", &transports(&["tcp", "cuda_copy"])),
        ["warn ucx-without-verbs"]
    );
}

#[test]
fn no_list_makes_a_variable_right_or_wrong_by_ports_whose_state_or_grant_is_not_known() {
    let env = (
        "env",
        "UCX_NET_DEVICES=mlx5_0:1\nUCX_TLS=rc,cuda_copy\nNCCL_IB_HCA=mlx5_0\n",
    );
    let ibstat = ca("mlx5_0", "Active", "LinkUp", "InfiniBand", 1);
    let alone = verdicts(&[env]);
    for (name, text) in [
        ("ibdev2netdev", "mlx5_0 port 1 ==> ib0 (Down)\n"),
        (
            "show_gids",
            "mlx5_0\t1\t3\t0000:0000:0000:0000:0000:ffff:0a00:0001\t10.0.0.1\tv2\teth0\n",
        ),
        ("ibstat", &ibstat),
    ] {
        let mut both = verdicts(&[env, (name, text)]);
        both.retain(|said| said.contains("env:"));
        assert_eq!(both, alone, "{name}");
    }
}

#[test]
fn what_tools_say_of_themselves_is_a_finding() {
    let denied = "hca_id:\tmlx5_0\n\ttransport:\tInfiniBand (0)\n\t\tport:\t1\n\t\t\tstate:\tPORT_ACTIVE (4)\n\
                  \t\t\tlink_layer:\tInfiniBand\nFailed to open device\n";
    let said = faults("ibv_devinfo", denied);
    assert!(said.contains(&"warn ibv-devinfo".to_owned()), "{said:?}");
    let nothing = faults("ibv_devinfo", "Failed to open device\n");
    assert!(
        nothing.contains(&"fail ibv-devinfo".to_owned()),
        "{nothing:?}"
    );
    let none = faults("ibv_devinfo", "No IB devices found\n");
    assert_eq!(none, ["fail ib-devices"]);
    // The devices are there, and what the image lacks is their driver.
    let warning = "libibverbs: Warning: no userspace device-specific driver found for /sys/class/infiniband_verbs/uverbs0\n";
    let undriven = faults("ibv_devinfo", &format!("{warning}No IB devices found\n"));
    assert_eq!(undriven, ["fail ibv-devinfo"]);
    let ibstat = ca("mlx5_0", "Active", "LinkUp", "InfiniBand", 1);
    let both = verdicts(&[
        ("ibv_devinfo", &format!("{warning}No IB devices found\n")),
        ("ibstat", &ibstat),
    ]);
    assert!(!both.iter().any(|said| said.contains("differ")), "{both:?}");
    // A transport that is not there weighs more where ports are ACTIVE.
    let ucx = "#      Transport: tcp\n#         Device: eth0\n#           Type: network\n#\n\
               #      Transport: cuda_copy\n#         Device: cuda\n#           Type: accelerator\n#\n";
    let ibstat = ca("mlx5_0", "Active", "LinkUp", "InfiniBand", 1);
    let both = verdicts(&[("ibstat", &ibstat), ("ucx_info -d", ucx)]);
    assert!(
        both.contains(&"fail ucx-without-verbs".to_owned()),
        "{both:?}"
    );
}

#[test]
fn an_output_that_lists_nothing_does_not_always_say_that_there_is_none() {
    let unopened = "Failed to open device\nFailed to open device\n";
    let other = "ibpanic: [1140] main: 'mlx5_0' IB device can't be found: Success\n";
    let here = ca("rxe0", "Active", "LinkUp", "Ethernet", 0);
    for (pasted, expected) in [
        // The devices are there, and the rights are not.
        (vec![("ibv_devinfo", unopened)], vec!["fail ibv-devinfo"]),
        (
            vec![("ibv_devinfo", unopened), ("ibstat", other)],
            vec!["fail ibv-devinfo"],
        ),
        // `ibstat mlx5_0` speaks of that one.
        (vec![("ibstat", other)], vec![]),
        (
            vec![("ibstat", other), ("ibv_devinfo", "No IB devices found\n")],
            vec!["fail ib-devices"],
        ),
        (
            vec![("ibv_devinfo", unopened), ("ibstat", &here)],
            vec!["fail ibv-devinfo", "warn software-rdma"],
        ),
    ] {
        let mut said = verdicts(&pasted);
        said.retain(|said| !said.starts_with("ok "));
        assert_eq!(said, expected, "{pasted:?}");
    }
    let denied = findings(&[("ibv_devinfo", unopened)]);
    let list = denied.iter().find(|f| f.id == "RDMA001").unwrap();
    assert_eq!(list.status, Status::Skipped);
    assert!(list.detail.contains("could open none"), "{}", list.detail);
}

#[test]
fn two_places_in_one_paste_prove_nothing() {
    let at = |rate: &str| {
        ca("mlx5_0", "Active", "LinkUp", "InfiniBand", 1)
            .replace("Rate: 400", &format!("Rate: {rate}"))
    };
    let query = "Driver Version : 580.1\nGPU 00000000:01:00.0\n".to_owned();
    let links = |rate: &str| format!("GPU 0: NVIDIA H200 (UUID: GPU-0)\n\t Link 0: {rate} GB/s\n");
    let domain = |transport: &str| {
        format!("# Memory domain: mlx5_0\n# Transport: {transport}\n# Device: mlx5_0:1\n")
    };
    let topo = |path: &str| format!("\tGPU0\tGPU1\nGPU0\t X \t{path}\nGPU1\t{path}\t X \n");
    for (name, text) in [
        ("ulimit", "unlimited\n8192\n".to_owned()),
        ("ibstat", at("400") + &at("200")),
        ("topo", topo("NV18") + &topo("SYS")),
        ("lsmod", "nvidia 1 0\nnvidia 2 0\n".to_owned()),
        (
            "ibv_devinfo",
            concat!(
                include_str!("samples/ibv_devinfo.txt"),
                "No IB devices found\n"
            )
            .to_owned(),
        ),
        ("smi-q", query.clone() + &query),
        ("nvlink", links("1.0") + &links("2.0")),
        ("ucx-info-d", domain("rc_mlx5") + &domain("ud_mlx5")),
    ] {
        assert_eq!(verdicts(&[(name, &text)]), Vec::<String>::new(), "{name}");
        let refused = paste::refuse(ask::for_paste(name).unwrap(), &text).unwrap();
        assert!(refused.contains("two places"), "{name}: {refused}");
    }
    for (name, text) in [
        ("ulimit", "unlimited\nunlimited\n".to_owned()),
        ("ibstat", at("400") + &at("400")),
        ("topo", topo("NV18") + &topo("NV18")),
    ] {
        assert!(!verdicts(&[(name, &text)]).is_empty(), "{name}");
    }
}

#[test]
fn a_bad_port_is_named_though_another_is_not_known() {
    let row =
        |device: &str, gid: &str, v4: &str| format!("{device}\t1\t3\t{gid}\t{v4}\tv2\teth0\n");
    let text = row(
        "mlx5_0",
        "0000:0000:0000:0000:0000:ffff:0a00:0001",
        "10.0.0.1",
    ) + &row("mlx5_1", "fe80:0000:0000:0000:0a00:0000:0000:0001", "")
        + "n_gids_found=2\n";
    let findings = findings(&[("show_gids", &text)]);
    let roce = findings.iter().find(|f| f.id == "RDMA009").unwrap();
    assert_eq!(roce.status, Status::Warn, "{}", roce.detail);
    assert!(
        roce.detail.contains("1 of 2") && roce.detail.contains("mlx5_1:1"),
        "{}",
        roce.detail
    );
}

#[test]
fn a_matrix_without_nvlink_is_harmless_only_for_cards() {
    let matrix = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tSYS\t0-1\t0\nGPU1\tSYS\t X \t0-1\t0\n";
    assert_eq!(verdicts(&[("topo", matrix)]), Vec::<String>::new());
    let gpus = |product: &str| {
        let gpu = |at: u32| {
            format!(
                "GPU 00000000:0{at}:00.0\n    Product Name                          : {product}\n"
            )
        };
        format!(
            "Driver Version                            : 580.95.05\nAttached GPUs                             : 2\n{}{}",
            gpu(1),
            gpu(2)
        )
    };
    let with = |product: &str| {
        let mut all = verdicts(&[("topo", matrix), ("smi-q", &gpus(product))]);
        all.retain(|said| said.ends_with("gpu-topology"));
        all
    };
    assert_eq!(with("NVIDIA L40S"), ["ok gpu-topology"]);
    assert_eq!(with("NVIDIA A100-SXM4-80GB"), ["warn gpu-topology"]);
}

#[test]
fn headlines_say_what_was_found() {
    let log = "[1.5] [host:1:0] ib_mlx5_log.c:179 UCX  ERROR Local protection on mlx5_0:1/IB (synd 0x4 vend 0x56)\n";
    let findings = findings(&[("ucx", log)]);
    let complaint = findings.iter().find(|f| f.id == "UCX004").unwrap();
    assert_eq!(complaint.status, Status::Fail);
    assert_eq!(
        complaint.rare.headline,
        "a transfer of UCX failed (Local protection)"
    );
}

#[test]
fn outputs_that_contradict_each_other_prove_nothing() {
    let here = ca("mlx5_0", "Active", "LinkUp", "InfiniBand", 1);
    let both = here.clone() + &ca("mlx5_1", "Active", "LinkUp", "InfiniBand", 1);
    let devinfo = |state: &str| {
        format!(
            "hca_id:\tmlx5_0\n\ttransport:\tInfiniBand (0)\n\tvendor_id:\t0x02c9\n\t\tport:\t1\n\
             \t\t\tstate:\t{state}\n\t\t\tlink_layer:\tInfiniBand\n"
        )
    };
    for (ibstat, devinfo) in [
        (&here, devinfo("PORT_DOWN (1)")),
        (&both, devinfo("PORT_ACTIVE (4)")),
        (&here, "No IB devices found\n".to_owned()),
    ] {
        let findings = findings(&[("ibstat", ibstat), ("ibv_devinfo", &devinfo)]);
        let differ = findings.iter().find(|f| f.id == "RDMA019").unwrap();
        assert_eq!(differ.status, Status::Warn);
        for source in ["ibstat shows", "ibv_devinfo shows"] {
            assert!(differ.detail.contains(source), "{}", differ.detail);
        }
        for finding in findings.iter().filter(|f| f.id.starts_with("RDMA")) {
            assert_ne!(finding.status, Status::Ok, "{}", finding.detail);
        }
    }
}

#[test]
fn outputs_complete_each_other() {
    let ibstat = "CA 'mlx5_0'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: Active\n\
                  \t\tPhysical state: LinkUp\n\t\tRate: 400\n\t\tBase lid: 5\n\t\tSM lid: 1\n\t\tLink layer: InfiniBand\n";
    // Listing is not access.
    assert_eq!(
        verdicts(&[("ibstat", ibstat)]),
        [
            "ok ib-link",
            "ok port-not-ready",
            "ok rate-degraded",
            "ok subnet-manager-missing"
        ]
    );
    let devinfo = "hca_id:\tmlx5_0\n\ttransport:\tInfiniBand (0)\n\tvendor_id:\t0x02c9\n\t\tport:\t1\n\t\t\tstate:\tPORT_ACTIVE (4)\n";
    let both = verdicts(&[("ibstat", ibstat), ("ibv_devinfo", devinfo)]);
    for expected in [
        "ok ib-link",
        "ok subnet-manager-missing",
        "ok rate-degraded",
        "ok software-rdma",
    ] {
        assert!(both.iter().any(|v| v == expected), "{expected}: {both:?}");
    }
    for opened in ["ok ib-devices", "ok device-not-granted"] {
        assert!(!both.iter().any(|v| v == opened), "{opened}: {both:?}");
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
