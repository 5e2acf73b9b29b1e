//! Whether a RoCE port can be reached from another node, for the checks that ask it.

use crate::facts::container::Facts;
use crate::facts::container::rdma::Device;
use crate::facts::hca::{Gid, GidKind, LinkLayer, Port, PortState};
use crate::observed::Skip;
use crate::report::SkipReason;
use std::net::IpAddr;

/// What an entry of a GID table is good for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reach {
    /// RoCE v2 with an address of this network namespace.
    Routable,
    /// It could be routable, and whether the address is here was not seen.
    Unknown(Skip),
    /// RoCE v2 with an address that no interface here has.
    NotLocal,
    /// Reaches its own link only.
    LinkLocal,
    /// RoCE v1 crosses no router.
    VersionOne,
}

impl Reach {
    /// The best first.
    pub(crate) fn rank(&self) -> u8 {
        match self {
            Self::Routable => 0,
            Self::Unknown(_) => 1,
            Self::NotLocal => 2,
            Self::LinkLocal => 3,
            Self::VersionOne => 4,
        }
    }

    pub(crate) fn words(&self) -> &'static str {
        match self {
            Self::Routable => "RoCE v2, address is local",
            Self::Unknown(_) => "RoCE v2, local addresses not seen",
            Self::NotLocal => "RoCE v2, no interface here has this address",
            Self::LinkLocal => "link-local",
            Self::VersionOne => "RoCE v1",
        }
    }
}

/// ACTIVE RoCE ports that the container may open. Of pasted GID tables also those whose state nobody pasted.
pub(crate) fn ports(facts: &Facts) -> Result<Vec<(&Device, &Port)>, Skip> {
    let mut ports = carrying(facts)?;
    ports.retain(|(device, port)| port.link_layer == Some(LinkLayer::Ethernet) && !device.is_iwarp);
    Ok(ports)
}

/// ACTIVE ports of any link that the container may open. Of pasted outputs also those whose state nobody pasted.
pub(crate) fn carrying(facts: &Facts) -> Result<Vec<(&Device, &Port)>, Skip> {
    if !facts.rdma.judges_all() {
        return facts.rdma.usable_ports();
    }
    let mut ports = facts.rdma.own_ports()?;
    ports.retain(|(_, port)| matches!(port.state, None | Some(PortState::Active)));
    Ok(ports)
}

/// What one entry is good for.
pub(crate) fn reach(gid: &Gid, facts: &Facts) -> Reach {
    if gid.kind != Some(GidKind::RoceV2) {
        return if gid.kind.is_some() {
            Reach::VersionOne
        } else {
            let detail = "the type of the GID entries was not seen";
            Reach::Unknown(Skip::new(SkipReason::NotCollected, detail))
        };
    }
    if gid.is_link_local() || gid.ipv4().is_some_and(|v4| v4.is_link_local()) {
        return Reach::LinkLocal;
    }
    let address = match (gid.ipv4(), gid.address) {
        (Some(v4), _) => IpAddr::V4(v4),
        (None, Some(v6)) => IpAddr::V6(v6),
        (None, None) => {
            let detail = "the address of the GID is masked";
            return Reach::Unknown(Skip::new(SkipReason::Unparsable, detail));
        }
    };
    match facts.network.addresses.get() {
        Err(skip) => Reach::Unknown(skip),
        Ok(addresses) if addresses.all.contains(&address) => Reach::Routable,
        Ok(addresses) if address.is_ipv6() && !addresses.has_v6 => {
            let detail = "the IPv6 addresses of this network namespace were not seen";
            Reach::Unknown(Skip::new(SkipReason::NotCollected, detail))
        }
        Ok(_) => Reach::NotLocal,
    }
}
