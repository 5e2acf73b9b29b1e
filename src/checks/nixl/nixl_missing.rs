use crate::ask;
use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::facts::container::software::Package;
use crate::observed::Skip;
use crate::report::{Evidence, SkipReason};
use crate::snapshot::evidence;
use std::collections::{BTreeMap, BTreeSet};

check! {
    /// NIXL, or the backend that the worker selects, is not in the container.
    ///
    /// The finding says which NIXL is there, for which interpreter, with which UCX and libfabric, which plugins it has,
    /// and which backend and side channel the worker's environment selects.
    ///
    /// ## Why it matters
    /// Without NIXL an engine cannot hand its KV cache on; without the plugin of the selected backend NIXL makes an agent
    /// that has no backend, and each transfer fails.
    ///
    /// ## Fix
    /// Use a runtime image of Dynamo, or install `nixl[cu12]` (CUDA 13: `nixl[cu13]`) for the interpreter that runs the
    /// engine. For a missing plugin use an image that brings it, point NIXL_PLUGIN_DIR at it, or select another backend.
    ///
    /// ## Sources
    /// ai-dynamo/nixl 1.5.1: `src/core/nixl_plugin_manager.cpp` (libplugin_NAME.so), wheels nixl-cu12 and nixl-cu13.
    "NIXL003" "nixl" on Container {
        subsystem: Nixl, kv_path: Supporting, worst: Fail, causes: &[], since: "0.1.0",
    }
}

/// Variables by which engines select a backend of NIXL.
const SELECTORS: &[&str] = &[
    "SGLANG_DISAGGREGATION_NIXL_BACKEND",
    "TRTLLM_NIXL_KVCACHE_BACKEND",
];
/// Switches of TensorRT-LLM that move KV without NIXL.
const OTHER_WAYS: &[&str] = &[
    "TRTLLM_USE_UCX_KVCACHE",
    "TRTLLM_USE_MOONCAKE_KVCACHE",
    "TRTLLM_USE_MPI_KVCACHE",
];

fn run(container: &Container<'_>) -> Outcome {
    if container.is_aggregated() {
        return Err(Skip::not_applicable());
    }
    let software = &container.facts.software;
    let found = software.nixl_packages()?;
    if found.is_empty() {
        return without_package(container);
    }
    let versions: BTreeSet<&str> = found.iter().map(|(p, _)| p.version.as_str()).collect();
    let by_read = found.chunk_by(|(_, a), (_, b)| a.id == b.id);
    let seen: Vec<Evidence> = by_read
        .map(|of_one| {
            let lines: Vec<String> = of_one.iter().map(|(p, _)| file(p)).collect();
            evidence(of_one[0].1, lines.iter().map(String::as_str))
        })
        .collect();
    let found: Vec<&Package> = found.into_iter().map(|(p, _)| p).collect();
    if let Some(broken) = found.iter().find(|p| p.version.is_empty()) {
        let detail = format!(
            "the package {} of {} tells no version: its dist-info is broken, so whether NIXL is whole is not known; install it \
             anew",
            broken.name,
            interpreter(&broken.site)
        );
        return Err(Skip::new(SkipReason::Unparsable, detail));
    }
    let sites: Vec<&str> = found.iter().map(|p| p.site.as_str()).collect();
    if versions.len() > 1 {
        let all: Vec<String> = found
            .iter()
            .map(|p| format!("{} {} for {}", p.name, p.version, interpreter(&p.site)))
            .collect();
        let detail = format!(
            "NIXL is here in several versions ({}); which one a worker loads depends on its interpreter and its \
             dependencies",
            all.join(", ")
        );
        let fix = "keep one version of NIXL, the same on prefill and decode";
        let draft = Draft::warn(detail).headline("NIXL is here in several versions");
        return Ok(vec![draft.with(seen).fix(fix)]);
    }
    with_backend(container, packages_in_words(&found), &sites, seen)
}

