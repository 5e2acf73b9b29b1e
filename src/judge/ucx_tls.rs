//! UCX_TLS: which transports a value leaves, and whether KV can travel on them (rules R1 to R11).

use super::context::{Accelerator, Context, Tri, Vendor};
use super::setting::{STRICTEST_UCX, Setting, Verdict, by_version};
use super::transports::{Selection, Tls, parse};

/// The list that is right on InfiniBand and RoCE with NVIDIA GPUs.
const GOOD_LIST: &str = "UCX_TLS=rc_x,rc,cuda_copy,cuda_ipc";

/// Tokens beyond this do not fit the mask that UCX keeps.
const MASK_BITS: usize = 64;

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
            format!("remove UCX_TLS (the default is best), or write {GOOD_LIST}"),
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
    let problems: Vec<Verdict> = [
        list.nothing_enabled(value),
        list.gpu_memory_unseen(),
        list.no_rdma(),
        list.no_active_messages(),
        list.no_first_contact(),
        list.no_nvlink(),
        list.unknown_names(),
        list.stray_comma(),
        list.too_long(),
    ]
    .into_iter()
    .flatten()
    .collect();
    let Some(worst) = problems.iter().map(|p| p.status).max() else {
        return Verdict::ok(list.good_rule(), list.what_it_leaves(value));
    };
    let mut gravest = problems.into_iter().filter(|p| p.status == worst);
    let Some(mut verdict) = gravest.next() else {
        return Verdict::ok(list.good_rule(), list.what_it_leaves(value));
    };
    for more in gravest {
        verdict.reason.push_str("; ");
        verdict.reason.push_str(&more.reason);
    }
    verdict.reason = format!("{value:?}: {}", verdict.reason);
    verdict
}

/// A list in its place.
struct List<'a> {
    chosen: &'a Selection,
    cx: &'a Context,
    /// RDMA data transports that exist on the ports of this pod.
    rdma: Vec<&'static str>,
}

