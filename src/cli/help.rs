//! What `--help` says beyond the options: examples, what a command needs, and how it ends. Lines fit the width that the
//! options are wrapped at.

/// Exit codes of everything that reports; some can end in the one about trust.
macro_rules! exit_codes {
    ($trust:literal, $four:literal) => {
        concat!(
            "
Exit codes:
  0    no check failed
  1    a check failed (--strict: or warned), or nothing could be judged
  2    the command line is wrong
",
            $trust,
            $four,
            "  130  interrupted"
        )
    };
    () => {
        exit_codes!("", "  4    something that was named could not be read, or reached\n")
    };
    (with trust) => {
        exit_codes!(
            "  3    --require-trusted was given, and trust is not `trusted`\n",
            "  4    something that was named could not be read or reached, or a transfer was not made\n"
        )
    };
}

pub(super) const ENV: &str = concat!(
    "\
Examples:
  dynamo-interconnect-check env recipes/my-model/deploy.yaml
  dynamo-interconnect-check env overlays/h100 -v
  helm template my-chart | dynamo-interconnect-check env -

Needs: nothing but the files. A kustomization is rendered where kustomize or kubectl is
installed. No cluster is asked, so no lane is ever proven: `check NAME --transfer` does that
once it runs.
",
    exit_codes!()
);

pub(super) const NODE: &str = concat!(
    "\
Examples:
  this machine, or the container that it runs in:
    dynamo-interconnect-check node
  pods:
    dynamo-interconnect-check node --pod my-decode-0 -n my-ns
    dynamo-interconnect-check node -l app=decode -n my-ns --save decode.tar.zst
  outputs that somebody sent:
    dynamo-interconnect-check node --input topo=topo.txt --input ibstat=ibstat.txt

Needs: for this machine no right beyond a user's; what only root may read (dmesg) is skipped.
For pods a kubeconfig, and in their namespace `get` and `list` of pods and `create` (or `get`)
of pods/exec: docs/rbac.yaml holds the Role. Nothing is written. One end proves no lane:
`check NAME --transfer` does.
",
    exit_codes!()
);

pub(super) const NIXL: &str = concat!(
    "\
Examples:
  is NIXL ready?
    dynamo-interconnect-check nixl --pod my-decode-0
  does it move KV, and over which lane?
    dynamo-interconnect-check nixl --transfer --pod my-decode-0 --peer my-prefill-0
    dynamo-interconnect-check nixl --transfer --pods prefill=app=prefill,decode=app=decode
    dynamo-interconnect-check nixl --transfer --pod my-decode-0 --self --quick

Needs: a kubeconfig, and in the namespace `get` and `list` of pods and `create` (or `get`) of
pods/exec: docs/rbac.yaml holds the Role. --transfer needs python3 with NIXL in both
containers, and free GPU memory or --memory host; it moves at most 4 GiB per pair and leaves
nothing behind.
",
    exit_codes!(with trust)
);

pub(super) const CHECK: &str = concat!(
    "\
Examples:
  the only deployment of the namespace, or one of them:
    dynamo-interconnect-check check
    dynamo-interconnect-check check my-graph -n my-ns
  the same, and the lane of every pair proven:
    dynamo-interconnect-check check my-graph -n my-ns --transfer
  what runs, held against what was meant:
    dynamo-interconnect-check check my-graph --recipe deploy.yaml
  pods without a DynamoGraphDeployment:
    dynamo-interconnect-check check -n my-ns -l app=my-llm-d-model
  recorded, and judged again without the cluster:
    dynamo-interconnect-check check my-graph --save run.tar.zst
    dynamo-interconnect-check check --from run.tar.zst

Needs: a kubeconfig, and the Role of docs/rbac.yaml in the namespace: `get` and `list` of pods,
`create` (or `get`) of pods/exec, `list` of DynamoGraphDeployments, and reading what these refer
to. --nodes needs the optional ClusterRole of the same file. Where a right is missing it says
which, and judges the rest.
",
    exit_codes!(with trust)
);
