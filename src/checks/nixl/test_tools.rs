use crate::check;
use crate::checks::Container;
use crate::checks::declare::{Draft, Outcome};
use crate::observed::Skip;
use crate::snapshot::{Place, PlaceKind, evidence};

check! {
    /// No test tool for NIXL or UCX is in the image.
    ///
    /// This never warns: images of workers hold none, and the transfer of this tool needs none. Where there is one, the
    /// finding says the exact command.
    ///
    /// ## Why it matters
    /// A benchmark gives rates under many operations at a time, which a short transfer does not.
    ///
    /// ## Fix
    /// Nothing to fix. `nixl --transfer --pod A --peer B` moves data with the workers' own NIXL and needs only python3.
    ///
    /// ## Sources
    /// ai-dynamo/nixl `benchmark/nixlbench/README.md` (flags; it coordinates through etcd); UCX `ucx_perftest -h` (NIXL
    /// uses put and get, not tag matching).
    "NIXL004" "nixl:binary" on Container {
        subsystem: Nixl, kv_path: Off, worst: Skipped, causes: &[], since: "0.1.0",
    }
}

fn run(container: &Container<'_>) -> Outcome {
    if container.is_aggregated() {
        return Err(Skip::not_applicable());
    }
    let tools = container.facts.software.test_tools.get()?;
    let transfer = transfer(container.place);
    if tools.is_empty() {
        let detail = format!(
            "no test tool (nixlbench, nixl_test, ucx_perftest) is here, and none is needed: `{transfer}` uses the \
             worker's own NIXL"
        );
        let seen = evidence(
            tools.ask,
            ["none of nixlbench, nixl_test, ucx_perftest is there"],
        );
        return Ok(vec![Draft::ok(detail).with([seen])]);
    }
    let on_host = container.place.kind == PlaceKind::Host;
    let next: Vec<String> = tools
        .iter()
        .filter_map(|tool| command(tool, on_host))
        .collect();
    let next = if next.is_empty() {
        format!("next: `{transfer}`")
    } else {
        format!(
            "next: {}; or, without any of them, `{transfer}`",
            next.join("; ")
        )
    };
    let detail = format!("{} here; {next}", tools.join(", "));
    let seen = tools.evidence(tools.iter().map(String::as_str));
    Ok(vec![Draft::ok(detail).with([seen])])
}

/// The transfer from this place.
fn transfer(place: &Place) -> String {
    let tool = "dynamo-interconnect-check nixl --transfer";
    match (&place.kind, &place.namespace) {
        (PlaceKind::Host | PlaceKind::Pasted, _) => format!("{tool} --self"),
        (_, Some(namespace)) => {
            format!("{tool} -n {namespace} --pod {} --peer OTHER-POD", place.pod)
        }
        (_, None) => format!("{tool} --pod {} --peer OTHER-POD", place.pod),
    }
}

/// What to type, for the tools whose flags are known.
fn command(tool: &str, on_host: bool) -> Option<String> {
    let (both, other, this) = if on_host {
        ("on both hosts", "on the other host", "THIS-HOST")
    } else {
        ("in both pods", "in the other pod", "THIS-POD-IP")
    };
    match tool.rsplit('/').next()? {
        "nixlbench" => Some(format!(
            "{both} within 60 s `{tool} --etcd_endpoints http://ETCD:2379 --backend UCX --initiator_seg_type VRAM \
             --target_seg_type VRAM --op_type READ --total_buffer_size 1073741824 --max_block_size 67108864 \
             --check_consistency`"
        )),
        "ucx_perftest" => Some(format!(
            "`{tool} -p 13337` here, then {other} `{tool} {this} -p 13337 -t ucp_put_bw -s 1048576 -n 200`"
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::{NOTHING, container, outcome, verdict};
    use crate::report::Status;

    #[test]
    fn tools_are_named_with_their_command_and_their_absence_is_no_dead_end() {
        let said = |text: &str| {
            let snapshot = container("decode", &[(&ask::TEST_TOOLS, text)]);
            outcome(run, &snapshot).unwrap().remove(0)
        };
        let none = said("");
        assert_eq!(none.status, Status::Ok);
        let command = "`dynamo-interconnect-check nixl --transfer --pod decode-0 --peer OTHER-POD`";
        assert!(none.detail.contains(command), "{}", none.detail);
        let some = said("/usr/local/nixlbench/bin/nixlbench\nnixl_test\nucx_perftest\n");
        for part in [
            "`/usr/local/nixlbench/bin/nixlbench --etcd_endpoints",
            "-t ucp_put_bw",
            command,
        ] {
            assert!(some.detail.contains(part), "{}", some.detail);
        }
        assert!(
            said("nixl_test")
                .detail
                .contains("nixl_test here; next: `dynamo")
        );
        let mut host = container("", &[(&ask::TEST_TOOLS, "ucx_perftest\n")]);
        host.place = Place::host("n1");
        let on_host = outcome(run, &host).unwrap().remove(0).detail;
        let command = "then on the other host `ucx_perftest THIS-HOST -p 13337";
        assert!(
            on_host.contains(command) && !on_host.contains("POD"),
            "{on_host}"
        );
        assert!(verdict(run, "decode", NOTHING).is_err());
        let agg = verdict(run, "agg", &[(&ask::TEST_TOOLS, "")]);
        assert_eq!(agg, Err(Skip::not_applicable()));
    }
}
