//! `mcp`: the commands of this tool for agent hosts, over the Model Context Protocol on standard input and output.
//!
//! Each call runs this same program as a child process, so that nothing of one call reaches another, and a call that is
//! cancelled ends as Ctrl-C ends it: exec streams are closed, and nothing is left running. All tools only read; a transfer,
//! which moves test data, is offered only where the server was started with `--allow-transfer`.

mod child;
mod offers;
#[cfg(test)]
mod tests;

use crate::report::ExitCode;
use child::{answer, run};
use clap::Args;
use offers::{OFFERS, Offer};
use rmcp::ServiceExt as _;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    Resource, ResourceContents, ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ErrorData, ServerHandler};

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
