//! The Job that gates a rollout, run as the cluster would run it: with its arguments, and with no right that its Role lacks.

use crate::fake::cluster::{FakeCluster, Logged};
use crate::run;
use crate::standin::has_python;
use crate::transfers::{fleet, without_a_device};
use serde_json::Value;
use std::collections::BTreeSet;

/// The documents of `packaging/job.yaml`, by kind.
fn document(kind: &str) -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/job.yaml");
    let text = std::fs::read_to_string(path).unwrap();
    let all: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let mut found = all.into_iter().filter(|d| d["kind"] == kind);
    let document = found.next().unwrap_or_else(|| panic!("no {kind}"));
    assert_eq!(found.next(), None, "one {kind}");
    document
}

fn strings(value: &Value) -> Vec<String> {
    let all = value.as_array().unwrap_or_else(|| panic!("{value}"));
    all.iter().map(|v| v.as_str().unwrap().to_owned()).collect()
}

/// `verb group/resource` of everything that the Role grants.
fn granted() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for rule in document("Role")["rules"].as_array().unwrap() {
        for group in strings(&rule["apiGroups"]) {
            for resource in strings(&rule["resources"]) {
                for verb in strings(&rule["verbs"]) {
                    all.insert(format!("{verb} {group}/{resource}"));
                }
            }
        }
    }
    all
}

/// What the API server would have looked for in the Roles of the namespace. Reviews of one's own access, and which API
/// groups there are, are free for every account.
fn wanted(request: &Logged) -> Option<String> {
    let (group, rest) = match request.path.strip_prefix("/api/v1/") {
        Some(rest) => ("", rest),
        None => {
            let (group, rest) = request.path.strip_prefix("/apis/")?.split_once('/')?;
            (group, rest.split_once('/')?.1)
        }
    };
    if group == "authorization.k8s.io" {
        return None;
    }
    let mut parts = rest.strip_prefix("namespaces/").map_or_else(
        || panic!("{} is in no namespace", request.path),
        |rest| rest.split('/').skip(1),
    );
    let resource = parts.next()?;
    Some(match (parts.next(), parts.next()) {
        (None, _) => format!("list {group}/{resource}"),
        (Some(_), None) => format!("get {group}/{resource}"),
        (Some(_), Some(sub)) => format!("get {group}/{resource}/{sub}"),
    })
}

/// Runs the Job's container against this cluster. Only how the cluster is reached, and less data, differ.
async fn job(fake: &FakeCluster) -> run::Run {
    let job = document("Job");
    let containers = job["spec"]["template"]["spec"]["containers"]
        .as_array()
        .unwrap();
    assert_eq!(containers.len(), 1);
    let args = strings(&containers[0]["args"]);
    let mut command = run::command(&args[0]);
    command.args(&args[1..]).arg("--quick");
    run::run(run::against(command, &fake.kubeconfig())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_job_passes_where_every_lane_is_proven_and_needs_no_more_than_its_role() {
    if !has_python() {
        return;
    }
    let (fake, _trees) = fleet("invented-rc-mlx5-one-rail", |pod, _| pod).await;
    let run = job(&fake).await;
    assert_eq!(run.code, Some(0), "{}\n{}", run.stdout, run.stderr);
    assert!(run.stdout.starts_with("TRUSTED\n"), "{}", run.stdout);
    let granted = granted();
    let used: BTreeSet<String> = fake.requests().iter().filter_map(wanted).collect();
    assert!(used.contains("get /pods/exec"), "{used:?}");
    let missing: Vec<&String> = used.difference(&granted).collect();
    assert!(missing.is_empty(), "the Role lacks {missing:?}");
    for change in [
        "update",
        "patch",
        "delete",
        "deletecollection",
        "watch",
        "*",
    ] {
        assert!(!granted.iter().any(|g| g.starts_with(change)), "{change}");
    }
    let creates: Vec<&String> = granted.iter().filter(|g| g.starts_with("create")).collect();
    assert_eq!(creates, ["create /pods/exec"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_job_fails_where_a_lane_is_wrong() {
    if !has_python() {
        return;
    }
    let (fake, _trees) = without_a_device().await;
    let run = job(&fake).await;
    assert_eq!(run.code, Some(1), "{}", run.stdout);
    assert!(run.stdout.starts_with("NOT TRUSTED\n"), "{}", run.stdout);
}

/// Where nothing may be looked into, the gate stays shut.
#[tokio::test(flavor = "multi_thread")]
async fn the_job_fails_where_it_may_not_look() {
    let rack = crate::rack::Rack::new(crate::rack::Fabric::InfiniBand).into();
    let fake = rack.deny("create", "pods/exec").start().await;
    let run = job(&fake).await;
    assert_ne!(run.code, Some(0), "{}", run.stdout);
    assert!(run.stdout.contains("docs/rbac.yaml"), "{}", run.stdout);
}

/// The restricted profile of the Pod Security Standards, and a root file system that cannot be written to.
#[test]
fn the_job_runs_under_the_restricted_profile() {
    let job = document("Job");
    let pod = &job["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert!(pod["securityContext"]["runAsUser"].as_u64().unwrap() > 0);
    assert_eq!(
        pod["securityContext"]["seccompProfile"]["type"],
        "RuntimeDefault"
    );
    let security = &container["securityContext"];
    assert_eq!(security["allowPrivilegeEscalation"], false);
    assert_eq!(security["readOnlyRootFilesystem"], true);
    assert_eq!(strings(&security["capabilities"]["drop"]), ["ALL"]);
    for absent in ["hostNetwork", "hostPID", "hostIPC", "volumes"] {
        assert!(pod[absent].is_null(), "{absent}");
    }
    assert_eq!(job["spec"]["backoffLimit"], 0);
    let account = document("ServiceAccount");
    let binding = document("RoleBinding");
    assert_eq!(pod["serviceAccountName"], account["metadata"]["name"]);
    assert_eq!(
        binding["roleRef"]["name"],
        document("Role")["metadata"]["name"]
    );
    assert_eq!(
        binding["subjects"][0]["name"], account["metadata"]["name"],
        "{binding}"
    );
    let image = container["image"].as_str().unwrap();
    assert!(image.ends_with(concat!(":", env!("CARGO_PKG_VERSION"))));
}

/// A field that the API does not know would be dropped by a lenient server, and refused by a strict one.
#[test]
fn every_field_of_the_file_is_one_of_the_api() {
    fn known<T: serde::de::DeserializeOwned + serde::Serialize>(kind: &str) {
        let mut written = document(kind);
        let read: T = serde_json::from_value(written.clone()).unwrap();
        let again = serde_json::to_value(read).unwrap();
        // The types know their own version and kind.
        let all = written.as_object_mut().unwrap();
        all.retain(|key, _| again.get(key).is_some() || (key != "apiVersion" && key != "kind"));
        assert_eq!(again, written, "{kind}");
    }
    use k8s_openapi::api::{batch::v1::Job, core::v1::ServiceAccount, rbac::v1};
    known::<ServiceAccount>("ServiceAccount");
    known::<v1::Role>("Role");
    known::<v1::RoleBinding>("RoleBinding");
    known::<Job>("Job");
}
