//! `ucx_info -d` and `ucx_info -v`: what a UCX library finds on this host, in this process.
//!
//! Layouts: up to 1.9 `component:` and devices under a transport; later one block for each transport and device, with
//! their type. From 1.14 memory types are listed. Copies lose the `#` of each line, which Markdown takes for a heading.
//! Under a small memlock limit the tool prints errors without end, so messages are tallied and lists are bounded.
//! Format: <https://github.com/openucx/ucx/blob/v1.20.0/src/tools/info/tl_info.c>

use super::tally::Tally;
use super::transcript::{self, excerpt};
use super::{Unparsable, Why};
use std::collections::{BTreeMap, BTreeSet};

/// Resources kept at most. A host with 64 virtual functions has about 500.
const RESOURCES: usize = 4096;

/// What the library finds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UcxInfo {
    /// Transports with their devices.
    pub resources: Vec<Resource>,
    /// Memory domains.
    pub domains: Vec<Domain>,
    /// What `-v` says.
    pub build: Build,
    /// Warnings and errors of the library between the lines.
    pub messages: Tally,
}

/// A memory domain: what can register memory for a group of transports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Domain {
    /// Name: `mlx5_0`, `cuda_cpy`, before 1.10 `ib/mlx5_0`.
    pub name: String,
    /// Component that provides it: `ib`, `cuda_cpy`.
    pub component: Option<String>,
    /// Memory types with what the domain does with them: `cuda` -> `access`, `reg`, `dmabuf`. Empty before 1.14, where
    /// it proves nothing.
    pub memory_types: BTreeMap<String, BTreeSet<String>>,
    /// It registers dma-buf memory (`register: unlimited, dmabuf`).
    pub has_dmabuf: bool,
    /// The tool found no device for it, or could not open it.
    pub is_empty: bool,
    /// Its device is there, and could not be opened.
    pub is_closed: bool,
}

/// One transport on one device.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Resource {
    /// Place in [`UcxInfo::domains`], where its heading was seen.
    pub domain: Option<usize>,
    /// Transport: `rc_mlx5`, `tcp`, `cuda_ipc`.
    pub transport: String,
    /// Device: `mlx5_0:1`, `eth0`, `cuda`.
    pub device: String,
    /// Type: `network`, `intra-node`, `accelerator`, `loopback`. Not printed before 1.10.
    pub kind: Option<String>,
    /// What the library assumes, not a measurement.
    pub bandwidth: Option<Bandwidth>,
    /// It moves memory in place: `put_zcopy` or `get_zcopy` is listed.
    pub has_rma_zcopy: bool,
}

/// Bandwidth in MiB/s (2^20 bytes); the tool prints `MB/sec` and divides by 2^20.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bandwidth {
    /// Shared by the processes of the node (`/ppn`).
    pub shared_mib_per_s: f64,
    /// For each process.
    pub dedicated_mib_per_s: f64,
}

/// Version and options.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Build {
    /// Version of the loaded library.
    pub version: Option<String>,
    /// Path of the loaded library (from 1.16).
    pub path: Option<String>,
    /// `--with-*`, `--without-*` and `--enable-*` options of the build.
    pub options: Vec<String>,
}

impl UcxInfo {
    /// Names of the transports that have a device.
    pub fn transports(&self) -> BTreeSet<&str> {
        self.resources
            .iter()
            .map(|r| r.transport.as_str())
            .collect()
    }

    /// Devices of a transport.
    pub fn devices<'a>(&'a self, transport: &'a str) -> impl Iterator<Item = &'a str> {
        self.resources
            .iter()
            .filter(move |r| r.transport == transport)
            .map(|r| r.device.as_str())
    }

