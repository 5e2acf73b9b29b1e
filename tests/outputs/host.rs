//! Outputs about the host: modules, limits, kernel log.

use crate::Expectation;
use dynamo_interconnect_check::facts::dmesg::{self, Kind};
use dynamo_interconnect_check::facts::limits::{self, Limit, Memlock};
use dynamo_interconnect_check::facts::modules::{self, Presence};

pub const EXPECTATIONS: &[Expectation] = &[
    ("lsmod/01-peermem-loaded-dell.txt", |text| {
        let modules = modules::parse(text).unwrap();
        assert_eq!(modules.presence("nvidia_peermem"), Presence::Loaded);
        assert_eq!(
            modules.users_named("nvidia_peermem"),
            ["ib_uverbs", "nvidia"],
            "bound to the RDMA stack"
        );
        assert_eq!(
            modules.presence("gdrdrv"),
            Presence::Unknown,
            "the list is filtered"
        );
    }),
    ("lsmod/03-peermem-and-nvidia-fs.txt", |text| {
        let modules = modules::parse(text).unwrap();
        assert_eq!(modules.presence("nvidia_peermem"), Presence::Loaded);
        assert_eq!(modules.presence("nvidia_fs"), Presence::Loaded);
        assert!(modules.users_named("nvidia_peermem").contains(&"ib_core"));
        assert_eq!(modules.unread_lines, 0);
    }),
    ("lsmod/05-nv_peer_mem-mlx4.txt", |text| {
        let modules = modules::parse(text).unwrap();
        assert_eq!(modules.presence("nv_peer_mem"), Presence::Loaded);
        for name in ["mlx4_ib", "mlx5_ib"] {
            assert_eq!(modules.presence(name), Presence::LoadedByUse);
        }
    }),
    ("lsmod/06-only-used-by-evidence.txt", |text| {
        let modules = modules::parse(text).unwrap();
        assert_eq!(modules.presence("nv_peer_mem"), Presence::Absent);
        assert_eq!(modules.presence("gdrdrv"), Presence::Loaded);
        assert_eq!(modules.presence("nvidia_peermem"), Presence::LoadedByUse);
    }),
    ("lsmod/08-peermem-rocev2-cloud.txt", |text| {
        let modules = modules::parse(text).unwrap();
        assert_eq!(modules.presence("nvidia_peermem"), Presence::Loaded);
        assert!(modules.users_named("nvidia_peermem").contains(&"ib_core"));
        assert_eq!(modules.rows["nvidia"].size_bytes, 14_393_344);
    }),
    ("ulimit/01-a-64k-memlock.txt", |text| {
        assert_eq!(
            limits::parse(text).unwrap(),
            Memlock {
                soft: Limit::Bytes(64 * 1024),
                hard: None
            }
        );
    }),
    ("errors/01-dmesg-peermem-invalid-context.txt", |text| {
        let log = dmesg::parse(text);
        let [fault] = &log.faults[..] else {
            panic!("{:?}", log.faults);
        };
        assert_eq!((fault.kind, fault.times), (Kind::PeermemInvalidContext, 7));
        assert_eq!(log.lines, 8, "the last record is a test line");
    }),
];
