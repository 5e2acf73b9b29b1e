//! What a deployment refers to by name: ConfigMaps, claim templates, ComputeDomains. Parsed only when asked for.

use super::Missing;
use super::broken;
use super::document::Document;
use super::yaml::{Node, Tree};
use crate::report::InputError;
use crate::source::SourceFile;
use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// All companions of one run.
pub(super) struct Companions<'t> {
    files: &'t [Arc<SourceFile>],
    entries: Vec<Entry<'t>>,
    /// Entries by the directory of their file.
    by_directory: HashMap<&'t str, Vec<usize>>,
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

impl<'t> Companions<'t> {
    /// None yet.
    pub fn new(files: &'t [Arc<SourceFile>]) -> Self {
        Self {
            files,
            entries: Vec::new(),
            by_directory: HashMap::new(),
            errors: RefCell::default(),
            missing: RefCell::default(),
        }
    }

    /// An unparsed document.
    pub fn add_document(&mut self, file: usize, document: Document<'t>) {
        self.add(file, Source::Text(document, OnceCell::new()));
    }

    /// An object that was parsed as part of a list.
    pub fn add_object(&mut self, file: usize, node: Node<'t>) {
        self.add(file, Source::Object(node));
    }

    fn add(&mut self, file: usize, source: Source<'t>) {
        let home = directory(&self.files[file].path);
        self.by_directory
            .entry(home)
            .or_default()
            .push(self.entries.len());
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
        self.find(from, name, false, |object| {
            object.word_at(&["kind"]) == Some("ConfigMap")
                && object.word_at(&["metadata", "name"]) == Some(name)
        })
    }

    /// Device classes behind a claim or claim template of that name; a ComputeDomain counts as
    /// `ComputeDomain:<its name>`. None when nothing of that name is in the input. Looked for in the same file, in the
    /// same directory, then in the nearest one: recipes keep a ComputeDomain beside the model cache.
    pub fn device_classes(&self, from: usize, name: &str) -> Option<Vec<String>> {
        let object = self.find(from, name, true, |object| match object.word_at(&["kind"]) {
            Some("ComputeDomain") => {
                object.word_at(&["spec", "channel", "resourceClaimTemplate", "name"]) == Some(name)
            }
            Some("ResourceClaimTemplate" | "ResourceClaim") => {
                object.word_at(&["metadata", "name"]) == Some(name)
            }
            _ => false,
        })?;
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

    /// The same file first, then the same directory, then (if `far`) the nearest other one.
    fn find(
        &self,
        from: usize,
        name: &str,
        far: bool,
        fits: impl Fn(Node<'_>) -> bool,
    ) -> Option<Node<'_>> {
        let home = directory(&self.files[from].path);
        let near = self
            .by_directory
            .get(home)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let own = |at: &&usize| self.entries[**at].file == from;
        let look = |at: &usize| self.look(&self.entries[*at], name, &fits);
        let found = (near.iter().filter(own).find_map(look))
            .or_else(|| near.iter().filter(|at| !own(at)).find_map(look))
            .or_else(|| {
                let others = self.by_directory.iter().filter(|(d, _)| far && **d != home);
                let mut others: Vec<_> =
                    others.map(|(d, at)| (distance(home, d), *d, at)).collect();
                others.sort_unstable();
                others.iter().flat_map(|(.., at)| at.iter()).find_map(look)
            });
        if found.is_none() {
            self.missing.borrow_mut().insert(Missing {
                path: self.files[from].path.clone(),
                name: name.to_owned(),
            });
        }
        found
    }

    fn look<'s>(
        &'s self,
        entry: &'s Entry<'t>,
        name: &str,
        fits: impl Fn(Node<'_>) -> bool,
    ) -> Option<Node<'s>> {
        match &entry.source {
            Source::Object(node) => fits(*node).then_some(*node),
            Source::Text(document, _) if !document.text.contains(name) => None,
            Source::Text(document, tree) => {
                let tree = tree.get_or_init(|| self.parse(entry.file, document));
                tree.roots().find(|root| fits(*root))
            }
        }
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
