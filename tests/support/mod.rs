//! What test files share: where genuine recipes and outputs are, when they are at hand.
//! Recipes and outputs belong to others and are never copied here.

pub mod skip;

use std::path::{Path, PathBuf};

/// The directory that `variable` names, else `fallback` beside the repository. None, said aloud, when neither is there.
pub fn folder(variable: &str, fallback: &str) -> Option<PathBuf> {
    let named = std::env::var_os(variable).map(PathBuf::from);
    if let Some(path) = &named {
        assert!(
            path.is_dir(),
            "{variable} names {}, which is no directory",
            path.display()
        );
    }
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join(fallback);
    let found = named.or_else(|| beside.is_dir().then_some(beside));
    if found.is_none() {
        skip::aloud(&format!(
            "{variable} is not set and {fallback} is not beside the repository"
        ));
    }
    found
}
