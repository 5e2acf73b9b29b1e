//! Waiting that can be seen: one bar on stderr, only when it is a terminal, and the names of the slow ones.

use crate::sanitise;
use indicatif::{ProgressBar, ProgressStyle};
use std::sync::Mutex;
use std::time::Duration;

/// A bar over named targets.
pub(super) struct Bar {
    bar: ProgressBar,
    waiting: Mutex<Vec<Option<String>>>,
}

impl Bar {
    /// A bar that begins now. On anything but a terminal it draws nothing.
    pub(super) fn new(doing: &'static str, targets: Vec<String>) -> Self {
        let bar = ProgressBar::new(targets.len() as u64);
        let template = "{prefix} {pos} of {len} {wide_bar} {elapsed} {msg}";
        bar.set_style(
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        bar.set_prefix(doing);
        bar.enable_steady_tick(Duration::from_millis(200));
        Self {
            bar,
            waiting: Mutex::new(targets.into_iter().map(Some).collect()),
        }
    }

    /// A bar over things without names, with the time that is left.
    pub(super) fn counting(doing: &'static str, of: usize) -> Self {
        let bar = Self::new(doing, Vec::new());
        bar.bar.set_length(of as u64);
        bar
    }

    /// So many are done, and so much time is left.
    pub(super) fn left(&self, done: usize, left: Duration) {
        self.bar.set_position(done as u64);
        self.bar
            .set_message(format!("about {} s left", left.as_secs()));
    }

    /// The target at this position is done. The last few that are still out are named.
    pub(super) fn done(&self, index: usize) {
        const NAMED: usize = 3;
        // Beside the rest of the line in 80 columns.
        const ROOM: usize = 40;
        let mut waiting = self
            .waiting
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(slot) = waiting.get_mut(index) {
            *slot = None;
        }
        let out: Vec<&str> = waiting.iter().flatten().map(String::as_str).collect();
        if out.len() <= NAMED {
            self.bar.set_message(sanitise::line(&out.join(", "), ROOM));
        }
        self.bar.inc(1);
    }

    /// Takes the bar away.
    pub(super) fn finish(self) {
        self.bar.finish_and_clear();
    }
}
