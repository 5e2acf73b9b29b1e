//! What limits a verdict: why right bytes prove no lane, and what else a reader should know.

use super::lanes::percent;
use super::{Intent, Path, RATE_BOUNCE, RATE_TCP, StepVerdict};
use crate::report::{Gap, GapKind};
use crate::transfer::counted::Agreement;
use crate::transfer::lane::Class;
use crate::transfer::protocol::Memory;
use crate::transfer::record::TransferRecord;
use std::collections::BTreeMap;

/// Why right bytes prove no lane, what is most in the way first.
pub(super) fn gaps(record: &TransferRecord, steps: &[StepVerdict], intent: &Intent) -> Vec<Gap> {
    let mut out: Vec<Gap> = Vec::new();
    let mut add = |kind, why: String| {
        if out.iter().all(|known| known.kind != kind) {
            out.push(Gap { kind, why });
        }
    };
    if record.same_container {
        let why = "both ends ran in one container, so nothing went from one worker to another";
        add(GapKind::OneContainer, why.to_owned());
    }
    let any_bulk = steps.iter().any(|s| s.bulk);
    let decisive = steps.iter().filter(|s| s.bulk || !any_bulk);
    for step in decisive.clone() {
        if let Some(Agreement::OneSided(why)) = &step.counters {
            add(GapKind::Contradicted, why.clone());
        }
        if let Some(why) = &step.impossible {
            add(GapKind::Contradicted, why.clone());
        }
        if step.crawls {
            add(GapKind::Contradicted, crawls(step));
        }
        if let Some(share) = step.of_line_rate.filter(|share| *share < RATE_BOUNCE) {
            let why = format!(
                "{} reached {} of the line rate, which looks like TCP or a bounce through software",
                step.what,
                percent(share)
            );
            add(GapKind::Contradicted, why);
        }
    }
    for lane in decisive.filter_map(|s| s.lane.as_ref().ok()) {
        match lane.class {
            _ if record.same_container => {}
            Class::SharedMemory => {
                let why =
                    format!("{lane} is memory of one node, so no link between nodes was used");
                add(GapKind::OneNode, why);
            }
            Class::SoftRoce | Class::SoftIwarp | Class::SoftRdma => {
                let why = format!("{} is no RDMA hardware", lane.class);
                add(GapKind::SoftwareVerbs, why);
            }
            Class::Rdma if intent.path == Path::MultiNodeNvlink => {
                let why = "RDMA carried the bytes, and multi-node NVLink is meant";
                add(GapKind::OtherLane, why.to_owned());
            }
            class if class == Class::Tcp || lane.emulated() => {
                add(
                    GapKind::OtherLane,
                    format!("{lane} carried the bytes, and RDMA or NVLink is meant"),
                );
            }
            _ => {}
        }
    }
    if intent.differs(&record.backend) {
        let own = match &intent.backend {
            Some(own) => format!("the worker uses {own}"),
            None => "the worker's settings name no backend, so that it uses UCX".to_owned(),
        };
        let why = format!("it used {}, and {own}", record.backend);
        add(GapKind::OtherBackend, why);
    }
    if let Some(why) = &intent.other_mover {
        add(GapKind::OtherMover, why.clone());
    }
    let ends = [&record.target, &record.initiator];
    let on_host = ends
        .iter()
        .filter_map(|e| e.ready.as_ref())
        .find(|r| &*r.seg != "VRAM");
    if let Some(ready) = on_host.filter(|_| !intent.host_memory) {
        let why = match &ready.host_memory_because {
            Some(why) if record.memory != Memory::Host => format!(": {why}"),
            _ => String::new(),
        };
        let why =
            format!("the bytes lay in host memory, so the path from GPU to GPU was not used{why}");
        add(GapKind::HostMemory, why);
    }
    out
}

/// What so low a bandwidth says, where there is no line rate to hold it against.
pub(super) fn crawls(step: &StepVerdict) -> String {
    format!(
        "{} reached {:.2} Gb/s, below the {RATE_TCP:.0} Gb/s that TCP or a bounce through software reach (judgement of this project)",
        step.what, step.gbps
    )
}

pub(super) fn caveats(
    record: &TransferRecord,
    steps: &[StepVerdict],
    intent: &Intent,
) -> Vec<String> {
    let mut out = Vec::new();
    // Two ends with one reason are one sentence.
    let mut on_host: BTreeMap<String, Vec<String>> = BTreeMap::new();
    // Of a transfer that failed nothing is proven anyway.
    let whole = record.failure.is_none();
    for end in [&record.target, &record.initiator] {
        let Some(ready) = end.ready.as_ref().filter(|_| whole) else {
            continue;
        };
        let why = match &ready.host_memory_because {
            // What is meant needs no excuse.
            _ if intent.host_memory => continue,
            Some(why) if record.memory != Memory::Host => format!(": {why}"),
            _ if &*ready.seg != "VRAM" => ", as asked for".to_owned(),
            _ => continue,
        };
        let ends = on_host.entry(why).or_default();
        if !ends.contains(&end.label.to_string()) {
            ends.push(end.label.to_string());
        }
    }
    for (why, ends) in on_host {
        let ends = ends.join(" and ");
        out.push(format!(
            "host memory was used on {ends}, so the GPU path is not proven{why}"
        ));
    }
    for end in [&record.target, &record.initiator] {
        if let Some(ended) = end
            .ended
            .as_ref()
            .filter(|_| end.ready.is_some() && end.maxrss_kb.is_some())
        {
            match ended.signal() {
                Some(signal) => out.push(format!(
                    "the probe on {} crashed at exit (signal {signal}), after its work",
                    end.label
                )),
                None if *ended != crate::transfer::stream::Ended::Code(0) => {
                    out.push(format!(
                        "the probe on {} left with {ended}, after its work",
                        end.label
                    ));
                }
                None => {}
            }
        }
    }
    for end in [&record.target, &record.initiator] {
        let Some(ready) = end.ready.as_ref().filter(|r| !r.passed_over.is_empty()) else {
            continue;
        };
        let broken: Vec<&str> = ready.passed_over.iter().map(|why| &**why).collect();
        let said = format!(
            "on {} {} was used, and what stands before it could not be imported ({}): an engine that imports it fails",
            end.label,
            ready.nixl_module,
            broken.join("; ")
        );
        if !out.contains(&said) {
            out.push(said);
        }
    }
    let throttled = record
        .steps
        .iter()
        .any(|s| s.xfer.cpu.throttled.is_some_and(|n| n > 0));
    if throttled {
        out.push(
            "the CPU quota stopped the probe during a transfer, so rates and latencies are too low"
                .to_owned(),
        );
    }
    for step in steps.iter().filter(|s| s.bulk) {
        if let Some(lane) = step.lane.as_ref().ok().filter(|l| l.copies()) {
            out.push(format!(
                "{}: UCX copies through buffers ({lane}) instead of zero-copy",
                step.what
            ));
        }
    }
    if record.same_container && !steps.is_empty() {
        out.push(
            "both ends ran in one container: registration and the local lane, no more".to_owned(),
        );
    }
    out
}
