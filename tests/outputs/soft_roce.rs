//! The captures of the soft-RoCE machine: one host in many states, read by several tools at once.

use crate::{corpus, rdma};
use dynamo_interconnect_check::facts::hca::{Absence, GidKind, Hcas, PortState};
use dynamo_interconnect_check::facts::limits::{self, Limit};
use dynamo_interconnect_check::facts::modules::{self, Presence};
use dynamo_interconnect_check::facts::sysfs::{self, Backing, Reading};
use dynamo_interconnect_check::facts::ucx_log::{Lane, Scope};
use dynamo_interconnect_check::facts::vendor::Vendor;
use dynamo_interconnect_check::facts::{
    Unparsable, dmesg, ibstat, ibstatus, ibv_devices, ibv_devinfo, rdma_link, ucx_info, ucx_log,
};
use std::path::PathBuf;

/// One state of the machine.
struct Machine(PathBuf);

impl Machine {
    fn text(&self, name: &str) -> String {
        corpus::read(&self.0.join(name))
    }

    /// Standard output and error together, as on a terminal.
    fn transcript(&self, name: &str) -> String {
        let mut text = self.text(&format!("{name}.txt"));
        let errors = self.0.join(format!("{name}.err"));
        if errors.exists() {
            text.push_str(&corpus::read(&errors));
        }
        text
    }

    fn sysfs(&self, device: &str) -> Vec<sysfs::Device> {
        let text = self.text(&format!("sysfs_tree_{device}.txt"));
        sysfs::devices(sysfs_entries(&text))
    }
}

/// `path=value`, ` !error`, ` -> target`, below `/sys/class/infiniband`.
pub fn sysfs_entries(text: &str) -> Vec<(&str, Reading<'_>)> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let line = line.strip_prefix("/sys/class/infiniband/").unwrap_or(line);
            if let Some((path, target)) = line.split_once(" -> ") {
                Some((path, Reading::Link(target)))
            } else if let Some((path, error)) = line.split_once(" !") {
                Some((path, Reading::Refused(error)))
            } else {
                let (path, value) = line.split_once('=')?;
                Some((path, Reading::Text(value)))
            }
        })
        .collect()
}

fn machine(scenario: &str) -> Option<Machine> {
    Some(Machine(corpus::folder()?.join("soft-roce").join(scenario)))
}

#[test]
fn all_tools_agree_on_the_state_of_a_port() {
    for (scenario, state, phys) in [
        ("10_rxe_active_v4", "Active", "LinkUp"),
        ("11_rxe_netdev_link_down", "Down", "Disabled"),
        ("12_rxe_no_carrier", "Down", "Polling"),
        ("13_rxe_no_ip", "Active", "LinkUp"),
    ] {
        let Some(machine) = machine(scenario) else {
            return;
        };
        let full = [format!("rxe0: {state}/{phys} 10 Ethernet")];
        let hcas = ibstat::parse(&machine.text("ibstat.txt")).unwrap();
        assert_eq!(rdma::readings(&hcas), full, "{scenario} ibstat");
        let hcas = ibstatus::parse(&machine.text("ibstatus.txt")).unwrap();
        assert_eq!(rdma::readings(&hcas), full, "{scenario} ibstatus");
        let hcas = ibv_devinfo::parse(&machine.text("ibv_devinfo_v.txt")).unwrap();
        assert_eq!(rdma::readings(&hcas), full, "{scenario} ibv_devinfo -v");
        let hcas = rdma_link::parse(&machine.text("rdma_link_d.txt")).unwrap();
        let link = [format!("rxe0: {state}/{phys} unknown")];
        assert_eq!(rdma::readings(&hcas), link, "{scenario} rdma link");
        let devices = machine.sysfs("rxe0");
        let hcas = Hcas {
            devices: devices.iter().map(|device| device.hca.clone()).collect(),
            ..Hcas::default()
        };
        assert_eq!(rdma::readings(&hcas), full, "{scenario} sysfs");
    }
}

