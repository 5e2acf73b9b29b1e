//! Recorded logs of UCX to lanes. Each file says in its first line where it comes from; invented ones say so.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use dynamo_interconnect_check::transfer::lane::{Class, by_table};
use dynamo_interconnect_check::transfer::protocol::{Kind, PortFacts};
use dynamo_interconnect_check::transfer::ucx_text::{self, UcxText};

fn log(name: &str) -> UcxText {
    let path = format!(
        "{}/tests/support/ucx_logs/{name}.txt",
        env!("CARGO_MANIFEST_DIR")
    );
    ucx_text::read(&std::fs::read_to_string(path).unwrap())
}

fn port(device: &str) -> PortFacts {
    PortFacts {
        device: device.into(),
        port: 1,
        hardware: true,
        ..PortFacts::default()
    }
}

/// `class: rails how`, or why it is unknown.
fn lane(text: &UcxText, kind: Kind, bytes: u64, gpu: bool) -> String {
    let ports = [port("mlx5_0"), port("mlx5_1")];
    match by_table(text, kind, bytes, gpu, &ports) {
        Ok(lane) => format!("{}: {lane}", lane.class),
        Err(unknown) => format!("unknown: {}", unknown.why),
    }
}

#[test]
fn between_pods_every_recorded_version_names_tcp() {
    for version in ["1.16", "1.19", "1.20", "1.21", "1.22", "1.23"] {
        let text = log(&format!("ucx-{version}-pods"));
        assert!(
            text.version
                .as_deref()
                .is_some_and(|v| v.starts_with(version)),
            "{version}: {:?}",
            text.version
        );
        assert_eq!(
            lane(&text, Kind::Write, 1 << 20, false),
            "TCP: tcp/eth0 zero-copy",
            "{version}"
        );
        assert_eq!(
            lane(&text, Kind::Read, 1 << 20, false),
            "TCP: tcp/eth0 software emulation",
            "{version}"
        );
        assert!(
            text.configurations.iter().all(|c| !c.contains("self cfg")),
            "{version}"
        );
    }
}

#[test]
fn on_one_host_every_recorded_version_names_shared_memory() {
    for version in ["1.19", "1.21", "1.22", "1.23"] {
        let text = log(&format!("ucx-{version}-host"));
        for kind in [Kind::Write, Kind::Read] {
            let seen = lane(&text, kind, 64 << 10, false);
            assert_eq!(
                seen, "shared memory of one node: cma/memory zero-copy",
                "{version}"
            );
        }
    }
}

#[test]
fn before_tables_existed_the_lane_is_unknown() {
    let text = log("ucx-1.15-pods");
    assert!(!text.configurations.is_empty());
    let unknown = by_table(&text, Kind::Write, 8, false, &[]).unwrap_err();
    assert!(
        unknown.why.contains("no protocol table") && unknown.raw.is_some(),
        "{unknown:?}"
    );
}

#[test]
fn the_row_that_covers_the_size_decides() {
    let text = log("invented-rc-mlx5");
    let at = |kind, bytes| lane(&text, kind, bytes, false);
    assert_eq!(at(Kind::Write, 2048), "RDMA: rc_mlx5/mlx5_0:1 short");
    assert_eq!(at(Kind::Write, 2049), "RDMA: rc_mlx5/mlx5_0:1 copy-in");
    assert_eq!(
        at(Kind::Write, 1 << 20),
        "RDMA: 52% on rc_mlx5/mlx5_0:1 and 48% on rc_mlx5/mlx5_1:1 zero-copy"
    );
    assert_eq!(at(Kind::Read, 8), "RDMA: rc_mlx5/mlx5_0:1 zero-copy");
    assert_eq!(
        lane(&text, Kind::Write, 8, true),
        "RDMA: rc_mlx5/mlx5_0:1 zero-copy"
    );
    assert!(
        lane(&text, Kind::Read, 8, true).starts_with("unknown: no row"),
        "no table for GPU memory was printed"
    );
}

#[test]
fn a_listed_lane_is_not_the_lane_that_carried_data() {
    let text = log("invented-cuda-ipc");
    let read = "NVLink or PCIe peer-to-peer (cuda_ipc): cuda_ipc/cuda zero-copy";
    assert_eq!(lane(&text, Kind::Read, 1 << 20, true), read);
    assert_eq!(
        lane(&text, Kind::Write, 1 << 20, true),
        "TCP: tcp/eth1 software emulation gdr_copy"
    );
}

#[test]
fn software_verbs_are_named_for_what_they_are() {
    let text = log("ucx-1.23-rxe");
    let class = |ports: &[PortFacts]| {
        by_table(&text, Kind::Read, 1 << 20, false, ports)
            .unwrap()
            .class
    };
    assert_eq!(class(&[port("rxe0")]), Class::SoftRoce);
    let renamed = std::fs::read_to_string(format!(
        "{}/tests/support/ucx_logs/ucx-1.23-rxe.txt",
        env!("CARGO_MANIFEST_DIR")
    ))
    .unwrap()
    .replace("rxe0", "roce7");
    let port = PortFacts {
        hardware: false,
        ..port("roce7")
    };
    let lane = by_table(
        &ucx_text::read(&renamed),
        Kind::Read,
        1 << 20,
        false,
        &[port],
    )
    .unwrap();
    assert_eq!(lane.class, Class::SoftRdma, "no bus under it");
}

