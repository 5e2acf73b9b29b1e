//! Recordings: snapshots to a directory or a `.tar.zst` file, and back.
//!
//! A recording holds the filtered answers and nothing else, in one file `bundle.json`. One that is read may come from
//! anybody: only that one file is looked at, its path means nothing, and its size is bounded before and after
//! decompression.

use crate::sanitise;
use crate::snapshot::{Answer, Bundle};
use serde::Deserialize;
use std::fs::File;
use std::io::{self, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};

/// Version of the format that is written. Older ones stay readable.
pub const FORMAT: u32 = 1;

/// The one file of a recording.
pub const FILE: &str = "bundle.json";

/// Limits on what is read.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of `bundle.json`.
    pub json: u64,
    /// Bytes of an archive after decompression, whatever is in it.
    pub archive: u64,
}

/// Room for a thousand containers.
pub const LIMITS: Limits = Limits {
    json: 256 << 20,
    archive: 300 << 20,
};

/// Memory that a compressed file may ask for, as a power of two: what `zstd -19` needs.
const WINDOW_LOG: u32 = 27;

/// Why a recording could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The file system said no.
    #[error("{doing} {}: {source}", .path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which path.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// Neither a directory nor a known kind of file.
    #[error("save to {}: name a directory, or a file that ends in .tar.zst", .0.display())]
    Name(PathBuf),
    /// There is nothing to read in it.
    #[error("read {}: there is no bundle.json in it", .0.display())]
    NoBundle(PathBuf),
    /// More than the limit.
    #[error("read {}: it holds more than {limit} bytes; no recording of this tool does", .path.display())]
    TooLarge {
        /// The recording.
        path: PathBuf,
        /// The limit it passed.
        limit: u64,
    },
    /// Not JSON, or not that of a recording.
    #[error("read {}: {source}", .path.display())]
    Json {
        /// The recording.
        path: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// Made by a newer version.
    #[error("read {}: it has format {found}, and this version knows formats up to {FORMAT}; update the tool", .path.display())]
    Newer {
        /// The recording.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
}

/// Writes a recording: to a `.tar.zst` file, or as `bundle.json` into a directory, which is made if need be.
pub fn write(path: &Path, bundle: &Bundle) -> Result<(), BundleError> {
    let io = |doing, path: &Path| {
        let path = path.to_owned();
        move |source| BundleError::Io {
            doing,
            path,
            source,
        }
    };
    let json = to_json(bundle);
    if is_archive(path) {
        let packed = pack(&json).map_err(io("pack", path))?;
        std::fs::write(path, packed).map_err(io("write", path))
    } else if path.is_dir() || !is_other_file(path) {
        std::fs::create_dir_all(path).map_err(io("make directory", path))?;
        let file = path.join(FILE);
        std::fs::write(&file, json).map_err(io("write", &file))
    } else {
        Err(BundleError::Name(path.to_owned()))
    }
}

/// Reads a recording: a `.tar.zst` file, a directory, or the `bundle.json` in it.
pub fn read(path: &Path) -> Result<Bundle, BundleError> {
    read_within(path, LIMITS)
}

/// The same within given limits.
pub fn read_within(path: &Path, limits: Limits) -> Result<Bundle, BundleError> {
    let file = if path.is_dir() {
        path.join(FILE)
    } else {
        path.to_owned()
    };
    let io = |source| BundleError::Io {
        doing: "read",
        path: file.clone(),
        source,
    };
    let open = match File::open(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && path.is_dir() => {
            return Err(BundleError::NoBundle(path.to_owned()));
        }
        open => open.map_err(io)?,
    };
    let too_large = |limit| BundleError::TooLarge {
        path: path.to_owned(),
        limit,
    };
    let json = if is_archive(path) {
        match unpack(BufReader::new(open), limits).map_err(io)? {
            Unpacked::Found(json) => json,
            Unpacked::Nothing => return Err(BundleError::NoBundle(path.to_owned())),
            Unpacked::TooLarge(limit) => return Err(too_large(limit)),
        }
    } else {
        bounded(open, limits.json)
            .map_err(io)?
            .ok_or_else(|| too_large(limits.json))?
    };
    from_json(&json, path).map(safe)
}

/// A recording may come from anybody: what is shown as it stands must not act on a terminal. Texts of answers stay as
/// they are; whoever shows a part of one makes that part safe.
fn safe(mut bundle: Bundle) -> Bundle {
    let line = |text: &mut String| *text = sanitise::line(text, SHOWN);
    for snapshot in &mut bundle.snapshots {
        let place = &mut snapshot.place;
        line(&mut place.pod);
        let optional = [
            &mut place.workload,
            &mut place.namespace,
            &mut place.container,
            &mut place.node,
            &mut place.role,
        ];
        optional.into_iter().flatten().for_each(line);
        for answer in snapshot.answers.values_mut() {
            if let Answer::Missing { detail, .. } = answer {
                line(detail);
            }
        }
    }
    for error in &mut bundle.errors {
        line(&mut error.object);
        line(&mut error.message);
    }
    for note in &mut bundle.notes {
        line(&mut note.object);
        line(&mut note.message);
    }
    let transfers = bundle.deployment.iter_mut().flat_map(|d| &mut d.transfers);
    for pair in transfers {
        let fixed = [
            &mut pair.initiator,
            &mut pair.target,
            &mut pair.detail,
            &mut pair.lane,
            &mut pair.memory,
        ];
        let lists = [&mut pair.steps, &mut pair.caveats, &mut pair.evidence];
        fixed.into_iter().for_each(line);
        [&mut pair.namespace, &mut pair.fix]
            .into_iter()
            .flatten()
            .chain(lists.into_iter().flatten())
            .for_each(line);
    }
    bundle
}

/// More characters than any sentence of this tool has.
const SHOWN: usize = 4000;

/// A recording as it is written: the same bytes for the same snapshots.
pub fn to_json(bundle: &Bundle) -> Vec<u8> {
    let mut json = serde_json::to_vec_pretty(bundle)
        .expect("a bundle holds only strings, numbers and maps of strings");
    json.push(b'\n');
    json
}

fn from_json(json: &[u8], path: &Path) -> Result<Bundle, BundleError> {
    /// Read first, so that a newer format is named as such and not as a broken one.
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let broken = |source| BundleError::Json {
        path: path.to_owned(),
        source,
    };
    let Format { format: found } = serde_json::from_slice(json).map_err(broken)?;
    if found > FORMAT {
        return Err(BundleError::Newer {
            path: path.to_owned(),
            found,
        });
    }
    serde_json::from_slice(json).map_err(broken)
}

fn is_archive(path: &Path) -> bool {
    path.to_string_lossy().ends_with(".tar.zst")
}

/// A name that was hardly meant for a directory.
fn is_other_file(path: &Path) -> bool {
    let kinds = ["json", "zip", "tar", "gz", "tgz", "xz", "zst", "yaml"];
    path.extension()
        .is_some_and(|kind| kinds.iter().any(|other| kind.eq_ignore_ascii_case(other)))
}

/// One file in a tar in zstd, without times, owners and names of this machine.
fn pack(json: &[u8]) -> io::Result<Vec<u8>> {
    let mut header = tar::Header::new_ustar();
    header.set_size(json.len() as u64);
    header.set_mode(0o644);
    header.set_mtime(0);
    let mut archive = tar::Builder::new(zstd::Encoder::new(Vec::new(), 9)?);
    archive.append_data(&mut header, FILE, json)?;
    let mut encoder = archive.into_inner()?;
    encoder.flush()?;
    encoder.finish()
}

/// What an archive held.
enum Unpacked {
    Found(Vec<u8>),
    Nothing,
    TooLarge(u64),
}

fn unpack(packed: impl io::BufRead, limits: Limits) -> io::Result<Unpacked> {
    let mut decoder = zstd::Decoder::with_buffer(packed)?;
    decoder.window_log_max(WINDOW_LOG)?;
    let mut plain = decoder.take(limits.archive);
    let found = find(&mut plain, limits.json);
    // A limit that cuts an archive short looks like a broken archive.
    if plain.limit() == 0 && !matches!(found, Ok(Unpacked::Found(_))) {
        return Ok(Unpacked::TooLarge(limits.archive));
    }
    found
}

fn find(plain: impl Read, limit: u64) -> io::Result<Unpacked> {
    let mut archive = tar::Archive::new(plain);
    for entry in archive.entries()? {
        let entry = entry?;
        let named = entry.path_bytes().rsplit(|byte| *byte == b'/').next() == Some(FILE.as_bytes());
        if named && entry.header().entry_type().is_file() {
            return Ok(bounded(entry, limit)?.map_or(Unpacked::TooLarge(limit), Unpacked::Found));
        }
    }
    Ok(Unpacked::Nothing)
}

/// All bytes, or nothing where there are more than the limit.
fn bounded(from: impl Read, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    from.take(limit + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= limit).then_some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::SkipReason;
    use crate::snapshot::{Place, Snapshot};
    use proptest::prelude::*;

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
            snapshots: vec![Snapshot {
                place,
                answers: answers.into(),
            }],
            errors: Vec::new(),
            notes: Vec::new(),
            deployment: None,
        }
    }

    #[test]
    fn what_was_written_is_read_and_written_again_the_same() {
        let scratch = Scratch::new("same");
        for name in ["dir/below", "a.tar.zst"] {
            let path = scratch.0.join(name);
            write(&path, &small()).unwrap();
            let first = std::fs::read(if name == "dir/below" {
                path.join(FILE)
            } else {
                path.clone()
            })
            .unwrap();
            let back = read(&path).unwrap();
            assert_eq!(back, small());
            write(&path, &back).unwrap();
            let second = std::fs::read(if name == "dir/below" {
                path.join(FILE)
            } else {
                path.clone()
            })
            .unwrap();
            assert_eq!(first, second);
        }
        assert_eq!(
            read(&scratch.0.join("dir/below/bundle.json")).unwrap(),
            small()
        );
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
            "read /none: No such file or directory (os error 2)"
        );
        assert_eq!(
            said(read(&scratch.0)),
            "read : there is no bundle.json in it"
        );
        let newer = file("n.json", br#"{"format":2,"other":[]}"#);
        assert_eq!(
            said(read(&newer)),
            "read /n.json: it has format 2, and this version knows formats up to 1; update the tool"
        );
        assert_eq!(
            said(read(&file("b.json", br#"{"format":1,"snapshots":3}"#))),
            "read /b.json: invalid type: integer `3`, expected a sequence at line 1 column 25"
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
        let junk = scratch.0.join("junk.tar.zst");
        std::fs::write(&junk, b"no archive").unwrap();
        assert!(matches!(
            read_within(&junk, limits),
            Err(BundleError::Io { .. })
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
            let bundle = Bundle { format: FORMAT, snapshots: vec![Snapshot { place, answers }], errors: vec![], notes: vec![], deployment: None };
            let json = to_json(&bundle);
            let back = from_json(&json, Path::new("x")).unwrap();
            prop_assert_eq!(&back, &bundle);
            prop_assert_eq!(to_json(&back), json.clone());
            let packed = pack(&json).unwrap();
            let Unpacked::Found(unpacked) = unpack(packed.as_slice(), LIMITS).unwrap() else { panic!("nothing found") };
            prop_assert_eq!(unpacked, json);
        }

        #[test]
        fn any_bytes_are_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            prop_assert!(!matches!(unpack(bytes.as_slice(), LIMITS), Ok(Unpacked::Found(_))));
            prop_assert!(from_json(&bytes, Path::new("x")).is_err());
        }
    }
}
