//! Who transfers with whom, and when: rounds in which no worker takes part twice.
//!
//! A bipartite graph can be coloured with as many colours as its busiest vertex has edges (Koenig 1916), so that many
//! rounds are enough, and fewer never are.

use std::collections::{BTreeMap, BTreeSet};

/// Positions of a prefill worker and a decode worker in the lists that were given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair {
    /// Position among the prefill workers.
    pub prefill: usize,
    /// Position among the decode workers.
    pub decode: usize,
}

/// Rounds of disjoint pairs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Pairs that can run at the same time, round by round.
    pub rounds: Vec<Vec<Pair>>,
    /// All pairs there are. More than are planned: the plan is a sample.
    pub of: usize,
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// One side is empty.
    #[error("no {0} worker; name pods of both roles")]
    Empty(&'static str),
    /// A worker cannot transfer with itself in a round.
    #[error("{0} is selected both as prefill and as decode; make the selectors disjoint")]
    Overlap(String),
    /// A worker was named twice.
    #[error("{0} is named twice")]
    Twice(String),
}

impl Plan {
    /// Every prefill worker with every decode worker, or a sample of that many pairs. A sample takes whole rounds
    /// first, so that it leaves out no worker as long as it is large enough to hold them all.
    pub fn new(
        prefill: &[String],
        decode: &[String],
        sample: Option<usize>,
        seed: u64,
    ) -> Result<Self, PlanError> {
        distinct(prefill, decode)?;
        let all = |d: usize| {
            (0..prefill.len())
                .flat_map(move |p| (0..d).map(move |decode| Pair { prefill: p, decode }))
        };
        let mut rounds = colour(&all(decode.len()).collect::<Vec<_>>());
        let of = prefill.len() * decode.len();
        if let Some(n) = sample.filter(|n| *n < of) {
            let mut random = Random(seed);
            random.shuffle(&mut rounds);
            rounds.iter_mut().for_each(|round| random.shuffle(round));
            let mut chosen: Vec<Pair> = rounds.into_iter().flatten().take(n).collect();
            chosen.sort_unstable();
            rounds = colour(&chosen);
        }
        Ok(Self { rounds, of })
    }

    /// Pairs that are planned.
    pub fn pairs(&self) -> usize {
        self.rounds.iter().map(Vec::len).sum()
    }

    /// Not all pairs are planned: what is not in the plan stays unproven.
    pub fn is_sample(&self) -> bool {
        self.pairs() < self.of
    }
}

fn distinct(prefill: &[String], decode: &[String]) -> Result<(), PlanError> {
    for (side, name) in [(prefill, "prefill"), (decode, "decode")] {
        if side.is_empty() {
            return Err(PlanError::Empty(name));
        }
        let mut seen = BTreeSet::new();
        if let Some(twice) = side.iter().find(|w| !seen.insert(*w)) {
            return Err(PlanError::Twice(twice.clone()));
        }
    }
    match prefill.iter().find(|w| decode.contains(w)) {
        Some(both) => Err(PlanError::Overlap(both.clone())),
        None => Ok(()),
    }
}

/// Colours the edges with as many colours as the busiest vertex has edges, by alternating paths.
fn colour(pairs: &[Pair]) -> Vec<Vec<Pair>> {
    let (mut left, mut right) = (
        BTreeMap::<usize, usize>::new(),
        BTreeMap::<usize, usize>::new(),
    );
    for pair in pairs {
        *left.entry(pair.prefill).or_default() += 1;
        *right.entry(pair.decode).or_default() += 1;
    }
    let colours = left
        .values()
        .chain(right.values())
        .copied()
        .max()
        .unwrap_or(0);
    let rows = pairs.iter().map(|p| p.prefill + 1).max().unwrap_or(0);
    let columns = pairs.iter().map(|p| p.decode + 1).max().unwrap_or(0);
    // at[side][vertex][colour] = the vertex at the other end of that edge.
    let mut at = [
        vec![vec![None; colours]; rows],
        vec![vec![None; colours]; columns],
    ];
    let free = |used: &[Option<usize>]| {
        used.iter()
            .position(Option::is_none)
            .expect("a colour is free below the degree")
    };
    for pair in pairs {
        let (p, d) = (pair.prefill, pair.decode);
        let (a, b) = (free(&at[0][p]), free(&at[1][d]));
        if a != b {
            // Swap a and b along the path from d, which cannot reach p: then a is free at both ends.
            let mut path = vec![(1, d)];
            let (mut side, mut vertex, mut colour) = (1, d, a);
            while let Some(next) = at[side][vertex][colour] {
                (side, vertex) = (1 - side, next);
                path.push((side, vertex));
                colour = a + b - colour;
            }
            for &(side, vertex) in &path {
                at[side][vertex].swap(a, b);
            }
        }
        at[0][p][a] = Some(d);
        at[1][d][a] = Some(p);
    }
    let round = |c: usize| {
        let edge = |(prefill, used): (usize, &Vec<Option<usize>>)| {
            used[c].map(|decode| Pair { prefill, decode })
        };
        at[0].iter().enumerate().filter_map(edge).collect()
    };
    (0..colours).map(round).collect()
}

