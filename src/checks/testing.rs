//! Shared by the tests of the checks: facts from a few lines, and what the whole pipeline makes of them.

use super::{Container, Outcome};
use crate::ask::{self, Ask};
use crate::manifest::{self, Text, view};
use crate::observed::Skip;
use crate::report::{Finding, Report, SkipReason, Status};
use crate::snapshot::{Answer, Folded, Place, Snapshot};
use crate::source::SourceFile;
use std::sync::Arc;

/// Answers, as tests hold them.
pub(crate) type Answers = Vec<(&'static Ask, String)>;

/// A recorded container with these answers.
pub(crate) fn container<T: AsRef<str>>(role: &str, answers: &[(&Ask, T)]) -> Snapshot {
    let place = Place {
        kind: crate::snapshot::PlaceKind::Pod,
        workload: None,
        namespace: None,
        pod: format!("{role}-0"),
        container: None,
        node: None,
        role: Some(role.to_owned()),
    };
    let mut answers: std::collections::BTreeMap<String, Answer> = answers
        .iter()
        .map(|(ask, text)| (ask.id.to_owned(), Answer::Text(text.as_ref().to_owned())))
        .collect();
    // Who reads an environment looks for the files that set beside it.
    if answers.contains_key(ask::ENVIRONMENT.id) {
        for files in [&ask::UCX_SETTINGS, &ask::NCCL_SETTINGS] {
            let none = || Answer::Text(String::new());
            answers.entry(files.id.to_owned()).or_insert_with(none);
        }
    }
    Snapshot { place, answers }
}

/// Outputs that a person pasted.
pub(crate) fn pasted<T: AsRef<str>>(answers: &[(&Ask, T)]) -> Snapshot {
    Snapshot {
        place: Place::pasted(),
        ..container("decode", answers)
    }
}

/// What one check says about a recorded container.
pub(crate) fn outcome(run: fn(&Container<'_>) -> Outcome, snapshot: &Snapshot) -> Outcome {
    run(&Container::parse(snapshot))
}

/// What stands in the entry of one worker: each part as lines that begin at column 0.
#[derive(Clone, Copy, Default)]
pub(crate) struct Pod<'a> {
    container: &'a str,
    spec: &'a str,
    annotations: &'a str,
    component: &'a str,
}

impl<'a> Pod<'a> {
    /// The body of its container.
    pub(crate) fn of(container: &'a str) -> Self {
        Self {
            container,
            ..Self::default()
        }
    }

    /// Fields of the pod spec.
    pub(crate) fn spec(self, spec: &'a str) -> Self {
        Self { spec, ..self }
    }

    /// Annotations of the pod.
    pub(crate) fn annotations(self, annotations: &'a str) -> Self {
        Self {
            annotations,
            ..self
        }
    }

    /// Fields of the component, such as `sharedMemorySize`.
    pub(crate) fn component(self, component: &'a str) -> Self {
        Self { component, ..self }
    }
}

/// Appends lines at an indentation.
fn indented(out: &mut String, lines: &str, by: usize) {
    for line in lines.lines() {
        out.push_str(&format!("{:by$}{line}\n", ""));
    }
}

/// A v1beta1 graph of workers: name, type, entry.
pub(crate) fn beta(workers: &[(&str, &str, Pod<'_>)]) -> String {
    let mut text = "apiVersion: nvidia.com/v1beta1\nkind: DynamoGraphDeployment\nmetadata: {name: g}\nspec:\n  \
                    components:\n"
        .to_owned();
    for (name, kind, pod) in workers {
        indented(&mut text, &format!("- name: {name}\n  type: {kind}"), 4);
        indented(&mut text, pod.component, 6);
        indented(&mut text, "podTemplate:", 6);
        if !pod.annotations.is_empty() {
            indented(&mut text, "metadata:\n  annotations:", 8);
            indented(&mut text, pod.annotations, 12);
        }
        indented(&mut text, "spec:", 8);
        indented(&mut text, pod.spec, 10);
        indented(&mut text, "containers:\n  - name: main\n    image: i", 10);
        indented(&mut text, pod.container, 14);
    }
    text
}

/// A v1beta1 graph whose prefill worker `p` and decode worker `d` have these entries.
pub(crate) fn pair(prefill: Pod<'_>, decode: Pod<'_>) -> String {
    beta(&[("p", "prefill", prefill), ("d", "decode", decode)])
}

/// A v1beta1 graph with a prefill worker `p` and a decode worker `d`, both with this entry.
pub(crate) fn both(pod: Pod<'_>) -> String {
    pair(pod, pod)
}

/// A v1beta1 graph with a prefill worker `p` and a decode worker `d`, both with this container body.
pub(crate) fn graph(container: &str) -> String {
    both(Pod::of(container))
}

/// A v1beta1 graph whose prefill worker `p` and decode worker `d` have these container bodies.
pub(crate) fn two_sided(prefill: &str, decode: &str) -> String {
    pair(Pod::of(prefill), Pod::of(decode))
}

/// A v1beta1 graph of TensorRT-LLM workers `p` and `d` with these engine configurations, which ConfigMaps hold.
pub(crate) fn trtllm(prefill: &str, decode: &str) -> String {
    const START: &str = "command: [python3, -m, dynamo.trtllm, --extra-engine-args, /etc/e/engine.yaml]\n\
                         volumeMounts: [{name: e, mountPath: /etc/e}]";
    let side = |name: &str| format!("volumes: [{{name: e, configMap: {{name: {name}}}}}]");
    let map = |name: &str, engine: &str| {
        let mut text = format!(
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata:\n  engine.yaml: |\n"
        );
        indented(&mut text, engine, 4);
        text
    };
    let (of_prefill, of_decode) = (side("p"), side("d"));
    let graph = pair(
        Pod::of(START).spec(&of_prefill),
        Pod::of(START).spec(&of_decode),
    );
    format!("{graph}{}{}", map("p", prefill), map("d", decode))
}

/// A v1beta1 graph of one aggregated worker `w` with this entry: no KV leaves it.
pub(crate) fn alone(pod: Pod<'_>) -> String {
    beta(&[("w", "worker", pod)])
}

/// A v1beta1 graph of an encode worker `e` and the worker `w` that it feeds, with these container bodies.
pub(crate) fn encode_pd(encode: &str, pd: &str) -> String {
    let pd = format!("command: [python3, -m, dynamo.vllm, --disaggregation-mode, pd]\n{pd}");
    beta(&[
        ("e", "encode", Pod::of(encode)),
        ("w", "worker", Pod::of(&pd)),
    ])
}

/// A v1alpha1 graph with a prefill service `P` and a decode service `D`, both with this entry.
pub(crate) fn alpha(service: &str) -> String {
    let mut text =
        "apiVersion: nvidia.com/v1alpha1\nkind: DynamoGraphDeployment\nmetadata: {name: g}\nspec:\n  services:\n"
            .to_owned();
    for (name, role) in [("P", "prefill"), ("D", "decode")] {
        let head = format!("{name}:\n  componentType: worker\n  subComponentType: {role}");
        indented(&mut text, &head, 4);
        indented(&mut text, service, 6);
    }
    text
}

/// A Deployment without Dynamo's operator; disaggregated when its container starts an engine that hands KV on.
pub(crate) fn deployment(container: &str, spec: &str) -> String {
    let mut text =
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: g}\nspec:\n  template:\n    spec:\n".to_owned();
    indented(&mut text, spec, 6);
    indented(&mut text, "containers:\n  - name: main\n    image: i", 6);
    indented(&mut text, container, 10);
    text
}

/// Container and pod of one that asks for a GPU and nothing else.
pub(crate) const GPU: &str = "resources: {limits: {nvidia.com/gpu: 1}}";
/// Container whose resources nobody has filled in.
pub(crate) const UNFILLED: &str = "resources: ${RESOURCES}";
/// Container that asks for a GPU and an RDMA device.
pub(crate) const RDMA: &str = "resources: {limits: {nvidia.com/gpu: 1, rdma/ib: 1}}";
/// Container that asks for a GPU and EFA devices.
pub(crate) const EFA: &str = "resources: {limits: {nvidia.com/gpu: 1, vpc.amazonaws.com/efa: 4}}";
/// Container that uses the claim `c` of its pod.
pub(crate) const CLAIM: &str = "resources: {claims: [{name: c}]}";
/// Pod spec that keeps pods on different nodes.
pub(crate) const APART: &str = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: \
                                [{labelSelector: {}, topologyKey: kubernetes.io/hostname}]}}";
