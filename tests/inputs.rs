//! Files, directories, links, pipes and kustomizations: what is read, and what is said of the rest.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "support/skip.rs"]
mod skip;

use dynamo_interconnect_check::input;
use dynamo_interconnect_check::manifest::Inventory;
use dynamo_interconnect_check::manifest::workload::{EnvValue, Worker};
use std::fs;
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/manifests")
        .join(name)
}

fn inventory(name: &str) -> Inventory {
    input::read(&[fixture(name)])
}

/// An empty directory of its own for a test.
fn scratch(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory
}

/// A variable as `value from`.
fn variable(worker: &Worker, name: &str) -> String {
    let entry = &worker.env[name];
    let value = match &entry.value {
        EnvValue::Literal(text) => text.clone(),
        other => format!("{other:?}"),
    };
    format!("{value} {}", entry.from)
}

#[test]
fn what_is_not_text_is_an_error_where_it_is_named() {
    let directory = scratch("unreadable");
    let files: [(&str, &[u8], &str); 4] = [
        ("latin.yaml", b"a: \xe9\n", "not UTF-8 at byte 3"),
        ("binary.yaml", b"a: \0\n", "NUL"),
        ("wide.yaml", b"\xff\xfea\0", "UTF-16"),
        ("good.yml", b"kind: Secret\n", ""),
    ];
    for (name, bytes, _) in files {
        fs::write(directory.join(name), bytes).unwrap();
    }
    let large = fs::File::create(directory.join("large.yaml")).unwrap();
    large.set_len(17 << 20).unwrap();
    for (name, message) in files[..3]
        .iter()
        .map(|f| (f.0, f.2))
        .chain([("large.yaml", "larger than 16 MiB")])
    {
        let errors = input::read(&[directory.join(name)]).errors;
        assert!(
            errors.len() == 1 && errors[0].message.contains(message),
            "{errors:?}"
        );
    }
    let met = input::read(&[directory]);
    assert_eq!((met.errors.len(), met.notes.len(), met.files), (0, 4, 1));
}

#[test]
fn broken_documents_met_on_the_way_are_noted() {
    let directory = scratch("broken-on-the-way");
    let files = [
        ("a.yaml", "kind: ConfigMap\nmetadata: {name: a\ndata: [\n"),
        ("b.yaml", "kind: Job\nspec: [\n"),
        ("c.yaml", "kind: Job\nspec: {}\n"),
        ("d.yaml", "kind: DynamoGraphDeployment\nspec: [\n"),
    ];
    for (name, text) in files {
        fs::write(directory.join(name), text).unwrap();
    }
    let inventory = input::read(&[directory]);
    let noted: Vec<bool> = ["a.yaml:3", "b.yaml:2"]
        .iter()
        .map(|at| {
            inventory
                .notes
                .iter()
                .any(|n| n.object.contains(at) && n.message.starts_with("not valid YAML"))
        })
        .collect();
    assert_eq!(
        (noted, inventory.notes.len()),
        (vec![true, true], 2),
        "{:?}",
        inventory.notes
    );
    assert_eq!(inventory.errors.len(), 1);
}

#[test]
fn directories_are_walked_once_and_hidden_ones_never() {
    let inventory = inventory("tree");
    assert_eq!((inventory.files, inventory.workloads.len()), (1, 1));
    assert!(
        inventory.workloads[0]
            .source
            .file
            .path
            .ends_with("tree/deep/graph.yaml")
    );
    let empty = input::read(&[scratch("empty")]);
    assert!(
        empty.notes[0].message.contains("no *.yaml"),
        "{:?}",
        empty.notes
    );
    let missing = input::read(&[fixture("nowhere.yaml")]);
    assert!(missing.errors[0].message.starts_with("no such file"));
    let twice = input::read(&[fixture("tree/deep/graph.yaml"), fixture("tree")]);
    assert_eq!(twice.workloads.len(), 1);
}

#[cfg(unix)]
#[test]
fn links_in_a_circle_end() {
    let directory = scratch("circle");
    fs::create_dir_all(directory.join("a/b")).unwrap();
    fs::write(
        directory.join("a/b/x.yaml"),
        "kind: DynamoGraphDeployment\nspec: {components: [{type: worker}]}\n",
    )
    .unwrap();
    std::os::unix::fs::symlink("../..", directory.join("a/b/up")).unwrap();
    std::os::unix::fs::symlink("self", directory.join("self")).unwrap();
    std::os::unix::fs::symlink("nowhere", directory.join("gone.yaml")).unwrap();
    let inventory = input::read(&[directory]);
    assert_eq!((inventory.workloads.len(), inventory.errors.len()), (1, 0));
    assert!(
        inventory.notes[0].object.ends_with("gone.yaml"),
        "{:?}",
        inventory.notes
    );
}

