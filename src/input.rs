//! Paths and standard input to texts, and texts to an [`Inventory`]. The only place that reads manifests from disk.
//!
//! Time and memory are bounded: by file, by tree, and by what a link may lead to.

use crate::checks::words::counted;
use crate::kustomize::{self, KustomizeError};
use crate::manifest::{self, Inventory, Text, Wanted};
use crate::report::{InputError, Note};
use crate::sanitise;
use crate::source::SourceFile;
use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Larger files are refused. etcd takes objects up to about 1.5 MiB.
const FILE_LIMIT: u64 = 16 << 20;
/// More than this in one run is refused.
const TOTAL_LIMIT: u64 = 512 << 20;
/// Deeper trees are not followed.
const DEPTH_LIMIT: usize = 64;
/// At most this many files beside a named one are looked at for what it refers to.
const SIBLING_LIMIT: usize = 200;
/// What a sibling must hold to be of use.
const COMPANION_KINDS: [&str; 3] = ["ConfigMap", "ResourceClaim", "ComputeDomain"];
/// Longest path that is shown.
const PATH_CAP: usize = 4096;

/// Reads the named files and directories; `-` is standard input.
pub fn read(paths: &[PathBuf]) -> Inventory {
    let mut input = Input {
        several: paths.len() > 1,
        ..Input::default()
    };
    for path in paths {
        input.named(path);
    }
    let mut inventory = manifest::read(&input.texts);
    if input.add_siblings(&inventory) {
        inventory = manifest::read(&input.texts);
    }
    inventory.inputs = paths
        .iter()
        .map(|p| {
            if is_stdin(p) {
                STDIN.to_owned()
            } else {
                shown(p)
            }
        })
        .collect();
    inventory.errors.splice(0..0, input.errors);
    inventory.notes.splice(0..0, input.notes);
    inventory
}

const STDIN: &str = "<stdin>";

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn shown(path: &Path) -> String {
    sanitise::line(&path.to_string_lossy(), PATH_CAP)
}

fn is_yaml(path: &Path) -> bool {
    path.extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("yaml") || e.eq_ignore_ascii_case("yml"))
}

fn is_hidden(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|n| n.as_encoded_bytes().starts_with(b"."))
}

fn is_kustomization(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|n| kustomize::FILE_NAMES.iter().any(|k| n == *k))
}

/// What tells a directory from others, whatever path leads to it.
#[cfg(unix)]
type Identity = (u64, u64);
#[cfg(not(unix))]
type Identity = PathBuf;

#[cfg(unix)]
fn identity(directory: &Path) -> io::Result<Identity> {
    use std::os::unix::fs::MetadataExt;
    // One system call, where the real path takes one per component.
    fs::metadata(directory).map(|m| (m.dev(), m.ino()))
}

#[cfg(not(unix))]
fn identity(directory: &Path) -> io::Result<Identity> {
    fs::canonicalize(directory)
}

/// A kustomize Component is a part of overlays and renders to nothing by itself.
fn is_component(path: &Path) -> bool {
    let bytes = if path.is_file() {
        read_file(path).unwrap_or_default()
    } else {
        Vec::new()
    };
    String::from_utf8_lossy(&bytes).lines().any(|line| {
        let value = line
            .strip_prefix("kind:")
            .and_then(|v| v.split(" #").next());
        value.is_some_and(|v| v.trim().trim_matches(['"', '\'']) == "Component")
    })
}

/// What is neither a file nor a directory, in words; None for what can be read. A pipe that a shell opened for its
/// command (`<(..)`) has a writer; one in the file system may wait for ever.
#[cfg(unix)]
fn special(path: &Path, kind: fs::FileType) -> Option<&'static str> {
    use std::os::unix::fs::FileTypeExt;
    let opened = ["/dev/fd", "/dev/stdin", "/proc"];
    if kind.is_fifo() && !opened.iter().any(|prefix| path.starts_with(prefix)) {
        return Some("a named pipe, not read: pipe its content to `env -`");
    }
    kind.is_socket()
        .then_some("a socket, not a file: name a manifest")
}

