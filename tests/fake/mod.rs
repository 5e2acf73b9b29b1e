//! A Kubernetes cluster for tests, in this process: an API server that serves stored objects and access reviews, and a
//! kubelet that runs a real shell on a fixture tree behind exec. What it answers was measured on real clusters.
#![expect(
    clippy::unwrap_used,
    reason = "a fixture that cannot be built ends the test"
)]

pub mod cluster;
pub mod kubelet;
pub mod pod;
pub mod tls;
