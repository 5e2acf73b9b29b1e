//! Workers whose NIXL is a stand-in: its transfers are played, with a log of UCX and counters that move.

use crate::fake::kubelet::Exec;
use crate::fake::pod::FakePod;
pub use crate::python::has_python;
use crate::root;
use std::path::Path;
use tempfile::TempDir;

pub const SITE: &str = "opt/dynamo/venv/lib/python3.12/site-packages";
/// The port of the fixture.
pub const PORT: &str = "sys/class/infiniband/mlx5_0/ports/1";
/// A worker whose KV lies in host memory on purpose, so that host memory proves its path.
pub const HOST_MEMORY: &str =
    r#"KV_TRANSFER_CONFIG={"kv_connector":"NixlConnector","kv_buffer_device":"cpu"}"#;

/// A file system with one HCA that works and is granted, a vLLM worker and NIXL's wheel.
pub fn tree(more: &[(&str, &str)]) -> TempDir {
    let environ = format!("UCX_TLS=rc,cuda_copy\0HOME=/root\0{HOST_MEMORY}\0");
    let usual = [
        (format!("{PORT}/counters/port_xmit_data"), "1000\n"),
        (format!("{PORT}/counters/port_rcv_data"), "7\n"),
        (
            "proc/7/maps".to_owned(),
            "7f00-7f01 r-xp 0 08:01 1 /opt/dynamo/venv/lib/python3.12/site-packages/nixl_cu12.libs/libucp-1a2b.so.0.0.0\n",
        ),
        ("proc/7/environ".to_owned(), environ.as_str()),
        (format!("{SITE}/nixl_cu12-1.3.0.dist-info/METADATA"), ""),
        (format!("{SITE}/vllm-0.11.2.dist-info/METADATA"), ""),
        (format!("{SITE}/nixl_cu12.libs/nixl/libplugin_UCX.so"), ""),
        (format!("{SITE}/nixl_cu12.libs/libucp-1a2b.so.0.0.0"), ""),
        (format!("{SITE}/nixl_cu12.libs/ucx/libuct_ib-3c.so.0"), ""),
        (format!("{SITE}/nixl_cu12.libs/ucx/libuct_cuda-3c.so.0"), ""),
    ];
    let more = more.iter().map(|(path, text)| ((*path).to_owned(), *text));
    root::with_hca(usual.into_iter().chain(more))
}

/// A worker of the graph `g` with the stand-in for NIXL, which prints this log of UCX.
pub fn pod(name: &str, role: &str, root: &Path, log: &str) -> FakePod {
    let support = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support");
    let root_text = root.to_str().unwrap();
    FakePod::new("llm", name, root)
        .label("role", role)
        .label("nvidia.com/dynamo-graph-deployment-name", "g")
        .label("nvidia.com/dynamo-component-type", role)
        .exec(Exec::Probe)
        .env("PYTHONPATH", &format!("{support}/nixl_standin"))
        .env("NIXL_STANDIN_LOG", &format!("{support}/ucx_logs/{log}.txt"))
        .env("NIXL_STANDIN_PORT", &format!("{root_text}/{PORT}"))
}
