//! File systems for the probe to look at: what every pod-like fixture with a working HCA has, written once.

use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

/// An HCA with one ACTIVE InfiniBand port that the container may open, and `ibv_devinfo` as it would print it: the tool
/// of the machine that runs the tests would not know this device.
const HCA: &[(&str, &str)] = &[
    (
        "bin/ibv_devinfo",
        "#!/bin/sh\nprintf 'hca_id:\\tmlx5_0\\n\\ttransport:\\t\\tInfiniBand (0)\\n\\tphys_port_cnt:\\t\\t1\\n\\t\\tport:\\t1\\n'\n\
         printf '\\t\\t\\tstate:\\t\\t\\tPORT_ACTIVE (4)\\n\\t\\t\\tactive_mtu:\\t\\t4096 (5)\\n\\t\\t\\tlink_layer:\\t\\tInfiniBand\\n'\n",
    ),
    ("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n"),
    (
        "sys/class/infiniband/mlx5_0/ports/1/phys_state",
        "5: LinkUp\n",
    ),
    (
        "sys/class/infiniband/mlx5_0/ports/1/rate",
        "400 Gb/sec (4X NDR)\n",
    ),
    (
        "sys/class/infiniband/mlx5_0/ports/1/link_layer",
        "InfiniBand\n",
    ),
    ("sys/class/infiniband/mlx5_0/ports/1/lid", "0x5\n"),
    ("sys/class/infiniband/mlx5_0/ports/1/sm_lid", "0x1\n"),
    ("sys/class/infiniband/mlx5_0/node_type", "1: CA\n"),
    ("sys/class/infiniband/mlx5_0/device/vendor", "0x15b3\n"),
    ("sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_0\n"),
    ("dev/infiniband/uverbs0", ""),
    ("proc/sys/kernel/osrelease", "6.8.0\n"),
    ("proc/7/cmdline", "python3\0-m\0dynamo.vllm\0"),
];

/// A file system with a working HCA, a vLLM worker and these files; a later one of the same path replaces the earlier.
/// Files below `bin` are stand-ins for tools. A path that begins with `-` takes that file away.
pub fn with_hca<'a>(files: impl IntoIterator<Item = (String, &'a str)>) -> TempDir {
    let dir = TempDir::new().unwrap();
    let usual = HCA.iter().map(|(path, text)| ((*path).to_owned(), *text));
    for (path, text) in usual.chain(files) {
        if let Some(gone) = path.strip_prefix('-') {
            std::fs::remove_file(dir.path().join(gone)).unwrap();
            continue;
        }
        let file = dir.path().join(&path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, text).unwrap();
        if path.starts_with("bin/") {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    dir
}
