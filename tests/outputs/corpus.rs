//! Where the corpus lies, and its index.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Once;

static SAID: Once = Once::new();

/// The folder, or `None` after saying aloud that it is not there. A folder that is named and missing is an error.
pub fn folder() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("INTERCONNECT_CORPUS") {
        let folder = PathBuf::from(named);
        assert!(
            folder.join("outputs").is_dir(),
            "INTERCONNECT_CORPUS names {}, which holds no `outputs`",
            folder.display()
        );
        return Some(folder);
    }
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/corpus");
    if beside.join("outputs").is_dir() {
        return Some(beside);
    }
    SAID.call_once(|| {
        // Written past the capture of the test runner, so that it is seen.
        let words =
            "skipped: INTERCONNECT_CORPUS is not set and no corpus lies beside the repository";
        writeln!(std::io::stderr(), "{words}").expect("stderr is open");
    });
    None
}

/// File names of the index.
pub fn index(outputs: &Path) -> Vec<String> {
    read(&outputs.join("INDEX.tsv"))
        .lines()
        .skip(1)
        .map(|row| row.split('\t').next().unwrap_or_default().to_owned())
        .collect()
}

/// A text, whatever bytes it holds.
pub fn read(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    String::from_utf8_lossy(&bytes).into_owned()
}
