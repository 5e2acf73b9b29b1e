use crate::ask;
use crate::catalogue::{self, Scope};
use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::dependence;
use crate::checks::live;
use crate::checks::pasting;
use crate::checks::pinning;
use crate::checks::rdma::gid_index_unusable;
use crate::checks::words;
use crate::facts::container::process::{InForce, Whose};
use crate::judge::context::{Backend, Context};
use crate::judge::{self, Remedy};
use crate::observed::Skip;
use crate::report::{KvPath, SkipReason, Status};
use crate::sanitise;
use crate::snapshot::evidence;

check! {
    /// A transport variable that is in force breaks or degrades the path it governs.
    ///
    /// One finding per variable, named `env:<VARIABLE>`, from the environment of the running worker and from the files that UCX
    /// and NCCL read beside it (`ucx.conf`, `nccl.conf`), which no manifest shows. The value is judged with what this container
    /// really has: its ports and their states, its GID tables, the UCX that is loaded.
    ///
    /// ## Why it matters
    /// What is written in a manifest is not always what runs: images, entry points and files set variables, too.
    ///
    /// ## Fix
    /// Every finding says what to write instead. For UCX and NCCL, unset is the good default.
    ///
    /// ## False alarms
    /// Where no worker runs, the environment is the probe's own, and a fail is only a warning. An aggregated worker sends no KV.
    ///
    /// ## Sources
    /// Each row of the catalogue names its own; docs/rules.md explains the rules.
    "ENV012" "live-variable" on Container {
        subsystem: Env, kv_path: Required, worst: Fail, causes: &[], since: "0.1.0",
    }
}

/// At most this many characters of a value are repeated in a sentence.
const SHOWN: usize = 120;

fn run(container: &Container<'_>) -> Outcome {
    let process = &container.facts.process;
    let environment = process.environment.get()?;
    let whose = match &environment.whose {
        Whose::Worker(word) => format!("worker ({word})"),
        Whose::Probe => "probe, no worker was found".to_owned(),
        Whose::Pasted => "pasted".to_owned(),
    };
    let settings = process.in_force()?;
    // Of a paste alone it must be said: an empty one could be taken for one that was not read.
    if environment.whose == Whose::Pasted && settings.is_empty() && environment.withheld.is_empty()
    {
        let empty = (container.snapshot.text(&ask::ENVIRONMENT)).is_ok_and(|t| t.trim().is_empty());
        let detail = match empty {
            true => {
                "the pasted environment is empty: none of the catalogued variables is set, so the defaults are in force"
            }
            false => {
                "none of the catalogued variables is set in the pasted environment, so the defaults are in force"
            }
        };
        return Ok(vec![Draft::ok(detail).on_kv_path(KvPath::Off)]);
    }
    Ok(settings
        .values()
        .map(|setting| {
            let line = format!("{} ({})", shown(setting), setting.file.unwrap_or(&whose));
            judged(container, setting)
                .named(format!("env:{}", setting.variable.name))
                .with([evidence(setting.ask, [line.as_str()])])
        })
        .collect())
}

