//! Hostile inputs end soon: in an error, a note, or a value that is not known.

use dynamo_interconnect_check::manifest::workload::EnvValue;
use dynamo_interconnect_check::manifest::{Inventory, Text, read};
use dynamo_interconnect_check::report::{Finding, KvPath, Parts, Report, Status};
use dynamo_interconnect_check::snapshot::Place;
use dynamo_interconnect_check::source::SourceFile;
use dynamo_interconnect_check::target::Target;
use std::sync::Arc;

fn of_text(text: &str) -> Inventory {
    let source = Arc::new(SourceFile {
        path: "x.yaml".into(),
        text: text.into(),
    });
    read(&[Text {
        source,
        named: true,
        companion: false,
    }])
}

#[test]
fn bombs_and_floods_end_in_an_error() {
    let flood = of_text(&"---\nkind: Secret\n".repeat(1500));
    assert!(flood.errors[0].message.contains("more than 1000 documents"));
    let mut bomb = String::from("kind: List\nx: &a [{kind: Pod, metadata: {name: p}}]\n");
    for n in ["b", "c", "d", "e", "f", "g", "h"] {
        let before = char::from(n.as_bytes()[0] - 1);
        bomb.push_str(&format!(
            "{n}: &{n} [{}]\n",
            vec![format!("{{kind: List, items: *{before}}}"); 20].join(", ")
        ));
    }
    bomb.push_str("items: *h\n");
    assert!(of_text(&bomb).documents.values().sum::<usize>() < 20_000);
    let deep = format!("kind: DynamoGraphDeployment\nspec: {}", "[".repeat(5_000));
    assert_eq!(of_text(&deep).errors.len(), 1);
    let wide = format!(
        "kind: DynamoGraphDeployment\nspec:\n{}",
        "- a\n".repeat(60_000)
    );
    assert!(of_text(&wide).errors[0].message.contains("50000 nodes"));
}

/// A graph of one worker with this container body.
fn one_worker(container: &str) -> String {
    let body: String = container
        .lines()
        .map(|l| format!("              {l}\n"))
        .collect();
    format!(
        "kind: DynamoGraphDeployment\nspec:\n  components:\n    - name: w\n      type: decode\n      podTemplate:\n        \
         spec:\n          containers:\n            - name: main\n{body}"
    )
}

/// Counts the CPU time of this thread and not the time on the wall: whoever else uses the machine changes nothing. Long
/// enough for a slow machine, far too short for anything that grows with the square, which takes minutes.
fn soon(what: &str, run: impl FnOnce()) {
    let begun = cpu_seconds();
    run();
    let took = cpu_seconds() - begun;
    let limit = if cfg!(debug_assertions) { 30 } else { 6 };
    assert!(took < limit, "{took} s of CPU time: {what}");
}

fn cpu_seconds() -> i64 {
    rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).tv_sec
}

#[test]
fn scripts_that_grow_end_soon() {
    let lines = |line: &str, bytes: usize| line.repeat(bytes / line.len());
    let mut growing = String::from("export UCX_LOG_LEVEL=0123456789abcdef\nA0=$UCX_LOG_LEVEL\n");
    for n in 1..10 {
        growing.push_str(&format!("A{n}={}\n", format!("$A{}", n - 1).repeat(10)));
    }
    growing.push_str("export UCX_TLS=$A9\n");
    let nested = |depth: usize, body: String| {
        (0..depth).fold(body, |inner, _| {
            format!("bash -c '{}'", inner.replace('\'', "'\\''"))
        })
    };
    let scripts = [
        growing,
        lines("export UCX_TLS=tcp\n", 250 << 10),
        lines("if ", 250 << 10),
        lines("bash -c 'export UCX_TLS=tcp';", 250 << 10),
        lines("(", 250 << 10),
        lines("{ ", 250 << 10),
        lines("env -i a;", 250 << 10),
        lines("python3 -m dynamo.vllm & ", 250 << 10),
        lines("python3 -m dynamo.vllm $A9 & ", 250 << 10),
        lines("x <<A ", 250 << 10),
        lines("$(", 250 << 10),
        lines("${", 250 << 10),
        lines("a && export UCX_TLS=tcp && ", 250 << 10),
        nested(3, lines("export UCX_TLS=tcp;", 60 << 10)),
        lines("eval '", 250 << 10),
        format!(
            "A='{}'\n{}",
            "x".repeat(60 << 10),
            lines("X=$A;", 180 << 10)
        ),
    ];
    for script in scripts {
        let text = one_worker(&format!(
            "command: [bash, -c]\nargs: [{script:?}]\nenv: [{{name: A9, value: x}}]"
        ));
        soon(&script[..40], || {
            let inventory = of_text(&text);
            assert_eq!(
                (inventory.workloads.len(), &inventory.errors[..]),
                (1, &[][..])
            );
        });
    }
}

