//! Which UCX, NIXL, NCCL and engine are here, and which of them the worker has loaded.

use super::answers::{Seen, first, list, tool};
use super::process::{Whose, environment_of};
use crate::ask::{self, Ask};
use crate::facts::transcript::excerpt;
use crate::facts::ucx_info::{self, UcxInfo};
use crate::observed::{Observed, Skip};
use crate::report::SkipReason;
use crate::snapshot::Snapshot;
use std::collections::{BTreeMap, BTreeSet};

/// Libraries and packages of the container.
#[derive(Debug, Clone)]
pub struct Software {
    /// Python packages of interest.
    pub packages: Observed<Seen<Vec<Package>>>,
    /// Transport libraries and RDMA nodes that the worker has mapped, by path.
    pub mapped: Observed<Seen<BTreeSet<String>>>,
    /// A worker process was found, so that what it has loaded is there to be seen.
    has_worker: bool,
    /// Installations of UCX by the directory of its libraries.
    pub ucx: Observed<Seen<BTreeMap<String, Installation>>>,
    /// Backends that NIXL finds a plugin for, with the path: `UCX`, `LIBFABRIC`.
    pub nixl_plugins: Observed<Seen<BTreeMap<String, String>>>,
    /// The directory of NIXL_PLUGIN_DIR was looked at for plugins.
    pub nixl_plugin_dir_seen: bool,
    /// Tools that test a path: names on `PATH`, or paths.
    pub test_tools: Observed<Seen<Vec<String>>>,
    /// Version and build of the UCX on `PATH`.
    pub ucx_build: Observed<Seen<UcxInfo>>,
    /// Transports of the UCX on `PATH`.
    pub ucx_devices: Observed<Seen<UcxInfo>>,
    /// libfabric shows an EFA provider.
    pub efa_provider: Observed<Seen<bool>>,
    /// Version of the libfabric on `PATH`.
    pub libfabric: Observed<Seen<String>>,
    /// What an interpreter of the container loaded for a transfer.
    pub transfer: Observed<Seen<Loaded>>,
}

/// NIXL and UCX as an interpreter really loads them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Packages of NIXL.
    pub packages: Vec<Package>,
    /// Libraries, by path.
    pub libraries: BTreeSet<String>,
    /// Version of UCX, as it printed it.
    pub ucx: Option<String>,
}

/// An installed Python package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// Name as in its directory: `nixl_cu12`.
    pub name: String,
    /// Version.
    pub version: String,
    /// Directory that holds it.
    pub site: String,
}

/// One UCX.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Installation {
    /// Its modules: `uct_ib`, `uct_cuda`, `ucm_cuda`.
    pub modules: BTreeSet<String>,
}

/// A version with what it was concluded from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// As written: `1.21.0`.
    pub text: String,
    /// What says so.
    pub source: String,
    /// The read that showed it.
    pub ask: &'static Ask,
}

impl Version {
    /// First two numbers.
    pub fn numbers(&self) -> Option<(u32, u32)> {
        numbers(&self.text)
    }
}

