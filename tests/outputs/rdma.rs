//! Outputs of the RDMA tools.

use crate::Expectation;
use dynamo_interconnect_check::facts::hca::{
    GidKind, Hca, Hcas, LinkLayer, PhysState, Port, PortState,
};
use dynamo_interconnect_check::facts::vendor::Vendor;
use dynamo_interconnect_check::facts::{ibdev2netdev, ibstat, ibstatus, ibv_devinfo, show_gids};
use std::collections::BTreeMap;

pub const EXPECTATIONS: &[Expectation] = &[
    ("ibstat/01-h100-roce-all-active.txt", |text| {
        ibstat_reads(
            text,
            &[
                "mlx5_0,mlx5_10,mlx5_11,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_9: Active/LinkUp 400 Ethernet",
                "mlx5_1,mlx5_2,mlx5_7,mlx5_8: Active/LinkUp 100 Ethernet",
            ],
        );
    }),
    ("ibstat/03-h100-8ib-3eth-down.txt", |text| {
        ibstat_reads(
            text,
            &[
                "mlx5_0,mlx5_10,mlx5_11,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_9: Active/LinkUp 400 InfiniBand",
                "mlx5_1: Active/LinkUp 100 Ethernet",
                "mlx5_2,mlx5_7,mlx5_8: Down/Disabled 40 Ethernet",
            ],
        );
    }),
    ("ibstat/05-h100-roce-1-disabled-1-polling.txt", |text| {
        ibstat_reads(
            text,
            &[
                "mlx5_0,mlx5_10,mlx5_3,mlx5_4,mlx5_6,mlx5_9: Active/LinkUp 400 Ethernet",
                "mlx5_1,mlx5_2,mlx5_7,mlx5_8: Active/LinkUp 100 Ethernet",
                "mlx5_11: Down/Polling 40 Ethernet",
                "mlx5_5: Down/Disabled 40 Ethernet",
            ],
        );
    }),
    ("ibstat/06-a100-hdr-8ib-1eth.txt", |text| {
        ibstat_reads(
            text,
            &[
                "mlx5_0: Active/LinkUp 200 Ethernet",
                "mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7,mlx5_8: Active/LinkUp 200 InfiniBand",
            ],
        );
    }),
    ("ibstat/08-cori-gpu-edr-fdr-mixed.txt", |text| {
        ibstat_reads(
            text,
            &[
                "mlx4_0: Active/LinkUp 10 Ethernet",
                "mlx5_0,mlx5_2,mlx5_4,mlx5_6: Active/LinkUp 100 InfiniBand",
                "mlx5_1,mlx5_5,mlx5_7: Active/LinkUp 56 InfiniBand",
                "mlx5_3: Active/LinkUp 100 Ethernet",
            ],
        );
    }),
    ("ibstat/10-h100-ndr-with-shell-prompt.txt", |text| {
        ibstat_reads(
            text,
            &["mlx5_0,mlx5_1,mlx5_2: Active/LinkUp 400 InfiniBand"],
        );
    }),
    ("ibstat/11-bluefield3-down-but-linkup-no-sm.txt", |text| {
        ibstat_reads(text, &["mlx5_0: Down/LinkUp 100 unknown"]);
        let hcas = ibstat::parse(text).unwrap();
        let port = port(&hcas, "mlx5_0", 1);
        assert_eq!((port.sm_lid, port.lid), (Some(0), Some(65535)));
    }),
    ("ibstat/13-connectx-ddr-one-of-two-ports.txt", |text| {
        ibstat_reads(
            text,
            &[
                "mlx4_0/2: Down/Polling 10 InfiniBand",
                "mlx4_0: Active/LinkUp 20 InfiniBand",
            ],
        );
    }),
    ("ibstatus/01-a100-hdr-8-active.txt", |text| {
        let hcas = ibstatus::parse(text).unwrap();
        assert_eq!(hcas.unread_lines, 0);
        assert_eq!(
            readings(&hcas),
            [
                "mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7: Active/LinkUp 200 InfiniBand",
                "mlx5_8: Active/LinkUp 40 Ethernet",
            ]
        );
        let rate = port(&hcas, "mlx5_0", 1).rate.as_ref().unwrap();
        assert_eq!((rate.lanes, rate.speed.as_deref()), (Some(4), Some("HDR")));
        assert_eq!(
            port(&hcas, "mlx5_8", 1).gids,
            None,
            "`unknown` is no address"
        );
    }),
    ("ibv_devinfo/01-v-cx6-ib-plus-cx5-roce.txt", |text| {
        let hcas = ibv_devinfo::parse(text).unwrap();
        assert_eq!(
            readings(&hcas),
            [
                "mlx5_0: Active/LinkUp 200 InfiniBand",
                "mlx5_1,mlx5_2: Active/LinkUp 100 Ethernet",
            ]
        );
        assert_eq!(
            port(&hcas, "mlx5_0", 1).rate.as_ref().unwrap().lanes,
            Some(4)
        );
        assert_eq!(mtus(port(&hcas, "mlx5_0", 1)), (Some(4096), Some(4096)));
        for name in ["mlx5_1", "mlx5_2"] {
            let port = port(&hcas, name, 1);
            assert_eq!(mtus(port), (Some(4096), Some(1024)));
            let gid = &port.gids.as_ref().unwrap()[3];
            assert_eq!((gid.index, gid.kind), (3, Some(GidKind::RoceV2)));
            assert!(gid.ipv4().is_some());
        }
        assert_eq!(hcas.devices[0].vendor, Some(Vendor::Nvidia));
    }),
    (
        "ibv_devinfo/03-cx3-dualport-device-ports-line.txt",
        |text| {
            let hcas = devinfo_reads(
                text,
                &[
                    "mlx4_0,mlx4_1: Active InfiniBand",
                    "mlx4_0/2,mlx4_1/2: Down InfiniBand",
                ],
            );
            assert_eq!(port(&hcas, "mlx4_1", 1).sm_lid, Some(1));
            assert_eq!(port(&hcas, "mlx4_0", 1).sm_lid, Some(18));
            assert_eq!(mtus(port(&hcas, "mlx4_1", 1)), (Some(4096), Some(4096)));
        },
    ),
    ("ibv_devinfo/05-mixed-down-active-init-no-sm.txt", |text| {
        let hcas = devinfo_reads(
            text,
            &[
                "mlx5_0: Down Ethernet",
                "mlx5_1: Active Ethernet",
                "mlx5_2,mlx5_3: Init InfiniBand",
            ],
        );
        assert_eq!(port(&hcas, "mlx5_1", 1).active_mtu_bytes, Some(1024));
        for name in ["mlx5_2", "mlx5_3"] {
            let port = port(&hcas, name, 1);
            assert_eq!((port.sm_lid, port.lid), (Some(0), Some(65535)));
        }
    }),
    ("ibv_devinfo/06-first-char-lost-ca_id.txt", |text| {
        let hcas = devinfo_reads(text, &["mlx5_0,mlx5_1: Init InfiniBand"]);
        for hca in &hcas.devices {
            assert_eq!((hca.ports.len(), hca.ports[0].sm_lid), (1, Some(0)));
        }
    }),
    ("ibv_devinfo/08-odd-link-layer-thunderbolt.txt", |text| {
        let hcas = devinfo_reads(text, &["rdma_en1: Down other"]);
        let hca = hcas.device("rdma_en1").unwrap();
        assert_eq!(
            hca.ports[0].link_layer,
            Some(LinkLayer::Other("Thunderbolt".into()))
        );
        assert_eq!((&hca.fw_version, &hca.board_id), (&None, &None));
        assert_eq!(
            (hca.transport.as_deref(), hca.port_count),
            (Some("Thunderbolt"), Some(1)),
            "missing lines shift nothing"
        );
    }),
    ("show_gids/01-cx-one-port-4-gids.txt", |text| {
        let table = show_gids::parse(text).unwrap();
        assert!(!table.is_cut());
        assert_eq!(v2_ipv4_index(&table, "mlx5_0"), Some(3));
        assert_eq!(table.rows[3].gid.netdev.as_deref(), Some("rdma0"));
        assert_eq!(table.unread_lines, 0);
    }),
    ("show_gids/03-mixed-roce-and-ib.txt", |text| {
        let table = show_gids::parse(text).unwrap();
        assert_eq!(v2_ipv4_index(&table, "mlx5_0"), None);
        let v2 = table
            .of("mlx5_0", 1)
            .find(|row| row.gid.kind == Some(GidKind::RoceV2))
            .unwrap();
        assert_eq!((v2.gid.index, v2.gid.is_link_local()), (1, true));
        let ib = table.of("mlx5_1", 1).next().unwrap();
        assert_eq!(
            (ib.gid.kind, &ib.gid.netdev),
            (Some(GidKind::IbOrRoceV1), &None)
        );
    }),
    ("show_gids/05-spark-roce-names-tail.txt", |text| {
        let table = show_gids::parse(text).unwrap();
        assert_eq!((table.rows.len(), table.announced), (6, Some(12)));
        assert!(table.is_cut());
        assert_eq!(v2_ipv4_index(&table, "roceP2p1s0f0"), Some(3));
        assert_eq!(v2_ipv4_index(&table, "roceP2p1s0f1"), None);
        assert!(table.rows[0].gid.is_link_local(), "though masked");
    }),
    ("ibdev2netdev/01-one-up-one-down.txt", |text| {
        let netdevs = ibdev2netdev::parse(text).unwrap();
        let rows: Vec<_> = netdevs
            .rows
            .iter()
            .map(|r| (r.device.as_str(), r.netdev.as_str(), r.netdev_up))
            .collect();
        assert_eq!(
            rows,
            [
                ("mlx5_0", "ens192f0", Some(true)),
                ("mlx5_1", "ens192f1", Some(false)),
            ]
        );
    }),
];

