//! Which kubeconfig, which context, which proxy: decided before any connection, so that each mistake has its own words.

use super::call::said;
use kube::config::{Kubeconfig, KubeconfigError, NamedContext};
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// What the process's surroundings say about the cluster. A parameter, so that tests need no global state.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// `KUBECONFIG`.
    pub kubeconfig: Option<OsString>,
    /// `HOME`.
    pub home: Option<PathBuf>,
    /// `KUBERNETES_SERVICE_HOST` is set: this is a pod.
    pub in_pod: bool,
    /// `NO_PROXY` or `no_proxy`.
    pub no_proxy: Option<String>,
}

impl Surroundings {
    /// Those of this process.
    pub fn of_process() -> Self {
        let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
        let text = |name: &str| set(name).and_then(|v| v.into_string().ok());
        Self {
            kubeconfig: set("KUBECONFIG"),
            home: set("HOME").map(PathBuf::from),
            in_pod: set("KUBERNETES_SERVICE_HOST").is_some(),
            no_proxy: text("NO_PROXY").or_else(|| text("no_proxy")),
        }
    }
}

/// Why no kubeconfig could be used. Never shows file content: a broken line may be the one with the token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KubeconfigFault {
    /// Nothing to read.
    #[error(
        "no kubeconfig: {looked} does not exist, and this is not a pod; set KUBECONFIG or give --kubeconfig FILE"
    )]
    None {
        /// Where it was looked for.
        looked: String,
    },
    /// Named by the user and not there.
    #[error("kubeconfig {path} does not exist; give the path of an existing file")]
    Missing {
        /// As given.
        path: String,
    },
    /// There, and not readable.
    #[error(
        "kubeconfig {path} cannot be read: {why}; fix its permissions, or give --kubeconfig FILE"
    )]
    Unreadable {
        /// As given or found.
        path: String,
        /// The system's reason.
        why: String,
    },
    /// Not YAML, or not a kubeconfig.
    #[error(
        "kubeconfig {path} is not valid YAML for a kubeconfig{at}; repair it, or write it again (kubectl config view shows how it is read)"
    )]
    Broken {
        /// As given or found.
        path: String,
        /// ` at line L, column C`, where known.
        at: String,
    },
    /// Files of `KUBECONFIG` that do not fit together.
    #[error("the files of KUBECONFIG cannot be merged at {path}: {why}; name one of them")]
    Unmergeable {
        /// The file that does not fit.
        path: String,
        /// What differs.
        why: String,
    },
    /// Neither current-context nor `--context`.
    #[error("the kubeconfig has no current-context; give --context NAME, one of: {choices}")]
    NoContext {
        /// Names that would do.
        choices: String,
    },
    /// `--context` or current-context names nothing.
    #[error("context {name} is not in the kubeconfig; give --context NAME, one of: {choices}")]
    UnknownContext {
        /// As given.
        name: String,
        /// Names that would do.
        choices: String,
    },
    /// The context names a user that is not defined: without one the calls would be anonymous.
    #[error(
        "context {context} uses user {user}, which the kubeconfig does not define; add it, or give another --context"
    )]
    UnknownUser {
        /// The context.
        context: String,
        /// The user it names.
        user: String,
    },
    /// The context names a cluster that is not defined.
    #[error(
        "context {context} uses cluster {cluster}, which the kubeconfig does not define; add it, or give another --context"
    )]
    UnknownCluster {
        /// The context.
        context: String,
        /// The cluster it names.
        cluster: String,
    },
}

/// Where the configuration comes from.
#[derive(Debug)]
pub(crate) enum Source {
    /// Files, merged.
    Files(Box<Kubeconfig>),
    /// The service account of the pod we run in.
    Pod,
}

/// Finds and reads the kubeconfig: `--kubeconfig`, else `KUBECONFIG`, else `~/.kube/config`, else the pod's service account.
pub(crate) fn read(
    explicit: Option<&Path>,
    around: &Surroundings,
) -> Result<Source, KubeconfigFault> {
    if let Some(path) = explicit {
        return match path.exists() {
            true => read_file(path).map(|k| Source::Files(Box::new(k))),
            false => Err(KubeconfigFault::Missing { path: shown(path) }),
        };
    }
    let candidates: Vec<PathBuf> = match (&around.kubeconfig, &around.home) {
        (Some(list), _) => std::env::split_paths(list)
            .filter(|p| !p.as_os_str().is_empty())
            .collect(),
        (None, Some(home)) => vec![home.join(".kube").join("config")],
        (None, None) => Vec::new(),
    };
    // As kubectl does, files of the list that do not exist are passed over.
    let mut merged: Option<Kubeconfig> = None;
    for path in candidates.iter().filter(|p| p.exists()) {
        let next = read_file(path)?;
        merged = Some(match merged {
            None => next,
            Some(before) => before
                .merge(next)
                .map_err(|e| KubeconfigFault::Unmergeable {
                    path: shown(path),
                    why: said(&e.to_string()),
                })?,
        });
    }
    match merged {
        Some(kubeconfig) => Ok(Source::Files(Box::new(kubeconfig))),
        None if around.in_pod => Ok(Source::Pod),
        None => {
            let looked: Vec<String> = candidates.iter().map(|p| shown(p)).collect();
            let looked = match looked.as_slice() {
                [] => "~/.kube/config".to_owned(),
                paths => paths.join(", "),
            };
            Err(KubeconfigFault::None { looked })
        }
    }
}

