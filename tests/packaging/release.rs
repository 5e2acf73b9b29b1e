//! Packages and the krew manifest, made as a release makes them and installed as krew does.

use crate::{BINARY, file, has, stderr, stdout};
use serde_json::Value;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

pub const VERSION: &str = env!("CARGO_PKG_VERSION");
const REPOSITORY: &str = "https://example.com/owner/name";
/// What krew calls a machine, and the target that is built for it.
const PLATFORMS: [(&str, &str); 2] = [
    ("amd64", "x86_64-unknown-linux-musl"),
    ("arm64", "aarch64-unknown-linux-musl"),
];

pub fn package(target: &str) -> String {
    format!("dynamo-interconnect-check-v{VERSION}-{target}.tar.gz")
}

fn pack(binary: &Path, target: &str, to: &Path) -> Output {
    Command::new(file("packaging/pack.sh"))
        .args([binary.as_os_str(), target.as_ref(), to.as_os_str()])
        .output()
        .unwrap()
}

/// A program that does what this text of a shell says. The binary of the tests has a hundred megabytes of line tables: where
/// only packing is looked at, something that starts it is packed instead.
fn program(dir: &Path, text: &str) -> PathBuf {
    let path = dir.join("program");
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}

/// Both packages of a release, and their checksums.
pub fn release() -> TempDir {
    let dir = TempDir::new().unwrap();
    let binary = program(dir.path(), &format!("exec '{BINARY}' \"$@\""));
    for (_, target) in PLATFORMS {
        let packed = pack(&binary, target, dir.path());
        assert!(packed.status.success(), "{}", stderr(&packed));
    }
    let sums = Command::new("sha256sum")
        .args(PLATFORMS.map(|(_, target)| package(target)))
        .current_dir(dir.path())
        .output()
        .unwrap();
    std::fs::write(dir.path().join("SHA256SUMS"), &sums.stdout).unwrap();
    dir
}

fn manifest(sums: &Path) -> Output {
    Command::new(file("packaging/krew/fill.sh"))
        .arg(REPOSITORY)
        .arg(sums)
        .output()
        .unwrap()
}

/// The program in this directory runs.
pub fn says_its_version(dir: &Path) {
    let said = Command::new(dir.join("dynamo-interconnect-check"))
        .arg("--version")
        .output()
        .unwrap();
    assert_eq!(
        stdout(&said),
        format!("dynamo-interconnect-check {VERSION}\n")
    );
}

fn unpacked(archive: &Path) -> TempDir {
    let dir = TempDir::new().unwrap();
    let tar = Command::new("tar")
        .arg("-xzf")
        .arg(archive)
        .current_dir(dir.path())
        .status()
        .unwrap();
    assert!(tar.success());
    dir
}

#[test]
fn a_package_holds_what_an_installation_needs() {
    let dist = release();
    let archive = dist.path().join(package(PLATFORMS[0].1));
    let first = std::fs::read(&archive).unwrap();
    let tree = unpacked(&archive);
    for name in [
        "LICENSE",
        "README.md",
        "CHANGELOG.md",
        "man/dynamo-interconnect-check.1",
        "man/dynamo-interconnect-check-check.1",
        "completions/dynamo-interconnect-check.bash",
        "completions/_dynamo-interconnect-check",
        "completions/dynamo-interconnect-check.fish",
    ] {
        let length = std::fs::metadata(tree.path().join(name)).map(|m| m.len());
        assert!(length.is_ok_and(|n| n > 0), "{name}");
    }
    // Links of its pages lead somewhere.
    for page in ["README.md", "docs/install.md"] {
        let text = std::fs::read_to_string(tree.path().join(page)).unwrap();
        let folder = tree.path().join(page).parent().unwrap().to_owned();
        let targets = text
            .split("](")
            .skip(1)
            .filter_map(|t| t.split([')', '#']).next());
        for target in targets.filter(|t| !t.is_empty() && !t.starts_with("https://")) {
            assert!(folder.join(target).is_file(), "{page}: {target}");
        }
    }
    says_its_version(tree.path());
    // Who builds the same again gets the same bytes.
    let again = pack(&dist.path().join("program"), PLATFORMS[0].1, dist.path());
    assert!(again.status.success(), "{}", stderr(&again));
    assert!(first == std::fs::read(&archive).unwrap());
}

#[test]
fn a_binary_of_another_version_is_not_packed() {
    let dir = TempDir::new().unwrap();
    let other = program(dir.path(), "echo dynamo-interconnect-check 99.0.0");
    let refused = pack(&other, PLATFORMS[0].1, dir.path());
    assert!(!refused.status.success());
    assert!(
        stderr(&refused).contains("build it from this tree"),
        "{}",
        stderr(&refused)
    );
    assert!(!dir.path().join(package(PLATFORMS[0].1)).exists());
}

