use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::facts::container::Facts;
use crate::facts::container::software::{Version, numbers};
use crate::observed::Skip;
use crate::report::{Evidence, SkipReason};

check! {
    /// A version of UCX, NIXL, NCCL or libfabric is known not to work with what is here.
    ///
    /// ## Why it matters
    /// These pairs fail or are slow for reasons that no setting cures.
    ///
    /// ## Fix
    /// Use the version that the finding names; every entry of the table carries its report.
    ///
    /// ## Sources
    /// NVIDIA/TensorRT-LLM#6024 (Blackwell needs UCX 1.19); vllm-project/vllm#35799 (NIXL 0.10.0 on B200); UCX v1.18.0
    /// `ib_md.c` (peer memory modules are looked for from 1.18 on); ai-dynamo/nixl#1668 and vllm-project/vllm#55000 (UCX 1.20.0
    /// runs away in a second agent); ai-dynamo/nixl#386 (a UCX of the system before the one of NIXL); nixl 0.6.1 and nixl-cu12
    /// 0.8.0 as run without libcuda.so.1; UCX v1.15 and v1.16 as run (protocol tables); ai-dynamo/dynamo#9727 (libfabric below
    /// 2.5 with EFA on GB200).
    "NIXL002" "known-bad-version" on Container {
        subsystem: Nixl, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

/// One pair that does not work.
struct Row {
    /// Whose version it is.
    of: Of,
    /// The versions it is about, by the first two numbers.
    versions: fn((u32, u32)) -> bool,
    /// What must be here, too.
    with: fn(&Facts) -> bool,
    /// What happens.
    effect: &'static str,
    /// What to use instead.
    fix: &'static str,
    /// The report.
    source: &'static str,
}

#[derive(Clone, Copy)]
enum Of {
    Ucx,
    Nixl,
    Nccl,
    Libfabric,
}

impl Of {
    fn word(self) -> &'static str {
        match self {
            Self::Ucx => "UCX",
            Self::Nixl => "NIXL",
            Self::Nccl => "NCCL",
            Self::Libfabric => "libfabric",
        }
    }
}

const TABLE: &[Row] = &[
    Row {
        of: Of::Ucx,
        versions: |version| version == (1, 20),
        with: is_first_of_1_20,
        effect: "may hang and run away in memory when a second NIXL agent is made on a host",
        fix: "use NIXL 1.0 or later, which brings UCX 1.21",
        source: "ai-dynamo/nixl#1668, vllm-project/vllm#55000",
    },
    Row {
        of: Of::Ucx,
        versions: |_| true,
        with: is_older_than_that_of_nixl,
        effect: "stands in front of the newer one that NIXL brings, whose plugin does not load with it (API version is \
                 incompatible)",
        fix: "remove the UCX of the system from LD_LIBRARY_PATH and LD_PRELOAD",
        source: "ai-dynamo/nixl#386",
    },
    Row {
        of: Of::Nixl,
        versions: |version| ((0, 6)..=(0, 8)).contains(&version),
        with: has_no_gpu,
        effect: "loses its UCX backend without an error where libcuda.so.1 is not, and the container has no GPU",
        fix: "use NIXL 1.0 or later, or give the container a GPU",
        source: "nixl 0.6.1 and nixl-cu12 0.8.0, run without libcuda.so.1",
    },
    Row {
        of: Of::Ucx,
        versions: |version| version < (1, 16),
        with: |facts| facts.software.nixl().is_some(),
        effect: "prints no protocol table, so that no transfer can say which lane it took",
        fix: "use UCX 1.16 or later",
        source: "UCX v1.15 and v1.16 src/ucp/proto/proto_debug.c",
    },
    Row {
        of: Of::Ucx,
        versions: |version| version < (1, 19),
        with: has_blackwell,
        effect: "does not use NVLink of Blackwell GPUs",
        fix: "use UCX 1.19 or later",
        source: "NVIDIA/TensorRT-LLM#6024",
    },
    Row {
        of: Of::Nixl,
        versions: |version| version == (0, 10),
        with: has_blackwell,
        effect: "fails on B200",
        fix: "use NIXL 1.0 or later",
        source: "vllm-project/vllm#35799",
    },
    Row {
        of: Of::Ucx,
        versions: |version| version < (1, 18),
        with: has_only_peer_modules,
        effect: "looks for peer memory in /sys/kernel/mm/memory_peers only, which is not there",
        fix: "use UCX 1.18 or later",
        source: "UCX v1.18.0 src/uct/ib/base/ib_md.c",
    },
    Row {
        of: Of::Nccl,
        versions: |version| version < (2, 23),
        with: has_only_peer_modules,
        effect: "looks for peer memory in /sys/kernel/mm/memory_peers only, which is not there",
        fix: "use NCCL 2.23 or later",
        source: "NVIDIA/nccl#1939",
    },
    Row {
        of: Of::Libfabric,
        versions: |version| version < (2, 5),
        with: has_efa_beside_grace,
        effect: "cannot register memory of these GPUs with EFA (fi_mr_reg ends in EFAULT)",
        fix: "use libfabric 2.5 or later",
        source: "ai-dynamo/dynamo#9727",
    },
];

/// UCX 1.20.0 under NIXL; a wheel tells two numbers of its UCX, and those with 1.20 hold 1.20.0.
fn is_first_of_1_20(facts: &Facts) -> bool {
    let ucx = facts.software.ucx_version();
    let first = ucx.is_some_and(|ucx| {
        let rest = ucx.text.strip_prefix("1.20").unwrap_or_default();
        rest.is_empty() || rest == ".0" || rest.starts_with(".0-") || rest.starts_with(".0+")
    });
    first && facts.software.nixl().is_some()
}

fn is_older_than_that_of_nixl(facts: &Facts) -> bool {
    let bundled = facts.software.ucx_passed_over().and_then(numbers);
    let in_use = facts.software.ucx_version().and_then(|ucx| ucx.numbers());
    bundled.zip(in_use).is_some_and(|(own, have)| have < own)
}

fn has_no_gpu(facts: &Facts) -> bool {
    facts.gpu.list.known().is_some_and(|list| list.is_empty())
}

fn has_blackwell(facts: &Facts) -> bool {
    let list = facts.gpu.list.known();
    list.is_some_and(|list| list.iter().any(|gpu| gpu.is_blackwell()))
}

fn has_efa_beside_grace(facts: &Facts) -> bool {
    let list = facts.gpu.list.known();
    let efa = facts.rdma.own();
    list.is_some_and(|list| list.iter().any(|gpu| gpu.is_rack_scale()))
        && efa.is_ok_and(|devices| devices.iter().any(|device| device.is_efa()))
}

fn has_only_peer_modules(facts: &Facts) -> bool {
    facts.host.peer_memory().is_ok_and(|(found, _)| {
        !found.is_empty() && !found.iter().any(|path| path.contains("memory_peers"))
    })
}

fn run(container: &Container<'_>) -> Outcome {
    let facts = &container.facts;
    let ucx = facts.software.ucx_version();
    let nixl = facts.software.nixl();
    let nccl = facts.software.nccl();
    let libfabric = facts.software.libfabric.known().map(|seen| Version {
        text: seen.value.clone(),
        source: "fi_info".to_owned(),
        ask: seen.ask,
    });
    if ucx.is_none() && nixl.is_none() {
        let skip = facts.software.packages.get().err();
        let detail = "no version of UCX or NIXL was seen";
        return Err(skip.unwrap_or_else(|| Skip::new(SkipReason::NotFound, detail)));
    }
    let version = |of| match of {
        Of::Ucx => ucx.as_ref(),
        Of::Nixl => nixl.as_ref(),
        Of::Nccl => nccl.as_ref(),
        Of::Libfabric => libfabric.as_ref(),
    };
    let mut drafts = Vec::new();
    for row in TABLE {
        let Some(have) = version(row.of) else {
            continue;
        };
        let Some(numbers) = have.numbers() else {
            continue;
        };
        if (row.versions)(numbers) && (row.with)(facts) {
            let name = row.of.word();
            let detail = format!("{name} {} {} ({})", have.text, row.effect, row.source);
            let headline = format!("{name} {} {}", have.text, row.effect);
            let draft = Draft::warn(detail).headline(headline);
            drafts.push(draft.with([shown(have)]).fix(row.fix));
        }
    }
    if drafts.is_empty() {
        // Half of the table was not looked at where a version is missing, and not just absent.
        let has_nixl = !facts.software.nixl_packages()?.is_empty();
        let Some(ucx) = &ucx else {
            let detail =
                "the version of the UCX in use was not seen, and nothing is known against NIXL";
            return Err(Skip::new(SkipReason::NotFound, detail));
        };
        if has_nixl && nixl.is_none() {
            let detail = "NIXL is here in several versions, and nothing is known against UCX";
            return Err(Skip::new(SkipReason::Unresolved, detail));
        }
        if facts.gpu.list.get()?.iter().any(|gpu| gpu.name.is_empty()) {
            let detail = "the model of the GPUs was not seen";
            return Err(Skip::new(SkipReason::NotFound, detail));
        }
        if ucx.numbers() < Some((1, 18)) || nccl.is_some() {
            facts.host.peer_memory()?;
        }
        let with = nixl
            .as_ref()
            .map_or(String::new(), |nixl| format!(" with NIXL {}", nixl.text));
        let seen = [Some(ucx), nixl.as_ref()].into_iter().flatten();
        let draft = Draft::ok(format!("nothing is known against UCX {}{with}", ucx.text));
        drafts.push(draft.with(seen.map(shown)));
    }
    Ok(drafts)
}

fn shown(version: &Version) -> Evidence {
    let line = format!("{} by {}", version.text, version.source);
    crate::snapshot::evidence(version.ask, [line.as_str()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::{NOTHING, changed, container, hca, outcome, verdict};
    use crate::report::Status;

    fn with(nixl: &str, gpu: &str) -> Result<Status, Skip> {
        let packages = format!("/v/site-packages/nixl_cu12-{nixl}.dist-info");
        let query = format!("index, name\n0, {gpu}\n");
        let answers = [
            (&ask::PYTHON_PACKAGES, packages.as_str()),
            (
                &ask::UCX_LIBRARIES,
                "/v/site-packages/nixl_cu12.libs/libucp-1a.so.0",
            ),
            (&ask::NVIDIA_SMI_QUERY, query.as_str()),
        ];
        verdict(run, "decode", &answers)
    }

    #[test]
    fn pairs_of_the_table_are_named() {
        assert_eq!(with("1.3.0", "NVIDIA B200"), Ok(Status::Ok));
        assert_eq!(with("0.10.0", "NVIDIA B200"), Ok(Status::Warn));
        // Without Blackwell it still brings UCX 1.20.0.
        assert_eq!(with("0.10.0", "NVIDIA H100 80GB HBM3"), Ok(Status::Warn));
        assert_eq!(with("0.7.1", "NVIDIA H100 80GB HBM3"), Ok(Status::Ok));
        let old = [
            (&ask::UCX_LIBRARIES, "/usr/lib64/libucp.so.0"),
            (
                &ask::UCX_INFO_VERSION,
                "# Library version: 1.17.0\n# Library path: /usr/lib64/libucs.so.0",
            ),
            (&ask::NVIDIA_SMI_QUERY, "index, name\n0, NVIDIA GB200\n"),
        ];
        assert_eq!(verdict(run, "decode", &old), Ok(Status::Warn));
        let modules = [
            old[0],
            old[1],
            (
                &ask::MODULE_VERSIONS,
                "/sys/module/nvidia_peermem/version: 550",
            ),
        ];
        assert_eq!(verdict(run, "decode", &modules), Ok(Status::Warn));
        let nccl = [
            (
                &ask::PYTHON_PACKAGES,
                "/v/nixl_cu12-1.3.0.dist-info\n/v/nvidia_nccl_cu12-2.21.5.dist-info",
            ),
            (
                &ask::MODULE_VERSIONS,
                "/sys/module/nvidia_peermem/version: 550",
            ),
        ];
        assert_eq!(verdict(run, "decode", &nccl), Ok(Status::Warn));
    }

    #[test]
    fn versions_that_transfers_fail_with_are_named() {
        type Answers<'a> = &'a [(&'static ask::Ask, &'a str)];
        let said = |answers: Answers<'_>| {
            let drafts = outcome(run, &container("decode", answers));
            drafts.map_or_else(
                |skip| skip.detail.to_string(),
                |drafts| drafts.into_iter().map(|d| d.detail).collect(),
            )
        };
        const NIXL: &str = "/v/s/nixl_cu12-1.3.0.dist-info";
        let system = (&ask::UCX_LIBRARIES, "/usr/lib64/libucp.so.0");
        let tool = |version: &str| {
            format!("# Library version: {version}\n# Library path: /usr/lib64/libucs.so.0")
        };
        let h100 = (&ask::NVIDIA_SMI_QUERY, "index, name\n0, NVIDIA H100\n");
        let by_tool = |version: &str| {
            let version = tool(version);
            said(&[
                (&ask::PYTHON_PACKAGES, NIXL),
                system,
                (&ask::UCX_INFO_VERSION, &version),
                h100,
            ])
        };
        assert!(by_tool("1.20.0").contains("ai-dynamo/nixl#1668"));
        assert!(!by_tool("1.20.1").contains("1668"));
        assert!(by_tool("1.15.0").contains("prints no protocol table"));
        assert!(!by_tool("1.16.0").contains("protocol table"));
        // The UCX of the system before the one of the wheel.
        let shadowed = |version: &str| {
            let version = tool(version);
            said(&[
                (&ask::PYTHON_PACKAGES, NIXL),
                (
                    &ask::UCX_LIBRARIES,
                    "/usr/lib64/libucp.so.0\n/v/s/nixl_cu12.libs/libucp-1a.so.0",
                ),
                (&ask::WORKER_LIBRARIES, "/usr/lib64/libucp.so.0.0.0"),
                (&ask::UCX_INFO_VERSION, &version),
                h100,
            ])
        };
        assert!(
            shadowed("1.18.0").contains("nixl#386"),
            "{}",
            shadowed("1.18.0")
        );
        assert!(!shadowed("1.21.0").contains("nixl#386"));
        assert!(
            !by_tool("1.18.0").contains("nixl#386"),
            "it is the only one"
        );
        // A container without a GPU.
        let no_gpu = |nixl: &str| {
            let packages = format!("/v/s/nixl_cu12-{nixl}.dist-info");
            said(&[
                (&ask::PYTHON_PACKAGES, packages.as_str()),
                (&ask::UCX_LIBRARIES, "/v/s/nixl_cu12.libs/libucp-1a.so.0"),
                (&ask::DEV_GPU, ""),
            ])
        };
        assert!(
            no_gpu("0.8.0").contains("libcuda.so.1"),
            "{}",
            no_gpu("0.8.0")
        );
        assert!(!no_gpu("1.0.1").contains("libcuda.so.1"));
    }

    #[test]
    fn libfabric_of_efa_beside_grace() {
        let with = |version: &str, gpu: &str| {
            let query = format!("index, name\n0, {gpu}\n");
            let said = format!("fi_info: {version}\nlibfabric: {version}\nlibfabric api: 2.0\n");
            let answers = [
                (
                    &ask::PYTHON_PACKAGES,
                    "/v/site-packages/nixl_cu12-1.3.0.dist-info",
                ),
                (
                    &ask::UCX_LIBRARIES,
                    "/v/site-packages/nixl_cu12.libs/libucp-1a.so.0",
                ),
                (&ask::NVIDIA_SMI_QUERY, query.as_str()),
                (&ask::FI_INFO_VERSION, said.as_str()),
            ];
            let mut efa = hca("rdmap79s0", "4: ACTIVE", "open");
            for (_, text) in &mut efa {
                *text = text.replace("link_layer: InfiniBand", "link_layer: Unknown");
                *text = text.replace("0x15b3", "0x1d0f").replace("mlx5_core", "efa");
            }
            verdict(run, "decode", &changed(&efa, &answers))
        };
        assert_eq!(with("2.4.0amzn3.0", "NVIDIA GB200"), Ok(Status::Warn));
        assert_eq!(with("2.5.0", "NVIDIA GB200"), Ok(Status::Ok));
        assert_eq!(with("2.4.0", "NVIDIA H100 80GB HBM3"), Ok(Status::Ok));
    }

    #[test]
    fn what_was_not_read_is_not_judged() {
        assert!(verdict(run, "decode", NOTHING).is_err());
        let only = [(&ask::PYTHON_PACKAGES, "/v/nixl-1.3.0.dist-info")];
        assert!(verdict(run, "decode", &only).is_err());
        // A host with a UCX of its own, and nothing else.
        let host = [
            (&ask::PYTHON_PACKAGES, ""),
            (&ask::UCX_LIBRARIES, "/usr/lib64/libucp.so.0"),
            (&ask::UCX_INFO_VERSION, "# Version 1.20.0"),
            (&ask::DEV_GPU, ""),
        ];
        assert_eq!(verdict(run, "decode", &host), Ok(Status::Ok));
    }

    #[test]
    fn the_ucx_that_an_interpreter_loads_is_judged_and_not_that_of_the_system() {
        let system = [
            (&ask::PYTHON_PACKAGES, ""),
            (&ask::UCX_LIBRARIES, "/usr/lib64/libucp.so.0"),
            (
                &ask::UCX_INFO_VERSION,
                "# Library version: 1.17.0\n# Library path: /usr/lib64/libucs.so.0",
            ),
            (&ask::NVIDIA_SMI_QUERY, "index, name\n0, NVIDIA GB200\n"),
        ];
        let judged = |more: &[(&'static ask::Ask, &str)]| {
            let mut answers = system.to_vec();
            answers.extend(more);
            verdict(run, "decode", &answers)
        };
        assert_eq!(judged(&[]), Ok(Status::Warn));
        let of = |ucx: &str| {
            format!(
                "/v/s/nixl_cu12-1.5.1.dist-info\n/v/s/nixl_cu12.libs/libucp-1a.so.0\nUCX {ucx}\n"
            )
        };
        assert_eq!(
            judged(&[(&ask::TRANSFER_SOFTWARE, &of("1.23.0"))]),
            Ok(Status::Ok)
        );
        assert_eq!(
            judged(&[(&ask::TRANSFER_SOFTWARE, &of("1.18.1"))]),
            Ok(Status::Warn)
        );
        // What the worker itself has loaded says more than any other interpreter.
        let worker = (&ask::WORKER_LIBRARIES, "/usr/lib64/libucp.so.0.0.0");
        assert_eq!(
            judged(&[(&ask::TRANSFER_SOFTWARE, &of("1.23.0")), worker]),
            Ok(Status::Warn)
        );
    }
}
