//! What to write in place of a value that is wrong, as far as it is known for sure.

use super::context::Context;
use super::setting::STRICTEST_UCX;
use super::transports::{Tls, parse};
use super::ucx_tls_cures::good_list;
use super::{Judgement, judge};
use crate::catalogue;
use crate::report::Status;

/// What helps against a wrong value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remedy {
    /// This value.
    Write(String),
    /// The address of the pod.
    PodAddress,
    /// No value: the default is right.
    Remove,
}

/// What helps against this value in this place. None where nothing is wrong, where what helps lies elsewhere (a device, a module, a
/// backend), and where nothing that was tried in the same place is right.
pub fn remedy(variable: &str, value: &str, cx: &Context) -> Option<Remedy> {
    let row = catalogue::find(variable)?;
    let wrong = judge(variable, Some(value), cx);
    if wrong.status < Status::Warn || catalogue::withheld(row, value) {
        return None;
    }
    let right = |value: Option<&str>| judge(variable, value, cx).status == Status::Ok;
    if wrong.rule == ADVERTISED {
        return Some(Remedy::PodAddress);
    }
    let candidates = candidates(variable, value, &wrong, cx);
    if let Some(better) = candidates.into_iter().find(|c| right(Some(c))) {
        return Some(Remedy::Write(better));
    }
    (advises_removal(variable, &wrong) && right(None)).then_some(Remedy::Remove)
}

/// The rule of addresses that peers are told.
const ADVERTISED: &str = "I1";

/// Values that the advice speaks of, the nearest to what is written first.
fn candidates(variable: &str, value: &str, wrong: &Judgement, cx: &Context) -> Vec<String> {
    match variable {
        "UCX_TLS" => lists(value, wrong.fix.as_deref().unwrap_or_default(), cx),
        "PYTORCH_CUDA_ALLOC_CONF" | "PYTORCH_ALLOC_CONF" => {
            let options = value.split(',').map(|option| match option.split_once(':') {
                Some((key, _)) if key.trim() == "expandable_segments" => {
                    "expandable_segments:False"
                }
                _ => option,
            });
            vec![options.collect::<Vec<_>>().join(",")]
        }
        "FI_EFA_ENABLE_SHM_TRANSFER" => vec!["0".to_owned()],
        "UCX_CUDA_IPC_ENABLE_GET_ZCOPY" => vec!["y".to_owned()],
        _ => Vec::new(),
    }
}

/// What a list may lack.
const MAY_LACK: [&str; 7] = [
    "cuda_copy",
    "cuda_ipc",
    "ud",
    "cuda_copy,cuda_ipc",
    "cuda_copy,ud",
    "cuda_ipc,ud",
    "cuda_copy,cuda_ipc,ud",
];

/// The list with what it lacks, else the one that is right in this place. None where a device, a ComputeDomain or another backend
/// is what helps, or may be.
fn lists(value: &str, fix: &str, cx: &Context) -> Vec<String> {
    let of_the_list = ["write UCX_TLS=", "write the alias", "add ", "allow "];
    let elsewhere = [
        "LIBFABRIC",
        "ComputeDomain",
        "RDMA device",
        " if the nodes ",
    ];
    if !of_the_list.iter().any(|words| fix.starts_with(words))
        || elsewhere.iter().any(|words| fix.contains(words))
    {
        return Vec::new();
    }
    match parse(value, cx.ucx.unwrap_or(STRICTEST_UCX)) {
        Tls::List(written) if written.negated => Vec::new(),
        Tls::List(written) => MAY_LACK
            .iter()
            .map(|more| format!("{value},{more}"))
            .chain(good_list(cx, Some(&written)))
            .collect(),
        Tls::All | Tls::Empty | Tls::AllWithMore => good_list(cx, None).into_iter().collect(),
    }
}