/// NIXL is there, in these directories: has it the backend?
fn with_backend(
    container: &Container<'_>,
    nixl: String,
    sites: &[&str],
    mut seen: Vec<Evidence>,
) -> Outcome {
    let listed = container.facts.software.nixl_plugins.get()?;
    let named = value(container, "NIXL_PLUGIN_DIR").filter(|dir| !dir.is_empty());
    let mut plugins: BTreeMap<&str, &str> = listed
        .iter()
        .map(|(name, path)| (&**name, &**path))
        .collect();
    if let Some(dir) = &named {
        let dir = dir.trim_end_matches('/');
        plugins.retain(|_, path| path.rsplit_once('/').is_some_and(|(of, _)| of == dir));
        if plugins.is_empty() {
            return nothing_named(container, dir, &nixl, seen);
        }
    }
    let (selected, chosen, by) = selected(container);
    let wanted = selected.as_deref().unwrap_or("UCX");
    let how = match &by {
        Some(name) => format!("{wanted}, which {name} selects"),
        None => format!("{wanted}, NIXL's default"),
    };
    if plugins.is_empty() {
        let detail = format!(
            "{nixl}; its plugins are in none of the usual directories, so whether it has {how}, is not known"
        );
        return Err(Skip::new(SkipReason::NotFound, detail));
    }
    let names: Vec<&str> = plugins.keys().copied().collect();
    let names = names.join(", ");
    seen.push(listed.evidence([names.as_str()]));
    seen.extend(chosen);
    if !plugins.keys().any(|name| name.eq_ignore_ascii_case(wanted)) {
        let detail =
            format!("{nixl} has no plugin for {how}: libplugin_{wanted}.so is not among {names}");
        let fix = format!(
            "use an image whose NIXL has libplugin_{wanted}.so, point NIXL_PLUGIN_DIR at it, or select one of {names}"
        );
        let headline = format!("NIXL has no plugin for {how}");
        let draft = container.broken(detail).headline(headline);
        let draft = draft.with(seen).fix(fix);
        return Ok(vec![draft.follows("efa-without-libfabric")]);
    }
    let backend = match by {
        Some(name) => format!("backend {wanted} by {name}"),
        None => "backend not named (UCX is the default)".to_owned(),
    };
    let mut parts = vec![nixl];
    parts.extend(libraries(container, sites));
    let mut told = plugins_in_words(&plugins.keys().copied().collect::<Vec<_>>());
    if let Some(dir) = named {
        told = format!("{told} of NIXL_PLUGIN_DIR={dir}");
    }
    parts.push(told);
    parts.push(backend);
    parts.extend(side_channel(container));
    Ok(vec![Draft::ok(parts.join("; ")).with(seen)])
}

/// NIXL looks in the directory that NIXL_PLUGIN_DIR names and in no other (`getPluginDir` of `nixl_plugin_manager.cpp`; NIXL
/// 1.5.1 run with an absent and with an empty directory), and no plugin was found in it.
fn nothing_named(
    container: &Container<'_>,
    dir: &str,
    nixl: &str,
    mut seen: Vec<Evidence>,
) -> Outcome {
    let software = &container.facts.software;
    if !software.nixl_plugin_dir_seen {
        let detail = format!(
            "{nixl} takes its plugins from NIXL_PLUGIN_DIR={dir}, and what lies there was not read"
        );
        return Err(Skip::new(SkipReason::NotCollected, detail));
    }
    let elsewhere = software.nixl_plugins.known().and_then(|all| {
        let (directory, _) = all.values().next()?.rsplit_once('/')?;
        Some(format!(", for example {directory}"))
    });
    seen.extend(setting(container, "NIXL_PLUGIN_DIR"));
    let detail = format!(
        "no libplugin_*.so is in NIXL_PLUGIN_DIR={dir}, where {nixl} looks for its plugins and nowhere else, so that it has no \
         backend"
    );
    let fix = format!(
        "remove NIXL_PLUGIN_DIR, or name in it the directory that holds libplugin_UCX.so{}",
        elsewhere.unwrap_or_default()
    );
    let headline = format!("no plugin of NIXL is in NIXL_PLUGIN_DIR={dir}");
    let draft = container.broken(detail).headline(headline);
    Ok(vec![draft.with(seen).fix(fix)])
}

