//! What each transport variable is: owner, type, default, and what it really does.
//!
//! Layer 0: tables only, one file per owner. What a value earns in a given place is said by `judge`.

mod dynamo;
mod engines;
mod libfabric;
mod lines;
mod lookup;
mod nccl;
mod nixl;
mod other;
mod ucx;
mod ucx_names;
mod ucx_tuning;
mod variable;
mod withheld;
mod words;

pub use engines::switch_of_trtllm;
pub use lines::{is_json, one_line};
pub use lookup::{all, find, nearest};
pub use ucx_names::ucx_name_known;
pub use variable::{Owner, Scope, Sensitivity, ValueKind, Variable};
pub(crate) use withheld::{ends_an_authority, is_a_key, names_a_secret};
pub use withheld::{withheld, withheld_of};
