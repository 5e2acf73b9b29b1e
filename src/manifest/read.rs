//! Texts to an [`Inventory`]: split, recognise, parse what matters, build workloads.

use super::Inventory;
use super::broken;
use super::budget::{Budget, COMPONENT_LIMIT};
use super::companion::Companions;
use super::document::{self, DOCUMENT_LIMIT, Document, Part};
use super::dynamo::{self, Graph};
use super::launch::Module;
use super::place::Range;
use super::pod::{NAME_CAP, Pod};
use super::podset;
use super::roles;
use super::worker::{self, Built, Scope};
use super::workload::{Role, Worker, Workload};
use super::yaml::{Node, Tree};
use crate::report::{InputError, Note};
use crate::sanitise;
use crate::source::SourceFile;
use std::sync::Arc;

/// Lists in lists are followed this far.
const LIST_DEPTH: usize = 3;
/// More objects than this in one document are not read.
const OBJECT_LIMIT: usize = 2_000;
/// What the count of documents says where there is no kind.
const NO_KIND: &str = "(no kind)";

/// One text to read.
#[derive(Debug, Clone)]
pub struct Text {
    /// The text, without a byte-order mark, and its path as shown.
    pub source: Arc<SourceFile>,
    /// The user named this very file: what cannot be read in it is an error, not a note.
    pub named: bool,
    /// Only what other texts refer to is wanted: ConfigMaps, claim templates, ComputeDomains.
    pub companion: bool,
}

struct Reader {
    inventory: Inventory,
    files: Vec<Arc<SourceFile>>,
    named: Vec<bool>,
    companion: Vec<bool>,
}

/// Reads texts into an inventory. `files` and `documents` count the texts that are no companions.
pub fn read(texts: &[Text]) -> Inventory {
    let files: Vec<_> = texts.iter().map(|t| Arc::clone(&t.source)).collect();
    let mut reader = Reader {
        inventory: Inventory {
            files: texts.iter().filter(|t| !t.companion).count(),
            ..Inventory::default()
        },
        files: files.clone(),
        named: texts.iter().map(|t| t.named).collect(),
        companion: texts.iter().map(|t| t.companion).collect(),
    };
    let parsed = reader.parse(&files);
    reader.build(&files, parsed);
    reader.inventory
}

/// A file's documents, parsed as far as they matter.
struct Parsed<'t> {
    file: usize,
    subjects: Vec<Tree<'t>>,
    companions: Vec<Document<'t>>,
}

