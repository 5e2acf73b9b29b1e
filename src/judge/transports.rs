//! The transports of UCX, their aliases by version, and the grammar of UCX_TLS.

use super::context::Version;
use std::collections::BTreeSet;

/// Transports that exist under their own name, with the first version that has them where that matters.
const TRANSPORTS: [(&str, Option<Version>); 28] = [
    ("tcp", None),
    ("self", None),
    ("cma", None),
    ("posix", None),
    ("sysv", None),
    ("xpmem", None),
    ("knem", None),
    ("cuda_copy", None),
    ("cuda_ipc", None),
    ("gdr_copy", None),
    ("rc_verbs", None),
    ("rc_mlx5", None),
    ("dc_mlx5", None),
    ("ud_verbs", None),
    ("ud_mlx5", None),
    ("srd", Some(Version::new(1, 19))),
    ("gga_mlx5", Some(Version::new(1, 19))),
    ("rc_gda", Some(Version::new(1, 21))),
    ("rocm_copy", None),
    ("rocm_ipc", None),
    ("rocm_gdr", None),
    ("ze_copy", Some(Version::new(1, 17))),
    ("ze_ipc", Some(Version::new(1, 17))),
    ("ze_gdr", Some(Version::new(1, 17))),
    ("gaudi_gdr", Some(Version::new(1, 21))),
    ("ugni_rdma", None),
    ("ugni_smsg", None),
    ("ugni_udt", None),
];

/// Transports that can serve for the first contact only, and keep doing so when an alias is forbidden.
const AUXILIARY: [&str; 3] = ["ud_verbs", "ud_mlx5", "ugni_udt"];

/// Members of an alias; `:aux` marks those that serve for the first contact only.
/// From ucx v1.13.1 to v1.23.0, `src/ucp/core/ucp_context.c`, `ucp_tl_aliases`.
const ALIASES: [(&str, Option<Version>, &[&str]); 18] = [
    ("sm", None, &["posix", "sysv", "xpmem", "knem", "cma"]),
    ("shm", None, &["posix", "sysv", "xpmem", "knem", "cma"]),
    ("mm", None, &["posix", "sysv", "xpmem"]),
    (
        "ib",
        None,
        &["rc_verbs", "ud_verbs", "rc_mlx5", "ud_mlx5", "dc_mlx5"],
    ),
    (
        "rc",
        None,
        &["rc_mlx5", "rc_verbs", "ud_mlx5:aux", "ud_verbs:aux"],
    ),
    ("rc_v", None, &["rc_verbs", "ud_verbs:aux"]),
    ("rc_x", None, &["rc_mlx5", "ud_mlx5:aux"]),
    ("ud", None, &["ud_mlx5", "ud_verbs"]),
    ("ud_v", None, &["ud_verbs"]),
    ("ud_x", None, &["ud_mlx5"]),
    ("dc", None, &["dc_mlx5", "ud_mlx5:aux"]),
    ("dc_x", None, &["dc_mlx5", "ud_mlx5:aux"]),
    ("cuda", None, &["cuda_copy", "cuda_ipc", "gdr_copy"]),
    ("rocm", None, &["rocm_copy", "rocm_ipc", "rocm_gdr"]),
    (
        "ze",
        Some(Version::new(1, 17)),
        &["ze_copy", "ze_ipc", "ze_gdr"],
    ),
    ("gaudi", Some(Version::new(1, 21)), &["gaudi_gdr"]),
    ("gga", Some(Version::new(1, 19)), &["gga_mlx5"]),
    ("ugni", None, &["ugni_smsg", "ugni_udt:aux", "ugni_rdma"]),
];

/// What later versions added to the alias `ib`.
const IB_ADDITIONS: [(Version, &[&str]); 3] = [
    (
        Version::new(1, 19),
        &["gga_mlx5", "ud_verbs:aux", "ud_mlx5:aux"],
    ),
    (Version::new(1, 20), &["srd"]),
    (Version::new(1, 21), &["rc_gda"]),
];

/// A value of UCX_TLS, understood.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tls {
    /// `all`, also when negated.
    All,
    /// A list.
    List(Selection),
    /// No token at all: UCX refuses to start.
    Empty,
    /// `all` first and more behind it: UCX cannot read its configuration.
    AllWithMore,
}