/// No package: TensorRT-LLM may use a NIXL that is no Python package, and some workers need none.
fn without_package(container: &Container<'_>) -> Outcome {
    let software = &container.facts.software;
    let packages = software.packages.get()?;
    let plugins = software.nixl_plugins.get()?;
    if let Some(path) = plugins.values().next() {
        let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
        let nixl = format!("NIXL without a Python package, with plugins in {directory}");
        return with_backend(container, nixl, &[], vec![plugins.evidence([directory])]);
    }
    if let Some(mapped) = software.mapped.known()
        && let Some(path) = mapped.iter().find(|path| path.contains("libnixl"))
    {
        let detail = format!("the worker has loaded {path}, whose plugins were not found");
        return Err(Skip::new(SkipReason::NotFound, detail));
    }
    let other = OTHER_WAYS
        .iter()
        .find(|name| value(container, name).is_some_and(|v| v == "1"));
    if let Some(name) = other {
        let detail = format!("no NIXL is here, and {name}=1 moves KV without it");
        return Ok(vec![Draft::ok(detail).with(setting(container, name))]);
    }
    let names: Vec<&str> = packages.iter().map(|p| p.name.as_str()).collect();
    let seen = [packages.evidence(["no nixl, nixl_cu12 or nixl_cu13 among the packages"])];
    let fix = "use a runtime image of Dynamo, or install nixl[cu12] (CUDA 13: nixl[cu13]) for the engine's interpreter";
    if container.moves_kv() && names.is_empty() {
        let detail = "neither an engine nor NIXL was found in the usual directories, so the worker's interpreter is \
                      somewhere else";
        return Err(Skip::new(SkipReason::NotFound, detail));
    }
    if names.iter().any(|name| name.starts_with("mooncake")) {
        let detail =
            "no NIXL is here; Mooncake is, and whether the worker moves KV with it is not known";
        let draft = Draft::warn(detail).headline("no NIXL is here, and Mooncake is");
        return Ok(vec![draft.with(seen).fix(fix)]);
    }
    let headline = match container.is_pasted() {
        true => "no NIXL is among the packages that were pasted".to_owned(),
        false if names.is_empty() => format!(
            "no NIXL was found in the Python directories of {}",
            container.called()
        ),
        false => format!("no NIXL is in {}", container.called()),
    };
    let detail = if names.is_empty() {
        "no NIXL was found here in the usual directories of Python, where a worker would need it"
            .to_owned()
    } else {
        format!(
            "{headline}, where {} are; the worker cannot hand its KV cache on",
            names.join(", ")
        )
    };
    // A machine or a pod of unknown role need not have one.
    let minor = !container.moves_kv();
    let draft = container.broken(detail).headline(headline);
    Ok(vec![draft.with(seen).fix(fix).minor(minor)])
}

/// `NIXL 1.3.0 (nixl, nixl_cu12) for python3.12 of /opt/dynamo/venv`; all have one version.
fn packages_in_words(found: &[&Package]) -> String {
    let mut by_site: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in found {
        by_site
            .entry(&package.site)
            .or_default()
            .push(&package.name);
    }
    let sites: Vec<String> = by_site
        .into_iter()
        .map(|(site, names)| format!("({}) for {}", names.join(", "), interpreter(site)))
        .collect();
    let version = found.first().map_or("", |p| p.version.as_str());
    format!("NIXL {version} {}", sites.join(" and "))
}

/// Whose packages these are: `python3.12 of /opt/dynamo/venv`.
fn interpreter(site: &str) -> String {
    let prefix_and_rest = site
        .split_once("/lib/")
        .or_else(|| site.split_once("/lib64/"));
    match prefix_and_rest.and_then(|(prefix, rest)| Some((prefix, rest.split('/').next()?))) {
        Some((prefix, python)) if python.starts_with("python") => {
            format!("{python} of {prefix}")
        }
        _ => format!("the interpreter of {site}"),
    }
}

fn file(package: &Package) -> String {
    format!(
        "{}/{}-{}.dist-info",
        package.site, package.name, package.version
    )
}

