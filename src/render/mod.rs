//! Report to bytes, one format per file. Pure: nothing here reads the world or prints.

mod baseline;
mod budget;
mod environment;
mod fleet;
pub mod github;
pub mod html;
pub mod json;
pub mod junit;
mod left_out;
pub mod markdown;
mod nixl;
mod nodes;
pub(crate) mod pairs;
mod place;
pub mod sarif;
pub mod text;

pub use place::Surroundings;
