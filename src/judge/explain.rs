//! The words of `explain`: a place described as `key=value;key=value`, and an assignment to judge in it.

use super::context::{Accelerator, Backend, Context, Gid, Gpus, Link, Nic, Tri, Version};

/// The keys, as the error lists them.
const KEYS: &str = "ucx, nixl, nccl, internode, gpu, mnnvl, nics, net, gids, peermem, dmabuf, efa, backend, netplugin";

/// Why a description of a place could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContextError {
    /// A word that is no key.
    #[error("unknown key {key:?}; the keys are {KEYS}")]
    UnknownKey {
        /// The word.
        key: String,
    },
    /// Something without an equals sign.
    #[error("{text:?} is no key=value; the keys are {KEYS}")]
    NoValue {
        /// The text between two semicolons.
        text: String,
    },
    /// A value that the key does not take.
    #[error("{key}={value} is not understood: {key} takes {takes}; the keys are {KEYS}")]
    BadValue {
        /// The key.
        key: &'static str,
        /// The value as written.
        value: String,
        /// What the key takes.
        takes: &'static str,
    },
    /// A key that occurs twice.
    #[error("{key} is given twice; the keys are {KEYS}")]
    Twice {
        /// The key.
        key: &'static str,
    },
}

/// Splits `VAR=VALUE` at the first equals sign. `<unset>`, or no equals sign at all, means that the variable is not set;
/// `<empty>` means that it is set to nothing.
pub fn parse_assignment(assignment: &str) -> (&str, Option<&str>) {
    match assignment.split_once('=') {
        None | Some((_, "<unset>")) => (assignment.split('=').next().unwrap_or_default(), None),
        Some((name, "<empty>")) => (name, Some("")),
        Some((name, value)) => (name, Some(value)),
    }
}

impl Context {
    /// The place that `explain` judges in. What is not said has the defaults of a current Dynamo deployment: several
    /// nodes with eight H100 and eight InfiniBand ports each, KV in GPU memory, the UCX backend. Manifests and pods are
    /// never judged with these defaults.
    pub fn for_explain(spec: &str) -> Result<Self, ContextError> {
        let mut said = Said::default();
        for pair in spec.split(';').map(str::trim).filter(|p| !p.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or_else(|| ContextError::NoValue {
                text: pair.to_owned(),
            })?;
            said.take(key.trim(), value.trim())?;
        }
        Ok(said.into_context())
    }

    /// What `explain` judges in, in the words of `--context`: every key with its value, said or assumed. Given back, they make
    /// the same place.
    pub fn assumed(&self) -> Vec<(&'static str, String)> {
        let known =
            |version: Option<Version>| version.map_or("unknown".to_owned(), |v| v.to_string());
        let tri = |tri: Tri| match tri {
            Tri::Yes => "yes".to_owned(),
            Tri::No => "no".to_owned(),
            Tri::Unknown => "unknown".to_owned(),
        };
        let list = |parts: Option<Vec<String>>| match parts {
            None => "unknown".to_owned(),
            Some(parts) if parts.is_empty() => "none".to_owned(),
            Some(parts) => parts.join(","),
        };
        let nics = self
            .nics
            .as_ref()
            .map(|nics| nics.iter().map(nic_words).collect());
        let gids = self
            .gids
            .as_ref()
            .map(|gids| gids.iter().map(gid_words).collect());
        let backend = match self.backend {
            Backend::Ucx => "UCX",
            Backend::Libfabric => "LIBFABRIC",
            Backend::Other | Backend::Unknown => "unknown",
        };
        vec![
            ("ucx", known(self.ucx)),
            ("nixl", known(self.nixl)),
            ("nccl", known(self.nccl)),
            ("internode", tri(self.internode)),
            (
                "gpu",
                self.gpus.as_ref().map_or("unknown".to_owned(), gpu_words),
            ),
            ("mnnvl", tri(self.mnnvl)),
            ("nics", list(nics)),
            ("net", list(self.net.clone())),
            ("gids", list(gids)),
            ("peermem", tri(self.peermem)),
            ("dmabuf", tri(self.dmabuf)),
            ("efa", tri(self.efa)),
            ("backend", backend.to_owned()),
            (
                "netplugin",
                self.netplugin.clone().unwrap_or_else(|| "none".to_owned()),
            ),
        ]
    }
}