    /// Domains of network devices that could not be opened.
    pub fn closed(&self) -> impl Iterator<Item = &str> {
        const OTHERS: &[&str] = &[
            "self", "tcp", "sysv", "posix", "cuda", "gdr_copy", "rocm", "ze_", "xpmem", "cma",
            "knem", "sock", "rdmacm",
        ];
        let closed = self.domains.iter().filter(|domain| domain.is_closed);
        let names = closed.map(|domain| domain.name.strip_prefix("ib/").unwrap_or(&domain.name));
        names.filter(|name| OTHERS.iter().all(|other| !name.starts_with(other)))
    }

    /// A domain by name.
    pub fn domain(&self, name: &str) -> Option<&Domain> {
        self.domains.iter().find(|domain| domain.name == name)
    }
}

impl UcxInfo {
    /// A list of devices names a domain once. Where one comes again a second list began: it is left out where it is the same,
    /// and what differs is returned where it is not.
    fn fold_repeats(&mut self) -> Option<String> {
        type Shown<'a> = (&'a Domain, BTreeSet<(&'a str, &'a str)>);
        let name = |domain: &Domain| (domain.name.clone(), domain.component.clone());
        let mut starts = vec![0];
        let mut seen = BTreeSet::new();
        for (at, domain) in self.domains.iter().enumerate() {
            if !seen.insert(name(domain)) {
                starts.push(at);
                seen = BTreeSet::from([name(domain)]);
            }
        }
        let first_ends = *starts.get(1)?;
        let mut shown: Vec<Shown<'_>> = self
            .domains
            .iter()
            .map(|domain| (domain, BTreeSet::new()))
            .collect();
        for resource in &self.resources {
            if let Some((_, held)) = resource.domain.and_then(|at| shown.get_mut(at)) {
                held.insert((&resource.transport, &resource.device));
            }
        }
        let ends = starts.iter().skip(1).copied().chain([shown.len()]);
        let lists: Vec<BTreeMap<_, _>> = starts
            .iter()
            .zip(ends)
            .map(|(from, to)| shown[*from..to].iter().map(|it| (name(it.0), it)).collect())
            .collect();
        for list in &lists {
            let mut both = lists[0].keys().chain(list.keys());
            if let Some((domain, _)) = both.find(|key| lists[0].get(*key) != list.get(*key)) {
                return Some(format!(
                    "two lists of devices, in which {domain} is not the same"
                ));
            }
        }
        self.domains.truncate(first_ends);
        let is_kept = |resource: &Resource| resource.domain.is_none_or(|at| at < first_ends);
        self.resources.retain(is_kept);
        None
    }
}

/// Reads the output of `-d`, of `-v`, or of both.
pub fn parse(text: &str) -> Result<UcxInfo, Unparsable> {
    let mut reading = Reading::default();
    for line in transcript::lines(text) {
        reading.line(line.trim());
    }
    let lacking = |what| Unparsable {
        tool: "ucx_info -d",
        why: Why::Lacking { what },
    };
    if reading.info.domains.is_empty()
        && reading.info.resources.is_empty()
        && reading.transport.is_some()
    {
        return Err(lacking(
            "the names of transports without their devices; hand in all of `ucx_info -d`",
        ));
    }
    // A transport or a domain behind the cut must not count as one that is not there.
    if reading.is_open() || ends_within_a_line(text) {
        return Err(lacking(
            "a list that ends within a memory domain, so what stands behind the cut is not known; hand in all of `ucx_info -d`",
        ));
    }
    let mut info = reading.info;
    if let Some(what) = info.fold_repeats() {
        return Err(Unparsable::two_places("ucx_info -d", &what));
    }
    if info.resources.is_empty() && info.domains.is_empty() && info.build == Build::default() {
        return Err(Unparsable::new("ucx_info -d", text));
    }
    Ok(info)
}

