//! The preflight names what is missing, also for a limited service account.

use crate::connected;
use crate::fake::cluster::FakeCluster;
use dynamo_interconnect_check::cluster::access::{Access, IN_NAMESPACE, NODES, missing, review};
use serde_json::json;

#[tokio::test]
async fn nothing_is_missing() {
    let fake = FakeCluster::builder().start().await;
    let answers = review(&connected(&fake).await, Some("llm"), &IN_NAMESPACE).await;
    assert!(
        answers.iter().all(|(_, access)| *access == Access::Allowed),
        "{answers:?}"
    );
    assert_eq!(missing("llm", &answers), None);
    assert_eq!(fake.writes(), []);
}

#[tokio::test]
async fn each_missing_verb_is_named() {
    for need in IN_NAMESPACE.iter().chain(&NODES) {
        let fake = FakeCluster::builder()
            .deny(need.verb, need.resource)
            .start()
            .await;
        let needs = [IN_NAMESPACE.as_slice(), &NODES].concat();
        let answers = review(&connected(&fake).await, Some("llm"), &needs).await;
        let denied: Vec<String> = answers
            .iter()
            .filter(|(_, a)| matches!(a, Access::Denied(_)))
            .map(|(n, _)| n.to_string())
            .collect();
        assert_eq!(denied, [need.to_string()]);
        assert!(
            missing("llm", &answers)
                .unwrap()
                .contains(&need.to_string())
        );
    }
}

#[tokio::test]
async fn a_server_that_refuses_the_question_leaves_the_answer_open() {
    let refusal = json!({"reason": "Forbidden", "message": "no reviews here"});
    let fake = FakeCluster::builder()
        .fault("selfsubjectaccessreviews", 99, 403, refusal)
        .start()
        .await;
    let answers = review(&connected(&fake).await, Some("llm"), &IN_NAMESPACE).await;
    assert!(
        answers
            .iter()
            .all(|(_, access)| matches!(access, Access::Unknown(_))),
        "{answers:?}"
    );
    assert_eq!(missing("llm", &answers), None);
}
