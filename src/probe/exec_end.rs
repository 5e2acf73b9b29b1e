//! How an exec can end, told apart by types and codes. Where the API server and the kubelet offer nothing but a sentence,
//! the sentence is in [`KNOWN`], with its source; no other place looks at foreign text.

use crate::cluster::call::{Cause, said, seconds};
use crate::observed::Skip;
use crate::report::SkipReason;
use crate::snapshot::over;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use std::fmt;
use std::time::Duration;

/// How one exec ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The command ended with this code. 137 is a kill: the pod was deleted meanwhile, or memory ran out.
    Exit(i32),
    /// The connection broke before the end was reported.
    ConnectionLost,
    /// Our own deadline ended it. A hung kubelet looks like this.
    Deadline {
        /// How long was waited.
        after: Duration,
    },
    /// The person who runs this tool stopped it.
    Stopped,
    /// It wrote more than we keep, so we stopped reading.
    OutputLimit {
        /// The limit, in bytes.
        bytes: usize,
    },
    /// The container has no such program. For a script: no shell.
    NoExecutable {
        /// The program.
        name: String,
    },
    /// There is no such pod.
    PodNotFound,
    /// The pod or the container does not run.
    NotRunning {
        /// Why, in the cluster's words.
        why: String,
    },
    /// The container does not exist, or several do and none was named.
    WrongContainer {
        /// Names the API server offers; empty when it offers none.
        choices: Vec<String>,
    },
    /// Not allowed.
    Forbidden {
        /// The verb on `pods/exec` that is missing; None when the answer does not tell.
        verb: Option<&'static str>,
    },
    /// The API server cannot reach the kubelet of the node.
    KubeletGone {
        /// The API server's words.
        said: String,
    },
    /// The container runtime could not do it, for a reason that is not known here.
    Failed {
        /// Its words.
        said: String,
    },
    /// The API server could not be asked at all.
    Call(Cause),
}

impl End {
    /// Why nothing was read, for the checks; None when the command ran to its end.
    pub fn skip(&self, at: &super::pod_exec::ExecTarget) -> Option<Skip> {
        let reason = match self {
            Self::Exit(_) => return None,
            Self::ConnectionLost => SkipReason::ConnectionLost,
            Self::KubeletGone { .. } | Self::Failed { .. } => SkipReason::Unreachable,
            Self::Deadline { .. } => SkipReason::Timeout,
            Self::OutputLimit { .. } => SkipReason::Unparsable,
            Self::NoExecutable { name } if name == "sh" => SkipReason::NoShell,
            Self::NoExecutable { .. }
            | Self::PodNotFound
            | Self::NotRunning { .. }
            | Self::WrongContainer { .. } => SkipReason::NotFound,
            Self::Forbidden { .. } => SkipReason::Denied,
            Self::Stopped => SkipReason::Interrupted,
            Self::Call(cause) => cause.reason(),
        };
        Some(Skip::new(reason, format!("cannot exec in {at}: {self}")))
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(137) => f.write_str(
                "the command was killed (exit code 137), as it is when its pod is deleted or its memory limit is reached",
            ),
            Self::Exit(code) => write!(f, "the command ended with exit code {code}"),
            Self::ConnectionLost => f.write_str(
                "the connection broke before the end; try again, and look whether the pod still runs",
            ),
            Self::Deadline { after } => write!(
                f,
                "no end within {} s; look at the kubelet of its node, or give more time",
                seconds(*after)
            ),
            Self::Stopped => f.write_str("the run was interrupted before the end; run it again"),
            Self::OutputLimit { bytes } => write!(
                f,
                "more than {bytes} bytes of output; look with --print-script which command floods it"
            ),
            Self::NoExecutable { name } if name == "sh" => f.write_str(
                "the image has no shell (sh); look from a debug container, or from the node",
            ),
            Self::NoExecutable { name } => {
                write!(f, "the container has no {name}; use an image that has it")
            }
            Self::PodNotFound => {
                f.write_str("there is no such pod; check the name and the namespace (-n)")
            }
            Self::NotRunning { why } => {
                let remedy = match () {
                    () if why.starts_with(over::DELETED) => "wait until it is gone",
                    () if over::is(why) => "delete it, as it will not start again",
                    () => "wait until it does",
                };
                write!(f, "it does not run ({why}); {remedy}")
            }
            Self::WrongContainer { choices } if choices.is_empty() => {
                f.write_str("the pod has no such container; check -c")
            }
            Self::WrongContainer { choices } => {
                write!(
                    f,
                    "the pod has several containers and none is named; give -c NAME, one of: {}",
                    choices.join(", ")
                )
            }
            Self::Forbidden { verb: Some(verb) } => {
                write!(f, "exec is forbidden; grant {verb} on pods/exec (docs/rbac.yaml)")
            }
            Self::Forbidden { verb: None } => {
                f.write_str("exec is forbidden; grant get and create on pods/exec (docs/rbac.yaml)")
            }
            Self::KubeletGone { said } => write!(
                f,
                "the API server cannot reach the kubelet of its node ({said}); look at the node"
            ),
            Self::Failed { said } => {
                write!(f, "the container runtime refused ({said}); look at the node's log")
            }
            Self::Call(cause) => cause.fmt(f),
        }
    }
}

