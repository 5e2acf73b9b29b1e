//! File trees from `tests/machines`, laid out in a temporary directory.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory that goes away with the test.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "probe-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path.canonicalize().unwrap())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Every path below, with its size: equal lists mean that nothing was written.
    pub fn listing(&self) -> Vec<(PathBuf, u64)> {
        let mut found = Vec::new();
        let mut todo = vec![self.0.clone()];
        while let Some(dir) = todo.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let entry = entry.unwrap();
                let metadata = entry.metadata().unwrap();
                if metadata.is_dir() {
                    todo.push(entry.path());
                }
                found.push((entry.path(), metadata.len()));
            }
        }
        found.sort();
        found
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

/// Lays out `tests/machines/<name>.tree`.
pub fn machine(name: &str) -> Scratch {
    let scratch = Scratch::new();
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/machines/{name}.tree"));
    for line in fs::read_to_string(&tree).unwrap().lines() {
        if !line.is_empty() && !line.starts_with('#') {
            for line in repeated(line) {
                lay(scratch.path(), &line);
            }
        }
    }
    scratch
}

/// `{a..b}` and every `{}` as the numbers from a to b.
fn repeated(line: &str) -> Vec<String> {
    let range = line.split_once('{').and_then(|(before, rest)| {
        let (range, after) = rest.split_once('}')?;
        let (from, to) = range.split_once("..")?;
        Some((
            before,
            after,
            from.parse::<u32>().ok()?,
            to.parse::<u32>().ok()?,
        ))
    });
    let Some((before, after, from, to)) = range else {
        return vec![line.to_owned()];
    };
    (from..=to)
        .map(|n| format!("{before}{n}{after}").replace("{}", &n.to_string()))
        .collect()
}

fn lay(root: &Path, line: &str) {
    let at = |path: &str| {
        let path = root.join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    };
    if let Some((path, target)) = line.split_once(" -> ") {
        symlink(target, at(path)).unwrap();
    } else if let Some((path, text)) = line.split_once(" =") {
        let text = text.strip_prefix(' ').unwrap_or(text);
        fs::write(
            at(path),
            text.replace("\\n", "\n")
                .replace("\\0", "\0")
                .replace("\\t", "\t"),
        )
        .unwrap();
    } else {
        fs::create_dir_all(at(line)).unwrap();
    }
}
