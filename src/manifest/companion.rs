//! What a deployment refers to by name: ConfigMaps, claim templates, ComputeDomains. Parsed only when asked for.

use super::broken;
use super::document::{self, DOCUMENT_LIMIT, Document, Part};
use super::yaml::{Node, Tree};
use super::{Missing, Wanted};
use crate::report::InputError;
use crate::source::SourceFile;
use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// So many references that nothing answers are told apart.
const MISSING_LIMIT: usize = 10_000;

/// All companions of one run.
pub(super) struct Companions<'t> {
    files: &'t [Arc<SourceFile>],
    entries: Vec<Entry<'t>>,
    /// Entries by the names that stand in them, made when something is looked for.
    index: OnceCell<Index<'t>>,
    errors: RefCell<Vec<InputError>>,
    missing: RefCell<BTreeSet<Missing>>,
}

struct Entry<'t> {
    file: usize,
    source: Source<'t>,
}

enum Source<'t> {
    Text(Document<'t>, OnceCell<Tree<'t>>),
    Object(Node<'t>),
}

#[derive(Default)]
struct Index<'t> {
    by_name: HashMap<&'t str, Vec<usize>>,
    /// Names are written in them in a way that only a parser can read.
    any: Vec<usize>,
}

impl<'t> Companions<'t> {
    /// None yet.
    pub fn new(files: &'t [Arc<SourceFile>]) -> Self {
        Self {
            files,
            entries: Vec::new(),
            index: OnceCell::new(),
            errors: RefCell::default(),
            missing: RefCell::default(),
        }
    }

    /// An unparsed document.
    pub fn add_document(&mut self, file: usize, document: Document<'t>) {
        let source = Source::Text(document, OnceCell::new());
        self.entries.push(Entry { file, source });
    }

    /// An object that was parsed as part of a list.
    pub fn add_object(&mut self, file: usize, node: Node<'t>) {
        let source = Source::Object(node);
        self.entries.push(Entry { file, source });
    }

    /// Documents that were asked for and are broken, and references that nothing answers.
    pub fn into_outcome(self) -> (Vec<InputError>, Vec<Missing>) {
        let missing = self.missing.into_inner();
        (self.errors.into_inner(), missing.into_iter().collect())
    }

    /// A value of a ConfigMap, looked for in the same file, then in the same directory.
    pub fn config_value(&self, from: usize, name: &str, key: &str) -> Option<&str> {
        self.config_map(from, name)?.at(&["data", key])?.text()
    }

    /// A ConfigMap, looked for in the same file, then in the same directory.
    pub fn config_map(&self, from: usize, name: &str) -> Option<Node<'_>> {
        self.find(from, Wanted::ConfigMap, name)
    }

    /// Device classes behind a claim or claim template of that name; a ComputeDomain counts as
    /// `ComputeDomain:<its name>`. None when nothing of that name is in the input. Looked for in the same file, in the
    /// same directory, then in the nearest one: recipes keep a ComputeDomain beside the model cache.
    pub fn device_classes(&self, from: usize, name: &str) -> Option<Vec<String>> {
        let object = self.find(from, Wanted::Claim, name)?;
        if object.word_at(&["kind"]) == Some("ComputeDomain") {
            let domain = object.word_at(&["metadata", "name"]).unwrap_or("(unnamed)");
            return Some(vec![format!("ComputeDomain:{domain}")]);
        }
        let requests = object
            .at(&["spec", "spec", "devices", "requests"])
            .or_else(|| object.at(&["spec", "devices", "requests"]))?;
        let mut classes = Vec::new();
        for request in requests.items() {
            let exactly = request.get("exactly").into_iter();
            let first = request
                .get("firstAvailable")
                .into_iter()
                .flat_map(Node::items);
            for device in std::iter::once(request).chain(exactly).chain(first) {
                classes.extend(device.word_at(&["deviceClassName"]).map(str::to_owned));
            }
        }
        Some(classes)
    }

    /// The same file first, then the same directory, then (for claims) the nearest other one.
    fn find(&self, from: usize, wanted: Wanted, name: &str) -> Option<Node<'_>> {
        let home = directory(&self.files[from].path);
        let far = wanted == Wanted::Claim;
        let index = self.index.get_or_init(|| self.index());
        let named = index.by_name.get(name).into_iter().flatten();
        let mut candidates: Vec<(usize, &str, usize)> = named
            .chain(&index.any)
            .map(|&at| {
                let file = self.entries[at].file;
                let place = directory(&self.files[file].path);
                let steps = if file == from {
                    0
                } else {
                    1 + distance(home, place)
                };
                (steps, place, at)
            })
            .filter(|(steps, ..)| far || *steps < 2)
            .collect();
        candidates.sort_unstable();
        let found = candidates.iter().find_map(|(.., at)| {
            let fits = |object: &Node<'_>| offer(*object) == Some((wanted, name));
            let entry = &self.entries[*at];
            match &entry.source {
                Source::Object(node) => Some(*node).filter(fits),
                Source::Text(document, tree) => {
                    let tree = tree.get_or_init(|| self.parse(entry.file, document));
                    tree.roots().find(fits)
                }
            }
        });
        let mut missing = self.missing.borrow_mut();
        if found.is_none() && missing.len() < MISSING_LIMIT {
            missing.insert(Missing {
                path: self.files[from].path.clone(),
                wanted,
                name: name.to_owned(),
            });
        }
        found
    }

    fn index(&self) -> Index<'t> {
        let mut index = Index::default();
        for (at, entry) in self.entries.iter().enumerate() {
            let mut add = |name: &'t str| {
                let entries = index.by_name.entry(name).or_default();
                if entries.last() != Some(&at) {
                    entries.push(at);
                }
            };
            let readable = match &entry.source {
                Source::Object(node) => {
                    if let Some((_, name)) = offer(*node) {
                        add(name);
                    }
                    true
                }
                Source::Text(document, _) => names_in(document.text, &mut add),
            };
            if !readable {
                index.any.push(at);
            }
        }
        index
    }

    fn parse(&self, file: usize, document: &Document<'t>) -> Tree<'t> {
        Tree::parse(document.text, document.base, document.line).unwrap_or_else(|e| {
            self.errors
                .borrow_mut()
                .push(broken::error(&self.files[file], &e));
            Tree::default()
        })
    }
}

