//! Reading a container or a host: one script in, framed bytes out.

#[cfg(feature = "cluster")]
pub mod exec_end;
#[cfg(feature = "cluster")]
pub mod pod_exec;