/// Which answer a known sentence may stand in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Where {
    /// An HTTP answer with this code, instead of the upgrade.
    Http(u16),
    /// The status object at the end of an upgraded exec.
    Channel,
}

/// One sentence of the API server, the kubelet or a container runtime.
struct Known {
    at: Where,
    /// Every one of these is in the sentence.
    says: &'static [&'static str],
    means: Meaning,
}

#[derive(Debug, Clone, Copy)]
enum Meaning {
    NotRunning,
    WrongContainer,
    KubeletGone,
    NoExecutable,
    MissingGet,
    MissingCreate,
}

/// Sentences that carry what no code carries. All but the marked ones were measured on Kubernetes 1.36.2 with containerd
/// 1.6 and runc 1.1. The first row that fits counts.
const KNOWN: &[Known] = &[
    // https://github.com/kubernetes/kubernetes/blob/v1.33.0/pkg/registry/core/pod/strategy.go (validateContainer)
    Known {
        at: Where::Http(400),
        says: &["a container name must be specified"],
        means: Meaning::WrongContainer,
    },
    Known {
        at: Where::Http(400),
        says: &["container", "is not valid for pod"],
        means: Meaning::WrongContainer,
    },
    Known {
        at: Where::Http(400),
        says: &["does not have a host assigned"],
        means: Meaning::NotRunning,
    },
    // https://github.com/kubernetes/kubernetes/blob/v1.33.0/pkg/kubelet/kubelet_pods.go (container not found)
    Known {
        at: Where::Http(500),
        says: &["container not found"],
        means: Meaning::NotRunning,
    },
    Known {
        at: Where::Channel,
        says: &["container not found"],
        means: Meaning::NotRunning,
    },
    // https://github.com/kubernetes/kubernetes/blob/v1.33.0/staging/src/k8s.io/apimachinery/pkg/util/proxy/upgradeaware.go
    Known {
        at: Where::Http(500),
        says: &["error dialing backend"],
        means: Meaning::KubeletGone,
    },
    Known {
        at: Where::Channel,
        says: &["error dialing backend"],
        means: Meaning::KubeletGone,
    },
    // runc, and crun, which puts the name into the middle.
    Known {
        at: Where::Channel,
        says: &["executable file", "not found in $PATH"],
        means: Meaning::NoExecutable,
    },
    // https://github.com/GoogleContainerTools/distroless/issues/891: runc, when an absolute path is asked for. Not measured.
    Known {
        at: Where::Channel,
        says: &["exec: ", "stat ", "no such file or directory"],
        means: Meaning::NoExecutable,
    },
    Known {
        at: Where::Http(403),
        says: &["cannot get resource \"pods/exec\""],
        means: Meaning::MissingGet,
    },
    Known {
        at: Where::Http(403),
        says: &["cannot create resource \"pods/exec\""],
        means: Meaning::MissingCreate,
    },
];

