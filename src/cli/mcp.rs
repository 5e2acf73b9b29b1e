//! `mcp`: the commands of this tool for agent hosts, over the Model Context Protocol on standard input and output.
//!
//! Each call runs this same program as a child process, so that nothing of one call reaches another, and a call that is
//! cancelled ends as Ctrl-C ends it: exec streams are closed, and nothing is left running. All tools only read; a transfer,
//! which moves test data, is offered only where the server was started with `--allow-transfer`.

use crate::report::ExitCode;
use clap::Args;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, JsonObject,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource,
    ResourceContents, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ErrorData, ServerHandler, ServiceExt};
use serde_json::{Value, json};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Let the host move test data between workers, with its own tool `prove`. Without it, every tool only reads.
    #[arg(long)]
    allow_transfer: bool,
    /// Kubeconfig file of every call; KUBECONFIG or ~/.kube/config by default. A call chooses a context of it and cannot name
    /// another file, since a kubeconfig may name a program that gets credentials.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<String>,
}

impl Arguments {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let server = Server {
            allow_transfer: self.allow_transfer,
            kubeconfig: self.kubeconfig.clone(),
        };
        tokio::runtime::Runtime::new()?.block_on(async {
            let running = server.serve(rmcp::transport::stdio()).await?;
            running.waiting().await?;
            Ok(ExitCode::Ok)
        })
    }
}

#[derive(Clone)]
struct Server {
    allow_transfer: bool,
    kubeconfig: Option<String>,
}

