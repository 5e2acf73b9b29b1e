use super::*;

fn lane(transport: &str, device: &str) -> Lane {
    Lane {
        transport: transport.into(),
        device: device.into(),
    }
}

// UCX 1.23.0 as bundled in nixl_cu12 1.5.1, in the soft-RoCE machine.
const NIXL: &str = "B agent up 1.70
[1796033982.746013] [rdma-vm:242  :0]     ucp_context.c:2753 UCX  INFO  Version 1.23.0 (loaded from /opt/x/libucp.so.0.0.0, git branch <unknown>, revision 65e342a)
[1796033983.128532] [rdma-vm:242  :0]          parser.c:2587 UCX  INFO  UCX_* env variables: UCX_NET_DEVICES=rxe1:1 UCX_LOG_LEVEL=info UCX_TLS=rc
[1796033983.166317] [rdma-vm:242  :0]      ucp_worker.c:1997 UCX  INFO    B self cfg#0 rma(rc_verbs/rxe1:1)  amo_am(rc_verbs/rxe1:1)  am(rc_verbs/rxe1:1)  ka(ud_verbs/rxe1:1)
[1796033985.661006] [rdma-vm:242  :0]      ucp_worker.c:1997 UCX  INFO    B inter-node cfg#1 rma(rc_verbs/rxe1:1)  amo_am(rc_verbs/rxe1:1)  am(rc_verbs/rxe1:1 tcp/eth1)  ka(ud_verbs/rxe1:1)
";

#[test]
fn configurations_of_peers_and_of_the_process_itself() {
    let log = parse(NIXL);
    assert_eq!(log.lines, 4);
    assert_eq!(log.configurations.len(), 2);
    let peers: Vec<_> = log.peer_configurations().collect();
    let [peer] = peers[..] else {
        panic!("{peers:?}")
    };
    assert_eq!(
        (peer.context.as_str(), peer.scope, peer.number),
        ("B", Scope::InterNode, 1)
    );
    assert_eq!(peer.lanes["rma"], [lane("rc_verbs", "rxe1:1")]);
    assert_eq!(
        peer.lanes["am"],
        [lane("rc_verbs", "rxe1:1"), lane("tcp", "eth1")]
    );
    assert_eq!(log.variables["UCX_TLS"], "rc");
    let versions: Vec<_> = log.versions.iter().collect();
    assert_eq!(
        versions,
        [&("1.23.0".to_owned(), "/opt/x/libucp.so.0.0.0".to_owned())]
    );
    assert_eq!(log.protocols, [], "a listed lane carried nothing yet");
}

#[test]
fn ucx_1_13_does_not_say_whom_a_lane_reaches() {
    let log = parse(
        "[1.1] [vm:353  :0]      ucp_worker.c:1763 UCX  INFO    ep_cfg[0]: tag(rc_verbs/rxe0:1)\n",
    );
    let configuration = &log.configurations[0];
    assert_eq!(configuration.scope, Scope::Unstated);
    assert_eq!(configuration.lanes["tag"], [lane("rc_verbs", "rxe0:1")]);
}

#[test]
fn a_wrapped_lane_line_is_read_group_by_group() {
    let log = parse(
        "ucp_context_0 intra-node cfg#2\n  rma_am(tcp/eth0)\n  am(tcp/eth0 cuda_ipc/cuda)\nother text\n  ka(tcp/lo)\n",
    );
    let configuration = &log.configurations[0];
    assert_eq!(configuration.lanes.len(), 2);
    assert_eq!(configuration.lanes["rma_am"], [lane("tcp", "eth0")]);
    assert_eq!(configuration.lanes["am"][1], lane("cuda_ipc", "cuda"));
}

