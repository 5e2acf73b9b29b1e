//! Tests of recordings: written, read, refused.

use super::archive::pack;
use super::*;
use crate::report::SkipReason;
use crate::snapshot::{Place, Snapshot};
use proptest::prelude::*;
use std::io::Read as _;

/// A directory that goes away with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("bundle-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

fn small() -> Bundle {
    let answers = [
        (
            "kernel".to_owned(),
            Answer::Text("6.1.0\n\u{1b}[2J\0\u{fffd}".to_owned()),
        ),
        (
            "ibstat".to_owned(),
            Answer::Missing {
                reason: SkipReason::Timeout,
                detail: "hung".to_owned(),
            },
        ),
    ];
    let place = Place {
        namespace: Some("ns".to_owned()),
        ..Place::host("h")
    };
    Bundle {
        format: FORMAT,
        snapshots: vec![
            Snapshot {
                place,
                answers: answers.into(),
            }
            .into(),
        ],
        errors: Vec::new(),
        notes: Vec::new(),
        deployment: None,
    }
}

#[test]
fn what_was_written_is_read_and_written_again_the_same() {
    let scratch = Scratch::new("same");
    for name in ["below", "a.tar.zst"] {
        let path = scratch.0.join(name);
        write(&path, &small()).unwrap();
        let first = std::fs::read(if name == "below" {
            path.join(FILE)
        } else {
            path.clone()
        })
        .unwrap();
        let back = read(&path).unwrap();
        assert_eq!(back, small());
        write(&path, &back).unwrap();
        let second = std::fs::read(if name == "below" {
            path.join(FILE)
        } else {
            path.clone()
        })
        .unwrap();
        assert_eq!(first, second);
    }
    assert_eq!(read(&scratch.0.join("below/bundle.json")).unwrap(), small());
}

