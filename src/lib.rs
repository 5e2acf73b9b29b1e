//! Says whether a disaggregated LLM deployment may trust its interconnect, or what to fix first.
//!
//! ```text
//! manifests -> manifest::read -> Inventory --\
//!                                             > checks::run -> Finding.. -> report::Report -> render::{text, json, html}
//! recordings -> snapshot::Bundle -> facts ----/         |
//!                           VAR=VALUE + Context -> judge -> Judgement -> explain
//! ```
//!
//! Layers, lowest first; a layer imports only lower ones (`tests/architecture.rs` holds the rule):
//!
//! | layer | modules | may touch |
//! | --- | --- | --- |
//! | 0 plain data | `report`, `target`, `observed`, `source`, `sanitise`, `catalogue`, `ask`, `snapshot`, `pair` | std and serde |
//! | 1 parse | `manifest`, `facts` | pure |
//! | 2 judge | `judge`, `checks`, `environment`, `hosting`, `budget`, `baseline`, `selected`, `evaluate`, `topics` | pure |
//! | 3 touch the world | `input`, `kustomize`, `probe`, `bundle`, `cluster`, `collect`, `transfer` | files, processes, the Kubernetes API |
//! | 4 show | `render` | pure: report to bytes |
//! | 5 faces | `cli`, `main` | everything |

pub mod ask;
pub mod baseline;
pub mod budget;
pub mod bundle;
pub mod catalogue;
pub mod checks;
pub mod cli;
#[cfg(feature = "cluster")]
pub mod cluster;
pub mod collect;
#[cfg(test)]
mod docs;
pub mod environment;
pub mod evaluate;
pub mod facts;
pub mod hosting;
pub mod input;
pub mod judge;
pub mod kustomize;
pub mod manifest;
pub mod observed;
pub mod pair;
pub mod probe;
pub mod render;
pub mod report;
pub mod sanitise;
pub mod selected;
pub mod snapshot;
pub mod source;
pub mod target;
pub mod topics;
pub mod transfer;
