//! No reader panics, and none goes on for ever, whatever it is given.

use crate::{corpus, soft_roce};
use dynamo_interconnect_check::facts::{
    dev_shm, dmesg, ibdev2netdev, ibstat, ibstatus, ibv_devices, ibv_devinfo, limits, modules,
    nccl_log, nvidia_smi_csv, nvidia_smi_nvlink, nvidia_smi_q, nvidia_smi_topo, rdma_link,
    show_gids, sysfs, ucx_info, ucx_log,
};
use proptest::prelude::*;
use std::hint::black_box;

/// A reader with the file beside it that shows its tool.
type Sampled = (fn(&str), &'static str, &'static str);

macro_rules! sampled {
    ($($file:literal => $read:expr),+ $(,)?) => {
        &[$((
            |text| drop(black_box($read(text))),
            $file,
            include_str!(concat!("samples/", $file)),
        )),+]
    };
}

const SAMPLED: &[Sampled] = sampled! {
    "df.txt" => dev_shm::parse,
    "dmesg.txt" => dmesg::parse,
    "ibdev2netdev.txt" => ibdev2netdev::parse,
    "ibstat.txt" => ibstat::parse,
    "ibstatus.txt" => ibstatus::parse,
    "ibv_devices.txt" => ibv_devices::parse,
    "ibv_devinfo.txt" => ibv_devinfo::parse,
    "lsmod.txt" => modules::parse,
    "mountinfo.txt" => dev_shm::parse,
    "nccl_log.txt" => nccl_log::parse,
    "nvlink.txt" => nvidia_smi_nvlink::parse,
    "proc_limits.txt" => limits::parse,
    "proc_modules.txt" => modules::parse,
    "rdma_link.txt" => rdma_link::parse,
    "show_gids.txt" => show_gids::parse,
    "smi_csv.txt" => nvidia_smi_csv::parse,
    "smi_q.txt" => nvidia_smi_q::parse,
    "status.txt" => limits::parse_status,
    "sysfs.txt" => |text| sysfs::devices(soft_roce::sysfs_entries(text)),
    "topo.txt" => nvidia_smi_topo::parse,
    "ucx_info.txt" => ucx_info::parse,
    "ucx_log.txt" => ucx_log::parse,
    "ucx_protocols.txt" => ucx_log::parse,
    "ulimit.txt" => limits::parse,
};

fn read_by_all(text: &str) {
    for (read, _, _) in SAMPLED {
        read(text);
    }
    black_box(limits::parse_uid_map(text)).ok();
    black_box(dev_shm::parse_stat(text)).ok();
    black_box(nvidia_smi_csv::parse_rows(text, &["index", "name"])).ok();
}

#[test]
fn samples_are_whole_and_every_reader_takes_every_one() {
    for (_, file, text) in SAMPLED {
        assert!(!text.trim().is_empty(), "{file}");
        read_by_all(text);
    }
}

#[test]
fn a_sample_cut_at_any_byte_is_read() {
    for (read, _, text) in SAMPLED {
        for end in 0..=text.len() {
            read(&String::from_utf8_lossy(&text.as_bytes()[..end]));
            read(&String::from_utf8_lossy(&text.as_bytes()[end..]));
        }
    }
}

#[test]
fn the_corpus_cut_anywhere_is_read() {
    let Some(corpus) = corpus::folder() else {
        return;
    };
    let outputs = corpus.join("outputs");
    for file in corpus::index(&outputs) {
        let text = corpus::read(&outputs.join(&file));
        let step = text.len() / 5 + 1;
        for end in (0..text.len()).step_by(step) {
            read_by_all(&String::from_utf8_lossy(&text.as_bytes()[..end]));
        }
    }
}

/// A reader whose work grows faster than the text would not come back from this.
#[test]
fn a_flood_of_any_output_is_read() {
    const FLOOD: usize = 256 << 10;
    for (read, _, text) in SAMPLED {
        read(&text.repeat(FLOOD / text.len()));
        let one_line = text.replace('\n', " ");
        read(&one_line.repeat(FLOOD / one_line.len()));
        let last = text.lines().last().unwrap_or_default();
        read(&format!(
            "{text}{}",
            format!("{last}\n").repeat(FLOOD / (last.len() + 1))
        ));
    }
}

/// Pieces that the readers look for, so that random text gets past their first test.
const PIECES: &[&str] = &[
    "GPU0",
    "GPU1",
    "NIC0",
    "NIC10",
    " X ",
    "NV18",
    "NV",
    "PIX",
    "SYS",
    "NODE",
    "N/A",
    "Legend:",
    "NIC Legend:",
    "=",
    ":",
    ": ",
    " : ",
    "\t",
    " ",
    "\n",
    "\n",
    "\n",
    "\r\n",
    "'",
    "(",
    ")",
    "[",
    "]",
    "|",
    "+",
    "..",
    "/",
    "#",
    "> ",
    "\u{1b}[4m",
    "\u{1b}]0;",
    "\u{fffd}[0m",
    "\u{a0}",
    "é",
    "0",
    "1",
    "64",
    "4096",
    "99999999999999999999",
    "0x",
    "-",
    "CA 'mlx5_0'",
    "Port 1:",
    "State",
    "Active",
    "Rate",
    "hca_id:",
    "port:",
    "state:",
    "GID[  0]:",
    "active_speed:",
    "link ",
    "mlx5_0/1",
    "==>",
    "(Up)",
    "UUID:",
    "Link ",
    "GB/s",
    "<inactive>",
    "Fabric",
    "Health",
    "Driver Version",
    "GPU 00000000:19:00.0",
    "Memory domain",
    "Transport",
    "Device",
    "bandwidth",
    "/ppn",
    "memory types",
    "NCCL INFO ",
    "NCCL WARN ",
    "Channel ",
    " via ",
    "NET/IB",
    "NET/IB : Using ",
    "GPU Direct RDMA Enabled for ",
    "HCA ",
    " UCX  ",
    "INFO",
    "WARN",
    "ERROR",
    " cfg#",
    "inter-node",
    "self",
    "ep_cfg[",
    "rma(",
    "tcp/eth0",
    "remote memory write by ucp_put*",
    " from ",
    " to ",
    "zero-copy",
    "0..inf",
    "2K",
    "Filesystem",
    "1K-blocks",
    "/dev/shm",
    "tmpfs",
    "size=",
    "Max locked memory",
    "unlimited",
    "locked memory",
    "Module Size",
    "CapEff:",
    "Xid (",
    "):",
    "n_gids_found=",
    "v2",
    "fe80:",
    "::ffff:192.0.2.1",
    "ports/1/gids/",
    "rxe0/",
    "[u@h ~]$ lsmod | grep ",
];

proptest! {
    #[test]
    fn arbitrary_text_is_read(text in any::<String>()) {
        read_by_all(&text);
    }

    #[test]
    fn text_made_of_known_pieces_is_read(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 0..120)
    ) {
        read_by_all(&pieces.concat());
    }
}