/// Pod spec that mounts the host's RDMA device nodes for [`HOST_DEVICES`].
pub(crate) const HOST_VOLUME: &str = "volumes: [{name: ib, hostPath: {path: /dev/infiniband}}]";
/// Container that mounts the volume of [`HOST_VOLUME`].
pub(crate) const HOST_DEVICES: &str = "volumeMounts: [{name: ib, mountPath: /dev/infiniband}]";

/// Pod spec that declares the claim `c` on this template.
pub(crate) fn claims(template: &str) -> String {
    format!("resourceClaims: [{{name: c, resourceClaimTemplateName: {template}}}]")
}

/// A ComputeDomain whose channel has this template.
pub(crate) fn channel(template: &str) -> String {
    format!(
        "---\napiVersion: resource.nvidia.com/v1beta1\nkind: ComputeDomain\nmetadata: {{name: cd}}\nspec: {{channel: \
         {{resourceClaimTemplate: {{name: {template}}}}}}}\n"
    )
}

/// A claim template for devices of this class.
pub(crate) fn claim_template(template: &str, class: &str) -> String {
    format!(
        "---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata: {{name: {template}}}\nspec: {{spec: \
         {{devices: {{requests: [{{name: r, exactly: {{deviceClassName: {class}}}}}]}}}}}}\n"
    )
}

