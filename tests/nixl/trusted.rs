//! The word `trusted` through the binary: what it takes, and that nothing of it may be missing.

use crate::fake::kubelet::Exec;
use crate::fake::pod::FakePod;
use crate::run::Run;
use crate::{PORT, assert_clean, has_python, pod, transfer, tree, two};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The usual machine, whose worker may lock memory.
fn machine() -> TempDir {
    tree(&[(
        "proc/7/limits",
        "Limit                     Soft Limit           Hard Limit           Units     \n\
         Max locked memory         unlimited            unlimited            bytes     \n",
    )])
}

/// What is done to one end before the transfer.
type Change<'a> = &'a dyn Fn(FakePod, &Path) -> FakePod;

/// A transfer from `d` to `p`, after this was done to the prefill pod and that to the decode pod.
async fn with(prefill: Change<'_>, decode: Change<'_>) -> Run {
    let (p, d) = (machine(), machine());
    let usual =
        |name: &str, role: &str, root: &Path| pod(name, role, root, "invented-rc-mlx5-one-rail");
    let fake = two(
        prefill(usual("p", "prefill", p.path()), p.path()),
        decode(usual("d", "decode", d.path()), d.path()),
    )
    .await;
    let run = transfer(&fake, &["--pod", "d", "--peer", "p"]).await;
    assert_clean(&fake, &[p.path(), d.path()]).await;
    run
}

fn as_it_is(pod: FakePod, _: &Path) -> FakePod {
    pod
}

