//! The pairwise transfer: two workers move bytes to each other, and the lane that carried them is named.
//!
//! ```text
//! plan (who with whom) -> relay (two streams, one program on each) -> TransferRecord -> lane -> judge -> Verdict
//! ```
//!
//! Only `relay`, `side` and `stream` touch the world. A [`record::TransferRecord`] holds everything that the judgement
//! needs, so a recorded transfer is judged again by the same functions.

mod blame;
pub mod bootstrap;
mod cause;
mod complaints;
pub mod counted;
pub mod judge;
pub mod lane;
pub mod loaded;
pub mod plan;
#[cfg(feature = "cluster")]
pub mod pod;
pub mod protocol;
pub mod record;
pub mod relay;
pub mod rounds;
pub mod settings;
mod side;
pub mod stream;
pub mod ucx_text;
mod words;

pub use judge::{Intent, Path, Verdict, judge};
pub use record::TransferRecord;
pub use relay::{Halt, run, run_until};
pub use rounds::run_rounds;
pub use settings::{End, Limits, Settings, Step};
pub use stream::{Local, Open, Stream};
