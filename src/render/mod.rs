//! Report to bytes, one format per file. Pure: nothing here reads the world or prints.

mod baseline;
mod budget;
mod environment;
mod fleet;
pub mod html;
pub mod json;
mod nodes;
pub(crate) mod pairs;
pub mod text;
