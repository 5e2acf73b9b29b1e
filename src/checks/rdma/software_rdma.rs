use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::words::{listed, part};
use crate::facts::container::rdma::Device;
use crate::facts::sysfs::Backing;
use crate::observed::Skip;
use crate::report::SkipReason;
use std::collections::BTreeSet;

check! {
    /// A device is verbs in software over an ordinary interface (`rxe`, `siw`).
    ///
    /// ## Why it matters
    /// It looks like RDMA to every tool and moves data by the CPU at the speed of TCP. It cannot register GPU memory.
    ///
    /// ## Fix
    /// Schedule the worker on a node with RDMA hardware; remove the software device, or leave it out by UCX_NET_DEVICES.
    ///
    /// ## Sources
    /// Linux `drivers/infiniband/sw/rxe`, `drivers/infiniband/sw/siw`: no bus device, and a `parent` interface. The name proves
    /// nothing, since a device can be renamed to `mlx5_0`.
    "RDMA014" "software-rdma" on Container {
        subsystem: Rdma, kv_path: Required, worst: Warn, causes: &["RDMA001"], since: "0.1.0",
    }
}

fn run(container: &Container<'_>) -> Outcome {
    let rdma = &container.facts.rdma;
    let own = rdma.own()?;
    if own.is_empty() {
        return Err(Skip::not_applicable());
    }
    let devices = rdma.devices.get()?;
    let of = |backing| -> Vec<&str> {
        let of = own.iter().filter(|device| device.backing == backing);
        of.map(|device| device.hca.name.as_str()).collect()
    };
    let software = of(Backing::Software);
    if !software.is_empty() {
        let detail = format!(
            "{} verbs in software: {}",
            part(software.len(), own.len(), "device", ("is", "are")),
            software.join(", ")
        );
        let which: BTreeSet<&str> = own
            .iter()
            .filter(|device| device.backing == Backing::Software)
            .filter_map(|device| kind(device))
            .collect();
        let which = match which.len() {
            0 => String::new(),
            _ => format!(": {}", which.into_iter().collect::<Vec<_>>().join(" and ")),
        };
        let headline = format!(
            "{} {} verbs in software over an ordinary interface{which}",
            listed(&software),
            if software.len() == 1 { "is" } else { "are" }
        );
        let seen = devices.evidence(software.iter().copied());
        let fix = "use a node with RDMA hardware, or name the hardware ports in UCX_NET_DEVICES";
        let draft = Draft::warn(detail).headline(headline);
        return Ok(vec![draft.with([seen]).fix(fix)]);
    }
    let unknown = of(Backing::Unknown);
    if !unknown.is_empty() {
        let untold = own.iter().all(|device| device.hca.vendor.is_none());
        if container.is_pasted() && unknown.len() == own.len() && untold {
            // What was pasted does not speak of it at all.
            return Err(Skip::not_pasted(["ibv-devinfo"]));
        }
        let detail = format!("whether {} is hardware was not seen", unknown.join(", "));
        // It was pasted, and its vendor is one that no maker has.
        if unknown.iter().all(|name| {
            own.iter()
                .any(|device| device.hca.name == *name && device.hca.vendor.is_some())
        }) {
            return Err(Skip::new(SkipReason::NotCollected, detail));
        }
        return Err(container.not_shown(detail, "ibv-devinfo"));
    }
    let hardware = of(Backing::Hardware);
    let seen = devices.evidence(hardware.iter().copied());
    let detail = match own.len() {
        1 => format!("{} is hardware", own[0].hca.name),
        all => format!("all {all} devices are hardware"),
    };
    Ok(vec![Draft::ok(detail).with([seen])])
}

