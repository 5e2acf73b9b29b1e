//! Tests of the text report.

use super::*;
use crate::ask;
use crate::checks;
use crate::checks::testing::{GPU, Pod, RDMA, alone, container, env, graph, lines, pasted, report};
use crate::manifest::Inventory;
use crate::report::{InputError, Note};

const LOCK: &str = "securityContext: {capabilities: {add: [IPC_LOCK]}}";

/// What a person sees who has no colours.
fn drawn(report: &Report, verbose: bool) -> String {
    let options = Options {
        verbose,
        width: 100,
    };
    anstream::adapter::strip_str(&render(report, options)).to_string()
}

fn healthy() -> Report {
    report(&graph(&lines(&[RDMA, LOCK])))
}

/// What a person sees of these pasted outputs.
fn of_pasted(answers: &[(&ask::Ask, &str)], verbose: bool) -> String {
    let findings = checks::run(&Inventory::default(), &[pasted(answers)]);
    drawn(
        &Report::new("node", vec![], findings, vec![], vec![]),
        verbose,
    )
}

#[test]
fn pasted_outputs_show_what_was_read_and_fold_what_was_not() {
    let limit = [(&ask::ULIMIT, "unlimited\n")];
    insta::assert_snapshot!(of_pasted(&limit, false), @"
    NOT PROVEN
    Nothing on the KV path failed in the pasted outputs, which prove no lane.

    Read and harmless
        ok  memlock-limited: RLIMIT_MEMLOCK of the shell that printed it is unlimited  [MEM001]

    Observed 1 of 35 checks: 1 ok, 0 warn, 0 fail, 34 skipped. 34 need more than was pasted: add --input
    ibv-devinfo=FILE (15), --input smi-q=FILE (8), --input env=FILE (3), --input ucx-info-devices=FILE
    (2), --input pip=FILE (2). --verbose shows all.
    ");
    let all = of_pasted(&limit, true);
    for words in [
        "skipped gid-index-unusable [RDMA010], selected-nic-unusable [RDMA011], live-variable [ENV012]",
        "no env was pasted (--input env=FILE)",
    ] {
        assert_eq!(all.matches(words).count(), 1, "{words}: {all}");
    }
    assert!(!all.contains("/sys/class"), "{all}");
}

#[test]
fn a_heading_that_is_wider_than_the_screen_goes_on_below() {
    let mut findings = Vec::new();
    for at in 0..6 {
        let mut snapshot = container("decode", &[(&ask::ULIMIT, "64\n")]);
        snapshot.place.pod = format!("a-pod-with-a-long-name-decode-{at}");
        findings.extend(checks::run(&Inventory::default(), &[snapshot]));
    }
    let report = Report::new("node", vec![], findings, vec![], vec![]);
    let text = drawn(&report, false);
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
    assert!(
        text.contains("\n          (decode), a-pod-with-a-long-name-decode-2"),
        "{text}"
    );
}

#[test]
fn a_fail_shows_what_to_fix() {
    let text = graph(&lines(&[RDMA, LOCK, &env(&[("UCX_TLS", "tcp,cuda_copy")])]));
    insta::assert_snapshot!(drawn(&report(&text), false), @r#"
    NOT TRUSTED
    Disaggregated serving with g cannot be trusted; fix first: UCX_TLS=tcp,cuda_copy: no RDMA transport
    (rc, dc, srd) is enabled (on g/p).

    g  untrusted  t.yaml:1
        1 x prefill p (1 GPU, device-plugin)
        1 x decode d (1 GPU, device-plugin)

    Fix first
     1  fail  env:UCX_TLS  p (prefill), d (decode)  [ENV002]
        UCX_TLS="tcp,cuda_copy": no RDMA transport (rc, dc, srd) is enabled, so KV between nodes goes
        over TCP
          --> t.yaml:15:22
           |
        15 |               env: [{name: UCX_TLS, value: "tcp,cuda_copy"}]
           |                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        fix: write UCX_TLS=rc_x,rc,cuda_copy,cuda_ipc, or remove UCX_TLS
        paste:
            # under spec.components[p].podTemplate.spec.containers[main]
            env:
              - name: UCX_TLS
                value: rc_x,rc,cuda_copy,cuda_ipc
            ---
            # under spec.components[d].podTemplate.spec.containers[main]
            env:
              - name: UCX_TLS
                value: rc_x,rc,cuda_copy,cuda_ipc

    Observed 14 of 14 checks: 12 ok, 0 warn, 2 fail, 0 skipped.
    "#);
}

#[test]
fn an_object_is_no_file() {
    let mut report = report(&graph(GPU));
    for evidence in report.fix_first.iter_mut().flat_map(|f| &mut f.evidence) {
        evidence.path = Some("Pods of g".to_owned());
    }
    let text = drawn(&report, false);
    assert!(
        text.contains("\n      Pods of g\n        | resources: {limits: {nvidia.com/gpu: 1}}\n"),
        "{text}"
    );
    assert!(!text.contains("Pods of g:"), "{text}");
}

#[test]
fn a_warning_is_worth_a_look() {
    insta::assert_snapshot!(drawn(&report(&graph(GPU)), false), @r#"
    NOT PROVEN
    Disaggregated serving with g is not proven: nothing on its KV path failed, and no transfer was
    observed; look first at: the pod asks for nothing that could carry KV fast (on g/p).

    g  unproven  t.yaml:1
        1 x prefill p (1 GPU)
        1 x decode d (1 GPU)

    Worth a look
     1  warn  no-transport-path  p (prefill), d (decode)  [K8S001]
        the pod asks for no RDMA device, no ComputeDomain and no host device, so as it is written KV can
        only travel over TCP
          --> t.yaml:13:36
           |
        13 |               resources: {limits: {nvidia.com/gpu: 1}}
           |                                    ^^^^^^^^^^^^^^^^^^^
        fix: request the cluster's RDMA resource and add IPC_LOCK, or render the overlay that does
        paste:
            # under spec.components[p].podTemplate.spec.containers[main]
            resources:
              limits:
                rdma/ib: "1"  # or the name that your device plugin offers
            securityContext:
              capabilities:
                add: [IPC_LOCK]
            ---
            # under spec.components[d].podTemplate.spec.containers[main]
            resources:
              limits:
                rdma/ib: "1"  # or the name that your device plugin offers
            securityContext:
              capabilities:
                add: [IPC_LOCK]

    Observed 7 of 7 checks: 5 ok, 2 warn, 0 fail, 0 skipped.
    "#);
}

#[test]
fn a_healthy_graph_has_nothing_to_fix() {
    insta::assert_snapshot!(drawn(&healthy(), false), @r#"
    NOT PROVEN
    Disaggregated serving with g is not proven: nothing on its KV path failed, and no transfer was
    observed.

    g  unproven  t.yaml:1
        1 x prefill p (1 GPU, device-plugin)
        1 x decode d (1 GPU, device-plugin)

    Observed 12 of 12 checks: 12 ok, 0 warn, 0 fail, 0 skipped.
    "#);
}

#[test]
fn an_aggregated_graph_has_no_path_to_trust() {
    insta::assert_snapshot!(drawn(&report(&alone(Pod::of(GPU))), false), @r#"
    NOT APPLICABLE
    g is aggregated: no KV cache leaves a worker, so there is no disaggregated path to trust.

    g  not-applicable  t.yaml:1
        1 x agg w (1 GPU)

    Observed 0 of 0 checks: 0 ok, 0 warn, 0 fail, 0 skipped.
    "#);
}

#[test]
fn an_input_that_cannot_be_read_is_named() {
    let error = InputError {
        object: "secret.yaml".into(),
        message: "cannot read it: permission denied; grant read access".into(),
    };
    let note = Note {
        object: "chart/templates/x.yaml".into(),
        message: "a Helm template, not judged; render it first".into(),
    };
    let report = Report::new("env", vec![], vec![], vec![error], vec![note]);
    insta::assert_snapshot!(drawn(&report, false), @"
    NOT PROVEN
    Nothing could be judged; secret.yaml could not be read.

    error: secret.yaml:
        cannot read it: permission denied; grant read access
    note: chart/templates/x.yaml: a Helm template, not judged; render it first
    Observed 0 of 0 checks: 0 ok, 0 warn, 0 fail, 0 skipped.
    ");
}

#[test]
fn verbose_shows_every_finding() {
    insta::assert_snapshot!(drawn(&healthy(), true), @"
    NOT PROVEN
    Disaggregated serving with g is not proven: nothing on its KV path failed, and no transfer was
    observed.

    g  unproven  t.yaml:1
        1 x prefill p (1 GPU, device-plugin)
        1 x decode d (1 GPU, device-plugin)

    All checks
      g
        ok      rdma-resource-differs  [K8S005]
                both roles request the same RDMA resources
        ok      role-env-differs  [ENV011]
                p and d have the same transport settings
      g/p (prefill)
        ok      no-transport-path  [K8S001]
                the pod asks for a fast path: device-plugin
        ok      ipc-lock-missing  [K8S007]
                the container may lock memory
        ok      rdma-count  [K8S006]
                1 rdma/ib for 1 GPU
        ok      shm-small  [K8S013]
                shared memory is the operator's default of 8Gi
        ok      env:disagg-transport  [ENV004]
                no transport variable that this worker needs is missing; unset UCX and NCCL variables
                are good defaults
      g/d (decode)
        ok      no-transport-path  [K8S001]
                the pod asks for a fast path: device-plugin
        ok      ipc-lock-missing  [K8S007]
                the container may lock memory
        ok      rdma-count  [K8S006]
                1 rdma/ib for 1 GPU
        ok      shm-small  [K8S013]
                shared memory is the operator's default of 8Gi
        ok      env:disagg-transport  [ENV004]
                no transport variable that this worker needs is missing; unset UCX and NCCL variables
                are good defaults

    Observed 12 of 12 checks: 12 ok, 0 warn, 0 fail, 0 skipped.
    ");
}

#[test]
fn colours_only_support_the_words() {
    let options = Options {
        verbose: false,
        width: 100,
    };
    let coloured = render(&healthy(), options);
    assert!(coloured.contains('\u{1b}'), "there are some");
    assert!(!drawn(&healthy(), false).contains('\u{1b}'));
}