/// The last line is a comment of the tool that breaks off before its colon: `# Memory doma`.
fn ends_within_a_line(text: &str) -> bool {
    let last = transcript::lines(text)
        .map(|line| line.trim().to_owned())
        .filter(|line| !line.is_empty())
        .last();
    let words = last.as_deref().and_then(|line| line.strip_prefix('#'));
    words.is_some_and(|words| {
        let words = words.trim();
        let begun = |key: &&str| key.starts_with(words) && !words.is_empty();
        [
            "Memory domain:",
            "Connection manager:",
            "Component:",
            "Transport:",
            "Device:",
        ]
        .iter()
        .any(|key| begun(key) && words != *key)
    })
}

#[derive(Default)]
struct Reading {
    info: UcxInfo,
    transport: Option<String>,
    /// A domain or a transport began, and nothing said yet which transports and devices it has, or that it has none.
    awaits: bool,
    /// A resource is open: capability lines belong to the last one.
    in_resource: bool,
}

impl Reading {
    fn line(&mut self, line: &str) {
        if line.contains(" UCX  ") {
            let message = line.split(" UCX  ").nth(1).unwrap_or_default();
            self.info.messages.add(message);
            return;
        }
        let line = line.trim_start_matches('#').trim();
        if line.starts_with('<') || line.starts_with('(') {
            self.remark(line);
        } else if let Some((key, value)) = transcript::field(line) {
            self.field(key, value);
        } else if let Some(version) = line.strip_prefix("Version ") {
            self.info.build.version = Some(excerpt(version));
        } else if let Some(rest) = line.strip_prefix("UCT version=") {
            self.info.build.version = rest.split_whitespace().next().map(excerpt);
        }
    }

    /// `< no supported devices found >`, `< failed to open memory domain x >`, `< failed to open interface >`.
    fn remark(&mut self, line: &str) {
        let words = line.trim_matches(['<', '>', '(', ')', ' ']);
        self.awaits = false;
        if let Some(name) = words.strip_prefix("failed to open memory domain") {
            // Beneath its heading it need not be named again.
            let name = name.trim();
            if !name.is_empty() && self.info.domains.last().is_none_or(|d| d.name != name) {
                self.open_domain(name);
            }
            self.mark_empty();
            if let Some(domain) = self.info.domains.last_mut() {
                domain.is_closed = true;
            }
        } else if words.eq_ignore_ascii_case("no supported devices found") {
            if self.transport.is_none() {
                self.mark_empty();
            }
        } else if words == "failed to open interface" && self.in_resource {
            self.info.resources.pop();
            self.in_resource = false;
        }
    }

    /// The list ends before it says what the last domain or transport has.
    fn is_open(&self) -> bool {
        self.awaits
    }

    fn mark_empty(&mut self) {
        if let Some(domain) = self.info.domains.last_mut() {
            domain.is_empty = true;
        }
    }

    fn open_domain(&mut self, name: &str) {
        self.transport = None;
        self.in_resource = false;
        if self.info.domains.len() < RESOURCES {
            self.info.domains.push(Domain {
                name: excerpt(name),
                ..Domain::default()
            });
        }
    }

    fn field(&mut self, key: &str, value: &str) {
        match key {
            "Memory domain" => {
                self.awaits = true;
                self.open_domain(value);
            }
            "Connection manager" => {
                self.awaits = false;
                self.transport = None;
                self.in_resource = false;
            }
            "Transport" => {
                self.awaits = true;
                self.transport = Some(excerpt(value));
                self.in_resource = false;
            }
            "Device" => {
                self.awaits = value.is_empty();
                self.open_resource(value);
            }
            "Library version" => self.info.build.version = Some(excerpt(value)),
            "Library path" => self.info.build.path = Some(excerpt(value)),
            "Configured with" => self.info.build.options = options(value),
            _ if self.in_resource => {
                if let Some(resource) = self.info.resources.last_mut() {
                    take_resource(resource, key, value);
                }
            }
            _ if self.transport.is_none() => {
                if let Some(domain) = self.info.domains.last_mut() {
                    take_domain(domain, key, value);
                }
            }
            _ => {}
        }
    }

