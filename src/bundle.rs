//! Recordings: snapshots to a directory or a `.tar.zst` file, and back.
//!
//! A recording holds the filtered answers and nothing else, in one file `bundle.json`. One that is read may come from
//! anybody: only that one file is looked at, its path means nothing, and its size is bounded before and after
//! decompression. One that is written takes the place of an earlier recording or of nothing, never of anything else.

use crate::report::InputError;
use crate::sanitise;
use crate::snapshot::{Answer, Bundle, Deployment, Snapshot};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Write as _};
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
    #[error("{doing} {}: {source}", shown(.path))]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which path.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// Neither a directory nor a known kind of file.
    #[error("save to {}: name a directory, or a file that ends in .tar.zst", shown(.0))]
    Name(PathBuf),
    /// Something is there that is no recording, or that leads elsewhere.
    #[error("save to {}: {why}", shown(.path))]
    Taken {
        /// The place.
        path: PathBuf,
        /// What stands in the way, and what to do.
        why: &'static str,
    },
    /// There is nothing to read in it.
    #[error("read {}: there is no bundle.json in it", shown(.0))]
    NoBundle(PathBuf),
    /// Which one counts is not known.
    #[error("read {}: there are several bundle.json in it", shown(.0))]
    Several(PathBuf),
    /// A recording without anything in it.
    #[error("read {}: nothing is recorded in it", shown(.0))]
    Empty(PathBuf),
    /// Neither a file nor a directory: reading it might never end.
    #[error("read {}: it is neither a file nor a directory", shown(.0))]
    Kind(PathBuf),
    /// Named as an archive, and none that can be unpacked.
    #[error("read {}: not a recording of this tool (bundle.json in a .tar.zst): {}", shown(.path), sanitise::line(&.source.to_string(), 300))]
    Archive {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// More than the limit.
    #[error("read {}: it holds more than {limit} bytes; no recording of this tool does", shown(.path))]
    TooLarge {
        /// The recording.
        path: PathBuf,
        /// The limit it passed.
        limit: u64,
    },
    /// Not JSON, or not that of a recording.
    #[error("read {}: not a recording of this tool: {}", shown(.path), sanitise::line(&.source.to_string(), 300))]
    Json {
        /// The recording.
        path: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// A format that no version wrote.
    #[error("read {}: it has format {found}, which no version of this tool writes", shown(.path))]
    NoFormat {
        /// The recording.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// Made by a newer version.
    #[error("read {}: it has format {found}, and this version knows formats up to {FORMAT}; update the tool", shown(.path))]
    Newer {
        /// The recording.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
}

/// A place that a recording may take: looked at before anything is probed, so that no run is in vain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// As it was named, without slashes at its end.
    path: PathBuf,
    is_archive: bool,
}

impl Destination {
    /// A `.tar.zst` file, or a directory that will hold `bundle.json`. Nothing is written, and no directory is made above
    /// it.
    ///
    /// # Errors
    /// When something else is there than an earlier recording or an empty directory, when it is a link, or when nothing
    /// can be written there.
    pub fn new(path: &Path) -> Result<Self, BundleError> {
        // Without the slashes at its end a link shows itself.
        let plain: PathBuf = path.components().collect();
        let is_archive = is_archive(&plain);
        let named_directory = path.as_os_str().as_encoded_bytes().ends_with(b"/");
        let destination = Self {
            path: plain,
            is_archive,
        };
        let may_be_new = destination.is_archive || named_directory || path.extension().is_none();
        let is_there = destination.look()?;
        if destination.path.file_name().is_none() && !is_there
            || destination.is_archive && named_directory
            || !is_there && !may_be_new
        {
            return Err(BundleError::Name(path.to_owned()));
        }
        let folder = if is_there && !is_archive {
            &destination.path
        } else {
            destination.parent()
        };
        let draft = draft(folder);
        let io = |source| cannot("write below", folder, source);
        let made = OpenOptions::new().write(true).create_new(true).open(&draft);
        made.map_err(io)?;
        fs::remove_file(&draft).map_err(io)?;
        Ok(destination)
    }

    fn parent(&self) -> &Path {
        match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        }
    }

    /// Whether something is there; an error when it may not be replaced.
    fn look(&self) -> Result<bool, BundleError> {
        let taken = |why| {
            let path = self.path.clone();
            Err(BundleError::Taken { path, why })
        };
        let Some(found) = kind(&self.path)? else {
            return match fs::metadata(self.parent()) {
                Ok(parent) if parent.is_dir() => Ok(false),
                Ok(_) => taken("what it is to be in is no directory"),
                Err(_) => taken("the directory that it is to be in is not there; make it first"),
            };
        };
        if found.is_symlink() {
            return taken("it is a link; name what it leads to");
        }
        if self.is_archive {
            if !found.is_file() || !is_recording(&self.path) {
                return taken(
                    "something else than a recording of this tool is there; name another file",
                );
            }
            return Ok(true);
        }
        if !found.is_dir() {
            return Err(BundleError::Name(self.path.clone()));
        }
        let file = self.path.join(FILE);
        match kind(&file)? {
            Some(found) if found.is_file() && is_recording(&file) => Ok(true),
            Some(_) => {
                taken("its bundle.json is no recording of this tool; name another directory")
            }
            None => {
                let io = |source| cannot("look into", &self.path, source);
                if fs::read_dir(&self.path).map_err(io)?.next().is_some() {
                    return taken("this directory holds other files; name a new or an empty one");
                }
                Ok(true)
            }
        }
    }

    /// Writes the recording: whole, or not at all.
    ///
    /// # Errors
    /// When it cannot be written, or when something else took its place meanwhile.
    pub fn write(&self, bundle: &Bundle) -> Result<(), BundleError> {
        let is_there = self.look()?;
        if self.is_archive {
            return replace(&self.path, self.parent(), |file| pack(bundle, file));
        }
        if !is_there {
            fs::create_dir(&self.path)
                .map_err(|source| cannot("make directory", &self.path, source))?;
        }
        let written = replace(&self.path.join(FILE), &self.path, |file| {
            let mut out = BufWriter::new(file);
            write_json(bundle, &mut out)?;
            out.flush()
        });
        if written.is_err() && !is_there {
            // Only an empty one goes.
            let _ = fs::remove_dir(&self.path);
        }
        written
    }
}

/// A path as it is shown: a name may hold anything.
fn shown(path: &Path) -> String {
    sanitise::line(&path.display().to_string(), 500)
}

fn cannot(doing: &'static str, path: &Path, source: io::Error) -> BundleError {
    BundleError::Io {
        doing,
        path: path.to_owned(),
        source,
    }
}

/// What is there, a link unfollowed; nothing is an answer.
fn kind(path: &Path) -> Result<Option<fs::FileType>, BundleError> {
    match fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(found.file_type())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(cannot("look at", path, error)),
    }
}