/// First two numbers of a version: `2.27.3` is (2, 27).
pub fn numbers(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split(['.', '+', '-', 'r', 'a', 'b']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// The UCX in wheels of NIXL, by first and last version of the wheel (both included). What the wheels of these versions
/// hold was listed; the rows between follow the tags' own build files.
/// <https://github.com/ai-dynamo/nixl/blob/1.3.0/contrib/Dockerfile>, and the file list of the package nixl-cu12
const UCX_OF_NIXL: &[Bundle] = &[
    bundle((0, 3), (0, 7), "1.19"),
    bundle((0, 8), (0, 10), "1.20"),
    bundle((1, 0), (1, 3), "1.21"),
    bundle((1, 4), (1, 4), "1.22"),
    bundle((1, 5), (1, 5), "1.23"),
];

struct Bundle {
    first: (u32, u32),
    last: (u32, u32),
    ucx: &'static str,
}

const fn bundle(first: (u32, u32), last: (u32, u32), ucx: &'static str) -> Bundle {
    Bundle { first, last, ucx }
}

/// The UCX in a wheel of NIXL of this version.
fn bundled(nixl: (u32, u32)) -> Option<&'static str> {
    let mut rows = UCX_OF_NIXL.iter();
    let row = rows.find(|row| (row.first..=row.last).contains(&nixl))?;
    Some(row.ucx)
}

impl Software {
    pub(super) fn read(snapshot: &Snapshot) -> Self {
        Self {
            packages: list(snapshot, &ask::PYTHON_PACKAGES, packages),
            mapped: list(snapshot, &ask::WORKER_LIBRARIES, |text| {
                let lines = text
                    .lines()
                    .map(str::trim)
                    .filter(|line| line.starts_with('/'));
                lines.map(excerpt).collect()
            }),
            has_worker: environment_of(snapshot)
                .known()
                .is_some_and(|read| matches!(read.whose, Whose::Worker(_))),
            ucx: list(snapshot, &ask::UCX_LIBRARIES, installations),
            nixl_plugins: nixl_plugins(snapshot),
            nixl_plugin_dir_seen: list(snapshot, &ask::NIXL_PLUGINS, |text| {
                text.lines().any(|line| line.trim() == PLUGIN_DIR_SEEN)
            })
            .known()
            .is_some_and(|seen| seen.value),
            test_tools: list(snapshot, &ask::TEST_TOOLS, |text| {
                let lines = text.lines().map(str::trim);
                lines.filter(|l| !l.is_empty()).map(excerpt).collect()
            }),
            ucx_build: first(vec![
                tool(snapshot, &ask::UCX_INFO_VERSION, ucx_info::parse),
                tool(snapshot, &ask::UCX_INFO, ucx_info::parse),
            ]),
            ucx_devices: first(vec![
                devices(snapshot, &ask::UCX_INFO_DEVICES),
                devices(snapshot, &ask::UCX_INFO),
            ]),
            efa_provider: tool(snapshot, &ask::FI_INFO_EFA, |text| {
                if text.contains("provider: efa") {
                    Ok(true)
                } else if text.contains("fi_getinfo") || text.contains("No data available") {
                    Ok(false)
                } else {
                    let detail = "the output of fi_info was not understood";
                    Err(Skip::new(SkipReason::Unparsable, detail))
                }
            }),
            libfabric: tool(snapshot, &ask::FI_INFO_VERSION, libfabric),
            transfer: list(snapshot, &ask::TRANSFER_SOFTWARE, loaded),
        }
    }

    /// The version of a package, where all copies of it agree.
    fn package(&self, names: &[&str]) -> Option<Version> {
        let packages = self.packages.known()?;
        one_version(packages, names, packages.ask)
    }

    /// All packages of NIXL with the read that showed each: those in the directories of Python, and those that a transfer
    /// loaded from elsewhere.
    pub fn nixl_packages(&self) -> Result<Vec<(&Package, &'static Ask)>, Skip> {
        let loaded = self.transfer.known();
        let loaded = loaded.map(|seen| seen.packages.iter().map(|p| (p, seen.ask)));
        let mut found: Vec<_> = loaded.into_iter().flatten().collect();
        let listed = match self.packages.get() {
            Ok(seen) => seen.iter().map(|p| (p, seen.ask)),
            Err(_) if !found.is_empty() => return Ok(found),
            Err(skip) => return Err(skip),
        };
        let ours = |p: &Package| matches!(&*plain(&p.name), "nixl" | "nixl_cu12" | "nixl_cu13");
        let mut all: Vec<_> = listed.filter(|(p, _)| ours(p)).collect();
        found.retain(|(p, _)| !all.iter().any(|(other, _)| other == p));
        all.extend(found);
        Ok(all)
    }

    /// Version of NIXL: of the one that a transfer loaded, else the only one that is here.
    pub fn nixl(&self) -> Option<Version> {
        const WHEELS: &[&str] = &["nixl_cu12", "nixl_cu13"];
        let loaded = self.transfer.known();
        let loaded = |names| loaded.and_then(|l| one_version(&l.packages, names, l.ask));
        loaded(WHEELS)
            .or_else(|| loaded(&["nixl"]))
            .or_else(|| self.package(WHEELS))
            .or_else(|| self.package(&["nixl"]))
    }

    /// Version of NCCL as a package.
    pub fn nccl(&self) -> Option<Version> {
        self.package(&["nvidia_nccl_cu12", "nvidia_nccl_cu13"])
    }

    /// Version of TensorRT-LLM, SGLang or vLLM.
    pub fn engine(&self) -> Option<(&'static str, Version)> {
        [
            ("TensorRT-LLM", "tensorrt_llm"),
            ("SGLang", "sglang"),
            ("vLLM", "vllm"),
        ]
        .into_iter()
        .find_map(|(shown, name)| Some((shown, self.package(&[name])?)))
    }

    /// Directories from which the worker has loaded libucp. More than one: two UCX in one process.
    pub fn ucx_loaded(&self) -> Result<BTreeSet<&str>, Skip> {
        let mapped = self.mapped.get()?;
        let loaded = mapped.iter().filter(|path| is_library(path, "libucp"));
        Ok(loaded.map(|path| directory(path)).collect())
    }

    /// The directory of the UCX that a transfer loaded.
    fn ucx_of_transfer(&self) -> Option<&str> {
        let loaded = self.transfer.known()?;
        let mut paths = loaded.libraries.iter().filter(|p| is_library(p, "libucp"));
        match (paths.next(), paths.next()) {
            (Some(one), None) => Some(directory(one)),
            _ => None,
        }
    }

    /// The UCX in use, by the directory of its libraries: the one that the worker has loaded, else the one that a transfer
    /// loaded, else the only one.
    pub fn ucx_in_use(&self) -> Result<String, Skip> {
        let loaded = self.ucx_loaded();
        match &loaded {
            // There is a worker, and what it has loaded is closed to us.
            Err(skip) if self.has_worker => return Err(skip.clone()),
            Err(skip)
                if !matches!(skip.reason, SkipReason::NotFound | SkipReason::NotCollected) =>
            {
                return Err(skip.clone());
            }
            Ok(_)
                if self.has_worker
                    && self.mapped.known().is_some_and(|mapped| mapped.is_empty())
                    && self.ucx_of_transfer().is_none() =>
            {
                let detail = "the worker has loaded no transport library, or what it has loaded was not seen";
                return Err(Skip::new(SkipReason::NotFound, detail));
            }
            _ => {}
        }
        if let Ok(loaded) = loaded {
            let mut loaded = loaded.into_iter();
            match (loaded.next(), loaded.next()) {
                (Some(one), None) => return Ok(one.to_owned()),
                (Some(_), Some(_)) => {
                    let detail = "the worker has loaded more than one UCX";
                    return Err(Skip::new(SkipReason::Unresolved, detail));
                }
                (None, _) => {}
            }
        }
        if let Some(one) = self.ucx_of_transfer() {
            return Ok(one.to_owned());
        }
        let installed = self.ucx.get()?;
        match (installed.len(), installed.first_key_value()) {
            (1, Some((only, _))) => Ok(only.clone()),
            (0, _) => Err(Skip::new(
                SkipReason::NotFound,
                "no UCX was found in the usual directories",
            )),
            (many, _) => Err(Skip::new(
                SkipReason::Unresolved,
                format!(
                    "{many} installations of UCX are here ({}), and no worker shows which one it loads",
                    installed.keys().cloned().collect::<Vec<_>>().join(", ")
                ),
            )),
        }
    }

    /// The UCX that NIXL brought along, where it lies here and another one is in use.
    pub fn ucx_passed_over(&self) -> Option<&'static str> {
        let of_nixl = |dir: &str| dir.contains("nixl") && dir.contains(".libs");
        let in_use = self.ucx_in_use().ok()?;
        let mut here = self.ucx.known()?.keys();
        let passed_over = !of_nixl(&in_use) && here.any(|dir| of_nixl(dir));
        bundled(self.nixl().filter(|_| passed_over)?.numbers()?)
    }

    /// The version of the UCX in use, where something says it for sure.
    pub fn ucx_version(&self) -> Option<Version> {
        let in_use = self.ucx_in_use().ok()?;
        if let Some(loaded) = self.transfer.known()
            && self.ucx_of_transfer() == Some(in_use.as_str())
            && let Some(text) = loaded.ucx.clone()
        {
            return Some(Version {
                text,
                source: format!("UCX of {in_use} itself, in the transfer"),
                ask: loaded.ask,
            });
        }
        if in_use.contains("nixl") && in_use.contains(".libs") {
            let nixl = self.nixl()?;
            let have = nixl.numbers()?;
            return Some(Version {
                text: bundled(have)?.to_owned(),
                source: format!("{in_use} of NIXL {}", nixl.text),
                ask: nixl.ask,
            });
        }
        let known = self.ucx_build.known()?;
        let (build, ask) = (&known.build, known.ask);
        let text = build.version.clone()?;
        let Some(path) = build.path.as_deref() else {
            // Before 1.16 the tool does not say where its library is; of a single one it need not.
            let only = self.ucx.known().is_some_and(|found| found.len() == 1);
            let source = "ucx_info -v".to_owned();
            return only.then_some(Version { text, source, ask });
        };
        (directory(path) == in_use).then(|| Version {
            text,
            source: format!("ucx_info -v of {path}"),
            ask,
        })
    }

    /// Modules of the UCX in use. What the worker has mapped decides, where it has mapped any: UCX loads all it can.
    pub fn ucx_modules(&self) -> Result<(BTreeSet<String>, &'static crate::ask::Ask), Skip> {
        let in_use = self.ucx_in_use()?;
        if let Some(mapped) = self.mapped.known() {
            let modules: BTreeSet<String> = mapped.iter().filter_map(|path| module(path)).collect();
            if modules.iter().any(|name| name.starts_with("uct_")) {
                return Ok((modules, mapped.ask));
            }
        }
        if let Some(loaded) = self.transfer.known()
            && self.ucx_of_transfer() == Some(in_use.as_str())
        {
            let mut modules: BTreeSet<String> =
                loaded.libraries.iter().filter_map(|p| module(p)).collect();
            if let Some(installation) = self.ucx.known().and_then(|u| u.get(&in_use)) {
                modules.extend(installation.modules.iter().cloned());
            }
            return Ok((modules, loaded.ask));
        }
        let installed = self.ucx.get()?;
        match installed.get(&in_use) {
            Some(installation) => Ok((installation.modules.clone(), installed.ask)),
            None => Err(Skip::new(
                SkipReason::NotFound,
                format!("the modules of the UCX in {in_use} were not found"),
            )),
        }
    }

    /// The plugin of NCCL that the worker has loaded: `Some(None)` where NCCL is loaded without one.
    pub fn nccl_plugin(&self) -> Option<Option<&str>> {
        let mapped = self.mapped.known()?;
        let plugin = mapped.iter().find(|path| is_library(path, "libnccl-net"));
        match plugin {
            Some(path) => Some(Some(file(path))),
            None => mapped
                .iter()
                .any(|path| is_library(path, "libnccl"))
                .then_some(None),
        }
    }
}

