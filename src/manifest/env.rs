//! The effective environment of a container: several levels, the later one wins, and Kubernetes' own references.

use super::companion::Companions;
use super::place::{self, Range};
use super::shell::is_name;
use super::yaml::Node;
use std::collections::HashMap;

/// A value as far as the manifest says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    /// Written out.
    Text(String),
    /// From a field, a Secret, or a ConfigMap that is not in the input.
    Elsewhere,
    /// Known only when the container runs.
    Dynamic,
}

/// One variable.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    /// Its value.
    pub value: Value,
    /// Level that set it last.
    pub from: String,
    /// Where it is written.
    pub range: Range,
}

/// All variables of one container, catalogued or not.
#[derive(Debug, Default)]
pub(super) struct Env {
    settings: HashMap<String, Setting>,
    /// Some variables come from a Secret or a ConfigMap that is not in the input, names included.
    open: bool,
}

/// What the operator sets in every worker, as far as other values refer to it.
/// <https://github.com/wxsms/dynamo/tree/2a6da14/deploy/operator>
const INJECTED: [&str; 7] = [
    "POD_NAME",
    "POD_NAMESPACE",
    "POD_UID",
    "POD_IP",
    "DYN_NAMESPACE",
    "DYN_COMPONENT",
    "DYN_PARENT_DGD_K8S_NAME",
];

impl Env {
    /// A variable.
    pub fn get(&self, name: &str) -> Option<&Setting> {
        self.settings.get(name)
    }

    /// The text of a variable that is written out.
    pub fn text(&self, name: &str) -> Option<&str> {
        match &self.get(name)?.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// All variables, in no order.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Setting)> {
        self.settings
            .iter()
            .map(|(name, setting)| (name.as_str(), setting))
    }

    /// Sets or replaces a variable.
    pub fn set(&mut self, name: &str, setting: Setting) {
        self.settings.insert(name.to_owned(), setting);
    }

    /// Takes a variable away.
    pub fn unset(&mut self, name: &str) {
        self.settings.remove(name);
    }

    /// May a variable that is not listed be set all the same?
    pub fn may_hold(&self, name: &str) -> bool {
        self.open || INJECTED.contains(&name)
    }

    /// Applies an `env` list.
    pub fn apply(&mut self, list: Node<'_>, level: &str, home: usize, all: &Companions<'_>) {
        for entry in list.items() {
            let Some(name) = entry.word_at(&["name"]) else {
                continue;
            };
            let Some(range) = place::named(entry) else {
                continue;
            };
            let reference = entry.get("valueFrom").filter(|v| v.is_map());
            let (value, resolved) = match reference {
                None => {
                    let written = entry.get("value").and_then(Node::word).unwrap_or_default();
                    (self.expand(written), false)
                }
                Some(reference) => {
                    let found = reference.get("configMapKeyRef").and_then(|r| {
                        all.config_value(home, r.word_at(&["name"])?, r.word_at(&["key"])?)
                    });
                    match found {
                        Some(text) => (Value::Text(text.to_owned()), true),
                        None => (Value::Elsewhere, false),
                    }
                }
            };
            let from = if resolved {
                format!("{level}<-configMap")
            } else {
                level.to_owned()
            };
            self.set(name, Setting { value, from, range });
        }
    }

    /// Applies an `envFrom` list. Secrets are never read.
    pub fn apply_from(&mut self, list: Node<'_>, level: &str, home: usize, all: &Companions<'_>) {
        for entry in list.items() {
            let map = entry
                .word_at(&["configMapRef", "name"])
                .and_then(|name| all.config_map(home, name));
            let Some(data) = map.and_then(|map| map.get("data")) else {
                self.open = true;
                continue;
            };
            let prefix = entry.word_at(&["prefix"]).unwrap_or_default();
            let range = entry
                .pair("configMapRef")
                .map_or(Range::of(entry), |(key, _)| Range::pair(key, entry));
            for (key, value) in data.entries() {
                let (Some(key), Some(text)) = (key.text(), value.text()) else {
                    continue;
                };
                let from = format!("{level}<-configMap");
                self.set(
                    &format!("{prefix}{key}"),
                    Setting {
                        value: Value::Text(text.to_owned()),
                        from,
                        range,
                    },
                );
            }
        }
    }

    /// Replaces `$(NAME)` as Kubernetes does: only variables that are already defined; `$$(NAME)` is text.
    /// <https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/>
    fn expand(&self, written: &str) -> Value {
        if is_placeholder(written) {
            return Value::Dynamic;
        }
        if !written.contains("$(") {
            return Value::Text(written.to_owned());
        }
        let mut out = String::with_capacity(written.len());
        let mut rest = written;
        while let Some(at) = rest.find("$(") {
            let Some(close) = rest[at..].find(')') else {
                break;
            };
            let name = &rest[at + 2..at + close];
            let whole = &rest[at..=at + close];
            if let Some(before) = rest[..at].strip_suffix('$') {
                out.push_str(before);
                out.push_str(whole);
            } else {
                out.push_str(&rest[..at]);
                match self.get(name).map(|s| &s.value) {
                    Some(Value::Text(text)) => out.push_str(text),
                    Some(_) => return Value::Dynamic,
                    None if is_name(name) && self.may_hold(name) => return Value::Dynamic,
                    None => out.push_str(whole),
                }
            }
            rest = &rest[at + close + 1..];
        }
        out.push_str(rest);
        Value::Text(out)
    }
}

/// A value that somebody has to fill in before the manifest is used: `${NAME}` for envsubst, `<your-nic>` for a person.
/// References inside a larger JSON text are left alone: they say less than the text around them.
pub(super) fn is_placeholder(text: &str) -> bool {
    let text = text.trim();
    if text.len() > 2 && text.starts_with('<') && text.ends_with('>') {
        return true;
    }
    !text.starts_with(['{', '[']) && text.contains("${")
}
