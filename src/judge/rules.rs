//! The rules behind the verdicts, as data: the page of rules and `explain RULE` are made from this table.

/// One rule.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// What a judgement cites: `R1`, `D6`, `5.3`. Several that belong together are separated by a comma.
    pub id: &'static str,
    /// What it is about.
    pub subject: &'static str,
    /// The rule, in a sentence or two.
    pub text: &'static str,
}

impl Rule {
    /// Does a citation (`R1`, or a range such as `R1-R7`) mean this rule?
    pub fn is_cited_by(&self, citation: &str) -> bool {
        let mut own = self.id.split(", ");
        match citation.split_once("-R").map(|(from, to)| {
            (
                from.trim_start_matches('R').parse::<u32>(),
                to.parse::<u32>(),
            )
        }) {
            Some((Ok(from), Ok(to))) => own.any(|id| {
                id.strip_prefix('R')
                    .and_then(|n| n.parse().ok())
                    .is_some_and(|n: u32| (from..=to).contains(&n))
            }),
            _ => own.any(|id| id.eq_ignore_ascii_case(citation)),
        }
    }
}

const fn rule(id: &'static str, subject: &'static str, text: &'static str) -> Rule {
    Rule { id, subject, text }
}

/// Every rule that a judgement may cite.
#[rustfmt::skip]
pub static RULES: &[Rule] = &[
    rule("1.1", "UCX_TLS", "Grammar: one `^` at the very front negates the whole list; no blanks are trimmed; names are case-sensitive; `all` counts only as the first and only name; the order has no meaning. An empty list stops UCX"),
    rule("1.2", "UCX_TLS", "An unknown name is skipped with one warning; when nothing is left, UCX does not start"),
    rule("R1", "UCX_TLS", "Without `cuda_copy` (Intel: `ze_copy`, AMD: `rocm_copy`) GPU memory is taken for host memory, and there is no dmabuf. `cuda_ipc` is no substitute"),
    rule("R2", "UCX_TLS", "No RDMA transport (`rc*`, `dc*`, `srd`) while traffic crosses nodes: KV goes over TCP"),
    rule("R3", "UCX_TLS", "`ud` alone has no zero-copy put and get"),
    rule("R4", "UCX_TLS", "No transport for active messages: no endpoint can be made"),
    rule("R5", "UCX_TLS", "Without `cuda_ipc`, KV inside one node (or one multi-node NVLink domain) loops through the NIC"),
    rule("R6", "UCX_TLS", "Inside a multi-node NVLink domain `cuda_copy,cuda_ipc,tcp` is right: NVLink carries KV, TCP only control"),
    rule("R7", "UCX_TLS", "`rc_x` and `dc` exist on mlx5 hardware only; EFA has `srd` and `ud` only"),
    rule("R8", "UCX_TLS", "`rc_mlx5` and `rc_verbs` by their real names bring no `ud` for the first contact"),
    rule("R9", "UCX_TLS", "Unset, or `all`, is the best default"),
    rule("R10", "UCX_TLS", "No `tcp` in the list is fine: a broken fabric then fails loudly"),
    rule("R11", "UCX_TLS", "`gdr_copy` named but absent is harmless"),
    rule("D1", "UCX_NET_DEVICES", "Unset, or `all`, is good: NICs are chosen by bandwidth and distance to the GPU. It does not fall back to a management NIC"),
    rule("D2", "UCX_NET_DEVICES", "Only network interfaces (`eth0`): RDMA is off"),
    rule("D3", "UCX_NET_DEVICES", "A device that is missing or not ACTIVE is dropped; with none left, no network is left"),
    rule("D4", "UCX_NET_DEVICES", "A device without `:port` is unknown up to UCX 1.20"),
    rule("D5", "UCX_NET_DEVICES", "`^` works from UCX 1.21, ranges from 1.22, globs never"),
    rule("D6", "UCX_NET_DEVICES", "One NIC for several GPUs: all share it, and the choice by distance is lost"),
    rule("D7", "UCX_NET_DEVICES", "Blanks, `;` or quotes inside the value make one unknown name"),
    rule("D8", "UCX_NET_DEVICES", "A bond is a normal RoCE device"),
    rule("V1", "Other variables", "An invalid value stops UCX, drops a whole memory domain (all InfiniBand, for `UCX_IB_GPU_DIRECT_RDMA=true`), or is ignored, depending on where the option lives"),
    rule("V2", "Other variables", "A `UCX_*` name that no version reads is ignored"),
    rule("N0", "Other variables", "NCCL reads a word in an integer variable as 0: `NCCL_IB_DISABLE=true` leaves InfiniBand on"),
    rule("N1", "Other variables", "A list that matches no ACTIVE port: NCCL falls to sockets without a word"),
    rule("N2", "Other variables", "InfiniBand and RoCE ports do not mix: where both are ACTIVE, NCCL_IB_HCA must select ports of one kind"),
    rule("N3", "Other variables", "NCCL_SOCKET_IFNAME unset is fine"),
    rule("M13", "Other variables", "EFA: FI_EFA_ENABLE_SHM_TRANSFER=0 keeps GPU buffers whole when prefill and decode share a node"),
    rule("F1", "Other variables", "`expandable_segments:True` makes PyTorch allocate memory that is registered slowly or not at all"),
    rule("I1, I5", "Other variables", "Addresses and ports of the handshake: loopback and wildcard addresses reach no other pod; ports must not overlap"),
    rule("2.3, 3.1, 3.2", "Other variables", "UCX: rails, parsing of values, the table of variables"),
    rule("5.1, 5.2, 5.3", "Other variables", "NCCL: parsing, lists of devices and interfaces, the table of variables"),
    rule("6.1", "Other variables", "GID tables as the kernel shows them"),
    rule("8", "Other variables", "EFA and libfabric"),
    rule("M9.5", "Other variables", "NIXL telemetry"),
    rule("catalogue", "Other variables", "Nothing more than the kind of the value decides"),
    rule("10.1", "Other variables", "The name is not in the catalogue"),
    rule("1.3, 1.4, 2.1", "Other variables", "UCX: what each transport gives to NIXL, reads over NVLink, and which names of devices each version accepts"),
    rule("4, 4.2, 4.3", "Other variables", "GPUDirect RDMA: peer memory or dmabuf, and what gdrcopy is not"),
    rule("6.5, 3.3, 7, 5, 2, 6", "Other variables", "Fabric state of NVLink systems, log levels, and what else a value may refer to"),
];

