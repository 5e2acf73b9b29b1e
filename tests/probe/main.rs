//! The probe's script, run for real under the shells a container may have, against file trees and hostile tools.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod hostile;
mod machine;
mod machines;
mod shells;

use dynamo_interconnect_check::ask::{self, Ask};
use dynamo_interconnect_check::probe::local;
use dynamo_interconnect_check::probe::script::{Options, Script};
use dynamo_interconnect_check::snapshot::{Answer, Place, Snapshot};
use machine::Scratch;
use shells::Shell;
use std::time::Duration;

const NONCE: &str = "4f1c09d6a7b35e82";

const VARIABLES: &[&str] = &[
    "UCX_TLS",
    "UCX_NET_DEVICES",
    "NATS_SERVER",
    "NCCL_IB_HCA",
    "KV_TRANSFER_CONFIG",
];

fn script(asks: &[&'static Ask], root: &Scratch) -> Script {
    let root = root.path().to_str().unwrap();
    let options = Options {
        variables: VARIABLES,
        nonce: NONCE,
        deadline: Duration::from_secs(20),
        root,
    };
    Script::new(asks, &options).unwrap()
}

fn collect(shell: &Shell, script: &Script) -> Snapshot {
    local::collect_with(
        shell.command(),
        script,
        Place::host("test"),
        Duration::from_secs(25),
    )
}

/// All answers as text: what a person would want to compare.
fn shown(snapshot: &Snapshot) -> String {
    let mut shown = String::new();
    for ask in ask::ALL {
        match snapshot.answers.get(ask.id) {
            Some(Answer::Text(text)) if text.is_empty() => {
                shown += &format!("== {} (nothing)\n", ask.id)
            }
            Some(Answer::Text(text)) => shown += &format!("== {}\n{}\n", ask.id, text.trim_end()),
            Some(Answer::Missing { reason, detail }) => {
                shown += &format!("== {} MISSING {}: {detail}\n", ask.id, reason.word());
            }
            None => {}
        }
    }
    shown
}