    fn open_resource(&mut self, device: &str) {
        self.in_resource = false;
        let Some(transport) = self.transport.clone() else {
            return;
        };
        if self.info.resources.len() < RESOURCES {
            self.in_resource = true;
            self.info.resources.push(Resource {
                domain: self.info.domains.len().checked_sub(1),
                transport,
                device: excerpt(device),
                ..Resource::default()
            });
        }
    }
}

fn take_domain(domain: &mut Domain, key: &str, value: &str) {
    match key {
        "Component" | "component" => domain.component = Some(excerpt(value)),
        "register" => domain.has_dmabuf = value.split(',').any(|word| word.trim() == "dmabuf"),
        "memory types" => domain.memory_types = memory_types(value),
        _ => {}
    }
}

fn take_resource(resource: &mut Resource, key: &str, value: &str) {
    match key {
        "Type" => resource.kind = Some(excerpt(value)),
        "bandwidth" => resource.bandwidth = bandwidth(value),
        "put_zcopy" | "get_zcopy" => resource.has_rma_zcopy = true,
        _ => {}
    }
}

/// `host (access,reg,cache), cuda (access,alloc,reg,dmabuf)`.
fn memory_types(value: &str) -> BTreeMap<String, BTreeSet<String>> {
    value
        .split(')')
        .filter_map(|entry| {
            let (name, uses) = entry.split_once('(')?;
            let name = name.trim_matches([',', ' ']);
            Some((
                excerpt(name),
                uses.split(',').map(excerpt).collect::<BTreeSet<_>>(),
            ))
        })
        .take(32)
        .collect()
}

/// `11794.23/ppn + 0.00 MB/sec`, before 1.8 `12179.00 MB/sec`.
fn bandwidth(value: &str) -> Option<Bandwidth> {
    let (shared, dedicated) = match value.split_once("/ppn") {
        Some((shared, rest)) => (shared, rest.split_once('+').map_or("0", |(_, tail)| tail)),
        None => ("0", value),
    };
    Some(Bandwidth {
        shared_mib_per_s: transcript::number(shared)?,
        dedicated_mib_per_s: transcript::number(dedicated)?,
    })
}

