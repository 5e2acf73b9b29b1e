//! Many pairs: round after round, the pairs of a round side by side. One dead pair does not stop the rest.

use super::plan::{Pair, Plan};
use std::future::Future;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// How far a run of many pairs has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Pairs that are done, whatever came of them.
    pub done: usize,
    /// Pairs that are planned.
    pub of: usize,
    /// Time left, by the pairs so far.
    pub left: Duration,
}

/// What became of one pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome<T> {
    /// It was run.
    Done(T),
    /// The task that ran it broke. The text says how.
    Broken(String),
}

/// Runs all pairs of a plan. `transfer` starts one of them; `at_once` bounds how many run together within a round. None is
/// begun any more once `go_on` says no; those that run are waited for. Results are in the order of the pairs, not of their
/// ends.
pub async fn run_rounds<T, F, Fut>(
    plan: &Plan,
    at_once: usize,
    go_on: impl Fn() -> bool,
    transfer: F,
    mut progress: impl FnMut(Progress),
) -> Vec<(Pair, Outcome<T>)>
where
    T: Send + 'static,
    F: Fn(Pair) -> Fut,
    Fut: Future<Output = T> + Send + 'static,
{
    let (began, of) = (Instant::now(), plan.pairs());
    let mut results = Vec::with_capacity(of);
    for round in &plan.rounds {
        let mut waiting = round.iter().copied();
        let mut running: JoinSet<T> = JoinSet::new();
        let mut whose = std::collections::HashMap::new();
        loop {
            while running.len() < at_once.max(1)
                && go_on()
                && let Some(pair) = waiting.next()
            {
                whose.insert(running.spawn(transfer(pair)).id(), pair);
            }
            let Some(ended) = running.join_next_with_id().await else {
                break;
            };
            let (id, outcome) = match ended {
                Ok((id, result)) => (id, Outcome::Done(result)),
                Err(e) => (e.id(), Outcome::Broken(e.to_string())),
            };
            results.extend(whose.remove(&id).map(|pair| (pair, outcome)));
            let done = results.len();
            let per_pair = began.elapsed().div_f64(done.max(1) as f64);
            progress(Progress {
                done,
                of,
                left: per_pair.mul_f64((of - done) as f64),
            });
        }
    }
    results.sort_by_key(|(pair, _)| *pair);
    results
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn one_broken_pair_does_not_stop_the_rest() {
        let names = |role: &str| (0..4).map(|i| format!("{role}{i}")).collect::<Vec<_>>();
        let plan = Plan::new(&names("p"), &names("d"), None, 0).unwrap();
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut seen = Vec::new();
        let transfer = |pair: Pair| {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                now.fetch_sub(1, Ordering::SeqCst);
                assert!(
                    pair != Pair {
                        prefill: 1,
                        decode: 2
                    },
                    "this one breaks"
                );
                pair.prefill * 10 + pair.decode
            }
        };
        let results = run_rounds(&plan, 3, || true, transfer, |p| seen.push((p.done, p.of))).await;
        assert_eq!(results.len(), 16);
        assert!(results.is_sorted_by_key(|(pair, _)| *pair));
        let broken: Vec<Pair> = results
            .iter()
            .filter(|(_, o)| matches!(o, Outcome::Broken(_)))
            .map(|(p, _)| *p)
            .collect();
        assert_eq!(
            broken,
            [Pair {
                prefill: 1,
                decode: 2
            }]
        );
        assert_eq!(seen.last(), Some(&(16, 16)));
        let begun = AtomicUsize::new(0);
        let go_on = || begun.load(Ordering::SeqCst) < 5;
        let one = |pair: Pair| {
            begun.fetch_add(1, Ordering::SeqCst);
            async move { pair.prefill }
        };
        let some = run_rounds(&plan, 3, go_on, one, |_| {}).await;
        assert_eq!(some.len(), 5, "none is begun any more");
        assert!(most.load(Ordering::SeqCst) <= 3);
    }
}
