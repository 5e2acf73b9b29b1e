//! Where every transport variable of a running worker comes from: the recipe, the object in the cluster, the pod spec, the
//! container, its start script. Each layer is shown as far as it was seen, and the last one is what counts.

use crate::catalogue;
use crate::facts::container::Facts;
use crate::facts::container::pod::{Pod, Setting};
use crate::facts::container::process::Whose;
use crate::manifest::view;
use crate::manifest::workload::{EnvValue, Worker, Workload};
use crate::report::{EnvironmentReport, LayerReport, VariableReport};
use crate::snapshot::Snapshot;
use crate::target::Target;
use std::collections::{BTreeMap, BTreeSet};

/// A layer that can set a variable, in the order in which they come to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Layer {
    Recipe,
    Object,
    Pod,
    Container,
    Process,
}

impl Layer {
    fn word(self) -> &'static str {
        match self {
            Self::Recipe => "recipe",
            Self::Object => "object",
            Self::Pod => "pod-spec",
            Self::Container => "container",
            Self::Process => "process",
        }
    }
}

/// What one layer says of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Said {
    Literal(String),
    /// Taken from elsewhere: where.
    From(String),
    Withheld,
}

impl Said {
    /// As a report shows it: the value, else where it comes from, else that it is withheld.
    fn shown(&self) -> (Option<String>, Option<String>, Option<bool>) {
        match self {
            Self::Literal(text) => (Some(view::value(text)), None, None),
            Self::From(place) => (None, Some(place.clone()), None),
            Self::Withheld => (None, None, Some(true)),
        }
    }
}

/// Where the layers above the container were read.
#[derive(Debug, Default)]
pub struct Above<'a> {
    /// The user's files.
    pub recipe: Option<&'a Workload>,
    /// The object in the cluster.
    pub object: Option<&'a Workload>,
    /// The pods' own specs.
    pub pods: Option<&'a Workload>,
}

/// All variables that the catalogue knows and some layer of this container sets.
pub fn of(target: Target, snapshot: &Snapshot, above: &Above<'_>) -> EnvironmentReport {
    let pod = Facts::pod(snapshot);
    let pod = pod.known();
    let component = pod.and_then(|p| p.component.as_deref());
    let worker = |workload: Option<&'_ Workload>| -> Option<BTreeMap<String, Said>> {
        let worker = workload?
            .workers
            .iter()
            .find(|w| Some(w.name.as_str()) == component)?;
        Some(written(worker))
    };
    let specified = pod.map(|pod| {
        let mut all = spec(pod);
        // A ConfigMap that was read says what the reference stands for.
        for (name, value) in worker(above.pods).into_iter().flatten() {
            if let Said::Literal(_) = value
                && !matches!(all.get(&name), Some(Said::Literal(_)))
            {
                all.insert(name, value);
            }
        }
        all
    });
    let process = Facts::environment(snapshot);
    // Without a worker the probe's own environment was read, and that is the container's.
    let own = process.known().filter(|p| p.whose != Whose::Probe);
    let bare = process.known().filter(|p| p.whose == Whose::Probe);
    let container = Facts::container_environment(snapshot);
    let layers: Vec<(Layer, Option<BTreeMap<String, Said>>)> = vec![
        (Layer::Recipe, worker(above.recipe)),
        (Layer::Object, worker(above.object)),
        (Layer::Pod, specified),
        (
            Layer::Container,
            container
                .known()
                .map(|seen| &**seen)
                .or(bare.map(|b| &b.variables))
                .map(literals),
        ),
        (Layer::Process, own.map(|p| literals(&p.variables))),
    ];
    let names: BTreeSet<&String> = layers
        .iter()
        .flat_map(|(_, known)| known.iter().flat_map(BTreeMap::keys))
        .collect();
    let variables = names
        .into_iter()
        .filter(|name| catalogue::find(name).is_some())
        .map(|name| (name.clone(), variable(name, &layers, pod)))
        .collect();
    EnvironmentReport { target, variables }
}

fn written(worker: &Worker) -> BTreeMap<String, Said> {
    let said = |value: &EnvValue| match value {
        // As it is read of a process.
        EnvValue::Literal(text) => Said::Literal(catalogue::one_line(text).into_owned()),
        EnvValue::ValueFrom => Said::From("valueFrom".to_owned()),
        EnvValue::Dynamic => Said::From("computed at start".to_owned()),
        EnvValue::Withheld => Said::Withheld,
    };
    let all = worker.env.iter();
    all.map(|(name, entry)| ((*name).to_owned(), said(&entry.value)))
        .collect()
}

fn spec(pod: &Pod) -> BTreeMap<String, Said> {
    let said = |setting: &Setting| match setting {
        Setting::Literal(text) => Said::Literal(text.clone()),
        Setting::From(kind) if kind == "withheld" => Said::Withheld,
        Setting::From(kind) => Said::From(kind.clone()),
    };
    let all = pod.env.iter();
    all.map(|(name, setting)| (name.clone(), said(setting)))
        .collect()
}

fn literals(variables: &BTreeMap<String, String>) -> BTreeMap<String, Said> {
    let all = variables.iter();
    all.map(|(name, value)| (name.clone(), Said::Literal(value.clone())))
        .collect()
}

