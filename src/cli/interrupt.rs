//! Ctrl-C, and the signal by which a supervisor ends a program.

use crate::report::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot::Receiver;

/// From here on the first of the two signals calls `first`, which sees to an orderly end; the second ends the process at
/// once, whatever it is at. Where no handler can be set the usual action stays: the process ends without a report.
pub(super) fn on_interrupt(first: impl FnOnce() + Send + 'static) {
    let (set, ready) = channel();
    let thread = std::thread::Builder::new().spawn(move || {
        // Setting them panics where there are no descriptors.
        if super::room().is_err() {
            return;
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let Ok(runtime) = runtime else { return };
        runtime.block_on(async {
            let (Ok(mut interrupt), Ok(mut terminate)) = (
                signal(SignalKind::interrupt()),
                signal(SignalKind::terminate()),
            ) else {
                return;
            };
            let _ = set.send(());
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            first();
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            leave();
        });
    });
    // A thread that could not set them has gone, or there is none.
    if thread.is_ok() {
        let _ = ready.recv();
    }
}

/// The first interrupt, for what looks now and then and for what waits.
pub(super) struct Interrupt {
    /// It has come.
    pub(super) asked: Arc<AtomicBool>,
    told: Receiver<()>,
}

impl Interrupt {
    /// Hears the two signals from here on.
    pub(super) fn listen() -> Self {
        let (tell, told) = tokio::sync::oneshot::channel();
        let asked = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&asked);
        on_interrupt(move || {
            flag.store(true, Ordering::Relaxed);
            // Nobody listens once the run has ended by itself.
            let _ = tell.send(());
        });
        Self { asked, told }
    }

    /// Until it comes; for ever where none can be heard.
    pub(super) async fn heard(self) {
        if self.told.await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Ends the process, and what a transfer runs on this machine, with the code of an interrupted run.
#[expect(
    clippy::exit,
    reason = "whoever asks twice wants no report, and destructors may be what hangs"
)]
pub(super) fn leave() {
    crate::transfer::stream::end_all();
    std::process::exit(i32::from(ExitCode::Interrupted as u8));
}