fn nic_words(nic: &Nic) -> String {
    let link = match nic.link {
        Link::InfiniBand => "IB",
        Link::Ethernet => "Ethernet",
        Link::Unknown => "Unknown",
    };
    format!("{}:{}/{link}/{}", nic.device, nic.port, nic.state)
}

fn gid_words(gid: &Gid) -> String {
    match gid.roce_version {
        None => gid.index.to_string(),
        Some(version) => format!("{}:v{version}", gid.index),
    }
}

fn gpu_words(gpus: &Gpus) -> String {
    let joined = gpus.nvswitch == Tri::Yes && !is_rack(&gpus.model);
    let end = if joined { "-NVSwitch" } else { "" };
    format!("{}x{}{end}", gpus.count, gpus.model)
}

/// What was said; None where it was not. `Some(None)` means that `unknown` was said.
#[derive(Default)]
struct Said {
    nixl: Option<Option<Version>>,
    ucx: Option<Option<Version>>,
    nccl: Option<Option<Version>>,
    internode: Option<Tri>,
    gpu: Option<Gpus>,
    mnnvl: Option<Tri>,
    nics: Option<Option<Vec<Nic>>>,
    net: Option<Vec<String>>,
    gids: Option<Option<Vec<Gid>>>,
    peermem: Option<Tri>,
    dmabuf: Option<Tri>,
    efa: Option<Tri>,
    backend: Option<Backend>,
    netplugin: Option<String>,
}

const VERSION: &str = "a version such as 1.20, or unknown";
const YES_NO: &str = "yes or no";
const TRI: &str = "yes, no or unknown";

impl Said {
    fn take(&mut self, key: &str, value: &str) -> Result<(), ContextError> {
        match key {
            "nixl" => set(&mut self.nixl, "nixl", value, VERSION, version),
            "ucx" => set(&mut self.ucx, "ucx", value, VERSION, version),
            "nccl" => set(&mut self.nccl, "nccl", value, VERSION, version),
            "internode" => set(&mut self.internode, "internode", value, YES_NO, yes_no),
            "gpu" => set(
                &mut self.gpu,
                "gpu",
                value,
                "<n>x<model>, such as 8xH100-NVSwitch or GB200-NVL72",
                gpus,
            ),
            "mnnvl" => set(&mut self.mnnvl, "mnnvl", value, TRI, tri),
            "nics" => set(
                &mut self.nics,
                "nics",
                value,
                "<device>:<port>/<IB|Ethernet|Unknown>/<ACTIVE|DOWN|INIT|ARMED> with commas, none, or unknown",
                nics,
            ),
            "net" => set(
                &mut self.net,
                "net",
                value,
                "names of network interfaces with commas, such as eth0 or eth0,ib0 (of at most 15 letters, digits, `.`, `_` or \
                 `-`), or none; the fabric is said with nics or efa",
                net,
            ),
            "gids" => set(
                &mut self.gids,
                "gids",
                value,
                "indexes with commas, each with :v1 or :v2 on Ethernet, or unknown",
                gids,
            ),
            "peermem" => set(&mut self.peermem, "peermem", value, TRI, tri),
            "dmabuf" => set(&mut self.dmabuf, "dmabuf", value, TRI, tri),
            "efa" => set(&mut self.efa, "efa", value, YES_NO, yes_no),
            "backend" => set(
                &mut self.backend,
                "backend",
                value,
                "UCX, LIBFABRIC or unknown",
                backend,
            ),
            "netplugin" => set(
                &mut self.netplugin,
                "netplugin",
                value,
                "none, or the name of a plugin of letters, digits, `_` or `-`, such as aws-ofi-nccl or ib",
                plugin,
            ),
            _ => Err(ContextError::UnknownKey {
                key: key.to_owned(),
            }),
        }
    }

