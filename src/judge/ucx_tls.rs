//! UCX_TLS: which transports a value leaves, and whether KV can travel on them (rules R1 to R11).

use super::context::{Accelerator, Context, Tri, Vendor};
use super::setting::{STRICTEST_UCX, Setting, Verdict, by_version};
use super::transports::{Selection, Tls, parse, too_old_for};
use super::ucx_tls_cures::{Cure, good_fix, good_list};
use crate::report::Status;

/// Tokens beyond this do not fit the mask that UCX keeps.
const MASK_BITS: usize = 64;

/// The transports of RDMA devices that put and get GPU memory directly.
const RDMA_DATA: [&str; 4] = ["rc_mlx5", "rc_verbs", "dc_mlx5", "srd"];

pub(super) fn judge(s: &Setting<'_>) -> Verdict {
    let Some(value) = s.value else {
        return Verdict::ok(
            "R9",
            "unset means all: UCX uses every transport that is there and picks by bandwidth and distance",
        );
    };
    by_version(s.cx, "UCX 1.21 and later", |cx| judge_at(value, cx))
}

fn judge_at(value: &str, cx: &Context) -> Verdict {
    match parse(value, cx.ucx.unwrap_or(STRICTEST_UCX)) {
        Tls::All => Verdict::ok(
            "R9",
            format!("{value:?} is the default: every transport that is there"),
        ),
        Tls::Empty => Verdict::fail(
            "1.1",
            format!(
                "{value:?} holds no transport: UCX stops with \"The TLs list is empty\" and NIXL gets no backend"
            ),
            good_fix(cx, None),
        ),
        Tls::AllWithMore => Verdict::fail(
            "1.1",
            format!(
                "{value:?} begins with all and goes on: UCX cannot read it (\"Invalid value for TLS\") and NIXL gets no backend"
            ),
            "remove UCX_TLS, or name the transports without all",
        ),
        Tls::List(selection) => judge_list(value, &selection, cx),
    }
}

/// Everything that is wrong with a list; the gravest decides.
fn judge_list(value: &str, selection: &Selection, cx: &Context) -> Verdict {
    let list = List::new(selection, cx);
    let problems = list.problems();
    let Some(worst) = problems.iter().map(|p| p.status).max() else {
        return Verdict::ok(list.good_rule(), list.what_it_leaves(value));
    };
    let gravest: Vec<Problem> = problems.into_iter().filter(|p| p.status == worst).collect();
    let fix = match gravest.as_slice() {
        [only] => list.fix(&only.cure),
        // A cure of one fault leaves the others, so that only a whole list, or none, helps.
        _ if worst == Status::Fail => good_fix(cx, Some(selection)),
        several => {
            let cures: Vec<String> = several.iter().map(|p| list.fix(&p.cure)).collect();
            cures.join("; ")
        }
    };
    let reasons: Vec<&str> = gravest.iter().map(|p| p.reason.as_str()).collect();
    Verdict::bad(
        worst,
        gravest.first().map_or("1.1", |p| p.rule),
        format!("{value:?}: {}", reasons.join("; ")),
        fix,
    )
}

/// One thing that is wrong with a list.
pub(super) struct Problem {
    pub(super) status: Status,
    rule: &'static str,
    reason: String,
    cure: Cure,
}

impl Problem {
    fn fail(rule: &'static str, reason: impl Into<String>, cure: Cure) -> Self {
        Self {
            status: Status::Fail,
            rule,
            reason: reason.into(),
            cure,
        }
    }

    fn warn(rule: &'static str, reason: impl Into<String>, cure: Cure) -> Self {
        Self {
            status: Status::Warn,
            ..Self::fail(rule, reason, cure)
        }
    }
}

/// A list in its place.
pub(super) struct List<'a> {
    chosen: &'a Selection,
    cx: &'a Context,
    /// RDMA data transports that exist on the ports of this pod.
    rdma: Vec<&'static str>,
}