// Shapes of UCX 1.16 to 1.21 (one title row), written by hand after runs and public excerpts of those versions.
const TABLES_1_20: &str = "\
[1.1] [n0:1:0]   +--------------------------------+------------------------------------------------------------------+
[1.1] [n0:1:0]   | ucp_context_0 self cfg#0       | remote memory write by ucp_put*(multi) from host memory to host  |
[1.1] [n0:1:0]   |                         0..inf | zero-copy                 | cma/memory                           |
[1.1] [n0:1:0]   | ucp_context_0 inter-node cfg#1 | remote memory write by ucp_put*(multi) from cuda/GPU0 to cuda    |
[1.1] [n0:1:0]   +--------------------------------+------------------------------------------------------------------+
[1.1] [n0:1:0]   |                          0..2K | short                     | rc_mlx5/mlx5_0:1/path0               |
[1.1] [n0:1:0]   |                     2049..9383 | copy-in                   | rc_mlx5/mlx5_0:1/path0               |
[1.1] [n0:1:0]   |                      9384..inf | zero-copy                 | rc_mlx5/mlx5_0:1 50% on path0 and 50% on path1 |
[1.1] [n0:1:0]   | ucp_context_0 inter-node cfg#1 | active message by ucp_am_send* from host memory                  |
[1.1] [n0:1:0]   |                         0..inf | short                     | rc_mlx5/mlx5_0:1                     |
";

// Shape of UCX 1.22 and 1.23 (two title rows and a header row), agent name as context; after runs of those versions.
const TABLES_1_23: &str = "\
[1.2] [n1:9:0]   | probe-i inter-node cfg#1                                         |
[1.2] [n1:9:0]   | remote memory read by ucp_get*(multi) into host memory from host |
[1.2] [n1:9:0]   | Range  | Description        | Config                             |
[1.2] [n1:9:0]   | 0..inf | software emulation | tcp/vxA                            |
";

#[test]
fn tables_of_all_known_layouts_say_what_carries() {
    let log = parse(TABLES_1_20);
    let bulk: Vec<_> = log.bulk(Operation::Write).collect();
    let [row] = bulk[..] else { panic!("{bulk:?}") };
    assert_eq!(row.how, How::ZeroCopy);
    assert_eq!((row.local, row.remote), (Memory::Cuda, Memory::Cuda));
    assert_eq!(row.lanes, [lane("rc_mlx5", "mlx5_0:1")]);
    assert_eq!(row.raw, "rc_mlx5/mlx5_0:1 50% on path0 and 50% on path1");
    let middle = log
        .protocols
        .iter()
        .find(|row| row.scope == Scope::InterNode && row.range.covers(4096))
        .unwrap();
    assert_eq!(middle.how, How::CopyIn);
    let rows = log.protocols.len();
    assert_eq!(rows, 4, "active messages are no remote memory access");

    let log = parse(TABLES_1_23);
    let bulk: Vec<_> = log.bulk(Operation::Read).collect();
    let [row] = bulk[..] else { panic!("{bulk:?}") };
    assert_eq!(row.how, How::SoftwareEmulation);
    assert_eq!(row.lanes, [lane("tcp", "vxA")]);
}

#[test]
fn tables_of_two_processes_do_not_mix() {
    let mut text = String::new();
    for (a, b) in TABLES_1_20.lines().zip(TABLES_1_23.lines().cycle()) {
        text.push_str(&format!("{a}\n{b}\n"));
    }
    let log = parse(&text);
    assert!(
        log.bulk(Operation::Write)
            .all(|row| row.how == How::ZeroCopy)
    );
    assert!(
        log.bulk(Operation::Read)
            .all(|row| row.lanes == [lane("tcp", "vxA")])
    );
}

#[test]
fn two_lanes_and_sizes_with_units() {
    let text = TABLES_1_23.replace(
        "| 0..inf | software emulation | tcp/vxA                            |",
        "| 1M..2G | zero-copy | 52% on tcp/lo and 48% on tcp/eth0 |",
    );
    let row = &parse(&text).protocols[0];
    assert_eq!(
        (row.range.first_byte, row.range.last_byte),
        (1 << 20, Some(2 << 30))
    );
    assert_eq!(row.lanes, [lane("tcp", "lo"), lane("tcp", "eth0")]);
}

#[test]
fn an_unknown_layout_yields_nothing() {
    let text =
        "| remote memory write by carrier pigeon |\n| 0..inf | zero-copy | rc_mlx5/mlx5_0:1 |\n";
    assert_eq!(parse(text).protocols, []);
}