/// More than any kubeconfig has.
const LARGEST: u64 = 16 << 20;

fn read_file(path: &Path) -> Result<Kubeconfig, KubeconfigFault> {
    let large = std::fs::metadata(path).is_ok_and(|m| m.len() > LARGEST);
    let large = large.then_some("it is larger than 16 MiB");
    if let Some(why) = crate::input::endless(path).or(large) {
        return Err(KubeconfigFault::Unreadable {
            path: shown(path),
            why: why.to_owned(),
        });
    }
    Kubeconfig::read_from(path).map_err(|error| match error {
        KubeconfigError::ReadConfig(e, _) => KubeconfigFault::Unreadable {
            path: shown(path),
            why: e.kind().to_string(),
        },
        KubeconfigError::Parse(e) => KubeconfigFault::Broken {
            path: shown(path),
            at: e.location().map_or(String::new(), |l| {
                format!(" at line {}, column {}", l.line(), l.column())
            }),
        },
        other => KubeconfigFault::Unreadable {
            path: shown(path),
            why: said(&other.to_string()),
        },
    })
}

/// The context to use, and the names of its cluster and user checked.
pub(crate) fn context(
    kubeconfig: &Kubeconfig,
    wanted: Option<&str>,
) -> Result<String, KubeconfigFault> {
    let choices = || names(&kubeconfig.contexts);
    let name = wanted
        .or(kubeconfig.current_context.as_deref())
        .filter(|n| !n.is_empty());
    let Some(name) = name else {
        return Err(KubeconfigFault::NoContext { choices: choices() });
    };
    let found = kubeconfig.contexts.iter().find(|c| c.name == name);
    let Some(context) = found.and_then(|c| c.context.as_ref()) else {
        return Err(KubeconfigFault::UnknownContext {
            name: said(name),
            choices: choices(),
        });
    };
    // As client-go: no user is anonymous by intent, one that is not there is a mistake.
    let user = context.user.as_deref().filter(|user| !user.is_empty());
    if let Some(user) = user.filter(|user| !kubeconfig.auth_infos.iter().any(|u| u.name == **user))
    {
        return Err(KubeconfigFault::UnknownUser {
            context: said(name),
            user: said(user),
        });
    }
    match kubeconfig
        .clusters
        .iter()
        .any(|c| c.name == context.cluster)
    {
        true => Ok(name.to_owned()),
        false => Err(KubeconfigFault::UnknownCluster {
            context: said(name),
            cluster: said(&context.cluster),
        }),
    }
}

/// The cluster of this context names its own proxy, which no variable overrides.
pub(crate) fn names_proxy(kubeconfig: &Kubeconfig, context: &str) -> bool {
    let contexts = kubeconfig.contexts.iter();
    contexts
        .filter(|c| c.name == context)
        .filter_map(|c| c.context.as_ref())
        .flat_map(|context| {
            kubeconfig
                .clusters
                .iter()
                .filter(|c| c.name == context.cluster)
        })
        .filter_map(|c| c.cluster.as_ref()?.proxy_url.as_deref())
        .any(|proxy| !proxy.is_empty())
}

/// Where the server of this context is reached without a proxy, whatever a variable says, gives the entry a proxy that can be
/// parsed; who made this leaves it out again. Otherwise a variable that is no address would stop a run that does not need it.
pub(crate) fn without_needless_proxy(
    kubeconfig: &mut Kubeconfig,
    context: &str,
    no_proxy: Option<&str>,
) {
    let contexts = kubeconfig.contexts.iter();
    let name = contexts
        .filter(|c| c.name == context)
        .find_map(|c| Some(c.context.as_ref()?.cluster.clone()));
    let clusters = kubeconfig.clusters.iter_mut();
    let chosen = clusters.filter(|c| Some(&c.name) == name.as_ref());
    for cluster in chosen.filter_map(|c| c.cluster.as_mut()) {
        let server: Option<http::Uri> = cluster.server.as_deref().and_then(|s| s.parse().ok());
        let direct = server.is_some_and(|server| {
            let port = server.port_u16().unwrap_or(443);
            bypasses_proxy(server.host().unwrap_or_default(), port, no_proxy)
        });
        if direct {
            cluster.proxy_url = Some("http://127.0.0.1:1".to_owned());
        }
    }
}

