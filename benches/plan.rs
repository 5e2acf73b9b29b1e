//! How long it takes to plan the transfers of a large deployment: `cargo bench --bench plan`. The budget is checked.
#![expect(clippy::print_stdout, reason = "a program for people who measure")]

use dynamo_interconnect_check::transfer::plan::Plan;
use std::time::{Duration, Instant};

/// For all pairs of 64 prefill and 64 decode workers. The slowest of the runs counts.
const BUDGET: Duration = Duration::from_millis(50);
const RUNS: u32 = 20;

fn main() {
    let names = |role: &str| (0..64).map(|i| format!("{role}-{i}")).collect::<Vec<_>>();
    let (prefill, decode) = (names("prefill"), names("decode"));
    for (what, sample) in [("all pairs", None), ("a sample of 1000", Some(1000))] {
        let mut times: Vec<Duration> = (0..RUNS)
            .map(|seed| {
                let began = Instant::now();
                let plan = Plan::new(&prefill, &decode, sample, u64::from(seed));
                let took = began.elapsed();
                let plan = plan.expect("the names are distinct");
                assert_eq!(plan.pairs(), sample.unwrap_or(4096));
                took
            })
            .collect();
        times.sort();
        let (median, slowest) = (times[times.len() / 2], times[times.len() - 1]);
        println!(
            "64 x 64, {what}: median {median:?}, slowest {slowest:?} of {RUNS}, budget {BUDGET:?}"
        );
        assert!(slowest < BUDGET, "{what}: {slowest:?}");
    }
}
