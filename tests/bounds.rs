//! Hostile inputs end soon: in an error, a note, or a value that is not known.

use dynamo_interconnect_check::manifest::{Inventory, Text, read};
use dynamo_interconnect_check::source::SourceFile;
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

/// Long enough for a slow machine, far too short for anything that grows with the square.
fn soon(what: &str, run: impl FnOnce()) {
    let begun = std::time::Instant::now();
    run();
    let took = begun.elapsed();
    assert!(took.as_secs() < 4, "{took:?}: {what}");
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
        // Long enough for a slow machine, far too short for anything that grows with the square.
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