/// A file that a kubeconfig names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Named {
    /// The key that names it.
    pub(crate) key: &'static str,
    /// As named, from the directory of the kubeconfig.
    pub(crate) path: String,
    /// Of the cluster entry, else of the user entry.
    pub(crate) of_cluster: bool,
}

/// More than any certificate, key or token has.
const LARGEST_NAMED: u64 = 1 << 20;

impl Named {
    /// Refuses what might never end. One that is not there is for whoever reads it.
    pub(crate) fn check(&self) -> Result<(), String> {
        let path = Path::new(&self.path);
        let large = std::fs::metadata(path).is_ok_and(|m| m.len() > LARGEST_NAMED);
        let large = large.then_some("it is larger than 1 MiB");
        match crate::input::endless(path).or(large) {
            Some(why) => Err(format!("{}: {}: {why}", self.key, shown(path))),
            None => Ok(()),
        }
    }
}

/// The files that this context will have read.
pub(crate) fn files(kubeconfig: &Kubeconfig, context: &str) -> Vec<Named> {
    let chosen = kubeconfig.contexts.iter().find(|c| c.name == context);
    let Some(chosen) = chosen.and_then(|c| c.context.as_ref()) else {
        return Vec::new();
    };
    let clusters = kubeconfig.clusters.iter();
    let clusters = clusters.filter(|c| c.name == chosen.cluster);
    let users = kubeconfig.auth_infos.iter();
    let users = users.filter(|u| Some(&u.name) == chosen.user.as_ref());
    let mut files = Vec::new();
    let mut add = |key, path: Option<&String>, of_cluster| {
        files.extend(path.map(|path| Named {
            key,
            path: path.clone(),
            of_cluster,
        }));
    };
    for cluster in clusters.filter_map(|c| c.cluster.as_ref()) {
        let unused = cluster.certificate_authority_data.is_some();
        let path = cluster.certificate_authority.as_ref();
        add("certificate-authority", path.filter(|_| !unused), true);
    }
    for user in users.filter_map(|u| u.auth_info.as_ref()) {
        let unused = user.client_certificate_data.is_some();
        let path = user.client_certificate.as_ref();
        add("client-certificate", path.filter(|_| !unused), false);
        let path = user.client_key.as_ref();
        let unused = user.client_key_data.is_some();
        add("client-key", path.filter(|_| !unused), false);
        let path = user.token_file.as_ref();
        add("tokenFile", path.filter(|_| user.token.is_none()), false);
    }
    files
}

/// The variable that kube takes a proxy from.
pub(crate) fn proxy_variable() -> &'static str {
    match std::env::var_os("HTTPS_PROXY").is_some_and(|v| !v.is_empty()) {
        true => "HTTPS_PROXY",
        false => "https_proxy",
    }
}

fn names(contexts: &[NamedContext]) -> String {
    match contexts {
        [] => "(none is defined)".to_owned(),
        some => said(
            &some
                .iter()
                .map(|c| c.name.as_str())
                .collect::<Vec<_>>()
                .join(", "),
        ),
    }
}

fn shown(path: &Path) -> String {
    said(&path.to_string_lossy())
}

/// Whether a proxy taken from the environment must be left out for this host, by the rules kubectl follows
/// (<https://pkg.go.dev/golang.org/x/net@v0.30.0/http/httpproxy#Config>). kube 5.0.0 compares `NO_PROXY` with the
/// proxy's own address instead of the server's.
pub(crate) fn bypasses_proxy(host: &str, port: u16, no_proxy: Option<&str>) -> bool {
    let host = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .trim_end_matches('.')
        .to_ascii_lowercase();
    let address: Option<IpAddr> = host.parse().ok();
    if host == "localhost" || address.is_some_and(|a| a.is_loopback()) {
        return true;
    }
    no_proxy.unwrap_or_default().split(',').any(|rule| {
        let rule = rule.trim().to_ascii_lowercase();
        if rule.is_empty() {
            return false;
        }
        if rule == "*" {
            return true;
        }
        if let (Some(address), Some((net, bits))) = (address, rule.split_once('/')) {
            return within(address, net, bits);
        }
        let (name, only_port) = match rule.rsplit_once(':') {
            Some((name, p)) if !name.contains(':') => (name, p.parse::<u16>().ok()),
            _ => (rule.as_str(), None),
        };
        if only_port.is_some_and(|p| p != port) {
            return false;
        }
        if let Some(address) = address {
            return name.parse() == Ok(address);
        }
        // `.example.org` and `*.example.org` mean what is below; `example.org` means itself and what is below.
        let suffix = name.trim_start_matches('*');
        match suffix.strip_prefix('.') {
            Some(_) => host.ends_with(suffix),
            None => host == suffix || host.ends_with(&format!(".{suffix}")),
        }
    })
}

