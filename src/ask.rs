//! The reads the tool may make inside a container or on a host: a closed static table.
//!
//! No command or path comes from a user or from a cluster. Whoever wants to know what the tool looks at reads this file.

/// One read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// Stable id, used in recordings and in evidence.
    pub id: &'static str,
    /// What is read, as a person would write it.
    pub shown_as: &'static str,
}

/// State, physical state, rate and link layer of every port, one `path: value` per line.
pub static RDMA_PORTS: Ask =
    Ask { id: "rdma-ports", shown_as: "/sys/class/infiniband/*/ports/*/{state,phys_state,rate,link_layer}" };

/// Which device each uverbs node belongs to, one `path: value` per line.
pub static RDMA_UVERBS: Ask = Ask { id: "rdma-uverbs", shown_as: "/sys/class/infiniband_verbs/*/ibdev" };

/// Device nodes in the container, one name per line.
pub static DEV_INFINIBAND: Ask = Ask { id: "dev-infiniband", shown_as: "/dev/infiniband" };

/// Every read, in the order of the script.
pub static ALL: &[&Ask] = &[&RDMA_PORTS, &RDMA_UVERBS, &DEV_INFINIBAND];