/// UCX and libfabric that are loaded or would be. A UCX that lies in one of these directories came with NIXL.
fn libraries(container: &Container<'_>, sites: &[&str]) -> Vec<String> {
    let software = &container.facts.software;
    let mut parts = Vec::new();
    let bundled = |place: &str| {
        let beside = |site: &&str| Some(place.strip_prefix(*site)?.strip_prefix('/')?.to_owned());
        let own = sites.iter().find_map(beside);
        own.map_or(place.to_owned(), |own| format!("its own {own}"))
    };
    match (software.ucx_in_use(), software.ucx_version()) {
        (Ok(place), Some(version)) => parts.push(format!(
            "UCX {} of {}{}",
            version.text,
            bundled(&place),
            modules(container)
        )),
        (Ok(place), None) => parts.push(format!(
            "UCX of {}, version not seen{}",
            bundled(&place),
            modules(container)
        )),
        (Err(_), _) if several(container) => {
            let all = software.ucx.known().into_iter().flat_map(|ucx| ucx.keys());
            let all: Vec<String> = all.map(|place| bundled(place)).collect();
            parts.push(format!(
                "UCX of {} (no worker shows which it loads)",
                all.join(" or of ")
            ));
        }
        (Err(skip), _) => parts.push(format!("UCX not known ({})", skip.detail)),
    }
    let mapped = software.mapped.known();
    let libfabric = mapped.and_then(|m| m.iter().find(|path| path.contains("libfabric.so")));
    parts.extend(libfabric.map(|path| format!("libfabric loaded from {path}")));
    // That of the tool need not be the one that is loaded.
    let tool = software.libfabric.known();
    parts.extend(tool.map(|version| format!("libfabric {} by fi_info", version.value)));
    parts
}

/// Backends that reach files and storage and no other worker: directories of
/// <https://github.com/ai-dynamo/nixl/tree/1.5.1/src/plugins>
const STORAGE: &[&str] = &[
    "AZURE_BLOB",
    "GDS",
    "GDS_MT",
    "GUSLI",
    "HF3FS",
    "INFINIA",
    "OBJ",
    "POSIX",
];

/// The plugins by name; of many for storage only how many there are, since none of them moves KV to another worker.
fn plugins_in_words(names: &[&str]) -> String {
    let (storage, between): (Vec<&str>, Vec<&str>) = names
        .iter()
        .copied()
        .partition(|name| STORAGE.contains(name));
    match storage.len() {
        0..=2 => format!("plugins {}", names.join(", ")),
        n if between.is_empty() => format!("{n} plugins for files and storage"),
        n => format!(
            "plugins {} and {n} for files and storage",
            between.join(", ")
        ),
    }
}

/// Several installations of UCX, and no worker that has loaded one of them.
fn several(container: &Container<'_>) -> bool {
    let software = &container.facts.software;
    let loaded = |path: &String| path.contains("/libucp");
    let worker = software
        .mapped
        .known()
        .is_some_and(|mapped| mapped.iter().any(loaded));
    !worker && software.ucx.known().is_some_and(|ucx| ucx.len() > 1)
}

/// Whether the UCX has what moves KV fast: ` (verbs, CUDA)`.
fn modules(container: &Container<'_>) -> String {
    let Ok((modules, _)) = container.facts.software.ucx_modules() else {
        return String::new();
    };
    if modules.is_empty() {
        return String::new();
    }
    // What is on disk says what UCX has; what is loaded says only what it took.
    let software = &container.facts.software;
    let installed = software.ucx_in_use().ok().and_then(|place| {
        let installed = software.ucx.known()?.get(&place)?;
        Some(&installed.modules)
    });
    let has = |name: &str, words: &str| {
        let of = |found: &BTreeSet<String>| found.iter().any(|m| m.starts_with(name));
        match installed {
            _ if of(&modules) => words.to_owned(),
            Some(installed) if !of(installed) => format!("no {words}"),
            _ => format!("{words} not loaded"),
        }
    };
    format!(" ({}, {})", has("uct_ib", "verbs"), has("uct_cuda", "CUDA"))
}

/// The backend that an engine selects, and by what: its own variable, or the configuration of vLLM.
fn selected(container: &Container<'_>) -> (Option<String>, Option<Evidence>, Option<String>) {
    for name in SELECTORS {
        if let Some(value) = value(container, name) {
            let seen = setting(container, name);
            return (Some(value), seen, Some((*name).to_owned()));
        }
    }
    let config = container.facts.process.kv_transfer.known();
    if let Some(config) = config
        && let Some(backend) = &config.backend
    {
        let by = if config.ask.id == ask::WORKER_KV_TRANSFER.id {
            "--kv-transfer-config"
        } else {
            "KV_TRANSFER_CONFIG"
        };
        let seen = config.evidence([format!("backends: {backend}").as_str()]);
        return (Some(backend.clone()), Some(seen), Some(by.to_owned()));
    }
    (None, None, None)
}

fn side_channel(container: &Container<'_>) -> Option<String> {
    let host = value(container, "VLLM_NIXL_SIDE_CHANNEL_HOST");
    let port = value(container, "VLLM_NIXL_SIDE_CHANNEL_PORT");
    (host.is_some() || port.is_some()).then(|| {
        let shown = |v: Option<String>| v.unwrap_or_else(|| "(default)".to_owned());
        format!("side channel {}:{}", shown(host), shown(port))
    })
}