/// Which of the kernel's two drivers makes a software device, where that is known.
fn kind(device: &Device) -> Option<&'static str> {
    let name = device.hca.name.as_str();
    if device.is_iwarp || name.starts_with("siw") {
        Some("soft-iWARP (`siw`)")
    } else if name.starts_with("rxe") || device.hca.transport.as_deref() == Some("InfiniBand") {
        Some("soft-RoCE (`rxe`)")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::{NOTHING, changed, container, hca, outcome, pasted, verdict};
    use crate::report::Status;

    #[test]
    fn the_bus_decides_and_not_the_name() {
        let healthy = hca("mlx5_0", "4: ACTIVE", "open");
        assert_eq!(verdict(run, "decode", &healthy), Ok(Status::Ok));
        let parent = "/sys/class/infiniband/mlx5_0/node_type: 1: CA\n/sys/class/infiniband/mlx5_0/parent: eth0";
        let soft = changed(&healthy, &[(&ask::RDMA_ATTRIBUTES, parent)]);
        assert_eq!(verdict(run, "decode", &soft), Ok(Status::Warn));
        let named = hca("siw0", "4: ACTIVE", "open");
        assert_eq!(verdict(run, "decode", &named), Ok(Status::Warn));
        // The links were read, and this device has none.
        let mut virtual_only = changed(&healthy, &[(&ask::RDMA_PCI, "")]);
        virtual_only.retain(|(a, _)| a.id != ask::RDMA_ATTRIBUTES.id);
        assert_eq!(verdict(run, "decode", &virtual_only), Ok(Status::Warn));
    }

    #[test]
    fn the_kind_of_software_is_named_where_it_is_known() {
        let said = |name: &str, node_type: &str| {
            let answers = hca(name, "4: ACTIVE", "open");
            let attributes = format!(
                "/sys/class/infiniband/{name}/node_type: {node_type}\n/sys/class/infiniband/{name}/parent: eth0"
            );
            let answers = changed(&answers, &[(&ask::RDMA_ATTRIBUTES, &attributes)]);
            let given: Vec<(&ask::Ask, &str)> = answers
                .iter()
                .map(|(ask, text)| (*ask, text.as_ref()))
                .collect();
            let draft = outcome(run, &container("decode", &given))
                .unwrap()
                .remove(0);
            draft.headline.unwrap()
        };
        let over = "is verbs in software over an ordinary interface";
        assert_eq!(
            said("rxe0", "1: CA"),
            format!("rxe0 {over}: soft-RoCE (`rxe`)")
        );
        assert_eq!(
            said("siw0", "4: RNIC"),
            format!("siw0 {over}: soft-iWARP (`siw`)")
        );
        assert_eq!(
            said("mlx5_0", "4: RNIC"),
            format!("mlx5_0 {over}: soft-iWARP (`siw`)")
        );
        assert_eq!(said("mlx5_0", "1: CA"), format!("mlx5_0 {over}"));
    }

    #[test]
    fn a_vendor_that_nobody_has_is_no_proof_of_hardware() {
        let said = |name: &str, transport: &str, vendor: &str| {
            let text = format!(
                "hca_id:\t{name}\n\ttransport:\t{transport}\n\tvendor_id:\t{vendor}\n\tphys_port_cnt:\t1\n\t\tport:\t1\n\
                 \t\t\tstate:\tPORT_ACTIVE (4)\n\t\t\tlink_layer:\tEthernet\n"
            );
            let drafts = outcome(run, &pasted(&[(&ask::IBV_DEVINFO, text.as_str())]));
            drafts
                .map(|drafts| drafts[0].status)
                .map_err(|skip| skip.detail)
        };
        let unseen = |name: &str| Err(format!("whether {name} is hardware was not seen"));
        for (name, transport, vendor, expected) in [
            ("siw0", "iWARP (1)", "0x626d74", Ok(Status::Warn)),
            ("mlx5_0", "iWARP (1)", "0x626d74", Ok(Status::Warn)),
            ("rxe0", "InfiniBand (0)", "0x0000", Ok(Status::Warn)),
            ("rxe0", "InfiniBand (0)", "0x1d0f", Ok(Status::Warn)),
            ("mlx5_0", "InfiniBand (0)", "0x0000", unseen("mlx5_0")),
            ("rdma_en1", "Thunderbolt (4)", "0x0000", unseen("rdma_en1")),
            ("bnxt_re0", "InfiniBand (0)", "0x14e4", Ok(Status::Ok)),
            ("irdma0", "iWARP (1)", "0x8086", Ok(Status::Ok)),
        ] {
            assert_eq!(said(name, transport, vendor), expected, "{name} {vendor}");
        }
    }

    #[test]
    fn what_was_not_read_is_not_judged() {
        assert!(verdict(run, "decode", NOTHING).is_err());
        let mut rest = hca("mlx5_0", "4: ACTIVE", "open");
        rest.retain(|(a, _)| a.id != ask::RDMA_ATTRIBUTES.id);
        assert!(verdict(run, "decode", &rest).is_err());
        let closed = hca("mlx5_0", "4: ACTIVE", "EPERM");
        assert_eq!(verdict(run, "decode", &closed), Err(Skip::not_applicable()));
    }
}