#[test]
fn the_krew_manifest_installs_what_was_packed() {
    let dist = release();
    let sums = dist.path().join("SHA256SUMS");
    let filled = manifest(&sums);
    assert!(filled.status.success(), "{}", stderr(&filled));
    let plugin: Value = serde_saphyr::from_str(&stdout(&filled)).unwrap();
    assert_eq!(
        plugin["apiVersion"],
        "krew.googlecontainertools.github.com/v1alpha2"
    );
    assert_eq!(plugin["kind"], "Plugin");
    assert_eq!(plugin["metadata"]["name"], "dynamo-interconnect-check");
    let spec = &plugin["spec"];
    assert_eq!(spec["version"], format!("v{VERSION}"));
    assert_eq!(spec["homepage"], REPOSITORY);
    let short = spec["shortDescription"].as_str().unwrap();
    assert!(short.len() <= 50 && !short.ends_with('.'), "{short}");
    let platforms = spec["platforms"].as_array().unwrap();
    assert_eq!(platforms.len(), PLATFORMS.len());
    for (platform, (arch, target)) in platforms.iter().zip(PLATFORMS) {
        let labels = &platform["selector"]["matchLabels"];
        assert_eq!(
            (&labels["os"], &labels["arch"]),
            (&"linux".into(), &arch.into())
        );
        let name = package(target);
        assert_eq!(
            platform["uri"],
            format!("{REPOSITORY}/releases/download/v{VERSION}/{name}")
        );
        let line = format!("{}  {name}\n", platform["sha256"].as_str().unwrap());
        assert!(std::fs::read_to_string(&sums).unwrap().contains(&line));
        // What krew does: the named files of the archive, and a link to the program under the name kubectl looks for.
        let tree = unpacked(&dist.path().join(&name));
        let installed = TempDir::new().unwrap();
        for wanted in platform["files"].as_array().unwrap() {
            assert_eq!(wanted["to"], ".");
            let from = wanted["from"].as_str().unwrap();
            std::fs::copy(tree.path().join(from), installed.path().join(from)).unwrap();
        }
        let program = installed.path().join(platform["bin"].as_str().unwrap());
        let link = installed.path().join("kubectl-dynamo_interconnect_check");
        symlink(program, link).unwrap();
        if has("kubectl", "--help", "the plugin of kubectl") {
            let path = std::env::var("PATH").unwrap();
            let said = Command::new("kubectl")
                .args(["dynamo-interconnect-check", "--version"])
                .env("PATH", format!("{}:{path}", installed.path().display()))
                .output()
                .unwrap();
            let version = format!("dynamo-interconnect-check {VERSION}\n");
            assert_eq!(stdout(&said), version, "{}", stderr(&said));
        }
    }
}

#[test]
fn no_krew_manifest_without_a_checksum_of_each_package() {
    let dist = release();
    let sums = dist.path().join("SHA256SUMS");
    let all = std::fs::read_to_string(&sums).unwrap();
    let first = all.lines().next().unwrap();
    for partial in [
        String::new(),
        format!("{first}\n"),
        all.replace(['a', '1'], ""),
    ] {
        std::fs::write(&sums, partial).unwrap();
        let refused = manifest(&sums);
        assert_eq!(refused.status.code(), Some(1), "{}", stdout(&refused));
        assert!(
            stderr(&refused).contains("holds no SHA-256 of dynamo-interconnect-check-v"),
            "{}",
            stderr(&refused)
        );
        assert_eq!(stdout(&refused), "");
    }
    let template = file("packaging/krew/dynamo-interconnect-check.yaml.in");
    let template = std::fs::read_to_string(template).unwrap();
    let digits = |line: &str| {
        line.split(|c: char| !c.is_ascii_hexdigit())
            .any(|word| word.len() == 64)
    };
    assert!(
        !template.lines().any(digits),
        "a checksum is never written by hand"
    );
}

/// An image from scratch has no libraries, so a dynamic binary is refused before anything is built.
#[test]
fn an_image_is_made_of_a_static_binary_only() {
    if !has("buildah", "--version", "the image") {
        return;
    }
    let dir = TempDir::new().unwrap();
    let archive = dir.path().join("image.tar");
    let refused = Command::new(file("packaging/image.sh"))
        .arg(BINARY)
        .arg(&archive)
        .output()
        .unwrap();
    assert!(!refused.status.success());
    assert!(
        stderr(&refused).contains("is not static"),
        "{}",
        stderr(&refused)
    );
    assert!(!archive.exists());
}