impl<'a> List<'a> {
    pub(super) fn new(chosen: &'a Selection, cx: &'a Context) -> Self {
        let vendors = cx.vendors();
        let rdma = RDMA_DATA
            .into_iter()
            .filter(|t| chosen.data.contains(t))
            .filter(|t| {
                vendors
                    .as_ref()
                    .is_none_or(|all| all.iter().any(|v| exists_on(t, *v)))
            })
            .collect();
        Self { chosen, cx, rdma }
    }

    pub(super) fn problems(&self) -> Vec<Problem> {
        [
            self.nothing_enabled(),
            self.gpu_memory_unseen(),
            self.no_rdma(),
            self.no_active_messages(),
            self.no_first_contact(),
            self.no_nvlink(),
            self.slow_reads(),
            self.unknown_names(),
            self.stray_comma(),
            self.too_long(),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn fix(&self, cure: &Cure) -> String {
        match cure {
            Cure::Do(what) => what.clone(),
            Cure::GoodList => good_fix(self.cx, Some(self.chosen)),
            Cure::WithGoodList(what) => match good_list(self.cx, Some(self.chosen)) {
                Some(list) => what(&format!("UCX_TLS={list}")),
                None => good_fix(self.cx, Some(self.chosen)),
            },
        }
    }

    fn has(&self, transport: &str) -> bool {
        self.chosen.data.contains(transport)
    }

    fn has_ud(&self) -> bool {
        self.has("ud_verbs") || self.has("ud_mlx5")
    }

    /// The transport of these that the list lacks. Where the accelerator is not known, naming one of them will do, and
    /// forbidding one may be the wrong one.
    fn lacks(&self, transports: &'static [&'static str]) -> Option<&'static str> {
        if !self.chosen.negated && transports.iter().any(|t| self.has(t)) {
            return None;
        }
        transports.iter().copied().find(|t| !self.has(t))
    }

    fn sees_gpu_memory(&self) -> bool {
        self.lacks(self.cx.detectors()).is_none()
    }