/// Backends with a plugin: what the usual directories hold, or where they hold none, what a transfer loaded.
fn nixl_plugins(snapshot: &Snapshot) -> Observed<Seen<BTreeMap<String, String>>> {
    let listed = list(snapshot, &ask::NIXL_PLUGINS, plugins);
    let loaded = list(snapshot, &ask::TRANSFER_SOFTWARE, plugins);
    let any = |found: &Observed<Seen<BTreeMap<String, String>>>| {
        found.known().is_some_and(|seen| !seen.is_empty())
    };
    if !any(&listed) && any(&loaded) {
        loaded
    } else {
        listed
    }
}

/// `libfabric: 1.22.0amzn4.0`, between the versions of the tool and of the interface.
fn libfabric(text: &str) -> Result<String, Skip> {
    let mut lines = text.lines();
    let version = lines.find_map(|line| line.trim().strip_prefix("libfabric:"));
    version
        .map(|version| excerpt(version.trim()))
        .ok_or_else(|| {
            let detail = "the output of fi_info --version was not understood";
            Skip::new(SkipReason::Unparsable, detail)
        })
}

/// The version of these packages, where all copies of them agree.
fn one_version(packages: &[Package], names: &[&str], ask: &'static Ask) -> Option<Version> {
    let ours = packages
        .iter()
        .filter(|p| names.contains(&&*plain(&p.name)));
    let versions: BTreeMap<&str, &Package> = ours.map(|p| (p.version.as_str(), p)).collect();
    let (version, package) = versions.first_key_value()?;
    (versions.len() == 1).then(|| Version {
        text: (*version).to_owned(),
        source: format!("{}/{}-{version}.dist-info", package.site, package.name),
        ask,
    })
}

