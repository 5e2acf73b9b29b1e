use crate::catalogue;
use crate::check;
use crate::checks::WorkerScope;
use crate::checks::declare::{Draft, Outcome};
use crate::report::KvPath;

check! {
    /// A UCX variable has a name that no UCX version reads.
    ///
    /// One finding per name, `env:<NAME>`. The value is not read.
    ///
    /// ## Why it matters
    /// UCX ignores it with one warning (`unused environment variables: ..`). A misspelt `UCX_NET_DEVICE` leaves the
    /// setting that was meant at its default, and nobody notices.
    ///
    /// ## Fix
    /// Correct the name, or remove the line.
    ///
    /// ## Sources
    /// UCX v1.20.0 `src/ucs/config/parser.c`, `ucs_config_parser_get_env_vars`.
    "ENV003" "unknown-variable" on Worker {
        subsystem: Env, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

fn run(scope: &WorkerScope<'_>) -> Outcome {
    scope.require_kv()?;
    let drafts = scope.worker.unknown.iter().map(|unknown| {
        let name = &unknown.name;
        let (hint, fix) = match catalogue::nearest(name) {
            Some(near) => (
                format!("; {near} is close"),
                format!("write {near} if that is meant, else remove {name}"),
            ),
            None => (String::new(), format!("remove {name}")),
        };
        Draft::warn(format!("no UCX version reads {name}: it is ignored{hint}"))
            .named(format!("env:{name}"))
            .on_kv_path(KvPath::Supporting)
            .with([unknown.spot.evidence()])
            .fix(fix)
    });
    Ok(drafts.collect())
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::{Pod, alone, env, graph, report, table, unread};
    use crate::report::Status::Warn;

    #[test]
    fn table_of_statuses() {
        table(
            "env:UCX_NET_DEVICE",
            &[
                (
                    "misspelt",
                    graph(&env(&[("UCX_NET_DEVICE", "mlx5_0:1")])),
                    &[Warn, Warn],
                ),
                (
                    "misspelt, from a field",
                    graph(&unread("UCX_NET_DEVICE")),
                    &[Warn, Warn],
                ),
                ("not set", graph("env: []"), &[]),
                (
                    "aggregated",
                    alone(Pod::of(&env(&[("UCX_NET_DEVICE", "mlx5_0:1")]))),
                    &[],
                ),
            ],
        );
        table(
            "env:MY_NET_DEVICE",
            &[(
                "no reserved prefix",
                graph(&env(&[("MY_NET_DEVICE", "x")])),
                &[],
            )],
        );
        let report = report(&graph(&env(&[("UCX_NET_DEVICE", "mlx5_0:1")])));
        let found = report.checks.iter().find(|f| f.id == "ENV003").unwrap();
        assert!(
            found.detail.contains("UCX_NET_DEVICES is close"),
            "{}",
            found.detail
        );
        assert!(!found.detail.contains("mlx5_0"), "the value is not read");
    }
}