fn ibstat_reads(text: &str, expected: &[&str]) {
    let hcas = ibstat::parse(text).unwrap();
    assert_eq!(readings(&hcas), expected);
    assert_eq!((hcas.unread_lines, hcas.complaints.len()), (0, 0));
}

fn devinfo_reads(text: &str, expected: &[&str]) -> Hcas {
    let hcas = ibv_devinfo::parse(text).unwrap();
    assert_eq!(readings(&hcas), expected);
    assert_eq!(hcas.unread_lines, 0);
    hcas
}

fn port<'a>(hcas: &'a Hcas, device: &str, number: u32) -> &'a Port {
    hcas.device(device)
        .and_then(|hca| hca.port(number))
        .unwrap()
}

fn mtus(port: &Port) -> (Option<u32>, Option<u32>) {
    (port.max_mtu_bytes, port.active_mtu_bytes)
}

fn v2_ipv4_index(table: &show_gids::GidTable, device: &str) -> Option<u32> {
    table
        .of(device, 1)
        .find(|row| row.gid.kind == Some(GidKind::RoceV2) && row.ipv4.is_some())
        .map(|row| row.gid.index)
}

/// `mlx5_0,mlx5_1: Active/LinkUp 400 InfiniBand`, ports that read alike together, sorted.
pub fn readings(hcas: &Hcas) -> Vec<String> {
    let mut by_reading: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for hca in &hcas.devices {
        for port in &hca.ports {
            by_reading
                .entry(reading(port))
                .or_default()
                .push(label(hca, port));
        }
    }
    let mut lines: Vec<String> = by_reading
        .into_iter()
        .map(|(reading, mut names)| {
            names.sort();
            format!("{}: {reading}", names.join(","))
        })
        .collect();
    lines.sort();
    lines
}

/// The device, and its port where that is not the first.
fn label(hca: &Hca, port: &Port) -> String {
    match port.number {
        1 => hca.name.clone(),
        number => format!("{}/{number}", hca.name),
    }
}

fn reading(port: &Port) -> String {
    let state = match port.state.as_ref().unwrap() {
        PortState::Active => "Active",
        PortState::Down => "Down",
        PortState::Init => "Init",
        other => panic!("{other:?}"),
    };
    let phys = match &port.phys_state {
        None => "",
        Some(PhysState::LinkUp) => "/LinkUp",
        Some(PhysState::Disabled) => "/Disabled",
        Some(PhysState::Polling) => "/Polling",
        Some(other) => panic!("{other:?}"),
    };
    let rate = port
        .rate_gbps()
        .map_or(String::new(), |gbps| format!(" {gbps}"));
    let link_layer = match &port.link_layer {
        None => "unknown",
        Some(LinkLayer::InfiniBand) => "InfiniBand",
        Some(LinkLayer::Ethernet) => "Ethernet",
        Some(LinkLayer::Unspecified) => "unspecified",
        Some(LinkLayer::Other(_)) => "other",
    };
    format!("{state}{phys}{rate} {link_layer}")
}