/// A name in this directory that nobody else uses.
fn draft(folder: &Path) -> PathBuf {
    use std::hash::{BuildHasher, RandomState};
    let random = RandomState::new().hash_one(std::process::id());
    folder.join(format!(".{FILE}.{random:016x}.part"))
}

/// Puts a whole file in place of what is there; a link in its place would be replaced, not followed.
fn replace(
    path: &Path,
    folder: &Path,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> Result<(), BundleError> {
    let draft = draft(folder);
    let write = || {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&draft)?;
        fill(&mut file)?;
        file.sync_all()?;
        fs::rename(&draft, path)
    };
    write().map_err(|source| {
        let _ = fs::remove_file(&draft);
        cannot("write", path, source)
    })
}

/// An earlier recording, of any version of this tool.
fn is_recording(path: &Path) -> bool {
    #[derive(Deserialize)]
    #[expect(dead_code, reason = "that they are there is what counts")]
    struct Outline {
        format: u32,
        snapshots: IgnoredAny,
    }
    json_of(path, LIMITS).is_ok_and(|json| serde_json::from_slice::<Outline>(&json).is_ok())
}

/// Writes a recording: to a `.tar.zst` file, or as `bundle.json` into a directory.
pub fn write(path: &Path, bundle: &Bundle) -> Result<(), BundleError> {
    Destination::new(path)?.write(bundle)
}