/// `env` of a container, all values written out.
pub(crate) fn env(variables: &[(&str, &str)]) -> String {
    let list: Vec<String> = variables
        .iter()
        .map(|(name, value)| format!("{{name: {name}, value: {value:?}}}"))
        .collect();
    format!("env: [{}]", list.join(", "))
}

/// `env` of a container with one variable that only the running worker knows.
pub(crate) fn unread(name: &str) -> String {
    format!("env: [{{name: {name}, valueFrom: {{fieldRef: {{fieldPath: status.podIP}}}}}}]")
}

/// Start of vLLM with these NIXL backends, as JSON.
pub(crate) fn vllm(backends: &str) -> String {
    format!(
        "command: [python3, -m, dynamo.vllm]\nargs: [--kv-transfer-config, '{{\"kv_connector\":\"NixlConnector\",\
         \"kv_role\":\"kv_both\",\"kv_connector_extra_config\":{{\"backends\":{backends}}}}}']"
    )
}

/// Start of SGLang with these flags.
pub(crate) fn sglang(flags: &str) -> String {
    format!("command: [python3, -m, dynamo.sglang]\nargs: [{flags}]")
}

/// Several parts of a container.
pub(crate) fn lines(parts: &[&str]) -> String {
    parts.join("\n")
}

/// Start of the mocker, which declares roles and moves no KV.
pub(crate) const MOCKER: &str = "command: [python3, -m, dynamo.mocker]";

/// What one check says of each manifest: the statuses of its findings in the order of the report. An empty list says
/// that the check does not apply. Whatever is skipped has a reason that costs something.
pub(crate) fn table(name: &str, rows: &[(&str, String, &[Status])]) {
    for (what, text, expected) in rows {
        assert_eq!(statuses(text, name), *expected, "{name}, {what}:\n{text}");
        for finding in named(&report(text), name) {
            let costs = finding.reason.map(|r| r != SkipReason::NotApplicable);
            let skipped = finding.status == Status::Skipped;
            assert_eq!(costs, skipped.then_some(true), "{name}, {what}");
        }
    }
}

