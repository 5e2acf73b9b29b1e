//! The typed view of what was read: text in, facts with evidence out. Pure.

pub mod rdma;