/// What a list leaves enabled.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Selection {
    /// The list forbids instead of allowing.
    pub(super) negated: bool,
    /// Transports that may carry data.
    pub(super) data: BTreeSet<&'static str>,
    /// Transports that may serve for the first contact.
    pub(super) auxiliary: BTreeSet<&'static str>,
    /// Names that no transport and no alias of this version has, in the order of the alphabet.
    pub(super) unknown: BTreeSet<String>,
    /// A leading or doubled comma, which UCX 1.22 and later report.
    pub(super) stray_comma: bool,
    /// Number of names.
    pub(super) tokens: usize,
}

/// Reads a value as this version of UCX does.
pub(super) fn parse(value: &str, version: Version) -> Tls {
    let (negated, list) = match value.strip_prefix('^') {
        Some(rest) => (true, rest),
        None => (false, value),
    };
    let tokens = split(list, version);
    match tokens.as_slice() {
        [] => Tls::Empty,
        ["all"] => Tls::All,
        ["all", ..] => Tls::AllWithMore,
        tokens => Tls::List(select(negated, tokens, version)),
    }
}

/// Up to 1.21 `strtok` drops empty tokens; from 1.22 only a trailing one is dropped.
fn split(list: &str, version: Version) -> Vec<&str> {
    if version < Version::new(1, 22) {
        return list.split(',').filter(|t| !t.is_empty()).collect();
    }
    let mut tokens: Vec<&str> = list.split(',').collect();
    if tokens.last() == Some(&"") {
        tokens.pop();
    }
    tokens
}

fn select(negated: bool, tokens: &[&str], version: Version) -> Selection {
    let mut named = Named::default();
    let mut unknown = BTreeSet::new();
    for token in tokens {
        if !named.add(token, version) && *token != "all" && !token.is_empty() {
            unknown.insert((*token).to_owned());
        }
    }
    let (data, auxiliary) = if negated {
        let exists = || {
            TRANSPORTS
                .iter()
                .filter(move |(_, since)| since.is_none_or(|s| s <= version))
                .map(|(name, _)| *name)
        };
        (
            exists().filter(|t| !named.data.contains(t)).collect(),
            exists()
                .filter(|t| AUXILIARY.contains(t) && !named.auxiliary.contains(t))
                .collect(),
        )
    } else {
        (named.data, named.auxiliary)
    };
    Selection {
        negated,
        data,
        auxiliary,
        unknown,
        stray_comma: tokens.contains(&""),
        tokens: tokens.len(),
    }
}

/// The transports that a list names.
#[derive(Default)]
struct Named {
    data: BTreeSet<&'static str>,
    auxiliary: BTreeSet<&'static str>,
}

impl Named {
    /// Adds what one token names; false when it names nothing.
    fn add(&mut self, token: &str, version: Version) -> bool {
        if let Some(exact) = token.strip_prefix('\\') {
            let Some(name) = transport(exact, version) else {
                return false;
            };
            self.data.insert(name);
            return true;
        }
        let (base, only_auxiliary) = match token.strip_suffix(":aux") {
            Some(base) => (base, true),
            None => (token, false),
        };
        let mut found = false;
        if let Some(name) = transport(base, version) {
            self.insert(name, only_auxiliary);
            found = true;
        }
        for member in alias(base, version) {
            let (name, auxiliary) = match member.strip_suffix(":aux") {
                Some(name) => (name, true),
                None => (member, only_auxiliary),
            };
            self.insert(name, auxiliary);
            found = true;
        }
        found
    }

    fn insert(&mut self, name: &'static str, auxiliary: bool) {
        if auxiliary {
            self.auxiliary.insert(name);
        } else {
            self.data.insert(name);
        }
    }
}

/// The first version that has a transport, where this one is too old for it.
pub(super) fn too_old_for(name: &str, version: Version) -> Option<Version> {
    TRANSPORTS
        .iter()
        .find(|(n, _)| *n == name)
        .and_then(|(_, since)| *since)
        .filter(|since| version < *since)
}

fn transport(name: &str, version: Version) -> Option<&'static str> {
    TRANSPORTS
        .iter()
        .find(|(n, since)| *n == name && since.is_none_or(|s| s <= version))
        .map(|(n, _)| *n)
}

fn alias(name: &str, version: Version) -> impl Iterator<Item = &'static str> + use<'_> {
    let members = ALIASES
        .iter()
        .filter(move |(n, since, _)| *n == name && since.is_none_or(|s| s <= version))
        .flat_map(|(_, _, members)| members.iter());
    let additions = IB_ADDITIONS
        .iter()
        .filter(move |(since, _)| name == "ib" && *since <= version)
        .flat_map(|(_, members)| members.iter());
    members.chain(additions).copied()
}