impl Reader {
    fn parse<'t>(&mut self, files: &'t [Arc<SourceFile>]) -> Vec<Parsed<'t>> {
        let mut out = Vec::with_capacity(files.len());
        for (file, source) in files.iter().enumerate() {
            let mut parsed = Parsed {
                file,
                subjects: Vec::new(),
                companions: Vec::new(),
            };
            let mut documents = document::split(&source.text);
            if documents.len() > DOCUMENT_LIMIT {
                documents.truncate(DOCUMENT_LIMIT);
                self.error(&source.path, format!("more than {DOCUMENT_LIMIT} documents; the first {DOCUMENT_LIMIT} were read: split the file"));
            }
            let mut helm = false;
            for document in documents {
                let counted = !self.companion[file];
                if counted && let Some(kind) = document.kind {
                    self.count(kind);
                }
                let part = document.part();
                // What the user named has to be valid throughout, whatever of it matters here; of what is met on the way,
                // what a deployment may refer to and what may be one.
                let looked_at = self.named[file] || part == Part::Companion || document.is_pod();
                if counted && looked_at && part != Part::Subject {
                    match Tree::check(document.text, document.base, document.line) {
                        Err(_) if broken::is_helm(document.text) => helm = true,
                        Err(e) => {
                            let InputError { object, message } = broken::error(source, &e);
                            self.complain(file, object, message);
                        }
                        Ok(()) => {}
                    }
                }
                match part {
                    Part::Other => {
                        helm |= broken::is_helm(document.text) && !quoted_helm(document.text)
                    }
                    Part::Companion => parsed.companions.push(document),
                    Part::Subject
                        if !counted && document.kind.is_some_and(|k| !k.ends_with("List")) => {}
                    Part::Subject => match Tree::parse(document.text, document.base, document.line)
                    {
                        Ok(tree) => parsed.subjects.push(tree),
                        Err(_) if broken::is_helm(document.text) => helm = true,
                        Err(e) => self.inventory.errors.push(broken::error(source, &e)),
                    },
                }
            }
            if helm {
                self.remark(file, broken::HELM);
            }
            out.push(parsed);
        }
        out
    }

    /// A remark on a whole file.
    fn remark(&mut self, file: usize, message: &str) {
        let object = self.files[file].path.clone();
        self.complain(file, object, message.to_owned());
    }

    /// An error where the user named the file, a note where it was met on the way.
    fn complain(&mut self, file: usize, object: String, message: String) {
        if self.named[file] {
            self.error(&object, message);
        } else {
            self.note(object, message);
        }
    }

    fn count(&mut self, kind: &str) {
        let kind = sanitise::line(kind, 100);
        *self.inventory.documents.entry(kind).or_default() += 1;
    }

    fn error(&mut self, object: &str, message: String) {
        self.inventory.errors.push(InputError {
            object: object.to_owned(),
            message,
        });
    }

    fn note(&mut self, object: String, message: String) {
        self.inventory.notes.push(Note { object, message });
    }

    fn build(&mut self, files: &[Arc<SourceFile>], parsed: Vec<Parsed<'_>>) {
        let trees = parsed.iter().flat_map(|part| &part.subjects);
        let budget = Budget::for_written(trees.map(Tree::written).sum());
        let mut companions = Companions::new(files);
        let mut objects = Vec::new();
        for part in &parsed {
            for document in &part.companions {
                companions.add_document(part.file, *document);
            }
            for root in part.subjects.iter().flat_map(Tree::roots) {
                let before = objects.len();
                self.collect(root, part.file, 0, before, &mut objects);
            }
        }
        for (file, object) in &objects {
            if matches!(
                kind_of(*object),
                "ConfigMap" | "ResourceClaimTemplate" | "ResourceClaim" | "ComputeDomain"
            ) {
                companions.add_object(*file, *object);
            }
        }
        for (file, object) in &objects {
            if !self.companion[*file] {
                let scope = Scope {
                    file: &files[*file],
                    home: *file,
                    companions: &companions,
                    budget: &budget,
                };
                self.workload(*object, scope);
            }
        }
        let (errors, missing) = companions.into_outcome();
        for error in errors {
            if !self.inventory.errors.contains(&error) {
                self.inventory.errors.push(error);
            }
        }
        self.inventory.missing = missing;
    }

    /// The object, or the objects of a list. Kinds that no cheap look could see are counted here.
    fn collect<'a>(
        &mut self,
        object: Node<'a>,
        file: usize,
        depth: usize,
        before: usize,
        out: &mut Vec<(usize, Node<'a>)>,
    ) {
        if out.len() - before >= OBJECT_LIMIT {
            return;
        }
        let kind = kind_of(object);
        let counted = depth == 0 && seen_by_split(&self.files[file].text, object);
        if !counted && !self.companion[file] {
            self.count(kind);
        }
        if kind.ends_with("List") && depth < LIST_DEPTH {
            for item in object.get("items").into_iter().flat_map(Node::items) {
                self.collect(item, file, depth + 1, before, out);
            }
        } else {
            out.push((file, object));
        }
    }

    fn workload(&mut self, object: Node<'_>, scope: Scope<'_, '_>) {
        let kind = kind_of(object);
        let place = || format!("{}:{}", scope.file.path, object.line());
        let dynamo = matches!(kind, "DynamoGraphDeployment" | "DynamoComponentDeployment");
        let pods = match kind {
            "DynamoGraphDeployment" => dynamo::graph(object),
            "DynamoComponentDeployment" => dynamo::component(object),
            _ => Graph::Components(podset::templates(object, kind)),
        };
        let pods = match pods {
            Graph::Components(pods) => pods,
            Graph::Fragment => {
                return self.note(place(), format!("{kind} without a type and a command in any component: a kustomize patch, not judged; name the overlay directory to have it rendered"));
            }
            Graph::Empty => {
                return self.note(
                    place(),
                    format!("{kind} without services or components, not judged"),
                );
            }
        };
        if !pods.is_empty() && !scope.budget.object(object.weight()) {
            let message = format!(
                "{kind} grows beyond all bounds through aliases, or too much was read before it; not read"
            );
            return self.error(&place(), message);
        }
        if pods.len() > COMPONENT_LIMIT {
            let message = format!(
                "{kind} with more than {COMPONENT_LIMIT} components; the first {COMPONENT_LIMIT} were read"
            );
            self.error(&place(), message);
        }
        let framework = object.word_at(&["spec", "backendFramework"]);
        let mut built = Vec::new();
        for pod in pods.iter().take(COMPONENT_LIMIT) {
            if is_helper(pod) {
                continue;
            }
            let one = worker::build(pod, framework, scope);
            for remark in &one.remarks {
                self.note(place(), remark.clone());
            }
            // A type that the operator gives; other pods are workers by what they run.
            if is_worker(pod, &one, dynamo || pod.kind.is_some()) {
                built.push(one);
            }
        }
        if built.is_empty() {
            if dynamo {
                self.note(place(), format!("{kind} without a GPU worker, not judged"));
            }
            return;
        }
        let workload = assemble(object, kind, framework, built, scope);
        // Of pods as they run, the checks of a deployment say which side is not there.
        if workload.disaggregated && !roles::is_disaggregated(&workload.workers) && kind != "Pods" {
            self.note(place(), alone(&workload));
        }
        self.inventory.workloads.push(workload);
    }
}

