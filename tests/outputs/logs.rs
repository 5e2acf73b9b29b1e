//! Logs of NCCL and UCX, and `ucx_info`.

use crate::Expectation;
use dynamo_interconnect_check::facts::nccl_log::{self, Fault, Network, P2p, Via};
use dynamo_interconnect_check::facts::ucx_info;
use dynamo_interconnect_check::facts::ucx_log::{self, Lane, Scope, UnavailableKind};
use std::collections::BTreeSet;

pub const EXPECTATIONS: &[Expectation] = &[
    ("nccl/01-a100pcie-2gpu-roce-gdr-disabled.txt", |text| {
        let log = nccl_log::parse(text);
        assert_eq!(log.networks, BTreeSet::from([Network::Ib]));
        let ports: Vec<_> = log
            .rdma_ports
            .iter()
            .map(|port| (port.device.as_str(), port.is_roce))
            .collect();
        assert_eq!(ports, [("mlx5_0", true), ("mlx5_1", true)]);
        assert!(log.merged_adapters.contains("mlx5_0+mlx5_1"));
        let adapters: BTreeSet<_> = log.gpu_direct.iter().map(|d| d.adapter.as_str()).collect();
        assert_eq!(
            adapters,
            BTreeSet::from(["mlx5_0", "mlx5_1", "mlx5_0+mlx5_1"])
        );
        assert!(log.gpu_direct.iter().all(|d| !d.is_enabled));
        assert!(!log.shows_transport());
        assert!(log.versions.contains("2.27.7+cuda13.0"));
    }),
    ("nccl/03-eks-socket-shm-no-ib.txt", |text| {
        let log = nccl_log::parse(text);
        assert!(log.has_no_rdma_device && log.has_p2p_disabled);
        assert_eq!(log.socket_interfaces, BTreeSet::from(["eth0".to_owned()]));
        assert_eq!(log.networks, BTreeSet::from([Network::Socket]));
        assert_eq!(
            log.channels.keys().collect::<Vec<_>>(),
            [&Via::SharedMemory]
        );
        assert_eq!(log.mnnvl, Some(false));
    }),
    ("nccl/05-shm-too-small-warn.txt", |text| {
        let log = nccl_log::parse(text);
        assert_eq!(log.networks, BTreeSet::from([Network::Socket]));
        assert_eq!(
            log.channels.keys().collect::<Vec<_>>(),
            [&Via::SharedMemory]
        );
        assert_eq!(log.faults, BTreeSet::from([Fault::SharedMemoryTooSmall]));
        assert!(log.has_no_verbs_library && !log.warnings.is_empty());
    }),
    ("nccl/06-ib-p2p-cumem-single-node.txt", |text| {
        let log = nccl_log::parse(text);
        assert_eq!(log.networks, BTreeSet::from([Network::Ib]));
        assert_eq!(
            log.channels.keys().collect::<Vec<_>>(),
            [&Via::P2p(P2p::Direct)]
        );
        assert_eq!((log.mnnvl, log.nodes), (Some(false), Some(1)));
        assert_eq!(log.network_channels().count(), 0);
    }),
    ("nccl/08-init-complete-only-overlay.txt", |text| {
        let log = nccl_log::parse(text);
        assert!(log.has_init_complete && log.lines > 0);
        assert!(log.networks.is_empty() && !log.shows_transport());
    }),
    ("nccl/10-efa-libfabric-gdrdma-mpi-prefix.txt", |text| {
        let log = nccl_log::parse(text);
        assert_eq!(log.ofi_providers, BTreeSet::from(["efa".to_owned()]));
        assert_eq!(
            log.network_channels().collect::<Vec<_>>(),
            [(&Network::Libfabric, true, 1)]
        );
        assert_eq!(log.channels[&Via::P2p(P2p::Direct)], 2);
    }),
    ("nccl/11-gb200-mnnvl-on.txt", |text| {
        let log = nccl_log::parse(text);
        assert_eq!(log.mnnvl, Some(true));
        assert_eq!(
            log.channels.keys().collect::<Vec<_>>(),
            [&Via::P2p(P2p::Mnnvl)]
        );
        assert_eq!(log.networks, BTreeSet::from([Network::Ib]));
        assert_eq!(
            log.network_channels().count(),
            0,
            "chosen and not carrying these channels"
        );
    }),
    ("nccl/13-ib-without-gdrdma.txt", |text| {
        let log = nccl_log::parse(text);
        assert_eq!(
            log.network_channels().collect::<Vec<_>>(),
            [(&Network::Ib, false, 3)]
        );
    }),
    ("ucx/01-info-d-ucx16-cuda-ib.txt", |text| {
        let info = ucx_info::parse(text).unwrap();
        assert_eq!(
            info.transports(),
            BTreeSet::from([
                "cm",
                "cuda_copy",
                "cuda_ipc",
                "dc_mlx5",
                "gdr_copy",
                "mm",
                "rc",
                "rc_mlx5",
                "self",
                "tcp",
                "ud",
                "ud_mlx5",
            ])
        );
        assert_eq!(
            info.devices("rc").collect::<Vec<_>>(),
            ["mlx5_0:1", "mlx4_0:1"]
        );
        assert!(info.domain("cuda_cpy").is_some());
        assert!(info.domain("rdmacm").unwrap().is_empty);
        let bandwidth = info.resources[0].bandwidth.unwrap();
        assert_eq!(
            (bandwidth.shared_mib_per_s, bandwidth.dedicated_mib_per_s),
            (0.0, 12179.0)
        );
    }),
    ("ucx/03-info-d-no-hash-prefix.txt", |text| {
        let info = ucx_info::parse(text).unwrap();
        assert_eq!(
            info.transports(),
            BTreeSet::from(["dc_mlx5", "rc_verbs", "tcp"]),
            "no CUDA"
        );
        assert_eq!(info.devices("tcp").collect::<Vec<_>>(), ["lo", "ib0"]);
        for transport in ["dc_mlx5", "rc_verbs"] {
            assert_eq!(info.devices(transport).collect::<Vec<_>>(), ["mlx5_0:1"]);
        }
    }),
    ("ucx/05-log-rc-then-local-protection.txt", |text| {
        let log = ucx_log::parse(text);
        let configuration = &log.configurations[0];
        assert_eq!(configuration.scope, Scope::InterNode);
        assert_eq!(
            configuration.lanes["tag"],
            [lane("rc_mlx5", "mlx5_0:1"), lane("rc_mlx5", "mlx5_0:1")]
        );
        assert_eq!(
            log.completion_errors,
            BTreeSet::from([("Local protection".to_owned(), "mlx5_0:1".to_owned())])
        );
    }),
    ("ucx/06-log-rma-am-tcp-wrapped.txt", |text| {
        let log = ucx_log::parse(text);
        let configuration = &log.configurations[0];
        assert_eq!(configuration.scope, Scope::IntraNode);
        assert_eq!(
            configuration.lanes["rma_am"],
            [lane("tcp", "cilium_host")],
            "emulated over TCP"
        );
        assert!(!configuration.lanes.contains_key("rma"));
        let with_cuda_ipc: Vec<&str> = configuration
            .lanes
            .iter()
            .filter(|(_, lanes)| lanes.iter().any(|lane| lane.transport == "cuda_ipc"))
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(with_cuda_ipc, ["am"]);
        assert!(log.protocols.is_empty(), "nothing shows what carried data");
    }),
    ("ucx/08-log-typo-dc_ml5x.txt", |text| {
        let log = ucx_log::parse(text);
        let [unavailable] = &log.unavailable[..] else {
            panic!("{:?}", log.unavailable);
        };
        assert_eq!(unavailable.kind, UnavailableKind::Transport);
        assert_eq!(unavailable.names, ["dc_ml5x"]);
        assert!(unavailable.alternatives.contains(&"dc_mlx5".to_owned()));
        assert_eq!(log.warnings.total(), 1);
    }),
];

fn lane(transport: &str, device: &str) -> Lane {
    Lane {
        transport: transport.into(),
        device: device.into(),
    }
}