/// A name as pip compares it.
fn plain(name: &str) -> String {
    name.to_ascii_lowercase().replace('-', "_")
}

fn loaded(text: &str) -> Loaded {
    let lines = || text.lines().map(str::trim);
    Loaded {
        packages: packages(text),
        libraries: lines()
            .filter(|line| line.starts_with('/') && line.contains(".so"))
            .map(excerpt)
            .collect(),
        ucx: lines()
            .find_map(|line| line.strip_prefix("UCX "))
            .map(excerpt),
    }
}

/// `ucx_info -d` shows resources; its `-v` does not.
fn devices(snapshot: &Snapshot, ask: &'static crate::ask::Ask) -> Observed<Seen<UcxInfo>> {
    tool(snapshot, ask, |text| {
        let info = ucx_info::parse(text)?;
        if info.resources.is_empty() && info.domains.is_empty() {
            let detail = "no transport is listed in it; `ucx_info -d` lists them";
            return Err(Skip::new(SkipReason::NotCollected, detail));
        }
        Ok(info)
    })
}

/// Rows of `pip list`, below its header. A list without the header may be a part, in which what is absent may yet be there.
pub(crate) fn pip_list(text: &str) -> Option<Vec<Package>> {
    let mut lines = text.lines().map(str::trim);
    lines.find(|line| line.starts_with("Package") && line.contains("Version"))?;
    let rows = lines.filter_map(|line| {
        let mut words = line.split_whitespace();
        let (name, version) = (words.next()?, words.next()?);
        version
            .starts_with(|c: char| c.is_ascii_digit())
            .then(|| Package {
                name: excerpt(name),
                version: excerpt(version),
                site: String::new(),
            })
    });
    Some(rows.collect())
}