#[test]
fn absence_has_its_words() {
    for (scenario, absence) in [
        ("02_modules_no_device", Absence::NoDevice),
        ("04_clean_boot_autoload_off", Absence::NoSubsystem),
    ] {
        let Some(machine) = machine(scenario) else {
            return;
        };
        let hcas = ibv_devinfo::parse(&machine.transcript("ibv_devinfo")).unwrap();
        assert_eq!(hcas.absence, Some(absence), "{scenario} ibv_devinfo");
        let hcas = ibstatus::parse(&machine.transcript("ibstatus")).unwrap();
        assert_eq!(hcas.absence, Some(absence), "{scenario} ibstatus");
        if absence == Absence::NoSubsystem {
            let hcas = rdma_link::parse(&machine.transcript("rdma_link")).unwrap();
            assert_eq!(hcas.absence, Some(absence), "{scenario} rdma link");
        }
        let hcas = ibv_devices::parse(&machine.transcript("ibv_devices")).unwrap();
        assert!(hcas.devices.is_empty(), "{scenario} ibv_devices");
    }
}

#[test]
fn a_hidden_device_node_shows_in_ibstat_and_not_in_verbs() {
    let (Some(hidden), Some(denied)) = (
        machine("20_dev_nodes_hidden"),
        machine("21_dev_nodes_mode600_user"),
    ) else {
        return;
    };
    let seen = ibstat::parse(&hidden.text("ibstat.txt")).unwrap();
    assert_eq!(seen.devices.len(), 2);
    let usable = ibv_devinfo::parse(&hidden.transcript("ibv_devinfo")).unwrap();
    assert_eq!(usable.absence, Some(Absence::NoDevice));
    let refused = ibv_devinfo::parse(&denied.transcript("ibv_devinfo")).unwrap();
    assert_eq!((refused.unopened, refused.devices.len()), (2, 0));
}

#[test]
fn software_devices_are_known_whatever_their_name() {
    let (Some(active), Some(renamed)) = (machine("10_rxe_active_v4"), machine("18_renamed_dev"))
    else {
        return;
    };
    let device = &active.sysfs("rxe0")[0];
    assert_eq!(device.backing, Backing::Software);
    let gids = device.hca.port(1).unwrap().gids.clone().unwrap();
    assert!(gids.iter().all(|gid| gid.kind == Some(GidKind::RoceV2)));
    assert_eq!(gids[1].ipv4(), Some([10, 77, 0, 1].into()));

    let hcas = ibv_devinfo::parse(&renamed.text("ibv_devinfo.txt")).unwrap();
    let fake = hcas.device("mlx5_0").unwrap();
    assert_eq!(fake.vendor, Some(Vendor::Software));
}

#[test]
fn a_port_without_address_has_only_its_link_local_gid() {
    let Some(machine) = machine("13_rxe_no_ip") else {
        return;
    };
    let device = &machine.sysfs("rxe0")[0];
    let port = device.hca.port(1).unwrap();
    assert_eq!(port.state, Some(PortState::Active));
    assert!(
        port.gids
            .as_ref()
            .unwrap()
            .iter()
            .all(|gid| gid.is_link_local())
    );
}

#[test]
fn limits_and_modules() {
    let (Some(host), Some(memlock), Some(active)) = (
        machine("00_host"),
        machine("30_memlock"),
        machine("10_rxe_active_v4"),
    ) else {
        return;
    };
    let limits = limits::parse(&host.text("limits.txt")).unwrap();
    assert_eq!(
        (limits.soft, limits.hard),
        (Limit::Bytes(8_388_608), Some(Limit::Bytes(8_388_608)))
    );
    let shell = limits::parse(&host.text("ulimit_l.txt")).unwrap();
    assert_eq!(shell.soft, limits.soft, "KiB and bytes");
    for (name, soft) in [
        ("ulimit_0.txt", Limit::Bytes(0)),
        ("ulimit_64.txt", Limit::Bytes(65_536)),
        ("ulimit_unlimited.txt", Limit::Unlimited),
    ] {
        assert_eq!(limits::parse(&memlock.text(name)).unwrap().soft, soft);
    }
    for name in ["lsmod.txt", "proc_modules.txt"] {
        let modules = modules::parse(&active.text(name)).unwrap();
        assert!(modules.is_whole, "{name}");
        assert_eq!(modules.presence("rdma_rxe"), Presence::Loaded);
        assert_eq!(modules.presence("nvidia_peermem"), Presence::Absent);
        assert_eq!(modules.unread_lines, 0);
    }
}

