//! The cluster, through the Kubernetes API itself and read-only: lists and gets, access reviews, and exec of scripts that
//! only read. Nothing is created, changed or deleted, and no Secret is read.

pub mod access;
pub mod call;
pub mod connect;
pub mod deployment;
mod flow;
#[cfg(test)]
mod job;
pub mod kubeconfig;
pub mod nodes;
mod plugin;
pub mod pods;
pub mod project;
pub mod run;
mod seen;