#[cfg(not(unix))]
fn special(_: &Path, _: fs::FileType) -> Option<&'static str> {
    None
}

/// Why something could not be read, and what to do where that is known.
pub fn cannot(e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::NotFound => "no such file or directory; check the path".to_owned(),
        io::ErrorKind::PermissionDenied => format!("cannot be read: {e}; check its permissions"),
        _ => format!("cannot be read: {e}"),
    }
}

#[derive(Default)]
struct Input {
    texts: Vec<Text>,
    errors: Vec<InputError>,
    notes: Vec<Note>,
    /// Directories that were walked: a link never leads into one twice.
    walked: HashSet<Identity>,
    /// Several paths were named, so that one may hold another.
    several: bool,
    /// Files that were read, by their real path, where several paths were named.
    read: HashSet<PathBuf>,
    total: u64,
    /// Kustomizations met below a named directory.
    kustomizations: Vec<PathBuf>,
    /// Files that the user named, for a look at what stands beside them.
    named: Vec<PathBuf>,
}

impl Input {
    fn error(&mut self, path: &Path, message: impl Into<String>) {
        self.errors.push(InputError {
            object: shown(path),
            message: message.into(),
        });
    }

    fn note(&mut self, path: &Path, message: impl Into<String>) {
        self.notes.push(Note {
            object: shown(path),
            message: message.into(),
        });
    }

