//! What helps against a wrong UCX_TLS: a list that was tried out in the same place, or no list.

use super::context::{Accelerator, Context, Vendor};
use super::setting::STRICTEST_UCX;
use super::transports::{Selection, Tls, parse};
use super::ucx_tls::List;
use crate::report::Status;

/// What helps against one problem.
pub(super) enum Cure {
    /// This.
    Do(String),
    /// The list that is right in this place, or no list.
    GoodList,
    /// This, with the list that is right in this place; or, where there is none, removing the variable.
    WithGoodList(fn(&str) -> String),
}

impl Cure {
    pub(super) fn act(what: impl Into<String>) -> Self {
        Self::Do(what.into())
    }
}

/// The list that is right in this place, tried out; None where only removing the variable helps.
pub(super) fn good_list(cx: &Context, written: Option<&Selection>) -> Option<String> {
    let vendors = cx.vendors();
    let may_be = |vendor: Vendor| vendors.as_ref().is_none_or(|v| v.contains(&vendor));
    let rc = if may_be(Vendor::Mlx5) || may_be(Vendor::Unknown) {
        "rc_x,rc"
    } else {
        "rc"
    };
    let gpu = match accelerator(cx, written) {
        Accelerator::Nvidia | Accelerator::Unknown => "cuda_copy,cuda_ipc",
        Accelerator::Intel => "ze_copy,ze_ipc",
        Accelerator::Amd => "rocm_copy,rocm_ipc",
    };
    let nvlink = (cx.on_mnnvl() || !cx.kv_crosses_nodes()).then(|| format!("{gpu},tcp"));
    let rdma = Some(format!("{rc},{gpu}"));
    let lists = if cx.on_mnnvl() {
        [nvlink, rdma]
    } else {
        [rdma, nvlink]
    };
    lists.into_iter().flatten().find(|list| helps(list, cx))
}

/// The accelerator, by what the list names where the place does not say.
fn accelerator(cx: &Context, written: Option<&Selection>) -> Accelerator {
    let names = |prefix: &str| {
        written.is_some_and(|w| !w.negated && w.data.iter().any(|t| t.starts_with(prefix)))
    };
    match cx.accelerator {
        Accelerator::Unknown if names("ze_") => Accelerator::Intel,
        Accelerator::Unknown if names("rocm_") => Accelerator::Amd,
        known => known,
    }
}

/// A list that does not fail here.
fn helps(list: &str, cx: &Context) -> bool {
    match parse(list, cx.ucx.unwrap_or(STRICTEST_UCX)) {
        Tls::List(selection) => List::new(&selection, cx)
            .problems()
            .iter()
            .all(|p| p.status < Status::Fail),
        Tls::All | Tls::Empty | Tls::AllWithMore => false,
    }
}

/// What helps against everything at once.
pub(super) fn good_fix(cx: &Context, written: Option<&Selection>) -> String {
    let vendors = cx.vendors();
    if let Some(list) = good_list(cx, written) {
        return format!("write UCX_TLS={list}, or remove UCX_TLS");
    }
    if vendors.as_ref().is_some_and(|v| v.contains(&Vendor::Efa)) {
        return "remove UCX_TLS, and select the LIBFABRIC backend on EFA".to_owned();
    }
    if vendors.is_some_and(|v| v.is_empty()) {
        return "remove UCX_TLS, and give the pod an RDMA device; without one KV between nodes goes over TCP at best"
            .to_owned();
    }
    "remove UCX_TLS".to_owned()
}
