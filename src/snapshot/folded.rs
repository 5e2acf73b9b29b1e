//! Snapshots that wait: those of a thousand containers lie in memory until the last one is there, so they are folded small.

use super::{Answer, Place, Snapshot};
use crate::ask;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cell::RefCell;
use std::collections::BTreeMap;
use zstd::bulk::{Compressor, Decompressor};

/// A snapshot folded to about a seventh of its size. Where it was taken, whether it was reached and what the API says of the
/// pod stay at hand, since what is asked of all containers together is asked of these.
///
/// It is written and read as the snapshot that it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folded {
    near: Snapshot,
    /// The other answers: JSON in zstd.
    far: Box<[u8]>,
    /// Bytes of that JSON.
    size: usize,
}

/// Answers that stay at hand.
const NEAR: &[&ask::Ask] = &[&ask::TARGET, &ask::POD_SPEC];

/// Little is gained above it: answers are short, and alike.
const LEVEL: i32 = 1;

thread_local! {
    /// Making one costs more than folding a snapshot.
    static FOLD: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static OPEN: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

impl Folded {
    /// The container.
    pub fn place(&self) -> &Place {
        &self.near.place
    }

    /// The container, to say more about it.
    pub fn place_mut(&mut self) -> &mut Place {
        &mut self.near.place
    }

    /// The snapshot with the few answers that stay at hand; the others are missing from it.
    pub fn near(&self) -> &Snapshot {
        &self.near
    }

    /// Nothing was read.
    pub fn is_empty(&self) -> bool {
        self.near.answers.is_empty() && self.far.is_empty()
    }

    /// The whole snapshot.
    pub fn open(&self) -> Snapshot {
        let mut snapshot = self.near.clone();
        if !self.far.is_empty() {
            let far: BTreeMap<String, Answer> = unfold(&self.far, self.size);
            snapshot.answers.extend(far);
        }
        snapshot
    }

    /// Changes the snapshot.
    pub fn edit(&mut self, change: impl FnOnce(&mut Snapshot)) {
        let mut snapshot = self.open();
        change(&mut snapshot);
        *self = snapshot.into();
    }
}

impl From<Snapshot> for Folded {
    fn from(snapshot: Snapshot) -> Self {
        let is_near = |id: &String| NEAR.iter().any(|ask| ask.id == id);
        let (near, far): (BTreeMap<_, _>, BTreeMap<_, _>) = snapshot
            .answers
            .into_iter()
            .partition(|(id, _)| is_near(id));
        let (far, size) = if far.is_empty() {
            (Box::default(), 0)
        } else {
            fold(&far)
        };
        let near = Snapshot {
            place: snapshot.place,
            answers: near,
        };
        Self { near, far, size }
    }
}

#[expect(
    clippy::expect_used,
    reason = "texts in memory always have a form in JSON, and zstd takes any bytes"
)]
fn fold(answers: &BTreeMap<String, Answer>) -> (Box<[u8]>, usize) {
    let plain = serde_json::to_vec(answers).expect("answers are texts");
    let far = FOLD.with_borrow_mut(|fold| {
        let fold = fold.get_or_insert_with(|| Compressor::new(LEVEL).expect("a known level"));
        fold.compress(&plain).expect("any bytes can be compressed")
    });
    (far.into(), plain.len())
}

#[expect(
    clippy::expect_used,
    reason = "it was folded here and lay in memory since"
)]
fn unfold(far: &[u8], size: usize) -> BTreeMap<String, Answer> {
    let plain = OPEN.with_borrow_mut(|open| {
        let open = open.get_or_insert_with(|| Decompressor::new().expect("memory for it"));
        open.decompress(far, size).expect("it was folded here")
    });
    serde_json::from_slice(&plain).expect("it was folded here")
}

impl Serialize for Folded {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.open().serialize(to)
    }
}

impl<'de> Deserialize<'de> for Folded {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Snapshot::deserialize(from).map(Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::testing::container;

    #[test]
    fn what_is_folded_opens_as_it_was() {
        let kernel = "6.8.0\n".repeat(500);
        let asks: &[(&ask::Ask, &str)] = &[
            (&ask::TARGET, "reached"),
            (&ask::POD_SPEC, "host-network: false\n"),
            (&ask::KERNEL, &kernel),
        ];
        for answers in [asks, &asks[..2], &asks[2..], &[]] {
            let plain = container("decode", answers);
            let mut folded = Folded::from(plain.clone());
            assert_eq!(folded.open(), plain);
            assert_eq!(folded.place(), &plain.place);
            assert_eq!(folded.is_empty(), plain.answers.is_empty());
            let json = serde_json::to_string(&plain).unwrap();
            assert_eq!(serde_json::to_string(&folded).unwrap(), json);
            assert_eq!(serde_json::from_str::<Folded>(&json).unwrap(), folded);
            folded.edit(|snapshot| snapshot.answers.clear());
            assert!(folded.is_empty());
        }
        let folded = Folded::from(container("decode", asks));
        assert!(
            folded.near().text(&ask::TARGET).is_ok() && folded.near().text(&ask::KERNEL).is_err()
        );
        assert!(folded.far.len() < kernel.len() / 10);
    }
}