    fn named(&mut self, path: &Path) {
        if is_stdin(path) {
            return self.stdin();
        }
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(e) => {
                return self.error(path, cannot(&e));
            }
        };
        if let Some(what) = special(path, metadata.file_type()) {
            return self.error(path, what);
        }
        if metadata.is_dir() {
            if kustomize::FILE_NAMES
                .iter()
                .any(|name| path.join(name).is_file())
                && self.rendered(path, path)
            {
                return;
            }
            let before = self.texts.len();
            let problems = self.errors.len() + self.notes.len();
            self.walk(path, 0);
            self.note_kustomizations(path);
            if self.texts.len() == before && self.errors.len() + self.notes.len() == problems {
                self.note(path, "no *.yaml or *.yml file in it");
            }
        } else {
            let directory = path
                .parent()
                .filter(|p| !p.as_os_str().is_empty())
                .unwrap_or(Path::new("."));
            if is_kustomization(path) {
                if !self.rendered(path, directory) {
                    self.walk(directory, 0);
                }
                return;
            }
            self.named.push(path.to_owned());
            self.file(path, true);
        }
    }

    fn stdin(&mut self) {
        let path = Path::new(STDIN);
        match read_bounded(io::stdin().lock(), 0) {
            Ok(bytes) => self.bytes(path, bytes, true),
            Err(e) => self.error(path, cannot(&e)),
        }
    }

    /// Renders a kustomization; false, with a note, when its files have to do instead.
    fn rendered(&mut self, named: &Path, directory: &Path) -> bool {
        if kustomize::FILE_NAMES
            .iter()
            .any(|name| is_component(&directory.join(name)))
        {
            let message = "a kustomize Component renders to nothing by itself; name an overlay that uses it. Its files were \
                           read as they are";
            self.note(named, message);
            return false;
        }
        let text = match kustomize::render(directory) {
            Ok(text) => text,
            Err(KustomizeError::NoTool) => {
                let message = "kustomization, not rendered: neither kustomize nor kubectl is on PATH; its files were \
                               read as they are, without patches: install one of them, or pipe the output of \
                               `kubectl kustomize` to `env -`";
                self.note(named, message);
                return false;
            }
            Err(e) => {
                self.note(
                    named,
                    format!("kustomization: {e}; its files were read as they are, without patches"),
                );
                return false;
            }
        };
        let path = format!("<kustomize build {}>", shown(directory));
        self.text(Path::new(&path), text, true);
        true
    }

    /// One note for all kustomizations below a directory; overlays come in dozens.
    fn note_kustomizations(&mut self, named: &Path) {
        let found = std::mem::take(&mut self.kustomizations);
        let Some(first) = found.first() else { return };
        let message = format!(
            "{} below it, not rendered (the first is {}): name such a directory to have it rendered and judged",
            counted(found.len(), "kustomization"),
            shown(first)
        );
        self.note(named, message);
    }

    /// All manifests below a directory, in the order of their names. Links are followed once.
    fn walk(&mut self, directory: &Path, depth: usize) {
        match identity(directory) {
            Ok(identity) => {
                if !self.walked.insert(identity) {
                    return;
                }
            }
            Err(e) => return self.error(directory, cannot(&e)),
        }
        if depth > DEPTH_LIMIT {
            return self.note(
                directory,
                format!("deeper than {DEPTH_LIMIT} directories, not read"),
            );
        }
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(e) => {
                return self.error(directory, cannot(&e));
            }
        };
        // A listing that breaks off is as far as one can see.
        let mut entries: Vec<fs::DirEntry> = entries.filter_map(Result::ok).collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            if is_hidden(&path) {
                continue;
            }
            // What a link leads to counts; everything else needs no second look.
            let kind = entry.file_type().and_then(|kind| match kind.is_symlink() {
                true => fs::metadata(&path).map(|m| m.file_type()),
                false => Ok(kind),
            });
            match kind {
                Ok(kind) if kind.is_dir() => self.walk(&path, depth + 1),
                Ok(kind) if kind.is_file() => self.met(&path, directory, depth),
                Ok(kind) if is_yaml(&path) => {
                    let what =
                        special(&path, kind).unwrap_or("neither a file nor a directory, not read");
                    self.note(&path, what);
                }
                Ok(_) => {}
                Err(e) if is_yaml(&path) => self.note(&path, format!("not read: {e}")),
                Err(_) => {}
            }
        }
    }

    /// A file in a directory.
    fn met(&mut self, path: &Path, directory: &Path, depth: usize) {
        if depth > 0 && is_kustomization(path) && !is_component(path) {
            self.kustomizations.push(directory.to_owned());
        }
        if is_yaml(path) {
            self.file(path, false);
        }
    }

    fn file(&mut self, path: &Path, named: bool) {
        if self.several
            && let Ok(real) = fs::canonicalize(path)
            && !self.read.insert(real)
        {
            return;
        }
        match read_file(path) {
            Ok(bytes) => self.bytes(path, bytes, named),
            Err(e) => self.error(path, cannot(&e)),
        }
    }

    fn bytes(&mut self, path: &Path, bytes: Vec<u8>, named: bool) {
        let length = bytes.len() as u64;
        if length > FILE_LIMIT {
            let message = format!(
                "larger than {} MiB, not read; name the manifests alone",
                FILE_LIMIT >> 20
            );
            return self.unreadable(path, named, message);
        }
        self.total += length;
        if self.total > TOTAL_LIMIT {
            let message = format!(
                "more than {} MiB in one run, not read; name fewer directories",
                TOTAL_LIMIT >> 20
            );
            return self.error(path, message);
        }
        if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
            return self.unreadable(path, named, "UTF-16, not read; save it as UTF-8".into());
        }
        match String::from_utf8(bytes) {
            Ok(text) if text.contains('\0') => {
                self.unreadable(
                    path,
                    named,
                    "not a text file: it holds NUL bytes, not read".into(),
                );
            }
            Ok(text) => self.text(path, text, named),
            Err(e) => {
                let at = e.utf8_error().valid_up_to();
                let message = format!(
                    "not UTF-8 at byte {at}, not read; name a manifest, or save it as UTF-8"
                );
                self.unreadable(path, named, message);
            }
        }
    }

    /// An error where the user named the file, a note where it was met on the way.
    fn unreadable(&mut self, path: &Path, named: bool, message: String) {
        if named {
            self.error(path, message);
        } else {
            self.note(path, message);
        }
    }

    fn text(&mut self, path: &Path, mut text: String, named: bool) {
        if text.starts_with('\u{feff}') {
            text.drain(.."\u{feff}".len());
        }
        let source = Arc::new(SourceFile {
            path: shown(path),
            text,
        });
        self.texts.push(Text {
            source,
            named,
            companion: false,
        });
    }

    /// A file named alone may refer to a claim template or a ConfigMap in a file beside it. Adds the siblings that
    /// hold a missing name, for look-ups only; true if there are any.
    fn add_siblings(&mut self, inventory: &Inventory) -> bool {
        let before = self.texts.len();
        for path in std::mem::take(&mut self.named) {
            let own = shown(&path);
            let wanted: BTreeSet<(Wanted, &str)> = (inventory.missing.iter())
                .filter(|m| m.path == own)
                .map(|m| (m.wanted, m.name.as_str()))
                .collect();
            let directory = path
                .parent()
                .filter(|p| !p.as_os_str().is_empty())
                .unwrap_or(Path::new("."));
            if wanted.is_empty() {
                continue;
            }
            let Ok(entries) = fs::read_dir(directory) else {
                continue;
            };
            let mut siblings: Vec<PathBuf> = entries
                .filter_map(|e| e.ok().map(|e| e.path()))
                .filter(|p| is_yaml(p) && !is_hidden(p))
                .collect();
            siblings.sort();
            for sibling in siblings.iter().take(SIBLING_LIMIT) {
                self.sibling(sibling, &path, &wanted);
            }
        }
        self.texts.len() > before
    }

    fn sibling(&mut self, sibling: &Path, of: &Path, wanted: &BTreeSet<(Wanted, &str)>) {
        let shown_as = shown(&of.with_file_name(sibling.file_name().unwrap_or_default()));
        let known = self.texts.iter().any(|t| t.source.path == shown_as);
        if known || fs::canonicalize(sibling).is_ok_and(|real| self.read.contains(&real)) {
            return;
        }
        if !sibling.is_file() {
            return;
        }
        let Ok(bytes) = read_file(sibling) else {
            return;
        };
        let Ok(text) = String::from_utf8(bytes) else {
            return;
        };
        let holds = COMPANION_KINDS.iter().any(|kind| text.contains(kind));
        if !holds || text.len() as u64 > FILE_LIMIT {
            return;
        }
        let offers = manifest::offers(&text);
        let found: BTreeSet<&str> = (offers.iter())
            .filter(|(kind, name)| wanted.contains(&(*kind, name.as_str())))
            .map(|(_, name)| name.as_str())
            .collect();
        if found.is_empty() {
            return;
        }
        // The spelling of the directory is that of the named file, so that both count as neighbours.
        let path = of.with_file_name(sibling.file_name().unwrap_or_default());
        let source = Arc::new(SourceFile {
            path: shown(&path),
            text,
        });
        self.texts.push(Text {
            source,
            named: false,
            companion: true,
        });
        let names = sanitise::line(&Vec::from_iter(found).join(", "), 200);
        self.note(
            &path,
            format!(
                "read for {names}, to which {} refers; nothing else in it is judged",
                shown(of)
            ),
        );
    }
}

/// Why a file that somebody named is not opened: a pipe without a writer may wait for ever, a device may never end. What a
/// shell opened for its command (`<(..)`) has a writer.
pub fn endless(path: &Path) -> Option<&'static str> {
    let opened = ["/dev/fd", "/dev/stdin", "/proc"];
    let kind = fs::metadata(path).ok()?;
    let fine = kind.is_file() || kind.is_dir() || opened.iter().any(|at| path.starts_with(at));
    (!fine).then_some("it is no regular file")
}

/// A file, at most one byte more than is allowed.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let size = file.metadata()?.len().min(FILE_LIMIT);
    read_bounded(file, size)
}

/// At most one byte more than is allowed, so that the caller can tell. `size`: what is expected.
fn read_bounded(from: impl Read, size: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default() + 1);
    from.take(FILE_LIMIT + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