/// `.../nixl_cu12-1.3.0.dist-info`, or what a person pastes of pip.
fn packages(text: &str) -> Vec<Package> {
    if let Some(rows) = pip_list(text) {
        return rows;
    }
    text.lines()
        .filter_map(|line| {
            let line = line.trim();
            let (site, file) = line.rsplit_once('/').unwrap_or(("", line));
            let stem = file.strip_suffix(".dist-info")?;
            let (name, version) = stem.rsplit_once('-')?;
            Some(Package {
                name: excerpt(name),
                version: excerpt(version),
                site: excerpt(site),
            })
        })
        .collect()
}

fn directory(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

fn file(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, file)| file)
}

/// `libucp.so.0`, and `libucp-1a2b3c.so.0.0.0` of a wheel.
fn is_library(path: &str, name: &str) -> bool {
    file(path).strip_prefix(name).is_some_and(|rest| {
        rest.starts_with(".so") || rest.starts_with('-') && rest.contains(".so")
    })
}

/// `libuct_ib_mlx5.so.0` is `uct_ib_mlx5`; wheels put a hash behind a hyphen.
fn module(path: &str) -> Option<String> {
    let name = file(path).strip_prefix("lib")?;
    let known = name.starts_with("uct_") || name.starts_with("ucm_");
    let end = name.find(['-', '.'])?;
    known.then(|| excerpt(&name[..end]))
}