fn judged(container: &Container<'_>, setting: &InForce<'_>) -> Draft {
    let variable = setting.variable;
    let shown = shown(setting);
    if catalogue::withheld(variable, setting.value) {
        let detail = format!("{shown}: it may carry credentials and is neither shown nor judged");
        return Draft::skipped(Skip::new(SkipReason::NotCollected, detail)).on_kv_path(KvPath::Off);
    }
    let path = if variable.scope == Scope::Kv {
        KvPath::Required
    } else {
        KvPath::Off
    };
    if container.is_aggregated() && variable.scope != Scope::Collectives {
        let detail = format!("{shown}: not applicable, the worker is aggregated and sends no KV");
        return Draft::ok(detail).on_kv_path(KvPath::Off);
    }
    // An engine that names NIXL leaves open which backend of it moves KV, and Mooncake is none of them.
    let beside = judge::may_move_kv(variable.name, &container.context)
        && !live::may_move_kv(container, variable.name);
    let judge = |cx: &Context| match beside {
        true => {
            let backend = Backend::Ucx;
            let cx = Context {
                backend,
                ..cx.clone()
            };
            judge::judge(variable.name, Some(setting.value), &cx)
        }
        false => judge::judge(variable.name, Some(setting.value), cx),
    };
    let verdict = judge(&container.context);
    if let Some(draft) = pasted_gid_index(container, setting, &shown) {
        return draft.on_kv_path(path);
    }
    let open = live::open_contexts(&container.facts, &container.context);
    if verdict.status == Status::Ok
        && let Some(worse) = open
            .iter()
            .map(judge)
            .find(|other| other.status != Status::Ok)
    {
        let unseen = match container.facts.rdma.own_ports() {
            Ok(_) => "whether the RDMA ports of the container are ACTIVE",
            Err(_) => "which RDMA ports the container may open",
        };
        let detail = format!(
            "{shown}: {unseen} was not seen, and it may be that {}",
            worse.reason
        );
        return Draft::skipped(Skip::new(SkipReason::NotCollected, detail)).on_kv_path(path);
    }
    if let Some((what, contexts)) =
        live::open_backends(&container.facts, &container.context, variable.name)
    {
        let verdicts: Vec<_> = contexts.iter().map(judge).collect();
        if verdicts
            .iter()
            .any(|other| other.status != verdicts[0].status)
        {
            let detail = format!("{shown}: what moves KV {what}");
            return Draft::skipped(Skip::new(SkipReason::Unresolved, detail)).on_kv_path(path);
        }
    }
    // A shell's environment is what a worker would start with, and not what one runs with.
    let shell = matches!(
        container
            .facts
            .process
            .environment
            .known()
            .map(|e| &e.whose),
        Some(Whose::Probe)
    );
    let status = if shell && !container.moves_kv() {
        verdict.status.min(Status::Warn)
    } else {
        verdict.status
    };
    let from = setting
        .file
        .map_or(String::new(), |file| format!(" (from {file})"));
    let mut draft =
        Draft::new(status, format!("{shown}{from}: {}", verdict.reason)).on_kv_path(path);
    draft.fix = verdict.fix;
    draft.paste = paste(container, setting, beside);
    if status >= Status::Warn {
        draft.headline = Some(words::of_value(variable.name, &shown, &verdict.reason));
    }
    if status == Status::Skipped {
        draft.reason = Some(SkipReason::NotCollected);
    }
    dependence::tied(draft, variable.name, setting.value, &container.context)
}

/// What to write in place of a value: for a list of NICs the ports next to the GPUs, where the container shows them.
fn paste(container: &Container<'_>, setting: &InForce<'_>, beside: bool) -> Option<String> {
    if beside {
        return None;
    }
    let name = setting.variable.name;
    let remedy = judge::remedy(name, setting.value, &container.context)?;
    let pinned = (name == "UCX_NET_DEVICES").then(|| pinning::ports(container));
    let remedy = pinned.flatten().map_or(remedy, Remedy::Write);
    pasting::in_force(container, setting, &remedy)
}

/// The context leaves the ports of pasted outputs out, and with them what a forced GID index is: their tables tell.
fn pasted_gid_index(
    container: &Container<'_>,
    setting: &InForce<'_>,
    shown: &str,
) -> Option<Draft> {
    if !container.facts.rdma.judges_all() {
        return None;
    }
    let draft = match gid_index_unusable::forced(container, setting)? {
        Ok(draft) => draft,
        Err(skip) => Draft::skipped(Skip {
            detail: format!("{shown} forces the index on every port; {}", skip.detail),
            ..skip
        }),
    };
    Some(draft.follows("gid-index-unusable"))
}