/// Options that say what was built in; paths of the build machine are left out.
fn options(value: &str) -> Vec<String> {
    value
        .split_whitespace()
        .filter(|word| {
            ["--with-", "--without-", "--enable-", "--disable-"]
                .iter()
                .any(|prefix| word.starts_with(prefix))
        })
        .map(|word| excerpt(word.split('=').next().unwrap_or_default()))
        .take(128)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // UCX 1.13.1 in the soft-RoCE machine, most capability lines cut. The error line is of the run under memlock 0.
    const DEVICES: &str = "#
# Memory domain: tcp
#     Component: tcp
#             register: unlimited, cost: 0 nsec
#           remote key: 0 bytes
#
#      Transport: tcp
#         Device: eth0
#           Type: network
#  System device: <unknown>
#
#      capabilities:
#            bandwidth: 1131.64/ppn + 0.00 MB/sec
#            put_zcopy: <= 18446744073709551590, up to 6 iov
#
# Connection manager: tcp
#      max_conn_priv: 2064 bytes
#
# Memory domain: rxe0
#     Component: ib
#
#      Transport: rc_verbs
#         Device: rxe0:1
#           Type: network
#      Transport: ud_verbs
#         Device: rxe0:1
#           Type: network
# < failed to open interface >
[1796033405.005234] [vm:3470 :0]          ib_log.c:254  UCX  ERROR ibv_reg_mr(address=0x7f0b3a800000, length=20971520, access=0xf) failed: Operation not permitted
";
    // Written by hand after ucx_info 1.20 on a host with a GPU.
    const MEMORY_TYPES: &str = "# Memory domain: mlx5_0
#     Component: ib
#             register: unlimited, dmabuf, cost: 16000 + 0.060 * N nsec
#         memory types: host (access,reg,cache), cuda (access,reg,cache)
#
#      Transport: rc_mlx5
#         Device: mlx5_0:1
#           Type: network
";

    #[test]
    fn transports_devices_and_domains() {
        let info = parse(DEVICES).unwrap();
        assert_eq!(info.transports(), BTreeSet::from(["rc_verbs", "tcp"]));
        assert_eq!(info.devices("rc_verbs").collect::<Vec<_>>(), ["rxe0:1"]);
        let tcp = &info.resources[0];
        assert_eq!(tcp.bandwidth.unwrap().shared_mib_per_s, 1131.64);
        assert!(tcp.has_rma_zcopy);
        assert_eq!(tcp.kind.as_deref(), Some("network"));
        assert_eq!(
            info.domain("rxe0").unwrap().component.as_deref(),
            Some("ib")
        );
        assert_eq!(info.messages.total(), 1);
    }

    #[test]
    fn the_hash_may_be_lost() {
        let bare: String = DEVICES
            .lines()
            .map(|line| format!("{}\n", line.trim_start_matches('#')))
            .collect();
        assert_eq!(parse(&bare).unwrap(), parse(DEVICES).unwrap());
    }

    #[test]
    fn memory_types_name_gpu_memory() {
        let info = parse(MEMORY_TYPES).unwrap();
        let domain = info.domain("mlx5_0").unwrap();
        assert!(domain.has_dmabuf);
        assert!(domain.memory_types["cuda"].contains("reg"));
    }

    #[test]
    fn versions_of_three_ages() {
        for (text, version, path) in [
            (
                "# UCT version=1.6.0 revision 02078b9\n# configured with: x\n",
                "1.6.0",
                None,
            ),
            (
                "# Version 1.13.1\n# Git branch '<unknown>', revision 0000000\n",
                "1.13.1",
                None,
            ),
            (
                "# Library version: 1.20.0\n# Library path: /usr/lib/libucs.so.0\n",
                "1.20.0",
                Some("/usr/lib/libucs.so.0"),
            ),
        ] {
            let build = parse(text).unwrap().build;
            assert_eq!(build.version.as_deref(), Some(version));
            assert_eq!(build.path.as_deref(), path);
        }
        let text =
            "# Configured with: --prefix=/home/me/ucx --with-cuda=/usr/local/cuda --enable-mt\n";
        assert_eq!(
            parse(text).unwrap().build.options,
            ["--with-cuda", "--enable-mt"]
        );
    }

    #[test]
    fn two_places_in_one_text_are_refused() {
        assert_eq!(
            parse(&format!("{MEMORY_TYPES}{MEMORY_TYPES}")),
            parse(MEMORY_TYPES)
        );
        let gga = MEMORY_TYPES.replace("Component: ib", "Component: gga");
        let both = parse(&format!("{MEMORY_TYPES}{gga}")).unwrap();
        assert_eq!(both.domains.len(), 2);
        for other in [
            MEMORY_TYPES.replace("cuda (access,reg,cache)", "cuda (access)"),
            MEMORY_TYPES.replace("rc_mlx5", "ud_mlx5"),
            format!("{MEMORY_TYPES}{DEVICES}"),
        ] {
            let error = parse(&format!("{MEMORY_TYPES}{other}")).unwrap_err();
            assert!(error.to_string().contains("two places"), "{error}");
        }
    }

    #[test]
    fn a_flood_stays_small() {
        let mut text = DEVICES.to_owned();
        for n in 0..20_000 {
            text.push_str(&format!(
                "[1.0] [vm:1:0] mpool.c:226  UCX  ERROR chunk {n} at 0x{n:x} failed\n"
            ));
            text.push_str(&format!(
                "#  Memory domain: x{n}\n#  Transport: y\n#  Device: z\n"
            ));
        }
        let info = parse(&text).unwrap();
        assert!(info.messages.messages().len() <= 2);
        assert!(info.resources.len() <= RESOURCES && info.domains.len() <= RESOURCES);
        assert!(parse("nothing of ours\n").is_err());
    }
}