fn installations(text: &str) -> BTreeMap<String, Installation> {
    let mut found: BTreeMap<String, Installation> = BTreeMap::new();
    let paths = || {
        text.lines()
            .map(str::trim)
            .filter(|line| line.starts_with('/'))
    };
    for path in paths().filter(|path| is_library(path, "libucp")) {
        found.entry(excerpt(directory(path))).or_default();
    }
    for path in paths() {
        let (Some(module), Some(parent)) = (module(path), directory(path).strip_suffix("/ucx"))
        else {
            continue;
        };
        if let Some(installation) = found.get_mut(parent) {
            installation.modules.insert(module);
        }
    }
    found
}

/// What the probe says once it has looked at the directory of NIXL_PLUGIN_DIR.
const PLUGIN_DIR_SEEN: &str = "NIXL_PLUGIN_DIR was looked at";

/// `.../libplugin_UCX.so`.
fn plugins(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter_map(|line| {
            let path = line.trim();
            let name = file(path).strip_prefix("libplugin_")?;
            let name = name.split(['.', '-']).next()?;
            Some((excerpt(name), excerpt(path)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::testing::container;

    const SITE: &str = "/opt/dynamo/venv/lib/python3.12/site-packages";

    fn wheel() -> Vec<(&'static Ask, String)> {
        vec![
            (
                &ask::PYTHON_PACKAGES,
                format!("{SITE}/nixl_cu12-1.3.0.dist-info\n{SITE}/vllm-0.11.0.dist-info"),
            ),
            (
                &ask::UCX_LIBRARIES,
                format!(
                    "{SITE}/nixl_cu12.libs/libucp-1a2b.so.0.0.0\n{SITE}/nixl_cu12.libs/ucx/libuct_ib-3c.so.0\n\
                     /usr/local/ucx/lib/libucp.so.0\n/usr/local/ucx/lib/ucx/libuct_cuda.so.0\n"
                ),
            ),
        ]
    }

    fn software(answers: &[(&'static Ask, String)]) -> Software {
        let answers: Vec<_> = answers.iter().map(|(a, t)| (*a, t.as_str())).collect();
        Software::read(&container("decode", &answers))
    }

    #[test]
    fn two_installations_and_no_worker_leave_the_ucx_open() {
        let two = software(&wheel());
        assert_eq!(two.ucx_in_use().unwrap_err().reason, SkipReason::Unresolved);
        assert_eq!(two.ucx_version(), None);
        assert_eq!(two.nixl().unwrap().numbers(), Some((1, 3)));
        assert_eq!(two.engine().unwrap().1.text, "0.11.0");
    }

    #[test]
    fn the_loaded_ucx_counts_with_what_it_has_loaded() {
        let mut answers = wheel();
        let mapped = format!("{SITE}/nixl_cu12.libs/libucp-1a2b.so.0.0.0\n/usr/lib/libnccl.so.2");
        answers.push((&ask::WORKER_LIBRARIES, mapped));
        let one = software(&answers);
        assert_eq!(one.ucx_version().unwrap().text, "1.21");
        assert_eq!(one.ucx_modules().unwrap().0, ["uct_ib".to_owned()].into());
        assert_eq!(one.nccl_plugin(), Some(None));
        if let Some((_, text)) = answers.last_mut() {
            text.push_str("\n/x/libuct_cuda.so.0\n/opt/amazon/libnccl-net-ofi.so");
        }
        let one = software(&answers);
        assert_eq!(one.ucx_modules().unwrap().0, ["uct_cuda".to_owned()].into());
        assert_eq!(one.nccl_plugin(), Some(Some("libnccl-net-ofi.so")));
    }
}
