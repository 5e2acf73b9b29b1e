//! YAML text to a tree with positions. The only file that knows the YAML crate.
//!
//! The tree is an arena: an alias is a reference to the node it names, never a copy, so that no document becomes larger
//! than it is written. Readers walk by key, one level at a time.

use granit_parser::{Event, Parser, ScalarStyle};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;

/// More nodes than this in one document are refused; the largest published recipe has about 2 000.
pub const NODE_BUDGET: usize = 50_000;
/// Deeper nesting is refused; a pod template in a list of objects needs about 20 levels.
pub const DEPTH_LIMIT: usize = 64;
/// How many maps a look-up through `<<` may visit. Merge keys may be chained, and a chain of lists could be a bomb.
const MERGE_FUEL: u32 = 64;
/// Above this many keys a map is searched by halves.
const SEARCHED: usize = 64;
/// Up to this many keys are compared pairwise for duplicates; above, by hash.
const PAIRWISE: usize = 12;

/// Why a text is no YAML, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct YamlError {
    /// Byte in the whole file.
    pub offset: usize,
    /// Line in the whole file, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for YamlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {} column {}: {}",
            self.line, self.column, self.what
        )
    }
}

/// How a scalar is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Without quotes: `1` is a number, `~` is null.
    Plain,
    /// In quotes or as a block: always text.
    Text,
}

#[derive(Debug)]
struct Raw<'t> {
    start: u32,
    end: u32,
    line: u32,
    /// What it holds when every alias is written out: nodes, and 16 bytes of text each count one.
    weight: u32,
    body: Body<'t>,
}

#[derive(Debug)]
enum Body<'t> {
    Scalar(Cow<'t, str>, Style),
    /// First child and count, in [`Tree::children`].
    List(u32, u32),
    /// First child and count of children: keys and values in turn.
    Map(u32, u32),
    Alias(u32),
}

/// One or more documents as a tree. Byte offsets and lines are those of the file the text was cut from.
#[derive(Debug, Default)]
pub struct Tree<'t> {
    text: &'t str,
    base: usize,
    nodes: Vec<Raw<'t>>,
    children: Vec<u32>,
    roots: Vec<u32>,
    /// Of large maps: the children that are keys, in the order of their text.
    sorted: HashMap<u32, Vec<u32>>,
}

impl<'t> Tree<'t> {
    /// Reads `text`, which begins at byte `base` and line `line` (from 1) of its file.
    pub fn parse(text: &'t str, base: usize, line: u32) -> Result<Self, YamlError> {
        let mut builder = Builder {
            text,
            base,
            line,
            tree: Tree {
                text,
                base,
                ..Tree::default()
            },
            open: Vec::new(),
            pending: Vec::new(),
            anchors: HashMap::new(),
        };
        // A rough size of the arena saves most of its growth.
        builder
            .tree
            .nodes
            .reserve((text.len() / 16).min(NODE_BUDGET));
        let mut parser = parser(text);
        while let Some(next) = parser.next_event() {
            match next {
                Ok((event, span)) => {
                    let start = span.start.byte_offset().unwrap_or(text.len());
                    let end = span.end.byte_offset().unwrap_or(start);
                    builder.take(event, start, end, span.start.line())?;
                }
                Err(e) => {
                    let at = e.marker().byte_offset().unwrap_or(text.len());
                    return Err(builder.error(at, e.info()));
                }
            }
        }
        Ok(builder.tree)
    }

    /// Is `text` YAML at all? Costs half of a tree, and does not see keys that stand twice.
    pub fn check(text: &'t str, base: usize, line: u32) -> Result<(), YamlError> {
        let error = match parser(text).find_map(Result::err) {
            None => return Ok(()),
            Some(error) => error,
        };
        let at = error.marker().byte_offset().unwrap_or(text.len());
        Err(locate(text, base, line, at, error.info().to_owned()))
    }