#[test]
fn tables_that_disagree_are_unknown_and_so_are_new_names() {
    let both = std::fs::read_to_string(format!(
        "{}/tests/support/ucx_logs/ucx-1.21-pods.txt",
        env!("CARGO_MANIFEST_DIR")
    ))
    .unwrap();
    let other = both
        .replace("tcp/eth0", "rc_mlx5/mlx5_0:1")
        .replace("cfg#1", "cfg#2");
    let seen = lane(
        &ucx_text::read(&format!("{both}{other}")),
        Kind::Write,
        1 << 20,
        false,
    );
    assert_eq!(seen, "unknown: two tables disagree");
    let novel = ucx_text::read(&both.replace("tcp/eth0", "warp_drive/wd0:1"));
    assert!(lane(&novel, Kind::Write, 1 << 20, false).contains("not known"));
}

/// What of a row cannot be read may be what carried the bytes.
#[test]
fn a_row_that_is_not_understood_is_unknown() {
    let text = std::fs::read_to_string(format!(
        "{}/tests/support/ucx_logs/ucx-1.23-pods.txt",
        env!("CARGO_MANIFEST_DIR")
    ))
    .unwrap();
    let row = text
        .lines()
        .rfind(|line| line.contains("| zero-copy   | tcp/eth0 "))
        .unwrap();
    let prefix = &row[..row.find('|').unwrap()];
    let with = |rows: &[&str]| {
        let rows: Vec<String> = rows.iter().map(|r| format!("{prefix}{r}")).collect();
        let text = text.replace(row, &rows.join("\n"));
        lane(&ucx_text::read(&text), Kind::Write, 1 << 20, false)
    };
    let rdma = "| 0..inf | zero-copy | rc_mlx5/mlx5_0:1 |";
    assert_eq!(with(&[rdma]), "RDMA: rc_mlx5/mlx5_0:1 zero-copy");
    for good in [
        "| 0..inf | zero-copy | 33% on rc_mlx5/mlx5_0:1, 33% on rc_mlx5/mlx5_1:1/path0 and 34% on rc_mlx5/mlx5_1:1/path1 |",
        "| 0..inf | zero-copy | rc_mlx5/mlx5_0:1 50% on path0 and 50% on path1 |",
        "| 0..inf | zero-copy | rc_mlx5/mlx5_0:1 50% on  and 50% on |",
    ] {
        assert!(with(&[good]).starts_with("RDMA: "), "{}", with(&[good]));
    }
    // A network device may have any name.
    assert!(
        with(&["| 0..inf | zero-copy | 50% on rc_mlx5/mlx5_0:1 and 50% on tcp/br~0 |"])
            .starts_with("TCP: ")
    );
    for (bad, why) in [
        (
            "| 0..inf | zero-copy | 50% on rc_mlx5/mlx5_0:1 and 50% on TCP/eth0 |",
            "`TCP/eth0` is not understood",
        ),
        (
            "| 0..inf | zero-copy | 50% on rc_mlx5/mlx5_0:1 |",
            "add up to 50%",
        ),
        (
            "| 0..inf | zero-copy | rc_mlx5/mlx5_0:1 and 100% on rc_mlx5/mlx5_1:1 |",
            "to some of its devices",
        ),
        ("| 0..inf MiB | zero-copy | tcp/eth0 |", "range"),
        ("| 0..inf | zero-copy | x | tcp/eth0 |", "columns"),
        (
            "| 0..inf | zero-copy | 50% on rc_mlx5/mlx5_0:1 and 50% on rc_mlx5/ml...",
            "it is cut",
        ),
    ] {
        for rows in [[bad, rdma], [rdma, bad]] {
            let seen = with(&rows);
            assert!(
                seen.starts_with("unknown: a row of UCX's table cannot be read")
                    && seen.contains(why),
                "{bad}: {seen}"
            );
        }
    }
}

#[test]
fn two_rails_of_which_one_is_tcp_are_tcp() {
    let text = std::fs::read_to_string(format!(
        "{}/tests/support/ucx_logs/ucx-1.23-pods.txt",
        env!("CARGO_MANIFEST_DIR")
    ))
    .unwrap()
    .replace(
        "| zero-copy   | tcp/eth0 ",
        "| zero-copy   | 52% on rc_mlx5/mlx5_0:1 and 48% on tcp/eth0 ",
    );
    let lane = by_table(
        &ucx_text::read(&text),
        Kind::Write,
        1 << 20,
        false,
        &[port("mlx5_0")],
    )
    .unwrap();
    assert_eq!(
        (lane.class, lane.rails[0].percent, lane.rails[1].percent),
        (Class::Tcp, Some(52), Some(48))
    );
}

#[test]
fn a_device_that_the_container_does_not_show_carried_nothing_that_is_known() {
    let text = log("invented-rc-mlx5");
    let other_port = PortFacts {
        port: 2,
        ..port("mlx5_0")
    };
    for ports in [vec![], vec![port("mlx5_7")], vec![other_port]] {
        let unknown = by_table(&text, Kind::Read, 1 << 20, false, &ports).unwrap_err();
        let said = "UCX names mlx5_0:1, and the container shows no such RDMA port";
        assert_eq!((&*unknown.why, unknown.no_device), (said, true));
    }
    // One rail of two is not enough.
    let rail = [port("mlx5_0")];
    assert!(by_table(&text, Kind::Write, 1 << 20, false, &rail).is_err());
}