#[test]
fn complaints_are_typed() {
    // UCX 1.13.1 in the soft-RoCE machine and UCX 1.23.0 without RDMA; the mlx5 and debug lines after the sources.
    let text = "\
[1.1] [vm:1191 :0]     ucp_context.c:1014 UCX  WARN  network device 'mlx5_0:1' is not available, please use one or more of: 'eth0'(tcp), 'lo'(tcp)
[1.1] [vm:1182 :0]     ucp_context.c:1014 UCX  WARN  transports 'rc_x','cuda_copy' are not available, please use one or more of: cma, tcp
[1.1] [vm:1182 :0]     ucp_context.c:1276 UCX  ERROR no usable transports/devices (asked rc_x on all devices)
[1.1] [vm:1182 :0]          select.c:549  UCX  ERROR   no auxiliary transport to <no debug data>: Unsupported operation
[1.1] [vm:1:0]          parser.c:1 UCX  ERROR Invalid value for GPU_DIRECT_RDMA: 'true'. Expected: <yes|no|try>
[1.1] [vm:1:0]          parser.c:1 UCX  WARN  unused environment variables: UCX_NET_DEVICE (maybe: UCX_NET_DEVICES?); UCX_FOO
[1.1] [vm:1:0]          ib_md.c:1 UCX  ERROR ibv_reg_mr(address=0x7f, length=1) failed: Cannot allocate memory : Please set max locked memory (ulimit -l) to 'unlimited'
[n0:7:0:7] ib_mlx5_log.c:177  Local protection on mlx5_0:1/IB (synd 0x4 vend 0x51 hw_synd 0/2)
[1.1] [vm:1:0]          ib_md.c:1 UCX  DEBUG mlx5_0: cuda GPUDirect RDMA is not detected by checking /sys/module/nvidia_peermem/version
[1.1] [vm:1:0]          ib_md.c:1 UCX  DEBUG mlx5_0: dmabuf is supported
[1.1] [vm:1:0]          cuda.c:1 UCX  DEBUG dmabuf is not supported on cuda device 0
[1.1] [vm:1:0]          ucp.c:1 UCX  DEBUG register cuda memory on: mlx5_0, cuda_cpy
[1.1] [vm:1:0]          ipc.c:1 UCX  DEBUG multi-node NVLINK support is disabled
";
    let log = parse(text);
    assert!(log.unavailable[0].offers_only_tcp());
    assert_eq!(log.unavailable[0].names, ["mlx5_0:1"]);
    assert_eq!(log.unavailable[1].kind, UnavailableKind::Transport);
    assert_eq!(log.unavailable[1].names, ["rc_x", "cuda_copy"]);
    assert!(log.has_no_usable_transport && log.has_memlock_failure);
    assert_eq!(log.connect_failures[0].lacking, "auxiliary");
    assert!(
        log.invalid_values
            .contains(&("GPU_DIRECT_RDMA".into(), "true".into()))
    );
    assert_eq!(
        log.unused_variables,
        BTreeMap::from([
            ("UCX_FOO".to_owned(), None),
            (
                "UCX_NET_DEVICE".to_owned(),
                Some("UCX_NET_DEVICES".to_owned())
            ),
        ])
    );
    assert_eq!(
        log.completion_errors,
        BTreeSet::from([("Local protection".to_owned(), "mlx5_0:1".to_owned())])
    );
    assert_eq!(
        log.gpu_direct,
        BTreeSet::from([
            GpuDirectHint::RegistersOn(vec!["mlx5_0".into(), "cuda_cpy".into()]),
            GpuDirectHint::Peermem("mlx5_0".into(), false),
            GpuDirectHint::Dmabuf("cuda device 0".into(), false),
            GpuDirectHint::Dmabuf("mlx5_0".into(), true),
            GpuDirectHint::MultiNodeNvlink(false),
        ])
    );
    assert_eq!(log.warnings.total(), 3);
    assert_eq!(log.errors.total(), 4);
    assert_eq!(parse("nothing of ours\n").lines, 0);
}
