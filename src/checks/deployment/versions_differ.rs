use crate::ask;
use crate::check;
use crate::checks::compare::{component, names};
use crate::checks::declare::{Draft, Outcome};
use crate::checks::{Container, DeploymentScope};
use crate::observed::Skip;
use crate::report::{Evidence, SkipReason};
use std::collections::BTreeMap;

check! {
    /// Workers that exchange KV run different versions of UCX, NIXL or the engine.
    ///
    /// NCCL is compared within a component, where it is used.
    ///
    /// ## Why it matters
    /// The two ends shake hands with what their own versions know. Engines refuse peers whose connector differs, and versions
    /// of NIXL and UCX are not tested against each other.
    ///
    /// ## Fix
    /// Run one image in all workers.
    ///
    /// ## False alarms
    /// Different images with the same versions are not a difference.
    ///
    /// ## Sources
    /// llm-d/llm-d#355; vllm-project/vllm#29503.
    "DEP016" "versions-differ" on Deployment {
        subsystem: Deployment, kv_path: Supporting, worst: Warn, causes: &[], since: "0.1.0",
    }
}

/// Who runs which version.
type Versions<'a> = BTreeMap<String, Vec<&'a Container<'a>>>;

fn run(scope: &DeploymentScope<'_>) -> Outcome {
    scope.require_kv()?;
    let workers: Vec<&Container<'_>> = scope
        .containers
        .iter()
        .copied()
        .filter(|c| c.moves_kv())
        .collect();
    if workers.len() < 2 {
        return Err(Skip::not_applicable());
    }
    let mut libraries: BTreeMap<String, Versions<'_>> = BTreeMap::new();
    let mut images: Versions<'_> = BTreeMap::new();
    let (mut unseen, mut unread) = (None, Vec::new());
    for container in workers.iter().copied() {
        let known = versions(container);
        if known.is_empty() {
            let skip = container.facts.software.packages.get().err();
            let detail = format!(
                "no version of UCX, NIXL or an engine was seen in {}",
                container.place.pod
            );
            unseen = unseen.or(Some(
                skip.unwrap_or(Skip::new(SkipReason::NotFound, detail)),
            ));
            unread.push(container);
        }
        for (library, version) in known {
            let all = libraries.entry(library).or_default();
            all.entry(version).or_default().push(container);
        }
        let image = container
            .facts
            .pod
            .known()
            // What never ran has no image yet, and a name tells nothing beside a digest.
            .filter(|pod| pod.pulled)
            .and_then(|pod| pod.image.clone());
        if let Some(image) = image {
            images.entry(image).or_default().push(container);
        }
    }
    let differ: Vec<String> = libraries
        .iter()
        .filter(|(_, versions)| versions.len() > 1)
        .map(|(library, versions)| {
            let all: Vec<String> = versions
                .iter()
                .map(|(version, on)| format!("{version} on {}", names(on)))
                .collect();
            format!("{library} is {}", all.join(" and "))
        })
        .collect();
    if !differ.is_empty() {
        return Ok(vec![
            Draft::warn(differ.join("; "))
                .headline("workers that exchange KV run different versions")
                .with([seen(&libraries)])
                .fix("run one image in all workers"),
        ]);
    }
    if !unread.is_empty() && images.len() > 1 {
        let shown: Vec<String> = images
            .iter()
            .map(|(image, on)| format!("{image} on {}", names(on)))
            .collect();
        let detail = format!(
            "workers run different images, and the versions in {} were not seen: {}",
            names(&unread),
            shown.join(" and ")
        );
        let lines = shown.iter().map(String::as_str);
        return Ok(vec![
            Draft::warn(detail)
                .headline("workers that exchange KV run different images")
                .with([crate::snapshot::evidence(&ask::POD_SPEC, lines)])
                .fix("run one image in all workers"),
        ]);
    }
    if let Some(skip) = unseen {
        return Err(skip);
    }
    let all: Vec<String> = libraries
        .iter()
        .filter_map(|(library, versions)| Some(format!("{library} {}", versions.keys().next()?)))
        .collect();
    let note = match images.len() {
        0 | 1 => String::new(),
        many => format!("; they come from {many} images"),
    };
    Ok(vec![
        Draft::ok(format!(
            "all workers run the same versions: {}{note}",
            all.join(", ")
        ))
        .with([seen(&libraries)]),
    ])
}

