//! The interpreter that runs stand-ins.

use crate::skip;

/// The stand-in needs an interpreter; without one it is said aloud.
pub fn has_python() -> bool {
    let ok = std::process::Command::new("python3")
        .args(["-c", "import sys; sys.exit(sys.version_info < (3, 8))"])
        .status()
        .is_ok_and(|s| s.success());
    if !ok {
        skip::aloud("a stand-in transfer needs python3 from 3.8");
    }
    ok
}
