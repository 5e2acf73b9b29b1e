//! The effective environment of a container: several levels, the later one wins, and Kubernetes' own references.

use super::budget::Budget;
use super::companion::Companions;
use super::place::{self, Range};
use super::word::{Piece, kubernetes};
use super::yaml::Node;
use crate::catalogue;
use std::collections::{BTreeSet, HashMap};

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

/// Longer values are not put together from references: a few lines can make gigabytes.
pub(super) const TEXT_CAP: usize = 64 << 10;

/// References of one container make no more than this.
const MADE_CAP: usize = 4 << 20;

/// One variable.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    /// Its value.
    pub value: Value,
    /// Made of a variable that is not catalogued, which may hold a secret: used, and never shown.
    pub foreign: bool,
    /// Level that set it last.
    pub from: String,
    /// Where it is written.
    pub range: Range,
}

impl Setting {
    /// A value of its own.
    pub fn new(value: Value, from: &str, range: Range) -> Self {
        Self {
            value,
            foreign: false,
            from: from.to_owned(),
            range,
        }
    }

    /// The text, where it is written out.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The same setting with a value that only the running container knows.
    pub fn unknown(&self) -> Self {
        Self {
            value: Value::Dynamic,
            ..self.clone()
        }
    }
}

/// May a value that quotes this variable hold a secret? Only catalogued variables are known to hold none.
pub(super) fn is_foreign(name: &str, setting: Option<&Setting>) -> bool {
    setting.is_some_and(|s| s.foreign) || catalogue::find(name).is_none()
}

/// All variables of one container, catalogued or not.
#[derive(Debug, Clone, Default)]
pub(super) struct Env {
    settings: HashMap<String, Setting>,
    /// Some variables come from a Secret or a ConfigMap that is not in the input, names included.
    open: bool,
    /// Bytes that references made.
    made: usize,
    /// There were more variables than the run has room for.
    cut: bool,
    /// Catalogued variables whose value is a number or a boolean.
    unquoted: BTreeSet<&'static str>,
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
        self.get(name)?.text()
    }

    /// How many variables there are.
    pub fn len(&self) -> usize {
        self.settings.len()
    }

    /// All variables, in no order.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Setting)> {
        self.settings
            .iter()
            .map(|(name, setting)| (name.as_str(), setting))
    }

    /// Sets or replaces a variable, and gives what was there.
    pub fn set(&mut self, name: &str, setting: Setting) -> Option<Setting> {
        match self.settings.get_mut(name) {
            Some(old) => Some(std::mem::replace(old, setting)),
            None => self.settings.insert(name.to_owned(), setting),
        }
    }

    /// Takes a variable away, and gives it.
    pub fn unset(&mut self, name: &str) -> Option<Setting> {
        self.settings.remove(name)
    }

    /// What the API server will not take, for a note.
    pub fn rejected(&self) -> Option<String> {
        let names: Vec<&str> = self.unquoted.iter().copied().collect();
        (!names.is_empty()).then(|| {
            format!(
                "the values of {} are not quoted: the API server takes texts only, no numbers and no booleans",
                names.join(", ")
            )
        })
    }

    /// There were more variables than the run has room for: the rest was not read.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// May any variable that is not listed be set all the same?
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Says whether any variable that is not listed may be set.
    pub fn set_open(&mut self, open: bool) {
        self.open = open;
    }

    /// May a variable that is not listed be set all the same?
    pub fn may_hold(&self, name: &str) -> bool {
        self.open || INJECTED.contains(&name)
    }

    /// Keeps what both say alike; anything else is known only when the container runs.
    pub fn meet(&mut self, other: &Self) {
        for (name, setting) in &mut self.settings {
            if other.get(name).map(|s| &s.value) != Some(&setting.value) {
                *setting = setting.unknown();
            }
        }
        for (name, setting) in other.all() {
            if self.get(name).is_none() {
                self.set(name, setting.unknown());
            }
        }
        self.open |= other.open;
    }

    /// Applies an `env` list.
    pub fn apply(
        &mut self,
        list: Node<'_>,
        level: &str,
        home: usize,
        all: &Companions<'_>,
        budget: &Budget,
    ) {
        for entry in list.items() {
            if !budget.variable(0) {
                (self.cut, self.open) = (true, true);
                return;
            }
            let Some(name) = entry.word_at(&["name"]) else {
                continue;
            };
            let Some(range) = place::named(entry) else {
                continue;
            };
            let reference = entry.get("valueFrom").filter(|v| v.is_map());
            let mut foreign = false;
            let (value, resolved) = match reference {
                None => {
                    if entry.get("value").is_some_and(Node::is_no_text)
                        && let Some(variable) = catalogue::find(name)
                    {
                        self.unquoted.insert(variable.name);
                    }
                    let written = entry.get("value").and_then(Node::word).unwrap_or_default();
                    let (value, taint) = self.expand(written);
                    foreign = taint;
                    (value, false)
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
            let setting = Setting {
                foreign,
                ..Setting::new(value, &from, range)
            };
            self.set(name, setting);
        }
    }

    /// Applies an `envFrom` list. Secrets are never read.
    pub fn apply_from(
        &mut self,
        list: Node<'_>,
        level: &str,
        home: usize,
        all: &Companions<'_>,
        budget: &Budget,
    ) {
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
                if !budget.variable(0) {
                    (self.cut, self.open) = (true, true);
                    return;
                }
                let (Some(key), Some(text)) = (key.text(), value.text()) else {
                    continue;
                };
                let from = format!("{level}<-configMap");
                let setting = Setting::new(Value::Text(text.to_owned()), &from, range);
                self.set(&format!("{prefix}{key}"), setting);
            }
        }
    }

    /// Replaces `$(NAME)` as Kubernetes does: only variables that are already defined; `$$` is one dollar. Also says
    /// whether the text may hold a secret now.
    /// <https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/>
    fn expand(&mut self, written: &str) -> (Value, bool) {
        if is_placeholder(written) {
            return (Value::Dynamic, false);
        }
        if !written.contains('$') {
            return (Value::Text(written.to_owned()), false);
        }
        let (mut out, mut foreign) = (String::with_capacity(written.len()), false);
        for piece in kubernetes(written) {
            let name = match &piece {
                Piece::Text(text) => {
                    out.push_str(text);
                    continue;
                }
                Piece::Kubernetes(name) => name,
                Piece::Variable { .. } | Piece::Computed => return (Value::Dynamic, true),
            };
            match self.get(name) {
                Some(setting) => {
                    let Some(text) = setting.text() else {
                        return (Value::Dynamic, false);
                    };
                    foreign |= is_foreign(name, Some(setting));
                    out.push_str(text);
                    self.made += text.len();
                }
                None if self.may_hold(name) => return (Value::Dynamic, false),
                None => out.extend(["$(", name, ")"]),
            }
            if out.len() > TEXT_CAP || self.made > MADE_CAP {
                return (Value::Dynamic, foreign);
            }
        }
        (Value::Text(out), foreign)
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