/// Libraries by the name under which they are compared.
fn versions(container: &Container<'_>) -> Vec<(String, String)> {
    let software = &container.facts.software;
    let mut all = Vec::new();
    // The wheel that holds UCX tells two of its numbers, the tool three.
    if let Some((major, minor)) = software.ucx_version().and_then(|v| v.numbers()) {
        all.push(("UCX".to_owned(), format!("{major}.{minor}")));
    }
    all.extend(software.nixl().map(|v| ("NIXL".to_owned(), v.text)));
    all.extend(software.engine().map(|(name, v)| (name.to_owned(), v.text)));
    let nccl = format!("NCCL of {}", component(container));
    all.extend(software.nccl().map(|v| (nccl, v.text)));
    all
}

fn seen(libraries: &BTreeMap<String, Versions<'_>>) -> Evidence {
    let lines: Vec<String> = libraries
        .iter()
        .flat_map(|(library, versions)| {
            versions
                .iter()
                .map(move |(version, on)| format!("{library} {version}: {}", names(on)))
        })
        .collect();
    crate::snapshot::evidence(&ask::PYTHON_PACKAGES, lines.iter().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use crate::ask;
    use crate::checks::testing::{Answers, deployed};
    use crate::report::Status::{Ok, Skipped, Warn};

    fn with(nixl: &str, nccl: &str, image: &str) -> Answers {
        let packages = format!(
            "/v/site-packages/nixl_cu12-{nixl}.dist-info\n/v/site-packages/nvidia_nccl_cu12-{nccl}.dist-info\n\
             /v/site-packages/vllm-0.11.0.dist-info"
        );
        vec![
            (&ask::PYTHON_PACKAGES, packages),
            (&ask::POD_SPEC, format!("image-id: {image}\nready: true\n")),
        ]
    }

    #[test]
    fn table_of_statuses() {
        let one = with("1.3.0", "2.27.3", "a@sha256:1");
        let image = |image: &str| {
            vec![
                one[0].clone(),
                (&ask::POD_SPEC, format!("image-id: {image}\n")),
            ]
        };
        let blind = |image: &str| vec![(&ask::POD_SPEC, format!("image-id: {image}\n"))];
        for (what, role, prefill, decode, wanted) in [
            ("the same", "prefill", one.clone(), one.clone(), vec![Ok]),
            (
                "NIXL differs",
                "prefill",
                with("1.0.1", "2.27.3", "b"),
                one.clone(),
                vec![Warn],
            ),
            (
                "NCCL of another role",
                "prefill",
                with("1.3.0", "2.26.2", "b"),
                one.clone(),
                vec![Ok],
            ),
            (
                "NCCL of one role",
                "decode",
                with("1.3.0", "2.26.2", "b"),
                one.clone(),
                vec![Ok, Ok],
            ),
            (
                "only the image differs",
                "prefill",
                image("b@sha256:2"),
                one.clone(),
                vec![Ok],
            ),
            (
                "another image, not looked into",
                "prefill",
                blind("b@sha256:2"),
                one.clone(),
                vec![Warn],
            ),
            (
                "the same image, not looked into",
                "prefill",
                blind("a@sha256:1"),
                one.clone(),
                vec![Skipped],
            ),
            (
                "one that never ran",
                "prefill",
                vec![(&ask::POD_SPEC, "image: a:1\n".to_owned())],
                one.clone(),
                vec![Skipped],
            ),
            ("not read", "prefill", vec![], one.clone(), vec![Skipped]),
        ] {
            if what == "NCCL of one role" {
                let pods = [
                    ("decode", prefill.as_slice()),
                    ("decode", decode.as_slice()),
                    ("prefill", decode.as_slice()),
                ];
                assert_eq!(deployed("versions-differ", &pods), [Warn], "{what}");
                continue;
            }
            let pods = [(role, prefill.as_slice()), ("decode", decode.as_slice())];
            assert_eq!(deployed("versions-differ", &pods), wanted, "{what}");
        }
        let agg = [("agg", one.as_slice()), ("agg", one.as_slice())];
        assert_eq!(deployed("versions-differ", &agg), []);
    }
}
