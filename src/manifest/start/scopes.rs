//! Which process a setting belongs to, and how certain it is.

use super::Reader;
use crate::manifest::env::Setting;
use crate::manifest::shell::Guard;

/// A process of its own: what was there before is put back when it ends.
pub(super) struct Scope {
    log: Vec<(String, Kind, Option<Setting>)>,
    all: bool,
    open: bool,
    /// How many commands had served when it began.
    serves: usize,
    /// How many settings were pending when it began.
    pending: usize,
}

/// Where a variable is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// In the environment of every child.
    Exported,
    /// In the shell alone.
    Local,
}

impl Reader<'_> {
    pub(super) fn enter(&mut self) {
        self.scopes.push(Scope {
            log: Vec::new(),
            all: self.all,
            open: self.env.is_open(),
            serves: self.serves,
            pending: self.pending.len(),
        });
    }

    pub(super) fn leave(&mut self) {
        if let Some(pending) = self.scopes.last().map(|s| s.pending) {
            self.settle(pending);
        }
        let Some(scope) = self.scopes.pop() else {
            return;
        };
        for (name, kind, old) in scope.log.into_iter().rev() {
            if kind == Kind::Exported
                && self.serves == scope.serves
                && let Some(now) = self.env.get(&name)
            {
                self.doubtful.insert(name.clone(), now.clone());
            }
            self.replace(&name, kind, old);
        }
        self.all = scope.all;
        self.env.set_open(scope.open);
        if self.stopped.is_some_and(|depth| depth > self.scopes.len()) {
            self.stopped = None;
        }
    }

    /// Puts a setting in its place, and gives the old one.
    pub(super) fn replace(
        &mut self,
        name: &str,
        kind: Kind,
        setting: Option<Setting>,
    ) -> Option<Setting> {
        match (kind, setting) {
            (Kind::Exported, Some(setting)) => self.env.set(name, setting),
            (Kind::Exported, None) => self.env.unset(name),
            (Kind::Local, Some(setting)) => self.locals.insert(name.to_owned(), setting),
            (Kind::Local, None) => self.locals.remove(name),
        }
    }

    pub(super) fn write(
        &mut self,
        name: &str,
        kind: Kind,
        setting: Option<Setting>,
    ) -> Option<Setting> {
        let old = self.replace(name, kind, setting);
        if let Some(scope) = self.scopes.last_mut() {
            scope.log.push((name.to_owned(), kind, old.clone()));
        }
        old
    }

    pub(super) fn get(&self, name: &str, kind: Kind) -> Option<&Setting> {
        match kind {
            Kind::Exported => self.env.get(name),
            Kind::Local => self.locals.get(name),
        }
    }

    /// The chain of `&&` is over, and nobody knows how far it ran.
    pub(super) fn settle(&mut self, from: usize) {
        for (name, kind, old) in self.pending.split_off(from).into_iter().rev() {
            let now = self.get(&name, kind);
            if now.map(|s| &s.value) != old.as_ref().map(|s| &s.value)
                && let Some(setting) = now.or(old.as_ref()).cloned()
            {
                self.write(&name, kind, Some(setting.unknown()));
            }
        }
    }

    pub(super) fn put(&mut self, name: &str, kind: Kind, setting: Setting, guard: Guard) {
        let same = self
            .get(name, kind)
            .is_some_and(|old| old.value == setting.value);
        let setting = if guard == Guard::Maybe && !same {
            setting.unknown()
        } else {
            setting
        };
        let old = self.write(name, kind, Some(setting));
        if matches!(guard, Guard::Chain(_)) {
            self.pending.push((name.to_owned(), kind, old));
        }
    }

    pub(super) fn remove(&mut self, name: &str, kind: Kind, guard: Guard) {
        let Some(old) = self.get(name, kind).cloned() else {
            return;
        };
        let left = (guard != Guard::Sure).then(|| old.unknown());
        self.write(name, kind, left);
    }
}
