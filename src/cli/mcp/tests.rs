//! Tests of the tools' arguments, answers and pages.

use super::child::summary;
use super::offers::{Field, Form, NUMBERS, bounds};
use super::*;
use rmcp::model::JsonObject;
use serde_json::{Value, json};

fn line(name: &str, arguments: Value) -> Result<Vec<String>, String> {
    let offer = OFFERS.iter().find(|o| o.name == name).unwrap();
    offer.line(arguments.as_object().unwrap())
}

#[test]
fn arguments_become_a_command_line_and_never_options() {
    let given =
        json!({"deployment": "--transfer", "namespace": "--save=/x", "nodes": true, "isl": 8000});
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
    let page = include_str!("../../../docs/mcp.md");
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
    for (name, given, wanted) in [
        ("env", json!({"paths": []}), "env needs paths"),
        (
            "env",
            json!({"paths": [" "]}),
            "paths of env must be a list of texts",
        ),
        (
            "check",
            json!({"deployment": "x", "ttft_slo": 500}),
            "ttft_slo of check needs isl",
        ),
        (
            "check",
            json!({"deployment": "x", "selector": "a=b"}),
            "check takes deployment or selector, not both",
        ),
        (
            "node",
            json!({"inputs": ["topo=x"], "pods": ["p"]}),
            "node takes inputs or pods, not both",
        ),
        (
            "node",
            json!({"pods": [], "namespace": "x"}),
            "namespace of node needs pods or selector: without them, this machine is looked at",
        ),
    ] {
        assert_eq!(line(name, given).unwrap_err(), wanted);
    }
}

/// Whatever two arguments a host combines: a command line that the program would refuse is refused in the tool's own words.
#[test]
fn what_the_tool_takes_the_program_takes() {
    use clap::Parser;
    let one = |field: &Field| match field.form {
        Form::Switch(_) => json!(true),
        Form::Each("input") => json!(["topo=file"]),
        Form::Each(_) | Form::AllAlone => json!(["x"]),
        _ if bounds(field).is_some() => json!(5),
        _ => json!("x"),
    };
    let mut refused = 0;
    for offer in OFFERS {
        for first in offer.fields {
            for second in offer.fields {
                let mut given = JsonObject::new();
                for field in offer
                    .fields
                    .iter()
                    .filter(|f| f.required)
                    .chain([first, second])
                {
                    given.insert(field.name.to_owned(), one(field));
                }
                let Ok(line) = offer.line(&given) else {
                    refused += 1;
                    continue;
                };
                let all = std::iter::once("program".to_owned()).chain(line.clone());
                let parsed = crate::cli::Cli::try_parse_from(all);
                assert!(parsed.is_ok(), "{line:?}: {}", parsed.unwrap_err());
            }
        }
    }
    assert!(refused > 0);
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
