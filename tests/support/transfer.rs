//! What the transfer tests share.

use dynamo_interconnect_check::transfer::protocol::Memory;
use dynamo_interconnect_check::transfer::{
    End, Intent, Limits, Settings, Step, TransferRecord, Verdict, judge,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// Settings that a test can afford.
pub fn settings(nonce: &str, steps: Vec<Step>) -> Settings {
    Settings {
        backend: "UCX".to_owned(),
        memory: Memory::Host,
        gpu: 0,
        same_container: false,
        steps,
        echo: ["UCX_TLS", "UCX_NET_DEVICES"].map(str::to_owned).to_vec(),
        nonce: nonce.to_owned(),
        seed: 7,
        limits: Limits {
            run: Duration::from_secs(60),
            ..Limits::default()
        },
        root: String::new(),
    }
}

/// One end with one interpreter and no variables.
pub fn end<'a, O>(label: &str, place: &'a O, python: &str) -> End<'a, O> {
    End {
        label: label.to_owned(),
        place,
        pythons: vec![python.to_owned()],
        ld: BTreeMap::new(),
        env: BTreeMap::new(),
    }
}

/// The verdict for a deployment whose KV lies in host memory on purpose.
pub fn judged_on_host(record: &TransferRecord) -> Verdict {
    let intent = Intent {
        host_memory: true,
        ..Intent::default()
    };
    judge(record, &intent)
}
