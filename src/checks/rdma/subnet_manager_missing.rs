use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::words::{listed, part};
use crate::facts::container::rdma::port_line;
use crate::facts::hca::{LinkLayer, Port};
use crate::observed::Skip;
use std::collections::BTreeSet;

check! {
    /// An InfiniBand port has no local id, or knows no subnet manager.
    ///
    /// ## Why it matters
    /// A port keeps its state for a while after its subnet manager is gone. Nothing new can be reached then, and a change of
    /// the fabric is noticed by nobody.
    ///
    /// ## Fix
    /// Start or repair the subnet manager of this fabric.
    ///
    /// ## False alarms
    /// On Ethernet (RoCE) local ids are always 0, also on a bond (`mlx5_bond_0`): those ports are not looked at here. Ports
    /// with different subnet managers are said and are `ok`: a local id counts within one subnet only, and rails that are
    /// subnets of their own are a usual design.
    ///
    /// ## Sources
    /// Linux `drivers/infiniband/core/sysfs.c` (`lid_show`, `sm_lid_show`).
    "RDMA008" "subnet-manager-missing" on Container {
        subsystem: Rdma, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

/// `IB_LID_PERMISSIVE` stands where none was assigned.
const NO_LID: [u32; 2] = [0, 0xffff];

fn run(container: &Container<'_>) -> Outcome {
    let rdma = &container.facts.rdma;
    let mut ports = rdma.usable_ports()?;
    ports.retain(|(_, port)| port.link_layer == Some(LinkLayer::InfiniBand));
    if ports.is_empty() {
        return Err(Skip::not_applicable());
    }
    let devices = rdma.devices.get()?;
    let line = |(device, port): &(&_, &Port)| {
        let shown = |id: Option<u32>| id.map_or("?".to_owned(), |id| id.to_string());
        format!(
            "{} lid {} sm_lid {}",
            port_line(device, port),
            shown(port.lid),
            shown(port.sm_lid)
        )
    };
    let orphans: Vec<String> = ports
        .iter()
        .filter(|(_, port)| {
            port.sm_lid == Some(0) || port.lid.is_some_and(|lid| NO_LID.contains(&lid))
        })
        .map(line)
        .collect();
    if !orphans.is_empty() {
        let no_id = |port: &Port| port.lid.is_some_and(|lid| NO_LID.contains(&lid));
        let with_id = ports
            .iter()
            .any(|(_, port)| port.sm_lid == Some(0) && !no_id(port));
        let lack = match (ports.iter().any(|(_, port)| no_id(port)), with_id) {
            (true, true) => "no local id or no subnet manager",
            (true, false) => "no local id",
            (false, _) => "no subnet manager",
        };
        let (some, all) = (orphans.len(), ports.len());
        let who = part(some, all, "ACTIVE InfiniBand port", ("has", "have"));
        let headline = format!("{who} {lack}");
        let detail = format!(
            "{headline}: {}",
            listed(&orphans.iter().map(String::as_str).collect::<Vec<_>>())
        );
        let seen = devices.evidence(orphans.iter().map(String::as_str));
        let fix =
            "start or repair the subnet manager of this fabric (`sminfo` shows the one in charge)";
        let draft = Draft::warn(detail).headline(headline);
        return Ok(vec![draft.with([seen]).fix(fix)]);
    }
    if ports
        .iter()
        .any(|(_, port)| port.lid.is_none() || port.sm_lid.is_none())
    {
        return Err(
            container.not_shown("local ids of some InfiniBand ports were not seen", "ibstat")
        );
    }
    let lines: Vec<String> = ports.iter().map(line).collect();
    // Neither a fault nor proof of two subnets: a local id counts within one subnet only.
    let managers: BTreeSet<u32> = ports.iter().filter_map(|(_, port)| port.sm_lid).collect();
    let differ = match managers.len() {
        0 | 1 => String::new(),
        _ => {
            let ids: Vec<String> = managers.iter().map(u32::to_string).collect();
            format!(
                "; the managers have the local ids {}, so the ports may be in different subnets (rails), and then only the same rail of a peer is reached",
                ids.join(", ")
            )
        }
    };
    let detail =
        format!("every ACTIVE InfiniBand port has a local id and a subnet manager{differ}");
    let seen = devices.evidence(lines.iter().map(String::as_str));
    Ok(vec![Draft::ok(detail).with([seen])])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::testing::{NOTHING, container, hca, hcas, outcome, verdict};
    use crate::report::Status;

    #[test]
    fn zero_is_a_fault_on_infiniband_only() {
        let with = |from: &str, to: &str| {
            let mut answers = hca("mlx5_0", "4: ACTIVE", "open");
            for (_, text) in &mut answers {
                *text = text.replace(from, to);
            }
            verdict(run, "decode", &answers)
        };
        assert_eq!(with("", ""), Ok(Status::Ok));
        assert_eq!(with("sm_lid: 0x1", "sm_lid: 0x0"), Ok(Status::Warn));
        assert_eq!(with("/lid: 0x2", "/lid: 0xffff"), Ok(Status::Warn));
        assert!(with("sm_lid: 0x1", "other: 1").is_err());
        assert_eq!(
            with("link_layer: InfiniBand", "link_layer: Ethernet"),
            Err(Skip::not_applicable())
        );
        assert!(verdict(run, "decode", NOTHING).is_err());
    }

    #[test]
    fn the_verdict_says_which_of_them_is_missing() {
        let said = |from: &str, to: &str| {
            let mut answers = hca("mlx5_0", "4: ACTIVE", "open");
            for (_, text) in &mut answers {
                *text = text.replace(from, to);
            }
            let mut drafts = outcome(run, &container("decode", &answers)).unwrap();
            drafts.remove(0).headline.unwrap()
        };
        let port = "the only ACTIVE InfiniBand port has";
        assert_eq!(
            said("sm_lid: 0x1", "sm_lid: 0x0"),
            format!("{port} no subnet manager")
        );
        assert_eq!(
            said("/lid: 0x2", "/lid: 0xffff"),
            format!("{port} no local id")
        );
    }

    #[test]
    fn two_subnet_managers_are_said_and_no_fault() {
        let answers = hcas(&["4: ACTIVE", "4: ACTIVE"]);
        let mut other = answers.clone();
        for (_, text) in &mut other {
            *text = text.replacen("sm_lid: 0x1", "sm_lid: 0x7", 1);
        }
        let detail = |answers: &_| {
            let drafts = outcome(run, &container("decode", answers)).unwrap();
            assert_eq!(drafts[0].status, Status::Ok);
            drafts[0].detail.clone()
        };
        assert!(!detail(&answers).contains("rails"));
        assert!(detail(&other).contains("the managers have the local ids 1, 7,"));
    }
}
