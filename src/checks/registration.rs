//! Memory that could not be registered for RDMA: one fact, whichever library says it.

/// What happened; `why` is the library's reason (`Cannot allocate memory`), or empty where it says none.
pub(super) fn detail(why: &str) -> String {
    format!("memory could not be registered for RDMA: {}", said(why))
}

/// The reason in words.
pub(super) fn said(why: &str) -> &str {
    if why.is_empty() {
        "no reason is said"
    } else {
        why
    }
}

/// What to do. `ENOMEM` and `EPERM` are the limit of locked memory, `EFAULT` memory of a GPU that the adapter cannot reach:
/// <https://github.com/torvalds/linux/blob/v6.12/drivers/infiniband/core/umem.c>
pub(super) fn fix(why: &str, is_gpu_memory: bool) -> &'static str {
    if why.contains("Cannot allocate memory") || why.contains("Operation not permitted") {
        "raise the limit of locked memory (ulimit -l) or add IPC_LOCK to the container and run it as root; \
         --input ulimit=FILE judges the limit"
    } else if why.contains("Bad address") || is_gpu_memory {
        "GPU memory cannot be registered: load nvidia_peermem or use dmabuf (--input lsmod=FILE judges it)"
    } else {
        "look at the limit of locked memory (ulimit -l), and at GPUDirect RDMA (nvidia_peermem or dmabuf)"
    }
}