#[cfg(unix)]
#[test]
fn pipes_and_sockets_are_named_and_never_waited_for() {
    let directory = scratch("special");
    let pipe = directory.join("pipe.yaml");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let socket = directory.join("s.yaml");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for (path, what) in [(&pipe, "a named pipe"), (&socket, "a socket")] {
        let errors = input::read(std::slice::from_ref(path)).errors;
        assert!(
            errors.len() == 1 && errors[0].message.starts_with(what),
            "{errors:?}"
        );
    }
    let met = input::read(&[directory]);
    let notes: Vec<&str> = met.notes.iter().map(|n| &n.message[..8]).collect();
    assert_eq!((notes, met.errors.len()), (vec!["a named ", "a socket"], 0));
}

#[test]
fn kustomizations_are_rendered_where_they_are_named() {
    let below = inventory("kustomization");
    assert_eq!(below.workloads.len(), 1);
    assert!(
        below
            .notes
            .iter()
            .any(|n| n.message.contains("2 kustomizations below it")),
        "{:?}",
        below.notes
    );
    assert!(
        below
            .notes
            .iter()
            .any(|n| n.message.contains("a kustomize patch")),
        "{:?}",
        below.notes
    );
    let path = std::env::var_os("PATH").unwrap_or_default();
    let tool = ["kustomize", "kubectl"]
        .iter()
        .any(|t| std::env::split_paths(&path).any(|d| d.join(t).is_file()));
    for name in [
        "kustomization/overlay",
        "kustomization/overlay/kustomization.yaml",
    ] {
        let rendered = inventory(name);
        if tool {
            let graph = &rendered.workloads[0];
            assert_eq!(
                (graph.name.as_str(), &rendered.errors[..]),
                ("rendered-base", &[][..])
            );
            assert_eq!(
                variable(&graph.workers[0], "UCX_TLS"),
                "rc mainContainer.env"
            );
            assert!(
                graph.source.file.path.starts_with("<kustomize build "),
                "{}",
                graph.source.file.path
            );
        } else {
            skip::aloud("rendering of a kustomization: neither kustomize nor kubectl is on PATH");
            assert!(
                rendered
                    .notes
                    .iter()
                    .any(|n| n.message.contains("kustomize nor kubectl"))
            );
        }
    }
}

#[test]
fn a_kustomize_component_is_called_one() {
    let directory = scratch("component");
    let text = "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: \"Component\" # part\npatches: [{path: p.yaml}]\n";
    fs::write(directory.join("kustomization.yaml"), text).unwrap();
    fs::write(
        directory.join("p.yaml"),
        "kind: Pod\nmetadata: {name: p}\nspec: {containers: [{args: [dynamo.]}]}\n",
    )
    .unwrap();
    for path in [directory.clone(), directory.join("kustomization.yaml")] {
        let inventory = input::read(&[path]);
        assert!(
            inventory.notes[0]
                .message
                .contains("name an overlay that uses it"),
            "{:?}",
            inventory.notes
        );
        assert_eq!(inventory.documents["Pod"], 1);
        assert_eq!(inventory.errors, []);
    }
}

#[test]
fn only_files_that_hold_what_is_missing_are_read_beside_a_named_one() {
    let directory = scratch("siblings");
    let named = "kind: Pod\nmetadata: {name: p}\nspec:\n  resourceClaims: [{name: c, resourceClaimTemplateName: x}]\n  \
                 containers: [{name: main, args: [dynamo.], resources: {claims: [{name: c}]}, env: [{name: UCX_TLS, \
                 valueFrom: {configMapKeyRef: {name: y, key: k}}}]}]\n";
    let files = [
        ("w.yaml", named),
        // The letter, the name in a value, and the name of another kind.
        (
            "a.yaml",
            "kind: ConfigMap\nmetadata: {name: xylophone}\ndata: {a: x, b: 'name: x'}\n",
        ),
        (
            "b.yaml",
            "kind: ConfigMap\nmetadata: {name: x}\n---\nkind: ResourceClaim\nmetadata: {name: y}\n",
        ),
        (
            "c.yaml",
            "kind: ResourceClaimTemplate\nmetadata: {name: x}\nspec: {spec: {devices: {requests: []}}}\n",
        ),
        (
            "d.yaml",
            "kind: List\nitems: [{kind: ConfigMap, metadata: {name: y}, data: {k: tcp}}]\n",
        ),
    ];
    for (name, text) in files {
        fs::write(directory.join(name), text).unwrap();
    }
    let inventory = input::read(&[directory.join("w.yaml")]);
    let notes: Vec<String> = inventory
        .notes
        .iter()
        .map(|n| {
            format!(
                "{} {}",
                n.object.rsplit('/').next().unwrap(),
                &n.message[..10]
            )
        })
        .collect();
    assert_eq!(notes, ["c.yaml read for x", "d.yaml read for y"]);
    assert_eq!(
        variable(&inventory.workloads[0].workers[0], "UCX_TLS"),
        "tcp container.env<-configMap"
    );
}