#[test]
fn ucx_finds_the_device_and_floods_under_a_small_limit() {
    let (Some(active), Some(memlock)) = (machine("10_rxe_active_v4"), machine("30_memlock")) else {
        return;
    };
    let info = ucx_info::parse(&active.text("ucx_info_d.txt")).unwrap();
    assert_eq!(info.devices("rc_verbs").collect::<Vec<_>>(), ["rxe0:1"]);
    assert!(info.devices("tcp").any(|device| device == "eth0"));
    let flood = ucx_info::parse(&memlock.text("ucx_info_d_0.FIRST400of47468.txt")).unwrap();
    assert!(flood.messages.total() > 100);
    assert!(flood.messages.messages().len() < 10);
}

#[test]
fn ucx_logs_say_what_was_chosen_and_what_was_not_there() {
    let (Some(active), Some(nixl)) = (machine("10_rxe_active_v4"), machine("60_nixl")) else {
        return;
    };
    let log = ucx_log::parse(&active.text("ucx_info_e_missing_dev.txt"));
    assert_eq!(log.unavailable[0].names, ["mlx5_0:1"]);
    assert!(!log.unavailable[0].offers_only_tcp(), "rxe0 is offered too");
    let log = ucx_log::parse(&active.text("ucx_info_e_missing_tls.txt"));
    assert!(log.has_no_usable_transport);
    let log = ucx_log::parse(&active.text("ucx_info_ep_rc.txt"));
    assert_eq!(log.connect_failures[0].lacking, "auxiliary");

    for (name, transport, device) in [
        ("nixl_rc_tcp_client.txt", "rc_verbs", "rxe1:1"),
        ("nixl_tcp_client.txt", "tcp", "eth1"),
    ] {
        let log = ucx_log::parse(&nixl.text(name));
        let peers: Vec<_> = log.peer_configurations().collect();
        let [peer] = peers[..] else {
            panic!("{name} {peers:?}");
        };
        assert_eq!(peer.scope, Scope::InterNode);
        let rma = peer.lanes.get("rma").or_else(|| peer.lanes.get("rma_am"));
        assert_eq!(
            rma.unwrap()[0],
            Lane {
                transport: transport.into(),
                device: device.into()
            },
            "{name}"
        );
    }
}

#[test]
fn the_kernel_counts_what_it_could_not_pin() {
    let Some(machine) = machine("99_dmesg") else {
        return;
    };
    let log = dmesg::parse(&machine.text("dmesg.txt"));
    assert_eq!(log.faults.len(), 1, "{:?}", log.faults);
    assert_eq!(
        (log.faults[0].kind, log.faults[0].times),
        (dmesg::Kind::PinFailed, 1634)
    );
}

#[test]
fn no_capture_of_a_tool_is_misread() {
    let Some(corpus) = corpus::folder() else {
        return;
    };
    type Reader = fn(&str) -> Result<u32, Unparsable>;
    let readers: [(&str, Reader); 5] = [
        ("ibstat.txt", |t| ibstat::parse(t).map(|h| h.unread_lines)),
        ("ibstatus.txt", |t| {
            ibstatus::parse(t).map(|h| h.unread_lines)
        }),
        ("ibv_devinfo.txt", |t| {
            ibv_devinfo::parse(t).map(|h| h.unread_lines)
        }),
        ("ibv_devinfo_v.txt", |t| {
            ibv_devinfo::parse(t).map(|h| h.unread_lines)
        }),
        ("rdma_link.txt", |t| {
            rdma_link::parse(t).map(|h| h.unread_lines)
        }),
    ];
    let mut read = 0;
    for scenario in std::fs::read_dir(corpus.join("soft-roce")).unwrap() {
        let scenario = scenario.unwrap().path();
        for (name, reader) in readers {
            let file = scenario.join(name);
            if !file.exists() {
                continue;
            }
            // Nothing printed is nothing to read; every line that was printed is understood.
            if let Ok(unread) = reader(&corpus::read(&file)) {
                assert_eq!(unread, 0, "{}", file.display());
                read += 1;
            }
        }
    }
    assert!(read > 40, "{read}");
}