impl<'a> List<'a> {
    fn new(chosen: &'a Selection, cx: &'a Context) -> Self {
        let vendors = cx.vendors();
        let rdma = ["rc_mlx5", "rc_verbs", "dc_mlx5", "srd"]
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

    /// GPU to GPU without the NIC.
    fn gpu_to_gpu(&self) -> bool {
        let transports: &[&str] = match self.cx.accelerator {
            Accelerator::Nvidia => &["cuda_ipc"],
            Accelerator::Intel => &["ze_ipc"],
            Accelerator::Amd => &["rocm_ipc"],
            Accelerator::Unknown => &["cuda_ipc", "ze_ipc", "rocm_ipc"],
        };
        self.lacks(transports).is_none()
    }

    fn on_efa(&self) -> bool {
        self.cx
            .vendors()
            .is_some_and(|v| v.contains(&Vendor::Efa) && !v.contains(&Vendor::Mlx5))
    }

    fn carried_by_mnnvl(&self) -> bool {
        self.cx.on_mnnvl() && self.has("cuda_ipc")
    }

    fn nothing_enabled(&self, value: &str) -> Option<Verdict> {
        (self.chosen.data.is_empty()).then(|| {
            Verdict::fail(
                "1.2",
                format!(
                    "no name in it is a transport that can carry data ({}), so UCX stops with \"no usable transports/devices\"",
                    if self.chosen.unknown.is_empty() {
                        format!("{value:?} names helpers of the first contact only")
                    } else {
                        format!("unknown: {}", quoted(&self.chosen.unknown))
                    }
                ),
                format!("write {GOOD_LIST}; names are case-sensitive, with commas and no blanks between them"),
            )
        })
    }

    /// R1.
    fn gpu_memory_unseen(&self) -> Option<Verdict> {
        if self.cx.host_buffers || self.chosen.data.is_empty() {
            return None;
        }
        let needed = self.lacks(self.cx.detectors())?;
        let but = if self.has("cuda_ipc") && needed == "cuda_copy" {
            "; cuda_ipc does not recognise GPU memory"
        } else {
            ""
        };
        Some(Verdict::fail(
            "R1",
            format!(
                "{needed} is not enabled, so UCX takes GPU memory for host memory and NIXL refuses to register it{but}"
            ),
            if self.chosen.negated {
                format!("do not forbid {needed}; removing UCX_TLS is best")
            } else {
                format!("add {needed} to the list, or remove UCX_TLS")
            },
        ))
    }

    /// R2, R3 and R7, with R6 as the way out.
    fn no_rdma(&self) -> Option<Verdict> {
        if !self.rdma.is_empty() || self.chosen.data.is_empty() || self.carried_by_mnnvl() {
            return None;
        }
        let no_port = self.cx.vendors().is_some_and(|v| v.is_empty());
        if no_port && self.chosen.negated && self.has("rc_verbs") && !self.cx.on_mnnvl() {
            // The list takes no RDMA away: that there is none is another finding, as it is when the variable is unset.
            return None;
        }
        let crossing = self.cx.kv_crosses_nodes();
        if !crossing && self.gpu_to_gpu() && !self.cx.host_buffers {
            return None;
        }
        if self.cx.host_buffers {
            return Some(Verdict::warn(
                "R2",
                "no RDMA transport is enabled and KV buffers are in host memory: a deliberate choice that moves KV over TCP (inside a node over shared memory), far below the speed of RDMA",
                format!(
                    "write {GOOD_LIST} and keep the KV buffers on the GPU, if the nodes have RDMA"
                ),
            ));
        }
        if self.has_ud() && crossing && self.cx.vendors().is_none_or(|v| !v.is_empty()) {
            return Some(Verdict::warn(
                "R3",
                "ud is the only RDMA transport that can carry data; it has no direct put or get, so KV is copied through the CPU",
                if self.on_efa() {
                    "add srd, or select the LIBFABRIC backend".to_owned()
                } else {
                    format!("add rc: {GOOD_LIST}")
                },
            ));
        }
        if crossing && self.has("cuda_ipc") && self.has("tcp") && self.cx.mnnvl == Tri::Unknown {
            return Some(Verdict::warn(
                "R6",
                "no RDMA transport is enabled: right where NVLink joins the nodes (GB200, GB300 with a ComputeDomain), which is not known; anywhere else KV goes over TCP",
                format!("claim a ComputeDomain on both roles, or write {GOOD_LIST}"),
            ));
        }
        Some(self.no_rdma_fail(crossing))
    }

    fn no_rdma_fail(&self, crossing: bool) -> Verdict {
        let named: Vec<&str> = ["rc_mlx5", "rc_verbs", "dc_mlx5", "srd"]
            .into_iter()
            .filter(|t| self.has(t))
            .collect();
        if self.cx.vendors().is_some_and(|v| v.is_empty()) {
            return Verdict::fail(
                "R2",
                "no RDMA port of the pod is ACTIVE, and nothing else in it is fast between nodes",
                if self.cx.on_mnnvl() {
                    "allow cuda_ipc, which uses NVLink between nodes"
                } else {
                    "give the pod an RDMA device; without one KV between nodes goes over TCP at best"
                },
            );
        }
        if !named.is_empty() {
            return Verdict::fail(
                "R7",
                format!(
                    "{} do not exist on the RDMA ports of this pod ({}), so no RDMA transport is left",
                    named.join(" and "),
                    ports(self.cx)
                ),
                if self.on_efa() {
                    "on EFA select the LIBFABRIC backend, or remove UCX_TLS".to_owned()
                } else {
                    "remove UCX_TLS, or name rc (it takes whatever the NIC has) together with cuda_copy".to_owned()
                },
            );
        }
        if !crossing {
            return Verdict::fail(
                "1.3",
                "neither RDMA nor NVLink (cuda_ipc) is enabled, so KV between the workers of the node is copied through the CPU",
                "add cuda_ipc, or remove UCX_TLS",
            );
        }
        Verdict::fail(
            "R2",
            if self.chosen.negated {
                "every RDMA transport is forbidden, so KV between nodes goes over TCP"
            } else {
                "no RDMA transport (rc, dc, srd) is enabled, so KV between nodes goes over TCP"
            },
            match self.chosen.negated {
                true => "remove UCX_TLS; the default uses RDMA where it is there".to_owned(),
                false => format!("write {GOOD_LIST}, or remove UCX_TLS"),
            },
        )
    }

    /// R4. Shared-memory transports do not count: NIXL asks for peer error handling, which they refuse.
    fn no_active_messages(&self) -> Option<Verdict> {
        let carries = self.has("tcp") || self.has_ud() || !self.rdma.is_empty();
        if carries || self.chosen.data.is_empty() {
            return None;
        }
        Some(Verdict::fail(
            "R4",
            "no transport for active messages between pods is enabled (rc, dc, ud, srd or tcp), so UCX cannot make an endpoint",
            if self.cx.on_mnnvl() {
                "write UCX_TLS=cuda_copy,cuda_ipc,tcp".to_owned()
            } else {
                format!("write {GOOD_LIST}")
            },
        ))
    }

    /// R8.
    fn no_first_contact(&self) -> Option<Verdict> {
        let only_rc = !self.rdma.is_empty() && self.rdma.iter().all(|t| t.starts_with("rc_"));
        let helper = self.has_ud() || self.chosen.auxiliary.iter().any(|t| t.starts_with("ud_"));
        (only_rc && !helper && !self.carried_by_mnnvl()).then(|| {
            Verdict::fail(
                "R8",
                format!(
                    "{} by its real name brings no ud transport for the first contact, so no connection can be made",
                    self.rdma.join(" and ")
                ),
                "write the alias rc (or rc_x, rc_v), which brings ud along",
            )
        })
    }

    /// R5.
    fn no_nvlink(&self) -> Option<Verdict> {
        if self.gpu_to_gpu()
            || self.cx.host_buffers
            || !self.has("cuda_copy")
            || self.rdma.is_empty()
        {
            return None;
        }
        if self.cx.on_mnnvl() {
            return Some(Verdict::warn(
                "R5",
                "cuda_ipc is off, which turns NVLink between nodes off: KV falls to the NIC",
                "allow cuda_ipc, or remove UCX_TLS",
            ));
        }
        self.cx.kv_may_stay_in_node().then(|| {
            Verdict::warn(
                "R5",
                "cuda_ipc is off, so KV between workers of one node loops through the NIC instead of NVLink",
                "allow cuda_ipc, or remove UCX_TLS",
            )
        })
    }

    /// Forbidding what does not exist is harmless.
    fn unknown_names(&self) -> Option<Verdict> {
        (!self.chosen.unknown.is_empty() && !self.chosen.negated && !self.chosen.data.is_empty())
            .then(|| {
                Verdict::warn(
                    "1.2",
                    format!(
                        "{} is no transport of UCX and is skipped with a warning (names are exact: no blanks, no capitals)",
                        quoted(&self.chosen.unknown)
                    ),
                    format!("remove or correct {}", quoted(&self.chosen.unknown)),
                )
            })
    }

    fn stray_comma(&self) -> Option<Verdict> {
        self.chosen.stray_comma.then(|| {
            Verdict::warn(
                "1.1",
                "a leading or doubled comma is an empty name, about which UCX 1.22 and later warn",
                "remove the stray comma",
            )
        })
    }

    fn too_long(&self) -> Option<Verdict> {
        (self.chosen.tokens > MASK_BITS).then(|| {
            Verdict::warn(
                "1.1",
                format!(
                    "{} names are more than the {MASK_BITS} that UCX keeps track of",
                    self.chosen.tokens
                ),
                "name each transport once",
            )
        })
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
            out.push_str(", and uses NVLink inside a node");
        }
        if self.chosen.negated && self.has("rc_verbs") && !self.has_ud() {
            out.push_str("; ud stays for the first contact");
        }
        if self.has("gdr_copy") && !self.chosen.negated {
            out.push_str("; gdr_copy may be absent, which costs one warning and nothing else");
        }
        out
    }
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