    /// The transports from GPU to GPU without the NIC, by accelerator.
    fn direct(&self) -> &'static [&'static str] {
        match self.cx.accelerator {
            Accelerator::Nvidia => &["cuda_ipc"],
            Accelerator::Intel => &["ze_ipc"],
            Accelerator::Amd => &["rocm_ipc"],
            Accelerator::Unknown => &["cuda_ipc", "ze_ipc", "rocm_ipc"],
        }
    }

    /// GPU to GPU without the NIC.
    fn gpu_to_gpu(&self) -> bool {
        self.lacks(self.direct()).is_none()
    }

    fn on_efa(&self) -> bool {
        self.cx
            .vendors()
            .is_some_and(|v| v.contains(&Vendor::Efa) && !v.contains(&Vendor::Mlx5))
    }

    fn carried_by_mnnvl(&self) -> bool {
        self.cx.on_mnnvl() && self.has("cuda_ipc")
    }

    fn nothing_enabled(&self) -> Option<Problem> {
        (self.chosen.data.is_empty()).then(|| {
            Problem::fail(
                "1.2",
                format!(
                    "no name in it is a transport that can carry data ({}), so UCX stops with \"no usable transports/devices\"",
                    if self.chosen.unknown.is_empty() {
                        "helpers of the first contact only".to_owned()
                    } else {
                        format!("unknown: {}", quoted(&self.chosen.unknown))
                    }
                ),
                Cure::WithGoodList(|list| {
                    format!("write {list}, or remove UCX_TLS; names are case-sensitive, with commas and no blanks between them")
                }),
            )
        })
    }

    /// R1.
    fn gpu_memory_unseen(&self) -> Option<Problem> {
        if self.cx.host_buffers || self.chosen.data.is_empty() {
            return None;
        }
        let needed = self.lacks(self.cx.detectors())?;
        let but = if self.has("cuda_ipc") && needed == "cuda_copy" {
            "; cuda_ipc does not recognise GPU memory"
        } else {
            ""
        };
        let with_blanks = |name: &&String| name.trim() == needed;
        if let Some(name) = self.chosen.unknown.iter().find(with_blanks) {
            return Some(Problem::fail(
                "R1",
                format!(
                    "\"{name}\" is no transport, since blanks belong to a name, so {needed} is not enabled: UCX takes GPU memory for host memory and NIXL refuses to register it{but}"
                ),
                Cure::act(format!("take the blanks out of \"{name}\"")),
            ));
        }
        Some(Problem::fail(
            "R1",
            format!(
                "{needed} is not enabled, so UCX takes GPU memory for host memory and NIXL refuses to register it{but}"
            ),
            self.enable(needed),
        ))
    }

    fn enable(&self, transport: &str) -> Cure {
        Cure::Do(
            if let Some(since) = too_old_for(transport, self.cx.ucx.unwrap_or(STRICTEST_UCX)) {
                format!("use UCX {since} or later, which knows {transport}")
            } else if self.chosen.negated {
                format!("do not forbid {transport}; removing UCX_TLS is best")
            } else {
                format!("add {transport} to the list, or remove UCX_TLS")
            },
        )
    }

    /// R2, R3 and R7, with R6 as the way out.
    fn no_rdma(&self) -> Option<Problem> {
        if !self.rdma.is_empty() || self.chosen.data.is_empty() || self.carried_by_mnnvl() {
            return None;
        }
        if self.no_device() && self.chosen.negated && self.has("rc_verbs") && !self.cx.on_mnnvl() {
            // The list takes no RDMA away: that there is none is another finding, as it is when the variable is unset.
            return None;
        }
        let crossing = self.cx.kv_crosses_nodes();
        if !crossing && self.gpu_to_gpu() && !self.cx.host_buffers {
            return None;
        }
        if self.cx.host_buffers {
            return Some(Problem::warn(
                "R2",
                "no RDMA transport is enabled and KV buffers are in host memory: a deliberate choice that moves KV over TCP (inside a node over shared memory), far below the speed of RDMA",
                Cure::WithGoodList(|list| {
                    format!(
                        "write {list} and keep the KV buffers on the GPU, if the nodes have RDMA"
                    )
                }),
            ));
        }
        if self.has_ud() && crossing && self.cx.vendors().is_none_or(|v| !v.is_empty()) {
            return Some(Problem::warn(
                "R3",
                "ud is the only RDMA transport that can carry data; it has no direct put or get, so KV is copied through the CPU",
                if self.on_efa() {
                    Cure::act("add srd, or select the LIBFABRIC backend")
                } else {
                    Cure::WithGoodList(|list| format!("add rc: {list}"))
                },
            ));
        }
        if crossing && self.has("cuda_ipc") && self.has("tcp") && self.cx.mnnvl == Tri::Unknown {
            return Some(Problem::warn(
                "R6",
                "no RDMA transport is enabled: right where NVLink joins the nodes (GB200, GB300 with a ComputeDomain), which is not known; anywhere else KV goes over TCP",
                Cure::WithGoodList(|list| {
                    format!("claim a ComputeDomain on both roles, or write {list}")
                }),
            ));
        }
        Some(self.no_rdma_fail(crossing))
    }

    fn no_rdma_fail(&self, crossing: bool) -> Problem {
        let named: Vec<&str> = RDMA_DATA.into_iter().filter(|t| self.has(t)).collect();
        if self.no_device() {
            return Problem::fail(
                "R2",
                match self.cx.on_mnnvl() {
                    true => format!(
                        "without cuda_ipc nothing uses NVLink between nodes, and {}: KV goes over TCP at best",
                        self.no_port()
                    ),
                    false => format!(
                        "{}, and nothing else in it is fast between nodes",
                        self.no_port()
                    ),
                },
                Cure::act(if self.cx.on_mnnvl() {
                    "allow cuda_ipc, which uses NVLink between nodes"
                } else {
                    "give the pod an RDMA device; without one KV between nodes goes over TCP at best"
                }),
            );
        }
        if !named.is_empty() {
            return Problem::fail(
                "R7",
                format!(
                    "{} do not exist on the RDMA ports of this pod ({}), so no RDMA transport is left",
                    named.join(" and "),
                    ports(self.cx)
                ),
                Cure::GoodList,
            );
        }
        if !crossing {
            let direct = self.lacks(self.direct()).unwrap_or("cuda_ipc");
            return Problem::fail(
                "1.3",
                format!(
                    "neither RDMA nor a direct way between GPUs ({direct}) is enabled, so KV between the workers of the node is copied through the CPU"
                ),
                self.enable(direct),
            );
        }
        if self.chosen.negated {
            return Problem::fail(
                "R2",
                "every RDMA transport is forbidden, so KV between nodes goes over TCP",
                Cure::act("remove UCX_TLS; the default uses RDMA where it is there"),
            );
        }
        Problem::fail(
            "R2",
            "no RDMA transport (rc, dc, srd) is enabled, so KV between nodes goes over TCP",
            Cure::GoodList,
        )
    }

    /// R4. Shared-memory transports do not count: NIXL asks for peer error handling, which they refuse.
    fn no_active_messages(&self) -> Option<Problem> {
        let ud = self.has_ud() && !self.no_device();
        let carries = self.has("tcp") || ud || !self.rdma.is_empty();
        if carries || self.chosen.data.is_empty() {
            return None;
        }
        let names_rdma = self.has_ud() || RDMA_DATA.iter().any(|t| self.has(t));
        let without_device = names_rdma && self.no_device();
        let reason = match without_device {
            true => format!(
                "no transport for active messages between pods is left, so UCX cannot make an endpoint: {} and tcp is not enabled",
                self.no_port()
            ),
            false => "no transport for active messages between pods is enabled (rc, dc, ud, srd or tcp), so UCX cannot make an endpoint".to_owned(),
        };
        Some(Problem::fail("R4", reason, Cure::GoodList))
    }

    /// It is known that no RDMA device is there to use.
    fn no_device(&self) -> bool {
        self.cx.vendors().is_some_and(|v| v.is_empty())
    }

    /// In words: a probe saw the ports, a manifest only what is asked for.
    fn no_port(&self) -> &'static str {
        match self.cx.nics {
            Some(_) => "no RDMA port of the pod is ACTIVE",
            None => "the pod asks for no RDMA device",
        }
    }

    /// R8.
    fn no_first_contact(&self) -> Option<Problem> {
        let only_rc = !self.rdma.is_empty() && self.rdma.iter().all(|t| t.starts_with("rc_"));
        if !only_rc || self.has_ud() || self.ud_helps() || self.carried_by_mnnvl() {
            return None;
        }
        let rc = self.rdma.join(" and ");
        Some(if self.chosen.negated {
            Problem::fail(
                "R8",
                format!(
                    "ud is forbidden for the first contact too, which {rc} needs, so no connection can be made"
                ),
                Cure::act("do not forbid ud:aux; removing UCX_TLS is best"),
            )
        } else {
            Problem::fail(
                "R8",
                format!(
                    "{rc} by its real name brings no ud transport for the first contact, so no connection can be made"
                ),
                Cure::act("write the alias rc (or rc_x, rc_v), which brings ud along"),
            )
        })
    }

    /// R5.
    fn no_nvlink(&self) -> Option<Problem> {
        if self.gpu_to_gpu()
            || self.cx.host_buffers
            || !self.has("cuda_copy")
            || self.rdma.is_empty()
        {
            return None;
        }
        if self.cx.on_mnnvl() {
            return Some(Problem::warn(
                "R5",
                "cuda_ipc is off, which turns NVLink between nodes off: KV falls to the NIC",
                Cure::act("allow cuda_ipc, or remove UCX_TLS"),
            ));
        }
        self.cx.kv_may_stay_in_node().then(|| {
            Problem::warn(
                "R5",
                "cuda_ipc is off, so KV between workers of one node loops through the NIC instead of NVLink",
                Cure::act("allow cuda_ipc, or remove UCX_TLS"),
            )
        })
    }

    /// 1.4.
    fn slow_reads(&self) -> Option<Problem> {
        (self.has("cuda_ipc") && self.sees_gpu_memory() && reads_crawl(self.cx)).then(|| {
            Problem::warn(
                "1.4",
                "no NVLink is known between the GPUs, and without it cuda_ipc offers no reads: KV that vLLM reads inside the node goes through active messages, unless UCX_CUDA_IPC_ENABLE_GET_ZCOPY=y is set",
                Cure::act("set UCX_CUDA_IPC_ENABLE_GET_ZCOPY=y"),
            )
        })
    }

    /// Forbidding what does not exist is harmless.
    fn unknown_names(&self) -> Option<Problem> {
        (!self.chosen.unknown.is_empty() && !self.chosen.negated && !self.chosen.data.is_empty())
            .then(|| {
                Problem::warn(
                    "1.2",
                    format!(
                        "{} is no transport of UCX and is skipped with a warning (names are exact: no blanks, no capitals)",
                        quoted(&self.chosen.unknown)
                    ),
                    Cure::act(format!("remove or correct {}", quoted(&self.chosen.unknown))),
                )
            })
    }

    fn stray_comma(&self) -> Option<Problem> {
        self.chosen.stray_comma.then(|| {
            Problem::warn(
                "1.1",
                "a leading or doubled comma is an empty name, about which UCX 1.22 and later warn",
                Cure::act("remove the stray comma"),
            )
        })
    }

    fn too_long(&self) -> Option<Problem> {
        (self.chosen.tokens > MASK_BITS).then(|| {
            Problem::warn(
                "1.1",
                format!(
                    "{} names are more than the {MASK_BITS} that UCX keeps track of",
                    self.chosen.tokens
                ),
                Cure::act("name each transport once"),
            )
        })
    }

    /// ud may make the first contact.
    fn ud_helps(&self) -> bool {
        self.chosen.auxiliary.iter().any(|t| t.starts_with("ud_"))
    }

    fn good_rule(&self) -> &'static str {
        if self.rdma.is_empty() && self.carried_by_mnnvl() {
            "R6"
        } else {
            "R1-R7"
        }
    }

    fn what_it_leaves(&self, value: &str) -> String {
        if self.rdma.is_empty() && self.carried_by_mnnvl() {
            return format!(
                "{value:?}: KV goes over NVLink between nodes (cuda_ipc), and the other transports carry control messages only"
            );
        }
        let mut out = format!("{value:?} leaves ");
        out.push_str(&match self.rdma.as_slice() {
            [] => "no RDMA transport, which nothing here needs".to_owned(),
            rdma => format!("{} for RDMA", rdma.join(", ")),
        });
        if self.sees_gpu_memory() {
            out.push_str(", recognises GPU memory");
        }
        if self.gpu_to_gpu() {
            out.push_str(match self.cx.nvswitch() {
                Tri::No => ", and reaches the other GPUs of a node directly",
                Tri::Yes | Tri::Unknown => ", and uses NVLink inside a node",
            });
        }
        if self.chosen.negated && self.has("rc_verbs") && !self.has_ud() {
            out.push_str(if self.ud_helps() {
                "; ud stays for the first contact"
            } else {
                "; ud is gone, for the first contact too"
            });
        }
        if self.has("gdr_copy") && !self.chosen.negated {
            out.push_str("; gdr_copy may be absent, which costs one warning and nothing else");
        }
        out
    }
}