/// The rules that a citation means.
pub fn cited(citation: &str) -> impl Iterator<Item = &'static Rule> {
    RULES.iter().filter(move |rule| rule.is_cited_by(citation))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Calls whose first string is the rule, whatever stands before it.
    const CITING: [&str; 9] = [
        "Verdict::ok(",
        "Verdict::warn(",
        "Verdict::fail(",
        "Verdict::bad(",
        "Problem::fail(",
        "Problem::warn(",
        "Meaning::Nothing(",
        "read_by_nothing(",
        "rule: ",
    ];

    #[test]
    fn every_citation_in_the_code_is_a_rule() {
        let mut cited_in_code = BTreeSet::new();
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/src/judge");
        for file in std::fs::read_dir(root).unwrap().flatten() {
            if file.file_name() == "rules.rs" {
                continue;
            }
            let text = std::fs::read_to_string(file.path()).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap().to_owned();
            for part in CITING.iter().flat_map(|call| code.split(call).skip(1)) {
                let before_the_end = part.split(['}', ';']).next().unwrap_or_default();
                let first = before_the_end.split('"').nth(1).unwrap_or_default();
                let shaped = |c: char| c.is_ascii_alphanumeric() || ".-".contains(c);
                if !first.is_empty() && first.chars().all(shaped) {
                    cited_in_code.insert(first.to_owned());
                }
            }
        }
        assert!(cited_in_code.len() > 30, "{cited_in_code:?}");
        let unknown: Vec<_> = cited_in_code
            .iter()
            .filter(|id| cited(id).next().is_none())
            .collect();
        assert!(unknown.is_empty(), "no rule is called {unknown:?}");
    }

    #[test]
    fn ranges_and_lists_are_understood() {
        let ids = |citation: &str| cited(citation).map(|r| r.id).collect::<Vec<_>>();
        assert_eq!(ids("R1-R7").len(), 7);
        assert_eq!(ids("r6"), ["R6"]);
        assert_eq!(ids("R99"), [""; 0]);
    }
}
