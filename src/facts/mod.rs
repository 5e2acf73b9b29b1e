//! Outputs of tools and text of kernel files -> typed facts.
//!
//! One file reads one tool or one subtree. Every reader is a pure function of the text: no file, no environment, no
//! process, no clock. What a person pastes into a ticket and what the probe collects go through the same reader, so a
//! reader copes with escape sequences, prompts, CRLF, cut heads and tails, and text that floods.
//!
//! A field that is `None` means "this output does not say it". Absence is never concluded from silence: where a tool
//! states absence, the type has a name for it.

pub mod container;
pub mod dev_shm;
pub mod dmesg;
pub mod hca;
pub mod ibdev2netdev;
pub mod ibstat;
pub mod ibstatus;
pub mod ibv_devices;
pub mod ibv_devinfo;
pub mod limits;
pub mod modules;
pub mod nccl_log;
pub mod nvidia_smi_csv;
pub mod nvidia_smi_nvlink;
pub mod nvidia_smi_q;
pub mod nvidia_smi_topo;
pub use crate::pair;
pub mod paste;
pub mod rdma_link;
pub mod show_gids;
pub mod sysfs;
pub mod tally;
pub mod transcript;
pub mod ucx_info;
pub mod ucx_log;
pub mod vendor;
pub mod work_completion;

mod unparsable;

pub use unparsable::{Unparsable, Why};
