//! Ctrl-C, and the signal by which a supervisor ends a program.

use crate::report::ExitCode;
use std::sync::mpsc::channel;
use tokio::signal::unix::{SignalKind, signal};

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

/// Until the first interrupt; for ever where none can be heard.
pub(super) async fn interrupted() {
    let (ask, asked) = tokio::sync::oneshot::channel();
    on_interrupt(move || {
        // Nobody listens once the run has ended by itself.
        let _ = ask.send(());
    });
    if asked.await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Ends the process with the code of an interrupted run.
#[expect(
    clippy::exit,
    reason = "whoever asks twice wants no report, and destructors may be what hangs"
)]
pub(super) fn leave() {
    std::process::exit(i32::from(ExitCode::Interrupted as u8));
}
