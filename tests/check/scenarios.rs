//! Fault classes as people meet them: a healthy deployment, one thing changed, and what the report says first. The letters are
//! those of the log of public faults: A transports, B modules, C devices, and so on.
//!
//! A row lists `fix_first` whole: `STATUS ID targets`, and after `<-` the checks that stand beneath the entry. What follows from
//! a fault and stands beside it would be a line of its own here.

use crate::fake::kubelet::Exec;
use crate::on;
use crate::rack::{Fabric, Rack, Worker};
use Fabric::{Efa, InfiniBand, Mnnvl, Roce};
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub struct Scenario {
    /// Class of the fault, and what was changed.
    pub what: &'static str,
    pub rack: Rack,
    pub args: &'static [&'static str],
    says: &'static [&'static str],
}

fn row(what: &'static str, rack: Rack, says: &'static [&'static str]) -> Scenario {
    Scenario {
        what,
        rack,
        args: &["g", "--nodes"],
        says,
    }
}

fn healthy(fabric: Fabric) -> Rack {
    Rack::new(fabric)
}

/// Every answer of a worker that tells a port its state.
fn port(worker: &mut Worker, device: &str, state: &str, physical: &str) {
    let sys = format!("/sys/class/infiniband/{device}/ports/1/");
    let (code, word) = state.split_once(": ").unwrap();
    let shown = match word {
        "DOWN" => "Down",
        _ => "Initializing",
    };
    for (field, was, is) in [
        ("state", "4: ACTIVE", state),
        ("phys_state", "5: LinkUp", physical),
    ] {
        let line = |value: &str| format!("{sys}{field}: {value}\n");
        worker.replace("rdma-ports", &line(was), &line(is));
    }
    let active = ["State: Active", "PORT_ACTIVE (4)"];
    let is = [format!("State: {shown}"), format!("PORT_{word} ({code})")];
    let headings = [format!("CA '{device}'"), format!("hca_id:\t{device}\n")];
    for (n, id) in ["ibstat", "ibv-devinfo"].into_iter().enumerate() {
        within(worker, id, &headings[n], active[n], &is[n]);
    }
}

/// Replaces the first of these after a heading.
fn within(worker: &mut Worker, id: &str, heading: &str, from: &str, to: &str) {
    let text = worker.text(id).to_owned();
    let at = text
        .find(heading)
        .unwrap_or_else(|| panic!("no {heading:?} in {id}"));
    let (head, tail) = text.split_at(at);
    assert!(tail.contains(from), "no {from:?} in {id}");
    let text = format!("{head}{}", tail.replacen(from, to, 1));
    worker.answer(id, text);
}

fn transports() -> Vec<Scenario> {
    vec![
        row(
            "A: UCX_TLS=tcp everywhere",
            healthy(InfiniBand).all(|w| {
                w.env("UCX_TLS", Some("tcp"));
            }),
            &["fail ENV002 decode prefill <- DEP003 ENV012"],
        ),
        row(
            "A: UCX_TLS without cuda_copy, in decode",
            healthy(InfiniBand).at("decode", |w| {
                w.env("UCX_TLS", Some("rc,cuda_ipc"));
            }),
            &["fail ENV002 decode <- ENV011 ENV012"],
        ),
        row(
            "A: the image sets UCX_TLS=tcp on one worker",
            healthy(InfiniBand).at("decode-1", |w| {
                w.live("UCX_TLS", Some("tcp,self"));
            }),
            &["fail ENV012 g-decode-1 <- DEP003 DEP015 ENV013"],
        ),
        row(
            "A: RC without the UD that it needs",
            healthy(InfiniBand).all(|w| {
                w.env("UCX_TLS", Some("rc_verbs,cuda_copy,cuda_ipc"));
            }),
            &["fail ENV002 decode prefill <- ENV012"],
        ),
        row(
            "A: ^cuda_ipc in a rack of NVLink",
            healthy(Mnnvl).all(|w| {
                w.env("UCX_TLS", Some("^cuda_ipc"));
            }),
            &["warn ENV002 decode prefill <- ENV007 ENV012"],
        ),
        row(
            "A: UCX without CUDA",
            healthy(InfiniBand).all(|w| {
                for id in ["ucx-libraries", "worker-libraries"] {
                    w.only(id, |line| {
                        !line.contains("uct_cuda") && !line.contains("ucm_cuda")
                    });
                }
            }),
            &["fail UCX001 g-decode-0 g-decode-1 g-prefill-0 g-prefill-1"],
        ),
        row(
            "A: prefill and decode name different transports",
            healthy(InfiniBand)
                .at("prefill", |w| {
                    w.env("UCX_TLS", Some("rc_x,cuda_copy"));
                })
                .at("decode", |w| {
                    w.env("UCX_TLS", Some("dc_x,cuda_copy"));
                }),
            &["fail DEP003 g <- ENV011"],
        ),
        row(
            "B: UCX without verbs",
            healthy(InfiniBand).all(|w| {
                for id in ["ucx-libraries", "worker-libraries"] {
                    w.only(id, |line| !line.contains("libuct_ib"));
                }
            }),
            &["fail UCX002 g-decode-0 g-decode-1 g-prefill-0 g-prefill-1"],
        ),
        row(
            "F: expandable segments",
            healthy(InfiniBand).all(|w| {
                w.env("PYTORCH_CUDA_ALLOC_CONF", Some("expandable_segments:True"));
            }),
            &["warn ENV002 decode prefill <- ENV012"],
        ),
    ]
}

/// Nothing says which ports to take.
fn unpinned(worker: &mut Worker) {
    worker.env("UCX_NET_DEVICES", None).env("NCCL_IB_HCA", None);
}

/// A port that is Ethernet where its machine has InfiniBand.
fn other_kind(worker: &mut Worker, device: &str) {
    let line = |kind: &str| format!("/sys/class/infiniband/{device}/ports/1/link_layer: {kind}\n");
    worker.replace("rdma-ports", &line("InfiniBand"), &line("Ethernet"));
    let heading = format!("CA '{device}'");
    within(
        worker,
        "ibstat",
        &heading,
        "Link layer: InfiniBand",
        "Link layer: Ethernet",
    );
    let heading = format!("hca_id:\t{device}\n");
    within(worker, "ibv-devinfo", &heading, "InfiniBand", "Ethernet");
}

/// A port of a quarter of the rate.
fn slower(worker: &mut Worker, device: &str) {
    let rate = format!("/sys/class/infiniband/{device}/ports/1/rate: ");
    let line = |rate: &str, speed: &str| format!("{rate}{speed}");
    worker.replace(
        "rdma-ports",
        &line(&rate, "400 Gb/sec (4X NDR)"),
        &line(&rate, "100 Gb/sec (4X EDR)"),
    );
    within(
        worker,
        "ibstat",
        &format!("CA '{device}'"),
        "Rate: 400",
        "Rate: 100",
    );
}

fn devices() -> Vec<Scenario> {
    vec![
        row(
            "C: UCX_NET_DEVICES names a device that no node has",
            healthy(InfiniBand).all(|w| {
                w.env("UCX_NET_DEVICES", Some("mlx5_bond_0:1"));
            }),
            &["fail RDMA011 g-decode-0 g-decode-1 g-prefill-0 g-prefill-1 <- ENV002 ENV012"],
        ),
        row(
            "C: UCX_NET_DEVICES names an interface",
            healthy(InfiniBand).at("decode", |w| {
                w.env("UCX_NET_DEVICES", Some("eth0"));
            }),
            &["fail ENV002 decode <- ENV011 ENV012"],
        ),
        row(
            "C: one port is down on one node",
            healthy(InfiniBand).at("decode-1", |w| port(w, "mlx5_3", "1: DOWN", "3: Disabled")),
            &["warn RDMA006 g-decode-1 <- DEP017"],
        ),
        row(
            "C: all ports of one node wait for a subnet manager",
            healthy(InfiniBand).at("prefill-0", |w| {
                for n in 0..8 {
                    port(w, &format!("mlx5_{n}"), "2: INIT", "5: LinkUp");
                }
            }),
            &["fail RDMA002 g-prefill-0 <- DEP017 RDMA011"],
        ),
        row(
            "C: the fabric of decode is another one",
            healthy(InfiniBand).at("decode", |w| {
                w.replace("rdma-gids", "fe80:0000:0000:0000:", "fec0:0000:0000:0001:");
            }),
            &["fail DEP007 g"],
        ),
        row(
            "C: prefill on InfiniBand, decode on RoCE",
            {
                let mut mixed = healthy(InfiniBand);
                let other = healthy(Roce);
                for (own, other) in mixed.workers.iter_mut().zip(other.workers).skip(2) {
                    for id in [
                        "rdma-ports",
                        "rdma-gids",
                        "rdma-netdevs",
                        "net-devices",
                        "ip-addr",
                        "routes",
                        "if-inet6",
                        "ibstat",
                        "ibv-devinfo",
                        "rdma-attributes",
                    ] {
                        let text = other
                            .text(id)
                            .replace("10.244.5.", "10.244.3.")
                            .replace("10.244.15.", "10.244.13.")
                            .replace("10.244.25.", "10.244.23.")
                            .replace("10.244.35.", "10.244.33.");
                        own.answer(id, text);
                    }
                }
                mixed
            },
            &["fail DEP006 g <- DEP007"],
        ),
        row(
            "C2: a port of another kind (BlueField) is up, and nothing is pinned",
            healthy(InfiniBand)
                .all(unpinned)
                .at("decode-0", |w| other_kind(w, "mlx5_7")),
            &[
                "fail RDMA009 g-decode-0",
                "warn RDMA013 g-decode-0",
                "warn RDMA013 g-decode-0",
            ],
        ),
        row(
            "C3: one port is of a slower fabric, and nothing is pinned",
            healthy(InfiniBand)
                .all(unpinned)
                .at("decode-0", |w| slower(w, "mlx5_7")),
            &[
                "warn RDMA007 g-decode-0 <- DEP017",
                "warn RDMA013 g-decode-0",
            ],
        ),
        row(
            "C6: SGLang names its ports where its NIXL backend does not read them",
            healthy(Roce).all(|w| {
                w.env("UCX_NET_DEVICES", None);
                w.arg("--disaggregation-ib-device=mlx5_0");
            }),
            &["warn ENV009 decode prefill"],
        ),
        row(
            "D: the GID index points at a link-local address",
            healthy(Roce).all(|w| {
                w.env("UCX_IB_GID_INDEX", Some("1"));
            }),
            &["fail RDMA010 g-decode-0 g-decode-1 g-prefill-0 g-prefill-1"],
        ),
        row(
            "D: the GID index points at nothing in this namespace",
            healthy(Roce).at("decode", |w| {
                w.env("NCCL_IB_GID_INDEX", Some("7"))
                    .env("UCX_IB_GID_INDEX", Some("7"));
            }),
            &[
                "fail RDMA010 g-decode-0 g-decode-1 <- ENV012",
                "warn RDMA010 g-decode-0 g-decode-1 <- ENV012",
            ],
        ),
        row(
            "D: the rails of decode are in other subnets",
            healthy(Roce).at("decode", |w| {
                for rail in 1..=8 {
                    let own = format!("192.168.{rail}.");
                    w.replace("ip-addr", &own, &format!("192.168.{}.", 100 + rail));
                    w.replace(
                        "rdma-gids",
                        &format!("c0a8:0{rail}"),
                        &format!("c0a8:{:02x}", 100 + rail),
                    );
                    w.replace(
                        "routes",
                        &format!("000{rail}A8C0"),
                        &format!("00{:02X}A8C0", 100 + rail),
                    );
                }
            }),
            &["warn DEP007 g"],
        ),
        row(
            "D: the interfaces of one worker have no address",
            healthy(Roce).at("decode-0", |w| {
                w.only("ip-addr", |line| !line.contains("    inet 192.168."));
                w.only("rdma-gids", |line| {
                    !["/2: ", "/3: "].iter().any(|i| line.contains(i))
                });
                w.only("routes", |line| !line.contains("A8C0"));
            }),
            &["fail RDMA009 g-decode-0 <- ENV012 RDMA010"],
        ),
        row(
            "C: the cables of one node are swapped",
            healthy(Roce).at("decode-1", |w| {
                let swap = |text: &str, a: &str, b: &str| {
                    text.replace(a, "@@").replace(b, a).replace("@@", b)
                };
                let addresses = swap(w.text("ip-addr"), "192.168.1.", "192.168.2.");
                let gids = swap(w.text("rdma-gids"), "c0a8:01", "c0a8:02");
                let routes = swap(w.text("routes"), "0001A8C0", "0002A8C0");
                w.answer("ip-addr", addresses)
                    .answer("rdma-gids", gids)
                    .answer("routes", routes);
            }),
            &["warn DEP018 g"],
        ),
        row(
            "S: decode has another MTU",
            healthy(Roce).at("decode", |w| {
                w.replace(
                    "ibv-devinfo",
                    "active_mtu:\t\t4096 (5)",
                    "active_mtu:\t\t1024 (3)",
                );
            }),
            &["fail DEP013 g"],
        ),
        row(
            "C: one replica has half of the ports",
            healthy(InfiniBand).at("decode-1", |w| {
                let lost = |line: &str| (4..8).any(|n| line.contains(&format!("mlx5_{n}")));
                for id in [
                    "rdma-devices",
                    "rdma-attributes",
                    "rdma-pci",
                    "rdma-ports",
                    "rdma-gids",
                    "rdma-counters",
                    "rdma-hw-counters",
                ] {
                    w.only(id, |line| !lost(line));
                }
                w.only("rdma-uverbs", |line| !lost(line));
                for id in ["dev-infiniband", "dev-infiniband-open"] {
                    w.only(id, |line| {
                        !(4..8).any(|n| line.contains(&format!("uverbs{n}")))
                    });
                }
                for id in ["ibstat", "ibv-devinfo"] {
                    let text = w.text(id);
                    let end = text
                        .find(if id == "ibstat" {
                            "CA 'mlx5_4'"
                        } else {
                            "hca_id:\tmlx5_4"
                        })
                        .unwrap();
                    let text = text[..end].to_owned();
                    w.answer(id, text);
                }
            }),
            &["warn DEP017 g-decode-1", "warn RDMA012 g-decode-1"],
        ),
    ]
}

/// A pod on the first node that sees some of its GPUs.
fn shares_node(worker: &mut Worker, sees: impl Fn(usize) -> bool) {
    worker.set("/spec/nodeName", json!("node-0"));
    let hidden: Vec<String> = (0..8)
        .filter(|n| !sees(*n))
        .map(|n| format!("/dev/nvidia{n}:"))
        .collect();
    worker.only("dev-gpu", |line| {
        !hidden.iter().any(|own| line.starts_with(own))
    });
}

fn pods() -> Vec<Scenario> {
    vec![
        row(
            "H: decode asks for no RDMA device",
            healthy(InfiniBand).at("decode", |w| {
                w.limit("rdma/ib", None);
                no_devices(w);
            }),
            &["fail DEP011 g-decode-0 g-decode-1 <- K8S001 K8S005 RDMA001 RDMA003 RDMA011"],
        ),
        row(
            "H: nobody asks for an RDMA device",
            healthy(InfiniBand).all(|w| {
                w.limit("rdma/ib", None);
                no_devices(w);
            }),
            &["fail DEP011 g-decode-0 g-decode-1 g-prefill-0 g-prefill-1 <- K8S001 RDMA001 RDMA003 RDMA011"],
        ),
        row(
            "H: one container got no device node",
            healthy(InfiniBand).at("decode-1", no_devices),
            &["fail RDMA003 g-decode-1 <- DEP017 RDMA001 RDMA011"],
        ),
        row(
            "H: the device plugin of one node is gone",
            healthy(InfiniBand).node(3, |node| {
                node["status"]["allocatable"].as_object_mut().unwrap().remove("rdma/ib");
            }),
            &["fail DEP011 g-decode-1"],
        ),
        row(
            "H: the operator's object asks for RDMA, and the pods do not",
            healthy(InfiniBand)
                .at("decode", |w| { w.limit("rdma/ib", None); no_devices(w); })
                .written(|object| {
                    object["spec"]["components"][1]["podTemplate"]["spec"]["containers"][0]["resources"]["limits"]["rdma/ib"] = json!("8");
                }),
            &["fail DEP014 decode <- DEP011 K8S001 K8S005 RDMA001 RDMA003 RDMA011"],
        ),
        row(
            "H: networks of GKE without their annotation",
            healthy(Roce).all(|w| {
                w.set("/metadata/annotations", json!({}));
                w.limit("rdma/roce", None).limit("networking.gke.io.networks/rdma-0", Some("1"));
            }).node(0, gke).node(1, gke).node(2, gke).node(3, gke),
            &["fail K8S004 decode prefill"],
        ),
        row(
            "G: no IPC_LOCK, and 8 MiB of locked memory",
            healthy(InfiniBand).at("decode", |w| {
                w.container("securityContext", json!({}));
                for id in ["limits", "worker-limits"] {
                    w.replace(id, "Max locked memory         unlimited            unlimited            bytes", "Max locked memory         8388608              8388608              bytes");
                }
                for id in ["status", "worker-status"] {
                    w.replace(id, "a80465fb", "a80425fb");
                }
            }),
            &["fail MEM001 g-decode-0 g-decode-1 <- K8S007"],
        ),
        row(
            "G: IPC_LOCK for a user that is not root",
            healthy(InfiniBand).at("decode", |w| {
                w.set("/spec/securityContext/runAsUser", json!(1000));
                for id in ["limits", "worker-limits"] {
                    w.replace(id, "Max locked memory         unlimited            unlimited            bytes", "Max locked memory         8388608              8388608              bytes");
                }
                for id in ["status", "worker-status"] {
                    w.replace(id, "CapEff:\t00000000a80465fb", "CapEff:\t0000000000000000");
                    w.replace(id, "Uid:\t0\t0\t0\t0", "Uid:\t1000\t1000\t1000\t1000");
                }
            }),
            &["fail MEM001 g-decode-0 g-decode-1 <- K8S008"],
        ),
        row(
            "I: prefill tells peers its loopback address",
            healthy(InfiniBand).at("prefill", |w| { w.env("VLLM_NIXL_SIDE_CHANNEL_HOST", Some("127.0.0.1")); }),
            &["fail ENV002 prefill <- ENV012"],
        ),
        row(
            "I: both prefill workers tell the address of the first",
            {
                let rack = healthy(InfiniBand);
                let ip = rack.workers[0].ip.clone();
                rack.at("prefill", |w| { w.env("VLLM_NIXL_SIDE_CHANNEL_HOST", Some(&ip)); })
            },
            &["fail DEP012 g"],
        ),
        row(
            "P: NCCL and its bootstrap on an interface that is not there",
            healthy(InfiniBand).at("decode", |w| { w.env("NCCL_SOCKET_IFNAME", Some("ens9f0")); }),
            &["fail ENV012 g-decode-0 g-decode-1 <- ENV011"],
        ),
        row(
            "P: NCCL and its bootstrap on the loopback interface",
            healthy(InfiniBand).at("decode", |w| { w.env("NCCL_SOCKET_IFNAME", Some("lo")); }),
            &["warn ENV012 g-decode-0 g-decode-1 <- ENV011"],
        ),
        row(
            "R: shared memory that is nearly full",
            healthy(InfiniBand).at("decode-0", |w| {
                w.answer("shm", "Filesystem     1024-blocks    Used Available Capacity Mounted on\nshm               67108864 65100000 2008864      98% /dev/shm\n");
            }),
            &["fail MEM002 g-decode-0"],
        ),
        row(
            "R: shared memory of 64 MiB",
            healthy(InfiniBand).at("decode", |w| {
                w.set("/spec/volumes", json!([])).container("volumeMounts", json!([]));
                w.replace("mounts", "size=67108864k", "size=65536k");
                w.answer("shm", "Filesystem     1024-blocks    Used Available Capacity Mounted on\nshm               65536 100 65436       1% /dev/shm\n");
            }),
            &["fail MEM002 g-decode-0 g-decode-1"],
        ),
        row(
            "E: prefill and decode share a node and not its namespaces",
            healthy(InfiniBand).at("decode-0", |w| { w.set("/spec/nodeName", json!("node-0")); }),
            &["warn DEP019 g"],
        ),
        row(
            "E5: prefill and decode share a node and its namespaces, and see other GPUs of it",
            healthy(InfiniBand)
                .all(|w| {
                    w.set("/spec/hostPID", json!(true)).set("/spec/hostIPC", json!(true));
                })
                .at("prefill-0", |w| shares_node(w, |n| n < 4))
                .at("decode-0", |w| shares_node(w, |n| n >= 4)),
            &["warn DEP019 g"],
        ),
        row(
            "N: EFA with the UCX backend",
            healthy(Efa).all(|w| {
                w.container("args", json!(["--is-x-worker", r#"--kv-transfer-config={"kv_connector":"NixlConnector","kv_role":"kv_both"}"#]));
                w.replace("worker-libraries", "libplugin_LIBFABRIC", "libplugin_UCX");
            }),
            &["fail K8S003 decode prefill <- NIXL001"],
        ),
        row(
            "N: EFA in a pod that is not privileged",
            healthy(Efa).all(|w| { w.container("securityContext", json!({"capabilities": {"add": ["IPC_LOCK"]}})); }),
            &["warn K8S010 decode prefill"],
        ),
        row(
            "N: prefill and decode on one node of EFA",
            healthy(Efa).all(|w| { w.set("/spec/affinity", json!({})); }).at("decode-0", |w| { w.set("/spec/nodeName", json!("node-0")); }),
            &["fail DEP010 g <- K8S011", "warn ENV004 decode prefill"],
        ),
    ]
}

fn gke(node: &mut Value) {
    let allocatable = node["status"]["allocatable"].as_object_mut().unwrap();
    allocatable.remove("rdma/roce");
    allocatable.insert("networking.gke.io.networks/rdma-0".to_owned(), json!("1"));
}

/// A container that sees the devices of its node and may open none.
fn no_devices(worker: &mut Worker) {
    worker
        .answer("dev-infiniband", "")
        .answer("dev-infiniband-open", "")
        .answer("ibv-devinfo", "No IB devices found\n");
    worker.absent("ibv-devinfo");
}

fn nodes() -> Vec<Scenario> {
    let fabric = |w: &mut Worker| {
        within(
            w,
            "nvidia-smi-fabric",
            "GPU ",
            "State                             : Completed",
            "State                             : In Progress",
        );
    };
    vec![
        row(
            "M: Fabric Manager has not finished on one GPU",
            healthy(InfiniBand).at("decode-0", fabric),
            &["fail GPU005 g-decode-0"],
        ),
        row(
            "J: no nvidia_peermem, and a driver without dmabuf",
            healthy(InfiniBand).all(|w| {
                w.replace(
                    "nvidia-version",
                    "NVIDIA UNIX Open Kernel Module for x86_64",
                    "NVIDIA UNIX x86_64 Kernel Module",
                );
            }),
            &["fail GPU001 g-decode-0 g-decode-1 g-prefill-0 g-prefill-1"],
        ),
        row(
            "K: a virtual machine with GPU and NIC behind one switch",
            healthy(InfiniBand).all(|w| {
                w.replace("cpu", "hypervisor: no", "hypervisor: yes");
            }),
            &["warn GPU008 g-decode-0 g-decode-1 g-prefill-0 g-prefill-1"],
        ),
        row(
            "K: the IOMMU translates",
            healthy(InfiniBand).all(|w| {
                w.replace("gpu-pci", "identity", "DMA");
                w.replace("rdma-attributes", "identity", "DMA");
                w.replace("cmdline", "iommu=pt\n", "");
            }),
            &["warn GPU007 g-decode-0 g-decode-1 g-prefill-0 g-prefill-1"],
        ),
        row(
            "L: no IMEX channel in any pod",
            healthy(Mnnvl).all(|w| {
                w.only("dev-gpu", |line| !line.contains("imex"));
            }),
            &["fail DEP009 g <- DEP003 ENV012 GPU006"],
        ),
        row(
            "L: only decode claims the ComputeDomain",
            healthy(Mnnvl)
                .at("prefill", |w| {
                    w.set("/spec/resourceClaims", json!([]));
                    w.set("/spec/containers/0/resources/claims", json!([]));
                    w.only("dev-gpu", |line| !line.contains("imex"));
                })
                .other("computedomains", |domain| {
                    domain["status"]["status"] = json!("NotReady");
                    domain["status"]["nodes"].as_array_mut().unwrap().drain(..2);
                }),
            &["fail DEP009 g <- DEP003 DEP051 ENV002 ENV008 ENV012 GPU006 K8S002"],
        ),
        row(
            "L: decode is in another NVLink domain",
            healthy(Mnnvl).at("decode", |w| {
                w.replace("nvidia-smi-fabric", "5c9ad3a2-", "77777777-");
            }),
            &["fail DEP008 g"],
        ),
        row(
            "L: NCCL may not use the allocator of NVLink",
            healthy(Mnnvl).all(|w| {
                w.env("NCCL_CUMEM_ENABLE", Some("0"));
            }),
            &["warn ENV012 g-decode-0 g-decode-1 g-prefill-0 g-prefill-1"],
        ),
        row(
            "L: a member of the ComputeDomain is not ready",
            healthy(Mnnvl).other("computedomains", |domain| {
                domain["status"]["status"] = json!("NotReady");
                domain["status"]["nodes"][3]["status"] = json!("NotReady");
            }),
            &["fail DEP051 g"],
        ),
        // A note, and no fault.
        row(
            "U: gdrdrv is loaded and its device is not in the container",
            healthy(InfiniBand).all(|w| {
                let text = format!(
                    "{}/sys/module/gdrdrv/version: 2.5\n",
                    w.text("module-versions")
                );
                w.answer("module-versions", text);
            }),
            &[],
        ),
        row(
            "U: a UCX that does not know the NVLink of these GPUs",
            healthy(Mnnvl).all(|w| {
                let wheel = "/opt/dynamo/venv/lib/python3.12/site-packages/nixl_cu12.libs/";
                for id in ["worker-libraries", "ucx-libraries"] {
                    w.replace(id, &format!("{wheel}ucx/"), "/usr/local/ucx/lib/ucx/")
                        .replace(id, &format!("{wheel}libuc"), "/usr/local/ucx/lib/libuc");
                }
                w.answer(
                    "ucx-info-version",
                    "# Library version: 1.18.0\n# Library path: /usr/local/ucx/lib/libucs.so.0\n",
                );
            }),
            &["warn NIXL002 g-decode-0 g-decode-1 g-prefill-0 g-prefill-1"],
        ),
        row(
            "O: a version of NIXL that is known to be bad on these GPUs",
            healthy(Mnnvl).all(|w| {
                w.replace("python-packages", "nixl_cu12-1.3.0", "nixl_cu12-0.10.0");
            }),
            // On these GPUs, and with the UCX that it brings.
            &["warn NIXL002 g-decode-0 g-decode-1 g-prefill-0 g-prefill-1"; 2],
        ),
        row(
            "O: decode runs another image",
            healthy(InfiniBand).at("decode", |w| {
                w.replace("python-packages", "nixl_cu12-1.3.0", "nixl_cu12-1.2.0");
                w.set(
                    "/status/containerStatuses/0/imageID",
                    json!("example.org/runtime@sha256:2"),
                );
            }),
            &["warn DEP016 g"],
        ),
        row(
            "the roles are in different zones",
            healthy(InfiniBand)
                .node(2, |node| {
                    node["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!("z2")
                })
                .node(3, |node| {
                    node["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!("z2")
                }),
            &["warn DEP020 g"],
        ),
    ]
}

fn engines() -> Vec<Scenario> {
    vec![
        row("V: prefill is split finer than decode", healthy(InfiniBand).at("decode", |w| {
            let args = w.object["spec"]["containers"][0]["args"].to_string().replace("size=8", "size=4");
            w.container("args", serde_json::from_str(&args).unwrap());
        }), &["fail DEP005 g"]),
        row("V: block sizes differ", healthy(InfiniBand).at("prefill", |w| { w.arg("--block-size=16"); }).at("decode", |w| { w.arg("--block-size=32"); }), &["fail K8S014 g"]),
        row("V: KV caches of different types", healthy(InfiniBand).at("prefill", |w| { w.arg("--kv-cache-dtype=fp8"); }).at("decode", |w| { w.arg("--kv-cache-dtype=bfloat16"); }), &["fail DEP005 g"]),
        row(
            "V: connectors differ",
            healthy(InfiniBand).at("decode", |w| {
                let args = w.object["spec"]["containers"][0]["args"].to_string().replace("NixlConnector", "LMCacheConnectorV1");
                w.container("args", serde_json::from_str(&args).unwrap());
            }),
            &["fail DEP004 g"],
        ),
        row(
            "V4: blocks of all layers together at one end alone",
            healthy(InfiniBand).at("decode", |w| {
                let args = w.object["spec"]["containers"][0]["args"].to_string().replace(
                    r#"\"kv_role\":"#,
                    r#"\"kv_connector_extra_config\":{\"enable_cross_layers_blocks\":\"True\"},\"kv_role\":"#,
                );
                w.container("args", serde_json::from_str(&args).unwrap());
            }),
            &["fail DEP004 g"],
        ),
        row("one decode worker is not scheduled", healthy(InfiniBand).at("decode-1", |w| {
            w.set("/spec/nodeName", Value::Null);
            w.set("/status", json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/4 nodes are available: 4 Insufficient rdma/ib."}]}));
            let name = w.name.clone();
            w.exec(Exec::unscheduled(&name));
        }), &["fail DEP002 g <- NODE001"]),
        row("all decode workers crash", healthy(InfiniBand).at("decode", |w| {
            w.set("/status/containerStatuses/0/ready", json!(false));
            w.set("/status/containerStatuses/0/restartCount", json!(7));
            w.set("/status/containerStatuses/0/state", json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}}));
            w.exec(Exec::container_not_found());
        }), &["fail DEP002 g <- NODE001"]),
        row("one replica was changed by hand", healthy(InfiniBand).at("decode-1", |w| { w.env("UCX_RNDV_SCHEME", Some("am")); }), &["warn DEP021 g", "warn ENV002 decode <- ENV011 ENV012"]),
    ]
}

/// All of them.
pub fn all() -> Vec<Scenario> {
    [transports(), devices(), pods(), nodes(), engines()]
        .into_iter()
        .flatten()
        .collect()
}

/// What a report puts first, one line per entry.
fn said(report: &Value) -> Vec<String> {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let all = report["fix_first"].as_array().unwrap();
    all.iter()
        .map(|fix| {
            let also = fix["also"].as_array().into_iter().flatten();
            let targets: Vec<String> = [&fix["target"]]
                .into_iter()
                .chain(also)
                .map(|t| text(&t["name"]))
                .collect();
            let beneath: BTreeSet<String> = fix["consequences"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|c| text(&c["id"]))
                .collect();
            let mut line = format!(
                "{} {} {}",
                text(&fix["status"]),
                text(&fix["id"]),
                targets.join(" ")
            );
            if !beneath.is_empty() {
                line.push_str(&format!(
                    " <- {}",
                    beneath.into_iter().collect::<Vec<_>>().join(" ")
                ));
            }
            line
        })
        .collect()
}

async fn hold(all: Vec<Scenario>) {
    let mut wrong = Vec::new();
    for scenario in all {
        let fake = scenario.rack.into().start().await;
        let run = on(&fake, scenario.args).await;
        let said = said(&run.report());
        if let Some(dir) = std::env::var_os("SHOW") {
            let args: Vec<&str> = scenario
                .args
                .iter()
                .chain(&["-o", "text"])
                .copied()
                .collect();
            let text = on(&fake, &args).await.stdout;
            let name: String = scenario
                .what
                .chars()
                .map(|c| if c.is_alphanumeric() { c } else { '-' })
                .collect();
            std::fs::write(std::path::Path::new(&dir).join(name), text).unwrap();
        }
        if said != scenario.says {
            wrong.push(format!(
                "{}\n    {}\n{}",
                scenario.what,
                said.join("\n    "),
                run.complaints().join("\n").replace("\n", "\n        ")
            ));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// The fix of the first entry of a report.
async fn first_fix(rack: Rack) -> String {
    let fake = rack.into().start().await;
    let report = on(&fake, &["g", "--nodes"]).await.report();
    report["fix_first"][0]["fix"].as_str().unwrap().to_owned()
}

/// A fix does not ask for what the pods ask for already.
#[tokio::test]
async fn what_was_asked_for_and_did_not_come_is_looked_for_where_it_was_lost() {
    let fix = first_fix(healthy(InfiniBand).at("decode-1", no_devices)).await;
    assert!(
        fix.starts_with("the pod asks for rdma/ib: 8 already")
            && fix.contains("the device plugin on node node-3")
            && fix.ends_with("restart pod g-decode-1"),
        "{fix}"
    );
    let no_channel = |w: &mut Worker| {
        w.only("dev-gpu", |line| !line.contains("imex"));
    };
    let fix = first_fix(healthy(Mnnvl).all(no_channel)).await;
    assert!(
        fix.starts_with("both roles claim the channel of a ComputeDomain already")
            && fix.contains("DRA driver on node node-0"),
        "{fix}"
    );
}

#[tokio::test]
async fn transports_and_modules() {
    hold(transports()).await;
}

#[tokio::test]
async fn devices_and_addresses() {
    hold(devices()).await;
}

#[tokio::test]
async fn what_pods_ask_for_and_get() {
    hold(pods()).await;
}

#[tokio::test]
async fn nodes_and_nvlink() {
    hold(nodes()).await;
}

#[tokio::test]
async fn engines_and_their_state() {
    hold(engines()).await;
}
