//! Recordings: snapshots to a directory or a `.tar.zst` file, and back.
//!
//! A recording holds the filtered answers and nothing else, in one file `bundle.json`. One that is read may come from
//! anybody: only that one file is looked at, its path means nothing, and its size is bounded before and after
//! decompression. One that is written takes the place of an earlier recording or of nothing, never of anything else.

mod archive;
mod save;
#[cfg(test)]
mod tests;

use crate::report::InputError;
use crate::sanitise;
use crate::snapshot::{Answer, Bundle, Deployment, Snapshot};
use archive::{Unpacked, bounded, unpack};
pub use save::{Destination, write};
use serde::Deserialize;
use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind};
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

/// Why a recording could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The file system said no.
    #[error("{doing} {}: {}", shown(.path), words(.source))]
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

/// What the file system said, and what to do where that is known.
fn words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file or directory; check the path".to_owned(),
        io::ErrorKind::PermissionDenied => format!("{error}; check its permissions"),
        _ => error.to_string(),
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