fn shown(setting: &InForce<'_>) -> String {
    let name = setting.variable.name;
    if catalogue::withheld(setting.variable, setting.value) {
        return format!("{name} is set");
    }
    if setting.value.is_empty() {
        return format!("{name} is set to the empty string");
    }
    format!("{name}={}", sanitise::line(setting.value, SHOWN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::testing::{NOTHING, changed, container, hcas, outcome, verdict};
    use crate::snapshot::PlaceKind;

    fn with(role: &str, environment: &str) -> Vec<(String, Status, KvPath)> {
        let answers = changed(
            &hcas(&["4: ACTIVE", "1: DOWN"]),
            &[(&ask::ENVIRONMENT, environment)],
        );
        let mut snapshot = container(role, &answers);
        if role.is_empty() && !environment.contains("# process") {
            snapshot.place.kind = PlaceKind::Pasted;
        }
        let drafts = outcome(run, &snapshot).unwrap();
        let finding = |d: Draft| (d.name.unwrap_or_default(), d.status, d.kv_path.unwrap());
        drafts.into_iter().map(finding).collect()
    }

    fn one(role: &str, environment: &str) -> Status {
        let all = with(role, environment);
        assert_eq!(all.len(), 1, "{all:?}");
        all[0].1
    }

    #[test]
    fn values_are_judged_with_what_is_here() {
        let worker = "# process 7 dynamo.vllm\n";
        for (line, status) in [
            ("UCX_TLS=tcp", Status::Fail),
            ("UCX_TLS=all", Status::Ok),
            ("UCX_NET_DEVICES=mlx5_0:1", Status::Ok),
            ("UCX_NET_DEVICES=mlx5_1:1", Status::Fail),
            (
                "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
                Status::Warn,
            ),
        ] {
            assert_eq!(one("decode", &format!("{worker}{line}")), status, "{line}");
        }
        let told = with(
            "decode",
            "# process 7 dynamo.sglang\nSGLANG_HOST_IP=127.0.0.1",
        );
        let expected = (
            "env:SGLANG_HOST_IP".to_owned(),
            Status::Fail,
            KvPath::Required,
        );
        assert_eq!(told, [expected]);
        let answers = [(&ask::ENVIRONMENT, "UCX_TLS=tcp")];
        let draft = outcome(run, &container("decode", &answers))
            .unwrap()
            .remove(0);
        let headline = draft.headline.unwrap();
        assert!(
            headline.starts_with("UCX_TLS=tcp: ") && headline.len() > 20,
            "{headline}"
        );
        let named = with("decode", &format!("{worker}UCX_TLS=tcp"));
        assert_eq!(named[0].0, "env:UCX_TLS");
        assert_eq!(named[0].2, KvPath::Required);
    }

    #[test]
    fn of_a_paste_without_any_it_is_said_that_none_is_set() {
        for empty in ["", "# variables of process 1\n", "HOME=/root\n"] {
            assert_eq!(
                with("", empty),
                [(String::new(), Status::Ok, KvPath::Off)],
                "{empty:?}"
            );
        }
        // One is set, and what to is not told.
        assert_eq!(with("", "# withheld NIXL_ETCD_ENDPOINTS\n"), []);
        assert_eq!(with("decode", "# process 7 dynamo.vllm\n"), []);
    }

    #[test]
    fn the_place_decides_how_bad_it_is() {
        assert_eq!(
            one("agg", "# process 7 dynamo.vllm\nUCX_TLS=tcp"),
            Status::Ok
        );
        assert_eq!(one("", "# process self probe\nUCX_TLS=tcp"), Status::Warn);
        assert_eq!(one("", "UCX_TLS=tcp"), Status::Fail);
        assert_eq!(
            one("decode", "# process self probe\nUCX_TLS=tcp"),
            Status::Fail
        );
    }

    #[test]
    fn a_pasted_gid_index_is_never_harmless_unseen() {
        let with = |line: &str, table: &str| {
            let answers = [(&ask::ENVIRONMENT, line), (&ask::SHOW_GIDS, table)];
            let drafts = outcome(run, &crate::checks::testing::pasted(&answers)).unwrap();
            drafts[0].status
        };
        let table = "mlx5_0 1 2 0000:0000:0000:0000:0000:ffff:0a00:0001 10.0.0.1 v1 eth2\n\
                     mlx5_0 1 3 0000:0000:0000:0000:0000:ffff:0a00:0001 10.0.0.1 v2 eth2\nn_gids_found=2\n";
        assert_eq!(with("UCX_IB_GID_INDEX=2", table), Status::Fail);
        assert_eq!(with("UCX_IB_GID_INDEX=3", table), Status::Skipped);
        assert_eq!(with("UCX_IB_GID_INDEX=2", ""), Status::Skipped);
        assert_eq!(with("NCCL_IB_GID_INDEX=2", table), Status::Warn);
        assert_eq!(with("UCX_IB_GID_INDEX=auto", ""), Status::Ok);
    }

    #[test]
    fn a_transport_that_no_pasted_device_has_is_not_left() {
        let said = |name: &str, vendor: &str, tls: &str| {
            let devices = format!(
                "hca_id:\t{name}\n\ttransport:\tInfiniBand (0)\n\tvendor_id:\t{vendor}\n\tphys_port_cnt:\t1\n\t\tport:\t1\n\
                 \t\t\tstate:\tPORT_DOWN (1)\n\t\t\tlink_layer:\tEthernet\n"
            );
            let line = format!("UCX_TLS={tls}");
            let answers = [
                (&ask::ENVIRONMENT, line.as_str()),
                (&ask::IBV_DEVINFO, &devices),
            ];
            let draft = outcome(run, &crate::checks::testing::pasted(&answers))
                .unwrap()
                .remove(0);
            draft.status
        };
        for (name, vendor) in [
            ("bnxt_re0", "0x14e4"),
            ("irdma0", "0x8086"),
            ("rocep1s0", "0x14e4"),
            ("rxe0", "0x0000"),
            ("mlx5_0", "0xffffff"),
        ] {
            for tls in ["rc_x,cuda_copy,cuda_ipc", "dc,cuda_copy,cuda_ipc"] {
                assert_eq!(said(name, vendor, tls), Status::Fail, "{name} {tls}");
            }
            assert_eq!(
                said(name, vendor, "rc,cuda_copy,cuda_ipc"),
                Status::Ok,
                "{name}"
            );
        }
        // That a port is down, and who made it, may be another worker's matter.
        assert_eq!(said("mlx5_0", "0x02c9", "rc_x,cuda_copy"), Status::Ok);
    }

    #[test]
    fn a_blank_at_the_end_is_a_part_of_the_value() {
        let said = |line: &str| {
            let environment = format!("# process 7 dynamo.vllm\n{line}\n");
            let answers = changed(&hcas(&["4: ACTIVE"]), &[(&ask::ENVIRONMENT, &environment)]);
            outcome(run, &container("decode", &answers)).unwrap()[0].status
        };
        assert_eq!(said("UCX_TLS=rc,cuda_copy"), Status::Ok);
        assert_eq!(said("UCX_TLS=rc,cuda_copy "), Status::Fail);
        assert_eq!(one("decode", "UCX_TLS=rc,cuda_copy "), Status::Fail);
        let files = |ask: &'static ask::Ask, line: &str| {
            let files = format!("/etc/x.conf: present\n/etc/x.conf: {line}\n");
            let silent = "# process 7 dynamo.vllm\n";
            let answers = [(&ask::ENVIRONMENT, silent), (ask, files.as_str())];
            let place = container("decode", &answers);
            let place = crate::checks::Container::parse(&place);
            let settings = place.facts.process.in_force().unwrap();
            settings.values().next().unwrap().value.to_owned()
        };
        // The reader of ucx.conf takes it off, that of nccl.conf does not.
        assert_eq!(files(&ask::UCX_SETTINGS, "UCX_TLS=rc "), "rc");
        assert_eq!(files(&ask::NCCL_SETTINGS, "NCCL_IB_HCA=mlx5_0 "), "mlx5_0 ");
    }

    /// What is given is quoted, and may read like a sentence of the tool that counts wrongly.
    #[test]
    fn no_value_stops_the_tool() {
        let values = [
            "1",
            "0",
            "1,1",
            "1 NICs",
            "a 1 ports: 1 GPUs",
            "\"",
            "1 `NICs",
        ];
        for variable in catalogue::all() {
            for value in values {
                let line = format!("{}={value}\n", variable.name);
                let pasted = crate::checks::testing::pasted(&[(&ask::ENVIRONMENT, line)]);
                crate::checks::run(&crate::manifest::Inventory::default(), &[pasted]);
            }
        }
    }

    #[test]
    fn a_file_counts_where_the_environment_is_silent() {
        let files = "/etc/ucx/ucx.conf: present\n/etc/ucx/ucx.conf: UCX_TLS=tcp";
        let answers = [
            (&ask::ENVIRONMENT, "# process 7 dynamo.vllm\n"),
            (&ask::UCX_SETTINGS, files),
        ];
        let drafts = outcome(run, &container("decode", &answers)).unwrap();
        assert_eq!(drafts[0].status, Status::Fail);
        assert!(
            drafts[0].detail.contains("/etc/ucx/ucx.conf"),
            "{}",
            drafts[0].detail
        );
    }

    #[test]
    fn what_was_not_read_is_not_judged() {
        assert!(verdict(run, "decode", NOTHING).is_err());
        // Which ports may be opened was asked and not answered: what depends on it is open.
        let environment = "# process 7 dynamo.vllm\nUCX_NET_DEVICES=mlx5_0:1\nUCX_TLS=all";
        let answers = changed(&hcas(&["4: ACTIVE"]), &[(&ask::ENVIRONMENT, environment)]);
        let mut snapshot = container("decode", &answers);
        let missing = crate::snapshot::Answer::Missing {
            reason: SkipReason::Timeout,
            detail: String::new(),
        };
        let id = ask::DEV_INFINIBAND_OPEN.id.to_owned();
        snapshot.answers.insert(id, missing);
        let statuses: Vec<Status> = outcome(run, &snapshot)
            .unwrap()
            .iter()
            .map(|draft| draft.status)
            .collect();
        assert_eq!(statuses, [Status::Skipped, Status::Ok]);
    }

    #[test]
    fn a_port_whose_state_nobody_told_makes_no_fault_and_nothing_ok() {
        let judged = |states: &[&str], gone: &str, tls: &str| {
            let environment = format!("# process 7 dynamo.vllm\nUCX_TLS={tls}");
            let mut answers = changed(&hcas(states), &[(&ask::ENVIRONMENT, &environment)]);
            let (_, ports) = answers
                .iter_mut()
                .find(|(a, _)| a.id == ask::RDMA_PORTS.id)
                .unwrap();
            *ports = ports
                .lines()
                .filter(|line| gone.is_empty() || !line.contains(gone))
                .map(|line| format!("{line}\n"))
                .collect();
            outcome(run, &container("decode", &answers))
                .unwrap()
                .remove(0)
        };
        let one = ["4: ACTIVE"];
        assert_eq!(judged(&one, "", "rc,cuda_copy").status, Status::Ok);
        let unseen = judged(&one, "/state: ", "rc,cuda_copy");
        assert_eq!(unseen.status, Status::Skipped, "{}", unseen.detail);
        assert!(
            unseen.detail.contains("are ACTIVE was not seen"),
            "{}",
            unseen.detail
        );
        // Wrong whatever the state is; and right with the port that is seen.
        assert_eq!(judged(&one, "/state: ", "tcp").status, Status::Fail);
        let two = ["4: ACTIVE", "4: ACTIVE"];
        let other = judged(&two, "mlx5_1/ports/1/state: ", "rc,cuda_copy");
        assert_eq!(other.status, Status::Ok, "{}", other.detail);
    }

    #[test]
    fn what_the_command_line_does_not_tell_is_no_guess() {
        let judged = |line: &str, variable: &str| {
            let environment = format!("# process 7 dynamo.vllm\n{variable}");
            let answers = [
                (&ask::ENVIRONMENT, environment.as_str()),
                (&ask::WORKER_KV_TRANSFER, line),
            ];
            let answers = changed(&hcas(&["4: ACTIVE"]), &answers);
            let draft = outcome(run, &container("decode", &answers))
                .unwrap()
                .remove(0);
            (draft.status, draft.detail)
        };
        for (line, variable, status) in [
            (
                "\"backends\": [\"LIBFABRIC\"]\n",
                "FI_PROVIDER=tcp",
                Status::Fail,
            ),
            ("\"backends\": [\"LIBFABRIC\"]\n", "UCX_TLS=tcp", Status::Ok),
            (
                "\"kv_connector\": \"MooncakeConnector\"\n",
                "UCX_TLS=tcp",
                Status::Ok,
            ),
            (
                "\"transfer_backend\": \"mooncake\"\n",
                "UCX_TLS=tcp",
                Status::Ok,
            ),
            (
                "\"kv_connector\": \"NixlConnector\"\n",
                "UCX_TLS=tcp",
                Status::Fail,
            ),
            (
                "\"not_read\": \"--config\"\n",
                "FI_PROVIDER=tcp",
                Status::Skipped,
            ),
            (
                "\"not_read\": \"--config\"\n",
                "UCX_TLS=tcp",
                Status::Skipped,
            ),
            (
                "\"not_read\": \"--config\"\n",
                "UCX_TLS=rc,cuda_copy",
                Status::Ok,
            ),
        ] {
            let (got, detail) = judged(line, variable);
            assert_eq!(got, status, "{line}{variable}: {detail}");
            assert!(
                got != Status::Skipped || detail.contains("--config"),
                "{detail}"
            );
        }
    }
}