    fn into_context(self) -> Context {
        let nixl = self.nixl.unwrap_or(Some(Version::new(1, 3)));
        let internode = self.internode.unwrap_or(Tri::Yes);
        let efa = self.efa.unwrap_or(Tri::No);
        let nics = self
            .nics
            .unwrap_or_else(|| Some(default_ports(efa == Tri::Yes)));
        let gids = self.gids.unwrap_or_else(|| default_gids(nics.as_deref()));
        let opposite = if internode == Tri::Yes {
            Tri::No
        } else {
            Tri::Yes
        };
        Context {
            nixl,
            ucx: self.ucx.unwrap_or_else(|| nixl.map(bundled_ucx)),
            nccl: self.nccl.unwrap_or(Some(Version::new(2, 28))),
            internode,
            may_share_node: opposite,
            ranks_internode: internode,
            gpus: Some(self.gpu.unwrap_or_else(|| Gpus {
                count: 8,
                model: "H100".to_owned(),
                nvswitch: Tri::Yes,
            })),
            mnnvl: self.mnnvl.unwrap_or(Tri::No),
            rdma: nics
                .as_ref()
                .map_or(Tri::Unknown, |n| n.iter().any(|n| n.active).into()),
            nics,
            net: Some(self.net.unwrap_or_else(|| vec!["eth0".to_owned()])),
            gids,
            peermem: self.peermem.unwrap_or(Tri::Yes),
            dmabuf: self.dmabuf.unwrap_or(Tri::Unknown),
            efa,
            backend: self.backend.unwrap_or(Backend::Ucx),
            netplugin: Some(self.netplugin.unwrap_or_else(|| "none".to_owned())),
            host_buffers: false,
            accelerator: Accelerator::Nvidia,
            roles_separated: internode,
        }
    }
}

fn set<T>(
    slot: &mut Option<T>,
    key: &'static str,
    value: &str,
    takes: &'static str,
    parse: fn(&str) -> Option<T>,
) -> Result<(), ContextError> {
    if slot.is_some() {
        return Err(ContextError::Twice { key });
    }
    let parsed = parse(value).ok_or_else(|| ContextError::BadValue {
        key,
        value: value.to_owned(),
        takes,
    })?;
    *slot = Some(parsed);
    Ok(())
}

/// The UCX that a NIXL release brings (nixl `contrib/Dockerfile`, and the wheel nixl-cu12 1.5.1).
fn bundled_ucx(nixl: Version) -> Version {
    match (nixl.major, nixl.minor) {
        (0, 0..=7) => Version::new(1, 19),
        (0, _) | (1, 0) => Version::new(1, 20),
        (1, 1..=3) => Version::new(1, 21),
        (1, 4) => Version::new(1, 22),
        _ => Version::new(1, 23),
    }
}

fn default_ports(efa: bool) -> Vec<Nic> {
    (0..8)
        .map(|n| Nic {
            device: if efa {
                format!("rdmap{}s0", 79 + n)
            } else {
                format!("mlx5_{n}")
            },
            port: 1,
            link: if efa { Link::Unknown } else { Link::InfiniBand },
            active: true,
            state: "ACTIVE".to_owned(),
            maker: None,
        })
        .collect()
}

/// Index 0 is always filled on InfiniBand; a RoCE table depends on the addresses of the node.
fn default_gids(nics: Option<&[Nic]>) -> Option<Vec<Gid>> {
    let ports = nics?;
    (!ports.is_empty() && ports.iter().all(|n| n.link == Link::InfiniBand)).then(|| {
        vec![Gid {
            index: 0,
            roce_version: None,
        }]
    })
}

fn version(value: &str) -> Option<Option<Version>> {
    match value {
        "unknown" => Some(None),
        _ => Version::parse(value).map(Some),
    }
}

fn yes_no(value: &str) -> Option<Tri> {
    match value {
        "yes" => Some(Tri::Yes),
        "no" => Some(Tri::No),
        _ => None,
    }
}

fn tri(value: &str) -> Option<Tri> {
    match value {
        "unknown" => Some(Tri::Unknown),
        _ => yes_no(value),
    }
}

fn backend(value: &str) -> Option<Backend> {
    match value {
        "UCX" => Some(Backend::Ucx),
        "LIBFABRIC" => Some(Backend::Libfabric),
        "unknown" => Some(Backend::Unknown),
        _ => None,
    }
}

fn plugin(value: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let fits = !value.is_empty() && value.len() <= 64 && value.chars().all(plain);
    // A yes or no answers another question.
    let answer = ["yes", "no", "unknown"].contains(&value);
    (fits && !answer).then(|| value.to_owned())
}

/// A pod of a GB200 or GB300 rack has the four GPUs of one tray.
const GPUS_OF_A_TRAY: u32 = 4;

