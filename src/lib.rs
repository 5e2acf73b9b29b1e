//! Says whether a disaggregated LLM deployment may trust its interconnect, or what to fix first.
//!
//! ```text
//! manifests -> manifest::read -> Inventory -> checks::run -> Finding.. -> report::Report -> render::{text, json}
//!                                    VAR=VALUE + Context -> judge -> Judgement -> explain
//! ```
//!
//! Layers, lowest first; a layer imports only lower ones (`tests/architecture.rs` holds the rule):
//!
//! | layer | modules | may touch |
//! | --- | --- | --- |
//! | 0 plain data | `report`, `target`, `observed`, `source`, `sanitise`, `catalogue` | std and serde |
//! | 1 parse | `manifest` | pure |
//! | 2 judge | `judge`, `checks` | pure |
//! | 3 touch the world | `input`, `kustomize`, `transfer` | files, processes, exec streams |
//! | 4 show | `render` | pure: report to bytes |
//! | 5 faces | `cli`, `main` | everything |

pub mod ask;
pub mod catalogue;
pub mod checks;
pub mod facts;
pub mod judge;
pub mod manifest;
pub mod observed;
pub mod report;
pub mod sanitise;
pub mod snapshot;
pub mod source;
pub mod target;
pub mod transfer;