/// The advice is removing the variable, or names it beside a value of the variable itself.
fn advises_removal(variable: &str, wrong: &Judgement) -> bool {
    let fix = wrong.fix.as_deref().unwrap_or_default();
    let removes = format!("remove {variable}");
    let beside_a_value = fix.starts_with("write ") || fix.starts_with("allow ");
    fix.starts_with(&removes)
        || beside_a_value && (fix.contains(&removes) || fix.ends_with("remove it"))
        || fix.contains(&format!("removing {variable} is best"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::context::{Backend, Tri};

    #[test]
    fn what_is_written_instead_is_right_in_the_same_place() {
        let write = |value: &str| Some(Remedy::Write(value.to_owned()));
        let rdma = Context {
            backend: Backend::Ucx,
            rdma: Tri::Yes,
            ranks_internode: Tri::Yes,
            ..Context::default()
        };
        let efa = Context {
            backend: Backend::Ucx,
            efa: Tri::Yes,
            ..rdma.clone()
        };
        let libfabric = Context {
            backend: Backend::Libfabric,
            ..efa.clone()
        };
        for (cx, variable, value, expected) in [
            (&rdma, "UCX_TLS", "tcp", write("rc_x,rc,cuda_copy,cuda_ipc")),
            // What is written stays, with what it lacks.
            (
                &rdma,
                "UCX_TLS",
                "rc,cuda_ipc",
                write("rc,cuda_ipc,cuda_copy"),
            ),
            (
                &rdma,
                "UCX_TLS",
                "rc_verbs,cuda_copy,cuda_ipc",
                write("rc_verbs,cuda_copy,cuda_ipc,ud"),
            ),
            (&rdma, "UCX_TLS", "^cuda_copy", Some(Remedy::Remove)),
            (&rdma, "UCX_TLS", "all", None),
            (&rdma, "UCX_NET_DEVICES", "eth0", Some(Remedy::Remove)),
            (
                &rdma,
                "PYTORCH_CUDA_ALLOC_CONF",
                "max_split_size_mb:64,expandable_segments:True",
                write("max_split_size_mb:64,expandable_segments:False"),
            ),
            (
                &rdma,
                "VLLM_NIXL_SIDE_CHANNEL_HOST",
                "127.0.0.1",
                Some(Remedy::PodAddress),
            ),
            (&rdma, "UCX_RCACHE_ENABLE", "n", Some(Remedy::Remove)),
            (&rdma, "UCX_MEMTYPE_CACHE", "y", Some(Remedy::Remove)),
            // What helps is a module, a device or another backend.
            (&rdma, "UCX_CUDA_IPC_ENABLE_MNNVL", "y", None),
            (&rdma, "FI_PROVIDER", "efa", None),
            (&libfabric, "FI_EFA_ENABLE_SHM_TRANSFER", "1", write("0")),
            (&rdma, "NO_SUCH_VARIABLE", "1", None),
        ] {
            assert_eq!(remedy(variable, value, cx), expected, "{variable}={value}");
        }
        // Nothing that is tried for UCX is right on EFA alone.
        assert_ne!(
            remedy("UCX_TLS", "tcp", &efa),
            write("rc_x,rc,cuda_copy,cuda_ipc")
        );
    }

    /// Over the whole catalogue: a remedy is never one that the same judge would complain about.
    #[test]
    fn no_remedy_is_complained_about() {
        let values = ["tcp", "", "true", "0", "1", "y", "n", "lo", "eth0", "7"];
        let places = [
            Context::default(),
            Context {
                backend: Backend::Ucx,
                rdma: Tri::Yes,
                ranks_internode: Tri::Yes,
                ..Context::default()
            },
        ];
        for cx in &places {
            for variable in catalogue::all() {
                for value in values {
                    let after = match remedy(variable.name, value, cx) {
                        Some(Remedy::Write(better)) => Some(better),
                        Some(Remedy::Remove) => None,
                        Some(Remedy::PodAddress) | None => continue,
                    };
                    let got = judge(variable.name, after.as_deref(), cx);
                    assert_eq!(got.status, Status::Ok, "{}={value}", variable.name);
                }
            }
        }
    }
}