/// What an object can be asked for, and under which name.
fn offer<'a>(object: Node<'a>) -> Option<(Wanted, &'a str)> {
    let own = || object.word_at(&["metadata", "name"]);
    match object.word_at(&["kind"])? {
        "ConfigMap" => Some((Wanted::ConfigMap, own()?)),
        "ResourceClaimTemplate" | "ResourceClaim" => Some((Wanted::Claim, own()?)),
        "ComputeDomain" => {
            let channel = ["spec", "channel", "resourceClaimTemplate", "name"];
            Some((Wanted::Claim, object.word_at(&channel)?))
        }
        _ => None,
    }
}

/// All that a text offers, whatever is broken in it.
pub fn offers(text: &str) -> Vec<(Wanted, String)> {
    let mut out = Vec::new();
    for document in document::split(text).into_iter().take(DOCUMENT_LIMIT) {
        let listed = document.kind.is_none_or(|kind| kind.ends_with("List"));
        if !(listed || document.part() == Part::Companion) {
            continue;
        }
        let Ok(tree) = Tree::parse(document.text, 0, 1) else {
            continue;
        };
        for root in tree.roots() {
            let items = root.get("items").into_iter().flat_map(Node::items);
            let objects = std::iter::once(root).chain(items);
            out.extend(
                objects
                    .filter_map(offer)
                    .map(|(wanted, name)| (wanted, name.to_owned())),
            );
        }
    }
    out
}

/// The texts behind every `name:` of a document. False where one of them is written over several lines, with an anchor
/// or in another way that takes a parser.
fn names_in<'t>(text: &'t str, add: &mut impl FnMut(&'t str)) -> bool {
    let mut readable = true;
    for (at, _) in text.match_indices("name") {
        let rest = text[at + "name".len()..].trim_start_matches(['"', '\'']);
        let Some(rest) = rest.trim_start_matches(' ').strip_prefix(':') else {
            continue;
        };
        let value = rest.trim_start_matches([' ', '\t']);
        if value.starts_with(['\n', '\r', '#', '&', '*', '!', '|', '>', '%', '@'])
            || value.is_empty()
        {
            readable = false;
            continue;
        }
        let word = value.trim_start_matches(['"', '\'']);
        let end = word.find(['"', '\'', ' ', '\t', '\r', '\n', ',', '}', ']', '\\']);
        readable &= !word[end.unwrap_or(word.len())..].starts_with('\\');
        add(&word[..end.unwrap_or(word.len())]);
    }
    readable && !text.contains("? name")
}

/// Everything before the last `/`.
fn directory(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// Steps up and down from one directory to another.
fn distance(a: &str, b: &str) -> usize {
    let (mut a, mut b) = (a.split('/').peekable(), b.split('/').peekable());
    while a.peek().is_some() && a.peek() == b.peek() {
        a.next();
        b.next();
    }
    a.count() + b.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_a_parser() {
        let read = |text: &'static str| {
            let mut names = Vec::new();
            (names_in(text, &mut |name| names.push(name)), names)
        };
        assert_eq!(
            read("name: a\nx: {name: b, \"name\": \"c\"}\nname : d # e\nmyname: f"),
            (true, vec!["a", "b", "c", "d", "f"])
        );
        for text in [
            "name:\n  a",
            "name: &x a",
            "name: >-\n  a",
            "name: \"a\\x41\"",
            "? name\n: a",
        ] {
            assert!(!read(text).0, "{text}");
        }
    }

    #[test]
    fn what_a_text_offers() {
        let text = "kind: ConfigMap\nmetadata: {name: a}\n---\nkind: ConfigMap\nmetadata: [\n---\nkind: List\nitems:\n- {kind: \
                    ResourceClaim, metadata: {name: b}}\n---\nkind: ComputeDomain\nmetadata: {name: c}\nspec: {channel: \
                    {resourceClaimTemplate: {name: d}}}\n";
        let expected = [
            (Wanted::ConfigMap, "a"),
            (Wanted::Claim, "b"),
            (Wanted::Claim, "d"),
        ];
        assert_eq!(
            offers(text),
            expected.map(|(wanted, name)| (wanted, name.to_owned()))
        );
    }
}