/// What some runtimes print on stdout instead of reporting that the program is missing, with exit code 126 or 127
/// (<https://github.com/cert-manager/cert-manager/issues/3784>). Not measured.
const PRINTED_REFUSAL: &[u8] = b"OCI runtime exec failed";

fn known(at: Where, text: &str, program: &str) -> Option<End> {
    let row = KNOWN
        .iter()
        .find(|row| row.at == at && row.says.iter().all(|part| text.contains(part)))?;
    Some(match row.means {
        Meaning::NotRunning => End::NotRunning { why: said(text) },
        Meaning::WrongContainer => End::WrongContainer {
            choices: choices(text),
        },
        Meaning::KubeletGone => End::KubeletGone { said: said(text) },
        Meaning::NoExecutable => End::NoExecutable {
            name: program.to_owned(),
        },
        Meaning::MissingGet => End::Forbidden { verb: Some("get") },
        Meaning::MissingCreate => End::Forbidden {
            verb: Some("create"),
        },
    })
}

/// `choose one of: [main sidecar]` and, with init containers, `choose one of: [main] or one of the init containers: [i]`.
fn choices(text: &str) -> Vec<String> {
    let list = text
        .split_once("choose one of: [")
        .and_then(|(_, rest)| rest.split_once(']'));
    list.map_or(Vec::new(), |(names, _)| {
        names.split_whitespace().map(said).collect()
    })
}

/// The answer to an exec that was not upgraded.
pub(crate) fn before_upgrade(error: &kube::Error, program: &str) -> End {
    let kube::Error::Api(status) = error else {
        return End::Call(Cause::from(error));
    };
    if let Some(end) = known(Where::Http(status.code), &status.message, program) {
        return end;
    }
    match status.code {
        404 => End::PodNotFound,
        // Since 1.35 a missing `create` is refused by an admission that gives no reason at all: the sentence ends after
        // the colon. The gate is AuthorizePodWebsocketUpgradeCreatePermission, kubernetes/kubernetes#134577.
        403 if status.message.trim_end().ends_with("is forbidden:") => End::Forbidden {
            verb: Some("create"),
        },
        403 => End::Forbidden { verb: None },
        500 => End::Failed {
            said: said(&status.message),
        },
        _ => End::Call(Cause::from(error)),
    }
}

/// The status object at the end of an exec; None when the connection broke before it came.
pub(crate) fn after_upgrade(status: Option<Status>, program: &str) -> End {
    let Some(status) = status else {
        return End::ConnectionLost;
    };
    if status.status.as_deref() == Some("Success") {
        return End::Exit(0);
    }
    let message = status.message.unwrap_or_default();
    if status.reason.as_deref() == Some("NonZeroExitCode") {
        let causes = status.details.and_then(|d| d.causes).unwrap_or_default();
        let code = causes
            .iter()
            .find(|c| c.reason.as_deref() == Some("ExitCode"))
            .and_then(|c| c.message.as_deref()?.parse().ok());
        return match code {
            Some(code) => End::Exit(code),
            None => End::Failed {
                said: said(&message),
            },
        };
    }
    known(Where::Channel, &message, program).unwrap_or_else(|| End::Failed {
        said: said(&message),
    })
}

