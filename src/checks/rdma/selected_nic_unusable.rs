use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::dependence;
use crate::checks::live;
use crate::checks::pasting;
use crate::checks::pinning;
use crate::facts::container::process::InForce;
use crate::facts::container::rdma::{Device, port_line};
use crate::facts::hca::{Port, PortState};
use crate::judge::Remedy;
use crate::judge::selection::Selection;
use crate::observed::Skip;
use crate::report::{KvPath, SkipReason};
use crate::snapshot::evidence;

check! {
    /// A variable selects an RDMA port that is not here, not granted, or not ACTIVE.
    ///
    /// ## Why it matters
    /// UCX drops such a name with one warning. When none is left, UCX has no network at all and backend creation fails; when
    /// one is left of eight, all GPUs share it. NCCL falls back to sockets when its list matches nothing.
    ///
    /// ## Fix
    /// Remove the variable, or name ports that this container can open and that are ACTIVE.
    ///
    /// ## Sources
    /// UCX v1.20.0 `src/ucp/core/ucp_context.c`; NCCL v2.28.9-1 `src/transport/net_ib.cc`; microsoft/mscclpp#493;
    /// openucx/ucx#11142.
    "RDMA011" "selected-nic-unusable" on Container {
        subsystem: Rdma, kv_path: Required, worst: Fail,
        causes: &["env:UCX_NET_DEVICES", "env:NCCL_IB_HCA"], since: "0.1.0",
    }
}

fn run(container: &Container<'_>) -> Outcome {
    let facts = &container.facts;
    let mut drafts = Vec::new();
    let settings = facts.process.in_force()?;
    let explains: [&[&str]; 2] = [&["env:UCX_NET_DEVICES"], &["env:NCCL_IB_HCA"]];
    for (variable, path, explains) in [
        ("UCX_NET_DEVICES", KvPath::Required, explains[0]),
        ("NCCL_IB_HCA", KvPath::Off, explains[1]),
    ] {
        let Some(setting) = settings.get(variable) else {
            continue;
        };
        if !live::may_move_kv(container, variable) {
            continue;
        }
        let selection = match path {
            KvPath::Off => Selection::nccl(Some(setting.value)),
            _ => Selection::ucx(Some(setting.value), &container.context),
        };
        let Some(selection) = selection else { continue };
        let said = format!("{variable}={}", crate::sanitise::line(setting.value, 120));
        let draft = judge(container, &selection, setting, &said, path)?;
        let shown = evidence(setting.ask, [said.as_str()]);
        // Where there is no device at all, a name that may be one is not what is wrong.
        let none = facts.rdma.devices.get()?.is_empty();
        drafts.extend(draft.map(|draft| {
            let draft = match none {
                true => dependence::tied(draft, variable, setting.value, &container.context),
                false => draft,
            };
            draft.on_kv_path(path).explains(explains).with([shown])
        }));
    }
    if drafts.is_empty() {
        return Err(Skip::not_applicable());
    }
    Ok(drafts)
}

