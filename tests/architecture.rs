//! Holds the import rule of `src/lib.rs`: a layer imports only lower layers, and the layers that decide never touch the
//! world; and what every script of the repository keeps to. Reads the sources as text, up to their `#[cfg(test)]`.
#![expect(
    clippy::unwrap_used,
    reason = "a test may stop where something is not as it should be"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Layer of each top-level module. `lib.rs`, `main.rs` see everything.
const LAYERS: &[(u8, &[&str])] = &[
    (
        0,
        &[
            "report",
            "target",
            "observed",
            "source",
            "sanitise",
            "catalogue",
            "ask",
            "snapshot",
            "pair",
        ],
    ),
    (1, &["manifest", "facts"]),
    (
        2,
        &[
            "judge",
            "selected",
            "checks",
            "environment",
            "hosting",
            "budget",
            "baseline",
            "evaluate",
            "topics",
        ],
    ),
    (
        3,
        &[
            "input",
            "kustomize",
            "probe",
            "bundle",
            "cluster",
            "collect",
            "transfer",
        ],
    ),
    (4, &["render"]),
    (5, &["cli"]),
];

/// Names that only layers 3 and 5 may use.
const WORLD: &[&str] = &[
    "std::fs",
    "std::process",
    "std::env",
    "net::Tcp",
    "net::Udp",
    "ToSocketAddrs",
    "SystemTime",
    "Instant::now",
    "tokio",
    "kube::",
];

/// Every file below a directory whose name ends in one of these.
fn named(dir: &Path, ends: &[&str], out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            named(&path, ends, out);
        } else if path
            .extension()
            .is_some_and(|e| ends.iter().any(|end| e == *end))
        {
            out.push(path);
        }
    }
}

#[test]
fn a_layer_imports_only_lower_layers() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let layer: BTreeMap<&str, u8> = LAYERS
        .iter()
        .flat_map(|(n, names)| names.iter().map(|m| (*m, *n)))
        .collect();
    let mut files = Vec::new();
    named(&root, &["rs"], &mut files);
    let mut wrong = Vec::new();
    let mut seen = 0;
    for file in files {
        let relative = file
            .strip_prefix(&root)
            .unwrap()
            .to_string_lossy()
            .into_owned();
        let module = relative.split(['/', '.']).next().unwrap().to_owned();
        if matches!(module.as_str(), "lib" | "main" | "docs") || relative.ends_with("testing.rs") {
            continue;
        }
        let own = *layer
            .get(module.as_str())
            .unwrap_or_else(|| panic!("{module} has no layer: add it to LAYERS"));
        seen += 1;
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
        for (number, line) in code.lines().enumerate() {
            let line = line.split("//").next().unwrap();
            for part in line.split("crate::").skip(1) {
                let name: String = part
                    .chars()
                    .take_while(|c| c.is_alphanumeric() || *c == '_')
                    .collect();
                // The manifest model is what checks judge, and rendering shows reports: both are allowed downwards only.
                if let Some(other) = layer.get(name.as_str())
                    && *other > own
                {
                    wrong.push(format!(
                        "{relative}:{}: {module} (layer {own}) uses {name} (layer {other})",
                        number + 1
                    ));
                }
                if own == 4 && layer.get(name.as_str()) == Some(&3) {
                    wrong.push(format!("{relative}:{}: rendering uses {name}", number + 1));
                }
            }
            if matches!(own, 0 | 1 | 2 | 4) {
                for world in WORLD.iter().filter(|w| line.contains(**w)) {
                    wrong.push(format!(
                        "{relative}:{}: layer {own} names {world}",
                        number + 1
                    ));
                }
            }
        }
    }
    assert!(seen > 20, "only {seen} files were looked at");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Under `pipefail` a reader that stops early (`head`, `grep -q`) kills whoever still writes, and the pipeline fails by chance:
/// what is asked of a program's output is asked of all of it.
#[test]
fn no_script_asks_by_a_pipe_that_may_break() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut scripts = vec![root.join(".ci/run"), root.join(".ci/image")];
    for dir in ["packaging", "benches", "tests", "skills", ".github"] {
        named(&root.join(dir), &["sh", "yml"], &mut scripts);
    }
    let stops_early = |stage: &str| {
        let mut words = stage.split_whitespace();
        match words.next() {
            Some("head") => true,
            Some("grep") => words.any(|w| {
                let short = w.starts_with('-') && !w.starts_with("--");
                short && w.contains(['q', 'm']) || w == "--quiet" || w.starts_with("--max-count")
            }),
            Some("sed") => words.any(|w| w.trim_end_matches(['\'', '}', ';']).ends_with('q')),
            _ => false,
        }
    };
    let mut seen = 0;
    let mut wrong = Vec::new();
    for script in scripts {
        let text = fs::read_to_string(&script).unwrap();
        if !text.contains("pipefail") && script.extension().is_none_or(|e| e != "yml") {
            continue;
        }
        seen += 1;
        for (number, line) in text.lines().enumerate() {
            if !line.trim_start().starts_with('#')
                && line.replace("||", "").split('|').skip(1).any(stops_early)
            {
                wrong.push(format!("{}:{}: {line}", script.display(), number + 1));
            }
        }
    }
    assert!(seen > 10, "the scripts were not found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
