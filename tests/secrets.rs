//! Planted secrets appear in no output: not in text, not in JSON, not in `--verbose`, not in errors.
#![expect(
    clippy::unwrap_used,
    reason = "a test may stop where something is not as it should be"
)]

use std::path::Path;
use std::process::Command;

const CANARY: &str = "c4n4ry";

fn run(args: &[&str]) -> String {
    let out = Command::new(env!("CARGO_BIN_EXE_dynamo-interconnect-check"))
        .args(args)
        .output()
        .unwrap();
    format!(
        "{}{}",
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    )
}

#[test]
fn planted_secrets_appear_nowhere() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/manifests/secrets");
    let mut planted = 0;
    for entry in std::fs::read_dir(&dir).unwrap().flatten() {
        let path = entry.path();
        let text = std::fs::read_to_string(&path).unwrap();
        planted += text.matches(CANARY).count();
        let name = path.to_str().unwrap();
        for args in [
            &["env", name, "-o", "json"][..],
            &["env", name, "-o", "text", "--verbose"],
            &["env", name, "-o", "text"],
            &["env", name, "-o", "html"],
        ] {
            let out = run(args);
            assert!(!out.contains(CANARY), "{args:?} shows a secret:\n{out}");
            assert!(
                out.contains("UCX_TLS") || name.contains("broken"),
                "{args:?} judged nothing:\n{out}"
            );
        }
    }
    assert!(planted >= 20, "only {planted} secrets are planted");
}