fn within(address: IpAddr, net: &str, bits: &str) -> bool {
    let (Ok(net), Ok(bits)) = (net.parse::<IpAddr>(), bits.parse::<u32>()) else {
        return false;
    };
    let (a, b, width) = match (address, net) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (u128::from(a.to_bits()), u128::from(b.to_bits()), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits(), b.to_bits(), 128),
        _ => return false,
    };
    bits <= width && (bits == 0 || (a ^ b) >> (width - bits) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Source, KubeconfigFault> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read(Some(file.path()), &Surroundings::default())
    }

    #[test]
    fn a_broken_file_is_placed_and_not_shown() {
        let Err(fault @ KubeconfigFault::Broken { .. }) =
            read_text("users:\n- name: u\n  user: {token: hunter2\n")
        else {
            panic!("broken");
        };
        let words = fault.to_string();
        assert!(words.contains(" at line "), "{words}");
        assert!(!words.contains("hunter2"), "{words}");
    }

    #[test]
    fn files_of_the_list_that_do_not_exist_are_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let there = dir.path().join("b");
        std::fs::write(&there, "current-context: here\n").unwrap();
        let list = std::env::join_paths([dir.path().join("a"), there]).unwrap();
        let around = Surroundings {
            kubeconfig: Some(list),
            ..Surroundings::default()
        };
        let Ok(Source::Files(found)) = read(None, &around) else {
            panic!("found");
        };
        assert_eq!(found.current_context.as_deref(), Some("here"));
    }

    #[test]
    fn without_any_file_the_pod_speaks_and_else_the_words_say_where_it_was_looked_for() {
        let home = tempfile::tempdir().unwrap();
        let mut around = Surroundings {
            home: Some(home.path().to_owned()),
            ..Surroundings::default()
        };
        let fault = read(None, &around).unwrap_err().to_string();
        assert!(fault.contains(".kube/config does not exist"), "{fault}");
        around.in_pod = true;
        assert!(matches!(read(None, &around), Ok(Source::Pod)));
    }

    #[test]
    fn unreadable_and_missing_files_differ() {
        let dir = tempfile::tempdir().unwrap();
        let fault = read(Some(dir.path()), &Surroundings::default()).unwrap_err();
        assert!(
            matches!(fault, KubeconfigFault::Unreadable { .. }),
            "{fault}"
        );
        let fault = read(Some(&dir.path().join("no")), &Surroundings::default()).unwrap_err();
        assert!(matches!(fault, KubeconfigFault::Missing { .. }), "{fault}");
    }

    #[test]
    fn a_wrong_context_lists_the_right_ones() {
        let text = "clusters: [{name: c, cluster: {server: 'http://x'}}]\ncontexts:\n- {name: a, context: {cluster: c}}\n- {name: b, context: {cluster: gone}}\n\
                    - {name: u, context: {cluster: c, user: gone}}\n- {name: e, context: {cluster: c, user: ''}}\n";
        let Ok(Source::Files(k)) = read_text(text) else {
            panic!("valid");
        };
        assert_eq!(context(&k, Some("a")), Ok("a".to_owned()));
        let words = |c| context(&k, c).unwrap_err().to_string();
        assert!(words(None).ends_with("one of: a, b, u, e"));
        assert!(words(Some("u")).contains("uses user gone"));
        assert_eq!(context(&k, Some("e")), Ok("e".to_owned()));
        assert!(words(Some("z")).starts_with("context z is not in the kubeconfig"));
        assert!(words(Some("b")).contains("uses cluster gone"));
    }

    #[test]
    fn no_proxy_is_about_the_server() {
        let rules = Some("10.0.0.0/8, .corp.example,api.example.org:6443,fd00::/8");
        for (host, port, expected) in [
            ("127.0.0.1", 443, true),
            ("localhost", 6443, true),
            ("10.2.3.4", 443, true),
            ("11.2.3.4", 443, false),
            ("[fd00::1]", 443, true),
            ("k.corp.example", 443, true),
            ("corp.example", 443, false),
            ("api.example.org", 6443, true),
            ("api.example.org", 443, false),
        ] {
            assert_eq!(bypasses_proxy(host, port, rules), expected, "{host}:{port}");
        }
        assert!(bypasses_proxy("any.example", 1, Some("*")));
        assert!(!bypasses_proxy("any.example", 1, None));
    }
}
