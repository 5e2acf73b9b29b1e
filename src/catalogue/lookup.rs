//! Finding a variable by its name, or by what was probably meant.

use super::variable::Variable;
use super::{dynamo, engines, libfabric, nccl, nixl, other, ucx, ucx_names, ucx_tuning};
use std::collections::HashMap;
use std::sync::LazyLock;

/// Rows by owner; the order of the variable page and of every listing.
static TABLES: [&[Variable]; 8] = [
    ucx::TABLE,
    ucx_tuning::TABLE,
    nixl::TABLE,
    nccl::TABLE,
    libfabric::TABLE,
    engines::TABLE,
    dynamo::TABLE,
    other::TABLE,
];

/// Prefixes whose misspelt names are worth a suggestion.
const SUGGESTED: [&str; 4] = ["UCX_", "NCCL_", "NIXL_", "FI_"];

/// Every variable, in a stable order.
pub fn all() -> impl Iterator<Item = &'static Variable> {
    TABLES.iter().flat_map(|table| table.iter())
}

/// The variable of this exact name. Called for every environment entry of the input, hence the map.
pub fn find(name: &str) -> Option<&'static Variable> {
    static BY_NAME: LazyLock<HashMap<&'static str, &'static Variable>> =
        LazyLock::new(|| all().map(|v| (v.name, v)).collect());
    BY_NAME.get(name).copied()
}

/// The catalogued name that was probably meant: at most two typing errors away, and of the same prefix. None for a
/// name that is right as it stands.
pub fn nearest(name: &str) -> Option<&'static str> {
    if find(name).is_some() || ucx_names::ucx_name_known(name) {
        return None;
    }
    let prefix = SUGGESTED.iter().find(|p| name.starts_with(*p))?;
    all()
        .filter(|v| v.name.starts_with(prefix))
        .filter(|v| v.name.len().abs_diff(name.len()) <= 2)
        .map(|v| {
            (
                strsim::damerau_levenshtein(name, v.name),
                !v.critical,
                v.name,
            )
        })
        .filter(|(distance, _, _)| *distance <= 2)
        .min()
        .map(|(_, _, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::ValueKind;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_findable() {
        let mut seen = BTreeSet::new();
        for v in all() {
            assert!(seen.insert(v.name), "{} is listed twice", v.name);
            assert_eq!(find(v.name).map(|f| f.name), Some(v.name));
            assert!(
                !v.meaning.is_empty() && v.meaning.ends_with('.'),
                "{}",
                v.name
            );
            assert!(!v.source.is_empty(), "{}", v.name);
        }
        assert!(find("PATH").is_none());
    }

    #[test]
    fn the_eleven_of_the_original_are_there() {
        let original: BTreeSet<_> = all().filter(|v| v.original).map(|v| v.name).collect();
        let expected = [
            "UCX_TLS",
            "UCX_NET_DEVICES",
            "UCX_IB_GPU_DIRECT_RDMA",
            "UCX_RNDV_SCHEME",
            "NCCL_IB_HCA",
            "NCCL_IB_DISABLE",
            "NCCL_IB_GID_INDEX",
            "NCCL_NET_GDR_LEVEL",
            "NCCL_P2P_LEVEL",
            "NCCL_SOCKET_IFNAME",
            "NIXL_PLUGIN_DIR",
        ];
        assert_eq!(original, BTreeSet::from(expected));
    }

    /// "text" tells nobody what to write.
    #[test]
    fn a_form_is_known_of_nearly_every_value() {
        let text: Vec<_> = all()
            .filter(|v| v.kind == ValueKind::Text)
            .map(|v| v.name)
            .collect();
        assert_eq!(text, ["VLLM_GPU_NIC_PCIE_MAPPING"]);
        for v in all() {
            assert!(!v.kind.to_string().is_empty(), "{}", v.name);
            assert_eq!(
                v.kind == ValueKind::Unread,
                v.removed_in.is_some(),
                "{}",
                v.name
            );
        }
        let takes = |name: &str| find(name).map(|v| v.kind.to_string()).unwrap_or_default();
        for (name, word) in [
            ("UCX_RNDV_THRESH", "intra:BYTES"),
            ("NCCL_IB_HCA", ":port"),
            ("NCCL_SOCKET_IFNAME", "interface"),
            ("FI_PROVIDER", "efa"),
            ("SGLANG_DISAGGREGATION_NIXL_BACKEND", "LIBFABRIC"),
            ("TRTLLM_NIXL_KVCACHE_BACKEND", "LIBFABRIC"),
            ("UCX_IB_ROCE_SUBNETS", "^"),
        ] {
            assert!(takes(name).contains(word), "{name}: {}", takes(name));
        }
    }

    #[test]
    fn every_catalogued_ucx_name_is_a_name_ucx_has_or_had() {
        for v in all().filter(|v| v.name.starts_with("UCX_")) {
            assert!(ucx_names::ucx_name_known(v.name), "{}", v.name);
        }
    }

    #[test]
    fn suggestions_are_for_slips_only() {
        for (typed, meant) in [
            ("UCX_NET_DEVICE", Some("UCX_NET_DEVICES")),
            ("UCX_TSL", Some("UCX_TLS")),
            ("NCCL_IB_DISABEL", Some("NCCL_IB_DISABLE")),
            ("FI_PROVIDERS", Some("FI_PROVIDER")),
            ("NIXL_PLUGIN_DIRS", Some("NIXL_PLUGIN_DIR")),
            ("UCX_TLS", None),
            ("UCX_MAX_RMA_LANES", None),
            ("UCX_SOMETHING_ELSE", None),
            ("HOME", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed), meant, "{typed}");
        }
    }
}
