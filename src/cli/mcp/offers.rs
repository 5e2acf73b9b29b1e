//! What the server offers: its tools, their arguments, and the command line that each call becomes.

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};
use std::sync::Arc;

/// How one argument of a tool becomes arguments of the command line.
pub(super) enum Form {
    /// `--NAME=VALUE`.
    Option(&'static str),
    /// `--NAME=VALUE` for each of a list.
    Each(&'static str),
    /// `--NAME` where it is true.
    Switch(&'static str),
    /// A value that stands alone, behind `--`.
    Alone,
    /// Values that stand alone, behind `--`.
    AllAlone,
}

/// One argument of a tool.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) form: Form,
    pub(super) required: bool,
    pub(super) about: &'static str,
}

pub(super) const fn field(name: &'static str, form: Form, about: &'static str) -> Field {
    Field {
        name,
        form,
        required: false,
        about,
    }
}

pub(super) const fn needed(name: &'static str, form: Form, about: &'static str) -> Field {
    Field {
        required: true,
        ..field(name, form, about)
    }
}

/// One tool: a command of this program.
pub(super) struct Offer {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) about: &'static str,
    /// The command, and what always stands behind it.
    pub(super) command: &'static [&'static str],
    pub(super) fields: &'static [Field],
    /// Moves test data.
    pub(super) moves: bool,
}

const NAMESPACE: Field = field(
    "namespace",
    Form::Option("namespace"),
    "Namespace; that of the context by default.",
);

const POD: Field = field(
    "pods",
    Form::Each("pod"),
    "Pods to look into; without any, this machine.",
);

const SELECTOR: Field = field(
    "selector",
    Form::Option("selector"),
    "Label selector that finds the pods.",
);

const CONTAINER: Field = field(
    "container",
    Form::Option("container"),
    "Container; the worker's by default.",
);

const CONTEXT: Field = field(
    "context",
    Form::Option("context"),
    "Context of the kubeconfig.",
);

const DEADLINE: Field = field(
    "deadline",
    Form::Option("deadline"),
    "Seconds for the whole run.",
);

pub(super) static OFFERS: &[Offer] = &[
    Offer {
        name: "env",
        title: "Judge manifests",
        about: "Judges the transport settings (UCX, NIXL, NCCL, libfabric, RDMA resources) of Dynamo manifests: files, \
                directories, kustomizations. Reads files only.",
        command: &["env"],
        fields: &[needed(
            "paths",
            Form::AllAlone,
            "Files, directories or kustomizations.",
        )],
        moves: false,
    },
    Offer {
        name: "node",
        title: "Look into pods or this machine",
        about: "What containers, or this machine, can really do: RDMA devices and ports, GPUs and NVLink, UCX, NIXL, limits, the \
                environment in force. One read-only script per container.",
        command: &["node"],
        fields: &[
            NAMESPACE,
            POD,
            SELECTOR,
            CONTAINER,
            CONTEXT,
            DEADLINE,
            field(
                "inputs",
                Form::Each("input"),
                "Pasted outputs instead of a machine, each NAME=FILE.",
            ),
        ],
        moves: false,
    },
    Offer {
        name: "nixl",
        title: "Is NIXL ready?",
        about: "Whether NIXL can move KV from these pods, or this machine: package, interpreter, UCX, plugins, backend. Moves nothing.",
        command: &["nixl"],
        fields: &[NAMESPACE, POD, SELECTOR, CONTAINER, CONTEXT, DEADLINE],
        moves: false,
    },
    Offer {
        name: "check",
        title: "Check a deployment",
        about: "A whole deployment in the cluster: one verdict, and what to fix first. Reads every worker side by side. Moves nothing.",
        command: &["check"],
        fields: CHECK,
        moves: false,
    },
    Offer {
        name: "prove",
        title: "Check a deployment and prove its lanes",
        about: "As check, and moves test data between all prefill/decode pairs, at most 4 GiB per pair, to name the lane that \
                carries KV. Nothing is written, nothing is left running.",
        command: &["check", "--transfer"],
        fields: PROVE,
        moves: true,
    },
    Offer {
        name: "explain",
        title: "Explain",
        about: "What a check, a variable or an error means, or a judgement of VARIABLE=VALUE.",
        command: &["explain"],
        fields: &[needed(
            "subject",
            Form::Alone,
            "Id or name of a check, name of a variable, VARIABLE=VALUE.",
        )],
        moves: false,
    },
    Offer {
        name: "report",
        title: "Replay a recording",
        about: "The report of a deployment that `check --save` recorded.",
        command: &["check"],
        fields: &[needed(
            "recording",
            Form::Option("from"),
            "The recording: a directory, or a .tar.zst file.",
        )],
        moves: false,
    },
];

