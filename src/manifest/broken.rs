//! Texts that are no manifest: errors and notes that say where, what and what to do, and show no value.

use super::yaml::YamlError;
use crate::report::InputError;
use crate::sanitise;
use crate::source::SourceFile;

/// The error for a document that is no YAML.
pub(super) fn error(file: &SourceFile, e: &YamlError) -> InputError {
    let shown = masked_line(&file.text, e.offset);
    let caret = " ".repeat((e.column as usize).saturating_sub(1).min(120));
    let what = sanitise::line(&e.what, 300);
    let indented_by_tab = file.text.get(..e.offset).is_some_and(|head| {
        let line = head.rsplit('\n').next().unwrap_or_default();
        line.contains('\t') && line.trim().is_empty()
    });
    let at_tab = file
        .text
        .get(e.offset..)
        .is_some_and(|t| t.starts_with('\t'));
    let advice = if indented_by_tab || at_tab {
        "YAML indents with blanks, never with tabs"
    } else {
        "correct the line; the other documents of the file were read"
    };
    InputError {
        object: format!("{}:{}:{}", file.path, e.line, e.column),
        message: format!("not valid YAML: {what}; {advice}\n  {shown}\n  {caret}^"),
    }
}

/// Keys that are shown where a line is broken. Any other word may be a part of a value.
const KNOWN_KEYS: [&str; 34] = [
    "annotations",
    "apiVersion",
    "args",
    "backendFramework",
    "command",
    "componentType",
    "components",
    "containers",
    "data",
    "env",
    "envFrom",
    "envs",
    "extraPodSpec",
    "image",
    "items",
    "kind",
    "labels",
    "limits",
    "mainContainer",
    "metadata",
    "name",
    "namespace",
    "podTemplate",
    "replicas",
    "requests",
    "resources",
    "securityContext",
    "services",
    "spec",
    "subComponentType",
    "template",
    "type",
    "value",
    "valueFrom",
];

/// The line around a byte, with every value masked: a broken line may hold a token, and nobody can tell which part.
fn masked_line(text: &str, offset: usize) -> String {
    let mut at = offset.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let start = text[..at].rfind('\n').map_or(0, |i| i + 1);
    let line = text[start..].lines().next().unwrap_or_default();
    let from = line.len() - line.trim_start_matches([' ', '\t', '-', '{', '[']).len();
    let known = key_end(line).filter(|end| {
        let key = line[from..*end].trim_matches(['"', '\'', ':']);
        KNOWN_KEYS.contains(&key)
    });
    let shown = match known {
        Some(end) if line[end..].trim().is_empty() => line[..end].to_owned(),
        Some(end) => format!("{} ...", &line[..end]),
        None if line.trim().is_empty() => line.to_owned(),
        None => format!("{}...", &line[..from]),
    };
    sanitise::line(&shown, 120)
}

/// End of the `key:` that a line begins with. A line without one may be the middle of a value.
fn key_end(line: &str) -> Option<usize> {
    let from = line.len()
        - line
            .trim_start_matches([' ', '\t', '-', '"', '\'', '{', '[', '?'])
            .len();
    let key = line[from..]
        .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/')))?;
    let colon = from + key + usize::from(line[from + key..].starts_with(['"', '\'']));
    let rest = line.get(colon..)?.strip_prefix(':')?;
    let is_key =
        (1..=64).contains(&key) && (rest.is_empty() || rest.starts_with([' ', '\t', '\r']));
    is_key.then_some(colon + 1)
}

/// Does a text that cannot be read look like a Helm template?
pub(super) fn is_helm(text: &str) -> bool {
    [
        "{{-",
        "{{ .",
        "{{.",
        "{{ include",
        "{{ if",
        "{{ end",
        "{{ template",
        "{{ range",
        "{{ with",
        "{{ $",
        "{{ toYaml",
    ]
    .iter()
    .any(|mark| text.contains(mark))
}

/// What to do with a Helm template.
pub(super) const HELM: &str = "unrendered Helm template, skipped: render it first: helm template ... | dynamo-interconnect-check env -";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::yaml::Tree;

    #[test]
    fn a_broken_line_shows_its_key_and_not_its_value() {
        for text in [
            "a: 1\ntoken: s3cret: x\n",
            "a: [s3cret\n",
            "s3cret\nb: 1\n",
            "x:\n\ty: s3cret\n",
            "x:\n- a\n- s3cret: {\n",
            "s3cret: 1\ns3cret: 2\n",
            "x: *s3cret\n",
            "x: !s3cret!y z\n",
            "%s3cret [\n--- !s3cret!x\n",
            "x: \"\\s3cret\"\n",
        ] {
            let file = SourceFile {
                path: "f.yaml".into(),
                text: text.into(),
            };
            let e = Tree::parse(text, 0, 1).unwrap_err();
            let e = error(&file, &e);
            assert!(!e.message.contains("s3cret"), "{}", e.message);
            assert!(e.object.starts_with("f.yaml:"), "{}", e.object);
        }
    }

    #[test]
    fn a_known_key_is_shown() {
        let file = SourceFile {
            path: "f.yaml".into(),
            text: "spec:\n  - name: a: b\n".into(),
        };
        let e = error(&file, &Tree::parse(&file.text, 0, 1).unwrap_err());
        assert!(e.message.contains("  - name: ...\n"), "{}", e.message);
    }
}