fn trust(run: &Run) -> String {
    run.report()["trust"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lane_that_is_proven_between_machines_without_a_fault_is_trusted() {
    if !has_python() {
        return;
    }
    let run = with(&as_it_is, &as_it_is).await;
    run.assert_trust("trusted");
    assert_eq!(run.code, Some(0), "{}", run.stdout);
    assert_eq!(run.pairs(), [("d -> p".to_owned(), "ok".to_owned(), true)]);
    let (_, detail) = run.transfer("d", "p");
    for part in [
        "rc_mlx5/mlx5_0:1",
        "counters agree",
        "mlx5_0:1 for a payload",
    ] {
        assert!(detail.contains(part), "no {part:?} in {detail}");
    }
    let verdict = run.report()["verdict"].as_str().unwrap().to_owned();
    let said = "The KV path can be trusted: 1 of 1 pair moved KV over the lane that is meant";
    assert!(verdict.starts_with(said), "{verdict}");
}

/// Files of the fixture that trust does not rest on, at these ends, each with what answers instead or why nothing need.
const NOT_NEEDED: &[(&str, &str, &str)] = &[
    (
        "pd",
        "nixl_cu12-1.3.0.dist-info/METADATA",
        "the name of the directory says it",
    ),
    (
        "pd",
        "vllm-0.11.2.dist-info/METADATA",
        "the name of the directory says it",
    ),
    ("pd", "libplugin_UCX.so", "the transfer used the plugin"),
    (
        "pd",
        "libuct_cuda-3c.so.0",
        "KV lies in host memory on purpose",
    ),
    ("pd", "osrelease", "only tells which kernel a rule is about"),
    ("pd", "node_type", "the transport of ibv_devinfo"),
    ("pd", "ports/1/state", "ibv_devinfo"),
    ("pd", "ports/1/phys_state", "the port is ACTIVE"),
    ("pd", "ports/1/link_layer", "ibv_devinfo"),
    (
        "pd",
        "ports/1/rate",
        "a quick transfer is not held against a rate",
    ),
    ("pd", "ports/1/lid", "the transfer used the port"),
    ("pd", "ports/1/sm_lid", "the transfer used the port"),
    // A counter that cannot be read contradicts nothing; one that stands still does, see below.
    (
        "p",
        "port_xmit_data",
        "the initiator's counter of what a READ brought",
    ),
    (
        "p",
        "port_rcv_data",
        "the initiator's counter of what a WRITE sent",
    ),
    (
        "d",
        "port_xmit_data",
        "the table of UCX, and the target's counter of what a WRITE brought",
    ),
    (
        "d",
        "port_rcv_data",
        "the table of UCX, and the target's counter of what a READ sent",
    ),
];

fn files(of: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(of).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn each_thing_that_cannot_be_read_at_one_end_takes_the_word_away() {
    if !has_python() {
        return;
    }
    let root = machine();
    let mut names: Vec<PathBuf> = files(root.path())
        .into_iter()
        .map(|f| f.strip_prefix(root.path()).unwrap().to_owned())
        // Without the stand-in the tool of this machine would answer, where there is one.
        .filter(|f| !f.starts_with("bin"))
        .collect();
    names.sort();
    assert!(names.len() > 20, "{names:?}");
    let mut wrong = Vec::new();
    for name in &names {
        let without = |pod: FakePod, root: &Path| {
            fs::remove_file(root.join(name)).unwrap();
            pod
        };
        let (at_p, at_d) = tokio::join!(with(&without, &as_it_is), with(&as_it_is, &without));
        for (run, end) in [(at_p, "p"), (at_d, "d")] {
            let needed = NOT_NEEDED
                .iter()
                .all(|(of, path, _)| !(of.contains(end) && name.ends_with(path)));
            let trust = trust(&run);
            if (trust == "trusted") == needed {
                wrong.push(format!("{trust} without {} on {end}", name.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn write(root: &Path, file: &str, text: &str) {
    fs::write(root.join(file), text).unwrap();
}

/// What takes the word away, at which end, and the word that is left.
const SPOILED: &[(&str, &str, &str, Change<'static>)] = &[
    ("no counter moved", "d", "unproven", &|pod, _| {
        pod.env("NIXL_STANDIN_PORT", "")
    }),
    ("UCX printed no table", "d", "unproven", &|pod, _| {
        log(pod, "ucx-1.15-pods")
    }),
    // A warn, since KV lies in host memory on purpose.
    ("UCX took TCP", "d", "unproven", &|pod, _| {
        log(pod, "ucx-1.23-pods").env("NIXL_STANDIN_PORT", "")
    }),
    ("verbs in software", "d", "unproven", &|pod, _| {
        log(pod, "ucx-1.23-rxe")
    }),
    (
        "the target's counters stand still",
        "p",
        "unproven",
        &|pod, _| pod.env("NIXL_STANDIN_FAULT", "still@port_rcv_data"),
    ),
    ("bytes never arrive", "p", "untrusted", &|pod, _| {
        pod.env("NIXL_STANDIN_FAULT", "deaf")
    }),
    ("a byte is wrong", "p", "untrusted", &|pod, _| {
        pod.env("NIXL_STANDIN_FAULT", "flip")
    }),
    ("NIXL cannot be imported", "d", "unproven", &|pod, root| {
        // Or the interpreter of a worker of that number on this machine would be tried.
        fs::remove_file(root.join("proc/7/cmdline")).unwrap();
        pod.env("NIXL_STANDIN_FAULT", "import")
    }),
    (
        "the GPU path was not used",
        "d",
        "unproven",
        &|pod, root| {
            let environ = "UCX_TLS=rc,cuda_copy\0HOME=/root\0";
            write(root, "proc/7/environ", environ);
            pod
        },
    ),
    (
        "no source tells the state of the port",
        "d",
        "unproven",
        &|pod, root| {
            fs::remove_file(root.join(PORT).join("state")).unwrap();
            let cut = "#!/bin/sh\nprintf 'hca_id:\\tmlx5_0\\n\\ttransport:\\t\\tInfiniBand (0)\\n\\tphys_port_cnt:\\t\\t1\\n'\n";
            write(root, "bin/ibv_devinfo", cut);
            pod
        },
    ),
    ("the port is down", "d", "untrusted", &|pod, root| {
        write(root, &format!("{PORT}/state"), "1: DOWN\n");
        pod
    }),
    ("memory cannot be locked", "d", "untrusted", &|pod, root| {
        let limit =
            "Max locked memory         65536                65536                bytes     \n";
        write(root, "proc/7/limits", limit);
        write(root, "proc/7/status", "CapEff:\t0000000000000000\n");
        pod
    }),
    ("the container was not read", "d", "untrusted", &|pod, _| {
        pod.exec(Exec::ProbeWithout("sh"))
    }),
];

fn log(pod: FakePod, name: &str) -> FakePod {
    let support = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/ucx_logs");
    pod.env("NIXL_STANDIN_LOG", &format!("{support}/{name}.txt"))
}

#[tokio::test(flavor = "multi_thread")]
async fn each_fault_at_one_end_takes_the_word_away() {
    if !has_python() {
        return;
    }
    let mut wrong = Vec::new();
    for (what, end, word, change) in SPOILED {
        let run = match *end {
            "p" => with(change, &as_it_is).await,
            _ => with(&as_it_is, change).await,
        };
        if trust(&run) != *word {
            let report = run.report();
            let checks = report["checks"].as_array().unwrap().iter();
            let failed: Vec<_> = checks.filter(|c| c["status"] == "fail").collect();
            wrong.push(format!(
                "{}: {what}: {}, {failed:#?}",
                trust(&run),
                report["verdict"]
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
