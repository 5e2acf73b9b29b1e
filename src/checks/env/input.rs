use crate::check;
use crate::checks::declare::{Draft, Outcome};
use crate::manifest::Inventory;
use crate::observed::Skip;

check! {
    /// The input holds no manifest, or no Dynamo worker.
    ///
    /// ## Why it matters
    /// A check of nothing must not pass: a wrong directory in a pipeline would look like a healthy deployment. So both are a
    /// fail, and the exit code is that of one.
    ///
    /// ## Fix
    /// Name the file or directory that holds the DynamoGraphDeployment (or the pod templates of the workers). Render Helm
    /// charts and kustomizations first: `helm template ... | dynamo-interconnect-check env -`.
    "ENV001" "env" on Input {
        subsystem: Env, kv_path: Off, worst: Fail, causes: &[], since: "0.1.0",
    }
}

fn run(inventory: &Inventory) -> Outcome {
    if inventory.inputs.is_empty()
        || !inventory.workloads.is_empty()
        || !inventory.errors.is_empty()
    {
        // Nothing was asked, workers answer for themselves, and an unreadable input is an error of the run.
        return Err(Skip::not_applicable());
    }
    if inventory.files == 0 || inventory.documents.is_empty() {
        let detail = match inventory.files {
            0 => "no YAML file (*.yaml, *.yml) in the input".to_owned(),
            n => format!("{} in the input, without a single document", count(n)),
        };
        return Ok(vec![Draft::fail(detail).headline_of_detail().fix(
            "name the file or directory that holds the deployment's manifests",
        )]);
    }
    let kinds: Vec<String> = inventory
        .documents
        .iter()
        .map(|(kind, n)| format!("{n} {kind}"))
        .collect();
    let detail = format!(
        "no Dynamo worker in {}: {}",
        count(inventory.files),
        kinds.join(", ")
    );
    Ok(vec![Draft::fail(detail).headline_of_detail().fix(
        "name the manifest of the DynamoGraphDeployment or of the worker pods; render Helm charts and kustomizations first",
    )])
}

fn count(files: usize) -> String {
    format!("{files} YAML file{}", if files == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::testing::{GPU, graph, table};
    use crate::report::{InputError, Status};

    #[test]
    fn nothing_to_judge_is_said() {
        let inputs = vec!["x".to_owned()];
        let empty = Inventory {
            inputs: inputs.clone(),
            ..Inventory::default()
        };
        assert!(run(&Inventory::default()).is_err(), "nothing was asked");
        assert_eq!(run(&empty).unwrap()[0].status, Status::Fail);
        let mut other = Inventory {
            inputs,
            files: 2,
            ..Inventory::default()
        };
        other.documents.insert("Service".into(), 2);
        let drafts = run(&other).unwrap();
        assert_eq!(drafts[0].status, Status::Fail);
        assert!(
            drafts[0].detail.contains("2 Service"),
            "{}",
            drafts[0].detail
        );
    }

    #[test]
    fn workers_and_errors_answer_for_themselves() {
        let unread = Inventory {
            errors: vec![InputError {
                object: "x.yaml".into(),
                message: "no permission".into(),
            }],
            ..Inventory::default()
        };
        assert_eq!(run(&unread).unwrap_err(), Skip::not_applicable());
        table("env", &[("a worker", graph(GPU), &[])]);
    }
}