/// What is said of one side of disaggregated serving whose peer is another object.
fn alone(workload: &Workload) -> String {
    let mut sides: Vec<&str> = Vec::new();
    for worker in &workload.workers {
        let side = match worker.role {
            Role::Either => "it does not say which: kv_both",
            role => role.word(),
        };
        if !sides.contains(&side) {
            sides.push(side);
        }
    }
    format!(
        "{} {} is one side of disaggregated serving ({}), and its peer is not in this object: it was judged by itself, and prefill \
         was not held against decode",
        workload.kind,
        workload.name,
        sides.join(", ")
    )
}

fn kind_of<'a>(object: Node<'a>) -> &'a str {
    object.word_at(&["kind"]).unwrap_or(NO_KIND)
}

/// Was the kind of a whole document counted when the file was split? That look sees only `kind:` at column 0.
fn seen_by_split(text: &str, object: Node<'_>) -> bool {
    object.pair("kind").is_some_and(|(key, _)| {
        text.get(..key.start())
            .is_some_and(|t| t.is_empty() || t.ends_with('\n'))
            && text[key.start()..].starts_with("kind:")
    })
}

/// `{{` that stands only inside a script or a comment of a document that is no template.
fn quoted_helm(text: &str) -> bool {
    !text
        .lines()
        .any(|line| line.starts_with("{{") || line.contains(": {{"))
}

/// Frontend, planner, endpoint picker: never a worker, whatever they ask for.
fn is_helper(pod: &Pod<'_>) -> bool {
    let kind = pod.kind.or(pod.component_kind).unwrap_or_default();
    matches!(
        kind.to_ascii_lowercase().as_str(),
        "frontend" | "planner" | "epp" | "router" | "processor"
    )
}

fn is_worker(pod: &Pod<'_>, built: &Built, dynamo: bool) -> bool {
    let kind = pod.kind.or(pod.component_kind).unwrap_or_default();
    let typed = dynamo && matches!(kind, "worker" | "prefill" | "decode" | "encode")
        || pod.sub_kind.is_some();
    match built.module {
        Some(Module::Engine(_) | Module::Mocker) => true,
        Some(Module::Other) => typed && kind != "worker",
        None => {
            typed
                || built.worker.gpus.is_some()
                || !built.worker.reach.is_empty()
                || has_transport_env(&built.worker, dynamo)
        }
    }
}

/// Outside Dynamo a pod that sets transport variables is worth judging.
fn has_transport_env(worker: &Worker, dynamo: bool) -> bool {
    !dynamo
        && ["UCX_", "NIXL_", "NCCL_", "FI_"]
            .iter()
            .any(|p| worker.env.keys().any(|k| k.starts_with(p)))
}

fn assemble(
    object: Node<'_>,
    kind: &str,
    framework: Option<&str>,
    built: Vec<Built>,
    scope: Scope<'_, '_>,
) -> Workload {
    let line = |text: &str| sanitise::line(text, NAME_CAP);
    let mocker = built.iter().any(|b| b.module == Some(Module::Mocker));
    let hands_on = built.iter().any(|b| b.hands_on);
    let colocates_roles = built.iter().any(|b| b.pulls_together);
    let separates_roles = built
        .iter()
        .any(|b| b.pushes_apart && b.worker.role != Role::Agg);
    let sides: Vec<bool> = built.iter().map(|b| b.hands_on).collect();
    let mut workers: Vec<Worker> = built.into_iter().map(|b| b.worker).collect();
    roles::by_names(&mut workers);
    let single = kind != "DynamoGraphDeployment";
    if single && !mocker && !roles::is_disaggregated(&workers) {
        for (worker, _) in workers.iter_mut().zip(sides).filter(|(_, side)| *side) {
            if worker.role_source == "default" {
                (worker.role, worker.role_source) = (Role::Either, "connector");
            }
        }
    }
    // Pods as they run may be one end only: the other has no pod now, or was not selected.
    let one_end = kind == "Pods" && workers.iter().any(|w| w.role != Role::Agg);
    let disaggregated =
        !mocker && (roles::is_disaggregated(&workers) || one_end || single && hands_on);
    // The first line of the object; its text is shown only where it is the one that begins every manifest.
    let range = match object.pairs().next() {
        Some((k, v)) if matches!(k.text(), Some("apiVersion" | "kind")) => Range::pair(k, v),
        Some((k, _)) => Range::before(k),
        None => Range::before(object),
    };
    Workload {
        source: range.spot(scope.file),
        api_version: line(object.word_at(&["apiVersion"]).unwrap_or_default()),
        kind: line(kind),
        name: line(object.word_at(&["metadata", "name"]).unwrap_or("(unnamed)")),
        namespace: object.word_at(&["metadata", "namespace"]).map(line),
        framework: framework.map(line),
        disaggregated,
        multinode: workers.iter().any(|w| w.nodes > 1),
        mocker,
        workers,
        colocates_roles,
        separates_roles,
    }
}