const DEPLOYMENT: Field = field(
    "deployment",
    Form::Alone,
    "Name of the DynamoGraphDeployment; the only one of the namespace by default.",
);

const RECIPE: Field = field(
    "recipe",
    Form::Each("recipe"),
    "Files that say what was meant.",
);

const ISL: Field = field(
    "isl",
    Form::Option("isl"),
    "Tokens of a prompt, for the KV budget.",
);

const SLO: Field = field(
    "ttft_slo",
    Form::Option("ttft-slo"),
    "Milliseconds that the first token may take.",
);

const CHECK: &[Field] = &[
    DEPLOYMENT,
    NAMESPACE,
    SELECTOR,
    CONTAINER,
    CONTEXT,
    DEADLINE,
    RECIPE,
    ISL,
    SLO,
    field(
        "nodes",
        Form::Switch("nodes"),
        "Look at the nodes of the cluster, too.",
    ),
];

const PROVE: &[Field] = &[
    DEPLOYMENT,
    NAMESPACE,
    SELECTOR,
    CONTAINER,
    CONTEXT,
    DEADLINE,
    RECIPE,
    ISL,
    SLO,
    field(
        "sample",
        Form::Option("sample"),
        "So many of all pairs; what is not in the sample stays unproven.",
    ),
    field(
        "quick",
        Form::Switch("quick"),
        "Fewer and smaller operations.",
    ),
];

/// Arguments that are numbers, and the least and the greatest that the command line takes.
pub(super) const NUMBERS: &[(&str, u64, u64)] = &[
    ("deadline", 2, 86_400),
    ("isl", 1, 1_000_000_000),
    ("ttft_slo", 1, 1_000_000_000),
    ("sample", 1, u64::MAX),
];

/// Arguments that say nothing without another one.
const NEEDS: &[(&str, &str)] = &[("ttft_slo", "isl")];

/// Arguments that exclude each other.
const EITHER: &[(&str, &str)] = &[
    ("deployment", "selector"),
    ("inputs", "pods"),
    ("inputs", "selector"),
];

/// Nothing was given: an empty list names no more than none.
fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

/// The least and the greatest number, where this argument is one.
pub(super) fn bounds(field: &Field) -> Option<(u64, u64)> {
    let found = NUMBERS.iter().find(|(name, ..)| *name == field.name);
    found.map(|(_, least, greatest)| (*least, *greatest))
}