/// The size of all values that are kept.
fn kept(inventory: &Inventory) -> usize {
    let workers = inventory.workloads.iter().flat_map(|w| &w.workers);
    let entries = workers.flat_map(|w| w.env.values());
    entries
        .map(|e| match &e.value {
            EnvValue::Literal(text) => text.len(),
            _ => 0,
        })
        .sum()
}

#[test]
fn references_that_multiply_end_as_unknown() {
    let mut env = String::from("{name: UCX_A0, value: 0123456789abcdef}");
    for n in 1..10 {
        let value = format!("$(UCX_A{})", n - 1).repeat(10);
        env.push_str(&format!(", {{name: UCX_A{n}, value: '{value}'}}"));
    }
    let text = one_worker(&format!(
        "command: [python3, -m, dynamo.vllm]\nenv: [{env}, {{name: UCX_TLS, value: $(UCX_A9)}}]"
    ));
    soon("references", || {
        let inventory = of_text(&text);
        let worker = &inventory.workloads[0].workers[0];
        assert_eq!(worker.env["UCX_TLS"].value, EnvValue::Dynamic);
    });
    // Many long values, none of them over the limit.
    let long = "x".repeat(60_000);
    let many: String = (0..5_000)
        .map(|n| format!(", {{name: UCX_B{n}, value: $(UCX_TLS)}}"))
        .collect();
    let text = one_worker(&format!("env: [{{name: UCX_TLS, value: {long}}}{many}]"));
    soon("long values", || assert!(kept(&of_text(&text)) < 1 << 20));
}

#[test]
fn aliases_that_multiply_end_in_an_error() {
    let variables: String = (0..4_000)
        .map(|n| format!("{{name: UCX_A{n}, value: x}}, "))
        .collect();
    let component = |body: &str| {
        format!(
            "{{name: w, type: decode, podTemplate: {{spec: {{containers: [{{name: main, {body}}}]}}}}}}"
        )
    };
    let graph = |component: &str, count: usize| {
        format!(
            "kind: DynamoGraphDeployment\nx: &c {component}\nspec:\n  components: [{}]\n",
            vec!["*c"; count].join(", ")
        )
    };
    let script = "export X=1;".repeat(22_000);
    let bombs = [
        graph(&component(&format!("env: [{variables}]")), 20_000),
        graph(
            &component(&format!("command: [bash, -c, {script:?}]")),
            1_000,
        ),
    ];
    for bomb in bombs {
        soon("components", || {
            let inventory = of_text(&bomb);
            assert!(
                inventory.errors[0].message.contains("through aliases"),
                "{:?}",
                inventory.errors
            );
            assert!(inventory.workloads.is_empty());
        });
    }
    let many = of_text(&graph(&component("args: [x]"), 600));
    assert!(many.errors[0].message.contains("more than 500 components"));
    assert_eq!(many.workloads[0].workers.len(), 500);
    // Shared without an alias: every component gets all variables of the graph.
    let shared = format!(
        "kind: DynamoGraphDeployment\nspec:\n  env: [{}]\n  components: [{}]\n",
        variables.repeat(2),
        vec!["{type: decode}"; 500].join(", ")
    );
    soon("shared variables", || {
        let inventory = of_text(&shared);
        let unknown = inventory.workloads[0]
            .workers
            .iter()
            .map(|w| w.unknown.len());
        assert!(unknown.sum::<usize>() <= 50_000);
        assert!(
            inventory
                .notes
                .iter()
                .any(|n| n.message.contains("too many variables"))
        );
    });
    // Many objects, each just below the bound.
    let item = format!("{{kind: Pod, spec: {{containers: [{{env: [{variables}]}}]}}}}");
    let list = format!(
        "kind: List\nx: &p {item}\nitems: [{}]\n",
        vec!["*p"; 2_000].join(", ")
    );
    soon("objects", || {
        let inventory = of_text(&list);
        assert!(
            inventory
                .errors
                .iter()
                .any(|e| e.message.contains("too much was read"))
        );
    });
}

