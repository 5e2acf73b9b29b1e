use crate::check;
use crate::checks::BudgetScope;
use crate::checks::declare::{Draft, Outcome};
use crate::observed::Skip;
use crate::report::SkipReason;

check! {
    /// Moving the KV cache takes longer than the time to the first token may be.
    ///
    /// ## Why it matters
    /// The first token of a disaggregated request waits until the KV cache of its prompt has arrived. Where that alone takes
    /// longer than the objective allows, no tuning of the engines helps. Asked with `--isl` and `--ttft-slo`: a fail where the
    /// lanes were measured (`--transfer`); a warning where only nominal rates are known, since those are the best that the
    /// hardware could do, and where the finding rests on an assumption: the number of ranks, or two bytes per element where no
    /// flag sets the data type of the cache and half of the time, with FP8, would be within the objective. Skipped where the KV
    /// path is judged wrong and no lane was measured. `explain kv-budget` shows the formula and its limits.
    ///
    /// ## Fix
    /// Make the slowest lane as fast as its neighbours (the other findings say what holds it back), give the ranks more NICs,
    /// keep the cache in FP8, or raise the tensor-parallel size of the role that has fewer ranks.
    "DEP060" "kv-budget-over-slo" on Budget {
        subsystem: Deployment, kv_path: Off, worst: Fail, causes: &[], since: "0.1.0",
    }
}

fn run(scope: &BudgetScope<'_>) -> Outcome {
    scope.require_kv()?;
    let budget = scope.budget;
    let Some(slo) = budget.slo_ms else {
        // Nobody asked.
        return Err(Skip::not_applicable());
    };
    let Some(lane) = &budget.slowest else {
        let detail = budget.missing.join("; ");
        return Err(Skip::new(SkipReason::NotCollected, detail));
    };
    #[expect(clippy::cast_precision_loss, reason = "an objective is a few seconds")]
    let slo_ms = slo as f64;
    let how = if lane.measured { "measured" } else { "nominal" };
    // What hardware could do is the best case.
    let least = if lane.measured { "" } else { "at least " };
    let taken = format!(
        "the KV of {} tokens takes {least}{:.0} ms over the slowest lane ({}, {:.1} GB/s {how})",
        budget.isl, lane.added_ms, lane.of, lane.gbytes
    );
    let assumed = match budget.assumed.as_slice() {
        [] => String::new(),
        all => format!(". Assumed: {}", all.join("; ")),
    };
    if lane.added_ms <= slo_ms {
        // What ports could do at best is no evidence of what they do.
        return match lane.measured && !budget.parts_assumed {
            true => Ok(vec![Draft::ok(format!("{taken}, of {slo} ms{assumed}"))]),
            false => Err(Skip::new(
                SkipReason::NotCollected,
                format!(
                    "{taken}, of {slo} ms, and that is not measured or rests on an assumption{assumed}"
                ),
            )),
        };
    }
    // Where half the bytes are possible, only twice the objective is certain.
    let certain = lane.measured
        && !budget.parts_assumed
        && (!budget.may_be_half || lane.added_ms / 2.0 > slo_ms);
    let detail = format!("{taken}, and the first token may take {slo} ms{assumed}");
    let draft = match certain {
        true => Draft::fail(detail),
        false => Draft::warn(detail),
    };
    Ok(vec![
        draft
            .headline(format!("KV transfer alone takes longer than the {slo} ms to the first token"))
            .fix("make the slowest lane faster, move fewer bytes (--kv-cache-dtype fp8), or split them over more ranks"),
    ])
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::{Fleet, NOTHING};
    use crate::report::Status::{self, Fail, Ok, Skipped, Warn};
    use crate::report::{KvBudget, LaneTime};

    fn budget(added_ms: f64, measured: bool) -> KvBudget {
        KvBudget {
            isl: 8000,
            kv_bytes_per_token: Some(1000),
            bytes_source: String::new(),
            bytes: Some(8_000_000),
            parts: 1,
            parts_source: String::new(),
            assumed: Vec::new(),
            may_be_half: false,
            parts_assumed: false,
            slowest: Some(LaneTime {
                gbytes: 1.0,
                measured,
                of: "d -> p".to_owned(),
                added_ms,
            }),
            fastest: None,
            slo_ms: Some(100),
            formula: "",
            missing: Vec::new(),
        }
    }

    #[test]
    fn table_of_statuses() {
        let half = |added| KvBudget {
            may_be_half: true,
            ..budget(added, true)
        };
        let parts = |added| KvBudget {
            parts_assumed: true,
            ..budget(added, true)
        };
        let unknown = KvBudget {
            slowest: None,
            missing: vec!["x".to_owned()],
            ..budget(0.0, true)
        };
        let unasked = KvBudget {
            slo_ms: None,
            ..budget(500.0, true)
        };
        let rows: Vec<(&str, Option<KvBudget>, Vec<Status>)> = vec![
            ("measured, within", Some(budget(100.0, true)), vec![Ok]),
            ("measured, over", Some(budget(101.0, true)), vec![Fail]),
            ("nominal, within", Some(budget(10.0, false)), vec![Skipped]),
            ("nominal, over", Some(budget(101.0, false)), vec![Warn]),
            ("half would be within", Some(half(150.0)), vec![Warn]),
            ("half is over, too", Some(half(201.0)), vec![Fail]),
            ("ranks assumed, over", Some(parts(500.0)), vec![Warn]),
            ("ranks assumed, within", Some(parts(5.0)), vec![Skipped]),
            ("not known", Some(unknown), vec![Skipped]),
            ("no objective", Some(unasked), vec![]),
            ("nobody asked", None, vec![]),
        ];
        for (what, budget, wanted) in rows {
            let pods = [("prefill", NOTHING), ("decode", NOTHING)];
            let fleet = |budget| Fleet::of(&pods).budget(budget);
            assert_eq!(
                fleet(budget).statuses("kv-budget-over-slo"),
                wanted,
                "{what}"
            );
        }
        let aggregated = Fleet::of(&[("agg", NOTHING)]).budget(Some(budget(500.0, true)));
        assert_eq!(aggregated.statuses("kv-budget-over-slo"), []);
    }
}