impl Offer {
    pub(super) fn schema(&self) -> JsonObject {
        let mut properties = JsonObject::new();
        for field in self.fields {
            let kind = match field.form {
                Form::Option(_) | Form::Alone => match bounds(field) {
                    Some((least, u64::MAX)) => json!({"type": "integer", "minimum": least}),
                    Some((least, greatest)) => {
                        json!({"type": "integer", "minimum": least, "maximum": greatest})
                    }
                    None => json!({"type": "string", "minLength": 1}),
                },
                Form::Each(_) | Form::AllAlone => {
                    json!({"type": "array", "items": {"type": "string", "minLength": 1}})
                }
                Form::Switch(_) => json!({"type": "boolean"}),
            };
            let mut kind = kind;
            if field.required && matches!(field.form, Form::AllAlone) {
                kind["minItems"] = 1.into();
            }
            kind["description"] = field.about.into();
            properties.insert(field.name.to_owned(), kind);
        }
        let required: Vec<&str> = self
            .fields
            .iter()
            .filter(|f| f.required)
            .map(|f| f.name)
            .collect();
        let schema = json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        });
        match schema {
            Value::Object(schema) => schema,
            _ => JsonObject::new(),
        }
    }

    /// Takes a context of a kubeconfig.
    pub(super) fn reaches_a_cluster(&self) -> bool {
        self.fields.iter().any(|f| f.name == CONTEXT.name)
    }

    /// This call reaches a cluster. Where no pod is named it looks at this machine, which no kubeconfig is for.
    pub(super) fn calls_a_cluster(&self, given: &JsonObject) -> bool {
        let named = |field: &Field| given.get(field.name).is_some_and(|v| !is_nothing(v));
        let names_pods = named(&POD) || named(&SELECTOR);
        self.reaches_a_cluster() && (!self.looks_here() || names_pods)
    }

    /// Looks at this machine where no pod is named.
    pub(super) fn looks_here(&self) -> bool {
        self.fields.iter().any(|f| f.name == POD.name)
    }

    pub(super) fn tool(&self) -> Tool {
        let hints = ToolAnnotations::with_title(self.title)
            .read_only(!self.moves)
            .destructive(false);
        Tool::new(self.name, self.about, Arc::new(self.schema())).with_annotations(hints)
    }

    /// The command line, or what is wrong with the arguments. Values never become options: they stand behind `=` or `--`.
    pub(super) fn line(&self, given: &JsonObject) -> Result<Vec<String>, String> {
        if let Some(unknown) = given
            .keys()
            .find(|k| self.fields.iter().all(|f| f.name != k.as_str()))
        {
            let known: Vec<&str> = self.fields.iter().map(|f| f.name).collect();
            let mut said = format!(
                "{unknown:?} is no argument of {}; there are: {}",
                self.name,
                known.join(", ")
            );
            if unknown == "kubeconfig" && self.reaches_a_cluster() {
                said.push_str(
                    ". A kubeconfig may name a program that gets credentials, so whoever starts the server names it: \
                     `mcp --kubeconfig FILE`",
                );
            }
            return Err(said);
        }
        let given_one = |name: &str| given.get(name).is_some_and(|v| !is_nothing(v));
        if let Some((name, other)) = NEEDS.iter().find(|(a, b)| given_one(a) && !given_one(b)) {
            return Err(format!("{name} of {} needs {other}", self.name));
        }
        if let Some((one, other)) = EITHER.iter().find(|(a, b)| given_one(a) && given_one(b)) {
            return Err(format!("{} takes {one} or {other}, not both", self.name));
        }
        if self.looks_here() && !given_one("pods") && !given_one("selector") {
            let of_pods = ["namespace", "container", "context"];
            if let Some(name) = of_pods.iter().find(|name| given_one(name)) {
                return Err(format!(
                    "{name} of {} needs pods or selector: without them, this machine is looked at",
                    self.name
                ));
            }
        }
        let mut line: Vec<String> = self.command.iter().map(|w| (*w).to_owned()).collect();
        let mut alone = Vec::new();
        for field in self.fields {
            let wrong = |wanted: &str| format!("{} of {} must be {wanted}", field.name, self.name);
            let value = match given.get(field.name) {
                Some(value) if !is_nothing(value) => value,
                _ if field.required => {
                    return Err(format!("{} needs {}", self.name, field.name));
                }
                _ => continue,
            };
            let text = |value: &Value| match value {
                Value::String(text) if !text.trim().is_empty() => Some(text.clone()),
                _ => None,
            };
            let texts = |value: &Value| {
                value
                    .as_array()?
                    .iter()
                    .map(text)
                    .collect::<Option<Vec<_>>>()
            };
            match field.form {
                Form::Option(name) => {
                    let value = match bounds(field) {
                        None => text(value).ok_or_else(|| wrong("a text"))?,
                        Some((least, greatest)) => value
                            .as_u64()
                            .filter(|n| (least..=greatest).contains(n))
                            .ok_or_else(|| match greatest {
                                u64::MAX => wrong(&format!("a whole number from {least}")),
                                _ => wrong(&format!("a whole number from {least} to {greatest}")),
                            })?
                            .to_string(),
                    };
                    line.push(format!("--{name}={value}"));
                }
                Form::Each(name) => {
                    let values = texts(value).ok_or_else(|| wrong("a list of texts"))?;
                    if values
                        .iter()
                        .any(|v| v == "-" || name == "input" && v.ends_with("=-"))
                    {
                        return Err(wrong("files: there is no standard input, `-`, for a tool"));
                    }
                    line.extend(values.into_iter().map(|v| format!("--{name}={v}")));
                }
                Form::Switch(name) => match value.as_bool() {
                    Some(true) => line.push(format!("--{name}")),
                    Some(false) => {}
                    None => return Err(wrong("true or false")),
                },
                Form::Alone => alone.push(text(value).ok_or_else(|| wrong("a text"))?),
                Form::AllAlone => {
                    let values = texts(value).ok_or_else(|| wrong("a list of texts"))?;
                    if values.iter().any(|v| v == "-") {
                        return Err(wrong(
                            "a list of paths: there is no standard input, `-`, for a tool",
                        ));
                    }
                    alone.extend(values);
                }
            }
        }
        line.push("--output=json".to_owned());
        if !alone.is_empty() {
            line.push("--".to_owned());
            line.extend(alone);
        }
        Ok(line)
    }
}