fn variable(
    name: &str,
    layers: &[(Layer, Option<BTreeMap<String, Said>>)],
    pod: Option<&Pod>,
) -> VariableReport {
    let said: Vec<(Layer, &Said)> = layers
        .iter()
        .filter_map(|(layer, known)| Some((*layer, known.as_ref()?.get(name)?)))
        .collect();
    let known = |layer: Layer| {
        layers
            .iter()
            .any(|(l, known)| *l == layer && known.is_some())
    };
    let at = |layer: Layer| said.iter().find(|(l, _)| *l == layer).map(|(_, s)| *s);
    // The last layer that was seen decides, also by not having it.
    let last = [
        Layer::Process,
        Layer::Container,
        Layer::Pod,
        Layer::Object,
        Layer::Recipe,
    ]
    .into_iter()
    .find(|layer| known(*layer));
    let effective = last.and_then(at);
    let (value, reference, withheld) = effective.map(Said::shown).unwrap_or_default();
    let layer_report = |(layer, said): &(Layer, &Said)| {
        let (value, reference, withheld) = said.shown();
        LayerReport {
            layer: layer.word(),
            value,
            reference,
            withheld,
        }
    };
    VariableReport {
        value,
        reference,
        withheld,
        set_by: effective.map(|value| set_by(value, &at, &known, pod)),
        drifts: drifts(&said, last, effective),
        layers: said.iter().map(layer_report).collect(),
    }
}

/// The layer that gave the value that counts.
fn set_by<'s>(
    value: &Said,
    at: &impl Fn(Layer) -> Option<&'s Said>,
    known: &impl Fn(Layer) -> bool,
    pod: Option<&Pod>,
) -> &'static str {
    let same = |layer: Layer| match at(layer) {
        // What it stands for is not known, and it stands there.
        Some(Said::From(_) | Said::Withheld) => true,
        Some(Said::Literal(text)) if text.contains("$(") => true,
        Some(other) => other == value,
        None => false,
    };
    if known(Layer::Process) && known(Layer::Container) && !same(Layer::Container) {
        return "start script";
    }
    if known(Layer::Pod) && !same(Layer::Pod) {
        let from_elsewhere = pod.is_some_and(|p| !p.env_from.is_empty());
        return match (at(Layer::Pod), known(Layer::Container), from_elsewhere) {
            (None, _, true) => "whole ConfigMap or Secret, or image",
            (None, true, false) => "image",
            (None, false, false) => "image or start script",
            (Some(_), ..) => "start script",
        };
    }
    if known(Layer::Object) && at(Layer::Object).is_none() && known(Layer::Pod) {
        return "operator, or an admission webhook";
    }
    match () {
        () if known(Layer::Object) && same(Layer::Object) => "object",
        () if known(Layer::Pod) => "pod spec",
        () if known(Layer::Recipe) => "recipe",
        () => "environment",
    }
}

/// Two layers that both say what they want say different things, or what counts lacks what was asked for.
fn drifts(said: &[(Layer, &Said)], last: Option<Layer>, effective: Option<&Said>) -> bool {
    let mut values = said.iter().filter_map(|(_, s)| match s {
        // `$(OTHER)` is expanded when the container starts.
        Said::Literal(text) if !text.contains("$(") => Some(text),
        _ => None,
    });
    let first = values.next();
    let differ = values.any(|value| Some(value) != first);
    let lost = effective.is_none()
        && last >= Some(Layer::Container)
        && said.iter().any(|(layer, _)| *layer < Layer::Container);
    differ || lost
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use crate::checks::testing::container;

    fn report(spec: &str, container_env: &str, process: &str) -> EnvironmentReport {
        let snapshot = container(
            "decode",
            &[
                (&ask::POD_SPEC, spec),
                (&ask::CONTAINER_ENVIRONMENT, container_env),
                (&ask::ENVIRONMENT, process),
            ],
        );
        of(Target::input("x"), &snapshot, &Above::default())
    }

    #[test]
    fn every_layer_can_be_the_one_that_decides() {
        let live = |value: &str| format!("# process 7 dynamo.vllm\nUCX_TLS={value}\n");
        let cases = [
            (
                "UCX_TLS=rc\n",
                "UCX_TLS=rc\n",
                live("rc"),
                "pod spec",
                false,
            ),
            ("", "UCX_TLS=rc\n", live("rc"), "image", false),
            (
                "env-from: configmap f\n",
                "UCX_TLS=rc\n",
                live("rc"),
                "whole ConfigMap or Secret, or image",
                false,
            ),
            (
                "UCX_TLS=rc\n",
                "UCX_TLS=rc\n",
                live("tcp"),
                "start script",
                true,
            ),
            ("", "", live("tcp"), "start script", false),
            (
                "UCX_TLS<-configmap\n",
                "UCX_TLS=rc\n",
                live("rc"),
                "pod spec",
                false,
            ),
            (
                "UCX_TLS=$(X)\n",
                "UCX_TLS=rc\n",
                live("rc"),
                "pod spec",
                false,
            ),
        ];
        for (spec, container_env, process, set_by, drifts) in cases {
            let report = report(spec, container_env, &process);
            let variable = &report.variables["UCX_TLS"];
            assert_eq!(
                variable.set_by,
                Some(set_by),
                "{spec:?} {container_env:?} {process:?}"
            );
            assert_eq!(
                variable.drifts, drifts,
                "{spec:?} {container_env:?} {process:?}"
            );
        }
    }

    #[test]
    fn what_was_asked_for_and_is_not_there_drifts() {
        let report = report(
            "UCX_TLS=rc\n",
            "UCX_TLS=rc\n",
            "# process 7 dynamo.vllm\nNCCL_DEBUG=INFO\n",
        );
        let lost = &report.variables["UCX_TLS"];
        assert_eq!((lost.value.as_deref(), lost.drifts), (None, true));
        assert_eq!(report.variables["NCCL_DEBUG"].set_by, Some("start script"));
    }
}
