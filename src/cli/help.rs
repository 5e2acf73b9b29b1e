//! What `--help` says beyond the options: examples, what a command needs, and how it ends.

/// Exit codes of everything that reports.
macro_rules! exit_codes {
    () => {
        "
Exit codes:
  0  no check failed                    1  a check failed, or nothing could be judged
  2  the command line is wrong          3  --require-trusted, and not trusted
  4  something named could not be read  130  interrupted"
    };
}

pub(super) const ENV: &str = concat!(
    "\
Examples:
  dynamo-interconnect-check env recipes/my-model/deploy.yaml
  dynamo-interconnect-check env overlays/h100 -v
  helm template my-chart | dynamo-interconnect-check env -

Needs: nothing but the files. A kustomization is rendered where kustomize or kubectl is installed. No cluster is asked,
so no lane is ever proven: `check NAME --transfer` does that once it runs.
",
    exit_codes!()
);

pub(super) const NODE: &str = concat!(
    "\
Examples:
  dynamo-interconnect-check node                                 this machine, or the container it runs in
  dynamo-interconnect-check node --pod my-decode-0 -n my-ns      a pod
  dynamo-interconnect-check node -n my-ns -l nvidia.com/dynamo-graph-deployment-name=my-graph
  dynamo-interconnect-check node --input topo=topo.txt --input ibstat=ibstat.txt
  dynamo-interconnect-check node --pod my-decode-0 --save decode.tar.zst

Needs: for this machine no right beyond a user's; what only root may read (dmesg) is skipped. For pods a kubeconfig, and
`get` and `list` of pods with `create` (or `get`) of pods/exec in their namespace: docs/rbac.yaml holds the Role.
Nothing is written. One end proves no lane: `check NAME --transfer` does.
",
    exit_codes!()
);

pub(super) const NIXL: &str = concat!(
    "\
Examples:
  dynamo-interconnect-check nixl --pod my-decode-0                                     is NIXL ready?
  dynamo-interconnect-check nixl --transfer --pod my-decode-0 --peer my-prefill-0      does it move KV, and over which lane?
  dynamo-interconnect-check nixl --transfer --pods prefill=app=prefill,decode=app=decode --quick
  dynamo-interconnect-check nixl --transfer --pod my-decode-0 --self                   one pod alone

Needs: a kubeconfig, and `get` and `list` of pods with `create` (or `get`) of pods/exec in their namespace: docs/rbac.yaml
holds the Role. --transfer needs python3 with NIXL in both containers, and some free GPU memory or --memory host; it moves
at most 4 GiB per pair, opens no port of its own and leaves nothing behind.
",
    exit_codes!()
);

pub(super) const CHECK: &str = concat!(
    "\
Examples:
  dynamo-interconnect-check check                                   the only deployment of the namespace
  dynamo-interconnect-check check my-graph -n my-ns
  dynamo-interconnect-check check my-graph -n my-ns --transfer      proves the lane of every pair
  dynamo-interconnect-check check my-graph --recipe deploy.yaml     holds what runs against what was meant
  dynamo-interconnect-check check -n my-ns -l app=my-llm-d-model    without a DynamoGraphDeployment
  dynamo-interconnect-check check my-graph --save run.tar.zst; dynamo-interconnect-check check --from run.tar.zst

Needs: a kubeconfig, and in the namespace `get` and `list` of pods, DynamoGraphDeployments and what docs/rbac.yaml lists
beside them, with `create` (or `get`) of pods/exec: `kubectl apply -f docs/rbac.yaml` grants the Role. --nodes needs the
optional ClusterRole of the same file. Where a right is missing it says which, and judges the rest.
",
    exit_codes!()
);