/// The whole report of a manifest.
pub(crate) fn report(text: &str) -> Report {
    let inventory = read(text);
    let findings = super::run(&inventory, &[]);
    let workloads = inventory
        .workloads
        .iter()
        .enumerate()
        .map(|(i, w)| view::workload(w, i + 1))
        .collect();
    Report::new(
        "env",
        workloads,
        findings,
        inventory.errors,
        inventory.notes,
    )
}

/// The statuses of all findings of one name, in the order of the report.
pub(crate) fn statuses(text: &str, name: &str) -> Vec<Status> {
    named(&report(text), name).map(|f| f.status).collect()
}

fn named<'r>(report: &'r Report, name: &str) -> impl Iterator<Item = &'r Finding> {
    report.checks.iter().filter(move |f| f.name == name)
}

/// The environment of a container in which no worker was found, with no catalogued variable.
pub(crate) const SHELL: &str = "# process self probe\n";

/// No answer at all.
pub(crate) const NOTHING: &[(&Ask, &str)] = &[];

/// The same answers with some in place of others, or beside them.
pub(crate) fn changed(answers: &Answers, other: &[(&'static Ask, &str)]) -> Answers {
    let mut all = answers.clone();
    for (ask, text) in other {
        all.retain(|(a, _)| a.id != ask.id);
        all.push((ask, (*text).to_owned()));
    }
    all
}

/// One InfiniBand adapter in this state, and what opening its node gives.
pub(crate) fn hca(name: &str, state: &str, opened: &str) -> Answers {
    let mut answers = hcas(&[state]);
    for (ask, text) in &mut answers {
        *text = text.replace("mlx5_0", name);
        if ask.id == ask::DEV_INFINIBAND_OPEN.id {
            *text = format!("uverbs0: {opened}");
        }
    }
    answers
}

/// InfiniBand adapters with these states, all of them granted.
pub(crate) fn hcas(states: &[&str]) -> Answers {
    let mut answers: Answers = Vec::new();
    let mut add =
        |ask: &'static Ask, text: String| match answers.iter_mut().find(|(a, _)| a.id == ask.id) {
            Some((_, all)) => all.push_str(&text),
            None => answers.push((ask, text)),
        };
    for (n, state) in states.iter().enumerate() {
        let phys = if state.starts_with("1:") {
            "2: Polling"
        } else {
            "5: LinkUp"
        };
        let device = format!("/sys/class/infiniband/mlx5_{n}");
        let port = format!("{device}/ports/1");
        add(
            &ask::RDMA_PORTS,
            format!(
                "{port}/state: {state}\n{port}/phys_state: {phys}\n{port}/rate: 400 Gb/sec (4X NDR)\n\
                 {port}/link_layer: InfiniBand\n{port}/lid: 0x{:x}\n{port}/sm_lid: 0x1\n",
                n + 2
            ),
        );
        add(
            &ask::RDMA_ATTRIBUTES,
            format!(
                "{device}/node_type: 1: CA\n{device}/hca_type: MT4129\n{device}/device/vendor: 0x15b3\n\
                 {device}/device/device: 0x1021\n{device}/device/numa_node: {}\n",
                n / 4
            ),
        );
        add(
            &ask::RDMA_UVERBS,
            format!("/sys/class/infiniband_verbs/uverbs{n}/ibdev: mlx5_{n}\n"),
        );
        add(&ask::DEV_INFINIBAND, format!("uverbs{n}\n"));
        add(&ask::DEV_INFINIBAND_OPEN, format!("uverbs{n}: open\n"));
    }
    answers
}

/// RoCE adapters, ACTIVE and granted, each with an interface: GID 1 is link-local, 2 is version 1, 3 is routable.
pub(crate) fn roce(count: usize) -> Answers {
    let mut answers = hcas(&vec!["4: ACTIVE"; count]);
    let (mut gids, mut addresses) = (String::new(), String::new());
    for (_, text) in &mut answers {
        *text = text
            .replace("link_layer: InfiniBand", "link_layer: Ethernet")
            .replace("sm_lid: 0x1", "sm_lid: 0x0");
    }
    for n in 0..count {
        let port = format!("/sys/class/infiniband/mlx5_{n}/ports/1");
        for (index, kind, gid) in [
            (
                0,
                "IB/RoCE v1",
                "fe80:0000:0000:0000:5450:ccff:fe8e:4652".to_owned(),
            ),
            (
                1,
                "RoCE v2",
                "fe80:0000:0000:0000:5450:ccff:fe8e:4652".to_owned(),
            ),
            (
                2,
                "IB/RoCE v1",
                format!("0000:0000:0000:0000:0000:ffff:0a00:000{}", n + 1),
            ),
            (
                3,
                "RoCE v2",
                format!("0000:0000:0000:0000:0000:ffff:0a00:000{}", n + 1),
            ),
        ] {
            gids.push_str(&format!(
                "{port}/gid_attrs/types/{index}: {kind}\n{port}/gids/{index}: {gid}\n\
                 {port}/gid_attrs/ndevs/{index}: net{n}\n"
            ));
        }
        addresses.push_str(&format!(
            "{}: net{n}    inet 10.0.0.{}/24 scope global net{n}\n{}: net{n}    inet6 fd00::1/64 scope global\n",
            n + 2,
            n + 1,
            n + 2
        ));
    }
    answers.push((&ask::RDMA_GIDS, gids));
    answers.push((&ask::IP_ADDR, addresses));
    answers
}

/// The gravest status of one check about a container with these answers.
pub(crate) fn verdict<T: AsRef<str>>(
    run: fn(&Container<'_>) -> Outcome,
    role: &str,
    answers: &[(&Ask, T)],
) -> Result<Status, Skip> {
    let drafts = outcome(run, &container(role, answers))?;
    for draft in &drafts {
        if draft.status == Status::Ok {
            assert!(!draft.evidence.is_empty(), "ok without evidence: {draft:?}");
        }
        if draft.status >= Status::Warn {
            assert!(draft.fix.is_some(), "nothing to do about it: {draft:?}");
        }
    }
    drafts
        .iter()
        .map(|draft| draft.status)
        .max()
        .ok_or_else(Skip::not_applicable)
}

/// A deployment in a cluster: pods with what was read in each, as `check` sees it.
pub(crate) struct Fleet {
    snapshots: Vec<Snapshot>,
    record: crate::snapshot::Deployment,
    bodies: std::collections::BTreeMap<&'static str, String>,
    written: Option<String>,
    spec: String,
    budget: Option<crate::report::KvBudget>,
}

impl Fleet {
    /// One pod per entry, `prefill-0`, `decode-1` .., each on a node of its own, `node-0`, `node-1` ..
    pub(crate) fn of<T: AsRef<str>>(pods: &[(&'static str, &[(&Ask, T)])]) -> Self {
        let mut snapshots = Vec::new();
        let mut bodies = std::collections::BTreeMap::new();
        for (position, (role, answers)) in pods.iter().enumerate() {
            let mut snapshot = container(role, answers);
            snapshot.place.pod = format!("{role}-{position}");
            snapshot.place.node = Some(format!("node-{position}"));
            snapshot.place.workload = Some("g".to_owned());
            let reached = Answer::Text(format!("pod llm/{role}-{position}"));
            snapshot
                .answers
                .entry(ask::TARGET.id.to_owned())
                .or_insert(reached);
            snapshots.push(snapshot);
            bodies.insert(*role, String::new());
        }
        Self {
            snapshots,
            record: crate::snapshot::Deployment {
                name: "g".to_owned(),
                ..crate::snapshot::Deployment::default()
            },
            bodies,
            written: None,
            spec: String::new(),
            budget: None,
        }
    }

    /// Says how long KV travels.
    pub(crate) fn budget(mut self, budget: Option<crate::report::KvBudget>) -> Self {
        self.budget = budget;
        self
    }

    /// Lets every pod declare a claim on this template.
    pub(crate) fn claim(mut self, name: &str, template: &str) -> Self {
        self.spec = format!(
            "      resourceClaims: [{{name: {name}, resourceClaimTemplateName: {template}}}]\n"
        );
        self
    }

    /// Puts pods on nodes, by position.
    pub(crate) fn on(mut self, nodes: &[&str]) -> Self {
        for (snapshot, node) in self.snapshots.iter_mut().zip(nodes) {
            snapshot.place.node = Some((*node).to_owned());
        }
        self
    }

    /// Lines of the container of every pod of a role, beginning at column 0.
    pub(crate) fn body(mut self, role: &'static str, lines: &str) -> Self {
        self.bodies.insert(role, lines.to_owned());
        self
    }

    /// What the recipe or the object says: a manifest.
    pub(crate) fn written(mut self, text: String) -> Self {
        self.written = Some(text);
        self
    }

    /// Changes what was read beside the containers.
    pub(crate) fn record(mut self, change: impl FnOnce(&mut crate::snapshot::Deployment)) -> Self {
        change(&mut self.record);
        self
    }

    /// The findings of one check.
    pub(crate) fn findings(&self, name: &str) -> Vec<Finding> {
        let mut findings = self.all();
        findings.retain(|f| f.name == name);
        findings
    }

    fn running(&self) -> manifest::Inventory {
        let groups: String = self
            .bodies
            .iter()
            .map(|(role, body)| {
                let body: String = body.lines().map(|l| format!("        {l}\n")).collect();
                let kind = if *role == "agg" { "worker" } else { role };
                format!(
                    "- name: {role}\n  type: {kind}\n  podTemplate:\n    spec:\n      containers:\n      - name: main\n{body}{}",
                    self.spec
                )
            })
            .collect();
        let text = format!(
            "apiVersion: nvidia.com/v1beta1\nkind: Pods\nmetadata: {{name: g}}\ngroups:\n{groups}"
        );
        read(&text)
    }

    fn all(&self) -> Vec<Finding> {
        let inventory = self.running();
        let written = self.written.as_deref().map(read);
        let mut findings = super::run_on(&super::Subject {
            inventory: &inventory,
            snapshots: &self.folded(),
            pairs: &[],
            deployment: Some(super::Whole {
                object: None,
                strangers: &[],
                deployments: &[],
                written: written.as_ref().and_then(|w| w.workloads.first()),
                record: &self.record,
            }),
        });
        if let Some(budget) = &self.budget {
            findings.extend(super::run_on_budget(&inventory, budget));
        }
        findings
    }

    fn folded(&self) -> Vec<Folded> {
        self.snapshots.iter().cloned().map(Into::into).collect()
    }

    /// A pod that could not be looked into: everything but what the API says of it is missing.
    pub(crate) fn unreached(mut self, position: usize, reason: SkipReason, detail: &str) -> Self {
        if let Some(snapshot) = self.snapshots.get_mut(position) {
            snapshot.answers.retain(|id, _| id == ask::POD_SPEC.id);
            let missing = Answer::Missing {
                reason,
                detail: detail.to_owned(),
            };
            for ask in ask::ALL.iter().copied().chain([&ask::TARGET]) {
                snapshot.answers.insert(ask.id.to_owned(), missing.clone());
            }
        }
        self
    }

    /// What to fix first.
    pub(crate) fn fix_first(&self) -> Vec<crate::report::Fix> {
        let workloads = self
            .running()
            .workloads
            .iter()
            .map(|w| view::workload(w, 1))
            .collect();
        Report::new("check", workloads, self.all(), vec![], vec![]).fix_first
    }

    /// The statuses of one check.
    pub(crate) fn statuses(&self, name: &str) -> Vec<Status> {
        self.findings(name).iter().map(|f| f.status).collect()
    }
}

pub(crate) fn read(text: &str) -> manifest::Inventory {
    let source = Arc::new(SourceFile {
        path: "t.yaml".to_owned(),
        text: text.to_owned(),
    });
    let inventory = manifest::read(&[Text {
        source,
        named: true,
        companion: false,
    }]);
    assert_eq!(inventory.errors, []);
    inventory
}

/// The statuses of one check about a deployment with these pods.
pub(crate) fn deployed<T: AsRef<str>>(
    name: &str,
    pods: &[(&'static str, &[(&Ask, T)])],
) -> Vec<Status> {
    Fleet::of(pods).statuses(name)
}
