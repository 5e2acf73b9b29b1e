//! Where a recording may be written, and the writing of it: beside the place and then into it at once, so that what stood
//! there is whole or replaced.

use super::archive::pack;
use super::{BundleError, FILE, LIMITS, cannot, is_archive, json_of, write_json};
use crate::snapshot::Bundle;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

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

/// What is there, a link unfollowed; nothing is an answer.
fn kind(path: &Path) -> Result<Option<fs::FileType>, BundleError> {
    match fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(found.file_type())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(cannot("look at", path, error)),
    }
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
