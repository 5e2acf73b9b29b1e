//! How much may be read through aliases and shared lists. Without a bound, a page of YAML fills the memory.

use std::cell::Cell;

/// An object that is heavier was made heavy by aliases: what can be written in one document stays below.
pub(super) const OBJECT_WEIGHT: u32 = 2_000_000;
/// What all objects of a run may weigh in any case.
const RUN_WEIGHT: u64 = 4_000_000;
/// More components in one object are not read; the largest published graph has 6.
pub(super) const COMPONENT_LIMIT: usize = 500;
/// So many variables, and 64 bytes of their values each, are read in one run.
const VARIABLES: u64 = 200_000;

/// What is left for one run.
#[derive(Debug)]
pub(super) struct Budget {
    weight: Cell<u64>,
    variables: Cell<u64>,
}

impl Budget {
    /// For inputs in which so much is written, aliases as such.
    pub fn for_written(written: usize) -> Self {
        let written = u64::try_from(written).unwrap_or(u64::MAX);
        Self {
            weight: Cell::new(RUN_WEIGHT.max(written.saturating_mul(4))),
            variables: Cell::new(VARIABLES.max(written)),
        }
    }

    /// Pays for an object; false when it is too heavy, or too much was read before it.
    pub fn object(&self, weight: u32) -> bool {
        weight <= OBJECT_WEIGHT && pay(&self.weight, u64::from(weight))
    }

    /// Pays for a variable and its value; false when there were too many.
    pub fn variable(&self, bytes: usize) -> bool {
        pay(
            &self.variables,
            1 + u64::try_from(bytes / 64).unwrap_or(u64::MAX),
        )
    }
}

fn pay(purse: &Cell<u64>, amount: u64) -> bool {
    let left = purse.get().checked_sub(amount);
    purse.set(left.unwrap_or_default());
    left.is_some()
}