/// Reads a recording: a `.tar.zst` file, a directory, or the `bundle.json` in it.
pub fn read(path: &Path) -> Result<Bundle, BundleError> {
    read_within(path, LIMITS)
}

/// The same within given limits.
pub fn read_within(path: &Path, limits: Limits) -> Result<Bundle, BundleError> {
    let json = json_of(path, limits)?;
    let mut bundle = safe(from_json(&json, path)?);
    drop(json);
    let (kept, empty): (Vec<_>, Vec<_>) = bundle
        .snapshots
        .into_iter()
        .partition(|snapshot| !snapshot.is_empty());
    bundle.snapshots = kept;
    bundle
        .errors
        .extend(empty.into_iter().map(|snapshot| InputError {
            object: snapshot.place().pod.clone(),
            message: "nothing is recorded of it".to_owned(),
        }));
    let nothing = bundle.snapshots.is_empty() && bundle.errors.is_empty();
    // Of a deployment something is known without any container.
    if nothing && bundle.deployment.is_none() {
        return Err(BundleError::Empty(path.to_owned()));
    }
    Ok(bundle)
}

/// The text of `bundle.json`.
fn json_of(path: &Path, limits: Limits) -> Result<Vec<u8>, BundleError> {
    let file = if path.is_dir() {
        path.join(FILE)
    } else {
        path.to_owned()
    };
    let io = |source| cannot("read", &file, source);
    match fs::metadata(&file) {
        // Before it is opened: a pipe without a writer would keep us for ever.
        Ok(found) if !found.is_file() => return Err(BundleError::Kind(file)),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound && path.is_dir() => {
            return Err(BundleError::NoBundle(path.to_owned()));
        }
        Err(error) => return Err(io(error)),
    }
    let open = File::open(&file).map_err(io)?;
    let too_large = |limit| BundleError::TooLarge {
        path: path.to_owned(),
        limit,
    };
    if !is_archive(path) || path.is_dir() {
        return bounded(open, limits.json)
            .map_err(io)?
            .ok_or_else(|| too_large(limits.json));
    }
    let unpacked = unpack(BufReader::new(open), limits).map_err(|source| BundleError::Archive {
        path: file.clone(),
        source,
    })?;
    match unpacked {
        Unpacked::Found(json) => Ok(json),
        Unpacked::Nothing => Err(BundleError::NoBundle(path.to_owned())),
        Unpacked::Several => Err(BundleError::Several(path.to_owned())),
        Unpacked::TooLarge(limit) => Err(too_large(limit)),
    }
}

/// A recording may come from anybody: what is shown as it stands must not act on a terminal. Texts of answers stay as
/// they are; whoever shows a part of one makes that part safe.
fn safe(mut bundle: Bundle) -> Bundle {
    let line = |text: &mut String| *text = sanitise::line(text, SHOWN);
    for snapshot in &mut bundle.snapshots {
        snapshot.edit(safe_snapshot);
    }
    for error in &mut bundle.errors {
        line(&mut error.object);
        line(&mut error.message);
    }
    for note in &mut bundle.notes {
        line(&mut note.object);
        line(&mut note.message);
    }
    if let Some(deployment) = &mut bundle.deployment {
        safe_deployment(deployment);
    }
    bundle
}