/// What a value of UCX_TLS means for checks that weigh it against other settings. Read as the oldest UCX of the
/// supported NIXL wheels would, because a manifest does not say the version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransportList {
    negated: bool,
    data: Option<BTreeSet<&'static str>>,
}

impl TransportList {
    /// Reads a value.
    pub fn parse(value: &str) -> Self {
        match parse(value, STRICTEST) {
            Tls::All => Self {
                negated: false,
                data: None,
            },
            Tls::List(list) => Self {
                negated: list.negated,
                data: Some(list.data),
            },
            Tls::Empty | Tls::AllWithMore => Self {
                negated: false,
                data: Some(BTreeSet::new()),
            },
        }
    }

    /// The list says what to leave out.
    pub fn negated(&self) -> bool {
        self.negated
    }

    /// The transport may carry data.
    pub fn allows(&self, transport: &str) -> bool {
        self.data
            .as_ref()
            .is_none_or(|data| data.contains(transport))
    }

    /// An allow-list that names a transport of RDMA devices.
    pub fn names_rdma(&self) -> bool {
        let rdma = |t: &&str| {
            ["rc_", "dc_", "ud_", "srd"]
                .iter()
                .any(|p| t.starts_with(p))
        };
        !self.negated && self.data.as_ref().is_some_and(|data| data.iter().any(rdma))
    }
}

/// UCX 1.20: older than the changes that accept more.
const STRICTEST: Version = Version::new(1, 20);

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Version = Version::new(1, 20);
    const NEW: Version = Version::new(1, 23);

    fn data(value: &str, version: Version) -> Vec<&'static str> {
        match parse(value, version) {
            Tls::List(s) => s.data.into_iter().collect(),
            other => panic!("{value}: {other:?}"),
        }
    }

    fn unknown(value: &str, version: Version) -> Vec<String> {
        match parse(value, version) {
            Tls::List(s) => s.unknown.into_iter().collect(),
            other => panic!("{value}: {other:?}"),
        }
    }

    #[test]
    fn lists_name_transports_exactly() {
        assert_eq!(data("tcp,self", OLD), ["self", "tcp"]);
        assert_eq!(data("rc", OLD), ["rc_mlx5", "rc_verbs"]);
        assert_eq!(data("cuda", OLD), ["cuda_copy", "cuda_ipc", "gdr_copy"]);
        assert_eq!(data("\\rc_verbs", OLD), ["rc_verbs"]);
        assert_eq!(unknown("\\rc,\\sm", OLD), ["\\rc", "\\sm"]);
        assert_eq!(unknown("RC, tcp,gdr", OLD), [" tcp", "RC", "gdr"]);
        assert!(data("tcp:aux", OLD).is_empty());
        assert_eq!(unknown("^tcp,^self", OLD), ["^self"]);
        assert_eq!(data("tcp,all", OLD), ["tcp"]);
    }

    #[test]
    fn aliases_grow_with_the_version() {
        assert!(!data("ib", Version::new(1, 18)).contains(&"gga_mlx5"));
        assert!(data("ib", OLD).contains(&"srd"));
        assert!(data("ib", NEW).contains(&"rc_gda"));
        assert_eq!(unknown("srd", Version::new(1, 18)), ["srd"]);
    }

    #[test]
    fn a_forbidden_ud_stays_for_the_first_contact() {
        let Tls::List(s) = parse("^ud", OLD) else {
            panic!("a list")
        };
        assert!(!s.data.contains("ud_mlx5") && s.auxiliary.contains("ud_mlx5"));
        let Tls::List(s) = parse("^ud,ud:aux", OLD) else {
            panic!("a list")
        };
        assert!(s.auxiliary.iter().all(|t| !t.starts_with("ud")));
        let Tls::List(s) = parse("^ib", OLD) else {
            panic!("a list")
        };
        assert!(s.auxiliary.iter().all(|t| !t.starts_with("ud")));
    }

    #[test]
    fn empty_lists_and_all_have_their_own_meaning() {
        assert_eq!(parse("", OLD), Tls::Empty);
        assert_eq!(parse("^", NEW), Tls::Empty);
        assert_eq!(parse(",", OLD), Tls::Empty);
        assert_eq!(parse("all", NEW), Tls::All);
        assert_eq!(parse("^all", NEW), Tls::All);
        assert_eq!(parse("all,tcp", NEW), Tls::AllWithMore);
        let Tls::List(s) = parse(",", NEW) else {
            panic!("one empty name")
        };
        assert!(s.data.is_empty() && s.stray_comma);
        let Tls::List(s) = parse("tcp,", NEW) else {
            panic!("a list")
        };
        assert!(!s.stray_comma);
    }
}