#[test]
fn many_references_to_a_large_map_end_soon() {
    let data: String = (0..20_000)
        .map(|n| format!("  key{n}: {}\n", "x".repeat(300)))
        .collect();
    let map = format!("kind: ConfigMap\nmetadata: {{name: large}}\ndata:\n{data}---\n");
    for name in ["large", "absent$"] {
        let env: String = (0..4_000)
            .map(|n| {
                let name = name.replace('$', &n.to_string());
                format!("{{name: UCX_A{n}, valueFrom: {{configMapKeyRef: {{name: {name}, key: key{n}}}}}}}, ")
            })
            .collect();
        let text = map.clone() + &one_worker(&format!("args: [x]\nenv: [{env}]"));
        soon(name, || assert_eq!(of_text(&text).errors, []));
    }
}

#[test]
fn many_anchors_end_soon() {
    let mut text = String::from("kind: Other2\nx:\n");
    (0..24_000).for_each(|n| text.push_str(&format!("- &a{n} x\n")));
    text.push_str("y:\n");
    (0..24_000).for_each(|n| text.push_str(&format!("- *a{n}\n")));
    let text = text.replace("kind: Other2", "\"kind\": Other");
    soon("anchors", || assert_eq!(of_text(&text).errors, []));
}

#[test]
fn a_script_that_is_too_long_is_noted() {
    let script = format!("export UCX_TLS=tcp\n{}", "# comment\n".repeat(40_000));
    let text = one_worker(&format!("command: [bash, -c]\nargs: [{script:?}]"));
    let inventory = of_text(&text);
    let notes = &inventory.notes;
    assert!(
        notes[0].message.starts_with("the start script: too long"),
        "{notes:?}"
    );
    let worker = &inventory.workloads[0].workers[0];
    assert_eq!(worker.env["UCX_TLS"].value, EnvValue::Dynamic);
}

#[test]
fn one_long_line_costs_little() {
    let component = "{\"type\": \"decode\", \"podTemplate\": {\"spec\": {\"containers\": [{\"env\": [{\"name\": \"UCX_TLS\", \
                     \"value\": \"tcp\"}]}]}}}";
    let text = format!(
        "{{\"kind\": \"DynamoGraphDeployment\", \"pad\": \"{}\", \"spec\": {{\"components\": [{}]}}}}",
        "x".repeat(8 << 20),
        vec![component; 400].join(", ")
    );
    soon("one line", || {
        let inventory = of_text(&text);
        let workers = &inventory.workloads[0].workers;
        let shown = workers
            .iter()
            .map(|w| w.env["UCX_TLS"].spot.evidence().excerpt.len());
        assert!(shown.sum::<usize>() < 400 * 300);
    });
}

#[test]
fn thousands_of_containers_are_not_compared_with_each_other() {
    let finding = |id: &'static str, n: usize| Finding {
        id,
        name: id.to_lowercase().into(),
        status: Status::Warn,
        detail: format!("{n} of {id}"),
        target: Target::pod(&Place::host(format!("p-{n}")), 0).into(),
        kv_path: KvPath::Required,
        evidence: vec![],
        fix: None,
        reason: None,
        left_out: None,
        causes: if id == "A" { &["C"] } else { &[] },
        order: 0,
        rare: Parts {
            headline: "something is wrong".to_owned(),
            follows: vec!["b".to_owned()],
            ..Parts::default()
        }
        .into(),
    };
    soon("findings on many containers", || {
        let all = (0..20_000).flat_map(|n| ["A", "B", "C"].map(|id| finding(id, n)));
        let report = Report::new("node", vec![], all.collect(), vec![], vec![]);
        // A follows B, and C follows A.
        assert_eq!(report.fix_first.len(), 20_000);
    });
}