/// `GB200-NVL72`: one NVLink domain over many trays.
fn is_rack(model: &str) -> bool {
    model
        .rsplit_once("-NVL")
        .is_some_and(|(_, n)| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

fn gpus(value: &str) -> Option<Gpus> {
    let counted = value.split_once('x').and_then(|(count, model)| {
        count
            .parse::<u32>()
            .ok()
            .filter(|n| *n > 0)
            .map(|count| (count, model))
    });
    let (count, model) = match counted {
        Some(counted) => counted,
        None if is_rack(value) => (GPUS_OF_A_TRAY, value),
        None => return None,
    };
    let (model, joined) = match model.strip_suffix("-NVSwitch") {
        Some(model) => (model, true),
        None => (model, is_rack(model)),
    };
    let plain = !model.is_empty()
        && model
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    plain.then(|| Gpus {
        count,
        model: model.to_owned(),
        nvswitch: joined.into(),
    })
}

fn nics(value: &str) -> Option<Option<Vec<Nic>>> {
    match value {
        "unknown" => Some(None),
        "none" => Some(Some(vec![])),
        _ => value
            .split(',')
            .map(nic)
            .collect::<Option<Vec<_>>>()
            .map(Some),
    }
}

fn nic(text: &str) -> Option<Nic> {
    let mut parts = text.trim().split('/');
    let (device, port) = parts.next()?.split_once(':')?;
    let link = match parts.next()? {
        "IB" => Link::InfiniBand,
        "Ethernet" => Link::Ethernet,
        "Unknown" => Link::Unknown,
        _ => return None,
    };
    let state = parts.next()?;
    let known = ["ACTIVE", "DOWN", "INIT", "ARMED"].contains(&state);
    (known && !device.is_empty() && parts.next().is_none()).then_some(())?;
    Some(Nic {
        device: device.to_owned(),
        port: port.parse().ok().filter(|p| *p > 0)?,
        link,
        active: state == "ACTIVE",
        state: state.to_owned(),
        maker: None,
    })
}

/// Interfaces as the kernel names them (`IFNAMSIZ`). What names a kind of fabric or an RDMA device means another key.
fn net(value: &str) -> Option<Vec<String>> {
    const FABRICS: &[&str] = &[
        "ib",
        "infiniband",
        "roce",
        "rocev2",
        "rdma",
        "ethernet",
        "tcp",
        "efa",
        "nvlink",
        "yes",
        "no",
        "unknown",
        "any",
        "all",
    ];
    if value == "none" {
        return Some(vec![]);
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let name = |n: &str| {
        let n = n.trim();
        let fits = (1..=15).contains(&n.len()) && n.chars().all(plain);
        let device = n.starts_with("mlx5_") || n.starts_with("rdmap");
        let other = FABRICS.contains(&n.to_ascii_lowercase().as_str());
        (fits && !device && !other).then(|| n.to_owned())
    };
    value.split(',').map(name).collect()
}

fn gids(value: &str) -> Option<Option<Vec<Gid>>> {
    match value {
        "unknown" => Some(None),
        _ => value
            .split(',')
            .map(gid)
            .collect::<Option<Vec<_>>>()
            .map(Some),
    }
}

fn gid(text: &str) -> Option<Gid> {
    let (index, roce_version) = match text.trim().split_once(':') {
        None => (text.trim(), None),
        Some((index, "v1")) => (index, Some(1)),
        Some((index, "v2")) => (index, Some(2)),
        Some(_) => return None,
    };
    Some(Gid {
        index: index.parse().ok()?,
        roce_version,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_split_at_the_first_equals_sign() {
        assert_eq!(
            parse_assignment("UCX_TLS=rc,tcp"),
            ("UCX_TLS", Some("rc,tcp"))
        );
        assert_eq!(
            parse_assignment("NCCL_IB_HCA===mlx5_0:1"),
            ("NCCL_IB_HCA", Some("==mlx5_0:1"))
        );
        assert_eq!(parse_assignment("UCX_TLS=<unset>"), ("UCX_TLS", None));
        assert_eq!(parse_assignment("UCX_TLS=<empty>"), ("UCX_TLS", Some("")));
        assert_eq!(parse_assignment("UCX_TLS="), ("UCX_TLS", Some("")));
        assert_eq!(parse_assignment("UCX_TLS"), ("UCX_TLS", None));
    }

    #[test]
    fn what_is_not_said_is_a_current_deployment() {
        let cx = Context::for_explain("").expect("defaults");
        assert_eq!(cx.ucx, Some(Version::new(1, 21)));
        assert_eq!(cx.nccl, Some(Version::new(2, 28)));
        assert_eq!(cx.nics.as_ref().map(Vec::len), Some(8));
        assert_eq!(
            (cx.internode, cx.may_share_node, cx.mnnvl),
            (Tri::Yes, Tri::No, Tri::No)
        );
        assert_eq!(
            (cx.peermem, cx.dmabuf, cx.efa),
            (Tri::Yes, Tri::Unknown, Tri::No)
        );
        assert_eq!(cx.backend, Backend::Ucx);
        assert_eq!(
            cx.gids,
            Some(vec![Gid {
                index: 0,
                roce_version: None
            }])
        );
    }

    #[test]
    fn keys_combine_and_replace_their_default() {
        let cx = Context::for_explain("nixl=1.0; gpu=GB200-NVL72;mnnvl=yes").expect("a rack");
        assert_eq!(cx.ucx, Some(Version::new(1, 20)));
        assert_eq!(cx.gpus.map(|g| (g.count, g.nvswitch)), Some((4, Tri::Yes)));
        assert_eq!(cx.nics.map(|n| n.len()), Some(8));
        let cx = Context::for_explain("nixl=unknown").expect("unknown");
        assert_eq!((cx.nixl, cx.ucx), (None, None));
        let cx = Context::for_explain("efa=yes").expect("EFA");
        assert!(
            cx.nics
                .is_some_and(|n| n.iter().all(|n| n.link == Link::Unknown))
        );
        let cx = Context::for_explain("nics=mlx5_0:1/Ethernet/DOWN;gids=0:v1,3:v2").expect("RoCE");
        assert_eq!((cx.rdma, cx.gids.map(|g| g.len())), (Tri::No, Some(2)));
        let cx = Context::for_explain("nics=unknown;gpu=1xH100").expect("unseen");
        assert_eq!((cx.nics, cx.rdma, cx.gids), (None, Tri::Unknown, None));
        assert_eq!(cx.gpus.map(|g| g.nvswitch), Some(Tri::No));
    }

    #[test]
    fn what_is_assumed_makes_the_same_place() {
        for said in [
            "",
            "ucx=1.20;gpu=GB200-NVL72;mnnvl=yes;nics=none",
            "nics=mlx5_0:1/Ethernet/ACTIVE,mlx5_1:1/IB/DOWN;gids=0:v1,3:v2;net=eth0,bond0.7",
            "efa=yes;backend=LIBFABRIC;netplugin=aws-ofi-nccl;gpu=4xH100",
            "nixl=unknown;nics=unknown;internode=no;net=none;peermem=no;dmabuf=yes",
        ] {
            let place = Context::for_explain(said).expect(said);
            let assumed = place.assumed();
            let keys: Vec<&str> = assumed.iter().map(|(key, _)| *key).collect();
            assert_eq!(keys.join(", "), KEYS);
            let all: Vec<String> = assumed.iter().map(|(k, v)| format!("{k}={v}")).collect();
            let again = Context::for_explain(&all.join(";")).expect(said);
            assert_eq!(again, place, "{said}");
        }
    }

    #[test]
    fn mistakes_are_errors_that_list_the_keys() {
        for wrong in [
            "colour=blue",
            "ucx",
            "ucx=new",
            "ucx=1",
            "internode=unknown",
            "gpu=H100",
            "gpu=0xH100",
            "nics=mlx5_0/IB/ACTIVE",
            "nics=mlx5_0:1/IB/UP",
            "nics=mlx5_0:1/ROCE/ACTIVE",
            "nics=mlx5_0:1/IB",
            "net=",
            "net=roce",
            "net=IB",
            "net=mlx5_0",
            "net=eth0;net=eth1",
            "net=a-name-that-no-interface-has",
            "net=eth0/1",
            "netplugin=yes",
            "netplugin=a b",
            "Net=eth0",
            "gids=a",
            "gids=3:v3",
            "efa=maybe",
            "backend=ucx",
            "netplugin=",
            "ucx=1.20;ucx=1.21",
        ] {
            let error = Context::for_explain(wrong).expect_err(wrong).to_string();
            assert!(error.contains("netplugin"), "{wrong}: {error}");
        }
    }
}