/// SplitMix64: small, seeded, the same on every machine (<https://prng.di.unimi.it/splitmix64.c>).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let j = (self.next() % (i as u64 + 1)) as usize;
            items.swap(i, j);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(role: &str, n: usize) -> Vec<String> {
        (0..n).map(|i| format!("{role}-{i}")).collect()
    }

    fn degree(pairs: &[Pair]) -> usize {
        let mut count = BTreeMap::<(bool, usize), usize>::new();
        for pair in pairs {
            *count.entry((true, pair.prefill)).or_default() += 1;
            *count.entry((false, pair.decode)).or_default() += 1;
        }
        count.values().copied().max().unwrap_or(0)
    }

    fn assert_rounds(rounds: &[Vec<Pair>], pairs: &[Pair]) {
        let mut planned: Vec<Pair> = rounds.iter().flatten().copied().collect();
        planned.sort_unstable();
        let mut wanted = pairs.to_vec();
        wanted.sort_unstable();
        assert_eq!(planned, wanted, "every pair exactly once");
        assert_eq!(
            rounds.len(),
            degree(pairs),
            "as many rounds as the busiest worker has peers"
        );
        for round in rounds {
            assert_eq!(degree(round), 1, "no worker twice in a round");
        }
    }

    proptest! {
        #[test]
        fn any_set_of_pairs_is_coloured_optimally(
            pairs in proptest::collection::btree_set((0usize..12, 0usize..9), 1..108)
        ) {
            let pairs: Vec<Pair> = pairs.into_iter().map(|(prefill, decode)| Pair { prefill, decode }).collect();
            assert_rounds(&colour(&pairs), &pairs);
        }

        #[test]
        fn all_pairs_and_samples(p in 1usize..14, d in 1usize..14, n in 1usize..200, seed: u64) {
            let (prefill, decode) = (names("p", p), names("d", d));
            let all = Plan::new(&prefill, &decode, None, 0).unwrap();
            prop_assert_eq!((all.rounds.len(), all.pairs(), all.is_sample()), (p.max(d), p * d, false));
            let some = Plan::new(&prefill, &decode, Some(n), seed).unwrap();
            let pairs: Vec<Pair> = some.rounds.iter().flatten().copied().collect();
            assert_rounds(&some.rounds, &pairs);
            prop_assert_eq!(some.pairs(), n.min(p * d));
            prop_assert_eq!(some.is_sample(), n < p * d);
            prop_assert_eq!(some, Plan::new(&prefill, &decode, Some(n), seed).unwrap());
        }
    }

    #[test]
    fn a_sample_leaves_out_no_worker_while_it_can() {
        let plan = Plan::new(&names("p", 8), &names("d", 8), Some(8), 7).unwrap();
        assert_eq!(plan.rounds.len(), 1, "eight disjoint pairs");
    }

    #[test]
    fn a_wrong_selection_is_an_error() {
        let (a, b) = (names("p", 2), names("d", 2));
        assert_eq!(Plan::new(&a, &[], None, 0), Err(PlanError::Empty("decode")));
        assert_eq!(
            Plan::new(&a, &a, None, 0),
            Err(PlanError::Overlap("p-0".to_owned()))
        );
        assert_eq!(
            Plan::new(&[a[0].clone(), a[0].clone()], &b, None, 0),
            Err(PlanError::Twice("p-0".to_owned()))
        );
    }

    #[test]
    fn planning_a_large_deployment_is_quick() {
        let began = std::time::Instant::now();
        let plan = Plan::new(&names("p", 64), &names("d", 64), None, 0).unwrap();
        let took = began.elapsed();
        println!(
            "64 x 64 pairs in {} rounds, planned in {took:?}",
            plan.rounds.len()
        );
        assert_eq!((plan.rounds.len(), plan.pairs()), (64, 4096));
        // The budget is 50 ms for a release build; an unoptimised one on a busy machine gets ten times that.
        assert!(took.as_millis() < 500, "{took:?}");
    }
}