fn safe_deployment(deployment: &mut Deployment) {
    let line = |text: &mut String| *text = sanitise::line(text, SHOWN);
    line(&mut deployment.name);
    deployment.namespace.iter_mut().for_each(line);
    deployment.mixed.iter_mut().for_each(line);
    for manifest in &mut deployment.manifests {
        line(&mut manifest.path);
    }
    for pair in &mut deployment.transfers {
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
}

fn safe_snapshot(snapshot: &mut Snapshot) {
    let line = |text: &mut String| *text = sanitise::line(text, SHOWN);
    let place = &mut snapshot.place;
    line(&mut place.pod);
    if place.pod.trim().is_empty() {
        "(without a name)".clone_into(&mut place.pod);
    }
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

/// More characters than any sentence of this tool has.
const SHOWN: usize = 4000;

/// A recording as it is written: the same bytes for the same snapshots. Piece by piece: that of a thousand containers
/// is not held a second time.
fn write_json(bundle: &Bundle, out: &mut impl io::Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, bundle)?;
    out.write_all(b"\n")
}

fn from_json(json: &[u8], path: &Path) -> Result<Bundle, BundleError> {
    /// Read first, so that a newer format is named as such and not as a broken one.
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    // An editor may have put a mark before it.
    let json = json.strip_prefix(b"\xef\xbb\xbf").unwrap_or(json);
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
    if found == 0 {
        return Err(BundleError::NoFormat {
            path: path.to_owned(),
            found,
        });
    }
    serde_json::from_slice(json).map_err(broken)
}

fn is_archive(path: &Path) -> bool {
    path.to_string_lossy().ends_with(".tar.zst")
}

/// Counts what is written.
struct Count(u64);

impl io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Strength of the compression: answers of containers are alike and lie close together, so a stronger one, with a window and
/// tables of 15 MB, gains little.
const LEVEL: i32 = 3;

/// Size of the blocks of a tar.
const BLOCK: u64 = 512;

/// One file in a tar in zstd, without times, owners and names of this machine. Its size stands before it, so the text is
/// made twice instead of being held.
fn pack(bundle: &Bundle, out: impl io::Write) -> io::Result<()> {
    let mut count = Count(0);
    write_json(bundle, &mut count)?;
    let mut header = tar::Header::new_ustar();
    header.set_path(FILE)?;
    header.set_size(count.0);
    header.set_mode(0o644);
    header.set_mtime(0);
    header.set_cksum();
    let mut archive = BufWriter::new(zstd::Encoder::new(out, LEVEL)?);
    archive.write_all(header.as_bytes())?;
    write_json(bundle, &mut archive)?;
    // To the end of the last block, and two empty ones.
    let rest = (BLOCK - count.0 % BLOCK) % BLOCK + 2 * BLOCK;
    io::copy(&mut io::repeat(0).take(rest), &mut archive)?;
    let encoder = archive
        .into_inner()
        .map_err(io::IntoInnerError::into_error)?;
    encoder.finish()?.flush()
}

/// What an archive held.
enum Unpacked {
    Found(Vec<u8>),
    Several,
    Nothing,
    TooLarge(u64),
}

fn unpack(packed: impl io::BufRead, limits: Limits) -> io::Result<Unpacked> {
    let mut decoder = zstd::Decoder::with_buffer(packed)?;
    decoder.window_log_max(WINDOW_LOG)?;
    let mut plain = decoder.take(limits.archive);
    let found = find(&mut plain, limits.json);
    // A limit that cuts an archive short looks like a broken archive.
    if plain.limit() == 0 && !matches!(found, Ok(Unpacked::Several)) {
        return Ok(Unpacked::TooLarge(limits.archive));
    }
    found
}

fn find(plain: impl Read, limit: u64) -> io::Result<Unpacked> {
    let mut archive = tar::Archive::new(plain);
    let mut found = None;
    for entry in archive.entries()? {
        let entry = entry?;
        let named = entry.path_bytes().rsplit(|byte| *byte == b'/').next() == Some(FILE.as_bytes());
        if !named || !entry.header().entry_type().is_file() {
            continue;
        }
        if found.is_some() {
            return Ok(Unpacked::Several);
        }
        match bounded(entry, limit)? {
            Some(json) => found = Some(json),
            None => return Ok(Unpacked::TooLarge(limit)),
        }
    }
    Ok(found.map_or(Unpacked::Nothing, Unpacked::Found))
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
            "read /none: No such file or directory (os error 2)"
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
        let blank = r#"{"format":1,"snapshots":[{"place":{"pod":"  "},"answers":{}}],"errors":[],"notes":[]}"#;
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
}