fn judge(
    container: &Container<'_>,
    selection: &Selection<'_>,
    setting: &InForce<'_>,
    said: &str,
    path: KvPath,
) -> Result<Option<Draft>, Skip> {
    let facts = &container.facts;
    let wanted = selection.wanted();
    let devices = facts.rdma.devices.get()?;
    let visible: Vec<(&Device, &Port)> = devices
        .iter()
        .flat_map(|device| device.hca.ports.iter().map(move |port| (device, port)))
        .collect();
    let absent = if container.is_pasted() {
        format!("not in the pasted {}", devices.ask.shown_as)
    } else {
        "no such device on this node".to_owned()
    };
    let interfaces = facts.network.interfaces.known();
    let is_interface = |name: &str| {
        name == "lo" || interfaces.is_some_and(|interfaces| interfaces.contains_key(name))
    };
    let granted = facts.rdma.granted.get();
    let (mut usable, mut unusable) = (Vec::new(), Vec::new());
    // Names that are right, of ports that are in no state to be used: that has causes of its own.
    let (mut bad_names, mut named_right) = (0, 0);
    let mut unsure = None;
    for (at, name) in wanted.iter().enumerate() {
        if path != KvPath::Off && is_interface(name) {
            continue;
        }
        let matched: Vec<_> = visible
            .iter()
            .filter(|(device, port)| selection.matches(at, &device.hca.name, port.number))
            .collect();
        if matched.is_empty() && path != KvPath::Off && interfaces.is_none() && !name.contains(':')
        {
            let detail =
                format!("whether {name} is a network interface of this namespace was not seen");
            unsure = Some(Skip::new(SkipReason::NotCollected, detail));
            continue;
        }
        if matched.is_empty() {
            bad_names += 1;
            let bare = name.split(':').next().unwrap_or_default();
            let known = devices.iter().any(|d| d.hca.name == bare);
            unusable.push(format!(
                "{name}: {}",
                if known {
                    "no such port of this device, or this UCX wants the name with its port"
                } else {
                    &absent
                }
            ));
            continue;
        }
        let mut reasons = Vec::new();
        let mut good = false;
        for (device, port) in matched {
            let line = port_line(device, port);
            match (&port.state, &granted) {
                (None, _) => {
                    unsure = Some(Skip::new(
                        SkipReason::NotCollected,
                        format!("the state of {name} was not seen"),
                    ))
                }
                (Some(PortState::Active), Ok(granted)) => {
                    if granted.devices.contains(&device.hca.name) {
                        good = true;
                        usable.push(line);
                    } else {
                        reasons.push(format!(
                            "{name}: on this node, and the container may not open it"
                        ));
                    }
                }
                (Some(PortState::Active), Err(skip)) => unsure = Some(skip.clone()),
                (Some(_), _) => reasons.push(line),
            }
        }
        if !good && !reasons.is_empty() {
            bad_names += 1;
            named_right += 1;
            unusable.extend(reasons);
        }
    }
    if wanted.is_empty() || (usable.is_empty() && unusable.is_empty() && unsure.is_none()) {
        return Ok(None);
    }
    let Some(first) = unusable.first() else {
        if let Some(skip) = unsure {
            return Err(skip);
        }
        let seen = devices.evidence(usable.iter().map(String::as_str));
        let detail = match usable.len() {
            1 => format!("{said}: the selected port is ACTIVE and may be opened"),
            all => format!("{said}: all {all} selected ports are ACTIVE and may be opened"),
        };
        return Ok(Some(Draft::ok(detail).with([seen])));
    };
    let headline = format!(
        "{said}: {bad_names} of {} {} nothing usable",
        wanted.len(),
        if wanted.len() == 1 {
            "name matches"
        } else {
            "names match"
        }
    );
    let detail = format!("{headline}: {first}");
    // The first is enough where all are wrong alike.
    let why = first
        .split_once(": ")
        .map_or(first.as_str(), |(_, why)| why);
    let headline = format!("{headline} ({why})");
    let seen = devices.evidence(unusable.iter().map(String::as_str));
    let nothing_left = usable.is_empty() && unsure.is_none();
    let mut draft = if nothing_left && path != KvPath::Off && container.has_workers_environment() {
        Draft::fail(format!("{detail}; none is left"))
    } else {
        Draft::warn(detail)
    };
    if named_right == bad_names {
        draft = draft.follows("device-not-granted").follows("ib-link");
    }
    let draft = draft.headline(headline);
    let fix = match path {
        KvPath::Off => "remove NCCL_IB_HCA, or name ACTIVE ports of this container",
        _ => "remove UCX_NET_DEVICES, or name ACTIVE ports of this container as device:port",
    };
    let mut draft = draft.with([seen]).fix(fix);
    // Ports that are named right and cannot be used are no fault of the list.
    if path != KvPath::Off && named_right < bad_names {
        let ports = pinning::ports(container).map(Remedy::Write);
        draft.paste = ports.and_then(|ports| pasting::in_force(container, setting, &ports));
    }
    Ok(Some(draft))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::{NOTHING, changed, container, hcas, outcome, verdict};
    use crate::report::Status;

    #[test]
    fn every_selected_port_must_be_usable() {
        let with = |line: &str| {
            let answers = hcas(&["4: ACTIVE", "4: ACTIVE", "1: DOWN"]);
            let environment = format!("# process 7 dynamo.vllm\n{line}");
            let other = [
                (&ask::ENVIRONMENT, environment.as_str()),
                (&ask::NET_DEVICES, "/sys/class/net/eth0/operstate: up"),
            ];
            verdict(run, "decode", &changed(&answers, &other))
        };
        assert_eq!(with("UCX_NET_DEVICES=mlx5_0:1,mlx5_1:1"), Ok(Status::Ok));
        assert_eq!(with("UCX_NET_DEVICES=mlx5_0:1,mlx5_2:1"), Ok(Status::Warn));
        assert_eq!(with("UCX_NET_DEVICES=mlx5_2:1"), Ok(Status::Fail));
        assert_eq!(with("UCX_NET_DEVICES=mlx5_9:1"), Ok(Status::Fail));
        assert_eq!(with("UCX_NET_DEVICES=mlx5_0:1,eth0"), Ok(Status::Ok));
        assert_eq!(with("NCCL_IB_HCA=mlx5_2"), Ok(Status::Warn));
        assert_eq!(with("NCCL_IB_HCA=mlx5"), Ok(Status::Ok));
        for line in [
            "UCX_NET_DEVICES=all",
            "NCCL_IB_HCA=^mlx5_2",
            "UCX_NET_DEVICES=eth0",
            "",
        ] {
            assert_eq!(with(line), Err(Skip::not_applicable()), "{line}");
        }
    }

    #[test]
    fn a_list_of_what_moves_no_kv_selects_nothing() {
        let with = |line: &str, moves: &str| {
            let answers = [(&ask::ENVIRONMENT, line), (&ask::WORKER_KV_TRANSFER, moves)];
            verdict(run, "decode", &changed(&hcas(&["4: ACTIVE"]), &answers))
        };
        let (libfabric, mooncake) = (
            "\"kv_connector\": \"NixlConnector\"\n\"backends\": [\"LIBFABRIC\"]\n",
            "\"transfer_backend\": \"mooncake\"\n",
        );
        for moves in [libfabric, mooncake] {
            let beside = with("UCX_NET_DEVICES=mlx5_9:1", moves);
            assert_eq!(beside, Err(Skip::not_applicable()));
            assert_eq!(with("NCCL_IB_HCA=mlx5_9", moves), Ok(Status::Warn));
        }
    }

    #[test]
    fn a_right_name_of_a_port_that_is_down_has_another_cause() {
        let with = |states: &[&str], line: &str| {
            let answers = changed(&hcas(states), &[(&ask::ENVIRONMENT, line)]);
            let mut drafts = outcome(run, &container("decode", &answers)).unwrap();
            let draft = drafts.remove(0);
            (!draft.follows.is_empty(), draft.detail)
        };
        let (follows, said) = with(&["1: DOWN", "1: DOWN"], "NCCL_IB_HCA=mlx5");
        assert!(follows, "{said}");
        assert!(
            said.contains("1 of 1 name matches nothing usable"),
            "{said}"
        );
        let (follows, said) = with(&["4: ACTIVE", "1: DOWN"], "NCCL_IB_HCA=mlx5_1,mlx5_9");
        assert!(!follows, "{said}");
        assert!(said.contains("2 of 2 names match nothing usable"), "{said}");
    }

    #[test]
    fn a_device_of_the_node_may_not_be_the_containers() {
        let mut answers = hcas(&["4: ACTIVE", "4: ACTIVE"]);
        answers.push((&ask::ENVIRONMENT, "UCX_NET_DEVICES=mlx5_1:1".to_owned()));
        for (ask, text) in &mut answers {
            if ask.id == ask::DEV_INFINIBAND.id {
                *text = "uverbs0".to_owned();
            }
        }
        assert_eq!(verdict(run, "decode", &answers), Ok(Status::Fail));
    }

    #[test]
    fn what_was_not_read_is_not_judged() {
        assert!(verdict(run, "decode", NOTHING).is_err());
        for ask in [
            &ask::RDMA_PORTS,
            &ask::ENVIRONMENT,
            &ask::DEV_INFINIBAND_OPEN,
        ] {
            let mut rest = hcas(&["4: ACTIVE"]);
            rest.push((&ask::ENVIRONMENT, "UCX_NET_DEVICES=mlx5_0:1".to_owned()));
            rest.retain(|(a, _)| a.id != ask.id);
            assert!(verdict(run, "decode", &rest).is_err(), "{}", ask.id);
        }
    }

    #[test]
    fn a_name_that_may_be_an_interface_is_no_missing_device() {
        let mut answers = hcas(&["4: ACTIVE"]);
        answers.push((&ask::ENVIRONMENT, "UCX_NET_DEVICES=eth0".to_owned()));
        assert!(verdict(run, "decode", &answers).is_err());
    }

    #[test]
    fn a_pasted_ibstat_shows_a_port_that_is_down() {
        let text = "CA 'mlx5_0'\n\tPort 1:\n\t\tState: Down\n\t\tPhysical state: Polling\n";
        let answers = [
            (&ask::IBSTAT, text),
            (&ask::ENVIRONMENT, "UCX_NET_DEVICES=mlx5_0:1"),
        ];
        assert_eq!(verdict(run, "decode", &answers), Ok(Status::Fail));
    }

    #[test]
    fn each_variable_explains_its_own_value_alone_and_says_why() {
        let environment = "UCX_NET_DEVICES=mlx5_9:1\nNCCL_IB_HCA=mlx5_1";
        let answers = changed(
            &hcas(&["4: ACTIVE", "1: DOWN"]),
            &[(&ask::ENVIRONMENT, environment)],
        );
        let drafts = outcome(run, &container("decode", &answers)).unwrap();
        let explains: Vec<_> = drafts.iter().map(|d| d.causes.unwrap()).collect();
        assert_eq!(explains, [["env:UCX_NET_DEVICES"], ["env:NCCL_IB_HCA"]]);
        let headline = drafts[0].headline.as_deref().unwrap();
        assert!(
            headline.ends_with("(no such device on this node)"),
            "{headline}"
        );
    }
}
