//! Lines to paste: entries of `env`, and blocks of several places.

use crate::checks::Container;
use crate::checks::env::role_env_differs::COMPARED;
use crate::facts::container::process::InForce;
use crate::judge::Remedy;

/// An entry of `env` with a value.
pub(super) fn entry(variable: &str, value: &str) -> String {
    format!("env:\n  - name: {variable}\n    value: {}", scalar(value))
}

/// An entry of `env` that takes the address of the pod.
pub(super) fn pod_address(variable: &str) -> String {
    format!(
        "env:\n  - name: {variable}\n    valueFrom:\n      fieldRef:\n        fieldPath: status.podIP"
    )
}

/// What helps against the value of a variable, as lines under its container. What is to go can only be said.
pub(super) fn remedy(variable: &str, remedy: &Remedy) -> String {
    match remedy {
        Remedy::Write(value) => entry(variable, value),
        Remedy::PodAddress => pod_address(variable),
        Remedy::Remove => format!("# remove {variable} from env"),
    }
}

/// The same for a variable that is in force in a container. What a script sets when the container starts has the last word, and what
/// no manifest sets (an image does, or a file of UCX or NCCL) cannot be removed from one.
pub(super) fn in_force(
    container: &Container<'_>,
    setting: &InForce<'_>,
    remedy: &Remedy,
) -> Option<String> {
    let name = setting.variable.name;
    let written = container.written();
    let entry = written.and_then(|(_, worker)| worker.env.get(name));
    let pod = container.facts.pod.known();
    // Without the object the pods' own specs tell; with it they may have been changed by hand.
    let is_set = match written {
        Some(_) => entry.is_some(),
        None => pod.is_some_and(|pod| pod.env.contains_key(name)),
    };
    let by_script = entry.is_some_and(|entry| !entry.is_of_manifest());
    let removes = *remedy == Remedy::Remove;
    if by_script || removes && (!is_set || setting.file.is_some()) {
        return None;
    }
    // Both roles must have the same: what an image sets on one of them is not made good by writing it for that one.
    let elsewhere = !is_set && (written.is_some() || pod.is_some());
    if elsewhere && COMPARED.contains(&name) {
        return None;
    }
    Some(container.for_container(&self::remedy(name, remedy)))
}

/// A value as YAML reads it for a string. `env` takes no other type.
pub(super) fn scalar(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_,./-".contains(c);
    let words = ["y", "yes", "n", "no", "on", "off", "true", "false", "null"];
    let word = words.iter().any(|word| value.eq_ignore_ascii_case(word));
    let letter = value.starts_with(|c: char| c.is_ascii_alphabetic());
    if letter && !word && value.chars().all(plain) {
        return value.to_owned();
    }
    serde_json::Value::from(value).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_strings_to_yaml() {
        for (value, shown) in [
            ("rc_x,rc,cuda_copy,cuda_ipc", "rc_x,rc,cuda_copy,cuda_ipc"),
            ("mlx5_0:1", "\"mlx5_0:1\""),
            ("0", "\"0\""),
            ("y", "\"y\""),
            ("False", "\"False\""),
            ("expandable_segments:False", "\"expandable_segments:False\""),
            ("^cuda_ipc", "\"^cuda_ipc\""),
            ("", "\"\""),
        ] {
            assert_eq!(scalar(value), shown);
        }
        assert_eq!(
            remedy("UCX_TLS", &Remedy::Write("rc,cuda_copy".to_owned())),
            "env:\n  - name: UCX_TLS\n    value: rc,cuda_copy"
        );
        assert_eq!(
            remedy("UCX_TLS", &Remedy::Remove),
            "# remove UCX_TLS from env"
        );
    }
}