/// KV may stay in a node whose GPUs have no NVLink, so that `cuda_ipc` offers no zero-copy get by default. One GPU alone
/// says nothing about the links of the node.
pub(super) fn reads_crawl(cx: &Context) -> bool {
    cx.nvswitch() == Tri::No
        && cx.gpu_count() != Some(1)
        && cx.kv_may_stay_in_node()
        && !cx.on_mnnvl()
        && !cx.host_buffers
}

/// Whether ports of this vendor offer the transport. A name that says nothing may be any vendor.
fn exists_on(transport: &str, vendor: Vendor) -> bool {
    match (transport, vendor) {
        ("srd", v) => matches!(v, Vendor::Efa),
        (_, Vendor::Efa) => false,
        ("rc_verbs", _) => true,
        (_, v) => matches!(v, Vendor::Mlx5 | Vendor::Unknown),
    }
}

fn ports(cx: &Context) -> String {
    cx.active_ports().map_or("EFA".to_owned(), |ports| {
        let names: Vec<String> = ports.map(|n| format!("{}:{}", n.device, n.port)).collect();
        names.join(", ")
    })
}

fn quoted<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    let names: Vec<String> = names.into_iter().map(|n| format!("{n:?}")).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use crate::judge::context::{Accelerator, Context, Tri};
    use crate::judge::{Judgement, judge};
    use crate::report::Status::{Fail, Ok, Warn};

    fn at(value: &str, place: &str) -> Judgement {
        let cx = Context::for_explain(place).expect("a place");
        judge("UCX_TLS", Some(value), &cx)
    }

    #[test]
    fn a_blank_in_a_name_is_what_is_taken_out() {
        for value in ["rc,cuda_copy ", "rc, cuda_copy", "rc,cuda_copy ,cuda_ipc"] {
            let said = at(value, "");
            assert_eq!((said.status, said.rule), (Fail, "R1"), "{value}");
            let fix = said.fix.unwrap_or_default();
            assert!(fix.starts_with("take the blanks out of"), "{value}: {fix}");
        }
    }

    #[test]
    fn lists_on_a_known_machine() {
        let many = vec!["rc,cuda_copy,cuda_ipc"; 22].join(",");
        for (value, place, status, rule) in [
            ("all", "", Ok, "R9"),
            ("^all", "", Ok, "R9"),
            ("", "", Fail, "1.1"),
            ("^", "", Fail, "1.1"),
            ("all,tcp", "", Fail, "1.1"),
            ("tcp,all", "", Fail, "R1"),
            ("tcp:aux,ud:aux", "", Fail, "1.2"),
            ("rc_v,cuda_copy", "", Ok, "R1-R7"),
            ("dc_x,cuda_copy,cuda_ipc", "", Ok, "R1-R7"),
            ("gdr_copy,rc,cuda_copy,cuda_ipc", "", Ok, "R1-R7"),
            ("cuda,tcp,sm,self", "", Fail, "R2"),
            ("cuda,tcp,sm,self", "internode=no", Ok, "R1-R7"),
            ("cuda_copy,tcp", "internode=no", Fail, "1.3"),
            ("cuda_copy,cuda_ipc,sm", "internode=no", Fail, "R4"),
            ("ud,cuda_copy,cuda_ipc", "", Warn, "R3"),
            ("rc_mlx5,cuda_copy", "", Fail, "R8"),
            ("rc_verbs,cuda_copy,ud:aux", "", Ok, "R1-R7"),
            ("^ud,ud:aux", "", Ok, "R1-R7"),
            ("^ud,ud:aux", "nics=bnxt_re0:1/Ethernet/ACTIVE", Fail, "R8"),
            ("^ud,ud:aux,dc", "", Fail, "R8"),
            (
                "cuda_copy,cuda_ipc,tcp",
                "internode=no;gpu=8xL40S",
                Warn,
                "1.4",
            ),
            (
                "rc,cuda_copy,cuda_ipc",
                "internode=no;gpu=8xH100",
                Warn,
                "1.4",
            ),
            ("^tcp", "internode=no;gpu=8xH100", Warn, "1.4"),
            ("all", "internode=no;gpu=8xL40S", Ok, "R9"),
            ("cuda_copy,cuda_ipc,tcp", "internode=no", Ok, "R1-R7"),
            (
                "cuda_copy,cuda_ipc,tcp",
                "internode=no;gpu=1xL40S",
                Ok,
                "R1-R7",
            ),
            ("rc,cuda_copy,cuda_ipc", "gpu=8xL40S", Ok, "R1-R7"),
            ("rc,cuda_copy", "internode=no;gpu=8xL40S", Warn, "R5"),
            ("cuda_copy,cuda_ipc,tcp", "mnnvl=yes", Ok, "R6"),
            ("cuda_copy,cuda_ipc,tcp", "mnnvl=unknown", Warn, "R6"),
            ("cuda_copy,cuda_ipc", "mnnvl=yes", Fail, "R4"),
            ("^cuda_ipc", "mnnvl=yes;nics=none", Fail, "R2"),
            ("^cuda_ipc", "nics=none", Ok, "R1-R7"),
            ("^cuda_ipc", "internode=no", Warn, "R5"),
            ("srd,cuda_copy", "efa=yes", Ok, "R1-R7"),
            ("ib,cuda_copy", "efa=yes;ucx=1.19", Warn, "R3"),
            ("ib,cuda_copy", "efa=yes", Ok, "R1-R7"),
            ("rc,cuda_copy,cuda_ipc", "nics=none", Fail, "R2"),
            ("rc,cuda_copy,cuda_ipc", "nics=mlx5_0:1/IB/DOWN", Fail, "R2"),
            (
                "rc,cuda_copy",
                "nics=bnxt_re0:1/Ethernet/ACTIVE",
                Ok,
                "R1-R7",
            ),
            ("rc,cuda_copy", "nics=ibp12s0:1/IB/ACTIVE", Ok, "R1-R7"),
            (",rc,cuda_copy", "ucx=1.23", Warn, "1.1"),
            (",rc,cuda_copy", "ucx=1.20", Ok, "R1-R7"),
            (",rc,cuda_copy", "ucx=unknown", Warn, "1.1"),
            ("rc,cuda_copy,", "ucx=1.23", Ok, "R1-R7"),
            (",", "ucx=1.23", Fail, "1.2"),
            (",", "ucx=1.20", Fail, "1.1"),
            (&many, "", Warn, "1.1"),
            ("all,rc", "backend=LIBFABRIC", Ok, "8"),
            ("rc,cuda_copy", "efa=yes;backend=unknown", Warn, "R7"),
            ("srd,cuda_copy", "efa=yes;backend=unknown", Ok, "8"),
        ] {
            let got = at(value, place);
            assert_eq!(
                (got.status, got.rule),
                (status, rule),
                "{value:?} at {place:?}: {got:?}"
            );
        }
    }

    #[test]
    fn every_grave_problem_is_named_with_a_way_out() {
        let got = at("tcp", "");
        assert!(
            got.reason.contains("GPU memory") && got.reason.contains("TCP"),
            "{got:?}"
        );
        assert!(got.carries_kv && got.fix.is_some());
    }

    #[test]
    fn the_way_out_leads_out_of_everything() {
        for (value, place, fix) in [
            (
                "tcp",
                "",
                "write UCX_TLS=rc_x,rc,cuda_copy,cuda_ipc, or remove UCX_TLS",
            ),
            (
                "rc_x,cuda_copy",
                "nics=bnxt_re0:1/Ethernet/ACTIVE",
                "write UCX_TLS=rc,cuda_copy,cuda_ipc, or remove UCX_TLS",
            ),
            (
                "tcp",
                "mnnvl=yes",
                "write UCX_TLS=cuda_copy,cuda_ipc,tcp, or remove UCX_TLS",
            ),
            (
                "sm",
                "internode=no;nics=none",
                "write UCX_TLS=cuda_copy,cuda_ipc,tcp, or remove UCX_TLS",
            ),
            (
                "tcp",
                "nics=none",
                "remove UCX_TLS, and give the pod an RDMA device; without one KV between nodes goes over TCP at best",
            ),
            (
                "rc,tcp",
                "efa=yes",
                "remove UCX_TLS, and select the LIBFABRIC backend on EFA",
            ),
            (
                "rc,cuda_ipc",
                "",
                "add cuda_copy to the list, or remove UCX_TLS",
            ),
            (
                "cuda_copy,cuda_ipc,tcp",
                "internode=no;gpu=8xL40S",
                "set UCX_CUDA_IPC_ENABLE_GET_ZCOPY=y",
            ),
            (
                ",rc,nonsense,cuda_copy",
                "ucx=1.23",
                "remove or correct \"nonsense\"; remove the stray comma",
            ),
        ] {
            let got = at(value, place);
            assert_eq!(got.fix.as_deref(), Some(fix), "{value:?} at {place:?}");
        }
        for (accelerator, value, list) in [
            (Accelerator::Intel, "tcp", "UCX_TLS=rc_x,rc,ze_copy,ze_ipc,"),
            (
                Accelerator::Amd,
                "tcp",
                "UCX_TLS=rc_x,rc,rocm_copy,rocm_ipc,",
            ),
            (
                Accelerator::Unknown,
                "ze_ipc,tcp",
                "UCX_TLS=rc_x,rc,ze_copy,ze_ipc,",
            ),
        ] {
            let cx = Context {
                accelerator,
                ..Context::default()
            };
            let got = judge("UCX_TLS", Some(value), &cx);
            let fix = got.fix.unwrap_or_default();
            assert!(fix.contains(list), "{value}: {fix}");
        }
    }

    #[test]
    fn what_becomes_of_ud_is_said_as_it_is() {
        for (value, ud) in [
            ("^ud", "ud stays for the first contact"),
            ("^ud,ud:aux", "ud is gone, for the first contact too"),
        ] {
            let got = at(value, "");
            assert!(got.reason.contains(ud), "{value}: {got:?}");
        }
        assert!(!at("^tcp", "").reason.contains("; ud"));
    }

    #[test]
    fn a_manifest_leaves_most_unknown() {
        let nothing = Context::default();
        let host = Context {
            host_buffers: true,
            ..Context::default()
        };
        let intel = Context {
            accelerator: Accelerator::Intel,
            ..Context::default()
        };
        let nvidia = Context {
            accelerator: Accelerator::Nvidia,
            ..Context::default()
        };
        let no_device = Context {
            rdma: Tri::No,
            mnnvl: Tri::No,
            ..Context::default()
        };
        let domain_alone = Context {
            mnnvl: Tri::Yes,
            ..no_device.clone()
        };
        let domain_and_maybe = Context {
            rdma: Tri::Unknown,
            ..domain_alone.clone()
        };
        let one_node = Context {
            may_share_node: Tri::Yes,
            ..Context::default()
        };
        for (value, cx, expected) in [
            ("rc_x,rc,cuda_copy,cuda_ipc", &nothing, Ok),
            ("^cuda_ipc", &nothing, Ok),
            ("^cuda_ipc", &one_node, Warn),
            // That nothing is requested is a check of its own.
            ("^cuda_ipc", &no_device, Ok),
            ("rc,cuda_copy,cuda_ipc", &no_device, Ok),
            // Who claims a domain and asks for no device has NVLink alone.
            ("cuda_copy,cuda_ipc,tcp", &domain_alone, Ok),
            ("rc,cuda_copy,cuda_ipc,tcp", &domain_alone, Ok),
            ("^ib", &domain_alone, Ok),
            ("rc_x,rc,cuda_copy,cuda_ipc", &domain_alone, Fail),
            ("ud,cuda_copy,cuda_ipc", &domain_alone, Fail),
            ("rc,cuda_copy", &domain_alone, Fail),
            ("rc,cuda_copy,tcp", &domain_alone, Fail),
            ("^cuda_ipc", &domain_alone, Fail),
            ("rc_x,rc,cuda_copy,cuda_ipc", &domain_and_maybe, Ok),
            ("^cuda_ipc", &domain_and_maybe, Warn),
            ("^cuda", &nothing, Fail),
            ("^cuda_copy", &nvidia, Fail),
            ("tcp,self", &nothing, Fail),
            ("tcp,self", &host, Warn),
            ("ib,rc,ud,rc_verbs,ud_verbs,ze_copy", &nothing, Ok),
            ("ib,rc,ud,rc_verbs,ud_verbs,ze_copy", &intel, Ok),
            ("ib,rc,ud,rc_verbs,ud_verbs,ze_copy", &nvidia, Fail),
            ("rc,cuda_copy", &intel, Fail),
        ] {
            assert_eq!(
                judge("UCX_TLS", Some(value), cx).status,
                expected,
                "{value} {cx:?}"
            );
        }
    }
}