#[test]
fn each_trouble_has_its_words() {
    let scratch = Scratch::new("words");
    let file = |name: &str, bytes: &[u8]| {
        let path = scratch.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let said = |result: Result<Bundle, BundleError>| {
        result
            .unwrap_err()
            .to_string()
            .replace(scratch.0.to_str().unwrap(), "")
    };
    assert_eq!(
        said(read(&scratch.0.join("none"))),
        "read /none: no such file or directory; check the path"
    );
    assert_eq!(
        said(read(&scratch.0)),
        "read : there is no bundle.json in it"
    );
    let never = file("0.json", br#"{"format":0,"snapshots":[]}"#);
    assert_eq!(
        said(read(&never)),
        "read /0.json: it has format 0, which no version of this tool writes"
    );
    let marked = [b"\xef\xbb\xbf".to_vec(), to_json(&small())].concat();
    assert_eq!(read(&file("m.json", &marked)).unwrap(), small());
    let odd = file("o.json", b"{\"format\":1,\"\x1b[31m\":0}".as_slice());
    assert!(!said(read(&odd)).contains('\u{1b}'));
    let odd = said(read(&scratch.0.join("n\u{1b}[31m\u{202e}")));
    assert!(!odd.contains(['\u{1b}', '\u{202e}']), "{odd}");
    let newer = file("n.json", br#"{"format":2,"other":[]}"#);
    assert_eq!(
        said(read(&newer)),
        "read /n.json: it has format 2, and this version knows formats up to 1; update the tool"
    );
    assert_eq!(
        said(read(&file("b.json", br#"{"format":1,"snapshots":3}"#))),
        "read /b.json: not a recording of this tool: invalid type: integer `3`, expected a sequence at line 1 column 25"
    );
    let named = write(&scratch.0.join("x.zip"), &small())
        .unwrap_err()
        .to_string();
    assert!(
        named.ends_with("/x.zip: name a directory, or a file that ends in .tar.zst"),
        "{named}"
    );
}

#[test]
fn nothing_but_an_earlier_recording_is_replaced() {
    let scratch = Scratch::new("taken");
    let at = |name: &str| scratch.0.join(name);
    fs::create_dir(at("full")).unwrap();
    fs::create_dir(at("foreign")).unwrap();
    fs::create_dir(at("empty.d")).unwrap();
    fs::create_dir(at("dir.tar.zst")).unwrap();
    for (name, text) in [
        ("foreign.tar.zst", "mine"),
        ("full/note", "mine"),
        ("foreign/bundle.json", "{\"name\": \"mine\"}"),
        ("plain", "mine"),
    ] {
        fs::write(at(name), text).unwrap();
    }
    write(&at("real.tar.zst"), &small()).unwrap();
    write(&at("real"), &small()).unwrap();
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(at(to), at(name)).unwrap();
    link("real.tar.zst", "link.tar.zst");
    link("real", "link");
    link("nowhere", "dangling.tar.zst");
    fs::create_dir(at("linked")).unwrap();
    link("real/bundle.json", "linked/bundle.json");
    let before = listing(&scratch.0);
    let other = "something else than a recording of this tool is there; name another file";
    let name = "name a directory, or a file that ends in .tar.zst";
    let above = "the directory that it is to be in is not there; make it first";
    let linked = "it is a link; name what it leads to";
    for (path, why) in [
        ("foreign.tar.zst", other),
        ("dir.tar.zst", other),
        (
            "full",
            "this directory holds other files; name a new or an empty one",
        ),
        (
            "foreign",
            "its bundle.json is no recording of this tool; name another directory",
        ),
        (
            "linked",
            "its bundle.json is no recording of this tool; name another directory",
        ),
        ("plain", name),
        ("foo.txt", name),
        ("x.tar.zst/", name),
        ("below/new", above),
        ("below/new.tar.zst", above),
        ("plain/new", "what it is to be in is no directory"),
        ("link.tar.zst", linked),
        ("link", linked),
        ("link/", linked),
        ("dangling.tar.zst", linked),
    ] {
        let said = Destination::new(&at(path)).unwrap_err().to_string();
        assert!(
            said.ends_with(why) || said.contains("Not a directory"),
            "{path}: {said}"
        );
        assert!(write(&at(path), &small()).is_err(), "{path}");
    }
    assert_eq!(listing(&scratch.0), before);
    for path in ["real", "real.tar.zst", "real/", "empty.d", "new.d/", "new"] {
        write(&at(path), &small()).unwrap();
        assert_eq!(read(&at(path)).unwrap(), small(), "{path}");
    }
    assert!(
        !listing(&scratch.0)
            .iter()
            .any(|(name, _)| name.ends_with(".part"))
    );
}

#[test]
fn what_came_into_the_way_meanwhile_stays() {
    let scratch = Scratch::new("meanwhile");
    let path = scratch.0.join("x.tar.zst");
    let destination = Destination::new(&path).unwrap();
    fs::write(&path, "mine").unwrap();
    assert!(destination.write(&small()).is_err());
    assert_eq!(fs::read(&path).unwrap(), b"mine");
}

/// Every file below, with what is in it.
fn listing(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        let name = path.display().to_string();
        if entry.file_type().unwrap().is_dir() {
            all.extend(listing(&path));
        } else {
            all.push((name, fs::read(&path).unwrap_or_default()));
        }
    }
    all.sort();
    all
}

#[test]
fn an_empty_recording_is_no_recording() {
    let scratch = Scratch::new("empty");
    let file = |json: &str| {
        let path = scratch.0.join("e.json");
        fs::write(&path, json).unwrap();
        read(&path)
    };
    let nothing = file(r#"{"format":1,"snapshots":[],"errors":[],"notes":[]}"#);
    assert!(matches!(nothing, Err(BundleError::Empty(_))));
    let blank =
        r#"{"format":1,"snapshots":[{"place":{"pod":"  "},"answers":{}}],"errors":[],"notes":[]}"#;
    let read = file(blank).unwrap();
    assert_eq!(read.snapshots, []);
    let said: Vec<_> = read
        .errors
        .iter()
        .map(|e| (e.object.as_str(), e.message.as_str()))
        .collect();
    assert_eq!(said, [("(without a name)", "nothing is recorded of it")]);
}

#[test]
fn what_is_no_file_is_not_opened() {
    let scratch = Scratch::new("pipe");
    for name in ["pipe", "pipe.tar.zst"] {
        let path = scratch.0.join(name);
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        assert!(matches!(read(&path), Err(BundleError::Kind(_))));
    }
}

#[test]
fn a_hostile_archive_is_refused_in_bounded_memory() {
    let scratch = Scratch::new("hostile");
    let limits = Limits {
        json: 10_000,
        archive: 50_000,
    };
    let archive = |name: &str, entries: &[(&str, usize)]| {
        let mut builder = tar::Builder::new(zstd::Encoder::new(Vec::new(), 1).unwrap());
        for (path, size) in entries {
            let mut header = tar::Header::new_old();
            header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_size(*size as u64);
            header.set_cksum();
            builder
                .append(&header, io::repeat(b' ').take(*size as u64))
                .unwrap();
        }
        let path = scratch.0.join(name);
        std::fs::write(&path, builder.into_inner().unwrap().finish().unwrap()).unwrap();
        path
    };
    let bomb = archive("bomb.tar.zst", &[("bundle.json", 40_000)]);
    assert!(matches!(
        read_within(&bomb, limits),
        Err(BundleError::TooLarge { limit: 10_000, .. })
    ));
    let padded = archive("padded.tar.zst", &[("x", 4_000_000), ("bundle.json", 10)]);
    assert!(matches!(
        read_within(&padded, limits),
        Err(BundleError::TooLarge { limit: 50_000, .. })
    ));
    let other = archive(
        "other.tar.zst",
        &[("../../etc/passwd", 10), ("bundle.json.exe", 10)],
    );
    assert!(matches!(
        read_within(&other, limits),
        Err(BundleError::NoBundle(_))
    ));
    let twice = archive(
        "twice.tar.zst",
        &[("a/bundle.json", 10), ("b/bundle.json", 10)],
    );
    assert!(matches!(
        read_within(&twice, limits),
        Err(BundleError::Several(_))
    ));
    let junk = scratch.0.join("junk.tar.zst");
    std::fs::write(&junk, b"no archive").unwrap();
    assert!(matches!(
        read_within(&junk, limits),
        Err(BundleError::Archive { .. })
    ));
}

#[test]
fn a_path_in_an_archive_means_nothing() {
    let scratch = Scratch::new("path");
    let json = to_json(&small());
    let mut header = tar::Header::new_old();
    let name = b"../../machine/bundle.json";
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.set_size(json.len() as u64);
    header.set_cksum();
    let mut builder = tar::Builder::new(zstd::Encoder::new(Vec::new(), 1).unwrap());
    builder.append(&header, json.as_slice()).unwrap();
    let path = scratch.0.join("p.tar.zst");
    std::fs::write(&path, builder.into_inner().unwrap().finish().unwrap()).unwrap();
    assert_eq!(read(&path).unwrap(), small());
}

fn to_json(bundle: &Bundle) -> Vec<u8> {
    let mut json = Vec::new();
    write_json(bundle, &mut json).unwrap();
    json
}

fn answer() -> impl Strategy<Value = Answer> {
    let missing = any::<String>().prop_map(|detail| Answer::Missing {
        reason: SkipReason::Denied,
        detail,
    });
    prop_oneof![any::<String>().prop_map(Answer::Text), missing]
}

proptest! {
    #[test]
    fn any_bundle_comes_back_byte_for_byte(
        answers in proptest::collection::btree_map(any::<String>(), answer(), 0..6),
        pod in any::<String>(),
        role in proptest::option::of(any::<String>()),
    ) {
        let place = Place { role, kind: crate::snapshot::PlaceKind::Pod, ..Place::host(pod) };
        let bundle = Bundle { format: FORMAT, snapshots: vec![Snapshot { place, answers }.into()], errors: vec![], notes: vec![], deployment: None };
        let json = to_json(&bundle);
        let back = from_json(&json, Path::new("x")).unwrap();
        prop_assert_eq!(&back, &bundle);
        prop_assert_eq!(to_json(&back), json.clone());
        let mut packed = Vec::new();
        pack(&bundle, &mut packed).unwrap();
        let Unpacked::Found(unpacked) = unpack(packed.as_slice(), LIMITS).unwrap() else { panic!("nothing found") };
        prop_assert_eq!(unpacked, json);
    }

    #[test]
    fn any_bytes_are_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        prop_assert!(!matches!(unpack(bytes.as_slice(), LIMITS), Ok(Unpacked::Found(_))));
        prop_assert!(from_json(&bytes, Path::new("x")).is_err());
    }
}