    /// How much is written, aliases as such.
    pub fn written(&self) -> usize {
        self.nodes.len() + self.text.len() / 16
    }

    /// The roots of the documents that are not empty.
    pub fn roots(&self) -> impl Iterator<Item = Node<'_>> {
        self.roots.iter().map(|&id| Node { tree: self, id })
    }
}

fn parser(text: &str) -> Parser<'_, granit_parser::StrInput<'_>> {
    let options = granit_parser::options! {
        flow_nesting_limit: DEPTH_LIMIT,
        block_nesting_limit: DEPTH_LIMIT,
    };
    Parser::new_from_str_with_options(text, options)
}

struct Builder<'t> {
    text: &'t str,
    base: usize,
    line: u32,
    tree: Tree<'t>,
    /// Open collections: id of the node and where its children begin in `pending`.
    open: Vec<(u32, usize, usize)>,
    /// Children of all open collections, innermost last.
    pending: Vec<u32>,
    /// Anchor number to node, once the node is complete.
    anchors: HashMap<usize, u32>,
}

impl<'t> Builder<'t> {
    fn take(
        &mut self,
        event: Event<'t>,
        start: usize,
        end: usize,
        line: usize,
    ) -> Result<(), YamlError> {
        match event {
            Event::Scalar(text, style, anchor, _) => {
                let style = match style {
                    ScalarStyle::Plain => Style::Plain,
                    _ => Style::Text,
                };
                let id = self.add(start, end, line, Body::Scalar(text, style))?;
                self.done(id, anchor);
            }
            Event::SequenceStart(_, anchor, _) => {
                let id = self.add(start, end, line, Body::List(0, 0))?;
                self.enter(id, anchor, start)?;
            }
            Event::MappingStart(_, anchor, _) => {
                let id = self.add(start, end, line, Body::Map(0, 0))?;
                self.enter(id, anchor, start)?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.leave(end)?,
            Event::Alias(anchor) => {
                let Some(&target) = self.anchors.get(&anchor) else {
                    return Err(
                        self.error(start, "an alias stands inside the node it names".into())
                    );
                };
                let id = self.add(start, end, line, Body::Alias(target))?;
                self.done(id, 0);
            }
            _ => {}
        }
        Ok(())
    }

    fn add(
        &mut self,
        start: usize,
        end: usize,
        line: usize,
        body: Body<'t>,
    ) -> Result<u32, YamlError> {
        if self.tree.nodes.len() >= NODE_BUDGET {
            let what = format!("the document has more than {NODE_BUDGET} nodes; split it");
            return Err(self.error(start, what));
        }
        let offset = |n: usize| u32::try_from(self.base + n).unwrap_or(u32::MAX);
        let line = self
            .line
            .saturating_add(u32::try_from(line.saturating_sub(1)).unwrap_or(u32::MAX));
        let id = u32::try_from(self.tree.nodes.len()).unwrap_or(u32::MAX);
        let weight = match &body {
            Body::Scalar(text, _) => u32::try_from(1 + text.len() / 16).unwrap_or(u32::MAX),
            Body::Alias(target) => self.tree.nodes[*target as usize].weight,
            Body::List(..) | Body::Map(..) => 1,
        };
        self.tree.nodes.push(Raw {
            start: offset(start),
            end: offset(end),
            line,
            weight,
            body,
        });
        Ok(id)
    }

    fn enter(&mut self, id: u32, anchor: usize, start: usize) -> Result<(), YamlError> {
        if self.open.len() >= DEPTH_LIMIT {
            return Err(self.error(start, format!("nested deeper than {DEPTH_LIMIT} levels")));
        }
        self.open.push((id, self.pending.len(), anchor));
        Ok(())
    }

    fn leave(&mut self, end: usize) -> Result<(), YamlError> {
        let Some((id, from, anchor)) = self.open.pop() else {
            return Ok(());
        };
        let first = u32::try_from(self.tree.children.len()).unwrap_or(u32::MAX);
        let count = u32::try_from(self.pending.len() - from).unwrap_or(u32::MAX);
        let nodes = &self.tree.nodes;
        let weight = (self.pending[from..].iter()).fold(1u32, |sum, id| {
            sum.saturating_add(nodes[*id as usize].weight)
        });
        self.tree.children.extend(self.pending.drain(from..));
        let end = u32::try_from(self.base + end).unwrap_or(u32::MAX);
        let raw = &mut self.tree.nodes[id as usize];
        raw.end = raw.end.max(end);
        raw.weight = weight;
        match &mut raw.body {
            Body::Map(at, n) => {
                (*at, *n) = (first, count);
                self.refuse_duplicates(id)?;
                if count as usize > 2 * SEARCHED {
                    self.sort(id, first, count);
                }
            }
            Body::List(at, n) => (*at, *n) = (first, count),
            _ => {}
        }
        self.done(id, anchor);
        Ok(())
    }

    fn done(&mut self, id: u32, anchor: usize) {
        if anchor != 0 {
            self.anchors.insert(anchor, id);
        }
        if self.open.is_empty() {
            self.tree.roots.push(id);
        } else {
            self.pending.push(id);
        }
    }

    fn sort(&mut self, id: u32, first: u32, count: u32) {
        let tree = &self.tree;
        let mut keys: Vec<u32> = (first..first + count).step_by(2).collect();
        keys.sort_unstable_by_key(|at| {
            let id = tree.children[*at as usize];
            Node { tree, id }.text()
        });
        self.tree.sorted.insert(id, keys);
    }

    /// kubectl refuses a key that stands twice; so does this, because nobody can say which one was meant.
    fn refuse_duplicates(&self, id: u32) -> Result<(), YamlError> {
        let map = Node {
            tree: &self.tree,
            id,
        };
        let keys = || map.pairs().map(|(k, _)| k);
        let count = map.pairs().count();
        let mut seen = HashSet::new();
        for (n, key) in keys().enumerate() {
            let Some(text) = key.text() else {
                let at = key.start() - self.base;
                return Err(self.error(at, "a map or list stands where a key is expected".into()));
            };
            let twice = if count > PAIRWISE {
                !seen.insert(text)
            } else {
                keys().take(n).any(|k| k.text() == Some(text))
            };
            if twice && text != "<<" {
                // A key may be a misplaced value, so it is not quoted: the position says which one.
                let at = key.start() - self.base;
                return Err(self.error(at, "this key stands twice in one map; remove one".into()));
            }
        }
        Ok(())
    }

    #[cold]
    fn error(&self, at: usize, what: String) -> YamlError {
        locate(self.text, self.base, self.line, at, what)
    }
}

/// An error at byte `at` of a text that begins at byte `base` and line `first` of its file.
#[cold]
fn locate(text: &str, base: usize, first: u32, at: usize, what: String) -> YamlError {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let before = &text[..at];
    let line = before.bytes().filter(|&b| b == b'\n').count();
    let column = before
        .rsplit('\n')
        .next()
        .unwrap_or_default()
        .chars()
        .count()
        + 1;
    YamlError {
        offset: base + at,
        line: first.saturating_add(u32::try_from(line).unwrap_or(u32::MAX)),
        column: u32::try_from(column).unwrap_or(u32::MAX),
        what,
    }
}

/// One key, value or item.
#[derive(Clone, Copy)]
pub struct Node<'a> {
    tree: &'a Tree<'a>,
    id: u32,
}