fn value(container: &Container<'_>, name: &str) -> Option<String> {
    let value = container.facts.process.value(name).ok()??;
    Some(crate::sanitise::line(value.trim(), 80))
}

fn setting(container: &Container<'_>, name: &str) -> Option<Evidence> {
    let settings = container.facts.process.in_force().ok()?;
    let setting = settings.get(name)?;
    Some(evidence(
        setting.ask,
        [format!("{name}={}", setting.value).as_str()],
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::testing::{Answers, NOTHING, changed, container, outcome, verdict};
    use crate::report::Status;

    const SITE: &str = "/opt/dynamo/venv/lib/python3.12/site-packages";

    fn wheel() -> Answers {
        let lines = |parts: &[&str]| {
            let all: Vec<String> = parts.iter().map(|p| format!("{SITE}/{p}")).collect();
            all.join("\n")
        };
        vec![
            (
                &ask::PYTHON_PACKAGES,
                lines(&[
                    "nixl-1.3.0.dist-info",
                    "nixl_cu12-1.3.0.dist-info",
                    "vllm-0.11.2.dist-info",
                ]),
            ),
            (
                &ask::NIXL_PLUGINS,
                lines(&[
                    "nixl_cu12.libs/nixl/libplugin_UCX.so",
                    "nixl_cu12.libs/nixl/libplugin_POSIX.so",
                ]),
            ),
            (
                &ask::UCX_LIBRARIES,
                lines(&["nixl_cu12.libs/libucp-1a.so.0"]),
            ),
        ]
    }

    fn with(role: &str, other: &[(&'static crate::ask::Ask, &str)]) -> Result<Status, Skip> {
        verdict(run, role, &changed(&wheel(), other))
    }

    #[test]
    fn a_package_without_a_version_is_no_pass() {
        let answers = [
            (
                &ask::PYTHON_PACKAGES,
                format!("{SITE}/nixl_cu12-.dist-info"),
            ),
            (
                &ask::NIXL_PLUGINS,
                format!("{SITE}/nixl_cu12.libs/nixl/libplugin_UCX.so"),
            ),
        ];
        let skip = verdict(run, "decode", &answers).unwrap_err();
        assert_eq!(skip.reason, SkipReason::Unparsable);
        assert!(skip.detail.contains("tells no version"), "{}", skip.detail);
    }

    #[test]
    fn what_is_there_is_told() {
        let environment = "# process self probe\nVLLM_NIXL_SIDE_CHANNEL_HOST=10.0.0.7";
        let answers = changed(&wheel(), &[(&ask::ENVIRONMENT, environment)]);
        let draft = outcome(run, &container("decode", &answers))
            .unwrap()
            .remove(0);
        assert_eq!(draft.status, Status::Ok);
        assert_eq!(
            draft.detail,
            format!(
                "NIXL 1.3.0 (nixl, nixl_cu12) for python3.12 of /opt/dynamo/venv; UCX 1.21 of its own nixl_cu12.libs; \
                 plugins POSIX, UCX; backend not named (UCX is the default); side channel \
                 10.0.0.7:(default)"
            )
        );
    }

    #[test]
    fn a_directory_that_is_named_is_the_only_one_that_counts() {
        let environment = |dir: &str| format!("# process 7 dynamo.vllm\nNIXL_PLUGIN_DIR={dir}");
        let own = format!("{SITE}/nixl_cu12.libs/nixl");
        let usual = format!("{own}/libplugin_UCX.so\n{own}/libplugin_POSIX.so");
        let run_with = |role: &str, dir: &str, plugins: &str| {
            let environment = environment(dir);
            let answers = changed(
                &wheel(),
                &[
                    (&ask::ENVIRONMENT, &*environment),
                    (&ask::NIXL_PLUGINS, plugins),
                ],
            );
            outcome(run, &container(role, &answers)).map(|mut drafts| drafts.remove(0))
        };
        let looked = format!("{usual}\nNIXL_PLUGIN_DIR was looked at");
        for (role, status) in [("decode", Status::Fail), ("", Status::Warn)] {
            let draft = run_with(role, "/nonexistent", &looked).unwrap();
            assert_eq!(draft.status, status);
            let words = "no libplugin_*.so is in NIXL_PLUGIN_DIR=/nonexistent, where NIXL 1.3.0 ";
            assert!(draft.detail.contains(words), "{}", draft.detail);
            let fix = draft.fix.unwrap();
            assert!(
                fix.starts_with("remove NIXL_PLUGIN_DIR") && fix.ends_with(&own),
                "{fix}"
            );
        }
        let unread = run_with("decode", "/nonexistent", &usual).unwrap_err();
        assert_eq!(unread.reason, SkipReason::NotCollected);
        let there = format!("{usual}\n/opt/p/libplugin_UCX.so\nNIXL_PLUGIN_DIR was looked at");
        let draft = run_with("decode", "/opt/p/", &there).unwrap();
        assert_eq!(draft.status, Status::Ok);
        let words = "; plugins UCX of NIXL_PLUGIN_DIR=/opt/p/; ";
        assert!(draft.detail.contains(words), "{}", draft.detail);
        // Another plugin is no backend for KV.
        let other = "/opt/p/libplugin_POSIX.so\nNIXL_PLUGIN_DIR was looked at";
        let draft = run_with("decode", "/opt/p", other).unwrap();
        assert!(
            draft.detail.contains("no plugin for UCX"),
            "{}",
            draft.detail
        );
        assert_eq!(draft.status, Status::Fail);
    }

    #[test]
    fn many_plugins_are_summed_up_and_none_that_moves_kv_is_hidden() {
        let said = |names: &[&str]| plugins_in_words(names);
        assert_eq!(said(&["POSIX", "UCX"]), "plugins POSIX, UCX");
        let all = ["AZURE_BLOB", "GDS", "LIBFABRIC", "NEW", "POSIX", "UCX"];
        assert_eq!(
            said(&all),
            "plugins LIBFABRIC, NEW, UCX and 3 for files and storage"
        );
        assert_eq!(
            said(&["GDS", "OBJ", "POSIX"]),
            "3 plugins for files and storage"
        );
    }

    #[test]
    fn the_ucx_is_told_with_its_modules_and_where_there_are_two_both() {
        let said = |libraries: &str| {
            let answers = changed(&wheel(), &[(&ask::UCX_LIBRARIES, libraries)]);
            outcome(run, &container("decode", &answers))
                .unwrap()
                .remove(0)
                .detail
        };
        let own = format!("{SITE}/nixl_cu12.libs/libucp-1a.so.0\n");
        let one = said(&format!(
            "{own}{SITE}/nixl_cu12.libs/ucx/libuct_ib-3c.so.0\n"
        ));
        assert!(
            one.contains("; UCX 1.21 of its own nixl_cu12.libs (verbs, no CUDA); "),
            "{one}"
        );
        // What was loaded does not say what is there.
        let loaded = format!(
            "{SITE}/nixl_cu12-1.3.0.dist-info\n{own}{SITE}/nixl_cu12.libs/ucx/libuct_ib-3c.so.0\n"
        );
        let answers = changed(
            &wheel(),
            &[
                (&ask::UCX_LIBRARIES, ""),
                (&ask::TRANSFER_SOFTWARE, &loaded),
            ],
        );
        let by_transfer = outcome(run, &container("decode", &answers))
            .unwrap()
            .remove(0)
            .detail;
        assert!(
            by_transfer.contains("(verbs, CUDA not loaded); "),
            "{by_transfer}"
        );
        let two = said(&format!("{own}/usr/lib/x86_64-linux-gnu/libucp.so.0\n"));
        let both = "; UCX of its own nixl_cu12.libs or of /usr/lib/x86_64-linux-gnu (no worker shows which it loads); ";
        assert!(two.contains(both), "{two}");
    }

    #[test]
    fn the_version_of_libfabric_is_told_where_the_tool_says_it() {
        let said = |text: &str| {
            let answers = changed(&wheel(), &[(&ask::FI_INFO_VERSION, text)]);
            outcome(run, &container("decode", &answers))
                .unwrap()
                .remove(0)
                .detail
        };
        let text = "fi_info: 1.22.0amzn4.0\nlibfabric: 1.22.0amzn4.0\nlibfabric api: 1.22\n";
        let detail = said(text);
        assert!(
            detail.contains("; libfabric 1.22.0amzn4.0 by fi_info;"),
            "{detail}"
        );
        assert!(!said("fi_info: unrecognized option").contains("libfabric"));
    }

    #[test]
    fn a_worker_without_it_fails_and_a_machine_warns() {
        let none = [
            (
                &ask::PYTHON_PACKAGES,
                "/v/lib/python3.12/site-packages/vllm-0.11.2.dist-info",
            ),
            (&ask::NIXL_PLUGINS, ""),
        ];
        assert_eq!(with("decode", &none), Ok(Status::Fail));
        assert_eq!(with("", &none), Ok(Status::Warn));
        assert_eq!(with("agg", &none), Err(Skip::not_applicable()));
        let bare = [(&ask::PYTHON_PACKAGES, ""), (&ask::NIXL_PLUGINS, "")];
        assert_eq!(
            with("decode", &bare).unwrap_err().reason,
            SkipReason::NotFound
        );
        assert_eq!(with("", &bare), Ok(Status::Warn));
        let mpi = (
            &ask::ENVIRONMENT,
            "# process 7 dynamo.trtllm\nTRTLLM_USE_MPI_KVCACHE=1",
        );
        assert_eq!(with("decode", &[none[0], none[1], mpi]), Ok(Status::Ok));
        let mooncake = (
            &ask::PYTHON_PACKAGES,
            "/v/mooncake_transfer_engine-0.3.6.dist-info\n/v/sglang-0.5.6.dist-info",
        );
        assert_eq!(with("decode", &[mooncake, none[1]]), Ok(Status::Warn));
        // TensorRT-LLM's own, without Python.
        let own = (
            &ask::NIXL_PLUGINS,
            "/opt/nvidia/nvda_nixl/lib64/plugins/libplugin_UCX.so",
        );
        assert_eq!(with("decode", &[none[0], own]), Ok(Status::Ok));
        let loaded = (&ask::WORKER_LIBRARIES, "/x/libnixl.so");
        assert!(with("decode", &[none[0], none[1], loaded]).is_err());
    }

    #[test]
    fn the_selected_backend_must_have_its_plugin() {
        let wants = |value: &str| {
            format!("# process 7 dynamo.sglang\nSGLANG_DISAGGREGATION_NIXL_BACKEND={value}")
        };
        let with_backend =
            |role: &str, value: &str| with(role, &[(&ask::ENVIRONMENT, &wants(value))]);
        assert_eq!(with_backend("decode", "UCX"), Ok(Status::Ok));
        assert_eq!(with_backend("decode", "LIBFABRIC"), Ok(Status::Fail));
        assert_eq!(with_backend("", "LIBFABRIC"), Ok(Status::Warn));
        let no_ucx = (&ask::NIXL_PLUGINS, "/x/libplugin_POSIX.so");
        assert_eq!(with("decode", &[no_ucx]), Ok(Status::Fail));
    }

    #[test]
    fn vllm_selects_its_backend_on_the_command_line() {
        let line = "\"kv_connector\":\"NixlConnector\"\n\"backends\": [\"LIBFABRIC\"]";
        let line = (&ask::WORKER_KV_TRANSFER, line);
        assert_eq!(with("decode", &[line]), Ok(Status::Fail));
        // The command line is what the worker reads; a variable only stands beside it.
        let variable = "# process 7 dynamo.vllm\nKV_TRANSFER_CONFIG={\"kv_connector_extra_config\":{\"backends\":[\"UCX\"]}}";
        let variable = (&ask::ENVIRONMENT, variable);
        assert_eq!(with("decode", &[line, variable]), Ok(Status::Fail));
        assert_eq!(with("decode", &[variable]), Ok(Status::Ok));
        let none = (&ask::WORKER_KV_TRANSFER, "");
        assert_eq!(with("decode", &[none]), Ok(Status::Ok));
    }

    #[test]
    fn several_versions_and_what_was_not_read() {
        let two = "/v/nixl_cu12-1.3.0.dist-info\n/w/nixl_cu12-1.0.0.dist-info";
        assert_eq!(
            with("decode", &[(&ask::PYTHON_PACKAGES, two)]),
            Ok(Status::Warn)
        );
        assert!(verdict(run, "decode", NOTHING).is_err());
        let mut without_plugins = wheel();
        without_plugins.remove(1);
        assert!(verdict(run, "decode", &without_plugins).is_err());
        assert!(with("decode", &[(&ask::NIXL_PLUGINS, "")]).is_err());
    }
}
