use crate::check;
use crate::checks::declare::{Draft, Outcome};
use crate::checks::words::first_clause;
use crate::facts::pair::PairFacts;
use crate::observed::Skip;
use crate::report::{Evidence, EvidenceSource, KV_PATH, Status};
use crate::sanitise;

check! {
    /// A transfer between two workers fails, arrives wrong, or takes another lane than it should.
    ///
    /// The transfer uses the workers' own NIXL, UCX, environment and devices, compares every byte, and names the lane twice:
    /// from UCX's protocol table and from byte counters. It is `ok` only when both agree on the lane that is meant.
    ///
    /// ## Why it matters
    /// Capabilities do not prove that two workers can talk. Right bytes over TCP are a fail: the deployment works, on the
    /// wrong lane. Wrong bytes are the gravest fail there is: the model answers garbage with HTTP 200.
    ///
    /// ## Fix
    /// The finding names the side, the stage and the most likely cause.
    ///
    /// ## Sources
    /// UCX v1.16 to v1.23 (`ucp_proto_select`), NIXL v0.3 to v1.5; llm-d/llm-d#2370.
    "XFER001" "kv-transfer" on Pair {
        subsystem: Transfer, kv_path: Required, worst: Fail, causes: &[], since: "0.1.0",
    }
}

fn run(pair: &PairFacts) -> Outcome {
    if let (Status::Skipped, Some(reason)) = (pair.status, pair.reason) {
        let mut draft = Draft::skipped(Skip::new(reason, &pair.detail)).with(evidence(pair));
        draft.fix.clone_from(&pair.fix);
        // It was asked for, so the verdict says why there is no answer.
        let whole = pair.detail.split("; ").next().unwrap_or_default();
        let words = match whole.chars().count() {
            ..=200 => whole.to_owned(),
            _ => first_clause(whole),
        };
        return Ok(vec![draft.headline(words)]);
    }
    let mut detail = pair.detail.clone();
    if !pair.caveats.is_empty() {
        let end = if detail.ends_with('.') { "" } else { "." };
        detail = format!("{detail}{end} Limits: {}", pair.caveats.join("; "));
    }
    let mut draft = Draft::new(pair.status, detail).with(evidence(pair));
    draft.fix.clone_from(&pair.fix);
    if pair.status >= Status::Warn {
        draft = draft.headline(first_clause(&pair.detail));
        if !pair.wrong_bytes {
            // An end that cannot use RDMA is why its transfers go elsewhere.
            draft = draft.follows(KV_PATH);
        }
    }
    Ok(vec![draft])
}

fn evidence(pair: &PairFacts) -> Option<Evidence> {
    /// Lines at most, and of these on single steps.
    const MOST: [usize; 2] = [16, 6];
    // The largest operations come last, and they decide; where it failed, what its ends complained of stands first.
    let is_step = |line: &&String| pair.steps.contains(line);
    let rest = || pair.evidence.iter().filter(|line| !is_step(line));
    let failed = pair.evidence.first().is_some_and(|line| !is_step(&line));
    let words = rest().take_while(|_| failed);
    let steps = pair.steps.iter().rev().take(MOST[1]);
    let mut lines: Vec<&String> = Vec::new();
    for line in words.chain(steps).chain(rest()) {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    let excerpt = lines
        .into_iter()
        .take(MOST[0])
        .map(|l| sanitise::line(l, 200))
        .collect::<Vec<_>>()
        .join("\n");
    let ask = format!("NIXL transfer {} -> {}", pair.initiator, pair.target);
    (!excerpt.is_empty()).then_some(Evidence {
        source: EvidenceSource::Snapshot,
        path: None,
        line: None,
        column: None,
        ask: Some(ask.into()),
        excerpt,
    })
}

#[cfg(test)]
pub(in crate::checks) mod tests {
    use super::*;
    use crate::report::SkipReason;

    pub(in crate::checks) fn pair(status: Status, reason: Option<SkipReason>) -> PairFacts {
        PairFacts {
            initiator: "decode-0".into(),
            target: "prefill-0".into(),
            namespace: None,
            status,
            detail: "Works, wrong lane: 64 MiB went over tcp/eth0".into(),
            fix: Some("request rdma/ib".into()),
            proven: status == Status::Ok,
            unproven: vec![],
            wrong_bytes: false,
            reason,
            lane: "tcp/eth0".into(),
            write_gbytes: None,
            read_gbytes: None,
            of_line_rate: None,
            memory: "host".into(),
            steps: vec!["WRITE 1 x 67108864".into()],
            caveats: vec!["GPU memory was not used".into()],
            evidence: vec![],
        }
    }

    #[test]
    fn the_verdict_of_the_transfer_is_the_finding() {
        for status in [Status::Ok, Status::Warn, Status::Fail] {
            let draft = run(&pair(status, None)).unwrap().remove(0);
            assert_eq!(draft.status, status);
            assert!(draft.detail.contains("GPU memory was not used"));
            assert_eq!(draft.evidence[0].excerpt, "WRITE 1 x 67108864");
        }
        let draft = run(&pair(Status::Skipped, Some(SkipReason::NotFound)))
            .unwrap()
            .remove(0);
        assert_eq!(
            (draft.status, draft.reason),
            (Status::Skipped, Some(SkipReason::NotFound))
        );
    }
}