/// How one argument of a tool becomes arguments of the command line.
enum Form {
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
struct Field {
    name: &'static str,
    form: Form,
    required: bool,
    about: &'static str,
}

const fn field(name: &'static str, form: Form, about: &'static str) -> Field {
    Field {
        name,
        form,
        required: false,
        about,
    }
}

const fn needed(name: &'static str, form: Form, about: &'static str) -> Field {
    Field {
        required: true,
        ..field(name, form, about)
    }
}

/// One tool: a command of this program.
struct Offer {
    name: &'static str,
    title: &'static str,
    about: &'static str,
    /// The command, and what always stands behind it.
    command: &'static [&'static str],
    fields: &'static [Field],
    /// Moves test data.
    moves: bool,
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

static OFFERS: &[Offer] = &[
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
const NUMBERS: &[(&str, u64, u64)] = &[
    ("deadline", 2, 86_400),
    ("isl", 1, 1_000_000_000),
    ("ttft_slo", 1, 1_000_000_000),
    ("sample", 1, u64::MAX),
];

/// The least and the greatest number, where this argument is one.
fn bounds(field: &Field) -> Option<(u64, u64)> {
    let found = NUMBERS.iter().find(|(name, ..)| *name == field.name);
    found.map(|(_, least, greatest)| (*least, *greatest))
}

impl Offer {
    fn schema(&self) -> JsonObject {
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
    fn reaches_a_cluster(&self) -> bool {
        self.fields.iter().any(|f| f.name == CONTEXT.name)
    }

    /// This call reaches a cluster. Where no pod is named it looks at this machine, which no kubeconfig is for.
    fn calls_a_cluster(&self, given: &JsonObject) -> bool {
        let names_pods = given.contains_key(POD.name) || given.contains_key(SELECTOR.name);
        self.reaches_a_cluster() && (!self.looks_here() || names_pods)
    }

    /// Looks at this machine where no pod is named.
    fn looks_here(&self) -> bool {
        self.fields.iter().any(|f| f.name == POD.name)
    }

    fn tool(&self) -> Tool {
        let hints = ToolAnnotations::with_title(self.title)
            .read_only(!self.moves)
            .destructive(false);
        Tool::new(self.name, self.about, Arc::new(self.schema())).with_annotations(hints)
    }

    /// The command line, or what is wrong with the arguments. Values never become options: they stand behind `=` or `--`.
    fn line(&self, given: &JsonObject) -> Result<Vec<String>, String> {
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
        let given_one = |name: &str| given.get(name).is_some_and(|v| !v.is_null());
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
                None | Some(Value::Null) if field.required => {
                    return Err(format!("{} needs {}", self.name, field.name));
                }
                None | Some(Value::Null) => continue,
                Some(value) => value,
            };
            let text = |value: &Value| match value {
                Value::String(text) if !text.is_empty() => Some(text.clone()),
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

/// A child that is cancelled has this long to close its streams.
const GRACE: Duration = Duration::from_secs(8);
/// Progress is told this often.
const EVERY: Duration = Duration::from_secs(1);
/// More output than of a thousand containers is no report.
const OUTPUT: u64 = 256 << 20;
/// So much of what a child complains about is passed on.
const COMPLAINT: usize = 2_000;

/// What became of a call.
enum Ended {
    Done {
        code: Option<i32>,
        stdout: String,
        stderr: String,
    },
    Cancelled,
}

/// Runs the program with these arguments until it ends or the call is cancelled.
async fn run(line: &[String], context: &RequestContext<RoleServer>) -> std::io::Result<Ended> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(line)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let reading = async {
        let read_out = async {
            if let Some(out) = out {
                out.take(OUTPUT).read_to_end(&mut stdout).await?;
            }
            std::io::Result::Ok(())
        };
        let read_err = async {
            if let Some(err) = err {
                err.take(OUTPUT).read_to_end(&mut stderr).await?;
            }
            std::io::Result::Ok(())
        };
        tokio::try_join!(read_out, read_err)
    };
    let ended = tokio::select! {
        read = reading => Some(read),
        () = context.ct.cancelled() => None,
        () = tell_progress(context) => None,
    };
    match ended {
        Some(read) => {
            read?;
            let code = child.wait().await?.code();
            Ok(Ended::Done {
                code,
                stdout: String::from_utf8_lossy(&stdout).into_owned(),
                stderr: crate::sanitise::lines(&String::from_utf8_lossy(&stderr), COMPLAINT),
            })
        }
        None => {
            end(&mut child).await;
            Ok(Ended::Cancelled)
        }
    }
}

/// As Ctrl-C ends it; by force where that is not enough.
async fn end(child: &mut Child) {
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
    if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
    }
    if tokio::time::timeout(GRACE, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}

/// Says that it still runs, to a host that asked for it. Never ends by itself.
async fn tell_progress(context: &RequestContext<RoleServer>) {
    let token = context.meta.get_progress_token();
    let mut seconds = 0.0;
    loop {
        tokio::time::sleep(EVERY).await;
        seconds += EVERY.as_secs_f64();
        if let Some(token) = &token {
            let told = ProgressNotificationParam::new(token.clone(), seconds)
                .with_message(format!("{seconds:.0} s"));
            // A host that no longer listens will cancel.
            let _ = context.peer.notify_progress(told).await;
        }
    }
}

/// The report in a few lines, for a model that does not need all of it.
fn summary(report: &Value) -> String {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let mut lines = vec![text(&report["verdict"])];
    let all = |list: &'static str| report[list].as_array().into_iter().flatten();
    for error in all("errors").take(5) {
        lines.push(format!(
            "{}: {}",
            text(&error["object"]),
            text(&error["message"])
        ));
    }
    for fix in all("fix_first").take(5) {
        lines.push(format!(
            "{} {} on {}: {}. Fix: {}",
            text(&fix["status"]),
            text(&fix["id"]),
            text(&fix["target"]["name"]),
            text(&fix["detail"]).trim_end_matches('.'),
            text(&fix["fix"])
        ));
        // Where it is written, and what to write.
        let finding = all("checks").find(|c| c["id"] == fix["id"] && c["target"] == fix["target"]);
        let evidence = finding.and_then(|c| c["evidence"].as_array()).into_iter();
        if let Some(spot) = evidence.flatten().find(|e| e["line"].is_u64()) {
            lines.push(format!("At {}:{}", text(&spot["path"]), spot["line"]));
        }
        lines.extend(
            fix["paste"]
                .as_str()
                .map(|paste| format!("Paste:\n{paste}")),
        );
    }
    lines.extend(report["next"].as_str().map(|next| format!("Next: {next}")));
    lines.retain(|line| !line.is_empty());
    lines.join("\n")
}

fn answer(ended: Ended) -> CallToolResult {
    let (code, stdout, stderr) = match ended {
        Ended::Cancelled => return CallToolResult::error(vec![ContentBlock::text("cancelled")]),
        Ended::Done {
            code,
            stdout,
            stderr,
        } => (code, stdout, stderr),
    };
    let Ok(report) = serde_json::from_str::<Value>(&stdout) else {
        let said = if stderr.is_empty() { stdout } else { stderr };
        return CallToolResult::error(vec![ContentBlock::text(said)]);
    };
    let could_not_run = code == Some(ExitCode::CouldNotRun as i32);
    let mut result = CallToolResult::structured(report.clone());
    let summary = summary(&report);
    if !summary.is_empty() {
        result.content = vec![ContentBlock::text(summary)];
    }
    result.is_error = Some(could_not_run || code.is_none());
    result
}

/// Pages that explain: address, name, text.
const PAGES: &[(&str, &str, &str)] = &[
    (
        "dynamo-interconnect-check://checks",
        "All checks",
        include_str!("../../docs/checks.md"),
    ),
    (
        "dynamo-interconnect-check://variables",
        "The catalogue of variables",
        include_str!("../../docs/variables.md"),
    ),
    (
        "dynamo-interconnect-check://rules",
        "The rules behind the verdicts",
        include_str!("../../docs/rules.md"),
    ),
];

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .build();
        let mut info = ServerConfig::new(capabilities);
        info.server_info.name = env!("CARGO_PKG_NAME").to_owned();
        info.server_info.version = env!("CARGO_PKG_VERSION").to_owned();
        info.instructions = Some(
            "Says whether a disaggregated NVIDIA Dynamo deployment can trust its interconnect, or what to fix first. Begin with \
             `check`, or with `env` where there is only a manifest. `skipped` is inconclusive and never a pass; `unproven` means \
             that no transfer was seen."
                .to_owned(),
        );
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let offered = OFFERS.iter().filter(|o| self.allow_transfer || !o.moves);
        Ok(ListToolsResult::with_all_items(
            offered.map(Offer::tool).collect(),
        ))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(offer) = OFFERS.iter().find(|o| o.name == request.name) else {
            return Err(ErrorData::invalid_params(
                format!("there is no tool {:?}", request.name),
                None,
            ));
        };
        if offer.moves && !self.allow_transfer {
            let said = "this server was started without --allow-transfer, so it moves no data";
            return Err(ErrorData::invalid_params(said, None));
        }
        let given = request.arguments.unwrap_or_default();
        let mut line = offer
            .line(&given)
            .map_err(|said| ErrorData::invalid_params(said, None))?;
        let file = self.kubeconfig.as_ref();
        if let Some(file) = file.filter(|_| offer.calls_a_cluster(&given)) {
            line.insert(1, format!("--kubeconfig={file}"));
        }
        let ended = run(&line, &context).await.map_err(|e| {
            ErrorData::internal_error(format!("cannot run this program again: {e}"), None)
        })?;
        Ok(answer(ended).into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let all = PAGES
            .iter()
            .map(|(uri, name, _)| Resource::new(*uri, *name).with_mime_type("text/markdown"));
        Ok(ListResourcesResult::with_all_items(all.collect()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let Some((uri, _, text)) = PAGES.iter().find(|(uri, ..)| *uri == request.uri) else {
            return Err(ErrorData::resource_not_found(
                format!("there is no {}", request.uri),
                None,
            ));
        };
        Ok(ReadResourceResult::new(vec![ResourceContents::text(*text, *uri)]).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, arguments: Value) -> Result<Vec<String>, String> {
        let offer = OFFERS.iter().find(|o| o.name == name).unwrap();
        offer.line(arguments.as_object().unwrap())
    }

    #[test]
    fn arguments_become_a_command_line_and_never_options() {
        let given = json!({"deployment": "--transfer", "namespace": "--save=/x", "nodes": true, "isl": 8000});
        assert_eq!(
            line("check", given).unwrap(),
            [
                "check",
                "--namespace=--save=/x",
                "--isl=8000",
                "--nodes",
                "--output=json",
                "--",
                "--transfer"
            ]
        );
        assert_eq!(
            line("env", json!({"paths": ["-v", "a b"]})).unwrap(),
            ["env", "--output=json", "--", "-v", "a b"]
        );
        for (name, wrong) in [
            ("env", json!({})),
            ("env", json!({"paths": "x"})),
            ("env", json!({"paths": [1, {}]})),
            ("check", json!({"save": "/x"})),
            ("node", json!({"namespace": ""})),
            ("node", json!({"pods": ["x"], "namespace": 7})),
            ("env", json!({"paths": ["-"]})),
            ("node", json!({"inputs": ["topo=-"]})),
            ("check", json!({"recipe": ["-"]})),
            ("check", json!({"isl": "8000"})),
            ("check", json!({"isl": 8000.5})),
            ("check", json!({"deadline": 1})),
            ("check", json!({"deadline": 86_401})),
        ] {
            assert!(line(name, wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_page_lists_every_tool_with_its_arguments() {
        let page = include_str!("../../docs/mcp.md");
        for offer in OFFERS {
            let row = format!("| `{}` | ", offer.name);
            let row = page.lines().find(|l| l.starts_with(&row)).unwrap();
            let names: Vec<String> = offer
                .fields
                .iter()
                .map(|f| format!("`{}`", f.name))
                .collect();
            assert!(row.ends_with(&format!("| {} |", names.join(", "))), "{row}");
        }
        assert_eq!(
            page.lines().filter(|l| l.starts_with("| `")).count(),
            OFFERS.len()
        );
        for (uri, ..) in PAGES {
            let (_, short) = uri.split_once(':').unwrap();
            assert!(page.contains(&format!(":{short}`")), "{uri}");
        }
    }

    /// The words are those of the tool's arguments, and not of the command line that it hides.
    #[test]
    fn what_is_wrong_is_said_in_the_words_of_the_tool() {
        let said = line("node", json!({"namespace": "x"})).unwrap_err();
        assert_eq!(
            said,
            "namespace of node needs pods or selector: without them, this machine is looked at"
        );
        let said = line("check", json!({"kubeconfig": "x"})).unwrap_err();
        assert!(said.contains("`mcp --kubeconfig FILE`"), "{said}");
        let said = line("check", json!({"deadline": 1})).unwrap_err();
        assert_eq!(
            said,
            "deadline of check must be a whole number from 2 to 86400"
        );
    }

    /// The bounds that a host is told are those of the command line.
    #[test]
    fn numbers_outside_the_bounds_are_refused_by_the_program_too() {
        use clap::Parser;
        for (name, least, greatest) in NUMBERS {
            let takes = |n: u64| {
                let option = format!("--{}={n}", name.replace('_', "-"));
                let more = ["--isl=5", "--transfer"];
                let more = more
                    .iter()
                    .filter(|m| !option.starts_with("--isl") || *m == &"--transfer");
                let all = ["program", "check", option.as_str()];
                crate::cli::Cli::try_parse_from(all.iter().chain(more)).is_ok()
            };
            assert!(takes(*least) && !takes(least - 1), "{name}");
            if *greatest < u64::MAX {
                assert!(takes(*greatest) && !takes(greatest + 1), "{name}");
            }
        }
    }

    #[test]
    fn a_summary_holds_the_reason_the_line_and_what_to_paste() {
        let report = json!({
            "verdict": "Nothing could be judged.",
            "errors": [{"object": "Kubernetes API", "message": "no kubeconfig"}],
            "fix_first": [{"status": "fail", "id": "X1", "target": {"name": "a"}, "detail": "d.", "fix": "f", "paste": "x: y"}],
            "checks": [
                {"id": "X1", "target": {"name": "b"}, "evidence": [{"path": "b.yaml", "line": 1}]},
                {"id": "X1", "target": {"name": "a"}, "evidence": [{"source": "read"}, {"path": "a.yaml", "line": 7}]},
            ],
        });
        assert_eq!(
            summary(&report),
            "Nothing could be judged.\nKubernetes API: no kubeconfig\nfail X1 on a: d. Fix: f\nAt a.yaml:7\nPaste:\nx: y"
        );
    }

    #[test]
    fn every_command_line_of_a_tool_is_one_that_the_program_takes() {
        use clap::Parser;
        for offer in OFFERS {
            let one = |field: &Field| match field.form {
                Form::Switch(_) => json!(true),
                Form::Each("input") => json!(["topo=file"]),
                Form::Each(_) | Form::AllAlone => json!(["x"]),
                _ if bounds(field).is_some() => json!(5),
                _ => json!("x"),
            };
            // Each argument alone with those that must be there: some exclude each other.
            for field in offer.fields {
                let mut given = JsonObject::new();
                for needed in offer.fields.iter().filter(|f| f.required) {
                    given.insert(needed.name.to_owned(), one(needed));
                }
                given.insert(field.name.to_owned(), one(field));
                if field.name == "ttft_slo" {
                    given.insert("isl".to_owned(), json!(5));
                }
                if ["node", "nixl"].contains(&offer.name)
                    && !["inputs", "selector"].contains(&field.name)
                {
                    given.insert("pods".to_owned(), json!(["x"]));
                }
                let mut line = offer.line(&given).unwrap();
                if offer.calls_a_cluster(&given) {
                    line.insert(1, "--kubeconfig=x".to_owned());
                }
                let all = std::iter::once("program".to_owned()).chain(line.clone());
                let parsed = crate::cli::Cli::try_parse_from(all);
                assert!(parsed.is_ok(), "{line:?}: {}", parsed.unwrap_err());
            }
        }
    }
}
