//! The Job that gates a rollout (`packaging/job.yaml`): made from the needs of `check`, so that it may neither do less than the
//! tool needs nor more.

use super::access::{IN_NAMESPACE, LIST_DOMAINS, Need, role};

const NAME: &str = "dynamo-interconnect-check";

/// What `check --transfer` needs: everything within the namespace, less what only `--nodes` asks for.
fn needs() -> Vec<Need> {
    let all = IN_NAMESPACE.into_iter();
    all.filter(|need| *need != LIST_DOMAINS).collect()
}

fn job_yaml() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let role = role("Role", NAME, &needs());
    format!(
        r#"# Gates a rollout from inside the cluster: the Job fails unless the lane of every prefill/decode pair was proven.
# Generated from src/cluster/job.rs. Put the image of packaging/Containerfile into your registry and its name below, then, when the
# workers are ready (nothing here waits for them):
#   kubectl -n NAMESPACE delete --ignore-not-found job/{NAME}
#   kubectl -n NAMESPACE apply -f packaging/job.yaml
#   kubectl -n NAMESPACE logs job/{NAME}
# It ends as Complete or as Failed; docs/guides/gate-a-pipeline.md waits for either. Argo CD (PostSync) and Helm (post-install,
# post-upgrade) run it as a hook, and neither knows without help when a DynamoGraphDeployment is ready.
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {NAME}
automountServiceAccountToken: false
---
# The rights of docs/rbac.yaml that this Job uses. Only pods/exec could do more than read; `node --print-script` shows
# everything that is sent through it, and `nixl --transfer` says what it moves.
{role}---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {NAME}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {NAME}
subjects:
  - kind: ServiceAccount
    name: {NAME}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {NAME}
  labels:
    app.kubernetes.io/name: {NAME}
  annotations:
    argocd.argoproj.io/hook: PostSync
    argocd.argoproj.io/hook-delete-policy: BeforeHookCreation
    helm.sh/hook: post-install,post-upgrade
    helm.sh/hook-delete-policy: before-hook-creation
spec:
  # An answer does not get better by asking again.
  backoffLimit: 0
  # More than --deadline, so that the report of a slow run is still printed.
  activeDeadlineSeconds: 1500
  template:
    metadata:
      labels:
        app.kubernetes.io/name: {NAME}
    spec:
      serviceAccountName: {NAME}
      automountServiceAccountToken: true
      restartPolicy: Never
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        seccompProfile:
          type: RuntimeDefault
      containers:
        - name: check
          image: {NAME}:{version}
          args:
            - check
            # - my-graph    # which DynamoGraphDeployment, where the namespace holds more than one
            - --transfer
            - --require-trusted
            - --deadline=1200
            - --output=text
          # The end of the report stands in the status of the pod, too.
          terminationMessagePolicy: FallbackToLogsOnError
          resources:
            requests:
              cpu: 100m
              memory: 64Mi
            limits:
              memory: 512Mi
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: ["ALL"]
"#
    )
}

#[test]
fn the_job_is_made_from_what_check_needs() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/job.yaml");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, job_yaml()).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    let again = "UPDATE=1 cargo test --lib cluster::job writes it again";
    assert_eq!(written, job_yaml(), "{again}");
}
