//! Asks about one container or host: one script goes in, framed answers come out, a snapshot is the result.
//!
//! ```text
//! ask table -> script::Script --sh -s, here or in a pod--> bytes -> frames::read -> answers of a Snapshot
//! ```
//!
//! Writing the script and reading the frames is pure; only `local` starts a process. A pod's exec takes the same script
//! and its output the same reader.

#[cfg(feature = "cluster")]
pub mod exec_end;
pub mod frames;
pub mod local;
#[cfg(feature = "cluster")]
pub mod pod_exec;
pub mod script;
