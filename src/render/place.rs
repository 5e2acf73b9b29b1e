//! Where in a repository evidence stands, for formats that point into files.

use crate::report::{Evidence, FailOn, Finding};
use crate::target::Target;
use std::fmt::Write;
use std::path::{Component, Path, PathBuf};

/// What a machine format needs to know beside the report.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// The directory that paths of the report are relative to.
    pub current: &'a Path,
    /// Root of the repository: paths below it are shown relative to it.
    pub root: &'a Path,
    /// From which status on a finding fails the run.
    pub fail_on: FailOn,
    /// The run fails unless every deployment is trusted.
    pub require_trusted: bool,
}

/// A file and a position in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Relative to the root with `/` between its parts; absolute where the file lies elsewhere.
    pub(super) path: String,
    /// It lies below the root.
    pub(super) below_root: bool,
    pub(super) line: u32,
    pub(super) column: u32,
}

impl Place {
    /// A reference as of RFC 3986.
    pub(super) fn uri(&self) -> String {
        let path = percent(&self.path);
        match (self.below_root, path.starts_with('/')) {
            (true, _) => path,
            (false, true) => format!("file://{path}"),
            (false, false) => format!("file:///{path}"),
        }
    }
}

impl Surroundings<'_> {
    /// The place of evidence that stands in a file. What came from standard input, a rendering or the cluster stands in none.
    pub(super) fn place(&self, evidence: &Evidence) -> Option<Place> {
        let path = evidence.path.as_deref()?;
        if path.starts_with('<') || evidence.is_of_object() {
            return None;
        }
        let (path, below_root) = self.relative(path);
        Some(Place {
            path,
            below_root,
            line: evidence.line?.max(1),
            column: evidence.column.unwrap_or(1).max(1),
        })
    }

    /// The first file that a finding points into.
    pub(super) fn of(&self, finding: &Finding) -> Option<Place> {
        finding.evidence.iter().find_map(|e| self.place(e))
    }

    fn relative(&self, path: &str) -> (String, bool) {
        let whole = plain(&self.current.join(path));
        let own = whole.strip_prefix(plain(self.root));
        let below = own.as_ref().is_ok_and(|p| !p.as_os_str().is_empty());
        let shown = if below { own.unwrap_or(&whole) } else { &whole };
        (shown.to_string_lossy().replace('\\', "/"), below)
    }
}

/// Without `.` and `..`, by the letters alone.
fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

/// Percent-encodes what may not stand in a path of a URI.
pub(super) fn percent(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// The object in words that tell it from all others of a run: `namespace/workload/name (role)`.
pub(super) fn object(target: &Target) -> String {
    let mut out = String::new();
    if let Some(namespace) = &target.namespace {
        let _ = write!(out, "{namespace}/");
    }
    let _ = write!(out, "{target}");
    if let Some(role) = target.role.as_ref().filter(|role| **role != target.name) {
        let _ = write!(out, " ({role})");
    }
    out
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::report::EvidenceSource;

    pub(in crate::render) fn here() -> Surroundings<'static> {
        Surroundings {
            current: Path::new("/repo/sub"),
            root: Path::new("/repo"),
            fail_on: FailOn::Fail,
            require_trusted: false,
        }
    }

    fn at(path: &str) -> Option<(String, bool)> {
        let evidence = Evidence {
            source: EvidenceSource::Manifest,
            path: Some(path.to_owned()),
            line: Some(3),
            column: None,
            ask: None,
            excerpt: String::new(),
        };
        let place = here().place(&evidence);
        place.map(|p| (p.uri(), p.below_root))
    }

    /// What somebody may write who wants something else to be read.
    pub(in crate::render) const HOSTILE: &str = "a\r\n::error::pwned\n::set-output name=x::y\u{1}\u{fffe}\u{2028}::warning::z \
         <img src=x> @octocat #1 ]]> ```\n</details> [l](http://e.x) `c` *b* %0A &amp; | x";

    /// A report with a fail and a warn in which every text is hostile, as though nothing had been sanitised before.
    pub(in crate::render) fn hostile() -> crate::report::Report {
        use crate::checks::testing::{GPU, env, graph, lines, report};
        use crate::report::{InputError, Note};
        use std::sync::Arc;
        let mut report = report(&graph(&lines(&[GPU, &env(&[("UCX_TLS", "tcp")])])));
        let text = || HOSTILE.to_owned();
        for f in &mut report.checks {
            (f.name, f.detail) = (text().into(), text());
            Arc::make_mut(&mut f.target).name = text();
            f.fix = Some(text());
            for e in &mut f.evidence {
                (e.excerpt, e.path) = (text(), Some(text()));
            }
        }
        for f in &mut report.fix_first {
            (f.name, f.detail, f.target.name) = (text(), text(), text());
            (f.fix, f.paste) = (Some(text()), Some(text()));
            for e in &mut f.evidence {
                (e.excerpt, e.path) = (text(), Some(text()));
            }
        }
        let (object, message) = (text(), text());
        report.errors = vec![InputError { object, message }];
        let (object, message) = (text(), text());
        report.notes = vec![Note { object, message }];
        report.verdict = text();
        report.next = Some(text());
        report
    }

    #[test]
    fn paths_are_those_of_the_repository() {
        let inside = |uri: &str| Some((uri.to_owned(), true));
        assert_eq!(at("a/b.yaml"), inside("sub/a/b.yaml"));
        assert_eq!(at("./b.yaml"), inside("sub/b.yaml"));
        assert_eq!(at("../b.yaml"), inside("b.yaml"));
        assert_eq!(at("/repo/x/b.yaml"), inside("x/b.yaml"));
        assert_eq!(at("a b#?%ä.yaml"), inside("sub/a%20b%23%3F%25%C3%A4.yaml"));
        let outside = |uri: &str| Some((uri.to_owned(), false));
        assert_eq!(at("/etc/x.yaml"), outside("file:///etc/x.yaml"));
        assert_eq!(at("../../x.yaml"), outside("file:///x.yaml"));
    }

    #[test]
    fn what_is_no_file_has_no_place() {
        for path in ["<stdin>", "<kustomize build x>", "Pods of qwen"] {
            assert_eq!(at(path), None, "{path}");
        }
    }
}