/// Some runtimes report a missing program as an exit code and a sentence on stdout.
pub(crate) fn printed_refusal(end: End, stdout: &[u8], program: &str) -> End {
    match end {
        End::Exit(126 | 127) if stdout.starts_with(PRINTED_REFUSAL) => End::NoExecutable {
            name: program.to_owned(),
        },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::pod_exec::ExecTarget;

    fn http(code: u16, message: &str) -> End {
        let status = serde_json::json!({"code": code, "message": message});
        let status = serde_json::from_value(status).unwrap();
        before_upgrade(&kube::Error::Api(status), "sh")
    }

    fn channel(message: &str) -> End {
        let status = serde_json::json!({"status": "Failure", "reason": "InternalError", "code": 500, "message": message});
        after_upgrade(serde_json::from_value(status).unwrap(), "sh")
    }

    #[test]
    fn sentences_seen_in_the_field_are_told_apart() {
        let no_shell = End::NoExecutable {
            name: "sh".to_owned(),
        };
        for said in [
            "Internal error occurred: error executing command in container: failed to exec in container: failed to start exec \"f83e\": OCI runtime exec failed: exec failed: unable to start container process: exec: \"sh\": executable file not found in $PATH: unknown",
            "command terminated: executable file `sh` not found in $PATH: No such file or directory: OCI runtime attempted to invoke a command that was not found",
            "exec failed: container_linux.go:380: starting container process caused: exec: \"/bin/sh\": stat /bin/sh: no such file or directory: unknown",
        ] {
            assert_eq!(channel(said), no_shell, "{said}");
        }
        let end = http(
            400,
            "a container name must be specified for pod p, choose one of: [main side]",
        );
        assert_eq!(
            end,
            End::WrongContainer {
                choices: vec!["main".to_owned(), "side".to_owned()]
            }
        );
        let end = http(400, "container nosuch is not valid for pod p");
        assert_eq!(end, End::WrongContainer { choices: vec![] });
        assert_eq!(
            http(403, "pods \"p\" is forbidden: "),
            End::Forbidden {
                verb: Some("create")
            }
        );
        assert_eq!(
            http(403, "pods \"p\" is forbidden: by a policy"),
            End::Forbidden { verb: None }
        );
        assert!(matches!(http(500, "something new"), End::Failed { .. }));
        assert!(matches!(channel("something new"), End::Failed { .. }));
        assert!(matches!(
            channel("unable to upgrade connection: container not found"),
            End::NotRunning { .. }
        ));
    }

    #[test]
    fn a_failure_without_an_exit_code_is_not_an_exit() {
        let status =
            serde_json::json!({"status": "Failure", "reason": "NonZeroExitCode", "message": "?"});
        let end = after_upgrade(serde_json::from_value(status).unwrap(), "sh");
        assert!(matches!(end, End::Failed { .. }));
        assert_eq!(after_upgrade(None, "sh"), End::ConnectionLost);
    }

    #[test]
    fn a_refusal_on_stdout_is_a_missing_program() {
        let out = b"OCI runtime exec failed: exec failed: ...";
        assert_eq!(
            printed_refusal(End::Exit(126), out, "sh"),
            End::NoExecutable {
                name: "sh".to_owned()
            }
        );
        assert_eq!(printed_refusal(End::Exit(126), b"", "sh"), End::Exit(126));
    }

    #[test]
    fn every_end_but_an_exit_skips_with_the_pod_named() {
        let at = ExecTarget {
            namespace: "llm".to_owned(),
            pod: "decode-0".to_owned(),
            container: None,
        };
        let ends = [
            End::ConnectionLost,
            End::Deadline {
                after: Duration::from_secs(2),
            },
            End::OutputLimit { bytes: 1 },
            End::Stopped,
            End::NoExecutable {
                name: "sh".to_owned(),
            },
            End::PodNotFound,
            End::NotRunning {
                why: "x".to_owned(),
            },
            End::WrongContainer { choices: vec![] },
            End::Forbidden {
                verb: Some("create"),
            },
            End::KubeletGone {
                said: "x".to_owned(),
            },
            End::Failed {
                said: "x".to_owned(),
            },
            End::Call(Cause::Unauthorized),
        ];
        for end in ends {
            let skip = end.skip(&at).unwrap();
            assert!(skip.detail.contains("pod llm/decode-0"), "{}", skip.detail);
            assert_ne!(skip.reason, SkipReason::NotApplicable);
        }
        assert!(End::Exit(0).skip(&at).is_none());
    }
}
