//! A file as documents, before any of them is parsed.
//!
//! Most documents of a repository say nothing about an interconnect (volumes, services, jobs that download a model).
//! Their kind stands at column 0, so they are recognised without parsing; that keeps a run over hundreds of files short.

/// More documents than this in one file are not read.
pub(super) const DOCUMENT_LIMIT: usize = 1_000;

/// One document of a file, unparsed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Document<'t> {
    /// Its text, with its `---` line.
    pub text: &'t str,
    /// First byte in the file.
    pub base: usize,
    /// First line in the file, from 1.
    pub line: u32,
    /// `kind:` at column 0, unquoted; None where there is none, or where only a parser can tell.
    pub kind: Option<&'t str>,
}

/// What a document can matter for, as far as its kind and its text say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Holds a deployment, or only a parser can tell: parsed at once.
    Subject,
    /// Parsed when a deployment refers to it: ConfigMap, ResourceClaimTemplate, ComputeDomain.
    Companion,
    /// Counted.
    Other,
}

/// Cuts a file at its `---` and `...` lines. That is exact: YAML forbids both at column 0 inside a document.
pub(super) fn split(text: &str) -> Vec<Document<'_>> {
    let mut out = Vec::new();
    let (mut from, mut line, mut at) = (0, 1u32, 0);
    let mut cut = |from: usize, to: usize, line: &mut u32| {
        let part = &text[from..to];
        if !is_blank(part) {
            let (text, skipped) = without_mark(part);
            out.push(Document {
                text,
                base: from + skipped,
                line: line.saturating_add(u32::from(part[..skipped].contains('\n'))),
                kind: kind_of(text),
            });
        }
        let lines = part.bytes().filter(|&b| b == b'\n').count();
        *line = line.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
    };
    loop {
        let rest = &text[at..];
        // The next line that may begin a document; the first line of the file is one of them.
        let found = if at == 0 && marker(rest).is_some() {
            Some(0)
        } else {
            next_marker(rest)
        };
        let Some(found) = found else { break };
        let begin = at + found;
        if begin > from {
            cut(from, begin, &mut line);
            from = begin;
        }
        at = begin + marker(&text[begin..]).unwrap_or(3);
    }
    cut(from, text.len(), &mut line);
    out
}

fn next_marker(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(n) = text.get(at..)?.find('\n') {
        at += n + 1;
        if matches!(bytes.get(at), Some(b'-' | b'.' | b'\xef')) && marker(&text[at..]).is_some() {
            return Some(at);
        }
    }
    None
}

/// A byte-order mark: every file that was joined to others may have brought one.
const MARK: char = '\u{feff}';

/// Length of the `---` or `...` that a line begins with, and then a blank or nothing.
fn marker(line: &str) -> Option<usize> {
    let rest = line.strip_prefix(MARK).unwrap_or(line);
    let bytes = rest.as_bytes();
    let is_marker = (bytes.starts_with(b"---") || bytes.starts_with(b"..."))
        && bytes
            .get(3)
            .is_none_or(|b| matches!(b, b' ' | b'\t' | b'\r' | b'\n'));
    is_marker.then_some(line.len() - rest.len() + 3)
}

/// A document without the byte-order mark before or behind its `---` line, and how many bytes that leaves out.
fn without_mark(text: &str) -> (&str, usize) {
    let bare = text.strip_prefix(MARK).unwrap_or(text);
    let behind = bare
        .strip_prefix("---")
        .and_then(|rest| {
            rest.trim_start_matches([' ', '\t', '\r'])
                .strip_prefix('\n')
        })
        .and_then(|rest| rest.strip_prefix(MARK));
    let kept = behind.unwrap_or(bare);
    (kept, text.len() - kept.len())
}

/// Nothing but blanks, comments, directives and markers.
fn is_blank(text: &str) -> bool {
    text.lines().all(|line| {
        let line = line.trim_start_matches(MARK).trim();
        line.is_empty()
            || line.starts_with(['#', '%'])
            || line == "---"
            || line == "..."
            || line.starts_with("--- #")
    })
}

fn kind_of(text: &str) -> Option<&str> {
    let mut rest = text;
    loop {
        let line = if rest.starts_with("kind:") {
            rest
        } else {
            let at = rest.find("\nkind:")?;
            &rest[at + 1..]
        };
        let value = line["kind:".len()..].lines().next().unwrap_or_default();
        let value = value.split(" #").next().unwrap_or_default().trim();
        let word = value.trim_matches(['"', '\'']);
        if !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return Some(word);
        }
        rest = &line["kind:".len()..];
        if !value.is_empty() {
            return None;
        }
    }
}

/// Kinds whose pod template may run a worker.
const POD_KINDS: [&str; 9] = [
    "Pod",
    "Deployment",
    "StatefulSet",
    "DaemonSet",
    "ReplicaSet",
    "Job",
    "CronJob",
    "LeaderWorkerSet",
    "PodCliqueSet",
];

/// A pod template without any of these words is no worker and has no transport setting.
const MARKERS: [&str; 13] = [
    "UCX_",
    "NIXL_",
    "NCCL_",
    "FI_PROVIDER",
    "rdma",
    "amazonaws.com/efa",
    "dynamo.",
    "kv-transfer-config",
    "kv_transfer",
    "disaggregation",
    "vllm serve",
    "trtllm-serve",
    "sglang.launch_server",
];

impl Document<'_> {
    /// Its kind has a pod template.
    pub fn is_pod(&self) -> bool {
        self.kind.is_some_and(|kind| POD_KINDS.contains(&kind))
    }

    /// What the document can matter for.
    pub fn part(&self) -> Part {
        match self.kind {
            None => Part::Subject,
            Some("DynamoGraphDeployment" | "DynamoComponentDeployment" | "List" | "Pods") => {
                Part::Subject
            }
            Some("ConfigMap" | "ResourceClaimTemplate" | "ResourceClaim" | "ComputeDomain") => {
                Part::Companion
            }
            Some(kind) if POD_KINDS.contains(&kind) => {
                if MARKERS.iter().any(|m| self.text.contains(m)) {
                    Part::Subject
                } else {
                    Part::Other
                }
            }
            // `PodList` and its like hold whole objects.
            Some(kind) if kind.ends_with("List") => Part::Subject,
            Some(_) => Part::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(u32, Option<&str>)> {
        split(text).iter().map(|d| (d.line, d.kind)).collect()
    }

    #[test]
    fn documents_and_kinds_without_parsing() {
        let text = "# c\n---\nkind: A\n---\n\n--- # x\nmeta: 1\nkind: \"B\" # why\n...\n---\r\n{kind: C}\n";
        assert_eq!(kinds(text), [(2, Some("A")), (6, Some("B")), (10, None)]);
        assert_eq!(kinds("kind: A"), [(1, Some("A"))]);
        assert_eq!(kinds(""), []);
        // Files that were joined, each with its mark.
        let joined =
            "kind: A\n\u{feff}---\nkind: B\n---\n\u{feff}kind: C\n\u{feff}\n---\n\u{feff}\n";
        assert_eq!(
            kinds(joined),
            [(1, Some("A")), (2, Some("B")), (5, Some("C"))]
        );
        for document in split(joined) {
            assert_eq!(joined.find(document.text), Some(document.base));
            assert!(!document.text.starts_with(MARK));
        }
        assert_eq!(kinds("a: |\n  ---\n  kind: X\n----\n"), [(1, None)]);
    }
}