impl fmt::Debug for Node<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({:?} at line {})", self.raw().body, self.line())
    }
}

impl<'a> Node<'a> {
    fn raw(self) -> &'a Raw<'a> {
        &self.tree.nodes[self.id as usize]
    }

    /// What the node is, through an alias if it is one. Aliases name only complete nodes, so one step is enough unless
    /// the anchored node is an alias itself, which YAML forbids.
    fn body(self) -> &'a Body<'a> {
        match &self.raw().body {
            Body::Alias(id) => &self.tree.nodes[*id as usize].body,
            other => other,
        }
    }

    /// The keys of a large map in order.
    fn sorted(self) -> Option<&'a Vec<u32>> {
        if self.tree.sorted.is_empty() {
            return None;
        }
        let id = match self.raw().body {
            Body::Alias(target) => target,
            _ => self.id,
        };
        self.tree.sorted.get(&id)
    }

    fn child(self, at: u32) -> Self {
        Self {
            tree: self.tree,
            id: self.tree.children[at as usize],
        }
    }

    /// How much there is to read in it, aliases written out.
    pub fn weight(self) -> u32 {
        self.raw().weight
    }

    /// First byte in the file. Of an alias: of the alias.
    pub fn start(self) -> usize {
        self.raw().start as usize
    }

    /// One past the last byte in the file.
    pub fn end(self) -> usize {
        self.raw().end as usize
    }

    /// Line in the file, from 1.
    pub fn line(self) -> u32 {
        self.raw().line
    }

    /// The source from the beginning of this node to the end of `other`.
    pub fn written_to(self, other: Self) -> &'a str {
        let base = self.tree.base;
        let range = self.start().saturating_sub(base)..other.end().saturating_sub(base);
        self.tree.text.get(range).unwrap_or_default()
    }

    /// The source between the end of this node and the beginning of `other`.
    pub fn gap_to(self, other: Self) -> Option<&'a str> {
        let base = self.tree.base;
        let range = self.end().checked_sub(base)?..other.start().checked_sub(base)?;
        self.tree.text.get(range)
    }

    /// The source of a scalar holds its content and nothing else: no anchor, tag, alias or comment.
    pub fn holds_only_content(self) -> bool {
        let (source, Some(text)) = (self.written_to(self), self.text()) else {
            return false;
        };
        let quoted = source.len() > 1
            && source.starts_with(['"', '\''])
            && source.as_bytes().first() == source.as_bytes().last();
        quoted || source.split_whitespace().eq(text.split_whitespace())
    }

    /// The scalar's text: escapes resolved, nothing interpreted. None for maps and lists.
    pub fn text(self) -> Option<&'a str> {
        match self.body() {
            Body::Scalar(text, _) => Some(text),
            _ => None,
        }
    }

    /// Is it a plain `null`, `~` or nothing at all?
    pub fn is_null(self) -> bool {
        matches!(self.body(), Body::Scalar(text, Style::Plain) if matches!(text.as_ref(), "" | "~" | "null" | "Null" | "NULL"))
    }

    /// The scalar's text where something is written: neither null nor a map or list.
    pub fn word(self) -> Option<&'a str> {
        if self.is_null() { None } else { self.text() }
    }

    /// A plain boolean, with the words of YAML 1.1 that Kubernetes still takes.
    pub fn is_true(self) -> bool {
        matches!(self.body(), Body::Scalar(t, Style::Plain) if matches!(t.as_ref(), "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON"))
    }

    /// A plain number or boolean, where Kubernetes wants a text.
    pub fn is_no_text(self) -> bool {
        const BOOLEANS: [&str; 6] = ["true", "false", "yes", "no", "on", "off"];
        let Body::Scalar(text, Style::Plain) = self.body() else {
            return false;
        };
        // Rust also reads `inf` and `nan` as numbers, which YAML writes with a dot in front.
        let number =
            text.ends_with(|c: char| c.is_ascii_digit() || c == '.') && text.parse::<f64>().is_ok();
        number || BOOLEANS.iter().any(|word| word.eq_ignore_ascii_case(text))
    }

    /// A whole number that is not negative, written plain or in quotes.
    pub fn count(self) -> Option<u64> {
        self.word()?.trim().parse().ok()
    }

    /// Is it a map?
    pub fn is_map(self) -> bool {
        matches!(self.body(), Body::Map(..))
    }

    /// Items of a list; nothing for anything else.
    pub fn items(self) -> impl Iterator<Item = Node<'a>> {
        let (at, n) = match self.body() {
            Body::List(at, n) => (*at, *n),
            _ => (0, 0),
        };
        (at..at + n).map(move |i| self.child(i))
    }

    /// Keys and values as written, merge keys included as such.
    pub fn pairs(self) -> impl Iterator<Item = (Node<'a>, Node<'a>)> {
        let (at, n) = match self.body() {
            Body::Map(at, n) => (*at, *n),
            _ => (0, 0),
        };
        (at..at + n)
            .step_by(2)
            .map(move |i| (self.child(i), self.child(i + 1)))
    }

    /// Keys and values of a map with `<<` resolved; what the map says itself wins.
    pub fn entries(self) -> Vec<(Node<'a>, Node<'a>)> {
        let mut out: Vec<(Node<'a>, Node<'a>)> =
            self.pairs().filter(|(k, _)| !k.is_merge()).collect();
        if out.len() != self.pairs().count() {
            let mut seen: HashSet<&str> = out.iter().filter_map(|(k, _)| k.text()).collect();
            let mut fuel = MERGE_FUEL;
            self.merged(&mut fuel, &mut |map| {
                for (k, v) in map.pairs().filter(|(k, _)| !k.is_merge()) {
                    if k.text().is_some_and(|t| seen.insert(t)) {
                        out.push((k, v));
                    }
                }
                false
            });
        }
        out
    }

    /// The value under a key.
    pub fn get(self, key: &str) -> Option<Node<'a>> {
        self.pair(key).map(|(_, value)| value)
    }

    /// Key and value under a key.
    pub fn pair(self, key: &str) -> Option<(Node<'a>, Node<'a>)> {
        if let Some(sorted) = self.sorted() {
            let text = |at: &u32| self.child(*at).text().unwrap_or_default();
            let at = sorted.binary_search_by_key(&key, text).ok();
            if let Some(at) = at.map(|n| sorted[n]) {
                return Some((self.child(at), self.child(at + 1)));
            }
            sorted.binary_search_by_key(&"<<", text).ok()?;
        }
        let own = |map: Node<'a>| map.pairs().find(|(k, _)| k.text() == Some(key));
        let mut has_merge = false;
        for (k, v) in self.pairs() {
            if k.text() == Some(key) {
                return Some((k, v));
            }
            has_merge |= k.is_merge();
        }
        let mut found = None;
        if has_merge {
            let mut fuel = MERGE_FUEL;
            self.merged(&mut fuel, &mut |map| {
                found = own(map);
                found.is_some()
            });
        }
        found
    }

    /// The value at the end of a path of keys.
    pub fn at(self, path: &[&str]) -> Option<Node<'a>> {
        path.iter().try_fold(self, |node, key| node.get(key))
    }

    /// The text at the end of a path of keys, if something is written there.
    pub fn word_at(self, path: &[&str]) -> Option<&'a str> {
        self.at(path)?.word()
    }

    /// `<<` written plain; in quotes it is an ordinary key.
    fn is_merge(self) -> bool {
        matches!(self.body(), Body::Scalar(t, Style::Plain) if t == "<<")
    }

    /// Visits the maps behind `<<`, nearest first, until `visit` says stop or the fuel is spent.
    fn merged(self, fuel: &mut u32, visit: &mut dyn FnMut(Node<'a>) -> bool) -> bool {
        for (_, value) in self.pairs().filter(|(k, _)| k.is_merge()) {
            let single = value.is_map().then_some(value);
            for map in single.into_iter().chain(value.items()) {
                if *fuel == 0 {
                    return true;
                }
                *fuel -= 1;
                if visit(map) || map.merged(fuel, visit) {
                    return true;
                }
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn span<'t>(text: &'t str, node: Node<'_>) -> &'t str {
        &text[node.start()..node.end()]
    }

    #[test]
    fn spans_cover_what_is_written() {
        let text = "a: plain # c\nb: \"q\\n\"\nc: |\n  x\n  y\nd: {k: 'v', l: [1]}\n";
        let tree = Tree::parse(text, 0, 1).unwrap();
        let root = tree.roots().next().unwrap();
        assert_eq!(span(text, root.get("a").unwrap()), "plain");
        assert_eq!(span(text, root.get("b").unwrap()), "\"q\\n\"");
        // Of a block scalar: its lines, without the indicator.
        assert_eq!(span(text, root.get("c").unwrap()), "x\n  y\n");
        assert_eq!(span(text, root.at(&["d", "k"]).unwrap()), "'v'");
        assert_eq!(root.get("d").unwrap().line(), 6);
    }

    #[test]
    fn merge_keys_and_aliases() {
        let text = "x: &x {a: 1, b: 2}\ny: {<<: *x, b: 3}\nz: *x\n";
        let tree = Tree::parse(text, 0, 1).unwrap();
        let root = tree.roots().next().unwrap();
        assert_eq!(root.word_at(&["y", "a"]), Some("1"));
        assert_eq!(root.word_at(&["y", "b"]), Some("3"));
        assert_eq!(root.word_at(&["z", "b"]), Some("2"));
        let names: Vec<_> = root
            .get("y")
            .unwrap()
            .entries()
            .iter()
            .map(|(k, _)| k.text().unwrap())
            .collect();
        assert_eq!(names, ["b", "a"]);
    }

    #[test]
    fn large_maps_are_searched_by_halves() {
        let keys: String = (0..200).map(|n| format!("  k{n}: v{n}\n")).collect();
        let text = format!("b: &b\n{keys}c: *b\nd:\n{keys}  <<: {{x: y}}\n");
        let tree = Tree::parse(&text, 0, 1).unwrap();
        let root = tree.roots().next().unwrap();
        for path in [["b", "k17"], ["c", "k17"], ["d", "k17"]] {
            assert_eq!(root.word_at(&path), Some("v17"));
        }
        assert_eq!(root.word_at(&["d", "x"]), Some("y"));
        assert_eq!(root.word_at(&["b", "x"]), None);
    }

    #[test]
    fn duplicates_are_refused_with_a_position() {
        let e = Tree::parse("a: 1\nb:\n  c: 1\n  c: 2\n", 100, 11).unwrap_err();
        assert_eq!((e.line, e.column, e.offset), (14, 3, 117));
        assert!(e.what.starts_with("this key stands twice"), "{}", e.what);
    }

    #[test]
    fn bombs_stay_small() {
        let mut text = String::from("a0: &a0 [x]\n");
        for n in 1..40 {
            let line = format!(
                "a{n}: &a{n} [{}]\n",
                vec![format!("*a{}", n - 1); 10].join(", ")
            );
            text.push_str(&line);
        }
        let tree = Tree::parse(&text, 0, 1).unwrap();
        assert_eq!(tree.roots().next().unwrap().weight(), u32::MAX);
        let mut merge = String::from("m0: &m0 {x: 1}\n");
        for n in 1..30 {
            merge.push_str(&format!(
                "m{n}: &m{n} {{<<: [{}]}}\n",
                vec![format!("*m{}", n - 1); 9].join(", ")
            ));
        }
        let tree = Tree::parse(&merge, 0, 1).unwrap();
        let root = tree.roots().next().unwrap();
        assert!(root.at(&["m29", "nowhere"]).is_none());
        assert!(Tree::parse("&a [*a]", 0, 1).is_err());
        assert!(Tree::parse(&"[".repeat(10_000), 0, 1).is_err());
        assert!(Tree::parse(&"- a\n".repeat(60_000), 0, 1).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,200}|[-a:{}\\[\\]&*<|>\"' \n\t#%!?]{0,80}") {
            let _ = Tree::parse(&text, 7, 3);
        }
    }
}
